/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the fault model's config from text, for the fault link and for the tools. Owns nothing;
 * called at start by the thread that opens links. It is separate from fault_model.c because it uses
 * libc and floating point, which the model must not. The grammar is in fault_model.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_model.h"

#define PART_MAX     96 /* longest key=value, with its NUL */
#define DEFAULT_SEED 1

struct fault_unit {
	const char *name;
	double factor;
};

/* The first unit of each table is that of the result. */
static const struct fault_unit probability_units[] = {
	{"ppm", 1},
	{"%", 1e4},
	{"", 1e6},
	{NULL, 0},
};
static const struct fault_unit time_units[] = {
	{"ns", 1},
	{"us", 1e3},
	{"ms", 1e6},
	{"s", 1e9},
	{NULL, 0},
};
static const struct fault_unit rate_units[] = {
	{"", 1},
	{"K", 1e3},
	{"M", 1e6},
	{"G", 1e9},
	{"T", 1e12},
	{NULL, 0},
};
static const struct fault_unit size_units[] = {
	{"", 1},
	{"K", 1024},
	{"M", 1024.0 * 1024},
	{"G", 1024.0 * 1024 * 1024},
	{NULL, 0},
};
static const struct fault_unit count_units[] = {
	{"", 1},
	{NULL, 0},
};

/*
 * Parse a decimal number with one of the units; after scaling it must be in low..high. 0 needs no
 * unit. A value other than 0 must not round to 0, because a fault that is asked for must not
 * silently be none. Returns 0 or -1.
 */
static int
parse_number(const char *text, const struct fault_unit *units, uint64_t low, uint64_t high,
	uint64_t *value)
{
	double number;
	char *end;

	if (strspn(text, "0123456789.") == 0 || text[strspn(text, "0")] == 'x')
		return -1;
	number = strtod(text, &end);
	if (end == text)
		return -1;
	if (!(number == 0 && *end == '\0')) {
		while (units->name != NULL && strcmp(units->name, end) != 0)
			units++;
		if (units->name == NULL)
			return -1;
		number *= units->factor;
	}
	if (number > (double)high || (number != 0 && number < 0.5))
		return -1;
	*value = (uint64_t)(number + 0.5);
	return *value < low || *value > high ? -1 : 0;
}

static int
parse_probability(const char *text, uint32_t *ppm)
{
	uint64_t value;

	if (parse_number(text, probability_units, 0, FAULT_PPM, &value) != 0)
		return -1;
	*ppm = (uint32_t)value;
	return 0;
}

static int
parse_time(const char *text, uint64_t low, uint64_t high, uint64_t *ns)
{
	return parse_number(text, time_units, low, high, ns);
}

/* Cut text at the last `separator`. Returns what follows it, or NULL. */
static char *
fault_config_cut(char *text, char separator)
{
	char *at = strrchr(text, separator);

	if (at == NULL)
		return NULL;
	*at = '\0';
	return at + 1;
}

static int
parse_loss(struct fault_config *config, char *text)
{
	return parse_probability(text, &config->loss_ppm);
}

static int
parse_duplicate(struct fault_config *config, char *text)
{
	return parse_probability(text, &config->duplicate_ppm);
}

static int
parse_corrupt(struct fault_config *config, char *text)
{
	return parse_probability(text, &config->corrupt_ppm);
}

static int
parse_burst(struct fault_config *config, char *text)
{
	char *length = fault_config_cut(text, 'x');
	uint64_t frames;

	if (length == NULL || parse_number(length, count_units, 1, FAULT_BURST_MAX, &frames) != 0)
		return -1;
	config->burst_frames = (uint32_t)frames;
	return parse_probability(text, &config->burst_ppm);
}

static int
parse_reorder(struct fault_config *config, char *text)
{
	char *span = fault_config_cut(text, '+');

	config->reorder_ns = FAULT_REORDER_NS;
	if (span != NULL && parse_time(span, 1, FAULT_DELAY_MAX_NS, &config->reorder_ns) != 0)
		return -1;
	return parse_probability(text, &config->reorder_ppm);
}

static int
parse_delay(struct fault_config *config, char *text)
{
	return parse_time(text, 0, FAULT_DELAY_MAX_NS, &config->delay_ns);
}

static int
parse_jitter(struct fault_config *config, char *text)
{
	return parse_time(text, 0, FAULT_DELAY_MAX_NS, &config->jitter_ns);
}

static int
parse_rate(struct fault_config *config, char *text)
{
	return parse_number(text, rate_units, FAULT_RATE_MIN, FAULT_RATE_MAX, &config->rate_bps);
}

static int
parse_queue(struct fault_config *config, char *text)
{
	return parse_number(text, size_units, 1, FAULT_QUEUE_MAX, &config->queue_bytes);
}

