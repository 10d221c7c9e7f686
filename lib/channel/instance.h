/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Names of instances (node.name), and the files that the EAL keeps for them. Files to be removed
 * are found by comparing whole file names, because with a pattern a * in a name would match
 * anything, and the files of pmx0map_1 would be taken for those of pmx0.
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

#define RUN_DIR_MAX 256

/* Write the directory where primaries that this user runs keep their sockets, NAME.sock, and
 * process numbers, NAME.pid: /run/pmx-dpdk for root, else $XDG_RUNTIME_DIR/pmx-dpdk, else
 * /tmp/pmx-dpdk-UID. */
void run_dir(char *dir, size_t size);
/* Write that directory as run_dir() does, and make it if it is not there: root's for all to look
 * into, others' for nobody else. Return 0; -EPERM: it is another user's; or another -errno. */
int run_dir_make(char *dir, size_t size);

/* Write the directory of this user's own primaries' sockets to dir. Return whether it is there, is
 * this user's, and is not ATTACH_SOCKETS, which belongs to root. */
bool own_sockets(char *dir, size_t size);

/* Return whether `path` is a socket on which nobody listens any more. */
bool is_stale_socket(const char *path);

/* Return the directory where the EAL, by its own rule, keeps a directory dpdk/PREFIX for each
 * primary. It is for processes that look for one without an EAL of their own. */
const char *eal_base(void);

/* Take the turn to begin an EAL at a primary, by a descriptor of that EAL's file "config"; the
 * kernel gives it back when the descriptor is closed, or its process is killed. EALs that begin at
 * the same time may harm each other: at its end each tries the locks of all processes' files, to
 * remove those of the dead, and if one has just made its file it cannot lock it then, and fails
 * ("Cannot initialize local memory map": once in some 2,000 starts, eight at a time). Return
 * whether it was got: who has it may be stopped, so it is not waited for without end. */
bool instance_turn_take(int config);

/* Call `visit` once for each directory where hugepages are mounted, with its page size in bytes. */
void each_huge_mount(void (*visit)(void *arg, const char *dir, uint64_t page_bytes), void *arg);

/* `file` is the name of a hugepage file, without its directory. Returns the length of PREFIX if the
 * EAL of a --file-prefix names its files so (PREFIXmap_NUMBER), otherwise 0. */
size_t eal_map_owner(const char *file);

/* Return how many files of a directory `is` accepts, and remove them if `remove` is set. Links are
 * not followed. */
size_t files_that(const char *dir, bool (*is)(const char *file, const void *arg), const void *arg,
	bool remove);
/* Return whether files_that() shall take a file: is_map_of accepts the hugepage files of the EAL
 * whose prefix the argument points to; is_any accepts all files. */
bool is_map_of(const char *file, const void *prefix);
bool is_any(const char *file, const void *unused);

#endif
