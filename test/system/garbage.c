/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client that writes garbage into all of its shared memory while the engine reads it: random
 * bytes anywhere, submissions that look right and are not, floods of right ones, positions of any
 * value; it never receives. garbage.sh runs it beside others.
 *
 *   garbage INSTANCE CONTEXT LIVES SEED
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "rma/client/rma.h"

/* After as many submissions it opens its context anew, and does other things wrong; or after so
 * long, for what it wrote may have ended what the engine takes. */
#define LIFE_SLOTS 20000
#define LIFE_US    100000
#define BUSY_US    60000000 /* its last life is seen off by then */
/* context number of the others: what is sent there is right, and theirs to wonder about */
#define SPARED     2

static uint64_t seed;
static struct transfer_desc *descs; /* of the context: what the header says is garbage soon */
static uint64_t region;
static unsigned kinds; /* of garbage in this life: bits, by the cases of write_garbage */
static uint64_t counts[8];
enum { SLOTS, BYTES, POSITIONS, LIVES, REFUSED };

static uint64_t
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void
draw_bytes(void *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile uint8_t *)at)[i] = (uint8_t)draw();
}

/* A number that is often near one that matters. */
static uint64_t
number(uint64_t near)
{
	switch (draw() % 6) {
	case 0:
		return draw();
	case 1:
		return 0;
	case 2:
		return near;
	case 3:
		return near + draw() % 4 - 1;
	case 4:
		return UINT64_MAX;
	default:
		return near ? draw() % near : draw() % 64;
	}
}

static void
describe(struct pmx_context *ctx, uint32_t place)
{
	struct transfer_desc *d = &descs[place];

	draw_bytes(d, draw() % sizeof(*d));
	d->kind = (uint8_t)(1 + draw() % 7);
	d->flags = (uint8_t)(draw() % 64);
	d->node = (uint16_t)(draw() % 3);
	d->ctx = (uint16_t)number(8);
	d->ctx += d->ctx == SPARED;
	d->id = TRANSFER_ID(place, draw());
	d->memory = draw() % 2 ? (uint32_t)number(2) : MEMORY_COPIED;
	d->len = number(draw() % 2 ? 100000 : 1ull << 40);
	d->local = draw() % 2 ? draw() : (uintptr_t)ctx->shm;
}

/* A submission with a mark that the engine takes for one. */
static bool
submit(struct pmx_context *ctx)
{
	static const uint8_t ops[] = {SUBMIT_SEND, SUBMIT_SEND, SUBMIT_SEND, SUBMIT_MATCHED,
		SUBMIT_INLINE, SUBMIT_INLINE_MATCHED, SUBMIT_MORE, SUBMIT_RELEASE, SUBMIT_SELECT,
		SUBMIT_TRANSFER, SUBMIT_FRAME, SUBMIT_REGISTER, SUBMIT_DEREGISTER, SUBMIT_CANCEL,
		SUBMIT_RECEIVE, SUBMIT_FORGET, SUBMIT_WITHDRAW, SUBMIT_WATCH, 0, 255};
	struct submission *s;

	if (!slot_room(&ctx->sub, 1))
		return false;
	s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;
	draw_bytes(s, sizeof(*s));
	s->op = ops[draw() % sizeof(ops)];
	s->count = (uint16_t)(draw() % 3 ? 1 : number(ctx->send_buffers));
	if (s->op == SUBMIT_SEND || s->op == SUBMIT_MATCHED) {
		s->send.dst_node = (uint16_t)(draw() % 4 ? draw() % 2 : number(3));
		s->send.dst_ctx = (uint16_t)(draw() % 2 ? ctx->ctx : number(8));
		s->send.dst_ctx += s->send.dst_ctx == SPARED;
		s->send.len = (uint32_t)(draw() % 2 ? draw() % ctx->frag_len
						    : number(ctx->max_message));
		s->send.buf[0] = (uint16_t)(draw() % 4 ? draw() % ctx->send_buffers
						       : number(ctx->send_buffers));
	} else if (s->op == SUBMIT_TRANSFER || s->op == SUBMIT_CANCEL) {
		s->transfer = (uint32_t)number(ctx->rma->transfer_count);
		if (s->transfer < ctx->rma->transfer_count)
			describe(ctx, s->transfer);
	} else if (s->op == SUBMIT_FRAME) {
		s->frame.dst_node = (uint16_t)(draw() % 2);
		s->frame.dst_ctx = (uint16_t)number(8);
		s->frame.dst_ctx += s->frame.dst_ctx == SPARED;
		s->frame.len = (uint32_t)number(ctx->frag_len);
		s->frame.buf = (uint16_t)number(ctx->send_buffers);
		s->frame.transfer = (uint16_t)number(ctx->rma->transfer_count);
	} else if (s->op == SUBMIT_WITHDRAW) {
		s->withdraw.buf = (uint16_t)number(ctx->send_buffers);
		s->withdraw.at_us = draw() % 2 ? 0 : (int64_t)(number(1u << 31) * 4000);
	} else if (s->op == SUBMIT_REGISTER || s->op == SUBMIT_RECEIVE) {
		s->region.memory = (uint32_t)(draw() % 2 ? MEMORY_COPIED : number(2));
		s->region.rights = (uint32_t)(draw() % 4);
	}
	slot_publish(&ctx->sub, ctx->sub.pos++);
	counts[SLOTS]++;
	return true;
}

