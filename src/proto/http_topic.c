/*
 * Topics: their figures and policies, all of them or one; setting a policy, pausing, deleting.
 *
 * A policy makes its topic; so does a pause, which is a part of it, and a push. It then stays, also
 * without a job and with a policy that says nothing, until it is deleted: that is done by taking
 * its policy away and purging its jobs, so that nothing is left of it.
 */

#include "base/err.h"
#include "proto/http_inner.h"

/* ---- one as it is told ---- */

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

static void rate(struct tr_json *j, const char *name, uint64_t milli)
{
    tr_json_name(j, name);
    tr_json_thousandths(j, milli);
}

void tr_hs_tell_topic(struct tr_hs *s, struct tr_json *j)
{
    const struct tr_topic_stat *stat = &s->req.out.stat;
    struct tr_outlet_view outlet;

    tr_json_name(j, "name");
    tr_json_string(j, s->req.out.name, s->req.out.name_len);
    number(j, "delayed", stat->delayed);
    number(j, "ready", stat->ready);
    number(j, "reserved", stat->reserved);
    number(j, "dead", stat->dead);
    number(j, "waiting", stat->waiting);
    if (stat->next_due_us != 0) {
        number(j, "next_due_ms", stat->next_due_us / 1000);
    }
    if (stat->oldest_ready_us != 0) {
        number(j, "oldest_ready_ms",
               stat->now_us > stat->oldest_ready_us ? (stat->now_us - stat->oldest_ready_us) / 1000
                                                    : 0);
    }
    rate(j, "pushed_per_s", stat->pushed_milli);
    rate(j, "handed_per_s", stat->handed_milli);
    number(j, "late_p50_ms", stat->late_p50_us / 1000);
    number(j, "late_p99_ms", stat->late_p99_us / 1000);
    if (stat->pause_left_us !=
        0) { /* beside the policy's: the beanstalk port's, which does not last */
        number(j, "tube_paused_ms", stat->pause_left_us / 1000);
    }
    if (stat->policy != NULL) {
        tr_json_name(j, "policy");
        tr_json_open(j, '{');
        tr_hs_tell_policy(j, stat->policy, stat->now_us);
        tr_json_close(j, '}');
    }
    if (stat->policy != NULL && stat->policy->deliver_len > 0 && s->port->outlet != NULL &&
        s->port->outlet(s->port->ctx, s->req.topic, &outlet)) {
        tr_hs_tell_outlet(j, &outlet);
    }
}

static void said(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_hs_tell_topic(s, &r.json);
    tr_hs_close(s, &r);
}

/* ---- looking ---- */

static void found(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    s->req.topic = s->req.out.topic;
    s->next = s->act;
}

static void with_topic(struct tr_hs *s, tr_hs_step_fn *act)
{
    s->act = act;
    tr_hs_find_topic(s, s->match.topic, found);
}

static void stat(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_STAT_TOPIC, said);
}

void tr_hs_topic(struct tr_hs *s)
{
    with_topic(s, stat);
}

/* ---- all of them, or a page ---- */

static void next_topic(struct tr_hs *s);

static void listed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) { /* else it went meanwhile */
        tr_json_open(&s->json, '{');
        tr_hs_tell_topic(s, &s->json);
        tr_json_close(&s->json, '}');
        s->number++;
    }
    s->next = next_topic;
}

static void stat_one(struct tr_hs *s)
{
    s->req.counts_only = false;
    tr_hs_ask(s, TR_OP_STAT_TOPIC, listed);
}

/* Its policy says whether it is told: what costs more is not asked for until then. */
static void looked(struct tr_hs *s)
{
    s->next = s->req.out.status == TARRY_OK && tr_hs_outlet_wanted(s) ? stat_one : next_topic;
}

static void look(struct tr_hs *s)
{
    s->req.counts_only = true;
    tr_hs_ask(s, TR_OP_STAT_TOPIC, looked);
}

/* A cursor is the number of the last topic that was told. */
static void end_list(struct tr_hs *s, bool more)
{
    struct tr_hs_reply r;

    if (!tr_hs_given(s, TR_ARG_PAGE)) {
        (void)tr_hs_tell_text(s, "topics", NULL);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_hs_end_text(s, &r, "topics");
    tr_json_name(&r.json, "cursor");
    if (more) {
        tr_json_id(&r.json, s->req.topic);
    } else {
        tr_json_null(&r.json);
    }
    tr_hs_close(s, &r);
}

static void came(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_ENOTFOUND) { /* that was the last one */
        end_list(s, false);
    } else if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else if (!tr_hs_topic_wanted(s)) {
        s->req.topic = s->req.out.topic;
        s->next = next_topic;
    } else if (s->number == tr_hs_number(s, TR_ARG_PAGE, UINT64_MAX)) {
        end_list(s, true);
    } else {
        s->req.topic = s->req.out.topic;
        s->next = tr_hs_given(s, TR_ARG_OUTLET) ? look : stat_one;
    }
}

static void next_topic(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_NEXT_TOPIC, came);
}

