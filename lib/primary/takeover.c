/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One primary takes over from another; see takeover.h. The old primary's part runs when its lanes
 * have stopped, except for freezing; the new primary's part before its lanes start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "channel/passing.h"
#include "engine/complete.h"
#include "engine/contexts.h"
#include "engine/deliver.h"
#include "engine/freeze.h"
#include "engine/image.h"
#include "engine/local.h"
#include "engine/rails.h"
#include "engine/thin.h"
#include "log/log.h"
#include "memory/guard.h"
#include "node/node.h"
#include "preempt/engine/preempt.h"
#include "primary/attach.h"
#include "primary/socket.h"
#include "primary/takeover.h"
#include "primary/takeover_image.h"
#include "primary/terms.h"

#define MAGIC      0x504D5854414B4521u /* "PMXTAKE!" */
#define PATIENCE_S 10
#define HAS_BUFFER (1ull << 32) /* of a send slot's name: it is not one of node.absent */

struct takeover {
	int sock;
	int listener;
	uint8_t *image;
	size_t image_bytes;
	struct takeover_attachments door;
	int fds[PASSING_MAX]; /* descriptors of the last message */
	unsigned fd_count;
	bool bad[WIRE_CONTEXTS_MAX];          /* contexts that cannot go on */
	uint8_t preempted[WIRE_CONTEXTS_MAX]; /* enum preempted */
};

/* ------------------------------------------------------------------ giving */

/* For replacing the core's handles by values that both processes understand: a send slot's context
 * and number; a received frame's index in the image. */
struct giving {
	const struct node *n;
	struct image_out frames;
	uint32_t count;
};

static uint64_t
name_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct giving *g = arg;

	if (sent) {
		const struct send_slot *s = (const struct send_slot *)(uintptr_t)handle;
		const struct channel *ch = &g->n->channels[s->ctx];

		/* the payload of an inline message is nowhere else */
		if (s->number >= ch->send_buffers && ch->thin != NULL && !slot_is_absent(g->n, s))
			memcpy(thin_send(ch->thin, s->number), send_payload(s), len);
		return (slot_is_absent(g->n, s) ? 0 : HAS_BUFFER) | (uint64_t)s->ctx << 16 |
			s->number;
	}
	if (handle & THIN_FRAME)
		return handle;
	const struct rte_mbuf *m = (const struct rte_mbuf *)(uintptr_t)handle;
	uint32_t bytes = m->data_len;

	image_put(&g->frames, &bytes, sizeof(bytes));
	image_put(&g->frames, rte_pktmbuf_mtod(m, const void *), bytes);
	return g->count++;
}

static struct saved_inlet
saved_inlet(const struct inlet *in)
{
	return (struct saved_inlet){in->lhs.pos, in->lhs_pos, in->bulk_out};
}

/* Put what a thin client has of buffers and submissions, and the completions that wait. */
static void
put_buffers(struct image_out *o, const struct channel *ch)
{
	const struct thin *t = ch->thin;

	for (uint32_t i = 0; i < t->count; i++) {
		const struct saved_buf b = {t->bufs[i].next, t->bufs[i].owner, t->bufs[i].head,
			t->bufs[i].matched};

		image_put(o, &b, sizeof(b));
	}
	image_put(o, t->free, t->free_count * sizeof(*t->free));
	image_put(o, t->recalled, t->recalled_count * sizeof(*t->recalled));
	image_put(o, t->recalled_slot, t->recalled_slots * sizeof(*t->recalled_slot));
	for (uint32_t i = ch->done_head; i != ch->done_tail; i++)
		image_put(o, &ch->done[i & ch->done_mask], sizeof(*ch->done));
}

