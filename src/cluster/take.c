/*
 * Questions for jobs. A topic in a slot (a spot) that somebody waits for is asked when vigil.c says
 * so; for as many as wait, who want the same (tag, time to run, connection or not).
 *
 *     vigil ──► spot: a new round ──► the slot's lane ──► take ──► jobs: to those it was asked for,
 *                      ▲                                      │    else to who waits, else back
 *                      └── somebody was not asked for yet ◄───┘
 *
 * A round is over when all who wait were asked for in it, or nothing is there for anybody: a
 * question without a tag that brings nothing tells for all. Each question that brings less than was
 * wanted has entered this node among those who are told when there is more.
 *
 * Only so many bytes come with one answer; who then gets nothing though there is more is asked for
 * again.
 *
 * A question that was given up may have been answered: then Redis has handed out jobs of which
 * nobody knows. Before anything else is asked of that slot they are given back (a take of none): it
 * keeps the ids of a node's last take only.
 *
 * With a database, Redis only says which jobs may be to be had (`claim`); then claim.c asks it.
 * Housekeeping is a question for none, which brings those that time has changed.
 *
 * *Invariant.* For each job that may come there is a holding, made before it is asked for.
 */

#include "cluster/take.h"

#include "base/err.h"
#include "cluster/mutant.h"

#include <string.h>

#define TOLD_US                                                                                    \
    UINT64_C(120000000) /* how long it is to be told: two minutes, asked once in one               \
                         */
#define AWAY_AGAIN_US UINT64_C(1000000)
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define OWED_MOST_US UINT64_C(3600000000) /* by then nearly all leases have ended */

uint64_t tr_take_lease(struct tr_cluster *c)
{
    if (!TR_CL_MUTANT(LEASE_AGAIN) || c->lease_count == 0) {
        c->lease_count++;
    }
    return c->config.node >> 32 << 32 | (c->lease_count & UINT32_MAX);
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why);

int tr_take_lane(struct tr_cluster *c, unsigned slot)
{
    struct tr_take *take = tr_map_find(&c->takes, slot);

    if (tr_lane_of(c, TR_CL_EDIT, slot) == NULL) { /* where jobs go back */
        return TARRY_ENOMEM;
    }
    if (take != NULL) {
        return TARRY_OK;
    }
    take = tr_mem_alloc(c->mem, sizeof *take);
    if (take == NULL) {
        return TARRY_ENOMEM;
    }
    if (tr_call_init(c, &take->call, heard) != TARRY_OK) {
        tr_mem_free(c->mem, take, sizeof *take);
        return TARRY_ENOMEM;
    }
    tr_list_init(&take->dirty);
    tr_list_init(&take->spots);
    tr_list_init(&take->group);
    tr_list_init(&take->asides);
    take->slot = slot;
    if (!tr_claim_make(c, take) || tr_map_put(&c->takes, slot, take) != TARRY_OK) {
        tr_claim_drop(c, take);
        tr_call_fini(c, &take->call);
        tr_mem_free(c->mem, take, sizeof *take);
        return TARRY_ENOMEM;
    }
    tr_list_append(&c->all_takes, &take->all);
    return TARRY_OK;
}

void tr_take_drop_rooms(struct tr_cluster *c, struct tr_take *take)
{
    while (take->room_count > 0) {
        tr_hold_free(c, take->rooms[--take->room_count]);
    }
}

void tr_take_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->all_takes)) {
        struct tr_take *take = TR_CONTAINER_OF(c->all_takes.next, struct tr_take, all);

        while (!tr_list_empty(&take->spots)) {
            tr_list_remove(take->spots.next);
        }
        tr_list_remove(&take->all);
        tr_claims_free(c, take);
        tr_take_drop_rooms(c, take);
        tr_claim_drop(c, take);
        tr_call_fini(c, &take->call);
        tr_mem_free(c->mem, take, sizeof *take);
    }
    tr_map_fini(&c->takes);
}

