/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See suite_run.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf.h"
#include "suite_run.h"

#define GRACE_S 5 /* from SIGTERM to SIGKILL */

/* Write the path of a program of PATH, or of one beside this one. */
static void
find_program(const char *name, char *out, size_t room)
{
	char self[4096], *paths, *path, *rest;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	out[0] = '\0';
	if (strchr(name, '/') != NULL) {
		if (access(name, X_OK) == 0)
			snprintf(out, room, "%s", name);
		return;
	}
	if (n > 0 && strncmp(name, "pmx-", 4) == 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		snprintf(out, room, "%s/%s", self, name);
		if (access(out, X_OK) == 0)
			return;
	}
	paths = strdup(getenv("PATH") != NULL ? getenv("PATH") : "/usr/bin:/bin");
	for (path = strtok_r(paths, ":", &rest); path != NULL; path = strtok_r(NULL, ":", &rest)) {
		snprintf(out, room, "%s/%s", path, name);
		if (access(out, X_OK) == 0)
			break;
	}
	if (path == NULL)
		out[0] = '\0';
	free(paths);
}

int
command_parse(struct command_line *c, const char *text)
{
	static char json[] = "--json";
	unsigned n = 0;
	char *rest;

	*c = (struct command_line){.set_count = 0};
	snprintf(c->text, sizeof(c->text), "%s", text);
	for (char *word = strtok_r(c->text, " \t", &rest); word != NULL;
		word = strtok_r(NULL, " \t", &rest)) {
		if (n == RUN_WORDS) {
			fprintf(stderr, "pmx-perf: suite: '%s': more than %d words\n", text,
				RUN_WORDS);
			return 1;
		}
		const char *equals = strchr(word, '=');

		if (n == 0 && equals != NULL && c->set_count < RUN_SETTINGS) {
			c->set[c->set_count++] = word;
			continue;
		}
		c->word[n++] = word;
		if (n == 1 && strcmp(word, "pmx-perf") == 0)
			c->word[n++] = json;
	}
	if (n == 0) {
		fprintf(stderr, "pmx-perf: suite: an empty command\n");
		return 1;
	}
	find_program(c->word[0], c->program, sizeof(c->program));
	return 0;
}

static void
redirect(const char *path, int fd)
{
	const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (file < 0 || dup2(file, fd) < 0)
		_exit(127);
}

pid_t
command_start(const struct command_line *c, int cpu, const char *out, const char *err)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		perf_complain("suite: fork", -errno);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	for (unsigned i = 0; i < c->set_count; i++)
		putenv(c->set[i]);
	redirect("/dev/null", 0);
	redirect(out, 1);
	redirect(err, 2);
	execv(c->program, c->word);
	_exit(127);
}

/* Wait until a process ends, for so many seconds. Return whether it did, and its status. */
static bool
wait_for_end(pid_t pid, double seconds, int *status)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	poll(&p, p.fd >= 0, (int)(seconds * 1000));
	if (p.fd >= 0)
		close(p.fd);
	return waitpid(pid, status, WNOHANG) == pid;
}

int
command_end(pid_t pid, double seconds)
{
	int status = 0;

	if (wait_for_end(pid, seconds, &status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	kill(pid, SIGTERM);
	if (!wait_for_end(pid, GRACE_S, &status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return -1;
}

bool
command_ready(pid_t pid, const char *path, double seconds)
{
	const int64_t deadline = clock_deadline((int64_t)(seconds * 1e6));
	const struct timespec pause = {.tv_nsec = 10000000};

	while (access(path, F_OK) != 0) {
		siginfo_t info = {.si_pid = 0};

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
			info.si_pid != 0 || clock_left(deadline) == 0)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* ------------------------------------------------------------------ what programs print */

static bool
line_of_json(const char *line, json_t *results)
{
	json_t *object = json_loads(line, 0, NULL);
	const bool is = json_is_string(json_object_get(object, "what")) &&
		json_is_string(json_object_get(object, "test"));

	if (is)
		json_array_append(results, object);
	json_decref(object);
	return is;
}

/* ucx_perftest -f: iterations; latency, us, of 50 %, on average, overall; MB/s on average, overall;
 * messages a second on average, overall. A latency is one way, and a MB 2^20 bytes. Its last line
 * counts. */
static json_t *
line_of_ucx(const struct command_line *c, const char *line, unsigned size)
{
	double iterations, p50, average, overall, mb, mb_all, rate, rate_all;
	bool latency = false;

	if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf", &iterations, &p50, &average, &overall,
		    &mb, &mb_all, &rate, &rate_all) != 8)
		return NULL;
	for (unsigned i = 0; c->word[i] != NULL; i++)
		latency |= strstr(c->word[i], "_lat") != NULL;
	if (latency)
		return json_pack("{s:s, s:s, s:i, s:I}", "what", "ucx", "test", "latency", "size",
			size, "p50_ns", (json_int_t)(p50 * 2000));
	return json_pack("{s:s, s:s, s:i, s:f, s:f}", "what", "ucx", "test", "bandwidth", "size",
		size, "gbits", mb_all * 8 * 1.048576 / 1000, "per_second", rate_all);
}

/* fi_pingpong: bytes, messages, Acks, all bytes, seconds, MB/s, us a transfer, transfers. It gives
 * averages, and no percentiles: a round trip is two transfers. */
static json_t *
line_of_pingpong(const char *line, unsigned size)
{
	char bytes[16], sent[16], acks[16], total[16];
	double seconds, mb, us;

	if (sscanf(line, "%15s %15s %15s %15s %lfs %lf %lf", bytes, sent, acks, total, &seconds,
		    &mb, &us) != 7)
		return NULL;
	return json_pack("{s:s, s:s, s:i, s:I}", "what", "libfabric", "test", "latency", "size",
		size, "p50_ns", (json_int_t)(us * 2000));
}

unsigned
command_results(const struct command_line *c, const char *out, unsigned size, json_t *results)
{
	FILE *f = fopen(out, "r");
	json_t *last = NULL;
	char *line = NULL;
	size_t room = 0;
	unsigned n = 0;

	while (f != NULL && getline(&line, &room, f) > 0) {
		json_t *other = strstr(c->program, "ucx_perftest") != NULL
			? line_of_ucx(c, line, size)
			: strstr(c->program, "fi_pingpong") != NULL ? line_of_pingpong(line, size)
								    : NULL;

		n += other == NULL && line_of_json(line, results);
		if (other != NULL) {
			json_decref(last);
			last = other;
		}
	}
	if (last != NULL) {
		json_array_append_new(results, last);
		n++;
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return n;
}
