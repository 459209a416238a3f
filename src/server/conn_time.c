/*
 * Who takes too long.
 *
 * Of each kind of patience there is one length for all, so whoever comes to it goes to the end of
 * the list of his kind, and the first of each list is the next whose time is over.
 *
 *     keys          conn_tls.c         from the first moment on; a byte now and then does not help
 *     head          of the session     the same, from the first byte of a request on
 *     body          of the session     from the last bytes on; and it must come at a certain rate
 *     idle          of the session     from the last bytes on
 *     token         of the session     from the first moment on, until it has shown a good one
 *     unread        the socket is full and more is to be sent: since it took something
 *     last          we have closed our side
 *
 * A body that comes at a trickle would hold its memory for as long as its sender likes. So its
 * bytes are counted, from one time that is as long as its patience to the next, and who sent less
 * than the rate is late. While memory is short the rate is HURRY times as high.
 *
 * When memory is half used up, a session stops earlier to read commands whose replies nobody takes.
 * When it is nearly used up, it is taken from those who read nothing of what they asked for: who
 * has read nothing for longest is closed first, but nobody who did within SHED_US, unless there is
 * hardly any left.
 *
 * The beanstalk port has no idle time: its clients are used to connections that stay for days. Only
 * who does not read is closed, after a time of its own, and who has not said who it is.
 */

#include "server/conn_inner.h"

enum {
    RETRY_US = 1000000, /* after which descriptors are asked for again, and a flood is let in */
    LATE_MAX = 64,      /* whose patience is over, in a round */
    SHED_US = 1000000,  /* without reading, when memory is short */
    HURRY = 64,
};

#define US_PER_S UINT64_C(1000000)

/* ---- patience ---- */

static enum tr_patience patience_of(const struct tr_conn *c, uint64_t *request)
{
    *request = 0;
    if (c->lingers) {
        return TR_PATIENCE_LAST;
    }
    if (c->shaking) {
        return TR_PATIENCE_SHAKE;
    }
    if (c->blocked) {
        return c->proto->stays ? TR_PATIENCE_UNREAD_LONG : TR_PATIENCE_UNREAD;
    }
    return c->proto->patience(c->session, request);
}

/* Has so much of the budget been used, in eighths? */
static bool memory_used(const struct tr_conns *cs, unsigned eighths)
{
    return cs->buffers.limit_bytes != 0 &&
           cs->buffers.used_bytes > cs->buffers.limit_bytes / 8 * eighths;
}

/* Bytes came: were there enough of them, of late? */
static bool too_slow(struct tr_conn *c, struct tr_now now)
{
    const struct tr_conns *cs = c->conns;
    uint64_t took_us = now.boot_us - c->begun_us;
    uint64_t rate = memory_used(cs, 4) ? cs->body_rate * HURRY : cs->body_rate;

    if (took_us < cs->patience_us[TR_PATIENCE_BODY]) {
        return false;
    }
    if (c->moved < rate * (took_us / US_PER_S) + rate * (took_us % US_PER_S) / US_PER_S) {
        return true;
    }
    c->begun_us = now.boot_us;
    c->moved = 0;
    return false;
}

void tr_conn_be_patient(struct tr_conn *c, struct tr_now now)
{
    uint64_t request;
    enum tr_patience patience = patience_of(c, &request);
    bool other = patience != c->patience || request != c->request;
    bool starts_again = patience == TR_PATIENCE_BODY || patience == TR_PATIENCE_IDLE ||
                        patience == TR_PATIENCE_UNREAD || patience == TR_PATIENCE_UNREAD_LONG;
    bool active = c->active;

    c->active = false;
    if (!other && !(active && starts_again)) {
        return;
    }
    if (other) {
        c->begun_us = now.boot_us;
        c->moved = 0;
    }
    c->patience = patience;
    c->request = request;
    c->since_us = now.boot_us;
    tr_list_remove(&c->patient);
    if (patience == TR_PATIENCE_ENDLESS) {
        return;
    }
    if (patience == TR_PATIENCE_BODY && too_slow(c, now)) { /* its time is over: the first one */
        c->since_us = 0;
        tr_list_append(c->conns->patient[patience].next, &c->patient);
        return;
    }
    tr_list_append(&c->conns->patient[patience], &c->patient);
}

/* ---- who is late ---- */

