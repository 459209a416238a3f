/*
 * One thing after the other to each job that matches, for what the queue cannot do in bulk:
 * reserved jobs are purged, dead ones are brought back but for those that expired.
 *
 *     page of the list --> ids --> ask for each --> next page, until there is none
 *
 * The ids of a page wait in s->text, eight bytes each. s->number counts what was done.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#include <string.h>

static void one(struct tr_hs *s);

static void listed(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    for (uint64_t i = 0; i < s->req.out.number; i++) {
        const struct tr_job_view *job = &s->req.out.jobs[i];

        if (job->dead_why != TR_WHY_EXPIRED || !s->each.skip_expired) {
            tr_output_add(s->text, &job->id, sizeof job->id);
        }
    }
    s->req.cursor = s->req.out.cursor;
    s->next = one;
}

static void list(struct tr_hs *s)
{
    s->req.count = TR_LIST_MAX;
    tr_hs_ask(s, TR_OP_LIST, listed);
}

static void one_done(struct tr_hs *s)
{
    s->number += s->req.out.status == TARRY_OK; /* else it went, or changed, meanwhile */
    s->next = one;
}

static void one(struct tr_hs *s)
{
    const uint8_t *bytes;

    if (s->text->broken) {
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
    } else if (tr_output_ready(s->text, 0, &bytes) > 0) {
        memcpy(&s->req.id, bytes, sizeof s->req.id);
        tr_output_drop(s->text, sizeof s->req.id);
        s->req.force = true;
        tr_hs_ask(s, s->each.op, one_done);
    } else if (s->req.cursor.more) {
        list(s);
    } else {
        s->each.end(s);
    }
}

void tr_hs_each(struct tr_hs *s, struct tr_hs_each each)
{
    s->each = each;
    if (tr_hs_begin_text(s)) {
        tr_output_cut(s->text, tr_output_len(s->text)); /* the bracket of an array */
        list(s);
    }
}
