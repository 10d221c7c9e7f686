/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file pmx.h
 * Reliable messages between the processes of a cluster, over plain Ethernet.
 *
 * A node is a host (its pmx-dpdk primary, or a node embedded in one process). A context is one
 * application's endpoint on a node. A message goes from a context to any other context, arrives
 * exactly once, in the order sent between these two, or ends in an error completion.
 *
 * The verbs are those of PM (PM/UDP, IPSJ 1999): get a send buffer, write into it, send it; receive
 * a message, read it in place, release it. Only functions named *_wait block, and those that need
 * an answer of the primary or the engine: attaching, opening and closing; allocating, registering
 * and their counterparts; with engine.matching = engine also pmx_iprobe(), pmx_improbe() and
 * pmx_cancel(). A running engine answers within microseconds; if it has ended, calls return -EPIPE.
 *
 * Thread safety: a context is used by one thread at a time; different contexts are independent.
 * fork(): nodes and contexts stay the parent's, which notices nothing. In the child calls of them
 * return -EPIPE, descriptors are closed, and closing frees what is the child's; it attaches anew,
 * thin, for contexts of its own. So a program that becomes a daemon attaches after that. Memory of
 * pmx_alloc() is shared by both. exec() closes all that this library opened.
 * Errors: 0 or a count on success, a negative errno on failure; outputs are set only on success.
 * pmx_strerror() says in words what an error means here and what to do about it.
 * Times: timeout_us is the longest wait in microseconds of CLOCK_MONOTONIC; 0: the call does not
 * wait; below 0 (PMX_FOREVER): no limit. So everywhere.
 * Flags: each has a bit of its own in all headers, so one that a call does not have is -EINVAL.
 * Parameters: a struct pmx_*_params begins with its size, which the caller sets (sizeof); what it
 * does not set is 0 and stands for the default, and so does NULL instead of the structure. A size
 * of 0 is -EINVAL; a longer one, of a later version, is -E2BIG if it has anything but zeros there.
 *
 * What may change: while the first number of the version is 0, each change of the second one may
 * change the interface, and with it the name of the library (libpmx.so.0.2), so that a program
 * runs with the one that it was compiled for or does not start. A change of the third one adds at
 * most functions, flags, and fields at the end of structures with a size.
 */
#ifndef PMX_H
#define PMX_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what the library exports. */
#define PMX_API __attribute__((visibility("default")))

/** The version that a program is compiled for. */
#define PMX_VERSION        "0.2.0"
/** Is the same for comparing: 10000 times the first number, 100 times the second, and the third. */
#define PMX_VERSION_NUMBER 200

/** Returns the version of the library that runs, as PMX_VERSION. Any thread. */
PMX_API const char *pmx_version(void);

/** Longest payload that a message structure carries by itself, bytes. */
#define PMX_INLINE_MAX  104
/** Any free context number, for pmx_context_open(). */
#define PMX_ANY_CONTEXT 0xFFFFu
/** A timeout_us without a limit. */
#define PMX_FOREVER     (-1)

struct pmx_node;
struct pmx_context;

/** One endpoint in the cluster. */
struct pmx_addr {
	uint16_t node;    /**< node number of the config's [nodes], 0..65534 */
	uint16_t context; /**< context number on that node, 0..1023 */
};

/* ------------------------------------------------------------------ nodes */

/** How to attach: see pmx_node_attach(). */
enum pmx_attach {
	PMX_ATTACH_AUTO = 0, /**< as the environment variable PMX_ATTACH says (secondary, thin,
			      * embedded); not set: secondary if possible, otherwise thin */
	PMX_ATTACH_SECONDARY,
	PMX_ATTACH_THIN,
	PMX_ATTACH_EMBEDDED
};

/** Parameters of an attachment. */
struct pmx_attach_params {
	uint32_t size;       /**< sizeof(struct pmx_attach_params) */
	enum pmx_attach how; /**< secondary, thin or embedded */
	bool pin;            /**< pin the calling thread to `cpu` */
	uint16_t cpu;        /**< with pin */
};

/**
 * Attach this process to a running pmx-dpdk primary, in one of three ways:
 * - secondary: as a DPDK secondary process, which maps all of the primary's memory; needs the same
 *   user;
 * - thin: over the primary's socket, mapping only this process's own channels. Needs only the right
 *   to open the socket: no EAL, no root, no hugepages; works from containers. Bulk data is copied
 *   once more at each end;
 * - embedded: starts a node in this process, with the configuration file in PMX_CONFIG and the EAL
 *   arguments in PMX_EAL (separated by spaces). Calls that find nothing to do run the engine. A
 *   process has one such node: who attaches again shares it, and uses it from the same thread.
 * @param[out] node      the attachment; end it with pmx_node_close().
 * @param      instance  name of the primary (config key node.name), e.g. "pmx0"; or, with a '/',
 *                       the path of its socket. NULL: the environment variable PMX_INSTANCE, or
 *                       where that is not set the first of pmx_node_find().
 * @param      params    see there; borrowed for the call; NULL: defaults
 * @retval 0          attached
 * @retval -ENOENT    no such primary runs on this host (or it runs as another user)
 * @retval -EACCES    thin: this user may not open the socket (access.mode, owner, group)
 * @retval -EPROTO    the primary speaks another version of this interface: use the same build
 * @retval -EALREADY  this process runs the DPDK EAL of another primary
 * @retval -ENODEV    the EAL could not start; its log says why
 * @retval -EADDRINUSE secondary: this process uses addresses that the primary's memory must have
 * @retval -EUSERS    secondary: no lcore number is left
 * @retval -EOPNOTSUPP PMX_ATTACH asks for something that this build of the library cannot do: it
 *                     has no DPDK, and attaches thin only
 * @retval -EINVAL    PMX_ATTACH or `how` is none of these; or `instance` is neither a name (1 to 31
 *                    of A-Z a-z 0-9 . _ -, the first a letter or a digit) nor a path; or it is a
 *                    path, which a secondary cannot use; or this process may not use that CPU; or
 *                    the size of params
 * @retval -E2BIG     params of a later version that set what this library does not know
 * May take some 30 ms. One attachment as a secondary per process. Not thread safe.
 */
PMX_API int pmx_node_attach(struct pmx_node **node, const char *instance,
	const struct pmx_attach_params *params);

/** A primary that runs on this host. */
struct pmx_found {
	char instance[32]; /**< its name, for pmx_node_attach(); ends with a 0 */
};

/**
 * Look for the primaries of this host to which this user may attach thin. Attaches to none of them:
 * takes some 10 us for each.
 * @param[out] found  array of n; root's first, then this user's own, each in the order of their
 *                    names
 * @param      n      most to tell
 * @retval 0..n   how many; n: there may be more
 * @retval -ENOMEM out of memory
 * Any thread may call it.
 */
PMX_API int pmx_node_find(struct pmx_found *found, unsigned n);

/**
 * Ask a primary of this host for the number of a node by what people call it. Attaches to nothing.
 * @param      instance  the primary's name, as for pmx_node_attach()
 * @param      text      a number; the name of that primary, this host's name, "localhost" or an
 *                       address of the loopback: the primary's own node; the IP or MAC address that
 *                       the configuration's [nodes] has for a node, without a port; the name that
 *                       it has for one; a name for which the host's resolver (DNS) knows such an
 *                       address
 * @param[out] number    the node's, 0..65534. It need not be in [nodes] if text is a number
 * @retval 0       found
 * @retval -ENOENT no node has that address or name, or no such primary runs
 * @retval -EINVAL text is none of these
 * @retval -EACCES, -EPROTO, -EPIPE as of pmx_node_attach()
 * Any thread may call it.
 */
