/*
 * A session: what one client sends becomes commands, one after the other.
 *
 *     bytes --> line --> command --> request --> queue
 *                |  put: body too                  | done, now or later
 *                v                                 v
 *              errors ------------------------> replies, in order, behind their gates --> out
 *
 * A command begins when the one before has taken effect, not when its reply has left: so a client
 * that pipelines has its puts in one batch of the log. (Of a queue that is slow, on another server,
 * puts and deletes may go ahead: beanstalk_ahead.c.) Some commands are several requests, one
 * step after the other; `next` is the step that comes, `then` looks at the answer of the one that
 * was asked. The queue calls `done` from inside submit or from its own turn; either way only
 * `then` runs there, and the steps go on in tr_bs_feed, which is never inside itself. It stops when
 * the session has had its share of work, as the queue counts it, so that others come to theirs.
 *
 * Bytes that are not understood are never lost: they get the protocol's error, and the client goes
 * on at the next line. What a client may keep us holding is bounded: a line by 224 bytes, a body
 * by body_max (memory grows with what has arrived, not with what was announced), replies by
 * output_max and one reply.
 */

#include "proto/beanstalk.h"

#include "base/bytes.h"
#include "base/err.h"
#include "proto/beanstalk_inner.h"

#include <string.h>

enum {
    SHARE = 1000,      /* units of work in one go */
    STEP = 2,          /* each, whatever it does */
    UNIT_BYTES = 1024, /* copied */
    BODY_ROOM_MIN = 4096,
    NUMBER_MAX = 20, /* digits of 2^64 - 1 */
};

/* ---- replies ---- */

void tr_bs_say(struct tr_bs_session *s, const char *line)
{
    tr_output_gate(&s->out, s->req.out.gate);
    tr_output_add(&s->out, line, strlen(line));
}

/* Writes the digits and gives their end. */
static uint8_t *write_number(uint8_t *at, uint64_t number)
{
    uint8_t digits[NUMBER_MAX];
    size_t count = 0;

    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    while (count > 0) {
        *at++ = digits[--count];
    }
    return at;
}

static uint8_t *write_text(uint8_t *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

void tr_bs_say_number(struct tr_bs_session *s, const char *word, uint64_t number)
{
    uint8_t *start = tr_output_place(&s->out, strlen(word) + NUMBER_MAX + 3);
    uint8_t *at = start;

    if (start == NULL) {
        return;
    }
    tr_output_gate(&s->out, s->req.out.gate);
    at = write_text(at, word);
    *at++ = ' ';
    at = write_number(at, number);
    at = write_text(at, "\r\n");
    tr_output_added(&s->out, (size_t)(at - start));
}

void tr_bs_say_job(struct tr_bs_session *s, const char *word, const struct tr_job_view *job)
{
    uint8_t *start =
        tr_output_place(&s->out, strlen(word) + (size_t)2 * NUMBER_MAX + 6 + job->body_len);
    uint8_t *at = start;

    if (start == NULL) {
        return;
    }
    tr_output_gate(&s->out, s->req.out.gate);
    at = write_text(at, word);
    *at++ = ' ';
    at = write_number(at, job->id);
    *at++ = ' ';
    at = write_number(at, job->body_len);
    at = write_text(at, "\r\n");
    if (job->body_len > 0) {
        memcpy(at, job->body, job->body_len);
        at += job->body_len;
    }
    at = write_text(at, "\r\n");
    tr_output_added(&s->out, (size_t)(at - start));
    s->cost += job->body_len / UNIT_BYTES;
}

void tr_bs_say_text(struct tr_bs_session *s, const void *text, size_t len)
{
    tr_bs_say_number(s, "OK", len);
    tr_output_add(&s->out, text, len);
    tr_output_add(&s->out, "\r\n", 2);
}

void tr_bs_say_error(struct tr_bs_session *s, int status)
{
    static const struct {
        int status;
        const char *line;
    } lines[] = {
        {TARRY_ENOTFOUND, "NOT_FOUND\r\n"},  {TARRY_ESTATE, "NOT_FOUND\r\n"},
        {TARRY_ETIMEOUT, "TIMED_OUT\r\n"},   {TARRY_ESOON, "DEADLINE_SOON\r\n"},
        {TARRY_EDRAINING, "DRAINING\r\n"},   {TARRY_EFULL, "JOB_TOO_BIG\r\n"},
        {TARRY_ENOMEM, "OUT_OF_MEMORY\r\n"}, {TARRY_ENOSPC, "OUT_OF_MEMORY\r\n"},
        {TARRY_EPAUSED, "DRAINING\r\n"},     {TARRY_EQUOTA, "OUT_OF_MEMORY\r\n"},
    };

    if ((status == TARRY_EREADONLY || status == TARRY_EAWAY) && s->req.op == TR_OP_PUSH) {
        status = TARRY_EDRAINING; /* so that the client tries another server */
    }
    if (status == TARRY_EINVAL && s->req.op == TR_OP_PUSH) {
        status = TARRY_EFULL; /* the server that would keep it does not take it */
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i].status == status) {
            tr_bs_say(s, lines[i].line);
            return;
        }
    }
    tr_bs_say(s, "INTERNAL_ERROR\r\n");
}

