/*
 * How many rows of a topic wait for when, by its index alone.
 *
 *     first ─────────── counted, so many rows at most ───────────┤├── guessed by the optimizer ──
 * until
 *
 * Counting goes through all entries of the index, so it has a limit; what is behind it is asked of
 * EXPLAIN, a range for each step: it looks at the two ends of a range in the tree, and guesses from
 * there, whatever is between. It never says 0, so 1 is taken for that.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

enum { STEPS_MAX = 2000, EXPLAIN_ROWS = 8, EXPLAIN_ROWS_MYSQL = 9, MYSQL_COLUMNS = 12 };

struct forecast {
    struct tr_sql_ask *ask;
    unsigned count;   /* steps */
    uint64_t counted; /* rows */
    uint64_t last_us; /* the latest of those */
    unsigned from;    /* the first result of EXPLAIN is of this step */
};

static void put_range(struct tr_sql_text *t, const struct tr_sql_ask *ask, uint64_t from_us,
                      uint64_t until_us)
{
    tr_sql_putf(t,
                "SELECT `next_at` FROM `job` FORCE INDEX (`work`) WHERE `slot` = %u AND `topic_id` "
                "= %u AND `gen` = @g AND `state` = 0 AND `next_at` >= %u AND `next_at` < %u",
                (uint64_t)ask->slot, (uint64_t)ask->topic, from_us, until_us);
}

static void hear_counts(void *ctx, const struct tr_sql_row *row)
{
    struct forecast *f = ctx;
    uint64_t step = tr_sql_number(row, 0);

    if (row->result == 0) {
        f->ask->now_us = step;
        return;
    }
    if (step < f->count) {
        f->ask->steps[step] = tr_sql_number(row, 1);
    }
    f->counted += tr_sql_number(row, 1);
    f->last_us = tr_sql_number(row, 2) > f->last_us ? tr_sql_number(row, 2) : f->last_us;
}

static void hear_guess(void *ctx, const struct tr_sql_row *row)
{
    const struct forecast *f = ctx;
    unsigned column = row->count == MYSQL_COLUMNS ? EXPLAIN_ROWS_MYSQL : EXPLAIN_ROWS;
    uint64_t rows = tr_sql_number(row, column);
    unsigned step = f->from + row->result;

    if (step < f->count && rows > 1) {
        f->ask->steps[step] += rows;
    }
}

static int count(struct tr_sql_line *line, struct forecast *f)
{
    const struct tr_sql_ask *ask = f->ask;
    struct tr_sql_text *t = &line->text;

    tr_sql_text_clear(t);
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW ", @g := (SELECT `gen` FROM `topic` WHERE `topic_id` = %u); "
                "SELECT (`next_at` - %u) DIV %u, COUNT(*), MAX(`next_at`) FROM (",
                (uint64_t)ask->topic, ask->from_us, ask->first);
    put_range(t, ask, ask->from_us, ask->until_us);
    tr_sql_putf(t, " ORDER BY `next_at` LIMIT %u) x GROUP BY 1", ask->number);
    return tr_sql_line_run(line, hear_counts, f);
}

/* From behind the last one that was counted, or from the beginning. */
static int guess(struct tr_sql_line *line, struct forecast *f)
{
    const struct tr_sql_ask *ask = f->ask;
    uint64_t from_us = f->counted > 0 ? f->last_us + 1 : ask->from_us;
    struct tr_sql_text *t = &line->text;

    tr_sql_text_clear(t);
    f->from = (unsigned)((from_us - ask->from_us) / ask->first);
    for (unsigned i = f->from; i < f->count; i++) {
        uint64_t end_us = ask->from_us + (i + 1) * ask->first;

        end_us = end_us < ask->until_us ? end_us : ask->until_us;
        tr_sql_put(t, i > f->from ? "; EXPLAIN " : "EXPLAIN ");
        put_range(t, ask, from_us, end_us);
        from_us = end_us;
    }
    return f->from < f->count ? tr_sql_line_run(line, hear_guess, f) : TARRY_OK;
}

enum tr_sql_ran tr_sql_forecast_run(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    struct forecast f = {.ask = ask};
    uint64_t steps = (ask->until_us - ask->from_us + ask->first - 1) / ask->first;
    uint64_t most = ask->number;

    f.count = steps < STEPS_MAX ? (unsigned)steps : STEPS_MAX;
    ask->steps = tr_sql_room_get(line->room, (f.count + 1) * sizeof *ask->steps);
    if (ask->steps == NULL) {
        tr_sql_fault_set(&line->fault, line->access, 1041, "this node has no memory left");
        return TR_SQL_RAN_FAILED;
    }
    for (unsigned i = 0; i <= f.count; i++) {
        ask->steps[i] = 0;
    }
    ask->approximate = false;
    if (count(line, &f) != TARRY_OK) {
        ask->number = most;
        return TR_SQL_RAN_FAILED;
    }
    if (f.counted == most) {
        ask->approximate = true;
        if (guess(line, &f) != TARRY_OK) {
            return TR_SQL_RAN_FAILED;
        }
    }
    ask->number = f.counted;
    return TR_SQL_RAN_DONE;
}
