/*
 * New jobs in a database. The topic is there first, then the job has its id (numbers.c), then it is
 * a row; what has its key is decided by truth.c.
 *
 * Pauses, quotas and defaults are judged by this node's copy of the topic's settings. The
 * transaction reads their version: if it is another one nothing is done, and it is judged anew. So
 * settings hold on every node from the answer to whoever has set them.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#include <string.h>

#define COUNTED_US UINT64_C(1000000)

/* ---- before ---- */

bool tr_desk_is_paused(const struct tr_cluster *c, const struct tr_policy *p)
{
    return (p->paused & TR_PAUSED_IN) != 0 &&
           (p->paused_until_us == 0 || p->paused_until_us > tr_cluster_server_now(c));
}

bool tr_desk_has_quota(const struct tr_policy *p)
{
    return p->max_jobs != UINT64_MAX || p->max_bytes != UINT64_MAX;
}

/* By the settings that this node has. If they were read before this was asked, others may hold by
 * now. */
static void refuse(struct tr_cluster *c, struct tr_item *item, int status)
{
    if (item->topic->asked_us < item->since_us) {
        tr_ctopic_reload(c, item, tr_desk_push_ask);
    } else {
        tr_item_finish(c, item, status);
    }
}

bool tr_desk_is_full(const struct tr_ctopic *t, size_t more_bytes)
{
    struct tr_counted sum;

    tr_count_sum(t, &sum);
    return sum.ready + sum.delayed + sum.reserved + sum.dead >= t->policy.max_jobs ||
           (t->policy.max_bytes != UINT64_MAX && t->heavy + more_bytes > t->policy.max_bytes);
}

/* It was counted a second ago at most, and what this node has pushed since is in it. */
static void check_quota(struct tr_cluster *c, struct tr_item *item)
{
    item->implied = tr_desk_is_full(item->topic, item->req->body_len);
    if (item->implied && item->req->key_len == 0) {
        refuse(c, item, TARRY_EQUOTA);
    } else { /* one with that key may be there already */
        tr_numbers_give(c, item);
    }
}

void tr_desk_push_ask(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    uint64_t now_us = c->now.boot_us;

    if (t->row == 0 || !t->known || (item->req->keep_topic && !t->kept)) {
        t->makes = true;
        t->keeps = t->keeps || item->req->keep_topic;
        tr_ctopic_reload(c, item, tr_desk_push_ask);
    } else if (tr_desk_is_paused(c, &t->policy)) {
        refuse(c, item, TARRY_EPAUSED);
    } else if (tr_desk_has_quota(&t->policy)) {
        tr_count_topic(c, item, now_us > COUNTED_US ? now_us - COUNTED_US : 0, check_quota);
    } else {
        tr_numbers_give(c, item);
    }
}

/* ---- the ask ---- */

static bool clash(const struct tr_item *a, const struct tr_item *b)
{
    const struct tr_req *x = a->req;
    const struct tr_req *y = b->req;

    return a->topic == b->topic && x->key_len > 0 && x->key_len == y->key_len &&
           memcmp(x->key, y->key, x->key_len) == 0;
}

void tr_desk_push_fill(struct tr_cluster *c, struct tr_ticket *k, const struct tr_item *item,
                       struct tr_req *r)
{
    char backoff[TR_HEADER_BACKOFF];
    struct tr_truth *t = &k->truth;
    size_t len;

