/*
 * Lines and mail.
 *
 *     send -> todo of its line -> the line's thread -> done, of all lines -> wake -> collect
 *
 * Invariant: an ask is in one place: a todo, a thread's hands, done, or its owner's. The mutexes
 * between the places order what is written to it.
 *
 * A line is a connection and a thread, since Connector/C blocks. An ask goes to the line that it
 * names, so asks about one job are done in the order in which they were sent.
 *
 * An ask that comes to an empty list of done ones wakes the loop; so a burst costs few wake-ups.
 */

#include "remote/sql.h"

#include "base/err.h"
#include "os/thread_linux.h"
#include "remote/sql_inner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TEXT = 1024 };

struct list {
    struct tr_sql_ask *first;
    struct tr_sql_ask *last;
};

struct worker {
    struct tr_sql *pool;
    struct tr_sql_line line;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct list todo;
    bool started;
};

struct tr_sql {
    struct tr_sql_access access;
    char user[TEXT];
    char password[TEXT];
    void (*wake)(void *ctx);
    void *wake_ctx;
    struct tr_sql_ear ear;
    atomic_bool stop;
    pthread_mutex_t lock;
    struct list done;
    unsigned count;
    struct worker workers[TR_SQL_CONNS_MAX];
};

static void append(struct list *l, struct tr_sql_ask *ask)
{
    ask->next = NULL;
    if (l->last != NULL) {
        l->last->next = ask;
    } else {
        l->first = ask;
    }
    l->last = ask;
}

static struct tr_sql_ask *pop(struct list *l)
{
    struct tr_sql_ask *ask = l->first;

    if (ask != NULL) {
        l->first = ask->next;
        l->last = ask->next != NULL ? l->last : NULL;
    }
    return ask;
}

/* ---- the threads ---- */

/* NULL: it is to stop. */
static struct tr_sql_ask *wait_for(struct worker *w)
{
    struct tr_sql_ask *ask;

    pthread_mutex_lock(&w->lock);
    while (w->todo.first == NULL && !atomic_load(&w->pool->stop)) {
        pthread_cond_wait(&w->more, &w->lock);
    }
    ask = atomic_load(&w->pool->stop) ? NULL : pop(&w->todo);
    pthread_mutex_unlock(&w->lock);
    return ask;
}

static void finish(struct tr_sql *s, struct tr_sql_ask *ask)
{
    bool first;

    pthread_mutex_lock(&s->lock);
    first = s->done.first == NULL;
    append(&s->done, ask);
    pthread_mutex_unlock(&s->lock);
    if (first) {
        s->wake(s->wake_ctx);
    }
}

