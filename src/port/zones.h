#ifndef TR_PORT_ZONES_H
#define TR_PORT_ZONES_H

/* Time zones, as the world keeps them: files of the tz database, by name. */

#include <stddef.h>
#include <stdint.h>

/* Room for a file, and how much of it was filled. */
struct tr_zone_file {
    uint8_t *at;
    size_t size;
    size_t len;
};

/*
 * Reads the zone with this name. TARRY_ENOTFOUND: there is none, or none could have that name;
 * TARRY_EFULL: it is longer than there is room; TARRY_EPERM, TARRY_EIO. It is called on the loop
 * thread, once for each zone, so it must not take long.
 */
typedef int tr_zone_file_fn(void *ctx, const char *name, size_t name_len,
                            struct tr_zone_file *file);

#endif