/* ---- who is to be asked ---- */

int tr_take_watch(struct tr_cluster *c, struct tr_ctopic *t)
{
    for (unsigned i = 0; i < t->spread; i++) {
        if (t->spots[i].watch.place == 0 &&
            tr_vigil_add(&c->vigil, &t->spots[i].watch, c->now.boot_us) != TARRY_OK) {
            tr_take_unwatch(c, t);
            return TARRY_ENOMEM;
        }
    }
    return TARRY_OK;
}

void tr_take_unwatch(struct tr_cluster *c, struct tr_ctopic *t)
{
    for (unsigned i = 0; i < t->spread; i++) {
        if (t->spots[i].watch.place != 0) {
            tr_vigil_remove(&c->vigil, &t->spots[i].watch);
        }
    }
}

void tr_take_spot(struct tr_cluster *c, struct tr_spot *spot)
{
    tr_vigil_woken(&c->vigil, &spot->watch, c->now.boot_us, c->now.boot_us);
}

void tr_take_woken(struct tr_cluster *c, struct tr_spot *spot, uint64_t due_us, uint64_t now_us)
{
    tr_vigil_woken(&c->vigil, &spot->watch,
                   due_us != 0 ? tr_cluster_boot_of(c, due_us, now_us) : c->now.boot_us,
                   c->now.boot_us);
}

static void enqueue(struct tr_cluster *c, struct tr_spot *spot)
{
    struct tr_take *take = tr_map_find(&c->takes, spot->slot);

    TR_CHECK(take != NULL);
    if (take->spot != spot && tr_list_empty(&spot->queued)) {
        tr_list_append(&take->spots, &spot->queued);
    }
    if (tr_list_empty(&take->dirty)) {
        tr_list_append(&c->dirty_takes, &take->dirty);
    }
}

static bool is_open(const struct tr_waiter *waiter, const struct tr_spot *spot)
{
    const struct tr_wait *w = waiter->wait;

    return w->asked == NULL && waiter->seen[spot->index] < spot->round &&
           (w->lined || w->first == spot);
}

unsigned tr_take_open(const struct tr_spot *spot, unsigned most)
{
    const struct tr_list *line = &spot->topic->line;
    unsigned open = 0;

    for (const struct tr_list *n = line->next; n != line && open < most; n = n->next) {
        open += is_open(TR_CONTAINER_OF(n, struct tr_waiter, link), spot);
    }
    return open;
}

/* Does anybody stand in line who is not asked for now? */
static bool anybody_free(const struct tr_spot *spot)
{
    const struct tr_list *line = &spot->topic->line;

    for (const struct tr_list *n = line->next; n != line; n = n->next) {
        if (TR_CONTAINER_OF(n, struct tr_waiter, link)->wait->asked == NULL) {
            return true;
        }
    }
    return false;
}

void tr_take_missed(struct tr_cluster *c, struct tr_wait *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_ctopic *t = w->waiters[i].topic;

        for (unsigned k = 0; t != NULL && k < t->spread; k++) {
            if (is_open(&w->waiters[i], &t->spots[k])) {
                enqueue(c, &t->spots[k]);
            }
        }
    }
}

/* ---- the question ---- */

static bool wants_same(const struct tr_req *a, const struct tr_req *b)
{
    return a->tag_len == b->tag_len &&
           (a->tag_len == 0 || memcmp(a->tag, b->tag, a->tag_len) == 0) && a->ttr_us == b->ttr_us &&
           a->lease_us == b->lease_us && (a->holder == 0) == (b->holder == 0);
}

/* Room for one more job. */
static bool make_room(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_holding *g = tr_hold_new(c);

    if (g != NULL) {
        take->rooms[take->room_count++] = g;
    }
    return g != NULL;
}

