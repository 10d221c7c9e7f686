/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cost of each idle policy: the engine's CPU time against the round trip, by the gap between
 * messages. Everything is one process: the engine runs in a thread of its own, as in pmx-dpdk, and
 * the test attaches to it like a thin client; its two contexts answer each other. The application
 * polls, so that only the engine's policy matters.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include "engine/loop.h"
#include "node/config_file.h"
#include "node/node.h"
#include "primary/attach.h"
#include "primary/telemetry.h"
#include "perf.h"
#include "plot/plot.h"

#define BYTES 64
#define MOST  200000 /* round trips of a row */

static const char fallback[] =
	"[node]\nid = 0\nname = pmx-perf-idle\n[link 0]\ndriver = loop\nport = pmx-perf-idle\n"
	"[limits]\nmbufs = %u\ncontexts = %u\nsubmissions = 64\nlhs_entries = 64\n"
	"matched_entries = 64\n[nodes]\n0 = auto\n";
static const char *const policies[] = {"spin", "pause", "yield", "adaptive", "sleep"};
#define POLICIES (sizeof(policies) / sizeof(policies[0]))

/* Microseconds between the end of a round trip and the next one. The last gap is also used as a
 * second in which nothing is sent. */
static const uint32_t gaps[] = {0, 10, 100, 1000, 10000, 1000000};
#define GAPS (sizeof(gaps) / sizeof(gaps[0]))

struct idle_cell {
	struct hist h;
	double cpu; /* of a core */
};

struct bench {
	struct node *engine;
	struct pmx_node *node;
	struct pmx_context *ctx[2];
	struct pmx_context *others[PERF_BESIDE_MAX]; /* open, and never used */
	pthread_t thread;
	clockid_t clock; /* the engine's CPU time */
	struct idle_cell cells[POLICIES][GAPS];
};

static double
seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *
run_engine(void *arg)
{
	engine_run(arg);
	return NULL;
}

/* Send one message from a to b and poll for it. Returns 0 or a negative errno. */
static int
pass(struct pmx_context *a, struct pmx_context *b)
{
	static const uint8_t data[BYTES];
	struct pmx_message m;
	uint64_t end = rte_rdtsc() + 10 * perf_hz();
	int result = pmx_send_copy(a, pmx_context_addr(b), data, sizeof(data), NULL);

	while (result == 0 && (result = pmx_receive(b, &m)) == 0) {
		if (rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	if (result == 1)
		pmx_release_receive_buffer(b, &m);
	return result < 0 ? result : 0;
}

static void
pause_us(uint32_t us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
	uint64_t end = rte_rdtsc() + us * (perf_hz() / 1000000);

	if (us >= 1000) {
		nanosleep(&t, NULL);
		return;
	}
	while (rte_rdtsc() < end)
		;
}

static int
idle_measure(struct bench *b, const struct perf_options *o, struct idle_cell *c, uint32_t gap)
{
	double enough = gap >= 1000000 ? 3.3 * o->seconds : 0.5 * o->seconds;
	double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(b->clock), spent;

	hist_init(&c->h);
	for (unsigned i = 0; i == 0 || (i < MOST && seconds(CLOCK_MONOTONIC) - begin < enough);
		i++) {
		pause_us(gap);
		uint64_t start = rte_rdtsc();
		int e = pass(b->ctx[0], b->ctx[1]);

		if (e == 0)
			e = pass(b->ctx[1], b->ctx[0]);
		if (e != 0)
			return e;
		hist_record(&c->h,
			(uint64_t)((double)(rte_rdtsc() - start) * 1e9 / (double)perf_hz()));
	}
	spent = seconds(CLOCK_MONOTONIC) - begin;
	c->cpu = (seconds(b->clock) - cpu) / spent;
	return 0;
}

static int
idle_start(struct bench *b, const struct perf_options *o, char *path, size_t size)
{
	const struct pmx_context_params few = {
		.size = sizeof(few),
		.send_buffers = 8,
		.receive_buffers = 8,
	};
	struct config config;
	char error[512], text[512];
	int e;

	snprintf(text, sizeof(text), fallback, 8192 + 32 * o->beside, 4 + o->beside);
	if (rte_eal_init(o->eal_argc, o->eal_argv) < 0) {
		fprintf(stderr, "pmx-perf: the DPDK EAL did not start: %s\n",
			rte_strerror(rte_errno));
		return -ENODEV;
	}
	e = o->embedded ? node_config_read(&config, o->embedded, error, sizeof(error))
			: node_config_read_text(&config, text, error, sizeof(error));
	if (e == 0) {
		snprintf(path, size, "/tmp/pmx-perf-idle-%d.sock", getpid());
		snprintf(config.socket, sizeof(config.socket), "%s", path);
		config.lanes = 1;
		config.direct = DIRECT_OFF; /* by way of the engine, which is what is measured */
		/* so that clients wake the engine; its policy is changed below */
		config.idle = IDLE_SLEEP;
		e = node_start(&b->engine, &config, error, sizeof(error));
		config_free(&config);
	}
	if (e != 0) {
		fprintf(stderr, "pmx-perf: %s\n", error);
		return e;
	}
	e = attach_serve(b->engine, NULL);
	if (e != 0)
		return e;
	pthread_create(&b->thread, NULL, run_engine, &b->engine->engines[0]);
	pthread_getcpuclockid(b->thread, &b->clock);
	/* a CPU each, if there are two: this thread's is chosen first and then not free any more */
	e = cpu_pin(pthread_self(), o->cpu);
	if (e == 0)
		e = cpu_pin(b->thread, cpu_other(o->cpu));
	if (e != 0)
		return e;
	setenv("PMX_ATTACH", "thin", 1);
	e = pmx_node_attach(&b->node, path, NULL);
	for (unsigned i = 0; i < 2 && e == 0; i++) {
		e = pmx_context_open(&b->ctx[i], b->node, i, NULL);
	}
	for (unsigned i = 0; i < o->beside && e == 0; i++)
		e = pmx_context_open(&b->others[i], b->node, PMX_ANY_CONTEXT, &few);
	return e;
}

static void
stop(struct bench *b)
{
	if (b->node != NULL)
		pmx_node_close(b->node);
	if (b->thread != 0) {
		atomic_store(&b->engine->engines[0].stop, true);
		eventfd_write(b->engine->engines[0].doorbell, 1);
		pthread_join(b->thread, NULL);
	}
	attach_stop();
	if (b->engine != NULL)
		node_stop(b->engine);
}

/* Return the length of a gap between messages as text, which may be in `out`. */
static const char *
gap_name(uint32_t us, char *out, size_t size)
{
	if (us == 0)
		return "none";
	if (us >= 1000000)
		snprintf(out, size, "%u s", us / 1000000);
	else if (us >= 1000)
		snprintf(out, size, "%u ms", us / 1000);
	else
		snprintf(out, size, "%u us", us);
	return out;
}

static void
print(const struct bench *b, const struct perf_options *o, unsigned p, unsigned g)
{
	const struct idle_cell *c = &b->cells[p][g];
	char gap[16];

	if (o->json) {
		json_line(json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:o, s:I}", "test", "idle",
			"policy", policies[p], "beside", (int)o->beside, "gap_us",
			(json_int_t)gaps[g], "p50_ns", (json_int_t)hist_percentile(&c->h, 500000),
			"p99_ns", (json_int_t)hist_percentile(&c->h, 990000), "cpu",
			json_figure(c->cpu), "rounds", (json_int_t)hist_count(&c->h)));
		return;
	}
	printf("%-9s %8s %12.2f %12.2f %9.1f %%\n", policies[p],
		gap_name(gaps[g], gap, sizeof(gap)), (double)hist_percentile(&c->h, 500000) / 1e3,
		(double)hist_percentile(&c->h, 990000) / 1e3, c->cpu * 100);
}

