/*
 * What is asked of schedules.
 *
 *     get, next      roster ──► read ──► answer
 *     pause, resume  roster ──► read ──► write (if it is as it was read; else read again)
 *     run            roster ──► read ──► topic ──► write: a job, and nothing else
 *     drop           roster ──► read ──► write: gone ──► roster: its name goes
 *     set            topic ──► roster: name, number ──► (gone in the slot where it was) ──► read
 * ──► write ──► roster once more ──► answer
 *
 * The slot is one of the topic's, by the schedule's name, so that the job of a tick and the tick
 * are one step. A change of topic is one of slots as a rule: it ends there first, then it begins
 * here, so no tick is made twice; the occurrence that lives there is not waited for any more.
 *
 * With a database names, numbers and slots are in one row, and all of that is one step.
 *
 * Whoever leaves does not stop a change that has begun. The owner of the slot is told of each.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/plan.h"

#include <string.h>

enum { TRIES_MAX = 8, TIMES_A_TURN = 64 };

static const char half_moved[] = "the schedule was taken from its old topic, and is perhaps not at "
                                 "the new one yet: set it again";

/* ---- as it is told ---- */

/* From where on its ticks will be. Of one that is held some will not be: its choice. */
static struct tr_schedule_state ahead(const struct tr_cluster *c, const struct tr_item *item)
{
    const struct tr_plan *p = item->plan;
    struct tr_schedule_plan plan = tr_plan_of(p);

    return p->held && tr_plan_known(p)
               ? tr_schedule_after_miss(&plan, &p->at, tr_cluster_slot_now(c, item->slot))
               : p->at;
}

static void view(const struct tr_cluster *c, const struct tr_item *item, struct tr_schedule_view *v)
{
    const struct tr_plan *p = item->plan;
    struct tr_schedule_plan plan = tr_plan_of(p);
    struct tr_schedule_state at = ahead(c, item);
    uint64_t next = tr_plan_known(p) ? tr_schedule_next(&plan, &at) : TR_SCHEDULE_NEVER;

    *v = (struct tr_schedule_view){
        .number = p->number,
        .name = p->name,
        .name_len = p->name_len,
        .is = &p->is,
        .at = &p->at,
        .next_us = next != TR_SCHEDULE_NEVER
                       ? tr_schedule_due(&p->is, next, tr_plan_seed(p->name, p->name_len))
                       : 0,
        .held = p->held,
        .lost = !tr_plan_known(p),
    };
}

static void tell(struct tr_cluster *c, struct tr_item *item)
{
    if (item->req != NULL) {
        view(c, item, &item->req->out.schedule);
    }
    tr_item_finish(c, item, TARRY_OK);
}

/* What was written is what it is now. */
static void adopt(struct tr_plan *p)
{
    uint64_t live = p->live == TR_PLAN_KEEP ? p->at.live_id : p->live == TR_PLAN_JOB ? p->id : 0;

    p->at = p->next;
    p->at.live_id = live;
    p->held = p->next_held;
    p->there = true;
    memcpy(p->stamp, p->new_stamp, TR_PLAN_STAMP);
}

/* False: it has been tried often enough. */
static bool again(struct tr_cluster *c, struct tr_item *item)
{
    if (++item->tries <= TRIES_MAX) {
        return true;
    }
    tr_item_finish(c, item, TARRY_EAWAY);
    return false;
}

/* ---- pause and resume ---- */

static tr_item_fn set_paused;

static void paused(struct tr_cluster *c, struct tr_item *item)
{
    if (item->plan->said == 'C') {
        if (again(c, item)) {
            tr_plan_read(c, item, set_paused);
        }
        return;
    }
    tr_home_tell(c, item->slot, TR_HOME_AGENDA);
    adopt(item->plan);
    tell(c, item);
}

static void set_paused(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;
    bool pause = item->op == TR_OP_SCHEDULE_PAUSE;
    uint64_t now_us = tr_cluster_slot_now(c, item->slot);

    if (!p->there) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    if (p->at.paused == pause) {
        tell(c, item);
        return;
    }
    p->next = p->at;
    p->next.paused = pause;
    if (!pause) {
        tr_schedule_resume(&p->is, &p->next, now_us);
    }
    p->what = TR_PLAN_SET;
    p->live = TR_PLAN_KEEP;
    p->next_held = false;
    p->next_us = tr_plan_next(p, &p->next, now_us);
    tr_plan_write(c, item, paused);
}

