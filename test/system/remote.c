/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory between applications that are processes of their own, attached to two running
 * primaries: their owners sleep, are told, are killed, ask from killed processes, and belong to
 * several lanes. remote.sh starts the primaries and looks for what was left behind; one case at a
 * time: remote CASE INSTANCE-0 INSTANCE-1 [SEED [ROUNDS]].
 *
 * Design notes
 * 1. This process attaches to nothing. It forks the applications (each attaches, and says so),
 *    tells them by a socket what to do next, hears that it is done, and kills them with nothing
 *    between its decision and the signal. No word is waited for longer than it may take, so a case
 *    ends in bounded time whatever hangs.
 * 2. Every byte of every memory is known from where it stands and a "salt": 0 at first; whoever
 *    pushes uses another salt. So a byte that came to a wrong place is seen, and memory that a push
 *    may or may not have reached, because its process died, is checked as well: each byte has one
 *    of the salts.
 * 3. Memory that can be reached is much more than what is asked for: guards lie between what is
 *    pushed to, what is pulled from, and the ends, and are in the region as well.
 * 4. A process that follows a killed one is attached before, and opens the same context number at
 *    once, while what the dead one asked for, or was asked for, is still on its way.
 */
#include "remote.h"

const char *const where_name[] = {"pmx_alloc", "malloc"};
const char *instances[2];
unsigned rounds = 10;
bool told;

/* ------------------------------------------------------------- who starts, tells and kills them */

struct app {
	pid_t pid;
	int socket;
	const char *what;
	char said[WORD_MAX];
};

static char why[2 * WORD_MAX];

static __attribute__((format(printf, 1, 2))) void
case_fails(const char *fmt, ...)
{
	va_list args;

	if (failed)
		return;
	failed = true;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
}

static void
kill_app(struct app *a)
{
	if (a->pid > 0) {
		kill(a->pid, SIGKILL);
		waitpid(a->pid, NULL, 0);
		close(a->socket);
	}
	a->pid = 0;
}

static bool
hear(struct app *a, const char *wanted, double seconds)
{
	struct pollfd p = {.fd = a->socket, .events = POLLIN};

	if (failed)
		return false;
	if (poll(&p, 1, (int)(seconds * 1e3)) != 1) {
		case_fails("%s (process %d) does not say '%s' within %.0f s", a->what, a->pid,
			wanted, seconds);
		return false;
	}
	ssize_t n = recv(a->socket, a->said, WORD_MAX - 1, 0);

	if (n <= 0) {
		int status = 0;

		waitpid(a->pid, &status, 0);
		case_fails("%s (process %d) ended before it said '%s', status %x", a->what, a->pid,
			wanted, (unsigned)status);
		a->pid = 0;
		close(a->socket);
		return false;
	}
	a->said[n] = 0;
	if (strncmp(a->said, wanted, strlen(wanted)) == 0)
		return true;
	if (strncmp(a->said, "failed ", 7) == 0)
		case_fails("%s: %s", a->what, a->said + 7);
	else
		case_fails("%s says '%s', not '%s'", a->what, a->said, wanted);
	return false;
}

static __attribute__((format(printf, 2, 3))) void
tell(struct app *a, const char *fmt, ...)
{
	char word[WORD_MAX];
	va_list args;

	if (failed)
		return;
	va_start(args, fmt);
	vsnprintf(word, sizeof(word), fmt, args);
	va_end(args);
	if (send(a->socket, word, strlen(word), MSG_NOSIGNAL) < 0)
		case_fails("%s (process %d) is not there to be told '%s'", a->what, a->pid, word);
}

struct app
start(const char *what, void (*role)(bool), bool argument)
{
	struct app a = {.what = what};
	int s[2];

	if (failed)
		return a;
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) != 0 || (a.pid = fork()) < 0) {
		perror("remote");
		exit(2);
	}
	if (a.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(s[0]);
		control = s[1];
		role(argument);
		_exit(0);
	}
	close(s[1]);
	a.socket = s[0];
	hear(&a, "ready", 20);
	return a;
}

static void
open_app(struct app *a)
{
	tell(a, "open");
	hear(a, "opened", OPEN_S + WORK_S);
}

static void
end_app(struct app *a)
{
	int status = 0;

	tell(a, "end");
	if (hear(a, "ended", TRANSFER_S)) {
		waitpid(a->pid, &status, 0);
		if (status != 0)
			case_fails("%s: status %x", a->what, (unsigned)status);
		close(a->socket);
		a->pid = 0;
	}
}

/* The steps that the initiator and the target do in turn. */

/* Let the initiator say hello to the target. Return how often it asked, or 0 if it does not
 * tell. */
