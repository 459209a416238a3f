/*
 * What can be asked of a store. Each function fills a call, has it done and gives its status; the
 * steps between are done by the store's thread (store.c):
 *
 *     push      hold the topic, PUSH, drop the topic
 *     by key    find the topic, then the request itself
 *     find      STAT_JOB, which tells the topic's name, then PEEK, which has the body
 *     reserve   hold all topics, RESERVE, drop them
 *
 * A topic is held while somebody pushes to it or waits for it, so that it stays though it has no
 * job. Jobs are reserved by one holder, the process, so that its leases end with it; but they are
 * acked and so on by their lease alone, since one thread must not end the lease of another.
 *
 * Arguments are judged before the call leaves its thread; what the engine refuses it refuses
 * without having changed anything.
 */

#include "base/name.h"
#include "base/utf8.h"
#include "lib/inner.h"
#include "rules/backoff.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 255, TAG_MAX = 64, TOPICS_MAX = 10000, TOPICS_FEW = 16 };

#define HOLDER UINT64_C(1) /* all jobs that are handed out */

static bool topic_ok(const char *topic)
{
    return topic != NULL && tr_name_ok(topic, strnlen(topic, TR_TOPIC_NAME_MAX + 1));
}

/* 1 to `most` bytes of UTF-8 without control characters? */
static bool text_ok(const char *text, size_t most)
{
    size_t len = text != NULL ? strnlen(text, most + 1) : 0;

    if (len < 1 || len > most || !tr_utf8_ok((const uint8_t *)text, len)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127) {
            return false;
        }
    }
    return true;
}

static bool key_ok(const char *key)
{
    return text_ok(key, KEY_MAX);
}

static bool tag_ok(const char *tag)
{
    return tag == NULL || text_ok(tag, TAG_MAX);
}

static bool which_ok(const struct tarry_which *w)
{
    return w->id != 0 || (topic_ok(w->topic) && key_ok(w->key));
}

static bool body_ok(const struct tarry *t, const void *body, size_t len)
{
    return (body != NULL || len == 0) && t != NULL && len <= t->body_max;
}

/* ---- steps ---- */

/* The topic by this name, held from now on (HOLD) or not (FIND). */
static int topic_now(struct tr_call *c, enum tr_op op, const char *name, uint32_t *topic)
{
    int err;

    c->side.name = name;
    c->side.name_len = strlen(name);
    c->side.hold = TR_HOLD_USE;
    err = tr_call_ask_now(c, op);
    *topic = c->side.out.topic;
    return err;
}

static void drop_topics(struct tr_call *c)
{
    while (c->held_count > 0) {
        c->side.topic = c->held[--c->held_count];
        c->side.hold = TR_HOLD_USE;
        (void)tr_call_ask_now(c, TR_OP_DROP_TOPIC); /* after a failure it says EIO */
    }
}

/* The end of most: what was answered of the job is told. */
static void answered(struct tr_call *c)
{
    int status = c->req.out.status;

    if (c->result != NULL &&
        (status == TARRY_OK || status == TARRY_ESTATE || status == TARRY_EEXISTS)) {
        tr_give_result(c->result, &c->req);
    }
    c->number = c->req.out.number;
    drop_topics(c);
    tr_call_end(c, status);
}

/* Asks what the call is about; a job by key needs its topic. */
static void begin(struct tr_call *c)
{
    int err = TARRY_OK;

    if (c->topic != NULL) {
        err = topic_now(c, TR_OP_FIND_TOPIC, c->topic, &c->req.topic);
    }
    if (err != TARRY_OK) {
        tr_call_end(c, err);
        return;
    }
    tr_call_ask(c, c->req.op, answered);
}

/* A call about one job. */
static struct tr_call about(enum tr_op op, const struct tarry_which *which,
                            struct tarry_result *result)
{
    struct tr_call c = {.begin = begin, .result = result};

    c.req.op = op;
    c.req.id = which->id;
    if (which->id == 0) {
        c.topic = which->topic;
        c.req.key = which->key;
        c.req.key_len = strlen(which->key);
    }
    return c;
}

/* ---- producing ---- */

static void begin_push(struct tr_call *c)
{
    int err = topic_now(c, TR_OP_HOLD_TOPIC, c->topic, &c->req.topic);

    if (err != TARRY_OK) {
        tr_call_end(c, err);
        return;
    }
    c->held[c->held_count++] = c->req.topic;
    tr_call_ask(c, TR_OP_PUSH, answered);
}

