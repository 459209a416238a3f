/*
 * One transaction, in two packets, or three if there are keys:
 *
 *     START TRANSACTION; time and lane FOR UPDATE; keys made and locked, in their order
 *     jobs, by id, FOR UPDATE; gens of topics
 *         decide
 *     lane's op + 1; rows; keys; counts; events; COMMIT
 *
 * The lane's row is locked by the first packet, before anything is written, and its op is set by
 * the last. So whoever finds the answer to a COMMIT missing connects again and reads that row FOR
 * UPDATE: that waits until the old transaction is over, and then op says how it ended.
 *
 * A quote in a body goes as two bytes, so one that the server has room for may be too large for a
 * packet. If a job is alone, and so, its body goes before the last packet, in pieces, into
 * a variable of the session.
 *
 * Locks come in one order everywhere: lane, schedule, keys by (topic, key), jobs by id. Two
 * transactions can still meet in a deadlock, through gaps of an index; one of them is told, and
 * begins again.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNTED = 2 * TR_SQL_ITEMS_MAX,
    DAY_S = 86400,
    SLOT_MASK = 1023,
    SPARE = 16384, /* of a packet, for all that is no body */
};

struct count {
    uint32_t topic;
    uint32_t gen;
    struct tr_sql_counts n;
};

struct change {
    struct tr_sql_line *line;
    struct tr_sql_ask *ask;
    struct tr_sql_item **by_key; /* items of keys, by (topic, key) */
    struct tr_sql_item **by_id;  /* items that want a row, by its id */
    uint64_t *ids;               /* the id that an item's row has; 0: none. By item */
    unsigned from;
    unsigned to;
    unsigned keys;
    unsigned reads;
    unsigned results; /* number of the first result of jobs in its packet */
    uint64_t lane_node;
    bool lane_there;
    struct count *counts;
    unsigned count_count;
    bool apart; /* the body of the one job was sent before */
};

static struct tr_sql_item *item_of(const struct change *c, unsigned i)
{
    return &c->ask->items[i];
}

static bool has_key(const struct tr_sql_item *item)
{
    return item->by == TR_SQL_BY_KEY || item->by == TR_SQL_NEW_KEY;
}

/* ---- orders ---- */

