/*
 * Connections: one for each server, whose number in the map is also the connection's. It is made
 * when a call wants to go there. Before any call it is asked who it is (INFO): which life of a
 * server it is goes with each call (doc/cluster.md, section 1), and some servers are not to be
 * used. That may become another one while the connection stays: then a script says CHECK, and the
 * answer of `check` tells.
 *
 * One that breaks is made anew at once; one that cannot be made, after 20, 40 ... 1280 ms.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/load.h"
#include "cluster/mutant.h"

#include <string.h>

#define RETRY_FIRST_US UINT64_C(20000)

#define DENIED_US UINT64_C(10000000)

#define TAG_INFO UINT64_MAX
#define TAG_CONFIG (UINT64_C(1) << 63)

enum { RETRY_DOUBLINGS = 6, RUN_PART = 40, MAJOR_LEAST = 7 };

static void prepare(struct tr_link *l)
{
    if (!l->ready) {
        tr_list_init(&l->queue);
        tr_list_init(&l->sent);
        l->ready = true;
    }
}

bool tr_link_any_up(const struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        if (c->links[i].state == TR_LINK_UP) {
            return true;
        }
    }
    return false;
}

bool tr_link_hope(const struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        const struct tr_link *l = &c->links[i];

        if (l->state == TR_LINK_UP || (l->ready && l->failures == 0)) {
            return true;
        }
    }
    return false;
}

void tr_link_dial(struct tr_cluster *c, unsigned server)
{
    struct tr_link *l = &c->links[server];

    prepare(l);
    if (l->state == TR_LINK_DOWN && l->retry_us <= c->now.boot_us) {
        l->state = TR_LINK_DIALS;
        l->timer_us = c->now.boot_us + c->config.timeout_us;
        c->port.connect(c->port.ctx, server, c->shards.names[server]);
    }
}

static bool has_room(const struct tr_cluster *c, const struct tr_link *l)
{
    return l->sent_count == 0 ||
           (l->sent_count < c->config.flight_calls && l->sent_bytes < c->config.flight_bytes);
}

void tr_link_less(struct tr_cluster *c, const struct tr_call *call)
{
    struct tr_link *l = &c->links[call->server];

    TR_CHECK(l->sent_count > 0);
    l->sent_count--;
    l->sent_bytes -= call->weight;
}

static void send(struct tr_cluster *c, struct tr_call *call)
{
    struct tr_link *l = &c->links[call->server];

    if (call->asking) {
        c->port.send(c->port.ctx, call->server, 0, &(struct tr_span){"ASKING", 6}, 1);
    }
    if (call->script >= 0) {
        tr_eval_with_text(&call->eval, (enum tr_script_name)call->script, call->text);
    }
    if (call->eval.run_at != 0) {
        tr_eval_aim(&call->eval, l->run, c->now.wall_us);
    }
    tr_list_remove(&call->link);
    tr_list_append(&l->sent, &call->link);
    call->state = TR_CALL_SENT;
    call->tag = ++c->tags;
    call->sent_us = c->now.boot_us;
    call->weight = call->eval.used + call->brings;
    l->sent_count++;
    l->sent_bytes += call->weight;
    tr_call_set_timer(c, call, c->now.boot_us + c->config.timeout_us);
    c->stat.calls++;
    c->port.send(c->port.ctx, call->server, call->tag, call->eval.args, call->eval.count);
    tr_confirm_sent(c, call);
}

void tr_link_take(struct tr_cluster *c, struct tr_call *call)
{
    struct tr_link *l = &c->links[call->server];

    tr_link_dial(c, call->server);
    if (l->state == TR_LINK_UP && tr_list_empty(&l->queue) && has_room(c, l)) {
        send(c, call);
    } else if (l->state == TR_LINK_UP) { /* answers come, or it is closed: then it hears so */
        call->state = TR_CALL_QUEUED;
        tr_list_append(&l->queue, &call->link);
        tr_call_set_timer(c, call, call->route.deadline_us);
        c->stat.waits++;
    } else if (l->state == TR_LINK_DOWN) {
        tr_call_unsent(c, call);
    } else {
        call->state = TR_CALL_QUEUED;
        tr_list_append(&l->queue, &call->link);
        tr_call_set_timer(c, call, c->now.boot_us + c->config.timeout_us);
    }
}

void tr_link_pump(struct tr_cluster *c, unsigned server)
{
    struct tr_link *l = &c->links[server];

    while (l->state == TR_LINK_UP && !tr_list_empty(&l->queue) && has_room(c, l)) {
        send(c, TR_CONTAINER_OF(l->queue.next, struct tr_call, link));
    }
}

