/*
 * Asks that are no CHANGE: each is one packet, and may be repeated. What a repeat of BLOCK loses is
 * a block of ids that nobody uses; OWN is decided by the epoch that it expects, POLICY by the
 * version.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#include <string.h>

#define MS_OF_2024 "1704067200000"

/* ---- look ---- */

static void put_look(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    const char *lead = "";

    tr_sql_put(t, "SELECT " TR_SQL_NOW "; ");
    tr_sql_row_select(t, ask->with_bodies, "PRIMARY");
    tr_sql_put(t, "`id` IN (0");
    for (unsigned i = 0; i < ask->count; i++) {
        if (ask->items[i].by == TR_SQL_BY_ID) {
            tr_sql_putf(t, ",%u", ask->items[i].id);
        }
    }
    tr_sql_put(t, ")");
    for (unsigned i = 0; i < ask->count; i++) {
        if (ask->items[i].by == TR_SQL_BY_KEY) {
            if (*lead == '\0') {
                tr_sql_put(t, "; ");
                tr_sql_row_select(t, ask->with_bodies, "PRIMARY");
                tr_sql_put(t, "`id` IN (SELECT k.`id` FROM `job_key` k WHERE ");
            }
            tr_sql_putf(t, "%s(k.`topic_id`=%u AND k.`jkey`=%q)", lead,
                        (uint64_t)ask->items[i].topic, &ask->items[i].key);
            lead = " OR ";
        }
    }
    tr_sql_put(t, *lead != '\0' ? ")" : "");
}

static bool is_job(const struct tr_sql_item *item, const struct tr_sql_job *job)
{
    return item->by == TR_SQL_BY_ID ? item->id == job->id
                                    : item->topic == job->topic && item->key.len == job->key.len &&
                                          memcmp(item->key.at, job->key.at, job->key.len) == 0;
}

static void hear_look(struct tr_sql_line *line, struct tr_sql_ask *ask,
                      const struct tr_sql_row *row)
{
    struct tr_sql_job job;
    uint32_t gen;

    if (!tr_sql_row_read(line->room, row, &job, &gen)) {
        return;
    }
    for (unsigned i = 0; i < ask->count; i++) {
        if (is_job(&ask->items[i], &job)) {
            ask->items[i].found = true;
            ask->items[i].row = job;
            ask->items[i].gen = gen;
        }
    }
}

/* ---- page ---- */

/* The time, and @g, the gen of the topic: a constant to what follows, which `work` can use. */
static void put_gen(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT @n := " TR_SQL_NOW ", @g := (SELECT `gen` FROM `topic` WHERE `topic_id` = "
                "%u)",
                (uint64_t)ask->topic);
}

static void put_page(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    put_gen(t, ask);
    tr_sql_put(t, "; ");
    tr_sql_row_select(t, ask->with_bodies, "`work`");
    tr_sql_putf(t, "`slot` = %u AND `topic_id` = %u", (uint64_t)ask->slot, (uint64_t)ask->topic);
    if (ask->purged) {
        tr_sql_putf(t, " AND `gen` < @g LIMIT %u", ask->number);
        return;
    }
    if (ask->skip != 0) {
        tr_sql_putf(t,
                    " AND `gen` = @g AND `state` = %u ORDER BY `next_at` DESC, `id` DESC LIMIT %u "
                    "OFFSET %u",
                    (uint64_t)ask->state, ask->number, ask->skip);
        return;
    }
    tr_sql_putf(
        t,
        " AND `gen` = @g AND `state` = %u AND `next_at` < %u AND "
        "`next_at` >= %u AND (`next_at` > %u OR `id` > %u) ORDER BY `next_at`, `id` LIMIT %u",
        (uint64_t)ask->state, ask->until_us, ask->from_us, ask->from_us, ask->from_id, ask->number);
}

static void hear_page(struct tr_sql_line *line, struct tr_sql_ask *ask,
                      const struct tr_sql_row *row)
{
    uint32_t gen;

    if (ask->rows == NULL) {
        ask->rows = tr_sql_room_get(line->room, TR_SQL_PAGE_MAX * sizeof *ask->rows);
    }
    if (ask->rows != NULL && ask->count < TR_SQL_PAGE_MAX &&
        tr_sql_row_read(line->room, row, &ask->rows[ask->count], &gen)) {
        ask->count++;
    }
}

/* ---- others ---- */

