/*
 * The oracle around a call, and refusals.
 *
 *     begin -> engine call -> done, closed, durable ... -> end: judge the answers, look at memory
 *
 * A refusal changes nothing, so each needs a reason that the model agrees with: the job is gone,
 * is in another state or held by another, the disk or the memory is (or may be) short.
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static const uint64_t JUMP_US = 60000000; /* the engine believes a smaller step at once */
static const uint64_t DOUBT_US = 1000000; /* and a larger one after so long */

void sim_oracle_init(struct sim_oracle *o, struct sim_report *report)
{
    memset(o, 0, sizeof *o); /* too large for a copy on the stack */
    o->report = report;
    sim_prefix_init(&o->prefix, &o->model, report);
}

void sim_oracle_fini(struct sim_oracle *o)
{
    sim_prefix_fini(&o->prefix);
}

void sim_oracle_reset(struct sim_oracle *o, const struct sim_params *params, struct sim_disk *disk)
{
    size_t kept = offsetof(struct sim_oracle, params);

    memset((char *)o + kept, 0, sizeof(*o) - kept);
    sim_model_reset(&o->model, params->topics);
    sim_prefix_reset(&o->prefix);
    o->params = params;
    o->disk = disk;
    o->prefix.disk = disk;
    o->prefix.hour_us = params->hour_us;
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        o->asks[i].oracle = o;
    }
}

static void note(struct sim_oracle *o, uint64_t value)
{
    o->digest = (o->digest ^ value) * UINT64_C(1099511628211);
    o->digest ^= o->digest >> 32;
}

/* ---- Around a call. */

static bool reads_in_flight(const struct sim_oracle *o)
{
    return sim_disk_pending_lane(o->disk, TR_LANE_READ) > 0;
}

static void watch_clock(struct sim_oracle *o, struct tr_now now)
{
    uint64_t passed = now.boot_us - o->model.now.boot_us;
    uint64_t was = o->model.now.wall_us;

    if (o->params->test_clock) {
        o->model.wall_high_us = now.wall_us;
        return; /* it moves as it likes, and never back */
    }
    if (now.wall_us > was && now.wall_us - was > JUMP_US && now.wall_us - was > passed) {
        o->clock_doubt = true;
    }
    if (now.wall_us - was != passed) {
        o->clock_turned = false; /* it must stay where it is to be believed */
    }
    if (now.wall_us < was) {
        for (size_t i = 0; i < o->model.job_count; i++) {
            if (o->model.jobs[i].due_us > now.wall_us) {
                o->model.jobs[i].ready_call = 0;
                o->model.jobs[i].late_due_us = 0; /* it is delayed, and late anew */
            }
        }
    }
    if (now.wall_us > o->model.wall_high_us) {
        o->model.wall_high_us = now.wall_us;
    }
}

void sim_oracle_begin(struct sim_oracle *o, struct tr_now now)
{
    now = sim_tclock_now(o, now);
    watch_clock(o, now);
    o->model.now = now;
    o->model.call++;
    sim_drop_begin(&o->model);
    o->call_closed = o->closed;
    o->reading = reads_in_flight(o);
    o->was_failed = o->engine != NULL && tr_engine_failed(o->engine);
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        if (o->asks[i].pending && o->asks[i].wall_max_us < now.wall_us) {
            o->asks[i].wall_max_us = now.wall_us;
        }
    }
}

static void print_answer(const struct sim_ask *a, uint64_t call, FILE *out)
{
    const struct tr_req *q = &a->req;

    (void)fprintf(out, "%6" PRIu64 " client %u holder %" PRIu64 " %s id %" PRIu64 " lease %" PRIx64,
                  call, a->client, q->holder, sim_op_name(q->op), q->id, q->lease);
    (void)fprintf(out, " key %u mode %d", a->key, (int)q->conflict);
    (void)fprintf(out, " topic %u at %" PRIu64 " delay %" PRIu64 " wait %" PRIu64 " since %" PRIu64,
                  a->topic, q->at_us, q->delay_us, q->wait_us, a->submit_call);
    (void)fprintf(out,
                  ": %s gate %" PRIu64 " job %" PRIu64 " state %d pri %" PRIu32 " due %" PRIu64,
                  tarry_errname(q->out.status), q->out.gate, q->out.job.id, (int)q->out.job.state,
                  q->out.job.priority, q->out.job.due_us);
    (void)fprintf(out, " lease %" PRIx64 " number %" PRIu64 " (closed %" PRIu64 ")\n",
                  q->out.job.lease, q->out.number, a->closed);
}

