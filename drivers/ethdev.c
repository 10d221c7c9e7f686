/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver = ethdev: any DPDK port, by its name (net_memif0) or PCI address. The thread that starts
 * the node opens and closes it; the lane that owns a queue calls rx and tx on it.
 *
 * Design notes
 * 1. Each lane has one receive and one transmit queue if the port has so many, with RSS if the port
 *    can do it. With fewer queues the engine hands frames over to other lanes in software.
 * 2. Fast free (RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) is never enabled, because the engine holds a
 *    reference of frames that await their Ack.
 * 3. memif and af_packet refuse an rxmode.mtu above 1518, and carry long frames without it. So a
 *    port that refuses the MTU is configured without it, and its PMD's own limit applies.
 * 4. A memif client can start only after its server has made the socket. A server that is about to
 *    start has the socket already, but sends its clients away, and these do not try again. So
 *    starting is retried for some seconds, until the client has been let in. A client whose server
 *    went is stopped and started until a server lets it in again; but not with zero copy, where the
 *    driver closes descriptors of the EAL as it connects, which others may have by then.
 * 5. net_ring passes the sender's mbufs on. A frame from a foreign pool is copied.
 * 6. A second segment is an application's memory. A port on a bus reads it by DMA once it is
 *    mapped. Of DPDK's virtual ports, those that are known to copy with the CPU can read any
 *    memory.
 * 7. af_packet says that its carrier is there whatever happens, so the kernel is asked too.
 * 8. A lane polls on while a port is stopped, of which DPDK would complain at each poll: it is shut
 *    out before.
 * 9. memif's counts of frames are 0 while its link is down.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>

#include "interrupts.h"
#include "link.h"
#include "memif_lanes.h"

#define START_TRIES   50
#define RATE_WAIT_MS  3000 /* a cable's ends take so long to agree */
#define START_WAIT_MS 100

struct ethdev {
	uint16_t port;
	unsigned if_index; /* of the kernel's interface that the port is of; 0: none */
	bool started;
	bool memif_client;
	bool revives; /* a client that may connect again: note 4 */
	struct memif_lanes *lanes;
	struct rte_eth_stats counted; /* the most of each: note 9 */
	uint64_t foreign_lost; /* frames of another pool that were lost because no mbuf was free */
};

static int
list_ports(char *out, size_t size)
{
	uint16_t port;
	int n = 0;

	out[0] = 0;
	RTE_ETH_FOREACH_DEV(port) {
		char name[RTE_ETH_NAME_MAX_LEN];
		size_t at = strlen(out);

		if (rte_eth_dev_get_name_by_port(port, name) == 0)
			snprintf(out + at, size - at, "%s%s", n++ ? ", " : "", name);
	}
	return n;
}

/* Return whether the port was made with that argument of --vdev. */
static bool
has_argument(const struct rte_eth_dev_info *info, const char *text)
{
	const struct rte_devargs *args = rte_dev_devargs(info->device);

	return args != NULL && args->args != NULL && strstr(args->args, text) != NULL;
}

/* Return whether the virtual port copies a frame with the CPU. If it does, the frame's second
 * segment may be memory that no device and no other process knows of. */
static bool
copies_by_cpu(const struct rte_eth_dev_info *info)
{
	static const char *const drivers[] = {"net_memif", "net_af_packet", "net_tap", "net_vhost"};

	if (has_argument(info, "zero-copy=y"))
		return false; /* memif: its peer can read only DPDK's memory */
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (strcmp(info->driver_name, drivers[i]) == 0)
			return true;
	}
	return false;
}

static bool
is_virtual(const struct rte_eth_dev_info *info)
{
	const struct rte_bus *bus = rte_dev_bus(info->device);

	return bus == NULL || strcmp(rte_bus_name(bus), "vdev") == 0;
}

/* Let the port accept frames of two segments, if it can read the second: note 6. */
static void
use_segments(struct link *l, const struct rte_eth_dev_info *info, struct rte_eth_conf *conf)
{
	if (!(info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) ||
		info->tx_desc_lim.nb_mtu_seg_max == 1 || (is_virtual(info) && !copies_by_cpu(info)))
		return;
	conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	l->segments = true;
	l->device = is_virtual(info) ? NULL : info->device;
}

static int
configure(struct link *l, struct ethdev *d, const struct rte_eth_dev_info *info)
{
	struct rte_eth_conf conf = {0};
	uint16_t rxq = (uint16_t)RTE_MIN(l->config.queues, info->max_rx_queues);
	uint16_t txq = (uint16_t)RTE_MIN(l->config.queues, info->max_tx_queues);

	if (rxq == 0 || txq == 0)
		rxq = txq = 1;
	if (rxq > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
			(RTE_ETH_RSS_UDP | RTE_ETH_RSS_L2_PAYLOAD);
	}
	if (l->config.mtu > RTE_ETHER_MTU && l->config.mtu <= info->max_mtu)
		conf.rxmode.mtu = l->config.mtu;
	use_segments(l, info, &conf);
	int e = rte_eth_dev_configure(d->port, rxq, txq, &conf);

	if (e != 0 && conf.rxmode.mtu != 0) {
		conf.rxmode.mtu = 0;
		e = rte_eth_dev_configure(d->port, rxq, txq, &conf);
	}
	if (e != 0) {
		snprintf(l->error, sizeof(l->error), "port %s: cannot be configured: %s",
			l->config.port, rte_strerror(-e));
		return e;
	}
	l->rx_queues = rxq;
	l->tx_queues = txq;
	return 0;
}

