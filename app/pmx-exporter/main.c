/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-exporter: serves the state of this host's primaries by HTTP, /metrics for Prometheus and /
 * for people.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/clock.h"
#include "exporter.h"

#define LISTEN "127.0.0.1:9818"

static const char usage[] =
	"Usage: pmx-exporter [--listen ADDRESS:PORT] [--instance NAME] | --once [--openmetrics]\n"
	"\n"
	"Serves the state of the primaries of this host by HTTP: /metrics for Prometheus, and / as "
	"a\n"
	"page for people. Runs as the primaries' user, or as root.\n"
	"\n"
	"  --listen ADDRESS:PORT  (" LISTEN "; [::]:9818 for all); whoever reaches it may read\n"
	"  --instance NAME        only that primary\n"
	"  --once                 print the metrics, and end\n"
	"  --openmetrics          ... as OpenMetrics, which otherwise are given to who asks for "
	"them\n"
	"  --help, --version\n";

/* The last samples, the newest first. */
static struct {
	const char *instance;
	struct sample *samples[HISTORY];
	unsigned count;
} history;

/* Take a sample. It takes the place of the newest one if that is too young to look back on. */
static const struct sample *
sample_now(void)
{
	struct sample *s = sample_take(history.instance);
	const unsigned most = HISTORY - 1;

	if (s == NULL)
		return NULL;
	if (history.count > 1 &&
		history.samples[0]->at_ms - history.samples[1]->at_ms < HISTORY_MS) {
		sample_free(history.samples[0]);
	} else {
		if (history.count == HISTORY)
			sample_free(history.samples[most]);
		else
			history.count++;
		memmove(&history.samples[1], &history.samples[0], most * sizeof(s));
	}
	history.samples[0] = s;
	return s;
}

/* ------------------------------------------------------------------ HTTP */

static bool
wants_openmetrics(struct MHD_Connection *c)
{
	const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");

	return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}

static enum MHD_Result
reply(struct MHD_Connection *c, unsigned code, const char *type, char *text, size_t len)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);

	if (r == NULL) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	/* nothing of the page is from elsewhere */
	MHD_add_response_header(r, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:");
	const enum MHD_Result result = MHD_queue_response(c, code, r);

	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result
exporter_answer(void *unused, struct MHD_Connection *c, const char *url, const char *method,
	const char *version, const char *body, size_t *body_len, void **state)
{
	static const char not_found[] = "there are / and /metrics\n";
	const bool metrics = strcmp(url, "/metrics") == 0, page = strcmp(url, "/") == 0;
	const bool openmetrics = metrics && wants_openmetrics(c);
	char *text = NULL;
	size_t len = 0;

	(void)unused, (void)version, (void)body, (void)body_len, (void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", strdup("GET\n"), 4);
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return MHD_NO;
	if (!metrics && !page)
		fputs(not_found, out);
	else if (sample_now() == NULL)
		fputs("no memory\n", out);
	else if (metrics)
		metrics_write(out, history.samples[0], openmetrics);
	else
		page_write(out, history.samples, history.count);
	fclose(out);
	return reply(c, metrics || page ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND,
		openmetrics       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			: metrics ? "text/plain; version=0.0.4; charset=utf-8"
			: page    ? "text/html; charset=utf-8"
				  : "text/plain",
		text, len);
}

/* Split ADDRESS:PORT, and listen there. Return the descriptor, or -1 with a message on stderr. */
static int
listen_at(const char *where)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	char host[256];
	const char *colon = strrchr(where, ':');
	struct addrinfo *found = NULL;
	const int on = 1;
	int fd = -1;

	if (colon == NULL || (size_t)(colon - where) >= sizeof(host) || colon[1] == 0) {
		fprintf(stderr, "pmx-exporter: --listen '%s': not ADDRESS:PORT\n", where);
		return -1;
	}
	snprintf(host, sizeof(host), "%.*s", (int)(colon - where), where);
	const size_t n = strlen(host);
	const bool brackets = n > 1 && host[0] == '[' && host[n - 1] == ']';

	host[brackets ? n - 1 : n] = 0;
	const int e = getaddrinfo(host + brackets, colon + 1, &hints, &found);

	if (e != 0) {
		fprintf(stderr, "pmx-exporter: --listen '%s': %s\n", where, gai_strerror(e));
		return -1;
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 64) != 0) {
		fprintf(stderr, "pmx-exporter: --listen '%s': %s\n", where, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

static int
serve(const char *where)
{
	sigset_t stops;
	int fd, number;

	sigemptyset(&stops);
	sigaddset(&stops, SIGINT);
	sigaddset(&stops, SIGTERM);
	sigprocmask(SIG_BLOCK, &stops, NULL);
	signal(SIGPIPE, SIG_IGN);
	if ((fd = listen_at(where)) < 0)
		return 1;
	struct MHD_Daemon *d = MHD_start_daemon(
		MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL,
		exporter_answer, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		64u, MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);

	if (d == NULL) {
		fputs("pmx-exporter: the HTTP server did not start\n", stderr);
		close(fd);
		return 1;
	}
	fprintf(stderr, "pmx-exporter: serves http://%s/ and /metrics\n", where);
	sigwait(&stops, &number);
	MHD_stop_daemon(d);
	while (history.count > 0)
		sample_free(history.samples[--history.count]);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"listen", required_argument, NULL, 'l'},
		{"instance", required_argument, NULL, 'i'}, {"once", no_argument, NULL, 'o'},
		{"openmetrics", no_argument, NULL, 'm'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'}, {0}};
	const char *where = LISTEN;
	bool once = false, openmetrics = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (option) {
		case 'l':
			where = optarg;
			break;
		case 'i':
			history.instance = optarg;
			break;
		case 'o':
			once = true;
			break;
		case 'm':
			openmetrics = true;
			break;
		case 'v':
			printf("pmx-exporter %s\n", PMX_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind != argc || (openmetrics && !once)) {
		fputs(usage, stderr);
		return 2;
	}
	if (!once)
		return serve(where);
	struct sample *s = sample_take(history.instance);

	if (s == NULL)
		return 1;
	const bool none = s->count == 0;

	metrics_write(stdout, s, openmetrics);
	sample_free(s);
	if (none)
		fputs("pmx-exporter: no primary that this user may ask\n", stderr);
	return fflush(stdout) != 0 || none;
}