PMX_API int pmx_node_resolve(const char *instance, const char *text, uint16_t *number);

/**
 * Continue with another primary of the same name after the primary has ended, which calls report by
 * -EPIPE within 100 ms. The contexts that were open are opened again with the same numbers; their
 * handles stay valid. What was under way:
 * - messages that had arrived are still received, first; matched messages that waited still wait,
 *   posted receives stay posted (with engine.matching = engine both end, with -ECONNRESET);
 * - sends, transfers and requests that had not ended end with -ECONNRESET: they may or may not have
 *   reached the other side;
 * - registrations have ended: register the memory again, and tell the others the new keys. Memory
 *   of pmx_alloc() and PMX_ADOPT stays as it is; nobody may write to it during the call;
 * - send buffers that were not sent are invalid; received messages stay readable until the next
 *   such call (but those of a secondary with more than PMX_INLINE_MAX bytes then read as zeros).
 * A secondary is a thin client from then on. Descriptors of pmx_get_fd() keep their numbers, but
 * must be added to an epoll instance again.
 * @param node        attached, not embedded
 * @param timeout_us  how long to wait for the new primary
 * @retval 0          all contexts are open, or were
 * @retval -ENOENT    no primary yet: call it again
 * @retval -ETIMEDOUT the old primary has closed the contexts, but still runs
 * @retval -EPROTO    the new primary is of another version, or limits.send_buffers, transfers,
 *                    receives or matched_entries differ: close the contexts, and open them anew
 * @retval -EBUSY     another process has opened one of the numbers; the other contexts are open
 * @retval -ENOBUFS   limits.unexpected matched messages wait, and more have arrived: receive some
 *                    first
 * @retval -EINVAL    an embedded node
 * Also the errors of pmx_node_attach() and pmx_context_open(). No other call of the node or its
 * contexts may run.
 */
PMX_API int pmx_reattach(struct pmx_node *node, int64_t timeout_us);

/** How to start an embedded node. */
struct pmx_node_params {
	uint32_t size;           /**< sizeof(struct pmx_node_params) */
	const char *config_file; /**< path of an INI file, or NULL */
	const char *config_text; /**< the INI text itself, used when config_file is NULL */
	int eal_argc;            /**< EAL arguments, as of main(); 0: the EAL runs already */
	char **eal_argv;         /**< the EAL modifies it */
};

/**
 * Start a node inside this process: engine and applications in one, for run-to-completion
 * latency, for tests, and for hosts without hugepages (EAL argument --no-huge).
 * @param[out] node     the node; end it with pmx_node_close().
 * @param      params   see there; borrowed for the call.
 * @param[out] error    a sentence that names what failed and what to do, if not NULL.
 * @param      error_len  bytes of error.
 * @retval 0 started; otherwise a negative errno, with the sentence in error.
 */
PMX_API int pmx_node_start(struct pmx_node **node, const struct pmx_node_params *params,
	char *error, uint32_t error_len);

/**
 * Run an embedded node once: receive, send, timers. Call it in a loop, from one thread; contexts
 * of the node may be used from that thread between calls, or from other threads.
 * @return how many frames, submissions and completions were moved, 0 = nothing to do now.
 */
PMX_API unsigned pmx_node_poll(struct pmx_node *node);

/** End an attachment or an embedded node, and close its open contexts. NULL is ignored. */
PMX_API void pmx_node_close(struct pmx_node *node);

/**
 * Say in which domain contexts are that are opened at this node from now on; 0, at first: in none.
 * Only contexts of the same domain, on any node, may send to a context that is in one, or access
 * its memory; to others it is as if it were not open: -ECONNREFUSED. It may itself send to contexts
 * of no domain. Nobody can tell a domain's number who does not know it: take a random one.
 * pmx_job_init() does so for a job.
 */
PMX_API void pmx_node_set_domain(struct pmx_node *node, uint32_t domain);

/** Own node number. */
PMX_API uint16_t pmx_node_number(const struct pmx_node *node);

/**
 * Ask which process has a context of this node open, as the primary knows it from the kernel: for
 * processes of one host that share more than messages. The context may be closed, and its number
 * belong to another process, as soon as this returns.
 * @param      node     attached thin
 * @param      context  its number
 * @return     the process's number, in the primary's PID namespace; or
 * @retval -ENOENT      no thin client has it open
 * @retval -EACCES      it is another user's, and the caller is not root
 * @retval -EOPNOTSUPP  this process is a secondary, or the node is embedded
 * @retval -EPIPE       the primary is gone
 * Waits for the primary's answer, some 20 us. Any thread may call it.
 */
PMX_API int pmx_context_process(struct pmx_node *node, uint16_t context);

/* --------------------------------------------------------------- contexts */

/** What a poll that finds nothing does with the CPU. This concerns pmx_receive(),
 * pmx_receive_burst(), pmx_test() and its variants. */
enum pmx_idle {
	PMX_IDLE_AUTO = 0, /**< as the environment variable PMX_IDLE says (spin, yield); not set: as
			    * the node does, i.e. YIELD unless its engine.idle is spin or pause */
	PMX_IDLE_SPIN,     /**< returns at once: lowest latency, with a CPU of its own */
	PMX_IDLE_YIELD,    /**< yields the CPU to other threads: at once if others ran at the last
			    * yield, otherwise now and then to see whether they do (some 200 ns in
			    * 32 polls) */
};

/** Most of pmx_context_params.open_wait_us: ten minutes. */
#define PMX_OPEN_WAIT_MAX 600000000u

/** Parameters of a context. */
struct pmx_context_params {
	uint32_t size;            /**< sizeof(struct pmx_context_params) */
	uint32_t send_buffers;    /**< 0: limits.send_buffers */
	uint32_t receive_buffers; /**< bulk buffers that received messages may hold; 0:
				   * limits.receive_buffers. With both 0 a context gets fewer when
				   * the node has few left; pmx_context_read_stat() tells how
				   * many */
	enum pmx_idle idle;       /**< what polls that find nothing do */
	uint32_t open_wait_us;    /**< how long what it sends waits for a receiver that is not open
				   * yet, or whose node does not answer yet, at most
				   * PMX_OPEN_WAIT_MAX; 0: not at all, so -ECONNREFUSED comes after
				   * a round trip, and -EHOSTUNREACH after proto.hello_ms */
};

/**
 * Open an endpoint.
 * @param[out] ctx  the context; end it with pmx_context_close().
 * @param      node    of which node; must live longer than the context.
 * @param      number  the number that it shall have, or PMX_ANY_CONTEXT
 * @param      params  see there; borrowed for the call; NULL: defaults
 * @retval 0
 * @retval -EBUSY    that number is in use, or all are. For a number that is in use it waits half a
 *                   second, because a process that has just ended leaves its number only when what
 *                   it sent is delivered; not in an embedded node
 * @retval -ENOSPC   the node has too few mbufs left for these quotas: limits.mbufs
 * @retval -EINVAL   a number outside limits.contexts, open_wait_us above its most, PMX_IDLE is
 *                   neither spin nor yield, or the size of params
 * @retval -E2BIG    as of pmx_node_attach()
 * @retval -EPIPE    the primary is gone
 */