int tarry_push(struct tarry *t, const struct tarry_push *push, struct tarry_result *result)
{
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tr_call c = {.begin = begin_push, .result = result};
    struct tr_backoff backoff;
    const char *why;
    uint32_t held;
    int err = tr_give_take(&p, sizeof p, push);

    if (err != TARRY_OK) {
        return err;
    }
    if (!topic_ok(p.topic) || (p.key != NULL && !key_ok(p.key)) ||
        (p.body == NULL && p.body_len != 0) || !tag_ok(p.tag)) {
        return TARRY_EINVAL;
    }
    if (p.backoff != NULL &&
        tr_backoff_read(p.backoff, strlen(p.backoff), &backoff, &why) != TARRY_OK) {
        return TARRY_EINVAL;
    }
    if (t == NULL) {
        return TARRY_EINVAL;
    }
    if (p.body_len > t->body_max) {
        return TARRY_EFULL;
    }
    c.topic = p.topic;
    c.held = &held;
    c.req.body = p.body;
    c.req.body_len = p.body_len;
    c.req.delay_us = p.delay_us;
    c.req.at_us = p.at_us;
    c.req.key = p.key;
    c.req.key_len = p.key != NULL ? strlen(p.key) : 0;
    c.req.conflict = (enum tr_conflict)p.conflict;
    c.req.priority = p.priority;
    c.req.ttr_us = p.ttr_us;
    c.req.ttl_us = p.ttl_us;
    c.req.tag = p.tag;
    c.req.tag_len = p.tag != NULL ? strlen(p.tag) : 0;
    c.req.has_retries = p.retries != TARRY_RETRIES_TOPIC;
    c.req.retries = p.retries;
    c.req.backoff = p.backoff != NULL ? &backoff : NULL;
    return tr_call_run(t, &c);
}

int tarry_cancel(struct tarry *t, struct tarry_which which, bool force, struct tarry_result *result)
{
    struct tr_call c;

    if (!which_ok(&which)) {
        return TARRY_EINVAL;
    }
    c = about(TR_OP_DELETE, &which, result);
    c.req.force = force;
    return tr_call_run(t, &c);
}

int tarry_change(struct tarry *t, struct tarry_which which, const struct tarry_change *change,
                 struct tarry_result *result)
{
    const unsigned known = 2 * TARRY_FIELD_TAG - 1; /* all up to that one */
    struct tarry_change g = TARRY_CHANGE_INIT;
    struct tr_call c;
    int err = tr_give_take(&g, sizeof g, change);

    if (err != TARRY_OK) {
        return err;
    }
    if (!which_ok(&which) || g.fields == 0 || (g.fields & ~known) != 0 || !tag_ok(g.tag)) {
        return TARRY_EINVAL;
    }
    if ((g.fields & TARRY_FIELD_BODY) != 0 && !body_ok(t, g.body, g.body_len)) {
        return t != NULL && g.body_len > t->body_max ? TARRY_EFULL : TARRY_EINVAL;
    }
    c = about(TR_OP_EDIT, &which, result);
    c.req.edit = g.fields;
    c.req.delay_us = g.delay_us;
    c.req.at_us = g.at_us;
    c.req.priority = g.priority;
    c.req.ttr_us = g.ttr_us;
    c.req.body = g.body;
    c.req.body_len = g.body_len;
    c.req.ttl_us = g.ttl_us;
    c.req.tag = g.tag;
    c.req.tag_len = g.tag != NULL ? strlen(g.tag) : 0;
    return tr_call_run(t, &c);
}

int tarry_reschedule(struct tarry *t, struct tarry_which which, uint64_t delay_us,
                     struct tarry_result *result)
{
    struct tarry_change change = TARRY_CHANGE_INIT;

    change.fields = TARRY_FIELD_DUE;
    change.delay_us = delay_us;
    return tarry_change(t, which, &change, result);
}

int tarry_fire(struct tarry *t, struct tarry_which which, struct tarry_result *result)
{
    struct tr_call c;

    if (!which_ok(&which)) {
        return TARRY_EINVAL;
    }
    c = about(TR_OP_FIRE, &which, result);
    return tr_call_run(t, &c);
}

int tarry_kick(struct tarry *t, struct tarry_which which, struct tarry_result *result)
{
    struct tr_call c;

    if (!which_ok(&which)) {
        return TARRY_EINVAL;
    }
    c = about(TR_OP_KICK_JOB, &which, result);
    return tr_call_run(t, &c);
}

int tarry_kick_topic(struct tarry *t, const char *topic, uint64_t most, uint64_t *count)
{
    struct tr_call c = {.begin = begin, .topic = topic};
    int err;

    if (!topic_ok(topic)) {
        return TARRY_EINVAL;
    }
    c.req.op = TR_OP_KICK;
    c.req.count = most;
    err = tr_call_run(t, &c);
    if (count != NULL) {
        *count = err == TARRY_OK ? c.number : 0;
    }
    return err;
}

