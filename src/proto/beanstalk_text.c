/*
 * The statistics, as YAML: the keys of beanstalkd 1.13 in its order, since some clients want each
 * of them, and ours behind them, since all clients pass over keys they do not know. Names are
 * quoted, lists are not.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/beanstalk_inner.h"

#include <inttypes.h>
#include <string.h>

#define US_PER_S UINT64_C(1000000)

enum {
    TEXT_MAX = 4096, /* the longest has some 2,000 bytes */
    ROW_COST = 15,   /* units of work: fifteen rows or so */
    ALL_COST = 60,
};

static void say_yaml(struct tr_bs_session *s, const char *text)
{
    tr_bs_say_text(s, text, strlen(text));
}

/* Whole seconds that are left: some time has passed since the full ones, if ever so little. */
static uint64_t seconds_left(uint64_t left_us)
{
    return left_us > 0 ? (left_us - 1) / US_PER_S : 0;
}

void tr_bs_text_stats_job(struct tr_bs_session *s)
{
    static const char *const states[] = {[TR_DELAYED] = "delayed",
                                         [TR_READY] = "ready",
                                         [TR_RESERVED] = "reserved",
                                         [TR_DEAD] = "buried"};
    const struct tr_job_view *job = &s->req.out.job;
    uint64_t age_us = job->age_us;
    char text[TEXT_MAX];

    s->cost += ROW_COST;
    if (s->req.out.status != TARRY_OK) {
        tr_bs_say_error(s, s->req.out.status);
        return;
    }
    tr_text(text, sizeof text,
            "---\n"
            "id: %" PRIu64 "\n"
            "tube: \"%.*s\"\n"
            "state: %s\n"
            "pri: %" PRIu32 "\n"
            "age: %" PRIu64 "\n"
            "delay: %" PRIu64 "\n"
            "ttr: %" PRIu64 "\n"
            "time-left: %" PRIu64 "\n"
            "file: 0\n"
            "reserves: %" PRIu32 "\n"
            "timeouts: %" PRIu32 "\n"
            "releases: %" PRIu32 "\n"
            "buries: %" PRIu32 "\n"
            "kicks: %" PRIu32 "\n",
            job->id, (int)s->req.out.name_len, s->req.out.name, states[job->state], job->priority,
            age_us / US_PER_S, job->delay_us / US_PER_S, job->ttr_us / US_PER_S,
            seconds_left(job->left_us), job->reserves, job->timeouts, job->releases, job->buries,
            job->kicks);
    say_yaml(s, text);
}

void tr_bs_text_stats_tube(struct tr_bs_session *s)
{
    const struct tr_topic_stat *t = &s->req.out.stat;
    char text[TEXT_MAX];

    s->cost += ROW_COST;
    if (s->req.out.status != TARRY_OK) {
        tr_bs_say_error(s, s->req.out.status);
        return;
    }
    tr_text(text, sizeof text,
            "---\n"
            "name: \"%.*s\"\n"
            "current-jobs-urgent: %" PRIu64 "\n"
            "current-jobs-ready: %" PRIu64 "\n"
            "current-jobs-reserved: %" PRIu64 "\n"
            "current-jobs-delayed: %" PRIu64 "\n"
            "current-jobs-buried: %" PRIu64 "\n"
            "total-jobs: %" PRIu64 "\n"
            "current-using: %" PRIu64 "\n"
            "current-watching: %" PRIu64 "\n"
            "current-waiting: %" PRIu64 "\n"
            "cmd-delete: %" PRIu64 "\n"
            "cmd-pause-tube: %" PRIu64 "\n"
            "pause: %" PRIu64 "\n"
            "pause-time-left: %" PRIu64 "\n",
            (int)s->req.out.name_len, s->req.out.name, t->urgent, t->ready, t->reserved, t->delayed,
            t->dead, t->pushed, t->holds[TR_HOLD_USE], t->holds[TR_HOLD_WATCH], t->waiting,
            t->deleted, t->pauses, t->pause_left_us > 0 ? t->pause_us / US_PER_S : 0,
            seconds_left(t->pause_left_us));
    say_yaml(s, text);
}

