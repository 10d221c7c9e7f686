/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes a node from a configuration, up to lanes that can poll, and frees it. Everything is
 * allocated here, in the starting thread, before the first poll.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_memzone.h>

#include "engine/contexts.h"
#include "engine/encap.h"
#include "engine/link_io.h"
#include "engine/neighbours.h"
#include "engine/rails.h"
#include "engine/turns.h"
#include "memory/memory.h"
#include "memory/numa.h"
#include "node/keeper.h"
#include "node/node.h"
#include "node/sizes.h"

#define BUFFERS_USUAL 16384u
/* an EAL with a fixed amount of memory (-m) has at least this much at its start */
#define HEAP_OF_M     (32ull << 20)

_Noreturn void
proto_assert_failed(const char *what, const char *file, int line)
{
	rte_panic("%s:%d: assertion failed: %s\n", file, line, what);
}

static __attribute__((format(printf, 3, 4))) int
node_fail(struct node *n, int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(n->error, sizeof(n->error), fmt, args);
	va_end(args);
	return error;
}

/* ------------------------------------------------------------------ buffers */

static void
number_buffer(struct rte_mempool *pool, void *arg, void *obj, unsigned index)
{
	struct node *n = arg;

	(void)pool;
	buf_priv(obj)->number = index;
	n->bufs[index] = (struct buf_state){.owner = BUF_FREE, .m = obj, .next = UINT32_MAX};
}

/* Return whether the EAL has memory of a fixed amount on that NUMA node. */
static bool
has_heap(int numa, struct rte_malloc_socket_stats *heap)
{
	return rte_malloc_get_socket_stats(numa, heap) == 0 &&
		heap->heap_totalsz_bytes >= HEAP_OF_M;
}

/* Choose the number of mbufs for limits.mbufs = auto: as many as all contexts need to be open with
 * the buffers of a default one, if the EAL's memory suffices. */