static int compare_spans(struct tr_span a, struct tr_span b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_keys(const void *left, const void *right)
{
    const struct tr_sql_item *a = *(struct tr_sql_item *const *)left;
    const struct tr_sql_item *b = *(struct tr_sql_item *const *)right;

    if (a->topic != b->topic) {
        return a->topic < b->topic ? -1 : 1;
    }
    return compare_spans(a->key, b->key);
}

static struct tr_sql_item *find_key(const struct change *c, uint32_t topic, struct tr_span key)
{
    struct tr_sql_item want = {.topic = topic, .key = key};
    struct tr_sql_item *at = &want;
    struct tr_sql_item **found = bsearch(&at, c->by_key, c->keys, sizeof *c->by_key, compare_keys);

    return found != NULL ? *found : NULL;
}

static uint64_t *id_of(const struct change *c, const struct tr_sql_item *item)
{
    return &c->ids[item - c->ask->items];
}

/* ---- the first packet ---- */

static void put_new_keys(struct change *c, struct tr_sql_text *t)
{
    const char *comma = "";

    for (unsigned i = 0; i < c->keys; i++) {
        const struct tr_sql_item *item = c->by_key[i];

        if (item->by == TR_SQL_NEW_KEY) {
            tr_sql_putf(t, "%s(%u,%q,%u)", comma, (uint64_t)item->topic, &item->key, item->id);
            comma = ",";
        }
    }
}

/* One more row of keys. (a, b) IN ((1, 2), ...) would be shorter; but MariaDB goes through the
 * whole table for it, and locks all that it meets. */
static void put_key(struct tr_sql_text *t, const char *lead, uint32_t topic,
                    const struct tr_span *key)
{
    tr_sql_putf(t, "%s(`topic_id`=%u AND `jkey`=%q)", lead, (uint64_t)topic, key);
}

static bool makes_keys(const struct change *c)
{
    for (unsigned i = 0; i < c->keys; i++) {
        if (c->by_key[i]->by == TR_SQL_NEW_KEY) {
            return true;
        }
    }
    return false;
}

static void put_begin(struct change *c, struct tr_sql_text *t)
{
    tr_sql_putf(t,
                "START TRANSACTION; SELECT " TR_SQL_NOW ", `op`, `node` FROM `lane` WHERE `lane` = "
                "%u FOR UPDATE",
                c->line->lane);
    c->results = 2;
    if (c->ask->plan != NULL) {
        c->results += tr_sql_plan_lock(t, c->ask->plan);
    }
    if (c->keys == 0) {
        return;
    }
    if (makes_keys(c)) {
        tr_sql_put(t, "; INSERT INTO `job_key` (`topic_id`,`jkey`,`id`) VALUES ");
        put_new_keys(c, t);
        tr_sql_put(t, " ON DUPLICATE KEY UPDATE `id` = `job_key`.`id`");
    }
    tr_sql_put(t, "; SELECT `topic_id`,`jkey`,`id` FROM `job_key` FORCE INDEX (PRIMARY) WHERE ");
    for (unsigned i = 0; i < c->keys; i++) {
        put_key(t, i > 0 ? " OR " : "", c->by_key[i]->topic, &c->by_key[i]->key);
    }
    tr_sql_put(t, " ORDER BY `topic_id`, `jkey` FOR UPDATE");
}

/* The lane, a schedule, or a key. */
static void hear_begin(struct change *c, const struct tr_sql_row *row)
{
    struct tr_sql_item *item;

    if (row->result == 1) {
        c->ask->now_us = tr_sql_number(row, 0);
        c->line->op = tr_sql_number(row, 1);
        c->lane_node = tr_sql_number(row, 2);
        c->lane_there = true;
        return;
    }
    if (c->ask->plan != NULL) {
        tr_sql_plan_hear(c->line, c->ask->plan, row);
        return;
    }
    item = find_key(c, (uint32_t)tr_sql_number(row, 0),
                    (struct tr_span){row->values[1], row->lengths[1]});
    if (item != NULL) {
        *id_of(c, item) = tr_sql_number(row, 2);
    }
}

/* ---- jobs, and the topics of new ones ---- */

static void put_ids(struct change *c, struct tr_sql_text *t)
{
    tr_sql_put(t, "`id` IN (0");
    for (unsigned i = c->from; i < c->to; i++) {
        if (c->ids[i] != 0) {
            tr_sql_putf(t, ",%u", c->ids[i]);
        }
    }
    tr_sql_put(t, ")");
}

static bool skips(const struct change *c)
{
    return c->ask->skips && c->line->skips;
}

/* The settings, but only of topics of which the asker has others. */
static void put_policy(struct change *c, struct tr_sql_text *t)
{
    const struct tr_sql_item *last = NULL;

    tr_sql_put(t, "IF(0");
    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);

        if (item->topic != 0 &&
            (last == NULL || last->topic != item->topic || last->knows != item->knows)) {
            tr_sql_putf(t, " OR (`topic_id`=%u AND `pver`=%u)", (uint64_t)item->topic,
                        (uint64_t)item->knows);
            last = item;
        }
    }
    tr_sql_put(t, ",NULL,`policy`)");
}

static void put_jobs(struct change *c, struct tr_sql_text *t)
{
    const char *comma = "";

    tr_sql_put(t, "; ");
    tr_sql_row_select(t, c->ask->with_bodies, "PRIMARY");
    put_ids(c, t);
    tr_sql_put(t, " ORDER BY `id` FOR UPDATE");
    tr_sql_put(t, skips(c) ? " SKIP LOCKED" : "");
    /* A purge of the topic waits for this transaction, or this one for that: what is done here is
     * done to a job before it was purged, or finds that it was. */
    tr_sql_put(t, "; SELECT `topic_id`,`gen`,`pver`,`spread`,`ord`,`kept`,");
    put_policy(c, t);
    tr_sql_put(t, " FROM `topic` FORCE INDEX (PRIMARY) WHERE `topic_id` IN (");
    for (unsigned i = c->from; i < c->to; i++) {
        if (item_of(c, i)->topic != 0) {
            tr_sql_putf(t, "%s%u", comma, (uint64_t)item_of(c, i)->topic);
            comma = ",";
        }
    }
    tr_sql_put(t, *comma != '\0' ? ") LOCK IN SHARE MODE" : "0)");
    if (skips(c)) {
        tr_sql_put(t, "; SELECT `id` FROM `job` FORCE INDEX (PRIMARY) WHERE ");
        put_ids(c, t);
    }
}

