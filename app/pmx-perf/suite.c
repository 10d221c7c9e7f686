/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-perf suite: measures the columns that a file names in turns, so that what the machine does
 * meanwhile is in all of them, and writes results.json and report.html. The file is an INI file,
 * and doc/guide/measuring.md describes it.
 *
 * Design notes
 * 1. Each turn starts all programs anew: how near to each other the machine puts two CPUs and the
 *    memory that they share changes by the process.
 * 2. What a cache line takes between the two CPUs, and how often the machine takes each of them
 *    away, is measured in each turn, beside the columns.
 * 3. A column whose program is not installed is left out, and the report says so. A column that
 *    fails in a turn has no result of that turn; only one without any result is an error.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <rte_cfgfile.h>
#include <rte_version.h>

#include "perf.h"
#include "results.h"
#include "suite_run.h"

#define COLUMNS_MAX   16
#define VARIABLES_MAX 64
#define COMMANDS_MAX  8  /* of a kind, of a column */
#define READY_S       30 /* for what a file has to tell that it is ready */
#define BESIDE_S      10 /* in which what was beside ends by itself */
#define TEXT_MAX      1024

struct variable {
	char name[CFG_NAME_LEN];
	char value[TEXT_MAX];
};

/* A column of the file: as it was read, with names in braces. Of numbered keys any may be "". */
struct suite_column {
	char name[CFG_NAME_LEN];
	char run[COMMANDS_MAX][TEXT_MAX], with[COMMANDS_MAX][TEXT_MAX];
	char with_ready[COMMANDS_MAX][TEXT_MAX];
	char beside[TEXT_MAX], ready[TEXT_MAX];
	double wait;      /* s, after beside has started, where it has no `ready` */
	unsigned results; /* so far */
	char absent[128]; /* why it is left out */
};

struct suite {
	const char *path;
	char title[CFG_VALUE_LEN];
	unsigned turns;
	double timeout; /* s, of a command */
	struct variable variables[VARIABLES_MAX];
	unsigned variable_count;
	struct suite_column columns[COLUMNS_MAX];
	unsigned column_count;
	char work[64];
	unsigned port;
	int cpu[2];
	json_t *results;
};

/* ------------------------------------------------------------------ reading */

static const char *
variable_of(const struct suite *s, const char *name, size_t len)
{
	for (unsigned i = s->variable_count; i-- > 0;) {
		if (strlen(s->variables[i].name) == len &&
			strncmp(s->variables[i].name, name, len) == 0)
			return s->variables[i].value;
	}
	return NULL;
}

/* Return whether there is room for it. */
static bool
set_variable(struct suite *s, const char *name, const char *value)
{
	struct variable *v = NULL;

	for (unsigned i = 0; i < s->variable_count && v == NULL; i++)
		v = strcmp(s->variables[i].name, name) == 0 ? &s->variables[i] : NULL;
	if (v == NULL && s->variable_count < VARIABLES_MAX)
		v = &s->variables[s->variable_count++];
	if (v == NULL)
		return false;
	snprintf(v->name, sizeof(v->name), "%s", name);
	snprintf(v->value, sizeof(v->value), "%s", value);
	return true;
}

static void
set_number(struct suite *s, const char *name, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	set_variable(s, name, text);
}

/* Replace each {name} by what the variable is. Return 0, or 1 after printing what is wrong. */
static int
expand_once(const struct suite *s, const char *text, char out[TEXT_MAX])
{
	size_t n = 0;

	while (*text != '\0' && n < TEXT_MAX - 1) {
		const char *end = *text == '{' ? strchr(text, '}') : NULL;

		if (end == NULL) {
			out[n++] = *text++;
			continue;
		}
		const char *value = variable_of(s, text + 1, (size_t)(end - text - 1));

		if (value == NULL) {
			fprintf(stderr,
				"pmx-perf: suite: %s: %.*s is not defined; its section [suite] "
				"defines such names\n",
				s->path, (int)(end - text + 1), text);
			return 1;
		}
		n += (size_t)snprintf(out + n, TEXT_MAX - n, "%s", value);
		text = end + 1;
	}
	if (n >= TEXT_MAX - 1) {
		fprintf(stderr, "pmx-perf: suite: %s: a command of more than %d bytes\n", s->path,
			TEXT_MAX - 2);
		return 1;
	}
	out[n] = '\0';
	return 0;
}