static void
choose_buffers(struct config *c, int numa)
{
	uint64_t page_bytes = rte_eal_has_hugepages() ? RTE_PGSIZE_2M
						      : (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t wanted = node_config_buffers_wanted(c);
	struct rte_malloc_socket_stats heap;
	struct config_memory m;

	c->mbufs = wanted;
	if (!has_heap(numa, &heap) && !has_heap((int)rte_socket_id(), &heap))
		return; /* the EAL's heap grows on demand */
	node_config_memory(c, page_bytes, &m);
	if (c->alone) {
		/* a primary that takes over must get the same number as the previous one, so this
		 * must not depend on what happens to be free */
		c->mbufs = node_config_buffers_fit(c, heap.heap_totalsz_bytes, page_bytes);
	} else {
		/* another node of this process may need as much */
		c->mbufs = node_config_buffers_fit(c, heap.heap_freesz_bytes / 2, page_bytes);
		if (c->mbufs < BUFFERS_USUAL)
			c->mbufs = RTE_MIN(
				node_config_buffers_fit(c, heap.heap_freesz_bytes, page_bytes),
				BUFFERS_USUAL);
	}
	if (c->mbufs < wanted && c->alone)
		RTE_LOG(NOTICE, USER1,
			"pmx: %u packet buffers; %u would do for all %u contexts with all of their "
			"buffers, and take %u MiB with all else: give the EAL more memory (-m), or "
			"ask for less in [limits]\n",
			c->mbufs, wanted, c->contexts, (uint32_t)(m.all >> 20));
}

static struct rte_mempool *
pool_new(const struct node *n)
{
	char name[32];

	snprintf(name, sizeof(name), "pmx_%u_mbufs", n->config.id);
	return numa_pool(name, n->config.mbufs, POOL_CACHE, RTE_ALIGN(sizeof(struct buf_priv), 64),
		(uint16_t)(RTE_PKTMBUF_HEADROOM + n->frame_room), n->pool_numa);
}

static int
make_pool(struct node *n)
{
	struct config *c = &n->config;
	bool chosen = c->mbufs == 0;
	struct buffer_shares shares;

	n->frag_len = config_payload_max(c);
	n->frame_room = node_config_frame_room(c);
	if (chosen)
		choose_buffers(c, n->pool_numa);
	n->pool = pool_new(n);
	while (n->pool == NULL && chosen && c->mbufs > node_config_buffers_least(c)) {
		/* there were not enough hugepages for the heap to grow */
		c->mbufs = RTE_MAX(c->mbufs / 4 * 3, node_config_buffers_least(c));
		n->pool = pool_new(n);
	}
	if (n->pool == NULL)
		return node_fail(n, -rte_errno,
			"no memory for limits.mbufs = %u buffers of %u bytes "
			"(%u MiB): %s. Reserve hugepages with "
			"dpdk-config/hugepages.sh, give the EAL more with -m, or lower "
			"limits.mbufs",
			c->mbufs, n->frame_room,
			(uint32_t)((uint64_t)c->mbufs * (n->frame_room + 384) >> 20),
			rte_strerror(rte_errno));
	const struct rte_mempool_memhdr *at = STAILQ_FIRST(&n->pool->mem_list);
	const struct rte_memseg *page = at != NULL ? rte_mem_virt2memseg(at->addr, NULL) : NULL;

	if (page != NULL)
		n->pool_numa = page->socket_id;
	n->bufs_count = c->mbufs;
	n->bufs = calloc(c->mbufs, sizeof(*n->bufs));
	if (n->bufs == NULL)
		return node_fail(n, -ENOMEM, "no memory for the table of %u buffers", c->mbufs);
	rte_mempool_obj_iter(n->pool, number_buffer, n);
	node_config_divide_buffers(c, &shares);
	atomic_store(&n->mbufs_left, shares.contexts);
	n->context_least = shares.context_least;
	n->context_fair = (uint32_t)(shares.contexts / config_residents(c));
	rte_mbuf_refcnt_set(&n->absent, 1);
	n->assembly_frames = shares.assembly;
	return 0;
}

/* ------------------------------------------------------------------ links and peers */

static int
open_links(struct node *n)
{
	struct config *c = &n->config;

	/* numbered from 0, and there is at least one: node_config_check() */
	for (unsigned i = 0; i < CONFIG_LINKS_MAX && c->links[i].used; i++) {
		c->links[i].link.queues = c->lanes;
		int e = link_open(&n->links[i], &c->links[i].link, (uint16_t)c->id, n->pool);

		if (e != 0)
			return node_fail(n, e, "[link %u]: %s", i, n->links[i].error);
		n->link_count++;
		if (n->links[i].tx_queues < c->lanes) {
			char name[32];

			snprintf(name, sizeof(name), "pmx_%u_link_%u", c->id, i);
			n->handover[i] = numa_ring(name, HANDOVER_RING, RING_F_SC_DEQ, n->numa[0]);
			if (n->handover[i] == NULL)
				return node_fail(n, -ENOMEM, "[link %u]: no memory for hand-over",
					i);
		}
	}
	return 0;
}

static int
make_peers(struct node *n)
{
	struct config *c = &n->config;

	n->peers = rte_zmalloc("pmx_peers", sizeof(*n->peers) * c->nodes_max, 0);
	n->announced = rte_zmalloc("pmx_announced", sizeof(*n->announced) * c->nodes_max, 0);
	if (config_link_count(c) > 1)
		n->peers_by_link = rte_zmalloc("pmx_peers_by_link",
			sizeof(*n->peers) * c->nodes_max * CONFIG_LINKS_MAX, 0);
	if (n->peers == NULL || n->announced == NULL || neighbours_make(n) != 0 ||
		(n->peers_by_link == NULL && config_link_count(c) > 1))
		return node_fail(n, -ENOMEM, "no memory for limits.nodes = %u", c->nodes_max);
	for (uint32_t i = 0; i < c->nodes_max; i++) {
		if (c->peers[i].links == 0 || i == c->id)
			continue;
		int e = peer_set(n, (uint16_t)i, &c->peers[i]);

		if (e != 0)
			return node_fail(n, e, "[nodes] %u: the link cannot reach it: %s", i,
				strerror(-e));
	}
	return 0;
}

/* ------------------------------------------------------------------ channels */

static int
make_channel(struct node *n, uint16_t ctx)
{
	struct channel *ch = &n->channels[ctx];

	char name[RTE_MEMZONE_NAMESIZE];

	snprintf(name, sizeof(name), CHANNEL_NAME, n->config.id, ctx);
	ch->zone = numa_memzone(name, channel_bytes(&n->geometry), 64,
		n->numa[ctx % n->config.lanes]);
	if (ch->zone == NULL)
		return node_fail(n, -ENOMEM,
			"no memory for channel %u of limits.contexts = %u (%u KiB "
			"each): %s. Lower limits.contexts, lhs_entries or submissions, or reserve "
			"more hugepages (dpdk-config/hugepages.sh)",
			ctx, n->config.contexts, (uint32_t)(channel_bytes(&n->geometry) >> 10),
			rte_strerror(rte_errno));
	ch->ctx = ctx;
	ch->plain.ch = ch->matched.ch = ch;
	ch->shm = ch->own = ch->zone->addr;
	memset(ch->shm, 0, ch->zone->len);
	ch->slots = calloc(node_send_slots(&n->config), sizeof(*ch->slots));
	ch->terms = calloc(node_send_slots(&n->config), sizeof(*ch->terms));
	ch->done_mask = rte_align32pow2(n->config.send_buffers) - 1;
	ch->done = calloc(ch->done_mask + 1, sizeof(*ch->done));
	ch->event_fd = ch->own_event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ch->doorbell = ch->own_doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	bool made = true;

	SERVICE_FOREACH(ops, &n->services) {
		made = made && (ops->make_context == NULL || ops->make_context(n, ch) == 0);
	}
	if (ch->slots == NULL || ch->terms == NULL || ch->done == NULL || ch->event_fd < 0 ||
		ch->doorbell < 0 || !made)
		return node_fail(n, -ENOMEM,
			"no memory or descriptors for channel %u: raise ulimit -n, or lower "
			"limits.contexts",
			ctx);
	return 0;
}

static int
make_channels(struct node *n)
{
	const struct config *c = &n->config;

	n->geometry = node_config_geometry(c);
	n->layout = channel_layout(&n->geometry);
	n->channels = calloc(c->contexts, sizeof(*n->channels));
	if (n->channels == NULL)
		return node_fail(n, -ENOMEM, "no memory for limits.contexts = %u", c->contexts);
	for (uint32_t i = 0; i < c->contexts; i++) {
		int e = make_channel(n, (uint16_t)i);

		if (e != 0)
			return e;
	}
	return 0;
}

/* ------------------------------------------------------------------ lanes */

struct proto_config
node_proto_config(const struct engine *e)
{
	struct proto_config p = node_config_core(&e->node->config);

	p.epoch = e->node->epoch;
	memcpy(p.key, e->node->key, sizeof(p.key));
	p.lane = e->lane;
	p.ticks_per_sec = rte_get_tsc_hz();
	p.port_bps = e->node->link_count == 1 ? e->node->links[0].rate_bps : 0;
	return p;
}

static int
make_core(struct node *n, struct engine *e)
{
	struct proto_config p = node_proto_config(e);
	size_t bytes = proto_memsize(&p);
	void *memory = numa_zmalloc("pmx_core", bytes, 64, n->numa[e->lane]);

	if (memory == NULL)
		return node_fail(n, -ENOMEM,
			"no memory for the protocol core (%zu MiB): lower limits.flows, peers or "
			"mbufs, or reserve more hugepages",
			bytes >> 20);
	e->proto = proto_init(memory, &p, rte_rdtsc());
	node_tell_strangers(e);
	return 0;
}

void
node_tell_strangers(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nodes_max; i++)
		proto_node_stranger(e->proto, (uint16_t)i,
			e->node->config.peers[i].links == 0 && i != e->node->config.id);
}

