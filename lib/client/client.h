/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libpmx keeps in the application's own memory. A context is used by one thread at a time; a
 * node is used only for opening and closing.
 */
#ifndef PMX_CLIENT_H
#define PMX_CLIENT_H

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/likely.h"
#include "channel/channel.h"
#include "client/dpdk.h"
#include "client/service.h"
#include "pmx/pmx.h"

#define NO_BUFFER UINT16_MAX /* send_note.next: the last buffer of the message */

struct node;

/* Sends one request, with the descriptor `give` unless it is -1, and waits for the reply. fds: two
 * descriptors of the reply, unchanged if it has none; may be NULL. */
typedef int (*attach_ask)(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds);

/* The way to reach a node: by a secondary, by a thin client, or in this process (embedded). */
struct way {
	int (*open)(struct pmx_context **out, struct pmx_node *node, uint16_t number,
		const struct pmx_context_params *params);
	void (*close)(struct pmx_context *ctx);
	/* Has the node map fd's memory, which is at addr in this process. Returns 0 and its number,
	 * or -errno. */
	int (*memory)(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched,
		uint32_t *number);
	void (*end)(struct pmx_node *node);
	uint16_t (*simd_bits)(void); /* SIMD width that lib/match/scan.c may use */
	/* Stops the context, parks it or lets it go on; *settled: it is stopped and nothing of it
	 * is on its way, or it is parked if that was asked. 0 or -errno. */
	int (*stop)(struct pmx_context *ctx, uint32_t drain_us, enum attach_stop what,
		bool *settled);
	unsigned (*poll)(struct pmx_node *node); /* embedded: runs a turn of its engine */
	uint64_t (*page)(const void *shm);       /* bytes of the pages that a channel is on */
	void (*forks)(void);                     /* before this process forks; or NULL */
	attach_ask ask;                          /* asks the primary; NULL: there is none */
	/* Lets the primary's memory go, once the node has left its channels; or NULL. */
	void (*let_go)(struct pmx_node *node);
};

struct pmx_node {
	const struct way *way;
	const struct client_service *const *services; /* services of its contexts */
	struct node *embedded;                        /* this process's own engine, or NULL */
	uint16_t number;
	uint32_t job, domain;           /* of contexts that are opened */
	struct pmx_context *contexts;   /* open ones, linked */
	_Atomic uint32_t context_count; /* how many */
	bool owns_eal;                  /* this library started the EAL */
	bool polls;             /* embedded by PMX_ATTACH: waiting and idle calls run the engine */
	int socket;             /* thin: connection to the primary */
	pthread_mutex_t asking; /* thin: held for a request and its reply */
	char instance[108];     /* name that was attached to, or the path of its primary's socket */
	uint32_t attachments;   /* how often a later primary was attached to */
	/* primary_end.c */
	pthread_mutex_t lock; /* protects the list of contexts, which the watcher walks */
	pthread_t watcher;
	int life, wake; /* the watcher's descriptors: life reports the primary's end, wake stops the
			 * watcher */
	short life_events;
	bool watched;
	bool let_go;           /* secondary: the primary's memory is not used any more */
	_Atomic bool gone;     /* the primary ended */
	bool foreign;          /* the node is that of this process's parent: fork.c */
	struct pmx_node *next; /* in the list of fork.c */
};

/* The results of the uses of a place that is used again and again, such as a send buffer. They are
 * known for all uses since the one before the last that failed. */
struct outcomes {
	uint64_t uses;         /* that have ended; an ID has the number of the one that it means */
	uint64_t failed;       /* `uses` after the last one that failed; 0: none has */
	uint8_t error, before; /* of that one, and of the one before it */
};

/* Return the error of the use that ended last. */
static inline uint8_t
outcome_last(const struct outcomes *o)
{
	return o->failed == o->uses ? o->error : 0;
}

static inline void
outcome_add(struct outcomes *o, uint8_t error)
{
	if (unlikely(error != 0)) {
		o->before = outcome_last(o);
		o->failed = o->uses + 1;
		o->error = error;
	}
	o->uses++;
}

/* Return how a use ended: 1, or the negative errno; 0: it has not ended; -EINVAL: there was no such
 * use yet; -ESTALE: a later one has failed, and what became of this one is not known any more. */
