/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Services: what a context does besides plain messages, each a table of functions.
 * lib/features/client.c lists them; send.c, wait.c, context.c and others call them, in the
 * context's thread. A function that a service does not need is NULL.
 */
#ifndef PMX_CLIENT_SERVICE_H
#define PMX_CLIENT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

struct completion;
struct pmx_context;
struct pmx_event;
struct pmx_group;

struct client_service {
	const char *name;
	/* The context was opened. 0, -ENOMEM. */
	int (*open)(struct pmx_context *ctx);
	void (*close)(struct pmx_context *ctx);
	uint32_t completions; /* COMPLETION_* bits of the results that are for it */
	void (*results)(struct pmx_context *ctx, const struct completion *c);
	/* Completions were taken: continues what waited for them. */
	void (*progress)(struct pmx_context *ctx);
	/* Return whether something is there that the application does not know of; if so, it must
	 * not sleep. */
	bool (*landed)(struct pmx_context *ctx);
	/* Takes the next event for pmx_poll_event(); false: there is none. */
	bool (*event)(struct pmx_context *ctx, struct pmx_event *event);
	/* The thread is about to sleep on the context's descriptor, or does so no more. */
	void (*sleeps)(struct pmx_context *ctx, bool sleeps);
	/* [addr, addr + len) is about to be freed: ends whatever the library itself still reads or
	 * writes there. */
	void (*forget)(struct pmx_context *ctx, const void *addr, uint64_t len);
	/* The application has closed the group; later: the engine has it no more, and it is
	 * freed. */
	void (*group_closes)(struct pmx_group *g);
	void (*group_ends)(struct pmx_group *g);
	/* The channel ends: ends what is under way with ECONNRESET. 0, or why it cannot end yet;
	 * then it is called again. */
	int (*leave)(struct pmx_context *ctx);
	/* rejoin: another channel is there; 0 or -errno. rejoined: called when rejoin of all
	 * services has returned 0. */
	int (*rejoin)(struct pmx_context *ctx);
	void (*rejoined)(struct pmx_context *ctx);
};

/* Those of plain messages: plain.c, told.c, watch.c. */
extern const struct client_service client_plain, client_told, client_watch;
/* All services, each before those that it is built on; NULL after the last. Defined by what lists
 * the features: lib/features/client.c. */
extern const struct client_service *const features_client[];

#endif
