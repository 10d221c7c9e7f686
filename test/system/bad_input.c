/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bad input to running nodes, in one process without hugepages; bad_input.sh runs each part:
 *   sends   messages too long, to nodes and contexts that do not exist: the errors that pmx.h says
 *   frames  wrong frames from a socket at a node on the udp link: each kind has its own counter,
 *           and a pair of contexts goes on exchanging messages, undisturbed
 *   client  garbage in the shared memory of a context: refused and counted, neighbours undisturbed,
 *           every buffer back when it is closed
 * Prints a line a check, "ok NAME" or "not ok NAME WHY"; exit code 0 if all passed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "base/clock.h"
#include "client/client.h"
#include "helpers.h"
#include "engine/lane.h"
#include "pmx/pmx.h"
#include "core/wire/wire.h"

#define PATIENCE_S 20

static struct pmx_node *nodes[2];
static unsigned port;

static void
check(const char *name, bool good, const char *why)
{
	if (good)
		printf("ok %s\n", name);
	else
		printf("not ok %s %s\n", name, why);
	failed |= !good;
}

static uint64_t
random_next(void)
{
	return mix64_next(&seed);
}

static struct engine *
engine_of(unsigned i)
{
	return &nodes[i]->embedded->engines[0];
}

static uint64_t
count_of(unsigned i, enum proto_counter c)
{
	return proto_counters(engine_of(i)->proto)[c];
}

static void
poll_all(void)
{
	for (unsigned i = 0; i < 2; i++) {
		if (nodes[i] != NULL)
			pmx_node_poll(nodes[i]);
	}
}

/* ------------------------------------------------------------------ nodes */

static int
start(unsigned i, int argc, char **argv)
{
	char text[1024], error[256];
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = text,
		.eal_argc = argc,
		.eal_argv = argv,
	};

	/* node 2 is known, and nobody is there */
	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = bad%u\n[engine]\nidle = yield\n"
		"[link 0]\ndriver = udp\nlisten = 127.0.0.1:%u\nmtu = 1500\n"
		"[limits]\nmbufs = 8192\ncontexts = 8\nmessage_max = 100000\nnodes = 16\n"
		"peers = 12\n"
		"[proto]\nrto_min_us = 200\nrto_max_us = 4000\nretries = 100\n"
		"[nodes]\n0 = 127.0.0.1:%u\n1 = 127.0.0.1:%u\n2 = 127.0.0.1:%u\n",
		i, i, port + i, port, port + 1, port + 2);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) == 0)
		return 0;
	printf("not ok start %s\n", error);
	return 1;
}

static struct pmx_context *
open_context(unsigned i, uint16_t number)
{
	struct pmx_context *ctx;
	int r = pmx_context_open(&ctx, nodes[i], number, NULL);

	if (r != 0) {
		printf("not ok open %s\n", pmx_strerror(r));
		exit(1);
	}
	return ctx;
}

/* ------------------------------------------------------------------ a pair that goes on */

/* Messages to and fro, each byte of which is known; what others send is not looked at. */
struct pair {
	struct pmx_context *end[2];
	uint64_t sent[2], expected[2];
	uint64_t wrong;
};

static uint32_t
pair_len(uint64_t sequence)
{
	return 1 + (uint32_t)(sequence * 7919 % 5000);
}

static bool
is_of(const struct pmx_message *m, struct pmx_addr from)
{
	return m->source.node == from.node && m->source.context == from.context;
}

static bool
pair_check(struct pmx_context *c, const struct pmx_message *m, uint64_t sequence, unsigned from)
{
	uint8_t bytes[5000];
	bool good = m->len == pair_len(sequence) && pmx_message_read(c, m, 0, bytes, m->len) == 0;

	for (uint32_t k = 0; good && k < m->len; k++)
		good = bytes[k] == (uint8_t)(sequence * 31 + k * 7 + from);
	return good;
}

