/*
 * Topics as this node knows them: a number for each name, as requests have it, and a copy of its
 * settings.
 *
 *     P{meta}:topics, a hash      name -> version (8 hex digits), k or - or g, policy
 *                                 k: is there also without jobs; g: was deleted, and is not; f and
 *                                 a node's name: that one is about to forget it (forget.c)
 *
 * The settings are read before a topic is first used (LOAD, many in a call), and again when a
 * slot's answer names a newer version: at once, and if the list is behind, once a second. A slot
 * that names an older one is told (policy.c), after they were read once more: so a server that came
 * back empty does not get old ones. A topic that is not in the list has defaults, and gets there by
 * the first push, before that is answered. With a database its number there is needed for all that
 * is asked about its jobs, and nothing tells that somebody has made it: so one that was not there
 * is looked for again each time.
 *
 * Nothing tells of topics that other nodes make or delete. So before it is said that one is not
 * there, and before it is shown, the list is asked; and whoever goes through all of them (a bulk, a
 * list) begins with a list of names that is not older than his question: one call for all who ask
 * meanwhile. Whether one without `k` is there depends on its jobs: so they are counted; for sums of
 * all at most once a second.
 *
 * Whoever needs a topic pins it. Others stay while there is room, the longest unused goes first.
 */

#include "base/crc.h"
#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/hex.h"
#include "cluster/mutant.h"

#include <string.h>

#define COUNTS_EVERY_US UINT64_C(1000000)
#define NEXT_US UINT64_C(60000000) /* so long who goes from one to the next has the same list */
#define JOBS_KNOWN_US UINT64_C(1000000)
#define STALE_EVERY_US UINT64_C(1000000) /* after a failover the list may stay behind the slots */

enum { VERSION = 8, LOAD_MOST = 64 };

static uint64_t hash_of(const char *name, size_t len)
{
    return (uint64_t)tr_crc(0, name, len) << 32 | tr_place_crc32(name, len);
}

int tr_ctopics_init(struct tr_cluster *c)
{
    tr_list_init(&c->topics);
    tr_list_init(&c->idle_topics);
    tr_list_init(&c->gathering);
    tr_map_init(&c->by_name, c->mem);
    tr_map_init(&c->by_number, c->mem);
    c->next_number = 1;
    return TARRY_OK;
}

static void forget_policy(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_mem_free(c->mem, t->bytes, t->byte_count);
    t->bytes = NULL;
    t->byte_count = 0;
    t->policy = tr_policy_default();
}

static void drop_spots(struct tr_cluster *c, struct tr_ctopic *t)
{
    for (unsigned i = 0; t->spots != NULL && i < t->spread; i++) {
        TR_CHECK(t->spots[i].watch.place == 0);
        tr_list_remove(&t->spots[i].queued);
    }
    if (t->spots != NULL && t->spots != &t->one) {
        tr_mem_free(c->mem, t->spots, t->spread * sizeof *t->spots);
    }
    t->spots = NULL;
}

static void topic_free(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_gauge_leave(c, t);
    if (t->row != 0) {
        (void)tr_map_take(&c->desk->topics, t->row);
    }
    tr_list_remove(&t->all);
    tr_list_remove(&t->idle);
    forget_policy(c, t);
    drop_spots(c, t);
    tr_mem_free(c->mem, t, sizeof *t);
    c->topic_count--;
}

void tr_ctopics_fini(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->topics)) {
        topic_free(c, TR_CONTAINER_OF(c->topics.next, struct tr_ctopic, all));
    }
    tr_map_fini(&c->by_name);
    tr_map_fini(&c->by_number);
}

/* ---- the table ---- */

struct tr_ctopic *tr_ctopic_by_number(const struct tr_cluster *c, uint32_t number)
{
    return number != 0 ? tr_map_find(&c->by_number, number) : NULL;
}

static struct tr_ctopic *find(const struct tr_cluster *c, const char *name, size_t len)
{
    struct tr_ctopic *t = tr_map_find(&c->by_name, hash_of(name, len));

    while (t != NULL && (t->name_len != len || memcmp(t->name, name, len) != 0)) {
        t = t->same_hash;
    }
    return t;
}

