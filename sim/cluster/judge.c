/*
 * The promises, as far as one slot's scripts and one client's repeats can break them:
 *
 *     C1  a job whose push was answered comes out, unless it was ended or a failover undid it
 *     C2  nothing is handed out before it is due, by the server's clock
 *     C3  nothing is handed out after somebody was told that it is gone
 *     C4  a job has one live lease at a time, and only that ends it
 *     C5  answers are true: what was refused was not done; an ack of a lease that holds is not
 *         answered "not found"
 *     C6  no id twice, and no job twice for one push; ids have 53 bits
 *     C9  when all is over no entry is left behind
 *     C10 a schedule makes its occurrences one by one: no number twice, none left out
 *     C11 pauses and limits hold: limits.c
 *     D4  an answer is not longer than it may be
 *     D30 no living node has taken a job of which nobody was told
 *
 * Scripts run one after the other in a slot, so the judge looks on as each one runs, and once more
 * when somebody hears of it. A job that was touched since the replica's last look is loose after a
 * failover: nothing but C2 and C6 is asked of it.
 */

#include "judge.h"

#include "base/err.h"
#include "cluster/header.h"
#include "cluster/hex.h"
#include "limits.h"
#include "many.h"
#include "rules/schedule.h"
#include "whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BITS = 53 };

#define PLAIN_NAME "t7" /* the topic that is forgotten */

void judge_wrong(struct judge *j, const char *what, unsigned serial)
{
    if (j->wrong[0] == '\0') {
        (void)snprintf(j->wrong, sizeof j->wrong, "%s: job %u, %.3f s", what, serial,
                       (double)(j->world->now_us - UINT64_C(1800000000000000)) / 1e6);
    }
}

unsigned judge_new(struct judge *j, unsigned topic, unsigned slot)
{
    TR_CHECK(j->count < JOBS_MAX);
    j->jobs[j->count] = (struct sim_job){.topic = topic, .slot = slot};
    return j->count++;
}

unsigned judge_serial(struct tr_span body)
{
    return (unsigned)strtoul(body.at, NULL, 10);
}

struct sim_job *judge_find(struct judge *j, uint64_t id)
{
    for (unsigned i = 0; i < j->count; i++) {
        if (j->jobs[i].id == id) {
            return &j->jobs[i];
        }
    }
    return NULL;
}

static void see_id(struct judge *j, unsigned serial, uint64_t id)
{
    struct sim_job *job = &j->jobs[serial];

    if (id >> ID_BITS != 0) {
        judge_wrong(j, "C6: an id is too large", serial);
    }
    if (job->id != 0 && job->id != id && !job->loose) {
        judge_wrong(j, "C6: one push, two jobs", serial);
    }
    if (job->undone) {
        return;
    }
    for (unsigned i = 0; i < j->count; i++) {
        if (i != serial && j->jobs[i].id == id && job->replaced && job->loose) {
            j->jobs[i].id = 0; /* what replaced it was undone, whatever is still heard of that */
            j->jobs[i].undone = true;
        } else if (i != serial && j->jobs[i].id == id) {
            judge_wrong(j, "C6: an id twice", serial);
        }
    }
    job->replaced = false;
    job->made_us = job->made_us != 0 ? job->made_us : j->world->now_us;
    job->id = id;
}

unsigned judge_of(struct judge *j, uint64_t id, struct tr_span body)
{
    struct sim_job *job = judge_find(j, id);

    if (body.len == 0 || body.at[0] != 's') {
        return judge_serial(body);
    }
    if (job == NULL) {
        judge_wrong(j, "C6: an occurrence that nobody made", 0);
        return 0;
    }
    return (unsigned)(job - j->jobs);
}

/* The job with this id is another one from now on: what it was is gone. A failover may undo that,
 * and then nothing is asked of either. */
static void replaced(struct judge *j, unsigned serial, uint64_t id)
{
    struct sim_job *old = judge_find(j, id);

    if (old == NULL || old == &j->jobs[serial]) {
        return;
    }
    old->id = 0;
    old->ended = true;
    old->replaced = true;
    old->touched_us = j->world->now_us;
    j->jobs[serial].loose = j->jobs[serial].loose || old->loose;
}

void judge_made(struct judge *j, unsigned serial, uint64_t id, bool replaces)
{
    j->jobs[serial].undone = false;
    if (replaces && j->jobs[serial].id != id) {
        replaced(j, serial, id);
    }
    see_id(j, serial, id);
    j->jobs[serial].touched_us = j->world->now_us;
}

