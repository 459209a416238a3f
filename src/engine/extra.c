/*
 * The block is as long as its key, and a byte. When tag, ttl, retries and backoff come, they go
 * here, and a record that changes one of them brings a new block.
 */

#include "engine/extra.h"

#include "base/err.h"

#include <string.h>

int tr_extra_new(struct tr_mem *mem, const struct tr_record *rec, struct tr_extra **x)
{
    *x = NULL;
    if ((rec->mask & TR_EXTRA_FIELDS) == 0 || rec->key.len == 0) {
        return TARRY_OK;
    }
    TR_CHECK(rec->key.len <= TR_KEY_MAX);
    *x = tr_mem_alloc(mem, sizeof **x + rec->key.len);
    if (*x == NULL) {
        return TARRY_ENOMEM;
    }
    (*x)->key_len = (uint8_t)rec->key.len;
    memcpy((*x)->key, rec->key.at, rec->key.len);
    return TARRY_OK;
}

void tr_extra_free(struct tr_mem *mem, struct tr_extra *x)
{
    if (x != NULL) {
        tr_mem_free(mem, x, sizeof *x + x->key_len);
    }
}

void tr_extra_describe(const struct tr_extra *x, struct tr_record *rec)
{
    if (x != NULL && x->key_len != 0) {
        rec->mask |= TR_FIELD(KEY);
        rec->key = tr_extra_key(x);
    }
}

void tr_extra_copy(const struct tr_record *from, struct tr_record *rec)
{
    rec->mask = (rec->mask & ~TR_EXTRA_FIELDS) | (from->mask & TR_EXTRA_FIELDS);
    rec->key = from->key;
}

struct tr_bytes tr_extra_key(const struct tr_extra *x)
{
    return x != NULL ? (struct tr_bytes){x->key, x->key_len} : (struct tr_bytes){0};
}

bool tr_bytes_same(struct tr_bytes a, struct tr_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
