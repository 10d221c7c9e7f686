/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The libfabric provider "pmx" (PM-MPI): what its files share. It stands on include/pmx/pmx.h and
 * libfabric's public headers alone. Terms are libfabric's: fi_intro(7), fi_provider(7).
 *
 * Design notes
 * 1. A domain is an attachment to one primary, an endpoint is one context, and all messages are
 *    matched messages. Their communicator is the receiving endpoint's incarnation, a random number,
 *    and whether they are tagged. So what is sent to an endpoint that has ended cannot be received
 *    by another one that has got its context number.
 * 2. Nothing runs by itself (manual progress): reading a completion queue or a counter polls the
 *    endpoints that are bound to it. If automatic progress was asked for, a thread of the domain
 *    does so as well (automatic.c).
 * 3. Posting does not fail because places, buffers or ring slots are used up: what libpmx cannot
 *    take now waits in the endpoint, in order, and is begun by its progress.
 * 4. Threads: with FI_THREAD_DOMAIN nothing is locked; otherwise every call on a domain and its
 *    objects takes the domain's lock.
 */
#ifndef OFI_PROVIDER_H
#define OFI_PROVIDER_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <sys/uio.h>

#include <pmx/pmx.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define OFI_VERSION        FI_VERSION(0, 1)
#define OFI_ADDRESS_FORMAT (1u << 31 | 0x706D78u) /* of this provider alone: struct address */
#define OFI_IOV_MAX        8
#define OFI_INJECT_MAX     4096u /* bytes */
#define OFI_MESSAGE_MAX    ((size_t)1 << 40)
#define OFI_QUEUE          4096  /* what sizes of queues say; they have no limit */
#define OFI_ATOMIC_MAX     1024u /* bytes */
#define OFI_FEW            32
#define OFI_CONTEXTS       1024 /* most that a node can have */
#define OFI_THIS_NODE      0xFFFF
/* FI_MR_BASIC, FI_MR_SCALABLE: libfabric 2 warns of these names */
#define OFI_MR_BASIC       (1 << 0)
#define OFI_MR_SCALABLE    (1 << 1)

#define OFI_INCARNATION_MAX ((1u << 30) - 1)
#define OFI_UNNAMED         OFI_INCARNATION_MAX /* in communicators: not known */
/* cookies of what is no operation's */
#define OFI_COOKIE_NONE     0 /* its end is not told */
#define OFI_COOKIE_GO       1 /* asks for what was promised */
/* label of a promise, with its number: the promised message has completion data */
#define OFI_LABEL_DATA      0x8000u

extern struct fi_provider ofi_provider;

#define OFI_WARN(subsystem, ...) FI_WARN(&ofi_provider, FI_LOG_##subsystem, __VA_ARGS__)

/* ------------------------------------------------------------------ objects */

/* The address by which others name an endpoint: see fi_getname(). All fields are in the host's byte
 * order, which is the same on all nodes of a cluster. */
struct address {
	uint16_t node, context; /* node 0xFFFF: this one */
	uint32_t incarnation;   /* 1..OFI_INCARNATION_MAX - 1; 0: whichever is open (names.c) */
	uint64_t zero;
};

struct fabric {
	struct fid_fabric fid;
	atomic_int users;
};

struct endpoint;

/* The endpoints that report to a queue or counter, each once. */
struct reporters {
	struct endpoint **list;
	unsigned count;
};

struct domain {
	struct fid_domain fid;
	struct fabric *fabric;
	struct pmx_node *node;
	bool embedded; /* the engine runs in calls of this process only */
	struct {
		unsigned posts;        /* since the last progress */
		int64_t ran_ns, at_ns; /* how long it ran last for a post, and until when */
	} engine;                      /* ... see domain_run() */
	bool locks;                    /* design note 4 */
	int process_of[1024];          /* by context of this node, see direct.c; 0: not asked yet */
	uint32_t life_of[1024];        /* ... and the incarnation that it was asked about */
	uint32_t apart[1024];          /* incarnation that cannot read this process's memory */
	bool by_address, own_keys;     /* FI_MR_VIRT_ADDR; FI_MR_PROV_KEY */
	char instance[32];             /* name of the primary */
	struct reporters enabled;      /* all endpoints that are */
	struct {
		bool on;
		bool ends;   /* it is to end */
		bool sleeps; /* on the endpoints' descriptors, which it has armed */
		bool called; /* the application has called since its last turn */
		int wake_fd;
		struct pollfd *fds;
		pthread_t thread;
	} automatic;              /* automatic.c */
	void *regions;            /* of <search.h>: struct mr, by key */
	struct reporters targets; /* endpoints by which others reach them */
	pthread_mutex_t lock;
	atomic_int users;
};

