/*
 * ZooKeeper: each node is a child of root/nodes, ephemeral, so that it goes with the node's
 * session. Its name is the node's, the number of the session, and what ZooKeeper counts up:
 *
 *     /tarry/nodes/1be4dbda9be27283-1-0000000007        data: host:port version
 *
 * A beat lists the children; whoever is there lives. One request on a session's connection is a
 * sign of life, too, so a beat that was answered proves that the session lasts from when it was
 * asked. (The client's own pings do the rest; but when they fail it says so only after two thirds
 * of the session, which would be too late to count from.)
 *
 *     loop: beat ──► wanted ──► our thread: [session] ─ list ─ [create, list] ──► eventfd ──► loop
 *     ZooKeeper's threads: a watch, an event of the session ──► eventfd ──► loop: changed
 *
 * All calls are made by a thread of our own, for some of them wait: names are looked up, a session
 * is closed. Watches only set a flag. The loop never waits for ZooKeeper, but for a moment at the
 * end.
 *
 * *A create whose answer was lost* may have been done: the next beat lists first, and looks for its
 * own name. A name belongs to one session, so what is found there is not what an older session has
 * left. *Expired*: the session is closed, a new one begins with the next beat, under a new name.
 */

#define THREADED /* the calls that wait */

#include "remote/zoo.h"

#include "base/err.h"
#include "base/text.h"
#include "os/thread_linux.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum {
    TEXT = 1024,
    PATH = 512,
    NAME = 48,
    WHY = 160,
    NODE_DIGITS = 16,
    GOODBYE_S = 1,
};

struct answer {
    bool good;
    uint64_t nodes[TR_COORD_MEMBERS];
    unsigned count;
    uint64_t session_us;
    char why[WHY];
};

struct tr_zoo {
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* Under the lock. */
    bool wanted;  /* a beat is */
    bool closing; /* the session is to end, */
    bool ended;   /* it has, and the thread is gone; */
    bool left;    /* nobody waits for that: the thread frees it */
    bool answered;
    bool changed;
    struct answer answer;

    /* What stays as it is. */
    char servers[TEXT];
    char folder[PATH]; /* root/nodes */
    char address[128];
    uint64_t node;
    int session_ms;
    int event_fd;

    /* The thread's. */
    zhandle_t *session;
    unsigned sessions; /* so many there were */
    char name[NAME];   /* of this session's child, without what is counted up */

    /* The loop's. */
    struct tr_poller poller;
    struct tr_poll *poll;
    struct tr_now (*now)(void);
    struct tr_coord_ear ear;
};

static void wake(const struct tr_zoo *z)
{
    static const uint64_t one = 1;
    ssize_t n = write(z->event_fd, &one, sizeof one);

    (void)n; /* it is full only when nobody reads it */
}

/* ---- ZooKeeper's threads ---- */

static void quiet(const char *message)
{
    (void)message; /* what matters of it comes as an error, too */
}

/* A child came or went; the connection or the session did. */
static void watched(zhandle_t *session, int type, int state, const char *path, void *ctx)
{
    struct tr_zoo *z = ctx;

    (void)session;
    (void)path;
    if (type == ZOO_SESSION_EVENT && state != ZOO_EXPIRED_SESSION_STATE &&
        state != ZOO_CONNECTED_STATE) {
        return; /* it is tried again by itself, and beats fail meanwhile */
    }
    pthread_mutex_lock(&z->lock);
    z->changed = true;
    pthread_mutex_unlock(&z->lock);
    wake(z);
}

/* ---- our thread ---- */

static bool fail(struct answer *a, const char *what, int err)
{
    tr_text(a->why, sizeof a->why, "%s: %s", what, zerror(err));
    return false;
}

static void end_session(struct tr_zoo *z)
{
    if (z->session != NULL) {
        (void)zookeeper_close(z->session);
        z->session = NULL;
    }
}

