/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See group.h. Taking over by another primary: no message is sent while the lane is frozen, and
 * when all have been Acked the groups move as they are. Copies of regions are transfers, which move
 * by themselves.
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
#include "engine/lane.h"
#include "group/engine/cast.h"
#include "group/engine/group.h"
#include "rma/engine/rma.h"
#include "group/group.h"

#define ROOM            64    /* messages that may arrive at a context before its lane looks */
#define MEMBERSHIPS_MAX 4096  /* of a lane */
#define FRAMES          256   /* of a lane, with the core */
#define JOIN_US         5000  /* after which a member asks again */
#define WAIT_US         50    /* for frames of a multicast that are behind its last one */
#define ROUND_US        1000  /* after which who has not answered for a multicast is asked */
#define LOOK_US         10000 /* after which it is looked which nodes are dead */

/* Cookies of copies. */
#define COOKIE(place, region, number)                                                              \
	(RMA_COOKIE_COPY | (uint32_t)(number) << 22 | (uint32_t)(place) << 10 | (region))
_Static_assert(WIRE_GROUP_REGIONS_MAX <= 1024 && MEMBERSHIPS_MAX <= 4096 &&
		GROUP_COPY_NUMBERS <= 512,
	"cookies of copies");

_Static_assert(GROUPS_OF_CONTEXT <= 16, "bits of group_channel.refused");
/* lib/group counts directly in the lane's counters */
_Static_assert(ENGINE_bad_groups + (int)GROUP_REFUSED == (int)ENGINE_refused_groups, "order");

/* State of a channel. */
struct group_channel {
	uint16_t places[GROUPS_OF_CONTEXT]; /* by handle; GROUP_NO_PLACE: not in use */
	uint16_t refused;                 /* bits of handles that could not be opened, to be told */
	uint8_t why[GROUPS_OF_CONTEXT];   /* errno of these */
	uint16_t reaching;                /* bits of handles whose reach is to be told */
	uint8_t reach[GROUPS_OF_CONTEXT]; /* ... from this word of 32 ranks on */
	uint32_t links[GROUPS_OF_CONTEXT]; /* of the multicast whose receivers are being given */
	bool leaves;                       /* the context has ended, and leaves its groups */
};

static inline struct group_channel *
group_channel(const struct channel *ch)
{
	return ch->service[GROUP_SERVICE];
}

static inline uint64_t
message_handle(const struct group_frame *f)
{
	return (uintptr_t)f | GROUP_SERVICE;
}

static inline struct group_frame *
message_of_handle(uint64_t handle)
{
	return (struct group_frame *)(uintptr_t)(handle & ~(uint64_t)SERVICE_TAG);
}

/* ------------------------------------------------------------------ making */

static rma_fetched copied;

static struct groups_config
groups_config(struct engine *e)
{
	const struct config *config = &e->node->config;
	const uint64_t hz = rte_get_tsc_hz();
	/* of all contexts of the lane, as far as that goes */
	const uint32_t most = (config->contexts / config->lanes + 1) * config->groups;

	const uint64_t key = node_secret(e->node, SECRET_TICKETS, e->lane, 0);

	return (struct groups_config){
		.key = {key, ~key},
		.groups_max = most < MEMBERSHIPS_MAX ? most : MEMBERSHIPS_MAX,
		.members_max = config->group_members,
		.locks_max = config->group_locks,
		.regions_max = config->group_regions,
		.frames_max = FRAMES,
		.join_ticks = hz / 1000000 * JOIN_US,
		.wait_ticks = hz / 1000000 * WAIT_US,
		.round_ticks = hz / 1000000 * ROUND_US,
		.counters = &e->counters[ENGINE_bad_groups],
	};
}

static int
group_make(struct engine *e, char *error, size_t error_len)
{
	struct group_lane *x = e->service[GROUP_SERVICE] = calloc(1, sizeof(*x));
	const struct groups_config c = groups_config(e);
	void *memory = MAP_FAILED;

	if (x != NULL) {
		x->bytes = groups_memsize(&c);
		memory = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
		x->lives = calloc(e->node->config.nodes_max, sizeof(*x->lives));
	}
	if (memory != MAP_FAILED)
		x->groups = groups_init(memory, &c);
	rma_lane(e)->copied = copied;
	if (memory != MAP_FAILED && x->lives != NULL)
		return 0;
	snprintf(error, error_len, "no memory for the groups of lane %u", e->lane);
	return -ENOMEM;
}