/* ---- looking ---- */

static void seen(struct tr_call *c)
{
    int status = c->req.out.status;

    if (status == TARRY_OK) {
        c->job = tr_give_job(&c->req.out.job, c->topic, strlen(c->topic));
        status = c->job != NULL ? TARRY_OK : TARRY_ENOMEM;
    }
    tr_call_end(c, status);
}

/* The name of its topic is known, and never changes; so what else there is of it may come now. */
static void named(struct tr_call *c)
{
    if (c->req.out.status != TARRY_OK) {
        tr_call_end(c, c->req.out.status);
        return;
    }
    memcpy(c->name, c->req.out.name, c->req.out.name_len);
    c->name[c->req.out.name_len] = '\0';
    c->topic = c->name;
    tr_call_ask(c, TR_OP_PEEK, seen);
}

static void begin_find(struct tr_call *c)
{
    int err;

    if (c->topic == NULL) {
        tr_call_ask(c, TR_OP_STAT_JOB, named);
        return;
    }
    err = topic_now(c, TR_OP_FIND_TOPIC, c->topic, &c->req.topic);
    if (err != TARRY_OK) {
        tr_call_end(c, err);
        return;
    }
    tr_call_ask(c, c->req.op, seen);
}

/* If the disk failed after the job was found, the caller gets none, and has nothing to free. */
static int give_job(struct tr_call *c, int err, struct tarry_job **job)
{
    if (err != TARRY_OK) {
        tarry_job_free(c->job);
        c->job = NULL;
    }
    *job = c->job;
    return err;
}

int tarry_find(struct tarry *t, struct tarry_which which, struct tarry_job **job)
{
    struct tr_call c;
    int err;

    if (job == NULL) {
        return TARRY_EINVAL;
    }
    *job = NULL;
    if (!which_ok(&which)) {
        return TARRY_EINVAL;
    }
    c = about(TR_OP_PEEK, &which, NULL);
    c.begin = begin_find;
    err = give_job(&c, tr_call_run(t, &c), job);
    return err;
}

int tarry_peek(struct tarry *t, const char *topic, enum tarry_state state, struct tarry_job **job)
{
    struct tr_call c = {.begin = begin_find, .topic = topic};
    int err;

    if (job == NULL) {
        return TARRY_EINVAL;
    }
    *job = NULL;
    if (!topic_ok(topic)) {
        return TARRY_EINVAL;
    }
    c.req.op = TR_OP_PEEK_FIRST;
    c.req.state = (enum tr_job_state)state;
    c.req.order = TR_ORDER_DUE;
    err = give_job(&c, tr_call_run(t, &c), job);
    return err;
}

static void counted(struct tr_call *c)
{
    const struct tr_topic_stat *s = &c->req.out.stat;

    *c->stats = (struct tarry_stats){.topics = c->topic == NULL ? c->req.out.number : 1,
                                     .delayed = s->delayed,
                                     .ready = s->ready,
                                     .reserved = s->reserved,
                                     .dead = s->dead,
                                     .waiting = s->waiting,
                                     .pushed = s->pushed,
                                     .deleted = s->deleted};
    tr_call_end(c, c->req.out.status);
}

static void begin_stats(struct tr_call *c)
{
    int err = TARRY_OK;

    if (c->topic != NULL) {
        err = topic_now(c, TR_OP_FIND_TOPIC, c->topic, &c->req.topic);
    }
    if (err != TARRY_OK) {
        tr_call_end(c, err);
        return;
    }
    c->req.counts_only = true;
    tr_call_ask(c, c->topic != NULL ? TR_OP_STAT_TOPIC : TR_OP_STAT, counted);
}

int tarry_stats(struct tarry *t, const char *topic, struct tarry_stats *stats)
{
    struct tarry_stats all = TARRY_STATS_INIT;
    struct tr_call c = {.begin = begin_stats, .topic = topic, .stats = &all};
    int err;

    if ((topic != NULL && !topic_ok(topic)) || stats == NULL || stats->size < sizeof stats->size) {
        return TARRY_EINVAL;
    }
    err = tr_call_run(t, &c);
    if (err == TARRY_OK) {
        all.size = stats->size < sizeof all ? stats->size : sizeof all;
        memcpy(stats, &all, all.size);
    }
    return err;
}

int tarry_backup(struct tarry *t, const char *dir)
{
    struct tr_call c = {.begin = begin};

    if (dir == NULL || dir[0] == '\0') {
        return TARRY_EINVAL;
    }
    c.req.op = TR_OP_BACKUP;
    c.req.name = dir;
    c.req.name_len = strlen(dir);
    return tr_call_run(t, &c);
}

