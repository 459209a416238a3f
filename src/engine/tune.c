/*
 * What of the config may change while the engine runs: how much is kept of what does no harm when
 * it goes, and how fast work is done that nobody waits for. Nothing that is durable depends on it.
 *
 * Most of it is looked at whenever it is needed, so it is enough to write it down. What was
 * reckoned from it, and is kept, is reckoned anew: pieces of history beyond the limit go at once,
 * and groups whose time to be scrubbed is further away than it would be now get another.
 */

#include "engine/inner.h"

void tr_engine_tune(struct tr_engine *e, const struct tr_engine_tune *tune)
{
    bool same = e->config.scrub_rate == tune->scrub_rate &&
                e->config.scrub_every_us == tune->scrub_every_us;

    e->config.far_max = tune->far_max;
    e->config.background_rate = tune->background_rate;
    e->config.scrub_rate = tune->scrub_rate;
    e->config.scrub_every_us = tune->scrub_every_us;
    e->config.history_us = tune->history_us;
    e->config.history_bytes = tune->history_bytes;
    tr_histories_limit(&e->histories, tune->history_bytes, tune->history_us, e->clock.t_us);
    if (!same) {
        tr_scrub_retime(e);
    }
}
