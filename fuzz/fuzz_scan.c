/*
 * A slot from a hostile disk.
 *
 *     0  u8   bit 0: the header block gets a right crc and uuid
 *             bit 1: each frame head gets right magic, crcs, segment, nonce, batch and chain
 *     1       pieces of the slot: u8 block, u8 length, so many bytes at the front of that block
 *
 * The walk must end inside the slot, and what it calls good must be so.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/scan.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 16, SLOT = BLOCKS * TR_BLOCK };

static const uint8_t uuid[TR_UUID] = "the store itself";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void lay_out(uint8_t *slot, const uint8_t *data, size_t size)
{
    while (size >= 2) {
        size_t len = data[1];

        if (len > size - 2) {
            len = size - 2;
        }
        memcpy(slot + (size_t)(data[0] % BLOCKS) * TR_BLOCK, data + 2, len);
        data += 2 + len;
        size -= 2 + len;
    }
}

static void repair_header(uint8_t *slot)
{
    memcpy(slot, "TRsg", 4);
    memcpy(slot + 8, "\x01\x00\x44\x00", 4);
    memcpy(slot + 20, uuid, TR_UUID);
    tr_put_le(slot + 4, tr_crc(0, slot + 8, TR_BLOCK - 8), 4);
}

/* Makes the frame at off the one that the walk expects; how far it goes. */
static uint64_t repair_frame(uint8_t *slot, struct tr_scan_at *at)
{
    uint8_t *p = slot + at->off;
    uint64_t len = tr_get_le(p + 68, 4);

    memcpy(p, "TRfr\x01\x00\x60\x00", 8);
    tr_put_le(p + 8, at->seg_no, 8);
    tr_put_le(p + 16, at->nonce, 8);
    tr_put_le(p + 24, at->batch, 8);
    tr_put_le(p + 76, at->prev_crc, 4);
    if (len <= SLOT - at->off - TR_FRAME_HEAD) {
        tr_put_le(p + 72, tr_crc(0, p + TR_FRAME_HEAD, len), 4);
    } else {
        len = 0;
    }
    at->prev_crc = tr_crc(tr_crc_seed(tr_frame_place(uuid, at->off)), p, 92);
    tr_put_le(p + 92, at->prev_crc, 4);
    at->batch++;
    return tr_frame_size(len);
}

static void walk(const uint8_t *slot, struct tr_scan_at at)
{
    struct tr_frame f;
    uint32_t crc = 0;

    while (tr_scan_frame(slot, SLOT, at, &f, &crc) == TR_SCAN_BATCH) {
        if (f.payload_len > SLOT - at.off - TR_FRAME_HEAD || f.batch_no != at.batch ||
            f.payload_crc != tr_crc(0, slot + at.off + TR_FRAME_HEAD, f.payload_len)) {
            abort();
        }
        at.prev_crc = crc;
        at.batch++;
        at.off += tr_frame_size(f.payload_len);
        if (at.off > SLOT) {
            abort();
        }
    }
    (void)tr_scan_leftover(slot, SLOT, at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t slot[SLOT];
    struct tr_scan_at at = {.uuid = uuid, .seg_no = 3, .nonce = 5, .batch = 7, .off = TR_BLOCK};
    struct tr_scan scan;

    if (size < 1) {
        return 0;
    }
    memset(slot, 0, sizeof slot);
    lay_out(slot, data + 1, size - 1);
    if ((data[0] & 1) != 0) {
        repair_header(slot);
    }
    if ((data[0] & 2) != 0) {
        struct tr_scan_at next = at;

        while (next.off < SLOT && tr_get_le(slot + next.off + 64, 8) != 0) {
            next.off += repair_frame(slot, &next);
        }
    }
    tr_scan_slot(slot, SLOT, uuid, &scan);
    if (scan.header_bad && !scan.known) {
        abort();
    }
    walk(slot, at);
    at.seg_no = scan.seg_no;
    at.nonce = scan.nonce;
    at.batch = scan.first_batch;
    walk(slot, at);
    (void)tr_scan_blank(slot, SLOT);
    return 0;
}
