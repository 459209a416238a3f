#ifndef TR_ENGINE_EXTRA_H
#define TR_ENGINE_EXTRA_H

/*
 * What only some jobs have: key, tag, ttl, retries, backoff. One block of memory behind one
 * pointer, none for all others.
 *
 * Key, retries and backoff are fixed: only whole records say them (PUSH, MOVE, RELOG), so they are
 * never part of a checkpoint, and the newest whole record of a job is right, altered or not. Tag
 * and ttl may change by an ALTER; what has such a block has both in its row of the checkpoint.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/record.h"
#include "rules/backoff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of a record that are kept here. */
#define TR_EXTRA_FIXED (TR_FIELD(KEY) | TR_FIELD(RETRIES) | TR_FIELD(BACKOFF))
#define TR_EXTRA_ALTERED (TR_FIELD(TTL) | TR_FIELD(TAG))
#define TR_EXTRA_FIELDS (TR_EXTRA_FIXED | TR_EXTRA_ALTERED)

enum { TR_EXTRA_ROW = 11 }; /* bytes of a row, at most, and the tag's own */

struct tr_extra {
    uint64_t ttl_us; /* 0: none */
    int64_t retries;
    bool has_retries;            /* else the default */
    uint8_t key_len;             /* 0: none */
    uint8_t tag_len;             /* the same */
    uint16_t backoff_len;        /* as bytes; 0: the default; else it stands behind this struct, */
    struct tr_backoff backoff[]; /* cut short, then the bytes of key, tag and backoff */
};

/* *x: what the record has of it; NULL: nothing. TARRY_ENOMEM, TARRY_EDAMAGED. */
TR_MUST_USE int tr_extra_new(struct tr_mem *mem, const struct tr_record *rec, struct tr_extra **x);

/* The same for a block in which an ALTER has changed something; NULL only if the old one was. */
TR_MUST_USE int tr_extra_alter(struct tr_mem *mem, const struct tr_extra *old,
                               const struct tr_record *rec, struct tr_extra **x);

void tr_extra_free(struct tr_mem *mem, struct tr_extra *x); /* NULL is fine, here and below */

/* Adds it to a whole record, or to one of changes, which borrows the bytes. */
void tr_extra_describe(const struct tr_extra *x, struct tr_record *rec);
void tr_extra_describe_changes(const struct tr_extra *x, struct tr_record *rec);

/* These of rec, a whole record, are as in `from` from now on, there or not. */
void tr_extra_copy(const struct tr_record *from, struct tr_record *rec, uint64_t fields);

/* Is it what the whole record says? */
bool tr_extra_is(const struct tr_extra *x, const struct tr_record *rec);

/* Their length is 0 when there is none. */
struct tr_bytes tr_extra_key(const struct tr_extra *x);
struct tr_bytes tr_extra_tag(const struct tr_extra *x);
struct tr_bytes tr_extra_backoff_bytes(const struct tr_extra *x);

/* Its own, or NULL; not to be copied as a whole (tr_backoff_size). */
const struct tr_backoff *tr_extra_backoff(const struct tr_extra *x);

bool tr_bytes_same(struct tr_bytes a, struct tr_bytes b);

#endif
