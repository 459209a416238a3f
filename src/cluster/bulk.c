/*
 * Changes of all jobs that match a filter: cancel, shift, kick; and a dry run, which only counts.
 *
 *     mark ──► each slot of each topic: which is its last id now?
 *     walk ──► each set of those: `list` finds some that match ──► `bulk` changes them by id
 *
 * It is about the jobs that there were when it began: ids up to the one that was the last of its
 * slot. Between the list and the change a job may become another one, so the script looks once more
 * whether it is still meant.
 *
 * A job goes from set to set while they are walked through, and a shift itself puts jobs where the
 * walk has not been yet. So those that were changed and are still there, and those that were only
 * counted, are noted (`met`): *invariant*: a bulk changes a job once at most, and counts it once.
 * Who goes the other way, against the walk, was reserved meanwhile, and reserved jobs are passed
 * over.
 *
 * One that ends at its limit, or because Redis went away, can be gone on with: what it knows stays
 * here for some minutes, under the name that its cursor has. Another node does not know it; but
 * where a database has the truth (sql_bulk.c) it can go on from what rows say.
 */

#include "cluster/bulk.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "cluster/mutant.h"

#include <string.h>

enum { KEPT_MAX = 8, TAG_MAX = 64 };

#define KEPT_US UINT64_C(600000000)

static void free_one(struct tr_cluster *c, struct tr_cbulk *b)
{
    tr_list_remove(&b->link);
    tr_map_fini(&b->met);
    tr_mem_free(c->mem, b, sizeof *b);
}

void tr_bulk_free(struct tr_cluster *c, struct tr_item *item)
{
    if (item->bulk != NULL) {
        free_one(c, item->bulk);
        item->bulk = NULL;
    }
}

void tr_bulks_init(struct tr_cluster *c)
{
    tr_list_init(&c->bulks);
}

void tr_bulks_fini(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->bulks)) {
        free_one(c, TR_CONTAINER_OF(c->bulks.next, struct tr_cbulk, link));
    }
    c->bulk_count = 0;
}

/* ---- one that goes on ---- */

static void forget_old(struct tr_cluster *c, unsigned most)
{
    while (!tr_list_empty(&c->bulks)) {
        struct tr_cbulk *b = TR_CONTAINER_OF(c->bulks.next, struct tr_cbulk, link);

        if (c->bulk_count <= most && b->begun_us + KEPT_US > c->now.boot_us) {
            return;
        }
        c->bulk_count--;
        free_one(c, b);
    }
}