/* It is gone: whoever was on it hears so. They may begin another one at once. */
static void down(struct tr_cluster *c, unsigned server, const char *why)
{
    struct tr_link *l = &c->links[server];
    bool was_up = l->state == TR_LINK_UP;
    unsigned doublings = l->failures < RETRY_DOUBLINGS ? l->failures : RETRY_DOUBLINGS;
    struct tr_list sent, queue;

    tr_list_init(&sent);
    tr_list_init(&queue);
    tr_list_splice(&sent, &l->sent);
    tr_list_splice(&queue, &l->queue);
    l->state = TR_LINK_DOWN;
    l->retry_us = was_up ? 0 : c->now.boot_us + (RETRY_FIRST_US << doublings);
    l->failures += !was_up;
    tr_text(l->why, sizeof l->why, "%s", why);
    tr_shards_doubt(&c->shards);
    if (was_up) {
        tr_cluster_note(c, TR_NOTE_WARNING, "The connection to Redis at %s is gone: %s.",
                        c->shards.names[server], why);
    }
    while (!tr_list_empty(&sent)) {
        tr_call_event(c, TR_CONTAINER_OF(sent.next, struct tr_call, link),
                      TR_CL_MUTANT(LOST_IS_UNSENT) ? TR_REDIS_UNSENT : TR_REDIS_LOST);
    }
    while (!tr_list_empty(&queue)) {
        tr_call_event(c, TR_CONTAINER_OF(queue.next, struct tr_call, link), TR_REDIS_UNSENT);
    }
}

void tr_link_hang_up(struct tr_cluster *c, unsigned server, const char *why)
{
    if (c->links[server].state != TR_LINK_DOWN) {
        c->port.close(c->port.ctx, server);
        down(c, server, why);
    }
}

void tr_link_timers(struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        const struct tr_link *l = &c->links[i];

        if ((l->state == TR_LINK_DIALS || l->state == TR_LINK_ASKS) &&
            l->timer_us <= c->now.boot_us) {
            tr_link_hang_up(c, i, "it did not answer in time");
        }
    }
}

uint64_t tr_link_next(const struct tr_cluster *c)
{
    uint64_t next_us = TR_CL_NEVER;

    for (unsigned i = 0; i < c->shards.count; i++) {
        const struct tr_link *l = &c->links[i];

        if ((l->state == TR_LINK_DIALS || l->state == TR_LINK_ASKS) && l->timer_us < next_us) {
            next_us = l->timer_us;
        }
    }
    return next_us;
}

/* ---- who is it? ---- */

struct tr_span tr_link_info(struct tr_span info, const char *name)
{
    size_t len = strlen(name);
    const char *end = info.at + info.len;

    for (const char *at = info.at; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t whole = (size_t)((line != NULL ? line : end) - at);

        if (whole > len && at[len] == ':' && memcmp(at, name, len) == 0) {
            whole -= at[whole - 1] == '\r';
            return (struct tr_span){at + len + 1, whole - len - 1};
        }
        at = line != NULL ? line + 1 : end;
    }
    return (struct tr_span){"", 0};
}

static bool is(struct tr_span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static unsigned number(struct tr_span s)
{
    unsigned n = 0;

    for (size_t i = 0; i < s.len && s.at[i] >= '0' && s.at[i] <= '9' && n < 100000; i++) {
        n = n * 10 + (unsigned)(s.at[i] - '0');
    }
    return n;
}

static int shortened(struct tr_span s)
{
    return (int)(s.len < RUN_PART ? s.len : RUN_PART);
}

/* It cannot be served, until it is set up otherwise. */
static void refuse(struct tr_cluster *c, unsigned server, enum tr_cl_refusal what, const char *why)
{
    bool news = (c->refused & (unsigned)what) == 0;

    c->refused |= (unsigned)what;
    tr_text(c->refusal, sizeof c->refusal, "%s: %s", c->shards.names[server], why);
    if (c->stage == TR_ENGINE_OPENING) {
        c->stage = TR_ENGINE_REFUSED;
    } else if (news) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Redis at %s.", c->refusal);
    }
    tr_link_hang_up(c, server, why);
}

/* Where it stands in that; behind its end: nowhere. */
static size_t place_of(const char *text, struct tr_span s)
{
    size_t len = strlen(text);
    size_t at = 0;

    while (at + len <= s.len && memcmp(s.at + at, text, len) != 0) {
        at++;
    }
    return at + len <= s.len ? at : s.len;
}

