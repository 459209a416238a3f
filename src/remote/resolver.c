/*
 * getaddrinfo may take half a minute, and cannot be cut off; so it has threads.
 *
 *     ask -> todo -> a thread -> done -> eventfd -> the loop tells
 *
 * A thread is started when something is asked and fewer than four run, and ends when there is
 * nothing to do: names are rare (a cluster speaks of its servers by their addresses), and a name
 * that hangs does not hold up the next one. More than four do wait.
 *
 * Invariant: `fn` and `ctx` of a look-up are the loop's; all else that threads touch is under the
 * lock, but for the question itself, which its thread has for itself meanwhile.
 *
 * Nobody waits for a thread that hangs, not even when all is closed: whoever is last frees it.
 * Whoever gave up on a name and asks for it again gets the look-up that is still being done: so a
 * name that takes longer than the engine waits is found after all, and holds up one thread only.
 * What is found when nobody asks any more is kept for half a minute, for who asks next: else a name
 * that always takes longer than the engine waits would only be found if it asks at that very
 * moment.
 */

#include "remote/resolver.h"

#include "base/err.h"
#include "base/text.h"
#include "os/thread_linux.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { KEPT_S = 30, THREADS_MOST = 4, HOST = 256, PORT = 8 };

struct tr_lookup {
    struct tr_lookup *next;

    /* The loop's. */
    struct tr_lookup *next_known;
    tr_found_fn *fn; /* NULL: forgotten */
    void *ctx;
    time_t over_s; /* it is done, nobody asked for it then, and it is in `known` only; 0: no */

    /* The question, which stays as it is; and the answer, the thread's until it is done. */
    char host[HOST];
    char port[PORT];
    struct addrinfo *found;
    int err;
};

struct tr_resolver {
    pthread_mutex_t lock;
    struct tr_lookup *todo; /* oldest first */
    struct tr_lookup *done;
    unsigned threads;
    bool closed;
    int event_fd;

    /* The loop's. */
    struct tr_lookup *known; /* all that were asked and are not told yet */
    const struct tr_poller *poller;
    struct tr_poll *poll;
};

static void append(struct tr_lookup **list, struct tr_lookup *l)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    l->next = NULL;
    *list = l;
}

static void free_lookup(struct tr_lookup *l)
{
    if (l->found != NULL) {
        freeaddrinfo(l->found);
    }
    free(l);
}

static void free_list(struct tr_lookup *l)
{
    while (l != NULL) {
        struct tr_lookup *next = l->next;

        free_lookup(l);
        l = next;
    }
}

/* The last one, with or without the lock: nobody else knows of it any more. */
static void destroy(struct tr_resolver *r)
{
    free_list(r->todo);
    free_list(r->done);
    (void)close(r->event_fd);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static void look_up(struct tr_lookup *l)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

    l->err = getaddrinfo(l->host, l->port, &want, &l->found);
    if (l->err != 0) {
        l->found = NULL;
    }
}

static void *work(void *arg)
{
    static const uint64_t one = 1;
    struct tr_resolver *r = arg;
    bool last;

    pthread_mutex_lock(&r->lock);
    while (r->todo != NULL && !r->closed) {
        struct tr_lookup *l = r->todo;
        ssize_t n;

        r->todo = l->next;
        pthread_mutex_unlock(&r->lock);
        look_up(l);
        pthread_mutex_lock(&r->lock);
        append(&r->done, l);
        n = write(r->event_fd, &one, sizeof one);
        (void)n; /* it is full only when nobody reads it */
    }
    r->threads--;
    last = r->closed && r->threads == 0;
    pthread_mutex_unlock(&r->lock);
    if (last) {
        destroy(r);
    }
    return NULL;
}

/* Under the lock. */
static bool start_thread(struct tr_resolver *r)
{
    bool ok = tr_thread_start(NULL, "resolver", work, r);

    r->threads += ok;
    return ok;
}

/* ---- The loop's side. */

static void unknow(struct tr_resolver *r, const struct tr_lookup *l)
{
    struct tr_lookup **at = &r->known;

    while (*at != l) {
        at = &(*at)->next_known;
    }
    *at = l->next_known;
}

static time_t now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1; /* never 0 */
}

/* What nobody has asked for any more. */
static void drop_old(struct tr_resolver *r, time_t before_s)
{
    struct tr_lookup **at = &r->known;

    while (*at != NULL) {
        struct tr_lookup *l = *at;

        if (l->over_s != 0 && l->over_s < before_s) {
            *at = l->next_known;
            free_lookup(l);
        } else {
            at = &l->next_known;
        }
    }
}

