/*
 * What check and --repair do, on the disk of a run between two starts.
 *
 *     before a start       opened read-only and verified: nothing may be written, and nothing found
 *                          unless something is damaged; a damaged block must be found
 *     when it is refused   repaired: then it opens and verifies, every job in it is one that was
 *                          pushed, body and all; who was surely gone is not there again, and who
 *                          was surely there is there, unless something was told that excuses it
 */

#include "run.h"

#include "base/err.h"
#include "engine/survey.h"
#include "engine/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(&r->report, promise, __VA_ARGS__)

struct offline {
    struct sim_run *r;
    struct tr_mem mem;
    struct tr_engine *e;
    unsigned findings;
    unsigned lost;   /* of those, jobs that are lost, */
    unsigned twice;  /* or may be there again */
    unsigned harm;   /* of those, in the file that was harmed, */
    unsigned copies; /* or in a manifest */
    char last[128];
    struct sim_faults faults; /* of the disk, put aside */
    uint64_t ops;
    uint64_t durable;
    bool weak;  /* gates say nothing: what was answered may be gone with the power */
    bool named; /* the group that was harmed is part of the store */
};

static void found(void *ctx, const struct tr_finding *f)
{
    struct offline *o = ctx;

    o->findings++;
    o->lost += f->fate == TR_FATE_LOST;
    o->twice += f->fate == TR_FATE_TWICE || (f->fate == TR_FATE_LOST && f->id_last != 0) ||
                (f->fate == TR_FATE_LOST && f->id == 0);
    o->copies += strncmp(f->file, "man.", 4) == 0;
    o->harm += strcmp(f->file, o->r->oracle.prefix.harm.name) == 0;
    (void)snprintf(o->last, sizeof o->last, "%s %s at %" PRIu64, f->what, f->file, f->off);
}

/* No faults and no crash while a tool is at work. */
static void begin(struct offline *o, struct sim_run *r)
{
    *o = (struct offline){.r = r, .faults = *sim_disk_faults(r->disk)};
    tr_mem_init(&o->mem, 0);
    *sim_disk_faults(r->disk) = (struct sim_faults){0};
    o->ops = sim_disk_op_count(r->disk);
    sim_disk_set_cap(r->disk, UINT64_MAX);
}

static void end(struct offline *o)
{
    struct sim_run *r = o->r;
    struct sim_faults *f = sim_disk_faults(r->disk);

    tr_engine_free(o->e);
    sim_disk_kill(r->disk); /* files it left open */
    *f = o->faults;
    if (f->crash_at != 0) {
        f->crash_at += sim_disk_op_count(r->disk) - o->ops;
    }
    if (o->mem.used_bytes != 0) {
        FAIL("I18", "a tool keeps %" PRIu64 " bytes", o->mem.used_bytes);
    }
}

static int open_store(struct offline *o, bool look, bool salvage)
{
    const struct sim_params *p = &o->r->params;
    struct tr_engine_config c;

    tr_engine_config_init(&c, &o->mem);
    c.read_only = look;
    c.salvage = salvage;
    c.slots_max = look ? p->slots_max : TR_MANIFEST_SLOTS_MAX;
    c.batch_bytes = p->batch_bytes;
    c.body_max = p->body_max;
    c.checkpoint_slack = p->checkpoint_slack;
    c.hour_us = p->hour_us;
    c.cells_max = p->cells_max;
    c.key_bits = p->key_bits;
    c.near_us = p->near_us;
    c.ctx = o;
    c.found = found;
    return tr_engine_open(&o->e, &c, sim_disk_port(o->r->disk), o->r->seed ^ 0x5eed, o->r->now);
}

/* ---- looking ---- */

/* Is the block that was harmed unreadable? Bytes behind its records may be anything. */
static bool harm_counts(struct sim_run *r)
{
    const struct sim_harm *h = &r->oracle.prefix.harm;
    struct tr_run_of of = {.group = h->group.no, .piece = h->kind == TR_GROUP_DEAD};
    uint64_t len = h->end - h->from;
    uint8_t *bytes;
    struct tr_run_block block;
    bool bad;

    if (h->name[0] == '\0' || h->kind == TR_GROUP_SIDE || h->count == 0 || r->starts == 0) {
        return false;
    }
    bytes = malloc(len);
    TR_CHECK(bytes != NULL);
    memcpy(of.uuid, r->uuid, TR_UUID);
    bad = sim_disk_peek(r->disk, h->name, h->from, bytes, len) != len ||
          tr_run_block_alone(&of, h->from, bytes, len, &block) != TARRY_OK;
    free(bytes);
    return bad;
}

