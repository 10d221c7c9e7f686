/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Applications that send to each other while their primaries end and come back; restart.sh starts
 * them and does that to their primaries. Every message has a number; what its sender was told, and
 * how often it was received, stand in a file that all of them map, and `check` compares: told
 * delivered means received once, and nothing is received twice. Every fourth message asks for no
 * result, so it travels inline; where primaries only take over from each other, all of them come.
 * Beside that each pulls from its peer's registered memory and sends matched messages to itself,
 * and compares the bytes.
 *
 *   restart app FILE INSTANCE INDEX CONTEXT PEER_NODE PEER_CONTEXT PEER_INDEX
 *       runs until FILE says stop, then sees off what is under way
 *   restart stop FILE | check FILE APPLICATIONS | times FILE APPLICATIONS
 *   restart now FILE APPLICATIONS     the time, us; what CPU time each of those has had by then
 *                                     stands in FILE
 *   restart moved FILE APPLICATIONS SINCE         each of all has had a message since
 *   restart told FILE APPLICATIONS LIFE           the first N know of the end of the primary
 *   restart noticed FILE APPLICATIONS LIFE        ... and work with the next
 *   restart latest FILE APPLICATIONS SINCE LIFE   when the last of them knew, how much CPU time it
 *                                                 had until then at most, and when all worked
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define APPS_MAX 32
#define IDS      (1u << 21) /* messages of one application, most */
#define WINDOW   24
#define LEN_MAX  3000
#define ROUNDS   256
#define AREA     9u
#define SHARED   (256u << 10)
#define SLICE    20000u
#define PAUSE_US 20 /* between messages: all of this runs on two cores */

enum told { TOLD_NOTHING, TOLD_DELIVERED, TOLD_ERROR };

struct app {
	_Atomic uint32_t sent, delivered, errors, received;
	_Atomic uint32_t lives;                 /* times it attached again */
	_Atomic int64_t noticed_us[ROUNDS];     /* by lives: the first -EPIPE */
	_Atomic int64_t noticed_cpu_us[ROUNDS]; /* ... in its own CPU time */
	_Atomic int64_t now_cpu_us;             /* the same clock, at the last `restart now` */
	_Atomic int pid;
	_Atomic int64_t again_us[ROUNDS]; /* ... and the next message that was delivered, or
					   * came */
	_Atomic int64_t last_us;          /* of the last one */
	_Atomic int64_t gap_us;           /* longest time between two, since it was last
					   * cleared */
	_Atomic uint32_t ready, over;
	_Atomic uint32_t pulls, pull_errors, matches, match_errors;
	_Atomic int32_t pull_error; /* the last */
	char said[200];
	uint8_t told[IDS]; /* enum told, by number; of one that asks for no result TOLD_NOTHING */
	uint8_t got[IDS];  /* how often the other side's message of that number
			    * came */
};

struct file {
	_Atomic uint32_t stop;
	struct app apps[APPS_MAX];
};

struct header {
	uint32_t magic, id, len, fill;
};

static struct file *file;
static struct app *me;
static struct pmx_node *node;
static struct pmx_context *ctx;
static struct {
	pmx_send_id id;
	uint32_t number;
	bool used;
} window[WINDOW];

/* check tells why an application died. */
static void
keep_why(const char *why)
{
	if (me != NULL)
		snprintf(me->said, sizeof(me->said), "%s", why);
}

static void
map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(*file)) != 0)
		die("%s: %s", path, strerror(errno));
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		die("mapping %s: %s", path, strerror(errno));
}

/* ------------------------------------------------------------------ one application */

static uint32_t
mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

static bool
asks(uint32_t id)
{
	return id % 4 != 1;
}

static uint32_t
length_of(uint32_t id)
{
	if (!asks(id)) /* short enough for a submission */
		return (uint32_t)sizeof(struct header) + mix(id) % 33;
	return (uint32_t)sizeof(struct header) + (id % 4 ? mix(id) % 64 : mix(id) % LEN_MAX);
}

