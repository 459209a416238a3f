/*
 * The engine on Redis.
 *
 *     submit ──► an item, which goes to a lane           turn ──► lanes and takes are sent
 *     ear    ──► an answer: items end, or go on                   timers of calls, waits, members
 *
 * Nothing is kept here but what is under way, and copies: see inner.h for the parts, doc/cluster.md
 * for what the scripts do. Requests that cannot be answered on Redis end with TARRY_EUNSUPPORTED
 * and a sentence.
 *
 * Until the first beat was answered (OPENING) it is not known whether this is the right store: all
 * but the bookkeeping of names is TARRY_EAWAY. So it is, at once, when no server at all is up.
 */

#include "cluster/engine.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/load.h"
#include "cluster/mutant.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define CLOCK_OFF_US UINT64_C(10000000)
#define FRESH_US UINT64_C(1000000)

enum { WORK = 3 };

void tr_cluster_config_init(struct tr_cluster_config *c, struct tr_mem *mem)
{
    *c = (struct tr_cluster_config){.mem = mem,
                                    .prefix = "tarry:",
                                    .slots = 256,
                                    .address = "",
                                    .timeout_us = 500000,
                                    .patience_us = 1500000,
                                    .lease_us = 10000000,
                                    .sql_connections = 4,
                                    .sql_batch = 256,
                                    .hot_window_us = UINT64_C(600000000),
                                    .hot_max = 50000,
                                    .images_max = 65536,
                                    .reconcile_us = UINT64_C(600000000),
                                    .history_us = UINT64_C(86400000000),
                                    .body_max = 1 << 20,
                                    .flight_calls = 256,
                                    .flight_bytes = 16 * TR_EVAL_BYTES,
                                    .take_bytes = TR_EVAL_BYTES,
                                    .forget_us = UINT64_C(3600000000),
                                    .max_topics = 100000};
}

void tr_cluster_note(const struct tr_cluster *c, enum tr_notice kind, const char *format, ...)
{
    char text[512];
    va_list args;

    if (c->config.notice == NULL) {
        return;
    }
    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    c->config.notice(c->config.ctx, kind, text);
}

void tr_cluster_set_now(struct tr_cluster *c, struct tr_now now)
{
    if (now.boot_us < c->now.boot_us) {
        now.boot_us = c->now.boot_us; /* a caller with an older reading than ours */
    }
    c->now = now;
}

/* ---- begin and end ---- */

static void init_lists(struct tr_cluster *c)
{
    tr_heap_init(&c->timers, c->mem, offsetof(struct tr_call, place));
    tr_map_init(&c->lanes, c->mem);
    tr_map_init(&c->takes, c->mem);
    tr_map_init(&c->holders, c->mem);
    tr_map_init(&c->wakers, c->mem);
    tr_list_init(&c->all_lanes);
    tr_list_init(&c->dirty);
    tr_list_init(&c->all_takes);
    tr_list_init(&c->dirty_takes);
    tr_list_init(&c->holdings);
    tr_heap_init(&c->ends, c->mem, offsetof(struct tr_holding, place));
    tr_list_init(&c->later);
    tr_list_init(&c->all_wakers);
    c->later_us = TR_CL_NEVER;
    c->retry_us = TR_CL_NEVER;
    tr_vigil_init(&c->vigil, c->mem);
    c->vigil.deaf = true; /* until the connection for wake-ups is up */
    c->stat.deaf = true;
    tr_waits_init(c);
    tr_mourn_init(c);
    tr_list_init(&c->painting.asking);
    tr_list_init(&c->telling);
    tr_delivers_init(c);
    tr_atlas_init(&c->atlas, c->mem, c->config.zone, c->config.zone_ctx);
    tr_loss_init(c);
    tr_bulks_init(c);
    tr_sweep_init(c);
    tr_forget_init(c);
}

static void init_names(struct tr_cluster *c)
{
    char key[TR_PLACE_KEY_MAX];

    tr_text(c->node, sizeof c->node, "%016llx", (unsigned long long)c->config.node);
    tr_text(c->address, sizeof c->address, "%s", c->config.address);
    tr_text(c->fresh_uuid, sizeof c->fresh_uuid, "%s",
            c->config.uuid != NULL ? c->config.uuid : "");
    c->meta_hash = tr_place_hash_slot(key, tr_place_meta_key(key, &c->layout, TR_META_LAYOUT));
    c->wake_key_len = tr_place_wake_key(c->wake_key, &c->layout, c->node);
    c->wake_hash = tr_place_hash_slot(c->wake_key, c->wake_key_len);
    c->rng.state = c->config.node;
    c->names = (struct tr_item){.inner = true, .end = tr_ctopics_named};
    tr_list_init(&c->names.link);
}