void sim_oracle_print_last(const struct sim_oracle *o, FILE *out)
{
    uint64_t first = o->last_count > SIM_LAST_MAX ? o->last_count - SIM_LAST_MAX : 0;

    for (uint64_t i = first; i < o->last_count; i++) {
        print_answer(&o->last[i % SIM_LAST_MAX], o->last_call[i % SIM_LAST_MAX], out);
    }
}

static void judge(struct sim_oracle *o, struct sim_ask *a)
{
    const int status = a->req.out.status;
    bool looks = a->req.op == TR_OP_PEEK_FIRST || a->req.op == TR_OP_FIND_TOPIC ||
                 a->req.op == TR_OP_NEXT_TOPIC;

    o->last[o->last_count % SIM_LAST_MAX] = *a;
    o->last_call[o->last_count++ % SIM_LAST_MAX] = o->model.call;
    if (o->trace) {
        print_answer(a, o->model.call, stdout);
    }
    note(o, (uint64_t)a->req.op << 32 | (uint32_t)status);
    note(o, a->req.out.gate);
    note(o, a->req.out.job.id);
    note(o, a->req.out.job.due_us ^ a->req.out.job.lease);
    note(o, a->body_hash ^ a->job_key ^ a->job_extra.tag ^ a->job_extra.backoff);
    note(o, a->req.out.number ^ a->req.out.cursor.at ^ a->req.out.cursor.id);
    if (status == TARRY_OK && o->was_failed) {
        FAIL("I14", "%s succeeds after the log has failed", sim_op_name(a->req.op));
    } else if (status == TARRY_OK && a->wrong) {
        FAIL("I13", "%s succeeds, but makes no sense", sim_op_name(a->req.op));
    } else if (status == TARRY_OK ||
               ((status == TARRY_ETIMEOUT || status == TARRY_ESOON) &&
                a->req.op == TR_OP_RESERVE) ||
               (status == TARRY_ENOTFOUND && looks)) {
        sim_answer(o, a);
    } else {
        sim_answer_refused(o, a);
    }
    a->answered = false;
}

/* Marks the jobs whose pushes may now be told. */
static void tell(struct sim_oracle *o)
{
    for (size_t i = 0; i < o->model.job_count; i++) {
        struct sim_job *j = &o->model.jobs[i];

        if (!j->told && j->id != 0 && j->push_gate <= o->durable) {
            j->told = true;
            o->told++;
            o->id_told = j->id > o->id_told ? j->id : o->id_told;
        }
    }
}

/* A job that was in the making for a comes back, perhaps a little later. */
static void undone(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct sim_job *named = sim_model_find(&o->model, a->req.id);

    if (a->req.op != TR_OP_RESERVE && a->req.op != TR_OP_RESERVE_JOB) {
        return;
    }
    for (size_t i = 0; i < o->model.job_count; i++) {
        o->model.jobs[i].ready_call = 0;
    }
    for (unsigned i = 0; i < a->req.topic_count; i++) {
        o->model.topics[a->topics[i]].undoing = true;
    }
    if (named != NULL && a->req.op == TR_OP_RESERVE_JOB) {
        o->model.topics[named->topic].undoing = true;
    }
}

/* Hand-outs that wait for a body are undone if their jobs lie ahead again. */
void sim_oracle_clock_back(struct sim_oracle *o)
{
    for (size_t i = 0; i < o->model.job_count; i++) {
        o->model.jobs[i].ready_call = 0;
    }
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        o->model.topics[i].undoing = true;
        o->model.topics[i].stop_over = false; /* its end lies ahead again, or was not seen */
    }
}

