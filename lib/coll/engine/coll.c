/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See coll.h. Taking over by another primary: no message is sent while the lane is frozen, and when
 * all have been Acked the collectives move as they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "engine/image.h"
#include "coll/engine/bytes.h"
#include "coll/engine/coll.h"
#include "group/engine/group.h"

#define ROOM         1024 /* messages that may arrive at a context before its lane looks */
#define FRAMES       512  /* of a lane, with the core or other lanes */
#define LIVE_MAX     4096 /* collectives of a lane */
#define STEPS        8    /* of a list, for each member ... */
#define STEPS_MORE   64   /* ... and besides */
#define WORK_A_TURN  64   /* as others have turns too */
#define PIECE_COPIES 2    /* a REDUCE's two operands */

/* A message: its head and the bytes of its piece. */
struct coll_frame {
	struct coll_frame *next; /* that is free */
	uint64_t key;
	uint16_t ctx, place;
	uint16_t to_node, to_ctx, to_rank;
	uint16_t len;
	bool back; /* from another lane of this node */
	_Alignas(8) uint8_t bytes[];
};

/* State of a lane. */
struct coll_lane {
	struct colls *colls;
	struct coll_job *jobs; /* by index */
	uint8_t *memory;       /* of all this; takes pages only as it is used */
	size_t bytes;
	uint8_t *scratch;
	struct coll_frame *free, *held; /* held: the core had no room for it */
	uint32_t steps_max;
	uint64_t base;    /* TSC of 0 ns */
	double ns, ticks; /* a tick, and a ns */
	bool frozen;
};

/* State of a channel. */
struct coll_channel {
	uint16_t jobs;  /* that have not been given back */
	uint16_t ended; /* first that has ended, to be told; or JOB_NONE */
	uint16_t ended_last;
	uint16_t last;   /* that was begun: the next one may be the same */
	uint32_t frames; /* that have not arrived */
};

static inline struct coll_lane *
coll_lane(const struct engine *e)
{
	return e->service[COLL_SERVICE];
}

static inline struct coll_channel *
coll_channel(const struct channel *ch)
{
	return ch->service[COLL_SERVICE];
}

static inline uint64_t
frame_handle(const struct coll_frame *f)
{
	return (uintptr_t)f | COLL_SERVICE;
}

static inline struct coll_frame *
frame_of_handle(uint64_t handle)
{
	return (struct coll_frame *)(uintptr_t)(handle & ~(uint64_t)SERVICE_TAG);
}

static inline struct groups *
groups_of(const struct engine *e)
{
	return group_lane(e)->groups;
}

static uint64_t
now_ns(const struct engine *e)
{
	const struct coll_lane *x = coll_lane(e);

	return (uint64_t)((double)(e->now - x->base) * x->ns);
}

/* ------------------------------------------------------------------ making */

static bool may_leave(struct engine *e, struct channel *ch, uint16_t place);

_Static_assert(ENGINE_bad_collectives + (int)COLLS_REFUSED == (int)ENGINE_refused_collectives,
	"order");

static struct colls_config
colls_config(struct engine *e)
{
	const struct config *config = &e->node->config;
	const uint32_t contexts = config->contexts / config->lanes + 1;
	const uint32_t live = contexts * config->collectives;

	return (struct colls_config){
		.places_max = groups_places(groups_of(e)),
		.members_max = config->group_members,
		.live_max = live < LIVE_MAX ? live : LIVE_MAX,
		.steps_max = config->group_members * STEPS + STEPS_MORE,
		.counters = &e->counters[ENGINE_bad_collectives],
	};
}

/* Return the bytes of the longest piece that fits a frame. */
static uint32_t
piece_max(const struct engine *e)
{
	return e->node->frag_len - (uint32_t)sizeof(struct wire_coll);
}

static size_t
frame_bytes(const struct engine *e)
{
	return (sizeof(struct coll_frame) + e->node->frag_len + 63) / 64 * 64;
}