/* An error of the protocol itself: nothing was asked, so nothing is waited for. */
static void say_plain(struct tr_bs_session *s, const char *line)
{
    s->req.out.gate = 0;
    tr_bs_say(s, line);
}

/* ---- requests ---- */

static void done(struct tr_req *r)
{
    struct tr_bs_session *s = r->ctx;

    s->asked = false;
    s->then(s);
    tr_bs_ahead_say(s);
    if (!s->running) {
        s->port->woken(s->port->ctx, s);
    }
}

void tr_bs_ask(struct tr_bs_session *s, enum tr_op op, tr_bs_step_fn *then)
{
    TR_CHECK(!s->asked);
    s->req.op = op;
    s->req.actor = s->pass.who != NULL ? s->pass.who->actor : 0;
    s->req.done = done;
    s->req.ctx = s;
    s->req.holder = s->number;
    s->req.counts_only = true;
    s->then = then;
    s->asked = true;
    s->port->queue.submit(s->port->queue.ctx, &s->req, s->now);
    s->cost += s->port->queue.work(s->port->queue.ctx);
}

/* ---- input ---- */

void tr_bs_drop_body(struct tr_bs_session *s)
{
    tr_mem_free(s->port->mem, s->body, s->body_room);
    s->body = NULL;
    s->body_room = 0;
    s->body_have = 0;
}

/* Passes over so many bytes, and then says this. */
static void skip(struct tr_bs_session *s, uint64_t bytes, const char *then)
{
    s->input = TR_BS_SKIP;
    s->skip = bytes;
    s->skip_then = then;
}

static void begin_put(struct tr_bs_session *s)
{
    s->port->counts[TR_BS_PUT]++;
    if (s->line.body_len > s->port->body_max) {
        skip(s, (uint64_t)s->line.body_len + 2, "JOB_TOO_BIG\r\n");
        return;
    }
    if (s->line.garbage) { /* and what would be its body is read as commands */
        say_plain(s, "BAD_FORMAT\r\n");
        return;
    }
    if (!s->producer) {
        s->producer = true;
        s->port->producers++;
    }
    s->input = TR_BS_BODY;
}

/* Not allowed: passes over what belongs to the line. */
static void refuse(struct tr_bs_session *s, enum tr_bs_verdict verdict, const char *why)
{
    if (verdict == TR_BS_FINE && s->line.command == TR_BS_PUT && !s->line.garbage) {
        skip(s, (uint64_t)s->line.body_len + 2, why);
    } else {
        say_plain(s, why);
    }
}

