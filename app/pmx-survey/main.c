/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-survey: what the network between the hosts of a job looks like, found by measuring. Started
 * on every host by pmx-run, mpirun or srun; rank 0 writes the topology.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmx/coll.h>
#include <pmx/job.h>

#define PATIENCE_US 30000000

static const char usage_text[] =
	"Usage: pmx-run --nodes FILE pmx-survey [--out TOPOLOGY]\n"
	"\n"
	"Measures the network between the job's hosts, one process on each, and writes what it\n"
	"finds, for PMX_TOPOLOGY and for pmx-ctl topology and plan: which hosts share a switch, "
	"how\n"
	"far they are, and what their lines and the links between switches carry. The network\n"
	"should be idle. Some 0.3 s for 8 hosts, 4 s for 56.\n"
	"\n"
	"  --out TOPOLOGY  write to that file (standard output)\n";

static int
survey_fail(const char *what, int error)
{
	fprintf(stderr, "pmx-survey: %s: %s\n", what, pmx_strerror(error));
	return 1;
}

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int
write_out(const char *path, const char *text)
{
	FILE *f = path != NULL ? fopen(path, "w") : stdout;

	if (f == NULL || fputs(text, f) == EOF || (path != NULL ? fclose(f) : fflush(f)) != 0) {
		fprintf(stderr, "pmx-survey: %s: %s\n", path != NULL ? path : "standard output",
			strerror(errno));
		return 1;
	}
	return 0;
}

/* Measure the network between the processes of the job; on rank 0, write the topology to `out`.
 * Return an exit code. */
static int
survey(struct pmx_job *job, const char *out)
{
	struct pmx_survey *s;
	const double began = now_s();
	char *text;
	int e = pmx_coll_survey(pmx_job_group(job), &s);

	if (e != 0)
		return survey_fail("it cannot begin", e);
	if (pmx_job_rank(job) == 0)
		fprintf(stderr, "pmx-survey: measuring between %u processes ...\n",
			pmx_job_size(job));
	e = pmx_coll_survey_wait(s, &text);
	if (e != 1)
		return survey_fail("the network cannot be measured", e);
	int code = 0;

	if (pmx_job_rank(job) == 0) {
		fprintf(stderr, "pmx-survey: done in %.1f s\n", now_s() - began);
		code = write_out(out, text);
	}
	free(text);
	/* the group ends with rank 0, and others may not have all yet */
	e = pmx_job_fence(job, PATIENCE_US);
	return e != 0 ? survey_fail("the others", e) : code;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"out", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *out = NULL;
	struct pmx_job *job;
	char error[256];
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (c != 'o') {
			fputs(usage_text, stderr);
			return 2;
		}
		out = optarg;
	}
	if (optind < argc) {
		fprintf(stderr, "pmx-survey: '%s': there are no arguments\n", argv[optind]);
		return 2;
	}
	if (pmx_job_init(&job, NULL, 60000000, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-survey: %s\n", error);
		return 1;
	}
	const int code = survey(job, out);

	pmx_job_finalize(job);
	return code;
}