bool tr_ctopic_held(const struct tr_ctopic *t)
{
    return t->holds[TR_HOLD_USE] + t->holds[TR_HOLD_WATCH] + t->holds[TR_HOLD_KEEP] > 0;
}

/* In the list of those that may go, or not, as it is needed. */
static void sort_in(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_list_remove(&t->idle);
    if (t->pins == 0 && !tr_ctopic_held(t)) {
        tr_list_append(&c->idle_topics, &t->idle);
    }
}

void tr_ctopic_pin(struct tr_ctopic *t)
{
    t->pins++;
    tr_list_remove(&t->idle);
}

void tr_ctopic_unpin(struct tr_cluster *c, struct tr_ctopic *t)
{
    TR_CHECK(t->pins > 0);
    t->pins--;
    sort_in(c, t);
}

static void let_go(struct tr_cluster *c, struct tr_ctopic *t)
{
    uint64_t hash = hash_of(t->name, t->name_len);
    struct tr_ctopic *first = tr_map_find(&c->by_name, hash);

    if (first != t) {
        while (first->same_hash != t) {
            first = first->same_hash;
        }
        first->same_hash = t->same_hash;
    } else if (t->same_hash != NULL) {
        TR_CHECK(tr_map_put(&c->by_name, hash, t->same_hash) == TARRY_OK); /* replaces */
    } else {
        TR_CHECK(tr_map_take(&c->by_name, hash) == t);
    }
    TR_CHECK(tr_map_take(&c->by_number, t->number) == t);
    topic_free(c, t);
}

static bool make_room(struct tr_cluster *c)
{
    while (c->topic_count >= c->config.max_topics && !tr_list_empty(&c->idle_topics)) {
        let_go(c, TR_CONTAINER_OF(c->idle_topics.next, struct tr_ctopic, idle));
    }
    return c->topic_count < c->config.max_topics && tr_map_reserve(&c->by_name, 1) == TARRY_OK &&
           tr_map_reserve(&c->by_number, 1) == TARRY_OK;
}

static tr_item_fn load_ended, note_ended;

static void inner_item(struct tr_item *item, struct tr_ctopic *t, tr_item_fn *end)
{
    *item = (struct tr_item){.inner = true, .end = end, .topic = t};
    tr_list_init(&item->link);
}

struct tr_ctopic *tr_ctopic_get(struct tr_cluster *c, const char *name, size_t len)
{
    struct tr_ctopic *t = find(c, name, len);
    uint64_t hash = hash_of(name, len);

    if (t != NULL) {
        return t;
    }
    if (!make_room(c) || (t = tr_mem_alloc(c->mem, sizeof *t)) == NULL) {
        return NULL;
    }
    while (c->next_number == 0 || tr_map_find(&c->by_number, c->next_number) != NULL) {
        c->next_number++;
    }
    t->number = c->next_number++;
    t->name_len = len;
    memcpy(t->name, name, len);
    t->policy = tr_policy_default();
    t->order = TR_ORDER_DUE;
    inner_item(&t->loader, t, load_ended);
    inner_item(&t->noter, t, note_ended);
    tr_list_init(&t->waiting);
    tr_list_init(&t->noted);
    tr_list_init(&t->counting);
    tr_list_init(&t->line);
    tr_list_init(&t->idle);
    tr_list_append(&c->topics, &t->all);
    t->same_hash = tr_map_find(&c->by_name, hash);
    TR_CHECK(tr_map_put(&c->by_name, hash, t) == TARRY_OK);
    TR_CHECK(tr_map_put(&c->by_number, t->number, t) == TARRY_OK);
    c->topic_count++;
    tr_gauge_join(c, t);
    sort_in(c, t);
    return t;
}

/* ---- slots ---- */

static bool make_spots(struct tr_cluster *c, struct tr_ctopic *t, unsigned spread)
{
    struct tr_spot *spots = spread == 1 ? &t->one : tr_mem_alloc(c->mem, spread * sizeof *spots);
    struct tr_list waits;

    if (spots == NULL) {
        return false; /* what there was stays */
    }
    tr_wait_unline(c, t, &waits);
    drop_spots(c, t);
    for (unsigned i = 0; i < spread; i++) {
        spots[i] = (struct tr_spot){
            .topic = t, .index = i, .slot = tr_place_slot(&c->layout, t->name, t->name_len, i)};
        spots[i].watch.salt = tr_place_crc32(t->name, t->name_len) * 2654435761U + i;
        tr_list_init(&spots[i].queued);
        tr_count_prepare(&spots[i]);
    }
    t->spots = spots;
    t->spread = spread;
    tr_wait_reline(c, &waits);
    return true;
}