static void take_line(struct tr_bs_session *s, const char *text, size_t len)
{
    enum tr_bs_verdict verdict = tr_bs_line_read(&s->line, text, len);
    const char *why;

    s->req.out.gate = 0;
    s->commands++;
    if (s->line.command == TR_BS_AUTH && !tr_auth_on(s->port->auth)) {
        verdict = TR_BS_UNKNOWN; /* as for beanstalkd */
    }
    why = tr_bs_guard(s, verdict, text, len);
    if (why != NULL) {
        refuse(s, verdict, why);
    } else if (verdict == TR_BS_UNKNOWN) {
        say_plain(s, "UNKNOWN_COMMAND\r\n");
    } else if (verdict == TR_BS_BAD_FORMAT) {
        say_plain(s, "BAD_FORMAT\r\n");
    } else if (s->line.command == TR_BS_PUT) {
        begin_put(s);
    } else {
        s->port->counts[s->line.command]++;
        tr_bs_do(s);
    }
}

const uint8_t *tr_bs_find_end(const uint8_t *bytes, size_t len)
{
    const uint8_t *end = bytes + len;
    const uint8_t *at = bytes;

    while (at < end && (at = memchr(at, '\r', (size_t)(end - at))) != NULL) {
        if (at + 1 < end && at[1] == '\n') {
            return at;
        }
        at++;
    }
    return NULL;
}

static size_t feed_line(struct tr_bs_session *s, const uint8_t *bytes, size_t len)
{
    const uint8_t *end = tr_bs_find_end(bytes, len < TR_BS_LINE_MAX ? len : TR_BS_LINE_MAX);

    if (end != NULL) {
        take_line(s, (const char *)bytes, (size_t)(end - bytes));
        return (size_t)(end - bytes) + 2;
    }
    if (len >= TR_BS_LINE_MAX) {
        s->input = TR_BS_LONG_LINE;
        return TR_BS_LINE_MAX - 1; /* the last byte may be a CR whose LF is still to come */
    }
    return 0;
}

static size_t feed_long_line(struct tr_bs_session *s, const uint8_t *bytes, size_t len)
{
    const uint8_t *end = tr_bs_find_end(bytes, len);

    if (end == NULL) {
        return len > 0 && bytes[len - 1] == '\r' ? len - 1 : len;
    }
    s->input = TR_BS_LINE;
    say_plain(s, s->pass.who != &tr_auth_nobody ? "BAD_FORMAT\r\n" : "UNAUTHORIZED\r\n");
    return (size_t)(end - bytes) + 2;
}

static size_t feed_skip(struct tr_bs_session *s, size_t len)
{
    size_t taken = len < s->skip ? len : (size_t)s->skip;

    s->skip -= taken;
    if (s->skip == 0) {
        s->input = TR_BS_LINE;
        say_plain(s, s->skip_then);
    }
    return taken;
}

/* Room for what has arrived, and some more; never more than the whole. */
static bool grow_body(struct tr_bs_session *s, size_t have, size_t whole)
{
    size_t room = s->body_room < BODY_ROOM_MIN ? BODY_ROOM_MIN : s->body_room;
    uint8_t *body;

    while (room < have) {
        room *= 2;
    }
    room = room < whole ? room : whole;
    if (s->body != NULL && room <= s->body_room) {
        return true;
    }
    if (!tr_mem_room(s->port->mem, room)) {
        return false;
    }
    body = tr_mem_stretch(s->port->mem, s->body, s->body_room, room);
    if (body == NULL) {
        return false;
    }
    s->body = body;
    s->body_room = room;
    return true;
}

static void take_body(struct tr_bs_session *s, const uint8_t *body)
{
    size_t len = s->line.body_len;

    s->input = TR_BS_LINE;
    if (body[len] != '\r' || body[len + 1] != '\n') {
        tr_bs_drop_body(s);
        say_plain(s, "EXPECTED_CRLF\r\n");
        return;
    }
    s->cost += (unsigned)(len / UNIT_BYTES);
    tr_bs_do_put(s, body, len);
    if (s->asked && s->body == NULL) { /* it has to wait, and these bytes are not ours */
        if (!grow_body(s, len + 2, len + 2)) {
            s->port->queue.abandon(s->port->queue.ctx, &s->req, s->now);
            s->asked = false;
            s->req.out.gate = 0;
            s->port->no_memory++;
            tr_bs_say_error(s, TARRY_ENOMEM);
            return;
        }
        memcpy(s->body, body, len + 2);
        s->req.body = s->body;
    }
}

