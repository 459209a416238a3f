/*
 * Random clients.
 *
 * A client is a connection (its own holder number, a new one after each restart) or works with
 * tokens (holder 0, leases by number). Most requests make sense by the model; some name jobs that
 * are gone, or leases that are over, and some make no sense at all.
 */
#include "workload.h"

#include "base/check.h"

#include <string.h>

static const uint64_t MS = 1000;
static const uint64_t SEC = 1000000;

void sim_work_reset(struct sim_work *w, struct sim_oracle *o, const struct sim_params *p,
                    uint64_t seed)
{
    w->rng.state = seed;
    w->oracle = o;
    w->params = p;
    w->next_holder = 1;
    w->past_count = 0;
    w->no_kick = false;
    memset(w->listings, 0, sizeof(w->listings));
    sim_work_restart(w);
}

void sim_work_reconnect(struct sim_work *w, unsigned client)
{
    bool token = client >= w->params->conns && client != SIM_DRAINER;

    w->holders[client] = token ? 0 : w->next_holder++;
}

void sim_work_restart(struct sim_work *w)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        sim_work_reconnect(w, i);
    }
}

static void remember(struct sim_work *w, const struct sim_job *j)
{
    w->past[w->past_count++ % SIM_PAST_MAX] = (struct sim_past){j->id, j->holder, j->lease};
}

struct sim_ask *sim_work_blank(struct sim_work *w, unsigned client, enum tr_op op)
{
    struct sim_ask *a = &w->oracle->asks[client];

    TR_CHECK(!a->pending);
    TR_CHECK(!a->answered);
    a->req = (struct tr_req){.op = op, .holder = w->holders[client]};
    a->client = client;
    a->topic = 0;
    a->key = 0;
    a->wrong = false;
    return a;
}

void sim_work_for_topic(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    struct sim_topic *t = &w->oracle->model.topics[topic];

    a->topic = topic;
    sim_answer_topic_gone(w->oracle, topic);
    if (t->number == 0) {
        a->req = (struct tr_req){.op = TR_OP_HOLD_TOPIC, .holder = a->req.holder};
        a->req.name = t->name;
        a->req.name_len = strlen(t->name);
        a->wrong = false;
        a->key = 0;
    }
    a->req.topic = t->number;
}

/* ---- Jobs to ask about. */

enum pick { PICK_LIVE, PICK_DEAD, PICK_PENDING, PICK_MINE, PICK_ANY };

static bool fits(const struct sim_job *j, enum pick pick, uint64_t holder)
{
    switch (pick) {
    case PICK_LIVE:
        return j->where != SIM_GONE;
    case PICK_DEAD:
        return j->where == SIM_DEAD;
    case PICK_PENDING:
        return j->where == SIM_PENDING;
    case PICK_MINE:
        return j->where == SIM_RESERVED && j->holder == holder;
    default:
        return j->id != 0;
    }
}

static const struct sim_job *pick_job(struct sim_work *w, enum pick pick, uint64_t holder)
{
    const struct sim_model *m = &w->oracle->model;
    const struct sim_job *found = NULL;
    uint64_t count = 0;

    for (size_t i = 0; i < m->job_count; i++) {
        if (fits(&m->jobs[i], pick, holder) && tr_rng_below(&w->rng, ++count) == 0) {
            found = &m->jobs[i];
        }
    }
    return found;
}

/* A job of this kind, or (now and then, or if there is none) any number. */
static uint64_t pick_id(struct sim_work *w, enum pick pick)
{
    const struct sim_job *j;

    if (sim_dice(&w->rng, w->params->stale_pct / 4)) {
        pick = PICK_ANY;
    }
    j = pick_job(w, pick, 0);
    return j != NULL ? j->id : sim_between(&w->rng, 0, w->oracle->id_told + 3);
}

/* True when a client has this connection now; others cannot speak for it. */
static bool connected(const struct sim_work *w, uint64_t holder)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX && holder != 0; i++) {
        const struct sim_ask *a = &w->oracle->asks[i];

        if (w->holders[i] == holder ||
            (a->pending && a->req.op == TR_OP_CLOSE && a->req.holder == holder)) {
            return true;
        }
    }
    return false;
}

