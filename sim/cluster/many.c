/*
 * What is asked of bulks, whatever servers and network do:
 *
 *     a job that came behind the mark of its slot is not changed;
 *     one bulk, with all that goes on where it ended, changes a job once at most;
 *     what is answered is what was done;
 *     what was cancelled is not handed out any more (judge.c, C3).
 *
 * A repeat of a call, by its number, is not looked at twice. After a failover numbers mean nothing
 * to the bulks that were under way.
 */

#include "many.h"

#include "base/err.h"
#include "cluster/hex.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_many *find(struct judge *j, struct tr_span node)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct sim_many *m = &j->many[i];

        if (node.len == TR_PLACE_NODE_DIGITS && memcmp(m->node, node.at, node.len) == 0) {
            return m;
        }
    }
    return NULL;
}

/* ---- scripts ---- */

/* m: NULL, whoever asked is dead. */
static void changed(struct judge *j, struct sim_many *m, uint64_t id, char what)
{
    struct sim_job *job = judge_find(j, id);

    if (m != NULL && id > m->last[tr_place_slot_of(id)] && !m->loose) {
        judge_wrong(j, "a bulk changed a job that came later", (unsigned)(id >> 10));
    }
    if (m != NULL) {
        m->done++;
    }
    if (job == NULL) {
        return;
    }
    if (m != NULL && job->many == m->number && !m->loose && !job->loose) {
        judge_wrong(j, "a bulk changed a job twice", (unsigned)(job - j->jobs));
    }
    job->many = m != NULL ? m->number : 0;
    job->touched_us = j->world->now_us;
    job->held = false;
    if (what == 'C') {
        job->gone = true;
        job->gone_lease = 0;
        job->ended = true;
    }
}

void many_ran(struct judge *j, const struct world_call *call, const struct tr_answer *a)
{
    size_t argv = 3 + strtoul(call->args[2].at, NULL, 10);
    struct sim_many *m = find(j, call->args[argv + 2]);
    char what = call->args[argv + 9].at[0];
    struct tr_span ids = call->args[call->count - 1];
    unsigned slot = world_slot(call);
    uint64_t op = 0, last = 0;

    TR_CHECK(a->count == 2 && slot < SLOTS && tr_hex_get(a->items[0].at, TR_HEX_ID, &last));
    TR_CHECK(tr_hex_get(call->args[argv + 3].at, TR_HEX_ID, &op));
    if (m != NULL && m->op[slot] >= op) {
        return; /* a repeat */
    }
    if (m != NULL) {
        m->op[slot] = op;
        m->last[slot] = ids.len == 0 ? last : m->last[slot];
    }
    for (size_t i = 0; i < ids.len / TR_HEX_ID; i++) {
        uint64_t id = 0;

        TR_CHECK(tr_hex_get(ids.at + i * TR_HEX_ID, TR_HEX_ID, &id));
        if (a->items[1].at[i] == 'O') {
            changed(j, m, id, what);
        }
    }
}

/* ---- rows ---- */

void many_committed(struct judge *j, unsigned node, const struct tr_sql_item *item)
{
    struct sim_many *m = &j->many[node];
    struct sim_job *job = judge_find(j, item->row.id);

    if (!m->on || job == NULL) {
        return; /* whoever asked is dead */
    }
    m->done++;
    if (job->made_us > m->begun_us && !m->stepped && !job->over && !job->loose) {
        judge_wrong(j, "a bulk changed a job that came later", (unsigned)(job - j->jobs));
    }
    if (job->many == m->number && !m->loose && !job->loose) {
        judge_wrong(j, "a bulk changed a job twice", (unsigned)(job - j->jobs));
    }
    job->many = m->number;
}

void many_stepped(struct judge *j)
{
    for (unsigned i = 0; i < NODES; i++) {
        j->many[i].stepped = true;
    }
}

void many_undone(struct judge *j)
{
    for (unsigned i = 0; i < NODES; i++) {
        j->many[i].loose = true;
    }
}

/* ---- clients ---- */

static uint64_t dice(struct cluster *c, uint64_t below)
{
    return tr_rng_below(&c->world.rng, below);
}

static void begin(struct cluster *c, struct node *n, struct sim_many *m)
{
    struct tr_req *r = &m->asked;
    struct sim_many old = *m;

    /* A call of an earlier one may still be on its way, and would be taken for one of this. */
    *m = (struct sim_many){.number = ++c->judge.manys, .unsure = old.unsure, .loose = old.unsure};
    memcpy(m->op, old.op, sizeof m->op);
    memcpy(m->node, n->name, TR_PLACE_NODE_DIGITS);
    *r = (struct tr_req){.op = TR_OP_BULK, .bulk = (enum tr_bulk_what)dice(c, TR_BULK_COUNT)};
    r->topic = dice(c, 4) != 0 ? n->topics[dice(c, TOPICS)] : 0;
    r->shift_us = (int64_t)dice(c, 2000000) - 1000000;
    r->at_us = dice(c, 4) == 0 ? c->world.now_us + dice(c, 1000000) : 0;
    r->count = dice(c, 2) != 0 ? 1 + dice(c, 3) : 0;
    r->dry_run = dice(c, 8) == 0;
    if (r->bulk == TR_BULK_CANCEL) {
        r->filter.states = 1U << (TR_DELAYED + dice(c, 4));
    }
}

void many_ask(struct cluster *c, struct node *n)
{
    struct sim_many *m = &c->judge.many[n->number];
    struct ask *a = m->on ? NULL : node_ask(n, 'm');

    if (a == NULL) {
        return;
    }
    if (!m->goes_on) {
        begin(c, n, m);
    }
    m->on = true;
    m->done = 0;
    a->r = m->asked;
    a->r.ctx = a;
    a->r.done = node_done;
    node_submit(n, a);
}

void many_told(struct cluster *c, struct ask *a)
{
    struct sim_many *m = &c->judge.many[a->node->number];
    int status = a->r.out.status;

    m->on = false;
    m->unsure = m->unsure || status == TARRY_EUNSURE;
    m->goes_on = status == TARRY_OK && a->r.out.cursor.more;
    m->asked.cursor = a->r.out.cursor;
    if (status == TARRY_OK && !m->loose && !m->asked.dry_run && a->r.out.number != m->done) {
        judge_wrong(&c->judge, "a bulk was answered otherwise than it was done",
                    (unsigned)a->r.out.number);
    }
    c->changed += status == TARRY_OK ? m->done : 0;
}

void many_gone(struct cluster *c, unsigned node)
{
    c->judge.many[node] = (struct sim_many){0};
}
