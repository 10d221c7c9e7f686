/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Names of instances (node.name), and the files that the EAL keeps by them. What is removed by a
 * name is found by comparing whole file names: a pattern would take a * in a name for its own, and
 * the files of pmx0map_1 for those of pmx0.
 */
#ifndef PMX_INSTANCE_H
#define PMX_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSTANCE_NAME_MAX 32 /* with the 0 */
#define INSTANCE_NAME_RULE                                                                         \
	"1 to 31 of the characters A-Z a-z 0-9 . _ -, the first a letter or a digit"

bool instance_name_ok(const char *name);

/* Where the EAL keeps a directory dpdk/PREFIX for each primary, by its own rule: for who looks for
 * one from outside. */
const char *eal_base(void);

/* Every mount of hugepages: where, and the bytes of a page. */
void each_huge_mount(void (*visit)(void *arg, const char *dir, uint64_t page_bytes), void *arg);

/* Length of PREFIX if a hugepage file of that name, without its directory, is one of the EAL of
 * that --file-prefix (PREFIXmap_NUMBER); 0: it is no such file. */
size_t eal_map_owner(const char *file);

/* Files of a directory for which `is` holds; links are not followed. Counts them, and removes them
 * if so told. */
size_t files_that(const char *dir, bool (*is)(const char *file, const void *arg), const void *arg,
	bool remove);
/* For files_that: a hugepage file of the EAL of the prefix that arg points to; any file. */
bool is_map_of(const char *file, const void *prefix);
bool is_any(const char *file, const void *unused);

#endif
