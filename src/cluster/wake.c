/*
 * Wake-ups. Who waits is named in the answer of whatever made something ready, and the node that
 * got this answer tells him: "slot topic due" into P{n<node>}:wake, which that node takes out
 * with BLPOP on a connection of its own. Nothing depends on them but speed: a lost one is made up
 * for by the minute guard (vigil.c), and while the connection is down each topic is asked every
 * second.
 *
 * There is room for so many wake-ups of a node; beyond that, or if they got lost, it is told "*":
 * to ask for all. If words to an owner that it is to load or compare its slots are among those, it
 * is told that, of all of its slots ("*l", "*a"): nothing else would bring it there before long,
 * and it is too much to be done for each "*".
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#include <string.h>

#define POP_S "20" /* how long BLPOP waits: a dead connection is noticed by then */
#define POP_US UINT64_C(25000000)
#define RETRY_FIRST_US UINT64_C(50000)
#define WORD "@" /* instead of a topic: a word for the owner of the slot, instead of a time */
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define LOST_AGAIN_US UINT64_C(1000000)
#define UNUSED_US UINT64_C(300000000)
#define KEPT_S "120" /* a list that nobody takes from goes by itself */

enum { RETRY_DOUBLINGS = 5, TEXT = TR_TOPIC_NAME_MAX + 40 };

#ifdef TR_CL_MUTANTS
enum { WAKES_MOST = 3 }; /* so that the simulation comes to the end of them */
#else
enum { WAKES_MOST = 64 };
#endif

#define ALL "*"
#define ALL_LOAD "*l"
#define ALL_ALIGN "*a"

/* Another node, and what it is to hear. */
struct tr_waker {
    struct tr_call push;
    struct tr_list all;
    uint64_t node;
    uint64_t used_us; /* boot time */
    char key[TR_PLACE_KEY_MAX];
    size_t key_len;
    bool every;                   /* more than there is room for, or some got lost; */
    bool loads, aligns;           /* among those, such words */
    bool sent_loads, sent_aligns; /* the same of the call that is under way */
    uint64_t again_us;            /* boot time: not before */
    unsigned count;
    struct {
        uint32_t topic; /* its number, 0: a word for the owner of the slot, */
        unsigned slot;
        uint64_t due_us;                  /* which is this */
        char name[TR_TOPIC_NAME_MAX + 1]; /* and its name, as it may be gone */
    } wakes[WAKES_MOST];
};

/* Who lives is told once more if that failed, until it is known that he is dead. */
static void pushed(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                   enum tr_route_why why)
{
    struct tr_waker *w = TR_CONTAINER_OF(call, struct tr_waker, push);

    (void)reply;
    if (why != 0 && tr_coord_lives(c, w->node)) {
        w->every = true;
        w->loads = w->loads || w->sent_loads;
        w->aligns = w->aligns || w->sent_aligns;
        w->again_us = c->now.boot_us + LOST_AGAIN_US;
    }
}

static struct tr_waker *waker_of(struct tr_cluster *c, const char *name)
{
    uint64_t node = 0;
    struct tr_waker *w;

    if (!tr_hex_get(name, TR_PLACE_NODE_DIGITS, &node)) {
        return NULL;
    }
    w = tr_map_find(&c->wakers, node);
    if (w != NULL) {
        return w;
    }
    w = tr_mem_alloc(c->mem, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    if (tr_call_init(c, &w->push, pushed) != TARRY_OK) {
        tr_mem_free(c->mem, w, sizeof *w);
        return NULL;
    }
    if (tr_map_put(&c->wakers, node, w) != TARRY_OK) {
        tr_call_fini(c, &w->push);
        tr_mem_free(c->mem, w, sizeof *w);
        return NULL;
    }
    w->node = node;
    w->used_us = c->now.boot_us;
    w->key_len = tr_place_wake_key(w->key, &c->layout, name);
    tr_list_append(&c->all_wakers, &w->all);
    return w;
}

static void waker_free(struct tr_cluster *c, struct tr_waker *w)
{
    tr_list_remove(&w->all);
    (void)tr_map_take(&c->wakers, w->node);
    tr_call_fini(c, &w->push);
    tr_mem_free(c->mem, w, sizeof *w);
}

void tr_wakes_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->all_wakers)) {
        waker_free(c, TR_CONTAINER_OF(c->all_wakers.next, struct tr_waker, all));
    }
    tr_map_fini(&c->wakers);
}