bool tr_link_lacks_right(const struct tr_redis_reply *reply)
{
    return reply != NULL && reply->event == TR_REDIS_ERROR &&
           (tr_span_begins(reply->error, "NOPERM") ||
            place_of("The user executing the script can't", reply->error) < reply->error.len);
}

/* What was said, as the middle of a sentence, and without the place in a script. */
static struct tr_span unstopped(struct tr_span words)
{
    words.len = place_of(" script: ", words);
    words.len -= words.len > 0 && words.at[words.len - 1] == '.';
    return words;
}

bool tr_link_denied(struct tr_cluster *c, const struct tr_redis_reply *reply)
{
    bool news = c->denied_us <= c->now.boot_us;
    struct tr_span words;

    if (!tr_link_lacks_right(reply)) {
        return false;
    }
    words = unstopped(reply->error);
    tr_text(c->denied, sizeof c->denied,
            "Redis does not let this user do what is needed: %.*s. Give it the right (ACL SETUSER "
            "with ~%s* +@all -@dangerous +info +cluster|nodes), or name another one (redis.user)",
            (int)(words.len < TR_CL_WHY ? words.len : TR_CL_WHY), words.at, c->layout.prefix);
    c->denied_us = c->now.boot_us + DENIED_US;
    if (c->stage == TR_ENGINE_OPENING) {
        c->stage = TR_ENGINE_REFUSED;
    } else if (news) {
        tr_cluster_note(c, TR_NOTE_WARNING, "%s.", c->denied);
    }
    return true;
}

void tr_link_role(struct tr_link *l, struct tr_span info)
{
    l->facts.primary = is(tr_link_info(info, "role"), "master");
    l->facts.replicas = number(tr_link_info(info, "connected_slaves"));
}

static void learn_facts(struct tr_link *l, struct tr_span info)
{
    struct tr_span version = tr_link_info(info, "redis_version");

    tr_link_role(l, info);
    l->facts.keeps = is(tr_link_info(info, "aof_enabled"), "1");
    tr_text(l->facts.version, sizeof l->facts.version, "%.*s", shortened(version), version.at);
}

/* Later on it is only told: they may come back. */
static bool lacks_replicas(const struct tr_cluster *c, const struct tr_link *l)
{
    return l->facts.primary && c->stage == TR_ENGINE_OPENING &&
           l->facts.replicas < c->config.wait_replicas;
}

static void known(struct tr_cluster *c, unsigned server, struct tr_span info)
{
    struct tr_link *l = &c->links[server];
    struct tr_span replid = tr_link_info(info, "master_replid");
    struct tr_span policy = tr_link_info(info, "maxmemory_policy");
    struct tr_span version = tr_link_info(info, "redis_version");
    char why[TR_CL_WHY];

    if (number(version) < MAJOR_LEAST) {
        tr_text(why, sizeof why, "this is Redis %.*s, and 7.0 or later is needed",
                shortened(version), version.at);
        refuse(c, server, TR_CL_VERSION, why);
        return;
    }
    if (policy.len > 0 && !is(policy, "noeviction")) {
        tr_text(why, sizeof why,
                "this Redis may throw jobs away: its maxmemory-policy is %.*s, set noeviction",
                shortened(policy), policy.at);
        refuse(c, server, TR_CL_EVICTION, why);
        return;
    }
    learn_facts(l, info);
    if (lacks_replicas(c, l)) {
        tr_text(why, sizeof why,
                "redis.wait_replicas is %u, and this Redis has %u: add replicas, or ask for fewer",
                c->config.wait_replicas, l->facts.replicas);
        refuse(c, server, TR_CL_REPLICAS, why);
        return;
    }
    c->refused &= ~(unsigned)(TR_CL_VERSION | TR_CL_EVICTION | TR_CL_AUTH | TR_CL_REPLICAS);
    tr_text(l->run, sizeof l->run, "%.*s", shortened(replid), replid.at);
    l->state = TR_LINK_UP;
    l->failures = 0;
    l->why[0] = '\0';
    if (is(tr_link_info(info, "cluster_enabled"), "0")) {
        tr_chart_alone(c, server, is(tr_link_info(info, "role"), "master"));
    }
    tr_link_pump(c, server);
}

/* OK, same or jumped or new, epoch, owner, the life. Anything else is told to the call behind it.
 */
static void checked(struct tr_cluster *c, unsigned server, unsigned slot,
                    const struct tr_redis_reply *reply)
{
    struct tr_link *l = &c->links[server];

    if (reply->event != TR_REDIS_LIST || reply->count < 5 || !is(reply->items[0], "OK")) {
        return;
    }
    tr_text(l->run, sizeof l->run, "%.*s", shortened(reply->items[4]), reply->items[4].at);
    c->stat.jumps += is(reply->items[1], "jumped");
    if (c->desk != NULL) {
        tr_align_slot(c, slot, TR_ALIGN_ALL); /* all of it is in the database */
    } else if (is(reply->items[1], "new")) {
        tr_loss_made(c, slot);
    }
}