/* Those of the line who want the same as the first one that is open. NULL: nobody is. */
static const struct tr_req *gather(struct tr_cluster *c, struct tr_take *take, bool *waits)
{
    struct tr_spot *spot = take->spot;
    const struct tr_list *line = &spot->topic->line;
    const struct tr_req *first = NULL;

    *waits = false;
    for (const struct tr_list *n = line->next; n != line && take->want < TR_EVAL_JOBS;
         n = n->next) {
        struct tr_waiter *waiter = TR_CONTAINER_OF(n, struct tr_waiter, link);
        struct tr_wait *w = waiter->wait;

        if (!is_open(waiter, spot) || (first != NULL && !wants_same(first, w->item.req))) {
            continue;
        }
        if (!make_room(c, take)) {
            break;
        }
        first = first != NULL ? first : w->item.req;
        waiter->seen[spot->index] = spot->round;
        w->asked = spot;
        tr_list_append(&take->group, &w->in_group);
        take->want++;
        *waits = *waits || !w->idle;
    }
    return first;
}

/* The keys and first arguments of the call, for a topic. */
static void begin_call(struct tr_cluster *c, struct tr_take *take, enum tr_script_name script,
                       const struct tr_ctopic *t)
{
    struct tr_eval_topic topic = {t->name, t->spread, t->order};
    struct tr_eval_about about = {.layout = &c->layout,
                                  .slot = take->slot,
                                  .uuid = c->uuid,
                                  .node = c->node,
                                  .op = ++take->op,
                                  .topics = &topic,
                                  .topic_count = 1};

    tr_eval_begin(&take->call.eval, script, &about);
}

static int build_call(struct tr_cluster *c, struct tr_take *take, const struct tr_ctopic *t,
                      const struct tr_eval_take *asked)
{
    begin_call(c, take, TR_SCRIPT_TAKE, t);
    tr_eval_take(&take->call.eval, asked);
    return tr_eval_end(&take->call.eval);
}

/* With a database; NULL: nobody waits, but time goes on. */
static int build_claim(struct tr_cluster *c, struct tr_take *take, const struct tr_ctopic *t,
                       const struct tr_eval_take *asked)
{
    struct tr_eval_claim claim = {.now_us = tr_cluster_server_now(c),
                                  .version = t->version,
                                  .most = asked != NULL ? TR_CLAIM_MOST : TR_CLAIM_TENDS,
                                  .bytes = c->config.take_bytes};

    take->claim->lease = 0;
    if (asked != NULL) {
        claim.count = asked->count;
        claim.tag = asked->tag;
        claim.tag_len = asked->tag_len;
        claim.wait_until_us = asked->wait_until_us;
        take->claim->lease = asked->lease;
        take->claim->held = asked->held;
        take->claim->ttr_us = asked->ttr_us;
        take->claim->least_us = asked->least_us;
    }
    begin_call(c, take, TR_SCRIPT_CLAIM, t);
    tr_eval_claim(&take->call.eval, &claim);
    return tr_eval_end(&take->call.eval);
}

static int build(struct tr_cluster *c, struct tr_take *take, const struct tr_req *r, bool waits)
{
    struct tr_eval_take asked = {.count = take->want,
                                 .lease = tr_take_lease(c),
                                 .ttr_us = r->holder == 0 ? r->ttr_us : 0,
                                 .tag = r->tag,
                                 .tag_len = r->tag_len,
                                 .wait_until_us =
                                     waits ? tr_cluster_slot_now(c, take->slot) + TOLD_US : 0,
                                 .held = r->holder != 0,
                                 .least_us = r->lease_us,
                                 .bytes = c->config.take_bytes};

    return c->desk != NULL ? build_claim(c, take, take->spot->topic, &asked)
                           : build_call(c, take, take->spot->topic, &asked);
}

/* The round is over: when to ask again. */
static void end_round(struct tr_cluster *c, struct tr_spot *spot, uint64_t known_us)
{
    tr_vigil_answered(&c->vigil, &spot->watch, known_us, c->now.boot_us);
}

