#ifndef TR_ENGINE_SIDECAR_INNER_H
#define TR_ENGINE_SIDECAR_INNER_H

/*
 * What the builder and the reader of sidecars share: the layout of pages. The bytes are described
 * in sidecar.c.
 */

#include "base/bytes.h"
#include "engine/sidecar.h"

#include <stdint.h>

#define TR_SIDE_HEAD_MAGIC UINT32_C(0x68735254) /* "TRsh" */
#define TR_SIDE_PAGE_MAGIC UINT32_C(0x70735254) /* "TRsp" */

enum {
    TR_SIDE_CRC_AT = 4,
    TR_SIDE_CRC_FROM = 8,
    TR_SIDE_HEAD_LEN = 196,
    TR_SIDE_PAGE_HEAD = 16,
    TR_SIDE_COLUMN_HEAD = 9, /* u64 base, u8 bits */
    TR_SIDE_SLACK = 8,       /* zeros at the end, so that 9 bytes can be read at any row */
    TR_SIDE_ROWS_MAX = 4095, /* of a page */
    TR_SIDE_INDEX_BITS = 12,
    TR_SIDE_KEYS_MAX = 3,
    TR_SIDE_FENCE_KIND = 255, /* in place of a section */
    TR_SIDE_FENCE_ROOM = TR_SIDE_PAGE - TR_SIDE_PAGE_HEAD,
};

/* A section: its columns, the first `keys` of which are its order. */
struct tr_side_shape {
    uint8_t columns;
    uint8_t keys;
    uint8_t fence;                     /* bytes of a key as a fence */
    uint8_t bits[TR_SIDE_COLUMNS_MAX]; /* that a number of the column has at most */
};

const struct tr_side_shape *tr_side_shape(enum tr_side_section section);

/* Bits for the rows of a page; rows that fit at least, whatever they hold. */
uint32_t tr_side_row_room(enum tr_side_section section);
uint32_t tr_side_rows_min(enum tr_side_section section);

/* The key of a job in a section's order. */
void tr_side_key(enum tr_side_section section, const struct tr_side_job *job,
                 uint64_t key[TR_SIDE_KEYS_MAX]);

/* What the crc of page 0, and then what that of all others begins with. */
uint32_t tr_side_head_salt(const struct tr_side_of *of);
uint32_t tr_side_page_salt(const struct tr_side_of *of, uint64_t sum);
uint32_t tr_side_crc(uint32_t salt, uint32_t page, const uint8_t bytes[TR_SIDE_PAGE]);

/* Eight bytes at once: written out, so that compilers make one load or store of them. */
static inline uint64_t tr_side_get8(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

static inline void tr_side_put8(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
    p[4] = (uint8_t)(v >> 32);
    p[5] = (uint8_t)(v >> 40);
    p[6] = (uint8_t)(v >> 48);
    p[7] = (uint8_t)(v >> 56);
}

#endif
