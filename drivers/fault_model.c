/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fault model: see fault_model.h for what it decides and in which order. Owns nothing but
 * the struct that it is given; called by the engine of a tx queue (through fault.c) or by the
 * simulator. A frame costs one 64-bit hash for each fault that is set; the only division runs
 * once in a blackout period.
 */
#include "fault_model.h"

#include <string.h>

#define FRAC_BITS 20 /* fraction bits of byte_ns and free_frac: 64 B at 400 Gbit/s take 1.28 ns */
#define FRAC_MASK ((UINT64_C(1) << FRAC_BITS) - 1)

/* 2^64 / golden ratio: walks through all 64-bit numbers, far apart from one frame to the next. */
#define STREAM_STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t
hash64(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Return the random number for this frame and this decision. */
static uint64_t
fault_model_draw(const struct fault_model *model, unsigned int decision)
{
	return hash64(model->base[decision] + model->position);
}

/* Return whether an event happens to this frame. odds: parts of 2^32: 0 is never, 2^32 is always.
 * Use only the upper half of the random number, so that the lower half stays independent. */
static int
happens(const struct fault_model *model, unsigned int decision, uint64_t odds)
{
	return odds != 0 && (fault_model_draw(model, decision) >> 32) < odds;
}

/* Uniform in [0, range) by the lower half of a draw; range <= 2^32. */
static uint64_t
scale(uint64_t random, uint64_t range)
{
	return ((random & UINT32_MAX) * range) >> 32;
}

static int
is_dark(struct fault_model *model, uint64_t now_ns)
{
	if (model->period_ns == 0)
		return 0;
	if (now_ns - model->cycle_ns >= model->period_ns)
		model->cycle_ns = now_ns - now_ns % model->period_ns;
	return now_ns - model->cycle_ns >= model->dark_ns;
}

/*
 * Pass the bottleneck: *leave_ns is when the frame's last bit has left it. Returns 0 when the
 * queue has no room. The backlog is kept as time, so that no division is needed; a frame that
 * finds the bottleneck idle is always taken, even one longer than the queue.
 */
static int
pass_bottleneck(struct fault_model *model, uint64_t now_ns, uint32_t len_bytes, uint64_t *leave_ns)
{
	uint64_t cost = model->byte_ns * len_bytes;
	uint64_t backlog_ns;

	if (model->free_ns < now_ns) {
		model->free_ns = now_ns;
		model->free_frac = 0;
	}
	backlog_ns = model->free_ns - now_ns;
	if (backlog_ns != 0 && backlog_ns + (cost >> FRAC_BITS) > model->queue_ns)
		return 0;
	cost += model->free_frac;
	model->free_ns += cost >> FRAC_BITS;
	model->free_frac = cost & FRAC_MASK;
	*leave_ns = model->free_ns;
	return 1;
}

/* Return whether this frame falls into a burst of losses. A burst begins by its odds and goes on by
 * burst_stay, so its mean length is 1 / (1 - burst_stay). */
static int
falls_in_burst(struct fault_model *model)
{
	if (model->burst == 0)
		return 0;
	model->in_burst = happens(model, FAULT_DRAW_BURST,
		model->in_burst ? model->burst_stay : model->burst);
	return model->in_burst;
}

static void
decide_copy(struct fault_model *model, unsigned int i, uint64_t now_ns, uint64_t leave_ns,
	uint32_t len_bytes, struct fault_copy *copy)
{
	uint64_t random;

	copy->release_ns = leave_ns + model->delay_ns;
	copy->flip_bit = FAULT_NO_FLIP;
	if (model->jitter_ns != 0)
		copy->release_ns += scale(fault_model_draw(model, FAULT_DRAW_JITTER + i),
			model->jitter_ns);
	if (happens(model, FAULT_DRAW_REORDER + i, model->reorder)) {
		copy->release_ns += model->reorder_ns;
		model->counters.reordered++;
	}
	if (model->corrupt != 0 && len_bytes != 0) {
		random = fault_model_draw(model, FAULT_DRAW_CORRUPT + i);
		if (random >> 32 < model->corrupt) {
			copy->flip_bit = (uint32_t)scale(random, (uint64_t)len_bytes * 8);
			model->counters.corrupted++;
		}
	}
	model->counters.delayed += copy->release_ns > now_ns;
	model->counters.delivered++;
}

void
fault_model_frame(struct fault_model *model, uint64_t now_ns, uint32_t len_bytes,
	struct fault_verdict *verdict)
{
	uint64_t leave_ns = now_ns;
	enum fault_cause cause = FAULT_NONE;

	if (len_bytes > FAULT_LENGTH_MAX)
		len_bytes = FAULT_LENGTH_MAX;
	model->position += STREAM_STEP;
	model->counters.frames++;

	if (is_dark(model, now_ns))
		cause = FAULT_BLACKOUT;
	else if (model->byte_ns != 0 && !pass_bottleneck(model, now_ns, len_bytes, &leave_ns))
		cause = FAULT_QUEUE;
	else if (falls_in_burst(model))
		cause = FAULT_BURST;
	else if (happens(model, FAULT_DRAW_LOSS, model->loss))
		cause = FAULT_LOSS;

	verdict->cause = cause;
	verdict->copies = 0;
	if (cause != FAULT_NONE) {
		model->counters.dropped[cause]++;
		return;
	}
	decide_copy(model, 0, now_ns, leave_ns, len_bytes, &verdict->copy[0]);
	verdict->copies = 1;
	if (happens(model, FAULT_DRAW_DUPLICATE, model->duplicate)) {
		decide_copy(model, 1, now_ns, leave_ns, len_bytes, &verdict->copy[1]);
		verdict->copies = 2;
		model->counters.duplicated++;
	}
}

static uint64_t
clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Turn parts per million into odds of 2^32, rounded up so that only 0 means never. */
static uint64_t
odds(uint32_t ppm)
{
	return ((clamp(ppm, 0, FAULT_PPM) << 32) + FAULT_PPM - 1) / FAULT_PPM;
}

static void
init_bottleneck(struct fault_model *model, uint64_t rate_bps, uint64_t queue_bytes)
{
	const uint64_t byte_bits_ns = UINT64_C(8000000000); /* 8 bits in ns at 1 bit/s */

	if (rate_bps == 0)
		return;
	rate_bps = clamp(rate_bps, FAULT_RATE_MIN, FAULT_RATE_MAX);
	model->byte_ns = (byte_bits_ns << FRAC_BITS) / rate_bps;
	if (queue_bytes == 0)
		model->queue_ns = UINT64_MAX;
	else
		model->queue_ns = clamp(queue_bytes, 0, FAULT_QUEUE_MAX) * byte_bits_ns / rate_bps;
}

void
fault_model_init(struct fault_model *model, const struct fault_config *config)
{
	uint32_t frames = (uint32_t)clamp(config->burst_frames, 1, FAULT_BURST_MAX);
	unsigned int i;

	memset(model, 0, sizeof(*model));
	/* Hashed twice, because consecutive seeds must not share streams. */
	for (i = 0; i < FAULT_DRAWS; i++)
		model->base[i] = hash64(hash64(config->seed + STREAM_STEP) + i * STREAM_STEP);
	model->loss = odds(config->loss_ppm);
	model->burst = odds(config->burst_ppm);
	model->burst_stay = (UINT64_C(1) << 32) - (UINT64_C(1) << 32) / frames;
	model->duplicate = odds(config->duplicate_ppm);
	model->reorder = odds(config->reorder_ppm);
	model->corrupt = odds(config->corrupt_ppm);
	model->delay_ns = clamp(config->delay_ns, 0, FAULT_DELAY_MAX_NS);
	model->jitter_ns = clamp(config->jitter_ns, 0, FAULT_DELAY_MAX_NS);
	model->reorder_ns = clamp(config->reorder_ns, 0, FAULT_DELAY_MAX_NS);
	model->period_ns = clamp(config->blackout_period_ns, 0, FAULT_BLACKOUT_MAX_NS);
	model->dark_ns = model->period_ns - clamp(config->blackout_ns, 0, model->period_ns);
	init_bottleneck(model, config->rate_bps, config->queue_bytes);
}

const char *
fault_cause_name(enum fault_cause cause)
{
	switch (cause) {
	case FAULT_NONE:
		return "none";
	case FAULT_LOSS:
		return "loss";
	case FAULT_BURST:
		return "burst";
	case FAULT_QUEUE:
		return "queue";
	case FAULT_BLACKOUT:
		return "blackout";
	case FAULT_CAUSES:
		break;
	}
	return "unknown";
}
