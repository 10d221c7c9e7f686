/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the kernel UDP link share: udp.c opens sockets and knows addresses, udp_rx.c
 * receives, udp_tx.c sends.
 */
#ifndef PMX_DRIVERS_UDP_H
#define PMX_DRIVERS_UDP_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "link.h"

#define UDP_BURST   32 /* datagrams of one system call */
#define UDP_FRAMES  64 /* frames of one datagram that the kernel splits or has joined */
#define UDP_WAIT    (UDP_BURST * UDP_FRAMES)
#define UDP_MTU_MAX 65507 /* 65535 without IPv4 and UDP headers */
#define UDP_NODES   65536 /* every node number */
#define UDP_CONTROL 32    /* bytes of a control message with one int, aligned */

/* The ways in which a queue can receive: see udp_rx.c, note 1. */
enum udp_rx_mode {
	UDP_RX_ONE,     /* recv */
	UDP_RX_MANY,    /* recvmmsg */
	UDP_RX_SCATTER, /* recvmsg, of a datagram of many frames into as many mbufs */
};

union udp_addr {
	struct sockaddr any; /* sa_family 0: unknown */
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct udp_peer {
	union udp_addr addr;
	bool whole; /* the kernel does not split datagrams on the way there: udp_tx.c, note 3 */
};

struct udp_queue {
	int fd; /* -1: not open */
	enum udp_rx_mode mode;
	uint32_t busy, quiet; /* polls in a row that brought a frame, or nothing worth the mode */
	uint32_t ready;       /* mbufs in bufs[], at its start, for the next frames */
	uint32_t waiting, waiting_at; /* frames in wait[] that rx had no room for, and the first */
	uint32_t piece;               /* bytes of each of scatter[] */
	uint32_t laid;                /* mbufs that scatter[] was laid out for, 0: it must be */
	struct link_stats stats;
	int *connected; /* by node number: descriptor + 1 of a socket for sending, 0: none */
	struct rte_mbuf *bufs[UDP_FRAMES], *wait[UDP_WAIT];
	uint8_t *spill;  /* of each datagram of a burst, what does not fit its mbuf: UDP_BURST x
			  * UDP_SPILL */
	uint8_t *linear; /* UDP_SPILL: a datagram that has to be cut up anew */
	uint8_t *joined; /* UDP_JOINED: datagrams of several frames that leave */
	struct iovec scatter[UDP_FRAMES + 1];
	struct mmsghdr rx_msgs[UDP_BURST], tx_msgs[UDP_BURST]; /* rx: [i] has iov [2i], [2i + 1] */
	struct iovec rx_iov[2 * UDP_BURST], tx_iov[UDP_FRAMES];
	/* struct cmsghdr */
	_Alignas(8) uint8_t rx_control[UDP_BURST][UDP_CONTROL];
	_Alignas(8) uint8_t tx_control[UDP_BURST][UDP_CONTROL];
} __rte_cache_aligned;

#define UDP_SPILL  65536
#define UDP_JOINED 131072

struct udp_link {
	uint32_t room; /* of an mbuf, bytes */
	uint16_t queue_count;
	bool v6;
	socklen_t addr_len;     /* length of each address: a link has one family */
	uint32_t connections;   /* sockets for sending that are open */
	struct udp_peer *peers; /* by node number */
	struct udp_queue *queues;
};

/* Prepare a queue whose socket is open, and whose other members are 0. */
void udp_rx_begin(struct link *l, struct udp_queue *q);
/* Receive and send frames of one queue: rx and tx of the link's operations. */
uint16_t udp_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
uint16_t udp_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);

#endif
