/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command ping: whether a node answers, how fast, and otherwise why not. It sends messages to a
 * context that no node has, and the node's primary answers that there is none: no application is
 * needed there, and none is disturbed.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/wire/wire.h"
#include "ctl.h"
#include "pmx/pmx.h"
#include "pmx/remote.h"

#define NOBODY      (WIRE_CONTEXTS_MAX - 1) /* limits.contexts is less */
#define TIMES       5
#define TIMES_MOST  100000
#define PAUSE_S     0.2
#define ANSWER_US   30000000 /* a message ends by itself before */
#define SHORT_BYTES 1000     /* goes in a frame of 1200 */
#define LATE_US     20000    /* a lane with a CPU answers much sooner */
#define LISTEN_WAIT 1000     /* ms that the network has to say that nobody listens */

struct ping {
	const char *name; /* of the primary that asks */
	uint16_t node;
	struct pmx_context *ctx;
	uint8_t *bytes;
	uint32_t len;
	int64_t trips[TIMES_MOST]; /* us, of those that were answered */
	unsigned sent, answered;
	int error;      /* of the last that was not */
	int context;    /* whether it is open, as well; -1: none */
	int its_result; /* 0: it is open; or -errno */
};

/* The reason why a node does not answer, as far as it can be told. */
struct why {
	char what[512];
	const char *mend;
};

/* ------------------------------------------------------------------ one message */

/* Send one, and wait for its end. Return 0 if it was answered, or -errno. */
static int
ping_once(struct ping *p)
{
	const struct pmx_addr to = {p->node, NOBODY};
	const int64_t from = clock_us(), end = clock_deadline(ANSWER_US);
	pmx_send_id id;
	int result;

	p->sent++;
	while ((result = pmx_send_copy(p->ctx, to, p->bytes, p->len, &id)) == -EAGAIN &&
		clock_left(end) != 0)
		pmx_progress(p->ctx);
	if (result != 0)
		return result;
	while ((result = pmx_is_send_done(p->ctx, id)) == 0 && clock_left(end) != 0)
		continue;
	if (result != -ECONNREFUSED)
		return result < 0 ? result : -ETIMEDOUT;
	p->trips[p->answered++] = clock_us() - from;
	return 0;
}

static int
ping_compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Ask whether a context of the node is open: read memory of it that nobody has registered. Its
 * engine refuses that, or says that there is no such context, and no application notices. Return 0
 * if it is open, or -errno. */
static int
ask_context(struct ping *p)
{
	uint8_t bytes[8];
	const struct pmx_transfer t = {
		.peer = {p->node, (uint16_t)p->context},
		.local = bytes,
		.len = sizeof(bytes),
		.key = 1,
	};
	const int64_t end = clock_deadline(ANSWER_US);
	pmx_transfer_id id;
	int result;

	while ((result = pmx_pull(p->ctx, &t, &id)) == -EAGAIN && clock_left(end) != 0)
		pmx_progress(p->ctx);
	if (result != 0)
		return result;
	while ((result = pmx_transfer_done(p->ctx, id)) == 0 && clock_left(end) != 0)
		continue;
	switch (result) {
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ECONNRESET:
		return result;
	case 0:
		return -ETIMEDOUT;
	default:
		return 0; /* refused, so there is somebody who refuses */
	}
}

/* ------------------------------------------------------------------ why not */

/* Return whether the kernel has asked for an IPv4 address by ARP, and nobody has answered. */
static bool
is_unanswered(const char *host)
{
	FILE *f = fopen("/proc/net/arp", "r");
	char line[256], ip[64];
	unsigned flags;
	bool unanswered = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		unanswered |= sscanf(line, "%63s %*x %x", ip, &flags) == 2 && flags == 0 &&
			strcmp(ip, host) == 0;
	if (f != NULL)
		fclose(f);
	return unanswered;
}

