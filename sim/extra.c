/*
 * What few jobs have: tag, ttl, retries, backoff. All of it as numbers: the model need not know
 * more than whether it is the same.
 */
#include "oracle.h"

#include "engine/record.h"
#include "swarm.h"

#include <string.h>

static uint64_t hash_of(const void *at, size_t len)
{
    return len != 0 ? sim_body_hash(at, (uint32_t)len) : 0;
}

static uint64_t hash_of_backoff(const struct tr_backoff *b)
{
    uint8_t bytes[TR_BACKOFF_BYTES];

    return b != NULL ? hash_of(bytes, tr_backoff_encode(bytes, b)) : 0;
}

struct sim_extra sim_extra_of_record(const struct tr_record *rec)
{
    return (struct sim_extra){.tag = hash_of(rec->tag.at, rec->tag.len),
                              .ttl_us = rec->ttl_us,
                              .retries =
                                  rec->mask & TR_FIELD(RETRIES) ? (uint64_t)(rec->retries + 2) : 0,
                              .backoff = hash_of(rec->backoff.at, rec->backoff.len),
                              .beanstalk = (rec->flags & TR_RF_BEANSTALK) != 0};
}

struct sim_extra sim_extra_of_fact(const struct tr_job_fact *f)
{
    return (struct sim_extra){.tag = hash_of(f->tag, f->tag_len),
                              .ttl_us = f->ttl_us,
                              .retries = f->has_retries ? (uint64_t)(f->retries + 2) : 0,
                              .backoff = hash_of(f->backoff, f->backoff_len),
                              .beanstalk = (f->flags & TR_RF_BEANSTALK) != 0};
}

struct sim_extra sim_extra_of_view(const struct tr_job_view *v)
{
    return (struct sim_extra){.tag = hash_of(v->tag, v->tag_len),
                              .ttl_us = v->ttl_us,
                              .retries = v->has_retries ? (uint64_t)(v->retries + 2) : 0,
                              .backoff = hash_of_backoff(v->backoff),
                              .beanstalk = v->beanstalk};
}

struct sim_extra sim_extra_of_push(const struct tr_req *r)
{
    return (struct sim_extra){.tag = hash_of(r->tag, r->tag_len),
                              .ttl_us = r->ttl_us,
                              .retries = r->has_retries ? (uint64_t)(r->retries + 2) : 0,
                              .backoff = hash_of_backoff(r->backoff),
                              .beanstalk = r->beanstalk};
}

struct tr_req sim_push_fixed(const struct sim_model *m, const struct sim_ask *a)
{
    struct tr_req r = a->req;

    tr_policy_fix(&m->topics[a->topic].policy.p, &r);
    return r;
}

bool sim_extra_same(const struct sim_extra *a, const struct sim_extra *b)
{
    return a->tag == b->tag && a->ttl_us == b->ttl_us && a->retries == b->retries &&
           a->backoff == b->backoff && a->beanstalk == b->beanstalk;
}

uint64_t sim_job_ttr(const struct sim_job *j)
{
    return tr_policy_ttr(j->ttr_us);
}

void sim_tag_draw(struct sim_ask *a, struct tr_rng *rng)
{
    a->req.tag_len = (size_t)sim_between(rng, 1, 2);
    memset(a->tag_text, (int)('a' + tr_rng_below(rng, 3)), a->req.tag_len);
    a->req.tag = a->tag_text;
}

bool sim_tag_fits(const struct sim_ask *a, const struct sim_job *j)
{
    return a->req.op != TR_OP_RESERVE || a->req.tag_len == 0 ||
           sim_extra_of_push(&a->req).tag == j->extra.tag;
}

void sim_extra_draw(struct sim_ask *a, struct tr_rng *rng)
{
    if (sim_dice(rng, a->oracle->params->tag_pct)) {
        sim_tag_draw(a, rng);
    }
    if (sim_dice(rng, 20)) {
        a->req.tag_len = (size_t)sim_spread(rng, 1, sizeof a->tag_text);
        memset(a->tag_text, (int)('a' + tr_rng_below(rng, 3)), a->req.tag_len);
        a->req.tag = a->tag_text;
    }
    if (sim_dice(rng, 10)) {
        a->req.ttl_us = sim_spread(rng, 1000, sim_dice(rng, 50) ? 5000000 : TR_DELAY_MAX_US);
    }
    if (sim_dice(rng, 10)) {
        a->req.has_retries = true;
        a->req.retries = sim_dice(rng, 30) ? -1 : (int64_t)sim_between(rng, 0, 4);
    }
    if (sim_dice(rng, 10)) {
        a->backoff = tr_backoff_default();
        if (sim_dice(rng, 50)) {
            a->backoff = (struct tr_backoff){.count = (unsigned)sim_between(rng, 1, 32)};
        }
        for (unsigned i = 0; i < a->backoff.count; i++) {
            a->backoff.list_us[i] = sim_dice(rng, 20) ? 0 : sim_spread(rng, 1, 2000000);
        }
        a->req.backoff = &a->backoff;
    }
    if (sim_dice(rng, 1)) {
        a->wrong = true;
        if (sim_dice(rng, 50)) {
            a->req.tag_len = sizeof a->tag_text + 1;
        } else {
            a->req.ttl_us = TR_DELAY_MAX_US + 1;
        }
    }
}