static bool add_seeds(struct tr_cluster *c)
{
    tr_shards_init(&c->shards);
    for (unsigned i = 0; i < c->config.server_count; i++) {
        const char *name = c->config.servers[i];

        if (strchr(name, ':') == NULL || tr_shards_name(&c->shards, name, strlen(name)) < 0) {
            return false;
        }
    }
    c->seed_count = c->shards.count;
    c->stat.servers = c->shards.count;
    return c->seed_count > 0;
}

int tr_cluster_new(const struct tr_cluster_config *config, struct tr_now now,
                   struct tr_cluster **out)
{
    struct tr_cluster *c = tr_mem_alloc(config->mem, sizeof *c);
    int err;

    *out = NULL;
    if (c == NULL) {
        return TARRY_ENOMEM;
    }
    c->mem = config->mem;
    c->config = *config;
    c->port = config->port;
    c->now = now;
    init_lists(c);
    tr_gauges_init(c);
    tr_ctopics_init(c);
    err = tr_layout_init(&c->layout, config->prefix, config->slots);
    if (err == TARRY_OK && !add_seeds(c)) {
        err = TARRY_EINVAL;
    }
    if (err == TARRY_OK) {
        init_names(c);
        err = tr_call_init(c, &c->chart, tr_chart_answered);
    }
    if (err == TARRY_OK) {
        err = tr_home_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_picture_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_room_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_desk_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_align_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_recurs_init(c);
    }
    if (err == TARRY_OK) {
        err = tr_house_init(c);
    }
    if (err != TARRY_OK) {
        tr_cluster_free(c);
        return err;
    }
    *out = c;
    return TARRY_OK;
}

/* A job that it may have reserved does not go back: there is nobody any more to send it. */
static void free_item(struct tr_cluster *c, struct tr_item *item)
{
    if (item->holding != NULL) {
        tr_hold_free(c, item->holding);
        item->holding = NULL;
    }
    tr_item_free(c, item);
}

static void free_lanes(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->all_lanes)) {
        struct tr_clane *lane = TR_CONTAINER_OF(c->all_lanes.next, struct tr_clane, all);
        struct tr_item *item;

        tr_list_splice(&lane->flying, &lane->items);
        while ((item = tr_lane_next(lane)) != NULL) {
            if (!item->inner) {
                free_item(c, item);
            }
        }
        tr_list_remove(&lane->all);
        tr_desk_lane_fini(c, lane);
        tr_call_fini(c, &lane->call);
        tr_mem_free(c->mem, lane, sizeof *lane);
    }
    tr_map_fini(&c->lanes);
}

/* Those that wait for settings, counts or names. */
static void free_items(struct tr_cluster *c, struct tr_list *list)
{
    while (!tr_list_empty(list)) {
        struct tr_item *item = TR_CONTAINER_OF(list->next, struct tr_item, link);

        tr_list_remove(&item->link);
        if (!item->inner && !item->waits) {
            free_item(c, item);
        }
    }
}

static void close_links(struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        if (c->links[i].state != TR_LINK_DOWN) {
            c->port.close(c->port.ctx, i);
        }
    }
    if (c->wake.state != TR_LINK_DOWN) {
        c->port.close(c->port.ctx, TR_CL_WAKE_CONN);
    }
}

