/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching of messages by the lane (engine.matching = engine).
 */
#ifndef PMX_ENGINE_MATCH_H
#define PMX_ENGINE_MATCH_H

#include "engine/service.h"

extern const struct service_ops service_match;

#endif
