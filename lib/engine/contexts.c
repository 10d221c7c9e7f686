/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening, closing and reaping contexts. Commands come from other threads through a mailbox and
 * are done on the lane that owns the context, between two polls.
 *
 * Design notes
 * 1. A context that closes first has its submissions taken, then waits until everything it sent is
 *    completed, which the core's retries bound; then every mbuf it had returns to the pool.
 * 2. An aborted context (its process is gone) skips both: everything it sent ends at once.
 * 3. While a context that closed waits, it keeps only the mbufs of what it sent, and is not
 *    resident (quotas.h): its receiver may be parked, and may need just the others to be loaded.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "engine/contexts.h"
#include "engine/freeze.h"
#include "engine/link_io.h"
#include "engine/local.h"
#include "engine/quotas.h"
#include "engine/sealed.h"
#include "engine/submit.h"
#include "engine/thin.h"
#include "engine/turns.h"
#include "engine/watch.h"

#define PAUSE_US 20 /* between looks of a lane that waits */

static void
free_send_slots(struct node *n, struct channel *ch)
{
	for (uint32_t i = 0; i < channel_send_slots(ch); i++)
		slot_leave_buffer(n, &ch->slots[i]);
}

/* Make the send slots. parked: they get their mbufs later. Return 0, or -ENOSPC. */
static int
make_send_slots(struct node *n, struct channel *ch, bool parked)
{
	for (uint32_t i = 0; i < channel_send_slots(ch); i++) {
		ch->slots[i] = (struct send_slot){
			.m = &n->absent,
			.ctx = ch->ctx,
			.number = (uint16_t)i,
			.state = SEND_CLIENT,
		};
		if (i >= ch->send_buffers)
			ch->inline_slot[i - ch->send_buffers] = (uint16_t)i;
	}
	ch->inline_free = ch->inline_sends;
	for (uint32_t i = 0; i < channel_send_slots(ch); i++) {
		struct rte_mbuf *m = parked ? NULL : rte_pktmbuf_alloc(n->pool);

		if (parked) {
			slot_tell(ch, i);
		} else if (m == NULL) {
			free_send_slots(n, ch);
			return -ENOSPC;
		} else {
			slot_set_buffer(ch, i, m);
		}
	}
	return 0;
}

/* Reset an inlet. Local messages that wait for the context to open stay in it. */
static void
join_inlet(struct inlet *in, const struct lhs_config *c, void *memory, _Atomic uint32_t *read,
	uint16_t endpoint)
{
	lhs_end_init(&in->lhs, c, memory);
	in->read = read;
	in->lhs_pos = 0;
	in->lhs_size = c->entries;
	in->bulk_out = 0;
	in->chain_count = 0;
	in->local_turn = false;
	in->endpoint = endpoint;
}

