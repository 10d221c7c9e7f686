/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The loop of a lane: engine_poll on the data path, idling when there is nothing to do. Runs on the
 * lane's own lcore (or in an embedded node's thread).
 *
 * Design notes
 * 1. Sending comes before receiving: in an embedded node a message leaves in the very poll that
 *    follows pmx_send, and what has arrived is delivered when the poll returns. Completions come
 *    between the two, so that they do not delay an answer; the Acks that cause them came in the
 *    turn before.
 * 2. Idling costs either latency or CPU that others could use. spin and pause keep the core; yield
 *    gives it away at the first empty poll (measurements: spinning first is what hurts where cores
 *    are shared); adaptive yields until nothing came for idle_us, then sleeps, and naps instead of
 *    yielding on a contended core (base/contended.h); sleep sleeps at once. With yield, a poll that
 *    moved little gives the CPU away too: the process that is to answer may share it, and an empty
 *    poll before that would cost 1/20 of a round trip (doc/performance.md).
 * 3. Before it sleeps, the lane sets engine_sleeps in its busy channels, fences, and looks at them
 *    once more: a submission is then either seen, or its client rings the doorbell. In idle ones it
 *    is set already (turns.h).
 * 4. A lane takes up to a burst from each of its channels in turn, and begins with another one in
 *    each turn.
 * 5. A link without a descriptor limits the sleep: to 50 us at first, then to 1 ms.
 */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include "base/contended.h"
#include "engine/complete.h"
#include "engine/contexts.h"
#include "engine/deliver.h"
#include "engine/freeze.h"
#include "engine/link_io.h"
#include "engine/local.h"
#include "engine/loop.h"
#include "engine/rails.h"
#include "engine/room.h"
#include "engine/submit.h"
#include "engine/turns.h"
#include "engine/watch.h"
#include "engine/withdraw.h"

#define LITTLE_WORK 3  /* frames, submissions, completions */
#define BELLS       64 /* that the lane hears at once */
#define SLEEP_US    100000
#define LEAST_US    20 /* shorter ones are not worth it */

/* Look for room in the channel's rings, whose entries run short: what its client has read may be
 * written again. */
static __rte_noinline void
look_for_room(struct engine *e, struct channel *ch)
{
	if (inlet_is_low(&ch->plain))
		inlet_room(e, &ch->plain);
	if (inlet_is_low(&ch->matched))
		inlet_room(e, &ch->matched);
	ch->low = channel_is_low(ch);
}

/* Make those channels idle in which nothing happened since the last sweep. */
static __rte_noinline void
sweep(struct engine *e)
{
	e->sweep = TURNS_SWEEP;
	for (uint32_t i = e->busy_count; i-- > 0 && e->busy_count > TURNS_FEW;) {
		struct channel *ch = e->open[i];

		if (!ch->stirred && ch->state == CHANNEL_OPEN && !ch->low)
			turns_idle(e, ch);
		ch->stirred = false;
	}
}

/* Look at some of the idle channels, others in every turn, and make those busy that have submitted
 * something. Return whether there are any. */
static __rte_noinline bool
look_at_idle(struct engine *e)
{
	unsigned idle = e->open_count - e->busy_count, busy = e->busy_count;
	unsigned n = idle < TURNS_IDLE ? idle : TURNS_IDLE;

	while (n-- > 0 && e->busy_count < e->open_count) {
		if (e->idle_scan < e->busy_count || e->idle_scan >= e->open_count)
			e->idle_scan = e->busy_count;
		struct channel *ch = e->open[e->idle_scan++];

		if (slot_filled(&ch->sub, ch->sub.pos) && !ch->stopped)
			turns_busy(e, ch);
	}
	return e->busy_count != busy;
}