/* Nothing of it is under way, so its slots may become others. */
static bool is_still(const struct tr_ctopic *t)
{
    for (unsigned i = 0; i < t->spread; i++) {
        const struct tr_spot *spot = &t->spots[i];

        if (spot->counting || spot->mending || spot->asked) {
            return false;
        }
    }
    return tr_wait_line_still(t);
}

/* If it is in the way of something, the next answer says so again. */
bool tr_ctopic_set_spread(struct tr_cluster *c, struct tr_ctopic *t, unsigned spread)
{
    if (spread == 0 || spread > c->layout.slots || (spread & (spread - 1)) != 0) {
        return false;
    }
    if (t->spots != NULL && (t->spread == spread || !is_still(t))) {
        return t->spread == spread;
    }
    return make_spots(c, t, spread);
}

struct tr_spot *tr_ctopic_spot(struct tr_ctopic *t, unsigned slot)
{
    for (unsigned i = 0; t->spots != NULL && i < t->spread; i++) {
        if (t->spots[i].slot == slot) {
            return &t->spots[i];
        }
    }
    return NULL;
}

/* ---- settings ---- */

/* What stands in the list; len 0: nothing does. */
static bool set_policy(struct tr_cluster *c, struct tr_ctopic *t, struct tr_span text)
{
    uint64_t version = 0;
    uint8_t *bytes = NULL;
    size_t len = text.len > TR_CL_NOTE_HEAD ? text.len - TR_CL_NOTE_HEAD : 0;
    char flag = 'g';

    if (text.len > 0 && (text.len < TR_CL_NOTE_HEAD || !tr_hex_get(text.at, VERSION, &version))) {
        return false;
    }
    if (text.len > VERSION) {
        flag = text.at[VERSION];
    }
    len = flag == 'f' ? 0 : len;
    if (len > 0) {
        bytes = tr_mem_alloc(c->mem, len);
        if (bytes == NULL) {
            return false;
        }
        memcpy(bytes, text.at + TR_CL_NOTE_HEAD, len);
    }
    forget_policy(c, t);
    t->bytes = bytes;
    t->byte_count = len;
    if (len > 0 && tr_policy_decode(bytes, len, &t->policy) != TARRY_OK) {
        forget_policy(c, t); /* of a newer release: its scripts know it all the same */
    }
    t->version = (uint32_t)version;
    t->known = flag != 'g';
    t->kept = flag == 'k';
    return true;
}

bool tr_ctopic_learn(struct tr_cluster *c, struct tr_ctopic *t, struct tr_span text)
{
    if (!set_policy(c, t, text)) {
        return false;
    }
    t->stale = false;
    t->loaded_us = c->now.boot_us;
    if ((t->policy.given & TR_POLICY_BIT(SPREAD)) != 0) {
        (void)tr_ctopic_set_spread(c, t, t->policy.spread);
    }
    t->loaded = t->spots != NULL || make_spots(c, t, 1);
    return t->loaded;
}

static void build_load(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(&lane->call.eval, "HMGET");
    tr_eval_add(&lane->call.eval, key, tr_place_meta_key(key, &c->layout, TR_META_TOPICS));
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_item, link)->topic;

        t->asked_us = c->now.boot_us;
        tr_eval_add(&lane->call.eval, t->name, t->name_len);
    }
}

static void heard_load(struct tr_cluster *c, struct tr_clane *lane,
                       const struct tr_redis_reply *reply)
{
    size_t i = 0;
    struct tr_item *item;

    while (reply->count == lane->count && (item = tr_lane_next(lane)) != NULL) {
        struct tr_span text = reply->items[i++];
        bool learnt = tr_ctopic_learn(c, item->topic, text.at != NULL ? text : (struct tr_span){0});

        tr_item_finish(c, item, learnt ? TARRY_OK : TARRY_ENOMEM);
    }
}

const struct tr_cl_way tr_load_way = {
    .script = -1, .most = LOAD_MOST, .meta = true, .build = build_load, .heard = heard_load};

