/*
 * What good pages of a damaged checkpoint say.
 *
 * Rows of L rise from page to page, so what a bad page may have had lies between what its
 * neighbours have: only of those rids it is not known who was alive. If the pages that are left
 * have as many live rids as the first page counts, nothing of L is missing. Topics and changes of a
 * bad page are missing without a word, as nobody knows what the page was.
 */

#include "base/bytes.h"
#include "base/err.h"
#include "engine/checkpoint.h"

enum { HEAD = 32, BLOCK_RIDS = 8192, BLOCK_BYTES = BLOCK_RIDS / 8, DENSE = 0xffff };

static bool page_good(const uint8_t *bytes, size_t i, uint64_t batch)
{
    return tr_checkpoint_check_page(bytes + i * TR_PAGE, i, batch) == TARRY_OK;
}

/* The first rid of the first row of a page of BITS, and where its last row ends. */
static uint64_t bits_from(const uint8_t *page)
{
    return tr_get_le(page + HEAD, 8) * BLOCK_RIDS;
}

static uint64_t bits_to(const uint8_t *page)
{
    struct tr_reader r = tr_reader_of(page + HEAD, tr_get_le(page + 12, 4) - HEAD);
    uint64_t number = 0;

    for (uint64_t rows = tr_get_le(page + 10, 2); rows > 0; rows--) {
        uint64_t n;

        number = tr_read_le(&r, 8);
        n = tr_read_le(&r, 2);
        (void)tr_read_bytes(&r, n == DENSE ? BLOCK_BYTES : n * 2);
    }
    return (number + 1) * BLOCK_RIDS;
}

/* Rows of L rise from page to page: what a bad page may have had lies between its neighbours. */
static void find_gap(const uint8_t *bytes, size_t pages, uint64_t batch,
                     struct tr_checkpoint_gap *gap)
{
    size_t first = 0;
    size_t last = pages;

    while (first < pages && page_good(bytes, first, batch)) {
        first++;
    }
    while (last > 0 && page_good(bytes, last - 1, batch)) {
        last--;
    }
    gap->any = first < last;
    gap->meta = pages == 0 || first == 0;
    gap->from = 0;
    gap->to = UINT64_MAX;
    for (size_t i = 0; i < pages; i++) {
        const uint8_t *page = bytes + i * TR_PAGE;

        if ((i >= first && i < last) || page[8] != TR_PAGE_BITS || tr_get_le(page + 10, 2) == 0) {
            continue;
        }
        if (i < first && bits_to(page) > gap->from) {
            gap->from = bits_to(page);
        }
        if (i >= last && bits_from(page) < gap->to) {
            gap->to = bits_from(page);
        }
    }
}

static int salvage_kind(const uint8_t *bytes, size_t pages, uint64_t batch, struct tr_state *s,
                        enum tr_page_kind kind)
{
    int err = TARRY_OK;

    for (size_t i = 0; i < pages && err == TARRY_OK; i++) {
        if (page_good(bytes, i, batch) && bytes[i * TR_PAGE + 8] == kind) {
            err = tr_checkpoint_load_page(bytes + i * TR_PAGE, s);
        }
    }
    return err;
}

int tr_checkpoint_salvage(const uint8_t *bytes, size_t pages, uint64_t batch, struct tr_state *s,
                          struct tr_checkpoint_gap *gap)
{
    const uint8_t *m = bytes + HEAD;
    int err = salvage_kind(bytes, pages, batch, s, TR_PAGE_TOPICS);

    if (err == TARRY_OK) {
        err = salvage_kind(bytes, pages, batch, s, TR_PAGE_POLICIES);
    }
    if (err == TARRY_OK) {
        err = salvage_kind(bytes, pages, batch, s, TR_PAGE_SCHEDULES);
    }
    if (err == TARRY_OK) {
        err = salvage_kind(bytes, pages, batch, s, TR_PAGE_BITS);
    }
    find_gap(bytes, pages, batch, gap);
    gap->bits = gap->any || pages == 0;
    if (!gap->meta) {
        uint32_t next_topic = (uint32_t)tr_get_le(m + TR_UUID + 20, 4);

        s->next_rid = tr_get_le(m + TR_UUID + 12, 8);
        s->clock_us = tr_get_le(m + TR_UUID + 40, 8);
        gap->bits = s->jobs.alive.members != tr_get_le(m + TR_UUID + 24, 8);
        if (next_topic > s->topics.next_number) {
            s->topics.next_number = next_topic;
        }
    }
    s->recount = true; /* all is counted anew */
    s->recells = true;
    s->redead = true;
    return err;
}

int tr_checkpoint_salvage_changes(const uint8_t *bytes, size_t pages, uint64_t batch,
                                  struct tr_state *s)
{
    return salvage_kind(bytes, pages, batch, s, TR_PAGE_CHANGES);
}