/* ---- consuming ---- */

static void returned(struct tr_call *c)
{
    drop_topics(c);
    tr_call_end(c, TARRY_ENOMEM);
}

static void handed(struct tr_call *c)
{
    struct tr_job_view *v = &c->req.out.job;
    int status = c->req.out.status;

    c->waits = false;
    for (size_t i = 0; i < c->held_count && status == TARRY_OK && c->job == NULL; i++) {
        if (c->held[i] == v->topic) {
            c->job = tr_give_job(v, c->topics[i], strlen(c->topics[i]));
        }
    }
    if (status == TARRY_OK && c->job == NULL) { /* as if nobody had asked */
        c->req.id = v->id;
        c->req.lease = v->lease;
        c->req.holder = 0;
        tr_call_ask(c, TR_OP_RETURN, returned);
        return;
    }
    drop_topics(c);
    tr_call_end(c, status);
}

static void begin_reserve(struct tr_call *c)
{
    int err = TARRY_OK;

    while (c->held_count < c->topic_count && err == TARRY_OK) {
        err = topic_now(c, TR_OP_HOLD_TOPIC, c->topics[c->held_count], &c->held[c->held_count]);
        c->held_count += err == TARRY_OK;
    }
    if (err != TARRY_OK) {
        drop_topics(c);
        tr_call_end(c, err);
        return;
    }
    c->waits = true;
    c->req.topics = c->held;
    c->req.topic_count = (unsigned)c->held_count;
    tr_call_ask(c, TR_OP_RESERVE, handed);
}

void tr_call_give_up(struct tr_call *c)
{
    c->waits = false;
    drop_topics(c);
    tr_call_end(c, TARRY_ECLOSED);
}

int tarry_reserve(struct tarry *t, const struct tarry_reserve *reserve, struct tarry_job **job)
{
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tr_call c = {.begin = begin_reserve};
    uint32_t few[TOPICS_FEW];
    int err = tr_give_take(&r, sizeof r, reserve);

    if (job == NULL) {
        return TARRY_EINVAL;
    }
    *job = NULL;
    if (err != TARRY_OK) {
        return err;
    }
    c.topics = r.topic != NULL ? &r.topic : r.topics;
    c.topic_count = r.topic != NULL ? 1 : r.topic_count;
    if (c.topics == NULL || c.topic_count < 1 || c.topic_count > TOPICS_MAX) {
        return TARRY_EINVAL;
    }
    for (size_t i = 0; i < c.topic_count; i++) {
        if (!topic_ok(c.topics[i])) {
            return TARRY_EINVAL;
        }
    }
    c.held = c.topic_count <= TOPICS_FEW ? few : calloc(c.topic_count, sizeof *c.held);
    if (c.held == NULL) {
        return TARRY_ENOMEM;
    }
    c.req.order = TR_ORDER_DUE;
    c.req.wait_us = r.wait_us;
    c.req.holder = HOLDER;
    err = give_job(&c, tr_call_run(t, &c), job);
    if (c.held != few) {
        free(c.held);
    }
    return err;
}

/* A call about a job that is held. */
static int with_lease(struct tarry *t, enum tr_op op, const struct tarry_job *job,
                      struct tr_call *c)
{
    if (job == NULL || job->id == 0 || job->lease == 0) {
        return TARRY_EINVAL;
    }
    c->begin = begin;
    c->req.op = op;
    c->req.id = job->id;
    c->req.lease = job->lease;
    c->req.priority = job->priority;
    c->req.keep_priority = true;
    return tr_call_run(t, c);
}

int tarry_ack(struct tarry *t, const struct tarry_job *job)
{
    struct tr_call c = {0};

    return with_lease(t, TR_OP_DELETE, job, &c);
}

int tarry_release(struct tarry *t, const struct tarry_job *job, uint64_t delay_us)
{
    struct tr_call c = {.req = {.delay_us = delay_us == TARRY_BACKOFF ? 0 : delay_us,
                                .by_backoff = delay_us == TARRY_BACKOFF}};

    return with_lease(t, TR_OP_RELEASE, job, &c);
}

int tarry_bury(struct tarry *t, const struct tarry_job *job)
{
    struct tr_call c = {0};

    return with_lease(t, TR_OP_BURY, job, &c);
}

int tarry_touch(struct tarry *t, const struct tarry_job *job, uint64_t ttr_us)
{
    struct tr_call c = {.req = {.ttr_us = ttr_us}};

    return with_lease(t, TR_OP_TOUCH, job, &c);
}
