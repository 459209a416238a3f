/*
 * One row, one change.
 *
 *     row as it is ──► settle: what time has done ──► act ──► row as it is to be, or gone
 *
 * *Invariant*: what is decided depends on the row, the time of the database and what is asked, on
 * nothing else; so a transaction that was undone can be decided again, and every node decides the
 * same. *It follows*: who has a job, and whether it is due, is known by this alone; an entry in
 * Redis is only a hint.
 *
 * A lease that has ended is treated as taken back by whoever looks next, and a job past its ttl as
 * dead, though nobody has written that yet: settle does, and what it did is written even if the
 * change itself is refused.
 *
 * A job of an older gen than its topic's was purged: it is not there, whatever its row says.
 *
 * The topic's settings are the asker's copy, if that is of the version that the transaction has
 * read. If not: a push is not done, and asked again by newer ones; of others only the history
 * depends on settings, by what was read there. So they hold on every node from the answer to
 * whoever has set them, and nobody asks for them before he asks for a change. How many may be
 * handed out is not known here: a claim that Redis has let out by older settings is not done.
 */

#include "cluster/truth.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/mutant.h"

#include <inttypes.h>
#include <string.h>

struct act {
    struct tr_truth *t;
    struct tr_sql_job *j; /* the row to be */
    uint32_t version;     /* of the topic's settings */
    uint64_t now_us;
    bool gone;
};

enum tr_job_state tr_truth_state(const struct tr_sql_job *job, uint64_t now_us)
{
    switch (job->state) {
    case TR_SQL_RESERVED:
        return TR_RESERVED;
    case TR_SQL_DEAD:
        return TR_DEAD;
    default:
        return job->due_us <= now_us ? TR_READY : TR_DELAYED;
    }
}

void tr_truth_header(const struct tr_sql_job *job, struct tr_span topic, uint64_t now_us,
                     struct tr_header *h)
{
    static const char sets[] = {
        [TR_DELAYED] = 's', [TR_READY] = 'r', [TR_RESERVED] = 'p', [TR_DEAD] = 'd'};
    enum tr_job_state state = tr_truth_state(job, now_us);

    *h = (struct tr_header){.set = sets[state],
                            .ver = job->ver,
                            .priority = job->priority,
                            .due_us = job->due_us,
                            .at_us = state == TR_RESERVED || state == TR_DEAD ? job->next_us : 0,
                            .lease = job->lease,
                            .attempts = job->attempts,
                            .timeouts = job->timeouts,
                            .releases = job->releases,
                            .buries = job->buries,
                            .kicks = job->kicks,
                            .why = job->why,
                            .delay_us = job->delay_us,
                            .ttr_us = job->ttr_us,
                            .ttl_us = job->ttl_us,
                            .retries = job->retries,
                            .flags = job->flags,
                            .created_us = job->created_us,
                            .body_len = (uint32_t)job->body_len,
                            .topic = topic.at,
                            .topic_len = topic.len,
                            .tag = job->tag.at,
                            .tag_len = job->tag.len,
                            .key = job->key.at,
                            .key_len = job->key.len,
                            .backoff = job->backoff.at,
                            .backoff_len = job->backoff.len};
}

/* ---- what all of them do ---- */

static void wait_until(struct act *a, uint64_t due_us)
{
    a->j->state = TR_SQL_WAITING;
    a->j->due_us = due_us;
    a->j->next_us = due_us;
    a->j->lease = 0;
    a->j->holder = 0;
    a->j->flags &= (uint8_t)~TR_HEADER_HELD;
}

static void die(struct act *a, enum tr_why why)
{
    a->j->state = TR_SQL_DEAD;
    a->j->why = (uint8_t)why;
    a->j->next_us = a->now_us;
    a->j->lease = 0;
    a->j->holder = 0;
    a->j->flags &= (uint8_t)~TR_HEADER_HELD;
}

