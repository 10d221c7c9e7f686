/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands stat and drops: counters with unit and meaning.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ctl.h"

/* {name: value} -> [{name, value, unit, meaning}] */
static json_t *
stat_describe(const json_t *values)
{
	json_t *list = json_array(), *value;
	const char *name;

	json_object_foreach((json_t *)values, name, value) {
		struct meaning m = counter_meaning(name);

		json_array_append_new(list,
			json_pack("{s:s, s:O, s:s, s:s}", "name", name, "value", value, "unit",
				m.unit, "meaning", m.help));
	}
	return list;
}

static void
add_rows(struct table *t, const json_t *values, bool zeros)
{
	json_t *value;
	const char *name;

	json_object_foreach((json_t *)values, name, value) {
		struct meaning m = counter_meaning(name);

		if (json_is_string(value))
			table_row(t, "%s\t%s\t%s\t%s", name, json_string_value(value), m.unit,
				m.help);
		else if (zeros || json_integer_value(value) != 0)
			table_row(t, "%s\t%" PRIu64 "\t%s\t%s", name,
				(uint64_t)json_integer_value(value), m.unit, m.help);
	}
}

/* ------------------------------------------------------------------ stat --watch */

void
sleep_s(double s)
{
	struct timespec t = {.tv_sec = (time_t)s};

	t.tv_nsec = (long)((s - (double)t.tv_sec) * 1e9);
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		continue;
}

static double
rate(const json_t *before, const char *name, const json_t *value, double seconds)
{
	double grown = (double)json_integer_value(value) - (double)get_u64(before, name);

	return grown > 0 ? grown / seconds : 0;
}

static void
print_rates_json(const json_t *before, json_t *after, double seconds, const json_t *info)
{
	json_t *rates = json_object(), *value;
	const char *name;

	json_object_foreach(after, name, value)
		json_object_set_new(rates, name, json_real(rate(before, name, value, seconds)));
	json_t *line = json_pack("{s:f, s:o, s:O}", "seconds", seconds, "rates", rates, "info",
		info);

	json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(line);
}

static void
print_rates(const json_t *before, json_t *after, double seconds, const json_t *info, bool zeros)
{
	struct table t;
	json_t *value;
	const char *name;
	char stamp[32];
	time_t now = time(NULL);
	struct tm local;

	strftime(stamp, sizeof(stamp), "%H:%M:%S", localtime_r(&now, &local));
	printf("%s  %s: over %.2f s; %" PRIu64 " of %" PRIu64 " mbufs free, %" PRIu64 " flows\n",
		stamp, get_text(info, "name"), seconds, get_u64(info, "mbufs_free"),
		get_u64(info, "mbufs"), get_u64(info, "flows"));
	table_begin(&t, "name|>a second|unit|meaning");
	json_object_foreach(after, name, value) {
		double r = rate(before, name, value, seconds);
		struct meaning m = counter_meaning(name);

		if (zeros || r > 0)
			table_row(&t, "%s\t%.*f\t%s/s\t%s", name, r < 10 && r > 0 ? 2 : 0, r,
				m.unit, m.help);
	}
	table_end(&t, stdout);
	putchar('\n');
}

static int
stat_watch(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	json_t *before = session_ask(s, "/pmx/stat", error), *after = NULL, *info;
	double then = (double)clock_ns() / 1e9;

	while (before != NULL) {
		sleep_s(o->watch_s);
		after = session_ask(s, "/pmx/stat", error);
		double now = (double)clock_ns() / 1e9;

		info = after ? session_ask(s, "/pmx/info", error) : NULL;
		if (info != NULL && o->json)
			print_rates_json(before, after, now - then, info);
		else if (info != NULL)
			print_rates(before, after, now - then, info, o->all);
		json_decref(before);
		before = info ? after : NULL;
		if (info == NULL)
			json_decref(after);
		json_decref(info);
		then = now;
		if (fflush(stdout) != 0) {
			json_decref(before);
			return 1; /* the reader has gone */
		}
	}
	return complain("%s", error);
}

/* ------------------------------------------------------------------ commands */

int
show_stat(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	struct table t;

	if (o->watch_s > 0)
		return stat_watch(s, o);
	json_t *info = session_ask(s, "/pmx/info", error);
	json_t *counters = info ? session_ask(s, "/pmx/stat", error) : NULL;

	if (counters == NULL) {
		json_decref(info);
		return complain("%s", error);
	}
	if (o->json) {
		json_t *list = stat_describe(counters);

		json_decref(counters);
		return print_json(json_pack("{s:o, s:o}", "info", info, "counters", list));
	}
	table_begin(&t, "name|>value|unit|meaning");
	add_rows(&t, info, true);
	table_row(&t, "%s", "");
	add_rows(&t, counters, o->all);
	table_end(&t, stdout);
	json_decref(info);
	json_decref(counters);
	return 0;
}

int
show_drops(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	json_t *drops = session_ask(s, "/pmx/drops", error), *value;
	const char *name;
	bool any = false;
	struct table t;

	if (drops == NULL)
		return complain("%s", error);
	if (o->json) {
		json_t *list = stat_describe(drops);

		json_decref(drops);
		return print_json(list);
	}
	json_object_foreach(drops, name, value)
		any |= json_integer_value(value) != 0;
	if (any) {
		table_begin(&t, "name|>value|unit|meaning");
		add_rows(&t, drops, false);
		table_end(&t, stdout);
	} else {
		printf("nothing dropped (%zu reasons, all zero)\n", json_object_size(drops));
	}
	json_decref(drops);
	return 0;
}
