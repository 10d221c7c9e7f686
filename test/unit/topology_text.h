/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A topology of a text that is right.
 */
#ifndef PMX_TEST_TOPOLOGY_TEXT_H
#define PMX_TEST_TOPOLOGY_TEXT_H

#include "coll/topology.h"

/* Fails the test if the text is wrong. To be freed with topology_free(). */
static inline struct topology *
parsed(const char *text)
{
	struct topology *t = NULL;
	char error[256] = "";

	if (topology_parse(text, &t, error, sizeof(error)) != 0)
		fail_msg("%s", error);
	return t;
}

#endif