/* A cursor that another node of the store has made can be told from one that is none. */
static uint32_t check_of(const struct tr_cluster *c, uint64_t at, uint64_t salt)
{
    uint64_t hash = (at ^ salt << 20) * UINT64_C(0x9e3779b97f4a7c15);

    for (unsigned i = 0; i < TR_CLUSTER_UUID; i++) {
        hash = (hash ^ (uint8_t)c->uuid[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(hash >> 32);
}

static void keep(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    forget_old(c, KEPT_MAX - 1);
    b->mark = tr_rng_next(&c->rng) >> 1 | 1;
    if (c->desk != NULL) {
        b->mark = b->mark >> 32 << 32 | check_of(c, b->made_us, b->mark >> 32);
    }
    b->begun_us = c->now.boot_us;
    b->next = b->from;
    b->next_row = b->from_row;
    tr_list_append(&c->bulks, &b->link);
    c->bulk_count++;
    item->bulk = NULL;
}

/* When it began, by the database; else when it was kept, which no other node can know. */
static uint64_t cursor_of(const struct tr_cluster *c, const struct tr_cbulk *b)
{
    return c->desk != NULL ? b->made_us : b->begun_us;
}

static struct tr_cbulk *take_kept(struct tr_cluster *c, const struct tr_cursor *cursor)
{
    forget_old(c, KEPT_MAX);
    for (struct tr_list *n = c->bulks.next; n != &c->bulks; n = n->next) {
        struct tr_cbulk *b = TR_CONTAINER_OF(n, struct tr_cbulk, link);

        if (b->mark == cursor->id && cursor_of(c, b) == cursor->at) {
            tr_list_remove(&b->link);
            c->bulk_count--;
            return b;
        }
    }
    return NULL;
}

/* What it has done so far is the answer, also when the rest could not be done; but not if nobody
 * knows what became of a change. */
int tr_bulk_ends(struct tr_cluster *c, struct tr_item *item, int status)
{
    struct tr_cbulk *b = item->bulk;
    struct tr_req *r = item->req;
    bool more;

    if (b == NULL || r == NULL) {
        return status;
    }
    if (status == TARRY_EUNSURE && b->done > 0) {
        r->out.why = "some of the jobs were changed, perhaps not all";
    }
    if (status == TARRY_EUNSURE || (status != TARRY_OK && b->done == 0)) {
        return status;
    }
    more = status != TARRY_OK || b->over;
    r->out.number = b->done;
    r->out.passed = b->passed;
    if (more) {
        keep(c, item);
        r->out.cursor = (struct tr_cursor){.more = true, .at = cursor_of(c, b), .id = b->mark};
    }
    return TARRY_OK;
}

/* ---- sets ---- */

static bool wants(const struct tr_req *r, char set)
{
    unsigned dead = 1U << TR_DEAD;

    if (r->filter.states == 0) {
        return true;
    }
    return set == 'd' ? (r->filter.states & dead) != 0 : (r->filter.states & ~dead) != 0;
}

/* A job goes from store to ready to prep, and to dead: it is met on its way. Of rows, those that
 * wait are one set. */
static char set_after(const struct tr_cluster *c, const struct tr_req *r, char set)
{
    const char *order = c->desk != NULL ? "spd" : "srpd";
    const char *at = set != '\0' ? strchr(order, set) + 1 : order;

    while (*at != '\0' && !wants(r, *at)) {
        at++;
    }
    return *at;
}

/* On to the next set, and behind the last one to the next slot. */
static void next_set(const struct tr_cluster *c, const struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    b->set = set_after(c, item->req, b->set);
    if (b->set == '\0') {
        b->tour.at++;
        b->set = set_after(c, item->req, '\0');
    }
    b->next = tr_walk_at(b->set);
    b->next_row = (struct tr_bulk_row){0};
}

/* The next page. */
static void walk_on(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    if (b->over) {
        tr_item_finish(c, item, TARRY_OK);
        return;
    }
    if (b->next.set == '\0') {
        next_set(c, item);
    }
    if (tr_tour_here(item)) {
        b->from = b->next;
        b->from_row = b->next_row;
        tr_tour_ask(c, item, TR_CL_SIFT);
    } else if (!tr_tour_next(c, item)) {
        tr_item_finish(c, item, TARRY_OK);
    }
}

/* ---- marks ---- */

/* All topics once more, now that all marks are known. */
static void marked(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    b->marking = false;
    b->tour.at = 0;
    b->set = '\0';
    b->next = tr_walk_at('\0');
    if (b->tour.all) {
        b->tour.number = 0;
        if (!tr_tour_next(c, item)) {
            tr_item_finish(c, item, TARRY_OK);
        }
        return;
    }
    walk_on(c, item);
}

static void ask_mark(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    while (tr_tour_here(item) && b->last[item->topic->spots[b->tour.at].slot] != 0) {
        b->tour.at++;
    }
    if (tr_tour_here(item)) {
        b->count = 0;
        tr_tour_ask(c, item, TR_CL_BULK);
    } else if (!tr_tour_next(c, item)) {
        marked(c, item);
    }
}

static void step(struct tr_cluster *c, struct tr_item *item)
{
    if (item->bulk->marking) {
        ask_mark(c, item);
    } else {
        walk_on(c, item);
    }
}

/* ---- which jobs ---- */

static void build_sift(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_tour_only(lane);
    const struct tr_cbulk *b = item->bulk;
    bool in_order = b->next.set == 's' || b->next.set == 'd';
    struct tr_filter none = {0};
    struct tr_eval_list l = {.filter = item->req != NULL ? &item->req->filter : &none,
                             .look = in_order ? TR_WALK_LOOK
                                              : TR_BULK_CHANGES, /* else some are left out */
                             .most = TR_BULK_CHANGES};

    (void)c;
    tr_eval_list(&lane->call.eval, &b->next, &l);
}

static bool can(const struct tr_req *r, enum tr_job_state state)
{
    switch (r->bulk) {
    case TR_BULK_SHIFT:
        return state == TR_DELAYED || state == TR_READY;
    case TR_BULK_KICK:
        return state == TR_DELAYED || state == TR_DEAD;
    default:
        return state != TR_RESERVED;
    }
}

static int note(struct tr_cbulk *b, uint64_t id)
{
    return TR_CL_MUTANT(BULK_MEETS_OWN) ? TARRY_OK : tr_map_put(&b->met, id, b);
}

int tr_bulk_sift(struct tr_item *item, const struct tr_listed_job *job, uint64_t now_us)
{
    struct tr_cbulk *b = item->bulk;
    int err = TARRY_OK;

    if (b->over || tr_map_find(&b->met, job->id) != NULL ||
        (job->id > b->last[item->slot] && !TR_CL_MUTANT(BULK_ANY_ID))) {
        return TARRY_OK;
    }
    if (!can(item->req, tr_header_state(&job->header, now_us))) {
        err = note(b, job->id);
        b->passed += err == TARRY_OK;
    } else if (b->done + b->count == b->limit) {
        b->over = true;
    } else if (item->req->dry_run) {
        err = note(b, job->id);
        b->done += err == TARRY_OK;
    } else {
        b->ids[b->count++] = job->id;
    }
    return err;
}

void tr_bulk_sifted(struct tr_cluster *c, struct tr_item *item)
{
    if (item->bulk->count > 0) {
        tr_lane_put(c, TR_CL_BULK, item);
    } else {
        step(c, item);
    }
}

static void answered_sift(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_tour_only(lane);
    struct tr_cbulk *b = item->bulk;
    struct tr_listed_job job;
    size_t count = 0;
    int err = tr_answer_listed(a, &b->next, &count);

    b->count = 0;
    err = err == TARRY_OK && count > TR_BULK_CHANGES ? TARRY_EDAMAGED : err;
    err = err == TARRY_OK ? tr_map_reserve(&b->met, count) : err; /* a change is noted, always */
    for (size_t i = 0; err == TARRY_OK && item->req != NULL && i < count; i++) {
        err = tr_answer_listed_job(a, i, &job);
        err = err == TARRY_OK ? tr_bulk_sift(item, &job, a->now_us) : err;
    }
    item = tr_tour_come(c, lane, err);
    if (item == NULL) {
        return;
    }
    tr_bulk_sifted(c, item);
}

const struct tr_cl_way tr_sift_way = {.script = TR_SCRIPT_LIST,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_sift,
                                      .answered = answered_sift};

/* ---- and the change ---- */

static void add_signed(struct tr_eval *e, int64_t v)
{
    char text[24];

    tr_text(text, sizeof text, "%lld", (long long)v);
    tr_eval_add(e, text, strlen(text));
}

static void build_bulk(struct tr_cluster *c, struct tr_clane *lane)
{
    static const char *const what[] = {
        [TR_BULK_CANCEL] = "C", [TR_BULK_SHIFT] = "S", [TR_BULK_KICK] = "K"};
    const struct tr_item *item = tr_tour_only(lane);
    const struct tr_req none = {0};
    const struct tr_req *r = item->req != NULL ? item->req : &none;
    const struct tr_cbulk *b = item->bulk;
    struct tr_eval *e = &lane->call.eval;
    char ids[TR_BULK_CHANGES * TR_HEX_ID];

    (void)c;
    tr_eval_add(e, what[r->bulk], 1);
    add_signed(e, r->shift_us);
    tr_eval_add_number(e, r->at_us);
    tr_eval_add_number(e, tr_walk_states(&r->filter));
    tr_eval_add_number(e, r->filter.due_from_us);
    tr_eval_add_number(e, r->filter.due_to_us);
    tr_eval_add(e, r->filter.tag_len > 0 ? r->filter.tag : "", r->filter.tag_len);
    for (unsigned i = 0; i < b->count; i++) {
        tr_hex_put(ids + (size_t)i * TR_HEX_ID, TR_HEX_ID, b->ids[i]);
    }
    tr_eval_add(e, ids, (size_t)b->count * TR_HEX_ID);
}

int tr_bulk_count_up(struct tr_cluster *c, struct tr_item *item, struct tr_span said)
{
    struct tr_cbulk *b = item->bulk;
    uint64_t before = b->done;

    if (said.len != b->count) {
        return TARRY_EDAMAGED;
    }
    for (unsigned i = 0; i < b->count; i++) {
        bool gone = said.at[i] == 'N' || (said.at[i] == 'O' && item->req->bulk == TR_BULK_CANCEL);

        if (!gone && note(b, b->ids[i]) != TARRY_OK) {
            return TARRY_EUNSURE; /* there is room */
        }
        b->done += said.at[i] == 'O';
        b->passed += said.at[i] == 'P';
    }
    if (item->req->bulk == TR_BULK_CANCEL) {
        tr_gauge_count(c, item->topic, TR_METERED_CANCELLED, b->done - before);
        c->totals.deleted += b->done - before;
        item->topic->deleted += b->done - before;
    }
    return TARRY_OK;
}

void tr_bulk_changed(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_cbulk *b = item->bulk;

    if (!b->marking && b->over && b->done < b->limit) {
        b->over = false; /* some were not to be had: there is room for others */
        b->next = b->from;
        b->next_row = b->from_row;
    }
    step(c, item);
}

static void answered_bulk(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_tour_only(lane);
    struct tr_cbulk *b = item->bulk;
    uint64_t last = 0;
    int err = a->count == 2 && a->items[0].len == TR_HEX_ID &&
                      tr_hex_get(a->items[0].at, TR_HEX_ID, &last)
                  ? TARRY_OK
                  : TARRY_EDAMAGED;

    if (err == TARRY_OK && item->req != NULL && !b->marking) {
        err = tr_bulk_count_up(c, item, a->items[1]);
    }
    tr_count_changed(c, item->topic, lane->slot);
    item = tr_tour_come(c, lane, err);
    if (item == NULL) {
        return;
    }
    if (b->marking) {
        b->last[lane->slot] = last;
    }
    tr_bulk_changed(c, item);
}

const struct tr_cl_way tr_bulk_way = {.script = TR_SCRIPT_BULK,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_bulk,
                                      .answered = answered_bulk};

/* ---- a request ---- */

static bool is_sane(const struct tr_cluster *c, const struct tr_req *r)
{
    return r->filter.states < 2U << TR_DEAD && (r->filter.states & 1) == 0 &&
           (unsigned)r->bulk < TR_BULK_COUNT && r->shift_us <= (int64_t)TR_DELAY_MAX_US &&
           r->shift_us >= -(int64_t)TR_DELAY_MAX_US && r->filter.tag_len <= TAG_MAX &&
           r->at_us <= tr_cluster_server_now(c) + TR_DELAY_MAX_US;
}

static struct tr_cbulk *make(struct tr_cluster *c, const struct tr_req *r)
{
    struct tr_cbulk *b;

    if (r->cursor.at != 0) {
        b = take_kept(c, &r->cursor);
        if (b != NULL) {
            b->tour.stays = true;
        }
        if (b != NULL || c->desk == NULL) {
            return b;
        }
        if ((uint32_t)r->cursor.id != check_of(c, r->cursor.at, r->cursor.id >> 32)) {
            return NULL;
        }
    }
    b = tr_mem_alloc(c->mem, sizeof *b);
    if (b != NULL) {
        tr_list_init(&b->link);
        tr_map_init(&b->met, c->mem);
        b->marking = true;
        b->tour.all = r->topic == 0;
        b->made_us = r->cursor.at; /* of another node: what it changed was changed since */
        b->since_us = r->cursor.at;
    }
    return b;
}

void tr_bulk_ask(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_ctopic *t = tr_ctopic_by_number(c, r->topic);
    struct tr_cbulk *b;

    if (!is_sane(c, r) || (r->topic != 0 && t == NULL)) {
        tr_item_finish(c, item, t == NULL && r->topic != 0 ? TARRY_ENOTFOUND : TARRY_EINVAL);
        return;
    }
    b = make(c, r);
    if (b == NULL) {
        tr_item_finish(c, item, r->cursor.at != 0 ? TARRY_ESTATE : TARRY_ENOMEM);
        return;
    }
    item->bulk = b;
    b->done = 0;
    b->passed = 0;
    b->over = false;
    b->limit = r->count != 0 && r->count < TR_BULK_MAX ? r->count : TR_BULK_MAX;
    if (b->tour.all != (r->topic == 0)) {
        tr_item_finish(c, item, TARRY_ESTATE); /* its cursor is of another call */
    } else {
        tr_tour_begin(c, item, &b->tour, step);
    }
}
