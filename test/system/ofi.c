/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The libfabric provider, by libfabric's own calls: two endpoints of one process. Prints "ok NAME"
 * for each case. Usage:
 *   ofi all       every case
 *   ofi orphan    says "waiting" with operations outstanding, and expects that the primary ends
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "ofi_sides.h"

/* ------------------------------------------------------------------ cases */

/* Every length, expected and unexpected, tagged and not. */
static void
lengths(void)
{
	static const size_t lens[] = {0, 1, 8, 40, 48, 49, 64, 1000, 1472, 4096, 4097, 16384, 16385,
		65536, 65537, LONGEST};
	fi_addr_t source;

	for (unsigned way = 0; way < 4; way++) {
		bool tagged = way & 1, early = way & 2;

		for (unsigned i = 0; i < COUNT_OF(lens); i++) {
			size_t len = lens[i];
			uint64_t tag = 0xABCD000000000000 + i;

			fill(out, len, i);
			memset(in, 0, len);
			for (unsigned step = 0; step < 2; step++) {
				if ((step == 0) == early && tagged)
					must_be("fi_trecv",
						fi_trecv(b.ep, in, LONGEST, NULL, FI_ADDR_UNSPEC,
							tag, 0, &b),
						0);
				else if ((step == 0) == early)
					must_be("fi_recv",
						fi_recv(b.ep, in, LONGEST, NULL, FI_ADDR_UNSPEC,
							&b),
						0);
				else if (tagged)
					must_be("fi_tsend",
						fi_tsend(a.ep, out, len, NULL, a.peer, tag, &a), 0);
				else
					must_be("fi_send",
						fi_send(a.ep, out, len, NULL, a.peer, &a), 0);
			}
			struct fi_cq_tagged_entry r = next(&b, &source), s = next(&a, NULL);

			holds(in, len, i);
			if (r.op_context != &b || r.len != len || r.buf != in || source != b.peer ||
				r.flags != (FI_RECV | (tagged ? FI_TAGGED : FI_MSG)) ||
				(tagged && r.tag != tag))
				die("%zu bytes: a wrong completion of the receive", len);
			if (s.op_context != &a ||
				s.flags != (FI_SEND | (tagged ? FI_TAGGED : FI_MSG)))
				die("%zu bytes: a wrong completion of the send", len);
		}
	}
	done("every_length");
}

