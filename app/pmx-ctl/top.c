/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command top: what a primary does just now, on one screen that follows it. A screen is made as
 * lines of text from two samples; a terminal shows them, and with --batch they are printed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/proto/proto.h"
#include "ctl.h"
#include "sample.h"

#include <ncurses.h> /* behind ctl.h, since it defines OK */

#define LINES_MOST    512
#define LINE_BYTES    512
#define BATCH_COLUMNS 80

enum view { PEERS, CONTEXTS, COUNTERS, VIEWS };

static const char *const view_names[VIEWS] = {"peers", "contexts", "counters"};

/* The part that the user looks at. */
struct look {
	enum view view;
	unsigned sort[VIEWS]; /* column */
	unsigned selected;    /* row */
	bool inside;          /* one peer or context, not the list */
	uint64_t number;      /* ... which one */
	unsigned rows;        /* of the list on the screen */
};

/* The lines of a screen. */
struct screen {
	unsigned count, columns;
	unsigned head; /* lines that all views have */
	int marked;    /* line of the selected row; -1: none */
	char lines[LINES_MOST][LINE_BYTES];
};

static void PRINTF(2, 3) add_line(struct screen *s, const char *fmt, ...)
{
	va_list args;

	if (s->count == LINES_MOST)
		return;
	char *line = s->lines[s->count++];

	va_start(args, fmt);
	vsnprintf(line, LINE_BYTES, fmt, args);
	va_end(args);
	if (strlen(line) > s->columns)
		line[s->columns] = 0;
}

/* ------------------------------------------------------------------ lists */

/* A column: its head, width, and its value, by which rows are sorted, and which is shown as a rate
 * unless `show` does that. */
struct top_column {
	const char *head;
	int width; /* negative: to the left */
	double (*value)(const struct span *s);
	const char *(*show)(const struct span *s);
};

static double
number_of(const struct span *s)
{
	const json_t *node = json_object_get(s->now, "node");

	return (double)json_integer_value(node != NULL ? node : json_object_get(s->now, "context"));
}

static const char *
show_number(const struct span *s)
{
	static char text[24];

	snprintf(text, sizeof(text), "%.0f", number_of(s));
	return text;
}

static const char *
show_state(const struct span *s)
{
	return get_text(s->now, "state");
}

static const char *
show_name(const struct span *s)
{
	const char *name = get_text(s->now, "name");

	return *name ? name : get_text(s->now, "address");
}

static double
trip_of(const struct span *s)
{
	return (double)get_u64(s->now, "rtt_ns");
}

static const char *
show_trip(const struct span *s)
{
	return time_text(get_u64(s->now, "rtt_ns"));
}

static double
bits_in(const struct span *s)
{
	return 8 * span_rate(s, "rx_bytes");
}

static double
bits_out(const struct span *s)
{
	return 8 * span_rate(s, "tx_bytes");
}

static double
again_of(const struct span *s)
{
	return span_rate(s, "tx_retransmits");
}

static double
used_of(const struct span *s)
{
	return peer_window_used(s->now);
}

static const char *
show_used(const struct span *s)
{
	static char text[24];

	snprintf(text, sizeof(text), "%.0f%%", 100 * used_of(s));
	return text;
}

static double
silent_of(const struct span *s)
{
	return (double)get_u64(s->now, "silent_ms");
}

static const char *
show_silent(const struct span *s)
{
	return time_text(get_u64(s->now, "silent_ms") * 1000000);
}

static double
process_of(const struct span *s)
{
	return (double)get_u64(s->now, "pid");
}

static const char *
show_process(const struct span *s)
{
	static char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, get_u64(s->now, "pid"));
	return text;
}

static double
sent_of(const struct span *s)
{
	return span_rate(s, "sent") + span_rate(s, "paired_sent");
}

static double
received_of(const struct span *s)
{
	return span_rate(s, "received") + span_rate(s, "paired_received");
}

static double
busy_of(const struct span *s)
{
	return (double)get_u64(s->now, "send_busy");
}

static const char *
show_busy(const struct span *s)
{
	static char text[48];

	snprintf(text, sizeof(text), "%" PRIu64 "/%" PRIu64, get_u64(s->now, "send_busy"),
		get_u64(s->now, "send_buffers"));
	return text;
}

static double
held_of(const struct span *s)
{
	return (double)get_u64(s->now, "receive_held");
}

static const char *
show_held(const struct span *s)
{
	static char text[48];

	snprintf(text, sizeof(text), "%" PRIu64 "/%" PRIu64, get_u64(s->now, "receive_held"),
		get_u64(s->now, "receive_buffers"));
	return text;
}

static double
unread_of(const struct span *s)
{
	return (double)get_u64(s->now, "lhs_waiting");
}

