/*
 * Answers, one function for each request: was it allowed to be this, and what does it change?
 *
 * Answers are queued while the engine is in a call and judged when it has returned, in the order in
 * which they came. What is only valid inside `done` (bodies, names) is hashed there.
 *
 * Gates. With sync = always an answer is told when its gate is durable. A change must be in the
 * batch of its gate: that is the open one, or one that was closed in this very call and whose
 * snapshot shows the change. An observation must wait for the last gated change of what it looked
 * at, a hand-out for that of its job. So whatever is told can not be taken back by a crash, as long
 * as recovery gives a batch that is not before the durable one; prefix.c sees to that.
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>
#include <string.h>

static const char *const op_names[TR_OP_COUNT] = {
    [TR_OP_PUSH] = "push",
    [TR_OP_RESERVE] = "reserve",
    [TR_OP_RESERVE_JOB] = "reserve-job",
    [TR_OP_DELETE] = "delete",
    [TR_OP_RELEASE] = "release",
    [TR_OP_RETURN] = "return",
    [TR_OP_BURY] = "bury",
    [TR_OP_TOUCH] = "touch",
    [TR_OP_KICK] = "kick",
    [TR_OP_KICK_JOB] = "kick-job",
    [TR_OP_FIRE] = "fire",
    [TR_OP_EDIT] = "edit",
    [TR_OP_PAUSE] = "pause",
    [TR_OP_PEEK] = "peek",
    [TR_OP_PEEK_FIRST] = "peek-first",
    [TR_OP_STAT_JOB] = "stat-job",
    [TR_OP_STAT_TOPIC] = "stat-topic",
    [TR_OP_STAT] = "stat",
    [TR_OP_FORECAST] = "forecast",
    [TR_OP_HOLD_TOPIC] = "hold-topic",
    [TR_OP_FIND_TOPIC] = "find-topic",
    [TR_OP_DROP_TOPIC] = "drop-topic",
    [TR_OP_NEXT_TOPIC] = "next-topic",
    [TR_OP_CLOSE] = "close",
    [TR_OP_LIST] = "list",
    [TR_OP_PURGE] = "purge",
    [TR_OP_BULK] = "bulk",
    [TR_OP_POLICY] = "policy",
    [TR_OP_ADVANCE] = "advance",
    [TR_OP_HISTORY] = "history",
};

const char *sim_op_name(enum tr_op op)
{
    return op_names[op];
}

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static bool strict(const struct sim_oracle *o)
{
    return o->params->sync == TR_SYNC_ALWAYS;
}

/* True when the request was executed in the call in which it was submitted. */
static bool at_once(const struct sim_oracle *o, const struct sim_ask *a)
{
    return a->submit_call == o->model.call;
}

/* ---- Gates. */

/* The snapshot of the batch that holds the change, if it is closed already, must show it. */
static bool snapshot_shows(const struct sim_rows *snap, const struct sim_job *j)
{
    const struct sim_row *row = sim_rows_find(snap, j->id);

    if (j->where == SIM_GONE) {
        return row == NULL;
    }
    if (row != NULL && row->unread) {
        return row->due_us == j->due_us;
    }
    return row != NULL && row->due_us == j->due_us && row->priority == j->priority &&
           row->releases == j->releases && row->buries == j->buries && row->kicks == j->kicks &&
           row->ttr_us == j->ttr_us && row->body_len == j->body.len &&
           sim_extra_same(&row->extra, &j->extra);
}

void sim_answer_change(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    uint64_t gate = a->req.out.gate;
    const struct sim_rows *snap;

    o->model.topics[j->topic].changed_call = o->model.call;
    if (!strict(o)) {
        return;
    }
    j->gate = gate;
    sim_oracle_changed(o, j->topic, gate);
    if (gate <= o->call_closed) {
        FAIL("I22",
             "%s of job %" PRIu64 " is told with batch %" PRIu64 ", but it is in a later one",
             sim_op_name(a->req.op), j->id, gate);
    } else if (gate > a->closed + 1) {
        FAIL("I22", "%s of job %" PRIu64 " waits for batch %" PRIu64 ", newer than the open one",
             sim_op_name(a->req.op), j->id, gate);
    }
    snap = gate <= a->closed ? sim_prefix_find(&o->prefix, gate) : NULL;
    if (snap != NULL && !snapshot_shows(snap, j)) {
        FAIL("I22", "%s of job %" PRIu64 " is not in batch %" PRIu64 ", its gate",
             sim_op_name(a->req.op), j->id, gate);
    }
}

