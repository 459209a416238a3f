/*
 * The budget is a counter in front of malloc. Nothing is stored beside the bytes: the caller
 * knows how much it asked for and says so when it gives them back.
 *
 * Invariant: used_bytes is the sum of the sizes handed out and not given back; it is never above
 * limit_bytes unless that is 0.
 *
 * It follows that a leak, or a size given back wrongly, shows as used_bytes != 0 at the end.
 *
 * Cost: that of malloc. What the allocator adds to each piece is not counted; where pieces are
 * small and many, the caller makes slabs of them.
 */

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void tr_mem_init(struct tr_mem *m, uint64_t limit_bytes)
{
    *m = (struct tr_mem){.limit_bytes = limit_bytes};
}

/* Counts one request for `more` further bytes, and says whether it may be served. */
static bool admit(struct tr_mem *m, uint64_t more)
{
    m->calls++;
    if (m->fail_at != 0 && (m->calls == m->fail_at || (m->fail_on && m->calls > m->fail_at))) {
        return false;
    }
    return m->limit_bytes == 0 || more == 0 ||
           (m->used_bytes <= m->limit_bytes && more <= m->limit_bytes - m->used_bytes);
}

void *tr_mem_alloc(struct tr_mem *m, size_t size)
{
    void *p;

    TR_CHECK(size > 0);
    if (!admit(m, size)) {
        return NULL;
    }
    p = calloc(1, size);
    if (p != NULL) {
        m->used_bytes += size;
    }
    return p;
}

void *tr_mem_stretch(struct tr_mem *m, void *p, size_t old, size_t size)
{
    void *q;

    TR_CHECK(size > 0);
    TR_CHECK((p == NULL) == (old == 0));
    TR_CHECK(old <= m->used_bytes);
    if (!admit(m, size > old ? size - old : 0)) {
        return NULL;
    }
    q = realloc(p, size);
    if (q != NULL) {
        m->used_bytes = m->used_bytes - old + size;
    }
    return q;
}

void *tr_mem_resize(struct tr_mem *m, void *p, size_t old, size_t size)
{
    uint8_t *q = tr_mem_stretch(m, p, old, size);

    if (q != NULL && size > old) {
        memset(q + old, 0, size - old);
    }
    return q;
}

static bool leaves(const struct tr_mem *m, size_t size, uint64_t part, uint64_t most)
{
    uint64_t left = m->limit_bytes / part < most ? m->limit_bytes / part : most;

    return m->limit_bytes == 0 || m->used_bytes + size <= m->limit_bytes - left;
}

bool tr_mem_spare(const struct tr_mem *m, size_t size)
{
    return leaves(m, size, 4, UINT64_C(1) << 30);
}

bool tr_mem_room(const struct tr_mem *m, size_t size)
{
    return leaves(m, size, 8, UINT64_C(1) << 29);
}

void tr_mem_free(struct tr_mem *m, void *p, size_t size)
{
    if (p == NULL) {
        return;
    }
    TR_CHECK(size > 0);
    TR_CHECK(size <= m->used_bytes);
    m->used_bytes -= size;
    free(p);
}
