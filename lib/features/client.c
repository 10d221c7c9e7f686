/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The services of a context: a row each.
 */
#include <stddef.h>

#include "client/pairs.h"
#include "coll/client/submit.h"
#include "group/client/group.h"
#include "match/client/match.h"
#include "rma/client/rma.h"

const struct client_service *const features_client[] = {&client_match, &client_plain, &client_pairs,
	&client_events, &client_transfer, &client_memory, &client_group, &client_coll, &client_told,
	&client_watch, NULL};
