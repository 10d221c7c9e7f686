/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The program that test/bench/instructions.sh runs under callgrind: two embedded nodes in one
 * process, joined by the loop link, moving messages or remote memory, or in collectives. Each part
 * of the path is a function of its own, so that its instructions can be read off by name.
 *
 * usage: instructions [NAME=VALUE]...
 *   kind=plain|matched|push|pull|ping|idle   what moves; idle: nothing, turns are counted
 *   kind=barrier|bcast|allgather|allreduce   collectives, one after the other, of all contexts
 *   kind=counting   barriers of a group without a plan (pmx_group_barrier) in their place
 *   bytes=64                                 of a message or transfer
 *   at_once=32                               messages or transfers that are begun together, 1 to 32
 *   pairs=1                                  contexts of each node; message i goes from context
 *                                            i % pairs to the peer's context of that number
 *   fan=1                                    plain: context i % pairs sends its messages to so many
 *                                            contexts of the other node in turn
 *   acks=N                                   messages to an Ack; by default as many as come in its
 *                                            delay when messages follow each other at once
 *   copies=0                                 1: plain messages, of at most 64 bytes, are sent by
 *                                            pmx_send_copy
 *   bursts=1000  matching=client|engine  limits=LINES of the configuration
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmx/coll.h"

#define BURST        32
#define CONTEXTS_MAX 1024
#define MANY         128 /* more contexts than that have few buffers each */
#define NOINLINE     __attribute__((noinline))

static struct pmx_context *senders[CONTEXTS_MAX], *receivers[CONTEXTS_MAX];
static struct pmx_context *from, *to; /* the first of each */
static struct pmx_node *nodes[2];
static uint32_t message_len = 64;
static unsigned at_once = BURST, pairs = 1, fan = 1;
static unsigned copies; /* plain messages are sent by pmx_send_copy, not in buffers */
static unsigned turn;   /* the sender whose turn it is */
static unsigned acks;   /* messages to an Ack; 0: not given */

static const char *matching = "client";

static const char config[] = "[node]\nid = %d\nname = bench%d\n"
			     "[engine]\nidle = spin\nmatching = %s\nrendezvous = 4000\n"
			     "[link 0]\ndriver = loop\nport = bench\nmtu = %u\n"
			     /* valgrind is slow: Acks go by their number, not by time */
			     "[proto]\nrto_min_us = 1000000\nrto_max_us = 1000000\n"
			     "ack_delay_us = 100000\nack_every = %u\n"
			     "[limits]\nmbufs = %u\ncontexts = %u\nsend_buffers = 8192\n"
			     "receive_buffers = 8192\n"
			     "%s\n[nodes]\n0 = auto\n1 = auto\n";

NOINLINE unsigned bench_client_send(void);
NOINLINE unsigned bench_client_receive(void);
NOINLINE void bench_engine_send(void);
NOINLINE void bench_engine_receive(void);
NOINLINE void bench_engine_ack(void);

/* Contexts of the other node that are sent to. */
static unsigned
receiver_count(void)
{
	return fan > pairs ? fan : pairs;
}

/* Return the context to which the next message of that sender goes. */
static uint16_t
receiver_of(unsigned sender)
{
	static unsigned next[CONTEXTS_MAX];

	if (fan == 1)
		return (uint16_t)sender;
	next[sender] = next[sender] + 1 < fan ? next[sender] + 1 : 0;
	return (uint16_t)next[sender];
}

/* Sends from the application's own memory, at most 64 bytes each. */
static unsigned
client_copy(struct pmx_context *c, unsigned share)
{
	unsigned n = 0;

	for (; n < share; n++) {
		uint8_t bytes[64];

		memset(bytes, (int)n, sizeof(bytes));
		if (pmx_send_copy(c, (struct pmx_addr){1, receiver_of(turn)}, bytes, message_len,
			    NULL) != 0)
			break;
	}
	return n;
}

/* Send at most `share` messages from send buffers, all in one burst. Return how many it took. */
static unsigned
client_burst(struct pmx_context *c, unsigned share)
{
	struct pmx_buffer bufs[BURST];
	struct pmx_addr addresses[BURST];
	unsigned n = 0;

	for (; n < share && pmx_get_send_buffer(c, message_len, &bufs[n]) == 0; n++) {
		memset(bufs[n].data, (int)n, 64); /* a buffer has as many */
		addresses[n] = (struct pmx_addr){1, receiver_of(turn)};
	}
	return n ? (unsigned)pmx_send_burst(c, addresses, bufs, NULL, n) : 0;
}

/* The application's side of sending: buffers, payload, submissions. Each context sends its share of
 * a burst at once. */
