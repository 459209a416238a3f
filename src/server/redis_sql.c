/*
 * The database behind the engine on Redis: its threads answer port/sql.h (remote/sql.c), and wake
 * the loop, which collects.
 *
 * At the start it is looked at, once: what somebody has to put right ends the start with the
 * sentence that `tarry sql check` says; one that is away is waited for, as Redis is. What goes
 * wrong later is told by /readyz, and ends by itself.
 */

#include "base/err.h"
#include "base/text.h"
#include "os/clock_linux.h"
#include "os/loop_linux.h"
#include "server/redis_inner.h"

#include <stdio.h>

#ifdef TR_SQL

#include "remote/sql.h"
#include "remote/sql_migrate.h"

enum { TIMEOUT_S = 4, PATIENCE_MS = 3000 };

static void say_odd(const struct tr_on_redis *o, const struct tr_sql_found *found)
{
    const char *odd;

    for (unsigned i = 0; (odd = tr_sql_odd(found, i)) != NULL; i++) {
        o->parts.calls.notice(o->parts.calls.ctx, TR_NOTE_WARNING, odd);
    }
}

static void describe(struct tr_on_redis *o, const struct tr_sql_found *found)
{
    bool synced = found->flush == 1 && (!found->log_bin || found->sync == 1);

    tr_text(o->sql_found, sizeof o->sql_found,
            "success is answered when the database has committed it. Found: %s, "
            "innodb_flush_log_at_trx_commit %u%s. So %s",
            found->version, found->flush,
            !found->log_bin    ? ""
            : found->sync == 1 ? ", sync_binlog 1"
                               : ", sync_binlog not 1",
            synced ? "a crash takes nothing back" : "a power cut may take back the last second");
}

/* TR_EXIT_FINE, or what is wrong was said. */
static int inspect(struct tr_on_redis *o, const struct tr_sql_store *store)
{
    const struct tr_config *c = o->parts.config;
    struct tr_sql_access access = {
        .user = c->sql_user, .password = c->sql_password, .timeout_s = TIMEOUT_S};
    struct tr_sql_found found;
    struct tr_sql_fault f;
    const char *why;
    char place[TR_SQL_PLACE];

    if (tr_sql_url_read(&access.url, c->sql_url, &why) != TARRY_OK) {
        fprintf(stderr, "tarry: sql.url: %s\n", why);
        return TR_EXIT_USAGE;
    }
    tr_sql_place(place, &access.url);
    printf("rows in %s, %u connections\n", place, (unsigned)c->sql_connections);
    if (tr_sql_inspect(&access, c->http_body_max, &found, &f) == TARRY_OK &&
        tr_sql_agree(&access, store, &f) == TARRY_OK) {
        say_odd(o, &found);
        describe(o, &found);
        return TR_EXIT_FINE;
    }
    if (f.blame == TR_SQL_AWAY) {
        o->parts.calls.notice(o->parts.calls.ctx, TR_NOTE_WARNING, f.why);
        return TR_EXIT_FINE;
    }
    fprintf(stderr, "tarry: %s\n", f.why);
    return TR_EXIT_USAGE;
}

int tr_on_redis_open_sql(struct tr_on_redis *o, uint64_t node)
{
    const struct tr_config *c = o->parts.config;
    struct tr_sql_store store = {o->uuid, c->cluster_slots, c->redis_prefix};
    int how;
    int err;

    if (!tr_sql_library_open()) {
        fputs("tarry: there is no memory left.\n", stderr);
        return TR_EXIT_FAILED;
    }
    how = inspect(o, &store);
    tr_sql_library_close();
    if (how != TR_EXIT_FINE) {
        return how;
    }
    err = tr_sql_open(&o->sql, &(struct tr_sql_setup){.url = c->sql_url,
                                                      .user = c->sql_user,
                                                      .password = c->sql_password,
                                                      .connections = c->sql_connections,
                                                      .node = node,
                                                      .timeout_s = TIMEOUT_S,
                                                      .patience_ms = PATIENCE_MS,
                                                      .wake = tr_loop_linux_wake,
                                                      .wake_ctx = o->parts.loop});
    if (err != TARRY_OK) {
        fprintf(stderr, "tarry: sql.url: %s\n", tarry_strerror(err));
        return TR_EXIT_FAILED;
    }
    return TR_EXIT_FINE;
}

struct tr_sql_port tr_on_redis_sql_port(const struct tr_on_redis *o)
{
    return tr_sql_port(o->sql);
}

void tr_on_redis_sql_listen(const struct tr_on_redis *o)
{
    tr_sql_listen(o->sql, tr_cluster_sql_ear(o->cluster));
}

void tr_on_redis_collect(const struct tr_on_redis *o)
{
    if (o->sql != NULL) {
        tr_cluster_tick(o->cluster, tr_clock_linux_now());
        tr_sql_collect(o->sql);
    }
}

void tr_on_redis_close_sql(struct tr_on_redis *o)
{
    tr_sql_close(o->sql);
    o->sql = NULL;
}

struct tr_sql_stat tr_on_redis_sql_stat(const struct tr_on_redis *o)
{
    return tr_sql_stat(o->sql);
}

#else /* then o->sql is NULL */

int tr_on_redis_open_sql(struct tr_on_redis *o, uint64_t node)
{
    (void)o;
    (void)node;
    fputs("tarry: sql.url names a database, and this tarry was built without SQL: install "
          "libmariadb-dev and build it again.\n",
          stderr);
    return TR_EXIT_USAGE;
}

struct tr_sql_port tr_on_redis_sql_port(const struct tr_on_redis *o)
{
    (void)o;
    return (struct tr_sql_port){0};
}

void tr_on_redis_sql_listen(const struct tr_on_redis *o)
{
    (void)o;
}

void tr_on_redis_collect(const struct tr_on_redis *o)
{
    (void)o;
}

void tr_on_redis_close_sql(struct tr_on_redis *o)
{
    (void)o;
}

struct tr_sql_stat tr_on_redis_sql_stat(const struct tr_on_redis *o)
{
    (void)o;
    return (struct tr_sql_stat){0};
}

#endif