static inline int
outcome_of(const struct outcomes *o, uint64_t use)
{
	if (use >= o->uses)
		return use == o->uses ? 0 : -EINVAL;
	uint8_t error = use + 1 == o->failed ? o->error : use + 2 == o->failed ? o->before : 0;

	if (error != 0)
		return -(int)error;
	return use + 2 >= o->failed ? 1 : -ESTALE;
}

/* State of a send buffer, by number. */
struct send_note {
	struct outcomes ended;
	uint16_t next; /* next buffer of the same message, while it is being written; of one whose
			* event waits: the next of these */
	uint8_t told;  /* enum send_told */
};

/* Says of the last buffer of a message whether an event tells its end (told.c). */
enum send_told {
	SEND_UNTOLD,
	SEND_TELLS, /* it is under way */
	SEND_TOLD,  /* its event waits for pmx_poll_event(), and the buffer is in use until then */
};

#define PAIR_NONE UINT32_MAX

/* Messages that were not received before their channel ended; a ring and bulk follow the
 * structure. */
struct kept {
	struct kept *next;
};

/* In pmx_message.bulk, above the number: the life of the channel that the buffer belongs to, so
 * that a buffer of an earlier life is never given back. */
#define BULK_LIFE(life) ((0x7F & (life)) << 24)
#define BULK_LIFE_MASK  BULK_LIFE(0x7Fu)
#define BULK_KEPT       BULK_LIFE(0x40u) /* XORed with a life: a life that is not in use */
#define BULK_PLACE      BULK_LIFE(0u)    /* of no life: a place of plain.c */

/* Sizes that the next life of a channel must have as well. */
struct channel_sizes {
	uint32_t send_buffers, transfers, entries, entry_bytes, receives;
};
#define CHANNEL_SIZES(shm)                                                                         \
	(shm)->send_buffers, (shm)->transfers, (shm)->matched.entries, (shm)->matched.entry_bytes, \
		(shm)->receives

/* Plain messages past the engine: plain.c. */
struct client_aside {
	/* Send a message of this node, if there is a way past the engine to its receiver. Its bytes
	 * are at `data`, or in the buffers of `buf` if that is not NULL. Return 1: it is at its
	 * receiver; 0: it is to be sent by the engine; -EAGAIN: there is no room now; -EPIPE: the
	 * engine is gone. */
	int (*send)(struct pmx_context *ctx, struct pmx_addr to, const void *data,
		const struct pmx_buffer *buf, uint32_t len);
	/* Receive up to n messages. Return how many. */
	unsigned (*receive)(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n);
	/* Return whether messages past the engine were sent before `e`, the next entry of ctx->lhs,
	 * which came from this node, and are to be received before it. */
	bool (*precedes)(const struct pmx_context *ctx, const struct lhs_entry *e);
	/* Take `e`, the next entry of ctx->lhs, which came from this node, if it is a mark
	 * (pairs.h, note 1). Return whether it was one. */
	bool (*take_mark)(struct pmx_context *ctx, const struct lhs_entry *e);
	/* Give back the memory of a message that came past the engine; do nothing for others. */
	void (*give_back)(struct pmx_context *ctx, const struct pmx_message *msg);
};

