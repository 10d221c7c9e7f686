/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libpmx keeps in the application's own memory. A context belongs to one thread at a time;
 * a node is touched only by opening and closing.
 */
#ifndef PMX_CLIENT_H
#define PMX_CLIENT_H

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "channel/channel.h"
#include "client/service.h"
#include "pmx/pmx.h"
#include "rma/part.h"
#include "client/pin_cache.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Kept out of line, so that the common way before it saves no registers for it. */
#define APART     __attribute__((noinline))
#define NO_BUFFER UINT16_MAX /* send_note.next: the message's last */

struct node;

/* How a node is reached: as a secondary, thin, or embedded. */
struct way {
	int (*open)(struct pmx_context **out, struct pmx_node *node,
		const struct pmx_context_params *params);
	void (*close)(struct pmx_context *ctx);
	/* The node maps fd's memory, which is at addr here: its number, or what went wrong. */
	int (*memory)(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched,
		uint32_t *number);
	void (*end)(struct pmx_node *node);
	uint16_t (*simd_bits)(void);             /* what searches may use: lib/match/scan.c */
	unsigned (*poll)(struct pmx_node *node); /* embedded: a turn of its engine */
};

struct pmx_node {
	const struct way *way;
	const struct client_service *const *services; /* of its contexts */
	struct node *embedded;                        /* this process's own engine, or NULL */
	uint16_t number;
	struct pmx_context *contexts;   /* open ones, linked */
	_Atomic uint32_t context_count; /* how many */
	bool owns_eal;                  /* we started the EAL */
	bool polls;             /* embedded by PMX_ATTACH: waiting and idle calls run the engine */
	int socket;             /* thin: to the primary */
	pthread_mutex_t asking; /* ... a question and its answer */
	char instance[108];     /* as it was attached to, or where its primary listens */
	uint32_t attachments;   /* to primaries that followed the first */
	/* life.c */
	pthread_mutex_t lock; /* of the list of contexts, which the watcher walks */
	pthread_t watcher;
	int life, wake; /* its descriptors: ends with the primary; end it */
	short life_events;
	bool watched;
	bool let_go;       /* secondary: maps nothing of its primary's any more */
	_Atomic bool gone; /* the primary ended */
};

/* What is known of a send buffer, by number. */
struct send_note {
	uint32_t uses;  /* completions so far */
	uint16_t next;  /* of the same message while being written */
	uint8_t error;  /* of the last completion */
	uint8_t before; /* of the one before it */
};

/* Memory of pmx_alloc. */
struct piece {
	uint8_t *addr; /* NULL: the place is free */
	uint64_t len;
	int watched; /* adopted memory: index of shm->revoked; otherwise -1 */
};

/* Where a transfer of the application stands; note_becomes() in transfer.c is the one that changes
 * it. */
enum note_state {
	NOTE_FREE,      /* the place is nobody's */
	NOTE_HELD,      /* it shall be ordered and has not begun: kind */
	NOTE_PACKS,     /* a push: the library has frames of it to submit */
	NOTE_ASKS,      /* a pull by a long bitmap: the library has questions of it to submit */
	NOTE_SUBMITTED, /* the engine has all of it */
	NOTE_ENDED,     /* its event waits for pmx_event */
};

/* What is known of a transfer, by place. */
struct transfer_note {
	uint32_t uses;         /* transfers that ended here so far */
	uint8_t error, before; /* of the last, and of the one before it */
	uint8_t state;         /* enum note_state */
	uint8_t kind;          /* HELD: enum transfer_kind */
	uint64_t age;          /* order of the calls */
	uint16_t parent;       /* this is a part of the transfer at that place, or NO_PLACE */
	uint16_t left;         /* parts that did not end */
	uint8_t first_error;   /* of its parts */
	uint32_t pin;          /* of the local memory, or PIN_NONE */
	void *home;            /* t.local is a bounce buffer: where the bytes go in the end, NULL:
				* nowhere */
	bool bounced;
	volatile int32_t *status; /* for the library to write, or NULL */
	uint64_t cookie;
	uint32_t request; /* that it belongs to, or NO_REQUEST */
	struct pmx_transfer t;
	struct part_iterator it; /* HELD, PACKS: in parts */
	struct part_run run;
	uint64_t at; /* ASKS: units asked for */
};
#define NO_PLACE   UINT16_MAX
#define NO_REQUEST UINT32_MAX

