/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sources of pmx-ctl share. The program is one process and one thread; it only reads,
 * but for what key.c writes: the telemetry socket of a primary, /proc and /sys.
 *
 *   main.c        options and commands          stat.c         stat, drops: counters
 *   print.c       output, members of answers    found.c        doctor: findings, files of /sys
 *   instance.c    which primaries there are     list.c         contexts, memory, groups
 *   ask.c         telemetry's socket            doctor.c       doctor: report
 *   pages.c       ... what it answers in pages  meaning.c      units and meanings of counters
 *   table.c       aligned output                doctor_host.c  doctor: the machine
 *   peers.c       peers                         top.c          top: all of it, as it changes
 *   ping.c        ping: does a node answer      sample.c       ... all of it, at one moment
 *   doctor_node.c doctor: a running primary     doctor_left.c  doctor: what dead ones left
 *   doctor_mpi.c  doctor: Open MPI and libfabric
 *   plan.c        plan: collectives on a topology
 *   topology.c    topology: a topology's picture
 *   links.c       links: traffic, and which are dead
 *   key.c         key: files of keys and certificates
 */
#ifndef PMX_CTL_H
#define PMX_CTL_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define CTL_ERROR_MAX 1024
#define CTL_PATH_MAX  4096

#define PRINTF(f, a) __attribute__((format(printf, f, a)))

struct ctl_options {
	const char *instance; /* NULL: the only one that runs */
	bool json;
	bool all;            /* stat: rows that are zero too; peers: counters */
	double watch_s;      /* stat: 0 = once; top */
	const char *context; /* ping: one of that node, by its number; capture */
	const char *peer;    /* capture: a node's number */
	const char *file;    /* capture, key: what is written; others: --watch as text */
	bool batch;          /* top: print */
	unsigned times;      /* top, ping: how often; capture: frames; 0: without end */
	uint32_t drain_us;   /* freeze: 0 = PMX_DRAIN_US */
	bool hold;           /* freeze, park: until this program ends */
	bool processes;      /* freeze, park: they are stopped as well */
	struct plan_options {
		const char *topology, *kind, *root, *size, *generator, *ranks_per_host;
		const char *steps;       /* of which rank */
		const char *save, *load; /* files of a plan */
		const char *svg;         /* topology: where the picture goes */
	} plan;                          /* kind: key as well */
	struct key_options {
		const char *authority; /* a file; show: or a public key */
		const char *node, *name, *days;
	} key;
};

enum ctl_verdict {
	OK,
	WARN, /* works, but more slowly, or not for long */
	FAIL, /* a primary cannot start or cannot work */
};

/* ------------------------------------------------------------------ print.c */

/* "pmx-ctl: ..." on stderr; returns 1, the exit code. */
int complain(const char *fmt, ...) PRINTF(1, 2);
/* Print a value as JSON and release it. Return the exit code. */
int print_json(json_t *value);
/* Make a new text, which the caller frees; end the program if there is no memory. */
char *text(const char *fmt, ...) PRINTF(1, 2);
/* Return an unsigned member of an object, 0 if it is not there. */
uint64_t get_u64(const json_t *object, const char *key);
/* Return a string member of an object, "" if it is not there. */
const char *get_text(const json_t *object, const char *key);
/* Write a text that telemetry gives in pieces to `out`, and return that. */
const char *get_long_text(const json_t *object, const char *key, char *out, size_t size);

/* Format nanoseconds; 0: not measured. Use four static buffers in turn. */
const char *time_text(uint64_t ns);
/* Format bytes. Use eight static buffers in turn. */
const char *bytes_text(uint64_t bytes);

/* ------------------------------------------------------------------ instance.c */

enum instance_state {
	INSTANCE_LIVE,   /* its telemetry socket takes connections */
	INSTANCE_SILENT, /* a primary holds its files, but offers no telemetry */
	INSTANCE_DENIED, /* of another user, so its state is unknown */
	INSTANCE_DEAD,   /* only files are left */
	INSTANCE_NONE,   /* no such directory */
};

