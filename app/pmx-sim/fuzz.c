/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random histories: a seed determines a network, a configuration of the core, applications and a
 * list of misfortunes; the simulator's oracle (lib/sim) checks the run. The same seed gives the
 * same history, bit by bit. For a history that fails, its seed is printed, with the command that
 * shows it frame by frame.
 *
 * Design notes
 * 1. Every quantity is drawn small as often as large: pools and rings of size 1, one-frame windows,
 *    clocks of 1 kHz, cables of 10 Mb/s. Most bugs are at the limits.
 * 2. After the misfortunes the network heals and every send must end within a bound that follows
 *    from the configuration. If nothing happened that excuses an error, none may be reported.
 * 3. --preempt: contexts freeze and go on at any moment, for up to ten times as long as all retries
 *    take. Half of these histories have few retries and little loss, and no excuse.
 * 4. --links: nodes have several links, whose frames overtake each other. Links die and come back,
 *    never two that a pair of nodes needs at the same time, for up to four times as long as all
 *    retries take; half of these histories have few retries and little loss, and no excuse.
 * 5. --seal: frames are sealed (lib/sim/seal.h). Keys are agreed on anew at any moment, processes
 *    take over, nodes get other keys, and somebody who sees all frames sends what he likes. Some of
 *    these histories last for as long as keys live, since keys grow old faster in them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mix.h"
#include "sims.h"

enum misfortune {
	PAUSES = 1 << 0,     /* readers stop for a while */
	CUTS = 1 << 1,       /* cables are cut, one way or both */
	RESTARTS = 1 << 2,   /* nodes die and come back */
	CLOSES = 1 << 3,     /* contexts close and open */
	WEATHER = 1 << 4,    /* the fault model changes */
	FREEZES = 1 << 5,    /* contexts are frozen, for longer than all retries together */
	DEAD_LINKS = 1 << 6, /* links carry nothing, one way or both */
	TAKE_OVERS = 1 << 7, /* processes end, and others go on for them with keys of their own */
	REKEYS = 1 << 8,     /* keys are wanted though there are good ones */
	NEW_KEYS = 1 << 9,   /* nodes have other keys, and others learn that later */
	THIEVES = 1 << 10,   /* somebody sends what he has seen */
	BURSTS = 1 << 11,    /* long rows of sealed frames are lost */
	EXCUSES = CUTS | RESTARTS | CLOSES,
};

enum action {
	ACT_SEND,
	ACT_PAUSE,
	ACT_RESUME,
	ACT_CUT,
	ACT_MEND,
	ACT_RESTART,
	ACT_REOPEN,
	ACT_WEATHER,
	ACT_CLOSE,
	ACT_FREEZE,
	ACT_HOLD,
	ACT_THAW,
	ACT_LINK_CUT,
	ACT_LINKS_MEND,
	ACT_SEAL, /* ACT_SEAL + enum sim_seal_act */
};

struct history {
	uint64_t seed, random, end; /* end: of the misfortunes, ns */
	struct sim *sim;
	struct sim_transfers *transfers; /* NULL: plain messages are sent */
	struct matching_world *matching; /* not NULL: messages are matched by receives */
	uint32_t nodes, contexts, largest;
	struct sim_seal seal;
	struct sim_seal_count seal_counts;
	bool seals;
	uint32_t links, dying;            /* dying: the one that may be dead now; the others work */
	unsigned misfortunes;             /* enum misfortune */
	uint32_t errors, sent, delivered; /* counts */
	uint64_t begun, done;             /* counts of transfers, or of operations and matched
					   * messages */
	int strange;                      /* an error that no misfortune excuses */
	uint64_t digest;                  /* digest of all frames and results: digest_end() */
	uint64_t stopped;     /* nodes, modulo 64, of which a context was ever frozen, held or
			       * parked */
	bool gave_way;        /* half a message of a stopped sender did */
	bool healed, excused; /* excused: something happened that may make a send end in an error */
};

static uint64_t
draw64(struct history *h)
{
	return mix64_next(&h->random);
}

static uint32_t
below(struct history *h, uint32_t n)
{
	return (uint32_t)(((draw64(h) >> 32) * n) >> 32);
}

/* Return a number in low..high; each power of two is as likely as the next. */
static uint32_t
spread(struct history *h, uint32_t low, uint32_t high)
{
	unsigned bits = 0;
	uint32_t span = high - low;

	while (bits < 32 && span >> bits)
		bits++;
	uint32_t v = below(h, 1 + (uint32_t)((1ull << below(h, bits + 1)) - 1));

	return low + (v > span ? span : v);
}

