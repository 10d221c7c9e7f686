/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A link carries frames between nodes. Every driver is a table of functions over mbufs. The engine
 * that owns a queue calls rx and tx on it from its own lcore; everything else is called before the
 * engines start or after they stopped.
 *
 * Design notes
 * 1. A frame in an mbuf starts with the link's encapsulation (Ethernet, VLAN, UDP/IP; nothing for a
 *    kernel socket), then the PM header, then the payload. Each frame is one segment, except that a
 *    frame sent on a link with `segments` may have a second one, in memory that is not DPDK's. If
 *    the link has a `device`, that memory must have been mapped for it (rte_dev_dma_map).
 * 2. rx returns mbufs of the node's own pool only, because the engine's ownership table covers no
 *    others. A driver that receives other mbufs copies them.
 * 3. tx takes one reference of each mbuf it accepts, and drops it when it no longer reads the
 *    frame. The engine holds its own reference of a frame that awaits its Ack.
 * 4. A driver that loses frames counts them: no loss goes unreported.
 * 5. The port field of an mbuf to be sent is the number of the destination node.
 */
#ifndef PMX_DRIVERS_LINK_H
#define PMX_DRIVERS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_ether.h>
#include <rte_mbuf.h>

/* The drivers, a row each: its name, and what it is. The rest of a driver is its source, which
 * defines link_NAME_ops. `between` stands between the rows. */
/* clang-format off */
#define LINK_DRIVERS(X, between) \
	X(ethdev, "any DPDK port") between \
	X(udp, "kernel sockets, no root") between \
	X(loop, "inside one process")
/* clang-format on */

#define LINK_NAME_MAX    64
#define LINK_OPTIONS_MAX 256
#define LINK_ENCAP_MAX   48
#define LINK_ERROR_MAX   256
#define LINK_ADDR_MAX    64 /* "[IPv6%interface]:port" with its 0 */

enum link_encap {
	LINK_ENCAP_ETHER, /* Ethernet, own EtherType */
	LINK_ENCAP_VLAN,  /* 802.1Q tag, own EtherType */
	LINK_ENCAP_UDP,   /* Ethernet, IPv4, UDP: passes routers and clouds */
	LINK_ENCAP_NONE,  /* the driver's transport has its own framing (kernel UDP socket, loop) */
};

/* An own IPv4 address and its network. */
struct link_net {
	uint32_t ip;   /* host order */
	uint32_t bits; /* that all addresses of the network share; 0: all peers are in it */
};

/* The router to other networks. */
struct link_gateway {
	uint32_t ip;               /* host order; 0: not known */
	struct rte_ether_addr mac; /* zero: found by ARP */
};

/* The configuration of one link. */
struct link_config {
	char driver[LINK_NAME_MAX];   /* a name of LINK_DRIVERS */
	char port[LINK_NAME_MAX];     /* ethdev: port name or PCI address; loop: the name that two
				       * links share */
	char listen[LINK_ADDR_MAX];   /* udp: local "address:port" */
	char fault[LINK_OPTIONS_MAX]; /* fault model's options, "" = none: see fault_model.h */
	enum link_encap encap;
	uint16_t ethertype;  /* host order */
	uint16_t vlan;       /* 1..4094 */
	uint16_t udp_port;   /* encap = udp: destination port */
	struct link_net net; /* encap = udp: own address and network */
	char gateway_text[LINK_ADDR_MAX];
	struct link_gateway gateway; /* encap = udp: of peers outside the network */
	uint32_t mtu;                /* PM header + payload + encapsulation beyond Ethernet,
				      * bytes */
	uint32_t queues;             /* queues wanted: one for each engine */
	uint32_t rx_descriptors;
	uint32_t tx_descriptors;
	uint32_t rate_mbps; /* what the link carries, Mbit/s; 0: not known; LINK_RATE_AUTO: what its
			     * device says */
};
#define LINK_RATE_AUTO UINT32_MAX

/* The address of a peer: what the driver needs to send a frame to it. */
struct link_addr {
	struct rte_ether_addr mac; /* ethdev; with encap = udp the next hop's: peer or router; zero:
				    * found by ARP */
	bool v6;                   /* ip6 is valid instead of ip; driver udp only */
	uint16_t port;             /* udp and encap = udp: host order */
	uint32_t ip;               /* udp and encap = udp: IPv4, host order */
	uint32_t zone;             /* interface number of a link-local ip6, 0 = not given */
	uint8_t ip6[16];
};

struct link_stats {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t rx_no_mbuf;  /* frames lost because the pool was empty */
	uint64_t rx_too_long; /* frames lost because they did not fit an mbuf */
	uint64_t tx_refused;  /* frames that the port did not accept; the protocol sends them
			       * again */
	uint64_t faults;      /* frames that the fault model dropped, doubled, delayed or changed */
};

struct link;

/* The ways in which a driver's links know their peers. */
enum link_peers {
	LINK_PEERS_MAC,  /* by MAC address, with encap = udp also by IP address: Ethernet frames */
	LINK_PEERS_IP,   /* by IP address and port */
	LINK_PEERS_NONE, /* there is one, which needs no address */
};