/* Write why nothing comes back from a peer's IP address and port, by a datagram of this program's
 * own, which the primary there would drop. Return false if the network says nothing. */
static bool
ask_network(const char *address, struct why *why)
{
	char host[128];
	const char *colon = strrchr(address, ':');
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *found;

	if (colon == NULL || (size_t)(colon - address) >= sizeof(host))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * (*address == '['),
		address + (*address == '['));
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return false; /* a MAC address */
	const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int error = 0;
	socklen_t len = sizeof(error);

	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0 ||
		send(fd, "", 1, 0) != 1)
		error = errno;
	else if (poll(&ready, 1, LISTEN_WAIT) == 1)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	if (error == 0 && is_unanswered(host)) /* that it says so itself takes seconds */
		error = EHOSTUNREACH;
	switch (error) {
	case ECONNREFUSED:
		snprintf(why->what, sizeof(why->what),
			"the host of %s is there, and nobody listens at that port", address);
		why->mend = "start its primary, or mend the port in [nodes]";
		return true;
	case EHOSTUNREACH:
		snprintf(why->what, sizeof(why->what),
			"nobody on the network has the address of %s: no answer to ARP", address);
		why->mend = "see whether that host runs, and the address in [nodes]";
		return true;
	case ENETUNREACH:
		snprintf(why->what, sizeof(why->what), "this host has no route to %s", address);
		why->mend = "ip route";
		return true;
	case EPERM:
	case EACCES:
		snprintf(why->what, sizeof(why->what),
			"this host's firewall forbids what goes to %s", address);
		why->mend = "allow the UDP port";
		return true;
	default:
		return false;
	}
}

/* Return whether the link by which the peer is reached has no carrier. */
static bool
link_is_down(struct ctl_session *s, const json_t *peer, struct why *why)
{
	char error[CTL_ERROR_MAX], number[24];
	json_t *links = session_ask(s, "/pmx/links", error);

	snprintf(number, sizeof(number), "%" PRIu64, get_u64(peer, "link"));
	const json_t *link = json_object_get(links, number);
	const bool down = link != NULL && get_u64(link, "up") == 0;

	if (down)
		snprintf(why->what, sizeof(why->what), "link %s (%s %s) has no carrier", number,
			get_text(link, "driver"), get_text(link, "port"));
	why->mend = "see to the cable, the switch, or the interface";
	json_decref(links);
	return down;
}

/* Return whether somebody has spoken in the peer's name, who may be the peer, and was not
 * believed. */
static bool
is_claimed(const json_t *peer, struct why *why)
{
	const char *claim = get_text(peer, "keys_claim");
	char text[256];

	snprintf(why->what, sizeof(why->what), "no answer, but frames in its name: %s: %s", claim,
		get_long_text(peer, "keys_claim_text", text, sizeof(text)));
	why->mend = "pmx-ctl doctor there: it says the other half";
	return *claim != 0;
}

/* Write that nothing is known of the node. */
static void
not_known(struct ctl_session *s, const struct ping *p, struct why *why)
{
	char error[CTL_ERROR_MAX];
	json_t *d = session_ask(s, "/pmx/discovery", error);

	snprintf(why->what, sizeof(why->what), "node %u is not in [nodes] of %s", p->node, p->name);
	why->mend = "add it, then pmx-ctl reload";
	if (d != NULL && json_object_get(d, "listen") != NULL) {
		snprintf(why->what, sizeof(why->what),
			"node %u is not in [nodes] of %s, and was not found: %" PRIu64
			" of %" PRIu64 " seeds answer",
			p->node, p->name, get_u64(d, "answered"), get_u64(d, "seeds"));
		why->mend = get_u64(d, "answered") == 0
			? "this node has found nobody: pmx-ctl doctor says what is wrong with its "
			  "seeds"
			: "see whether its primary runs, and has [discovery] with a seed that "
			  "this one knows";
	}
	json_decref(d);
}

