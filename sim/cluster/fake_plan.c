/*
 * Schedules of the database that is none: what remote/sql_plan.c says in SQL.
 */

#include "fake_sql.h"

#include "base/check.h"

#include <string.h>

static bool has_name(const struct fake_sql_plan *p, struct tr_span name)
{
    return p->is.id != 0 && p->is.name.len == name.len && memcmp(p->name, name.at, name.len) == 0;
}

static struct fake_sql_plan *find(struct fake_sql *db, struct tr_span name)
{
    for (unsigned i = 0; i < FAKE_SQL_PLANS; i++) {
        if (has_name(&db->is.plans[i], name)) {
            return &db->is.plans[i];
        }
    }
    return NULL;
}

/* A copy that is the connection's, so that what it points to stays. */
static struct tr_sql_plan copy(const struct fake_sql *db, struct fake_sql_conn *conn,
                               const struct fake_sql_plan *p)
{
    const struct fake_sql_row *job = fake_sql_find(db, p->is.last_job);
    struct tr_sql_plan is;

    conn->plan = *p;
    is = conn->plan.is;
    is.name.at = conn->plan.name;
    is.spec.at = conn->plan.spec;
    is.state.at = conn->plan.state;
    is.lives = job != NULL && job->is.state != TR_SQL_DEAD &&
               job->is.gen == db->is.topics[job->is.topic - 1].gen;
    return is;
}

void fake_plan_lock(struct fake_sql *db, struct fake_sql_conn *conn, struct tr_sql_planned *plan)
{
    const struct fake_sql_plan *p = find(db, plan->name);

    plan->write = TR_SQL_LEAVE;
    plan->is = (struct tr_sql_plan){0};
    if (p != NULL) {
        plan->is = copy(db, conn, p);
    } else if (plan->makes) {
        plan->is.id = ++db->is.last_plan;
    }
}

static void keep(char *out, size_t size, struct tr_span text)
{
    TR_CHECK(text.len <= size);
    memcpy(out, text.at, text.len);
}

void fake_plan_write(struct fake_sql *db, const struct tr_sql_planned *plan)
{
    struct fake_sql_plan *p = find(db, plan->name);
    size_t spec_len = p != NULL ? p->is.spec.len : 0;

    if (plan->write == TR_SQL_LEAVE) {
        return;
    }
    for (unsigned i = 0; p == NULL && i < FAKE_SQL_PLANS; i++) {
        p = db->is.plans[i].is.id == 0 ? &db->is.plans[i] : NULL;
    }
    TR_CHECK(p != NULL);
    if (plan->write == TR_SQL_DELETE) {
        *p = (struct fake_sql_plan){0};
        return;
    }
    TR_CHECK(plan->next.next_us <= INT64_MAX);
    p->is = plan->next;
    p->is.id = plan->is.id;
    keep(p->name, sizeof p->name, plan->name);
    p->is.name.len = plan->name.len;
    keep(p->state, sizeof p->state, plan->next.state);
    if (plan->with_spec) {
        keep(p->spec, sizeof p->spec, plan->next.spec);
        spec_len = plan->next.spec.len;
    }
    p->is.spec.len = spec_len;
}

void fake_plan_end(struct fake_sql *db, const struct tr_sql_item *item, uint64_t now_us)
{
    bool over = item->found && item->row.sched != 0 && item->row.state != TR_SQL_DEAD &&
                (item->write == TR_SQL_DELETE ||
                 (item->write == TR_SQL_UPDATE && item->next.state == TR_SQL_DEAD));

    for (unsigned i = 0; over && i < FAKE_SQL_PLANS; i++) {
        struct tr_sql_plan *is = &db->is.plans[i].is;

        if (is->id == item->row.sched && is->last_job == item->row.id && is->ended_us == 0) {
            is->ended_us = now_us;
            is->next_us = now_us;
            is->ver++;
        }
    }
}

void fake_plan_purged(struct fake_sql *db, uint32_t topic, uint64_t now_us)
{
    for (unsigned i = 0; i < FAKE_SQL_PLANS; i++) {
        struct tr_sql_plan *is = &db->is.plans[i].is;

        if (is->topic == topic && is->last_job != 0 && is->ended_us == 0) {
            is->ended_us = now_us;
            is->next_us = now_us;
            is->ver++;
        }
    }
}

/* ---- only read ---- */

static bool is_better(const struct tr_sql_ask *ask, const struct tr_sql_plan *a,
                      const struct tr_sql_plan *b)
{
    return b == NULL ||
           (ask->state == TR_SQL_PLANS_AFTER ? a->id < b->id : a->next_us < b->next_us);
}

static bool is_meant(const struct tr_sql_ask *ask, const struct fake_sql_plan *p)
{
    switch ((enum tr_sql_plans)ask->state) {
    case TR_SQL_PLANS_NAME:
        return has_name(p, ask->name);
    case TR_SQL_PLANS_AFTER:
        return p->is.id > ask->from_id;
    default:
        return p->is.id != 0 && p->is.slot == ask->slot && p->is.next_us != 0;
    }
}

static const struct fake_sql_plan *best(const struct fake_sql *db, const struct tr_sql_ask *ask)
{
    const struct fake_sql_plan *found = NULL;

    for (unsigned i = 0; i < FAKE_SQL_PLANS; i++) {
        const struct fake_sql_plan *p = &db->is.plans[i];

        if (is_meant(ask, p) && is_better(ask, &p->is, found != NULL ? &found->is : NULL)) {
            found = p;
        }
    }
    return found;
}

void fake_plan_read(struct fake_sql *db, struct fake_sql_conn *conn, struct tr_sql_ask *ask)
{
    const struct fake_sql_plan *p;

    ask->plans = conn->plans;
    ask->count = 0;
    if (ask->state != TR_SQL_PLANS_TIMES) {
        p = best(db, ask);
        if (p != NULL) {
            conn->plans[ask->count++] = copy(db, conn, p);
        }
        return;
    }
    for (ask->slot = 0; ask->slot < FAKE_SQL_SLOTS; ask->slot++) {
        p = best(db, ask);
        if (p != NULL) {
            conn->plans[ask->count++] =
                (struct tr_sql_plan){.slot = ask->slot, .next_us = p->is.next_us};
        }
    }
}
