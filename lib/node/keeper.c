/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keeper.h.
 *
 * Design notes
 * 1. Lanes leave messages in rings of their own (struct sealed_mail) and ring an eventfd. What the
 *    keeper wants of a lane it asks by node_command(): then no lane has a lock or waits.
 * 2. Who answers installs the keys before the answer leaves, since the first frame with them may
 *    be there at once.
 * 3. A primary that takes over agrees on keys anew: no key ever leaves its process, and no count
 *    of frames can begin again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "base/clock.h"
#include "base/secret.h"
#include "engine/sealed.h"
#include "log/log.h"
#include "node/dpdk_names.h"
#include "node/keeper.h"
#include "node/node.h"

#define COOKIE_SECRET_US 120000000
#define RETIRE_US        10000000
#define AGAIN_US         1000000  /* to a lane that did not answer */
#define SEALED_ATTEMPTS  3        /* to agree on keys by those that there are */
#define CLAIM_US         60000000 /* so long people are told of it */

struct peer_keys {
	struct handshake_peer handshake;
	uint64_t agreed_at; /* us; 0: never */
	bool begun;         /* a frame has come, or may be sent, with keys of then or before */
	uint32_t heard;     /* of the lanes' struct sealed_peer.begun */
	bool ends;          /* all keys are to go, and a lane did not answer */
	bool pruned;        /* the keys before those are gone */
	bool listed;        /* in struct keeper.asking */
};

struct keeper {
	struct node *node;
	pthread_mutex_t lock; /* of all that follows */
	struct handshake_self self;
	const struct cipher *cipher;
	struct peer_keys *peers; /* by node */
	uint16_t *asking;        /* nodes that are being asked */
	uint32_t asking_count;
	uint64_t cookie_at, retire_at;
	control_thread thread;
	bool runs;
	_Atomic bool stop;
	int bell;
};

static void
keeper_draw(void *arg, void *bytes, size_t len)
{
	(void)arg;
	if (getrandom(bytes, len, 0) != (ssize_t)len)
		abort(); /* up to 256 bytes it cannot fail once the system is up */
}