unsigned
bench_client_send(void)
{
	unsigned sent = 0, share = pairs == 1 ? at_once : pairs < at_once ? at_once / pairs : 1;

	for (unsigned k = 0; k < pairs && sent < at_once; k++) {
		struct pmx_context *c = senders[turn];

		sent += copies ? client_copy(c, share) : client_burst(c, share);
		turn = turn + 1 < pairs ? turn + 1 : 0;
	}
	return sent;
}

/* The engine's: submissions to link. */
void
bench_engine_send(void)
{
	pmx_node_poll(nodes[0]);
}

/* Link to LHS ring and Ack. */
void
bench_engine_receive(void)
{
	pmx_node_poll(nodes[1]);
}

/* The Ack's arrival and the completions. */
void
bench_engine_ack(void)
{
	pmx_node_poll(nodes[0]);
}

unsigned
bench_client_receive(void)
{
	struct pmx_message m[BURST];
	unsigned all = 0, count = receiver_count();

	/* those that were sent to, and no others: what a look at an empty ring costs is another
	 * figure */
	for (unsigned k = 0; k < count && all < at_once; k++) {
		static unsigned next;
		struct pmx_context *c = receivers[next];
		int n = pmx_receive_burst(c, m, BURST);

		for (int i = 0; i < n; i++) {
			if (*(const uint8_t *)pmx_message_data(&m[i]) > BURST)
				abort();
			pmx_release_receive_buffer(c, &m[i]);
		}
		all += n > 0 ? (unsigned)n : 0;
		if (all < at_once)
			next = next + 1 < count ? next + 1 : 0;
	}
	return all;
}

/* ------------------------------------------- matched messages, whose receives are posted before */

NOINLINE void bench_client_post_matched(void);
NOINLINE unsigned bench_client_send_matched(void);
NOINLINE unsigned bench_client_receive_matched(void);

static pmx_request posted[BURST];
static uint8_t matched_in[BURST][2048], matched_out[2048];

void
bench_client_post_matched(void)
{
	for (unsigned i = 0; i < at_once; i++) {
		const struct pmx_matched m = {
			.peer = {0, 0},
			.tag = i,
			.data = matched_in[i],
			.len = message_len,
		};

		if (pmx_irecv(to, &m, &posted[i]) != 0)
			abort();
	}
}

unsigned
bench_client_send_matched(void)
{
	unsigned n = 0;

	for (; n < at_once; n++) {
		const struct pmx_matched m = {
			.peer = {1, 0},
			.tag = n,
			.data = matched_out,
			.len = message_len,
		};

		if (pmx_isend(from, &m, NULL) != 0)
			break;
	}
	return n;
}

unsigned
bench_client_receive_matched(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < at_once; i++)
		n += posted[i] != 0 && pmx_test(to, &posted[i], NULL) == 1;
	return n;
}

/* ------------------------------------------------------------------ remote memory of node 1 */

NOINLINE unsigned bench_client_send_push(void);
NOINLINE unsigned bench_client_send_pull(void);
NOINLINE unsigned bench_client_done(void);

static struct pmx_remote region;
static pmx_transfer_id moves[BURST];
static uint8_t *local;

static void
open_region(void)
{
	uint64_t bytes = (uint64_t)BURST * message_len;
	void *here, *there;

	if (pmx_alloc(from, bytes, &here) != 0 || pmx_alloc(to, bytes, &there) != 0 ||
		pmx_register(to, there, bytes, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region) != 0)
		abort();
	local = here;
}

static struct pmx_transfer
move(unsigned i)
{
	return (struct pmx_transfer){
		.peer = {1, 0},
		.key = region.key,
		.remote = region.addr + (uint64_t)i * message_len,
		.local = local + (uint64_t)i * message_len,
		.len = message_len,
	};
}

unsigned
bench_client_send_push(void)
{
	unsigned n = 0;

	for (; n < at_once; n++) {
		const struct pmx_transfer t = move(n);

		if (pmx_push(from, &t, &moves[n]) != 0)
			break;
	}
	return n;
}

unsigned
bench_client_send_pull(void)
{
	unsigned n = 0;

	for (; n < at_once; n++) {
		const struct pmx_transfer t = move(n);

		if (pmx_pull(from, &t, &moves[n]) != 0)
			break;
	}
	return n;
}

/* All that were begun have ended. */
unsigned
bench_client_done(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < at_once; i++) {
		int e = pmx_transfer_done(from, moves[i]);

		if (e < 0)
			abort();
		if (e == 0)
			return 0;
		n++;
	}
	return n;
}

