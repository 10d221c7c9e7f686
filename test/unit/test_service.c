/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A service that this program alone has, added to the engine and to the client library by the two
 * lists that it links in the place of theirs: it echoes. A context asks by a submission, its
 * question goes to the same endpoint of another context, which answers with the same bytes, and the
 * answer comes to the client as a result. doc/internals/architecture.md follows this file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>

#include "client/client.h"
#include "match/client/match.h"
#include "rma/client/rma.h"
#include "engine/lane.h"
#include "match/engine/match.h"
#include "rma/engine/rma.h"
#include "node/node.h"
#include "pmx/pmx.h"

#define ECHO_SERVICE    7
#define ECHO_ENDPOINT   0x5000
#define ECHO_SUBMIT     31
#define ECHO_COMPLETION 0x100000u
#define ECHO_BYTES      32
#define ECHO_FRAMES     64
#define ECHO_ROOM       32
#define PATIENCE_S      20

/* ------------------------------------------------------------------ the engine's side */

/* The message that goes over the wire. */
struct echo_message {
	uint8_t is_answer;
	uint8_t bytes[ECHO_BYTES];
};

/* A message with the core, until its Ack: its handle is its address, tagged. */
struct echo_frame {
	struct echo_frame *next; /* that is free, or that waits for the core */
	struct echo_message message;
	uint16_t ctx, node, to;
} __attribute__((aligned(8)));

struct echo_lane {
	struct echo_frame frames[ECHO_FRAMES], *free;
	struct echo_frame *waiting; /* the core had no room */
};

struct echo_context {
	uint32_t under_way; /* its frames that the core has, or that wait for it */
	uint32_t heard;     /* answers that its client was not told yet: the last one's bytes */
	uint8_t bytes[ECHO_BYTES];
	uint64_t failed;
};

static struct echo_lane *
echo_lane(const struct engine *e)
{
	return e->service[ECHO_SERVICE];
}

static struct echo_context *
echo_context(const struct channel *ch)
{
	return ch->service[ECHO_SERVICE];
}

static int
echo_make(struct engine *e, char *error, size_t error_len)
{
	struct echo_lane *x = e->service[ECHO_SERVICE] = calloc(1, sizeof(*x));

	if (x == NULL) {
		snprintf(error, error_len, "no memory to echo");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < ECHO_FRAMES; i++) {
		x->frames[i].next = x->free;
		x->free = &x->frames[i];
	}
	return 0;
}

static void
echo_free(struct engine *e)
{
	free(e->service[ECHO_SERVICE]);
}

static int
echo_make_context(struct node *n, struct channel *ch)
{
	(void)n;
	ch->service[ECHO_SERVICE] = calloc(1, sizeof(struct echo_context));
	return ch->service[ECHO_SERVICE] != NULL ? 0 : -ENOMEM;
}

static void
echo_free_context(struct channel *ch)
{
	free(ch->service[ECHO_SERVICE]);
}

static void
echo_join(struct node *n, struct channel *ch)
{
	(void)n;
	memset(echo_context(ch), 0, sizeof(struct echo_context));
}

static void
echo_open(struct engine *e, struct channel *ch)
{
	proto_ctx_open(e->proto, ch->ctx | ECHO_ENDPOINT, ECHO_ROOM, 0, e->node->frag_len, e->now);
}

static void
echo_close(struct engine *e, struct channel *ch, bool linger)
{
	proto_ctx_close(e->proto, ch->ctx | ECHO_ENDPOINT, linger, e->now);
}

static bool
echo_closed(struct engine *e, struct channel *ch)
{
	(void)e;
	return echo_context(ch)->under_way == 0;
}

static void
echo_put(struct engine *e, struct channel *ch, struct echo_frame *f)
{
	f->next = echo_lane(e)->free;
	echo_lane(e)->free = f;
	echo_context(ch)->under_way--;
}