bool judge_handed(struct judge *j, uint64_t now_us, const struct tr_taken_job *got)
{
    unsigned serial = judge_of(j, got->id, got->body);
    struct sim_job *job = &j->jobs[serial];
    /* A repeat is answered; that its node was taken for dead meanwhile is no matter. */
    bool again = job->handed > 0 && job->lease == got->header.lease;

    TR_CHECK(serial < j->count);
    see_id(j, serial, got->id);
    if (got->header.due_us > now_us && !again) {
        judge_wrong(j, "C2: early", serial);
    }
    if (job->ended && !job->loose) {
        judge_wrong(j, "C3: handed out after its end", serial);
    }
    if (now_us < j->paused_us[job->topic] && !again) {
        judge_wrong(j, "C11: handed out while it is paused", serial);
    }
    if (job->push == 'R' && !job->loose) {
        judge_wrong(j, "C5: its push was refused", serial);
    }
    /* A clock that goes back by less than a second is not noticed: what ended by it has ended. */
    if (job->held && job->lease != got->header.lease &&
        job->lease_until_us > j->latest_us[job->slot] && !job->loose) {
        judge_wrong(j, "C4: two leases", serial);
    }
    job->held = true;
    job->attempts = got->header.attempts;
    job->lease = got->header.lease;
    job->lease_until_us = got->header.at_us;
    job->touched_us = j->world->now_us;
    job->handed++;
    return !again;
}

/* What nobody was told of goes back: the script knows the lease, we know the node. */
static void ran_back(struct judge *j, const struct world_call *call, const char *lease)
{
    uint32_t node = 0;

    for (unsigned i = 0; i < 4; i++) {
        node = node << 8 | (unsigned char)lease[i];
    }
    for (unsigned i = 0; i < j->count; i++) {
        struct sim_job *job = &j->jobs[i];

        if (job->held && job->slot == world_slot(call) && job->lease >> 32 == node &&
            job->claimed != job->lease) {
            job->held = false;
            job->touched_us = j->world->now_us;
        }
    }
}

/* Was it overtaken by another one of its node? Only a failover makes that possible, which undoes
 * that the slot knows: then an attempt that was still on its way is done though its node has given
 * up, and has had given back what there was. Nobody hears of that, and the lease ends it. */
static bool overtaken(struct judge *j, const struct world_call *call)
{
    const struct tr_span *argv = &call->args[3 + strtoul(call->args[2].at, NULL, 10)];
    struct sim_taker *t = NULL;
    uint64_t op = 0;
    bool was;

    TR_CHECK(tr_hex_get(argv[3].at, TR_HEX_ID, &op));
    for (unsigned i = 0; i < TAKERS; i++) {
        if (memcmp(j->takers[i].node, argv[2].at, TR_PLACE_NODE_DIGITS) == 0) {
            t = &j->takers[i];
        }
    }
    if (t == NULL) {
        t = &j->takers[j->taker_count++ % TAKERS];
        *t = (struct sim_taker){0};
        memcpy(t->node, argv[2].at, TR_PLACE_NODE_DIGITS);
    }
    was = op < t->op[world_slot(call)];
    t->op[world_slot(call)] = was ? t->op[world_slot(call)] : op;
    return was;
}

static void ran_take(struct judge *j, const struct world_call *call, const struct tr_answer *a)
{
    bool stray = overtaken(j, call);
    size_t own = 3 + strtoul(call->args[2].at, NULL, 10) + 9; /* its own arguments, of one topic */
    struct tr_taken t;
    struct tr_taken_job job;
    size_t bytes = 0;
    unsigned new = 0;

    TR_CHECK(tr_answer_taken(a, &t) == TARRY_OK);
    for (size_t i = 0; i < t.jobs; i++) {
        TR_CHECK(tr_answer_taken_job(a, i, &job) == TARRY_OK);
        new += judge_handed(j, world_time(j->world, call->server), &job);
        j->jobs[judge_of(j, job.id, job.body)].stray = stray;
        bytes += job.body.len;
    }
    limits_took(j, call, new);
    if (t.jobs > 1 && bytes > j->take_bytes) {
        judge_wrong(j, "D4: an answer is too long", judge_serial(job.body));
    }
    if (strcmp(call->args[own].at, "0") == 0) {
        ran_back(j, call, call->args[own + 1].at);
    }
}