/* ---- run ---- */

static void ran(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_plan *p = item->plan;

    if (p->said != 'O') {
        tr_item_finish(c, item,
                       p->said == 'P'   ? TARRY_EPAUSED
                       : p->said == 'C' ? TARRY_ENOTFOUND /* it has just gone */
                                        : TARRY_EQUOTA);
        return;
    }
    item->id = p->id;
    if (item->req != NULL) {
        struct tr_req r = tr_plan_job(p, &c->backoff);

        tr_push_view(c, item, &r, p->made_us, p->now_us);
    }
    tell(c, item);
}

static void run(struct tr_cluster *c, struct tr_item *item)
{
    item->plan->what = TR_PLAN_RUN;
    item->plan->fires = true;
    item->plan->runs = true;
    tr_plan_write(c, item, ran);
}

static void run_read(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;
    struct tr_ctopic *t = p->there ? tr_ctopic_get(c, p->is.topic.at, p->is.topic.len) : NULL;

    if (!p->there) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else if (c->draining) {
        tr_item_finish(c, item, TARRY_EDRAINING);
    } else {
        tr_item_pin(item, t);
        item->flying = false;
        tr_ctopic_load(c, item, run);
    }
}

/* ---- the end of one ---- */

static void unlisted(struct tr_cluster *c, struct tr_item *item)
{
    tr_item_finish(c, item, item->plan->there ? TARRY_OK : TARRY_ENOTFOUND);
}

static void dropped(struct tr_cluster *c, struct tr_item *item)
{
    tr_home_tell(c, item->slot, TR_HOME_AGENDA);
    tr_roster_say(c, item, 'd', unlisted);
}

static void drop(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p->there) {
        p->what = TR_PLAN_GONE;
        p->any = true;
        tr_plan_write(c, item, dropped);
    } else {
        tr_roster_say(c, item, 'd', unlisted); /* a name without a schedule */
    }
}

/* ---- a new one ---- */

static tr_item_fn set_read;

/* Somebody has set it elsewhere meanwhile: that one stays. */
static void confirmed(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    item->partly = NULL;
    if (p->said == 'C') {
        p->what = TR_PLAN_GONE;
        tr_plan_write(c, item, tell);
        return;
    }
    tell(c, item);
}

static void set(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p->said == 'C') {
        if (again(c, item)) {
            tr_plan_read(c, item, set_read);
        }
        return;
    }
    tr_home_tell(c, item->slot, TR_HOME_AGENDA);
    if (!tr_plan_take(c, p, (const char *)p->def, p->def_len)) {
        item->partly = "the schedule is set, but there is no memory to tell more";
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    adopt(p);
    tr_roster_say(c, item, 'c', confirmed);
}

static unsigned slot_of(const struct tr_item *item)
{
    const struct tr_plan *p = item->plan;

    return item->topic->spots[tr_place_of_key(p->name, p->name_len, item->topic->spread)].slot;
}