static void put_block(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; INSERT IGNORE INTO `slot` (`slot`) VALUES (%u); "
                "UPDATE `slot` SET `next_seq` = LAST_INSERT_ID(GREATEST(`next_seq`, "
                "FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) - " MS_OF_2024 ")) + %u WHERE `slot` = "
                "%u; SELECT LAST_INSERT_ID()",
                (uint64_t)ask->slot, ask->number, (uint64_t)ask->slot);
}

/* A sum of numbers, or NULL. */
static int64_t signed_of(const struct tr_sql_row *row, unsigned i)
{
    struct tr_sql_row rest = *row;
    char *values[4];
    unsigned long lengths[4];

    if (row->values[i] == NULL || row->values[i][0] != '-') {
        return (int64_t)tr_sql_number(row, i);
    }
    values[0] = row->values[i] + 1;
    lengths[0] = row->lengths[i] - 1;
    rest.count = 1;
    rest.values = values;
    rest.lengths = lengths;
    return -(int64_t)tr_sql_number(&rest, 0);
}

#define TOPIC_COLUMNS "`topic_id`,`spread`,`ord`,`kept`,`pver`,`gen`,`name`,`policy`"

static void put_one_topic(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    if (ask->name.len > 0) {
        tr_sql_putf(t, "SELECT " TOPIC_COLUMNS " FROM `topic` WHERE `name` = %q", &ask->name);
    } else {
        tr_sql_putf(t, "SELECT " TOPIC_COLUMNS " FROM `topic` WHERE `topic_id` = %u", ask->number);
    }
}

/* One that was deleted is there again, and one that is to be kept is from now on. */
static void put_topic(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_put(t, "SELECT " TR_SQL_NOW "; ");
    if (ask->makes) {
        tr_sql_putf(t,
                    "INSERT INTO `topic` (`name`,`spread`,`ord`,`kept`,`policy`) VALUES "
                    "(%q,%u,%u,%u,'') ON DUPLICATE KEY UPDATE `kept` = IF(VALUES(`kept`) = 1, 1, "
                    "IF(`kept` = 2, 0, `kept`)); ",
                    &ask->name, (uint64_t)ask->spread, (uint64_t)ask->order, (uint64_t)ask->keep);
    }
    put_one_topic(t, ask);
}

/* As all lanes together have counted it. */
static void put_busy(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; SELECT " TOPIC_COLUMNS " FROM `topic` WHERE `topic_id` IN "
                "(SELECT c.`topic_id` FROM (SELECT `topic_id` FROM `cnt` WHERE `topic_id` > %u "
                "GROUP BY `topic_id` HAVING SUM(`%s`) > 0 ORDER BY `topic_id` LIMIT %u) c) ORDER "
                "BY `topic_id`",
                (uint64_t)ask->topic, ask->state == TR_SQL_DEAD ? "dead" : "reserved", ask->number);
}

static void put_topics(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    if (ask->kind == TR_SQL_BUSY) {
        put_busy(t, ask);
        return;
    }
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; SELECT " TOPIC_COLUMNS " FROM `topic` FORCE INDEX "
                "(%s) WHERE %s`topic_id` > %u ORDER BY `topic_id` LIMIT %u",
                ask->kind == TR_SQL_OUTLETS ? "`delivers`" : "PRIMARY",
                ask->kind == TR_SQL_OUTLETS ? "`delivers` = 1 AND " : "", (uint64_t)ask->topic,
                ask->number);
}

/* If the version is still that one; who asks again after a lost answer finds his own. */
static void put_policy(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; INSERT IGNORE INTO `topic` (`name`,`spread`,`ord`,`kept`,"
                "`policy`) VALUES (%q,%u,%u,%u,''); ",
                &ask->name, (uint64_t)ask->spread, (uint64_t)ask->order, (uint64_t)ask->keep);
    tr_sql_putf(t,
                "UPDATE `topic` SET `policy` = %q, `kept` = %u, `spread` = %u, `pver` = %u%s WHERE "
                "`name` = %q AND `pver` = %u; ",
                &ask->text, (uint64_t)ask->keep, (uint64_t)ask->spread, ask->first,
                ask->delivers == TR_SQL_DELIVERS           ? ", `delivers` = 1"
                : ask->delivers == TR_SQL_DELIVERS_NO_MORE ? ", `delivers` = 0"
                                                           : "",
                &ask->name, (uint64_t)ask->version);
    put_one_topic(t, ask);
}

