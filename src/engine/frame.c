/*
 * Heads of segments and frames. Numbers are little-endian.
 *
 * Segment header, one block of 4096 bytes at the front of a slot:
 *
 *      0  u32  magic "TRsg"
 *      4  u32  crc32c of bytes 8..4095
 *      8  u16  version
 *     10  u16  length of this header: 68
 *     12  u32  features that a reader must know
 *     16  u32  features that a reader may ignore
 *     20  16   uuid of the store
 *     36  u64  seg_no
 *     44  u64  nonce
 *     52  u64  first batch
 *     60  u64  created, us
 *     68       zeros
 *
 * Frame head, at a multiple of 4096 bytes in the slot; the payload follows, then zeros to the next
 * block:
 *
 *      0  u32  magic "TRfr"
 *      4  u16  version
 *      6  u16  length of this head: 96
 *      8  u64  seg_no
 *     16  u64  nonce
 *     24  u64  batch_no
 *     32  u64  synced_batch
 *     40  u64  man_gen
 *     48  u64  clock_us
 *     56  u64  first_rid
 *     64  u32  number of records
 *     68  u32  length of the payload
 *     72  u32  crc32c of the payload
 *     76  u32  crc of the head before
 *     80  u32  flags
 *     84  u64  0; a reader does not look at it
 *     92  u32  crc32c of bytes 0..91, begun with a u64: the offset in the slot + the first 8
 *              bytes of the store's uuid + its last 8 (so that bytes which a client sends can
 *              never pass for a frame)
 *
 * Crash rules: a block that is torn, of an older use of the slot, or at the wrong place has a wrong
 * crc, seg_no or nonce. The crc says that these bytes were written here; that they belong to this
 * segment and follow the frame before is for the reader of the log to compare. The magic, version
 * and crc stay where they are in every version, so that a newer one is told from damage.
 */

#include "engine/frame.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

#define SEGMENT_MAGIC UINT32_C(0x67735254) /* "TRsg" */

enum {
    SEGMENT_CRC_AT = 4,
    SEGMENT_CRC_FROM = 8,
    SEGMENT_LEN = 68,
    FRAME_CRC_AT = 92,
};

static_assert(SEGMENT_LEN == 4 + 4 + 2 + 2 + 4 + 4 + TR_UUID + 4 * 8, "the format above");
static_assert(SEGMENT_LEN <= (int)TR_BLOCK, "the format above");
static_assert(FRAME_CRC_AT == 4 + 2 + 2 + 7 * 8 + 5 * 4 + 8, "the format above");
static_assert(TR_FRAME_HEAD == FRAME_CRC_AT + 4, "the format above");
static_assert(TR_FRAME_HEAD < TR_BLOCK, "a head does not cross a block");

static void put(uint8_t **at, uint64_t v, unsigned size)
{
    tr_put_le(*at, v, size);
    *at += size;
}

static uint32_t segment_crc(const uint8_t *block)
{
    return tr_crc(0, block + SEGMENT_CRC_FROM, TR_BLOCK - SEGMENT_CRC_FROM);
}

void tr_segment_encode(uint8_t out[TR_BLOCK], const struct tr_segment *seg)
{
    uint8_t *at = out + SEGMENT_CRC_FROM;

    memset(out, 0, TR_BLOCK);
    put(&at, TR_FORMAT_VERSION, 2);
    put(&at, SEGMENT_LEN, 2);
    put(&at, seg->incompatible, 4);
    put(&at, seg->compatible, 4);
    memcpy(at, seg->uuid, TR_UUID);
    at += TR_UUID;
    put(&at, seg->seg_no, 8);
    put(&at, seg->nonce, 8);
    put(&at, seg->first_batch, 8);
    put(&at, seg->created_us, 8);
    TR_CHECK(at == out + SEGMENT_LEN);
    tr_put_le(out, SEGMENT_MAGIC, 4);
    tr_put_le(out + SEGMENT_CRC_AT, segment_crc(out), 4);
}

/* What a version number of the disk means to this version. */
static int check_version(uint64_t version)
{
    if (version == 0) {
        return TARRY_EDAMAGED;
    }
    return version <= TR_FORMAT_VERSION ? TARRY_OK : TARRY_EVERSION;
}