static unsigned
do_hello(struct app *i, const struct app *t)
{
	tell(i, "hello %d", t->pid);
	return hear(i, "done", TRANSFER_S + 5) ? (unsigned)atoi(i->said + 5) : 0;
}

static void
do_sizes(struct app *i, unsigned salt)
{
	tell(i, "sizes %u", salt);
	hear(i, "done", WORK_S);
}

static void
do_check(struct app *t, unsigned salt, unsigned long_first, unsigned long_last)
{
	tell(t, "check %u %u %u", salt, long_first, long_last);
	hear(t, "checked", WORK_S);
}

/* Print what the others had to say when one failed: the cause may be theirs. */
static void
print_last_words(void)
{
	char word[WORD_MAX];

	for (int fd = 3; fd < 64; fd++) {
		ssize_t n = recv(fd, word, sizeof(word) - 1, MSG_DONTWAIT);

		if (n > 0)
			printf("# another says: %.*s\n", (int)n, word);
	}
}

/* After what goes wrong first the rest is not done, and not told. */
static void
result(const char *name)
{
	if (!failed)
		printf("ok remote_%s\n", name);
	else if (!told) {
		printf("not ok remote_%s %s\n", name, why);
		usleep(200000);
		print_last_words();
	}
	told = failed;
	fflush(stdout);
}

void
asleep(void)
{
	struct app t = start("the target", target, true),
		   i = start("the initiator", initiator, false);

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	tell(&t, "sleep");
	hear(&t, "asleep", TRANSFER_S);
	do_sizes(&i, 1);
	result("asleep__bytes_come_and_go");
	if (!failed)
		kill(t.pid, SIGUSR1);
	do_check(&t, 1, 1, 0);
	result("asleep__all_is_there_when_it_wakes");
	end_app(&i);
	end_app(&t);
	result("asleep__ends_well");
	kill_app(&i);
	kill_app(&t);
}

static void
notify(void)
{
	static const struct {
		enum phase phase;
		unsigned count;
		const char *name;
	} phases[] = {
		{PING, 100, "notify__wakes_a_sleeper"},
		{UNORDERED, 3000, "notify__none_lost_without_order"},
		{FLOOD, 640, "notify__lost_ones_are_told"},
		{ORDERED_SHORT, 10000, "notify__short_ones_in_order_and_none_lost"},
		{ORDERED, 10000, "notify__short_and_long_in_order_and_none_lost"},
	};
	struct app t = start("the receiver", notify_target, false),
		   i = start("the sender", notify_initiator, false);
	unsigned pushed, lost;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned p = 0; p < sizeof(phases) / sizeof(phases[0]) && !failed; p++) {
		if (phases[p].phase == FLOOD) {
			tell(&t, "nap");
			hear(&t, "napping", TRANSFER_S);
		}
		tell(&i, "push %u %u", phases[p].phase, phases[p].count);
		/* it wakes when no more can end while it naps */
		if (phases[p].phase == FLOOD && hear(&i, "flooded", WORK_S))
			tell(&t, "wake");
		if (!hear(&i, "pushed ", WORK_S) ||
			sscanf(i.said, "pushed %u %u", &pushed, &lost) != 2)
			break;
		printf("# sender: %s\n", i.said);
		if ((phases[p].phase == FLOOD) != (lost != 0))
			case_fails("%u notifications of %u were lost", lost, pushed);
		usleep(300000); /* the last ones are taken */
		tell(&t, "expect %u %u", phases[p].phase, pushed - lost);
		if (hear(&t, "counted", TRANSFER_S))
			printf("# receiver: %s\n", t.said);
		result(phases[p].name);
	}
	end_app(&i);
	end_app(&t);
	result("notify__ends_well");
	kill_app(&i);
	kill_app(&t);
}

/* From the middle of the first frames to that of the second transfers. */
static void
wait_a_while(void)
{
	usleep((useconds_t)(draw() % (draw() % 3 ? 300000 : 5000)));
}

static void
target_killed(void)
{
	struct app i = start("the initiator", initiator, false),
		   t = start("the target", target, false),
		   next = start("the next target", target, false);
	double opened;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned r = 1; r <= rounds && !failed; r++) {
		tell(&i, "long %u", r);
		hear(&i, "running", WORK_S);
		wait_a_while();
		kill_app(&t);
		tell(&i, "killed");
		open_app(&next);
		opened = now_s();
		if (hear(&i, "all-ended", TRANSFER_S + 5))
			printf("# round %u: %s\n", r, i.said);
		tell(&i, "old");
		hear(&i, "done", WORK_S);
		if (!failed && now_s() < opened + 1)
			usleep((useconds_t)((opened + 1 - now_s()) * 1e6));
		do_check(&next, 0, 1, 0);
		do_hello(&i, &next);
		do_sizes(&i, r);
		do_check(&next, r, 1, 0);
		t = next;
		next = start("the next target", target, false);
		if (failed)
			printf("# round %u of seed %lu\n", r, seed);
	}
	end_app(&i);
	end_app(&t);
	result("target_killed");
	kill_app(&i);
	kill_app(&t);
	kill_app(&next);
}

