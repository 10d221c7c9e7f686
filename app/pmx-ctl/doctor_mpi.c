/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, MPI: would Open MPI take its component for pmx (mpi/mtl), or the libfabric provider
 * (ofi/)? Says nothing on a host that has neither these nor Open MPI.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define PROVIDER     "libpmx-fi.so"
#define COMPONENT    "mca_mtl_pmx.so"
#define PATH_NAME    "mca_base_component_path"
#define OPENMPI_OWN  "SYSTEM_DEFAULT" /* its directory of components, in a path */
#define OPENMPI_FILE "/etc/openmpi/openmpi-mca-params.conf"
#define OWN_FILE     ".openmpi/mca-params.conf" /* in the user's home */

static bool
is_in(const char *name, const char *dir, size_t len)
{
	char *path = text("%.*s/%s", (int)len, dir, name);
	bool there = access(path, R_OK) == 0;

	free(path);
	return there;
}

/* Return whether the file is in one of these directories, which are separated by colons.
 * OPENMPI_OWN is Open MPI's own. */
static bool
is_in_one(const char *name, const char *dirs)
{
	while (*dirs != 0) {
		size_t len = strcspn(dirs, ":");

		if (is_in(name, dirs, len))
			return true;
		if (len == strlen(OPENMPI_OWN) && memcmp(dirs, OPENMPI_OWN, len) == 0 &&
			is_in(name, COMPONENT_DIR, strlen(COMPONENT_DIR)))
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}

/* Copy the value that a file of Open MPI's gives the parameter. Return false if the file does not
 * set it. */
static bool
file_sets(const char *path, const char *name, char *value, size_t size)
{
	const size_t len = strlen(name);
	FILE *f = fopen(path, "r");
	char line[1024];
	bool sets = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		const char *s = line + strspn(line, " \t");

		if (strncmp(s, name, len) != 0)
			continue;
		s += len + strspn(s + len, " \t");
		if (*s != '=')
			continue;
		s += 1 + strspn(s + 1, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(s, " \t\r\n"), s);
		sets = true;
	}
	if (f != NULL)
		fclose(f);
	return sets;
}

/* Find the value of a parameter of Open MPI where Open MPI looks for it: in the environment, in the
 * user's file, in the host's. Return the name of the place, which the caller frees, or NULL if the
 * parameter is set nowhere. */
static char *
find_parameter(const char *name, char *value, size_t size)
{
	const char *home = getenv("HOME");
	char *variable = text("OMPI_MCA_%s", name), *own;

	if (getenv(variable) != NULL) {
		snprintf(value, size, "%s", getenv(variable));
		return variable;
	}
	free(variable);
	own = text("%s/" OWN_FILE, home != NULL ? home : "/");
	if (file_sets(own, name, value, size))
		return own;
	free(own);
	return file_sets(OPENMPI_FILE, name, value, size) ? text("%s", OPENMPI_FILE) : NULL;
}

/* Return whether a list of Open MPI's, of names or after a ^ of those that are left out, takes a
 * component. */
static bool
list_takes(const char *list, const char *name)
{
	const bool leaves_out = *list == '^';

	return (strstr(list, name) != NULL) != leaves_out;
}

/* Report whether Open MPI finds its component for pmx, and takes it. Return whether it does. */
static bool
doctor_component(struct doctor *d)
{
	char dirs[1024] = COMPONENT_DIR, mtl[256] = "^", pml[256] = "^";
	char *path = find_parameter(PATH_NAME, dirs, sizeof(dirs));
	char *of_mtl = find_parameter("mtl", mtl, sizeof(mtl));
	char *of_pml = find_parameter("pml", pml, sizeof(pml));
	const bool there = is_in_one(COMPONENT, dirs);
	const bool by_mtl = list_takes(mtl, "pmx"), by_pml = list_takes(pml, "cm");

	if (!there)
		found(d, WARN, "mpi: component",
			"ninja -C build install, or export OMPI_MCA_" PATH_NAME
			"=.../build/mpi:" OPENMPI_OWN ":USER_DEFAULT",
			COMPONENT " is not in %s", dirs);
	else if (!by_mtl || !by_pml)
		found(d, WARN, "mpi: component", "take that line away, or name pmx and cm there",
			"%s leaves it out: %s = %s", by_mtl ? of_pml : of_mtl,
			by_mtl ? "pml" : "mtl", by_mtl ? pml : mtl);
	else
		found(d, OK, "mpi: component", NULL,
			COMPONENT " is in %s: Open MPI takes it where a primary runs", dirs);
	free(path);
	free(of_mtl);
	free(of_pml);
	return there && by_mtl && by_pml;
}

/* Report whether Open MPI may use libfabric: Debian's file says `mtl = ^ofi`. */
static void
doctor_mtl(struct doctor *d)
{
	char mtl[256];
	char *where = find_parameter("mtl", mtl, sizeof(mtl));
	const bool excluded = where != NULL && !list_takes(mtl, "ofi");

	found(d, excluded ? WARN : OK, "mpi: Open MPI",
		excluded ? "echo 'mtl = ofi' >>~/" OWN_FILE ", or export OMPI_MCA_mtl=ofi" : NULL,
		excluded ? "%s leaves libfabric out" : "%s lets it use libfabric",
		where != NULL ? where : OPENMPI_FILE);
	free(where);
}

/* Report whether Open MPI takes this provider. */
static void
doctor_choice(struct doctor *d)
{
	const char *provider = getenv("FI_PROVIDER");
	char list[256];
	char *where = find_parameter("mtl_ofi_provider_include", list, sizeof(list));
	bool listed = where != NULL && strcmp(list, "pmx") == 0;
	bool first = provider != NULL && strcmp(provider, "pmx") == 0;

	if (first || listed)
		found(d, OK, "mpi: choice", NULL, "%s", first ? "FI_PROVIDER=pmx" : where);
	else
		found(d, WARN, "mpi: choice",
			"echo 'mtl_ofi_provider_include = pmx' >>~/" OWN_FILE
			", or export FI_PROVIDER=pmx",
			"nothing says that it is to be pmx: libfabric names net;ofi_rxm first, and "
			"Open MPI takes the first");
	free(where);
}

static bool
has_mpirun(void)
{
	char dirs[4096], *save = NULL;
	const char *path = getenv("PATH");
	bool found = false;

	snprintf(dirs, sizeof(dirs), "%s", path != NULL ? path : "");
	for (const char *dir = strtok_r(dirs, ":", &save); dir != NULL && !found;
		dir = strtok_r(NULL, ":", &save)) {
		char *file = text("%s/mpirun", dir);

		found = access(file, X_OK) == 0;
		free(file);
	}
	return found;
}

void
doctor_mpi(struct doctor *d)
{
	const char *dirs = getenv("FI_PROVIDER_PATH");
	const char *where = dirs != NULL ? dirs : PROVIDER_DIR;
	/* other programs bring Open MPI's files with them */
	bool there = is_in_one(PROVIDER, where),
	     openmpi = access(OPENMPI_FILE, R_OK) == 0 && has_mpirun();

	if (!there && !openmpi)
		return;
	found(d, there ? OK : WARN, "mpi: provider",
		there ? NULL : "ninja -C build install, or export FI_PROVIDER_PATH=.../build/ofi",
		"%s %s %s", PROVIDER, there ? "is in" : "is not in", where);
	/* without its component Open MPI needs to be told of the provider */
	if (!openmpi || doctor_component(d) || !there)
		return;
	doctor_mtl(d);
	doctor_choice(d);
}
