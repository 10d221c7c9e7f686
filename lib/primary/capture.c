/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See capture.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/capture.h"
#include "log/log.h"
#include "node/node.h"
#include "primary/capture.h"

static struct {
	struct capture *capture; /* NULL: nobody captures */
	int connection;
} current;

/* Map the rings. Return them, or NULL if the memory is not such that it stays: whoever cuts it off
 * would end this process. */
static struct capture_ring *
map_rings(int fd)
{
	struct stat s;
	const int seals = fcntl(fd, F_GET_SEALS);
	void *at;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &s) != 0 ||
		(uint64_t)s.st_size < CAPTURE_BYTES)
		return NULL;
	at = mmap(NULL, CAPTURE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at != MAP_FAILED ? at : NULL;
}

/* Let the lanes know of a capture, or of its end. */
static int
tell_lanes(struct node *n, struct capture *c)
{
	const int e = node_pause(n);

	if (e != 0)
		return e;
	capture_set(n, c);
	node_resume(n);
	return 0;
}

int
capture_for(struct node *n, const struct asker *who, const struct attach_request *request, int fd)
{
	if (who->connection == SECONDARY || !socket_is_ours(who))
		return -EACCES;
	if (current.capture != NULL)
		return -EBUSY;
	struct capture *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->peer = (uint16_t)request->addr;
	c->context = (uint16_t)(request->addr >> 16);
	c->keep = (uint32_t)(request->addr >> 32);
	c->keep = c->keep < CAPTURE_FRAME_MAX ? c->keep : CAPTURE_FRAME_MAX;
	c->rings = map_rings(fd);
	int e = c->rings == NULL ? -EINVAL : tell_lanes(n, c);

	if (e == 0) {
		current.capture = c;
		current.connection = who->connection;
		socket_ends_here(who); /* the memory is not passed on, and so the reader is told */
		log_say(LOG_NODE, RTE_LOG_NOTICE, "a capture begins, for process %d", who->pid);
		return 0;
	}
	if (c->rings != NULL)
		munmap(c->rings, CAPTURE_BYTES);
	free(c);
	return e;
}

void
capture_gone(struct node *n, int connection)
{
	struct capture *c = current.capture;

	if (c == NULL || current.connection != connection)
		return;
	/* a lane that does not answer may still write there: then the memory stays */
	if (tell_lanes(n, NULL) != 0) {
		capture_set(n, NULL);
		current.capture = NULL;
		return;
	}
	munmap(c->rings, CAPTURE_BYTES);
	free(c);
	current.capture = NULL;
	log_say(LOG_NODE, RTE_LOG_NOTICE, "the capture has ended");
}