/* ------------------------------------------------------------------ round trips */

/* A round trip of 8 bytes, without turns of the engines that find nothing. */
NOINLINE void bench_plain_ping(void);
NOINLINE void bench_matched_ping(void);

void
bench_plain_ping(void)
{
	struct pmx_message m;
	uint64_t word = 1;

	pmx_send_copy(from, (struct pmx_addr){1, 0}, &word, sizeof(word), NULL);
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
	if (pmx_receive(to, &m) != 1)
		abort();
	memcpy(&word, pmx_message_data(&m), sizeof(word));
	pmx_release_receive_buffer(to, &m);
	pmx_send_copy(to, (struct pmx_addr){0, 0}, &word, sizeof(word), NULL);
	pmx_node_poll(nodes[1]);
	pmx_node_poll(nodes[0]);
	if (pmx_receive(from, &m) != 1)
		abort();
	memcpy(&word, pmx_message_data(&m), sizeof(word));
	pmx_release_receive_buffer(from, &m);
}

void
bench_matched_ping(void)
{
	static pmx_request at_to;
	static uint64_t there;
	struct pmx_matched there_m = {
		.peer = {0, 0},
		.tag = 1,
		.data = &there,
		.len = sizeof(there),
	};
	uint64_t word = 1;
	struct pmx_matched m = {.peer = {1, 0}, .tag = 1, .data = &word, .len = sizeof(word)};
	pmx_request r;

	if (at_to == 0 && pmx_irecv(to, &there_m, &at_to) != 0)
		abort();
	if (pmx_irecv(from, &m, &r) != 0 || pmx_isend(from, &m, NULL) != 0)
		abort();
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
	if (pmx_test(to, &at_to, NULL) != 1 || pmx_isend(to, &there_m, NULL) != 0 ||
		pmx_irecv(to, &there_m, &at_to) != 0)
		abort();
	pmx_node_poll(nodes[1]);
	pmx_node_poll(nodes[0]);
	if (pmx_test(from, &r, NULL) != 1)
		abort();
}

/* The first message of a flow takes a round trip of its own. */
static void
open_flows(void)
{
	const struct pmx_matched a = {.peer = {1, 0}}, b = {.peer = {0, 0}};
	struct pmx_message m;

	pmx_isend(from, &a, NULL);
	pmx_isend(to, &b, NULL);
	pmx_send_copy(to, (struct pmx_addr){0, 0}, "\1", 1, NULL);
	for (unsigned i = 0; i < 1000; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	while (pmx_receive(from, &m) == 1)
		pmx_release_receive_buffer(from, &m);
	pmx_irecv(from, &a, NULL);
	pmx_irecv(to, &b, NULL);
}

/* Messages to an Ack. As many flows as that have few messages each in the 25 us after which an Ack
 * goes by default. */
static unsigned
acks_every(void)
{
	return acks != 0 ? acks : pairs * fan < 8 ? 32 : pairs * fan < 64 ? 8 : 1;
}

static int
start(int i, int argc, char **argv, unsigned contexts, const char *more)
{
	char text[1024], error[256];
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = text,
		.eal_argc = argc,
		.eal_argv = argv,
	};

	snprintf(text, sizeof(text), config, i, i, matching, message_len > 1400 ? 9000 : 1500,
		acks_every(), 6144 + contexts * (contexts > MANY ? 112 : 640) + pairs * fan * 18,
		contexts + 2, more);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) == 0)
		return 0;
	fprintf(stderr, "instructions: %s\n", error);
	return 1;
}

/* Takes all that has come. Returns how many messages that was. */
static unsigned
drain(void)
{
	struct pmx_message m;
	unsigned n = 0;

	for (unsigned i = 0; i < receiver_count(); i++) {
		for (; pmx_receive(receivers[i], &m) == 1; n++)
			pmx_release_receive_buffer(receivers[i], &m);
	}
	return n;
}

