/*
 * From names to what the queue understands.
 *
 * A topic that is there is found and used by its number; it is held only while that is needed for
 * it to exist. If it goes between the two, the queue says so, and the request is tried again with
 * a hold.
 */

#include "base/err.h"
#include "proto/http_inner.h"

void tr_hs_find_topic(struct tr_hs *s, struct tr_http_text name, tr_hs_step_fn *then)
{
    s->req.name = name.at;
    s->req.name_len = name.len;
    tr_hs_ask(s, TR_OP_FIND_TOPIC, then);
}

void tr_hs_hold_topic(struct tr_hs *s, struct tr_http_text name, tr_hs_step_fn *then)
{
    s->req.name = name.at;
    s->req.name_len = name.len;
    s->req.hold = TR_HOLD_USE;
    tr_hs_ask(s, TR_OP_HOLD_TOPIC, then);
}

static void let_go_done(struct tr_hs *s)
{
    s->next = s->after;
    s->after = NULL;
}

void tr_hs_let_go(struct tr_hs *s)
{
    s->holding = false;
    s->req.topic = s->topic;
    s->req.hold = TR_HOLD_USE;
    tr_hs_ask(s, TR_OP_DROP_TOPIC, let_go_done);
}

static void now_known(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    s->number = s->req.out.stat.now_us;
    s->next = s->act;
}

void tr_hs_ask_now(struct tr_hs *s, tr_hs_step_fn *act)
{
    s->act = act;
    tr_hs_ask(s, TR_OP_STAT, now_known);
}

static void topic_found(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    s->req.topic = s->req.out.topic;
    s->req.key = s->match.key.at;
    s->req.key_len = s->match.key.len;
    s->next = s->act;
}

/* Whose topic is it? */
static void topic_known(struct tr_hs *s)
{
    const struct tr_job_view *job = &s->req.out.job;

    if (s->req.out.status == TARRY_OK && !tr_hs_may(s, job->topic_name, job->topic_name_len)) {
        s->req.out.status = TARRY_ENOTFOUND;
    }
    if (s->req.out.status == TARRY_OK) {
        s->next = s->act;
    } else {
        tr_hs_fail(s);
    }
}

void tr_hs_name_job(struct tr_hs *s, tr_hs_step_fn *act)
{
    s->act = act;
    if (s->match.key.at != NULL) {
        tr_hs_find_topic(s, s->match.topic, topic_found);
        return;
    }
    s->req.id = s->match.id;
    if (s->req.id == 0) { /* no job ever had such a number */
        s->req.out.status = TARRY_ENOTFOUND;
        tr_hs_fail(s);
    } else if (tr_auth_narrow(s->pass.who)) {
        tr_hs_ask(s, TR_OP_STAT_JOB, topic_known);
    } else {
        act(s);
    }
}
