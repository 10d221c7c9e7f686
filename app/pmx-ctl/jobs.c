/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands freeze, park, load, thaw, jobs and gang: jobs of a node stop and go on (PM-PREEMPT),
 * over the socket by which applications attach.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pmx/preempt.h>

#include "base/clock.h"
#include "ctl.h"

#define LOOK_NS   20000 /* between looks whether a job has settled */
#define MARGIN_NS 1000000000ll

/* Connect to the primary that is meant: the one that is named, or the only one. Return 0, or the
 * exit code after saying why not. */
static int
connect_to(const struct ctl_options *o, struct pmx_jobs **jobs)
{
	struct pmx_found found[2];
	const char *name = o->instance;

	if (name == NULL) {
		const int n = pmx_node_find(found, 2);

		if (n != 1)
			return complain(n <= 0
					? "no primary runs that this user may ask; if one does: "
					  "--instance NAME"
					: "several primaries run here, %s and %s among them: which "
					  "one? --instance NAME",
				found[0].instance, found[1].instance);
		name = found[0].instance;
	}
	const int result = pmx_jobs_open(jobs, name);

	return result == 0 ? 0 : complain("%s: %s", name, pmx_strerror(result));
}

static bool
read_number(const char *text, uint32_t most, uint32_t *out)
{
	char *end;
	const unsigned long n = strtoul(text, &end, 10);

	*out = (uint32_t)n;
	return *text >= '0' && *text <= '9' && *end == 0 && n <= most;
}

const struct job_command *
job_command(const char *name)
{
	static const struct job_command all[] = {
		{"freeze", .stops = true},
		{"park", .stops = true, .parks = true},
		{"load"},
		{"thaw", .starts = true},
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, name) == 0)
			return &all[i];
	}
	return NULL;
}

/* Stop a job and wait until it has settled, and is parked if flags say so. Return 0 or -errno. */
static int
freeze(struct pmx_jobs *jobs, uint32_t job, uint32_t drain_us, unsigned flags,
	struct pmx_job_state *state)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	const uint32_t drains = drain_us ? drain_us : PMX_DRAIN_US;
	const int64_t until = clock_ns() + 1000ll * drains + MARGIN_NS;
	int result = pmx_jobs_stop(jobs, job, drains, flags, state);

	while (result == 0 &&
		(flags & PMX_JOBS_PARK ? state->parked : state->settled) < state->stopped) {
		if (clock_ns() > until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		result = pmx_jobs_state(jobs, job, state);
	}
	return result;
}

/* Return in words why a job's command failed, and what to do about it. */
static const char *
reason(int result)
{
	return result == -EOPNOTSUPP ? "it has contexts of secondaries, or with more receive "
				       "buffers than the default, which cannot be parked: freeze it"
		: result == -ENOSPC  ? "others have the packet buffers: park or end another job "
				       "first, or raise limits.resident"
				     : pmx_strerror(result);
}

/* ------------------------------------------------------------------ one job */

static volatile sig_atomic_t interrupted;

static void
interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

static void
jobs_tell(const struct ctl_options *o, const struct pmx_job_state *s, const struct job_command *c,
	int64_t took_ns)
{
	const double ms = (double)took_ns / 1e6;

	if (o->json)
		printf("{\"job\": %u, \"contexts\": %u, \"stopped\": %u, \"settled\": %u, "
		       "\"parked\": %u, \"ms\": %.3f}\n",
			s->job, s->contexts, s->stopped, s->settled, s->parked, ms);
	else if (s->contexts == 0)
		printf("job %u has no contexts here; %s\n", s->job,
			c->parks           ? "those that it opens are parked"
				: c->stops ? "those that it opens are stopped"
					   : "nothing goes on");
	else
		printf("job %u: %u of %u contexts stopped, %u settled, %u parked, after %.2f ms\n",
			s->job, s->stopped, s->contexts, s->settled, s->parked, ms);
	fflush(stdout);
}

