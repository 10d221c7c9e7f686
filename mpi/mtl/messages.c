/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends, receives, probes, and their ends.
 */
#include "mtl_pmx.h"

#include <ompi/mca/mtl/base/mtl_base_datatype.h>
#include <ompi/message/message.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <stdlib.h>

#define SOURCE_SHIFT 32
#define COMM_SHIFT   48
#define TAG_MASK     0x7FFFFFFFull /* of MPI's tags that are not negative */
#define SOURCE_MASK  (0xFFFFull << SOURCE_SHIFT)
#define ENDED        16

/* A request of Open MPI's, or of a call that waits for its own. */
struct mtl_request {
	struct mca_mtl_request_t super;
	struct fi_context context; /* what a probe has claimed is remembered there */
	enum { SEND, RECEIVE, PROBE } kind;
	bool has_begun;     /* RECEIVE: it has matched, so it cannot be cancelled */
	volatile bool done; /* where super.ompi_req is NULL */
	int error;          /* of MPI's, then; PROBE: MPI_ERR_PENDING: there is none */
	void *packed;       /* bytes to be freed, and unpacked if they were received; or NULL */
	struct opal_convertor_t *convertor; /* RECEIVE */
	ompi_status_public_t status;        /* PROBE */
};

/* ------------------------------------------------------------------ tags */

#if OMPI_MAJOR_VERSION >= 5
#define NUMBER_OF(comm) ((uint64_t)(comm)->c_index)
#else
#define NUMBER_OF(comm) ((uint64_t)(comm)->c_contextid)
#endif

static uint64_t
tag_of(struct ompi_communicator_t *comm, int source, int tag)
{
	return NUMBER_OF(comm) << COMM_SHIFT | (uint64_t)source << SOURCE_SHIFT | (uint32_t)tag;
}

/* Return what a receive takes. *ignore: the bits that may differ. */
static uint64_t
wanted(struct ompi_communicator_t *comm, int source, int tag, uint64_t *ignore)
{
	*ignore = (source == MPI_ANY_SOURCE ? SOURCE_MASK : 0) |
		(tag == MPI_ANY_TAG ? TAG_MASK : 0);
	return tag_of(comm, source == MPI_ANY_SOURCE ? 0 : source, tag == MPI_ANY_TAG ? 0 : tag);
}

static void
set_status(ompi_status_public_t *s, uint64_t tag, size_t bytes)
{
	s->MPI_SOURCE = (int)((tag & SOURCE_MASK) >> SOURCE_SHIFT);
	s->MPI_TAG = (int)(uint32_t)tag;
	s->_ucount = bytes;
}

/* ------------------------------------------------------------------ ends */

static struct mtl_request *
request_of(void *context)
{
	return (struct mtl_request *)((char *)context - offsetof(struct mtl_request, context));
}

/* End a request with an error of MPI's. */
static void
mtl_messages_end(struct mtl_request *r, int error)
{
	if (r->super.ompi_req != NULL) {
		r->super.ompi_req->req_status.MPI_ERROR = error;
		r->super.completion_callback(&r->super);
	} else {
		r->error = error;
		r->done = true;
	}
}

/* Put received bytes to their places, and free their memory, if they were packed. */
static void
unpack(struct mtl_request *r, size_t bytes)
{
	if (r->packed == NULL)
		return;
	if (bytes != 0)
		ompi_mtl_datatype_unpack(r->convertor, r->packed, bytes);
	else
		free(r->packed);
}

static void
succeeded(const struct fi_cq_tagged_entry *e)
{
	struct mtl_request *r = request_of(e->op_context);

	switch (r->kind) {
	case SEND:
		free(r->packed);
		break;
	case RECEIVE:
		r->has_begun = true;
		set_status(&r->super.ompi_req->req_status, e->tag, e->len);
		unpack(r, e->len);
		break;
	case PROBE:
		set_status(&r->status, e->tag, e->len);
		break;
	}
	mtl_messages_end(r, MPI_SUCCESS);
}