/* Replace the names in values of variables as well. */
static int
expand(const struct suite *s, const char *text, char out[TEXT_MAX])
{
	char once[TEXT_MAX];

	if (expand_once(s, text, once) != 0 || expand_once(s, once, out) != 0 ||
		expand_once(s, out, once) != 0)
		return 1;
	snprintf(out, TEXT_MAX, "%s", once);
	return 0;
}

static int
bad_line(const struct suite *s, const char *section, const struct rte_cfgfile_entry *e,
	const char *allowed)
{
	fprintf(stderr, "pmx-perf: suite: %s: [%s] %s = %s: %s\n", s->path, section, e->name,
		e->value, allowed);
	return 1;
}

static int
read_suite_key(struct suite *s, const struct rte_cfgfile_entry *e)
{
	char *end;

	if (strcmp(e->name, "title") == 0) {
		json_t *text = json_string(e->value); /* NULL: it is no UTF-8 */

		if (text == NULL)
			return bad_line(s, "suite", e, "text in UTF-8");
		json_decref(text);
		snprintf(s->title, sizeof(s->title), "%s", e->value);
	} else if (strcmp(e->name, "turns") == 0) {
		s->turns = (unsigned)strtoul(e->value, &end, 10);
		if (*end != '\0' || s->turns < 1 || s->turns > 64)
			return bad_line(s, "suite", e, "a number from 1 to 64");
	} else if (strcmp(e->name, "timeout") == 0) {
		s->timeout = strtod(e->value, &end);
		if (*end != '\0' || s->timeout < 1 || s->timeout > 3600)
			return bad_line(s, "suite", e, "seconds from 1 to 3600");
	} else if (!set_variable(s, e->name, e->value)) {
		return bad_line(s, "suite", e, "there are too many such names");
	}
	return 0;
}

/* Keep the value if the key is NAME, NAME2, NAME3 ... Return whether it is. */
static bool
read_numbered(const struct rte_cfgfile_entry *e, const char *name, char (*out)[TEXT_MAX])
{
	const size_t len = strlen(name);
	const char *digit = e->name + len;

	if (strncmp(e->name, name, len) != 0 ||
		(*digit != '\0' && (digit[1] != '\0' || *digit < '2' || *digit > '8')))
		return false;
	snprintf(out[*digit == '\0' ? 0 : *digit - '1'], TEXT_MAX, "%s", e->value);
	return true;
}

static int
read_column_key(const struct suite *s, struct suite_column *c, const struct rte_cfgfile_entry *e)
{
	char *end;

	if (read_numbered(e, "run", c->run) || read_numbered(e, "with", c->with) ||
		read_numbered(e, "with_ready", c->with_ready))
		return 0;
	if (strcmp(e->name, "beside") == 0) {
		snprintf(c->beside, sizeof(c->beside), "%s", e->value);
	} else if (strcmp(e->name, "ready") == 0) {
		snprintf(c->ready, sizeof(c->ready), "%s", e->value);
	} else if (strcmp(e->name, "wait") == 0) {
		c->wait = strtod(e->value, &end);
		if (*end != '\0' || c->wait < 0 || c->wait > 60)
			return bad_line(s, c->name, e, "seconds from 0 to 60");
	} else {
		return bad_line(s, c->name, e,
			"no such key; there are run to run8, beside, ready, wait, with to with8, "
			"with_ready to with_ready8");
	}
	return 0;
}

