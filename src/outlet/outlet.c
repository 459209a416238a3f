/*
 * One outlet: a consumer inside the server.
 *
 *     RESERVE --> parcel: GATED --durable--> READY --> send() ... --> done() --> DECIDED
 *        ^                                               |  TOUCH now and then      |
 *        |                                                                          v
 *        +------ one place is free again <---------- DELETE, RELEASE, BURY, RETURN --+
 *
 * One reserve at a time waits in the line of the topic, like that of any consumer; it is asked
 * again while there is a free place. So order, rate, pauses and in_flight are the engine's as ever.
 *
 * A job is sent when its hand-out could have been told to a client, and acked when the other side
 * has confirmed it. Its lease is that of a connection: a crash ends it, and the job is sent again
 * at once, with the same id. The lease is renewed as long as we have the job, also while the disk
 * or the queue keeps it waiting; if it is lost all the same, or the job was cancelled by force, the
 * send is cancelled and its end means nothing.
 *
 * Jobs of the beanstalk port have no backoff unless somebody gives one: a receiver that is down
 * would be asked thousands of times a second. Here they wait as those of HTTP do.
 */

#include "base/err.h"
#include "base/text.h"
#include "outlet/outlet_inner.h"
#include "rules/backoff.h"
#include "rules/duration.h"
#include "rules/policy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FETCHES = 64, SHOWN = 200 };

#define LEASE_US UINT64_C(30000000)     /* at least, whatever the ttr */
#define PAUSE_US UINT64_C(100000)       /* after want of memory */
#define OPEN_PAUSE_US UINT64_C(1000000) /* after a sender that could not be opened */
#define AGAIN_US UINT64_C(1000000)
#define QUIET_US UINT64_C(60000000)
#define RETRY_AFTER_MAX_US (UINT64_C(86400) * 1000000)

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* By which breakers count: with a test clock that, so that retries come in order. */
static uint64_t tick(const struct tr_outlets *o)
{
    return o->config.test_clock ? o->config.clock(o->config.ctx) : tr_outlets_boot(o);
}

void tr_outlet_mark(struct tr_outlet *out)
{
    if (tr_list_empty(&out->work)) {
        tr_list_append(&out->all->work, &out->work);
    }
}

static void pause_for(struct tr_outlet *out, uint64_t us)
{
    out->pause_us = tr_outlets_boot(out->all) + us;
    out->all->next_us = min(out->all->next_us, out->pause_us);
}

/* ---- what is told of it ---- */

/* Where it sends to, without secrets, not too long. */
static void show(const struct tr_outlet *out, char shown[SHOWN])
{
    char url[TR_DELIVER_SHOWN];
    struct tr_deliver d;

    shown[0] = '\0';
    if (tr_deliver_decode(out->bytes, out->len, &d) == TARRY_OK) {
        tr_deliver_show_url(
            url, d.texts[d.type == TR_DELIVER_KAFKA ? TR_DELIVER_BROKERS : TR_DELIVER_URL]);
        tr_text(shown, SHOWN, "%s", url);
    }
}

static void say(const struct tr_outlet *out, bool warning, const char *what)
{
    char shown[SHOWN];
    char text[2 * SHOWN + TR_OUTLET_NAME + TR_OUTLET_WHY + 64];

    show(out, shown);
    tr_text(text, sizeof text, "topic %s: its %s %s %s", out->face->name,
            tr_deliver_type_name(out->kind->type), shown, what);
    out->all->config.say(out->all->config.ctx, warning, text);
}

static void say_open(const struct tr_outlet *out)
{
    char wait[TR_DURATION_TEXT];
    char text[TR_OUTLET_WHY + 160];

    tr_duration_print(wait, out->breaker.until_us - tick(out->all));
    tr_text(text, sizeof text, "cannot be reached (%s): it is left alone for %s", out->face->why,
            wait);
    say(out, true, text);
}

static void say_failed(const struct tr_outlet *out, const struct tr_send *s)
{
    struct tr_face *f = out->face;
    uint64_t now_us = tr_outlets_boot(out->all);
    char text[TR_OUTLET_WHY + 96];

    if (now_us >= f->quiet_us) {
        f->quiet_us = now_us + QUIET_US;
        tr_text(text, sizeof text, "failed: %s (job %" PRIu64 ", attempt %" PRIu32 ")", s->why,
                s->id, s->attempt);
        say(out, true, text);
    }
}

