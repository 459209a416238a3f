/*
 * How the whole of it is, for people: TR_OP_PICTURE.
 *
 *     nodes ──► their addresses ──► servers (CLUSTER NODES, or INFO) ──► each slot (script
 * `picture`)
 *
 * One step after the other, slots up to sixteen at a time. Whoever asks while one is under way gets
 * that one. What cannot be had is left out and said to be: a picture is wanted most when something
 * is wrong. So nothing is repeated for long, and of a server that is down no slot is asked.
 *
 * Each answer of a slot has the server's time: of all round trips to a server the shortest says how
 * far its clock is ahead.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "cluster/inner.h"

#include <string.h>

enum {
    STEP_NODES,
    STEP_WHERE,
    STEP_SERVERS,
    STEP_SLOTS,
    SERVERS_MOST = 128,
    ANSWER_ITEMS = 7, /* of the script */
};

struct tr_canvas {
    struct tr_picture is;
    struct tr_picture_node nodes[TR_PICTURE_NODES];
    struct tr_picture_server servers[SERVERS_MOST];
    struct tr_picture_slot slots[];
};

static size_t room_size(const struct tr_cluster *c)
{
    return sizeof(struct tr_canvas) + c->layout.slots * sizeof(struct tr_picture_slot);
}

static tr_call_done_fn heard;

int tr_picture_init(struct tr_cluster *c)
{
    int err = TARRY_OK;

    for (unsigned i = 0; i < TR_PICTURE_CALLS && err == TARRY_OK; i++) {
        err = tr_call_init(c, &c->painting.calls[i], heard);
    }
    return err;
}

void tr_picture_fini(struct tr_cluster *c)
{
    for (unsigned i = 0; i < TR_PICTURE_CALLS; i++) {
        tr_call_fini(c, &c->painting.calls[i]);
    }
    if (c->painting.room != NULL) {
        tr_mem_free(c->mem, c->painting.room, room_size(c));
    }
}

static uint64_t number(struct tr_span s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s.len && s.at[i] >= '0' && s.at[i] <= '9'; i++) {
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    }
    return n;
}

static void copy(char *to, size_t size, struct tr_span s)
{
    tr_text(to, size, "%.*s", (int)(s.len < size ? s.len : size - 1), s.at != NULL ? s.at : "");
}

/* ---- what is known here ---- */

static const char *state_of(const struct tr_link *l)
{
    static const char *const states[] = {[TR_LINK_DOWN] = "not connected",
                                         [TR_LINK_DIALS] = "connecting",
                                         [TR_LINK_ASKS] = "connecting",
                                         [TR_LINK_UP] = "up"};

    return l->state == TR_LINK_DOWN && l->why[0] != '\0' ? l->why : states[l->state];
}

static void know_servers(struct tr_cluster *c, struct tr_canvas *r)
{
    r->is.server_count = c->shards.count < SERVERS_MOST ? c->shards.count : SERVERS_MOST;
    for (unsigned i = 0; i < r->is.server_count; i++) {
        struct tr_picture_server *s = &r->servers[i];

        *s = (struct tr_picture_server){.role = tr_shards_serves(&c->shards, (int)i) ? "primary"
                                                                                     : "unknown"};
        tr_text(s->address, sizeof s->address, "%s", c->shards.names[i]);
        tr_text(s->run, sizeof s->run, "%s", c->links[i].run);
        tr_text(s->state, sizeof s->state, "%s", state_of(&c->links[i]));
    }
}

static void know_coordinator(const struct tr_cluster *c, struct tr_picture_coordinator *is)
{
    *is = (struct tr_picture_coordinator){
        .kind = c->coord.port.kind,
        .why = c->coord.why[0] != '\0' ? c->coord.why : NULL,
        .session_us = c->tenure.lease_us,
        .heard_us = c->tenure.since_us != 0 ? c->now.boot_us - c->tenure.since_us : UINT64_MAX,
        .holds = c->owns};
}