static size_t feed_body(struct tr_bs_session *s, const uint8_t *bytes, size_t len)
{
    size_t whole = (size_t)s->line.body_len + 2;
    size_t taken = len < whole - s->body_have ? len : whole - s->body_have;

    if (s->body == NULL && taken == whole) {
        take_body(s, bytes);
        return taken;
    }
    if (taken == 0) {
        return 0;
    }
    if (!grow_body(s, s->body_have + taken, whole)) {
        skip(s, whole - s->body_have, "OUT_OF_MEMORY\r\n");
        tr_bs_drop_body(s);
        s->port->no_memory++;
        return 0;
    }
    memcpy(s->body + s->body_have, bytes, taken);
    s->body_have += taken;
    if (s->body_have == whole) {
        take_body(s, s->body);
    }
    return taken;
}

static size_t take(struct tr_bs_session *s, const uint8_t *bytes, size_t len)
{
    switch (s->input) {
    case TR_BS_LINE:
        return feed_line(s, bytes, len);
    case TR_BS_LONG_LINE:
        return feed_long_line(s, bytes, len);
    case TR_BS_BODY:
        return feed_body(s, bytes, len);
    case TR_BS_SKIP:
        return feed_skip(s, len);
    }
    return 0;
}

/* ---- the session ---- */

enum tr_want tr_bs_want(const struct tr_bs_session *s)
{
    if (s->asked || s->ahead_count > 0) {
        return TR_WANT_ANSWER;
    }
    if (s->next != NULL || s->tired) {
        return TR_WANT_TURN;
    }
    if (s->quitting || s->out.broken) {
        return TR_WANT_CLOSE;
    }
    return tr_output_len(&s->out) >= s->port->output_max ? TR_WANT_DRAIN : TR_WANT_INPUT;
}

size_t tr_bs_feed(struct tr_bs_session *s, const uint8_t *bytes, size_t len, struct tr_now now)
{
    size_t at = 0;

    s->now = now;
    s->running = true;
    s->tired = false;
    for (s->cost = 0; s->cost < SHARE; s->cost += STEP) {
        enum tr_want want = tr_bs_want(s);

        if (want == TR_WANT_TURN) {
            tr_bs_step_fn *next = s->next;

            s->next = NULL;
            next(s);
        } else if (want == TR_WANT_INPUT && s->look_again && !s->closing) {
            s->look_again = false;
            s->next = tr_bs_look_again;
        } else if (want == TR_WANT_INPUT && at < len && !s->closing) {
            enum tr_bs_input input = s->input;
            size_t taken = take(s, bytes + at, len - at);

            at += taken;
            if (taken == 0 && s->input == input) {
                break; /* a part of a line */
            }
        } else {
            size_t taken =
                want == TR_WANT_ANSWER && at < len ? tr_bs_ahead(s, bytes + at, len - at) : 0;

            at += taken;
            if (taken == 0) {
                break;
            }
        }
    }
    s->running = false;
    s->tired = s->cost >= SHARE && !s->closing;
    return at;
}

void tr_bs_open(struct tr_bs_session *s, struct tr_bs_port *port, uint64_t number,
                struct tr_now now)
{
    *s = (struct tr_bs_session){.port = port, .number = number, .next = tr_bs_do_open};
    s->pass =
        (struct tr_auth_pass){.session = s, .who = tr_auth_on(port->auth) ? &tr_auth_nobody : NULL};
    s->known = s->pass.who == NULL;
    tr_list_init(&s->ahead);
    tr_output_init(&s->out, port->mem);
    port->sessions++;
    port->sessions_ever++;
    (void)tr_bs_feed(s, NULL, 0, now);
}

void tr_bs_half_close(struct tr_bs_session *s, struct tr_now now)
{
    tr_bs_step_fn *then = s->then;

    s->half_closed = true;
    tr_bs_ahead_end_waits(s, now);
    if (!s->asked || s->req.op != TR_OP_RESERVE || s->req.wait_us == 0) {
        return;
    }
    s->now = now;
    s->port->queue.abandon(s->port->queue.ctx, &s->req, now);
    s->asked = false;
    s->req.wait_us = 0; /* what is there it still gets */
    s->req.topics = s->watched;
    tr_bs_ask(s, TR_OP_RESERVE, then); /* its `done` wakes us: more commands may be pending */
}