static void count(struct tr_face *f, const char *code)
{
    unsigned i = 0;

    while (i < f->count_count && strcmp(f->counts[i].code, code) != 0) {
        i++;
    }
    if (i == TR_OUTLET_CODES) {
        i--; /* the last place is for all others: a series never goes away */
    } else if (i == f->count_count) {
        f->count_count++;
        tr_text(f->counts[i].code, TR_OUTLET_CODE, "%s", i + 1 < TR_OUTLET_CODES ? code : "other");
    }
    f->counts[i].count++;
}

/* ---- the breaker ---- */

static void give_up_fetch(struct tr_outlet *out)
{
    struct tr_outlets *o = out->all;

    if (out->fetching) {
        out->fetching = false;
        o->asked = true;
        o->config.queue.abandon(o->config.queue.ctx, &out->fetch, o->config.now(o->config.ctx));
    }
}

static void unreachable(struct tr_outlet *out)
{
    if (tr_breaker_failed(&out->breaker, tick(out->all))) {
        out->era++;
        out->recent = 0;
        give_up_fetch(out);
        say_open(out);
        if (!out->all->config.test_clock) {
            out->all->next_us = min(out->all->next_us, out->breaker.until_us);
        }
    }
}

static void answered(struct tr_outlet *out)
{
    if (tr_breaker_answered(&out->breaker)) {
        say(out, false, "answers again");
    }
}

/*
 * A send has ended: figures, logs and breaker. That one fails which was under way when the breaker
 * opened is no news, be it half-open or closed by now; that it is answered is.
 */
static void note(struct tr_outlet *out, const struct tr_parcel *p)
{
    const struct tr_send *s = &p->send;
    struct tr_face *f = out->face;

    if (s->outcome == TR_SEND_BACK) {
        return;
    }
    count(f, s->code[0] != '\0' ? s->code : "other");
    if (s->outcome == TR_SEND_OK) {
        f->delivered++;
        answered(out);
        return;
    }
    tr_text(f->why, sizeof f->why, "%s", s->why);
    f->why_us = out->all->config.clock(out->all->config.ctx);
    f->failed += s->outcome != TR_SEND_REFUSED;
    f->refused += s->outcome == TR_SEND_REFUSED;
    say_failed(out, s);
    if (s->outcome != TR_SEND_UNREACHABLE) {
        answered(out);
    } else if (p->era == out->era) {
        unreachable(out);
    }
}

/* ---- parcels ---- */

static void decide(struct tr_parcel *p)
{
    tr_list_remove(&p->link);
    p->stage = TR_STAGE_DECIDED;
    tr_list_append(&p->outlet->all->decided, &p->link);
}

static void decide_back(struct tr_parcel *p)
{
    p->send.outcome = TR_SEND_BACK;
    decide(p);
}

void tr_parcel_free(struct tr_parcel *p)
{
    struct tr_outlet *out = p->outlet;

    tr_list_remove(&p->link);
    tr_list_remove(&p->touch);
    out->busy--;
    out->recent -= p->era == out->era;
    out->job_bytes -= p->size;
    out->all->parcels--;
    out->all->job_bytes -= p->size;
    tr_outlet_mark(out);
    tr_mem_free(&out->all->mem, p, p->size);
}

/* The lease is not ours any more: it must not be sent, or as little as can be. */
static void lose(struct tr_parcel *p)
{
    const struct tr_outlet *out = p->outlet;

    if (p->stage == TR_STAGE_GATED || p->stage == TR_STAGE_READY) {
        decide_back(p);
    } else if (p->stage == TR_STAGE_SENDING && out->kind->cancel != NULL) {
        out->kind->cancel(out->sender, &p->send);
    }
}

/* The queue has answered. */
static void told(struct tr_req *r)
{
    struct tr_parcel *p = r->ctx;
    struct tr_outlets *o = p->outlet->all;
    int err = r->out.status;

    p->asked = false;
    if (p->stage != TR_STAGE_TELLING) { /* that was a touch */
        if (err == TARRY_ESTATE || err == TARRY_ENOTFOUND) {
            lose(p);
        }
        return;
    }
    if (err == TARRY_ENOMEM || err == TARRY_ENOSPC || err == TARRY_EFULL || err == TARRY_EAWAY ||
        err == TARRY_EUNSURE) { /* as long as the lease lasts */
        p->stage = TR_STAGE_DECIDED;
        p->again_us = tr_outlets_boot(o) + AGAIN_US;
        tr_list_remove(&p->link);
        tr_list_append(&o->later, &p->link);
        return;
    }
    tr_parcel_free(p); /* done; or the lease was lost, and it is not ours any more */
}