/* Draw CPU time against round trip, with a curve for each policy; its points are the gaps. */
static int
idle_draw(const struct bench *b, const char *dir)
{
	static struct plot plot;
	int result = 0;

	for (unsigned kind = 0; kind < 2; kind++) {
		plot = (struct plot){
			.name = kind ? "idle_cpu" : "idle_round_trip",
			.x_label = "gap between round trips, us (1: none)",
			.y_label = kind ? "engine, share of a core" : "round trip, us (median)",
			.x_log = true,
			.y_log = true,
			.curves = POLICIES,
		};
		snprintf(plot.title, sizeof(plot.title), "%s by idle policy",
			kind ? "CPU time of the engine" : "Round trip");
		for (unsigned p = 0; p < POLICIES; p++)
			snprintf(plot.label[p], sizeof(plot.label[p]), "%s", policies[p]);
		for (unsigned g = 0; g < GAPS; g++) {
			double *y = plot_row(&plot, gaps[g] ? gaps[g] : 1);

			for (unsigned p = 0; p < POLICIES; p++) {
				double cpu = b->cells[p][g].cpu;

				y[p] = kind
					? (cpu > 0.0001 ? cpu : 0.0001)
					: (double)hist_percentile(&b->cells[p][g].h, 500000) / 1e3;
			}
		}
		result |= !plot_write(&plot, dir);
	}
	return result;
}

int
run_idle(const struct perf_options *o)
{
	static struct bench b;
	char path[64];
	int e = idle_start(&b, o, path, sizeof(path));

	if (e == 0 && !o->json)
		printf("%-9s %8s %12s %12s %11s\n", "policy", "gap", "p50 us", "p99 us", "engine");
	for (unsigned p = 0; p < POLICIES && e == 0; p++) {
		b.engine->config.idle = p; /* read by the engine at its next empty turn */
		pass(b.ctx[0], b.ctx[1]);
		for (unsigned g = 0; g < GAPS && e == 0; g++) {
			if (o->progress)
				fprintf(stderr, "\r%s, gap %u us ", policies[p], gaps[g]);
			e = idle_measure(&b, o, &b.cells[p][g], gaps[g]);
			if (o->progress)
				fprintf(stderr, "\r%-40s\r", "");
			if (e == 0)
				print(&b, o, p, g);
		}
	}
	if (e == 0 && o->figure != NULL)
		e = idle_draw(&b, o->figure);
	else if (e != 0)
		fprintf(stderr, "pmx-perf: idle: %s\n", pmx_strerror(e));
	stop(&b);
	return e != 0;
}