static void hear_job(struct change *c, const struct tr_sql_row *row)
{
    struct tr_sql_job job;
    uint32_t gen;

    if (!tr_sql_row_read(c->line->room, row, &job, &gen)) {
        return;
    }
    for (unsigned i = c->from; i < c->to; i++) {
        if (c->ids[i] == job.id) {
            item_of(c, i)->found = true;
            item_of(c, i)->row = job;
            item_of(c, i)->gen = gen;
        }
    }
}

/* NULL: the asker has its settings. */
static const struct tr_sql_topic *other(struct change *c, const struct tr_sql_row *row)
{
    struct tr_sql_topic *is =
        row->values[6] != NULL ? tr_sql_room_get(c->line->room, sizeof *is) : NULL;

    if (is == NULL) {
        return NULL;
    }
    *is = (struct tr_sql_topic){
        .id = (uint32_t)tr_sql_number(row, 0),
        .spread = (uint32_t)tr_sql_number(row, 3),
        .order = (uint8_t)tr_sql_number(row, 4),
        .keep = (uint8_t)tr_sql_number(row, 5),
        .version = (uint32_t)tr_sql_number(row, 2),
        .gen = (uint32_t)tr_sql_number(row, 1),
        .policy = tr_sql_room_copy(c->line->room, row->values[6], row->lengths[6])};
    return is;
}

static void hear_topic(struct change *c, const struct tr_sql_row *row)
{
    const struct tr_sql_topic *is = other(c, row);

    for (unsigned i = c->from; i < c->to; i++) {
        struct tr_sql_item *item = item_of(c, i);

        if (item->found ? item->row.topic == tr_sql_number(row, 0)
                        : item->topic == tr_sql_number(row, 0)) {
            item->gen = (uint32_t)tr_sql_number(row, 1);
            item->version = (uint32_t)tr_sql_number(row, 2);
            item->other = item->version != item->knows ? is : NULL;
        }
    }
}

/* It is there: if it was not read before, somebody has it. */
static void hear_there(struct change *c, const struct tr_sql_row *row)
{
    for (unsigned i = c->from; i < c->to; i++) {
        if (c->ids[i] == tr_sql_number(row, 0)) {
            item_of(c, i)->locked = !item_of(c, i)->found;
        }
    }
}

static void hear(void *ctx, const struct tr_sql_row *row)
{
    struct change *c = ctx;

    if (row->result < c->results) {
        hear_begin(c, row);
    } else if (row->result == c->results) {
        hear_job(c, row);
    } else if (row->result == c->results + 1) {
        hear_topic(c, row);
    } else {
        hear_there(c, row);
    }
}

/* Forgets what an attempt before has read or decided. */
static void reset(struct change *c)
{
    c->keys = 0;
    c->lane_there = false;
    if (c->ask->plan != NULL) {
        c->ask->plan->is = (struct tr_sql_plan){0};
        c->ask->plan->write = TR_SQL_LEAVE;
    }
    for (unsigned i = c->from; i < c->to; i++) {
        struct tr_sql_item *item = item_of(c, i);

        item->found = false;
        item->locked = false;
        item->gen = 0;
        item->version = 0;
        item->other = NULL;
        item->write = TR_SQL_LEAVE;
        item->with_body = false;
        item->event_count = 0;
        c->ids[i] = item->by == TR_SQL_BY_ID ? item->id : 0;
        if (has_key(item)) {
            c->by_key[c->keys++] = item;
        }
    }
    qsort(c->by_key, c->keys, sizeof *c->by_key, compare_keys);
}

/* 0, or the fault is set. */
static int read_all(struct change *c)
{
    struct tr_sql_text *t = &c->line->text;
    int err = TARRY_OK;

    tr_sql_text_clear(t);
    put_begin(c, t);
    if (c->keys > 0) { /* ids are known only then */
        c->results = UINT32_MAX;
        err = tr_sql_line_run(c->line, hear, c);
        tr_sql_text_clear(t);
        tr_sql_put(t, "DO 0");
        c->results = 1;
    }
    if (err == TARRY_OK) {
        put_jobs(c, t);
        err = tr_sql_line_run(c->line, hear, c);
    }
    return err;
}

