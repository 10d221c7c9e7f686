/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators and their groups. One thread calls, as MPI_THREAD_SERIALIZED and below promise;
 * with MPI_THREAD_MULTIPLE nothing is taken.
 *
 * Environment
 * 1. PMX_MPICOLL: off takes nothing, all takes everything; KIND=LEAST-MOST,... as kinds[] names
 *    them takes blocks of so many bytes; KIND=all, KIND=off.
 * 2. FI_PMX_INSTANCE: the primary to attach to (the libfabric provider's); default pmx0.
 * 3. PMX_MPICOLL_VERBOSE: 1 says what is taken, and at the end how often.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpicoll.h"

#define FIRST_ID  0x4D500001u /* of groups */
#define MPI_TURNS 16          /* polls between turns of the MPI library */
#define OPEN_US   20000000

static struct pmx_node *node;
static struct pmx_context *context;
static int key = MPI_KEYVAL_INVALID; /* of a communicator's struct comm */
static struct comm none;             /* a communicator that has no group */
static struct comm *comms;           /* those that have one */
static uint32_t next_id = FIRST_ID;
static unsigned polls;
static bool is_on, is_verbose;
static uint64_t taken[KINDS], given[KINDS];

/* Blocks of so many bytes are taken: those with which a step of a program, the collective and what
 * has to wait for its end, takes less time (test/mpi/loops.c; doc/performance.md). The bytes of v
 * forms are not known to all: they are taken if ANY_BYTES is. */
static struct {
	const char *name;
	uint64_t least, most; /* most < least: none */
} kinds[KINDS] = {
	[KIND_BARRIER] = {"barrier", 0, ANY_BYTES},
	[KIND_BCAST] = {"bcast", 0, 4096},
	[KIND_GATHER] = {"gather", 0, 16384},
	[KIND_SCATTER] = {"scatter", 0, 16384},
	[KIND_ALLGATHER] = {"allgather", 0, ANY_BYTES},
	[KIND_ALLTOALL] = {"alltoall", 0, 4096},
	[KIND_REDUCE] = {"reduce", 0, 32768},
	[KIND_ALLREDUCE] = {"allreduce", 0, 32768},
	[KIND_REDUCE_SCATTER] = {"reduce_scatter", 32768, ANY_BYTES},
	[KIND_GATHERV] = {"gatherv", 1, 0},
	[KIND_SCATTERV] = {"scatterv", 1, 0},
	[KIND_ALLGATHERV] = {"allgatherv", 1, 0},
	[KIND_ALLTOALLV] = {"alltoallv", 1, 0},
};

/* ------------------------------------------------------------------ beginning and end */

/* LEAST-MOST, all or off. false: none of these. */
static bool
read_range(const char *text, unsigned kind)
{
	char *end;

	if (strcmp(text, "off") == 0 || strcmp(text, "all") == 0) {
		kinds[kind].least = text[0] == 'o';
		kinds[kind].most = text[0] == 'o' ? 0 : ANY_BYTES;
		return true;
	}
	kinds[kind].least = strtoull(text, &end, 10);
	if (end == text || *end != '-')
		return false;
	text = end + 1;
	kinds[kind].most = strtoull(text, &end, 10);
	return end != text && *end == '\0';
}

/* all, or a list. */
static void
read_options(const char *options)
{
	char *copy = strdup(options), *save = NULL;

	for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w;
		w = strtok_r(NULL, ",", &save)) {
		char *value = strchr(w, '=');
		unsigned k = 0;

		if (value != NULL)
			*value++ = '\0';
		if (value == NULL && strcmp(w, "all") == 0) {
			for (k = 0; k < KINDS; k++)
				read_range(w, k);
			continue;
		}
		while (k < KINDS && strcmp(kinds[k].name, w) != 0)
			k++;
		if (k == KINDS || value == NULL || !read_range(value, k))
			fprintf(stderr,
				"pmx-mpicoll: PMX_MPICOLL: %s%s%s: neither off nor all nor a list "
				"of KIND=LEAST-MOST, KIND=all, KIND=off\n",
				w, value ? "=" : "", value ? value : "");
	}
	free(copy);
}

