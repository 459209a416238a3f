/*
 * The table of keys.
 *
 *     (topic, key) --SipHash under the store's secret--> 80 bits --map--> rid --L--> alive?
 *
 * The key of a job never changes, and a live job has one live rid; so whoever has the record of a
 * rid knows its hash, and nothing but L decides whether an entry counts. Hence no entry has to go
 * in time: a job in memory takes its own along when it dies, a far one leaves it behind, since its
 * record, with the key, is not read for that. Such an entry is *stale*. It is taken out when a
 * look-up meets it, and when there may be too many all of them are looked for, in slices
 * (lookup.c).
 *
 * Two entries of one hash are two keys (they collide), or one of them is stale.
 *
 * Invariant: every live keyed rid has its entry, from its record on: PUSH and MOVE put it there;
 * a start puts it there from section K of its group, or when it meets the record in the log.
 *
 * Nothing of this is in a checkpoint. That is exact for L, and an entry is a function of a record:
 * in the log or in a run, where it is found again under every live rid. A key met too early or
 * twice does no harm, as its rid must be alive and is there once.
 *
 * Cost: 18 to 20 bytes a key, a hash of 30 ns, a search of one or two cache lines.
 */

#include "engine/keys.h"

#include "base/bytes.h"

#include <string.h>

enum { TOPIC_BYTES = 4, STALE_LEAST = 16 };

struct tr_siphash tr_keyer_hash(const struct tr_keyer *k, uint32_t topic, struct tr_bytes key)
{
    uint8_t text[TOPIC_BYTES + TR_KEY_MAX];
    struct tr_siphash hash;

    TR_CHECK(key.len <= TR_KEY_MAX);
    tr_put_le(text, topic, TOPIC_BYTES);
    if (key.len != 0) {
        memcpy(text + TOPIC_BYTES, key.at, key.len);
    }
    hash = tr_siphash(k->secret, text, TOPIC_BYTES + key.len);
    if (k->bits != 0 && k->bits < 64) {
        hash.high &= ~(UINT64_MAX >> k->bits);
        hash.low = 0;
    }
    return hash;
}

void tr_keys_init(struct tr_keys *k, struct tr_mem *mem)
{
    *k = (struct tr_keys){0};
    tr_keymap_init(&k->map, mem);
}

void tr_keys_fini(struct tr_keys *k)
{
    tr_keymap_fini(&k->map);
}

bool tr_keys_has(const struct tr_keys *k, struct tr_siphash hash, uint64_t rid)
{
    return tr_keymap_find(&k->map, hash, rid - 1) == rid;
}

void tr_keys_lost(struct tr_keys *k, uint64_t jobs)
{
    if (tr_keymap_count(&k->map) != 0) {
        k->stale += jobs;
    }
}

bool tr_keys_wants_tidying(const struct tr_keys *k, uint64_t live)
{
    uint64_t count = tr_keymap_count(&k->map);
    uint64_t stale = k->stale < count ? k->stale : count;

    if (live < count && stale < count - live) {
        stale = count - live; /* some at least */
    }
    return stale > STALE_LEAST + count / 4 || (live == 0 && count != 0);
}