static int
parse_blackout(struct fault_config *config, char *text)
{
	char *period = fault_config_cut(text, '/');

	if (period == NULL ||
		parse_time(period, 1, FAULT_BLACKOUT_MAX_NS, &config->blackout_period_ns) != 0)
		return -1;
	return parse_time(text, 0, config->blackout_period_ns, &config->blackout_ns);
}

static int
parse_seed(struct fault_config *config, char *text)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	config->seed = strtoull(text, &end, 0);
	return errno != 0 || *end != '\0' ? -1 : 0;
}

#define PROBABILITY "a probability such as 5%, 200ppm or 0.05, from 0 to 100%"
#define TIME        "a time from 0 to 4s with unit ns, us, ms or s"

static const struct fault_key {
	const char *name;
	int (*parse)(struct fault_config *config, char *text);
	const char *allowed;
} keys[] = {
	{"loss", parse_loss, PROBABILITY},
	{"burst", parse_burst, PROBABILITY " and x mean length 1..65535, such as 0.1%x8"},
	{"duplicate", parse_duplicate, PROBABILITY},
	{"reorder", parse_reorder, PROBABILITY ", then optionally + " TIME ", such as 5%+50us"},
	{"corrupt", parse_corrupt, PROBABILITY},
	{"delay", parse_delay, TIME},
	{"jitter", parse_jitter, TIME},
	{"rate", parse_rate, "bit/s from 1K to 1T, such as 1G"},
	{"queue", parse_queue, "bytes from 1 to 1G, such as 64K"},
	{"blackout", parse_blackout,
		"dark time / period, such as 100ms/1s; the period up to 3600s"},
	{"seed", parse_seed, "a whole number below 2^64"},
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

static int
unknown_key(const char *name, const char *value, char *error, size_t error_size)
{
	char known[128] = "";
	size_t i, used = 0;

	for (i = 0; i < KEYS; i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
			i == 0 ? "" : ", ", keys[i].name);
	snprintf(error, error_size, "fault: unknown key \"%s\" (value \"%s\"); allowed are %s",
		name, value, known);
	return -EINVAL;
}

/* Parse one key=value; `seen` has a bit for each key already read. */
static int
parse_part(struct fault_config *config, char *part, unsigned int *seen, char *error,
	size_t error_size)
{
	char value[PART_MAX] = ""; /* as written, since the parsers cut theirs */
	char *text = strchr(part, '=');
	size_t i;

	if (text != NULL) {
		*text++ = '\0';
		snprintf(value, sizeof(value), "%s", text);
	}
	for (i = 0; i < KEYS && strcmp(keys[i].name, part) != 0; i++)
		;
	if (i == KEYS)
		return unknown_key(part, value, error, error_size);
	if (*seen & 1u << i) {
		snprintf(error, error_size, "fault: %s=%s: the key is given twice; allowed is once",
			part, value);
		return -EINVAL;
	}
	*seen |= 1u << i;
	if (text == NULL || keys[i].parse(config, text) != 0) {
		snprintf(error, error_size, "fault: %s=%s: bad value; allowed is %s", part, value,
			keys[i].allowed);
		return -EINVAL;
	}
	return 0;
}

/* Copy the part at text[0..length) without the spaces around it. Returns 0, or -1 if it is too
 * long. */
static int
copy_part(char *part, const char *text, size_t length)
{
	while (length > 0 && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	while (length > 0 && isspace((unsigned char)text[length - 1]))
		length--;
	if (length >= PART_MAX)
		return -1;
	memcpy(part, text, length);
	part[length] = '\0';
	return 0;
}

int
fault_config_parse(struct fault_config *config, const char *text, char *error, size_t error_size)
{
	struct fault_config parsed = {.seed = DEFAULT_SEED};
	char part[PART_MAX];
	unsigned int seen = 0;
	size_t length;

	if (text[strspn(text, " \t")] == '\0') {
		*config = parsed;
		return 0;
	}
	for (;; text += length + 1) {
		length = strcspn(text, ",");
		if (copy_part(part, text, length) != 0) {
			snprintf(error, error_size,
				"fault: \"%.32s...\" is too long; allowed are "
				"%d characters for a key and its value",
				text, PART_MAX - 1);
			return -EINVAL;
		}
		if (parse_part(&parsed, part, &seen, error, error_size) != 0)
			return -EINVAL;
		if (text[length] == '\0')
			break;
	}
	if (parsed.queue_bytes != 0 && parsed.rate_bps == 0) {
		snprintf(error, error_size,
			"fault: queue=%llu: a queue needs a rate; allowed is "
			"queue together with rate, such as rate=1G,queue=64K",
			(unsigned long long)parsed.queue_bytes);
		return -EINVAL;
	}
	*config = parsed;
	return 0;
}