static void
put_channel(const struct engine *e, struct image_out *o, const struct channel *ch)
{
	const struct thin *t = ch->thin;
	struct saved_channel s = {
		.ctx = ch->ctx,
		.selects = ch->selects,
		.parks = ch->parks,
		.preempted = ch->preempted,
		.pid = ch->pid,
		.job = ch->job,
		.domain = ch->domain,
		.open_wait = ch->open_wait,
		.generation = ch->generation,
		.q = {ch->send_buffers, ch->plain.bulk_quota, ch->matched.bulk_quota,
			ch->inline_sends},
		.region_bytes = t->memory->len,
		.sub_pos = ch->sub.pos,
		.sub_other = ch->sub.other,
		.com_pos = ch->com.pos,
		.com_other = ch->com.other,
		.plain = saved_inlet(&ch->plain),
		.matched = saved_inlet(&ch->matched),
		.bufs = t->count,
		.free_count = t->free_count,
		.frames_kept = t->frames_kept,
		.recalled = t->recalled_count,
		.recalled_slots = t->recalled_slots,
		.done = ch->done_tail - ch->done_head,
		.memories = ch->space.count,
		.received = ch->received,
		.sent = ch->sent,
		.bad = ch->bad,
		.inline_done = ch->inline_done,
		.inline_failed = ch->inline_failed,
	};

	image_put(o, &s, sizeof(s));
	put_buffers(o, ch);
	for (uint32_t i = 0; i < MEMORIES_MAX; i++) {
		const struct memory *m = ch->space.pieces[i];

		if (m == NULL)
			continue;
		const struct saved_memory saved = {m->client, m->len, i, m->watched};

		image_put(o, &saved, sizeof(saved));
	}
	SERVICE_FOREACH(ops, e->services) {
		if (ops->save_context != NULL)
			ops->save_context(ch, o);
	}
}

static int
send_fds(int sock, const int *fds, unsigned n)
{
	uint32_t count = n;

	return passing_send(sock, &count, sizeof(count), fds, n, 0) == (ssize_t)sizeof(count)
		? 0
		: -errno;
}

static int
image_fd(const struct image_out *o)
{
	int fd = memfd_create("pmx-takeover", MFD_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < o->len) {
		ssize_t n = write(fd, o->at + done, o->len - done);

		if (n <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)n;
	}
	return fd;
}

static int
give_descriptors(struct node *n, int image, const struct takeover_attachments *door)
{
	const int first[] = {image, door->listener};
	int fds[PASSING_MAX], result = send_fds(n->successor, first, 2);

	for (unsigned i = 0; i < door->connections && result == 0; i++)
		result = send_fds(n->successor, &door->connection[i].fd, 1);
	for (unsigned i = 0; i < n->engines[0].open_count && result == 0; i++) {
		const struct channel *ch = n->engines[0].open[i];
		unsigned k = 0;

		fds[k++] = ch->event_fd;
		fds[k++] = ch->doorbell;
		fds[k++] = ch->thin->memory->fd;
		for (unsigned j = 0; j < MEMORIES_MAX; j++) {
			if (ch->space.pieces[j] != NULL)
				fds[k++] = ch->space.pieces[j]->fd;
		}
		result = send_fds(n->successor, fds, k);
	}
	return result;
}

