/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes of the test of preemption, as preempt.sh starts them:
 *
 *   preempt member INSTANCE RANK GROUP SELF NODE:CONTEXT...
 *       One of a job whose members all send to each other (preempt_member.c).
 *   preempt driver JOB FREEZES LONG_MS INSTANCE...
 *       Stops the job at one node or another, at random moments and for random times, until it has
 *       done so FREEZES times, and parks it in a third of them; tells how long it took to settle,
 *       to park and to load.
 *   preempt client INSTANCE
 *       Obeys the lines of its standard input, and answers each with one (preempt_client.c).
 *
 * PREEMPT_SEED: another series of random numbers.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preempt.h"

#define LONG_FREEZES 2
#define SETTLE_S     30 /* beyond the longest drain: it ends, however busy the machine is */

/* ------------------------------------------------------------------ contents */

uint64_t
content_key(enum kind kind, uint32_t from, uint32_t to, uint64_t sequence)
{
	return mix64(mix64(sequence * KINDS + kind + 1) + from * MEMBERS_MAX + to);
}

/* 8 bytes to LONGEST: all orders of magnitude. */
uint32_t
content_len(uint64_t key)
{
	const uint64_t r = mix64(key + 1);
	const uint32_t top = 16u << r % 11;

	return 8 + (uint32_t)(r >> 16) % (top < LONGEST - 8 ? top : LONGEST - 8);
}

void
content_fill(uint8_t *to, uint64_t key, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 8, key += 0x9E3779B97F4A7C15u)
		memcpy(to + i, &key, len - i < 8 ? len - i : 8);
}