void tr_cluster_free(struct tr_cluster *c)
{
    struct tr_mem *mem = c->mem;

    close_links(c);
    tr_waits_free(c);
    tr_take_free(c);
    free_lanes(c);
    if (c->desk != NULL) {
        tr_desk_free_parts(c);
    }
    free_items(c, &c->gathering);
    free_items(c, &c->painting.asking);
    free_items(c, &c->telling);
    for (struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        free_items(c, &t->waiting);
        free_items(c, &t->noted);
        free_items(c, &t->counting);
    }
    if (c->desk != NULL) {
        tr_align_fini(c); /* some of its items stood in those lists */
    }
    tr_holds_free(c);
    tr_delivers_free(c);
    tr_bulks_fini(c);
    tr_wakes_free(c);
    tr_home_fini(c);
    tr_picture_fini(c);
    tr_room_fini(c);
    tr_call_fini(c, &c->chart);
    tr_ctopics_fini(c);
    tr_desk_fini(c);
    tr_atlas_fini(&c->atlas);
    tr_gauges_fini(c);
    tr_vigil_fini(&c->vigil);
    tr_heap_fini(&c->timers);
    tr_mem_free(mem, c->actors, (size_t)c->actor_room * TR_ACTOR_NAME_MAX);
    tr_mem_free(mem, c, sizeof *c);
}

struct tr_redis_ear tr_cluster_ear(struct tr_cluster *c)
{
    return (struct tr_redis_ear){
        .ctx = c, .up = tr_link_up, .heard = tr_link_heard, .closed = tr_link_closed};
}

struct tr_sql_ear tr_cluster_sql_ear(struct tr_cluster *c)
{
    return (struct tr_sql_ear){.ctx = c, .ended = tr_desk_ended};
}

void tr_cluster_tick(struct tr_cluster *c, struct tr_now now)
{
    tr_cluster_set_now(c, now);
}

/* ---- requests ---- */

static const char *why_not(enum tr_op op)
{
    switch (op) {
    case TR_OP_ADVANCE:
        return "a test clock needs the embedded engine";
    case TR_OP_BACKUP:
        return "a backup needs the embedded engine: use that of Redis";
    default:
        return "that needs the embedded engine";
    }
}

/* Of whole topics. */
static void dispatch_whole(struct tr_cluster *c, struct tr_item *item)
{
    switch (item->op) {
    case TR_OP_PURGE:
        tr_purge_ask(c, item);
        break;
    case TR_OP_BULK:
        tr_bulk_ask(c, item);
        break;
    case TR_OP_LIST:
        tr_page_ask(c, item);
        break;
    case TR_OP_FORECAST:
        tr_forecast_ask(c, item);
        break;
    case TR_OP_RESTORE:
        tr_restore_ask(c, item);
        break;
    default:
        tr_item_refuse(c, item, TARRY_EUNSUPPORTED, why_not(item->op));
        break;
    }
}

static void dispatch(struct tr_cluster *c, struct tr_item *item)
{
    switch (item->op) {
    case TR_OP_PUSH:
        tr_push_ask(c, item);
        break;
    case TR_OP_RESERVE_JOB:
    case TR_OP_DELETE:
    case TR_OP_RELEASE:
    case TR_OP_RETURN:
    case TR_OP_BURY:
    case TR_OP_TOUCH:
    case TR_OP_KICK_JOB:
    case TR_OP_FIRE:
    case TR_OP_EDIT:
        tr_edit_ask(c, item);
        break;
    case TR_OP_KICK:
        tr_kick_ask(c, item);
        break;
    case TR_OP_PAUSE:
        tr_policy_pause(c, item);
        break;
    case TR_OP_POLICY:
        tr_policy_set(c, item);
        break;
    case TR_OP_HISTORY:
        if (c->desk != NULL && item->req->key_len == 0) {
            tr_flow_ask(c, item);
            break;
        }
        /* fall through */
    case TR_OP_PEEK:
    case TR_OP_STAT_JOB:
        tr_look_ask(c, item);
        break;
    case TR_OP_PEEK_FIRST:
        tr_count_first(c, item);
        break;
    case TR_OP_STAT_TOPIC:
        tr_count_stat_topic(c, item);
        break;
    case TR_OP_STAT:
        tr_count_stat(c, item);
        break;
    case TR_OP_FIND_TOPIC:
        tr_ctopic_find(c, item);
        break;
    case TR_OP_NEXT_TOPIC:
        tr_ctopic_next(c, item);
        break;
    case TR_OP_PICTURE:
        tr_picture_ask(c, item);
        break;
    default:
        if (item->op >= TR_OP_SCHEDULE && item->op <= TR_OP_SCHEDULE_RUN) {
            tr_schedules_ask(c, item);
        } else {
            dispatch_whole(c, item);
        }
        break;
    }
}

static bool is_local(enum tr_op op)
{
    return op == TR_OP_HOLD_TOPIC || op == TR_OP_DROP_TOPIC || op == TR_OP_CLOSE;
}

