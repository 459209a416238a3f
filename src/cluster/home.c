/*
 * A node among others: the beat that says that it lives and learns who else does, the agreement on
 * the layout, and the housekeeping of the slots that are its own (member.c).
 *
 * An owned slot's agenda is looked at when its first entry is due, or when somebody says that it
 * has changed (a schedule, a new topic); but once a minute at least, for that may get lost, and not
 * all that changes it is told; one that is empty every ten: a topic that has jobs, or had some, is
 * on it. It is tended, a schedule moved on (recur.c). Before the first is, the node is entered as
 * the owner (script `own`), which costs no safety.
 *
 * Nothing here is needed by who waits for a job: `take` itself deals with leases and due times of
 * its topic. It is for topics that nobody asks for.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "cluster/load.h"
#include "cluster/mutant.h"

#include <string.h>

#define SECOND_US UINT64_C(1000000)
#define MINUTE_US UINT64_C(60000000)
#define EMPTY_US (10 * MINUTE_US) /* 256 of them: less than a command a second */
#define LAYOUT_VERSION "2"
#define BEAT_AGAIN_US UINT64_C(300000)
#define FRESH_US UINT64_C(10000000) /* so long a store that was made is new */

enum { TEND_MOST = 128, TEND_GONE = 5, MEMBER_FROM = 7, LOOKS_AT_ONCE = 16 };

static tr_call_done_fn beat_answered;

/* ---- the beat ---- */

/* It came to nothing. Where leases in Redis say who lives, that is not known either. */
static void no_beat(struct tr_cluster *c)
{
    c->beat_retry_us = c->now.boot_us + BEAT_AGAIN_US;
    if (c->coord.leases) {
        tr_coord_failed(c, "Redis does not answer", c->now);
    }
}