/* A receive takes what its tag, mask and source say, and tagged and untagged do not mix. */
static void
matching(void)
{
	struct fi_cq_tagged_entry e;
	uint64_t bytes[4] = {0}, value;

	for (value = 1; value <= 3; value++)
		must_be("fi_tinject", fi_tinject(a.ep, &value, 8, a.peer, value << 32 | 5), 0);
	value = 4;
	must_be("fi_inject", fi_inject(a.ep, &value, 8, a.peer), 0);
	must_be("fi_trecv", fi_trecv(b.ep, &bytes[0], 8, NULL, b.peer, 3ull << 32 | 5, 0, NULL), 0);
	must_be("fi_trecv", fi_trecv(b.ep, &bytes[1], 8, NULL, b.peer, 5, ~0ull << 32, NULL), 0);
	must_be("fi_recv", fi_recv(b.ep, &bytes[3], 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
	must_be("fi_trecv", fi_trecv(b.ep, &bytes[2], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		e = next(&b, NULL);
	if (bytes[0] != 3 || bytes[1] != 1 || bytes[2] != 2 || bytes[3] != 4)
		die("received %lu %lu %lu %lu, tag %lx", bytes[0], bytes[1], bytes[2], bytes[3],
			e.tag);
	is_quiet(&a);
	done("tags_and_sources");
}

/* Peeks until the message has come. */
static struct fi_cq_tagged_entry
found_by(const struct fi_msg_tagged *m, uint64_t flags)
{
	int64_t end = now_us() + 30000000;
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	ssize_t n;

	do {
		must_be("a peek", fi_trecvmsg(b.ep, m, flags), 0);
		n = fi_cq_read(b.cq, &e, 1);
		if (n == 1)
			return e;
		must_be("a peek", n, -FI_EAVAIL);
		must_be("fi_cq_readerr", fi_cq_readerr(b.cq, &error, 0), 1);
	} while (error.err == FI_ENOMSG && now_us() < end);
	die("a peek: error %d", error.err);
}

static void
peeks(void)
{
	const struct iovec iov = {in, LONGEST};
	struct fi_msg_tagged m = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.tag = 7,
		.context = &b.contexts[0],
	};
	struct fi_cq_err_entry none;
	struct fi_cq_tagged_entry e;

	must_be("a peek", fi_trecvmsg(b.ep, &m, FI_PEEK), 0);
	none = next_error(&b);
	if (none.err != FI_ENOMSG || none.op_context != &b.contexts[0])
		die("a peek in vain: error %d", none.err);
	for (unsigned len = 100; len <= 100000; len *= 1000) {
		fill(out, len, len);
		for (unsigned i = 0; i < 3; i++)
			must_be("fi_tsend", fi_tsend(a.ep, out, len, NULL, a.peer, 7, &a), 0);
		e = found_by(&m, FI_PEEK);
		if (e.len != len || e.tag != 7 || e.op_context != &b.contexts[0])
			die("a peek found %zu bytes of tag %lu", e.len, e.tag);
		/* one is discarded at once, one claimed and received, one claimed and discarded */
		found_by(&m, FI_PEEK | FI_DISCARD);
		found_by(&m, FI_PEEK | FI_CLAIM);
		memset(in, 0, len);
		must_be("claim", fi_trecvmsg(b.ep, &m, FI_CLAIM), 0);
		e = next(&b, NULL);
		holds(in, len, len);
		if (e.len != len || e.op_context != &b.contexts[0])
			die("a claimed message has %zu bytes", e.len);
		found_by(&m, FI_PEEK | FI_CLAIM);
		must_be("discard", fi_trecvmsg(b.ep, &m, FI_CLAIM | FI_DISCARD), 0);
		next(&b, NULL);
		for (unsigned i = 0; i < 3; i++)
			next(&a, NULL);
	}
	is_quiet(&b);
	done("peek_claim_discard");
}

static void
cancels(void)
{
	struct fi_cq_err_entry e;

	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &b.contexts[0]), 0);
	must_be("fi_trecv", fi_trecv(b.ep, in + 8, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &b.contexts[1]),
		0);
	must_be("fi_cancel", fi_cancel(&b.ep->fid, &b.contexts[0]), 0);
	e = next_error(&b);
	if (e.err != FI_ECANCELED || e.op_context != &b.contexts[0])
		die("cancelled: error %d", e.err);
	must_be("fi_tinject", fi_tinject(a.ep, "eightby", 8, a.peer, 1), 0);
	if (next(&b, NULL).op_context != &b.contexts[1])
		die("another receive than the second took the message");
	must_be("nothing to cancel", fi_cancel(&b.ep->fid, &b.contexts[1]), -FI_ENOENT);
	is_quiet(&b);
	done("cancel");
}

static void
truncation(void)
{
	for (unsigned len = 50; len <= 500000; len *= 100) {
		struct fi_cq_err_entry e;

		fill(out, len, len);
		must_be("fi_trecv", fi_trecv(b.ep, in, len - 10, NULL, FI_ADDR_UNSPEC, 1, 0, &b),
			0);
		must_be("fi_tsend", fi_tsend(a.ep, out, len, NULL, a.peer, 1, &a), 0);
		e = next_error(&b);
		if (e.err != FI_ETRUNC || e.len != len - 10 || e.olen != 10 || e.op_context != &b)
			die("%u bytes: error %d, %zu bytes, %zu beyond", len, e.err, e.len, e.olen);
		holds(in, len - 10, len);
		next(&a, NULL);
		must_be("fi_trecv", fi_trecv(b.ep, in, len, NULL, FI_ADDR_UNSPEC, 2, 0, &b), 0);
		must_be("fi_tsend", fi_tsend(a.ep, out, len, NULL, a.peer, 2, &a), 0);
		next(&b, NULL);
		next(&a, NULL);
	}
	done("truncation");
}

/* Eight pieces on both sides, of unlike lengths. */
static void
pieces(void)
{
	for (unsigned size = 10; size <= 50000; size *= 10) {
		struct iovec from[8], to[8];
		size_t at = 0;

		for (unsigned i = 0; i < 8; i++) {
			from[i] = (struct iovec){out + at, size + i};
			at += size + i;
		}
		fill(out, at, size);
		memset(in, 0, at);
		for (unsigned i = 0; i < 8; i++)
			to[i] = (struct iovec){in + i * (at / 8),
				i < 7 ? at / 8 : at - 7 * (at / 8)};
		must_be("fi_trecvv", fi_trecvv(b.ep, to, NULL, 8, FI_ADDR_UNSPEC, size, 0, NULL),
			0);
		must_be("fi_tsendv", fi_tsendv(a.ep, from, NULL, 8, a.peer, size, NULL), 0);
		/* the arrays are the caller's again */
		memset(from, 0, sizeof(from));
		memset(to, 0, sizeof(to));
		if (next(&b, NULL).len != at)
			die("%zu bytes in pieces: another length", at);
		next(&a, NULL);
		holds(in, at, size);
		must_be("nine pieces", fi_tsendv(a.ep, from, NULL, 9, a.peer, 1, NULL), -FI_EINVAL);
	}
	done("pieces");
}

/* Far more than there are buffers and requests, before any receive: nothing is refused. */
static void
crowd(void)
{
	enum { SHORT = 30000, LONG = 500, LEN = 70000 };
	static uint64_t got[SHORT];
	static uint8_t bulk[2][LEN];
	unsigned left = SHORT + 2 * LONG;
	struct fi_cq_tagged_entry e;

	for (uint64_t i = 0; i < SHORT; i++) {
		uint64_t value = i * 3;

		must_be("fi_tinject", fi_tinject(a.ep, &value, 8, a.peer, i), 0);
		if (i % (SHORT / LONG) != 0)
			continue;
		/* to each other */
		must_be("fi_tsend", fi_tsend(a.ep, bulk[0], LEN, NULL, a.peer, 1ull << 40, NULL),
			0);
		must_be("fi_tsend", fi_tsend(b.ep, bulk[1], LEN, NULL, b.peer, 1ull << 40, NULL),
			0);
	}
	for (unsigned i = 0; i < LONG; i++) {
		must_be("fi_trecv",
			fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1ull << 40, 0, NULL), 0);
		must_be("fi_trecv",
			fi_trecv(b.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1ull << 40, 0, NULL), 0);
	}
	for (uint64_t i = 0; i < SHORT; i++)
		must_be("fi_trecv", fi_trecv(b.ep, &got[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, NULL),
			0);
	int64_t end = now_us() + 60000000;

	for (unsigned sends = 2 * LONG; left + sends > 0 && now_us() < end;) {
		for (unsigned i = 0; i < 2; i++) {
			if (fi_cq_read(i ? a.cq : b.cq, &e, 1) != 1)
				continue;
			if (e.flags & FI_SEND)
				sends--;
			else
				left--;
		}
	}
	if (left != 0)
		die("%u receives did not end", left);
	for (uint64_t i = 0; i < SHORT; i++) {
		if (got[i] != i * 3)
			die("message %lu has %lu", i, got[i]);
	}
	done("posting_never_fails");
}

/* More receives than there are requests for, before what is to be answered is sent. */
static void
many_receives(void)
{
	enum { MANY = 6000 };
	static uint64_t got[2][MANY];
	struct side *sides[2] = {&a, &b};

	for (unsigned i = 0; i < MANY; i++) {
		for (unsigned k = 0; k < 2; k++)
			must_be("fi_trecv",
				fi_trecv(sides[k]->ep, &got[k][i], 8, NULL, FI_ADDR_UNSPEC, i, 0,
					NULL),
				0);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		for (unsigned k = 0; k < 2; k++) {
			uint64_t value = i * 5 + k;

			must_be("fi_tinjectdata",
				fi_tinjectdata(sides[k]->ep, &value, 8, i, sides[k]->peer, i), 0);
		}
	}
	for (unsigned i = 0; i < MANY; i++) {
		next(&a, NULL);
		next(&b, NULL);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		if (got[0][i] != i * 5 + 1 || got[1][i] != i * 5)
			die("message %lu has %lu and %lu", i, got[0][i], got[1][i]);
	}
	done("receives_leave_room");
}

/* Completion data, by every call that has some; peeks see it. */
static void
data(void)
{
	const struct iovec iov = {out, 100000};
	const struct fi_msg_tagged tagged = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = a.peer,
		.tag = 4,
		.data = 0xFEDCBA9876543210,
	};
	const struct fi_msg plain = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .data = 99};
	const struct fi_msg_tagged peek = {
		.addr = FI_ADDR_UNSPEC,
		.tag = 4,
		.context = &b.contexts[0],
		.msg_iov = &iov,
	};
	struct fi_cq_tagged_entry e;

	must_be("fi_tsenddata", fi_tsenddata(a.ep, out, 8, NULL, 1ull << 63, a.peer, 1, NULL), 0);
	must_be("fi_tinjectdata", fi_tinjectdata(a.ep, out, 0, 2, a.peer, 2), 0);
	must_be("fi_senddata", fi_senddata(a.ep, out, 70000, NULL, 3, a.peer, NULL), 0);
	must_be("fi_injectdata", fi_injectdata(a.ep, out, 4096, 0, a.peer), 0);
	must_be("fi_tsendmsg", fi_tsendmsg(a.ep, &tagged, FI_REMOTE_CQ_DATA), 0);
	must_be("fi_sendmsg", fi_sendmsg(a.ep, &plain, FI_REMOTE_CQ_DATA), 0);
	must_be("fi_tsendmsg", fi_tsendmsg(a.ep, &tagged, 0), 0);
	for (unsigned i = 0; i < 7; i++) {
		static const uint64_t wanted[] = {1ull << 63, 2, 3, 0, 0xFEDCBA9876543210, 99, 0};
		bool is_plain = i == 2 || i == 3 || i == 5;

		if (i == 4) {
			e = found_by(&peek, FI_PEEK);
			if (e.data != wanted[4] || !(e.flags & FI_REMOTE_CQ_DATA) ||
				e.len != 100000)
				die("a peek: data %lx, flags %lx, %zu bytes", e.data, e.flags,
					e.len);
		}
		if (is_plain)
			must_be("fi_recv", fi_recv(b.ep, in, LONGEST, NULL, FI_ADDR_UNSPEC, NULL),
				0);
		else
			must_be("fi_trecv",
				fi_trecv(b.ep, in, LONGEST, NULL, FI_ADDR_UNSPEC, i < 4 ? i + 1 : 4,
					0, NULL),
				0);
		e = next(&b, NULL);
		if (e.data != wanted[i] || !(e.flags & FI_REMOTE_CQ_DATA) != (i == 6))
			die("message %u: data %lx, flags %lx", i, e.data, e.flags);
	}
	for (unsigned i = 0; i < 5; i++)
		next(&a, NULL);
	is_quiet(&a);
	done("completion_data");
}

