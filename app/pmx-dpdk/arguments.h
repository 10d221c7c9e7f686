/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What pmx-dpdk must know of the EAL arguments before the EAL starts. They are read by
 * getopt_long(), as the EAL does: joined (-l0, --huge-dir=DIR), separate, or abbreviated.
 */
#ifndef PMX_ARGUMENTS_H
#define PMX_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "node/check.h"

/* NULL: not given. If an argument is given twice, the last one counts. */
struct eal_arguments {
	const char *file_prefix, *huge_dir;
	const char *lcores;     /* of -l or --lcores */
	const char *core_mask;  /* -c */
	const char *memory_mib; /* -m */
	const char *socket_mem, *socket_limit;
	bool no_huge, in_memory, legacy_mem;
	const char *vdevs[16]; /* of each --vdev */
	unsigned vdev_count;
	bool any; /* there are EAL arguments */
};

void arguments_read(struct eal_arguments *a, int argc, char **argv);

/* Find out what a node of that configuration would have on this host with these arguments. Return
 * 0, or -EINVAL or -EAGAIN with a message in error, as node_config_check_start() does. left:
 * hugepage files of this name are of a dead instance, and will be removed. */
int arguments_host(const struct eal_arguments *a, const struct config *c, bool left,
	struct config_host *h, char *error, size_t error_len);

/* The directory where the EAL looks for hugepages if the arguments do not name one. */
#define HUGE_DIR "/dev/hugepages"

#endif