static void
group_free(struct engine *e)
{
	struct group_lane *x = group_lane(e);

	if (x == NULL)
		return;
	if (x->groups != NULL)
		munmap(x->groups, x->bytes);
	free(x->lives);
	free(x);
}

static int
group_make_context(struct node *n, struct channel *ch)
{
	(void)n;
	ch->service[GROUP_SERVICE] = calloc(1, sizeof(struct group_channel));
	return ch->service[GROUP_SERVICE] != NULL ? 0 : -ENOMEM;
}

static void
group_free_context(struct channel *ch)
{
	free(ch->service[GROUP_SERVICE]);
}

/* ------------------------------------------------------------------ a context's life */

static void
group_join(struct node *n, struct channel *ch)
{
	struct group_channel *c = group_channel(ch);

	(void)n;
	memset(c->places, 0xFF, sizeof(c->places));
	c->refused = c->reaching = 0;
	c->leaves = false;
}

static void
group_open_endpoint(struct engine *e, struct channel *ch)
{
	proto_ctx_open(e->proto, ch->ctx | WIRE_GROUP, ROOM, 0, e->node->frag_len, e->now);
}

static void
group_end(struct engine *e, struct channel *ch, bool linger)
{
	(void)linger;
	group_channel(ch)->leaves = true;
	service_busy(e, GROUP_SERVICE);
}

static bool
may_leave(struct engine *e, struct channel *ch, uint16_t place)
{
	return group_lane(e)->may_leave == NULL || group_lane(e)->may_leave(e, ch, place);
}

/* Close the endpoint, which stays open until the other members know that the context has ended.
 * Return whether it is closed. */
static bool
group_closed(struct engine *e, struct channel *ch)
{
	if (group_channel(ch)->leaves && may_leave(e, ch, GROUP_NO_PLACE)) {
		group_channel(ch)->leaves = false;
		groups_leave(group_lane(e)->groups, ch->ctx);
		service_busy(e, GROUP_SERVICE);
	}
	if (group_channel(ch)->leaves || !groups_left(group_lane(e)->groups, ch->ctx))
		return false;
	proto_ctx_close(e->proto, ch->ctx | WIRE_GROUP, true, e->now);
	return true;
}

/* ------------------------------------------------------------------ messages */

/* Pass a message to the context of this node that it is for, on that context's lane. */
static void
take_local(struct engine *e, struct group_frame *f)
{
	const struct group_addr from = {(uint16_t)e->node->config.id, f->ctx};
	struct channel *ch = &e->node->channels[f->to.ctx];

	groups_message(group_lane(e)->groups, ch->ctx, from, 0, &f->message, sizeof(f->message));
	service_busy(e, GROUP_SERVICE);
}

/* Take a message within this node: on the lane of its context, or back on that of its sender. */
static void
group_handed_over(struct engine *e, uint64_t handle)
{
	struct group_frame *f = message_of_handle(handle);
	struct engine *back = node_lane(e->node, f->ctx);

	if (f->user != NULL) { /* it is back */
		f->user = NULL;
		group_lane(e)->local--;
		groups_acked(group_lane(e)->groups, f, 0);
		service_busy(e, GROUP_SERVICE);
		return;
	}
	take_local(e, f);
	f->user = f;
	rte_ring_enqueue(back->inbox, (void *)handle);
	engine_wake(back);
}

/* Return whether a context of this node can get messages. */
static bool
is_there(const struct engine *e, uint16_t ctx)
{
	return ctx < e->node->config.contexts && e->node->channels[ctx].state != CHANNEL_CLOSED;
}

static void
send_local(struct engine *e, struct group_frame *f)
{
	struct groups *g = group_lane(e)->groups;

	if (!is_there(e, f->to.ctx)) {
		groups_sent(g, f, ECONNREFUSED);
		return;
	}
	struct engine *lane = node_lane(e->node, f->to.ctx);

	groups_sent(g, f, 0);
	if (lane == e) {
		take_local(e, f);
		groups_acked(g, f, 0);
		return;
	}
	group_lane(e)->local++;
	rte_ring_enqueue(lane->inbox, (void *)message_handle(f));
	engine_wake(lane);
}

