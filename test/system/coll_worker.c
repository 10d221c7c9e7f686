/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives between processes: the parent begins the members of a group on two nodes, which are
 * processes of their own, and looks at what they tell by memory that all have. Usage:
 *   coll_worker INSTANCE0 INSTANCE1 CASE [OPTION]
 * Cases: coll_worker_cases.c. PMX_ATTACH says how members attach; COLL_MIXED: every third is a
 * secondary. COLL_SEED: another series of random numbers. Exit code 0: all was as it must be.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll_worker.h"

#define CHILDREN_S 100

const char *
error_name(int error)
{
	const char *name = strerrorname_np(-error);

	return error == 0 ? "0" : name != NULL ? name : "?";
}

/* ------------------------------------------------------------------ members */

void
board_meet(struct member *m)
{
	struct board *b = m->board;
	const uint32_t expected = atomic_load(&b->expected);
	const uint32_t place = atomic_fetch_add(&b->arrived, 1);
	const uint32_t all = (place / expected + 1) * expected;
	const int64_t until = now_us() + PATIENCE_US;

	while (atomic_load(&b->arrived) < all) {
		if (now_us() > until)
			die("rank %u waits for the others", m->rank);
		usleep(100);
	}
}

void
member_attach(struct member *m, const char *const *names)
{
	const struct pmx_addr own = m->list[m->rank];
	const int64_t until = now_us() + PATIENCE_US;
	int result;

	if (getenv("COLL_MIXED") != NULL)
		setenv("PMX_ATTACH", m->rank % 3 == 1 ? "secondary" : "thin", 1);
	must_succeed("attaching", pmx_node_attach(&m->node, names[own.node], NULL));
	/* the process before may have had that number a moment ago */
	while ((result = pmx_context_open(&m->ctx, m->node, own.context, NULL)) == -EBUSY &&
		now_us() < until)
		usleep(1000);
	must_succeed("opening", result);
}

void
member_open(struct member *m, uint32_t without)
{
	struct pmx_addr list[MEMBERS];
	struct pmx_group_params p = {.size = sizeof(p), .id = m->id++, .members = list};
	struct pmx_status s = {.label = 0};
	pmx_request r = 0;
	int result;

	for (uint32_t i = 0; i < MEMBERS; i++) {
		if (i != without)
			list[p.count++] = m->list[i];
	}
	result = pmx_group_open(m->ctx, &p, PATIENCE_US, &m->group, &r);
	if (result == 0)
		result = pmx_wait(m->ctx, &r, &s, 2 * PATIENCE_US);
	if (result != 1)
		die("rank %u, opening group %u: %s, because of %u", m->rank, p.id,
			pmx_strerror(result), s.label);
}

void
member_close(struct member *m)
{
	pmx_group_close(m->group);
	m->group = NULL;
}

void
member_end(struct member *m)
{
	pmx_context_close(m->ctx);
	pmx_node_close(m->node);
}

static void
note(struct member *m, uint32_t number, const struct outcome *o)
{
	if (number < NUMBERS)
		m->own->outcome[number] = *o;
	if (o->error != 0 && !atomic_exchange(&m->own->over, 1))
		m->own->error_ns = o->ended_ns;
	atomic_fetch_add(&m->own->ended, 1);
}

bool
member_begin(struct member *m, struct call *c, unsigned slot, struct outcome *out)
{
	const int64_t until = now_us() + PATIENCE_US;
	int result;

	*out = (struct outcome){.began_ns = now_ns(), .rank = NO_RANK};
	while ((result = call_begin(c, m->group, slot)) == -EAGAIN) {
		if (now_us() > until)
			die("rank %u cannot begin collective %u", m->rank, c->number);
		pmx_sends_pending(m->ctx);
	}
	atomic_fetch_add(&m->own->begun, 1);
	if (result == 0)
		return true;
	out->error = result;
	out->ended_ns = now_ns();
	note(m, c->number, out);
	return false;
}

