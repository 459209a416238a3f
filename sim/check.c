/*
 * Memory against the model.
 *
 *     after a call      every live job of the model is among the facts with the same fields, and
 *                       nothing else is; what the engine did in silence (a lease ran out) is seen
 *                       here, and must have been possible
 *     in quiet moments  what is due is ready, what ran out has come back, who waits has nothing to
 *                       wait for
 *     after a recovery  the facts are those of an allowed batch; the model becomes what they say
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static const uint64_t STUCK_US = 3000000;
static const uint64_t REST_US = 100000; /* who comes back later than that is at rest */
static const uint64_t VISIT_US = 1100000;

enum { NEAR_SLACK = 8, MEND_QUIET = 30 };

/* ---- The facts of one job. */

/* A reserve-job that is under way has taken the job out of its state already. */
static bool in_the_making(const struct sim_oracle *o, uint64_t id)
{
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        const struct sim_ask *a = &o->asks[i];

        if (a->pending && a->req.op == TR_OP_RESERVE_JOB && a->req.id == id) {
            return true;
        }
    }
    return false;
}

/* Its record cannot be read: it is put aside as soon as that can be logged. */
static void accept_damage(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    if (row->dead_seq != 0 && j->where != SIM_DEAD) {
        sim_fate_die(&o->model, j, TR_WHY_DAMAGED);
        j->reserves = row->reserves; /* it was in the making */
    }
    if (j->where == SIM_PENDING && row->reserves > j->reserves &&
        (row->reserves > j->reserves + 1 || !sim_oracle_limbo(o, j->topic))) {
        j->reserves = row->reserves; /* tried in vain: that counts until it is undone */
    }
    if (j->where == SIM_PENDING && row->reserves + 1 == j->reserves) {
        j->reserves--; /* now it is */
    }
}

/* Its lease ran out, or its connection is being closed. */
static void accept_end(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    if (row->timeouts == j->timeouts + 1 && j->where == SIM_RESERVED &&
        !sim_job_is_reserved(&o->model, j)) {
        sim_job_expire(&o->model, j, true);
    }
    if (row->dead_seq != 0 && j->where == SIM_RESERVED && j->doubt) {
        sim_job_expire(&o->model, j, false);
    }
}

static void check_row(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    const struct sim_model *m = &o->model;
    const char *what = NULL;

    accept_end(o, j, row);
    /* Perhaps just after its lease ran out: so that comes first. */
    if (in_the_making(o, j->id) && !sim_job_may_be_reserved(j) &&
        (row->due_us != j->due_us || (j->where == SIM_DEAD && row->dead_seq == 0))) {
        sim_job_woken(&o->model, j, row->due_us);
    }
    if (j->late_close && row->timeouts == j->timeouts + 1) {
        j->timeouts++;
    }
    j->late_close = false;
    sim_check_back(o, j, row);
    sim_expiry_row(o, j, row);
    if (j->damaged) {
        accept_damage(o, j, row);
    }
    if (row->due_us != j->due_us) {
        what = "due";
    } else if (row->topic != j->topic) {
        what = "topic";
    } else if (row->unread) {
        return; /* nothing else is known of it */
    } else if (row->priority != j->priority) {
        what = "priority";
    } else if (row->key != j->key) {
        what = "key";
    } else if (row->created_us != j->created_us || row->delay_us != j->delay_us) {
        what = "created or delay";
    } else if (row->ttr_us != j->ttr_us) {
        what = "ttr";
    } else if (!sim_extra_same(&row->extra, &j->extra)) {
        what = "tag, ttl, retries, backoff or port";
    } else if (row->body_len != j->body.len) {
        what = "body length";
    } else if (row->releases != j->releases || row->buries != j->buries || row->kicks != j->kicks) {
        what = "releases, buries or kicks";
    } else if (row->timeouts != j->timeouts) {
        what = "timeouts";
    } else if (row->reserves != j->reserves &&
               !(sim_oracle_limbo(o, j->topic) && row->reserves == j->reserves + 1)) {
        what = "reserves";
    } else if ((row->dead_seq != 0) != (j->where == SIM_DEAD)) {
        what = "being dead";
    } else if (row->dead_seq != 0 && row->dead_why != j->dead_why) {
        what = "its reason to be dead";
    } else if (row->lease != j->lease && j->where == SIM_RESERVED && j->holder == 0 &&
               sim_job_is_reserved(m, j)) {
        what = "lease";
    } else if (row->rid < j->rid) {
        what = "rid";
    } else if (row->body_hash != 0 && row->body_hash != j->body.hash && j->body.len > 0) {
        what = "body";
    }
    if (what != NULL) {
        FAIL("I16",
             "in memory job %" PRIu64 " (rid %" PRIu64
             ") differs from the model in %s: where %d, due %" PRIu64 " not %" PRIu64
             ", reserves %" PRIu32 " not %" PRIu32 ", timeouts %" PRIu32 " not %" PRIu32
             ", dead %" PRIu64 ", lease %" PRIx64 " not %" PRIx64 ", it ends in [%" PRIu64
             ", %" PRIu64 "], now %" PRIu64,
             j->id, row->rid, what, (int)j->where, row->due_us, j->due_us, row->reserves,
             j->reserves, row->timeouts, j->timeouts, row->dead_seq, row->lease, j->lease,
             j->lease_lo_us, j->lease_hi_us, m->span_us);
    }
}

