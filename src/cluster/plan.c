/*
 * Schedules as they stand in Redis, two fields in the hash P{s}:s of their slot, which is one of
 * their topic's:
 *
 *     d<name>    definition (rules/schedule.c)
 *     s<name>    stamp, held, the id of the occurrence that lives, state (rules/schedule.c)
 *
 * Each change is one call of the script `schedule`, with the stamp that was read before: if another
 * one stands there by now nothing is done, and who asked reads again. So it is with ticks: the job
 * and how far the schedule has come are one step, and whoever comes second does nothing. That is
 * all there is of "each number once": no owner, epoch or clock is needed for it.
 *
 * *Invariant.* live_id of a state is kept beside it, since the script gives the id; in the bytes of
 * the state it is 0.
 */

#include "cluster/plan.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"

#include <string.h>

enum { READ_MOST = 16, STATE_AT = TR_PLAN_STAMP + 1 + TR_HEX_ID };

bool tr_plan_new(struct tr_cluster *c, struct tr_item *item, const char *name, size_t len)
{
    TR_CHECK(item->plan == NULL && len <= TR_SCHEDULE_NAME_MAX);
    item->plan = tr_mem_alloc(c->mem, sizeof *item->plan);
    if (item->plan == NULL) {
        return false;
    }
    memcpy(item->plan->name, name, len);
    item->plan->name_len = len;
    item->plan->next_us = TR_SCHEDULE_NEVER;
    return true;
}

void tr_plan_forget(struct tr_cluster *c, struct tr_plan *p)
{
    tr_mem_free(c->mem, p->bytes, p->byte_count);
    p->bytes = NULL;
    p->byte_count = 0;
    p->there = false;
    p->held = false;
}

void tr_plan_free(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_plan *p = item->plan;

    if (p == NULL) {
        return;
    }
    item->plan = NULL;
    tr_plan_forget(c, p);
    tr_mem_free(c->mem, p->def, p->def_size);
    tr_mem_free(c->mem, p->times, p->times != NULL ? TR_SCHEDULE_TIMES_MAX * sizeof *p->times : 0);
    tr_mem_free(c->mem, p, sizeof *p);
}

uint64_t tr_plan_seed(const char *name, size_t len)
{
    return (uint64_t)tr_crc(0, name, len) << 32 | tr_place_crc32(name, len);
}

bool tr_plan_take(struct tr_cluster *c, struct tr_plan *p, const char *at, size_t len)
{
    char why[TR_CRON_WHY];

    tr_plan_forget(c, p);
    p->bytes = tr_mem_alloc(c->mem, len);
    if (p->bytes == NULL) {
        return false;
    }
    p->byte_count = len;
    memcpy(p->bytes, at, len);
    if (tr_schedule_decode(p->bytes, len, &p->is) != TARRY_OK ||
        (p->is.kind == TR_SCHEDULE_CRON &&
         tr_cron_read(p->is.cron.at, p->is.cron.len, &p->cron, why) != TARRY_OK)) {
        return false;
    }
    if (tr_atlas_get(&c->atlas, p->is.tz.at, p->is.tz.len, &p->zone) != TARRY_OK) {
        p->zone = NULL;
    }
    return true;
}

bool tr_plan_known(const struct tr_plan *p)
{
    return p->is.kind != TR_SCHEDULE_CRON || p->zone != NULL;
}

struct tr_schedule_plan tr_plan_of(const struct tr_plan *p)
{
    return (struct tr_schedule_plan){.is = &p->is, .cron = &p->cron, .zone = p->zone};
}

uint64_t tr_plan_next(const struct tr_plan *p, const struct tr_schedule_state *at, uint64_t now_us)
{
    struct tr_schedule_plan plan = tr_plan_of(p);

    if (tr_schedule_follows(at)) {
        return now_us;
    }
    return tr_plan_known(p) ? tr_schedule_next(&plan, at) : TR_SCHEDULE_NEVER;
}

/* ---- reading ---- */

