/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages against a model: two embedded nodes in one process, joined by a link that may
 * lose, reorder, double and corrupt frames. Every context runs a random program of pmx_isend,
 * pmx_irecv, probes and cancels, with and without wildcards, of all sizes and layouts. The model
 * knows the order in which messages landed in each context's LHS ring, keeps two plain lists, and
 * says which message each receive gets; the bytes are known by their message's number. matching.sh
 * runs it.
 *
 * Here: the nodes, their contexts and the run. matching_operations.c: what a context may do next.
 * matching_model.c: which message each receive gets, and with which bytes. matching_memory.c: how
 * the bytes lie in memory.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "matching.h"

struct pmx_node *nodes[NODES];
struct end ends[ENDS];
uint64_t done, sent, matched, truncated, cancelled, probed, wildcards;
bool by_engine;
const char *rendezvous = "auto";
static unsigned pool_before[NODES];
static uint64_t operations = 200000;

/* Poll a node, and let the model look at what has landed. An engine that matches frees entries by
 * itself: what one poll lands may be overwritten in the next one, so the model looks in between. */
static void
node_poll(unsigned n)
{
	pmx_node_poll(nodes[n]);
	for (unsigned i = 0; by_engine && i < CONTEXTS; i++)
		model_landed(&ends[n * CONTEXTS + i]);
}

void
end_done_asking(unsigned at)
{
	struct channel *channels = nodes[at / CONTEXTS]->embedded->channels;

	for (unsigned k = 0; by_engine && k < 100000; k++) {
		bool all = true;

		for (unsigned i = 0; i < CONTEXTS; i++)
			all &= channels[i].sub.pos ==
				ends[at / CONTEXTS * CONTEXTS + i].ctx->sub.pos;
		if (all)
			return;
		node_poll(at / CONTEXTS);
		if (k > 1000)
			node_poll(!(at / CONTEXTS));
	}
	if (by_engine)
		fail("context %u: its submissions are not taken", at);
}

void
nodes_poll(void)
{
	node_poll(0);
	node_poll(1);
}

static void
step(void)
{
	unsigned at = (unsigned)(draw() % ENDS), what = draw() % 100;
	struct end *e = &ends[at];

	done++;
	if (what < 40)
		e->waiting < WAIT_MOST || draw() % 4 == 0 ? ops_send(at)
							  : ops_receive(at, draw() % 4 == 0);
	else if (what < 70)
		e->posted < WAIT_MOST ? ops_receive(at, e->waiting > WAIT_MOST && draw() % 4 == 0)
				      : ops_send(at);
	else if (what < 76)
		ops_probe(at);
	else if (what < 82)
		ops_matched_probe(at);
	else if (what < 86)
		ops_cancel(at);
	else
		ops_tests(at);
	end_done_asking(at);
	if (draw() % 3 == 0)
		nodes_poll();
}

/* All that was sent is received, and nothing else ends. */
static void
settle(void)
{
	double give_up = now_s() + STUCK_S;
	bool busy = true;

	while (busy && !failed) {
		busy = false;
		nodes_poll();
		for (unsigned i = 0; i < ENDS && !failed; i++) {
			struct end *e = &ends[i];

			model_landed(e);
			/* would take what is not theirs: out of the way */
			while (e->posted_head != NULL && !failed) {
				struct receive *r = e->posted_head;
				int result = pmx_cancel(e->ctx, r->request);

				if (by_engine && result == -EINPROGRESS) {
					model_landed(e);
					if (r->got == NULL)
						fail("pmx_cancel at the end: too late, but the "
						     "model gives it no message");
					continue;
				}
				if (result != 0)
					fail("pmx_cancel at the end");
				end_done_asking(i);
				e->posted_head = r->next;
				r->cancelled = true;
			}
			e->posted = 0;
			for (unsigned k = e->receives_n; k-- > 0 && !failed;)
				receive_test(e, k);
			for (unsigned k = e->sends_n; k-- > 0 && !failed;)
				send_test(e, k);
			if (e->wait_head != NULL)
				ops_receive(i, true);
			end_done_asking(i);
			for (unsigned to = 0; to < ENDS; to++)
				busy |= e->sent_head[to] != NULL;
			busy |= e->receives_n != 0 || e->sends_n != 0 || e->wait_head != NULL ||
				pmx_sends_pending(e->ctx) != 0;
		}
		if (now_s() > give_up) {
			for (unsigned i = 0; i < ENDS; i++)
				fprintf(stderr,
					"context %u: %u receives, %u sends, %u wait; transfers "
					"%u\n",
					i, ends[i].receives_n, ends[i].sends_n, ends[i].waiting,
					pmx_transfers_pending(ends[i].ctx));
			fail("some messages never arrived");
		}
	}
}