/* There is more, which did not fit into the answer: it is asked for them again, in this round. */
static void ask_again(struct tr_cluster *c, struct tr_take *take)
{
    while (!tr_list_empty(&take->group)) {
        struct tr_wait *w = TR_CONTAINER_OF(take->group.next, struct tr_wait, in_group);

        tr_list_remove(&w->in_group);
        w->asked = NULL;
        tr_wait_unsee(c, w, take->spot);
    }
}

/* Those it was asked for stand where they were; what came of it is nothing. */
static void ungroup(struct tr_cluster *c, struct tr_take *take, int status)
{
    struct tr_list group;

    tr_list_init(&group);
    tr_list_splice(&group, &take->group);
    while (!tr_list_empty(&group)) {
        struct tr_wait *w = TR_CONTAINER_OF(group.next, struct tr_wait, in_group);

        tr_list_remove(&w->in_group);
        w->asked = NULL;
        if (status != TARRY_OK && w->idle) {
            tr_wait_finish(c, w, status);
        } else {
            tr_wait_on(c, w);
        }
    }
}

void tr_take_give_up(struct tr_cluster *c, struct tr_take *take, int status, uint64_t again_us)
{
    struct tr_spot *spot = take->spot;

    take->spot = NULL;
    spot->asked--;
    tr_take_drop_rooms(c, take);
    if (take->of == NULL) {
        end_round(c, spot, c->now.boot_us + again_us);
    } else { /* that was over when Redis had answered */
        tr_vigil_woken(&c->vigil, &spot->watch, c->now.boot_us + again_us, c->now.boot_us);
    }
    ungroup(c, take, status);
    tr_ctopic_unpin(c, spot->topic);
}

static void send(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_call_way way = {.script = c->desk != NULL ? TR_SCRIPT_CLAIM : TR_SCRIPT_TAKE,
                              .hash_slot = c->slots[take->slot].hash,
                              .slot = take->slot,
                              .server = -1,
                              .patience_us = c->config.patience_us,
                              .repeats = true};

    c->calls_under_way++;
    c->takes_under_way++;
    tr_call_start(c, &take->call, &way);
}

/* Nobody is asked for meanwhile: who is not to wait hears why. */
static void refuse_idle(struct tr_cluster *c, struct tr_spot *spot, int status)
{
    const struct tr_list *line = &spot->topic->line;
    const struct tr_list *n = line->next;

    while (n != line) {
        const struct tr_waiter *waiter = TR_CONTAINER_OF(n, struct tr_waiter, link);

        n = n->next;
        if (is_open(waiter, spot) && waiter->wait->idle) {
            tr_wait_finish(c, waiter->wait, status);
            n = line->next; /* whoever heard of it may have done anything */
        }
    }
}

static void ask(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_spot *spot = TR_CONTAINER_OF(take->spots.next, struct tr_spot, queued);
    const struct tr_req *first;
    bool waits;

    tr_list_remove(&spot->queued);
    if (tr_take_open(spot, 1) == 0) {
        end_round(c, spot, spot->known_us);
        return;
    }
    if (c->desk != NULL && tr_desk_down(c)) {
        tr_ctopic_pin(spot->topic);
        refuse_idle(c, spot, TARRY_EAWAY);
        end_round(c, spot, c->now.boot_us + AWAY_AGAIN_US);
        tr_ctopic_unpin(c, spot->topic);
        return;
    }
    take->spot = spot;
    take->round = spot->round;
    spot->asked++;
    take->want = 0;
    tr_ctopic_pin(spot->topic);
    first = gather(c, take, &waits);
    if (first == NULL || build(c, take, first, waits) != TARRY_OK) {
        tr_take_give_up(c, take, TARRY_ENOMEM, NO_MEMORY_AGAIN_US);
        return;
    }
    tr_vigil_asked(&c->vigil, &spot->watch, c->now.boot_us); /* the round may have been over */
    take->tagged = first->tag_len > 0;
    take->told = waits;
    c->stat.takes++;
    send(c, take);
}

