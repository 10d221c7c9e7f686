/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fault model decides from a seed what a bad network does to each frame. It is pure, without
 * clock, I/O and allocation: the caller passes time and length and acts on the verdict. The fault
 * link (fault.c) runs one model per tx queue on the engine's lcore; the simulator runs the same
 * code in virtual time. A model has one caller at a time and no global state.
 *
 * Design notes
 * 1. Each decision is a hash of (seed, cause, number of the frame), not the next number of a shared
 *    stream. So setting or removing one fault does not change what the others do to each frame, and
 *    a failing seed can be reduced cause by cause. Generator: the finaliser of SplitMix (Steele,
 *    Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, fig. 17).
 * 2. Order along the path: blackout, bottleneck queue and rate, burst loss, loss, then the copies.
 *    A frame lost after the bottleneck has used its share of the rate, as on a real cable; a
 *    duplicate is made behind the bottleneck and uses none.
 * 3. Burst loss is Gilbert's two-state chain (Gilbert, "Capacity of a burst-noise channel", BSTJ
 *    1960) with loss 1 in the bad state: lengths are geometric with the given mean.
 */
#ifndef PMX_DRIVERS_FAULT_MODEL_H
#define PMX_DRIVERS_FAULT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define FAULT_PPM             1000000u                /* a certain event, parts per million */
#define FAULT_COPIES_MAX      2                       /* the frame and its duplicate */
#define FAULT_NO_FLIP         UINT32_MAX              /* verdict: no bit is flipped */
#define FAULT_BURST_MAX       65535u                  /* mean length of a burst, frames */
#define FAULT_DELAY_MAX_NS    UINT64_C(4000000000)    /* delay, jitter, reorder span: 4 s */
#define FAULT_BLACKOUT_MAX_NS UINT64_C(3600000000000) /* blackout period: 1 hour */
#define FAULT_RATE_MIN        UINT64_C(1000)          /* bit/s */
#define FAULT_RATE_MAX        UINT64_C(1000000000000) /* bit/s */
#define FAULT_QUEUE_MAX       (UINT64_C(1) << 30)     /* bytes */
#define FAULT_LENGTH_MAX      (1u << 20)              /* longest frame that may be asked about */
#define FAULT_REORDER_NS      20000u                  /* reorder span where none is given */

/* The faults that the frames suffer; none if all fields are 0. Probabilities are 0..FAULT_PPM, per
 * frame. */
struct fault_config {
	uint32_t loss_ppm;      /* the frame is lost, independently of all others */
	uint32_t burst_ppm;     /* a burst of losses begins at this frame */
	uint32_t burst_frames;  /* mean length of a burst, 1..FAULT_BURST_MAX; read if burst_ppm */
	uint32_t duplicate_ppm; /* the frame arrives twice */
	uint32_t reorder_ppm;   /* a copy is held back by reorder_ns, so later frames pass it */
	uint32_t corrupt_ppm;   /* one bit of a copy is flipped */
	uint64_t reorder_ns;    /* 0..FAULT_DELAY_MAX_NS */
	uint64_t delay_ns;      /* of every copy, 0..FAULT_DELAY_MAX_NS */
	uint64_t jitter_ns;     /* additional delay, uniform in [0, jitter), 0..FAULT_DELAY_MAX_NS;
				 * it reorders frames that follow each other at shorter intervals */
	uint64_t rate_bps;      /* bottleneck, bit/s, FAULT_RATE_MIN..FAULT_RATE_MAX; 0 = none */
	uint64_t queue_bytes;   /* drop-tail queue of the bottleneck, with the frame in service;
				 * 0 = no bound, else up to FAULT_QUEUE_MAX */
	uint64_t blackout_period_ns; /* 0 = no blackout, up to FAULT_BLACKOUT_MAX_NS */
	uint64_t blackout_ns;        /* the last blackout_ns of each period are dark, 0..period;
				      * periods count from time 0 of the caller's clock */
	uint64_t seed;               /* any value */
};

/* The reason why a frame was dropped. */
enum fault_cause {
	FAULT_NONE,     /* it was not dropped */
	FAULT_LOSS,     /* independent loss */
	FAULT_BURST,    /* within a burst of losses */
	FAULT_QUEUE,    /* the bottleneck's queue was full */
	FAULT_BLACKOUT, /* the link was dark */
	FAULT_CAUSES
};

/* One copy of the frame that goes on. */
struct fault_copy {
	uint64_t release_ns; /* when it leaves, >= now */
	uint32_t flip_bit;   /* bit to invert, 0..8 * length - 1, or FAULT_NO_FLIP */
};