int
takeover_give(struct node *n)
{
	static struct takeover_attachments door;
	struct engine *e = &n->engines[0];
	struct giving g = {.n = n};
	struct image_out o = {0};
	const struct proto_config p = node_proto_config(e);
	const struct timeval patience = {.tv_sec = PATIENCE_S};

	/* mbufs return from the ports, so that nothing else reads what is given */
	for (unsigned i = 0; i < n->link_count; i++)
		link_close(&n->links[i]);
	/* frames that wait for a link are dropped, as if the network had lost them */
	for (unsigned i = 0; i < n->link_count; i++) {
		rte_pktmbuf_free_bulk(e->txq[i].m, e->txq[i].n);
		e->txq[i].n = 0;
	}
	proto_begin(e->proto, e->polled_at, rte_rdtsc());
	engine_deliver(e);
	engine_complete(e);
	engine_flush(e);
	attach_save(&door);
	fcntl(n->successor, F_SETFL, fcntl(n->successor, F_GETFL) & ~O_NONBLOCK);
	setsockopt(n->successor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	proto_swap_handles(e->proto, name_handle, &g);

	struct head h = {
		.magic = MAGIC,
		.head_bytes = sizeof(h),
		.channel_bytes = sizeof(struct saved_channel),
		.epoch = n->epoch,
		.channels = e->open_count,
		.connections = door.connections,
		.frames = g.count,
		.proto_bytes = proto_memsize(&p),
	};

	memcpy(h.counters, e->counters, sizeof(h.counters));
	image_put(&o, &h, sizeof(h));
	image_put(&o, e->proto, h.proto_bytes);
	image_put(&o, g.frames.at, g.frames.len);
	SERVICE_FOREACH(ops, e->services) {
		if (ops->save != NULL)
			ops->save(e, &o);
	}
	image_put(&o, &door, sizeof(door));
	for (unsigned i = 0; i < e->open_count; i++)
		put_channel(e, &o, e->open[i]);
	int image = g.frames.failed || o.failed ? -1 : image_fd(&o);
	int result = image < 0 ? -ENOMEM : give_descriptors(n, image, &door);

	free(o.at);
	free(g.frames.at);
	close(n->successor);
	return result;
}

/* ------------------------------------------------------------------ taking */

/* Receive the next message's descriptors. Return 0, -EMFILE, or -EPIPE. */
static int
receive_fds(struct takeover *t)
{
	uint32_t count = 0;

	if (passing_receive(t->sock, &count, sizeof(count), t->fds, PASSING_MAX, &t->fd_count) !=
		(ssize_t)sizeof(count))
		return errno == EMFILE ? -EMFILE : -EPIPE;
	return t->fd_count == count ? 0 : -EPIPE;
}

static int
map_image(struct takeover *t, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(struct head))
		return -EPROTO;
	t->image_bytes = (size_t)st.st_size;
	t->image = mmap(NULL, t->image_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	return t->image == MAP_FAILED ? -errno : 0;
}

static int
takeover_fail(char *error, uint32_t error_len, int code, const char *what)
{
	snprintf(error, error_len, "take-over: %s: %s", what, strerror(-code));
	return code;
}

/* Receive the old primary's answer. Before it gives the node, it asks whether anybody is there:
 * answer that. Return false if it goes away. */
static bool
get_reply(int sock, struct attach_reply *reply)
{
	const uint8_t yes = 1;

	while (recv(sock, reply, sizeof(*reply), 0) == (ssize_t)sizeof(*reply)) {
		if (reply->abi != CHANNEL_ABI || reply->result != TAKEOVER_READY)
			return true;
		if (send(sock, &yes, sizeof(yes), MSG_NOSIGNAL) != sizeof(yes))
			return false;
	}
	return false;
}

/* Return whether the other end is a process of this user, or of root. */
static bool
is_of_ours(int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
		(cred.uid == geteuid() || cred.uid == 0);
}

struct takeover *
takeover_ask(struct node *n, const char *path, char *error, uint32_t error_len)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_TAKE_OVER,
		.pid = getpid(),
		.addr = takeover_terms(n),
	};
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct takeover *t = calloc(1, sizeof(*t));
	struct attach_reply reply = {0};
	int code = 0;

	if (t == NULL)
		return NULL;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	t->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	setsockopt(t->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(t->sock, (struct sockaddr *)&at, sizeof(at)) != 0)
		code = takeover_fail(error, error_len, -errno, path);
	else if (!is_of_ours(t->sock))
		code = takeover_fail(error, error_len, -EPERM,
			"who listens there is neither this user's nor root's: what it would give "
			"is not taken");
	else if (send(t->sock, &request, sizeof(request), MSG_NOSIGNAL) !=
			(ssize_t)sizeof(request) ||
		!get_reply(t->sock, &reply))
		code = takeover_fail(error, error_len, -EPIPE, "the old primary does not answer");
	else if (reply.abi != CHANNEL_ABI || reply.result == -EINVAL)
		code = takeover_fail(error, error_len, -EPROTO,
			"the old primary is of another build or configuration, and goes on: only "
			"what is not in its channels may differ ([nodes], [link], [access], "
			"priorities)");
	else if (reply.result != 0)
		code = takeover_fail(error, error_len, reply.result,
			reply.result == -EBUSY ? "the old primary goes on, for transfers or "
						 "contexts that end do not: try again"
					       : "the old primary refuses, and goes on");
	else if ((code = receive_fds(t)) != 0 || t->fd_count != 2 ||
		(code = map_image(t, t->fds[0])) != 0)
		code = takeover_fail(error, error_len, code ? code : -EPROTO,
			"what the old primary gave is not whole");
	if (code != 0) {
		close(t->sock);
		free(t);
		return NULL;
	}
	t->listener = t->fds[1];
	return t;
}

struct taking {
	struct node *n;
	struct rte_mbuf **frames;
	uint32_t count;
	bool failed;
};