/* A registration of memory that pmx_alloc did not give. */
struct registration {
	struct registration *next;
	uint64_t key;
	int watched;
};

/* Messages of a channel that ended before they were received; a ring and bulk follow. */
struct kept {
	struct kept *next;
};

/* In pmx_message.bulk, above the number: whose life it is of, so that a buffer of an earlier one is
 * nobody's to give back. */
#define BULK_LIFE(life) ((0x7F & (life)) << 24)
#define BULK_LIFE_MASK  BULK_LIFE(0x7Fu)
#define BULK_KEPT       BULK_LIFE(0x40u) /* ^ a life: of none that is near */

/* What a channel's next life must have as well. */
struct channel_sizes {
	uint32_t send_buffers, transfers, entries, entry_bytes, receives;
};
#define CHANNEL_SIZES(shm)                                                                         \
	(shm)->send_buffers, (shm)->transfers, (shm)->matched.entries, (shm)->matched.entry_bytes, \
		(shm)->receives

#define BOUNCES_MAX 16

/* Memory that both sides map, in the place of the application's. */
struct bounce {
	void *at; /* NULL: none yet */
	uint64_t len;
	bool used;
};

struct pmx_context {
	struct channel_shm *shm;
	uint64_t mapped; /* thin: bytes of it and of the buffers behind it, this process's
			  * to unmap */
	struct slot_end sub, com;
	struct lhs_end lhs;
	uint32_t lhs_published; /* position last told to the engine */
	uint32_t lhs_publish;   /* tell it after this many */
	_Atomic int64_t *send_off;
	struct send_note *notes; /* send_buffers of them */
	uint16_t *free;          /* stack of free buffers */
	uint32_t free_count;
	uint32_t send_buffers, frag_len, max_message;
	uint32_t one_max;  /* longest message of one buffer */
	uint32_t *release; /* bulk to give back, gathered: release_room of them */
	uint32_t release_count, release_room;
	uint32_t release_most; /* these go in one submission */
	uint32_t life;         /* BULK_LIFE of the channel */
	struct channel_sizes sizes;
	uint32_t receive_buffers; /* as opened */
	uint32_t lives;           /* times it was opened again */
	bool adrift;              /* its primary is gone, and it has left the channel */
	uint32_t left;            /* ... of that attachment of its node */
	bool unread;              /* lhs is the ring of what was kept; then comes next_lhs */
	struct lhs_end next_lhs;
	struct kept *kept;
	void *past; /* mapping of the life before: messages in it may still be read */
	uint64_t past_bytes;
	bool engine_may_sleep, selects;
	bool yields;        /* polls that find nothing give the CPU away */
	enum pmx_idle idle; /* as it was opened */
	struct pmx_context_stat stat;
	/* remote memory */
	struct transfer_note *transfers; /* shm->transfers of them */
	uint16_t *places;                /* stack of free ones */
	uint32_t places_free, transfer_count;
	uint64_t transfer_age;
	uint32_t unfinished;       /* how many are HELD, PACKS or ASKS */
	uint32_t events_waiting;   /* own transfers that ended and were not told of */
	uint32_t requested;        /* places of transfers that belong to requests */
	uint32_t tracked;          /* requests that wait for an Ack */
	bool news;                 /* requests ended since the last pmx_before_select */
	uint32_t transfer_payload; /* most bytes of a frame */
	struct slot_end events;
	struct event_slot *kept_events; /* of the life before */
	uint32_t kept_events_head, kept_events_tail;
	bool no_kernel; /* the engine reaches only memory that it has mapped */
	struct bounce bounces[BOUNCES_MAX];
	struct piece pieces[MEMORIES_MAX];   /* by the engine's number */
	struct piece unshared[MEMORIES_MAX]; /* what the engine of this attachment did not map */
	uint32_t pieces_used;                /* one past the highest */
	bool sweep;                          /* some adopted one is gone */
	struct registration *registrations;
	uint32_t ticket; /* of the last registration */
	struct {
		bool here;
		uint32_t ticket, error;
		uint64_t key;
	} answer;
	struct match *match; /* matched messages; NULL until the first */
	/* the transfer of a request ended */
	void (*request_ended)(struct pmx_context *ctx, uint32_t request, uint8_t error);
	struct pmx_node *node;
	struct pmx_context *next;
	uint32_t generation;
	uint16_t ctx;
	int event_fd; /* epoll of what the engine signals (context_bell) */
	int doorbell; /* -1: its engine runs in this process */
	int alarm;    /* readable eventfd in that epoll, once the primary is gone; -1 */
};