/* Give the message to the core. false: the core has no room now. */
static bool
send_to_core(struct engine *e, struct group_frame *f)
{
	const uint64_t handle = message_handle(f);
	const struct proto_message m = {
		.dst_node = f->to.node,
		.dst_ctx = f->to.ctx | WIRE_GROUP,
		.len = sizeof(f->message),
		.ctx = f->ctx | WIRE_GROUP,
		.frag_len = e->node->frag_len,
	};
	int result = f->to.node < e->nodes_max && e->peers[f->to.node].known
		? proto_send(e->proto, &m, &handle, e->now)
		: -EHOSTUNREACH;

	groups_sent(group_lane(e)->groups, f, (uint8_t)-result);
	return result != -EAGAIN;
}

static unsigned
send_all(struct engine *e)
{
	struct group_frame *f;
	unsigned work = 0;

	while ((f = groups_tx(group_lane(e)->groups)) != NULL) {
		f->user = NULL;
		if (f->to.node == e->node->config.id)
			send_local(e, f);
		else if (!send_to_core(e, f))
			break;
		work++;
	}
	return work;
}

static void
group_message(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	const uint16_t src = wire_be16(h->src_ctx);
	const struct group_addr from = {wire_be16(h->src_node), src & (WIRE_CONTEXTS_MAX - 1)};

	proto_ctx_room(e->proto, ch->ctx | WIRE_GROUP, 1, 0, e->now);
	if (wire_endpoint(src) == WIRE_GROUP)
		groups_message(group_lane(e)->groups, ch->ctx, from,
			proto_peer_epoch(e->proto, from.node), h + 1, len);
	else
		ENGINE_COUNT(e, refused_groups);
	rte_pktmbuf_free(m);
	service_busy(e, GROUP_SERVICE);
	service_owes(e, GROUP_SERVICE);
}

static struct rte_mbuf *
group_frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer)
{
	return service_frame(e, o, peer, &message_of_handle(o->handle)->message);
}

static void
group_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	(void)ch;
	groups_acked(group_lane(e)->groups, message_of_handle(handle), error);
	service_busy(e, GROUP_SERVICE);
}

/* Find nodes that are dead, or in another life than before, by their paths. */
static void
look_at_nodes(struct engine *e)
{
	struct group_lane *x = group_lane(e);
	struct proto_path_stat stat;

	x->look_at = e->now + rte_get_tsc_hz() / 1000000 * LOOK_US;
	for (uint32_t node = 0; node < e->nodes_max; node++) {
		if (!e->peers[node].known || !proto_path_stat(e->proto, (uint16_t)node, &stat))
			continue;
		if (stat.dead)
			groups_node_gone(x->groups, (uint16_t)node, 0);
		else if (stat.established && stat.peer_epoch != x->lives[node])
			groups_node_gone(x->groups, (uint16_t)node, stat.peer_epoch);
		x->lives[node] = stat.established ? stat.peer_epoch : x->lives[node];
	}
}

static bool
has_member(const struct engine *e, uint16_t ctx, uint32_t id, uint16_t node, uint16_t peer)
{
	const struct group_addr who = {node, peer};

	return groups_has(group_lane(e)->groups, ctx, id, who);
}

/* ------------------------------------------------------------------ copies of regions */

/* Begin to pull regions for newcomers. The engine does so, as a newcomer's program may do something
 * else meanwhile. */
static void
begin_copies(struct engine *e)
{
	struct group_lane *x = group_lane(e);
	struct group_copy c;

	while (groups_copy(x->groups, &c)) {
		const uint32_t area = AREA_OF_REGION + c.region;
		struct rma_fetch f = {
			.kind = TRANSFER_PULL,
			.node = c.home.node,
			.ctx = c.home.ctx,
			.area = true,
			.from = (uint64_t)c.id << 32 | area,
			.use = x->copies | 1u << 20, /* matching counts from below */
			.len = c.len,
			.cookie = COOKIE(c.place, c.region, c.number),
		};

		if (rma_area(rma_lane(e)->rma, c.ctx, c.id, area, &f.local) &&
			f.local.len >= c.len) {
			if (!rma_fetch(rma_lane(e)->rma, &f, e->now))
				return; /* other copies have all places */
			x->copies++;
			group_copying(x->groups, &c);
			service_busy(e, RMA_SERVICE);
		} else {
			group_copying(x->groups, &c);
			group_copied(x->groups, c.ctx, c.place, c.region, c.number, EFAULT);
		}
	}
}

static void
copied(struct engine *e, struct channel *ch, uint32_t cookie, uint8_t error)
{
	group_copied(group_lane(e)->groups, ch->ctx, cookie >> 10 & 4095, cookie & 1023,
		(cookie & ~RMA_COOKIE_COPY) >> 22, error);
	service_busy(e, GROUP_SERVICE);
}

