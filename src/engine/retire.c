/*
 * Groups in which nothing is alive any more.
 *
 * The rids that a group covers are looked up in L: when none is alive, and the kills that made it
 * so are durable, the next manifest is without the group, and when that is durable its files are
 * closed and removed (R10, R24). One group at a time; readers are waited for. A file that cannot be
 * removed is found at the next start.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

static bool is_read(const struct tr_group *g)
{
    return g->readers != 0 || g->runs[TR_GROUP_LIVE].readers != 0 ||
           g->runs[TR_GROUP_DEAD].readers != 0;
}

/* Has somebody a place in it? */
static bool is_used(const struct tr_group *g)
{
    bool used = false;

    for (unsigned i = 0; i < TR_GROUP_RUNS; i++) {
        used = used || g->runs[i].far != 0 || !tr_list_empty(&g->runs[i].jobs);
    }
    return used;
}

/* A group that was merged into another, and that nobody needs; or NULL. */
static struct tr_group *find_replaced(const struct tr_engine *e)
{
    for (uint32_t i = 0; i < TR_GROUPS_MAX; i++) {
        struct tr_group *g = e->groups.table[i];

        if (g != NULL && g->replaced && !g->merging && !is_used(g) &&
            (!is_read(g) || TR_MUTANT(REPLACED_UNDER_READ))) {
            return g;
        }
    }
    return NULL;
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
    e->groups.replaced -= r->group->replaced;
    tr_group_free(&e->groups, r->group);
    *r = (struct tr_retire){.next = r->next};
}

void tr_retire_io_done(struct tr_engine *e, struct tr_io *io)
{
    (void)io;
    e->retire.busy = false;
    if (!e->failed) {
        remove_next(e);
    }
}

void tr_retire_adopted(struct tr_engine *e)
{
    struct tr_retire *r = &e->retire;

    if (r->group != NULL && r->named && !tr_manifest_names(&e->meta.now, r->group->is.no) &&
        !e->log.blocking) {
        r->named = false;
        remove_next(e);
    }
}

void tr_retire_step(struct tr_engine *e)
{
    struct tr_retire *r = &e->retire;
    struct tr_group *g;

    if (r->group == NULL && e->groups.replaced != 0 && (g = find_replaced(e)) != NULL) {
        r->group = g; /* the manifest does not name it any more */
        remove_next(e);
        return;
    }
    if (r->group == NULL) {
        if (e->groups.count == 0) {
            return;
        }
        r->next = r->next < e->groups.count ? r->next : 0;
        g = e->groups.order[r->next++];
        tr_merge_look(e, g);
        if ((g->alive != 0 && !g->hollow) || g->merging || is_read(g) || e->load.sweeping ||
            e->load.pull_topic != 0) {
            return;
        }
        g->leaving = true; /* nobody begins to read it from now on */
        r->group = g;
        r->named = true;
        r->batch = e->log.open.no - tr_log_open_empty(&e->log);
    }
    if (r->named && !r->ready) {
        r->ready = e->log.synced >= r->batch || TR_MUTANT(RETIRED_UNSYNCED);
        if (!r->ready && e->config.sync != TR_SYNC_ALWAYS) {
            tr_log_sync(&e->log);
        }
    }
    if (r->named && r->ready) {
        e->meta.want_manifest = true;
    }
}
