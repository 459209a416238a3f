/*
 * A request on its way. It goes from one wait to the next by `then`:
 *
 *     submit ──► settings of the topic? ──► which topic or id? ──► lane ──► call ──► finish
 *
 * Whoever leaves takes his request along; what is in a call stays there until that is answered, and
 * nobody hears of it.
 */

#include "base/err.h"
#include "cluster/desk.h"

#include <string.h>

struct tr_item *tr_item_new(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_item *item = tr_mem_alloc(c->mem, sizeof *item);

    if (item != NULL) {
        tr_list_init(&item->link);
        item->req = r;
        item->op = r->op;
        item->id = r->id;
        item->lease = r->lease;
        item->since_us = c->now.boot_us;
        r->own = item;
    }
    return item;
}

void tr_item_pin(struct tr_item *item, struct tr_ctopic *t)
{
    TR_CHECK(item->topic == NULL);
    tr_ctopic_pin(t);
    item->topic = t;
}

void tr_req_finish(struct tr_req *r, int status)
{
    if (status == TARRY_ENOSPC && r->out.why == NULL) {
        r->out.why = "Redis takes no changes: it is out of memory or disk, or has too few replicas "
                     "(see its log)";
    }
    r->out.status = status;
    r->busy = false;
    r->own = NULL;
    r->done(r);
}

void tr_item_free(struct tr_cluster *c, struct tr_item *item)
{
    tr_list_remove(&item->link);
    tr_hold_let_go(c, item);
    tr_roam_free(c, item);
    tr_plan_free(c, item);
    tr_bulk_free(c, item);
    if (item->topic != NULL) {
        tr_ctopic_unpin(c, item->topic);
    }
    tr_mem_free(c->mem, item, sizeof *item);
}

void tr_item_finish(struct tr_cluster *c, struct tr_item *item, int status)
{
    tr_list_remove(&item->link);
    if (item->inner) {
        item->status = status;
        item->flying = false;
        item->end(c, item);
        return;
    }
    if (item->waits) {
        tr_wait_finish(c, (struct tr_wait *)item, status);
        return;
    }
    status = tr_bulk_ends(c, item, status);
    if (item->req != NULL && status == TARRY_EUNSURE && c->short_us > c->now.boot_us) {
        item->req->out.why = "Redis has it, but fewer replicas than redis.wait_replicas";
    }
    if (item->req != NULL && status != TARRY_OK && item->partly != NULL) {
        item->req->out.why = item->partly;
        status = TARRY_EUNSURE;
    }
    if (item->req != NULL && status == TARRY_ENOSPC && c->desk != NULL) {
        item->req->out.why = "the database takes no changes: its disk or a table is full";
    }
    if (item->req != NULL && tr_desk_words(c, status) != NULL) {
        item->req->out.why = tr_desk_words(c, status);
    }
    if (item->req != NULL && item->op == TR_OP_HISTORY && status == TARRY_ENOTFOUND &&
        c->desk == NULL && (item->req->key_len > 0 || tr_place_id_ok(&c->layout, item->req->id))) {
        item->req->out.why = "what became of a job that is gone needs [sql]: on Redis alone only "
                             "live jobs have a history";
        status = TARRY_EUNSUPPORTED;
    }
    tr_hold_settle(c, item, status);
    if (item->req != NULL) {
        tr_req_finish(item->req, status);
    }
    tr_item_free(c, item);
}

void tr_item_refuse(struct tr_cluster *c, struct tr_item *item, int status, const char *why)
{
    if (item->req != NULL) {
        item->req->out.why = why;
    }
    tr_item_finish(c, item, status);
}

void tr_item_view(struct tr_cluster *c, struct tr_item *item, const struct tr_header *h,
                  uint64_t now_us)
{
    struct tr_job_view *view = &item->req->out.job;

    tr_header_view(h, item->id, now_us, &c->backoff, view);
    if (item->topic != NULL) {
        view->topic = item->topic->number;
        view->topic_name = item->topic->name;
        view->topic_name_len = item->topic->name_len;
    }
}
