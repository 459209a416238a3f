/*
 * The map of the cluster: CLUSTER NODES, whose answer is one text, from any server that is up;
 * those of the config first, then all that were ever heard of. A server that is in no cluster, as
 * it says when it is first asked, has all hash slots, if it is a primary: then those of the config
 * are asked for that.
 *
 * A map in which nobody has some of our hash slots (a primary died and nobody has taken over, a
 * cluster that is not made yet) stays in doubt: it is asked for again, whoever wants something.
 *
 * A line of it: id, host:port@bus[,name], flags, its primary, ping, pong, epoch, link, hash slots.
 * A host that is empty means the one that was asked.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/inner.h"

#include <string.h>

#define AGAIN_US UINT64_C(100000)
#define HOLE_AGAIN_US UINT64_C(300000)

enum { ADDRESS = 1, FLAGS = 2, SLOTS_FROM = 8 };

void tr_chart_alone(struct tr_cluster *c, unsigned server, bool primary)
{
    c->alone = true;
    if (primary) {
        tr_shards_clear(&c->shards);
        TR_CHECK(tr_shards_set(&c->shards, 0, TR_HASH_SLOTS - 1, (int)server) == TARRY_OK);
    }
}

/* The next word of a line, taken off. Empty: that was all. */
static struct tr_span word(struct tr_span *line)
{
    const char *end = line->at + line->len;
    const char *from = line->at;
    const char *to;

    while (from < end && *from == ' ') {
        from++;
    }
    to = from;
    while (to < end && *to != ' ') {
        to++;
    }
    *line = (struct tr_span){to, (size_t)(end - to)};
    return (struct tr_span){from, (size_t)(to - from)};
}

static struct tr_span until(struct tr_span s, char ch)
{
    const char *at = s.len > 0 ? memchr(s.at, ch, s.len) : NULL;

    return (struct tr_span){s.at, at != NULL ? (size_t)(at - s.at) : s.len};
}

/* Is it among words with commas between? */
bool tr_chart_has(struct tr_span list, const char *what)
{
    while (list.len > 0) {
        struct tr_span first = until(list, ',');
        size_t step = first.len < list.len ? first.len + 1 : first.len;

        if (first.len == strlen(what) && memcmp(first.at, what, first.len) == 0) {
            return true;
        }
        list = (struct tr_span){list.at + step, list.len - step};
    }
    return false;
}

bool tr_chart_address(const struct tr_cluster *c, struct tr_span word, unsigned asked,
                      char out[TR_SHARDS_NAME])
{
    struct tr_span name = until(until(word, '@'), ',');
    const char *of = c->shards.names[asked];
    size_t host = 0;

    if (name.len > 0 && name.at[0] == ':' && memchr(name.at + 1, ':', name.len - 1) == NULL) {
        host = strlen(of);
        while (host > 0 && of[host] != ':') {
            host--;
        }
    }
    if (name.len == 0 || host + name.len >= TR_SHARDS_NAME) {
        return false;
    }
    tr_text(out, TR_SHARDS_NAME, "%.*s%.*s", (int)host, of, (int)name.len, name.at);
    return true;
}

static int server_of(struct tr_cluster *c, struct tr_span word)
{
    char name[TR_SHARDS_NAME];

    return tr_chart_address(c, word, c->chart.server, name)
               ? tr_shards_name(&c->shards, name, strlen(name))
               : -1;
}

static bool number(struct tr_span s, unsigned *n)
{
    *n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9' || *n > TR_HASH_SLOTS) {
            return false;
        }
        *n = *n * 10 + (unsigned)(s.at[i] - '0');
    }
    return s.len > 0;
}

/* "0-5460", "7000"; "[93->-id]" is on its way, and still here. */
static void set_slots(struct tr_cluster *c, struct tr_span range, int server)
{
    struct tr_span from = until(range, '-');
    unsigned first, last;

    if (!number(from, &first)) {
        return;
    }
    last = first;
    if (from.len < range.len &&
        !number((struct tr_span){range.at + from.len + 1, range.len - from.len - 1}, &last)) {
        return;
    }
    if (tr_shards_set(&c->shards, first, last, server) != TARRY_OK) {
        tr_shards_doubt(&c->shards); /* no such map: another server may know better */
    }
}

static void read_line(struct tr_cluster *c, struct tr_span line)
{
    struct tr_span words[SLOTS_FROM];
    struct tr_span range;
    int server;

    for (unsigned i = 0; i < SLOTS_FROM; i++) {
        words[i] = word(&line);
    }
    if (!tr_chart_has(words[FLAGS], "master") || tr_chart_has(words[FLAGS], "fail")) {
        return;
    }
    server = server_of(c, words[ADDRESS]);
    while (server >= 0 && (range = word(&line)).len > 0) {
        set_slots(c, range, server);
    }
}

static void read_map(struct tr_cluster *c, struct tr_span text)
{
    tr_shards_clear(&c->shards);
    while (text.len > 0) {
        struct tr_span line = until(text, '\n');
        size_t step = line.len < text.len ? line.len + 1 : line.len;

        line.len -= line.len > 0 && line.at[line.len - 1] == '\r';
        read_line(c, line);
        text = (struct tr_span){text.at + step, text.len - step};
    }
}