int tr_segment_decode(const uint8_t in[TR_BLOCK], struct tr_segment *seg)
{
    struct tr_reader r = tr_reader_of(in, TR_BLOCK);
    uint64_t magic = tr_read_le(&r, 4);
    uint64_t crc = tr_read_le(&r, 4);
    uint64_t version = tr_read_le(&r, 2);
    uint64_t len = tr_read_le(&r, 2);
    int err = check_version(version);

    memset(seg, 0, sizeof *seg);
    if (magic != SEGMENT_MAGIC || crc != segment_crc(in)) {
        return TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    if (len != SEGMENT_LEN) {
        return TARRY_EDAMAGED;
    }
    seg->incompatible = (uint32_t)tr_read_le(&r, 4);
    seg->compatible = (uint32_t)tr_read_le(&r, 4);
    memcpy(seg->uuid, tr_read_bytes(&r, TR_UUID), TR_UUID);
    seg->seg_no = tr_read_le(&r, 8);
    seg->nonce = tr_read_le(&r, 8);
    seg->first_batch = tr_read_le(&r, 8);
    seg->created_us = tr_read_le(&r, 8);
    return (seg->incompatible & ~TR_FEATURES_KNOWN) == 0 ? TARRY_OK : TARRY_EVERSION;
}

static uint32_t frame_crc(const uint8_t *head, uint64_t place)
{
    return tr_crc(tr_crc_seed(place), head, FRAME_CRC_AT);
}

uint64_t tr_frame_place(const uint8_t uuid[TR_UUID], uint64_t off)
{
    return off + tr_get_le(uuid, 8) + tr_get_le(uuid + 8, 8);
}

uint32_t tr_frame_encode(uint8_t out[TR_FRAME_HEAD], const struct tr_frame *f, uint64_t place)
{
    uint8_t *at = out;
    uint32_t crc;

    TR_CHECK((f->flags & ~(uint32_t)TR_FRAME_SEAL) == 0);
    put(&at, TR_FRAME_MAGIC, 4);
    put(&at, TR_FORMAT_VERSION, 2);
    put(&at, TR_FRAME_HEAD, 2);
    put(&at, f->seg_no, 8);
    put(&at, f->nonce, 8);
    put(&at, f->batch_no, 8);
    put(&at, f->synced_batch, 8);
    put(&at, f->man_gen, 8);
    put(&at, f->clock_us, 8);
    put(&at, f->first_rid, 8);
    put(&at, f->record_count, 4);
    put(&at, f->payload_len, 4);
    put(&at, f->payload_crc, 4);
    put(&at, f->prev_crc, 4);
    put(&at, f->flags, 4);
    put(&at, 0, 8);
    TR_CHECK(at == out + FRAME_CRC_AT);
    crc = frame_crc(out, place);
    put(&at, crc, 4);
    return crc;
}

int tr_frame_decode(const uint8_t in[TR_FRAME_HEAD], uint64_t place, struct tr_frame *f,
                    uint32_t *crc)
{
    struct tr_reader r = tr_reader_of(in, TR_FRAME_HEAD);
    uint64_t magic = tr_read_le(&r, 4);
    uint64_t version = tr_read_le(&r, 2);
    uint64_t len = tr_read_le(&r, 2);
    int err = check_version(version);

    memset(f, 0, sizeof *f);
    *crc = (uint32_t)tr_get_le(in + FRAME_CRC_AT, 4);
    if (magic != TR_FRAME_MAGIC || *crc != frame_crc(in, place)) {
        return TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    if (len != TR_FRAME_HEAD) {
        return TARRY_EDAMAGED;
    }
    f->seg_no = tr_read_le(&r, 8);
    f->nonce = tr_read_le(&r, 8);
    f->batch_no = tr_read_le(&r, 8);
    f->synced_batch = tr_read_le(&r, 8);
    f->man_gen = tr_read_le(&r, 8);
    f->clock_us = tr_read_le(&r, 8);
    f->first_rid = tr_read_le(&r, 8);
    f->record_count = (uint32_t)tr_read_le(&r, 4);
    f->payload_len = (uint32_t)tr_read_le(&r, 4);
    f->payload_crc = (uint32_t)tr_read_le(&r, 4);
    f->prev_crc = (uint32_t)tr_read_le(&r, 4);
    f->flags = (uint32_t)tr_read_le(&r, 4);
    return (f->flags & ~(uint32_t)TR_FRAME_SEAL) == 0 ? TARRY_OK : TARRY_EVERSION;
}
