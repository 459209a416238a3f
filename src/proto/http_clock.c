/*
 * The test clock, what happened to a job, and copies of the store.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "rules/moment.h"

#include <string.h>

/* ---- the clock ---- */

static void tell_now(struct tr_hs *s, uint64_t now_us)
{
    struct tr_hs_reply r;
    char text[TR_MOMENT_TEXT];

    (void)tr_moment_print(text, (int64_t)now_us);
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "now");
    tr_json_text(&r.json, text);
    tr_json_name(&r.json, "now_ms");
    tr_json_number(&r.json, now_us / 1000);
    tr_hs_close(s, &r);
}

static void unsupported(struct tr_hs *s, const char *message)
{
    tr_hs_refuse(s,
                 &(struct tr_http_error){.status = 501, .code = "unsupported", .message = message});
}

static void no_clock(struct tr_hs *s)
{
    unsupported(s, s->port->elsewhere != NULL
                       ? "a test clock needs --engine local"
                       : "there is no test clock: start the server with --test-clock");
}

static void advanced(struct tr_hs *s)
{
    switch (s->req.out.status) {
    case TARRY_OK:
        tell_now(s, s->req.out.number);
        break;
    case TARRY_ESTATE:
        tr_hs_refuse(s, &(struct tr_http_error){.status = 409,
                                                .code = "past",
                                                .message = "the clock stands later than that, and "
                                                           "never goes back",
                                                .field = "to"});
        break;
    case TARRY_EINVAL:
        tr_hs_bad(s, tr_hs_given(s, TR_ARG_TO) ? TR_ARG_TO : TR_ARG_ADVANCE, "is too far ahead");
        break;
    default:
        tr_hs_fail(s);
    }
}

static void now_known(struct tr_hs *s)
{
    tell_now(s, s->number);
}

void tr_hs_clock(struct tr_hs *s)
{
    if (s->port->test_clock) {
        tr_hs_ask_now(s, now_known);
    } else {
        no_clock(s);
    }
}

void tr_hs_advance(struct tr_hs *s)
{
    int64_t to = tr_hs_given(s, TR_ARG_TO) ? s->args.values[TR_ARG_TO].number : 0;

    if (!s->port->test_clock) {
        no_clock(s);
    } else if (!tr_hs_given(s, TR_ARG_TO) && !tr_hs_given(s, TR_ARG_ADVANCE)) {
        tr_hs_bad(s, TR_ARG_ADVANCE, "is missing: say by how much, or to which moment");
    } else {
        s->req.at_us = !tr_hs_given(s, TR_ARG_TO) ? 0 : to > 0 ? (uint64_t)to : 1;
        s->req.delay_us = tr_hs_number(s, TR_ARG_ADVANCE, 0);
        tr_hs_ask(s, TR_OP_ADVANCE, advanced);
    }
}

/* ---- history ---- */

static const char *what_name(uint8_t what)
{
    static const char *const names[] = {
        [TR_EVENT_PUSHED] = "pushed",       [TR_EVENT_CHANGED] = "changed",
        [TR_EVENT_READY] = "due",           [TR_EVENT_HANDED] = "handed out",
        [TR_EVENT_TOUCHED] = "touched",     [TR_EVENT_RELEASED] = "released",
        [TR_EVENT_TIMED_OUT] = "timed out", [TR_EVENT_DEAD] = "dead",
        [TR_EVENT_KICKED] = "kicked",       [TR_EVENT_GONE] = "gone",
    };

    return what < sizeof names / sizeof names[0] && names[what] != NULL ? names[what] : "?";
}

/* Did it happen with time? It may have been noted when somebody came by and asked. */
static bool is_of_time(const struct tr_event *event)
{
    return event->what == TR_EVENT_READY || event->what == TR_EVENT_TIMED_OUT ||
           event->why == TR_WHY_EXPIRED || event->why == TR_WHY_DROPPED;
}

/* Who did it, when no name was noted. */
static const char *somebody(const struct tr_event *event)
{
    bool ends = event->what == TR_EVENT_DEAD || event->what == TR_EVENT_GONE;
    bool asked =
        event->why == TR_WHY_ACKED || event->why == TR_WHY_CANCELLED || event->why == TR_WHY_BURIED;

    return is_of_time(event) || (ends && !asked) ? "server" : "client";
}