struct av_entry {
	struct pmx_addr to;
	bool by_number; /* it was inserted without an incarnation */
	uint32_t comm;  /* of untagged messages, or COMM_UNNAMED; 0: the entry is not in use */
};

struct av {
	struct fid_av fid;
	struct domain *domain;
	struct av_entry *entries; /* by fi_addr_t */
	uint32_t count, room;
	uint32_t *by_source;   /* hash table of numbers of entries + 1, 0: empty */
	uint32_t sources_mask; /* its places - 1, a power of two - 1 */
	uint32_t sources;      /* places that are in use */
	atomic_int users;
};

/* A completion, or an error if err is not 0. */
struct ofi_completion {
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	size_t olen;
	int err, prov_errno;
};

struct cq {
	struct fid_cq fid;
	struct domain *domain;
	size_t entry_bytes; /* of its format */
	struct ofi_completion *ring;
	uint32_t head, tail, mask; /* positions grow for ever; mask + 1 completions have room */
	struct reporters endpoints;
	enum fi_wait_obj wait;
	int wait_fd;   /* epoll of the endpoints' descriptors and of `signal`, or -1 */
	int signal_fd; /* eventfd */
	int ready_fd;  /* with automatic progress: eventfd, readable if `ready`, since there are
			* completions */
	bool ready;
	atomic_int users;
};

struct cntr {
	struct fid_cntr fid;
	struct domain *domain;
	_Atomic(uint64_t) value, errors;
	struct reporters endpoints;
	bool of_regions; /* it was bound to one: all of domain.targets report to it */
	atomic_int users;
};

/* Memory that others may access. */
struct mr {
	struct fid_mr fid; /* fid.key: by which others name it */
	struct domain *domain;
	uint8_t *base;
	size_t len;
	uint64_t access; /* FI_REMOTE_READ, FI_REMOTE_WRITE; 0: it is for local use alone */
	uint32_t users;  /* transfers of others that read or write it just now */
	struct cntr *written, *read; /* FI_RMA_EVENT: of others' transfers */
};

enum rma_kind {
	RMA_WRITE = 1,  /* the bytes follow */
	RMA_WRITE_BULK, /* the bytes come as a message of their own */
	RMA_READ,       /* the bytes come with the answer */
	RMA_READ_BULK,  /* ... as a message of their own */
	RMA_ATOMIC,     /* the operands follow, then what they are compared with */
	RMA_FETCH,      /* ... and the answer has what was there before */
	RMA_ANSWER,     /* to the initiator: it has ended; what it asked for follows */
	RMA_KINDS
};

/* The head with which a message about remote memory begins, in the host's byte order as addresses
 * are. */
struct rma_head {
	uint8_t kind;         /* enum rma_kind */
	uint8_t with_data;    /* WRITE: the target gets a completion with `data` */
	uint8_t type, atomic; /* ATOMIC, FETCH: enum fi_datatype, enum fi_op */
	uint32_t id;          /* the initiator's number of it */
	uint32_t incarnation; /* the initiator's */
	int32_t error;        /* ANSWER: 0 or a positive errno */
	uint64_t key, at;     /* of the target's memory: fi_mr_key(); offset or address */
	uint64_t len;         /* bytes of it */
	uint64_t data;
};