/* The answer shows what was changed last in batch `need`. */
void sim_answer_seen(struct sim_oracle *o, const struct sim_ask *a, uint64_t need)
{
    if (strict(o) && need > o->durable && a->req.out.gate < need) {
        FAIL("I22",
             "the answer to %s (%s) is told with batch %" PRIu64 ", but shows what is in %" PRIu64,
             sim_op_name(a->req.op), tarry_errname(a->req.out.status), a->req.out.gate, need);
    }
}

/* ---- Parts of answers. */

void sim_answer_state(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j,
                      enum tr_job_state state)
{
    bool ok;

    switch (state) {
    case TR_DELAYED:
        ok = sim_job_may_be_pending(&o->model, j) && !sim_job_is_ready(j);
        break;
    case TR_READY:
        ok = sim_job_may_be_ready(&o->model, j);
        break;
    case TR_RESERVED:
        ok = sim_job_may_be_reserved(j) || sim_oracle_limbo(o, j->topic);
        break;
    case TR_DEAD:
        ok = j->where == SIM_DEAD || j->damaged || /* what cannot be read is put aside */
             sim_fate_may_be_dead(&o->model, j);
        break;
    default:
        ok = false;
    }
    if (o->model.topics[j->topic].kicking != 0 ||
        o->model.topics[j->topic].kick_call == o->model.call) {
        ok = true; /* kicked a moment ago, and gone before anybody could see it */
    }
    if (!ok) {
        FAIL("I16", "%s says that job %" PRIu64 " is in state %d, the model has it in %d",
             sim_op_name(a->req.op), j->id, (int)state, (int)j->where);
    }
}

/* A kick under way may have reached the job before the answer was made. */
static void adopt_kick(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j)
{
    const struct tr_job_view *v = &a->req.out.job;
    const struct sim_topic *t = &o->model.topics[j->topic];

    if (v->kicks == j->kicks + 1 && (t->kicking != 0 || t->kick_call == o->model.call)) {
        if (j->where == SIM_RESERVED) {
            sim_job_expire(&o->model, j, !j->doubt);
        }
        j->kicks++;
        sim_fate_kicked(j, false);
        sim_job_woken(&o->model, j, v->due_us);
    }
}

/* Somebody is getting it by its id, and waits for its body: it is due now. */
bool sim_answer_is_being_reserved(const struct sim_oracle *o, const struct sim_job *j)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        const struct sim_ask *a = &o->asks[i];

        if (a->pending && a->req.op == TR_OP_RESERVE_JOB && a->req.id == j->id) {
            return true;
        }
    }
    return false;
}

/* How late it was stays so until it is due another time, or there is a crash. */
static void check_late(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j)
{
    const struct tr_job_view *v = &a->req.out.job;
    bool same = j->late_start >= o->crash && j->late_due_us == v->due_us;
    struct tr_engine_stat stat;

    if ((v->state != TR_READY && v->state != TR_RESERVED) || a->req.op == TR_OP_LIST) {
        return; /* a list may tell of one that is due, but still far */
    }
    tr_engine_stat(o->engine, &stat);
    if (same && v->late_us > j->late_us && stat.clock_steps == 0 && !o->clock_doubt &&
        o->params->near_max >= 1000000) {
        FAIL("I7", "%s says that job %" PRIu64 " was %" PRIu64 " us late, but it was %" PRIu64,
             sim_op_name(a->req.op), j->id, v->late_us, j->late_us);
    }
    j->late_us = v->late_us;
    j->late_due_us = v->due_us <= o->model.now.wall_us ? v->due_us : 0; /* 0: the clock went back */
    j->late_start = o->starts;
}

