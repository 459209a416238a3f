/*
 * One thread, two lists, an eventfd.
 *
 *     send -> todo -> take, ... the thread's own lists ..., answer -> done -> wake -> collect
 *
 * Invariant: a mail is in one place: spare, todo, the thread's hands, or done. The mutex between
 * the places orders what is written to the mail and its send.
 *
 * It follows: there are never more sends under way than mails, as the core keeps to the window.
 *
 * The thread sleeps in poll, on the eventfd and on its socket, and has to be woken for two things
 * only: mail and a stop. An answer wakes the loop if it is the first one that waits for it, so a
 * burst of confirmations costs few wake-ups.
 *
 * Nobody waits for the thread but `close`, when it is at its end. Should a library be held up by a
 * socket (the other side does not read, or does not answer), `stop` shuts that socket down, and the
 * library comes back with an error. A look-up of a name cannot be cut off: such a thread is late.
 */

#include "outlet/post.h"

#include "base/err.h"
#include "os/thread_linux.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HELD_UP_MS = 200, /* in a call of the library: then it is not just busy */
};

uint64_t tr_post_now_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_BOOTTIME, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

void tr_mails_append(struct tr_mails *l, struct tr_mail *m)
{
    m->next = NULL;
    if (l->last != NULL) {
        l->last->next = m;
    } else {
        l->first = m;
    }
    l->last = m;
}

struct tr_mail *tr_mails_take(struct tr_mails *l, struct tr_mail *before)
{
    struct tr_mail *m = before != NULL ? before->next : l->first;

    if (before != NULL) {
        before->next = m->next;
    } else {
        l->first = m->next;
    }
    if (l->last == m) {
        l->last = before;
    }
    m->next = NULL;
    return m;
}

struct tr_mail *tr_mails_pop(struct tr_mails *l)
{
    return l->first != NULL ? tr_mails_take(l, NULL) : NULL;
}

void tr_post_nudge(struct tr_post *p)
{
    uint64_t one = 1;
    ssize_t n = write(p->wake_fd, &one, sizeof one);

    (void)n; /* EAGAIN: it was woken 2^64 - 2 times already */
}

static void *work(void *arg)
{
    struct tr_post *p = arg;

    p->run(p);
    pthread_mutex_lock(&p->lock);
    TR_CHECK(p->stop);
    TR_CHECK(p->todo.first == NULL);
    p->ended = true;
    pthread_mutex_unlock(&p->lock);
    p->host->wake(p->host->ctx);
    return NULL;
}

int tr_post_open(struct tr_post *p, const struct tr_sender_host *host, const struct tr_deliver *d,
                 const char *name, void (*run)(struct tr_post *post))
{
    int err;

    p->host = host;
    p->timeout_ms = d->timeout_us > TR_DELIVER_TIMEOUT_MIN_US ? d->timeout_us / 1000 : 1;
    p->run = run;
    p->blocked_fd = -1;
    p->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->wake_fd < 0) {
        free(p);
        return TARRY_EFULL;
    }
    for (unsigned i = 0; i < TR_POST_WINDOW; i++) {
        tr_mails_append(&p->spare, &p->mails[i]);
    }
    err = pthread_mutex_init(&p->lock, NULL);
    TR_CHECK(err == 0);
    if (!tr_thread_start(&p->thread, name, work, p)) {
        pthread_mutex_destroy(&p->lock);
        (void)close(p->wake_fd);
        free(p);
        return TARRY_EFULL;
    }
    return TARRY_OK;
}

unsigned tr_post_window(const void *post)
{
    (void)post;
    return TR_POST_WINDOW;
}

void tr_post_send(void *post, struct tr_send *s)
{
    struct tr_post *p = post;
    struct tr_mail *m = tr_mails_pop(&p->spare);
    bool first;

    TR_CHECK(m != NULL);
    *m = (struct tr_mail){.send = s, .until_ms = tr_post_now_ms() + p->timeout_ms};
    pthread_mutex_lock(&p->lock);
    TR_CHECK(!p->stop);
    first = p->todo.first == NULL;
    tr_mails_append(&p->todo, m);
    pthread_mutex_unlock(&p->lock);
    if (first) {
        tr_post_nudge(p);
    }
}

void tr_post_collect(void *post)
{
    struct tr_post *p = post;
    struct tr_mails done;
    struct tr_mail *m;

    pthread_mutex_lock(&p->lock);
    done = p->done;
    p->done = (struct tr_mails){0};
    pthread_mutex_unlock(&p->lock);
    while ((m = tr_mails_pop(&done)) != NULL) {
        struct tr_send *s = m->send;

        tr_mails_append(&p->spare, m); /* first: `done` may bring the next one */
        p->host->done(p->host->ctx, s);
    }
}

