/*
 * The calculations of a merge: several runs become one, in their common order.
 *
 *     stream   a run of one group, read some blocks at a time
 *              | ... done | block in hand: record, record, ... | blocks that were read | on disk
 * ... fill     of the records that the streams have next the least is copied, if it was alive when
 *              it was looked at; when a stream has nothing left, more of it is read
 *
 * They run away from the loop (TR_IO_CALL) and touch nothing but the merge, the footers of its
 * inputs, which do not change, and what was read.
 *
 * A block that cannot be read is passed over: perhaps nothing in it is alive. If something was, it
 * is missing at the end, and the merge is given up (merge.c).
 */

#include "base/err.h"
#include "engine/promote.h"

/* The next record of a stream. TARRY_ENOTFOUND: it has ended; TARRY_EFULL: more must be read. */
static int advance(struct tr_stream *s)
{
    while (s->block < s->footer->block_count) {
        struct tr_run_block_stat stat;
        int err = TARRY_OK;

        if (!s->open) {
            if (s->block >= s->block_end) {
                return TARRY_EFULL;
            }
            stat = tr_run_footer_block(s->footer, s->block);
            err = s->failed ? TARRY_EIO
                            : tr_run_block(s->footer, s->block, s->buf + (stat.off - s->off),
                                           &s->records);
            s->open = err == TARRY_OK;
        }
        if (err == TARRY_OK) {
            err = tr_run_next(&s->records, &s->rec, &s->place);
        }
        if (err == TARRY_OK) {
            return TARRY_OK;
        }
        if (err != TARRY_ENOTFOUND && !s->direct) { /* once more, around the cache */
            s->direct = true;
            s->open = false;
            s->block_end = s->block;
            return TARRY_EFULL;
        }
        s->direct = false;
        s->open = false;
        s->block++;
    }
    return TARRY_ENOTFOUND;
}

static bool comes_first(const struct tr_record *a, const struct tr_record *b, bool dead)
{
    uint64_t a0 = dead ? a->topic : a->due_us;
    uint64_t b0 = dead ? b->topic : b->due_us;

    if (a0 != b0) {
        return a0 < b0;
    }
    return dead ? a->dead.seq < b->dead.seq : a->rid < b->rid;
}

/* The stream whose record is next, or NULL: none, or `hungry` must be fed first. */
static struct tr_stream *least(struct tr_promote *p)
{
    struct tr_stream *best = NULL;

    for (unsigned i = 0; i < p->input_count; i++) {
        struct tr_stream *s = &p->streams[i];

        if (!s->has && !s->ended) {
            int err = advance(s);

            s->has = err == TARRY_OK;
            s->ended = err == TARRY_ENOTFOUND;
            if (err == TARRY_EFULL) {
                p->hungry = s;
                return NULL;
            }
        }
        if (s->has && (best == NULL || comes_first(&s->rec, &best->rec, p->run == TR_GROUP_DEAD))) {
            best = s;
        }
    }
    return best;
}

/* Copies it, if it was alive and is not there yet. */
static int copy(struct tr_promote *p, const struct tr_record *rec)
{
    uint64_t place;
    int err;

    if (!tr_bitmap_test(&p->taken, rec->rid)) {
        return TARRY_OK;
    }
    err = tr_run_add(&p->writer, rec, &place);
    if (err == TARRY_OK) {
        tr_promote_note(p, rec, place);
        p->bytes_copied += tr_place_len(place);
        (void)tr_bitmap_clear(&p->taken, rec->rid);
    }
    return err;
}

void tr_merge_fill(void *ctx)
{
    struct tr_promote *p = ctx;
    struct tr_stream *s;
    int err = TARRY_OK;

    tr_run_buffer(&p->writer, p->buf, p->buf_room);
    p->hungry = NULL;
    while (err == TARRY_OK && (s = least(p)) != NULL) {
        err = copy(p, &s->rec);
        s->has = err != TARRY_OK;
    }
    if (err == TARRY_OK && p->hungry == NULL && p->writer.stat.jobs != 0) {
        err = tr_run_end(&p->writer);
    }
    p->failed = err == TARRY_EFULL && !tr_run_full(&p->writer) ? TARRY_OK : err;
    p->buf_len = tr_run_ready(&p->writer);
    p->buf_done = 0;
    if (err == TARRY_EFULL && p->buf_len == 0) {
        p->failed = TARRY_EFULL; /* one record is longer than the buffer */
    }
}