static void ask(struct tr_parcel *p, enum tr_op op)
{
    struct tr_outlets *o = p->outlet->all;

    p->req.op = op;
    p->req.done = told;
    p->req.ctx = p;
    p->req.actor = o->config.actor;
    p->req.id = p->send.id;
    p->req.lease = p->lease;
    p->req.keep_priority = true;
    p->asked = true;
    tr_outlets_ask(o, &p->req);
}

/* How long a job waits that was not taken. */
static void fill_delay(struct tr_parcel *p)
{
    struct tr_backoff usual = tr_backoff_default();
    const struct tr_send *s = &p->send;

    p->req.by_backoff = !s->has_retry_after && !p->bare;
    if (s->has_retry_after) {
        p->req.delay_us = min(s->retry_after_us, RETRY_AFTER_MAX_US);
    } else if (p->bare) {
        p->req.delay_us = tr_backoff_delay(&usual, s->attempt, tr_rng_next(&p->outlet->all->rng));
    }
}

void tr_parcel_tell(struct tr_parcel *p)
{
    p->stage = TR_STAGE_TELLING;
    p->req = (struct tr_req){0};
    tr_list_remove(&p->link);
    tr_list_append(&p->outlet->all->telling, &p->link);
    switch (p->send.outcome) {
    case TR_SEND_OK:
        ask(p, TR_OP_DELETE);
        break;
    case TR_SEND_REFUSED:
        ask(p, TR_OP_BURY);
        break;
    case TR_SEND_BACK:
        ask(p, TR_OP_RETURN);
        break;
    default:
        fill_delay(p);
        ask(p, TR_OP_RELEASE);
        break;
    }
}

void tr_parcel_touch(struct tr_parcel *p, uint64_t now_us)
{
    p->touched_us = now_us;
    tr_list_remove(&p->touch);
    tr_list_append(&p->outlet->all->touch, &p->touch);
    if (!p->asked) {
        p->req = (struct tr_req){.lease_us = LEASE_US};
        ask(p, TR_OP_TOUCH);
    }
}

/* ---- fetching ---- */

static const char *keep(uint8_t **at, const char *text, size_t len)
{
    const char *kept = (const char *)*at;

    if (len == 0) {
        return NULL;
    }
    memcpy(*at, text, len);
    *at += len;
    return kept;
}

/* Jobs of the beanstalk port are so, and those that say it: what such a port exported, say. */
static bool is_bare(const struct tr_job_view *job)
{
    int64_t retries = job->has_retries ? job->retries : tr_policy_retries(job->beanstalk);

    return job->backoff == NULL ? job->beanstalk : retries < 0 && !tr_backoff_waits(job->backoff);
}

static void fill(struct tr_parcel *p, const struct tr_job_view *job)
{
    uint8_t *at = p->bytes;
    struct tr_send *s = &p->send;

    s->id = job->id;
    s->topic = p->outlet->face->name;
    s->topic_len = p->outlet->face->name_len;
    s->key_len = job->key != NULL ? job->key_len : 0;
    s->key = keep(&at, job->key, s->key_len);
    s->tag_len = job->tag != NULL ? job->tag_len : 0;
    s->tag = keep(&at, job->tag, s->tag_len);
    s->body = at;
    s->body_len = job->body_len;
    if (job->body_len > 0) {
        memcpy(at, job->body, job->body_len);
    }
    s->attempt = job->reserves;
    s->due_us = job->due_us;
    s->late_us = job->late_us;
    p->lease = job->lease;
    p->bare = is_bare(job);
}

/*
 * Is there room for one more? Nobody may have more than what is left for others: the first that
 * hangs is stopped at a half, the second at a third, and there is always a rest. Who has nothing
 * under way may always have one.
 */
static bool fits(const struct tr_outlet *out, size_t size)
{
    const struct tr_outlets *o = out->all;

    return out->busy == 0 || o->job_bytes + out->job_bytes + size <= o->config.memory;
}