void tr_wake_node(struct tr_cluster *c, const char *node, unsigned slot, const struct tr_ctopic *t,
                  uint64_t due_us)
{
    struct tr_waker *w = TR_CL_MUTANT(NO_WAKE) ? NULL : waker_of(c, node);
    uint32_t number = t != NULL ? t->number : 0;

    for (unsigned i = 0; w != NULL && i < w->count; i++) {
        if (w->wakes[i].topic == number && w->wakes[i].slot == slot &&
            (number != 0 || w->wakes[i].due_us == due_us)) {
            if (due_us < w->wakes[i].due_us) {
                w->wakes[i].due_us = due_us;
            }
            return;
        }
    }
    if (w != NULL && w->count < WAKES_MOST) {
        w->wakes[w->count].topic = number;
        w->wakes[w->count].slot = slot;
        w->wakes[w->count].due_us = due_us;
        tr_text(w->wakes[w->count].name, sizeof w->wakes[w->count].name, "%s",
                t != NULL ? t->name : WORD);
        w->count++;
        c->stat.wakes_sent++;
    } else if (w != NULL) {
        w->every = !TR_CL_MUTANT(WAKES_LOST);
        w->loads = w->loads || (number == 0 && due_us == TR_HOME_LOAD);
        w->aligns = w->aligns || (number == 0 && due_us == TR_HOME_ALIGN);
    }
}

static void add_wakes(struct tr_waker *w)
{
    char text[TEXT];

    w->sent_loads = w->loads;
    w->sent_aligns = w->aligns;
    for (unsigned i = 0; i < w->count; i++) {
        bool word = w->wakes[i].topic == 0;

        w->sent_loads = w->sent_loads || (word && w->wakes[i].due_us == TR_HOME_LOAD);
        w->sent_aligns = w->sent_aligns || (word && w->wakes[i].due_us == TR_HOME_ALIGN);
    }
    for (unsigned i = 0; i < w->count && !w->every; i++) {
        tr_text(text, sizeof text, "%u %s %llu", w->wakes[i].slot, w->wakes[i].name,
                (unsigned long long)w->wakes[i].due_us);
        tr_eval_add(&w->push.eval, text, strlen(text));
    }
    if (w->every) {
        tr_eval_add(&w->push.eval, ALL, strlen(ALL));
    }
    if (w->every && (w->sent_loads || w->sent_aligns)) {
        const char *word = w->sent_aligns ? ALL_ALIGN : ALL_LOAD;

        tr_eval_add(&w->push.eval, word, strlen(word));
    }
}

static void send_to(struct tr_cluster *c, struct tr_waker *w)
{
    struct tr_call_way way = {.script = TR_SCRIPT_WAKE,
                              .hash_slot = tr_place_hash_slot(w->key, w->key_len),
                              .server = -1,
                              .patience_us = c->config.patience_us,
                              .repeats = true}; /* one too many does no harm */

    tr_eval_meta(&w->push.eval, TR_SCRIPT_WAKE, 1);
    tr_eval_add(&w->push.eval, w->key, w->key_len);
    tr_eval_add(&w->push.eval, KEPT_S, strlen(KEPT_S));
    add_wakes(w);
    if (tr_eval_end(&w->push.eval) != TARRY_OK) {
        w->again_us = c->now.boot_us + NO_MEMORY_AGAIN_US;
        return;
    }
    w->count = 0;
    w->every = false;
    w->loads = false;
    w->aligns = false;
    tr_call_start(c, &w->push, &way);
}

/* ---- our own ---- */

/* All that somebody waits for is asked for. */
void tr_wake_all(struct tr_cluster *c)
{
    for (struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        for (unsigned i = 0; t->waiting_count > 0 && i < t->spread; i++) {
            tr_take_spot(c, &t->spots[i]);
        }
    }
}

static void set_deaf(struct tr_cluster *c, bool deaf)
{
    if (c->vigil.deaf != deaf) {
        tr_vigil_set_deaf(&c->vigil, deaf);
        c->stat.deaf = deaf;
        tr_wake_all(c);
    }
}

static void hang_up(struct tr_cluster *c)
{
    unsigned doublings = c->wake.failures < RETRY_DOUBLINGS ? c->wake.failures : RETRY_DOUBLINGS;

    c->wake.state = TR_LINK_DOWN;
    c->wake.timer_us = c->now.boot_us + (RETRY_FIRST_US << doublings);
    c->wake.failures++;
    set_deaf(c, true);
}

void tr_wake_closed(struct tr_cluster *c)
{
    hang_up(c);
}

static void pop(struct tr_cluster *c)
{
    struct tr_span args[] = {{"BLPOP", 5}, {c->wake_key, c->wake_key_len}, {POP_S, 2}};

    c->wake.timer_us = c->now.boot_us + POP_US;
    c->port.send(c->port.ctx, TR_CL_WAKE_CONN, 1, args, 3);
}

void tr_wake_up(struct tr_cluster *c)
{
    c->wake.state = TR_LINK_UP;
    pop(c);
    if (c->vigil.deaf) { /* who knows what was not heard */
        tr_home_look_all(c);
    }
    set_deaf(c, false);
}