static int
read_section(struct suite *s, struct rte_cfgfile *file, const char *section)
{
	const int n = rte_cfgfile_section_num_entries(file, section);
	struct rte_cfgfile_entry entries[n > 0 ? n : 1];
	const bool own = strcmp(section, "suite") == 0;
	struct suite_column *c = &s->columns[s->column_count];
	unsigned runs = 0;
	int e = 0;

	if (!own && s->column_count == COLUMNS_MAX) {
		fprintf(stderr, "pmx-perf: suite: %s: more than %d columns\n", s->path,
			COLUMNS_MAX);
		return 1;
	}
	if (!own) {
		s->column_count++;
		c->wait = 1;
		snprintf(c->name, sizeof(c->name), "%s", section);
	}
	rte_cfgfile_section_entries(file, section, entries, n);
	for (int i = 0; i < n && e == 0; i++) {
		if (strlen(entries[i].value) >= CFG_VALUE_LEN - 1)
			e = bad_line(s, section, &entries[i],
				"a value of 255 bytes or more: have parts of it in [suite]");
		else
			e = own ? read_suite_key(s, &entries[i])
				: read_column_key(s, c, &entries[i]);
	}
	for (unsigned i = 0; !own && i < COMMANDS_MAX; i++)
		runs += c->run[i][0] != '\0';
	if (e == 0 && !own && runs == 0) {
		fprintf(stderr, "pmx-perf: suite: %s: [%s] has no run = COMMAND\n", s->path,
			section);
		e = 1;
	}
	return e;
}

static int
read_file(struct suite *s)
{
	static char names[COLUMNS_MAX + 2][CFG_NAME_LEN];
	char *sections[COLUMNS_MAX + 2];
	char here[PATH_MAX];
	struct rte_cfgfile *file;
	int n, e = 0;

	if (realpath(s->path, here) == NULL) {
		fprintf(stderr, "pmx-perf: suite: %s: %s\n", s->path, strerror(errno));
		return 1;
	}
	*strrchr(here, '/') = '\0';
	set_variable(s, "here", here[0] ? here : "/");
	file = rte_cfgfile_load(s->path, 0);
	if (file == NULL) {
		fprintf(stderr,
			"pmx-perf: suite: %s: not understood: sections [NAME], lines KEY = "
			"VALUE, comments from ; on\n",
			s->path);
		return 1;
	}
	for (size_t i = 0; i < COLUMNS_MAX + 2; i++)
		sections[i] = names[i];
	n = rte_cfgfile_sections(file, sections, COLUMNS_MAX + 2);
	for (int i = 0; i < n && e == 0; i++)
		e = read_section(s, file, names[i]);
	rte_cfgfile_close(file);
	if (e == 0 && s->column_count == 0) {
		fprintf(stderr,
			"pmx-perf: suite: %s: no column; a section [NAME] with run = "
			"COMMAND is one\n",
			s->path);
		e = 1;
	}
	return e;
}

/* ------------------------------------------------------------------ a column, once */

/* Write the path of the file of what a program of that name has printed: "out" or "err". */
static void
output_of(const struct suite *s, const char *name, const char *which, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s.%s", s->work, name, which);
}