static void
coll_engine_lay_out(struct engine *e, const struct colls_config *c)
{
	struct coll_lane *x = coll_lane(e);
	const size_t tables = job_bytes(c->steps_max, c->members_max);
	uint8_t *at = x->memory;

	x->colls = colls_init(at, c);
	at += colls_memsize(c);
	for (uint32_t i = 0; i < FRAMES; i++, at += frame_bytes(e)) {
		struct coll_frame *f = (struct coll_frame *)at;

		f->next = x->free;
		x->free = f;
	}
	for (uint32_t i = 0; i < c->live_max; i++, at += tables)
		job_lay_out(&x->jobs[i], at, c->steps_max, c->members_max);
	x->scratch = at;
}

static int
coll_make(struct engine *e, char *error, size_t error_len)
{
	struct coll_lane *x = e->service[COLL_SERVICE] = calloc(1, sizeof(*x));
	const struct colls_config c = colls_config(e);

	if (x != NULL) {
		x->bytes = colls_memsize(&c) + FRAMES * frame_bytes(e) +
			c.live_max * job_bytes(c.steps_max, c.members_max) +
			PIECE_COPIES * (size_t)e->node->frag_len;
		x->memory = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		x->memory = x->memory == MAP_FAILED ? NULL : x->memory;
		x->jobs = calloc(c.live_max, sizeof(*x->jobs));
		x->steps_max = c.steps_max;
		x->base = rte_rdtsc();
		x->ticks = (double)rte_get_tsc_hz() / 1e9;
		x->ns = 1 / x->ticks;
	}
	if (x == NULL || x->memory == NULL || x->jobs == NULL) {
		snprintf(error, error_len,
			"no memory for the collectives of lane %u: they reserve %zu MiB of address "
			"space; fewer limits.contexts, limits.groups or limits.group_members need "
			"less",
			e->lane, x != NULL ? x->bytes >> 20 : 0);
		return -ENOMEM;
	}
	coll_engine_lay_out(e, &c);
	group_lane(e)->may_leave = may_leave;
	return 0;
}

static void
coll_free(struct engine *e)
{
	struct coll_lane *x = coll_lane(e);

	if (x == NULL)
		return;
	if (x->memory != NULL)
		munmap(x->memory, x->bytes);
	free(x->jobs);
	free(x);
}

static int
coll_make_context(struct node *n, struct channel *ch)
{
	(void)n;
	ch->service[COLL_SERVICE] = calloc(1, sizeof(struct coll_channel));
	return ch->service[COLL_SERVICE] != NULL ? 0 : -ENOMEM;
}

static void
coll_free_context(struct channel *ch)
{
	free(ch->service[COLL_SERVICE]);
}

/* ------------------------------------------------------------------ ends */

static void
give_back(struct engine *e, uint32_t index)
{
	struct coll_lane *x = coll_lane(e);

	coll_channel(&e->node->channels[x->jobs[index].ctx])->jobs--;
	colls_give(x->colls, index);
}

/* Tell the group how far this member is in its collectives: the others need that if it leaves. */
static void
note_part(struct engine *e, uint16_t ctx, uint16_t place)
{
	group_took_part(groups_of(e), ctx, place, colls_part(coll_lane(e)->colls, place));
}

static void
take_ends(struct engine *e)
{
	struct coll_lane *x = coll_lane(e);
	struct colls_end end;

	while (colls_ended(x->colls, &end)) {
		struct channel *ch = &e->node->channels[end.ctx];
		struct coll_channel *c = coll_channel(ch);
		struct coll_job *j = &x->jobs[end.index];

		note_part(e, end.ctx, end.place);
		if (ch->state != CHANNEL_OPEN) {
			give_back(e, end.index);
			continue;
		}
		j->error = end.error;
		j->rank = end.rank;
		j->number = end.number;
		j->next = JOB_NONE;
		if (c->ended == JOB_NONE)
			c->ended = (uint16_t)end.index;
		else
			x->jobs[c->ended_last].next = (uint16_t)end.index;
		c->ended_last = (uint16_t)end.index;
		service_has_results(e, ch, COLL_SERVICE);
	}
}