/* An operation that has not ended. */
struct ofi_op {
	struct ofi_op *next; /* in the endpoint's list: free, or waiting to begin */
	void *context;       /* the caller's */
	uint64_t flags;      /* of its completion: FI_SEND or FI_RECV, FI_MSG or FI_TAGGED */
	void *buf;           /* receive: where its bytes go */
	size_t len;          /* ... and how many; send: bytes of the message */
	bool used;           /* begun or waiting */
	bool begun;          /* libpmx has it */
	bool reports;        /* a success is a completion */
	bool multi;          /* FI_MULTI_RECV: takes messages until its memory is used up */
	bool cancelled;      /* fi_cancel() was called: a multi one does not go on */
	bool silent;         /* neither a success nor an error is told */
	bool is_long;        /* it is counted in endpoint.longs */
	uint8_t pieces;      /* receive: of iov, 0: buf */
	/* promise.c; send: */
	uint16_t number; /* it is promised by that number; 0: it is not */
	bool asked;      /* ... and its receiver has asked for it */
	/* receive: */
	bool late;                 /* its message was a promise */
	uint8_t step;              /* of what a late one has to do */
	uint32_t incarnation;      /* of the promise's sender */
	uint64_t bulk_tag;         /* of the messages that bring the promise's bytes */
	struct pmx_status promise; /* what is known of the message */
	pmx_request request;
	struct pmx_matched m; /* waiting; multi; what is sent of a transfer */
	void *copy;           /* FI_INJECT while waiting: malloc()ed bytes */
	struct iovec iov[OFI_IOV_MAX];
	/* rma.c: */
	uint8_t role; /* enum op_role; 0: a message of the application */
	bool moved;   /* the message with the bytes has ended */
	bool answered;
	int32_t error;
	struct mr *mr; /* of what is done for others */
	struct rma_head head;
	uint8_t few[OFI_FEW]; /* operands */
	bool seen;            /* it has waited since the last look (life.c) */
	/* pieces.c; of a whole message: */
	uint64_t pieces_at;   /* bytes whose pieces have begun */
	uint8_t pieces_out;   /* pieces under way */
	bool pieces_wait;     /* for room: it is in the list `ready` or `late` of the endpoint */
	struct ofi_op *whole; /* of a piece */
};

struct ofi_op_list {
	struct ofi_op *head, *tail;
};

struct op_chunk;

/* Sends that are promised, by their numbers. */
struct promises {
	struct ofi_op **ops; /* array of room */
	uint32_t room, used, last;
	pmx_request asks; /* the receive of what asks for them */
	bool awaits;      /* ... is posted */
};

/* Transfers of remote memory under way, by their numbers. */
struct ofi_transfers {
	struct ofi_op **ops; /* array of room */
	uint16_t *uses;      /* of each place: distinguishes late answers */
	uint32_t room, used, last;
	uint32_t bulks; /* of those, that bring or take their bytes in messages of their own */
	struct ofi_op_list waiting; /* to begin */
	struct ofi_op_list serving; /* for others: wait for room for their next step */
	struct ofi_op_list posted;  /* receives of messages about remote memory, in order */
	struct ofi_op_list idle;    /* ... that could not be posted yet */
};

/* The kinds of operations that an endpoint's counters count. */
enum cntr_kind {
	CNTR_SENDS,
	CNTR_RECEIVES,
	CNTR_WRITES,
	CNTR_READS,
	CNTR_REMOTE_WRITES,
	CNTR_REMOTE_READS,
	CNTR_KINDS
};

struct endpoint {
	struct fid_ep fid;
	struct domain *domain;
	struct av *av;
	struct cq *tx_cq, *rx_cq;
	struct cntr *cntrs[CNTR_KINDS];
	struct pmx_context *ctx; /* NULL: not enabled */
	uint32_t incarnation;
	struct address name;   /* by which others know it (direct.c) */
	struct address wanted; /* context: PMX_ANY_CONTEXT; incarnation: 0: a new one */
	size_t direct;         /* others on this host may be able to read this process's memory:
				* messages from this length on; 0: they are not */
	uint32_t longs;        /* such sends under way */
	uint64_t caps, tx_flags, rx_flags; /* tx_flags, rx_flags: default operation flags */
	bool tx_selective, rx_selective;
	bool armed;  /* pmx_before_select() was called */
	bool gone;   /* the primary has ended */
	bool orders; /* transfers of remote memory take effect in order */
	struct ofi_op *free;
	struct op_chunk *chunks;
	struct ofi_op_list sends, receives; /* waiting to begin */
	struct ofi_op_list unnamed;         /* sends and transfers, for ask.c */
	struct ofi_op_list ready;           /* promised sends that were asked for, waiting to
					     * begin */
	struct ofi_op_list late;            /* receives of promises, waiting for room for their next
					     * step */
	struct promises promises;
	struct ofi_transfers transfers;
	struct {
		int64_t next;     /* look, ms */
		uint32_t turns;   /* of progress */
		uint32_t waiting; /* late receives, and transfers of others whose bytes come */
	} life;
	size_t min_multi_recv;
};

static inline bool
same_peer(struct pmx_addr a, struct pmx_addr b)
{
	return a.node == b.node && a.context == b.context;
}

static inline void
domain_lock(struct domain *d)
{
	if (d->locks)
		pthread_mutex_lock(&d->lock);
}

/* Note that the application has called: the thread of automatic.c keeps out of its way, or
 * wakes. */
void domain_called(struct domain *d);

