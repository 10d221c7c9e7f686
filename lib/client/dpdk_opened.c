/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The part with DPDK of libpmx.so, which is opened when it is first needed: see dpdk.h. It lies
 * beside libpmx.so, or where the dynamic linker finds it.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/dpdk.h"

/* Open the library in the folder of libpmx.so, or by its name alone. It is never closed: its EAL
 * would outlive it. */
static void *
open_library(void)
{
	const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	char path[PATH_MAX];
	Dl_info self;
	void *library = NULL;
	const char *name = dladdr((void *)(uintptr_t)dpdk_open, &self) != 0
		? strrchr(self.dli_fname, '/')
		: NULL;

	if (name != NULL &&
		snprintf(path, sizeof(path), "%.*s/" PMX_DPDK_LIBRARY, (int)(name - self.dli_fname),
			self.dli_fname) < (int)sizeof(path))
		library = dlopen(path, how);
	return library != NULL ? library : dlopen(PMX_DPDK_LIBRARY, how);
}

const struct dpdk_part *
dpdk_open(char *error, uint32_t error_len)
{
	void *library = open_library();
	const struct dpdk_part *part = library != NULL ? dlsym(library, "pmxprivate_dpdk_part")
						       : NULL;

	if (part == NULL) {
		snprintf(error, error_len,
			"the part of libpmx that needs DPDK cannot be opened (package "
			"libpmx-dpdk): %s",
			dlerror());
		return NULL;
	}
	if (strcmp(part->version, PMX_VERSION) != 0) {
		snprintf(error, error_len,
			PMX_DPDK_LIBRARY " is of version %s, and libpmx of version " PMX_VERSION
					 ": install both anew, and start this program again",
			part->version);
		return NULL;
	}
	return part;
}
