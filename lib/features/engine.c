/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The services of a node, each after those that it is built on. Nothing else is in this file: a
 * program with another service brings its own list, which is linked instead of this one.
 */
#include <stddef.h>

#include "coll/engine/coll.h"
#include "group/engine/group.h"
#include "match/engine/match.h"
#include "rma/engine/rma.h"
#include "node/node.h"
#include "preempt/engine/preempt.h"

const struct service_ops *const features_engine[] = {&service_rma, &service_match, &service_group,
	&service_coll, &service_preempt, NULL};
