/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory against a model: two embedded nodes in one process, joined by a link that may lose,
 * reorder, double and corrupt frames. Every context pushes to and pulls from contexts of both
 * nodes: any length, any alignment, whole and in parts, by key and by area ID, to and from memory
 * of pmx_alloc and of malloc. Each transfer has a slice of its target's memory to itself, so what
 * every byte must be is known; between the slices nothing may change. Others ask for what they may
 * not have, and must get the right refusal. At the end: nothing is under way, all frames, requests,
 * mbufs and pins are back. transfers.sh runs it, nic.sh with two ports of a bus.
 *
 * Here: the nodes, their contexts and the run. transfers_tasks.c: random transfers and their model.
 * transfers_pins.c: remote pins. transfers_parts.c: parts that are refused, and diffs of two
 * writers. transfers_device.c: a link that is as a NIC.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "transfers.h"

struct pmx_node *nodes[NODES];
struct end ends[ENDS];
uint64_t ended, refusals, lost_events;
bool unmapped;
const char *ports[NODES];
static unsigned pool_before[NODES];
static uint64_t transfers = 20000;
static unsigned adopt = PMX_ADOPT;
static bool use_dma, use_device, copied;

void
nodes_poll(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

struct rma_context *
end_remote_context(const struct end *end)
{
	const struct channel *ch = &end->ctx->node->embedded->channels[end->ctx->ctx];

	return rma_channel(ch)->rma->contexts[ch->ctx];
}

/* Print what is under way, for whoever wants to know why nothing goes on. */
static void
print_state(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct engine *e = &nodes[n]->embedded->engines[0];
		const struct rma_lane *lane = rma_lane(e);
		const struct rma *x = lane->rma;

		fprintf(stderr,
			"# node %u: %u of %u frames free, %u transfers wait, %u frames within the "
			"node, requests:",
			n, x->frames_free, x->cfg.frames_max, x->waiting, lane->local_waiting);
		for (const struct rma_request *r = x->requests.head; r != NULL; r = r->next)
			fprintf(stderr, " [kind %u of %u:%u to %u, %lu bytes sent]", r->kind,
				r->node, r->peer, r->c->ctx, r->sent);
		fprintf(stderr, "\n");
		for (unsigned c = 0; c < CONTEXTS; c++) {
			const struct rma_context *r = x->contexts[c];

			fprintf(stderr, "# context %u:%u: %u frames, %u held, %u events wait;", n,
				c, r->frames, r->held, r->events_waiting);
			for (uint32_t i = 0; i < r->ops_max; i++) {
				if (r->ops[i].state)
					fprintf(stderr,
						" [state %u kind %u to %u:%u, %lu of %lu sent]",
						r->ops[i].state, r->ops[i].d.kind, r->ops[i].d.node,
						r->ops[i].d.ctx, r->ops[i].sent, r->ops[i].d.len);
			}
			fprintf(stderr, "\n");
		}
	}
}

static void
run(void)
{
	uint64_t seen = 0, turn = 0;
	double since = now_s();

	while (!failed && ended < transfers) {
		for (unsigned i = 0; i < ENDS; i++) {
			for (unsigned k = 0; k < TASKS; k++) {
				if (ends[i].tasks[k].busy)
					task_finish(&ends[i], &ends[i].tasks[k]);
				else
					task_begin(&ends[i], &ends[i].tasks[k]);
			}
			end_take_events(&ends[i]);
			pmx_transfers_pending(ends[i].ctx);
		}
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		if (++turn % 1024 == 0) {
			if (ended != seen) {
				seen = ended;
				since = now_s();
			} else if (now_s() - since > STUCK_S) {
				fail("no transfer ended for %d s: %lu of %lu did", STUCK_S, ended,
					transfers);
				print_state();
			}
		}
	}
}

/* ------------------------------------------------------------------ life */

static bool
busy(void)
{
	bool any = false;

	for (unsigned i = 0; i < ENDS; i++) {
		for (unsigned k = 0; k < TASKS; k++) {
			if (ends[i].tasks[k].busy)
				task_finish(&ends[i], &ends[i].tasks[k]);
			any |= ends[i].tasks[k].busy;
		}
		end_take_events(&ends[i]);
		any |= pmx_transfers_pending(ends[i].ctx) != 0 ||
			pmx_sends_pending(ends[i].ctx) != 0;
		any |= end_remote_context(&ends[i])->frames != 0;
		any |= ends[i].notified != ends[i].expected;
	}
	return any;
}

