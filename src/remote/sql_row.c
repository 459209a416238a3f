/*
 * Rows of jobs, as the columns of `job` have them. Updates are an INSERT of rows that are there and
 * locked, with ON DUPLICATE KEY UPDATE: so one statement changes many rows, each in its own way,
 * in MariaDB and in MySQL.
 */

#include "remote/sql_inner.h"

#include <stdlib.h>
#include <string.h>

struct tr_sql_piece {
    struct tr_sql_piece *next;
};

static const char columns[] =
    "`id`,`slot`,`topic_id`,`gen`,`state`,`next_at`,`due`,`created`,`changed`,`handed`,`delay`,"
    "`ttr`,`ttl`,`prio`,`ver`,`lease`,`flags`,`holder`,`retries`,`attempts`,`timeouts`,`releases`,"
    "`buries`,`kicks`,`reason`,`sched_id`,`sched_n`,`tag`,`jkey`,`backoff`";

/* All that a change may touch. */
static const char *const changed[] = {
    "state",    "next_at",  "due",      "created",  "changed", "handed", "delay",
    "ttr",      "ttl",      "prio",     "ver",      "lease",   "flags",  "holder",
    "retries",  "attempts", "timeouts", "releases", "buries",  "kicks",  "reason",
    "sched_id", "sched_n",  "tag",      "backoff",
};

enum { SLOT_MASK = 1023, CHANGED = sizeof changed / sizeof changed[0] };

void *tr_sql_room_get(struct tr_sql_room *r, size_t size)
{
    struct tr_sql_piece *piece = malloc(sizeof *piece + size);

    if (piece == NULL) {
        r->failed = true;
        return NULL;
    }
    piece->next = r->first;
    r->first = piece;
    return piece + 1;
}

struct tr_span tr_sql_room_copy(struct tr_sql_room *r, const char *at, size_t len)
{
    char *copy = at != NULL ? tr_sql_room_get(r, len + 1) : NULL;

    if (copy == NULL) {
        return (struct tr_span){0};
    }
    memcpy(copy, at, len);
    copy[len] = '\0';
    return (struct tr_span){copy, len};
}

void tr_sql_room_free(struct tr_sql_room *r)
{
    while (r->first != NULL) {
        struct tr_sql_piece *piece = r->first;

        r->first = piece->next;
        free(piece);
    }
}

void tr_sql_row_select(struct tr_sql_text *t, bool with_bodies, const char *index)
{
    tr_sql_putf(t,
                "SELECT %s, LENGTH(`body`), (SELECT t.`gen` FROM `topic` t WHERE t.`topic_id` = "
                "`job`.`topic_id`)%s FROM `job` FORCE INDEX (%s) WHERE ",
                columns, with_bodies ? ", `body`" : "", index);
}

static struct tr_span text_of(struct tr_sql_room *room, const struct tr_sql_row *row, unsigned i)
{
    return i < row->count ? tr_sql_room_copy(room, row->values[i], row->lengths[i])
                          : (struct tr_span){0};
}

bool tr_sql_row_read(struct tr_sql_room *room, const struct tr_sql_row *row, struct tr_sql_job *job,
                     uint32_t *gen)
{
    uint64_t v[32];

    for (unsigned i = 0; i < 32; i++) {
        v[i] = i < 27 || i >= 30 ? tr_sql_number(row, i) : 0;
    }
    *job = (struct tr_sql_job){
        .id = v[0],
        .topic = (uint32_t)v[2],
        .gen = (uint32_t)v[3],
        .state = (uint8_t)v[4],
        .next_us = v[5],
        .due_us = v[6],
        .created_us = v[7],
        .changed_us = v[8],
        .handed_us = v[9],
        .delay_us = v[10],
        .ttr_us = v[11],
        .ttl_us = v[12],
        .priority = (uint32_t)v[13],
        .ver = (uint32_t)v[14],
        .lease = v[15],
        .flags = (uint8_t)v[16],
        .holder = (uint8_t)v[17],
        .retries = (uint32_t)v[18],
        .attempts = (uint32_t)v[19],
        .timeouts = (uint32_t)v[20],
        .releases = (uint32_t)v[21],
        .buries = (uint32_t)v[22],
        .kicks = (uint32_t)v[23],
        .why = (uint8_t)v[24],
        .sched = (uint32_t)v[25],
        .sched_n = v[26],
        .tag = text_of(room, row, 27),
        .key = text_of(room, row, 28),
        .backoff = text_of(room, row, 29),
        .body_len = v[30],
        .body = text_of(room, row, 32),
    };
    *gen = (uint32_t)v[31];
    return !room->failed;
}

void tr_sql_row_insert(struct tr_sql_text *t)
{
    tr_sql_putf(t, "INSERT INTO `job` (%s,`body`) VALUES ", columns);
}

void tr_sql_row_put(struct tr_sql_text *t, const struct tr_sql_job *job, enum tr_sql_body body)
{
    const uint64_t v[] = {job->id,         job->id & SLOT_MASK, job->topic,    job->gen,
                          job->state,      job->next_us,        job->due_us,   job->created_us,
                          job->changed_us, job->handed_us,      job->delay_us, job->ttr_us,
                          job->ttl_us,     job->priority,       job->ver,      job->lease,
                          job->flags,      job->holder,         job->retries,  job->attempts,
                          job->timeouts,   job->releases,       job->buries,   job->kicks,
                          job->why,        job->sched,          job->sched_n};
    bool here = body == TR_SQL_BODY_HERE && job->body.at != NULL;
    struct tr_span text = here ? job->body : (struct tr_span){"", 0};

    tr_sql_put(t, "(");
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        tr_sql_put_number(t, v[i]);
        tr_sql_put(t, ",");
    }
    tr_sql_putf(t, "%q,%q,%q,", &job->tag, &job->key, &job->backoff);
    if (body == TR_SQL_BODY_APART) {
        tr_sql_put(t, TR_SQL_BODY ")");
    } else {
        tr_sql_putf(t, "%q)", &text);
    }
}

void tr_sql_row_update(struct tr_sql_text *t, bool with_body)
{
    tr_sql_put(t, " ON DUPLICATE KEY UPDATE ");
    for (size_t i = 0; i < CHANGED; i++) {
        tr_sql_putf(t, "%s`%s`=VALUES(`%s`)", i > 0 ? "," : "", changed[i], changed[i]);
    }
    if (with_body) {
        tr_sql_put(t, ",`body`=VALUES(`body`)");
    }
}