/* Was it kicked by its id in this call, by one who is not judged yet? */
static bool kicked_by_id(const struct sim_oracle *o, const struct sim_job *j)
{
    for (size_t i = o->judged; i < o->queued; i++) {
        const struct sim_ask *a = o->queue[i];

        if (a->req.op == TR_OP_KICK_JOB && a->req.id == j->id && a->req.out.status == TARRY_OK) {
            return true;
        }
    }
    return false;
}

/* How often bulks kicked it in this call, as far as that is not judged yet. */
static uint32_t kicked_by_bulk(const struct sim_oracle *o, const struct sim_job *j)
{
    uint32_t kicks = 0;

    for (size_t i = o->each_judged; i < o->each_count; i++) {
        kicks += o->each[i].job.id == j->id && o->each[i].ask->req.bulk == TR_BULK_KICK;
    }
    return kicks;
}

/* Is a bulk of this call, which is not judged yet, going to shift it? Then the engine's due time is
 * of after that. */
static bool is_shifted_later(const struct sim_oracle *o, const struct sim_job *j)
{
    for (size_t i = o->each_judged; i < o->each_count; i++) {
        if (o->each[i].job.id == j->id && o->each[i].ask->req.bulk == TR_BULK_SHIFT) {
            return true;
        }
    }
    return false;
}

/* A kick under way in its topic may have reached the job. */
static void accept_kick(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    if (o->model.topics[j->topic].kicking == 0 ||
        row->kicks != j->kicks + 1 + kicked_by_bulk(o, j) || kicked_by_id(o, j)) {
        return;
    }
    if (sim_job_is_reserved(&o->model, j)) {
        FAIL("I8", "kick took job %" PRIu64 ", which is reserved", j->id);
    }
    if (j->where == SIM_RESERVED) {
        sim_job_expire(&o->model, j, !j->doubt);
    }
    j->was_dead = j->where == SIM_DEAD || sim_fate_may_be_dead(&o->model, j);
    if (row->reserves == 0 && j->damaged) {
        j->reserves = 0; /* it was dead before */
    }
    j->kicks++;
    j->due_us = is_shifted_later(o, j) ? o->model.now.wall_us : row->due_us;
    j->own_word = true;
    j->kick_call = o->model.call;
    if (j->loose_call == o->model.call) {
        j->delay_us = row->delay_us;
        j->loose_call = 0;
    }
    sim_fate_kicked(j, false);
    j->gate = o->call_closed + 1;
    sim_model_set_where(&o->model, j, SIM_PENDING);
}

