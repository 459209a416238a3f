/*
 * All outlets.
 *
 *     a policy changes --> look: STAT_TOPIC --> another `deliver`? --> the old outlet retires, a
 * new one begins beside it work: timers, looks, what is decided, outlets that have something to do
 * (outlet.c)
 *
 * A face is what is known of a topic, with figures that stay when its policy changes; an outlet is
 * one sender with one policy. One that retires takes no new jobs, ends what it has, and is freed
 * when its sender has stopped; so nothing waits for a thread that hangs in a library.
 *
 * Who delays whom. Nothing here waits: a slow or dead receiver holds at most `window` parcels of
 * its own topic, and never more of the memory than it leaves to others. Work is done in rounds of
 * limited time, each outlet in its turn.
 *
 * A test clock stands still while something is under way here (tr_outlets_event): so retries come
 * at their time and in their order, though a send takes real time. Breakers count by it, too.
 *
 * Stop: nothing new is fetched; what is being sent has a while to end (`hurry` ends that: senders
 * give back what they can); what was not sent is given back as if it had never been handed out.
 *
 * Not done here: what a sender does (sender.h).
 */

#include "outlet/outlets.h"

#include "base/err.h"
#include "base/text.h"
#include "outlet/guard.h"
#include "outlet/outlet_inner.h"
#include "outlet/url.h"
#include "rules/policy.h"

#include <stdlib.h>
#include <string.h>

#define TOUCH_US UINT64_C(8000000) /* well within the least lease */
#define RESCAN_US UINT64_C(1000000)

uint64_t tr_outlets_boot(const struct tr_outlets *o)
{
    return o->config.now(o->config.ctx).boot_us;
}

