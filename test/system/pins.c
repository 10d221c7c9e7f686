/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote pins between processes (RHI-PIN): the owner of a region on node 0, and who pins it, on
 * node 0 and on node 1. Askers are killed while they hold pins, a primary is killed under its
 * askers, and others take over from primaries; pins.sh does the latter when this program says that
 * it is time, and then writes a line to its standard input.
 *
 *   pins INSTANCE-0 INSTANCE-1
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define AREA       9u
#define BYTES      65536u
#define PATIENCE_S 40 /* for what must come */

struct asker {
	pid_t pid;
	int socket;
};

static struct pmx_node *node;
static struct pmx_context *ctx;
static void *memory;
static struct pmx_remote remote;

static void
open_context(const char *instance, uint16_t number)
{
	double end = now_s() + PATIENCE_S;
	int r = pmx_node_attach(&node, instance, NULL);

	while (r == 0 && (r = pmx_context_open(&ctx, node, number, NULL)) == -EBUSY &&
		now_s() < end) {
		usleep(1000);
		r = 0;
	}
	if (r != 0) {
		printf("not ok pins context %u of %s: %s\n", number, instance, pmx_strerror(r));
		exit(1);
	}
}

static void
judge(const char *name, bool good, int result, double since)
{
	printf("%s pins__%s # %s after %.0f ms\n", good ? "ok" : "not ok", name,
		result ? pmx_strerror(result) : "ended", (now_s() - since) * 1e3);
	fflush(stdout);
	failed |= !good;
}

/* ------------------------------------------------------------------ who pins */

/* Told 'p' it pins, 'u' it releases, and says what came of it. */
static void
ask(const char *instance, uint16_t number, int socket)
{
	const struct pmx_transfer t = {
		.peer = {0, 1},
		.flags = PMX_AREA,
		.key = AREA,
		.len = BYTES,
	};
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_context(instance, number);
	while (recv(socket, &word, 1, 0) == 1) {
		pmx_transfer_id id;
		int r = (word == 'p' ? pmx_remote_pin : pmx_remote_unpin)(ctx, &t, &id);

		while (r == 0)
			r = pmx_transfer_done(ctx, id);
		send(socket, &r, sizeof(r), 0);
	}
	_exit(0);
}

static struct asker
start(const char *instance, uint16_t number)
{
	struct asker a;
	int s[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) != 0)
		exit(2);
	fflush(stdout);
	a.pid = fork();
	if (a.pid == 0) {
		close(s[0]);
		ask(instance, number, s[1]);
	}
	close(s[1]);
	a.socket = s[0];
	return a;
}

static int
does(const struct asker *a, char word)
{
	int r = -EIO;

	if (send(a->socket, &word, 1, MSG_NOSIGNAL) != 1 ||
		recv(a->socket, &r, sizeof(r), 0) != sizeof(r))
		return -EIO;
	return r;
}

static void
must_answer(const struct asker *a, char word, int right)
{
	int r = does(a, word);

	if (r == right)
		return;
	printf("not ok pins '%c' ended with %d (%s), not %d\n", word, r,
		pmx_strerror(r < 0 ? r : 0), right);
	failed = true;
}

static void
kill_asker(const struct asker *a)
{
	kill(a->pid, SIGKILL);
	waitpid(a->pid, NULL, 0);
	close(a->socket);
}

/* ------------------------------------------------------------------ whose memory it is */

static void
share(void)
{
	int r = pmx_area_register(ctx, AREA, memory, BYTES, PMX_ANYONE | PMX_REMOTE_READ, &remote);

	if (r == 0)
		return;
	printf("not ok pins pmx_area_register: %s\n", pmx_strerror(r));
	exit(1);
}

static int
deregister_within(double seconds)
{
	double end = now_s() + seconds;
	int r;

	while ((r = pmx_deregister(ctx, remote.key)) == -EBUSY && now_s() < end)
		usleep(1000);
	return r;
}

static void
held(const char *name)
{
	int r = deregister_within(0.3);

	if (r != -EBUSY)
		judge(name, false, r, now_s());
}

/* pins.sh does that, and says when. */
static void
say(const char *what)
{
	char line[64];

	printf("# now %s\n", what);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		exit(2);
}

static void
killed(const char *name, const struct asker *a, unsigned times)
{
	share();
	for (unsigned i = 0; i < times; i++)
		must_answer(a, 'p', 1);
	held(name);
	double since = now_s();

	kill_asker(a);
	int r = deregister_within(PATIENCE_S);

	judge(name, r == 0, r, since);
}

int
main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	struct asker near = start(argv[1], 2), far = start(argv[2], 2),
		     near_too = start(argv[1], 3), far_too = start(argv[2], 3),
		     lost = start(argv[2], 4);
	double since;
	int r;

	open_context(argv[1], 1);
	if (pmx_alloc(ctx, BYTES, &memory) != 0)
		return 2;
	killed("asker_of_this_node_killed", &near, 3);
	killed("asker_of_another_node_killed", &far, 3);

	/* one primary takes over from another, at either end */
	share();
	must_answer(&far_too, 'p', 1);
	must_answer(&near_too, 'p', 1);
	say("take over 0");
	held("owner_s_primary_taken_over");
	must_answer(&far_too, 'p', 1);
	must_answer(&far_too, 'u', 1);
	must_answer(&near_too, 'u', 1);
	must_answer(&near_too, 'u', -ENOKEY);
	held("owner_s_primary_taken_over");
	say("take over 1");
	held("asker_s_primary_taken_over");
	since = now_s();
	kill_asker(&far_too);
	r = deregister_within(PATIENCE_S);
	judge("asker_killed_after_take_overs", r == 0, r, since);

	/* who pins is there no more, and nobody says so */
	share();
	must_answer(&lost, 'p', 1);
	held("asker_s_node_killed");
	say("kill 1");
	since = now_s();
	r = deregister_within(PATIENCE_S);
	judge("asker_s_node_killed", r == 0, r, since);
	kill_asker(&lost);
	kill_asker(&near_too);
	pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}