static void add_field(struct tr_eval *e, char which, const struct tr_plan *p)
{
    char field[TR_SCHEDULE_NAME_MAX + 2];

    field[0] = which;
    memcpy(field + 1, p->name, p->name_len);
    tr_eval_add(e, field, p->name_len + 1);
}

static void build_read(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "HMGET");
    tr_eval_add(e, key, tr_place_schedules_key(key, &c->layout, lane->slot));
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);

        add_field(e, 'd', item->plan);
        add_field(e, 's', item->plan);
    }
}

int tr_plan_learn(struct tr_cluster *c, struct tr_plan *p, struct tr_span def, struct tr_span state)
{
    if (tr_schedule_state_decode((const uint8_t *)state.at, state.len, &p->at) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    if (!tr_plan_take(c, p, def.at, def.len)) {
        return p->bytes == NULL ? TARRY_ENOMEM : TARRY_EDAMAGED;
    }
    p->there = true;
    return TARRY_OK;
}

static int learn(struct tr_cluster *c, struct tr_plan *p, struct tr_span def, struct tr_span state)
{
    uint64_t live;
    int err;

    if (def.at == NULL || state.at == NULL) {
        tr_plan_forget(c, p);
        return TARRY_OK;
    }
    if (state.len < STATE_AT || !tr_hex_get(state.at + TR_PLAN_STAMP + 1, TR_HEX_ID, &live)) {
        return TARRY_EDAMAGED;
    }
    err = tr_plan_learn(c, p, def, (struct tr_span){state.at + STATE_AT, state.len - STATE_AT});
    if (err == TARRY_OK) {
        memcpy(p->stamp, state.at, TR_PLAN_STAMP);
        p->held = state.at[TR_PLAN_STAMP] == 'h';
        p->at.live_id = live;
    }
    return err;
}

void tr_plan_was_read(struct tr_cluster *c, struct tr_item *item, int err)
{
    item->plan->strange = err == TARRY_EDAMAGED;
    if (err == TARRY_OK || (item->plan->strange && item->inner)) {
        item->plan->then(c, item);
    } else {
        tr_item_finish(c, item, err);
    }
}

static void heard_read(struct tr_cluster *c, struct tr_clane *lane,
                       const struct tr_redis_reply *reply)
{
    struct tr_item *item;

    for (size_t i = 0;
         reply->count == 2 * (size_t)lane->count && (item = tr_lane_next(lane)) != NULL; i++) {
        tr_plan_was_read(c, item,
                         learn(c, item->plan, reply->items[2 * i], reply->items[2 * i + 1]));
    }
}

const struct tr_cl_way tr_plan_way = {
    .script = -1, .most = READ_MOST, .build = build_read, .heard = heard_read};

void tr_plan_read(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->plan->then = then;
    tr_lane_put(c, TR_CL_PLAN, item);
}

/* ---- writing ---- */

struct tr_req tr_plan_job(const struct tr_plan *p, struct tr_backoff *room)
{
    const struct tr_schedule *is = &p->is;
    struct tr_req r = {.op = TR_OP_PUSH,
                       .exact = p->what == TR_PLAN_SET && tr_schedule_watches(is),
                       .name = p->name,
                       .name_len = p->name_len,
                       .at_us = p->runs ? 0 : p->due_us,
                       .priority = is->has_priority ? is->priority : 1024,
                       .ttr_us = is->ttr_us,
                       .ttl_us = is->ttl_us,
                       .tag = is->tag.at,
                       .tag_len = is->tag.len,
                       .has_retries = is->has_retries,
                       .retries = is->retries,
                       .body = is->body,
                       .body_len = is->body_len};

    if (is->backoff.len != 0 &&
        tr_backoff_decode((const uint8_t *)is->backoff.at, is->backoff.len, room) == TARRY_OK) {
        r.backoff = room;
    }
    return r;
}

static void add_job(struct tr_clane *lane, const struct tr_item *item)
{
    struct tr_backoff backoff;
    struct tr_req r = tr_plan_job(item->plan, &backoff);

    tr_eval_push(&lane->call.eval, tr_lane_topic(lane, item->topic), &r, 0);
}

static void add_state(struct tr_eval *e, const struct tr_plan *p)
{
    struct tr_schedule_state at = p->next;
    uint8_t bytes[TR_SCHEDULE_STATE_MAX];
    char held = p->next_held ? 'h' : '-';
    char live = (char)p->live;

    at.live_id = 0;
    at.live_topic = 0;
    tr_eval_add(e, p->new_stamp, TR_PLAN_STAMP);
    tr_eval_add(e, &held, 1);
    tr_eval_add(e, &live, 1);
    tr_eval_add(e, (const char *)bytes, tr_schedule_state_encode(bytes, &at));
    tr_eval_add(e, (const char *)p->def, p->def != NULL ? p->def_len : 0);
    if (p->next_us != TR_SCHEDULE_NEVER) {
        tr_eval_add_number(e, p->next_us);
    } else {
        tr_eval_add(e, "", 0);
    }
    tr_eval_add(e, p->entry, p->entry_len);
}

static void build_write(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    struct tr_plan *p = item->plan;
    struct tr_eval *e = &lane->call.eval;
    char what = (char)p->what;

    tr_eval_add(e, &what, 1);
    tr_eval_add(e, p->name, p->name_len);
    tr_eval_add(e, p->any ? "*" : p->stamp, p->any ? 1 : p->there ? TR_PLAN_STAMP : 0);
    memcpy(p->new_stamp, c->node, TR_PLACE_NODE_DIGITS);
    tr_hex_put(p->new_stamp + TR_PLACE_NODE_DIGITS, TR_HEX_ID, lane->op);
    if (p->what == TR_PLAN_GONE || p->what == TR_PLAN_LATER) {
        tr_eval_add(e, p->entry, p->entry_len);
        tr_eval_add_number(e, p->later_us);
        return;
    }
    if (p->what == TR_PLAN_SET) {
        add_state(e, p);
    } else {
        for (unsigned i = 0; i < 7; i++) {
            tr_eval_add(e, "", 0);
        }
    }
    tr_eval_add_number(e, c->slots[lane->slot].seen);
    tr_eval_add_number(e, lane->slot);
    if (p->fires) {
        add_job(lane, item);
    }
}

void tr_plan_note_job(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_plan *p = item->plan;
    uint64_t *seen = &c->slots[item->slot].seen;

    if (tr_place_seq_of(p->id) > *seen) {
        *seen = tr_place_seq_of(p->id);
    }
    tr_find_note(c, p->id, item->topic);
    tr_count_changed(c, item->topic, item->slot);
    item->topic->pushed++;
    c->totals.pushed++;
    tr_gauge_pushed(c, item->topic);
}

static void answered_write(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_plan *p = item->plan;
    struct tr_span said = a->count == 1 ? a->items[0] : (struct tr_span){0};

    p->said = '\0';
    if (said.len > 0) {
        p->said = said.at[0];
    }
    p->now_us = a->now_us;
    if (p->said == 'O' &&
        (said.len != 1 + 2 * TR_HEX_ID || !tr_hex_get(said.at + 1, TR_HEX_ID, &p->id) ||
         !tr_hex_get(said.at + 1 + TR_HEX_ID, TR_HEX_ID, &p->made_us))) {
        p->said = '\0';
    }
    if (p->said == '\0') {
        tr_item_finish(c, item, TARRY_EDAMAGED);
        return;
    }
    if (p->said == 'O' && p->fires) {
        lane->soonest_us = p->made_us;
        tr_plan_note_job(c, item);
    }
    p->then(c, item);
}

const struct tr_cl_way tr_schedule_way = {.script = TR_SCRIPT_SCHEDULE,
                                          .most = 1,
                                          .jobs = true,
                                          .schedules = true,
                                          .build = build_write,
                                          .answered = answered_write};

void tr_plan_write(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->plan->then = then;
    if (c->desk != NULL) {
        tr_desk_plan_write(c, item);
        return;
    }
    if (item->plan->fires) {
        tr_ctopic_note(c, item->topic, false);
    }
    tr_lane_put(c, TR_CL_SCHEDULE, item);
}
