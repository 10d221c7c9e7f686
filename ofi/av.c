/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address vectors: numbers for the endpoints that a process speaks to, and the numbers of those
 * that it hears from.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define STRING_FORMAT "fi_pmx://%" PRIu16 ":%" PRIu16 ":%" PRIu32

int
address_print(const struct address *a, char *buf, size_t len)
{
	return snprintf(buf, len, STRING_FORMAT, a->node, a->context, a->incarnation);
}

bool
address_scan(struct address *a, const char *text)
{
	char end;

	*a = (struct address){.zero = 0};
	return sscanf(text, "fi_pmx://%" SCNu16 ":%" SCNu16 ":%" SCNu32 "%c", &a->node, &a->context,
		       &a->incarnation, &end) == 3 &&
		address_ok(a);
}

bool
address_ok(const struct address *a)
{
	return a->context < OFI_CONTEXTS && a->incarnation != OFI_UNNAMED &&
		a->incarnation <= OFI_INCARNATION_MAX && a->zero == 0;
}

int
address_find(struct address *a, const char *instance, const char *node, const char *service)
{
	char *end = "";
	unsigned long number = service != NULL ? strtoul(service, &end, 10) : 0;

	if (node != NULL && address_scan(a, node))
		return 0;
	/* port numbers that programs have by default are more than there are contexts */
	*a = (struct address){OFI_THIS_NODE, number % OFI_CONTEXTS, 0, 0};
	if (*end != 0 || number > UINT16_MAX || (service != NULL && *service == 0)) {
		OFI_WARN(CORE, "service %s: must be a number, 0..65535\n", service);
		return -FI_EINVAL;
	}
	int result = node != NULL ? pmx_node_resolve(instance, node, &a->node) : 0;

	if (result != 0)
		OFI_WARN(CORE, "%s: no node of the primary %s has that number or address: %s\n",
			node, instance, pmx_strerror(result));
	return result != 0 ? -FI_ENODATA : 0;
}

/* ------------------------------------------------------------------ by source */

static inline uint32_t
source_place(const struct av *av, struct pmx_addr to)
{
	return (((uint32_t)to.node << 16 | to.context) * 2654435769u >> 7) & av->sources_mask;
}

/* Return the place of that endpoint in the table by_source, or the empty place where it would
 * be. */
static uint32_t
source_find(const struct av *av, struct pmx_addr to)
{
	uint32_t at = source_place(av, to);

	while (av->by_source[at] != 0) {
		const struct pmx_addr *have = &av->entries[av->by_source[at] - 1].to;

		if (have->node == to.node && have->context == to.context)
			break;
		at = (at + 1) & av->sources_mask;
	}
	return at;
}

static void
source_put(struct av *av, uint32_t number)
{
	uint32_t at = source_find(av, av->entries[number].to);

	av->sources += av->by_source[at] == 0;
	av->by_source[at] = number + 1;
}

/* Remove the entry from the table by_source, and move up the entries that are at later places
 * because of it. */
static void
source_remove(struct av *av, uint32_t number)
{
	uint32_t at = source_find(av, av->entries[number].to), next;

	if (av->by_source[at] != number + 1)
		return; /* the same endpoint was inserted again */
	/* the same endpoint may have been inserted before */
	for (uint32_t other = av->count; other-- > 0;) {
		const struct av_entry *e = &av->entries[other];

		if (other != number && e->comm != 0 && e->to.node == av->entries[number].to.node &&
			e->to.context == av->entries[number].to.context) {
			av->by_source[at] = other + 1;
			return;
		}
	}
	av->by_source[at] = 0;
	av->sources--;
	for (at = (at + 1) & av->sources_mask; (next = av->by_source[at]) != 0;
		at = (at + 1) & av->sources_mask) {
		av->by_source[at] = 0;
		av->sources--;
		source_put(av, next - 1);
	}
}

fi_addr_t
av_find(const struct av *av, struct pmx_addr source)
{
	uint32_t number = av->by_source[source_find(av, source)];

	return number != 0 ? number - 1 : FI_ADDR_NOTAVAIL;
}

