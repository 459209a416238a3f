/*
 * Jobs as they are, with body or without; and what is known of what happened to them. A live job is
 * its own record: when it was pushed, when it became ready last, and when it died are in its
 * header. When it was handed out is not kept, only how often; and nobody keeps anything of one that
 * is gone.
 */

#include "base/err.h"
#include "cluster/desk.h"

static void to_lane(struct tr_cluster *c, struct tr_item *item)
{
    item->slot = tr_place_slot_of(item->id);
    tr_lane_put(c, TR_CL_LOOK, item);
}

void tr_look_ask(struct tr_cluster *c, struct tr_item *item)
{
    tr_find_job(c, item, to_lane);
}

void tr_look_at(struct tr_cluster *c, struct tr_item *item)
{
    to_lane(c, item);
}

bool tr_look_body(const struct tr_item *item)
{
    return item->req != NULL && item->op != TR_OP_STAT_JOB && item->op != TR_OP_HISTORY &&
           item->op != TR_OP_RESTORE;
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    bool bodies = false;

    (void)c;
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        bodies = bodies || tr_look_body(TR_CONTAINER_OF(n, struct tr_item, link));
    }
    tr_eval_look(&lane->call.eval, bodies);
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);

        tr_eval_look_at(&lane->call.eval, tr_lane_topic(lane, item->topic), item->id);
    }
}

static void tell_history(struct tr_cluster *c, struct tr_req *r, const struct tr_header *h,
                         uint64_t now_us)
{
    struct tr_event *e = c->events;
    bool at_once = h->due_us <= h->created_us || h->attempts > 0;
    unsigned n = 0;

    e[n++] =
        (struct tr_event){.at_us = h->created_us,
                          .what = TR_EVENT_PUSHED,
                          .state = (uint8_t)(at_once && h->delay_us == 0 ? TR_READY : TR_DELAYED)};
    if (tr_header_state(h, now_us) != TR_DELAYED && h->due_us > h->created_us &&
        h->due_us <= now_us) {
        e[n++] = (struct tr_event){
            .at_us = h->due_us, .what = TR_EVENT_READY, .state = (uint8_t)TR_READY};
    }
    if (tr_header_state(h, now_us) == TR_DEAD) {
        e[n++] = (struct tr_event){
            .at_us = h->at_us, .what = TR_EVENT_DEAD, .state = (uint8_t)TR_DEAD, .why = h->why};
    }
    r->out.events = e;
    r->out.number = n;
}

void tr_look_show(struct tr_cluster *c, struct tr_item *item, const struct tr_span said[2],
                  uint64_t now_us)
{
    struct tr_req *r = item->req;
    struct tr_header h;

    if (said[0].len == 0) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    if (tr_header_read(said[0].at, said[0].len, &h) != TARRY_OK) {
        tr_item_finish(c, item, TARRY_EDAMAGED);
        return;
    }
    if (item->op == TR_OP_RESERVE_JOB && (h.set != 'p' || h.lease != item->lease)) {
        tr_item_finish(c, item, TARRY_ENOTFOUND); /* a failover has undone that it was reserved */
        return;
    }
    if (r != NULL) {
        tr_item_view(c, item, &h, now_us);
        r->out.name = item->topic->name;
        r->out.name_len = item->topic->name_len;
        r->out.job.body = (const uint8_t *)said[1].at;
        r->out.job.body_len = (uint32_t)said[1].len;
        if (item->op == TR_OP_HISTORY) {
            tell_history(c, r, &h, now_us);
        }
    }
    tr_item_finish(c, item, TARRY_OK);
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item;

    for (size_t i = 0; a->count == 2 * (size_t)lane->count && (item = tr_lane_next(lane)) != NULL;
         i++) {
        tr_look_show(c, item, &a->items[2 * i], a->now_us);
    }
}

const struct tr_cl_way tr_look_way = {.script = TR_SCRIPT_LOOK,
                                      .most = 32, /* bodies may be large */
                                      .jobs = true,
                                      .build = build,
                                      .answered = answered};
