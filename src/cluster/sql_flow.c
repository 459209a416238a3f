/*
 * What happened to a job, live or gone, from rows: its own, and those of the table `flow`.
 *
 *     row, flow ──► pushed, due │ what was written, step by step │ dead, gone
 *
 * With `history = brief` one line is written, when a job ends, which says when it was made and when
 * it was first handed out; with `full` one for each change. A live job is its own record. So what
 * is told is made of what there is: lines that say it, and else what the row or the last line
 * knows. Becoming due is written nowhere, and is told of live jobs only.
 *
 * Lines of days that are over go as a whole; the node that owns the first slot sees to it, now and
 * then.
 */

#include "base/err.h"
#include "cluster/desk.h"

#include <string.h>

#define LOOK_US UINT64_C(3600000000)
#define AGAIN_US UINT64_C(60000000)
#define SLICE_US UINT64_C(1000000)

enum { EVENTS = TR_SQL_FLOW_MAX + 4 };

/* ---- days ---- */

static void days_gone(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_desk *d = c->desk;

    d->days_us = c->now.boot_us + (call->ask.end != TR_SQL_DONE ? AGAIN_US
                                   : call->ask.number == 1      ? LOOK_US
                                                                : SLICE_US);
}

static bool may(const struct tr_cluster *c)
{
    return c->stage == TR_ENGINE_OPEN && c->owns && c->slots[0].owned && !c->desk->days.busy &&
           !c->leaving && c->server_at_us != 0;
}

void tr_flow_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;
    uint64_t now_us = tr_cluster_server_now(c);

    if (!may(c) || d->days_us > c->now.boot_us || tr_desk_down(c)) {
        return;
    }
    d->days.done = days_gone;
    d->days.ask = (struct tr_sql_ask){
        .kind = TR_SQL_DAYS,
        .from_us = now_us > c->config.history_us ? now_us - c->config.history_us : 0};
    tr_desk_send(c, &d->days);
}

uint64_t tr_flow_next(const struct tr_cluster *c)
{
    const struct tr_desk *d = c->desk;

    if (!may(c)) {
        return TR_CL_NEVER;
    }
    return d->days_us > d->down_us ? d->days_us : d->down_us;
}

void tr_flow_free(struct tr_cluster *c)
{
    tr_mem_free(c->mem, c->desk->events, EVENTS * sizeof *c->desk->events);
    c->desk->events = NULL;
}

/* ---- one job ---- */

void tr_flow_ask(struct tr_cluster *c, struct tr_item *item)
{
    if (tr_place_id_ok(&c->layout, item->id)) {
        item->slot = tr_place_slot_of(item->id);
        tr_lane_put(c, TR_CL_FLOW, item);
    } else {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    }
}

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_item *row = tr_desk_items(c, lane, 1);

    if (row != NULL) {
        *row = (struct tr_sql_item){.by = TR_SQL_BY_ID, .id = tr_desk_first(lane)->id};
        lane->sql->call.ask.kind = TR_SQL_FLOW;
    }
    return row != NULL;
}

/* A number of the line that is written when a job ends: "created=1 delay=0 handed=2". */
static uint64_t number_in(struct tr_span info, const char *name)
{
    size_t len = strlen(name);
    uint64_t number = 0;

    for (size_t i = 0; i + len < info.len; i++) {
        if (memcmp(info.at + i, name, len) == 0) {
            for (i += len; i < info.len && info.at[i] >= '0' && info.at[i] <= '9'; i++) {
                number = number * 10 + (uint64_t)(info.at[i] - '0');
            }
        }
    }
    return number;
}

/* What is known of it besides lines. */
struct known {
    bool lives;
    struct tr_sql_job is;
    uint64_t created_us, delay_us, handed_us;
    uint64_t now_us;
};

static bool has(const struct tr_sql_ask *ask, enum tr_event_what what)
{
    for (uint64_t i = 0; i < ask->number; i++) {
        if (ask->flow[i].event == what) {
            return true;
        }
    }
    return false;
}

static void add(struct tr_event *e, unsigned *n, struct tr_event event)
{
    unsigned at = (*n)++;

    while (at > 0 && e[at - 1].at_us > event.at_us) { /* few, and nearly in order */
        e[at] = e[at - 1];
        at--;
    }
    e[at] = event;
}

/* Those of the lines first, so that of two at the same time the one that was written comes last. */
static unsigned tell(struct tr_cluster *c, const struct tr_sql_ask *ask, const struct known *k)
{
    struct tr_event *e = c->desk->events;
    const struct tr_sql_job *is = &k->is;
    unsigned n = 0;

    if (k->created_us != 0 && !has(ask, TR_EVENT_PUSHED)) {
        add(e, &n,
            (struct tr_event){.at_us = k->created_us,
                              .what = TR_EVENT_PUSHED,
                              .state = (uint8_t)(k->delay_us > 0 ? TR_DELAYED : TR_READY)});
    }
    if (k->lives && is->due_us > is->created_us && is->due_us <= k->now_us &&
        is->state != TR_SQL_DEAD) {
        add(e, &n,
            (struct tr_event){.at_us = is->due_us, .what = TR_EVENT_READY, .state = TR_READY});
    }
    if (k->handed_us != 0 && !has(ask, TR_EVENT_HANDED)) {
        add(e, &n,
            (struct tr_event){
                .at_us = k->handed_us, .what = TR_EVENT_HANDED, .state = TR_RESERVED});
    }
    for (uint64_t i = ask->number; i > 0; i--) {
        const struct tr_sql_past *p = &ask->flow[i - 1];

        add(e, &n,
            (struct tr_event){.at_us = p->at_us,
                              .what = p->event,
                              .state = p->to,
                              .why = p->why,
                              .actor = tr_cluster_actor(c, p->actor.at, p->actor.len)});
    }
    if (k->lives && is->state == TR_SQL_DEAD && !has(ask, TR_EVENT_DEAD)) {
        add(e, &n,
            (struct tr_event){
                .at_us = is->next_us, .what = TR_EVENT_DEAD, .state = TR_DEAD, .why = is->why});
    }
    return n;
}

static void show(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_ask *ask)
{
    const struct tr_sql_item *row = &ask->items[0];
    struct known k = {.now_us = ask->now_us};

    k.lives = tr_truth_look(row, ask->now_us, &k.is);
    if (k.lives) {
        k.created_us = k.is.created_us;
        k.delay_us = tr_truth_delay(&k.is);
        k.handed_us = k.is.handed_us;
    } else if (ask->number > 0) {
        k.created_us = number_in(ask->flow[0].info, "created=");
        k.delay_us = number_in(ask->flow[0].info, "delay="); /* older lines have none */
        k.handed_us = number_in(ask->flow[0].info, "handed=");
    }
    if (!k.lives && ask->number == 0) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    if (c->desk->events == NULL) {
        c->desk->events = tr_mem_alloc(c->mem, EVENTS * sizeof *c->desk->events);
    }
    if (c->desk->events == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    item->req->out.number = tell(c, ask, &k);
    item->req->out.events = c->desk->events;
    tr_item_finish(c, item, TARRY_OK);
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = tr_desk_status(ask, ask->end);

    item->flying = false;
    if (status != TARRY_OK || item->req == NULL) {
        tr_item_finish(c, item, status == TARRY_EUNSURE ? TARRY_EAWAY : status);
    } else {
        show(c, item, ask);
    }
}

const struct tr_desk_way tr_desk_flow = {.most = 1, .build = build, .ended = ended};