/* Return an error of libfabric's as MPI has it, and say what it is if MPI has no word for it. */
static int
error_of(int error)
{
	switch (error) {
	case FI_ETRUNC:
		return MPI_ERR_TRUNCATE;
	case FI_ENOMSG:
		return MPI_ERR_PENDING;
	case FI_ECANCELED:
		return MPI_SUCCESS;
	case FI_ENOMEM:
		return MPI_ERR_NO_MEM;
	default:
		opal_output(0, "mtl/pmx: a message failed: %s",
			fi_cq_strerror(mtl.cq, -error, NULL, NULL, 0));
		return MPI_ERR_OTHER;
	}
}

static void
failed(const struct fi_cq_err_entry *e)
{
	struct mtl_request *r = request_of(e->op_context);

	if (r->kind == RECEIVE) {
		ompi_status_public_t *s = &r->super.ompi_req->req_status;

		r->has_begun = true;
		s->_cancelled = e->err == FI_ECANCELED;
		if (e->err == FI_ETRUNC)
			set_status(s, e->tag, e->len);
		unpack(r, e->err == FI_ETRUNC ? e->len : 0);
	} else if (r->kind == SEND) {
		free(r->packed);
	}
	mtl_messages_end(r, error_of(e->err));
}

int
messages_progress(void)
{
	struct fi_cq_tagged_entry ended[ENDED];
	struct fi_cq_err_entry error = {0};
	const ssize_t n = fi_cq_read(mtl.cq, ended, ENDED);

	for (ssize_t i = 0; i < n; i++)
		succeeded(&ended[i]);
	if (OPAL_LIKELY(n >= 0))
		return (int)n;
	if (n != -FI_EAVAIL || fi_cq_readerr(mtl.cq, &error, 0) != 1)
		return 0;
	failed(&error);
	return 1;
}

static int
wait_for(const struct mtl_request *r)
{
	while (!r->done)
		opal_progress();
	return r->error;
}

/* Return an error of libfabric's, of a call that could not begin, as Open MPI has it. */
static int
not_begun(ssize_t error)
{
	return error == -FI_ENOMEM ? OMPI_ERR_OUT_OF_RESOURCE : error_of((int)-error);
}

/* ------------------------------------------------------------------ send */

/* Begin a send whose bytes are at `at`, or end it at once if it is of a call that waits. */
static ssize_t
post_send(struct mtl_request *r, const void *at, size_t bytes, fi_addr_t to, uint64_t tag,
	bool sync)
{
	struct iovec piece = {(void *)(uintptr_t)at, bytes};
	const struct fi_msg_tagged m = {
		.msg_iov = &piece,
		.iov_count = 1,
		.addr = to,
		.tag = tag,
		.context = &r->context,
	};

	if (OPAL_UNLIKELY(sync))
		return fi_tsendmsg(mtl.ep, &m, FI_COMPLETION | FI_MATCH_COMPLETE);
	if (r->super.ompi_req != NULL || bytes > mtl.info->tx_attr->inject_size)
		return fi_tsend(mtl.ep, at, bytes, NULL, to, tag, &r->context);
	const ssize_t result = fi_tinject(mtl.ep, at, bytes, to, tag);

	if (result == 0) {
		free(r->packed);
		r->done = true;
	}
	return result;
}

static int
start_send(struct mtl_request *r, struct ompi_communicator_t *comm, int to, int tag,
	struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode)
{
	const fi_addr_t peer = mtl_address(comm, to);
	void *at;
	size_t bytes;
	bool packed;
	int e = peer == FI_ADDR_UNSPEC ? OMPI_ERR_UNREACH
				       : ompi_mtl_datatype_pack(convertor, &at, &bytes, &packed);

	if (OPAL_UNLIKELY(e != OMPI_SUCCESS))
		return e;
	r->kind = SEND;
	r->packed = packed ? at : NULL;
	const ssize_t result = post_send(r, at, bytes, peer,
		tag_of(comm, ompi_comm_rank(comm), tag), mode == MCA_PML_BASE_SEND_SYNCHRONOUS);

	if (OPAL_UNLIKELY(result != 0)) {
		free(r->packed);
		return not_begun(result);
	}
	return OMPI_SUCCESS;
}

