/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See embedded_members.h.
 */
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>

#include "embedded_members.h"

struct pmx_node *nodes[NODES];
struct pmx_context *ctx[ALL];
struct pmx_group *group[ALL];
pmx_request request[ALL];
int ended[ALL];
struct pmx_status said[ALL];
struct pmx_event event[ALL];
unsigned events[ALL];
unsigned takes_none = ALL;
uint8_t areas[ALL][AREA_BYTES];

int
members_eal(const char *program)
{
	char *eal[] = {(char *)(uintptr_t)program, "--no-huge", "--no-pci", "--no-shconf",
		"--no-telemetry", "-m", "256", "--log-level=*:error", NULL};

	return rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - 1, eal);
}

void
poll_all(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_poll(nodes[n]);
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (ctx[n] == NULL || nodes[n / CTXS] == NULL)
			continue;
		events[n] += n != takes_none && pmx_poll_event(ctx[n], &event[n]) == 1;
		if (request[n] == 0)
			continue;
		ended[n] = pmx_test(ctx[n], &request[n], &said[n]);
		ended[n] = ended[n] == 0 ? 1 : ended[n] == 1 ? 0 : ended[n];
	}
}

void
poll_some(void)
{
	for (unsigned i = 0; i < 1000; i++)
		poll_all();
}

struct pmx_addr
member(unsigned n)
{
	return (struct pmx_addr){(uint16_t)(n / CTXS), (uint16_t)(n % CTXS)};
}

bool
is_member(struct pmx_addr a, unsigned n)
{
	return a.node == member(n).node && a.context == member(n).context;
}

int
opens(unsigned n, uint32_t count, int64_t timeout_us)
{
	struct pmx_addr members[ALL];
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = NUMBER,
		.count = count,
		.members = members,
	};

	for (unsigned i = 0; i < count; i++)
		members[i] = member(i);
	ended[n] = 1;
	return pmx_group_open(ctx[n], &p, timeout_us, &group[n], &request[n]);
}

void
enters(unsigned n)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_barrier(group[n], &request[n]), 0);
}

void
asks(unsigned n, uint32_t lock, unsigned flags)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_lock(group[n], lock, flags, &request[n]), 0);
}

void
closes(unsigned n)
{
	pmx_group_close(group[n]);
	group[n] = NULL;
}

int
members_start(void **state)
{
	(void)state;
	memset(request, 0, sizeof(request));
	memset(events, 0, sizeof(events));
	memset(group, 0, sizeof(group));
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = group%u\n[link 0]\ndriver = loop\nport = group\n"
			"encap = none\nfault = loss=2%%,seed=%u\n[nodes]\n0 = auto\n1 = auto\n"
			"[proto]\nkeepalive_ms = 100\nrto_max_us = 20000\nretries = 10\n"
			"[limits]\ncontexts = 4\nmbufs = 8192\n"
			"groups = 2\ngroup_members = 6\ngroup_locks = 8\ntransfers = 8\n",
			n, n, n + 1);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
			print_error("%s\n", error);
			return -1;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (pmx_context_open(&ctx[n], nodes[n / CTXS], n % CTXS, NULL) != 0)
			return -1;
	}
	return 0;
}

int
members_stop(void **state)
{
	(void)state;
	/* closing a context polls its own node only, so the others hear of it here first */
	for (unsigned n = 0; n < ALL; n++) {
		if (group[n] != NULL)
			closes(n);
	}
	for (unsigned i = 0; i < 100; i++)
		poll_some();
	for (unsigned n = 0; n < ALL; n++) {
		if (ctx[n] != NULL)
			pmx_context_close(ctx[n]);
		ctx[n] = NULL;
	}
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return 0;
}

void
all_open(uint32_t count)
{
	for (unsigned n = count; n-- > 0;)
		assert_int_equal(opens(n, count, 30000000), 0);
	for (unsigned n = 0; n < count; n++) {
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
		assert_int_equal(pmx_group_rank(group[n]), n);
		assert_int_equal(pmx_group_size(group[n]), count);
	}
}

int
pushes(unsigned n, unsigned to, uint64_t key)
{
	static uint64_t local;
	const struct pmx_transfer t = {
		.peer = member(to),
		.flags = PMX_AREA,
		.key = key,
		.local = &local,
		.len = sizeof(local),
	};
	pmx_transfer_id id;
	int result;

	local++;
	UNTIL((result = pmx_push(ctx[n], &t, &id)) != -EAGAIN);
	assert_int_equal(result, 0);
	UNTIL((result = pmx_transfer_done(ctx[n], id)) != 0);
	return result;
}

struct pmx_group_set *
set_of(unsigned n, uint32_t count, const uint32_t *ranks)
{
	struct pmx_group_set *set = NULL;

	assert_int_equal(pmx_group_set_make(group[n], ranks, count, &set), 0);
	return set;
}

void
fill(uint8_t *bytes, unsigned salt)
{
	for (unsigned i = 0; i < AREA_BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256 + salt);
}