/* Close the group of a communicator, and forget it. */
static void
comm_close(struct comm *x)
{
	struct comm **at = &comms;

	while (*at != NULL && *at != x)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = x->next;
	pmx_group_close(x->group);
}

static int
comm_deleted(MPI_Comm c, int keyval, void *value, void *extra)
{
	(void)c, (void)keyval, (void)extra;
	if (value == &none)
		return MPI_SUCCESS;
	comm_close(value);
	free(value);
	return MPI_SUCCESS;
}

/* Attach to the node, and open the context. Return 0 if it is open, or a negative errno. */
static int
attach(void)
{
	const char *instance = getenv("FI_PMX_INSTANCE");
	int e = pmx_node_attach(&node, instance != NULL ? instance : "pmx0", NULL);

	if (e == 0)
		e = pmx_context_open(&context, node, PMX_ANY_CONTEXT, NULL);
	if (e != 0)
		fprintf(stderr, "pmx-mpicoll: %s: %s; collectives go through the MPI library\n",
			instance != NULL ? instance : "pmx0", pmx_strerror(e));
	return e;
}

static void
begin(int threads)
{
	const char *options = getenv("PMX_MPICOLL");
	int here = threads < MPI_THREAD_MULTIPLE &&
		!(options != NULL && strcmp(options, "off") == 0);

	is_verbose = getenv("PMX_MPICOLL_VERBOSE") != NULL;
	if (here && options != NULL)
		read_options(options);
	here = here && attach() == 0;
	/* all, or nobody */
	PMPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	is_on = here;
	if (is_on)
		PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_deleted, &key, NULL);
}

EXPORT int
MPI_Init(int *argc, char ***argv)
{
	const int e = PMPI_Init(argc, argv);

	if (e == MPI_SUCCESS)
		begin(MPI_THREAD_SINGLE);
	return e;
}

EXPORT int
MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	const int e = PMPI_Init_thread(argc, argv, required, provided);

	if (e == MPI_SUCCESS)
		begin(*provided);
	return e;
}

static void
say_what_was_taken(void)
{
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (unsigned k = 0; rank == 0 && k < KINDS; k++) {
		if (taken[k] + given[k] > 0)
			fprintf(stderr, "pmx-mpicoll: %-14s %8lu by pmx, %8lu by the MPI library\n",
				kinds[k].name, (unsigned long)taken[k], (unsigned long)given[k]);
	}
}

EXPORT int
MPI_Finalize(void)
{
	if (is_verbose)
		say_what_was_taken();
	if (is_on) {
		/* nobody goes before all have all that they wait for */
		PMPI_Barrier(MPI_COMM_WORLD);
		is_on = false;
		/* the MPI library deletes what is left at MPI_COMM_SELF and others only later */
		while (comms != NULL)
			comm_close(comms);
		PMPI_Comm_free_keyval(&key);
		PMPI_Barrier(MPI_COMM_WORLD);
		pmx_context_close(context);
		context = NULL;
	}
	/* the provider may still use an embedded node, which ends with its last user */
	const int e = PMPI_Finalize();

	pmx_node_close(node);
	node = NULL;
	return e;
}

/* ------------------------------------------------------------------ waiting */