static void on_group(void *ctx, const struct tr_group_fact *fact)
{
    struct offline *o = ctx;

    o->named = o->named || fact->no == o->r->oracle.prefix.harm.group.no;
}

static void judge_look(struct offline *o, int err)
{
    struct sim_run *r = o->r;

    /* One copy of a manifest may be whole and the other not: a crash or an error came between. */
    bool torn = r->cut || !r->oracle.sealed || sim_run_faulty(r);

    if (err == TARRY_OK && o->findings > (torn ? o->copies : 0) && !r->oracle.rotten) {
        FAIL("I15", "nothing is damaged, but a check found: %s", o->last);
    }
    if (err == TARRY_OK && o->named && o->harm == 0 && harm_counts(r)) {
        FAIL("I15", "a check did not find that %s is damaged", r->oracle.prefix.harm.name);
    }
    if (err != TARRY_OK && err != TARRY_ENOTFOUND && !r->oracle.rotten) {
        FAIL("I11", "a check cannot open the store: %s", tarry_errname(err));
    }
}

void sim_offline_look(struct sim_run *r)
{
    struct tr_verify_sum sum;
    struct offline o;
    struct tr_verify_calls calls = {.ctx = &o, .found = found};
    uint64_t used = sim_disk_bytes(r->disk, "");
    int err;

    begin(&o, r);
    err = open_store(&o, true, false);
    if (err == TARRY_OK) {
        tr_engine_groups(o.e, on_group, &o);
        err = tr_verify_run(o.e, &calls, &sum);
        TR_CHECK(tr_engine_close(o.e, r->now) == TARRY_OK);
    }
    judge_look(&o, err);
    if (sim_disk_bytes(r->disk, "") != used) {
        FAIL("I15", "a check changed the store");
    }
    end(&o);
}

/* ---- repairing ---- */

static int judge_job(void *ctx, const struct tr_record *rec, struct tr_topic *t)
{
    struct offline *o = ctx;
    struct sim_run *r = o->r;
    uint64_t id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid;
    struct sim_job *j = sim_model_find(&r->oracle.model, id);
    struct sim_body body;

    if (t->purged || j == NULL) {
        return TARRY_OK; /* nobody was told of it */
    }
    body = sim_job_body_at(j, rec->rid);
    if (body.len == rec->body.len &&
        sim_body_hash(rec->body.at, (uint32_t)rec->body.len) != body.hash) {
        FAIL("I7", "after a repair job %" PRIu64 " has another body", id);
    }
    if (j->where == SIM_GONE && j->gate <= o->durable && o->twice == 0 && !o->weak) {
        FAIL("I3", "after a repair job %" PRIu64 " is there again, and nothing was said", id);
    }
    j->repaired = true;
    return TARRY_OK;
}

static void judge_rest(struct offline *o)
{
    struct sim_run *r = o->r;

    for (size_t i = 0; i < r->oracle.model.job_count; i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];

        if (j->where != SIM_GONE && j->told && !j->repaired && o->lost == 0 &&
            j->push_gate <= o->durable && j->gate <= o->durable && !o->weak) {
            FAIL("I1", "after a repair job %" PRIu64 " is gone, and nothing was said", j->id);
        }
    }
}

void sim_offline_repair(struct sim_run *r)
{
    struct tr_verify_sum sum;
    struct offline o;
    struct tr_verify_calls calls = {.ctx = &o, .found = found};
    struct tr_survey survey = {.ctx = &o, .job = judge_job};
    unsigned told;
    int err;

    begin(&o, r);
    o.durable = sim_prefix_floor(&r->oracle.prefix);
    o.weak = r->params.sync != TR_SYNC_ALWAYS;
    err = open_store(&o, false, true);
    if (err == TARRY_EDAMAGED || err == TARRY_EVERSION) {
        end(&o); /* no manifest is left, or one byte makes it look newer */
        return;
    }
    if (err == TARRY_OK) {
        err = tr_engine_close(o.e, r->now);
        tr_engine_free(o.e);
        o.e = NULL;
    }
    told = o.findings;
    if (err == TARRY_OK) {
        err = open_store(&o, true, false);
    }
    if (err == TARRY_OK) {
        survey.e = o.e;
        err = tr_survey_run(&survey);
    }
    if (err == TARRY_OK) {
        judge_rest(&o);
        err = tr_verify_run(o.e, &calls, &sum);
        TR_CHECK(tr_engine_close(o.e, r->now) == TARRY_OK);
    }
    if (err != TARRY_OK) {
        FAIL("I15", "a store cannot be repaired: %s", tarry_errname(err));
    } else if (o.findings != told) {
        FAIL("I15", "after a repair a check found: %s", o.last);
    }
    end(&o);
}