static void
alive(void)
{
	int64_t now = now_us(), gap = now - me->last_us;
	uint32_t k = me->lives % ROUNDS;

	if (me->last_us != 0 && gap > me->gap_us)
		me->gap_us = gap;
	me->last_us = now;
	if (me->lives > 0 && me->again_us[k] == 0)
		me->again_us[k] = now;
}

static void
take(const struct pmx_message *m, const struct pmx_addr *peer)
{
	struct header h;
	uint8_t bytes[sizeof(h) + LEN_MAX + 64];

	if (m->len < sizeof(h) || m->len > sizeof(bytes) ||
		pmx_message_read(ctx, m, 0, bytes, m->len) != 0)
		die("a message of %u bytes", m->len);
	memcpy(&h, bytes, sizeof(h));
	if (h.magic != 0x52535452 || h.id >= IDS || h.len != m->len || h.len != length_of(h.id) ||
		m->source.node != peer->node || m->source.context != peer->context)
		die("not a message of the peer: %x number %u of %u bytes from %u:%u", h.magic, h.id,
			m->len, m->source.node, m->source.context);
	for (uint32_t i = sizeof(h); i < h.len; i++) {
		if (bytes[i] != (uint8_t)(h.id + i))
			die("message %u: byte %u is %u", h.id, i, bytes[i]);
	}
	me->got[h.id]++;
	me->received++;
	alive();
}

static void
settle(unsigned i, int result)
{
	me->told[window[i].number] = result > 0 ? TOLD_DELIVERED : TOLD_ERROR;
	if (result > 0) {
		me->delivered++;
		alive();
	} else {
		me->errors++;
	}
	window[i].used = false;
}

static void share(void);
static bool matching;
static pmx_request match_requests[2];