/* Its engine is not there, or ended it. */
static inline bool
ctx_gone(const struct pmx_context *ctx)
{
	return atomic_load_explicit(&ctx->shm->state, memory_order_relaxed) != CHANNEL_OPEN;
}

/* Something was submitted: an engine that sleeps is woken. */
static inline void
ctx_doorbell(struct pmx_context *ctx)
{
	uint64_t one = 1;

	if (!ctx->engine_may_sleep)
		return;
	/* full fence: our slot before the flag; pairs with engine_sleep's */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&ctx->shm->engine_sleeps, memory_order_relaxed) &&
		write(ctx->doorbell, &one, sizeof(one)) < 0 && errno == EBADF)
		ctx->engine_may_sleep = false;
	STEP();
}

/* context.c: the private side of an opened channel. The descriptors are the context's from now on,
 * whatever comes of it. */
int ctx_make(struct pmx_context **out, struct pmx_node *node,
	const struct pmx_context_params *params, struct channel_shm *shm, int event_fd,
	int doorbell);
void ctx_free(struct pmx_context *ctx);
/* What the application and its user want polls to do: enum pmx_idle, or -EINVAL. */
int ctx_idle_policy(const struct pmx_context_params *params);
/* What services do with completions, and whether something has landed for one. */
void ctx_services_progress(struct pmx_context *ctx);
bool ctx_services_landed(struct pmx_context *ctx);
/* Buffers given back go to the engine, as many as the ring has room for. */
void ctx_flush_releases(struct pmx_context *ctx);
/* Receive from the channel's own ring. */
void ctx_take_ring(struct pmx_context *ctx);
void ctx_completions(struct pmx_context *ctx);
/* One step of waiting, of at most left_us: runs the embedded engine, or gives the CPU away. */
void ctx_wait(struct pmx_context *ctx);
int64_t ctx_now_us(void);
/* As pmx_is_send_done, of the completions taken so far. */
int ctx_send_result(const struct pmx_context *ctx, pmx_send_id id);
/* What is to be done while nothing is there to receive. 0, -EPIPE. */
int ctx_idle(struct pmx_context *ctx);
/* A poll of the application found nothing: the CPU goes to others, by the context's policy. */
void ctx_yield(struct pmx_context *ctx);
/* As ctx_wait, but sleeps if it can. */
void ctx_sleep(struct pmx_context *ctx, int64_t left_us);
/* Bulk buffers of a received message go back. */
void ctx_release(struct pmx_context *ctx, uint32_t bulk);
/* One matched message of a head (two words, as they travel) and len bytes, which fit one buffer.
 * Errors of pmx_send_copy. */
int ctx_send_short(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[2],
	const void *data, uint32_t len);
int ctx_send_matched(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	pmx_send_id *id);
/* The next message that pmx_receive would give, which stays. */
bool ctx_peek(struct pmx_context *ctx, struct pmx_message *msg);
/* Sends that did not complete end with ECONNRESET. */
void ctx_reset_sends(struct pmx_context *ctx);
/* The context goes on in another channel, of the same sizes. 0, -EPROTO: they are not. */
int ctx_rejoin(struct pmx_context *ctx, struct channel_shm *shm, uint64_t mapped, int event_fd,
	int doorbell);
