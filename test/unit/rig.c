/*
 * The rig: an engine, a disk, a clock and the loop that a server would be.
 *
 * The loop is the simplest one that keeps the contract: after anything that happened a turn, until
 * the engine wants none before the present moment and the disk has nothing left to do.
 */

#include "test/unit/rig.h"

#include "base/crc.h"
#include "base/err.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TURNS_MAX = 200000, JOBS_MAX = 4096 };

static void on_io(void *ctx, struct tr_io *io)
{
    struct rig *rig = ctx;

    tr_engine_io_done(rig->e, io, rig->now);
}

static bool sim_step(void *ctx)
{
    struct rig *rig = ctx;

    return sim_disk_step(rig->disk);
}

static void on_durable(void *ctx, uint64_t batch)
{
    struct rig *rig = ctx;

    assert_true(batch > rig->durable);
    rig->durable = batch;
    rig->durable_calls++;
}

static void on_closed(void *ctx, uint64_t batch)
{
    struct rig *rig = ctx;

    rig->closed = batch;
    rig->closed_calls++;
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    struct rig *rig = ctx;

    rig->notes[kind]++;
    if (kind != TR_NOTE_INFO) {
        (void)snprintf(rig->note, sizeof rig->note, "%s", text);
    }
}

void rig_init(struct rig *rig)
{
    *rig = (struct rig){.now = {RIG_WALL_US, RIG_SECOND}, .seed = 1};
    tr_mem_init(&rig->mem, 0);
    rig->disk = sim_disk_new(on_io, rig);
    sim_disk_reset(rig->disk, 1);
    rig->port = sim_disk_port(rig->disk);
    rig->step = sim_step;
    rig->step_ctx = rig;
    tr_engine_config_init(&rig->config, &rig->mem);
    rig->config.slot_bytes = 65536;
    rig->config.slots_max = 16;
    rig->config.batch_bytes = 16384;
    rig->config.body_max = 16384;
    rig->config.rid_block = 1024;
    rig->config.checkpoint_slack = 65536;
    rig->config.near_us = RIG_NO_FAR_US;
    rig->config.scrub_every_us = 0;
    rig->config.ctx = rig;
    rig->config.durable = on_durable;
    rig->config.closed = on_closed;
    rig->config.notice = on_notice;
}

void rig_fini(struct rig *rig)
{
    if (rig->disk != NULL) {
        sim_disk_kill(rig->disk);
    }
    tr_engine_free(rig->e);
    if (rig->disk != NULL) {
        sim_disk_free(rig->disk);
    }
    assert_int_equal(rig->mem.used_bytes, 0);
    *rig = (struct rig){0};
}

int rig_try_open(struct rig *rig)
{
    int err;

    assert_null(rig->e);
    err = tr_engine_open(&rig->e, &rig->config, rig->port, rig->seed++, rig->now);
    assert_true((err == TARRY_OK) == (rig->e != NULL));
    rig->durable = err == TARRY_OK ? rig_engine_stat(rig).durable_batch : 0;
    return err;
}

void rig_open(struct rig *rig)
{
    int err = rig_try_open(rig);

    if (err != TARRY_OK) {
        fail_msg("open: %s; %s", tarry_errname(err), rig->note);
    }
    assert_true(tr_engine_ok(rig->e));
}

static void forget_engine(struct rig *rig)
{
    tr_engine_free(rig->e);
    rig->e = NULL;
    assert_int_equal(rig->mem.used_bytes, 0);
}

void rig_close(struct rig *rig)
{
    rig_settle(rig);
    assert_int_equal(tr_engine_close(rig->e, rig->now), TARRY_OK);
    forget_engine(rig);
}

void rig_power_cut(struct rig *rig)
{
    sim_disk_power_cut(rig->disk);
    forget_engine(rig);
}

void rig_kill(struct rig *rig)
{
    assert_int_equal(sim_disk_pending(rig->disk), 0);
    sim_disk_kill(rig->disk);
    forget_engine(rig);
}

uint64_t rig_turn(struct rig *rig)
{
    return tr_engine_turn(rig->e, rig->now);
}

uint64_t rig_settle(struct rig *rig)
{
    for (unsigned i = 0; i < TURNS_MAX; i++) {
        uint64_t next = rig_turn(rig);

        if (!rig->step(rig->step_ctx) && next > rig->now.boot_us) {
            assert_true(tr_engine_failed(rig->e) || tr_engine_ok(rig->e));
            return next;
        }
    }
    fail_msg("the engine does not come to rest");
    return 0;
}

