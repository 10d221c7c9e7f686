/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cases of matched messages that random programs hardly meet: full rings, cancels that come too
 * late, memory and peers that go away, sleeping, hostile neighbours. Two embedded nodes with four
 * contexts each for every case; matching.sh runs them all. Usage: matched_cases [CASE...]; without
 * one, each in a process of its own.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>

#include "client/client.h"
#include "rma/engine/rma.h"
#include "rma/internal.h"
#include "engine/submit.h"
#include "helpers.h"
#include "core/wire/wire.h"

#define LONG 100000u /* is offered */
#define MUST(condition)                                                                            \
	((condition) ? (void)0 : fail("%s: line %d: %s", name, __LINE__, #condition))

static struct pmx_node *nodes[2];
static struct pmx_context *ctx[2][4];
static const char *name;
static char bytes[8][2 * LONG];
static unsigned mtu = 1500; /* of node 0 */

static void
turns(unsigned n)
{
	for (; n > 0; n--) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
}

static void
open_context(unsigned node, uint16_t number)
{
	MUST(pmx_context_open(&ctx[node][number], nodes[node], number, NULL) == 0);
}

static void
start(const char *matching, const char *engine, const char *limits)
{
	for (unsigned n = 0; n < 2; n++) {
		char text[1024], error[256];
		struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = cases%u\n[engine]\nmatching = %s\n%s\n[link 0]\n"
			"driver = loop\nport = cases\nmtu = %u\n"
			"[nodes]\n0 = auto\n1 = auto\n[limits]\ncontexts = 4\nmbufs = 16384\n%s\n",
			n, n, matching, engine, n == 0 ? mtu : 1500, limits);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
			fprintf(stderr, "%s\n", error);
			exit(2);
		}
	}
	for (unsigned n = 0; n < 2; n++) {
		for (uint16_t i = 0; i < 4; i++)
			open_context(n, i);
	}
}

static int
send(struct pmx_context *from, uint16_t node, uint16_t to, uint64_t tag, void *data, uint64_t len,
	uint32_t flags, pmx_request *r)
{
	const struct pmx_matched m = {
		.peer = {node, to},
		.tag = tag,
		.data = data,
		.len = len,
		.flags = flags,
	};

	return pmx_isend(from, &m, r);
}

static int
receive(struct pmx_context *at, uint64_t tag, void *data, uint64_t len, pmx_request *r)
{
	const struct pmx_matched m = {.peer = PMX_ANY_SOURCE, .tag = tag, .data = data, .len = len};

	return pmx_irecv(at, &m, r);
}

static int
wait_for(struct pmx_context *at, pmx_request *r)
{
	double end = now_s() + 20;
	int e;

	while ((e = pmx_test(at, r, NULL)) == 0 && now_s() < end)
		turns(1);
	return e;
}

/* ------------------------------------------------------------------ rings that fill */

static void
one_waits_and_the_others_find_their_receive(void)
{
	uint64_t word = 0;
	pmx_request r;

	start("client", "", "");
	MUST(send(ctx[0][0], 1, 0, 99, &word, 8, 0, NULL) == 0);
	turns(50);
	MUST(pmx_iprobe(ctx[1][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 99},
		     NULL) == 1);
	for (unsigned i = 0; i < 5000 && !failed; i++) {
		MUST(receive(ctx[1][0], 1, &word, 8, &r) == 0 &&
			send(ctx[0][0], 1, 0, 1, &word, 8, 0, NULL) == 0);
		turns(4);
		MUST(wait_for(ctx[1][0], &r) == 1);
	}
}

static void
no_more_may_wait_and_the_message_is_in_the_ring(void)
{
	uint64_t word = 0;
	pmx_request r;

	for (unsigned i = 0; i < 5; i++)
		MUST(send(ctx[0][0], 1, 0, i, &word, 8, 0, NULL) == 0);
	turns(100);
	MUST(receive(ctx[1][0], 4, &word, 8, &r) == 0 && wait_for(ctx[1][0], &r) == 1);
}

static void
no_more_may_wait_client(void)
{
	start("client", "", "unexpected = 4");
	no_more_may_wait_and_the_message_is_in_the_ring();
}