/* Every flow opens with its first message, alone. */
static void
open_plain(void)
{
	for (unsigned i = 0; i < pairs; i++) {
		for (unsigned k = 0; k < fan; k++) {
			const struct pmx_addr address = {1, receiver_of(i)};

			while (pmx_send_copy(senders[i], address, "\1", 1, NULL) != 0)
				pmx_node_poll(nodes[0]);
			for (unsigned j = 0; j < 20; j++) {
				pmx_node_poll(nodes[0]);
				pmx_node_poll(nodes[1]);
			}
		}
	}
	for (unsigned i = 0; i < 1000; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	drain();
}

static void
run_plain(unsigned bursts, unsigned *sent, unsigned *received)
{
	open_plain();
	while (*sent < bursts * at_once) {
		*sent += bench_client_send();
		bench_engine_send();
		bench_engine_receive();
		*received += bench_client_receive();
		bench_engine_ack();
	}
	/* what still waits for an Ack takes its time, and is not counted */
	for (unsigned i = 0; *received != *sent && i < 1000000; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		*received += drain();
	}
}

/* Turns of a node that has nothing to do. */
static void
run_idle(unsigned turns)
{
	open_plain();
	/* until the lane has found out who is idle */
	for (unsigned i = 0; i < 10000; i++)
		pmx_node_poll(nodes[0]);
	for (unsigned i = 0; i < turns; i++)
		bench_engine_send();
}

static void
run_matched(unsigned bursts, unsigned *sent, unsigned *received)
{
	open_flows();
	for (unsigned i = 0; i < bursts; i++) {
		unsigned n = 0;

		bench_client_post_matched();
		*sent += bench_client_send_matched();
		/* one, or two where completions fill more than a slot */
		for (unsigned k = 0; n < at_once && k < 1000; k++) {
			bench_engine_send();
			bench_engine_receive();
			n += bench_client_receive_matched();
			bench_engine_ack();
		}
		*received += n;
	}
}

static void
run_transfers(unsigned bursts, bool is_push, unsigned *sent, unsigned *received)
{
	struct pmx_transfer first;

	open_region();
	first = move(0);
	if (pmx_push(from, &first, NULL) != 0)
		abort();
	for (unsigned i = 0; i < 1000 || pmx_transfers_pending(from) != 0; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	for (unsigned i = 0; i < bursts; i++) {
		unsigned n;

		*sent += is_push ? bench_client_send_push() : bench_client_send_pull();
		do {
			bench_engine_send();
			bench_engine_receive();
			bench_engine_ack();
		} while ((n = bench_client_done()) == 0);
		*received += n;
	}
}

static void
run_pings(unsigned bursts)
{
	open_flows();
	for (unsigned i = 0; i < bursts; i++)
		bench_plain_ping();
	for (unsigned i = 0; i < bursts; i++)
		bench_matched_ping();
}

/* ------------------------------------------------------------------ collectives of all contexts */

NOINLINE void bench_collective(void);

static struct pmx_group *group[BURST];
static int64_t contribution[BURST][64], result[BURST][64];
static unsigned members, began;
static const char *collective;

static struct pmx_context *
member(unsigned i)
{
	return i < pairs ? senders[i] : receivers[i - pairs];
}

static int
begin_collective(unsigned i, pmx_request *r)
{
	if (strcmp(collective, "barrier") == 0)
		return pmx_coll_barrier(group[i], r);
	if (strcmp(collective, "counting") == 0)
		return pmx_group_barrier(group[i], r);
	if (strcmp(collective, "bcast") == 0)
		return pmx_bcast(group[i], began % members, result[i], message_len, r);
	if (strcmp(collective, "allgather") == 0)
		return pmx_allgather(group[i], contribution[i], result[i], message_len, r);
	return pmx_allreduce(group[i], contribution[i], result[i], message_len / 8, PMX_INT64,
		PMX_ATOMIC_SUM, r);
}

/* Turns of both nodes until all requests have ended. */
static void
await_all(pmx_request r[])
{
	for (unsigned left = members; left > 0;) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		for (unsigned i = 0; i < members; i++) {
			const int e = r[i] ? pmx_test(member(i), &r[i], NULL) : 0;

			if (e < 0)
				abort();
			left -= e == 1;
		}
	}
}

void
bench_collective(void)
{
	pmx_request r[BURST];

	for (unsigned i = 0; i < members; i++) {
		if (begin_collective(i, &r[i]) != 0)
			abort();
	}
	began++;
	await_all(r);
}

static void
run_collectives(const char *kind, unsigned bursts)
{
	struct pmx_addr list[BURST];
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = 1,
		.members = list,
		.count = 2 * pairs,
	};
	pmx_request r[BURST];

	members = 2 * pairs;
	collective = kind;
	if (members > BURST || message_len * members > sizeof(result[0]))
		abort();
	for (unsigned i = 0; i < members; i++)
		list[i] = (struct pmx_addr){i >= pairs, (uint16_t)(i % pairs)};
	for (unsigned i = 0; i < members; i++) {
		if (pmx_group_open(member(i), &p, 10000000, &group[i], &r[i]) != 0)
			abort();
	}
	await_all(r);
	/* the first ones of each root make their plans */
	for (unsigned i = 0; i < 2 * members; i++) {
		for (unsigned k = 0; k < members; k++) {
			if (begin_collective(k, &r[k]) != 0)
				abort();
		}
		began++;
		await_all(r);
	}
	for (unsigned i = 0; i < bursts; i++)
		bench_collective();
}