/* This one came later than that was asked: it may have been there by then, or other settings. */
static bool came_later(const struct tr_cluster *c, const struct tr_item *item)
{
    const struct tr_ctopic *t = item->topic;

    return item->fresh_us > t->asked_us ||
           (c->desk != NULL && t->row == 0 && item->since_us > t->asked_us);
}

static bool gather_later(const struct tr_cluster *c, const struct tr_ctopic *t)
{
    return t->gathered && c->gather == TR_GATHER_LOADS && c->naming_us > t->asked_us;
}

static void ask_load(struct tr_cluster *c, struct tr_ctopic *t)
{
    if (!t->loading) {
        t->loading = true;
        t->tried = t->slot_version;
        tr_ctopic_pin(t);
        tr_lane_put(c, TR_CL_LOAD, &t->loader);
    }
}

static void wait_for_load(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    struct tr_ctopic *t = item->topic;

    item->then = then;
    tr_list_remove(&item->link);
    tr_list_append(&t->waiting, &item->link);
    ask_load(c, t);
}

/* Everybody who waits for it goes on, or hears why not. */
static void load_ended(struct tr_cluster *c, struct tr_item *loader)
{
    struct tr_ctopic *t = loader->topic;
    struct tr_list waiting;

    t->loading = false;
    if (t->gathered && loader->status != TARRY_OK) {
        c->gather_status = loader->status;
    }
    tr_list_init(&waiting);
    tr_list_splice(&waiting, &t->waiting);
    while (!tr_list_empty(&waiting)) {
        struct tr_item *item = TR_CONTAINER_OF(waiting.next, struct tr_item, link);

        tr_list_remove(&item->link);
        if (loader->status != TARRY_OK) {
            tr_item_finish(c, item, loader->status);
        } else if (came_later(c, item)) {
            wait_for_load(c, item, item->then);
        } else {
            item->then(c, item);
        }
    }
    if (loader->status == TARRY_OK && gather_later(c, t)) {
        ask_load(c, t);
    } else if (c->gather == TR_GATHER_LOADS) { /* else it is its counts that are waited for */
        tr_ctopics_gathered(c, t);
    }
    tr_ctopic_unpin(c, t);
}

bool tr_ctopic_is_news(const struct tr_cluster *c, const struct tr_ctopic *t)
{
    return !t->loaded || (c->desk != NULL && t->row == 0);
}

void tr_ctopic_load(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->fresh_us = 0;
    if (!tr_ctopic_is_news(c, item->topic)) {
        if (item->topic->stale && item->topic->loaded_us + STALE_EVERY_US <= c->now.boot_us) {
            ask_load(c, item->topic); /* and goes on with what it has */
        }
        then(c, item);
        return;
    }
    wait_for_load(c, item, then);
}

void tr_ctopic_reload(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->fresh_us = item->since_us;
    wait_for_load(c, item, then);
}

void tr_ctopic_version(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot, uint32_t version)
{
    struct tr_spot *spot = tr_ctopic_spot(t, slot);

    version = version != UINT32_MAX ? version : 0; /* it is not there */
    if (version > t->slot_version) {
        t->slot_version = version;
    }
    if (!t->loaded || version == t->version) {
        return;
    }
    if (version > t->version) {
        t->stale = true;
        if (version > t->tried) {
            ask_load(c, t);
        }
    } else if (spot != NULL) {
        tr_policy_mend(c, spot);
    }
}

/* ---- the list of all ---- */

static void note_ended(struct tr_cluster *c, struct tr_item *noter)
{
    struct tr_ctopic *t = noter->topic;
    struct tr_list items;

    t->noting = false;
    t->known = t->known || noter->status == TARRY_OK;
    t->kept = t->kept || (noter->status == TARRY_OK && noter->kind == 'k');
    tr_list_init(&items);
    tr_list_splice(&items, &t->noted);
    if (t->note_again) {
        t->note_again = false;
        tr_ctopic_made(c, t);
    }
    while (!tr_list_empty(&items)) {
        struct tr_item *item = TR_CONTAINER_OF(items.next, struct tr_item, link);

        tr_list_remove(&item->link);
        item->then(c, item);
    }
    tr_ctopic_unpin(c, t);
}