static bool
coll_results(struct engine *e, struct channel *ch)
{
	struct coll_lane *x = coll_lane(e);
	struct coll_channel *c = coll_channel(ch);

	while (c->ended != JOB_NONE && slot_room(&ch->com, 1)) {
		const uint16_t index = c->ended;
		const struct coll_job *j = &x->jobs[index];
		struct completion *r = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;

		r->count = COMPLETION_COLL;
		r->item[0] = j->ticket;
		r->item[1] = j->error | (uint32_t)j->rank << 16;
		r->item[2] = j->number;
		slot_publish(&ch->com, ch->com.pos++);
		c->ended = j->next;
		give_back(e, index);
	}
	return c->ended == JOB_NONE;
}

/* End the collectives that wait for a member that has gone. */
static void
break_some(struct engine *e)
{
	struct colls *c = coll_lane(e)->colls;
	struct colls_live l;
	uint16_t rank;

	for (uint32_t at = 0; colls_running(c, &at, &l);) {
		const uint8_t error = group_broken(groups_of(e), l.ctx, l.place, l.number, &rank);

		if (error != 0)
			colls_break(c, l.place, l.number, error, rank);
	}
}

/* ------------------------------------------------------------------ a context's life */

static void
coll_join(struct node *n, struct channel *ch)
{
	(void)n;
	*coll_channel(ch) = (struct coll_channel){.ended = JOB_NONE, .last = JOB_NONE};
}

static void
coll_open(struct engine *e, struct channel *ch)
{
	proto_ctx_open(e->proto, ch->ctx | WIRE_COLL, ROOM, 0, e->node->frag_len, e->now);
	proto_ctx_permits(e->proto, ch->ctx | WIRE_COLL);
}

/* Give up the membership's collectives that run. */
static void
coll_engine_leave(struct engine *e, struct channel *ch, uint16_t place)
{
	coll_channel(ch)->jobs -= (uint16_t)colls_leave(coll_lane(e)->colls, place);
}

static void
coll_close(struct engine *e, struct channel *ch, bool linger)
{
	struct coll_lane *x = coll_lane(e);
	struct coll_channel *c = coll_channel(ch);
	struct colls_live l;

	(void)linger;
	for (uint32_t at = 0; colls_running(x->colls, &at, &l);) {
		if (l.ctx != ch->ctx)
			continue;
		coll_engine_leave(e, ch, l.place);
		at = 0;
	}
	for (uint16_t i = c->ended, next; i != JOB_NONE; i = next) {
		next = x->jobs[i].next;
		give_back(e, i);
	}
	c->ended = JOB_NONE;
	service_busy(e, COLL_SERVICE);
}

/* Close the endpoint when the others need it no more: they rely on it until all has arrived that
 * was sent for collectives of which this member has done its part, however these ended. Return
 * whether it was closed. */
static bool
coll_closed(struct engine *e, struct channel *ch)
{
	if (coll_channel(ch)->frames > 0 || coll_channel(ch)->jobs > 0)
		return false;
	proto_ctx_close(e->proto, ch->ctx | WIRE_COLL, true, e->now);
	return true;
}

/* Let a context leave all of its groups (GROUP_NO_PLACE), or one of them, and then give up its
 * collectives there. Return whether it may leave now: it may as soon as what it has sent for
 * collectives has arrived, or cannot. The others have only that to go on with. */
static bool
may_leave(struct engine *e, struct channel *ch, uint16_t place)
{
	if (place == GROUP_NO_PLACE)
		return coll_channel(ch)->frames == 0 &&
			!colls_ctx_is_out(coll_lane(e)->colls, ch->ctx);
	coll_engine_leave(e, ch, place);
	service_busy(e, COLL_SERVICE);
	return !colls_is_out(coll_lane(e)->colls, place);
}