void sim_answer_fields(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j)
{
    const struct tr_job_view *v = &a->req.out.job;
    const char *what = NULL;
    bool taken; /* back when its lease ran out, and with another client, who is not told yet */

    adopt_kick(o, a, j);
    taken = v->state == TR_RESERVED &&
            (sim_answer_is_being_reserved(o, j) ||
             (v->timeouts == j->timeouts + 1 && sim_oracle_limbo(o, j->topic)));
    sim_fate_adopt(&o->model, j, v);
    if (j->kick_call == o->model.call && v->kicks + 1 == j->kicks) {
        return; /* it was seen before a kick of the same call took it */
    }
    if (j->kick_call == o->model.call && v->kicks == j->kicks) {
        j->due_us = v->due_us; /* after the kick, before another change of the same call */
    }
    if (v->id != j->id) {
        what = "id";
    } else if (o->model.topics[j->topic].number != 0 &&
               v->topic != o->model.topics[j->topic].number) {
        what = "topic";
    } else if (v->priority != j->priority) {
        what = "priority";
    } else if (v->due_us != j->due_us && !taken) {
        what = "due";
    } else if (v->ttr_us != sim_job_ttr(j)) {
        what = "ttr";
    } else if (!sim_extra_same(&a->job_extra, &j->extra)) {
        what = "tag, ttl, retries, backoff or port";
    } else if (v->delay_us != j->delay_us && !taken) {
        what = "delay";
    } else if (v->created_us != j->created_us) {
        what = "created";
    } else if (v->body_len != j->body.len) {
        what = "body length";
    } else if (v->releases != j->releases || v->buries != j->buries || v->kicks != j->kicks) {
        what = "counters";
    } else if (v->reserves != j->reserves &&
               !(v->reserves == j->reserves + 1 && (j->damaged || sim_oracle_limbo(o, j->topic))) &&
               !(v->reserves + 1 == j->reserves && j->damaged)) {
        what = "reserves";
    } else if (a->job_key != j->key) {
        what = "key";
    }
    check_late(o, a, j);
    if (what != NULL) {
        FAIL("I7", "%s gives job %" PRIu64 " (%" PRIu64 ") with a wrong %s", sim_op_name(a->req.op),
             v->id, j->id, what);
    }
}

static void check_body(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j)
{
    if (!a->has_body && j->body.len > 0) {
        FAIL("I7", "%s gives job %" PRIu64 " without its body", sim_op_name(a->req.op), j->id);
    } else if (j->body.len > 0 && a->body_hash != j->body.hash) {
        FAIL("I7", "%s gives job %" PRIu64 " with a wrong body", sim_op_name(a->req.op), j->id);
    }
}

struct sim_job *sim_answer_named(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_meant(o, a);

    if (j == NULL || j->where == SIM_GONE) {
        FAIL("I3", "%s of job %" PRIu64 " succeeded, but it is gone", sim_op_name(a->req.op),
             a->req.id);
        return NULL;
    }
    if (j->id != a->req.id) {
        FAIL("I17", "%s of key %u reached job %" PRIu64 ", not %" PRIu64, sim_op_name(a->req.op),
             a->key, a->req.id, j->id);
        return NULL;
    }
    return j;
}

static bool under_way(const struct sim_ask *a)
{
    return a->pending || a->answered;
}

/* Hand-outs that wait for a body, and so may hold a job of the topic that the model takes for
 * ready. */
static unsigned in_the_making(const struct sim_oracle *o, const struct sim_ask *but, unsigned topic)
{
    unsigned count = o->model.topics[topic].undoing;

    for (unsigned i = 0; o->reading && i < SIM_ASKS_MAX; i++) {
        const struct sim_ask *a = &o->asks[i];

        for (unsigned t = 0;
             a != but && under_way(a) && a->req.op == TR_OP_RESERVE && t < a->req.topic_count;
             t++) {
            count += a->topics[t] == topic;
        }
    }
    return count;
}

/* The same for a hand-out that names the job. */
static bool named_in_the_making(const struct sim_oracle *o, const struct sim_ask *but,
                                const struct sim_job *j)
{
    for (unsigned i = 0; o->reading && i < SIM_ASKS_MAX; i++) {
        const struct sim_ask *a = &o->asks[i];

        if (a != but && under_way(a) && a->req.op == TR_OP_RESERVE_JOB && a->req.id == j->id) {
            return true;
        }
    }
    return false;
}

bool sim_answer_in_the_making(const struct sim_oracle *o, const struct sim_ask *but,
                              const struct sim_job *j)
{
    return named_in_the_making(o, but, j) || in_the_making(o, but, j->topic) > 0;
}

/* How many jobs, certainly ready since before `call`, should have come before `than` (NULL: any).
 */