void
comm_turn(void)
{
	struct pmx_event event;
	int flag;

	/* members that have gone are told by the requests, too */
	pmx_poll_event(context, &event);
	if (++polls % MPI_TURNS == 0)
		PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

/* Report an error that cannot be mended, and abort the job: other ranks are in this collective, or
 * will never be. */
static void
die(const struct comm *c, int error, const struct pmx_status *s)
{
	if (s != NULL && s->label < c->size)
		fprintf(stderr, "pmx-mpicoll: rank %d: because of rank %u: %s\n", c->rank, s->label,
			pmx_strerror(error));
	else
		fprintf(stderr, "pmx-mpicoll: rank %d: %s\n", c->rank, pmx_strerror(error));
	PMPI_Abort(MPI_COMM_WORLD, 1);
}

void
comm_adopt(const void *at, uint64_t bytes)
{
	struct pmx_remote unused;

	pmx_register(context, (void *)(uintptr_t)at, bytes, PMX_ADOPT, &unused);
}

bool
comm_has_begun(const struct comm *c, int error)
{
	if (error == -EAGAIN)
		comm_turn();
	else if (error != 0)
		die(c, error, NULL);
	return error != -EAGAIN;
}

bool
comm_test(const struct comm *c, pmx_request *request)
{
	struct pmx_status status;
	const int e = pmx_test(context, request, &status);

	if (e < 0)
		die(c, e, &status);
	return e != 0;
}

/* ------------------------------------------------------------------ groups */

/* Open a group of these members, and wait until it is open. Return 0, or what is wrong with it
 * here. */
static int
open_group(struct comm *x, const uint32_t *addrs, uint32_t id)
{
	struct pmx_addr *members = calloc((size_t)x->size, sizeof(*members));
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = (uint32_t)x->size,
		.members = members,
	};
	pmx_request r;
	int e;

	if (members == NULL)
		return -ENOMEM;
	for (int i = 0; i < x->size; i++)
		members[i] = (struct pmx_addr){(uint16_t)(addrs[i] >> 16), (uint16_t)addrs[i]};
	e = pmx_group_open(context, &p, OPEN_US, &x->group, &r);
	free(members);
	if (e != 0)
		return e;
	while ((e = pmx_test(context, &r, NULL)) == 0)
		comm_turn();
	return e == 1 ? 0 : e;
}

/* Make the group of a communicator. All ranks of the communicator do this at once. Return NULL at
 * all of them if one cannot have it. */
static struct comm *
make(MPI_Comm c)
{
	struct comm *x = calloc(1, sizeof(*x));
	const struct pmx_addr own = pmx_context_addr(context);
	const uint32_t addr = (uint32_t)own.node << 16 | own.context;
	uint32_t *addrs = NULL, id = next_id;
	int good = x != NULL, inter;

	PMPI_Comm_test_inter(c, &inter);
	if (inter) {
		free(x);
		return NULL;
	}
	if (good) {
		PMPI_Comm_size(c, &x->size);
		PMPI_Comm_rank(c, &x->rank);
		addrs = calloc((size_t)x->size, sizeof(*addrs));
	}
	good = good && addrs != NULL;
	PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, c);
	if (good) {
		/* a number that none of them has used */
		PMPI_Allreduce(MPI_IN_PLACE, &id, 1, MPI_UINT32_T, MPI_MAX, c);
		next_id = id + 1;
		PMPI_Allgather(&addr, 1, MPI_UINT32_T, addrs, 1, MPI_UINT32_T, c);
		const int e = open_group(x, addrs, id);

		if (e != 0 && is_verbose)
			fprintf(stderr, "pmx-mpicoll: no group for a communicator: %s\n",
				pmx_strerror(e));
		good = e == 0;
		PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, c);
	}
	free(addrs);
	if (good)
		return x;
	if (x != NULL)
		pmx_group_close(x->group);
	free(x);
	return NULL;
}

struct comm *
comm_of(MPI_Comm c, bool blocking)
{
	struct comm *x = NULL;
	int there = 0;

	if (!is_on || c == MPI_COMM_NULL)
		return NULL;
	PMPI_Comm_get_attr(c, key, &x, &there);
	if (!there && blocking) {
		x = make(c);
		if (x != NULL) {
			x->next = comms;
			comms = x;
		}
		PMPI_Comm_set_attr(c, key, x != NULL ? x : &none);
	}
	return x == &none ? NULL : x;
}

bool
comm_takes(enum kind kind, uint64_t bytes)
{
	const bool takes = bytes >= kinds[kind].least && bytes <= kinds[kind].most;

	taken[kind] += takes;
	given[kind] += !takes;
	return takes;
}
