/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent of a host: starts its processes, passes on what they say and write, and ends them. It
 * speaks with pmx-run by its standard input and output, and with each process by a socket.
 *
 * Design notes
 * 1. When its input ends, so do the processes: whoever kills pmx-run, or whatever cuts the way to
 *    this host, leaves nothing behind. When the agent is killed, the kernel kills its processes.
 * 2. A process leads a process group, which gets the signals, so that what it has started ends too.
 * 3. The agent may block in writing: pmx-run always reads, and a process that values are for waits
 *    for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch.h"

enum { SOCKET, OUTPUT, ERRORS, FDS };

struct process {
	pid_t pid;   /* 0: none runs */
	int fd[FDS]; /* -1: closed */
	struct stream_in in;
};

struct agent_work {
	int up; /* to pmx-run */
	struct stream_in in;
	struct launch launch;
	struct process *of; /* launch.ranks */
	uint32_t running;
	int64_t kill_at_ms; /* 0: they need not end */
};

static void
agent_tell(struct agent_work *a, uint8_t op, uint32_t rank, const void *body, uint32_t len)
{
	/* that pmx-run has gone is seen by its stream's end */
	stream_write(a->up, op, rank, body, len);
}

static void
signal_all(struct agent_work *a, int number)
{
	for (uint32_t i = 0; i < a->launch.ranks; i++) {
		if (a->of[i].pid != 0)
			kill(-a->of[i].pid, number);
	}
}

static void
end_all(struct agent_work *a)
{
	if (a->kill_at_ms != 0)
		return;
	signal_all(a, SIGTERM);
	signal_all(a, SIGCONT);
	a->kill_at_ms = clock_ms() + GRACE_MS;
}

/* ------------------------------------------------------------------ starting */

static void
set_number(const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

/* Turn the new process into the rank's program. If something fails, write it to `failed`, which
 * closes when the program runs. */
static void
become(const struct launch *l, uint32_t rank, const int child[FDS], int failed)
{
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, STDIN_FILENO);
	dup2(child[OUTPUT], STDOUT_FILENO);
	dup2(child[ERRORS], STDERR_FILENO);
	fcntl(child[SOCKET], F_SETFD, 0);
	for (char **v = l->variables; *v != NULL; v++) {
		char *equals = strchr(*v, '=');

		if (equals == NULL)
			continue;
		*equals = 0;
		setenv(*v, equals + 1, 1);
	}
	set_number("PMX_JOB", l->number);
	set_number("PMX_SIZE", l->size);
	set_number("PMX_RANK", rank);
	set_number("PMX_JOB_FD", (uint32_t)child[SOCKET]);
	if (*l->instance != 0)
		setenv("PMX_INSTANCE", l->instance, 1);
	if (*l->directory != 0 && chdir(l->directory) != 0)
		dprintf(failed, "%s: %s", l->directory, strerror(errno));
	else if (execvp(l->command[0], l->command) != 0)
		dprintf(failed, "%s: %s", l->command[0], strerror(errno));
	_exit(127);
}

static bool
make_channels(struct process *p, int child[FDS], int failed[2])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return false;
	p->fd[SOCKET] = pair[0];
	child[SOCKET] = pair[1];
	for (int i = OUTPUT; i <= ERRORS; i++) {
		if (pipe2(pair, O_CLOEXEC) != 0)
			return false;
		p->fd[i] = pair[0];
		child[i] = pair[1];
		fcntl(pair[0], F_SETFL, O_NONBLOCK);
	}
	return pipe2(failed, O_CLOEXEC) == 0;
}

/* Start the process of the agent's rank number i. Return false if that fails, after telling pmx-run
 * why. */
static bool
run_agent_start(struct agent_work *a, uint32_t i)
{
	struct process *p = &a->of[i];
	const uint32_t rank = a->launch.first + i;
	int child[FDS] = {-1, -1, -1}, failed[2] = {-1, -1};
	char why[512];
	ssize_t n = 0;

	if (!make_channels(p, child, failed) || (p->pid = fork()) < 0) {
		p->pid = 0;
		n = snprintf(why, sizeof(why), "%s", strerror(errno));
	} else if (p->pid == 0) {
		become(&a->launch, rank, child, failed[1]);
	}
	a->running += p->pid != 0; /* also if it will say that it cannot become that program */
	for (int k = 0; k < FDS; k++)
		close(child[k]);
	close(failed[1]);
	if (n == 0)
		n = read(failed[0], why, sizeof(why));
	close(failed[0]);
	if (n > 0) {
		agent_tell(a, STREAM_FAILED, rank, why, (uint32_t)n);
		return false;
	}
	return true;
}

static void
start_all(struct agent_work *a)
{
	char body[4 + 256] = "";

	for (uint32_t i = 0; i < a->launch.ranks; i++) {
		if (!run_agent_start(a, i))
			return;
		stream_put_u32((uint8_t *)body, (uint32_t)a->of[i].pid);
		gethostname(body + 4, sizeof(body) - 5);
		agent_tell(a, STREAM_STARTED, a->launch.first + i, body,
			4 + (uint32_t)strlen(body + 4));
	}
}

/* ------------------------------------------------------------------ what comes */

/* Pass on to pmx-run what a process wrote to its output or its errors, as far as it is there. */
static void
pass_output(struct agent_work *a, uint32_t i, int which)
{
	int *fd = &a->of[i].fd[which];
	uint8_t bytes[32768];

	while (*fd >= 0) {
		const ssize_t n = read(*fd, bytes, sizeof(bytes));

		if (n > 0)
			agent_tell(a, which == OUTPUT ? STREAM_OUTPUT : STREAM_ERRORS,
				a->launch.first + i, bytes, (uint32_t)n);
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && errno == EAGAIN)
			return;
		else
			close_fd(fd);
	}
}

