/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A fuzz target without a fuzzer, for every compiler and without time: it gets each input of a
 * corpus, and then COUNT inputs that are made of those by a seed's random changes. So a bug that
 * was found once stays found, and near ones are looked for.
 *
 *   fuzzed_NAME DIR [COUNT [SEED]]      prints how many inputs there were
 *   fuzzed_NAME FILE                    that input alone
 *
 * What crashes is written to crash-NAME in the working directory before the process ends.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEN_MAX    4000u
#define INPUTS_MAX 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static struct input {
	uint8_t *data;
	size_t len;
} inputs[INPUTS_MAX];
static unsigned n_inputs;
static uint8_t changed[LEN_MAX];
static struct input now = {changed, 0}; /* what the target has */
static char crash[64];
static uint64_t state;

static uint32_t
draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % below;
}

static void
crashed(int number)
{
	int fd = open(crash, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	if (fd >= 0 && write(fd, now.data, now.len) == (ssize_t)now.len)
		(void)!write(2, "the input is in ./", 18), (void)!write(2, crash, strlen(crash)),
			(void)!write(2, "\n", 1);
	signal(number, SIG_DFL);
	raise(number);
}

static bool
read_input(const char *path)
{
	struct input *in = &inputs[n_inputs];
	FILE *f = fopen(path, "rb");

	if (f == NULL || n_inputs == INPUTS_MAX)
		return false;
	in->data = malloc(LEN_MAX);
	in->len = in->data == NULL ? 0 : fread(in->data, 1, LEN_MAX, f);
	n_inputs += in->data != NULL;
	return fclose(f) == 0;
}

static bool
read_inputs(const char *path)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);

	if (n < 0)
		return read_input(path);
	for (int i = 0; i < n; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && !read_input(file))
			fprintf(stderr, "cannot read %s\n", file);
		free(entries[i]);
	}
	free(entries);
	return n_inputs > 0;
}

/* Puts `len` bytes of another input into what is changed, over what is there or between it. */
static void
put_other(void)
{
	const struct input *from = &inputs[draw(n_inputs)];
	size_t begin, at, len;

	if (from->len == 0)
		return;
	begin = draw((uint32_t)from->len);
	at = draw((uint32_t)now.len + 1);
	len = 1 + draw((uint32_t)(from->len - begin));
	if (len > LEN_MAX - at)
		len = LEN_MAX - at;
	if (draw(2) == 0 && now.len + len <= LEN_MAX) {
		memmove(changed + at + len, changed + at, now.len - at);
		now.len += len;
	}
	memcpy(changed + at, from->data + begin, len);
	if (now.len < at + len)
		now.len = at + len;
}

static void
change(void)
{
	static const uint8_t telling[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff};
	size_t at = now.len == 0 ? 0 : draw((uint32_t)now.len);

	switch (now.len == 0 ? 0 : draw(5)) {
	case 0:
		put_other();
		break;
	case 1:
		changed[at] ^= (uint8_t)(1u << draw(8));
		break;
	case 2:
		changed[at] = telling[draw(sizeof(telling))];
		break;
	case 3:
		changed[at] = (uint8_t)draw(256);
		break;
	case 4: { /* without some bytes */
		size_t len = 1 + draw((uint32_t)(now.len - at));

		memmove(changed + at, changed + at + len, now.len - at - len);
		now.len -= len;
		break;
	}
	}
}

static void
run(const struct input *in, unsigned changes)
{
	memcpy(changed, in->data, in->len);
	now.len = in->len;
	while (changes-- > 0)
		change();
	LLVMFuzzerTestOneInput(changed, now.len);
}

int
main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') == NULL ? argv[0] : strrchr(argv[0], '/') + 1;
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	const char *path = argc > 1 ? argv[1] : "";

	state = (argc > 3 ? strtoul(argv[3], NULL, 10) : 1) * UINT64_C(0x9e3779b97f4a7c15);
	snprintf(crash, sizeof(crash), "crash-%s", name);
	argc = 1;
	if (LLVMFuzzerInitialize != NULL && LLVMFuzzerInitialize(&argc, &argv) != 0)
		return 2;
	if (!read_inputs(path)) {
		fprintf(stderr, "Usage: %s DIR [COUNT [SEED]] | FILE\n", name);
		return 2;
	}
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGFPE, crashed);
	signal(SIGABRT, crashed);
	for (unsigned i = 0; i < n_inputs; i++)
		run(&inputs[i], 0);
	for (unsigned long i = 0; i < count; i++)
		run(&inputs[draw(n_inputs)], 1 + draw(6));
	printf("%u inputs and %lu changed ones\n", n_inputs, count);
	for (unsigned i = 0; i < n_inputs; i++)
		free(inputs[i].data);
	return 0;
}