int
change_job(const struct ctl_options *o, const struct job_command *c, const char *number)
{
	struct pmx_job_state state;
	struct pmx_jobs *jobs;
	uint32_t job;

	if (number == NULL || !read_number(number, UINT32_MAX, &job) || job == 0) {
		complain("%s %s: that is not the number of a job: pmx-ctl jobs lists them", c->name,
			number != NULL ? number : "");
		return 2;
	}
	if (connect_to(o, &jobs) != 0)
		return 1;
	const int64_t begin = clock_ns();
	const unsigned flags = (o->hold ? PMX_JOBS_HOLD : 0) |
		(o->processes ? PMX_JOBS_PROCESSES : 0) | (c->parks ? PMX_JOBS_PARK : 0);
	const int result = c->stops ? freeze(jobs, job, o->drain_us, flags, &state)
		: c->starts         ? pmx_jobs_start(jobs, job, &state)
				    : pmx_jobs_load(jobs, job, &state);

	if (result != 0) {
		pmx_jobs_close(jobs);
		return complain("job %u: %s", job, reason(result));
	}
	jobs_tell(o, &state, c, clock_ns() - begin);
	if (c->stops && o->hold) {
		const struct sigaction act = {.sa_handler = interrupt};

		sigaction(SIGINT, &act, NULL);
		sigaction(SIGTERM, &act, NULL);
		while (!interrupted)
			pause();
	}
	pmx_jobs_close(jobs);
	return 0;
}

/* ------------------------------------------------------------------ all jobs */

static const char *
state_name(const struct pmx_job_state *s)
{
	return s->stopped == 0             ? s->contexts == 0 ? "stopped" : "runs"
		: s->parked == s->contexts ? "parked"
		: s->stopped < s->contexts ? "partly stopped"
		: s->settled < s->contexts ? "draining"
					   : "stopped";
}

int
show_jobs(const struct ctl_options *o)
{
	struct pmx_job_state s = {.job = 0};
	struct pmx_jobs *jobs;
	struct table t;
	json_t *list = json_array();
	int result;

	if (connect_to(o, &jobs) != 0)
		return 1;
	table_begin(&t, ">job|state|>contexts|>stopped|>settled|>parked");
	while ((result = pmx_jobs_next(jobs, s.job, &s)) == 0) {
		json_array_append_new(list,
			json_pack("{s:I, s:s, s:I, s:I, s:I, s:I}", "job", (json_int_t)s.job,
				"state", state_name(&s), "contexts", (json_int_t)s.contexts,
				"stopped", (json_int_t)s.stopped, "settled", (json_int_t)s.settled,
				"parked", (json_int_t)s.parked));
		table_row(&t, "%u\t%s\t%u\t%u\t%u\t%u", s.job, state_name(&s), s.contexts,
			s.stopped, s.settled, s.parked);
	}
	pmx_jobs_close(jobs);
	if (result != -ENOENT) {
		json_decref(list);
		return complain("%s", pmx_strerror(result));
	}
	if (o->json)
		return print_json(list);
	if (json_array_size(list) == 0)
		puts("no job has contexts here: a job is the number in PMX_JOB of its processes");
	else
		table_end(&t, stdout);
	json_decref(list);
	return 0;
}

/* ------------------------------------------------------------------ gang */

/* Obey one command, which is one line. Answer with one line as well: "ok CONTEXTS SETTLED US", or
 * "error" and a sentence. */
static void
obey(struct pmx_jobs *jobs, char *line)
{
	struct pmx_job_state s = {.job = 0};
	const char *verb = strtok(line, " \n"), *number = strtok(NULL, " \n"),
		   *drain = strtok(NULL, " \n"), *word;
	uint32_t job, drain_us = 0;
	const int64_t begin = clock_ns();
	int result;

	if (verb == NULL || number == NULL || !read_number(number, UINT32_MAX, &job) ||
		(drain != NULL && !read_number(drain, 60000000, &drain_us))) {
		puts("error: freeze JOB [DRAIN_US [processes] [parked]], hold the same, load JOB, "
		     "thaw JOB, or state JOB");
		return;
	}
	unsigned flags = strcmp(verb, "hold") == 0 ? PMX_JOBS_HOLD : 0;

	while ((word = strtok(NULL, " \n")) != NULL)
		flags |= strcmp(word, "parked") == 0 ? PMX_JOBS_PARK : PMX_JOBS_PROCESSES;

	if (flags & PMX_JOBS_HOLD || strcmp(verb, "freeze") == 0)
		result = freeze(jobs, job, drain_us, flags, &s);
	else if (strcmp(verb, "load") == 0)
		result = pmx_jobs_load(jobs, job, &s);
	else if (strcmp(verb, "thaw") == 0)
		result = pmx_jobs_start(jobs, job, &s);
	else
		result = pmx_jobs_state(jobs, job, &s);
	if (result != 0)
		printf("error: job %u: %s\n", job, reason(result));
	else
		printf("ok %u %u %" PRId64 "\n", s.contexts, s.settled,
			(clock_ns() - begin) / 1000);
}

int
serve_gang(const struct ctl_options *o)
{
	struct pmx_jobs *jobs;
	char line[256];

	if (connect_to(o, &jobs) != 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		obey(jobs, line);
		fflush(stdout);
	}
	pmx_jobs_close(jobs); /* what it holds goes on */
	return 0;
}
