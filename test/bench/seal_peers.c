/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What sealing and opening a frame costs as the number of peers grows, whose keys a CPU's caches
 * then no longer hold: each frame is of the next peer. Usage: seal_peers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "handshake/keyring.h"

#define PEERS_MOST 1000
#define FRAMES     200000
#define TURNS      5

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Make the two ends of what a pair of nodes agreed on. */
static void
make(unsigned peer, struct keyring_keys **seals, struct keyring_keys **opens)
{
	struct handshake_result r = {
		.initiated = true,
		.own_index = 16,
		.peer_index = 32,
		.peer_lanes = 1,
	};

	memset(&r.keys, (int)peer, sizeof(r.keys));
	r.keys.to_initiator[0] ^= (uint8_t)(peer >> 8);
	r.keys.to_responder[0] ^= (uint8_t)(peer >> 8);
	*seals = keyring_keys_make(cipher_best(), &r, 0, 0);
	r.initiated = false;
	*opens = keyring_keys_make(cipher_best(), &r, 0, 0);
	if (*seals == NULL || *opens == NULL) {
		fputs("seal_peers: no memory\n", stderr);
		exit(1);
	}
}

/* Measure one turn: ns for each frame that is sealed, and opened. */
static void
turn(struct keyring_keys **seals, struct keyring_keys **opens, unsigned peers, enum seal_mode mode,
	uint32_t len, double *seal_ns, double *open_ns)
{
	static uint8_t frame[9100], sealed[64][9200];
	double sealing = 0, opening = 0;

	for (unsigned i = 0; i < FRAMES; i += 64) {
		const double a = now_ns();

		for (unsigned j = 0; j < 64; j++)
			seal_frame(seals[0]->cipher, &seals[(i + j) % peers]->tx[0], mode, frame,
				len, sealed[j]);
		const double b = now_ns();

		for (unsigned j = 0; j < 64; j++) {
			if (seal_open(opens[0]->cipher, &opens[(i + j) % peers]->rx[0], mode,
				    sealed[j], len + SEAL_TRAILER_BYTES) != SEAL_OK)
				abort();
		}
		sealing += b - a;
		opening += now_ns() - b;
	}
	*seal_ns = sealing / FRAMES;
	*open_ns = opening / FRAMES;
}

int
main(void)
{
	static struct keyring_keys *seals[PEERS_MOST], *opens[PEERS_MOST];
	static const uint32_t lens[] = {WIRE_HDR_BYTES + 64, WIRE_HDR_BYTES + 1424};

	for (unsigned i = 0; i < PEERS_MOST; i++)
		make(i, &seals[i], &opens[i]);
	printf("ns a frame, by %s, medians of %d turns:\n", cipher_best()->name, TURNS);
	printf("%8s %8s %12s %12s %12s %12s\n", "payload", "peers", "auth, sealed", "opened",
		"seal, sealed", "opened");
	for (unsigned l = 0; l < 2; l++) {
		for (unsigned peers = 1; peers <= PEERS_MOST; peers *= 10) {
			printf("%8u %8u", lens[l] - WIRE_HDR_BYTES, peers);
			for (enum seal_mode mode = SEAL_AUTH; mode <= SEAL_SEAL; mode++) {
				double s[TURNS], o[TURNS];

				for (unsigned t = 0; t < TURNS; t++)
					turn(seals, opens, peers, mode, lens[l], &s[t], &o[t]);
				qsort(s, TURNS, sizeof(s[0]), compare);
				qsort(o, TURNS, sizeof(o[0]), compare);
				printf(" %12.0f %12.0f", s[TURNS / 2], o[TURNS / 2]);
			}
			printf("\n");
		}
	}
	return 0;
}
