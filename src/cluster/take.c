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
 * With a database, Redis only says which jobs may be to be had (`claim`), for three seconds; what
 * the database says of each (sql_take.c) is the answer. Housekeeping is a question for none, which
 * brings those that time has changed.
 *
 * *Invariant.* For each job that may come there is a holding, made before it is asked for.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#include <string.h>

#define TOLD_US                                                                                    \
    UINT64_C(120000000) /* how long it is to be told: two minutes, asked once in one               \
                         */
#define AWAY_AGAIN_US UINT64_C(1000000)
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define OWED_MOST_US UINT64_C(3600000000) /* by then nearly all leases have ended */

struct tr_take {
    struct tr_call call;
    struct tr_list all;
    struct tr_list dirty;
    struct tr_list spots; /* to be asked */
    unsigned slot;
    uint64_t op;
    struct tr_spot *spot; /* asked now, */
    uint64_t round;       /* in this round of it: another one may begin before the answer */
    struct tr_list group; /* for whom */
    unsigned want;
    bool tagged;
    bool told;                              /* this node is to be told when there is more */
    struct tr_holding *rooms[TR_EVAL_JOBS]; /* for what may come */
    unsigned room_count;
    uint64_t heard;         /* the last op that was answered */
    struct tr_ctopic *owed; /* jobs of it are to be given back, or NULL */
    uint64_t owed_since_us;
    uint64_t owed_us; /* when that is tried */

    /* With a database. */
    struct tr_claim *claim; /* what it is asked; NULL: there is none */
    uint64_t next_us;       /* what Redis has said */
    bool more;
    unsigned told_jobs;
    unsigned won;
    struct tr_item *keeper; /* housekeeping that waits, or is done now */
    bool tending;
};

uint64_t tr_take_lease(struct tr_cluster *c)
{
    if (!TR_CL_MUTANT(LEASE_AGAIN) || c->lease_count == 0) {
        c->lease_count++;
    }
    return c->config.node >> 32 << 32 | (c->lease_count & UINT32_MAX);
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why);
static tr_item_fn claimed;

/* Room for what a database is asked. */
static bool make_claim(struct tr_cluster *c, struct tr_take *take)
{
    if (c->desk == NULL) {
        return true;
    }
    take->claim = tr_mem_alloc(c->mem, sizeof *take->claim);
    if (take->claim == NULL) {
        return false;
    }
    take->claim->item = (struct tr_item){.inner = true, .end = claimed, .slot = take->slot};
    take->claim->item.number = take->slot;
    tr_list_init(&take->claim->item.link);
    return tr_lane_of(c, TR_CL_CLAIM, take->slot) != NULL; /* so that nothing can fail later */
}

static void drop_claim(struct tr_cluster *c, struct tr_take *take)
{
    if (take->claim != NULL) {
        tr_list_remove(&take->claim->item.link);
        tr_mem_free(c->mem, take->claim, sizeof *take->claim);
        take->claim = NULL;
    }
}

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
    take->slot = slot;
    if (!make_claim(c, take) || tr_map_put(&c->takes, slot, take) != TARRY_OK) {
        drop_claim(c, take);
        tr_call_fini(c, &take->call);
        tr_mem_free(c->mem, take, sizeof *take);
        return TARRY_ENOMEM;
    }
    tr_list_append(&c->all_takes, &take->all);
    return TARRY_OK;
}

static void drop_rooms(struct tr_cluster *c, struct tr_take *take)
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
        drop_rooms(c, take);
        drop_claim(c, take);
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

