/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lanes that poll a port of net_memif while its peer goes: drivers/memif_lanes.c and
 * drivers/ethdev.c, with two ports of this process that are each other's peers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "import.h"
#include "link.h"
#include "memif_lanes.h"
#include "node/memif_socket.h"

#define PARTINGS    300
#define PATIENCE_US 20000000
#define AGAIN_US    100000 /* until a client that was not let in tries again */
#define FRAME_BYTES 1000
#define FRAMES      32

static struct {
	struct rte_mempool *pool;
	struct link links[2]; /* server, client */
	atomic_bool ends;
	atomic_uint received;
} both;

/* ------------------------------------------------------------------ waiting for a lane */

static struct memif_lanes *lanes;
static atomic_bool waited;

static void *
shut_lanes(void *arg)
{
	memif_lanes_shut(lanes);
	atomic_store(&waited, true);
	return arg;
}

/* Begin to shut lanes of a port that has not been started, of which lane 1 is inside. */
static pthread_t
shut_with_lane_inside(void)
{
	pthread_t thread;

	lanes = memif_lanes_new(0, 3);
	assert_non_null(lanes);
	atomic_store(&waited, false);
	assert_true(memif_lane_enter(lanes, &lanes->lane[1]));
	assert_int_equal(pthread_create(&thread, NULL, shut_lanes, NULL), 0);
	usleep(50000);
	assert_false(atomic_load(&waited));
	return thread;
}

static void
memif_lanes_shut__waits_for_who_is_inside(void **state)
{
	const pthread_t thread = shut_with_lane_inside();

	(void)state;
	memif_lane_leave(&lanes->lane[1]);
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++) {
		assert_false(memif_lane_enter(lanes, &lanes->lane[i]));
		memif_lane_leave(&lanes->lane[i]);
	}
	memif_lanes_free(lanes);
}

/* A lane that is inside nearly always leaves between two turns. */
static void
memif_lanes_shut__waits_for_no_further_turn(void **state)
{
	const pthread_t thread = shut_with_lane_inside();

	(void)state;
	atomic_fetch_add(&lanes->lane[1].turns, 2);
	pthread_join(thread, NULL);
	memif_lanes_free(lanes);
}

/* ------------------------------------------------------------------ imports */

static void
import_replace__says_what_is_missing(void **state)
{
	(void)state;
	assert_false(import_replace("no-such-object", "munmap", (void *)munmap));
	assert_false(import_replace("librte_net_memif", "no_such_function", (void *)munmap));
}

/* ------------------------------------------------------------------ sockets that are left */

static void
clear_socket(const char *path)
{
	char device[256];
	char *arguments[] = {"test", "--vdev", device};

	snprintf(device, sizeof(device), "net_memif0,role=server,socket=%s,socket-abstract=no",
		path);
	node_memif_sockets_clear(3, arguments);
}

static void
node_memif_sockets_clear__removes_what_a_dead_server_left(void **state)
{
	char folder[] = "/tmp/pmx-memif.XXXXXX", file[64];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
	snprintf(file, sizeof(file), "%s/file", folder);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	clear_socket(address.sun_path);
	assert_int_equal(access(address.sun_path, F_OK), 0); /* its server lives */
	close(fd);
	fd = open(file, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	clear_socket(file);
	assert_int_equal(access(file, F_OK), 0);
	clear_socket(address.sun_path);
	assert_int_equal(access(address.sun_path, F_OK), -1);
	unlink(file);
	assert_int_equal(rmdir(folder), 0);
}

/* ------------------------------------------------------------------ a peer that goes */

static void
send_frames(struct link *l)
{
	struct rte_mbuf *frames[FRAMES];
	uint16_t sent;

	if (rte_pktmbuf_alloc_bulk(both.pool, frames, FRAMES) != 0)
		return;
	for (int i = 0; i < FRAMES; i++)
		memset(rte_pktmbuf_append(frames[i], FRAME_BYTES), i, FRAME_BYTES);
	sent = l->ops->tx(l, 0, frames, FRAMES);
	rte_pktmbuf_free_bulk(frames + sent, FRAMES - sent);
}

static void *
poll_link(void *arg)
{
	struct link *l = arg;
	struct rte_mbuf *frames[FRAMES];

	while (!atomic_load(&both.ends)) {
		const uint16_t n = l->ops->rx(l, 0, frames, FRAMES);

		rte_pktmbuf_free_bulk(frames, n);
		atomic_fetch_add(&both.received, n);
		send_frames(l);
	}
	return arg;
}

static bool
both_are_up(void)
{
	struct link_stats unused;

	for (int i = 0; i < 2; i++)
		both.links[i].ops->stats(&both.links[i], &unused);
	return both.links[0].up && both.links[1].up;
}

/* Part the client from its server, and let it come back. */
static void
part(void)
{
	struct link *client = &both.links[1];
	unsigned received;

	client->ops->revive(client);
	for (int us = 1000; !both_are_up(); us += 1000) {
		assert_true(us < PATIENCE_US);
		if (us % AGAIN_US == 0)
			client->ops->revive(client);
		usleep(1000);
	}
	received = atomic_load(&both.received);
	for (int us = 0; atomic_load(&both.received) == received; us += 1000) {
		assert_true(us < PATIENCE_US);
		usleep(1000);
	}
}

static void
ethdev__lanes_poll_while_the_peer_goes(void **state)
{
	pthread_t lane[2];

	(void)state;
	for (uint16_t i = 0; i < 2; i++) {
		struct link_config config = {
			.driver = "ethdev",
			.mtu = 1500,
			.queues = 1,
			.rx_descriptors = 256,
			.tx_descriptors = 256,
		};

		/* as the client of a node whose link has faults does */
		snprintf(config.fault, sizeof(config.fault), "%s", i == 1 ? "loss=1%" : "");
		snprintf(config.port, sizeof(config.port), "net_memif%u", i);
		assert_int_equal(link_open(&both.links[i], &config, i, both.pool), 0);
	}
	atomic_store(&both.ends, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&lane[i], NULL, poll_link, &both.links[i]), 0);
	for (int i = 0; i < PARTINGS; i++)
		part();
	atomic_store(&both.ends, true);
	for (int i = 0; i < 2; i++)
		pthread_join(lane[i], NULL);
	for (int i = 0; i < 2; i++)
		link_close(&both.links[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memif_lanes_shut__waits_for_who_is_inside),
		cmocka_unit_test(memif_lanes_shut__waits_for_no_further_turn),
		cmocka_unit_test(import_replace__says_what_is_missing),
		cmocka_unit_test(node_memif_sockets_clear__removes_what_a_dead_server_left),
		cmocka_unit_test(ethdev__lanes_poll_while_the_peer_goes),
	};
	char server[128], client[128];
	char *eal[] = {"test_memif_lanes", "--no-huge", "--no-pci", "-m", "128", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", server, client, NULL};

	snprintf(server, sizeof(server), "--vdev=net_memif0,role=server,socket=@pmx-lanes-%d",
		getpid());
	snprintf(client, sizeof(client), "--vdev=net_memif1,role=client,socket=@pmx-lanes-%d",
		getpid());
	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - 1, eal) < 0)
		return 1;
	both.pool = rte_pktmbuf_pool_create("frames", 4095, 64, 0, 4096, SOCKET_ID_ANY);
	return both.pool == NULL ? 1
				 : cmocka_run_group_tests_name("memif_lanes", tests, NULL, NULL);
}
