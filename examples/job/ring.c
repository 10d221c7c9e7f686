/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A number goes around the processes of a job, and each adds its rank to it.
 *
 *     pmx-run -n 4 job_ring          or  mpirun -np 4 job_ring
 */
#include <stdio.h>

#include <pmx/job.h>

#define WAIT_US 10000000

int
main(void)
{
	struct pmx_job *job;
	struct pmx_message message;
	struct pmx_addr next;
	char error[256];
	uint64_t sum = 0;
	int result;

	if (pmx_job_init(&job, NULL, 60000000, error, sizeof(error)) != 0) {
		fprintf(stderr, "job_ring: %s\n", error);
		return 1;
	}
	const uint32_t rank = pmx_job_rank(job), size = pmx_job_size(job);
	struct pmx_context *ctx = pmx_job_context(job);

	pmx_job_address(job, (rank + 1) % size, &next);
	for (int turn = 0; turn < 2; turn++) { /* rank 0 begins, and hears the sum at the end */
		if (rank != 0 || turn != 0) {
			result = pmx_receive_wait(ctx, &message, WAIT_US);
			if (result != 1) {
				fprintf(stderr, "job_ring: rank %u: %s\n", rank,
					pmx_strerror(result));
				return 1;
			}
			sum = *(uint64_t *)message.data + rank;
			pmx_release_receive_buffer(ctx, &message);
		}
		if (rank == 0 && turn == 1)
			break;
		result = pmx_send_copy(ctx, next, &sum, sizeof(sum), NULL);
		if (result != 0) {
			fprintf(stderr, "job_ring: rank %u: %s\n", rank, pmx_strerror(result));
			return 1;
		}
		if (rank != 0)
			break;
	}
	if (rank == 0)
		printf("%u processes: the sum of the ranks is %lu\n", size, (unsigned long)sum);
	pmx_job_finalize(job);
	return 0;
}
