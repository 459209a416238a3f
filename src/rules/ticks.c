/*
 * Moments of a cron expression, span by span: as long as the offset of the zone does not change,
 * the moments are local times less the offset. Only the edges of a span need thought.
 *
 *     spring: clocks jump from A to B            autumn: clocks go back from B to A
 *
 *     local  ----A        B----                  local  ----A====B
 *                                                               A====B----      === exists twice
 *
 *                       in the gap, A to B          what exists twice
 *     hours are fixed   once, when the gap is over  at the first of the two
 *     ... a step        as long after A as the      at the first of the two
 *                       clock before would say
 *     ... all           the same                    at both
 *
 * So a step of hours or minutes follows the time that has gone by: with hours of "0/2" and a gap
 * from 2:00 to 3:00 the one of 2:00 is two hours after midnight, when clocks show 3:00; none is
 * lost or doubled. With all hours, each hour that goes by has its own: what would fall into the gap
 * is at the same moment as what stands behind it, and is one.
 *
 * Two local times that fall on one moment are one tick.
 */

#include "rules/ticks.h"

#define HORIZON_S (INT64_C(100) * 366 * 86400)

/* The least moment in the span, from `from` on, that comes from the gap at its beginning. */
static bool from_gap(const struct tr_cron *c, struct tr_zone_span span, int32_t before_east,
                     int64_t from, int64_t *moment)
{
    int64_t gap = span.from_s + before_east;
    int64_t gap_end = span.from_s + span.east_s;
    int64_t local;

    if (c->hours_are == TR_CRON_HOURS_FIXED) {
        *moment = span.from_s;
        return from <= span.from_s && tr_cron_next(c, gap, gap_end, &local);
    }
    gap = from + before_east > gap ? from + before_east : gap;
    if (!tr_cron_next(c, gap, gap_end, &local)) {
        return false;
    }
    *moment = local - before_east;
    return *moment < span.until_s;
}

/* The least moment in the span from `from` on. */
static bool in_span(const struct tr_cron *c, const struct tr_zone *z, struct tr_zone_span span,
                    int64_t from, int64_t *moment)
{
    int64_t first = from + span.east_s;
    int64_t until = span.until_s < from + HORIZON_S ? span.until_s : from + HORIZON_S;
    int64_t local;
    int64_t gap = 0;
    bool found;
    bool has_gap = false;

    if (span.from_s != INT64_MIN) {
        int32_t before_east = tr_zone_at(z, span.from_s - 1).east_s;
        int64_t again = span.from_s + before_east; /* shown before, up to here */

        if (c->hours_are != TR_CRON_HOURS_ALL && first < again) {
            first = again;
        }
        has_gap = before_east < span.east_s && from_gap(c, span, before_east, from, &gap);
    }
    found = tr_cron_next(c, first, until + span.east_s, &local);
    *moment = found ? local - span.east_s : 0;
    if (has_gap && (!found || gap < *moment)) {
        *moment = gap;
        found = true;
    }
    return found;
}

bool tr_ticks_next(const struct tr_cron *c, const struct tr_zone *z, int64_t after, int64_t before,
                   int64_t *moment)
{
    int64_t horizon = after + HORIZON_S < before ? after + HORIZON_S : before;
    int64_t from = after + 1;

    while (from < horizon) {
        struct tr_zone_span span = tr_zone_at(z, from);

        if (in_span(c, z, span, from, moment)) {
            return *moment < horizon;
        }
        if (span.until_s == INT64_MAX) {
            return false;
        }
        from = span.until_s;
    }
    return false;
}
