/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures the raw-link floor with app/pmx-perf/floor.c: forks a responder on core 1 and is the
 * initiator on core 0, both spinning DPDK primaries. Without arguments over net_memif, once with
 * standard and once with jumbo frames; `floor_main VDEV VDEV [MTU]` takes the initiator's and the
 * responder's --vdev instead, e.g. net_af_packet0,iface=X. Prints one line per measurement; exit
 * status 0 only if all were made. Reference values: memif round trip 1.1 us, 27 M frames/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "floor.h"

#define SECONDS 1.0

static char prefix[32];
static struct hist hist;

/* EAL, pool and port of one side. */
static int
side_start(struct floor *f, const char *core, const char *vdev, uint16_t mtu)
{
	char *argv[] = {"floor_main", "-l", (char *)(uintptr_t)core, "--no-pci", "--no-telemetry",
		"-m", "256", "--in-memory", "--log-level", "error", "--vdev",
		(char *)(uintptr_t)vdev};
	uint16_t room = mtu ? 9728 : RTE_MBUF_DEFAULT_DATAROOM;
	struct rte_mempool *pool;
	int rc;

	if (rte_eal_init(RTE_DIM(argv), argv) < 0) {
		fprintf(stderr, "core %s: rte_eal_init with %s: %s\n", core, vdev,
			rte_strerror(rte_errno));
		return -1;
	}
	pool = rte_pktmbuf_pool_create("floor", 4096, 256, 0, room + RTE_PKTMBUF_HEADROOM, 0);
	if (pool == NULL) {
		fprintf(stderr, "core %s: no pool: %s\n", core, rte_strerror(rte_errno));
		return -1;
	}
	rc = floor_port_start(f, 0, mtu, pool);
	if (rc == 0)
		rc = floor_link_wait(f, 5);
	if (rc != 0)
		fprintf(stderr, "core %s: %s\n", core, f->error);
	return rc;
}

static int
latency(struct floor *f, uint16_t bytes)
{
	uint64_t lost;
	int rc;

	hist_init(&hist);
	rc = floor_latency(f, bytes, 1, 200000, 20000, &hist, &lost);
	if (rc != 0)
		return rc;
	printf("latency   %5u B  p50 %6lu ns  p99 %6lu ns  lost %lu\n", bytes,
		hist_percentile(&hist, 500000), hist_percentile(&hist, 990000), lost);
	return 0;
}

static int
rate(struct floor *f, uint16_t burst)
{
	struct floor_result r;
	int rc = floor_rate(f, 64, burst, SECONDS, &r);

	if (rc == 0)
		printf("rate         64 B  burst %2u  %.2f Mpps  lost %ld\n", burst,
			r.frames_per_s / 1e6, (long)(r.sent - r.received));
	return rc;
}

static int
bandwidth(struct floor *f, uint16_t bytes)
{
	struct floor_result r;
	int rc = floor_bandwidth(f, bytes, 1, 32, SECONDS, &r);

	if (rc == 0)
		printf("bandwidth %5u B  %.1f Gb/s of payload, %.1f of frames  lost %ld\n", bytes,
			r.gbits_per_s, r.frames_per_s * bytes * 8 / 1e9,
			(long)(r.sent - r.received));
	return rc;
}

static int
initiator(const char *vdev, uint16_t mtu)
{
	struct floor f;
	int rc = side_start(&f, "0", vdev, mtu);

	if (rc != 0)
		return rc;
	if (mtu) {
		rc = latency(&f, 9000);
		rc = rc ? rc : bandwidth(&f, 9000);
	} else {
		rc = latency(&f, 64);
		rc = rc ? rc : latency(&f, 1514);
		rc = rc ? rc : rate(&f, 1);
		rc = rc ? rc : rate(&f, 32);
		rc = rc ? rc : bandwidth(&f, 1514);
	}
	if (rc != 0)
		fprintf(stderr, "initiator: %s\n", f.error);
	if (floor_quit(&f) != 0)
		fprintf(stderr, "initiator: %s\n", f.error);
	floor_port_stop(&f);
	rte_eal_cleanup();
	return rc;
}

static int
responder(const char *vdev, uint16_t mtu)
{
	struct floor f;
	int rc = side_start(&f, "1", vdev, mtu);

	if (rc != 0)
		return rc;
	rc = floor_echo(&f, 60);
	if (rc != 0)
		fprintf(stderr, "responder: %s\n", f.error);
	floor_port_stop(&f);
	rte_eal_cleanup();
	return rc;
}

/* EAL can be initialised once in a process: each side is a child. */
static int
pair(const char *vdev0, const char *vdev1, uint16_t mtu)
{
	pid_t pid[2];
	int failed = 0, status;

	fflush(stdout);
	pid[0] = fork();
	if (pid[0] == 0)
		exit(responder(vdev1, mtu) ? 1 : 0);
	pid[1] = fork();
	if (pid[1] == 0)
		exit(initiator(vdev0, mtu) ? 1 : 0);
	for (int i = 0; i < 2; i++) {
		if (pid[i] < 0 || waitpid(pid[i], &status, 0) < 0 || status != 0)
			failed = 1;
	}
	return failed;
}

static int
memif_pair(uint16_t mtu)
{
	const char *jumbo = mtu ? ",bsize=9216" : "";
	char socket[64], server[160], client[160];
	int failed;

	snprintf(socket, sizeof(socket), "/tmp/%s.sock", prefix);
	snprintf(server, sizeof(server),
		"net_memif0,role=server,id=0,socket=%s,socket-abstract=no%s", socket, jumbo);
	snprintf(client, sizeof(client),
		"net_memif0,role=client,id=0,socket=%s,socket-abstract=no%s", socket, jumbo);
	failed = pair(client, server, mtu);
	unlink(socket);
	return failed;
}

int
main(int argc, char **argv)
{
	snprintf(prefix, sizeof(prefix), "floor_main.%d", (int)getpid());
	if (argc == 1)
		return memif_pair(0) | memif_pair(9000);
	if (argc == 3 || argc == 4)
		return pair(argv[1], argv[2], (uint16_t)(argc == 4 ? atoi(argv[3]) : 0));
	fprintf(stderr, "usage: floor_main [INITIATOR_VDEV RESPONDER_VDEV [MTU]]\n");
	return 2;
}
