/*
 * From topic to topic, from slot to slot.
 *
 *     begin ──► all topics are known ──► the first that may have jobs ──► step ──► ask, ask ...
 *                                              ▲                                    │
 *                                              └─────────── next ◄──────────────────┘
 *
 * Topics go by their number, so one that comes meanwhile is met, and none is met twice.
 */

#include "cluster/tour.h"

#include "base/err.h"

enum { TOPICS_MAX = 1000 };

static void arrived(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_tour *tour = item->tour;

    if (!tour->stays) {
        tour->at = 0;
    }
    tour->stays = false;
    tour->step(c, item);
}

static void to_topic(struct tr_cluster *c, struct tr_item *item, struct tr_ctopic *t)
{
    if (item->topic != NULL) {
        tr_ctopic_unpin(c, item->topic);
        item->topic = NULL;
    }
    tr_item_pin(item, t);
    item->tour->number = t->number;
    tr_ctopic_load(c, item, arrived);
}

/* There are jobs of it, or there may be. */
static bool is_meant(const struct tr_ctopic *t)
{
    return t->known || t->noting || tr_ctopic_has_jobs(t);
}

bool tr_tour_next(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_tour *tour = item->tour;

    for (struct tr_list *n = c->topics.next; tour->all && n != &c->topics; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        if ((t->number > tour->number && is_meant(t)) ||
            (t->number == tour->number && tour->stays)) {
            to_topic(c, item, t);
            return true;
        }
    }
    return false;
}

static void first_topic(struct tr_cluster *c, struct tr_item *item)
{
    unsigned count = 0;

    for (const struct tr_list *n = c->topics.next; n != &c->topics && count <= TOPICS_MAX;
         n = n->next) {
        count += is_meant(TR_CONTAINER_OF(n, struct tr_ctopic, all));
    }
    if (count > TOPICS_MAX) {
        tr_item_refuse(c, item, TARRY_EUNSUPPORTED,
                       "there are more than 1000 topics: name one of them");
    } else if (!tr_tour_next(c, item)) {
        item->tour->step(c, item);
    }
}

void tr_tour_begin(struct tr_cluster *c, struct tr_item *item, struct tr_tour *tour,
                   tr_item_fn *step)
{
    struct tr_ctopic *t = tr_ctopic_by_number(c, item->req->topic);

    item->tour = tour;
    tour->step = step;
    if (item->req->topic == 0 && item->op != TR_OP_PURGE) {
        tour->all = true;
        if (item->op == TR_OP_FORECAST) { /* /metrics asks for it, and then tells counts */
            tr_ctopics_all(c, item, first_topic);
        } else {
            tr_ctopics_now(c, item, first_topic);
        }
    } else if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else {
        to_topic(c, item, t);
    }
}

bool tr_tour_here(const struct tr_item *item)
{
    return item->topic != NULL && item->tour->at < item->topic->spread;
}

void tr_tour_ask(struct tr_cluster *c, struct tr_item *item, enum tr_cl_kind kind)
{
    item->slot = item->topic->spots[item->tour->at].slot;
    tr_lane_put(c, kind, item);
}

struct tr_item *tr_tour_only(const struct tr_clane *lane)
{
    return TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
}

struct tr_item *tr_tour_come(struct tr_cluster *c, struct tr_clane *lane, int err)
{
    struct tr_item *item = tr_lane_next(lane);

    item->flying = false;
    if (err != TARRY_OK || item->req == NULL) {
        tr_item_finish(c, item, err);
        return NULL;
    }
    return item;
}
