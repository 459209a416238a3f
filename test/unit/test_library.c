/*
 * The library as its users see it, through tarry.h alone, on a store in a folder of its own.
 *
 * Real time and threads: what is waited for is an event, never a length of time. How it holds out
 * under many threads and kill -9 is test/system/test_library.py.
 */

#include "tarry.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char top[64];
    char dir[96];
    struct tarry *t;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    (void)snprintf(f->top, sizeof f->top, "/tmp/tarry-test-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    (void)snprintf(f->dir, sizeof f->dir, "%s/store", f->top);
    assert_int_equal(tarry_open(&f->t, f->dir, NULL), TARRY_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    DIR *dir;

    assert_int_equal(tarry_close(f->t), TARRY_OK);
    dir = opendir(f->dir);
    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    (void)closedir(dir);
    assert_int_equal(rmdir(f->dir), 0);
    assert_int_equal(rmdir(f->top), 0);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    assert_int_equal(tarry_close(f->t), TARRY_OK);
    assert_int_equal(tarry_open(&f->t, f->dir, NULL), TARRY_OK);
}

static uint64_t push(struct fixture *f, const char *topic, const char *body, uint64_t delay_us)
{
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_result r = TARRY_RESULT_INIT;

    p.topic = topic;
    p.body = body;
    p.body_len = strlen(body);
    p.delay_us = delay_us;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_OK);
    assert_true(r.id != 0);
    assert_false(r.existed);
    assert_int_equal(r.state, delay_us != 0 ? TARRY_DELAYED : TARRY_READY);
    return r.id;
}

static struct tarry_job *reserve(struct fixture *f, const char *topic)
{
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job;

    r.topic = topic;
    r.wait_us = 30 * TARRY_SECOND;
    assert_int_equal(tarry_reserve(f->t, &r, &job), TARRY_OK);
    return job;
}

static void reserve_none(struct fixture *f, const char *topic)
{
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job = (struct tarry_job *)f;

    r.topic = topic;
    assert_int_equal(tarry_reserve(f->t, &r, &job), TARRY_ETIMEOUT);
    assert_null(job);
}

static struct tarry_stats stats(struct fixture *f, const char *topic)
{
    struct tarry_stats s = TARRY_STATS_INIT;

    assert_int_equal(tarry_stats(f->t, topic, &s), TARRY_OK);
    return s;
}

/* ---- jobs ---- */

