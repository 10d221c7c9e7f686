/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of services.
 */
#include <stddef.h>

#include "client/service.h"

const struct client_service *const client_services[] = {&client_match, &client_pairs,
	&client_transfer, &client_memory, &client_group, &client_coll, &client_told, &client_watch,
	NULL};