/*
 * A reserve keeps the topics that are there when it begins. One that is asked from inside `done`
 * begins with what the answers before it have left, so this waits until they are judged.
 */
static void note_topics(struct sim_oracle *o, size_t judged)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        struct sim_ask *a = &o->asks[i];

        if (!a->pending || a->req.op != TR_OP_RESERVE || a->submit_call != o->model.call ||
            a->after != judged) {
            continue;
        }
        for (unsigned k = 0; k < a->req.topic_count; k++) {
            const struct sim_topic *t = &o->model.topics[a->topics[k]];

            sim_answer_topic_gone(o, a->topics[k]);
            a->keeps[k] = t->number != 0 && a->numbers[k] == t->number;
        }
    }
}

/* What bulks did before this answer. */
static void judge_each(struct sim_oracle *o, size_t answer)
{
    while (o->each_judged < o->each_count && o->each[o->each_judged].after == answer &&
           !o->report->failed) {
        const struct sim_each *each = &o->each[o->each_judged++];

        note(o, each->job.id ^ each->job.due_us);
        sim_answer_each(o, each);
    }
}

void sim_oracle_end(struct sim_oracle *o)
{
    bool changed = o->queued > 0 || o->each_count > 0 || o->closed != o->call_closed;

    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) { /* one that is not answered may have changed it */
        const struct sim_ask *a = &o->asks[i];

        changed =
            changed || (a->pending && (a->req.op == TR_OP_RESERVE_JOB || a->req.op == TR_OP_KICK));
        if (a->pending && o->reading && a->wall_max_us > o->model.now.wall_us) {
            undone(o, a); /* the clock was set back: it may start over */
        }
    }
    o->reading = o->reading || reads_in_flight(o);
    o->each_judged = 0;
    note_topics(o, 0);
    for (size_t i = 0; i < o->queued; i++) {
        judge_each(o, i);
        o->judged = i;
        judge(o, o->queue[i]);
        note_topics(o, i + 1);
    }
    judge_each(o, o->queued);
    o->queued = 0;
    o->judged = 0;
    o->each_count = 0;
    o->each_judged = 0;
    tell(o);
    if (o->engine != NULL && !tr_engine_failed(o->engine) && (changed || ++o->since_sync >= 16)) {
        sim_oracle_sync(o);
        o->since_sync = 0;
    }
    if (o->engine != NULL && !tr_engine_failed(o->engine)) {
        sim_check_away(o);
    }
}

void sim_oracle_turned(struct sim_oracle *o, uint64_t next)
{
    o->next_turn = next;
    o->settled =
        next > o->model.now.boot_us && !tr_engine_failed(o->engine) && !sim_disk_dead(o->disk);
    o->quiet = o->settled && sim_disk_pending(o->disk) == 0;
    if (o->clock_doubt && !o->clock_turned) {
        o->clock_turned = true;
        o->clock_boot_us = o->model.now.boot_us;
    } else if (o->clock_doubt && o->model.now.boot_us >= o->clock_boot_us + DOUBT_US) {
        o->clock_doubt = false;
    }
    sim_check_leases(o);
    if (o->settled) {
        sim_check_settled(o);
    }
    if (o->quiet) {
        sim_check_quiet(o);
        o->sealed = o->closed == o->durable &&
                    o->model.now.boot_us >= o->durable_boot_us + o->params->seal_us;
    }
}

