/*
 * Requests that go through all jobs of a topic, or of all topics: purge, list, forecast.
 *
 *     topics ──► slots of each ──► sets of each ──► some hundred entries a call ──► the answer
 *
 * A purge goes through all sets of a slot, up to the last id that there was when it came there, and
 * once more until it finds none: jobs change their sets meanwhile. A page of a list is the first of
 * ready and prepared ones, of which all must be looked at, and of stored ones, which are in order;
 * if these do not fill it, dead ones follow. Only so many entries are looked at for one page: who
 * has more ready jobs is told so.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/tour.h"
#include "cluster/walk.h"

#include <string.h>

enum { PASSES_MAX = 8, LOOKED_MAX = 200000 };

#define SECOND_US UINT64_C(1000000)

struct tr_roam {
    struct tr_tour tour;
    struct tr_walk walk;
    /* PURGE */
    uint64_t last_id;
    uint64_t found;
    unsigned passes;
    /* LIST */
    struct tr_page page;
    bool dead;       /* the live ones were looked at */
    unsigned of_set; /* jobs that this set gave, */
    unsigned told;   /* and its last answer */
    unsigned looked;
    struct tr_job_view *views;
    struct tr_backoff *backoffs;
    uint64_t from_us, from_id; /* with a database: behind this row */
    /* FORECAST */
    struct tr_forecast_view view;
    uint64_t *counts;
};

void tr_roam_free(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m = item->roam;

    if (m == NULL) {
        return;
    }
    tr_mem_free(c->mem, m->views, m->page.limit * sizeof *m->views);
    tr_mem_free(c->mem, m->backoffs, m->page.limit * sizeof *m->backoffs);
    tr_mem_free(c->mem, m->counts, TR_FORECAST_STEPS_MAX * sizeof *m->counts);
    if (m->page.mem != NULL) {
        tr_page_fini(&m->page);
    }
    tr_mem_free(c->mem, m, sizeof *m);
    item->roam = NULL;
}

static bool make(struct tr_cluster *c, struct tr_item *item)
{
    item->roam = tr_mem_alloc(c->mem, sizeof *item->roam);
    if (item->roam == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return false;
    }
    return true;
}

/* ---- purge ---- */

static void purge_step(struct tr_cluster *c, struct tr_item *item)
{
    if (!tr_tour_here(item)) {
        item->req->out.number = item->number;
        tr_item_finish(c, item, TARRY_OK);
        return;
    }
    item->roam->walk = tr_walk_at('s');
    item->roam->last_id = 0;
    item->roam->found = 0;
    item->roam->passes = 0;
    tr_tour_ask(c, item, TR_CL_PURGE);
}

void tr_purge_done(struct tr_cluster *c, struct tr_item *item)
{
    item->roam->tour.at = item->topic->spread;
    purge_step(c, item);
}

void tr_purge_ask(struct tr_cluster *c, struct tr_item *item)
{
    if (make(c, item)) {
        tr_tour_begin(c, item, &item->roam->tour, purge_step);
    }
}

static void build_purge(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_roam *m = tr_tour_only(lane)->roam;

    (void)c;
    tr_eval_purge(&lane->call.eval, &m->walk, m->last_id, TR_WALK_LOOK);
}

static void answered_purge(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_roam *m = tr_tour_only(lane)->roam;
    uint64_t count = 0;
    struct tr_item *item =
        tr_tour_come(c, lane, tr_answer_purged(a, &m->walk, &m->last_id, &count));

    if (item == NULL) {
        return;
    }
    tr_count_changed(c, item->topic, lane->slot);
    tr_gauge_count(c, item->topic, TR_METERED_CANCELLED, count);
    item->number += count;
    m->found += count;
    if (item->number > 0) {
        item->partly = "some of its jobs were purged, perhaps not all: purge it again";
    }
    if (m->walk.set == '\0' && m->found > 0 && ++m->passes < PASSES_MAX) {
        m->found = 0;
        m->walk = tr_walk_at('s');
    }
    if (m->walk.set != '\0') {
        tr_lane_put(c, TR_CL_PURGE, item);
        return;
    }
    m->tour.at++;
    purge_step(c, item);
}