static void check_least(struct sim_oracle *o, const struct sim_ask *a, unsigned topic,
                        const struct sim_job *than)
{
    const struct sim_job *better = NULL;
    unsigned count = 0;

    if (o->model.topics[topic].undoing ||
        (a->req.op == TR_OP_RESERVE &&
         (sim_limit_may_hold(o, topic) || sim_topic_may_be_paused(&o->model, topic) ||
          o->model.topics[topic].resume_call > a->submit_call))) {
        return;
    }
    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j == than || j->topic != topic || !sim_job_is_ready(j) || j->damaged ||
            j->ready_call + a->nested > a->submit_call || named_in_the_making(o, a, j) ||
            sim_fate_may_be_dead(&o->model, j) || !sim_tag_fits(a, j)) {
            continue;
        }
        if (sim_check_parked(o, j)) {
            continue;
        }
        if (than == NULL || sim_job_before(j, than, a->req.order)) {
            better = j;
            count++;
        }
    }
    if (better == NULL || count <= in_the_making(o, a, topic)) {
        return;
    }
    if (than == NULL) {
        FAIL("I22", "%s found nothing (%s), but job %" PRIu64 " is ready", sim_op_name(a->req.op),
             tarry_errname(a->req.out.status), better->id);
    } else {
        FAIL("I9", "%s gives job %" PRIu64 ", but job %" PRIu64 " comes first",
             sim_op_name(a->req.op), than->id, better->id);
    }
}

/* ---- Requests that hand out. */

static void check_early(struct sim_oracle *o, const struct sim_job *j)
{
    uint64_t wall = o->model.now.wall_us;

    if (j->due_us > wall && !j->own_word) {
        FAIL("I2", "job %" PRIu64 " is handed out %" PRIu64 " us before it is due", j->id,
             j->due_us - wall);
    }
}

static void take_lease(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    struct sim_model *m = &o->model;
    const struct tr_job_view *v = &a->req.out.job;

    if (j->where == SIM_RESERVED) {
        sim_job_expire(m, j, !j->doubt);
        if (j->where == SIM_DEAD && a->req.op == TR_OP_RESERVE && !j->damaged) {
            FAIL("I3", "job %" PRIu64 " is handed out after its last attempt", j->id);
        }
    }
    if (a->req.op == TR_OP_RESERVE_JOB && v->due_us != j->due_us) {
        sim_job_woken(m, j, v->due_us);
        j->gate = a->req.out.gate;
    }
    if (j->damaged && v->reserves > 0) {
        j->reserves = v->reserves - 1; /* how often it was tried in vain is not told */
    }
    j->reserves++;
    sim_answer_fields(o, a, j);
    check_body(o, a, j);
    j->damaged = false;
    sim_answer_seen(o, a, j->gate);
    if (v->state != TR_RESERVED || v->lease == 0) {
        FAIL("I8", "job %" PRIu64 " is handed out in state %d with lease %" PRIu64, j->id,
             (int)v->state, v->lease);
    }
    if (!sim_model_new_lease(m, v->lease) && !(o->rotten && o->params->rot_manifest)) {
        FAIL("I25", "job %" PRIu64 " is handed out with lease %" PRIu64 " for the second time",
             j->id, v->lease);
    }
    sim_model_set_where(m, j, SIM_RESERVED);
    j->holder = a->req.holder;
    j->lease = v->lease;
    j->lease_ttr_us = a->req.holder == 0 && a->req.op == TR_OP_RESERVE && a->req.ttr_us != 0
                          ? a->req.ttr_us
                          : sim_job_ttr(j);
    j->last_lease = j->lease;
    j->last_ttr_us = j->lease_ttr_us;
    j->lease_lo_us = m->span_us + j->lease_ttr_us; /* from now, however slow the disk was */
    j->lease_hi_us = j->lease_lo_us;
    o->handouts++;
}

