/*
 * A copy is asked for now and then. When its checkpoint begins, the engine says at which batch, and
 * the facts of that batch are set aside. What is in the folder is opened on a disk of its own
 * whenever a copy has been answered, and after each crash:
 *
 *     success was told        it opens, and has exactly those facts
 *     it was cut short        it is refused by its mark; or it was whole already, and opens to
 *                             them, unless a power cut brings the mark back
 *     nothing is there        nothing is asked
 *
 * The store itself goes on under the eyes of the oracle, as ever.
 */
#include "backup.h"

#include "base/err.h"
#include "engine/backup.h"
#include "run.h"

#include <inttypes.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(&r->report, promise, __VA_ARGS__)

static const char folder[] = "copy";

/* Nothing of the copy's own engine is ever submitted: it is opened and closed. */
static void on_io_done(void *ctx, struct tr_io *io)
{
    (void)ctx;
    (void)io;
    tr_check_failed("an engine that only opens", __FILE__, __LINE__);
}

void sim_backup_init(struct sim_backup *b, struct sim_run *r)
{
    b->disk = sim_disk_new(on_io_done, r);
    sim_prefix_init(&b->prefix, &r->oracle.model, &r->report);
    b->prefix.promise = "I28";
}

void sim_backup_fini(struct sim_backup *b)
{
    sim_rows_free(&b->rows);
    sim_prefix_fini(&b->prefix);
    sim_disk_free(b->disk);
}

/* Nothing is known of the next one yet; of an empty store nothing ever will be. */
static void forget(struct sim_backup *b)
{
    b->batch = 0;
    b->guessed = false;
    b->rows.count = 0;
    for (unsigned i = 0; i < SIM_TOPICS_MAX; i++) {
        b->rows.policies[i] = sim_policy_none();
        b->rows.bytes[i] = 0;
    }
}

void sim_backup_reset(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;

    forget(b);
    b->pending = false;
    b->answered = false;
    b->whole = false;
    b->prefix.disk = b->disk;
    b->prefix.hour_us = r->params.hour_us;
    sim_prefix_reset(&b->prefix);
}

static bool has_mark(const struct sim_run *r)
{
    return sim_disk_exists(r->disk, SIM_ASIDE TR_BACKUP_MARK);
}

static void on_done(struct tr_req *req)
{
    struct sim_backup *b = req->ctx;

    b->pending = false;
    b->answered = true;
}

void sim_backup_ask(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;

    if (b->pending || tr_engine_failed(r->engine)) {
        return;
    }
    sim_backup_turned(r); /* an answer that came after the last turn */
    /* One that nobody was told of any more may be whole, too. */
    if (!b->whole && sim_disk_count_names(r->disk, SIM_ASIDE) != 0 && !has_mark(r)) {
        b->whole = true;
        b->guessed = true;
    }
    if (b->whole && sim_dice(&r->rng, 80)) {
        sim_disk_clear_aside(r->disk);
        b->whole = false;
    }
    b->pending = true;
    b->faulty = false;
    b->answered = false;
    if (!b->whole) {
        forget(b);
    }
    b->req = (struct tr_req){
        .op = TR_OP_BACKUP, .done = on_done, .ctx = b, .name = folder, .name_len = strlen(folder)};
    sim_oracle_begin(&r->oracle, r->now);
    tr_engine_submit(r->engine, &b->req, r->now);
    sim_oracle_end(&r->oracle);
}

void sim_backup_leave(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;

    if (b->pending && r->engine != NULL) {
        tr_engine_abandon(r->engine, &b->req, r->now);
    }
    b->pending = false;
}

void sim_backup_crashed(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;

    b->whole = b->whole || (b->answered && b->req.out.status == TARRY_OK);
    b->answered = false;
    b->pending = false;
}

/* What the copy opens to, on a disk and with memory of its own. */
static int open_copy(struct sim_run *r, struct tr_mem *mem, struct tr_engine **e)
{
    struct tr_engine_config c;

    tr_mem_init(mem, 0);
    sim_run_config(r, &c);
    c.mem = mem;
    c.ctx = NULL;
    c.durable = NULL;
    c.closed = NULL;
    c.notice = NULL;
    return tr_engine_open(e, &c, sim_disk_port(r->backup.disk), r->seed, r->now);
}

