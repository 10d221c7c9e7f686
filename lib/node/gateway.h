/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The router of a link with encap = udp. Called while a configuration is read.
 */
#ifndef PMX_NODE_GATEWAY_H
#define PMX_NODE_GATEWAY_H

#include "link.h"

/* Set l->gateway from l->gateway_text and l->net. auto: the kernel's router, if it has one in that
 * network; else the gateway stays unknown. Return 0, or -1 with a sentence in error. */
int gateway_read(struct link_config *l, char *error, size_t error_size);

#endif