static bool
chance(struct history *h, unsigned percent)
{
	return below(h, 100) < percent;
}

static void
digest_add(struct history *h, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < len; i++)
		h->digest = (h->digest ^ b[i]) * 0x100000001B3u;
}

/* Write function of the trace's stream if only the digest is wanted. */
static ssize_t
digest_write(void *cookie, const char *bytes, size_t len)
{
	digest_add(cookie, bytes, len);
	return (ssize_t)len;
}

static struct fault_config
weather(struct history *h)
{
	struct fault_config f = {.seed = draw64(h)};

	if (chance(h, 60))
		f.loss_ppm = spread(h, 0, 200000);
	if (chance(h, 20)) {
		f.burst_ppm = spread(h, 1, 20000);
		f.burst_frames = spread(h, 1, 60);
	}
	if (chance(h, 40))
		f.duplicate_ppm = spread(h, 0, 200000);
	if (chance(h, 40)) {
		f.reorder_ppm = spread(h, 0, 300000);
		f.reorder_ns = spread(h, 1000, 2000000);
	}
	if (chance(h, 30))
		f.corrupt_ppm = spread(h, 0, 100000);
	if (chance(h, 30))
		f.jitter_ns = spread(h, 1, 1000000);
	if (chance(h, 10))
		f.delay_ns = spread(h, 1, 50000000); /* longer than many timeouts */
	if (chance(h, 10)) {
		f.blackout_period_ns = spread(h, 1000000, 100000000);
		f.blackout_ns = f.blackout_period_ns / (2 + below(h, 8));
	}
	/* a burst of losses counts frames: it can outlast every retry */
	h->excused |= f.burst_ppm || f.blackout_period_ns;
	return f;
}

/* The longest that the network may hold a frame decides how long flows must be remembered
 * (lib/core/proto/flow.c, note 2): 50 ms of delay, 2 of reordering, 1 of jitter each way on two
 * cables; 80 ms in the host's port and 210 in the switch's at 10 Mb/s. */
#define HOLD_US 500000

static struct proto_config
random_core(struct history *h)
{
	static const uint64_t clocks[] = {1000, 10000, 1000000, 33333333, SEC, 2100000000,
		5000000000};
	struct proto_config c = sim_defaults(h->nodes, 1500);

	c.ticks_per_sec = chance(h, 50) ? SEC : clocks[below(h, 7)];
	c.contexts_max = h->contexts;
	c.flows_max = chance(h, 20) ? spread(h, 1, 64) : 4096;
	c.paths_max = chance(h, 90) ? h->nodes : spread(h, 1, h->nodes);
	c.payload_max = spread(h, WIRE_HOLES_MAX, 8950);
	c.tx_frames_max = spread(h, 1, 3000);
	c.rx_frames_max = spread(h, 1, 3000);
	c.window_frames = spread(h, 1, WIRE_WINDOW_MAX);
	c.path_frames = spread(h, 1, 2000);
	c.path_bytes = spread(h, 1, 8 << 20);
	c.rto_min_us = spread(h, 1, 20000);
	c.rto_max_us = HOLD_US / 3 + spread(h, 0, 200000);
	c.retries = 60;
	c.hello_us = c.retries * c.rto_max_us;
	c.probes = below(h, 8);
	c.ack_delay_us = spread(h, 0, 2000);
	c.ack_every = spread(h, 1, 256);
	c.keepalive_us = chance(h, 30) ? spread(h, 1000, 1000000) : 0;
	c.flow_idle_us = chance(h, 30) ? spread(h, 1, 1000000) : 10000000;
	c.cc_target_us = spread(h, 1, 2000);
	c.share_target_us = below(h, 4) == 0 ? 0 : spread(h, 1, 500);
	if (chance(h, 50))
		c.port_bps = chance(h, 50) ? 0 : spread(h, 1, 1000000) * UINT64_C(1000000);
	c.recovery = chance(h, 50) ? PROTO_SELECTIVE : PROTO_GO_BACK_N;
	c.cc = chance(h, 60) ? &cc_delay : &cc_pm;
	return c;
}