static void know_slots(const struct tr_cluster *c, struct tr_canvas *r)
{
    r->is.slot_count = c->layout.slots;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        int server = tr_shards_find(&c->shards, c->slots[s].hash);

        r->slots[s] = (struct tr_picture_slot){.server = server < SERVERS_MOST ? server : -1};
        if (c->slots[s].keeper_node != 0) {
            r->slots[s].keeper = c->slots[s].keeper_node;
        }
        if (r->slots[s].server >= 0) {
            r->servers[server].slots++;
        }
    }
}

/* ---- nodes ---- */

static struct tr_call_way way_of(const struct tr_cluster *c, int script)
{
    return (struct tr_call_way){.script = script,
                                .hash_slot = c->meta_hash,
                                .server = -1,
                                .patience_us = c->config.timeout_us,
                                .repeats = true};
}

static bool ask_nodes(struct tr_cluster *c)
{
    struct tr_call *call = &c->painting.calls[0];
    struct tr_call_way way = way_of(c, -1);
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(&call->eval, "ZRANGE");
    tr_eval_add(&call->eval, key, tr_place_meta_key(key, &c->layout, TR_META_NODES));
    tr_eval_add(&call->eval, "0", 1);
    tr_eval_add_number(&call->eval, TR_PICTURE_NODES - 1);
    tr_eval_add(&call->eval, "REV", 3);
    tr_eval_add(&call->eval, "WITHSCORES", 10);
    if (tr_eval_end(&call->eval) != TARRY_OK) {
        return false;
    }
    tr_call_start(c, call, &way);
    return true;
}

/* The latest first. */
static void heard_nodes(struct tr_canvas *r, const struct tr_redis_reply *reply)
{
    for (size_t i = 0; i + 1 < reply->count && r->is.node_count < TR_PICTURE_NODES; i += 2) {
        struct tr_picture_node n = {.until_us = number(reply->items[i + 1])};

        if (reply->items[i].len == TR_PLACE_NODE_DIGITS &&
            tr_hex_get(reply->items[i].at, TR_PLACE_NODE_DIGITS, &n.name)) {
            r->nodes[r->is.node_count++] = n;
        }
    }
    r->is.nodes_known = true;
}

static bool ask_where(struct tr_cluster *c)
{
    const struct tr_canvas *r = c->painting.room;
    struct tr_call *call = &c->painting.calls[0];
    struct tr_call_way way = way_of(c, -1);
    char key[TR_PLACE_KEY_MAX];
    char name[TR_PLACE_NODE_DIGITS];

    if (r->is.node_count == 0) {
        return false;
    }
    tr_eval_plain(&call->eval, "HMGET");
    tr_eval_add(&call->eval, key, tr_place_meta_key(key, &c->layout, TR_META_WHERE));
    for (unsigned i = 0; i < r->is.node_count; i++) {
        tr_hex_put(name, TR_PLACE_NODE_DIGITS, r->nodes[i].name);
        tr_eval_add(&call->eval, name, sizeof name);
    }
    if (tr_eval_end(&call->eval) != TARRY_OK) {
        return false;
    }
    tr_call_start(c, call, &way);
    return true;
}

/* "address version", and its coordinator in the next line */
static void heard_where(struct tr_canvas *r, const struct tr_redis_reply *reply)
{
    for (size_t i = 0; i < reply->count && i < r->is.node_count; i++) {
        struct tr_span text = reply->items[i];
        const char *line = text.len > 0 ? memchr(text.at, '\n', text.len) : NULL;
        const char *space;
        size_t len;

        text.len = line != NULL ? (size_t)(line - text.at) : text.len;
        space = text.len > 0 ? memchr(text.at, ' ', text.len) : NULL;
        len = space != NULL ? (size_t)(space - text.at) : text.len;
        copy(r->nodes[i].address, sizeof r->nodes[i].address, (struct tr_span){text.at, len});
        if (space != NULL) {
            copy(r->nodes[i].version, sizeof r->nodes[i].version,
                 (struct tr_span){space + 1, text.len - len - 1});
        }
    }
}