/* The one that is there is at hand, if there is one; of the new one, what was asked for. */
static void set_read(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;
    struct tr_schedule_state old = p->at;
    bool there = p->there;
    uint64_t now_us = tr_cluster_slot_now(c, item->slot);
    char stamp[TR_PLAN_STAMP];

    if (c->desk != NULL) {
        item->slot = slot_of(item); /* it may have been read in another one */
    }
    if (item->req != NULL) {
        item->req->out.existed = item->req->out.existed || there;
    }
    if (there && p->byte_count == p->def_len && memcmp(p->bytes, p->def, p->def_len) == 0) {
        tr_roster_say(c, item, 'c', confirmed);
        return;
    }
    memcpy(stamp, p->stamp, TR_PLAN_STAMP);
    if (!tr_plan_take(c, p, (const char *)p->def, p->def_len)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    p->there = there;
    memcpy(p->stamp, stamp, TR_PLAN_STAMP);
    old.paused = there ? old.paused : item->implied;
    old.live_id = there ? old.live_id : 0;
    p->next = tr_schedule_replace(&p->is, &old, now_us);
    p->live = p->next.live_id != 0 ? TR_PLAN_KEEP : TR_PLAN_NONE;
    p->next_held = false;
    p->next_us = tr_plan_next(p, &p->next, now_us);
    p->what = TR_PLAN_SET;
    tr_plan_write(c, item, set);
}

static void read_new(struct tr_cluster *c, struct tr_item *item)
{
    item->slot = tr_place_slot_of(item->plan->number);
    tr_plan_read(c, item, set_read);
}

static void moved(struct tr_cluster *c, struct tr_item *item)
{
    tr_home_tell(c, item->slot, TR_HOME_AGENDA);
    item->plan->any = false;
    read_new(c, item);
}

/* It was in another slot: there it ends. */
static void move(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p->there) {
        item->implied = p->at.paused; /* which it stays */
        if (item->req != NULL) {
            item->req->out.existed = true;
        }
    }
    item->partly = half_moved;
    p->what = TR_PLAN_GONE;
    p->any = true;
    tr_plan_write(c, item, moved);
}

static void named(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p->before != 0) {
        item->slot = tr_place_slot_of(p->before);
        tr_plan_read(c, item, move);
    } else {
        read_new(c, item);
    }
}

static void name(struct tr_cluster *c, struct tr_item *item)
{
    item->slot = slot_of(item);
    item->flying = true; /* goes on, whoever leaves */
    tr_roster_say(c, item, 'p', named);
}