/* Set the engine's side of the channel, with each ring at its beginning. */
static void
join_own(struct node *n, struct channel *ch)
{
	struct channel_shm *shm = ch->shm;
	const struct channel_geometry *g = &n->geometry;
	const struct config_range *range = config_range(&n->config, ch->ctx);

	ch->send_off = channel_part(ch, n->layout.send_off);
	ch->bufs = ch->thin ? ch->thin->bufs : n->bufs;
	ch->bufs_count = ch->thin ? ch->thin->count : n->bufs_count;
	slot_end_init(&ch->sub, channel_part(ch, n->layout.submissions), g->submissions,
		&shm->submissions_pos);
	slot_end_init(&ch->com, channel_part(ch, n->layout.completions), g->completions,
		&shm->completions_pos);
	join_inlet(&ch->plain, &g->lhs, channel_part(ch, n->layout.lhs), &shm->lhs_pos, ch->ctx);
	join_inlet(&ch->matched, &g->matched, channel_part(ch, n->layout.matched),
		&shm->matched_pos, ch->ctx | WIRE_MATCHED);
	if (range && range->lhs_entries && range->lhs_entries < ch->plain.lhs_size)
		ch->plain.lhs_size = range->lhs_entries;
	if (range && range->lhs_entries && range->lhs_entries < ch->matched.lhs_size)
		ch->matched.lhs_size = range->lhs_entries;
	ch->frag_len = n->frag_len;
	ch->message = (struct proto_message){.ctx = ch->ctx, .frag_len = n->frag_len};
	ch->one_max = n->frag_len < n->config.message_max ? n->frag_len : n->config.message_max;
	ch->done_head = ch->done_tail = 0;
	ch->busy_slots = 0;
	ch->inline_done = ch->inline_failed = ch->inline_told = 0;
	ch->selects = ch->expires = ch->watches = false;
	ch->received = ch->sent = ch->bad = 0;
	ch->received_bytes = ch->sent_bytes = 0;
	ch->burst = range && range->burst ? range->burst : n->config.burst;
	ch->space = (struct memory_space){
		.most = ch->thin == NULL               ? UINT64_MAX
			: range && range->shared_bytes ? range->shared_bytes
						       : n->config.shared_bytes,
		.mm_fd = -1,
	};
	ch->results = 0;
	ch->engine_matches = false;
	SERVICE_FOREACH(ops, &n->services) {
		if (ops->join != NULL)
			ops->join(n, ch);
	}
}

static void
join_ends(struct node *n, struct channel *ch)
{
	struct channel_shm *shm = ch->shm;
	const struct config_range *range = config_range(&n->config, ch->ctx);

	channel_format(shm, &n->geometry, (uint16_t)n->config.id, ch->ctx, ++ch->generation);
	join_own(n, ch);
	shm->lhs_room = ch->plain.lhs_size;
	shm->matched_room = ch->matched.lhs_size;
	shm->send_buffers = ch->send_buffers;
	shm->inline_sends = ch->inline_sends;
	shm->receive_buffers = ch->plain.bulk_quota;
	shm->matched_buffers = ch->matched.bulk_quota;
	shm->unexpected = n->config.unexpected;
	shm->unexpected_bytes = n->config.unexpected_bytes;
	shm->receives = n->config.receives;
	shm->groups = n->config.groups;
	shm->group_members = n->config.group_members;
	shm->group_locks = n->config.group_locks;
	shm->group_regions = n->config.group_regions;
	shm->collectives = n->config.collectives;
	shm->rendezvous = n->config.rendezvous;
	shm->engine_matches = ch->engine_matches;
	shm->kernel_copies = ch->thin == NULL;
	shm->pairs = n->config.direct == DIRECT_USER;
	shm->frag_len = n->frag_len;
	shm->pin_bytes = range && range->pin_bytes ? range->pin_bytes : n->config.pin_bytes;
	shm->pin_entries = n->config.pin_entries;
	shm->pin_cache = n->config.pin_cache;
	shm->pin_watch = n->config.pin_watch;
	shm->yields = idle_shares(n->config.idle);
	shm->engine_may_sleep = shm->yields;
}

/* Switch the channel to a thin client's region and eventfds, or back to the node's own if t is
 * NULL. */
static void
set_thin(struct engine *e, struct channel *ch, struct thin *t)
{
	struct epoll_event event = {.events = RINGS, .data.u32 = BELL_OF(ch->ctx)};

	/* an earlier client may still have that eventfd, and must not wake this lane any more */
	if (ch->thin != NULL)
		epoll_ctl(e->sleep_fd, EPOLL_CTL_DEL, ch->doorbell, NULL);
	ch->thin = t;
	ch->shm = t ? (struct channel_shm *)t->memory->base : ch->own;
	ch->event_fd = t ? t->event_fd : ch->own_event_fd;
	ch->doorbell = t ? t->doorbell : ch->own_doorbell;
	if (t != NULL)
		epoll_ctl(e->sleep_fd, EPOLL_CTL_ADD, ch->doorbell, &event);
}

