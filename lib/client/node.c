/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What attached and embedded nodes have in common: opening and closing contexts, errors in words.
 * Called from the application's threads, not on the data path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

int
pmx_context_open(struct pmx_context **ctx, struct pmx_node *node,
	const struct pmx_context_params *params)
{
	return node->embedded ? embedded_open(ctx, node, params) : attach_open(ctx, node, params);
}

void
pmx_context_close(struct pmx_context *ctx)
{
	if (ctx == NULL)
		return;
	if (ctx->node->embedded)
		embedded_close(ctx);
	else
		attach_close(ctx);
	context_free(ctx);
}

void
pmx_node_close(struct pmx_node *node)
{
	if (node == NULL)
		return;
	while (node->contexts != NULL)
		pmx_context_close(node->contexts);
	if (node->embedded)
		embedded_end(node);
	else
		attach_end(node);
	free(node);
}

uint16_t
pmx_node_number(const struct pmx_node *node)
{
	return node->number;
}

static const struct {
	int error;
	const char *text;
} texts[] = {
	{0, "success"},
	{EAGAIN, "the submission ring is full: receive or poll, then try again"},
	{EALREADY, "this process already runs the DPDK EAL of another primary: attach before "
		   "rte_eal_init, or use one primary"},
	{EBUSY, "that context number is in use: choose another, or PMX_ANY_CONTEXT"},
	{ECANCELED, "pmx_cancel() took it back"},
	{ECONNREFUSED, "no context of that number is open at the destination: start the receiving "
		       "application, check the number"},
	{ECONNRESET, "the receiver was restarted or closed while the message was on its way: it may "
		     "or may not have arrived"},
	{EHOSTUNREACH, "that node is not in [nodes] of the configuration, or never answered: check "
		       "its number and that its primary runs"},
	{EINPROGRESS, "too late: a message has matched that receive, or it is a send"},
	{EINVAL, "an argument is out of range"},
	{EMSGSIZE, "the message is longer than pmx_get_max_message(), or than the receiving node "
		   "takes: raise limits.send_buffers, receive_buffers or message_max; or than the receive that "
		   "took it, which has its first bytes"},
	{ENOBUFS, "all send buffers wait for their Acks: receive or poll, then try again"},
	{ENODEV, "the DPDK EAL did not start: see its messages; pmx-ctl doctor helps"},
	{ENOENT, "no pmx-dpdk primary of that name runs for this user: start one, check node.name"},
	{ENOMEM, "out of memory"},
	{ENOSPC, "the node has too few free mbufs for these quotas: ask for less, or raise "
		 "limits.mbufs"},
	{EPIPE, "the engine is gone: the primary stopped, or the context was closed"},
	{EPROTO, "the primary is of another version: run applications and primary of one build"},
	{ETIMEDOUT, "no answer in time"},
};

const char *
pmx_strerror(int error)
{
	if (error < 0)
		error = -error;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].error == error)
			return texts[i].text;
	}
	return strerror(error);
}