static struct topology *
random_network(struct history *h)
{
	static const char *const rates[] = {"10M", "100M", "1G", "10G", "25G", "100G"};
	static const char *const times[] = {"100ns", "1us", "10us", "100us", "5ms"};
	static const char *const sizes[] = {"256K", "16K", "32K", "64K", "128K", "200K"};
	char text[256], error[128];
	struct topology *t;

	if (h->nodes == 2 && chance(h, 50)) {
		snprintf(text, sizeof(text), "host a\nhost b\nlink a b bandwidth=%s latency=%s\n",
			rates[below(h, 6)], times[below(h, 5)]);
		if (topology_parse(text, &t, error, sizeof(error)) != 0)
			return NULL;
		return t;
	}
	return star(h->nodes, rates[below(h, 6)], times[below(h, 5)], sizes[below(h, 6)]);
}

/* ------------------------------------------------------------------ what happens */

static void
plan(struct history *h, enum action what, uint64_t at)
{
	sim_at(h->sim, at, below(h, h->nodes), (uint32_t)what);
}

static uint64_t
some_time(struct history *h)
{
	return draw64(h) % h->end;
}

static void
send_some(struct history *h, uint32_t src)
{
	if (h->transfers != NULL) {
		transfers_begin(h->transfers, src);
		return;
	}
	if (h->matching != NULL) {
		matching_act(h->matching, src, draw64(h), h->largest);
		return;
	}
	unsigned n = 1 + below(h, 12);
	uint32_t dst = below(h, h->nodes);
	uint16_t ctx = (uint16_t)below(h, h->contexts), peer = (uint16_t)below(h, h->contexts);

	if (dst == src)
		dst = (dst + 1) % h->nodes;
	while (n-- > 0) {
		uint32_t len = chance(h, 70) && h->largest > 300 ? below(h, 300)
								 : spread(h, 0, h->largest);
		int e = sim_send(h->sim, src, ctx, dst, peer, len, 0);

		h->sent += e == 0;
		if (e != 0)
			break;
		if (chance(h, 20))
			peer = (uint16_t)below(h, h->contexts);
	}
}

/* Open all contexts that are not open. */
static void
open_all(struct history *h, uint32_t node)
{
	if (h->transfers != NULL) {
		for (uint16_t c = 0; c < h->contexts / 3; c++)
			transfers_open_context(h->transfers, node, c);
		return;
	}
	for (uint16_t c = 0; c < h->contexts; c++) {
		if (sim_open(h->sim, node, c) == 0 && h->matching != NULL)
			matching_forget(h->matching, node, c);
	}
}

static void
close_some(struct history *h, uint32_t node, uint16_t ctx, bool linger)
{
	if (h->transfers != NULL) /* close all three endpoints of a context */
		transfers_close_context(h->transfers, node, ctx % (h->contexts / 3), linger);
	else
		sim_close(h->sim, node, ctx, linger);
}

/* Mend the link that may die, at all nodes, and choose the one that may die from now on. */
static void
mend_links(struct history *h)
{
	for (uint32_t i = 0; i < h->nodes; i++)
		sim_cut_link(h->sim, i, h->dying, false, false);
	h->dying = below(h, h->links);
}

/* Stop about half of the contexts of a node, in one of two ways each. */
static void
hold_some(struct history *h, struct sim *s, uint32_t node)
{
	h->stopped |= 1ull << node % 64;
	for (uint16_t c = 0; c < h->contexts; c++)
		if (chance(h, 50))
			sim_park(s, node, c);
		else
			sim_hold(s, node, c);
}

/* Do what happens to a node's contexts when they are stopped, and to links and weather. */
static void
act_around(struct history *h, struct sim *s, uint32_t node, uint16_t ctx, enum action what)
{
	struct fault_config f;

	switch (what) {
	case ACT_FREEZE:
		h->stopped |= 1ull << node % 64;
		sim_freeze(s, node, ctx);
		if (chance(h, 50)) /* others are frozen for as long */
			sim_at(s, sim_now(s) + spread(h, 0, 50000000), node, ACT_HOLD);
		break;
	case ACT_HOLD:
		hold_some(h, s, node);
		break;
	case ACT_THAW:
		sim_thaw(s, node, ctx);
		break;
	case ACT_LINK_CUT:
		sim_cut_link(s, node, h->dying, chance(h, 80), chance(h, 80));
		break;
	case ACT_LINKS_MEND:
		mend_links(h);
		break;
	case ACT_WEATHER:
		f = weather(h);
		sim_fault(s, node, &f);
		break;
	default:
		break;
	}
}

/* Do what happens to a node's keys. */
static void
act_on_keys(struct history *h, struct sim *s, uint32_t node, enum sim_seal_act what)
{
	const uint32_t peer = (node + 1 + below(h, h->nodes - 1)) % h->nodes;
	unsigned times = what == SIM_REKEY && chance(h, 50) ? 1 + below(h, 6) : 1;

	while (times-- > 0)
		sim_seal_act(s, node, peer, what);
	if (what == SIM_REKEY && chance(h, 40)) /* both at once */
		sim_seal_act(s, peer, node, what);
}