/* Take that buffer of an inline message out of the free ones. */
static void
inline_remove(struct channel *ch, uint16_t number)
{
	for (uint32_t i = 0; i < ch->inline_free; i++) {
		if (ch->inline_slot[i] == number) {
			ch->inline_slot[i] = ch->inline_slot[--ch->inline_free];
			return;
		}
	}
}

/* Mark a slot as not with the client: it is in use, in that state. */
static void
slot_away(struct channel *ch, uint16_t number, enum slot_state state)
{
	ch->slots[number].state = state;
	if (number >= ch->send_buffers)
		inline_remove(ch, number);
	ch->busy_slots++;
}

static uint64_t
mean_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct taking *k = arg;

	if (!sent) {
		if (handle & THIN_FRAME)
			return handle;
		if (handle < k->count)
			return (uintptr_t)k->frames[handle];
		k->failed = true;
		return 0;
	}
	const uint64_t ctx = (handle & ~HAS_BUFFER) >> 16;
	struct channel *ch = ctx < k->n->config.contexts ? &k->n->channels[ctx] : NULL;
	uint16_t number = handle & 0xFFFF;

	if (ch == NULL || ch->state != CHANNEL_OPEN || number >= channel_send_slots(ch)) {
		k->failed = true;
		return 0;
	}
	const struct send_slot *s = &ch->slots[number];

	slot_away(ch, number, SEND_QUEUED);
	if (handle & HAS_BUFFER && slot_is_absent(k->n, s) && !context_keeps(k->n, ch, number)) {
		k->failed = true;
		return 0;
	}
	if (ch->thin != NULL && !slot_is_absent(k->n, s))
		thin_fill(ch, &number, 1, len);
	return (uintptr_t)s;
}

static bool
get_frames(struct image_in *in, struct taking *k)
{
	k->frames = calloc(k->count ? k->count : 1, sizeof(*k->frames));
	for (uint32_t i = 0; k->frames != NULL && i < k->count; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(k->n->pool);
		uint32_t len;

		if (m == NULL || !image_get(in, &len, sizeof(len)) ||
			len > rte_pktmbuf_tailroom(m) ||
			!image_get(in, rte_pktmbuf_mtod(m, void *), len))
			return false;
		m->data_len = (uint16_t)len;
		m->pkt_len = len;
		k->frames[i] = m;
	}
	return k->frames != NULL;
}

static void
resume_inlet(struct inlet *in, const struct saved_inlet *s)
{
	in->lhs.pos = s->pos;
	in->lhs_pos = s->lhs_pos;
	in->bulk_out = s->bulk_out;
}

/* The parts of an image that are of one context. */
struct saved {
	struct saved_channel s;
	const uint8_t *bufs, *free, *recalled, *recalled_slot, *done, *memories;
};

static bool
get_saved(struct image_in *in, struct saved *to)
{
	struct saved_channel *s = &to->s;

	return image_get(in, s, sizeof(*s)) &&
		(to->bufs = image_part(in, s->bufs * sizeof(struct saved_buf))) != NULL &&
		(to->free = image_part(in, s->free_count * sizeof(uint32_t))) != NULL &&
		(to->recalled = image_part(in, s->recalled * sizeof(struct recalled))) != NULL &&
		(to->recalled_slot = image_part(in, s->recalled_slots * sizeof(uint16_t))) !=
		NULL &&
		(to->done = image_part(in, s->done * sizeof(uint32_t))) != NULL &&
		(to->memories = image_part(in, s->memories * sizeof(struct saved_memory))) != NULL;
}

