/*
 * The commands, one function each: it asks the queue, and another one looks at the answer.
 *
 *     cmd_x(s)     begins the command: sets what the request needs, asks
 *     x_done(s)    the answer is there: replies, or sets the next step
 *
 * A topic that a session uses or watches is held, so that it stays while nobody has jobs in it,
 * and is named by its number from then on.
 */

#include "base/err.h"
#include "proto/beanstalk_inner.h"

#include <string.h>

#define US_PER_S UINT64_C(1000000)

enum { WARN_US = 1000000 }; /* DEADLINE_SOON in the last second of a lease */

/* ---- jobs ---- */

static void put_done(struct tr_bs_session *s)
{
    tr_bs_drop_body(s);
    if (s->req.out.status == TARRY_OK) {
        tr_bs_say_number(s, "INSERTED", s->req.out.job.id);
    } else {
        tr_bs_say_error(s, s->req.out.status);
    }
}

void tr_bs_set_put(const struct tr_bs_session *s, struct tr_req *r, const struct tr_bs_line *line)
{
    uint32_t ttr_s = line->ttr_s > 0 ? line->ttr_s : 1;

    r->topic = s->used;
    r->priority = line->priority;
    r->delay_us = line->delay_s * US_PER_S;
    r->at_us = 0;
    r->ttr_us = ttr_s * US_PER_S;
    r->beanstalk = true;
}

void tr_bs_do_put(struct tr_bs_session *s, const uint8_t *body, size_t len)
{
    tr_bs_set_put(s, &s->req, &s->line);
    s->req.body = body;
    s->req.body_len = len;
    tr_bs_ask(s, TR_OP_PUSH, put_done);
}

/* Remembers a hand-out until its reply has left. False: no memory. */
static bool note_handout(struct tr_bs_session *s, uint64_t id)
{
    size_t sent = 0;

    while (sent < s->handout_count && s->handouts[sent].end <= s->out.sent) {
        sent++;
    }
    if (sent > 0 && (sent == s->handout_count || s->handout_count == s->handout_room)) {
        s->handout_count -= sent;
        memmove(s->handouts, s->handouts + sent, s->handout_count * sizeof s->handouts[0]);
    }
    if (s->handout_count == s->handout_room) {
        size_t room = s->handout_room > 0 ? s->handout_room * 2 : 4;
        struct tr_bs_handout *more = tr_mem_resize(
            s->port->mem, s->handouts, s->handout_room * sizeof *more, room * sizeof *more);

        if (more == NULL) {
            return false;
        }
        s->handouts = more;
        s->handout_room = room;
    }
    s->handouts[s->handout_count++] =
        (struct tr_bs_handout){.end = tr_output_end(&s->out), .id = id};
    return true;
}

static void become_worker(struct tr_bs_session *s)
{
    if (!s->worker) {
        s->worker = true;
        s->port->workers++;
    }
}

void tr_bs_say_reserved(struct tr_bs_session *s, const struct tr_req *r)
{
    if (r->out.status != TARRY_OK) {
        tr_bs_say_error(s, r->out.status);
        return;
    }
    become_worker(s);
    tr_bs_say_job(s, "RESERVED", &r->out.job);
    if (!note_handout(s, r->out.job.id)) {
        s->out.broken = true; /* the connection is closed, and the job is ready again */
    }
}

static void reserve_done(struct tr_bs_session *s)
{
    tr_bs_say_reserved(s, &s->req);
}

void tr_bs_set_reserve(const struct tr_bs_session *s, struct tr_req *r, uint64_t wait_us)
{
    r->topics = s->watched;
    r->topic_count = s->watched_count;
    r->order = TR_ORDER_ID;
    r->wait_us = s->half_closed ? 0 : wait_us;
    r->warn_us = WARN_US;
    r->ttr_us = 0;
}

static void reserve(struct tr_bs_session *s, uint64_t wait_us)
{
    become_worker(s);
    tr_bs_set_reserve(s, &s->req, wait_us);
    tr_bs_ask(s, TR_OP_RESERVE, reserve_done);
}