/* More long messages than can be offered, before any receive: they hold up none that comes after
 * them, and are all that they would be otherwise. */
static void
promises(void)
{
	enum { LONGS = 200, LEN = 70000 };
	static uint8_t bytes[LONGS][LEN];
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	uint64_t value = 4711;

	for (unsigned i = 0; i < LONGS; i++) {
		fill(bytes[i], LEN, i);
		if (i % 2)
			must_be("fi_tsend", fi_tsend(a.ep, bytes[i], LEN, NULL, a.peer, i, NULL),
				0);
		else
			must_be("fi_tsenddata",
				fi_tsenddata(a.ep, bytes[i], LEN, NULL, i * 7, a.peer, i, NULL), 0);
	}
	must_be("fi_tinject", fi_tinject(a.ep, &value, 8, a.peer, 5000), 0);
	must_be("fi_trecv", fi_trecv(b.ep, &value, 8, NULL, b.peer, 5000, 0, NULL), 0);
	next(&b, NULL);
	for (unsigned i = LONGS; i-- > 0;) {
		const struct fi_msg_tagged peek = {
			.addr = FI_ADDR_UNSPEC,
			.tag = i,
			.context = &b.contexts[0],
			.msg_iov = &(struct iovec){in, 1},
		};
		bool cut = i % 10 == 5;

		if (i % 10 == 3 || i % 10 == 4) {
			e = found_by(&peek, FI_PEEK);
			if (e.len != LEN || e.tag != i ||
				!(e.flags & FI_REMOTE_CQ_DATA) != (i % 2 != 0))
				die("a peek of %u: %zu bytes, tag %lu", i, e.len, e.tag);
			found_by(&peek, FI_PEEK | FI_DISCARD);
			continue;
		}
		must_be("fi_trecv", fi_trecv(b.ep, in, cut ? 1000 : LEN, NULL, b.peer, i, 0, &b),
			0);
		if (cut) {
			error = next_error(&b);
			if (error.err != FI_ETRUNC || error.olen != LEN - 1000 || error.tag != i)
				die("message %u cut short: error %d, %zu beyond", i, error.err,
					error.olen);
			continue;
		}
		e = next(&b, NULL);
		holds(in, LEN, i);
		if (e.len != LEN || e.tag != i || e.op_context != &b ||
			(i % 2 == 0 && (e.data != i * 7 || !(e.flags & FI_REMOTE_CQ_DATA))))
			die("message %u: tag %lu, data %lu", i, e.tag, e.data);
	}
	for (unsigned i = 0; i < LONGS; i++)
		next(&a, NULL);
	is_quiet(&a);
	is_quiet(&b);
	done("long_ones_hold_up_none");
}