static void answer_reserve(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_model *m = &o->model;
    struct sim_job *j;
    bool asked_for = false;
    uint64_t gate = 0;

    if (a->req.out.status == TARRY_ESOON && !sim_check_may_warn(o, a)) {
        FAIL("I27", "client %u is warned, but no lease of its own ends", a->client);
    }
    if (a->req.out.status == TARRY_ETIMEOUT && sim_check_must_warn(o, a, 0)) {
        FAIL("I27", "client %u got nothing, but a lease of its own ends", a->client);
    }
    if (a->req.out.status == TARRY_ETIMEOUT || a->req.out.status == TARRY_ESOON) {
        if (a->req.out.status == TARRY_ETIMEOUT &&
            m->now.boot_us - a->submit_now.boot_us < a->req.wait_us) {
            FAIL("I22", "a reserve of %" PRIu64 " us timed out after %" PRIu64 " us",
                 a->req.wait_us, m->now.boot_us - a->submit_now.boot_us);
        }
        for (unsigned t = 0; t < a->req.topic_count; t++) {
            const struct sim_topic *topic = &m->topics[a->topics[t]];

            gate = topic->gate > gate ? topic->gate : gate;
            check_least(o, a, a->topics[t], NULL);
        }
        sim_answer_seen(o, a, gate);
        return;
    }
    j = sim_model_find(m, a->req.out.job.id);
    if (j != NULL) {
        adopt_kick(o, a, j);
    }
    if (j == NULL || !sim_job_may_be_pending(m, j)) {
        FAIL(j == NULL                  ? "I7"
             : j->where == SIM_RESERVED ? "I8"
                                        : "I3",
             "reserve gives job %" PRIu64 ", which is %s", a->req.out.job.id,
             j == NULL                  ? "unknown"
             : j->where == SIM_RESERVED ? "held by another"
             : j->where == SIM_DEAD     ? "dead"
                                        : "gone");
        return;
    }
    for (unsigned t = 0; t < a->req.topic_count; t++) {
        asked_for = asked_for || a->topics[t] == j->topic;
        check_least(o, a, a->topics[t], j);
    }
    if (!sim_tag_fits(a, j)) {
        FAIL("I9", "reserve gives job %" PRIu64 ", which has another tag", j->id);
    }
    if (!asked_for) {
        FAIL("I9", "reserve gives job %" PRIu64 " of a topic that was not asked for", j->id);
    }
    if (sim_topic_is_paused(m, j->topic) && m->topics[j->topic].pause_call < a->submit_call) {
        FAIL("I9", "reserve gives job %" PRIu64 " of a paused topic", j->id);
    }
    if (sim_topic_is_stopped(m, j->topic) && m->topics[j->topic].stop_call < a->submit_call) {
        FAIL("I9", "reserve gives job %" PRIu64 " of a topic that gives none", j->id);
    }
    check_early(o, j);
    sim_expiry_handed(o, j);
    sim_limit_handed(o, j);
    take_lease(o, a, j);
}

static void answer_reserve_job(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL) {
        return;
    }
    if (sim_job_is_reserved(&o->model, j)) {
        FAIL("I8", "reserve-job gives job %" PRIu64 ", which is held by another", j->id);
    }
    j->paid = false;
    take_lease(o, a, j);
    j->own_word = true;
}

/* ---- Requests about a job. */

bool sim_answer_holder(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    bool mine = j->where == SIM_RESERVED &&
                (a->req.holder != 0 ? a->req.holder == j->holder : a->req.lease == j->lease);

    if (!mine) {
        FAIL("I25", "%s of job %" PRIu64 " was accepted from one who does not hold it",
             sim_op_name(a->req.op), j->id);
    }
    return mine;
}

static void gone(struct sim_oracle *o, struct sim_job *j, uint32_t by)
{
    sim_history_gone(o, j, by);
    sim_model_set_where(&o->model, j, SIM_GONE);
}

static void answer_delete(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL) {
        return;
    }
    sim_answer_state(o, a, j, a->req.out.job.state);
    if (a->req.out.job.state == TR_RESERVED) {
        if (!a->req.force) {
            (void)sim_answer_holder(o, a, j);
        }
    } else if (a->req.lease != 0 && !a->req.force) {
        FAIL("I25", "delete of job %" PRIu64 " was accepted with a lost lease", j->id);
    }
    gone(o, j, a->req.actor);
    sim_answer_change(o, a, j);
}

void sim_answer_pending(struct sim_oracle *o, struct sim_job *j)
{
    sim_model_set_where(&o->model, j, SIM_PENDING);
    if (!o->clock_doubt && j->due_us <= o->model.now.wall_us) {
        j->ready_call = o->model.call;
    }
}

/* When a push, edit or release asks for it to be due; `got` is what the engine made of it. */
void sim_answer_due(struct sim_oracle *o, const struct sim_ask *a, uint64_t got)
{
    uint64_t from = a->submit_now.wall_us;
    uint64_t to = o->model.now.wall_us;
    uint64_t want = a->req.at_us != 0 ? a->req.at_us : from + a->req.delay_us;
    uint64_t later = a->req.op == TR_OP_PUSH ? o->model.topics[a->topic].policy.p.jitter_us : 0;

    /* In the past means now, and now is when it took effect. */
    bool now = got >= to && got - to <= later &&
               (got > want || (a->req.at_us == 0 && a->req.delay_us == 0));
    bool ok = (got >= want && got - want <= later) || now || (o->clock_doubt && got < to + later);
    if (!ok) {
        FAIL("I4", "%s at %" PRIu64 " (delay %" PRIu64 ", at %" PRIu64 ") is due at %" PRIu64,
             sim_op_name(a->req.op), from, a->req.delay_us, a->req.at_us, got);
    }
}

