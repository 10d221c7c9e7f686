/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See jobs.h.
 *
 * Design notes
 * 1. A job that is stopped is noted until it is started, also while it has no context here: those
 *    that it opens are stopped at once. When there is no place for another note, or a user has as
 *    many as one may have, those of jobs without contexts are given up: his own.
 * 2. Nobody may stop contexts of others by choosing their job's number: an operator who is neither
 *    root nor the primary's user acts on his own contexts only.
 * 3. A process that was stopped is remembered by a descriptor of its own, since it may have asked
 *    to close its context right before, and the context's may stand for another process by then.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"
#include "log/log.h"
#include "node/node.h"
#include "preempt/engine/park.h"
#include "preempt/primary/jobs.h"

#define STOPPED_MAX   256
#define STOPPED_SHARE 32 /* of a user who is neither root nor the primary's */

struct stopped {
	uint32_t job; /* 0: the place is free */
	uint32_t uid; /* whose contexts, if not `all` */
	bool all;
	int connection; /* that holds it, or JOBS_NOBODY */
	uint32_t drain_us;
	bool processes; /* are stopped as well */
	bool parked;    /* not only stopped */
};

static struct {
	struct node *node;
	uint32_t (*user_of)(uint16_t ctx);
	int (*process_of)(uint16_t ctx);
	struct stopped stopped[STOPPED_MAX];
	struct halted {
		int process; /* pidfd; 0: the place is free */
		uint32_t job, uid;
	} halted[WIRE_CONTEXTS_MAX]; /* note 3 */
} jobs;

/* Contexts, a bit each. */
struct contexts {
	uint64_t bits[WIRE_CONTEXTS_MAX / 64];
	uint32_t count, stopped, settled, parked;
	bool can_park; /* all of them */
};

/* Return whether the context is open, and its user is one whose contexts `s` is about. */
static bool
is_reached(const struct stopped *s, const struct channel *ch)
{
	return ch->state == CHANNEL_OPEN && (s->all || jobs.user_of(ch->ctx) == s->uid);
}

static void
add(struct contexts *c, const struct channel *ch)
{
	const enum preempted p = atomic_load_explicit(&ch->preempted, memory_order_acquire);

	c->bits[ch->ctx / 64] |= 1ull << ch->ctx % 64;
	c->count++;
	c->stopped += p != PREEMPTED_NOT;
	c->settled += p >= PREEMPTED_HELD;
	c->parked += p == PREEMPTED_PARKED;
	c->can_park &= park_can(jobs.node, ch);
}

/* Collect the contexts of the job that `s` is about. */
static void
contexts_of(const struct stopped *s, struct contexts *out)
{
	*out = (struct contexts){.can_park = true};
	for (uint32_t i = 0; i < jobs.node->config.contexts; i++) {
		const struct channel *ch = &jobs.node->channels[i];

		if (ch->job == s->job && is_reached(s, ch))
			add(out, ch);
	}
}

/* Have the lanes stop or start these contexts. Return 0 or -errno. */
static int
command(enum command_op op, const struct contexts *c, uint32_t drain_us)
{
	for (uint32_t lane = 0; lane < jobs.node->config.lanes; lane++) {
		struct command cmd = {
			.op = op,
			.ctx = (uint16_t)lane,
			.contexts = c->bits,
			.drain_us = drain_us,
		};
		const int result = c->count > 0 ? node_command(jobs.node, &cmd, true) : 0;

		if (result < 0)
			return result;
	}
	return 0;
}

/* Read a number, or two, from the line of a file of /proc that matches `format`. Return whether
 * there is one. */
static bool
read_numbers(const char *path, const char *format, unsigned *a, unsigned *b)
{
	char line[256];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = sscanf(line, format, a, b) >= 1;
	if (f != NULL)
		fclose(f);
	return found;
}

/* Return whether that user may signal the process, by the kernel's rule (kill(2)): it may have
 * become another user's since it opened its context. */
static bool
may_signal(int process, uint32_t uid)
{
	char path[64];
	unsigned pid = 0, real = 0, saved = 0, again = 0;

	if (uid == 0)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", process);
	if (!read_numbers(path, "Pid: %u", &pid, NULL))
		return false;
	char status[64];

	snprintf(status, sizeof(status), "/proc/%u/status", pid);
	return read_numbers(status, "Uid: %u %*u %u", &real, &saved) &&
		(real == uid || saved == uid) &&
		/* its number is not another one's meanwhile */
		read_numbers(path, "Pid: %u", &again, NULL) && again == pid;
}