/* ------------------------------------------------------------------ messages that come */

/* Take a message that a member, of this node or another one, sends to a context here. */
static void
coll_engine_take(struct engine *e, uint16_t ctx, struct group_addr from, const void *message,
	uint32_t len)
{
	struct coll_lane *x = coll_lane(e);
	struct wire_coll h;
	struct group_seat s;
	struct colls_place p;

	service_busy(e, COLL_SERVICE);
	service_owes(e, COLL_SERVICE);
	if (len < sizeof(h)) {
		ENGINE_COUNT(e, bad_collectives);
		return;
	}
	memcpy(&h, message, sizeof(h));
	if (!group_seat(groups_of(e), ctx, wire_be32(h.group), wire_be64(h.key), from, &s)) {
		ENGINE_COUNT(e, refused_collectives);
		return;
	}
	const struct colls_seat seat = {s.place, ctx, s.rank, s.count, s.id, s.key};

	if (colls_message(x->colls, &seat, s.from, message, len, &p)) {
		if (job_put(&x->jobs[p.index], &e->node->channels[ctx],
			    colls_exec(x->colls, p.index), p.step, p.offset, p.bytes, p.len) != 0)
			colls_fail(x->colls, p.index, EFAULT, s.rank);
	} else if (p.permitted > 0 && from.node != e->node->config.id) {
		proto_path_permitted(e->proto, from.node,
			p.permitted < UINT32_MAX ? (uint32_t)p.permitted : UINT32_MAX);
	}
}

static void
coll_message(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	const uint16_t src = wire_be16(h->src_ctx);
	const struct group_addr from = {wire_be16(h->src_node), src & (WIRE_CONTEXTS_MAX - 1)};

	proto_ctx_room(e->proto, ch->ctx | WIRE_COLL, 1, 0, e->now);
	if (wire_endpoint(src) == WIRE_COLL)
		coll_engine_take(e, ch->ctx, from, h + 1, len);
	else
		ENGINE_COUNT(e, refused_collectives);
	rte_pktmbuf_free(m);
}

/* ------------------------------------------------------------------ messages that go */

static void
frame_ends(struct engine *e, struct coll_frame *f)
{
	struct coll_lane *x = coll_lane(e);

	colls_acked(x->colls, f->place, f->key);
	coll_channel(&e->node->channels[f->ctx])->frames--;
	f->next = x->free;
	x->free = f;
	service_busy(e, COLL_SERVICE);
}

/* End a frame that nobody sends again: it has arrived (error 0), or was lost. A member that has
 * left, or is another one now, says so by its group; one that cannot be reached from here does not,
 * and would be waited for without end, so the group is told. */
static void
frame_lost(struct engine *e, struct coll_frame *f, int error)
{
	if (error == ETIMEDOUT || error == EHOSTUNREACH) {
		group_unreachable(groups_of(e), f->ctx, f->place, f->to_rank);
		service_busy(e, GROUP_SERVICE);
	}
	frame_ends(e, f);
}

static void
take_local(struct engine *e, const struct coll_frame *f)
{
	const struct group_addr from = {(uint16_t)e->node->config.id, f->ctx};

	if (e->node->channels[f->to_ctx].state != CHANNEL_CLOSED)
		coll_engine_take(e, f->to_ctx, from, f->bytes, f->len);
}

/* Take a message within this node. On the lane of its context, deliver it and send the frame back;
 * back on the lane of its sender, end the frame. */
static void
coll_handed_over(struct engine *e, uint64_t handle)
{
	struct coll_frame *f = frame_of_handle(handle);
	struct engine *back = node_lane(e->node, f->ctx);

	if (f->back) {
		frame_ends(e, f);
		return;
	}
	take_local(e, f);
	f->back = true;
	rte_ring_enqueue(back->inbox, (void *)handle);
	engine_wake(back);
}