/* The answer to CONFIG GET: its name and value. Not everybody may ask that. */
static void learn_fsync(struct tr_link *l, const struct tr_redis_reply *reply)
{
    if (reply->event == TR_REDIS_LIST && reply->count == 2 && reply->items[1].at != NULL) {
        tr_text(l->facts.fsync, sizeof l->facts.fsync, "%.*s", shortened(reply->items[1]),
                reply->items[1].at);
    }
}

/* ---- what the port tells ---- */

void tr_link_up(void *ctx, unsigned conn, struct tr_now now)
{
    static const struct tr_span info[] = {{"INFO", 4},   {"server", 6},  {"replication", 11},
                                          {"memory", 6}, {"cluster", 7}, {"persistence", 11}};
    static const struct tr_span fsync[] = {{"CONFIG", 6}, {"GET", 3}, {"appendfsync", 11}};
    struct tr_cluster *c = ctx;

    tr_cluster_set_now(c, now);
    if (conn == TR_CL_WAKE_CONN) {
        tr_wake_up(c);
        return;
    }
    c->links[conn].state = TR_LINK_ASKS;
    c->links[conn].timer_us = c->now.boot_us + c->config.timeout_us;
    if (c->config.asks_config) {
        c->port.send(c->port.ctx, conn, TAG_CONFIG, fsync, sizeof fsync / sizeof fsync[0]);
    }
    c->port.send(c->port.ctx, conn, TAG_INFO, info, sizeof info / sizeof info[0]);
}

void tr_link_heard(void *ctx, unsigned conn, uint64_t tag, const struct tr_redis_reply *reply,
                   struct tr_now now)
{
    struct tr_cluster *c = ctx;
    struct tr_link *l = &c->links[conn < TR_SHARDS_SERVERS ? conn : 0];

    tr_cluster_set_now(c, now);
    if (conn == TR_CL_WAKE_CONN) {
        tr_wake_heard(c, reply);
    } else if (l->state == TR_LINK_ASKS && tag == TAG_INFO) {
        if (reply->event == TR_REDIS_LIST && reply->count == 1 && reply->items[0].at != NULL) {
            known(c, conn, reply->items[0]);
        } else {
            char why[TR_CL_WHY];

            tr_text(why, sizeof why, "%.*s", (int)reply->error.len,
                    reply->error.len > 0 ? reply->error.at : "");
            tr_link_hang_up(c, conn, why);
            if (tr_link_denied(c, reply)) {
                c->links[conn].why[0] = '\0'; /* it can be reached */
            }
        }
    } else if (l->state == TR_LINK_UP && (tag & TR_LINK_WAITS) != 0 && tag < TAG_CONFIG) {
        tr_confirm_heard(c, conn, tag, reply);
    } else if (tag == TAG_CONFIG) {
        learn_fsync(l, reply);
    } else if (l->state == TR_LINK_UP && tag >= TR_LINK_CHECKS) {
        checked(c, conn, (unsigned)(tag - TR_LINK_CHECKS), reply);
    } else if (tag != 0 && !tr_list_empty(&l->sent)) {
        struct tr_call *call = TR_CONTAINER_OF(l->sent.next, struct tr_call, link);

        if (call->tag == tag && call->held == NULL) {
            if (!tr_confirm_holds(c, call, reply)) {
                tr_call_heard(c, call, reply);
            }
        } else {
            tr_link_hang_up(c, conn, "it answered out of order");
        }
    }
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

void tr_link_closed(void *ctx, unsigned conn, const char *why, struct tr_now now)
{
    struct tr_cluster *c = ctx;
    struct tr_span said = unstopped((struct tr_span){why, strlen(why)});

    tr_cluster_set_now(c, now);
    if (conn == TR_CL_WAKE_CONN) {
        tr_wake_closed(c);
        return;
    }
    if (begins(why, "WRONGPASS") || begins(why, "NOAUTH") || begins(why, "NOPERM")) {
        c->refused |= TR_CL_AUTH;
        tr_text(c->refusal, sizeof c->refusal,
                "Redis at %s does not let us in: %.*s. Set redis.password, and redis.user if it is "
                "not the default one",
                c->shards.names[conn], (int)said.len, said.at);
        if (c->stage == TR_ENGINE_OPENING) {
            c->stage = TR_ENGINE_REFUSED;
        }
    }
    down(c, conn, why);
}