/* uid: whose process it was. */
static void
send_signal(int process, uint32_t uid, int number)
{
	if (may_signal(process, uid))
		syscall(SYS_pidfd_send_signal, process, number, NULL, 0);
}

/* Return the process of that context, if it is one of these contexts; otherwise 0. */
static int
process_in(const struct contexts *c, uint32_t ctx)
{
	return c->bits[ctx / 64] >> ctx % 64 & 1 ? jobs.process_of((uint16_t)ctx) : 0;
}

/* Return whether that place is taken by a process that has not ended. Free the place of one that
 * has. */
static bool
is_kept(struct halted *h)
{
	if (h->process != 0 && process_has_ended(h->process)) {
		close(h->process);
		h->process = 0;
	}
	return h->process != 0;
}

/* Stop the processes of these contexts. */
static void
halt_all(uint32_t job, const struct contexts *c)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < jobs.node->config.contexts; i++) {
		const int process = process_in(c, i);

		while (at < WIRE_CONTEXTS_MAX && is_kept(&jobs.halted[at]))
			at++;
		if (process == 0 || at == WIRE_CONTEXTS_MAX)
			continue;
		const int own = fcntl(process, F_DUPFD_CLOEXEC, 3);

		if (own < 0)
			continue; /* nothing would let it go on */
		jobs.halted[at] = (struct halted){own, job, jobs.user_of((uint16_t)i)};
		send_signal(own, jobs.user_of((uint16_t)i), SIGSTOP);
	}
}

/* Let the processes of a job that were stopped go on. */
static void
wake_all(const struct stopped *s)
{
	struct contexts c;

	for (uint32_t i = 0; i < WIRE_CONTEXTS_MAX; i++) {
		struct halted *h = &jobs.halted[i];

		if (h->process == 0 || h->job != s->job || !(s->all || h->uid == s->uid))
			continue;
		send_signal(h->process, h->uid, SIGCONT);
		close(h->process);
		h->process = 0;
	}
	/* and those that another primary has stopped */
	contexts_of(s, &c);
	for (uint32_t i = 0; i < jobs.node->config.contexts; i++) {
		const int process = process_in(&c, i);

		if (process != 0)
			send_signal(process, jobs.user_of((uint16_t)i), SIGCONT);
	}
}

static void
preempt_jobs_tell(const struct stopped *s, struct attach_reply *reply)
{
	struct contexts now;

	contexts_of(s, &now);
	reply->generation = s->job;
	reply->memory = now.count;
	reply->bytes = now.stopped | (uint64_t)now.settled << 32;
	reply->shm = now.parked;
}

/* ------------------------------------------------------------------ notes */

static bool
is_same(const struct stopped *a, const struct stopped *b)
{
	return a->job == b->job && a->all == b->all && (a->all || a->uid == b->uid);
}

static bool
is_of_user(const struct stopped *a, const struct stopped *b)
{
	return !a->all && a->uid == b->uid;
}

/* Return the note of a job that is stopped; otherwise a free one, whose job is 0, or NULL. */
static struct stopped *
note_of(const struct stopped *s)
{
	struct stopped *free = NULL;
	struct contexts c;
	unsigned own = 0;

	for (unsigned i = 0; i < STOPPED_MAX; i++) {
		struct stopped *t = &jobs.stopped[i];

		if (t->job != 0 && is_same(t, s))
			return t;
		if (t->job == 0 && free == NULL)
			free = t;
		own += t->job != 0 && is_of_user(t, s);
	}
	if (!s->all && own >= STOPPED_SHARE)
		free = NULL;
	for (unsigned i = 0; free == NULL && i < STOPPED_MAX; i++) {
		contexts_of(&jobs.stopped[i], &c); /* note 1 */
		if (c.count != 0 || !(s->all || is_of_user(&jobs.stopped[i], s)))
			continue;
		free = &jobs.stopped[i];
		free->job = 0;
	}
	return free;
}

static int
stop(const struct stopped *s)
{
	struct contexts c;

	contexts_of(s, &c);
	if (s->parked && !c.can_park)
		return -EOPNOTSUPP;
	struct stopped *note = note_of(s);

	if (note == NULL)
		return -ENOSPC;
	const bool before = note->job != 0, processes = before && note->processes;
	const bool parked = s->parked || (before && note->parked);

	*note = *s;
	note->parked = parked;
	const int result = command(s->parked ? COMMAND_PARK : COMMAND_STOP, &c, s->drain_us);

	if (processes)
		wake_all(s);
	if (s->processes)
		halt_all(s->job, &c);
	return result;
}

