/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node's configuration as numbers, and values that are derived from it. lib/node/config_file.h
 * reads it from a file.
 */
#ifndef PMX_CONFIG_H
#define PMX_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "link.h"
#include "core/proto/proto.h"
#include "keys/keys.h"
#include "seal/seal.h"

#define CONFIG_LINKS_MAX  4
#define CONFIG_NAME_MAX   INSTANCE_NAME_MAX
#define CONFIG_LANES_MAX  16
#define CONFIG_RANGES_MAX 8
#define CONFIG_IDS_MAX    8
#define CONFIG_AUTO       UINT32_MAX

enum idle_policy {
	IDLE_SPIN,     /* never yields the CPU */
	IDLE_PAUSE,    /* pause instruction: spares the sibling thread */
	IDLE_YIELD,    /* sched_yield at the first empty poll; nap on a contended CPU */
	IDLE_ADAPTIVE, /* yield at first, sleep when nothing came for engine.idle_us */
	IDLE_SLEEP,    /* sleep at the first empty poll */
};

/* Return whether lanes share their CPUs: they may sleep or nap, and clients yield too. */
static inline bool
idle_shares(enum idle_policy idle)
{
	return idle != IDLE_SPIN && idle != IDLE_PAUSE;
}

enum direct_by {
	DIRECT_USER, /* thin clients of one user may share memory */
	DIRECT_OFF,
};

enum matching_by {
	MATCHING_CLIENT, /* by the application's thread, when it calls the library */
	MATCHING_ENGINE, /* by the lane */
};

struct config_link {
	bool used;
	struct link_config link;
};

/* The ways in which frames go to a peer with several links. */
enum links_by {
	LINKS_SPREAD,   /* by all that work */
	LINKS_FAILOVER, /* by the first that works */
};

/* One line of [nodes]. */
struct config_peer {
	uint8_t links;                           /* that reach it, a bit each; 0: not known */
	char name[ATTACH_NAME_MAX];              /* "": none */
	struct link_addr addr[CONFIG_LINKS_MAX]; /* its address on each */
	struct link_addr host;  /* port != 0: where discovery asks it for its addresses */
	bool found;             /* by discovery: [nodes] does not have it */
	uint32_t generation;    /* found: of its life */
	bool has_key;           /* key is set */
	uint8_t key[KEY_BYTES]; /* public */
};

/* [contexts FIRST-LAST]: who may open these contexts, and their limits. */
struct config_range {
	uint32_t first, last;
	char uid[128], gid[128]; /* names or numbers, comma-separated; both "": users that no range
				  * names */
	uint32_t uids[CONFIG_IDS_MAX], gids[CONFIG_IDS_MAX];
	uint32_t uid_count, gid_count; /* both 0: as above */
	/* 0: the value of [limits] */
	uint32_t send_buffers, receive_buffers, lhs_entries, burst, pin_bytes, shared_bytes;
};

struct config {
	bool alone; /* not a key of the file: no other node of this process needs memory of its
		     * EAL */
	/* [node] */
	uint32_t id;
	char name[CONFIG_NAME_MAX];
	/* [engine] */
	uint32_t lanes; /* poll-mode lcores */
	uint32_t idle;  /* enum idle_policy */
	uint32_t idle_us;
	uint32_t burst;
	uint32_t matching;   /* enum matching_by */
	uint32_t links_by;   /* enum links_by */
	uint32_t rendezvous; /* bytes; RENDEZVOUS_AUTO: measured */
	char dma[256];       /* devices, one for each lane, comma-separated; "" = none */
	/* [link N] */
	struct config_link links[CONFIG_LINKS_MAX];
	/* [proto] */
	struct proto_config proto;
	uint32_t hello_ms, keepalive_ms, flow_idle_ms;
	uint32_t recovery; /* enum proto_recovery */
	uint32_t cc;       /* 0 delay, 1 pm */
	bool checksum;
	/* [limits] */
	uint32_t contexts, send_buffers, receive_buffers, mbufs, submissions;
	uint32_t resident; /* 0: all of `contexts`; use config_residents() */
	uint32_t lhs_entries, lhs_entry_bytes, lhs_split, lhs_size_offset;
	uint32_t message_max;
	uint32_t matched_entries, matched_buffers, unexpected, unexpected_bytes, receives;
	uint32_t transfers, requests, regions, transfer_frames, events;
	uint32_t groups, group_members, group_locks, group_regions, collectives;
	uint32_t pin_bytes, pin_entries, shared_bytes;
	bool pin_cache, pin_watch;
	/* [access] */
	char socket[108]; /* path; "": derived from node.name; "off": none */
	char socket_owner[32], socket_group[32], socket_mode[8];
	uint32_t user_contexts;      /* 0: attach.c */
	uint32_t direct;             /* enum direct_by */
	uint32_t multicast;          /* enum multicast_by of channel.h */
	uint32_t owner, group, mode; /* of the socket; UINT32_MAX: the process's own */
	/* [contexts FIRST-LAST] */
	struct config_range ranges[CONFIG_RANGES_MAX];
	uint32_t range_count;
	/* [discovery] */
	char discovery_listen[LINK_ADDR_MAX], discovery_seed[256];
	char discovery_name[ATTACH_NAME_MAX], discovery_cluster[ATTACH_NAME_MAX];
	bool discovers; /* the section is there, or a node is to be asked for its addresses */
	/* [security] */
	uint32_t security; /* enum seal_mode */
	char security_key[256], security_cluster[256], security_authority[256];
	char security_certificate[256], security_revoked[256]; /* paths; authority: or a key */
	/* [nodes]: nodes_max entries */
	uint32_t nodes_max;
	struct config_peer *peers;
	char node_file[512]; /* that has more of them; "": none */
};

void config_free(struct config *c);
/* Return the range that the context is in, whose values replace those of [limits]; NULL: none. */
const struct config_range *config_range(const struct config *c, uint32_t ctx);
/* Write the path of the socket where thin clients attach: the one of [access], or one derived from
 * the node's name. */
void config_socket_path(const struct config *c, char *out, size_t size);
/* Write the path of the file where a running primary keeps the nodes that it has found. */
void config_found_path(const struct config *c, char *out, size_t size);
/* Derive the MAC address from a node's number, 02:50:4d:00:hi:lo. It is used if the file gives
 * none. */
void config_made_up_mac(uint32_t node, struct rte_ether_addr *mac);
/* Return the most payload bytes of a frame: the least of all links, since a message may use any. A
 * seal takes some of them. */
uint32_t config_payload_max(const struct config *c);
/* Return what a seal adds to each frame, 0 if frames are not sealed. */
uint32_t config_seal_bytes(const struct config *c);
uint32_t config_encap_bytes(enum link_encap encap);
/* Return how many links the node has. */
uint32_t config_link_count(const struct config *c);
/* Return how many contexts may have packet buffers at once. */
static inline uint32_t
config_residents(const struct config *c)
{
	return c->resident != 0 && c->resident < c->contexts ? c->resident : c->contexts;
}

/* Return the first of the peer's links. The peer must be known. */
static inline uint32_t
config_peer_link(const struct config_peer *p)
{
	return (uint32_t)__builtin_ctz(p->links);
}

#endif