void tr_ctopic_made(struct tr_cluster *c, struct tr_ctopic *t)
{
    if (TR_CL_MUTANT(MADE_UNSEEN)) {
        return;
    }
    if (t->noting) {
        t->note_again = true; /* that may have been too early */
        return;
    }
    t->known = false;
    tr_ctopic_note(c, t, t->kept);
}

void tr_ctopic_note(struct tr_cluster *c, struct tr_ctopic *t, bool keep)
{
    if (t->noting || (t->known && (t->kept || !keep))) {
        return;
    }
    t->noting = true;
    t->noter.kind = keep ? 'k' : '-';
    tr_ctopic_pin(t);
    tr_lane_put(c, TR_CL_NOTE, &t->noter);
}

void tr_ctopic_noted(struct tr_cluster *c, struct tr_item *item, bool keep, tr_item_fn *then)
{
    item->then = then;
    tr_list_remove(&item->link);
    tr_list_append(&item->topic->noted, &item->link);
    tr_ctopic_note(c, item->topic, keep);
}

static void build_names(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(&lane->call.eval, "HKEYS");
    tr_eval_add(&lane->call.eval, key, tr_place_meta_key(key, &c->layout, TR_META_TOPICS));
}

/* Those that are not in the list any more: the next push enters them again. */
void tr_ctopics_unlist(struct tr_cluster *c)
{
    for (struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        t->known = t->known && (t->named == c->names_round || t->noting);
    }
}

static void heard_names(struct tr_cluster *c, struct tr_clane *lane,
                        const struct tr_redis_reply *reply)
{
    int status = TARRY_OK;

    c->names_round++;
    for (size_t i = 0; i < reply->count; i++) {
        struct tr_span name = reply->items[i];
        struct tr_ctopic *t;

        if (name.at == NULL || !tr_name_ok(name.at, name.len)) {
            continue;
        }
        t = tr_ctopic_get(c, name.at, name.len);
        if (t != NULL) {
            t->named = c->names_round;
        } else {
            status = TARRY_ENOMEM;
        }
    }
    tr_ctopics_unlist(c);
    tr_item_finish(c, tr_lane_next(lane), status);
}

const struct tr_cl_way tr_names_way = {
    .script = -1, .most = 1, .meta = true, .build = build_names, .heard = heard_names};

/* Is waited for, before all are known. */
static void gather(struct tr_cluster *c, struct tr_ctopic *t)
{
    c->gather_left += !t->gathered;
    t->gathered = true;
}

/* What was asked for could not even be sent: it is not waited for. */
static void ungather(struct tr_cluster *c, struct tr_ctopic *t)
{
    c->gather_left -= t->gathered;
    t->gathered = false;
}

/* It was not in the list when that was last read, or deleted; now its name is there. */
static bool may_be_new(const struct tr_cluster *c, const struct tr_ctopic *t)
{
    return c->desk == NULL && !t->known && t->named == c->names_round;
}

static void gather_one(struct tr_cluster *c, struct tr_ctopic *t)
{
    uint64_t since_us = c->naming_us;

    if (c->gather == TR_GATHER_LOADS && (!t->loaded || may_be_new(c, t))) {
        gather(c, t);
        ask_load(c, t);
    } else if (t->loaded && c->gather == TR_GATHER_COUNTS &&
               (t->known || tr_ctopic_held(t) || tr_ctopic_has_jobs(t))) {
        /* One that is gone, too, until its jobs are known to be. */
        if (c->desk != NULL) { /* where that is dear */
            since_us = since_us > COUNTS_EVERY_US ? since_us - COUNTS_EVERY_US : 0;
        }
        gather(c, t);
        if (!tr_count_start(c, t, since_us)) {
            ungather(c, t);
        }
    }
}

/* Settings, then counts are on their way for each topic that may have jobs. It waits for itself,
 * too: what is refused at once is not to be the last one. */
static void gather_all(struct tr_cluster *c)
{
    struct tr_list *next;

    c->gather_left++;
    for (struct tr_list *n = c->topics.next; n != &c->topics; n = next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        tr_ctopic_pin(t);
        gather_one(c, t);
        next = n->next;
        tr_ctopic_unpin(c, t);
    }
    c->gather_left--;
}