static bool same(struct tr_span a, struct tr_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void hear_topic(struct tr_sql_line *line, struct tr_sql_ask *ask,
                       const struct tr_sql_row *row)
{
    struct tr_sql_topic *is;

    if (ask->topics == NULL) {
        unsigned room = ask->kind == TR_SQL_TOPICS || ask->kind == TR_SQL_OUTLETS ||
                                ask->kind == TR_SQL_BUSY || ask->kind == TR_SQL_OLD
                            ? TR_SQL_PAGE_MAX
                            : 1;

        ask->topics = tr_sql_room_get(line->room, room * sizeof *ask->topics);
        ask->count = 0;
    }
    if (ask->topics == NULL || ask->count == TR_SQL_PAGE_MAX) {
        return;
    }
    is = &ask->topics[ask->count++];
    *is = (struct tr_sql_topic){
        .id = (uint32_t)tr_sql_number(row, 0),
        .spread = (uint32_t)tr_sql_number(row, 1),
        .order = (uint8_t)tr_sql_number(row, 2),
        .keep = (uint8_t)tr_sql_number(row, 3),
        .version = (uint32_t)tr_sql_number(row, 4),
        .gen = (uint32_t)tr_sql_number(row, 5),
        .name = tr_sql_room_copy(line->room, row->values[6], row->lengths[6]),
        .policy = tr_sql_room_copy(line->room, row->values[7], row->lengths[7])};
    if (ask->kind == TR_SQL_TOPIC) {
        ask->topic = is->id;
        ask->spread = is->spread;
        ask->order = is->order;
    } else if (ask->kind == TR_SQL_POLICY) {
        ask->number =
            is->version == ask->first && is->keep == ask->keep && same(is->policy, ask->text);
    }
}

/* ---- how many, and which come first ---- */

enum { COUNT_MOST = 200000, SORT_MOST = 10000, LIGHT_MOST = 200 };

static void put_where(struct tr_sql_text *t, const struct tr_sql_ask *ask, unsigned state)
{
    tr_sql_putf(t,
                " FROM `job` FORCE INDEX (`work`) WHERE `slot` = %u AND `topic_id` = %u AND "
                "`gen` = @g AND `state` = %u",
                (uint64_t)ask->slot, (uint64_t)ask->topic, (uint64_t)state);
}

/* Which of those that are due would be handed out first, as far as it looks. */
static void put_best(struct tr_sql_text *t, const struct tr_sql_ask *ask, unsigned most)
{
    tr_sql_put(t, "; SELECT `id`,`prio`,`due` FROM (SELECT `id`,`prio`,`due`");
    put_where(t, ask, TR_SQL_WAITING);
    tr_sql_putf(t, " AND `next_at` <= @n LIMIT %u) x ORDER BY `prio`,%s `id` LIMIT 1",
                (uint64_t)most, ask->order == 0 ? "`due`," : "");
}

static void put_heads(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_put(t, "; SELECT COUNT(*), MIN(`next_at`) FROM (SELECT `next_at`");
    put_where(t, ask, TR_SQL_WAITING);
    tr_sql_putf(t,
                " AND `next_at` <= @n LIMIT %u) x; SELECT SUM(`prio` < 1024) FROM (SELECT `prio`",
                (uint64_t)COUNT_MOST);
    put_where(t, ask, TR_SQL_WAITING);
    tr_sql_putf(t, " AND `next_at` <= @n LIMIT %u) x", (uint64_t)SORT_MOST);
    put_best(t, ask, SORT_MOST);
    tr_sql_put(t, "; SELECT `id`,`next_at`");
    put_where(t, ask, TR_SQL_WAITING);
    tr_sql_put(t, " AND `next_at` > @n ORDER BY `next_at`,`id` LIMIT 1; SELECT `id`");
    put_where(t, ask, TR_SQL_DEAD);
    tr_sql_put(t, " ORDER BY `next_at`,`id` LIMIT 1; SELECT COUNT(*) FROM (SELECT `id`");
    put_where(t, ask, TR_SQL_RESERVED);
    tr_sql_putf(t, " AND `next_at` <= @n LIMIT %u) x", (uint64_t)COUNT_MOST);
}

static void put_count(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    put_gen(t, ask);
    tr_sql_putf(t,
                "; SELECT SUM(`waiting`), SUM(`reserved`), SUM(`dead`), SUM(`bytes`) FROM `cnt` "
                "WHERE `topic_id` = %u AND `gen` = @g",
                (uint64_t)ask->topic);
    if (ask->light) {
        put_best(t, ask, LIGHT_MOST);
    } else {
        put_heads(t, ask);
    }
}

static void hear_count(struct tr_sql_ask *ask, const struct tr_sql_row *row)
{
    struct tr_sql_heads *h = &ask->heads;

    switch (ask->light && row->result == 2 ? 4 : row->result) {
    case 1:
        ask->counts = (struct tr_sql_counts){.waiting = signed_of(row, 0),
                                             .reserved = signed_of(row, 1),
                                             .dead = signed_of(row, 2),
                                             .bytes = signed_of(row, 3)};
        break;
    case 2:
        h->ready = tr_sql_number(row, 0);
        h->oldest_us = tr_sql_number(row, 1);
        break;
    case 3:
        h->urgent = tr_sql_number(row, 0);
        break;
    case 4:
        h->best_id = tr_sql_number(row, 0);
        h->best_priority = (uint32_t)tr_sql_number(row, 1);
        h->best_due_us = tr_sql_number(row, 2);
        break;
    case 5:
        h->next_id = tr_sql_number(row, 0);
        h->next_due_us = tr_sql_number(row, 1);
        break;
    case 6:
        h->dead_id = tr_sql_number(row, 0);
        break;
    default:
        h->ended = tr_sql_number(row, 0);
        break;
    }
}

static void put_own(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(
        t,
        "SELECT " TR_SQL_NOW "; INSERT IGNORE INTO `slot` (`slot`) VALUES (%u); UPDATE "
        "`slot` SET `epoch` = `epoch` + 1, `owner` = %u WHERE `slot` = %u AND `epoch` = %u; "
        "SELECT `epoch`, `owner` FROM `slot` WHERE `slot` = %u",
        (uint64_t)ask->slot, ask->node, (uint64_t)ask->slot, (uint64_t)ask->epoch,
        (uint64_t)ask->slot);
}

/* ---- the store ---- */

static void put_agree(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; INSERT IGNORE INTO `meta` (`k`, `v`) VALUES ('uuid', %q), "
                "('slots', %u), ('prefix', %q); SELECT `k`, `v` FROM `meta` WHERE `k` IN ('uuid', "
                "'slots', 'prefix')",
                &ask->name, ask->number, &ask->text);
}