/* ---- servers ---- */

static bool ask_servers(struct tr_cluster *c)
{
    struct tr_call *call = &c->painting.calls[0];
    struct tr_call_way way = way_of(c, -1);
    unsigned server = 0;

    while (server < c->shards.count &&
           (c->links[server].state != TR_LINK_UP || !tr_shards_serves(&c->shards, (int)server))) {
        server++;
    }
    if (server == c->shards.count) {
        return false;
    }
    tr_eval_plain(&call->eval, c->alone ? "INFO" : "CLUSTER");
    tr_eval_add(&call->eval, c->alone ? "replication" : "NODES", c->alone ? 11 : 5);
    way.server = (int)server;
    if (tr_eval_end(&call->eval) != TARRY_OK) {
        return false;
    }
    tr_call_start(c, call, &way);
    return true;
}

static struct tr_picture_server *server_named(struct tr_canvas *r, const char *address)
{
    struct tr_picture_server *s = r->servers;

    while (s < r->servers + r->is.server_count && strcmp(s->address, address) != 0) {
        s++;
    }
    if (s == r->servers + SERVERS_MOST) {
        return NULL;
    }
    if (s == r->servers + r->is.server_count) {
        r->is.server_count++;
        *s = (struct tr_picture_server){.role = "unknown"};
        tr_text(s->address, sizeof s->address, "%s", address);
        tr_text(s->state, sizeof s->state, "not connected");
    }
    return s;
}

/* id, address@bus, flags, primary's id: of one line. */
struct member {
    struct tr_span id, flags, of;
    char address[TR_SHARDS_NAME];
};

static bool read_member(struct tr_cluster *c, struct tr_span line, struct member *m)
{
    struct tr_span words[4];
    const char *end = line.at + line.len;
    const char *at = line.at;

    for (unsigned i = 0; i < 4; i++) {
        const char *space = memchr(at, ' ', (size_t)(end - at));

        if (space == NULL) {
            return false;
        }
        words[i] = (struct tr_span){at, (size_t)(space - at)};
        at = space + 1;
    }
    m->id = words[0];
    m->flags = words[2];
    m->of = words[3];
    return tr_chart_address(c, words[1], c->painting.calls[0].server, m->address);
}

static struct tr_span next_line(struct tr_span *text)
{
    const char *end = text->len > 0 ? memchr(text->at, '\n', text->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - text->at) : text->len;
    size_t step = end != NULL ? len + 1 : len;
    struct tr_span line = {text->at, len};

    *text = (struct tr_span){text->at + step, text->len - step};
    line.len -= line.len > 0 && line.at[line.len - 1] == '\r';
    return line;
}

/* The address of the member with that id. */
static void find_primary(struct tr_cluster *c, struct tr_span text, struct tr_span id,
                         char out[TR_PICTURE_ADDRESS])
{
    struct member m;

    while (text.len > 0) {
        struct tr_span line = next_line(&text);

        if (read_member(c, line, &m) && m.id.len == id.len && memcmp(m.id.at, id.at, id.len) == 0) {
            tr_text(out, TR_PICTURE_ADDRESS, "%s", m.address);
            return;
        }
    }
}

static void heard_members(struct tr_cluster *c, struct tr_span all)
{
    struct tr_canvas *r = c->painting.room;
    struct tr_span text = all;
    struct member m;

    while (text.len > 0) {
        struct tr_span line = next_line(&text);
        struct tr_picture_server *s = read_member(c, line, &m) ? server_named(r, m.address) : NULL;

        if (s == NULL) {
            continue;
        }
        s->role = tr_chart_has(m.flags, "slave") ? "replica" : "primary";
        s->failing = tr_chart_has(m.flags, "fail") || tr_chart_has(m.flags, "fail?");
        if (tr_chart_has(m.flags, "slave")) {
            find_primary(c, all, m.of, s->of);
        }
    }
}

