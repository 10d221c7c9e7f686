/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory and atomics of the libfabric provider, by libfabric's own calls: two endpoints of
 * one process. Prints "ok NAME" for each case. Usage:
 *   ofi_rma all       every case
 *   ofi_rma orphan    says "waiting" with transfers outstanding, and expects that the primary ends
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "ofi_sides.h"

#define CAPS   (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_SOURCE)
#define KEY    0x123456789ABCDEFull
#define ALL    (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define REGION (2 * LONGEST)
#define BASIC  (1 << 0) /* FI_MR_BASIC, of whose name libfabric 2 warns */

static uint8_t region[REGION] __attribute__((aligned(64)));
static struct fid_mr *mr;
static bool by_address;

/* Return what names a byte of the region: its address, or its offset. */
static uint64_t
at(size_t offset)
{
	return by_address ? (uint64_t)(uintptr_t)(region + offset) : offset;
}

static uint64_t
key(void)
{
	return fi_mr_key(mr);
}

static void
region_open(size_t len, uint64_t access)
{
	must_be("fi_mr_reg", fi_mr_reg(domain, region, len, access, 0, KEY, 0, &mr, NULL), 0);
}

static void
region_close(void)
{
	must_be("close of a region", fi_close(&mr->fid), 0);
}

static void
ended(void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry e = next(&a, NULL);

	if (e.op_context != context || e.flags != flags)
		die("another completion: %lx, not %lx", e.flags, flags);
}

/* ------------------------------------------------------------------ reads and writes */

static void
lengths(void)
{
	static const size_t lens[] = {0, 1, 8, 64, 1000, 4095, 4096, 4097, 70000, LONGEST};

	region_open(REGION, ALL);
	for (unsigned i = 0; i < COUNT_OF(lens); i++) {
		size_t len = lens[i], off = 3 + 100 * i;

		fill(out, len, i);
		memset(region, 0xEE, REGION);
		must_be("fi_write", fi_write(a.ep, out, len, NULL, a.peer, at(off), key(), &a), 0);
		ended(&a, FI_RMA | FI_WRITE);
		holds(region + off, len, i);
		if (region[off - 1] != 0xEE || region[off + len] != 0xEE)
			die("a write of %zu bytes has touched more", len);
		memset(in, 0, len);
		must_be("fi_read", fi_read(a.ep, in, len, NULL, a.peer, at(off), key(), &b), 0);
		ended(&b, FI_RMA | FI_READ);
		holds(in, len, i);
	}
	region_close();
	done("writes_and_reads");
}

/* Local memory in pieces, short and long. */
static void
pieces(void)
{
	for (size_t len = 900; len <= 90000; len *= 100) {
		const struct iovec from[3] = {{out, len / 3}, {out + len / 3, 1},
			{out + len / 3 + 1, len - len / 3 - 1}};
		const struct iovec to[2] = {{in + 1000, len / 2}, {in + 200000, len - len / 2}};
		struct fi_rma_iov remote = {at(5), len, 0};
		struct fi_msg_rma m = {
			.msg_iov = from,
			.iov_count = 3,
			.addr = a.peer,
			.rma_iov = &remote,
			.rma_iov_count = 1,
			.context = &a,
		};

		region_open(REGION, ALL);
		remote.key = key();
		fill(out, len, 77);
		must_be("fi_writemsg", fi_writemsg(a.ep, &m, FI_DELIVERY_COMPLETE), 0);
		ended(&a, FI_RMA | FI_WRITE);
		holds(region + 5, len, 77);
		must_be("fi_readv", fi_readv(a.ep, to, NULL, 2, a.peer, at(5), key(), &b), 0);
		ended(&b, FI_RMA | FI_READ);
		memmove(in + 1000 + len / 2, in + 200000, len - len / 2);
		holds(in + 1000, len, 77);
		remote.len--;
		must_be("pieces of another length", fi_readmsg(a.ep, &m, 0), -FI_EINVAL);
		region_close();
	}
	done("remote_pieces");
}

