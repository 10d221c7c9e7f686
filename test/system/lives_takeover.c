/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cases of lives.c: primaries that take over from each other, and clients meanwhile.
 */
#include "lives.h"

/* -------------------------------------------------------------- 11: a take-over that is refused */

/* Each "echo" is answered by "echoed"; "end" ends it. "go": its primary is given away, it comes
 * back. */
static void
secondary_that_echoes(int fd, unsigned number)
{
	char line[16];

	attach("secondary");
	struct pmx_context *ctx = opened(number);

	echo(ctx, number);
	say(fd, "there");
	for (;;) {
		size_t n = 0;

		while (n < sizeof(line) - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
			n++;
		line[n] = 0;
		if (strcmp(line, "echo") == 0) {
			echo(ctx, number);
			say(fd, "echoed");
		} else if (strcmp(line, "go") == 0) {
			until_gone(ctx);
			reattach();
			echo(ctx, number);
			say(fd, "again");
		} else {
			break;
		}
	}
	pmx_node_close(node);
}

/* pmx-ctl finds the primary, within so many ms. */
static void
is_found(unsigned ms)
{
	double until = now_s() + ms / 1e3;
	char command[600], out[300] = "";
	int status;

	snprintf(command, sizeof(command), "timeout 30 '%s/app/pmx-ctl' --instance '%s' stat 2>&1",
		build, instance);
	do {
		FILE *f = popen(command, "re");
		size_t n = f != NULL ? fread(out, 1, sizeof(out) - 1, f) : 0;

		out[n] = 0;
		while (f != NULL && fgetc(f) != EOF)
			;
		status = f != NULL ? pclose(f) : -1;
	} while (status != 0 && now_s() < until);
	MUST(status == 0, "the primary is not found by its name: %s", out);
}

/* An offer that nobody takes keeps a take-over from its end; it is taken when that was refused. s:
 * a secondary. */
static void
is_refused(struct child *s, struct pmx_context *ctx, struct pmx_context *other)
{
	static uint8_t out[LONG], in[LONG];
	static uint8_t value;
	const struct pmx_matched offer = {
		.peer = own(1),
		.tag = 5,
		.data = out,
		.len = LONG,
		.flags = PMX_SYNC,
	};
	const struct pmx_matched take = {.peer = own(0), .tag = 5, .data = in, .len = LONG};
	pmx_request sent, received;

	memset(out, ++value, LONG);
	GIVES(0, pmx_isend(ctx, &offer, &sent));
	GIVES(0, pmx_test(ctx, &sent, NULL));
	MUST(!takes_over(), "a take-over while an offer waits is not refused");
	say(s->fd, "echo");
	hear(s->fd, "echoed");
	is_found(0);
	struct child fresh = child(secondary_that_echoes, 8);

	hear(fresh.fd, "there");
	say(fresh.fd, "end");
	ended_well(&fresh);
	GIVES(0, pmx_test(ctx, &sent, NULL));
	GIVES(0, pmx_irecv(other, &take, &received));
	GIVES(1, pmx_wait(other, &received, NULL, PATIENCE_US));
	GIVES(1, pmx_wait(ctx, &sent, NULL, PATIENCE_US));
	all_are(in, LONG, value);
	all_works(ctx, 0, other, 1);
	say(s->fd, "echo");
	hear(s->fd, "echoed");
}

void
refused_take_over_changes_nothing(void)
{
	begin();
	struct child s = child(secondary_that_echoes, 5);

	hear(s.fd, "there");
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	is_refused(&s, ctx, other);
	say(s.fd, "end");
	ended_well(&s);
	pmx_node_close(node);
	end(SIGTERM);
}

/* The second primary's EAL has another name: that, too, must be as it was. */
void
refused_after_a_take_over_changes_nothing(void)
{
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	MUST(takes_over(), "a take-over is refused");
	is_found(PATIENCE_US / 1000); /* a moment after the old one's end */
	all_works(ctx, 0, other, 1);
	struct child s = child(secondary_that_echoes, 5);

	hear(s.fd, "there");
	is_refused(&s, ctx, other);
	MUST(takes_over(), "a take-over after one that was refused is refused");
	say(s.fd, "go");
	hear(s.fd, "again");
	all_works(ctx, 0, other, 1);
	is_found(PATIENCE_US / 1000);
	say(s.fd, "end");
	ended_well(&s);
	pmx_node_close(node);
	end(SIGTERM);
}

/* ------------------------------------------------------------ 12: messages to whom there is not */

/* Check that a matched message has an end, and is received if its sender is told so. */
static void
comes_as_told(struct pmx_context *from, pmx_request sent, struct pmx_context *to,
	pmx_request received)
{
	int result = pmx_wait(from, &sent, NULL, PATIENCE_US);

	MUST(result != -ETIMEDOUT && result != -EPIPE, "pmx_wait of a matched message gives %d",
		result);
	int came = pmx_wait(to, &received, NULL, result == 1 ? PATIENCE_US : 300000);

	MUST(result != 1 || came == 1, "a matched message was delivered, and its receive gives %d",
		came);
	if (came != 1) {
		GIVES(0, pmx_cancel(to, received));
		GIVES(-ECANCELED, pmx_test(to, &received, NULL));
	}
}

/* A message whose receiver is not open waits for it, in the primary: a take-over neither loses it
 * nor leaves its sender waiting. */
void
waiting_messages_are_not_lost(void)
{
	/* it waits longer than a primary takes to start */
	const struct settings patient = {1500, 500000, 16, NULL, 0, 0};
	uint32_t value = 0;
	pmx_send_id id;
	pmx_request sent;
	struct pmx_message m;
	const struct pmx_matched s = {
		.peer = own(8),
		.tag = 5,
		.data = &value,
		.len = sizeof(value),
		.flags = PMX_DELIVERED,
	};
	double until = now_s() + PATIENCE_US / 1e6;

	configure(&patient);
	begin();
	attach("thin");
	const struct pmx_context_params waits = {.size = sizeof(waits), .open_wait_us = 20000000};
	struct pmx_context *ctx = NULL, *other = opened(1);

	GIVES(0, pmx_context_open(&ctx, node, 0, &waits));
	GIVES(0, pmx_send_copy(ctx, own(7), "seven", 6, &id));
	GIVES(0, pmx_isend(ctx, &s, &sent));
	sleep_ms(50);
	GIVES(0, pmx_is_send_done(ctx, id));
	while (!takes_over()) /* it may be refused as long as they wait */
		MUST(now_s() < until, "a message that waits keeps a take-over from its end");
	struct pmx_context *seven = opened(7), *eight = opened(8);
	char in[16];
	const struct pmx_matched r = {.peer = own(0), .tag = 5, .data = in, .len = sizeof(in)};
	pmx_request received;

	GIVES(0, pmx_irecv(eight, &r, &received));
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	int result = pmx_is_send_done(ctx, id);
	int came = pmx_receive_wait(seven, &m, result == 1 ? PATIENCE_US : 300000);

	MUST(result != 0, "pmx_send_wait gives 0, and the message is under way");
	MUST(result == 1 ? came == 1 : came <= 1, "a message ends with %d, and pmx_receive with %d",
		result, came);
	if (came == 1) {
		MUST(m.len == 6 && strcmp(pmx_message_data(&m), "seven") == 0,
			"another message came");
		pmx_release_receive_buffer(seven, &m);
	}
	nothing_comes(seven, 0);
	comes_as_told(ctx, sent, eight, received);
	all_works(ctx, 0, other, 1);
	all_works(seven, 7, eight, 8);
}

/* -------------------------------------------------------- 13: a take-over, and clients that die */

#define CLIENTS 14 /* contexts 1 .. */

static _Atomic double *answered_at; /* by the primary, to one that asks all the time */

static void
sleeper(int fd, unsigned number)
{
	struct pmx_message m;

	attach("thin");
	struct pmx_context *ctx = opened(number);

	say(fd, "there");
	pmx_receive_wait(ctx, &m, -1);
}

/* Its transfers, to a node that is not there, are what a take-over waits for. */
static void
puller(int fd, unsigned number)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	void *piece;

	attach("thin");
	struct pmx_context *ctx = opened(number);

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	say(fd, "there");
	while (poll(&p, 1, 0) == 0) {
		const struct pmx_transfer t = {
			.peer = {1, 0},
			.key = 5,
			.local = piece,
			.len = PIECE,
		};
		pmx_transfer_id id;

		GIVES(0, pmx_pull(ctx, &t, &id));
		GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
		int result = pmx_transfer_done(ctx, id);

		MUST(result == -ETIMEDOUT || result == -EHOSTUNREACH,
			"a pull from a node that is not there gives %d", result);
	}
	say(fd, "pulled");
	pmx_node_close(node);
}