static bool is_word(struct tr_span text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

/* Something that all slots may be meant by. */
static bool woken_all(struct tr_cluster *c, struct tr_span text)
{
    bool aligns = is_word(text, ALL_ALIGN);

    if (is_word(text, ALL)) {
        tr_wake_all(c);
        tr_home_look_all(c);
        return true;
    }
    for (unsigned s = 0; (aligns || is_word(text, ALL_LOAD)) && s < c->layout.slots; s++) {
        if (c->slots[s].owned) {
            tr_home_heard(c, s, aligns ? TR_HOME_ALIGN : TR_HOME_LOAD);
        }
    }
    return text.len > 0 && text.at[0] == '*';
}

/* "slot topic due" */
static void woken(struct tr_cluster *c, struct tr_span text)
{
    char line[TEXT];
    char *topic, *due;
    unsigned slot = 0;
    uint64_t due_us = 0;
    struct tr_ctopic *t;
    struct tr_spot *spot;

    if (woken_all(c, text) || text.len == 0 || text.len >= sizeof line) {
        return;
    }
    memcpy(line, text.at, text.len);
    line[text.len] = '\0';
    topic = strchr(line, ' ');
    due = topic != NULL ? strchr(topic + 1, ' ') : NULL;
    for (const char *at = line; *at >= '0' && *at <= '9' && slot < TR_SLOTS_MAX; at++) {
        slot = slot * 10 + (unsigned)(*at - '0');
    }
    for (const char *at = due != NULL ? due + 1 : ""; *at >= '0' && *at <= '9'; at++) {
        due_us = due_us * 10 + (uint64_t)(*at - '0');
    }
    if (due != NULL && memcmp(topic + 1, WORD, 1) == 0) {
        tr_home_heard(c, slot, due_us);
        return;
    }
    if (due == NULL || !tr_name_ok(topic + 1, (size_t)(due - topic - 1))) {
        return;
    }
    t = tr_ctopic_get(c, topic + 1, (size_t)(due - topic - 1));
    spot = t != NULL ? tr_ctopic_spot(t, slot) : NULL;
    if (spot != NULL) {
        tr_take_woken(c, spot, due_us, tr_cluster_slot_now(c, slot));
    }
}

void tr_wake_heard(struct tr_cluster *c, const struct tr_redis_reply *reply)
{
    if (c->wake.state != TR_LINK_UP) {
        return;
    }
    if (tr_link_lacks_right(reply) && !c->wake.denied) {
        c->wake.denied = true;
        tr_cluster_note(c, TR_NOTE_WARNING,
                        "Redis does not let this user wait for wake-ups from other nodes: %.*s. "
                        "Topics that are waited for are asked once a second; give it +blpop.",
                        (int)reply->error.len - (reply->error.at[reply->error.len - 1] == '.'),
                        reply->error.at);
    }
    if (reply->event == TR_REDIS_ERROR) { /* MOVED, UNBLOCKED, LOADING ... */
        tr_shards_doubt(&c->shards);
        c->port.close(c->port.ctx, TR_CL_WAKE_CONN);
        hang_up(c);
        return;
    }
    c->wake.failures = 0;
    c->wake.denied = false;
    if (reply->count == 2 && reply->items[1].at != NULL) {
        c->stat.wakes_heard++;
        woken(c, reply->items[1]);
    }
    pop(c);
}

void tr_wake_turn(struct tr_cluster *c)
{
    int server = tr_shards_find(&c->shards, c->wake_hash);

    for (struct tr_list *n = c->all_wakers.next, *after; n != &c->all_wakers; n = after) {
        struct tr_waker *w = TR_CONTAINER_OF(n, struct tr_waker, all);

        after = n->next;
        if (w->push.state != TR_CALL_IDLE || w->again_us > c->now.boot_us) {
            continue;
        }
        if (w->count > 0 || w->every) {
            w->used_us = c->now.boot_us;
            send_to(c, w);
        } else if (w->used_us + UNUSED_US < c->now.boot_us) {
            waker_free(c, w); /* it may be dead */
        }
    }
    if (c->stage != TR_ENGINE_OPEN || c->wake.timer_us > c->now.boot_us) {
        return;
    }
    if (c->wake.state != TR_LINK_DOWN) {
        c->port.close(c->port.ctx, TR_CL_WAKE_CONN);
        hang_up(c);
    } else if (server >= 0) {
        c->wake.state = TR_LINK_DIALS;
        c->wake.server = (unsigned)server;
        c->wake.timer_us = c->now.boot_us + c->config.timeout_us;
        c->port.connect(c->port.ctx, TR_CL_WAKE_CONN, c->shards.names[server]);
    } else {
        hang_up(c);
    }
}

uint64_t tr_wake_next(const struct tr_cluster *c)
{
    uint64_t next_us = c->wake.timer_us;

    for (const struct tr_list *n = c->all_wakers.next; n != &c->all_wakers; n = n->next) {
        const struct tr_waker *w = TR_CONTAINER_OF(n, struct tr_waker, all);

        if ((w->every || w->count > 0) && w->push.state == TR_CALL_IDLE && w->again_us < next_us) {
            next_us = w->again_us;
        }
    }
    return c->stage == TR_ENGINE_OPEN ? next_us : TR_CL_NEVER;
}