static void
act(void *arg, struct sim *s, uint32_t node, uint32_t what)
{
	struct history *h = arg;

	if (what == TRANSFERS_TICK) {
		transfers_tick(h->transfers, node);
		return;
	}
	if (what == TRANSFERS_PUMP) {
		transfers_pump(h->transfers, node);
		return;
	}
	uint16_t ctx = (uint16_t)below(h, h->contexts);

	if (h->healed)
		return;
	if (what >= ACT_SEAL) {
		act_on_keys(h, s, node, (enum sim_seal_act)(what - ACT_SEAL));
		return;
	}
	switch ((enum action)what) {
	case ACT_SEND:
		send_some(h, node);
		break;
	case ACT_PAUSE:
		sim_pause(s, node, ctx, true);
		break;
	case ACT_RESUME:
		sim_pause(s, node, ctx, false);
		break;
	case ACT_CUT:
		sim_cut(s, node, chance(h, 60), chance(h, 60));
		break;
	case ACT_MEND:
		sim_cut(s, node, false, false);
		break;
	case ACT_RESTART:
		sim_restart(s, node);
		if (h->transfers != NULL)
			transfers_restart(h->transfers, node);
		else
			open_all(h, node);
		break;
	case ACT_CLOSE:
		close_some(h, node, ctx, chance(h, 50));
		break;
	case ACT_REOPEN:
		open_all(h, node);
		break;
	default:
		act_around(h, s, node, ctx, (enum action)what);
	}
}

static void
heard(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct history *h = arg;

	h->delivered++;
	if (h->matching != NULL) {
		matching_heard(h->matching, d, tag);
		return;
	}
	if (h->transfers != NULL) {
		transfers_heard(h->transfers, d, tag);
		return;
	}
	/* now and then send an answer from within the delivery */
	if (!h->healed && d->len % 7 == 3 &&
		sim_send(s, sim_here(s), d->ctx, d->src_node, d->src_ctx, d->len / 2, 0) == 0)
		h->sent++;
}

static void
ended(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	struct history *h = arg;

	/* half a message gives way to others if its sender is stopped for longer than all retries
	 * take: freeze.c */
	const bool gave_way = error == ECONNRESET && h->stopped >> node % 64 & 1;

	(void)s;
	if (h->transfers != NULL)
		transfers_ended(h->transfers, tag, error);
	h->errors += error != 0;
	h->gave_way |= gave_way && !h->excused;
	if (error != 0 && error != EMSGSIZE && !gave_way && !h->excused)
		h->strange = error;
}

static void
plan_all(struct history *h)
{
	static const struct {
		unsigned misfortune;
		enum action what, undo;
	} kinds[] = {{PAUSES, ACT_PAUSE, ACT_RESUME}, {CUTS, ACT_CUT, ACT_MEND},
		{RESTARTS, ACT_RESTART, ACT_RESTART}, {CLOSES, ACT_CLOSE, ACT_REOPEN},
		{WEATHER, ACT_WEATHER, ACT_WEATHER}, {FREEZES, ACT_FREEZE, ACT_THAW},
		{DEAD_LINKS, ACT_LINK_CUT, ACT_LINKS_MEND},
		{TAKE_OVERS, ACT_SEAL + SIM_TAKE_OVER, ACT_SEAL + SIM_REKEY},
		{REKEYS, ACT_SEAL + SIM_REKEY, ACT_SEAL + SIM_REKEY},
		{NEW_KEYS, ACT_SEAL + SIM_NEW_KEY, ACT_SEAL + SIM_LEARN},
		{THIEVES, ACT_SEAL + SIM_THIEF, ACT_SEAL + SIM_THIEF},
		{BURSTS, ACT_SEAL + SIM_BURST, ACT_SEAL + SIM_THIEF}};
	unsigned sends = 5 + below(h, 60);

	for (unsigned i = 0; i < sends; i++)
		plan(h, ACT_SEND, chance(h, 30) ? 0 : some_time(h));
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		unsigned n = h->misfortunes & kinds[k].misfortune ? 1 + below(h, 6) : 0;

		if (kinds[k].misfortune == THIEVES)
			n *= 4;

		while (n-- > 0) {
			plan(h, kinds[k].what, some_time(h));
			plan(h, kinds[k].undo, some_time(h));
		}
	}
}

