/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of the image (lib/engine/image.h) that a primary gives to the one that takes over,
 * besides those of services.
 */
#ifndef PMX_SERVE_TAKEOVER_IMAGE_H
#define PMX_SERVE_TAKEOVER_IMAGE_H

#include "engine/lane.h"

struct head {
	uint64_t magic;
	uint32_t head_bytes, channel_bytes, epoch;
	uint32_t channels, connections, frames;
	uint64_t proto_bytes;
	uint64_t counters[ENGINE_COUNTER_COUNT];
};

struct saved_inlet {
	uint32_t pos, lhs_pos, bulk_out;
};

struct saved_channel {
	uint16_t ctx;
	bool selects;
	bool parks;
	uint8_t preempted; /* enum preempted */
	int32_t pid;
	uint32_t job, domain;
	uint32_t generation;
	struct quotas q;
	uint64_t region_bytes;
	uint32_t sub_pos, sub_other, com_pos, com_other;
	struct saved_inlet plain, matched;
	uint32_t bufs, free_count, done, memories;
	uint32_t frames_kept, recalled, recalled_slots; /* of struct thin */
	uint64_t received, sent, bad, open_wait;
	uint32_t inline_done, inline_failed;
};

struct saved_buf {
	uint32_t next;
	uint16_t owner;
	bool head, matched;
};

struct saved_memory {
	uint64_t client, len;
	uint32_t number, watched;
};

#endif
