/*
 * How many delayed jobs are due when.
 *
 *     hours    cells of hours and days (cells.c), always there; the hour that has begun is counted
 *              from now on, by seconds
 *     seconds  a table that exists while somebody asks (fine.c): a scan fills it, and it goes when
 *              nobody has asked for a minute
 *
 * One request is answered at a time; others wait. It adds up the cells of a row in slices. What
 * changes behind it meanwhile it hears of (struct tr_cells_watch), so that the answer is exact at
 * the moment it is given. If it comes upon a cell that is coarser than the steps, or the table is
 * lost, it begins again with coarser ones.
 *
 * The scan looks at jobs in memory, at the table of far jobs, and at those blocks of runs that have
 * jobs within the window. A job can come from one to the other meanwhile: one that comes into
 * memory or leaves it is counted then (tally.c), one that goes into a run is met there, since runs
 * come last. A group that a promotion or a merge has made since is looked at like any other.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum {
    SECONDS_PER_HOUR = 3600,
    SECONDS_PER_MINUTE = 60,
    HOURS_PER_DAY = 24,
    FINE_HOURS = 2,  /* minutes are told for so long, */
    HOUR_DAYS = 60,  /* hours for so long */
    FINE_SHARE = 8,  /* of cells_max */
    SPARE_PARTS = 4, /* of an hour: the table goes on for one part longer than it must */
    BLOCK_UNITS = 2,
};

static const uint64_t KEEP_US = 60000000;

static uint64_t second_us(const struct tr_engine *e)
{
    return e->config.hour_us / SECONDS_PER_HOUR;
}

static uint64_t minute_us(const struct tr_engine *e)
{
    return second_us(e) * SECONDS_PER_MINUTE;
}

static uint64_t day_us(const struct tr_engine *e)
{
    return e->config.hour_us * HOURS_PER_DAY;
}

static uint64_t down(uint64_t time_us, uint64_t unit)
{
    return time_us / unit * unit;
}

static uint64_t up(uint64_t time_us, uint64_t unit)
{
    return (time_us + unit - 1) / unit * unit;
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- the scan ---- */

static void scan_from(struct tr_engine *e, uint64_t from_us)
{
    struct tr_forecast *f = &e->forecast;

    f->scan_us = from_us;
    f->step = TR_SCAN_MEMORY;
    f->at = 0;
    f->done_count = 0;
    f->group_no = 0; /* the last one may have ended in the middle of a group */
}

/* Else far jobs that were due, and so not counted, may lie ahead again: the table is void. */
static bool is_latest(const struct tr_engine *e)
{
    return e->clock.t_us >= e->forecast.seen_us;
}

/* Is the table ready for due times up to `until_us`? If not, and it is not lost, it will be. */
static bool fine_ready(struct tr_engine *e, uint64_t until_us)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_fine *fine = &e->state.fine;
    uint64_t t_us = e->clock.t_us;
    uint64_t end_us =
        t_us + FINE_HOURS * e->config.hour_us + 2 * minute_us(e) + e->config.hour_us / SPARE_PARTS;

    f->used_us = e->now.boot_us;
    if (fine->on && (f->step != TR_SCAN_NOT || fine->lost)) {
        return false;
    }
    if (fine->on &&
        (!is_latest(e) || (t_us - fine->from_us > day_us(e) && !TR_MUTANT(FINE_STAYS)))) {
        tr_fine_end(fine); /* the clock was set back, or cells would run out of numbers */
    }
    if (!fine->on) {
        tr_fine_begin(fine, e->mem, second_us(e), e->config.cells_max / FINE_SHARE);
        fine->from_us = down(t_us, minute_us(e));
        f->seen_us = t_us;
        fine->until_us = end_us;
        f->lost_us = TR_NEVER;
        scan_from(e, fine->from_us);
        return false;
    }
    if (until_us > fine->until_us) {
        scan_from(e, fine->until_us);
        fine->until_us = end_us;
        return false;
    }
    return true;
}

/* A far job that is due is ready, though it waits for its place in memory. If the clock goes back
 * it may be delayed again: then the table is void (fine_ready). */
static bool is_ahead(const struct tr_engine *e, uint64_t due_us)
{
    return due_us > e->clock.t_us;
}

static void scan_memory(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;
    const struct tr_job *job;

    while (tr_engine_spend(e)) {
        if (!tr_jobs_walk(&e->state.jobs, &f->at, &job)) {
            f->step = TR_SCAN_TABLE;
            tr_far_walk_begin(&e->state.jobs.far, &f->far);
            return;
        }
        if (job != NULL && job->state == TR_DELAYED) {
            struct tr_tally at = tr_tally_job(job);

            tr_fine_add(&e->state.fine, &at);
        }
    }
}

