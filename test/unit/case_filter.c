/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Part of every program of unit tests: with TEST_CASE in the environment, a pattern of names with
 * * and ?, it runs only those of its cases.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static __attribute__((constructor)) void
choose_cases(void)
{
	const char *pattern = getenv("TEST_CASE");

	if (pattern != NULL)
		cmocka_set_test_filter(pattern);
}