void tr_outlets_ask(struct tr_outlets *o, struct tr_req *r)
{
    o->asked = true;
    o->config.queue.submit(o->config.queue.ctx, r, o->config.now(o->config.ctx));
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- faces ---- */

static void face_free(struct tr_face *f)
{
    struct tr_outlets *o = f->all;

    tr_list_remove(&f->link);
    tr_list_remove(&f->dirty);
    (void)tr_map_take(&o->faces, f->topic);
    tr_mem_free(&o->mem, f, sizeof *f);
}

void tr_face_left(struct tr_face *f)
{
    f->outlets--;
    if (f->gone && f->outlets == 0 && !f->looking) {
        face_free(f);
    }
}

static struct tr_face *face_of(struct tr_outlets *o, uint32_t topic)
{
    struct tr_face *f = tr_map_find(&o->faces, topic);

    if (f != NULL) {
        return f;
    }
    f = tr_mem_alloc(&o->mem, sizeof *f);
    if (f == NULL || tr_map_put(&o->faces, topic, f) != TARRY_OK) {
        tr_mem_free(&o->mem, f, sizeof *f);
        return NULL;
    }
    f->all = o;
    f->topic = topic;
    tr_list_init(&f->dirty);
    tr_list_append(&o->in_order, &f->link);
    return f;
}

/* Something could not be done for want of memory: then all of it once more. */
static void rescan_later(struct tr_outlets *o)
{
    o->rescan = true;
    o->rescan_us = tr_outlets_boot(o) + RESCAN_US;
}

void tr_outlets_look(struct tr_outlets *o, uint32_t topic)
{
    struct tr_face *f = o->aborted ? NULL : face_of(o, topic);

    if (f == NULL) {
        rescan_later(o);
    } else if (f->looking) {
        f->again = true;
    } else if (tr_list_empty(&f->dirty)) {
        tr_list_append(&o->dirty, &f->dirty);
    }
}

/* Its last outlet may have kept it alive until now, long after its policy went. */
void tr_outlets_dropped(struct tr_outlets *o, uint32_t topic)
{
    if (o != NULL && !o->aborted && tr_map_find(&o->faces, topic) != NULL) {
        tr_outlets_look(o, topic);
    }
}

/* ---- looking at a policy ---- */

static void retire(struct tr_face *f)
{
    if (f->outlet != NULL) {
        tr_outlet_retire(f->outlet);
        f->outlet = NULL;
    }
}

/* Something is wrong with what the store has. */
static void cannot(struct tr_face *f, const char *why)
{
    struct tr_outlets *o = f->all;
    char text[TR_OUTLET_NAME + TR_OUTLET_WHY + 32];

    tr_text(f->why, sizeof f->why, "%s", why);
    f->why_us = o->config.clock(o->config.ctx);
    tr_text(text, sizeof text, "topic %s: its jobs are not sent: %s", f->name, why);
    o->config.say(o->config.ctx, true, text);
}

static void begin(struct tr_face *f, const struct tr_policy *p)
{
    const struct tr_sender_kind *kind;
    const char *field;
    const char *why;
    struct tr_deliver d;
    int err = tr_deliver_decode(p->deliver, p->deliver_len, &d);

    if (err != TARRY_OK || tr_deliver_check(&d, &field, &why) != TARRY_OK) {
        cannot(f, err == TARRY_EVERSION ? "its deliver is of a newer version"
                                        : "its deliver cannot be read: set it again");
        return;
    }
    kind = f->all->config.kind_of(d.type);
    if (kind == NULL) {
        cannot(f, "this build has no sender of its type");
        return;
    }
    f->outlet = tr_outlet_new(f, kind, p->deliver, p->deliver_len);
    if (f->outlet == NULL) {
        rescan_later(f->all);
    }
}

static bool is_same(const struct tr_face *f, const struct tr_policy *p)
{
    return f->outlet != NULL && f->outlet->len == p->deliver_len &&
           memcmp(f->outlet->bytes, p->deliver, p->deliver_len) == 0;
}

static void adopt(struct tr_face *f, const struct tr_req *r)
{
    const struct tr_policy *p = r->out.stat.policy;
    const struct tr_outlets_config *config = &f->all->config;
    bool some = p != NULL && p->deliver_len > 0 &&
                (config->mine == NULL || config->mine(config->ctx, f->topic));

    if (f->name_len == 0) { /* once: threads of senders read it */
        f->name_len = r->out.name_len < TR_OUTLET_NAME ? r->out.name_len : TR_OUTLET_NAME;
        memcpy(f->name, r->out.name, f->name_len);
        f->name[f->name_len] = '\0';
    }
    if (!some || !is_same(f, p)) {
        retire(f);
    }
    if (some && f->outlet == NULL && !f->all->stopping) {
        begin(f, p);
    }
    if (f->outlet != NULL) {
        f->outlet->gate = r->out.gate;
    }
}

static void looked(struct tr_req *r)
{
    struct tr_face *f = r->ctx;

    f->looking = false;
    f->all->looks--;
    f->gone = r->out.status == TARRY_ENOTFOUND;
    if (r->out.status == TARRY_OK) {
        adopt(f, r);
    } else if (f->gone) {
        retire(f);
    }
    if (r->out.status != TARRY_OK && !f->gone) {
        rescan_later(f->all);
    } else if (f->again) {
        f->again = false;
        tr_outlets_look(f->all, f->topic);
    } else if (f->gone && f->outlets == 0) {
        face_free(f);
    }
}

static void look(struct tr_face *f)
{
    tr_list_remove(&f->dirty);
    f->look = (struct tr_req){
        .op = TR_OP_STAT_TOPIC, .done = looked, .ctx = f, .topic = f->topic, .counts_only = true};
    f->looking = true;
    f->all->looks++;
    tr_outlets_ask(f->all, &f->look);
}

/* ---- what others tell ---- */

void tr_outlets_durable(struct tr_outlets *o, uint64_t batch)
{
    struct tr_list *n = o->gated.next;

    o->durable = batch;
    while (n != &o->gated) {
        struct tr_parcel *p = TR_CONTAINER_OF(n, struct tr_parcel, link);

        n = n->next;
        if (p->gate <= batch) {
            tr_list_remove(&p->link);
            p->stage = TR_STAGE_READY;
            tr_list_append(&p->outlet->ready, &p->link);
            tr_outlet_mark(p->outlet);
        }
    }
}

void tr_outlets_woken(struct tr_outlets *o)
{
    if (o == NULL || !atomic_exchange(&o->woken, false)) {
        return;
    }
    for (struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        struct tr_outlet *out = TR_CONTAINER_OF(n, struct tr_outlet, link);

        if (out->sender != NULL && out->kind->collect != NULL) {
            out->kind->collect(out->sender);
        }
        if (out->stopping) {
            tr_outlet_mark(out); /* it may have stopped */
        }
    }
}

/* ---- the turn ---- */

/* Outlets that paused may go on; when is the next? */
static void end_pauses(struct tr_outlets *o, uint64_t now_us)
{
    o->next_us = UINT64_MAX;
    for (struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        struct tr_outlet *out = TR_CONTAINER_OF(n, struct tr_outlet, link);
        uint64_t until_us = out->pause_us;

        if (out->breaker.state == TR_BREAKER_OPEN && !o->config.test_clock &&
            out->breaker.until_us > until_us) {
            until_us = out->breaker.until_us;
        }
        if (until_us > now_us) {
            o->next_us = min(o->next_us, until_us);
        } else if (until_us != 0 || out->short_of > 0) {
            out->pause_us = 0;
            tr_outlet_mark(out);
        }
    }
}

/* The test clock was moved: breakers may be half-open now. */
static void look_at_breakers(struct tr_outlets *o)
{
    uint64_t t_us = o->config.clock(o->config.ctx);

    for (struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        struct tr_outlet *out = TR_CONTAINER_OF(n, struct tr_outlet, link);

        if (out->breaker.state == TR_BREAKER_OPEN && out->breaker.until_us <= t_us) {
            tr_outlet_mark(out);
        }
    }
}

/* Renews leases, until end_us; gives when the next one's time comes. Those that hang began
 * together: there may be tens of thousands. */
static uint64_t touch_some(struct tr_outlets *o, uint64_t now_us, uint64_t end_us)
{
    while (!tr_list_empty(&o->touch)) {
        struct tr_parcel *p = TR_CONTAINER_OF(o->touch.next, struct tr_parcel, touch);

        if (p->touched_us + TOUCH_US > now_us) {
            return p->touched_us + TOUCH_US;
        }
        tr_parcel_touch(p, now_us);
        if (tr_outlets_boot(o) >= end_us) {
            return 0;
        }
    }
    return UINT64_MAX;
}

/* What the time has come for; gives when it comes next. */
static uint64_t timers(struct tr_outlets *o, uint64_t end_us)
{
    uint64_t now_us = tr_outlets_boot(o);
    uint64_t next_us;
    struct tr_parcel *p;

    if (now_us >= o->next_us) {
        end_pauses(o, now_us);
    }
    if (o->config.test_clock) {
        look_at_breakers(o);
    }
    if (o->rescan && now_us >= o->rescan_us) {
        o->rescan = false;
        o->config.rescan(o->config.ctx);
    }
    next_us = o->rescan ? min(o->next_us, o->rescan_us) : o->next_us;
    while (!tr_list_empty(&o->later)) {
        p = TR_CONTAINER_OF(o->later.next, struct tr_parcel, link);
        if (p->again_us > now_us) {
            next_us = min(next_us, p->again_us);
            break;
        }
        tr_list_remove(&p->link);
        tr_list_append(&o->decided, &p->link);
    }
    return min(next_us, touch_some(o, now_us, end_us));
}

/* Tells the queue what was decided, until end_us, but one at least. Nobody else takes a parcel off
 * that list, so `next` stays. */
static void tell_decided(struct tr_outlets *o, uint64_t end_us)
{
    struct tr_list *next;

    for (struct tr_list *n = o->decided.next; n != &o->decided; n = next) {
        struct tr_parcel *p = TR_CONTAINER_OF(n, struct tr_parcel, link);

        next = n->next;
        if (p->asked) {
            continue; /* a touch is under way */
        }
        tr_parcel_tell(p);
        if (tr_outlets_boot(o) >= end_us) {
            return;
        }
    }
}

static bool can_tell(const struct tr_outlets *o)
{
    for (const struct tr_list *n = o->decided.next; n != &o->decided; n = n->next) {
        if (!TR_CONTAINER_OF(n, struct tr_parcel, link)->asked) {
            return true;
        }
    }
    return false;
}

uint64_t tr_outlets_work(struct tr_outlets *o, uint64_t most_us)
{
    uint64_t next_us;
    uint64_t end_us;

    if (o == NULL || o->aborted || (tr_list_empty(&o->in_order) && !o->rescan)) {
        return UINT64_MAX;
    }
    end_us = tr_outlets_boot(o) + most_us;
    next_us = timers(o, end_us);
    while (!tr_list_empty(&o->dirty)) {
        look(TR_CONTAINER_OF(o->dirty.next, struct tr_face, dirty));
    }
    tell_decided(o, end_us);
    while (!tr_list_empty(&o->work)) {
        struct tr_outlet *out = TR_CONTAINER_OF(o->work.next, struct tr_outlet, work);

        tr_list_remove(&out->work);
        tr_outlet_step(out);
        tell_decided(o, end_us);
        if (tr_outlets_boot(o) >= end_us) {
            break;
        }
    }
    return !tr_list_empty(&o->work) || !tr_list_empty(&o->dirty) || can_tell(o)
               ? 0
               : min(next_us, o->next_us); /* somebody may have begun to pause */
}

bool tr_outlets_asked(struct tr_outlets *o)
{
    bool asked = o != NULL && o->asked;

    if (asked) {
        o->asked = false;
    }
    return asked;
}

uint64_t tr_outlets_event(const struct tr_outlets *o)
{
    uint64_t at_us = UINT64_MAX;

    if (o == NULL || o->stopping) {
        return UINT64_MAX;
    }
    if (o->parcels > 0 || o->looks > 0 || !tr_list_empty(&o->work) || !tr_list_empty(&o->dirty)) {
        return 0;
    }
    for (const struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        const struct tr_outlet *out = TR_CONTAINER_OF(n, struct tr_outlet, link);

        if (out->backing || (out->pause_us != 0 && !out->retired)) {
            return 0; /* it goes on in a moment of real time, and may find a job that is due */
        }
        if (out->breaker.state == TR_BREAKER_OPEN && !out->retired) {
            at_us = min(at_us, out->breaker.until_us);
        }
    }
    return at_us;
}

/* ---- beginning and end ---- */

int tr_outlets_open(struct tr_outlets **out, const struct tr_outlets_config *c)
{
    struct tr_outlets *o = calloc(1, sizeof *o);
    struct tr_bell *bell = calloc(1, sizeof *bell);

    *out = NULL;
    if (o == NULL || bell == NULL || pthread_mutex_init(&bell->lock, NULL) != 0) {
        free(o);
        free(bell);
        return TARRY_ENOMEM;
    }
    o->config = *c;
    o->bell = bell;
    bell->of = o;
    tr_mem_init(&o->mem, 0);
    tr_map_init(&o->faces, &o->mem);
    tr_list_init(&o->in_order);
    tr_list_init(&o->dirty);
    tr_list_init(&o->outlets);
    tr_list_init(&o->work);
    tr_list_init(&o->gated);
    tr_list_init(&o->decided);
    tr_list_init(&o->telling);
    tr_list_init(&o->later);
    tr_list_init(&o->touch);
    o->next_us = UINT64_MAX;
    o->rng.state = c->now(c->ctx).wall_us;
    *out = o;
    return TARRY_OK;
}

void tr_outlets_stop(struct tr_outlets *o)
{
    if (o == NULL || o->stopping) {
        return;
    }
    o->stopping = true;
    for (struct tr_list *n = o->in_order.next; n != &o->in_order; n = n->next) {
        retire(TR_CONTAINER_OF(n, struct tr_face, link));
    }
}

void tr_outlets_hurry(struct tr_outlets *o)
{
    if (o == NULL || o->hurrying) {
        return;
    }
    o->hurrying = true;
    for (struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        tr_outlet_stop(TR_CONTAINER_OF(n, struct tr_outlet, link));
    }
}

bool tr_outlets_stopped(const struct tr_outlets *o)
{
    return o == NULL || o->aborted || tr_list_empty(&o->outlets);
}

static void forget(struct tr_outlets *o, struct tr_req *r, bool *asked)
{
    if (*asked) {
        *asked = false;
        o->config.queue.abandon(o->config.queue.ctx, r, o->config.now(o->config.ctx));
    }
}

void tr_outlets_abort(struct tr_outlets *o)
{
    if (o == NULL || o->aborted) {
        return;
    }
    o->aborted = true;
    for (struct tr_list *n = o->in_order.next; n != &o->in_order; n = n->next) {
        struct tr_face *f = TR_CONTAINER_OF(n, struct tr_face, link);

        forget(o, &f->look, &f->looking);
    }
    for (struct tr_list *n = o->outlets.next; n != &o->outlets; n = n->next) {
        struct tr_outlet *out = TR_CONTAINER_OF(n, struct tr_outlet, link);
        bool back = out->backing && !out->back_due;

        forget(o, &out->fetch, &out->fetching);
        forget(o, &out->back, &back);
        tr_outlet_stop(out);
    }
    for (struct tr_list *n = o->touch.next; n != &o->touch; n = n->next) {
        struct tr_parcel *p = TR_CONTAINER_OF(n, struct tr_parcel, touch);

        forget(o, &p->req, &p->asked);
    }
}

static void free_parcels(struct tr_list *list)
{
    while (!tr_list_empty(list)) {
        tr_parcel_free(TR_CONTAINER_OF(list->next, struct tr_parcel, link));
    }
}

/* Frees an outlet, if its sender lets go of it. */
static bool free_outlet(struct tr_outlet *out)
{
    free_parcels(&out->ready);
    if (out->busy > 0 || (out->sender != NULL && !out->kind->stopped(out->sender))) {
        return false;
    }
    tr_outlet_free(out);
    return true;
}

void tr_outlets_close(struct tr_outlets *o)
{
    bool left = false;

    if (o == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&o->bell->lock);
    o->bell->of = NULL;
    (void)pthread_mutex_unlock(&o->bell->lock);
    free_parcels(&o->gated);
    free_parcels(&o->decided);
    free_parcels(&o->later);
    free_parcels(&o->telling);
    for (struct tr_list *n = o->outlets.next, *next; n != &o->outlets; n = next) {
        next = n->next;
        left |= !free_outlet(TR_CONTAINER_OF(n, struct tr_outlet, link));
    }
    if (left) {
        return; /* a thread still has some of it, and the process ends anyway */
    }
    while (!tr_list_empty(&o->in_order)) {
        face_free(TR_CONTAINER_OF(o->in_order.next, struct tr_face, link));
    }
    tr_map_fini(&o->faces);
    (void)pthread_mutex_destroy(&o->bell->lock);
    free(o->bell);
    free(o);
}

/* ---- questions ---- */

/* The host of a URL: between the last @ and the port. */
static struct tr_deliver_text host_of(struct tr_deliver_text url)
{
    const char *at = url.at;
    const char *end = url.at + url.len;
    const char *stop;

    while (at + 2 < end && memcmp(at, "://", 3) != 0) {
        at++;
    }
    at = at + 2 < end ? at + 3 : url.at;
    stop = at;
    while (stop < end && *stop != '/' && *stop != '?' && *stop != '#') {
        at = *stop == '@' ? stop + 1 : at;
        stop++;
    }
    if (at < stop && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(stop - at));

        stop = close != NULL ? close + 1 : stop;
    } else {
        const char *colon = memchr(at, ':', (size_t)(stop - at));

        stop = colon != NULL ? colon : stop;
    }
    return (struct tr_deliver_text){at, (size_t)(stop - at)};
}

