/*
 * Schedules as rows: plan.c where a database has the truth.
 *
 *     read ──► what is to be (schedule.c, recur.c) ──► PLAN: locked, compared, written, with the
 * job
 *
 * A change is for the version that was read; if the row has another one by now nothing is done, and
 * who asked reads again. The job of a tick, its number (last_n) and how far the schedule has come
 * are one transaction. That is all there is of "each number once": no owner, epoch or clock is
 * needed for it, and nothing of it is in Redis.
 *
 * Names, numbers and slots are in the row, too, so there is no roster, and a change of topic is one
 * of the row.
 *
 * The end of an occurrence is noted in the transaction that ends it (port/sql.h). One that went
 * without that (a purge) is seen by whoever reads the schedule, since the row of the job is looked
 * for; and one that waits for nothing else is read every ten minutes.
 */

#include "base/err.h"
#include "cluster/load.h"
#include "cluster/mutant.h"
#include "cluster/plan.h"

#include <string.h>

#define COUNTED_US UINT64_C(1000000)
#define HELD_US UINT64_C(1000000)
#define GUARD_US UINT64_C(600000000)

enum { STALE_MAX = 8 };

/* ---- reading ---- */

static bool build_read(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    const struct tr_plan *p = item->plan;
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_PLANS;
    ask->state = (uint8_t)p->by;
    ask->name = (struct tr_span){p->name, p->name_len};
    ask->from_id = item->id;
    ask->slot = item->slot;
    return true;
}

static int learn(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_plan *is)
{
    struct tr_plan *p = item->plan;
    struct tr_span state = {is->state.at + 1, is->state.len - 1};
    int err;

    if (is->name.len > TR_SCHEDULE_NAME_MAX || is->slot >= c->layout.slots) {
        return TARRY_EDAMAGED;
    }
    memcpy(p->name, is->name.at, is->name.len);
    p->name_len = is->name.len;
    p->row = *is;
    p->row.name = p->row.spec = p->row.state = (struct tr_span){0};
    p->number = is->id;
    p->ended_us = 0;
    item->slot = is->slot;
    err = is->state.len > 0 ? tr_plan_learn(c, p, is->spec, state) : TARRY_EDAMAGED;
    if (err == TARRY_OK) {
        p->held = is->state.at[0] == 'h';
        p->at.live_id = is->last_job;
        p->ended_us = is->last_job == 0   ? 0
                      : is->ended_us != 0 ? is->ended_us
                      : !is->lives        ? tr_cluster_server_now(c)
                                          : 0;
    }
    return err;
}

static void ended_read(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    const struct tr_sql_plan *is = ask->plans != NULL && ask->count > 0 ? ask->plans : NULL;

    if (ask->end != TR_SQL_DONE) {
        int status = tr_desk_status(ask, ask->end);

        tr_item_finish(c, item, status == TARRY_EUNSURE ? TARRY_EAWAY : status);
        return;
    }
    tr_plan_forget(c, item->plan);
    item->plan->number = 0;
    item->plan->row = (struct tr_sql_plan){0};
    tr_plan_was_read(c, item, is != NULL ? learn(c, item, is) : TARRY_OK);
}

const struct tr_desk_way tr_desk_plan = {.most = 1, .build = build_read, .ended = ended_read};

void tr_desk_roster_say(struct tr_cluster *c, struct tr_item *item, char what)
{
    struct tr_plan *p = item->plan;

    if (what == 'p') {
        p->number = tr_place_id(1, item->slot); /* until it has its own */
        p->before = 0;
    }
    p->said = 'O';
    p->then(c, item);
}

/* ---- deciding; on a thread of the database ---- */

static bool is_as_read(const struct tr_plan *p, const struct tr_sql_plan *is)
{
    if (p->what == TR_PLAN_GONE && p->any) {
        return true;
    }
    if (p->what == TR_PLAN_RUN) {
        return is->id == p->row.id;
    }
    if (!p->there && !p->strange) {
        return is->ver == 0;
    }
    return is->id == p->row.id && ((is->ver == p->row.ver && is->last_n == p->row.last_n) ||
                                   TR_CL_MUTANT(PLAN_ANY_NUMBER));
}

