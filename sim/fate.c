/*
 * What the push fixed of a job, or its topic's policy then: attempts, backoff.
 *
 * Some of it happens without an answer: a lease runs out, and the job is delayed or dead. The model
 * hears of it at the end of the call, or by an answer of the same call; until then the engine is
 * believed within what is allowed.
 */
#include "model.h"

bool sim_fate_was_last(const struct sim_job *j)
{
    int64_t retries = j->extra.beanstalk ? -1 : 16;

    if (j->extra.retries != 0) {
        retries = (int64_t)j->extra.retries - 2;
    }
    return retries >= 0 && j->reserves > (uint64_t)retries;
}

void sim_fate_learn(struct sim_model *m, const struct tr_req *r)
{
    if (r->op == TR_OP_PUSH && r->backoff != NULL) {
        m->backoffs[m->backoff_count++ % SIM_BACKOFFS_MAX] =
            (struct sim_backoff){sim_extra_of_push(r).backoff, *r->backoff};
    }
}

/* What the push fixed, else the default; false: none. */
static bool backoff_of(const struct sim_model *m, const struct sim_job *j, struct tr_backoff *b)
{
    for (size_t i = 0; i < m->backoff_count && i < SIM_BACKOFFS_MAX && j->extra.backoff != 0; i++) {
        if (m->backoffs[i].hash == j->extra.backoff) {
            *b = m->backoffs[i].backoff;
            return true;
        }
    }
    *b = tr_backoff_default();
    return !j->extra.beanstalk;
}

void sim_fate_backoff(const struct sim_model *m, const struct sim_job *j, uint64_t *least,
                      uint64_t *most)
{
    struct tr_backoff b;
    bool any = backoff_of(m, j, &b);
    uint32_t jitter = b.count == 0 ? b.jitter_thousandths : 0;

    b.jitter_thousandths = 0;
    *least = any ? tr_backoff_delay(&b, j->reserves != 0 ? j->reserves : 1, 0) : 0;
    *most = *least + (jitter != 0 ? *least / 1000 * jitter + 1000 : 0);
}

bool sim_fate_may_be_dead(const struct sim_model *m, const struct sim_job *j)
{
    bool back = j->where == SIM_RESERVED ? !sim_job_is_reserved(m, j) : j->loose_call == m->call;

    return (back && (sim_fate_was_last(j) || j->damaged)) || sim_expiry_may(m, j);
}

void sim_fate_die(struct sim_model *m, struct sim_job *j, enum tr_why why)
{
    sim_model_set_where(m, j, SIM_DEAD);
    j->dead_order = ++m->dead_order;
    j->dead_at_us = m->now.wall_us;
    m->topics[j->topic].dead_most++;
    j->dead_why = (uint8_t)why;
    j->own_word = false;
}

void sim_fate_kicked(struct sim_job *j, bool beanstalk)
{
    if (j->where == SIM_DEAD && (!beanstalk || j->dead_why == TR_WHY_RETRIES)) {
        j->reserves = 0;
    }
}

void sim_fate_adopt(struct sim_model *m, struct sim_job *j, const struct tr_job_view *v)
{
    if (j->where == SIM_RESERVED && !sim_job_is_reserved(m, j) && v->timeouts == j->timeouts + 1 &&
        v->state != TR_RESERVED) {
        sim_job_expire(m, j, true); /* it is only looked at: what it came to is judged later */
        if (j->where == SIM_PENDING) {
            j->delay_us = v->delay_us;
            j->due_us = v->due_us;
        }
    } else if (j->loose_call == m->call && j->where == SIM_PENDING) {
        j->delay_us = v->delay_us;
        j->due_us = v->due_us;
        j->loose_call = 0;
    }
}
