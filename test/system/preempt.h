/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the test of preemption share: see preempt.c.
 */
#ifndef PMX_TEST_PREEMPT_H
#define PMX_TEST_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <pmx/pmx.h>
#include <pmx/preempt.h>

#include "helpers.h"

#define MEMBERS_MAX 16
#define LONGEST     20480u /* bytes of a message or a push */

/* The things that a member does to every other. Each kind has its own sequence in each
 * direction. */
enum kind {
	PLAIN,   /* messages */
	MATCHED, /* pmx_isend() and pmx_irecv() */
	PUSHED,  /* pushes, each of which the other side confirms when it has looked at it */
	PULLED,  /* pulls of bytes that never change */
	ADDED,   /* atomic additions of 1 to one word */
	KINDS
};

/* The bytes of one message or transfer follow from who sends what to whom, and which it is. */
uint64_t content_key(enum kind kind, uint32_t from, uint32_t to, uint64_t sequence);
uint32_t content_len(uint64_t key);
void content_fill(uint8_t *to, uint64_t key, uint32_t len);
bool content_is(const uint8_t *from, uint64_t key, uint32_t len);

/* argv: INSTANCE RANK GROUP SELF NODE:CONTEXT... */
int member_main(int argc, char **argv);
/* argv: JOB FREEZES LONG_MS INSTANCE... */
int driver_main(int argc, char **argv);
/* argv: INSTANCE */
int client_main(int argc, char **argv);

#endif