static void scan_page(struct tr_engine *e, const struct tr_far_page *page)
{
    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];
        struct tr_kill kill = {
            .rid = tr_far_page_rid(page, i), .due_us = entry->due_us, .topic = entry->topic};

        if (!entry->located && is_ahead(e, entry->due_us)) { /* else the run tells */
            struct tr_tally at = tr_tally_old(&e->state, &kill);

            tr_fine_add(&e->state.fine, &at);
        }
    }
}

static void scan_table(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while (tr_far_walking(&f->far) && (page = tr_far_walk_page(far, &f->far)) != NULL) {
        bool near = page->due_us < e->state.fine.until_us;

        if (!tr_engine_charge(e, near ? 1 + page->count / 2 : 1)) {
            return;
        }
        if (near) {
            scan_page(e, page);
        }
        tr_far_walk_on(far, &f->far);
    }
    tr_far_walk_end(&f->far);
    f->step = TR_SCAN_RUNS;
}

static bool is_done(const struct tr_forecast *f, uint64_t no)
{
    for (unsigned i = 0; i < f->done_count; i++) {
        if (f->done[i] == no) {
            return true;
        }
    }
    return false;
}

static void group_done(struct tr_forecast *f, const struct tr_group *g)
{
    if (f->done_count == TR_GROUPS_MAX) { /* those that are gone need not be remembered */
        memmove(f->done, f->done + 1, (TR_GROUPS_MAX - 1) * sizeof f->done[0]);
        f->done_count--;
    }
    f->done[f->done_count++] = g->is.no;
}

/* The next group that was not looked at, or NULL. */
static struct tr_group *next_group(const struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];

        if (!g->leaving && !is_done(&e->forecast, g->is.no)) {
            return g;
        }
    }
    return NULL;
}

/* A record of a run: a job that is only there is counted. */
static void scan_record(struct tr_engine *e, const struct tr_record *rec)
{
    struct tr_tally at = tr_tally_record(&e->state, rec);

    if (at.topic != NULL && is_ahead(e, rec->due_us) &&
        tr_engine_only_in_run(e, rec->rid, rec->topic)) {
        tr_fine_add(&e->state.fine, &at);
    }
}

/* The block in hand. False: the slice is over. */
static bool scan_block(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_record rec;
    uint64_t place;
    int err = TARRY_OK;

    while (err == TARRY_OK) {
        if (!tr_engine_charge(e, BLOCK_UNITS)) {
            return false;
        }
        err = tr_run_next(&f->records, &rec, &place);
        if (err == TARRY_OK) {
            scan_record(e, &rec);
        }
    }
    f->taking = false;
    f->block++;
    e->state.fine.lost |= err != TARRY_ENOTFOUND;
    return true;
}

static void scan_runs(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;

    /* A block that cannot be read ends it: let_go. */
    while (!e->state.fine.lost && !e->fetch.scan.busy && (!f->taking || scan_block(e))) {
        struct tr_group *g = next_group(e);
        const struct tr_run_footer *footer;
        uint32_t first;

        if (g == NULL) {
            f->step = TR_SCAN_NOT;
            f->group_no = 0;
            e->moved = true;
            return;
        }
        footer = &g->footers[TR_GROUP_LIVE];
        if (g->is.no != f->group_no) {
            f->group_no = g->is.no;
            f->block = 0;
        }
        first = tr_run_footer_due(footer, f->scan_us);
        f->block = f->block > first ? f->block : first;
        if (f->block >= footer->block_count ||
            tr_run_footer_block(footer, f->block).first_due >= e->state.fine.until_us) {
            group_done(f, g);
        } else if (!tr_fetch_scan(e, g, f->block)) {
            e->state.fine.lost = true; /* no memory */
            return;
        }
    }
}

void tr_forecast_block(struct tr_engine *e, bool good)
{
    if (good && e->state.fine.on) {
        e->forecast.taking = true;
    } else {
        e->state.fine.lost = e->state.fine.on;
    }
}

/* The table goes when nobody asks any more, or when it has been of no use for a while. */
static void let_go(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_fine *fine = &e->state.fine;

    if (fine->lost && f->lost_us == TR_NEVER) {
        f->lost_us = e->now.boot_us;
    }
    if (fine->lost && f->step != TR_SCAN_NOT && !e->fetch.scan.busy) {
        tr_far_walk_end(&f->far);
        f->step = TR_SCAN_NOT;
        f->taking = false;
        e->moved = true;
    }
    if (f->req == NULL && !e->fetch.scan.busy && tr_forecast_next(e) <= e->now.boot_us &&
        f->step == TR_SCAN_NOT) {
        tr_fine_end(fine);
    }
}