static void
pair_step(struct pair *p)
{
	uint8_t bytes[5000];
	struct pmx_message m;

	for (unsigned i = 0; i < 2; i++) {
		const struct pmx_addr to = pmx_context_addr(p->end[1 - i]);
		uint32_t len = pair_len(p->sent[i]);

		for (uint32_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)(p->sent[i] * 31 + k * 7 + i);
		if (p->sent[i] - p->expected[1 - i] < 16 &&
			pmx_send_copy(p->end[i], to, bytes, len, NULL) == 0)
			p->sent[i]++;
		while (pmx_receive(p->end[i], &m) == 1) {
			if (is_of(&m, to))
				p->wrong += !pair_check(p->end[i], &m, p->expected[i]++, 1 - i);
			pmx_release_receive_buffer(p->end[i], &m);
		}
	}
}

/* `n` more messages each way; false if one is wrong, or they do not come. */
static bool
pair_goes_on(struct pair *p, uint64_t n)
{
	uint64_t until[2] = {p->expected[0] + n, p->expected[1] + n};
	double end = now_s() + PATIENCE_S;

	while (p->expected[0] < until[0] || p->expected[1] < until[1]) {
		pair_step(p);
		poll_all();
		if (now_s() > end)
			return false;
	}
	return p->wrong == 0;
}

static bool
pair_end(struct pair *p)
{
	double end = now_s() + PATIENCE_S;

	while (p->expected[0] < p->sent[1] || p->expected[1] < p->sent[0] ||
		pmx_sends_pending(p->end[0]) || pmx_sends_pending(p->end[1])) {
		struct pmx_message m;

		poll_all();
		for (unsigned i = 0; i < 2; i++) {
			while (pmx_receive(p->end[i], &m) == 1) {
				p->expected[i] += is_of(&m, pmx_context_addr(p->end[1 - i]));
				pmx_release_receive_buffer(p->end[i], &m);
			}
		}
		if (now_s() > end)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ sends */

static int
outcome(struct pmx_context *ctx, struct pmx_addr to, uint32_t len)
{
	static const uint8_t bytes[4000];
	double end = now_s() + PATIENCE_S;
	pmx_send_id id;
	int r = pmx_send_copy(ctx, to, bytes, len, &id);

	while (r == 0 && now_s() < end) {
		poll_all();
		r = pmx_is_send_done(ctx, id);
	}
	return r;
}

static void
sends(void)
{
	struct pmx_context *a = open_context(0, 1), *again;
	struct pmx_context *b = open_context(1, 1);
	struct pmx_context_params greedy = {.size = sizeof(greedy), .receive_buffers = 8000},
				  more = {.size = sizeof(more), .send_buffers = 257};
	struct pmx_buffer buf, wrong = {.first = 300, .segments = 1, .len = 1};
	uint32_t most = pmx_get_max_message(a);

	check("send__max_message", most == 100000, "message_max is not the limit");
	check("get_send_buffer__too_long", pmx_get_send_buffer(a, most + 1, &buf) == -EMSGSIZE, "");
	check("get_send_buffer__longest", pmx_get_send_buffer(a, most, &buf) == 0, "");
	check("truncate_buffer__longer", pmx_truncate_buffer(a, &buf, most + 1) == -EINVAL, "");
	check("buffer_write__beyond", pmx_buffer_write(a, &buf, most, "x", 1) == -EINVAL, "");
	pmx_discard_buffer(a, &buf);
	check("send__not_a_buffer", pmx_send(a, (struct pmx_addr){1, 1}, &wrong, NULL) == -EINVAL,
		"");
	check("send__well", outcome(a, (struct pmx_addr){1, 1}, 100) == 1, "");
	check("send__node_not_in_config", outcome(a, (struct pmx_addr){9, 1}, 100) == -EHOSTUNREACH,
		"");
	check("send__node_beyond_limit",
		outcome(a, (struct pmx_addr){65534, 1}, 100) == -EHOSTUNREACH, "");
	check("send__node_silent", outcome(a, (struct pmx_addr){2, 1}, 100) == -EHOSTUNREACH, "");
	check("send__context_not_open", outcome(a, (struct pmx_addr){1, 5}, 100) == -ECONNREFUSED,
		"");
	check("send__context_not_open_long",
		outcome(a, (struct pmx_addr){1, 5}, 4000) == -ECONNREFUSED, "");
	check("send__context_beyond_limit",
		outcome(a, (struct pmx_addr){1, 60000}, 100) == -ECONNREFUSED, "");
	check("send__local_context_not_open",
		outcome(a, (struct pmx_addr){0, 5}, 100) == -ECONNREFUSED, "");
	check("send__local_context_beyond_limit",
		outcome(a, (struct pmx_addr){0, 60000}, 100) == -ECONNREFUSED, "");
	check("send__well_after_all", outcome(a, (struct pmx_addr){1, 1}, 4000) == 1, "");
	check("context_open__taken", pmx_context_open(&again, nodes[0], 1, NULL) == -EBUSY, "");
	check("context_open__beyond_limit", pmx_context_open(&again, nodes[0], 8, NULL) == -EINVAL,
		"");
	check("context_open__more_than_pool",
		pmx_context_open(&again, nodes[0], 2, &greedy) == -ENOSPC, "");
	check("context_open__more_than_config",
		pmx_context_open(&again, nodes[0], 2, &more) == -EINVAL, "");
	pmx_context_close(a);
	pmx_context_close(b);
}

/* ------------------------------------------------------------------ frames */

static int injector;

static void
inject(const void *frame, uint32_t len)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	sendto(injector, frame, len, 0, (struct sockaddr *)&to, sizeof(to));
}

/* A frame of node 1 that is right but for its session: nobody but the two nodes knows that. */
static struct wire_hdr
right_header(enum wire_type type)
{
	return (struct wire_hdr){
		.version = WIRE_VERSION,
		.type = (uint8_t)type,
		.src_node = wire_be16(1),
		.dst_node = wire_be16(0),
		.src_ctx = wire_be16(1),
		.dst_ctx = wire_be16(1),
		.session = wire_be32(0x12345678),
	};
}

/* Send one frame 10 times; exactly the given counter grows by that. */
static void
expect(const char *name, const void *frame, uint32_t len, const uint64_t *counter,
	struct pair *pair)
{
	const struct engine *e = engine_of(0);
	uint64_t before = *counter, drops[2] = {0};
	double end = now_s() + 5;
	char why[96];

	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
			const uint64_t *drop = &proto_counters(e->proto)[i];

			/* what the pair itself may cause; and who was asked to shake hands for the
			 * sake of an earlier frame answers in his time */
			if (strncmp(proto_counter_info[i].name, "drop_", 5) == 0 &&
				i != PROTO_drop_old && (i != PROTO_drop_nonce || drop == counter))
				drops[k] += *drop;
		}
		for (unsigned i = 0; i < ENGINE_COUNTER_COUNT; i++) {
			if (strncmp(engine_counter_info[i].name, "drop_", 5) == 0)
				drops[k] += e->counters[i];
		}
		for (unsigned i = 0; k == 0 && i < 10; i++)
			inject(frame, len);
		while (k == 0 && *counter < before + 10 && now_s() < end) {
			pair_step(pair);
			poll_all();
		}
	}
	snprintf(why, sizeof(why), "its counter grew by %lu, all drops by %lu, not by 10",
		*counter - before, drops[1] - drops[0]);
	check(name, *counter == before + 10 && drops[1] == drops[0] + 10, why);
}