static void library_hands_out_and_takes_back(void **state)
{
    struct fixture *f = *state;
    uint64_t id = push(f, "mail", "hello", 0);
    struct tarry_job *job = reserve(f, "mail");

    assert_int_equal(job->id, id);
    assert_true(job->lease != 0);
    assert_string_equal(job->topic, "mail");
    assert_string_equal(job->body, "hello");
    assert_int_equal(job->body_len, 5);
    assert_null(job->key);
    assert_int_equal(job->attempts, 1);
    assert_int_equal(job->state, TARRY_RESERVED);
    assert_int_equal(job->priority, 1024);
    assert_true(job->left_us > 0 && job->left_us <= 60 * TARRY_SECOND);
    reserve_none(f, "mail");
    assert_int_equal(tarry_touch(f->t, job, 2 * TARRY_MINUTE), TARRY_OK);
    assert_int_equal(tarry_release(f->t, job, 0), TARRY_OK);
    assert_int_equal(tarry_ack(f->t, job), TARRY_ESTATE); /* the lease is over */
    tarry_job_free(job);

    job = reserve(f, "mail");
    assert_int_equal(job->id, id);
    assert_int_equal(job->attempts, 2);
    assert_int_equal(job->releases, 1);
    assert_int_equal(tarry_bury(f->t, job), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(stats(f, "mail").dead, 1);
    assert_int_equal(tarry_kick(f->t, tarry_by_id(id), NULL), TARRY_OK);

    job = reserve(f, "mail");
    assert_int_equal(tarry_ack(f->t, job), TARRY_OK);
    assert_int_equal(tarry_ack(f->t, job), TARRY_ENOTFOUND);
    tarry_job_free(job);
    assert_int_equal(stats(f, NULL).deleted, 1);
}

static uint64_t wall_us(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* How long a push takes nobody knows: the second job may be due when it is answered. */
static void library_is_never_early(void **state)
{
    struct fixture *f = *state;
    uint64_t before_us = wall_us();
    struct tarry_job *job;

    (void)push(f, "mail", "tomorrow", TARRY_DAY);
    reserve_none(f, "mail");
    (void)push(f, "mail", "soon", 30 * TARRY_MS);
    job = reserve(f, "mail");
    assert_string_equal(job->body, "soon");
    assert_true(job->due_us >= before_us + 30 * TARRY_MS);
    assert_true(wall_us() >= job->due_us);
    assert_int_equal(tarry_ack(f->t, job), TARRY_OK);
    tarry_job_free(job);
}

static void library_keeps_what_it_acknowledged(void **state)
{
    struct fixture *f = *state;
    uint64_t far = push(f, "a", "far", TARRY_DAY);
    uint64_t held = push(f, "b", "held", 0);
    uint64_t gone = push(f, "c", "gone", 0);
    struct tarry_job *job = reserve(f, "b");

    tarry_job_free(job);
    assert_int_equal(tarry_cancel(f->t, tarry_by_id(gone), false, NULL), TARRY_OK);
    reopen(f);
    assert_int_equal(tarry_find(f->t, tarry_by_id(far), &job), TARRY_OK);
    assert_string_equal(job->topic, "a");
    assert_string_equal(job->body, "far");
    assert_int_equal(job->lease, 0);
    tarry_job_free(job);
    job = reserve(f, "b"); /* its lease ended with the process that had the store */
    assert_int_equal(job->id, held);
    tarry_job_free(job);
    assert_int_equal(tarry_find(f->t, tarry_by_id(gone), &job), TARRY_ENOTFOUND);
    assert_null(job);
}

static void library_tells_the_truth(void **state)
{
    struct fixture *f = *state;
    struct tarry_result r = TARRY_RESULT_INIT;
    uint64_t id = push(f, "mail", "x", 0);
    struct tarry_job *job = reserve(f, "mail");

    assert_int_equal(tarry_cancel(f->t, tarry_by_id(id), false, &r), TARRY_ESTATE);
    assert_int_equal(r.state, TARRY_RESERVED);
    assert_int_equal(r.id, id);
    assert_int_equal(tarry_reschedule(f->t, tarry_by_id(id), TARRY_HOUR, &r), TARRY_ESTATE);
    assert_int_equal(tarry_fire(f->t, tarry_by_id(id), NULL), TARRY_ESTATE);
    assert_int_equal(tarry_cancel(f->t, tarry_by_id(id), true, &r), TARRY_OK);
    assert_int_equal(r.state, TARRY_RESERVED); /* as it was */
    assert_int_equal(tarry_ack(f->t, job), TARRY_ENOTFOUND);
    tarry_job_free(job);
    assert_int_equal(tarry_cancel(f->t, tarry_by_id(id), true, &r), TARRY_ENOTFOUND);
    assert_int_equal(tarry_cancel(f->t, tarry_by_key("mail", "k"), true, &r), TARRY_ENOTFOUND);
    assert_int_equal(tarry_cancel(f->t, tarry_by_key("none", "k"), true, &r), TARRY_ENOTFOUND);
}

static void library_reschedules_and_changes(void **state)
{
    struct fixture *f = *state;
    struct tarry_change c = TARRY_CHANGE_INIT;
    struct tarry_result r = TARRY_RESULT_INIT;
    uint64_t id = push(f, "mail", "old", TARRY_HOUR);
    struct tarry_job *job;

    assert_int_equal(tarry_reschedule(f->t, tarry_by_id(id), TARRY_DAY, &r), TARRY_OK);
    assert_int_equal(r.state, TARRY_DELAYED);
    c.fields = TARRY_FIELD_BODY | TARRY_FIELD_PRIORITY | TARRY_FIELD_TTR;
    c.body = "new one";
    c.body_len = 7;
    c.priority = 7;
    c.ttr_us = 5 * TARRY_SECOND;
    assert_int_equal(tarry_change(f->t, tarry_by_id(id), &c, NULL), TARRY_OK);
    assert_int_equal(tarry_peek(f->t, "mail", TARRY_DELAYED, &job), TARRY_OK);
    assert_string_equal(job->body, "new one");
    assert_int_equal(job->priority, 7);
    assert_int_equal(job->ttr_us, 5 * TARRY_SECOND);
    assert_true(job->left_us > 23 * TARRY_HOUR);
    tarry_job_free(job);
    assert_int_equal(tarry_peek(f->t, "mail", TARRY_READY, &job), TARRY_ENOTFOUND);
    assert_int_equal(tarry_fire(f->t, tarry_by_id(id), &r), TARRY_OK);
    assert_int_equal(r.state, TARRY_READY);
    tarry_job_free(reserve(f, "mail"));
}

static void library_has_all_fields(void **state)
{
    struct fixture *f = *state;
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_change c = TARRY_CHANGE_INIT;
    struct tarry_result r = TARRY_RESULT_INIT;
    struct tarry_job *job;

    p.topic = "mail";
    p.tag = "vip";
    p.ttl_us = TARRY_DAY;
    p.retries = 3;
    p.backoff = "4m,10m,1h";
    p.delay_us = TARRY_HOUR;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_OK);
    assert_int_equal(tarry_find(f->t, tarry_by_id(r.id), &job), TARRY_OK);
    assert_string_equal(job->tag, "vip");
    assert_int_equal(job->ttl_us, TARRY_DAY);
    tarry_job_free(job);
    c.fields = TARRY_FIELD_TTL | TARRY_FIELD_TAG;
    assert_int_equal(tarry_change(f->t, tarry_by_id(r.id), &c, NULL), TARRY_OK);
    assert_int_equal(tarry_find(f->t, tarry_by_id(r.id), &job), TARRY_OK);
    assert_null(job->tag);
    assert_int_equal(job->ttl_us, 0);
    tarry_job_free(job);
    p.backoff = "soon";
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_EINVAL);
    p.backoff = NULL;
    p.retries = -2;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_EINVAL);
    p.retries = -1;
    p.tag = "";
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_EINVAL);
}

