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

/* The first byte of a message tells its receiver what to do. All tests share these numbers. */
enum perf_kind {
	KIND_PING = 1,    /* send it back */
	KIND_DATA = 2,    /* count it, and read it */
	KIND_END = 3,     /* report what was counted */
	KIND_QUIT = 4,    /* the test is over */
	KIND_BARE = 5,    /* count it, without reading it */
	KIND_PLACE = 6,   /* count it, and read it where it lies */
	KIND_MEMORY = 16, /* provide memory: struct wish, answered with struct pmx_remote */
	KIND_PAGE = 17,   /* send a page of it */
	KIND_ECHO = 32,   /* `count` times: receive a message and send it back */
	KIND_FILL = 33,   /* send `count` messages with tags from 0 on, then one with another
			   * communicator; then report */
	KIND_SINK = 34,   /* receive `count` messages into `depth` buffers of `size` bytes; then
			   * report */
	KIND_OFFER = 35,  /* send one message of `size` bytes */
	KIND_TAKE = 36,   /* receive one message */
	KIND_FLOOD = 37,  /* send messages of `size` bytes from a second context until KIND_STOP,
			   * while echoing */
	KIND_STOP = 38,
	KIND_GROUP = 48,     /* take part in a group: struct order */
	KIND_DSM = 49,       /* share memory: struct order */
	KIND_COLL = 50,      /* take part in collectives: struct order */
	KIND_MULTICAST = 51, /* take part in a group of several contexts a side: struct order */
};

#define PERF_SIZES_MAX  16
#define PERF_BESIDE_MAX 1020
/* the application's own buffer, which is walked through cyclically */
#define PERF_USER_BYTES (256u << 10)

enum perf_idle {
	PERF_SPIN,  /* poll again: the core is ours alone */
	PERF_YIELD, /* sched_yield at an empty poll: the core is shared */
	PERF_BLOCK, /* sleep on the context's descriptor */
};

struct perf_options {
	const struct perf_command *command;
	const struct perf_command *commands; /* all of them */
	const char *instance;                /* name of a primary */
	const char *embedded;                /* configuration file of an embedded node, or NULL */
	const char *address;                 /* baseline: the server's address */
	const char *kind;                    /* baseline: tcp, udp, relay; floor: line, away */
	const char *via;                     /* baseline relay: where it listens */
	uint16_t context;                    /* own number */
	struct pmx_addr to;                  /* the responder */
	uint32_t sizes[PERF_SIZES_MAX];      /* bytes */
	unsigned size_count;                 /* 0 = the test's own */
	uint64_t rounds, warmup;
	double seconds, within;
	uint32_t socket_bytes; /* baseline udp */
	unsigned burst;
	bool in_place;
	int cpu;         /* -1: not given; see cpu_settle() */
	int other;       /* floor line, suite: the other CPU, -1: not given */
	unsigned beside; /* idle: contexts that are open and never used */
	enum perf_idle idle;
	unsigned depth;   /* push, pull: transfers under way */
	double hit_ratio; /* push, pull: percent of transfers whose memory is already pinned */
	bool local_private, remote_private; /* memory of malloc, not of pmx_alloc */
	const char *figure;                 /* directory for curves; it exists when tests begin */
	bool json, respond, serve, progress;
	bool spread, unsettled; /* report */
	const char *out;        /* suite: the directory of its results */
	unsigned turns;         /* suite: 0: as its file says */
	double threshold;       /* compare: a share */
	const char *columns;    /* compare: OLD,NEW of one run, or NULL */
	char **files;           /* report, suite, compare */
	int file_count;
	int eal_argc;
	char **eal_argv;
};

/* One result. What a test does not measure is 0, and null in JSON. */
struct perf_row {
	char what[16]; /* pmx, push, pull, memcpy, floor, tcp, udp */
	char test[16]; /* latency, rate, bandwidth, page */
	uint32_t size; /* bytes of a message or frame */
	uint64_t p50_ns, p99_ns, p999_ns, p9999_ns, min_ns, max_ns;
	double per_second; /* messages or frames */
	double gbits;
	double seconds; /* of a stream: that the receiver took for it */
	uint64_t lost;
};

/* Print one result, as a table line or as JSON. */
void row_print(const struct perf_options *o, const struct perf_row *r);
void row_head(const struct perf_options *o);
/* Print a result that is no row as one line of JSON. Takes the caller's reference. */
void json_line(json_t *object);
/* Return a figure as a new reference, null if it is not finite: JSON knows neither NaN nor
 * Infinity. */
json_t *json_figure(double value);
/* Return a figure of a table, `width` characters wide, or '-'. The string is in one of four
 * buffers, which are used in turn. */
const char *figure_text(double value, int width, int decimals);
/* Compare two doubles, for qsort(). */
int compare_figures(const void *a, const void *b);
/* Fill the latencies of a row. */
void row_latency(struct perf_row *r, const struct hist *h);

/* A context to measure with. */
struct perf_session {
	struct pmx_node *node;
	struct pmx_context *ctx;
	enum perf_idle idle;
	bool embedded;
	pmx_send_id sent;     /* the message that the other side shall answer; 0: none */
	uint64_t send_errors; /* counted so far */
};