/* slave0:ip=127.0.0.1,port=6380,state=online,... */
static void heard_replicas(struct tr_cluster *c, struct tr_span text)
{
    struct tr_canvas *r = c->painting.room;
    unsigned asked = c->painting.calls[0].server;

    while (text.len > 0) {
        struct tr_span line = next_line(&text);
        struct tr_picture_server *s = NULL;
        char address[TR_SHARDS_NAME];
        const char *ip = line.len > 10 && memcmp(line.at, "slave", 5) == 0
                             ? memchr(line.at, '=', line.len)
                             : NULL;
        const char *comma = ip != NULL ? memchr(ip, ',', (size_t)(line.at + line.len - ip)) : NULL;

        if (comma != NULL && line.at + line.len - comma > 6) {
            tr_text(address, sizeof address, "%.*s:%llu", (int)(comma - ip - 1), ip + 1,
                    (unsigned long long)number(
                        (struct tr_span){comma + 6, (size_t)(line.at + line.len - comma) - 6}));
            s = server_named(r, address);
        }
        if (s != NULL) {
            s->role = "replica";
            s->failing = !tr_chart_has(line, "state=online");
            tr_text(s->of, sizeof s->of, "%s", c->shards.names[asked]);
        }
    }
}

/* ---- slots ---- */

static bool ask_slot(struct tr_cluster *c, struct tr_call *call, unsigned slot)
{
    struct tr_call_way way = way_of(c, TR_SCRIPT_PICTURE);
    struct tr_eval *e = &call->eval;
    char key[TR_PLACE_KEY_MAX];

    way.hash_slot = c->slots[slot].hash;
    way.slot = slot;
    tr_eval_meta(e, TR_SCRIPT_PICTURE, 2);
    tr_eval_add(e, key, tr_place_key(key, &c->layout, slot, 0, NULL));
    tr_eval_add(e, key, tr_place_key(key, &c->layout, slot, 4, NULL));
    if (tr_eval_end(e) != TARRY_OK) {
        return false;
    }
    tr_call_start(c, call, &way);
    c->painting.under_way++;
    return true;
}

/* The shortest round trip says most. */
static void measure(struct tr_cluster *c, const struct tr_call *call, uint64_t server_us)
{
    struct tr_picture_server *s = &c->painting.room->servers[call->server];
    uint64_t trip_us = c->now.boot_us - call->sent_us;

    if (call->server < c->painting.room->is.server_count &&
        (!s->measured || trip_us < s->trip_us)) {
        s->measured = true;
        s->trip_us = trip_us;
        s->offset_us = (int64_t)server_us - (int64_t)(c->now.wall_us - trip_us / 2);
    }
}

static void count_owner(struct tr_canvas *r, const struct tr_picture_slot *s)
{
    for (unsigned i = 0; i < r->is.node_count; i++) {
        r->nodes[i].slots += r->nodes[i].name == s->keeper;
        r->nodes[i].owned += s->known && r->nodes[i].name == s->owner;
    }
}

static void heard_slot(struct tr_cluster *c, const struct tr_call *call,
                       const struct tr_redis_reply *reply)
{
    struct tr_picture_slot *s = &c->painting.room->slots[call->slot];
    const struct tr_span *items = reply->items;
    uint64_t now_us;

    if (reply->count < ANSWER_ITEMS) {
        return;
    }
    now_us = number(items[1]);
    s->known = true;
    s->epoch = number(items[2]);
    if (items[3].len != TR_PLACE_NODE_DIGITS ||
        !tr_hex_get(items[3].at, TR_PLACE_NODE_DIGITS, &s->owner)) {
        s->owner = 0;
    }
    s->topics = number(items[4]);
    copy(s->topic, sizeof s->topic, items[5]);
    s->due_us = number(items[6]);
    s->late_us = s->due_us != 0 && s->due_us < now_us ? now_us - s->due_us : 0;
    measure(c, call, now_us);
}