PMX_API int pmx_context_open(struct pmx_context **ctx, struct pmx_node *node, unsigned number,
	const struct pmx_context_params *params);

/**
 * Close an endpoint. What was sent is still delivered (bounded by the protocol's retries); what
 * was received and not read is lost. Buffers and messages of the context become invalid.
 */
PMX_API void pmx_context_close(struct pmx_context *ctx);

/** The context's own address. */
PMX_API struct pmx_addr pmx_context_addr(const struct pmx_context *ctx);

/** Payload bytes that travel in one frame: the size of one send-buffer segment. */
PMX_API uint32_t pmx_get_mtu(const struct pmx_context *ctx);

/** Longest message that this context can send: at most 8 MiB, at most all of its buffers. */
PMX_API uint32_t pmx_get_max_message(const struct pmx_context *ctx);

/* ---------------------------------------------------------------- sending */

/** A message being written. Plain data that may be copied; used once: a call that takes the message
 * marks the structure that it was given, so that the next use of that one is -EINVAL. */
struct pmx_buffer {
	void *data;        /**< first segment, 64-byte aligned */
	uint32_t len;      /**< bytes of the whole message */
	uint32_t seg_len;  /**< bytes of it that are in the first segment */
	uint16_t first;    /**< used by the library */
	uint16_t segments; /**< used by the library */
};

/** Identifies a sent message, for pmx_is_send_done(). */
typedef uint64_t pmx_send_id;

/**
 * Take a buffer for a message of `len` bytes. A message of up to pmx_get_mtu() bytes is one
 * contiguous piece; a longer one has several, see pmx_buffer_segment().
 * @retval 0
 * @retval -ENOBUFS   all buffers wait for their Acks: poll, then try again
 * @retval -EMSGSIZE  longer than pmx_get_max_message()
 * @retval -EPIPE     the engine is gone
 */
PMX_API int pmx_get_send_buffer(struct pmx_context *ctx, uint32_t len, struct pmx_buffer *buf);

/** Make a message shorter before it is sent. @retval -EINVAL `len` is more than its length. */
PMX_API int pmx_truncate_buffer(struct pmx_context *ctx, struct pmx_buffer *buf, uint32_t len);

/** Give a buffer back unsent. */
PMX_API void pmx_discard_buffer(struct pmx_context *ctx, struct pmx_buffer *buf);

/** Segment `i` of a message being written: its address, its bytes in *len; NULL beyond the last. */
PMX_API void *pmx_buffer_segment(struct pmx_context *ctx, const struct pmx_buffer *buf, uint32_t i,
	uint32_t *len);

/** Copy `len` bytes from src to offset `off` of the message, across segments.
 * @retval -EINVAL beyond its end. */
PMX_API int pmx_buffer_write(struct pmx_context *ctx, const struct pmx_buffer *buf, uint32_t off,
	const void *src, uint32_t len);

/**
 * Send. On success the buffer belongs to the library, and must not be touched. Messages of up to 48
 * bytes are fastest when id is NULL: they take no buffer, and the context counts how many failed
 * (pmx_context_read_stat).
 * @param      ctx  the sending context
 * @param      to   the receiving context
 * @param      buf  the message, from pmx_get_send_buffer()
 * @param[out] id   for pmx_is_send_done(), may be NULL.
 * @retval 0
 * @retval -EAGAIN  the submission ring is full: poll, then try again; the buffer is still yours
 * @retval -EINVAL  not a buffer of this context, or one that was sent already
 * @retval -EPIPE   the engine is gone
 * If the address does not exist, the send completes with an error.
 */
PMX_API int pmx_send(struct pmx_context *ctx, struct pmx_addr to, struct pmx_buffer *buf,
	pmx_send_id *id);

/** Send buffers bufs[0..n) to to[0..n). @return how many were taken, from the front, 0..n;
 * or the negative errno of pmx_send() if the first was not. ids may be NULL. */
PMX_API int pmx_send_burst(struct pmx_context *ctx, const struct pmx_addr *to,
	struct pmx_buffer *bufs, pmx_send_id *ids, unsigned n);

/** Get a buffer, copy `len` bytes into it, and send it. Errors of pmx_get_send_buffer() and
 * pmx_send(). */
PMX_API int pmx_send_copy(struct pmx_context *ctx, struct pmx_addr to, const void *data,
	uint32_t len, pmx_send_id *id);

struct iovec; /* <sys/uio.h> */

/** How a message is sent and how its end is told. */
struct pmx_send_params {
	uint32_t size;      /**< sizeof(struct pmx_send_params) */
	uint32_t flags;     /**< PMX_EVENT: pmx_poll_event() tells its end, with `cookie` */
	uint64_t cookie;    /**< PMX_EVENT: any number */
	uint64_t expire_us; /**< how long it may wait until it is sent; then it ends with
			     * -ETIMEDOUT, and is not delivered. 0: for as long as need be. When
			     * another primary takes over, what waits then has no such time */
};

/**
 * Send a message of pieces, which are copied one behind the other. Takes at least one send buffer,
 * which with PMX_EVENT is in use until the event is taken.
 * @param      ctx     the sending context
 * @param      to      the receiving context
 * @param      iov     array of count pieces; borrowed for the call
 * @param      count   how many
 * @param      params  see there; borrowed for the call; NULL: defaults
 * @param[out] id      for pmx_is_send_done() and pmx_send_cancel(), may be NULL
 * Errors of pmx_get_send_buffer() and pmx_send(); also
 * @retval -EINVAL  flags, or the size of params
 * @retval -E2BIG   as of pmx_node_attach()
 * @retval -ENOMEM  out of memory
 */
PMX_API int pmx_sendv(struct pmx_context *ctx, struct pmx_addr to, const struct iovec *iov,
	unsigned count, const struct pmx_send_params *params, pmx_send_id *id);

/** As pmx_sendv(), of a message that was written into a buffer of pmx_get_send_buffer(), as
 * pmx_send() sends it. */
PMX_API int pmx_send_with(struct pmx_context *ctx, struct pmx_addr to, struct pmx_buffer *buf,
	const struct pmx_send_params *params, pmx_send_id *id);

/**
 * Take a message back that was not sent yet: it ends with -ECANCELED and is not delivered. One that
 * has left this node, at least in part, or waits at another lane of it, goes on and ends as it
 * ends, because what comes behind it must arrive in order. (A message waits while its receiver's
 * node is looked for, while the window that the receiver gives is used up, and while the context is
 * stopped.) Does not wait: pmx_is_send_done() tells which it was, some milliseconds later.
 * @retval 0        it is tried, or the message has ended already
 * @retval -EAGAIN  the submission ring is full: poll, then try again
 * @retval -EINVAL  not an ID of this context
 * @retval -EPIPE   the engine is gone
 */
PMX_API int pmx_send_cancel(struct pmx_context *ctx, pmx_send_id id);

/**
 * Ask whether a send has completed.
 * @retval 0              not yet
 * @retval 1              Acked: it is at its receiver
 * @retval -ETIMEDOUT     its receiver no longer answers, or pmx_send_params.expire_us is over
 * @retval -EHOSTUNREACH  that node is not in the config, or never answered
 * @retval -ECONNREFUSED  that node has no such context open
 * @retval -ECONNRESET    its receiver was restarted or closed; it may or may not have been
 *                        delivered
 * @retval -EMSGSIZE      the receiving node takes shorter frames: give both the same link.mtu
 * @retval -ECANCELED     pmx_send_cancel() took it back
 * @retval -ESTALE        the result is no longer known: its buffer has been used twice again, and a
 *                        later message in it has failed
 * @retval -EINVAL        not an ID of this context
 */
