/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends with parameters: of pieces, told by an event, with a time after which they are not sent any
 * more; and sends that are taken back. The last buffer of a message that tells is free only when
 * its event was taken, so there is room for all events.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/params.h"
#include "client/client.h"
#include "client/told.h"

/* The event of a message tells this. */
struct told {
	uint64_t cookie;
	uint32_t len;
	struct pmx_addr to;
};

static bool
told_event(struct pmx_context *ctx, struct pmx_event *event)
{
	const uint16_t buf = ctx->told_first;

	if (ctx->told_count == 0)
		return false;
	struct send_note *n = &ctx->notes[buf];
	const struct told *t = &ctx->told[buf];

	*event = (struct pmx_event){PMX_EVENT_SENT, t->to, t->len, t->cookie,
		-(int32_t)outcome_last(&n->ended)};
	ctx->told_first = n->next;
	ctx->told_count--;
	n->told = SEND_UNTOLD;
	ctx->free[ctx->free_count++] = buf;
	return true;
}

static bool
told_landed(struct pmx_context *ctx)
{
	return ctx->told_count != 0;
}

static void
told_close(struct pmx_context *ctx)
{
	free(ctx->told);
}

const struct client_service client_told = {
	.name = "told",
	.close = told_close,
	.landed = told_landed,
	.event = told_event,
};

/* Ask the engine not to send the message from at_us on, but to end it with `error` then; there is
 * room in the ring. */
static void
withdraw(struct pmx_context *ctx, uint16_t buf, int64_t at_us, int error)
{
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = SUBMIT_WITHDRAW;
	s->count = 0;
	s->withdraw.at_us = at_us;
	s->withdraw.buf = buf;
	s->withdraw.error = (uint16_t)error;
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx_doorbell(ctx);
}

/* Return the slots that a message takes in the ring, with the one behind it that withdraws it. */
static uint32_t
slots_of(const struct pmx_buffer *buf)
{
	const uint32_t more = buf->segments > SUBMIT_SEND_BUFS ? buf->segments - SUBMIT_SEND_BUFS
							       : 0;

	return 2 + (more + SUBMIT_MORE_BUFS - 1) / SUBMIT_MORE_BUFS;
}

static int
params_check(struct pmx_context *ctx, struct pmx_send_params *p,
	const struct pmx_send_params *given)
{
	int result = params_read(p, sizeof(*p), given);

	if (result == 0 && p->flags & ~PMX_EVENT)
		result = -EINVAL;
	if (result == 0 && p->flags & PMX_EVENT && ctx->told == NULL &&
		(ctx->told = calloc(ctx->send_buffers, sizeof(*ctx->told))) == NULL)
		result = -ENOMEM;
	return result;
}

int
pmx_send_with(struct pmx_context *ctx, struct pmx_addr to, struct pmx_buffer *buf,
	const struct pmx_send_params *params, pmx_send_id *id)
{
	struct pmx_send_params p;
	pmx_send_id sent;
	int result = params_check(ctx, &p, params);

	if (result == 0 && (buf->segments == 0 || buf->first >= ctx->send_buffers))
		result = -EINVAL;
	if (result == 0 && p.expire_us != 0 && !slot_room(&ctx->sub, slots_of(buf)))
		result = ctx_gone(ctx)                      ? -EPIPE
			: slots_of(buf) > ctx->sub.mask + 1 ? -EMSGSIZE
							    : -EAGAIN;
	if (result != 0)
		return result;
	const uint16_t last = ctx_send_id(ctx, buf) & 0xFFFF;

	if (p.flags & PMX_EVENT) { /* before it is sent, since it may end within the call */
		ctx->told[last] = (struct told){p.cookie, buf->len, to};
		ctx->notes[last].told = SEND_TELLS;
		ctx->tells++;
	}
	result = pmx_send(ctx, to, buf, &sent);
	if (result != 0) {
		if (p.flags & PMX_EVENT) {
			ctx->notes[last].told = SEND_UNTOLD;
			ctx->tells--;
		}
		return result;
	}
	if (p.expire_us != 0 && ctx_send_result(ctx, sent) == 0)
		withdraw(ctx, last,
			clock_after(clock_us(),
				(int64_t)(p.expire_us < INT64_MAX ? p.expire_us : INT64_MAX)),
			ETIMEDOUT);
	if (id != NULL)
		*id = sent;
	return 0;
}

int
pmx_sendv(struct pmx_context *ctx, struct pmx_addr to, const struct iovec *iov, unsigned count,
	const struct pmx_send_params *params, pmx_send_id *id)
{
	struct pmx_buffer buf;
	uint64_t len = 0, off = 0;
	int result;

	for (unsigned i = 0; i < count; i++) {
		if (iov[i].iov_len > UINT32_MAX)
			return -EMSGSIZE;
		len += iov[i].iov_len;
	}
	if (len > UINT32_MAX)
		return -EMSGSIZE;
	result = pmx_get_send_buffer(ctx, (uint32_t)len, &buf);
	if (result != 0)
		return result;
	for (unsigned i = 0; i < count; off += iov[i++].iov_len)
		pmx_buffer_write(ctx, &buf, (uint32_t)off, iov[i].iov_base,
			(uint32_t)iov[i].iov_len);
	result = pmx_send_with(ctx, to, &buf, params, id);
	if (result != 0)
		pmx_discard_buffer(ctx, &buf);
	return result;
}

int
pmx_send_cancel(struct pmx_context *ctx, pmx_send_id id)
{
	const int result = pmx_is_send_done(ctx, id);

	if (result == -EINVAL || result == -EPIPE)
		return result;
	if (result != 0)
		return 0;
	if (!slot_room(&ctx->sub, 1))
		return -EAGAIN;
	withdraw(ctx, id & 0xFFFF, 0, ECANCELED);
	return 0;
}
