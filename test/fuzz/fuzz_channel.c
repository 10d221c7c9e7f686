/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine, fed a hostile application: any bytes as submissions, at any position, and any value
 * in whatever memory the application can write. Two other contexts go on exchanging messages that
 * are checked byte by byte; when the hostile one is closed every buffer is back in the pool.
 *
 * Design notes
 * 1. Real nodes in one process on the loop link, with DPDK but without hugepages. Nodes and
 *    neighbours live as long as the fuzzer; an input is one life of the hostile context.
 * 2. Once it went behind libpmx's back, the hostile one uses libpmx no more: an application that
 *    breaks its own memory may well crash itself.
 * 3. Times are real, so an input's course may differ a little between runs; a broken rule stays.
 * 4. Both nodes are polled in turn at any time. pmx_context_close polls its own node alone until
 *    all is delivered or given up: 16 ms here, in which frames would lie before the other node for
 *    longer than a network may hold them (three times rto_max, doc/reference/wire.md), and its
 * neighbours' messages could end in an error.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "base/clock.h"
#include "client/client.h"
#include "node/node.h"
#include "input.h"
#include "pmx/pmx.h"

#define HOSTILE 2
#define TURNS   20000000 /* of polling, before what should come counts as lost */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct pmx_node *nodes[2];
static struct pmx_context *neighbour[2];
static uint32_t sent, received;
static unsigned pool_whole[2];
static bool mad;                /* note 2 */
static struct pmx_remote given; /* a neighbour's memory, that others may read */
static uint8_t *bait, *scratch; /* that memory; the hostile one's */
static int victim;              /* the process whose memory the hostile one names */

static void
start(unsigned i, int argc, char **argv)
{
	char text[1024], error[256] = "";
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = text,
		.eal_argc = argc,
		.eal_argv = argv,
	};

	/* node 2 is known, and nobody is there */
	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = fuzz%u\n[engine]\nidle = spin\nmatching = engine\n"
		"[link 0]\ndriver = loop\nport = fuzz\nrx_descriptors = 64\ntx_descriptors = 64\n"
		"[limits]\nmbufs = 2304\ncontexts = 4\nsend_buffers = 32\nreceive_buffers = 64\n"
		"matched_buffers = 16\n"
		"matched_entries = 16\nreceives = 8\nunexpected = 64\n"
		"message_max = 20000\nnodes = 8\npeers = 4\ntransfer_frames = 64\ntransfers = 8\n"
		"requests = 16\nevents = 4\n"
		"[proto]\nrto_min_us = 100\nrto_max_us = 2000\nretries = 8\nhello_ms = 20\n"
		"[nodes]\n0 = auto\n1 = auto\n",
		i, i);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "fuzz_channel: %s\n", error);
		exit(1);
	}
}

static struct pmx_context *
open_context(unsigned i, uint16_t number)
{
	struct pmx_context *c = NULL;

	MUST(pmx_context_open(&c, nodes[i], number, NULL) == 0);
	return c;
}

static void
poll_all(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

static unsigned
pool_free(unsigned i)
{
	return rte_mempool_avail_count(nodes[i]->embedded->pool);
}

/* ------------------------------------------------------------------ the neighbours */

static bool
neighbours_send(void)
{
	uint8_t bytes[600];
	uint32_t len = 1 + sent * 7919 % sizeof(bytes);

	memset(bytes, (int)(sent & 0xFF), len);
	if (pmx_send_copy(neighbour[0], (struct pmx_addr){1, 0}, bytes, len, NULL) != 0)
		return false;
	sent++;
	return true;
}

static void
neighbours_receive(void)
{
	struct pmx_message m;

	while (pmx_receive(neighbour[1], &m) == 1) {
		uint8_t bytes[600];

		/* the hostile one may write to them, too */
		if (m.source.node == 0 && m.source.context == 0) {
			MUST(m.len == 1 + received * 7919 % sizeof(bytes));
			pmx_message_read(neighbour[1], &m, 0, bytes, m.len);
			for (uint32_t i = 0; i < m.len; i++)
				MUST(bytes[i] == (received & 0xFF));
			received++;
		}
		pmx_release_receive_buffer(neighbour[1], &m);
	}
}

static void
turn(void)
{
	struct pmx_message m;

	poll_all();
	pmx_sends_pending(neighbour[0]);
	while (pmx_receive(neighbour[0], &m) == 1) /* the hostile one's */
		pmx_release_receive_buffer(neighbour[0], &m);
	neighbours_receive();
}

/* Inputs are not all that decides (note 3): what would be needed to understand it. */
static void
tell_state(void)
{
	fprintf(stderr, "%u sent, %u received, sends pending %d\n", sent, received,
		pmx_sends_pending(neighbour[0]));
	for (unsigned n = 0; n < 2; n++) {
		const struct engine *e = &nodes[n]->embedded->engines[0];
		const uint64_t *p = proto_counters(e->proto);

		fprintf(stderr, "node %u: %u mbufs free;", n, pool_free(n));
		for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++)
			fprintf(stderr, " %s %lu", proto_counter_info[i].name, p[i]);
		fputc('\n', stderr);
	}
}