void tr_forecast_step(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;

    if (!e->state.fine.on) {
        return;
    }
    if (f->step == TR_SCAN_MEMORY) {
        scan_memory(e);
    }
    if (f->step == TR_SCAN_TABLE) {
        scan_table(e);
    }
    if (f->step == TR_SCAN_RUNS) {
        scan_runs(e);
    }
    let_go(e);
}

uint64_t tr_forecast_next(const struct tr_engine *e)
{
    const struct tr_forecast *f = &e->forecast;

    if (!e->state.fine.on || e->fetch.scan.busy) {
        return TR_NEVER;
    }
    if (f->step != TR_SCAN_NOT) {
        return e->now.boot_us;
    }
    if (f->req != NULL) {
        return TR_NEVER;
    }
    return (f->lost_us < f->used_us ? f->lost_us : f->used_us) + KEEP_US;
}

/* ---- adding up ---- */

/* Counts a cell that lasts for so long, from the moment start_us on. */
static void count(struct tr_forecast *f, uint64_t start_us, uint64_t end_us, int64_t more)
{
    const struct tr_forecast_view *v = &f->view;

    if (start_us >= v->from_us && start_us < end_us) {
        f->counts[(start_us - v->first_us) / v->step_us] += (uint64_t)more;
    }
}

static void hour_changed(void *ctx, uint32_t when, int64_t more)
{
    struct tr_engine *e = ctx;
    struct tr_forecast *f = &e->forecast;
    uint64_t start_us = (uint64_t)(when / 2) * e->config.hour_us;

    if (when % 2 == 0 && start_us < f->view.until_us && start_us + day_us(e) > f->view.from_us &&
        (f->view.resolution_us < day_us(e) || start_us < f->view.from_us)) {
        f->again = true;
        f->least_us = day_us(e);
        f->whole_day |= start_us < f->view.from_us;
    }
    count(f, start_us, f->view.until_us, more);
}

static void second_changed(void *ctx, uint32_t when, int64_t more)
{
    struct tr_engine *e = ctx;
    struct tr_forecast *f = &e->forecast;
    uint64_t start_us = e->state.fine.from_us + (uint64_t)(when / 2) * second_us(e);

    if (when % 2 == 0 && start_us < f->fine_us && start_us + minute_us(e) > f->view.from_us &&
        (f->view.resolution_us < minute_us(e) || start_us < f->view.from_us)) {
        f->again = true;
        f->least_us = max(f->least_us, minute_us(e));
        f->whole_minute |= start_us < f->view.from_us;
    }
    count(f, start_us, f->fine_us, more);
}

/* Adds up the cells of a row from where the watch is. False: the slice is over. */
static bool add_up(struct tr_engine *e, const struct tr_cells *c, struct tr_cells_walk *walk,
                   struct tr_cells_watch *watch)
{
    struct tr_cell cell;

    /* At the end of the row: it is told of all changes, of cells behind the last one, too. */
    if (watch->at == UINT64_MAX) {
        return true;
    }
    while (tr_engine_spend(e)) {
        if (e->forecast.again || !tr_cells_next(c, walk, &cell)) {
            watch->at = UINT64_MAX;
            return true;
        }
        watch->at = walk->at;
        watch->changed(e, cell.when, cell.count);
    }
    return false;
}

static uint64_t resolution(const struct tr_engine *e, uint64_t until_us)
{
    uint64_t t_us = e->clock.t_us;

    if (until_us <= t_us + minute_us(e)) {
        return second_us(e);
    }
    if (until_us <= t_us + FINE_HOURS * e->config.hour_us) {
        return minute_us(e);
    }
    return until_us <= t_us + HOUR_DAYS * day_us(e) ? e->config.hour_us : day_us(e);
}

/* The steps, and from when on they are counted. */
static void set_steps(struct tr_engine *e, const struct tr_req *r)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_forecast_view *v = &f->view;
    uint64_t hour_us = e->config.hour_us;
    uint64_t unit = max(resolution(e, r->until_us), f->least_us);
    uint64_t grain = f->whole_minute ? minute_us(e) : second_us(e);

    unit = f->no_fine ? max(unit, hour_us) : unit;
    grain = f->whole_day ? day_us(e) : f->no_fine ? hour_us : grain;
    v->resolution_us = unit;
    v->first_us = down(max(r->from_us, e->clock.t_us), unit);
    v->from_us = max(v->first_us, down(e->clock.t_us, grain));
    v->until_us = up(max(r->until_us, v->from_us), unit);
    v->step_us = up(r->step_us, unit);
    v->count = (unsigned)((v->until_us - v->first_us + v->step_us - 1) / v->step_us);
    v->counts = f->counts;
    f->fine_us = unit < hour_us ? v->until_us : up(v->from_us, hour_us);
}