PMX_API int pmx_is_send_done(struct pmx_context *ctx, pmx_send_id id);

/** The number of send buffers of messages that have not completed, or were not sent yet. */
PMX_API uint32_t pmx_sends_pending(struct pmx_context *ctx);

/* -------------------------------------------------------------- receiving */

/** A received message. `data` points into this structure for short messages: copy the bytes, not
 * the structure, or call pmx_message_data() on the copy. */
struct pmx_message {
	const void *data;       /**< first segment */
	uint32_t len;           /**< bytes of the whole message */
	uint32_t seg_len;       /**< bytes of it that are in the first segment */
	struct pmx_addr source; /**< who sent it */
	uint32_t bulk;          /**< used by the library */
	uint8_t front[PMX_INLINE_MAX] __attribute__((aligned(8))); /**< its first bytes */
};

/**
 * Take the next message, in order of arrival. Never blocks.
 * @retval 1       msg is set; give it back with pmx_release_receive_buffer()
 * @retval 0       none
 * @retval -EPIPE  none, and the engine is gone
 */
PMX_API int pmx_receive(struct pmx_context *ctx, struct pmx_message *msg);

/** Take up to n messages. @return how many, or a negative errno if none. */
PMX_API int pmx_receive_burst(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n);

/** Release a message, so that its memory may be used for another. To be called once for every
 * message, in any order. Never waits. */
PMX_API void pmx_release_receive_buffer(struct pmx_context *ctx, struct pmx_message *msg);

/** The address of the first segment, even in a copy of the structure. */
PMX_API const void *pmx_message_data(const struct pmx_message *msg);

/** A piece of a received message. */
struct pmx_segment {
	const void *data; /**< its first byte */
	uint32_t len;     /**< its bytes */
};

/**
 * Walk the pieces of a received message: start with seg->data = NULL, call until it returns 0.
 * @retval 1 seg is the next piece
 * @retval 0 no more
 */
PMX_API int pmx_message_segment(struct pmx_context *ctx, const struct pmx_message *msg,
	struct pmx_segment *seg);

/** Copy `len` bytes from offset `off` of the message to dst, across segments.
 * @retval -EINVAL beyond its end. */
PMX_API int pmx_message_read(struct pmx_context *ctx, const struct pmx_message *msg, uint32_t off,
	void *dst, uint32_t len);

/* ---------------------------------------------------------------- waiting */

/** A descriptor for poll/epoll/select: readable when a message came after pmx_before_select().
 * Owned by the context. */
PMX_API int pmx_get_fd(const struct pmx_context *ctx);

/**
 * Before sleeping on the descriptor: ask the engine to make it readable.
 * @retval 0  sleep, then call pmx_after_select()
 * @retval 1  a message is there already: do not sleep (nothing to undo)
 */
PMX_API int pmx_before_select(struct pmx_context *ctx);

/** After sleeping, for whatever reason it ended: stop the notifications. */
PMX_API void pmx_after_select(struct pmx_context *ctx);

/**
 * Receive, sleeping until a message comes. In an embedded node, whose engine the caller runs, polls
 * the node instead of sleeping.
 * @retval 1      as pmx_receive
 * @retval 0      timeout
 * @retval -EPIPE the engine is gone
 */
PMX_API int pmx_receive_wait(struct pmx_context *ctx, struct pmx_message *msg, int64_t timeout_us);

/** Wait until all sent messages have completed.
 * @retval 0          they are
 * @retval -ETIMEDOUT some are not
 * @retval -EPIPE     the engine is gone */
PMX_API int pmx_send_wait(struct pmx_context *ctx, int64_t timeout_us);

/**
 * Let this library go on with what it does for the context: completions of sends, packing of
 * pushes, requests of groups; an embedded node is polled once. Every call on the context that looks
 * for something does so as well: this is for a program that has nothing to look for.
 * @retval 0
 * @retval -EPIPE the engine is gone
 */
PMX_API int pmx_progress(struct pmx_context *ctx);

/**
 * Watch a node: pmx_poll_event() tells when it is reached (PMX_EVENT_NODE_UP) and when not any more
 * (PMX_EVENT_NODE_DOWN), at first how it is now, as soon as that is known. A node that restarts
 * goes down and comes up, however fast it does. While a node is watched it is asked whether it is
 * there, even if nothing else is sent to it: its end is noticed after about four times
 * proto.keepalive_ms, or at once if a later life of it is heard.
 * @param ctx   whose events they are
 * @param node  the node's number
 * @retval 0       also if it is watched already
 * @retval -EINVAL there can be no such node
 * @retval -ENOSPC the context watches 64 nodes
 * @retval -ENOMEM out of memory
 * @retval -EAGAIN the submission ring is full: poll, then try again
 * @retval -EPIPE  the engine is gone
 */
PMX_API int pmx_context_watch(struct pmx_context *ctx, uint16_t node);

/** Watch that node no more. @retval -ENOENT it is not watched */
PMX_API int pmx_context_unwatch(struct pmx_context *ctx, uint16_t node);

/* ---------------------------------------------------------- remote memory */

/** Others may pull from the memory. */
#define PMX_REMOTE_READ  0x1u
/** Others may push to the memory. */
#define PMX_REMOTE_WRITE 0x2u
/** pmx_register(): move the pages once into memory that the engine shares. */
#define PMX_ADOPT        0x4u
/** pmx_area_register(): whoever names the context and the ID may access it, on any node. */
#define PMX_ANYONE       0x8u

/** Memory that others may access. Plain data of 32 bytes: send it to those who are to access it. */
struct pmx_remote {
	struct pmx_addr owner; /**< the context that registered it */
	uint32_t zero;         /**< 0 */
	uint64_t key;          /**< cannot be guessed; valid until pmx_deregister() */
	uint64_t addr;         /**< first byte, in the owner's process */
	uint64_t len;          /**< bytes */
};

/**
 * Allocate memory that the engine shares with this process: pushes and pulls copy nothing on the
 * way from it, and once on the way to it. On hugepages where some are free; zeroed.
 * @param      ctx   the context whose transfers will use it
 * @param      len   bytes, 1..2^40; rounded up to whole pages
 * @param[out] addr  page-aligned; give it back with pmx_free(), or close the context.
 * @retval 0
 * @retval -ENOMEM  there is not enough free memory
 * @retval -ENOSPC  the context has 64 such pieces: allocate fewer, larger ones
 * @retval -EPIPE   the engine is gone
 * Takes system calls and a request to the primary: some 100 us, and the time to zero the memory.
 */
PMX_API int pmx_alloc(struct pmx_context *ctx, uint64_t len, void **addr);

/**
 * As pmx_alloc(), on ordinary pages, and with a descriptor by which it can be mapped a second time,
 * to be read and written by other rights there. When a lost primary has been replaced
 * (pmx_reattach()) the pages at addr are others than those of the descriptor.
 * @param      ctx   as pmx_alloc()
 * @param      len   as pmx_alloc()
 * @param[out] addr  as pmx_alloc()
 * @param[out] file  of the whole memory, from offset 0; to be closed by the caller. NULL:
 *                   pmx_alloc()
 */
PMX_API int pmx_alloc_file(struct pmx_context *ctx, uint64_t len, void **addr, int *file);