static void answer_touch(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j != NULL && sim_answer_holder(o, a, j)) {
        if (j->holder != 0) {
            j->lease_ttr_us = sim_job_ttr(j);
        } else if (a->req.ttr_us != 0) {
            j->lease_ttr_us = a->req.ttr_us;
        } else if (j->lease_ttr_us == 0) {
            j->lease_ttr_us = a->req.out.job.left_us; /* an old lease, found by a recovery */
        }
        j->last_ttr_us = j->lease_ttr_us;
        j->lease_lo_us = j->lease_ttr_us + a->submit_span_us;
        j->lease_hi_us = j->lease_ttr_us + o->model.span_us;
    }
}

static void come_now(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j, bool kick)
{
    if (sim_job_is_reserved(&o->model, j)) {
        FAIL("I8", "%s of job %" PRIu64 " succeeded while it was reserved", sim_op_name(a->req.op),
             j->id);
    }
    if (j->where == SIM_RESERVED) {
        sim_job_expire(&o->model, j, !j->doubt);
    }
    j->due_us = a->req.out.job.due_us;
    j->kicks += kick;
    sim_fate_adopt(&o->model, j, &a->req.out.job);
    if (kick) {
        sim_fate_kicked(j, a->req.beanstalk);
    }
    j->own_word = true;
    if (at_once(o, a) && j->due_us > o->model.now.wall_us) {
        FAIL("I2", "%s makes job %" PRIu64 " due in the future", sim_op_name(a->req.op), j->id);
    }
    sim_answer_pending(o, j);
    sim_answer_change(o, a, j);
}

static void answer_kick_job(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j != NULL) {
        come_now(o, a, j, true);
    }
}

static void answer_fire(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL) {
        return;
    }
    if (j->where == SIM_DEAD) {
        FAIL("I6", "fire of job %" PRIu64 " succeeded, but it is dead", j->id);
    }
    come_now(o, a, j, false);
}

static void answer_edit(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);
    const struct tr_job_view *v = &a->req.out.job;

    if (j == NULL) {
        return;
    }
    if (j->where == SIM_DEAD || sim_job_is_reserved(&o->model, j)) {
        FAIL("I5", "edit of job %" PRIu64 " succeeded, but it is %s", j->id,
             j->where == SIM_DEAD ? "dead" : "reserved");
    }
    if (j->where == SIM_RESERVED) {
        sim_job_expire(&o->model, j, !j->doubt);
    }
    if (a->req.edit & TR_EDIT_DUE) {
        sim_answer_due(o, a, v->due_us);
        j->due_us = v->due_us;
        j->delay_us = v->delay_us;
        j->own_word = false;
        sim_answer_pending(o, j);
    }
    if (a->req.edit & TR_EDIT_PRIORITY) {
        j->priority = a->req.priority;
        j->ready_call = j->ready_call != 0 ? o->model.call : 0; /* another place in the order */
    }
    if (a->req.edit & TR_EDIT_TTR) {
        j->ttr_us = a->req.ttr_us;
    }
    if (a->req.edit & TR_EDIT_TTL) {
        j->extra.ttl_us = a->req.ttl_us;
    }
    if (a->req.edit & TR_EDIT_TAG) {
        j->extra.tag = sim_extra_of_push(&a->req).tag;
    }
    if (a->req.edit & TR_EDIT_BODY) {
        sim_answer_fits(o, a, j);
        j->body = (struct sim_body){.seed = a->body_seed, .len = (uint32_t)a->req.body_len};
        j->body.hash = sim_body_hash(a->req.body, j->body.len);
    }
    sim_answer_fields(o, a, j);
    if (a->req.edit != 0) {
        sim_answer_change(o, a, j);
    }
}

/* ---- Requests that look. */

static void answer_peek(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL) {
        return;
    }
    sim_answer_state(o, a, j, a->req.out.job.state);
    sim_answer_fields(o, a, j);
    if (a->req.op == TR_OP_PEEK) {
        check_body(o, a, j);
    }
    sim_answer_seen(o, a, j->gate);
}

/* It took several calls, but the job was there all the time. */
bool sim_answer_is_steady(const struct sim_oracle *o, const struct sim_ask *a,
                          const struct sim_job *j, bool dead)
{
    const struct sim_topic *t = &o->model.topics[a->topic];

    return !dead && o->queued == 1 && t->kicking == 0 && t->kick_call < a->submit_call &&
           j->same_call != 0 && j->same_call < a->submit_call && j->same_where == j->where &&
           j->same_due_us == j->due_us && j->due_us > a->wall_max_us;
}

