/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What pmx-run, its agents and the processes of a job say to each other: messages with a length,
 * over any stream that the kernel has (a socket pair, or ssh's two pipes). Numbers are big-endian.
 *
 *     pmx-run  <->  an agent on each host  <->  its processes
 *
 * Design notes
 * 1. Nobody listens anywhere: a process has a socket that its agent made for it, and an agent has
 *    the standard input and output of the command that started it. So there is no port, no key, and
 *    no one else who could connect.
 * 2. Either side may end at any moment; the other one sees the end of the stream, which is all that
 *    is needed: an agent whose stream has ended ends its processes, a process whose stream has
 *    ended has no job any more.
 */
#ifndef PMX_JOB_STREAM_H
#define PMX_JOB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_VERSION 1
#define STREAM_MAX     (16u << 20) /* bytes of a message's body, at most */

enum stream_op {
	/* pmx-run to an agent */
	STREAM_START = 1, /* what to run: struct launch (launch.h) */
	STREAM_SIGNAL,    /* to all its processes: a signal's number, u32 */
	/* an agent to pmx-run */
	STREAM_STARTED, /* by the agent's rank: the process's number, u32, and the host's name */
	STREAM_OUTPUT,  /* bytes that a rank wrote to its standard output ... */
	STREAM_ERRORS,  /* ... and error */
	STREAM_ENDED,   /* a rank's process: its status as of waitpid(), u32 */
	STREAM_FAILED,  /* a rank could not be started: a sentence */
	/* a process to its agent, which passes it on */
	STREAM_HELLO, /* u32 STREAM_VERSION */
	STREAM_PUT,   /* u8 bytes of the key, the key, the value */
	STREAM_FENCE,
	STREAM_LEAVE, /* it has ended its part of the job */
	/* pmx-run to all processes, by their agents */
	STREAM_VALUES, /* all that was put since the last ones, struct records (exchange.h); ends a
			* fence */
};

struct stream_message {
	uint8_t op;
	uint32_t rank; /* that it is of, or for */
	uint32_t len;
	const uint8_t *body; /* in the buffer that it was read to */
};

/* Bytes that were read and not yet taken. */
struct stream_in {
	uint8_t *bytes;
	size_t have, room, taken;
};

/* Write a whole message, and wait for room if need be. Return 0 or -errno. */
int stream_write(int fd, uint8_t op, uint32_t rank, const void *body, uint32_t len);
/* The head of a message, for those who queue it: STREAM_HEAD bytes. */
#define STREAM_HEAD 12
void stream_head(uint8_t *head, uint8_t op, uint32_t rank, uint32_t len);
/* Read what is there, once. Return 1; 0: the stream has ended; -EAGAIN; another -errno. */
int stream_read(int fd, struct stream_in *in);
/* Take the next message that is complete. It is valid until the next stream_read(). Return 1; 0:
 * there is none; -EPROTO: it is no such stream. */
int stream_next(struct stream_in *in, struct stream_message *m);
void stream_free(struct stream_in *in);

static inline uint32_t
stream_u32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void
stream_put_u32(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 24);
	at[1] = (uint8_t)(v >> 16);
	at[2] = (uint8_t)(v >> 8);
	at[3] = (uint8_t)v;
}

#endif
