/*
 * bench-sql: a queue as one writes it on a database without much thought: a row for each job, a
 * transaction for each step, a thread for each connection.
 *
 *     bench-sql MODE PORT USER PASSWORD DATABASE CONNS SECONDS
 *
 * MODE put: insert. cycle: insert; update to reserved; delete. The table is made anew; it has the
 * columns and the index of tarry's that matter.
 */

#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONNS_MAX = 512, BODY = 100, TEXT = 512 };

struct peer {
    const char *user, *password, *database;
    unsigned port;
    bool cycle;
    double until_s;
    atomic_uint_fast64_t next_id, jobs;
    atomic_bool failed;
};

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static MYSQL *dial(struct peer *p)
{
    MYSQL *m = mysql_init(NULL);

    if (m == NULL || mysql_real_connect(m, "127.0.0.1", p->user, p->password, p->database, p->port,
                                        NULL, 0) == NULL) {
        (void)fprintf(stderr, "bench-sql: %s\n", m != NULL ? mysql_error(m) : "no memory");
        mysql_close(m);
        return NULL;
    }
    return m;
}

static bool run(MYSQL *m, const char *text)
{
    if (mysql_query(m, text) != 0) {
        (void)fprintf(stderr, "bench-sql: %s\n", mysql_error(m));
        return false;
    }
    return true;
}

static bool one_job(struct peer *p, MYSQL *m, const char *body)
{
    unsigned long long id = atomic_fetch_add(&p->next_id, 1);
    char text[TEXT];

    (void)snprintf(text, sizeof text,
                   "INSERT INTO peer (id, slot, topic_id, state, next_at, due, prio, ver, body) "
                   "VALUES (%llu, 1, 1, 0, %llu, %llu, 0, 1, '%s')",
                   id, id, id, body);
    if (!run(m, text)) {
        return false;
    }
    if (p->cycle) {
        (void)snprintf(text, sizeof text,
                       "UPDATE peer SET state = 1, ver = ver + 1, lease = %llu, next_at = %llu "
                       "WHERE id = %llu AND state = 0",
                       id, id + 60000000, id);
        if (!run(m, text)) {
            return false;
        }
        (void)snprintf(text, sizeof text, "DELETE FROM peer WHERE id = %llu AND lease = %llu", id,
                       id);
        if (!run(m, text)) {
            return false;
        }
    }
    atomic_fetch_add(&p->jobs, 1);
    return true;
}

static void *work(void *arg)
{
    struct peer *p = arg;
    MYSQL *m = dial(p);
    char body[BODY + 1];

    memset(body, 'x', BODY);
    body[BODY] = '\0';
    while (m != NULL && now_s() < p->until_s && !atomic_load(&p->failed)) {
        if (!one_job(p, m, body)) {
            atomic_store(&p->failed, true);
        }
    }
    if (m == NULL) {
        atomic_store(&p->failed, true);
    }
    mysql_close(m);
    mysql_thread_end();
    return NULL;
}

static bool make_table(struct peer *p)
{
    MYSQL *m = dial(p);
    bool made =
        m != NULL && run(m, "DROP TABLE IF EXISTS peer") &&
        run(m, "CREATE TABLE peer (id BIGINT PRIMARY KEY, slot SMALLINT NOT NULL, topic_id INT NOT "
               "NULL, state TINYINT NOT NULL, next_at BIGINT NOT NULL, due BIGINT NOT NULL, prio "
               "INT UNSIGNED NOT NULL, ver INT NOT NULL, lease BIGINT NOT NULL DEFAULT 0, body "
               "MEDIUMBLOB NOT NULL, KEY work (slot, topic_id, state, next_at)) ENGINE=InnoDB");

    mysql_close(m);
    return made;
}

int main(int argc, char **argv)
{
    static struct peer p;
    static pthread_t threads[CONNS_MAX];
    unsigned conns = argc == 8 ? (unsigned)strtoul(argv[6], NULL, 10) : 0;
    unsigned started = 0;
    double begin_s, took_s;

    if (conns == 0 || conns > CONNS_MAX) {
        (void)fputs("usage: bench-sql put|cycle PORT USER PASSWORD DATABASE CONNS SECONDS\n",
                    stderr);
        return 2;
    }
    p.cycle = strcmp(argv[1], "cycle") == 0;
    p.port = (unsigned)strtoul(argv[2], NULL, 10);
    p.user = argv[3];
    p.password = argv[4];
    p.database = argv[5];
    p.next_id = 1;
    if (mysql_library_init(0, NULL, NULL) != 0 || !make_table(&p)) {
        return 1;
    }
    begin_s = now_s();
    p.until_s = begin_s + strtod(argv[7], NULL);
    while (started < conns && pthread_create(&threads[started], NULL, work, &p) == 0) {
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    took_s = now_s() - begin_s;
    printf("load mode=%s conns=%u jobs=%llu secs=%.3f ops=%.0f\n", argv[1], conns,
           (unsigned long long)p.jobs, took_s, (double)p.jobs / took_s);
    mysql_library_end();
    return p.failed || started < conns ? 1 : 0;
}