static void
resume_channel(struct channel *ch, const struct saved *from)
{
	const struct saved_channel *s = &from->s;
	struct thin *thin = ch->thin;

	ch->selects = s->selects;
	ch->received = s->received;
	ch->sent = s->sent;
	ch->bad = s->bad;
	ch->inline_done = ch->inline_told = s->inline_done;
	ch->inline_failed = s->inline_failed;
	ch->sub.pos = s->sub_pos;
	ch->sub.other = s->sub_other;
	ch->com.pos = s->com_pos;
	ch->com.other = s->com_other;
	resume_inlet(&ch->plain, &s->plain);
	resume_inlet(&ch->matched, &s->matched);
	for (uint32_t i = 0; i < s->bufs; i++) {
		struct saved_buf b;

		memcpy(&b, from->bufs + i * sizeof(b), sizeof(b));
		thin->bufs[i] = (struct buf_state){
			.owner = b.owner,
			.head = b.head,
			.matched = b.matched,
			.next = b.next,
		};
	}
	thin->free_count = s->free_count;
	memcpy(thin->free, from->free, s->free_count * sizeof(*thin->free));
	thin->frames_kept = s->frames_kept;
	thin->recalled_count = s->recalled;
	thin->recalled_slots = s->recalled_slots;
	memcpy(thin->recalled, from->recalled, s->recalled * sizeof(*thin->recalled));
	memcpy(thin->recalled_slot, from->recalled_slot,
		s->recalled_slots * sizeof(*thin->recalled_slot));
	for (uint32_t i = 0; i < s->recalled_slots; i++)
		slot_away(ch, thin->recalled_slot[i], SEND_LOCAL);
	memcpy(ch->done, from->done, s->done * sizeof(*ch->done));
	ch->done_tail = s->done;
}

/* Map a thin client's memory. Return NULL if it cannot be mapped, or does not fit. */
static struct thin *
make_thin(struct node *n, struct takeover *t, const struct saved_channel *s)
{
	const struct channel *ch = &n->channels[s->ctx];
	struct thin *thin = s->done <= ch->done_mask + 1
		? thin_make(n, &s->q, t->fds[2], s->region_bytes, MEMORY_AGAIN)
		: NULL;

	if (thin == NULL)
		return NULL;
	const uint32_t slots = s->q.send + s->q.inlined;

	if (thin->count != s->bufs || s->free_count > s->bufs || s->recalled > slots ||
		s->recalled_slots > slots) {
		memory_discard(&n->mappings, thin->memory);
		return NULL;
	}
	/* use the eventfds that the client has */
	close(thin->event_fd);
	close(thin->doorbell);
	thin->event_fd = t->fds[0];
	thin->doorbell = t->fds[1];
	t->fds[0] = t->fds[1] = -1;
	return thin;
}

static bool
map_memories(struct node *n, struct takeover *t, const struct saved *from)
{
	struct memory_space *space = &n->channels[from->s.ctx].space;

	for (uint32_t i = 0; i < from->s.memories; i++) {
		struct saved_memory m;

		memcpy(&m, from->memories + i * sizeof(m), sizeof(m));
		if (m.number >= MEMORIES_MAX)
			return false;
		space->pieces[m.number] = memory_make(&n->mappings, t->fds[3 + i], m.len, m.client,
			m.watched < REGIONS_WATCHED ? (uint16_t)(m.watched + 1) : 0,
			MEMORY_OF_THIN | MEMORY_AGAIN);
		if (space->pieces[m.number] == NULL)
			return false;
		space->count++;
		space->bytes += m.len;
	}
	return true;
}

/* Restore a channel. Return false if the image is incomplete. A context that cannot go on is
 * restored too, since the core has frames of it, and marked in t->bad for end_bad(). */
static bool
get_channel(struct engine *e, struct takeover *t, struct image_in *in)
{
	struct node *n = e->node;
	struct saved from;

	if (!get_saved(in, &from) || from.s.ctx >= n->config.contexts || receive_fds(t) != 0 ||
		t->fd_count != 3 + from.s.memories)
		return false;
	struct channel *ch = &n->channels[from.s.ctx];
	struct thin *thin = make_thin(n, t, &from.s);

	if (context_resume(e, ch, &from.s.q, thin, from.s.preempted == PREEMPTED_PARKED) != 0)
		return false;
	ch->generation = from.s.generation;
	ch->pid = from.s.pid;
	ch->job = from.s.job;
	ch->domain = from.s.domain;
	ch->open_wait = from.s.open_wait;
	ch->parks = from.s.parks;
	t->preempted[from.s.ctx] = from.s.preempted;
	SERVICE_FOREACH(ops, e->services) {
		if (ops->restore_context != NULL && !ops->restore_context(ch, in))
			return false;
	}
	if (thin != NULL)
		resume_channel(ch, &from);
	t->bad[from.s.ctx] = thin == NULL || !map_memories(n, t, &from);
	for (unsigned i = 0; i < t->fd_count; i++) {
		if (t->fds[i] >= 0)
			close(t->fds[i]);
	}
	channel_touch(e, ch);
	return true;
}

