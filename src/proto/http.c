/*
 * A session: what one client sends becomes requests, one after the other.
 *
 *     bytes --> head --> may it, what is it, with what? --> body --> route --> queue
 *                 |  no                                                |         | done, now or
 *                 v                                                    v         v later
 *               errors ---------------------------------------> replies, in order, behind their
 *                                                               gates --> out
 *
 * A request begins when the one before has taken effect, not when its reply has left: so a client
 * that pipelines has its pushes in one batch of the log. A route is a chain of steps: `next` is the
 * step that comes, `then` looks at the answer of what was asked. The queue calls `done` from inside
 * submit or from its own turn; either way only `then` runs there, and the steps go on in feed,
 * which is never inside itself. It stops when the session has had its share of work, as the queue
 * counts it, so that others come to theirs.
 *
 * A head is judged when it is there, before the body has come: a client that expects 100-continue
 * is refused without sending it. Others send it in vain, and it is dropped.
 *
 * What a client may keep us holding is bounded: a head and a body by their limits (memory grows
 * with what has come), replies by output_max and one reply.
 *
 * How to add a route: doc/architecture.md, section 3.
 */

#include "proto/http.h"

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"

#include <string.h>

enum {
    SHARE = 1000,      /* units of work in one go */
    STEP = 2,          /* each, whatever it does */
    UNIT_BYTES = 1024, /* copied */
    JSON_UNIT = 128,   /* bytes that are looked at one by one */
    SLICE = 32768,     /* bytes of JSON in one step */
    ESCAPED = 6,       /* bytes that a character may take in JSON: \u0001 */
    OBJECT_SPARE = 65536,
    MANY_MAX = 32 << 20, /* bytes of a request with many jobs */
};

/* ---- the routes ---- */

