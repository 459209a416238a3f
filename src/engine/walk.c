/*
 * A walk through the index of each group, for one topic.
 *
 *     groups by number:  g1  g2  g5 ...     T of each: | topic 3 | topic 4 ....... | topic 7 |
 *                                ^ walked                             ^ from a due time on
 *
 * One page of T is in hand at a time; while it is, its group counts a reader, so that it stays. A
 * group that comes while the walk goes on has a higher number than all others, so it is walked,
 * too: what a promotion carries from slots to a run is met there, if it was not met in the slot;
 * and one that was merged from others is walked though they were: the caller may meet a job twice.
 *
 * The walk tells what the index says. Whether the rid is alive, and where the job is now, is for
 * the caller to ask. A page that cannot be read is looked at once more around the cache, then
 * reported, and the runs themselves are gone through, block by block: it is only an index. So some
 * are told twice. What is in a block that cannot be read either is left out (`skipped`).
 */

#include "base/err.h"
#include "engine/inner.h"

/* Where it begins in each group. */
static struct tr_side_job first_of(const struct tr_walk *w)
{
    return (struct tr_side_job){.topic = w->topic, .due_us = w->from_us, .dead_seq = w->dead_from};
}

static struct tr_group *next_group(const struct tr_engine *e, const struct tr_walk *w)
{
    struct tr_group *best = NULL;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];
        bool has = false;

        for (unsigned run = 0; run < TR_GROUP_RUNS; run++) {
            has = has || ((run == TR_GROUP_LIVE ? w->dead_from == 0 : w->with_dead) &&
                          g->runs[run].file >= 0 &&
                          (w->every || tr_run_footer_topic(&g->footers[run], w->topic) != 0));
        }
        if (has && !g->leaving && g->is.no > w->no && (best == NULL || g->is.no < best->is.no)) {
            best = g;
        }
    }
    return best;
}

static void let_go(struct tr_walk *w)
{
    if (w->group != NULL) {
        w->group->readers--;
        w->group = NULL;
    }
    w->here = false;
    w->by_block = false;
}

static void read_page(struct tr_engine *e, struct tr_walk *w)
{
    w->io = (struct tr_io){.op = w->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                           .lane = TR_LANE_READ,
                           .file = w->group->side_file,
                           .off = tr_sidecar_off(&w->group->side, TR_SIDE_T, w->page),
                           .len = TR_SIDE_PAGE,
                           .buf = w->buf,
                           .owner = w};
    w->reading = true;
    w->here = false;
    e->fetch.reads++;
    e->disk.ops->submit(e->disk.ctx, &w->io);
}

int tr_walk_begin(struct tr_engine *e, struct tr_walk *w, uint32_t topic, uint64_t from_us)
{
    if (w->reading) {
        return TARRY_EFULL; /* for one that has ended */
    }
    if (w->buf == NULL) {
        w->buf = tr_mem_stretch(e->mem, NULL, 0, TR_SIDE_PAGE);
    }
    if (w->buf == NULL) {
        return TARRY_ENOMEM;
    }
    let_go(w);
    *w = (struct tr_walk){.topic = topic,
                          .from_us = from_us,
                          .buf = w->buf,
                          .block_buf = w->block_buf,
                          .block_room = w->block_room};
    return TARRY_OK;
}

int tr_walk_begin_dead(struct tr_engine *e, struct tr_walk *w, uint32_t topic, uint64_t from)
{
    int err = tr_walk_begin(e, w, topic, 0);

    if (err == TARRY_OK) {
        w->with_dead = true;
        w->dead_from = from != 0 ? from : 1;
    }
    return err;
}

int tr_walk_begin_every(struct tr_engine *e, struct tr_walk *w, uint64_t from_us)
{
    int err = tr_walk_begin(e, w, UINT32_MAX, from_us);

    w->every = err == TARRY_OK;
    return err;
}

int tr_walk_begin_every_dead(struct tr_engine *e, struct tr_walk *w)
{
    int err = tr_walk_begin_dead(e, w, UINT32_MAX, 0);

    w->every = err == TARRY_OK;
    return err;
}

