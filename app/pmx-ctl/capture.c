/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command capture: frames of a running primary, of every driver, as a pcapng file
 * (draft-ietf-opsawg-pcapng). The lanes copy them into memory of this program; one that finds no
 * room there counts the frame as skipped, and goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pmx/preempt.h>

#include "channel/capture.h"
#include "client/client.h"
#include "core/wire/wire.h"
#include "ctl.h"

#define LOOK_MS           10
#define LINKTYPE_ETHERNET 1
#define LINKTYPE_USER0    147 /* the PM header comes first: links without one of Ethernet */

struct capture_session {
	struct pmx_node *node; /* what it asks by */
	struct capture_ring *rings;
	FILE *out;
	uint64_t read[CAPTURE_RINGS];
	uint64_t frames, most; /* most 0: without end */
	bool broken;           /* the file cannot be written */
};

static volatile sig_atomic_t interrupted;

static void
interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* ------------------------------------------------------------------ pcapng */

enum block {
	BLOCK_SECTION = 0x0A0D0D0A,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
};

enum option {
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	OPTION_NAME = 2,       /* of an interface */
	OPTION_PROGRAM = 4,    /* of a section */
	OPTION_DROPPED = 5,    /* of statistics: by the interface */
	OPTION_FLAGS = 2,      /* of a packet: its direction */
	OPTION_RESOLUTION = 9, /* of an interface's times: 10^-n s */
};

/* A block that is being written; its bytes are a multiple of 4. */
struct block_writer {
	uint8_t bytes[CAPTURE_FRAME_MAX + 512];
	uint32_t len;
};

static void
put(struct block_writer *w, const void *bytes, uint32_t len)
{
	memcpy(w->bytes + w->len, bytes, len);
	w->len += len;
	while (w->len % 4 != 0)
		w->bytes[w->len++] = 0;
}

static void
put_u32(struct block_writer *w, uint32_t value)
{
	put(w, &value, sizeof(value));
}

static void
put_option(struct block_writer *w, enum option code, const void *bytes, size_t len)
{
	const uint16_t head[2] = {(uint16_t)code, (uint16_t)len};

	put(w, head, sizeof(head));
	put(w, bytes, (uint32_t)len);
}

static void
block_begin(struct block_writer *w, enum block type)
{
	w->len = 0;
	put_u32(w, (uint32_t)type);
	put_u32(w, 0); /* its length: block_end() */
}

static void
block_end(struct capture_session *c, struct block_writer *w)
{
	const uint32_t len = w->len + 4;

	memcpy(w->bytes + 4, &len, sizeof(len));
	put_u32(w, len);
	c->broken |= fwrite(w->bytes, w->len, 1, c->out) != 1;
}

/* Write what precedes all packets: the section, and an interface for each link. */
static void
write_head(struct capture_session *c, const json_t *links)
{
	static const uint32_t byte_order = 0x1A2B3C4D;
	static const uint16_t version[2] = {1, 0};
	static const uint8_t nanoseconds = 9;
	const int64_t unknown_length = -1;
	static struct block_writer w;
	const char *number;
	const json_t *link;

	block_begin(&w, BLOCK_SECTION);
	put_u32(&w, byte_order);
	put(&w, version, sizeof(version));
	put(&w, &unknown_length, sizeof(unknown_length));
	put_option(&w, OPTION_PROGRAM, "pmx-ctl " PMX_VERSION, strlen("pmx-ctl " PMX_VERSION));
	put_option(&w, OPTION_END, "", 0);
	block_end(c, &w);
	json_object_foreach((json_t *)links, number, link) {
		const uint16_t type[2] = {
			get_u64(link, "ethernet") ? LINKTYPE_ETHERNET : LINKTYPE_USER0, 0};
		char *name = text("link %s, %s %s", number, get_text(link, "driver"),
			get_text(link, "port"));

		block_begin(&w, BLOCK_INTERFACE);
		put(&w, type, sizeof(type));
		put_u32(&w, 0); /* frames of any length */
		put_option(&w, OPTION_NAME, name, strlen(name));
		put_option(&w, OPTION_RESOLUTION, &nanoseconds, sizeof(nanoseconds));
		put_option(&w, OPTION_END, "", 0);
		block_end(c, &w);
		free(name);
	}
}

static void
write_packet(struct capture_session *c, const struct capture_record *r)
{
	static struct block_writer w;
	const uint32_t direction = r->direction;

	block_begin(&w, BLOCK_PACKET);
	put_u32(&w, r->link);
	put_u32(&w, (uint32_t)(r->ns >> 32));
	put_u32(&w, (uint32_t)r->ns);
	put_u32(&w, r->kept);
	put_u32(&w, r->len);
	put(&w, r + 1, r->kept);
	put_option(&w, OPTION_FLAGS, &direction, sizeof(direction));
	if (r->dropped[0] != 0)
		put_option(&w, OPTION_COMMENT, r->dropped, strnlen(r->dropped, sizeof(r->dropped)));
	put_option(&w, OPTION_END, "", 0);
	block_end(c, &w);
	c->frames++;
}

/* Write how many frames were skipped, for the first link. */
static void
write_tail(struct capture_session *c, uint64_t skipped)
{
	static struct block_writer w;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	const uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;

	block_begin(&w, BLOCK_STATISTICS);
	put_u32(&w, 0);
	put_u32(&w, (uint32_t)(ns >> 32));
	put_u32(&w, (uint32_t)ns);
	put_option(&w, OPTION_DROPPED, &skipped, sizeof(skipped));
	put_option(&w, OPTION_END, "", 0);
	block_end(c, &w);
}