static tr_hs_step_fn *const routes[TR_ROUTE_COUNT] = {
    [TR_ROUTE_PUSH] = tr_hs_push,
    [TR_ROUTE_RESERVE] = tr_hs_reserve,
    [TR_ROUTE_RESERVE_MANY] = tr_hs_reserve,
    [TR_ROUTE_ACK] = tr_hs_ack,
    [TR_ROUTE_RELEASE] = tr_hs_release,
    [TR_ROUTE_BURY] = tr_hs_bury,
    [TR_ROUTE_TOUCH] = tr_hs_touch,
    [TR_ROUTE_PUSH_MANY] = tr_hs_push_many,
    [TR_ROUTE_ACK_MANY] = tr_hs_ack_many,
    [TR_ROUTE_LIST] = tr_hs_list,
    [TR_ROUTE_CANCEL_MANY] = tr_hs_bulk,
    [TR_ROUTE_SHIFT_MANY] = tr_hs_bulk,
    [TR_ROUTE_KICK_MANY] = tr_hs_bulk,
    [TR_ROUTE_PURGE] = tr_hs_purge,
    [TR_ROUTE_TOPICS] = tr_hs_topics,
    [TR_ROUTE_TOPIC] = tr_hs_topic,
    [TR_ROUTE_TOPIC_SET] = tr_hs_topic_set,
    [TR_ROUTE_TOPIC_CHANGE] = tr_hs_topic_set,
    [TR_ROUTE_TOPIC_DELETE] = tr_hs_topic_delete,
    [TR_ROUTE_PAUSE] = tr_hs_pause,
    [TR_ROUTE_RESUME] = tr_hs_resume,
    [TR_ROUTE_FORECAST] = tr_hs_forecast,
    [TR_ROUTE_STATS] = tr_hs_stats,
    [TR_ROUTE_CONFIG] = tr_hs_config,
    [TR_ROUTE_HEALTHZ] = tr_hs_healthz,
    [TR_ROUTE_READYZ] = tr_hs_readyz,
    [TR_ROUTE_OPENAPI] = tr_hs_openapi,
    [TR_ROUTE_METRICS] = tr_hs_metrics,
    [TR_ROUTE_WHOAMI] = tr_hs_whoami,
    [TR_ROUTE_DASHBOARD] = tr_hs_dashboard,
    [TR_ROUTE_DASHBOARD_FILE] = tr_hs_dashboard_file,
    [TR_ROUTE_JOB_HISTORY] = tr_hs_history,
    [TR_ROUTE_SCHEDULES] = tr_hs_schedules,
    [TR_ROUTE_SCHEDULE] = tr_hs_schedule,
    [TR_ROUTE_SCHEDULE_SET] = tr_hs_schedule_set,
    [TR_ROUTE_SCHEDULE_DELETE] = tr_hs_schedule_delete,
    [TR_ROUTE_SCHEDULE_RUN] = tr_hs_schedule_run,
    [TR_ROUTE_SCHEDULE_PAUSE] = tr_hs_schedule_pause,
    [TR_ROUTE_SCHEDULE_RESUME] = tr_hs_schedule_resume,
    [TR_ROUTE_SCHEDULE_NEXT] = tr_hs_schedule_next,
    [TR_ROUTE_KEY_HISTORY] = tr_hs_history,
    [TR_ROUTE_CLOCK] = tr_hs_clock,
    [TR_ROUTE_CLOCK_ADVANCE] = tr_hs_advance,
    [TR_ROUTE_BACKUP] = tr_hs_backup,
    [TR_ROUTE_CLUSTER] = tr_hs_cluster,
    [TR_ROUTE_RESTORE] = tr_hs_restore,
    [TR_ROUTE_RESTORE_JOB] = tr_hs_restore_job,
    [TR_ROUTE_CLASSIC_PUSH] = tr_hs_classic_push,
    [TR_ROUTE_CLASSIC_DELETE] = tr_hs_classic_delete,
    [TR_ROUTE_CLASSIC_GET] = tr_hs_classic_get,
    [TR_ROUTE_CLASSIC_RESTORE] = tr_hs_restore,
    [TR_ROUTE_CLASSIC_RESTORE_JOB] = tr_hs_restore_job,
    [TR_ROUTE_SHOW] = tr_hs_show,
    [TR_ROUTE_KEY_SHOW] = tr_hs_show,
    [TR_ROUTE_CANCEL] = tr_hs_cancel,
    [TR_ROUTE_KEY_CANCEL] = tr_hs_cancel,
    [TR_ROUTE_EDIT] = tr_hs_edit,
    [TR_ROUTE_KEY_EDIT] = tr_hs_edit,
    [TR_ROUTE_FIRE] = tr_hs_fire,
    [TR_ROUTE_KEY_FIRE] = tr_hs_fire,
    [TR_ROUTE_KICK] = tr_hs_kick,
    [TR_ROUTE_KEY_KICK] = tr_hs_kick,
};

static void absent(struct tr_hs *s)
{
    tr_hs_refuse(s, &(struct tr_http_error){.status = 501,
                                            .code = "unsupported",
                                            .message = "this build has no such route"});
}

/* ---- requests to the queue ---- */

static void done(struct tr_req *r)
{
    struct tr_hs *s = r->ctx;

    s->asked = false;
    s->gate = r->out.gate > s->gate ? r->out.gate : s->gate;
    s->then(s);
    if (!s->running) {
        s->port->woken(s->port->ctx, s);
    }
}

void tr_hs_ask(struct tr_hs *s, enum tr_op op, tr_hs_step_fn *then)
{
    TR_CHECK(!s->asked);
    s->req.op = op;
    s->req.shown = true; /* "default" of the beanstalk port is no topic that somebody made */
    s->req.actor = s->pass.who != NULL ? s->pass.who->actor : 0;
    s->req.done = done;
    s->req.ctx = s;
    s->then = then;
    s->asked = true;
    s->port->queue.submit(s->port->queue.ctx, &s->req, s->now);
    s->cost += s->port->queue.work(s->port->queue.ctx);
}

bool tr_hs_given(const struct tr_hs *s, enum tr_arg arg)
{
    return (s->args.given >> arg & 1) != 0;
}