/* The two directories of an instance are those of its name, and of its name with a +: each primary
 * that takes over has the one that its predecessor does not have. */
#define INSTANCE_DIRECTORIES 2

struct instance {
	char name[256];
	enum instance_state state; /* the better one of both */
	enum instance_state state_of[INSTANCE_DIRECTORIES];
};

/* List all instances that have files, sorted by name. The caller frees the list. */
struct instance *instance_list(unsigned *count);
/* Return the place in the list of the instance whose name is the first `len` characters, or -1. */
int instance_find(const struct instance *list, unsigned count, const char *name, size_t len);
/* Return the EAL's file prefix of the primary that has that directory. The caller frees it. */
char *instance_prefix(const char *name, unsigned directory);
/* Return the directory of the primary with that prefix of `len` characters, of which the instance's
 * name is what precedes the +. */
unsigned instance_directory(const char *prefix, size_t len);
/* Return the names of the instances in `state` as "a, b"; "" if there are none. The caller frees
 * the text. */
char *instance_names(const struct instance *list, unsigned count, enum instance_state state);
/* Pick the instance: `wanted`, or the only live one if `wanted` is NULL. Return 0, or -1 with a
 * message in error. */
int instance_pick(const char *wanted, char *name, size_t size, char *error);
/* Connect to the telemetry socket of `name` in one of its directories. Return the descriptor, or
 * -errno. path gets the path of the socket and has CTL_PATH_MAX bytes. */
int instance_connect(const char *name, unsigned directory, char *path);

/* ------------------------------------------------------------------ ask.c */

struct ctl_session {
	int fd;
	char name[256];
	int pid;          /* of the primary, in its own PID namespace */
	char version[64]; /* of its DPDK */
	char *buffer;
	size_t size;            /* of buffer: the longest answer */
	struct pmx_node *relay; /* fd < 0: asks over the socket by which applications attach */
};

/* Connect to an instance. Return 0, or -1 with a message in error (CTL_ERROR_MAX bytes). */
int session_open(struct ctl_session *s, const char *name, char *error);
void session_close(struct ctl_session *s);
/* Connect to the socket by which applications attach, for questions by way_thin_ask(). Return what
 * asks, or NULL with *result set to -errno. */
struct pmx_node *asker_open(const char *name, int *result);
void asker_close(struct pmx_node *asker);
/* Send one command, e.g. "/pmx/peers,64". Return its answer, which the caller releases, or NULL
 * with a message in error. */
json_t *session_ask(struct ctl_session *s, const char *command, char *error);

/* ------------------------------------------------------------------ pages.c */

/* Collect all objects of a command that answers in pages by number. Return them as
 * [{number_key: N, ...}], which the caller releases, or NULL with a message in error. */
json_t *ask_pages(struct ctl_session *s, const char *command, const char *number_key, char *error);

/* ------------------------------------------------------------------ table.c */

#define TABLE_COLUMNS_MAX 16

struct table {
	char **rows; /* cells separated by tabs; the first row holds the heads */
	unsigned count, room;
	bool right[TABLE_COLUMNS_MAX];
};

/* heads: separated by '|'; one that begins with '>' is a column of numbers. */
void table_begin(struct table *t, const char *heads);
/* Add one row: cells separated by tabs. */
void table_row(struct table *t, const char *fmt, ...) PRINTF(2, 3);
/* Print the table and release it. */
void table_end(struct table *t, FILE *out);

/* ------------------------------------------------------------------ meaning.c */

/* The description of a value of /pmx/stat, /pmx/drops or /pmx/info. */
struct meaning {
	const char *unit, *help;
};

struct meaning counter_meaning(const char *name);

/* ------------------------------------------------------------- stat.c, list.c, peers.c, links.c */

int show_stat(struct ctl_session *s, const struct ctl_options *o);
int show_drops(struct ctl_session *s, const struct ctl_options *o);
int show_links(struct ctl_session *s, const struct ctl_options *o);
/* Return the address that /pmx/rails gives for a peer on that link, and in *up whether the link
 * works; NULL: the peer has no address there. */
