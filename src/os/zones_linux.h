#ifndef TR_OS_ZONES_LINUX_H
#define TR_OS_ZONES_LINUX_H

/*
 * The time zones of the system: files of the tz database below TZDIR, or /usr/share/zoneinfo.
 * Threads: any, as long as nobody changes the environment.
 */

#include "base/check.h"
#include "port/zones.h"

/* A tr_zone_file_fn; ctx is not used. */
TR_MUST_USE int tr_zones_linux_read(void *ctx, const char *name, size_t name_len,
                                    struct tr_zone_file *file);

#endif