void sim_oracle_sync(struct sim_oracle *o)
{
    struct sim_model *m = &o->model;
    uint64_t seen = 0;

    sim_prefix_read(&o->prefix, o->engine);
    for (size_t i = 0; i < o->prefix.now.count; i++) {
        const struct sim_row *row = &o->prefix.now.rows[i];
        struct sim_job *j = sim_model_find(m, row->id);

        if (j == NULL || j->where == SIM_GONE) {
            FAIL(j == NULL ? "I7" : "I6", "in memory is job %" PRIu64 " (rid %" PRIu64 "), %s",
                 row->id, row->rid, j == NULL ? "which nobody pushed" : "which is gone");
            return;
        }
        accept_kick(o, j, row);
        check_row(o, j, row);
        if (j->where == SIM_DEAD && row->dead_seq != 0) { /* some died unheard of: their order */
            j->dead_order = row->dead_seq;
            j->dead_at_us = row->dead_at_us;
            m->dead_order = row->dead_seq > m->dead_order ? row->dead_seq : m->dead_order;
        }
        if (j->rid != row->rid || j->same_due_us != row->due_us || j->same_where != j->where) {
            j->same_call = m->call;
            j->same_due_us = row->due_us;
            j->same_where = j->where;
        }
        j->rid = row->rid;
        j->seen_call = m->call;
        sim_job_keep_body(j);
        seen++;
    }
    sim_check_policies(o);
    for (size_t i = 0; seen != m->live && i < m->job_count; i++) {
        if (m->jobs[i].where != SIM_GONE && m->jobs[i].seen_call != m->call &&
            !sim_drop_gone(o, &m->jobs[i])) {
            FAIL("I1", "job %" PRIu64 " is lost in memory", m->jobs[i].id);
            return;
        }
    }
}

/* ---- Kick: the engine chooses, so take its word, then see whether it chose well. */

/* For want of memory or room it tells how many it has kicked, and leaves the others. */
static bool may_end_early(const struct sim_oracle *o)
{
    return o->reading || o->params->mem_fail_pct != 0 || o->params->full ||
           o->params->enospc_ppm != 0;
}

static void check_kicked_dead(struct sim_oracle *o, const struct sim_ask *a, uint64_t number)
{
    uint64_t newest = 0;
    uint64_t left = 0;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->id != 0 && j->topic == a->topic && j->kick_call == o->model.call && j->was_dead) {
            newest = j->dead_order > newest ? j->dead_order : newest;
        }
    }
    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_DEAD && j->topic == a->topic && !j->damaged &&
            !sim_drop_may(&o->model, j)) {
            left++;
            if (j->dead_order < newest) {
                FAIL("I29", "kick left out job %" PRIu64 ", which died earlier", j->id);
            }
        }
    }
    if (number < a->req.count && left > 0 && !may_end_early(o)) {
        FAIL("I16", "kick of %" PRIu64 " kicked only %" PRIu64 ", %" PRIu64 " dead are left",
             a->req.count, number, left);
    }
}

/* Is the job in memory? *fresh: the facts were read since the call ended. */
static bool is_here(struct sim_oracle *o, const struct sim_job *j, bool *fresh)
{
    const struct sim_row *row;

    if (!*fresh) {
        sim_prefix_read(&o->prefix, o->engine);
        *fresh = true;
    }
    row = sim_rows_find(&o->prefix.now, j->id);
    return row == NULL || !row->away;
}

static bool parks(const struct sim_oracle *o)
{
    return o->params->near_max < 1000000;
}

bool sim_check_parked(struct sim_oracle *o, const struct sim_job *j)
{
    bool fresh = false;

    return parks(o) && j->where != SIM_DEAD && !is_here(o, j, &fresh);
}

static void check_kicked_delayed(struct sim_oracle *o, const struct sim_ask *a, uint64_t number)
{
    uint64_t left = 0; /* in memory: others may not fit there */
    bool fresh = false;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->topic == a->topic && j->where == SIM_DEAD && !o->reading &&
            !sim_drop_may(&o->model, j)) {
            FAIL("I29", "kick took delayed jobs, though job %" PRIu64 " is dead", j->id);
        }
        left += j->topic == a->topic && sim_job_is_delayed(&o->model, j) && is_here(o, j, &fresh);
    }
    if (number < a->req.count && left > 0 && !may_end_early(o)) {
        FAIL("I16", "kick of %" PRIu64 " kicked only %" PRIu64 ", %" PRIu64 " delayed are left",
             a->req.count, number, left);
    }
}