/* Names a job that the client holds, or tries an old lease. */
static void pick_held(struct sim_work *w, struct sim_ask *a)
{
    const struct sim_job *j = pick_job(w, PICK_MINE, a->req.holder);

    if (w->past_count > 0 && (j == NULL || sim_dice(&w->rng, w->params->stale_pct))) {
        unsigned many = w->past_count < SIM_PAST_MAX ? w->past_count : SIM_PAST_MAX;
        const struct sim_past *past = &w->past[tr_rng_below(&w->rng, many)];

        a->req.id = past->id;
        a->req.lease = past->lease;
        if (sim_dice(&w->rng, 50) && !connected(w, past->holder)) {
            a->req.holder = past->holder;
        }
    } else if (j != NULL) {
        a->req.id = j->id;
        a->req.lease = j->lease;
        if (sim_dice(&w->rng, 50)) {
            remember(w, j);
        }
    } else {
        a->req.id = pick_id(w, PICK_LIVE);
        a->req.lease = sim_between(&w->rng, 1, 100);
    }
    if (a->req.holder != 0) {
        a->req.lease = 0;
    } else if (a->req.lease == 0) {
        a->req.lease = 1;
    }
}

/* ---- Values. */

static uint64_t draw_delay(struct sim_work *w)
{
    if (!sim_dice(&w->rng, w->params->delay_pct)) {
        return 0;
    }
    if (!sim_dice(&w->rng, w->params->far_pct)) {
        return sim_spread(&w->rng, 1, 5 * SEC);
    }
    return sim_spread(&w->rng, 30 * SEC, sim_dice(&w->rng, 80) ? 86400 * SEC : TR_DELAY_MAX_US);
}

static void draw_due(struct sim_work *w, struct sim_ask *a)
{
    uint64_t wall = w->oracle->model.now.wall_us;

    a->req.delay_us = draw_delay(w);
    if (sim_dice(&w->rng, 20)) {
        a->req.at_us = sim_dice(&w->rng, 80) ? wall + a->req.delay_us
                                             : wall - sim_between(&w->rng, 1, 3600 * SEC);
        a->req.delay_us = 0;
    }
}

static uint32_t draw_priority(struct sim_work *w)
{
    static const uint32_t some[] = {0, 1, 1023, 1024, 1025, UINT32_MAX};

    return sim_dice(&w->rng, 70) ? (uint32_t)tr_rng_below(&w->rng, 4)
                                 : some[tr_rng_below(&w->rng, sizeof(some) / sizeof(some[0]))];
}

static void draw_body(struct sim_work *w, struct sim_ask *a)
{
    uint64_t len = tr_rng_below(&w->rng, 100);

    if (sim_dice(&w->rng, w->params->body_big_pct)) {
        len = sim_spread(&w->rng, w->params->body_least, w->params->body_max);
    }
    a->body_seed = tr_rng_next(&w->rng);
    sim_body_fill(a->body_seed, w->bodies[a->client], (uint32_t)len);
    a->req.body = w->bodies[a->client];
    a->req.body_len = len;
}

static uint64_t draw_ttr(struct sim_work *w)
{
    return sim_spread(&w->rng, MS, w->params->ttr_max_us);
}

static uint64_t draw_wait(struct sim_work *w)
{
    if (!sim_dice(&w->rng, w->params->wait_pct)) {
        return 0;
    }
    return sim_dice(&w->rng, 50) ? TR_WAIT_FOREVER : sim_spread(&w->rng, 1, 10 * SEC);
}

/* ---- Requests. */

static void give_key(struct sim_ask *a, uint32_t key)
{
    a->key = key;
    a->req.key_len = sim_key_text(key, a->key_text);
    a->req.key = a->key_text;
}

static void draw_push_key(struct sim_work *w, struct sim_ask *a)
{
    if (w->params->key_pct == 0 || !sim_dice(&w->rng, w->params->key_pct)) {
        return;
    }
    give_key(a, (uint32_t)sim_between(&w->rng, 1, w->params->keys));
    a->req.conflict = (enum tr_conflict)tr_rng_below(&w->rng, TR_CONFLICT_COUNT);
    if (sim_dice(&w->rng, 2)) {
        a->wrong = true;
        a->req.key_len = SIM_KEY_BYTES + 1;
    }
}