static struct tr_parcel *parcel_new(struct tr_outlet *out, const struct tr_job_view *job)
{
    struct tr_outlets *o = out->all;
    size_t size = sizeof(struct tr_parcel) + (job->key != NULL ? job->key_len : 0) +
                  (job->tag != NULL ? job->tag_len : 0) + job->body_len + 1;
    bool room = fits(out, size);
    struct tr_parcel *p = room ? tr_mem_alloc(&o->mem, size) : NULL;

    out->short_of = room ? 0 : size;
    if (p != NULL) {
        p->outlet = out;
        p->size = size;
        p->era = out->era;
        out->busy++;
        out->recent++;
        out->job_bytes += size;
        o->parcels++;
        o->job_bytes += size;
        tr_list_init(&p->link);
        p->touched_us = tr_outlets_boot(o);
        tr_list_append(&o->touch, &p->touch);
        fill(p, job);
    }
    return p;
}

/* The job for which there was no memory is back where it was. */
static void given_back(struct tr_req *r)
{
    struct tr_outlet *out = r->ctx;

    out->backing = false;
    if (out->short_of == 0) {
        pause_for(out, PAUSE_US);
    }
    tr_outlet_mark(out);
}

static void fetched(struct tr_req *r)
{
    struct tr_outlet *out = r->ctx;
    struct tr_outlets *o = out->all;
    struct tr_parcel *p;

    out->fetching = false;
    tr_outlet_mark(out);
    if (r->out.status != TARRY_OK) {
        pause_for(out, PAUSE_US);
        if (r->out.status == TARRY_EINVAL) { /* there is no such topic any more */
            tr_outlets_look(o, out->face->topic);
        }
        return;
    }
    p = parcel_new(out, &r->out.job);
    if (p == NULL) {
        out->back = (struct tr_req){.op = TR_OP_RETURN,
                                    .done = given_back,
                                    .ctx = out,
                                    .id = r->out.job.id,
                                    .lease = r->out.job.lease};
        out->backing = true;
        out->back_due = true; /* not from here: this is inside the queue */
        return;
    }
    p->gate = r->out.gate > out->gate ? r->out.gate : out->gate;
    if (p->gate > o->durable) {
        tr_list_append(&o->gated, &p->link);
    } else {
        p->stage = TR_STAGE_READY;
        tr_list_append(&out->ready, &p->link);
    }
}

/* Is there still no room for the job that went back? Then nothing is asked for until there is. */
static bool is_short(const struct tr_outlet *out)
{
    return out->short_of > 0 && !fits(out, out->short_of);
}

/* What hangs since before the breaker opened does not keep one from being tried. */
static bool has_place(struct tr_outlet *out)
{
    return out->busy < out->window &&
           out->recent < tr_breaker_allows(&out->breaker, out->window, tick(out->all));
}

static bool wants(struct tr_outlet *out)
{
    return !out->retired && out->sender != NULL && !out->fetching && !out->backing &&
           !is_short(out) && out->pause_us <= tr_outlets_boot(out->all) && has_place(out);
}

static void fetch(struct tr_outlet *out)
{
    out->fetch = (struct tr_req){.op = TR_OP_RESERVE,
                                 .done = fetched,
                                 .ctx = out,
                                 .actor = out->all->config.actor,
                                 .topics = &out->face->topic,
                                 .topic_count = 1,
                                 .order = TR_ORDER_DUE,
                                 .wait_us = TR_WAIT_FOREVER,
                                 .holder = out->holder,
                                 .lease_us = LEASE_US};
    out->fetching = true;
    tr_outlets_ask(out->all, &out->fetch);
}

/* ---- sending ---- */

static void send_ready(struct tr_outlet *out)
{
    while (!tr_list_empty(&out->ready)) {
        struct tr_parcel *p = TR_CONTAINER_OF(out->ready.next, struct tr_parcel, link);

        if (out->retired || out->sender == NULL) {
            decide_back(p);
            continue;
        }
        tr_list_remove(&p->link);
        p->stage = TR_STAGE_SENDING;
        out->kind->send(out->sender, &p->send);
    }
}

