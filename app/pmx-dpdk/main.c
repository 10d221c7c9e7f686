/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-dpdk, the primary: one per host and node. Options, configuration, signals; lib/engine does
 * the work.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_pcapng_copy is experimental in DPDK 22.11 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "arguments.h"
#include "channel/instance.h"
#include "engine/loop.h"
#include "interface.h"
#include "interrupts.h"
#include "log/log.h"
#include "node/check.h"
#include "node/config_file.h"
#include "node/keeper.h"
#include "node/memif_socket.h"
#include "node/node.h"
#include "node/reload.h"
#include "node/pollers.h"
#include "node/sizes.h"
#include "primary/attach.h"
#include "primary/discover.h"
#include "primary/memory_lock.h"
#include "primary/telemetry.h"
#include "starter.h"

static struct node *node;
static struct node *_Atomic running; /* the node whose lanes run or are about to, which a signal
				      * stops */
static volatile sig_atomic_t stop_signal;
#define TAKE_OVER_PATIENCE_S 10

static int instance_lock = -1; /* lock file of the name: descriptor, path */
static char lock_path[256];
static char eal_prefix[64];
static const char *huge_dir = HUGE_DIR; /* of the EAL */
static bool given; /* another primary has taken over: nothing must be closed or removed */
static bool memory_is_free = true; /* no dead secondary holds DPDK's lock of it */
static bool took;                  /* the node has started, or has taken over */
static bool linked; /* the instance's directory was a link to the primary that is taken over from */

static char link_config[RUN_DIR_MAX + 80];     /* the file of --link, or "" */
static char link_config_new[RUN_DIR_MAX + 96]; /* its name until this is the primary of its name */

static const char usage[] =
	"Usage: pmx-dpdk [EAL arguments --] [options] CONFIG | --link INTERFACE [...]\n"
	"\n"
	"The primary of one node: runs the PM protocol on poll-mode lcores, and lets applications\n"
	"attach. CONFIG is an INI file; its keys are in doc/reference/configuration.md.\n"
	"\n"
	"  --link INTERFACE a configuration for that interface of the kernel, and EAL arguments; "
	"says what it\n"
	"                   chose and why; with --check prints the configuration\n"
	"    --nodes A,B,...  the nodes' addresses or names, in the same order on each (default: "
	"all of the\n"
	"                   interface's network, whose numbers are the hosts' parts of their "
	"addresses)\n"
	"    --seed A,B,...   in place of it, hosts with nodes that know the others: [discovery]\n"
	"    --seal FILE    frames are sealed with that secret, which all nodes have: see pmx-ctl "
	"key\n"
	"    --node N       this node's number\n"
	"    --driver udp | af_packet | af_xdp   (default: udp if the interface has an address)\n"
	"    --name NAME    node.name (default pmx0)\n"
	"  --check          say whether a start with these EAL arguments and CONFIG would fail, "
	"and why;\n"
	"                   touches no device\n"
	"  --config-doc     print the table of keys as Markdown, and end\n"
	"  --take-over      go on where the running primary of this node stops: thin clients and "
	"peers see\n"
	"                   a pause, secondaries the end of theirs\n"
	"  --ready-fd N     write a line to descriptor N when applications can attach\n"
	"  --background     return when applications can attach, and leave the primary running; "
	"exit code as\n"
	"                   below if it did not start\n"
	"  --help, --version\n"
	"\n"
	"The EAL gets --file-prefix from node.name, and lcores from engine.lanes unless given.\n"
	"Stop it with SIGINT, SIGTERM, SIGHUP (unless it was ignored: nohup) or SIGQUIT. With "
	"NOTIFY_SOCKET\n"
	"set, systemd is told of readiness. Exit code 2: configuration or arguments are wrong, "
	"another try\n"
	"is in vain; 1: it failed for another reason.\n";

/* Return the exit code of a start that failed with this error: either the configuration or the EAL
 * arguments are wrong, or something else prevents it (an address in use, a peer's socket that is
 * not there yet). */
