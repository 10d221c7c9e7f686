/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The services of a node, each after those that it is built on. Nothing else is in this file: a
 * program with another service brings its own list, which is linked instead of this one.
 */
#include <stddef.h>

#include "engine/service/coll/coll.h"
#include "engine/service/group/group.h"
#include "engine/service/match/match.h"
#include "engine/service/rma/rma.h"
#include "node/node.h"

const struct service_ops *const node_services[] = {&service_rma, &service_match, &service_group,
	&service_coll, NULL};