static void free_room(struct tr_sql_ask *ask)
{
    if (ask->own != NULL) {
        tr_sql_room_free(ask->own);
        free(ask->own);
        ask->own = NULL;
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tr_sql_ask *ask;

    while ((ask = wait_for(w)) != NULL) {
        w->line.room = ask->own;
        tr_sql_line_do(&w->line, ask);
        finish(w->pool, ask);
    }
    tr_sql_line_close(&w->line);
    tr_sql_text_free(&w->line.text);
    return NULL;
}

/* ---- the loop's ---- */

static bool copy(char *out, const char *text, const char **kept)
{
    size_t len = text != NULL ? strlen(text) : 0;

    *kept = text != NULL ? out : NULL;
    if (len >= TEXT) {
        return false;
    }
    memcpy(out, text != NULL ? text : "", len + 1);
    return true;
}

static int init(struct tr_sql *s, const struct tr_sql_setup *setup)
{
    const char *why;
    int err;

    s->wake = setup->wake;
    s->wake_ctx = setup->wake_ctx;
    s->access.timeout_s = setup->timeout_s;
    if (setup->connections == 0 || setup->connections > TR_SQL_CONNS_MAX ||
        tr_sql_url_read(&s->access.url, setup->url, &why) != TARRY_OK ||
        !copy(s->user, setup->user, &s->access.user) ||
        !copy(s->password, setup->password, &s->access.password)) {
        return TARRY_EINVAL;
    }
    err = pthread_mutex_init(&s->lock, NULL);
    TR_CHECK(err == 0);
    for (unsigned i = 0; i < setup->connections; i++) {
        struct worker *w = &s->workers[i];

        w->pool = s;
        w->line.access = &s->access;
        w->line.node = setup->node;
        w->line.patience_ms = setup->patience_ms;
        w->line.stop = &s->stop;
        w->line.lock = &w->lock;
        w->line.socket = -1;
        err = pthread_mutex_init(&w->lock, NULL);
        TR_CHECK(err == 0);
        err = pthread_cond_init(&w->more, NULL);
        TR_CHECK(err == 0);
        s->count++;
        w->started = tr_thread_start(&w->thread, "sql", work, w);
        if (!w->started) {
            return TARRY_EFULL;
        }
    }
    return TARRY_OK;
}

int tr_sql_open(struct tr_sql **out, const struct tr_sql_setup *setup)
{
    struct tr_sql *s = calloc(1, sizeof *s);
    int err = s != NULL && tr_sql_library_open() ? TARRY_OK : TARRY_EFULL;

    *out = NULL;
    if (err == TARRY_OK) {
        err = init(s, setup);
        if (err != TARRY_OK) {
            tr_sql_close(s);
            return err;
        }
        *out = s;
        return TARRY_OK;
    }
    free(s);
    return err;
}

static void send_ask(void *ctx, struct tr_sql_ask *ask)
{
    struct tr_sql *s = ctx;
    struct worker *w;

    TR_CHECK(ask->conn < s->count);
    TR_CHECK(ask->kind != TR_SQL_CHANGE || (ask->count > 0 && ask->count <= TR_SQL_ITEMS_MAX));
    ask->own = calloc(1, sizeof(struct tr_sql_room));
    if (ask->own == NULL) { /* the end comes later, as all ends */
        ask->end = TR_SQL_UNDONE;
        ask->blame = TR_SQL_FULL;
        ask->why = "there is no memory left";
        for (unsigned i = 0; ask->kind == TR_SQL_CHANGE && i < ask->count; i++) {
            ask->items[i].end = TR_SQL_UNDONE;
            ask->items[i].blame = ask->blame;
            ask->items[i].why = ask->why;
        }
        finish(s, ask);
        return;
    }
    w = &s->workers[ask->conn];
    pthread_mutex_lock(&w->lock);
    append(&w->todo, ask);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

struct tr_sql_port tr_sql_port(struct tr_sql *s)
{
    return (struct tr_sql_port){.ctx = s, .send = send_ask};
}

void tr_sql_listen(struct tr_sql *s, struct tr_sql_ear ear)
{
    s->ear = ear;
}

void tr_sql_collect(struct tr_sql *s)
{
    struct list done;
    struct tr_sql_ask *ask;

    pthread_mutex_lock(&s->lock);
    done = s->done;
    s->done = (struct list){0};
    pthread_mutex_unlock(&s->lock);
    while ((ask = pop(&done)) != NULL) {
        struct tr_sql_room *room = ask->own;

        ask->own = NULL;
        s->ear.ended(s->ear.ctx, ask); /* which may send it again, or free it */
        if (room != NULL) {
            tr_sql_room_free(room);
            free(room);
        }
    }
}

struct tr_sql_stat tr_sql_stat(const struct tr_sql *s)
{
    struct tr_sql_stat sum = {0};

    for (unsigned i = 0; i < s->count; i++) {
        const struct tr_sql_line *line = &s->workers[i].line;

        sum.connects += atomic_load(&line->connects);
        sum.transactions += atomic_load(&line->transactions);
        sum.repeats += atomic_load(&line->repeats);
        sum.halvings += atomic_load(&line->halvings);
        sum.lookups += atomic_load(&line->lookups);
    }
    return sum;
}

/* What is held up by a socket comes back with an error. */
static void cut_off(struct tr_sql *s)
{
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < s->count; i++) {
        struct worker *w = &s->workers[i];

        pthread_mutex_lock(&w->lock);
        pthread_cond_signal(&w->more);
        if (w->line.socket >= 0) {
            (void)shutdown(w->line.socket, SHUT_RDWR);
        }
        pthread_mutex_unlock(&w->lock);
    }
}

void tr_sql_close(struct tr_sql *s)
{
    struct tr_sql_ask *ask;

    if (s == NULL) {
        return;
    }
    cut_off(s);
    for (unsigned i = 0; i < s->count; i++) {
        struct worker *w = &s->workers[i];

        if (w->started) {
            int err = pthread_join(w->thread, NULL);

            TR_CHECK(err == 0);
        }
        while ((ask = pop(&w->todo)) != NULL) {
            free_room(ask);
        }
        pthread_mutex_destroy(&w->lock);
        pthread_cond_destroy(&w->more);
    }
    while ((ask = pop(&s->done)) != NULL) {
        free_room(ask);
    }
    if (s->count > 0) {
        pthread_mutex_destroy(&s->lock);
    }
    tr_sql_library_close();
    free(s);
}