static int
message_send(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm, int to, int tag,
	struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode)
{
	struct mtl_request r;

	(void)self;
	r.super.ompi_req = NULL;
	r.done = false;
	r.error = MPI_SUCCESS;
	const int e = start_send(&r, comm, to, tag, convertor, mode);

	return OPAL_LIKELY(e == OMPI_SUCCESS) ? wait_for(&r) : e;
}

static int
message_isend(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm, int to, int tag,
	struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode, bool blocking,
	mca_mtl_request_t *request)
{
	(void)self, (void)blocking;
	return start_send((struct mtl_request *)request, comm, to, tag, convertor, mode);
}

/* ------------------------------------------------------------------ receive */

/* Set where the bytes go. Return an error of Open MPI's. */
static int
set_place(struct mtl_request *r, struct opal_convertor_t *convertor, void **at, size_t *bytes)
{
	bool packed;
	const int e = ompi_mtl_datatype_recv_buf(convertor, at, bytes, &packed);

	r->kind = RECEIVE;
	r->has_begun = false;
	r->convertor = convertor;
	r->packed = packed ? *at : NULL;
	return packed && *at == NULL ? OMPI_ERR_OUT_OF_RESOURCE : e;
}

static int
message_irecv(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm, int source,
	int tag, struct opal_convertor_t *convertor, mca_mtl_request_t *request)
{
	struct mtl_request *r = (struct mtl_request *)request;
	const fi_addr_t from = source == MPI_ANY_SOURCE ? FI_ADDR_UNSPEC
							: mtl_address(comm, source);
	uint64_t ignore;
	const uint64_t bits = wanted(comm, source, tag, &ignore);
	void *at;
	size_t bytes;

	(void)self;
	if (OPAL_UNLIKELY(source != MPI_ANY_SOURCE && from == FI_ADDR_UNSPEC))
		return OMPI_ERR_UNREACH;
	const int e = set_place(r, convertor, &at, &bytes);

	if (OPAL_UNLIKELY(e != OMPI_SUCCESS))
		return e;
	const ssize_t result = fi_trecv(mtl.ep, at, bytes, NULL, from, bits, ignore, &r->context);

	if (OPAL_LIKELY(result == 0))
		return OMPI_SUCCESS;
	free(r->packed);
	return not_begun(result);
}

static int
message_cancel(struct mca_mtl_base_module_t *self, mca_mtl_request_t *request, int flag)
{
	struct mtl_request *r = (struct mtl_request *)request;

	(void)self, (void)flag;
	/* it ends as cancelled, or with its message; sends cannot be cancelled */
	messages_progress();
	if (r->kind == RECEIVE && !r->has_begun)
		fi_cancel(&mtl.ep->fid, &r->context);
	return OMPI_SUCCESS;
}

/* ------------------------------------------------------------------ probe */

/* Look for a message. Return an error of Open MPI's; r->error says whether there is one. */
static int
probe(struct mtl_request *r, struct ompi_communicator_t *comm, int source, int tag, uint64_t claim)
{
	struct fi_msg_tagged m = {
		.addr = source == MPI_ANY_SOURCE ? FI_ADDR_UNSPEC : mtl_address(comm, source),
		.context = &r->context,
	};
	ssize_t result;

	if (source != MPI_ANY_SOURCE && m.addr == FI_ADDR_UNSPEC)
		return OMPI_ERR_UNREACH;
	m.tag = wanted(comm, source, tag, &m.ignore);
	*r = (struct mtl_request){.kind = PROBE, .status = ompi_status_empty};
	while ((result = fi_trecvmsg(mtl.ep, &m, FI_PEEK | FI_COMPLETION | claim)) == -FI_EAGAIN)
		messages_progress();
	if (result != 0)
		return not_begun(result);
	while (!r->done)
		messages_progress();
	return r->error == MPI_SUCCESS || r->error == MPI_ERR_PENDING ? OMPI_SUCCESS : r->error;
}

