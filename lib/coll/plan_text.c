/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plan as a text; see plan.h. Each line is one of these; # begins a comment:
 *
 *   plan KIND GENERATOR ranks=N root=N bytes=N blocks=N
 *   order RANK ...             the rank at each place; more lines go on
 *   ends BYTES ...             of blocks that are not all alike; likewise
 *   rank N KEY=VALUE ...       and then its steps, in their order:
 *   send|receive|combine|copy KEY=VALUE ... WORD ...
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "coll/plan.h"
#include "coll/text.h"

#define PLAN_BYTES_MAX (1ull << 40)

const char *const coll_op_name[COLL_OPS] = {
	[COLL_SEND] = "send",
	[COLL_RECV] = "receive",
	[COLL_REDUCE] = "combine",
	[COLL_COPY] = "copy",
};
const char *const coll_buffer_name[COLL_BUFFERS] = {"in", "out", "scratch"};
static const struct {
	const char *name;
	uint8_t flag;
} words[] = {{"by_pieces_0", COLL_STREAM_0}, {"by_pieces_1", COLL_STREAM_1}, {"eager", COLL_EAGER},
	{"turns", COLL_TURNS}, {"near", COLL_NEAR}};
#define WORDS (sizeof(words) / sizeof(words[0]))

/* A number of a list or a step, by name. */
struct field {
	const char *name;
	uint8_t offset, size;
	uint64_t none; /* is not written, and is there if it is not read */
};

#define STEP_FIELD(name, of, none)                                                                 \
	{                                                                                          \
		name, offsetof(struct coll_step, of), sizeof(((struct coll_step *)0)->of), none    \
	}
static const struct field step_fields[] = {STEP_FIELD("peer", peer, 0),
	STEP_FIELD("block", block, 0), STEP_FIELD("blocks", blocks, 1),
	STEP_FIELD("after_0", after[0], COLL_NONE), STEP_FIELD("after_1", after[1], COLL_NONE),
	STEP_FIELD("source", source, 0), STEP_FIELD("target", target, 0),
	STEP_FIELD("area", area, 0), STEP_FIELD("early", early, 0), STEP_FIELD("at_us", at_us, 0),
	STEP_FIELD("lead_ns", lead_ns, 0), STEP_FIELD("pace", pace, 0)};
#define STEP_FIELDS (sizeof(step_fields) / sizeof(step_fields[0]))

#define LIST_FIELD(name)                                                                           \
	{                                                                                          \
#name, offsetof(struct coll_list, name), sizeof(((struct coll_list *)0)->name), 0  \
	}
static const struct field list_fields[] = {LIST_FIELD(piece), LIST_FIELD(areas),
	LIST_FIELD(area_bytes), LIST_FIELD(send_pace), LIST_FIELD(window), LIST_FIELD(grain),
	LIST_FIELD(load_in), LIST_FIELD(load_out)};
#define LIST_FIELDS (sizeof(list_fields) / sizeof(list_fields[0]))

static uint64_t
get(const void *of, const struct field *f)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)of + f->offset, f->size);
	return value;
}

/* Set a field to a value. Return false if it does not fit. */
static bool
set(void *of, const struct field *f, uint64_t value)
{
	if (f->size < 8 && value >> (8 * f->size) != 0)
		return false;
	memcpy((uint8_t *)of + f->offset, &value, f->size);
	return true;
}

/* ------------------------------------------------------------------ writing */

static void
write_fields(FILE *f, const void *of, const struct field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint64_t value = get(of, &fields[i]);

		if (value != fields[i].none)
			fprintf(f, " %s=%lu", fields[i].name, value);
	}
}