static void
settle(void)
{
	double end = now_s() + STUCK_S;

	while (!failed && busy()) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		if (now_s() > end)
			fail("something is still under way");
	}
	for (unsigned i = 0; i < ENDS && !failed; i++) {
		if (ends[i].notified != ends[i].expected || ends[i].events != ends[i].events_wanted)
			fail("context %u: notifications add up to %lu, not %lu; %lu events, not "
			     "%lu",
				i, ends[i].notified, ends[i].expected, ends[i].events,
				ends[i].events_wanted);
	}
}

static void
check_engine(unsigned n)
{
	const struct engine *e = &nodes[n]->embedded->engines[0];
	const struct rma_lane *lane = rma_lane(e);
	const struct rma *x = lane->rma;

	if (use_dma && lane->dma.begun == 0)
		fail("node %u: the DMA device was not used", n);
	if ((use_device || ports[n] != NULL) && (e->counters[ENGINE_tx_in_place] == 0) != copied)
		fail("node %u: the port was given %lu frames in an application's memory", n,
			e->counters[ENGINE_tx_in_place]);
	if (x->frames_free != x->cfg.frames_max || x->waiting != 0 || x->requests.head != NULL ||
		lane->local_waiting)
		fail("node %u: %u of %u frames, %u transfers wait, requests %s", n, x->frames_free,
			x->cfg.frames_max, x->waiting, x->requests.head ? "left" : "none");
	for (unsigned c = 0; c < CONTEXTS; c++) {
		const struct memory_space *space = &e->node->channels[c].space;
		const struct rma_context *r = x->contexts[c];
		uint32_t requests = 0;

		for (const struct rma_request *q = r->free_requests; q != NULL; q = q->next)
			requests++;
		if (requests != e->node->config.requests || r->ops_used || r->frames || r->held)
			fail("node %u context %u: %u of %u requests free, %u transfers, %u frames",
				n, c, requests, e->node->config.requests, r->ops_used, r->frames);
		for (unsigned i = 0; i < MEMORIES_MAX; i++) {
			/* a port of a bus gives back what it has sent when it sends more */
			if (space->pieces[i] != NULL && space->pieces[i]->held && ports[n] == NULL)
				fail("node %u context %u: memory %u is held %u times", n, c, i,
					space->pieces[i]->held);
		}
	}
	if (e->counters[ENGINE_bad_submissions] || e->counters[ENGINE_bad_transfers])
		fail("node %u: %lu bad submissions, %lu bad transfers", n,
			e->counters[ENGINE_bad_submissions], e->counters[ENGINE_bad_transfers]);
}

uint8_t *
memory_mapped(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fail("no memory");
		exit(1);
	}
	bytes_fill(p, len);
	return p;
}

static void
open_end(unsigned i)
{
	struct end *e = &ends[i];
	uint64_t locals = MEMORY / ENDS + 4096;
	struct pmx_remote unused;
	void *p;
	int r = pmx_context_open(&e->ctx, nodes[i / CONTEXTS], i % CONTEXTS, NULL);

	if (r != 0) {
		fail("a context: %s", pmx_strerror(r));
		return;
	}
	e->area = 7 + i;
	if ((r = pmx_alloc(e->ctx, MEMORY, &p)) != 0 ||
		(r = pmx_area_register(e->ctx, e->area, p, MEMORY,
			 PMX_ANYONE | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[BY_ENGINE])) !=
			0)
		fail("pmx_alloc: %s", pmx_strerror(r));
	e->memory[BY_ENGINE] = p;
	e->memory[BY_KERNEL] = must(aligned_alloc(64, MEMORY));
	bytes_fill(e->memory[BY_KERNEL], MEMORY);
	if ((r = pmx_register(e->ctx, e->memory[BY_KERNEL], MEMORY,
		     PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[BY_KERNEL])) != 0 ||
		(r = pmx_register(e->ctx, e->memory[BY_ENGINE], 4096, PMX_REMOTE_READ,
			 &e->read_only)) != 0)
		fail("pmx_register: %s", pmx_strerror(r));
	e->memory[ADOPTED] = memory_mapped(MEMORY);
	if ((r = pmx_register(e->ctx, e->memory[ADOPTED], MEMORY,
		     adopt | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[ADOPTED])) != 0)
		fail("pmx_register with PMX_ADOPT: %s", pmx_strerror(r));
	e->local[ADOPTED] = memory_mapped(locals);
	if (adopt && (r = pmx_register(e->ctx, e->local[ADOPTED], locals, adopt, &unused)) != 0)
		fail("pmx_register with PMX_ADOPT alone: %s", pmx_strerror(r));
	if ((r = pmx_alloc(e->ctx, locals, &p)) != 0)
		fail("pmx_alloc: %s", pmx_strerror(r));
	e->local[BY_ENGINE] = p;
	e->local[BY_KERNEL] = must(malloc(locals));
	for (unsigned k = 0; k < TASKS; k++) {
		e->tasks[k].twin = must(malloc(SLICE));
		e->tasks[k].before = must(malloc(SLICE));
	}
}

