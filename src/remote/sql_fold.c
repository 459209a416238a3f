/*
 * Lanes that nobody uses any more: each start of a node makes some, and each of them has counts of
 * all topics that it touched. Those of one lane are added to those of lane 0, which is nobody's, in
 * one transaction, and the lane is gone.
 *
 *     the lane's row is locked ──► cnt of lane 0 += its own ──► its own, and the lane, are deleted
 *
 * The sums stay what they are, whoever uses the lane: a change locks its row first. One that finds
 * it gone takes a new lane (sql_change.c). What became of a commit is looked up in its lane within
 * seconds, and `seen` is the time of the last one: so a lane must not be folded before long.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

static void hear(void *ctx, const struct tr_sql_row *row)
{
    struct tr_sql_ask *ask = ctx;

    if (row->result == 0) {
        ask->now_us = tr_sql_number(row, 0);
    } else {
        ask->number = tr_sql_number(row, 0);
    }
}

enum tr_sql_ran tr_sql_fold_run(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    struct tr_sql_text *t = &line->text;
    struct tr_sql_fault fault;

    ask->number = 0;
    tr_sql_text_clear(t);
    tr_sql_putf(t,
                "SELECT " TR_SQL_NOW "; SET @lane = (SELECT `lane` FROM `lane` WHERE `seen` < %u "
                "ORDER BY `lane` LIMIT 1); START TRANSACTION; "
                "SET @lane = (SELECT `lane` FROM `lane` WHERE `lane` = @lane AND `seen` < %u FOR "
                "UPDATE); ",
                ask->until_us, ask->until_us);
    tr_sql_put(t, "INSERT INTO `cnt` (`topic_id`,`gen`,`lane`,`waiting`,`reserved`,`dead`,`bytes`) "
                  "SELECT o.`topic_id`, o.`gen`, 0, o.`waiting`, o.`reserved`, o.`dead`, o.`bytes` "
                  "FROM `cnt` o WHERE o.`lane` = @lane ON DUPLICATE KEY UPDATE "
                  "`waiting` = `cnt`.`waiting` + VALUES(`waiting`), "
                  "`reserved` = `cnt`.`reserved` + VALUES(`reserved`), "
                  "`dead` = `cnt`.`dead` + VALUES(`dead`), "
                  "`bytes` = `cnt`.`bytes` + VALUES(`bytes`); "
                  "DELETE FROM `cnt` WHERE `lane` = @lane; "
                  "DELETE FROM `lane` WHERE `lane` = @lane; COMMIT; "
                  "SELECT IFNULL(@lane, 0) > 0");
    if (tr_sql_line_run(line, hear, ask) == TARRY_OK) {
        return TR_SQL_RAN_DONE;
    }
    fault = line->fault;
    if (line->conn != NULL) { /* half of it is not to be committed by whatever comes next */
        tr_sql_text_clear(t);
        tr_sql_put(t, "ROLLBACK");
        if (tr_sql_line_run(line, NULL, NULL) != TARRY_OK) {
            tr_sql_line_close(line);
        }
        line->fault = fault;
    }
    return TR_SQL_RAN_FAILED;
}
