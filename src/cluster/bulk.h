#ifndef TR_CLUSTER_BULK_H
#define TR_CLUSTER_BULK_H

/*
 * Changes of all jobs that match a filter: what bulk.c (jobs in Redis) and sql_bulk.c (rows of a
 * database) share.
 */

#include "base/map.h"
#include "cluster/tour.h"
#include "cluster/walk.h"

enum { TR_BULK_CHANGES = 128 }; /* in one call */

/* Behind this row of those of a state. */
struct tr_bulk_row {
    uint64_t us, id;
};

struct tr_cbulk {
    struct tr_list link;         /* of those that can be gone on with, the oldest first */
    uint64_t mark;               /* its cursor: this, */
    uint64_t begun_us;           /* and when it was kept, boot time; */
    uint64_t made_us;            /* or, with a database: jobs are meant that were made until then */
    uint64_t since_us;           /* not 0: not those that were changed since */
    bool marking;                /* up to which ids it goes is not known yet */
    struct tr_tour tour;         /* where it is, */
    char set;                    /* and in which set of that slot; 0: none yet */
    struct tr_walk from;         /* where the page began whose jobs are changed, */
    struct tr_walk next;         /* and where the one behind it does */
    struct tr_bulk_row from_row; /* the same, of rows */
    struct tr_bulk_row next_row;
    struct tr_map met;
    uint64_t done, passed, limit;
    bool over; /* one that matches was left for the limit's sake */
    unsigned count;
    uint64_t ids[TR_BULK_CHANGES];
    uint64_t last[TR_SLOTS_MAX]; /* up to which id, by slot; 0: nobody had a job there */
};

/* One that matches: it is to be changed, is counted, or was met before. */
TR_MUST_USE int tr_bulk_sift(struct tr_item *item, const struct tr_listed_job *job,
                             uint64_t now_us);
/* A page was sifted: what was found is changed, or the next page is asked for. */
void tr_bulk_sifted(struct tr_cluster *c, struct tr_item *item);
/* What became of each that was to be changed: O done, P its state is in the way, N it is gone or
 * not meant any more. */
TR_MUST_USE int tr_bulk_count_up(struct tr_cluster *c, struct tr_item *item, struct tr_span said);
/* That is done: on with it. */
void tr_bulk_changed(struct tr_cluster *c, struct tr_item *item);

#endif