/* Which jobs of the topic have been kicked? Other topics wait: what their answers say comes first.
 */
static void check_kicking(struct sim_oracle *o, unsigned topic)
{
    sim_prefix_read(&o->prefix, o->engine);
    for (size_t i = 0; i < o->prefix.now.count; i++) {
        struct sim_job *j = sim_model_find(&o->model, o->prefix.now.rows[i].id);

        if (j != NULL && j->where != SIM_GONE && j->topic == topic) {
            accept_kick(o, j, &o->prefix.now.rows[i]);
        }
    }
}

/* Nobody was kicked, and it says why: the topic has dead jobs that cannot be read. As long as a
 * topic has dead jobs its delayed ones are left alone. */
static bool dead_held_back(const struct sim_oracle *o, const struct sim_ask *a)
{
    for (size_t i = 0; a->req.out.damaged && i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_DEAD && j->topic == a->topic && j->damaged) {
            return true;
        }
    }
    return false;
}

void sim_check_kick(struct sim_oracle *o, struct sim_ask *a)
{
    uint64_t number = 0;
    bool dead = false;

    check_kicking(o, a->topic);
    for (size_t i = 0; i < o->prefix.now.count; i++) {
        struct sim_job *j = sim_model_find(&o->model, o->prefix.now.rows[i].id);

        if (j != NULL && j->where != SIM_GONE) {
            if (j->kick_call == o->model.call && j->topic == a->topic) {
                dead = dead || j->was_dead;
                number++;
                sim_oracle_changed(o, a->topic, o->call_closed + 1);
            }
        }
    }
    o->model.topics[a->topic].kicking--;
    o->model.topics[a->topic].kick_call = o->model.call;
    if (a->submit_call != o->model.call || o->model.topics[a->topic].kicking != 0) {
        return; /* others may have come between its slices */
    }
    if (number != a->req.out.number) {
        FAIL("I16", "kick says %" PRIu64 ", but %" PRIu64 " were kicked", a->req.out.number,
             number);
    }
    if (dead || (number == 0 && dead_held_back(o, a))) {
        check_kicked_dead(o, a, number);
    } else {
        check_kicked_delayed(o, a, number);
    }
    sim_answer_seen(o, a,
                    o->model.topics[a->topic].gate > a->closed + 1
                        ? a->closed + 1
                        : o->model.topics[a->topic].gate);
}

/* ---- Quiet moments. */

void sim_check_leases(struct sim_oracle *o)
{
    for (size_t i = 0; i < o->model.job_count && !tr_engine_failed(o->engine); i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_RESERVED && o->model.span_us >= j->lease_lo_us) {
            sim_oracle_sync(o);
            return;
        }
    }
}

/* Has it been so for longer than any pause after a failure, or will nobody come back to it? */
static bool stuck(const struct sim_oracle *o, const struct sim_ask *a, uint64_t wait_us)
{
    uint64_t passed = o->model.now.boot_us - a->submit_now.boot_us;

    if ((o->params->mem_fail_pct != 0 || o->starved) && o->next_turn != UINT64_MAX) {
        return false; /* what it needs fails now, and will be tried again */
    }
    return passed >= wait_us && (o->next_turn == UINT64_MAX || passed - wait_us >= STUCK_US);
}

bool sim_check_may_warn(const struct sim_oracle *o, const struct sim_ask *a)
{
    for (size_t i = 0; a->req.warn_us != 0 && a->req.holder != 0 && i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_RESERVED && j->holder == a->req.holder &&
            o->model.span_us + a->req.warn_us >= j->lease_lo_us) {
            return true;
        }
    }
    return false;
}

