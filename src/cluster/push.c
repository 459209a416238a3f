/* New jobs: what is asked is checked here, all else is decided by the script. */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

/* Ages are rounded down to this: jobs that came together are alike then, which is cheaper
 * (tr_eval_push), and due as much later. */
#define AGE_STEP_US 64

static bool is_sane(const struct tr_cluster *c, const struct tr_req *r)
{
    uint64_t now_us = tr_cluster_server_now(c);

    return r->delay_us <= TR_DELAY_MAX_US && r->at_us <= now_us + TR_DELAY_MAX_US &&
           r->ttr_us <= TR_DELAY_MAX_US && r->ttl_us <= TR_DELAY_MAX_US && r->key_len <= 255 &&
           r->tag_len <= 64 && (!r->has_retries || r->retries >= -1) &&
           (r->backoff == NULL || tr_backoff_ok(r->backoff)) &&
           (unsigned)r->conflict < TR_CONFLICT_COUNT;
}

/* Meanwhile its topic may have got other slots. */
static void to_slot(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    const struct tr_req *r = item->req;
    unsigned i =
        r->key_len > 0 ? tr_place_of_key(r->key, r->key_len, t->spread) : t->turn & (t->spread - 1);

    item->slot = t->spots[i].slot;
    if (c->desk != NULL) {
        tr_desk_push_ask(c, item);
    } else {
        tr_lane_put(c, TR_CL_PUSH, item);
    }
}

static void with_topic(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    const struct tr_req *r = item->req;

    if (!t->known || t->version == 0) { /* if this push makes it; it may have been forgotten */
        t->order = r->beanstalk ? TR_ORDER_ID : TR_ORDER_DUE;
    }
    if (c->desk == NULL && (!t->known || !tr_list_empty(&t->noted))) {
        /* Who asks for all topics behind its answer finds it. Nobody overtakes those who wait. */
        tr_ctopic_noted(c, item, r->keep_topic, to_slot);
        return;
    }
    if (c->desk == NULL) {
        tr_ctopic_note(c, t, r->keep_topic);
    }
    to_slot(c, item);
}

void tr_push_ask(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_ctopic *t = item->topic != NULL ? item->topic : tr_ctopic_by_number(c, r->topic);

    if (t == NULL || !is_sane(c, r)) {
        tr_item_finish(c, item, TARRY_EINVAL);
    } else if (r->body_len > c->config.body_max) {
        tr_item_finish(c, item, TARRY_EFULL);
    } else if (c->draining) {
        tr_item_finish(c, item, TARRY_EDRAINING);
    } else if (!tr_mem_spare(c->mem, r->body_len)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else {
        if (item->topic == NULL) {
            tr_item_pin(item, t);
        }
        tr_ctopic_load(c, item, with_topic);
    }
}

void tr_push_jitter(struct tr_cluster *c, const struct tr_ctopic *t, struct tr_req *r)
{
    uint64_t jitter_us =
        t->policy.jitter_us != 0 ? tr_rng_below(&c->rng, t->policy.jitter_us + 1) : 0;

    if (r->at_us != 0) {
        r->at_us += jitter_us;
    } else {
        r->delay_us += jitter_us;
    }
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;

    tr_eval_push_from(e, c->slots[lane->slot].seen, lane->slot);
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        struct tr_req asked = *item->req;
        uint64_t age_us = c->now.boot_us - item->since_us;

        tr_push_jitter(c, item->topic, &asked);
        tr_eval_push(e, tr_lane_topic(lane, item->topic), &asked, age_us - age_us % AGE_STEP_US);
        item->topic->turn++;
    }
}

void tr_push_view(struct tr_cluster *c, struct tr_item *item, const struct tr_req *asked,
                  uint64_t due_us, uint64_t now_us)
{
    struct tr_req r = *asked;
    struct tr_header h;

    tr_policy_fix(&item->topic->policy, &r);
    h = (struct tr_header){.set = 's',
                           .priority = r.priority,
                           .due_us = due_us,
                           .created_us = now_us,
                           .delay_us = r.delay_us,
                           .ttr_us = r.ttr_us,
                           .ttl_us = r.ttl_us,
                           .retries = tr_header_retries(&r),
                           .flags = r.beanstalk ? TR_HEADER_BEANSTALK : 0U,
                           .tag = r.tag,
                           .tag_len = r.tag_len,
                           .key = r.key,
                           .key_len = r.key_len};
    tr_item_view(c, item, &h, now_us);
    item->req->out.job.backoff = r.backoff;
    item->req->out.job.body_len = (uint32_t)r.body_len;
}