static const struct top_column peer_columns[] = {{"node", 5, number_of, show_number},
	{"state", -6, NULL, show_state}, {"trip", 9, trip_of, show_trip},
	{"in bit/s", 9, bits_in, NULL}, {"out", 8, bits_out, NULL}, {"again/s", 7, again_of, NULL},
	{"drop/s", 6, span_drops, NULL}, {"used", 5, used_of, show_used},
	{"silent", 9, silent_of, show_silent}, {"who", -24, NULL, show_name}, {0}};
static const struct top_column context_columns[] = {{"context", 7, number_of, show_number},
	{"state", -7, NULL, show_state}, {"process", 7, process_of, show_process},
	{"who", -9, NULL, show_name}, {"sent/s", 8, sent_of, NULL}, {"got/s", 8, received_of, NULL},
	{"busy", 8, busy_of, show_busy}, {"held", 8, held_of, show_held},
	{"unread", 7, unread_of, NULL}, {0}};

static const struct top_column *sorted_by;
static bool sorted_up; /* the smallest first: numbers */

static int
top_compare(const void *a, const void *b)
{
	const double x = sorted_by->value(a), y = sorted_by->value(b);

	const int order = (x > y) - (x < y);

	return sorted_up ? order : -order;
}

/* Return a list's objects, each with what it was before, sorted by a column. The caller frees
 * them. */
static struct span *
sorted(const json_t *list, const json_t *before, const char *key, double seconds,
	const struct top_column *by)
{
	const size_t n = json_array_size(list);
	struct span *rows = calloc(n > 0 ? n : 1, sizeof(*rows));
	json_t *item;
	size_t i;

	if (rows == NULL) {
		complain("no memory for %zu rows", n);
		exit(1);
	}
	json_array_foreach((json_t *)list, i, item)
		rows[i] = span_of(before, item, key, seconds);
	sorted_by = by;
	sorted_up = by->value == number_of;
	if (by->value != NULL)
		qsort(rows, n, sizeof(*rows), top_compare);
	return rows;
}

/* Add the cell of a column to a line. */
static void
add_cell(char *line, const struct top_column *c, const char *text)
{
	const size_t used = strlen(line);

	snprintf(line + used, LINE_BYTES - used, "%s%*s", used > 0 ? " " : "", c->width, text);
}

static void
add_list(struct screen *s, struct look *look, const struct top_column *columns, const json_t *list,
	const json_t *before, const char *key, double seconds)
{
	const struct top_column *by = &columns[look->sort[look->view]];
	struct span *rows = sorted(list, before, key, seconds, by);
	char line[LINE_BYTES] = "", head[40];

	for (const struct top_column *c = columns; c->head != NULL; c++) {
		snprintf(head, sizeof(head), "%s%s", c->head, c == by ? "*" : "");
		add_cell(line, c, head);
	}
	add_line(s, "%s", line);
	look->rows = (unsigned)json_array_size(list);
	if (look->rows == 0)
		add_line(s, "none");
	if (look->selected >= look->rows)
		look->selected = look->rows > 0 ? look->rows - 1 : 0;
	for (unsigned i = 0; i < look->rows; i++) {
		*line = 0;
		for (const struct top_column *c = columns; c->head != NULL; c++)
			add_cell(line, c,
				c->show != NULL ? c->show(&rows[i])
						: rate_text(c->value(&rows[i])));
		if (i == look->selected) {
			s->marked = (int)s->count;
			look->number = get_u64(rows[i].now, key);
		}
		add_line(s, "%s", line);
	}
	free(rows);
}

/* ------------------------------------------------------------------ one peer, one context */

static void
add_member(struct screen *s, const char *name, const json_t *value, double rate)
{
	if (json_is_string(value))
		add_line(s, "  %-18s %s", name, json_string_value(value));
	else if (json_is_integer(value))
		add_line(s, "  %-18s %-20" JSON_INTEGER_FORMAT " %s/s", name,
			json_integer_value(value), rate_text(rate));
}

/* Add how the round trips since the last sample spread, or all if there were none. */
static void
add_round_trips(struct screen *s, const struct span *peer)
{
	const json_t *now = json_object_get(peer->now, "round_trips");
	const json_t *then = json_object_get(peer->before, "round_trips");
	uint64_t counts[PROTO_ROUND_TRIPS], most = 1;

	if (round_trips_since(then, now, counts) == 0)
		round_trips_since(NULL, now, counts);
	for (unsigned i = 0; i < PROTO_ROUND_TRIPS; i++)
		most = counts[i] > most ? counts[i] : most;
	add_line(s, "  round trips below: half %s, 99 %% %s",
		time_text(round_trips_below(now, 0.5)), time_text(round_trips_below(now, 0.99)));
	for (unsigned i = 0; i < PROTO_ROUND_TRIPS; i++) {
		char bar[41] = "";

		if (counts[i] == 0)
			continue;
		memset(bar, '#', 1 + 39 * counts[i] / most);
		add_line(s, "  %11s %8" PRIu64 " %s",
			time_text((uint64_t)(PROTO_ROUND_TRIP_NS * (double)(1ull << i))), counts[i],
			bar);
	}
}