bool sim_check_must_warn(const struct sim_oracle *o, const struct sim_ask *a, uint64_t so_us)
{
    for (size_t i = 0; a->req.warn_us != 0 && a->req.holder != 0 && i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->holder == a->req.holder && sim_job_is_reserved(&o->model, j) &&
            o->model.span_us + a->req.warn_us >= j->lease_hi_us + so_us) {
            return !o->params->mem_small; /* else there may be no memory to know it */
        }
    }
    return false;
}

static void check_waiting(struct sim_oracle *o, const struct sim_ask *a, uint64_t slack)
{
    const struct sim_model *m = &o->model;

    if (sim_check_must_warn(o, a, slack)) {
        FAIL("I27", "client %u still waits, though a lease of its own ends", a->client);
    }
    if (stuck(o, a, a->req.wait_us)) {
        FAIL("I27", "a reserve of %" PRIu64 " us still waits after %" PRIu64 " us", a->req.wait_us,
             m->now.boot_us - a->submit_now.boot_us);
    }
    for (size_t i = 0; i < m->job_count && stuck(o, a, 0) && !o->params->mem_small; i++) {
        const struct sim_job *j = &m->jobs[i];

        if (!sim_job_is_ready(j) || j->damaged || !sim_tag_fits(a, j) ||
            sim_topic_may_be_paused(m, j->topic) || sim_limit_may_hold(o, j->topic)) {
            continue;
        }
        for (unsigned t = 0; t < a->req.topic_count; t++) {
            if (a->topics[t] == j->topic) {
                FAIL("I1", "job %" PRIu64 " is ready, and client %u waits for it", j->id,
                     a->client);
            }
        }
    }
}

void sim_check_away(struct sim_oracle *o)
{
    bool fresh = false;

    for (size_t i = 0; parks(o) && i < o->model.job_count; i++) {
        struct sim_job *j = &o->model.jobs[i];

        if (sim_job_is_ready(j) && !is_here(o, j, &fresh)) {
            j->ready_call = 0;
        }
    }
}

void sim_check_settled(struct sim_oracle *o)
{
    struct sim_model *m = &o->model;
    bool fresh = false;

    for (unsigned i = 0; i < m->topic_count; i++) {
        const struct tr_policy *p = &m->topics[i].policy.p;

        if ((p->paused & TR_PAUSED_OUT) != 0 && p->paused_until_us != 0 &&
            m->now.wall_us >= p->paused_until_us && !o->clock_doubt && !m->topics[i].stop_over) {
            m->topics[i].stop_over = true;
            m->topics[i].resume_call = m->call;
        }
        if (m->topics[i].pause_until_us != 0 && m->span_us >= m->topics[i].pause_until_us) {
            m->topics[i].pause_until_us = 0;
            m->topics[i].resume_call = m->call;
        }
    }
    for (size_t i = 0; i < m->job_count && !o->clock_doubt; i++) {
        struct sim_job *j = &m->jobs[i];

        if (j->where == SIM_PENDING && j->ready_call == 0 && j->due_us <= m->now.wall_us &&
            is_here(o, j, &fresh)) {
            j->ready_call = m->call;
        }
    }
}

/* sync = interval: what was written is synced, or soon will be. */
static void check_synced(struct sim_oracle *o)
{
    struct tr_engine_stat stat;

    if (o->params->sync != TR_SYNC_INTERVAL) {
        return;
    }
    tr_engine_stat(o->engine, &stat);
    if (stat.synced_batch != o->durable &&
        o->next_turn > o->model.now.boot_us + o->params->sync_us) {
        FAIL("I22",
             "batch %" PRIu64 " was written, but only %" PRIu64 " is synced, and none is planned",
             o->durable, stat.synced_batch);
    }
}

/* What was logged is in a checkpoint after a while, disk full or not: else no slot is ever freed.
 */