/* ---- what was handed out to nobody ---- */

void tr_take_mark(struct tr_cluster *c, struct tr_take *take)
{
    if (tr_list_empty(&take->dirty)) {
        tr_list_append(&c->dirty_takes, &take->dirty);
    }
}

static void owe(struct tr_cluster *c, struct tr_take *take, struct tr_ctopic *t)
{
    if (TR_CL_MUTANT(TAKE_FORGOTTEN) || c->desk != NULL) { /* claims end by themselves */
        return;
    }
    tr_ctopic_pin(t);
    take->owed = t;
    take->owed_since_us = c->now.boot_us;
    take->owed_us = c->now.boot_us;
    c->owed++;
    tr_take_mark(c, take);
}

static void owe_no_more(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_ctopic *t = take->owed;

    take->owed = NULL;
    c->owed--;
    tr_ctopic_unpin(c, t);
    tr_take_mark(c, take);
}

static void give_back(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_eval_take none = {.lease = tr_take_lease(c), .heard = take->heard};

    if (build_call(c, take, take->owed, &none) == TARRY_OK) {
        send(c, take);
    } else {
        take->owed_us = c->now.boot_us + NO_MEMORY_AGAIN_US;
    }
}

static void gave_back(struct tr_cluster *c, struct tr_take *take,
                      const struct tr_redis_reply *reply, enum tr_route_why why)
{
    struct tr_ctopic *t = take->owed;
    struct tr_answer a;

    if (why == 0 && tr_answer_read(reply, &a) == TARRY_OK) {
        take->heard = take->op;
        tr_lane_common(c, &a, &(struct tr_lane_told){.slot = take->slot, .topics = &t, .count = 1});
        tr_count_changed(c, t, take->slot);
        owe_no_more(c, take);
        return;
    }
    if (why == 0 && tr_lane_spread(reply) != 0) {
        (void)tr_ctopic_set_spread(c, t, tr_lane_spread(reply));
    }
    if (c->now.boot_us - take->owed_since_us > OWED_MOST_US) {
        owe_no_more(c, take);
        return;
    }
    take->owed_us = c->now.boot_us + AWAY_AGAIN_US;
    while (!tr_list_empty(&take->spots)) {
        struct tr_spot *spot = TR_CONTAINER_OF(take->spots.next, struct tr_spot, queued);

        tr_list_remove(&spot->queued);
        tr_ctopic_pin(spot->topic);
        refuse_idle(c, spot, why != 0 ? tr_call_status(why) : TARRY_EAWAY);
        end_round(c, spot, take->owed_us);
        tr_ctopic_unpin(c, spot->topic);
    }
}

uint64_t tr_take_next(const struct tr_cluster *c)
{
    uint64_t next_us = TR_CL_NEVER;

    for (const struct tr_list *n = c->all_takes.next; c->owed > 0 && n != &c->all_takes;
         n = n->next) {
        const struct tr_take *take = TR_CONTAINER_OF(n, struct tr_take, all);

        if (take->owed != NULL && take->call.state == TR_CALL_IDLE && take->owed_us < next_us) {
            next_us = take->owed_us;
        }
    }
    return next_us;
}

/* Those whose time it is. */
static void look_at_owed(struct tr_cluster *c)
{
    for (struct tr_list *n = c->all_takes.next; c->owed > 0 && n != &c->all_takes; n = n->next) {
        struct tr_take *take = TR_CONTAINER_OF(n, struct tr_take, all);

        if (take->owed != NULL && take->owed_us <= c->now.boot_us) {
            tr_take_mark(c, take);
        }
    }
}