/** Give memory of pmx_alloc() back. Regions in it end, also those that others have pinned;
 * transfers that use it end with EFAULT. NULL is ignored. */
PMX_API void pmx_free(struct pmx_context *ctx, void *addr);

/**
 * Let others access memory of this process: any that is mapped, of pmx_alloc() or not.
 * @param      ctx     the context that their transfers are addressed to
 * @param      addr    first byte, at any alignment
 * @param      len     bytes, 1..2^40
 * @param      access  PMX_REMOTE_READ, PMX_REMOTE_WRITE, PMX_ADOPT; at least one
 * @param[out] remote  what others need to access it; with PMX_ADOPT alone nobody can: key 0
 * @retval 0
 * @retval -EINVAL    access, or len
 * @retval -EFAULT    it begins or ends in memory of pmx_alloc(), but is not all in it
 * @retval -ENOSPC    too many regions: limits.regions; or adopted and allocated pieces: 64
 * @retval -EOPNOTSUPP PMX_ADOPT, but the kernel does not report when memory is unmapped
 *                     (limits.pin_watch)
 * @retval -ENOMEM    the memory cannot be pinned: limits.pin_bytes, ulimit -l
 * @retval -EPIPE     the engine is gone
 * Waits for the engine's answer, some microseconds; in an embedded node it polls the node. The
 * engine accesses memory of pmx_alloc() directly; other memory is copied by the kernel, which is
 * slower.
 *
 * PMX_ADOPT makes private anonymous memory (heap, stack, mmap) directly accessible to the engine:
 * all pages that [addr, addr + len) touches are copied into shared memory that is mapped at the
 * same addresses. Meanwhile no other thread may write there. From then on until it is unmapped it
 * is as fast as memory of pmx_alloc(), and a child of fork() shares it with its parent. Memory that
 * is not private, anonymous and writable is -EINVAL.
 *
 * It is for memory that the program maps and unmaps itself, not for that of an allocator: adopted
 * memory keeps its bytes when it is given back by madvise() with MADV_DONTNEED or MADV_FREE, while
 * allocators rely on zeros there. (So it is not for malloc(), but for a mapping of the program's
 * own, its stack, or what malloc() has mapped for one block alone and unmaps with it.)
 */
PMX_API int pmx_register(struct pmx_context *ctx, void *addr, uint64_t len, unsigned access,
	struct pmx_remote *remote);

/** As pmx_register(), with an area ID (RHiNET): others name (context, ID, offset) instead of a key
 * and an address, so that they can use the same ones for many receivers. IDs can be guessed, so
 * without PMX_ANYONE only the context itself can use it; pmx_group_area_register() makes areas for
 * the members of a group. The key in *remote is for whoever has it. id: 0..2^32 - 2, unique in the
 * context.
 * @retval -EEXIST  the context has that ID */
PMX_API int pmx_area_register(struct pmx_context *ctx, uint32_t id, void *addr, uint64_t len,
	unsigned access, struct pmx_remote *remote);

/**
 * End a registration; when it returns, nobody can access the memory by it any more.
 * @retval -EBUSY   others have it pinned (pmx_remote_pin()), nothing has changed: try again. If
 *                  they or their node have died, that is noticed meanwhile, if need be because of
 *                  this call
 * @retval -ENOKEY  no such registration of this context @retval -EPIPE the engine is gone
 * To end it without waiting for others, give up the memory itself: pmx_free(), unmapping it, and
 * closing the context end registrations even if others have them pinned; transfers to them are
 * refused from then on.
 */
PMX_API int pmx_deregister(struct pmx_context *ctx, uint64_t key);

/**
 * Memory of transfers that is not of pmx_alloc() stays pinned for its next use. This makes the
 * library forget that. Call it before such memory is unmapped, protected or given away, where the
 * kernel does not report that (see doc/guide.md). Regions registered in it do not end. Any thread
 * may call it.
 */
PMX_API void pmx_invalidate(const void *addr, uint64_t len);

/** Transfer: remote is an offset in the area whose ID is in key; of a group's area: the group's
 * number << 32 | ID. */
#define PMX_AREA    0x10u
/** Transfer: takes effect after all earlier ones of this context to the same one. */
#define PMX_ORDERED 0x20u
/** Transfer: when all bytes are where they go, the other side gets an event with `immediate`:
 * pmx_poll_event(). */
#define PMX_NOTIFY  0x40u
/** Transfer, send: this side gets an event when it has ended: pmx_poll_event(). */
#define PMX_EVENT   0x80u

/** Which bytes of a transfer move (RHiNET, 1999, section 2.7). Both sides have the same layout. */
enum pmx_part_kind {
	PMX_PART_STRIDE = 1, /**< block bytes at every sum of i[d] * interval[d], 0 <= i[d] <
			      * count[d] */
	PMX_PART_BITMAP = 2, /**< unit bytes for each bit that is set */
	PMX_PART_DIFF = 3,   /**< push: bytes that differ from twin, which is then updated */
	PMX_PART_TWIN = 4,   /**< pull: all bytes, and a copy of them in twin */
};

/** A part of a transfer. Borrowed, with what it points at, until the transfer has ended. */
struct pmx_part {
	enum pmx_part_kind kind; /**< selects the fields that are used */
	uint32_t dims;           /**< STRIDE: 1..3, innermost first */
	uint64_t block;          /**< STRIDE: bytes, at least 1 */
	uint64_t interval[3];    /**< STRIDE: bytes, at least the extent of what it repeats */
	uint64_t count[3];       /**< STRIDE: at least 1 each */
	uint32_t unit;           /**< BITMAP: bytes, a power of two, 4..4096 */
	const uint64_t *bits;    /**< BITMAP: one for each unit that begins in the transfer, lowest
				  * first */
	void *twin;              /**< DIFF, TWIN: len bytes */
};

/** A push or pull; zero-initialise, then set what it needs. */
struct pmx_transfer {
	struct pmx_addr peer;        /**< the context whose memory it is */
	uint32_t flags;              /**< PMX_AREA, PMX_ORDERED, PMX_NOTIFY, PMX_EVENT */
	uint64_t key;                /**< of struct pmx_remote; with PMX_AREA the area's ID */
	uint64_t remote;             /**< address there; with PMX_AREA offset in the area */
	void *local;                 /**< address here: any memory */
	uint64_t len;                /**< bytes that it spans, 0..2^40 */
	uint64_t immediate;          /**< PMX_NOTIFY: for the other side */
	uint64_t cookie;             /**< PMX_EVENT: for this side */
	volatile int32_t *status;    /**< NULL, or a word that is 1 from the call on, and 0 or a
				      * negative errno when the transfer has ended. In memory of
				      * pmx_alloc() the engine writes it, after the bytes: load it
				      * with acquire before reading those; elsewhere the next call
				      * of this library on the context writes it. */
	const struct pmx_part *part; /**< NULL: all bytes */
};

/** Identifies a transfer, for pmx_transfer_done(). */
typedef uint64_t pmx_transfer_id;