/* Where a script's own arguments begin. */
static size_t own_args(const struct world_call *call)
{
    size_t keys = strtoul(call->args[2].at, NULL, 10);

    return 3 + keys + 6 + 3 * strtoul(call->args[3 + keys + 5].at, NULL, 10);
}

/* How many bodies a row of jobs has: see lua/push.lua. */
static unsigned bodies_of(struct tr_span what)
{
    const unsigned char *at = (const unsigned char *)what.at + 22;

    TR_CHECK(what.len > 25);
    return at[2] > 0 ? 1 : (unsigned)at[0] << 8 | at[1];
}

static void ran_push(struct judge *j, const struct tr_answer *a, const struct world_call *call)
{
    size_t at = own_args(call) + 2;
    uint64_t from_us, first;
    bool all_new = tr_answer_all_new(a, &from_us, &first);
    unsigned left = 0;
    bool mixed = false;

    for (size_t i = 0; at < call->count; i++, at++, left--) {
        unsigned serial;
        struct tr_pushed p;

        if (left == 0) {
            mixed = call->args[at].at[2] == 'D';
            left = bodies_of(call->args[at++]);
        }
        at += mixed; /* times */
        TR_CHECK(at < call->count);
        serial = judge_serial(call->args[at]);
        if (all_new) {
            p = (struct tr_pushed){.what = 'N', .id = tr_answer_new_id(first, i)};
        } else {
            TR_CHECK(i < a->count && tr_answer_pushed(a->items[i], &p) == TARRY_OK);
        }
        if ((p.what == 'N' || p.what == 'R') && !j->jobs[serial].replaced) { /* else: a repeat */
            if (p.what == 'R' && j->jobs[serial].id != p.id) {
                replaced(j, serial, p.id);
            }
            see_id(j, serial, p.id);
            j->jobs[serial].touched_us = j->world->now_us;
            j->jobs[serial].slot = world_slot(call);
        }
    }
}

/* A job that was asked for by its id: whatever is due, paused or limited. */
static void reserved(struct judge *j, struct sim_job *job, const struct tr_header *h)
{
    unsigned serial = (unsigned)(job - j->jobs);

    for (unsigned i = 0; i < LEASES; i++) {
        if (j->leases[i] == h->lease) {
            return; /* a repeat is answered, whatever became of it since */
        }
    }
    j->leases[j->lease_count++ % LEASES] = h->lease;
    if (job->ended && !job->loose) {
        judge_wrong(j, "C3: reserved after its end", serial);
    }
    if (job->held && job->lease != h->lease && job->lease_until_us > j->latest_us[job->slot] &&
        !job->loose) {
        judge_wrong(j, "C4: two leases, one by its id", serial);
    }
    job->held = true;
    job->attempts = h->attempts;
    job->lease = h->lease;
    job->lease_until_us = h->at_us;
    job->handed++;
}

/* The next change of a call: its kind, id and lease. Of a row of acks there are several. */
struct change {
    size_t at; /* of args */
    unsigned left;
    const char *row;
    char kind;
    uint64_t id;
    uint64_t lease;
};

static void next_change(struct change *x, const struct world_call *call)
{
    const char *what = call->args[x->at++].at;
    const char *lease = what + 16;
    const char *id = what + 2;
    char digits[15];

    x->kind = what[0];
    if (x->left == 0 && what[0] == 'a') {
        x->left = (unsigned char)what[2];
        x->row = what;
        what = call->args[x->at++].at;
    }
    if (x->left > 0) {
        x->left--;
        x->kind = 'A';
        lease = x->row + 3;
        id = what;
    }
    (void)snprintf(digits, sizeof digits, "%.14s", id);
    x->id = strtoull(digits, NULL, 16);
    x->lease = 0;
    for (unsigned b = 0; b < 8; b++) {
        x->lease = x->lease << 8 | (unsigned char)lease[b];
    }
}

