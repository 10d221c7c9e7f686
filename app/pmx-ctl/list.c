/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands reload, contexts, memory and groups.
 */
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>

#include "ctl.h"

int
show_reload(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	json_t *r = session_ask(s, "/pmx/reload", error);

	if (r == NULL)
		return complain("%s", error);
	const bool failed = *get_text(r, "error") != 0;

	if (o->json)
		return print_json(r) != 0 || failed;
	if (failed)
		complain("%s", get_long_text(r, "error", error, sizeof(error)));
	else
		printf("%" PRIu64 " nodes added, %" PRIu64 " removed, %" PRIu64
		       " moved; lanes stood still for %" PRIu64 " us\n",
			get_u64(r, "added"), get_u64(r, "removed"), get_u64(r, "moved"),
			get_u64(r, "pause_us"));
	json_decref(r);
	return failed;
}

/* Return the name of the user who has a context open, or his number, or "-". */
static const char *
user_of(const json_t *context, char *text, size_t size)
{
	const json_t *uid = json_object_get(context, "uid");
	const struct passwd *p = uid != NULL ? getpwuid((uid_t)json_integer_value(uid)) : NULL;

	if (uid == NULL)
		return "-";
	snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(uid));
	if (p != NULL)
		snprintf(text, size, "%s", p->pw_name);
	return text;
}

int
show_contexts(struct ctl_session *s, const struct ctl_options *o)
{
	static const char *const keys[] = {"sent", "sent_bytes", "received", "received_bytes",
		"send_busy", "send_buffers", "receive_held", "receive_buffers", "lhs_waiting",
		"bad", "pairs", "paired_sent", "paired_received"};
	uint64_t v[13];
	struct table t;
	size_t i;
	int result;
	json_t *c,
		*list = ask_rows(s, o, "/pmx/contexts", "context", "no context is open", &result);

	if (list == NULL)
		return result;
	table_begin(&t,
		">context|state|>process|>job|attached|>sent|>bytes|>received|>bytes|>send "
		"buffers|>receive buffers|>unread|>bad|>pairs|>sent by them|>received by them|"
		"name|user");
	json_array_foreach(list, i, c) {
		char pid[24], job[24], user[48];

		for (unsigned k = 0; k < 13; k++)
			v[k] = get_u64(c, keys[k]);
		snprintf(pid, sizeof(pid), "%" PRIu64, get_u64(c, "pid"));
		snprintf(job, sizeof(job), "%" PRIu64, get_u64(c, "job"));
		table_row(&t,
			"%" PRIu64 "\t%s\t%s\t%s\t%s\t%" PRIu64 "\t%s\t%" PRIu64 "\t%s\t%" PRIu64
			" of %" PRIu64 "\t%" PRIu64 " of %" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s",
			get_u64(c, "context"), get_text(c, "state"), get_u64(c, "pid") ? pid : "-",
			get_u64(c, "job") ? job : "-", get_text(c, "attached"), v[0],
			bytes_text(v[1]), v[2], bytes_text(v[3]), v[4], v[5], v[6], v[7], v[8],
			v[9], v[10], v[11], v[12], get_text(c, "name"),
			user_of(c, user, sizeof(user)));
	}
	table_end(&t, stdout);
	json_decref(list);
	return 0;
}

static void
print_transfers(const json_t *list)
{
	struct table t;
	size_t i;
	json_t *c;

	table_begin(&t,
		">context|>under way|>pushed|>pulled|>failed|>served|>refused|>mapped|>pin "
		"hits|>misses|>evictions|>invalidations|>pinned");
	json_array_foreach(list, i, c) {
		table_row(&t,
			"%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s",
			get_u64(c, "context"), get_u64(c, "transfers"),
			bytes_text(get_u64(c, "pushed_bytes")),
			bytes_text(get_u64(c, "pulled_bytes")), get_u64(c, "failed"),
			get_u64(c, "served"), get_u64(c, "refused"),
			bytes_text(get_u64(c, "mapped_bytes")), get_u64(c, "pin_hits"),
			get_u64(c, "pin_misses"), get_u64(c, "pin_evictions"),
			get_u64(c, "pin_invalidations"), bytes_text(get_u64(c, "pinned_bytes")));
	}
	table_end(&t, stdout);
}