static void library_kicks_a_topic(void **state)
{
    struct fixture *f = *state;
    uint64_t count = 99;

    for (unsigned i = 0; i < 5; i++) {
        (void)push(f, "mail", "x", TARRY_HOUR);
    }
    assert_int_equal(tarry_kick_topic(f->t, "mail", 3, &count), TARRY_OK);
    assert_int_equal(count, 3);
    assert_int_equal(stats(f, "mail").ready, 3);
    assert_int_equal(stats(f, "mail").delayed, 2);
    assert_int_equal(tarry_kick_topic(f->t, "none", 3, &count), TARRY_ENOTFOUND);
    assert_int_equal(count, 0);
}

static void library_has_keys(void **state)
{
    struct fixture *f = *state;
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_result r = TARRY_RESULT_INIT;
    struct tarry_job *job;
    uint64_t id;

    p.topic = "orders";
    p.key = "order-42";
    p.body = "1";
    p.body_len = 1;
    p.delay_us = TARRY_HOUR;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_OK);
    id = r.id;
    p.body = "2";
    p.conflict = TARRY_KEEP;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_OK);
    assert_true(r.existed && r.id == id);
    p.conflict = TARRY_ERROR;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_EEXISTS);
    assert_true(r.existed && r.id == id && r.state == TARRY_DELAYED);
    assert_int_equal(tarry_find(f->t, tarry_by_key("orders", "order-42"), &job), TARRY_OK);
    assert_string_equal(job->body, "1");
    assert_string_equal(job->key, "order-42");
    tarry_job_free(job);
    p.conflict = TARRY_REPLACE;
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_OK);
    assert_true(r.existed && r.id == id);
    assert_int_equal(tarry_fire(f->t, tarry_by_key("orders", "order-42"), NULL), TARRY_OK);
    job = reserve(f, "orders");
    assert_string_equal(job->body, "2");
    assert_int_equal(tarry_push(f->t, &p, &r), TARRY_ESTATE);
    assert_int_equal(r.state, TARRY_RESERVED);
    assert_int_equal(tarry_ack(f->t, job), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(tarry_find(f->t, tarry_by_key("orders", "order-42"), &job), TARRY_ENOTFOUND);
}

