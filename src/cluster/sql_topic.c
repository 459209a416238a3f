/*
 * Topics in a database: their settings are in their rows, so an emptied Redis loses none. What was
 * read is made into the text that the list of topics in Redis would have (topics.c), so that all
 * else is the same.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/hex.h"

#include <string.h>

enum { NAMES_PAGE = 500, VERSION = 8 };

static int status_of(const struct tr_sql_ask *ask)
{
    int status = tr_desk_status(ask, ask->end);

    return status == TARRY_EUNSURE && ask->kind != TR_SQL_POLICY ? TARRY_EAWAY : status;
}

static struct tr_span text_of(struct tr_cluster *c, const struct tr_sql_topic *is)
{
    static const char flags[] = {
        [TR_SQL_KEEP_JOBS] = '-', [TR_SQL_KEEP_ALWAYS] = 'k', [TR_SQL_KEEP_NOT] = 'g'};
    char *text = c->desk->text;
    size_t len = is->policy.len <= TR_POLICY_BYTES_MAX ? is->policy.len : 0;

    tr_hex_put(text, VERSION, is->version);
    text[VERSION] = flags[is->keep <= TR_SQL_KEEP_NOT ? is->keep : TR_SQL_KEEP_JOBS];
    if (len > 0) {
        memcpy(text + TR_CL_NOTE_HEAD, is->policy.at, len);
    }
    return (struct tr_span){text, TR_CL_NOTE_HEAD + len};
}

/* Its number, and how it was made. False: no memory. */
static bool learn_row(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_sql_topic *is)
{
    if (t->row != is->id) {
        if (t->row != 0) { /* the table was made anew */
            (void)tr_map_take(&c->desk->topics, t->row);
        }
        t->row = 0;
        if (tr_map_put(&c->desk->topics, is->id, t) != TARRY_OK) {
            return false;
        }
        t->row = is->id;
    }
    t->order = is->order < TR_ORDER_COUNT ? (enum tr_order)is->order : TR_ORDER_DUE;
    return true;
}

static bool learn(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_sql_topic *is)
{
    return learn_row(c, t, is) && tr_ctopic_learn(c, t, text_of(c, is)) &&
           (t->spread == is->spread || is->spread == 0 || tr_ctopic_set_spread(c, t, is->spread) ||
            t->loaded);
}

/* Those of one row after the other: a version is never gone back to. */
void tr_desk_learn(struct tr_cluster *c, const struct tr_sql_ask *ask)
{
    for (unsigned i = 0; i < ask->count && ask->items != NULL; i++) {
        const struct tr_sql_topic *is = ask->items[i].other;
        struct tr_ctopic *t = is != NULL ? tr_desk_topic(c, is->id) : NULL;

        if (t != NULL && t->loaded && is->version > t->version &&
            ask->items[i].end == TR_SQL_DONE && !tr_ctopic_learn(c, t, text_of(c, is))) {
            t->stale = true;
        }
    }
}

/* ---- one by its name ---- */

static bool build_load(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_ctopic *t = tr_desk_first(lane)->topic;
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    t->asked_us = c->now.boot_us;
    ask->kind = TR_SQL_TOPIC;
    ask->name = (struct tr_span){t->name, t->name_len};
    ask->makes = t->makes;
    ask->keep = t->keeps ? TR_SQL_KEEP_ALWAYS : TR_SQL_KEEP_JOBS;
    ask->spread = t->spread != 0 ? t->spread : 1;
    ask->order = (uint8_t)t->order;
    t->makes = false;
    t->keeps = false;
    return true;
}

static void ended_load(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = status_of(ask);

    if (status == TARRY_OK && ask->topics == NULL) {
        status = tr_ctopic_learn(c, item->topic, (struct tr_span){0}) ? TARRY_OK : TARRY_ENOMEM;
    } else if (status == TARRY_OK) {
        status = learn(c, item->topic, &ask->topics[0]) ? TARRY_OK : TARRY_ENOMEM;
    }
    tr_item_finish(c, item, status);
}

const struct tr_desk_way tr_desk_load = {.most = 1, .build = build_load, .ended = ended_load};

/* ---- one by its number ---- */

static bool build_which(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_TOPIC;
    ask->number = tr_desk_first(lane)->number;
    return true;
}

static void go_on(struct tr_cluster *c, struct tr_item *item, struct tr_ctopic *t)
{
    tr_item_pin(item, t);
    tr_find_note(c, item->id, t);
    tr_ctopic_load(c, item, item->then);
}