void
member_wait(struct member *m, struct call *c, struct outcome *out)
{
	struct pmx_status s = {.label = UINT16_MAX, .tag = UINT64_MAX};
	const int result = pmx_wait(m->ctx, &c->request, &s, PATIENCE_US);

	out->ended_ns = now_ns();
	out->error = result == 1 ? 0 : result;
	out->rank = s.label == UINT16_MAX ? NO_RANK : s.label;
	if (result == -ETIMEDOUT)
		die("rank %u: collective %u, %s of %lu, root %u, hangs", m->rank, c->number,
			verb_names[c->verb], (unsigned long)c->len, c->root);
	if (result == 1 && s.tag != c->number)
		fail("rank %u: collective %u is told as %lu", m->rank, c->number,
			(unsigned long)s.tag);
	if (result == 1)
		call_check(c);
	note(m, c->number, out);
}

/* ------------------------------------------------------------------ the parent */

static void
begin_member(const struct world *w, const struct test_case *c, uint32_t rank)
{
	struct member m = {
		.board = w->board,
		.own = &w->board->member[rank],
		.rank = rank,
		.id = 1 + w->turn * 1000,
		.option = w->option,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* which ones share a node is another every time */
	for (uint32_t r = 0; r < MEMBERS; r++) {
		const uint32_t i = (r * 3 + (uint32_t)(seed + w->turn) % MEMBERS) % MEMBERS;

		m.list[r] = (struct pmx_addr){(uint16_t)(i % 2), (uint16_t)(i / 2)};
	}
	if (w->turn % 2 == 1) {
		for (uint32_t r = 0; r < MEMBERS; r++)
			m.list[r] = (struct pmx_addr){(uint16_t)(r / 4), (uint16_t)(r % 4)};
	}
	member_attach(&m, w->names);
	c->member(&m);
	member_end(&m);
	exit(failed);
}

void
world_start(struct world *w, const struct test_case *c)
{
	memset(w->board, 0, sizeof(*w->board));
	atomic_store(&w->board->expected, MEMBERS);
	fflush(stdout);
	w->turn++;
	for (uint32_t r = 0; r < MEMBERS; r++) {
		w->pids[r] = fork();
		if (w->pids[r] < 0)
			die("fork: %s", strerror(errno));
		if (w->pids[r] == 0)
			begin_member(w, c, r);
	}
}

void
world_ends(struct world *w, uint32_t without)
{
	const double until = now_s() + CHILDREN_S;
	int status;

	for (uint32_t r = 0; r < MEMBERS; r++) {
		while (waitpid(w->pids[r], &status, WNOHANG) == 0 && now_s() < until)
			usleep(500);
		if (now_s() >= until) {
			fail("rank %u does not end", r);
			kill(w->pids[r], SIGKILL);
			waitpid(w->pids[r], &status, 0);
		} else if (r != without && status != 0) {
			fail("rank %u ends with status %x", r, (unsigned)status);
		}
		w->pids[r] = 0;
	}
}

int
main(int argc, char **argv)
{
	struct world w = {.option = argc > 4 ? (uint32_t)atoi(argv[4]) : 0};
	const struct test_case *c = cases;

	if (argc < 4) {
		fputs("Usage: coll_worker INSTANCE0 INSTANCE1 CASE [OPTION]\n", stderr);
		return 2;
	}
	while (c->name != NULL && strcmp(c->name, argv[3]) != 0)
		c++;
	if (c->name == NULL)
		die("no such case: %s", argv[3]);
	w.names[0] = argv[1];
	w.names[1] = argv[2];
	if (getenv("COLL_SEED") != NULL)
		seed = strtoull(getenv("COLL_SEED"), NULL, 0);
	/* group numbers that no case before has had */
	w.turn = (uint32_t)(now_us() / 100000 % 1000000);
	w.board = mmap(NULL, sizeof(*w.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (w.board == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	if (c->parent != NULL) {
		c->parent(&w);
	} else {
		world_start(&w, c);
		world_ends(&w, NO_RANK);
	}
	return failed;
}