struct pmx_context {
	struct channel_shm *shm;
	char name[CONTEXT_NAME_MAX]; /* for people */
	uint64_t bytes;              /* of the channel */
	uint64_t mapped; /* thin: bytes of the channel and the buffers behind it, for this process
			  * to unmap */
	struct slot_end sub, com;
	struct lhs_end lhs;
	uint32_t lhs_published; /* position that the engine was last told */
	uint32_t lhs_publish;   /* tell it after so many entries */
	_Atomic int64_t *send_off;
	struct send_note *notes; /* array of send_buffers */
	uint16_t *free;          /* stack of free buffers */
	uint32_t free_count;
	struct told *told;   /* what their events tell, array of send_buffers; NULL: never any */
	uint32_t tells;      /* messages that are SEND_TELLS */
	uint32_t told_count; /* ... SEND_TOLD: a list by send_note.next */
	uint16_t told_first, told_last;
	uint32_t watches;     /* places of channel_shm.watched in use */
	uint64_t *watch_seen; /* the words of channel_shm.watch that events have told; NULL: never
			       * any */
	uint32_t send_buffers, frag_len, max_message;
	uint32_t one_max; /* longest message in one buffer */
	/* messages that may be under way inline, how many more may, and what channel_shm's
	 * inline_done and inline_failed were when last looked at */
	uint32_t inline_sends, inline_left, inline_done, inline_failed;
	uint32_t *release; /* bulk buffers to give back, gathered: array of release_room */
	uint32_t release_count, release_room;
	uint32_t release_most; /* so many are given back at once */
	uint32_t life;         /* BULK_LIFE() of the channel, from 1 on */
	struct channel_sizes sizes;
	uint32_t receive_buffers; /* as it was opened */
	uint32_t lives;           /* times it was opened */
	bool adrift;              /* its primary is gone, and the context has left the channel */
	uint32_t left;            /* node->attachments when it left */
	bool unread;              /* lhs is the ring of kept messages; next_lhs follows it */
	bool pairs_turn;          /* messages of pairs come next, though some are in lhs */
	struct lhs_end next_lhs;
	struct kept *kept;
	void *past; /* mapping of the previous life: messages in it may still be read */
	uint64_t past_bytes;
	bool engine_may_sleep, selects;
	bool armed;            /* between pmx_before_select and pmx_after_select */
	uint32_t rung;         /* positions at the last ctx_ring_before_sleep */
	bool yields;           /* polls that find nothing give the CPU away */
	enum pmx_idle idle;    /* as it was opened */
	uint32_t open_wait_us; /* as it was opened */
	struct pmx_context_stat stat;
	uint32_t unfinished;    /* what services still have to submit, when there is room for it */
	uint32_t tracked;       /* requests that wait for an Ack */
	bool news;              /* requests ended since the last pmx_before_select */
	struct client_rma *rma; /* remote memory; NULL until it is opened */
	struct match *match;    /* matched messages; NULL until they are first used */
	struct pairs *pairs;    /* memory shared with other contexts; NULL: never any */
	const struct client_aside *aside; /* to be called only if pairs is not NULL */
	struct plain *plain;              /* messages that came past the engine; NULL: none yet */
	struct client_groups *groups;     /* NULL: it never was in any */
	struct client_colls *colls;       /* NULL: it has begun none */
	uint32_t pair_node; /* the node whose contexts it may be shared with, or PAIR_NONE */
	uint32_t near_node; /* the same if it is shared with any */
	/* called when the transfer of a request has ended */
	void (*request_ended)(struct pmx_context *ctx, uint32_t request, uint8_t error);
	struct pmx_node *node;
	struct pmx_context *next;
	uint32_t generation;
	uint16_t ctx;
	int event_fd; /* epoll of the eventfd that the engine signals (context_bell) */
	int doorbell; /* -1: its engine runs in this process */
	int alarm;    /* readable eventfd in that epoll once the primary is gone; -1: none */
};

/* Return whether the engine is gone, or has ended this context. */
static inline bool
ctx_gone(const struct pmx_context *ctx)
{
	return atomic_load_explicit(&ctx->shm->state, memory_order_relaxed) != CHANNEL_OPEN;
}

/* send.c: the ID that a message will have. */
pmx_send_id ctx_send_id(const struct pmx_context *ctx, const struct pmx_buffer *buf);

/* Ring the engine's doorbell if it sleeps, or, with `naps`, if it naps. */
static inline void
ctx_ring(struct pmx_context *ctx, bool naps)
{
	uint64_t one = 1;

	if (!ctx->engine_may_sleep)
		return;
	/* full fence: the slot must be visible before the flag is read; pairs with
	 * engine_sleep's */
	atomic_thread_fence(memory_order_seq_cst);
	const uint32_t sleeps = atomic_load_explicit(&ctx->shm->engine_sleeps,
		memory_order_relaxed);

	if ((sleeps == ENGINE_SLEEPS || (naps && sleeps == ENGINE_NAPS)) &&
		write(ctx->doorbell, &one, sizeof(one)) < 0 && errno == EBADF)
		ctx->engine_may_sleep = false;
	STEP();
}

