/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of pages, of at most as many as there are.
 */
#include <stdlib.h>

#include "dsm/dsm.h"

void
dsm_list_add(struct page_list *l, uint32_t page)
{
	if (l->count == l->most)
		dsm_list_sort(l);
	l->pages[l->count++] = page;
}

static int
by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Sort the list, and remove pages that are in it twice. */
void
dsm_list_sort(struct page_list *l)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < l->count; i++) {
		if (l->pages[i] <= l->pages[i - 1]) {
			qsort(l->pages, l->count, sizeof(*l->pages), by_number);
			break;
		}
	}
	for (uint32_t i = 0; i < l->count; i++) {
		if (n == 0 || l->pages[n - 1] != l->pages[i])
			l->pages[n++] = l->pages[i];
	}
	l->count = n;
}