/* Housekeeping is over. */
void tr_take_end_tending(struct tr_cluster *c, struct tr_take *take, int status)
{
    struct tr_item *keeper = take->keeper;

    take->tending = false;
    take->keeper = NULL;
    c->stat.tended++;
    c->slots[take->slot].agenda_us = c->now.boot_us; /* there may be another topic behind it */
    tr_count_changed(c, keeper->topic, take->slot);
    tr_item_finish(c, keeper, status);
    tr_take_mark(c, take);
}

static void tend(struct tr_cluster *c, struct tr_take *take)
{
    take->tending = true;
    if (build_claim(c, take, take->keeper->topic, NULL) == TARRY_OK) {
        send(c, take);
    } else {
        tr_take_end_tending(c, take, TARRY_ENOMEM);
    }
}

void tr_take_tend(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_take *take;

    if (tr_take_lane(c, keeper->slot) != TARRY_OK) {
        tr_item_finish(c, keeper, TARRY_ENOMEM);
        return;
    }
    take = tr_map_find(&c->takes, keeper->slot);
    TR_CHECK(take->keeper == NULL);
    take->keeper = keeper;
    tr_take_mark(c, take);
}

static void go_on(struct tr_cluster *c, struct tr_take *take)
{
    if (take->keeper != NULL && !take->tending && take->spot == NULL) {
        tend(c, take);
    }
    if (take->tending) {
        return;
    }
    if (take->owed != NULL && take->call.state == TR_CALL_IDLE && take->owed_us <= c->now.boot_us) {
        give_back(c, take);
    }
    while (take->owed == NULL && take->spot == NULL && !tr_list_empty(&take->spots) &&
           tr_claim_may(take)) {
        ask(c, take);
    }
}

void tr_take_turn(struct tr_cluster *c)
{
    struct tr_watch *watch;

    while ((watch = tr_vigil_take(&c->vigil, c->now.boot_us)) != NULL) {
        struct tr_spot *spot = TR_CONTAINER_OF(watch, struct tr_spot, watch);

        spot->round++;
        spot->known_us = TR_CL_NEVER;
        enqueue(c, spot);
    }
    look_at_owed(c);
    while (!tr_list_empty(&c->dirty_takes)) {
        struct tr_take *take = TR_CONTAINER_OF(c->dirty_takes.next, struct tr_take, dirty);

        tr_list_remove(&take->dirty);
        go_on(c, take);
    }
}

/* ---- the answer ---- */

/* The next one of those it was asked for; or somebody else who wants the same. */
static struct tr_wait *next_wait(struct tr_take *take, const struct tr_taken_job *job)
{
    const struct tr_list *line = &take->spot->topic->line;
    bool held = (job->header.flags & TR_HEADER_HELD) != 0;

    if (!tr_list_empty(&take->group)) {
        struct tr_wait *w = TR_CONTAINER_OF(take->group.next, struct tr_wait, in_group);

        tr_list_remove(&w->in_group);
        return w;
    }
    for (const struct tr_list *n = line->next; n != line && !take->tagged; n = n->next) {
        struct tr_wait *w = TR_CONTAINER_OF(n, struct tr_waiter, link)->wait;
        const struct tr_req *r = w->item.req;

        if (w->asked == NULL && r->tag_len == 0 && r->ttr_us == 0 && r->lease_us == 0 &&
            (r->holder != 0) == held) {
            return w;
        }
    }
    return NULL;
}

/* Handed out - when it was due, or when he came who waited for it. */
static uint64_t late_of(const struct tr_cluster *c, const struct tr_wait *w, uint64_t due_us,
                        uint64_t now_us)
{
    uint64_t waited_us = c->now.boot_us - w->item.since_us;
    uint64_t from_us = now_us > waited_us ? now_us - waited_us : 0;

    from_us = from_us > due_us ? from_us : due_us;
    return now_us > from_us ? now_us - from_us : 0;
}

