/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Alltoalls of a job, one after the other, and how long each takes. Usage, under pmx-run:
 *   follows BYTES BEFORE AFTER GO
 * Rank 0 prints a line for each: its number, ms, and how often plans have changed. After BEFORE of
 * them it says so, and all wait until the file GO is there; then AFTER more. PMX_TOPOLOGY and
 * PMX_COLL_ADAPT say how they are planned. The bytes are checked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pmx/coll.h>
#include <pmx/job.h>

#define PATIENCE_US 60000000

static struct pmx_job *job;
static struct pmx_group *group;
static struct pmx_context *ctx;
static uint32_t rank, size;

static void
die(const char *what, int error)
{
	fprintf(stderr, "follows: rank %u: %s: %s\n", rank, what, pmx_strerror(error));
	exit(1);
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
barrier(void)
{
	pmx_request r = 0;
	int e;

	while ((e = pmx_coll_barrier(group, &r)) == -EAGAIN)
		usleep(20);
	if (e == 0)
		e = pmx_wait(ctx, &r, NULL, PATIENCE_US);
	if (e != 1)
		die("barrier", e);
}

static uint8_t
byte_of(uint32_t from, uint32_t to, unsigned number)
{
	return (uint8_t)(from * 37 + to * 11 + number);
}

static void
alltoall(uint8_t *in, uint8_t *out, uint64_t bytes, unsigned number)
{
	pmx_request r = 0;
	int e;

	for (uint32_t k = 0; k < size; k++)
		memset(in + k * bytes, byte_of(rank, k, number), bytes);
	while ((e = pmx_alltoall(group, in, out, bytes, &r)) == -EAGAIN)
		usleep(20);
	const double began = now_ms(); /* by then it has been measured */

	if (e == 0)
		e = pmx_wait(ctx, &r, NULL, PATIENCE_US);
	if (e != 1)
		die("alltoall", e);
	if (rank == 0) {
		printf("%u %.2f %u\n", number, now_ms() - began, pmx_coll_adapted(group));
		fflush(stdout);
	}
	for (uint32_t k = 0; k < size; k++) {
		if (out[k * bytes] != byte_of(k, rank, number) ||
			out[(k + 1) * bytes - 1] != byte_of(k, rank, number))
			die("bytes differ", -EIO);
	}
}

int
main(int argc, char **argv)
{
	char error[256];

	if (argc != 5)
		return 2;
	const uint64_t bytes = strtoull(argv[1], NULL, 10);
	const unsigned before = (unsigned)atoi(argv[2]), after = (unsigned)atoi(argv[3]);

	if (pmx_job_init(&job, NULL, 60000000, error, sizeof(error)) != 0) {
		fprintf(stderr, "follows: %s\n", error);
		return 1;
	}
	group = pmx_job_group(job);
	ctx = pmx_job_context(job);
	rank = pmx_job_rank(job);
	size = pmx_job_size(job);
	uint8_t *in = calloc(size, bytes), *out = calloc(size, bytes);

	if (in == NULL || out == NULL)
		die("memory", -ENOMEM);
	for (unsigned i = 0; i < before + after; i++) {
		if (i == before && rank == 0) {
			printf("go\n");
			fflush(stdout);
			while (access(argv[4], F_OK) != 0)
				usleep(1000);
		}
		barrier();
		alltoall(in, out, bytes, i);
	}
	const int e = pmx_job_fence(job, PATIENCE_US);

	pmx_job_finalize(job);
	return e != 0;
}
