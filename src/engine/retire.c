/*
 * Groups in which nothing is alive any more.
 *
 * The rids that a group covers are looked up in L: when none is alive, and the kills that made it
 * so are durable, the next manifest is without the group, and when that is durable its files are
 * closed and removed (R10, R24). One group at a time; readers are waited for. A file that cannot be
 * removed is found at the next start.
 */

#include "base/err.h"
#include "engine/inner.h"

static bool is_empty(const struct tr_engine *e, const struct tr_group *g)
{
    return tr_bitmap_next(&e->state.jobs.alive, g->is.rid_first) > g->is.rid_last &&
           g->readers == 0 && g->runs[TR_GROUP_LIVE].readers == 0 &&
           g->runs[TR_GROUP_DEAD].readers == 0;
}

static void send(struct tr_engine *e, struct tr_io io)
{
    e->retire.busy = true;
    e->retire.io = io;
    e->retire.io.lane = TR_LANE_BACK;
    e->disk.ops->submit(e->disk.ctx, &e->retire.io);
}

/* Closes and removes, one after the other. */
static void remove_next(struct tr_engine *e)
{
    struct tr_retire *r = &e->retire;
    struct tr_io io = {.op = TR_IO_CLOSE};

    for (unsigned i = 0; i < TR_GROUP_FILES; i++) {
        int *file = i == TR_GROUP_SIDE ? &r->group->side_file : &r->group->runs[i].file;

        if (*file >= 0) {
            io.file = *file;
            *file = -1;
            send(e, io);
            return;
        }
    }
    if (r->unlinked < TR_GROUP_FILES) {
        io.op = TR_IO_UNLINK;
        tr_group_name(io.name, r->group->is.no, (enum tr_group_file)r->unlinked++);
        send(e, io);
        return;
    }
    tr_group_free(&e->groups, r->group);
    *r = (struct tr_retire){0};
}

void tr_retire_io_done(struct tr_engine *e, struct tr_io *io)
{
    (void)io;
    e->retire.busy = false;
    if (!e->failed) {
        remove_next(e);
    }
}

/* Does the manifest that is durable name it? */
static bool is_named(const struct tr_engine *e)
{
    const struct tr_manifest *m = &e->meta.now;

    for (uint32_t i = 0; i < m->group_count; i++) {
        if (m->groups[i].no == e->retire.group->is.no) {
            return true;
        }
    }
    return false;
}

void tr_retire_adopted(struct tr_engine *e)
{
    struct tr_retire *r = &e->retire;

    if (r->group != NULL && r->named && !is_named(e) && !e->log.blocking) {
        r->named = false;
        remove_next(e);
    }
}

void tr_retire_step(struct tr_engine *e)
{
    struct tr_retire *r = &e->retire;
    struct tr_group *g;

    if (e->groups.count == 0) {
        return;
    }
    if (r->group == NULL) {
        r->next = r->next < e->groups.count ? r->next : 0;
        g = e->groups.order[r->next++];
        if (!is_empty(e, g) || e->load.sweeping || e->load.pull_topic != 0) {
            return;
        }
        g->leaving = true; /* nobody begins to read it from now on */
        r->group = g;
        r->named = true;
        r->batch = e->log.open.no - tr_log_open_empty(&e->log);
    }
    if (r->named && !r->ready) {
        r->ready = e->log.synced >= r->batch;
        if (!r->ready && e->config.sync != TR_SYNC_ALWAYS) {
            tr_log_sync(&e->log);
        }
    }
    if (r->named && r->ready) {
        e->meta.want_manifest = true;
    }
}
