#ifndef TR_ENGINE_PLACE_H
#define TR_ENGINE_PLACE_H

/*
 * Where the record of a far job is, in one number: which run of a group (a slot has only piece 0),
 * at which byte of that file, and how long it is, body included. Larger places are later ones.
 *
 *     63      54 53              24 23          0
 *     | piece   | offset, bytes    | length     |
 */

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TR_PLACE_LEN_BITS = 24, /* a record is at most 8 MiB + 1 KiB */
    TR_PLACE_OFF_BITS = 30, /* a slot is at most 1 GiB */
    TR_PLACE_PIECE_BITS = 10,
    TR_PLACE_LEN_MAX = (1 << TR_PLACE_LEN_BITS) - 1,
    TR_PLACE_OFF_MAX = (1 << TR_PLACE_OFF_BITS) - 1,
    TR_PLACE_PIECE_MAX = (1 << TR_PLACE_PIECE_BITS) - 1,
};

static inline uint64_t tr_place_of(uint32_t piece, uint64_t off, uint64_t len)
{
    TR_CHECK(piece <= TR_PLACE_PIECE_MAX);
    TR_CHECK(off <= TR_PLACE_OFF_MAX);
    TR_CHECK(len <= TR_PLACE_LEN_MAX);
    return (uint64_t)piece << (TR_PLACE_OFF_BITS + TR_PLACE_LEN_BITS) | off << TR_PLACE_LEN_BITS |
           len;
}

static inline uint32_t tr_place_piece(uint64_t place)
{
    return (uint32_t)(place >> (TR_PLACE_OFF_BITS + TR_PLACE_LEN_BITS));
}

static inline uint64_t tr_place_off(uint64_t place)
{
    return place >> TR_PLACE_LEN_BITS & TR_PLACE_OFF_MAX;
}

static inline uint32_t tr_place_len(uint64_t place)
{
    return (uint32_t)(place & TR_PLACE_LEN_MAX);
}

/* Bytes of the record there before its body, which is its last. */
static inline uint16_t tr_place_head(uint64_t place, size_t body_len)
{
    TR_CHECK(body_len < tr_place_len(place));
    return (uint16_t)(tr_place_len(place) - body_len);
}

#endif