static void
add_inside(struct screen *s, const char *what, const struct span *one)
{
	json_t *value;
	const char *name;

	if (one->now == NULL) {
		add_line(s, "it is gone: Esc");
		return;
	}
	add_line(s, "%s %.0f", what, number_of(one));
	if (json_object_get(one->now, "round_trips") != NULL)
		add_round_trips(s, one);
	json_object_foreach((json_t *)one->now, name, value)
		add_member(s, name, value, span_rate(one, name));
}

/* ------------------------------------------------------------------ screens */

static void
add_counters(struct screen *s, struct look *look, const struct span *stat)
{
	json_t *value;
	const char *name;

	look->rows = 0;
	add_line(s, "%-28s %12s  %s", "counter", "a second", "meaning");
	json_object_foreach((json_t *)stat->now, name, value) {
		const double rate = span_rate(stat, name);

		if (rate > 0)
			add_line(s, "%-28s %12s  %s", name, rate_text(rate),
				counter_meaning(name).help);
	}
}

static void
add_links(struct screen *s, const struct primary *p, const struct primary *before, double seconds)
{
	const char *number;
	json_t *link;

	add_line(s, "%-4s %-8s %-19s %-5s %9s %9s %9s %9s", "link", "driver", "port", "state",
		"in bit/s", "out", "in fr/s", "out");
	json_object_foreach(p->links, number, link) {
		const struct span one = {before ? json_object_get(before->links, number) : NULL,
			link, seconds};

		add_line(s, "%-4s %-8s %-19.19s %-5s %9s %9s %9s %9s", number,
			get_text(link, "driver"), get_text(link, "port"),
			get_u64(link, "up") ? "up" : "DOWN",
			rate_text(8 * span_rate(&one, "rx_bytes")),
			rate_text(8 * span_rate(&one, "tx_bytes")),
			rate_text(span_rate(&one, "rx_frames")),
			rate_text(span_rate(&one, "tx_frames")));
	}
}

static void
make_screen(struct screen *s, struct look *look, const struct sample *now,
	const struct sample *before, const char *name)
{
	const double seconds = before ? (double)(now->at_ms - before->at_ms) / 1e3 : 0;
	const struct primary *p = sample_primary(now, name), *was = sample_primary(before, name);
	const time_t clock = time(NULL);
	char stamp[16];
	struct tm local;

	s->count = 0;
	s->head = 1;
	s->marked = -1;
	strftime(stamp, sizeof(stamp), "%H:%M:%S", localtime_r(&clock, &local));
	if (p == NULL) {
		add_line(s, "pmx-ctl top %s  %s: %s", stamp, name,
			now->count > 0 ? now->primaries[0].error : "it does not run");
		return;
	}
	const struct span stat = {was ? was->stat : NULL, p->stat, seconds};

	add_line(s, "pmx-ctl top %s  %s, node %" PRIu64 "  over %.1f s  [%s]", stamp, name,
		get_u64(p->info, "node"), seconds, view_names[look->view]);
	add_line(s,
		"lanes %" PRIu64 " (%s)  buffers %" PRIu64 "/%" PRIu64 " free  flows %" PRIu64
		"  msg/s %s in, %s out",
		get_u64(p->info, "lanes"), get_text(p->info, "idle"),
		get_u64(p->info, "mbufs_free"), get_u64(p->info, "mbufs"),
		get_u64(p->info, "flows"), rate_text(span_rate(&stat, "proto_messages_delivered")),
		rate_text(span_rate(&stat, "proto_messages_sent")));
	add_links(s, p, was, seconds);
	add_line(s, "%s", "");
	s->head = s->count;
	const bool peers = look->view == PEERS;
	const char *key = peers ? "node" : "context";
	const json_t *list = peers ? p->peers : p->contexts;
	const json_t *list_before = was == NULL ? NULL : peers ? was->peers : was->contexts;

	if (look->view == COUNTERS) {
		add_counters(s, look, &stat);
	} else if (look->inside) {
		const struct span one = {sample_numbered(list_before, key, look->number),
			sample_numbered(list, key, look->number), seconds};

		add_inside(s, peers ? "peer" : "context", &one);
	} else {
		add_list(s, look, peers ? peer_columns : context_columns, list, list_before, key,
			seconds);
	}
}