static void
neighbours_catch_up(void)
{
	for (unsigned i = 0; received != sent; i++) {
		turn();
		if (i == TURNS)
			tell_state();
		MUST(i < TURNS);
	}
}

/* Note 4. */
static void
close_context(struct pmx_context *c)
{
	struct node *n = c->node->embedded;
	struct command cmd = {.op = COMMAND_CLOSE, .ctx = c->ctx, .generation = c->generation};

	MUST(node_command(n, &cmd, false) == 0);
	for (unsigned i = 0; n->channels[cmd.ctx].state != CHANNEL_CLOSED; i++) {
		turn();
		MUST(i < TURNS);
	}
	pmx_context_close(c);
}

/* Matched messages that the hostile one sent them, of whatever communicator, end with them. */
static void
neighbours_anew(void)
{
	for (unsigned i = 0; i < 2; i++) {
		close_context(neighbour[i]);
		neighbour[i] = open_context(i, 0);
	}
	void *p;

	MUST(pmx_alloc(neighbour[1], 65536, &p) == 0);
	bait = memset(p, 0x5A, 65536);
	MUST(pmx_register(neighbour[1], bait, 65536, PMX_REMOTE_READ, &given) == 0);
}

/* ------------------------------------------------------------------ the hostile one */

/* A slot as the input has it, or somewhat like a submission. */
static void
submit(struct pmx_context *c, struct input *in)
{
	struct submission s;
	uint8_t how = take8(in);

	take(in, &s, how & 1 ? sizeof(s) : 12);
	if (!(how & 1)) {
		s.op = 1 + s.op % 14;
		s.op = s.op == 13 ? SUBMIT_WITHDRAW : s.op == 14 ? SUBMIT_WATCH : s.op;
		s.count %= 40;
		s.send.len %= 25000;
		s.send.dst_node %= 4;
		s.send.dst_ctx %= 5;
		for (unsigned i = 0; i < SUBMIT_SEND_BUFS; i++)
			s.send.buf[i] = (uint16_t)(take8(in) % 40);
	}
	if (s.op == SUBMIT_RECEIVE && !(how & 1)) {
		s.count = 1 + how / 2 % 6;
		s.receive.index = take8(in) % 9;
		s.receive.comm = 0;
		s.receive.source = how & 16 ? RECEIVE_ANY_SOURCE : take8(in) % 2 << 16;
		s.receive.tag = take8(in) % 2;
		s.receive.ignore = how & 32 ? UINT64_MAX : how & 64;
		s.receive.memory = take8(in) % 3 ? 0 : MEMORY_COPIED;
		s.receive.local = (uintptr_t)scratch + take16(in);
		s.receive.len = how & 128 ? take32(in) : take8(in);
	}
	if (s.op == SUBMIT_WITHDRAW && !(how & 1)) {
		s.withdraw.at_us = how & 16 ? 0 : how & 32 ? INT64_MAX : clock_us() + take8(in);
		s.withdraw.buf = take8(in) % 40;
	}
	if (s.op == SUBMIT_WATCH && !(how & 1)) {
		for (unsigned i = 0; i < 4; i++)
			atomic_store(&c->shm->watched[i], take8(in) % 5);
		atomic_store(&c->shm->watches, how & 16 ? take32(in) : 4);
	}
	if (!slot_room(&c->sub, 1))
		return;
	memcpy(slot_at(&c->sub, c->sub.pos)->body, &s, sizeof(s));
	slot_publish(&c->sub, c->sub.pos++);
	mad = true; /* buffers come back that libpmx did not give out */
}

/* A transfer: its description with fields that are right, or not. */
static void
describe(struct pmx_context *c, struct input *in)
{
	uint8_t place = take8(in) % 8, how = take8(in);
	struct transfer_desc *d = &channel_transfers(c->shm)[place];

	take(in, d, how & 1 ? sizeof(*d) : 0);
	d->kind = 1 + take8(in) % 7;
	d->flags = take8(in) & (how & 2 ? 0xFF : TRANSFER_ALL);
	d->node = take8(in) % 3;
	d->ctx = take8(in) % 5;
	d->id = TRANSFER_ID(place, take8(in));
	d->key = how & 4 ? given.key : take8(in);
	d->at = given.addr + take16(in);
	d->len = how & 8 ? take16(in) : take32(in);
	if (how & 16)
		d->memory = take8(in) % 4;
	d->local = (uintptr_t)scratch + take16(in);
	d->status = how & 32 ? (uintptr_t)scratch + take16(in) : 0;
	d->status_memory = take8(in) % 2;
	mad = true;
}