static inline void
domain_unlock(struct domain *d)
{
	if (!d->locks)
		return;
	if (unlikely(d->automatic.on))
		domain_called(d);
	pthread_mutex_unlock(&d->lock);
}

/* Run the engine of an embedded node, after something was posted. */
void domain_run(struct domain *d);

/* Unlock the domain after something was posted. */
static inline void
domain_posted(struct domain *d)
{
	if (unlikely(d->embedded))
		domain_run(d);
	domain_unlock(d);
}

static inline int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* ------------------------------------------------------------------ base.c, info.c, fabric.c */

int info_get(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **info);
/* Check that the provider can do all that `info` asks for, when a domain or an endpoint is opened
 * with it. Return 0 or -FI_EINVAL. */
int info_check(const struct fi_info *info);
int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* Return -FI_ENOSYS: these three stand in for operations that an object does not have. */
int none_bind(struct fid *fid, struct fid *other, uint64_t flags);
int none_control(struct fid *fid, int command, void *arg);
int none_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* Return the text of pmx_strerror(), for fi_cq_strerror() and its like, and copy it to buf unless
 * that is NULL. */
const char *error_text(int error, char *buf, size_t len);
/* FI_GETWAIT and FI_GETWAITOBJ of an object with that descriptor. */
int wait_control(enum fi_wait_obj wait, int fd, int command, void *arg);

/* Add an endpoint to those that report, once. 0 or -FI_ENOMEM. */
int reporters_add(struct reporters *r, struct endpoint *ep);
void reporters_remove(struct reporters *r, const struct endpoint *ep);

/* ------------------------------------------------------------------ av.c */

int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/* Return the entry with that number if it is in use, or NULL. */
static inline const struct av_entry *
av_at(const struct av *av, fi_addr_t number)
{
	return likely(number < av->count && av->entries[number].comm != 0) ? &av->entries[number]
									   : NULL;
}
/* Return the number of the entry that was inserted last for that endpoint, or FI_ADDR_NOTAVAIL.
 * This takes constant time. */
fi_addr_t av_find(const struct av *av, struct pmx_addr source);
/* Give the incarnation to the entries of that peer that have none. */
void av_name(struct av *av, struct pmx_addr peer, uint32_t incarnation);
/* Take the incarnation away from the entries of that peer that have it and were inserted without
 * one. */
void av_unname(struct av *av, struct pmx_addr peer, uint32_t incarnation);
/* fi_pmx://NODE:CONTEXT:INCARNATION; as snprintf(). */
int address_print(const struct address *a, char *buf, size_t len);
/* Read what address_print() has written. Return false if the text is no valid address. */
bool address_scan(struct address *a, const char *text);
bool address_ok(const struct address *a);
/* Set the address of a context by what people call its node and its service. node: as for
 * pmx_node_resolve(), or the text of an address; NULL: this node. service: number; NULL: 0. Return
 * 0; -FI_ENODATA: there is no such node; or -FI_EINVAL. */
int address_find(struct address *a, const char *instance, const char *node, const char *service);

/* Tags of messages to COMM_CONTROL, and to COMM_BULK: what they are about. */
#define OFI_TAG_GO   (1ull << 63)
#define OFI_TAG_RMA  (1ull << 62)
#define OFI_TAG_GONE (1ull << 61) /* of ask.c */
#define OFI_TAG_HERE (1ull << 61 | 1)
#define OFI_TAG_PING 1

enum comm_kind { COMM_UNTAGGED, COMM_TAGGED, COMM_BULK, COMM_CONTROL };

/* Return the communicator of messages of that kind to the endpoint with that incarnation. */
static inline uint32_t
comm_of(uint32_t incarnation, enum comm_kind kind)
{
	return incarnation << 2 | kind;
}

/* The communicator of messages that are to be sent to an endpoint whose incarnation is not
 * known. */
#define COMM_UNNAMED (OFI_UNNAMED << 2)
static inline bool
comm_is_unnamed(uint32_t comm)
{
	return comm >= COMM_UNNAMED;
}

/* Return the communicator of that kind which belongs to the same endpoint as `comm`. */
static inline uint32_t
comm_kind(uint32_t comm, enum comm_kind kind)
{
	return (comm & ~3u) | kind;
}

/* ------------------------------------------------------------------ cq.c */

int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int cq_watch(struct cq *cq, struct endpoint *ep);
void cq_unwatch(struct cq *cq, struct endpoint *ep);
/* -FI_EAGAIN: there is something to read; otherwise its descriptor will become readable. */
int cq_trywait(struct cq *cq);