const char *rail_address(const json_t *peer, unsigned link, bool *up);
void sleep_s(double s);
int show_peers(struct ctl_session *s, const struct ctl_options *o);
/* Return the rows to show as a table; NULL: the output is complete, and *result is the exit
 * code. */
json_t *ask_rows(struct ctl_session *s, const struct ctl_options *o, const char *command,
	const char *key, const char *none, int *result);
int show_reload(struct ctl_session *s, const struct ctl_options *o);
/* Return the time below which that share of the round trips were, ns; 0: there are none. trips: as
 * /pmx/peer_counters has them. */
uint64_t round_trips_below(const json_t *trips, double share);
/* Find the first thing that a peer of /pmx/peers says of itself and that does not go together with
 * this node, whose longest payload of a frame is `payload`. Return OK if there is none; otherwise
 * write what, and *mend. */
enum ctl_verdict peer_disagrees(const json_t *peer, uint64_t payload, char *what, size_t size,
	const char **mend);
/* Return how many frames of a peer of /pmx/peer_counters were dropped, for all reasons. */
uint64_t peer_drops(const json_t *peer);
int show_contexts(struct ctl_session *s, const struct ctl_options *o);
int show_memory(struct ctl_session *s, const struct ctl_options *o);
int show_groups(struct ctl_session *s, const struct ctl_options *o);

/* ------------------------------------------------------------------ ping.c */

/* Find out whether a node answers, named by number, name or address. Return the exit code. */
int ping_node(const struct ctl_options *o, const char *which);

/* ------------------------------------------------------------------ key.c */

/* Run a command on keys: its name and its arguments. Return the exit code. */
int key_command(const struct ctl_options *o, int count, char **words);

/* ------------------------------------------------------------------ capture.c */

/* Write frames of a primary into a file. Return the exit code. */
int capture(struct ctl_session *s, const struct ctl_options *o);

/* ------------------------------------------------------------------ top.c */

/* Follow what a primary does, on a terminal. Return the exit code. */
int show_top(const struct ctl_options *o);

/* ------------------------------------------------------------------ jobs.c */

/* A command that is done to one job. */
struct job_command {
	const char *name;
	bool stops, parks, starts;
};

/* Return the command of that name, or NULL. */
const struct job_command *job_command(const char *name);
/* Run a command for one job, or list the jobs. Return the exit code. */
int change_job(const struct ctl_options *o, const struct job_command *c, const char *number);
int show_jobs(const struct ctl_options *o);
/* Read commands from the standard input, for pmx-gang, and obey them. Return the exit code. */
int serve_gang(const struct ctl_options *o);

/* ------------------------------------------------------------------ plan.c */

/* Show the plans of a collective on a topology. Return the exit code. */
int show_plan(const struct ctl_options *options);

/* ------------------------------------------------------------------ topology.c */

/* Show a topology's picture. Return the exit code. */
int show_topology(const struct ctl_options *options);

/* ------------------------------------------------------------------ found.c, doctor*.c */

struct doctor {
	json_t *lines; /* array of {check, state, found, mend} */
	unsigned count[3];
	unsigned live;    /* instances with telemetry */
	unsigned lanes;   /* of all live instances */
	cpu_set_t polled; /* CPUs of the lanes of instances checked so far */
};

/* Add a line to the report. mend: what to do; NULL or "": nothing. */
void found(struct doctor *d, enum ctl_verdict v, const char *check, const char *mend,
	const char *fmt, ...) PRINTF(5, 6);
/* Read the first line of a file, without its line end. Return false, with "" in out, if it cannot
 * be read. */
bool read_line(const char *path, char *out, size_t size);
/* Read a file that has one number. Return the number, or `fallback` if it cannot be read. */
uint64_t read_u64(const char *path, uint64_t fallback);
/* Quote a word for a shell, if needed. The caller frees the result. */
char *shell_word(const char *word);

int doctor(const struct ctl_options *o);
void doctor_host(struct doctor *d);
void doctor_mpi(struct doctor *d);
void doctor_node(struct doctor *d, const char *name);
void doctor_left(struct doctor *d, const struct instance *list, unsigned count);

#endif