const struct tr_cl_way tr_purge_way = {.script = TR_SCRIPT_PURGE,
                                       .most = 1,
                                       .jobs = true,
                                       .build = build_purge,
                                       .answered = answered_purge};

/* ---- list ---- */

static bool wants(const struct tr_req *r, bool dead)
{
    unsigned bit = 1U << TR_DEAD;

    if (dead) {
        return r->filter.states == 0 || (r->filter.states & bit) != 0;
    }
    return !r->cursor.dead && (r->filter.states == 0 || (r->filter.states & ~bit) != 0);
}

static void view_one(struct tr_cluster *c, const struct tr_roam *m, unsigned i, uint64_t now_us)
{
    const struct tr_paged *job = &m->page.jobs[i];
    struct tr_job_view *v = &m->views[i];
    struct tr_header h;
    const struct tr_ctopic *t;

    if (tr_header_read(job->bytes, job->len, &h) != TARRY_OK) {
        return; /* it was read before */
    }
    tr_header_view(&h, job->key.id, now_us, &m->backoffs[i], v);
    t = tr_ctopic_get(c, h.topic, h.topic_len);
    if (t != NULL) {
        v->topic = t->number;
    }
}

static void list_end(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m = item->roam;
    struct tr_req *r = item->req;
    uint64_t now_us = tr_cluster_server_now(c);

    for (unsigned i = 0; i < m->page.count; i++) {
        view_one(c, m, i, now_us);
    }
    r->out.jobs = m->views;
    r->out.number = m->page.count;
    if (m->page.count > 0) {
        r->out.cursor = m->page.jobs[m->page.count - 1].key;
    }
    r->out.cursor.more =
        m->page.more || (m->page.count == m->page.limit && !m->dead && wants(r, true));
    tr_item_finish(c, item, TARRY_OK);
}

/* The sets of a slot: ready, prepared, stored; then, when no live one is left, dead ones. */
static char first_set(const struct tr_roam *m)
{
    return m->dead ? 'd' : 'r';
}

static char next_set(char set)
{
    switch (set) {
    case 'r':
        return 'p';
    case 'p':
        return 's';
    default:
        return '\0';
    }
}

static void ask_slot(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m = item->roam;

    m->walk = tr_walk_at(first_set(m));
    m->of_set = 0;
    m->from_us = 0;
    m->from_id = 0;
    tr_tour_ask(c, item, TR_CL_LIST);
}

static void list_step(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m = item->roam;

    if (tr_tour_here(item)) {
        ask_slot(c, item);
        return;
    }
    if (tr_tour_next(c, item)) {
        return;
    }
    if (!m->dead && wants(item->req, true) && m->page.count < m->page.limit) {
        m->dead = true;
        m->tour.number = 0;
        if (!m->tour.all) {
            m->tour.at = 0;
            ask_slot(c, item);
            return;
        }
        if (tr_tour_next(c, item)) {
            return;
        }
    }
    list_end(c, item);
}

