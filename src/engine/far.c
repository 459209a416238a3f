/*
 * The table of far jobs.
 *
 *     rid --pages--> page of 64 rids: bits 0110...1, then an entry for each bit that is set
 *
 * An entry is found by counting the bits before its own. A page is as long as it has entries, or
 * a little longer, so that many that died leave little behind.
 *
 * Cost: 24 bytes a job, and about 1.5 for its page when neighbours are alive; a job alone in its
 * page costs 200. Put and take move at most 64 entries. Two allocations per 64 jobs, four
 * more while a page grows.
 *
 * Due times: a page keeps a bound, so that a search for what is due passes over most pages. The
 * bound is right from the start and gets loose when entries go; nobody minds.
 *
 * Ids. A job that was never moved has rid == id. The others have two entries in a table of 19 bytes
 * each (base/keymap.c): rid by id and id by rid. Its hashes are the numbers themselves, mixed so
 * that no two become one; two of the bits behind them tell the two kinds apart.
 *
 * Not done here: what is far (load.c), counts of topics and slots (state.c).
 */

#include "engine/far.h"

#include "base/bits.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct tr_far_entry) == 24, "what each far job of a slot costs");

enum { ROOM_MIN = 4 };

enum kind { BY_ID = 1, BY_RID };

void tr_far_init(struct tr_far *f, struct tr_mem *mem)
{
    *f = (struct tr_far){.mem = mem};
    tr_map_init(&f->pages, mem);
    tr_keymap_init(&f->moved, mem);
    tr_list_init(&f->all);
    tr_list_init(&f->walks);
}

static struct tr_far_page *page_of(const struct tr_list *link)
{
    return TR_CONTAINER_OF(link, struct tr_far_page, link);
}

static void page_free(const struct tr_far *f, struct tr_far_page *page)
{
    tr_list_remove(&page->link);
    tr_mem_free(f->mem, page->entries, page->room * sizeof *page->entries);
    tr_mem_free(f->mem, page, sizeof *page);
}

void tr_far_fini(struct tr_far *f)
{
    if (f->mem == NULL) {
        return;
    }
    while (!tr_list_empty(&f->all)) {
        page_free(f, page_of(f->all.next));
    }
    tr_map_fini(&f->pages);
    tr_keymap_fini(&f->moved);
    *f = (struct tr_far){0};
}

static uint64_t bit_of(uint64_t rid)
{
    return UINT64_C(1) << (rid % TR_FAR_PAGE);
}

/* How many of the page come before this bit. */
static unsigned place_of(const struct tr_far_page *page, uint64_t bit)
{
    return tr_ones(page->bits & (bit - 1));
}

static struct tr_far_page *find_page(const struct tr_far *f, uint64_t rid)
{
    return tr_map_find(&f->pages, rid / TR_FAR_PAGE);
}

/* ---- pages ---- */

static int page_resize(const struct tr_far *f, struct tr_far_page *page, unsigned room)
{
    struct tr_far_entry *entries =
        tr_mem_resize(f->mem, page->entries, page->room * sizeof *entries, room * sizeof *entries);

    if (entries == NULL) {
        return TARRY_ENOMEM;
    }
    page->entries = entries;
    page->room = room;
    return TARRY_OK;
}

static struct tr_far_page *page_new(struct tr_far *f, uint64_t rid)
{
    struct tr_far_page *page = tr_mem_alloc(f->mem, sizeof *page);

    if (page == NULL) {
        return NULL;
    }
    page->first = rid / TR_FAR_PAGE * TR_FAR_PAGE;
    page->due_us = UINT64_MAX;
    tr_list_init(&page->link);
    if (page_resize(f, page, ROOM_MIN) != TARRY_OK ||
        tr_map_put(&f->pages, rid / TR_FAR_PAGE, page) != TARRY_OK) {
        page_free(f, page);
        return NULL;
    }
    tr_list_append(&f->all, &page->link);
    return page;
}

