/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process of a job (include/pmx/job.h), which run.sh starts in several ways.
 *
 * Usage: job WHAT
 *   all        values of all lengths by two exchanges, a message from each process to each, a
 *              barrier of the group; then each says that it is right
 *   die RANK   that rank ends by SIGKILL after all have met, the others wait for it
 *   leave RANK that rank leaves the job, and does something else, before an exchange that the
 *   others
 *              wait for
 *   end RANK   that rank ends well, without having left the job
 *   alone FILE rank 0 writes all addresses to FILE, where all have an area for anyone; all wait
 *   until
 *              FILE.over is there, and must have heard nothing by then
 *   intrude FILE, strange FILE
 *              as another job, or none: messages, matched messages and pushes to all of them end in
 *              -ECONNREFUSED
 *   meet       no more than pmx_job_init(); rank 0 says how long it took, from the time in the
 *              environment variable BEGAN on
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmx/job.h"

#define WAIT_US 20000000

static struct pmx_job *job;

static void
right(int is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "job: rank %u: %s\n", job != NULL ? pmx_job_rank(job) : UINT32_MAX, what);
	exit(1);
}

static uint32_t
length_of(uint32_t rank, uint32_t round)
{
	static const uint32_t lengths[] = {0, 1, 7, 4096, PMX_JOB_VALUE_MAX};

	return lengths[(rank + round) % 5];
}

static uint8_t
byte_of(uint32_t rank, uint32_t round, uint32_t i)
{
	return (uint8_t)(rank * 31 + round * 7 + i);
}

static void
values(void)
{
	static uint8_t bytes[PMX_JOB_VALUE_MAX + 1];
	const uint32_t own = pmx_job_rank(job);

	right(pmx_job_put(job, "", bytes, 1) == -EINVAL, "a key without characters was taken");
	right(pmx_job_put(job, "k", bytes, PMX_JOB_VALUE_MAX + 1) == -EINVAL,
		"a value that is too long was taken");
	for (uint32_t round = 0; round < 3; round++) {
		const uint32_t len = length_of(own, round);

		for (uint32_t i = 0; i < len; i++)
			bytes[i] = byte_of(own, round, i);
		right(pmx_job_put(job, "key", bytes, len) == 0, "pmx_job_put");
		if (round == 1 && own == 0)
			right(pmx_job_put(job, "once", "x", 1) == 0, "pmx_job_put");
		right(pmx_job_fence(job, WAIT_US) == 0, "pmx_job_fence");
		for (uint32_t r = 0; r < pmx_job_size(job); r++) {
			const uint32_t want = length_of(r, round);

			memset(bytes, 0xEE, sizeof(bytes));
			right(pmx_job_get(job, r, "key", bytes, sizeof(bytes)) == (int)want,
				"a value has another length");
			for (uint32_t i = 0; i < want; i++)
				right(bytes[i] == byte_of(r, round, i), "a byte of a value");
			right(bytes[want] == 0xEE, "more than the value was written");
		}
	}
	right(pmx_job_get(job, 0, "once", bytes, 0) == 1, "a value that was put later");
	right(pmx_job_get(job, 0, "never", bytes, 1) == -ENOENT, "a value that nobody has put");
	right(pmx_job_get(job, pmx_job_size(job), "key", bytes, 1) == -EINVAL, "of no rank");
}

static void
messages(void)
{
	struct pmx_context *ctx = pmx_job_context(job);
	const uint32_t size = pmx_job_size(job), own = pmx_job_rank(job);
	char *heard = calloc(size, 1);
	const struct pmx_addr self = pmx_context_addr(ctx);
	struct pmx_message m;
	struct pmx_addr to;

	right(heard != NULL, "memory");
	right(pmx_job_address(job, own, &to) == 0 && to.node == self.node &&
			to.context == self.context,
		"its own address is another one");
	right(pmx_job_address(job, size, &to) == -EINVAL, "the address of no rank");
	for (uint32_t r = 0; r < size; r++) {
		right(pmx_job_address(job, r, &to) == 0, "an address");
		int e;

		while ((e = pmx_send_copy(ctx, to, &own, sizeof(own), NULL)) == -EAGAIN ||
			e == -ENOBUFS)
			usleep(50);
		right(e == 0, "pmx_send_copy");
	}
	for (uint32_t n = 0; n < size; n++) {
		uint32_t from;

		right(pmx_receive_wait(ctx, &m, WAIT_US) == 1, "a message did not come");
		memcpy(&from, m.data, sizeof(from));
		right(from < size && !heard[from]++, "a message came twice");
		pmx_release_receive_buffer(ctx, &m);
	}
	free(heard);
}

static void
barrier(void)
{
	struct pmx_group *g = pmx_job_group(job);
	struct pmx_status status;
	pmx_request r;

	right(pmx_group_size(g) == pmx_job_size(job) && pmx_group_rank(g) == pmx_job_rank(job) &&
			pmx_group_id(g) == pmx_job_number(job),
		"the group is another one");
	right(pmx_group_barrier(g, &r) == 0, "pmx_group_barrier");
	right(pmx_wait(pmx_job_context(job), &r, &status, WAIT_US) == 1, "the barrier");
}

/* ------------------------------------------------------------------ domains */

#define AREA 7