void tr_post_stop(void *post)
{
    struct tr_post *p = post;

    pthread_mutex_lock(&p->lock);
    p->stop = true;
    if (p->blocked_fd >= 0 && tr_post_now_ms() - p->blocked_ms >= HELD_UP_MS) {
        (void)shutdown(p->blocked_fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&p->lock);
    tr_post_nudge(p);
}

bool tr_post_stopped(const void *post)
{
    struct tr_post *p = (struct tr_post *)post; /* the lock is no part of what is asked for */
    bool stopped;

    pthread_mutex_lock(&p->lock);
    stopped = p->ended && p->done.first == NULL;
    pthread_mutex_unlock(&p->lock);
    return stopped;
}

void tr_post_close(void *post)
{
    struct tr_post *p = post;
    int err;

    tr_post_stop(p);
    err = pthread_join(p->thread, NULL);
    TR_CHECK(err == 0);
    TR_CHECK(p->done.first == NULL);
    pthread_mutex_destroy(&p->lock);
    (void)close(p->wake_fd);
    free(p);
}

bool tr_post_take(struct tr_post *p, struct tr_mails *to)
{
    struct tr_mails came;
    bool stop;

    pthread_mutex_lock(&p->lock);
    came = p->todo;
    p->todo = (struct tr_mails){0};
    stop = p->stop;
    p->told = stop;
    pthread_mutex_unlock(&p->lock);
    if (came.first == NULL) {
        return stop;
    }
    if (to->last != NULL) {
        to->last->next = came.first;
    } else {
        to->first = came.first;
    }
    to->last = came.last;
    return stop;
}

bool tr_post_stopping(struct tr_post *p)
{
    bool stop;

    pthread_mutex_lock(&p->lock);
    stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return stop;
}

bool tr_post_wait_for(struct tr_post *p, int fd, short events, uint64_t until_ms)
{
    struct pollfd fds[2] = {{.fd = p->wake_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    uint64_t now = tr_post_now_ms();
    uint64_t left = until_ms > now ? until_ms - now : 0;
    int wait = until_ms == UINT64_MAX ? -1 : left > INT_MAX ? INT_MAX : (int)left;
    uint64_t count;
    ssize_t n;

    if (poll(fds, 2, wait) <= 0) { /* an fd of -1 is passed over */
        return false;
    }
    if (fds[0].revents != 0) {
        n = read(p->wake_fd, &count, sizeof count);
        (void)n;
    }
    return fds[1].revents != 0;
}

void tr_post_wait(struct tr_post *p, int fd, short events, uint64_t until_ms)
{
    bool pending;

    /* Whoever waited in the midst of something has heard the bell, and did not look. */
    pthread_mutex_lock(&p->lock);
    pending = p->todo.first != NULL || p->stop != p->told;
    pthread_mutex_unlock(&p->lock);
    (void)tr_post_wait_for(p, fd, events, pending ? 0 : until_ms);
}

void tr_post_blocks(struct tr_post *p, int fd)
{
    pthread_mutex_lock(&p->lock);
    p->blocked_fd = fd;
    p->blocked_ms = tr_post_now_ms();
    pthread_mutex_unlock(&p->lock);
}

void tr_post_blocks_no_more(struct tr_post *p)
{
    pthread_mutex_lock(&p->lock);
    p->blocked_fd = -1;
    pthread_mutex_unlock(&p->lock);
}

/* One line of printable ASCII, as it comes from strangers and goes to logs. */
static void copy_plain(char *out, size_t size, const char *text)
{
    size_t len = 0;

    for (; text != NULL && *text != '\0' && len + 1 < size; text++) {
        out[len] = ' ';
        if (*text >= ' ' && *text <= '~') {
            out[len] = *text;
        }
        len++;
    }
    while (len > 0 && out[len - 1] == ' ') {
        len--;
    }
    out[len] = '\0';
}

void tr_post_answer(struct tr_post *p, struct tr_mail *m, const struct tr_post_answer *a)
{
    bool first;

    m->send->outcome = a->outcome;
    m->send->has_retry_after = false;
    m->send->retry_after_us = 0;
    copy_plain(m->send->code, sizeof m->send->code, a->code);
    copy_plain(m->send->why, sizeof m->send->why, a->why);
    pthread_mutex_lock(&p->lock);
    first = p->done.first == NULL;
    tr_mails_append(&p->done, m);
    pthread_mutex_unlock(&p->lock);
    if (first) {
        p->host->wake(p->host->ctx);
    }
}

void tr_post_answer_all(struct tr_post *p, struct tr_mails *list, const struct tr_post_answer *a)
{
    struct tr_mail *m;

    while ((m = tr_mails_pop(list)) != NULL) {
        tr_post_answer(p, m, a);
    }
}

void tr_post_expire(struct tr_post *p, struct tr_mails *list, uint64_t now_ms,
                    const struct tr_post_answer *a)
{
    while (list->first != NULL && list->first->until_ms <= now_ms) {
        tr_post_answer(p, tr_mails_pop(list), a);
    }
}