uint64_t tr_hs_number(const struct tr_hs *s, enum tr_arg arg, uint64_t otherwise)
{
    return tr_hs_given(s, arg) ? (uint64_t)s->args.values[arg].number : otherwise;
}

/* ---- judging a head ---- */

static int refuse(struct tr_hs *s, unsigned status, const char *code, const char *message)
{
    s->error = (struct tr_http_error){.status = status, .code = code, .message = message};
    return TARRY_EINVAL;
}

static int judge_route(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    int err = tr_route_find(&s->match, r, &s->error);

    if (s->match.classic && !s->port->classic) {
        return refuse(s, 404, "no_route", "the classic routes are off: set http.classic = on");
    }
    return err;
}

static int judge_args(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    const struct tr_route_about *about = &tr_route_table[s->match.route];
    uint64_t allowed = tr_route_query_args(s->match.route, r);
    int err;

    tr_args_init(&s->args);
    err = tr_args_query(&s->args, allowed, r, &s->error);
    if (err == TARRY_OK && allowed == about->args) {
        err = tr_args_check(&s->args, about->needed, &s->error);
    }
    return err;
}

struct tr_http_text tr_hs_media_type(const struct tr_hs *s)
{
    struct tr_http_text type = s->parse.request.headers[TR_HTTP_CONTENT_TYPE];
    size_t len = 0;

    while (len < type.len && type.at[len] != ';' && type.at[len] != ' ' && type.at[len] != '\t') {
        len++;
    }
    return (struct tr_http_text){type.at, len};
}

/* What names JSON, or what clients send that do not care: for curl all is a form. */
static bool may_be_json(struct tr_http_text type)
{
    static const char *const types[] = {
        "application/json",
        "text/json",
        "application/x-ndjson",
        "application/ndjson",
        "text/plain",
        "application/x-www-form-urlencoded",
        "*/*",
        "",
        "application/octet-stream",
    };
    static const struct tr_http_text suffix = {"+json", 5};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (tr_http_same(type, types[i])) {
            return true;
        }
    }
    return type.len > suffix.len &&
           tr_http_same((struct tr_http_text){type.at + type.len - suffix.len, suffix.len},
                        suffix.at);
}

static int judge_type(struct tr_hs *s)
{
    struct tr_http_text type = tr_hs_media_type(s);

    if (tr_route_table[s->match.route].body <= TR_BODY_RAW || s->parse.request.length == 0 ||
        type.at == NULL || may_be_json(type)) {
        return TARRY_OK;
    }
    return refuse(s, 415, "content_type",
                  "the body has to be JSON: send it with Content-Type: application/json, or many "
                  "items, one on each line, with application/x-ndjson");
}

/* Without a good token nothing is told, not even what there is; but for what everybody may ask. */
static int judge_who(struct tr_hs *s)
{
    int err = judge_route(s);
    struct tr_http_error e = s->error;

    if (s->match.route != TR_ROUTE_COUNT && tr_route_table[s->match.route].role == TR_ROLE_NONE) {
        s->pass.who = NULL;
        return err;
    }
    if (tr_hs_guard_token(s) != TARRY_OK) {
        return TARRY_EINVAL;
    }
    s->error = e;
    return err == TARRY_OK ? tr_hs_guard_role(s) : err;
}

/* Who is turned away hears why; but whoever asks whether we live is told that we do. */
static int judge_welcome(struct tr_hs *s)
{
    if (!s->unwanted || s->match.route == TR_ROUTE_HEALTHZ) {
        return TARRY_OK;
    }
    if (s->unwanted_why == TR_TURN_AWAY_ADDRESS) {
        (void)refuse(s, 429, "too_many_connections",
                     "there are too many connections from your address (limits.per_address): "
                     "close some, or use them for more requests");
    } else {
        (void)refuse(s, 503, "too_many_connections",
                     "there are too many connections (limits.connections): try again later");
    }
    s->error.retry_s = 1;
    return TARRY_EINVAL;
}