/* ------------------------------------------------------------------ the rings */

/* Return the next record of a lane's ring, or NULL if there is none. */
static const struct capture_record *
next_of(struct capture_session *c, unsigned lane)
{
	struct capture_ring *r = &c->rings[lane];
	const uint64_t written = atomic_load_explicit(&r->written, memory_order_acquire);

	while (c->read[lane] != written) {
		const struct capture_record *record = (const struct capture_record *)(r->bytes +
			c->read[lane] % CAPTURE_RING_BYTES);

		if (record->kept != CAPTURE_PADDING)
			return record;
		c->read[lane] += record->bytes;
	}
	return NULL;
}

/* Write what the lanes have copied, in the order of time. Return false when there are enough
 * frames. */
static bool
drain(struct capture_session *c)
{
	while (c->most == 0 || c->frames < c->most) {
		const struct capture_record *first = NULL;
		unsigned lane = 0;

		for (unsigned i = 0; i < CAPTURE_RINGS; i++) {
			const struct capture_record *record = next_of(c, i);

			if (record == NULL || (first != NULL && first->ns <= record->ns))
				continue;
			first = record;
			lane = i;
		}
		if (first == NULL)
			return true;
		write_packet(c, first);
		c->read[lane] += first->bytes;
		atomic_store_explicit(&c->rings[lane].read, c->read[lane], memory_order_release);
	}
	return false;
}

/* Return how many frames the lanes have skipped. */
static uint64_t
skipped(const struct capture_session *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CAPTURE_RINGS; i++)
		sum += atomic_load_explicit(&c->rings[i].skipped, memory_order_relaxed);
	return sum;
}

/* ------------------------------------------------------------------ the command */

/* Make the memory of the rings, and pass it to the primary. Return 0 or -errno. */
static int
capture_begin(struct capture_session *c, struct pmx_node *node, uint64_t filter)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_CAPTURE,
		.pid = getpid(),
		.addr = filter,
	};
	struct attach_reply reply;
	const int fd = memfd_create("pmx-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	int result = ftruncate(fd, CAPTURE_BYTES) != 0 ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0
		? -errno
		: 0;
	void *at = mmap(NULL, CAPTURE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	c->rings = at;
	if (result == 0 && at == MAP_FAILED)
		result = -errno;
	if (result == 0)
		result = way_thin_ask(node, &request, fd, &reply, NULL);
	close(fd);
	return result;
}

static const char *
reason(int result)
{
	return result == -EACCES   ? "only root and the primary's user may capture"
		: result == -EBUSY ? "somebody else captures"
				   : pmx_strerror(result);
}

/* Read a number for a filter. Return false if it is none. */
static bool
read_filter(const char *value, unsigned long most, uint16_t *out)
{
	char *end;
	const unsigned long n = value != NULL ? strtoul(value, &end, 10) : CAPTURE_ALL;

	*out = (uint16_t)n;
	return value == NULL || (end != value && *end == 0 && n <= most);
}

/* Copy until it is enough, or interrupted, or the primary has ended. Return the exit code. */
static int
follow(struct capture_session *c, const char *file)
{
	struct pollfd connection = {.fd = c->node->socket, .events = POLLIN};

	signal(SIGINT, interrupt);
	signal(SIGTERM, interrupt);
	while (drain(c) && !interrupted && !c->broken) {
		if (poll(&connection, 1, LOOK_MS) > 0)
			interrupted = 1; /* the primary has ended */
		c->broken |= fflush(c->out) != 0;
	}
	const uint64_t lost = skipped(c);

	write_tail(c, lost);
	if (fclose(c->out) != 0 || c->broken)
		return complain("%s: %s", file, strerror(errno));
	fprintf(stderr, "%" PRIu64 " frames, %" PRIu64 " skipped since this program was too slow\n",
		c->frames, lost);
	return 0;
}

/* Begin, and write. The file is touched only when the primary has agreed, since another capture may
 * write it. */
static int
capture_into(const struct ctl_options *o, struct capture_session *c, const json_t *links,
	uint64_t filter)
{
	const char *file = o->file;
	const int result = capture_begin(c, c->node, filter);

	if (result != 0)
		return complain("%s", reason(result));
	c->out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	if (c->out == NULL)
		return complain("%s: %s", file, strerror(errno));
	write_head(c, links);
	return follow(c, file);
}

int
capture(struct ctl_session *s, const struct ctl_options *o)
{
	struct capture_session c = {.most = o->times};
	char error[CTL_ERROR_MAX];
	uint16_t peer, context;
	json_t *links;
	int result;

	if (o->file == NULL) {
		complain("capture: where to? -w FILE, or -w - for a pipe");
		return 2;
	}
	if (!read_filter(o->peer, WIRE_NODES_MAX - 1, &peer)) {
		complain("capture: --peer %s: not the number of a node", o->peer);
		return 2;
	}
	if (!read_filter(o->context, WIRE_CONTEXTS_MAX - 1, &context)) {
		complain("capture: --context %s: not a number below %d", o->context,
			WIRE_CONTEXTS_MAX);
		return 2;
	}
	links = session_ask(s, "/pmx/links", error);
	if (links == NULL)
		return complain("%s", error);
	c.node = asker_open(s->name, &result);
	if (c.node == NULL) {
		result = complain("%s: %s", s->name, pmx_strerror(result));
	} else {
		result = capture_into(o, &c, links,
			capture_filter(peer, context, CAPTURE_FRAME_MAX));
		asker_close(c.node);
	}
	json_decref(links);
	return result;
}