/* ---- writes ---- */

static void count(struct change *c, const struct tr_sql_job *job, int64_t sign)
{
    unsigned i = 0;

    while (i < c->count_count &&
           (c->counts[i].topic != job->topic || c->counts[i].gen != job->gen)) {
        i++;
    }
    if (i == c->count_count) {
        c->counts[i] = (struct count){.topic = job->topic, .gen = job->gen};
        c->count_count++;
    }
    c->counts[i].n.waiting += job->state == TR_SQL_WAITING ? sign : 0;
    c->counts[i].n.reserved += job->state == TR_SQL_RESERVED ? sign : 0;
    c->counts[i].n.dead += job->state == TR_SQL_DEAD ? sign : 0;
    c->counts[i].n.bytes += sign * (int64_t)job->body_len;
}

static void put_counts(struct change *c, struct tr_sql_text *t)
{
    const char *lead = "; INSERT INTO `cnt` VALUES ";

    for (unsigned i = 0; i < c->count_count; i++) {
        const struct count *n = &c->counts[i];

        if (n->n.waiting == 0 && n->n.reserved == 0 && n->n.dead == 0 && n->n.bytes == 0) {
            continue;
        }
        tr_sql_putf(t, "%s(%u,%u,%u,", lead, (uint64_t)n->topic, (uint64_t)n->gen, c->line->lane);
        tr_sql_put_signed(t, n->n.waiting);
        tr_sql_put(t, ",");
        tr_sql_put_signed(t, n->n.reserved);
        tr_sql_put(t, ",");
        tr_sql_put_signed(t, n->n.dead);
        tr_sql_put(t, ",");
        tr_sql_put_signed(t, n->n.bytes);
        tr_sql_put(t, ")");
        lead = ",";
    }
    if (lead[0] == ',') {
        tr_sql_put(t, " ON DUPLICATE KEY UPDATE `waiting`=`waiting`+VALUES(`waiting`),"
                      "`reserved`=`reserved`+VALUES(`reserved`),`dead`=`dead`+VALUES(`dead`),"
                      "`bytes`=`bytes`+VALUES(`bytes`)");
    }
}

/* Rows that are made (INSERT), or changed with or without their bodies. */
static void put_rows(struct change *c, struct tr_sql_text *t, enum tr_sql_write write, bool body)
{
    bool any = false;

    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);

        if (item->write != write || (write == TR_SQL_UPDATE && item->with_body != body)) {
            continue;
        }
        tr_sql_put(t, any ? "," : "; ");
        if (!any) {
            tr_sql_row_insert(t);
        }
        tr_sql_row_put(t, &item->next,
                       !body      ? TR_SQL_BODY_NOT
                       : c->apart ? TR_SQL_BODY_APART
                                  : TR_SQL_BODY_HERE);
        any = true;
    }
    if (any && write == TR_SQL_UPDATE) {
        tr_sql_row_update(t, body);
    }
}

/* The row that goes: one that is deleted, or had the key of a new one. */
static bool goes(const struct tr_sql_item *item)
{
    return item->found && (item->write == TR_SQL_DELETE ||
                           (item->write == TR_SQL_INSERT && item->by == TR_SQL_NEW_KEY));
}

static void put_deletes(struct change *c, struct tr_sql_text *t)
{
    const char *lead = "; DELETE j FROM `job` j FORCE INDEX (PRIMARY) WHERE j.`id` IN (";

    for (unsigned i = c->from; i < c->to; i++) {
        if (goes(item_of(c, i))) {
            tr_sql_putf(t, "%s%u", lead, item_of(c, i)->row.id);
            lead = ",";
        }
    }
    if (lead[0] == ',') {
        tr_sql_put(t, ")");
    }
}

