/*
 * Lanes: for each slot and kind of call one that is under way, and what comes meanwhile is the next
 * batch. So the more there is to do the larger the batches are, and a node has few calls in flight;
 * and a slot's meta need remember one call of a kind for each node (doc/cluster.md, section 2).
 *
 *     items ── go ──► flying + eval ──► call ──► answered: each item ends, or goes on
 *                                          └──► given up: each item ends so
 *
 * New jobs and changes of jobs may have a second call under way (a twin, which is a lane of its own
 * but for the items): then Redis has something to do while the answers of the first are told. It
 * goes when a quarter of all who are about stand in line, so that calls do not become too small.
 * Its numbers begin with 1, and the slot's meta remembers it apart: either is repeated without a
 * look at the other.
 *
 * A call that finds that its topic is spread otherwise than this node believed (SPREAD) has changed
 * nothing: its items begin anew.
 *
 * *Invariant.* While a call is under way the topics that it names stay.
 */

#include "base/err.h"
#include "cluster/load.h"
#include "cluster/mutant.h"

#include <string.h>

#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define TWIN_OPS (UINT64_C(1) << 52) /* the first of fourteen digits */

enum { CROWD_PART = 4, CROWD_FADES = 8, TRIES_MAX = 4, KEY_SLOT_BITS = 16 };

static const struct tr_cl_way *way_of(enum tr_cl_kind kind)
{
    static const struct tr_cl_way *const ways[TR_CL_KINDS] = {
        [TR_CL_PUSH] = &tr_push_way,       [TR_CL_EDIT] = &tr_edit_way,
        [TR_CL_LOOK] = &tr_look_way,       [TR_CL_KICK] = &tr_kick_way,
        [TR_CL_CONF] = &tr_conf_way,       [TR_CL_PAUSE] = &tr_pause_way,
        [TR_CL_COUNT] = &tr_count_way,     [TR_CL_TEND] = &tr_tend_way,
        [TR_CL_HEADER] = &tr_header_way,   [TR_CL_KEY] = &tr_key_way,
        [TR_CL_AGENDA] = &tr_agenda_way,   [TR_CL_OWN] = &tr_own_way,
        [TR_CL_LOAD] = &tr_load_way,       [TR_CL_NOTE] = &tr_note_way,
        [TR_CL_NAMES] = &tr_names_way,     [TR_CL_PURGE] = &tr_purge_way,
        [TR_CL_LIST] = &tr_list_way,       [TR_CL_FORECAST] = &tr_forecast_way,
        [TR_CL_DEAD] = &tr_dead_way,       [TR_CL_LEASES] = &tr_leases_way,
        [TR_CL_ORPHANS] = &tr_orphans_way, [TR_CL_SCHEDULE] = &tr_schedule_way,
        [TR_CL_PLAN] = &tr_plan_way,       [TR_CL_ROSTER] = &tr_roster_way,
        [TR_CL_WHERE] = &tr_where_way,     [TR_CL_ORDER] = &tr_order_way,
        [TR_CL_OUTLETS] = &tr_outlets_way, [TR_CL_SIFT] = &tr_sift_way,
        [TR_CL_BULK] = &tr_bulk_way,       [TR_CL_FIELDS] = &tr_fields_way,
        [TR_CL_BEATS] = &tr_beats_way,     [TR_CL_SWEEP] = &tr_sweep_way,
        [TR_CL_FORGET] = &tr_forget_way,   [TR_CL_FIX] = &tr_fix_way,
        [TR_CL_MADE] = &tr_made_way,       [TR_CL_INDEX] = &tr_index_way,
        [TR_CL_RAISE] = &tr_raise_way,     [TR_CL_SCAN] = &tr_scan_way,
    };

    return ways[kind];
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why);

static struct tr_clane *lane_new(struct tr_cluster *c, enum tr_cl_kind kind, unsigned slot)
{
    struct tr_clane *lane = tr_mem_alloc(c->mem, sizeof *lane);