static int
make_rails(struct node *n, struct engine *e)
{
	return lane_rails_make(e) == 0
		? 0
		: node_fail(n, -ENOMEM, "no memory for the links of limits.nodes = %u",
			  e->nodes_max);
}

static int
make_lane(struct node *n, unsigned lane)
{
	struct engine *e = &n->engines[lane];
	const struct config *c = &n->config;
	struct epoll_event event = {.events = EPOLLIN};
	char name[32];

	e->node = n;
	e->lane = lane;
	e->peers = n->peers;
	e->nodes_max = c->nodes_max;
	e->sweep = TURNS_SWEEP;
	engine_links(e);
	e->open = calloc(c->contexts, sizeof(*e->open));
	e->dirty = calloc(c->contexts, sizeof(*e->dirty));
	e->lingering = calloc((size_t)c->contexts * node_send_slots(c), sizeof(*e->lingering));
	e->handles = calloc(c->send_buffers, sizeof(*e->handles));
	e->bufs_scratch = calloc(c->send_buffers + SUBMIT_SEND_BUFS, sizeof(*e->bufs_scratch));
	e->swap = calloc(c->send_buffers, sizeof(*e->swap));
	e->out = numa_zmalloc("pmx_out", sizeof(*e->out) * BURST_MAX, 64, n->numa[lane]);
	if (!e->open || !e->dirty || !e->lingering || !e->handles || !e->bufs_scratch || !e->swap ||
		!e->out)
		return node_fail(n, -ENOMEM, "no memory for lane %u", lane);
	snprintf(name, sizeof(name), "pmx_%u_inbox_%u", c->id, lane);
	e->inbox = numa_ring(name, node_config_inbox_entries(c), RING_F_SC_DEQ, n->numa[lane]);
	e->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	e->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->inbox == NULL || e->doorbell < 0 || e->sleep_fd < 0)
		return node_fail(n, -ENOMEM, "no memory or descriptors for lane %u", lane);
	event.events = RINGS;
	epoll_ctl(e->sleep_fd, EPOLL_CTL_ADD, e->doorbell, &event);
	for (uint32_t i = lane; i < c->contexts; i += c->lanes) {
		event.data.u32 = BELL_OF(i);
		epoll_ctl(e->sleep_fd, EPOLL_CTL_ADD, n->channels[i].own_doorbell, &event);
	}
	event.events = EPOLLIN;
	event.data.u32 = 0;
	e->links_wake = true;
	for (unsigned i = 0; i < n->link_count; i++) {
		struct link *l = &n->links[i];
		int fd = lane < l->rx_queues && l->ops->rx_fd ? l->ops->rx_fd(l, (uint16_t)lane)
							      : -1;

		if (fd < 0 || epoll_ctl(e->sleep_fd, EPOLL_CTL_ADD, fd, &event) != 0)
			e->links_wake = false;
	}
	e->services = &n->services;
	SERVICE_FOREACH(ops, &n->services) {
		int result = ops->make != NULL ? ops->make(e, n->error, sizeof(n->error)) : 0;

		if (result != 0)
			return result;
	}
	int result = make_core(n, e);

	return result != 0 ? result : make_rails(n, e);
}

