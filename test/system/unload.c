/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that loads the library by dlopen(), registers memory, transfers, closes all and unloads
 * it, as a language's foreign function interface does. Then the memory is unmapped, which the
 * library's thread is told of. fork.sh runs it.
 *
 * Usage: unload LIBRARY INSTANCE
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pmx/pmx.h"

#define BYTES (256u << 10)
#define LOAD(name)                                                                                 \
	__typeof__(&name) name##_ = (__typeof__(&name))(uintptr_t)dlsym(library, #name);           \
	if (name##_ == NULL) {                                                                     \
		fprintf(stderr, "unload: %s\n", dlerror());                                        \
		return 2;                                                                          \
	}

int
main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct pmx_node *node;
	struct pmx_context *ctx;
	struct pmx_remote remote;

	if (library == NULL) {
		fprintf(stderr, "unload: %s\n", argc == 3 ? dlerror() : "LIBRARY INSTANCE");
		return 2;
	}
	LOAD(pmx_node_attach)
	LOAD(pmx_node_close)
	LOAD(pmx_context_open)
	LOAD(pmx_context_close)
	LOAD(pmx_register)
	LOAD(pmx_push)
	LOAD(pmx_sync_wait)
	LOAD(pmx_strerror)
	uint8_t *memory = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	int e = pmx_node_attach_(&node, argv[2], NULL);

	if (memory == MAP_FAILED)
		return 2;
	memset(memory, 1, BYTES);
	if (e == 0)
		e = pmx_context_open_(&ctx, node, PMX_ANY_CONTEXT, NULL);
	if (e == 0)
		e = pmx_register_(ctx, memory, 2 * BYTES, PMX_REMOTE_WRITE | PMX_ADOPT, &remote);
	if (e != 0) {
		fprintf(stderr, "unload: %s\n", pmx_strerror_(e));
		return 1;
	}
	const struct pmx_transfer t = {
		.peer = remote.owner,
		.key = remote.key,
		.remote = remote.addr + BYTES,
		.local = memory,
		.len = BYTES,
	};

	e = pmx_push_(ctx, &t, NULL);
	if (e == 0)
		e = pmx_sync_wait_(ctx, 20000000);
	if (e != 0 || memory[2 * BYTES - 1] != 1) {
		fprintf(stderr, "unload: the push: %s\n", pmx_strerror_(e));
		return 1;
	}
	pmx_context_close_(ctx);
	pmx_node_close_(node);
	dlclose(library);
	munmap(memory, 2 * BYTES);
	usleep(100000); /* in which a thread whose code is gone would crash */
	printf("# unloaded\n");
	return 0;
}
