/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See script_record.h.
 *
 * Design notes
 * 1. What is random or an address has a name in the order of its first appearance in the step:
 *    transfers t0, t1, ..., keys k0, k1, ..., memory m0, m1, .... So a line says which are the
 *    same, and not what they are. Sequence numbers and Acks are relative to the first of their
 *    flow; time stamps and sessions are left out.
 * 2. Acks, Nacks, HELLOs, PINGs and PONGs are counted per step and node, and folded into a digest
 *    of everything that their headers say of the flow but time.
 * 3. Only the first LINES lines of a step are written one by one. What follows is folded: a line
 *    with the digest of FOLD lines, and the last of them.
 */
#include "script_record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

#define LINES      24
#define FOLD       40
#define LINES_MAX  65536
#define LINE_BYTES 256
#define NAMES      4096
#define FLOWS      256
#define MEMORIES   32
#define NODES      2

/* Values that have names: their index is the name. */
struct names {
	uint64_t value[NAMES];
	unsigned count;
};

struct flow {
	uint16_t src_node, src_ctx, dst_ctx;
	uint32_t first;
};

static struct {
	const char *step;
	char *lines[LINES_MAX];
	unsigned count;
	struct names transfers, keys;
	struct flow flows[FLOWS];
	unsigned flow_count;
	struct {
		uintptr_t begin;
		uint64_t len;
	} memories[MEMORIES];
	unsigned memory_count;
	unsigned sent[NODES][WIRE_TYPE_COUNT];
	uint64_t others[NODES]; /* digest */
	char *text;
} r;

/* FNV-1a */
static uint64_t
sum_add(uint64_t sum, const void *bytes, uint64_t len)
{
	const uint8_t *b = bytes;

	for (uint64_t i = 0; i < len; i++)
		sum = (sum ^ b[i]) * 0x100000001B3u;
	return sum;
}

uint64_t
record_sum(const void *bytes, uint64_t len)
{
	return sum_add(0xCBF29CE484222325u, bytes, len);
}

static unsigned
name_of(struct names *n, uint64_t value)
{
	unsigned i;

	for (i = 0; i < n->count; i++) {
		if (n->value[i] == value)
			return i;
	}
	if (n->count < NAMES)
		n->value[n->count++] = value;
	return i;
}

void
record_begin(const char *step)
{
	for (unsigned i = 0; i < r.count; i++)
		free(r.lines[i]);
	free(r.text);
	memset(&r, 0, sizeof(r));
	r.step = step;
}

void
record_memory(const void *addr, uint64_t len)
{
	if (r.memory_count == MEMORIES)
		abort();
	r.memories[r.memory_count].begin = (uintptr_t)addr;
	r.memories[r.memory_count++].len = len;
}

static void
add_line(const char *line)
{
	if (r.count == LINES_MAX)
		abort();
	r.lines[r.count++] = strdup(line);
}

void
record_note(const char *format, ...)
{
	char line[LINE_BYTES] = "  * ";
	va_list list;

	va_start(list, format);
	vsnprintf(line + 4, sizeof(line) - 4, format, list);
	va_end(list);
	add_line(line);
}

/* ------------------------------------------------------------------ a frame in words */

struct text {
	char bytes[LINE_BYTES];
	unsigned len;
};

static __attribute__((format(printf, 2, 3))) void
say(struct text *t, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	t->len += (unsigned)vsnprintf(t->bytes + t->len, sizeof(t->bytes) - t->len, format, list);
	va_end(list);
	if (t->len >= sizeof(t->bytes))
		abort();
}

/* A letter for each flag. */
static void
say_flags(struct text *t, unsigned flags, const char *letters)
{
	char said[16];
	unsigned n = 0;

	for (unsigned i = 0; letters[i] != '\0'; i++) {
		if (flags & 1u << i)
			said[n++] = letters[i];
	}
	said[n] = '\0';
	say(t, " %s", n ? said : "-");
}

static void
say_context(struct text *t, uint16_t node, uint16_t number)
{
	static const char *const endpoints[] = {"", "t", "i", "m"};

	say(t, "%u.%u%s", node, number % WIRE_CONTEXTS_MAX,
		endpoints[wire_endpoint(number) / WIRE_CONTEXTS_MAX]);
}

static void
say_address(struct text *t, uint64_t at)
{
	for (unsigned i = 0; i < r.memory_count; i++) {
		if (at >= r.memories[i].begin && at - r.memories[i].begin < r.memories[i].len) {
			say(t, " at m%u+%" PRIu64, i, at - r.memories[i].begin);
			return;
		}
	}
	say(t, at >> 32 ? " at ?" : " at %" PRIu64, at);
}