static uint64_t lease_of(const struct act *a)
{
    uint64_t ttr_us = a->t->ttr_us != 0 ? a->t->ttr_us : tr_policy_ttr(a->j->ttr_us);

    return ttr_us > a->t->least_us ? ttr_us : a->t->least_us;
}

static void hold(struct act *a)
{
    struct tr_sql_job *j = a->j;

    j->ver++;
    j->attempts++;
    j->why = 0;
    j->due_us = j->due_us < a->now_us ? j->due_us : a->now_us;
    j->state = TR_SQL_RESERVED;
    j->lease = a->t->lease;
    j->next_us = a->now_us + lease_of(a);
    j->handed_us = j->handed_us != 0 ? j->handed_us : a->now_us;
    j->flags &= (uint8_t)~TR_HEADER_HELD;
    j->flags |= a->t->held ? TR_HEADER_HELD : 0;
}

static bool is_last(const struct act *a)
{
    const struct tr_sql_job *j = a->j;
    int64_t most = (int64_t)j->retries;

    if (j->retries == TR_RETRIES_NO_END) {
        return false;
    }
    if (j->retries == TR_RETRIES_USUAL) {
        most = tr_policy_retries((j->flags & TR_HEADER_BEANSTALK) != 0);
    }
    return most >= 0 && (int64_t)j->attempts > most;
}

static uint64_t backoff_of(const struct act *a)
{
    const struct tr_sql_job *j = a->j;
    struct tr_backoff own;
    uint32_t attempt = j->attempts > 0 ? j->attempts : 1;

    if ((j->backoff.len == 0 || tr_header_get_backoff(j->backoff.at, j->backoff.len, &own) != 0) &&
        !tr_policy_backoff((j->flags & TR_HEADER_BEANSTALK) != 0, &own)) {
        return 0;
    }
    return tr_backoff_delay(&own, attempt, a->t->random ^ j->id * UINT64_C(0x9e3779b97f4a7c15));
}

/* Handed out and not finished: it waits, or that was its last attempt. */
static void retire(struct act *a, uint64_t from_us, uint64_t delay_us)
{
    uint64_t due_us = from_us + delay_us;

    a->j->ver++;
    if (is_last(a)) {
        die(a, TR_WHY_RETRIES);
        return;
    }
    a->j->delay_us = delay_us;
    wait_until(a, delay_us == 0 ? a->j->due_us : due_us > a->now_us ? due_us : a->now_us);
}

static bool is_expired(const struct act *a)
{
    const struct tr_sql_job *j = a->j;

    return j->state == TR_SQL_WAITING && j->ttl_us > 0 && j->attempts == 0 &&
           j->due_us + j->ttl_us <= a->now_us;
}

static void settle(struct act *a)
{
    struct tr_sql_job *j = a->j;

    if (j->state == TR_SQL_RESERVED && j->next_us <= a->now_us) {
        bool held = (j->flags & TR_HEADER_HELD) != 0;
        uint64_t delay_us = j->delay_us;

        j->timeouts++;
        retire(a, j->next_us, held ? 0 : backoff_of(a)); /* of a connection: back at once */
        j->delay_us = held ? delay_us : j->delay_us;
    } else if (is_expired(a)) {
        j->ver++;
        die(a, TR_WHY_EXPIRED);
    }
}

static void set_priority(struct act *a)
{
    if (!a->t->keep_priority) {
        a->j->priority = a->t->job.priority;
    }
}

/* When what is asked for is due; a relative time counts from when it was asked. */
static uint64_t due_of(const struct tr_truth *t, uint64_t now_us, uint64_t *delay_us)
{
    uint64_t from_us = now_us > t->age_us ? now_us - t->age_us : 0;

    if (t->at_us == 0) {
        *delay_us = t->delay_us;
        return from_us + t->delay_us;
    }
    *delay_us = t->at_us > now_us ? t->at_us - now_us : 0;
    return t->at_us > now_us ? t->at_us : now_us;
}

/* ---- changes ---- */