static void tell(void *ctx, int fd, unsigned events)
{
    struct tr_resolver *r = ctx;
    struct tr_lookup *l;
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);

    (void)events;
    (void)n;
    pthread_mutex_lock(&r->lock);
    l = r->done;
    r->done = NULL;
    pthread_mutex_unlock(&r->lock);
    while (l != NULL) {
        struct tr_lookup *next = l->next;
        struct addrinfo *found = l->found;

        if (l->fn == NULL) {
            l->over_s = now_s();
        } else {
            unknow(r, l);
            l->found = NULL;
            l->fn(l->ctx, found, l->err != 0 ? gai_strerror(l->err) : NULL);
            free_lookup(l);
        }
        l = next;
    }
    drop_old(r, now_s() - KEPT_S);
}

int tr_resolver_open(struct tr_resolver **out, const struct tr_poller *poller)
{
    struct tr_resolver *r = calloc(1, sizeof *r);

    *out = NULL;
    if (r == NULL) {
        return TARRY_EFULL;
    }
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        free(r);
        return TARRY_EFULL;
    }
    r->poller = poller;
    r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->poll = r->event_fd >= 0 ? poller->open(poller->ctx, r->event_fd, tell, r) : NULL;
    if (r->poll == NULL) {
        destroy(r);
        return TARRY_EFULL;
    }
    poller->watch(r->poll, TR_POLL_READ);
    *out = r;
    return TARRY_OK;
}

/* It is told in the next round of the loop, as any other. */
static void tell_soon(struct tr_resolver *r, struct tr_lookup *l)
{
    static const uint64_t one = 1;
    ssize_t n;

    l->over_s = 0;
    pthread_mutex_lock(&r->lock);
    append(&r->done, l);
    pthread_mutex_unlock(&r->lock);
    n = write(r->event_fd, &one, sizeof one);
    (void)n;
}

/* One that was forgotten and is still being done, or is done. */
static struct tr_lookup *find_forgotten(struct tr_resolver *r, const char *host, const char *port)
{
    struct tr_lookup *l = r->known;

    while (l != NULL &&
           (l->fn != NULL || strcmp(l->host, host) != 0 || strcmp(l->port, port) != 0)) {
        l = l->next_known;
    }
    return l;
}

struct tr_lookup *tr_resolver_ask(struct tr_resolver *r, const char *host, const char *port,
                                  tr_found_fn *fn, void *ctx)
{
    struct tr_lookup *l;
    bool ok;

    drop_old(r, now_s() - KEPT_S);
    l = find_forgotten(r, host, port);
    if (l != NULL) {
        l->fn = fn;
        l->ctx = ctx;
        if (l->over_s != 0) {
            tell_soon(r, l);
        }
        return l;
    }
    l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    tr_text(l->host, sizeof l->host, "%s", host);
    tr_text(l->port, sizeof l->port, "%s", port);
    l->fn = fn;
    l->ctx = ctx;
    pthread_mutex_lock(&r->lock);
    ok = (r->threads < THREADS_MOST && start_thread(r)) || r->threads > 0;
    if (ok) {
        append(&r->todo, l);
    }
    pthread_mutex_unlock(&r->lock);
    if (!ok) {
        free(l);
        return NULL;
    }
    l->next_known = r->known;
    r->known = l;
    return l;
}

void tr_resolver_forget(struct tr_resolver *r, struct tr_lookup *l)
{
    struct tr_lookup **at = &r->todo;
    bool waits;

    l->fn = NULL;
    pthread_mutex_lock(&r->lock);
    while (*at != NULL && *at != l) {
        at = &(*at)->next;
    }
    waits = *at != NULL;
    if (waits) {
        *at = l->next;
    }
    pthread_mutex_unlock(&r->lock);
    if (waits) {
        unknow(r, l);
        free_lookup(l); /* else a thread has it, or it is done: it is freed when it is told */
    }
}

void tr_resolver_close(struct tr_resolver *r)
{
    bool last;

    if (r == NULL) {
        return;
    }
    r->poller->close(r->poll);
    drop_old(r, now_s() + 1);
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    last = r->threads == 0;
    pthread_mutex_unlock(&r->lock);
    if (last) {
        destroy(r);
    }
}
