/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests and waits of requests. Runs in the context's thread.
 */
#include <errno.h>

#include "match/client/match.h"

/* Take the result of a request that has ended, and free the request. */
static int
match_wait_finish(struct match *x, struct match_request *r, pmx_request *request,
	struct pmx_status *status)
{
	int error = r->status.error;

	if (status != NULL)
		*status = r->status;
	*request = 0;
	request_free(x, (uint32_t)(r - x->requests));
	return error != 0 ? error : 1;
}

static inline bool
has_ended(struct match *x, pmx_request id)
{
	const struct match_request *r = request_of(x, id);

	return r == NULL || r->state == REQUEST_ENDED || r->state == REQUEST_TAKEN;
}

/* Return the result of a test. If it is 0 the test is an empty poll, which may yield the CPU. */
static int
not_yet(struct pmx_context *ctx, int result)
{
	if (result == 0)
		ctx_yield(ctx);
	return result;
}

int
pmx_test(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status)
{
	if (*request == 0)
		return 1;
	struct match_request *r = request_of(ctx->match, *request);

	if (unlikely(r == NULL || r->state == REQUEST_TAKEN || r->queued))
		return -EINVAL;
	if (likely(r->state != REQUEST_ENDED)) {
		struct match *x = ctx->match;
		const struct lhs_entry *e = x->queue.posted.only != MATCH_NONE
			? lhs_peek(&x->queue.heads.ring)
			: NULL;
		int result = 0;

		if (e == NULL || unlikely(!ring_receive_only(ctx, e)))
			result = match_progress(ctx);

		if (r->state != REQUEST_ENDED)
			return not_yet(ctx, result);
	}
	return match_wait_finish(ctx->match, r, request, status);
}

int
pmx_test_any(struct pmx_context *ctx, pmx_request *requests, unsigned n, unsigned *index,
	struct pmx_status *status)
{
	int result = -ENOENT;

	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < n; i++) {
			if (requests[i] == 0)
				continue;
			struct match_request *r = request_of(ctx->match, requests[i]);

			if (r == NULL || r->state == REQUEST_TAKEN || r->state == REQUEST_ENDED) {
				*index = i;
				return pmx_test(ctx, &requests[i], status);
			}
			result = 0;
		}
		if (result != 0 || turn > 0)
			return not_yet(ctx, result);
		result = match_progress(ctx);
		if (result != 0)
			return result;
	}
	return result;
}

int
pmx_test_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses)
{
	bool looked = false;
	int first = 1;

	for (unsigned i = 0; i < n; i++) {
		if (requests[i] == 0 || has_ended(ctx->match, requests[i]))
			continue;
		int result = looked ? 0 : match_progress(ctx);

		looked = true;
		if (!has_ended(ctx->match, requests[i]))
			return not_yet(ctx, result);
	}
	for (unsigned i = 0; i < n; i++) {
		int result = pmx_test(ctx, &requests[i], statuses != NULL ? &statuses[i] : NULL);

		first = first < 0 ? first : result;
	}
	return first;
}

int
pmx_poll_ended(struct pmx_context *ctx, struct pmx_ended *ended, unsigned n)
{
	struct match *x = ctx->match;
	unsigned k = 0;
	int result = 0;

	if (x == NULL)
		return ctx_gone(ctx) ? -EPIPE : 0;
	if (x->ended.head == NO_REQUEST)
		result = match_progress(ctx);
	for (uint32_t i; k < n && (i = x->ended.head) != NO_REQUEST; k++) {
		struct match_request *r = &x->requests[i];

		x->ended.head = r->next;
		ended[k] = (struct pmx_ended){r->cookie, r->status};
		request_free(x, i);
	}
	return k != 0 || n == 0 ? (int)k : not_yet(ctx, result);
}

int
pmx_wait(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status,
	int64_t timeout_us)
{
	struct waiting w = {0};
	int result;

	while ((result = pmx_test(ctx, request, status)) == 0) {
		if (!ctx_wait_turn(ctx, &w, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}

int
pmx_wait_any(struct pmx_context *ctx, pmx_request *requests, unsigned n, unsigned *index,
	struct pmx_status *status, int64_t timeout_us)
{
	struct waiting w = {0};
	int result;

	while ((result = pmx_test_any(ctx, requests, n, index, status)) == 0) {
		if (!ctx_wait_turn(ctx, &w, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}

int
pmx_wait_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses, int64_t timeout_us)
{
	struct waiting w = {0};
	int result;

	while ((result = pmx_test_all(ctx, requests, n, statuses)) == 0) {
		if (!ctx_wait_turn(ctx, &w, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}