static bool anybody_open(const struct tr_spot *spot)
{
    const struct tr_list *line = &spot->topic->line;

    for (const struct tr_list *n = line->next; n != line; n = n->next) {
        if (is_open(TR_CONTAINER_OF(n, struct tr_waiter, link), spot)) {
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
                                  .most = asked != NULL ? TR_CLAIM_MOST : TR_CLAIM_TENDS};

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

static void give_up(struct tr_cluster *c, struct tr_take *take, int status, uint64_t again_us)
{
    struct tr_spot *spot = take->spot;

    take->spot = NULL;
    spot->asked = false;
    drop_rooms(c, take);
    end_round(c, spot, c->now.boot_us + again_us);
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
    if (!anybody_open(spot)) {
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
    spot->asked = true;
    take->want = 0;
    tr_ctopic_pin(spot->topic);
    first = gather(c, take, &waits);
    if (first == NULL || build(c, take, first, waits) != TARRY_OK) {
        give_up(c, take, TARRY_ENOMEM, NO_MEMORY_AGAIN_US);
        return;
    }
    take->tagged = first->tag_len > 0;
    take->told = waits;
    c->stat.takes++;
    send(c, take);
}

/* ---- what was handed out to nobody ---- */

static void mark(struct tr_cluster *c, struct tr_take *take)
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
    mark(c, take);
}

static void owe_no_more(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_ctopic *t = take->owed;

    take->owed = NULL;
    c->owed--;
    tr_ctopic_unpin(c, t);
    mark(c, take);
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
            mark(c, take);
        }
    }
}

/* Housekeeping is over. */
static void end_tending(struct tr_cluster *c, struct tr_take *take, int status)
{
    struct tr_item *keeper = take->keeper;

    take->tending = false;
    take->keeper = NULL;
    c->stat.tended++;
    c->slots[take->slot].agenda_us = c->now.boot_us; /* there may be another topic behind it */
    tr_count_changed(c, keeper->topic, take->slot);
    tr_item_finish(c, keeper, status);
    mark(c, take);
}