/**
 * Remote write: copy local bytes to the peer's memory; no call on its side is needed. The local
 * bytes must not change until it has ended.
 * @param      ctx  the context that transfers
 * @param      t    see there; borrowed for the call
 * @param[out] id   for pmx_transfer_done(), may be NULL
 * @retval 0        it is under way
 * @retval -EAGAIN  limits.transfers are under way, or the submission ring is full: poll, then try
 *                  again
 * @retval -EINVAL  flags, len, or a part that does not fit: pmx_part_problem() says which
 * @retval -EOPNOTSUPP a kind of part that only pulls can have
 * @retval -ENOMEM  the local memory cannot be pinned
 * @retval -EFAULT  the local memory begins or ends in memory of pmx_alloc(), but is not all in it
 * @retval -EPIPE   the engine is gone
 * Parts, and pushes that fit one frame, are packed by this library in send buffers, as these become
 * free, so call it now and then (any call on the context will do). The engine does all else by
 * itself.
 */
PMX_API int pmx_push(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id);

/** Remote read: as pmx_push(), the other way. The local bytes are complete when it has ended.
 * With PMX_NOTIFY it ends when the other side has its event: with -ENOBUFS if that reads no events,
 * though the bytes are here; by a bitmap it is -EOPNOTSUPP. */
PMX_API int pmx_pull(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id);

/** A text that says what is wrong with a part over len bytes; NULL: nothing. Static storage. */
PMX_API const char *pmx_part_problem(const struct pmx_part *part, uint64_t len);

/**
 * Ask for memory of others to be pinned, and to stay so until pmx_remote_unpin() (RHiNET, 1999,
 * section 2.5): as a push or pull that moves nothing. Its owner cannot end that registration
 * meanwhile, and its pages stay where they are. Pins of the same region are counted. When this
 * context ends, for whatever reason, all its pins are released.
 * Uses peer, flags, key, remote, len, status, cookie. A pin is of the whole region that they name,
 * which must have [remote, remote + len).
 * Errors of pmx_pull(), and, when it has ended, of pmx_transfer_done(); among them -ENOSPC: its
 * owner has no room for more pins (limits.regions), or this context has pins at 64 other contexts.
 */
PMX_API int pmx_remote_pin(struct pmx_context *ctx, const struct pmx_transfer *t,
	pmx_transfer_id *id);

/**
 * Release a pin, with the same arguments with which it was made. Ends with -ENOKEY if this context
 * has no pin of that region: it was released, or the region ended, or its owner has heard nothing
 * of this node for too long. A context can release only its own pins. The release comes after the
 * pin if that has ended, or with PMX_ORDERED.
 */
PMX_API int pmx_remote_unpin(struct pmx_context *ctx, const struct pmx_transfer *t,
	pmx_transfer_id *id);

/** What an atomic operation does to an element v, with its operand x; c: what it is compared with.
 * Integers wrap around. */
enum pmx_atomic_op {
	PMX_ATOMIC_MIN,
	PMX_ATOMIC_MAX,
	PMX_ATOMIC_SUM,
	PMX_ATOMIC_PROD,
	PMX_ATOMIC_LOR,      /**< v || x; results of logic are 0 or 1 */
	PMX_ATOMIC_LAND,     /**< v && x */
	PMX_ATOMIC_BOR,      /**< v | x; operations on bits are for integers only */
	PMX_ATOMIC_BAND,     /**< v & x */
	PMX_ATOMIC_LXOR,     /**< !v != !x */
	PMX_ATOMIC_BXOR,     /**< v ^ x */
	PMX_ATOMIC_READ,     /**< v stays, and is fetched; it has no operand */
	PMX_ATOMIC_WRITE,    /**< x */
	PMX_ATOMIC_CSWAP,    /**< x if c == v, otherwise v stays */
	PMX_ATOMIC_CSWAP_NE, /**< x if c != v */
	PMX_ATOMIC_CSWAP_LE, /**< x if c <= v */
	PMX_ATOMIC_CSWAP_LT, /**< x if c < v */
	PMX_ATOMIC_CSWAP_GE, /**< x if c >= v */
	PMX_ATOMIC_CSWAP_GT, /**< x if c > v */
	PMX_ATOMIC_MSWAP,    /**< the bits of x where c has ones, those of v where it has zeros */
};

/** Elements: integers of as many bits, and IEEE 754 of 32 and 64 bits. */
enum pmx_atomic_type {
	PMX_INT8,
	PMX_UINT8,
	PMX_INT16,
	PMX_UINT16,
	PMX_INT32,
	PMX_UINT32,
	PMX_INT64,
	PMX_UINT64,
	PMX_FLOAT,
	PMX_DOUBLE,
};

/** Bytes of an element of that type; 0: there is no such operation on such elements. Any thread. */
PMX_API uint32_t pmx_atomic_bytes(enum pmx_atomic_op op, enum pmx_atomic_type type);

/** Most bytes of the elements of one atomic operation. */
#define PMX_ATOMIC_BYTES 64

/** An atomic operation on memory of others. */
struct pmx_atomic_transfer {
	struct pmx_addr peer;      /**< the owner of the region */
	uint32_t flags;            /**< PMX_AREA, PMX_ORDERED, PMX_EVENT */
	uint64_t key;              /**< as of struct pmx_transfer */
	uint64_t remote;           /**< likewise; a multiple of an element */
	enum pmx_atomic_op op;     /**< what it does to each element */
	enum pmx_atomic_type type; /**< of the elements */
	uint32_t count;            /**< elements: 1 to PMX_ATOMIC_BYTES / their size */
	const void *operands;      /**< as many elements; read in the call. READ: not used */
	const void *compared;      /**< CSWAP to MSWAP: as many elements, read in the call */
	void *before;              /**< NULL, or where the elements as they were are put when it has
				    * ended, by a call of this library on the context; any memory */
	uint64_t cookie;           /**< PMX_EVENT: for this side */
	volatile int32_t *status;  /**< as of struct pmx_transfer */
};

/**
 * Have the engine of the owner's node change memory of a region, which was registered for
 * PMX_REMOTE_READ and PMX_REMOTE_WRITE. Each element is changed at once, and exactly once: such
 * operations are atomic to each other, whoever asks for them. To the processors of the owner's
 * host they are where the memory is of pmx_alloc() or registered with PMX_ADOPT
 * (pmx_atomic_here()); other memory the engine reads and then writes.
 * @param      ctx  the context that asks
 * @param      a    see there; borrowed for the call
 * @param[out] id   for pmx_transfer_done(), may be NULL
 * @retval 0        it is under way; it ends as a pull does, and then also with
 *                  -EINVAL: remote is no multiple of an element, or
 *                  -ECONNRESET: the owner has ended, and whether it was done is not known
 * @retval -EOPNOTSUPP there is no such operation on such elements
 * @retval -EINVAL  flags, count, or operands that are missing
 * @retval -EAGAIN  as of pmx_push()
 * @retval -EPIPE   the engine is gone
 */
PMX_API int pmx_atomic(struct pmx_context *ctx, const struct pmx_atomic_transfer *a,
	pmx_transfer_id *id);

/**
 * The same on memory of this process, atomic to the operations of others on it, and to the
 * processors' own. Any thread.
 * @param op       what it does to each element
 * @param type     of the elements
 * @param at       the first element; a multiple of an element
 * @param count    elements: any number
 * @param operands as many elements; READ: not used
 * @param compared CSWAP to MSWAP: as many elements
 * @param before   NULL, or where the elements as they were are put
 * @return 0; -EOPNOTSUPP and -EINVAL as of pmx_atomic()
 */
PMX_API int pmx_atomic_here(enum pmx_atomic_op op, enum pmx_atomic_type type, void *at,
	uint64_t count, const void *operands, const void *compared, void *before);

