/*
 * Jobs that are named by key.
 *
 *     (topic, key) -> hash -> rids in the table of keys -> alive? -> the key that the job has
 *
 * A hit counts when the key is compared: with that of the job in memory, after a far one has been
 * brought back by the loader, as a visitor. Then everything is tested again from the beginning; so
 * a request by key stalls while records are read, and is resolved anew each time it is tried.
 *
 * Of keys that collide all far jobs are asked for at once. One whose record cannot be read may be
 * the one that is meant: TARRY_EDAMAGED, unless another has the key.
 *
 * A look-up is not charged: it takes less than a microsecond, and a request that stalls for another
 * reason does it again each turn; if that were work, the engine would never sleep.
 *
 * Stale entries (keys.c) go when they are met here, and by a walk over the table when there may be
 * too many of them.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum { TIDY_PER_UNIT = 4 };

static bool is_meant(const struct tr_job *job, const struct tr_topic *t, struct tr_bytes key)
{
    return job->topic == t &&
           (tr_bytes_same(tr_extra_key(job->extra), key) || TR_MUTANT(KEY_NOT_COMPARED));
}

int tr_lookup_key(struct tr_engine *e, const struct tr_topic *t, struct tr_bytes key,
                  struct tr_job **job)
{
    struct tr_keys *keys = &e->state.keys;
    struct tr_siphash hash = tr_keyer_hash(&keys->keyer, t->number, key);
    uint64_t rid = 0;
    int err = TARRY_ENOTFOUND;

    while ((rid = tr_keymap_find(&keys->map, hash, rid)) != 0) {
        int got;

        if (!tr_bitmap_test(&e->state.jobs.alive, rid) && !TR_MUTANT(STALE_KEY_BELIEVED)) {
            TR_CHECK(tr_keymap_take(&keys->map, hash, rid));
            continue;
        }
        got = tr_load_by_rid(e, rid, job);
        if (got == TARRY_OK && is_meant(*job, t, key)) {
            return TARRY_OK;
        }
        if (got == TARRY_EFULL || (got != TARRY_OK && err == TARRY_ENOTFOUND)) {
            err = got == TARRY_ENOTFOUND ? TARRY_EDAMAGED : got; /* it is alive, and nowhere */
        }
    }
    *job = NULL;
    return err;
}

static bool names_job(enum tr_op op)
{
    switch (op) {
    case TR_OP_RESERVE_JOB:
    case TR_OP_DELETE:
    case TR_OP_RELEASE:
    case TR_OP_RETURN:
    case TR_OP_BURY:
    case TR_OP_TOUCH:
    case TR_OP_KICK_JOB:
    case TR_OP_FIRE:
    case TR_OP_EDIT:
    case TR_OP_PEEK:
    case TR_OP_STAT_JOB:
    case TR_OP_HISTORY:
        return true;
    default:
        return false;
    }
}

int tr_lookup_resolve(struct tr_engine *e, struct tr_req *r)
{
    const struct tr_topic *t;
    struct tr_job *job;
    int err;

    if (r->key_len == 0 || !names_job(r->op)) {
        return TARRY_OK;
    }
    if (r->key_len > TR_KEY_MAX) {
        return TARRY_EINVAL;
    }
    t = tr_topics_by_handle(&e->state.topics, r->topic);
    if (t == NULL) {
        return TARRY_ENOTFOUND;
    }
    err = tr_lookup_key(e, t, (struct tr_bytes){(const uint8_t *)r->key, r->key_len}, &job);
    if (err == TARRY_OK) {
        r->id = job->id;
    }
    return err;
}

/* One unit of it. False: that was all. */
static bool tidy_some(struct tr_engine *e, struct tr_keys *keys)
{
    for (unsigned i = 0; i < TIDY_PER_UNIT; i++) {
        if (!tr_keymap_next(&keys->map, &keys->at)) {
            return false;
        }
        if (!tr_bitmap_test(&e->state.jobs.alive, tr_keymap_rid(keys->at))) {
            (void)tr_keymap_take(&keys->map, (struct tr_siphash){keys->at.high, keys->at.low},
                                 tr_keymap_rid(keys->at));
        }
    }
    return true;
}

void tr_lookup_tidy(struct tr_engine *e)
{
    struct tr_keys *keys = &e->state.keys;
    unsigned rest; /* half of the slice is for everything else */

    if (!keys->tidying) {
        if (!tr_keys_wants_tidying(keys, e->state.jobs.alive.members) ||
            TR_MUTANT(KEYS_NOT_TIDIED)) {
            return;
        }
        keys->tidying = true;
        keys->at = (struct tr_keymap_entry){0};
        keys->stale = 0;
    }
    rest = e->work / 2;
    e->work -= rest;
    while (keys->tidying && tr_engine_spend(e)) {
        keys->tidying = tidy_some(e, keys);
    }
    e->work += rest;
}