static atomic_bool closed;

static void *
closes(void *arg)
{
	pmx_context_close(arg);
	atomic_store(&closed, true);
	return NULL;
}

/* It polls its own node until all is seen off, and the other one must answer meanwhile. */
static void
close_context(struct pmx_context *ctx)
{
	struct pmx_node *other = nodes[ctx->node == nodes[0]];
	pthread_t thread;

	atomic_store(&closed, false);
	if (pthread_create(&thread, NULL, closes, ctx) != 0) {
		fail("no thread");
		return;
	}
	while (!atomic_load(&closed))
		pmx_node_poll(other);
	pthread_join(thread, NULL);
}

static void
close_end(struct end *e)
{
	double since = now_s();
	int r;

	/* the ends that pinned it are closed, or this is the first */
	while ((r = pmx_deregister(e->ctx, e->read_only.key)) == -EBUSY && e != &ends[0] &&
		e != &ends[3] && now_s() - since < STUCK_S)
		nodes_poll();
	result_must_be(r, e == &ends[0] || e == &ends[3] ? -EBUSY : 0, "pmx_deregister");
	if (r == 0 && pmx_deregister(e->ctx, e->read_only.key) != -ENOKEY)
		fail("a key ended twice");
	pmx_free(e->ctx, e->local[BY_ENGINE]);
	close_context(e->ctx);
	for (uint64_t i = 0; i < MEMORY; i += 4096) /* what was adopted is ours as before */
		e->memory[ADOPTED][i]++;
	munmap(e->memory[ADOPTED], MEMORY);
	munmap(e->local[ADOPTED], MEMORY / ENDS + 4096);
	free(e->memory[BY_KERNEL]);
	free(e->local[BY_KERNEL]);
	for (unsigned k = 0; k < TASKS; k++) {
		free(e->tasks[k].twin);
		free(e->tasks[k].before);
	}
}

/* ------------------------------------------------------------------ start and end */

static void
start(unsigned n, const char *link, const char *fault, const char *more)
{
	char text[1024], error[256], dma[64] = "",
				     port[96] = "driver = loop\nport = t\n"
						"encap = none";

	if (ports[n] != NULL)
		snprintf(port, sizeof(port), "driver = ethdev\nport = %s", ports[n]);
	if (use_dma)
		snprintf(dma, sizeof(dma), "[engine]\ndma = dma_skeleton%u\n", n);
	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = transfers%u\n%s[link 0]\n%s\n%s\n%s%s\n[limits]\n"
		"contexts = %u\nmbufs = 16384\n%s\n[nodes]\n0 = auto\n1 = auto\n",
		n, n, dma, port, link, fault[0] ? "fault = " : "", fault, CONTEXTS, more);
	struct pmx_node_params params = {.size = sizeof(params), .config_text = text};
	int r = pmx_node_start(&nodes[n], &params, error, sizeof(error));

	if (r != 0) {
		fprintf(stderr, "transfers: node %u: %s\n", n, error);
		exit(2);
	}
}

static void
split_ports(char *both)
{
	ports[0] = both;
	ports[1] = strchr(both, ',');
	if (ports[1] == NULL)
		exit(2);
	*strchr(both, ',') = 0;
	ports[1]++;
}

/* Parts of the nodes' configurations that the command line gives. */
static const char *fault = "", *link_keys = "", *limits = "";