/**
 * Ask whether a transfer has ended.
 * @retval 0             not yet
 * @retval 1             it has ended without an error
 * @retval -ENOKEY       there is no such region, or no longer; or no such pin
 * @retval -ERANGE       it reaches beyond the region
 * @retval -EACCES       the region was not registered for this, or not for this context
 * @retval -ENOTCONN     the area is a group's, of which this context is no member there, or no
 *                       longer
 * @retval -EPERM        the region belongs to another context
 * @retval -EFAULT       memory that was registered, or the local memory, is gone. (In a thin client
 *                       the thread that calls copies local memory that is not of pmx_alloc(), as
 *                       sends do: what may not be accessed there is SIGSEGV, as of memcpy())
 * @retval -ENOSPC       no room for another pin: see pmx_remote_pin()
 * @retval -EINVAL       a part that does not fit the region; pmx_atomic(): see there
 * @retval -ENOBUFS      the bytes are there, but the notification was lost, since its receiver does
 *                       not take any
 * @retval -ECONNRESET   the other side has ended; the transfer may or may not have been done
 * @retval -ESTALE       the result is no longer known: its place has been used twice again, and a
 *                       later transfer there has failed
 * Also the errors of pmx_is_send_done().
 */
PMX_API int pmx_transfer_done(struct pmx_context *ctx, pmx_transfer_id id);

/** The number of transfers that have not ended. */
PMX_API uint32_t pmx_transfers_pending(struct pmx_context *ctx);

/** Wait until all transfers of the context have ended, and what it has asked its groups for:
 * opening, barriers, locks, multicasts, updates, shared regions, collectives (RHiNET, 1999, table
 * 2: sync). Requests of groups are to be tested all the same.
 * @retval 0 they ended @retval -ETIMEDOUT some did not @retval -EPIPE the engine is gone */
PMX_API int pmx_sync_wait(struct pmx_context *ctx, int64_t timeout_us);

/** What an event is about. */
enum pmx_event_kind {
	PMX_EVENT_PUSHED = 1, /**< another side's push with PMX_NOTIFY: all of it is here */
	PMX_EVENT_ENDED = 2,  /**< an own transfer with PMX_EVENT */
	PMX_EVENT_GONE = 3,   /**< a member of a group left or died */
	PMX_EVENT_GROUP = 4,  /**< a group ended: its rank 0 left or died, or the others have no way
			       * to this member */
	PMX_EVENT_PULLED = 5, /**< another side's pull with PMX_NOTIFY: it has all of it */
	PMX_EVENT_SHARED = 6, /**< a member shares a region whose home is here: it subscribed with
			       * PMX_NOTIFY */
	PMX_EVENT_SENT = 7,   /**< an own message with PMX_EVENT has ended */
	PMX_EVENT_NODE_UP = 8,  /**< a node that is watched is reached */
	PMX_EVENT_NODE_DOWN = 9 /**< ... does not answer, is restarted, or is none of the cluster */
};

/** What happened without being asked for, or was asked for with PMX_EVENT. */
struct pmx_event {
	enum pmx_event_kind kind; /**< what */
	struct pmx_addr peer;     /**< the other side; GONE, GROUP: the member that has gone;
				   * NODE_UP, NODE_DOWN: the node, context PMX_ANY_CONTEXT */
	uint64_t len;             /**< bytes that the transfer spans, or of the message; GONE,
				   * GROUP, SHARED: that member's rank */
	uint64_t immediate;       /**< PUSHED, PULLED: the other side's; ENDED, SENT: the cookie;
				   * GONE, GROUP: the group's number; SHARED: that << 32 |
				   * region */
	int32_t error;            /**< ENDED, SENT, GROUP: 0 or a negative errno; GONE: why; 0: it
				   * left, or its process ended; NODE_DOWN: -EHOSTUNREACH */
};

/**
 * Take the next event. The context's descriptor becomes readable for events as for messages.
 * @retval 1 *event is set @retval 0 none @retval -EPIPE none, and the engine is gone
 */
PMX_API int pmx_poll_event(struct pmx_context *ctx, struct pmx_event *event);

/* -------------------------------------------------------- matched messages */

/** pmx_matched.peer of a receive: any context of any node. */
#define PMX_ANY_SOURCE ((struct pmx_addr){0xFFFF, 0xFFFF})
/** pmx_matched.ignore: any tag. */
#define PMX_ANY_TAG    UINT64_MAX

/** Send: ends when a receive has taken it, not already when its bytes may change. */
#define PMX_SYNC      0x100u
/** Send: ends when it was Acked, so that the request reports its errors. */
#define PMX_DELIVERED 0x200u
/** Send or receive: pmx_poll_ended() tells its end, once, with `cookie`; pmx_test() does not. */
#define PMX_QUEUED    0x400u
/** Send: the bytes may change when the call returns, however long the message is. */
#define PMX_COPY      0x800u
/** Send: with `immediate` and `label`, which the receive's status and probes tell. In a status:
 * they are there. */
#define PMX_IMMEDIATE 0x1000u
/** Send: the receive that takes the message is posted, so it ends without anything more of this
 * side. Places and memory that long messages without this flag leave free are for these. */
#define PMX_EXPECTED  0x2000u

/**
 * A send or a receive; zero-initialise, then set what it needs. A receive takes the oldest message
 * of its communicator, from `peer` or anyone, whose tag is equal in all bits that it does not
 * ignore. Messages of one source in one communicator match in the order sent, receives in the order
 * posted. (RHiNET, 1999, section 2.6; the search after IPSJ 2007.)
 */
struct pmx_matched {
	struct pmx_addr peer;    /**< destination; or source of the message, or PMX_ANY_SOURCE */
	uint32_t comm;           /**< communicator: messages of different ones never match */
	uint32_t flags;          /**< PMX_QUEUED; send: PMX_SYNC, PMX_DELIVERED, PMX_COPY,
				  * PMX_IMMEDIATE, PMX_EXPECTED */
	uint64_t tag;            /**< tag of the message, or of the messages that the receive
				  * takes */
	uint64_t ignore;         /**< receive: bits of the tag that may differ; PMX_ANY_TAG: all */
	void *data;              /**< the bytes; with iov NULL */
	uint64_t len;            /**< bytes from data on, 0..2^40 */
	const struct iovec *iov; /**< NULL, or pieces that are used one after the other instead of
				  * data and len; borrowed until it has ended */
	uint32_t iov_count;      /**< number of pieces */
	const struct pmx_part *part; /**< NULL, or which bytes of [data, data + len): stride and
				      * bitmap; send: diff; receive: twin. Borrowed until it has
				      * ended. Those bytes are the message. What a diff finds is
				      * written to the same places of the receive, which must be one
				      * piece, [data, data + len). */
	uint64_t cookie;             /**< PMX_QUEUED: for pmx_poll_ended() */
	uint64_t immediate;          /**< PMX_IMMEDIATE: any number, for the receiver */
	uint16_t label;              /**< PMX_IMMEDIATE: another one */
};

/** A send or a receive that was begun, or what a group was asked for (group.h, coll.h); 0: it has
 * ended without an error. */
typedef uint64_t pmx_request;

/** What a receive got, or a probe found. */
struct pmx_status {
	struct pmx_addr source; /**< who sent it */
	uint16_t flags;         /**< PMX_IMMEDIATE: the message has the following */
	uint16_t label;         /**< of the sender's pmx_matched */
	uint64_t immediate;     /**< of the sender's pmx_matched */
	uint64_t tag;           /**< of the message */
	uint64_t len;  /**< bytes of the message, even if it was longer than the receive; of a diff:
			* the bytes that it spans */
	int32_t error; /**< 0 or a negative errno, as pmx_test() says */
};