static void send_beat(struct tr_cluster *c, uint64_t lease_us)
{
    static const enum tr_meta_key keys[] = {TR_META_LAYOUT, TR_META_NODES, TR_META_WHERE};
    struct tr_call_way way = {.script = TR_SCRIPT_BEAT,
                              .hash_slot = c->meta_hash,
                              .server = -1,
                              .patience_us = c->config.lease_us / 3,
                              .repeats = true};
    struct tr_eval *e = &c->beat.eval;
    char key[TR_PLACE_KEY_MAX];
    char text[sizeof c->address + TR_COORD_NAME];

    tr_text(text, sizeof text, "%s\n", c->address);
    tr_coord_name(c, text + strlen(text));
    tr_eval_meta(e, TR_SCRIPT_BEAT, 3);
    for (unsigned i = 0; i < 3; i++) {
        tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, keys[i]));
    }
    tr_eval_add(e, c->node, TR_PLACE_NODE_DIGITS);
    tr_eval_add(e, text, strlen(text));
    tr_eval_add_number(e, lease_us);
    tr_eval_add(e, LAYOUT_VERSION, strlen(LAYOUT_VERSION));
    tr_eval_add_number(e, c->layout.slots);
    tr_eval_add(e, c->layout.prefix, c->layout.prefix_len);
    tr_eval_add(e, c->uuid[0] == '\0' ? c->fresh_uuid : c->uuid,
                c->uuid[0] == '\0' ? strlen(c->fresh_uuid)
                : c->emptied       ? strlen(c->uuid)
                                   : 0);
    tr_eval_add_number(e, c->stage == TR_ENGINE_OPENING ? 1 : 0);
    tr_eval_add(e, c->desk != NULL ? "sql" : "redis", c->desk != NULL ? 3 : 5);
    if (tr_eval_end(e) == TARRY_OK) {
        tr_call_start(c, &c->beat, &way);
    } else {
        no_beat(c);
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

static bool same(struct tr_span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

void tr_home_refuse(struct tr_cluster *c, enum tr_cl_refusal what, const char *why)
{
    bool news = (c->refused & (unsigned)what) == 0;

    c->refused |= (unsigned)what;
    tr_text(c->refusal, sizeof c->refusal, "%s", why);
    if (c->stage == TR_ENGINE_OPENING) {
        c->stage = TR_ENGINE_REFUSED;
    } else if (news) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Redis: %s.", why);
    }
}

static void differs(struct tr_cluster *c, const struct tr_redis_reply *r)
{
    char why[TR_CL_WHY];

    tr_text(why, sizeof why,
            "the store has version %.*s, %.*s slots, prefix %.*s; this node is set up for "
            "version %s, %u slots, prefix %s",
            (int)r->items[1].len, r->items[1].at, (int)r->items[2].len, r->items[2].at,
            (int)r->items[3].len, r->items[3].at, LAYOUT_VERSION, c->layout.slots,
            c->layout.prefix);
    tr_home_refuse(c, TR_CL_LAYOUT, why);
}

/* Its jobs are elsewhere: this node would not see them, nor the others what it took. */
static void other_truth(struct tr_cluster *c)
{
    tr_home_refuse(c, TR_CL_TRUTH,
                   c->desk != NULL
                       ? "the jobs of this store are in Redis alone, and this node has sql.url: "
                         "leave sql.url out, or give this node a redis.prefix of its own"
                       : "the jobs of this store are in a database, and this node has no sql.url: "
                         "set sql.url as its other nodes have it, or give this node a "
                         "redis.prefix of its own");
    tr_waits_end(c, TARRY_EAWAY); /* what they would get is not to be had here */
}

/* "address version", and in the next line its coordinator. */
static void other_coordinator(struct tr_cluster *c, struct tr_span where)
{
    const char *line = memchr(where.at, '\n', where.len);
    const char *space = memchr(where.at, ' ', where.len);
    char mine[TR_COORD_NAME];
    char why[sizeof c->refusal];

    if (line == NULL || space == NULL) {
        return;
    }
    tr_coord_name(c, mine);
    tr_text(why, sizeof why,
            "the node at %.*s has the coordinator %.*s, and this one %s: all nodes of a store need "
            "the same zookeeper.servers and zookeeper.root, or none. To change that stop all of "
            "them; one that was killed counts for cluster.lease",
            (int)(space - where.at), where.at, (int)(where.at + where.len - line - 1), line + 1,
            mine);
    tr_home_refuse(c, TR_CL_COORD, why);
}

/* The store's name, once; it stays. */
static bool learn_uuid(struct tr_cluster *c, struct tr_span uuid)
{
    if (uuid.len == 0 || uuid.len > TR_CLUSTER_UUID || memchr(uuid.at, '\0', uuid.len) != NULL) {
        return false;
    }
    if (c->uuid[0] != '\0') {
        return same(uuid, c->uuid);
    }
    if (c->desk != NULL && !same(uuid, c->fresh_uuid)) {
        return false; /* it is the database that names it */
    }
    memcpy(c->uuid, uuid.at, uuid.len);
    c->fresh_until_us = same(uuid, c->fresh_uuid) ? c->now.boot_us + FRESH_US : 0;
    for (size_t i = 0; i < uuid.len; i++) { /* any text becomes 16 bytes */
        uint64_t digit;
        unsigned shift = i % 2 == 0 ? 4 : 0;

        if (!tr_hex_get(uuid.at + i, 1, &digit)) {
            digit = (uint8_t)uuid.at[i] % 16;
        }
        c->uuid_bytes[i / 2] ^= (uint8_t)(digit << shift);
    }
    return true;
}

/* Who lives, as leases in Redis say: node, address for each. */
static void tell_members(struct tr_cluster *c, const struct tr_redis_reply *r)
{
    uint64_t nodes[TR_COORD_MEMBERS];
    struct tr_coord_view view = {.nodes = nodes, .session_us = c->config.lease_us};

    for (size_t i = MEMBER_FROM; i + 1 < r->count && view.count < TR_COORD_MEMBERS; i += 2) {
        if (r->items[i].len == TR_PLACE_NODE_DIGITS &&
            tr_hex_get(r->items[i].at, TR_PLACE_NODE_DIGITS, &nodes[view.count])) {
            view.count++;
        }
    }
    tr_coord_members(c, &view, c->now);
}

/* The store was here, and is gone: somebody has emptied this Redis, or it has lost its disk. It is
 * made anew under its name, which its slots get, too; else the next node to start would give it
 * another one, and refuse those slots. */
static void emptied(struct tr_cluster *c)
{
    if (!c->emptied && c->desk != NULL) {
        tr_cluster_note(
            c, TR_NOTE_WARNING,
            "Redis was emptied: the jobs are in the database, and come back from there.");
        tr_align_everything(c); /* at once, whoever asks */
        tr_wake_all(c);         /* who waits was entered there */
    } else if (!c->emptied) {
        tr_cluster_note(c, TR_NOTE_WARNING,
                        "Redis was emptied: the jobs that were in it are lost. It is used on.");
        tr_loss_red(c);
    }
    c->emptied = true;
}

static void beat_answered(struct tr_cluster *c, struct tr_call *call,
                          const struct tr_redis_reply *reply, enum tr_route_why why)
{
    (void)call;
    if (c->leaving) {
        return;
    }
    if (why != 0 || reply->event != TR_REDIS_LIST || reply->count == 0) {
        no_beat(c);
        (void)tr_link_denied(c, reply);
    } else if (same(reply->items[0], "OK") && reply->count >= MEMBER_FROM) {
        c->beat_us = c->now.boot_us + c->config.lease_us * 3 / 10;
        if (!learn_uuid(c, reply->items[6])) {
            no_beat(c);
            tr_home_refuse(c, TR_CL_STORE,
                           c->desk != NULL && c->uuid[0] == '\0'
                               ? "this is another store than the one that the database has: it may "
                                 "be emptied if nobody needs it, or redis.prefix be another one"
                               : "this is another store than it was when the node was started");
            return;
        }
        c->meta_us = number(reply->items[1]);
        c->meta_at_us = c->now.boot_us;
        c->refused &= ~(unsigned)(TR_CL_LAYOUT | TR_CL_STORE | TR_CL_COORD | TR_CL_TRUTH);
        c->stage = TR_ENGINE_OPEN;
        c->emptied = false;
        if (c->coord.leases) {
            tell_members(c, reply);
        }
    } else {
        no_beat(c);
        if (same(reply->items[0], "DIFFERS") && reply->count >= 4) {
            differs(c, reply);
        } else if (same(reply->items[0], "TRUTH")) {
            other_truth(c);
        } else if (same(reply->items[0], "COORD") && reply->count >= 2) {
            other_coordinator(c, reply->items[1]);
        } else if (c->uuid[0] != '\0') { /* else there would be one now: ours */
            emptied(c);
        }
    }
}

/* ---- housekeeping ---- */

static tr_item_fn kept;

/* ---- leases in Redis as the coordinator ---- */

static void lease_beat(void *ctx)
{
    struct tr_cluster *c = ctx;

    c->beat_asked = true;
}

static void lease_leave(void *ctx)
{
    (void)ctx; /* the last beat says so, whoever the coordinator is */
}

int tr_home_init(struct tr_cluster *c)
{
    struct tr_coord_port leases = {
        .ctx = c, .kind = "redis", .beat = lease_beat, .leave = lease_leave};

    c->coord.leases = c->config.coord == NULL;
    tr_coord_init(c, c->coord.leases ? &leases : c->config.coord);
    for (unsigned s = 0; s < c->layout.slots; s++) {
        char key[TR_PLACE_KEY_MAX];

        c->slots[s].hash =
            (uint16_t)tr_place_hash_slot(key, tr_place_key(key, &c->layout, s, 0, NULL));
        c->slots[s].keeper = (struct tr_item){.inner = true, .end = kept, .slot = s};
        tr_list_init(&c->slots[s].keeper.link);
    }
    return tr_call_init(c, &c->beat, beat_answered);
}

void tr_home_fini(struct tr_cluster *c)
{
    for (unsigned s = 0; s < c->layout.slots; s++) {
        tr_plan_free(c, &c->slots[s].keeper);
    }
    tr_call_fini(c, &c->beat);
}

/* What its keeper did is over: the next time, if nothing else set it. */
static void kept(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_cl_slot *slot = &c->slots[keeper->slot];

    slot->looking = false;
    if (keeper->topic != NULL) {
        tr_ctopic_unpin(c, keeper->topic);
        keeper->topic = NULL;
    }
    tr_plan_free(c, keeper);
    if (keeper->status != TARRY_OK) {
        slot->agenda_us = c->now.boot_us + MINUTE_US / 6;
    }
    if (slot->nudged) {
        slot->nudged = false;
        slot->agenda_us = c->now.boot_us;
    }
    if (slot->later_us > c->now.boot_us && slot->later_us < slot->agenda_us) {
        slot->agenda_us = slot->later_us;
    }
    if (slot->agenda_us < c->house_us) {
        c->house_us = slot->agenda_us;
    }
}

static void look(struct tr_cluster *c, unsigned s, enum tr_cl_kind kind)
{
    c->slots[s].looking = true;
    tr_lane_put(c, kind, &c->slots[s].keeper);
}

static void build_agenda(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];
    struct tr_eval *e = &lane->call.eval;

    tr_eval_plain(e, "ZRANGE");
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 4, NULL));
    tr_eval_add_number(e, 0);
    tr_eval_add_number(e, 0);
    tr_eval_add(e, "WITHSCORES", 10);
}