static int
exit_code(int error)
{
	return error == -EINVAL || error == -ENODEV || error == -ENOMEM || error == -EMFILE
		? EXIT_WRONG
		: EXIT_FAILED;
}

struct primary_options {
	const char *config;
	struct interface_wish link; /* link.name NULL: there is a configuration */
	bool check, take_over, background;
	struct starter starter;
};

/* ------------------------------------------------------------------ one instance per node */

/* Give the configuration of --link its name, since this is the primary of that name now. */
static void
keep_link_config(void)
{
	if (link_config_new[0] != 0 && rename(link_config_new, link_config) == 0)
		link_config_new[0] = 0;
}

/* Open the file, and take its lock. If that fails, return false: then *fd is -1, or it is the file
 * without a lock that counts. */
static bool
open_locked(const char *path, int *fd)
{
	struct stat mine, now;

	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return false;
	/* whoever can read it could keep its lock */
	if (fchmod(*fd, 0600) != 0 || flock(*fd, LOCK_EX | LOCK_NB) != 0)
		return false;
	/* who starts at this moment may have taken it for a leftover */
	return fstat(*fd, &mine) == 0 && stat(path, &now) == 0 && mine.st_ino == now.st_ino;
}

static int
is_number_file(const struct dirent *e)
{
	const size_t len = strlen(e->d_name);

	return len > 4 && strcmp(e->d_name + len - 4, ".pid") == 0;
}

/* Remove the process numbers and the sockets of primaries of this user that were killed. During a
 * take-over nobody has the lock of a name for a moment, but the new primary already listens: its
 * socket stays, since it is not stale. */