/* Collect those of the contexts that are parked, or that a job's note says are to be parked as soon
 * as they have settled. */
static void
parked_of(const struct contexts *c, struct contexts *out)
{
	*out = (struct contexts){.count = 0};
	for (uint32_t i = 0; i < jobs.node->config.contexts; i++) {
		const struct channel *ch = &jobs.node->channels[i];
		const enum preempted p = atomic_load_explicit(&ch->preempted, memory_order_acquire);

		if (c->bits[i / 64] >> i % 64 & 1 &&
			(p == PREEMPTED_PARKED ||
				(p != PREEMPTED_NOT && park_can(jobs.node, ch) &&
					jobs_parks(ch->job, jobs.user_of(ch->ctx)))))
			add(out, ch);
	}
}

/* Load what is parked of a job: all of it, or nothing. Return 0 or -errno. */
static int
load(const struct stopped *s)
{
	struct contexts c, parked;

	contexts_of(s, &c);
	parked_of(&c, &parked);
	const int result = command(COMMAND_LOAD, &c, 0);

	if (result != 0) {
		command(COMMAND_PARK, &parked, 0);
		return result;
	}
	for (unsigned i = 0; i < STOPPED_MAX; i++) {
		struct stopped *t = &jobs.stopped[i];

		if (t->job == s->job && (s->all || is_same(t, s)))
			t->parked = false;
	}
	return 0;
}

static int
jobs_start(const struct stopped *s)
{
	bool processes = false;
	struct contexts c;
	const int loaded = load(s);

	if (loaded != 0)
		return loaded;
	/* whoever may start it starts it for good, whoever stopped it */
	for (unsigned i = 0; i < STOPPED_MAX; i++) {
		struct stopped *t = &jobs.stopped[i];

		if (t->job == s->job && (s->all || is_same(t, s))) {
			processes |= t->processes;
			t->job = 0;
		}
	}
	contexts_of(s, &c);
	const int result = command(COMMAND_START, &c, 0);

	if (processes)
		wake_all(s);
	return result;
}

/* Return the lowest number above `after` of a job with contexts here, or that is stopped; 0: there
 * is none. */
static uint32_t
next_job(const struct stopped *s, uint32_t after)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < jobs.node->config.contexts; i++) {
		const struct channel *ch = &jobs.node->channels[i];

		if (ch->job > after && (next == 0 || ch->job < next) && is_reached(s, ch))
			next = ch->job;
	}
	for (unsigned i = 0; i < STOPPED_MAX; i++) {
		const struct stopped *t = &jobs.stopped[i];

		if (t->job > after && (next == 0 || t->job < next) && (s->all || t->uid == s->uid))
			next = t->job;
	}
	return next;
}

/* ------------------------------------------------------------------ requests */

void
jobs_begin(struct node *n, uint32_t (*user_of)(uint16_t ctx), int (*process_of)(uint16_t ctx))
{
	memset(&jobs, 0, sizeof(jobs));
	jobs.node = n;
	jobs.user_of = user_of;
	jobs.process_of = process_of;
	/* another primary stopped these; who held them is not connected to this one */
	for (uint32_t i = 0; i < n->config.contexts; i++) {
		const struct channel *ch = &n->channels[i];
		/* its processes may be stopped: to let them go on does no harm */
		const struct stopped s = {
			.job = ch->job,
			/* whoever stopped it: another user's job may have the same number */
			.uid = jobs.user_of(ch->ctx),
			.connection = JOBS_NOBODY,
			.processes = true,
			.parked = ch->parks || ch->preempted == PREEMPTED_PARKED,
		};
		struct stopped *note = is_reached(&s, ch) && ch->stopped && ch->job != 0
			? note_of(&s)
			: NULL;

		if (note != NULL) {
			const bool parked = note->job != 0 && note->parked;

			*note = s;
			note->parked |= parked;
		}
	}
}

void
jobs_end(bool given)
{
	for (uint32_t i = 0; i < WIRE_CONTEXTS_MAX; i++) {
		if (jobs.halted[i].process == 0)
			continue;
		if (!given)
			send_signal(jobs.halted[i].process, jobs.halted[i].uid, SIGCONT);
		close(jobs.halted[i].process);
		jobs.halted[i].process = 0;
	}
}

