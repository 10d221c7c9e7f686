/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What each source of the client includes, compiled once.
 */
#define ALLOW_EXPERIMENTAL_API
#include <rte_mbuf.h>