#define EXPECT(name, len, counter) expect("frame__" name, frame, len, counter, pair)

static void
send_as_stranger(struct pair *pair)
{
	const struct engine *e = engine_of(0);
	const uint64_t *p = proto_counters(e->proto);
	uint8_t frame[2000] = {0};
	struct wire_hdr *h = (struct wire_hdr *)frame;

	*h = right_header(WIRE_DATA);
	EXPECT("short", WIRE_HDR_BYTES - 1, &e->counters[ENGINE_drop_short]);
	h->payload_len = wire_be16(100);
	h->msg_len = wire_be32(100);
	EXPECT("truncated", WIRE_HDR_BYTES + 99, &p[PROTO_drop_truncated]);
	EXPECT("oversized", WIRE_HDR_BYTES + 101, &p[PROTO_drop_oversized]);
	h->version = WIRE_VERSION + 1;
	EXPECT("version", WIRE_HDR_BYTES + 100, &p[PROTO_drop_version]);
	*h = right_header(WIRE_TYPE_COUNT);
	EXPECT("type", WIRE_HDR_BYTES, &p[PROTO_drop_type]);
	*h = right_header(0);
	EXPECT("type_0", WIRE_HDR_BYTES, &p[PROTO_drop_type]);
	*h = right_header(WIRE_ACK);
	h->flags = wire_be16(0x8000);
	EXPECT("flags", WIRE_HDR_BYTES, &p[PROTO_drop_flags]);
	*h = right_header(WIRE_DATA);
	h->payload_len = wire_be16(100);
	h->msg_len = wire_be32(50);
	EXPECT("fragment_beyond_message", WIRE_HDR_BYTES + 100, &p[PROTO_drop_field]);
	h->msg_len = wire_be32(WIRE_MESSAGE_MAX + 1);
	EXPECT("message_too_long", WIRE_HDR_BYTES + 100, &p[PROTO_drop_field]);
	*h = right_header(WIRE_ACK);
	h->payload_len = wire_be16(4);
	EXPECT("ack_with_payload", WIRE_HDR_BYTES + 4, &p[PROTO_drop_field]);
	*h = right_header(WIRE_HELLO);
	EXPECT("hello_without_payload", WIRE_HDR_BYTES, &p[PROTO_drop_field]);
	*h = right_header(WIRE_ACK);
	h->dst_node = wire_be16(1);
	EXPECT("for_another_node", WIRE_HDR_BYTES, &p[PROTO_drop_not_mine]);
	*h = right_header(WIRE_ACK);
	h->src_node = wire_be16(16);
	EXPECT("from_node_beyond_limit", WIRE_HDR_BYTES, &p[PROTO_drop_no_node]);
	*h = right_header(WIRE_ACK);
	EXPECT("of_another_session", WIRE_HDR_BYTES, &p[PROTO_drop_session]);
	*h = right_header(WIRE_RESET);
	EXPECT("reset_of_another_session", WIRE_HDR_BYTES, &p[PROTO_drop_session]);
	*h = right_header(WIRE_HELLO);
	h->session = 0;
	h->payload_len = wire_be16(sizeof(struct wire_hello));
	EXPECT("hello_of_unknown_nonce", WIRE_HDR_BYTES + sizeof(struct wire_hello),
		&p[PROTO_drop_nonce]);
}