    tr_policy_fix(&item->topic->policy, r);
    len = r->backoff != NULL ? tr_header_put_backoff(backoff, r->backoff) : 0;
    t->what = TR_TRUTH_PUSH;
    t->conflict = r->conflict;
    t->full = item->implied;
    t->minds_version = true;
    t->version = item->topic->version;
    t->delay_us = r->delay_us;
    t->at_us = r->at_us;
    t->age_us = c->now.boot_us - item->since_us;
    t->job = (struct tr_sql_job){.priority = r->priority,
                                 .ttr_us = r->ttr_us,
                                 .ttl_us = r->ttl_us,
                                 .retries = tr_header_retries(r),
                                 .flags = r->beanstalk ? TR_HEADER_BEANSTALK : 0U,
                                 .tag = tr_ticket_keep(k, r->tag, r->tag_len),
                                 .key = tr_ticket_keep(k, r->key, r->key_len),
                                 .backoff = tr_ticket_keep(k, backoff, len),
                                 .body = {k->body, k->body_len}};
    t->job.body_len = r->body_len;
    tr_ticket_say(c, k, item);
}

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_item *items = tr_desk_items(c, lane, lane->count);
    unsigned i = 0;

    for (const struct tr_list *n = lane->flying.next; items != NULL && n != &lane->flying;
         n = n->next) {
        struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        struct tr_req asked = *item->req;
        struct tr_ticket *k = tr_ticket_new(c, item->topic, 2 * TR_TICKET_TEXTS);

        if (k == NULL) {
            return false;
        }
        if (!tr_ticket_body(c, k, item->req->body, item->req->body_len)) {
            tr_ticket_free(c, k);
            return false;
        }
        tr_push_jitter(c, item->topic, &asked);
        tr_desk_push_fill(c, k, item, &asked);
        items[i++] = (struct tr_sql_item){.by = asked.key_len > 0 ? TR_SQL_NEW_KEY : TR_SQL_NEW,
                                          .id = item->id,
                                          .topic = item->topic->row,
                                          .knows = item->topic->version,
                                          .key = k->truth.job.key,
                                          .ctx = &k->truth};
        item->topic->turn++;
    }
    lane->sql->call.ask.kind = TR_SQL_CHANGE;
    lane->sql->call.ask.decide = tr_truth_decide;
    return items != NULL;
}

/* ---- what came of it ---- */

static char letter_of(const struct tr_truth *t)
{
    switch (t->said) {
    case TR_TRUTH_DONE:
        return 'N';
    case TR_TRUTH_REPLACED:
        return 'R';
    case TR_TRUTH_KEPT:
        return 'K';
    case TR_TRUTH_EXISTS:
        return 'E';
    case TR_TRUTH_FULL:
        return 'F';
    default:
        return 'X';
    }
}

static void tell(struct tr_cluster *c, struct tr_ticket *k)
{
    struct tr_pushed p = {.what = letter_of(&k->truth), .id = k->row.id, .due_us = k->row.due_us};

    tr_ticket_header(k, &p.header);
    tr_push_ended(c, k->asker, &p, k->now_us);
}

/* The topic's settings, by which it was let in, are others by now: once more, by those. */
static void repeat(struct tr_cluster *c, struct tr_item *item)
{
    item->flying = false;
    item->implied = false;
    if (item->req == NULL) {
        tr_item_finish(c, item, TARRY_EAWAY); /* nobody waits for it */
    } else {
        tr_ctopic_reload(c, item, tr_push_ask);
    }
}

/* Nothing was written, or it is due so late that nobody looks for it in the index. */
static bool is_apart(const struct tr_truth *t, const struct tr_sql_item *item, uint64_t now_us)
{
    return item->write == TR_SQL_LEAVE ||
           (t->said == TR_TRUTH_DONE && t->is.due_us >= now_us + TR_HOT_WINDOW_MAX_US);
}

static void ended_one(struct tr_cluster *c, struct tr_item *item, struct tr_sql_item *row,
                      uint64_t now_us)
{
    struct tr_truth *t = row->ctx;
    struct tr_ticket *k = TR_CONTAINER_OF(t, struct tr_ticket, truth);

    if (t->said == TR_TRUTH_STALE) {
        repeat(c, item);
        return; /* the lane frees it */
    }
    k->asker = item;
    k->tell = tell;
    k->now_us = now_us;
    if (is_apart(t, row, now_us)) {
        k->row = t->is;
        tell(c, k);
        k->asker = NULL;
        return; /* the lane frees it */
    }
    row->ctx = NULL;
    tr_image_go(c, k, &t->is, now_us);
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item;

    for (unsigned i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_sql_item *row = &ask->items[i];

        if (row->end == TR_SQL_DONE) {
            ended_one(c, item, row, ask->now_us);
        } else if (TR_CL_MUTANT(REPLY_EARLY)) { /* whatever becomes of it */
            uint64_t due_us =
                tr_cluster_server_now(c) + (item->req != NULL ? item->req->delay_us : 0);

            tr_push_ended(c, item,
                          &(struct tr_pushed){.what = 'N', .id = row->id, .due_us = due_us},
                          tr_cluster_server_now(c));
        } else {
            tr_desk_refused(c, item, row);
        }
    }
}

/* Of two with the same key the second is to find the first. */
static bool beside(const struct tr_item *item)
{
    return item->req->key_len == 0;
}

const struct tr_desk_way tr_desk_push = {
    .build = build, .ended = ended, .clash = clash, .beside = beside};
