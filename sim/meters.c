/*
 * Somebody watches: all meters are gone through, now and then, as a scrape would do it. No name
 * stands there twice, what was counted never shrinks while the engine runs, nothing that happened
 * is forgotten, and jobs are counted as the statistics count them.
 */
#include "run.h"

#include <inttypes.h>
#include <string.h>

enum { NAMES_MAX = 64 };

#define FAIL(...) sim_fail(&r->report, "I33", __VA_ARGS__)

struct names {
    const char *at[NAMES_MAX];
    size_t len[NAMES_MAX];
    unsigned count;
};

static void check_name(struct sim_run *r, struct names *names, const struct tr_meter_view *v)
{
    for (unsigned i = 0; i < names->count; i++) {
        if (names->len[i] == v->name_len && memcmp(names->at[i], v->name, v->name_len) == 0) {
            FAIL("the meter of %.*s is told twice", (int)v->name_len, v->name);
        }
    }
    if (names->count < NAMES_MAX) {
        names->at[names->count] = v->name;
        names->len[names->count++] = v->name_len;
    }
}

static void check_sums(struct sim_run *r, const uint64_t sums[TR_METERED_COUNT],
                       const struct tr_meter_view *other)
{
    struct sim_meters *m = &r->meters;
    struct tr_engine_stat stat;

    tr_engine_stat(r->engine, &stat);
    if (m->starts != r->starts) {
        *m = (struct sim_meters){.starts = r->starts};
    }
    for (unsigned i = 0; i < TR_METERED_COUNT; i++) {
        if (sums[i] < m->sums[i] || other->counts[i] < m->other[i]) {
            FAIL("count %u of the meters goes back: %" PRIu64 " to %" PRIu64 ", of others %" PRIu64
                 " to %" PRIu64,
                 i, m->sums[i], sums[i], m->other[i], other->counts[i]);
        }
        m->sums[i] = sums[i];
        m->other[i] = other->counts[i];
    }
    if (sums[TR_METERED_PUSHED] != stat.pushed) {
        FAIL("the meters say %" PRIu64 " pushed, the engine %" PRIu64, sums[TR_METERED_PUSHED],
             stat.pushed);
    }
    if (other->jobs[TR_DELAYED] + other->jobs[TR_READY] != stat.delayed + stat.ready ||
        other->jobs[TR_RESERVED] != stat.reserved || other->jobs[TR_DEAD] != stat.dead) {
        FAIL("the meters have other jobs than the statistics");
    }
}

void sim_meters_look(struct sim_run *r)
{
    struct tr_meter_view views[TR_METER_VIEWS];
    struct names names = {.count = 0};
    uint64_t sums[TR_METERED_COUNT] = {0};
    uint64_t jobs = 0;
    unsigned from = 0;
    unsigned n;

    tr_engine_meters_begin(r->engine);
    do {
        n = tr_engine_meters(r->engine, from, sim_dice(&r->rng, 50), views);
        if (n == 0) {
            FAIL("the meters end without that of all others");
            return;
        }
        for (unsigned i = 0; i < n; i++) {
            check_name(r, &names, &views[i]);
            for (unsigned k = 0; k < TR_METERED_COUNT; k++) {
                sums[k] += views[i].counts[k];
            }
            for (unsigned s = TR_DELAYED; s <= TR_DEAD && !views[i].other; s++) {
                jobs += views[i].jobs[s];
            }
        }
        from += n;
    } while (!views[n - 1].other);
    tr_engine_meters_end(r->engine);
    check_sums(r, sums, &views[n - 1]);
    for (unsigned s = TR_DELAYED; s <= TR_DEAD; s++) {
        jobs -= views[n - 1].jobs[s] < jobs ? views[n - 1].jobs[s] : jobs;
    }
    if (jobs != 0) {
        FAIL("topics with a meter have %" PRIu64 " jobs more than there are", jobs);
    }
}
