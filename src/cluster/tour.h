#ifndef TR_CLUSTER_TOUR_H
#define TR_CLUSTER_TOUR_H

/*
 * Requests that go from slot to slot of a topic, and perhaps from topic to topic: purge, list,
 * forecast, bulk. See tour.c. One has one call under way, so that it does not push others aside.
 */

#include "cluster/inner.h"

struct tr_tour {
    tr_item_fn *step; /* it has come to item->topic; NULL or behind its last slot: there is none */
    bool all;         /* topics, */
    uint32_t number;  /* up to this one */
    unsigned at;      /* which of the topic's slots is next */
    bool stays;       /* it goes on there, also in the slot */
};

/* Through the topic that was asked for; 0: through all. It is the item's. */
void tr_tour_begin(struct tr_cluster *c, struct tr_item *item, struct tr_tour *tour,
                   tr_item_fn *step);
/* On to the next topic, if all are meant. False: that was the last. */
bool tr_tour_next(struct tr_cluster *c, struct tr_item *item);
/* Is there a slot where it is? */
bool tr_tour_here(const struct tr_item *item);
/* That slot is asked. Once more: tr_lane_put, for the topic may have other slots by then. */
void tr_tour_ask(struct tr_cluster *c, struct tr_item *item, enum tr_cl_kind kind);
/* The one item of a lane's call; */
struct tr_item *tr_tour_only(const struct tr_clane *lane);
/* and what it asked for came. NULL: it is damaged or nobody wants it any more. */
struct tr_item *tr_tour_come(struct tr_cluster *c, struct tr_clane *lane, int err);

#endif