/* A request that names a job names it, or another one, by key. */
static void by_key(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    const struct sim_job *j = sim_model_find(&w->oracle->model, a->req.id);
    uint32_t key = (uint32_t)sim_between(&w->rng, 1, w->params->keys);

    if (j != NULL && j->key != 0) {
        topic = j->topic;
        key = j->key;
    } else if (!sim_dice(&w->rng, 40)) {
        return;
    }
    give_key(a, key);
    a->req.id = 0;
    sim_work_for_topic(w, a, topic);
}

static void draw_push(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    draw_due(w, a);
    draw_body(w, a);
    a->req.priority = draw_priority(w);
    a->req.ttr_us = sim_dice(&w->rng, 90) ? draw_ttr(w) : 0;
    a->req.beanstalk = sim_dice(&w->rng, 50);
    sim_extra_draw(a, &w->rng);
    if (sim_dice(&w->rng, 1)) {
        a->wrong = true;
        if (sim_dice(&w->rng, 50)) {
            a->req.body_len = w->params->body_max + 1;
        } else {
            a->req.at_us = 0;
            a->req.delay_us = TR_DELAY_MAX_US + 1 + tr_rng_below(&w->rng, 1000);
        }
    }
    draw_push_key(w, a);
    sim_work_for_topic(w, a, topic);
}

static void draw_reserve(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    struct sim_model *m = &w->oracle->model;
    unsigned count = 0;

    a->req.order = sim_dice(&w->rng, 50) ? TR_ORDER_DUE : TR_ORDER_ID;
    a->req.wait_us = draw_wait(w);
    if (w->params->tag_pct != 0 && sim_dice(&w->rng, w->params->tag_pct)) {
        sim_tag_draw(a, &w->rng);
        a->req.order = TR_ORDER_DUE; /* with a tag there is no other */
    }
    if (sim_dice(&w->rng, w->params->warn_pct)) { /* with holder 0 it means nothing */
        a->req.warn_us = sim_spread(&w->rng, 1, 2 * SEC);
    }
    if (a->req.holder == 0 && sim_dice(&w->rng, 30)) {
        a->req.ttr_us = draw_ttr(w);
    }
    sim_work_for_topic(w, a, topic);
    if (a->req.op != TR_OP_RESERVE) {
        return;
    }
    for (unsigned i = 0; i < m->topic_count; i++) {
        if (i == topic || (m->topics[i].number != 0 && sim_answer_topic_is_used(w->oracle, i) &&
                           sim_dice(&w->rng, 50))) {
            a->topics[count] = i;
            a->numbers[count++] = m->topics[i].number;
        }
    }
    a->req.topics = a->numbers;
    a->req.topic_count = count;
}

static void draw_delete(struct sim_work *w, struct sim_ask *a)
{
    if (sim_dice(&w->rng, 60)) {
        pick_held(w, a);
        return;
    }
    a->req.id = pick_id(w, sim_dice(&w->rng, 30) ? PICK_DEAD : PICK_LIVE);
    a->req.force = sim_dice(&w->rng, 15);
}

static void draw_bury(struct sim_work *w, struct sim_ask *a)
{
    a->req.force = w->params->bury_pct != 0 && sim_dice(&w->rng, w->params->bury_pct);
    if (a->req.force) {
        a->req.id = pick_id(w, sim_dice(&w->rng, 20) ? PICK_DEAD : PICK_PENDING);
    } else {
        pick_held(w, a);
    }
}

static void draw_edit(struct sim_work *w, struct sim_ask *a)
{
    a->req.id = pick_id(w, PICK_PENDING);
    a->req.edit = (unsigned)sim_between(&w->rng, 1, 15);
    if (sim_dice(&w->rng, 40)) {
        a->req.edit = (unsigned)sim_between(&w->rng, 1, 63);
        sim_extra_draw(a, &w->rng);
    }
    if (a->req.edit & TR_EDIT_DUE) {
        draw_due(w, a);
    }
    if (a->req.edit & TR_EDIT_BODY) {
        draw_body(w, a);
    }
    a->req.priority = draw_priority(w);
    a->req.ttr_us = draw_ttr(w);
}