static void
print_regions(const json_t *list)
{
	struct table t;
	size_t i;
	json_t *r;

	table_begin(&t, ">region|>context|>area|>address|>bytes|>pins|access|method");
	json_array_foreach(list, i, r) {
		char area[24] = "-";

		if (json_object_get(r, "area"))
			snprintf(area, sizeof(area), "%" PRIu64, get_u64(r, "area"));
		table_row(&t,
			"%" PRIu64 "\t%" PRIu64 "\t%s\t0x%" PRIx64 "\t%s\t%" PRIu64 "\t%s\t%s",
			get_u64(r, "region"), get_u64(r, "context"), area, get_u64(r, "addr"),
			bytes_text(get_u64(r, "bytes")), get_u64(r, "pins"), get_text(r, "access"),
			get_text(r, "method"));
	}
	table_end(&t, stdout);
}

/* Show remote memory: by context, and the regions that others may access. */
int
show_memory(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	json_t *contexts = ask_pages(s, "/pmx/memory", "context", error);
	json_t *regions = contexts ? ask_pages(s, "/pmx/regions", "region", error) : NULL;

	if (regions == NULL) {
		json_decref(contexts);
		return complain("%s", error);
	}
	if (o->json) {
		json_t *both = json_object();

		json_object_set_new(both, "contexts", contexts);
		json_object_set_new(both, "regions", regions);
		return print_json(both);
	}
	if (json_array_size(contexts) == 0)
		puts("no context is open");
	else
		print_transfers(contexts);
	if (json_array_size(regions) != 0) {
		puts("");
		print_regions(regions);
	}
	json_decref(contexts);
	json_decref(regions);
	return 0;
}

/* ------------------------------------------------------------------ groups */

/* Return as text the barrier that the member is in, or how many it has passed. The text is in a
 * static buffer. */
static const char *
barrier_text(const json_t *g)
{
	static char buffer[32];

	snprintf(buffer, sizeof(buffer), get_u64(g, "in_barrier") ? "in %" PRIu64 : "%" PRIu64,
		get_u64(g, "barrier"));
	return buffer;
}

/* what: "locks" or "regions", of which each member has some, with a text of ranks. */
static void
print_ranks(json_t *list, const char *what, const char *columns)
{
	struct table t;
	const char *number;
	json_t *g, *ranks;
	bool begun = false;
	size_t i;

	json_array_foreach(list, i, g) {
		json_object_foreach(json_object_get(g, what), number, ranks) {
			if (!begun) {
				puts("");
				table_begin(&t, columns);
			}
			begun = true;
			table_row(&t, "%" PRIu64 "\t%s\t%" PRIu64 "\t%s", get_u64(g, "group"),
				number, get_u64(g, "rank"), json_string_value(ranks));
		}
	}
	if (begun)
		table_end(&t, stdout);
}

/* Show groups: this node's members, and the locks and shared regions that these manage. */
int
show_groups(struct ctl_session *s, const struct ctl_options *o)
{
	struct table t;
	size_t i;
	int result;
	json_t *g,
		*list = ask_rows(s, o, "/pmx/groups", "number", "no context is in a group",
			&result);

	if (list == NULL)
		return result;
	table_begin(&t, ">group|>rank|>of|>gone|>context|state|>barriers|>locks held");
	json_array_foreach(list, i, g) {
		table_row(&t,
			"%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%s\t%s\t%" PRIu64,
			get_u64(g, "group"), get_u64(g, "rank"), get_u64(g, "size"),
			get_u64(g, "gone"), get_u64(g, "context"), get_text(g, "state"),
			barrier_text(g), get_u64(g, "held"));
	}
	table_end(&t, stdout);
	print_ranks(list, "locks", ">group|>lock|>manager|ranks: who has it, who waits");
	print_ranks(list, "regions", ">group|>region|>home|ranks: who shares it");
	json_decref(list);
	return 0;
}