/* Print the end of what a program said, because it failed. */
static void
print_end_of(const struct suite *s, const char *name)
{
	char path[PATH_MAX], line[512], last[5][512];
	unsigned n = 0;
	FILE *f;

	output_of(s, name, "err", path);
	f = fopen(path, "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		snprintf(last[n++ % 5], sizeof(last[0]), "%s", line);
	for (unsigned i = n > 5 ? n - 5 : 0; i < n; i++)
		fprintf(stderr, "  | %s", last[i % 5]);
	if (f != NULL)
		fclose(f);
}

/* Start a command of a column with its output in files of that name. Return -1 after printing. */
static pid_t
suite_start(const struct suite *s, const char *text, int cpu, const char *name,
	struct command_line *c)
{
	char expanded[TEXT_MAX], out[PATH_MAX], err[PATH_MAX];

	if (expand(s, text, expanded) != 0 || command_parse(c, expanded) != 0)
		return -1;
	if (c->program[0] == '\0') {
		fprintf(stderr, "pmx-perf: suite: there is no program %s\n", c->word[0]);
		return -1;
	}
	output_of(s, name, "out", out);
	output_of(s, name, "err", err);
	return command_start(c, cpu, out, err);
}

/* Make sure that a file that tells that something is ready is not there before. One that is not the
 * suite's own is somebody else's. Return false after printing that it is there. */
static bool
not_ready_yet(const struct suite *s, const char *file)
{
	char path[TEXT_MAX];

	if (file[0] == '\0')
		return true;
	if (expand(s, file, path) != 0)
		return false;
	if (strncmp(path, s->work, strlen(s->work)) == 0)
		unlink(path);
	if (access(path, F_OK) != 0)
		return true;
	fprintf(stderr, "pmx-perf: suite: %s is there already: end what made it\n", path);
	return false;
}

/* Wait until what was started is ready. Return false after printing why it is not. */
static bool
ready(const struct suite *s, pid_t pid, const char *file, double wait, const char *name)
{
	char path[TEXT_MAX];

	if (file[0] == '\0') {
		usleep((useconds_t)(wait * 1e6));
		return true;
	}
	if (expand(s, file, path) != 0)
		return false;
	if (command_ready(pid, path, READY_S))
		return true;
	fprintf(stderr, "pmx-perf: suite: %s did not make %s\n", name, path);
	print_end_of(s, name);
	return false;
}

/* Add what a command measured, with its column and turn. Return how many results. */
static unsigned
add_results(struct suite *s, const struct suite_column *c, const struct command_line *run,
	unsigned turn, unsigned size)
{
	const size_t before = json_array_size(s->results);
	char out[PATH_MAX];
	unsigned n;

	output_of(s, "run", "out", out);
	n = command_results(run, out, size, s->results);
	for (size_t i = before; i < json_array_size(s->results); i++) {
		json_t *result = json_array_get(s->results, i);

		json_object_set_new(result, "column", json_string(c != NULL ? c->name : ""));
		json_object_set_new(result, "turn", json_integer(turn));
	}
	return n;
}

/* Run one command of a column, beside another. Return the results that it gave. */
static unsigned
run_one(struct suite *s, struct suite_column *c, const char *text, unsigned turn, unsigned size)
{
	struct command_line run, beside;
	pid_t pid, other = 0;
	unsigned n = 0;
	int status = -1;

	set_number(s, "port", s->port++);
	if (c->beside[0] != '\0') {
		if (!not_ready_yet(s, c->ready))
			return 0;
		other = suite_start(s, c->beside, s->cpu[1], "beside", &beside);
		if (other < 0)
			return 0;
		if (!ready(s, other, c->ready, c->wait, "beside")) {
			command_end(other, 0);
			return 0;
		}
	}
	pid = suite_start(s, text, s->cpu[0], "run", &run);
	if (pid > 0)
		status = command_end(pid, s->timeout);
	if (status == 0)
		n = add_results(s, c, &run, turn, size);
	if (other > 0)
		command_end(other, status == 0 ? BESIDE_S : 0);
	if (pid > 0 && n == 0) {
		fprintf(stderr, "\npmx-perf: suite: %s: %s", c->name, run.word[0]);
		if (status < 0)
			fprintf(stderr, " did not end within %g s\n", s->timeout);
		else if (status != 0)
			fprintf(stderr, " ended with exit status %d\n", status);
		else
			fprintf(stderr, " printed no result\n");
		print_end_of(s, "run");
	}
	return n;
}

/* Run a command once, or for each size if it has {size} in it. */
static unsigned
run_sizes(struct suite *s, struct suite_column *c, const char *text, unsigned turn)
{
	const char *sizes = variable_of(s, "sizes", 5);
	unsigned n = 0;
	char *end;

	if (strstr(text, "{size}") == NULL)
		return run_one(s, c, text, turn, 0);
	for (; sizes != NULL && *sizes != '\0'; sizes = *end == ',' ? end + 1 : end) {
		const unsigned long size = strtoul(sizes, &end, 10);

		if (end == sizes || size == 0) {
			fprintf(stderr, "pmx-perf: suite: %s: sizes: '%s': numbers with commas\n",
				s->path, sizes);
			return n;
		}
		set_number(s, "size", (long)size);
		n += run_one(s, c, text, turn, (unsigned)size);
	}
	return n;
}

static void
column_once(struct suite *s, struct suite_column *c, unsigned turn)
{
	struct command_line line;
	pid_t pids[COMMANDS_MAX];
	unsigned begun = 0;
	bool good = true;

	for (; begun < COMMANDS_MAX && good; begun++) {
		char name[16];

		pids[begun] = 0;
		if (c->with[begun][0] == '\0')
			continue;
		snprintf(name, sizeof(name), "with%u", begun + 1);
		pids[begun] = not_ready_yet(s, c->with_ready[begun])
			? suite_start(s, c->with[begun], -1, name, &line)
			: -1;
		good = pids[begun] > 0 &&
			ready(s, pids[begun], c->with_ready[begun], c->wait, name);
	}
	for (unsigned i = 0; i < COMMANDS_MAX && good; i++)
		c->results += c->run[i][0] != '\0' ? run_sizes(s, c, c->run[i], turn) : 0;
	while (begun-- > 0) {
		if (pids[begun] > 0)
			command_end(pids[begun], 0);
	}
}

/* ------------------------------------------------------------------ all of them */

/* Find the programs of the columns; a column whose program is not there is left out. */
static int
find_programs(struct suite *s, json_t *columns)
{
	for (unsigned i = 0; i < s->column_count; i++) {
		struct suite_column *c = &s->columns[i];
		json_t *commands = json_array(), *column;

		for (unsigned k = 0; k < 2 * COMMANDS_MAX + 1; k++) {
			const char *text = k < COMMANDS_MAX ? c->with[k]
				: k == COMMANDS_MAX         ? c->beside
							    : c->run[k - COMMANDS_MAX - 1];
			struct command_line line;
			char expanded[TEXT_MAX];

			if (text[0] == '\0')
				continue;
			if (expand(s, text, expanded) != 0 || command_parse(&line, expanded) != 0) {
				json_decref(commands);
				return 1;
			}
			json_array_append_new(commands, json_string(expanded));
			if (line.program[0] == '\0')
				snprintf(c->absent, sizeof(c->absent), "%.64s is not installed",
					line.word[0]);
		}
		column = json_pack("{s:s, s:o}", "name", c->name, "commands", commands);
		if (c->absent[0] != '\0') {
			json_object_set_new(column, "absent", json_string(c->absent));
			fprintf(stderr, "pmx-perf: suite: %s is left out: %s\n", c->name,
				c->absent);
		}
		json_array_append_new(columns, column);
	}
	return 0;
}

/* Measure the two CPUs: how far apart they are, and how often they are away. */
static void
cpus_once(struct suite *s, unsigned turn)
{
	const bool two = s->cpu[0] != s->cpu[1];
	char text[3][TEXT_MAX];
	struct command_line line;

	for (unsigned i = 0; i < 2; i++)
		snprintf(text[i], TEXT_MAX, "pmx-perf floor away --seconds 0.1 --cpu %d",
			s->cpu[i]);
	snprintf(text[2], TEXT_MAX, "pmx-perf floor line --cpu %d --other %d", s->cpu[0],
		s->cpu[1]);
	for (unsigned i = 0; i < (two ? 3 : 1); i++) {
		const pid_t pid = suite_start(s, text[i], -1, "run", &line);

		if (pid > 0 && command_end(pid, s->timeout) == 0)
			add_results(s, NULL, &line, turn, 0);
	}
}

static void
take_turns(struct suite *s)
{
	for (unsigned turn = 1; turn <= s->turns; turn++) {
		cpus_once(s, turn);
		for (unsigned i = 0; i < s->column_count; i++) {
			if (s->columns[i].absent[0] != '\0')
				continue;
			fprintf(stderr, "turn %u of %u: %s\n", turn, s->turns, s->columns[i].name);
			column_once(s, &s->columns[i], turn);
		}
	}
}

static json_t *
machine(const struct suite *s)
{
	char model[128] = "", line[256];
	struct utsname u;
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f != NULL && model[0] == '\0' && fgets(line, sizeof(line), f) != NULL)
		sscanf(line, "model name : %127[^\n]", model);
	if (f != NULL)
		fclose(f);
	uname(&u);
	return json_pack("{s:s, s:I, s:s, s:s, s:i, s:i, s:s}", "cpu", model, "cpus",
		(json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "kernel", u.release, "dpdk",
		rte_version(), "cpu0", s->cpu[0], "cpu1", s->cpu[1], "distance",
		cpu_distance(s->cpu[0], s->cpu[1]));
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path);
}

