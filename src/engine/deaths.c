/*
 * Dead jobs that are not in memory.
 *
 *     dead jobs of a topic by dead_seq
 *
 *     in memory      | in dead runs, some of them in memory as visitors     | in memory
 *     o o o o o o o  | . . . . o . . . . . . . . . . . . . . . . . . . . .  | o o o o
 *                    ^ edge: none that is only in a run comes before it       their record is in a
 *                                                                             slot, or outdated
 *
 * A dead job leaves memory when its record is in the dead run of a group: T has the dead of a topic
 * by dead_seq, so the first one can be found (peek, kick). Who is before the edge is in memory; if
 * nobody is, a search goes through T of each group for the first 256 and brings them back as
 * visitors. While it is on, no dead job of its topic leaves. One search at a time.
 *
 * What could not be read is looked for again a minute later.
 *
 * A dead job in a slot stays in memory until it is promoted: the table of far jobs knows due times,
 * not deaths. So an entry of a dead job is always a located one, and due never.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { LOOK_UNITS = 8, AGAIN_US = 60000000, FAILED_US = 1000000 };

/* ---- going ---- */

static bool in_dead_run(const struct tr_job *job)
{
    return job->slot != NULL && job->slot->number >= TR_MANIFEST_SLOTS_MAX &&
           (job->slot->number - TR_MANIFEST_SLOTS_MAX) % TR_GROUP_RUNS == TR_GROUP_DEAD;
}

void tr_deaths_send(struct tr_engine *e, struct tr_job *job)
{
    struct tr_topic *t = job->topic;
    uint64_t seq = job->dead_seq;
    bool scheduled = job->state != 0;

    if (!in_dead_run(job) || job->altered || job->relogging ||
        (scheduled && job->state != TR_DEAD)) {
        return;
    }
    if (scheduled) {
        tr_change_unschedule(e, job);
    }
    tr_listing_leaves(e, job);
    if (tr_state_send_far(&e->state, job) != TARRY_OK) {
        if (scheduled) {
            tr_change_schedule(e, job); /* no memory: it stays */
        }
        return;
    }
    if ((seq < t->dead_edge || t->dead_far == 1) && !TR_MUTANT(DEAD_EDGE_LEFT)) {
        t->dead_edge = seq;
    }
    e->load.sent++;
}

/* ---- looking ---- */

/* Keeps it if it is among the first. False: it is not. */
static bool keep(struct tr_deaths *d, const struct tr_found_dead *found)
{
    unsigned at = d->count;

    while (at > 0 && found->seq < d->found[at - 1].seq) {
        at--;
    }
    if (at == TR_DEATHS_MAX) {
        return false;
    }
    d->count += d->count < TR_DEATHS_MAX;
    memmove(&d->found[at + 1], &d->found[at], (d->count - 1 - at) * sizeof *found);
    d->found[at] = *found;
    return true;
}

/* A slice. TARRY_OK: all groups have been looked through. */
static int look(struct tr_engine *e)
{
    struct tr_deaths *d = &e->deaths;
    struct tr_side_job job;
    unsigned seen = 0;

    for (;;) {
        int err;

        if (seen++ % LOOK_UNITS == 0 && !tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        err = tr_walk_next(e, &d->walk, &job);
        if (err != TARRY_OK) {
            return err == TARRY_ENOTFOUND ? TARRY_OK : err;
        }
        if (tr_engine_only_in_run(e, job.rid, d->topic)) {
            struct tr_found_dead found = {.rid = job.rid,
                                          .seq = job.dead_seq,
                                          .group_no = d->walk.group->is.no,
                                          .entry = tr_fetch_entry(d->walk.group, &job)};

            if (!keep(d, &found)) {
                tr_walk_skip(&d->walk); /* the others come later still */
            }
        } else if (d->count == TR_DEATHS_MAX && job.dead_seq > d->found[d->count - 1].seq) {
            tr_walk_skip(&d->walk);
        }
    }
}

/* ---- coming ---- */

/* One that was found is asked for. TARRY_OK: it is here, or gone, or cannot be read. */
static int bring(struct tr_engine *e, const struct tr_found_dead *found)
{
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, found->rid);
    int err;

    if (entry == NULL) {
        if (!tr_engine_only_in_run(e, found->rid, e->deaths.topic)) {
            return TARRY_OK;
        }
        if (tr_groups_find(&e->groups, found->rid)->is.no != found->group_no) { /* rewritten */
            err = tr_fetch_locate(e, found->rid);
            e->deaths.unsure = e->deaths.unsure || err == TARRY_EDAMAGED;
            return err == TARRY_EFULL ? TARRY_EFULL : TARRY_OK;
        }
        err = tr_state_locate(&e->state, found->rid, &found->entry);
        if (err != TARRY_OK) {
            return err;
        }
        tr_fetch_remember(e, found->rid);
        entry = tr_far_find(&e->state.jobs.far, found->rid);
    }
    if (entry == NULL || entry->bad) {
        e->deaths.unsure = true;
        return TARRY_OK;
    }
    err = tr_load_start(e, found->rid);
    return err == TARRY_OK ? TARRY_EFULL : err;
}