/* ------------------------------------------------------------------ keys */

/* Take the next column that can be sorted by. */
static void
sort_next(struct look *look)
{
	const struct top_column *columns = look->view == PEERS ? peer_columns : context_columns;
	unsigned *by = &look->sort[look->view];

	do {
		(*by)++;
		if (columns[*by].head == NULL)
			*by = 0;
	} while (columns[*by].value == NULL);
}

/* Obey a key. Return false to end. */
static bool
obey(struct look *look, int key)
{
	switch (key) {
	case 'q':
		return false;
	case 27: /* Esc */
	case KEY_LEFT:
		look->inside = false;
		break;
	case '\t':
		look->view = (look->view + 1) % VIEWS;
		look->inside = false;
		break;
	case 'p':
	case 'c':
	case 'n':
		look->view = key == 'p' ? PEERS : key == 'c' ? CONTEXTS : COUNTERS;
		look->inside = false;
		break;
	case 's':
		if (look->view != COUNTERS)
			sort_next(look);
		break;
	case KEY_UP:
		look->selected -= look->selected > 0;
		break;
	case KEY_DOWN:
		look->selected += look->selected + 1 < look->rows;
		break;
	case '\n':
	case KEY_ENTER:
	case KEY_RIGHT:
		look->inside = look->view != COUNTERS && look->rows > 0;
		break;
	default:
		break;
	}
	return true;
}

static void
top_draw(const struct screen *s)
{
	const int rows = LINES - 1;
	/* the selected row is on the screen */
	const int skip = s->marked >= rows ? s->marked - rows + 1 : 0;

	erase();
	for (int i = 0; i < rows && i + skip < (int)s->count; i++) {
		const int line = i <= (int)s->head ? i : i + skip;

		if (line == s->marked)
			attron(A_REVERSE);
		mvaddnstr(i, 0, s->lines[line], COLS);
		if (line == s->marked)
			attroff(A_REVERSE);
	}
	attron(A_DIM);
	mvaddnstr(LINES - 1, 0,
		"q end  Tab or p c n: peers contexts counters  s sort  arrows Enter Esc: look into",
		COLS);
	attroff(A_DIM);
	refresh();
}

static void
follow(const char *name, double seconds, struct screen *s)
{
	struct sample *before = NULL, *now = sample_take(name);
	struct look look = {0};
	int64_t next = clock_ms();
	bool goes_on = true;

	initscr();
	cbreak();
	noecho();
	keypad(stdscr, true);
	set_escdelay(25);
	curs_set(0);
	while (goes_on && now != NULL) {
		const int64_t left = next - clock_ms();

		if (left <= 0) {
			sample_free(before);
			before = now;
			now = sample_take(name);
			next = clock_ms() + (int64_t)(seconds * 1e3);
			if (now == NULL)
				break;
		}
		s->columns = (unsigned)COLS < LINE_BYTES ? (unsigned)COLS : LINE_BYTES - 1;
		make_screen(s, &look, now, before, name);
		top_draw(s);
		timeout(left > 0 ? (int)left : 0);
		const int key = getch();

		goes_on = key == ERR || obey(&look, key);
	}
	endwin();
	sample_free(before);
	sample_free(now);
}

/* Print `times` screens of each view, or without end. */
static int
print_screens(const char *name, double seconds, unsigned times, struct screen *s)
{
	struct sample *before = sample_take(name), *now = NULL;
	struct look look = {0};

	s->columns = BATCH_COLUMNS;
	for (unsigned i = 0; before != NULL && (times == 0 || i < times); i++) {
		sleep_s(seconds);
		now = sample_take(name);
		for (look.view = PEERS; now != NULL && look.view < VIEWS; look.view++) {
			make_screen(s, &look, now, before, name);
			for (unsigned l = look.view == PEERS ? 0 : s->head - 1; l < s->count; l++)
				puts(s->lines[l]);
		}
		puts("");
		sample_free(before);
		before = now;
		if (fflush(stdout) != 0)
			break; /* the reader has gone */
	}
	const bool good = before != NULL && sample_primary(before, name) != NULL;

	sample_free(before);
	return !good;
}

int
show_top(const struct ctl_options *o)
{
	const double seconds = o->watch_s > 0 ? o->watch_s : 1;
	char name[256], error[CTL_ERROR_MAX];
	struct screen *s;

	if (instance_pick(o->instance, name, sizeof(name), error) != 0)
		return complain("%s", error);
	if (!o->batch && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return complain("top needs a terminal; --batch prints");
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return complain("no memory for a screen");
	int result = 0;

	if (o->batch)
		result = print_screens(name, seconds, o->times, s);
	else
		follow(name, seconds, s);
	free(s);
	return result;
}
