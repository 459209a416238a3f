/*
 * Housekeeping of rows, which is no business of Redis, by the owners of slots:
 *
 *     dead jobs that are kept for too long, or are too many: once a minute, and soon after one died
 *     whose topic asks for that
 *     jobs that connections of a dead node held: when mourn.c has found one
 *
 *     topics that have such jobs, as they are counted ──► each slot of ours ──► a page of rows
 *     ──► each of them is changed by itself, as its row then decides ──► the next page
 *
 * One thing after the other, in small pages, so that nobody has to wait for it; what fails is begun
 * anew, later.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#include <string.h>

#define EVERY_US UINT64_C(60000000)
#define AGAIN_US UINT64_C(5000000)
#define SOON_US UINT64_C(1000000)

enum { PAGES_MAX = 1000 }; /* of one slot in a pass */

static tr_item_fn failed, job_over;

int tr_house_init(struct tr_cluster *c)
{
    struct tr_house *h;

    if (c->desk == NULL) {
        return TARRY_OK;
    }
    h = tr_mem_alloc(c->mem, sizeof *h);
    if (h == NULL) {
        return TARRY_ENOMEM;
    }
    h->item = (struct tr_item){.inner = true, .end = failed};
    tr_list_init(&h->item.link);
    c->desk->house = h;
    return TARRY_OK;
}

void tr_house_free(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;

    if (h != NULL) {
        tr_list_remove(&h->item.link); /* it may wait for settings */
        tr_mem_free(c->mem, h, sizeof *h);
        c->desk->house = NULL;
    }
}

static void start(struct tr_cluster *c, enum tr_house_what what);

static void finish(struct tr_cluster *c, bool good)
{
    struct tr_house *h = c->desk->house;

    if (h->item.topic != NULL) {
        tr_ctopic_unpin(c, h->item.topic);
        h->item.topic = NULL;
    }
    h->busy = false;
    if (h->what == TR_HOUSE_ORPHANS) {
        tr_mourn_done(c, good);
    } else {
        uint64_t at_us = c->now.boot_us + (good ? EVERY_US : AGAIN_US);

        h->next_us = good && h->hint_us > c->now.boot_us && h->hint_us < at_us ? h->hint_us : at_us;
    }
    if (h->mourns && !h->busy) {
        h->mourns = false;
        start(c, TR_HOUSE_ORPHANS);
    }
}

static void failed(struct tr_cluster *c, struct tr_item *item)
{
    (void)item;
    finish(c, false);
}

static bool may(struct tr_cluster *c, unsigned slot)
{
    return tr_coord_may(c) && c->slots[slot].owned && !tr_desk_down(c);
}

/* ---- rows ---- */

static void ask_page(struct tr_cluster *c);
static void next_slot(struct tr_cluster *c);

/* From the dead that are too old to those that are too many, then to the next slot. */
static void advance(struct tr_house *h)
{
    h->pages = 0;
    h->from_us = 0;
    h->from_id = 0;
    h->too_many = h->what == TR_HOUSE_DEAD && !h->too_many;
    h->spot += !h->too_many;
}

static void page_done(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;

    if (h->failed) {
        finish(c, false);
    } else if (h->more && h->pages++ < PAGES_MAX) {
        ask_page(c);
    } else {
        advance(h);
        next_slot(c);
    }
}

static void less(struct tr_cluster *c)
{
    if (--c->desk->house->left == 0) {
        page_done(c);
    }
}

static void job_over(struct tr_cluster *c, struct tr_item *job)
{
    struct tr_house *h = c->desk->house;

    if (job->status == TARRY_OK) {
        h->more = h->more || h->full; /* only those that went make room for others */
        c->stat.orphans += h->what == TR_HOUSE_ORPHANS;
    } else if (job->status != TARRY_ENOTFOUND && job->status != TARRY_ESTATE) {
        h->failed = true;
    }
    tr_ctopic_unpin(c, job->topic);
    job->topic = NULL;
    less(c);
}

static bool is_meant(const struct tr_house *h, const struct tr_sql_job *row)
{
    return h->what == TR_HOUSE_DEAD ||
           ((row->flags & TR_HEADER_HELD) != 0 && row->lease >> 32 == h->node >> 32);
}

static void page_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_house *h = c->desk->house;
    const struct tr_sql_ask *ask = &call->ask;
    unsigned count = 0;

    if (ask->end != TR_SQL_DONE) {
        finish(c, false);
        return;
    }
    h->failed = false;
    h->full = ask->count == TR_HOUSE_PAGE;
    h->more = h->what == TR_HOUSE_ORPHANS && h->full;
    for (unsigned i = 0; ask->rows != NULL && i < ask->count; i++) {
        const struct tr_sql_job *row = &ask->rows[i];
        struct tr_item *job = &h->jobs[count];

        h->from_us = row->next_us;
        h->from_id = row->id;
        if (!is_meant(h, row) || TR_CL_MUTANT(ROWS_NOT_MOURNED)) {
            continue;
        }
        *job = (struct tr_item){.inner = true,
                                .end = job_over,
                                .op = h->what == TR_HOUSE_DEAD ? TR_OP_DELETE : TR_OP_CLOSE,
                                .kind = h->what == TR_HOUSE_DEAD ? TR_DESK_DROPS : '\0',
                                .id = row->id,
                                .slot = tr_place_slot_of(row->id),
                                .lease = row->lease,
                                .number = row->next_us,
                                .since_us = c->now.boot_us};
        tr_list_init(&job->link);
        tr_item_pin(job, h->item.topic);
        count++;
    }
    h->left = count + 1; /* all are under way before one can be the last */
    for (unsigned i = 0; i < count; i++) {
        tr_lane_put(c, TR_CL_EDIT, &h->jobs[i]);
    }
    less(c);
}