static int
make_lanes(struct node *n)
{
	n->engines = rte_zmalloc("pmx_lanes", sizeof(*n->engines) * n->config.lanes, 64);
	if (n->engines == NULL)
		return node_fail(n, -ENOMEM, "no memory for engine.lanes = %u", n->config.lanes);
	for (unsigned i = 0; i < n->config.lanes; i++) {
		struct numa_policy before;

		numa_prefer(n->numa[i], &before);
		int e = make_lane(n, i);

		numa_prefer_as(&before);
		if (e != 0)
			return e;
	}
	return 0;
}

/* Find out on which NUMA nodes the memory of the lanes and the pool is to lie. */
static void
node_place(struct node *n)
{
	const struct link_config *first = &n->config.links[0].link;

	for (unsigned lane = 0; lane < n->config.lanes; lane++)
		n->numa[lane] = numa_of_lane(lane);
	n->pool_numa = link_driver(first->driver)->port ? numa_of_port(first->port, n->numa[0])
							: n->numa[0];
}

static int
draw_secrets(struct node *n)
{
	if (getrandom(n->key, sizeof(n->key), 0) != sizeof(n->key) ||
		getrandom(&n->epoch, sizeof(n->epoch), 0) != sizeof(n->epoch))
		return node_fail(n, -errno, "getrandom: %s", strerror(errno));
	n->epoch |= 1;
	return 0;
}