static void hear_agree(struct tr_sql_line *line, struct tr_sql_ask *ask,
                       const struct tr_sql_row *row)
{
    const char *k = row->values[0];

    if (strcmp(k, "slots") == 0) {
        ask->first = tr_sql_number(row, 1);
    } else if (strcmp(k, "uuid") == 0) {
        ask->uuid = tr_sql_room_copy(line->room, row->values[1], row->lengths[1]);
    } else {
        ask->prefix = tr_sql_room_copy(line->room, row->values[1], row->lengths[1]);
    }
}

/* ---- purges ---- */

/* One step, which waits for the changes of its jobs that are under way (sql_change.c), and those
 * that come wait for it. What there was is counted behind it: that does not change any more. */
static void put_purge(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; DO LAST_INSERT_ID(0); UPDATE `topic` SET `gen` = "
                "LAST_INSERT_ID(`gen`) + 1 WHERE `topic_id` = %u; SELECT SUM(`waiting`) + "
                "SUM(`reserved`) + SUM(`dead`) FROM `cnt` WHERE `topic_id` = %u AND `gen` = "
                "LAST_INSERT_ID()",
                (uint64_t)ask->topic, (uint64_t)ask->topic);
}

static void put_old(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; SELECT " TOPIC_COLUMNS " FROM `topic` t FORCE INDEX "
                "(PRIMARY) WHERE `gen` > 0 AND EXISTS (SELECT 1 FROM `cnt` c WHERE c.`topic_id` = "
                "t.`topic_id` AND c.`gen` < t.`gen`) ORDER BY `topic_id` LIMIT %u",
                ask->number);
}

static void put_clear(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t, "SELECT " TR_SQL_NOW "; DELETE FROM `cnt` WHERE `topic_id` = %u AND `gen` < %u",
                (uint64_t)ask->topic, (uint64_t)ask->version);
}

struct heard {
    struct tr_sql_line *line;
    struct tr_sql_ask *ask;
};