/* Find out why the node does not answer, or not to messages of this length. */
static void
find_why(const struct ping *p, struct why *why)
{
	char error[CTL_ERROR_MAX];
	struct ctl_session s;
	json_t *info = NULL, *page = NULL, *peer = NULL;

	snprintf(why->what, sizeof(why->what), "%s", pmx_strerror(p->error));
	why->mend = "pmx-ctl doctor, here and there";
	if (session_open(&s, p->name, error) != 0) {
		why->mend = "run this as the primary's user or as root, for it to look closer";
		return;
	}
	info = session_ask(&s, "/pmx/info", error);
	char *question = text("/pmx/peers,%u", p->node);
	char *number = text("%u", p->node);

	page = session_ask(&s, question, error);
	peer = json_object_get(page, number);
	if (peer != NULL)
		json_object_set_new(peer, "node", json_integer(p->node));
	/* that long frames did not pass is no reason why a short one does not */
	if (peer != NULL && p->len <= SHORT_BYTES)
		json_object_set_new(peer, "too_long", json_integer(0));
	if (info != NULL && p->node == get_u64(info, "node"))
		snprintf(why->what, sizeof(why->what), "it is the asking primary's own node");
	else if (page != NULL && peer == NULL) {
		not_known(&s, p, why);
	} else if (peer != NULL &&
		!peer_disagrees(peer, get_u64(info, "payload_max"), why->what, sizeof(why->what),
			&why->mend) &&
		!link_is_down(&s, peer, why) &&
		!(*get_text(peer, "next_hop") == 0 &&
			ask_network(get_text(peer, "address"), why)) &&
		(p->error == -EHOSTUNREACH || p->error == -ETIMEDOUT) && !is_claimed(peer, why)) {
		snprintf(why->what, sizeof(why->what),
			"no answer from %s: its primary does not run there, its [nodes] gives this "
			"node another address, %sor something between drops the frames",
			get_text(peer, "address"),
			*get_text(peer, "keys") != 0 ? "it has security.mode = off, " : "");
		why->mend = "pmx-ctl ping from there; pmx-ctl peers at both";
	}
	free(question);
	free(number);
	json_decref(info);
	json_decref(page);
	session_close(&s);
}

/* ------------------------------------------------------------------ the command */

/* Find out what is to be said beside the numbers. Return whether all is well. */
static bool
ping_judge(const struct ping *p, struct why *why)
{
	const unsigned n = p->answered;

	if (n < p->sent) {
		find_why(p, why);
		return false;
	}
	if (p->its_result != 0) {
		snprintf(why->what, sizeof(why->what), "node %u answers; its context %d %s",
			p->node, p->context,
			p->its_result == -ECONNREFUSED ? "is not open" : "does not answer");
		why->mend =
			"start the application there; pmx-ctl contexts there shows what is open";
		return false;
	}
	if (p->trips[n / 2] > LATE_US) {
		snprintf(why->what, sizeof(why->what),
			"it answers late: its lane has no CPU of its own, or too much to do, or "
			"the path is long or full");
		why->mend = "pmx-ctl doctor, and top, there";
	}
	return true;
}

static int
report(struct ping *p, const struct ctl_options *o)
{
	struct why why = {"", NULL};
	const unsigned n = p->answered;

	qsort(p->trips, n, sizeof(p->trips[0]), ping_compare);
	const bool good = ping_judge(p, &why);

	if (o->json) {
		json_t *j = json_pack("{s:i, s:i, s:i, s:i}", "node", p->node, "bytes", (int)p->len,
			"sent", (int)p->sent, "answered", (int)n);

		if (n > 0)
			json_object_set_new(j, "round_trip_us",
				json_pack("{s:I, s:I, s:I}", "least", (json_int_t)p->trips[0],
					"median", (json_int_t)p->trips[n / 2], "most",
					(json_int_t)p->trips[n - 1]));
		if (why.mend != NULL) {
			json_object_set_new(j, "why", json_string(why.what));
			json_object_set_new(j, "mend", json_string(why.mend));
		}
		if (p->context >= 0 && n > 0)
			json_object_set_new(j, "context_open", json_boolean(p->its_result == 0));
		return print_json(j) != 0 || !good;
	}
	printf("node %u: %u of %u messages of %u bytes were answered", p->node, n, p->sent, p->len);
	if (n > 0)
		printf("; there and back: least %s, median %s, most %s",
			time_text((uint64_t)p->trips[0] * 1000),
			time_text((uint64_t)p->trips[n / 2] * 1000),
			time_text((uint64_t)p->trips[n - 1] * 1000));
	puts("");
	if (why.mend != NULL)
		printf("  %s\n  -> %s\n", why.what, why.mend);
	else if (p->context >= 0)
		printf("  context %d is open\n", p->context);
	return !good;
}