/* RHiNET's table 1: which verb takes which part; and other arguments that are wrong. */
static void
check_refusals(void)
{
	uint8_t bytes[64] = {0}, twin[64] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct pmx_part part = {.kind = PMX_PART_TWIN, .twin = twin};
	struct pmx_matched m = {.peer = {1, 0}, .data = bytes, .len = sizeof(bytes), .part = &part};
	pmx_request r = 0, wrong = 77ull << 32 | 5;

	if (pmx_isend(ends[0].ctx, &m, &r) != -EOPNOTSUPP)
		fail("pmx_isend with a twin");
	part.kind = PMX_PART_DIFF;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EOPNOTSUPP)
		fail("pmx_irecv with a diff");
	part = (struct pmx_part){
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {5},
	};
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL || pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a stride beyond its message");
	m.iov = &iov;
	m.iov_count = 1;
	part.count[0] = 2;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL)
		fail("pieces and parts at once");
	m.part = NULL;
	m.flags = PMX_SYNC;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a receive with a send's flags");
	m.flags = 1u << 31;
	if (pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("flags that there are none of");
	m.flags = 0;
	m.iov = NULL;
	m.data = NULL;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL || pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("bytes at NULL");
	m.peer = PMX_ANY_SOURCE;
	m.data = bytes;
	if (pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a send to anyone");
	if (pmx_test(ends[0].ctx, &wrong, NULL) != -EINVAL ||
		pmx_cancel(ends[0].ctx, wrong) != -EINVAL ||
		pmx_imrecv(ends[0].ctx, &m, &wrong) != -EINVAL)
		fail("a request that there is none of");
	r = 0;
	if (pmx_test(ends[0].ctx, &r, NULL) != 1 || pmx_cancel(ends[0].ctx, 0) != -EINPROGRESS)
		fail("a request that has ended");
}

/* ------------------------------------------------------------------ life */

static void
start(unsigned n, const char *link, const char *fault, const char *more)
{
	char text[2048], error[256];
	struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = matching%u\n[engine]\nmatching = %s\nrendezvous = %s\n"
		"[link 0]\n%s\n%s%s\n[nodes]\n0 = auto\n1 = auto\n[limits]\ncontexts = %u\n"
		"mbufs = 16384\n%s\n",
		n, n, by_engine ? "engine" : "client", rendezvous, link, *fault ? "fault = " : "",
		fault, CONTEXTS, more);
	if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "matching: %s\n", error);
		exit(2);
	}
}

static void
open_end(unsigned i)
{
	struct end *e = &ends[i];
	void *p;
	int r = pmx_context_open(&e->ctx, nodes[i / CONTEXTS], i % CONTEXTS, NULL);

	if (r != 0 || (r = pmx_alloc(e->ctx, (uint64_t)SLOTS * LONGEST, &p)) != 0) {
		fail("a context: %s", pmx_strerror(r));
		return;
	}
	e->arena = p;
	e->in = &nodes[i / CONTEXTS]->embedded->channels[i % CONTEXTS].matched;
}

/* Parts of the nodes' configurations that the command line gives. */
static const char *fault = "", *link_keys = "", *limits = "", *memif;