int
coll_plan_write(const struct coll_plan *p, FILE *f)
{
	fprintf(f, "plan %s %s ranks=%u root=%u bytes=%lu blocks=%u\n", coll_kind_name[p->kind],
		coll_generator_name[p->generator], p->ranks, p->root, p->bytes, p->block_count);
	for (uint32_t i = 0; i < p->ranks; i++)
		fprintf(f, "%s%u", i % 16 ? " " : i ? "\norder " : "order ", p->order[i]);
	for (uint32_t i = 0; p->ends != NULL && i < p->block_count; i++)
		fprintf(f, "%s%lu", i % 8 ? " " : "\nends ", p->ends[i]);
	for (uint32_t r = 0; r < p->ranks; r++) {
		const struct coll_list *l = &p->lists[r];

		fprintf(f, "\nrank %u", r);
		write_fields(f, l, list_fields, LIST_FIELDS);
		for (uint32_t i = 0; i < l->count; i++) {
			const struct coll_step *s = &l->steps[i];

			fprintf(f, "\n%s", coll_op_name[s->op]);
			if (s->op != COLL_RECV)
				fprintf(f, " from=%s", coll_buffer_name[s->from]);
			if (s->op != COLL_SEND)
				fprintf(f, " to=%s", coll_buffer_name[s->to]);
			write_fields(f, s, step_fields, STEP_FIELDS);
			for (size_t k = 0; k < WORDS; k++) {
				if (s->flags & words[k].flag)
					fprintf(f, " %s", words[k].name);
			}
		}
	}
	fputc('\n', f);
	return fflush(f) == 0 && !ferror(f) ? 0 : -EIO;
}

/* ------------------------------------------------------------------ reading */

struct plan_reader {
	struct coll_plan *p;
	uint64_t step_cap;
	uint32_t placed, ended, ranks; /* of order, of ends; lists begun */
	bool *is_placed;               /* [ranks] */
	uint64_t *firsts;              /* [ranks + 1]: of each list, its first step */
	struct coll_text text;
};

static bool
number(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *end == '\0' && errno == 0;
}

/* KEY=NUMBER of a table. */
static int
read_field(const struct plan_reader *r, char *word, void *of, const struct field *fields,
	size_t count)
{
	char *value = strchr(word, '=');
	uint64_t n;

	if (value == NULL)
		return coll_text_complain(&r->text, "'%s': unknown", word);
	*value = '\0';
	for (size_t i = 0; i < count; i++) {
		if (strcmp(fields[i].name, word) != 0)
			continue;
		if (!number(value + 1, &n) || !set(of, &fields[i], n))
			return coll_text_complain(&r->text,
				"%s=%s: a number is expected, of %u bits at most", word, value + 1,
				8u * fields[i].size);
		return 0;
	}
	return coll_text_complain(&r->text, "'%s': unknown", word);
}

static char *
next_word(char **save)
{
	return strtok_r(NULL, " \t\r", save);
}

struct header {
	uint64_t ranks, root, bytes, blocks;
};

static int
read_plan(struct plan_reader *r, char **save)
{
	static const struct field fields[] = {{"ranks", offsetof(struct header, ranks), 8, 0},
		{"root", offsetof(struct header, root), 8, 0},
		{"bytes", offsetof(struct header, bytes), 8, 0},
		{"blocks", offsetof(struct header, blocks), 8, 0}};
	const char *kind = next_word(save), *generator = kind ? next_word(save) : NULL;
	struct coll_plan *p = r->p;
	struct header h = {0};
	int e = 0;

	if (p->ranks != 0)
		return coll_text_complain(&r->text, "there is a plan already");
	p->kind = kind ? coll_kind_named(kind) : COLL_KINDS;
	p->generator = generator ? coll_generator_named(generator) : COLL_GENERATORS;
	if (p->kind == COLL_KINDS || p->generator == COLL_GENERATORS)
		return coll_text_complain(&r->text,
			"plan KIND GENERATOR ranks=N root=N bytes=N blocks=N");
	for (char *w = next_word(save); w != NULL && e == 0; w = next_word(save))
		e = read_field(r, w, &h, fields, 4);
	if (e != 0)
		return e;
	if (h.ranks == 0 || h.ranks > COLL_RANKS_MAX || h.root >= h.ranks ||
		h.bytes > PLAN_BYTES_MAX || h.blocks == 0 || h.blocks > h.ranks + 1)
		return coll_text_complain(&r->text,
			"1 to %u ranks, of which root is one, up to 2^40 bytes, 1 block or as many "
			"as ranks",
			COLL_RANKS_MAX);
	p->ranks = (uint32_t)h.ranks;
	p->root = (uint32_t)h.root;
	p->bytes = h.bytes;
	p->block_count = (uint32_t)h.blocks;
	p->order = calloc(p->ranks, sizeof(*p->order));
	p->lists = calloc(p->ranks, sizeof(*p->lists));
	r->firsts = calloc(p->ranks + 1u, sizeof(*r->firsts));
	r->is_placed = calloc(p->ranks, sizeof(*r->is_placed));
	return p->order && p->lists && r->firsts && r->is_placed ? 0 : -ENOMEM;
}

