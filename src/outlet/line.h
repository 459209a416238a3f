#ifndef TR_OUTLET_LINE_H
#define TR_OUTLET_LINE_H

/*
 * A line to a broker: one connection at a time, what waits for it, and what was sent on it and is
 * not confirmed yet. What the kinds of senders with one connection have in common. See line.c.
 *
 * Threads: that of the post, but for tr_line_open.
 */

#include "outlet/post.h"
#include "outlet/url.h"

struct tr_line;

struct tr_line_ops {
    const char *name;
    uint64_t tick_ms; /* while it is up, pump is called at least so often; UINT64_MAX: no need */

    /* Connects, within the time-out of a send; sets fd. False: there is a note. */
    bool (*dial)(struct tr_line *l);

    /* Hears what there is, answers what is confirmed, sends what waits and can be sent now; sets
     * events. False: the connection is lost, there is a note. */
    bool (*pump)(struct tr_line *l);

    /* Frees what there is of a connection, even half of one. polite: nothing is under way, and it
     * may say goodbye, if that takes no time. */
    void (*hang_up)(struct tr_line *l, bool polite);
};

/* A sender embeds it as its first member. */
struct tr_line {
    struct tr_post post; /* first */
    const struct tr_line_ops *ops;
    struct tr_url url;
    const char *bad; /* why the settings are of no use; or NULL */

    /* The thread's. */
    struct tr_mails waiting;
    struct tr_mails sent; /* perhaps so: in the order of sending */
    bool up;
    int fd;           /* -1: none */
    short events;     /* what pump waits for */
    const char *held; /* why nothing can be sent just now, though it is up; or NULL */
    uint64_t pause_ms;
    uint64_t retry_ms; /* boot clock: no new connection before this */

    /* The note: what just went wrong with the connection. */
    enum tr_send_outcome outcome; /* of what was sent on it */
    char code[TR_SEND_CODE];
    char why[TR_SEND_WHY];
};

/* Starts it; url, bad and ops are set, the rest of it is zero. Frees it if it fails. */
TR_MUST_USE int tr_line_open(struct tr_line *l, const struct tr_sender_host *host,
                             const struct tr_deliver *d);

/* Reads the URL: one of the two schemes, the second being that with TLS, whose ports these are if
 * there is none. Gives what is wrong; NULL: nothing. */
struct tr_line_scheme {
    const char *name;
    const char *port;
};
const char *tr_line_read_url(struct tr_line *l, const struct tr_deliver *d,
                             const struct tr_line_scheme schemes[2], bool *tls);

/* Makes a note: nobody answered. false, so that it can be returned. */
bool tr_line_note(struct tr_line *l, const char *code, const char *why);

/* A connected socket; or -1, and there is a note. */
int tr_line_dial(struct tr_line *l);

/* The other side has taken one: the next trouble is a new one. */
void tr_line_confirm(struct tr_line *l, struct tr_mail *m, const struct tr_post_answer *a);

#endif