static void
clear_numbers(const char *dir)
{
	struct dirent **names;
	const int n = scandir(dir, &names, is_number_file, NULL);

	for (int i = 0; i < n; i++) {
		char path[RUN_DIR_MAX + 300];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			unlink(path);
			strcpy(path + strlen(path) - 4, ".sock");
			if (is_stale_socket(path))
				unlink(path);
		}
		if (fd >= 0)
			close(fd);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* Take the lock of the instance's name. patience: seconds to wait for the previous instance to
 * end. Return the descriptor of the lock file, or -1. */
static int
lock_instance(const char *name, char *path, size_t size, unsigned patience)
{
	char dir[RUN_DIR_MAX], pid[16];
	int fd = -1, result = run_dir_make(dir, sizeof(dir));

	snprintf(path, size, "%s/%s.pid", dir, name);
	if (result != 0) {
		fprintf(stderr, "pmx-dpdk: %s: %s\n", dir,
			result == -EPERM ? "another user has made it: nobody is safe who looks for "
					   "sockets there. Remove it, or set XDG_RUNTIME_DIR"
					 : strerror(-result));
		return -1;
	}
	for (unsigned i = 0; !open_locked(path, &fd); i++) {
		if (fd < 0) {
			fprintf(stderr, "pmx-dpdk: %s: %s\n", path, strerror(errno));
			return -1;
		}
		if (i >= patience * 1000 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
			ssize_t n = read(fd, pid, sizeof(pid) - 1);

			pid[n > 0 ? n : 0] = 0;
			pid[strcspn(pid, "\n")] = 0;
			fprintf(stderr,
				"pmx-dpdk: an instance '%s' already runs as process %s (%s): stop "
				"it with 'kill %s', or give this one another node.name\n",
				name, pid, path, pid);
			close(fd);
			return -1;
		}
		close(fd);
		usleep(1000);
	}
	int n = snprintf(pid, sizeof(pid), "%d\n", getpid());

	if (ftruncate(fd, 0) != 0 || write(fd, pid, (size_t)n) != n)
		fprintf(stderr, "pmx-dpdk: %s: cannot write the process number\n", path);
	clear_numbers(dir);
	return fd;
}

/* ------------------------------------------------------------------ EAL */

/* Virtual devices that are probed only after the previous primary has closed its own, with which
 * they would conflict. */
static char *late_devices[16];
static unsigned late_count;

/* Write the placement of lanes, as in "0@CPU,1@CPU": each lane on a CPU that this process may use
 * and on which no other primary of this host polls, if there is one. */
static void
place_lanes(char *out, size_t size, unsigned lanes)
{
	cpu_set_t left;
	size_t used = 0;

	if (sched_getaffinity(0, sizeof(left), &left) != 0)
		CPU_ZERO(&left);
	for (unsigned i = 0; i < lanes && used < size; i++) {
		int cpu = poller_cpu(&left);

		used += (size_t)snprintf(out + used, size - used, "%s%u@%d", i ? "," : "", i,
			cpu < 0 ? 0 : cpu);
		if (cpu >= 0)
			CPU_CLR(cpu, &left);
	}
}

static int
start_eal(int argc, char **argv, const struct eal_arguments *given, const struct config *c,
	const char *name, bool later)
{
	char *args[argc + 8];
	char prefix[64], lcores[16 * CONFIG_LANES_MAX];
	int n = 0;

	snprintf(prefix, sizeof(prefix), "--file-prefix=%s", name);
	args[n++] = argv[0];
	for (int i = 1; i < argc; i++) {
		if (later && late_count < 16 && strncmp(argv[i], "--vdev=", 7) == 0)
			late_devices[late_count++] = argv[i] + 7;
		else if (later && late_count < 16 && strcmp(argv[i], "--vdev") == 0 && i + 1 < argc)
			late_devices[late_count++] = argv[++i];
		else
			args[n++] = argv[i];
	}
	args[n++] = prefix; /* the last one counts; that of a take-over differs from node.name */
	if (given->lcores == NULL && given->core_mask == NULL) {
		place_lanes(lcores, sizeof(lcores), c->lanes);
		args[n++] = (char *)"--lcores";
		args[n++] = lcores;
	}
	args[n] = NULL;
	node_memif_sockets_clear(n, args);
	if (rte_eal_init(n, args) >= 0)
		return 0;
	fprintf(stderr,
		"pmx-dpdk: the DPDK EAL did not start: %s. Are hugepages reserved and mounted "
		"(dpdk-config/hugepages.sh), and is this root? 'pmx-ctl doctor' looks.\n",
		rte_strerror(rte_errno));
	/* with wrong arguments another attempt is useless */
	return rte_errno == EINVAL || rte_errno == ENODEV ? -EINVAL : -EIO;
}

/* Write the path of a file in the EAL's runtime directory of a prefix. */
static void
runtime_path(char *out, size_t size, const char *prefix, const char *file)
{
	snprintf(out, size, "%s/dpdk/%s%s", eal_base(), prefix, file);
}

static bool
is_not(const char *file, const void *name)
{
	return strcmp(file, name) != 0;
}

/* Remove what rte_eal_cleanup() leaves: the runtime directory and, with in-memory files,
 * hugepages. Remove the configuration last, since without it another process takes the prefix for
 * free. */
static void
remove_leftovers(const char *dir, const char *huge, const char *prefix)
{
	files_that(huge, is_map_of, prefix, true);
	files_that(dir, is_not, "config", true);
	files_that(dir, is_any, NULL, true);
	rmdir(dir);
}

/* Return whether an instance of this name was killed, so that nobody uses its files. */
static bool
is_dead(const char *prefix)
{
	char config[2100];

	runtime_path(config, sizeof(config), prefix, "/config");
	return access(config, F_OK) == 0 && !rte_eal_primary_proc_alive(config);
}

/* Remove the files of an instance if it is dead. Processes that still map them keep them. */
static void
clear_leftovers(const char *prefix)
{
	char dir[2048];

	runtime_path(dir, sizeof(dir), prefix, "");
	if (is_dead(prefix))
		remove_leftovers(dir, huge_dir, prefix);
}

/* Return whether that name is a link to another prefix, made by a primary that took over. */
static bool
is_link(const char *name)
{
	char path[2048];
	struct stat s;

	runtime_path(path, sizeof(path), name, "");
	return lstat(path, &s) == 0 && S_ISLNK(s.st_mode);
}

static bool
is_running(const char *prefix)
{
	char config[2100];

	runtime_path(config, sizeof(config), prefix, "/config");
	return access(config, F_OK) == 0 && rte_eal_primary_proc_alive(config);
}

/* During a take-over two primaries of one name run: the file prefix of the second is the name with
 * a +, and that of the one after it the name again. The second makes the name a link when the first
 * has ended: waits for that, since a link that came later would lead this EAL to the second's
 * files. false: both go on. */
static bool
other_prefix(char *name, size_t size)
{
	char other[CONFIG_NAME_MAX + 2], link[2048];

	snprintf(other, sizeof(other), "%s+", name);
	for (unsigned i = 0; is_running(other) && !is_link(name); i++) {
		if (i == TAKE_OVER_PATIENCE_S * 1000) {
			if (is_running(name))
				return false;
			break; /* who was to make the link again was killed */
		}
		usleep(1000);
	}
	if (!is_running(other))
		snprintf(name, size, "%s", other);
	runtime_path(link, sizeof(link), name, "");
	/* removes this path if it is a link that an earlier take-over made; a directory stays */
	linked = unlink(link) == 0;
	return true;
}

/* Make the other primary's name lead to it again if the take-over failed and that primary goes on.
 * This runs at exit, after telemetry's own clean-up, which uses that name. */
static void
link_again(void)
{
	char link[2048], target[CONFIG_NAME_MAX + 2];

	if (!linked || took)
		return;
	runtime_path(link, sizeof(link), eal_prefix, "");
	snprintf(target, sizeof(target), "%s+", eal_prefix);
	rmdir(link);
	if (symlink(target, link) != 0)
		fprintf(stderr, "pmx-dpdk: %s: %s\n", link, strerror(errno));
}

/* ------------------------------------------------------------------ running */

static void
on_signal(int number)
{
	struct node *n;

	stop_signal = number;
	n = atomic_load(&running);
	for (unsigned i = 0; n != NULL && i < n->config.lanes; i++) {
		atomic_store(&n->engines[i].stop, true);
		eventfd_write(n->engines[i].doorbell, 1);
	}
}

/* Catch the signals that stop the program. Call this before the EAL starts, since from then on
 * there is something to remove. A signal before the lanes run stops them at once. */
static void
catch_signals(void)
{
	static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct sigaction before;

	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		/* an ignored SIGHUP stays ignored: nohup */
		if (sigaction(stops[i], NULL, &before) != 0 || before.sa_handler != SIG_IGN ||
			stops[i] != SIGHUP)
			sigaction(stops[i], &action, NULL);
	}
	signal(SIGPIPE, SIG_IGN); /* virtio_user may write to a vhost backend that has ended */
}