/* Send what knows the session: a peer gone wrong, not a stranger. */
static void
send_as_peer(struct pair *pair)
{
	const uint64_t *p = proto_counters(engine_of(0)->proto);
	uint32_t session = proto_session(engine_of(1)->proto, 0);
	uint8_t frame[2000] = {0};
	struct wire_hdr *h = (struct wire_hdr *)frame;

	*h = right_header(WIRE_DATA);
	h->session = wire_be32(session);
	h->payload_len = wire_be16(8);
	h->msg_len = wire_be32(8);
	h->flags = wire_be16(WIRE_F_FIRST);
	h->dst_ctx = wire_be16(6);
	EXPECT("for_closed_context", WIRE_HDR_BYTES + 8, &p[PROTO_drop_absent]);
	h->dst_ctx = wire_be16(60000);
	EXPECT("for_context_beyond_limit", WIRE_HDR_BYTES + 8, &p[PROTO_drop_absent]);
	h->dst_ctx = wire_be16(2);
	h->src_ctx = wire_be16(77);
	h->flags = 0;
	EXPECT("of_unopened_flow", WIRE_HDR_BYTES + 8, &p[PROTO_drop_unopened]);
}

#undef EXPECT

/* Random bytes, and right frames with some bytes changed. `own`: of the real session, between
 * contexts that nobody else uses. */