static void
heal(struct history *h)
{
	const struct fault_config fair = {0};

	h->healed = true;
	if (h->links > 1)
		mend_links(h);
	for (uint32_t i = 0; h->seals && i < h->nodes; i++)
		sim_seal_act(h->sim, i, 0, SIM_LEARN);
	if (h->seals)
		sim_seal_act(h->sim, 0, 0, SIM_HEALED);
	if (h->transfers != NULL)
		transfers_heal(h->transfers);
	for (uint32_t i = 0; i < h->nodes; i++) {
		sim_cut(h->sim, i, false, false);
		sim_fault(h->sim, i, &fair);
		for (uint16_t c = 0; c < h->contexts; c++) {
			sim_pause(h->sim, i, c, false);
			sim_thaw(h->sim, i, c);
		}
		open_all(h, i);
	}
}

/* ------------------------------------------------------------------ one history */

static const char *
judge_transfers(struct history *h)
{
	const struct transfers_count n = transfers_counts(h->transfers);

	h->begun = n.begun;
	h->done = n.done;
	return transfers_judge(h->transfers, h->excused);
}

static const char *
judge_matching(struct history *h)
{
	matching_settle(h->matching);
	const struct matching_count n = matching_counts(h->matching);

	h->begun = n.operations;
	h->done = n.matched;
	return matching_wrong(h->matching);
}

/* Add the results of the history to the digest, which has all frames already. */
static void
digest_end(struct history *h, FILE *seen)
{
	const uint64_t all[] = {sim_digest(h->sim), sim_now(h->sim), h->sent, h->delivered,
		h->errors, h->begun, h->done};

	fclose(seen);
	digest_add(h, all, sizeof(all));
}

/* Determine which messages always fit, and whether errors are excused from the start. */
static void
set_limits(struct history *h, const struct sim_config *c)
{
	const struct proto_config *p = &c->proto;
	uint32_t frames = c->bulks < p->tx_frames_max ? c->bulks : p->tx_frames_max;

	frames = frames < p->rx_frames_max ? frames : p->rx_frames_max;
	h->largest = frames > 200 ? 200 * p->payload_max : frames * p->payload_max;
	if (chance(h, 5)) { /* the message that reports this may be lost, and then there is another
			     * error */
		h->largest = 2 * h->largest + 100;
		h->excused = true;
	}
	if (h->largest > WIRE_MESSAGE_MAX)
		h->largest = WIRE_MESSAGE_MAX;
	/* with too few flows or peers at once, a sender may give up before its turn comes */
	h->excused |= h->misfortunes & EXCUSES || p->flows_max < 4096 || p->paths_max < h->nodes ||
		/* ... and with a short keepalive, a slow network looks dead */
		(p->keepalive_us && p->keepalive_us < HOLD_US);
}

/* Adapt the configuration to transfers: they need frames for each kind, and paths and flows for
 * all, because a node without one waits or fails in turn. Every message is one frame, which is
 * given back with its entry. Returns the frames of a node. */
static uint32_t
suit_transfers(struct history *h, struct sim_config *c)
{
	const uint32_t frames = chance(h, 25) ? 8 : spread(h, 8, 256);

	c->kept = (uint16_t)h->contexts;
	c->entries = c->entries < 64 ? c->entries : 64;
	c->proto.tx_frames_max = frames + h->contexts * TRANSFERS_SENDS;
	c->proto.contexts_max = h->contexts *= 3;
	c->proto.payload_max = c->proto.payload_max < 184 ? 184 : c->proto.payload_max;
	c->inline_max = c->proto.payload_max;
	c->proto.rto_min_us += 200; /* avoids tiny timer steps: these histories last for seconds */
	c->proto.paths_max = h->nodes;
	c->proto.flows_max = 4096;
	return frames;
}

/* Note 3 */
static void
suit_preemption(struct history *h, struct sim_config *c)
{
	h->misfortunes |= FREEZES;
	if (chance(h, 50))
		return;
	h->misfortunes &= ~(EXCUSES | WEATHER);
	h->excused = false;
	h->largest /= 4; /* so that all of it goes through in time */
	c->fault = (struct fault_config){.seed = draw64(h), .loss_ppm = spread(h, 0, 30000)};
	c->proto.retries = 6 + below(h, 6);
	c->proto.rto_min_us = 20000; /* the first timeout, too, is longer than any round trip */
	c->proto.flows_max = 4096;
	c->proto.paths_max = h->nodes;
	c->proto.keepalive_us = 0;
	h->end = (1 + below(h, 10)) * (uint64_t)c->proto.retries * c->proto.rto_max_us * US;
}

