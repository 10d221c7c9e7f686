/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of pmx-perf share: options, rows of results, and the sessions that the tests run
 * in. Single-threaded.
 */
#ifndef PMX_PERF_H
#define PMX_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"
#include "pmx/pmx.h"

#define PERF_SIZES_MAX 16
#define PERF_USER_BYTES (256u << 10) /* the application's own buffer, walked over and over */

enum perf_idle {
	PERF_SPIN,  /* poll again: the core is ours alone */
	PERF_YIELD, /* sched_yield at an empty poll: the core is shared */
	PERF_BLOCK, /* sleep on the context's descriptor */
};

struct options {
	const char *command;      /* latency, rate, bandwidth, all, respond, floor, baseline, report */
	const char *instance;     /* of a primary */
	const char *embedded;     /* configuration file of an embedded node, or NULL */
	const char *address;      /* baseline */
	const char *kind;         /* baseline: tcp, udp */
	uint16_t context;         /* own */
	struct pmx_addr to;       /* the responder */
	uint32_t sizes[PERF_SIZES_MAX]; /* bytes */
	unsigned size_count;      /* 0 = the test's own */
	uint64_t rounds, warmup;
	double seconds;
	unsigned burst;
	int cpu;
	enum perf_idle idle;
	unsigned depth;           /* push, pull: transfers under way */
	double hit_ratio;         /* push, pull: percent of transfers whose memory is pinned already */
	bool local_private, remote_private; /* memory of malloc, not of pmx_alloc */
	const char *figure;       /* push, pull: directory for the curves */
	bool json, respond, serve, progress;
	char **files;             /* report */
	int file_count;
	int eal_argc;
	char **eal_argv;
};

/* One result; what a test does not measure stays 0. */
struct row {
	char what[16];            /* pmx, push, pull, memcpy, floor, tcp, udp */
	char test[16];            /* latency, rate, bandwidth, page */
	uint32_t size;            /* bytes of a message or frame */
	uint64_t p50_ns, p99_ns, p999_ns, min_ns, max_ns;
	double per_second;        /* messages or frames */
	double gbits;
	uint64_t lost;
};

/* Print one result, as a table line or as JSON. */
void row_print(const struct options *o, const struct row *r);
void row_head(const struct options *o, const char *what);
/* The comparison of several result files (JSON lines). 0, or 1 if a file is bad. */
int report(const struct options *o);
/* Fill the latencies of a row. */
void row_latency(struct row *r, const struct hist *h);

/* A context to measure with. */
struct session {
	struct pmx_node *node;
	struct pmx_context *ctx;
	enum perf_idle idle;
	bool embedded;
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
int perf_receive(struct session *s, struct pmx_message *m, uint64_t end);
/* Ticks of rte_rdtsc a second, as the EAL says; without one (attached thin) measured in 20 ms, once. */
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

/* idle.c */
int run_idle(const struct options *o);

/* raw.c */
int run_floor(const struct options *o);
int run_baseline(const struct options *o);

#endif