/* A sender is done with one. */
static void sent(void *ctx, struct tr_send *s)
{
    struct tr_outlet *out = ctx;
    struct tr_parcel *p = TR_CONTAINER_OF(s, struct tr_parcel, send);

    TR_CHECK(p->stage == TR_STAGE_SENDING);
    if (!out->all->aborted) {
        note(out, p);
    }
    decide(p);
}

static void wake(void *ctx)
{
    struct tr_outlet *out = ctx;
    struct tr_bell *bell = out->bell;

    (void)pthread_mutex_lock(&bell->lock);
    if (bell->of != NULL) {
        atomic_store(&bell->of->woken, true);
        bell->of->config.wake(bell->of->config.ctx);
    }
    (void)pthread_mutex_unlock(&bell->lock);
}

static void open_sender(struct tr_outlet *out)
{
    struct tr_deliver d;
    int err = tr_deliver_decode(out->bytes, out->len, &d);

    if (err == TARRY_OK) {
        err = out->kind->open(&out->sender, &d, &out->host);
    }
    if (err != TARRY_OK) {
        out->sender = NULL;
        tr_text(out->face->why, sizeof out->face->why, "the sender cannot be made: %s",
                tarry_strerror(err));
        out->face->why_us = out->all->config.clock(out->all->config.ctx);
        pause_for(out, OPEN_PAUSE_US);
        return;
    }
    out->window = out->kind->window(out->sender);
}

/* ---- its life ---- */

struct tr_outlet *tr_outlet_new(struct tr_face *f, const struct tr_sender_kind *kind,
                                const void *bytes, size_t len)
{
    struct tr_outlets *o = f->all;
    struct tr_outlet *out = tr_mem_alloc(&o->mem, sizeof *out + len);

    if (out == NULL) {
        return NULL;
    }
    out->all = o;
    out->face = f;
    out->kind = kind;
    out->bytes = (uint8_t *)(out + 1);
    out->len = len;
    memcpy(out->bytes, bytes, len);
    out->bell = o->bell;
    out->holder = UINT64_C(1) << 63 | ++o->holders; /* connections count from the other end */
    out->host = (struct tr_sender_host){.ctx = out,
                                        .allow_private = o->config.allow_private,
                                        .wake = wake,
                                        .done = sent,
                                        .topic = f->name,
                                        .poller = &o->config.poller,
                                        .shared = &o->shared[kind->type]};
    tr_list_init(&out->work);
    tr_list_init(&out->ready);
    tr_list_append(&o->outlets, &out->link);
    f->outlets++;
    tr_outlet_mark(out);
    return out;
}

void tr_outlet_free(struct tr_outlet *out)
{
    struct tr_outlets *o = out->all;
    struct tr_face *f = out->face;

    if (out->sender != NULL) {
        out->kind->close(out->sender);
    }
    tr_list_remove(&out->link);
    tr_list_remove(&out->work);
    tr_mem_free(&o->mem, out, sizeof *out + out->len);
    tr_face_left(f);
}

void tr_outlet_retire(struct tr_outlet *out)
{
    out->retired = true;
    give_up_fetch(out);
    tr_outlet_mark(out);
}

void tr_outlet_stop(struct tr_outlet *out)
{
    if (out->sender != NULL && !out->stopping) {
        out->stopping = true;
        out->kind->stop(out->sender);
    }
    tr_outlet_mark(out);
}

/* Is there nothing left of it? */
static bool is_over(struct tr_outlet *out)
{
    if (!out->retired || out->busy > 0 || out->backing) {
        return false;
    }
    tr_outlet_stop(out);
    tr_list_remove(&out->work);
    return out->sender == NULL || out->kind->stopped(out->sender);
}

void tr_outlet_step(struct tr_outlet *out)
{
    if (out->back_due) {
        out->back_due = false;
        tr_outlets_ask(out->all, &out->back);
    }
    if (out->sender == NULL && !out->retired && out->pause_us <= tr_outlets_boot(out->all)) {
        open_sender(out);
    }
    send_ready(out);
    for (unsigned i = 0; i < FETCHES && wants(out); i++) {
        fetch(out);
        send_ready(out);
    }
    if (wants(out)) {
        tr_outlet_mark(out);
    }
    if (is_short(out)) { /* others may make room, too */
        out->all->next_us = min(out->all->next_us, tr_outlets_boot(out->all) + PAUSE_US);
    }
    if (is_over(out)) {
        tr_outlet_free(out);
    }
}
