/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache under torture (PIN-4): threads map, unmap, move, protect, give up and fork
 * memory while the main thread pushes from the same addresses, and while others pull from what was
 * registered there. Two embedded nodes in one process; the main thread polls both. torture.sh runs
 * it.
 *
 * An arena is a range of addresses that one thread changes. In the tame ones it changes between
 * transfers: each push must bring exactly the newest bytes, each pull of memory that was registered
 * and is no longer there must be refused. In the wild ones it changes while transfers run: a push
 * may fail (EFAULT), but what it brings must be of the arena's present, not of its past. At the end
 * nothing is pinned that is not in use: the cache's count and VmLck of /proc agree.
 *
 * It ends with the first thing that is wrong, or when so many changes of the tame ones were
 * followed by a transfer.
 *
 * Usage: torture [CHANGES [SEED [pin_watch]]]
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>

#include "client/client.h"
#include "rma/client/rma.h"
#include "helpers.h"

#define TAME   6
#define WILD   2
#define ARENAS (TAME + WILD)
#define PAGE   4096u
#define PAGES  48u
#define BYTES  (PAGES * PAGE)
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum turn { THREADS, MAINS }; /* whose the tame arena is */

struct arena {
	uint8_t *at;
	_Atomic int turn;
	_Atomic uint32_t generation; /* of its bytes: byte i of page p is (generation + p) & 0xFF;
				      * WILD: all are generation & 0xFF */
	_Atomic bool replaced;       /* the pages are not those that were there before */
	bool wild, adopts;           /* ADOPTS: registered with PMX_ADOPT */
	uint64_t seed;
	uint64_t changes[8];
	/* the main thread's */
	bool busy, pulling, registered;
	uint32_t was, from, len;
	pmx_transfer_id id;
	struct pmx_remote remote;
};

static const char *const change_name[8] = {"write", "unmap and map", "move and back", "give up",
	"protect", "fork", "replace", "shrink and grow"};
static struct arena arenas[ARENAS];
static struct pmx_node *nodes[2];
static struct pmx_context *ctx[2];
static uint8_t *target; /* on node 1: BYTES for each arena */
static struct pmx_remote target_remote;
static uint8_t *sink; /* on node 1: what it pulls */
static pthread_mutex_t holes = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool stop;
static uint64_t pushes, pulls, refusals, faults, full, followed;

/* --------------------------------------------------------------- the threads that change memory */

static void
write_all(struct arena *a)
{
	uint32_t g = atomic_load(&a->generation) + 1;

	if (a->wild)
		atomic_store(&a->generation, g); /* the new bytes are of the present from now on */
	for (uint32_t p = 0; p < PAGES; p++)
		memset(a->at + p * PAGE, (int)(uint8_t)(a->wild ? g : g + p), PAGE);
	atomic_store(&a->generation, g);
}

static bool
map_at(uint8_t *at, size_t len)
{
	return mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		       0) == at;
}

/* Move the mapping away and back by mremap. It leaves a hole, into which nobody else may map: so it
 * is moved to a place of our own. */