/* What can be answered without the store is, also while that is being opened. */
static bool lacks_store(const struct tr_hs *s)
{
    return s->port->store != TR_HS_OPEN && s->match.route != TR_ROUTE_OPENAPI &&
           tr_route_table[s->match.route].role != TR_ROLE_NONE;
}

static int judge_store(struct tr_hs *s)
{
    if (s->port->store != TR_HS_LATER || !lacks_store(s)) {
        return TARRY_OK;
    }
    if (s->port->later.code != NULL) {
        (void)refuse(s, 503, s->port->later.code, s->port->later.message);
    } else {
        (void)refuse(s, 503, "loading", "the store is being opened: try again soon (GET /readyz)");
    }
    s->error.retry_s = 1;
    return TARRY_EINVAL;
}

/* Its turn comes when the store is open, or when that takes too long. */
static bool waits_for_store(const struct tr_hs *s)
{
    return s->port->store == TR_HS_SOON && s->parse.state == TR_HTTP_REQUEST && !s->begun &&
           s->judged && !s->refused && lacks_store(s);
}

/* May it, what is it, and with what? The first thing that is wrong is what the client hears. */
static void judge(struct tr_hs *s)
{
    int err = tr_hs_guard_host(s);

    s->judged = true;
    s->match.route = TR_ROUTE_COUNT;
    if (err == TARRY_OK) {
        err = judge_who(s);
    }
    if (err == TARRY_OK) {
        err = judge_welcome(s);
    }
    if (err == TARRY_OK) {
        err = tr_hs_guard_origin(s);
    }
    if (err == TARRY_OK) {
        err = judge_args(s);
    }
    if (err == TARRY_OK) {
        err = judge_type(s);
    }
    if (err == TARRY_OK) {
        err = judge_store(s);
    }
    s->refused = err != TARRY_OK;
}

/* Of what comes with a request. */
static size_t body_max(const struct tr_hs *s)
{
    size_t object = (size_t)ESCAPED * s->port->body_max + OBJECT_SPARE;

    if (s->match.route == TR_ROUTE_COUNT || s->refused) {
        return object;
    }
    switch (tr_route_table[s->match.route].body) {
    case TR_BODY_OBJECT:
    case TR_BODY_EITHER:
        return object;
    case TR_BODY_MANY:
        return object > MANY_MAX ? object : MANY_MAX;
    default:
        return s->port->body_max;
    }
}

static void take_head(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    bool drop;

    judge(s);
    if (s->refused && r->expects) {
        s->ending = true; /* the body may come or not, so nothing can be read behind it */
        tr_hs_refuse(s, &s->error);
        return;
    }
    drop = s->refused || tr_route_table[s->match.route].body == TR_BODY_NONE;
    tr_http_go_on(&s->parse, body_max(s), drop);
    if (r->expects && s->parse.state == TR_HTTP_INPUT) {
        tr_http_reply_continue(&s->out);
    }
}

/* ---- serving a request ---- */

static void serve(struct tr_hs *s)
{
    tr_hs_step_fn *route = routes[s->match.route];

    s->req = (struct tr_req){0};
    s->gate = 0;
    s->number = 0;
    s->port->counts[s->match.route]++;
    if (route != NULL) {
        route(s);
    } else {
        absent(s);
    }
}

void tr_hs_bad_json(struct tr_hs *s)
{
    const struct tr_json_in *in = &s->many.in;

    tr_text(s->args.message, sizeof s->args.message, "the body %s (byte %llu)", in->why,
            (unsigned long long)in->at);
    tr_hs_refuse(
        s, &(struct tr_http_error){.status = 400, .code = "bad_json", .message = s->args.message});
}

enum tr_json_event tr_hs_read_json(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    size_t left = r->body_len - s->many.at;
    size_t taken;
    enum tr_json_event event;

    if (left == 0) {
        return tr_json_in_end(&s->many.in);
    }
    event = tr_json_in_feed(&s->many.in, r->body + s->many.at, left < SLICE ? left : SLICE, &taken);
    s->many.at += taken;
    s->cost += (unsigned)(taken / JSON_UNIT);
    return event;
}