static void do_local(struct tr_cluster *c, struct tr_req *r)
{
    if (r->op == TR_OP_HOLD_TOPIC) {
        tr_ctopic_hold(c, r);
    } else if (r->op == TR_OP_DROP_TOPIC) {
        tr_ctopic_drop(c, r);
    } else {
        tr_hold_close(c, r);
    }
}

static void clear_answer(struct tr_req *r)
{
    r->out.status = TARRY_OK;
    r->out.why = NULL;
    r->out.gate = 0;
    r->out.number = 0;
    r->out.jobs = NULL;
    r->out.cursor = (struct tr_cursor){0};
    r->out.passed = 0;
    r->out.existed = false;
    r->out.damaged = false;
    r->out.stat = (struct tr_topic_stat){0};
    r->out.forecast = (struct tr_forecast_view){0};
    r->out.job = (struct tr_job_view){0};
    r->out.picture = NULL;
}

bool tr_cluster_is_away(const struct tr_cluster *c, enum tr_op op)
{
    bool redis = op != TR_OP_PICTURE && (c->desk == NULL || tr_desk_needs_redis(op));

    /* Others ask the database, and hear so; who waits for a job would ask it when there is one. */
    return (redis && !tr_link_hope(c)) ||
           (op == TR_OP_RESERVE && c->desk != NULL && tr_desk_stands(c));
}

void tr_cluster_submit(struct tr_cluster *c, struct tr_req *r, struct tr_now now)
{
    struct tr_item *item;

    tr_cluster_set_now(c, now);
    r->own = NULL;
    r->busy = true;
    r->stalled = false;
    clear_answer(r);
    if (is_local(r->op)) {
        do_local(c, r);
    } else if (tr_cluster_stage(c) != TR_ENGINE_OPEN || (c->refused & TR_CL_TRUTH) != 0 ||
               tr_cluster_is_away(c, r->op)) {
        r->out.why = tr_desk_words(c, TARRY_EAWAY);
        tr_req_finish(r, TARRY_EAWAY);
    } else if (r->op == TR_OP_RESERVE) {
        tr_wait_ask(c, r);
    } else if ((item = tr_item_new(c, r)) == NULL) {
        tr_req_finish(r, TARRY_ENOMEM);
    } else {
        dispatch(c, item);
    }
}

void tr_cluster_abandon(struct tr_cluster *c, struct tr_req *r, struct tr_now now)
{
    struct tr_item *item = r->own;

    tr_cluster_set_now(c, now);
    if (!r->busy || item == NULL) {
        return;
    }
    r->busy = false;
    r->own = NULL;
    item->req = NULL;
    if (item->waits) {
        tr_wait_abandon(c, (struct tr_wait *)item);
    } else if (!item->flying) {
        c->items_queued -= item->queued;
        tr_item_free(c, item);
    }
}

unsigned tr_cluster_work(const struct tr_cluster *c)
{
    (void)c;
    return WORK;
}

bool tr_cluster_waited(const struct tr_cluster *c, uint32_t topic)
{
    const struct tr_ctopic *t = tr_ctopic_by_number(c, topic);

    return t != NULL && !tr_list_empty(&t->line) &&
           TR_CONTAINER_OF(t->line.next, struct tr_waiter, link)->wait->asked == NULL;
}

/* ---- time ---- */

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Sends what lanes have; those without memory come again. */
static void send_lanes(struct tr_cluster *c)
{
    struct tr_list dirty;

    c->retry_us = TR_CL_NEVER;
    tr_list_init(&dirty);
    tr_list_splice(&dirty, &c->dirty);
    while (!tr_list_empty(&dirty)) {
        struct tr_clane *lane = TR_CONTAINER_OF(dirty.next, struct tr_clane, dirty);

        tr_list_remove(&lane->dirty);
        tr_lane_go(c, lane);
    }
}

static bool anything_to_send(const struct tr_cluster *c)
{
    return (!tr_list_empty(&c->dirty) && c->retry_us == TR_CL_NEVER) ||
           !tr_list_empty(&c->dirty_takes) || tr_schedules_busy(c);
}