/* Its bytes may change at once, and nothing tells of its end. */
static void
injects(void)
{
	uint64_t value;

	region_open(4096, ALL);
	memset(region, 0, 4096);
	for (value = 1; value <= 512; value++)
		must_be("fi_inject_write",
			fi_inject_write(a.ep, &value, 8, a.peer, at(8 * value - 8), key()), 0);
	/* those before it are done before it */
	must_be("fi_read", fi_read(a.ep, in, 4096, NULL, a.peer, at(0), key(), &a), 0);
	ended(&a, FI_RMA | FI_READ);
	for (value = 1; value <= 512; value++) {
		if (((uint64_t *)(void *)in)[value - 1] != value)
			die("injected write %lu is not there", value);
	}
	is_quiet(&a);
	must_be("too long", fi_inject_write(a.ep, out, 4097, a.peer, at(0), key()), -FI_EINVAL);
	region_close();
	done("injected_writes");
}

static void
data(void)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *written, *read;
	fi_addr_t source;

	region_open(REGION, ALL);
	must_be("fi_cntr_open", fi_cntr_open(domain, &attr, &written, NULL), 0);
	must_be("fi_cntr_open", fi_cntr_open(domain, &attr, &read, NULL), 0);
	must_be("fi_mr_bind", fi_mr_bind(mr, &written->fid, FI_REMOTE_WRITE), 0);
	must_be("fi_mr_bind", fi_mr_bind(mr, &read->fid, FI_REMOTE_READ), 0);
	for (size_t len = 10; len <= 100000; len *= 100) {
		fill(out, len, 9);
		must_be("fi_writedata",
			fi_writedata(a.ep, out, len, NULL, 0xFEDCBA9876543210, a.peer, at(0), key(),
				&a),
			0);
		struct fi_cq_tagged_entry e = next(&b, &source);

		holds(region, len, 9);
		if (e.flags != (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) ||
			e.data != 0xFEDCBA9876543210 || e.len != len || source != b.peer)
			die("%zu bytes: a wrong completion of the target", len);
		ended(&a, FI_RMA | FI_WRITE);
		must_be("fi_read", fi_read(a.ep, in, len, NULL, a.peer, at(0), key(), &a), 0);
		ended(&a, FI_RMA | FI_READ);
	}
	must_be("fi_cntr_wait", fi_cntr_wait(written, 3, 30000), 0);
	must_be("fi_cntr_wait", fi_cntr_wait(read, 3, 30000), 0);
	must_be("a counter in use", fi_close(&written->fid), -FI_EBUSY);
	region_close();
	must_be("close", fi_close(&written->fid), 0);
	must_be("close", fi_close(&read->fid), 0);
	done("remote_data_and_counters");
}

/* More than there is room for, while the target does nothing. */
static void
crowd(void)
{
	enum { SHORT = 5000, LONG = 300, BYTES = 50000 };

	region_open(REGION, ALL);
	fill(out, BYTES, 1);
	for (unsigned i = 0; i < SHORT; i++)
		must_be("a short write",
			fi_write(a.ep, out, 100, NULL, a.peer, at(i * 100u), key(), &a), 0);
	for (unsigned i = 0; i < LONG; i++)
		must_be("a long write",
			fi_write(a.ep, out, BYTES, NULL, a.peer, at(600000 + i), key(), &a), 0);
	for (unsigned i = 0; i < LONG; i++)
		must_be("a long read",
			fi_read(a.ep, in + i * 3000, 5000, NULL, a.peer, at(i), key(), &b), 0);
	/* a message is not held up */
	must_be("fi_inject", fi_inject(a.ep, out, 8, a.peer), 0);
	must_be("fi_recv", fi_recv(b.ep, in + LONGEST - 8, 8, NULL, FI_ADDR_UNSPEC, &b.contexts[0]),
		0);
	if (next(&b, NULL).op_context != &b.contexts[0])
		die("the message did not come");
	for (unsigned i = 0; i < SHORT + 2 * LONG; i++)
		next(&a, NULL);
	is_quiet(&a);
	holds(region + 600000 + LONG - 1, BYTES, 1);
	holds(region + (SHORT - 1) * 100u, 100, 1);
	region_close();
	done("posting_transfers_never_fails");
}