static void check_checkpoints(struct sim_oracle *o, const struct tr_engine_stat *stat)
{
    const struct sim_params *p = o->params;

    if (p->sync != TR_SYNC_ALWAYS) {
        return; /* the model does not know which batch a change went into */
    }
    if (stat->checkpoints != o->checkpoints) {
        o->checkpoints = stat->checkpoints;
        o->checkpoint_batch = o->closed;
        o->checkpoint_boot_us = o->model.now.boot_us; /* what is in the open batch is younger */
    } else if (o->model.gate > o->checkpoint_batch &&
               o->model.now.boot_us > o->checkpoint_boot_us + p->checkpoint_us + STUCK_US &&
               p->write_eio_ppm == 0 && p->sync_eio_ppm == 0 && p->enospc_ppm == 0 &&
               !p->mem_small && !o->forced) {
        FAIL("I13", "no checkpoint for %" PRIu64 " us, though batch %" PRIu64 " is not in one",
             o->model.now.boot_us - o->checkpoint_boot_us, o->model.gate);
    }
}

/* May a job that is due have to wait, for memory, room in a checkpoint, or a read? */
static bool may_be_late(const struct sim_oracle *o)
{
    const struct sim_params *p = o->params;

    return p->mem_small || p->full || p->enospc_ppm != 0 || p->read_eio_ppm != 0 ||
           p->write_eio_ppm != 0 || p->sync_eio_ppm != 0 || p->dir_eio_ppm != 0 || o->forced ||
           (o->rotten && o->prefix.harm.name[0] == '\0');
}

/* A due job may be far if its topic has others in memory that are due, and a fair number of them.
 */
static bool may_be_parked(struct sim_oracle *o, const struct sim_job *away)
{
    const struct sim_model *m = &o->model;
    struct tr_engine_stat stat;
    bool fresh = false;
    uint64_t near = 0;
    uint64_t ready;

    tr_engine_stat(o->engine, &stat);
    ready = stat.clock_steps; /* then some seem ready to the engine that are not due again */
    for (size_t i = 0; parks(o) && i < m->job_count; i++) {
        const struct sim_job *j = &m->jobs[i];

        if (j->topic == away->topic && j->where == SIM_PENDING && is_here(o, j, &fresh)) {
            near++;
            ready += sim_job_is_ready(j);
        }
    }
    return ready > 0 && near * 2 > o->params->near_min;
}

/* Far jobs that were brought for somebody stay for a second. */
static bool has_visitors(const struct sim_oracle *o)
{
    bool any = o->visited_us != 0 && o->model.now.boot_us <= o->visited_us + VISIT_US;

    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        any = any || (o->asks[i].pending && sim_ask_visits(&o->asks[i]));
    }
    return any;
}

/* Jobs as they were pushed: others are in memory whatever the quota says. */
static void check_near(struct sim_oracle *o)
{
    const struct sim_params *p = o->params;
    uint64_t most = p->near_max + o->model.topic_count * p->near_min + NEAR_SLACK;
    uint64_t near = 0;
    bool fresh = false;

    if (!parks(o) || o->next_turn < o->model.now.boot_us + REST_US || has_visitors(o) ||
        p->op_weight[TR_OP_EDIT] != 0) {
        return;
    }
    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        near += j->where == SIM_PENDING && j->reserves + j->releases + j->kicks + j->buries == 0 &&
                !j->own_word && is_here(o, j, &fresh);
    }
    if (near > most) {
        FAIL("I18", "%" PRIu64 " jobs are in memory, though there is room for %" PRIu64, near,
             most);
    }
}

struct wanted {
    uint64_t no;
    bool found;
};

static void find_group(void *ctx, const struct tr_group_fact *g)
{
    struct wanted *w = ctx;

    w->found = w->found || g->no == w->no;
}

/* May a promotion or merge fail? */
static bool may_fail(const struct sim_oracle *o)
{
    const struct sim_params *p = o->params;

    return p->full || p->enospc_ppm != 0 || p->write_eio_ppm != 0 || p->sync_eio_ppm != 0 ||
           p->dir_eio_ppm != 0 || p->read_eio_ppm != 0 || o->forced;
}

/* Groups are looked through in turn: when all have been that there were, damage must have been
 * found. And an index of which that is known is made again. */