static void tend(struct tr_cluster *c, struct tr_take *take)
{
    take->tending = true;
    if (build_claim(c, take, take->keeper->topic, NULL) == TARRY_OK) {
        send(c, take);
    } else {
        end_tending(c, take, TARRY_ENOMEM);
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
    mark(c, take);
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
    while (take->owed == NULL && take->spot == NULL && !tr_list_empty(&take->spots)) {
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

static void came(struct tr_cluster *c, struct tr_take *take, const struct tr_taken_job *job,
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
static void read_news(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t,
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
static void end_answer(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t)
{
    struct tr_spot *spot = take->spot;
    bool more = t->more || t->jobs >= take->want;

    drop_rooms(c, take);
    if (t->more && t->jobs > 0 && !TR_CL_MUTANT(REST_FORGOTTEN)) {
        ask_again(c, take);
    }
    ungroup(c, take, TARRY_OK);
    take->spot = NULL;
    spot->asked = false;
    if (anybody_open(spot) && !TR_CL_MUTANT(ONE_ROUND)) {
        enqueue(c, spot); /* the round goes on */
    } else {
        end_round(c, spot,
                  more && !tr_list_empty(&spot->topic->line) ? c->now.boot_us : spot->known_us);
    }
}

static void read_answer(struct tr_cluster *c, struct tr_take *take, const struct tr_answer *a,
                        const struct tr_taken *t)
{
    take->call.brings = 0;
    read_news(c, take, t, a->now_us);
    for (size_t i = 0; i < t->jobs && take->room_count > 0; i++) {
        struct tr_taken_job job;

        if (tr_answer_taken_job(a, i, &job) == TARRY_OK) {
            take->call.brings += job.body.len; /* the next one may be like it */
            came(c, take, &job, a->now_us);
        }
    }
    end_answer(c, take, t);
}

/* ---- the answer, with a database ---- */

static struct tr_take *take_of(const struct tr_cluster *c, const struct tr_claim *claim)
{
    return tr_map_find(&c->takes, claim->item.number);
}

void tr_take_won(struct tr_cluster *c, struct tr_claim *claim, const struct tr_taken_job *job,
                 uint64_t now_us)
{
    struct tr_take *take = take_of(c, claim);

    take->won++;
    came(c, take, job, now_us);
}

void tr_take_unsure(struct tr_cluster *c, struct tr_claim *claim, uint64_t id)
{
    struct tr_take *take = take_of(c, claim);
    struct tr_holding *g = take->rooms[--take->room_count];

    tr_item_pin(&g->item, claim->item.topic);
    g->item.id = id;
    g->item.lease = claim->lease;
    g->end_us = c->now.boot_us + OWED_MOST_US;
    tr_hold_return(c, g, false);
}

/* The database has answered, or there was nothing to ask it. */
static void claimed(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_take *take = tr_map_find(&c->takes, item->number);
    struct tr_ctopic *topic = item->topic;
    /* One that was not to be had leaves somebody with nothing though there may be more. */
    struct tr_taken t = {.next_us = take->next_us,
                         .more = take->more || take->claim->lost > 0,
                         .jobs = take->claim->lost > 0 ? take->told_jobs : take->won};

    item->topic = NULL;
    if (take->tending) {
        end_tending(c, take, item->status);
    } else if (item->status != TARRY_OK) {
        give_up(c, take, item->status, AWAY_AGAIN_US);
        mark(c, take);
        return;
    } else {
        end_answer(c, take, &t);
        mark(c, take);
    }
    tr_ctopic_unpin(c, topic);
}

/* Which jobs may be to be had: the database is asked. */
static int read_claim(struct tr_cluster *c, struct tr_take *take, const struct tr_answer *a,
                      struct tr_ctopic *topic)
{
    struct tr_claim *claim = take->claim;
    struct tr_claimed t;

    if (tr_answer_claimed(a, &t) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    claim->count = 0;
    claim->lost = 0;
    take->won = 0;
    take->told_jobs = 0;
    for (size_t i = 0; i < t.jobs && claim->count < TR_CLAIM_IDS; i++) {
        unsigned n = claim->count;

        if (tr_answer_claimed_job(a, i, &claim->whats[n], &claim->ids[n]) == TARRY_OK &&
            (claim->whats[n] != 'C' || take->told_jobs < take->room_count)) {
            take->told_jobs += claim->whats[n] == 'C';
            claim->count++;
        }
    }
    take->next_us = t.next_us;
    take->more = t.more;
    tr_load_hint(c, topic, take->slot, &(struct tr_indexed){t.loaded_us, t.left});
    if (!take->tending) {
        read_news(c, take,
                  &(struct tr_taken){.next_us = t.next_us, .more = t.more, .jobs = take->told_jobs},
                  tr_cluster_server_now(c));
    }
    claim->item.topic = topic;
    if (claim->count > 0) {
        tr_lane_put(c, TR_CL_CLAIM, &claim->item);
    } else {
        claim->item.status = TARRY_OK;
        claimed(c, &claim->item);
    }
    return TARRY_OK;
}

static void answered_claim(struct tr_cluster *c, struct tr_take *take,
                           const struct tr_redis_reply *reply)
{
    struct tr_ctopic *topic = take->tending ? take->keeper->topic : take->spot->topic;
    struct tr_answer a;

    if (tr_answer_read(reply, &a) == TARRY_OK) {
        tr_lane_common(c, &a,
                       &(struct tr_lane_told){.slot = take->slot, .topics = &topic, .count = 1});
        if (take->tending) {
            tr_ctopic_pin(topic);
        }
        if (read_claim(c, take, &a, topic) == TARRY_OK) {
            return;
        }
        if (take->tending) {
            tr_ctopic_unpin(c, topic);
        }
    }
    if (take->tending) {
        end_tending(c, take, TARRY_EDAMAGED);
    } else {
        give_up(c, take, TARRY_EAWAY, NO_MEMORY_AGAIN_US);
    }
    if (tr_lane_spread(reply) != 0) {
        (void)tr_ctopic_set_spread(c, topic, tr_lane_spread(reply));
    }
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

        give_up(c, take, TARRY_EAWAY, NO_MEMORY_AGAIN_US);
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
        tr_cluster_trouble(c, why, reply);
    }
    if (take->owed != NULL) {
        gave_back(c, take, reply, why);
    } else if (why != 0 && take->tending) {
        end_tending(c, take, tr_call_status(why));
    } else if (why == 0 && c->desk != NULL) {
        answered_claim(c, take, reply);
    } else if (why != 0) {
        if (why == TR_ROUTE_UNKNOWN) {
            owe(c, take, take->spot->topic);
        }
        give_up(c, take, tr_call_status(why), AWAY_AGAIN_US);
    } else {
        answered(c, take, reply);
    }
    tr_eval_trim(&take->call.eval);
    if (!tr_list_empty(&take->spots)) {
        mark(c, take);
    }
}