static int
message_iprobe(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm, int source,
	int tag, int *flag, struct ompi_status_public_t *status)
{
	struct mtl_request r;
	const int e = probe(&r, comm, source, tag, 0);

	(void)self;
	*flag = e == OMPI_SUCCESS && r.error == MPI_SUCCESS;
	if (*flag && status != MPI_STATUS_IGNORE)
		OMPI_COPY_STATUS(status, r.status, false);
	return e;
}

static int
message_improbe(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm, int source,
	int tag, int *matched, struct ompi_message_t **message, struct ompi_status_public_t *status)
{
	struct mtl_request *r = malloc(sizeof(*r));
	struct ompi_message_t *m = r != NULL ? ompi_message_alloc() : NULL;
	const int e = m != NULL ? probe(r, comm, source, tag, FI_CLAIM) : OMPI_ERR_OUT_OF_RESOURCE;

	(void)self;
	*matched = e == OMPI_SUCCESS && r->error == MPI_SUCCESS;
	if (!*matched) {
		if (m != NULL)
			ompi_message_return(m);
		free(r);
		*message = MPI_MESSAGE_NULL;
		return e;
	}
	m->comm = comm;
	m->req_ptr = r;
	m->peer = r->status.MPI_SOURCE;
	m->count = r->status._ucount;
	*message = m;
	if (status != MPI_STATUS_IGNORE)
		OMPI_COPY_STATUS(status, r->status, false);
	return e;
}

static int
message_imrecv(struct mca_mtl_base_module_t *self, struct opal_convertor_t *convertor,
	struct ompi_message_t **message, struct mca_mtl_request_t *request)
{
	struct mtl_request *r = (struct mtl_request *)request, *claimed = (*message)->req_ptr;
	struct iovec piece;
	struct fi_msg_tagged m = {
		.msg_iov = &piece,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &r->context,
	};
	int e = set_place(r, convertor, &piece.iov_base, &piece.iov_len);
	ssize_t result;

	(void)self;
	r->context = claimed->context;
	if (e == OMPI_SUCCESS) {
		while ((result = fi_trecvmsg(mtl.ep, &m, FI_CLAIM | FI_COMPLETION)) == -FI_EAGAIN)
			messages_progress();
		if (result != 0) {
			free(r->packed);
			e = not_begun(result);
		}
	}
	if (e != OMPI_SUCCESS) { /* its sender shall end all the same */
		m.iov_count = 0;
		m.context = &claimed->context;
		claimed->done = false;
		if (fi_trecvmsg(mtl.ep, &m, FI_CLAIM | FI_DISCARD) == 0) {
			while (!claimed->done)
				messages_progress();
		}
	}
	free(claimed);
	ompi_message_return(*message);
	*message = MPI_MESSAGE_NULL;
	return e;
}

/* ------------------------------------------------------------------ the module */

void
messages_set(mca_mtl_base_module_t *m)
{
	m->mtl_max_contextid = 0xFFFF;
	m->mtl_max_tag = 0x7FFFFFFF;
	m->mtl_request_size = sizeof(struct mtl_request);
	m->mtl_send = message_send;
	m->mtl_isend = message_isend;
	m->mtl_irecv = message_irecv;
	m->mtl_iprobe = message_iprobe;
	m->mtl_improbe = message_improbe;
	m->mtl_imrecv = message_imrecv;
	m->mtl_cancel = message_cancel;
}
