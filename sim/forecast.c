/*
 * A forecast is exact at the moment it is given: inside `done` the facts must say the same. That
 * the facts are right is seen by check.c and prefix.c.
 */
#include "oracle.h"

#include "base/err.h"
#include "engine/cells.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

enum { SECONDS = 3600, MINUTES = 60, HOURS = 24 };

/* Is it one of the units that a forecast may have? */
static bool is_unit(uint64_t hour_us, uint64_t unit)
{
    return unit == hour_us / SECONDS || unit == hour_us / MINUTES || unit == hour_us ||
           unit == hour_us * HOURS;
}

/* Not coarser than was promised: nothing is, unless cells are few. */
static void check_grain(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct tr_forecast_view *v = &a->req.out.forecast;
    uint64_t hour_us = o->params->hour_us;
    uint64_t wall = o->model.now.wall_us;
    uint64_t want = a->req.until_us <= wall + hour_us / MINUTES      ? hour_us / SECONDS
                    : a->req.until_us <= wall + 2 * hour_us          ? hour_us / MINUTES
                    : a->req.until_us <= wall + hour_us * HOURS * 60 ? hour_us
                                                                     : hour_us * HOURS;

    if (!is_unit(hour_us, v->resolution_us) || v->first_us % v->resolution_us != 0 ||
        v->step_us % v->resolution_us != 0 || v->until_us % v->resolution_us != 0 ||
        v->step_us < a->req.step_us || v->from_us < v->first_us ||
        v->first_us + (v->count - 1) * v->step_us >= v->until_us ||
        v->first_us + v->count * v->step_us < v->until_us ||
        (v->until_us < a->req.until_us && a->req.until_us > wall)) {
        FAIL("I29", "the steps of a forecast do not fit");
    }
    if (o->params->cells_max >= 1 << 20 && !o->clock_doubt && a->submit_call == o->model.call &&
        !o->rotten && !o->forced && !o->params->mem_small && o->params->read_eio_ppm == 0 &&
        v->resolution_us > want) {
        FAIL("I29", "a forecast has steps of %" PRIu64 " us, not %" PRIu64, v->resolution_us, want);
    }
    if (v->from_us > wall && v->from_us > a->req.from_us) {
        FAIL("I29", "a forecast begins at %" PRIu64 ", after now (%" PRIu64 ")", v->from_us, wall);
    }
}

struct range {
    uint64_t least;
    uint64_t most;
};

/*
 * Delayed jobs are counted. One that is due may still be far, since it is parked or could not be
 * loaded: then it may be counted or not. Without the table of seconds all of the hour, or day, that
 * has begun is. Ready ones that are due ahead, since the clock was set back, are counted by hours;
 * ahead of the engine's time, which is behind the wall clock while it does not believe that one.
 */
static struct range jobs_due(const struct sim_oracle *o, const struct sim_ask *a, uint64_t start,
                             uint64_t end)
{
    uint64_t last_us = TR_CELL_HOUR_MAX * o->params->hour_us; /* later ones are counted there */
    uint64_t from_us = a->req.out.forecast.from_us;
    uint64_t now_us = o->clock_doubt ? from_us : o->model.now.wall_us;
    bool coarse = from_us % o->params->hour_us == 0 && from_us <= o->model.now.wall_us;
    struct range r = {0};

    for (size_t k = 0; k < o->prefix.now.count; k++) {
        const struct sim_row *row = &o->prefix.now.rows[k];
        uint64_t due_us = row->due_us < last_us ? row->due_us : last_us;
        bool ahead = row->away ? due_us > o->model.now.wall_us : row->state == TR_DELAYED;

        if (row->dead_seq == 0 && due_us >= start && due_us < end &&
            (a->req.topic == 0 || a->topic == row->topic)) {
            r.least += ahead;
            r.most += ahead || row->away || coarse || due_us > now_us;
        }
    }
    return r;
}

void sim_check_forecast(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct tr_forecast_view *v = &a->req.out.forecast;

    if (v->count == 0) {
        return;
    }
    check_grain(o, a);
    sim_prefix_read(&o->prefix, o->engine);
    for (unsigned i = 0; i < v->count; i++) {
        uint64_t start = v->first_us + i * v->step_us;
        uint64_t end = start + v->step_us < v->until_us ? start + v->step_us : v->until_us;
        struct range jobs;

        start = start > v->from_us ? start : v->from_us;
        jobs = jobs_due(o, a, start, end);
        if (v->counts[i] < jobs.least || v->counts[i] > jobs.most) {
            FAIL("I29",
                 "the forecast of topic %" PRIu32 " counts %" PRIu64 " jobs from %" PRIu64
                 " to %" PRIu64 " (by %" PRIu64 "), but there are %" PRIu64,
                 a->req.topic, v->counts[i], start, end, v->resolution_us, jobs.least);
            return;
        }
    }
}