static enum tr_truth_said release(struct act *a)
{
    set_priority(a);
    a->j->releases++;
    retire(a, a->now_us, a->t->by_backoff ? backoff_of(a) : a->t->delay_us);
    return a->j->state == TR_SQL_DEAD ? TR_TRUTH_DIED : TR_TRUTH_DONE;
}

static enum tr_truth_said give_back(struct act *a)
{
    a->j->ver++;
    a->j->attempts -= a->j->attempts > 0;
    wait_until(a, a->j->due_us);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said leave(struct act *a)
{
    a->j->ver++;
    if (is_last(a)) {
        die(a, TR_WHY_RETRIES);
        return TR_TRUTH_DIED;
    }
    wait_until(a, a->j->due_us);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said bury(struct act *a)
{
    set_priority(a);
    a->j->buries++;
    a->j->ver++;
    die(a, TR_WHY_BURIED);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said touch(struct act *a)
{
    struct tr_sql_job *j = a->j;
    uint64_t end_us = a->now_us + lease_of(a);

    j->ver++;
    /* A lease may have been asked for that is longer than the job's own. */
    j->next_us = a->t->ttr_us != 0 || end_us > j->next_us ? end_us : j->next_us;
    return TR_TRUTH_DONE;
}

static enum tr_truth_said fire(struct act *a)
{
    if (tr_truth_state(a->j, a->now_us) != TR_DELAYED) {
        return TR_TRUTH_STATE;
    }
    a->j->ver++;
    a->j->delay_us = 0;
    wait_until(a, a->now_us);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said kick(struct act *a)
{
    struct tr_sql_job *j = a->j;
    enum tr_job_state is = tr_truth_state(j, a->now_us);

    if (is != TR_DEAD && is != TR_DELAYED) {
        return TR_TRUTH_STATE;
    }
    /* beanstalkd goes on counting; but one that has used up its attempts would die at once. */
    if (is == TR_DEAD && (!a->t->beanstalk || j->why == TR_WHY_RETRIES)) {
        j->attempts = 0;
    }
    j->ver++;
    j->kicks++;
    j->why = 0;
    wait_until(a, a->now_us);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said claim(struct act *a)
{
    if (a->t->minds_version && a->version > a->t->version) {
        return TR_TRUTH_STALE; /* they may say that nothing is handed out, or less */
    }
    if (tr_truth_state(a->j, a->now_us) != TR_READY) {
        return TR_TRUTH_STATE;
    }
    hold(a);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said reserve(struct act *a)
{
    if (a->j->state == TR_SQL_RESERVED) {
        return TR_TRUTH_STATE;
    }
    hold(a);
    return TR_TRUTH_DONE;
}

static enum tr_truth_said cancel(struct act *a)
{
    if (a->j->state == TR_SQL_RESERVED && !a->t->force) {
        return TR_TRUTH_STATE;
    }
    a->gone = true;
    return TR_TRUTH_DONE;
}

/* One that was kicked since, and died again, is another matter. */
static enum tr_truth_said drop(struct act *a)
{
    a->gone = a->j->state == TR_SQL_DEAD && a->j->next_us == a->t->at_us;
    return a->gone ? TR_TRUTH_DONE : TR_TRUTH_STATE;
}

static enum tr_truth_said edit(struct act *a)
{
    const struct tr_truth *t = a->t;
    struct tr_sql_job *j = a->j;

    if (j->state != TR_SQL_WAITING) {
        return TR_TRUTH_STATE;
    }
    j->ver++;
    if ((t->edit & TR_EDIT_PRIORITY) != 0) {
        j->priority = t->job.priority;
    }
    if ((t->edit & TR_EDIT_TTR) != 0) {
        j->ttr_us = t->job.ttr_us;
    }
    if ((t->edit & TR_EDIT_TTL) != 0) {
        j->ttl_us = t->job.ttl_us;
    }
    if ((t->edit & TR_EDIT_TAG) != 0) {
        j->tag = t->job.tag;
    }
    if ((t->edit & TR_EDIT_BODY) != 0) {
        j->body = t->job.body;
        j->body_len = t->job.body.len;
    }
    if ((t->edit & TR_EDIT_DUE) != 0) {
        uint64_t delay_us;

        wait_until(a, due_of(t, a->now_us, &delay_us));
        j->delay_us = delay_us;
    }
    return TR_TRUTH_DONE;
}

/* The past means now; but one that is due already does not become due later when it is to be
 * sooner.
 */
static enum tr_truth_said shift(struct act *a)
{
    int64_t now_us = (int64_t)a->now_us;
    int64_t due_us = (int64_t)a->j->due_us;
    int64_t to_us = due_us + a->t->shift_us;

    if (a->t->at_us > 0) {
        to_us = (int64_t)a->t->at_us;
    } else if (a->t->shift_us < 0 && to_us <= now_us) {
        now_us = due_us < now_us ? due_us : now_us;
    }
    to_us = to_us > now_us ? to_us : now_us;
    if (a->j->state != TR_SQL_WAITING || (uint64_t)to_us > a->now_us + TR_DELAY_MAX_US) {
        return TR_TRUTH_STATE;
    }
    a->j->ver++;
    wait_until(a, (uint64_t)to_us);
    return TR_TRUTH_DONE;
}

/* One of many: is it still one of those that are meant? */
static bool is_meant(const struct act *a, const struct tr_sql_job *was)
{
    const struct tr_truth *t = a->t;
    const struct tr_filter *f = &t->filter;
    const struct tr_sql_job *j = a->j;
    unsigned bit = 1U << tr_truth_state(j, a->now_us);

    return (f->states == 0 || (f->states & bit) != 0) && j->due_us >= f->due_from_us &&
           (f->due_to_us == 0 || j->due_us < f->due_to_us) &&
           (f->tag_len == 0 ||
            (f->tag_len == j->tag.len && memcmp(f->tag, j->tag.at, f->tag_len) == 0)) &&
           j->created_us <= t->made_us && (t->since_us == 0 || was->changed_us < t->since_us);
}

static enum tr_truth_said do_it(struct act *a)
{
    switch (a->t->what) {
    case TR_TRUTH_CLAIM:
        return claim(a);
    case TR_TRUTH_RESERVE:
        return reserve(a);
    case TR_TRUTH_ACK:
        a->gone = true;
        return TR_TRUTH_DONE;
    case TR_TRUTH_RELEASE:
        return release(a);
    case TR_TRUTH_RETURN:
        return give_back(a);
    case TR_TRUTH_LEAVE:
        return leave(a);
    case TR_TRUTH_BURY:
        return bury(a);
    case TR_TRUTH_BURY_FREE:
        return a->j->state == TR_SQL_WAITING ? bury(a) : TR_TRUTH_STATE;
    case TR_TRUTH_TOUCH:
        return touch(a);
    case TR_TRUTH_CANCEL:
        return cancel(a);
    case TR_TRUTH_FIRE:
        return fire(a);
    case TR_TRUTH_KICK:
        return kick(a);
    case TR_TRUTH_EDIT:
        return edit(a);
    case TR_TRUTH_SHIFT:
        return shift(a);
    case TR_TRUTH_DROP:
        return drop(a);
    default: /* TEND */
        return TR_TRUTH_DONE;
    }
}

static bool needs_lease(enum tr_truth_what what)
{
    return what >= TR_TRUTH_ACK && what <= TR_TRUTH_TOUCH;
}

/* ---- history ---- */

static enum tr_event_what event_of(const struct tr_truth *t, const struct tr_sql_item *item)
{
    if (item->write == TR_SQL_DELETE) {
        return TR_EVENT_GONE;
    }
    if (item->next.state == TR_SQL_DEAD) {
        return TR_EVENT_DEAD;
    }
    switch (t->what) {
    case TR_TRUTH_PUSH:
        return TR_EVENT_PUSHED;
    case TR_TRUTH_CLAIM:
    case TR_TRUTH_RESERVE:
        return TR_EVENT_HANDED;
    case TR_TRUTH_TOUCH:
        return TR_EVENT_TOUCHED;
    case TR_TRUTH_RELEASE:
    case TR_TRUTH_RETURN:
    case TR_TRUTH_LEAVE:
        return TR_EVENT_RELEASED;
    case TR_TRUTH_KICK:
    case TR_TRUTH_FIRE:
        return TR_EVENT_KICKED;
    case TR_TRUTH_TEND:
        return TR_EVENT_TIMED_OUT;
    default:
        return TR_EVENT_CHANGED;
    }
}

uint64_t tr_truth_delay(const struct tr_sql_job *j)
{
    return j->releases + j->timeouts == 0 ? j->delay_us : 0; /* each of those sets another one */
}

/* brief: one line when a job ends; full: one for each change. */
static void add_event(struct tr_truth *t, struct tr_sql_item *item, uint64_t now_us)
{
    bool ends = item->write == TR_SQL_DELETE;
    uint8_t why = ends ? (uint8_t)(t->what == TR_TRUTH_ACK    ? TR_WHY_ACKED
                                   : t->what == TR_TRUTH_DROP ? TR_WHY_DROPPED
                                                              : TR_WHY_CANCELLED)
                       : item->next.why;

    if (item->write == TR_SQL_LEAVE || t->noted == TR_HISTORY_OFF ||
        (t->noted == TR_HISTORY_BRIEF && !ends)) {
        return;
    }
    t->info[0] = '\0';
    if (ends) {
        tr_text(t->info, sizeof t->info,
                "created=%" PRIu64 " delay=%" PRIu64 " handed=%" PRIu64 " attempts=%u",
                item->row.created_us, tr_truth_delay(&item->row), item->row.handed_us,
                (unsigned)item->row.attempts);
    }
    item->events[0] =
        (struct tr_sql_event){.event = (uint8_t)event_of(t, item),
                              .from = item->found ? (uint8_t)tr_truth_state(&item->row, now_us) : 0,
                              .to = ends ? 0 : (uint8_t)tr_truth_state(&item->next, now_us),
                              .why = why,
                              .actor = t->actor,
                              .info = {t->info[0] != '\0' ? t->info : NULL, strlen(t->info)}};
    item->event_count = 1;
}

/* ---- push ---- */

static void fill_new(struct tr_truth *t, struct tr_sql_item *item, uint64_t now_us)
{
    struct tr_sql_job *next = &item->next;
    uint64_t delay_us;

    *next = t->job;
    next->gen = item->gen;
    next->state = TR_SQL_WAITING;
    next->due_us = due_of(t, now_us, &delay_us);
    next->next_us = next->due_us;
    next->delay_us = delay_us;
    next->changed_us = now_us;
    next->body_len = next->body.len;
    item->with_body = true;
}

static void push_new(struct tr_truth *t, struct tr_sql_item *item, uint64_t now_us)
{
    fill_new(t, item, now_us);
    item->next.id = item->id;
    item->next.topic = item->topic;
    item->next.ver = 1;
    item->next.created_us = now_us;
    item->write = TR_SQL_INSERT;
    t->said = TR_TRUTH_DONE;
    t->is = item->next;
}

/* Somebody has the key: *now is how the row stands. */
static void push_over(struct tr_truth *t, struct tr_sql_item *item, const struct tr_sql_job *now,
                      uint64_t now_us)
{
    if (t->conflict != TR_CONFLICT_REPLACE || now->state == TR_SQL_RESERVED) {
        t->said = t->conflict == TR_CONFLICT_KEEP      ? TR_TRUTH_KEPT
                  : t->conflict == TR_CONFLICT_REPLACE ? TR_TRUTH_STATE
                                                       : TR_TRUTH_EXISTS;
        item->next = *now;
        item->write = now->ver != item->row.ver ? TR_SQL_UPDATE : TR_SQL_LEAVE;
        t->is = *now;
        return;
    }
    fill_new(t, item, now_us);
    item->next.id = now->id;
    item->next.topic = now->topic;
    item->next.ver = now->ver + 1;
    item->next.created_us = now->created_us;
    item->write = TR_SQL_UPDATE;
    t->said = TR_TRUTH_REPLACED;
    t->is = item->next;
}

/* ---- one item ---- */

/* The asker's copy of the settings holds unless others were read. */
static enum tr_history history_of(const struct tr_truth *t, const struct tr_sql_item *item)
{
    struct tr_policy policy = tr_policy_default();
    struct tr_span text = item->other != NULL ? item->other->policy : (struct tr_span){0};

    if (item->other == NULL) {
        return t->history;
    }
    if (text.len > 0 && tr_policy_decode((const uint8_t *)text.at, text.len, &policy) != TARRY_OK) {
        policy = tr_policy_default(); /* of a newer release; as topics.c has it */
    }
    return policy.history;
}

static void decide(struct tr_truth *t, struct tr_sql_item *item, uint64_t now_us)
{
    bool there = item->found && (item->row.gen == item->gen || TR_CL_MUTANT(GEN_UNSEEN));
    struct tr_sql_job next = item->row;
    struct act a = {.t = t, .j = &next, .version = item->version, .now_us = now_us};

    item->write = TR_SQL_LEAVE;
    item->with_body = false;
    item->event_count = 0;
    t->said = TR_TRUTH_NONE;
    if (item->locked) {
        t->said = TR_TRUTH_LOST;
        return;
    }
    if (t->what == TR_TRUTH_PUSH && t->minds_version && t->version != item->version) {
        t->said = TR_TRUTH_STALE;
        return;
    }
    t->noted = history_of(t, item);
    if (t->what == TR_TRUTH_SWEEP) {
        item->write = item->found && !there ? TR_SQL_DELETE : TR_SQL_LEAVE;
        return;
    }
    if (!there) {
        if (t->what == TR_TRUTH_PUSH && t->full) {
            t->said = TR_TRUTH_FULL;
        } else if (t->what == TR_TRUTH_PUSH) {
            push_new(t, item, now_us);
        }
        return;
    }
    settle(&a);
    if (t->what == TR_TRUTH_PUSH) {
        push_over(t, item, &next, now_us);
        return;
    }
    if (needs_lease(t->what) && (next.state != TR_SQL_RESERVED || next.lease != t->lease)) {
        t->said = TR_TRUTH_LOST;
    } else if (t->many && !is_meant(&a, &item->row)) {
        t->said = TR_TRUTH_UNMEANT;
    } else {
        t->said = do_it(&a);
    }
    next.changed_us = next.ver != item->row.ver ? now_us : next.changed_us;
    item->write = a.gone ? TR_SQL_DELETE : next.ver != item->row.ver ? TR_SQL_UPDATE : TR_SQL_LEAVE;
    item->with_body =
        t->what == TR_TRUTH_EDIT && t->said == TR_TRUTH_DONE && (t->edit & TR_EDIT_BODY) != 0;
    item->next = next;
    t->is = next;
}

void tr_truth_decide(struct tr_sql_ask *ask, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct tr_truth *t = ask->items[i].ctx;

        decide(t, &ask->items[i], ask->now_us);
        add_event(t, &ask->items[i], ask->now_us);
    }
}

bool tr_truth_look(const struct tr_sql_item *item, uint64_t now_us, struct tr_sql_job *is)
{
    struct tr_truth t = {.what = TR_TRUTH_TEND};
    struct act a = {.t = &t, .j = is, .now_us = now_us};

    if (!item->found || item->row.gen != item->gen) {
        return false;
    }
    *is = item->row;
    settle(&a);
    return true;
}