/* Adds "key: number" for every count that beanstalkd has. */
static size_t write_counts(const struct tr_bs_port *p, char *text, size_t room)
{
    static const struct {
        enum tr_bs_command command;
        const char *key;
    } rows[] = {
        {TR_BS_PUT, "put"},
        {TR_BS_PEEK, "peek"},
        {TR_BS_PEEK_READY, "peek-ready"},
        {TR_BS_PEEK_DELAYED, "peek-delayed"},
        {TR_BS_PEEK_BURIED, "peek-buried"},
        {TR_BS_RESERVE, "reserve"},
        {TR_BS_RESERVE_TIMEOUT, "reserve-with-timeout"},
        {TR_BS_DELETE, "delete"},
        {TR_BS_RELEASE, "release"},
        {TR_BS_USE, "use"},
        {TR_BS_WATCH, "watch"},
        {TR_BS_IGNORE, "ignore"},
        {TR_BS_BURY, "bury"},
        {TR_BS_KICK, "kick"},
        {TR_BS_TOUCH, "touch"},
        {TR_BS_STATS, "stats"},
        {TR_BS_STATS_JOB, "stats-job"},
        {TR_BS_STATS_TUBE, "stats-tube"},
        {TR_BS_LIST_TUBES, "list-tubes"},
        {TR_BS_LIST_TUBE_USED, "list-tube-used"},
        {TR_BS_LIST_TUBES_WATCHED, "list-tubes-watched"},
        {TR_BS_PAUSE_TUBE, "pause-tube"},
    };
    size_t at = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tr_text(text + at, room - at, "cmd-%s: %" PRIu64 "\n", rows[i].key,
                p->counts[rows[i].command]);
        at += strlen(text + at);
    }
    return at;
}

static size_t write_jobs(const struct tr_bs_session *s, char *text, size_t room)
{
    const struct tr_topic_stat *t = &s->req.out.stat;

    tr_text(text, room,
            "---\n"
            "current-jobs-urgent: %" PRIu64 "\n"
            "current-jobs-ready: %" PRIu64 "\n"
            "current-jobs-reserved: %" PRIu64 "\n"
            "current-jobs-delayed: %" PRIu64 "\n"
            "current-jobs-buried: %" PRIu64 "\n",
            t->urgent, t->ready, t->reserved, t->delayed, t->dead);
    return strlen(text);
}

static size_t write_clients(const struct tr_bs_session *s, char *text, size_t room)
{
    const struct tr_topic_stat *t = &s->req.out.stat;
    const struct tr_bs_port *p = s->port;

    tr_text(text, room,
            "job-timeouts: %" PRIu64 "\n"
            "total-jobs: %" PRIu64 "\n"
            "max-job-size: %" PRIu32 "\n"
            "current-tubes: %" PRIu64 "\n"
            "current-connections: %" PRIu64 "\n"
            "current-producers: %" PRIu64 "\n"
            "current-workers: %" PRIu64 "\n"
            "current-waiting: %" PRIu64 "\n"
            "total-connections: %" PRIu64 "\n",
            t->timeouts, t->pushed, p->body_max, s->req.out.number, p->sessions, p->producers,
            p->workers, t->waiting, p->sessions_ever);
    return strlen(text);
}

static size_t write_process(const struct tr_bs_port *p, char *text, size_t room)
{
    struct tr_bs_usage u = {0};

    p->usage(p->ctx, &u);
    tr_text(text, room,
            "pid: %" PRIu64 "\n"
            "version: \"%s\"\n"
            "rusage-utime: %" PRIu64 ".%06" PRIu64 "\n"
            "rusage-stime: %" PRIu64 ".%06" PRIu64 "\n"
            "uptime: %" PRIu64 "\n"
            "binlog-oldest-index: %" PRIu64 "\n"
            "binlog-current-index: %" PRIu64 "\n"
            "binlog-records-migrated: %" PRIu64 "\n"
            "binlog-records-written: %" PRIu64 "\n"
            "binlog-max-size: %" PRIu64 "\n"
            "draining: %s\n"
            "id: %s\n"
            "hostname: \"%s\"\n"
            "os: \"%s\"\n"
            "platform: \"%s\"\n"
            "tarry-sync: %s\n"
            "tarry-loop-stalls: %" PRIu64 "\n"
            "tarry-loop-longest-us: %" PRIu64 "\n",
            p->pid, p->version, u.user_us / US_PER_S, u.user_us % US_PER_S, u.system_us / US_PER_S,
            u.system_us % US_PER_S, u.uptime_us / US_PER_S, u.log_oldest, u.log_newest,
            u.log_migrated, u.log_written, u.log_file_bytes, u.draining ? "true" : "false", p->id,
            p->host, p->os, p->platform, p->sync, u.stalls, u.longest_us);
    return strlen(text);
}

void tr_bs_text_stats(struct tr_bs_session *s)
{
    char text[TEXT_MAX];
    size_t at;

    s->cost += ALL_COST;
    if (s->req.out.status != TARRY_OK) {
        tr_bs_say_error(s, s->req.out.status);
        return;
    }
    at = write_jobs(s, text, sizeof text);
    at += write_counts(s->port, text + at, sizeof text - at);
    at += write_clients(s, text + at, sizeof text - at);
    at += write_process(s->port, text + at, sizeof text - at);
    tr_bs_say_text(s, text, at);
}