/* To the core, or into the list of those that wait for it. */
static void
echo_send(struct engine *e, struct echo_frame *f)
{
	struct echo_lane *x = echo_lane(e);
	const uint64_t handle = (uintptr_t)f | ECHO_SERVICE;
	const struct proto_message m = {
		.dst_node = f->node,
		.dst_ctx = f->to,
		.len = sizeof(f->message),
		.ctx = f->ctx | ECHO_ENDPOINT,
		.frag_len = e->node->frag_len,
	};
	int result = f->node < e->nodes_max && e->peers[f->node].known
		? proto_send(e->proto, &m, &handle, e->now)
		: -EHOSTUNREACH;

	if (result == -EAGAIN) {
		f->next = x->waiting;
		x->waiting = f;
		service_busy(e, ECHO_SERVICE);
	} else if (result != 0) {
		echo_context(&e->node->channels[f->ctx])->failed++;
		echo_put(e, &e->node->channels[f->ctx], f);
	}
}

/* NULL: all are under way. */
static struct echo_frame *
echo_take(struct engine *e, struct channel *ch, uint16_t node, uint16_t to)
{
	struct echo_frame *f = echo_lane(e)->free;

	if (f == NULL)
		return NULL;
	echo_lane(e)->free = f->next;
	echo_context(ch)->under_way++;
	f->ctx = ch->ctx;
	f->node = node;
	f->to = to;
	return f;
}

static void
echo_message(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	struct echo_message in = {0};

	proto_ctx_room(e->proto, ch->ctx | ECHO_ENDPOINT, 1, 0, e->now);
	memcpy(&in, h + 1, len < sizeof(in) ? len : sizeof(in));
	if (ch->state == CHANNEL_OPEN && in.is_answer) {
		memcpy(echo_context(ch)->bytes, in.bytes, ECHO_BYTES);
		echo_context(ch)->heard++;
		service_has_results(e, ch, ECHO_SERVICE);
	} else if (ch->state == CHANNEL_OPEN) {
		struct echo_frame *f = echo_take(e, ch, wire_be16(h->src_node),
			wire_be16(h->src_ctx));

		if (f != NULL) {
			f->message = in;
			f->message.is_answer = 1;
			echo_send(e, f);
		}
	}
	rte_pktmbuf_free(m);
}

static struct rte_mbuf *
echo_frame(struct engine *e, const struct proto_out *o, const struct peer *peer)
{
	const struct echo_frame *f = (const struct echo_frame *)(uintptr_t)(o->handle &
		~(uint64_t)SERVICE_TAG);

	return service_frame(e, o, peer, &f->message);
}

static void
echo_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	echo_context(ch)->failed += error != 0;
	echo_put(e, ch, (struct echo_frame *)(uintptr_t)(handle & ~(uint64_t)SERVICE_TAG));
}

/* Send the question of a client. In the submission the context that it asks stands where a
 * message's receiver does, and the bytes stand behind it. Return 0 if it cannot be sent now,
 * otherwise 1. */
static unsigned
echo_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct echo_frame *f = echo_take(e, ch, s->send.dst_node, s->send.dst_ctx | ECHO_ENDPOINT);

	if (f == NULL)
		return 0; /* not now */
	f->message.is_answer = 0;
	memcpy(f->message.bytes, s->send.buf, ECHO_BYTES);
	echo_send(e, f);
	return 1;
}

static bool
echo_results(struct engine *e, struct channel *ch)
{
	struct echo_context *x = echo_context(ch);

	(void)e;
	for (; x->heard > 0; x->heard--) {
		if (!slot_room(&ch->com, 1))
			return false;
		struct completion *c = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;

		c->count = ECHO_COMPLETION;
		memcpy(c->item, x->bytes, ECHO_BYTES);
		slot_publish(&ch->com, ch->com.pos++);
	}
	return true;
}