static void reserve_job(struct tr_bs_session *s)
{
    s->req.ttr_us = 0;
    tr_bs_ask(s, TR_OP_RESERVE_JOB, reserve_done);
}

static void line_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_bs_say(s, s->success);
    } else {
        tr_bs_say_error(s, s->req.out.status);
    }
}

/* After its last attempt a job is dead, not ready: beanstalkd has a word for that. */
static void release_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK && s->req.out.job.state == TR_DEAD) {
        s->success = "BURIED\r\n";
    }
    line_done(s);
}

/* For commands whose success is one line. */
static void ask_for_line(struct tr_bs_session *s, enum tr_op op, const char *success)
{
    s->success = success;
    tr_bs_ask(s, op, line_done);
}

static void peek_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_bs_say_job(s, "FOUND", &s->req.out.job);
    } else {
        tr_bs_say_error(s, s->req.out.status);
    }
}

static void peek_first(struct tr_bs_session *s, enum tr_job_state state)
{
    s->req.topic = s->used;
    s->req.state = state;
    s->req.order = TR_ORDER_ID;
    tr_bs_ask(s, TR_OP_PEEK_FIRST, peek_done);
}

static void kick_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_bs_say_number(s, "KICKED", s->req.out.number);
    } else {
        tr_bs_say_error(s, s->req.out.status);
    }
}

/* ---- topics ---- */

static void ask_by_name(struct tr_bs_session *s, enum tr_op op, tr_bs_step_fn *then)
{
    s->req.name = s->line.name;
    s->req.name_len = s->line.name_len;
    tr_bs_ask(s, op, then);
}

static void nothing_done(struct tr_bs_session *s)
{
    (void)s;
}

/* Drops the topic in req.topic, which was held for req.hold. */
static void drop_topic(struct tr_bs_session *s)
{
    tr_bs_ask(s, TR_OP_DROP_TOPIC, nothing_done);
}

static void say_topic(struct tr_bs_session *s)
{
    tr_bs_say(s, "USING ");
    tr_output_add(&s->out, s->req.out.name, s->req.out.name_len);
    tr_output_add(&s->out, "\r\n", 2);
}

/* It is not a job that is too big, if there are too many topics. */
static void say_hold_error(struct tr_bs_session *s)
{
    tr_bs_say_error(s, s->req.out.status == TARRY_EFULL ? TARRY_ENOMEM : s->req.out.status);
}

static void use_done(struct tr_bs_session *s)
{
    if (s->req.out.status != TARRY_OK) {
        say_hold_error(s);
        return;
    }
    say_topic(s);
    s->req.topic = s->used;
    s->used = s->req.out.topic;
    s->used_foreign = false;
    s->next = drop_topic;
}

static void use(struct tr_bs_session *s)
{
    s->req.hold = TR_HOLD_USE;
    ask_by_name(s, TR_OP_HOLD_TOPIC, use_done);
}

static void list_used_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        say_topic(s);
    } else {
        tr_bs_say_error(s, s->req.out.status);
    }
}

/* Its place among the watched ones, or their number. */
static unsigned find_watched(const struct tr_bs_session *s, uint32_t topic)
{
    unsigned i = 0;

    while (i < s->watched_count && s->watched[i] != topic) {
        i++;
    }
    return i;
}

static bool add_watched(struct tr_bs_session *s, uint32_t topic)
{
    if (s->watched_count == s->watched_room) {
        unsigned room = s->watched_room > 0 ? s->watched_room * 2 : 2;
        uint32_t *more = tr_mem_resize(s->port->mem, s->watched, s->watched_room * sizeof *more,
                                       room * sizeof *more);

        if (more == NULL) {
            return false;
        }
        s->watched = more;
        s->watched_room = room;
    }
    s->watched[s->watched_count++] = topic;
    return true;
}

static void say_watching(struct tr_bs_session *s)
{
    tr_bs_say_number(s, "WATCHING", s->watched_count);
}

