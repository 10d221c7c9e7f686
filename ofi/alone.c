/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions of libfabric's library that the provider calls, for what has the provider in itself
 * (mpi/mtl) and does not open that library, which would open all of its providers. Not in the
 * provider's own library.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

/* Return an empty description; nothing here makes one from another. */
struct fi_info *
fi_dupinfo(const struct fi_info *from)
{
	struct fi_info *info = from == NULL ? calloc(1, sizeof(*info)) : NULL;

	if (info == NULL)
		return NULL;
	info->tx_attr = calloc(1, sizeof(*info->tx_attr));
	info->rx_attr = calloc(1, sizeof(*info->rx_attr));
	info->ep_attr = calloc(1, sizeof(*info->ep_attr));
	info->domain_attr = calloc(1, sizeof(*info->domain_attr));
	info->fabric_attr = calloc(1, sizeof(*info->fabric_attr));
	if (info->tx_attr == NULL || info->rx_attr == NULL || info->ep_attr == NULL ||
		info->domain_attr == NULL || info->fabric_attr == NULL) {
		fi_freeinfo(info);
		return NULL;
	}
	return info;
}

void
fi_freeinfo(struct fi_info *info)
{
	for (struct fi_info *next; info != NULL; info = next) {
		next = info->next;
		free(info->src_addr);
		free(info->dest_addr);
		free(info->tx_attr);
		free(info->rx_attr);
		free(info->ep_attr);
		if (info->domain_attr != NULL)
			free(info->domain_attr->name);
		free(info->domain_attr);
		if (info->fabric_attr != NULL) {
			free(info->fabric_attr->name);
			free(info->fabric_attr->prov_name);
		}
		free(info->fabric_attr);
		free(info);
	}
}

int
fi_param_define(const struct fi_provider *provider, const char *name, enum fi_param_type type,
	const char *help, ...)
{
	(void)provider, (void)name, (void)type, (void)help;
	return FI_SUCCESS;
}

/* Read a parameter of the provider: FI_PMX_NAME of the environment. */
int
fi_param_get(struct fi_provider *provider, const char *name, void *value)
{
	const char *text;
	char *end;

	(void)provider;
	if (strcmp(name, "instance") == 0) {
		text = getenv("FI_PMX_INSTANCE");
		if (text == NULL)
			return -FI_ENODATA;
		*(const char **)value = text;
		return FI_SUCCESS;
	}
	text = strcmp(name, "direct") == 0 ? getenv("FI_PMX_DIRECT") : NULL;
	if (text == NULL)
		return -FI_ENODATA;
	*(size_t *)value = strtoull(text, &end, 0);
	return *text != 0 && *end == 0 ? FI_SUCCESS : -FI_EINVAL;
}

int
fi_log_enabled(const struct fi_provider *provider, enum fi_log_level level,
	enum fi_log_subsys subsystem)
{
	(void)provider, (void)subsystem;
	return level <= FI_LOG_WARN;
}

void
fi_log(const struct fi_provider *provider, enum fi_log_level level, enum fi_log_subsys subsystem,
	const char *function, int line, const char *format, ...)
{
	char text[512];
	va_list arguments;

	(void)provider, (void)level, (void)subsystem, (void)function, (void)line;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text[strcspn(text, "\n")] = 0;
	fprintf(stderr, "pmx: %s\n", text);
}