/* Keys of jobs that go, and those that were made for jobs that did not come. */
static void put_key_deletes(struct change *c, struct tr_sql_text *t)
{
    const char *lead = "; DELETE k FROM `job_key` k FORCE INDEX (PRIMARY) WHERE ";

    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);

        if (item->write == TR_SQL_DELETE && item->found && item->row.key.len > 0) {
            put_key(t, lead, item->row.topic, &item->row.key);
            lead = " OR ";
        } else if (item->by == TR_SQL_NEW_KEY && item->write == TR_SQL_LEAVE &&
                   c->ids[i] == item->id && !item->found) {
            put_key(t, lead, item->topic, &item->key);
            lead = " OR ";
        }
    }
}

/* Keys that name another job, or none, and are the new job's from now on. */
static void put_key_changes(struct change *c, struct tr_sql_text *t)
{
    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);

        if (item->by == TR_SQL_NEW_KEY && item->write == TR_SQL_INSERT && c->ids[i] != item->id) {
            tr_sql_putf(t, "; UPDATE `job_key` SET `id` = %u WHERE `topic_id` = %u AND `jkey` = %q",
                        item->id, (uint64_t)item->topic, &item->key);
        }
    }
}

static void put_events(struct change *c, struct tr_sql_text *t)
{
    uint64_t now_us = c->ask->now_us;
    const char *lead = "; INSERT INTO `flow` (`id`,`at`,`n`,`day`,`event`,`from_state`,`to_state`,"
                       "`reason`,`slot`,`topic_id`,`node`,`actor`,`info`) VALUES ";

    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);
        const struct tr_sql_job *job = item->write == TR_SQL_DELETE ? &item->row : &item->next;

        for (unsigned n = 0; item->write != TR_SQL_LEAVE && n < item->event_count; n++) {
            const struct tr_sql_event *e = &item->events[n];

            tr_sql_putf(t, "%s(%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,", lead, job->id, now_us,
                        (uint64_t)((job->ver * TR_SQL_EVENTS + n) & UINT16_MAX),
                        now_us / 1000000 / DAY_S, (uint64_t)e->event, (uint64_t)e->from,
                        (uint64_t)e->to, (uint64_t)e->why, job->id & SLOT_MASK,
                        (uint64_t)job->topic);
            tr_sql_putf(t, "%u,%q,%q)", c->line->node, &e->actor, &e->info);
            lead = ",";
        }
    }
}

static bool count_all(struct change *c)
{
    bool any = false;

    c->count_count = 0;
    for (unsigned i = c->from; i < c->to; i++) {
        const struct tr_sql_item *item = item_of(c, i);

        any |= item->write != TR_SQL_LEAVE;
        if (goes(item) || item->write == TR_SQL_UPDATE) {
            count(c, &item->row, -1);
        }
        if (item->write == TR_SQL_INSERT || item->write == TR_SQL_UPDATE) {
            count(c, &item->next, 1);
        }
    }
    return any;
}

/* Into the text; false: there is nothing to write. */
static bool put_writes(struct change *c)
{
    struct tr_sql_text *t = &c->line->text;
    bool any = count_all(c);

    any |= c->ask->plan != NULL && c->ask->plan->write != TR_SQL_LEAVE;
    tr_sql_text_clear(t);
    tr_sql_putf(t, "UPDATE `lane` SET `op` = %u, `seen` = %u WHERE `lane` = %u", c->line->op + 1,
                c->ask->now_us, c->line->lane);
    put_deletes(c, t);
    put_rows(c, t, TR_SQL_INSERT, true);
    put_rows(c, t, TR_SQL_UPDATE, false);
    put_rows(c, t, TR_SQL_UPDATE, true);
    put_key_changes(c, t);
    put_key_deletes(c, t);
    put_counts(c, t);
    put_events(c, t);
    tr_sql_plan_ends(t, c->ask, c->from, c->to);
    if (c->ask->plan != NULL) {
        tr_sql_plan_write(t, c->ask->plan);
    }
    tr_sql_put(t, c->apart ? "; SET " TR_SQL_BODY " = NULL; COMMIT" : "; COMMIT");
    return any;
}

/* The body that is to be sent apart, since only then the rest fits; or none. */
static struct tr_span big_body(const struct change *c)
{
    const struct tr_sql_item *item = c->to - c->from == 1 ? item_of(c, c->from) : NULL;