static int
set_up_queues(struct link *l, struct ethdev *d)
{
	uint16_t nrx = (uint16_t)l->config.rx_descriptors, ntx = (uint16_t)l->config.tx_descriptors;
	int socket = rte_eth_dev_socket_id(d->port), e;

	rte_eth_dev_adjust_nb_rx_tx_desc(d->port, &nrx, &ntx);
	for (uint16_t q = 0; q < l->rx_queues; q++) {
		e = rte_eth_rx_queue_setup(d->port, q, nrx, socket, NULL, l->pool);
		if (e != 0) {
			snprintf(l->error, sizeof(l->error),
				"port %s: receive queue %u of %u descriptors: %s", l->config.port,
				q, nrx, rte_strerror(-e));
			return e;
		}
	}
	for (uint16_t q = 0; q < l->tx_queues; q++) {
		e = rte_eth_tx_queue_setup(d->port, q, ntx, socket, NULL);
		if (e != 0) {
			snprintf(l->error, sizeof(l->error),
				"port %s: transmit queue %u of %u descriptors: %s", l->config.port,
				q, ntx, rte_strerror(-e));
			return e;
		}
	}
	return 0;
}

static bool
is_memif(const struct rte_eth_dev_info *info)
{
	return strcmp(info->driver_name, "net_memif") == 0;
}

/* Wait until the port's link is up, for START_WAIT_MS at most. Return whether it is. */
static bool
comes_up(const struct ethdev *d)
{
	for (int ms = 0; ms < START_WAIT_MS; ms++) {
		if (memif_lanes_up(d->lanes))
			return true;
		rte_delay_ms(1);
	}
	return false;
}

static int
ethdev_start(struct link *l, struct ethdev *d)
{
	int e = 0;

	for (int i = 0; i < START_TRIES; i++) {
		e = rte_eth_dev_start(d->port);
		if (e == 0 && d->memif_client && !comes_up(d)) {
			rte_eth_dev_stop(d->port);
			e = -ECONNREFUSED;
		}
		if (e == 0) {
			d->started = true;
			/* the engine filters frames by node number; the MAC may be a made-up one */
			rte_eth_promiscuous_enable(d->port);
			return 0;
		}
		rte_delay_ms(START_WAIT_MS);
	}
	snprintf(l->error, sizeof(l->error),
		"port %s: does not start: %s. A memif client needs its server running first",
		l->config.port, rte_strerror(-e));
	return e;
}

static int
ethdev_check(const struct link_config *config, char *error, size_t error_size)
{
	if (config->port[0] != '\0')
		return 0;
	snprintf(error, error_size,
		"ethdev: port is not set; name one of --vdev (net_memif0), or a NIC's PCI address");
	return -EINVAL;
}

/* Mark the lanes that are in the port, and let memif wait for them. */
static int
mark_lanes(struct link *l, struct ethdev *d, const struct rte_eth_dev_info *info)
{
	d->lanes = memif_lanes_new(d->port, RTE_MAX(l->rx_queues, l->tx_queues));
	if (d->lanes == NULL)
		return -ENOMEM;
	if (is_memif(info) && !memif_lanes_add(d->lanes))
		rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1,
			"port %s: net_memif is not a shared object, and ends this process if its "
			"peer goes at the wrong moment\n",
			l->config.port);
	return 0;
}

/* Return the rate of a device's cable, bit/s, once that is up; 0: not known. What the drivers of
 * virtual devices say is made up. */