static void watch_done(struct tr_bs_session *s)
{
    uint32_t topic = s->req.out.topic;

    if (s->req.out.status != TARRY_OK) {
        say_hold_error(s);
        return;
    }
    if (find_watched(s, topic) == s->watched_count) {
        if (add_watched(s, topic)) {
            say_watching(s);
            return;
        }
        tr_bs_say_error(s, TARRY_ENOMEM);
    } else {
        say_watching(s);
    }
    s->req.topic = topic; /* held once is enough */
    s->next = drop_topic;
}

static void watch(struct tr_bs_session *s)
{
    s->req.hold = TR_HOLD_WATCH;
    ask_by_name(s, TR_OP_HOLD_TOPIC, watch_done);
}

static void ignore_done(struct tr_bs_session *s)
{
    int status = s->req.out.status;
    unsigned at = status == TARRY_OK ? find_watched(s, s->req.out.topic) : s->watched_count;

    if (status != TARRY_OK && status != TARRY_ENOTFOUND) {
        tr_bs_say_error(s, status); /* it may be watched, and is still */
        return;
    }
    if (at < s->watched_count && s->watched_count == 1) {
        tr_bs_say(s, "NOT_IGNORED\r\n");
        return;
    }
    if (at < s->watched_count) {
        s->watched_count--;
        memmove(s->watched + at, s->watched + at + 1,
                (s->watched_count - at) * sizeof s->watched[0]);
        s->req.topic = s->req.out.topic;
        s->req.hold = TR_HOLD_WATCH;
        s->next = drop_topic;
    }
    say_watching(s);
}

static void pause_topic(struct tr_bs_session *s)
{
    s->req.wait_us = s->line.delay_s * US_PER_S;
    ask_for_line(s, TR_OP_PAUSE, "PAUSED\r\n");
}

static void stat_topic(struct tr_bs_session *s)
{
    tr_bs_ask(s, TR_OP_STAT_TOPIC, tr_bs_text_stats_tube);
}

/* The topic was looked up by its name: on with it, by its number. */
static void found_done(struct tr_bs_session *s)
{
    int status = s->req.out.status;

    if (status == TARRY_OK && !s->req.out.stat.listed) {
        status = TARRY_ENOTFOUND; /* it has only a policy, which is nothing here */
    }
    if (status != TARRY_OK) {
        tr_bs_say_error(s, status);
        return;
    }
    s->req.topic = s->req.out.topic;
    s->next = s->line.command == TR_BS_PAUSE_TUBE ? pause_topic : stat_topic;
}

/* ---- lists ---- */

static void end_list(struct tr_bs_session *s)
{
    tr_output_fini(s->text);
    tr_mem_free(s->port->mem, s->text, sizeof *s->text);
    s->text = NULL;
}

static bool begin_list(struct tr_bs_session *s)
{
    s->text = tr_mem_alloc(s->port->mem, sizeof *s->text);
    if (s->text == NULL) {
        tr_bs_say_error(s, TARRY_ENOMEM);
        return false;
    }
    tr_output_init(s->text, s->port->mem);
    tr_output_add(s->text, "---\n", 4);
    return true;
}

static void add_to_list(struct tr_bs_session *s)
{
    tr_output_add(s->text, "- ", 2);
    tr_output_add(s->text, s->req.out.name, s->req.out.name_len);
    tr_output_add(s->text, "\n", 1);
}

static void say_list(struct tr_bs_session *s)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(s->text, 0, &bytes);

    if (s->text->broken) {
        tr_bs_say_error(s, TARRY_ENOMEM);
    } else {
        tr_bs_say_text(s, bytes, len);
    }
    end_list(s);
}

static void list_all_done(struct tr_bs_session *s);

static void list_all(struct tr_bs_session *s)
{
    tr_bs_ask(s, TR_OP_NEXT_TOPIC, list_all_done);
}

static void list_all_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        if (s->req.out.stat.listed &&
            tr_auth_topic(s->pass.who, s->req.out.name, s->req.out.name_len)) {
            add_to_list(s);
        }
        s->req.topic = s->req.out.topic;
        s->next = list_all;
    } else if (s->req.out.status == TARRY_ENOTFOUND) { /* that was the last one */
        say_list(s);
    } else {
        end_list(s);
        tr_bs_say_error(s, s->req.out.status);
    }
}