static void
send_local(struct engine *e, struct coll_frame *f)
{
	struct engine *lane = node_lane(e->node, f->to_ctx);

	f->back = false;
	if (lane == e) {
		take_local(e, f);
		frame_ends(e, f);
		return;
	}
	rte_ring_enqueue(lane->inbox, (void *)frame_handle(f));
	engine_wake(lane);
}

/* Send a frame. Return false: the core has no room now. */
static bool
send_frame(struct engine *e, struct coll_frame *f)
{
	const uint64_t handle = frame_handle(f);
	const struct proto_message m = {
		.dst_node = f->to_node,
		.dst_ctx = f->to_ctx | WIRE_COLL,
		.len = f->len,
		.ctx = f->ctx | WIRE_COLL,
		.frag_len = e->node->frag_len,
	};

	if (f->to_node == e->node->config.id) {
		send_local(e, f);
		return true;
	}
	const int result = f->to_node < e->nodes_max && e->peers[f->to_node].known
		? proto_send(e->proto, &m, &handle, e->now)
		: -EHOSTUNREACH;

	if (result == -EAGAIN)
		return false;
	if (result != 0)
		frame_lost(e, f, -result);
	return true;
}

/* Fill a frame and send it, or hold it until there is room. */
static void
coll_engine_send(struct engine *e, const struct colls_do *d)
{
	struct coll_lane *x = coll_lane(e);
	struct coll_frame *f = x->free;
	struct channel *ch = &e->node->channels[d->ctx];
	struct group_addr to = {0, 0};

	x->free = f->next;
	f->key = d->head.key;
	f->ctx = d->ctx;
	f->place = d->place;
	f->len = (uint16_t)(sizeof(d->head) + d->len);
	coll_channel(ch)->frames++;
	memcpy(f->bytes, &d->head, sizeof(d->head));
	if (d->len > 0 &&
		job_get(&x->jobs[d->index], ch, colls_exec(x->colls, d->index), d->step, d->offset,
			f->bytes + sizeof(d->head), d->len) != 0) {
		colls_fail(x->colls, d->index, EFAULT, x->jobs[d->index].list.rank);
		frame_ends(e, f);
		return;
	}
	if (!group_member_at(groups_of(e), d->ctx, d->place, d->to, &to)) {
		frame_ends(e, f);
		return;
	}
	f->to_node = to.node;
	f->to_ctx = to.ctx;
	f->to_rank = d->to;
	if (!send_frame(e, f))
		x->held = f;
}

static struct rte_mbuf *
coll_frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer)
{
	return service_frame(e, o, peer, frame_of_handle(o->handle)->bytes);
}

static void
coll_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	(void)ch;
	frame_lost(e, frame_of_handle(handle), error);
}

/* ------------------------------------------------------------------ from clients */

/* Begin a collective that a client has submitted. Return 0, or -errno: the client has not kept to
 * what its library does. */