int
context_bell(const struct channel *ch)
{
	struct epoll_event event = {.events = RINGS};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, ch->event_fd, &event) == 0)
		return fd;
	int error = errno;

	if (fd >= 0)
		close(fd);
	return -error;
}

int
context_resume(struct engine *e, struct channel *ch, const struct quotas *q, struct thin *t,
	bool parked)
{
	struct node *n = e->node;

	set_thin(e, ch, t);
	quotas_set(ch, q);
	if (!parked && quotas_take(n, ch) != 0)
		return -ENOSPC;
	join_own(n, ch);
	int result = make_send_slots(n, ch, parked);

	if (result != 0)
		return result;
	memset(ch->shm->name, 0, sizeof(ch->shm->name)); /* that of an earlier client */
	ch->state = CHANNEL_OPEN;
	turns_add(e, ch);
	watch_begin(e, ch);
	return 0;
}

bool
context_keeps(struct node *n, struct channel *ch, uint16_t slot)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(n->pool);

	if (m == NULL)
		return false;
	slot_set_buffer(ch, slot, m);
	ch->promised++;
	atomic_fetch_sub(&n->mbufs_left, 1);
	return true;
}

/* Return for how many ticks the submissions of a context that closes may still be taken: as long as
 * half of all retries last. */
static uint64_t
close_patience(const struct node *n)
{
	return rte_get_tsc_hz() / 1000000 * n->config.proto.rto_max_us *
		(n->config.proto.retries / 2 + 1);
}

/* Begin to close the context. Return whether what it has sent can still be delivered. */
static bool
begin_close(struct engine *e, struct channel *ch)
{
	bool lingers = true;

	SERVICE_FOREACH(ops, e->services)
		lingers &= ops->ending == NULL || ops->ending(e, ch);
	ch->state = CHANNEL_CLOSING;
	turns_busy(e, ch);
	ch->closed_at = ch->sub.pos;
	ch->close_until = e->now + close_patience(e->node);
	return lingers;
}

void
contexts_end_secondaries(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];

		if (ch->thin != NULL || ch->state != CHANNEL_OPEN)
			continue;
		begin_close(e, ch); /* what it has submitted is still sent */
		atomic_store_explicit(&ch->shm->state, CHANNEL_DEAD, memory_order_relaxed);
		eventfd_write(ch->event_fd, 1);
	}
}

static void
open_inlet(struct engine *e, const struct inlet *in)
{
	proto_ctx_open(e->proto, in->endpoint, in->lhs_size, in->bulk_quota, in->lhs.split, e->now);
	/* it holds no mbufs of what it receives */
	if (quotas_are_copied(e->node, in->ch))
		proto_ctx_copied(e->proto, in->endpoint);
}

