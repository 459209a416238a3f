/*
 * Schedules. One is changed in a transaction of sql_change.c: its row is locked by name before
 * anything else of the second kind of locks (lane, schedule, keys, jobs), so whoever comes second
 * reads what the first one has written. A name that is to be made is there for the length of the
 * transaction (ver 0), so that two who make it wait for each other, and goes with it if nothing is
 * written.
 *
 * A job that ends, and for whose end a schedule waits (`sched_id` of its row), tells that in its
 * own transaction; only if it is still the one that is waited for. Those who make jobs lock the
 * schedule first and then a row that nobody else knows, those who end one lock the job first: no
 * two can wait for each other.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#define LIVES                                                                                      \
    "(SELECT COUNT(*) FROM `job` j, `topic` t WHERE j.`id` = s.`last_job` AND t.`topic_id` = "     \
    "j.`topic_id` AND j.`gen` = t.`gen` AND j.`state` <> 2)"
#define COLUMNS                                                                                    \
    "s.`sched_id`,s.`ver`,s.`topic_id`,s.`slot`,s.`last_n`,s.`next_at`,s.`last_job`,s.`ended`,"    \
    "s.`name`,s.`spec`,s.`state`," LIVES

static bool read_plan(struct tr_sql_room *room, const struct tr_sql_row *row,
                      struct tr_sql_plan *is)
{
    *is = (struct tr_sql_plan){
        .id = (uint32_t)tr_sql_number(row, 0),
        .ver = (uint32_t)tr_sql_number(row, 1),
        .topic = (uint32_t)tr_sql_number(row, 2),
        .slot = (unsigned)tr_sql_number(row, 3),
        .last_n = tr_sql_number(row, 4),
        .next_us = tr_sql_number(row, 5),
        .last_job = tr_sql_number(row, 6),
        .ended_us = tr_sql_number(row, 7),
        .name = tr_sql_room_copy(room, row->values[8], row->lengths[8]),
        .spec = tr_sql_room_copy(room, row->values[9], row->lengths[9]),
        .state = tr_sql_room_copy(room, row->values[10], row->lengths[10]),
        .lives = tr_sql_number(row, 11) != 0,
    };
    return !room->failed;
}

/* ---- one that is changed ---- */

unsigned tr_sql_plan_lock(struct tr_sql_text *t, const struct tr_sql_planned *plan)
{
    if (plan->makes) {
        tr_sql_putf(t, "; INSERT IGNORE INTO `schedule` (`name`,`spec`,`state`) VALUES (%q,'','')",
                    &plan->name);
    }
    tr_sql_putf(t, "; SELECT " COLUMNS " FROM `schedule` s WHERE s.`name` = %q FOR UPDATE",
                &plan->name);
    return 1 + plan->makes;
}

void tr_sql_plan_hear(struct tr_sql_line *line, struct tr_sql_planned *plan,
                      const struct tr_sql_row *row)
{
    (void)read_plan(line->room, row, &plan->is);
}

void tr_sql_plan_write(struct tr_sql_text *t, const struct tr_sql_planned *plan)
{
    const struct tr_sql_plan *next = &plan->next;

    if (plan->write == TR_SQL_DELETE) {
        tr_sql_putf(t, "; DELETE s FROM `schedule` s WHERE s.`sched_id` = %u",
                    (uint64_t)plan->is.id);
    } else if (plan->write == TR_SQL_UPDATE) {
        tr_sql_putf(t,
                    "; UPDATE `schedule` SET `ver` = %u, `topic_id` = %u, `slot` = %u, `last_n` = "
                    "%u, `next_at` = %u, ",
                    (uint64_t)next->ver, (uint64_t)next->topic, (uint64_t)next->slot, next->last_n,
                    next->next_us);
        tr_sql_putf(t, "`last_job` = %u, `ended` = %u, `state` = %q", next->last_job,
                    next->ended_us, &next->state);
        if (plan->with_spec) {
            tr_sql_putf(t, ", `spec` = %q", &next->spec);
        }
        tr_sql_putf(t, " WHERE `sched_id` = %u", (uint64_t)plan->is.id);
    }
}

