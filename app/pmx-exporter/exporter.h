/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sources of pmx-exporter share: it asks the primaries of this host by their telemetry,
 * and serves what they say by HTTP. One thread.
 *
 *   main.c     options, HTTP
 *   metrics.c  text for Prometheus
 *   page.c     a page for people
 */
#ifndef PMX_EXPORTER_H
#define PMX_EXPORTER_H

#include <stdbool.h>
#include <stdio.h>

#include "pmx-ctl/sample.h"

#define HISTORY    13 /* samples that the page looks back on */
#define HISTORY_MS 5000

/* ---------------------------------------------------------------- metrics.c */

/* Write all metrics: as OpenMetrics 1.0, or in Prometheus's own text format. */
void metrics_write(FILE *out, const struct sample *s, bool openmetrics);

/* ---------------------------------------------------------------- page.c */

/* Write a page of the newest of n samples, and of what changed since the one before it and since
 * the oldest. */
void page_write(FILE *out, struct sample *const *samples, unsigned n);

#endif
