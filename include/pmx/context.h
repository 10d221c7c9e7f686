/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file context.h
 * Nodes, contexts, and messages: attaching, opening, sending, receiving, waiting, events. Part of
 * pmx.h, whose head holds for all of it.
 */
#ifndef PMX_CONTEXT_VERBS_H
#define PMX_CONTEXT_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what the library exports. */
#define PMX_API __attribute__((visibility("default")))

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

/** Ways to attach: see pmx_node_attach(). */
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
 * @retval -EOPNOTSUPP a secondary is asked for, and libpmx-dpdk.so, which has that part, is not
 *                     installed: thin clients need none
 * @retval -EINVAL    PMX_ATTACH or `how` is none of these; or `instance` is neither a name (1 to 31
 *                    of A-Z a-z 0-9 . _ -, the first a letter or a digit) nor a path; or it is a
 *                    path, which a secondary cannot use; or this process may not use that CPU; or
 *                    the size of params
 * @retval -E2BIG     params of a later version that set what this library does not know
 *
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
 *
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
 *
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
 *
 * Also the errors of pmx_node_attach() and pmx_context_open(). No other call of the node or its
 * contexts may run.
 */
PMX_API int pmx_reattach(struct pmx_node *node, int64_t timeout_us);

/** Parameters that say how to start an embedded node. */
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

/** Return this node's own number. */
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
 *
 * Waits for the primary's answer, some 20 us. Any thread may call it.
 */
PMX_API int pmx_context_process(struct pmx_node *node, uint16_t context);

/* --------------------------------------------------------------- contexts */

/** Use of the CPU by a poll that finds nothing. This concerns pmx_receive(), pmx_receive_burst(),
 * pmx_test() and its variants, and pmx_progress(). */
enum pmx_idle {
	PMX_IDLE_AUTO = 0, /**< as the environment variable PMX_IDLE says (spin, yield); not set: as
			    * the node does, i.e. YIELD unless its engine.idle is spin or pause */
	PMX_IDLE_SPIN,     /**< returns at once: lowest latency, with a CPU of its own */
	PMX_IDLE_YIELD,    /**< yields the CPU to other threads: at once if others ran at the last
			    * yield, otherwise now and then to see whether they do (some 200 ns in
			    * 256 polls); sleeps shortly instead, 1 ms at most, where another
			    * program wants the CPU all the time, and a yield takes its whole time
			    * slice */
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
	const char *name;         /**< by which pmx-ctl shows it, 31 bytes of it; borrowed for the
				   * call; NULL: the program's name */
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

/** Return the context's own address. */
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
 *
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

/** Parameters that say how a message is sent and how its end is told. */
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
 *
 * Errors of pmx_get_send_buffer() and pmx_send(); also
 * @retval -EINVAL  flags, or the size of params
 * @retval -E2BIG   as of pmx_node_attach()
 * @retval -ENOMEM  out of memory
 */
PMX_API int pmx_sendv(struct pmx_context *ctx, struct pmx_addr to, const struct iovec *iov,
	unsigned count, const struct pmx_send_params *params, pmx_send_id *id);

/** Send a message like pmx_sendv(), but one that was written into a buffer of
 * pmx_get_send_buffer(), as pmx_send() sends it. */
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

/** Return the number of send buffers of messages that have not completed, or were not sent yet. */
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

/** Return the address of the message's first segment. This works even on a copy of the
 * structure. */
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

/** Return a descriptor for poll/epoll/select, which becomes readable when a message came after
 * pmx_before_select(). It belongs to the context. */
PMX_API int pmx_get_fd(const struct pmx_context *ctx);

/**
 * Ask the engine to make the descriptor readable. Call this before sleeping on it.
 * @retval 0  sleep, then call pmx_after_select()
 * @retval 1  a message is there already: do not sleep (nothing to undo)
 */
PMX_API int pmx_before_select(struct pmx_context *ctx);

/** Stop the notifications. Call this after sleeping on the descriptor, for whatever reason that
 * ended. */
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
 * for something does so as well: this is for a program that has nothing to look for, and each call
 * yields the CPU unless the idle policy is to spin (enum pmx_idle).
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

/* ----------------------------------------------------------------- events */

/** Kinds of events. */
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

/** An event: something that happened without being asked for, or was asked for with PMX_EVENT. */
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

/* ------------------------------------------------------ errors, statistics */

/** Return a text that says what a negative errno of this library means, and what to do about it.
 * Static storage. */
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
