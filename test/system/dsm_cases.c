/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cases of shared memory that are no random program (dsm.c): dsm_cases -c CASE and what cluster.h
 * wants, for two members. Prints nothing if all is as it should be.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../examples/dsm/cluster.h"

#define PAGE    4096
#define PAGES   64
#define THREADS 4

static struct cluster c;
static uint8_t *shared;

static void
expect(const char *what, int64_t got, int64_t wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "rank %u: %s: %ld, not %ld\n", c.rank, what, (long)got, (long)wanted);
	exit(1);
}

static void
allocate(int home)
{
	void *memory;

	must("memory", pmx_dsm_alloc(c.dsm, PAGES * PAGE, home, &memory));
	shared = memory;
}

static void
barrier(void)
{
	must("barrier", pmx_dsm_barrier(c.dsm));
}

/* Every THREADS'th byte, at both members every second one of those. */
static void *
write_bytes(void *arg)
{
	const unsigned first = (unsigned)(uintptr_t)arg * 2 + c.rank;

	for (unsigned i = first; i < PAGES * PAGE; i += 2 * THREADS)
		shared[i] = (uint8_t)(i / 251 + first);
	return NULL;
}

/* Threads of both members write bytes of the same pages. */
static void
threads(void)
{
	pthread_t thread[THREADS];

	allocate(PMX_DSM_CYCLIC);
	for (unsigned turn = 0; turn < 20; turn++) {
		memset(shared, 0, c.rank == 0 ? PAGES * PAGE : 0);
		barrier();
		for (uintptr_t i = 0; i < THREADS; i++)
			expect("thread", pthread_create(&thread[i], NULL, write_bytes, (void *)i),
				0);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		barrier();
		for (unsigned i = 0; i < PAGES * PAGE; i++)
			expect("byte", shared[i], (uint8_t)(i / 251 + i % (2 * THREADS)));
		barrier();
	}
}

static void
arguments(void)
{
	struct pmx_dsm *other;
	struct pmx_dsm_params p = {.size = sizeof(p)};
	void *memory;

	allocate(0);
	expect("no bytes", pmx_dsm_alloc(c.dsm, 0, 0, &memory), -EINVAL);
	expect("home", pmx_dsm_alloc(c.dsm, 1, 2, &memory), -EINVAL);
	expect("home", pmx_dsm_alloc(c.dsm, 1, -3, &memory), -EINVAL);
	expect("room", pmx_dsm_alloc(c.dsm, PAGES * PAGE + 1, 0, &memory), -ENOSPC);
	expect("below", pmx_dsm_fetch(c.dsm, shared - 1, 1, false), -EINVAL);
	expect("above", pmx_dsm_fetch(c.dsm, shared, PAGES * PAGE + 1, false), -EINVAL);
	expect("nothing", pmx_dsm_fetch(c.dsm, shared, 0, false), 0);
	expect("no lock", pmx_dsm_lock(c.dsm, 1 << 20, 0), -EINVAL);
	expect("flags", pmx_dsm_lock(c.dsm, 0, 2), -EINVAL);
	expect("not held", pmx_dsm_unlock(c.dsm, 0), -EPERM);
	expect("params", pmx_dsm_open(c.group, &p, 10000000, &other), -EINVAL);
	p.bytes = PAGE;
	expect("address", pmx_dsm_open(c.group, &p, 10000000, &other), -EEXIST);
	barrier();
	if (c.rank == 0)
		expect("try", pmx_dsm_lock(c.dsm, 3, PMX_TRY), 0);
	barrier();
	if (c.rank == 1)
		expect("try", pmx_dsm_lock(c.dsm, 3, PMX_TRY), -EBUSY);
	else
		expect("twice", pmx_dsm_lock(c.dsm, 3, 0), -EDEADLK);
	barrier();
	if (c.rank == 0)
		expect("unlock", pmx_dsm_unlock(c.dsm, 3), 0);
}

/* System calls on memory that was fetched. */
static void
system_calls(void)
{
	char text[] = "shared memory";
	int fd[2];

	expect("pipe", pipe(fd), 0);
	allocate(0);
	if (c.rank == 0)
		memcpy(shared, text, sizeof(text));
	barrier();
	if (c.rank == 1) {
		expect("not fetched", write(fd[1], shared, sizeof(text)), -1);
		expect("not fetched", errno, EFAULT);
		must("fetch", pmx_dsm_fetch(c.dsm, shared, 2 * PAGE, true));
		expect("write", write(fd[1], shared, sizeof(text)), sizeof(text));
		expect("read", read(fd[0], shared + PAGE, sizeof(text)), sizeof(text));
	}
	barrier();
	expect("text", memcmp(shared + PAGE, text, sizeof(text)), 0);
}

/* The members do not allocate the same. */
static void
layouts(void)
{
	allocate((int)c.rank);
	expect("barrier", pmx_dsm_barrier(c.dsm), -EPROTO);
	expect("barrier", pmx_dsm_barrier(c.dsm), -EPROTO);
	expect("lock", pmx_dsm_lock(c.dsm, c.rank, 0), -EPROTO);
}

static volatile uint8_t *nowhere; /* cannot be accessed */

static void
on_signal(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	_exit(info->si_addr == nowhere ? 0 : 1);
}

/* A fault elsewhere is another handler's, which was there before. */
static void
elsewhere(void)
{
	barrier();
	/* member 0 ends when the other one has, which so has joined, and has left the barrier */
	if (c.rank == 0)
		expect("barrier", pmx_dsm_barrier(c.dsm), -ECONNRESET);
	(*nowhere)++;
	exit(1);
}

/* The home of a page dies: who touches it ends. */
static void
home_dies(void)
{
	allocate(1);
	barrier();
	if (c.rank == 1)
		_exit(0);
	sleep(1);
	printf("touched %u\n", shared[0]);
	exit(1);
}

/* A member dies: the others' calls end. */
static void
member_dies(void)
{
	allocate(0);
	barrier();
	if (c.rank == 1)
		_exit(0);
	expect("barrier", pmx_dsm_barrier(c.dsm), -ECONNRESET);
	expect("lock", pmx_dsm_lock(c.dsm, 0, 0), -ECONNRESET);
	shared[0]++;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"threads", threads},
	{"arguments", arguments},
	{"system_calls", system_calls},
	{"layouts", layouts},
	{"elsewhere", elsewhere},
	{"home_dies", home_dies},
	{"member_dies", member_dies},
};

int
main(int argc, char **argv)
{
	const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	const char *name = getopt(argc, argv, "c:") == 'c' ? optarg : "";
	unsigned i = 0;

	while (strcmp(cases[i].name, name) != 0) {
		if (++i == sizeof(cases) / sizeof(cases[0])) {
			fprintf(stderr, "no such case: %s\n", name);
			return 2;
		}
	}
	nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (cases[i].run == elsewhere)
		sigaction(SIGSEGV, &action, NULL);
	cluster_join(&c, argc - optind, argv + optind, "dsm_cases -c CASE", PAGES * PAGE);
	cases[i].run();
	cluster_leave(&c);
	return 0;
}
