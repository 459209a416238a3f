/*
 * Many jobs that match a filter: list them, cancel, shift or kick them; and purge a topic.
 *
 * A cursor tells how far a list has come (struct tr_cursor), for the client a word without meaning:
 * j or d, whether it is among the dead, and two hexadecimal numbers.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"

#include <string.h>

enum { PAGE = 100 };

/* ---- the filter ---- */

static uint64_t moment(const struct tr_hs *s, enum tr_arg arg, uint64_t least)
{
    int64_t at = tr_hs_given(s, arg) ? s->args.values[arg].number : 0;

    return at > (int64_t)least ? (uint64_t)at : least;
}

static void fill_filter(struct tr_hs *s)
{
    struct tr_filter *f = &s->req.filter;

    *f = (struct tr_filter){0};
    if (tr_hs_given(s, TR_ARG_STATE)) {
        f->states = 1U << (tr_hs_number(s, TR_ARG_STATE, 0) + TR_DELAYED);
    }
    f->due_from_us = moment(s, TR_ARG_DUE_FROM, 0);
    if (tr_hs_given(s, TR_ARG_DUE_TO)) {
        f->due_to_us = moment(s, TR_ARG_DUE_TO, 1); /* 0 would be without end */
    }
    if (tr_hs_given(s, TR_ARG_TAG)) {
        f->tag = s->args.values[TR_ARG_TAG].text.at;
        f->tag_len = s->args.values[TR_ARG_TAG].text.len;
    }
}

/* ---- cursors ---- */

enum { CURSOR_TEXT = 40 };

static void print_cursor(char out[CURSOR_TEXT], const struct tr_cursor *c)
{
    tr_text(out, CURSOR_TEXT, "%c%llx.%llx", c->dead ? 'd' : 'j', (unsigned long long)c->at,
            (unsigned long long)c->id);
}

/* Small hexadecimal digits up to `end`, which is passed over. */
static bool read_hex(struct tr_http_text *text, char end, uint64_t *n)
{
    size_t i = 0;

    *n = 0;
    for (; i < text->len && text->at[i] != end; i++) {
        char c = text->at[i];

        if (i == 16 || !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        *n = *n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (i == 0 || (i == text->len) != (end == '\0')) {
        return false;
    }
    text->at += i + (end != '\0');
    text->len -= i + (end != '\0');
    return true;
}

static bool read_cursor(struct tr_http_text text, struct tr_cursor *c)
{
    *c = (struct tr_cursor){.dead = text.len > 0 && text.at[0] == 'd'};
    if (text.len == 0 || (text.at[0] != 'd' && text.at[0] != 'j')) {
        return false;
    }
    text.at++;
    text.len--;
    return read_hex(&text, '.', &c->at) && read_hex(&text, '\0', &c->id);
}

/* ---- the topic, if one is named ---- */

static void nothing(struct tr_hs *s);

static void topic_found(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_ENOTFOUND && s->match.topic.at == NULL) {
        nothing(s);
    } else if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
    } else {
        s->req.topic = s->req.out.topic;
        s->next = s->act;
    }
}

static void for_topic(struct tr_hs *s, tr_hs_step_fn *act)
{
    struct tr_http_text name = s->match.topic;

    s->act = act;
    if (name.at == NULL && !tr_hs_topic_arg(s, &name)) {
        return;
    }
    if (name.at != NULL) {
        tr_hs_find_topic(s, name, topic_found);
    } else {
        act(s);
    }
}

/* ---- listing ---- */

static void tell_cursor(struct tr_json *j, const struct tr_cursor *c)
{
    char text[CURSOR_TEXT];

    tr_json_name(j, "cursor");
    if (c->more) {
        print_cursor(text, c);
        tr_json_text(j, text);
    } else {
        tr_json_null(j);
    }
}

/* The topic of a filter went before the queue looked. */
static bool went(const struct tr_hs *s)
{
    return s->req.out.status == TARRY_ENOTFOUND && s->match.topic.at == NULL;
}

static void listed(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (went(s)) {
        nothing(s);
        return;
    }
    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "jobs");
    tr_json_open(&r.json, '[');
    for (uint64_t i = 0; i < s->req.out.number; i++) {
        tr_json_open(&r.json, '{');
        tr_shape_job(&r.json, &s->req.out.jobs[i], (struct tr_shape){0});
        tr_json_close(&r.json, '}');
        s->cost += 2;
    }
    tr_json_close(&r.json, ']');
    tell_cursor(&r.json, &s->req.out.cursor);
    tr_hs_close(s, &r);
}

static void list(struct tr_hs *s)
{
    fill_filter(s);
    s->req.count = tr_hs_number(s, TR_ARG_PAGE, PAGE);
    tr_hs_ask(s, TR_OP_LIST, listed);
}

void tr_hs_list(struct tr_hs *s)
{
    if (tr_hs_given(s, TR_ARG_CURSOR) &&
        !read_cursor(s->args.values[TR_ARG_CURSOR].text, &s->req.cursor)) {
        tr_hs_bad(s, TR_ARG_CURSOR, "is not from a page of this list");
        return;
    }
    for_topic(s, list);
}

/* ---- changing all that match ---- */