/* ------------------------------------------------------------------ from clients */

#define OPENING_MOST_US (UINT64_C(1) << 45) /* a year; in ticks it is a number of 64 bits */

static void
open_for(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct group_channel *c = group_channel(ch);
	uint64_t most_us = s->group.timeout_us < OPENING_MOST_US ? s->group.timeout_us
								 : OPENING_MOST_US;
	const struct group_params p = {
		.id = s->group.number,
		.rank = s->group.rank,
		.count = s->group.members,
		.user = s->group.handle,
		.random = s->group.value,
		.give_up = e->now + most_us * (rte_get_tsc_hz() / 1000000),
	};
	int place = group_open(group_lane(e)->groups, ch->ctx, &p);

	if (place >= 0) {
		c->places[s->group.handle] = (uint16_t)place;
		return;
	}
	c->refused |= (uint16_t)(1u << s->group.handle);
	c->why[s->group.handle] = (uint8_t)-place;
	service_has_results(e, ch, GROUP_SERVICE);
}

static int
list_for(struct engine *e, struct channel *ch, uint16_t place, const struct submission *s)
{
	const struct group_addr own = {(uint16_t)e->node->config.id, ch->ctx};
	struct group_addr members[SUBMIT_GROUP_LIST];

	if (s->group.members > SUBMIT_GROUP_LIST)
		return -EINVAL;
	for (unsigned i = 0; i < s->group.members; i++)
		members[i] = (struct group_addr){(uint16_t)(s->group.list[i] >> 16),
			(uint16_t)s->group.list[i]};
	return group_list(group_lane(e)->groups, ch->ctx, place, &own, members, s->group.members,
		e->now);
}

/* Share a region for a client. Its bytes are those of the area that the client has registered for
 * it. */
static int
subscribe_for(struct engine *e, struct channel *ch, uint16_t place, uint64_t value, uint32_t region)
{
	struct rma_bytes bytes = {.len = 0};

	rma_area(rma_lane(e)->rma, ch->ctx, (uint32_t)value, AREA_OF_REGION + region, &bytes);
	return group_subscribe(group_lane(e)->groups, ch->ctx, place, region, bytes.len,
		value & SUBSCRIBE_NOTIFY);
}

uint16_t
service_group_place(const struct channel *ch, unsigned handle)
{
	return handle < GROUPS_OF_CONTEXT ? group_channel(ch)->places[handle] : GROUP_NO_PLACE;
}

/* Do what a client asks of its membership. Return 0 or more, or a negative errno if the submission
 * makes no sense. */
static int64_t
submit_to(struct engine *e, struct channel *ch, uint16_t place, const struct submission *s)
{
	struct groups *g = group_lane(e)->groups;
	struct group_channel *own = group_channel(ch);
	const unsigned handle = s->group.handle;
	int64_t result = -EINVAL;

	switch (s->count) {
	case GROUP_LIST:
		return list_for(e, ch, place, s);
	case GROUP_CLOSE:
		return group_close(g, ch->ctx, place);
	case GROUP_ENTER:
		return group_barrier(g, ch->ctx, place);
	case GROUP_LOCK:
	case GROUP_TRY:
		return group_lock(g, ch->ctx, place, s->group.number, s->count == GROUP_TRY);
	case GROUP_UNLOCK:
		result = group_unlock(g, ch->ctx, place, s->group.number);
		/* its manager has just gone: the client hears of that */
		return result == -EHOSTDOWN ? 0 : result;
	case GROUP_SUBSCRIBE:
		return subscribe_for(e, ch, place, s->group.value, s->group.number);
	case GROUP_UNSUBSCRIBE:
		return group_unsubscribe(g, ch->ctx, place, s->group.number);
	case GROUP_UPDATES:
		return group_update(g, ch->ctx, place, s->group.number);
	case GROUP_UPDATED:
		return group_updated(g, ch->ctx, place, s->group.number);
	case GROUP_CAST_TO:
		if (place != GROUP_NO_PLACE)
			result = service_cast_to(e, ch, place, s, &own->links[handle]);
		return result;
	case GROUP_CAST_BEGIN:
		if (place == GROUP_NO_PLACE)
			return result;
		result = service_cast_begin(e, ch, place, s, own->links[handle]);
		own->links[handle] = 0;
		return result;
	}
	return result;
}

