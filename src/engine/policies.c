/*
 * Policies of topics.
 *
 *     TR_OP_POLICY --> what is given now, changed --> POLICY record, all of it --> topic->policy
 *
 * A record has the whole policy, so that the newest one is right whatever came before, and the
 * checkpoint has it as the same bytes. A topic without one has no memory for it; what is set back
 * to its default leaves nothing behind, and the topic may go. Unless it is to be kept (over HTTP):
 * then that is a part of its policy, and outlives a restart.
 *
 * Pauses. `in` is asked for at each push; `out` is a flag of the topic, beside the pause of the
 * beanstalk port (which is not logged, and by the boot clock): either of them holds hand-outs back.
 * One that ends does so by a timer on T; if the clock is set back after that, it stays over until
 * the next start. Nothing follows from the end of one for `in`, but it is a stop of a test clock:
 * schedules that it held are tried then.
 *
 * Quotas. A push that makes a new job is counted against max_jobs, dead jobs included: they take
 * as much room as others, and a consumer that buries everything would get around the limit. Bytes
 * are those of the bodies of all live jobs; see state.c for how exact that is. What makes them
 * fewer, or leaves them, is never refused.
 *
 * A purge gives the topic another number. In the same batch the new number gets its name and the
 * policy, so a crash leaves all of it or nothing.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

static int apply(struct tr_engine *e, struct tr_topic *t, struct tr_record *rec)
{
    struct tr_job *none;

    rec->type = TR_REC_POLICY;
    rec->topic = t->number;
    return tr_state_apply(&e->state, rec, e->log.open.no, &none);
}

/* ---- what is in force ---- */

static bool lasts(const struct tr_engine *e, const struct tr_policy *p)
{
    return p->paused_until_us == 0 || p->paused_until_us > e->clock.t_us;
}

/* The topic's policy is another one. */
static void enforce(struct tr_engine *e, struct tr_topic *t)
{
    const struct tr_policy *p = tr_topic_policy(t);
    bool was = t->stopped;

    tr_wheel_disarm(&e->resumes, &t->resume);
    t->stopped = (p->paused & TR_PAUSED_OUT) != 0 && lasts(e, p);
    if (p->paused != 0 && lasts(e, p) && p->paused_until_us != 0) {
        tr_wheel_arm(&e->resumes, &t->resume, p->paused_until_us);
    }
    if (was && !t->stopped) {
        tr_handout_mark(e, t);
    }
}

void tr_policies_begin(struct tr_engine *e)
{
    const struct tr_list *all = &e->state.topics.all;

    for (struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        if (t->policy != NULL) {
            enforce(e, t);
        }
    }
}

void tr_policies_step(struct tr_engine *e)
{
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->resumes, e->clock.t_us, &e->work)) != NULL) {
        struct tr_topic *t = TR_CONTAINER_OF(timer, struct tr_topic, resume);

        t->stopped = TR_MUTANT(STOPPED_FOR_EVER);
        tr_handout_mark(e, t);
    }
}

void tr_policies_end(struct tr_engine *e, struct tr_topic *t)
{
    tr_wheel_disarm(&e->resumes, &t->resume);
    t->stopped = false;
}

int tr_policies_admit(const struct tr_engine *e, const struct tr_topic *t, bool fresh)
{
    const struct tr_policy *p = tr_topic_policy(t);

    if ((p->paused & TR_PAUSED_IN) != 0 && lasts(e, p) && !TR_MUTANT(PAUSED_IN_IGNORED)) {
        return TARRY_EPAUSED;
    }
    return fresh && t->jobs >= p->max_jobs ? TARRY_EQUOTA : TARRY_OK;
}

int tr_policies_admit_bytes(const struct tr_topic *t, uint64_t more, uint64_t less)
{
    uint64_t rest = t->bytes > less ? t->bytes - less : 0;
    uint64_t max = tr_topic_policy(t)->max_bytes;

    return more > less && (rest > max || more > max - rest) ? TARRY_EQUOTA : TARRY_OK;
}

uint64_t tr_policies_jitter(struct tr_engine *e, const struct tr_topic *t)
{
    uint64_t most = tr_topic_policy(t)->jitter_us;

    if (most == 0) {
        return 0;
    }
    return TR_MUTANT(JITTER_EARLY) ? UINT64_MAX : tr_rng_below(&e->rng, most + 1);
}