static void draw_forecast(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    uint64_t wall = w->oracle->model.now.wall_us;
    uint64_t hour_us = w->params->hour_us;
    uint64_t range =
        sim_spread(&w->rng, hour_us / 3600, sim_dice(&w->rng, 30) ? TR_DELAY_MAX_US : 4 * hour_us);

    a->req.from_us = sim_dice(&w->rng, 60) ? wall - sim_between(&w->rng, 0, 1000)
                                           : wall + sim_spread(&w->rng, 1, 2 * hour_us);
    a->req.until_us = (a->req.from_us > wall ? a->req.from_us : wall) + range;
    a->req.step_us = range / sim_between(&w->rng, 1, 30) + 1;
    if (sim_dice(&w->rng, 2)) {
        a->wrong = true;
        if (sim_dice(&w->rng, 30)) {
            a->req.until_us = a->req.from_us;
        } else { /* too many, or none */
            a->req.step_us = range > 3600 * SEC ? range / TR_FORECAST_STEPS_MAX / 2 : 0;
        }
    }
    if (sim_dice(&w->rng, 60)) {
        sim_work_for_topic(w, a, topic);
    }
}

static void draw_topic_op(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    const struct sim_model *m = &w->oracle->model;
    const struct sim_topic *t = &m->topics[topic];

    a->topic = topic;
    a->req.name = t->name;
    a->req.name_len = strlen(t->name);
    a->req.hold = sim_dice(&w->rng, 50) ? TR_HOLD_USE : TR_HOLD_WATCH;
    if (a->req.op == TR_OP_HOLD_TOPIC && sim_dice(&w->rng, 5)) {
        a->wrong = true;
        a->req.name = "-no name";
        a->req.name_len = sim_dice(&w->rng, 50) ? 8 : 0;
    }
    if (a->req.op == TR_OP_DROP_TOPIC) {
        if (t->holds[a->req.hold] == 0 || t->number == 0) {
            a->req.op = TR_OP_FIND_TOPIC;
        }
        a->req.topic = t->number;
    }
    if (a->req.op == TR_OP_NEXT_TOPIC) {
        a->req.topic = sim_dice(&w->rng, 30) ? 0 : t->number;
    }
}

static void draw_filter(struct sim_work *w, struct tr_filter *f)
{
    uint64_t wall = w->oracle->model.now.wall_us;

    f->states = sim_dice(&w->rng, 50) ? 0 : (unsigned)tr_rng_below(&w->rng, 16) << TR_DELAYED;
    if (sim_dice(&w->rng, 20)) {
        f->due_from_us = wall - SEC + sim_spread(&w->rng, 1, 86400 * SEC);
    }
    if (sim_dice(&w->rng, 20)) {
        f->due_to_us = wall + sim_spread(&w->rng, 1, 86400 * SEC);
    }
}

/* Of all topics, or with a tag only, now and then. */
static void draw_about(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    if (sim_dice(&w->rng, 25)) {
        sim_tag_draw(a, &w->rng);
        a->req.filter.tag = a->tag_text;
        a->req.filter.tag_len = a->req.tag_len;
        a->req.tag_len = 0;
    }
    if (!sim_dice(&w->rng, 25)) {
        sim_work_for_topic(w, a, topic);
    }
}

static void draw_bulk(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    draw_filter(w, &a->req.filter);
    a->req.bulk = (enum tr_bulk_what)tr_rng_below(&w->rng, TR_BULK_COUNT);
    a->req.shift_us = (int64_t)sim_spread(&w->rng, 1, 3600 * SEC);
    if (sim_dice(&w->rng, 40)) {
        a->req.shift_us = -a->req.shift_us;
    }
    a->req.count = sim_dice(&w->rng, 30) ? sim_spread(&w->rng, 1, 20) : 0;
    a->req.dry_run = sim_dice(&w->rng, 20);
    if (sim_dice(&w->rng, 1)) {
        a->wrong = true;
        a->req.filter.states = 1;
    }
    if (sim_dice(&w->rng, 20)) {
        a->req.at_us = w->oracle->model.now.wall_us - SEC + sim_spread(&w->rng, 1, 3600 * SEC);
    }
    draw_about(w, a, topic);
}

