/*
 * What this node did to the jobs of each topic since its start, for charts: meters of the busiest
 * topics, rates and lateness of late (rules/meter.h, rules/figures.h), as the embedded engine has
 * them. Each node tells of itself; who draws charts adds them up. How many jobs there are is the
 * store's, from the last counts.
 *
 * Becoming due writes nothing in Redis and no node hears of it. So a delayed job counts as fired
 * when it is handed out for the first time, and what ran out or expired is counted by who does the
 * housekeeping; a lease that a take found run out is not. With a database it is counted by whoever
 * writes it to the row, so once.
 */

#include "base/err.h"
#include "cluster/desk.h"

void tr_gauges_init(struct tr_cluster *c)
{
    tr_meters_init(&c->meters, c->mem, TR_METERS_MAX);
    tr_lates_init(&c->lates, c->mem);
}

void tr_gauges_fini(struct tr_cluster *c)
{
    tr_late_drop(&c->lates, c->late);
    c->late = NULL;
    tr_meters_fini(&c->meters);
}

void tr_gauge_join(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_meters_join(&c->meters, &t->metering, t->name, t->name_len);
}

void tr_gauge_leave(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_meters_leave(&c->meters, &t->metering);
    tr_late_drop(&c->lates, t->late);
    t->late = NULL;
}

/* ---- what happens ---- */

static struct tr_meter *meter_of(struct tr_cluster *c, struct tr_ctopic *t)
{
    if (t->metering.meter != &c->meters.other) {
        return t->metering.meter;
    }
    return tr_meters_seek(&c->meters, &t->metering, t->name, t->name_len);
}

void tr_gauge_count(struct tr_cluster *c, struct tr_ctopic *t, enum tr_metered what, uint64_t n)
{
    if (n > 0) {
        meter_of(c, t)->counts[what] += n;
    }
}

void tr_gauge_pushed(struct tr_cluster *c, struct tr_ctopic *t)
{
    tr_gauge_count(c, t, TR_METERED_PUSHED, 1);
    tr_rate_add(&t->pushes, c->now.boot_us);
    tr_rate_add(&c->pushes, c->now.boot_us);
}

void tr_gauge_handed(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_gauge_hand *hand)
{
    struct tr_meter *m = meter_of(c, t);

    m->counts[TR_METERED_HANDED]++;
    m->counts[TR_METERED_FIRED] += hand->fired;
    tr_hist_add(&m->late, &tr_hist_waits, hand->late_us);
    tr_hist_add(&m->wait, &tr_hist_waits, hand->waited_us);
    tr_rate_add(&t->hands, c->now.boot_us);
    tr_rate_add(&c->hands, c->now.boot_us);
    tr_late_add(&c->lates, &t->late, hand->late_us, c->now.boot_us);
    tr_late_add(&c->lates, &c->late, hand->late_us, c->now.boot_us);
}

static uint64_t number(struct tr_span s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s.len && s.at[i] >= '0' && s.at[i] <= '9'; i++) {
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    }
    return n;
}

/* When to look again, whether there is more, then how many leases ran out, how many jobs expired,
 * how many dead ones were dropped. */
void tr_gauge_tended(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_answer *a)
{
    if (a->count < 5) {
        return;
    }
    tr_gauge_count(c, t, TR_METERED_RETRIED, number(a->items[2]));
    tr_gauge_count(c, t, TR_METERED_EXPIRED, number(a->items[3]));
    tr_gauge_count(c, t, TR_METERED_DEAD, number(a->items[3]));
    tr_gauge_count(c, t, TR_METERED_DROPPED, number(a->items[4]));
}

/* What time had done to it, which its row says since this change: with a database. */
void tr_gauge_settled(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_sql_item *item)
{
    const struct tr_sql_job *was = &item->row;
    const struct tr_sql_job *is = &item->next;

    if (!item->found || item->write != TR_SQL_UPDATE) {
        return;
    }
    if (is->timeouts > was->timeouts) {
        bool died = is->state == TR_SQL_DEAD && is->why == TR_WHY_RETRIES;

        c->totals.timeouts++;
        tr_gauge_count(c, t, died ? TR_METERED_DEAD : TR_METERED_RETRIED, 1);
    }
    if (was->state == TR_SQL_WAITING && is->state == TR_SQL_DEAD && is->why == TR_WHY_EXPIRED) {
        tr_gauge_count(c, t, TR_METERED_EXPIRED, 1);
        tr_gauge_count(c, t, TR_METERED_DEAD, 1);
    }
}

/* ---- what is told ---- */

void tr_gauge_fill(const struct tr_cluster *c, const struct tr_ctopic *t, struct tr_topic_stat *s)
{
    const struct tr_late *late = t != NULL ? t->late : c->late;

    s->pushed_milli = tr_rate_milli(t != NULL ? &t->pushes : &c->pushes, c->now.boot_us);
    s->handed_milli = tr_rate_milli(t != NULL ? &t->hands : &c->hands, c->now.boot_us);
    s->late_p50_us = tr_late_percentile(late, 50, c->now.boot_us);
    s->late_p99_us = tr_late_percentile(late, 99, c->now.boot_us);
}

static struct tr_meter_view view_of(const struct tr_meter *m)
{
    return (struct tr_meter_view){.name = m->name,
                                  .name_len = m->name_len,
                                  .counts = m->counts,
                                  .late = &m->late,
                                  .wait = &m->wait};
}

static void add_jobs(struct tr_meter_view *v, const struct tr_counted *sum)
{
    v->jobs[TR_DELAYED] += sum->delayed;
    v->jobs[TR_READY] += sum->ready;
    v->jobs[TR_RESERVED] += sum->reserved;
    v->jobs[TR_DEAD] += sum->dead;
}

static struct tr_meter_view view_seat(const struct tr_cluster *c, const struct tr_meter *m)
{
    struct tr_meter_view v = view_of(m);
    uint64_t now_us = tr_cluster_server_now(c);
    struct tr_counted sum;

    if (m->hold != NULL) {
        tr_count_sum(TR_CONTAINER_OF(m->hold, struct tr_ctopic, metering), &sum);
        add_jobs(&v, &sum);
        v.ready_for_us = sum.oldest_ready_us != 0 && now_us > sum.oldest_ready_us
                             ? now_us - sum.oldest_ready_us
                             : 0;
        v.next_due_us = sum.next_due_us;
    }
    return v;
}

static struct tr_meter_view view_other(const struct tr_cluster *c)
{
    struct tr_meter_view v = view_of(&c->meters.other);

    v.other = true;
    for (const struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        struct tr_counted sum;

        tr_count_sum(TR_CONTAINER_OF(n, struct tr_ctopic, all), &sum);
        add_jobs(&v, &sum);
    }
    return v;
}

void tr_cluster_meters_begin(struct tr_cluster *c)
{
    tr_meters_look(&c->meters, true);
}

void tr_cluster_meters_end(struct tr_cluster *c)
{
    tr_meters_looked(&c->meters);
}

unsigned tr_cluster_meters(struct tr_cluster *c, unsigned from, struct tr_meter_view *views)
{
    unsigned n = 0;

    tr_meters_look(&c->meters, false);
    for (; n < TR_METER_VIEWS && from + n < c->meters.count; n++) {
        views[n] = view_seat(c, c->meters.seats[from + n]);
    }
    if (n < TR_METER_VIEWS && from + n == c->meters.count) {
        views[n++] = view_other(c);
    }
    return n;
}
