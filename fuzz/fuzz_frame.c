/*
 * Heads of frames and segments from a hostile disk.
 *
 *     0  u8   bit 0: make the crc right first; bit 1: a segment, else a frame
 *     1  u64  offset of the frame in its slot
 *     9       the bytes to be read; zeros follow
 *
 * What can be read must be written and read again as the same.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/frame.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 9, RESERVED_AT = 84 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frame(uint8_t *p, uint64_t off, bool repair)
{
    struct tr_frame f;
    struct tr_frame again;
    uint8_t out[TR_FRAME_HEAD];
    uint32_t crc;
    int err;

    if (repair) {
        tr_put_le(p + 92, tr_crc(tr_crc_seed(off), p, 92), 4);
    }
    err = tr_frame_decode(p, off, &f, &crc);
    if (repair && memcmp(p, "TRfr\x01\x00\x60\x00", 8) == 0 && err == TARRY_EDAMAGED) {
        abort();
    }
    if (err != TARRY_OK) {
        return;
    }
    tr_frame_encode(out, &f, off);
    if (memcmp(out, p, RESERVED_AT) != 0) { /* what follows is not looked at, and the crc */
        abort();
    }
    if (tr_frame_decode(out, off, &again, &crc) != TARRY_OK) {
        abort();
    }
}

static void check_segment(uint8_t *p, bool repair)
{
    struct tr_segment seg;
    struct tr_segment again;
    uint8_t out[TR_BLOCK];
    int err;

    if (repair) {
        tr_put_le(p + 4, tr_crc(0, p + 8, TR_BLOCK - 8), 4);
    }
    err = tr_segment_decode(p, &seg);
    if (repair && memcmp(p, "TRsg", 4) == 0 && memcmp(p + 8, "\x01\x00\x44\x00", 4) == 0 &&
        err == TARRY_EDAMAGED) {
        abort();
    }
    if (err != TARRY_OK) {
        return;
    }
    tr_segment_encode(out, &seg);
    if (tr_segment_decode(out, &again) != TARRY_OK || memcmp(&seg, &again, sizeof seg) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t p[TR_BLOCK] = {0};

    if (size < HEAD || size - HEAD > sizeof p) {
        return 0;
    }
    memcpy(p, data + HEAD, size - HEAD);
    if ((data[0] & 2) != 0) {
        check_segment(p, (data[0] & 1) != 0);
    } else {
        check_frame(p, tr_get_le(data + 1, 8), (data[0] & 1) != 0);
    }
    return 0;
}