bool
content_is(const uint8_t *from, uint64_t key, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 8, key += 0x9E3779B97F4A7C15u) {
		if (memcmp(from + i, &key, len - i < 8 ? len - i : 8) != 0)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ the driver */

/* The job at one node. */
struct place {
	struct pmx_jobs *jobs;
	bool stopped, parked;
	int64_t since_us, next_us; /* stopped since; when it changes */
};

static struct place places[MEMBERS_MAX];
static unsigned place_count;
static uint32_t job;
static int64_t long_us, longest_us;
struct times {
	int64_t *us;
	unsigned count;
};
static struct times settled, parked, loaded;
static unsigned freezes;

static void
note(struct times *t, int64_t began)
{
	t->us[t->count++] = now_us() - began;
}

/* Waits until the job has settled, or is parked. A member may let itself go on meanwhile. */
static void
settle(struct place *p, struct pmx_job_state *s, uint32_t drain_us, bool parks)
{
	const int64_t began = now_us();

	while ((parks ? s->parked : s->settled) < s->stopped) {
		if (now_us() - began > drain_us + SETTLE_S * 1000000ll)
			die("%u of %u contexts did not %s", s->stopped - s->settled, s->stopped,
				parks ? "park" : "settle");
		usleep(50);
		must_succeed("pmx_jobs_state", pmx_jobs_state(p->jobs, job, s));
	}
}

static void
park(struct place *p, uint32_t drain_us, struct pmx_job_state *s)
{
	const bool has_settled = s->settled == s->stopped;
	const int64_t began = now_us();

	must_succeed("parking", pmx_jobs_stop(p->jobs, job, drain_us, PMX_JOBS_PARK, s));
	p->parked = true;
	settle(p, s, drain_us, true);
	if (has_settled)
		note(&parked, began);
}

/* Loads the job, or lets the start do it. */
static void
load(struct place *p)
{
	const int64_t began = now_us();

	if (!p->parked || draw() % 2)
		return;
	must_succeed("pmx_jobs_load", pmx_jobs_load(p->jobs, job, NULL));
	note(&loaded, began);
	if (draw() % 4 == 0)
		usleep((useconds_t)(draw() % 20000));
}

static void
stop(struct place *p, unsigned of)
{
	static const uint32_t drains[] = {0, 0, 0, 1, 300, 20000};
	const uint32_t drain_us = drains[draw() % (sizeof(drains) / sizeof(drains[0]))];
	struct pmx_job_state s;
	const int64_t began = now_us();
	const unsigned every = of / (LONG_FREEZES + 1);

	must_succeed("pmx_jobs_stop",
		pmx_jobs_stop(p->jobs, job, drain_us, draw() % 2 ? PMX_JOBS_HOLD : 0, &s));
	if (s.contexts == 0)
		die("the job has no contexts there");
	if (draw() % 8 == 0) /* it is stopped already */
		must_succeed("pmx_jobs_stop",
			pmx_jobs_stop(p->jobs, job, drain_us, draw() % 2 ? PMX_JOBS_HOLD : 0, &s));
	if (draw() % 2) {
		settle(p, &s, drain_us, false);
		if (drain_us == 0)
			note(&settled, began);
	}
	p->stopped = true;
	if (draw() % 3 == 0)
		park(p, drain_us, &s);
	else
		settle(p, &s, drain_us, false);
	p->since_us = began;
	freezes++;
	if (every != 0 && freezes % every == 0 && freezes / every <= LONG_FREEZES)
		p->next_us = now_us() + long_us;
	else
		p->next_us = now_us() + (int64_t)(draw() % (draw() % 4 ? 80000 : 2000));
}

static void
start(struct place *p)
{
	struct pmx_job_state s;

	load(p);
	must_succeed("pmx_jobs_start", pmx_jobs_start(p->jobs, job, &s));
	if (draw() % 8 == 0)
		must_succeed("pmx_jobs_start", pmx_jobs_start(p->jobs, job, &s));
	p->stopped = p->parked = false;
	if (now_us() - p->since_us > longest_us)
		longest_us = now_us() - p->since_us;
	p->next_us = now_us() + (int64_t)(draw() % 120000);
}

static int
by_size(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void
tell(const char *what, struct times *t)
{
	qsort(t->us, t->count, sizeof(*t->us), by_size);
	printf(", %u times %s p50 %.2f p99 %.2f most %.2f ms", t->count, what,
		(double)t->us[t->count / 2] / 1e3, (double)t->us[t->count * 99 / 100] / 1e3,
		(double)t->us[t->count > 0 ? t->count - 1 : 0] / 1e3);
}

int
driver_main(int argc, char **argv)
{
	unsigned of = 0;

	if (argc < 4)
		return 2;
	job = (uint32_t)atoi(argv[0]);
	of = (unsigned)atoi(argv[1]);
	long_us = atoi(argv[2]) * 1000ll;
	settled.us = must(calloc(of + 1, sizeof(int64_t)));
	parked.us = must(calloc(of + 1, sizeof(int64_t)));
	loaded.us = must(calloc(of + 1, sizeof(int64_t)));
	for (int i = 3; i < argc && place_count < MEMBERS_MAX; i++)
		must_succeed(argv[i], pmx_jobs_open(&places[place_count++].jobs, argv[i]));
	while (freezes < of) {
		struct place *p = &places[0];

		for (unsigned i = 1; i < place_count; i++)
			p = places[i].next_us < p->next_us ? &places[i] : p;
		if (p->next_us > now_us())
			usleep((useconds_t)(p->next_us - now_us()));
		if (p->stopped)
			start(p);
		else
			stop(p, of);
	}
	for (unsigned i = 0; i < place_count; i++) {
		start(&places[i]);
		pmx_jobs_close(places[i].jobs);
	}
	printf("freezes %u longest %ld ms", freezes, longest_us / 1000);
	tell("settle", &settled);
	tell("park", &parked);
	tell("load", &loaded);
	putchar('\n');
	return failed;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} modes[] = {{"member", member_main}, {"driver", driver_main}, {"client", client_main}};

	if (getenv("PREEMPT_SEED") != NULL)
		seed = strtoull(getenv("PREEMPT_SEED"), NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; argc > 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run(argc - 2, argv + 2);
	}
	fputs("Usage: preempt member|driver|client ...\n", stderr);
	return 2;
}
