#ifndef TR_ENGINE_GROUP_H
#define TR_ENGINE_GROUP_H

/*
 * Groups: what one promotion made. A group has up to three files,
 *
 *     g<no>.run    its live jobs by (due, rid)
 *     g<no>.dead   its dead jobs by (topic, dead_seq)
 *     g<no>.six    where each of them is
 *
 * and covers a range of rids; ranges are disjoint. Head and fences of the sidecar and the footers
 * of the runs are in memory while the group is in use. See group.c.
 */

#include "base/bitmap.h"
#include "base/check.h"
#include "base/mem.h"
#include "engine/manifest.h"
#include "engine/run.h"
#include "engine/sidecar.h"
#include "engine/slot.h"
#include "port/disk.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_group_file { TR_GROUP_LIVE, TR_GROUP_DEAD, TR_GROUP_SIDE };

enum {
    TR_GROUP_RUNS = 2,
    TR_FILES_MAX = TR_MANIFEST_SLOTS_MAX + TR_GROUPS_MAX * TR_GROUP_RUNS /* that hold records */
};

struct tr_group {
    struct tr_manifest_group is;
    uint32_t index;                     /* in the table, as long as it lives */
    struct tr_slot runs[TR_GROUP_RUNS]; /* to jobs and readers, a run is like a slot */
    uint8_t *bytes[TR_GROUP_RUNS];      /* of the footers */
    struct tr_run_footer footers[TR_GROUP_RUNS];
    int side_file; /* -1: not open */
    struct tr_sidecar side;
    uint32_t longest;     /* block of both, bytes */
    uint32_t next_block;  /* of the live run: in those before it nothing is left to load */
    bool owes;            /* blocks of the live run found no place in the line of mend.c, */
    uint32_t owed_block;  /* this one first */
    unsigned readers;     /* of the sidecar */
    uint64_t alive;       /* of the rids that it covers, when they were last counted */
    bool leaving;         /* nobody begins to read it: the next manifest is without it, */
    bool replaced;        /* or this one is: it goes when the last one has left it */
    bool merging;         /* it is an input of the merge under way */
    bool hollow;          /* none of its jobs is alive, only such whose records are in slots */
    bool has_read;        /* at a start: */
    struct tr_bitmap has; /* the rids in it, */
    bool unsure;          /* but for those in blocks that cannot be read; */
    uint64_t doubts;      /* jobs that were met in slots, and might be among these */
    uint64_t scrub_at;    /* boot: when it is to be read through; 0: not said yet */
    bool spoiled;         /* a page of its sidecar cannot be read: it is to be made again */
    bool stuck;           /* a live record in it cannot be read, so it is not merged */
    bool vain;            /* a merge made it that was to clear much away, and did not, */
    uint64_t vain_live;   /* with so many live jobs by its counters */
    bool broken;          /* salvage: some bytes of it are bad, repair writes it again */
};

struct tr_groups {
    struct tr_mem *mem;
    struct tr_group *table[TR_GROUPS_MAX]; /* NULL: unused */
    struct tr_group *order[TR_GROUPS_MAX]; /* by rids */
    uint32_t count;
    uint32_t replaced; /* groups in the table that are only waited for */
    uint64_t next_no;
    uint64_t covered; /* rids up to this one are in groups, or have been */
};

void tr_groups_init(struct tr_groups *gs, struct tr_mem *mem);
void tr_groups_fini(struct tr_groups *gs);

/* A group with a number of its own, not in order yet; or NULL: no memory, or too many. */
struct tr_group *tr_group_new(struct tr_groups *gs);
/* It covers rids behind all others. */
void tr_groups_add(struct tr_groups *gs, struct tr_group *g);
/* It takes the place of these neighbours, which are in no order any more. */
void tr_groups_replace(struct tr_groups *gs, struct tr_group *const *old, unsigned count,
                       struct tr_group *g);
/* Its files are closed. */
void tr_group_free(struct tr_groups *gs, struct tr_group *g);

/* The group that covers rid, or NULL. */
struct tr_group *tr_groups_find(const struct tr_groups *gs, uint64_t rid);

/* The one with this number, or NULL: it is in no order, or no more. */
struct tr_group *tr_groups_by_no(const struct tr_groups *gs, uint64_t no);

/* Jobs that its files have; bytes of those files. */
uint64_t tr_group_jobs(const struct tr_group *g);
uint64_t tr_group_bytes(const struct tr_group *g);

/*
 * Jobs that are alive and have their record in it, and bytes of its files that these make up. The
 * runs' counters say so (live, live_bytes), as those of slots do, but only both of them together.
 * The count is exact. Bytes are, until a start: then they are reckoned from the mean (is.mean).
 */
uint64_t tr_group_live(const struct tr_group *g);
uint64_t tr_group_live_bytes(const struct tr_group *g);
void tr_group_set_live(struct tr_group *g, uint64_t live); /* at a start */
/* What a manifest is to say of it. */
struct tr_manifest_group tr_group_described(const struct tr_group *g);

/* The run with this number, from TR_MANIFEST_SLOTS_MAX on. */
struct tr_slot *tr_groups_run(const struct tr_groups *gs, uint32_t number);
struct tr_group *tr_groups_of_run(const struct tr_groups *gs, uint32_t number);

void tr_group_name(char name[TR_IO_NAME_MAX], uint64_t no, enum tr_group_file file);
/* The number of the group that a file belongs to, or 0: it is no file of a group. */
uint64_t tr_group_number(const char *name);

/* buf holds all that follows the blocks of a run; if it is good, the group keeps it. */
TR_MUST_USE int tr_group_take_footer(struct tr_group *g, unsigned run, const struct tr_run_of *of,
                                     const struct tr_run_trailer *trailer, uint8_t *buf);

struct tr_run_of tr_group_run_of(const struct tr_group *g, unsigned run,
                                 const uint8_t uuid[TR_UUID]);
struct tr_side_of tr_group_side_of(const struct tr_group *g, const uint8_t uuid[TR_UUID]);

#endif