static bool
moved_and_back(uint8_t *at, size_t len)
{
	uint8_t *moved = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Several mappings, pinned and not: some kernels move none of them, others those before a
	 * watched one; and what was moved may be in several pieces, since its pins were taken back
	 * meanwhile. */
	return (mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved &&
		       mremap(moved, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at) ||
		(errno == EFAULT && munmap(moved, len) == 0 && map_at(at, len));
}

/* Change some of the arena, then write all of it. */
static void
change(struct arena *a)
{
	uint64_t r = mix64_next(&a->seed);
	uint32_t first = (uint32_t)(r >> 8) % PAGES, n = 1 + (uint32_t)(r >> 24) % (PAGES - first),
		 what = r % 8;
	uint8_t *at = a->at + first * PAGE;
	size_t len = n * PAGE;
	bool ok = true, gone = true;
	pid_t child;

	a->changes[what]++;
	/* what one thread unmaps for a moment no other may get from mmap */
	pthread_mutex_lock(&holes);
	switch (what) {
	case 0:
		gone = false;
		break;
	case 1:
		ok = munmap(at, len) == 0 && map_at(at, len);
		break;
	case 2:
		ok = moved_and_back(at, len);
		break;
	case 3: /* locked pages: only by the newer kind; EINVAL on an older kernel */
		gone = madvise(at, len, MADV_DONTNEED_LOCKED) == 0;
		break;
	case 4:
		ok = mprotect(at, len, PROT_NONE) == 0 && mprotect(at, len, PROT_READ) == 0 &&
			mprotect(at, len, PROT_READ | PROT_WRITE) == 0;
		gone = false;
		break;
	case 5:
		child = fork();
		if (child == 0) {
			if (!a->adopts)
				memset(at, 0xEE, len); /* its own copy */
			_exit(0);
		}
		ok = child > 0 && waitpid(child, NULL, 0) == child;
		gone = false;
		break;
	case 6:
		ok = map_at(at, len);
		break;
	default:
		ok = munmap(at, len) == 0 && map_at(a->at + first * PAGE, len);
		break;
	}
	pthread_mutex_unlock(&holes);
	if (!ok)
		fail("%s of %zu bytes: %s", change_name[what], len, strerror(errno));
	if (gone)
		atomic_store(&a->replaced, true);
	write_all(a);
}

static void *
run_thread(void *arg)
{
	struct arena *a = arg;

	while (!atomic_load(&stop) && !atomic_load(&failed)) {
		if (a->wild) {
			change(a);
			usleep(50);
		} else if (atomic_load(&a->turn) == THREADS) {
			for (unsigned i = 0; i < 1 + mix64_next(&a->seed) % 3; i++)
				change(a);
			/* others are refused once the events have been handled, a moment after
			 * munmap() has returned (note 1 of lib/rma/client/pins.c) */
			pins_settle();
			atomic_store(&a->turn, MAINS);
		} else {
			usleep(20);
		}
	}
	return NULL;
}

/* ------------------------------------------------------------------ the main thread */

static bool
right_bytes(const struct arena *a, const uint8_t *got)
{
	uint32_t now = atomic_load(&a->generation);

	for (uint32_t i = 0; i < a->len; i++) {
		uint32_t p = (a->from + i) / PAGE;
		uint8_t b = got[i];

		/* WILD: of the generations that were there meanwhile, or of fresh pages */
		if (a->wild ? b != 0 && (uint8_t)(b - a->was) > (uint8_t)(now - a->was) &&
					now - a->was < 255
			    : b != (uint8_t)(now + p)) {
			fail("%s arena %td: byte %u of %u from %u is %02x; generation %u, %u when "
			     "it began",
				a->wild ? "wild" : "tame", a - arenas, i, a->len, a->from, b, now,
				a->was);
			return false;
		}
	}
	return true;
}

/* Return whether it is registered. */
static bool
register_arena(struct arena *a)
{
	atomic_store(&a->replaced, false);
	pthread_mutex_lock(&holes); /* it maps */
	int e = pmx_register(ctx[0], a->at, BYTES, PMX_REMOTE_READ | (a->adopts ? PMX_ADOPT : 0),
		&a->remote);

	pthread_mutex_unlock(&holes);
	if (e == -EINVAL && a->adopts && map_at(a->at, BYTES)) {
		/* some of it is still what was adopted before, and no longer private */
		write_all(a);
		return false;
	}
	if (e == -ENOMEM) {
		full++;
		return false;
	}
	if (e != 0) {
		fail("pmx_register: %s", pmx_strerror(e));
		return false;
	}
	a->registered = true;
	return true;
}

static void
begin(struct arena *a, uint64_t *seed)
{
	uint64_t r = mix64_next(seed);
	int e;

	/* WILD: the thread may be writing, some pages are of the generation before */
	a->was = atomic_load(&a->generation) - a->wild;
	/* WILD: longer than a frame; what fits one is copied in pmx_push, by this thread, which
	 * needs the memory */
	uint32_t least = a->wild ? 2000 : 1;

	a->from = (uint32_t)r % (BYTES - least);
	a->len = least + (uint32_t)(r >> 20) % (BYTES - a->from - least + 1);
	a->pulling = !a->wild && (r >> 50) % 3 == 0;
	if (a->pulling) {
		if (!a->registered && !register_arena(a))
			return;
		const struct pmx_transfer t = {
			.peer = a->remote.owner,
			.key = a->remote.key,
			.remote = a->remote.addr + a->from,
			.local = sink + (uint64_t)(a - arenas) * BYTES,
			.len = a->len,
		};

		e = pmx_pull(ctx[1], &t, &a->id);
	} else {
		const struct pmx_transfer t = {
			.peer = target_remote.owner,
			.key = target_remote.key,
			.remote = target_remote.addr + (uint64_t)(a - arenas) * BYTES,
			.local = a->at + a->from,
			.len = a->len,
		};

		e = pmx_push(ctx[0], &t, &a->id);
	}
	if (e == -EFAULT && a->wild)
		faults++; /* there was no memory at this moment */
	else if (e == -ENOMEM)
		full++; /* limits.pin_bytes are in use: again, later */
	else if (e != 0 && e != -EAGAIN)
		fail("arena %td: %s of %u bytes at %u: %s", a - arenas,
			a->pulling ? "pull" : "push", a->len, a->from, pmx_strerror(e));
	a->busy = e == 0;
}

static void
finish(struct arena *a)
{
	bool refused = a->pulling && atomic_load(&a->replaced);
	int e = pmx_transfer_done(ctx[a->pulling], a->id), done;

	if (e == 0)
		return;
	a->busy = false;
	if (a->wild && e == -EFAULT) {
		faults++;
	} else if (refused) {
		refusals++;
		if (e != -ENOKEY)
			fail("arena %td was replaced after it was registered, but a pull of it "
			     "ended with %d",
				a - arenas, e);
		done = pmx_deregister(ctx[0], a->remote.key);
		/* adopted memory that is gone takes its registrations with it */
		if (done != 0 && !(a->adopts && done == -ENOKEY))
			fail("pmx_deregister: %s", pmx_strerror(done));
		a->registered = false;
	} else if (e != 1) {
		unsigned char resident[PAGES];
		bool mapped = mincore(a->at, BYTES, resident) == 0;

		fail("arena %td: a %s of %u bytes at %u ended with: %s; it is %s", a - arenas,
			a->pulling ? "pull" : "push", a->len, a->from, pmx_strerror(e),
			mapped ? "mapped" : "not all mapped");
	} else {
		right_bytes(a, (a->pulling ? sink : target) + (uint64_t)(a - arenas) * BYTES);
		pulls += a->pulling;
		pushes += !a->pulling;
	}
	if (!a->wild) {
		atomic_store(&a->turn, THREADS);
		followed++;
	}
}

static void
run(uint64_t changes, uint64_t seed)
{
	while (!atomic_load(&failed)) {
		bool busy = false;

		for (unsigned i = 0; i < ARENAS; i++) {
			struct arena *a = &arenas[i];

			if (a->busy)
				finish(a);
			else if (!atomic_load(&stop) && (a->wild || atomic_load(&a->turn) == MAINS))
				begin(a, &seed);
			busy |= a->busy;
		}
		if (pmx_node_poll(nodes[0]) + pmx_node_poll(nodes[1]) == 0)
			sched_yield();
		if (followed >= changes)
			atomic_store(&stop, true);
		if (atomic_load(&stop) && !busy)
			return;
	}
}

static uint64_t
locked_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long kib = 0;

	while (f != NULL && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	}
	if (f != NULL)
		fclose(f);
	return kib * 1024;
}