static void log_it(struct tr_engine *e, struct tr_topic *t, const struct tr_record *rec)
{
    tr_change_log_topic(e, t);
    tr_log_append(&e->log, rec, tr_engine_base(e), true);
    tr_engine_touch_log(e);
}

/* ---- a change ---- */

/* What has to be there for a policy of so many bytes. TARRY_EFULL: not yet. */
static int make_room(struct tr_engine *e, const struct tr_topic *t, size_t len)
{
    size_t row = TR_CHECKPOINT_POLICY_HEAD + len;

    if (row > t->policy_row) {
        if (!tr_mem_spare(e->mem, sizeof(struct tr_policy) + len)) {
            return TARRY_ENOMEM;
        }
        if (!tr_meta_policy_room(e, row)) {
            e->refusing = true;
            return tr_space_hope(e) ? TARRY_EFULL : TARRY_ENOSPC;
        }
    }
    return tr_log_reserve(&e->log, len + (size_t)2 * TR_RECORD_HEAD_MAX, 2);
}

static int change(struct tr_engine *e, struct tr_topic *t, const struct tr_req *r)
{
    struct tr_policy next = *tr_topic_policy(t);
    uint8_t bytes[TR_POLICY_BYTES_MAX];
    uint8_t now[TR_POLICY_BYTES_MAX];
    struct tr_record rec = {.body = {bytes, 0}};
    size_t now_len = tr_policy_encode(now, &next);
    bool delivered = next.deliver_len > 0;
    int err;

    if (r->policy == NULL || (r->fields & ~TR_POLICY_ALL) != 0) {
        return TARRY_EINVAL;
    }
    tr_policy_change(&next, r->policy, r->fields);
    next.given |= r->keep_topic ? TR_POLICY_BIT(KEPT) : 0;
    if (!tr_policy_ok(&next)) {
        return TARRY_EINVAL;
    }
    rec.body.len = tr_policy_encode(bytes, &next);
    if (rec.body.len == now_len && memcmp(bytes, now, now_len) == 0) {
        return TARRY_OK;
    }
    err = make_room(e, t, rec.body.len);
    if (err == TARRY_OK) {
        err = apply(e, t, &rec);
    }
    if (err == TARRY_OK) {
        log_it(e, t, &rec);
        enforce(e, t);
        tr_occur_changed(e);
        tr_limit_changed(e, t);
        tr_drop_changed(e, t);
        if (e->config.outlet != NULL && (delivered || next.deliver_len > 0)) {
            e->config.outlet(e->config.ctx, t->handle);
        }
    }
    return err;
}

enum tr_verdict tr_policies_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    uint32_t handle = r->topic;
    enum tr_verdict verdict;
    int err;

    if (t == NULL) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    if (t->parked && !tr_park_counted(e)) {
        return TR_STALL; /* what the answer needs comes first: then it cannot fail any more */
    }
    err = change(e, t, r);
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    if (r->forget) {
        tr_topic_let_go(t);
    } else if (r->keep_topic) {
        tr_change_keep_topic(e, t);
    }
    verdict = tr_view_topic(e, r);
    t = tr_topics_by_handle(&e->state.topics, handle); /* `done` may have let it go */
    if (t != NULL) {
        tr_change_drop_topic(e, t);
    }
    return verdict;
}

/* ---- a purge ---- */

size_t tr_policies_log_bytes(const struct tr_topic *t)
{
    return t->policy != NULL ? t->policy_row + (size_t)2 * TR_RECORD_HEAD_MAX : 0;
}

int tr_policies_inherit(struct tr_engine *e, const struct tr_topic *t, struct tr_topic *heir)
{
    uint8_t bytes[TR_POLICY_BYTES_MAX];
    struct tr_record rec = {.body = {bytes, 0}};
    int err;

    if (t->policy == NULL) {
        return TARRY_OK;
    }
    rec.body.len = tr_policy_encode(bytes, t->policy);
    err = apply(e, heir, &rec);
    if (err == TARRY_OK) {
        enforce(e, heir);
    }
    if (err == TARRY_OK && !TR_MUTANT(POLICY_LOST_IN_PURGE)) {
        log_it(e, heir, &rec);
    }
    return err;
}