/* Give the frames to the core again that waited for it. Return how many these are. */
static unsigned
echo_step(struct engine *e)
{
	struct echo_lane *x = echo_lane(e);
	struct echo_frame *f = x->waiting;
	unsigned work = 0;

	x->waiting = NULL;
	service_idle(e, ECHO_SERVICE);
	for (struct echo_frame *next; f != NULL; f = next, work++) {
		next = f->next;
		echo_send(e, f);
	}
	return work;
}

static const struct service_ops service_echo = {
	.name = "echo",
	.number = ECHO_SERVICE,
	.endpoints = 1u << ECHO_ENDPOINT / WIRE_CONTEXTS_MAX,
	.make = echo_make,
	.free = echo_free,
	.make_context = echo_make_context,
	.free_context = echo_free_context,
	.join = echo_join,
	.open = echo_open,
	.close = echo_close,
	.closed = echo_closed,
	.message = echo_message,
	.frame = echo_frame,
	.completed = echo_completed,
	.submit = {[ECHO_SUBMIT] = echo_submit},
	.results = echo_results,
	.step = echo_step,
};

/* In the place of lib/features/engine.c. */
const struct service_ops *const features_engine[] = {&service_rma, &service_match, &service_echo,
	NULL};

/* ------------------------------------------------------------------ the client's side */

static struct {
	unsigned answers;
	uint8_t bytes[ECHO_BYTES];
} heard;

static void
echo_client_results(struct pmx_context *ctx, const struct completion *c)
{
	(void)ctx;
	memcpy(heard.bytes, c->item, ECHO_BYTES);
	heard.answers++;
}

static const struct client_service client_echo = {
	.name = "echo", .completions = ECHO_COMPLETION, .results = echo_client_results};

/* In the place of lib/features/client.c. */
const struct client_service *const features_client[] = {&client_match, &client_events,
	&client_transfer, &client_memory, &client_echo, NULL};

static void
echo(struct pmx_context *ctx, struct pmx_addr to, const uint8_t *bytes)
{
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = ECHO_SUBMIT;
	s->count = 0;
	s->send.dst_node = to.node;
	s->send.dst_ctx = to.context;
	memcpy(s->send.buf, bytes, ECHO_BYTES);
	slot_publish(&ctx->sub, ctx->sub.pos++);
}

/* ------------------------------------------------------------------ */

static struct pmx_node *nodes[2];
static struct pmx_context *ctx[2];

static void
poll_both(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
	if (ctx[0] != NULL)
		ctx_completions(ctx[0]);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE_S;                                             \
		while (!(condition)) {                                                             \
			assert_true(time(NULL) < end_);                                            \
			poll_both();                                                               \
		}                                                                                  \
	} while (0)

static int
start(void **state)
{
	(void)state;
	memset(&heard, 0, sizeof(heard));
	for (unsigned n = 0; n < 2; n++) {
		char text[512], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = echo%u\n[link 0]\ndriver = loop\nport = echo\n"
			"encap = none\n[nodes]\n0 = auto\n"
			"1 = auto\n[limits]\ncontexts = 2\nmbufs = 8192\n",
			n, n);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0 ||
			pmx_context_open(&ctx[n], nodes[n], 0, NULL) != 0) {
			print_error("%s\n", error);
			return -1;
		}
	}
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		pmx_context_close(ctx[n]);
		ctx[n] = NULL;
	}
	for (unsigned n = 0; n < 2; n++)
		pmx_node_close(nodes[n]);
	return 0;
}

static void
echo__comes_back(void **state)
{
	uint8_t bytes[ECHO_BYTES];

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		memset(bytes, (int)i, sizeof(bytes));
		echo(ctx[0], (struct pmx_addr){1, 0}, bytes);
		UNTIL(heard.answers == i + 1);
		assert_memory_equal(heard.bytes, bytes, sizeof(bytes));
	}
	UNTIL(echo_context(&nodes[0]->embedded->channels[0])->under_way == 0);
	assert_int_equal(nodes[0]->embedded->engines[0].busy >> ECHO_SERVICE & 1, 0);
}