void sim_oracle_ask(struct sim_oracle *o, struct sim_ask *a)
{
    a->req.actor = a->client + 1;
    a->req.done = sim_oracle_done;
    a->req.each = sim_oracle_each;
    a->changed = 0;
    a->req.ctx = a;
    a->pending = true;
    a->answered = false;
    a->nested = false;
    a->after = o->queued;
    memset(a->keeps, 0, sizeof(a->keeps));
    a->submit_call = o->model.call;
    a->submit_now = o->model.now;
    a->submit_span_us = o->model.span_us;
    a->wall_max_us = o->model.now.wall_us;
    a->body_hash = 0;
    a->has_body = false;
    o->quiet = false;
    if (!a->wrong) {
        sim_fate_learn(&o->model, &a->req);
    }
    o->requests++;
    if (a->req.op == TR_OP_KICK) {
        o->model.topics[a->topic].kicking++;
    }
    sim_tclock_asked(o, a);
    for (size_t i = 0; a->req.op == TR_OP_CLOSE && i < o->model.job_count; i++) {
        struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_RESERVED && j->holder == a->req.holder) {
            j->doubt = true;
        }
    }
}

void sim_oracle_changed(struct sim_oracle *o, unsigned topic, uint64_t gate)
{
    if (o->model.gate <= o->checkpoint_batch) {
        o->checkpoint_boot_us = o->model.now.boot_us; /* the first that is in no checkpoint */
    }
    o->model.topics[topic].gate = gate;
    o->model.topics[topic].changed_call = o->model.call;
    o->model.gate = gate;
}

bool sim_oracle_limbo(const struct sim_oracle *o, unsigned topic)
{
    return o->reading || o->model.topics[topic].undoing;
}

void sim_oracle_abandoned(struct sim_oracle *o, struct sim_ask *a)
{
    a->pending = false;
    if (a->req.op == TR_OP_KICK) {
        o->model.topics[a->topic].kicking--;
    }
    undone(o, a);
}

/* ---- Callbacks. */

void sim_oracle_done(struct tr_req *r)
{
    struct sim_ask *a = r->ctx;
    struct sim_oracle *o = a->oracle;

    if (!a->pending) {
        FAIL("I22", "%s is answered twice, or though it was abandoned", sim_op_name(r->op));
        return;
    }
    a->pending = false;
    a->answered = true;
    a->closed = o->closed;
    a->name_topic = -1;
    if (r->out.status == TARRY_OK &&
        (r->op == TR_OP_HOLD_TOPIC || r->op == TR_OP_FIND_TOPIC || r->op == TR_OP_NEXT_TOPIC)) {
        a->name_topic = sim_model_topic_by_name(&o->model, r->out.name, r->out.name_len);
    }
    a->job_key = sim_key_number(r->out.job.key, r->out.job.key_len);
    a->job_extra = sim_extra_of_view(&r->out.job);
    if (r->out.status == TARRY_OK && r->out.job.body != NULL) {
        a->has_body = true;
        a->body_hash = sim_body_hash(r->out.job.body, r->out.job.body_len);
    }
    if (r->out.status == TARRY_OK && r->op == TR_OP_LIST) {
        struct tr_job_view *page = o->listed[a->client];

        for (uint64_t i = 0; i < r->out.number; i++) {
            page[i] = r->out.jobs[i];
            o->listed_extra[a->client][i] = sim_extra_of_view(&page[i]);
            page[i].key_len = sim_key_number(page[i].key, page[i].key_len); /* its number */
        }
    }
    if (r->out.status == TARRY_OK && r->out.stat.policy != NULL) {
        a->policy_told = sim_policy_of(r->out.stat.policy);
    }
    if (r->out.status == TARRY_OK && r->op == TR_OP_FORECAST) {
        sim_check_forecast(o, a);
    }
    if (r->out.status == TARRY_OK && r->op == TR_OP_HISTORY) {
        sim_check_history(o, a);
    }
    o->queue[o->queued++] = a;
    if (o->nested != NULL) {
        o->nested(o->nested_ctx);
    }
}

void sim_oracle_each(struct tr_req *r)
{
    struct sim_ask *a = r->ctx;
    struct sim_oracle *o = a->oracle;

    if (o->each_count == SIM_EACH_MAX) {
        FAIL("sim", "a bulk changes too many jobs in one call");
        return;
    }
    o->each[o->each_count++] = (struct sim_each){a, r->out.job, o->queued, o->closed + 1};
}

