/*
 * POST /v1/topics/{topic}/reserve, and of several topics: jobs that are due, now or as soon as
 * there is one.
 *
 *     topics by name --> reserve, waits --> and again, without waiting, until there are so many
 *                                            |
 *                                            v
 *                       the array of jobs, one after the other; the reply when nothing more comes;
 *                       one job alone is told at once
 *
 * Who waits holds his topics, so that he may be the first one who names them; but not the only one,
 * if it is there: it stays while somebody waits for a job of it. Should it go before that
 * (TARRY_EINVAL), he names it again, and holds it. Who does not wait makes no topic.
 *
 * A job is handed out when its reply has left. If the client goes before, it is returned as if it
 * had never been handed out; so each is noted until then. Leases outlive connections: there is no
 * holder.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#include <string.h>

enum { REPLY_MAX = 4 << 20 }; /* bytes, beyond which no further job is added */

/* ---- what was handed out ---- */

bool tr_hs_handout_room(struct tr_hs *s)
{
    size_t sent = 0;
    size_t room = s->handout_room > 0 ? s->handout_room * 2 : 4;
    struct tr_hs_handout *more;

    while (sent < s->handout_count && s->handouts[sent].end <= s->out.sent) {
        sent++;
    }
    if (sent > 0) {
        s->handout_count -= sent;
        memmove(s->handouts, s->handouts + sent, s->handout_count * sizeof s->handouts[0]);
    }
    if (s->handout_count < s->handout_room) {
        return true;
    }
    more = tr_mem_resize(s->port->mem, s->handouts, s->handout_room * sizeof *more,
                         room * sizeof *more);
    if (more == NULL) {
        return false;
    }
    s->handouts = more;
    s->handout_room = room;
    return true;
}

void tr_hs_note_handout(struct tr_hs *s, const struct tr_job_view *job)
{
    s->handouts[s->handout_count++] =
        (struct tr_hs_handout){.end = UINT64_MAX, .id = job->id, .lease = job->lease};
}

void tr_hs_handouts_told(struct tr_hs *s, uint64_t end)
{
    for (size_t i = s->handout_count; i > 0 && s->handouts[i - 1].end == UINT64_MAX; i--) {
        s->handouts[i - 1].end = end;
    }
}

/* ---- topics ---- */

void tr_hs_drop_topics(struct tr_hs *s)
{
    if (s->topics != s->topic_few) {
        tr_mem_free(s->port->mem, s->topics, s->topic_room * sizeof s->topics[0]);
    }
    s->topics = NULL;
    s->topic_room = 0;
    s->topic_count = 0;
    s->held = 0;
}

static void let_go(struct tr_hs *s);

static void let_go_done(struct tr_hs *s)
{
    s->next = let_go;
}

/* One after the other. */
static void let_go(struct tr_hs *s)
{
    if (s->held == 0) {
        tr_hs_drop_topics(s);
        return;
    }
    s->req.topic = s->topics[--s->held];
    s->req.hold = TR_HOLD_WATCH;
    tr_hs_ask(s, TR_OP_DROP_TOPIC, let_go_done);
}

/* The name that begins at s->number, which then is the place of the next one. */
static struct tr_http_text next_name(struct tr_hs *s)
{
    struct tr_http_text all =
        tr_hs_given(s, TR_ARG_TOPICS) ? s->args.values[TR_ARG_TOPICS].text : s->match.topic;
    struct tr_http_text name = {all.at + s->number, all.len - s->number};
    const char *comma = memchr(name.at, ',', name.len);

    if (tr_hs_given(s, TR_ARG_TOPICS) && comma != NULL) {
        name.len = (size_t)(comma - name.at);
    }
    s->number += name.len + 1;
    if (s->number > all.len) {
        s->number = 0; /* that was the last one */
    }
    return name;
}

static bool room_for_topic(struct tr_hs *s)
{
    unsigned room = s->topic_room * 2;
    bool few = s->topics == s->topic_few;
    uint32_t *more;

    if (s->topics == NULL) {
        s->topics = s->topic_few;
        s->topic_room = TR_HS_FEW_TOPICS;
    }
    if (s->topic_count < s->topic_room) {
        return true;
    }
    more = tr_mem_resize(s->port->mem, few ? NULL : s->topics,
                         few ? 0 : s->topic_room * sizeof *more, room * sizeof *more);
    if (more == NULL) {
        return false;
    }
    if (few) {
        memcpy(more, s->topic_few, sizeof s->topic_few);
    }
    s->topics = more;
    s->topic_room = room;
    return true;
}

/* ---- the reply ---- */

static void end(struct tr_hs *s)
{
    tr_hs_handouts_told(s, tr_hs_tell_text(s, "jobs", let_go));
}

void tr_hs_reserve_none(struct tr_hs *s)
{
    tr_hs_none(s);
    s->next = s->holding ? tr_hs_let_go : let_go;
}

void tr_hs_reserve_unauthorized(struct tr_hs *s)
{
    struct tr_http_error e = tr_hs_unauthorized();

    tr_hs_refuse(s, &e);
    s->next = s->holding ? tr_hs_let_go : let_go;
}

static void fail(struct tr_hs *s)
{
    tr_hs_fail(s);
    s->next = let_go;
}

static void no_memory(struct tr_hs *s)
{
    s->req.out.status = TARRY_ENOMEM;
    fail(s);
}

