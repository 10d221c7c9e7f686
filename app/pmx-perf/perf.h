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

/* The first byte of a message says what its receiver shall do: one space for all tests. */
enum kind {
	KIND_PING = 1,    /* send it back */
	KIND_DATA = 2,    /* count it, and read it */
	KIND_END = 3,     /* tell what was counted */
	KIND_QUIT = 4,    /* the test is over */
	KIND_BARE = 5,    /* count it and leave it where it is */
	KIND_MEMORY = 16, /* give memory: struct wish, answered with struct pmx_remote */
	KIND_PAGE = 17,   /* send a page of it */
	KIND_ECHO = 32,   /* `count` times: receive, and send it back */
	KIND_FILL = 33,   /* send `count` messages, tags from 0 on, then one of another
			   * communicator; then say so */
	KIND_SINK = 34,   /* receive `count` messages into `depth` places of `size` bytes; then say
			   * so */
	KIND_OFFER = 35,  /* send one message of `size` bytes */
	KIND_TAKE = 36,   /* receive one */
	KIND_FLOOD = 37,  /* from a second context send messages of `size` bytes until KIND_STOP,
			   * beside echoes */
	KIND_STOP = 38,
};

#define PERF_SIZES_MAX  16
#define PERF_USER_BYTES (256u << 10) /* the application's own buffer, walked over and over */

enum perf_idle {
	PERF_SPIN,  /* poll again: the core is ours alone */
	PERF_YIELD, /* sched_yield at an empty poll: the core is shared */
	PERF_BLOCK, /* sleep on the context's descriptor */
};

struct options {
	const struct perf_command *command;
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
void row_head(const struct options *o);
/* A result that is no row: one line of JSON; takes the reference. */
void json_line(json_t *object);
/* A figure, or null where there is none: JSON knows neither NaN nor Infinity. A new reference. */
json_t *json_figure(double value);
/* A figure of a table, so many characters wide, or '-'. In turn one of four buffers. */
const char *figure_text(double value, int width, int decimals);
/* For qsort() of doubles. */
int compare_figures(const void *a, const void *b);
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

/* ------------------------------------------------------------------ tests over pmx */

/* What an answer to a message can be, beside a negative errno. */
enum {
	PERF_NOT_MINE, /* another test's message */
	PERF_ANSWERED,
	PERF_QUIT, /* the responder ends */
};

/* The responder's part of tests of one subject. */
struct responder {
	int (*answer)(struct session *s, struct pmx_message *m);
	void (*end)(struct session *s); /* give back what answering took; or NULL */
};

extern const struct responder message_responder, remote_responder, match_responder;

/* The tests, after the responder was found there: 0, or a negative errno, or 1 and said why. */
int test_latency(struct session *s, const struct options *o);
int test_rate(struct session *s, const struct options *o);
int test_bandwidth(struct session *s, const struct options *o);
int test_all(struct session *s, const struct options *o);
int test_transfers(struct session *s, const struct options *o); /* push, pull */
int test_page(struct session *s, const struct options *o);
int test_diff(struct session *s, const struct options *o);
int test_matched(struct session *s, const struct options *o);
int test_unexpected(struct session *s, const struct options *o);
int test_posted(struct session *s, const struct options *o);
int test_overlap(struct session *s, const struct options *o);
int test_mixed(struct session *s, const struct options *o);

/* A command of pmx-perf. */
struct perf_command {
	const char *name;
	int (*run)(const struct options *o); /* the exit status; why it is not 0 was said */
	/* of those that run_test() runs */
	int (*test)(struct session *s, const struct options *o);
	const struct responder *responder;
};

/* All of them, tests of one responder side by side; ends with a name of NULL. In main.c. */
extern const struct perf_command perf_commands[];

int run_test(const struct options *o);    /* the initiator's side: sides.c */
int run_respond(const struct options *o); /* the responder's */
int run_floor(const struct options *o);   /* raw.c */
int run_baseline(const struct options *o);
int run_idle(const struct options *o);
int run_pin(const struct options *o);
int run_copy(const struct options *o);
int run_report(const struct options *o); /* 0, 1 if a file is bad, 2 without files */

/* relay.c: accept at one address and pass on to the other; 0 or 1 (said why on stderr) */
struct baseline;
int run_relay(struct baseline *listens, struct baseline *connects);

/* ------------------------------------------------------------------ what they have in common */

/* Say on stderr what failed and why. 1. */
int perf_complain(const char *doing, int error);
/* The next message, until `end` (ticks): 1; -ETIMEDOUT; or at once the error that s->sent ended
 * with. */
int perf_receive(struct session *s, struct pmx_message *m, uint64_t end);
/* Copy and send; waits for buffers. The answer's perf_receive() then knows what became of it. */
int perf_send(struct session *s, struct pmx_addr to, const void *data, uint32_t len);
/* Ticks of rte_rdtsc a second, as the EAL says; without one (attached thin) measured in 20 ms,
 * once. */
uint64_t perf_hz(void);
/* Nanoseconds of ticks. */
double perf_ns(uint64_t ticks);

/* Memory that was written, from malloc or from pmx_alloc; NULL: none left. */
void *memory_take(struct session *s, uint64_t len, bool private);
void memory_put(struct session *s, void *p, bool private);

/* Make sure of the CPU to run on: o->cpu if it may be used, otherwise one without a poller; as an
 * EAL argument if one runs here and its arguments do not say it. 0, or -EINVAL and said why. */
int cpu_settle(struct options *o, bool eal);
/* Of the CPUs that this process may use one with the fewest pollers of other processes, and not
 * `but` if there is another. */
int cpu_other(int but);
/* 0, or a negative errno and said why. */
int cpu_pin(pthread_t thread, int cpu);

#endif