/* False: settings of the topic are others than this node knows. */
static bool decide_job(struct tr_sql_ask *ask, const struct tr_plan *p, uint64_t n)
{
    struct tr_sql_item *item = &ask->items[0];
    struct tr_truth *t = item->ctx;

    tr_truth_decide(ask, 0, 1);
    if (item->write != TR_SQL_INSERT) {
        return false;
    }
    item->next.sched_n = n;
    if (p->live == TR_PLAN_JOB) {
        item->next.sched = ask->plan->is.id; /* its end is waited for */
    }
    if (!p->runs) {
        item->next.due_us = item->next.next_us = p->due_us; /* also if that is past */
    }
    t->is = item->next;
    return true;
}

/* When it is to be looked at. */
static uint64_t next_of(const struct tr_plan *p, const struct tr_sql_plan *next, bool lives,
                        uint64_t now_us)
{
    uint64_t next_us = p->next_us < INT64_MAX ? p->next_us : 0;

    if (next->last_job != 0 && !lives && !p->next_held) {
        return now_us; /* its end is still to be seen to */
    }
    if (next->last_job != 0 && next_us == 0 && !p->next.paused) {
        return now_us + GUARD_US;
    }
    return next_us;
}

static void decide_set(struct tr_sql_ask *ask, struct tr_plan *p)
{
    struct tr_sql_planned *w = ask->plan;
    bool keeps = p->live == TR_PLAN_KEEP;
    uint64_t n = w->is.last_n + p->fires;

    if (p->fires && !decide_job(ask, p, n)) {
        p->said = 'S';
        return;
    }
    w->write = TR_SQL_UPDATE;
    w->with_spec = p->def != NULL;
    w->next = w->is;
    w->next.ver++;
    w->next.last_n = n;
    w->next.last_job = keeps ? w->is.last_job : p->live == TR_PLAN_JOB ? ask->items[0].id : 0;
    w->next.ended_us = keeps ? w->is.ended_us : 0;
    w->next.next_us =
        next_of(p, &w->next, !keeps || (w->is.ended_us == 0 && w->is.lives), ask->now_us);
    if (p->topic_row != 0 || p->def != NULL) {
        w->next.topic = p->topic_row;
        w->next.slot = p->slot;
    }
}

static void decide(struct tr_sql_ask *ask, unsigned from, unsigned to)
{
    struct tr_sql_planned *w = ask->plan;
    struct tr_plan *p = w->ctx;
    struct tr_span state = w->next.state;
    struct tr_span spec = w->next.spec;

    (void)from;
    (void)to;
    w->write = TR_SQL_LEAVE;
    if (ask->count > 0) {
        ask->items[0].write = TR_SQL_LEAVE;
    }
    p->said = is_as_read(p, &w->is) ? 'O' : 'C';
    if (p->said == 'O' && p->what == TR_PLAN_SET) {
        decide_set(ask, p);
    } else if (p->said == 'O' && p->what == TR_PLAN_RUN) {
        p->said = decide_job(ask, p, 0) ? 'O' : 'S';
    } else if (p->said == 'O' && p->what == TR_PLAN_GONE) {
        w->write = w->is.id != 0 ? TR_SQL_DELETE : TR_SQL_LEAVE;
    } else if (p->said == 'O') { /* LATER */
        w->write = TR_SQL_UPDATE;
        w->with_spec = false;
        w->next = w->is;
        w->next.ver++;
        w->next.next_us = ask->now_us + p->later_us;
        return;
    }
    w->next.state = state;
    w->next.spec = spec;
}

/* ---- writing ---- */

static bool add_job(struct tr_cluster *c, struct tr_clane *lane, const struct tr_item *item)
{
    struct tr_sql_item *row = tr_desk_items(c, lane, 1);
    struct tr_backoff backoff;
    struct tr_req r = tr_plan_job(item->plan, &backoff);
    struct tr_ticket *k = row != NULL ? tr_ticket_new(c, item->topic, 2 * TR_TICKET_TEXTS) : NULL;

    if (k == NULL || !tr_ticket_body(c, k, r.body, r.body_len)) {
        if (k != NULL) {
            tr_ticket_free(c, k);
        }
        return false;
    }
    tr_desk_push_fill(c, k, item, &r);
    *row = (struct tr_sql_item){.by = TR_SQL_NEW,
                                .id = item->id,
                                .topic = item->topic->row,
                                .knows = item->topic->version,
                                .ctx = &k->truth};
    return true;
}

static struct tr_span state_of(struct tr_plan *p)
{
    struct tr_schedule_state at = p->next;

    at.live_id = 0;
    at.live_topic = 0;
    p->state[0] = p->next_held ? 'h' : '-';
    return (struct tr_span){(const char *)p->state,
                            1 + tr_schedule_state_encode(p->state + 1, &at)};
}