void
av_name(struct av *av, struct pmx_addr peer, uint32_t incarnation)
{
	for (uint32_t i = 0; i < av->count; i++) {
		struct av_entry *e = &av->entries[i];

		if (e->comm == COMM_UNNAMED && same_peer(e->to, peer))
			e->comm = comm_of(incarnation, COMM_UNTAGGED);
	}
}

void
av_unname(struct av *av, struct pmx_addr peer, uint32_t incarnation)
{
	for (uint32_t i = 0; i < av->count; i++) {
		struct av_entry *e = &av->entries[i];

		if (e->by_number && e->comm == comm_of(incarnation, COMM_UNTAGGED) &&
			same_peer(e->to, peer))
			e->comm = COMM_UNNAMED;
	}
}

/* Make room for one more entry. Return 0 or -FI_ENOMEM. */
static int
av_grow(struct av *av)
{
	if (av->count == av->room) {
		uint32_t room = av->room * 2;
		struct av_entry *entries = realloc(av->entries, room * sizeof(*entries));

		if (entries == NULL)
			return -FI_ENOMEM;
		av->entries = entries;
		av->room = room;
	}
	if ((av->sources + 1) * 2 <= av->sources_mask)
		return 0;
	uint32_t places = (av->sources_mask + 1) * 2;
	uint32_t *table = calloc(places, sizeof(*table)), *old = av->by_source;

	if (table == NULL)
		return -FI_ENOMEM;
	av->by_source = table;
	uint32_t old_mask = av->sources_mask;

	av->sources_mask = places - 1;
	av->sources = 0;
	for (uint32_t i = 0; i <= old_mask; i++) {
		if (old[i] != 0)
			source_put(av, old[i] - 1);
	}
	free(old);
	return 0;
}

/* ------------------------------------------------------------------ calls */

static int
insert_one(struct av *av, const struct address *a, fi_addr_t *number)
{
	int result = address_ok(a) ? av_grow(av) : -FI_EINVAL;

	if (result != 0)
		return result;
	av->entries[av->count] = (struct av_entry){
		.to = {a->node != OFI_THIS_NODE ? a->node : pmx_node_number(av->domain->node),
			a->context},
		.by_number = a->incarnation == 0,
		.comm = a->incarnation != 0 ? comm_of(a->incarnation, COMM_UNTAGGED) : COMM_UNNAMED,
	};
	source_put(av, av->count);
	*number = av->count++;
	return 0;
}

static int
av_insert(struct fid_av *fid, const void *addresses, size_t count, fi_addr_t *numbers,
	uint64_t flags, void *context)
{
	struct av *av = (struct av *)fid;
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	int inserted = 0;

	if (flags & ~(FI_SYNC_ERR | FI_MORE) || (errors == NULL && flags & FI_SYNC_ERR))
		return -FI_EINVAL;
	domain_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		fi_addr_t number = FI_ADDR_NOTAVAIL;
		struct address a;

		memcpy(&a, (const struct address *)addresses + i, sizeof(a));
		int result = insert_one(av, &a, &number);

		inserted += result == 0;
		if (numbers != NULL)
			numbers[i] = number;
		if (errors != NULL)
			errors[i] = -result;
		if (result != 0)
			OFI_WARN(AV, "address %zu (node %u, context %u): %s\n", i, a.node,
				a.context,
				result == -FI_EINVAL ? "it is none of fi_getname()"
						     : "out of memory");
	}
	domain_unlock(av->domain);
	return inserted;
}

static int
av_insert_service(struct fid_av *fid, const char *node, const char *service, fi_addr_t *number,
	uint64_t flags, void *context)
{
	struct av *av = (struct av *)fid;
	struct address a;
	int result = address_find(&a, av->domain->instance, node, service);

	if (result == 0)
		return av_insert(fid, &a, 1, number, flags, context);
	if (number != NULL)
		*number = FI_ADDR_NOTAVAIL;
	if (flags & FI_SYNC_ERR && context != NULL)
		*(int *)context = -result;
	return result;
}

