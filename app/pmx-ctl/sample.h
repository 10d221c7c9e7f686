/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All that the primaries of this host say at one moment, and how fast it grows between two: what
 * `pmx-ctl top` and pmx-exporter show.
 */
#ifndef PMX_CTL_SAMPLE_H
#define PMX_CTL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "core/proto/proto.h"

#define PRIMARIES_MOST 32

/* One primary: its answers, or why it gave none. */
struct primary {
	char name[256];
	bool is_up, is_dead; /* neither: it may not be asked, or does not answer */
	char *error;
	json_t *info, *stat, *links; /* objects: name -> value */
	json_t *peers, *contexts;    /* arrays of objects; a peer has its counters too */
};

struct sample {
	int64_t at_ms; /* of a clock that never goes back */
	unsigned count;
	struct primary primaries[PRIMARIES_MOST];
};

/* Ask the primary of that name, or all of this host if it is NULL. Return the sample, which
 * sample_free() frees; NULL: no memory. */
struct sample *sample_take(const char *instance);
void sample_free(struct sample *s);
/* Return what that primary said in a sample; NULL: it was not there, or said nothing. */
const struct primary *sample_primary(const struct sample *s, const char *name);
/* Return the peer or context of that number in a list; NULL: it is not there. */
const json_t *sample_numbered(const json_t *list, const char *key, uint64_t number);

/* An object as it is in two samples, and the time between. */
struct span {
	const json_t *before, *now; /* before NULL: it was not there */
	double seconds;
};

/* Return the span of an item of a list, which had it before or not. */
struct span span_of(const json_t *before, const json_t *item, const char *key, double seconds);
/* Return which part of a peer's window is in flight; 1: it is at its bound. */
double peer_window_used(const json_t *peer);
/* Write for each bucket how many round trips came since before, which may be NULL. Return how
 * many came in all. Both are round_trips of /pmx/peer_counters. */
uint64_t round_trips_since(const json_t *before, const json_t *now,
	uint64_t counts[PROTO_ROUND_TRIPS]);
/* Return how fast a counter grows, a second. */
double span_rate(const struct span *s, const char *key);
/* Return how many frames of a peer are dropped a second. */
double span_drops(const struct span *s);
/* Format a rate: "12.3 M". Use sixteen static buffers in turn. */
const char *rate_text(double rate);

#endif
