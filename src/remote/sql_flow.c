/*
 * What happened to jobs: the table `flow`, which is read by id, and of which whole days are
 * forgotten.
 *
 *     d20773 │ d20774 │ d20775 (today) │ d20776 │ d20777 │ rest
 *
 * A partition is a day. They are made some days ahead, out of `rest`, while that is empty, so that
 * nothing has to be copied; and a day that is over is dropped as a whole, which costs the same
 * however much happened in it. Whoever has no right to do that deletes rows instead, some at a
 * time.
 *
 * Neither is worth waiting for: what does not work now is tried again later, and nobody is told
 * that the database is not well because of it.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#include <stdlib.h>
#include <string.h>

enum { DAY_S = 86400, AHEAD = 2, PARTS_MAX = 512, SLICE = 5000 };

/* ---- of one job ---- */

void tr_sql_flow_put(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_putf(t,
                "; SELECT `at`,`event`,`to_state`,`reason`,`actor`,`info` FROM `flow` FORCE INDEX "
                "(PRIMARY) WHERE `id` = %u ORDER BY `at` DESC, `n` DESC LIMIT %u",
                ask->items[0].id, (uint64_t)TR_SQL_FLOW_MAX);
}

void tr_sql_flow_hear(struct tr_sql_line *line, struct tr_sql_ask *ask,
                      const struct tr_sql_row *row)
{
    if (ask->flow == NULL) {
        ask->flow = tr_sql_room_get(line->room, TR_SQL_FLOW_MAX * sizeof *ask->flow);
        ask->number = 0;
    }
    if (ask->flow != NULL && ask->number < TR_SQL_FLOW_MAX) {
        ask->flow[ask->number++] = (struct tr_sql_past){
            .at_us = tr_sql_number(row, 0),
            .event = (uint8_t)tr_sql_number(row, 1),
            .to = (uint8_t)tr_sql_number(row, 2),
            .why = (uint8_t)tr_sql_number(row, 3),
            .actor = tr_sql_room_copy(line->room, row->values[4], row->lengths[4]),
            .info = tr_sql_room_copy(line->room, row->values[5], row->lengths[5])};
    }
}

/* ---- days ---- */

struct days {
    uint64_t now_us;
    uint64_t bounds[PARTS_MAX]; /* of each partition: the first day that is not in it; */
    unsigned count;             /* but for the rest */
};

static void hear_days(void *ctx, const struct tr_sql_row *row)
{
    struct days *d = ctx;

    if (row->result == 0) {
        d->now_us = tr_sql_number(row, 0);
    } else if (d->count < PARTS_MAX && tr_sql_number(row, 0) > 0) {
        d->bounds[d->count++] = tr_sql_number(row, 0);
    }
}

/* Days ahead, as partitions. False: there are enough. */
static bool put_new_days(struct tr_sql_text *t, const struct days *d)
{
    uint64_t today = d->now_us / 1000000 / DAY_S;
    uint64_t next = d->count > 0 ? d->bounds[d->count - 1] : today;

    if (next > today + AHEAD) {
        return false;
    }
    next = next > today ? next : today;
    tr_sql_put(t, "SET SESSION lock_wait_timeout = 1; ALTER TABLE `flow` REORGANIZE PARTITION "
                  "`rest` INTO (");
    for (; next <= today + AHEAD; next++) {
        tr_sql_putf(t, "PARTITION `d%u` VALUES LESS THAN (%u), ", next, next + 1);
    }
    tr_sql_put(t, "PARTITION `rest` VALUES LESS THAN MAXVALUE)");
    return true;
}

static bool put_old_days(struct tr_sql_text *t, const struct days *d, uint64_t keep)
{
    const char *lead = "SET SESSION lock_wait_timeout = 1; ALTER TABLE `flow` DROP PARTITION ";
    bool any = false;

    for (unsigned i = 0; i < d->count && d->bounds[i] <= keep; i++) {
        tr_sql_putf(t, "%s`d%u`", any ? ", " : lead, d->bounds[i] - 1);
        any = true;
    }
    return any;
}

/* It was done, or cannot be now. */
static enum tr_sql_ran excuse(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    if (line->fault.blame == TR_SQL_AWAY) {
        return TR_SQL_RAN_FAILED;
    }
    line->fault = (struct tr_sql_fault){.blame = TR_SQL_FINE};
    ask->number = 0;
    return TR_SQL_RAN_DONE;
}

/* Rows of days that are over, if there is no right to drop partitions. */
static enum tr_sql_ran delete_some(struct tr_sql_line *line, struct tr_sql_ask *ask, uint64_t keep)
{
    tr_sql_text_clear(&line->text);
    tr_sql_putf(&line->text, "DELETE FROM `flow` WHERE `day` < %u LIMIT %u", keep, (uint64_t)SLICE);
    if (tr_sql_line_run(line, NULL, NULL) != TARRY_OK) {
        return excuse(line, ask);
    }
    ask->number = tr_sql_conn_changed(line->conn, 0) < SLICE;
    return TR_SQL_RAN_DONE;
}

enum tr_sql_ran tr_sql_days_run(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    struct tr_sql_text *t = &line->text;
    uint64_t keep = ask->from_us / 1000000 / DAY_S;
    struct days d = {0};
    bool refused = false;

    ask->number = 1;
    tr_sql_text_clear(t);
    tr_sql_put(t, "SELECT " TR_SQL_NOW "; SELECT `PARTITION_DESCRIPTION` FROM "
                  "information_schema.PARTITIONS WHERE `TABLE_SCHEMA` = DATABASE() AND "
                  "`TABLE_NAME` = 'flow' ORDER BY `PARTITION_ORDINAL_POSITION`");
    if (tr_sql_line_run(line, hear_days, &d) != TARRY_OK) {
        return excuse(line, ask);
    }
    ask->now_us = d.now_us;
    tr_sql_text_clear(t);
    if (put_new_days(t, &d) && tr_sql_line_run(line, NULL, NULL) != TARRY_OK) {
        refused = line->fault.blame == TR_SQL_REFUSED;
        if (excuse(line, ask) == TR_SQL_RAN_FAILED) {
            return TR_SQL_RAN_FAILED;
        }
    }
    tr_sql_text_clear(t);
    if (!refused && put_old_days(t, &d, keep) && tr_sql_line_run(line, NULL, NULL) != TARRY_OK) {
        refused = line->fault.blame == TR_SQL_REFUSED;
        if (!refused) {
            return excuse(line, ask);
        }
    }
    return refused ? delete_some(line, ask, keep) : TR_SQL_RAN_DONE;
}