/* One buffer takes many messages. */
static void
multi_receive(void)
{
	const struct iovec iov = {in, 1000};
	const struct fi_msg m = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &b.contexts[3],
	};
	size_t least = 150, at = 0;

	must_be("fi_setopt",
		fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			sizeof(least)),
		0);
	must_be("fi_recvmsg", fi_recvmsg(b.ep, &m, FI_MULTI_RECV), 0);
	for (unsigned i = 0; i < 9; i++) {
		fill(out, 100, i);
		must_be("fi_inject", fi_inject(a.ep, out, 100, a.peer), 0);
	}
	for (unsigned i = 0; i < 9; i++, at += 100) {
		struct fi_cq_tagged_entry e = next(&b, NULL);

		if (e.buf != in + at || e.len != 100 || e.op_context != &b.contexts[3] ||
			!(e.flags & FI_MULTI_RECV) != (i < 8))
			die("message %u: %zu bytes, flags %lx", i, e.len, e.flags);
		holds(in + at, 100, i);
	}
	is_quiet(&b);
	done("multi_receive");
}

static void
counters(void)
{
	uint64_t sent = fi_cntr_read(a.sent), received = fi_cntr_read(b.received), byte;

	for (unsigned i = 0; i < 10; i++) {
		must_be("fi_tinject", fi_tinject(a.ep, "x", 1, a.peer, 1), 0);
		must_be("fi_trecv", fi_trecv(b.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	}
	must_be("fi_cntr_wait", fi_cntr_wait(b.received, received + 10, 30000), 0);
	must_be("fi_cntr_wait", fi_cntr_wait(b.received, received + 11, 20), -FI_ETIMEDOUT);
	if (fi_cntr_read(a.sent) != sent + 10)
		die("%lu sends were counted", fi_cntr_read(a.sent) - sent);
	for (unsigned i = 0; i < 10; i++)
		next(&b, NULL);
	done("counters");
}

/* libfabric 2 has them still, and warns of them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void
poll_sets(void)
{
	struct fi_poll_attr attr = {.flags = 0};
	struct fid_poll *set;
	void *contexts[4];
	int64_t end = now_us() + 30000000;

	must_be("fi_poll_open", fi_poll_open(domain, &attr, &set), 0);
	must_be("fi_poll_add", fi_poll_add(set, &b.cq->fid, 0), 0);
	must_be("fi_poll_add", fi_poll_add(set, &b.received->fid, 0), 0);
	fi_poll(set, contexts, 4); /* what the counter has counted before */
	must_be("nothing", fi_poll(set, contexts, 4), 0);
	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_tinject", fi_tinject(a.ep, out, 8, a.peer, 1), 0);
	/* the counter is told once, and the queue until it is read */
	for (unsigned both = 0; both < 3; both += (unsigned)fi_poll(set, contexts, 4)) {
		if (now_us() > end)
			die("fi_poll does not tell of both");
	}
	must_be("fi_close", fi_close(&b.cq->fid), -FI_EBUSY);
	must_be("the queue, not read", fi_poll(set, contexts, 4), 1);
	next(&b, NULL);
	must_be("fi_poll_del", fi_poll_del(set, &b.received->fid, 0), 0);
	must_be("nothing", fi_poll(set, contexts, 4), 0);
	must_be("fi_close", fi_close(&set->fid), 0);
	done("poll_sets");
}
#pragma GCC diagnostic pop

static void
refusals(void)
{
	struct fid_mr *mr;

	struct fi_info *hints = fi_dupinfo(info), *found;
	fi_addr_t wrong[2] = {FI_ADDR_NOTAVAIL, 12345};
	uint8_t name[NAME] = {0xFF, 0xFF, 0xFF, 0xFF};

	must_be("no such address", fi_tsend(a.ep, out, 8, NULL, 12345, 1, NULL), -FI_EINVAL);
	must_be("too long to inject", fi_inject(a.ep, out, 4097, a.peer), -FI_EINVAL);
	must_be("a wrong name", fi_av_insert(a.av, name, 1, wrong, 0, NULL), 0);
	if (wrong[0] != FI_ADDR_NOTAVAIL)
		die("a wrong name has an address");
	must_be("a queue in use", fi_close(&a.cq->fid), -FI_EBUSY);
	must_be("a domain in use", fi_close(&domain->fid), -FI_EBUSY);
	must_be("local memory", fi_mr_reg(domain, in, 8, FI_RECV, 0, 0, 0, &mr, NULL), 0);
	must_be("fi_close", fi_close(&mr->fid), 0);
	must_be("a write without the capability", fi_write(a.ep, out, 8, NULL, a.peer, 0, 1, NULL),
		-FI_EOPNOTSUPP);
	hints->caps |= FI_COLLECTIVE;
	must_be("what is not there", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found),
		-FI_ENODATA);
	hints->caps = FI_TAGGED;
	hints->ep_attr->type = FI_EP_MSG;
	must_be("what is not there", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found),
		-FI_ENODATA);
	fi_freeinfo(hints);
	done("refusals");
}