static void list_watched_done(struct tr_bs_session *s);

static void list_watched(struct tr_bs_session *s)
{
    s->req.topic = s->watched[s->index++];
    tr_bs_ask(s, TR_OP_STAT_TOPIC, list_watched_done);
}

static void list_watched_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK) {
        add_to_list(s);
    }
    if (s->index < s->watched_count) {
        s->next = list_watched;
        return;
    }
    say_list(s);
}

/* ---- which is which ---- */

static void do_list(struct tr_bs_session *s)
{
    if (s->line.command == TR_BS_LIST_TUBE_USED) {
        s->req.topic = s->used;
        tr_bs_ask(s, TR_OP_STAT_TOPIC, list_used_done);
    } else if (begin_list(s)) {
        s->req.topic = 0;
        s->index = 0;
        s->next = s->line.command == TR_BS_LIST_TUBES ? list_all
                  : s->watched_count > 0              ? list_watched
                                                      : say_list;
    }
}

static void do_job(struct tr_bs_session *s)
{
    s->req.id = s->line.id;
    s->req.priority = s->line.priority;
    s->req.delay_us = s->line.delay_s * US_PER_S;
    s->req.at_us = 0;
    s->req.lease = 0;
    s->req.force = false;
    s->req.beanstalk = true;
    switch (s->line.command) {
    case TR_BS_DELETE:
        ask_for_line(s, TR_OP_DELETE, "DELETED\r\n");
        break;
    case TR_BS_RELEASE:
        s->success = "RELEASED\r\n";
        tr_bs_ask(s, TR_OP_RELEASE, release_done);
        break;
    case TR_BS_BURY:
        ask_for_line(s, TR_OP_BURY, "BURIED\r\n");
        break;
    case TR_BS_TOUCH:
        s->req.ttr_us = 0;
        ask_for_line(s, TR_OP_TOUCH, "TOUCHED\r\n");
        break;
    case TR_BS_KICK_JOB:
        ask_for_line(s, TR_OP_KICK_JOB, "KICKED\r\n");
        break;
    case TR_BS_RESERVE_JOB:
        reserve_job(s);
        break;
    case TR_BS_STATS_JOB:
        tr_bs_ask(s, TR_OP_STAT_JOB, tr_bs_text_stats_job);
        break;
    default:
        tr_bs_ask(s, TR_OP_PEEK, peek_done);
        break;
    }
}

static void do_topic(struct tr_bs_session *s)
{
    switch (s->line.command) {
    case TR_BS_USE:
        use(s);
        break;
    case TR_BS_WATCH:
        watch(s);
        break;
    case TR_BS_IGNORE:
        ask_by_name(s, TR_OP_FIND_TOPIC, ignore_done);
        break;
    default: /* PAUSE_TUBE, STATS_TUBE */
        ask_by_name(s, TR_OP_FIND_TOPIC, found_done);
        break;
    }
}

static void kick(struct tr_bs_session *s)
{
    s->req.topic = s->used;
    s->req.count = s->line.bound;
    s->req.beanstalk = true;
    tr_bs_ask(s, TR_OP_KICK, kick_done);
}

void tr_bs_do(struct tr_bs_session *s)
{
    switch (s->line.command) {
    case TR_BS_RESERVE:
        reserve(s, TR_WAIT_FOREVER);
        break;
    case TR_BS_RESERVE_TIMEOUT:
        reserve(s, s->line.timeout_s * US_PER_S);
        break;
    case TR_BS_PEEK_READY:
        peek_first(s, TR_READY);
        break;
    case TR_BS_PEEK_DELAYED:
        peek_first(s, TR_DELAYED);
        break;
    case TR_BS_PEEK_BURIED:
        peek_first(s, TR_DEAD);
        break;
    case TR_BS_KICK:
        kick(s);
        break;
    case TR_BS_USE:
    case TR_BS_WATCH:
    case TR_BS_IGNORE:
    case TR_BS_PAUSE_TUBE:
    case TR_BS_STATS_TUBE:
        do_topic(s);
        break;
    case TR_BS_LIST_TUBES:
    case TR_BS_LIST_TUBES_WATCHED:
    case TR_BS_LIST_TUBE_USED:
        do_list(s);
        break;
    case TR_BS_STATS:
        tr_bs_ask(s, TR_OP_STAT, tr_bs_text_stats);
        break;
    case TR_BS_QUIT:
        s->quitting = true;
        break;
    case TR_BS_AUTH:
        tr_bs_do_auth(s);
        break;
    default:
        tr_bs_name_job(s, do_job);
        break;
    }
}

