/*
 * Tokens on the beanstalk port.
 *
 *     auth TOKEN --> AUTHENTICATED, or UNAUTHORIZED
 *
 * Once there are tokens, every line before that is answered UNAUTHORIZED, the body of a put is
 * passed over, and quit closes all the same. After it, each command needs a role, and a topic that
 * the token is for: UNAUTHORIZED if not; but a job that is named by its id is NOT_FOUND, as over
 * HTTP. A token that is used too often hears OUT_OF_MEMORY, the word of the protocol for "not now".
 *
 * delete is two things: a consumer finishes the job that it has, a producer cancels one. So with
 * the role consume alone only reserved jobs can be deleted (and of those the queue gives only
 * their holder's).
 *
 * Invariant: of the topics that a session watches, all are for its token, unless `look_again` is
 * set. A client begins with "default", which it did not ask for: whoever may not have it stops
 * watching it, and what it puts there without `use` is refused.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/beanstalk_inner.h"

#include <string.h>

/* Which topics a command is about. */
enum about { OF_NONE, OF_USED, OF_NAMED, OF_JOB, OF_WATCHED, OF_ALL };

enum {
    READ = TR_ROLE_READ,
    PRODUCE = TR_ROLE_PRODUCE,
    CONSUME = TR_ROLE_CONSUME,
    ADMIN = TR_ROLE_ADMIN,
    ANY = TR_ROLE_NONE,
};

static const struct {
    uint8_t roles; /* one of them */
    uint8_t about; /* enum about */
} commands[TR_BS_COMMAND_COUNT] = {
    [TR_BS_PUT] = {PRODUCE, OF_USED},
    [TR_BS_PEEK] = {READ, OF_JOB},
    [TR_BS_PEEK_READY] = {READ, OF_USED},
    [TR_BS_PEEK_DELAYED] = {READ, OF_USED},
    [TR_BS_PEEK_BURIED] = {READ, OF_USED},
    [TR_BS_RESERVE_TIMEOUT] = {CONSUME, OF_WATCHED},
    [TR_BS_RESERVE_JOB] = {CONSUME, OF_JOB},
    [TR_BS_RESERVE] = {CONSUME, OF_WATCHED},
    [TR_BS_DELETE] = {PRODUCE | CONSUME, OF_JOB},
    [TR_BS_RELEASE] = {CONSUME, OF_JOB},
    [TR_BS_BURY] = {CONSUME, OF_JOB},
    [TR_BS_KICK] = {ADMIN, OF_USED},
    [TR_BS_KICK_JOB] = {ADMIN, OF_JOB},
    [TR_BS_TOUCH] = {CONSUME, OF_JOB},
    [TR_BS_STATS_JOB] = {READ, OF_JOB},
    [TR_BS_STATS_TUBE] = {READ, OF_NAMED},
    [TR_BS_STATS] = {READ, OF_ALL},
    [TR_BS_USE] = {ANY, OF_NAMED},
    [TR_BS_WATCH] = {ANY, OF_NAMED},
    [TR_BS_IGNORE] = {ANY, OF_NONE},
    [TR_BS_LIST_TUBES_WATCHED] = {ANY, OF_NONE},
    [TR_BS_LIST_TUBE_USED] = {ANY, OF_NONE},
    [TR_BS_LIST_TUBES] = {READ, OF_NONE}, /* it shows those of the token */
    [TR_BS_QUIT] = {ANY, OF_NONE},
    [TR_BS_PAUSE_TUBE] = {ADMIN, OF_NAMED},
    [TR_BS_AUTH] = {ANY, OF_NONE},
};

static const char unauthorized[] = "UNAUTHORIZED\r\n";

/* ---- before a command ---- */

static bool may_topics(const struct tr_bs_session *s)
{
    const struct tr_auth_token *who = s->pass.who;

    switch ((enum about)commands[s->line.command].about) {
    case OF_USED:
        return !s->used_foreign;
    case OF_NAMED:
        return tr_auth_topic(who, s->line.name, s->line.name_len);
    case OF_WATCHED:
        return s->watched_count > 0;
    case OF_ALL:
        return !tr_auth_narrow(who);
    case OF_JOB: /* is looked at by tr_bs_name_job */
    case OF_NONE:
        break;
    }
    return true;
}

static void audit(struct tr_bs_session *s, const char *text, size_t len)
{
    char what[TR_BS_LINE_MAX + 16];

    tr_text(what, sizeof what, "beanstalk: %.*s", (int)len, text);
    tr_auth_audit(s->port->auth, &s->pass, what, 0);
}

