/*
 * What is asked of lists and purges, whatever servers and network do:
 *
 *     a job of which somebody was told that it is gone is in no page that was asked for later;
 *     of the jobs that were there when a purge was asked for none is handed out after its answer
 *     (judge.c, C3), and none of other topics is gone;
 *     without faults pages have all jobs, each once, in order.
 *
 * One topic is purged, the others are not, so that what is lost there is noticed.
 */

#include "whole.h"

#include "base/err.h"
#include "node.h"

#include <stdlib.h>
#include <string.h>

enum { PURGED = 3, PAGE = 7, PAGES_MAX = 200 };

void whole_list(struct cluster *c, struct node *n)
{
    struct ask *a = node_ask(n, 'l');
    uint64_t topic = cluster_dice(c, TOPICS + 1);

    if (a == NULL) {
        return;
    }
    a->asked_us = c->world.now_us;
    a->r.op = TR_OP_LIST;
    a->r.topic = topic < TOPICS ? n->topics[topic] : 0;
    a->r.count = 1 + cluster_dice(c, 20);
    a->r.filter.states = (uint32_t)cluster_dice(c, 2) * (1U << TR_DELAYED | 1U << TR_READY);
    node_submit(n, a);
}

void whole_purge(struct cluster *c, struct node *n)
{
    struct ask *a = node_ask(n, 'g');

    if (a == NULL) {
        return;
    }
    a->asked_us = c->world.now_us;
    a->serial = c->judge.count; /* jobs before this one may be meant */
    a->r.op = TR_OP_PURGE;
    a->r.topic = n->topics[PURGED];
    node_submit(n, a);
}

void whole_ran(struct judge *j, const struct world_call *call)
{
    for (unsigned i = 0; i < j->count; i++) {
        struct sim_job *job = &j->jobs[i];

        if ((job->topic == PURGED || job->pushed_us == 0) && job->slot == world_slot(call)) {
            job->ending = true; /* it may be gone */
            job->touched_us = j->world->now_us;
        }
    }
}

static void listed(struct cluster *c, const struct ask *a)
{
    for (uint64_t i = 0; i < a->r.out.number; i++) {
        struct sim_job *job = judge_find(&c->judge, a->r.out.jobs[i].id);

        if (job != NULL && job->ended_us != 0 && job->ended_us < a->asked_us && !job->loose) {
            judge_wrong(&c->judge, "C3: listed after its end", (unsigned)(job - c->judge.jobs));
        }
    }
}

static void purged(struct cluster *c, const struct ask *a)
{
    for (unsigned i = 0; i < a->serial; i++) {
        struct sim_job *job = &c->judge.jobs[i];

        /* Of an occurrence it is not known which of its schedule's topics it is of. */
        if (job->topic == PURGED && job->pushed_us != 0 && job->pushed_us < a->asked_us) {
            job->ended = true;
            job->held = false;
            job->ended_us = job->ended_us != 0 ? job->ended_us : c->world.now_us;
        }
    }
}

void whole_told(struct cluster *c, struct ask *a)
{
    if (a->r.out.status == TARRY_OK) {
        if (a->kind == 'l') {
            listed(c, a);
        } else {
            purged(c, a);
        }
    }
}

/* ---- without faults ---- */

/* Copies of what is told of a job. */
struct seen {
    uint64_t ids[400];
    uint64_t due_us[400];
    unsigned count;
    bool more;
    struct tr_cursor cursor;
};

static void note_page(struct seen *s, const struct tr_req *r)
{
    for (uint64_t i = 0; i < r->out.number && s->count < 400; i++) {
        s->ids[s->count] = r->out.jobs[i].id;
        s->due_us[s->count++] = r->out.jobs[i].due_us;
    }
    s->more = r->out.cursor.more;
    s->cursor = r->out.cursor;
}

static struct seen *seen_now; /* of the one request whose answer is noted */

static void page_done(struct tr_req *r)
{
    struct ask *a = r->ctx;

    note_page(seen_now, r);
    node_done(r);
    a->kind = 'x';
}

/* All pages. False: one was refused. */
static bool walk(struct cluster *c, struct node *n, struct seen *s)
{
    seen_now = s;
    s->more = true;
    for (unsigned i = 0; s->more && i < PAGES_MAX; i++) {
        struct ask *a = node_ask(n, 'l');

        if (a == NULL) {
            return false;
        }
        a->asked_us = c->world.now_us;
        a->r.op = TR_OP_LIST;
        a->r.done = page_done;
        a->r.count = PAGE;
        a->r.cursor = s->cursor;
        s->more = false;
        node_submit(n, a);
        cluster_run(c, c->world.now_us + 500000); /* a call for each set of each slot */
        if (a->busy || a->r.out.status != TARRY_OK) {
            return false;
        }
    }
    return true;
}

void whole_check(struct cluster *c, struct node *n)
{
    struct seen *s = calloc(1, sizeof *s);
    unsigned from = c->judge.count;
    unsigned found = 0;

    TR_CHECK(s != NULL);
    for (unsigned i = 0; i < 20; i++) {
        node_push(c, n, (unsigned)cluster_dice(c, TOPICS), 30000000 + cluster_dice(c, 9) * 100000);
        if (i % 4 == 3) {
            cluster_run(c, c->world.now_us + 50000);
        }
    }
    cluster_run(c, c->world.now_us + 100000);
    if (!walk(c, n, s)) {
        judge_wrong(&c->judge, "a list is refused", 0);
    }
    for (unsigned i = 0; i < s->count; i++) {
        const struct sim_job *job = judge_find(&c->judge, s->ids[i]);

        found += job != NULL && job >= &c->judge.jobs[from];
        if (i > 0 && (s->due_us[i - 1] > s->due_us[i] ||
                      (s->due_us[i - 1] == s->due_us[i] && s->ids[i - 1] >= s->ids[i]))) {
            judge_wrong(&c->judge, "a list is out of order", i);
        }
    }
    if (found != c->judge.count - from || s->count != found) {
        judge_wrong(&c->judge, "a list has not all jobs, each once", found);
    }
    free(s);
    cluster_run(c, c->world.now_us + 32000000);
}