/* Does a private address stand there, as a number? Names are judged when they are used. */
static bool names_private(const struct tr_deliver *d)
{
    bool many = d->type == TR_DELIVER_KAFKA;
    struct tr_deliver_text rest = d->texts[many ? TR_DELIVER_BROKERS : TR_DELIVER_URL];

    while (rest.len > 0) {
        const char *comma = many ? memchr(rest.at, ',', rest.len) : NULL;
        size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
        struct tr_deliver_text host = host_of((struct tr_deliver_text){rest.at, len});
        bool allowed = true;

        if (tr_guard_literal(host.at, host.len, &allowed) && !allowed) {
            return true;
        }
        rest.at += len + (comma != NULL);
        rest.len -= len + (comma != NULL);
    }
    return false;
}

int tr_outlets_admit(const struct tr_deliver *d, bool allow_private, const char **why)
{
    const struct tr_sender_kind *kind = tr_sender_kind_of(d->type);
    struct tr_url url;

    if (kind == NULL) {
        *why = "this server was built without the library that it takes";
        return TARRY_EUNSUPPORTED;
    }
    *why = kind->fault != NULL ? kind->fault(d) : NULL;
    if (d->type == TR_DELIVER_AMQP || d->type == TR_DELIVER_REDIS) {
        *why = tr_url_of(d, &url);
    }
    if (*why != NULL) {
        return TARRY_EINVAL;
    }
    if (!allow_private && names_private(d)) {
        *why = "is a private, loopback or link-local address: those are refused unless "
               "outlet.allow_private is on in the server's config";
        return TARRY_EPERM;
    }
    return TARRY_OK;
}