/* More at once than there are frames for: the rest waits in the submission ring. */
static void
echo__many_at_once(void **state)
{
	const uint8_t bytes[ECHO_BYTES] = {1};
	unsigned asked = 0;

	(void)state;
	while (asked < 500) {
		if (slot_room(&ctx[0]->sub, 1)) {
			echo(ctx[0], (struct pmx_addr){1, 0}, bytes);
			asked++;
		} else {
			poll_both();
		}
	}
	UNTIL(nodes[0]->embedded->channels[0].sub.pos == ctx[0]->sub.pos);
	/* one that finds no frame free for its answer says nothing, as a network may */
	UNTIL(echo_context(&nodes[0]->embedded->channels[0])->under_way == 0 &&
		!slot_filled(&ctx[0]->com, ctx[0]->com.pos));
	assert_in_range(heard.answers, 100, 500);
	assert_int_equal(echo_context(&nodes[0]->embedded->channels[0])->failed, 0);
}

static void
echo__nobody_answers(void **state)
{
	const uint8_t bytes[ECHO_BYTES] = {1};

	(void)state;
	echo(ctx[0], (struct pmx_addr){9, 0}, bytes); /* no such node */
	UNTIL(echo_context(&nodes[0]->embedded->channels[0])->failed == 1);
	pmx_context_close(ctx[1]);
	ctx[1] = NULL;
	echo(ctx[0], (struct pmx_addr){1, 0}, bytes); /* no such context */
	UNTIL(echo_context(&nodes[0]->embedded->channels[0])->failed == 2);
	assert_int_equal(heard.answers, 0);
}

/* Check that what else the nodes do goes on beside an echo. */
static void
echo__others_go_on(void **state)
{
	const uint8_t bytes[ECHO_BYTES] = {2};
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = "matched", .len = 8};
	struct pmx_status status = {0};
	char to[8] = "";
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 5, .data = to, .len = sizeof(to)};
	pmx_request receiving;

	(void)state;
	assert_int_equal(pmx_irecv(ctx[1], &r, &receiving), 0);
	echo(ctx[0], (struct pmx_addr){1, 0}, bytes);
	assert_int_equal(pmx_isend(ctx[0], &s, NULL), 0);
	UNTIL(pmx_test(ctx[1], &receiving, &status) == 1 && heard.answers == 1);
	assert_string_equal(to, "matched");
}

static void
services__two_that_want_the_same_are_refused(void **state)
{
	const struct service_ops *const twice[] = {&service_echo, &service_echo, NULL};
	const struct service_ops other = {
		.name = "other",
		.number = 6,
		.endpoints = service_echo.endpoints,
	};
	const struct service_ops *const endpoint[] = {&service_echo, &other, NULL};
	const struct service_ops nobody = {.name = "nobody"};
	const struct service_ops *const unnumbered[] = {&nobody, NULL};
	struct services s;

	(void)state;
	assert_int_equal(services_init(&s, features_engine), 0);
	assert_int_equal(services_init(&s, twice), -EINVAL);
	assert_int_equal(services_init(&s, endpoint), -EINVAL);
	assert_int_equal(services_init(&s, unnumbered), -EINVAL);
}

int
main(void)
{
	char *eal[] = {(char[]){"test_service"}, (char[]){"--no-huge"}, (char[]){"--no-pci"},
		(char[]){"--no-shconf"}, (char[]){"--no-telemetry"}, (char[]){"-m"},
		(char[]){"128"}, (char[]){"--log-level=*:error"}, NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(echo__comes_back, start, stop),
		cmocka_unit_test_setup_teardown(echo__many_at_once, start, stop),
		cmocka_unit_test_setup_teardown(echo__nobody_answers, start, stop),
		cmocka_unit_test_setup_teardown(echo__others_go_on, start, stop),
		cmocka_unit_test(services__two_that_want_the_same_are_refused),
	};

	if (rte_eal_init(8, eal) < 0)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	rte_eal_cleanup();
	return failed;
}