/* Take what clients submitted, and look at what they read if that matters. */
static unsigned
scan_channels(struct engine *e)
{
	const bool frozen = atomic_load_explicit(&e->frozen, memory_order_relaxed);
	unsigned work = 0, n;

	if (unlikely(e->open_count > e->busy_count) && !frozen)
		look_at_idle(e);
	n = e->busy_count;
	if (++e->scan >= n)
		e->scan = 0;
	for (unsigned k = 0, i = e->scan; k < n && i < e->busy_count; k++) {
		struct channel *ch = e->open[i];

		if (unlikely(ch->state != CHANNEL_OPEN)) {
			work += context_reap(e, ch);
		} else if (slot_filled(&ch->sub, ch->sub.pos) && !frozen && !ch->stopped) {
			ch->stirred = true;
			work += submissions_scan(e, ch);
		}
		if (unlikely(ch->low))
			look_for_room(e, ch);
		if (++i >= n)
			i = 0;
	}
	return work;
}

/* Return whether scan_channels() would find something to do. */
static inline bool
channels_call(struct engine *e)
{
	for (unsigned i = 0; i < e->busy_count; i++) {
		const struct channel *ch = e->open[i];

		if ((slot_filled(&ch->sub, ch->sub.pos) && !ch->stopped) || ch->low ||
			ch->state != CHANNEL_OPEN)
			return true;
	}
	return unlikely(e->open_count > e->busy_count) && look_at_idle(e);
}

static __rte_noinline unsigned
services_step(struct engine *e)
{
	unsigned work = 0;

	for (uint32_t left = e->busy; left != 0; left &= left - 1)
		work += e->services->numbered[rte_bsf32(left)]->step(e);
	return work;
}

/* Let services answer in this turn what they were asked in it. */
static __rte_noinline unsigned
services_answer(struct engine *e)
{
	unsigned work = 0;

	for (uint32_t left = e->owes; left != 0; left &= left - 1)
		work += e->services->numbered[rte_bsf32(left)]->answer(e);
	return work + (work ? engine_tx(e) : 0);
}

static __rte_noinline void
services_landed(struct engine *e)
{
	for (uint32_t left = e->attends; left != 0; left &= left - 1)
		e->services->numbered[rte_bsf32(left)]->landed(e);
}

static bool
services_awake(const struct engine *e)
{
	for (uint32_t left = e->busy; left != 0; left &= left - 1) {
		const struct service_ops *ops = e->services->numbered[rte_bsf32(left)];

		if (ops->awake != NULL && ops->awake(e))
			return true;
	}
	return false;
}

/* Return when the first of the busy services must take a turn. */
static uint64_t
services_deadline(const struct engine *e)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t left = e->busy; left != 0; left &= left - 1) {
		const struct service_ops *ops = e->services->numbered[rte_bsf32(left)];
		uint64_t at = ops->deadline != NULL ? ops->deadline(e) : UINT64_MAX;

		first = at < first ? at : first;
	}
	return first;
}

static __rte_noinline void
do_chores(struct engine *e)
{
	if (e->local_waiting && e->now >= e->housekeeping_at) {
		e->housekeeping_at = e->now + rte_get_tsc_hz() / 1000;
		local_housekeep(e);
	}
	if (e->watches && e->now >= e->watch_at)
		watch_step(e);
	if (e->expires && e->now >= e->expire_at)
		withdraw_expired(e);
	if (e->asks_links && e->now >= e->rails->at)
		engine_ask_links(e);
	if (e->freezes)
		freeze_step(e);
}

/* Return from which time on a turn has something to do, though nobody submits and no frame comes;
 * 0: the next one has. */
static uint64_t
due_at(const struct engine *e)
{
	uint64_t at;

	if (e->busy | e->owes | e->dirty_count | e->lingering_count || e->tx_waiting ||
		e->hands_over)
		return 0;
	at = proto_due(e->proto);
	if (likely(!e->chores))
		return at;
	if (e->freezes)
		return 0;
	at = e->local_waiting && e->housekeeping_at < at ? e->housekeeping_at : at;
	at = e->watches && e->watch_at < at ? e->watch_at : at;
	at = e->expires && e->expire_at < at ? e->expire_at : at;
	return e->asks_links && e->rails->at < at ? e->rails->at : at;
}

