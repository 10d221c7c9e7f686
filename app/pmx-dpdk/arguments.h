/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the EAL arguments say that pmx-dpdk must know before the EAL begins. They are read by
 * getopt_long, as the EAL reads them: joined (-l0, --huge-dir=DIR), apart, or abbreviated.
 */
#ifndef PMX_ARGUMENTS_H
#define PMX_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "node/check.h"

/* NULL: not given. Of what is given twice, the last. */
struct eal_arguments {
	const char *file_prefix, *huge_dir;
	const char *lcores;     /* of -l or --lcores */
	const char *core_mask;  /* -c */
	const char *memory_mib; /* -m */
	const char *socket_mem, *socket_limit;
	bool no_huge, in_memory, legacy_mem;
};

void arguments_read(struct eal_arguments *a, int argc, char **argv);

/* What a node of that configuration would have with these. -EINVAL, -EAGAIN and a sentence, as
 * config_check_start. left: hugepage files of this name are of a dead instance, and will be
 * removed. */
int arguments_host(const struct eal_arguments *a, const struct config *c, bool left,
	struct config_host *h, char *error, size_t error_len);

/* Where the EAL looks for hugepages if the arguments do not say. */
#define HUGE_DIR "/dev/hugepages"

#endif
