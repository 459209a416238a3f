/*
 * Manifest bytes, little-endian.
 *
 *       0  u32 magic   4  u32 crc of the bytes from 8 to the end   8  u16 version  10  u16 0
 *      12  u32 bytes used      16  u32 incompatible features  20  u32 compatible features
 *      24  u64 generation      32  u32 flags     36  u32 newer checkpoint (0 or 1)
 *      40  u64 epoch           48  u64 rid limit     56  u64 slot bytes   64  u64 segment
 *      72  u64 log batch       80  16 uuid       96  16 key
 *     112  twice: u64 batch, u64 pages           144  u32 slots, u32 groups
 *     152  u64 next rid
 *     160  a slot: u32 number, u32 0, u64 segment, u64 nonce, u64 first batch, u64 last batch
 *          then a group: u64 number, u64 first rid, u64 last rid, thrice u32 bytes of a file,
 *          u32 mean bytes of a live record when this was written, or 0
 *
 * A manifest with groups has the incompatible feature 1, and each one the feature 2, since kills in
 * the log may tell how long bodies were; those of older builds have it not.
 *
 * Two files, each with two copies; a generation is written to one file only, in turn (R12), so the
 * other still has the one before when the power goes.
 */

#include "engine/manifest.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

enum {
    MAGIC = 0x6e6d7274, /* "trmn" */
    SLOTS_AT = 160,
    SLOT_LEN = 40,
    GROUP_LEN = 40,
    CLOCK_AT = TR_MANIFEST_COPY - 8
};

static_assert(SLOTS_AT + TR_MANIFEST_SLOTS_MAX * SLOT_LEN + TR_GROUPS_MAX * GROUP_LEN <= CLOCK_AT,
              "a copy's room");

static void encode_groups(uint8_t *p, const struct tr_manifest *m)
{
    for (size_t i = 0; i < m->group_count; i++, p += GROUP_LEN) {
        tr_put_le(p, m->groups[i].no, 8);
        tr_put_le(p + 8, m->groups[i].rid_first, 8);
        tr_put_le(p + 16, m->groups[i].rid_last, 8);
        for (size_t k = 0; k < TR_GROUP_FILES; k++) {
            tr_put_le(p + 24 + 4 * k, m->groups[i].bytes[k], 4);
        }
        tr_put_le(p + 36, m->groups[i].mean, 4);
    }
}

void tr_manifest_encode(uint8_t out[TR_MANIFEST_COPY], const struct tr_manifest *m)
{
    TR_CHECK(m->slot_count <= TR_MANIFEST_SLOTS_MAX);
    TR_CHECK(m->group_count <= TR_GROUPS_MAX);
    memset(out, 0, TR_MANIFEST_COPY);
    tr_put_le(out, MAGIC, 4);
    tr_put_le(out + 8, TR_FORMAT_VERSION, 2);
    tr_put_le(out + 12, SLOTS_AT + m->slot_count * SLOT_LEN + m->group_count * GROUP_LEN, 4);
    tr_put_le(out + 16, TR_FEATURE_LENGTHS | (m->group_count != 0 ? TR_FEATURE_RUNS : 0), 4);
    tr_put_le(out + 24, m->gen, 8);
    tr_put_le(out + 32, m->flags, 4);
    tr_put_le(out + 36, m->ckpt_now, 4);
    tr_put_le(out + 40, m->epoch, 8);
    tr_put_le(out + 48, m->rid_limit, 8);
    tr_put_le(out + 56, m->slot_bytes, 8);
    tr_put_le(out + 64, m->seg_no, 8);
    tr_put_le(out + 72, m->log_batch, 8);
    memcpy(out + 80, m->uuid, TR_UUID);
    memcpy(out + 96, m->key, TR_UUID);
    for (size_t i = 0; i < 2; i++) {
        tr_put_le(out + 112 + 16 * i, m->ckpt[i].batch, 8);
        tr_put_le(out + 120 + 16 * i, m->ckpt[i].pages, 8);
    }
    tr_put_le(out + 144, m->slot_count, 4);
    tr_put_le(out + 148, m->group_count, 4);
    tr_put_le(out + 152, m->next_rid, 8);
    for (size_t i = 0; i < m->slot_count; i++) {
        uint8_t *p = out + SLOTS_AT + i * SLOT_LEN;

        tr_put_le(p, m->slots[i].number, 4);
        tr_put_le(p + 8, m->slots[i].seg_no, 8);
        tr_put_le(p + 16, m->slots[i].nonce, 8);
        tr_put_le(p + 24, m->slots[i].first_batch, 8);
        tr_put_le(p + 32, m->slots[i].last_batch, 8);
    }
    encode_groups(out + SLOTS_AT + m->slot_count * SLOT_LEN, m);
    tr_put_le(out + CLOCK_AT, m->clock_us, 8);
    tr_put_le(out + 4, tr_crc(0, out + 8, TR_MANIFEST_COPY - 8), 4);
}