static int
run_lane(void *engine)
{
	engine_run(engine);
	return 0;
}

static int
run_lanes(struct node *n)
{
	unsigned lcore, lane = 1;

	atomic_store(&running, n);
	if (stop_signal != 0)
		on_signal(stop_signal);
	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		if (lane >= n->config.lanes)
			break;
		rte_eal_remote_launch(run_lane, &n->engines[lane++], lcore);
	}
	if (lane < n->config.lanes) {
		fprintf(stderr,
			"pmx-dpdk: engine.lanes = %u, but the EAL has %u lcores: give it more with "
			"-l\n",
			n->config.lanes, rte_lcore_count());
		on_signal(SIGTERM);
		rte_eal_mp_wait_lcore();
		return EXIT_WRONG;
	}
	engine_run(&n->engines[0]);
	rte_eal_mp_wait_lcore();
	return 0;
}

/* Make first what takes long; then ask the other primary to stop, and continue in its place. Return
 * 0, or a negative number with a message in error. */
static int
take_over(struct config *config, struct takeover **t, char *error, uint32_t error_len)
{
	char path[160];
	int result;

	config_socket_path(config, path, sizeof(path));
	result = node_make(&node, config, error, error_len);
	if (result != 0)
		return result;
	*t = takeover_ask(node, path, error, error_len);
	if (*t == NULL) {
		node_stop(node);
		return -1;
	}
	for (unsigned i = 0; i < late_count; i++) {
		if (rte_dev_probe(late_devices[i]) != 0)
			fprintf(stderr, "pmx-dpdk: --vdev=%s: %s\n", late_devices[i],
				rte_strerror(rte_errno));
	}
	result = node_link(node, error, error_len);
	return result != 0 ? result : takeover_resume(node, *t, error, error_len);
}