/* Check that what is not allowed ends with an error, and touches nothing. */
static void
refusals(void)
{
	static const size_t lens[] = {8, 10000};

	for (unsigned i = 0; i < COUNT_OF(lens); i++) {
		size_t len = lens[i];
		struct {
			uint64_t at, key;
			int error;
		} wrong[] = {
			{at(0), KEY + 1, FI_ENOKEY},
			{at(20000 - len + 1), 0, ERANGE},
			{at(0) - 1, 0, ERANGE},
			{UINT64_MAX - 3, 0, ERANGE},
		};

		region_open(20000, ALL);
		memset(region, 0x11, 40000);
		memset(in, 0x22, len);
		for (unsigned k = 0; k < COUNT_OF(wrong); k++) {
			uint64_t name = wrong[k].key != 0 ? wrong[k].key : key();

			must_be("fi_write",
				fi_write(a.ep, out, len, NULL, a.peer, wrong[k].at, name, &a), 0);
			must_be("its error", next_error(&a).err, wrong[k].error);
			must_be("fi_read",
				fi_read(a.ep, in, len, NULL, a.peer, wrong[k].at, name, &a), 0);
			must_be("its error", next_error(&a).err, wrong[k].error);
		}
		region_close();
		region_open(20000, FI_REMOTE_READ);
		must_be("fi_write", fi_write(a.ep, out, len, NULL, a.peer, at(0), key(), &a), 0);
		must_be("its error", next_error(&a).err, FI_EACCES);
		uint64_t gone = key();

		region_close();
		must_be("fi_read", fi_read(a.ep, in, len, NULL, a.peer, at(0), gone, &a), 0);
		must_be("its error", next_error(&a).err, FI_ENOKEY);
		region_open(20000, FI_REMOTE_WRITE);
		must_be("fi_read", fi_read(a.ep, in, len, NULL, a.peer, at(0), key(), &a), 0);
		must_be("its error", next_error(&a).err, FI_EACCES);
		for (size_t k = 0; k < 40000; k++) {
			if (region[k] != 0x11 || (k < len && in[k] != 0x22))
				die("byte %zu was touched", k);
		}
		/* the endpoints go on */
		must_be("fi_write", fi_write(a.ep, out, len, NULL, a.peer, at(0), key(), &a), 0);
		ended(&a, FI_RMA | FI_WRITE);
		region_close();
	}
	if (!by_address) {
		struct fid_mr *second;

		region_open(8, ALL);
		must_be("a key twice", fi_mr_reg(domain, in, 8, ALL, 0, KEY, 0, &second, NULL),
			-FI_ENOKEY);
		region_close();
	}
	done("refused_transfers");
}

/* ------------------------------------------------------------------ atomics */

struct atomic_case {
	enum fi_op op;
	uint64_t was, operand, compared, is;
};

static const struct atomic_case of_uint64[] = {
	{FI_MIN, 5, 3, 0, 3},
	{FI_MIN, 3, 5, 0, 3},
	{FI_MAX, 5, 3, 0, 5},
	{FI_MAX, 3, UINT64_MAX, 0, UINT64_MAX},
	{FI_SUM, UINT64_MAX, 3, 0, 2},
	{FI_PROD, 1ull << 40, 1 << 20, 0, 1ull << 60},
	{FI_LOR, 0, 8, 0, 1},
	{FI_LOR, 0, 0, 0, 0},
	{FI_LAND, 2, 8, 0, 1},
	{FI_LAND, 2, 0, 0, 0},
	{FI_LXOR, 2, 8, 0, 0},
	{FI_LXOR, 0, 8, 0, 1},
	{FI_BOR, 5, 9, 0, 13},
	{FI_BAND, 5, 9, 0, 1},
	{FI_BXOR, 5, 9, 0, 12},
	{FI_ATOMIC_READ, 42, 0, 0, 42},
	{FI_ATOMIC_WRITE, 42, 7, 0, 7},
	{FI_CSWAP, 42, 7, 42, 7},
	{FI_CSWAP, 42, 7, 41, 42},
	{FI_CSWAP_NE, 42, 7, 42, 42},
	{FI_CSWAP_NE, 42, 7, 41, 7},
	{FI_CSWAP_LE, 42, 7, 42, 7},
	{FI_CSWAP_LE, 42, 7, 43, 42},
	{FI_CSWAP_LT, 42, 7, 42, 42},
	{FI_CSWAP_LT, 42, 7, 41, 7},
	{FI_CSWAP_GE, 42, 7, 42, 7},
	{FI_CSWAP_GE, 42, 7, 41, 42},
	{FI_CSWAP_GT, 42, 7, 42, 42},
	{FI_CSWAP_GT, 42, 7, 43, 7},
	{FI_MSWAP, 0xF0F0, 0x1234, 0x00FF, 0xF034},
};

