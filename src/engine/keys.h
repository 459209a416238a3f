#ifndef TR_ENGINE_KEYS_H
#define TR_ENGINE_KEYS_H

/*
 * From the key of a live job to its rid. See keys.c; who looks a key up is lookup.c.
 */

#include "base/check.h"
#include "base/keymap.h"
#include "base/siphash.h"
#include "engine/record.h"

#include <stdbool.h>
#include <stdint.h>

/* How keys are hashed: the same for the life of a store, since sidecars have the hashes. */
struct tr_keyer {
    uint8_t secret[TR_SIPHASH_KEY];
    unsigned bits; /* of the hash that count; 0: all. Tests make it small: then keys collide */
};

struct tr_siphash tr_keyer_hash(const struct tr_keyer *k, uint32_t topic, struct tr_bytes key);

struct tr_keys {
    struct tr_keyer keyer;
    struct tr_keymap map;      /* live keyed jobs, each once; and stale ones: rids that are dead */
    uint64_t stale;            /* no more than these, */
    bool tidying;              /* besides those that are being taken out, */
    struct tr_keymap_entry at; /* so far */
};

void tr_keys_init(struct tr_keys *k, struct tr_mem *mem);
void tr_keys_fini(struct tr_keys *k);

bool tr_keys_has(const struct tr_keys *k, struct tr_siphash hash, uint64_t rid);

/* A job that may have a key is gone, and nobody knows which. */
void tr_keys_lost(struct tr_keys *k, uint64_t jobs);

/* Are stale ones to be taken out, with so many live jobs? */
bool tr_keys_wants_tidying(const struct tr_keys *k, uint64_t live);

#endif