struct fault_verdict {
	uint32_t copies;                          /* 0..FAULT_COPIES_MAX; 0 = dropped for `cause` */
	enum fault_cause cause;                   /* FAULT_NONE unless copies is 0 */
	struct fault_copy copy[FAULT_COPIES_MAX]; /* the first `copies` are valid */
};

/* frames + duplicated = delivered + sum of dropped[]. */
struct fault_counters {
	uint64_t frames;                /* frames decided about */
	uint64_t delivered;             /* copies that go on */
	uint64_t dropped[FAULT_CAUSES]; /* frames by cause; [FAULT_NONE] stays 0 */
	uint64_t duplicated;            /* frames that became two */
	uint64_t reordered;             /* copies held back by reorder_ns */
	uint64_t corrupted;             /* copies with a flipped bit */
	uint64_t delayed;               /* copies released later than now, for any reason */
};

/* The independent random decisions about one frame; the last three once for each copy. */
enum fault_draw {
	FAULT_DRAW_LOSS,
	FAULT_DRAW_BURST,
	FAULT_DRAW_DUPLICATE,
	FAULT_DRAW_REORDER,
	FAULT_DRAW_CORRUPT = FAULT_DRAW_REORDER + FAULT_COPIES_MAX,
	FAULT_DRAW_JITTER = FAULT_DRAW_CORRUPT + FAULT_COPIES_MAX,
	FAULT_DRAWS = FAULT_DRAW_JITTER + FAULT_COPIES_MAX
};

/* The model's state, in the caller's memory; it may be copied to save and restore it. Callers read
 * only `counters`. */
struct fault_model {
	struct fault_counters counters;
	uint64_t base[FAULT_DRAWS]; /* start of each decision's stream */
	uint64_t position;          /* position of the current frame in every stream */
	uint64_t loss, burst, burst_stay, duplicate, reorder, corrupt; /* odds, of 2^32 */
	uint64_t delay_ns, jitter_ns, reorder_ns;
	uint64_t byte_ns;            /* time of a byte in the bottleneck, 2^-20 ns; 0 = no rate */
	uint64_t queue_ns;           /* time that a full queue takes to drain */
	uint64_t free_ns;            /* when the bottleneck will have sent all it accepted ... */
	uint64_t free_frac;          /* ... and the fraction, in 2^-20 ns, 0..2^20 - 1 */
	uint64_t period_ns, dark_ns; /* blackout: period, and offset in it at which the dark time
				      * begins */
	uint64_t cycle_ns;           /* start of the current blackout period */
	uint32_t in_burst;           /* the last frame fell into a burst */
};

/**
 * Set up a model.
 *
 * @param model   the caller's; overwritten
 * @param config  read, not kept; values beyond the documented range are clamped to it
 */
void fault_model_init(struct fault_model *model, const struct fault_config *config);

/**
 * Decide about one frame. The same config and the same sequence of calls give the same verdicts.
 *
 * @param model      set up by fault_model_init; one caller at a time
 * @param now_ns     time in ns from any start, not decreasing
 * @param len_bytes  frame's length, 0..FAULT_LENGTH_MAX; 0 is never corrupted
 * @param verdict    set on return
 */
void fault_model_frame(struct fault_model *model, uint64_t now_ns, uint32_t len_bytes,
	struct fault_verdict *verdict);

/** Name of a cause for counters and logs, such as "loss"; "unknown" beyond the enum. */
const char *fault_cause_name(enum fault_cause cause);

/**
 * Read a config from text (fault_config.c; uses libc, not for the data path): `key=value` parts
 * separated by commas, each key at most once, spaces around a part ignored, "" = no faults.
 *
 *   loss, duplicate, corrupt   probability: 5%, 200ppm or 0.05
 *   burst                      probability x mean length: 0.1%x8
 *   reorder                    probability, optionally + span: 5% or 5%+50us
 *   delay, jitter              time: 10us; units ns, us, ms, s
 *   rate                       bit/s: 1G; units K, M, G, T = powers of 1000
 *   queue                      bytes: 64K; units K, M, G = powers of 1024; needs rate
 *   blackout                   dark time / period: 100ms/1s
 *   seed                       whole number, decimal or 0x...; default 1
 *
 * @param config      set only on success
 * @param text        NUL-terminated
 * @param error       on failure a sentence that names key, value and what is allowed
 * @param error_size  bytes of error
 * @return 0, or -EINVAL
 */
int fault_config_parse(struct fault_config *config, const char *text, char *error,
	size_t error_size);

#endif
