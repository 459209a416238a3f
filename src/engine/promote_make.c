/*
 * The calculations of a promotion: sorting, filling buffers with blocks of a run or pages of a
 * sidecar. They run away from the loop (TR_IO_CALL) and touch nothing but the promotion and what it
 * has copied or read.
 */

#include "engine/promote.h"

#include "base/err.h"
#include "base/mutant.h"
#include "base/sort.h"
#include "engine/extra.h"

#include <assert.h>

enum { AHEAD = 8, LINE = 64 };

static_assert(2 * sizeof(struct tr_sort_item) <= sizeof(struct tr_side_job),
              "they are sorted there");

static uint64_t second_key(const struct tr_promote *p, const struct tr_chosen *c)
{
    return c->dead ? p->changes[c->change - 1].rec.dead.seq : c->rid;
}

/* The order of writing: live ones by (due, rid), then dead ones by (topic, dead_seq). The index is
 * not begun, so its memory is free for that. */
static void sort(struct tr_promote *p)
{
    struct tr_sort_item *items = (struct tr_sort_item *)(void *)p->side_jobs;
    struct tr_sort sort = {.items = items, .spare = items + p->count};
    size_t live = 0;
    size_t dead;

    p->dead_from = 0;
    p->longest = 0;
    for (size_t i = 0; i < p->count; i++) {
        p->dead_from += !p->chosen[i].dead;
        p->longest = p->chosen[i].len > p->longest ? p->chosen[i].len : p->longest;
    }
    dead = p->dead_from;
    for (size_t i = 0; i < p->count; i++) {
        const struct tr_chosen *c = &p->chosen[i];

        items[c->dead ? dead++ : live++] =
            (struct tr_sort_item){.key = second_key(p, c), .at = (uint32_t)i};
    }
    tr_sort(&sort, 0, p->dead_from);
    tr_sort(&sort, p->dead_from, p->count);
    for (size_t i = 0; i < p->count; i++) {
        __builtin_prefetch(&p->chosen[sort.items[i + AHEAD < p->count ? i + AHEAD : i].at]);
        sort.items[i].key = p->chosen[sort.items[i].at].first;
    }
    tr_sort(&sort, 0, p->dead_from);
    tr_sort(&sort, p->dead_from, p->count);
    for (size_t i = 0; i < p->count; i++) {
        p->order[i] = sort.items[i].at;
    }
}

void tr_promote_sort(void *ctx)
{
    sort(ctx);
}

struct tr_record tr_promote_change(const struct tr_promote *p, const struct tr_chosen *c)
{
    struct tr_change_of *change = &p->changes[c->change - 1];
    struct tr_record rec = change->rec;

    rec.tag.at = change->tag;
    return rec;
}

/* The record as it is to be in the run. */
static int read_chosen(const struct tr_promote *p, const struct tr_chosen *c, struct tr_record *rec)
{
    bool single = c->slot >= p->slot_count;
    const uint8_t *bytes = (single ? p->singles : p->bytes[c->slot]) + c->off;
    struct tr_record was;
    int err;

    if ((uint64_t)c->off + c->len > (single ? p->single_bytes : p->slot_bytes)) {
        return TARRY_EDAMAGED;
    }
    err = tr_record_decode_known(bytes, c->len, c->rid, c->first, rec);
    rec->mask &= ~TR_FIELD(OLD);
    if (err == TARRY_OK && c->change != 0) { /* but for what no change can change */
        was = *rec;
        *rec = tr_promote_change(p, c);
        rec->body = was.body;
        tr_extra_copy(&was, rec, TR_MUTANT(TAG_NOT_IN_RUN) ? TR_EXTRA_FIELDS : TR_EXTRA_FIXED);
    }
    rec->type = TR_REC_RELOG;
    return err;
}