/* Returns how much CPU time a process has had; 0: there is none. */
static int64_t
cpu_us(pid_t pid)
{
	clockid_t clock;
	struct timespec t;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return 0;
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

/* The primary is gone: come back, and learn what became of what was under way. */
static void
again(void)
{
	uint32_t k = (me->lives + 1) % ROUNDS;
	int result;

	me->noticed_cpu_us[k] = cpu_us(0);
	me->again_us[k] = 0;
	me->noticed_us[k] = now_us();
	while ((result = pmx_reattach(node, 100000)) == -ENOENT || result == -EPIPE ||
		result == -EBUSY)
		;
	if (result != 0)
		die("pmx_reattach: %s", pmx_strerror(result));
	me->lives++;
	share();
	if (matching) /* what it waits for may be lost */
		pmx_cancel(ctx, match_requests[0]);
	for (unsigned i = 0; i < WINDOW; i++) {
		if (!window[i].used)
			continue;
		result = pmx_is_send_done(ctx, window[i].id);
		if (result == 0)
			die("message %u is still under way after pmx_reattach", window[i].number);
		settle(i, result);
	}
}

/* ------------------------------------------------------------------ memory and matched messages */

static uint8_t *shared, *local;
static pmx_transfer_id pull_id;
static bool pulling;
static uint32_t pull_at;
static uint8_t match_out[3000], match_in[3000];

static void
share(void)
{
	struct pmx_remote unused;
	int result = pmx_area_register(ctx, AREA, shared, SHARED, PMX_ANYONE | PMX_REMOTE_READ,
		&unused);

	if (result != 0)
		die("pmx_area_register: %s", pmx_strerror(result));
}

static void
make_shared(void)
{
	void *at[2];

	if (pmx_alloc(ctx, SHARED, &at[0]) != 0 || pmx_alloc(ctx, SLICE, &at[1]) != 0)
		die("pmx_alloc fails");
	shared = at[0];
	local = at[1];
	for (uint32_t i = 0; i < SHARED; i++)
		shared[i] = (uint8_t)(i * 7 + i / 256);
	share();
}

/* A pull ends, or one begins. */
static void
pull(const struct pmx_addr *peer)
{
	if (pulling) {
		int result = pmx_transfer_done(ctx, pull_id);

		if (result == 0 || result == -EPIPE)
			return;
		pulling = false;
		me->pulls++;
		me->pull_errors += result < 0;
		if (result < 0)
			me->pull_error = result;
		for (uint32_t i = 0; result == 1 && i < SLICE; i++) {
			uint32_t k = pull_at + i;

			if (local[i] != (uint8_t)(k * 7 + k / 256))
				die("byte %u of the peer's memory is %u", k, local[i]);
		}
		return;
	}
	pull_at = mix(me->pulls) % (SHARED - SLICE);
	const struct pmx_transfer t = {
		.peer = *peer,
		.flags = PMX_AREA,
		.key = AREA,
		.remote = pull_at,
		.local = local,
		.len = SLICE,
	};

	memset(local, 0, SLICE);
	pulling = pmx_pull(ctx, &t, &pull_id) == 0;
}

static void
match(void)
{
	const struct pmx_addr self = pmx_context_addr(ctx);
	uint32_t len = me->matches % 2 ? sizeof(match_out) : 20;
	const struct pmx_matched s = {
		.peer = self,
		.comm = 2,
		.tag = me->matches,
		.data = match_out,
		.len = len,
	};
	const struct pmx_matched r = {
		.peer = PMX_ANY_SOURCE,
		.comm = 2,
		.ignore = PMX_ANY_TAG,
		.data = match_in,
		.len = sizeof(match_in),
	};

	if (matching) {
		struct pmx_status status[2];
		int result = pmx_test_all(ctx, match_requests, 2, status);

		if (result == 0 || result == -EPIPE)
			return;
		matching = false;
		me->match_errors += result < 0;
		if (result == 1 && (memcmp(match_in, match_out, len) != 0 || status[0].len != len))
			die("matched message %u is not what was sent", me->matches);
		me->matches++;
		return;
	}
	memset(match_out, (int)me->matches, sizeof(match_out));
	if (pmx_irecv(ctx, &r, &match_requests[0]) != 0)
		return;
	int result;

	while ((result = pmx_isend(ctx, &s, &match_requests[1])) == -EAGAIN || result == -ENOBUFS)
		sched_yield();
	if (result == 0) {
		matching = true;
	} else { /* the engine is gone: the receive stays posted, and takes the next */
		match_requests[1] = 0;
		pmx_cancel(ctx, match_requests[0]);
		pmx_test(ctx, &match_requests[0], NULL);
	}
}

/* Look at what was sent; how much is under way. -EPIPE. */
static int
look(void)
{
	unsigned busy = 0;

	for (unsigned i = 0; i < WINDOW; i++) {
		if (!window[i].used)
			continue;
		int result = pmx_is_send_done(ctx, window[i].id);

		if (result == -EPIPE)
			return -EPIPE;
		if (result == 0)
			busy++;
		else
			settle(i, result);
	}
	return (int)busy;
}

static int
send_one(const struct pmx_addr *peer)
{
	uint32_t id = me->sent, len = length_of(id);
	struct header h = {0x52535452, id, len, 0};
	struct pmx_buffer buf;
	uint8_t bytes[sizeof(h) + LEN_MAX];
	unsigned i = 0;

	while (i < WINDOW && window[i].used)
		i++;
	if (i == WINDOW || id == IDS)
		return 0;
	int result = pmx_get_send_buffer(ctx, len, &buf);

	if (result != 0)
		return result == -EPIPE ? result : 0;
	memcpy(bytes, &h, sizeof(h));
	for (uint32_t k = sizeof(h); k < len; k++)
		bytes[k] = (uint8_t)(id + k);
	pmx_buffer_write(ctx, &buf, 0, bytes, len);
	result = pmx_send(ctx, *peer, &buf, asks(id) ? &window[i].id : NULL);
	if (result != 0) {
		pmx_discard_buffer(ctx, &buf);
		return result == -EPIPE ? result : 0;
	}
	window[i].used = asks(id);
	window[i].number = id;
	me->sent++;
	return 1;
}

/* Send what is due, or, when it stops, go on with what is under way. Return whether there was
 * something to do, or -EPIPE. */
static int
work(const struct pmx_addr *peer, bool peer_ready, bool stopping)
{
	static int64_t next;
	int busy = look();

	if (stopping && busy >= 0 && (pulling || matching)) { /* what is under way ends */
		if (pulling)
			pull(peer);
		if (matching)
			match();
		busy++;
	}
	if (busy >= 0 && !stopping && now_us() >= next) {
		busy = send_one(peer);
		next = now_us() + PAUSE_US;
		if (peer_ready) /* and has registered its memory */
			pull(peer);
		match();
	}
	return busy;
}

static int
app(char **argv)
{
	const struct pmx_addr peer = {(uint16_t)atoi(argv[4]), (uint16_t)atoi(argv[5])};
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.open_wait_us = 5000000, /* its peers are started beside it */
		.send_buffers = 64,
		.receive_buffers = 64,
	};
	unsigned peer_index = (unsigned)atoi(argv[6]);
	int64_t quiet = 0;
	struct pmx_message m;

	map(argv[0]);
	me = &file->apps[atoi(argv[2])];
	if (peer_index >= APPS_MAX)
		die("no such peer");
	int result = pmx_node_attach(&node, argv[1], NULL);

	if (result == 0)
		result = pmx_context_open(&ctx, node, atoi(argv[3]), &params);
	if (result != 0)
		die("attaching to %s: %s", argv[1], pmx_strerror(result));
	make_shared();
	me->pid = getpid();
	me->ready = 1;
	for (;;) {
		bool stopping = file->stop != 0;
		int busy, got = pmx_receive(ctx, &m);

		if (got == 1) {
			take(&m, &peer);
			pmx_release_receive_buffer(ctx, &m);
			quiet = 0;
		}
		busy = got == -EPIPE ? -EPIPE : work(&peer, file->apps[peer_index].ready, stopping);
		if (busy == -EPIPE) {
			again();
			continue;
		}
		if (!stopping || busy > 0 || got == 1) {
			sched_yield();
			continue;
		}
		/* the other side may still send: until it has stopped as well, and a little
		 * longer */
		me->over = 1;
		quiet = quiet == 0 ? now_us() : quiet;
		if (file->apps[peer_index].over && now_us() - quiet > 300000)
			break;
		usleep(1000);
	}
	pmx_node_close(node);
	return 0;
}