static void ask_names(struct tr_cluster *c)
{
    c->gather = TR_GATHER_NAMES;
    c->gather_status = TARRY_OK;
    c->naming_us = c->now.boot_us;
    tr_lane_put(c, TR_CL_NAMES, &c->names);
}

/* Those whom this list does: of names, or counted, too. All: it could not be had. */
static void pick(struct tr_cluster *c, struct tr_list *items, bool counted, bool all)
{
    struct tr_list *next;

    tr_list_init(items);
    for (struct tr_list *n = c->gathering.next; n != &c->gathering; n = next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);

        next = n->next;
        if (all || ((counted || item->light) && item->fresh_us <= c->naming_us)) {
            tr_list_remove(n);
            tr_list_append(items, n);
        }
    }
}

static void tell_gathered(struct tr_cluster *c, struct tr_list *items, int status)
{
    while (!tr_list_empty(items)) {
        struct tr_item *item = TR_CONTAINER_OF(items->next, struct tr_item, link);

        tr_list_remove(&item->link);
        if (status == TARRY_OK) {
            item->then(c, item);
        } else {
            tr_item_finish(c, item, status);
        }
    }
}

/* Those who came meanwhile want another one. */
static void end_gathering(struct tr_cluster *c, int status)
{
    struct tr_list items;

    pick(c, &items, true, status != TARRY_OK);
    c->gather = TR_GATHER_NONE;
    if (!tr_list_empty(&c->gathering)) {
        ask_names(c);
    }
    tell_gathered(c, &items, status);
}

static bool anybody_wants_counts(const struct tr_cluster *c)
{
    for (const struct tr_list *n = c->gathering.next; n != &c->gathering; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);

        if (!item->light && item->fresh_us <= c->naming_us) {
            return true;
        }
    }
    return false;
}

/* Loads first, since only then it is known in which slots to count. */
static void gathered(struct tr_cluster *c)
{
    struct tr_list items;

    if (c->gather == TR_GATHER_LOADS && c->gather_left == 0) {
        if (c->gather_status != TARRY_OK || !anybody_wants_counts(c)) {
            c->named_us = c->gather_status == TARRY_OK ? c->naming_us : c->named_us;
            end_gathering(c, c->gather_status);
            return;
        }
        c->named_us = c->naming_us;
        pick(c, &items, false, false);
        c->gather = TR_GATHER_COUNTS;
        gather_all(c);
        tell_gathered(c, &items, TARRY_OK);
    }
    if (c->gather == TR_GATHER_COUNTS && c->gather_left == 0) {
        c->names_us = c->naming_us;
        c->listed_us = c->naming_us;
        end_gathering(c, TARRY_OK);
    }
}

void tr_ctopics_gathered(struct tr_cluster *c, struct tr_ctopic *t)
{
    if (t->gathered) {
        ungather(c, t);
        gathered(c);
    }
}

void tr_ctopics_named(struct tr_cluster *c, struct tr_item *names)
{
    if (names->status != TARRY_OK) {
        end_gathering(c, names->status);
        return;
    }
    c->gather = TR_GATHER_LOADS;
    gather_all(c);
    gathered(c);
}

static void all_since(struct tr_cluster *c, struct tr_item *item, uint64_t since_us,
                      tr_item_fn *then)
{
    uint64_t known_us = item->light ? c->named_us : c->names_us;

    if (known_us != 0 && known_us >= since_us) {
        then(c, item);
        return;
    }
    item->then = then;
    item->fresh_us = since_us;
    tr_list_remove(&item->link);
    tr_list_append(&c->gathering, &item->link);
    if (c->gather == TR_GATHER_NONE) {
        ask_names(c);
    }
}

void tr_ctopics_all(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    uint64_t now_us = c->now.boot_us;

    item->light = false;
    all_since(c, item, now_us > COUNTS_EVERY_US ? now_us - COUNTS_EVERY_US : 0, then);
}

void tr_ctopics_now(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->light = true;
    all_since(c, item, item->since_us, then);
}

/* ---- requests ---- */

static void answer(struct tr_req *r, const struct tr_ctopic *t)
{
    r->out.topic = t->number;
    r->out.name = t->name;
    r->out.name_len = t->name_len;
    r->out.stat.listed = tr_ctopic_held(t) || tr_ctopic_has_jobs(t);
}