/* It is a store like any other: closed and opened again it is the same, and gives other ids. */
static void look(struct sim_run *r, struct tr_engine *e, bool again)
{
    struct sim_backup *b = &r->backup;
    struct tr_engine_stat copy;
    struct tr_engine_stat store = {0};

    tr_engine_stat(e, &copy);
    if (r->engine != NULL) {
        tr_engine_stat(r->engine, &store);
    }
    if (!again && copy.durable_batch != b->batch) {
        FAIL("I28", "the copy opens to batch %" PRIu64 ", not %" PRIu64, copy.durable_batch,
             b->batch);
    }
    if (copy.next_rid <= store.next_rid || copy.epoch <= store.epoch) {
        FAIL("I28", "the copy gives ids and leases that the store gives, too");
    }
    sim_prefix_same(&b->prefix, e, &b->rows);
}

static void open_and_look(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;
    struct tr_mem mem;
    struct tr_engine *e;
    int err = open_copy(r, &mem, &e);

    if (b->guessed && has_mark(r)) {
        b->whole = false;
        b->guessed = false;
    }
    if (err != TARRY_OK && (b->whole || !has_mark(r) || err != TARRY_EDAMAGED)) {
        FAIL("I28", "a copy that is %s is refused with %s", b->whole ? "whole" : "not whole",
             tarry_errname(err));
    }
    if (err != TARRY_OK) {
        return;
    }
    look(r, e, false);
    if (tr_engine_close(e, r->now) != TARRY_OK) {
        FAIL("I28", "the copy cannot be closed");
    }
    tr_engine_free(e);
    if (!r->report.failed && open_copy(r, &mem, &e) == TARRY_OK) {
        look(r, e, true);
        sim_disk_kill(b->disk);
        tr_engine_free(e);
    } else {
        FAIL("I28", "the copy opens only once");
    }
    if (mem.used_bytes != 0) {
        FAIL("I18", "the copy's engine does not give all memory back");
    }
    b->made++;
}

void sim_backup_check(struct sim_run *r)
{
    size_t damaged;

    (void)sim_disk_damage(r->disk, &damaged);
    if (damaged != 0 || sim_run_stopped(r)) {
        return; /* links share their bytes */
    }
    sim_disk_reset(r->backup.disk, r->seed);
    if (sim_disk_copy_aside(r->disk, r->backup.disk) != 0) {
        open_and_look(r);
    } else if (r->backup.whole) {
        FAIL("I28", "the copy is gone");
    }
}

static void check_answer(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;
    int status = b->req.out.status;
    bool there = sim_disk_count_names(r->disk, SIM_ASIDE) != 0 && !has_mark(r);
    bool may_fail = r->params.mem_small || b->faulty || r->params.full ||
                    r->params.enospc_ppm != 0 || sim_disk_dead(r->disk);

    b->answered = false;
    if (b->whole) {
        if (status == TARRY_OK) {
            FAIL("I28", "a copy was made over another one");
        } else if (status != TARRY_EEXISTS && !may_fail) {
            FAIL("I28", "a folder that is not empty is refused with %s", tarry_errname(status));
        }
        return;
    }
    if (status == TARRY_EEXISTS && there) {
        status = TARRY_OK; /* one that nobody waited for was made before it */
        b->guessed = true;
    }
    if (status != TARRY_OK && !may_fail) {
        FAIL("I28", "the copy was refused with %s", tarry_errname(status));
    }
    b->whole = status == TARRY_OK;
    if (!sim_disk_dead(r->disk)) {
        sim_backup_check(r);
    }
}

void sim_backup_turned(struct sim_run *r)
{
    struct sim_backup *b = &r->backup;
    struct tr_engine_stat stat;
    const struct sim_rows *rows;

    b->faulty = b->faulty || sim_run_faulty(r);
    if (b->answered) {
        check_answer(r);
    }
    if (r->params.event_weight[SIM_EV_BACKUP] == 0 || b->whole) {
        return;
    }
    tr_engine_stat(r->engine, &stat);
    if (stat.backup_batch != 0 && stat.backup_batch != b->batch) {
        rows = sim_prefix_find(&r->oracle.prefix, stat.backup_batch);
        TR_CHECK(rows != NULL);
        sim_rows_copy(&b->rows, rows);
        b->batch = stat.backup_batch;
    }
}
