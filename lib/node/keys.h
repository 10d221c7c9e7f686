/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of configuration keys, for what reads, checks or documents a configuration.
 */
#ifndef PMX_NODE_KEYS_H
#define PMX_NODE_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum value_kind {
	KIND_U32,
	KIND_U16,
	KIND_BOOL,
	KIND_CHOICE, /* choices separated by '|', stored as their index */
	KIND_DRIVER, /* name of a link's driver */
	KIND_TEXT,
	KIND_NAME,    /* name of an instance, which is a part of paths (lib/channel/instance.h) */
	KIND_NETWORK, /* own IPv4 address, with or without the length of its network's prefix */
	KIND_AUTO,    /* U32, or auto, stored as 0, where that is a number as CONFIG_AUTO */
};

struct config_key {
	const char *section, *name;
	enum value_kind kind;
	size_t offset;
	unsigned rules;       /* RULE_* */
	uint64_t min, max;    /* of numbers; TEXT: max is its bytes with the 0 */
	const char *fallback; /* default, NULL = must be given */
	const char *unit;     /* or the choices */
	const char *help;
};

#define RULE_AGREES 0x1 /* the same in two primaries for one to take over from the other */
#define RULE_LIVE   0x2 /* may change in a running node */

extern const struct config_key node_config_keys[];
extern const size_t node_config_key_count;

#endif
