#ifndef TR_RULES_METER_H
#define TR_RULES_METER_H

/*
 * Meters: what happened to the jobs of a topic since the start, for charts and alerts. See meter.c.
 *
 * There are so many (config.meters) and no more, for the busiest topics; what happens to the others
 * is added up in one. A meter belongs to a name: it outlives its topic, which goes when it has no
 * job left and comes back with the next one.
 */

#include "base/check.h"
#include "base/hist.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/name.h"
#include "port/meter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_METERS_MAX = 1000 };

struct tr_meter_hold;

struct tr_meter {
    uint64_t counts[TR_METERED_COUNT];
    struct tr_hist late;
    struct tr_hist wait;
    struct tr_meter_hold *hold; /* of the topic that has it now, or NULL */
    uint64_t seen;              /* sum of the counts when it was last looked at, */
    uint64_t heat;              /* and what there was of late then */
    uint32_t name_len;
    char name[TR_TOPIC_NAME_MAX];
};

/* A topic's end of it. */
struct tr_meter_hold {
    struct tr_meter *meter; /* never NULL */
    uint64_t heat;          /* of late, while it has none of its own */
    uint64_t round;         /* of the hand, when that was counted */
    uint64_t lost;          /* looks that had begun when it was left without one */
};

struct tr_meters {
    struct tr_mem *mem;
    unsigned max;
    unsigned count;
    struct tr_meter *seats[TR_METERS_MAX];
    struct tr_map by_name; /* by a hash of the name */
    struct tr_meter other;
    unsigned hand;  /* the seat that is looked at next, */
    uint64_t round; /* and how often it has gone round */
    uint64_t told;  /* looks that have begun; 0: nobody looks at them */
    unsigned swaps; /* so many have changed their topic since he last did, */
    unsigned still; /* and so many who want to do so are refused for now */
    unsigned looks; /* so many look just now, */
    unsigned begun; /* of so many who began since nobody did */
};

/* max: at most TR_METERS_MAX. Before the first topic. */
void tr_meters_init(struct tr_meters *ms, struct tr_mem *mem, unsigned max);
void tr_meters_fini(struct tr_meters *ms);

/* A topic of that name is there: it gets the meter of its name, or a new one while there are any,
 * or the one of all others. Never fails. */
void tr_meters_join(struct tr_meters *ms, struct tr_meter_hold *hold, const char *name, size_t len);

/* It goes; its meter stays. */
void tr_meters_leave(struct tr_meters *ms, struct tr_meter_hold *hold);

/* Something happens to a topic without a meter of its own: where to count it. If it is busier than
 * one that has one, it gets that, and what the other one had goes to all others. */
struct tr_meter *tr_meters_seek(struct tr_meters *ms, struct tr_meter_hold *hold, const char *name,
                                size_t len);

/* Somebody begins to look at all of them, or goes on: until he has seen all none changes its topic.
 * If he never says so, they do so again after a while. */
void tr_meters_look(struct tr_meters *ms, bool begins);
void tr_meters_looked(struct tr_meters *ms); /* he has */

/* The sum over all of them, which never shrinks. */
uint64_t tr_meters_sum(const struct tr_meters *ms, enum tr_metered what);

bool tr_meters_ok(const struct tr_meters *ms);

#endif