static void
no_more_may_wait_engine(void)
{
	start("engine", "", "unexpected = 4");
	no_more_may_wait_and_the_message_is_in_the_ring();
}

/* Frames of the sender are shorter than the receiver's buffers. */
static void
buffers_are_counted(void)
{
	struct pmx_matched none = {.peer = PMX_ANY_SOURCE, .tag = 5000};
	pmx_request r;
	unsigned n = 0;

	mtu = 500;
	start("client", "", "");
	for (unsigned k = 0; n < 150 && k < 30000; k++) {
		n += send(ctx[0][0], 1, 0, n, bytes[0], 1000, 0, NULL) == 0;
		turns(2);
		pmx_iprobe(ctx[1][0], &none, NULL);
	}
	MUST(n == 150 && receive(ctx[1][0], 149, bytes[1], 1000, &r) == 0 &&
		wait_for(ctx[1][0], &r) == 1);
}

/* ------------------------------------------------------------------ cancel */

static void
cancel_finds_its_own_answer(void)
{
	struct pmx_matched m = {.peer = PMX_ANY_SOURCE, .tag = 2, .data = bytes[0], .len = 8};
	pmx_request r, taken;
	uint64_t word = 0;

	start("engine", "burst = 1", "");
	MUST(receive(ctx[1][0], 1, &word, 8, &r) == 0);
	turns(20);
	MUST(send(ctx[0][0], 1, 0, 1, &word, 8, 0, NULL) == 0 &&
		send(ctx[0][0], 1, 0, 2, &word, 8, 0, NULL) == 0);
	turns(100);
	MUST(pmx_cancel(ctx[1][0], r) == -EINPROGRESS && pmx_test(ctx[1][0], &r, NULL) == 1);
	MUST(pmx_improbe(ctx[1][0], &m, &taken, NULL) == 1);
	MUST(pmx_imrecv(ctx[1][0], &m, &taken) == 0 && wait_for(ctx[1][0], &taken) == 1);
	MUST(pmx_iprobe(ctx[1][0], &m, NULL) == 0);
}

static void
cancel_beside_a_full_ring(void)
{
	struct pmx_context *x;
	uint64_t word = 0, other = 0;
	pmx_request r, r2;

	start("engine", "", "submissions = 8");
	x = ctx[1][0];
	MUST(receive(x, 1, &word, 8, &r) == 0);
	turns(20);
	MUST(send(ctx[0][0], 1, 0, 1, &word, 8, 0, NULL) == 0);
	turns(100);
	while (send(x, 0, 3, 7, &other, 8, 0, NULL) == 0)
		;
	MUST(pmx_cancel(x, r) == -EINPROGRESS && pmx_test(x, &r, NULL) == 1);
	MUST(receive(x, 5, &other, 8, &r2) == 0);
	word = 5;
	MUST(send(ctx[0][0], 1, 0, 5, &word, 8, 0, NULL) == 0 && wait_for(x, &r2) == 1 &&
		other == 5);
	word = 6; /* nobody receives that */
	MUST(send(ctx[0][0], 1, 0, 5, &word, 8, 0, NULL) == 0);
	turns(500);
	MUST(other == 5 &&
		pmx_iprobe(x, &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 5}, NULL) == 1);
}

/* ------------------------------------------------------------------ what goes away */

static void
memory_goes_while_receives_want_a_place(void)
{
	struct channel *ch;
	pmx_request s[12], r[12];
	void *p;

	start("engine", "", "transfers = 8");
	MUST(pmx_alloc(ctx[1][0], 12 * 2 * LONG, &p) == 0);
	for (unsigned i = 0; i < 12; i++)
		MUST(send(ctx[0][i / 4], 1, 0, i, bytes[i % 8], 2 * LONG, PMX_SYNC, &s[i]) == 0);
	turns(50);
	for (unsigned i = 0; i < 12; i++)
		MUST(receive(ctx[1][0], i, (char *)p + i * 2 * LONG, 2 * LONG, &r[i]) == 0);
	/* one step of the lane: receives are taken, nothing has come yet */
	ch = &nodes[1]->embedded->channels[0];
	submissions_scan(&nodes[1]->embedded->engines[0], ch);
	pmx_free(ctx[1][0], p);
	submissions_scan(&nodes[1]->embedded->engines[0], ch);
	const struct rma_context *c = rma_channel(ch)->rma->contexts[ch->ctx];

	for (uint32_t i = 0; i < c->ops_max; i++)
		MUST(c->ops[i].state == OP_FREE || c->ops[i].state == OP_ENDED ||
			c->ops[i].local.memory == NULL);
	for (unsigned i = 0; i < 12; i++)
		MUST(wait_for(ctx[1][0], &r[i]) < 0);
}