/* Take the lock of the name when the previous primary has ended. This runs on a thread of its own,
 * since nothing needs to wait for that. */
static void *
lock_later(void *name)
{
	char link[2048];

	instance_lock = lock_instance(name, lock_path, sizeof(lock_path), TAKE_OVER_PATIENCE_S);
	runtime_path(link, sizeof(link), name, "");
	/* others find this primary by the name, even if its EAL has another prefix */
	if (instance_lock < 0 || strcmp(eal_prefix, name) == 0)
		return NULL;
	clear_leftovers(name); /* if it was killed at its end */
	if (symlink(eal_prefix, link) != 0)
		fprintf(stderr, "pmx-dpdk: %s: %s\n", link, strerror(errno));
	return NULL;
}

/* Give all to the primary that takes over. Return the exit code. */
static int
hand_over(void)
{
	const pid_t next = starter_of_socket(node->successor);

	telemetry_serve(NULL);
	attach_pause();
	discover_end(false);
	reload_end();
	const int result = takeover_give(node);

	if (result != 0)
		fprintf(stderr, "pmx-dpdk: giving to another primary: %s\n", strerror(-result));
	else
		starter_hand_over(next);
	given = true;
	return result != 0;
}

static int
serve(const struct primary_options *o, struct config *config)
{
	static char name[CONFIG_NAME_MAX];
	char error[512];
	struct takeover *taken = NULL;
	const struct config read = *config; /* what follows takes its parts */
	pthread_t locker;
	int result;

	snprintf(name, sizeof(name), "%s", config->name);
	result = o->take_over ? take_over(config, &taken, error, sizeof(error))
			      : node_start(&node, config, error, sizeof(error));
	took = result == 0;
	if (took)
		keep_link_config();
	if (result != 0) {
		fprintf(stderr, "pmx-dpdk: %s\n", error);
		return o->take_over ? EXIT_FAILED : exit_code(result);
	}
	if (reload_begin(node, &read, link_config[0] != 0 ? link_config : o->config, error,
		    sizeof(error)) != 0)
		fprintf(stderr, "pmx-dpdk: 'pmx-ctl reload' will not work: %s\n", error);
	telemetry_serve(node);
	if (o->take_over && pthread_create(&locker, NULL, lock_later, name) == 0)
		pthread_detach(locker);
	result = attach_serve(node, takeover_attachments(taken));
	takeover_free(taken);
	if (result != 0) {
		fprintf(stderr, "pmx-dpdk: applications cannot attach: %s\n",
			rte_strerror(-result));
		result = EXIT_FAILED;
	} else if (discover_begin(node, o->take_over, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-dpdk: %s\n", error);
		result = EXIT_FAILED;
	} else {
		discover_settle(!o->take_over);
		if (!node->ends_as_twin) {
			fprintf(stderr, "pmx-dpdk: node %u '%s' ready\n", node->config.id, name);
			starter_tell(&o->starter, name);
		}
		result = run_lanes(node);
		if (result == 0 && node->ends_as_twin)
			result = EXIT_WRONG;
	}
	if (result == 0 && node->successor > 0)
		return hand_over();
	telemetry_serve(NULL);
	discover_end(true);
	attach_stop();
	reload_end();
	memory_is_free = memory_lock_free();
	/* all else ends with this process: secondaries may still access it until they notice
	 * that */
	node_end(node);
	return result;
}

/* Examine whether a start would succeed. Return 0, or -EINVAL or -EAGAIN with a message in
 * error. */
static int
examine(const struct eal_arguments *given, const struct config *c, char *error, size_t error_len)
{
	struct config_host host = {0};
	const int result = arguments_host(given, c, is_dead(c->name), &host, error, error_len);

	if (result != 0)
		return result;
	if (keeper_check(c, error, (uint32_t)error_len) != 0)
		return -EINVAL;
	return node_config_check_start(c, &host, error, (uint32_t)error_len);
}

/* Check whether a start would succeed, for a start as well as for --check. Return 0, or the exit
 * code after printing why. */
static int
check_start(const struct eal_arguments *given, const struct config *c,
	const struct primary_options *o)
{
	char error[1024];
	const int result = examine(given, c, error, sizeof(error));

	if (result != 0)
		fprintf(stderr, "pmx-dpdk: %s: %s\n",
			o->link.name != NULL ? o->link.name : o->config, error);
	return result == 0 ? 0 : exit_code(result);
}

static int
dpdk_start(int eal_argc, char **eal_argv, const struct eal_arguments *given_arguments,
	const struct primary_options *o, struct config *config)
{
	char dir[4096];
	int result;

	snprintf(eal_prefix, sizeof(eal_prefix), "%s", config->name);
	if (o->take_over) {
		if (!other_prefix(eal_prefix, sizeof(eal_prefix))) {
			fprintf(stderr,
				"pmx-dpdk: two primaries of node '%s' have run for %u s: another "
				"take-over is under way; look with 'pgrep -a pmx-dpdk', and try "
				"again\n",
				config->name, TAKE_OVER_PATIENCE_S);
			return EXIT_FAILED;
		}
		/* registered before the EAL's handlers, so it runs after them */
		atexit(link_again);
	}
	if (given_arguments->huge_dir != NULL)
		huge_dir = given_arguments->huge_dir;
	clear_leftovers(eal_prefix);
	catch_signals();
	log_to_journal();
	result = start_eal(eal_argc, eal_argv, given_arguments, config, eal_prefix, o->take_over);
	if (result != 0)
		return exit_code(result);
	/* itself, even if the name still leads to the directory of a primary that took over */
	if (realpath(rte_eal_get_runtime_dir(), dir) == NULL)
		snprintf(dir, sizeof(dir), "%s", rte_eal_get_runtime_dir());
	result = serve(o, config);
	/* it takes the lock of memory; what it would remove goes in any case */
	if (!given && memory_is_free)
		interrupts_end_eal();
	remove_leftovers(dir, huge_dir, eal_prefix);
	return result;
}

/* ------------------------------------------------------------------ --link */

#define PAGE_BYTES 4096
#define SPARE_MIB  64 /* of ordinary memory, beside what the node needs at least */

/* Write the configuration where the primary and `pmx-ctl reload` read it; for --check to a file
 * without a name, and to stdout. Return 0 or -errno. */
static int
write_config(struct primary_options *o, const char *text, size_t len)
{
	static char path[sizeof(link_config_new)];
	int fd, result = o->check ? 0 : run_dir_make(path, RUN_DIR_MAX);

	if (result != 0)
		return result;
	if (o->check) {
		fd = memfd_create("pmx-dpdk", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		fwrite(text, 1, len, stdout);
	} else {
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s.ini",
			o->link.instance);
		snprintf(link_config, sizeof(link_config), "%s", path);
		snprintf(link_config_new, sizeof(link_config_new), "%s.%d", path, getpid());
		snprintf(path, sizeof(path), "%s", link_config_new);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	}
	o->config = path;
	if (fd < 0)
		return -errno;
	result = write(fd, text, len) == (ssize_t)len ? 0 : -EIO;
	if (!o->check)
		close(fd);
	return result;
}

/* Make a configuration for the interface, and *argc EAL arguments in *argv. Return -1, or the exit
 * code if that cannot be. */
static int
use_interface(struct primary_options *o, int *argc, char ***argv)
{
	static char vdev[VDEV_BYTES];
	static char *args[80];
	char *text = NULL, error[1024];
	size_t len;
	FILE *ini = open_memstream(&text, &len);
	int result = ini == NULL ? -ENOMEM : 0;

	if (!instance_name_ok(o->link.instance)) {
		fprintf(stderr, "pmx-dpdk: --name %s: letters, digits, '_' and '-'\n",
			o->link.instance);
		return EXIT_WRONG;
	}
	if (result == 0 &&
		interface_choose(&o->link, vdev, ini, stderr, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-dpdk: %s\n", error);
		return EXIT_WRONG;
	}
	if (ini != NULL)
		fclose(ini);
	if (result == 0)
		result = write_config(o, text, len);
	free(text);
	if (result != 0) {
		fprintf(stderr, "pmx-dpdk: --link %s: %s: %s\n", o->link.name,
			o->config != NULL ? o->config : "", strerror(-result));
		return EXIT_FAILED;
	}
	if (*argc > (int)(sizeof(args) / sizeof(args[0])) - 8)
		return EXIT_WRONG;
	memcpy(args, *argv, (size_t)*argc * sizeof(args[0]));
	args[(*argc)++] = (char *)"--no-pci";
	if (vdev[0] != 0)
		args[(*argc)++] = vdev;
	args[*argc] = NULL;
	*argv = args;
	return -1;
}

/* Choose ordinary memory for --link if there are not enough hugepages, or not for this user, and
 * the user has said nothing of memory. */
static void
choose_memory(const struct primary_options *o, const struct config *c, struct eal_arguments *a,
	int *argc, char **argv)
{
	static char mib[16];
	struct config sized = *c;
	struct config_memory need;
	struct eal_arguments without = *a;
	char error[1024] = "", other[1024];

	if (a->no_huge || a->memory_mib != NULL || a->socket_mem != NULL)
		return;
	if (access(HUGE_DIR, W_OK) != 0)
		snprintf(error, sizeof(error), "this user may not use hugepages in %s", HUGE_DIR);
	else if (examine(a, c, error, sizeof(error)) == 0)
		return;
	sized.mbufs = c->mbufs != 0 ? c->mbufs : node_config_buffers_least(c);
	node_config_memory(&sized, PAGE_BYTES, &need);
	snprintf(mib, sizeof(mib), "%llu", (unsigned long long)(need.all >> 20) + SPARE_MIB);
	without.no_huge = true;
	without.memory_mib = mib;
	if (examine(&without, c, other, sizeof(other)) != 0)
		return; /* it is something else */
	fprintf(stderr,
		"%s: ordinary memory, %s MiB, where applications attach as thin clients: %s\n",
		o->link.name, mib, error);
	*a = without;
	argv[(*argc)++] = (char *)"--no-huge";
	argv[(*argc)++] = (char *)"-m";
	argv[(*argc)++] = mib;
	argv[*argc] = NULL;
}

static int
dpdk_run(int eal_argc, char **eal_argv, const struct primary_options *o)
{
	struct eal_arguments given_arguments;
	struct config config;
	char error[1024], link[4096];
	int result;

	if (node_config_read(&config, o->config, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-dpdk: %s\n", error);
		return EXIT_WRONG;
	}
	config.alone = true;
	if (o->take_over)
		node_config_read_found(&config);
	else if (!o->check)
		discover_forget(&config);
	arguments_read(&given_arguments, eal_argc, eal_argv);
	if (o->link.name != NULL)
		choose_memory(o, &config, &given_arguments, &eal_argc, eal_argv);
	if (!o->take_over && !o->check) {
		instance_lock = lock_instance(config.name, lock_path, sizeof(lock_path), 0);
		if (instance_lock < 0) {
			config_free(&config);
			return EXIT_FAILED;
		}
	}
	result = check_start(&given_arguments, &config, o);
	if (result == 0 && o->check)
		fprintf(o->link.name != NULL ? stderr : stdout, "%s: ok\n",
			o->link.name != NULL ? o->link.name : o->config);
	else if (result == 0)
		result = dpdk_start(eal_argc, eal_argv, &given_arguments, o, &config);
	if (given)
		_exit(result); /* threads of the EAL still run and use its memory */
	runtime_path(link, sizeof(link), config.name, "");
	if (!o->check && (!o->take_over || took))
		unlink(link); /* works only if it is the link that a take-over made */
	config_free(&config);
	if (instance_lock >= 0) {
		if (link_config[0] != 0)
			unlink(link_config);
		unlink(lock_path);
		close(instance_lock);
	}
	return result;
}

/* Return where an option that goes with --link is kept, or NULL if it is none. */
static const char **
link_option(struct interface_wish *w, int opt)
{
	switch (opt) {
	case 'l':
		return &w->name;
	case 'n':
		return &w->nodes;
	case 'o':
		return &w->node;
	case 's':
		return &w->seed;
	case 'S':
		return &w->seal;
	case 'D':
		return &w->driver;
	case 'N':
		return &w->instance;
	default:
		return NULL;
	}
}

/* Read the options. Return the exit code with which the program ends now, or -1. */
static int
read_options(int argc, char **argv, struct primary_options *o)
{
	static const struct option longs[] = {{"check", no_argument, NULL, 'c'},
		{"take-over", no_argument, NULL, 't'}, {"background", no_argument, NULL, 'b'},
		{"config-doc", no_argument, NULL, 'd'}, {"ready-fd", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'v'},
		{"link", required_argument, NULL, 'l'}, {"nodes", required_argument, NULL, 'n'},
		{"node", required_argument, NULL, 'o'}, {"seed", required_argument, NULL, 's'},
		{"seal", required_argument, NULL, 'S'}, {"driver", required_argument, NULL, 'D'},
		{"name", required_argument, NULL, 'N'}, {0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'c':
		case 't':
		case 'b':
			*(opt == 'c'                 ? &o->check
					: opt == 't' ? &o->take_over
						     : &o->background) = true;
			break;
		case 'd':
			node_config_print_doc(stdout);
			return 0;
		case 'r':
			o->starter.ready_fd = atoi(optarg);
			break;
		case 'v':
			printf("pmx-dpdk %s\n", PMX_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			if (link_option(&o->link, opt) == NULL) {
				fputs(usage, stderr);
				return 2;
			}
			*link_option(&o->link, opt) = optarg;
		}
	}
	if (optind != argc - (o->link.name == NULL)) {
		fputs(usage, stderr);
		return EXIT_WRONG;
	}
	o->config = argv[optind];
	return -1;
}

int
main(int argc, char **argv)
{
	struct primary_options o = {.starter = {-1, -1}, .link = {.instance = "pmx0"}};
	int eal_argc = 1;

	/* arguments before "--" are for the EAL */
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			eal_argc = i;
			argv[i] = argv[0];
			break;
		}
	}
	char **rest = eal_argc > 1 || (argc > 1 && argv[1] == argv[0]) ? argv + eal_argc : argv;
	int code = read_options(argc - (int)(rest - argv), rest, &o);

	if (code < 0 && o.background && !o.check)
		code = starter_leave(&o.starter);
	if (code < 0 && o.link.name != NULL)
		code = use_interface(&o, &eal_argc, &argv);
	code = code >= 0 ? code : dpdk_run(eal_argc, argv, &o);
	if (link_config_new[0] != 0)
		unlink(link_config_new);
	return code;
}