/* ------------------------------------------------------------------ the test's side */

/* Each application's messages against what its peer got: by their order in the file, 2k and 2k + 1
 * are peers. */
static int
check(unsigned n)
{
	uint64_t delivered = 0, errors = 0, lost = 0, twice = 0, unknown = 0, unasked = 0,
		 missing = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct app *from = &file->apps[i], *to = &file->apps[i ^ 1];

		if (from->said[0])
			printf("not ok application_%u %s\n", i, from->said);
		for (uint32_t id = 0; id < from->sent; id++) {
			delivered += from->told[id] == TOLD_DELIVERED;
			errors += from->told[id] == TOLD_ERROR;
			unknown += asks(id) && from->told[id] == TOLD_NOTHING;
			unasked += !asks(id);
			missing += !asks(id) && to->got[id] == 0;
			lost += from->told[id] == TOLD_DELIVERED && to->got[id] == 0;
			twice += to->got[id] > 1;
		}
	}
	uint64_t pulls = 0, pull_errors = 0, matches = 0, match_errors = 0;

	for (unsigned i = 0; i < n; i++) {
		pulls += file->apps[i].pulls;
		pull_errors += file->apps[i].pull_errors;
		matches += file->apps[i].matches;
		match_errors += file->apps[i].match_errors;
		if (file->apps[i].pull_error != 0)
			printf("# application %u: a pull ended with: %s\n", i,
				pmx_strerror(file->apps[i].pull_error));
	}
	printf("# %" PRIu64 " pulls, %" PRIu64 " of them ended with an error; %" PRIu64
	       " matched messages, %" PRIu64 " with an error\n",
		pulls, pull_errors, matches, match_errors);
	printf("# %" PRIu64 " messages asked for no result, %" PRIu64 " of them did not come\n",
		unasked, missing);
	printf("# %" PRIu64 " messages told delivered, %" PRIu64 " told error, %" PRIu64
	       " told nothing; %" PRIu64 " told delivered that did not come, %" PRIu64
	       " that came twice\n",
		delivered, errors, unknown, lost, twice);
	return lost != 0 || twice != 0 || unknown != 0 || delivered == 0;
}

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* A line for machines: lives, errors, and the longest gap of each application since the last call,
 * which clears it. */