static bool build_write(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_item *item = tr_desk_first(lane);
    struct tr_plan *p = item->plan;
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    p->change = (struct tr_sql_planned){
        .name = {p->name, p->name_len}, .makes = p->what == TR_PLAN_SET && !p->there, .ctx = p};
    if (p->what == TR_PLAN_SET) {
        p->change.next.state = state_of(p);
        p->change.next.spec = (struct tr_span){(const char *)p->def, p->def_len};
    }
    ask->kind = TR_SQL_PLAN;
    ask->plan = &p->change;
    ask->decide = decide;
    return !p->fires || add_job(c, lane, item);
}

static void made(struct tr_cluster *c, struct tr_item *item, struct tr_sql_item *row,
                 uint64_t now_us)
{
    struct tr_truth *t = row->ctx;
    struct tr_ticket *k = TR_CONTAINER_OF(t, struct tr_ticket, truth);

    row->ctx = NULL;
    item->plan->id = row->id;
    item->plan->made_us = t->is.due_us;
    tr_plan_note_job(c, item);
    tr_image_go(c, k, &t->is, now_us); /* nobody waits for it */
}

static tr_item_fn fire;

/* Settings are read again, and whether it may make a job is judged anew. */
static void repeat(struct tr_cluster *c, struct tr_item *item)
{
    if (++item->tries > STALE_MAX) {
        item->tries = 0;
        tr_item_finish(c, item, TARRY_EAWAY);
    } else {
        item->flying = false;
        tr_ctopic_reload(c, item, fire);
    }
}

static void ended_write(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    struct tr_plan *p = item->plan;

    if (ask->end != TR_SQL_DONE) {
        if (ask->end == TR_SQL_UNSURE && p->fires) {
            tr_align_slot(c, item->slot, TR_ALIGN_ALL);
        }
        if (ask->end == TR_SQL_UNDONE && ask->blame == TR_SQL_BAD) {
            tr_item_refuse(c, item, TARRY_EINVAL, ask->why);
        } else {
            tr_item_finish(c, item, tr_desk_status(ask, ask->end));
        }
        return;
    }
    if (p->said == 'S') {
        repeat(c, item);
        return;
    }
    p->now_us = ask->now_us;
    if (p->said == 'O' && p->fires) {
        made(c, item, &ask->items[0], ask->now_us);
    }
    if (p->said == 'O' && p->change.write == TR_SQL_UPDATE) {
        p->number = p->change.is.id;
    }
    if (p->said == 'O' && p->refused != '\0') {
        p->said = p->refused;
    }
    p->then(c, item);
}

const struct tr_desk_way tr_desk_schedule = {.most = 1, .build = build_write, .ended = ended_write};

/* ---- may it make a job? ---- */

static void put(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p->def != NULL || p->fires) {
        p->topic_row = item->topic->row;
        p->slot = item->slot;
    }
    item->since_us = c->now.boot_us;
    if (p->fires) {
        tr_numbers_give(c, item);
    } else {
        tr_lane_put(c, TR_CL_SCHEDULE, item);
    }
}

/* The topic takes no job now: a tick waits, and is tried again in a second. */
static void refuse(struct tr_cluster *c, struct tr_item *item, char why)
{
    struct tr_plan *p = item->plan;

    if (p->what == TR_PLAN_RUN) {
        p->said = why;
        p->then(c, item);
        return;
    }
    p->refused = why;
    p->fires = false;
    p->next = p->at;
    p->live = TR_PLAN_KEEP;
    p->next_held = true;
    p->next_us = tr_cluster_server_now(c) + HELD_US;
    put(c, item);
}

static void check_quota(struct tr_cluster *c, struct tr_item *item)
{
    if (tr_desk_is_full(item->topic, item->plan->is.body_len)) {
        refuse(c, item, 'F');
    } else {
        put(c, item);
    }
}

static void fire(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    uint64_t now_us = c->now.boot_us;

    if (t->row == 0 || !t->known) {
        t->makes = true;
        tr_ctopic_reload(c, item, fire);
    } else if (tr_desk_is_paused(c, &t->policy)) {
        refuse(c, item, 'P');
    } else if (tr_desk_has_quota(&t->policy)) {
        tr_count_topic(c, item, now_us > COUNTED_US ? now_us - COUNTED_US : 0, check_quota);
    } else {
        put(c, item);
    }
}

void tr_desk_plan_write(struct tr_cluster *c, struct tr_item *item)
{
    item->plan->refused = '\0';
    if (item->plan->fires) {
        fire(c, item);
    } else {
        put(c, item);
    }
}