/* Who did it: by the name of a token, or of an outlet. */
static void tell_actor(const struct tr_hs *s, struct tr_json *j, const struct tr_event *event)
{
    const char *name = NULL;
    size_t len = 0;

    if (event->actor != 0 && !is_of_time(event) && s->port->actor_name != NULL) {
        name = s->port->actor_name(s->port->ctx, event->actor, &len);
    }
    if (name == NULL) {
        name = somebody(event);
        len = strlen(name);
    }
    tr_json_name(j, "by");
    tr_json_string(j, name, len);
}

static void tell_event(const struct tr_hs *s, struct tr_json *j, const struct tr_event *event)
{
    const char *state = tr_shape_state((enum tr_job_state)event->state);
    const char *why = tr_shape_why(event->why);

    tr_json_open(j, '{');
    tr_json_name(j, "state");
    tr_json_text(j, state != NULL ? state : "gone");
    tr_json_name(j, "at_ms");
    tr_json_number(j, event->at_us / 1000);
    tell_actor(s, j, event);
    tr_json_name(j, "why");
    tr_json_text(j, why != NULL ? why : what_name(event->what));
    tr_json_close(j, '}');
}

static void history_done(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "events");
    tr_json_open(&r.json, '[');
    for (uint64_t i = 0; i < s->req.out.number; i++) {
        tell_event(s, &r.json, &s->req.out.events[i]);
    }
    tr_json_close(&r.json, ']');
    tr_hs_close(s, &r);
}

static void history(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_HISTORY, history_done);
}

/* Its key names it only as long as it lives; its id for longer. */
static void key_known(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    s->req.id = s->req.out.job.id;
    s->req.key = NULL;
    s->req.key_len = 0;
    s->next = history;
}

static void look(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_STAT_JOB, key_known);
}

void tr_hs_history(struct tr_hs *s)
{
    tr_hs_name_job(s, s->match.key.at != NULL ? look : history);
}

/* ---- copies ---- */

static void copied(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status == TARRY_EEXISTS) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 409,
                                                .code = "exists",
                                                .message = "there is something in that folder: "
                                                           "name another one",
                                                .field = "dir"});
        return;
    }
    if (s->req.out.status == TARRY_ENOTFOUND) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 409,
                                                .code = "no_folder",
                                                .message = "the folder in which it is to be made "
                                                           "is not there: make it first",
                                                .field = "dir"});
        return;
    }
    if (s->req.out.status == TARRY_EIO) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 500,
                                                .code = "backup_failed",
                                                .message = "the copy could not be written there: "
                                                           "may the server, and is the disk whole?",
                                                .field = "dir"});
        return;
    }
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "dir");
    tr_json_text(&r.json, s->path);
    tr_json_name(&r.json, "bytes");
    tr_json_number(&r.json, s->req.out.number);
    tr_hs_close(s, &r);
}

/* Parts of letters, digits, - _ and dots, which may not begin a part. */
static bool below(struct tr_http_text dir)
{
    char last = '/';

    for (size_t i = 0; i < dir.len; i++) {
        char c = dir.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_';

        if (!plain && !(last != '/' && (c == '.' || c == '/'))) {
            return false;
        }
        last = c;
    }
    return last != '/';
}

/* What comes behind the root, if that is written out, too. */
static struct tr_http_text without_root(struct tr_http_text dir, const char *root)
{
    size_t len = strlen(root);

    while (len > 0 && root[len - 1] == '/') {
        len--;
    }
    if (len > 0 && root[0] == '/' && dir.len > len && memcmp(dir.at, root, len) == 0 &&
        dir.at[len] == '/') {
        return (struct tr_http_text){dir.at + len + 1, dir.len - len - 1};
    }
    return dir;
}

void tr_hs_backup(struct tr_hs *s)
{
    struct tr_http_text dir = s->args.values[TR_ARG_DIR].text;
    const char *root = s->port->backup_root;

    if (s->port->elsewhere != NULL) {
        tr_text(s->path, sizeof s->path,
                "a backup needs --engine local: the jobs are in %s, use the backup of that",
                s->port->elsewhere);
        unsupported(s, s->path);
        return;
    }
    if (root == NULL) {
        unsupported(s, "no copies are made: set store.backup_root to a folder");
        return;
    }
    dir = without_root(dir, root);
    if (!below(dir) || strlen(root) + dir.len + 2 > sizeof s->path) {
        tr_hs_bad(s, TR_ARG_DIR, "is no name of a folder below store.backup_root");
        return;
    }
    tr_text(s->path, sizeof s->path, "%s/%.*s", root, (int)dir.len, dir.at);
    s->req.name = s->path;
    s->req.name_len = strlen(s->path);
    tr_hs_ask(s, TR_OP_BACKUP, copied);
}
