#ifndef TR_ENGINE_EXTRA_H
#define TR_ENGINE_EXTRA_H

/*
 * What only some jobs have: the key. One block of memory behind one pointer, none for all others.
 *
 * Whole records say it (PUSH, MOVE, RELOG); no ALTER does, so it is never part of a checkpoint and
 * the newest whole record of a job is right, altered or not.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of a record that are kept here. */
#define TR_EXTRA_FIELDS TR_FIELD(KEY)

struct tr_extra {
    uint8_t key_len; /* 0: none */
    uint8_t key[];
};

/* *x: what the record has of it; NULL: nothing. TARRY_ENOMEM. */
TR_MUST_USE int tr_extra_new(struct tr_mem *mem, const struct tr_record *rec, struct tr_extra **x);

void tr_extra_free(struct tr_mem *mem, struct tr_extra *x); /* NULL is fine, here and below */

/* Adds it to a record, which borrows the bytes. */
void tr_extra_describe(const struct tr_extra *x, struct tr_record *rec);

/* The same from another record. */
void tr_extra_copy(const struct tr_record *from, struct tr_record *rec);

/* Its length is 0 when there is none. */
struct tr_bytes tr_extra_key(const struct tr_extra *x);

bool tr_bytes_same(struct tr_bytes a, struct tr_bytes b);

#endif