static void
times(unsigned n)
{
	int64_t gaps[APPS_MAX];
	uint32_t lives = 0, errors = 0;

	for (unsigned i = 0; i < n; i++) {
		gaps[i] = atomic_exchange(&file->apps[i].gap_us, 0);
		lives += file->apps[i].lives;
		errors += file->apps[i].errors;
	}
	qsort(gaps, n, sizeof(gaps[0]), compare);
	printf("%u %u %" PRId64 " %" PRId64 "\n", lives, errors, gaps[n / 2], gaps[n - 1]);
}

static bool
all_ready(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!file->apps[i].ready)
			return false;
	}
	return true;
}

/* Return whether the first n applications have all attached `lives` times, and something has moved
 * since. */
static bool
all_noticed(unsigned n, uint32_t lives)
{
	for (unsigned i = 0; i < n; i++) {
		if (file->apps[i * 2].lives < lives ||
			file->apps[i * 2].again_us[lives % ROUNDS] == 0)
			return false;
	}
	return true;
}

static bool
all_told(unsigned n, int life)
{
	for (unsigned i = 0; i < n; i++) {
		if (file->apps[i * 2].noticed_us[life % ROUNDS] == 0)
			return false;
	}
	return true;
}

static bool
all_moved(unsigned n, int64_t since)
{
	for (unsigned i = 0; i < n; i++) {
		if (file->apps[i].last_us <= since)
			return false;
	}
	return true;
}

static void
latest(unsigned n, int64_t at, uint32_t life)
{
	int64_t noticed = 0, cpu = 0, again_at = 0;
	uint32_t k = life % ROUNDS;

	for (unsigned i = 0; i < n; i++) {
		const struct app *p = &file->apps[i * 2];
		int64_t a = p->noticed_us[k] - at, b = p->again_us[k] - at,
			c = p->noticed_cpu_us[k] - p->now_cpu_us;

		noticed = a > noticed ? a : noticed;
		again_at = b > again_at ? b : again_at;
		cpu = c > cpu ? c : cpu;
	}
	printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", noticed, cpu, again_at);
}

static void
now(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		file->apps[i].now_cpu_us = cpu_us(file->apps[i].pid);
	printf("%" PRId64 "\n", now_us());
}

int
main(int argc, char **argv)
{
	at_death = keep_why;
	if (argc == 9 && strcmp(argv[1], "app") == 0)
		return app(argv + 2);
	if (argc < 3)
		die("Usage: see the head of restart.c");
	map(argv[2]);
	unsigned n = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	if (n > APPS_MAX)
		die("at most %d", APPS_MAX);
	if (strcmp(argv[1], "stop") == 0)
		file->stop = 1;
	else if (strcmp(argv[1], "check") == 0)
		return check(n);
	else if (strcmp(argv[1], "times") == 0)
		times(n);
	else if (strcmp(argv[1], "ready") == 0)
		return !all_ready(n);
	else if (strcmp(argv[1], "noticed") == 0 && argc == 5)
		return !all_noticed(n, (uint32_t)atoi(argv[4]));
	else if (strcmp(argv[1], "told") == 0 && argc == 5)
		return !all_told(n, atoi(argv[4]));
	else if (strcmp(argv[1], "moved") == 0 && argc == 5)
		return !all_moved(n, atoll(argv[4]));
	else if (strcmp(argv[1], "latest") == 0 && argc == 6)
		latest(n, atoll(argv[4]), (uint32_t)atoi(argv[5]));
	else if (strcmp(argv[1], "now") == 0)
		now(n);
	else
		die("no such command");
	return 0;
}
