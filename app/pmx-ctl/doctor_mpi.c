/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, MPI: would Open MPI take the libfabric provider (ofi/)? Says nothing on a host that has
 * neither.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define PROVIDER     "libpmx-fi.so"
#define OPENMPI_FILE "/etc/openmpi/openmpi-mca-params.conf"

static bool
is_in(const char *dir, size_t len)
{
	char *path = text("%.*s/" PROVIDER, (int)len, dir);
	bool there = access(path, R_OK) == 0;

	free(path);
	return there;
}

/* Whether the provider is in one of libfabric's directories, which are separated by colons. */
static bool
provider_is_in(const char *dirs)
{
	while (*dirs != 0) {
		size_t len = strcspn(dirs, ":");

		if (is_in(dirs, len))
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}

/* Whether a line of the file, `mtl = ^ofi` on Debian, leaves libfabric out. */
static bool
file_excludes(void)
{
	FILE *f = fopen(OPENMPI_FILE, "r");
	char line[1024];
	bool excludes = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		const char *s = line;

		while (isspace((unsigned char)*s))
			s++;
		if (strncmp(s, "mtl", 3) != 0 || strchr(" \t=", s[3]) == NULL)
			continue;
		s = strchr(s, '=');
		excludes = s != NULL && strchr(s, '^') != NULL && strstr(s, "ofi") != NULL;
	}
	if (f != NULL)
		fclose(f);
	return excludes;
}

void
doctor_mpi(struct doctor *d)
{
	const char *dirs = getenv("FI_PROVIDER_PATH"), *mtl = getenv("OMPI_MCA_mtl"),
		   *provider = getenv("FI_PROVIDER");
	const char *where = dirs != NULL ? dirs : PROVIDER_DIR;
	bool there = provider_is_in(where), openmpi = access(OPENMPI_FILE, R_OK) == 0;

	if (!there && !openmpi)
		return;
	found(d, there ? OK : WARN, "mpi: provider",
		there ? NULL : "ninja -C build install, or export FI_PROVIDER_PATH=.../build/ofi",
		"%s %s %s", PROVIDER, there ? "is in" : "is not in", where);
	if (!openmpi)
		return;
	bool excluded = mtl != NULL ? strstr(mtl, "ofi") == NULL || *mtl == '^' : file_excludes();

	found(d, excluded ? WARN : OK, "mpi: Open MPI", excluded ? "export OMPI_MCA_mtl=ofi" : NULL,
		excluded ? "%s leaves libfabric out" : "%s lets it use libfabric",
		mtl != NULL ? "OMPI_MCA_mtl" : OPENMPI_FILE);
	bool first = provider != NULL && strcmp(provider, "pmx") == 0;

	found(d, first ? OK : WARN, "mpi: choice", first ? NULL : "export FI_PROVIDER=pmx",
		first ? "FI_PROVIDER=pmx"
		      : "FI_PROVIDER is not pmx: libfabric names net;ofi_rxm first, and Open MPI "
			"takes the first");
}