static void ask_page(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;
    const struct tr_policy *p = &h->item.topic->policy;
    unsigned slot = h->item.topic->spots[h->spot].slot;
    uint64_t now_us = tr_cluster_server_now(c);
    struct tr_sql_ask ask = {.kind = TR_SQL_PAGE,
                             .conn = tr_desk_conn(c, slot),
                             .slot = slot,
                             .topic = h->rows[h->at],
                             .state = TR_SQL_RESERVED,
                             .until_us = INT64_MAX,
                             .number = TR_HOUSE_PAGE};

    if (!may(c, slot)) {
        finish(c, false);
        return;
    }
    if (h->what == TR_HOUSE_ORPHANS) {
        ask.from_us = h->from_us;
        ask.from_id = h->from_id;
    } else if (h->too_many) {
        ask.state = TR_SQL_DEAD;
        ask.skip = p->dead_max / h->item.topic->spread;
    } else {
        ask.state = TR_SQL_DEAD;
        ask.until_us = now_us > p->dead_keep_us ? now_us - p->dead_keep_us : 0;
    }
    h->call.done = page_came;
    h->call.ask = ask;
    tr_desk_send(c, &h->call);
}

/* ---- topics and their slots ---- */

static void next_topic(struct tr_cluster *c);

/* Can there be such jobs? */
static bool has_limit(const struct tr_house *h)
{
    const struct tr_policy *p = &h->item.topic->policy;

    return h->what == TR_HOUSE_ORPHANS ||
           (h->too_many ? p->dead_max : p->dead_keep_us) != UINT64_MAX;
}

static void next_slot(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;
    const struct tr_ctopic *t = h->item.topic;

    while (h->spot < t->spread && !(c->slots[t->spots[h->spot].slot].owned && has_limit(h))) {
        advance(h);
    }
    if (h->spot < t->spread) {
        ask_page(c);
        return;
    }
    tr_ctopic_unpin(c, h->item.topic);
    h->item.topic = NULL;
    h->at++;
    next_topic(c);
}

static void loaded(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_house *h = c->desk->house;

    (void)item;
    h->spot = 0;
    h->pages = 0;
    h->from_us = 0;
    h->from_id = 0;
    h->too_many = false;
    next_slot(c);
}

static void topics_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_house *h = c->desk->house;
    const struct tr_sql_ask *ask = &call->ask;

    if (ask->end != TR_SQL_DONE) {
        finish(c, false);
        return;
    }
    h->count = 0;
    h->at = 0;
    for (unsigned i = 0; ask->topics != NULL && i < ask->count; i++) {
        const struct tr_sql_topic *is = &ask->topics[i];

        h->after = is->id;
        if (tr_name_ok(is->name.at, is->name.len)) {
            memcpy(h->names[h->count], is->name.at, is->name.len);
            h->names[h->count][is->name.len] = '\0';
            h->rows[h->count++] = is->id;
        }
    }
    h->last = ask->topics == NULL || ask->count < TR_HOUSE_TOPICS;
    next_topic(c);
}

static void ask_topics(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;

    h->call.done = topics_came;
    h->call.ask =
        (struct tr_sql_ask){.kind = TR_SQL_BUSY,
                            .state = h->what == TR_HOUSE_DEAD ? TR_SQL_DEAD : TR_SQL_RESERVED,
                            .topic = h->after,
                            .number = TR_HOUSE_TOPICS};
    tr_desk_send(c, &h->call);
}

static void next_topic(struct tr_cluster *c)
{
    struct tr_house *h = c->desk->house;
    struct tr_ctopic *t;

    if (h->at == h->count) {
        if (h->last) {
            finish(c, true);
        } else {
            ask_topics(c);
        }
        return;
    }
    t = tr_ctopic_get(c, h->names[h->at], strlen(h->names[h->at]));
    if (t == NULL) {
        finish(c, false);
        return;
    }
    tr_item_pin(&h->item, t);
    tr_ctopic_load(c, &h->item, loaded);
}

/* ---- when ---- */

static void start(struct tr_cluster *c, enum tr_house_what what)
{
    struct tr_house *h = c->desk->house;

    h->busy = true;
    h->what = what;
    h->after = 0;
    ask_topics(c);
}

void tr_house_mourn(struct tr_cluster *c, uint64_t node)
{
    struct tr_house *h = c->desk->house;

    h->node = node;
    if (h->busy) {
        h->mourns = true;
    } else {
        start(c, TR_HOUSE_ORPHANS);
    }
}

void tr_house_died(struct tr_cluster *c, const struct tr_ctopic *t)
{
    struct tr_house *h = c->desk->house;
    uint64_t in_us = t->policy.dead_max != UINT64_MAX ? SOON_US : t->policy.dead_keep_us;
    uint64_t at_us = c->now.boot_us + (in_us < SOON_US ? SOON_US : in_us);

    if (in_us < EVERY_US) {
        h->hint_us = at_us > h->hint_us ? at_us : h->hint_us;
        h->next_us = at_us < h->next_us ? at_us : h->next_us;
    }
}

static bool works(const struct tr_cluster *c)
{
    return c->desk != NULL && c->desk->house != NULL && c->owns && !c->leaving &&
           !c->desk->house->busy && !tr_desk_down(c);
}

void tr_house_turn(struct tr_cluster *c)
{
    if (works(c) && c->desk->house->next_us <= c->now.boot_us) {
        start(c, TR_HOUSE_DEAD);
    }
}

uint64_t tr_house_next(const struct tr_cluster *c)
{
    return works(c) ? c->desk->house->next_us : TR_CL_NEVER;
}