int
node_make(struct node **out, struct config *config, char *error, uint32_t error_len)
{
	struct node *n = calloc(1, sizeof(*n));
	int e;

	if (n == NULL) {
		snprintf(error, error_len, "no memory");
		return -ENOMEM;
	}
	n->config = *config;
	config->peers = NULL;
	descriptors_raise(node_config_descriptors(&n->config));
	pthread_mutex_init(&n->command_lock, NULL);
	e = services_init(&n->services, features_engine);
	mappings_init(&n->mappings, n->links, &n->link_count);
	node_place(n);
	if (e == 0)
		e = draw_secrets(n);
	else
		node_fail(n, e, "two services want the same number, endpoint or submission");
	if (e != 0 || (e = make_pool(n)) != 0 || (e = make_channels(n)) != 0) {
		snprintf(error, error_len, "%s", n->error);
		node_stop(n);
		return e;
	}
	*out = n;
	return 0;
}

int
node_link(struct node *n, char *error, uint32_t error_len)
{
	int e;

	if ((e = open_links(n)) != 0 || (e = make_peers(n)) != 0 || (e = make_lanes(n)) != 0)
		snprintf(error, error_len, "%s", n->error);
	else
		e = keeper_begin(n, error, error_len);
	if (e != 0)
		node_stop(n);
	return e;
}

int
node_start(struct node **out, struct config *config, char *error, uint32_t error_len)
{
	struct node *n;
	int e = node_make(&n, config, error, error_len);

	if (e == 0)
		e = node_link(n, error, error_len);
	if (e == 0)
		*out = n;
	return e;
}

/* ------------------------------------------------------------------ stop */

static void
free_lane(struct node *n, struct engine *e)
{
	struct proto_delivery d;
	uint64_t handle;

	while (e->proto && proto_deliver(e->proto, &d, 1))
		rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)d.handle);
	while (e->proto && proto_release(e->proto, &handle, 1))
		rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)handle);
	for (unsigned i = 0; i < n->link_count; i++)
		rte_pktmbuf_free_bulk(e->txq[i].m, e->txq[i].n);
	rte_ring_free(e->inbox);
	lane_rails_free(e);
	rte_free(e->proto);
	rte_free(e->out);
	free(e->open);
	free(e->dirty);
	free(e->lingering);
	free(e->handles);
	free(e->bufs_scratch);
	free(e->swap);
	SERVICE_FOREACH_REVERSE(ops, &n->services) {
		if (ops->free != NULL)
			ops->free(e);
	}
	if (e->node != NULL) {
		close(e->doorbell);
		close(e->sleep_fd);
	}
}

static void
end_channel(struct channel *ch)
{
	atomic_store_explicit(&ch->shm->state, CHANNEL_DEAD, memory_order_release);
	/* wake a client that sleeps */
	eventfd_write(ch->event_fd, 1);
}

static void
free_channel(struct node *n, struct channel *ch)
{
	if (ch->shm == NULL)
		return;
	end_channel(ch);
	rte_memzone_free(ch->zone);
	free(ch->slots);
	free(ch->terms);
	free(ch->done);
	space_end(&n->mappings, &ch->space);
	thin_end(n, ch);
	SERVICE_FOREACH(ops, &n->services) {
		if (ops->free_context != NULL)
			ops->free_context(ch);
	}
	close(ch->own_event_fd);
	close(ch->own_doorbell);
}

void
node_end(struct node *n)
{
	keeper_end(n);
	for (unsigned i = 0; i < n->link_count; i++)
		link_close(&n->links[i]);
	for (uint32_t i = 0; i < n->config.contexts; i++)
		end_channel(&n->channels[i]);
}

void
node_stop(struct node *n)
{
	if (n == NULL)
		return;
	keeper_end(n);
	/* links first, since mbufs that they still hold return to the pool */
	for (unsigned i = 0; i < n->link_count; i++) {
		link_close(&n->links[i]);
		rte_ring_free(n->handover[i]);
	}
	for (unsigned i = 0; n->engines != NULL && i < n->config.lanes; i++)
		free_lane(n, &n->engines[i]);
	for (uint32_t i = 0; n->channels != NULL && i < n->config.contexts; i++)
		free_channel(n, &n->channels[i]);
	mappings_free(&n->mappings);
	rte_free(n->engines);
	free(n->channels);
	neighbours_free(n);
	rte_free(n->peers);
	rte_free(n->announced);
	rte_free(n->peers_by_link);
	free(n->bufs);
	rte_mempool_free(n->pool);
	config_free(&n->config);
	pthread_mutex_destroy(&n->command_lock);
	free(n);
}