/* End contexts that cannot go on, and the others of their clients, which learn it by the end of
 * their connection. */
static void
end_bad(struct engine *e, struct takeover *t)
{
	const uint32_t contexts = e->node->config.contexts;

	for (uint32_t i = 0; i < contexts; i++) {
		int owner = t->door.owner[i];

		if (!t->bad[i] || e->node->channels[i].state != CHANNEL_OPEN)
			continue;
		for (uint32_t k = 0; k < contexts; k++) {
			struct command cmd = {.op = COMMAND_ABORT, .ctx = (uint16_t)k};

			if (k == i || (owner != SECONDARY && t->door.owner[k] == owner))
				engine_command(e, &cmd);
		}
		for (unsigned c = 0; c < t->door.connections; c++) {
			if (t->door.connection[c].number == owner)
				t->door.connection[c].bad = true;
		}
		log_say(LOG_CONTEXT, RTE_LOG_WARNING,
			"the memory of context %u cannot be mapped after taking over: it ends, and "
			"all of its process",
			i);
	}
}

static bool
get_lane(struct engine *e, struct image_in *in)
{
	SERVICE_FOREACH(ops, e->services) {
		if (ops->restore != NULL && !ops->restore(e, in))
			return false;
	}
	return true;
}

static bool
get_door(struct takeover *t, struct image_in *in)
{
	if (!image_get(in, &t->door, sizeof(t->door)) ||
		t->door.connections > sizeof(t->door.connection) / sizeof(t->door.connection[0]))
		return false;
	t->door.listener = t->listener;
	for (unsigned i = 0; i < t->door.connections; i++) {
		if (receive_fds(t) != 0 || t->fd_count != 1)
			return false;
		t->door.connection[i].fd = t->fds[0];
	}
	return true;
}

int
takeover_resume(struct node *n, struct takeover *t, char *error, uint32_t error_len)
{
	struct engine *e = &n->engines[0];
	struct image_in in = {t->image, t->image + t->image_bytes};
	struct proto_config p = node_proto_config(e);
	struct taking k = {.n = n};
	struct head h;

	guard_begin();
	if (!image_get(&in, &h, sizeof(h)) || h.magic != MAGIC || h.head_bytes != sizeof(h) ||
		h.channel_bytes != sizeof(struct saved_channel) ||
		h.proto_bytes != proto_memsize(&p) || !image_get(&in, e->proto, h.proto_bytes) ||
		proto_adopt((void *)e->proto, &p) == NULL)
		return takeover_fail(error, error_len, -EPROTO,
			"the state is not of this build and configuration");
	node_tell_strangers(e);
	n->epoch = h.epoch;
	lane_rails_expect(e);
	memcpy(e->counters, h.counters, sizeof(h.counters));
	k.count = h.frames;
	bool good = get_frames(&in, &k) && get_lane(e, &in) && get_door(t, &in);

	for (uint32_t i = 0; i < h.channels && good; i++)
		good = get_channel(e, t, &in);
	if (good) {
		SERVICE_FOREACH(ops, e->services) {
			good &= ops->restored == NULL || ops->restored(e);
		}
	}
	if (good) {
		proto_swap_handles(e->proto, mean_handle, &k);
		e->now = rte_rdtsc();
		if (!k.failed) {
			freeze_end(e);
			for (unsigned i = 0; i < e->open_count; i++)
				preempt_resume(e, e->open[i], t->preempted[e->open[i]->ctx]);
			end_bad(e, t);
		}
	}
	free(k.frames);
	if (!good || k.failed)
		return takeover_fail(error, error_len, -EPROTO, "the state is not whole");
	log_say(LOG_NODE, RTE_LOG_NOTICE, "took over: %u contexts, %u connections, %u frames",
		h.channels, t->door.connections, h.frames);
	return 0;
}

const struct takeover_attachments *
takeover_attachments(const struct takeover *t)
{
	return t != NULL ? &t->door : NULL;
}

void
takeover_free(struct takeover *t)
{
	if (t == NULL)
		return;
	munmap(t->image, t->image_bytes);
	close(t->sock);
	free(t);
}
