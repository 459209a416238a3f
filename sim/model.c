/*
 * The table behind the oracle.
 *
 * A job is GONE, PENDING (delayed or ready), RESERVED or DEAD. Delayed or ready is not kept but
 * derived, because the engine moves due jobs in slices of its own:
 *
 *     surely delayed   due lies above every wall clock reading so far
 *     surely ready     the engine has had a turn at that clock and asked for no other
 *     in between       either answer is right
 *
 * A lease ends somewhere in [lease_lo, lease_hi]; the model moves it when it sees that it did.
 *
 * A body is a seed and a length; its bytes are made anew whenever they are needed.
 */
#include "model.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

static size_t bucket(uint64_t id)
{
    return (size_t)(id % SIM_HASH);
}

void sim_model_reset(struct sim_model *m, unsigned topics)
{
    m->job_count = 0;
    m->lease_count = 0;
    m->backoff_count = 0;
    memset(m->hash, -1, sizeof(m->hash));
    memset(m->leases, 0, sizeof(m->leases));
    memset(m->topics, 0, sizeof(m->topics));
    m->topic_count = topics;
    for (unsigned i = 0; i < topics; i++) {
        (void)snprintf(m->topics[i].name, sizeof(m->topics[i].name), "topic-%u", i);
        m->topics[i].policy = sim_policy_none();
    }
    m->live = 0;
    m->dead_order = 0;
    m->gate = 0;
    m->now = (struct tr_now){0};
    m->call = 0;
    m->wall_high_us = 0;
}

struct sim_job *sim_model_find(struct sim_model *m, uint64_t id)
{
    int32_t at = m->hash[bucket(id)];

    while (at >= 0 && m->jobs[at].id != id) {
        at = m->jobs[at].next;
    }
    return at >= 0 ? &m->jobs[at] : NULL;
}

struct sim_job *sim_model_find_key(struct sim_model *m, unsigned topic, uint32_t key)
{
    for (size_t i = 0; i < m->job_count && key != 0; i++) {
        struct sim_job *j = &m->jobs[i];

        if (j->where != SIM_GONE && j->topic == topic && j->key == key) {
            return j;
        }
    }
    return NULL;
}

size_t sim_key_text(uint32_t key, char out[SIM_KEY_BYTES])
{
    size_t len = key % 7 == 0 ? SIM_KEY_BYTES : 1 + key / 8;

    memset(out, 'k', SIM_KEY_BYTES);
    out[len - 1] = (char)('a' + key); /* they differ in their last byte, or in length */
    return len;
}

uint32_t sim_key_number(const void *text, size_t len)
{
    char own[SIM_KEY_BYTES];

    for (uint32_t key = 1; key <= SIM_KEYS_MAX && len != 0; key++) {
        if (sim_key_text(key, own) == len && memcmp(own, text, len) == 0) {
            return key;
        }
    }
    return len != 0 ? UINT32_MAX : 0;
}

struct sim_job *sim_model_add(struct sim_model *m, uint64_t id)
{
    struct sim_job *j = &m->jobs[m->job_count];

    if (m->job_count == SIM_JOBS_MAX) {
        return NULL;
    }
    *j = (struct sim_job){.id = id, .next = m->hash[bucket(id)]};
    m->hash[bucket(id)] = (int32_t)m->job_count++;
    sim_model_set_where(m, j, SIM_PENDING);
    return j;
}

void sim_model_forget(struct sim_model *m, struct sim_job *j)
{
    int32_t *link = &m->hash[bucket(j->id)];

    TR_CHECK(j->where == SIM_GONE);
    while (&m->jobs[*link] != j) {
        link = &m->jobs[*link].next;
    }
    *link = j->next;
    j->id = 0;
}

int sim_model_topic_by_name(const struct sim_model *m, const char *name, size_t len)
{
    for (unsigned i = 0; i < m->topic_count; i++) {
        if (strlen(m->topics[i].name) == len && memcmp(m->topics[i].name, name, len) == 0) {
            return (int)i;
        }
    }
    return -1;
}

bool sim_model_new_lease(struct sim_model *m, uint64_t lease)
{
    size_t at = (size_t)(lease * UINT64_C(0x9e3779b97f4a7c15) >> 20) % SIM_LEASES_MAX;

    while (m->leases[at] != 0 && m->leases[at] != lease) {
        at = (at + 1) % SIM_LEASES_MAX;
    }
    if (m->leases[at] == lease) {
        return false;
    }
    if (m->lease_count < SIM_LEASES_MAX - 1) {
        m->leases[at] = lease;
        m->lease_count++;
    }
    return true;
}