/* Of a server that is in no cluster: is it still the one that takes changes? */
static bool read_role(struct tr_cluster *c, struct tr_span info)
{
    struct tr_span role = tr_link_info(info, "role");
    bool primary = role.len == 6 && memcmp(role.at, "master", 6) == 0;

    tr_link_role(&c->links[c->chart.server], info);
    tr_chart_alone(c, c->chart.server, primary);
    return primary;
}

/* The first hash slot of ours that nobody has; -1: there is none. */
static int hole(const struct tr_cluster *c)
{
    if (tr_shards_find(&c->shards, c->meta_hash) < 0) {
        return (int)c->meta_hash;
    }
    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (tr_shards_find(&c->shards, c->slots[s].hash) < 0) {
            return (int)c->slots[s].hash;
        }
    }
    return -1;
}

/* One that answers, of those that take changes or of those that do not; NULL: none. */
static const char *answers(const struct tr_cluster *c, bool primary)
{
    for (unsigned i = 0; i < c->shards.count; i++) {
        if (c->links[i].state == TR_LINK_UP && c->links[i].facts.primary == primary) {
            return c->shards.names[i];
        }
    }
    return NULL;
}

bool tr_chart_trouble(struct tr_cluster *c, struct tr_reason *reason)
{
    const char *primary = answers(c, true);
    const char *replica = answers(c, false);
    int nobodys = hole(c);

    if (c->alone && primary == NULL && replica != NULL) {
        tr_text(c->away, sizeof c->away,
                "Redis at %s is a replica, which takes no changes: name its primary in "
                "redis.servers, too, or promote it",
                replica);
    } else if (!c->alone && c->stat.maps > 0 && nobodys >= 0 &&
               (primary != NULL || replica != NULL)) {
        tr_text(c->away, sizeof c->away,
                "no server of the Redis Cluster has hash slot %d: see CLUSTER INFO and CLUSTER "
                "NODES at %s",
                nobodys, primary != NULL ? primary : replica);
    } else {
        return false;
    }
    *reason = (struct tr_reason){"redis_away", c->away, false};
    return true;
}

/* What was found is told once. */
static void tell(struct tr_cluster *c)
{
    struct tr_reason reason;
    bool bad = tr_chart_trouble(c, &reason);

    if (bad && !c->chart_bad && c->stage == TR_ENGINE_OPEN) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Redis: %s.", reason.message);
    } else if (!bad && c->chart_bad && c->stage == TR_ENGINE_OPEN) {
        tr_cluster_note(c, TR_NOTE_INFO, "Redis has servers for all jobs again.");
    }
    c->chart_bad = bad;
}

void tr_chart_answered(struct tr_cluster *c, struct tr_call *call,
                       const struct tr_redis_reply *reply, enum tr_route_why why)
{
    bool good = why == 0 && reply->event == TR_REDIS_LIST && reply->count == 1 &&
                reply->items[0].at != NULL;
    bool whole;

    (void)call;
    c->stat.maps++;
    if (good && c->alone) {
        good = read_role(c, reply->items[0]);
    } else if (good) {
        read_map(c, reply->items[0]);
    }
    if (!good && !c->alone) {
        (void)tr_link_denied(c, reply);
    }
    whole = hole(c) < 0;
    if (!good || !whole) {
        tr_shards_doubt(&c->shards);
        c->chart_at++;
    }
    c->stat.servers = c->shards.count;
    c->chart_us = c->now.boot_us + (good && !whole ? HOLE_AGAIN_US : AGAIN_US);
    tell(c);
}

void tr_chart_turn(struct tr_cluster *c)
{
    struct tr_call_way way = {.script = -1, .patience_us = 0};
    unsigned server;

    if (c->chart.state != TR_CALL_IDLE || c->chart_us > c->now.boot_us ||
        !tr_shards_ask(&c->shards, c->now.boot_us)) {
        return;
    }
    c->chart_us = c->now.boot_us + AGAIN_US;
    server = c->chart_at % (c->alone ? c->seed_count : c->shards.count);
    if (c->links[server].state == TR_LINK_DOWN && c->links[server].retry_us > c->now.boot_us) {
        c->chart_at++;
        return;
    }
    tr_eval_plain(&c->chart.eval, c->alone ? "INFO" : "CLUSTER");
    tr_eval_add(&c->chart.eval, c->alone ? "replication" : "NODES", c->alone ? 11 : 5);
    if (tr_eval_end(&c->chart.eval) == TARRY_OK) {
        way.server = (int)server;
        tr_call_start(c, &c->chart, &way);
    }
}

uint64_t tr_chart_next(const struct tr_cluster *c)
{
    if (c->chart.state != TR_CALL_IDLE || !c->shards.wanted) {
        return TR_CL_NEVER;
    }
    return c->chart_us > c->shards.asked_us + TR_SHARDS_REFRESH_US
               ? c->chart_us
               : c->shards.asked_us + TR_SHARDS_REFRESH_US;
}
