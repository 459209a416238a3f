/*
 * The block:
 *
 *     struct tr_extra | struct tr_backoff, if it has one | key | tag | backoff as bytes
 *
 * The backoff is there twice: as it is used and shown (but for what is behind the end of its list),
 * and as records say it.
 *
 * A block is never changed: what changes brings a new one, which is made before anything else is
 * touched. One of which an ALTER has left nothing stays, empty: the job's record may say otherwise,
 * so its row must.
 */

#include "engine/extra.h"

#include "base/err.h"
#include "base/mutant.h"

#include <string.h>

static size_t fixed_size(const struct tr_extra *x, const struct tr_backoff *b)
{
    return sizeof *x + (x->backoff_len != 0 ? tr_backoff_size(b) : 0);
}

static size_t bytes_size(const struct tr_extra *x)
{
    return (size_t)x->key_len + x->tag_len + x->backoff_len;
}

static uint8_t *bytes_of(const struct tr_extra *x)
{
    return (uint8_t *)x + fixed_size(x, x->backoff);
}

static void put(uint8_t **at, struct tr_bytes b)
{
    if (b.len != 0) {
        memcpy(*at, b.at, b.len);
        *at += b.len;
    }
}

/* A block with all of rec that belongs here, perhaps nothing. */
static int make(struct tr_mem *mem, const struct tr_record *rec, struct tr_extra **out)
{
    struct tr_extra x = {.ttl_us = rec->ttl_us,
                         .retries = rec->retries,
                         .has_retries = (rec->mask & TR_FIELD(RETRIES)) != 0,
                         .key_len = (uint8_t)rec->key.len,
                         .tag_len = (uint8_t)rec->tag.len,
                         .backoff_len = (uint16_t)rec->backoff.len};
    struct tr_backoff backoff = {0};
    uint8_t *at;

    TR_CHECK(rec->key.len <= TR_KEY_MAX && rec->tag.len <= TR_TAG_MAX);
    if (x.backoff_len != 0 &&
        tr_backoff_decode(rec->backoff.at, rec->backoff.len, &backoff) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    *out = tr_mem_alloc(mem, fixed_size(&x, &backoff) + bytes_size(&x));
    if (*out == NULL) {
        return TARRY_ENOMEM;
    }
    **out = x;
    if (x.backoff_len != 0) {
        memcpy((*out)->backoff, &backoff, tr_backoff_size(&backoff));
    }
    at = bytes_of(*out);
    put(&at, rec->key);
    put(&at, rec->tag);
    put(&at, rec->backoff);
    return TARRY_OK;
}

static bool has_any(const struct tr_record *rec)
{
    return rec->key.len != 0 || rec->tag.len != 0 || rec->ttl_us != 0 || rec->backoff.len != 0 ||
           (rec->mask & TR_FIELD(RETRIES)) != 0;
}

int tr_extra_new(struct tr_mem *mem, const struct tr_record *rec, struct tr_extra **x)
{
    *x = NULL;
    return has_any(rec) ? make(mem, rec, x) : TARRY_OK;
}

int tr_extra_alter(struct tr_mem *mem, const struct tr_extra *old, const struct tr_record *rec,
                   struct tr_extra **x)
{
    struct tr_record whole = {0};

    tr_extra_describe(old, &whole);
    tr_extra_copy(rec, &whole, rec->mask & TR_EXTRA_ALTERED);
    *x = NULL;
    return old != NULL || has_any(&whole) ? make(mem, &whole, x) : TARRY_OK;
}

void tr_extra_free(struct tr_mem *mem, struct tr_extra *x)
{
    if (x != NULL) {
        tr_mem_free(mem, x, fixed_size(x, x->backoff) + bytes_size(x));
    }
}

void tr_extra_describe(const struct tr_extra *x, struct tr_record *rec)
{
    rec->mask &= ~TR_EXTRA_FIELDS;
    if (x == NULL) {
        return;
    }
    rec->key = tr_extra_key(x);
    rec->tag = tr_extra_tag(x);
    rec->backoff = tr_extra_backoff_bytes(x);
    rec->ttl_us = x->ttl_us;
    rec->retries = x->retries;
    rec->mask |= rec->key.len != 0 ? TR_FIELD(KEY) : 0;
    rec->mask |= rec->tag.len != 0 ? TR_FIELD(TAG) : 0;
    rec->mask |= rec->backoff.len != 0 ? TR_FIELD(BACKOFF) : 0;
    rec->mask |= x->ttl_us != 0 ? TR_FIELD(TTL) : 0;
    rec->mask |= x->has_retries ? TR_FIELD(RETRIES) : 0;
}

void tr_extra_describe_changes(const struct tr_extra *x, struct tr_record *rec)
{
    if (x != NULL && !TR_MUTANT(TAG_NOT_IN_ROW)) {
        rec->mask |= TR_EXTRA_ALTERED;
        rec->ttl_us = x->ttl_us;
        rec->tag = tr_extra_tag(x);
    }
}

void tr_extra_copy(const struct tr_record *from, struct tr_record *rec, uint64_t fields)
{
    if (fields & TR_FIELD(KEY)) {
        rec->key = from->key;
    }
    if (fields & TR_FIELD(TAG)) {
        rec->tag = from->tag;
    }
    if (fields & TR_FIELD(BACKOFF)) {
        rec->backoff = from->backoff;
    }
    if (fields & TR_FIELD(TTL)) {
        rec->ttl_us = from->ttl_us;
    }
    if (fields & TR_FIELD(RETRIES)) {
        rec->retries = from->retries;
        rec->mask = (rec->mask & ~TR_FIELD(RETRIES)) | (from->mask & TR_FIELD(RETRIES));
    }
    rec->mask &= ~(TR_EXTRA_FIELDS & ~TR_FIELD(RETRIES)); /* the others are there if they are not
                                                             empty */
    rec->mask |= rec->key.len != 0 ? TR_FIELD(KEY) : 0;
    rec->mask |= rec->tag.len != 0 ? TR_FIELD(TAG) : 0;
    rec->mask |= rec->backoff.len != 0 ? TR_FIELD(BACKOFF) : 0;
    rec->mask |= rec->ttl_us != 0 ? TR_FIELD(TTL) : 0;
}

bool tr_extra_is(const struct tr_extra *x, const struct tr_record *rec)
{
    bool has_retries = (rec->mask & TR_FIELD(RETRIES)) != 0;

    if (x == NULL) {
        return !has_any(rec);
    }
    return has_any(rec) && tr_bytes_same(tr_extra_key(x), rec->key) &&
           tr_bytes_same(tr_extra_tag(x), rec->tag) &&
           tr_bytes_same(tr_extra_backoff_bytes(x), rec->backoff) && x->ttl_us == rec->ttl_us &&
           x->has_retries == has_retries && (!has_retries || x->retries == rec->retries);
}

struct tr_bytes tr_extra_key(const struct tr_extra *x)
{
    return x != NULL ? (struct tr_bytes){bytes_of(x), x->key_len} : (struct tr_bytes){0};
}

struct tr_bytes tr_extra_tag(const struct tr_extra *x)
{
    return x != NULL ? (struct tr_bytes){bytes_of(x) + x->key_len, x->tag_len}
                     : (struct tr_bytes){0};
}

struct tr_bytes tr_extra_backoff_bytes(const struct tr_extra *x)
{
    return x != NULL ? (struct tr_bytes){bytes_of(x) + x->key_len + x->tag_len, x->backoff_len}
                     : (struct tr_bytes){0};
}

const struct tr_backoff *tr_extra_backoff(const struct tr_extra *x)
{
    return x != NULL && x->backoff_len != 0 ? &x->backoff[0] : NULL;
}

bool tr_bytes_same(struct tr_bytes a, struct tr_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