/* The topic of its keeper is to be tended: its settings, then the script. */
static void tend(struct tr_cluster *c, struct tr_item *keeper)
{
    if (tr_coord_may(c) && c->slots[keeper->slot].owned && c->desk != NULL) {
        tr_take_tend(c, keeper);
    } else if (tr_coord_may(c) && c->slots[keeper->slot].owned) {
        tr_lane_put(c, TR_CL_TEND, keeper);
    } else {
        tr_item_finish(c, keeper, TARRY_OK);
    }
}

/* The first entry of the agenda and its time. */
static void heard_agenda(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    struct tr_item *keeper = tr_lane_next(lane);
    struct tr_cl_slot *slot = &c->slots[lane->slot];
    uint64_t now_us = tr_cluster_slot_now(c, lane->slot);
    uint64_t due_us = reply->count == 2 ? number(reply->items[1]) : 0;
    struct tr_ctopic *t;

    slot->agenda_us = c->now.boot_us + (due_us != 0 ? MINUTE_US : EMPTY_US);
    if (!tr_coord_may(c) || !slot->owned) {
        slot->agenda_us = c->now.boot_us; /* for when it is this node's again */
        tr_item_finish(c, keeper, TARRY_OK);
        return;
    }
    if (due_us == 0 || due_us > now_us) {
        if (due_us != 0 && due_us - now_us < MINUTE_US) {
            slot->agenda_us = c->now.boot_us + (due_us - now_us);
        }
        tr_item_finish(c, keeper, TARRY_OK);
        return;
    }
    if (!slot->sworn) {
        slot->agenda_us = c->now.boot_us;
        keeper->flying = false;
        tr_lane_put(c, c->desk != NULL ? TR_CL_EPOCH : TR_CL_OWN, keeper);
        return;
    }
    if (tr_recur_is(reply->items[0])) {
        slot->agenda_us = c->now.boot_us;
        keeper->flying = false;
        tr_recur_due(c, keeper, reply->items[0], due_us);
        return;
    }
    t = tr_name_ok(reply->items[0].at, reply->items[0].len)
            ? tr_ctopic_get(c, reply->items[0].at, reply->items[0].len)
            : NULL;
    if (t == NULL) {
        tr_item_finish(c, keeper, TARRY_ENOMEM);
        return;
    }
    keeper->flying = false;
    tr_item_pin(keeper, t);
    tr_ctopic_load(c, keeper, tend);
}