/* Note 4 */
static void
suit_links(struct history *h, struct sim_config *c)
{
	h->misfortunes |= DEAD_LINKS;
	h->links = c->links = 2 + below(h, RAILS_MAX - 1);
	h->dying = below(h, h->links);
	c->spread = chance(h, 80);
	c->link_skew_ns = chance(h, 50) ? 0 : spread(h, 1, 1000000);
	if (chance(h, 50))
		return;
	h->misfortunes &= ~(EXCUSES | WEATHER);
	h->excused = false;
	h->largest /= 4;
	c->fault = (struct fault_config){.seed = draw64(h), .loss_ppm = spread(h, 0, 30000)};
	c->proto.retries = 8;
	c->proto.path_frames += 64; /* no flow waits for its turn longer than all retries take */
	c->proto.path_bytes += 1 << 20;
	c->proto.window_frames = c->proto.window_frames < 8 ? 8 : c->proto.window_frames;
	c->proto.rto_min_us = 20000;
	c->proto.flows_max = 4096;
	c->proto.paths_max = h->nodes;
	c->proto.keepalive_us = 0;
	h->end = (1 + below(h, 4)) * (uint64_t)c->proto.retries * c->proto.rto_max_us * US;
}

/* Note 5 */
static void
suit_seals(struct history *h, struct sim_config *c)
{
	static const uint32_t speeds[] = {1, 1, 30, 100, 300};

	h->seals = true;
	h->misfortunes |= below(h, 32) * TAKE_OVERS;
	h->seal = (struct sim_seal){
		.cipher = chance(h, 90) ? NULL : cipher_best(),
		.mode = chance(h, 70) ? SEAL_SEAL : SEAL_AUTH,
		.certificates = chance(h, 50),
		.cluster = chance(h, 50),
		.far = chance(h, 15),
		.speed = speeds[below(h, 5)],
		.keeper_ns = chance(h, 80) ? spread(h, 0, 1000000) : spread(h, 0, 100000000),
		.dh_ns = chance(h, 50) ? 60000 : spread(h, 0, 5000000),
		.withheld_ppm = chance(h, 30) ? spread(h, 1, 300000) : 0,
		.unbegun_ppm = chance(h, 40) ? below(h, 1000001) : 0,
		.withheld_ns = spread(h, 1000000, 2000000000),
		.clocks_ns = chance(h, 50) ? spread(h, 0, 2000000000) * (uint64_t)1000 : 0,
	};
	c->seal = &h->seal;
	if (chance(h, 30)) {
		h->links = c->links = 2 + below(h, RAILS_MAX - 1);
		h->dying = below(h, h->links);
		c->spread = chance(h, 80);
		c->link_skew_ns = chance(h, 50) ? 0 : spread(h, 1, 1000000);
		h->misfortunes |= chance(h, 50) ? DEAD_LINKS : 0;
	}
	if (chance(h, 40))
		h->end = 1 + spread(h, 1000000, 4000000000);
	if (chance(h, 50))
		return;
	h->misfortunes &= ~(EXCUSES | WEATHER | DEAD_LINKS);
	h->excused = false;
	c->fault = (struct fault_config){
		.seed = draw64(h),
		.loss_ppm = spread(h, 0, 300000),
		.duplicate_ppm = spread(h, 0, 200000),
		.reorder_ppm = spread(h, 0, 300000),
		.reorder_ns = spread(h, 1000, 2000000),
		.corrupt_ppm = spread(h, 0, 100000),
		.delay_ns = chance(h, 30) ? spread(h, 1, 50000000) : 0,
	};
	c->proto.flows_max = 4096;
	c->proto.paths_max = h->nodes;
	c->proto.keepalive_us = 0;
}

/* Have some more happen when the network is about to heal, and some say something when it has. */
static void
plan_late(struct history *h)
{
	for (unsigned n = below(h, 3); h->misfortunes & TAKE_OVERS && n > 0; n--)
		plan(h, (enum action)(ACT_SEAL + SIM_TAKE_OVER),
			h->end - below(h, h->end < 30000000 ? (uint32_t)h->end : 30000000));
}

static void
say_late(struct history *h)
{
	/* once more when all is quiet, so that who has lost its keys has nothing to say */
	for (uint32_t i = 0; h->misfortunes & TAKE_OVERS && i < h->nodes; i++) {
		if (chance(h, 50))
			sim_seal_act(h->sim, i, 0, SIM_TAKE_OVER);
	}
	for (uint32_t i = 0; i < h->nodes; i++) {
		for (uint32_t k = 0; k < h->nodes; k++) {
			if (i == k || chance(h, 60))
				continue;
			h->sent += sim_send(h->sim, i, 0, k, 0, below(h, h->largest + 1), 0) == 0;
		}
	}
}