static int
read_order(struct plan_reader *r, char **save)
{
	uint64_t rank;

	for (const char *w = next_word(save); w != NULL; w = next_word(save)) {
		if (!number(w, &rank) || rank >= r->p->ranks || r->placed == r->p->ranks)
			return coll_text_complain(&r->text, "order: %u ranks, each from 0 to %u",
				r->p->ranks, r->p->ranks - 1);
		if (r->is_placed[rank])
			return coll_text_complain(&r->text, "order: rank %lu is there already",
				rank);
		r->is_placed[rank] = true;
		r->p->order[r->placed++] = (uint16_t)rank;
	}
	return 0;
}

static int
read_ends(struct plan_reader *r, char **save)
{
	struct coll_plan *p = r->p;

	if (p->ends == NULL)
		p->ends = calloc(p->block_count, sizeof(*p->ends));
	if (p->ends == NULL)
		return -ENOMEM;
	for (const char *w = next_word(save); w != NULL; w = next_word(save)) {
		uint64_t end;

		if (!number(w, &end) || end > PLAN_BYTES_MAX || r->ended == p->block_count ||
			(r->ended > 0 && end < p->ends[r->ended - 1]))
			return coll_text_complain(&r->text,
				"ends: %u numbers of bytes, none less than the one before",
				p->block_count);
		p->ends[r->ended++] = end;
	}
	return 0;
}

static int
read_rank(struct plan_reader *r, char **save)
{
	const char *which = next_word(save);
	uint64_t rank;
	int e = 0;

	if (which == NULL || !number(which, &rank) || rank != r->ranks || rank >= r->p->ranks)
		return coll_text_complain(&r->text, "rank %u is next, of %u", r->ranks,
			r->p->ranks);
	struct coll_list *l = &r->p->lists[r->ranks];

	r->firsts[r->ranks++] = r->p->step_count;
	l->ranks = r->p->ranks;
	l->rank = (uint32_t)rank;
	for (char *w = next_word(save); w != NULL && e == 0; w = next_word(save))
		e = read_field(r, w, l, list_fields, LIST_FIELDS);
	return e;
}

/* Take a word that is a place (from= or to=), or a flag without a value. Return false if it is
 * neither; *is_good: the place is one of those that there are. */
static bool
is_word(struct coll_step *s, const char *word, bool *is_good)
{
	const bool from = strncmp(word, "from=", 5) == 0, to = strncmp(word, "to=", 3) == 0;

	*is_good = false;
	for (unsigned i = 0; (from || to) && i < COLL_BUFFERS; i++) {
		if (strcmp(word + (from ? 5 : 3), coll_buffer_name[i]) != 0)
			continue;
		*(from ? &s->from : &s->to) = (uint8_t)i;
		*is_good = true;
	}
	for (size_t i = 0; i < WORDS; i++) {
		if (strcmp(word, words[i].name) == 0) {
			s->flags |= words[i].flag;
			*is_good = true;
		}
	}
	return from || to || *is_good;
}