static void hand_out(struct tr_cluster *c, struct tr_wait *w, struct tr_holding *g,
                     const struct tr_taken_job *job, uint64_t now_us)
{
    struct tr_req *r = w->item.req;
    bool held = w->holder != NULL && r->lease_us == 0;

    w->asked = NULL;
    w->item.id = job->id;
    w->item.topic = g->item.topic;
    tr_item_view(c, &w->item, &job->header, now_us);
    w->item.topic = NULL;
    if (g->item.topic->stale && job->header.ttr_us == 0 && r->ttr_us == 0 && r->lease_us == 0) {
        /* By settings that this node has not read yet: the lease tells how long it is. */
        r->out.job.ttr_us = job->header.at_us > now_us ? job->header.at_us - now_us : 0;
    }
    r->out.job.body = (const uint8_t *)job->body.at;
    r->out.job.body_len = (uint32_t)job->body.len;
    r->out.job.late_us = late_of(c, w, job->header.due_us, now_us);
    tr_gauge_handed(c, g->item.topic,
                    &(struct tr_gauge_hand){
                        .late_us = r->out.job.late_us,
                        .waited_us = now_us > job->header.due_us ? now_us - job->header.due_us : 0,
                        .fired = job->header.attempts == 1 && job->header.delay_us > 0});
    if (held) { /* the server's own consumers end theirs by the lease */
        tr_hold_add(c, w->holder, g);
    }
    tr_wait_finish(c, w, TARRY_OK);
    if (!held) {
        tr_hold_free(c, g); /* till now the topic's name had to stay */
    }
}

void tr_take_came(struct tr_cluster *c, struct tr_take *take, const struct tr_taken_job *job,
                  uint64_t now_us)
{
    struct tr_holding *g = take->rooms[--take->room_count];
    struct tr_wait *w = next_wait(take, job);

    tr_item_pin(&g->item, take->spot->topic);
    g->item.id = job->id;
    g->item.lease = job->header.lease;
    g->end_us = tr_cluster_boot_of(c, job->header.at_us, now_us);
    tr_find_note(c, job->id, take->spot->topic);
    if (w != NULL) {
        hand_out(c, w, g, job, now_us);
    } else if (TR_CL_MUTANT(SURPLUS_KEPT)) {
        tr_hold_free(c, g);
    } else {
        tr_hold_return(c, g, false);
    }
}

/* Nothing is there for anybody, in the round in which it was asked. */
static void nothing(const struct tr_take *take)
{
    const struct tr_spot *spot = take->spot;
    const struct tr_list *line = &spot->topic->line;

    for (const struct tr_list *n = line->next; n != line; n = n->next) {
        struct tr_waiter *waiter = TR_CONTAINER_OF(n, struct tr_waiter, link);

        if (waiter->seen[spot->index] < take->round && !waiter->wait->idle) {
            waiter->seen[spot->index] = take->round;
        }
    }
}

/* What was said besides jobs, before they are handed out. */
void tr_take_news(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t,
                  uint64_t now_us)
{
    struct tr_spot *spot = take->spot;
    uint64_t next_us =
        t->next_us != UINT64_MAX ? tr_cluster_boot_of(c, t->next_us, now_us) : TR_CL_NEVER;
    bool more = t->more || t->jobs >= take->want;

    spot->known_us = next_us < spot->known_us ? next_us : spot->known_us;
    spot->count.best_id = more ? spot->count.best_id : 0;
    c->stat.empty += t->jobs == 0;
    if (t->jobs > 0) {
        tr_count_changed(c, spot->topic, spot->slot);
    } else if (take->told && !take->tagged && !more) {
        nothing(take);
    }
}

