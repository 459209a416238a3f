#ifndef TR_ENGINE_SCAN_H
#define TR_ENGINE_SCAN_H

/*
 * The reading side of the log: which segment a slot holds, judged by its bytes. See scan.c.
 */

#include "engine/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_scan {
    bool known;      /* it holds a segment: the fields below */
    bool header_bad; /* known by its frames only; or the header is of an older segment */
    bool newer;      /* a header or frame of a newer version was met */
    uint64_t seg_no;
    uint64_t nonce;
    uint64_t first_batch; /* 0: not known, the first frame is bad too */
    uint64_t max_batch;   /* of its good frame heads */
    uint64_t max_synced;  /* newest batch that they say was durable */
    uint64_t man_gen;     /* newest generation that any frame in the slot names */
};

/* Looks at a whole slot. uuid: the store's. */
void tr_scan_slot(const uint8_t *bytes, size_t len, const uint8_t uuid[TR_UUID],
                  struct tr_scan *scan);

/* True when nothing was ever written to the slot. */
bool tr_scan_blank(const uint8_t *bytes, size_t len);

/* One frame, found where the walk expects it. */
enum tr_scan_verdict {
    TR_SCAN_BATCH, /* a good frame of this batch: *frame, *crc */
    TR_SCAN_SEAL,  /* the end, sealed */
    TR_SCAN_END,   /* nothing of this segment */
    TR_SCAN_BAD,   /* a good head, but the payload is not */
    TR_SCAN_NEWER, /* a good frame of a newer version */
};

struct tr_scan_at {
    const uint8_t *uuid; /* the store's */
    uint64_t seg_no;
    uint64_t nonce;
    uint64_t batch;    /* expected */
    uint32_t prev_crc; /* expected */
    uint64_t off;
};

enum tr_scan_verdict tr_scan_frame(const uint8_t *bytes, size_t len, struct tr_scan_at at,
                                   struct tr_frame *frame, uint32_t *crc);

/* True when a frame head begins at off but is not whole. */
bool tr_scan_begun(const uint8_t *bytes, size_t len, struct tr_scan_at at);

/* True when [off, len) has a good frame head of this segment, other than a SEAL for `batch` at off.
 */
bool tr_scan_leftover(const uint8_t *bytes, size_t len, struct tr_scan_at at);

#endif