/* Other tokens: whose is not good any more waits no longer. */
static void reauth(void *session, struct tr_now now)
{
    struct tr_bs_session *s = session;

    if (tr_auth_again(s->port->auth, &s->pass) || s->closing) {
        return;
    }
    s->look_again = s->pass.who != &tr_auth_nobody;
    for (unsigned left = tr_bs_ahead_drop_waits(s, now); left > 0; left--) {
        say_plain(s, "UNAUTHORIZED\r\n");
        s->port->woken(s->port->ctx, s);
    }
    if (s->asked && s->req.op == TR_OP_RESERVE && s->req.wait_us > 0) {
        s->port->queue.abandon(s->port->queue.ctx, &s->req, now);
        s->asked = false;
        say_plain(s, "UNAUTHORIZED\r\n");
        s->port->woken(s->port->ctx, s);
    }
}

void tr_bs_close(struct tr_bs_session *s, struct tr_now now)
{
    struct tr_bs_port *port = s->port;

    TR_CHECK(!s->closing);
    if (s->asked) {
        port->queue.abandon(port->queue.ctx, &s->req, now);
        s->asked = false;
    }
    tr_bs_ahead_drop(s, true, now);
    s->closing = true;
    s->next = tr_bs_do_close;
    port->sessions--;
    port->producers -= s->producer;
    port->workers -= s->worker;
    (void)tr_bs_feed(s, NULL, 0, now);
}

bool tr_bs_gone(const struct tr_bs_session *s)
{
    return s->gone;
}

/* ---- as a table ---- */

static void table_open(void *session, void *port, uint64_t number, struct tr_now now)
{
    tr_bs_open(session, port, number, now);
}

static size_t table_feed(void *session, const uint8_t *bytes, size_t len, struct tr_now now)
{
    return tr_bs_feed(session, bytes, len, now);
}

static enum tr_want table_want(const void *session)
{
    return tr_bs_want(session);
}

static void table_doing(const void *session, struct tr_doing *d)
{
    const struct tr_bs_session *s = session;
    uint32_t job = s->req.out.job.topic;

    *d = (struct tr_doing){.number = s->commands, .topic = job != 0 ? job : s->req.topic};
    tr_bs_command_name(s->line.command, d->command);
}

static struct tr_output *table_out(void *session)
{
    return &((struct tr_bs_session *)session)->out;
}

/* Who has no token must not keep a place from those who have one. */
static enum tr_patience table_patience(const void *session, uint64_t *request)
{
    const struct tr_bs_session *s = session;

    *request = 0;
    return s->known || s->pass.who == NULL ? TR_PATIENCE_ENDLESS : TR_PATIENCE_AUTH;
}

static void table_late(void *session, struct tr_now now)
{
    struct tr_bs_session *s = session;

    (void)now;
    s->quitting = true;
}

static void table_half_close(void *session, struct tr_now now)
{
    tr_bs_half_close(session, now);
}

/* Who only waits is closed first, or would be given the jobs of the others. */
static bool table_stop(void *session, struct tr_now now)
{
    const struct tr_bs_session *s = session;

    (void)now;
    return (s->asked && s->req.op == TR_OP_RESERVE) || tr_bs_ahead_waits(s);
}

static void table_close(void *session, struct tr_now now)
{
    tr_bs_close(session, now);
}

static bool table_gone(const void *session)
{
    return tr_bs_gone(session);
}

static void table_fini(void *session)
{
    tr_bs_fini(session);
}

const struct tr_proto tr_bs_proto = {
    .name = "beanstalk",
    .size = sizeof(struct tr_bs_session),
    .stays = true,
    .open = table_open,
    .feed = table_feed,
    .want = table_want,
    .doing = table_doing,
    .out = table_out,
    .patience = table_patience,
    .late = table_late,
    .half_close = table_half_close,
    .reauth = reauth,
    .stop = table_stop,
    .close = table_close,
    .gone = table_gone,
    .fini = table_fini,
};