struct tr_side_job tr_promote_index(const struct tr_keyer *keyer, const struct tr_record *rec,
                                    uint64_t place)
{
    struct tr_side_job job = {
        .rid = rec->rid,
        .id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid,
        .due_us = rec->due_us,
        .dead_seq = rec->mask & TR_FIELD(DEAD) ? rec->dead.seq : 0,
        .place = place,
        .head = tr_place_head(place, rec->body.len),
        .topic = rec->topic,
        .cell = rec->flags & TR_RF_CELL,
    };
    if (rec->key.len != 0 && !TR_MUTANT(KEY_NOT_PROMOTED)) {
        struct tr_siphash hash = tr_keyer_hash(keyer, rec->topic, rec->key);

        job.keyed = true;
        job.key_hi = hash.high;
        job.key_lo = (uint16_t)(hash.low >> 48);
    }
    return job;
}

void tr_promote_note(struct tr_promote *p, const struct tr_record *rec, uint64_t place)
{
    struct tr_side_job *job = &p->side_jobs[p->side_count++];

    *job = tr_promote_index(&p->keyer, rec, place);
    p->keyed_count += job->keyed;
}

/* The chosen one that will be written so many later, or the last one. */
static const struct tr_chosen *later(const struct tr_promote *p, size_t n)
{
    return &p->chosen[p->order[p->next + n < p->run_end ? p->next + n : p->run_end - 1]];
}

/* The record that will be read some records later: they come by due time, so each of them would be
 * waited for. */
static const uint8_t *soon(const struct tr_promote *p)
{
    const struct tr_chosen *c = later(p, AHEAD);
    bool good = c->slot < p->slot_count && (uint64_t)c->off + c->len <= p->slot_bytes;

    return good ? p->bytes[c->slot] + c->off : p->buf;
}

/* Is the one before it the same job? */
static bool is_second(const struct tr_promote *p, const struct tr_chosen *c)
{
    return p->next > 0 && p->chosen[p->order[p->next - 1]].rid == c->rid;
}

/* Fills the buffer with blocks; at the end of the run its footer is the buffer's content. */
void tr_promote_fill(void *ctx)
{
    struct tr_promote *p = ctx;
    struct tr_record rec;
    uint64_t place;
    int err = TARRY_OK;

    tr_run_buffer(&p->writer, p->buf, p->buf_room);
    while (p->next < p->run_end && err == TARRY_OK) {
        struct tr_chosen *c = &p->chosen[p->order[p->next]];
        const uint8_t *next = soon(p);

        __builtin_prefetch(later(p, 2 * (size_t)AHEAD));
        __builtin_prefetch(next);
        __builtin_prefetch(next + LINE);
        __builtin_prefetch(next + 2 * LINE);
        c->bad = is_second(p, c) || read_chosen(p, c, &rec) != TARRY_OK;
        if (!c->bad) {
            err = tr_run_add(&p->writer, &rec, &place);
        }
        if (!c->bad && err == TARRY_OK) {
            tr_promote_note(p, &rec, place);
            c->off = (uint32_t)tr_place_off(place); /* where it will be */
            c->len = tr_place_len(place);
        }
        p->next += err == TARRY_OK;
    }
    if (err == TARRY_OK && p->writer.stat.jobs != 0) {
        err = tr_run_end(&p->writer);
    }
    p->failed = err == TARRY_EFULL && !tr_run_full(&p->writer) ? TARRY_OK : err;
    p->buf_len = tr_run_ready(&p->writer);
    p->buf_done = 0;
    if (p->failed == TARRY_OK && p->buf_len == 0 && p->next < p->run_end) {
        p->failed = TARRY_EFULL; /* one record is longer than the buffer */
    }
}

void tr_promote_build(void *ctx)
{
    struct tr_promote *p = ctx;

    tr_side_build_prepare(&p->build);
}

void tr_promote_pages(void *ctx)
{
    struct tr_promote *p = ctx;
    uint32_t pages = tr_side_build_pages(&p->build, p->buf, (uint32_t)(p->buf_room / TR_SIDE_PAGE));

    p->buf_len = (size_t)pages * TR_SIDE_PAGE;
    p->buf_done = 0;
}