/* A page: the first one, or the next after the last that this client got. */
static void draw_list(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    struct sim_listing *last = &w->listings[a->client];

    if (last->cursor.more && sim_dice(&w->rng, 70)) {
        topic = last->topic;
        a->req.cursor = last->cursor;
        a->req.filter = last->filter;
    } else {
        draw_filter(w, &a->req.filter);
    }
    a->req.count = sim_spread(&w->rng, 1, sim_dice(&w->rng, 80) ? 30 : TR_LIST_MAX);
    if (sim_dice(&w->rng, 1)) {
        a->wrong = true;
        a->req.count = sim_dice(&w->rng, 50) ? 0 : TR_LIST_MAX + 1;
    }
    *last = (struct sim_listing){.topic = topic, .filter = a->req.filter};
    last->filter.tag_len = 0;
    draw_about(w, a, topic);
}

/* How far the test clock is to go; now and then nowhere, or back. */
static void draw_advance(struct sim_work *w, struct sim_ask *a)
{
    uint64_t by = sim_spread(&w->rng, 1, sim_dice(&w->rng, 70) ? 10 * SEC : 3 * 86400 * SEC);

    if (sim_dice(&w->rng, 50)) {
        a->req.delay_us = sim_dice(&w->rng, 5) ? 0 : by;
    } else {
        a->req.at_us = w->oracle->model.now.wall_us + by - (sim_dice(&w->rng, 10) ? 5 * SEC : 0);
    }
    if (sim_dice(&w->rng, 1)) {
        a->wrong = true;
        a->req.at_us = 0;
        a->req.delay_us = TR_DELAY_MAX_US + 1;
    }
}

/* Requests about a whole topic; false: it is another one. */
static bool fill_many(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    switch (a->req.op) {
    case TR_OP_LIST:
        draw_list(w, a, topic);
        return true;
    case TR_OP_BULK:
        draw_bulk(w, a, topic);
        return true;
    case TR_OP_FORECAST:
        draw_forecast(w, a, topic);
        return true;
    case TR_OP_POLICY:
        sim_policy_draw(a, &w->rng, w->oracle->model.now.wall_us, w->bodies[a->client]);
        sim_work_for_topic(w, a, topic);
        return true;
    case TR_OP_PURGE:
    case TR_OP_STAT_TOPIC:
        sim_work_for_topic(w, a, topic);
        return true;
    case TR_OP_ADVANCE:
        draw_advance(w, a);
        return true;
    default:
        return false;
    }
}