static void ran_edit(struct judge *j, const struct tr_answer *a, const struct world_call *call)
{
    struct change x = {.at = own_args(call)};

    for (size_t i = 0; x.at < call->count; i++) {
        struct tr_edited e;
        struct sim_job *job;

        next_change(&x, call);
        TR_CHECK(tr_answer_item(a, i) != NULL);
        TR_CHECK(tr_answer_edited(*tr_answer_item(a, i), &e) == TARRY_OK);
        job = judge_find(j, x.id);
        if (job != NULL) {
            job->touched_us = j->world->now_us;
            if (x.kind == 'H' && e.what == 'O') {
                reserved(j, job, &e.header);
            } else if (x.kind == 'T' && e.what == 'O') {
                job->lease_until_us = e.header.at_us;
            } else if ((e.what == 'O' || e.what == 'D') &&
                       (x.lease == job->lease || x.lease == 0)) {
                job->held = false; /* a repeat may be answered when another has it already */
            }
            if (e.what == 'O' && (x.kind == 'A' || x.kind == 'C') && !job->gone) {
                job->gone = true;
                job->gone_lease = x.lease;
            }
        }
    }
}

/* Jobs that connections of a dead node held are nobody's any more: its leases begin with its name.
 */
static void ran_orphans(struct judge *j, const struct world_call *call)
{
    const unsigned char *name = (const unsigned char *)call->args[call->count - 3].at;
    uint64_t node = (uint64_t)name[0] << 24 | (uint64_t)name[1] << 16 | (uint64_t)name[2] << 8 |
                    (uint64_t)name[3];

    for (unsigned i = 0; i < j->count; i++) {
        if (j->jobs[i].slot == world_slot(call) && j->jobs[i].lease >> 32 == node) {
            j->jobs[i].held = false;
            j->jobs[i].touched_us = j->world->now_us;
        }
    }
}

void judge_occurred(struct judge *j, unsigned topic, unsigned slot, uint64_t id)
{
    unsigned serial = judge_new(j, topic, slot);

    j->jobs[serial].push = 'A';
    j->jobs[serial].pushed_us = j->world->now_us;
    j->jobs[serial].touched_us = j->world->now_us;
    j->ticks++;
    see_id(j, serial, id);
}

void judge_moved_on(struct judge *j, struct sim_plan *p, const struct sim_plan_step *step)
{
    const struct tr_schedule_state *at = &step->at;

    if (step->set || p->created_us != at->created_us) { /* it is set */
        if (!step->set && !p->loose) {
            judge_wrong(j, "C10: a schedule that nobody has set", 0);
        }
        p->created_us = at->created_us;
        p->last_n = at->fired - step->fires;
    }
    if (at->fired != p->last_n + step->fires && !p->loose) {
        judge_wrong(j, at->fired <= p->last_n ? "C10: a number twice" : "C10: a number left out",
                    (unsigned)at->fired);
    }
    p->last_n = at->fired;
    p->loose = false;
}

static void moved_on(struct judge *j, struct sim_plan *p, const struct tr_span *args, uint64_t id)
{
    struct sim_plan_step step = {.set = args[7].len > 0, .fires = id != 0};

    TR_CHECK(tr_schedule_state_decode((const uint8_t *)args[6].at, args[6].len, &step.at) ==
             TARRY_OK);
    judge_moved_on(j, p, &step);
}