static void
fuzz(struct pair *pair, unsigned count, bool own)
{
	uint32_t session = proto_session(engine_of(1)->proto, 0);
	uint8_t frame[1600];
	struct wire_hdr *h = (struct wire_hdr *)frame;

	for (unsigned i = 0; i < count; i++) {
		uint32_t len = (uint32_t)(random_next() % (i % 8 ? 120 : sizeof(frame)));

		for (uint32_t k = 0; k < len; k += 8) {
			uint64_t r = random_next();

			memcpy(frame + k, &r, len - k < 8 ? len - k : 8);
		}
		if ((own || i % 4 != 0) && len >= WIRE_HDR_BYTES) {
			struct wire_hdr right = right_header(
				1 + random_next() % (WIRE_TYPE_COUNT - 1));

			right.payload_len = wire_be16((uint16_t)(len - WIRE_HDR_BYTES));
			right.flags = wire_be16(random_next() & WIRE_F_ALL);
			right.seq = h->seq;
			right.ack = h->ack;
			right.echo = own ? 0 : h->echo;
			right.msg_len = wire_be32((uint32_t)random_next() % 3000);
			right.frag_off = random_next() % 2
				? 0
				: wire_be32((uint32_t)random_next() % 3000);
			right.credit = h->credit;
			*h = right;
			if (!own) {
				frame[random_next() % len] ^= (uint8_t)random_next();
			} else {
				h->session = wire_be32(session);
				h->flags &= wire_be16((uint16_t)~WIRE_F_ECHO);
				h->src_ctx = wire_be16((uint16_t)(100 + random_next() % 50));
				h->dst_ctx = wire_be16(2);
			}
		}
		inject(frame, len);
		if (i % 16 == 0) {
			struct pmx_message m;

			pair_step(pair);
			poll_all();
			/* the victim reads what it gets */
			while (own && pmx_receive(nodes[0]->contexts, &m) == 1)
				pmx_release_receive_buffer(nodes[0]->contexts, &m);
		}
	}
}

static void
counters_add_up(const char *name)
{
	bool good = true;

	for (unsigned n = 0; n < 2; n++) {
		const struct engine *e = engine_of(n);
		uint64_t drops = 0, before = 0;

		for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
			if (strncmp(proto_counter_info[i].name, "drop_", 5) == 0)
				drops += count_of(n, i);
		}
		for (unsigned i = 0; i < ENGINE_COUNTER_COUNT; i++) {
			if (strncmp(engine_counter_info[i].name, "drop_", 5) == 0)
				before += e->counters[i];
		}
		good &= count_of(n, PROTO_rx_frames) ==
			count_of(n, PROTO_rx_accepted) + count_of(n, PROTO_rx_multi) +
				count_of(n, PROTO_rx_link) + drops;
		good &= e->counters[ENGINE_rx_frames] == count_of(n, PROTO_rx_frames) + before;
	}
	check(name, good, "received is not accepted and dropped together");
}

static void
frames(unsigned count)
{
	struct pair pair = {.end = {open_context(0, 1), open_context(1, 1)}};
	struct pmx_context *victim = open_context(0, 2);

	injector = socket(AF_INET, SOCK_DGRAM, 0);
	check("frames__before", pair_goes_on(&pair, 100), "no messages");
	send_as_stranger(&pair);
	send_as_peer(&pair);
	check("frames__pair_undisturbed", pair_goes_on(&pair, 1000),
		"messages are wrong or missing");
	fuzz(&pair, count, false);
	check("fuzz__strangers_pair_undisturbed", pair_goes_on(&pair, 1000),
		"messages are wrong or missing");
	check("fuzz__strangers_no_error",
		count_of(0, PROTO_messages_failed) == 0 &&
			count_of(1, PROTO_messages_failed) == 0 &&
			count_of(0, PROTO_peer_restarts) == 0,
		"messages failed, or a peer was taken for restarted");
	fuzz(&pair, count, true);
	check("fuzz__session_pair_undisturbed", pair_goes_on(&pair, 1000),
		"messages are wrong or missing");
	check("fuzz__pair_ends", pair_end(&pair), "messages are missing");
	counters_add_up("fuzz__counters_add_up");
	printf("# rx %lu accepted %lu short %lu truncated %lu oversized %lu version %lu type %lu "
	       "flags %lu field %lu session %lu nonce %lu unopened %lu absent %lu old %lu beyond "
	       "%lu no_path %lu no_flow %lu full %lu\n",
		count_of(0, PROTO_rx_frames), count_of(0, PROTO_rx_accepted),
		engine_of(0)->counters[ENGINE_drop_short], count_of(0, PROTO_drop_truncated),
		count_of(0, PROTO_drop_oversized), count_of(0, PROTO_drop_version),
		count_of(0, PROTO_drop_type), count_of(0, PROTO_drop_flags),
		count_of(0, PROTO_drop_field), count_of(0, PROTO_drop_session),
		count_of(0, PROTO_drop_nonce), count_of(0, PROTO_drop_unopened),
		count_of(0, PROTO_drop_absent), count_of(0, PROTO_drop_old),
		count_of(0, PROTO_drop_beyond), count_of(0, PROTO_drop_no_path),
		count_of(0, PROTO_drop_no_flow), count_of(0, PROTO_drop_full));
	pmx_context_close(victim);
	pmx_context_close(pair.end[0]);
	pmx_context_close(pair.end[1]);
	close(injector);
}

