/*
 * Checkpoint pages from a hostile disk.
 *
 *     0  u8   bit 0: the pages get right heads and crcs; bit 1: and so do the records in them
 *             bit 2: a job with rid 5 has been met before the changes are loaded
 *     1       pages: u8 kind, u8 rows, u16 length, so many bytes of rows
 *
 * Loading must give an error or a state that holds together.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES_MAX = 8, HEAD = 32, BATCH = 12, META = 0, TOPICS = 1, CHANGES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Gives each record in [p, p + len) a right crc; a varint follows each in a page of topics. */
static void repair_records(uint8_t *p, size_t len, unsigned kind)
{
    size_t at = 0;

    while (at + 8 <= len) {
        struct tr_reader r = tr_reader_of(p + at + 4, len - at - 4);
        uint64_t rest = tr_read_varint(&r);
        size_t head = len - at - 4 - tr_reader_left(&r);

        if (r.bad || rest == 0 || rest > tr_reader_left(&r)) {
            return;
        }
        size_t all = 4 + head + (size_t)rest;
        struct tr_reader body = tr_reader_of(r.at, (size_t)rest);
        uint64_t rid = 0;

        if (kind == CHANGES) {
            (void)tr_read_le(&body, 1);
            (void)tr_read_varint(&body);
            rid = tr_read_varint(&body);
            rid = rid >> 1 ^ (0 - (rid & 1));
        }
        tr_put_le(p + at, tr_crc(tr_crc_seed(rid), p + at + 4, all - 4), 4);
        at += all;
        if (kind == TOPICS) {
            struct tr_reader tail = tr_reader_of(p + at, len - at);

            (void)tr_read_varint(&tail);
            (void)tr_read_varint(&tail);
            at = len - tr_reader_left(&tail);
        }
    }
}

static size_t lay_out(uint8_t *pages, const uint8_t *data, size_t size, unsigned flags)
{
    size_t count = 0;

    while (size >= 4 && count < PAGES_MAX) {
        uint8_t *page = pages + count * TR_PAGE;
        size_t len = (size_t)tr_get_le(data + 2, 2);

        len = len > size - 4 ? size - 4 : len;
        len = len > TR_PAGE - HEAD ? (size_t)TR_PAGE - HEAD : len;
        memset(page, 0, TR_PAGE);
        tr_put_le(page, 0x706b6374, 4);
        page[8] = data[0];
        page[9] = TR_FORMAT_VERSION;
        page[10] = data[1];
        tr_put_le(page + 12, HEAD + len, 4);
        tr_put_le(page + 16, count, 4);
        tr_put_le(page + 24, BATCH, 8);
        memcpy(page + HEAD, data + 4, len);
        if ((flags & 2) != 0 && (page[8] == TOPICS || page[8] == CHANGES)) {
            repair_records(page + HEAD, len, page[8]);
        }
        if ((flags & 1) != 0) {
            tr_put_le(page + 4, tr_crc(0, page + 8, TR_PAGE - 8), 4);
        }
        data += 4 + len;
        size -= 4 + len;
        count++;
    }
    return count;
}

static void meet(struct tr_state *s)
{
    struct tr_topic *t = tr_topics_after(&s->topics, 0);
    struct tr_record rec = {.type = TR_REC_RELOG,
                            .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(TTR),
                            .rid = 5,
                            .due_us = 1,
                            .topic = t != NULL ? t->number : 1,
                            .ttr_us = 1};
    struct tr_job *job;

    (void)!tr_state_meet(s, &rec, &job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t pages[PAGES_MAX * TR_PAGE];
    static const uint8_t uuid[TR_UUID] = "the store itself";
    struct tr_mem mem;
    struct tr_state s;
    struct tr_pages again = {0};
    size_t count;
    size_t bad;

    if (size < 1) {
        return 0;
    }
    count = lay_out(pages, data + 1, size - 1, data[0]);
    if (count == 0 || tr_checkpoint_check(pages, count, BATCH, &bad) != TARRY_OK) {
        return 0;
    }
    (void)tr_checkpoint_pages(pages, uuid, BATCH);
    tr_mem_init(&mem, 64 << 20);
    tr_state_init(&s, &mem);
    if (tr_checkpoint_load(pages, count, &s) == TARRY_OK) {
        s.replaying = true;
        if ((data[0] & 4) != 0) {
            meet(&s);
        }
        if (tr_checkpoint_load_changes(pages, count, &s) == TARRY_OK) {
            s.replaying = false;
            if (s.jobs.alive.members == s.jobs.count && !tr_state_ok(&s)) {
                abort();
            }
            (void)!tr_checkpoint_freeze(&again, &s, uuid, BATCH);
        }
    }
    tr_pages_fini(&again);
    tr_state_fini(&s);
    if (mem.used_bytes != 0) {
        abort();
    }
    return 0;
}
