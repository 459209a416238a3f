#ifndef TR_BASE_BYTES_H
#define TR_BASE_BYTES_H

/*
 * Numbers in byte arrays: the only way a number reaches a disk or a socket. Fixed ones are
 * little-endian; varints carry 7 bits a byte, low bits first; signed ones are zigzag first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_VARINT_MAX = 10 };

static inline void tr_put_le(uint8_t *p, uint64_t v, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static inline uint64_t tr_get_le(const uint8_t *p, unsigned size)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < size; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

static inline uint64_t tr_zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t tr_unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Writes v and gives the number of bytes, at most TR_VARINT_MAX. */
static inline size_t tr_put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;

    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

/* A place in bytes from outside. After the first read past the end everything reads as 0. */
struct tr_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad; /* a number did not fit, or the bytes ended too early */
};

static inline struct tr_reader tr_reader_of(const void *p, size_t len)
{
    return (struct tr_reader){.at = p, .end = (const uint8_t *)p + len};
}

static inline size_t tr_reader_left(const struct tr_reader *r)
{
    return (size_t)(r->end - r->at);
}

/* The next len bytes, or NULL. */
static inline const uint8_t *tr_read_bytes(struct tr_reader *r, uint64_t len)
{
    const uint8_t *p = r->at;

    if (r->bad || len > tr_reader_left(r)) {
        r->bad = true;
        return NULL;
    }
    r->at += len;
    return p;
}

static inline uint64_t tr_read_le(struct tr_reader *r, unsigned size)
{
    const uint8_t *p = tr_read_bytes(r, size);

    return p != NULL ? tr_get_le(p, size) : 0;
}

static inline uint64_t tr_read_varint(struct tr_reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = tr_read_bytes(r, 1);

        if (p == NULL || (shift == 63 && *p > 1)) {
            break;
        }
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (*p < 0x80) {
            return v;
        }
    }
    r->bad = true;
    return 0;
}

static inline int64_t tr_read_signed(struct tr_reader *r)
{
    return tr_unzigzag(tr_read_varint(r));
}

#endif