/* Nobody is in it any more: walks go on behind it. */
static void page_drop(struct tr_far *f, struct tr_far_page *page)
{
    for (struct tr_list *n = f->walks.next; n != &f->walks; n = n->next) {
        struct tr_far_walk *w = TR_CONTAINER_OF(n, struct tr_far_walk, link);

        if (w->next == &page->link) {
            w->next = page->link.next;
        }
    }
    TR_CHECK(tr_map_take(&f->pages, page->first / TR_FAR_PAGE) == page);
    page_free(f, page);
}

uint64_t tr_far_page_rid(const struct tr_far_page *page, unsigned i)
{
    uint64_t bits = page->bits;

    while (i-- > 0) {
        bits &= bits - 1;
    }
    return page->first + (uint64_t)__builtin_ctzll(bits);
}

/* ---- entries ---- */

int tr_far_put(struct tr_far *f, uint64_t rid, uint64_t id, const struct tr_far_entry *entry)
{
    struct tr_far_page *page = find_page(f, rid);
    uint64_t bit = bit_of(rid);
    unsigned at;
    int err;

    page = page != NULL ? page : page_new(f, rid);
    if (page == NULL) {
        return TARRY_ENOMEM;
    }
    TR_CHECK((page->bits & bit) == 0);
    if (page->count == page->room && page_resize(f, page, page->room * 2) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    err = id != rid ? tr_far_note_moved(f, rid, id) : TARRY_OK;
    if (err != TARRY_OK) {
        if (page->count == 0) {
            page_drop(f, page);
        }
        return err;
    }
    at = place_of(page, bit);
    memmove(page->entries + at + 1, page->entries + at,
            (page->count - at) * sizeof page->entries[0]);
    page->entries[at] = *entry;
    page->bits |= bit;
    page->count++;
    page->due_us = entry->due_us < page->due_us ? entry->due_us : page->due_us;
    f->count++;
    f->located += entry->located;
    return TARRY_OK;
}

struct tr_far_entry *tr_far_find(const struct tr_far *f, uint64_t rid)
{
    struct tr_far_page *page = find_page(f, rid);
    uint64_t bit = bit_of(rid);

    return page != NULL && (page->bits & bit) != 0 ? &page->entries[place_of(page, bit)] : NULL;
}

void tr_far_soon(const struct tr_far *f, uint64_t rid, unsigned step)
{
    const struct tr_far_page *page;

    if (step == 0) {
        tr_map_soon(&f->pages, rid / TR_FAR_PAGE);
        return;
    }
    page = find_page(f, rid);
    if (page != NULL) {
        __builtin_prefetch(step == 1 ? (const void *)page
                                     : &page->entries[place_of(page, bit_of(rid))]);
    }
}

/* Takes the entry out of its page. */
static bool take_entry(struct tr_far *f, uint64_t rid, struct tr_far_entry *entry)
{
    struct tr_far_page *page = find_page(f, rid);
    uint64_t bit = bit_of(rid);
    unsigned at;

    if (page == NULL || (page->bits & bit) == 0) {
        return false;
    }
    at = place_of(page, bit);
    *entry = page->entries[at];
    page->bits &= ~bit;
    page->count--;
    memmove(page->entries + at, page->entries + at + 1,
            (page->count - at) * sizeof page->entries[0]);
    f->count--;
    f->located -= entry->located;
    if (page->count == 0) {
        page_drop(f, page);
    } else if (page->room > ROOM_MIN && page->count <= page->room / 4) {
        (void)page_resize(f, page, page->room / 2); /* if it cannot shrink, it stays as it is */
    }
    return true;
}

bool tr_far_take(struct tr_far *f, uint64_t rid, struct tr_far_entry *entry)
{
    if (!take_entry(f, rid, entry)) {
        return false;
    }
    tr_far_forget_moved(f, rid);
    return true;
}

bool tr_far_unlocate(struct tr_far *f, uint64_t rid)
{
    struct tr_far_entry entry;

    return take_entry(f, rid, &entry);
}

/* ---- those that were moved ---- */

/* Each step can be undone, so no two numbers become one. */
static struct tr_siphash mix(uint64_t number, enum kind kind)
{
    number = (number ^ number >> 33) * UINT64_C(0xff51afd7ed558ccd);
    number = (number ^ number >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (struct tr_siphash){.high = number ^ number >> 33, .low = (uint64_t)kind << 48};
}

int tr_far_note_moved(struct tr_far *f, uint64_t rid, uint64_t id)
{
    if (tr_far_moved_rid(f, id) == rid) {
        return TARRY_OK;
    }
    if (id == 0 || id >= TR_KEYMAP_RID_END || rid == 0 || rid >= TR_KEYMAP_RID_END ||
        tr_far_moved_id(f, rid) != 0) {
        return TARRY_EDAMAGED;
    }
    tr_far_forget_moved(f, tr_far_moved_rid(f, id)); /* the newer one counts */
    if (tr_keymap_make(&f->moved, mix(id, BY_ID)) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    tr_keymap_put(&f->moved, mix(id, BY_ID), rid);
    if (tr_keymap_make(&f->moved, mix(rid, BY_RID)) != TARRY_OK) {
        TR_CHECK(tr_keymap_take(&f->moved, mix(id, BY_ID), rid));
        return TARRY_ENOMEM;
    }
    tr_keymap_put(&f->moved, mix(rid, BY_RID), id);
    return TARRY_OK;
}

void tr_far_forget_moved(struct tr_far *f, uint64_t rid)
{
    uint64_t id = tr_far_moved_id(f, rid);

    if (id != 0) {
        TR_CHECK(tr_keymap_take(&f->moved, mix(rid, BY_RID), id));
        TR_CHECK(tr_keymap_take(&f->moved, mix(id, BY_ID), rid));
    }
}

uint64_t tr_far_moved_rid(const struct tr_far *f, uint64_t id)
{
    return tr_keymap_find(&f->moved, mix(id, BY_ID), 0);
}

uint64_t tr_far_moved_id(const struct tr_far *f, uint64_t rid)
{
    return tr_keymap_find(&f->moved, mix(rid, BY_RID), 0);
}

uint64_t tr_far_rid(const struct tr_far *f, uint64_t id)
{
    uint64_t rid = tr_far_moved_rid(f, id);

    if (rid == 0 && tr_far_moved_id(f, id) == 0) {
        rid = id;
    }
    return rid != 0 && tr_far_find(f, rid) != NULL ? rid : 0;
}

uint64_t tr_far_id(const struct tr_far *f, uint64_t rid)
{
    uint64_t id = tr_far_moved_id(f, rid);

    return tr_far_find(f, rid) == NULL ? 0 : id != 0 ? id : rid;
}

/* ---- walks ---- */

void tr_far_walk_begin(struct tr_far *f, struct tr_far_walk *w)
{
    w->next = f->all.next;
    tr_list_init(&w->link);
    tr_list_append(&f->walks, &w->link);
}

bool tr_far_walking(const struct tr_far_walk *w)
{
    return w->link.next != NULL && !tr_list_empty(&w->link);
}

struct tr_far_page *tr_far_walk_page(const struct tr_far *f, const struct tr_far_walk *w)
{
    return w->next != &f->all ? page_of(w->next) : NULL;
}

void tr_far_walk_on(const struct tr_far *f, struct tr_far_walk *w)
{
    TR_CHECK(w->next != &f->all);
    w->next = w->next->next;
}

void tr_far_walk_end(struct tr_far_walk *w)
{
    if (tr_far_walking(w)) {
        tr_list_remove(&w->link);
    }
}

/* ---- checks ---- */

bool tr_far_ok(const struct tr_far *f)
{
    uint64_t count = 0;
    bool ok = true;

    for (const struct tr_list *n = f->all.next; n != &f->all; n = n->next) {
        const struct tr_far_page *page = page_of(n);

        ok = ok && page->count > 0 && page->count <= page->room &&
             page->count == tr_ones(page->bits) && find_page(f, page->first) == page;
        for (unsigned i = 0; i < page->count; i++) {
            ok = ok && page->entries[i].due_us >= page->due_us;
        }
        count += page->count;
    }
    return ok && count == f->count && tr_keymap_ok(&f->moved);
}
