#ifndef TR_ENGINE_FRAME_H
#define TR_ENGINE_FRAME_H

/*
 * The two containers of the log: a segment (one use of a slot file) begins with a header block,
 * and is a row of frames, each one batch. See frame.c for the bytes.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_BLOCK = 4096, /* frames begin and end on blocks */
    TR_FRAME_HEAD = 96,
    TR_UUID = 16,
    TR_FORMAT_VERSION = 1,
};

#define TR_FRAME_MAGIC UINT32_C(0x72665254) /* "TRfr" */
#define TR_FEATURE_RUNS UINT32_C(1)         /* manifest: some jobs are in run files */
#define TR_FEATURE_LENGTHS UINT32_C(2)      /* manifest: kills may tell how long bodies were */
/* Incompatible feature bits that this version reads. */
#define TR_FEATURES_KNOWN (TR_FEATURE_RUNS | TR_FEATURE_LENGTHS)

struct tr_segment {
    uint32_t incompatible; /* feature bits */
    uint32_t compatible;
    uint8_t uuid[TR_UUID]; /* of the store */
    uint64_t seg_no;
    uint64_t nonce; /* random at each opening of a segment */
    uint64_t first_batch;
    uint64_t created_us;
};

enum {
    TR_FRAME_SEAL = 1
}; /* flag: no batch; says that all batches up to synced_batch are durable */

struct tr_frame {
    uint64_t seg_no;
    uint64_t nonce;
    uint64_t batch_no;     /* of a SEAL: the one to come */
    uint64_t synced_batch; /* newest batch known to be durable when this was written */
    uint64_t man_gen;      /* newest manifest generation */
    uint64_t clock_us;     /* base of the records' times */
    uint64_t first_rid;    /* base of the records' rids: what was next when it began */
    uint32_t record_count;
    uint32_t payload_len;
    uint32_t payload_crc;
    uint32_t prev_crc; /* header crc of the batch before; 0 for the first of a segment */
    uint32_t flags;
};

/* Writes one block. */
void tr_segment_encode(uint8_t out[TR_BLOCK], const struct tr_segment *seg);

/* TARRY_EDAMAGED: not a header. TARRY_EVERSION: a good one of a newer version or with unknown
 * features. */
TR_MUST_USE int tr_segment_decode(const uint8_t in[TR_BLOCK], struct tr_segment *seg);

/*
 * Where a frame stands: its offset in the slot plus a number that only this store has. A head is
 * good at its own place only, so neither the body of a job nor a slot of another store can pass.
 */
uint64_t tr_frame_place(const uint8_t uuid[TR_UUID], uint64_t off);

/* Writes the head of a frame, and gives its crc, the next frame's prev_crc. */
uint32_t tr_frame_encode(uint8_t out[TR_FRAME_HEAD], const struct tr_frame *f, uint64_t place);

/* Reads a head that was found at this place; *crc is its own. TARRY_EDAMAGED: there is none.
 * TARRY_EVERSION as above. Does not look at the payload. */
TR_MUST_USE int tr_frame_decode(const uint8_t in[TR_FRAME_HEAD], uint64_t place, struct tr_frame *f,
                                uint32_t *crc);

/* Bytes that a frame with this payload takes in the slot: whole blocks. */
static inline uint64_t tr_frame_size(uint64_t payload_len)
{
    return (TR_FRAME_HEAD + payload_len + TR_BLOCK - 1) / TR_BLOCK * TR_BLOCK;
}

#endif
