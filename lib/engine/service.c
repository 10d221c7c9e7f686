/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables that find a service: see service.h.
 */
#include <errno.h>

#include "engine/service.h"

static int
engine_service_take(const struct service_ops **place, const struct service_ops *ops)
{
	if (*place != NULL)
		return -EINVAL;
	*place = ops;
	return 0;
}

int
services_init(struct services *s, const struct service_ops *const *list)
{
	int result = 0;

	*s = (struct services){0};
	for (unsigned i = 0; list[i] != NULL; i++) {
		const struct service_ops *ops = list[i];

		if (i + 1 >= SERVICES_MAX || ops->number == 0 || ops->number >= SERVICES_MAX)
			return -EINVAL;
		s->list[s->count++] = ops;
		result |= engine_service_take(&s->numbered[ops->number], ops);
		if (ops->multicast != NULL) {
			result |= s->multicast != NULL ? -EINVAL : 0;
			s->multicast = ops->multicast;
		}
		if (ops->has_member != NULL) {
			result |= s->has_member != NULL ? -EINVAL : 0;
			s->has_member = ops->has_member;
		}
		if (ops->command != NULL) {
			result |= s->command != NULL ? -EINVAL : 0;
			s->command = ops->command;
		}
		for (unsigned k = 0; k < ENDPOINTS_MAX; k++) {
			result |= ops->endpoints >> k & 1
				? engine_service_take(&s->endpoint[k], ops)
				: 0;
			result |= ops->sends >> k & 1 ? engine_service_take(&s->sender[k], ops) : 0;
		}
		for (unsigned k = 0; k < SUBMISSIONS_MAX; k++) {
			if (ops->submit[k] == NULL)
				continue;
			result |= s->submit[k] != NULL ? -EINVAL : 0;
			s->submit[k] = ops->submit[k];
		}
	}
	return result ? -EINVAL : 0;
}
