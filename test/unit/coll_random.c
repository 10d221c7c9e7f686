/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See coll_random.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "coll_random.h"

const struct coll_params params = {
	.frame_payload = 1450,
	.frame_overhead = 88,
	.frame_least = 84,
	.message_head = 24,
};

uint64_t state_of_random = 1;

uint32_t
random_below(uint32_t n)
{
	state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state_of_random >> 33) % n;
}

struct topology *
random_tree(uint32_t hosts, uint32_t switches_max)
{
	static char text[65536];
	static const char *const rates[] = {"100M", "1G", "1G", "10G"};
	static const char *const times[] = {"1us", "5us", "50us", "1ms"};
	const uint32_t switches = 1 + random_below(switches_max);
	int at = 0;

	for (uint32_t i = 0; i < switches; i++)
		at += sprintf(text + at, "switch s%u buffer=64K\n", i);
	for (uint32_t i = 1; i < switches; i++)
		at += sprintf(text + at, "link s%u s%u bandwidth=%s latency=%s\n", i,
			random_below(i), rates[random_below(4)], times[random_below(4)]);
	for (uint32_t i = 0; i < hosts; i++)
		at += sprintf(text + at, "host h%u\nlink h%u s%u bandwidth=%s latency=%s\n", i, i,
			random_below(switches), rates[random_below(4)], times[random_below(2)]);
	return parsed(text);
}

struct topology *
random_overlay(uint32_t hosts)
{
	static char text[65536];
	const uint32_t switches = 1 + random_below(4), sites = 1 + random_below(4);
	int at = 0;

	for (uint32_t i = 0; i < switches; i++)
		at += sprintf(text + at, "switch s%u buffer=64K\n", i);
	for (uint32_t i = 1; i < switches; i++)
		at += sprintf(text + at, "link s%u s%u bandwidth=1G latency=50us\n", i,
			random_below(i));
	for (uint32_t i = 0; i < hosts; i++)
		at += sprintf(text + at, "host h%u\nlink h%u s%u bandwidth=1G latency=5us\n", i, i,
			random_below(switches));
	/* hosts of a site, which need not be at one switch, or only one of them with all others */
	for (uint32_t s = 0; s < sites; s++) {
		const bool star = random_below(2);

		for (uint32_t i = s; i < hosts; i += sites)
			at += !star      ? sprintf(text + at, i == s ? "talk h%u" : " h%u", i)
				: i == s ? 0
					 : sprintf(text + at, "talk h%u h%u\n", s, i);
		at += sprintf(text + at, "\n");
	}
	/* gateways: mostly enough of them */
	for (uint32_t s = 1; s < sites && s < hosts; s++) {
		if (random_below(16) != 0)
			at += sprintf(text + at, "talk h%u h%u\n", s, random_below(s));
	}
	for (uint32_t i = random_below(3); i > 0; i--)
		at += sprintf(text + at, "talk h%u h%u\n", random_below(hosts),
			random_below(hosts));
	return parsed(text);
}

void
without_times(struct coll_plan *p, uint64_t window, uint32_t grain)
{
	for (uint64_t i = 0; i < p->step_count; i++)
		p->steps[i].at_us = p->steps[i].lead_ns = p->steps[i].pace = 0;
	for (uint32_t r = 0; r < p->ranks; r++) {
		p->lists[r].send_pace = 0;
		p->lists[r].window = window;
		p->lists[r].grain = grain;
	}
}