uint64_t tr_cluster_turn(struct tr_cluster *c, struct tr_now now)
{
    const struct tr_heap_item *top;
    uint64_t next_us;

    tr_cluster_set_now(c, now);
    tr_link_timers(c);
    tr_call_timers(c);
    tr_chart_turn(c);
    tr_coord_turn(c);
    tr_home_turn(c);
    tr_desk_turn(c);
    if (c->stage == TR_ENGINE_OPEN) {
        tr_align_turn(c);
        tr_hold_turn(c);
        tr_mourn_turn(c);
        tr_schedules_turn(c);
        tr_recurs_turn(c);
        tr_house_turn(c);
        tr_loss_turn(c);
        tr_delivers_turn(c);
        tr_sweep_turn(c);
        tr_room_turn(c);
        tr_wait_timers(c);
        tr_take_turn(c);
        send_lanes(c);
        tr_wake_turn(c);
    }
    top = tr_heap_top(&c->timers);
    next_us = min(top != NULL ? top->second : TR_CL_NEVER, tr_link_next(c));
    next_us = min(next_us, min(tr_chart_next(c), min(tr_home_next(c), tr_coord_next(c))));
    if (c->stage == TR_ENGINE_OPEN) {
        next_us = min(next_us, min(tr_wait_next(c), tr_vigil_next(&c->vigil)));
        next_us = min(next_us, min(tr_wake_next(c), min(tr_hold_next(c), c->retry_us)));
        next_us = min(next_us, min(tr_take_next(c), tr_delivers_next(c)));
        next_us = min(next_us, min(tr_loss_next(c), min(tr_mourn_next(c), tr_sweep_next(c))));
        next_us = min(next_us, min(tr_align_next(c), tr_recurs_next(c)));
        next_us = min(next_us, min(tr_house_next(c), tr_room_next(c)));
    }
    next_us = min(next_us, tr_desk_next(c));
    return anything_to_send(c) ? c->now.boot_us : next_us;
}

bool tr_cluster_owes(const struct tr_cluster *c)
{
    bool redis = tr_link_any_up(c);
    bool sql = c->desk != NULL && !tr_desk_down(c);

    /* With a database jobs are reserved there, and go back there; Redis only names them. */
    return ((c->takes_under_way > 0 || c->owed > 0) && redis) ||
           ((c->claims_under_way > 0 || c->returning > 0) && (c->desk != NULL ? sql : redis));
}

void tr_cluster_drain(struct tr_cluster *c)
{
    c->draining = true;
}

void tr_cluster_leave(struct tr_cluster *c, struct tr_now now)
{
    tr_cluster_set_now(c, now);
    tr_home_leave(c);
}

uint64_t tr_cluster_server_now(const struct tr_cluster *c)
{
    return c->server_at_us != 0 ? c->server_us + (c->now.boot_us - c->server_at_us)
                                : c->now.wall_us;
}

uint64_t tr_cluster_slot_now(const struct tr_cluster *c, unsigned slot)
{
    int server = tr_shards_find(&c->shards, c->slots[slot].hash);
    const struct tr_cl_slot *last = &c->slots[slot];

    if (c->desk != NULL) {
        return tr_cluster_server_now(c);
    }
    /* If that is long ago: whichever of its slots it answered last. */
    for (unsigned i = 0; i < c->layout.slots && last->server_at_us + FRESH_US < c->now.boot_us;
         i++) {
        const struct tr_cl_slot *s = &c->slots[i];

        if (s->server_at_us > last->server_at_us && server >= 0 &&
            tr_shards_find(&c->shards, s->hash) == server) {
            last = s;
        }
    }
    if (last->server_at_us == 0 || TR_CL_MUTANT(ONE_CLOCK)) {
        return tr_cluster_server_now(c);
    }
    return last->server_us + (c->now.boot_us - last->server_at_us);
}

uint64_t tr_cluster_meta_now(const struct tr_cluster *c)
{
    return c->meta_at_us != 0 ? c->meta_us + (c->now.boot_us - c->meta_at_us)
                              : tr_cluster_server_now(c);
}

uint64_t tr_cluster_boot_of(const struct tr_cluster *c, uint64_t server_us, uint64_t now_us)
{
    uint64_t left_us = server_us > now_us ? server_us - now_us : 0;

    return left_us < TR_CL_NEVER - c->now.boot_us ? c->now.boot_us + left_us : TR_CL_NEVER;
}