static void define(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_schedule *is = item->req->schedule;
    struct tr_plan *p = item->plan;
    struct tr_ctopic *t = tr_ctopic_get(c, is->topic.at, is->topic.len);
    size_t size = is->body_len + (TR_SCHEDULE_BYTES_MAX - TR_SCHEDULE_BODY_MAX);

    p->def = t != NULL ? tr_mem_alloc(c->mem, size) : NULL;
    if (p->def == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    p->def_size = size;
    p->def_len = tr_schedule_encode(p->def, is);
    tr_item_pin(item, t);
    tr_ctopic_load(c, item, name);
}

/* ---- what will be ---- */

void tr_schedules_turn(struct tr_cluster *c)
{
    struct tr_list *next;
    unsigned left = TIMES_A_TURN;

    for (struct tr_list *n = c->telling.next; n != &c->telling && left > 0; n = next) {
        struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        struct tr_plan *p = item->plan;
        struct tr_schedule_plan plan = tr_plan_of(p);
        struct tr_req *r = item->req;

        next = n->next;
        while (left > 0 && r != NULL && r->out.number < r->count && !p->foretold) {
            uint64_t tick = tr_schedule_next(&plan, &p->ahead);

            left--;
            p->foretold = tick == TR_SCHEDULE_NEVER || p->is.kind == TR_SCHEDULE_AFTER;
            if (tick != TR_SCHEDULE_NEVER) {
                p->times[r->out.number++] =
                    tr_schedule_due(&p->is, tick, tr_plan_seed(p->name, p->name_len));
                p->ahead.tick_us = tick;
                p->ahead.fired++;
            }
        }
        if (r == NULL || r->out.number == r->count || p->foretold) {
            if (r != NULL) {
                r->out.times = p->times;
                view(c, item, &r->out.schedule);
            }
            tr_item_finish(c, item, TARRY_OK);
        }
    }
}

bool tr_schedules_busy(const struct tr_cluster *c)
{
    return c->stage == TR_ENGINE_OPEN && !tr_list_empty(&c->telling);
}

static void foretell(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (!p->there) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    p->times = tr_mem_alloc(c->mem, TR_SCHEDULE_TIMES_MAX * sizeof *p->times);
    if (p->times == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    p->ahead = ahead(c, item);
    p->foretold = !tr_plan_known(p);
    item->flying = false;
    tr_list_remove(&item->link);
    tr_list_append(&c->telling, &item->link);
}

/* Of one that is not made. */
static void foretell_new(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;
    const struct tr_schedule *is = item->req->schedule;
    size_t size = is->body_len + (TR_SCHEDULE_BYTES_MAX - TR_SCHEDULE_BODY_MAX);

    p->def = tr_mem_alloc(c->mem, size);
    p->def_size = p->def != NULL ? size : 0;
    if (p->def == NULL ||
        !tr_plan_take(c, p, (const char *)p->def, tr_schedule_encode(p->def, is))) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    p->at = tr_schedule_begin(&p->is, tr_cluster_server_now(c));
    p->there = true;
    foretell(c, item);
}

/* ---- requests ---- */

static void got(struct tr_cluster *c, struct tr_item *item)
{
    if (item->plan->there) {
        tell(c, item);
    } else {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    }
}

static tr_item_fn next_named;

static void next_read(struct tr_cluster *c, struct tr_item *item)
{
    if (item->plan->there) {
        tell(c, item);
    } else { /* a name without a schedule */
        item->id = item->plan->number;
        tr_roster_after(c, item, next_named);
    }
}

static void next_named(struct tr_cluster *c, struct tr_item *item)
{
    if (item->plan->number == 0) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else if (c->desk != NULL) { /* it was read with its number */
        next_read(c, item);
    } else {
        tr_plan_read(c, item, next_read);
    }
}

/* One that was to move, and could not: it is still where it was. */
static void found_read(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (!p->there && p->before != 0) {
        item->slot = tr_place_slot_of(p->before);
        p->before = 0;
        tr_plan_read(c, item, found_read);
        return;
    }
    switch (item->op) {
    case TR_OP_SCHEDULE_TIMES:
        foretell(c, item);
        break;
    case TR_OP_SCHEDULE_DROP:
        drop(c, item);
        break;
    case TR_OP_SCHEDULE_PAUSE:
    case TR_OP_SCHEDULE_RESUME:
        set_paused(c, item);
        break;
    case TR_OP_SCHEDULE_RUN:
        run_read(c, item);
        break;
    default:
        got(c, item);
        break;
    }
}

static void found(struct tr_cluster *c, struct tr_item *item)
{
    if (item->plan->number == 0) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else if (c->desk != NULL) { /* it was read with its number */
        found_read(c, item);
    } else {
        tr_plan_read(c, item, found_read);
    }
}

/* Can there be such a schedule here? */
static int objection(struct tr_cluster *c, const struct tr_req *r)
{
    const struct tr_schedule *is = r->schedule;
    const struct tr_zone *zone;
    struct tr_cron cron;
    char why[TR_CRON_WHY];

    if (!tr_name_ok(r->name, r->name_len) || !tr_schedule_ok(is) ||
        (is->kind == TR_SCHEDULE_CRON &&
         tr_cron_read(is->cron.at, is->cron.len, &cron, why) != TARRY_OK)) {
        return TARRY_EINVAL;
    }
    if (is->body_len > c->config.body_max) {
        return TARRY_EFULL;
    }
    return tr_atlas_get(&c->atlas, is->tz.at, is->tz.len, &zone);
}

void tr_schedules_ask(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    bool set = item->op == TR_OP_SCHEDULE;
    bool new = set || (item->op == TR_OP_SCHEDULE_TIMES && r->schedule != NULL);
    bool after = item->op == TR_OP_SCHEDULE_AFTER;
    int err = TARRY_OK;

    if ((set && r->schedule == NULL) || r->count > TR_SCHEDULE_TIMES_MAX) {
        err = TARRY_EINVAL;
    } else if (new) {
        err = objection(c, r);
    } else if (!after && (r->name == NULL || !tr_name_ok(r->name, r->name_len))) {
        err = TARRY_ENOTFOUND;
    }
    if (err == TARRY_OK && !tr_plan_new(c, item, after ? "" : r->name, after ? 0 : r->name_len)) {
        err = TARRY_ENOMEM;
    }
    if (err != TARRY_OK) {
        tr_item_finish(c, item, err);
    } else if (set) {
        define(c, item);
    } else if (new) {
        foretell_new(c, item);
    } else if (after) {
        tr_roster_after(c, item, next_named);
    } else {
        tr_roster_find(c, item, found);
    }
}