static void library_reserves_from_many_topics(void **state)
{
    struct fixture *f = *state;
    char names[40][8];
    const char *topics[40];
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job;

    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        topics[i] = names[i];
    }
    (void)push(f, "t33", "x", 0);
    r.topics = topics;
    r.topic_count = 33; /* one too few */
    assert_int_equal(tarry_reserve(f->t, &r, &job), TARRY_ETIMEOUT);
    r.topic_count = 40;
    assert_int_equal(tarry_reserve(f->t, &r, &job), TARRY_OK);
    assert_string_equal(job->topic, "t33");
    tarry_job_free(job);
    assert_int_equal(stats(f, NULL).topics, 1); /* those that are empty do not stay */
}

/* ---- what is refused ---- */

static int push_of(struct fixture *f, struct tarry_push p)
{
    return tarry_push(f->t, &p, NULL);
}

static void library_refuses_nonsense(void **state)
{
    struct fixture *f = *state;
    struct tarry_push good = TARRY_PUSH_INIT;
    struct tarry_push p;
    struct tarry_change c = TARRY_CHANGE_INIT;
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job none = {.id = 1};
    struct tarry_job *job;
    static char body[(1 << 20) + 1];

    good.topic = "mail";
    p = good;
    p.topic = NULL;
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p.topic = "-mail";
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p = good;
    p.key = "";
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p.key = "a\nb";
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p.key = "\xff";
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p = good;
    p.delay_us = TARRY_DELAY_MAX + 1;
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p = good;
    p.body = body;
    p.body_len = sizeof body;
    assert_int_equal(push_of(f, p), TARRY_EFULL);
    p = good;
    p.conflict = (enum tarry_conflict)9;
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    p = good;
    p.size = sizeof p + 8; /* of a newer header */
    assert_int_equal(push_of(f, p), TARRY_EUNSUPPORTED);
    p.size = 0;
    assert_int_equal(push_of(f, p), TARRY_EINVAL);
    assert_int_equal(tarry_change(f->t, tarry_by_id(1), &c, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_reserve(f->t, &r, &job), TARRY_EINVAL);
    assert_int_equal(tarry_ack(f->t, &none), TARRY_EINVAL); /* without a lease it is no ack */
    assert_int_equal(tarry_peek(f->t, "mail", TARRY_RESERVED, &job), TARRY_ENOTFOUND);
    assert_int_equal(stats(f, NULL).pushed, 0);
}

/* NULL where there has to be something is refused, and no crash. */
static void library_refuses_null(void **state)
{
    struct fixture *f = *state;
    const struct tarry_which which = tarry_by_id(1);
    struct tarry_stats s = TARRY_STATS_INIT;
    struct tarry_change c = TARRY_CHANGE_INIT;
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_job held = {.id = 1, .lease = 1};
    struct tarry_job *job;

    p.topic = "mail";
    p.body = "x";
    p.body_len = 1;
    r.topic = "mail";
    c.fields = TARRY_FIELD_BODY;
    c.body = "x";
    c.body_len = 1;
    assert_int_equal(tarry_open(NULL, f->dir, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_push(f->t, NULL, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_change(f->t, which, NULL, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_reserve(f->t, NULL, &job), TARRY_EINVAL);
    assert_null(job);
    assert_int_equal(tarry_reserve(f->t, &r, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_find(f->t, which, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_peek(f->t, "mail", TARRY_READY, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_stats(f->t, NULL, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_backup(f->t, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_ack(f->t, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_touch(f->t, NULL, 0), TARRY_EINVAL);

    assert_int_equal(tarry_push(NULL, &p, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_cancel(NULL, which, false, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_reschedule(NULL, which, 1, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_change(NULL, which, &c, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_fire(NULL, which, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_kick(NULL, which, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_kick_topic(NULL, "mail", 1, NULL), TARRY_EINVAL);
    assert_int_equal(tarry_find(NULL, which, &job), TARRY_EINVAL);
    assert_null(job);
    assert_int_equal(tarry_peek(NULL, "mail", TARRY_READY, &job), TARRY_EINVAL);
    assert_int_equal(tarry_stats(NULL, NULL, &s), TARRY_EINVAL);
    assert_int_equal(tarry_reserve(NULL, &r, &job), TARRY_EINVAL);
    assert_null(job);
    assert_int_equal(tarry_ack(NULL, &held), TARRY_EINVAL);
    assert_int_equal(tarry_release(NULL, &held, 0), TARRY_EINVAL);
    assert_int_equal(tarry_bury(NULL, &held), TARRY_EINVAL);
    assert_int_equal(tarry_touch(NULL, &held, 0), TARRY_EINVAL);
    assert_int_equal(tarry_backup(NULL, "/tmp/x"), TARRY_EINVAL);
    assert_int_equal(stats(f, NULL).pushed, 0);
}

/* A struct of an older header is shorter: what it lacks is as by default. */
static void library_takes_older_structs(void **state)
{
    struct fixture *f = *state;
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_job *job;

    p.topic = "mail";
    p.priority = 5;
    p.ttr_us = 1;
    p.size = offsetof(struct tarry_push, priority);
    assert_int_equal(tarry_push(f->t, &p, NULL), TARRY_OK);
    assert_int_equal(tarry_peek(f->t, "mail", TARRY_READY, &job), TARRY_OK);
    assert_int_equal(job->priority, 1024);
    assert_int_equal(job->ttr_us, 60 * TARRY_SECOND);
    tarry_job_free(job);
}

static void library_has_one_owner(void **state)
{
    struct fixture *f = *state;
    struct tarry *other;
    int status;
    pid_t child;

    assert_int_equal(tarry_open(&other, f->dir, NULL), TARRY_ELOCKED);
    assert_null(other);
    (void)push(f, "mail", "x", TARRY_HOUR);
    child = fork();
    if (child == 0) {
        struct tarry_stats s = TARRY_STATS_INIT;
        bool ok =
            tarry_stats(f->t, NULL, &s) == TARRY_ELOCKED && tarry_close(f->t) == TARRY_ELOCKED;

#ifndef __SANITIZE_THREAD__ /* which allows no threads in such a child */
        ok = ok && tarry_open(&other, f->dir, NULL) == TARRY_ELOCKED;
#endif
        _exit(ok ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stats(f, NULL).delayed, 1);
}

/* ---- copies ---- */

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);

    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    (void)closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static void make_file(const char *folder, const char *name)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void library_makes_a_copy(void **state)
{
    struct fixture *f = *state;
    struct fixture copy = *f;
    uint64_t ids[50];
    struct tarry_job *job;
    char body[2000];

    memset(body, 'x', sizeof body);
    body[sizeof body - 1] = '\0';
    (void)snprintf(copy.dir, sizeof copy.dir, "%s/copy", f->top);
    for (unsigned i = 0; i < 50; i++) {
        ids[i] = push(f, "mail", body, i % 2 * TARRY_DAY);
    }
    assert_int_equal(tarry_cancel(f->t, tarry_by_id(ids[0]), false, NULL), TARRY_OK);
    assert_int_equal(tarry_backup(f->t, copy.dir), TARRY_OK);
    assert_int_equal(tarry_backup(f->t, copy.dir), TARRY_EEXISTS);
    (void)push(f, "mail", "later", 0);

    assert_int_equal(tarry_open(&copy.t, copy.dir, NULL), TARRY_OK); /* beside the store */
    assert_int_equal(stats(&copy, "mail").ready, 24);
    assert_int_equal(stats(&copy, "mail").delayed, 25);
    assert_int_equal(stats(f, "mail").ready, 25);
    assert_int_equal(tarry_find(copy.t, tarry_by_id(ids[0]), &job), TARRY_ENOTFOUND);
    assert_int_equal(tarry_find(copy.t, tarry_by_id(ids[49]), &job), TARRY_OK);
    assert_string_equal(job->body, body);
    tarry_job_free(job);
    assert_true(push(&copy, "mail", "x", 0) > ids[49] + (UINT64_C(1) << 31)); /* not given twice */
    assert_int_equal(tarry_close(copy.t), TARRY_OK);
    assert_int_equal(tarry_open(&copy.t, copy.dir, NULL), TARRY_OK);
    assert_int_equal(stats(&copy, "mail").ready, 25);
    assert_int_equal(tarry_close(copy.t), TARRY_OK);
    remove_folder(copy.dir);
}

static void library_refuses_half_a_copy(void **state)
{
    struct fixture *f = *state;
    struct tarry *other;
    char path[160];

    (void)push(f, "mail", "x", 0);
    (void)snprintf(path, sizeof path, "%s/copy", f->top);
    assert_int_equal(tarry_backup(f->t, path), TARRY_OK);
    make_file(path, "backup.part"); /* as if it had been killed */
    assert_int_equal(tarry_open(&other, path, NULL), TARRY_EDAMAGED);
    assert_int_equal(tarry_backup(f->t, path), TARRY_OK); /* it begins anew */
    assert_int_equal(tarry_open(&other, path, NULL), TARRY_OK);
    assert_int_equal(tarry_close(other), TARRY_OK);
    remove_folder(path);

    assert_int_equal(tarry_backup(f->t, "/no/such/folder"), TARRY_ENOTFOUND);
    assert_int_equal(tarry_backup(f->t, ""), TARRY_EINVAL);
    assert_int_equal(tarry_backup(f->t, f->dir), TARRY_EEXISTS); /* the store itself */
}

/* ---- threads ---- */

static void *wait_for_job(void *arg)
{
    struct fixture *f = arg;
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job;
    int err;

    r.topic = "mail";
    r.wait_us = TARRY_FOREVER;
    err = tarry_reserve(f->t, &r, &job);
    tarry_job_free(job);
    return (void *)(intptr_t)err;
}

static void library_wakes_who_waits(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[3];
    unsigned got = 0;
    unsigned closed = 0;

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_job, f), 0);
    }
    while (stats(f, NULL).waiting < 3) {
    }
    (void)push(f, "mail", "x", 0);
    while (stats(f, NULL).reserved < 1) {
    }
    assert_int_equal(tarry_close(f->t), TARRY_OK);
    for (unsigned i = 0; i < 3; i++) {
        void *said;

        assert_int_equal(pthread_join(threads[i], &said), 0);
        got += (intptr_t)said == TARRY_OK;
        closed += (intptr_t)said == TARRY_ECLOSED;
    }
    assert_int_equal(got, 1);
    assert_int_equal(closed, 2);
    assert_int_equal(tarry_open(&f->t, f->dir, NULL), TARRY_OK);
}

static void library_codes_are_those_of_the_engine(void **state)
{
    static const struct {
        int code;
        const char *name;
    } codes[] = {
#define CODE(name) {name, #name}
        CODE(TARRY_OK),        CODE(TARRY_EIO),     CODE(TARRY_EDAMAGED),     CODE(TARRY_EFULL),
        CODE(TARRY_ENOTFOUND), CODE(TARRY_ESTATE),  CODE(TARRY_ENOMEM),       CODE(TARRY_ENOSPC),
        CODE(TARRY_ETIMEOUT),  CODE(TARRY_ELOCKED), CODE(TARRY_EVERSION),     CODE(TARRY_EINVAL),
        CODE(TARRY_EDRAINING), CODE(TARRY_EPERM),   CODE(TARRY_ESOON),        CODE(TARRY_EEXISTS),
        CODE(TARRY_EPAUSED),   CODE(TARRY_EQUOTA),  CODE(TARRY_EUNSUPPORTED), CODE(TARRY_EREADONLY),
        CODE(TARRY_ECLOSED),   CODE(TARRY_EAWAY),   CODE(TARRY_EUNSURE),
    };
    int count = (int)(sizeof codes / sizeof codes[0]);

    (void)state;
    for (int i = 0; i < count; i++) {
        assert_int_equal(codes[i].code, -i);
        assert_string_equal(tarry_errname(codes[i].code), codes[i].name);
        assert_true(strlen(tarry_strerror(codes[i].code)) > 1);
    }
    assert_string_equal(tarry_errname(-count), "TARRY_EUNKNOWN"); /* else tarry.h lacks one */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(library_hands_out_and_takes_back),
        TEST(library_is_never_early),
        TEST(library_keeps_what_it_acknowledged),
        TEST(library_tells_the_truth),
        TEST(library_reschedules_and_changes),
        TEST(library_has_all_fields),
        TEST(library_kicks_a_topic),
        TEST(library_has_keys),
        TEST(library_reserves_from_many_topics),
        TEST(library_refuses_nonsense),
        TEST(library_refuses_null),
        TEST(library_takes_older_structs),
        TEST(library_has_one_owner),
        TEST(library_makes_a_copy),
        TEST(library_refuses_half_a_copy),
        TEST(library_wakes_who_waits),
        cmocka_unit_test(library_codes_are_those_of_the_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
