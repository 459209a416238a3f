/*
 * Where a database has the truth, Redis can be made anew from it, whole or one job:
 *
 *     POST /v1/restore              {"restoring":true}; expire=false: what is overdue is buried
 *     POST /v1/jobs/{id}/restore    the job, as it is
 *     GET  /reStore, /reStore/{id}  the same, as the delay queues of old have it
 *
 * Dead jobs are rows, and have no entry in Redis, so nothing of them can be lost there: they stay
 * dead, and whoever wants them back kicks them.
 *
 * On engines without a database there is nothing to restore from: 501. But the classic routes,
 * whose clients mean by it "give me back what was lost", bring dead jobs back there: all of them,
 * or (expire=false) all but those that expired.
 */

#include "base/err.h"
#include "proto/http_inner.h"

/* ---- dead ones come back ---- */

static void tell_restored(struct tr_hs *s)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "restored");
    tr_json_number(&r.json, s->number);
    tr_hs_close(s, &r);
}

static void restore_all(struct tr_hs *s);

static void restored(struct tr_hs *s)
{
    s->number += s->req.out.number;
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else if (s->req.out.cursor.more) {
        s->req.cursor = s->req.out.cursor;
        s->next = restore_all;
    } else {
        tell_restored(s);
    }
}

static void restore_all(struct tr_hs *s)
{
    s->req.bulk = TR_BULK_KICK;
    s->req.count = TR_BULK_MAX;
    tr_hs_ask(s, TR_OP_BULK, restored);
}

static void revive(struct tr_hs *s)
{
    s->req.filter.states = 1U << TR_DEAD;
    if (tr_hs_number(s, TR_ARG_EXPIRE, 1) == 0) {
        tr_hs_each(s, (struct tr_hs_each){
                          .op = TR_OP_KICK_JOB, .skip_expired = true, .end = tell_restored});
        return;
    }
    restore_all(s);
}

/* ---- from the database ---- */

static void tell(struct tr_hs *s)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "restoring");
    tr_json_bool(&r.json, true);
    tr_json_name(&r.json, "buried");
    tr_json_number(&r.json, s->number);
    tr_hs_close(s, &r);
}

/* Those that were due when it began. */
static void bury(struct tr_hs *s)
{
    s->req.filter.states = 1U << TR_READY;
    s->req.filter.due_to_us = s->number;
    s->req.keep_priority = true;
    s->number = 0;
    tr_hs_each(s, (struct tr_hs_each){.op = TR_OP_BURY, .end = tell});
}

static void begun(struct tr_hs *s)
{
    bool classic = s->match.route == TR_ROUTE_CLASSIC_RESTORE;

    if (s->req.out.status == TARRY_EUNSUPPORTED && classic) {
        s->next = revive;
    } else if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else if (tr_hs_number(s, TR_ARG_EXPIRE, 1) == 0) {
        tr_hs_ask_now(s, bury);
    } else {
        tell(s);
    }
}

void tr_hs_restore(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_RESTORE, begun);
}

static void one_done(struct tr_hs *s)
{
    bool classic = s->match.route == TR_ROUTE_CLASSIC_RESTORE_JOB;

    if (s->req.out.status == TARRY_EUNSUPPORTED && classic) {
        s->next = tr_hs_kick;
    } else if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else {
        tr_hs_job(s, 200, (struct tr_shape){0});
    }
}

static void one(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_RESTORE, one_done);
}

void tr_hs_restore_job(struct tr_hs *s)
{
    tr_hs_name_job(s, one);
}
