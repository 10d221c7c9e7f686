/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Commands about groups, from the application to the engine; of group.c, multicast.c and region.c.
 * Runs in the context's thread.
 */
#include <errno.h>

#include "group/client/group.h"

struct submission *
ctx_group_begin(struct pmx_group *g, enum group_command command)
{
	struct slot_end *sub = &g->ctx->sub;

	if (!slot_room(sub, 1))
		return NULL;
	struct submission *s = (struct submission *)slot_at(sub, sub->pos)->body;

	s->op = SUBMIT_GROUP;
	s->pad = 0;
	s->count = (uint16_t)command;
	memset(&s->group, 0, sizeof(s->group));
	s->group.handle = g->handle;
	return s;
}

void
ctx_group_end(struct pmx_group *g)
{
	slot_publish(&g->ctx->sub, g->ctx->sub.pos++);
	ctx_doorbell(g->ctx);
}

int
ctx_group_submit(struct pmx_group *g, enum group_command command, uint32_t number)
{
	struct submission *s = ctx_group_begin(g, command);

	if (s == NULL)
		return -EAGAIN;
	s->group.number = number;
	ctx_group_end(g);
	return 0;
}

int
ctx_group_check_ask(struct pmx_group *g, const pmx_request *request)
{
	int result = request == NULL ? -EINVAL : ctx_group_check(g);

	return result == 0 && !slot_room(&g->ctx->sub, 1) ? -EAGAIN : result;
}