static void fill(struct sim_work *w, struct sim_ask *a, unsigned topic)
{
    if (fill_many(w, a, topic)) {
        return;
    }
    switch (a->req.op) {
    case TR_OP_PUSH:
        draw_push(w, a, topic);
        return;
    case TR_OP_RESERVE:
        draw_reserve(w, a, topic);
        return;
    case TR_OP_DELETE:
        draw_delete(w, a);
        return;
    case TR_OP_RELEASE:
        a->req.by_backoff = sim_dice(&w->rng, 40);
        a->req.delay_us = a->req.by_backoff ? 0 : draw_delay(w);
        a->req.priority = draw_priority(w);
        a->req.keep_priority = sim_dice(&w->rng, 20);
        pick_held(w, a);
        return;
    case TR_OP_RETURN:
    case TR_OP_TOUCH:
        pick_held(w, a);
        return;
    case TR_OP_BURY:
        a->req.priority = draw_priority(w);
        a->req.keep_priority = sim_dice(&w->rng, 20);
        draw_bury(w, a);
        return;
    case TR_OP_EDIT:
        draw_edit(w, a);
        return;
    case TR_OP_KICK:
        a->req.count = sim_spread(&w->rng, 1, 100);
        sim_work_for_topic(w, a, topic);
        return;
    case TR_OP_PAUSE:
        a->req.wait_us = sim_dice(&w->rng, 40) ? 0 : sim_spread(&w->rng, 1, 5 * SEC);
        sim_work_for_topic(w, a, topic);
        return;
    case TR_OP_PEEK_FIRST:
        a->req.state =
            (enum tr_job_state[]){TR_READY, TR_DELAYED, TR_DEAD}[tr_rng_below(&w->rng, 3)];
        a->req.order = sim_dice(&w->rng, 50) ? TR_ORDER_DUE : TR_ORDER_ID;
        sim_work_for_topic(w, a, topic);
        return;
    case TR_OP_HOLD_TOPIC:
    case TR_OP_FIND_TOPIC:
    case TR_OP_DROP_TOPIC:
    case TR_OP_NEXT_TOPIC:
        draw_topic_op(w, a, topic);
        return;
    case TR_OP_KICK_JOB:
        a->req.beanstalk = sim_dice(&w->rng, 40);
        a->req.id = pick_id(w, sim_dice(&w->rng, 50) ? PICK_DEAD : PICK_PENDING);
        return;
    case TR_OP_FIRE:
        a->req.id = pick_id(w, PICK_PENDING);
        return;
    case TR_OP_CLOSE:
    case TR_OP_STAT:
        return;
    default: /* RESERVE_JOB, PEEK, STAT_JOB, HISTORY */
        a->req.id = pick_id(w, a->req.op == TR_OP_HISTORY ? PICK_ANY : PICK_LIVE);
    }
}

static enum tr_op draw_op(struct sim_work *w)
{
    uint64_t sum = 0;
    uint64_t dice;
    unsigned op = 0;

    for (unsigned i = 0; i < TR_OP_COUNT; i++) {
        sum += w->params->op_weight[i];
    }
    dice = tr_rng_below(&w->rng, sum);
    while (dice >= w->params->op_weight[op]) {
        dice -= w->params->op_weight[op++];
    }
    if (op == TR_OP_KICK && w->no_kick) {
        return TR_OP_STAT;
    }
    if (op == TR_OP_PUSH && w->oracle->model.live >= w->params->live_max && sim_dice(&w->rng, 80)) {
        return sim_dice(&w->rng, 50) ? TR_OP_DELETE : TR_OP_RESERVE;
    }
    return (enum tr_op)op;
}

/* It has a request under way, or an answer that was not judged yet. */
static bool is_busy(const struct sim_ask *a)
{
    return a->pending || a->answered;
}

static bool names_job(enum tr_op op)
{
    return op == TR_OP_RESERVE_JOB || op == TR_OP_DELETE || op == TR_OP_RELEASE ||
           op == TR_OP_RETURN || op == TR_OP_BURY || op == TR_OP_TOUCH || op == TR_OP_KICK_JOB ||
           op == TR_OP_FIRE || op == TR_OP_EDIT || op == TR_OP_PEEK || op == TR_OP_STAT_JOB ||
           op == TR_OP_HISTORY;
}

struct sim_ask *sim_work_draw(struct sim_work *w)
{
    unsigned clients = w->params->conns + w->params->tokens;
    unsigned client = (unsigned)tr_rng_below(&w->rng, clients);
    unsigned topic = (unsigned)tr_rng_below(&w->rng, w->params->topics);
    struct sim_ask *a;

    for (unsigned i = 0; i < clients && is_busy(&w->oracle->asks[client]); i++) {
        client = (client + 1) % clients;
    }
    if (is_busy(&w->oracle->asks[client])) {
        return NULL;
    }
    if (w->oracle->asks[client].req.op == TR_OP_LIST) {
        w->listings[client].cursor = w->oracle->asks[client].req.out.cursor;
    }
    a = sim_work_blank(w, client, draw_op(w));
    if (a->req.op == TR_OP_CLOSE && a->req.holder == 0) {
        a->req.op = TR_OP_STAT;
    }
    fill(w, a, topic);
    if (w->params->key_pct != 0 && names_job(a->req.op) && sim_dice(&w->rng, w->params->key_pct)) {
        by_key(w, a, topic);
    }
    if (a->req.op == TR_OP_CLOSE) {
        sim_work_reconnect(w, client);
    }
    return a;
}