const struct tr_cl_way tr_agenda_way = {
    .script = -1, .most = 1, .build = build_agenda, .heard = heard_agenda};

static void build_tend(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_ctopic *t = lane->topics[0];

    tr_eval_tend(&lane->call.eval, TEND_MOST, t->version == 0 && !t->kept ? c->config.forget_us : 0,
                 c->slots[lane->slot].epoch);
}

/* OUSTED, epoch, owner: somebody else is entered. */
static void refused_tend(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    if (reply->count >= 2 && same(reply->items[0], "OUSTED")) {
        struct tr_item *keeper = tr_lane_next(lane);

        c->slots[lane->slot].epoch = (uint32_t)number(reply->items[1]);
        tr_coord_ousted(c, lane->slot);
        tr_item_finish(c, keeper, TARRY_OK);
    }
}

/* There may be another topic behind it. */
static void answered_tend(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *keeper = tr_lane_next(lane);

    if (a->count > TEND_GONE && a->items[TEND_GONE].len == 1 && a->items[TEND_GONE].at[0] == '1') {
        tr_forget_topic(c, keeper->topic, lane->slot);
    }
    c->stat.tended++;
    tr_gauge_tended(c, keeper->topic, a);
    c->slots[lane->slot].agenda_us = c->now.boot_us;
    tr_count_changed(c, keeper->topic, lane->slot);
    tr_item_finish(c, keeper, TARRY_OK);
}