/* Read the length of a message. Return false if it is none. */
static bool
read_size(const char *value, uint32_t *len)
{
	char *end;
	const unsigned long n = value != NULL ? strtoul(value, &end, 10) : 0;

	*len = value != NULL ? (uint32_t)n : 8;
	return value == NULL || (end != value && *end == 0 && n <= WIRE_MESSAGE_MAX);
}

/* Read the number of a context. Return false if it is none. */
static bool
read_context(const char *value, int *context)
{
	char *end;
	const unsigned long n = strtoul(value, &end, 10);

	*context = (int)n;
	return end != value && *end == 0 && n < WIRE_CONTEXTS_MAX;
}

int
ping_node(const struct ctl_options *o, const char *which)
{
	const struct pmx_attach_params thin = {.size = sizeof(thin), .how = PMX_ATTACH_THIN};
	char name[256], error[CTL_ERROR_MAX];
	struct pmx_node *node = NULL;
	struct ping *p = calloc(1, sizeof(*p));
	int result;

	if (p == NULL || instance_pick(o->instance, name, sizeof(name), error) != 0) {
		free(p);
		return complain("%s", p == NULL ? "no memory" : error);
	}
	p->context = -1;
	if (!read_size(o->plan.size, &p->len) || o->times > TIMES_MOST ||
		(o->context != NULL && !read_context(o->context, &p->context))) {
		free(p);
		return complain(
			"--size: bytes, at most %u; --times: at most %u; --context: below %d",
			WIRE_MESSAGE_MAX, TIMES_MOST, WIRE_CONTEXTS_MAX);
	}
	p->name = name;
	p->bytes = calloc(1, p->len + 1);
	result = p->bytes == NULL ? -ENOMEM : pmx_node_resolve(name, which, &p->node);
	if (result == -EINVAL)
		result = complain("node '%s': no number below %d, no name, and no address", which,
			WIRE_NODES_MAX);
	else if (result == -ENOENT)
		result = complain("node '%s': %s has no node of that name or address in [nodes]",
			which, name);
	else if (result != 0 || (result = pmx_node_attach(&node, name, &thin)) != 0 ||
		(result = pmx_context_open(&p->ctx, node, PMX_ANY_CONTEXT, NULL)) != 0)
		result = complain("%s: %s", name, pmx_strerror(result));
	else {
		for (unsigned i = 0; i < (o->times > 0 ? o->times : TIMES); i++) {
			if (i > 0)
				sleep_s(o->watch_s > 0 ? o->watch_s : PAUSE_S);
			int e = ping_once(p);

			/* the first word to a node that was restarted ends so, and is repeated */
			if (e == -ECONNRESET && i == 0) {
				p->sent--;
				e = ping_once(p);
			}
			if (e != 0 && (p->error = e) != -ECONNRESET)
				break; /* the others would end in the same way */
		}
		if (p->context >= 0 && p->answered == p->sent)
			p->its_result = ask_context(p);
		result = report(p, o);
	}
	pmx_context_close(p->ctx);
	pmx_node_close(node);
	free(p->bytes);
	free(p);
	return result;
}
