/*
 * The config is read again: what may change while the engine runs does, in the midst of whatever
 * goes on, and stays so over restarts. No promise depends on it. History keeps its limits, as the
 * oracle wants to see all of it.
 */
#include "run.h"

#define SEC UINT64_C(1000000)

void sim_tune(struct sim_run *r)
{
    struct sim_params *p = &r->params;
    struct tr_engine_config c;
    struct tr_engine_tune tune;

    p->far_max = sim_spread(&r->rng, 1, 40);
    p->background_rate = sim_dice(&r->rng, 50) ? sim_spread(&r->rng, 10000, 100000000) : 0;
    p->scrub_rate = sim_dice(&r->rng, 80) ? sim_spread(&r->rng, 100000, 100000000) : 0;
    p->scrub_every_us = sim_dice(&r->rng, 80) ? sim_spread(&r->rng, SEC, 60 * SEC) : 0;
    sim_run_config(r, &c);
    tune = (struct tr_engine_tune){.far_max = c.far_max,
                                   .background_rate = c.background_rate,
                                   .scrub_rate = c.scrub_rate,
                                   .scrub_every_us = c.scrub_every_us,
                                   .history_us = c.history_us,
                                   .history_bytes = c.history_bytes};
    tr_engine_tune(r->engine, &tune);
    sim_run_turn(r);
}