/* Wake the engine if it sleeps. This is to be called after something was submitted. */
static inline void
ctx_doorbell(struct pmx_context *ctx)
{
	ctx_ring(ctx, false);
}

/* Wake the engine, also from a nap, if something was submitted or read since the last such call.
 * This is to be called before the client sleeps. */
static inline void
ctx_ring_before_sleep(struct pmx_context *ctx)
{
	const uint32_t moved = ctx->sub.pos + ctx->lhs_published;

	if (moved == ctx->rung)
		return;
	ctx->rung = moved;
	ctx_ring(ctx, true);
}

/* context.c: makes the private side of an opened channel. Takes the descriptors over, even if it
 * fails. 0, or -ENOMEM. */
int ctx_make(struct pmx_context **out, struct pmx_node *node,
	const struct pmx_context_params *params, struct channel_shm *shm, int event_fd,
	int doorbell) DPDK_PART(ctx_make);
void ctx_free(struct pmx_context *ctx);
/* Return the idle policy of polls, by the parameters or else the environment: enum pmx_idle, or
 * -EINVAL. */
int ctx_idle_policy(const struct pmx_context_params *params);
/* Let services go on after completions. */
void ctx_services_progress(struct pmx_context *ctx);
/* Return whether something has landed for a service. */
bool ctx_services_landed(struct pmx_context *ctx);
/* Take the next event of a service. Return false if there is none. */
bool ctx_services_event(struct pmx_context *ctx, struct pmx_event *event);
/* Submit the gathered bulk buffers to the engine, as many as the ring has room for. */
void ctx_flush_releases(struct pmx_context *ctx);
/* Switch receiving from kept messages to the channel's own ring. */
static inline void
ctx_take_ring(struct pmx_context *ctx)
{
	ctx->unread = false;
	ctx->lhs = ctx->next_lhs;
	ctx->lhs_published = 0;
	ctx->lhs_publish = ctx->shm->lhs_room / 8 ? ctx->shm->lhs_room / 8 : 1;
}

void ctx_completions(struct pmx_context *ctx);
/* Do one step of waiting: run the embedded engine, or yield the CPU. */
void ctx_wait(struct pmx_context *ctx);
/* Return what pmx_is_send_done() returns, by the completions taken so far. */
int ctx_send_result(const struct pmx_context *ctx, pmx_send_id id);
/* Do what is due while there is nothing to receive. Return 0, or -EPIPE if the engine is gone. */
int ctx_idle(struct pmx_context *ctx);
/* yield.c: give the CPU to others from within a call that waits: by a yield, or by a short sleep
 * where one takes too long (base/contended.h). It takes nothing from the rings. */
void ctx_pause(struct pmx_context *ctx);
/* Do so in a call of the application that found nothing, if the context's policy says so: the sleep
 * ends when something comes. */
void ctx_step_aside(struct pmx_context *ctx);
/* Note that this thread has found what it polled for. */
void ctx_not_idle(void);
/* Count a poll of the application that found nothing: ctx_step_aside(), at once if others run, or
 * now and then. */
void ctx_yield(struct pmx_context *ctx);
/* select.c: sleep until something comes, for so many microseconds (below a second) at most. The
 * descriptor is not armed. */
void ctx_nap(struct pmx_context *ctx, unsigned us);
/* Wait as ctx_wait() does, but sleep if that is possible, at most until `deadline`
 * (base/clock.h). */
void ctx_sleep(struct pmx_context *ctx, int64_t deadline);
/* A call that waits: {0} at first. */
struct waiting {
	int64_t deadline, spin_until;
	bool of_sends; /* for what was sent, or transferred */
};
/* Do one turn of a call that waits: wait a short time awake, then asleep. Return false if
 * timeout_us (-1: for ever) have passed since the first turn. */
bool ctx_wait_turn(struct pmx_context *ctx, struct waiting *w, int64_t timeout_us);
/* Give the bulk buffers of a received message back. */
void ctx_release(struct pmx_context *ctx, uint32_t bulk);
/* Send a matched message: its head (two words in wire format) and len bytes, which must fit one
 * buffer. Return 0, or errors of pmx_send_copy(). */
int ctx_send_short(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[2],
	const void *data, uint32_t len);
/* Send a matched message with an immediate: as ctx_send_short() does, but with a head of three
 * words. */