static void view(const struct tr_face *f, struct tr_outlet_view *v)
{
    const struct tr_outlet *out = f->outlet;
    const struct tr_outlets *o = f->all;
    uint64_t now_us = o->config.test_clock ? o->config.clock(o->config.ctx) : tr_outlets_boot(o);

    *v = (struct tr_outlet_view){.topic = f->name,
                                 .topic_len = f->name_len,
                                 .delivered = f->delivered,
                                 .failed = f->failed,
                                 .refused = f->refused,
                                 .why = f->why[0] != '\0' ? f->why : NULL,
                                 .why_us = f->why_us,
                                 .counts = f->counts,
                                 .count_count = f->count_count};
    if (out != NULL) {
        v->type = tr_deliver_type_name(out->kind->type);
        v->breaker_is = out->breaker.state;
        v->breaker = tr_breaker_name(out->breaker.state);
        v->in_flight = out->busy;
        if (out->breaker.state == TR_BREAKER_OPEN && out->breaker.until_us > now_us) {
            v->open_left_us = out->breaker.until_us - now_us;
        }
    }
}

bool tr_outlets_view(const struct tr_outlets *o, uint32_t topic, struct tr_outlet_view *v)
{
    const struct tr_face *f = o != NULL ? tr_map_find(&o->faces, topic) : NULL;

    if (f == NULL || (f->outlet == NULL && f->why[0] == '\0')) {
        return false;
    }
    view(f, v);
    return true;
}

const void *tr_outlets_next(const struct tr_outlets *o, const void *at, struct tr_outlet_view *v)
{
    const struct tr_list *n;

    if (o == NULL) {
        return NULL;
    }
    n = at == NULL ? o->in_order.next : ((const struct tr_face *)at)->link.next;
    if (n == &o->in_order) {
        return NULL;
    }
    view(TR_CONTAINER_OF(n, struct tr_face, link), v);
    return TR_CONTAINER_OF(n, struct tr_face, link);
}