static void
senders_of_this_node_go(void)
{
	pmx_request s[3], r[3];

	start("engine", "", "transfers = 2");
	for (unsigned i = 0; i < 3; i++)
		MUST(send(ctx[1][1 + i], 1, 0, i, bytes[i], LONG, PMX_SYNC, &s[i]) == 0);
	turns(50);
	pmx_context_close(ctx[1][1]);
	pmx_context_close(ctx[1][2]);
	turns(50);
	for (unsigned i = 0; i < 3; i++)
		MUST(receive(ctx[1][0], i, bytes[4 + i], LONG, &r[i]) == 0);
	MUST(wait_for(ctx[1][0], &r[2]) == 1 && wait_for(ctx[1][3], &s[2]) == 1);
	MUST(wait_for(ctx[1][0], &r[0]) < 0 && wait_for(ctx[1][0], &r[1]) < 0);
}

static void
receiver_is_another_one(const char *matching, uint16_t node)
{
	pmx_request r;

	start(matching, "", "");
	MUST(send(ctx[0][0], node, 1, 1, bytes[0], LONG, PMX_SYNC, &r) == 0);
	turns(50);
	pmx_context_close(ctx[node][1]);
	open_context(node, 1);
	MUST(wait_for(ctx[0][0], &r) == -ECONNRESET);
}

static void
receiver_of_this_node_is_another_one(void)
{
	receiver_is_another_one("client", 0);
}

static void
receiver_is_another_one_client(void)
{
	receiver_is_another_one("client", 1);
}

static void
receiver_is_another_one_engine(void)
{
	receiver_is_another_one("engine", 1);
}

/* ------------------------------------------------------------------ results and sleeping */

static void
a_transfers_error_is_kept(void)
{
	pmx_transfer_id id;
	pmx_request s, r;
	void *p;

	start("client", "", "");
	MUST(pmx_alloc(ctx[0][0], 3 * LONG, &p) == 0);
	MUST(pmx_push(ctx[0][0],
		     &(struct pmx_transfer){.peer = {1, 0}, .local = p, .len = LONG, .key = 12345},
		     &id) == 0);
	while (pmx_transfers_pending(ctx[0][0]) != 0)
		turns(1);
	MUST(receive(ctx[1][0], 1, bytes[0], LONG, &r) == 0 &&
		send(ctx[0][0], 1, 0, 1, p, LONG, PMX_SYNC, &s) == 0);
	MUST(wait_for(ctx[1][0], &r) == 1 && wait_for(ctx[0][0], &s) == 1);
	MUST(pmx_transfer_done(ctx[0][0], id) == -ENOKEY);
}

static void
a_delivered_sends_error_is_kept(void)
{
	uint64_t word = 0;
	pmx_request r;

	start("client", "", "");
	MUST(send(ctx[0][0], 0, 77, 1, &word, 8, PMX_DELIVERED, &r) == 0);
	turns(20);
	pmx_sends_pending(ctx[0][0]);
	for (unsigned i = 0; i < 3; i++) {
		MUST(send(ctx[0][0], 0, 1, 1, &word, 8, 0, NULL) == 0);
		turns(50);
		pmx_sends_pending(ctx[0][0]);
	}
	MUST(pmx_test(ctx[0][0], &r, NULL) == -ECONNREFUSED);
}

static void
delivered_sends_that_nobody_asks_about_end(void)
{
	uint64_t word = 0;

	start("client", "", "receives = 16");
	for (unsigned i = 0; i < 100 && !failed; i++) {
		unsigned k = 0;

		while (send(ctx[0][0], 1, 0, 1, &word, 8, PMX_DELIVERED, NULL) == -EAGAIN &&
			k++ < 100000)
			turns(1);
		MUST(k < 100000);
	}
}