/* Make progress if the queue is empty, then return whether there is something to read. */
bool cq_has_some(struct cq *cq);

int cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
	void *context);

/* Count one success or error; c may be NULL. */
static inline void
cntr_count(struct cntr *c, bool error)
{
	if (unlikely(c != NULL))
		atomic_fetch_add(error ? &c->errors : &c->value, 1);
}

/* Make progress, then return the number of successes and errors together. */
uint64_t cntr_total(struct cntr *c);

int poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll);

/* --------------------------------------------------- endpoint.c, messages.c, progress.c */

int endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
	void *context);
extern struct fi_ops_msg messages_ops;
extern struct fi_ops_tagged tagged_ops;
/* End the operations that libpmx has ended, and begin those that wait. */
void endpoint_progress(struct endpoint *ep);
/* Arm the context's descriptor: it becomes readable when there is something to look at. Return
 * false if there is something already, or if something waits of which nothing tells. */
bool endpoint_arm(struct endpoint *ep);
ssize_t endpoint_cancel(fid_t fid, void *context);

/* ------------------------------------------------------------------ begin.c */

/* Give a send or receive to libpmx. 0, or an error: is_busy() says whether to try again later. */
int op_try(struct endpoint *ep, struct ofi_op *op);
/* Begin an operation whose message is in op->m, or let it wait in the list; what fails ends. */
void op_begin(struct endpoint *ep, struct ofi_op *op, struct ofi_op_list *waiting);
/* Begin what waits in the list, until libpmx takes no more. */
void op_begin_waiting(struct endpoint *ep, struct ofi_op_list *waiting);
/* End an operation that did not begin: negative errno. */
void op_refused(struct endpoint *ep, struct ofi_op *op, int error);

/* ------------------------------------------------------------------ promise.c */

/* Promise a message that libpmx does not take now. Return 0, or an error as of pmx_isend(). After
 * one that says to try again later (is_busy()), call this for the same message before any other. */
int promise_send(struct endpoint *ep, struct ofi_op *op);
/* Return whether the receiver itself could read the bytes of a send, so that they are to be
 * promised at once. */
bool promise_is_direct(const struct endpoint *ep, const struct ofi_op *op);
/* Handle the end of the receive with OFI_COOKIE_GO: its message asks for the bytes of a promise, or
 * says that the receiver has read them. */
void promise_go(struct endpoint *ep, const struct pmx_status *status);
enum promise {
	PROMISE_NONE,    /* the sender has not said of what */
	PROMISE_AWAITED, /* the bytes will come */
	PROMISE_THERE    /* the bytes are there, and the sender has been told */
};

/* Begin to fetch the bytes of a promise, which the receive took. */
enum promise promise_take(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status);
/* Set the length in a promise's status, which lacks it, and *incarnation to that of its sender.
 * Return false if it is no promise. */
bool promise_details(struct endpoint *ep, struct pmx_status *promise, uint32_t *incarnation);
/* Return whether the receive waits for the bytes of a promise, and its sender has been told. */
bool promise_is_awaited(const struct ofi_op *op);
/* Do what had to wait. Returns a receive whose bytes are there now, for its end, or NULL: no
 * further one. */
struct ofi_op *promise_progress(struct endpoint *ep);

/* ------------------------------------------------------------------ pieces.c */

/* Return whether a message of that length between this endpoint and that node is in pieces. */
bool pieces_apply(const struct endpoint *ep, uint16_t node, uint64_t len);
/* Begin as many pieces of a message as may be under way. Return whether they are; false: call this
 * again later, as op->pieces_wait says, too. */
bool pieces_begin(struct endpoint *ep, struct ofi_op *op);
/* Free a piece that has ended, and go on with its message. Return whether the message has ended:
 * with op->error. */
bool piece_ended(struct endpoint *ep, struct ofi_op *piece, const struct pmx_status *status);
/* Cancel the pieces of a receive. */
void pieces_cancel(struct endpoint *ep, struct ofi_op *op);

/* ------------------------------------------------------------------ direct.c */

/* The place of a promised message's bytes in its sender's process. */
struct direct_offer {
	uint64_t name;   /* address of its endpoint.name, by which the process is recognised */
	uint64_t pieces; /* of iov that are used; 0: they cannot be read */
	struct iovec iov[OFI_IOV_MAX];
};

/* Find out whether others may be able to read this process's memory, and set ep->direct if so. */
void direct_enable(struct endpoint *ep);
/* Describe in *offer where the bytes of a message are in this process, for a receiver on this
 * host. */
