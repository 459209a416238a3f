/*
 * The round of the thread:
 *
 *     take mail -> pump -> what is overdue -> connect, if something waits -> sleep
 *
 * Invariant: what is in `sent` was written to the connection that is up, or perhaps so. With the
 * connection it fails as a whole, as nobody can tell what arrived: the core sends it again, with
 * the same id.
 *
 * It connects when there is something to send. If it cannot, everything that waits fails with the
 * reason, and the next try comes after a pause (100 ms, doubled up to 2 s), with whatever waits by
 * then: so a dead broker is told to the core at the pace of the tries, not of the jobs. A
 * connection that breaks is made anew after the same pause, which is short again once something
 * was confirmed.
 *
 * What is not confirmed in time takes the connection with it: whatever holds it up holds up all
 * that was sent after it.
 *
 * After a stop what waits goes back, and what was sent has a second to be confirmed.
 */

#include "outlet/line.h"

#include "base/text.h"
#include "outlet/dial.h"

#include <poll.h>
#include <strings.h>

enum { PAUSE_MS = 100, PAUSE_MAX_MS = 2000 };

bool tr_line_note(struct tr_line *l, const char *code, const char *why)
{
    l->outcome = TR_SEND_UNREACHABLE;
    tr_text(l->code, sizeof l->code, "%s", code);
    tr_text(l->why, sizeof l->why, "%s", why);
    return false;
}

const char *tr_line_read_url(struct tr_line *l, const struct tr_deliver *d,
                             const struct tr_line_scheme schemes[2], bool *tls)
{
    if (tr_url_of(d, &l->url) != NULL) {
        return "the url cannot be used: set it again"; /* it was checked when it was set */
    }
    *tls = strcasecmp(l->url.scheme, schemes[1].name) == 0;
    if (l->url.port[0] == '\0') {
        tr_text(l->url.port, sizeof l->url.port, "%s", schemes[*tls ? 1 : 0].port);
    }
    return NULL;
}

int tr_line_dial(struct tr_line *l)
{
    struct tr_dial d = {.host = l->url.host,
                        .port = l->url.port,
                        .until_ms = tr_post_now_ms() + l->post.timeout_ms};
    int fd = tr_dial(&d, &l->post);

    if (fd < 0) {
        (void)tr_line_note(l, d.code, d.why);
    }
    return fd;
}

void tr_line_confirm(struct tr_line *l, struct tr_mail *m, const struct tr_post_answer *a)
{
    l->pause_ms = PAUSE_MS;
    tr_post_answer(&l->post, m, a);
}

static void hang_up(struct tr_line *l, bool polite)
{
    l->ops->hang_up(l, polite);
    l->up = false;
    l->fd = -1;
    l->held = NULL;
}

/* No connection for a while. */
static void rest(struct tr_line *l)
{
    hang_up(l, false);
    l->retry_ms = tr_post_now_ms() + l->pause_ms;
    l->pause_ms = l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
}

/* The connection is of no use any more. */
static void lose(struct tr_line *l)
{
    struct tr_post_answer answer = {l->outcome, l->code, l->why};

    rest(l);
    tr_post_answer_all(&l->post, &l->sent, &answer);
}

static void connect_or_fail(struct tr_line *l)
{
    struct tr_post_answer answer = {TR_SEND_UNREACHABLE, l->code, l->why};

    l->events = POLLIN;
    l->up = l->bad != NULL ? tr_line_note(l, "url", l->bad) : l->ops->dial(l);
    if (l->up) {
        return;
    }
    rest(l);
    if (tr_post_stopping(&l->post)) {
        answer.outcome = TR_SEND_BACK;
    }
    tr_post_answer_all(&l->post, &l->waiting, &answer);
}

static void expire(struct tr_line *l, uint64_t now_ms)
{
    struct tr_post_answer late = {TR_SEND_UNREACHABLE, "timeout",
                                  l->held != NULL ? l->held : "not connected in time"};

    tr_post_expire(&l->post, &l->waiting, now_ms, &late);
    if (l->sent.first != NULL && l->sent.first->until_ms <= now_ms) {
        (void)tr_line_note(l, "timeout", "it was not confirmed in time");
        lose(l);
    }
}

static void step(struct tr_line *l)
{
    uint64_t now_ms;

    if (l->up && !l->ops->pump(l)) {
        lose(l);
    }
    now_ms = tr_post_now_ms();
    expire(l, now_ms);
    if (!l->up && l->waiting.first != NULL && now_ms >= l->retry_ms) {
        connect_or_fail(l);
        expire(l, tr_post_now_ms()); /* that took a while: what is late already is not sent */
        if (l->up && !l->ops->pump(l)) {
            lose(l);
        }
    }
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When there is something to do, if nothing comes. */
static uint64_t next_ms(const struct tr_line *l)
{
    uint64_t next = UINT64_MAX;

    if (l->up && l->ops->tick_ms != UINT64_MAX) {
        next = tr_post_now_ms() + l->ops->tick_ms;
    }
    if (l->sent.first != NULL) {
        next = sooner(next, l->sent.first->until_ms);
    }
    if (l->waiting.first != NULL) {
        next = sooner(next, l->waiting.first->until_ms);
    }
    if (l->waiting.first != NULL && !l->up) {
        next = sooner(next, l->retry_ms);
    }
    return next;
}

static void run(struct tr_post *post)
{
    struct tr_line *l = TR_CONTAINER_OF(post, struct tr_line, post);
    struct tr_post_answer back = {.outcome = TR_SEND_BACK};
    uint64_t end_ms = UINT64_MAX;

    for (;;) {
        if (tr_post_take(post, &l->waiting)) {
            uint64_t now_ms = tr_post_now_ms();

            end_ms = end_ms == UINT64_MAX ? now_ms + TR_POST_GRACE_MS : end_ms;
            tr_post_answer_all(post, &l->waiting, &back);
            if (l->sent.first == NULL || now_ms >= end_ms) {
                break;
            }
        }
        step(l);
        tr_post_wait(post, l->fd, l->events, sooner(next_ms(l), end_ms));
    }
    hang_up(l, l->up && l->sent.first == NULL);
    (void)tr_line_note(l, "stopped", "it was not confirmed before the outlet was stopped");
    lose(l);
}

int tr_line_open(struct tr_line *l, const struct tr_sender_host *host, const struct tr_deliver *d)
{
    l->fd = -1;
    l->pause_ms = PAUSE_MS;
    return tr_post_open(&l->post, host, d, l->ops->name, run);
}
