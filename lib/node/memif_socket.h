/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets of net_memif's servers, which stay as files when a server is killed. Its next life could
 * not make its socket where one is.
 */
#ifndef PMX_NODE_MEMIF_SOCKET_H
#define PMX_NODE_MEMIF_SOCKET_H

/* Remove the sockets that servers among these arguments of the EAL are to make, if they are files
 * and nobody listens there. Call it before rte_eal_init(). */
void node_memif_sockets_clear(int argc, char *const argv[]);

#endif