static void
alone(const char *file)
{
	struct pmx_context *ctx = pmx_job_context(job);
	char over[256], made[256];
	struct pmx_remote unused;
	struct pmx_message m;
	uint64_t *area;

	right(pmx_alloc(ctx, 4096, (void **)&area) == 0, "pmx_alloc");
	snprintf(over, sizeof(over), "%s.over", file);
	snprintf(made, sizeof(made), "%s.new", file);
	right(pmx_area_register(ctx, AREA, area, 4096, PMX_REMOTE_WRITE | PMX_ANYONE, &unused) == 0,
		"pmx_area_register");
	right(pmx_job_fence(job, WAIT_US) == 0, "pmx_job_fence");
	if (pmx_job_rank(job) == 0) {
		FILE *f = fopen(made, "w");

		right(f != NULL, file);
		for (uint32_t r = 0; r < pmx_job_size(job); r++) {
			struct pmx_addr a;

			pmx_job_address(job, r, &a);
			fprintf(f, "%u %u\n", a.node, a.context);
		}
		right(fclose(f) == 0 && rename(made, file) == 0, file);
	}
	while (access(over, F_OK) != 0)
		right(pmx_receive_wait(ctx, &m, 10000) != 1, "a message of a stranger came");
	for (unsigned i = 0; i < 8; i++)
		right(area[i] == 0, "a stranger has written here");
	right(pmx_job_fence(job, WAIT_US) == 0, "pmx_job_fence"); /* all have waited */
	messages();                                               /* its own still come */
	printf("rank %u was left alone\n", pmx_job_rank(job));
}

/* A stranger tries these with one of them. */
struct intrusion {
	uint64_t word;
	pmx_send_id sent;
	pmx_request matched;
	pmx_transfer_id push;
};

static void
begin(struct pmx_context *ctx, struct intrusion *i, struct pmx_addr to)
{
	const struct pmx_matched m = {
		.peer = to,
		.tag = 1,
		.data = &i->word,
		.len = sizeof(i->word),
		.flags = PMX_DELIVERED,
	};
	const struct pmx_transfer t = {
		.peer = to,
		.flags = PMX_AREA,
		.key = AREA,
		.local = &i->word,
		.len = sizeof(i->word),
	};

	i->word = 1;
	right(pmx_send_copy(ctx, to, &i->word, sizeof(i->word), &i->sent) == 0, "pmx_send_copy");
	right(pmx_isend(ctx, &m, &i->matched) == 0, "pmx_isend");
	right(pmx_push(ctx, &t, &i->push) == 0, "pmx_push");
}

static void
is_refused(struct pmx_context *ctx, struct intrusion *i)
{
	struct pmx_status status;
	int e;

	while ((e = pmx_is_send_done(ctx, i->sent)) == 0)
		usleep(1000);
	right(e == -ECONNREFUSED, "a message of a stranger was taken");
	right(pmx_wait(ctx, &i->matched, &status, WAIT_US) != 1 || status.error == -ECONNREFUSED,
		"a matched message of a stranger was taken");
	while ((e = pmx_transfer_done(ctx, i->push)) == 0)
		usleep(1000);
	right(e == -ECONNREFUSED, "a push of a stranger was taken");
}

static void
intrude(struct pmx_context *ctx, const char *file)
{
	struct intrusion tries[16];
	FILE *f = fopen(file, "r");
	unsigned node, context, n = 0;

	right(f != NULL, file);
	for (; n < 16 && fscanf(f, "%u %u", &node, &context) == 2; n++)
		begin(ctx, &tries[n], (struct pmx_addr){(uint16_t)node, (uint16_t)context});
	fclose(f);
	right(n > 0, "no address is in the file");
	for (unsigned i = 0; i < n; i++)
		is_refused(ctx, &tries[i]);
	printf("refused by %u\n", n);
}

/* Act as a process of no job: try to reach the contexts of a job that are listed in the file. */
static int
strange(const char *file)
{
	struct pmx_context *ctx;
	struct pmx_node *node;

	right(pmx_node_attach(&node, getenv("PMX_INSTANCE"), NULL) == 0, "pmx_node_attach");
	right(pmx_context_open(&ctx, node, PMX_ANY_CONTEXT, NULL) == 0, "pmx_context_open");
	intrude(ctx, file);
	pmx_node_close(node);
	return 0;
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	const uint32_t who = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	struct pmx_job *second;
	char error[256];

	if (argc > 2 && strcmp(what, "strange") == 0)
		return strange(argv[2]);

	if (pmx_job_init(&job, NULL, 60000000, error, sizeof(error)) != 0) {
		fprintf(stderr, "job: %s\n", error);
		return 1;
	}
	right(pmx_job_init(&second, NULL, 60000000, error, sizeof(error)) == -EALREADY,
		"it began twice");
	if (strcmp(what, "meet") == 0) {
		struct timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
		if (pmx_job_rank(job) == 0 && getenv("BEGAN") != NULL)
			printf("met %.3f\n",
				(double)t.tv_sec + (double)t.tv_nsec / 1e9 - atof(getenv("BEGAN")));
	} else if (strcmp(what, "die") == 0) {
		if (pmx_job_rank(job) == who)
			raise(SIGKILL);
		pause();
	} else if (argc > 2 && strcmp(what, "alone") == 0) {
		alone(argv[2]);
	} else if (argc > 2 && strcmp(what, "intrude") == 0) {
		intrude(pmx_job_context(job), argv[2]);
	} else if (strcmp(what, "end") == 0 && pmx_job_rank(job) == who) {
		_exit(0);
	} else if (strcmp(what, "leave") == 0 || strcmp(what, "end") == 0) {
		if (pmx_job_rank(job) == who) {
			pmx_job_finalize(job);
			pause();
		}
		right(pmx_job_fence(job, WAIT_US) != 0, "an exchange without one of them");
	} else {
		values();
		messages();
		barrier();
		printf("rank %u of %u is right, in job %u\n", pmx_job_rank(job), pmx_job_size(job),
			pmx_job_number(job));
	}
	pmx_job_finalize(job);
	return 0;
}
