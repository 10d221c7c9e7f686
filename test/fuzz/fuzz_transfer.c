/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine, fed a hostile peer's messages to the endpoints for remote memory: any operation, key,
 * offset, length, runs, stride, bitmap, as questions to a target and as answers to an initiator
 * with transfers under way. Only the bytes of regions that may be written change; what is asked for
 * and what is refused leaves nothing behind.
 *
 * Design notes
 * 1. One real node, whose peer is known and silent, with DPDK but without hugepages; an input is a
 *    sequence of messages to one life of a context. Messages are handed to the engine where
 *    deliver.c does.
 * 2. An input's bytes choose among right values and wrong ones of each field: right keys are not
 *    guessed.
 */
#include <sys/mman.h>

#include "client/client.h"
#include "rma/engine/rma.h"
#include "input.h"
#include "pmx/pmx.h"
#include "rma/internal.h"

#define BYTES  65536u
#define OFFERS 20    /* places of transfers that the library does not use here */
#define REGION 8192u /* in the middle of each half: the rest must not change */
#define AT     12288u
#define PEER   1
#define TURNS  20000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct pmx_node *node;
static struct engine *e;

struct target {
	struct pmx_context *c;
	struct channel *ch;
	uint8_t *mapped, *private; /* BYTES each: regions at AT (read, write) and at BYTES / 2 + AT
				    * (read) */
	struct pmx_remote r[4];    /* mapped: both, read; private: both, read */
	pmx_transfer_id pulls[4];
	uint8_t *into; /* what the pulls ask for */
};

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char *eal[] = {"fuzz_transfer", "--no-huge", "-m", "128", "--no-pci",
		"--no-telemetry", "--no-shconf", "-l", "0", "--log-level=*:error", NULL};
	char error[256] = "";
	struct pmx_node_params params = {
		.size = sizeof(params),
		.eal_argc = 10,
		.eal_argv = eal,
		.config_text = "[node]\nid = 0\nname = fuzz\n[engine]\nidle = spin\n[link 0]\n"
			       "driver = loop\nport = fuzz\nrx_descriptors = 64\n"
			       "tx_descriptors = 64\n[limits]\nmbufs = 2048\ncontexts = 2\n"
			       "send_buffers = 32\nreceive_buffers = 64\n"
			       "transfer_frames = 64\nrequests = 16\ntransfers = 8\nevents = 4\n"
			       "nodes = 8\npeers = 4\n"
			       "[proto]\nrto_min_us = 100\nrto_max_us = 1000\nretries = 2\n"
			       "hello_ms = 10\n"
			       "[nodes]\n0 = auto\n1 = auto\n",
	};

	(void)argc, (void)argv;
	if (pmx_node_start(&node, &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "fuzz_transfer: %s\n", error);
		exit(1);
	}
	e = &node->embedded->engines[0];
	return 0;
}

/* Submit the transfer that the library would submit for a message that is offered, or for its
 * receive. */
static void
offer(struct target *t, uint32_t place, uint8_t kind, const uint8_t *local)
{
	struct transfer_desc *d = &channel_transfers(t->c->shm)[place];
	struct submission *s = (struct submission *)slot_at(&t->c->sub, t->c->sub.pos)->body;

	*d = (struct transfer_desc){
		.kind = kind,
		.flags = kind == TRANSFER_ACCEPT ? TRANSFER_OFFERED : 0,
		.node = PEER,
		.ctx = 1,
		.id = TRANSFER_ID(place, 77),
		.memory = MEMORY_COPIED,
		.key = 5,
		.len = 4096,
		.local = (uintptr_t)local,
	};
	MUST(slot_room(&t->c->sub, 1));
	s->op = SUBMIT_TRANSFER;
	s->count = 0;
	s->transfer = place;
	slot_publish(&t->c->sub, t->c->sub.pos++);
}