/* Draw the network and the cores. The random numbers are drawn in this order. */
static struct sim_config
random_config(struct history *h)
{
	const struct topology *network = random_network(h);
	struct sim_config c = {
		.topology = network,
		.proto = random_core(h),
		.entries = spread(h, 1, 1024),
		.bulks = spread(h, 1, 1024),
		.inline_max = spread(h, 0, 104),
		.nic_bytes = spread(h, 1, 100000),
		.audit = true,
		.seed = draw64(h),
		.delivered = heard,
		.completed = ended,
		.timer = act,
		.arg = h,
	};

	if (chance(h, 30))
		c.drift_ppm = spread(h, 1, 500);
	if (!(h->misfortunes & WEATHER) && chance(h, 50))
		c.fault = weather(h);
	return c;
}

static void
fuzz_begin(struct history *h, const struct sim_options *o, struct sim_config *c)
{
	uint32_t frames = o->transfers ? suit_transfers(h, c) : 0;

	h->sim = sim_new(c);
	if (o->matching)
		h->matching = matching_new(h->sim, h->nodes, h->contexts);
	if (o->transfers)
		h->transfers = transfers_new(h->sim, h->nodes, (uint16_t)(h->contexts / 3),
			c->proto.payload_max, frames, c->entries, draw64(h));
	for (uint32_t i = 0; i < h->nodes; i++)
		open_all(h, i);
	plan_all(h);
	if (h->seals)
		plan_late(h);
}

/* Run what was planned, and then without faults until everything has ended. */
static void
run_all(struct history *h, const struct proto_config *p)
{
	/* Every retry may take its longest time, and receivers without a free flow or path may make
	 * senders wait. */
	uint64_t bound = (2ull * p->retries * p->rto_max_us + 10ull * p->flow_idle_us) * US +
		100 * SEC;

	if (!sim_run(h->sim, h->end))
		return;
	heal(h);
	if (h->seals && chance(h, 70)) {
		if (chance(h, 50))
			sim_run(h->sim, sim_now(h->sim) + 2 * SEC);
		say_late(h);
	}
	bound += sim_now(h->sim);
	while (h->transfers != NULL && (transfers_open(h->transfers) || sim_pending(h->sim) != 0) &&
		sim_now(h->sim) < bound && sim_run(h->sim, sim_now(h->sim) + 10 * MS))
		;
	if (h->transfers == NULL || !transfers_open(h->transfers))
		sim_settle(h->sim, bound > sim_now(h->sim) ? bound - sim_now(h->sim) : 0);
}

/* Judge a history at its end. Return which rule was broken, or NULL if all was well. */
static const char *
fuzz_judge(struct history *h)
{
	static char why[512];
	const char *error = sim_error(h->sim);

	if (error == NULL && h->transfers != NULL)
		error = judge_transfers(h);
	if (error == NULL && h->matching != NULL)
		error = judge_matching(h);
	if (error != NULL)
		snprintf(why, sizeof(why), "at %.3f ms: %s", (double)sim_now(h->sim) / 1e6, error);
	else if (h->strange)
		snprintf(why, sizeof(why), "a send ended in '%s', and nothing had happened",
			strerror(h->strange));
	return error != NULL || h->strange ? why : NULL;
}

/* Run the history that the seed gives, and judge it. Return which rule was broken, or NULL if all
 * was well. */
static const char *
one_history(struct history *h, const struct sim_options *o, uint64_t seed)
{
	*h = (struct history){
		.seed = seed,
		.random = seed * 0xD1342543DE82EF95u,
		.digest = 0xCBF29CE484222325u,
	};
	FILE *seen = o->digest ? fopencookie(h, "w", (cookie_io_functions_t){.write = digest_write})
			       : NULL;

	h->nodes = 2 + (chance(h, 40) ? below(h, 5) : 0);
	h->contexts = spread(h, 1, 6);
	h->end = 1 + spread(h, 1000000, 400000000);
	h->misfortunes = chance(h, 20) ? 0 : below(h, 2 * WEATHER);
	struct sim_config c = random_config(h);

	c.trace = seen != NULL ? seen : o->trace ? stdout : NULL;
	set_limits(h, &c);
	if (o->preempt)
		suit_preemption(h, &c);
	if (o->links)
		suit_links(h, &c);
	if (o->seal)
		suit_seals(h, &c);
	fuzz_begin(h, o, &c);
	run_all(h, &c.proto);
	const char *why = fuzz_judge(h);

	if (seen != NULL)
		digest_end(h, seen);
	if (h->transfers != NULL)
		transfers_free(h->transfers);
	if (h->matching != NULL)
		matching_free(h->matching);
	if (h->seals)
		h->seal_counts = sim_seal_counts(h->sim);
	sim_free(h->sim);
	topology_free((struct topology *)(uintptr_t)c.topology);
	return why;
}

