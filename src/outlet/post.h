#ifndef TR_OUTLET_POST_H
#define TR_OUTLET_POST_H

/*
 * A thread for a sender whose library blocks, and the mail between it and the loop. See post.c.
 *
 * Ownership: a sender is made by calloc and begins with its post. A mail is the thread's from when
 * it is taken until it is answered; what it points to is the core's (outlet/sender.h). Threads:
 * each call says whose it is.
 */

#include "base/check.h"
#include "outlet/sender.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TR_POST_WINDOW = 128 }; /* sends under way at a time */

/* A job on its way, as the thread sees it. */
struct tr_mail {
    struct tr_mail *next;
    struct tr_send *send;
    uint64_t until_ms; /* boot clock: what is not confirmed by then has failed */

    /* The sender's; zero when it is taken. */
    uint64_t tag;  /* by which the other side confirms it */
    bool returned; /* the other side has nowhere to put it */
};

/* In the order of coming, and so of until_ms. */
struct tr_mails {
    struct tr_mail *first;
    struct tr_mail *last;
};

struct tr_post {
    const struct tr_sender_host *host;
    uint64_t timeout_ms;
    void (*run)(struct tr_post *post);
    pthread_t thread;

    pthread_mutex_t lock;
    struct tr_mails todo;
    struct tr_mails done;
    bool stop;
    bool told;           /* the thread knows of the stop */
    bool ended;          /* the thread touches nothing any more but for its last wake */
    int blocked_fd;      /* it may be held up by this socket; or -1 */
    uint64_t blocked_ms; /* since then */

    int wake_fd;           /* an eventfd, for the thread's poll */
    struct tr_mails spare; /* the loop's */
    struct tr_mail mails[TR_POST_WINDOW];
};

/* What is under way ends so long after a stop at the latest. */
enum { TR_POST_GRACE_MS = 1000 };

/* ---- The loop's thread. None of these waits. */

/*
 * Starts the thread, which calls `run` once; name has at most 15 bytes. The post is zero, and is
 * freed if this fails: TARRY_EFULL. Later on, tr_post_close does it.
 */
TR_MUST_USE int tr_post_open(struct tr_post *p, const struct tr_sender_host *host,
                             const struct tr_deliver *d, const char *name,
                             void (*run)(struct tr_post *post));

/* What struct tr_sender_kind asks for; the sender is the post that it begins with. */
unsigned tr_post_window(const void *post);
void tr_post_send(void *post, struct tr_send *s);
void tr_post_collect(void *post);
void tr_post_stop(void *post);
bool tr_post_stopped(const void *post);
void tr_post_close(void *post);

/* ---- The thread's, in `run`, which returns once it is stopping and everything is answered. */

uint64_t tr_post_now_ms(void);

/* Moves what came since to the end of the list. True: it is to stop, and no more will come. */
bool tr_post_take(struct tr_post *p, struct tr_mails *to);

bool tr_post_stopping(struct tr_post *p);

/*
 * Until the socket is ready for these events (POLLIN, POLLOUT), there is mail or a stop that was
 * not taken, or time is up (boot clock; UINT64_MAX: never). fd -1: there is no socket.
 */
void tr_post_wait(struct tr_post *p, int fd, short events, uint64_t until_ms);

/* The same in the midst of something: mail does not matter. Gives whether the socket is ready; if
 * not, a stop may have come, or time be up, or neither. */
bool tr_post_wait_for(struct tr_post *p, int fd, short events, uint64_t until_ms);

/* Ends its wait. Any thread. */
void tr_post_nudge(struct tr_post *p);

/* Around calls of a library that may be held up by a socket: a stop cuts it off. */
void tr_post_blocks(struct tr_post *p, int fd);
void tr_post_blocks_no_more(struct tr_post *p);

/* The answer to a mail that is on no list. why is cut, and made one line of printable ASCII;
 * NULL: none. */
struct tr_post_answer {
    enum tr_send_outcome outcome;
    const char *code;
    const char *why;
};
void tr_post_answer(struct tr_post *p, struct tr_mail *m, const struct tr_post_answer *a);
void tr_post_answer_all(struct tr_post *p, struct tr_mails *list, const struct tr_post_answer *a);

/* Answers those whose time is up. */
void tr_post_expire(struct tr_post *p, struct tr_mails *list, uint64_t now_ms,
                    const struct tr_post_answer *a);

/* ---- Lists, of whoever has them. */

void tr_mails_append(struct tr_mails *l, struct tr_mail *m);

/* Takes the first one; NULL: there is none. */
struct tr_mail *tr_mails_pop(struct tr_mails *l);

/* Takes out the one after `before`; NULL: the first one. It is there. */
struct tr_mail *tr_mails_take(struct tr_mails *l, struct tr_mail *before);

#endif