static void advance(struct rig *rig, uint64_t us)
{
    rig->now.wall_us += us;
    rig->now.boot_us += us;
}

void rig_pass(struct rig *rig, uint64_t us)
{
    uint64_t end = rig->now.boot_us + us;
    uint64_t next;

    while ((next = rig_settle(rig)) <= end) {
        advance(rig, next - rig->now.boot_us);
    }
    advance(rig, end - rig->now.boot_us);
    rig_settle(rig);
}

/* ---- asking ---- */

static void on_done(struct tr_req *r)
{
    struct ask *a = r->ctx;

    assert_int_equal(a->done, 0);
    a->done = ++a->rig->asked;
    a->durable = a->rig->durable;
    a->has_body = r->out.job.body != NULL;
    if (a->has_body) {
        assert_true(r->out.job.body_len <= RIG_BODY_MAX);
        memcpy(a->body, r->out.job.body, r->out.job.body_len);
    }
    memset(a->tag, 0, sizeof a->tag);
    if (r->out.job.tag_len != 0) {
        assert_true(r->out.job.tag_len < sizeof a->tag);
        memcpy(a->tag, r->out.job.tag, r->out.job.tag_len);
    }
    a->has_backoff = r->out.job.backoff != NULL;
    if (a->has_backoff) {
        a->backoff = (struct tr_backoff){0};
        memcpy(&a->backoff, r->out.job.backoff, tr_backoff_size(r->out.job.backoff));
    }
    if (r->out.stat.policy != NULL) {
        a->rig->policy = *r->out.stat.policy;
        if (a->rig->policy.deliver != NULL) {
            memcpy(a->rig->policy_text, a->rig->policy.deliver, a->rig->policy.deliver_len);
            a->rig->policy.deliver = a->rig->policy_text;
        }
    }
    for (unsigned i = 0; i < r->out.forecast.count; i++) {
        assert_true(i < RIG_COUNTS_MAX);
        a->counts[i] = r->out.forecast.counts[i];
    }
    if (r->out.status == TARRY_OK && r->out.name != NULL) {
        assert_true(r->out.name_len < sizeof a->name);
        memcpy(a->name, r->out.name, r->out.name_len);
        a->name[r->out.name_len] = '\0';
    }
}

struct ask rig_ask(enum tr_op op)
{
    return (struct ask){.req = {.op = op, .done = on_done, .priority = 100, .ttr_us = RIG_TTR_US}};
}

void rig_submit(struct rig *rig, struct ask *a)
{
    a->rig = rig;
    a->done = 0;
    a->req.ctx = a;
    tr_engine_submit(rig->e, &a->req, rig->now);
}

int rig_do(struct rig *rig, struct ask *a)
{
    rig_submit(rig, a);
    rig_settle(rig);
    assert_true(a->done != 0);
    assert_true(a->req.out.gate <= rig->durable || tr_engine_failed(rig->e));
    return a->req.out.status;
}

uint32_t rig_hold(struct rig *rig, const char *name)
{
    struct ask a = rig_ask(TR_OP_HOLD_TOPIC);

    a.req.name = name;
    a.req.name_len = strlen(name);
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    assert_string_equal(a.name, name);
    return a.req.out.topic;
}