/* False: it must wait for the table. */
static bool begin(struct tr_engine *e, const struct tr_req *r, uint32_t row)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_fine *fine = &e->state.fine;

    f->no_fine |= fine->on && fine->lost;
    set_steps(e, r);
    if (f->fine_us > f->view.from_us && !f->no_fine) {
        if (!fine_ready(e, f->fine_us)) {
            f->no_fine = fine->lost;
            return false;
        }
    }
    memset(f->counts, 0, f->view.count * sizeof f->counts[0]);
    f->row = row;
    f->again = false;
    f->begun = true;
    f->hour_walk =
        tr_cells_from(&e->state.cells, row, (uint32_t)(f->view.from_us / e->config.hour_us));
    f->hours = (struct tr_cells_watch){.row = row, .ctx = e, .changed = hour_changed};
    f->seconds = (struct tr_cells_watch){.row = row, .ctx = e, .changed = second_changed};
    if (f->view.resolution_us >= e->config.hour_us) {
        e->state.cells.watch = &f->hours;
    }
    if (f->fine_us > f->view.from_us && !f->no_fine) {
        f->second_walk = tr_cells_from(
            &fine->cells, row, (uint32_t)((f->view.from_us - fine->from_us) / second_us(e)));
        fine->cells.watch = &f->seconds;
    }
    return true;
}

static bool go_on(struct tr_engine *e)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_state *s = &e->state;

    return (s->cells.watch == NULL || add_up(e, &s->cells, &f->hour_walk, &f->hours)) &&
           (s->fine.cells.watch == NULL || add_up(e, &s->fine.cells, &f->second_walk, &f->seconds));
}

static void unwatch(struct tr_engine *e)
{
    e->state.cells.watch = NULL;
    e->state.fine.cells.watch = NULL;
    e->forecast.begun = false;
}

void tr_forecast_drop(struct tr_engine *e, const struct tr_req *r)
{
    if (e->forecast.req == r) {
        unwatch(e);
        e->forecast.req = NULL;
    }
}

static enum tr_verdict finish(struct tr_engine *e, struct tr_req *r, int status)
{
    tr_forecast_drop(e, r);
    return tr_engine_finish(e, r, status);
}

static bool is_valid(const struct tr_engine *e, const struct tr_req *r)
{
    uint64_t from_us = max(r->from_us, e->clock.t_us);

    return r->step_us != 0 && r->step_us <= TR_DELAY_MAX_US && r->from_us < r->until_us &&
           r->until_us <= e->clock.t_us + 2 * TR_DELAY_MAX_US &&
           (r->until_us <= from_us ||
            (r->until_us - from_us - 1) / r->step_us < TR_FORECAST_STEPS_MAX);
}

/* The hour that had begun is over: jobs of later ones are ready by now, and cells count these. */
static bool hour_is_over(const struct tr_engine *e)
{
    const struct tr_forecast *f = &e->forecast;
    uint64_t hour_us = e->config.hour_us;

    return f->view.resolution_us >= hour_us && !f->whole_day &&
           e->clock.t_us >= down(f->view.from_us, hour_us) + hour_us;
}

/* In slices: the request that is first holds e->forecast until it is answered. */
enum tr_verdict tr_forecast_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_forecast *f = &e->forecast;
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    uint32_t row = r->topic == 0 ? TR_CELLS_ALL : t != NULL ? tr_tally_row(&e->state, t) : 0;

    if (r->progress == 0 && !is_valid(e, r)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    r->progress = 1;
    if (f->req != NULL && f->req != r) {
        return TR_STALL;
    }
    if (r->topic != 0 && t == NULL) {
        return finish(e, r, TARRY_ENOTFOUND);
    }
    if (f->req == NULL) {
        f->req = r;
        f->least_us = 0;
        f->whole_day = false;
        f->whole_minute = false;
        f->no_fine = false;
    }
    if (!tr_tally_drop(&e->state, &e->work)) { /* all would be too many */
        return TR_STALL;
    }
    for (;;) {
        bool lost = f->begun && e->state.fine.lost && e->state.fine.cells.watch != NULL;
        bool set_back = f->begun && (f->view.from_us > max(r->from_us, e->clock.t_us) ||
                                     (e->state.fine.cells.watch != NULL && !is_latest(e)));

        if (f->begun && (f->again || lost || set_back || hour_is_over(e) || f->row != row)) {
            unwatch(e);
        }
        if (!f->begun && !begin(e, r, row)) {
            return TR_STALL;
        }
        if (!go_on(e)) {
            return TR_STALL;
        }
        if (!f->again) {
            break;
        }
    }
    r->out.forecast = f->view;
    return finish(e, r, TARRY_OK);
}