/* part.c */
void layout_part(const struct pmx_part *from, const void *local, uint64_t len, struct part *p);
/* transfer.c */
/* A transfer for a request: kind, the other side, the id of its offer. 0, and the transfer's id;
 * -EAGAIN, or what is wrong with the local memory. */
int transfers_request(struct pmx_context *ctx, uint8_t kind, const struct pmx_transfer *t,
	uint32_t request, uint32_t *id);
/* memory.c */
/* Where [addr, addr + len) lies: a piece's number, MEMORY_COPIED, or -EFAULT: half in one. */
int64_t piece_of(struct pmx_context *ctx, const void *addr, uint64_t len);
/* Tell the engine of adopted memory that is gone, when piece_of found some. */
void pieces_sweep(struct pmx_context *ctx);
/* Memory of pmx_alloc that no engine maps goes. */
void piece_unmap(struct pmx_context *ctx, const void *addr);
/* bounce.c: len bytes that the engine reaches. 0, -EAGAIN: all are in use; errors of pmx_alloc */
int bounce_get(struct pmx_context *ctx, uint64_t len, void **at);
void bounce_put(struct pmx_context *ctx, const void *at);
/* None is in use, and no engine has them. */
void bounces_leave(struct pmx_context *ctx);
/* pins.c: the pin-down cache of this process */
int pins_get(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t *ref);
void pins_put(uint32_t ref);
void pins_stat(struct pin_cache_stat *stat);
/* Watch what is registered of memory that pmx_alloc did not give: its number, for shm->revoked; or
 * -ENOSPC. ref: that keeps it pinned, from here on the watch's to put; PIN_NONE. */
int pins_watch(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t ref);
void pins_unwatch(struct pmx_context *ctx, int place);
/* Have the kernel tell of pages that are not pinned: 0, -EOPNOTSUPP. */
int pins_tell(struct pmx_context *ctx, const void *addr, uint64_t len);
/* The kernel tells now, or it did: what watched memory became is known. */
void pins_settle(void);
/* Pages of a new memfd of at least *len bytes, sealed at the size that *len becomes, mapped at
 * *addr: its descriptor, -errno. */
int piece_pages(uint64_t *len, void **addr);
/* attach.c: questions to a primary, over whatever reaches it */
/* One question, with a descriptor or -1. fds: two descriptors of the reply, or -1; may be NULL. */
typedef int (*attach_ask)(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds);
/* Is somebody there? 0, and the node's number; *pid: the primary's, may be NULL. */
int attach_hello(struct pmx_node *node, attach_ask ask, int *pid);
void attach_close(struct pmx_context *ctx, attach_ask ask);
/* What was opened, and is of no use. */
void attach_give_back(struct pmx_node *node, attach_ask ask, const struct attach_reply *opened);
int attach_memory(struct pmx_context *ctx, attach_ask ask, int fd, void *addr, uint64_t len,
	int watched, uint32_t *number);
struct attach_request attach_open_request(const struct pmx_context_params *params);
/* secondary.c, thin.c: attach to the primary of that name. -ENOENT: there is none for this user. */
int secondary_attach(struct pmx_node *node, const char *instance, int cpu);
int way_thin_attach(struct pmx_node *node, const char *instance);
/* A connection to the socket at path: its descriptor, -ENOENT: nobody listens there, -EACCES. */
int way_thin_connect(const char *path);
int way_thin_ask(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds);
/* The context is opened again. 0, or errors of pmx_context_open. */
int way_thin_rejoin(struct pmx_context *ctx);
/* A node that is attached so has left its channels; with the last one of this process the primary's
 * memory is mapped no more. Others: nothing. */
void secondary_let_go(struct pmx_node *node);
/* life.c: watch fd, whose events come when the primary ends. 0 or -errno. */
int life_begin(struct pmx_node *node, int fd, short events);
void life_end(struct pmx_node *node);
extern const struct way way_thin;

#endif