/* The arguments of a request that stand in its body: first whether it is JSON, in slices. */
static void read_object(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    const struct tr_route_about *about = &tr_route_table[s->match.route];
    char *body = (char *)(uintptr_t)r->body; /* the parser's, for us to alter */
    enum tr_json_event event = tr_hs_read_json(s);

    if (event == TR_JSON_BAD) {
        tr_hs_bad_json(s);
        return;
    }
    if (event != TR_JSON_END) {
        s->next = read_object;
        return;
    }
    if (about->args == 0) { /* a classic one, with names of its own */
        serve(s);
        return;
    }
    if (tr_args_json(&s->args, about->args, body + s->many.in.item_from,
                     s->many.in.item_to - s->many.in.item_from, &s->error) != TARRY_OK ||
        tr_args_check(&s->args, about->needed, &s->error) != TARRY_OK) {
        tr_hs_refuse(s, &s->error);
        return;
    }
    s->cost += (unsigned)(r->body_len / JSON_UNIT);
    serve(s);
}

static void take_request(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    enum tr_route_body body;

    s->begun = true;
    s->requests++;
    s->port->requests++;
    if (!s->refused) { /* it may have waited */
        s->refused = judge_store(s) != TARRY_OK;
    }
    if (s->refused) {
        tr_hs_refuse(s, &s->error);
        return;
    }
    body = tr_route_table[s->match.route].body;
    if (body == TR_BODY_NONE && r->length > 0) {
        (void)refuse(s, 400, "bad_request", "this request takes no body");
        tr_hs_refuse(s, &s->error);
    } else if (body == TR_BODY_EITHER && r->body_len > 0 && s->args.given != 0) {
        (void)refuse(s, 400, "bad_request", "arguments are in the query or in the body, not both");
        tr_hs_refuse(s, &s->error);
    } else if (body == TR_BODY_OBJECT || (body == TR_BODY_EITHER && r->body_len > 0)) {
        tr_json_in_init(&s->many.in, TR_JSON_VALUE);
        s->many.at = 0;
        s->next = read_object;
    } else {
        serve(s);
    }
}

/* All that the request had is given back; the next one may come. */
static void finish(struct tr_hs *s)
{
    tr_hs_audit(s);
    tr_hs_drop_text(s);
    tr_hs_drop_ranks(s);
    s->judged = false;
    s->refused = false;
    s->begun = false;
    s->answered = false;
    s->status = 0;
    if (s->parse.state == TR_HTTP_REQUEST) {
        tr_http_next(&s->parse);
    }
}

static void tell_fault(struct tr_hs *s)
{
    const struct tr_http_fault *f = &s->parse.fault;

    s->told_fault = true;
    s->port->no_memory += f->status == 503;
    s->parse.request.keep_alive = false;
    (void)refuse(s, f->status, f->code, f->message);
    s->error.retry_s = f->status == 503 ? 1 : 0;
    tr_hs_refuse(s, &s->error);
}

/* ---- the session ---- */

static bool over(const struct tr_hs *s)
{
    return s->out.broken || s->ending || s->told_fault || s->parse.state == TR_HTTP_CLOSED;
}

/* A long reply waits until the client has read more of it. */
static bool is_full(const struct tr_hs *s)
{
    return s->pouring && !s->closing && tr_output_len(&s->out) >= s->port->output_max;
}

static enum tr_want want(const void *session)
{
    const struct tr_hs *s = session;

    if (s->asked || waits_for_store(s)) {
        return TR_WANT_ANSWER;
    }
    if (is_full(s)) {
        return TR_WANT_DRAIN;
    }
    if (s->next != NULL || s->tired || s->answered) {
        return TR_WANT_TURN;
    }
    if (over(s)) {
        return TR_WANT_CLOSE;
    }
    if (tr_output_len(&s->out) >= s->port->output_max) {
        return TR_WANT_DRAIN;
    }
    return s->parse.state == TR_HTTP_INPUT ? TR_WANT_INPUT : TR_WANT_TURN;
}