const struct tr_cl_way tr_tend_way = {.script = TR_SCRIPT_TEND,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_tend,
                                      .answered = answered_tend,
                                      .heard = refused_tend};

/* KEYS: meta. ARGV: uuid, node, epoch; and if a database gave that one, once more: it is that from
 * now on. */
static void build_own(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_meta(e, TR_SCRIPT_OWN, 1);
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 0, NULL));
    tr_eval_add(e, c->uuid, strlen(c->uuid));
    tr_eval_add(e, c->node, TR_PLACE_NODE_DIGITS);
    tr_eval_add_number(e, c->slots[lane->slot].epoch);
    if (c->desk != NULL) {
        tr_eval_add_number(e, c->slots[lane->slot].epoch);
    }
}

/* OK, epoch; STALE, epoch, owner: once more with that. NOSLOT: `tend` makes it. */
static void heard_own(struct tr_cluster *c, struct tr_clane *lane,
                      const struct tr_redis_reply *reply)
{
    struct tr_item *keeper = tr_lane_next(lane);
    struct tr_cl_slot *slot = &c->slots[lane->slot];

    slot->sworn = reply->count < 2 || !same(reply->items[0], "STALE");
    if (reply->count >= 2) {
        slot->epoch = (uint32_t)number(reply->items[1]);
    }
    slot->agenda_us = c->now.boot_us;
    tr_item_finish(c, keeper, TARRY_OK);
}

const struct tr_cl_way tr_own_way = {
    .script = TR_SCRIPT_OWN, .most = 1, .build = build_own, .heard = heard_own};

/* ---- who looks when ---- */

static void look_soon(struct tr_cluster *c, unsigned s, uint64_t at_us)
{
    struct tr_cl_slot *slot = &c->slots[s];

    if (slot->owned) {
        slot->nudged = slot->looking; /* what it reads may be older */
        slot->agenda_us = slot->agenda_us > at_us ? at_us : slot->agenda_us;
        c->house_us = 0;
    }
}

void tr_home_look_later(struct tr_cluster *c, unsigned s)
{
    struct tr_cl_slot *slot = &c->slots[s];

    slot->later_us = c->now.boot_us + SECOND_US;
    if (!slot->looking && slot->later_us < slot->agenda_us) {
        slot->agenda_us = slot->later_us;
        c->house_us = slot->agenda_us < c->house_us ? slot->agenda_us : c->house_us;
    }
}

void tr_home_look_all(struct tr_cluster *c)
{
    for (unsigned s = 0; s < c->layout.slots; s++) {
        look_soon(c, s, c->now.boot_us + s * UINT64_C(1000));
    }
    tr_delivers_look(c);
    tr_recurs_look_all(c);
}

/* ---- what its owner is told ---- */

static void send_word(struct tr_cluster *c, unsigned s, enum tr_home_word word)
{
    char node[TR_PLACE_NODE_DIGITS];

    if (c->slots[s].keeper_node != 0) {
        tr_hex_put(node, TR_PLACE_NODE_DIGITS, c->slots[s].keeper_node);
        tr_wake_node(c, node, s, NULL, word);
    }
}