/* A number as an element of that type, if it has it. */
static size_t
element(enum fi_datatype type, uint64_t value, void *to)
{
	const float f = (float)value;
	const double d = (double)value;
	size_t bytes = type == FI_FLOAT || type == FI_INT32 || type == FI_UINT32 ? 4
		: type == FI_INT8 || type == FI_UINT8                            ? 1
		: type == FI_INT16 || type == FI_UINT16                          ? 2
										 : 8;

	memcpy(to,
		type == FI_FLOAT            ? (const void *)&f
			: type == FI_DOUBLE ? (const void *)&d
					    : (const void *)&value,
		bytes);
	return bytes;
}

static bool
has_type(const struct atomic_case *c, enum fi_datatype type)
{
	uint64_t most = type <= FI_UINT8 ? 100 : UINT32_MAX;

	if (type == FI_UINT64)
		return true;
	return c->was <= most && c->operand <= most && c->is <= most && c->compared <= most &&
		(type != FI_INT16 || c->is < 0x7FFF);
}

static void
atomic_try(const struct atomic_case *c, enum fi_datatype type, size_t elements)
{
	uint64_t was[64], x[64], with[64], is[64], got[64];
	size_t each = 0;
	bool compares = c->op >= FI_CSWAP;
	ssize_t posted;

	for (size_t i = 0; i < elements; i++) {
		each = element(type, c->was, (uint8_t *)was + i * each);
		element(type, c->operand, (uint8_t *)x + i * each);
		element(type, c->compared, (uint8_t *)with + i * each);
		element(type, c->is, (uint8_t *)is + i * each);
	}
	memset(got, 0xEE, sizeof(got));
	memset(region, 0xDD, sizeof(got) + 64);
	memcpy(region + 64, was, elements * each);
	posted = compares ? fi_compare_atomic(a.ep, x, elements, NULL, with, NULL, got, NULL,
				    a.peer, at(64), key(), type, c->op, &a)
			  : fi_fetch_atomic(a.ep, x, elements, NULL, got, NULL, a.peer, at(64),
				    key(), type, c->op, &a);
	must_be("a fetching atomic", posted, 0);
	memset(x, 0, sizeof(x)); /* its bytes are in use no more */
	ended(&a, FI_ATOMIC | FI_READ);
	if (memcmp(got, was, elements * each) != 0)
		die("operation %d, type %d: something else was there", c->op, type);
	if (memcmp(region + 64, is, elements * each) != 0 || region[63] != 0xDD ||
		region[64 + elements * each] != 0xDD)
		die("operation %d, type %d: something else is there", c->op, type);
	if (compares || c->op == FI_ATOMIC_READ)
		return;
	for (size_t i = 0; i < elements; i++)
		element(type, c->operand, (uint8_t *)x + i * each);
	memcpy(region + 64, was, elements * each);
	must_be("fi_atomic",
		fi_atomic(a.ep, x, elements, NULL, a.peer, at(64), key(), type, c->op, &b), 0);
	ended(&b, FI_ATOMIC | FI_WRITE);
	if (memcmp(region + 64, is, elements * each) != 0)
		die("operation %d, type %d, without fetching: something else is there", c->op,
			type);
}

static void
atomics(void)
{
	struct fi_atomic_attr attr;
	unsigned tried = 0;
	size_t count;

	region_open(REGION, ALL);
	for (enum fi_datatype type = FI_INT8; type <= FI_DOUBLE; type++) {
		for (unsigned i = 0; i < COUNT_OF(of_uint64); i++) {
			const struct atomic_case *c = &of_uint64[i];
			bool compares = c->op >= FI_CSWAP;
			bool bits = c->op == FI_BOR || c->op == FI_BAND || c->op == FI_BXOR ||
				c->op == FI_MSWAP;
			int valid = compares ? fi_compare_atomicvalid(a.ep, type, c->op, &count)
					     : fi_fetch_atomicvalid(a.ep, type, c->op, &count);

			must_be("valid", valid, bits && type >= FI_FLOAT ? -FI_EOPNOTSUPP : 0);
			if (valid != 0 || !has_type(c, type))
				continue;
			atomic_try(c, type, 1);
			atomic_try(c, type, 40);
			tried++;
		}
	}
	if (tried < 200)
		die("only %u operations were tried", tried);
	must_be("no such type", fi_atomicvalid(a.ep, FI_LONG_DOUBLE, FI_SUM, &count),
		-FI_EOPNOTSUPP);
	must_be("fi_query_atomic", fi_query_atomic(domain, FI_UINT32, FI_SUM, &attr, 0), 0);
	if (attr.size != 4 || attr.count < 16)
		die("elements of %zu bytes, up to %zu", attr.size, attr.count);
	must_be("no write", fi_query_atomic(domain, FI_UINT32, FI_CSWAP, &attr, 0), -FI_EOPNOTSUPP);
	must_be("fi_atomic",
		fi_atomic(a.ep, out, 1, NULL, a.peer, at(4), key(), FI_UINT64, FI_SUM, &a), 0);
	must_be("one that is not aligned", next_error(&a).err, FI_EINVAL);
	must_be("fi_atomic",
		fi_atomic(a.ep, out, 1, NULL, a.peer, at(8), KEY + 7, FI_UINT64, FI_SUM, &a), 0);
	must_be("no such key", next_error(&a).err, FI_ENOKEY);
	region_close();
	done("every_atomic_operation");
}