static bool have_session(struct tr_zoo *z, struct answer *a)
{
    if (z->session != NULL && is_unrecoverable(z->session) != ZOK) {
        end_session(z);
    }
    if (z->session == NULL) {
        z->sessions++;
        tr_text(z->name, sizeof z->name, "%016llx-%u-", (unsigned long long)z->node, z->sessions);
        z->session = zookeeper_init2(z->servers, watched, z->session_ms, NULL, z,
                                     ZOO_NO_LOG_CLIENTENV, quiet);
        if (z->session == NULL) {
            tr_text(a->why, sizeof a->why, "%s: %s", z->servers,
                    errno == ENOENT || errno == EINVAL ? "no such address" : strerror(errno));
            return false;
        }
    }
    return true;
}

/* root, root/a, ..., root/nodes: those that are not there. */
static int make_folder(struct tr_zoo *z)
{
    char path[PATH];
    int err = ZOK;

    for (size_t i = 1; err == ZOK && z->folder[i - 1] != '\0'; i++) {
        if (z->folder[i] == '/' || z->folder[i] == '\0') {
            tr_text(path, sizeof path, "%.*s", (int)i, z->folder);
            err = zoo_create(z->session, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL,
                             0);
            err = err == ZNODEEXISTS ? ZOK : err;
        }
    }
    return err;
}

static void add_node(struct answer *a, uint64_t node)
{
    for (unsigned i = 0; i < a->count; i++) {
        if (a->nodes[i] == node) {
            return; /* of an older session that has not ended yet */
        }
    }
    if (a->count < TR_COORD_MEMBERS) {
        a->nodes[a->count++] = node;
    }
}

/* Who is there; `self`: this session's child is. */
static int list(struct tr_zoo *z, struct answer *a, bool *self)
{
    struct String_vector children = {0};
    int err = zoo_wget_children(z->session, z->folder, watched, z, &children);

    a->count = 0;
    *self = false;
    for (int i = 0; err == ZOK && i < children.count; i++) {
        const char *name = children.data[i];
        char digits[NODE_DIGITS + 1];
        char *end;
        uint64_t node;

        tr_text(digits, sizeof digits, "%.*s", NODE_DIGITS, name);
        node = strtoull(digits, &end, 16);
        if (*end == '\0' && strlen(digits) == NODE_DIGITS && name[NODE_DIGITS] == '-') {
            *self = *self || strncmp(name, z->name, strlen(z->name)) == 0;
            add_node(a, node);
        }
    }
    if (err == ZOK) {
        (void)deallocate_String_vector(&children);
    }
    return err;
}

static int join(struct tr_zoo *z)
{
    char path[PATH + NAME];

    tr_text(path, sizeof path, "%s/%s", z->folder, z->name);
    return zoo_create(z->session, path, z->address, (int)strlen(z->address), &ZOO_OPEN_ACL_UNSAFE,
                      ZOO_EPHEMERAL_SEQUENTIAL, NULL, 0);
}

static bool beat(struct tr_zoo *z, struct answer *a)
{
    bool self = false;
    int err;

    if (!have_session(z, a)) {
        return false;
    }
    err = list(z, a, &self);
    if (err == ZNONODE) {
        err = make_folder(z);
        if (err != ZOK) {
            return fail(a, z->folder, err);
        }
        err = list(z, a, &self);
    }
    if (err == ZOK && !self) {
        err = join(z);
        if (err == ZOK) {
            err = list(z, a, &self);
        }
    }
    if (err != ZOK) {
        return fail(a, z->servers, err);
    }
    a->session_us = (uint64_t)zoo_recv_timeout(z->session) * 1000;
    if (!self) {
        tr_text(a->why, sizeof a->why, "%s: somebody removes our nodes", z->folder);
    }
    return self;
}

static void destroy(struct tr_zoo *z)
{
    (void)close(z->event_fd);
    (void)pthread_cond_destroy(&z->news);
    (void)pthread_mutex_destroy(&z->lock);
    free(z);
}