static int decode_slots(const uint8_t *in, struct tr_manifest *m)
{
    for (size_t i = 0; i < m->slot_count; i++) {
        const uint8_t *p = in + SLOTS_AT + i * SLOT_LEN;

        m->slots[i] = (struct tr_manifest_slot){
            .number = (uint32_t)tr_get_le(p, 4),
            .seg_no = tr_get_le(p + 8, 8),
            .nonce = tr_get_le(p + 16, 8),
            .first_batch = tr_get_le(p + 24, 8),
            .last_batch = tr_get_le(p + 32, 8),
        };
        if (m->slots[i].number >= TR_MANIFEST_SLOTS_MAX) {
            return TARRY_EDAMAGED;
        }
    }
    return TARRY_OK;
}

static int decode_groups(const uint8_t *p, struct tr_manifest *m)
{
    uint64_t last = 0;

    for (size_t i = 0; i < m->group_count; i++, p += GROUP_LEN) {
        struct tr_manifest_group *g = &m->groups[i];

        g->no = tr_get_le(p, 8);
        g->rid_first = tr_get_le(p + 8, 8);
        g->rid_last = tr_get_le(p + 16, 8);
        for (size_t k = 0; k < TR_GROUP_FILES; k++) {
            g->bytes[k] = (uint32_t)tr_get_le(p + 24 + 4 * k, 4);
        }
        g->mean = (uint32_t)tr_get_le(p + 36, 4);
        if (g->no == 0 || g->rid_first <= last || g->rid_last < g->rid_first ||
            g->bytes[TR_GROUP_FILES - 1] == 0) {
            return TARRY_EDAMAGED;
        }
        last = g->rid_last;
    }
    return TARRY_OK;
}

int tr_manifest_decode(const uint8_t in[TR_MANIFEST_COPY], struct tr_manifest *m)
{
    *m = (struct tr_manifest){0};
    if (tr_get_le(in, 4) != MAGIC ||
        tr_get_le(in + 4, 4) != tr_crc(0, in + 8, TR_MANIFEST_COPY - 8)) {
        return TARRY_EDAMAGED;
    }
    if (tr_get_le(in + 8, 2) == 0) {
        return TARRY_EDAMAGED;
    }
    if (tr_get_le(in + 8, 2) != TR_FORMAT_VERSION ||
        (tr_get_le(in + 16, 4) & ~(uint64_t)TR_FEATURES_KNOWN) != 0) {
        return TARRY_EVERSION;
    }
    m->gen = tr_get_le(in + 24, 8);
    m->flags = (uint32_t)tr_get_le(in + 32, 4);
    m->ckpt_now = (uint32_t)tr_get_le(in + 36, 4);
    m->epoch = tr_get_le(in + 40, 8);
    m->rid_limit = tr_get_le(in + 48, 8);
    m->slot_bytes = tr_get_le(in + 56, 8);
    m->seg_no = tr_get_le(in + 64, 8);
    m->log_batch = tr_get_le(in + 72, 8);
    memcpy(m->uuid, in + 80, TR_UUID);
    memcpy(m->key, in + 96, TR_UUID);
    for (size_t i = 0; i < 2; i++) {
        m->ckpt[i].batch = tr_get_le(in + 112 + 16 * i, 8);
        m->ckpt[i].pages = tr_get_le(in + 120 + 16 * i, 8);
    }
    m->slot_count = (uint32_t)tr_get_le(in + 144, 4);
    m->group_count = (uint32_t)tr_get_le(in + 148, 4);
    m->next_rid = tr_get_le(in + 152, 8);
    m->clock_us = tr_get_le(in + CLOCK_AT, 8);
    if (m->slot_count > TR_MANIFEST_SLOTS_MAX || m->group_count > TR_GROUPS_MAX || m->gen == 0 ||
        m->ckpt[0].pages > UINT32_MAX || m->ckpt[1].pages > UINT32_MAX || m->ckpt_now > 1) {
        return TARRY_EDAMAGED;
    }
    if ((m->flags & ~(uint32_t)TR_MAN_KNOWN) != 0) {
        return TARRY_EVERSION;
    }
    if (decode_slots(in, m) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    return decode_groups(in + SLOTS_AT + m->slot_count * SLOT_LEN, m);
}

bool tr_manifest_names(const struct tr_manifest *m, uint64_t no)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        if (m->groups[i].no == no) {
            return true;
        }
    }
    return false;
}