static int
coll_engine_begin(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct coll_lane *x = coll_lane(e);
	struct group_seat g;
	const uint16_t place = service_group_place(ch, s->coll.handle);

	if (!group_seat_at(groups_of(e), ch->ctx, place, &g) ||
		coll_channel(ch)->jobs >= e->node->config.collectives)
		return -EINVAL;
	const int index = colls_take(x->colls, coll_channel(ch)->last);

	if (index < 0)
		return index;
	struct coll_job *j = &x->jobs[index];
	const uint32_t number = s->coll.memory;
	struct bytes from = {
		.space = &ch->space,
		.at = s->coll.at,
		.len = s->coll.len,
	};
	const struct colls_seat seat = {place, ch->ctx, g.rank, g.count, g.id, g.key};
	struct colls_place p;

	coll_channel(ch)->jobs++;
	coll_channel(ch)->last = (uint16_t)index;
	j->ctx = ch->ctx;
	j->ticket = s->coll.ticket;
	if (number != MEMORY_COPIED)
		from.memory = space_at(&ch->space, number, s->coll.at, s->coll.len);
	const bool same = job_is_same(j, &from);

	if (!same &&
		((number != MEMORY_COPIED && from.memory == NULL) ||
			job_read(j, ch, &from, x->steps_max, e->node->config.group_members) != 0 ||
			j->list.piece > piece_max(e))) {
		j->list.piece = 0; /* it cannot be run, and all members have to know */
		j->is_read = false;
	}
	const uint32_t next = colls_number(x->colls, &seat);
	uint16_t rank;
	const uint8_t error = group_broken(groups_of(e), ch->ctx, place, next, &rank);

	if (error != 0)
		colls_break(x->colls, place, next, error, rank);
	colls_begin(x->colls, (uint32_t)index, &seat, &j->list, j->blocks, j->desc.hash, same,
		now_ns(e));
	note_part(e, ch->ctx, place);
	while (colls_early(x->colls, (uint32_t)index, &p)) {
		if (job_put(j, ch, colls_exec(x->colls, p.index), p.step, p.offset, p.bytes,
			    p.len) != 0)
			colls_fail(x->colls, p.index, EFAULT, g.rank);
	}
	return 0;
}

static unsigned
coll_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	if (coll_engine_begin(e, ch, s) != 0)
		submission_bad(e, ch);
	service_busy(e, COLL_SERVICE);
	service_owes(e, COLL_SERVICE);
	return 1;
}

/* ------------------------------------------------------------------ turns */

static unsigned
coll_engine_turn(struct engine *e)
{
	struct coll_lane *x = coll_lane(e);
	const uint64_t now = now_ns(e);
	struct colls_do d;
	unsigned n = 0;

	break_some(e);
	if (x->held != NULL && send_frame(e, x->held))
		x->held = NULL;
	for (; n < WORK_A_TURN; n++) {
		const bool may_send = x->held == NULL && x->free != NULL && !x->frozen;

		if (!colls_next(x->colls, &d, may_send, now))
			break;
		if (d.what == COLLS_SEND)
			coll_engine_send(e, &d);
		else if (job_work(&x->jobs[d.index], &e->node->channels[x->jobs[d.index].ctx],
				 colls_exec(x->colls, d.index), d.step, d.offset, d.len,
				 x->scratch) != 0)
			colls_fail(x->colls, d.index, EFAULT, x->jobs[d.index].list.rank);
	}
	take_ends(e);
	return n;
}

static unsigned
coll_step(struct engine *e)
{
	const unsigned work = coll_engine_turn(e);

	if (colls_is_quiet(coll_lane(e)->colls))
		service_idle(e, COLL_SERVICE);
	return work;
}

static unsigned
coll_answer(struct engine *e)
{
	service_owes_nothing(e, COLL_SERVICE);
	return coll_engine_turn(e);
}

static uint64_t
coll_service_deadline(const struct engine *e)
{
	const struct coll_lane *x = coll_lane(e);
	const uint64_t ns = colls_deadline(x->colls);

	return ns == COLL_NEVER ? UINT64_MAX : x->base + (uint64_t)((double)ns * x->ticks) + 1;
}

/* ------------------------------------------------------------------ preemption */

static void
coll_stops(struct engine *e, struct channel *ch)
{
	colls_stop(coll_lane(e)->colls, ch->ctx);
}

static void
coll_starts(struct engine *e, struct channel *ch)
{
	colls_start(coll_lane(e)->colls, ch->ctx);
	service_busy(e, COLL_SERVICE);
}

static bool
coll_settled(const struct engine *e, const struct channel *ch)
{
	(void)e;
	return coll_channel(ch)->frames == 0;
}

/* ------------------------------------------------------------------ another primary takes over */

static void
coll_freeze(struct engine *e, struct channel *ch)
{
	(void)ch;
	coll_lane(e)->frozen = true;
}