static unsigned
group_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	const unsigned handle = s->group.handle;
	const uint16_t place = service_group_place(ch, handle);

	service_busy(e, GROUP_SERVICE);
	service_owes(e, GROUP_SERVICE);
	if (s->count == GROUP_OPEN && handle < GROUPS_OF_CONTEXT && place == GROUP_NO_PLACE &&
		!(group_channel(ch)->refused >> handle & 1)) {
		open_for(e, ch, s);
		return 1;
	}
	/* what follows an open that was refused */
	if (place == GROUP_NO_PLACE && handle < GROUPS_OF_CONTEXT && s->count == GROUP_LIST)
		return 1;
	if (s->count == GROUP_CLOSE && place != GROUP_NO_PLACE && !may_leave(e, ch, place))
		return 0;
	if (submit_to(e, ch, place, s) < 0)
		submission_bad(e, ch);
	return 1;
}

/* Write a result into the client's ring. false: it is full. */
static bool
write_result(struct channel *ch, const struct group_result *r, unsigned handle)
{
	if (!slot_room(&ch->com, 1))
		return false;
	struct completion *c = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;

	c->count = COMPLETION_GROUP;
	c->item[0] = r->kind | (uint32_t)r->error << 8 | handle << 16;
	c->item[1] = r->rank;
	c->item[2] = r->number;
	c->item[3] = r->bits;
	slot_publish(&ch->com, ch->com.pos++);
	return true;
}

/* Tell which members of a group that has opened multicasts can reach. false: the ring is full. */
static bool
write_reach(struct engine *e, struct channel *ch, unsigned handle)
{
	struct group_channel *c = group_channel(ch);
	struct group_result r = {.kind = GROUP_REACHES, .number = e->node->config.multicast};

	for (; c->reach[handle] < WIRE_GROUP_MEMBERS_MAX / 32; c->reach[handle]++) {
		r.rank = c->reach[handle];
		r.bits = service_cast_reaches(e, ch->ctx, c->places[handle], r.rank);
		if (r.bits != 0 && !write_result(ch, &r, handle))
			return false;
	}
	c->reaching &= (uint16_t) ~(1u << handle);
	return true;
}

static bool
group_results(struct engine *e, struct channel *ch)
{
	struct group_channel *c = group_channel(ch);
	struct group_result r;

	while (c->refused != 0) {
		const unsigned h = rte_bsf32(c->refused);

		r = (struct group_result){
			.kind = GROUP_OPENED,
			.error = c->why[h],
			.rank = UINT16_MAX,
			.number = 1,
		};
		if (!write_result(ch, &r, h))
			return false;
		c->refused &= (uint16_t)(c->refused - 1);
	}
	while (slot_room(&ch->com, 1) && group_result(group_lane(e)->groups, ch->ctx, &r)) {
		write_result(ch, &r, r.user);
		if (r.kind == GROUP_CLOSED) {
			c->places[r.user] = GROUP_NO_PLACE;
			c->reaching &= (uint16_t) ~(1u << r.user);
		} else if (r.kind == GROUP_OPENED && r.error == 0) {
			c->reaching |= (uint16_t)(1u << r.user);
			c->reach[r.user] = 0;
		}
	}
	while (c->reaching != 0) {
		if (!write_reach(e, ch, rte_bsf32(c->reaching)))
			return false;
	}
	return slot_room(&ch->com, 1);
}

/* ------------------------------------------------------------------ turns */

/* Return whether messages may be sent: not while another primary takes over, unless a context ends,
 * which it cannot before the other members know. */
static bool
may_send(const struct engine *e)
{
	if (likely(!group_lane(e)->frozen))
		return true;
	for (unsigned i = 0; i < e->open_count; i++) {
		if (e->open[i]->state != CHANNEL_OPEN)
			return true;
	}
	return false;
}

static unsigned
group_engine_turn(struct engine *e)
{
	unsigned work = 0;
	uint16_t ctx;

	if (may_send(e)) {
		begin_copies(e);
		work = send_all(e) + service_casts_send(e);
	}
	for (uint32_t at = 0; groups_tells(group_lane(e)->groups, &at, &ctx);) {
		struct channel *ch = &e->node->channels[ctx];

		if (ch->state == CHANNEL_OPEN)
			service_has_results(e, ch, GROUP_SERVICE);
	}
	return work;
}

