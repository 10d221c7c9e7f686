/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command doctor: checks whether this host is ready for a primary, whether running primaries
 * work well, and what dead ones have left. Each check is one line: ok, warn or FAIL, what was
 * found, and how to mend it. This file has the report.
 */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* ------------------------------------------------------------------ running primaries */

static void
running(struct doctor *d, const struct ctl_options *o, const struct instance *list, unsigned count)
{
	bool seen = false;

	for (unsigned i = 0; i < count; i++) {
		if (o->instance != NULL && strcmp(o->instance, list[i].name) != 0)
			continue;
		seen = true;
		if (list[i].state == INSTANCE_LIVE)
			doctor_node(d, list[i].name);
		else if (list[i].state == INSTANCE_SILENT)
			found(d, WARN, list[i].name, "start it without --no-telemetry",
				"runs, but offers no telemetry");
		else if (list[i].state == INSTANCE_DENIED)
			found(d, WARN, list[i].name, "run this as root or as its user",
				"its telemetry socket may not be opened by this user");
		else if (o->instance != NULL)
			found(d, FAIL, list[i].name, "start it",
				"does not run: only its files are left");
	}
	if (o->instance != NULL && !seen)
		found(d, FAIL, o->instance, "start it, or leave --instance out: all are looked at",
			"no instance of this name runs");
	else if (d->live == 0 && o->instance == NULL)
		found(d, OK, "instances", NULL, "none runs");
}

/* ------------------------------------------------------------------ report */

static void
print_report(const struct doctor *d)
{
	json_t *line;
	size_t i;
	int width = 0;

	json_array_foreach(d->lines, i, line) {
		int n = (int)strlen(get_text(line, "check"));

		width = n > width ? n : width;
	}
	json_array_foreach(d->lines, i, line) {
		const char *mend = get_text(line, "mend");

		printf("%-4s  %-*s  %s\n", get_text(line, "state"), width, get_text(line, "check"),
			get_text(line, "found"));
		if (*mend)
			printf("%*s  mend: %s\n", width + 6, "", mend);
	}
	printf("\n%u ok, %u warn, %u FAIL\n", d->count[OK], d->count[WARN], d->count[FAIL]);
}

int
doctor(const struct ctl_options *o)
{
	struct doctor d = {.lines = json_array()};
	char unused[256], error[CTL_ERROR_MAX];
	unsigned count;

	if (o->instance != NULL && instance_pick(o->instance, unused, sizeof(unused), error) != 0)
		return complain("%s", error);
	struct instance *list = instance_list(&count);

	doctor_host(&d);
	doctor_mpi(&d);
	running(&d, o, list, count);
	doctor_left(&d, list, count);
	free(list);
	if (o->json)
		print_json(json_incref(d.lines));
	else
		print_report(&d);
	json_decref(d.lines);
	return d.count[FAIL] ? 1 : 0;
}
