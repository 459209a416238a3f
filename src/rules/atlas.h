#ifndef TR_RULES_ATLAS_H
#define TR_RULES_ATLAS_H

/*
 * Time zones that somebody asked for: read once, kept until the end. See atlas.c.
 */

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "port/zones.h"
#include "rules/zone.h"

#include <stddef.h>

struct tr_atlas {
    struct tr_mem *mem;
    tr_zone_file_fn *read; /* NULL: there are none but UTC */
    void *read_ctx;
    struct tr_list zones;
};

void tr_atlas_init(struct tr_atlas *a, struct tr_mem *mem, tr_zone_file_fn *read, void *read_ctx);
/* A zeroed one is fine. */
void tr_atlas_fini(struct tr_atlas *a);

/* The zone of this name, which stays; of none: UTC. TARRY_ENOTFOUND: there is no such zone;
 * TARRY_ENOMEM. */
TR_MUST_USE int tr_atlas_get(struct tr_atlas *a, const char *name, size_t len,
                             const struct tr_zone **zone);

#endif
