/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A link carries frames between nodes. Every driver is one table of functions over mbufs; the
 * engine that owns a queue calls rx and tx on it from its own lcore, everything else is called
 * before the engines start or after they stopped.
 *
 * Design notes
 * 1. A frame in an mbuf starts with the link's encapsulation (Ethernet, VLAN, UDP/IP; nothing for
 *    a kernel socket), then the PM header, then the payload. Each frame is one segment, but to a
 *    link that says `segments`, one that is sent may have a second: memory that is not DPDK's.
 *    Where the link names a `device`, that memory has to be mapped for it first (rte_dev_dma_map).
 * 2. rx gives mbufs of the node's own pool only: the engine's ownership table knows no other.
 *    A driver that gets foreign memory copies it.
 * 3. tx takes one reference of each mbuf it accepts, and drops it when it no longer reads the
 *    frame. The engine holds its own reference of a frame that awaits its Ack.
 * 4. A driver that loses frames counts them: nothing disappears without a name.
 * 5. The port field of an mbuf that is sent is the number of the node that it goes to.
 */
#ifndef PMX_DRIVERS_LINK_H
#define PMX_DRIVERS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_ether.h>
#include <rte_mbuf.h>

#define LINK_NAME_MAX    64
#define LINK_OPTIONS_MAX 256
#define LINK_ENCAP_MAX   48
#define LINK_ERROR_MAX   256
#define LINK_ADDR_MAX    64 /* "[IPv6%interface]:port" with its 0 */

enum link_encap {
	LINK_ENCAP_ETHER, /* Ethernet, own EtherType */
	LINK_ENCAP_VLAN,  /* 802.1Q tag, own EtherType */
	LINK_ENCAP_UDP,   /* Ethernet, IPv4, UDP: passes routers and clouds */
	LINK_ENCAP_NONE,  /* the driver's transport frames by itself (kernel UDP socket, loop) */
};

/* What the config says of one link. */
struct link_config {
	char driver[LINK_NAME_MAX];   /* "ethdev", "udp", "loop" */
	char port[LINK_NAME_MAX];     /* ethdev: port name or PCI address; loop: name of the
				       * pair */
	char listen[LINK_ADDR_MAX];   /* udp: local "address:port" */
	char fault[LINK_OPTIONS_MAX]; /* fault model's options, "" = none: see fault_model.h */
	enum link_encap encap;
	uint16_t ethertype; /* host order */
	uint16_t vlan;      /* 1..4094 */
	uint16_t udp_port;  /* encap = udp: destination port */
	uint32_t ip;        /* encap = udp: own IPv4 address, host order */
	uint32_t mtu;       /* PM header + payload + encapsulation beyond Ethernet,
			     * bytes */
	uint32_t queues;    /* queues wanted: one for each engine */
	uint32_t rx_descriptors;
	uint32_t tx_descriptors;
};

/* Where a peer is reached: what the driver needs to address a frame to it. */
struct link_addr {
	struct rte_ether_addr mac; /* ethdev; with encap = udp the next hop's: peer or router */
	bool v6;                   /* it is ip6 and not ip; driver udp only */
	uint16_t port;             /* udp and encap = udp: host order */
	uint32_t ip;               /* udp and encap = udp: IPv4, host order */
	uint32_t zone;             /* of a link-local ip6: its interface's number, 0 = not said */
	uint8_t ip6[16];
};

struct link_stats {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t rx_no_mbuf;  /* frames lost because the pool was empty */
	uint64_t rx_too_long; /* frames lost because they did not fit an mbuf */
	uint64_t tx_refused;  /* frames that the port did not take; the protocol sends them again */
	uint64_t faults;      /* frames that the fault model dropped, doubled, delayed or changed */
};

struct link;

struct link_ops {
	const char *name;
	/* What of a configuration can be judged without opening anything: 0, or -EINVAL and a
	 * sentence. */
	int (*check)(const struct link_config *config, char *error, size_t error_size);
	/* Open by l->config, which check allowed; 0, or a negative errno with a sentence in
	 * l->error. */
	int (*open)(struct link *l);
	void (*close)(struct link *l);
	/* At most n frames of one queue into bufs; the caller owns them. */
	uint16_t (*rx)(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
	/* Take the first k of n frames, return k. Note 5. */
	uint16_t (*tx)(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
	/* Tell the driver where node `node` is; 0 or negative errno. May be NULL. */
	int (*add_peer)(struct link *l, uint16_t node, const struct link_addr *addr);
	/* A descriptor that becomes readable when a frame waits on `queue`, or -1: must be
	 * polled. */
	int (*rx_fd)(struct link *l, uint16_t queue);
	void (*stats)(struct link *l, struct link_stats *out);
};

struct link {
	const struct link_ops *ops;
	struct link_config config;
	struct rte_mempool *pool; /* of received frames; the node's */
	uint16_t rx_queues;       /* opened: 1..config.queues */
	uint16_t tx_queues;
	uint16_t mtu;              /* opened: longest frame after the Ethernet header, bytes */
	bool segments;             /* takes frames of two mbufs (note 1): head, and bytes
				    * elsewhere */
	struct rte_device *device; /* with segments: what reads them by DMA; NULL: the CPU does */
	bool up;                   /* last known carrier */
	struct rte_ether_addr mac; /* own address, zero where the driver has none */
	uint16_t node;             /* own node number */
	void *priv;                /* the driver's */
	char error[LINK_ERROR_MAX];
};

/* Open the driver that config.driver names, wrapped by the fault link if config.fault is set.
 * Returns 0 or a negative errno; the sentence that says what to do is in l->error. */
int link_open(struct link *l, const struct link_config *config, uint16_t node,
	struct rte_mempool *pool);
void link_close(struct link *l);
/* What link_open would refuse without trying anything: 0, or -EINVAL and a sentence. */
int link_check(const struct link_config *config, char *error, size_t error_size);

/* Digits and nothing else, no 0 in front (one way to write each), at most max. *out only if so. */
bool whole_number(const char *text, uint32_t max, uint32_t *out);
/* "IPv4", "IPv4:port", "IPv6", "[IPv6]", "[IPv6]:port"; a link-local IPv6 may end in "%interface".
 * 1: with a port, 0: without one, and addr->port stays. -EINVAL: it is none of these, -ENODEV: this
 * host has no such interface; then nothing of addr has changed. Never changes addr->mac. */
int link_addr_parse(const char *text, struct link_addr *addr);
/* As link_addr_parse reads it, into LINK_ADDR_MAX bytes. */
void link_addr_text(const struct link_addr *addr, char *out);

extern const struct link_ops link_ethdev_ops;
extern const struct link_ops link_udp_ops;
extern const struct link_ops link_loop_ops;
extern const struct link_ops link_fault_ops;

#endif
