/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a primary tells by ATTACH_TELL: commands of telemetry that change nothing, by their numbers,
 * so that nothing of a client's has to be read.
 */
#ifndef PMX_CHANNEL_TELL_H
#define PMX_CHANNEL_TELL_H

#include <stddef.h>

static const char *const tell_commands[] = {"/pmx/info", "/pmx/stat", "/pmx/drops", "/pmx/peers",
	"/pmx/peer_counters", "/pmx/links", "/pmx/rails", "/pmx/memory", "/pmx/groups",
	"/pmx/regions", "/pmx/contexts", "/pmx/discovery"};

#define TELL_COMMANDS (sizeof(tell_commands) / sizeof(tell_commands[0]))

#endif