/* With selective completion only what asks for it is reported, and errors. */
static void
selective(void)
{
	const struct iovec iov = {out, 8};
	const struct fi_msg_tagged m = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = a.peer,
		.tag = 1,
		.context = &a.contexts[1],
	};

	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_tsend", fi_tsend(a.ep, out, 8, NULL, a.peer, 1, &a.contexts[0]), 0);
	must_be("fi_cntr_wait", fi_cntr_wait(b.received, 1, 30000), 0);
	must_be("fi_trecv", fi_trecv(b.ep, in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_tsendmsg", fi_tsendmsg(a.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
	if (next(&a, NULL).op_context != &a.contexts[1])
		die("another send than the second reported");
	if (next_error(&b).err != FI_ETRUNC)
		die("an error was not reported");
	is_quiet(&a);
	is_quiet(&b);
	done("selective_completion");
}

static void
waits(void)
{
	struct fid *fids[1] = {&b.cq->fid};
	struct fi_cq_tagged_entry e;
	struct pollfd p = {.events = POLLIN};

	must_be("FI_GETWAIT", fi_control(&b.cq->fid, FI_GETWAIT, &p.fd), 0);
	must_be("fi_cq_sread", fi_cq_sread(b.cq, &e, 1, NULL, 30), -FI_EAGAIN);
	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_trywait", fi_trywait(fabric, fids, 1), 0);
	must_be("nothing to read", poll(&p, 1, 20), 0);
	must_be("fi_trywait", fi_trywait(fabric, fids, 1), 0);
	must_be("fi_tinject", fi_tinject(a.ep, out, 8, a.peer, 1), 0);
	must_be("readable", poll(&p, 1, 30000), 1);
	must_be("fi_cq_sread", fi_cq_sread(b.cq, &e, 1, NULL, 30000), 1);
	must_be("fi_cq_signal", fi_cq_signal(b.cq), 0);
	must_be("fi_cq_sread", fi_cq_sread(b.cq, &e, 1, NULL, -1), -FI_EAGAIN);
	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_tinject", fi_tinject(a.ep, out, 8, a.peer, 1), 0);
	for (int64_t end = now_us() + 30000000; fi_trywait(fabric, fids, 1) != -FI_EAGAIN;) {
		if (now_us() > end)
			die("fi_trywait does not see what has come");
	}
	must_be("fi_cq_read", fi_cq_read(b.cq, &e, 1), 1);
	done("waiting");
}

/* Check that what is sent to an endpoint that has ended does not reach the next one of its
 * number. */
static void
successors(void)
{
	uint8_t old[NAME];
	uint64_t got = 0, value = 1;
	fi_addr_t before = a.peer;

	memcpy(old, b.name, NAME);
	side_close(&b);
	side_open(&b, FI_WAIT_NONE, 0);
	/* the primary may not have done with the old one yet */
	for (unsigned tries = 0; memcmp(old, b.name, 4) != 0; tries++) {
		if (tries == 1000)
			die("the successor has another number");
		side_close(&b);
		poll(NULL, 0, 10);
		side_open(&b, FI_WAIT_NONE, 0);
	}
	if (memcmp(old, b.name, NAME) == 0)
		die("the successor has the same name");
	introduce(&a, &b);
	introduce(&b, &a);
	must_be("fi_trecv", fi_trecv(b.ep, &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	must_be("fi_tinject", fi_tinject(a.ep, &value, 8, before, 1), 0);
	is_quiet(&b);
	value = 2;
	must_be("fi_tinject", fi_tinject(a.ep, &value, 8, a.peer, 1), 0);
	next(&b, NULL);
	if (got != 2)
		die("the successor received what was its predecessor's");
	done("successors");
}

/* Return what fi_getinfo() says of that node and service, asked with the hints `like` and nothing
 * else. */
static struct fi_info *
named(const struct fi_info *like, const char *node, const char *service, uint64_t flags)
{
	struct fi_info *hints = fi_dupinfo(like), *found;

	must_be("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &found),
		0);
	fi_freeinfo(hints);
	return found;
}

/* Open b at the number that `any` is told, which nobody else gets then. */
static void
open_at_number(const struct fi_info *any)
{
	struct fid_ep *third;

	info = named(any, NULL, "9229", FI_SOURCE);
	side_open(&b, FI_WAIT_NONE, 0);
	if (b.name[2] != 9229 % 1024)
		die("it has context %u", b.name[2]);
	must_be("fi_endpoint", fi_endpoint(domain, info, &third, NULL), 0);
	must_be("bind", fi_ep_bind(third, &b.av->fid, 0), 0);
	must_be("bind", fi_ep_bind(third, &b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	must_be("the same number", fi_enable(third), -FI_EADDRINUSE);
	must_be("fi_close", fi_close(&third->fid), 0);
	fi_freeinfo(info);
}

/* Insert the addresses of nodes and services. Return that of nobody. */
static fi_addr_t
insert_services(void)
{
	fi_addr_t nobody, many[4];
	size_t len = NAME;
	uint8_t name[NAME];

	must_be("fi_av_insertsvc", fi_av_insertsvc(a.av, "127.0.0.1", "1001", &nobody, 0, NULL), 1);
	must_be("fi_av_insertsym", fi_av_insertsym(a.av, "0", 2, "13", 2, many, 0, NULL), 4);
	must_be("fi_av_lookup", fi_av_lookup(a.av, many[3], name, &len), 0);
	if (name[0] != 1 || name[2] != 14)
		die("the last one of two nodes and two services is %u:%u", name[0], name[2]);
	must_be("no number", fi_av_insertsvc(a.av, NULL, "http", many, 0, NULL), -FI_EINVAL);
	must_be("no node", fi_av_insertsvc(a.av, "192.0.2.1", "1", many, 0, NULL), -FI_ENODATA);
	return nobody;
}

/* Send many at once, of all lengths and kinds, which come in order; what is injected may change at
 * once, and what goes to nobody is in nobody's way. */
static void
send_by_number(fi_addr_t by_number, fi_addr_t nobody)
{
	uint64_t value, got = 0;

	must_be("fi_tsend", fi_tsend(a.ep, out, 8, NULL, nobody, 1, &a.contexts[1]), 0);
	for (value = 0; value < 20; value++)
		must_be("fi_tinject", fi_tinject(a.ep, &value, 8, by_number, 1), 0);
	fill(out, LONGEST, 1);
	must_be("fi_send", fi_send(a.ep, out, LONGEST, NULL, by_number, NULL), 0);
	must_be("fi_recv", fi_recv(b.ep, in, LONGEST, NULL, 0, NULL), 0);
	if (next_error(&a).op_context != &a.contexts[1])
		die("something else failed");
	for (unsigned sides = 0; sides < 2; sides++)
		next(sides ? &a : &b, NULL);
	holds(in, LONGEST, 1);
	for (value = 0; value < 20; value++) {
		must_be("fi_trecv", fi_trecv(b.ep, &got, 8, NULL, 0, 1, 0, NULL), 0);
		next(&b, NULL);
		if (got != value)
			die("%lu came instead of %lu", got, value);
	}
}

/* Endpoints at chosen numbers are reached by these numbers. */
static void
numbers(void)
{
	struct fi_info *any = info;
	fi_addr_t by_number, nobody;
	uint64_t value = 20, got = 0;
	size_t len = NAME;
	uint8_t name[NAME];
	char text[64];

	open_at_number(any);
	info = named(any, "localhost", "9229", 0);
	if (info->dest_addrlen != NAME)
		die("no address of the destination");
	side_open(&a, FI_WAIT_NONE, 0);
	introduce(&b, &a);
	must_be("fi_av_insert", fi_av_insert(a.av, info->dest_addr, 1, &by_number, 0, NULL), 1);
	nobody = insert_services();
	send_by_number(by_number, nobody);
	must_be("fi_av_lookup", fi_av_lookup(a.av, by_number, name, &len), 0);
	if (memcmp(name, b.name, NAME) != 0)
		die("the address has no name yet");
	/* the text of an address is an address */
	len = sizeof(text);
	fi_av_straddr(a.av, b.name, text, &len);
	must_be("fi_av_insertsvc", fi_av_insertsvc(a.av, text, NULL, &by_number, 0, NULL), 1);
	must_be("fi_tinject", fi_tinject(a.ep, &value, 8, by_number, 2), 0);
	must_be("fi_trecv", fi_trecv(b.ep, &got, 8, NULL, 0, 2, 0, NULL), 0);
	next(&b, NULL);
	if (got != value)
		die("another value came by the text of an address");
	pair_close();
	fi_freeinfo(info);
	info = any;
	done("numbers");
}

/* ------------------------------------------------------------------ main */

#define CAPS (FI_TAGGED | FI_MSG | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV)

static void
all(enum fi_threading threading)
{
	find(threading, CAPS, 0);
	pair_open(FI_WAIT_NONE, 0);
	lengths();
	matching();
	peeks();
	cancels();
	truncation();
	pieces();
	crowd();
	many_receives();
	data();
	promises();
	multi_receive();
	counters();
	poll_sets();
	refusals();
	successors();
	pair_close();
	pair_open(FI_WAIT_FD, FI_SELECTIVE_COMPLETION);
	selective();
	pair_close();
	pair_open(FI_WAIT_FD, 0);
	waits();
	pair_close();
	numbers();
	leave();
}

/* Other threads and nobody at all: what nobody looks after is done all the same. */
static void
automatic(void)
{
	enum { MANY = 300, LEN = 70000, STEP = 3000 };
	struct fi_cq_tagged_entry e;
	struct fid_mr *mr;
	struct pollfd p = {.events = POLLIN};
	int64_t end = now_us() + 30000000;
	volatile uint8_t *last = in + (MANY - 1) * STEP + LEN - 1;

	find(FI_THREAD_SAFE, CAPS | FI_RMA, 0);
	must_be("data_progress", info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	pair_open(FI_WAIT_FD, 0);
	/* the side that copies calls nothing */
	must_be("fi_mr_reg", fi_mr_reg(domain, in, LONGEST, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL),
		0);
	for (size_t len = 8; len <= LONGEST; len *= LONGEST / 8) {
		memset(in, 0, LONGEST);
		fill(out, len, (uint32_t)len);
		must_be("fi_write", fi_write(a.ep, out, len, NULL, a.peer, 0, 1, &a), 0);
		must_be("fi_cq_sread", fi_cq_sread(a.cq, &e, 1, NULL, 30000), 1);
		holds(in, len, (uint32_t)len);
	}
	must_be("close", fi_close(&mr->fid), 0);
	done("writes_to_who_sleeps");
	/* more than can be under way, and nobody calls */
	memset(in, 0, LONGEST);
	memset(out, 1, LEN);
	for (unsigned i = 0; i < MANY; i++)
		must_be("fi_tsend", fi_tsend(a.ep, out, LEN, NULL, a.peer, i, NULL), 0);
	for (unsigned i = 0; i < MANY; i++)
		must_be("fi_trecv",
			fi_trecv(b.ep, in + i * STEP, LEN, NULL, FI_ADDR_UNSPEC, i, 0, NULL), 0);
	while (*last == 0 && now_us() < end)
		usleep(1000);
	if (*last == 0)
		die("nothing moved by itself");
	for (unsigned i = 0; i < MANY; i++) {
		must_be("fi_cq_sread", fi_cq_sread(a.cq, &e, 1, NULL, 30000), 1);
		must_be("fi_cq_sread", fi_cq_sread(b.cq, &e, 1, NULL, 30000), 1);
	}
	done("moves_while_nobody_calls");
	/* who sleeps on a queue's descriptor is woken by what the thread has done */
	must_be("FI_GETWAIT", fi_control(&b.cq->fid, FI_GETWAIT, &p.fd), 0);
	for (unsigned i = 0; i < 50; i++) {
		struct fid *queue = &b.cq->fid;

		must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
		while (fi_trywait(fabric, &queue, 1) != 0)
			must_be("an empty queue", fi_cq_read(b.cq, &e, 1), -FI_EAGAIN);
		usleep(i % 5 * 1000); /* so that the thread is in all of its states */
		must_be("fi_tinject", fi_tinject(a.ep, &i, sizeof(i), a.peer, 1), 0);
		must_be("poll", poll(&p, 1, 30000), 1);
		while (fi_cq_read(b.cq, &e, 1) == -FI_EAGAIN && now_us() < end)
			;
	}
	pair_close();
	leave();
	done("wakes_who_sleeps");
}

/* Everything that is outstanding ends with an error, and so does what comes later. */
static void
orphan(void)
{
	static uint8_t bulk[200000];

	find(FI_THREAD_SAFE, CAPS, 0);
	pair_open(FI_WAIT_FD, 0);
	must_be("fi_trecv", fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &b.contexts[0]), 0);
	must_be("fi_tsend", fi_tsend(a.ep, bulk, sizeof(bulk), NULL, a.peer, 2, &a.contexts[0]), 0);
	printf("waiting\n");
	fflush(stdout);
	if (next_error(&b).op_context != &b.contexts[0] ||
		next_error(&a).op_context != &a.contexts[0])
		die("something else ended");
	must_be("a send", fi_tsend(a.ep, out, 8, NULL, a.peer, 1, NULL), -FI_ECONNABORTED);
	pair_close();
	leave();
	done("primary_ends");
}

int
main(int argc, char **argv)
{
	bool alone = argc == 2 && strcmp(argv[1], "orphan") == 0;

	if (!alone && (argc != 2 || strcmp(argv[1], "all") != 0))
		die("usage: ofi all | orphan");
	if (alone) {
		orphan();
	} else {
		all(FI_THREAD_DOMAIN);
		all(FI_THREAD_SAFE);
		progress = FI_PROGRESS_AUTO;
		all(FI_THREAD_DOMAIN);
		automatic();
	}
	return 0;
}