/* ---- jobs ---- */

static void reserve(struct tr_hs *s);

static bool waits(const struct tr_hs *s)
{
    return tr_hs_number(s, TR_ARG_WAIT, 0) > 0 && !s->half_closed;
}

static bool is_one(const struct tr_hs *s)
{
    return tr_hs_number(s, TR_ARG_JOBS, 1) == 1;
}

static void tell(struct tr_hs *s, struct tr_json *j)
{
    tr_json_open(j, '{');
    tr_shape_job(j, &s->req.out.job,
                 (struct tr_shape){.body = true, .lease_key = s->port->lease_key});
    tr_json_close(j, '}');
}

/* The only job that was asked for is all of the reply. */
static void tell_one(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (tr_hs_accepts_bytes(s)) {
        tr_hs_job_bytes(s, s->port->lease_key);
    } else {
        tr_hs_open(s, &r, 200);
        tr_json_name(&r.json, "jobs");
        tr_json_open(&r.json, '[');
        tell(s, &r.json);
        tr_json_close(&r.json, ']');
        tr_hs_close(s, &r);
    }
    tr_hs_handouts_told(s, tr_output_end(&s->out));
    if (s->held > 0) {
        s->next = let_go;
    } else {
        tr_hs_drop_topics(s);
    }
}

static void name_topic(struct tr_hs *s);

/* The topic went before he waited for it. */
static void name_again(struct tr_hs *s)
{
    s->topic_count = 0;
    s->holds = true;
    s->next = name_topic;
}

static void reserved(struct tr_hs *s)
{
    int status = s->req.out.status;

    if (status == TARRY_OK) {
        tr_hs_note_handout(s, &s->req.out.job);
        s->cost += s->req.out.job.body_len / 1024;
        if (is_one(s)) {
            tell_one(s);
        } else {
            tell(s, &s->json);
            s->number++;
            s->next = reserve;
        }
    } else if (s->number > 0) { /* what is there is the answer */
        s->next = end;
    } else if (status == TARRY_EINVAL && s->held == 0 && waits(s)) {
        name_again(s);
    } else if (status == TARRY_ETIMEOUT || (status == TARRY_EINVAL && s->held == 0)) {
        s->next = tr_hs_reserve_none;
    } else {
        s->next = fail;
    }
}

static void reserve(struct tr_hs *s)
{
    struct tr_req *r = &s->req;

    if (s->number > 0 && (s->number == tr_hs_number(s, TR_ARG_JOBS, 1) ||
                          tr_output_len(s->text) >= REPLY_MAX || s->text->broken)) {
        end(s);
        return;
    }
    if (!tr_hs_handout_room(s)) {
        if (s->number > 0) {
            end(s);
        } else {
            no_memory(s);
        }
        return;
    }
    r->topics = s->topics;
    r->topic_count = s->topic_count;
    r->order = TR_ORDER_DUE;
    r->wait_us = s->number > 0 || s->half_closed ? 0 : tr_hs_number(s, TR_ARG_WAIT, 0);
    r->ttr_us = tr_hs_number(s, TR_ARG_TTR, 0);
    if (tr_hs_given(s, TR_ARG_TAG)) {
        r->tag = s->args.values[TR_ARG_TAG].text.at;
        r->tag_len = s->args.values[TR_ARG_TAG].text.len;
    }
    tr_hs_ask(s, TR_OP_RESERVE, reserved);
}

static void begin(struct tr_hs *s)
{
    if (s->topic_count == 0) { /* nobody knows them, so nothing is there */
        tr_hs_reserve_none(s);
    } else if (is_one(s) || s->text != NULL || tr_hs_begin_text(s)) {
        reserve(s);
    } else {
        s->next = let_go;
    }
}

static void hold_topic(struct tr_hs *s);

static void topic_named(struct tr_hs *s)
{
    bool held = s->req.op == TR_OP_HOLD_TOPIC;

    if (s->req.out.status == TARRY_OK) {
        s->topics[s->topic_count++] = s->req.out.topic;
        s->held += held;
    } else if (s->req.out.status == TARRY_ENOTFOUND && waits(s) && !held) {
        s->next = hold_topic;
        return;
    } else if (s->req.out.status != TARRY_ENOTFOUND) {
        s->next = fail;
        return;
    }
    s->next = s->number > 0 ? name_topic : begin;
}

/* The one that s->req names. */
static void hold_topic(struct tr_hs *s)
{
    s->req.hold = TR_HOLD_WATCH;
    tr_hs_ask(s, TR_OP_HOLD_TOPIC, topic_named);
}

static void name_topic(struct tr_hs *s)
{
    struct tr_http_text name = next_name(s);

    if (!tr_hs_may(s, name.at, name.len)) {
        struct tr_http_error e = tr_hs_foreign_topic();

        tr_hs_refuse(s, &e);
        s->next = let_go;
        return;
    }
    if (!room_for_topic(s)) {
        no_memory(s);
        return;
    }
    s->req.name = name.at;
    s->req.name_len = name.len;
    if (s->holds) {
        hold_topic(s);
    } else {
        tr_hs_ask(s, TR_OP_FIND_TOPIC, topic_named);
    }
}

void tr_hs_reserve(struct tr_hs *s)
{
    s->holds = waits(s) && tr_hs_given(s, TR_ARG_TOPICS);
    name_topic(s);
}