static int
contexts_open_context(struct engine *e, struct command *cmd)
{
	struct node *n = e->node;
	struct channel *ch = &n->channels[cmd->ctx];

	if (cmd->open_wait_us > PROTO_OPEN_WAIT_MAX_US)
		return -EINVAL;
	if (ch->state != CHANNEL_CLOSED || ch->dirty)
		return -EBUSY;
	set_thin(e, ch, cmd->thin);
	quotas_set(ch, &cmd->quotas);
	if (cmd->parked ? quotas_exceed(n, ch) : quotas_take(n, ch) != 0) {
		set_thin(e, ch, NULL);
		return -ENOSPC;
	}
	join_ends(n, ch);
	int result = make_send_slots(n, ch, cmd->parked);

	if (result != 0) {
		quotas_give(n, ch, 0);
		set_thin(e, ch, NULL);
		return result;
	}
	/* 64-bit, since 32768 buffers of 64 KiB exceed 32 bits */
	uint64_t most = (uint64_t)ch->send_buffers * n->frag_len;

	ch->shm->max_message = most < n->config.message_max ? (uint32_t)most
							    : n->config.message_max;
	ch->pid = cmd->pid;
	ch->job = cmd->job;
	ch->domain = cmd->domain;
	ch->open_wait = rte_get_tsc_hz() / 1000000 * cmd->open_wait_us;
	atomic_store_explicit(&ch->aborted, false, memory_order_relaxed);
	/* with 0 the kernel finds no process, and copies nothing */
	ch->space.pid = ch->thin ? 0 : cmd->pid ? cmd->pid : getpid();
	ch->space.mm_fd = cmd->mm_fd > 0 ? cmd->mm_fd : -1;
	cmd->generation = ch->generation;
	ch->parks = cmd->parked;
	ch->state = CHANNEL_OPEN;
	/* its process was a computation until now */
	e->contended = (struct contended){0};
	turns_add(e, ch);
	open_inlet(e, &ch->plain);
	open_inlet(e, &ch->matched);
	SERVICE_FOREACH(ops, &n->services) {
		if (ops->open != NULL)
			ops->open(e, ch);
	}
	for (uint32_t k = 0; k < WIRE_ENDPOINTS; k += WIRE_CONTEXTS_MAX) {
		proto_ctx_domain(e->proto, (uint16_t)(ch->ctx | k), ch->domain);
		proto_ctx_open_wait(e->proto, (uint16_t)(ch->ctx | k), cmd->open_wait_us);
	}
	ENGINE_COUNT(e, contexts_opened);
	/* release: the region is complete before the state says so */
	atomic_store_explicit(&ch->shm->state, CHANNEL_OPEN, memory_order_release);
	return 0;
}

/* Close the endpoints, so that nothing new comes in. What was sent is still delivered if linger is
 * set, otherwise it ends at once; what services have under way ends. Services close in the reverse
 * of their order, since later ones are built on earlier ones. */
static void
close_endpoints(struct engine *e, struct channel *ch, bool linger)
{
	proto_ctx_close(e->proto, ch->ctx, linger, e->now);
	proto_ctx_close(e->proto, ch->ctx | WIRE_MATCHED, linger, e->now);
	SERVICE_FOREACH_REVERSE(ops, e->services) {
		if (ops->close != NULL)
			ops->close(e, ch, linger);
	}
}

static int
close_context(struct engine *e, const struct command *cmd)
{
	struct channel *ch = &e->node->channels[cmd->ctx];

	if (ch->state == CHANNEL_CLOSED ||
		(cmd->generation != 0 && cmd->generation != ch->generation))
		return -ENOENT;
	if (cmd->op == COMMAND_ABORT && ch->state != CHANNEL_OPEN)
		/* it closed before its process ended, so what it sent is still delivered */
		return -EALREADY;
	const bool lingers = ch->state != CHANNEL_OPEN || begin_close(e, ch);

	atomic_store_explicit(&ch->shm->state, CHANNEL_CLOSED, memory_order_relaxed);
	if (cmd->op == COMMAND_ABORT || !lingers) {
		ch->state = CHANNEL_DEAD;
		close_endpoints(e, ch, false);
	}
	if (cmd->op == COMMAND_ABORT) {
		ENGINE_COUNT(e, contexts_died);
		atomic_store_explicit(&ch->aborted, true, memory_order_relaxed);
		/* release: ch->aborted must be visible before this */
		atomic_fetch_add_explicit(&e->node->aborts, 1, memory_order_release);
	}
	return 0;
}

static int
add_memory(struct engine *e, const struct command *cmd)
{
	struct channel *ch = &e->node->channels[cmd->ctx];

	if (ch->state != CHANNEL_OPEN || cmd->generation != ch->generation)
		return -ENOENT;
	return space_add(&ch->space, cmd->memory);
}