/* Let the next one push and pull until nothing of that fails: what the dead one is owed must not
 * end what its successor asks for. Return how many transfers failed. */
static unsigned
do_many(struct app *next, unsigned round)
{
	unsigned resets = 0;

	for (unsigned tries = 0, bad = 1; bad && tries < 20 && !failed; tries++) {
		if (tries)
			usleep(250000);
		tell(next, "many %u", round);
		if (hear(next, "done ", WORK_S))
			bad = (unsigned)atoi(next->said + 5);
		if (bad && !failed)
			printf("# round %u: of %u transfers of the next one these failed: "
			       "%s\n",
				round, MANY, next->said + 5);
		if (bad && tries == 19)
			case_fails("the next one's transfers fail for 5 s: %s", next->said + 5);
		resets += bad;
	}
	return resets;
}

static void
initiator_killed(void)
{
	struct app t = start("the target", target, false),
		   i = start("the initiator", initiator, false),
		   next = start("the next initiator", initiator, false);
	unsigned resets = 0, asked = 0;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned r = 1; r <= rounds && !failed; r++) {
		do_sizes(&i, r);
		do_check(&t, r, 1, r - 1);
		tell(&i, "long %u", r);
		hear(&i, "running", WORK_S);
		wait_a_while();
		kill_app(&i);
		double killed = now_s();

		open_app(&next);
		asked += do_hello(&next, &t);
		resets += do_many(&next, r);
		if (!failed)
			printf("# round %u: the next one talks after %.3f s\n", r,
				now_s() - killed);
		do_check(&t, r, 1, r);
		i = next;
		next = start("the next initiator", initiator, false);
		if (failed)
			printf("# round %u of seed %lu\n", r, seed);
	}
	do_sizes(&i, rounds + 1);
	do_check(&t, rounds + 1, 1, rounds);
	end_app(&i);
	end_app(&t);
	result("initiator_killed");
	if (!failed && resets)
		case_fails("%u transfers of processes that lived ended with an error", resets);
	result("initiator_killed__the_next_is_not_taken_for_the_dead");
	if (!failed && asked > rounds + rounds / 2)
		case_fails("%u processes that followed a killed one asked %u times until they were "
			   "answered",
			rounds, asked);
	result("initiator_killed__the_next_is_answered_at_once");
	kill_app(&i);
	kill_app(&t);
	kill_app(&next);
}

/* Those of one kind, by applications of their own: what goes wrong with one kind does not keep
 * others from it. */
static void
lanes_pairs(enum pairs pairs)
{
	struct app a[2] = {start("node 0", lanes_node_0, false),
		start("node 1", lanes_node_1, false)};
	const char *const words_to[] = {"introduce", "run", "compare"};
	char name[64];

	open_app(&a[0]);
	open_app(&a[1]);
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned n = 0; n < 2; n++)
			tell(&a[n], "%s %u %u", words_to[k], pairs, 500 * rounds);
		for (unsigned n = 0; n < 2; n++) {
			if (hear(&a[n], "done", WORK_S) && k == 1)
				printf("# node %u: %s\n", n, a[n].said);
		}
	}
	end_app(&a[0]);
	end_app(&a[1]);
	snprintf(name, sizeof(name), "lanes__%s", pairs_name[pairs]);
	result(name);
	kill_app(&a[0]);
	kill_app(&a[1]);
}

void
lanes(void)
{
	bool any = false;

	for (unsigned p = 0; p < PAIRS; p++) {
		failed = told = false;
		lanes_pairs((enum pairs)p);
		any |= failed;
	}
	failed = any;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"asleep", asleep}, {"notify", notify}, {"target_killed", target_killed},
		{"initiator_killed", initiator_killed}, {"lanes", lanes}};

	if (argc < 4 || argc > 6) {
		fputs("Usage: remote asleep|notify|target_killed|initiator_killed|lanes INSTANCE-0 "
		      "INSTANCE-1 [SEED [ROUNDS]]\n",
			stderr);
		return 2;
	}
	instances[0] = argv[2];
	instances[1] = argv[3];
	if (argc > 4)
		seed = strtoull(argv[4], NULL, 0);
	if (argc > 5)
		rounds = (unsigned)strtoul(argv[5], NULL, 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		cases[i].run();
		return failed;
	}
	fprintf(stderr, "remote: no case '%s'\n", argv[1]);
	return 2;
}