int ctx_send_immediate(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[3],
	const void *data, uint32_t len);
/* Copy all bytes of a send buffer to `to`. */
void ctx_buffer_read(const struct pmx_context *ctx, const struct pmx_buffer *buf, uint8_t *to);
/* Send a message by the engine, whatever pairs there are. op: SUBMIT_SEND or SUBMIT_MATCHED. As
 * pmx_send(), but the buffer stays as it is. */
int ctx_submit(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	uint8_t op, pmx_send_id *id);
/* Give the message that pmx_receive() would return, without taking it. Return false if there is
 * none. */
bool ctx_peek(struct pmx_context *ctx, struct pmx_message *msg);
/* End the sends that are not completed, with the error ECONNRESET. */
void ctx_reset_sends(struct pmx_context *ctx);
/* Continue the context in another channel. Return 0; -EPROTO if its sizes differ, and nothing has
 * changed; -ENOMEM, or an error of a service. */
int ctx_rejoin(struct pmx_context *ctx, struct channel_shm *shm, uint64_t mapped, int event_fd,
	int doorbell);
/* pages.c */
#define PAGES_HUGE      (2ull << 20)
#define PAGES_ALLOCATED "pmx" /* name of the memfd, as /proc shows it */
/* Make a memfd of at least *len bytes, write its length to *len, and map it at *addr. Return its
 * descriptor, or -errno. Huge pages are promised when they are mapped, others are not. */
int pages_reserve(const char *name, uint64_t *len, void **addr, bool huge);
/* Do the same, and have all pages there. */
int pages_make(const char *name, uint64_t *len, void **addr, bool huge);
/* Make such a memfd as pages_make() does, with hugepages if it fills at least half of one, and some
 * are free. */
int pages_alloc(uint64_t *len, void **addr);
/* attach.c: requests to a primary, over any connection */
/* Ask whether a primary is there. Return 0, with the node's number set and the primary's process in
 * *pid, which may be NULL; or -errno. */
int attach_hello(struct pmx_node *node, attach_ask ask, int *pid) DPDK_PART(attach_hello);
void attach_close(struct pmx_context *ctx) DPDK_PART(attach_close);
/* Close a context that was opened but is of no use. */
void attach_give_back(struct pmx_node *node, attach_ask ask, const struct attach_reply *opened)
	DPDK_PART(attach_give_back);
int attach_memory(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched,
	uint32_t *number) DPDK_PART(attach_memory);
struct attach_request attach_open_request(const struct pmx_node *node, uint16_t number,
	const struct pmx_context_params *params) DPDK_PART(attach_open_request);
int attach_preempt(struct pmx_context *ctx, uint32_t drain_us, enum attach_stop what, bool *settled)
	DPDK_PART(attach_preempt);
/* PMX_JOB; 0: there is none */
uint32_t attach_job(void);
/* thin.c: attaches to the primary of that name. 0, or -errno; -ENOENT: there is none for this
 * user. */
int way_thin_attach(struct pmx_node *node, const char *instance);
/* Connect to the socket at path. Return the descriptor; -ENOENT: nobody listens there, -EACCES, or
 * another -errno. */
int way_thin_connect(const char *path) DPDK_PART(way_thin_connect);
int way_thin_ask(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds) DPDK_PART(way_thin_ask);
/* Open the context again at the next primary. Return 0, or errors of pmx_context_open(). */
int way_thin_rejoin(struct pmx_context *ctx);
/* primary_end.c: starts the thread that watches fd, on which `events` are reported when the primary
 * ends. 0 or -errno. life_end() stops it. */
int life_begin(struct pmx_node *node, int fd, short events) DPDK_PART(life_begin);
void life_end(struct pmx_node *node) DPDK_PART(life_end);
/* Return whether the primary has ended; that thread may not have noticed yet. */
bool life_is_over(const struct pmx_node *node);
extern const struct way way_thin;

/* available.c: bytes that this process can fill without being killed for it; UINT64_MAX: no limit
 * is known. */
uint64_t available_memory(void);

/* fork.c: a node of this process, until fork_drops(). */
void fork_adds(struct pmx_node *node);
void fork_drops(const struct pmx_node *node);

#endif