void sim_model_set_where(struct sim_model *m, struct sim_job *j, enum sim_where where)
{
    m->live -= j->where != SIM_GONE;
    m->live += where != SIM_GONE;
    j->where = where;
    j->ready_call = 0;
    j->doubt = false;
    if (where != SIM_RESERVED) {
        j->lease = 0;
        j->holder = 0;
    }
}

void sim_body_fill(uint64_t seed, uint8_t *buf, uint32_t len)
{
    struct tr_rng rng = {seed};

    for (uint32_t at = 0; at < len; at += 8) {
        uint64_t word = tr_rng_next(&rng);

        memcpy(buf + at, &word, len - at < 8 ? len - at : 8);
    }
}

uint64_t sim_body_hash(const uint8_t *buf, uint32_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ len;

    for (uint32_t at = 0; at < len; at += 8) {
        uint64_t word = 0;

        memcpy(&word, buf + at, len - at < 8 ? len - at : 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

void sim_job_keep_body(struct sim_job *j)
{
    struct sim_body *last = j->body_count > 0 ? &j->bodies[j->body_count - 1] : NULL;

    if (last != NULL && last->seed == j->body.seed) {
        return;
    }
    if (j->body_count == SIM_BODIES_MAX) {
        memmove(j->bodies, j->bodies + 1, sizeof(j->bodies[0]) * (SIM_BODIES_MAX - 1));
        j->body_count--;
    }
    j->body.rid = j->rid;
    j->bodies[j->body_count++] = j->body;
}

struct sim_body sim_job_body_at(const struct sim_job *j, uint64_t rid)
{
    for (unsigned i = j->body_count; i > 0; i--) {
        if (j->bodies[i - 1].rid <= rid) {
            return j->bodies[i - 1];
        }
    }
    return j->body;
}

bool sim_job_may_be_reserved(const struct sim_job *j)
{
    return j->where == SIM_RESERVED;
}

bool sim_job_is_reserved(const struct sim_model *m, const struct sim_job *j)
{
    return j->where == SIM_RESERVED && !j->doubt && m->span_us < j->lease_lo_us;
}

bool sim_job_may_be_pending(const struct sim_model *m, const struct sim_job *j)
{
    return j->where == SIM_PENDING || (j->where == SIM_RESERVED && !sim_job_is_reserved(m, j));
}

bool sim_job_is_ready(const struct sim_job *j)
{
    return j->where == SIM_PENDING && j->ready_call != 0;
}

bool sim_job_may_be_ready(const struct sim_model *m, const struct sim_job *j)
{
    return sim_job_may_be_pending(m, j) && (j->due_us <= m->wall_high_us || j->own_word);
}

bool sim_job_is_delayed(const struct sim_model *m, const struct sim_job *j)
{
    return j->where == SIM_PENDING && j->due_us > m->wall_high_us && !j->own_word;
}

void sim_job_expire(struct sim_model *m, struct sim_job *j, bool counted)
{
    bool waits = counted && j->holder == 0;

    /* Its connection was being closed, perhaps for many calls: which came first the facts say. */
    j->late_close = !counted && m->span_us >= j->lease_lo_us;
    if (sim_fate_was_last(j) && !j->damaged) {
        sim_fate_die(m, j, TR_WHY_RETRIES);
        m->topics[j->topic].silent_call = m->call;
    } else {
        sim_model_set_where(m, j, SIM_PENDING);
        j->loose_call = waits || j->damaged ? m->call : 0;
    }
    j->timeouts += counted;
}

void sim_job_woken(struct sim_model *m, struct sim_job *j, uint64_t due_us)
{
    sim_model_set_where(m, j, SIM_PENDING);
    j->due_us = due_us;
    j->own_word = true;
}

bool sim_job_before(const struct sim_job *a, const struct sim_job *b, enum tr_order order)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    if (order == TR_ORDER_DUE && a->due_us != b->due_us) {
        return a->due_us < b->due_us;
    }
    return a->id < b->id;
}

bool sim_job_due_before(const struct sim_job *a, const struct sim_job *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->id < b->id;
}

bool sim_topic_is_paused(const struct sim_model *m, unsigned topic)
{
    return m->span_us < m->topics[topic].pause_until_us && !m->topics[topic].pause_unsure;
}

bool sim_topic_may_be_paused(const struct sim_model *m, unsigned topic)
{
    const struct sim_topic *t = &m->topics[topic];

    return t->pause_until_us != 0 || ((t->policy.p.paused & TR_PAUSED_OUT) != 0 && !t->stop_over);
}