/* Do what comes before receiving: note 1. */
static __rte_noinline unsigned
turn_sends(struct engine *e)
{
	unsigned work, has;

	lane_begin(e);
	work = scan_channels(e);
	if (e->busy)
		work += services_step(e);
	has = proto_has(e->proto, e->now);
	/* Links take their time to send. What arrived meanwhile is no older than that: if it were
	 * taken for older, round trips would look shorter than they can be, and all later ones
	 * long. So the clock is read behind them. */
	if (has & PROTO_HAS_FRAMES) {
		work += engine_tx(e);
		e->now = rte_rdtsc();
	} else if (e->tx_waiting || e->hands_over) {
		engine_tx_queued(e);
	}
	if (has & PROTO_HAS_COMPLETIONS || e->lingering_count)
		work += engine_complete(e);
	return work;
}

/* Do what comes after receiving. */
static __rte_noinline unsigned
turn_ends(struct engine *e)
{
	unsigned work = 0;

	lane_begin(e);
	proto_tick(e->proto, e->now);
	/* timers and frames are what deliveries come from, and room that came back */
	if (unlikely(proto_has(e->proto, 0) & PROTO_HAS_DELIVERIES))
		work = engine_deliver(e);
	if (unlikely(e->owes))
		work += services_answer(e);
	if (e->dirty_count) {
		if (e->attends)
			services_landed(e);
		engine_flush(e);
	}
	if (unlikely(atomic_load_explicit(&e->command, memory_order_relaxed) != NULL)) {
		/* an exchange, since the sender may withdraw the command at the same time: only one
		 * of the two gets it */
		struct command *cmd = atomic_exchange(&e->command, NULL);

		if (cmd != NULL)
			engine_command(e, cmd);
		work++;
	}
	if (unlikely(e->chores))
		do_chores(e);
	e->due_at = due_at(e);
	return work;
}

unsigned
engine_poll(struct engine *e)
{
	unsigned work = 0, received;
	bool due;

	e->before = e->polled_at;
	e->now = e->polled_at = rte_rdtsc();
	ENGINE_COUNT(e, polls);
	if (unlikely(--e->sweep == 0))
		sweep(e);
	due = e->now >= e->due_at || channels_call(e) ||
		atomic_load_explicit(&e->command, memory_order_relaxed) != NULL;
	if (due)
		work = turn_sends(e);
	received = engine_rx(e);
	if (due || received)
		work += received + turn_ends(e);
	return work;
}

static bool
anything_submitted(const struct engine *e)
{
	const unsigned n = e->mute_count ? e->open_count : e->busy_count;

	for (unsigned i = 0; i < n; i++) {
		/* a channel that closes waits for the core, which need not keep the lane awake */
		if (e->open[i]->state == CHANNEL_OPEN && !e->open[i]->stopped &&
			slot_filled(&e->open[i]->sub, e->open[i]->sub.pos))
			return true;
	}
	for (unsigned i = 0; e->lane == 0 && i < e->node->link_count; i++) {
		if (e->node->handover[i] != NULL && !rte_ring_empty(e->node->handover[i]))
			return true;
	}
	return !rte_ring_empty(e->inbox) ||
		atomic_load_explicit(&e->command, memory_order_acquire) != NULL;
}

static void
announce_sleep(struct engine *e, enum engine_sleep sleeps)
{
	atomic_store_explicit(&e->sleeps, sleeps != ENGINE_AWAKE, memory_order_relaxed);
	for (unsigned i = 0; i < e->busy_count; i++)
		atomic_store_explicit(&e->open[i]->shm->engine_sleeps, sleeps,
			memory_order_relaxed);
}

/* Make the channels busy that rang, or that cannot and have submitted something: an idle one is
 * looked at only now and then. */
static void
hear_bells(struct engine *e, const struct epoll_event *events, int n)
{
	for (unsigned i = e->busy_count; e->mute_count && i < e->open_count; i++) {
		struct channel *ch = e->open[i];

		if (!ch->rings && slot_filled(&ch->sub, ch->sub.pos))
			turns_busy(e, ch); /* the one that is in its place now was looked at */
	}
	for (int i = 0; i < n; i++) {
		const uint32_t bell = events[i].data.u32;

		if (bell == 0)
			continue;
		struct channel *ch = &e->node->channels[bell - BELL_OF(0)];

		if (ch->state == CHANNEL_OPEN && slot_filled(&ch->sub, ch->sub.pos))
			turns_busy(e, ch);
	}
}