static struct handshake_time
time_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (struct handshake_time){(uint64_t)clock_us(),
		(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

/* ------------------------------------------------------------------ files */

static int
read_authority(const char *text, uint8_t key[KEY_BYTES], char *error, uint32_t error_len)
{
	return key_from_text(text, key) ? 0 : key_read_public(text, key, error, error_len);
}

/* Make a node's secret from the cluster's, where nodes have none of their own: whoever has that one
 * file can speak for every node, and nobody else for any. */
static void
derive(const uint8_t cluster[KEY_BYTES], uint16_t node, uint8_t secret[KEY_BYTES])
{
	static const char label[] = "pmx-dpdk node";
	const uint16_t number = wire_be16(node);

	primitive_hmac(secret, cluster, label, sizeof(label), &number, sizeof(number));
}

/* Put the key's name before what is wrong with its file. */
static int
of_key(const char *key, int e, char *error, uint32_t error_len)
{
	char what[512];

	if (e == 0)
		return 0;
	snprintf(what, sizeof(what), "%s", error);
	snprintf(error, error_len, "[security] %s: %s", key, what);
	return e;
}

/* Read what [security] names into *s, which is zeroed before. s->revoked is to be freed, also after
 * an error. */
static int
read_files(const struct config *c, struct handshake_self *s, char *error, uint32_t error_len)
{
	int e = 0;

	if (*c->security_cluster != 0)
		e = of_key("cluster",
			key_read(KEY_CLUSTER, c->security_cluster, s->cluster, error, error_len),
			error, error_len);
	if (e == 0 && *c->security_key != 0)
		e = of_key("key", key_read(KEY_NODE, c->security_key, s->secret, error, error_len),
			error, error_len);
	else if (e == 0)
		derive(s->cluster, s->node, s->secret);
	if (e == 0)
		primitive_public(s->public_key, s->secret);
	if (e == 0 && *c->security_authority != 0) {
		e = of_key("authority",
			read_authority(c->security_authority, s->authority, error, error_len),
			error, error_len);
		s->has_authority = e == 0;
	}
	if (e == 0 && *c->security_certificate != 0) {
		e = of_key("certificate",
			certificate_read(c->security_certificate, s->certificate, error, error_len),
			error, error_len);
		s->has_certificate = e == 0;
	}
	if (e == 0 && *c->security_revoked != 0)
		e = of_key("revoked",
			revoked_read(c->security_revoked, &s->revoked, &s->revoked_count, error,
				error_len),
			error, error_len);
	return e;
}

/* Check that what [nodes] says of this node's key is so. */
static int
check_own_key(const struct config *c, const struct handshake_self *s, char *error,
	uint32_t error_len)
{
	char text[KEY_TEXT_MAX];

	if (c->peers == NULL || !c->peers[c->id].has_key ||
		memcmp(c->peers[c->id].key, s->public_key, KEY_BYTES) == 0)
		return 0;
	key_to_text(s->public_key, text);
	snprintf(error, error_len, "[nodes] %u: key= is not this node's public key, which is %s",
		c->id, text);
	return -EINVAL;
}

/* Check that this node's certificate is its own. */
static int
check_certificate(const struct config *c, const struct handshake_self *s, char *error,
	uint32_t error_len)
{
	struct certificate own;

	if (!s->has_certificate || !s->has_authority)
		return 0;
	switch (certificate_check(s->certificate, s->authority, time_now().wall / 1000000000u,
		&own)) {
	case CERTIFICATE_MALFORMED:
	case CERTIFICATE_FORGED:
		snprintf(error, error_len, "%s: is not signed by security.authority",
			c->security_certificate);
		return -EINVAL;
	case CERTIFICATE_EXPIRED:
		snprintf(error, error_len, "%s: has expired: make another one, pmx-ctl key certify",
			c->security_certificate);
		return -EINVAL;
	default:
		break;
	}
	if (own.node != c->id || memcmp(own.public_key, s->public_key, KEY_BYTES) != 0) {
		snprintf(error, error_len, "%s: is node %u's, %s", c->security_certificate,
			own.node, own.node != c->id ? "not this node's" : "but of another key");
		return -EINVAL;
	}
	return 0;
}

/* Read and check the files. What *s had is kept if that fails. */
static int
take_files(const struct config *c, struct handshake_self *s, char *error, uint32_t error_len)
{
	struct handshake_self now = {
		.node = (uint16_t)c->id,
		.mode = (enum seal_mode)c->security,
		.lanes = (uint8_t)c->lanes,
		.epoch = s->epoch,
		.random = keeper_draw,
		.derived = *c->security_key == 0,
	};
	int e = read_files(c, &now, error, error_len);

	if (e == 0)
		e = check_own_key(c, &now, error, error_len);
	if (e == 0)
		e = check_certificate(c, &now, error, error_len);
	if (e == 0) {
		handshake_mac1_key(now.public_key, now.mac1_key);
		free(s->revoked);
		*s = now;
	} else {
		free(now.revoked);
	}
	key_forget(&now, sizeof(now));
	return e;
}

int
keeper_check(const struct config *c, char *error, uint32_t error_len)
{
	struct handshake_self s = {0};

	if (c->security == SEAL_OFF)
		return 0;
	const int e = take_files(c, &s, error, error_len);

	free(s.revoked);
	key_forget(&s, sizeof(s));
	return e;
}

/* Write the public key that a peer must have. Return false if none is known before it shows one. */
static bool
key_of_peer(const struct keeper *k, uint16_t node, uint8_t key[KEY_BYTES])
{
	const struct config_peer *c = &k->node->config.peers[node];
	uint8_t secret[KEY_BYTES];

	if (c->links == 0)
		return false;
	if (c->has_key) {
		memcpy(key, c->key, KEY_BYTES);
		return true;
	}
	if (!k->self.derived)
		return false;
	derive(k->self.cluster, node, secret);
	primitive_public(key, secret);
	key_forget(secret, sizeof(secret));
	return true;
}

/* Set which key a peer must have, and return whether that has changed. */
static bool
set_peer_key(struct keeper *k, uint16_t node)
{
	struct handshake_peer *p = &k->peers[node].handshake;
	uint8_t key[KEY_BYTES];
	const bool has = key_of_peer(k, node, key);

	if (p->pinned == has &&
		(has ? memcmp(p->public_key, key, KEY_BYTES) == 0
		     : k->node->config.peers[node].links != 0 || !p->has_key))
		return false;
	handshake_peer_key(p, has ? key : NULL);
	return true;
}

/* Note whether frames have come with keys that the peer had asked for. */
static void
keeper_hear(struct keeper *k, uint16_t node)
{
	struct peer_keys *p = &k->peers[node];
	uint32_t begun = 0;

	for (uint32_t lane = 0; lane < k->node->config.lanes; lane++)
		begun += atomic_load(&k->node->engines[lane].sealed->peers[node].begun);
	if (begun == p->heard)
		return;
	p->heard = begun;
	p->begun = true;
	handshake_begun(&p->handshake);
}

/* ------------------------------------------------------------------ commands to lanes */

/* Give the lanes their parts of new keys, if the nodes have agreed on some, and send what is to be
 * sent, by lane 0: note 2. A lane that does not take its keys asks again. */
static void
tell_lanes_of(struct keeper *k, uint16_t node, const struct handshake_result *r, bool open)
{
	for (uint32_t lane = k->node->config.lanes; lane-- > 0;) {
		const bool sends = lane == 0 && r->send_len != 0;
		struct command cmd = {
			.op = COMMAND_KEYS,
			.ctx = (uint16_t)lane,
			.node = node,
			.open = open,
			.message = sends ? r->send : NULL,
			.len = sends ? r->send_len : 0,
		};

		if (r->agreed)
			cmd.keys = keyring_keys_make(k->cipher, r, lane, rte_rdtsc());
		if (cmd.keys == NULL && cmd.message == NULL)
			continue;
		if (node_command(k->node, &cmd, true) == 0)
			keyring_free_old(cmd.old_keys);
		else
			keyring_keys_free(cmd.keys);
	}
	if (r->agreed) {
		k->peers[node].agreed_at = (uint64_t)clock_us();
		k->peers[node].pruned = false;
		k->peers[node].begun |= r->initiated;
	}
}

/* Have the lanes give up the node's old keys, or all, and the HELLO that waits for some. */
static void
retire(struct keeper *k, uint16_t node, enum command_op op)
{
	struct peer_keys *p = &k->peers[node];
	bool done = true;

	for (uint32_t lane = 0; lane < k->node->config.lanes; lane++) {
		struct command cmd = {.op = op, .ctx = (uint16_t)lane, .node = node};

		if (node_command(k->node, &cmd, true) == 0)
			keyring_free_old(cmd.old_keys);
		else
			done = false;
	}
	if (op == COMMAND_KEYS_ALL) {
		p->agreed_at = 0;
		keeper_hear(k, node);
		p->begun = false;
		p->ends = !done;
		k->retire_at = done ? k->retire_at : (uint64_t)clock_us() + AGAIN_US;
	}
}

/* Do what a handshake came to. open: what is sent must not be sealed, since the peer may have lost
 * the keys that there are. */
static void
act(struct keeper *k, uint16_t node, struct handshake_result *r, bool open)
{
	struct peer_keys *p = &k->peers[node];

	if (r->agreed || r->send_len != 0)
		tell_lanes_of(k, node, r, open);
	key_forget(&r->keys, sizeof(r->keys));
	if (p->handshake.asking && !p->listed) {
		p->listed = true;
		k->asking[k->asking_count++] = node;
	}
}

/* ------------------------------------------------------------------ the thread */

static void
take_mail(struct keeper *k, const struct sealed_mail *m)
{
	struct handshake_peer *p = &k->peers[m->node].handshake;
	struct handshake_result r;

	keeper_hear(k, m->node);
	if (!p->has_key) /* discovery may have found the node since */
		set_peer_key(k, m->node);
	switch (m->news) {
	case SEALED_MESSAGE:
		handshake_message(&k->self, p, time_now(), m->message, m->len, &r);
		break;
	case SEALED_CLAIMED:
		handshake_unsealed(p, time_now());
		return;
	case SEALED_UNSEALED:
		handshake_unsealed(p, time_now());
		/* fallthrough */
	case SEALED_WANTED:
		handshake_want(&k->self, p, time_now(), &r);
		break;
	}
	act(k, m->node, &r, m->news == SEALED_MESSAGE && !m->sealed);
}

/* Take what the lanes have left, as much of each as it may leave at once: whatever they leave
 * meanwhile, what is due has its turn, and others get the lock. Return whether there may be
 * more. */
static bool
take_all_mail(struct keeper *k)
{
	struct sealed_mail m;
	bool more = false;

	for (uint32_t lane = 0; lane < k->node->config.lanes; lane++) {
		unsigned taken = 0;

		while (taken < SEALED_MAIL && !atomic_load(&k->stop) &&
			sealed_mail_take(k->node->engines[lane].sealed, &m)) {
			take_mail(k, &m);
			taken++;
		}
		more |= taken == SEALED_MAIL;
	}
	return more;
}

static void
tick(struct keeper *k)
{
	for (uint32_t i = 0; i < k->asking_count && !atomic_load(&k->stop);) {
		const uint16_t node = k->asking[i];
		struct handshake_result r;

		keeper_hear(k, node);
		handshake_tick(&k->self, &k->peers[node].handshake, time_now(), &r);
		act(k, node, &r, k->peers[node].handshake.attempts > SEALED_ATTEMPTS);
		if (k->peers[node].handshake.asking) {
			i++;
			continue;
		}
		k->peers[node].listed = false;
		k->asking[i] = k->asking[--k->asking_count];
		if (k->peers[node].agreed_at == 0)
			retire(k, node, COMMAND_KEYS_OLD);
	}
}

/* Draw new secrets for cookies, and have the lanes give up keys that are too old. */
static void
look_after(struct keeper *k, uint64_t now)
{
	const uint32_t nodes = k->node->config.nodes_max;

	if (now >= k->cookie_at) {
		uint64_t secret[2];

		keeper_draw(NULL, secret, sizeof(secret));
		for (uint32_t lane = 0; lane < k->node->config.lanes; lane++) {
			for (unsigned i = 0; i < 2; i++)
				atomic_store(&k->node->engines[lane].sealed->cookie_secret[i],
					secret[i]);
		}
		k->cookie_at = now + COOKIE_SECRET_US;
	}
	if (now < k->retire_at)
		return;
	k->retire_at = now + RETIRE_US;
	for (uint32_t i = 0; i < nodes && !atomic_load(&k->stop); i++) {
		struct peer_keys *p = &k->peers[i];
		const uint64_t age = p->agreed_at != 0 ? (now - p->agreed_at) / 1000000 : 0;

		if (p->ends)
			retire(k, (uint16_t)i, COMMAND_KEYS_ALL);
		/* those of before are too old first */
		if (age < KEYRING_DEAD_S && (p->pruned || age < KEYRING_DEAD_S - KEYRING_SOON_S))
			continue;
		retire(k, (uint16_t)i, COMMAND_KEYS_OLD);
		p->pruned = true;
		if (age < KEYRING_DEAD_S)
			continue;
		p->agreed_at = 0;
		p->begun = false;
	}
}

/* Return how long the thread may sleep, ms. */
static int
time_to_sleep(const struct keeper *k)
{
	uint64_t first = k->retire_at < k->cookie_at ? k->retire_at : k->cookie_at;
	const uint64_t now = (uint64_t)clock_us();

	for (uint32_t i = 0; i < k->asking_count; i++) {
		const uint64_t at = handshake_deadline(&k->peers[k->asking[i]].handshake);

		first = at < first ? at : first;
	}
	return first <= now ? 0 : (int)((first - now) / 1000 + 1);
}

static control_result
keep(void *arg)
{
	struct keeper *k = arg;
	struct pollfd bell = {.fd = k->bell, .events = POLLIN};

	while (!atomic_load(&k->stop)) {
		eventfd_t rung;

		pthread_mutex_lock(&k->lock);
		look_after(k, (uint64_t)clock_us());
		const bool more = take_all_mail(k);

		tick(k);
		const int ms = more ? 0 : time_to_sleep(k);

		pthread_mutex_unlock(&k->lock);
		poll(&bell, 1, ms);
		eventfd_read(k->bell, &rung);
	}
	return 0;
}

/* ------------------------------------------------------------------ begin, end, change */

static int
keeper_fail(struct node *n, int e, const char *what, char *error, uint32_t error_len)
{
	snprintf(error, error_len, "%s", what);
	keeper_end(n);
	return e;
}

/* Tell the lanes by which MAC1 they know messages to this node, and what they tell who asks. */
static void
tell_lanes(struct keeper *k)
{
	for (uint32_t lane = 0; lane < k->node->config.lanes; lane++) {
		struct sealed_lane *s = k->node->engines[lane].sealed;
		const uint32_t next = atomic_load(&s->told) + 1;

		for (unsigned i = 0; i < 2; i++)
			atomic_store(&s->mac1_key[i], k->self.mac1_key[i]);
		handshake_tell_put(&k->self, &s->tell[next % 2]);
		atomic_store(&s->told, next);
	}
}

int
keeper_begin(struct node *n, char *error, uint32_t error_len)
{
	const struct config *c = &n->config;
	struct keeper *k;
	int e;

	if (c->security == SEAL_OFF)
		return 0;
	k = n->keeper = secret_alloc(sizeof(*k));
	if (k == NULL)
		return keeper_fail(n, -ENOMEM, "no memory for keys", error, error_len);
	k->node = n;
	k->self.epoch = n->epoch;
	k->cipher = cipher_best();
	pthread_mutex_init(&k->lock, NULL);
	k->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	e = take_files(c, &k->self, error, error_len);
	if (e != 0) {
		keeper_end(n);
		return e;
	}
	k->peers = secret_alloc(sizeof(*k->peers) * c->nodes_max);
	k->asking = calloc(c->nodes_max, sizeof(*k->asking));
	if (k->peers == NULL || k->asking == NULL || k->bell < 0)
		return keeper_fail(n, -ENOMEM, "no memory for the keys of limits.nodes", error,
			error_len);
	for (uint32_t i = 0; i < c->nodes_max; i++) {
		k->peers[i].handshake.node = (uint16_t)i;
		set_peer_key(k, (uint16_t)i);
	}
	for (uint32_t lane = 0; lane < c->lanes; lane++) {
		if (sealed_make(&n->engines[lane], k->self.mode, k->bell) != 0)
			return keeper_fail(n, -ENOMEM, "no memory for the keys of a lane", error,
				error_len);
	}
	/* frames to several nodes at once have no key */
	for (unsigned i = 0; i < n->link_count; i++)
		n->links[i].multicast = false;
	tell_lanes(k);
	k->retire_at = (uint64_t)clock_us() + RETIRE_US;
	look_after(k, (uint64_t)clock_us());
	e = control_thread_create(&k->thread, "pmx-keys", keep, k);
	k->runs = e == 0;
	return e == 0 ? 0 : keeper_fail(n, -EAGAIN, "no thread for keys", error, error_len);
}

void
keeper_end(struct node *n)
{
	struct keeper *k = n->keeper;

	if (k == NULL)
		return;
	atomic_store(&k->stop, true);
	/* a command that a lane does not take any more returns by this */
	for (uint32_t lane = 0; n->engines != NULL && lane < n->config.lanes; lane++)
		atomic_store(&n->engines[lane].stop, true);
	if (k->runs) {
		eventfd_write(k->bell, 1);
		control_thread_join(k->thread);
	}
	for (uint32_t lane = 0; n->engines != NULL && lane < n->config.lanes; lane++)
		sealed_free(&n->engines[lane]);
	close(k->bell);
	free(k->asking);
	free(k->self.revoked);
	pthread_mutex_destroy(&k->lock);
	secret_free(k->peers, sizeof(*k->peers) * n->config.nodes_max);
	secret_free(k, sizeof(*k));
	n->keeper = NULL;
}

void
keeper_lock(struct node *n)
{
	if (n->keeper != NULL)
		pthread_mutex_lock(&n->keeper->lock);
}

void
keeper_unlock(struct node *n)
{
	if (n->keeper != NULL)
		pthread_mutex_unlock(&n->keeper->lock);
}

/* Take the key that a peer must have now. Keys agreed on with it end if that is another one, or if
 * they are to end. */
static void
renew(struct keeper *k, uint16_t node, bool end)
{
	struct peer_keys *p = &k->peers[node];

	if (!set_peer_key(k, node) && !end)
		return;
	if (end)
		handshake_peer_key(&p->handshake,
			p->handshake.pinned ? p->handshake.public_key : NULL);
	if (p->agreed_at != 0)
		retire(k, node, COMMAND_KEYS_ALL);
}

void
keeper_peer_changed(struct node *n, uint16_t node)
{
	if (n->keeper != NULL)
		renew(n->keeper, node, false);
}

/* The files that a reload has found to be others. */
struct changes {
	bool key, cluster, authority, certificate, revoked;
};

static struct changes
changes_of(const struct handshake_self *a, const struct handshake_self *b)
{
	return (struct changes){
		.key = memcmp(a->public_key, b->public_key, KEY_BYTES) != 0,
		.cluster = memcmp(a->cluster, b->cluster, KEY_BYTES) != 0,
		.authority = memcmp(a->authority, b->authority, KEY_BYTES) != 0,
		.certificate = memcmp(a->certificate, b->certificate, CERTIFICATE_BYTES) != 0,
		.revoked = a->revoked_count != b->revoked_count,
	};
}

/* Log what a reload has brought. ended: peers with which what was agreed on has ended by that. */
static void
tell_changes(const struct keeper *k, const struct changes *c, uint32_t ended)
{
	const bool any = c->key || c->cluster || c->authority || c->certificate || c->revoked;

	if (!any && ended == 0)
		return;
	log_say(LOG_NODE, RTE_LOG_NOTICE,
		"security: new:%s%s%s%s%s%s; %u keys are revoked; keys with %u peers ended",
		any ? "" : " nothing", c->key ? " key" : "", c->cluster ? " cluster" : "",
		c->authority ? " authority" : "", c->certificate ? " certificate" : "",
		c->revoked ? " revoked" : "", k->self.revoked_count, ended);
}

int
keeper_reload(struct node *n, const struct config *files, char *error, uint32_t error_len)
{
	struct keeper *k = n->keeper;
	struct config c = n->config;

	if (k == NULL)
		return 0;
	memcpy(c.security_key, files->security_key, sizeof(c.security_key));
	memcpy(c.security_cluster, files->security_cluster, sizeof(c.security_cluster));
	memcpy(c.security_authority, files->security_authority, sizeof(c.security_authority));
	memcpy(c.security_certificate, files->security_certificate, sizeof(c.security_certificate));
	memcpy(c.security_revoked, files->security_revoked, sizeof(c.security_revoked));
	struct handshake_self before = k->self;
	const int e = take_files(&c, &k->self, error, error_len);
	const struct changes changes = changes_of(&before, &k->self);
	const bool all = changes.key || changes.cluster || changes.authority;
	uint32_t ended = 0;

	key_forget(&before, sizeof(before));
	tell_lanes(k);
	for (uint32_t i = 0; e == 0 && i < c.nodes_max; i++) {
		struct handshake_peer *p = &k->peers[i].handshake;
		const bool had = k->peers[i].agreed_at != 0;

		keeper_hear(k, (uint16_t)i);
		/* who has only answered here does not know its peer's key but from its question */
		const bool bad = (p->has_key && handshake_revoked(&k->self, p->public_key)) ||
			(k->peers[i].agreed_at != 0 && handshake_revoked(&k->self, p->agreed_key));

		/* what was wrong may be mended: ask again */
		if (p->trouble != HANDSHAKE_FINE)
			handshake_peer_key(p, p->pinned ? p->public_key : NULL);
		renew(k, (uint16_t)i, all || bad);
		ended += had && k->peers[i].agreed_at == 0;
	}
	if (e == 0)
		tell_changes(k, &changes, ended);
	return e;
}

bool
keeper_view(const struct node *n, uint16_t node, struct keeper_view *out)
{
	struct keeper *k = n->keeper;

	if (k == NULL || node >= n->config.nodes_max)
		return false;
	if (pthread_mutex_trylock(&k->lock) != 0) /* it may wait for a lane */
		return false;
	const struct peer_keys *p = &k->peers[node];
	const uint64_t age = (uint64_t)clock_us() - p->agreed_at;

	keeper_hear(k, node);
	const uint64_t claimed = (uint64_t)clock_us() - p->handshake.claim_at;

	*out = (struct keeper_view){
		.trouble = p->handshake.trouble,
		.claim = p->handshake.claim_at != 0 && claimed < CLAIM_US ? p->handshake.claim
									  : HANDSHAKE_FINE,
		.has_keys = p->begun && age < KEYRING_DEAD_S * UINT64_C(1000000),
		.age_s = (uint32_t)(age / 1000000),
		.agreed = p->handshake.agreed,
		.refused = p->handshake.refused,
		.unreadable = p->handshake.unreadable,
		.pinned = p->handshake.pinned,
	};
	pthread_mutex_unlock(&k->lock);
	return true;
}

uint64_t
keeper_certificate_until(const struct node *n)
{
	struct keeper *k = n->keeper;
	struct certificate own = {0};

	if (k == NULL || pthread_mutex_trylock(&k->lock) != 0)
		return 0;
	if (k->self.has_certificate && !certificate_parse(k->self.certificate, &own))
		own.until = 0;
	pthread_mutex_unlock(&k->lock);
	return own.until;
}