static void
injected_atomics(void)
{
	const struct fi_ioc x[2] = {{out, 2}, {out + 16, 3}};
	struct fi_rma_ioc remote = {at(0), 5, 0};
	uint64_t one = 1, sum;

	region_open(REGION, ALL);
	memset(region, 0, 64);
	for (unsigned i = 0; i < 3000; i++)
		must_be("fi_inject_atomic",
			fi_inject_atomic(a.ep, &one, 1, a.peer, at(0), key(), FI_UINT64, FI_SUM),
			0);
	must_be("fi_fetch_atomic",
		fi_fetch_atomic(a.ep, NULL, 1, NULL, &sum, NULL, a.peer, at(0), key(), FI_UINT64,
			FI_ATOMIC_READ, &a),
		0);
	ended(&a, FI_ATOMIC | FI_READ);
	if (sum != 3000)
		die("3000 sums gave %lu", sum);
	/* pieces */
	const struct fi_msg_atomic m = {
		.msg_iov = x,
		.iov_count = 2,
		.addr = a.peer,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_ATOMIC_WRITE,
		.context = &a,
	};

	remote.key = key();
	fill(out, 40, 3);
	must_be("fi_atomicmsg", fi_atomicmsg(a.ep, &m, 0), 0);
	ended(&a, FI_ATOMIC | FI_WRITE);
	holds(region, 40, 3);
	is_quiet(&a);
	region_close();
	done("injected_atomics");
}

/* With an order that was asked for, long and short ones take effect as they were made. */
static void
orders(void)
{
	static uint8_t second[100000];

	region_open(REGION, ALL);
	for (unsigned round = 0; round < 50; round++) {
		size_t len = round % 2 ? sizeof(second) : 100;

		fill(out, sizeof(second), round);
		fill(second, sizeof(second), round + 1);
		must_be("fi_write",
			fi_write(a.ep, out, sizeof(second), NULL, a.peer, at(0), key(), NULL), 0);
		must_be("fi_write", fi_write(a.ep, second, len, NULL, a.peer, at(0), key(), NULL),
			0);
		must_be("fi_read", fi_read(a.ep, in, len, NULL, a.peer, at(0), key(), NULL), 0);
		must_be("fi_write", fi_write(a.ep, out, 50, NULL, a.peer, at(0), key(), NULL), 0);
		for (unsigned i = 0; i < 4; i++)
			next(&a, NULL);
		holds(in, len, round + 1);
		holds(region, 50, round);
	}
	region_close();
	done("ordered_transfers");
}

/* ------------------------------------------------------------------ peers that end */

static void
fails_with(void *context, int error)
{
	struct fi_cq_err_entry e = {.err = 0};
	struct fi_cq_tagged_entry unused;
	int64_t end = now_us() + 60000000;
	ssize_t n;

	while ((n = fi_cq_sread(a.cq, &unused, 1, NULL, 100)) == -FI_EAGAIN) {
		if (now_us() > end)
			die("nothing failed within 60 s");
	}
	must_be("fi_cq_read", n, -FI_EAVAIL);
	must_be("fi_cq_readerr", fi_cq_readerr(a.cq, &e, 0), 1);
	if ((context != NULL && e.op_context != context) || (error != 0 && e.err != error))
		die("another operation failed, with %d (%s)", e.err, fi_strerror(e.err));
}

/* Check that what waits for an endpoint that has ended ends with an error: transfers, promised
 * messages, receives of promised messages; and so does what is meant for it when another one has
 * its number. */