static void
check_pins(uint64_t before)
{
	struct pin_cache_stat s;

	pins_stat(&s);
	if (s.pinned_bytes != locked_bytes() - before)
		fail("the cache says %lu bytes pinned, /proc %lu", s.pinned_bytes,
			locked_bytes() - before);
	for (unsigned i = 0; i < ARENAS; i++) {
		int e = arenas[i].registered ? pmx_deregister(ctx[0], arenas[i].remote.key) : 0;

		if (e != 0 && !(arenas[i].adopts && e == -ENOKEY))
			fail("pmx_deregister: %s", pmx_strerror(e));
		munmap(arenas[i].at, BYTES);
	}
	pins_stat(&s);
	if (s.pinned_bytes != 0 || s.in_use != 0 || locked_bytes() != before)
		fail("all memory is gone, but the cache says %lu bytes pinned, %u in use; /proc "
		     "%lu",
			s.pinned_bytes, s.in_use, locked_bytes() - before);
	printf("# pin-down cache: %lu hits, %lu misses, %lu evictions, %lu invalidations\n", s.hits,
		s.misses, s.evictions, s.invalidations);
}

static void
start(unsigned n, const char *watch)
{
	char text[512], error[256];
	struct pmx_node_params node = {.size = sizeof(node), .config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = torture%u\n[link 0]\ndriver = loop\nport = t\n"
		"encap = none\n"
		"[limits]\ncontexts = 2\nmbufs = 8192\npin_bytes = 1048576\npin_entries = 16\n"
		"pin_watch = %s\n"
		"[nodes]\n0 = auto\n1 = auto\n",
		n, n, watch);
	int e = pmx_node_start(&nodes[n], &node, error, sizeof(error));

	if (e == 0)
		e = pmx_context_open(&ctx[n], nodes[n], 0, NULL);
	if (e != 0) {
		fprintf(stderr, "torture: node %u: %s %s\n", n, pmx_strerror(e), error);
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "--no-pci", "-m", "256", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", "-l", "0", NULL};
	uint64_t changes = argc > 1 ? strtoull(argv[1], NULL, 0) : 10000;
	double began = now_s();
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	pthread_t thread[ARENAS];
	void *p;

	mallopt(M_MMAP_THRESHOLD, 1 << 30); /* see `holes` */
	mallopt(M_ARENA_MAX, 1);
	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - 1, eal) < 0)
		return 2;
	start(0, argc > 3 ? argv[3] : "on");
	start(1, argc > 3 ? argv[3] : "on");
	uint64_t before = locked_bytes();

	if (pmx_alloc(ctx[1], (uint64_t)ARENAS * BYTES, &p) != 0)
		fail("pmx_alloc");
	target = p;
	if (pmx_register(ctx[1], target, (uint64_t)ARENAS * BYTES, PMX_REMOTE_WRITE,
		    &target_remote) != 0 ||
		pmx_alloc(ctx[1], (uint64_t)ARENAS * BYTES, &p) != 0)
		fail("pmx_register");
	sink = p;
	for (unsigned i = 0; i < ARENAS; i++) {
		struct arena *a = &arenas[i];

		a->at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
		a->wild = i >= TAME;
		a->adopts = i % 3 == 0 && !a->wild;
		a->seed = seed * 100 + i;
		write_all(a);
		pthread_create(&thread[i], NULL, run_thread, a);
	}
	run(changes, seed);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < ARENAS; i++)
		pthread_join(thread[i], NULL);
	printf("# %.1f s: %lu pushes, %lu pulls, %lu refused for their memory was replaced, %lu "
	       "found none, %lu had to wait for pins; changes:",
		now_s() - began, pushes, pulls, refusals, faults, full);
	for (unsigned c = 0; c < 8; c++) {
		uint64_t n = 0;

		for (unsigned i = 0; i < ARENAS; i++)
			n += arenas[i].changes[c];
		printf(" %s %lu%s", change_name[c], n, c < 7 ? "," : "\n");
	}
	if (!failed)
		check_pins(before);
	return failed;
}