static int
av_insert_symmetric(struct fid_av *fid, const char *node, size_t nodes, const char *service,
	size_t services, fi_addr_t *numbers, uint64_t flags, void *context)
{
	struct av *av = (struct av *)fid;
	struct address first;
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	int result = address_find(&first, av->domain->instance, node, service), inserted = 0;

	if (result != 0)
		return result;
	for (size_t i = 0; i < nodes * services; i++) {
		struct address a = first;
		uint32_t at_node = first.node != OFI_THIS_NODE ? first.node
							       : pmx_node_number(av->domain->node);

		a.node = (uint16_t)(at_node + i / services);
		a.context = (uint16_t)(first.context + i % services);
		result = av_insert(fid, &a, 1, numbers != NULL ? numbers + i : NULL, flags,
			errors != NULL ? errors + i : NULL);
		if (result < 0)
			return result;
		inserted += result;
	}
	return inserted;
}

static int
av_remove(struct fid_av *fid, fi_addr_t *numbers, size_t count, uint64_t flags)
{
	struct av *av = (struct av *)fid;
	int result = flags == 0 ? 0 : -FI_EINVAL;

	domain_lock(av->domain);
	for (size_t i = 0; i < count && result == 0; i++) {
		if (av_at(av, numbers[i]) == NULL) {
			result = -FI_EINVAL;
			break;
		}
		source_remove(av, (uint32_t)numbers[i]);
		av->entries[numbers[i]].comm = 0;
	}
	domain_unlock(av->domain);
	return result;
}

static int
av_lookup(struct fid_av *fid, fi_addr_t number, void *to, size_t *len)
{
	struct av *av = (struct av *)fid;
	size_t room = *len;

	domain_lock(av->domain);
	const struct av_entry *e = av_at(av, number);
	const struct address a = {
		.node = e != NULL ? e->to.node : 0,
		.context = e != NULL ? e->to.context : 0,
		.incarnation = e != NULL && !comm_is_unnamed(e->comm) ? e->comm >> 2 : 0,
	};

	domain_unlock(av->domain);
	if (e == NULL)
		return -FI_EINVAL;
	memcpy(to, &a, room < sizeof(a) ? room : sizeof(a));
	*len = sizeof(a);
	return 0;
}

static const char *
av_print(struct fid_av *fid, const void *address, char *buf, size_t *len)
{
	struct address a;

	(void)fid;
	memcpy(&a, address, sizeof(a));
	int n = address_print(&a, buf, *len);

	*len = (size_t)n + 1;
	return buf;
}

static int
av_close(struct fid *fid)
{
	struct av *av = (struct av *)fid;

	if (atomic_load(&av->users) != 0)
		return -FI_EBUSY;
	atomic_fetch_sub(&av->domain->users, 1);
	free(av->entries);
	free(av->by_source);
	free(av);
	return 0;
}

/* Accept an event queue, and refuse anything else. The queue gets no events, since insertion ends
 * within its call. */
static int
av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insert_service,
	.insertsym = av_insert_symmetric,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_print,
};

int
av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	enum { ENTRIES = 64, SOURCES = 256 };

	if (attr == NULL || attr->type > FI_AV_TABLE || attr->rx_ctx_bits != 0)
		return -FI_EINVAL;
	/* shared between processes, or with an event for what ends within its call */
	if (attr->name != NULL || attr->flags & ~FI_SYMMETRIC)
		return -FI_ENOSYS;
	struct av *av = calloc(1, sizeof(*av));

	if (av != NULL) {
		av->entries = calloc(ENTRIES, sizeof(*av->entries));
		av->by_source = calloc(SOURCES, sizeof(*av->by_source));
	}
	if (av == NULL || av->entries == NULL || av->by_source == NULL) {
		if (av != NULL) {
			free(av->entries);
			free(av->by_source);
		}
		free(av);
		return -FI_ENOMEM;
	}
	av->room = ENTRIES;
	av->sources_mask = SOURCES - 1;
	av->domain = (struct domain *)domain;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	atomic_fetch_add(&av->domain->users, 1);
	*out = &av->fid;
	return 0;
}
