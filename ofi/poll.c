/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Poll sets: which of several completion queues and counters have something.
 */
#include <stdlib.h>

#include "provider.h"

struct poll_member {
	struct fid *fid;
	uint64_t seen; /* of a counter: what it and its errors were when they were last told */
};

struct poll_set {
	struct fid_poll fid;
	struct domain *domain;
	struct poll_member *members;
	int count;
};

static struct poll_member *
member_of(const struct poll_set *p, const struct fid *fid)
{
	for (int i = 0; i < p->count; i++) {
		if (p->members[i].fid == fid)
			return &p->members[i];
	}
	return NULL;
}

static atomic_int *
users_of(struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ      ? &((struct cq *)fid)->users
		: fid->fclass == FI_CLASS_CNTR ? &((struct cntr *)fid)->users
					       : NULL;
}

static int
poll_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct poll_set *p = (struct poll_set *)fid;
	int result = 0;

	if (flags != 0 || users_of(event_fid) == NULL)
		return -FI_EINVAL;
	domain_lock(p->domain);
	struct poll_member *m = member_of(p, event_fid) == NULL
		? realloc(p->members, (size_t)(p->count + 1) * sizeof(*m))
		: NULL;

	if (m != NULL) {
		p->members = m;
		m[p->count++] = (struct poll_member){.fid = event_fid};
		atomic_fetch_add(users_of(event_fid), 1);
	} else if (member_of(p, event_fid) == NULL) {
		result = -FI_ENOMEM;
	}
	domain_unlock(p->domain);
	return result;
}

static int
poll_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct poll_set *p = (struct poll_set *)fid;

	if (flags != 0)
		return -FI_EINVAL;
	domain_lock(p->domain);
	struct poll_member *m = member_of(p, event_fid);

	if (m != NULL) {
		atomic_fetch_sub(users_of(event_fid), 1);
		*m = p->members[--p->count];
	}
	domain_unlock(p->domain);
	return m != NULL ? 0 : -FI_EINVAL;
}

/* Make progress, then return whether there is something to tell: a queue has something to read, or
 * a counter has changed since it was told last. */
static bool
has_news(struct poll_member *m)
{
	if (m->fid->fclass == FI_CLASS_CQ)
		return cq_has_some((struct cq *)m->fid);
	uint64_t now = cntr_total((struct cntr *)m->fid);
	bool news = now != m->seen;

	m->seen = now;
	return news;
}

static int
poll_poll(struct fid_poll *fid, void **contexts, int count)
{
	struct poll_set *p = (struct poll_set *)fid;
	int n = 0;

	domain_lock(p->domain);
	for (int i = 0; i < p->count && n < count; i++) {
		if (has_news(&p->members[i]))
			contexts[n++] = p->members[i].fid->context;
	}
	domain_unlock(p->domain);
	return n;
}

static int
poll_close(struct fid *fid)
{
	struct poll_set *p = (struct poll_set *)fid;

	for (int i = 0; i < p->count; i++)
		atomic_fetch_sub(users_of(p->members[i].fid), 1);
	atomic_fetch_sub(&p->domain->users, 1);
	free(p->members);
	free(p);
	return 0;
}

static struct fi_ops poll_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = poll_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = poll_poll,
	.poll_add = poll_add,
	.poll_del = poll_del,
};

int
poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
	if (attr != NULL && attr->flags != 0)
		return -FI_EINVAL;
	struct poll_set *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -FI_ENOMEM;
	p->domain = (struct domain *)domain;
	p->fid.fid.fclass = FI_CLASS_POLL;
	p->fid.fid.ops = &poll_fid_ops;
	p->fid.ops = &poll_ops;
	atomic_fetch_add(&p->domain->users, 1);
	*out = &p->fid;
	return 0;
}