static void *work(void *arg)
{
    struct tr_zoo *z = arg;
    struct answer a;
    bool last;

    pthread_mutex_lock(&z->lock);
    while (!z->closing) {
        if (!z->wanted) {
            (void)pthread_cond_wait(&z->news, &z->lock);
            continue;
        }
        z->wanted = false;
        pthread_mutex_unlock(&z->lock);
        memset(&a, 0, sizeof a);
        a.good = beat(z, &a);
        pthread_mutex_lock(&z->lock);
        z->answer = a;
        z->answered = true;
        wake(z);
    }
    pthread_mutex_unlock(&z->lock);
    end_session(z);
    pthread_mutex_lock(&z->lock);
    z->ended = true;
    last = z->left;
    pthread_cond_broadcast(&z->news);
    pthread_mutex_unlock(&z->lock);
    if (last) {
        destroy(z);
    }
    return NULL;
}

/* ---- the loop's side ---- */

static void tell(void *ctx, int fd, unsigned events)
{
    struct tr_zoo *z = ctx;
    struct answer a = {0};
    bool answered, changed;
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);

    (void)events;
    (void)n;
    pthread_mutex_lock(&z->lock);
    answered = z->answered;
    changed = z->changed;
    z->answered = false;
    z->changed = false;
    if (answered) {
        a = z->answer;
    }
    pthread_mutex_unlock(&z->lock);
    if (answered && a.good) {
        z->ear.members(
            z->ear.ctx,
            &(struct tr_coord_view){.nodes = a.nodes, .count = a.count, .session_us = a.session_us},
            z->now());
    } else if (answered) {
        z->ear.failed(z->ear.ctx, a.why, z->now());
    }
    if (changed) {
        z->ear.changed(z->ear.ctx, z->now());
    }
}

int tr_zoo_open(struct tr_zoo **out, const struct tr_zoo_setup *setup)
{
    struct tr_zoo *z = calloc(1, sizeof *z);

    *out = NULL;
    if (z == NULL) {
        return TARRY_EFULL;
    }
    if (pthread_mutex_init(&z->lock, NULL) != 0 || pthread_cond_init(&z->news, NULL) != 0) {
        free(z);
        return TARRY_EFULL;
    }
    tr_text(z->servers, sizeof z->servers, "%s", setup->servers);
    tr_text(z->folder, sizeof z->folder, "%s/nodes", setup->root);
    tr_text(z->address, sizeof z->address, "%s", setup->address);
    z->node = setup->node;
    z->session_ms = (int)(setup->session_us / 1000);
    z->poller = setup->poller;
    z->now = setup->now;
    z->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    z->poll = z->event_fd >= 0 ? z->poller.open(z->poller.ctx, z->event_fd, tell, z) : NULL;
    if (z->poll == NULL) {
        destroy(z);
        return TARRY_EFULL;
    }
    if (!tr_thread_start(NULL, "zookeeper", work, z)) {
        z->poller.close(z->poll);
        destroy(z);
        return TARRY_EFULL;
    }
    z->poller.watch(z->poll, TR_POLL_READ);
    *out = z;
    return TARRY_OK;
}

void tr_zoo_listen(struct tr_zoo *z, struct tr_coord_ear ear)
{
    z->ear = ear;
}

static void ask(void *ctx)
{
    struct tr_zoo *z = ctx;

    pthread_mutex_lock(&z->lock);
    z->wanted = true;
    pthread_cond_broadcast(&z->news);
    pthread_mutex_unlock(&z->lock);
}

/* Whoever is in the middle of a beat finds out when that is answered. */
static void leave(void *ctx)
{
    struct tr_zoo *z = ctx;

    pthread_mutex_lock(&z->lock);
    z->closing = true;
    pthread_cond_broadcast(&z->news);
    pthread_mutex_unlock(&z->lock);
}

struct tr_coord_port tr_zoo_port(struct tr_zoo *z)
{
    return (struct tr_coord_port){
        .ctx = z, .kind = "zookeeper", .place = z->folder, .beat = ask, .leave = leave};
}

void tr_zoo_close(struct tr_zoo *z)
{
    struct timespec until;
    bool ended;

    if (z == NULL) {
        return;
    }
    z->poller.close(z->poll);
    leave(z);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GOODBYE_S;
    pthread_mutex_lock(&z->lock);
    while (!z->ended && pthread_cond_timedwait(&z->news, &z->lock, &until) == 0) {
    }
    ended = z->ended;
    z->left = true;
    pthread_mutex_unlock(&z->lock);
    if (ended) {
        destroy(z);
    }
}