void
engine_command(struct engine *e, struct command *cmd)
{
	e->due_at = 0;
	if (cmd->ctx >= e->node->config.contexts)
		cmd->result = -EINVAL;
	else if (cmd->op == COMMAND_OPEN)
		cmd->result = contexts_open_context(e, cmd);
	else if (cmd->op == COMMAND_MEMORY)
		cmd->result = add_memory(e, cmd);
	else if (cmd->op == COMMAND_FREEZE) {
		freeze_begin(e);
		cmd->result = 0;
	} else if (cmd->op == COMMAND_ANNOUNCE) {
		engine_announce(e);
	} else if (cmd->op == COMMAND_PAUSE) {
		cmd->result = 0;
	} else if (cmd->op >= COMMAND_KEYS && cmd->op <= COMMAND_KEYS_ALL) {
		sealed_command(e, cmd);
	} else if (cmd->op >= COMMAND_SERVICE) {
		cmd->result = e->services->command != NULL ? e->services->command(e, cmd)
							   : -EOPNOTSUPP;
	} else {
		cmd->result = close_context(e, cmd);
	}
	/* 0: no pause */
	const uint32_t ticket = cmd->op == COMMAND_PAUSE ? cmd->ticket : 0;

	/* release: the result must be visible before done; pairs with node_command */
	atomic_store_explicit(&cmd->done, true, memory_order_release);
	while (ticket != 0 && atomic_load(&e->paused) == ticket && !atomic_load(&e->stop))
		usleep(PAUSE_US);
}

void
thin_end(struct node *n, struct channel *ch)
{
	if (ch->thin == NULL)
		return;
	struct memory *m = ch->thin->memory;

	set_thin(node_lane(n, ch->ctx), ch, NULL);
	/* last, since this lets others unmap the region; readers of it (telemetry.c) hold the lock
	 * against that */
	memory_retire(&n->mappings, m);
}

static void
contexts_finish(struct engine *e, struct channel *ch)
{
	struct node *n = e->node;

	free_send_slots(n, ch);
	for (uint32_t i = 0, left = ch->thin ? 0 : ch->plain.bulk_out + ch->matched.bulk_out;
		i < n->bufs_count && left > 0; i++) {
		if (n->bufs[i].owner != ch->ctx)
			continue;
		n->bufs[i].owner = BUF_FREE;
		rte_pktmbuf_free(n->bufs[i].m);
		left--;
	}
	ch->plain.bulk_out = ch->matched.bulk_out = 0;
	quotas_give(n, ch, 0);
	turns_remove(e, ch);
	space_end(&n->mappings, &ch->space);
	thin_end(n, ch);
	if (ch->space.mm_fd >= 0)
		close(ch->space.mm_fd);
	ch->state = CHANNEL_CLOSED;
	ch->low = false;
	ch->pid = 0;
}

/* Give back the mbufs that an ending context no longer needs: note 3. */
static void
leave_buffers(struct node *n, struct channel *ch)
{
	uint32_t kept = ch->thin ? 0 : ch->plain.bulk_out + ch->matched.bulk_out;

	for (uint32_t i = 0; i < channel_send_slots(ch); i++) {
		struct send_slot *s = &ch->slots[i];

		if (s->state == SEND_CLIENT)
			slot_leave_buffer(n, s);
		kept += !slot_is_absent(n, s);
	}
	quotas_give(n, ch, kept);
}

unsigned
context_reap(struct engine *e, struct channel *ch)
{
	unsigned work = 0;

	if (ch->state == CHANNEL_CLOSING) {
		work = submissions_scan(e, ch);
		/* Submissions that wait for room in the core are taken as well, until close_until;
		 * those beyond a ring from where the close began were written after it, and are
		 * not. */
		if (slot_filled(&ch->sub, ch->sub.pos) &&
			ch->sub.pos - ch->closed_at <= ch->sub.mask && e->now < ch->close_until)
			return work;
		close_endpoints(e, ch, true);
		ch->state = CHANNEL_DEAD;
		leave_buffers(e->node, ch);
	}
	bool over = ch->busy_slots == 0;

	SERVICE_FOREACH(ops, e->services) {
		if (ops->closed != NULL && !ops->closed(e, ch))
			over = false;
	}
	if (over)
		contexts_finish(e, ch);
	return work;
}