void sim_oracle_closed(struct sim_oracle *o, uint64_t batch)
{
    if (o->was_failed) {
        FAIL("I14", "batch %" PRIu64 " is closed after the log has failed", batch);
    }
    o->closed = batch;
    o->sealed = false;
    o->batches++;
    if (o->engine == NULL) {
        FAIL("I10", "batch %" PRIu64 " is closed by a recovery", batch);
        return;
    }
    sim_prefix_closed(&o->prefix, o->engine, batch);
}

void sim_oracle_durable(struct sim_oracle *o, uint64_t batch)
{
    if (o->was_failed) {
        FAIL("I14", "batch %" PRIu64 " is called durable after the log has failed", batch);
    }
    if (batch < o->durable || batch > o->closed) {
        FAIL("I22", "batch %" PRIu64 " is called durable; %" PRIu64 " was, %" PRIu64 " is closed",
             batch, o->durable, o->closed);
    }
    o->durable = batch;
    o->durable_boot_us = o->model.now.boot_us;
    if (o->params->sync == TR_SYNC_ALWAYS) {
        sim_prefix_durable(&o->prefix, batch);
    }
}

void sim_oracle_notice(struct sim_oracle *o, enum tr_notice kind, const char *text)
{
    o->said = true;
    if (kind == TR_NOTE_DAMAGE) {
        struct sim_job *j;
        uint64_t id;

        o->damage = true;
        if (sscanf(text, "The record of job %" SCNu64, &id) == 1) {
            j = sim_model_find(&o->model, id);
            if (j != NULL) {
                j->damaged = true;
            }
        }
        if (o->prefix.harm.name[0] != '\0' && !sim_disk_dead(o->disk)) {
            const char *wrong =
                sim_harm_reported(&o->prefix.harm, &o->model, text, o->engine == NULL);

            if (wrong != NULL) {
                FAIL("I15", "%s, but: %s", wrong, text);
            }
        }
        if (!o->rotten && o->params->read_eio_ppm == 0 && !o->forced && !sim_disk_dead(o->disk) &&
            (o->engine != NULL || /* a start opens and syncs first */
             (o->params->sync_eio_ppm == 0 && o->params->dir_eio_ppm == 0))) {
            FAIL("I15", "damage is reported, but there is none: %s", text);
        }
    }
    if (o->trace) {
        printf("notice %d: %s\n", (int)kind, text);
    }
}

void sim_oracle_crashed(struct sim_oracle *o)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        o->asks[i].pending = false;
        o->asks[i].answered = false;
    }
    o->queued = 0;
    o->each_count = 0;
    o->engine = NULL;
    o->quiet = false;
    o->starts++;
    o->crash = o->starts;
}

/* ---- Refusals. */

/* Requests that may need a body, and so a read. */
static bool needs_body(enum tr_op op)
{
    return op == TR_OP_RESERVE || op == TR_OP_RESERVE_JOB || op == TR_OP_PEEK ||
           op == TR_OP_PEEK_FIRST || op == TR_OP_EDIT || op == TR_OP_RELEASE || op == TR_OP_BURY ||
           op == TR_OP_KICK || op == TR_OP_KICK_JOB || op == TR_OP_FIRE;
}

static bool mine(const struct sim_ask *a, const struct sim_job *j)
{
    return a->req.holder != 0 ? j->holder == a->req.holder : a->req.lease == j->lease;
}