/* Check that a client does not sleep over what ended while the library looked. */
static void
nobody_sleeps_over_an_end(const char *matching, uint64_t len, uint32_t flags)
{
	struct pmx_context *x;
	pmx_request r, s;

	start(matching, "", "");
	x = ctx[1][0];
	MUST(pmx_before_select(x) == 0);
	pmx_after_select(x);
	turns(20);
	MUST(receive(x, 1, bytes[1], len, &r) == 0 &&
		send(ctx[0][0], 1, 0, 1, bytes[0], len, flags, &s) == 0);
	for (unsigned i = 0; i < 300; i++) {
		turns(1);
		if (i == 20 && strcmp(matching, "client") == 0)
			MUST(pmx_test(x, &r, NULL) == 0); /* its head is taken in */
	}
	MUST(pmx_before_select(x) == 1 && pmx_test(x, &r, NULL) == 1);
}

static void
nobody_sleeps_over_an_offer(void)
{
	nobody_sleeps_over_an_end("client", LONG, PMX_SYNC);
}

static void
nobody_sleeps_over_the_engines_receive(void)
{
	nobody_sleeps_over_an_end("engine", 8, 0);
}

static void
nobody_sleeps_over_an_ack(void)
{
	uint64_t word = 0;
	pmx_request s;

	start("client", "", "");
	MUST(pmx_before_select(ctx[0][0]) == 0);
	pmx_after_select(ctx[0][0]);
	turns(20);
	MUST(send(ctx[0][0], 1, 0, 1, &word, 8, PMX_DELIVERED, &s) == 0 &&
		pmx_test(ctx[0][0], &s, NULL) == 0);
	turns(2000);
	MUST(pmx_before_select(ctx[0][0]) == 1 && pmx_test(ctx[0][0], &s, NULL) == 1);
}

static void
what_was_not_sent_has_no_request(void)
{
	pmx_request r = 0;
	int e;

	start("client", "", "transfers = 4");
	for (unsigned i = 0; (e = send(ctx[0][0], 1, 0, i, bytes[0], LONG, 0, &r)) == 0 && i < 100;
		i++)
		r = 0;
	MUST(e == -EAGAIN && r == 0);
	while ((e = send(ctx[0][0], 1, 0, 1, bytes[0], 8, 0, &r)) == 0)
		;
	r = 0;
	MUST((e == -ENOBUFS || e == -EAGAIN) &&
		send(ctx[0][0], 1, 0, 1, bytes[0], 8, PMX_DELIVERED, &r) != 0 && r == 0);
}

static void
a_probed_message_is_no_request(void)
{
	struct pmx_matched m = {.peer = PMX_ANY_SOURCE, .tag = 1, .data = bytes[1], .len = 8};
	pmx_request r;

	start("client", "", "");
	MUST(send(ctx[0][0], 1, 0, 1, bytes[0], 8, 0, NULL) == 0);
	turns(50);
	MUST(pmx_improbe(ctx[1][0], &m, &r, NULL) == 1 &&
		pmx_wait_all(ctx[1][0], &r, 1, NULL, -1) == -EINVAL);
	MUST(pmx_imrecv(ctx[1][0], &m, &r) == 0 && pmx_wait(ctx[1][0], &r, NULL, -1) == 1);
}

/* ------------------------------------------------------------------ hostile neighbours */

