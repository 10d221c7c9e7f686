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

/* Read the lines HOST [slots=N] [instance=NAME] of a file. If that fails, return false with a
 * sentence in error. */
bool hosts_read(struct hosts *h, const char *path, char *error, uint32_t error_len);
/* Add the hosts of a list of names separated by commas. If that fails, return false with a sentence
 * in error. */
bool hosts_list(struct hosts *h, const char *names, char *error, uint32_t error_len);
/* Give each host its ranks, in blocks: as many as it has slots, or the same number each where no
 * slots are said. n 0: as many as there are slots, at least one each. Return false if there are too
 * few slots. */
bool hosts_place(struct hosts *h, uint32_t n, char *error, uint32_t error_len);
void hosts_free(struct hosts *h);
/* Return the words of a command that runs `program` on a host. First come those of `how`, in which
 * {} stands for the host, which is appended if there is no {}; then come the program's. For this
 * host they are the program's alone. The caller frees each word, and then the array, which ends
 * with NULL. NULL: out of memory. */
char **hosts_command(const char *how, const struct host *h, const char *const *program);

/* The programs that an agent is to run. */
struct launch {
	uint32_t number, size; /* the job's */
	uint32_t first, ranks;
	char *directory;  /* "": where the agent is */
	char *instance;   /* or "" */
	char **variables; /* NAME=VALUE, ends with NULL */
	char **command;   /* ends with NULL */
};

/* Return the body of a STREAM_START message, which the caller frees. NULL: out of memory. */
uint8_t *launch_write(const struct launch *l, uint32_t *len);
/* Read the body of a STREAM_START message. Return false if it is none, or of another version. */
bool launch_read(struct launch *l, const uint8_t *body, uint32_t len);
void launch_free(struct launch *l);

static inline void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Run the agent until its stream has ended and none of its processes runs. Return the exit code. */
int agent_run(void);

#endif