static int status_of(char what, const struct tr_req *r)
{
    switch (what) {
    case 'N':
    case 'R':
    case 'K':
        return TARRY_OK;
    case 'E':
        return TARRY_EEXISTS;
    case 'X':
        return r->conflict == TR_CONFLICT_REPLACE ? TARRY_ESTATE : TARRY_EEXISTS;
    case 'P':
        return TARRY_EPAUSED;
    default: /* F */
        return TARRY_EQUOTA;
    }
}

/* It has a job now, whoever asks. */
static void note_pushed(struct tr_cluster *c, struct tr_item *item, const struct tr_pushed *p,
                        uint64_t now_us)
{
    struct tr_spot *spot = tr_ctopic_spot(item->topic, item->slot);

    tr_count_changed(c, item->topic, item->slot);
    item->topic->pushed++;
    c->totals.pushed++;
    tr_gauge_pushed(c, item->topic);
    if (spot != NULL) {
        spot->count.delayed += p->due_us > now_us;
        spot->count.ready += p->due_us <= now_us;
    }
}

/* What a slot and who waits there are to know of it. */
static void note_slot(struct tr_cluster *c, struct tr_clane *lane, const struct tr_pushed *p)
{
    uint64_t *seen = &c->slots[lane->slot].seen;

    if (p->what == 'N' && tr_place_seq_of(p->id) > *seen) {
        *seen = tr_place_seq_of(p->id);
    }
    if ((p->what == 'N' || p->what == 'R') &&
        (lane->soonest_us == 0 || p->due_us < lane->soonest_us)) {
        lane->soonest_us = p->due_us;
    }
}

void tr_push_ended(struct tr_cluster *c, struct tr_item *item, const struct tr_pushed *p,
                   uint64_t now_us)
{
    struct tr_req *r = item->req;

    item->id = p->id;
    if (p->what == 'N' || p->what == 'R') {
        tr_find_note(c, p->id, item->topic);
    }
    if (p->what == 'N') {
        note_pushed(c, item, p, now_us);
    }
    if (r != NULL) {
        r->out.existed = p->what == 'R' || p->what == 'K' || p->what == 'E' || p->what == 'X';
        if (p->what == 'N' && c->desk == NULL) {
            tr_push_view(c, item, item->req, p->due_us, now_us);
        } else if (p->what == 'N' || r->out.existed) { /* a new row, too, is at hand */
            tr_item_view(c, item, &p->header, now_us);
        }
        tr_item_finish(c, item, status_of(p->what, r));
    } else {
        tr_item_finish(c, item, TARRY_OK);
    }
}

/* What became of the i-th. */
struct outcomes {
    const struct tr_answer *a;
    bool all_new;
    uint64_t from_us;
    uint64_t first; /* id */
    struct tr_eval_rows rows;
};

static int outcome(struct outcomes *o, const struct tr_clane *lane, size_t i, struct tr_pushed *p)
{
    size_t at = TR_CL_MUTANT(WRONG_ORDER) ? lane->count - 1 - i : i;

    if (o->all_new) {
        *p = (struct tr_pushed){.what = 'N',
                                .id = tr_answer_new_id(o->first, at),
                                .due_us = tr_eval_due(&lane->call.eval, &o->rows, o->from_us)};
        return TARRY_OK;
    }
    return o->a->count == lane->count ? tr_answer_pushed(o->a->items[at], p) : TARRY_EDAMAGED;
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct outcomes o = {.a = a};
    struct tr_item *item;

    o.all_new = tr_answer_all_new(a, &o.from_us, &o.first);
    for (size_t i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_pushed p;

        if (outcome(&o, lane, i, &p) == TARRY_OK) {
            note_slot(c, lane, &p);
            tr_push_ended(c, item, &p, a->now_us);
        } else {
            tr_item_finish(c, item, TARRY_EDAMAGED);
        }
    }
}

const struct tr_cl_way tr_push_way = {.script = TR_SCRIPT_PUSH,
                                      .most = TR_EVAL_JOBS,
                                      .jobs = true,
                                      .twin = true,
                                      .build = build,
                                      .answered = answered};