struct link_ops {
	const char *name;
	enum link_peers peers;
	bool port; /* config.port names a DPDK port */
	bool slow; /* rx and tx are system calls: while they run, frames arrive */
	/* Say whether two links of this driver would use the same thing. May be NULL: never. */
	bool (*clashes)(const struct link_config *a, const struct link_config *b);
	/* Return the bytes of memory that open takes for a lane, beside mbufs. May be NULL: none.
	 */
	uint64_t (*lane_bytes)(const struct link_config *config);
	/* Check what can be checked of a configuration without opening anything. Returns 0, or
	 * -EINVAL and a sentence. */
	int (*check)(const struct link_config *config, char *error, size_t error_size);
	/* Open with l->config, which has passed check. Returns 0, or a negative errno with a
	 * sentence in l->error. */
	int (*open)(struct link *l);
	void (*close)(struct link *l);
	/* Receive at most n frames of one queue into bufs; the caller owns them. */
	uint16_t (*rx)(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
	/* Accept the first k of n frames and return k. Notes 3 and 5. */
	uint16_t (*tx)(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
	/* Tell the driver the address of a node. Returns 0 or a negative errno. May be NULL. */
	int (*add_peer)(struct link *l, uint16_t node, const struct link_addr *addr);
	/* Returns a descriptor that becomes readable when a frame waits on `queue`, or -1 if the
	 * queue must be polled. May be NULL, which means -1. */
	int (*rx_fd)(struct link *l, uint16_t queue);
	/* Try to bring up a link that is down and does not come up by itself. While the engines
	 * poll, by one thread at a time. May be NULL. */
	void (*revive)(struct link *l);
	void (*stats)(struct link *l, struct link_stats *out);
};

struct link {
	const struct link_ops *ops;
	struct link_config config;
	struct rte_mempool *pool; /* of received frames; the node's */
	uint16_t rx_queues;       /* set by open: 1..config.queues */
	uint16_t tx_queues;
	uint64_t rate_bps;         /* set by open: what the link carries, bit/s; 0: not known */
	uint16_t mtu;              /* set by open: longest frame after the Ethernet header, bytes */
	bool segments;             /* accepts frames of two mbufs (note 1): head, and bytes
				    * elsewhere */
	struct rte_device *device; /* with segments: the device that reads them by DMA; NULL: the
				    * CPU reads them */
	bool slow;                 /* the driver's */
	bool multicast;            /* a frame to an Ethernet group address may reach several
				    * nodes */
	bool up;                   /* last known carrier */
	struct rte_ether_addr mac; /* own address, zero where the driver has none */
	uint16_t node;             /* own node number */
	void *priv;                /* the driver's */
	char error[LINK_ERROR_MAX];
};

/* Return the driver of that name, or NULL. */
const struct link_ops *link_driver(const char *name);
/* Return how the link knows its peers; one that is not configured has none. */
enum link_peers link_peers(const struct link_config *config);
/* Return whether peers on the link have IP addresses, by its driver or its encapsulation. */
bool link_by_ip(const struct link_config *config);
/* Write a peer's address on the link: IP address and port, or Ethernet address, or "". */
void link_peer_text(const struct link_config *config, const struct link_addr *a,
	char text[LINK_ADDR_MAX]);
/* Open the driver that config.driver names, wrapped by the fault link if config.fault is set.
 * Returns 0, or a negative errno with a sentence in l->error that says what to do. */
int link_open(struct link *l, const struct link_config *config, uint16_t node,
	struct rte_mempool *pool);
void link_close(struct link *l);
/* Make the checks of link_open that open nothing. Returns 0, or -EINVAL and a sentence. */
int link_check(const struct link_config *config, char *error, size_t error_size);

/* Return whether an address is in the network, which is in reach without a router. */
static inline bool
link_is_near(const struct link_net *net, uint32_t ip)
{
	return net->bits == 0 || ((net->ip ^ ip) >> (32 - net->bits)) == 0;
}

/* Parse a number that consists of digits only, has no leading 0 (so there is one way to write
 * each), and is at most max. *out is set only if this returns true. */
bool whole_number(const char *text, uint32_t max, uint32_t *out);
/* "IPv4", "IPv4:port", "IPv6", "[IPv6]", "[IPv6]:port"; a link-local IPv6 may end in "%interface".
 * Returns 1 if there is a port; 0 if there is none, and leaves addr->port as it is; -EINVAL if it
 * is none of these; -ENODEV if this host has no such interface. On an error *addr is unchanged;
 * addr->mac never changes. */
int link_addr_parse(const char *text, struct link_addr *addr);
/* Write an address as link_addr_parse reads it, into LINK_ADDR_MAX bytes. */
void link_addr_text(const struct link_addr *addr, char *out);

#define LINK_DRIVER_OPS(name, what) extern const struct link_ops link_##name##_ops;
LINK_DRIVERS(LINK_DRIVER_OPS, )
extern const struct link_ops link_fault_ops;

#endif