static void doing(const void *session, struct tr_doing *d)
{
    const struct tr_hs *s = session;
    uint32_t job = s->req.out.job.topic;

    /* From its head on, before its body has come, it is the one that counts. */
    *d = (struct tr_doing){.number = s->requests + (s->judged && !s->begun),
                           .topic = job != 0 ? job : s->req.topic};
    if (s->judged && !s->refused) {
        d->name = s->match.topic.at;
        d->name_len = s->match.topic.len;
    }
    if (s->match.route < TR_ROUTE_COUNT) {
        tr_route_name(s->match.route, d->command);
    }
}

/* One thing. False: there is nothing that can be done now. */
static bool go_on(struct tr_hs *s, const uint8_t *bytes, size_t len, size_t *taken)
{
    tr_hs_step_fn *next = s->next;

    *taken = 0;
    if (s->asked || is_full(s)) {
        return false;
    }
    if (next != NULL) {
        s->next = NULL;
        next(s);
        return true;
    }
    if (s->answered) {
        finish(s);
        return true;
    }
    if (over(s)) {
        *taken = len;
        return false;
    }
    if (s->closing || tr_output_len(&s->out) >= s->port->output_max) {
        return false;
    }
    switch (s->parse.state) {
    case TR_HTTP_INPUT:
        *taken = tr_http_feed(&s->parse, bytes, len);
        s->cost += (unsigned)(*taken / UNIT_BYTES);
        return *taken > 0;
    case TR_HTTP_HEAD:
        take_head(s);
        return true;
    case TR_HTTP_REQUEST:
        if (!s->judged) {
            judge(s);
        }
        if (waits_for_store(s)) {
            return false;
        }
        take_request(s);
        return true;
    default:
        tell_fault(s);
        return true;
    }
}

static size_t feed(void *session, const uint8_t *bytes, size_t len, struct tr_now now)
{
    struct tr_hs *s = session;
    size_t at = 0;
    bool more = true;

    s->now = now;
    s->running = true;
    s->tired = false;
    for (s->cost = 0; more && s->cost < SHARE; s->cost += STEP) {
        size_t taken;

        more = go_on(s, bytes != NULL ? bytes + at : NULL, len - at, &taken);
        at += taken;
    }
    s->running = false;
    s->tired = more && !s->closing;
    return at;
}

static void open_session(void *session, void *port, uint64_t number, struct tr_now now)
{
    struct tr_hs *s = session;

    (void)number;
    (void)now;
    s->port = port;
    s->pass.session = s;
    s->port->sessions++;
    tr_output_init(&s->out, s->port->mem);
    tr_http_init(&s->parse, s->port->mem, &s->port->limits);
}

static void turn_away(void *session, enum tr_turn_away why)
{
    struct tr_hs *s = session;

    s->unwanted = true;
    s->unwanted_why = why;
}

static struct tr_output *out(void *session)
{
    return &((struct tr_hs *)session)->out;
}

/* ---- patience ---- */

static enum tr_patience patience(const void *session, uint64_t *request)
{
    const struct tr_hs *s = session;

    *request = s->requests;
    if (s->pouring) {
        return TR_PATIENCE_IDLE;
    }
    if (s->asked || s->next != NULL || s->begun) {
        return TR_PATIENCE_ENDLESS;
    }
    if (tr_http_in_head(&s->parse)) {
        return TR_PATIENCE_HEAD;
    }
    return tr_http_in_body(&s->parse) ? TR_PATIENCE_BODY : TR_PATIENCE_IDLE;
}

static void late(void *session, struct tr_now now)
{
    struct tr_hs *s = session;

    s->now = now;
    if (s->parse.state == TR_HTTP_INPUT && !tr_http_idle(&s->parse)) {
        (void)refuse(s, 408, "too_slow", "the request did not come in time");
        s->parse.request.keep_alive = false;
        tr_hs_refuse(s, &s->error);
        s->answered = false;
    }
    s->ending = true;
}