int
jobs_answer(const struct jobs_asker *who, const struct attach_request *request,
	struct attach_reply *reply)
{
	struct stopped s = {
		.job = (uint32_t)request->addr,
		.uid = who->uid,
		.all = who->all,
		.connection = request->len & ATTACH_HOLD ? who->connection : JOBS_NOBODY,
		.drain_us = (uint32_t)request->len,
		.processes = request->len & ATTACH_PROCESSES,
	};
	static const char *const done[] = {
		[ATTACH_JOBS_STOP] = "stopped",
		[ATTACH_JOBS_START] = "started",
		[ATTACH_JOBS_NEXT] = NULL,
		[ATTACH_JOBS_PARK] = "parked",
		[ATTACH_JOBS_LOAD] = "loaded",
	};
	int result = 0;

	if (request->addr > UINT32_MAX)
		return -EINVAL;
	if (request->ctx == ATTACH_JOBS_NEXT)
		s.job = next_job(&s, s.job);
	if (s.job == 0)
		return request->ctx == ATTACH_JOBS_NEXT ? -ENOENT : -EINVAL;
	switch (request->ctx) {
	case ATTACH_JOBS_PARK:
	case ATTACH_JOBS_STOP:
		if (s.drain_us > ATTACH_DRAIN_MOST_US)
			return -EINVAL;
		s.parked = request->ctx == ATTACH_JOBS_PARK;
		result = stop(&s);
		break;
	case ATTACH_JOBS_LOAD:
		result = load(&s);
		break;
	case ATTACH_JOBS_START:
		result = jobs_start(&s);
		break;
	case ATTACH_JOBS_STATE:
	case ATTACH_JOBS_NEXT:
		break;
	default:
		return -EPROTO;
	}
	if (done[request->ctx] != NULL)
		log_say(LOG_CONTEXT, result == 0 ? RTE_LOG_INFO : RTE_LOG_WARNING,
			"job %u %s by process %d of user %u: %s", s.job, done[request->ctx],
			who->pid, who->uid, result == 0 ? "done" : strerror(-result));
	preempt_jobs_tell(&s, reply);
	return result;
}

bool
jobs_parks(uint32_t job, uint32_t uid)
{
	for (unsigned i = 0; job != 0 && i < STOPPED_MAX; i++) {
		const struct stopped *t = &jobs.stopped[i];

		if (t->job == job && t->parked && (t->all || t->uid == uid))
			return true;
	}
	return false;
}

void
jobs_opened(uint16_t ctx)
{
	const struct channel *ch = &jobs.node->channels[ctx];
	struct contexts c = {.count = 0};

	for (unsigned i = 0; ch->job != 0 && i < STOPPED_MAX; i++) {
		const struct stopped *t = &jobs.stopped[i];

		if (t->job != ch->job || !(t->all || t->uid == jobs.user_of(ctx)))
			continue;
		add(&c, ch);
		command(t->parked && park_can(jobs.node, ch) ? COMMAND_PARK : COMMAND_STOP, &c,
			t->drain_us);
		if (t->processes)
			halt_all(t->job, &c);
		return;
	}
}

int
jobs_stop_one(uint16_t ctx, const struct attach_request *request, struct attach_reply *reply)
{
	const struct channel *ch = &jobs.node->channels[ctx];
	struct contexts c = {.count = 0};

	static const enum command_op op[] = {
		[ATTACH_STOP_START] = COMMAND_START,
		[ATTACH_STOP_STOP] = COMMAND_STOP,
		[ATTACH_STOP_PARK] = COMMAND_PARK,
	};

	if (request->len > ATTACH_DRAIN_MOST_US || request->addr > ATTACH_STOP_PARK)
		return -EINVAL;
	add(&c, ch);
	const int result = command(op[request->addr], &c, (uint32_t)request->len);
	const enum preempted now = atomic_load_explicit(&ch->preempted, memory_order_acquire);

	reply->bytes = request->addr == ATTACH_STOP_PARK ? now == PREEMPTED_PARKED
							 : now >= PREEMPTED_HELD;
	return result;
}

void
jobs_gone(int connection)
{
	for (unsigned i = 0; i < STOPPED_MAX; i++) {
		const struct stopped s = jobs.stopped[i];

		if (s.job == 0 || s.connection != connection)
			continue;
		const int result = jobs_start(&s);

		if (result == 0) {
			log_say(LOG_CONTEXT, RTE_LOG_NOTICE,
				"job %u goes on: who held it has ended", s.job);
			continue;
		}
		jobs.stopped[i].connection = JOBS_NOBODY;
		log_say(LOG_CONTEXT, RTE_LOG_WARNING,
			"job %u stays parked, though who held it has ended: %s. Park another job, "
			"then pmx-ctl thaw %u",
			s.job, strerror(-result), s.job);
	}
}