static void
ends(void)
{
	enum { LONG = 100, BYTES = 100000 };
	fi_addr_t before = a.peer;

	region_open(REGION, ALL);
	must_be("fi_read", fi_read(a.ep, in, 8, NULL, a.peer, at(0), key(), &a), 0);
	must_be("fi_write", fi_write(a.ep, out, BYTES, NULL, a.peer, at(0), key(), &a), 0);
	for (uint64_t i = 0; i < LONG; i++)
		must_be("fi_tsend", fi_tsend(a.ep, out, BYTES, NULL, a.peer, i, &a), 0);
	side_close(&b);
	for (unsigned i = 0; i < LONG + 2; i++)
		fails_with(&a, 0);
	side_open(&b, FI_WAIT_FD, 0);
	introduce(&b, &a);
	must_be("fi_read", fi_read(a.ep, in, 8, NULL, before, at(0), key(), &a), 0);
	/* it must look at what comes, to say that it is not the one */
	for (int64_t end = now_us() + 60000000;;) {
		struct fi_cq_tagged_entry unused;
		ssize_t n = fi_cq_read(a.cq, &unused, 1);

		fi_cq_read(b.cq, NULL, 0);
		if (n == -FI_EAVAIL)
			break;
		must_be("fi_cq_read", n, -FI_EAGAIN);
		if (now_us() > end)
			die("nothing failed within 60 s");
	}
	fails_with(&a, FI_ECONNRESET);
	introduce(&a, &b);
	fill(out, BYTES, 5);
	for (uint64_t i = 0; i < LONG; i++)
		must_be("fi_tsend", fi_tsend(b.ep, out, BYTES, NULL, b.peer, i, &b), 0);
	must_be("fi_trecv", fi_trecv(a.ep, in, BYTES, NULL, FI_ADDR_UNSPEC, LONG - 1, 0, &a), 0);
	for (unsigned i = 0; i < 1000; i++)
		fi_cq_read(a.cq, NULL, 0);
	side_close(&b);
	/* its bytes were read at once, if they could be (FI_PMX_DIRECT) */
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_sread(a.cq, &e, 1, NULL, 100);

	if (n == 1 && e.op_context == &a)
		holds(in, BYTES, 5);
	else
		fails_with(&a, 0);
	side_open(&b, FI_WAIT_FD, 0);
	introduce(&b, &a);
	introduce(&a, &b);
	region_close();
	done("peers_that_end");
}

/* ------------------------------------------------------------------ main */

static void
all(enum fi_threading threading, int mr_mode)
{
	find(threading, CAPS, mr_mode);
	by_address = mr_mode == BASIC;
	pair_open(FI_WAIT_NONE, 0);
	lengths();
	pieces();
	injects();
	data();
	crowd();
	refusals();
	atomics();
	injected_atomics();
	pair_close();
	info->tx_attr->msg_order |= FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RAR;
	pair_open(FI_WAIT_FD, 0);
	orders();
	/* takes all retries of an engine; how memory is named makes no difference */
	if (by_address)
		ends();
	pair_close();
	leave();
}

/* Everything that is outstanding ends with an error. */
static void
orphan(void)
{
	find(FI_THREAD_SAFE, CAPS, 0);
	pair_open(FI_WAIT_FD, 0);
	region_open(REGION, ALL);
	must_be("fi_write", fi_write(a.ep, out, 100000, NULL, a.peer, 0, KEY, &a.contexts[0]), 0);
	must_be("fi_read", fi_read(a.ep, in, 100000, NULL, a.peer, 0, KEY, &a.contexts[1]), 0);
	must_be("fi_read", fi_read(a.ep, in, 8, NULL, a.peer, 0, KEY, &a.contexts[2]), 0);
	printf("waiting\n");
	fflush(stdout);
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_err_entry e = {.err = 0};
		struct fi_cq_tagged_entry unused;
		ssize_t n;

		while ((n = fi_cq_sread(a.cq, &unused, 1, NULL, 1000)) == -FI_EAGAIN)
			;
		must_be("fi_cq_sread", n, -FI_EAVAIL);
		must_be("fi_cq_readerr", fi_cq_readerr(a.cq, &e, 0), 1);
		must_be("an error", e.err, FI_ECONNABORTED);
	}
	region_close();
	pair_close();
	leave();
	done("primary_ends_a_transfer");
}

int
main(int argc, char **argv)
{
	bool alone = argc == 2 && strcmp(argv[1], "orphan") == 0;

	if (!alone && (argc != 2 || strcmp(argv[1], "all") != 0))
		die("usage: ofi_rma all | orphan");
	if (alone) {
		orphan();
	} else {
		all(FI_THREAD_DOMAIN, 0);
		all(FI_THREAD_SAFE, BASIC);
	}
	return 0;
}
