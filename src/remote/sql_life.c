/*
 * Which server this is, and since when it runs: its life. After a failover to a server that had not
 * heard of the last commits, or a crash that took them back, what was known before may be wrong,
 * and nothing else tells. So each new connection compares the life with the one that the database
 * has noted, in `meta`; whoever finds another one first notes it, and in the same transaction
 *
 *     next_seq of all slots   2^20 and more ahead, and not behind the clock: no id is given twice
 *     epochs                  far ahead: owners from before are none
 *     versions of settings    far ahead: whatever Redis has of them is older
 *
 * How far depends on the time: two failovers in a row may begin with the same state.
 *
 * Before that nothing is asked of the new server. Asks of somebody who knows another life are not
 * done at all (sql_line.c): he may have numbers of topics that are others' now.
 *
 * The name of a server: all of server_uuid (MySQL has it, MariaDB does not), server_id (which must
 * differ between servers that replicate), hostname and port; and the second in which it started, by
 * its own clock. A clock that was set, or a cluster that writes on several servers, looks like
 * another life, too: that costs numbers and a comparison of the index, nothing else.
 */

#include "base/err.h"
#include "base/text.h"
#include "remote/sql_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MS_OF_2024 "1704067200000"
#define JUMP "1048576"

enum { NAME = 400, NOTE = 440, SPARE_S = 2, SLOTS_MAX = 1024 };

struct life {
    char name[NAME];
    uint64_t now_s;
    uint64_t uptime_s;
    unsigned slots;
    char noted[NOTE]; /* name and start, as the database has it; empty: none */
};

static void hear(void *ctx, const struct tr_sql_row *row)
{
    struct life *l = ctx;
    size_t len = strlen(l->name);

    switch (row->result) {
    case 0:
        l->now_s = tr_sql_number(row, 0);
        break;
    case 1:
        tr_text(l->name + len, sizeof l->name - len, "%s%s", len > 0 ? "," : "",
                row->values[1] != NULL ? row->values[1] : "");
        break;
    case 2:
        l->uptime_s = tr_sql_number(row, 1);
        break;
    case 3:
        l->slots = (unsigned)tr_sql_number(row, 0);
        break;
    default:
        tr_text(l->noted, sizeof l->noted, "%.*s", (int)row->lengths[0], row->values[0]);
        break;
    }
}

static void hear_noted(void *ctx, const struct tr_sql_row *row)
{
    struct life *l = ctx;

    tr_text(l->noted, sizeof l->noted, "%.*s", (int)row->lengths[0], row->values[0]);
}

/* Is it the one that is noted? */
static bool is_noted(const struct life *l)
{
    const char *at = strrchr(l->noted, ' ');
    uint64_t started_s = l->now_s - l->uptime_s;
    uint64_t noted_s = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
    size_t len = at != NULL ? (size_t)(at - l->noted) : 0;

    return at != NULL && len == strlen(l->name) && memcmp(l->noted, l->name, len) == 0 &&
           (started_s > noted_s ? started_s - noted_s : noted_s - started_s) <= SPARE_S;
}

static uint64_t number_of(const char *text)
{
    uint64_t n = UINT64_C(14695981039346656037);

    for (; *text != '\0'; text++) {
        n = (n ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return n | 1;
}

static void put_jump(struct tr_sql_text *t, const struct life *l)
{
    const char *comma = "";

    tr_sql_put(t, "; SET @m = FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) - " MS_OF_2024
                  "; SET @j = " JUMP " + 1024 * (@m % " JUMP "), @e = @m DIV 1000 + 1024"
                  "; INSERT INTO `slot` (`slot`,`next_seq`,`epoch`) VALUES ");
    for (unsigned s = 0; s < l->slots && s < SLOTS_MAX; s++) {
        tr_sql_putf(t, "%s(%u,@m + @j,@e)", comma, (uint64_t)s);
        comma = ",";
    }
    tr_sql_put(t, " ON DUPLICATE KEY UPDATE `next_seq` = GREATEST(`next_seq` + @j, "
                  "VALUES(`next_seq`)), `epoch` = GREATEST(`epoch` + 1024, @e); "
                  "UPDATE `topic` SET `pver` = GREATEST(`pver` + 1024, @e); "
                  "UPDATE `schedule` SET `ver` = `ver` + 1024");
}

/* It is noted from now on; nobody else does so meanwhile. */
static int note(struct tr_sql_line *line, struct life *l)
{
    struct tr_sql_text *t = &line->text;
    char text[NOTE];
    struct tr_span is = {text, 0};
    bool first;

    tr_sql_text_clear(t);
    tr_sql_put(t, "START TRANSACTION; SELECT `v` FROM `meta` WHERE `k` = 'life' FOR UPDATE");
    l->noted[0] = '\0';
    if (tr_sql_line_run(line, hear_noted, l) != TARRY_OK) {
        return TARRY_EAWAY;
    }
    first = l->noted[0] == '\0';
    if (is_noted(l)) { /* somebody was quicker */
        tr_sql_text_clear(t);
        tr_sql_put(t, "COMMIT");
        return tr_sql_line_run(line, NULL, NULL);
    }
    tr_text(text, sizeof text, "%s %" PRIu64, l->name, l->now_s - l->uptime_s);
    is.len = strlen(text);
    tr_sql_text_clear(t);
    tr_sql_putf(t,
                "INSERT INTO `meta` (`k`,`v`) VALUES ('life',%q) ON DUPLICATE KEY UPDATE `v` = "
                "VALUES(`v`)",
                &is);
    if (!first && l->slots > 0) {
        put_jump(t, l);
    }
    tr_sql_put(t, "; COMMIT");
    memcpy(l->noted, text, sizeof text);
    return tr_sql_line_run(line, NULL, NULL);
}

int tr_sql_life_meet(struct tr_sql_line *line)
{
    struct life l = {.slots = 0};
    int err;

    tr_sql_text_clear(&line->text);
    tr_sql_put(&line->text,
               "SELECT UNIX_TIMESTAMP(); SHOW VARIABLES WHERE Variable_name IN ('server_uuid', "
               "'server_id', 'hostname', 'port'); SHOW GLOBAL STATUS LIKE 'Uptime'; SELECT `v` "
               "FROM `meta` WHERE `k` = 'slots'; SELECT `v` FROM `meta` WHERE `k` = 'life'");
    err = tr_sql_line_run(line, hear, &l);
    if (err == TARRY_OK && !is_noted(&l)) {
        err = note(line, &l);
    }
    if (err == TARRY_OK) {
        line->life = number_of(l.noted);
    }
    return err;
}