static void ended_which(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = status_of(ask);
    const struct tr_sql_topic *is = status == TARRY_OK ? ask->topics : NULL;
    struct tr_ctopic *t;

    item->flying = false;
    item->number = 0;
    if (status != TARRY_OK || item->req == NULL || is == NULL) {
        tr_item_finish(c, item, status != TARRY_OK ? status : TARRY_ENOTFOUND);
    } else if (!tr_name_ok(is->name.at, is->name.len)) {
        tr_item_finish(c, item, TARRY_EDAMAGED);
    } else if ((t = tr_ctopic_get(c, is->name.at, is->name.len)) == NULL || !learn(c, t, is)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else {
        go_on(c, item, t);
    }
}

const struct tr_desk_way tr_desk_which = {.most = 1, .build = build_which, .ended = ended_which};

void tr_desk_which_topic(struct tr_cluster *c, struct tr_item *item, uint32_t row)
{
    struct tr_ctopic *t = tr_desk_topic(c, row);

    if (t != NULL) {
        go_on(c, item, t);
    } else {
        item->number = row;
        tr_lane_put(c, TR_CL_WHICH, item);
    }
}

/* ---- all of them ---- */

static bool build_names(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_TOPICS;
    ask->topic = (uint32_t)tr_desk_first(lane)->number;
    ask->number = NAMES_PAGE;
    return true;
}

static void ended_names(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = status_of(ask);

    c->names_round += item->number == 0;
    for (unsigned i = 0; status == TARRY_OK && ask->topics != NULL && i < ask->count; i++) {
        const struct tr_sql_topic *is = &ask->topics[i];
        struct tr_ctopic *t;

        item->number = is->id;
        if (!tr_name_ok(is->name.at, is->name.len)) {
            continue;
        }
        t = tr_ctopic_get(c, is->name.at, is->name.len);
        if (t == NULL || !learn(c, t, is)) {
            status = TARRY_ENOMEM;
        } else {
            t->named = c->names_round;
        }
    }
    if (status == TARRY_OK && ask->topics != NULL && ask->count == NAMES_PAGE) {
        item->flying = false;
        tr_lane_put(c, TR_CL_NAMES, item);
        return;
    }
    if (status == TARRY_OK) {
        tr_ctopics_unlist(c);
    }
    item->number = 0;
    tr_item_finish(c, item, status);
}

const struct tr_desk_way tr_desk_names = {.most = 1, .build = build_names, .ended = ended_names};

/* ---- settings ---- */

static bool build_note(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    const struct tr_ctopic *t = item->topic;
    struct tr_sql_ask *ask = &lane->sql->call.ask;
    uint32_t last = t->version > t->slot_version ? t->version : t->slot_version;
    struct tr_policy next;

    tr_policy_next(item, &next);
    ask->kind = TR_SQL_POLICY;
    ask->name = (struct tr_span){t->name, t->name_len};
    ask->text =
        (struct tr_span){(const char *)c->desk->policy, tr_policy_encode(c->desk->policy, &next)};
    ask->keep = item->kind == 'k'   ? TR_SQL_KEEP_ALWAYS
                : item->kind == 'g' ? TR_SQL_KEEP_NOT
                                    : TR_SQL_KEEP_JOBS;
    ask->spread = (next.given & TR_POLICY_BIT(SPREAD)) != 0 ? next.spread : t->spread;
    ask->order = (uint8_t)t->order;
    ask->delivers = next.deliver_len > 0        ? TR_SQL_DELIVERS
                    : t->policy.deliver_len > 0 ? TR_SQL_DELIVERS_NO_MORE
                                                : TR_SQL_DELIVERS_NOT;
    ask->version = t->version;
    ask->first = last + 1;
    return true;
}

static void ended_note(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = status_of(ask);

    if (status == TARRY_OK && ask->topics == NULL) {
        status = TARRY_EDAMAGED;
    } else if (status == TARRY_OK && !learn_row(c, item->topic, &ask->topics[0])) {
        status = TARRY_ENOMEM;
    }
    if (status != TARRY_OK) {
        tr_item_finish(c, item, status);
    } else {
        tr_policy_noted(c, item, ask->number == 1, text_of(c, &ask->topics[0]));
    }
}

const struct tr_desk_way tr_desk_note = {.most = 1, .build = build_note, .ended = ended_note};