static void hear(void *ctx, const struct tr_sql_row *row)
{
    const struct heard *h = ctx;
    struct tr_sql_ask *ask = h->ask;

    if (row->result == 0) {
        ask->now_us = tr_sql_number(row, 0);
        return;
    }
    switch (ask->kind) {
    case TR_SQL_LOOK:
        hear_look(h->line, ask, row);
        break;
    case TR_SQL_FLOW:
        if (row->result == 1) {
            hear_look(h->line, ask, row);
        } else {
            tr_sql_flow_hear(h->line, ask, row);
        }
        break;
    case TR_SQL_PAGE:
        hear_page(h->line, ask, row);
        break;
    case TR_SQL_BLOCK:
        ask->first = tr_sql_number(row, 0);
        break;
    case TR_SQL_PURGE:
        ask->number = tr_sql_number(row, 0);
        break;
    case TR_SQL_TOPIC:
    case TR_SQL_TOPICS:
    case TR_SQL_OLD:
    case TR_SQL_OUTLETS:
    case TR_SQL_BUSY:
    case TR_SQL_POLICY:
        hear_topic(h->line, ask, row);
        break;
    case TR_SQL_COUNT:
        hear_count(ask, row);
        break;
    case TR_SQL_OWN:
        ask->number =
            (uint32_t)tr_sql_number(row, 0) == ask->epoch + 1 && tr_sql_number(row, 1) == ask->node;
        ask->first = tr_sql_number(row, 0);
        break;
    case TR_SQL_AGREE:
        hear_agree(h->line, ask, row);
        break;
    case TR_SQL_PLANS:
        tr_sql_plans_hear(h->line, ask, row);
        break;
    case TR_SQL_CHANGE:
    case TR_SQL_CLEAR:
    case TR_SQL_FOLD:
    case TR_SQL_DAYS:
    case TR_SQL_FORECAST:
    case TR_SQL_PLAN:
    case TR_SQL_KINDS:
        break;
    }
}

static void put(struct tr_sql_text *t, struct tr_sql_ask *ask)
{
    switch (ask->kind) {
    case TR_SQL_LOOK:
    case TR_SQL_FLOW:
        for (unsigned i = 0; i < ask->count; i++) {
            ask->items[i].found = false;
        }
        put_look(t, ask);
        if (ask->kind == TR_SQL_FLOW) {
            ask->flow = NULL;
            ask->number = 0;
            tr_sql_flow_put(t, ask);
        }
        break;
    case TR_SQL_PAGE:
        ask->count = 0;
        put_page(t, ask);
        break;
    case TR_SQL_BLOCK:
        put_block(t, ask);
        break;
    case TR_SQL_TOPIC:
        put_topic(t, ask);
        ask->topic = 0;
        ask->count = 0;
        break;
    case TR_SQL_TOPICS:
    case TR_SQL_OUTLETS:
    case TR_SQL_BUSY:
        ask->count = 0;
        put_topics(t, ask);
        break;
    case TR_SQL_POLICY:
        ask->count = 0;
        ask->number = 0;
        put_policy(t, ask);
        break;
    case TR_SQL_COUNT:
        ask->heads = (struct tr_sql_heads){0};
        ask->counts = (struct tr_sql_counts){0};
        put_count(t, ask);
        break;
    case TR_SQL_OWN:
        put_own(t, ask);
        break;
    case TR_SQL_AGREE:
        put_agree(t, ask);
        break;
    case TR_SQL_PURGE:
        ask->number = 0;
        put_purge(t, ask);
        break;
    case TR_SQL_OLD:
        ask->count = 0;
        put_old(t, ask);
        break;
    case TR_SQL_CLEAR:
        put_clear(t, ask);
        break;
    case TR_SQL_PLANS:
        ask->count = 0;
        tr_sql_plans_put(t, ask);
        break;
    default: /* they have packets of their own */
        break;
    }
}

enum tr_sql_ran tr_sql_small_run(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    struct heard h = {.line = line, .ask = ask};

    if (ask->kind == TR_SQL_FOLD) {
        return tr_sql_fold_run(line, ask);
    }
    if (ask->kind == TR_SQL_DAYS) {
        return tr_sql_days_run(line, ask);
    }
    if (ask->kind == TR_SQL_FORECAST) {
        return tr_sql_forecast_run(line, ask);
    }
    tr_sql_text_clear(&line->text);
    put(&line->text, ask);
    if (tr_sql_line_run(line, hear, &h) != TARRY_OK) {
        return ask->kind == TR_SQL_POLICY && line->fault.blame == TR_SQL_AWAY ? TR_SQL_RAN_LOST
                                                                              : TR_SQL_RAN_FAILED;
    }
    if (line->room->failed) {
        tr_sql_fault_set(&line->fault, line->access, 1041, "this node has no memory left");
        return TR_SQL_RAN_FAILED;
    }
    if (ask->kind == TR_SQL_PURGE) {
        tr_sql_plan_purged(line, ask);
    }
    return TR_SQL_RAN_DONE;
}