void rig_policy(struct rig *rig, uint32_t topic, const struct tr_policy *p, unsigned fields)
{
    struct ask a = rig_ask(TR_OP_POLICY);
    struct tr_policy given = *p;

    given.given = fields;
    a.req.topic = topic;
    a.req.policy = &given;
    a.req.fields = fields;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

uint64_t rig_push(struct rig *rig, uint32_t topic, uint64_t delay_us)
{
    struct ask a = rig_ask(TR_OP_PUSH);
    char body[24];

    a.req.topic = topic;
    a.req.delay_us = delay_us;
    a.req.body = (uint8_t *)body;
    a.req.body_len = (size_t)snprintf(body, sizeof body, "%" PRIu64, rig_engine_stat(rig).next_rid);
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

uint64_t rig_push_body(struct rig *rig, uint32_t topic, uint64_t delay_us, size_t len)
{
    struct ask a = rig_ask(TR_OP_PUSH);
    uint8_t body[RIG_BODY_MAX];

    memset(body, (int)('a' + rig_engine_stat(rig).next_rid % 26), len);
    a.req.topic = topic;
    a.req.delay_us = delay_us;
    a.req.body = body;
    a.req.body_len = len;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

uint64_t rig_reserve(struct rig *rig, uint32_t topic, uint64_t holder)
{
    struct ask a = rig_ask(TR_OP_RESERVE);
    int status;

    a.req.topics = &topic;
    a.req.topic_count = 1;
    a.req.holder = holder;
    a.req.ttr_us = 0;
    status = rig_do(rig, &a);
    assert_true(status == TARRY_OK || status == TARRY_ETIMEOUT);
    assert_true(a.has_body == (status == TARRY_OK));
    return status == TARRY_OK ? a.req.out.job.id : 0;
}

int rig_with(struct rig *rig, enum tr_op op, uint64_t id, uint64_t holder)
{
    struct ask a = rig_ask(op);

    a.req.id = id;
    a.req.holder = holder;
    return rig_do(rig, &a);
}

static int stat_job(struct rig *rig, uint64_t id, struct tr_job_view *v)
{
    struct ask a = rig_ask(TR_OP_STAT_JOB);
    int status;

    a.req.id = id;
    status = rig_do(rig, &a);
    *v = a.req.out.job;
    return status;
}

enum tr_job_state rig_state(struct rig *rig, uint64_t id)
{
    struct tr_job_view v;

    return stat_job(rig, id, &v) == TARRY_OK ? v.state : 0;
}

struct tr_job_view rig_view(struct rig *rig, uint64_t id)
{
    struct tr_job_view v;

    assert_int_equal(stat_job(rig, id, &v), TARRY_OK);
    return v;
}

struct tr_topic_stat rig_stat(struct rig *rig, uint32_t topic)
{
    struct ask a = rig_ask(topic != 0 ? TR_OP_STAT_TOPIC : TR_OP_STAT);

    a.req.topic = topic;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.stat;
}

struct tr_engine_stat rig_engine_stat(const struct rig *rig)
{
    struct tr_engine_stat s;

    tr_engine_stat(rig->e, &s);
    return s;
}

/* ---- facts ---- */

struct facts {
    struct tr_job_fact all[JOBS_MAX];
    size_t count;
};

static void add_fact(void *ctx, const struct tr_job_fact *fact)
{
    struct facts *facts = ctx;

    assert_true(facts->count < JOBS_MAX);
    facts->all[facts->count++] = *fact;
}

static int by_id(const void *a, const void *b)
{
    const struct tr_job_fact *x = a;
    const struct tr_job_fact *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static size_t put_fact(struct rig *rig, char *at, size_t room, const struct tr_job_fact *f)
{
    struct ask a = rig_ask(TR_OP_PEEK);
    int len;

    a.req.id = f->id;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    len = snprintf(at, room,
                   "id=%" PRIu64 " rid=%" PRIu64 " topic=%.*s priority=%u due=%" PRIu64
                   " created=%" PRIu64 " delay=%" PRIu64 " ttr=%" PRIu64
                   " reserves=%u timeouts=%u releases=%u buries=%u kicks=%u dead=%" PRIu64
                   " lease=%" PRIu64 " lease_end=%" PRIu64 " body=%u:%08x\n",
                   f->id, f->rid, (int)f->topic_len, f->topic, f->priority, f->due_us,
                   f->created_us, f->delay_us, f->ttr_us, f->reserves, f->timeouts, f->releases,
                   f->buries, f->kicks, f->dead_seq, f->lease, f->lease_end_us, f->body_len,
                   tr_crc(0, a.body, a.req.out.job.body_len));
    assert_true(len > 0 && (size_t)len < room);
    return (size_t)len;
}

/* A far job is in memory for a while after somebody has looked at it. */
static void bring_back(struct rig *rig, uint64_t id)
{
    struct ask a = rig_ask(TR_OP_STAT_JOB);

    a.req.id = id;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

char *rig_facts(struct rig *rig)
{
    struct facts *facts = calloc(1, sizeof *facts);
    char *text = calloc(1, RIG_TEXT_MAX);
    size_t len = 0;

    assert_non_null(facts);
    assert_non_null(text);
    tr_engine_facts(rig->e, add_fact, facts);
    for (size_t i = 0; i < facts->count; i++) {
        bring_back(rig, facts->all[i].id);
    }
    facts->count = 0;
    tr_engine_facts(rig->e, add_fact, facts);
    qsort(facts->all, facts->count, sizeof facts->all[0], by_id);
    for (size_t i = 0; i < facts->count; i++) {
        len += put_fact(rig, text + len, RIG_TEXT_MAX - len, &facts->all[i]);
    }
    free(facts);
    return text;
}
