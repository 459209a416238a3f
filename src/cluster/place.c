/*
 * Where things are in Redis.
 *
 *     topic --CRC-32--> slot s (of 256) --"{s}"--> one of 16384 hash slots --> a server
 *
 * All keys of a slot have its number between braces, and Redis Cluster looks at nothing else; so a
 * script may touch all of them, and a slot is on one server as a whole. The name of a topic has no
 * brace and no colon (base/name.h), so keys of different topics are never the same.
 *
 * An id is seq * 1024 + slot, whatever the number of slots, so that whoever has an id knows where
 * to look. seq is below 2^43, which leaves ids below 2^53.
 */

#include "cluster/place.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

enum { ID_SLOT_BITS = 10 };

int tr_layout_init(struct tr_layout *l, const char *prefix, unsigned slots)
{
    size_t len = strlen(prefix);

    if (slots == 0 || slots > TR_SLOTS_MAX || (slots & (slots - 1)) != 0 ||
        len >= sizeof l->prefix || memchr(prefix, '{', len) != NULL ||
        memchr(prefix, '}', len) != NULL) {
        return TARRY_EINVAL;
    }
    *l = (struct tr_layout){.prefix_len = len, .slots = slots};
    memcpy(l->prefix, prefix, len);
    return TARRY_OK;
}

/* Both sums bit by bit: a name has some ten bytes, and is asked for once. */
uint32_t tr_place_crc32(const void *p, size_t len)
{
    const uint8_t *at = p;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
        }
    }
    return ~crc;
}

/* CRC-16/XMODEM. */
static unsigned crc16(const char *p, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(uint8_t)p[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021U : 0);
        }
        crc &= 0xffff;
    }
    return crc;
}

unsigned tr_place_hash_slot(const char *key, size_t len)
{
    const char *open = len > 0 ? memchr(key, '{', len) : NULL;

    if (open != NULL) {
        size_t left = len - (size_t)(open + 1 - key);
        const char *close = left > 0 ? memchr(open + 1, '}', left) : NULL;

        if (close != NULL && close > open + 1) {
            return crc16(open + 1, (size_t)(close - open - 1)) % TR_HASH_SLOTS;
        }
    }
    return crc16(key, len) % TR_HASH_SLOTS;
}

unsigned tr_place_slot(const struct tr_layout *l, const char *topic, size_t len, unsigned i)
{
    return (tr_place_crc32(topic, len) + i) & (l->slots - 1);
}

unsigned tr_place_of_key(const char *key, size_t len, uint32_t spread)
{
    return tr_place_crc32(key, len) & (spread - 1);
}

uint64_t tr_place_share(uint64_t limit, uint32_t spread)
{
    return limit / spread;
}

size_t tr_place_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, unsigned slot,
                    unsigned k, const char *topic)
{
    static const char own[TR_PLACE_SLOT_KEYS] = {'m', 'h', 'b', 'k', 'a'};
    static const char *const sets[TR_PLACE_TOPIC_KEYS] = {"store", "ready", "prep", "dead",
                                                          "c",     "w",     "x"};

    TR_CHECK(k < TR_PLACE_SLOT_KEYS + TR_PLACE_TOPIC_KEYS);
    if (k < TR_PLACE_SLOT_KEYS) {
        tr_text(out, TR_PLACE_KEY_MAX, "%s{%u}:%c", l->prefix, slot, own[k]);
    } else {
        tr_text(out, TR_PLACE_KEY_MAX, "%s{%u}:%s:%s", l->prefix, slot, topic,
                sets[k - TR_PLACE_SLOT_KEYS]);
    }
    return strlen(out);
}

size_t tr_place_schedules_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, unsigned slot)
{
    tr_text(out, TR_PLACE_KEY_MAX, "%s{%u}:s", l->prefix, slot);
    return strlen(out);
}

size_t tr_place_meta_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, enum tr_meta_key k)
{
    static const char *const words[TR_META_COUNT] = {"layout", "nodes", "where",   "topics",
                                                     "roster", "order", "outlets", "made"};

    tr_text(out, TR_PLACE_KEY_MAX, "%s{meta}:%s", l->prefix, words[k]);
    return strlen(out);
}

size_t tr_place_wake_key(char out[TR_PLACE_KEY_MAX], const struct tr_layout *l, const char *node)
{
    tr_text(out, TR_PLACE_KEY_MAX, "%s{n%.*s}:wake", l->prefix, TR_PLACE_NODE_DIGITS, node);
    return strlen(out);
}

uint64_t tr_place_id(uint64_t seq, unsigned slot)
{
    return seq << ID_SLOT_BITS | slot;
}

unsigned tr_place_slot_of(uint64_t id)
{
    return (unsigned)(id & ((1U << ID_SLOT_BITS) - 1));
}

uint64_t tr_place_seq_of(uint64_t id)
{
    return id >> ID_SLOT_BITS;
}

bool tr_place_id_ok(const struct tr_layout *l, uint64_t id)
{
    return id < UINT64_C(1) << 53 && tr_place_seq_of(id) > 0 && tr_place_slot_of(id) < l->slots;
}
