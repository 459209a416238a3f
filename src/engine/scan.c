/*
 * Judging slots by their bytes.
 *
 * A slot is known by its frames where its header cannot be trusted (R6): the header may have
 * rotted, or a power cut kept the first frame of a new segment and the header of the old one. So
 * every block is looked at, and the newest segment that header or frames name is what the slot
 * holds. Frames of older uses of the slot stay visible behind the end; segment number and nonce
 * tell them apart (R4).
 */

#include "engine/scan.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"

#include <string.h>

static size_t step(void)
{
    return TR_MUTANT(SHARED_SECTOR) ? 64 : TR_BLOCK;
}

static void add_frame(struct tr_scan *scan, const struct tr_frame *f, uint64_t off)
{
    bool seal = (f->flags & TR_FRAME_SEAL) != 0;

    if (f->man_gen > scan->man_gen) {
        scan->man_gen = f->man_gen;
    }
    if (TR_MUTANT(HEADER_ONLY) && !scan->known) {
        return;
    }
    if (!scan->known || f->seg_no > scan->seg_no) {
        if (TR_MUTANT(HEADER_ONLY)) {
            return;
        }
        scan->known = true;
        scan->header_bad = true;
        scan->seg_no = f->seg_no;
        scan->nonce = f->nonce;
        scan->first_batch = 0;
        scan->max_batch = 0;
        scan->max_synced = 0;
    }
    if (f->seg_no != scan->seg_no || f->nonce != scan->nonce) {
        return;
    }
    if (off == TR_BLOCK && scan->first_batch == 0) {
        scan->first_batch = f->batch_no;
    }
    if (!seal && f->batch_no > scan->max_batch) {
        scan->max_batch = f->batch_no;
    }
    if (f->synced_batch > scan->max_synced) {
        scan->max_synced = f->synced_batch;
    }
}

void tr_scan_slot(const uint8_t *bytes, size_t len, const uint8_t uuid[TR_UUID],
                  struct tr_scan *scan)
{
    struct tr_segment seg;
    int err = len >= TR_BLOCK ? tr_segment_decode(bytes, &seg) : TARRY_EDAMAGED;

    *scan = (struct tr_scan){.newer = err == TARRY_EVERSION};
    if (err == TARRY_OK && memcmp(seg.uuid, uuid, TR_UUID) == 0) {
        scan->known = true;
        scan->seg_no = seg.seg_no;
        scan->nonce = seg.nonce;
        scan->first_batch = seg.first_batch;
    }
    for (size_t off = TR_BLOCK; off + TR_FRAME_HEAD <= len; off += step()) {
        struct tr_frame f;
        uint32_t crc;

        err = tr_frame_decode(bytes + off, tr_frame_place(uuid, off), &f, &crc);
        scan->newer |= err == TARRY_EVERSION;
        if (err == TARRY_OK) {
            add_frame(scan, &f, off);
        }
    }
}

bool tr_scan_blank(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool payload_ok(const uint8_t *payload, const struct tr_frame *f)
{
    return TR_MUTANT(NO_PAYLOAD_CRC) || tr_crc(0, payload, f->payload_len) == f->payload_crc;
}

enum tr_scan_verdict tr_scan_frame(const uint8_t *bytes, size_t len, struct tr_scan_at at,
                                   struct tr_frame *f, uint32_t *crc)
{
    int err;

    if (at.off + TR_FRAME_HEAD > len) {
        return TR_SCAN_END;
    }
    err = tr_frame_decode(bytes + at.off, tr_frame_place(at.uuid, at.off), f, crc);
    if (err == TARRY_EVERSION) {
        return TR_SCAN_NEWER;
    }
    if (err != TARRY_OK) {
        return TR_SCAN_END;
    }
    if (!TR_MUTANT(NO_SEGMENT_CHECK) && (f->seg_no != at.seg_no || f->nonce != at.nonce ||
                                         f->batch_no != at.batch || f->prev_crc != at.prev_crc)) {
        return TR_SCAN_END;
    }
    if (f->flags & TR_FRAME_SEAL) {
        return TR_SCAN_SEAL;
    }
    if (f->payload_len > len - at.off - TR_FRAME_HEAD ||
        !payload_ok(bytes + at.off + TR_FRAME_HEAD, f)) {
        return TR_SCAN_BAD;
    }
    return TR_SCAN_BATCH;
}

bool tr_scan_begun(const uint8_t *bytes, size_t len, struct tr_scan_at at)
{
    struct tr_frame f;
    uint32_t crc;

    return at.off + TR_FRAME_HEAD <= len && tr_get_le(bytes + at.off, 4) == TR_FRAME_MAGIC &&
           tr_frame_decode(bytes + at.off, tr_frame_place(at.uuid, at.off), &f, &crc) != TARRY_OK;
}

bool tr_scan_leftover(const uint8_t *bytes, size_t len, struct tr_scan_at at)
{
    for (size_t off = at.off; off + TR_FRAME_HEAD <= len; off += step()) {
        struct tr_frame f;
        uint32_t crc;

        if (tr_frame_decode(bytes + off, tr_frame_place(at.uuid, off), &f, &crc) != TARRY_OK ||
            f.seg_no != at.seg_no || f.nonce != at.nonce) {
            continue;
        }
        if (off != at.off || (f.flags & TR_FRAME_SEAL) == 0 || f.batch_no != at.batch) {
            return true;
        }
    }
    return false;
}
