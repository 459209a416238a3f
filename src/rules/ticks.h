#ifndef TR_RULES_TICKS_H
#define TR_RULES_TICKS_H

/* When a cron expression comes true in a zone. See ticks.c for summer and winter. */

#include "rules/cron.h"
#include "rules/zone.h"

/*
 * The first moment after `after` at which it does, in seconds since 1970. False: there is none
 * before `before`, or within 100 years.
 */
bool tr_ticks_next(const struct tr_cron *c, const struct tr_zone *z, int64_t after, int64_t before,
                   int64_t *moment);

#endif
