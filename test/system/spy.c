/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thin client that tries to reach what is not its own: by the socket's questions, by what it
 * gives as its memory, by its submissions. thin.sh runs it beside another client, whose memory must
 * stay as it is.
 *
 *   spy INSTANCE CONTEXT VICTIM_CONTEXT
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "rma/client/rma.h"
#include "rma/region.h"

#define PAGE 4096
#define LIFE (2 << 20)

static int failures;
static struct pmx_node *node;
static struct pmx_context *ctx;
static uint16_t victim;

static void
check(bool good, const char *name, long got)
{
	if (good)
		printf("ok spy_%s\n", name);
	else
		printf("not ok spy_%s got %ld\n", name, got);
	failures += !good;
}

/* ------------------------------------------------------------------ questions */

static int
ask(struct attach_request *request, int give, struct attach_reply *reply)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec iov = {request, sizeof(*request)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	request->abi = CHANNEL_ABI;
	if (give >= 0) {
		m.msg_control = room;
		m.msg_controllen = CMSG_SPACE(sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &give, sizeof(give));
	}
	if (sendmsg(node->socket, &m, MSG_NOSIGNAL) != (ssize_t)sizeof(*request) ||
		recv(node->socket, reply, sizeof(*reply), 0) != (ssize_t)sizeof(*reply))
		return -EPIPE;
	return reply->result;
}

