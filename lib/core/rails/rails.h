/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rails: the links by which a peer is reached, when there are several (ours; the paper has one).
 * Which of them the next frame takes, and which of them are dead. Sans-IO: frames sent and heard,
 * and the time, go in; a choice, and questions to be asked, come out. A struct rails is of one peer
 * and one lane; all functions run on that lane.
 *
 * Design notes
 * 1. A rail is suspected when nothing was heard on it for a while after something was sent. Then
 *    all rails are asked (WIRE_LINK frames), and the peer answers each question on the rail that it
 *    came by. A rail misses a round if another one has answered and it has not, in good time; so a
 *    peer that does not run for a while is not taken for a dead link. After MISSES rounds it is
 *    down, and from the first one on it is avoided. (PM's own rule, two timeouts of a flow, cannot
 *    tell which link lost the frames.)
 * 2. What is heard shows only that the other direction works, so while a peer is in use its rails
 *    are asked every CHECK in any case. So are those that are down: one answer brings them up.
 * 3. Frames go to one rail for a run of bytes, then to the next: frames that take turns more often
 *    would come out of order more often, which costs the receiver instructions. But of what may be
 *    in flight each rail is to have some runs, or it would idle while another one has its turn. So
 *    rails should be alike: they carry equal shares.
 */
#ifndef PMX_RAILS_H
#define PMX_RAILS_H

#include <stdbool.h>
#include <stdint.h>

#define RAILS_MAX 4

/* The settings of a node, which are the same for all its peers. */
struct rails_config {
	uint64_t ticks_per_us; /* of every `now` */
	bool spread;           /* frames go by all rails that work; otherwise by the first one */
};

struct rail {
	uint64_t sent_at; /* the first frame sent since anything was heard; 0 = none */
	uint8_t misses;   /* rounds in a row that it did not answer */
	bool down;
};

/* Rails are numbered as the node's links are. All zero but for `all` is a valid beginning: all
 * rails are up. */
struct rails {
	uint8_t all;    /* the peer's rails, a bit each; 0: it has none */
	uint8_t usable; /* rails that frames may take, a bit each; 0: not yet known, rails_usable */
	uint32_t run;   /* bytes of a rail's turn; 0: not yet known */
	uint8_t data;   /* rail of the last frame with a payload */
	int32_t left;   /* bytes of those until the next rail's turn */
	bool active;    /* the caller calls rails_step */
	bool used;      /* something was sent since the last check */
	/* the round of questions that is under way */
	bool asking;
	uint8_t answered;               /* rails, a bit each */
	uint32_t round;                 /* its number; the first one is the caller's to draw */
	uint64_t asked_at, answered_at; /* answered_at: the first one */
	uint64_t taken;                 /* by the last first answer */
	uint32_t patience_us;           /* without any answer, the next round comes after this */
	uint64_t check_at;
	struct rail rail[RAILS_MAX];
};

#define RAILS_STEP_US 1000 /* the interval of rails_step while an answer is waited for */

/* Return the rails that frames may take: those that are up and answer; if there are none, those
 * that are up; if there are none, all. */
uint32_t rails_usable(const struct rails *r);
/* Return the rails that are not down, a bit each. */
uint32_t rails_up(const struct rails *r);
/* Return the rail of the next frame with a payload. */
unsigned rails_choose(struct rails *r, const struct rails_config *c);
/* Return the rail of an answer to a frame that came by this rail, or by none (RAILS_MAX). It goes
 * the same way, so that the time from a frame to its Ack is one rail's. */
unsigned rails_answer(struct rails *r, unsigned rail);
/* Note that frames of so many bytes in all go by that rail. Return whether the caller is to call
 * rails_step from now on, and did not yet. */
static inline bool
rails_sent(struct rails *r, unsigned rail, uint32_t bytes, uint64_t now)
{
	const bool begins = !r->active;

	if (begins) {
		r->active = true;
		r->check_at = now;
	}
	if (r->rail[rail].sent_at == 0)
		r->rail[rail].sent_at = now;
	r->used = true;
	if (r->left > 0)
		r->left -= (int32_t)bytes;
	return begins;
}
/* Note that so many bytes may be in flight to the peer from now on; note 3. */
void rails_window(struct rails *r, uint32_t bytes);
/* Note that a frame of the peer came by this rail. */
static inline void
rails_heard(struct rails *r, unsigned rail)
{
	r->rail[rail].sent_at = 0;
}
/* Note that the answer to a question of that round came by this rail. Return whether that changed
 * which rails are up. */
bool rails_answered(struct rails *r, unsigned rail, uint32_t round, uint64_t now);
/* Return when rails_step is to be called next, if nothing is sent until then. */
uint64_t rails_deadline(const struct rails *r, const struct rails_config *c, uint64_t now);
/* Look at the rails of the peer. Return those to be asked now, a bit each, by questions numbered
 * r->round. *changed is set if another set of rails is up. To be called at rails_deadline while
 * `active`, which it clears when there is nothing to watch; and RAILS_STEP_US after something was
 * sent. */
uint32_t rails_step(struct rails *r, const struct rails_config *c, uint64_t now, bool *changed);

#endif