/* Any word of the region, but for what this program itself finds its rings with. */
static void
scribble(struct pmx_context *c, struct input *in)
{
	uint64_t bytes = nodes[0]->embedded->channels[HOSTILE].shm->bytes;
	uint32_t at = take32(in) % (uint32_t)(bytes / 4 * 4), value = take32(in);

	if (at < offsetof(struct channel_shm, engine_sleeps))
		return;
	memcpy((uint8_t *)c->shm + (at & ~3u), &value, sizeof(value));
	mad = true;
}

/* Send a plain or a matched message to the hostile context. */
static void
send_to_hostile(uint8_t op, struct input *in)
{
	static uint8_t bytes[3000];
	const struct pmx_addr to = {0, HOSTILE};

	if (op & 16) {
		const struct pmx_matched matched = {
			.peer = to,
			.tag = op / 32 % 2,
			.data = bytes,
			.len = take8(in) * 11,
		};

		pmx_isend(neighbour[0], &matched, NULL);
	} else {
		pmx_send_copy(neighbour[0], to, "for you", take8(in) % 8, NULL);
	}
}

static void
one_step(struct pmx_context *c, struct input *in)
{
	uint8_t op = take8(in);
	struct pmx_message m;

	switch (op % 14) {
	case 12:
	case 13:
		describe(c, in);
		break;
	case 0:
	case 1:
	case 2:
		submit(c, in);
		break;
	case 3:
		scribble(c, in);
		break;
	case 4:
		atomic_store(&c->shm->lhs_pos, take32(in));
		break;
	case 5:
		atomic_store(&c->shm->completions_pos, take32(in));
		mad = true;
		break;
	case 6:
		atomic_store(&c->shm->wake_client, take8(in));
		break;
	case 7: /* a mark far from its turn */
		mad = true;
		atomic_store(&slot_at(&c->sub, c->sub.pos + take8(in))->mark, take32(in));
		break;
	case 8: /* as a good one would */
		if (!mad)
			pmx_send_copy(c, (struct pmx_addr){take8(in) % 3, take8(in) % 5}, "hostile",
				7, NULL);
		break;
	case 9: /* something to receive */
		send_to_hostile(op, in);
		break;
	case 10:
		while (!mad && op & 64 && pmx_receive(c, &m) == 1)
			pmx_release_receive_buffer(c, &m);
		break;
	default:
		neighbours_send();
		turn();
	}
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char *eal[] = {"fuzz_channel", "--no-huge", "-m", "128", "--no-pci",
		"--no-telemetry", "--no-shconf", "-l", "0", "--log-level=*:error", NULL};

	(void)argc, (void)argv;
	start(0, 10, eal);
	start(1, 0, NULL);
	neighbour[0] = open_context(0, 0);
	neighbour[1] = open_context(1, 0);
	for (int i = 0; i < 8; i++)
		neighbours_send();
	neighbours_catch_up();
	for (int i = 0; i < 10000; i++) /* Acks are on their way */
		turn();
	for (unsigned i = 0; i < 2; i++)
		pool_whole[i] = pool_free(i);
	void *p;

	MUST(pmx_alloc(neighbour[1], 65536, &p) == 0);
	bait = memset(p, 0x5A, 65536);
	MUST(pmx_register(neighbour[1], bait, 65536, PMX_REMOTE_READ, &given) == 0);
	/* as from another process: what the kernel copies for the hostile one is not this
	 * program's */
	victim = fork();
	if (victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct pmx_context *c = open_context(0, HOSTILE);

	void *p;

	mad = false;
	MUST(pmx_alloc(c, 65536, &p) == 0);
	scratch = p;
	nodes[0]->embedded->channels[HOSTILE].space.pid = victim;
	for (int i = 0; in.left && i < 500; i++)
		one_step(c, &in);
	for (unsigned i = 0; i < 65536; i++)
		MUST(bait[i] == 0x5A);
	close_context(c);
	/* what waited for the hostile one comes back */
	for (unsigned i = 0; !neighbours_send(); i++) {
		turn();
		MUST(i < TURNS);
	}
	neighbours_catch_up();
	for (unsigned i = 0; pool_free(0) < pool_whole[0] || pool_free(1) < pool_whole[1]; i++) {
		turn();
		if (i == 30000)
			neighbours_anew();
		MUST(i < TURNS);
	}
	MUST(pool_free(0) == pool_whole[0] && pool_free(1) == pool_whole[1]);
	return 0;
}
