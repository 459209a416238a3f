#ifndef TR_CLUSTER_SHARDS_H
#define TR_CLUSTER_SHARDS_H

/*
 * Which server has which hash slot, as CLUSTER SLOTS said last. One server without a cluster has
 * all of them. Pure.
 */

#include "base/check.h"
#include "cluster/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_SHARDS_SERVERS = 512, TR_SHARDS_NAME = 128 };

#define TR_SHARDS_REFRESH_US UINT64_C(100000) /* a map is asked for at most so often */

struct tr_shards {
    uint16_t server[TR_HASH_SLOTS];                /* number + 1; 0: nobody */
    char names[TR_SHARDS_SERVERS][TR_SHARDS_NAME]; /* host:port */
    unsigned count;
    bool wanted; /* it is old */
    uint64_t asked_us;
};

/* Knows nothing, and wants to. */
void tr_shards_init(struct tr_shards *s);

/* The number of a server, which stays the same; -1: the name is too long, or there are too many. */
int tr_shards_name(struct tr_shards *s, const char *name, size_t len);

/* A new map begins: nobody has anything. */
void tr_shards_clear(struct tr_shards *s);

/* From first to last it is this server. TARRY_EINVAL: there are no such hash slots. */
TR_MUST_USE int tr_shards_set(struct tr_shards *s, unsigned first, unsigned last, int server);

/* The server of a hash slot, or -1. */
int tr_shards_find(const struct tr_shards *s, unsigned hash_slot);

/* Has this server any? */
bool tr_shards_serves(const struct tr_shards *s, int server);

/* Somebody was sent elsewhere. */
void tr_shards_doubt(struct tr_shards *s);

/* Is it time to ask for a map? If so it counts as asked. */
bool tr_shards_ask(struct tr_shards *s, uint64_t now_us);

#endif