/* ------------------------------------------------------------------ client */

/* One slot of garbage, more or less like a submission. */
static void
bad_submission(struct pmx_context *c)
{
	static const uint8_t ops[] = {0, SUBMIT_SEND, SUBMIT_MATCHED, SUBMIT_INLINE,
		SUBMIT_INLINE_MATCHED, SUBMIT_RELEASE, SUBMIT_SELECT, SUBMIT_TRANSFER,
		SUBMIT_WITHDRAW, SUBMIT_WATCH};
	struct submission s;
	uint8_t *bytes = (uint8_t *)&s;
	uint64_t r;

	for (uint32_t i = 0; i < sizeof(s); i += 4) {
		r = random_next();
		memcpy(bytes + i, &r, 4);
	}
	r = random_next();
	if (r % 8 != 0) {
		s.op = ops[(r >> 8) % sizeof(ops)];
		if ((r >> 16) % 4)
			s.count = (uint16_t)((r >> 24) % 40);
		for (unsigned i = 0; (r >> 32) % 2 && i < SUBMIT_SEND_BUFS; i++)
			s.send.buf[i] = (uint16_t)(random_next() % 300);
		if ((s.op == SUBMIT_SEND || s.op == SUBMIT_INLINE) && (r >> 33) % 2) {
			s.send.len = (uint32_t)(random_next() %
				(s.op == SUBMIT_SEND ? 1 + s.count * 1500u
						     : SUBMIT_INLINE_BYTES + 8));
			s.send.dst_node = (uint16_t)(random_next() % 4);
			s.send.dst_ctx = (uint16_t)(random_next() % 10);
		}
	}
	if (s.op == SUBMIT_WITHDRAW && r % 2 != 0) {
		s.withdraw.at_us = (int64_t)(r >> 8) % 2 != 0 ? 0 : clock_us() + (int64_t)(r >> 48);
		s.withdraw.buf = (uint16_t)(random_next() % 300);
	}
	if (s.op == SUBMIT_WATCH) {
		atomic_store(&c->shm->watches, r % 2 != 0 ? (uint32_t)(r >> 32) : 64);
		atomic_store(&c->shm->watched[(r >> 9) % 64], (uint16_t)((r >> 16) % 6));
	}
	if (s.op == SUBMIT_SELECT)
		c->selects = true;
	if (!slot_room(&c->sub, 1))
		return;
	memcpy(slot_at(&c->sub, c->sub.pos)->body, &s, sizeof(s));
	slot_publish(&c->sub, c->sub.pos++);
}

static void
bad_memory(struct pmx_context *c)
{
	struct channel_shm *shm = c->shm;
	uint64_t r = random_next();

	switch (r % 16) {
	case 0:
		atomic_store(&shm->lhs_pos, (uint32_t)(r >> 16));
		break;
	case 1:
		atomic_store(&shm->completions_pos, (uint32_t)(r >> 16));
		break;
	case 2:
		atomic_store(&shm->wake_client, (uint32_t)(r >> 16));
		break;
	case 3: /* what only the client reads */
		shm->lhs.entries = (uint32_t)(r >> 16);
		shm->submissions = (uint32_t)(r >> 24);
		shm->send_buffers = (uint32_t)(r >> 32);
		shm->frag_len = (uint32_t)(r >> 20);
		shm->submissions_off = random_next();
		shm->lhs_off = random_next();
		break;
	case 4: /* a completion, the engine's to write */
		memset(slot_at(&c->com, (uint32_t)(r >> 16))->body, 0xFF, SLOT_BYTES - 4);
		break;
	case 5:
		atomic_store(&channel_send_off(c->shm)[(r >> 16) % 256], (int64_t)random_next());
		break;
	}
}

