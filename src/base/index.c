/*
 * Pages of 64 values, found by a hash map.
 *
 *     key / 64 --map--> page: values[key % 64]
 *
 * Keys that follow each other are in one page, so a run of new ones touches one line of memory
 * after the other instead of one anywhere for each; and the map is small enough to stay in the
 * cache. The newest page is remembered, so that new keys do not even ask the map.
 *
 * A page goes when its last value does. Worst case: one value in each page, 550 bytes a value.
 */

#include "base/index.h"

#include "base/err.h"

enum { PAGE = 64 };

struct tr_index_page {
    struct tr_list all;
    uint64_t number;
    unsigned used;
    void *values[PAGE];
};

void tr_index_init(struct tr_index *ix, struct tr_mem *mem)
{
    *ix = (struct tr_index){.mem = mem};
    tr_map_init(&ix->pages, mem);
    tr_list_init(&ix->all);
}

static void page_free(struct tr_index *ix, struct tr_index_page *page)
{
    if (ix->newest == page) {
        ix->newest = NULL;
    }
    tr_list_remove(&page->all);
    tr_mem_free(ix->mem, page, sizeof *page);
}

void tr_index_fini(struct tr_index *ix)
{
    if (ix->mem == NULL) {
        return;
    }
    while (!tr_list_empty(&ix->all)) {
        page_free(ix, TR_CONTAINER_OF(ix->all.next, struct tr_index_page, all));
    }
    tr_map_fini(&ix->pages);
    *ix = (struct tr_index){0};
}

static struct tr_index_page *page_of(const struct tr_index *ix, uint64_t key)
{
    uint64_t number = key / PAGE;

    if (ix->newest != NULL && ix->newest->number == number) {
        return ix->newest;
    }
    return tr_map_find(&ix->pages, number);
}

int tr_index_make(struct tr_index *ix, uint64_t key)
{
    struct tr_index_page *page = page_of(ix, key);

    if (page == NULL) {
        if (tr_map_reserve(&ix->pages, 1) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        page = tr_mem_alloc(ix->mem, sizeof *page);
        if (page == NULL) {
            return TARRY_ENOMEM;
        }
        page->number = key / PAGE;
        tr_list_append(&ix->all, &page->all);
        TR_CHECK(tr_map_put(&ix->pages, page->number, page) == TARRY_OK);
    }
    ix->newest = page;
    return TARRY_OK;
}

void tr_index_put(struct tr_index *ix, uint64_t key, void *value)
{
    struct tr_index_page *page = page_of(ix, key);

    TR_CHECK(page != NULL);
    TR_CHECK(value != NULL);
    TR_CHECK(page->values[key % PAGE] == NULL);
    page->values[key % PAGE] = value;
    page->used++;
    ix->count++;
}

void *tr_index_find(const struct tr_index *ix, uint64_t key)
{
    const struct tr_index_page *page = page_of(ix, key);

    return page != NULL ? page->values[key % PAGE] : NULL;
}

void *tr_index_take(struct tr_index *ix, uint64_t key)
{
    struct tr_index_page *page = page_of(ix, key);
    void *value = page != NULL ? page->values[key % PAGE] : NULL;

    if (value == NULL) {
        return NULL;
    }
    page->values[key % PAGE] = NULL;
    ix->count--;
    if (--page->used == 0) {
        TR_CHECK(tr_map_take(&ix->pages, page->number) == page);
        page_free(ix, page);
    }
    return value;
}

size_t tr_index_count(const struct tr_index *ix)
{
    return ix->count;
}

bool tr_index_ok(const struct tr_index *ix)
{
    size_t pages = 0;
    size_t count = 0;

    for (const struct tr_list *n = ix->all.next; n != &ix->all; n = n->next) {
        const struct tr_index_page *page = TR_CONTAINER_OF(n, struct tr_index_page, all);
        unsigned used = 0;

        for (unsigned i = 0; i < PAGE; i++) {
            used += page->values[i] != NULL;
        }
        if (used != page->used || tr_map_find(&ix->pages, page->number) != page) {
            return false;
        }
        count += used;
        pages++;
    }
    return count == ix->count && pages == tr_map_count(&ix->pages) && tr_map_ok(&ix->pages);
}