static void
asker(int fd, unsigned number)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	(void)number;
	setenv("PMX_ATTACH", "thin", 1);
	while (poll(&p, 1, 0) == 0) {
		if (pmx_node_attach(&node, socket_path, NULL) == 0) {
			atomic_store(answered_at, now_s());
			pmx_node_close(node);
		}
		sleep_ms(2);
	}
}

static void
kill_client(struct child *c)
{
	if (c->pid == 0)
		return;
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->fd);
	c->pid = 0;
}

/* Check that the numbers of clients that died can be had again. */
static void
numbers_are_free(void)
{
	struct pmx_context *ctx[CLIENTS];

	attach("thin");
	for (unsigned i = 0; i < CLIENTS; i++) {
		double until = now_s() + PATIENCE_US / 1e6;
		int result;

		at_line = __LINE__;
		while ((result = pmx_context_open(&ctx[i], node, 1 + i, NULL)) == -EBUSY &&
			now_s() < until)
			sleep_ms(5);
		MUST(result == 0, "context %u of a client that died: pmx_context_open gives %d",
			1 + i, result);
	}
	for (unsigned i = 0; i + 1 < CLIENTS; i += 2)
		all_works(ctx[i], 1 + i, ctx[i + 1], 2 + i);
}

/* Half of them at the moment when the old primary waits for what is under way, and answers nobody;
 * the others by and by. */
