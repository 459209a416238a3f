#ifndef TR_CLUSTER_PLACE_H
#define TR_CLUSTER_PLACE_H

/*
 * Where things are: the slots of a topic, the keys of a slot, Redis Cluster's hash slot of a key,
 * and what an id says. See place.c.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_SLOTS_MAX = 1024,
    TR_HASH_SLOTS = 16384,     /* of Redis Cluster */
    TR_PLACE_PREFIX_MAX = 64,  /* bytes of redis.prefix */
    TR_PLACE_KEY_MAX = 320,    /* bytes of any key: prefix, slot, a topic of 200, a word */
    TR_PLACE_SLOT_KEYS = 5,    /* in this order the first keys of every script of jobs, */
    TR_PLACE_TOPIC_KEYS = 7,   /* and these follow for each topic */
    TR_PLACE_NODE_DIGITS = 16, /* a node's name: random, new with each start */
};

struct tr_layout {
    char prefix[TR_PLACE_PREFIX_MAX];
    size_t prefix_len;
    unsigned slots; /* a power of two */
};

/* TARRY_EINVAL: the number of slots is no power of two up to 1024, or the prefix is too long or has
 * a brace, which would change where keys are. */
TR_MUST_USE int tr_layout_init(struct tr_layout *l, const char *prefix, unsigned slots);

/* CRC-32 (IEEE 802.3), as zlib and Java have it: where other time-out centres put a topic. */
uint32_t tr_place_crc32(const void *p, size_t len);

/* The hash slot of a key in Redis Cluster: CRC-16 of what is between the first braces, or of all.
 */
unsigned tr_place_hash_slot(const char *key, size_t len);

/* The i-th slot of a topic. */
unsigned tr_place_slot(const struct tr_layout *l, const char *topic, size_t len, unsigned i);

/* Which of its topic's slots a keyed job goes to. */
unsigned tr_place_of_key(const char *key, size_t len, uint32_t spread);

/* A limit as each slot has it, so that all together are never above; 0: it is too small. */
uint64_t tr_place_share(uint64_t limit, uint32_t spread);

/* Key number k of a slot: 0 to 4 are its own, from 5 on those of the topic. Gives the length. */
size_t tr_place_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, unsigned slot,
                    unsigned k, const char *topic);

/* The schedules of a slot. */
size_t tr_place_schedules_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, unsigned slot);

/* Keys of the whole store. */
enum tr_meta_key {
    TR_META_LAYOUT,
    TR_META_NODES,
    TR_META_WHERE,
    TR_META_TOPICS,
    TR_META_ROSTER,  /* schedules by name, */
    TR_META_ORDER,   /* and by number */
    TR_META_OUTLETS, /* topics that deliver */
    TR_META_MADE,    /* slots that were ever made */
    TR_META_COUNT
};
size_t tr_place_meta_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, enum tr_meta_key k);

/* Where a node's wake-ups go. */
size_t tr_place_wake_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, const char *node);

/* An id is a number of its slot, which only grows, and the slot. */
uint64_t tr_place_id(uint64_t seq, unsigned slot);
unsigned tr_place_slot_of(uint64_t id);
uint64_t tr_place_seq_of(uint64_t id);

/* Could this number be an id of this store? Somebody may ask for any. */
bool tr_place_id_ok(const struct tr_layout *l, uint64_t id);

#endif