void direct_describe(const struct endpoint *ep, const struct pmx_matched *m,
	struct direct_offer *offer);
/* Copy the bytes from the sender's memory to that of the operation, as many as fit. Return false if
 * it cannot be done; the bytes of the operation's memory are undefined then. */
bool direct_read(struct endpoint *ep, const struct ofi_op *op, struct pmx_addr from,
	uint32_t incarnation, uint64_t len, const struct direct_offer *offer);

/* ------------------------------------------------------------------ mr.c, rma.c, atomic.c */

extern struct fi_ops_mr mr_ops;
/* Order regions by their keys, for <search.h>. */
int mr_by_key(const void *a, const void *b);

extern struct fi_ops_rma rma_ops;
extern struct fi_ops_atomic atomic_ops;

enum op_role {
	RMA_TRANSFER = 1, /* an own one */
	RMA_MESSAGE,      /* the receive of a message about remote memory */
	RMA_SERVICE,      /* for others: receives or sends the bytes */
	RMA_REPLY,        /* for others: an answer that waits to be sent */
	LIFE_PING,        /* of life.c: asks whether another endpoint is there */
	MESSAGE_PIECE,    /* of pieces.c: a part of a long message */
};

/* Post the receives of messages about remote memory. Return 0 or -FI_ENOMEM. */
int rma_enable(struct endpoint *ep);
/* Begin an own transfer, and take over its operation. The caller has set op->head but for id and
 * incarnation; op->m with what is sent; op->buf, len, pieces and iov with what is read; and
 * op->context, flags and reports. injected: the application may change the bytes as soon as this
 * returns. Return 0 or -FI_ENOMEM. */
ssize_t rma_begin(struct endpoint *ep, struct ofi_op *op, bool injected);
/* Fail an own transfer that cannot go on. error: negative errno. If libpmx has its bytes, it ends
 * when those come back. */
void rma_fails(struct endpoint *ep, struct ofi_op *op, int error);
/* Handle an operation of rma.c that libpmx has ended. */
void rma_ended(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status);
/* Begin what had to wait for room: receives, what is done for others, and own transfers. */
void rma_progress(struct endpoint *ep);
/* Return whether a transfer or a receive waits for room, of which nothing tells. */
static inline bool
rma_waits(const struct endpoint *ep)
{
	return ep->transfers.waiting.head != NULL || ep->transfers.serving.head != NULL ||
		ep->transfers.idle.head != NULL;
}

/* ------------------------------------------------------------------ automatic.c */

/* Start the thread of automatic progress. 0 or a negative error. */
int automatic_begin(struct domain *d);
/* End the thread, if there is one. */
void automatic_end(struct domain *d);

/* ------------------------------------------------------------------ ask.c */

/* Ask whether that incarnation is there; 0: which one is. */
void ask_send(struct endpoint *ep, struct pmx_addr peer, uint32_t incarnation);
/* Let the operation wait until its peer has told its incarnation. */
void ask_await(struct endpoint *ep, struct ofi_op *op);
/* Ask once more all peers whose incarnation operations wait for. */
void ask_again(struct endpoint *ep);
/* Take the message that matches. false: there is none, or no room to take it now. */
bool ask_take(struct endpoint *ep, const struct pmx_matched *what, struct pmx_status *status);
/* Answer those who have asked for this endpoint. */
void ask_answer(struct endpoint *ep);

/* ------------------------------------------------------------------ names.c */

/* Hear who has told its incarnation, and begin what waited for that. */
void names_progress(struct endpoint *ep);
/* Fail what waits for that peer's incarnation: negative errno. */
void names_fail(struct endpoint *ep, struct pmx_addr peer, int error);

/* ------------------------------------------------------------------ life.c */

/* Look now and then whether those are still there on whom operations wait. */
void life_look(struct endpoint *ep);
/* Hear that a question has arrived, or has not. */
void life_asked(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status);

/* ------------------------------------------------------------------ atomic.c */

/* Return the bytes of an element; 0: there is no such operation on elements of that type. */
static inline uint32_t
atomic_bytes(enum fi_op op, enum fi_datatype type)
{
	return pmx_atomic_bytes((enum pmx_atomic_op)op, (enum pmx_atomic_type)type);
}

/* Say whether it has operands to compare with: those of fi_compare_atomic(). */
static inline bool
atomic_compares(enum fi_op op)
{
	return op >= FI_CSWAP && op <= FI_MSWAP;
}

int atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
	struct fi_atomic_attr *attr, uint64_t flags);

#endif
