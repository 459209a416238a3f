/*
 * The one way to the cells.
 *
 *     PUSH    -> to           MOVE    from (OLD) -> to
 *     KILLSET from ->         ALTER   from (OLD) -> to, if it has a due time or a death
 *
 * `from` is what the record says, not what the job in memory says: in a replay that may not have
 * been met yet, or may have come from a run which was written later than the record. What comes
 * after the checkpoint is applied once (R25), and so are its cells; RELOG and what the checkpoint
 * contains change nothing here.
 *
 * A store whose checkpoint has no cells (recells) is counted when its replay has ended.
 *
 * A purge gives the topic another row; the old one is dropped in slices. If a checkpoint was in the
 * making, that still has the old row: what is dropped is copied first, under the topic's number,
 * and the checkpoint is complete only when all is.
 */

#include "engine/tally.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/checkpoint.h"
#include "engine/state.h"

#include <limits.h>
#include <string.h>

struct tr_tally tr_tally_old(const struct tr_state *s, const struct tr_kill *kill)
{
    return (struct tr_tally){.rid = kill->rid,
                             .topic = tr_topics_by_number(&s->topics, kill->topic),
                             .due_us = kill->due_us,
                             .kind = kill->cell,
                             .dead = kill->was_dead != 0};
}

struct tr_tally tr_tally_job(const struct tr_job *job)
{
    return (struct tr_tally){.rid = job->rid,
                             .topic = job->topic,
                             .due_us = job->due_us,
                             .kind = job->flags & TR_RF_CELL,
                             .dead = job->dead_seq != 0};
}

struct tr_tally tr_tally_record(const struct tr_state *s, const struct tr_record *rec)
{
    return (struct tr_tally){.rid = rec->rid,
                             .topic = tr_topics_by_number(&s->topics, rec->topic),
                             .due_us = rec->due_us,
                             .kind = rec->flags & TR_RF_CELL,
                             .dead = rec->dead.seq != 0};
}

struct tr_tally tr_tally_altered(struct tr_tally old, const struct tr_record *rec)
{
    old.due_us = rec->mask & TR_FIELD(DUE) ? rec->due_us : old.due_us;
    old.kind = rec->mask & TR_FIELD(FLAGS) ? rec->flags & TR_RF_CELL : old.kind;
    old.dead = rec->mask & TR_FIELD(DEAD) ? rec->dead.seq != 0 : old.dead;
    return old;
}

struct tr_kill tr_tally_kill(const struct tr_job *job)
{
    return (struct tr_kill){.rid = job->rid,
                            .due_us = job->due_us,
                            .topic = job->topic->number,
                            .cell = (uint8_t)(job->flags & TR_RF_CELL),
                            .was_dead = job->dead_seq != 0};
}

struct tr_kill tr_tally_far(uint64_t rid, const struct tr_far_entry *entry)
{
    return (struct tr_kill){.rid = rid,
                            .due_us = entry->dead ? 0 : entry->due_us,
                            .topic = entry->topic,
                            .cell = (uint8_t)entry->cell,
                            .was_dead = entry->dead};
}

uint32_t tr_tally_row(struct tr_state *s, struct tr_topic *t)
{
    if (t->row == 0) {
        t->row = tr_cells_new_row(&s->cells);
    }
    return t->row;
}

int tr_tally_kind(struct tr_state *s, struct tr_topic *t, uint64_t due_us, uint32_t *kind)
{
    /* More jobs of one hour than can be counted are more than there is memory for. */
    return tr_cells_make(&s->cells, tr_tally_row(s, t), due_us, kind) == TARRY_OK ? TARRY_OK
                                                                                  : TARRY_ENOMEM;
}

static bool counts(const struct tr_tally *at)
{
    return at != NULL && !at->dead && !at->topic->purged;
}

static uint32_t when_of(const struct tr_state *s, const struct tr_tally *at)
{
    return tr_cells_when(&s->cells, at->due_us, at->kind);
}

int tr_tally_check(struct tr_state *s, const struct tr_tally *from, const struct tr_tally *to)
{
    uint32_t any;

    if ((from != NULL && from->topic == NULL) || (to != NULL && to->topic == NULL)) {
        return TARRY_EDAMAGED;
    }
    if (s->recells) {
        return TARRY_OK;
    }
    if (s->replaying && counts(from) && /* a running engine knows its own jobs */
        tr_cells_count(&s->cells, tr_tally_row(s, from->topic), when_of(s, from)) == 0) {
        return TARRY_EDAMAGED;
    }
    return counts(to) ? tr_tally_kind(s, to->topic, to->due_us, &any) : TARRY_OK;
}