    if (item == NULL || c->apart || c->line->packet_max <= 2 * SPARE ||
        (item->write != TR_SQL_INSERT && (item->write != TR_SQL_UPDATE || !item->with_body)) ||
        item->next.body.len > c->line->packet_max - SPARE) {
        return (struct tr_span){0};
    }
    return item->next.body;
}

/* 0, or the fault is set. */
static int send_apart(struct change *c, struct tr_span body)
{
    size_t most = (size_t)(c->line->packet_max - SPARE) / 2;
    struct tr_sql_text *t = &c->line->text;
    int err = TARRY_OK;

    for (size_t at = 0; at < body.len && err == TARRY_OK; at += most) {
        struct tr_span piece = {body.at + at, body.len - at < most ? body.len - at : most};

        tr_sql_text_clear(t);
        tr_sql_putf(t,
                    at == 0 ? "SET " TR_SQL_BODY " = %q"
                            : "SET " TR_SQL_BODY " = CONCAT(" TR_SQL_BODY ", %q)",
                    &piece);
        err = tr_sql_line_run(c->line, NULL, NULL);
    }
    c->apart = true;
    return err;
}

static enum tr_sql_ran undo(struct change *c)
{
    struct tr_sql_fault fault = c->line->fault;

    if (fault.blame != TR_SQL_AWAY) {
        tr_sql_text_clear(&c->line->text);
        tr_sql_put(&c->line->text, "ROLLBACK");
        if (tr_sql_line_run(c->line, NULL, NULL) == TARRY_OK) {
            c->line->fault = fault;
        }
    }
    return TR_SQL_RAN_FAILED;
}

static enum tr_sql_ran no_memory(struct change *c)
{
    tr_sql_fault_set(&c->line->fault, c->line->access, 1041, "this node has no memory left");
    return undo(c);
}

static enum tr_sql_ran write_all(struct change *c)
{
    struct tr_sql_line *line = c->line;
    struct tr_span body;

    if (!put_writes(c)) {
        (void)undo(c); /* what was read is the answer; if that fails, the connection will, too */
        return TR_SQL_RAN_DONE;
    }
    body = big_body(c);
    if (!line->text.failed && line->text.len >= line->packet_max && body.len > 0) {
        if (send_apart(c, body) != TARRY_OK) {
            return undo(c);
        }
        (void)put_writes(c);
    }
    if (line->text.failed) {
        return no_memory(c);
    }
    if (line->text.len >= line->packet_max) {
        tr_sql_fault_set(&line->fault, line->access, 1153, "Got a packet bigger than allowed");
        return undo(c);
    }
    if (tr_sql_line_run(line, NULL, NULL) == TARRY_OK) {
        line->op++;
        return TR_SQL_RAN_DONE;
    }
    return line->fault.blame == TR_SQL_AWAY ? TR_SQL_RAN_LOST : undo(c);
}

static enum tr_sql_ran run(struct change *c)
{
    reset(c);
    if (read_all(c) != TARRY_OK) {
        return undo(c);
    }
    if (c->line->room->failed) {
        return no_memory(c);
    }
    if (!c->lane_there || c->lane_node != c->line->node) {
        /* A failover has lost it, and may have given its number to somebody else. */
        c->line->lane = 0;
        tr_sql_fault_set(&c->line->fault, c->line->access, 1020, "the lane is gone");
        return undo(c);
    }
    c->ask->decide(c->ask, c->from, c->to);
    return write_all(c);
}

enum tr_sql_ran tr_sql_change_run(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from,
                                  unsigned to)
{
    struct change c = {.line = line, .ask = ask, .from = from, .to = to};
    enum tr_sql_ran ran;

    c.by_key = calloc((size_t)ask->count + 1, sizeof *c.by_key); /* a schedule may have no job */
    c.ids = calloc((size_t)ask->count + 1, sizeof *c.ids);
    c.counts = calloc(2 * (size_t)ask->count + 1, sizeof *c.counts);
    if (c.by_key == NULL || c.ids == NULL || c.counts == NULL) {
        tr_sql_fault_set(&line->fault, line->access, 1041, "this node has no memory left");
        ran = TR_SQL_RAN_FAILED;
    } else {
        ran = run(&c);
    }
    free(c.by_key);
    free(c.ids);
    free(c.counts);
    return ran;
}
