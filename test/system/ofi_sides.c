/* SPDX-License-Identifier: BSD-3-Clause */
#include "ofi_sides.h"

struct fi_info *info;
struct fid_fabric *fabric;
struct fid_domain *domain;
struct side a, b;
uint8_t out[LONGEST], in[LONGEST];
bool locked; /* FI_THREAD_SAFE */
enum fi_progress progress;

void
must_be(const char *what, ssize_t result, ssize_t wanted)
{
	if (result != wanted)
		die("%s: %zd (%s), not %zd", what, result, fi_strerror((int)-result), wanted);
}

void
done(const char *name)
{
	printf("ok ofi_%s__%s\n",
		progress == FI_PROGRESS_AUTO ? "auto"
			: locked             ? "safe"
					     : "domain",
		name);
	fflush(stdout);
}

/* ------------------------------------------------------------------ endpoints */

void
side_open(struct side *s, enum fi_wait_obj wait, uint64_t bind_flags)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
	struct fi_av_attr av = {.type = FI_AV_MAP};
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
	size_t len = NAME;

	must_be("fi_cq_open", fi_cq_open(domain, &cq, &s->cq, NULL), 0);
	must_be("fi_av_open", fi_av_open(domain, &av, &s->av, NULL), 0);
	must_be("fi_cntr_open", fi_cntr_open(domain, &cntr, &s->sent, NULL), 0);
	must_be("fi_cntr_open", fi_cntr_open(domain, &cntr, &s->received, NULL), 0);
	must_be("fi_endpoint", fi_endpoint(domain, info, &s->ep, NULL), 0);
	must_be("bind", fi_ep_bind(s->ep, &s->av->fid, 0), 0);
	must_be("bind", fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV | bind_flags), 0);
	must_be("bind", fi_ep_bind(s->ep, &s->sent->fid, FI_SEND), 0);
	must_be("bind", fi_ep_bind(s->ep, &s->received->fid, FI_RECV), 0);
	must_be("fi_getname", fi_getname(&s->ep->fid, s->name, &len), -FI_EOPBADSTATE);
	must_be("fi_enable", fi_enable(s->ep), 0);
	must_be("fi_getname", fi_getname(&s->ep->fid, s->name, &len), 0);
	must_be("bytes of a name", (ssize_t)len, NAME);
}

void
side_close(struct side *s)
{
	must_be("close", fi_close(&s->ep->fid), 0);
	must_be("close", fi_close(&s->cq->fid), 0);
	must_be("close", fi_close(&s->av->fid), 0);
	must_be("close", fi_close(&s->sent->fid), 0);
	must_be("close", fi_close(&s->received->fid), 0);
}

void
introduce(struct side *to, const struct side *other)
{
	must_be("fi_av_insert", fi_av_insert(to->av, other->name, 1, &to->peer, 0, NULL), 1);
}

void
pair_open(enum fi_wait_obj wait, uint64_t bind_flags)
{
	side_open(&a, wait, bind_flags);
	side_open(&b, wait, bind_flags);
	introduce(&a, &b);
	introduce(&b, &a);
}

void
pair_close(void)
{
	side_close(&a);
	side_close(&b);
}

struct fi_cq_tagged_entry
next(struct side *s, fi_addr_t *source)
{
	struct fi_cq_tagged_entry e;
	int64_t end = now_us() + 30000000;
	ssize_t n;

	while ((n = fi_cq_readfrom(s->cq, &e, 1, source)) == -FI_EAGAIN) {
		/* reads nothing: makes progress */
		fi_cq_read(s == &a ? b.cq : a.cq, NULL, 0);
		if (now_us() > end)
			die("nothing ended within 30 s");
	}
	must_be("fi_cq_read", n, 1);
	return e;
}

struct fi_cq_err_entry
next_error(struct side *s)
{
	struct fi_cq_tagged_entry unused;
	struct fi_cq_err_entry e = {.err = 0};
	int64_t end = now_us() + 30000000;
	ssize_t n;

	while ((n = fi_cq_read(s->cq, &unused, 1)) == -FI_EAGAIN) {
		fi_cq_read(s == &a ? b.cq : a.cq, NULL, 0);
		if (now_us() > end)
			die("nothing failed within 30 s");
	}
	must_be("fi_cq_read", n, -FI_EAVAIL);
	must_be("fi_cq_readerr", fi_cq_readerr(s->cq, &e, 0), 1);
	return e;
}

void
is_quiet(struct side *s)
{
	struct fi_cq_tagged_entry unused;

	for (unsigned i = 0; i < 1000; i++)
		must_be("an empty queue", fi_cq_read(s->cq, &unused, 1), -FI_EAGAIN);
}

void
fill(uint8_t *to, size_t len, uint32_t number)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

void
holds(const uint8_t *have, size_t len, uint32_t number)
{
	for (size_t i = 0; i < len; i++) {
		if (have[i] != (uint8_t)(number * 31 + i * 7 + (i >> 8)))
			die("message %u: byte %zu of %zu is wrong", number, i, len);
	}
}

/* ------------------------------------------------------------------ domain */

void
find(enum fi_threading threading, uint64_t caps, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = caps;
	hints->domain_attr->mr_mode = mr_mode;
	hints->ep_attr->type = FI_EP_RDM;
	locked = threading == FI_THREAD_SAFE;
	hints->domain_attr->threading = threading;
	hints->domain_attr->data_progress = progress;
	hints->fabric_attr->prov_name = strdup("pmx");
	must_be("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	must_be("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	must_be("fi_domain", fi_domain(fabric, info, &domain, NULL), 0);
}

void
leave(void)
{
	must_be("close", fi_close(&domain->fid), 0);
	must_be("close", fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}