/* Pass on to pmx-run the messages of a process, under its own rank, whatever it claims to be. */
static void
pass_messages(struct agent_work *a, uint32_t i)
{
	struct process *p = &a->of[i];
	struct stream_message m;
	const int r = stream_read(p->fd[SOCKET], &p->in);
	int n = 0;

	while (r == 1 && (n = stream_next(&p->in, &m)) == 1) {
		if (m.op >= STREAM_HELLO && m.op <= STREAM_LEAVE)
			agent_tell(a, m.op, a->launch.first + i, m.body, m.len);
	}
	if ((r != 1 && r != -EAGAIN) || n < 0)
		close_fd(&p->fd[SOCKET]);
}

/* Tell pmx-run that a process has ended, after all that it has said and written. Kill what it has
 * started. */
static void
ended(struct agent_work *a, uint32_t i, int status)
{
	struct process *p = &a->of[i];
	struct pollfd more = {p->fd[SOCKET], POLLIN, 0};
	uint8_t body[4];

	while (p->fd[SOCKET] >= 0 && poll(&more, 1, 0) == 1) {
		pass_messages(a, i);
		more.fd = p->fd[SOCKET];
	}
	pass_output(a, i, OUTPUT);
	pass_output(a, i, ERRORS);
	/* what it has started ends with it */
	kill(-p->pid, SIGKILL);
	p->pid = 0;
	a->running--;
	for (int k = 0; k < FDS; k++)
		close_fd(&p->fd[k]);
	stream_put_u32(body, (uint32_t)status);
	agent_tell(a, STREAM_ENDED, a->launch.first + i, body, sizeof(body));
}

static void
reap(struct agent_work *a)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (uint32_t i = 0; i < a->launch.ranks; i++) {
			if (a->of[i].pid == pid)
				ended(a, i, status);
		}
	}
}

/* Obey one command of pmx-run. Return false if it is no pmx-run that speaks. */
static bool
command(struct agent_work *a, const struct stream_message *m)
{
	switch (m->op) {
	case STREAM_START:
		if (a->of != NULL || !launch_read(&a->launch, m->body, m->len))
			return false;
		a->of = calloc(a->launch.ranks + 1, sizeof(*a->of));
		if (a->of == NULL)
			return false;
		for (uint32_t i = 0; i < a->launch.ranks; i++)
			memset(a->of[i].fd, 0xFF, sizeof(a->of[i].fd));
		start_all(a);
		return true;
	case STREAM_SIGNAL:
		if (m->len != 4)
			return false;
		if (stream_u32(m->body) == SIGTERM)
			end_all(a);
		else
			signal_all(a, (int)stream_u32(m->body));
		return true;
	case STREAM_VALUES:
		for (uint32_t i = 0; i < a->launch.ranks; i++) {
			if (a->of[i].fd[SOCKET] >= 0)
				stream_write(a->of[i].fd[SOCKET], m->op, a->launch.first + i,
					m->body, m->len);
		}
		return true;
	default:
		return false;
	}
}

/* ------------------------------------------------------------------ the loop */

/* Wait for whatever comes first, and take it. Return false if pmx-run has gone. */
static bool
agent_turn(struct agent_work *a, struct pollfd *fds, int signals, bool listens)
{
	const int64_t left = a->kill_at_ms - clock_ms();
	uint32_t n = 2;

	fds[0] = (struct pollfd){listens ? STDIN_FILENO : -1, POLLIN, 0};
	fds[1] = (struct pollfd){signals, POLLIN, 0};
	for (uint32_t i = 0; i < a->launch.ranks; i++) {
		for (int k = 0; k < FDS; k++)
			fds[n++] = (struct pollfd){a->of[i].fd[k], POLLIN, 0};
	}
	poll(fds, n, a->kill_at_ms == 0 ? -1 : left > 0 ? (int)left : 0);
	if (a->kill_at_ms != 0 && clock_ms() >= a->kill_at_ms) {
		signal_all(a, SIGKILL);
		a->kill_at_ms = clock_ms() + GRACE_MS;
	}
	for (uint32_t i = 0; i < a->launch.ranks; i++) {
		const struct pollfd *of = &fds[2 + i * FDS];

		if (of[SOCKET].revents)
			pass_messages(a, i);
		if (of[OUTPUT].revents)
			pass_output(a, i, OUTPUT);
		if (of[ERRORS].revents)
			pass_output(a, i, ERRORS);
	}
	if (fds[1].revents) {
		struct signalfd_siginfo info;

		if (read(signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGCHLD)
			end_all(a);
		reap(a);
	}
	if (fds[0].revents == 0)
		return true;
	struct stream_message m;
	const int r = stream_read(STDIN_FILENO, &a->in);
	int k = 0;

	while (r == 1 && (k = stream_next(&a->in, &m)) == 1) {
		if (!command(a, &m))
			return false;
	}
	return k >= 0 && (r == 1 || r == -EAGAIN);
}

int
agent_run(void)
{
	struct agent_work a = {.up = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
	struct pollfd *fds = NULL;
	bool listens = true;
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* what it says by mistake must not get into the stream */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC);

	while (listens || a.running > 0) {
		struct pollfd *more = realloc(fds,
			(2 + (size_t)a.launch.ranks * FDS) * sizeof(*fds));

		if (more == NULL)
			break;
		fds = more;
		if (!agent_turn(&a, fds, signals, listens)) {
			listens = false;
			end_all(&a);
		}
	}
	free(fds);
	stream_free(&a.in);
	for (uint32_t i = 0; a.of != NULL && i < a.launch.ranks; i++)
		stream_free(&a.of[i].in);
	free(a.of);
	launch_free(&a.launch);
	return 0;
}