void tr_home_heard(struct tr_cluster *c, unsigned s, uint64_t word)
{
    if (s >= c->layout.slots || word >= TR_HOME_WORDS) {
        return;
    }
    c->slots[s].told_us[word] = c->now.boot_us;
    if (word == TR_HOME_ALIGN && c->desk != NULL &&
        c->desk->woken_us + SECOND_US <= c->now.boot_us) {
        c->desk->woken_us = c->now.boot_us;
        tr_wake_all(c); /* it may have been emptied, with the names of those who wait */
    }
    if (word == TR_HOME_OUTLETS) {
        tr_delivers_look(c);
    } else if (word == TR_HOME_LOAD || word == TR_HOME_ALIGN) {
        if (c->desk != NULL && s < c->layout.slots && c->slots[s].owned) {
            tr_align_slot(c, s, word == TR_HOME_ALIGN ? TR_ALIGN_ALL : TR_ALIGN_WINDOW);
        }
    } else {
        look_soon(c, s, c->now.boot_us);
        tr_recurs_look(c, s);
    }
}

void tr_home_tell(struct tr_cluster *c, unsigned s, enum tr_home_word word)
{
    if (c->slots[s].owned) {
        tr_home_heard(c, s, word);
    } else {
        c->slots[s].told_us[word] = c->now.boot_us;
        send_word(c, s, word);
    }
}

/*
 * Nodes hear who lives one after the other. The new owner of a slot has looked at it when he heard
 * that it is his; but others may still have told the old one after that. So what was told since the
 * last view, or as long before as a view may be old, is told again. The old owner does so, too, of
 * what he was told: he may have outlived whoever told him.
 */
void tr_home_retell(struct tr_cluster *c, unsigned s)
{
    const struct tr_cl_slot *slot = &c->slots[s];

    for (unsigned word = 0; word < TR_HOME_WORDS && !slot->owned; word++) {
        if (slot->told_us[word] != 0 && slot->told_us[word] + c->tenure.lease_us >= c->viewed_us &&
            !TR_CL_MUTANT(TOLD_ONCE)) {
            send_word(c, s, (enum tr_home_word)word);
        }
    }
}

/* ---- time ---- */

static void keep_house(struct tr_cluster *c)
{
    unsigned looks = 0;

    c->house_us = TR_CL_NEVER;
    for (unsigned i = 0; i < c->layout.slots; i++) {
        unsigned s = (c->agenda_at + i) % c->layout.slots;
        struct tr_cl_slot *slot = &c->slots[s];

        if (!slot->owned || slot->looking) {
            continue;
        }
        if (slot->agenda_us <= c->now.boot_us && looks < LOOKS_AT_ONCE) {
            looks++;
            look(c, s, TR_CL_AGENDA);
        } else if (slot->agenda_us < c->house_us) {
            c->house_us = slot->agenda_us;
        }
    }
    c->agenda_at += LOOKS_AT_ONCE;
}

/* Is there somebody to tell it to? */
static bool can_beat(const struct tr_cluster *c)
{
    return c->beat.state == TR_CALL_IDLE && tr_shards_find(&c->shards, c->meta_hash) >= 0 &&
           tr_life_agreed(c);
}

void tr_home_turn(struct tr_cluster *c)
{
    bool due = c->coord.leases ? c->beat_asked : c->beat_us <= c->now.boot_us;

    if (c->leaving) {
        return;
    }
    if (due && c->beat_retry_us <= c->now.boot_us && can_beat(c)) {
        c->beat_asked = false;
        send_beat(c, c->config.lease_us);
    }
    if (c->owns && c->house_us <= c->now.boot_us) {
        keep_house(c);
    }
}

uint64_t tr_home_next(const struct tr_cluster *c)
{
    uint64_t next_us = c->coord.leases && !c->beat_asked ? TR_CL_NEVER : c->beat_us;

    if (c->leaving) {
        return TR_CL_NEVER;
    }
    if (!can_beat(c)) {
        next_us = TR_CL_NEVER; /* the answer, or the map, comes by itself */
    } else if (next_us < c->beat_retry_us) {
        next_us = c->beat_retry_us;
    }
    if (c->owns && c->house_us < next_us) {
        next_us = c->house_us;
    }
    return next_us;
}

void tr_home_leave(struct tr_cluster *c)
{
    c->leaving = true;
    c->coord.port.leave(c->coord.port.ctx);
    if (c->beat.state == TR_CALL_IDLE && c->stage == TR_ENGINE_OPEN) {
        send_beat(c, 0);
    }
}