/* Eight lives of a hostile context; the later ones write all over their memory. */
static void
client(unsigned rounds)
{
	struct engine *e = engine_of(0);
	unsigned before = rte_mempool_avail_count(nodes[0]->embedded->pool);
	struct pair pair = {.end = {open_context(0, 1), open_context(0, 2)}};
	struct pair remote = {.end = {open_context(0, 3), open_context(1, 1)}};
	bool quiet = true;

	for (unsigned life = 0; life < 8; life++) {
		struct pmx_context *c = open_context(0, 5);
		uint64_t send_off_off = c->shm->send_off_off;

		for (unsigned i = 0; i < rounds; i++) {
			bad_submission(c);
			if (life >= 4) {
				c->shm->send_off_off = send_off_off;
				bad_memory(c);
				c->shm->send_off_off = send_off_off;
			}
			if (i % 16 == 0) {
				pair_step(&pair);
				pair_step(&remote);
				poll_all();
			}
		}
		/* closing runs node 0 alone: what waits for node 1 would time out */
		quiet &= pair_end(&remote);
		pmx_context_close(c);
	}
	check("client__remote_quiet", quiet, "messages are missing");
	printf("# bad submissions %lu, releases %lu, positions %lu; submissions %lu\n",
		e->counters[ENGINE_bad_submissions], e->counters[ENGINE_bad_releases],
		e->counters[ENGINE_bad_positions], e->counters[ENGINE_submissions]);
	check("client__bad_submissions", e->counters[ENGINE_bad_submissions] > 0, "none counted");
	check("client__bad_releases", e->counters[ENGINE_bad_releases] > 0, "none counted");
	check("client__local_neighbours", pair_goes_on(&pair, 500),
		"messages are wrong or missing");
	check("client__remote_neighbours", pair_goes_on(&remote, 500),
		"messages are wrong or missing");
	check("client__local_ends", pair_end(&pair), "messages are missing");
	check("client__remote_ends", pair_end(&remote), "messages are missing");
	pmx_context_close(pair.end[0]);
	pmx_context_close(pair.end[1]);
	pmx_context_close(remote.end[0]);
	pmx_context_close(remote.end[1]);
	const double end = now_s() + PATIENCE_S;

	while (now_s() < end && rte_mempool_avail_count(nodes[0]->embedded->pool) < before)
		poll_all();
	const unsigned after = rte_mempool_avail_count(nodes[0]->embedded->pool);
	char why[64];

	/* the udp driver holds a burst of empty ones, sometimes fewer */
	snprintf(why, sizeof(why), "%u of %u", after, before);
	check("client__buffers_back", after >= before && after <= before + 32, why);
	check("client__quotas_back",
		atomic_load(&nodes[0]->embedded->mbufs_left) ==
			atomic_load(&nodes[1]->embedded->mbufs_left),
		"mbufs stay promised");
}

/* A position that cannot be, from a context that receives. */
static void
positions(void)
{
	struct engine *e = engine_of(0);
	struct pmx_context *c = open_context(0, 5), *from = open_context(0, 6);
	double end = now_s() + 2;

	atomic_store(&c->shm->lhs_pos, 0x40000000);
	while (e->counters[ENGINE_bad_positions] == 0 && now_s() < end) {
		pmx_send_copy(from, pmx_context_addr(c), "x", 1, NULL);
		pmx_sends_pending(from);
		poll_all();
	}
	check("client__bad_positions", e->counters[ENGINE_bad_positions] > 0, "none counted");
	pmx_context_close(c);
	pmx_context_close(from);
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "-m", "256", "--no-pci", "--no-telemetry",
		"--no-shconf", "-l", "0-1", "--log-level=*:error", NULL};

	if (argc < 3) {
		fputs("Usage: bad_input sends|frames|client PORT [COUNT [SEED]]\n", stderr);
		return 2;
	}
	port = (unsigned)atoi(argv[2]);
	unsigned count = argc > 3 ? (unsigned)atoi(argv[3]) : 100000;

	seed = argc > 4 ? strtoull(argv[4], NULL, 0) : 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (start(0, 10, eal) != 0 || start(1, 0, NULL) != 0)
		return 1;
	if (strcmp(argv[1], "sends") == 0)
		sends();
	else if (strcmp(argv[1], "frames") == 0)
		frames(count);
	else {
		positions();
		client(count / 8);
	}
	pmx_node_close(nodes[1]);
	pmx_node_close(nodes[0]);
	return failed;
}