int session_open(struct perf_session *s, const struct perf_options *o);
void session_close(struct perf_session *s);
/* Run the embedded engine, or idle. Call this when there is nothing to do. */
void session_idle(struct perf_session *s);
/* Call session_idle() where it is needed after pmx_receive() or pmx_test() gave nothing: these
 * yield by themselves. */
void session_polled(struct perf_session *s);

/* ------------------------------------------------------------------ tests over pmx */

/* Results of answering a message, besides a negative errno. */
enum {
	PERF_NOT_MINE, /* another test's message */
	PERF_ANSWERED,
	PERF_QUIT, /* the responder shall end */
};

/* The responder's part of a group of tests. */
struct responder {
	int (*answer)(struct perf_session *s, struct pmx_message *m);
	void (*end)(struct perf_session *s); /* release what answering has allocated; or NULL */
};

extern const struct responder message_responder, remote_responder, match_responder, group_responder,
	multicast_responder, dsm_responder, coll_responder;

/* Run a test. Call it once the responder has answered. Each returns 0, a negative errno, or 1 after
 * printing why. */
int test_latency(struct perf_session *s, const struct perf_options *o);
int test_rate(struct perf_session *s, const struct perf_options *o);
int test_bandwidth(struct perf_session *s, const struct perf_options *o);
int test_all(struct perf_session *s, const struct perf_options *o);
int test_transfers(struct perf_session *s, const struct perf_options *o); /* push, pull */
int test_page(struct perf_session *s, const struct perf_options *o);
int test_diff(struct perf_session *s, const struct perf_options *o);
int test_matched(struct perf_session *s, const struct perf_options *o);
int test_unexpected(struct perf_session *s, const struct perf_options *o);
int test_posted(struct perf_session *s, const struct perf_options *o);
int test_overlap(struct perf_session *s, const struct perf_options *o);
int test_mixed(struct perf_session *s, const struct perf_options *o);
int test_group(struct perf_session *s, const struct perf_options *o);
int test_multicast(struct perf_session *s, const struct perf_options *o);
int test_dsm(struct perf_session *s, const struct perf_options *o);
int test_coll(struct perf_session *s, const struct perf_options *o);

/* A command of pmx-perf. In a table of them tests of one responder are next to each other, and the
 * last one's name is NULL. */
struct perf_command {
	const char *name;
	int (*run)(const struct perf_options *o); /* returns the exit status; if it is not 0, why
						   * has been printed */
	/* for commands that run_test() runs */
	int (*test)(struct perf_session *s, const struct perf_options *o);
	const struct responder *responder;
};

int run_test(const struct perf_options *o);    /* the initiator's side: sides.c */
int run_respond(const struct perf_options *o); /* the responder's */
int run_floor(const struct perf_options *o);   /* raw.c */
int run_line(const struct perf_options *o);    /* floor line */
int run_away(const struct perf_options *o);    /* floor away */
int run_baseline(const struct perf_options *o);
int run_idle(const struct perf_options *o);
int run_pin(const struct perf_options *o);
int run_copy(const struct perf_options *o);
int run_report(const struct perf_options *o); /* 0, 1 if a file is bad, 2 without files */
int run_suite(const struct perf_options *o);
int run_compare(const struct perf_options *o); /* 0, 1 if something is worse, 2 on errors */

/* relay.c: accept at one address and pass on to the other; 0, or 1 after printing why on stderr */
struct baseline;
int run_relay(struct baseline *listens, struct baseline *connects);

/* ------------------------------------------------------------------ what they have in common */

/* The commit that the program was built from, or "unknown". */
extern const char perf_commit[];

/* Print on stderr what failed and why. Returns 1. */
int perf_complain(const char *doing, int error);
/* Wait for the next message until `end` (ticks). Returns 1; -ETIMEDOUT; or at once the error with
 * which s->sent ended, -ECONNRESET if another message failed. */
int perf_receive(struct perf_session *s, struct pmx_message *m, uint64_t end);
/* Copy and send a message, waiting for buffers. perf_receive() for the answer then checks what
 * became of it. */
int perf_send(struct perf_session *s, struct pmx_addr to, const void *data, uint32_t len);
/* Return the ticks of rte_rdtsc per second: the EAL's figure or, without an EAL (attached thin),
 * one measured once in 20 ms. */
uint64_t perf_hz(void);
/* Convert ticks to nanoseconds. */
double perf_ns(uint64_t ticks);

/* Return memory from malloc or from pmx_alloc that has been written, so that its pages exist; NULL
 * if none is left. */
void *memory_take(struct perf_session *s, uint64_t len, bool private);
void memory_put(struct perf_session *s, void *p, bool private);

/* Choose the CPU to run on: o->cpu if it may be used, otherwise one without a poller. With an EAL
 * here whose arguments do not name a CPU, add it as an EAL argument. Returns 0, or -EINVAL after
 * printing why. */
int cpu_settle(struct perf_options *o, bool eal);
/* Return one of the CPUs that this process may use with the fewest pollers of other processes; not
 * `but`, if there is another. */
int cpu_other(int but);
/* Pin a thread to a CPU. Return 0, or a negative errno after printing why. */
int cpu_pin(pthread_t thread, int cpu);
/* Return in words what those CPUs share at most, as hwloc knows it. The text is in static
 * storage. */
const char *cpu_distance(int a, int b);

#endif