const char *tr_bs_guard(struct tr_bs_session *s, enum tr_bs_verdict verdict, const char *text,
                        size_t len)
{
    enum tr_bs_command command = s->line.command;

    if (s->pass.who == NULL) {
        return NULL;
    }
    if (s->pass.who == &tr_auth_nobody) {
        if (verdict == TR_BS_FINE && command == TR_BS_AUTH) {
            return NULL;
        }
        s->quitting = verdict == TR_BS_FINE && command == TR_BS_QUIT;
        s->port->auth->absent++;
        return unauthorized;
    }
    if (verdict != TR_BS_FINE || command == TR_BS_AUTH || command == TR_BS_QUIT) {
        return NULL;
    }
    if (tr_auth_spend(s->port->auth, &s->pass, s->now) > 0) {
        return "OUT_OF_MEMORY\r\n";
    }
    if (!tr_auth_role(s->pass.who, commands[command].roles) || !may_topics(s)) {
        s->port->auth->denied++;
        return unauthorized;
    }
    if (commands[command].roles == ADMIN) {
        audit(s, text, len);
    }
    return NULL;
}

/* ---- jobs ---- */

static void job_known(struct tr_bs_session *s)
{
    const struct tr_job_view *job = &s->req.out.job;
    bool acks = s->line.command == TR_BS_DELETE && !tr_auth_role(s->pass.who, PRODUCE);

    if (s->req.out.status == TARRY_OK &&
        !tr_auth_topic(s->pass.who, job->topic_name, job->topic_name_len)) {
        s->req.out.status = TARRY_ENOTFOUND;
    }
    if (s->req.out.status != TARRY_OK) {
        tr_bs_say_error(s, s->req.out.status);
    } else if (acks && job->state != TR_RESERVED) {
        s->port->auth->denied++;
        tr_bs_say(s, unauthorized);
    } else {
        s->next = s->act;
    }
}

void tr_bs_name_job(struct tr_bs_session *s, tr_bs_step_fn *act)
{
    bool acks = s->line.command == TR_BS_DELETE && !tr_auth_role(s->pass.who, PRODUCE);

    if (!tr_auth_narrow(s->pass.who) && !acks) {
        act(s);
        return;
    }
    s->act = act;
    s->req.id = s->line.id;
    tr_bs_ask(s, TR_OP_STAT_JOB, job_known);
}

/* ---- auth ---- */

static void used_known(struct tr_bs_session *s)
{
    s->used_foreign = s->req.out.status != TARRY_OK ||
                      !tr_auth_topic(s->pass.who, s->req.out.name, s->req.out.name_len);
    if (s->authing) {
        s->authing = false;
        s->known = true;
        s->req.out.gate = 0;
        tr_bs_say(s, "AUTHENTICATED\r\n");
    }
}

static void look(struct tr_bs_session *s);

static void dropped(struct tr_bs_session *s)
{
    s->next = look;
}

static void drop(struct tr_bs_session *s)
{
    s->req.hold = TR_HOLD_WATCH;
    tr_bs_ask(s, TR_OP_DROP_TOPIC, dropped);
}

static void watched_known(struct tr_bs_session *s)
{
    s->next = look;
    if (s->req.out.status == TARRY_OK &&
        tr_auth_topic(s->pass.who, s->req.out.name, s->req.out.name_len)) {
        s->index++;
        return;
    }
    s->watched_count--;
    memmove(s->watched + s->index, s->watched + s->index + 1,
            (s->watched_count - s->index) * sizeof s->watched[0]);
    s->next = drop;
}

/* One topic after the other: those that are watched, and the one in use. */
static void look(struct tr_bs_session *s)
{
    bool watched = s->index < s->watched_count;

    s->req.topic = watched ? s->watched[s->index] : s->used;
    tr_bs_ask(s, TR_OP_STAT_TOPIC, watched ? watched_known : used_known);
}

void tr_bs_look_again(struct tr_bs_session *s)
{
    s->index = 0;
    look(s);
}

void tr_bs_do_auth(struct tr_bs_session *s)
{
    enum tr_auth_verdict verdict =
        tr_auth_check(s->port->auth, &s->pass, s->line.name, s->line.name_len, s->now);

    if (verdict != TR_AUTH_FINE) { /* it may do nothing any more, whoever it was before */
        s->quitting = verdict == TR_AUTH_TOO_MANY;
        tr_bs_say(s, unauthorized);
        return;
    }
    s->authing = true;
    tr_bs_look_again(s);
}
