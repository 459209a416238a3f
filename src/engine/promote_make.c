/*
 * The calculations of a promotion: sorting, filling buffers with blocks of a run or pages of a
 * sidecar. They run away from the loop (TR_IO_CALL) and touch nothing but the promotion and what it
 * has copied or read.
 */

#include "engine/promote.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/extra.h"

enum { AHEAD = 8, LINE = 64 };

static bool comes_first(const struct tr_chosen *a, const struct tr_chosen *b)
{
    if (a->dead != b->dead) {
        return b->dead;
    }
    return a->order[0] != b->order[0] ? a->order[0] < b->order[0] : a->order[1] < b->order[1];
}

static void merge(const struct tr_chosen *from, struct tr_chosen *to, size_t mid, size_t end)
{
    size_t a = 0;
    size_t b = mid;

    for (size_t i = 0; i < end; i++) {
        bool second = a == mid || (b < end && comes_first(&from[b], &from[a]));

        to[i] = from[second ? b++ : a++];
    }
}

static void sort(struct tr_promote *p)
{
    for (size_t width = 1; width < p->count; width *= 2) {
        struct tr_chosen *sorted = p->scratch;

        for (size_t i = 0; i < p->count; i += 2 * width) {
            size_t left = p->count - i;

            merge(p->chosen + i, p->scratch + i, left < width ? left : width,
                  left < 2 * width ? left : 2 * width);
        }
        p->scratch = p->chosen;
        p->chosen = sorted;
    }
    p->dead_from = 0;
    while (p->dead_from < p->count && !p->chosen[p->dead_from].dead) {
        p->dead_from++;
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

    if ((uint64_t)c->off + c->len > (single ? p->single_bytes : p->slot_bytes) ||
        !tr_record_good(bytes, c->len, c->rid)) {
        return TARRY_EDAMAGED;
    }
    err = tr_record_decode_known(bytes, c->len, c->rid, c->order[0], rec);
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

/* The record that will be read some records later: they come by due time, so each of them would be
 * waited for. */
static const uint8_t *soon(const struct tr_promote *p)
{
    const struct tr_chosen *c =
        &p->chosen[p->run_end - p->next > AHEAD ? p->next + AHEAD : p->next];
    bool good = c->slot < p->slot_count && (uint64_t)c->off + c->len <= p->slot_bytes;

    return good ? p->bytes[c->slot] + c->off : p->buf;
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
        struct tr_chosen *c = &p->chosen[p->next];
        const uint8_t *next = soon(p);

        __builtin_prefetch(next);
        __builtin_prefetch(next + LINE);
        __builtin_prefetch(next + 2 * LINE);
        c->bad = (p->next > 0 && c->rid == p->chosen[p->next - 1].rid) || /* it is there twice */
                 read_chosen(p, c, &rec) != TARRY_OK;
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