/* Jobs of the topic that are certainly in front of `than` (NULL: any) by due, or by burial. */
static void check_first_other(struct sim_oracle *o, const struct sim_ask *a,
                              const struct sim_job *than)
{
    bool dead = a->req.state == TR_DEAD;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];
        bool there = dead ? j->where == SIM_DEAD : sim_job_is_delayed(&o->model, j);
        bool before;

        if (j == than || j->topic != a->topic || !there || j->damaged || (j->hidden && !dead) ||
            sim_drop_may(&o->model, j)) {
            continue;
        }
        if (!(at_once(o, a) || sim_answer_is_steady(o, a, j, dead)) ||
            sim_answer_in_the_making(o, a, j)) {
            continue;
        }
        before =
            than == NULL || (dead ? j->dead_order < than->dead_order : sim_job_due_before(j, than));
        if (before) {
            FAIL("I29",
                 "peek-first of state %d gives job %" PRIu64 ", but job %" PRIu64 " comes first",
                 (int)a->req.state, than != NULL ? than->id : 0, j->id);
        }
    }
}

static void answer_peek_first(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_model_find(&o->model, a->req.out.job.id);

    if (a->req.out.status != TARRY_OK) {
        j = NULL;
    } else if (j == NULL || j->where == SIM_GONE || j->topic != a->topic) {
        FAIL("I3", "peek-first gives job %" PRIu64 ", which is not there", a->req.out.job.id);
        return;
    }
    if (a->req.state == TR_READY) {
        check_least(o, a, a->topic, j);
    } else {
        check_first_other(o, a, j);
    }
    if (j != NULL) {
        if (a->req.out.job.state != a->req.state && at_once(o, a)) {
            FAIL("I16", "peek-first of state %d gives job %" PRIu64 " in state %d",
                 (int)a->req.state, j->id, (int)a->req.out.job.state);
        }
        sim_answer_state(o, a, j, a->req.out.job.state);
        sim_answer_fields(o, a, j);
        check_body(o, a, j);
        sim_answer_seen(o, a, j->gate);
    } else {
        sim_answer_seen(o, a, o->model.topics[a->topic].gate);
    }
}

/* What it says was judged when it came. */
static void answer_forecast(struct sim_oracle *o, struct sim_ask *a)
{
    sim_answer_seen(o, a, a->req.topic == 0 ? o->model.gate : o->model.topics[a->topic].gate);
}

/* ---- Topics. */

static void check_topic_number(struct sim_oracle *o, struct sim_ask *a, struct sim_topic *t)
{
    uint32_t number = a->req.out.topic;

    if (number == 0 || (t->number != 0 && t->number != number)) {
        FAIL("I6", "%s: topic %s has number %" PRIu32 ", it was %" PRIu32, sim_op_name(a->req.op),
             t->name, number, t->number);
    }
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        if (&o->model.topics[i] != t && o->model.topics[i].number == number) {
            FAIL("I6", "%s: topics %s and %s have one number", sim_op_name(a->req.op), t->name,
                 o->model.topics[i].name);
        }
    }
    t->number = number;
}

bool sim_answer_topic_is_used(const struct sim_oracle *o, unsigned topic)
{
    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where != SIM_GONE && j->topic == topic && !sim_drop_may(&o->model, j)) {
            return true;
        }
    }
    return o->model.topics[topic].policy.p.given != 0 ||
           o->model.topics[topic].holds[TR_HOLD_USE] > 0 ||
           o->model.topics[topic].holds[TR_HOLD_WATCH] > 0;
}

void sim_answer_topic_gone(struct sim_oracle *o, unsigned topic)
{
    struct sim_topic *t = &o->model.topics[topic];

    if (sim_answer_topic_is_used(o, topic)) {
        return;
    }
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        const struct sim_ask *a = &o->asks[i];

        for (unsigned k = 0; a->pending && a->req.op == TR_OP_RESERVE && k < a->req.topic_count;
             k++) {
            if (a->topics[k] == topic && a->keeps[k]) {
                return; /* it is kept for the one who waits */
            }
        }
    }
    t->number = 0;
    t->pause_unsure = sim_topic_jobs(&o->model, topic) != 0; /* all of them may be gone, or none */
    t->pause_until_us = t->pause_unsure ? t->pause_until_us : 0;
}