void tr_walk_skip(struct tr_walk *w)
{
    w->no = w->group != NULL ? w->group->is.no : w->no;
    let_go(w);
}

void tr_walk_end(struct tr_walk *w)
{
    w->topic = 0;
    if (!w->reading) {
        let_go(w);
    }
}

void tr_walk_fini(struct tr_engine *e, struct tr_walk *w)
{
    if (w->buf != NULL) {
        tr_mem_free(e->mem, w->buf, TR_SIDE_PAGE);
    }
    if (w->block_buf != NULL) {
        tr_mem_free(e->mem, w->block_buf, w->block_room);
    }
    *w = (struct tr_walk){0};
}

static bool view(const struct tr_walk *w, struct tr_side_view *v)
{
    const struct tr_sidecar *side = &w->group->side;

    return w->io.status == TARRY_OK && w->io.got == TR_SIDE_PAGE &&
           tr_sidecar_check(side, TR_SIDE_T, w->page, w->buf) == TARRY_OK &&
           tr_sidecar_view(side, TR_SIDE_T, w->page, w->buf, v) == TARRY_OK;
}

/* ---- by block ---- */

static int read_block(struct tr_engine *e, struct tr_walk *w)
{
    struct tr_run_block_stat stat = tr_run_footer_block(&w->group->footers[w->run], w->block);

    if (w->block_room < stat.len) {
        uint8_t *buf = tr_mem_stretch(e->mem, w->block_buf, w->block_room, stat.len);

        if (buf == NULL) {
            return TARRY_ENOMEM;
        }
        w->block_buf = buf;
        w->block_room = stat.len;
    }
    w->io = (struct tr_io){.op = w->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                           .lane = TR_LANE_READ,
                           .file = w->group->runs[w->run].file,
                           .off = stat.off,
                           .len = stat.len,
                           .buf = w->block_buf,
                           .owner = w};
    w->reading = true;
    e->fetch.reads++;
    e->disk.ops->submit(e->disk.ctx, &w->io);
    return TARRY_EFULL;
}

/* The block in hand is done with, or cannot be read. */
static void leave_block(struct tr_engine *e, struct tr_walk *w, bool bad)
{
    if (bad) {
        tr_fetch_report(e, w->group, (enum tr_group_file)w->run, w->io.off);
        w->skipped = true;
    }
    w->block++;
    w->here = false;
    w->direct = false;
}

static void block_done(struct tr_engine *e, struct tr_walk *w)
{
    w->here =
        w->io.status == TARRY_OK && w->io.got == w->io.len &&
        tr_run_block(&w->group->footers[w->run], w->block, w->block_buf, &w->records) == TARRY_OK;
    if (!w->here && !w->direct) {
        w->direct = true;
        (void)read_block(e, w);
    } else if (!w->here) {
        leave_block(e, w, true);
    }
}

/* The next of the block in hand. TARRY_ENOTFOUND: none is left in it. */
static int next_record(struct tr_engine *e, struct tr_walk *w, struct tr_side_job *job)
{
    struct tr_record rec;
    uint64_t place;
    int err;

    w->before = w->records;
    err = tr_run_next(&w->records, &rec, &place);
    if (err != TARRY_OK) {
        leave_block(e, w, err != TARRY_ENOTFOUND);
        return TARRY_ENOTFOUND;
    }
    *job = (struct tr_side_job){.topic = rec.topic,
                                .due_us = w->run == TR_GROUP_LIVE ? rec.due_us : 0,
                                .dead_seq = rec.dead.seq,
                                .rid = rec.rid,
                                .place = place,
                                .head = tr_place_head(place, rec.body.len),
                                .cell = (uint8_t)(rec.flags & TR_RF_CELL)};
    w->tag = rec.tag;
    w->dead_at_us = rec.dead.at_us;
    return TARRY_OK;
}

static bool has_run(const struct tr_walk *w, unsigned run)
{
    return w->group->runs[run].file >= 0;
}

/* Is there such a run, and a block left in it? */
static bool has_block(const struct tr_walk *w)
{
    return has_run(w, w->run) && w->block < w->group->footers[w->run].block_count;
}

