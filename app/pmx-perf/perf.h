/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of pmx-perf share: options, rows of results, and the sessions that the tests run
 * in. Single-threaded.
 */
#ifndef PMX_PERF_H
#define PMX_PERF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "hist.h"
#include "pmx/pmx.h"

#define PERF_SIZES_MAX  16
#define PERF_USER_BYTES (256u << 10) /* the application's own buffer, walked over and over */

enum perf_idle {
	PERF_SPIN,  /* poll again: the core is ours alone */
	PERF_YIELD, /* sched_yield at an empty poll: the core is shared */
	PERF_BLOCK, /* sleep on the context's descriptor */
};

struct options {
	const char *command;            /* latency, rate, bandwidth, all, respond, floor, baseline,
					 * report */
	const char *instance;           /* of a primary */
	const char *embedded;           /* configuration file of an embedded node, or NULL */
	const char *address;            /* baseline */
	const char *kind;               /* baseline: tcp, udp, relay */
	const char *via;                /* baseline relay: where it listens */
	uint16_t context;               /* own */
	struct pmx_addr to;             /* the responder */
	uint32_t sizes[PERF_SIZES_MAX]; /* bytes */
	unsigned size_count;            /* 0 = the test's own */
	uint64_t rounds, warmup;
	double seconds;
	uint32_t socket_bytes; /* baseline udp */
	unsigned burst;
	int cpu; /* -1: not said yet, see cpu_settle() */
	enum perf_idle idle;
	unsigned depth;   /* push, pull: transfers under way */
	double hit_ratio; /* push, pull: percent of transfers whose memory is pinned
			   * already */
	bool local_private, remote_private; /* memory of malloc, not of pmx_alloc */
	const char *figure;                 /* directory for curves, there when tests begin */
	bool json, respond, serve, progress;
	char **files; /* report */
	int file_count;
	int eal_argc;
	char **eal_argv;
};

/* One result; what a test does not measure stays 0, and is null in JSON. */
struct row {
	char what[16]; /* pmx, push, pull, memcpy, floor, tcp, udp */
	char test[16]; /* latency, rate, bandwidth, page */
	uint32_t size; /* bytes of a message or frame */
	uint64_t p50_ns, p99_ns, p999_ns, min_ns, max_ns;
	double per_second; /* messages or frames */
	double gbits;
	uint64_t lost;
};

/* Print one result, as a table line or as JSON. */
void row_print(const struct options *o, const struct row *r);
void row_head(const struct options *o, const char *what);
/* A result that is no row: one line of JSON; takes the reference. */
void json_line(json_t *object);
/* A figure, or null where there is none: JSON knows neither NaN nor Infinity. A new reference. */
json_t *json_figure(double value);
/* A figure of a table, so many characters wide, or '-'. In turn one of four buffers. */
const char *figure_text(double value, int width, int decimals);
/* For qsort() of doubles. */
int compare_figures(const void *a, const void *b);
/* The comparison of several result files (JSON lines). 0, 1 if a file is bad, 2 without files. */
int report(const struct options *o);
/* Fill the latencies of a row. */
void row_latency(struct row *r, const struct hist *h);

/* A context to measure with. */
struct session {
	struct pmx_node *node;
	struct pmx_context *ctx;
	enum perf_idle idle;
	bool embedded;
	pmx_send_id sent; /* what the other side shall answer; 0: nothing asked about */
};

int session_open(struct session *s, const struct options *o);
void session_close(struct session *s);
/* Nothing to do: run the embedded engine, or idle. */
void session_idle(struct session *s);

/* tests.c: 0 or 1 (said why on stderr) */
int run_initiator(struct session *s, const struct options *o);
int run_responder(struct session *s, const struct options *o);

/* What the parts of a session do alike; tests.c. 0 or a negative errno. */
int perf_complain(const char *doing, int error);
/* The next message, until `end` (ticks): 1; -ETIMEDOUT; or at once the error that s->sent ended
 * with. */
int perf_receive(struct session *s, struct pmx_message *m, uint64_t end);
/* Copy and send; waits for buffers. The answer's perf_receive() then knows what became of it. */
int perf_send(struct session *s, struct pmx_addr to, const void *data, uint32_t len);
/* Ticks of rte_rdtsc a second, as the EAL says; without one (attached thin) measured in 20 ms,
 * once. */
uint64_t perf_hz(void);

/* remote.c */
bool is_remote(const char *command);
int run_remote(struct session *s, const struct options *o);
int run_pin(const struct options *o);
/* The responder's part: true if the message was for it. */
bool remote_answer(struct session *s, const struct pmx_message *m, int *error);
void remote_end(struct session *s);

/* match.c */
bool is_match(const char *command);
int run_match(struct session *s, const struct options *o);
bool match_answer(struct session *s, const struct pmx_message *m, int *error);
void match_end(void);

/* cpu.c */
/* Make sure of the CPU to run on: o->cpu if it may be used, otherwise one without a poller; as an
 * EAL argument if one runs here and its arguments do not say it. 0, or -EINVAL and said why. */
int cpu_settle(struct options *o, bool eal);
/* Of the CPUs that this process may use one with the fewest pollers of other processes, and not
 * `but` if there is another. */
int cpu_other(int but);
/* 0, or a negative errno and said why. */
int cpu_pin(pthread_t thread, int cpu);

/* idle.c */
int run_idle(const struct options *o);

/* copy.c */
int run_copy(const struct options *o);

/* relay.c: accept at one address and pass on to the other; 0 or 1 (said why on stderr) */
struct baseline;
int run_relay(struct baseline *listens, struct baseline *connects);

/* raw.c */
int run_floor(const struct options *o);
int run_baseline(const struct options *o);

#endif