static bool is_repeat(const struct sim_plan *p, struct tr_span stamp)
{
    for (unsigned i = 0; i < STAMPS; i++) {
        if (memcmp(p->stamps[i], stamp.at, sizeof p->stamps[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* args: those of the script itself, see schedule.lua. */
static void ran_schedule(struct judge *j, const struct world_call *call, const struct tr_answer *a)
{
    size_t keys = strtoul(call->args[2].at, NULL, 10);
    const struct tr_span *argv = call->args + 3 + keys;
    const struct tr_span *args = argv + 6 + 3 * strtoul(argv[5].at, NULL, 10);
    unsigned slot = world_slot(call);
    unsigned plan = (unsigned)(args[1].at[1] - '0');
    struct sim_plan *p = &j->plans[plan][slot];
    char text[15];
    uint64_t id;

    TR_CHECK(plan < PLANS && a->count == 1);
    if (a->items[0].at[0] != 'O') {
        return;
    }
    (void)snprintf(text, sizeof text, "%.14s", a->items[0].at + 1);
    id = strtoull(text, NULL, 16);
    if (args[0].at[0] == 's' && !is_repeat(p, args[3])) {
        moved_on(j, p, args, id);
        memcpy(p->stamps[p->changes++ % STAMPS], args[3].at, sizeof p->stamps[0]);
    }
    p->touched_us = j->world->now_us;
    if (id != 0 && judge_find(j, id) == NULL) { /* else: a repeat */
        judge_occurred(j, (unsigned)(argv[6].at[1] - '0'), slot, id);
    }
}

void judge_ran(struct judge *j, const struct world_call *call, const struct fake_reply *reply)
{
    struct tr_answer a;
    unsigned script;

    if (reply->is.event == TR_REDIS_ERROR && tr_span_begins(reply->is.error, "ERR")) {
        judge_wrong(j, reply->error, 0);
    }
    if (!world_is(call->args[0], "EVAL") && !world_is(call->args[0], "EVALSHA")) {
        return;
    }
    script = fake_script(call->args);
    if (world_slot(call) < SLOTS && reply->is.event == TR_REDIS_LIST &&
        world_time(j->world, call->server) > j->latest_us[world_slot(call)]) {
        j->latest_us[world_slot(call)] = world_time(j->world, call->server);
    }
    if (script == TR_SCRIPT_TOPIC && reply->is.event == TR_REDIS_LIST) {
        size_t own = 3 + strtoul(call->args[2].at, NULL, 10); /* behind the keys: name, flag */

        bool plain = world_is(call->args[own], PLAIN_NAME);

        j->marks += plain && world_is(call->args[own + 1], "f");
        j->removes += plain && world_is(call->args[own + 1], "x");
    }
    if (script == TR_SCRIPT_PURGE && reply->is.event == TR_REDIS_LIST) {
        whole_ran(j, call);
    }
    if (script == TR_SCRIPT_ORPHANS && reply->is.event == TR_REDIS_LIST) {
        ran_orphans(j, call);
    }
    if (script == TR_SCRIPT_SCHEDULE && tr_answer_read(&reply->is, &a) == TARRY_OK) {
        ran_schedule(j, call, &a);
    }
    if ((script != TR_SCRIPT_TAKE && script != TR_SCRIPT_PUSH && script != TR_SCRIPT_EDIT &&
         script != TR_SCRIPT_BULK) ||
        tr_answer_read(&reply->is, &a) != TARRY_OK) {
        return;
    }
    if (script == TR_SCRIPT_TAKE) {
        ran_take(j, call, &a);
    } else if (script == TR_SCRIPT_BULK) {
        many_ran(j, call, &a);
    } else if (script == TR_SCRIPT_PUSH) {
        ran_push(j, &a, call);
    } else {
        ran_edit(j, &a, call);
    }
}

/* Whoever was told that it is there was told so when a replica had it: wherever that is by now. */
static void check_replicas(struct judge *j, unsigned serial)
{
    const struct sim_job *job = &j->jobs[serial];
    bool has = !j->waits || job->loose || job->replaced || job->made_us == 0;

    for (unsigned s = 0; s < SERVERS; s++) {
        has = has || j->world->servers[s].synced_us >= job->made_us;
    }
    if (!has) {
        judge_wrong(j, "answered before a replica has it", serial);
    }
}

void judge_pushed(struct judge *j, unsigned serial, uint64_t id)
{
    check_replicas(j, serial);
    if (!j->jobs[serial].replaced) { /* else another one has the id by now */
        see_id(j, serial, id);
    }
    j->jobs[serial].push = 'A';
    j->jobs[serial].pushed_us = j->world->now_us;
}

void judge_kept(struct judge *j, unsigned serial)
{
    j->jobs[serial].push = 'K';
}

void judge_claimed(struct judge *j, unsigned serial, uint64_t lease)
{
    j->jobs[serial].claimed = lease;
}

/* Is it handed out, by that lease? Somebody may have ended it of whom the judge knows only that he
 * might: a purge, while its push was not answered yet. */
static bool is_out(struct judge *j, const struct sim_job *job)
{
    unsigned server = (unsigned)j->world->owner[job->slot];
    char key[TR_PLACE_KEY_MAX], id[TR_HEX_ID + 1];
    struct tr_span args[] = {{"HGET", 4},
                             {key, tr_place_key(key, &j->world->layout, job->slot, 1, NULL)},
                             {id, TR_HEX_ID}};
    struct world_call call = {.server = server, .args = args, .count = 3};
    struct fake_reply *r;
    struct tr_header h;
    bool out;

    (void)snprintf(id, sizeof id, "%014llx", (unsigned long long)job->id);
    r = world_exec(j->world, &call);
    out = r->is.event == TR_REDIS_LIST && r->is.count == 1 && r->is.items[0].at != NULL &&
          tr_header_read(r->is.items[0].at, r->is.items[0].len, &h) == TARRY_OK && h.set == 'p' &&
          h.lease == job->lease;
    fake_reply_free(r);
    return out;
}

void judge_calm(struct judge *j, const uint32_t *nodes, unsigned count)
{
    for (unsigned i = 0; i < j->count; i++) {
        const struct sim_job *job = &j->jobs[i];

        for (unsigned k = 0; k < count; k++) {
            if (job->held && !job->loose && !job->gone && !job->ended &&
                job->lease >> 32 == nodes[k] && job->claimed != job->lease &&
                job->lease_until_us > j->world->now_us && !job->stray && is_out(j, job)) {
                judge_wrong(j, "D30: a node has taken it, and told nobody", i);
            }
        }
    }
}

void judge_paused(struct judge *j, unsigned topic, uint64_t until_us)
{
    j->paused_us[topic] = until_us;
}

void judge_edited(struct judge *j, unsigned serial, char kind, const struct sim_claim *claim,
                  int status)
{
    struct sim_job *job = &j->jobs[serial];
    bool ends = kind == 'A' || kind == 'a' || kind == 'C';

    if (ends && status == TARRY_OK) {
        job->ended = true;
        job->ended_us = j->world->now_us;
    }
    if (kind == 'A' && status == TARRY_OK && claim->attempt != job->attempts && !job->loose) {
        judge_wrong(j, "C4: an old lease ended it", serial);
    }
    /* True if somebody else's lease ended it before; but not when it was this ack's own first try.
     */
    if (kind == 'A' && status == TARRY_ENOTFOUND && !job->loose && !job->ended && !job->ending &&
        (!job->gone || job->gone_lease == claim->lease)) {
        judge_wrong(j, "C5: an ack found no job", serial);
    }
}

void judge_failed(struct judge *j, unsigned serial, char kind, bool unknown)
{
    struct sim_job *job = &j->jobs[serial];

    if (kind == 'p') {
        job->push = unknown ? 'U' : 'R';
        if (!unknown && job->id != 0 && !job->loose) {
            judge_wrong(j, "C5: refused, but done", serial);
        }
    } else if (unknown) {
        job->ending = true;
    }
}

void judge_undone(struct judge *j, unsigned server)
{
    const struct world *w = j->world;

    many_undone(j);
    limits_undone(j, server);
    for (unsigned i = 0; i < j->count; i++) {
        struct sim_job *job = &j->jobs[i];

        if ((w->owner[job->slot] == (int)server || w->moving_to[job->slot] == (int)server) &&
            job->touched_us >= w->servers[server].synced_us) {
            job->loose = true;
        }
    }
    for (unsigned i = 0; i < PLANS * SLOTS; i++) {
        struct sim_plan *p = &j->plans[i / SLOTS][i % SLOTS];

        if ((w->owner[i % SLOTS] == (int)server || w->moving_to[i % SLOTS] == (int)server) &&
            p->touched_us >= w->servers[server].synced_us) {
            p->loose = true;
        }
    }
    for (unsigned t = 0; t < TOPICS; t++) {
        for (unsigned s = 0; s < SLOTS; s++) {
            if (limits_in(j, t, s) &&
                (w->owner[s] == (int)server || w->moving_to[s] == (int)server)) {
                j->paused_us[t] = 0; /* that may be undone, too */
            }
        }
        if (w->owner[META] == (int)server || w->moving_to[META] == (int)server) {
            j->paused_us[t] = 0; /* slots are told what the list of topics says */
        }
    }
}

void judge_end(struct judge *j)
{
    static const char *const sets[] = {":store", ":ready", ":prep", ":x", ":h", ":b"};

    for (unsigned i = 0; i < j->count; i++) {
        const struct sim_job *job = &j->jobs[i];

        if (job->push == 'A' && !job->loose && !job->ended && !job->ending && !job->expires &&
            !job->gone && job->handed == 0) {
            judge_wrong(j, "C1: it never came out", i);
        }
    }
    for (unsigned s = 0; s < SERVERS; s++) {
        for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++) {
            const char *key = fake_db_find(j->world->servers[s].db, sets[i]);

            if (key != NULL) {
                judge_wrong(j, key, 0);
            }
        }
    }
}
