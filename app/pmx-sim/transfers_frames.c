/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending: the frames of the library, and what clients send themselves. The simulator's payloads
 * are identities, so the contents of each frame are kept here from the moment that the core has it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfers.h"

/* ------------------------------------------------------------------ frames out */

static uint16_t
sim_endpoint(const struct sim_transfers *x, uint16_t number)
{
	static const uint16_t kinds[] = {0, 0, 1, 2};

	return (uint16_t)(kinds[number / WIRE_CONTEXTS_MAX] * x->contexts +
		number % WIRE_CONTEXTS_MAX);
}

int
sent_give(struct sim_transfers *x, const struct transfer_sent *s)
{
	if (x->sent_count == x->sent_cap) {
		x->sent_cap = x->sent_cap ? 2 * x->sent_cap : 256;
		x->sent = realloc(x->sent, x->sent_cap * sizeof(*x->sent));
	}
	int result = sim_send(x->sim, s->node, sim_endpoint(x, s->src), s->dst_node,
		sim_endpoint(x, s->dst), (uint32_t)sizeof(s->head) + s->len, x->sent_count);

	if (result == 0)
		x->sent[x->sent_count++] = *s;
	return result;
}

/* Fill in the bytes of runs, behind the head of each. */
static void
runs_fill(struct sim_transfers *x, const struct rma_frame *f, uint8_t *bytes, uint32_t len)
{
	uint64_t at = f->runs_from;
	struct wire_runs runs = {bytes, len, at, 0, 0};
	const uint8_t *run;

	while ((run = wire_run_next(&runs)) != NULL) {
		const uint8_t *from = piece_bytes(x, &f->source, f->source.at + runs.at, runs.len,
			false);

		if (from != NULL)
			memcpy(bytes + (run - bytes), from, runs.len);
	}
	if (runs.left != 0)
		transfers_wrong(x, "the runs of a frame do not fit it");
}

/* Give a frame to the core. Returns 0, -EAGAIN, or what is wrong with its destination. */
static int
frame_give(struct sim_transfers *x, uint32_t node, struct rma_frame *f)
{
	struct transfer_sent s = {
		.len = f->len - (uint32_t)sizeof(s.head),
		.node = node,
		.src = f->src,
		.dst_node = f->node,
		.dst = f->dst,
		.frame = f,
	};
	const uint32_t written = f->head_len - (uint32_t)sizeof(s.head);
	const bool ping = f->src / WIRE_CONTEXTS_MAX == 3;

	if (ping) {
		s.len = 0;
	} else if (!f->runs && written == 0 && f->source.len != 0 && transfers_draw(x) % 2) {
		s.from = piece_bytes(x, &f->source, f->source.at, f->source.len, false);
		f->in_place = true;
	} else {
		s.bytes = malloc(s.len + 1);
		memcpy(s.bytes, f->head + 1, f->runs ? s.len : written);
		const uint8_t *from = f->source.len != 0 && !f->runs
			? piece_bytes(x, &f->source, f->source.at, f->source.len, false)
			: NULL;

		if (from != NULL)
			memcpy(s.bytes + written, from, f->source.len);
		else if (f->runs)
			runs_fill(x, f, s.bytes, s.len);
	}
	memcpy(&s.head, f->head, ping ? sizeof(struct wire_match) : sizeof(s.head));
	int result = sent_give(x, &s);

	if (result != 0)
		free(s.bytes);
	return result;
}

unsigned
lane_send(struct sim_transfers *x, struct sim_lane *l, struct rma_frame **out, unsigned n)
{
	unsigned went = 0;
	int result = 0;

	while (went < n && (result = frame_give(x, l->node, out[went])) == 0)
		went++;
	rma_sent(l->rma, went, (uint8_t)-result, sim_now(x->sim));
	return went;
}

const uint8_t *
sent_bytes(struct transfer_sent *s)
{
	if (s->bytes == NULL) {
		s->bytes = malloc(s->len + 1);
		if (s->from != NULL)
			memcpy(s->bytes, s->from, s->len);
	}
	return s->bytes;
}

