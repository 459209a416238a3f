/*
 * What the consumer who has a job may do with it: finish it, give it back, bury it, or go on for
 * longer. It is his as long as his lease is the one under which the job is reserved; what is no
 * lease of ours is a lease that was lost, so the answer is true whether the job is there or not.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#define NO_LEASE UINT64_MAX /* that the queue never gives */

struct tr_http_error tr_hs_lease_error(int err, enum tr_job_state state)
{
    struct tr_http_error e = tr_shape_error(err, state);

    if (err == TARRY_ESTATE) {
        e.code = "lease_lost";
        e.message = "the lease is not valid any more: the job is not yours";
    }
    return e;
}

uint64_t tr_hs_lease(const struct tr_hs *s, struct tr_http_text text, uint64_t id)
{
    uint64_t lease = tr_lease_read(text, s->port->lease_key, id);

    return lease != 0 ? lease : NO_LEASE;
}

static void fail(struct tr_hs *s)
{
    struct tr_http_error e = tr_hs_lease_error(s->req.out.status, s->req.out.job.state);

    tr_shape_explain(&e, &s->req);
    tr_hs_refuse(s, &e);
}

/* Names the lease, and asks. */
static void ask(struct tr_hs *s, enum tr_op op, tr_hs_step_fn *then)
{
    s->req.lease = tr_hs_lease(s, s->args.values[TR_ARG_LEASE].text, s->match.id);
    tr_hs_ask(s, op, then);
}

static void acked(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "acked");
    tr_json_bool(&r.json, true);
    tr_json_name(&r.json, "id");
    tr_json_id(&r.json, s->req.id);
    tr_hs_close(s, &r);
}

static void ack(struct tr_hs *s)
{
    ask(s, TR_OP_DELETE, acked);
}

void tr_hs_ack(struct tr_hs *s)
{
    tr_hs_name_job(s, ack);
}

static void changed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_hs_job(s, 200, (struct tr_shape){0});
    } else {
        fail(s);
    }
}

static void release(struct tr_hs *s)
{
    s->req.by_backoff = !tr_hs_given(s, TR_ARG_DELAY);
    s->req.delay_us = tr_hs_number(s, TR_ARG_DELAY, 0);
    s->req.keep_priority = !tr_hs_given(s, TR_ARG_PRIORITY);
    s->req.priority = (uint32_t)tr_hs_number(s, TR_ARG_PRIORITY, 0);
    ask(s, TR_OP_RELEASE, changed);
}

void tr_hs_release(struct tr_hs *s)
{
    tr_hs_name_job(s, release);
}

/* By force it is a job that nobody has: what is wrong then is its state, not a lease. */
static void buried(struct tr_hs *s)
{
    struct tr_http_error e = tr_shape_error(s->req.out.status, s->req.out.job.state);

    if (s->req.out.status == TARRY_OK) {
        tr_hs_job(s, 200, (struct tr_shape){0});
    } else {
        tr_hs_refuse(s, &e);
    }
}

static void bury(struct tr_hs *s)
{
    struct tr_http_error e;

    s->req.keep_priority = true;
    s->req.force = tr_hs_number(s, TR_ARG_FORCE, 0) != 0;
    if (s->req.force) {
        tr_hs_ask(s, TR_OP_BURY, buried);
    } else if (tr_args_check(&s->args, TR_ARGS_LEASE, &e) != TARRY_OK) {
        tr_hs_refuse(s, &e);
    } else {
        ask(s, TR_OP_BURY, changed);
    }
}

void tr_hs_bury(struct tr_hs *s)
{
    tr_hs_name_job(s, bury);
}

static void touched(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_hs_job(s, 200, (struct tr_shape){.lease_key = s->port->lease_key});
    } else {
        fail(s);
    }
}

static void touch(struct tr_hs *s)
{
    ask(s, TR_OP_TOUCH, touched);
}

void tr_hs_touch(struct tr_hs *s)
{
    tr_hs_name_job(s, touch);
}
