/*
 * Commands ahead of an answer. A queue on another server answers a put after a while, and whoever
 * pipelines has sent the next ones already: while a put or a delete is under way, further puts and
 * deletes are asked for at once, each as a request of its own.
 *
 *     s->req, asked ──► ahead: a ──► b ──► c        answered in any order, told in this one
 *
 * Neither sees what the other does: a client cannot know the id of a put that was not answered, and
 * the queue does two requests about one job in the order in which they came. But who waits for a
 * job would see it, and get the most urgent of several puts instead of the first: then they go one
 * after the other. Whatever else a client
 * sends begins when all of these are told, as ever.
 *
 * Reserves that wait for ever are alike: while one is under way others may go ahead, too, but only
 * these, and whatever comes of any of them is told at once, as the answer to the oldest.
 *
 * Only what is complete is taken: a line, and a small body behind it. All else waits and goes the
 * usual way. So what a client may keep us holding is bounded: port->ahead_max small bodies.
 */

#include "base/err.h"
#include "proto/beanstalk_inner.h"

#include <string.h>

enum { BODY_MOST = 4096 };

struct tr_bs_ahead {
    struct tr_list link; /* in session->ahead */
    struct tr_bs_session *session;
    struct tr_req req;
    bool asked;
    size_t len; /* of the body */
    uint8_t body[];
};

static void drop(struct tr_bs_ahead *a)
{
    struct tr_bs_session *s = a->session;

    tr_list_remove(&a->link);
    s->ahead_count--;
    tr_mem_free(s->port->mem, a, sizeof *a + a->len);
}

static struct tr_bs_ahead *first_of(const struct tr_bs_session *s)
{
    return TR_CONTAINER_OF(s->ahead.next, struct tr_bs_ahead, link);
}

void tr_bs_ahead_say(struct tr_bs_session *s)
{
    while (!s->asked && s->ahead_count > 0 && !first_of(s)->asked) {
        struct tr_bs_ahead *a = first_of(s);

        s->req.op = a->req.op;
        s->req.out.gate = a->req.out.gate;
        if (a->req.out.status != TARRY_OK) {
            tr_bs_say_error(s, a->req.out.status);
        } else if (a->req.op == TR_OP_PUSH) {
            tr_bs_say_number(s, "INSERTED", a->req.out.job.id);
        } else {
            tr_bs_say(s, "DELETED\r\n");
        }
        drop(a);
    }
}

static void done(struct tr_req *r)
{
    struct tr_bs_ahead *a = r->ctx;
    struct tr_bs_session *s = a->session;

    a->asked = false;
    if (r->op == TR_OP_RESERVE) {
        s->req.out.gate = r->out.gate;
        tr_bs_say_reserved(s, r);
        drop(a);
        if (!s->running) {
            s->port->woken(s->port->ctx, s);
        }
        return;
    }
    tr_bs_ahead_say(s);
    if (!s->running && !s->asked) {
        s->port->woken(s->port->ctx, s);
    }
}

static bool is_waited_for(const struct tr_bs_session *s)
{
    const struct tr_queue *q = &s->port->queue;

    return q->waited != NULL && q->waited(q->ctx, s->used);
}

bool tr_bs_ahead_waits(const struct tr_bs_session *s)
{
    return s->ahead_count > 0 && first_of(s)->req.op == TR_OP_RESERVE;
}

/* Is a reserve under way that waits for ever? */
static bool waits(const struct tr_bs_session *s)
{
    return tr_bs_ahead_waits(s) ||
           (s->asked && s->req.op == TR_OP_RESERVE && s->req.wait_us == TR_WAIT_FOREVER);
}

/* Is this a time for it? */
static bool may(const struct tr_bs_session *s)
{
    bool follows = s->ahead_count > 0 ||
                   (s->asked && (s->req.op == TR_OP_PUSH || s->req.op == TR_OP_DELETE || waits(s)));

    return follows && s->ahead_count < s->port->ahead_max && s->input == TR_BS_LINE &&
           s->pass.who == NULL && s->next == NULL && !s->closing && !s->quitting &&
           !s->look_again && tr_output_len(&s->out) < s->port->output_max;
}