/* Return how long the lane may sleep until it must look by itself, in microseconds. */
static int64_t
time_to_sleep(struct engine *e, uint64_t idle_us)
{
	uint64_t deadline = proto_deadline(e->proto), services = services_deadline(e);
	const uint64_t rails = e->rails != NULL ? e->rails->at : UINT64_MAX;
	uint64_t now = rte_rdtsc();
	int64_t us = SLEEP_US;

	deadline = deadline < services ? deadline : services;
	deadline = deadline < rails ? deadline : rails;
	if (deadline <= now)
		return 0;
	if (deadline != UINT64_MAX)
		us = (int64_t)((deadline - now) * 1000000 / rte_get_tsc_hz());
	if (!e->links_wake) {
		int64_t poll_us = idle_us < 20000 ? 50 : 1000;

		us = us < poll_us ? us : poll_us;
	}
	return us < SLEEP_US ? us : SLEEP_US;
}

/* Sleep until something comes, or is due; or nap, whatever there is to poll for. Return false, and
 * do not give up the core, if something must be done at once. */
static bool
engine_sleep(struct engine *e, uint64_t idle_us, enum engine_sleep how)
{
	struct epoll_event events[BELLS];
	int rung = 0;
	bool slept = false;

	if (how == ENGINE_SLEEPS && (e->lingering_count || e->tx_waiting || services_awake(e)))
		return false;
	int64_t us = time_to_sleep(e, idle_us);

	if (how == ENGINE_NAPS)
		us = us < LEAST_US ? LEAST_US : us < CONTENDED_NAP_US ? us : CONTENDED_NAP_US;
	/* local_housekeep, withdraw_expired; a client's completion ring is full; clients that never
	 * ring: look again soon */
	if ((e->local_waiting || e->expires || e->dirty_count || e->mute_count) && us > 1000)
		us = 1000;
	if (us < LEAST_US)
		return false;
	announce_sleep(e, how);
	/* full fence: the flag must be visible before the last look; pairs with pmx_send's */
	atomic_thread_fence(memory_order_seq_cst);
	if (!anything_submitted(e)) {
		struct timespec t = {.tv_sec = 0, .tv_nsec = us * 1000};

		ENGINE_COUNT(e, sleeps);
		slept = true;
		rung = epoll_pwait2(e->sleep_fd, events, BELLS, &t, NULL);
	}
	announce_sleep(e, ENGINE_AWAKE);
	hear_bells(e, events, rung); /* more of them wake the lane again */
	e->due_at = 0;
	return slept;
}

static void
engine_yield(struct engine *e)
{
	sched_yield();
	contended_yielded(&e->contended, e->now, rte_rdtsc(), rte_get_tsc_hz() / 1000000);
}

/* Called after an empty poll. */
static void
engine_idle(struct engine *e)
{
	const struct config *c = &e->node->config;
	const bool contended = is_contended(&e->contended, e->now);
	uint64_t idle_us;

	ENGINE_COUNT(e, idle_polls);
	if (!idle_shares(c->idle)) {
		if (c->idle == IDLE_PAUSE)
			rte_pause();
		return;
	}
	if (e->idle_since == 0)
		e->idle_since = e->now;
	idle_us = (e->now - e->idle_since) * 1000000 / rte_get_tsc_hz();
	const bool deep = c->idle == IDLE_SLEEP ||
		((c->idle == IDLE_ADAPTIVE || contended) && idle_us >= c->idle_us);

	if (deep && engine_sleep(e, idle_us, ENGINE_SLEEPS))
		return;
	if (contended ? !engine_sleep(e, idle_us, ENGINE_NAPS) : !deep)
		engine_yield(e);
}

void
engine_run(struct engine *e)
{
	while (!atomic_load_explicit(&e->stop, memory_order_relaxed)) {
		unsigned work = engine_poll(e);

		if (work == 0) {
			engine_idle(e);
			continue;
		}
		e->idle_since = 0;
		if (work <= LITTLE_WORK && e->node->config.idle == IDLE_YIELD &&
			!is_contended(&e->contended, e->now))
			engine_yield(e);
	}
}
