/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What telemetry answers in pages, by number.
 *
 * Design note
 * 1. A page may have fewer entries although more follow, since telemetry silently omits what
 *    exceeds its longest answer. So an empty page is the end, not a short one.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl.h"

/* Copy the page's objects to list, each with its number. Return the next number to ask for. */
static uint64_t
take_page(json_t *list, json_t *page, const char *number_key)
{
	uint64_t next = 0;
	json_t *value;
	const char *key;

	json_object_foreach(page, key, value) {
		uint64_t number = strtoull(key, NULL, 10);
		json_t *item = json_object();

		json_object_set_new(item, number_key, json_integer((json_int_t)number));
		json_object_update(item, value);
		json_array_append_new(list, item);
		next = number + 1 > next ? number + 1 : next;
	}
	return next;
}

json_t *
ask_pages(struct ctl_session *s, const char *command, const char *number_key, char *error)
{
	json_t *list = json_array();
	uint64_t from = 0, next = 0;

	do {
		char *question = text("%s,%" PRIu64, command, from = next);
		json_t *page = session_ask(s, question, error);

		free(question);
		if (page == NULL) {
			json_decref(list);
			return NULL;
		}
		next = take_page(list, page, number_key);
		json_decref(page);
	} while (next > from);
	return list;
}

json_t *
ask_rows(struct ctl_session *s, const struct ctl_options *o, const char *command, const char *key,
	const char *none, int *result)
{
	char error[CTL_ERROR_MAX];
	json_t *list = ask_pages(s, command, key, error);

	*result = 0;
	if (list == NULL) {
		*result = complain("%s", error);
	} else if (o->json) {
		*result = print_json(list);
		list = NULL;
	} else if (json_array_size(list) == 0) {
		puts(none);
		json_decref(list);
		list = NULL;
	}
	return list;
}