static void check_harm(struct sim_oracle *o, const struct tr_engine_stat *stat)
{
    struct sim_harm *h = &o->prefix.harm;
    struct wanted w = {.no = h->group.no};
    bool looked = stat->scrubbed_groups > h->scrubs + h->groups + 1;

    if (!sim_harm_lasts(h, o->disk) || o->params->mem_small) {
        return;
    }
    tr_engine_groups(o->engine, find_group, &w);
    if (w.found && !h->named && !h->padding && looked) {
        FAIL("I15", "%s is damaged, was looked through, and nobody has noticed", h->name);
    }
    if (w.found && h->blamed && h->kind == TR_GROUP_SIDE && !may_fail(o) &&
        h->quiet++ > MEND_QUIET) {
        FAIL("I15", "%s is known to be damaged, and nothing is done about it", h->name);
    }
}

void sim_check_quiet(struct sim_oracle *o)
{
    struct sim_model *m = &o->model;

    struct tr_engine_stat stat;
    uint64_t slack;

    tr_engine_stat(o->engine, &stat);
    slack =
        stat.slots_free == 0 && o->next_turn != UINT64_MAX ? STUCK_US : 0; /* it cannot log it */
    for (unsigned i = 0; i < m->topic_count; i++) {
        m->topics[i].undoing = false;
    }
    sim_oracle_sync(o);
    for (size_t i = 0; i < m->job_count; i++) {
        const struct sim_job *j = &m->jobs[i];

        if (j->where == SIM_PENDING && j->ready_call == 0 && j->due_us <= m->now.wall_us &&
            !o->clock_doubt && !j->damaged && !may_be_parked(o, j) &&
            (o->next_turn == UINT64_MAX || !may_be_late(o))) {
            FAIL("I1", "job %" PRIu64 " is due and not in memory, and nothing is done about it",
                 j->id);
        }
        if (j->where == SIM_RESERVED && m->span_us >= j->lease_hi_us + slack) {
            FAIL("I8", "the lease of job %" PRIu64 " ran out %" PRIu64 " us ago", j->id,
                 m->span_us - j->lease_hi_us);
        }
    }
    for (size_t i = 0; i < m->job_count; i++) {
        const struct sim_job *j = &m->jobs[i];
        bool fresh = true;

        if (j->where == SIM_PENDING || j->where == SIM_DEAD) {
            sim_expiry_quiet(o, j, is_here(o, j, &fresh), may_be_late(o) || slack != 0);
        }
    }
    sim_drop_quiet(o, may_be_late(o) || slack != 0);
    check_synced(o);
    check_near(o);
    check_harm(o, &stat);
    check_checkpoints(o, &stat);
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        struct sim_ask *a = &o->asks[i];

        if (a->pending && a->req.op == TR_OP_RESERVE) {
            check_waiting(o, a, slack);
        } else if (a->pending && a->req.op != TR_OP_PUSH && a->req.op != TR_OP_EDIT &&
                   a->req.op != TR_OP_POLICY && stuck(o, a, 0) &&
                   (a->req.op != TR_OP_ADVANCE || o->next_turn == UINT64_MAX)) {
            FAIL("I13", "%s of client %u is stuck: nothing is left to do", sim_op_name(a->req.op),
                 a->client);
        }
    }
}

/* ---- After a recovery. */

static void restore_lease(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    struct tr_now now = o->model.now;
    uint64_t left = row->lease_end_us > now.wall_us ? row->lease_end_us - now.wall_us : 0;
    uint64_t ttr = j->last_lease == row->lease ? j->last_ttr_us : 0; /* 0: not known */
    uint64_t least = ttr < j->ttr_us ? ttr : j->ttr_us; /* a touch that changed it may be lost */

    sim_model_set_where(&o->model, j, SIM_RESERVED);
    j->holder = 0;
    j->lease = row->lease;
    j->lease_ttr_us = ttr;
    j->lease_lo_us = o->model.span_us + (left < least ? left : least);
    j->lease_hi_us = o->model.span_us + left;
}