static void tell_bulk(struct tr_hs *s, uint64_t matched, uint64_t done, bool more)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "matched");
    tr_json_number(&r.json, matched);
    tr_json_name(&r.json, "done");
    tr_json_number(&r.json, done);
    tr_json_name(&r.json, "more");
    tr_json_bool(&r.json, more);
    if (more && s->match.route == TR_ROUTE_SHIFT_MANY) { /* others do not meet what they did */
        tell_cursor(&r.json, &s->req.out.cursor);
    }
    tr_hs_close(s, &r);
}

/* There is no such topic, so nothing matches. */
static void nothing(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->match.route != TR_ROUTE_LIST) {
        tell_bulk(s, 0, 0, false);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "jobs");
    tr_json_raw(&r.json, "[]", 2);
    tell_cursor(&r.json, &(struct tr_cursor){0});
    tr_hs_close(s, &r);
}

static void bulk_done(struct tr_hs *s)
{
    uint64_t done = s->req.dry_run ? 0 : s->req.out.number;

    if (s->req.out.status == TARRY_ESTATE) {
        tr_hs_bad(s, TR_ARG_CURSOR,
                  "is not valid: it is of another call, or from before a restart");
        return;
    }
    if (went(s)) {
        nothing(s);
        return;
    }
    if (s->req.out.status != TARRY_OK) {
        tr_hs_no_topic(s);
        return;
    }
    tell_bulk(s, s->req.out.number + s->req.out.passed, done, s->req.out.cursor.more);
}

static void bulk(struct tr_hs *s)
{
    struct tr_req *r = &s->req;

    fill_filter(s);
    r->count = tr_hs_number(s, TR_ARG_MOST, TR_BULK_MAX);
    r->dry_run = tr_hs_number(s, TR_ARG_DRY_RUN, 0) != 0;
    switch (s->match.route) {
    case TR_ROUTE_CANCEL_MANY:
        r->bulk = TR_BULK_CANCEL;
        break;
    case TR_ROUTE_KICK_MANY:
        r->bulk = TR_BULK_KICK;
        r->filter.states = 1U << TR_DEAD;
        break;
    default:
        r->bulk = TR_BULK_SHIFT;
        r->shift_us = tr_hs_given(s, TR_ARG_BY) ? s->args.values[TR_ARG_BY].number : 0;
        r->at_us = tr_hs_given(s, TR_ARG_TO) ? moment(s, TR_ARG_TO, 1) : 0;
    }
    tr_hs_ask(s, TR_OP_BULK, bulk_done);
}

void tr_hs_bulk(struct tr_hs *s)
{
    static const uint64_t filters =
        TR_ARG_BIT(TOPIC) | TR_ARG_BIT(TAG) | TR_ARG_BIT(DUE_FROM) | TR_ARG_BIT(DUE_TO);
    bool shift = s->match.route == TR_ROUTE_SHIFT_MANY;
    bool kick = s->match.route == TR_ROUTE_KICK_MANY;

    if ((s->args.given & filters) == 0) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 400,
                                                .code = "bad_request",
                                                .message = "this would be for all jobs: give "
                                                           "topic, tag, due_from or due_to"});
    } else if (shift && !tr_hs_given(s, TR_ARG_BY) && !tr_hs_given(s, TR_ARG_TO)) {
        tr_hs_bad(s, TR_ARG_BY, "is missing: say by how much, or to which moment");
    } else if (kick &&
               tr_hs_number(s, TR_ARG_STATE, TR_DEAD - TR_DELAYED) != TR_DEAD - TR_DELAYED) {
        tr_hs_bad(s, TR_ARG_STATE, "can only be dead: those are brought back");
    } else if (tr_hs_given(s, TR_ARG_CURSOR) &&
               !read_cursor(s->args.values[TR_ARG_CURSOR].text, &s->req.cursor)) {
        tr_hs_bad(s, TR_ARG_CURSOR, "is not from an answer of this route");
    } else {
        for_topic(s, bulk);
    }
}

/* ---- purging ---- */

static void tell_purged(struct tr_hs *s)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "purged");
    tr_json_number(&r.json, s->number);
    tr_hs_close(s, &r);
}

static void purge_state(struct tr_hs *s);

static void purged(struct tr_hs *s)
{
    s->number += s->req.out.status == TARRY_OK ? s->req.out.number : 0;
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else if (s->req.op == TR_OP_BULK && s->req.out.cursor.more) {
        s->req.cursor = s->req.out.cursor;
        s->next = purge_state;
    } else {
        tell_purged(s);
    }
}

static void purge_all(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_PURGE, purged);
}

static void purge_state(struct tr_hs *s)
{
    fill_filter(s);
    s->req.bulk = TR_BULK_CANCEL;
    s->req.count = TR_BULK_MAX;
    tr_hs_ask(s, TR_OP_BULK, purged);
}

/* A bulk passes them over. */
static void purge_reserved(struct tr_hs *s)
{
    fill_filter(s);
    tr_hs_each(s, (struct tr_hs_each){.op = TR_OP_DELETE, .end = tell_purged});
}

void tr_hs_purge(struct tr_hs *s)
{
    if (!tr_hs_given(s, TR_ARG_STATE)) {
        for_topic(s, purge_all);
    } else if (tr_hs_number(s, TR_ARG_STATE, 0) + TR_DELAYED == TR_RESERVED) {
        for_topic(s, purge_reserved);
    } else {
        for_topic(s, purge_state);
    }
}