static void
coll_thaw(struct engine *e, struct channel *ch)
{
	(void)ch;
	coll_lane(e)->frozen = false;
	service_busy(e, COLL_SERVICE);
}

static bool
coll_drained(const struct engine *e, const struct channel *ch)
{
	(void)e;
	return ch == NULL || coll_channel(ch)->frames == 0;
}

/* Save the lane's collectives, and each job that is used, with its tables. */
static void
coll_save(const struct engine *e, struct image_out *o)
{
	struct coll_lane *x = coll_lane(e);
	const struct colls_config c = colls_config((struct engine *)(uintptr_t)e);
	const size_t tables = job_bytes(c.steps_max, c.members_max);
	struct colls_span span;

	image_put(o, &x->base, sizeof(x->base));
	for (uint32_t at = 0; colls_span(x->colls, &at, &span);)
		image_put(o, span.bytes, span.len);
	for (uint32_t i = 0; i < c.live_max; i++) {
		const uint8_t used = colls_is_used(x->colls, i);

		image_put(o, &used, sizeof(used));
		if (!used)
			continue;
		image_put(o, &x->jobs[i], sizeof(x->jobs[i]));
		image_put(o, x->jobs[i].steps, tables);
	}
}

static bool
coll_restore(struct engine *e, struct image_in *in)
{
	struct coll_lane *x = coll_lane(e);
	const struct colls_config c = colls_config(e);
	const size_t tables = job_bytes(c.steps_max, c.members_max);
	struct colls_span span;

	if (!image_get(in, &x->base, sizeof(x->base)))
		return false;
	for (uint32_t at = 0; colls_span(x->colls, &at, &span);) {
		if (!image_get(in, span.bytes, span.len))
			return false;
		colls_adopt(x->colls, &c);
	}
	for (uint32_t i = 0; i < c.live_max; i++) {
		struct coll_step *own = x->jobs[i].steps;
		uint8_t used;

		if (!image_get(in, &used, sizeof(used)))
			return false;
		if (!used)
			continue;
		if (!image_get(in, &x->jobs[i], sizeof(x->jobs[i])) || !image_get(in, own, tables))
			return false;
		job_lay_out(&x->jobs[i], (uint8_t *)own, c.steps_max, c.members_max);
		colls_adopted(x->colls, i, own);
	}
	return true;
}

static void
coll_save_context(const struct channel *ch, struct image_out *o)
{
	image_put(o, coll_channel(ch), sizeof(struct coll_channel));
}

static bool
coll_restore_context(struct channel *ch, struct image_in *in)
{
	return image_get(in, coll_channel(ch), sizeof(struct coll_channel));
}

static bool
coll_restored(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++)
		service_has_results(e, e->open[i], COLL_SERVICE);
	service_busy(e, COLL_SERVICE);
	return true;
}

const struct service_ops service_coll = {
	.name = "coll",
	.number = COLL_SERVICE,
	.image_form = sizeof(struct coll_job) + COLLS_IMAGE_FORM,
	.endpoints = 1u << WIRE_COLL / WIRE_CONTEXTS_MAX,
	.make = coll_make,
	.free = coll_free,
	.make_context = coll_make_context,
	.free_context = coll_free_context,
	.join = coll_join,
	.open = coll_open,
	.close = coll_close,
	.closed = coll_closed,
	.message = coll_message,
	.frame = coll_frame_mbuf,
	.completed = coll_completed,
	.handed_over = coll_handed_over,
	.submit = {[SUBMIT_COLL] = coll_submit},
	.results = coll_results,
	.step = coll_step,
	.answer = coll_answer,
	.deadline = coll_service_deadline,
	.stop = coll_stops,
	.start = coll_starts,
	.settled = coll_settled,
	.freeze = coll_freeze,
	.thaw = coll_thaw,
	.drained = coll_drained,
	.save = coll_save,
	.restore = coll_restore,
	.save_context = coll_save_context,
	.restore_context = coll_restore_context,
	.restored = coll_restored,
};