/* All jobs were handed out: what is to be asked next. */
void tr_take_end(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t)
{
    struct tr_spot *spot = take->spot;
    bool more = t->more || t->jobs >= take->want;

    tr_take_drop_rooms(c, take);
    if (t->more && t->jobs > 0 && !TR_CL_MUTANT(REST_FORGOTTEN)) {
        ask_again(c, take);
    }
    ungroup(c, take, TARRY_OK);
    take->spot = NULL;
    spot->asked--;
    if (tr_take_open(spot, 1) > 0 && !TR_CL_MUTANT(ONE_ROUND)) {
        enqueue(c, spot); /* the round goes on */
    } else if (take->of == NULL) {
        end_round(c, spot,
                  more && !tr_list_empty(&spot->topic->line) ? c->now.boot_us : spot->known_us);
    }
}

/* Redis has named jobs for the first of the group, who now are aside's: it asks the database. The
 * others go on. */
void tr_take_part(struct tr_cluster *c, struct tr_take *take, struct tr_take *aside)
{
    struct tr_spot *spot = take->spot;
    bool more = take->more || take->told_jobs >= take->want;

    for (unsigned i = 0; i < take->told_jobs && !tr_list_empty(&take->group); i++) {
        struct tr_list *first = take->group.next;

        tr_list_remove(first);
        tr_list_append(&aside->group, first);
    }
    if (take->more) {
        ask_again(c, take);
    }
    ungroup(c, take, TARRY_OK);
    take->spot = NULL;
    if (tr_take_open(spot, 1) > 0) {
        enqueue(c, spot);
    } else {
        end_round(c, spot, more && anybody_free(spot) ? c->now.boot_us : spot->known_us);
    }
}

static void read_answer(struct tr_cluster *c, struct tr_take *take, const struct tr_answer *a,
                        const struct tr_taken *t)
{
    take->call.brings = 0;
    tr_take_news(c, take, t, a->now_us);
    for (size_t i = 0; i < t->jobs && take->room_count > 0; i++) {
        struct tr_taken_job job;

        if (tr_answer_taken_job(a, i, &job) == TARRY_OK) {
            take->call.brings += job.body.len; /* the next one may be like it */
            tr_take_came(c, take, &job, a->now_us);
        }
    }
    tr_take_end(c, take, t);
}

/* It was answered, whatever the answer is. */
static void answered(struct tr_cluster *c, struct tr_take *take, const struct tr_redis_reply *reply)
{
    struct tr_ctopic *topic = take->spot->topic;
    struct tr_answer a;
    struct tr_taken t;

    take->heard = take->op;
    if (tr_answer_read(reply, &a) == TARRY_OK && tr_answer_taken(&a, &t) == TARRY_OK) {
        tr_lane_common(c, &a,
                       &(struct tr_lane_told){.slot = take->slot, .topics = &topic, .count = 1});
        read_answer(c, take, &a, &t);
        tr_ctopic_unpin(c, topic);
    } else {
        unsigned spread = tr_lane_spread(reply);

        tr_take_give_up(c, take, TARRY_EAWAY, NO_MEMORY_AGAIN_US);
        if (spread != 0) {
            (void)tr_ctopic_set_spread(c, topic, spread);
        }
    }
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why)
{
    struct tr_take *take = TR_CONTAINER_OF(call, struct tr_take, call);

    c->calls_under_way--;
    c->takes_under_way--;
    if (why != 0) {
        tr_cluster_trouble(c, call, why, reply);
    }
    if (take->owed != NULL) {
        gave_back(c, take, reply, why);
    } else if (why != 0 && take->tending) {
        tr_take_end_tending(c, take, tr_call_status(why));
    } else if (why == 0 && c->desk != NULL) {
        tr_claim_heard(c, take, reply);
    } else if (why != 0) {
        if (why == TR_ROUTE_UNKNOWN) {
            owe(c, take, take->spot->topic);
        }
        tr_take_give_up(c, take, tr_call_status(why), AWAY_AGAIN_US);
    } else {
        answered(c, take, reply);
    }
    tr_eval_trim(&take->call.eval);
    if (!tr_list_empty(&take->spots)) {
        tr_take_mark(c, take);
    }
}