static volatile uint64_t running;

/* Signal handler: the core crashed, so print which history it was. */
static void
on_crash(int signal)
{
	fprintf(stderr, "pmx-sim: seed %llu crashes: %s\n", (unsigned long long)running,
		strsignal(signal));
	_exit(1);
}

/* The sums over all histories. */
struct fuzz_sums {
	uint64_t sent, delivered, errors, begun, done, gave_way;
	struct sim_seal_count seals;
};

static void
add_seals(struct sim_seal_count *to, const struct sim_seal_count *c)
{
	to->sealed += c->sealed;
	to->opened += c->opened;
	to->forged += c->forged;
	to->replayed += c->replayed;
	to->unknown += c->unknown;
	to->agreed += c->agreed;
	to->messages += c->messages;
}

static void
print_sums(const struct sim_options *o, const struct fuzz_sums *a, double took)
{
	typedef unsigned long long ull;

	printf("%s%llu histories, no rule broken: ", o->seeds >= 1000 ? "\r" : "", (ull)o->seeds);
	if (o->transfers)
		printf("%llu transfers begun, %llu done, %llu frames; %.1f s\n", (ull)a->begun,
			(ull)a->done, (ull)a->delivered, took);
	else if (o->matching)
		printf("%llu operations, %llu messages received, as the model has it, %llu sends "
		       "ended in an error; %.1f s\n",
			(ull)a->begun, (ull)a->done, (ull)a->errors, took);
	else
		printf("%llu messages sent, %llu delivered, %llu ended in an error; %.1f s\n",
			(ull)a->sent, (ull)a->delivered, (ull)a->errors, took);
	if (o->seal)
		printf("%llu frames sealed, %llu opened; refused: %llu forged, %llu replayed, %llu "
		       "of unknown keys; keys agreed on %llu times, by %llu messages\n",
			(ull)a->seals.sealed, (ull)a->seals.opened, (ull)a->seals.forged,
			(ull)a->seals.replayed, (ull)a->seals.unknown, (ull)a->seals.agreed,
			(ull)a->seals.messages);
}

/* Say which history broke a rule, and how to see it. */
static void
print_broken(const struct sim_options *o, const char *why)
{
	fflush(stdout);
	fprintf(stderr,
		"pmx-sim: seed %llu %s\n"
		"see it:  pmx-sim fuzz --first %llu --seeds 1 --trace%s\n",
		(unsigned long long)running, why, (unsigned long long)running,
		o->transfers          ? " --transfers"
			: o->matching ? " --matching"
			: o->preempt  ? " --preempt"
			: o->links    ? " --links"
			: o->seal     ? " --seal"
				      : "");
}

int
run_fuzz(const struct sim_options *o)
{
	static const int crashes[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
	struct history h;
	struct fuzz_sums all = {0};
	const int64_t begin = clock_ns();

	for (unsigned i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], on_crash);
	for (uint64_t i = 0; i < o->seeds; i++) {
		running = o->first + i;
		const char *why = one_history(&h, o, running);

		all.begun += h.begun;
		all.done += h.done;
		all.sent += h.sent;
		all.delivered += h.delivered;
		all.errors += h.errors;
		all.gave_way += h.gave_way;
		add_seals(&all.seals, &h.seal_counts);
		/* one in 2,000 histories in sound code, four in 1,000 if senders are not
		 * believed */
		if (why == NULL && all.gave_way > 2 + i / 1000)
			why = "too many messages of stopped senders give way to others";
		if (o->digest)
			printf("%llu %016llx\n", (unsigned long long)running,
				(unsigned long long)h.digest);
		if (why != NULL) {
			print_broken(o, why);
			return 1;
		}
		if (!o->quiet && (i + 1) % 1000 == 0)
			fprintf(stderr, "\r%llu of %llu", (unsigned long long)(i + 1),
				(unsigned long long)o->seeds);
	}
	if (!o->quiet)
		print_sums(o, &all, (double)(clock_ns() - begin) / 1e9);
	return 0;
}