static void
parse(int argc, char **argv)
{
	static const struct option longs[] = {{"operations", 1, NULL, 'o'}, {"seed", 1, NULL, 's'},
		{"fault", 1, NULL, 'f'}, {"link", 1, NULL, 'l'}, {"memif", 1, NULL, 'm'},
		{"limits", 1, NULL, 'L'}, {"matching", 1, NULL, 'e'}, {"rendezvous", 1, NULL, 'r'},
		{NULL, 0, NULL, 0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'o':
			operations = strtoull(optarg, NULL, 0);
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
			memif = optarg;
			break;
		case 'L':
			limits = optarg;
			break;
		case 'e':
			by_engine = strcmp(optarg, "engine") == 0;
			break;
		case 'r':
			rendezvous = optarg;
			break;
		default:
			fprintf(stderr,
				"usage: matching [--operations N] [--seed N] [--fault F] [--link "
				"KEYS] [--memif SOCKET] [--limits KEYS] [--matching client|engine] "
				"[--rendezvous BYTES]\n");
			exit(2);
		}
	}
}

/* Start DPDK, both nodes and their ends. */
static void
begin(char *program)
{
	char vdev[2][256], link[2][256];

	for (unsigned n = 0; n < NODES; n++) {
		snprintf(vdev[n], sizeof(vdev[n]),
			"--vdev=net_memif%u,role=%s,id=0,socket=%s,socket-abstract=no,bsize=9216",
			n, n ? "client" : "server", memif ? memif : "");
		if (memif != NULL)
			snprintf(link[n], sizeof(link[n]),
				"driver = ethdev\nport = net_memif%u\n%s", n, link_keys);
		else
			snprintf(link[n], sizeof(link[n]), "driver = loop\nport = matching\n%s",
				link_keys);
	}
	char *eal[] = {program, "--no-huge", "--no-pci", "-m", "512", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", vdev[0], vdev[1], NULL};

	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - (memif ? 1 : 3), eal) < 0)
		exit(2);
	start(0, link[0], fault, limits);
	start(1, link[1], fault, limits);
	for (unsigned n = 0; n < NODES; n++)
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
	for (unsigned i = 0; i < ENDS; i++)
		open_end(i);
}

/* Check that nothing waits at an end, close all, and check that the nodes have all mbufs again.
 * Return the sum of the ends' figures. */
static struct pmx_match_stat
check_closed(void)
{
	struct pmx_match_stat stat, all = {0};

	for (unsigned i = 0; i < ENDS && !failed; i++) {
		pmx_match_read_stat(ends[i].ctx, &stat);
		if (stat.waiting || stat.posted || stat.malformed || stat.errors)
			fail("context %u: %u wait, %u are posted, %lu malformed, %lu errors", i,
				stat.waiting, stat.posted, stat.malformed, stat.errors);
		all.evacuated += stat.evacuated;
		all.bulk_copied += stat.bulk_copied;
		all.unexpected += stat.unexpected;
		pmx_free(ends[i].ctx, ends[i].arena);
		pmx_context_close(ends[i].ctx);
	}
	for (unsigned k = 0; k < 10000 && !failed; k++)
		nodes_poll();
	for (unsigned n = 0; n < NODES && !failed; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool),
			 spare = memif ? 2048 : 32;

		if (have + spare < pool_before[n])
			fail("node %u: %u mbufs of %u", n, have, pool_before[n]);
	}
	return all;
}

int
main(int argc, char **argv)
{
	parse(argc, argv);
	begin(argv[0]);
	double begin_s = now_s();

	check_refusals();
	while (done < operations && !failed)
		step();
	settle();
	double took = now_s() - begin_s;
	const struct pmx_match_stat all = check_closed();
	const uint64_t *p = proto_counters(nodes[0]->embedded->engines[0].proto);

	printf("# %lu operations, %.1f s: %lu messages, %lu by wildcards, %lu unexpected, %lu cut "
	       "short, %lu cancelled, %lu probes; %lu heads and %lu bodies made room; node 0: %lu "
	       "frames, %lu again, %lu timeouts\n",
		done, took, matched, wildcards, all.unexpected, truncated, cancelled, probed,
		all.evacuated, all.bulk_copied, p[PROTO_tx_frames], p[PROTO_tx_retransmits],
		p[PROTO_timeouts]);
	if (!failed && matched != sent)
		fail("%lu sent, %lu received", sent, matched);
	fflush(stdout);
	if (memif != NULL)
		_exit(failed); /* that PMD may crash when its peer closes */
	if (!failed) {
		pmx_node_close(nodes[0]);
		pmx_node_close(nodes[1]);
	}
	return failed;
}