static void
write_garbage(struct pmx_context *ctx)
{
	struct channel_shm *shm = ctx->shm;
	uint8_t *base = (uint8_t *)shm;
	/* the engine tells there what it took: left alone, or there would be nothing more to say to
	 * it */
	const uint64_t spared = offsetof(struct channel_shm, submissions_pos);
	uint64_t at, end = region;

	unsigned kind = draw() % 4;

	if (!(kinds >> kind & 1))
		return;
	switch (kind) {
	case 0: /* anywhere behind the submissions */
		at = sizeof(*shm) + (uint64_t)(ctx->sub.mask + 1) * SLOT_BYTES;
		at += draw() % (end - at - 256);
		draw_bytes(base + at, draw() % 256);
		counts[BYTES]++;
		break;
	case 1: /* the header */
		at = draw() % (sizeof(*shm) - 64);
		if (at + 64 <= spared || at >= spared + 4)
			draw_bytes(base + at, draw() % 64);
		counts[BYTES]++;
		break;
	case 2:
		atomic_store(&shm->lhs_pos, (uint32_t)number(1024));
		atomic_store(&shm->matched_pos, (uint32_t)number(1024));
		atomic_store(&shm->completions_pos, (uint32_t)number(64));
		atomic_store(&shm->events_pos, (uint32_t)number(256));
		atomic_store(&shm->wake_client, (uint32_t)draw());
		counts[POSITIONS]++;
		break;
	default:
		draw_bytes((void *)(uintptr_t)shm->revoked, draw() % REGIONS_WATCHED);
		counts[BYTES]++;
	}
}

int
main(int argc, char **argv)
{
	struct pmx_node *node;
	struct pmx_context *ctx;

	if (argc < 5)
		return 2;
	const uint64_t lives = strtoull(argv[3], NULL, 0);

	seed = strtoull(argv[4], NULL, 0) * 0x9E3779B97F4A7C15u + 1;
	int result = pmx_node_attach(&node, argv[1], NULL);

	while (result == 0 && counts[LIVES] < lives) {
		const int64_t patience = clock_us() + BUSY_US;

		while ((result = pmx_context_open(&ctx, node, atoi(argv[2]), NULL)) == -EBUSY &&
			clock_us() < patience)
			usleep(1000); /* its last life is seen off */
		if (result == -EPIPE && counts[LIVES] > 0) {
			result = 0; /* it broke its own connection */
			break;
		}
		if (result != 0)
			break;
		const int64_t life = clock_us() + LIFE_US;
		const uint64_t slots = counts[SLOTS] + LIFE_SLOTS;

		kinds = counts[LIVES]++ % 16;
		const int doorbell = ctx->doorbell;

		descs = channel_transfers(ctx->shm);
		region = ctx->mapped ? ctx->mapped : ctx->shm->bytes;
		/* what the library would believe of the memory */
		const struct pmx_context mine = *ctx;

		while (counts[SLOTS] < slots && clock_us() < life) {
			for (unsigned i = 0; i < 64; i++) {
				if (draw() % 8 && submit(ctx))
					continue;
				write_garbage(ctx);
			}
			if (write(doorbell, &(uint64_t){1}, 8) < 0)
				counts[REFUSED]++;
			sched_yield();
		}
		ctx->shm->state = CHANNEL_OPEN;
		ctx->shm->generation = mine.generation;
		ctx->rma->pieces_used = 0;
		pmx_context_close(ctx);
	}
	printf("# %lu lives, %lu submissions, %lu times bytes anywhere, %lu positions\n",
		counts[LIVES], counts[SLOTS], counts[BYTES], counts[POSITIONS]);
	if (result != 0)
		fprintf(stderr, "garbage: %s\n", pmx_strerror(result));
	fflush(stdout);
	_exit(result != 0); /* nothing of the library is as it was */
}
