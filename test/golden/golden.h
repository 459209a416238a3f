#ifndef TR_TEST_GOLDEN_GOLDEN_H
#define TR_TEST_GOLDEN_GOLDEN_H

/*
 * A rig on the real disk, for the stores in this folder. See golden.c.
 */

#include "test/unit/rig.h"

#define GOLDEN_NAMES                                                                               \
    {                                                                                              \
        "v1-clean", "v1-killed", "v1-mid-relog", "v1-groups", "v1-groups-killed"                   \
    }

enum {
    GOLDEN_COUNT = 5,
    GOLDEN_GROUPS_IDS = 300, /* of the stores with groups, at most */
    GOLDEN_RELOG_FREE =
        2, /* free slots of v1-mid-relog: of four, the tail and the old one are not */
};

/* When the stores are opened: a little after they were made. */
#define GOLDEN_OPEN_US (RIG_WALL_US + 1000 * RIG_SECOND)

struct golden;

/* Is it one of those with groups? They have a configuration of their own. */
bool golden_has_groups(const char *name);
void golden_configure(struct rig *rig, const char *name);

/* Every job's facts, one line each, and of a store with groups the counts of its topics; freed by
 * the caller. */
char *golden_facts(struct rig *rig, const char *name);

/* Begins rig on dir, as rig_init does on a simulated disk; rig->config is that of the stores. */
struct golden *golden_new(struct rig *rig, const char *dir);

/* Ends both; an engine that was not closed is forgotten, as by a kill. */
void golden_free(struct golden *g);

/* Waits until the disk has done all that it was asked; the engine hears of it later. */
void golden_quiet(struct golden *g);

#endif
