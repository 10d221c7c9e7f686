/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Design notes
 * 1. A shared object calls what it imports through a table of addresses, which the dynamic linker
 *    fills by the relocations that the object's dynamic section lists: ELF gABI, "Dynamic Linking".
 *    One entry of the table is written anew.
 * 2. This file is compiled without this folder among its includes, since <link.h> here is the C
 *    library's.
 */
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import.h"

/* The imports of a shared object, by its dynamic section. */
struct imports {
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * tables[2];
	size_t bytes[2];
};

/* A call of import_replace(). */
struct import_request {
	const char *object, *function;
	void *replacement;
	bool done;
};

/* Return what an entry of the dynamic section points at. glibc has added the object's base to it;
 * other C libraries leave it as it is in the file. */
static const void *
dynamic_pointer(const struct dl_phdr_info *object, const ElfW(Dyn) * entry)
{
	const ElfW(Addr) at = entry->d_un.d_ptr;

	return (const void *)(at < object->dlpi_addr ? at + object->dlpi_addr : at);
}

static struct imports
imports_of(const struct dl_phdr_info *object, const ElfW(Dyn) * dynamic)
{
	struct imports found = {0};

	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			found.symbols = dynamic_pointer(object, d);
			break;
		case DT_STRTAB:
			found.names = dynamic_pointer(object, d);
			break;
		case DT_JMPREL:
			found.tables[0] = dynamic_pointer(object, d);
			break;
		case DT_PLTRELSZ:
			found.bytes[0] = d->d_un.d_val;
			break;
		case DT_RELA:
			found.tables[1] = dynamic_pointer(object, d);
			break;
		case DT_RELASZ:
			found.bytes[1] = d->d_un.d_val;
			break;
		}
	}
	return found;
}

/* Return where a shared object keeps the address of a function that it imports, or NULL. */
static void **
import_find(const struct dl_phdr_info *object, const ElfW(Dyn) * dynamic, const char *function)
{
	const struct imports imports = imports_of(object, dynamic);

	for (int t = 0; t < 2; t++) {
		const ElfW(Rela) *r = imports.tables[t];

		for (size_t n = imports.bytes[t] / sizeof(*r); n > 0; n--, r++) {
			const ElfW(Sym) *symbol = &imports.symbols[ELF64_R_SYM(r->r_info)];

			if (strcmp(&imports.names[symbol->st_name], function) == 0)
				return (void **)(object->dlpi_addr + r->r_offset);
		}
	}
	return NULL;
}

/* Write an entry of a table that is read-only once its object is loaded, or that is not. Return
 * whether that could be done. */
static bool
import_set(void **entry, void *function, bool read_only)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *begin = (void *)((uintptr_t)entry & ~(uintptr_t)(page - 1));

	if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0)
		return false;
	__atomic_store_n(entry, function, __ATOMIC_RELEASE);
	if (read_only)
		mprotect(begin, page, PROT_READ);
	return true;
}

static int
replace_in(struct dl_phdr_info *object, size_t size, void *arg)
{
	struct import_request *r = arg;
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
	ElfW(Addr) begin = 0, end = 0; /* of whole pages that are read-only once it is loaded */

	(void)size;
	if (strstr(object->dlpi_name, r->object) == NULL)
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &object->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC) {
			dynamic = (const void *)(object->dlpi_addr + p->p_vaddr);
		} else if (p->p_type == PT_GNU_RELRO) {
			begin = (object->dlpi_addr + p->p_vaddr) & ~(page - 1);
			end = (object->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);
		}
	}
	void **entry = dynamic == NULL ? NULL : import_find(object, dynamic, r->function);
	const ElfW(Addr) at = (ElfW(Addr))entry;

	r->done = entry != NULL && import_set(entry, r->replacement, at >= begin && at < end);
	return 1;
}

bool
import_replace(const char *object, const char *function, void *replacement)
{
	struct import_request r = {object, function, replacement, false};

	dl_iterate_phdr(replace_in, &r);
	return r.done;
}