static uint64_t
port_rate(const struct ethdev *d, const struct rte_eth_dev_info *info)
{
	struct rte_eth_link link;

	if (is_virtual(info))
		return 0;
	for (int ms = 0; ms < RATE_WAIT_MS; ms++) {
		if (rte_eth_link_get_nowait(d->port, &link) == 0 && link.link_status &&
			link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
			return link.link_speed * UINT64_C(1000000);
		rte_delay_ms(1);
	}
	return 0;
}

static int
ethdev_open(struct link *l)
{
	struct rte_eth_dev_info info;
	struct ethdev *d = calloc(1, sizeof(*d));
	int e;

	if (d == NULL)
		return -ENOMEM;
	l->priv = d;
	if (rte_eth_dev_get_port_by_name(l->config.port, &d->port) != 0) {
		char ports[128];

		e = list_ports(ports, sizeof(ports));
		snprintf(l->error, sizeof(l->error),
			"port '%s' does not exist; %s%s. Name one with --vdev, or bind a NIC "
			"(dpdk-devbind.py) and give its PCI address",
			l->config.port, e ? "the EAL has: " : "the EAL has no port", ports);
		e = -ENODEV;
		goto fail;
	}
	e = rte_eth_dev_info_get(d->port, &info);
	if (e != 0)
		goto fail;
	d->memif_client = is_memif(&info) && !has_argument(&info, "role=server") &&
		!has_argument(&info, "role=master");
	d->revives = d->memif_client && !has_argument(&info, "zero-copy=y");
	if ((e = configure(l, d, &info)) != 0 || (e = set_up_queues(l, d)) != 0 ||
		(e = mark_lanes(l, d, &info)) != 0 || (e = ethdev_start(l, d)) != 0)
		goto fail;
	d->if_index = info.if_index;
	if (l->config.rate_mbps == LINK_RATE_AUTO)
		l->rate_bps = port_rate(d, &info);
	rte_eth_macaddr_get(d->port, &l->mac);
	l->mtu = (uint16_t)l->config.mtu;
	l->multicast = true;
	l->up = true;
	return 0;
fail:
	memif_lanes_free(d->lanes);
	free(d);
	l->priv = NULL;
	return e;
}

static void
ethdev_close(struct link *l)
{
	struct ethdev *d = l->priv;

	if (d == NULL)
		return;
	memif_lanes_free(d->lanes); /* nobody polls */
	interrupts_close_port(d->port, d->started);
	free(d);
	l->priv = NULL;
}

static uint16_t
adopt_foreign(struct link *l, struct ethdev *d, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t keep = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = bufs[i];

		if (m->pool != l->pool) {
			bufs[i] = rte_pktmbuf_copy(m, l->pool, 0, UINT32_MAX);
			rte_pktmbuf_free(m);
		}
		if (bufs[i] == NULL)
			d->foreign_lost++;
		else
			bufs[keep++] = bufs[i];
	}
	return keep;
}

static uint16_t
ethdev_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct ethdev *d = l->priv;
	struct memif_lane *lane = &d->lanes->lane[queue];
	uint16_t k = 0;

	if (memif_lane_enter(d->lanes, lane))
		k = rte_eth_rx_burst(d->port, queue, bufs, n);
	memif_lane_leave(lane);
	if (k != 0 && __builtin_expect(bufs[0]->pool != l->pool, 0))
		return adopt_foreign(l, d, bufs, k);
	return k;
}

static uint16_t
ethdev_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct ethdev *d = l->priv;
	struct memif_lane *lane = &d->lanes->lane[queue];
	uint16_t k = 0;

	if (memif_lane_enter(d->lanes, lane))
		k = rte_eth_tx_burst(d->port, queue, bufs, n);
	memif_lane_leave(lane);
	return k;
}

/* Return whether the kernel's interface, if the port is of one, is up and has a carrier. */
static bool
kernel_has_carrier(unsigned if_index)
{
	struct ifreq r = {0};

	if (if_index == 0 || if_indextoname(if_index, r.ifr_name) == NULL)
		return if_index == 0;
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool asked = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &r) == 0;

	if (fd >= 0)
		close(fd);
	return !asked || (r.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

/* Connect a memif client again whose server went. */
static void
ethdev_revive(struct link *l)
{
	struct ethdev *d = l->priv;
	int e;

	if (!d->revives)
		return;
	memif_lanes_shut(d->lanes);
	e = interrupts_restart_port(d->port, d->started);
	if (e != -EAGAIN)
		d->started = e == 0;
}

/* Return a port's count, which never goes back. */
static uint64_t
counted(uint64_t *most, uint64_t now)
{
	*most = RTE_MAX(*most, now);
	return *most;
}

static void
ethdev_stats(struct link *l, struct link_stats *out)
{
	struct ethdev *d = l->priv;
	struct rte_eth_stats s, *most = &d->counted;
	struct rte_eth_link link;

	memset(out, 0, sizeof(*out));
	if (rte_eth_stats_get(d->port, &s) != 0)
		return;
	out->rx_frames = counted(&most->ipackets, s.ipackets);
	out->rx_bytes = counted(&most->ibytes, s.ibytes);
	out->tx_frames = counted(&most->opackets, s.opackets);
	out->tx_bytes = counted(&most->obytes, s.obytes);
	out->rx_no_mbuf = counted(&most->rx_nombuf, s.rx_nombuf) + d->foreign_lost;
	out->rx_too_long = counted(&most->ierrors, s.ierrors);
	out->tx_refused = counted(&most->oerrors, s.oerrors);
	if (rte_eth_link_get_nowait(d->port, &link) == 0)
		l->up = link.link_status == RTE_ETH_LINK_UP && kernel_has_carrier(d->if_index);
}

static bool
ethdev_clashes(const struct link_config *a, const struct link_config *b)
{
	return strcmp(a->port, b->port) == 0;
}

const struct link_ops link_ethdev_ops = {
	.name = "ethdev",
	.peers = LINK_PEERS_MAC,
	.port = true,
	.clashes = ethdev_clashes,
	.check = ethdev_check,
	.open = ethdev_open,
	.close = ethdev_close,
	.rx = ethdev_rx,
	.tx = ethdev_tx,
	.rx_fd = NULL, /* receive interrupts are not used: a sleeping lane looks at intervals */
	.revive = ethdev_revive,
	.stats = ethdev_stats,
};