void
clients_die_in_a_take_over(void)
{
	const struct settings short_waits = {1500, 20000, 8, NULL, 0, 0};
	struct child clients[CLIENTS], pulls, asks;
	double began, frozen = 0;
	int ready, next = CLIENTS / 2;

	configure(&short_waits);
	begin();
	answered_at = mmap(NULL, sizeof(*answered_at), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(answered_at != MAP_FAILED, "no memory");
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = child(sleeper, 1 + i);
	for (unsigned i = 0; i < CLIENTS; i++)
		hear(clients[i].fd, "there");
	pulls = child(puller, 0);
	hear(pulls.fd, "there");
	atomic_store(answered_at, now_s());
	asks = child(asker, 0);
	sleep_ms(100);
	pid_t old = primary, heir = spawn(true, &ready);
	struct pollfd p = {.fd = ready, .events = POLLIN};

	began = now_s();
	while (poll(&p, 1, 2) == 0) {
		double now = now_s();

		MUST(now - began < PATIENCE_US / 1e6, "the take-over does not end");
		if (frozen == 0 && now - atomic_load(answered_at) > 0.03) {
			frozen = now;
			for (int i = 0; i < CLIENTS / 2; i++)
				kill_client(&clients[i]);
		}
		if (next < CLIENTS && now - began > 0.15 + 0.06 * (next - CLIENTS / 2))
			kill_client(&clients[next++]);
	}
	double took = now_s() - began;

	MUST(until_ready(ready) == 0, "the take-over fails");
	primary = heir;
	ended(old);
	for (int i = 0; i < CLIENTS; i++)
		kill_client(&clients[i]);
	printf("frozen %.0f ms after it began, ready after %.0f ms\n",
		frozen > 0 ? (frozen - began) * 1e3 : -1.0, took * 1e3);
	say(asks.fd, "end");
	ended_well(&asks);
	say(pulls.fd, "end");
	hear(pulls.fd, "pulled");
	ended_well(&pulls);
	numbers_are_free();
}

/* --------------------------------------------------- 14: what is taken over, from whom, by whom */

static bool
log_says(const char *text)
{
	static char all[1 << 16];
	char path[300];

	snprintf(path, sizeof(path), "%s/%s.log", dir, instance);
	FILE *f = fopen(path, "r");

	MUST(f != NULL, "%s: %s", path, strerror(errno));
	all[fread(all, 1, sizeof(all) - 1, f)] = 0;
	fclose(f);
	return strstr(all, text) != NULL;
}

/* Check that primaries which sleep at other times may follow each other, but not those which differ
 * in whether anybody has to be woken: clients know that from their channels. */
void
primaries_that_sleep_follow_each_other(void)
{
	const struct settings sleeps = {1500, 80000, 8, "sleep", 0, 0},
			      spins = {1500, 80000, 8, "spin", 0, 0};

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	configure(&spins);
	MUST(!takes_over(), "a primary that never sleeps takes over from one that does");
	all_works(ctx, 0, other, 1);
	configure(&sleeps);
	MUST(takes_over(),
		"a primary that always sleeps does not take over from one that sometimes does");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

/* It is said at once. */
void
several_lanes_are_not_taken_over(void)
{
	const struct settings two = {1500, 80000, 8, NULL, 2, 0};

	configure(&two);
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	MUST(!takes_over(), "two lanes are taken over");
	MUST(log_says("the old primary refuses, and goes on: Operation not supported"),
		"who wants to take over is not told why");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

/* Start a primary that wants to take over, put the question that it asks to `bytes`, and kill it:
 * it asks this process. Return the length of the question. */
static size_t
question_of_an_heir(uint8_t *bytes, size_t size)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ready;
	size_t end_of_path = strlen(socket_path);

	strcat(socket_path, "2");
	configure(&usual);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	socket_path[end_of_path] = 0;
	MUST(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0,
		"%s: %s", at.sun_path, strerror(errno));
	pid_t heir = spawn(true, &ready);
	int asks = accept(listener, NULL, NULL);
	ssize_t n = recv(asks, bytes, size, 0);

	kill(heir, SIGKILL);
	ended(heir);
	close(ready);
	close(asks);
	close(listener);
	configure(&usual);
	MUST(n > 0, "who wants to take over asks nothing");
	return (size_t)n;
}

/* It asks, and is gone when it could be given all: the old one goes on. */
void
heirs_that_do_not_wait_get_nothing(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint8_t question[512];

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);
	size_t n = question_of_an_heir(question, sizeof(question));

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	for (int i = 0; i < 5; i++) {
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		MUST(connect(s, (struct sockaddr *)&at, sizeof(at)) == 0, "%s: %s", at.sun_path,
			strerror(errno));
		MUST(send(s, question, n, MSG_NOSIGNAL) == (ssize_t)n,
			"a question cannot be sent: %s", strerror(errno));
		close(s);
		all_works(ctx, 0, other, 1);
	}
	MUST(log_says("did not take over: Broken pipe"), "nobody was about to take over");
	MUST(takes_over(), "a take-over after some that were given up is refused");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

#define REGIONS 3
#define PULLS   24

/* Each region is in the memory that it was in, and as many questions find room as before, and no
 * more. */
void
regions_and_room_stay_what_they_are(void)
{
	const struct settings little_room = {1500, 80000, 8, NULL, 0, 4};
	struct pmx_remote remote[REGIONS];
	pmx_transfer_id id[PULLS];
	void *from, *to[PULLS];

	configure(&little_room);
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (unsigned i = 0; i < REGIONS; i++) {
		GIVES(0, pmx_alloc(ctx, PIECE, &from));
		memset(from, (int)i + 1, PIECE);
		GIVES(0, pmx_register(ctx, from, PIECE, PMX_REMOTE_READ, &remote[i]));
	}
	for (unsigned i = 0; i < PULLS; i++)
		GIVES(0, pmx_alloc(other, PIECE, &to[i]));
	for (unsigned times = 0; times < 3; times++) {
		MUST(takes_over(), "a take-over is refused");
		for (unsigned i = 0; i < PULLS; i++) {
			const struct pmx_remote *r = &remote[i % REGIONS];
			const struct pmx_transfer t = {
				.peer = r->owner,
				.key = r->key,
				.remote = r->addr,
				.local = to[i],
				.len = PIECE,
			};

			memset(to[i], 0, PIECE);
			GIVES(0, pmx_pull(other, &t, &id[i]));
		}
		GIVES(0, pmx_sync_wait(other, PATIENCE_US));
		for (unsigned i = 0; i < PULLS; i++) {
			GIVES(1, pmx_transfer_done(other, id[i]));
			all_are(to[i], PIECE, (uint8_t)(i % REGIONS + 1));
		}
	}
	pmx_node_close(node);
	end(SIGTERM);
}

/* ------------------------------------------------------------------ 17: groups */

#define GROUP_AREA 4096

/* Two contexts of a group, and what each of them waits for. */
struct two {
	struct pmx_context *ctx[2];
	struct pmx_group *group[2];
	uint8_t *area[2];
	struct pmx_remote remote[2];
};

static void
opens(struct two *t, uint32_t id)
{
	const struct pmx_addr members[2] = {own(0), own(1)};
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = 2,
		.members = members,
	};
	pmx_request opening[2];

	for (unsigned i = 0; i < 2; i++)
		GIVES(0, pmx_group_open(t->ctx[i], &p, 10000000, &t->group[i], &opening[i]));
	for (unsigned i = 0; i < 2; i++)
		GIVES(1, pmx_wait(t->ctx[i], &opening[i], NULL, PATIENCE_US));
	for (unsigned i = 0; i < 2; i++)
		GIVES(0,
			pmx_group_area_register(t->group[i], 7, t->area[i], GROUP_AREA,
				PMX_REMOTE_WRITE, &t->remote[i]));
}

/* One is in a barrier, has a lock and has asked for an update while the primary is replaced; the
 * other waits for that lock. All of it ends as it would have. */
static void
goes_on(struct two *t, unsigned turn)
{
	pmx_request held, wanted, entered[2], sent;
	const uint32_t lock = turn % 3, receiver = 1;
	struct pmx_group_set *set;
	const struct pmx_multicast m = {.area = 7, .local = t->area[0], .len = GROUP_AREA};

	GIVES(0, pmx_group_lock(t->group[0], lock, 0, &held));
	GIVES(1, pmx_wait(t->ctx[0], &held, NULL, PATIENCE_US));
	GIVES(0, pmx_group_lock(t->group[1], lock, 0, &wanted));
	GIVES(0, pmx_group_barrier(t->group[1], &entered[1]));
	MUST(takes_over(), "a take-over while contexts are in a group is refused");
	GIVES(0, pmx_test(t->ctx[1], &wanted, NULL));
	GIVES(0, pmx_test(t->ctx[1], &entered[1], NULL));
	GIVES(0, pmx_group_unlock(t->group[0], lock));
	GIVES(1, pmx_wait(t->ctx[1], &wanted, NULL, PATIENCE_US));
	GIVES(0, pmx_group_barrier(t->group[0], &entered[0]));
	for (unsigned i = 0; i < 2; i++)
		GIVES(1, pmx_wait(t->ctx[i], &entered[i], NULL, PATIENCE_US));
	GIVES(0, pmx_group_unlock(t->group[1], lock));
	memset(t->area[0], (int)turn + 1, GROUP_AREA);
	GIVES(0, pmx_group_set_make(t->group[0], &receiver, 1, &set));
	struct pmx_multicast cast = m;

	cast.set = set;
	GIVES(0, pmx_group_multicast(t->group[0], &cast, &sent));
	GIVES(1, pmx_wait(t->ctx[0], &sent, NULL, PATIENCE_US));
	pmx_group_set_free(set);
	all_are(t->area[1], GROUP_AREA, (uint8_t)(turn + 1));
}

void
groups_go_on(void)
{
	struct two t;
	struct pmx_event event;

	begin();
	attach("thin");
	for (unsigned i = 0; i < 2; i++) {
		t.ctx[i] = opened(i);
		GIVES(0, pmx_alloc(t.ctx[i], GROUP_AREA, (void **)&t.area[i]));
	}
	opens(&t, 5);
	for (unsigned turn = 0; turn < 4; turn++)
		goes_on(&t, turn);
	/* it is left, and opened anew, on the primary that took over */
	for (unsigned i = 0; i < 2; i++)
		GIVES(0, pmx_deregister(t.ctx[i], t.remote[i].key));
	pmx_group_close(t.group[1]);
	double until = now_s() + PATIENCE_US / 1e6;

	while (pmx_poll_event(t.ctx[0], &event) != 1 || event.kind != PMX_EVENT_GONE)
		MUST(now_s() < until, "nobody says that a member has left");
	pmx_group_close(t.group[0]);
	opens(&t, 5);
	goes_on(&t, 9);
	pmx_node_close(node);
	end(SIGTERM);
}
