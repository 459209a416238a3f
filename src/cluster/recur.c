/*
 * Schedules at work, in the slots that are this node's. The agenda says when:
 *
 *     @name       a tick is due                                 score: its time
 *     !id name    the occurrence id of this schedule has ended  score: when; by whoever ended it
 *
 *     entry ──► read ──► what follows (rules/schedule.c) ──► write, with the job if it fires
 *
 * The entry goes in the same step as the schedule moves on. If somebody was quicker (another owner,
 * a change by a client) nothing is done, and the agenda is looked at again.
 *
 * Now and then the owner sees to it that the roster has the name, which a failover may have undone:
 * else nobody could end the schedule. One that the roster has elsewhere is a move that broke off in
 * the middle, and ends here.
 *
 * With a database the rows have all of that, and sql_recur.c says when.
 *
 * *Missed* are ticks from before this slot was this node's: nobody could serve them then; and those
 * that came while the topic took no job. Due is the moment of the tick, also then.
 */

#include "base/err.h"
#include "cluster/hex.h"
#include "cluster/plan.h"

#include <string.h>

#define LOST_US UINT64_C(60000000) /* a zone that is not there is looked for again */
#define HEAL_US UINT64_C(30000000)
#define DRAIN_US UINT64_C(1000000)

enum { TICK = '@', END = '!', END_HEAD = 1 + TR_HEX_ID };

bool tr_recur_is(struct tr_span entry)
{
    return entry.len > 1 && (entry.at[0] == TICK || (entry.at[0] == END && entry.len > END_HEAD)) &&
           entry.len <= TR_PLAN_ENTRY;
}

static void over(struct tr_cluster *c, struct tr_item *keeper)
{
    tr_item_finish(c, keeper, TARRY_OK);
}

static void listed(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_plan *p = keeper->plan;

    if (p->said == 'C') {
        p->what = TR_PLAN_GONE;
        memcpy(p->stamp, p->new_stamp, TR_PLAN_STAMP);
        tr_plan_write(c, keeper, over);
    } else {
        over(c, keeper);
    }
}

/* Is it time to look whether its name is known? */
static bool is_time(struct tr_cluster *c, const struct tr_plan *p)
{
    uint64_t seed = tr_plan_seed(p->name, p->name_len);
    struct tr_met *met = &c->met[seed % TR_CL_MET];

    if (met->seed == seed && met->at_us + HEAL_US > c->now.boot_us) {
        return false;
    }
    *met = (struct tr_met){seed, c->now.boot_us};
    return true;
}

static void written(struct tr_cluster *c, struct tr_item *keeper)
{
    const struct tr_plan *p = keeper->plan;

    if ((p->said == 'P' || p->said == 'F') && !p->held) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Schedule %s cannot make its job: %s.", p->name,
                        p->said == 'P' ? "its topic is paused for new jobs"
                                       : "its topic has as many jobs as it may have");
    }
    if (c->desk == NULL && p->what == TR_PLAN_SET && p->said == 'O' && is_time(c, p)) {
        tr_roster_say(c, keeper, 'h', listed);
    } else {
        over(c, keeper);
    }
}

static void put(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_plan *p = keeper->plan;

    if (p->fires && tr_ctopic_spot(keeper->topic, keeper->slot) == NULL) {
        p->fires = false; /* its topic has other slots now: it stands still until it is set again */
        p->next = p->at;
        p->live = TR_PLAN_KEEP;
        p->next_us = p->now_us + LOST_US;
        p->next_held = true;
    }
    tr_plan_write(c, keeper, written);
}

/* Its next tick, as far as it is known before the job has its id. */
static uint64_t next_of(const struct tr_plan *p)
{
    struct tr_schedule_state at = p->next;

    if (p->fires) {
        tr_schedule_fired(&p->is, &at, p->due_us, 1, 0);
    }
    if (!tr_plan_known(p) && !tr_schedule_follows(&at)) {
        return p->now_us + LOST_US;
    }
    return tr_plan_next(p, &at, p->now_us);
}

static void decide(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_plan *p = keeper->plan;
    struct tr_schedule_plan plan = tr_plan_of(p);
    struct tr_schedule_when when = {.now_us = p->now_us,
                                    .since_us =
                                        p->held ? p->now_us : c->slots[keeper->slot].since_us,
                                    .seed = tr_plan_seed(p->name, p->name_len)};
    struct tr_ctopic *t;

    p->live = p->next.live_id == p->at.live_id ? TR_PLAN_KEEP : TR_PLAN_NONE;
    if (tr_plan_known(p) || tr_schedule_follows(&p->next)) {
        p->fires = tr_schedule_tick(&plan, &p->next, when, &p->due_us) == TR_SCHEDULE_FIRES;
    }
    p->next_us = next_of(p);
    p->next_held = p->held && p->next_us < p->now_us; /* more may have been missed */
    p->what = TR_PLAN_SET;
    if (!p->fires) {
        tr_plan_write(c, keeper, written);
        return;
    }
    tr_schedule_fired(&p->is, &p->next, p->due_us, 0, 0);
    p->live = tr_schedule_watches(&p->is) ? TR_PLAN_JOB : p->live;
    t = tr_ctopic_get(c, p->is.topic.at, p->is.topic.len);
    if (t == NULL) {
        tr_item_finish(c, keeper, TARRY_ENOMEM);
        return;
    }
    tr_item_pin(keeper, t);
    keeper->flying = false;
    tr_ctopic_load(c, keeper, put);
}

/* Nothing can be done with it now: it makes room for others on the agenda. */
static void postpone(struct tr_cluster *c, struct tr_item *keeper, uint64_t later_us)
{
    keeper->plan->what = TR_PLAN_LATER;
    keeper->plan->later_us = later_us;
    tr_plan_write(c, keeper, written);
}

void tr_recur_read(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_plan *p = keeper->plan;
    uint64_t id = 0;

    p->now_us = tr_cluster_slot_now(c, keeper->slot);
    if (p->strange) {
        postpone(c, keeper, LOST_US);
        return;
    }
    if (!p->there) { /* it is gone */
        p->what = TR_PLAN_GONE;
        tr_plan_write(c, keeper, written);
        return;
    }
    p->next = p->at;
    if (p->entry[0] == END && tr_hex_get(p->entry + 1, TR_HEX_ID, &id) && id == p->at.live_id) {
        tr_schedule_ended(&p->is, &p->next, keeper->number);
    } else if (p->ended_us != 0) { /* as its row says */
        tr_schedule_ended(&p->is, &p->next, p->ended_us);
    }
    decide(c, keeper);
}

void tr_recur_due(struct tr_cluster *c, struct tr_item *keeper, struct tr_span entry,
                  uint64_t at_us)
{
    size_t head = entry.at[0] == END ? END_HEAD : 1;

    if (entry.len - head > TR_SCHEDULE_NAME_MAX ||
        !tr_plan_new(c, keeper, entry.at + head, entry.len - head)) {
        tr_item_finish(c, keeper, TARRY_ENOMEM);
        return;
    }
    memcpy(keeper->plan->entry, entry.at, entry.len);
    keeper->plan->entry_len = entry.len;
    keeper->number = at_us;
    if (c->draining) {
        postpone(c, keeper, DRAIN_US);
        return;
    }
    tr_plan_read(c, keeper, tr_recur_read);
}