void tr_page_ask(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_roam *m;

    if (r->count == 0 || r->count > TR_LIST_MAX) {
        tr_item_finish(c, item, TARRY_EINVAL);
        return;
    }
    if (!make(c, item)) {
        return;
    }
    m = item->roam;
    if (tr_page_init(&m->page, c->mem, (unsigned)r->count) != TARRY_OK ||
        (m->views = tr_mem_alloc(c->mem, m->page.limit * sizeof *m->views)) == NULL ||
        (m->backoffs = tr_mem_alloc(c->mem, m->page.limit * sizeof *m->backoffs)) == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    m->dead = !wants(r, false);
    if (m->dead && !wants(r, true)) {
        list_end(c, item);
        return;
    }
    tr_tour_begin(c, item, &m->tour, list_step);
}

static void build_list(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_tour_only(lane);
    struct tr_filter none = {0};
    struct tr_eval_list l = {.filter = item->req != NULL ? &item->req->filter : &none,
                             .look = TR_WALK_LOOK,
                             .most = item->roam->page.limit + 1}; /* is there one more? */

    (void)c;
    if (item->req != NULL) {
        l.after = item->req->cursor;
    }
    tr_eval_list(&lane->call.eval, &item->roam->walk, &l);
}

/* All that a call told, into the page. */
static int gather(struct tr_roam *m, const struct tr_answer *a)
{
    struct tr_listed_job job;
    size_t count = 0;
    int err = tr_answer_listed(a, &m->walk, &count);

    for (size_t i = 0; err == TARRY_OK && i < count; i++) {
        err = tr_answer_listed_job(a, i, &job);
        err = err == TARRY_OK ? tr_page_add(&m->page, &job) : err;
    }
    m->of_set += (unsigned)count;
    m->told = (unsigned)count;
    return err;
}

static void answered_list(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_roam *m = tr_tour_only(lane)->roam;
    char set = m->walk.set;
    struct tr_item *item = tr_tour_come(c, lane, gather(m, a));
    bool in_order = set == 's' || set == 'd';

    if (item == NULL) {
        return;
    }
    if (in_order && m->of_set > m->page.limit) {
        m->walk.set = '\0'; /* the rest comes behind those */
    }
    /* The last answer of a set looked at fewer entries. */
    m->looked += m->walk.set != '\0' ? TR_WALK_LOOK : m->told;
    if (m->walk.set != '\0' && m->looked > LOOKED_MAX) {
        tr_item_refuse(c, item, TARRY_EUNSUPPORTED,
                       "too many jobs to put in order: ask for one state, or a range of due times");
        return;
    }
    if (m->walk.set == '\0' && next_set(set) != '\0') {
        m->walk = tr_walk_at(next_set(set));
        m->of_set = 0;
    }
    if (m->walk.set != '\0') {
        tr_lane_put(c, TR_CL_LIST, item);
        return;
    }
    m->tour.at++;
    list_step(c, item);
}

const struct tr_cl_way tr_list_way = {.script = TR_SCRIPT_LIST,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_list,
                                      .answered = answered_list};

/* ---- the same from a database: rows that wait are in order, those that are reserved are not ----
 */

static uint8_t state_of(char set)
{
    switch (set) {
    case 'd':
        return TR_SQL_DEAD;
    case 'p':
        return TR_SQL_RESERVED;
    default:
        return TR_SQL_WAITING;
    }
}

static bool list_rows(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_tour_only(lane);
    const struct tr_roam *m = item->roam;
    const struct tr_req *r = item->req;
    struct tr_sql_ask *ask = &lane->sql->call.ask;
    bool in_order = m->walk.set == 'r' || (m->walk.set == 'd' && r->cursor.dead);

    (void)c;
    ask->kind = TR_SQL_PAGE;
    ask->slot = item->slot;
    ask->topic = item->topic->row;
    ask->state = state_of(m->walk.set);
    ask->from_us = m->from_us;
    ask->from_id = m->from_id;
    ask->until_us = INT64_MAX;
    ask->number = TR_WALK_LOOK;
    if (in_order && m->from_us == 0 && m->from_id == 0) {
        ask->from_us = r->cursor.at;
        ask->from_id = r->cursor.id;
    }
    if (m->walk.set == 'r' && r->filter.due_from_us > ask->from_us) {
        ask->from_us = r->filter.due_from_us;
        ask->from_id = 0;
    }
    if (m->walk.set == 'r' && r->filter.due_to_us != 0) {
        ask->until_us = r->filter.due_to_us;
    }
    return true;
}

static bool is_behind(const struct tr_cursor *cursor, const struct tr_header *h, uint64_t id)
{
    bool dead = h->set == 'd';
    uint64_t at = dead ? h->at_us : h->due_us;

    if (cursor->dead != dead) {
        return dead;
    }
    return at > cursor->at || (at == cursor->at && id > cursor->id);
}

static bool is_wanted(const struct tr_req *r, const struct tr_header *h, uint64_t id,
                      uint64_t now_us)
{
    const struct tr_filter *f = &r->filter;

    return (f->states == 0 || (f->states & (1U << tr_header_state(h, now_us))) != 0) &&
           h->due_us >= f->due_from_us && (f->due_to_us == 0 || h->due_us < f->due_to_us) &&
           (f->tag_len == 0 ||
            (f->tag_len == h->tag_len && memcmp(f->tag, h->tag, h->tag_len) == 0)) &&
           is_behind(&r->cursor, h, id);
}

static int gather_rows(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_ask *ask)
{
    struct tr_roam *m = item->roam;
    char text[TR_HEADER_MAX];
    int err = TARRY_OK;

    (void)c;
    for (unsigned i = 0; err == TARRY_OK && i < ask->count; i++) {
        struct tr_sql_item row = {.found = true, .row = ask->rows[i], .gen = ask->rows[i].gen};
        struct tr_listed_job job = {.id = ask->rows[i].id};
        struct tr_sql_job is;

        if (!tr_truth_look(&row, ask->now_us, &is)) {
            continue;
        }
        tr_truth_header(&is, (struct tr_span){item->topic->name, item->topic->name_len},
                        ask->now_us, &job.header);
        if (is_wanted(item->req, &job.header, job.id, ask->now_us)) {
            job.bytes.len = tr_header_write(text, &job.header);
            job.bytes.at = text;
            err = tr_page_add(&m->page, &job);
            m->of_set++;
        }
    }
    if (ask->count > 0) {
        m->from_us = ask->rows[ask->count - 1].next_us;
        m->from_id = ask->rows[ask->count - 1].id;
    }
    m->looked += ask->count;
    return err;
}

static void listed_rows(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    struct tr_roam *m = item->roam;
    int err = tr_desk_status(ask, ask->end);
    bool last = ask->count < TR_WALK_LOOK;

    item->flying = false;
    err = err == TARRY_EUNSURE ? TARRY_EAWAY : err;
    if (err == TARRY_OK && item->req != NULL) {
        err = gather_rows(c, item, ask);
    }
    if (err != TARRY_OK || item->req == NULL) {
        tr_item_finish(c, item, err);
        return;
    }
    if (!last && m->looked > LOOKED_MAX) {
        tr_item_refuse(c, item, TARRY_EUNSUPPORTED,
                       "too many jobs to look at: ask for one state, or a range of due times");
        return;
    }
    if (last || (m->walk.set != 'p' && m->of_set > m->page.limit)) {
        char next = m->walk.set == 'r' ? 'p' : '\0';

        m->walk = tr_walk_at(next);
        m->of_set = 0;
        m->from_us = 0;
        m->from_id = 0;
    }
    if (m->walk.set != '\0') {
        tr_lane_put(c, TR_CL_LIST, item);
        return;
    }
    m->tour.at++;
    list_step(c, item);
}

const struct tr_desk_way tr_desk_list = {.most = 1, .build = list_rows, .ended = listed_rows};

/* ---- forecast ---- */

static void forecast_step(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m = item->roam;

    if (tr_tour_here(item)) {
        tr_tour_ask(c, item, TR_CL_FORECAST);
    } else if (!tr_tour_next(c, item)) {
        m->view.counts = m->counts;
        item->req->out.forecast = m->view;
        tr_item_finish(c, item, TARRY_OK);
    }
}

static uint64_t down(uint64_t us)
{
    return us / SECOND_US * SECOND_US;
}

static uint64_t up(uint64_t us)
{
    return down(us + SECOND_US - 1);
}

/* Steps and times are whole seconds. */
static bool plan(struct tr_forecast_view *v, const struct tr_req *r, uint64_t now_us)
{
    uint64_t from_us = r->from_us > now_us ? r->from_us : now_us;

    if (r->step_us == 0 || r->step_us > TR_DELAY_MAX_US || r->from_us >= r->until_us ||
        r->until_us > now_us + 2 * TR_DELAY_MAX_US ||
        (r->until_us > from_us &&
         (r->until_us - from_us - 1) / r->step_us >= TR_FORECAST_STEPS_MAX)) {
        return false;
    }
    v->resolution_us = SECOND_US;
    v->first_us = v->from_us = down(from_us);
    v->until_us = up(r->until_us > v->from_us ? r->until_us : v->from_us);
    v->step_us = up(r->step_us);
    v->count = (unsigned)((v->until_us - v->first_us + v->step_us - 1) / v->step_us);
    v->count = v->count < TR_FORECAST_STEPS_MAX ? v->count : TR_FORECAST_STEPS_MAX;
    return true;
}

void tr_forecast_ask(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_roam *m;

    if (!make(c, item)) {
        return;
    }
    m = item->roam;
    if (!plan(&m->view, item->req, tr_cluster_server_now(c))) {
        tr_item_finish(c, item, TARRY_EINVAL);
        return;
    }
    m->counts = tr_mem_alloc(c->mem, TR_FORECAST_STEPS_MAX * sizeof *m->counts);
    if (m->counts == NULL) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    memset(m->counts, 0, TR_FORECAST_STEPS_MAX * sizeof *m->counts);
    tr_tour_begin(c, item, &m->tour, forecast_step);
}

static void build_forecast(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_forecast_view *v = &tr_tour_only(lane)->roam->view;

    (void)c;
    tr_eval_forecast(&lane->call.eval, v->first_us, v->step_us, v->count);
}

static void answered_forecast(struct tr_cluster *c, struct tr_clane *lane,
                              const struct tr_answer *a)
{
    struct tr_roam *m = tr_tour_only(lane)->roam;
    struct tr_item *item = tr_tour_come(c, lane, tr_answer_forecast(a, m->counts, m->view.count));

    if (item != NULL) {
        m->tour.at++;
        forecast_step(c, item);
    }
}

const struct tr_cl_way tr_forecast_way = {.script = TR_SCRIPT_FORECAST,
                                          .most = 1,
                                          .jobs = true,
                                          .build = build_forecast,
                                          .answered = answered_forecast};

/* ---- the same from a database: so many rows are counted in all, the rest is guessed ---- */

static bool forecast_rows(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_tour_only(lane);
    const struct tr_roam *m = item->roam;
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_FORECAST;
    ask->slot = item->slot;
    ask->topic = item->topic->row;
    ask->from_us = m->view.first_us;
    ask->until_us = m->view.first_us + m->view.count * m->view.step_us;
    ask->until_us = ask->until_us < m->view.until_us ? ask->until_us : m->view.until_us;
    ask->first = m->view.step_us;
    ask->number = m->looked < LOOKED_MAX ? LOOKED_MAX - m->looked : 0;
    return true;
}

static void forecast_came(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_roam *m = tr_tour_only(lane)->roam;
    int err = tr_desk_status(ask, ask->end);
    struct tr_item *item;

    for (unsigned i = 0; err == TARRY_OK && ask->steps != NULL && i < m->view.count; i++) {
        m->counts[i] += ask->steps[i];
    }
    m->looked += (unsigned)ask->number;
    m->view.approximate = m->view.approximate || ask->approximate;
    item = tr_tour_come(c, lane, err == TARRY_EUNSURE ? TARRY_EAWAY : err);
    if (item != NULL) {
        m->tour.at++;
        forecast_step(c, item);
    }
}

const struct tr_desk_way tr_desk_forecast = {
    .most = 1, .build = forecast_rows, .ended = forecast_came};