void tr_ctopic_hold(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_ctopic *t;

    if (!tr_name_ok(r->name, r->name_len) || (unsigned)r->hold >= TR_HOLD_COUNT) {
        tr_req_finish(r, TARRY_EINVAL);
        return;
    }
    t = tr_ctopic_get(c, r->name, r->name_len);
    if (t == NULL) {
        tr_req_finish(r, c->topic_count >= c->config.max_topics ? TARRY_EFULL : TARRY_ENOMEM);
        return;
    }
    t->holds[r->hold]++;
    c->totals.holds[r->hold]++;
    sort_in(c, t);
    answer(r, t);
    tr_req_finish(r, TARRY_OK);
}

void tr_ctopic_drop(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_ctopic *t = tr_ctopic_by_number(c, r->topic);

    if ((unsigned)r->hold >= TR_HOLD_COUNT) {
        tr_req_finish(r, TARRY_EINVAL);
    } else if (t == NULL || t->holds[r->hold] == 0) {
        tr_req_finish(r, TARRY_ENOTFOUND);
    } else {
        t->holds[r->hold]--;
        c->totals.holds[r->hold]--;
        sort_in(c, t);
        tr_req_finish(r, TARRY_OK);
    }
}

bool tr_ctopic_has_jobs(const struct tr_ctopic *t)
{
    struct tr_counted sum;

    tr_count_sum(t, &sum);
    return sum.ready + sum.delayed + sum.reserved + sum.dead > 0;
}

/* Is it held, by users or, if that counts, by the port? */
static bool is_held(const struct tr_ctopic *t, bool shown)
{
    return t->holds[TR_HOLD_USE] + t->holds[TR_HOLD_WATCH] > 0 || (!shown && tr_ctopic_held(t));
}

bool tr_ctopic_there(const struct tr_ctopic *t, bool shown)
{
    return t->kept || is_held(t, shown) || tr_ctopic_has_jobs(t);
}

static void count_again(struct tr_cluster *c, struct tr_item *item);

/* That it is not there is said only of what was read for this very request. */
static void found(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;

    if (tr_ctopic_there(t, item->req != NULL && item->req->shown)) {
        if (item->req != NULL) {
            answer(item->req, t);
        }
        tr_item_finish(c, item, TARRY_OK);
    } else if (t->asked_us < item->since_us) {
        tr_ctopic_reload(c, item, count_again);
    } else if (item->tries == 0) {
        item->tries = 1;
        count_again(c, item);
    } else {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    }
}

static void count_again(struct tr_cluster *c, struct tr_item *item)
{
    tr_count_heads(c, item, item->since_us, found);
}

static void find_loaded(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    uint64_t now_us = c->now.boot_us;

    if (t->kept || is_held(t, item->req != NULL && item->req->shown)) {
        found(c, item);
    } else {
        tr_count_heads(c, item, now_us > JOBS_KNOWN_US ? now_us - JOBS_KNOWN_US : 0, found);
    }
}

void tr_ctopic_find(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_req *r = item->req;
    struct tr_ctopic *t;

    if (!tr_name_ok(r->name, r->name_len)) {
        tr_item_finish(c, item, TARRY_EINVAL);
        return;
    }
    t = tr_ctopic_get(c, r->name, r->name_len);
    if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    tr_item_pin(item, t);
    tr_ctopic_load(c, item, find_loaded);
}

static void next_known(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_ctopic *at = tr_ctopic_by_number(c, item->req->topic);
    const struct tr_list *n = at != NULL ? at->all.next : c->topics.next;

    /* By number; the one that was told last may be gone meanwhile. */
    for (; n != &c->topics; n = n->next) {
        const struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        if (t->number > item->req->topic && tr_ctopic_there(t, item->req->shown)) {
            answer(item->req, t);
            tr_item_finish(c, item, TARRY_OK);
            return;
        }
    }
    tr_item_finish(c, item, TARRY_ENOTFOUND);
}

void tr_ctopic_next(struct tr_cluster *c, struct tr_item *item)
{
    if (item->req->topic != 0 && c->listed_us != 0 && c->listed_us + NEXT_US > c->now.boot_us) {
        next_known(c, item);
    } else {
        item->light = false;
        all_since(c, item, item->since_us, next_known);
    }
}