static int
memory_file(uint64_t len, unsigned seals, bool pages)
{
	int fd = memfd_create("spy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *at;

	if (fd < 0 || ftruncate(fd, (off_t)len) != 0)
		return -1;
	if (pages) {
		at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		memset(at, 0, len);
	}
	fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

static void
close_or_feed_another(void)
{
	struct attach_reply reply;
	int worst = -ENOENT, result;
	int good = memory_file(16 * PAGE, F_SEAL_SHRINK | F_SEAL_GROW, true);

	for (uint32_t generation = 0; generation < 8; generation++) {
		struct attach_request close_it = {
			.op = ATTACH_CLOSE,
			.ctx = victim,
			.generation = generation,
		};
		struct attach_request give = {
			.op = ATTACH_MEMORY,
			.ctx = victim,
			.generation = generation,
			.len = 16 * PAGE,
		};

		result = ask(&close_it, -1, &reply);
		worst = result != -ENOENT ? result : worst;
		result = ask(&give, good, &reply);
		worst = result != -ENOENT ? result : worst;
	}
	check(worst == -ENOENT, "another_context_cannot_be_closed_or_given_memory", worst);
}

static void
open_contexts(void)
{
	struct attach_reply reply;
	int result;
	struct attach_request any = {.op = ATTACH_BYTES, .ctx = PMX_ANY_CONTEXT};

	ask(&any, -1, &reply);
	int pages = memory_file((reply.bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1),
		F_SEAL_SHRINK | F_SEAL_GROW, true);
	struct attach_request open_it = {
		.op = ATTACH_OPEN,
		.ctx = victim,
		.len = (reply.bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1),
	};

	result = ask(&open_it, pages, &reply);
	check(result == -EBUSY, "another_context_cannot_be_opened", result);
	struct attach_request mine = {
		.op = ATTACH_OPEN,
		.ctx = PMX_ANY_CONTEXT,
		.len = open_it.len,
	};

	result = ask(&mine, pages, &reply);
	if (result == 0) {
		struct attach_request close_it = {
			.op = ATTACH_CLOSE,
			.ctx = reply.ctx,
			.generation = reply.generation,
		};

		result = ask(&close_it, -1, &reply);
	}
	check(result == 0, "its_own_context_closes_by_what_it_was_told", result);
	struct attach_request beyond = {.op = ATTACH_OPEN, .ctx = 60000, .len = open_it.len};

	result = ask(&beyond, pages, &reply);
	check(result == -EINVAL, "a_context_that_is_not_there", result);
}

static void
ask_nonsense(void)
{
	struct attach_reply reply;
	int result;
	struct attach_request nothing = {.op = 77};

	result = ask(&nothing, -1, &reply);
	check(result == -EPROTO, "no_such_question", result);
	struct attach_request no_fd = {
		.op = ATTACH_MEMORY,
		.ctx = ctx->ctx,
		.generation = ctx->generation,
		.len = PAGE,
	};

	result = ask(&no_fd, -1, &reply);
	check(result == -EPROTO, "no_descriptor", result);
}

static void
questions(void)
{
	close_or_feed_another();
	open_contexts();
	ask_nonsense();
}

/* ------------------------------------------------------------------ memory */

static int
give(int fd, uint64_t len)
{
	struct attach_request request = {
		.op = ATTACH_MEMORY,
		.ctx = ctx->ctx,
		.generation = ctx->generation,
		.len = len,
	};
	struct attach_reply reply;

	return ask(&request, fd, &reply);
}

static void
memory(void)
{
	const unsigned both = F_SEAL_SHRINK | F_SEAL_GROW;
	int file = open("/etc/passwd", O_RDONLY), result;

	result = give(memory_file(4 * PAGE, F_SEAL_GROW, true), 4 * PAGE);
	check(result < 0, "memory_that_can_shrink", result);
	result = give(memory_file(4 * PAGE, both, false), 4 * PAGE);
	check(result < 0, "memory_without_pages", result);
	result = give(memory_file(4 * PAGE, both, true), 8 * PAGE);
	check(result < 0, "memory_shorter_than_said", result);
	result = give(memory_file(4 * PAGE, both, true), 4 * PAGE - 1);
	check(result < 0, "memory_of_half_a_page", result);
	result = give(file, PAGE);
	check(result < 0, "a_file", result);
	result = give(memory_file(4 * PAGE, both, true), UINT64_MAX & ~(uint64_t)(PAGE - 1));
	check(result < 0, "memory_of_all_there_is", result);
}

/* Holes in a channel of its own, with no hugepage left to fill them: it alone suffers. */
static void
holes(const char *instance)
{
	struct pmx_node *other;
	struct pmx_context *c;
	uint64_t taken = 0;
	void *all = MAP_FAILED;

	if (pmx_node_attach(&other, instance, NULL) != 0 ||
		pmx_context_open(&c, other, PMX_ANY_CONTEXT, NULL) != 0)
		return;
	/* all hugepages that are free, down to the last */
	for (uint64_t bytes = 1ull << 32; bytes >= LIFE; bytes /= 2) {
		while ((all = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0)) != MAP_FAILED)
			taken += bytes;
	}
	int result = madvise(c->shm, c->mapped, MADV_REMOVE);

	/* a page that the hole gave back is taken too, where there are hugepages at all */
	all = mmap(NULL, LIFE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		-1, 0);
	if (write(c->doorbell, &(uint64_t){1}, 8) != 8)
		result = -1;
	usleep(200000);
	printf("# holes: %s, %lu MiB of hugepages held, the last %s\n",
		result == 0 ? "made" : "refused", taken >> 20, all != MAP_FAILED ? "too" : "not");
	check(pmx_node_attach(&other, instance, NULL) == 0, "holes_in_a_channel", 0);
	fflush(stdout);
	_exit(failures != 0);
}

/* ------------------------------------------------------------------ submissions */

static struct submission *
slot(void)
{
	while (!slot_room(&ctx->sub, 1))
		sched_yield();
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	memset(s, 0, sizeof(*s));
	return s;
}

static void
submit(void)
{
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx_doorbell(ctx);
}

/* A transfer of our own making in the last place: its result. */
static int
transfer(const struct transfer_desc *d)
{
	uint32_t place = ctx->rma->transfer_count - 1;
	struct transfer_desc *at = &channel_transfers(ctx->shm)[place];
	int64_t end = clock_us() + 3000000;

	*at = *d;
	at->node = 0;
	at->ctx = victim;
	at->id = TRANSFER_ID(place, 5);
	struct submission *s = slot();

	s->op = SUBMIT_TRANSFER;
	s->transfer = place;
	submit();
	while (clock_us() < end) {
		if (!slot_filled(&ctx->com, ctx->com.pos)) {
			sched_yield();
			continue;
		}
		const struct completion *c =
			(const struct completion *)slot_at(&ctx->com, ctx->com.pos)->body;
		int error = -1;

		for (uint32_t i = 0; c->count & COMPLETION_TRANSFERS && i < (c->count & 0xFFFF);
			i++)
			error = (c->item[i] & 0xFFFFFF) == place ? (int)(c->item[i] >> 24) : error;
		slot_take(&ctx->com, 1, true);
		if (error >= 0)
			return error;
	}
	return -1; /* refused without an answer */
}

static void
transfer_private_memory(void)
{
	static uint8_t mine[PAGE];
	struct transfer_desc d = {
		.kind = TRANSFER_PUSH,
		.flags = TRANSFER_AREA,
		.key = 7,
		.len = PAGE,
		.memory = MEMORY_COPIED,
		.local = (uintptr_t)mine,
	};
	int result = transfer(&d);

	check(result != 0, "private_memory_is_not_read", result);
	d.kind = TRANSFER_PULL;
	memset(mine, 0, sizeof(mine));
	result = transfer(&d);
	check(result != 0 && mine[0] == 0, "private_memory_is_not_written", result);
	d.local = 0x400000;
	for (uint32_t memory = 0; memory < MEMORIES_MAX; memory++) {
		d.memory = memory;
		d.kind = memory % 2 ? TRANSFER_PUSH : TRANSFER_PULL;
		result = transfer(&d);
		if (result == 0)
			break;
	}
	check(result != 0, "memory_by_any_number", result);
}

static void
pull_private_region(void)
{
	struct submission *s = slot();

	s->op = SUBMIT_REGISTER;
	s->region.addr = 0x400000;
	s->region.len = PAGE;
	s->region.memory = MEMORY_COPIED;
	s->region.area = 9;
	s->region.rights = REGION_READ | REGION_WRITE;
	s->region.watched = REGIONS_WATCHED;
	submit();
	void *shared;
	int result;

	if (pmx_alloc(ctx, PAGE, &shared) == 0) {
		const struct pmx_transfer pull = {
			.peer = pmx_context_addr(ctx),
			.flags = PMX_AREA,
			.key = 9,
			.local = shared,
			.len = PAGE,
		};
		pmx_transfer_id id;

		result = pmx_pull(ctx, &pull, &id);
		for (int i = 0;
			result == 0 && i < 1000000 && (result = pmx_transfer_done(ctx, id)) == 0;
			i++)
			sched_yield();
		check(result < 0, "a_region_of_memory_that_is_not_shared", result);
	}
}

/* Submit sends and releases of buffers that are not there: the context still works for what is
 * right. */
static void
submit_wrong_buffers(void)
{
	const struct pmx_addr self = pmx_context_addr(ctx);
	struct pmx_message m;
	uint64_t sum = 0;
	int result;

	for (unsigned i = 0; i < 200; i++) {
		struct submission *s = slot();

		s->op = i % 2 ? SUBMIT_SEND : SUBMIT_RELEASE;
		s->count = 1;
		if (i % 2) {
			s->send.dst_node = 0;
			s->send.dst_ctx = victim;
			s->send.len = 64;
			s->send.buf[0] = (uint16_t)(ctx->send_buffers + i);
		} else {
			s->release[0] = i * 37;
		}
		submit();
		sum += i;
	}
	result = pmx_send_copy(ctx, self, &sum, sizeof(sum), NULL);
	if (result == 0)
		result = pmx_receive_wait(ctx, &m, 5000000) == 1 && m.len == sizeof(sum)
			? 0
			: -ETIMEDOUT;
	check(result == 0, "afterwards_it_works", result);
}

static void
submissions(void)
{
	transfer_private_memory();
	pull_private_region();
	submit_wrong_buffers();
}

/* Nothing of anybody else is mapped here, and no descriptor reaches it. */
static void
mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], rights[8];
	unsigned others = 0, own = 0;

	while (f != NULL && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %7s", rights) != 1 || rights[3] != 's')
			continue;
		if (strstr(line, "memfd:pmx") != NULL || strstr(line, "memfd:spy") != NULL)
			own++;
		else
			others++;
	}
	if (f != NULL)
		fclose(f);
	check(others == 0 && own > 0, "maps_its_own_memory_only", others);
}

int
main(int argc, char **argv)
{
	if (argc != 4)
		return 2;

	victim = (uint16_t)atoi(argv[3]);
	setenv("PMX_ATTACH", "thin", 1);
	int result = pmx_node_attach(&node, argv[1], NULL);

	if (result == 0)
		result = pmx_context_open(&ctx, node, atoi(argv[2]), NULL);
	if (result != 0) {
		printf("not ok spy_attaches %s\n", pmx_strerror(result));
		return 1;
	}
	mappings();
	questions();
	memory();
	submissions();
	pmx_node_close(node);
	fflush(stdout);
	holes(argv[1]);
	return failures != 0;
}