static int
measure_all(struct suite *s, const struct perf_options *o)
{
	json_t *columns = json_array(), *document;
	char begun[32];
	const time_t now = time(NULL);
	struct tm tm;
	int result = 0;

	s->results = json_array();
	if (find_programs(s, columns) != 0) {
		json_decref(columns);
		json_decref(s->results);
		return 1;
	}
	strftime(begun, sizeof(begun), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	take_turns(s);
	document = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o}", "pmx_perf",
		PMX_VERSION, "commit", perf_commit, "title", s->title, "begun", begun, "suite",
		s->path, "turns", (int)s->turns, "machine", machine(s), "columns", columns,
		"results", s->results);
	results_print(document);
	result = results_save(document, o->out) | results_page(document, o->out);
	json_decref(document);
	for (unsigned i = 0; i < s->column_count; i++) {
		const struct suite_column *c = &s->columns[i];

		if (c->absent[0] == '\0' && c->results == 0) {
			fprintf(stderr, "pmx-perf: suite: %s has no result\n", c->name);
			result = 1;
		}
	}
	if (result == 0)
		printf("\n%s/results.json, %s/report.html\n", o->out, o->out);
	return result;
}

int
run_suite(const struct perf_options *o)
{
	static struct suite s;
	int result;

	if (o->file_count != 1 || o->out == NULL) {
		fprintf(stderr, "pmx-perf: suite: suite FILE --out DIR\n");
		return 2;
	}
	s = (struct suite){.path = o->files[0], .turns = 5, .timeout = 60};
	snprintf(s.title, sizeof(s.title), "pmx-perf suite");
	snprintf(s.work, sizeof(s.work), "/tmp/pmx-perf.XXXXXX");
	s.cpu[0] = o->cpu;
	s.cpu[1] = o->other >= 0 ? o->other : cpu_other(o->cpu);
	s.port = 20000 + (unsigned)getpid() % 20000;
	set_number(&s, "cpu0", s.cpu[0]);
	set_number(&s, "cpu1", s.cpu[1]);
	set_number(&s, "port", s.port);
	set_number(&s, "size", 64);
	if (mkdir(o->out, 0777) != 0 && errno != EEXIST)
		return perf_complain(o->out, -errno);
	if (mkdtemp(s.work) == NULL)
		return perf_complain(s.work, -errno);
	set_variable(&s, "work", s.work);
	setenv("RUNTIME_DIRECTORY", s.work, 1); /* DPDK's files of all that is started */
	result = read_file(&s);
	if (o->turns != 0)
		s.turns = o->turns;
	if (result == 0)
		result = measure_all(&s, o);
	nftw(s.work, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return result;
}