static int
read_step(struct plan_reader *r, enum coll_op op, char **save)
{
	struct coll_plan *p = r->p;
	struct coll_step s = {.op = (uint8_t)op};
	bool is_good;
	int e = 0;

	if (r->ranks == 0)
		return coll_text_complain(&r->text, "a step before the first rank");
	for (size_t i = 0; i < STEP_FIELDS; i++)
		set(&s, &step_fields[i], step_fields[i].none);
	for (char *w = next_word(save); w != NULL && e == 0; w = next_word(save)) {
		if (!is_word(&s, w, &is_good))
			e = read_field(r, w, &s, step_fields, STEP_FIELDS);
		else if (!is_good)
			e = coll_text_complain(&r->text, "'%s': in, out or scratch", w);
	}
	if (e != 0)
		return e;
	if (p->step_count == r->step_cap) {
		const uint64_t cap = r->step_cap ? 2 * r->step_cap : 1024;
		struct coll_step *more = realloc(p->steps, cap * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		p->steps = more;
		r->step_cap = cap;
	}
	p->steps[p->step_count++] = s;
	return 0;
}

static int
read_line(struct plan_reader *r, char *line)
{
	char *save = NULL;

	line[strcspn(line, "#")] = '\0';
	const char *what = strtok_r(line, " \t\r", &save);

	if (what == NULL)
		return 0;
	if (strcmp(what, "plan") == 0)
		return read_plan(r, &save);
	if (r->p->ranks == 0)
		return coll_text_complain(&r->text,
			"'%s': the first line is plan KIND GENERATOR ...", what);
	if (strcmp(what, "order") == 0)
		return read_order(r, &save);
	if (strcmp(what, "ends") == 0)
		return read_ends(r, &save);
	if (strcmp(what, "rank") == 0)
		return read_rank(r, &save);
	for (unsigned i = 0; i < COLL_OPS; i++) {
		if (strcmp(what, coll_op_name[i]) == 0)
			return read_step(r, (enum coll_op)i, &save);
	}
	return coll_text_complain(&r->text, "'%s': a line begins with order, ends, rank or a step",
		what);
}

/* The SENDs, or the RECVs, of a rank, by peer and then in their order. */
struct meeting {
	uint16_t peer, step;
};
struct meetings {
	struct meeting *all;
	uint32_t count;
};

static int
by_peer(const void *a, const void *b)
{
	const struct meeting *x = a, *y = b;

	return x->peer != y->peer ? x->peer - y->peer : x->step - y->step;
}

static void
collect(const struct coll_list *l, enum coll_op op, struct meeting *room, struct meetings *out)
{
	*out = (struct meetings){.all = room};
	for (uint32_t i = 0; i < l->count; i++) {
		if (l->steps[i].op == (uint8_t)op)
			room[out->count++] = (struct meeting){l->steps[i].peer, (uint16_t)i};
	}
	qsort(room, out->count, sizeof(*room), by_peer);
}

/* Return the index of the first meeting with that peer, or where that would be. */
static uint32_t
first_with(const struct meetings *m, uint32_t peer)
{
	uint32_t low = 0, high = m->count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (m->all[middle].peer < peer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Check that each SEND of x meets a RECV of as many bytes, with COLL_EAGER in both or neither.
 * Return 0, or -EINVAL with a sentence; whether a RECV is left is checked by the caller. */
static int
meets(const struct plan_reader *r, const struct coll_blocks *blocks, uint32_t x,
	const struct meetings *sends, const struct meetings *recvs)
{
	const struct coll_plan *p = r->p;

	for (uint32_t i = 0, nth = 0; i < sends[x].count; i++) {
		const struct meeting *m = &sends[x].all[i];
		const struct meetings *there = &recvs[m->peer];

		nth = i > 0 && sends[x].all[i - 1].peer == m->peer ? nth + 1 : 0;
		const uint32_t k = first_with(there, x) + nth;
		const struct coll_step *s = &p->lists[x].steps[m->step];
		const struct coll_step *met = k < there->count && there->all[k].peer == x
			? &p->lists[m->peer].steps[there->all[k].step]
			: NULL;

		if (met == NULL || (met->flags ^ s->flags) & COLL_EAGER ||
			coll_run_bytes(&blocks[met->to], met->block, met->blocks) !=
				coll_run_bytes(&blocks[s->from], s->block, s->blocks))
			return coll_text_complain(&r->text,
				"step %u of rank %u: rank %u does not receive as many bytes in the "
				"same way",
				m->step, x, m->peer);
	}
	return 0;
}

static int
check_meetings(const struct plan_reader *r, const struct coll_blocks blocks[COLL_BUFFERS])
{
	const struct coll_plan *p = r->p;
	struct meeting *room = calloc(p->step_count + 1, sizeof(*room)), *next = room;
	struct meetings *sends = calloc(2ull * p->ranks, sizeof(*sends)), *recvs = sends + p->ranks;
	uint64_t sent = 0, received = 0;
	int e = room != NULL && sends != NULL ? 0 : -ENOMEM;

	for (uint32_t x = 0; e == 0 && x < p->ranks; x++) {
		collect(&p->lists[x], COLL_SEND, next, &sends[x]);
		next += sends[x].count;
		collect(&p->lists[x], COLL_RECV, next, &recvs[x]);
		next += recvs[x].count;
		sent += sends[x].count;
		received += recvs[x].count;
	}
	for (uint32_t x = 0; e == 0 && x < p->ranks; x++)
		e = meets(r, blocks, x, sends, recvs);
	if (e == 0 && sent != received)
		e = coll_text_complain(&r->text, "%lu steps receive what nobody sends",
			received - sent);
	free(room);
	free(sends);
	return e;
}

static uint64_t
hashed(uint64_t h, uint64_t value)
{
	return (h ^ value) * 0x100000001B3u;
}

/* Return a hash of all that a plan says. */
static uint64_t
hash_of(const struct coll_plan *p)
{
	uint64_t h = hashed(hashed(0xCBF29CE484222325u, p->kind), p->root);

	h = hashed(hashed(h, p->bytes), p->block_count);
	for (uint32_t i = 0; i < p->ranks; i++)
		h = hashed(h, p->order[i]);
	for (uint32_t i = 0; p->ends != NULL && i < p->block_count; i++)
		h = hashed(h, p->ends[i]);
	for (uint32_t r = 0; r < p->ranks; r++) {
		for (unsigned k = 0; k < LIST_FIELDS; k++)
			h = hashed(h, get(&p->lists[r], &list_fields[k]));
		h = hashed(h, p->lists[r].count);
	}
	for (uint64_t i = 0; i < p->step_count; i++) {
		const struct coll_step *s = &p->steps[i];

		h = hashed(h, s->op | s->flags << 8 | s->from << 16 | s->to << 24);
		for (unsigned k = 0; k < STEP_FIELDS; k++)
			h = hashed(h, get(s, &step_fields[k]));
	}
	return h;
}

static int
plan_text_finish(struct plan_reader *r)
{
	struct coll_blocks blocks[COLL_BUFFERS];
	struct coll_plan *p = r->p;
	uint32_t bad;

	r->text.line = 0;
	if (p->ranks == 0 || r->ranks != p->ranks || r->placed != p->ranks ||
		(p->ends != NULL && r->ended != p->block_count))
		return coll_text_complain(&r->text, "%u of %u ranks, %u of them in order", r->ranks,
			p->ranks, r->placed);
	if (p->steps == NULL) /* nobody does anything */
		p->steps = calloc(1, sizeof(*p->steps));
	if (p->steps == NULL)
		return -ENOMEM;
	coll_plan_blocks(p, blocks);
	r->firsts[p->ranks] = p->step_count;
	for (uint32_t k = 0; k < p->ranks; k++) {
		struct coll_list *l = &p->lists[k];

		l->steps = p->steps + r->firsts[k];
		l->count = (uint32_t)(r->firsts[k + 1] - r->firsts[k]);
		if (coll_check(l, blocks, &bad) != 0)
			return bad < l->count
				? coll_text_complain(&r->text, "rank %u: step %u cannot be", k, bad)
				: coll_text_complain(&r->text, "rank %u: its numbers cannot be", k);
	}
	p->hash = hash_of(p);
	return check_meetings(r, blocks);
}

int
coll_plan_read(const char *text, struct coll_plan **out, char *error, uint32_t error_len)
{
	struct plan_reader r = {
		.p = calloc(1, sizeof(*r.p)),
		.text = {.error = error, .error_len = error_len},
	};
	char *copy = strdup(text), *line = copy;
	int e = r.p != NULL && copy != NULL ? 0 : -ENOMEM;

	while (e == 0 && line != NULL) {
		char *end = strchr(line, '\n');

		if (end != NULL)
			*end = '\0';
		r.text.line++;
		e = read_line(&r, line);
		line = end != NULL ? end + 1 : NULL;
	}
	if (e == 0)
		e = plan_text_finish(&r);
	free(copy);
	free(r.firsts);
	free(r.is_placed);
	if (e != 0) {
		if (e == -ENOMEM)
			snprintf(error, error_len, "no memory");
		coll_plan_free(r.p);
		return e;
	}
	*out = r.p;
	return 0;
}
