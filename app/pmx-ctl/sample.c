/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks primaries: see sample.h.
 */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl.h"

/* Give each peer its counters. */
static void
add_counters(json_t *peers, const json_t *counters)
{
	json_t *peer;
	size_t i;

	json_array_foreach(peers, i, peer) {
		const json_t *of = sample_numbered(counters, "node", get_u64(peer, "node"));

		if (of != NULL)
			json_object_update(peer, (json_t *)of);
	}
}

static void
sample_ask(struct primary *p)
{
	char error[CTL_ERROR_MAX];
	struct ctl_session s;

	if (session_open(&s, p->name, error) != 0) {
		p->error = strdup(error);
		return;
	}
	p->info = session_ask(&s, "/pmx/info", error);
	p->stat = p->info ? session_ask(&s, "/pmx/stat", error) : NULL;
	p->links = p->stat ? session_ask(&s, "/pmx/links", error) : NULL;
	p->contexts = p->links ? ask_pages(&s, "/pmx/contexts", "context", error) : NULL;
	p->peers = p->contexts ? ask_pages(&s, "/pmx/peers", "node", error) : NULL;
	json_t *counters = p->peers ? ask_pages(&s, "/pmx/peer_counters", "node", error) : NULL;

	if (counters != NULL)
		add_counters(p->peers, counters);
	else
		p->error = strdup(error);
	p->is_up = counters != NULL;
	json_decref(counters);
	session_close(&s);
}

struct sample *
sample_take(const char *instance)
{
	struct sample *s = calloc(1, sizeof(*s));
	unsigned count;
	struct instance *list = instance_list(&count);

	for (unsigned i = 0; s != NULL && i < count && s->count < PRIMARIES_MOST; i++) {
		struct primary *p = &s->primaries[s->count];

		if (instance != NULL && strcmp(list[i].name, instance) != 0)
			continue;
		s->count++;
		snprintf(p->name, sizeof(p->name), "%s", list[i].name);
		p->is_dead = list[i].state == INSTANCE_DEAD;
		if (list[i].state == INSTANCE_LIVE)
			sample_ask(p);
		else
			p->error = strdup(p->is_dead ? "dead: only its files are left"
					: list[i].state == INSTANCE_DENIED
					? "of another user, whose socket this one may not open"
					: "runs without telemetry");
	}
	free(list);
	if (s != NULL)
		s->at_ms = clock_ms();
	return s;
}

void
sample_free(struct sample *s)
{
	for (unsigned i = 0; s != NULL && i < s->count; i++) {
		struct primary *p = &s->primaries[i];

		json_decref(p->info);
		json_decref(p->stat);
		json_decref(p->links);
		json_decref(p->peers);
		json_decref(p->contexts);
		free(p->error);
	}
	free(s);
}

const struct primary *
sample_primary(const struct sample *s, const char *name)
{
	for (unsigned i = 0; s != NULL && i < s->count; i++) {
		if (strcmp(s->primaries[i].name, name) == 0 && s->primaries[i].is_up)
			return &s->primaries[i];
	}
	return NULL;
}

const json_t *
sample_numbered(const json_t *list, const char *key, uint64_t number)
{
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)list, i, item) {
		if (get_u64(item, key) == number)
			return item;
	}
	return NULL;
}

struct span
span_of(const json_t *before, const json_t *item, const char *key, double seconds)
{
	return (struct span){sample_numbered(before, key, get_u64(item, key)), item, seconds};
}

double
peer_window_used(const json_t *peer)
{
	const uint64_t window = get_u64(peer, "cwnd_bytes");

	return window > 0 ? (double)get_u64(peer, "inflight_bytes") / (double)window : 0;
}

uint64_t
round_trips_since(const json_t *before, const json_t *now, uint64_t counts[PROTO_ROUND_TRIPS])
{
	uint64_t all = 0;

	for (size_t i = 0; i < PROTO_ROUND_TRIPS; i++) {
		const json_int_t is = json_integer_value(json_array_get(now, i)),
				 was = json_integer_value(json_array_get(before, i));

		counts[i] = is > was ? (uint64_t)(is - was) : 0;
		all += counts[i];
	}
	return all;
}

double
span_rate(const struct span *s, const char *key)
{
	if (s->before == NULL || s->seconds <= 0)
		return 0;
	const uint64_t now = get_u64(s->now, key), before = get_u64(s->before, key);

	return now > before ? (double)(now - before) / s->seconds : 0;
}

double
span_drops(const struct span *s)
{
	if (s->before == NULL || s->seconds <= 0)
		return 0;
	const uint64_t now = peer_drops(s->now), before = peer_drops(s->before);

	return now > before ? (double)(now - before) / s->seconds : 0;
}

const char *
rate_text(double rate)
{
	static char buffers[16][24];
	static unsigned turn;
	char *s = buffers[turn++ % 16];

	if (rate == 0)
		return "0";
	if (rate < 1000)
		snprintf(s, sizeof(buffers[0]), rate < 10 ? "%.1f" : "%.0f", rate);
	else if (rate < 1e6)
		snprintf(s, sizeof(buffers[0]), "%.1f k", rate / 1e3);
	else if (rate < 1e9)
		snprintf(s, sizeof(buffers[0]), "%.1f M", rate / 1e6);
	else
		snprintf(s, sizeof(buffers[0]), "%.2f G", rate / 1e9);
	return s;
}