    if (lane == NULL) {
        return NULL;
    }
    if (tr_call_init(c, &lane->call, heard) != TARRY_OK) {
        tr_mem_free(c->mem, lane, sizeof *lane);
        return NULL;
    }
    lane->kind = kind;
    lane->slot = slot;
    if (tr_desk_lane_init(c, lane) != TARRY_OK) {
        tr_call_fini(c, &lane->call);
        tr_mem_free(c->mem, lane, sizeof *lane);
        return NULL;
    }
    tr_list_init(&lane->all);
    tr_list_init(&lane->dirty);
    tr_list_init(&lane->items);
    tr_list_init(&lane->flying);
    return lane;
}

struct tr_clane *tr_lane_of(struct tr_cluster *c, enum tr_cl_kind kind, unsigned slot)
{
    uint64_t key;
    struct tr_clane *lane;

    if (tr_desk_way(c, kind) != NULL) {
        slot = tr_desk_lane_conn(c, kind, slot); /* one for all slots of a connection */
    }
    key = (uint64_t)kind << KEY_SLOT_BITS | slot;
    lane = tr_map_find(&c->lanes, key);
    if (lane != NULL) {
        return lane;
    }
    lane = lane_new(c, kind, slot);
    if (lane == NULL) {
        return NULL;
    }
    if (tr_map_put(&c->lanes, key, lane) != TARRY_OK) {
        tr_desk_lane_fini(c, lane);
        tr_call_fini(c, &lane->call);
        tr_mem_free(c->mem, lane, sizeof *lane);
        return NULL;
    }
    tr_list_append(&c->all_lanes, &lane->all);
    return lane;
}

/* The one that items are in. */
static struct tr_clane *first_of(struct tr_clane *lane)
{
    return lane->first != NULL ? lane->first : lane;
}

static void mark(struct tr_cluster *c, struct tr_clane *lane)
{
    if (tr_list_empty(&lane->dirty)) {
        tr_list_append(&c->dirty, &lane->dirty);
    }
}

void tr_lane_add(struct tr_cluster *c, struct tr_clane *lane, struct tr_item *item)
{
    lane = first_of(lane);
    tr_list_remove(&item->link);
    tr_list_append(&lane->items, &item->link);
    item->queued = true;
    c->items_queued++;
    mark(c, lane);
}