/* ---- the first and the last steps ---- */

static const char first_topic[] = "default";

static void kept_done(struct tr_req *r)
{
    (void)r;
}

int tr_bs_port_open(struct tr_bs_port *port, struct tr_now now)
{
    struct tr_req req = {.op = TR_OP_HOLD_TOPIC,
                         .done = kept_done,
                         .name = first_topic,
                         .name_len = sizeof first_topic - 1,
                         .hold = TR_HOLD_KEEP};

    port->queue.submit(port->queue.ctx, &req, now);
    TR_CHECK(!req.busy);
    return req.out.status;
}

static void open_watch_done(struct tr_bs_session *s)
{
    if (s->req.out.status == TARRY_OK && !add_watched(s, s->req.out.topic)) {
        s->req.topic = s->req.out.topic;
        s->next = drop_topic;
    }
    s->quitting = s->watched_count == 0;
}

static void open_watch(struct tr_bs_session *s)
{
    s->req.hold = TR_HOLD_WATCH;
    tr_bs_ask(s, TR_OP_HOLD_TOPIC, open_watch_done);
}

static void open_use_done(struct tr_bs_session *s)
{
    if (s->req.out.status != TARRY_OK) {
        s->quitting = true;
        return;
    }
    s->used = s->req.out.topic;
    s->next = open_watch;
}

void tr_bs_do_open(struct tr_bs_session *s)
{
    s->req.name = first_topic;
    s->req.name_len = sizeof first_topic - 1;
    s->req.hold = TR_HOLD_USE;
    tr_bs_ask(s, TR_OP_HOLD_TOPIC, open_use_done);
}

void tr_bs_fini(struct tr_bs_session *s)
{
    struct tr_mem *mem = s->port->mem;

    tr_bs_drop_body(s);
    tr_bs_ahead_drop(s, false, s->now);
    tr_output_fini(&s->out);
    if (s->text != NULL) {
        end_list(s);
    }
    tr_mem_free(mem, s->watched, s->watched_room * sizeof s->watched[0]);
    tr_mem_free(mem, s->handouts, s->handout_room * sizeof s->handouts[0]);
}

static void close_done(struct tr_bs_session *s)
{
    s->next = tr_bs_do_close;
}

/* The holder is gone: from now on there are only topics to be left. */
static void close_holder_done(struct tr_bs_session *s)
{
    s->number = 0;
    s->next = tr_bs_do_close;
}

/* One thing after the other, until nothing is left. */
void tr_bs_do_close(struct tr_bs_session *s)
{
    while (s->handout_count > 0) {
        struct tr_bs_handout last = s->handouts[--s->handout_count];

        if (last.end > s->out.sent) {
            s->req.id = last.id;
            s->req.lease = 0;
            tr_bs_ask(s, TR_OP_RETURN, close_done);
            return;
        }
    }
    if (s->number != 0) {
        tr_bs_ask(s, TR_OP_CLOSE, close_holder_done);
    } else if (s->used != 0) {
        s->req.topic = s->used;
        s->req.hold = TR_HOLD_USE;
        s->used = 0;
        tr_bs_ask(s, TR_OP_DROP_TOPIC, close_done);
    } else if (s->watched_count > 0) {
        s->req.topic = s->watched[--s->watched_count];
        s->req.hold = TR_HOLD_WATCH;
        tr_bs_ask(s, TR_OP_DROP_TOPIC, close_done);
    } else {
        tr_bs_fini(s);
        s->gone = true;
    }
}