static void restore(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    j->topic = row->topic;
    j->due_us = row->due_us;
    if (!row->unread) {
        j->priority = row->priority;
        j->created_us = row->created_us;
        j->delay_us = row->delay_us;
        j->ttr_us = row->ttr_us;
        j->reserves = row->reserves;
        j->timeouts = row->timeouts;
        j->releases = row->releases;
        j->buries = row->buries;
        j->kicks = row->kicks;
        j->key = row->key;
        j->extra = row->extra;
    }
    j->body = sim_job_body_at(j, row->rid);
    while (j->body_count > 0 && j->bodies[j->body_count - 1].rid > row->rid) {
        j->body_count--; /* these never happened */
    }
    j->rid = row->rid;
    j->paid = false;
    j->gate = 0;
    j->push_gate = 0;
    j->damaged = false;
    j->hidden = false;
    j->seen_call = o->model.call;
    if (row->lease != 0 && row->lease_end_us != 0) {
        restore_lease(o, j, row);
    } else {
        sim_model_set_where(&o->model, j, row->dead_seq != 0 ? SIM_DEAD : SIM_PENDING);
    }
    j->dead_order = row->dead_seq;
    j->dead_why = (uint8_t)row->dead_why;
    j->dead_at_us = row->dead_at_us;
    if (row->dead_seq > o->model.dead_order) {
        o->model.dead_order = row->dead_seq;
    }
    if (!row->unread &&
        (row->body_len != j->body.len ||
         (row->body_hash != 0 && row->body_len > 0 && row->body_hash != j->body.hash))) {
        FAIL("I7", "job %" PRIu64 " (rid %" PRIu64 ") came back with a wrong body", j->id,
             row->rid);
    }
}

static void restore_all(struct sim_oracle *o)
{
    struct sim_model *m = &o->model;

    for (size_t i = 0; i < o->prefix.now.count; i++) {
        const struct sim_row *row = &o->prefix.now.rows[i];
        struct sim_job *j = sim_model_find(m, row->id);

        if (j == NULL) {
            FAIL("I7", "recovery gave job %" PRIu64 ", which nobody pushed", row->id);
            return;
        }
        restore(o, j, row);
    }
    for (size_t i = 0; i < m->job_count; i++) {
        struct sim_job *j = &m->jobs[i];

        if (j->where != SIM_GONE && j->seen_call != m->call) {
            sim_model_set_where(m, j, SIM_GONE);
        }
        j->gone_seen = j->gone_seen && j->where == SIM_GONE && j->gone_noted <= o->history_kept;
        j->gone_noted = 1;
        if (j->where == SIM_GONE && !j->told && j->id != 0) {
            sim_model_forget(m, j); /* it never happened */
        }
    }
    for (unsigned i = 0; i < m->topic_count; i++) {
        struct sim_topic *t = &m->topics[i];

        t->number = 0;
        t->policy = o->prefix.now.policies[i];
        t->stop_over = false;
        t->stop_call = m->call;
        t->bucket.rate_milli = 0; /* full again */
        memset(t->holds, 0, sizeof(t->holds));
        t->pause_until_us = 0;
        t->gate = 0;
        t->kicking = 0;
        t->undoing = false;
    }
    m->gate = 0;
}

void sim_oracle_opened(struct sim_oracle *o, struct tr_engine *e, struct tr_now now)
{
    struct tr_engine_stat stat;
    uint64_t least = o->id_told > o->prefix.rid_high ? o->id_told : o->prefix.rid_high;

    o->engine = e;
    now = sim_tclock_opened(o, now);
    o->model.now = now;
    o->model.call++;
    o->clock_doubt = false;
    if (now.wall_us > o->model.wall_high_us) {
        o->model.wall_high_us = now.wall_us;
    }
    tr_engine_stat(e, &stat);
    sim_prefix_recovered(&o->prefix, e, stat.durable_batch);
    if (o->report->failed) {
        return;
    }
    if (stat.next_rid <= least) {
        FAIL("I6", "the next rid is %" PRIu64 ", but %" PRIu64 " is known outside", stat.next_rid,
             least);
    }
    restore_all(o);
    o->opened_boot_us = now.boot_us;
    o->checkpoints = stat.checkpoints;
    o->checkpoint_batch = stat.durable_batch;
    o->checkpoint_boot_us = now.boot_us;
    o->closed = stat.durable_batch;
    o->durable = stat.durable_batch;
}