/* ---- how it is ---- */

/* What was said, without its end; a script that meets a slot of another store says so in a list. */
static struct tr_span words_of(const struct tr_redis_reply *reply)
{
    static const char other[] = "its slot belongs to another store";
    struct tr_span words = {"no answer", 9};

    if (reply != NULL && reply->error.len > 0) {
        words = reply->error;
        words.len -= words.at[words.len - 1] == '.';
    } else if (reply != NULL && reply->event == TR_REDIS_LIST && reply->count > 0) {
        words = (struct tr_span){other, sizeof other - 1};
    }
    return words;
}

void tr_cluster_trouble(struct tr_cluster *c, const struct tr_call *call, enum tr_route_why why,
                        const struct tr_redis_reply *reply)
{
    struct tr_span words = words_of(reply);

    if (why == TR_ROUTE_REFUSED && tr_link_denied(c, reply)) {
        return;
    }
    if (why == TR_ROUTE_CLOCK) {
        if (c->clock_off_us <= c->now.boot_us) {
            tr_cluster_note(c, TR_NOTE_WARNING,
                            "The clock of a Redis server is more than 5 s off, or was set back: "
                            "its jobs wait until it is right.");
        }
        c->clock_off_us = c->now.boot_us + CLOCK_OFF_US;
    } else if (why == TR_ROUTE_FULL) {
        tr_room_worse(c, call, words);
    } else if (why == TR_ROUTE_REFUSED) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Redis refused a command: %.*s.", (int)words.len,
                        words.at);
    }
}

enum tr_engine_stage tr_cluster_stage(const struct tr_cluster *c)
{
    return c->stage == TR_ENGINE_OPEN && c->desk != NULL && !c->desk->ready ? TR_ENGINE_OPENING
                                                                            : c->stage;
}

/* A server that is needed and not there, also while that is tried again; NULL: none is. */
static const char *missing(const struct tr_cluster *c, unsigned *server)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        const struct tr_link *l = &c->links[i];

        if (l->state != TR_LINK_UP && l->failures > 0 && l->why[0] != '\0' &&
            (!tr_link_any_up(c) || tr_shards_serves(&c->shards, (int)i))) {
            *server = i;
            return l->why;
        }
    }
    return NULL;
}

unsigned tr_cluster_unready(struct tr_cluster *c, struct tr_reason *reasons)
{
    static const struct {
        unsigned bit;
        const char *code;
    } refusals[] = {{TR_CL_LAYOUT, "redis_layout"},       {TR_CL_VERSION, "redis_version"},
                    {TR_CL_EVICTION, "redis_eviction"},   {TR_CL_AUTH, "redis_auth"},
                    {TR_CL_STORE, "redis_store"},         {TR_CL_REPLICAS, "redis_replicas"},
                    {TR_CL_COORD, "coordinator_differs"}, {TR_CL_TRUTH, "sql_differs"}};
    unsigned n = 0;
    unsigned server = 0;
    const char *why = missing(c, &server);
    /* With a database it is that one who takes them. */
    bool takes =
        c->desk != NULL && tr_cluster_stage(c) == TR_ENGINE_OPEN && (c->refused & TR_CL_TRUTH) == 0;

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if ((c->refused & refusals[i].bit) != 0 && n == 0) {
            reasons[n++] = (struct tr_reason){refusals[i].code, c->refusal, false};
        }
    }
    if (why != NULL && n == 0) {
        tr_text(c->away, sizeof c->away, "Redis at %s cannot be reached: %s",
                c->shards.names[server], why);
        reasons[n++] = (struct tr_reason){"redis_away", c->away, false};
    } else if (c->denied_us > c->now.boot_us && n == 0) {
        reasons[n++] = (struct tr_reason){"redis_auth", c->denied, false};
    } else if (n == 0 && tr_chart_trouble(c, reasons)) {
        n++;
    } else if (c->stage != TR_ENGINE_OPEN && n == 0 && tr_life_agreed(c)) {
        reasons[n++] = (struct tr_reason){
            "redis_away", "no answer has come from Redis yet: see redis.servers", false};
    }
    if (c->room.full) {
        reasons[n++] = (struct tr_reason){
            "redis_full", "Redis takes no changes: give it memory or disk, see its log", false};
    }
    if (tr_loss_is_red(c)) {
        reasons[n++] = (struct tr_reason){
            "redis_lost", "Redis has lost data: the jobs that were there are lost, see the log",
            false};
    }
    if (c->short_us > c->now.boot_us) {
        reasons[n++] = (struct tr_reason){
            "redis_replicas", "fewer replicas confirm changes than redis.wait_replicas asks for",
            false};
    }
    if (c->clock_off_us > c->now.boot_us) {
        reasons[n++] = (struct tr_reason){
            "redis_clock", "the clock of a Redis server is off: its jobs wait until it is right",
            false};
    }
    for (unsigned i = 0; i < n; i++) {
        reasons[i].serves = takes;
    }
    n += tr_desk_trouble(c, &reasons[n]);
    n += n < TR_REASONS - 3 && tr_coord_trouble(c, &reasons[n]);
    return n;
}

