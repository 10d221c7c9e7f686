/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a context does beside plain messages, behind one table: services.c lists it, send.c, wait.c
 * and context.c call it. All of it belongs to the context's thread. A function that a service has
 * no use for is NULL.
 */
#ifndef PMX_CLIENT_SERVICE_H
#define PMX_CLIENT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

struct completion;
struct pmx_context;

struct client_service {
	const char *name;
	/* The context was opened. 0, -ENOMEM. */
	int (*open)(struct pmx_context *ctx);
	void (*close)(struct pmx_context *ctx);
	uint32_t completions; /* COMPLETION_*: kinds of results that are its own */
	void (*results)(struct pmx_context *ctx, const struct completion *c);
	/* Completions were taken: what waited for them may go on. */
	void (*progress)(struct pmx_context *ctx);
	/* Is something here that the application has not heard of? It will not sleep then. */
	bool (*landed)(struct pmx_context *ctx);
	/* [addr, addr + len) goes away: what the library itself still reads or writes there
	 * ends. */
	void (*forget)(struct pmx_context *ctx, const void *addr, uint64_t len);
	/* The channel ends: what is under way ends with ECONNRESET. 0, or why it cannot end yet;
	 * then it is asked again. */
	int (*leave)(struct pmx_context *ctx);
	/* Another channel is there. 0, or -errno; and when all services have said 0. */
	int (*rejoin)(struct pmx_context *ctx);
	void (*rejoined)(struct pmx_context *ctx);
};

extern const struct client_service client_match, client_transfer, client_memory;
/* All of them, each before those that it is built on; NULL behind the last. services.c. */
extern const struct client_service *const client_services[];

#endif
