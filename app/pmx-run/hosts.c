/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hosts and the ranks that run on them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

static struct host *
host_new(struct hosts *h, const char *name)
{
	struct host *more = realloc(h->of, (h->count + 1) * sizeof(*more));

	if (more == NULL)
		return NULL;
	h->of = more;
	struct host *host = &more[h->count];

	*host = (struct host){.name = strdup(name)};
	if (host->name == NULL)
		return NULL;
	h->count++;
	return host;
}

/* ssh would take it for an option. */
static bool
is_name(const char *name)
{
	return *name != 0 && *name != '-' &&
		strspn(name,
			"abcdefghijklmnopqrstuvwxyz"
			"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			"0123456789.-_:@%[]") == strlen(name);
}

static bool
word(struct host *host, const char *w)
{
	if (strncmp(w, "slots=", 6) == 0) {
		char *end;
		const unsigned long n = strtoul(w + 6, &end, 10);

		host->slots = (uint32_t)n;
		return isdigit((unsigned char)w[6]) && *end == 0 && n >= 1 && n <= RANKS_MAX;
	}
	if (strncmp(w, "instance=", 9) == 0 && w[9] != 0) {
		free(host->instance);
		host->instance = strdup(w + 9);
		return host->instance != NULL;
	}
	return false;
}

bool
hosts_read(struct hosts *h, const char *path, char *error, uint32_t error_len)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	bool good = true;

	if (f == NULL) {
		snprintf(error, error_len, "%s: %s", path, strerror(errno));
		return false;
	}
	for (unsigned n = 1; good && fgets(line, sizeof(line), f) != NULL; n++) {
		char *rest = line, *w;
		struct host *host = NULL;

		line[strcspn(line, "#\n")] = 0;
		while (good && (w = strsep(&rest, " \t\r")) != NULL) {
			if (*w == 0)
				continue;
			if (host == NULL)
				good = is_name(w) && (host = host_new(h, w)) != NULL;
			else
				good = word(host, w);
			if (!good)
				snprintf(error, error_len,
					"%s:%u: '%s': a line is HOST [slots=1..%u] [instance=NAME]",
					path, n, w, RANKS_MAX);
		}
	}
	fclose(f);
	if (good && h->count == 0) {
		snprintf(error, error_len, "%s: names no host", path);
		good = false;
	}
	return good;
}

bool
hosts_list(struct hosts *h, const char *names, char *error, uint32_t error_len)
{
	char *copy = strdup(names), *rest = copy, *name;
	bool good = copy != NULL;

	if (!good)
		snprintf(error, error_len, "out of memory");
	while (good && (name = strsep(&rest, ",")) != NULL) {
		good = is_name(name);
		if (!good)
			snprintf(error, error_len, "'%s' is no name of a host", name);
		else if (host_new(h, name) == NULL) {
			snprintf(error, error_len, "out of memory");
			good = false;
		}
	}
	free(copy);
	return good;
}

bool
hosts_place(struct hosts *h, uint32_t n, char *error, uint32_t error_len)
{
	uint64_t slots = 0;
	bool said = false;

	for (uint32_t i = 0; i < h->count; i++) {
		said |= h->of[i].slots != 0;
		slots += h->of[i].slots;
	}
	/* where some say it, the others have one */
	for (uint32_t i = 0; said && i < h->count; i++) {
		slots += h->of[i].slots == 0;
		h->of[i].slots += h->of[i].slots == 0;
	}
	if (n == 0)
		n = said ? (uint32_t)(slots < RANKS_MAX ? slots : RANKS_MAX) : h->count;
	if (said && n > slots) {
		snprintf(error, error_len, "%u processes, but the hosts have %llu slots", n,
			(unsigned long long)slots);
		return false;
	}
	for (uint32_t i = 0, first = 0; i < h->count; i++) {
		const uint32_t left = n - first, hosts = h->count - i;
		const uint32_t take = said ? h->of[i].slots : (left + hosts - 1) / hosts;

		h->of[i].first = first;
		h->of[i].ranks = take < left ? take : left;
		first += h->of[i].ranks;
	}
	return true;
}

void
hosts_free(struct hosts *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		free(h->of[i].name);
		free(h->of[i].instance);
	}
	free(h->of);
	*h = (struct hosts){NULL, 0};
}

/* Return a copy of a word of the command, with the host in the place of the {} at `brace`. If
 * `brace` is NULL, the word has no {}. Return NULL if there is no memory. */
static char *
word_with(const char *word, const char *brace, const char *host)
{
	char *with;

	if (brace == NULL)
		return strdup(word);
	return asprintf(&with, "%.*s%s%s", (int)(brace - word), word, host, brace + 2) < 0 ? NULL
											   : with;
}

char **
hosts_command(const char *how, const struct host *h, const char *const *program)
{
	const bool here = *h->name == 0;
	unsigned most = (unsigned)strlen(how) / 2 + 3, n = 0;
	char *copy = strdup(how), *rest = here ? NULL : copy, *w;
	bool named = here, good = copy != NULL;

	for (const char *const *p = program; *p != NULL; p++)
		most++;
	char **words = calloc(most, sizeof(*words));

	good &= words != NULL;
	while (good && (w = strsep(&rest, " ")) != NULL) {
		const char *brace = strstr(w, "{}");

		if (*w == 0)
			continue;
		named |= brace != NULL;
		good = (words[n++] = word_with(w, brace, h->name)) != NULL;
	}
	if (good && !named)
		good = (words[n++] = strdup(h->name)) != NULL;
	for (const char *const *p = program; good && *p != NULL; p++)
		good = (words[n++] = strdup(*p)) != NULL;
	free(copy);
	while (!good && n > 0)
		free(words[--n]);
	if (!good) {
		free(words);
		return NULL;
	}
	return words;
}
