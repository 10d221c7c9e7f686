/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What contexts do beside plain messages.
 */
#include <stddef.h>

#include "client/service.h"

const struct client_service *const client_services[] = {&match_client, &transfer_client, &memory_client, NULL};