static void finish(struct tr_cluster *c, int status)
{
    struct tr_canvas *r = c->painting.room;
    struct tr_list all;

    tr_list_init(&all);
    tr_list_splice(&all, &c->painting.asking);
    c->painting.room = NULL;
    for (unsigned s = 0; r != NULL && s < r->is.slot_count; s++) {
        count_owner(r, &r->slots[s]);
    }
    while (!tr_list_empty(&all)) {
        struct tr_item *item = TR_CONTAINER_OF(all.next, struct tr_item, link);

        item->req->out.picture = r != NULL ? &r->is : NULL;
        tr_item_finish(c, item, status);
    }
    if (r != NULL) {
        tr_mem_free(c->mem, r, room_size(c));
    }
}

/* As many as there are calls for. */
static void ask_slots(struct tr_cluster *c)
{
    struct tr_painting *v = &c->painting;

    for (unsigned i = 0; i < TR_PICTURE_CALLS; i++) {
        while (v->calls[i].state == TR_CALL_IDLE && v->next_slot < c->layout.slots) {
            int server = tr_shards_find(&c->shards, c->slots[v->next_slot].hash);
            unsigned slot = v->next_slot++;

            if (server >= 0 && c->links[server].state != TR_LINK_DOWN) {
                (void)ask_slot(c, &v->calls[i], slot);
            }
        }
    }
    if (v->under_way == 0) {
        finish(c, TARRY_OK);
    }
}

/* ---- one step after the other ---- */

/* Begins with this one; steps that cannot be done are left out. */
static void go_on(struct tr_cluster *c, unsigned step)
{
    static bool (*const asks[])(struct tr_cluster *) = {ask_nodes, ask_where, ask_servers};

    while (step < STEP_SLOTS) {
        c->painting.step = step;
        if (asks[step](c)) {
            return;
        }
        step++;
    }
    c->painting.step = STEP_SLOTS;
    ask_slots(c);
}

static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why)
{
    struct tr_painting *v = &c->painting;
    bool good = why == 0 && reply->event == TR_REDIS_LIST && reply->count > 0;

    if (v->step == STEP_SLOTS) {
        v->under_way--;
        if (good) {
            heard_slot(c, call, reply);
        }
        ask_slots(c);
        return;
    }
    if (good && v->step == STEP_NODES) {
        heard_nodes(v->room, reply);
    } else if (good && v->step == STEP_WHERE) {
        heard_where(v->room, reply);
    } else if (good && reply->items[0].at != NULL && c->alone) {
        heard_replicas(c, reply->items[0]);
    } else if (good && reply->items[0].at != NULL) {
        heard_members(c, reply->items[0]);
    }
    go_on(c, v->step + 1);
}

void tr_picture_ask(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_painting *v = &c->painting;
    struct tr_canvas *r;

    tr_list_append(&v->asking, &item->link);
    if (v->room != NULL) {
        return;
    }
    r = tr_mem_alloc(c->mem, room_size(c));
    v->room = r;
    if (r == NULL) {
        finish(c, TARRY_ENOMEM);
        return;
    }
    r->is = (struct tr_picture){.node = c->config.node,
                                .now_us = tr_cluster_meta_now(c),
                                .nodes = r->nodes,
                                .slots = r->slots,
                                .servers = r->servers};
    tr_text(r->is.uuid, sizeof r->is.uuid, "%s", c->uuid);
    tr_text(r->is.prefix, sizeof r->is.prefix, "%s", c->layout.prefix);
    v->next_slot = 0;
    v->under_way = 0;
    know_coordinator(c, &r->is.coordinator);
    know_servers(c, r);
    know_slots(c, r);
    go_on(c, STEP_NODES);
}