/* The bytes behind the heads that are in words. */
static void
say_rest(struct text *t, const uint8_t *bytes, uint32_t len)
{
	if (len > 0)
		say(t, " +%u %08x", len, (unsigned)(record_sum(bytes, len) >> 32));
}

static void
say_transfer(struct text *t, const uint8_t *bytes, uint32_t len)
{
	static const char *const ops[WIRE_TRANSFER_OPS] = {"?", "push", "pull", "ask", "pin",
		"pulled", "ended", "accept", "unpin"};
	struct wire_transfer h;

	memcpy(&h, bytes, sizeof(h));
	bytes += sizeof(h);
	len -= (uint32_t)sizeof(h);
	say(t, " %s", ops[h.op < WIRE_TRANSFER_OPS ? h.op : 0]);
	say_flags(t, h.flags, "LANRSBOH");
	if (h.id != 0)
		say(t, " t%u", name_of(&r.transfers, wire_be32(h.id)));
	if (h.flags & WIRE_T_OFFER)
		say(t, " offer t%u", name_of(&r.transfers, wire_be64(h.key)));
	else if (h.flags & WIRE_T_AREA)
		say(t, " area %" PRIu64, wire_be64(h.key));
	else if (h.key != 0)
		say(t, " k%u", name_of(&r.keys, wire_be64(h.key)));
	if (h.op != WIRE_ENDED)
		say_address(t, wire_be64(h.at));
	say(t, " len %" PRIu64 " off %" PRIu64, wire_be64(h.len), wire_be64(h.offset));
	if (h.imm != 0)
		say(t, " imm %" PRIu64, wire_be64(h.imm));
	for (; h.op == WIRE_ENDED && len >= sizeof(struct wire_ended);
		len -= (uint32_t)sizeof(struct wire_ended)) {
		struct wire_ended item;

		memcpy(&item, bytes, sizeof(item));
		bytes += sizeof(item);
		if (t->len < LINE_BYTES - 40)
			say(t, " t%u:%u%s", name_of(&r.transfers, wire_be32(item.id)),
				wire_be32(item.error) & ~WIRE_NONE_LEFT,
				wire_be32(item.error) & WIRE_NONE_LEFT ? "!" : "");
	}
	say_rest(t, bytes, len);
}

static void
say_match(struct text *t, const uint8_t *bytes, uint32_t len)
{
	static const char *const ops[] = {"?", "eager", "offer", "?"};
	struct wire_match h;
	struct wire_offer o;

	memcpy(&h, bytes, sizeof(h));
	bytes += sizeof(h);
	len -= (uint32_t)sizeof(h);
	say(t, " %s %x comm %u tag %" PRIx64, h.op < WIRE_MATCH_OPS ? ops[h.op] : "nothing",
		h.flags, wire_be32(h.comm), wire_be64(h.tag));
	if (h.op == WIRE_OFFER && len >= sizeof(o)) {
		memcpy(&o, bytes, sizeof(o));
		say(t, " len %" PRIu64 " t%u", wire_be64(o.len),
			name_of(&r.transfers, wire_be32(o.id)));
		bytes += sizeof(o);
		len -= (uint32_t)sizeof(o);
	}
	say_rest(t, bytes, len);
}

static struct flow *
flow_of(uint16_t src_node, uint16_t src_ctx, uint16_t dst_ctx)
{
	unsigned i;

	for (i = 0; i < r.flow_count; i++) {
		const struct flow *f = &r.flows[i];

		if (f->src_node == src_node && f->src_ctx == src_ctx && f->dst_ctx == dst_ctx)
			return &r.flows[i];
	}
	if (i == FLOWS)
		abort();
	r.flows[r.flow_count++] = (struct flow){src_node, src_ctx, dst_ctx, 0};
	return &r.flows[i];
}

/* Say which frame of which flow this is, and what it says of the flow back. */
static void
say_flow(struct text *t, const struct wire_hdr *h)
{
	uint16_t src_node = wire_be16(h->src_node), dst_node = wire_be16(h->dst_node),
		 flags = wire_be16(h->flags);
	uint16_t src = wire_be16(h->src_ctx), dst = wire_be16(h->dst_ctx);
	struct flow *f = flow_of(src_node, src, dst);

	if (flags & WIRE_F_FIRST && h->type == WIRE_DATA)
		f->first = wire_be32(h->seq);
	say_context(t, src_node, src);
	say(t, ">");
	say_context(t, dst_node, dst);
	say_flags(t, flags, "FAECUXQS");
	if (h->type == WIRE_DATA)
		say(t, " #%d", (int)(wire_be32(h->seq) - f->first));
	if (flags & WIRE_F_ACK)
		say(t, " ack %d credit %u share %u",
			(int)(wire_be32(h->ack) - flow_of(dst_node, dst, src)->first),
			wire_be16(h->credit), wire_be16(h->share));
}