/* A message whose first fragments are shorter than its head. */
static void
fragments_shorter_than_the_head(void)
{
	const struct wire_match h = {.op = WIRE_EAGER};
	const size_t room = 1ull << 30;
	struct pmx_context *x;
	struct channel *ch;
	struct pmx_buffer b;
	pmx_request r;
	uint8_t all[80];

	start("client", "", "");
	x = ctx[0][0];
	ch = &nodes[0]->embedded->channels[0];
	/* flow and peer are known; then it lies about its frames */
	MUST(send(x, 1, 0, 9, bytes[0], 1000, 0, NULL) == 0 &&
		receive(ctx[1][0], 9, bytes[1], 1000, &r) == 0);
	MUST(wait_for(ctx[1][0], &r) == 1);
	x->frag_len = x->one_max = ch->frag_len = ch->message.frag_len = ch->one_max = 8;
	memset(all, 'A', sizeof(all));
	memcpy(all, &h, sizeof(h));
	char *to = mmap(NULL, room, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	MUST(to != MAP_FAILED && pmx_get_send_buffer(x, sizeof(all), &b) == 0);
	MUST(pmx_buffer_write(x, &b, 0, all, sizeof(all)) == 0);
	MUST(ctx_submit(x, (struct pmx_addr){1, 0}, &b, SUBMIT_MATCHED, NULL) == 0);
	turns(100);
	MUST(receive(ctx[1][0], 0, to, room, &r) == 0 && wait_for(ctx[1][0], &r) == 1);
	for (unsigned i = 0; i < 1000; i++)
		MUST(to[i] == (i < 64 ? 'A' : 0));
}

/* The lane matches by buffers that their client gives back. */
static void
buffers_that_the_lane_has(void)
{
	struct pmx_context *x;
	pmx_request r;

	start("engine", "", "");
	x = ctx[1][0];
	memset(bytes[0], 'a', 1000);
	memset(bytes[1], 'V', 1000);
	MUST(send(ctx[0][0], 1, 0, 1, bytes[0], 1000, 0, NULL) == 0);
	turns(50);
	for (uint32_t i = 0; i < nodes[1]->embedded->bufs_count; i++)
		ctx_release(x, i);
	pmx_before_select(x);
	turns(2000);
	for (unsigned k = 0; k < 3000; k++) {
		send(ctx[0][2], 1, 1, 1, bytes[1], 1000, 0, NULL);
		turns(3);
		MUST(receive(ctx[1][1], 1, bytes[3], 1000, &r) == 0 &&
			wait_for(ctx[1][1], &r) == 1);
	}
	memset(bytes[4], 0, 1000);
	MUST(receive(x, 1, bytes[4], 1000, &r) == 0 && wait_for(x, &r) == 1 && bytes[4][0] == 'a');
}

/* ------------------------------------------------------------------ all of them */

/* clang-format off */
#define CASE(f) {#f, f}
/* clang-format on */
static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	CASE(one_waits_and_the_others_find_their_receive),
	CASE(no_more_may_wait_client),
	CASE(no_more_may_wait_engine),
	CASE(buffers_are_counted),
	CASE(cancel_finds_its_own_answer),
	CASE(cancel_beside_a_full_ring),
	CASE(memory_goes_while_receives_want_a_place),
	CASE(senders_of_this_node_go),
	CASE(receiver_of_this_node_is_another_one),
	CASE(receiver_is_another_one_client),
	CASE(receiver_is_another_one_engine),
	CASE(a_transfers_error_is_kept),
	CASE(a_delivered_sends_error_is_kept),
	CASE(delivered_sends_that_nobody_asks_about_end),
	CASE(nobody_sleeps_over_an_offer),
	CASE(nobody_sleeps_over_the_engines_receive),
	CASE(nobody_sleeps_over_an_ack),
	CASE(a_probed_message_is_no_request),
	CASE(what_was_not_sent_has_no_request),
	CASE(fragments_shorter_than_the_head),
	CASE(buffers_that_the_lane_has),
};

static int
run_one(unsigned i, char *self)
{
	char *eal[] = {self, "--no-huge", "--no-pci", "-m", "512", "--no-telemetry", "--no-shconf",
		"--log-level=*:error", NULL};

	name = cases[i].name;
	if (rte_eal_init(8, eal) < 0)
		return 2;
	cases[i].run();
	return failed;
}

int
main(int argc, char **argv)
{
	int result = 0;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool wanted = argc < 2;
		int status = 0;

		for (int k = 1; k < argc; k++)
			wanted |= strcmp(argv[k], cases[i].name) == 0;
		if (!wanted)
			continue;
		fflush(stdout);
		pid_t child = fork();

		if (child == 0) {
			int code;

			alarm(60);
			code = run_one(i, argv[0]);
			fflush(NULL);
			_exit(code);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			printf("not ok %s %s %d\n", cases[i].name,
				WIFSIGNALED(status) ? "signal" : "exit code",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			result = 1;
		} else {
			printf("ok %s\n", cases[i].name);
		}
	}
	return result;
}