/* One job of the topic. TARRY_ENOTFOUND: the group has no more. */
static int next_by_block(struct tr_engine *e, struct tr_walk *w, struct tr_side_job *job)
{
    for (;;) {
        if (!has_block(w)) {
            if (w->run == TR_GROUP_DEAD || !w->with_dead) {
                return TARRY_ENOTFOUND;
            }
            w->run = TR_GROUP_DEAD;
            w->block = 0;
            continue;
        }
        if (!w->here) {
            return read_block(e, w);
        }
        if (next_record(e, w, job) == TARRY_OK && (w->every || job->topic == w->topic) &&
            job->dead_seq >= w->dead_from && (job->dead_seq != 0 || job->due_us >= w->from_us)) {
            return TARRY_OK;
        }
    }
}

void tr_walk_again(struct tr_walk *w)
{
    if (w->by_block) {
        w->records = w->before;
    } else {
        w->at--;
    }
}

/* ---- by page ---- */

void tr_walk_io_done(struct tr_engine *e, struct tr_walk *w)
{
    struct tr_side_job key = first_of(w);

    w->reading = false;
    e->fetch.reads--;
    if (w->topic == 0 || e->failed) {
        let_go(w);
    } else if (w->by_block) {
        block_done(e, w);
    } else if (view(w, &w->view)) {
        w->at = tr_side_lower(&w->view, &key);
        w->direct = false;
        w->here = true;
    } else if (!w->direct) {
        w->direct = true;
        read_page(e, w);
    } else {
        tr_fetch_report(e, w->group, TR_GROUP_SIDE, w->io.off);
        w->direct = false;
        w->by_block = true;
        w->run = w->dead_from == 0 ? TR_GROUP_LIVE : TR_GROUP_DEAD;
        w->block = w->run == TR_GROUP_LIVE && has_run(w, TR_GROUP_LIVE)
                       ? tr_run_footer_due(&w->group->footers[TR_GROUP_LIVE], w->from_us)
                       : 0;
    }
}

/* A page of the next group, if there is one, is asked for. */
static int open_group(struct tr_engine *e, struct tr_walk *w)
{
    struct tr_side_job key = first_of(w);

    w->group = next_group(e, w);
    if (w->group == NULL) {
        return TARRY_ENOTFOUND;
    }
    w->group->readers++;
    if (w->every) {
        w->by_block = true;
        w->run = w->dead_from != 0 ? TR_GROUP_DEAD : TR_GROUP_LIVE;
        w->block = w->dead_from != 0 || w->group->runs[TR_GROUP_LIVE].file < 0
                       ? 0
                       : tr_run_footer_due(&w->group->footers[TR_GROUP_LIVE], w->from_us);
        return TARRY_OK;
    }
    w->page = tr_sidecar_find(&w->group->side, TR_SIDE_T, &key);
    if (w->page == TR_SIDE_NONE) {
        tr_walk_skip(w);
        return TARRY_OK;
    }
    read_page(e, w);
    return TARRY_EFULL;
}

int tr_walk_next(struct tr_engine *e, struct tr_walk *w, struct tr_side_job *job)
{
    struct tr_side_row row;

    for (;;) {
        if (w->reading) {
            return TARRY_EFULL;
        }
        if (w->group != NULL && w->group->leaving) {
            tr_walk_skip(w); /* what is alive in it is in the one that took its place */
        }
        if (w->group == NULL) {
            int err = open_group(e, w);

            if (err != TARRY_OK) {
                return err;
            }
        } else if (w->by_block) {
            int err = next_by_block(e, w, job);

            if (err != TARRY_ENOTFOUND) {
                return err;
            }
            tr_walk_skip(w);
        } else if (w->at < w->view.count) {
            if (tr_side_get(&w->view, w->at++, &row) == TARRY_OK && row.job.topic == w->topic &&
                (row.job.dead_seq == 0 || w->with_dead)) {
                *job = row.job;
                return TARRY_OK;
            }
            tr_walk_skip(w);
        } else if (w->page + 1 < w->group->side.sections[TR_SIDE_T].pages) {
            w->page++;
            read_page(e, w);
        } else {
            tr_walk_skip(w);
        }
    }
}