static unsigned
group_step(struct engine *e)
{
	struct group_lane *x = group_lane(e);

	if (e->now >= groups_deadline(x->groups))
		groups_tick(x->groups, e->now);
	if (e->now >= x->look_at)
		look_at_nodes(e);
	unsigned work = group_engine_turn(e);

	if (groups_is_quiet(x->groups) && x->local == 0)
		service_idle(e, GROUP_SERVICE);
	return work;
}

static uint64_t
group_deadline(const struct engine *e)
{
	return groups_deadline(group_lane(e)->groups);
}

static unsigned
group_answer(struct engine *e)
{
	service_owes_nothing(e, GROUP_SERVICE);
	return group_engine_turn(e);
}

/* ------------------------------------------------------------------ preemption */

static void
group_stops(struct engine *e, struct channel *ch)
{
	groups_stop(group_lane(e)->groups, ch->ctx, e->now);
}

static void
group_starts(struct engine *e, struct channel *ch)
{
	groups_start(group_lane(e)->groups, ch->ctx, e->now);
	service_busy(e, GROUP_SERVICE);
}

static bool
group_is_settled(const struct engine *e, const struct channel *ch)
{
	return groups_are_settled(group_lane(e)->groups, ch->ctx);
}

/* ------------------------------------------------------------------ another primary takes over */

static void
group_freeze(struct engine *e, struct channel *ch)
{
	(void)ch;
	group_lane(e)->frozen = true;
}

static void
group_thaw(struct engine *e, struct channel *ch)
{
	(void)ch;
	group_lane(e)->frozen = false;
	service_busy(e, GROUP_SERVICE);
}

static bool
group_drained(const struct engine *e, const struct channel *ch)
{
	return ch != NULL || (group_lane(e)->local == 0 && !groups_out(group_lane(e)->groups));
}

static void
group_save(const struct engine *e, struct image_out *o)
{
	const struct group_lane *x = group_lane(e);
	struct group_span span;

	for (uint32_t at = 0; groups_span(x->groups, &at, &span);)
		image_put(o, span.bytes, span.len);
	image_put(o, x->lives, e->node->config.nodes_max * sizeof(*x->lives));
	image_put(o, &x->copies, sizeof(x->copies));
}

static bool
group_restore(struct engine *e, struct image_in *in)
{
	struct group_lane *x = group_lane(e);
	const struct groups_config c = groups_config(e);
	struct group_span span;

	for (uint32_t at = 0; groups_span(x->groups, &at, &span);) {
		if (!image_get(in, span.bytes, span.len))
			return false;
		/* the first one is what says which others there are */
		groups_adopt(x->groups, &c);
	}
	return image_get(in, x->lives, e->node->config.nodes_max * sizeof(*x->lives)) &&
		image_get(in, &x->copies, sizeof(x->copies));
}

static void
group_save_context(const struct channel *ch, struct image_out *o)
{
	image_put(o, group_channel(ch), sizeof(struct group_channel));
}

static bool
group_restore_context(struct channel *ch, struct image_in *in)
{
	return image_get(in, group_channel(ch), sizeof(struct group_channel));
}

static bool
group_restored(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++)
		service_has_results(e, e->open[i], GROUP_SERVICE);
	service_busy(e, GROUP_SERVICE);
	return true;
}

const struct service_ops service_group = {
	.name = "group",
	.number = GROUP_SERVICE,
	.image_form = sizeof(struct group_channel) + GROUPS_IMAGE_FORM,
	.endpoints = 1u << WIRE_GROUP / WIRE_CONTEXTS_MAX,
	.make = group_make,
	.free = group_free,
	.make_context = group_make_context,
	.free_context = group_free_context,
	.join = group_join,
	.open = group_open_endpoint,
	.close = group_end,
	.closed = group_closed,
	.message = group_message,
	.frame = group_frame_mbuf,
	.completed = group_completed,
	.handed_over = group_handed_over,
	.multicast = service_cast_heard,
	.has_member = has_member,
	.submit = {[SUBMIT_GROUP] = group_submit},
	.results = group_results,
	.step = group_step,
	.answer = group_answer,
	.deadline = group_deadline,
	.stop = group_stops,
	.start = group_starts,
	.settled = group_is_settled,
	.freeze = group_freeze,
	.thaw = group_thaw,
	.drained = group_drained,
	.save = group_save,
	.restore = group_restore,
	.save_context = group_save_context,
	.restore_context = group_restore_context,
	.restored = group_restored,
};