static void
open_target(struct target *t)
{
	void *p;

	memset(t, 0, sizeof(*t));
	MUST(pmx_context_open(&t->c, node, 1, NULL) == 0);
	t->ch = &node->embedded->channels[1];
	MUST(pmx_alloc(t->c, 2 * BYTES, &p) == 0);
	t->mapped = p;
	t->into = t->mapped + BYTES;
	t->private = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(t->private != MAP_FAILED);
	memset(t->mapped, 0x11, BYTES);
	memset(t->into, 0x22, BYTES);
	memset(t->private, 0x33, BYTES);
	for (unsigned i = 0; i < 4; i++) {
		uint8_t *base = i < 2 ? t->mapped : t->private;

		MUST(pmx_area_register(t->c, i, base + (i % 2 ? BYTES / 2 : 0) + AT, REGION,
			     PMX_ANYONE |
				     (i % 2 ? PMX_REMOTE_READ : PMX_REMOTE_READ | PMX_REMOTE_WRITE),
			     &t->r[i]) == 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		const struct pmx_transfer pull = {
			.peer = {PEER, 1},
			.key = 1,
			.local = t->into + i * (BYTES / 4) + 4096,
			.len = 4096,
		};

		MUST(pmx_pull(t->c, &pull, &t->pulls[i]) == 0);
	}
	offer(t, OFFERS, TRANSFER_OFFER, t->mapped + AT);
	offer(t, OFFERS + 1, TRANSFER_ACCEPT, t->into + 4096);
}

static void
same(const uint8_t *p, uint32_t from, uint32_t to, uint8_t byte)
{
	for (uint32_t i = from; i < to; i++)
		MUST(p[i] == byte);
}

static void
close_target(struct target *t)
{
	same(t->mapped, 0, AT, 0x11);
	same(t->mapped, AT + REGION, BYTES, 0x11);
	same(t->private, 0, AT, 0x33);
	same(t->private, AT + REGION, BYTES, 0x33);
	for (unsigned i = 0; i < 4; i++) {
		same(t->into, i * (BYTES / 4), i * (BYTES / 4) + 4096, 0x22);
		same(t->into, i * (BYTES / 4) + 8192, (i + 1) * (BYTES / 4), 0x22);
	}
	pmx_context_close(t->c);
	munmap(t->private, BYTES);
	const struct rma *rma = rma_lane(e)->rma;

	for (unsigned i = 0; rma->frames_free != rma->cfg.frames_max; i++) {
		pmx_node_poll(node);
		MUST(i < TURNS);
	}
	MUST(rma->requests.head == NULL && rma->waiting == 0 && rma->events_waiting == 0);
	MUST(rma->pins_used == 0 && rma->contexts[t->ch->ctx]->pins == 0);
	MUST(e->counters[ENGINE_pins_granted] == e->counters[ENGINE_pins_released]);
	MUST(t->ch->state == CHANNEL_CLOSED);
}

/* A number near an edge, or any. */
static uint64_t
near(struct input *in, uint64_t edge)
{
	uint8_t how = take8(in);

	if (how < 128)
		return edge + how % 16 - 8;
	if (how < 200)
		return edge + take16(in);
	return (uint64_t)take32(in) << 32 | take32(in);
}

static void
head_of(const struct target *t, struct input *in, struct wire_transfer *h, bool to_target)
{
	uint8_t op = take8(in), which = take8(in);
	const struct pmx_remote *r = &t->r[which % 4];
	bool area = which & 64;

	*h = (struct wire_transfer){
		.op = !to_target      ? WIRE_PULLED + op % 2
			: op % 6 == 5 ? WIRE_UNPIN
			: op % 6 == 4 ? WIRE_ACCEPT
				      : 1 + op % 6,
		.flags = take8(in),
		.id = wire_be32(
			to_target ? take16(in) : channel_transfers(t->c->shm)[which % 8].id),
		.key = wire_be64(area        ? which % 5
				: which & 32 ? r->key
					     : r->key ^ 1ull << which % 64),
		.at = wire_be64(near(in, area ? 0 : r->addr)),
		.len = wire_be64(near(in, which & 16 ? REGION : 100)),
		.offset = wire_be64(near(in, 0)),
		.imm = wire_be64(take8(in)),
	};
	if (op & 128) {
		h->op = op;
		h->zero = take16(in);
	}
	if (!(op & 64))
		h->flags &= h->op == WIRE_PIN ? WIRE_T_HOLD
			: h->op == WIRE_UNPIN ? WIRE_T_LAST
			: to_target
			? WIRE_T_LAST | WIRE_T_NOTIFY | WIRE_T_RUNS | WIRE_T_STRIDE | WIRE_T_BITMAP
			: WIRE_T_LAST | WIRE_T_RUNS;
	if (area && to_target && which & 8) {
		h->flags |= WIRE_T_OFFER;
		h->key = wire_be64(channel_transfers(t->c->shm)[OFFERS + which % 2].id);
	} else if (area && to_target) {
		h->flags |= WIRE_T_AREA;
	}
}

/* Give a message to the transfer service, as deliver.c does with what the core gives it. */
static void
hear(struct target *t, const struct wire_fields *f, const struct wire_transfer *h,
	const uint8_t *bytes, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(node->embedded->pool);
	uint8_t *at;

	MUST(m != NULL);
	at = rte_pktmbuf_mtod(m, uint8_t *);
	wire_put(at, f);
	memcpy(at + WIRE_HDR_BYTES, h, sizeof(*h));
	memcpy(at + WIRE_HDR_BYTES + sizeof(*h), bytes, len);
	service_rma.message(e, t->ch, m, (uint32_t)sizeof(*h) + len);
}

static void
one_message(struct target *t, struct input *in)
{
	uint8_t bytes[1024], how = take8(in);
	bool to_target = how & 1;
	uint16_t to = t->ch->ctx | (to_target ? WIRE_TARGET : WIRE_INITIATOR),
		 from = to_target ? WIRE_INITIATOR : WIRE_TARGET;
	uint32_t len = how & 2 ? take16(in) % sizeof(bytes) : take8(in);
	struct wire_fields f = {.type = WIRE_DATA, .dst_ctx = to};
	struct wire_transfer h;

	f.src_node = how & 4 ? PEER : take8(in) % 4;
	f.src_ctx = (how & 8 ? 1 : take8(in)) | from;
	head_of(t, in, &h, to_target);
	take(in, bytes, len);
	if (h.flags & WIRE_T_STRIDE && to_target && h.op == WIRE_PULL)
		len = sizeof(struct wire_stride);
	if (h.flags & WIRE_T_BITMAP && to_target && h.op == WIRE_PULL)
		len = sizeof(struct wire_bitmap);
	if (proto_ctx_take(e->proto, to, 1, 0, true))
		hear(t, &f, &h, bytes, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct pmx_event event;
	struct target t;

	open_target(&t);
	for (int i = 0; in.left && i < 200; i++) {
		uint8_t op = take8(&in);

		if (op % 8 < 6)
			one_message(&t, &in);
		else
			pmx_node_poll(node);
		if (op % 32 == 7)
			pmx_poll_event(t.c, &event);
		if (op == 15)
			pmx_deregister(t.c, t.r[take8(&in) % 4].key);
	}
	close_target(&t);
	return 0;
}