void tr_hs_topics(struct tr_hs *s)
{
    struct tr_http_text cursor = s->args.values[TR_ARG_CURSOR].text;
    uint64_t from = 0;

    if (tr_hs_given(s, TR_ARG_CURSOR) &&
        (!tr_id_read(cursor.at, cursor.len, &from) || from > UINT32_MAX)) {
        tr_hs_bad(s, TR_ARG_CURSOR, "is none that a page before gave");
        return;
    }
    if (tr_hs_given(s, TR_ARG_CURSOR) && tr_hs_given(s, TR_ARG_SORT)) {
        tr_hs_bad(s, TR_ARG_CURSOR, "does not go with sort: that gives the first page only");
        return;
    }
    s->req.topic = (uint32_t)from;
    if (tr_hs_given(s, TR_ARG_SORT)) {
        tr_hs_rank_topics(s);
    } else if (tr_hs_begin_text(s)) {
        next_topic(s);
    }
}

/* ---- changing ---- */

static void told(struct tr_hs *s)
{
    s->next = s->holding ? tr_hs_let_go : NULL;
    said(s);
}

static void look_again(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_STAT_TOPIC, told);
}

static void changed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        s->next = look_again;
    } else {
        told(s);
    }
}

static void change(struct tr_hs *s)
{
    s->req.topic = s->topic;
    s->req.policy = &s->policy;
    s->req.keep_topic = true;
    tr_hs_ask(s, TR_OP_POLICY, changed);
}

static void held(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    s->holding = true;
    s->topic = s->req.out.topic;
    s->next = change;
}

void tr_hs_topic_set(struct tr_hs *s)
{
    if (tr_hs_read_policy(s)) {
        tr_hs_hold_topic(s, s->match.topic, held);
    }
}

static void hold(struct tr_hs *s)
{
    if (tr_hs_given(s, TR_ARG_FOR)) {
        s->policy.paused_until_us = s->number + tr_hs_number(s, TR_ARG_FOR, 0);
    }
    tr_hs_hold_topic(s, s->match.topic, held);
}

void tr_hs_pause(struct tr_hs *s)
{
    static const unsigned whats[] = {TR_PAUSED_IN, TR_PAUSED_OUT, TR_PAUSED_IN | TR_PAUSED_OUT};

    s->policy = tr_policy_default();
    s->policy.given = TR_POLICY_BIT(PAUSED);
    s->policy.paused = whats[tr_hs_number(s, TR_ARG_WHAT, 1)];
    s->req.fields = TR_POLICY_BIT(PAUSED);
    if (tr_hs_given(s, TR_ARG_FOR)) {
        tr_hs_ask_now(s, hold);
    } else {
        hold(s);
    }
}

/* Whoever resumes a topic wants jobs, whichever port it was paused on. */
static void lift(struct tr_hs *s)
{
    s->req.wait_us = 0;
    s->req.force = true;
    tr_hs_ask(s, TR_OP_PAUSE, changed);
}

static void resumed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        s->next = lift;
    } else {
        told(s);
    }
}

static void resume(struct tr_hs *s)
{
    s->req.topic = s->topic;
    s->req.policy = &s->policy;
    s->req.keep_topic = true;
    tr_hs_ask(s, TR_OP_POLICY, resumed);
}

static void held_again(struct tr_hs *s)
{
    held(s);
    s->next = s->holding ? resume : s->next;
}

static void hold_found(struct tr_hs *s)
{
    tr_hs_hold_topic(s, s->match.topic, held_again);
}

/* It makes no topic. */
void tr_hs_resume(struct tr_hs *s)
{
    s->policy = tr_policy_default();
    s->req.fields = TR_POLICY_BIT(PAUSED);
    with_topic(s, hold_found);
}

/* ---- deleting ---- */

static bool failed(const struct tr_hs *s)
{
    return s->req.out.status != TARRY_OK && s->req.out.status != TARRY_ENOTFOUND;
}

static void deleted(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (failed(s)) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "deleted");
    tr_json_bool(&r.json, true);
    number(&r.json, "purged", s->number);
    tr_hs_close(s, &r);
}

static void forget_policy(struct tr_hs *s)
{
    s->policy = tr_policy_default();
    s->req.policy = &s->policy;
    s->req.fields = TR_POLICY_ALL;
    s->req.forget = true;
    tr_hs_ask(s, TR_OP_POLICY, deleted);
}

static void purged(struct tr_hs *s)
{
    if (failed(s)) {
        tr_hs_fail(s);
        return;
    }
    s->number = s->req.out.status == TARRY_OK ? s->req.out.number : 0;
    s->next = forget_policy;
}

/* First the jobs: a crash between the two leaves none without their policy. */
static void purge(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_PURGE, purged);
}

static void counted(struct tr_hs *s)
{
    const struct tr_topic_stat *stat_of = &s->req.out.stat;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    s->number = stat_of->delayed + stat_of->ready + stat_of->reserved + stat_of->dead;
    if (s->number > 0 && tr_hs_number(s, TR_ARG_FORCE, 0) == 0) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 409,
                                                .code = "not_empty",
                                                .message = "the topic has jobs: force=true "
                                                           "deletes them, too"});
        return;
    }
    s->next = s->number > 0 ? purge : forget_policy;
}

static void count(struct tr_hs *s)
{
    s->req.counts_only = true;
    tr_hs_ask(s, TR_OP_STAT_TOPIC, counted);
}

void tr_hs_topic_delete(struct tr_hs *s)
{
    with_topic(s, count);
}