/* ---- one that waits for the end of a job ---- */

static bool is_over(const struct tr_sql_item *item)
{
    return item->found && item->row.sched != 0 && item->row.state != TR_SQL_DEAD &&
           (item->write == TR_SQL_DELETE ||
            (item->write == TR_SQL_UPDATE && item->next.state == TR_SQL_DEAD));
}

void tr_sql_plan_ends(struct tr_sql_text *t, const struct tr_sql_ask *ask, unsigned from,
                      unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        const struct tr_sql_item *item = &ask->items[i];

        if (is_over(item)) {
            tr_sql_putf(t,
                        "; UPDATE `schedule` SET `ended` = %u, `next_at` = %u, `ver` = `ver` + 1 "
                        "WHERE `sched_id` = %u AND `last_job` = %u AND `ended` = 0",
                        ask->now_us, ask->now_us, (uint64_t)item->row.sched, item->row.id);
        }
    }
}

void tr_sql_plan_purged(struct tr_sql_line *line, const struct tr_sql_ask *ask)
{
    struct tr_sql_fault fault = line->fault;

    tr_sql_text_clear(&line->text);
    tr_sql_putf(&line->text,
                "UPDATE `schedule` SET `ended` = %u, `next_at` = %u, `ver` = `ver` + 1 WHERE "
                "`topic_id` = %u AND `last_job` <> 0 AND `ended` = 0",
                ask->now_us, ask->now_us, (uint64_t)ask->topic);
    if (tr_sql_line_run(line, NULL, NULL) != TARRY_OK) {
        line->fault = fault; /* tables of the schema before have none; else it is seen later */
    }
}

/* ---- those that are looked at ---- */

void tr_sql_plans_put(struct tr_sql_text *t, const struct tr_sql_ask *ask)
{
    tr_sql_put(t, "SELECT " TR_SQL_NOW "; ");
    switch ((enum tr_sql_plans)ask->state) {
    case TR_SQL_PLANS_NAME:
        tr_sql_putf(t, "SELECT " COLUMNS " FROM `schedule` s WHERE s.`name` = %q", &ask->name);
        break;
    case TR_SQL_PLANS_AFTER:
        tr_sql_putf(t,
                    "SELECT " COLUMNS " FROM `schedule` s FORCE INDEX (PRIMARY) WHERE "
                    "s.`sched_id` > %u ORDER BY s.`sched_id` LIMIT 1",
                    ask->from_id);
        break;
    case TR_SQL_PLANS_FIRST:
        tr_sql_putf(t,
                    "SELECT " COLUMNS " FROM `schedule` s FORCE INDEX (`due`) WHERE s.`slot` = %u "
                    "AND s.`next_at` > 0 ORDER BY s.`next_at` LIMIT 1",
                    (uint64_t)ask->slot);
        break;
    case TR_SQL_PLANS_TIMES:
        tr_sql_put(t, "SELECT `slot`, MIN(`next_at`) FROM `schedule` FORCE INDEX (`due`) WHERE "
                      "`next_at` > 0 GROUP BY `slot`");
        break;
    }
}

void tr_sql_plans_hear(struct tr_sql_line *line, struct tr_sql_ask *ask,
                       const struct tr_sql_row *row)
{
    unsigned room = ask->state == TR_SQL_PLANS_TIMES ? TR_SQL_PAGE_MAX : 1;
    struct tr_sql_plan *is;

    if (ask->plans == NULL) {
        ask->plans = tr_sql_room_get(line->room, room * sizeof *ask->plans);
    }
    if (ask->plans == NULL || ask->count == room) {
        return;
    }
    is = &ask->plans[ask->count++];
    if (ask->state != TR_SQL_PLANS_TIMES) {
        (void)read_plan(line->room, row, is);
    } else {
        *is = (struct tr_sql_plan){.slot = (unsigned)tr_sql_number(row, 0),
                                   .next_us = tr_sql_number(row, 1)};
    }
}