void
record_frame(unsigned node, const struct rte_mbuf *m)
{
	static uint8_t copy[65536];
	const uint8_t *bytes = rte_pktmbuf_read(m, 0, m->pkt_len, copy);
	static const char *const types[WIRE_TYPE_COUNT] = {"?", "data", "ack", "nack", "hello",
		"ping", "pong", "reset", "multi", "link"};
	struct text t = {.len = 0};
	struct wire_hdr h;

	memcpy(&h, bytes, sizeof(h));
	if (h.type >= WIRE_TYPE_COUNT || m->pkt_len - WIRE_HDR_BYTES != wire_be16(h.payload_len))
		abort();
	r.sent[node][h.type]++;
	say(&t, "%s ", types[h.type]);
	say_flow(&t, &h);
	if (h.type != WIRE_DATA && h.type != WIRE_RESET) {
		r.others[node] = sum_add(r.others[node], t.bytes, t.len);
		return;
	}
	uint16_t endpoint = wire_endpoint(wire_be16(h.dst_ctx));
	uint32_t len = wire_be16(h.payload_len), at = wire_be32(h.frag_off);

	bytes += WIRE_HDR_BYTES;
	if (h.type == WIRE_DATA)
		say(&t, " msg %u at %u len %u", wire_be32(h.msg_len), at, len);
	if ((endpoint == WIRE_TARGET || endpoint == WIRE_INITIATOR) &&
		len >= sizeof(struct wire_transfer))
		say_transfer(&t, bytes, len);
	else if (endpoint == WIRE_MATCHED && at == 0 && len >= sizeof(struct wire_match))
		say_match(&t, bytes, len);
	else
		say_rest(&t, bytes, len);
	add_line(t.bytes);
}

/* ------------------------------------------------------------------ a step in lines */

static void
count_frames(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		const unsigned *s = r.sent[n];

		record_note("node %u sent: data %u, ack %u, nack %u, hello %u, ping %u, pong %u, "
			    "reset %u; all but data %08x",
			n, s[WIRE_DATA], s[WIRE_ACK], s[WIRE_NACK], s[WIRE_HELLO], s[WIRE_PING],
			s[WIRE_PONG], s[WIRE_RESET], (unsigned)(r.others[n] >> 32));
	}
}

const char *
record_end(bool all)
{
	unsigned totals = NODES, body;
	size_t bytes;
	FILE *f = open_memstream(&r.text, &bytes);

	count_frames();
	body = r.count - totals;
	fprintf(f, "== %s\n", r.step);
	for (unsigned i = 0; i < r.count;) {
		unsigned n = body - i < FOLD ? body - i : FOLD;
		uint64_t sum = 0;

		if (all || i < LINES || i >= body || n == 1) {
			fprintf(f, "%s\n", r.lines[i++]);
			continue;
		}
		for (unsigned k = 0; k < n; k++)
			sum = sum_add(sum, r.lines[i + k], strlen(r.lines[i + k]) + 1);
		i += n;
		fprintf(f, "... %u lines, %016" PRIx64 ", the last: %s\n", n, sum, r.lines[i - 1]);
	}
	fclose(f);
	return r.text;
}

/* The next line of a step's text. NULL: there is none. */
static const char *
next_line(const char **text, char *line, size_t size)
{
	size_t len = strcspn(*text, "\n");

	if (**text == '\0')
		return NULL;
	snprintf(line, size, "%.*s", (int)len, *text);
	*text += len + ((*text)[len] == '\n');
	return line;
}

int
record_compare(const char *path, const char *step, const char *text)
{
	char want[2 * LINE_BYTES], have[2 * LINE_BYTES], head[128];
	FILE *f = fopen(path, "r");
	unsigned number = 0;
	bool in = false;

	if (f == NULL) {
		fprintf(stderr, "cannot read %s\n", path);
		return -1;
	}
	snprintf(head, sizeof(head), "== %s", step);
	while (fgets(want, sizeof(want), f) != NULL) {
		number++;
		want[strcspn(want, "\n")] = '\0';
		if (strncmp(want, "== ", 3) == 0) {
			if (in)
				break;
			in = strcmp(want, head) == 0;
		}
		if (!in)
			continue;
		if (next_line(&text, have, sizeof(have)) == NULL)
			snprintf(have, sizeof(have), "nothing more");
		if (strcmp(want, have) != 0) {
			fprintf(stderr, "%s:%u\nwas: %s\nis:  %s\n", path, number, want, have);
			fclose(f);
			return -1;
		}
	}
	fclose(f);
	if (!in || next_line(&text, have, sizeof(have)) != NULL) {
		fprintf(stderr, "%s, step %s: %s\n", path, step,
			in ? have : "nothing was recorded");
		return -1;
	}
	return 0;
}
