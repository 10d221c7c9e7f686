/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of lib/keys share: keys that RFCs publish, and a folder of each test for its
 * files.
 */
#ifndef PMX_TEST_KEYS_FILES_H
#define PMX_TEST_KEYS_FILES_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "keys/keys.h"

/* Alice and Bob of RFC 7748, section 6.1. */
#define ALICE        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
#define ALICE_PUBLIC "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
#define BOB          "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
#define BOB_PUBLIC   "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
/* RFC 8032, section 7.1, tests 1 to 3. */
#define SEED_1       "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
#define PUBLIC_1     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define SEED_2       "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
#define PUBLIC_2     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
#define SEED_3       "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
#define PUBLIC_3     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"

/* The certificate of node 3, "head", with Alice's key, by authority 1: as Python's cryptography
 * signs it. */
#define GOLDEN                                                                                     \
	"01000003"                                                                                 \
	"6865616400000000000000000000000000000000000000000000000000000000" ALICE_PUBLIC            \
	"000000006553f100"                                                                         \
	"00000000657b7e00"                                                                         \
	"af85b07ac408b7026d984bcadb1d65ba68ba36aa87bb6887377c6c9c422ce61c"                         \
	"eb6970137d1ddec277fc5f87cf3f67f929635e93b31b3605c9189cc72ce48003"

extern char keys_dir[64];    /* the test's own folder */
extern char keys_error[512]; /* what a function says is wrong: for KEYS_SAY as its last arguments */
#define KEYS_SAY keys_error, sizeof(keys_error)

#define KEYS_CASE(f) cmocka_unit_test_setup_teardown(f, keys_setup, keys_teardown)

/* Make and remove the folder. */
int keys_setup(void **state);
int keys_teardown(void **state);
/* Return the path of a file of this test; four at a time. */
const char *at(const char *name);
/* Return the bytes of a text of digits; four at a time. */
const uint8_t *hex(const char *text);
/* Write a file. */
void put(const char *name, const char *text, mode_t mode);
/* Read a file; one at a time, of less than 4096 bytes. */
const char *content(const char *name);
/* Return type and mode of a file, or of the link if it is one. */
mode_t mode_of(const char *name);

#endif