/* ------------------------------------------------------------------ what a client sends itself */

void
client_send_failed(struct sim_transfers *x, const struct transfer *t, uint8_t error)
{
	struct rma *rma = x->lanes[t->node].rma;

	if (t->form == OFFER)
		rma_offers_lost(rma, t->ctx, (uint16_t)t->peer, t->target, error);
	else
		rma_packed_failed(rma, t->ctx, t->desc.id, error);
}

/* Send a message of a client. Returns false if it has to be tried again. */
static bool
client_gives(struct sim_transfers *x, struct transfer *t, struct transfer_sent *s)
{
	struct client *c = client_of(x, t->node, t->ctx);
	int result;

	s->node = t->node;
	s->dst_node = t->peer;
	s->life = c->life;
	s->transfer = t->number;
	result = c->sent < TRANSFERS_SENDS ? sent_give(x, s) : -EAGAIN;
	c->sent += result == 0;
	if (result != 0)
		free(s->bytes);
	if (result != 0 && result != -EAGAIN)
		client_send_failed(x, t, (uint8_t)-result);
	return result == 0;
}

/* Send the message of an offer, which the receiver fetches. */
void
offer_say(struct sim_transfers *x, struct transfer *t)
{
	struct transfer_sent s = {.src = t->ctx | WIRE_MATCHED, .dst = t->target | WIRE_MATCHED};
	const struct wire_match head = {.op = WIRE_OFFER};

	memcpy(&s.head, &head, sizeof(head));
	if (client_gives(x, t, &s))
		t->given = 1;
}

/* Make the next frame of a packed push, with runs: every second block of PACKED_RUN bytes. */
static void
packed_frame(const struct sim_transfers *x, const struct transfer *t, struct transfer_sent *s,
	uint32_t *next)
{
	uint32_t at = t->given, first = at, end = at;

	s->bytes = malloc(x->cfg.payload_max);
	s->len = 0;
	while (at < t->len && s->len + sizeof(struct wire_run) + PACKED_RUN <= x->cfg.payload_max) {
		uint32_t len = t->len - at < PACKED_RUN ? t->len - at : PACKED_RUN;
		const struct wire_run run = {wire_be32(at - end), wire_be32(len)};

		memcpy(s->bytes + s->len, &run, sizeof(run));
		memcpy(s->bytes + s->len + sizeof(run), t->local.bytes + at, len);
		s->len += (uint32_t)sizeof(run) + len;
		end = at + len;
		at += 2 * PACKED_RUN;
	}
	*next = at;
	s->src = t->ctx | WIRE_INITIATOR;
	s->dst = t->target | WIRE_TARGET;
	s->head = (struct wire_transfer){
		.op = WIRE_PUSH,
		.flags = WIRE_T_RUNS | (t->desc.flags & TRANSFER_AREA ? WIRE_T_AREA : 0),
		.id = wire_be32(t->desc.id),
		.key = wire_be64(t->desc.key),
		.at = wire_be64(t->desc.at),
		.len = wire_be64(t->desc.len),
		.offset = wire_be64(first),
	};
	if (at < t->len)
		return;
	s->head.flags |= WIRE_T_LAST;
	if (t->desc.flags & TRANSFER_NOTIFY) {
		s->head.flags |= WIRE_T_NOTIFY;
		s->head.imm = wire_be64(t->desc.imm);
	}
}

void
packed_send(struct sim_transfers *x, struct sim_lane *l, struct transfer *t)
{
	const uint32_t place = TRANSFER_PLACE(t->desc.id);

	while (t->state == OPEN && t->given < t->len && rma_is_packed(l->rma, t->ctx, place)) {
		struct transfer_sent s = {0};
		uint32_t next;

		packed_frame(x, t, &s, &next);
		if (!client_gives(x, t, &s))
			return;
		t->given = next;
		if (next >= t->len)
			rma_packed(l->rma, t->ctx, place, sim_now(x->sim));
	}
}