void tr_tally_keep(const struct tr_state *s, struct tr_topic *t)
{
    if (s->freeze != NULL && t->freeze_no != s->jobs.freeze_no && !TR_MUTANT(COUNT_NOT_FROZEN)) {
        t->jobs_then = t->jobs;
        t->dead_then = t->dead;
        t->bytes_then = t->bytes;
        t->freeze_no = s->jobs.freeze_no;
    }
}

/* One more is dead, or one less. */
static void count_dead(const struct tr_state *s, const struct tr_tally *at, uint64_t more)
{
    if (at != NULL && at->dead && !s->redead) {
        tr_tally_keep(s, at->topic);
        at->topic->dead += more;
    }
}

static void shift_fine(struct tr_fine *f, const struct tr_tally *from, const struct tr_tally *to)
{
    if (from != NULL) {
        tr_fine_sub(f, from);
    }
    if (to != NULL) {
        tr_fine_add(f, to);
    }
}

void tr_tally_shift(struct tr_state *s, const struct tr_tally *from, const struct tr_tally *to)
{
    count_dead(s, from, UINT64_MAX);
    count_dead(s, to, 1);
    if (s->recells) {
        return;
    }
    if (s->fine.on) {
        shift_fine(&s->fine, from, to);
    }
    if (counts(from) && counts(to) && from->topic == to->topic &&
        when_of(s, from) == when_of(s, to)) {
        return;
    }
    if (counts(from)) {
        if (s->freeze != NULL) {
            tr_freeze_cell(s->freeze, from->topic, when_of(s, from));
        }
        TR_CHECK(tr_cells_sub(&s->cells, from->topic->row, from->due_us, from->kind));
    }
    if (counts(to)) {
        uint32_t row = tr_tally_row(s, to->topic);

        if (s->freeze != NULL) {
            tr_freeze_cell(s->freeze, to->topic, when_of(s, to));
        }
        tr_cells_add(&s->cells, row, to->due_us, to->kind);
    }
}

void tr_tally_entered(struct tr_state *s, const struct tr_job *job)
{
    struct tr_tally at;

    if (!s->fine.on) {
        return;
    }
    at = tr_tally_job(job);
    if (job->state != TR_DELAYED && !TR_MUTANT(FORECAST_OF_READY)) {
        tr_fine_sub(&s->fine, &at);
    } else if (!TR_MUTANT(LOAD_NOT_COUNTED)) { /* a scan may pass one over that was loaded */
        tr_fine_add(&s->fine, &at);
    }
}

/* What was ready before the clock was set back was not counted, and no scan need come by again. */
void tr_tally_left(struct tr_state *s, const struct tr_tally *at, uint64_t t_us)
{
    if (at->due_us > t_us) {
        tr_fine_add(&s->fine, at);
    }
}

/* ---- purge ---- */

void tr_tally_purge(struct tr_state *s, struct tr_topic *t)
{
    unsigned all = UINT_MAX;

    while (s->drop_count == TR_TALLY_DROPS && !tr_tally_drop(s, &all)) {
        all = UINT_MAX;
    }
    if (t->row == 0) {
        return;
    }
    s->drops[s->drop_count++] = (struct tr_dropped){
        .row = t->row, .topic = t->number, .freeze_no = s->freeze != NULL ? s->jobs.freeze_no : 0};
    t->row = 0;
}

bool tr_tally_drop(struct tr_state *s, unsigned *work)
{
    while (s->drop_count != 0) {
        struct tr_dropped *d = &s->drops[0];
        struct tr_cells_walk w = tr_cells_from(&s->cells, d->row, 0);
        struct tr_cell cell;
        bool then = s->freeze != NULL && s->jobs.freeze_no == d->freeze_no;

        while (tr_cells_next(&s->cells, &w, &cell)) {
            unsigned one = 1;

            if (*work == 0) {
                return false;
            }
            --*work;
            if (then) {
                tr_freeze_dropped(s->freeze, d, &cell);
            }
            TR_CHECK(!tr_cells_drop(&s->cells, d->row, &one)); /* that was one of them */
        }
        if (s->fine.on && !s->fine.lost && !tr_cells_drop(&s->fine.cells, d->row, work)) {
            return false;
        }
        s->drop_count--;
        memmove(d, d + 1, s->drop_count * sizeof *d);
    }
    return true;
}