/* Asks for descriptors again, now and then, while there are none. */
static void retry(struct tr_conns *cs, struct tr_now now)
{
    bool waits = false;

    for (unsigned i = 0; i < TR_PORTS; i++) {
        struct tr_listener *l = cs->doors[i].listener;

        if (l == NULL || cs->doors[i].held || !tr_listener_paused(l) ||
            (cs->count >= cs->count_max && !cs->doors[i].away_rests)) {
            continue;
        }
        if (cs->retry_us <= now.boot_us) {
            cs->doors[i].away_rests = false;
            tr_listener_resume(l);
        }
        waits |= tr_listener_paused(l);
    }
    if (!waits) {
        cs->retry_us = UINT64_MAX;
    } else if (cs->retry_us == UINT64_MAX) {
        cs->retry_us = now.boot_us + RETRY_US;
    }
}

/* The first of a kind, if it has been there for so long; *next is when it will have been. */
static struct tr_conn *first_late(struct tr_conns *cs, unsigned kind, uint64_t after_us,
                                  uint64_t now_us, uint64_t *next)
{
    struct tr_list *head = &cs->patient[kind];
    struct tr_conn *c = TR_CONTAINER_OF(head->next, struct tr_conn, patient);
    uint64_t until_us;

    if (tr_list_empty(head)) {
        return NULL;
    }
    until_us = c->since_us + after_us;
    *next = until_us < *next ? until_us : *next;
    return until_us <= now_us ? c : NULL;
}

static void count_late(struct tr_conn *c)
{
    static const struct {
        enum tr_patience kind;
        enum tr_refusal why;
    } reasons[] = {
        {TR_PATIENCE_HEAD, TR_REFUSAL_HEADER},   {TR_PATIENCE_BODY, TR_REFUSAL_BODY},
        {TR_PATIENCE_IDLE, TR_REFUSAL_IDLE},     {TR_PATIENCE_SHAKE, TR_REFUSAL_HANDSHAKE_TIME},
        {TR_PATIENCE_UNREAD, TR_REFUSAL_UNREAD}, {TR_PATIENCE_UNREAD_LONG, TR_REFUSAL_UNREAD},
        {TR_PATIENCE_AUTH, TR_REFUSAL_AUTH},
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].kind == c->patience) {
            tr_conn_count(c, reasons[i].why);
        }
    }
}

static void be_late(struct tr_conn *c, struct tr_now now)
{
    count_late(c);
    tr_list_remove(&c->patient);
    c->patience = TR_PATIENCE_ENDLESS;
    if (c->lingers || c->blocked || c->shaking) {
        tr_conn_close(c, now);
        return;
    }
    c->proto->late(c->session, now);
    tr_conn_settle(c, now);
}

/* Takes memory from those who read nothing, while it is short. */
static void shed(struct tr_conns *cs, struct tr_now now, uint64_t *next)
{
    size_t output_max = memory_used(cs, 4) ? TR_CONN_OUTPUT_MAX / 16 : TR_CONN_OUTPUT_MAX;

    cs->beanstalk.output_max = output_max;
    cs->http.output_max = output_max;
    for (unsigned i = 0; i < LATE_MAX && memory_used(cs, 6); i++) {
        uint64_t after_us = memory_used(cs, 7) ? 0 : SHED_US;
        struct tr_conn *c = first_late(cs, TR_PATIENCE_UNREAD, after_us, now.boot_us, next);

        if (c == NULL) {
            c = first_late(cs, TR_PATIENCE_UNREAD_LONG, after_us, now.boot_us, next);
        }
        if (c == NULL) {
            return;
        }
        tr_conn_count(c, TR_REFUSAL_BUFFERS);
        tr_conn_close(c, now);
    }
}

uint64_t tr_conns_time(struct tr_conns *cs, struct tr_now now)
{
    uint64_t next;

    retry(cs, now);
    next = cs->retry_us;
    for (unsigned kind = 0; kind < TR_PATIENCE_COUNT; kind++) {
        struct tr_conn *c;

        for (unsigned i = 0; i < LATE_MAX; i++) {
            c = first_late(cs, kind, cs->patience_us[kind], now.boot_us, &next);
            if (c == NULL) {
                break;
            }
            be_late(c, now);
        }
    }
    shed(cs, now, &next);
    return next;
}