void tr_lane_put(struct tr_cluster *c, enum tr_cl_kind kind, struct tr_item *item)
{
    const struct tr_cl_way *way = way_of(kind);
    struct tr_clane *lane = tr_lane_of(c, kind, way != NULL && way->meta ? 0 : item->slot);

    if (lane == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else {
        tr_lane_add(c, lane, item);
    }
}

/* ---- on the way out ---- */

unsigned tr_lane_topic(const struct tr_clane *lane, const struct tr_ctopic *t)
{
    unsigned i = 0;

    while (i < lane->topic_count && lane->topics[i] != t) {
        i++;
    }
    return i;
}

static size_t weight(const struct tr_item *item)
{
    return item->req != NULL ? item->req->body_len : 0;
}

/* A job that is reserved by its id for somebody who will not hear of it is given back. A reserve
 * that comes late, behind that, must be refused for its number: so both go by the first call. */
static bool never_twin(const struct tr_item *item)
{
    return item->op == TR_OP_RESERVE_JOB || item->op == TR_OP_RETURN;
}

/* As many of those that wait as one call takes. */
static void gather(struct tr_cluster *c, struct tr_clane *lane, const struct tr_cl_way *way)
{
    const struct tr_list *items = &first_of(lane)->items;
    size_t bytes = 0;

    lane->count = 0;
    lane->topic_count = 0;
    lane->soonest_us = 0;
    while (!tr_list_empty(items) && lane->count < way->most) {
        struct tr_item *item = TR_CONTAINER_OF(items->next, struct tr_item, link);
        unsigned topic = tr_lane_topic(lane, item->topic);

        bytes += weight(item);
        if ((lane->count > 0 && bytes > TR_EVAL_BYTES) ||
            (lane->first != NULL && never_twin(item))) {
            break;
        }
        if (way->jobs && item->topic != NULL && topic == lane->topic_count) {
            if (topic == TR_EVAL_TOPICS) {
                break;
            }
            tr_ctopic_pin(item->topic);
            lane->topics[lane->topic_count++] = item->topic;
        }
        tr_list_remove(&item->link);
        tr_list_append(&lane->flying, &item->link);
        item->queued = false;
        item->flying = true;
        lane->count++;
        c->items_queued--;
    }
}

static void let_topics_go(struct tr_cluster *c, struct tr_clane *lane)
{
    for (unsigned i = 0; i < lane->topic_count; i++) {
        tr_ctopic_unpin(c, lane->topics[i]);
    }
    lane->topic_count = 0;
}

static uint64_t twin_ops(const struct tr_clane *lane)
{
    return lane->first != NULL && !TR_CL_MUTANT(ONE_NUMBER) ? TWIN_OPS : 0;
}

static int build(struct tr_cluster *c, struct tr_clane *lane, const struct tr_cl_way *way,
                 int script)
{
    struct tr_eval_topic topics[TR_EVAL_TOPICS];
    struct tr_eval_about about = {.layout = &c->layout,
                                  .slot = lane->slot,
                                  .uuid = c->uuid,
                                  .node = c->node,
                                  .op = lane->op | twin_ops(lane),
                                  .topics = topics,
                                  .topic_count = lane->topic_count,
                                  .schedules = way->schedules};

    for (unsigned i = 0; i < lane->topic_count; i++) {
        topics[i] = (struct tr_eval_topic){lane->topics[i]->name, lane->topics[i]->spread,
                                           lane->topics[i]->order};
    }
    if (way->jobs) {
        tr_eval_begin(&lane->call.eval, (enum tr_script_name)script, &about);
    }
    way->build(c, lane);
    return tr_eval_end(&lane->call.eval);
}

/* Without memory for the call: requests hear so, the rest tries again. */
static void no_memory(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_clane *first = first_of(lane);
    struct tr_list again;
    struct tr_item *item;

    tr_list_init(&again);
    let_topics_go(c, lane);
    while ((item = tr_lane_next(lane)) != NULL) {
        item->flying = false;
        if (item->inner) {
            tr_list_append(&again, &item->link);
            item->queued = true;
            c->items_queued++;
        } else {
            tr_item_finish(c, item, TARRY_ENOMEM);
        }
    }
    tr_list_splice(&again, &first->items);
    tr_list_splice(&first->items, &again);
    if (!tr_list_empty(&first->items)) {
        c->retry_us = c->now.boot_us + NO_MEMORY_AGAIN_US;
        mark(c, first);
    }
}

/* Housekeeping may wait for a connection, but not until this node's session is over: it began in
 * its first two thirds. */
static uint64_t patience_of(const struct tr_cluster *c, const struct tr_clane *lane)
{
    uint64_t third_us = c->tenure.lease_us / 3;

    return lane->kind == TR_CL_TEND && third_us < c->config.patience_us ? third_us
                                                                        : c->config.patience_us;
}

static void go(struct tr_cluster *c, struct tr_clane *lane, const struct tr_cl_way *way)
{
    int script = way->choose != NULL ? way->choose(c, lane) : way->script;
    struct tr_call_way how = {.script = script,
                              .hash_slot = way->meta ? c->meta_hash : c->slots[lane->slot].hash,
                              .slot = lane->slot,
                              .server = -1,
                              .patience_us = patience_of(c, lane),
                              .repeats = true};

    gather(c, lane, way);
    lane->op++;
    if (build(c, lane, way, script) != TARRY_OK) {
        no_memory(c, lane);
        return;
    }
    c->stat.batches++;
    c->stat.items += lane->count;
    c->calls_under_way++;
    tr_call_start(c, &lane->call, &how);
}

/* So many stand in line; at most one call takes. */
static unsigned in_line(const struct tr_clane *lane, const struct tr_cl_way *way)
{
    unsigned n = 0;

    for (const struct tr_list *at = lane->items.next; at != &lane->items && n < way->most;
         at = at->next) {
        n++;
    }
    return n;
}

static unsigned under_way(const struct tr_clane *lane)
{
    return lane != NULL && lane->call.state != TR_CALL_IDLE ? lane->count : 0;
}

struct tr_clane *tr_lane_twin(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_clane *twin = lane->twin != NULL ? lane->twin : lane_new(c, lane->kind, lane->slot);

    if (lane->twin == NULL && twin != NULL) {
        twin->first = lane;
        lane->twin = twin;
        tr_list_append(&c->all_lanes, &twin->all);
    }
    return twin;
}

/* One call beside another that is under way. */
static void go_beside(struct tr_cluster *c, struct tr_clane *lane, const struct tr_cl_way *way)
{
    struct tr_clane *free = lane->call.state == TR_CALL_IDLE ? lane : tr_lane_twin(c, lane);

    if (free != lane && never_twin(TR_CONTAINER_OF(lane->items.next, struct tr_item, link))) {
        return; /* when the first one has ended */
    }
    if (free != NULL && free->call.state == TR_CALL_IDLE) {
        go(c, free, way);
    }
}

void tr_lane_go(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_cl_way *way = way_of(lane->kind);
    unsigned flying = under_way(lane) + under_way(lane->twin);
    unsigned waiting;

    if (lane->sql != NULL) {
        tr_desk_lane_go(c, lane);
        return;
    }
    waiting = in_line(lane, way);
    if (lane->crowd < flying + waiting) {
        lane->crowd = flying + waiting;
    }
    if (waiting == 0) {
        return;
    }
    if (flying == 0) {
        lane->crowd -= lane->crowd / CROWD_FADES;
        go(c, lane, way);
    } else if (way->twin && (waiting == way->most || CROWD_PART * waiting >= lane->crowd)) {
        lane->crowd -= lane->crowd / CROWD_FADES;
        go_beside(c, lane, way);
    }
}

/* ---- on the way in ---- */

struct tr_item *tr_lane_next(struct tr_clane *lane)
{
    struct tr_item *item;

    if (tr_list_empty(&lane->flying)) {
        return NULL;
    }
    item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    tr_list_remove(&item->link);
    return item;
}

void tr_lane_fail(struct tr_cluster *c, struct tr_clane *lane, int status)
{
    struct tr_item *item;

    while ((item = tr_lane_next(lane)) != NULL) {
        tr_item_finish(c, item, status);
    }
}

/* One that is to be woken: here, or elsewhere. */
static void wake(struct tr_cluster *c, const char *node, struct tr_spot *spot, uint64_t due_us,
                 uint64_t now_us)
{
    if (memcmp(node, c->node, TR_PLACE_NODE_DIGITS) == 0) {
        tr_take_woken(c, spot, due_us, now_us);
    } else {
        tr_wake_node(c, node, spot->slot, spot->topic, due_us);
    }
}

void tr_lane_common(struct tr_cluster *c, const struct tr_answer *a, const struct tr_lane_told *of)
{
    char node[TR_PLACE_NODE_DIGITS];
    unsigned topic;

    if (c->desk == NULL) { /* else it is the database's time that counts */
        c->server_us = a->now_us;
        c->server_at_us = c->now.boot_us;
        c->slots[of->slot].server_us = a->now_us;
        c->slots[of->slot].server_at_us = c->now.boot_us;
    }
    for (unsigned i = 0; i < of->count && a->versions.len > 0; i++) {
        tr_ctopic_version(c, of->topics[i], of->slot, tr_answer_version(a, i));
    }
    for (unsigned i = 0; tr_answer_waiter(a, i, &topic, node); i++) {
        struct tr_spot *spot =
            topic < of->count ? tr_ctopic_spot(of->topics[topic], of->slot) : NULL;

        if (spot != NULL) {
            wake(c, node, spot, of->soonest_us,
                 c->desk != NULL ? tr_cluster_server_now(c) : a->now_us);
        }
    }
    if (tr_answer_ended(a)) {
        tr_home_tell(c, of->slot, TR_HOME_AGENDA);
    }
}

/* SPREAD, name, so many. */
unsigned tr_lane_spread(const struct tr_redis_reply *reply)
{
    unsigned spread = 0;

    if (reply->count < 3 || !tr_span_begins(reply->items[0], "SPREAD")) {
        return 0;
    }
    for (size_t i = 0; i < reply->items[2].len && spread < TR_SLOTS_MAX; i++) {
        char ch = reply->items[2].at[i];

        spread = ch >= '0' && ch <= '9' ? spread * 10 + (unsigned)(ch - '0') : 0;
    }
    return spread;
}

/* It was made for so many slots. Everybody begins anew. */
static void respread(struct tr_cluster *c, struct tr_clane *lane,
                     const struct tr_redis_reply *reply)
{
    unsigned spread = tr_lane_spread(reply);
    struct tr_item *item;

    for (unsigned i = 0; i < lane->topic_count && reply->count > 2; i++) {
        struct tr_ctopic *t = lane->topics[i];

        if (t->name_len == reply->items[1].len &&
            memcmp(t->name, reply->items[1].at, t->name_len) == 0) {
            (void)tr_ctopic_set_spread(c, t, spread);
        }
    }
    while ((item = tr_lane_next(lane)) != NULL) {
        item->flying = false;
        if (++item->tries > TRIES_MAX || (item->req == NULL && !item->inner)) {
            tr_item_finish(c, item, TARRY_EAWAY);
        } else if (lane->kind == TR_CL_PUSH) {
            tr_push_ask(c, item); /* it may be another slot's */
        } else {
            tr_lane_add(c, lane, item);
        }
    }
}

/* Topics that were not there before this push. */
static void look_for_new(struct tr_cluster *c, const struct tr_clane *lane,
                         const struct tr_answer *a)
{
    for (unsigned i = 0; i < lane->topic_count; i++) {
        if (tr_answer_version(a, i) == UINT32_MAX) {
            tr_ctopic_made(c, lane->topics[i]);
            tr_home_tell(c, lane->slot, TR_HOME_AGENDA); /* which may have been empty */
        }
    }
}

static void answered(struct tr_cluster *c, struct tr_clane *lane,
                     const struct tr_redis_reply *reply)
{
    const struct tr_cl_way *way = way_of(lane->kind);
    struct tr_answer a;

    if (way->jobs && tr_answer_read(reply, &a) == TARRY_OK) {
        way->answered(c, lane, &a);
        if (lane->kind == TR_CL_PUSH) {
            look_for_new(c, lane, &a);
        }
        tr_lane_common(c, &a,
                       &(struct tr_lane_told){.slot = lane->slot,
                                              .topics = lane->topics,
                                              .count = lane->topic_count,
                                              .soonest_us = lane->soonest_us});
    } else if (way->jobs && tr_lane_spread(reply) != 0) {
        respread(c, lane, reply);
    } else if (way->heard != NULL) {
        way->heard(c, lane, reply);
    }
    tr_lane_fail(c, lane, TARRY_EDAMAGED); /* if any is left, that was no answer of ours */
}

/* Does it bring what a full Redis refuses? With a database new jobs are images. */
static bool is_new(const struct tr_cluster *c, const struct tr_clane *lane)
{
    return c->desk != NULL ? lane->kind == TR_CL_INDEX && !lane->sheds : lane->kind == TR_CL_PUSH;
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why)
{
    struct tr_clane *lane = TR_CONTAINER_OF(call, struct tr_clane, call);

    c->calls_under_way--;
    if (why == 0) {
        answered(c, lane, reply);
    } else {
        tr_cluster_trouble(c, call, why, reply);
        tr_lane_fail(c, lane, tr_call_status(why));
    }
    let_topics_go(c, lane);
    tr_eval_trim(&lane->call.eval);
    if (why == 0 && is_new(c, lane)) {
        tr_room_better(c, call);
    }
    if (!tr_list_empty(&first_of(lane)->items)) {
        mark(c, first_of(lane));
    }
}