static void
parse(int argc, char **argv)
{
	static const struct option longs[] = {{"transfers", 1, NULL, 't'}, {"seed", 1, NULL, 's'},
		{"fault", 1, NULL, 'f'}, {"link", 1, NULL, 'l'}, {"limits", 1, NULL, 'm'},
		{"dma", 0, NULL, 'd'}, {"device", 0, NULL, 'D'}, {"ports", 1, NULL, 'p'},
		{"unmapped", 0, NULL, 'u'}, {"copied", 0, NULL, 'c'}, {NULL, 0, NULL, 0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 't':
			transfers = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			fault = optarg;
			break;
		case 'l':
			link_keys = optarg;
			break;
		case 'm':
			limits = optarg;
			break;
		case 'd':
			use_dma = true;
			break;
		case 'D':
			use_device = true;
			break;
		case 'p':
			split_ports(optarg);
			break;
		case 'c':
			copied = true;
			break; /* the IOMMU cannot reach that far */
		/* say that it was done, and do not: the IOMMU must notice */
		case 'u':
			unmapped = true;
			break;
		default:
			fprintf(stderr,
				"usage: transfers [--transfers N] [--seed N] [--fault F] [--link "
				"KEYS] [--limits KEYS] [--dma] [--device] [--ports A,B [--unmapped "
				"| --copied]]\n");
			exit(2);
		}
	}
}

/* Start DPDK, both nodes and their ends. */
static void
begin(char *program)
{
	char *eal[] = {program, "--no-huge", "--no-pci", "-m", "512", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", "--vdev=dma_skeleton0",
		"--vdev=dma_skeleton1", NULL};
	char *nic_eal[] = {program, "--in-memory", "-m", "128", "--no-telemetry",
		"--log-level=*:error", "-l", "0", "-a", (char *)(uintptr_t)ports[0], "-a",
		(char *)(uintptr_t)ports[1], NULL};

	if (ports[0] != NULL ? rte_eal_init(12, nic_eal) < 0
			     : rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - (use_dma ? 1 : 3),
				       eal) < 0)
		exit(2);
	/* without events of the kernel nothing is adopted: then it is memory as any other */
	if (geteuid() != 0)
		adopt = 0;
	start(0, link_keys, fault, limits);
	start(1, link_keys, fault, limits);
	for (unsigned n = 0; n < NODES && use_device; n++)
		device_become(n);
	for (unsigned n = 0; n < NODES; n++)
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
	for (unsigned i = 0; i < ENDS; i++)
		open_end(i);
}

/* Close all ends, and check that the nodes have all mbufs again. */
static void
check_closed(void)
{
	for (unsigned i = 0; i < ENDS && !failed; i++)
		close_end(&ends[(i + 3) % ENDS]); /* 3, 0, 1, 2 */
	for (unsigned k = 0; k < 10000 && !failed; k++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	for (unsigned n = 0; n < NODES && use_device; n++)
		device_flush(n);
	for (unsigned n = 0; n < NODES && !failed; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool);
		unsigned with_port = ports[n] != NULL
			? nodes[n]->embedded->config.links[0].link.tx_descriptors
			: 32;

		if (have + with_port < pool_before[n])
			fail("node %u: %u mbufs of %u", n, have, pool_before[n]);
	}
}

int
main(int argc, char **argv)
{
	parse(argc, argv);
	begin(argv[0]);
	double begin_s = now_s();

	if (!failed)
		run();
	settle();
	if (!failed) {
		pins_check();
		pins_check_hold(&ends[2]);
		pins_check_random((unsigned)(transfers < 3000 ? transfers / 5 : 600));
		pins_check_full();
		parts_check_refused();
	}
	settle();
	if (!failed)
		parts_check_two_writers((unsigned)(transfers < 10000 ? transfers : 10000));
	settle();
	double took = now_s() - begin_s;

	for (unsigned n = 0; n < NODES && !failed; n++)
		check_engine(n);
	if (!failed)
		pins_leave();
	settle(); /* what is on its way to a context that closes is tried for long */
	check_closed();
	const uint64_t *p = proto_counters(nodes[0]->embedded->engines[0].proto);

	printf("# %lu transfers, %lu refused as they must be, %lu notifications lost as told, %.1f "
	       "s; node 0: %lu frames, %lu again, %lu timeouts, %lu in place\n",
		ended, refusals, lost_events, took, p[PROTO_tx_frames], p[PROTO_tx_retransmits],
		p[PROTO_timeouts], nodes[0]->embedded->engines[0].counters[ENGINE_tx_in_place]);
	if (!failed) {
		pmx_node_close(nodes[0]);
		pmx_node_close(nodes[1]);
	}
	for (unsigned n = 0; n < NODES && !failed && use_device; n++)
		device_check(n);
	return failed;
}