/**
 * Begin to send. The bytes must not change until the request has ended (PMX_COPY: until the call
 * returns): short messages have been copied when the call returns, and *request is 0; those longer
 * than the config's engine.rendezvous wait for their receive, and are then fetched, or pushed if
 * the receive was there first. A request ends when its bytes may change, unless flags say
 * otherwise.
 * @param      ctx      the sending context
 * @param      m        see there; borrowed for the call
 * @param[out] request  for pmx_test() and its variants, which end it; NULL: it ends by itself, and
 *                      its error is only counted. With PMX_QUEUED for pmx_cancel() alone
 * @retval 0        it is under way, or has ended
 * @retval -EAGAIN  limits.receives requests or limits.transfers transfers are under way, or the
 *                  submission ring is full: poll, then try again
 * @retval -ENOBUFS all send buffers wait for their Acks: poll, then try again
 * @retval -EINVAL  flags, len, peer, or a part that does not fit: pmx_part_problem() says which
 * @retval -EOPNOTSUPP a kind of part that only receives can have
 * @retval -ENOMEM  no memory, or the bytes cannot be pinned
 * @retval -EFAULT  the bytes begin or end in memory of pmx_alloc(), but are not all in it
 * @retval -EPIPE   the engine is gone
 * A message in pieces or parts that is longer than engine.rendezvous is copied into one piece
 * first.
 */
PMX_API int pmx_isend(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request);

/** Post a receive: as pmx_isend(), the other way. A message that came before is taken at once.
 * Receives leave a 64th of limits.receives, at most 64, to sends and probes. */
PMX_API int pmx_irecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request);

/** Ask whether there is a message that such a receive would take. Uses peer, comm, tag, ignore.
 * @retval 1 *status describes it @retval 0 none @retval -EPIPE none, and the engine is gone */
PMX_API int pmx_iprobe(struct pmx_context *ctx, const struct pmx_matched *m,
	struct pmx_status *status);

/** As pmx_iprobe(), and takes the message: only pmx_imrecv() with *message receives it.
 * @retval -EAGAIN limits.receives @retval -ENOBUFS limits.unexpected */
PMX_API int pmx_improbe(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message,
	struct pmx_status *status);

/** Receive what pmx_improbe() took; uses data, len, iov, part. *message becomes the receive's
 * request.
 * @retval -EINVAL not such a message; otherwise as pmx_irecv() */
PMX_API int pmx_imrecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message);

/** Cancel a receive that no message has matched; its request ends with -ECANCELED.
 * @retval 0 done @retval -EINPROGRESS too late, or a send @retval -EINVAL no such request */
PMX_API int pmx_cancel(struct pmx_context *ctx, pmx_request request);

/**
 * Ask whether a request has ended. If so, it is freed, and *request becomes 0.
 * @param      ctx     the context of the request
 * @param      request of pmx_isend(), pmx_irecv(), pmx_imrecv(); 0: it has ended
 * @param[out] status  of a receive that ended, may be NULL
 * @retval 0           not yet
 * @retval 1           it has ended without an error
 * @retval -EMSGSIZE   the message was longer than the receive: its first bytes are there
 * @retval -ECANCELED  pmx_cancel()
 * @retval -EOPNOTSUPP a diff was received in pieces or parts
 * @retval -EINVAL     no such request
 * Also the errors of pmx_is_send_done() and pmx_transfer_done().
 */
PMX_API int pmx_test(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status);

/** Ask whether one of the requests has ended. *index says which; those that are 0 are skipped.
 * @retval -ENOENT all are 0; otherwise as pmx_test() */
PMX_API int pmx_test_any(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	unsigned *index, struct pmx_status *status);

/** Ask whether all of the requests have ended. They become 0 only together with the last; statuses
 * may be NULL.
 * @retval 1 all, without an error @retval 0 not all; otherwise the error of the first that has one,
 *           and all ended */
PMX_API int pmx_test_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses);

/** What was begun with PMX_QUEUED, and has ended. */
struct pmx_ended {
	uint64_t cookie;          /**< of its pmx_matched */
	struct pmx_status status; /**< of a send only `error` */
};

/**
 * Take what was begun with PMX_QUEUED and has ended, in the order in which it ended. The cost is
 * that of what is returned, however many are under way. A send that ended within its call is told
 * as well. Until it is taken each needs one of limits.receives.
 * @param      ctx    the context
 * @param[out] ended  array of n
 * @param      n      most to take
 * @retval 0..n   how many
 * @retval -EPIPE none, and the engine is gone
 */
PMX_API int pmx_poll_ended(struct pmx_context *ctx, struct pmx_ended *ended, unsigned n);

/** Wait until a request has ended.
 * @retval -ETIMEDOUT it did not @retval -EPIPE the engine is gone; otherwise as pmx_test(), never
 *                    0 */
PMX_API int pmx_wait(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status,
	int64_t timeout_us);

/** Wait for one of the requests: as pmx_test_any() and pmx_wait(). */
PMX_API int pmx_wait_any(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	unsigned *index, struct pmx_status *status, int64_t timeout_us);

/** Wait for all of the requests: as pmx_test_all() and pmx_wait(). */
PMX_API int pmx_wait_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses, int64_t timeout_us);

/** Statistics of matching since the context was opened. */
struct pmx_match_stat {
	uint64_t matched;     /**< messages that receives took */
	uint64_t unexpected;  /**< those of them that came before their receive */
	uint64_t evacuated;   /**< unmatched heads that were moved out of the LHS ring to make
			       * room */
	uint64_t bulk_copied; /**< unmatched messages that were copied out of their bulk buffers to
			       * free these */
	uint64_t malformed;   /**< malformed messages of peers */
	uint64_t errors;      /**< errors of requests that were begun without `request` */
	uint32_t waiting;     /**< messages that no receive took yet; this and the following are 0
			       * if the engine matches */
	uint32_t posted;      /**< receives that no message matched yet */
	uint64_t bytes;       /**< bytes of memory of waiting messages, without their entries and
			       * buffers */
	uint64_t paired;      /**< messages that came by memory shared with their sender, a thin
			       * client of this host, and past the engine */
};
/** Copy the statistics of matching into *stat. */
PMX_API void pmx_match_read_stat(const struct pmx_context *ctx, struct pmx_match_stat *stat);

/** A text that says what a negative errno of this library means, and what to do about it. Static
 * storage. */
PMX_API const char *pmx_strerror(int error);

/** Statistics of a context. */
struct pmx_context_stat {
	uint64_t sent;            /**< messages that completed without an error: they are at their
				   * receivers */
	uint64_t send_errors;     /**< messages that completed with an error */
	int32_t last_error;       /**< that of the last of them, as of pmx_is_send_done(); 0: there
				   * is none */
	uint64_t received;        /**< messages taken by pmx_receive */
	uint32_t send_buffers;    /**< send buffers that it was granted; they are reserved for it */
	uint32_t receive_buffers; /**< bulk buffers that it was granted for plain messages */
};
/** Copy the statistics of a context into *stat. */
PMX_API void pmx_context_read_stat(const struct pmx_context *ctx, struct pmx_context_stat *stat);

#ifdef __cplusplus
}
#endif
#endif
