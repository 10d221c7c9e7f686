/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that a shared object imports, which another function can stand in for.
 */
#ifndef PMX_IMPORT_H
#define PMX_IMPORT_H

#include <stdbool.h>

/* Let the shared object whose file name contains `object` call `replacement` where it calls the
 * imported function of that name. All other objects call what they called. Return whether that is
 * done; it is not if no such object is loaded, or if it does not import the function. Any
 * thread. */
bool import_replace(const char *object, const char *function, void *replacement);

#endif