/* Is there a reason to refuse a request about a live job? */
static bool reason_to_refuse(const struct sim_oracle *o, const struct sim_ask *a,
                             const struct sim_job *j)
{
    const struct sim_model *m = &o->model;
    const struct sim_topic *t = &m->topics[j->topic];
    bool held = sim_job_may_be_reserved(j) || sim_oracle_limbo(o, j->topic);
    bool dead = j->where == SIM_DEAD || sim_fate_may_be_dead(m, j) ||
                (j->damaged && a->req.out.job.state == TR_DEAD); /* put aside, once more perhaps */

    if (t->kicking != 0 || t->kick_call == m->call) {
        return true; /* a kick may just have changed its state */
    }

    switch (a->req.op) {
    case TR_OP_DELETE:
        if (a->req.force) {
            return false;
        }
        if (a->req.lease != 0) {
            return !(sim_job_is_reserved(m, j) && mine(a, j));
        }
        return held && !(sim_job_is_reserved(m, j) && mine(a, j));
    case TR_OP_BURY:
        if (a->req.force) {
            return held || dead;
        }
        return !(sim_job_is_reserved(m, j) && mine(a, j));
    case TR_OP_RELEASE:
    case TR_OP_RETURN:
    case TR_OP_TOUCH:
        return !(sim_job_is_reserved(m, j) && mine(a, j));
    case TR_OP_RESERVE_JOB:
        return held;
    case TR_OP_EDIT:
        return held || dead;
    case TR_OP_FIRE:
        return held || dead || sim_job_may_be_ready(m, j);
    case TR_OP_KICK_JOB:
        return held || sim_job_may_be_ready(m, j);
    default:
        return false;
    }
}

static void refused_job(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_meant(o, a);
    bool by_holder = a->req.op == TR_OP_RELEASE || a->req.op == TR_OP_RETURN ||
                     a->req.op == TR_OP_BURY || a->req.op == TR_OP_TOUCH ||
                     a->req.op == TR_OP_DELETE;
    bool alive = j != NULL && j->where != SIM_GONE;

    if (j != NULL) {
        sim_answer_seen(o, a, j->gate);
    } else if (a->key != 0) {
        sim_answer_seen(o, a, o->model.topics[a->topic].gate);
    }
    if (alive && a->key != 0 && a->req.out.status == TARRY_ENOTFOUND &&
        !sim_drop_may(&o->model, j)) {
        FAIL("I17", "%s does not find key %u, but job %" PRIu64 " has it", sim_op_name(a->req.op),
             a->key, j->id);
    }
    if (alive && a->req.out.status == TARRY_ENOTFOUND && sim_drop_may(&o->model, j)) {
        return;
    }
    if (!alive) {
        if (a->req.out.status == TARRY_ESTATE) {
            FAIL("I3", "%s of job %" PRIu64 ": state %d, but it is gone", sim_op_name(a->req.op),
                 a->req.id, (int)a->req.out.job.state);
        }
        return;
    }
    if (!reason_to_refuse(o, a, j) ||
        (a->req.out.status == TARRY_ENOTFOUND && !by_holder && a->req.op != TR_OP_RESERVE_JOB)) {
        FAIL(a->req.out.status == TARRY_ENOTFOUND ? "I1" : "I16",
             "%s of job %" PRIu64 " is refused with %s (state %d), but the model has it in %d",
             sim_op_name(a->req.op), a->req.id, tarry_errname(a->req.out.status),
             (int)a->req.out.job.state, (int)j->where);
    }
    if (a->req.out.status == TARRY_ESTATE) {
        sim_answer_state(o, a, j, a->req.out.job.state);
    }
}

static bool about_job(enum tr_op op)
{
    return op == TR_OP_RESERVE_JOB || op == TR_OP_DELETE || op == TR_OP_RELEASE ||
           op == TR_OP_RETURN || op == TR_OP_BURY || op == TR_OP_TOUCH || op == TR_OP_KICK_JOB ||
           op == TR_OP_FIRE || op == TR_OP_EDIT || op == TR_OP_PEEK || op == TR_OP_STAT_JOB;
}

/* Nobody held it, so it may be another one by now. */
static bool topic_may_be_gone(const struct sim_oracle *o, const struct sim_ask *a)
{
    return !sim_answer_topic_is_used(o, a->topic) ||
           a->req.topic != o->model.topics[a->topic].number;
}

/* The same for all topics of a reserve. */
static bool topics_may_be_gone(const struct sim_oracle *o, const struct sim_ask *a)
{
    for (unsigned i = 0; i < a->req.topic_count; i++) {
        if (sim_answer_topic_is_used(o, a->topics[i]) &&
            a->numbers[i] == o->model.topics[a->topics[i]].number) {
            return false;
        }
    }
    return true;
}

