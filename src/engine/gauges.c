/*
 * How it goes: what is told to those who watch the engine from outside. Nothing of it is durable,
 * and nothing is done for it that takes longer than a look.
 *
 *     first change of a batch ---> it is written ---> it is on the disk
 *                             |       commit          |
 *                             |------- gate ----------|     so long its first answer waited
 */

#include "engine/inner.h"

enum { MANIFESTS = 2 * TR_MANIFEST_COPIES * TR_MANIFEST_COPY }; /* bytes of both files */

void tr_gauges_commits(struct tr_engine *e)
{
    e->gauges.flight_us = e->lazy_at != TR_NEVER ? e->gauges.open_us : e->now.boot_us;
}

void tr_gauges_committed(struct tr_engine *e)
{
    struct tr_gauges *g = &e->gauges;

    tr_hist_add(&g->commit, &tr_hist_commits, e->commit_took);
    tr_hist_add(&g->gate, &tr_hist_commits, e->now.boot_us - g->flight_us);
    tr_hist_add(&g->batch, &tr_hist_sizes, e->log.flight.changes);
}

/* ---- the store ---- */

static void add_slots(const struct tr_engine *e, struct tr_engine_gauges *g)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        const struct tr_slot *slot = &e->log.slots[i];

        g->live_bytes += slot->live_bytes;
        g->disk_bytes += slot->state != TR_SLOT_ABSENT ? e->log.slot_bytes : 0;
    }
}

/* Those that are about to go, too: their files are still there. */
static void add_groups(const struct tr_engine *e, struct tr_engine_gauges *g)
{
    for (uint32_t i = 0; i < TR_GROUPS_MAX; i++) {
        const struct tr_group *group = e->groups.table[i];

        if (group != NULL) {
            g->live_bytes += group->replaced ? 0 : tr_group_live_bytes(group);
            g->disk_bytes += tr_group_bytes(group);
        }
    }
}

/* A sweep that has begun is late when the first job that it looks for is. */
static uint64_t loader_lag(const struct tr_engine *e)
{
    const struct tr_load *l = &e->load;
    uint64_t first_us = l->sweeping || l->next_us == 0 ? l->first_us : l->next_us;
    bool idle = e->state.jobs.far.count + e->state.jobs.runs == 0 || first_us == 0;

    return !idle && e->clock.t_us > first_us ? e->clock.t_us - first_us : 0;
}

static uint64_t stalled(const struct tr_engine *e)
{
    uint64_t count = 0;

    for (const struct tr_req *r = e->stalled_first; r != NULL; r = r->next) {
        count++;
    }
    return count;
}

void tr_engine_gauges(const struct tr_engine *e, struct tr_engine_gauges *g)
{
    uint64_t far = e->state.jobs.far.count - e->state.jobs.far.located;

    *g = (struct tr_engine_gauges){
        .commit = &e->gauges.commit,
        .gate = &e->gauges.gate,
        .batch = &e->gauges.batch,
        .disk_bytes = e->meta.ckpt_room[0] + e->meta.ckpt_room[1] + MANIFESTS,
        .loader_lag_us = loader_lag(e),
        .debt = far > e->config.far_max ? far - e->config.far_max : 0,
        .stalled = stalled(e),
        .clock_us = (int64_t)(e->clock.t_us - e->now.wall_us),
    };
    add_slots(e, g);
    add_groups(e, g);
}

/* ---- topics ---- */

/* Of those that are far and due, as many are ready as were counted last. */
static void fill_jobs(uint64_t jobs[TR_DEAD + 1], const uint64_t count[TR_DEAD + 1], uint64_t far,
                      uint64_t overdue)
{
    overdue = overdue < far ? overdue : far;
    jobs[TR_DELAYED] = count[TR_DELAYED] + far - overdue;
    jobs[TR_READY] = count[TR_READY] + overdue;
    jobs[TR_RESERVED] = count[TR_RESERVED];
}

static struct tr_meter_view view_of(const struct tr_meter *m)
{
    return (struct tr_meter_view){.name = m->name,
                                  .name_len = m->name_len,
                                  .counts = m->counts,
                                  .late = &m->late,
                                  .wait = &m->wait};
}

static struct tr_meter_view view_seat(const struct tr_engine *e, const struct tr_meter *m,
                                      bool with_due)
{
    struct tr_meter_view v = view_of(m);
    const struct tr_topic *t =
        m->hold != NULL ? TR_CONTAINER_OF(m->hold, struct tr_topic, metering) : NULL;
    uint64_t oldest_us;

    if (t == NULL) {
        return v;
    }
    oldest_us = tr_topic_oldest(t);
    fill_jobs(v.jobs, t->count, t->far, t->overdue);
    v.jobs[TR_DEAD] = t->dead;
    v.ready_for_us = oldest_us != 0 && e->clock.t_us > oldest_us ? e->clock.t_us - oldest_us : 0;
    v.next_due_us = with_due ? tr_nearest_known(e, t) : 0;
    return v;
}

static struct tr_meter_view view_other(const struct tr_engine *e)
{
    const struct tr_topics *ts = &e->state.topics;
    struct tr_meter_view v = view_of(&ts->meters.other);

    v.other = true;
    fill_jobs(v.jobs, ts->totals.count, ts->totals.far, ts->overdue);
    v.jobs[TR_DEAD] = ts->totals.count[TR_DEAD] + ts->totals.dead_far;
    return v;
}

const char *tr_engine_topic_name(const struct tr_engine *e, uint32_t topic, size_t *len)
{
    const struct tr_topic *t = topic != 0 ? tr_topics_by_handle(&e->state.topics, topic) : NULL;

    *len = t != NULL ? t->name_len : 0;
    return t != NULL ? t->name : NULL;
}

void tr_engine_meters_begin(struct tr_engine *e)
{
    tr_meters_look(&e->state.topics.meters, true);
    tr_nearest_look(e);
}

void tr_engine_meters_end(struct tr_engine *e)
{
    tr_meters_looked(&e->state.topics.meters);
}

bool tr_engine_meters_looks(const struct tr_engine *e)
{
    return e->nearest.seats > 0 || e->nearest.passing || e->nearest.topic != 0;
}

unsigned tr_engine_meters(struct tr_engine *e, unsigned from, bool with_due,
                          struct tr_meter_view *views)
{
    struct tr_meters *ms = &e->state.topics.meters;
    unsigned n = 0;

    tr_meters_look(ms, false);
    for (; n < TR_METER_VIEWS && from + n < ms->count; n++) {
        views[n] = view_seat(e, ms->seats[from + n], with_due);
    }
    if (n < TR_METER_VIEWS && from + n == ms->count) {
        views[n++] = view_other(e);
    }
    return n;
}