/* All that were found are asked for. TARRY_OK: they are here. */
static int bring_all(struct tr_engine *e)
{
    struct tr_deaths *d = &e->deaths;
    bool here = true;

    for (unsigned i = d->here; i < d->count; i++) {
        int err;

        if (e->work == 0) {
            return TARRY_EFULL;
        }
        err = bring(e, &d->found[i]);
        if (err != TARRY_OK) { /* those that are here cost nothing, or the last are never reached */
            (void)tr_engine_spend(e);
        }
        if (err != TARRY_OK && err != TARRY_EFULL) {
            return err;
        }
        here = here && err == TARRY_OK;
        d->here += here;
    }
    return here ? TARRY_OK : TARRY_EFULL;
}

static void end_search(struct tr_engine *e, int err)
{
    struct tr_deaths *d = &e->deaths;
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, d->topic);

    tr_walk_end(&d->walk);
    if (t != NULL && err == TARRY_OK) {
        if (d->unsure || d->walk.skipped) { /* some could not be read: to be looked for again */
            t->dead_again = t->dead_edge;
            t->dead_again_us = e->now.boot_us + AGAIN_US;
        }
        t->dead_edge = d->count < TR_DEATHS_MAX ? TR_NEVER : d->found[d->count - 1].seq + 1;
    }
    d->failed_until = e->now.boot_us + FAILED_US;
    d->failed_topic = err != TARRY_OK ? d->topic : 0;
    d->failed = err;
    d->topic = 0;
    e->moved = true;
}

void tr_deaths_step(struct tr_engine *e)
{
    struct tr_deaths *d = &e->deaths;
    int err = TARRY_OK;

    if (d->topic == 0 || e->work == 0) {
        return;
    }
    if (d->looking) {
        err = look(e);
        d->looking = err == TARRY_EFULL;
    }
    if (err == TARRY_OK) {
        err = bring_all(e);
    }
    d->cut = e->work == 0;
    if (err != TARRY_EFULL) {
        end_search(e, err);
    }
}

bool tr_deaths_goes_on(const struct tr_engine *e)
{
    const struct tr_deaths *d = &e->deaths;

    return d->topic != 0 && !d->walk.reading &&
           (d->looking || d->cut); /* else what comes wakes us */
}

int tr_deaths_first(struct tr_engine *e, struct tr_topic *t, struct tr_job **job)
{
    struct tr_deaths *d = &e->deaths;
    int err;

    if (t->dead_again_us != 0 && t->dead_again_us <= e->now.boot_us) {
        t->dead_edge = t->dead_again < t->dead_edge ? t->dead_again : t->dead_edge;
        t->dead_again_us = 0;
    }
    *job = tr_topic_first_dead(t);
    if (t->dead_far == 0 || (*job != NULL && (*job)->dead_seq < t->dead_edge) ||
        t->dead_edge == TR_NEVER) {
        return TARRY_OK;
    }
    *job = NULL;
    if (d->failed_topic == t->number && d->failed_until > e->now.boot_us) {
        d->failed_topic = 0;
        return d->failed;
    }
    if (d->topic != 0) {
        return TARRY_EFULL;
    }
    err = tr_walk_begin_dead(e, &d->walk, t->number, t->dead_edge);
    if (err == TARRY_OK) {
        d->topic = t->number;
        d->looking = true;
        d->unsure = false;
        d->count = 0;
        d->here = 0;
    }
    return err == TARRY_OK ? TARRY_EFULL : err;
}

void tr_deaths_fini(struct tr_engine *e)
{
    tr_walk_fini(e, &e->deaths.walk);
}