/* Does it need the record of a job that may be far, or its place? */
static bool needs_record(enum tr_op op)
{
    return needs_body(op) || op == TR_OP_KICK || op == TR_OP_HISTORY ||
           about_job(op); /* some only to be refused */
}

/* Only the index or the block of another job is damaged. Nothing can be read, nor is a report
 * believed, once the disk is dead. */
static bool found_whole(const struct sim_oracle *o, const struct sim_ask *a)
{
    bool harmed = o->prefix.harm.name[0] != '\0' && !sim_disk_dead(o->disk);
    const struct sim_job *j = about_job(a->req.op) && harmed
                                  ? sim_model_find((struct sim_model *)&o->model, a->req.id)
                                  : NULL;

    return j != NULL && j->where != SIM_GONE && !j->damaged && !j->hidden;
}

/* A refusal for lack of something, not because of the job. */
static bool excused(const struct sim_oracle *o, const struct sim_ask *a)
{
    enum tr_op op = a->req.op;
    bool reads = needs_record(op) || (op == TR_OP_PUSH && a->key != 0);

    switch (a->req.out.status) {
    case TARRY_EIO:
        return tr_engine_failed(o->engine) || sim_disk_dead(o->disk) ||
               (reads && (o->rotten || o->params->read_eio_ppm != 0 || o->forced));
    case TARRY_EDAMAGED:
        return reads && o->damage && !found_whole(o, a);
    case TARRY_ENOMEM:
        return o->params->mem_small && (op != TR_OP_DELETE || a->key != 0);
    case TARRY_ENOSPC:
    case TARRY_EFULL:
        return op == TR_OP_PUSH || op == TR_OP_EDIT || op == TR_OP_POLICY || needs_record(op) ||
               (op == TR_OP_BULK && (o->params->full || o->params->enospc_ppm != 0));
    case TARRY_EPAUSED:
        return op == TR_OP_PUSH &&
               (o->model.topics[a->topic].policy.p.paused & TR_PAUSED_IN) != 0 &&
               (o->clock_doubt || sim_topic_takes_none(&o->model, a->topic));
    case TARRY_EQUOTA:
        return sim_answer_over_quota((struct sim_oracle *)o, a);
    case TARRY_EINVAL:
        return a->wrong || (op == TR_OP_PUSH && topic_may_be_gone(o, a)) ||
               (op == TR_OP_RESERVE && topics_may_be_gone(o, a));
    default:
        return false;
    }
}

void sim_answer_refused(struct sim_oracle *o, struct sim_ask *a)
{
    int status = a->req.out.status;

    o->refused++;
    undone(o, a);
    if (a->req.op == TR_OP_KICK) {
        o->model.topics[a->topic].kicking--;
    }
    if (excused(o, a) || (a->wrong && status == TARRY_EFULL)) {
        return;
    }
    if (about_job(a->req.op) && (status == TARRY_ENOTFOUND || status == TARRY_ESTATE)) {
        refused_job(o, a);
        return;
    }
    if (a->req.op == TR_OP_PUSH && a->key != 0 &&
        (status == TARRY_EEXISTS || status == TARRY_ESTATE)) {
        if (!sim_answer_push_refused(o, a)) {
            FAIL("I17", "push with key %u is refused with %s", a->key, tarry_errname(status));
        }
        return;
    }
    if ((a->req.op == TR_OP_ADVANCE && sim_tclock_refused(o, a)) ||
        (a->req.op == TR_OP_HISTORY && sim_history_refused(o, a))) {
        return;
    }
    if (status == TARRY_ENOTFOUND && !about_job(a->req.op) && topic_may_be_gone(o, a)) {
        return;
    }
    if (status == TARRY_ENOTFOUND && a->req.op == TR_OP_DROP_TOPIC &&
        o->model.topics[a->topic].holds[a->req.hold] == 0) {
        return; /* another one in the same call was the last */
    }
    FAIL("I13", "%s is refused with %s", sim_op_name(a->req.op), tarry_errname(status));
}