uint64_t tr_cluster_clock(const struct tr_cluster *c, struct tr_now now)
{
    if (c->server_at_us == 0 || now.boot_us < c->server_at_us) {
        return now.wall_us;
    }
    return c->server_us + (now.boot_us - c->server_at_us);
}

const uint8_t *tr_cluster_uuid(const struct tr_cluster *c)
{
    return c->uuid_bytes;
}

void tr_cluster_stat(const struct tr_cluster *c, struct tr_cluster_stat *s)
{
    *s = c->stat;
    for (unsigned i = 0; i < c->shards.count; i++) {
        s->connections += c->links[i].state == TR_LINK_UP;
    }
    s->topics = c->topic_count;
    s->waiting = c->wait_count;
    s->held = c->held;
    if (c->desk != NULL) {
        s->sql_under_way = c->desk->under_way;
        s->images = c->desk->images;
        s->images_dropped = c->desk->dropped;
    }
}

unsigned tr_cluster_servers(const struct tr_cluster *c, struct tr_cluster_server *servers,
                            unsigned room)
{
    unsigned n = 0;

    for (unsigned i = 0; i < c->shards.count && n < room; i++) {
        const struct tr_link *l = &c->links[i];

        if (l->state == TR_LINK_UP && tr_shards_serves(&c->shards, (int)i)) {
            servers[n++] = (struct tr_cluster_server){.name = c->shards.names[i],
                                                      .version = l->facts.version,
                                                      .fsync = l->facts.fsync,
                                                      .keeps = l->facts.keeps,
                                                      .replicas = l->facts.replicas};
        }
    }
    return n;
}

/* ---- names ---- */

const char *tr_cluster_actor_name(const struct tr_cluster *c, uint32_t actor, size_t *len)
{
    const char *name;

    if (actor == 0 || actor > c->actor_count) {
        return NULL;
    }
    name = c->actors + (size_t)(actor - 1) * TR_ACTOR_NAME_MAX;
    *len = 0;
    while (*len < TR_ACTOR_NAME_MAX && name[*len] != '\0') {
        (*len)++;
    }
    return name;
}

uint32_t tr_cluster_actor(struct tr_cluster *c, const char *name, size_t len)
{
    for (uint32_t i = 1; i <= c->actor_count; i++) {
        size_t its = 0;
        const char *known = tr_cluster_actor_name(c, i, &its);

        if (its == len && memcmp(known, name, len) == 0) {
            return i;
        }
    }
    if (len == 0 || len > TR_ACTOR_NAME_MAX || c->actor_count == TR_ACTORS_MAX) {
        return 0;
    }
    if (c->actor_count == c->actor_room) {
        unsigned room = c->actor_room != 0 ? 2 * c->actor_room : 16;
        char *more = tr_mem_resize(c->mem, c->actors, (size_t)c->actor_room * TR_ACTOR_NAME_MAX,
                                   (size_t)room * TR_ACTOR_NAME_MAX);

        if (more == NULL) {
            return 0;
        }
        c->actors = more;
        c->actor_room = room;
    }
    memcpy(c->actors + (size_t)c->actor_count * TR_ACTOR_NAME_MAX, name, len);
    return ++c->actor_count;
}

const char *tr_cluster_topic_name(const struct tr_cluster *c, uint32_t topic, size_t *len)
{
    const struct tr_ctopic *t = tr_ctopic_by_number(c, topic);

    if (t == NULL) {
        return NULL;
    }
    *len = t->name_len;
    return t->name;
}