/* A wait for a job ends; `next` says so. */
static void stop_waiting(struct tr_hs *s, struct tr_now now, tr_hs_step_fn *next)
{
    if (!s->asked || s->req.op != TR_OP_RESERVE || s->req.wait_us == 0) {
        return;
    }
    s->now = now;
    s->port->queue.abandon(s->port->queue.ctx, &s->req, now);
    s->asked = false;
    s->next = next;
    if (!s->running) {
        s->port->woken(s->port->ctx, s);
    }
}

static void half_close(void *session, struct tr_now now)
{
    struct tr_hs *s = session;

    s->half_closed = true;
    stop_waiting(s, now, tr_hs_reserve_none);
}

/* Other tokens: whose is not good any more waits no longer. What it asks for else is nearly done,
 * and from its next step on it may touch no topic. A request whose body is still to come is judged
 * anew. */
static void reauth(void *session, struct tr_now now)
{
    struct tr_hs *s = session;
    bool open = s->begun && !s->refused && tr_route_table[s->match.route].role == TR_ROLE_NONE;

    if (!s->begun) {
        s->judged = false;
        s->pass.who = &tr_auth_nobody;
    } else if (!open && !tr_auth_again(s->port->auth, &s->pass) && !s->closing) {
        stop_waiting(s, now, tr_hs_reserve_unauthorized);
    }
}

static bool stop(void *session, struct tr_now now)
{
    struct tr_hs *s = session;

    s->half_closed = true;
    stop_waiting(s, now, tr_hs_reserve_none);
    (void)feed(s, NULL, 0, now);
    return false;
}

/* ---- the end ---- */

static void fini(void *session)
{
    struct tr_hs *s = session;

    tr_hs_drop_text(s);
    tr_hs_drop_ranks(s);
    tr_hs_drop_topics(s);
    tr_http_fini(&s->parse);
    tr_output_fini(&s->out);
    tr_mem_free(s->port->mem, s->handouts, s->handout_room * sizeof s->handouts[0]);
    s->handouts = NULL;
    s->handout_room = 0;
}

static void close_step(struct tr_hs *s);

static void closed_done(struct tr_hs *s)
{
    s->next = close_step;
}

/* One thing after the other, until nothing is left: jobs that were not told, topics. */
static void close_step(struct tr_hs *s)
{
    while (s->handout_count > 0) {
        struct tr_hs_handout last = s->handouts[--s->handout_count];

        if (last.end > s->out.sent) {
            s->req = (struct tr_req){.id = last.id, .lease = last.lease};
            tr_hs_ask(s, TR_OP_RETURN, closed_done);
            return;
        }
    }
    if (s->holding || s->held > 0) {
        s->req = (struct tr_req){.topic = s->holding ? s->topic : s->topics[s->held - 1],
                                 .hold = s->holding ? TR_HOLD_USE : TR_HOLD_WATCH};
        s->held -= !s->holding;
        s->holding = false;
        tr_hs_ask(s, TR_OP_DROP_TOPIC, closed_done);
        return;
    }
    fini(s);
    s->gone = true;
}

static void close_session(void *session, struct tr_now now)
{
    struct tr_hs *s = session;

    TR_CHECK(!s->closing);
    if (s->asked) {
        s->port->queue.abandon(s->port->queue.ctx, &s->req, now);
        s->asked = false;
    }
    tr_hs_audit(s);
    s->closing = true;
    s->answered = false;
    s->pouring = false;
    s->next = close_step;
    s->port->sessions--;
    (void)feed(s, NULL, 0, now);
}

static bool gone(const void *session)
{
    return ((const struct tr_hs *)session)->gone;
}

const struct tr_proto tr_http_proto = {
    .name = "http",
    .size = sizeof(struct tr_hs),
    .lingers = true,
    .open = open_session,
    .turn_away = turn_away,
    .feed = feed,
    .want = want,
    .doing = doing,
    .out = out,
    .patience = patience,
    .late = late,
    .half_close = half_close,
    .reauth = reauth,
    .stop = stop,
    .close = close_session,
    .gone = gone,
    .fini = fini,
};
