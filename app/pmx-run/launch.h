/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-run, private parts: what to run where (hosts.c, which is pmx-gang's too), how an agent is
 * told (launch.c), the agent itself (agent.c), and the job as pmx-run sees it (main.c).
 */
#ifndef PMX_RUN_LAUNCH_H
#define PMX_RUN_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "job/stream.h"

#define RANKS_MAX 65536u
#define GRACE_MS  2000 /* between SIGTERM and SIGKILL */

/* A host, and the ranks that run on it: first, first + 1, ... */
struct host {
	char *name;     /* "" is this one */
	char *instance; /* of its primary; or NULL */
	uint32_t slots; /* 0: not said */
	uint32_t first, ranks;
};

struct hosts {
	struct host *of;
	uint32_t count;
};

/* Reads the lines HOST [slots=N] [instance=NAME]. false, with a sentence. */
bool hosts_read(struct hosts *h, const char *path, char *error, uint32_t error_len);
/* Names separated by commas. */
bool hosts_list(struct hosts *h, const char *names, char *error, uint32_t error_len);
/* Gives each host its ranks, in blocks: as many as it has slots, or the same number each where no
 * slots are said. n 0: as many as there are slots, at least one each. false: too few slots. */
bool hosts_place(struct hosts *h, uint32_t n, char *error, uint32_t error_len);
void hosts_free(struct hosts *h);
/* The words of a command that runs `program` on a host: those of `how`, in which {} stands for the
 * host, which is appended otherwise; for this host the program's alone. Each is to be freed, then
 * the array, which ends with NULL. NULL: out of memory. */
char **hosts_command(const char *how, const struct host *h, const char *const *program);

/* What an agent is to run. */
struct launch {
	uint32_t number, size; /* the job's */
	uint32_t first, ranks;
	char *directory;  /* "": where the agent is */
	char *instance;   /* or "" */
	char **variables; /* NAME=VALUE, ends with NULL */
	char **command;   /* ends with NULL */
};

/* The body of STREAM_START, to be freed. NULL: out of memory. */
uint8_t *launch_write(const struct launch *l, uint32_t *len);
/* false: it is none, or of another version. */
bool launch_read(struct launch *l, const uint8_t *body, uint32_t len);
void launch_free(struct launch *l);

static inline void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Runs until its stream ends or its processes have; returns the exit code. */
int agent_run(void);

#endif