/* Reads a command that may go ahead, and says how long it is; 0: it is none, or not complete. */
static size_t read(const struct tr_bs_session *s, const uint8_t *bytes, size_t len,
                   struct tr_bs_line *line)
{
    const uint8_t *end = tr_bs_find_end(bytes, len < TR_BS_LINE_MAX ? len : TR_BS_LINE_MAX);
    size_t whole;

    if (end == NULL ||
        tr_bs_line_read(line, (const char *)bytes, (size_t)(end - bytes)) != TR_BS_FINE) {
        return 0;
    }
    whole = (size_t)(end - bytes) + 2;
    if ((line->command == TR_BS_RESERVE) != waits(s)) {
        return 0;
    }
    if (line->command == TR_BS_DELETE || line->command == TR_BS_RESERVE) {
        line->body_len = 0;
        return whole;
    }
    if (line->command != TR_BS_PUT || line->garbage || line->body_len > s->port->body_max ||
        line->body_len > BODY_MOST || len - whole < line->body_len + 2 || is_waited_for(s)) {
        return 0;
    }
    whole += line->body_len + 2;
    return bytes[whole - 2] == '\r' && bytes[whole - 1] == '\n' ? whole : 0;
}

size_t tr_bs_ahead(struct tr_bs_session *s, const uint8_t *bytes, size_t len)
{
    struct tr_bs_line line;
    struct tr_bs_ahead *a;
    size_t whole;

    if (!may(s) || (whole = read(s, bytes, len, &line)) == 0 ||
        !tr_mem_room(s->port->mem, sizeof *a + line.body_len) ||
        (a = tr_mem_alloc(s->port->mem, sizeof *a + line.body_len)) == NULL) {
        return 0;
    }
    a->session = s;
    a->len = line.body_len;
    a->asked = true;
    tr_list_init(&a->link);
    tr_list_append(&s->ahead, &a->link);
    s->ahead_count++;
    s->commands++;
    s->port->counts[line.command]++;
    if (line.command == TR_BS_PUT) {
        memcpy(a->body, bytes + whole - 2 - a->len, a->len);
        if (!s->producer) {
            s->producer = true;
            s->port->producers++;
        }
        tr_bs_set_put(s, &a->req, &line);
        a->req.op = TR_OP_PUSH;
        a->req.body = a->body;
        a->req.body_len = a->len;
    } else if (line.command == TR_BS_RESERVE) {
        a->req.op = TR_OP_RESERVE;
        tr_bs_set_reserve(s, &a->req, TR_WAIT_FOREVER);
    } else {
        a->req.op = TR_OP_DELETE;
        a->req.id = line.id;
        a->req.beanstalk = true;
    }
    a->req.done = done;
    a->req.ctx = a;
    a->req.holder = s->number;
    a->req.counts_only = true;
    s->port->queue.submit(s->port->queue.ctx, &a->req, s->now);
    s->cost += s->port->queue.work(s->port->queue.ctx);
    return whole;
}

void tr_bs_ahead_drop(struct tr_bs_session *s, bool abandon, struct tr_now now)
{
    while (s->ahead_count > 0) {
        struct tr_bs_ahead *a = first_of(s);

        if (abandon && a->asked) {
            s->port->queue.abandon(s->port->queue.ctx, &a->req, now);
        }
        drop(a);
    }
}

void tr_bs_ahead_end_waits(struct tr_bs_session *s, struct tr_now now)
{
    struct tr_list these;

    if (!tr_bs_ahead_waits(s)) {
        return;
    }
    s->now = now;
    tr_list_init(&these);
    tr_list_splice(&these, &s->ahead);
    while (!tr_list_empty(&these)) {
        struct tr_bs_ahead *a = TR_CONTAINER_OF(these.next, struct tr_bs_ahead, link);

        tr_list_remove(&a->link);
        tr_list_append(&s->ahead, &a->link);
        if (a->req.wait_us != 0) {
            s->port->queue.abandon(s->port->queue.ctx, &a->req, now);
            a->req.topics = s->watched;
            a->req.wait_us = 0;
            s->port->queue.submit(s->port->queue.ctx, &a->req, now); /* which may end it */
        }
    }
}

unsigned tr_bs_ahead_drop_waits(struct tr_bs_session *s, struct tr_now now)
{
    unsigned count = tr_bs_ahead_waits(s) ? s->ahead_count : 0;

    if (count > 0) {
        tr_bs_ahead_drop(s, true, now);
    }
    return count;
}