static void answer_topic(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_topic *t = &o->model.topics[a->topic];

    switch (a->req.op) {
    case TR_OP_HOLD_TOPIC:
    case TR_OP_FIND_TOPIC:
        if (a->req.out.status != TARRY_OK) {
            if (sim_answer_topic_is_used(o, a->topic)) {
                FAIL("I3", "find-topic does not find %s", t->name);
            }
            t->number = 0;
            return;
        }
        sim_answer_topic_gone(o, a->topic);
        check_topic_number(o, a, t);
        if (a->name_topic != (int)a->topic) {
            FAIL("I7", "%s of %s gives another name", sim_op_name(a->req.op), t->name);
        }
        t->holds[a->req.hold] += a->req.op == TR_OP_HOLD_TOPIC;
        break;
    case TR_OP_DROP_TOPIC:
        t->holds[a->req.hold]--;
        break;
    default: /* NEXT_TOPIC */
        if (a->req.out.status == TARRY_OK && a->req.out.topic <= a->req.topic) {
            FAIL("I29", "next-topic after %" PRIu32 " gives %" PRIu32, a->req.topic,
                 a->req.out.topic);
        }
        if (a->req.out.status == TARRY_OK && a->name_topic < 0) {
            FAIL("I7", "next-topic gives an unknown name");
        }
        for (unsigned i = 0; i < o->model.topic_count; i++) {
            uint32_t number = o->model.topics[i].number;
            bool after = number > a->req.topic && sim_answer_topic_is_used(o, i);

            if (after && (a->req.out.status != TARRY_OK || number < a->req.out.topic)) {
                FAIL("I29", "next-topic after %" PRIu32 " leaves out %" PRIu32, a->req.topic,
                     number);
            }
        }
    }
}

static void answer_pause(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_topic *t = &o->model.topics[a->topic];

    t->pause_until_us = a->req.wait_us == 0 ? 0 : o->model.span_us + a->req.wait_us;
    t->pause_unsure = false;
    t->pause_call = o->model.call;
    t->resume_call = o->model.call;
}

static void answer_close(struct sim_oracle *o, struct sim_ask *a)
{
    for (size_t i = 0; i < o->model.job_count; i++) {
        struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_RESERVED && j->holder == a->req.holder) {
            sim_job_expire(&o->model, j, false);
        }
    }
}

typedef void answer_fn(struct sim_oracle *o, struct sim_ask *a);

static answer_fn *const answers[TR_OP_COUNT] = {
    [TR_OP_PUSH] = sim_answer_push,
    [TR_OP_RESERVE] = answer_reserve,
    [TR_OP_RESERVE_JOB] = answer_reserve_job,
    [TR_OP_DELETE] = answer_delete,
    [TR_OP_RELEASE] = sim_answer_release,
    [TR_OP_RETURN] = sim_answer_return,
    [TR_OP_BURY] = sim_answer_bury,
    [TR_OP_TOUCH] = answer_touch,
    [TR_OP_KICK] = sim_check_kick,
    [TR_OP_KICK_JOB] = answer_kick_job,
    [TR_OP_FIRE] = answer_fire,
    [TR_OP_EDIT] = answer_edit,
    [TR_OP_PAUSE] = answer_pause,
    [TR_OP_PEEK] = answer_peek,
    [TR_OP_PEEK_FIRST] = answer_peek_first,
    [TR_OP_STAT_JOB] = answer_peek,
    [TR_OP_STAT_TOPIC] = sim_answer_stat_topic,
    [TR_OP_STAT] = sim_answer_stat,
    [TR_OP_FORECAST] = answer_forecast,
    [TR_OP_HOLD_TOPIC] = answer_topic,
    [TR_OP_FIND_TOPIC] = answer_topic,
    [TR_OP_DROP_TOPIC] = answer_topic,
    [TR_OP_NEXT_TOPIC] = answer_topic,
    [TR_OP_CLOSE] = answer_close,
    [TR_OP_LIST] = sim_answer_list,
    [TR_OP_PURGE] = sim_answer_purge,
    [TR_OP_BULK] = sim_answer_bulk,
    [TR_OP_POLICY] = sim_answer_policy,
    [TR_OP_ADVANCE] = sim_answer_advance,
    [TR_OP_HISTORY] = sim_answer_history,
};

bool sim_ask_visits(const struct sim_ask *a)
{
    return a->req.op == TR_OP_KICK || a->req.op == TR_OP_PEEK_FIRST ||
           a->req.op == TR_OP_STAT_TOPIC || a->req.op == TR_OP_BULK;
}

void sim_answer(struct sim_oracle *o, struct sim_ask *a)
{
    o->visited_us = sim_ask_visits(a) ? o->model.now.boot_us : o->visited_us;
    answers[a->req.op](o, a);
}