/* One NAME=VALUE of the command line; false: it is none. */
static bool
option_set(const char *text, unsigned *bursts, const char **kind, const char **more)
{
	const struct {
		const char *name;
		unsigned *number;
		const char **word;
	} options[] = {{"kind", NULL, kind}, {"bytes", &message_len, NULL},
		{"at_once", &at_once, NULL}, {"pairs", &pairs, NULL}, {"fan", &fan, NULL},
		{"copies", &copies, NULL}, {"acks", &acks, NULL}, {"bursts", bursts, NULL},
		{"matching", NULL, &matching}, {"limits", NULL, more}};
	const char *value = strchr(text, '=');

	for (size_t i = 0; value != NULL && i < sizeof(options) / sizeof(options[0]); i++) {
		if (strlen(options[i].name) != (size_t)(value - text) ||
			strncmp(text, options[i].name, (size_t)(value - text)) != 0)
			continue;
		if (options[i].number != NULL)
			*options[i].number = (unsigned)atoi(value + 1);
		else
			*options[i].word = value + 1;
		return true;
	}
	return false;
}

static int
open_contexts(unsigned count)
{
	const uint32_t flights = fan * (acks_every() + 1) + 96;

	for (unsigned i = 0; i < count; i++) {
		struct pmx_context_params a = {
			.size = sizeof(a),
			.send_buffers = i < pairs ? flights : 8,
			.receive_buffers = count > MANY ? 32 : 128,
		};
		int e = pmx_context_open(&senders[i], nodes[0], i, &a);

		a.send_buffers = count > MANY ? 8 : 64;
		a.receive_buffers += i < fan ? 8 * pairs : 0;
		if (e == 0)
			e = pmx_context_open(&receivers[i], nodes[1], i, &a);
		if (e != 0) {
			fprintf(stderr, "instructions: context %u: %s\n", i, pmx_strerror(e));
			return e;
		}
	}
	from = senders[0];
	to = receivers[0];
	return 0;
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "-m", "1024", "--no-pci", "--no-telemetry",
		"--no-shconf", "-l", "0", "--log-level=*:error", NULL};
	unsigned bursts = 1000, sent = 0, received = 0, contexts;
	const char *more = "", *what = "plain";

	for (int i = 1; i < argc; i++) {
		if (!option_set(argv[i], &bursts, &what, &more)) {
			fprintf(stderr, "instructions: '%s' is no NAME=VALUE that is known\n",
				argv[i]);
			return 2;
		}
	}
	contexts = receiver_count();
	if (copies && message_len > 64) {
		fprintf(stderr, "instructions: copies are of at most 64 bytes\n");
		return 2;
	}
	if (at_once < 1 || at_once > BURST || pairs < 1 || fan < 1 || contexts > CONTEXTS_MAX) {
		fprintf(stderr, "instructions: at_once is 1 to %d, pairs and fan are 1 to %d\n",
			BURST, CONTEXTS_MAX);
		return 2;
	}
	if (contexts > MANY)
		eal[3] = "3072";
	if (start(0, 10, eal, contexts, more) || start(1, 0, NULL, contexts, more) ||
		open_contexts(contexts))
		return 1;
	if (strcmp(what, "plain") == 0) {
		run_plain(bursts, &sent, &received);
	} else if (strcmp(what, "idle") == 0) {
		run_idle(bursts);
		bursts = 0;
	} else if (strcmp(what, "matched") == 0 && message_len <= sizeof(matched_out)) {
		run_matched(bursts, &sent, &received);
	} else if (strcmp(what, "push") == 0 || strcmp(what, "pull") == 0) {
		run_transfers(bursts, what[2] == 's', &sent, &received);
	} else if (strcmp(what, "ping") == 0) {
		run_pings(bursts);
		bursts = 0;
	} else if (strcmp(what, "barrier") == 0 || strcmp(what, "counting") == 0 ||
		strcmp(what, "bcast") == 0 || strcmp(what, "allgather") == 0 ||
		strcmp(what, "allreduce") == 0) {
		run_collectives(what, bursts);
		bursts = 0;
	} else {
		fprintf(stderr, "instructions: %s of %u bytes is none that is known\n", what,
			message_len);
		return 2;
	}
	pmx_node_close(nodes[1]);
	pmx_node_close(nodes[0]);
	printf("messages %u %u\n", sent, received);
	return sent == received && sent >= bursts * at_once ? 0 : 1;
}
