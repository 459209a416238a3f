/*
 * Zones by name. A file of the tz database has a few kilobytes and a store a handful of zones, so
 * they stand in a list. One that could not be read is asked for again by the next who wants it.
 */

#include "rules/atlas.h"

#include "base/err.h"

#include <stdint.h>
#include <string.h>

struct page {
    struct tr_list link;
    struct tr_zone is;
    size_t name_len;
    size_t len;
    uint8_t bytes[]; /* of its file, then its name */
};

void tr_atlas_init(struct tr_atlas *a, struct tr_mem *mem, tr_zone_file_fn *read, void *read_ctx)
{
    *a = (struct tr_atlas){.mem = mem, .read = read, .read_ctx = read_ctx};
    tr_list_init(&a->zones);
}

void tr_atlas_fini(struct tr_atlas *a)
{
    while (a->mem != NULL && !tr_list_empty(&a->zones)) {
        struct page *p = TR_CONTAINER_OF(a->zones.next, struct page, link);

        tr_list_remove(&p->link);
        tr_mem_free(a->mem, p, sizeof *p + p->len + p->name_len);
    }
}

static const struct page *find(const struct tr_atlas *a, const char *name, size_t len)
{
    for (const struct tr_list *n = a->zones.next; n != &a->zones; n = n->next) {
        const struct page *p = TR_CONTAINER_OF(n, struct page, link);

        if (p->name_len == len && memcmp(p->bytes + p->len, name, len) == 0) {
            return p;
        }
    }
    return NULL;
}

static int read_page(struct tr_atlas *a, const char *name, size_t len, struct tr_zone_file *file)
{
    struct page *p;
    struct tr_zone is;
    int err = a->read != NULL ? a->read(a->read_ctx, name, len, file) : TARRY_ENOTFOUND;

    if (err == TARRY_OK) {
        err = tr_zone_read(file->at, file->len, &is) == TARRY_OK ? TARRY_OK : TARRY_ENOTFOUND;
    }
    if (err != TARRY_OK) {
        return err == TARRY_ENOMEM ? err : TARRY_ENOTFOUND;
    }
    p = tr_mem_alloc(a->mem, sizeof *p + file->len + len);
    if (p == NULL) {
        return TARRY_ENOMEM;
    }
    p->len = file->len;
    p->name_len = len;
    memcpy(p->bytes, file->at, file->len);
    memcpy(p->bytes + file->len, name, len);
    TR_CHECK(tr_zone_read(p->bytes, p->len, &p->is) == TARRY_OK);
    tr_list_append(&a->zones, &p->link);
    return TARRY_OK;
}

int tr_atlas_get(struct tr_atlas *a, const char *name, size_t len, const struct tr_zone **zone)
{
    static const struct tr_zone utc;
    const struct page *p = find(a, name, len);
    struct tr_zone_file file = {.size = TR_ZONE_BYTES_MAX};
    int err;

    *zone = NULL;
    if (len == 0 || tr_zone_is_utc(name, len)) {
        *zone = &utc;
        return TARRY_OK;
    }
    if (p == NULL) {
        file.at = tr_mem_alloc(a->mem, file.size);
        err = file.at != NULL ? read_page(a, name, len, &file) : TARRY_ENOMEM;
        tr_mem_free(a->mem, file.at, file.size);
        if (err != TARRY_OK) {
            return err;
        }
        p = find(a, name, len);
    }
    *zone = &p->is;
    return TARRY_OK;
}
