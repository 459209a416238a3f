/*
 * What each record does.
 *
 *     PUSH     a new rid, a new job                  L[rid] = 1
 *     MOVE     a new rid for a job that is there     L[rid] = 1, L[old] = 0, one record (R23)
 *     ALTER    new small fields under the same rid   the job is `altered`: its record is outdated
 *     ATTEMPT  the same for lease and counters
 *     RELOG    its record again, changes included    no bit is ever set by it (R15, R17)
 *     KILLSET  dead                                  L[rid] = 0
 *     TOPIC    a number gets its name
 *     POLICY   all of a topic's policy, as bytes; nothing given: it has none any more
 *     PURGE    a number loses its name and policy: all that it has is dead, and is killed by and by
 *     SCHED    a schedule is made, has come further, or goes: see sched.c
 *     CLOCK    the test clock is on its way there
 *
 * Replay. A checkpoint gives L, topics and the changes of altered jobs; the log gives the jobs
 * themselves. A slot whose live records were written again (RELOG) is freed, so a job that L knows
 * may be met only at its RELOG, after some ALTERs of it: those are contained in the RELOG, and are
 * passed over. At the end of the replay every rid in L must have been met, but for those that
 * groups of run files cover; regroup.c checks it.
 *
 * Bytes of bodies are counted by topic, to the byte. A far job dies without a look at its record:
 * the table of far jobs and T say how long that is before its body. And the record of the death
 * says how long the body was, since in a replay nothing else may: what has died may be gone from
 * slots and runs before a checkpoint knows of it. Indexes and logs of older builds do not tell;
 * what they leave open is guessed, until the topic has been empty once.
 */

#include "engine/state.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/checkpoint.h"
#include "engine/group.h"
#include "engine/slot.h"

#include <string.h>

/* Those that this version keeps; it must not open a store in which others mean something. */
#define FIELDS                                                                                     \
    (TR_FIELD(ID) | TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(DELAY) | TR_FIELD(TOPIC) |        \
     TR_FIELD(PRIORITY) | TR_FIELD(TTR) | TR_FIELD(DEAD) | TR_FIELD(COUNTERS) | TR_FIELD(OLD) |    \
     TR_FIELD(FLAGS) | TR_FIELD(LEASE) | TR_FIELD(BODY) | TR_EXTRA_FIELDS)

enum { RECORD_HEAD = 40 }; /* about what a record has besides the body, if it is not known */

void tr_state_init(struct tr_state *s, struct tr_mem *mem)
{
    *s = (struct tr_state){.next_rid = 1};
    tr_jobs_init(&s->jobs, mem);
    tr_topics_init(&s->topics, mem);
    tr_cells_init(&s->cells, mem, TR_CELLS_MAX_DEFAULT);
    tr_keys_init(&s->keys, mem);
    tr_scheds_init(&s->scheds, mem);
}

void tr_state_fini(struct tr_state *s)
{
    tr_jobs_fini(&s->jobs);
    tr_topics_fini(&s->topics);
    tr_cells_fini(&s->cells);
    tr_keys_fini(&s->keys);
    tr_scheds_fini(&s->scheds);
    tr_fine_end(&s->fine);
}

/* ---- keys ---- */

static struct tr_siphash hash_of(const struct tr_state *s, const struct tr_record *rec)
{
    return tr_keyer_hash(&s->keys.keyer, rec->topic, rec->key);
}

/* The job is about to die. */
static void forget_key(struct tr_state *s, const struct tr_job *job)
{
    struct tr_bytes key = tr_extra_key(job->extra);

    if (key.len != 0) {
        (void)tr_keymap_take(&s->keys.map, tr_keyer_hash(&s->keys.keyer, job->topic->number, key),
                             job->rid);
    }
}

/* It has the rid of `rec` now. */
static void move_key(struct tr_state *s, uint64_t old, const struct tr_record *rec)
{
    if (rec->key.len != 0 && !TR_MUTANT(KEY_NOT_MOVED)) {
        TR_CHECK(tr_keymap_move(&s->keys.map, hash_of(s, rec), old, rec->rid));
    }
}

/* ---- fields ---- */

static void set_dead(struct tr_job *job, const struct tr_record *rec)
{
    if (job->slot != NULL) {
        job->slot->dead += (rec->dead.seq != 0) - (uint64_t)(job->dead_seq != 0);
    }
    job->dead_seq = rec->dead.seq;
    job->dead_at_us = rec->dead.at_us;
    job->dead_reason = rec->dead.reason;
    if (job->topic->next_dead_seq <= rec->dead.seq) {
        job->topic->next_dead_seq = rec->dead.seq + 1;
    }
}

void tr_state_set_fields(struct tr_job *job, const struct tr_record *rec)
{
    if (rec->mask & TR_FIELD(DUE)) {
        job->due_us = rec->due_us;
    }
    if (rec->mask & TR_FIELD(CREATED)) {
        job->created_us = rec->created_us;
    }
    if (rec->mask & TR_FIELD(DELAY)) {
        job->delay_us = rec->delay_us;
    }
    if (rec->mask & TR_FIELD(PRIORITY)) {
        job->priority = rec->priority;
    }
    if (rec->mask & TR_FIELD(TTR)) {
        job->ttr_us = rec->ttr_us;
    }
    if (rec->mask & TR_FIELD(DEAD)) {
        set_dead(job, rec);
    }
    if (rec->mask & TR_FIELD(COUNTERS)) {
        job->counters = rec->counters;
    }
    if (rec->mask & TR_FIELD(FLAGS)) {
        job->flags = rec->flags;
    }
    if (rec->mask & TR_FIELD(LEASE)) {
        job->lease = (uint64_t)rec->lease.epoch << TR_LEASE_BITS | rec->lease.number;
        job->lease_end_us = rec->lease.end_us;
        job->lease_ttr_us = rec->lease.ttr_us;
    }
}

/* A whole record replaces all fields: what it does not name is zero. */
static void set_all(struct tr_job *job, const struct tr_record *rec)
{
    job->due_us = 0;
    job->created_us = 0;
    job->delay_us = 0;
    job->priority = 0;
    job->ttr_us = 0;
    job->dead_seq = 0;
    job->dead_at_us = 0;
    job->dead_reason = 0;
    job->counters = (struct tr_counters){0};
    job->flags = 0;
    job->lease = 0;
    job->lease_end_us = 0;
    job->lease_ttr_us = 0;
    job->body_len = (uint32_t)rec->body.len;
    tr_state_set_fields(job, rec);
}

/* The job is about to change, and with `dies` its rid is no more. */
static void before_change(struct tr_state *s, struct tr_job *job, bool dies)
{
    if (s->freeze != NULL) {
        tr_freeze_job(s->freeze, job, dies);
    }
}

/* The topic has so many more jobs. */
static void count(struct tr_state *s, struct tr_topic *t, uint64_t more)
{
    tr_tally_keep(s, t);
    t->jobs += more;
    tr_topic_note_listed(t);
}

/* So many more bytes of bodies, and so many less. */
static void count_bytes(struct tr_state *s, struct tr_topic *t, uint64_t more, uint64_t less)
{
    tr_tally_keep(s, t);
    t->bytes += more;
    t->bytes -= less < t->bytes ? less : t->bytes;
    if (t->jobs == 0) {
        t->bytes = 0;
    }
}

/* How long the body of a job is; a guess if an older build wrote what is known of it. */
static uint64_t weigh(const struct tr_state *s, uint64_t rid, const struct tr_topic *t)
{
    const struct tr_job *job = tr_jobs_by_rid(&s->jobs, rid);
    const struct tr_far_entry *entry = job == NULL ? tr_far_find(&s->jobs.far, rid) : NULL;
    uint64_t mean = t->jobs != 0 ? t->bytes / t->jobs : 0;

    if (job != NULL) {
        return job->body_len;
    }
    if (entry != NULL && entry->head != 0 && !TR_MUTANT(BYTES_GUESSED)) {
        return entry->head <= entry->len ? entry->len - entry->head : 0;
    }
    if (entry != NULL) {
        return entry->len > RECORD_HEAD ? entry->len - RECORD_HEAD : 0;
    }
    return mean < TR_BODY_MAX ? mean : TR_BODY_MAX;
}

void tr_state_weigh(const struct tr_state *s, struct tr_kill *kill)
{
    const struct tr_topic *t = tr_topics_by_number(&s->topics, kill->topic);

    if (t == NULL || t->purged) { /* nobody asks */
        kill->weighed = false;
        kill->body_len = 0;
    } else if (!kill->weighed || (TR_MUTANT(BYTES_GUESSED_LATER) && s->replaying)) {
        kill->weighed = true;
        kill->body_len = (uint32_t)weigh(s, kill->rid, t);
    }
}

struct tr_slot *tr_state_slot(const struct tr_state *s, uint32_t number)
{
    return number < TR_MANIFEST_SLOTS_MAX ? &s->slots[number] : tr_groups_run(s->groups, number);
}

bool tr_state_in_run(const struct tr_state *s, uint64_t rid)
{
    const struct tr_far_entry *entry = tr_far_find(&s->jobs.far, rid);

    return tr_bitmap_test(&s->jobs.alive, rid) && tr_jobs_by_rid(&s->jobs, rid) == NULL &&
           (entry == NULL || entry->located);
}

void tr_state_far_to_run(struct tr_state *s, uint64_t rid)
{
    const struct tr_far_entry *entry = tr_far_find(&s->jobs.far, rid);
    struct tr_slot *slot = tr_state_slot(s, entry->slot);

    slot->live--;
    slot->far--;
    slot->live_bytes -= entry->len;
    TR_CHECK(tr_far_unlocate(&s->jobs.far, rid));
    s->jobs.runs++;
}

int tr_state_locate(struct tr_state *s, uint64_t rid, const struct tr_far_entry *entry)
{
    uint64_t id = tr_far_moved_id(&s->jobs.far, rid);
    struct tr_far_entry fresh = *entry;
    int err;

    fresh.loading = false; /* a copy of an older one: of it no read is out */
    fresh.bad = false;
    err = tr_far_put(&s->jobs.far, rid, id != 0 ? id : rid, &fresh);
    if (err == TARRY_OK) {
        tr_state_slot(s, entry->slot)->far++;
    }
    return err;
}

/* A far job is far no more: nothing counts it but its topic, and its rid is alive. */
static bool leave_far(struct tr_state *s, uint64_t rid, uint64_t batch)
{
    struct tr_far_entry entry;
    struct tr_topic *t;
    struct tr_slot *slot;

    if (!tr_far_take(&s->jobs.far, rid, &entry)) {
        return false;
    }
    t = tr_topics_by_number(&s->topics, entry.topic);
    TR_CHECK(t != NULL);
    t->jobs -= s->recount;
    tr_topic_note_listed(t);
    *(entry.dead ? &t->dead_far : &t->far) -= 1;
    *(entry.dead ? &t->totals->dead_far : &t->totals->far) -= 1;
    if (!entry.dead) {
        tr_topic_lose_far(t, entry.due_us);
    }
    slot = tr_state_slot(s, entry.slot);
    s->jobs.runs -= entry.located;
    slot->live--;
    slot->far--;
    slot->live_bytes -= entry.len;
    if (slot->emptied_by < batch) {
        slot->emptied_by = batch;
    }
    return true;
}

int tr_state_send_far(struct tr_state *s, struct tr_job *job)
{
    struct tr_far_entry entry = {.due_us = job->due_us,
                                 .topic = job->topic->number,
                                 .off = (uint32_t)job->record_off,
                                 .len = job->record_len,
                                 .cell = job->flags & TR_RF_CELL,
                                 .head = tr_far_head(job->record_len - job->body_len) & TR_FAR_HEAD,
                                 .slot = (uint16_t)job->slot->number};
    struct tr_topic *t = job->topic;
    struct tr_slot *slot = job->slot;
    bool in_run = slot->number >= TR_MANIFEST_SLOTS_MAX;
    bool dead = job->dead_seq != 0;
    int err;

    tr_job_unplace(job, 0);
    err = tr_jobs_send_far(&s->jobs, job, in_run ? NULL : &entry);
    if (err != TARRY_OK) {
        tr_job_place(job, slot, entry.off, entry.len);
        return err;
    }
    slot->live++;
    slot->far += !in_run;
    slot->live_bytes += entry.len;
    *(dead ? &t->dead_far : &t->far) += 1;
    *(dead ? &t->totals->dead_far : &t->totals->far) += 1;
    if (!dead) {
        tr_topic_add_far(t, entry.due_us);
    }
    return TARRY_OK;
}

/* Makes the job of a PUSH, or of any whole record met for the first time in a replay. */
static int add_job(struct tr_state *s, const struct tr_record *rec, struct tr_job **job)
{
    struct tr_topic *t = tr_topics_by_number(&s->topics, rec->topic);
    uint64_t id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid;
    struct tr_siphash hash = {0};
    struct tr_extra *extra;
    bool fresh = false; /* its key is not in the table yet */
    int err;

    if (t == NULL || (id != rec->rid && tr_jobs_by_id(&s->jobs, id) != NULL)) {
        return TARRY_EDAMAGED;
    }
    err = tr_extra_new(s->jobs.mem, rec, &extra);
    if (err == TARRY_OK && rec->key.len != 0) {
        hash = hash_of(s, rec);
        fresh = !tr_keys_has(&s->keys, hash, rec->rid);
        err = fresh ? tr_keymap_make(&s->keys.map, hash) : TARRY_OK;
    }
    if (err == TARRY_OK) {
        err = tr_jobs_add(&s->jobs, rec->rid, id, job);
    }
    if (err != TARRY_OK) {
        tr_extra_free(s->jobs.mem, extra);
        return err;
    }
    if (fresh && !(TR_MUTANT(KEY_NOT_MET) && s->replaying)) {
        tr_keymap_put(&s->keys.map, hash, rec->rid);
    }
    (*job)->topic = t;
    tr_jobs_set_extra(&s->jobs, *job, extra);
    t->jobs += s->recount;
    tr_topic_note_listed(t);
    set_all(*job, rec);
    return TARRY_OK;
}

int tr_state_bring_back(struct tr_state *s, uint64_t rid, const struct tr_record *rec,
                        struct tr_job **job)
{
    const struct tr_far_entry *entry = tr_far_find(&s->jobs.far, rid);
    struct tr_far_entry was;
    uint64_t id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid;
    int err;

    *job = NULL;
    if (entry == NULL || rec->rid != rid || rec->topic != entry->topic ||
        rec->due_us != entry->due_us || id != tr_far_id(&s->jobs.far, rid)) {
        return TARRY_EDAMAGED;
    }
    was = *entry;
    err = add_job(s, rec, job);
    if (err == TARRY_OK) {
        TR_CHECK(leave_far(s, rid, 0));
        tr_job_place(*job, tr_state_slot(s, was.slot), was.off, was.len);
    }
    return err;
}

/* Topic and key of a job never change. */
static bool same_job(const struct tr_job *job, const struct tr_record *rec)
{
    return job->topic->number == rec->topic && tr_bytes_same(tr_extra_key(job->extra), rec->key);
}

/* A block with what the record says, if the job's is another; else its own. */
static int fresh_extra(struct tr_state *s, const struct tr_job *job, const struct tr_record *rec,
                       struct tr_extra **x)
{
    *x = job->extra;
    return tr_extra_is(*x, rec) ? TARRY_OK : tr_extra_new(s->jobs.mem, rec, x);
}

static void set_extra(struct tr_state *s, struct tr_job *job, struct tr_extra *x)
{
    if (x != job->extra) {
        tr_jobs_set_extra(&s->jobs, job, x);
    }
}

static int rename_job(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                      struct tr_job **out)
{
    struct tr_job *job = tr_jobs_by_rid(&s->jobs, rec->old.rid);
    struct tr_extra *extra;
    int err;

    if (job == NULL) {
        if (!s->replaying || !tr_bitmap_test(&s->jobs.alive, rec->old.rid)) {
            return TARRY_EDAMAGED;
        }
        err = add_job(s, rec, out);
        if (err == TARRY_OK) {
            (void)leave_far(s, rec->old.rid, batch);
            if (rec->key.len != 0) {
                (void)tr_keymap_take(&s->keys.map, hash_of(s, rec), rec->old.rid);
            }
            tr_far_forget_moved(&s->jobs.far, rec->old.rid);
            (void)tr_bitmap_clear(&s->jobs.alive, rec->old.rid);
        }
        return err;
    }
    if (TR_MUTANT(MOVE_KEEPS_OLD) && s->replaying) {
        struct tr_record twin = *rec;

        twin.mask &= ~TR_FIELD(ID);
        return add_job(s, &twin, out);
    }
    if (!same_job(job, rec)) {
        return TARRY_EDAMAGED;
    }
    err = fresh_extra(s, job, rec, &extra);
    if (err != TARRY_OK) {
        return err;
    }
    before_change(s, job, true);
    err = tr_jobs_rename(&s->jobs, job, rec->rid);
    if (err != TARRY_OK) {
        if (extra != job->extra) {
            tr_extra_free(s->jobs.mem, extra);
        }
        return err;
    }
    move_key(s, rec->old.rid, rec);
    s->freed_bytes += job->record_len;
    tr_job_unplace(job, batch);
    tr_jobs_set_altered(&s->jobs, job, false);
    set_all(job, rec);
    set_extra(s, job, extra); /* last: the record may borrow from the block */
    *out = job;
    return TARRY_OK;
}

static int apply_move(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                      struct tr_job **out)
{
    struct tr_tally from = tr_tally_old(s, &rec->old);
    struct tr_tally to = tr_tally_record(s, rec);
    const struct tr_job *old = tr_jobs_by_rid(&s->jobs, rec->old.rid);
    uint64_t was = old != NULL ? old->body_len : rec->body.len; /* it is the same, if not told: */
    int err = tr_tally_check(s, &from, &to);

    was = rec->old.weighed && !TR_MUTANT(BYTES_GUESSED_LATER) ? rec->old.body_len : was;
    if (err == TARRY_OK) {
        err = rename_job(s, rec, batch, out);
    }
    if (err == TARRY_OK) {
        tr_tally_shift(s, &from, &to);
        count_bytes(s, to.topic, rec->body.len, was);
    }
    return err;
}

static int apply_push(struct tr_state *s, const struct tr_record *rec, struct tr_job **out)
{
    struct tr_tally to = tr_tally_record(s, rec);
    int err = tr_tally_check(s, NULL, &to);

    if (err == TARRY_OK) {
        err = add_job(s, rec, out);
    }
    if (err == TARRY_OK) {
        tr_tally_shift(s, NULL, &to);
        if (!s->recount) {
            count(s, (*out)->topic, 1);
        }
        count_bytes(s, (*out)->topic, rec->body.len, 0);
    }
    return err;
}

/* An ALTER counts its job elsewhere. The job may not have been met yet. */
static int recount_altered(struct tr_state *s, const struct tr_record *rec,
                           const struct tr_job *job)
{
    bool told = (rec->mask & TR_FIELD(OLD)) != 0 && !(TR_MUTANT(ALTER_OLD_IGNORED) && s->replaying);
    struct tr_tally from;
    struct tr_tally to;
    int err;

    if ((rec->mask & (TR_FIELD(DUE) | TR_FIELD(DEAD))) == 0) {
        return TARRY_OK;
    }
    if (!told && job == NULL) {
        return s->recells || TR_MUTANT(ALTER_OLD_IGNORED) ? TARRY_OK : TARRY_EDAMAGED;
    }
    from = told ? tr_tally_old(s, &rec->old) : tr_tally_job(job);
    to = tr_tally_altered(from, rec);
    err = tr_tally_check(s, &from, &to);
    if (err == TARRY_OK) {
        tr_tally_shift(s, &from, &to);
    }
    return err;
}

/* `row`: of the checkpoint, which has its cells. */
static int apply_change(struct tr_state *s, const struct tr_record *rec, bool row,
                        struct tr_job **out)
{
    struct tr_job *job = tr_jobs_by_rid(&s->jobs, rec->rid);
    struct tr_extra *extra = NULL;
    int err;

    if (job == NULL && s->recall != NULL && !TR_MUTANT(FAR_CHANGE_LOST) &&
        tr_bitmap_test(&s->jobs.alive, rec->rid)) {
        err = s->recall(s->recall_ctx, rec->rid);
        if (err != TARRY_OK && err != TARRY_ENOTFOUND) { /* it may be met later, or die */
            return err;
        }
        job = tr_jobs_by_rid(&s->jobs, rec->rid);
    }
    if (job == NULL && !(s->replaying && tr_bitmap_test(&s->jobs.alive, rec->rid))) {
        return TARRY_EDAMAGED;
    }
    if (job != NULL && (rec->mask & TR_EXTRA_ALTERED) != 0) {
        err = tr_extra_alter(s->jobs.mem, job->extra, rec, &extra);
        if (err != TARRY_OK) {
            return err;
        }
    }
    err = row ? TARRY_OK : recount_altered(s, rec, job);
    if (err != TARRY_OK || job == NULL) {
        tr_extra_free(s->jobs.mem, extra);
        return err;
    }
    before_change(s, job, false);
    tr_state_set_fields(job, rec);
    if ((rec->mask & TR_EXTRA_ALTERED) != 0) {
        tr_jobs_set_extra(&s->jobs, job, extra);
    }
    tr_jobs_set_altered(&s->jobs, job, true);
    *out = job;
    return TARRY_OK;
}

int tr_state_meet_change(struct tr_state *s, const struct tr_record *rec)
{
    struct tr_job *job;

    return (rec->mask & ~FIELDS) != 0 ? TARRY_EVERSION : apply_change(s, rec, true, &job);
}

/* Replay: a whole record of a job that is alive and not in memory. */
static int meet_again(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                      struct tr_job **job)
{
    int err = add_job(s, rec, job);

    if (err == TARRY_OK) {
        (void)leave_far(s, rec->rid, batch);         /* this is where it is now, */
        tr_far_forget_moved(&s->jobs.far, rec->rid); /* also when its group has it, too */
    }
    return err;
}

static int apply_relog(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                       struct tr_job **out)
{
    struct tr_job *job = tr_jobs_by_rid(&s->jobs, rec->rid);
    struct tr_extra *extra;
    int err;

    if (job == NULL) {
        if (!tr_bitmap_test(&s->jobs.alive, rec->rid)) {
            return TARRY_OK; /* killed between its selection and its writing */
        }
        if (TR_MUTANT(CELLS_TWICE)) {
            struct tr_tally to = tr_tally_record(s, rec);

            if (tr_tally_check(s, NULL, &to) == TARRY_OK) {
                tr_tally_shift(s, NULL, &to);
            }
        }
        return meet_again(s, rec, batch, out);
    }
    if (s->replaying && !same_job(job, rec)) {
        return TARRY_EDAMAGED;
    }
    if (s->replaying) { /* a running engine places it when it is written */
        err = fresh_extra(s, job, rec, &extra);
        if (err != TARRY_OK) {
            return err;
        }
        tr_job_unplace(job, batch);
        set_all(job, rec);
        set_extra(s, job, extra);
    }
    before_change(s, job, false);
    tr_jobs_set_altered(&s->jobs, job, false);
    *out = job;
    return TARRY_OK;
}

int tr_state_meet(struct tr_state *s, const struct tr_record *rec, struct tr_job **job)
{
    bool whole = rec->type == TR_REC_PUSH || rec->type == TR_REC_MOVE || rec->type == TR_REC_RELOG;
    struct tr_extra *extra;
    int err;

    *job = NULL;
    if ((rec->mask & ~FIELDS) != 0) {
        return TARRY_EVERSION;
    }
    if (!whole || (!tr_bitmap_test(&s->jobs.alive, rec->rid) && !TR_MUTANT(MEET_SETS_BIT))) {
        return TARRY_OK;
    }
    *job = tr_jobs_by_rid(&s->jobs, rec->rid);
    if (*job == NULL) {
        bool has = false;

        err = s->has != NULL ? s->has(s->recall_ctx, rec->rid, &has) : TARRY_OK;

        return err != TARRY_OK || has ? err : meet_again(s, rec, 0, job);
    }
    if (!same_job(*job, rec)) {
        return TARRY_EDAMAGED;
    }
    err = fresh_extra(s, *job, rec, &extra);
    if (err != TARRY_OK) {
        return err;
    }
    tr_job_unplace(*job, 0);
    set_all(*job, rec);
    set_extra(s, *job, extra);
    return TARRY_OK;
}

static int apply_topic(struct tr_state *s, const struct tr_record *rec)
{
    struct tr_topic *t = tr_topics_by_number(&s->topics, rec->topic);
    const char *name = (const char *)rec->name.at;
    int err = TARRY_OK;

    if (t != NULL && (t->name_len != rec->name.len || memcmp(t->name, name, t->name_len) != 0)) {
        if (tr_topic_needed(t)) {
            return TARRY_EDAMAGED;
        }
        tr_topics_remove(&s->topics, t); /* all numbers had been used: an empty one's is, again */
        t = NULL;
    }
    if (t == NULL) {
        if (rec->topic == 0 || !tr_name_ok(name, rec->name.len)) {
            return TARRY_EDAMAGED;
        }
        err = tr_topics_add(&s->topics, rec->topic, name, rec->name.len, &t);
    }
    if (err == TARRY_OK) {
        t->logged = true;
    }
    return err;
}

static void set_policy(struct tr_state *s, struct tr_topic *t, struct tr_policy *copy,
                       size_t row_bytes)
{
    if (s->freeze != NULL && !TR_MUTANT(POLICY_NOT_FROZEN)) {
        tr_freeze_policy(s->freeze, t);
    }
    tr_topic_set_policy(t, copy, row_bytes);
}

static int apply_policy(struct tr_state *s, const struct tr_record *rec)
{
    struct tr_topic *t = tr_topics_by_number(&s->topics, rec->topic);
    struct tr_policy *copy = NULL;
    struct tr_policy p;
    int err = tr_policy_decode(rec->body.at, rec->body.len, &p);

    if (err != TARRY_OK || t == NULL || t->purged) {
        return err != TARRY_OK ? err : TARRY_EDAMAGED;
    }
    if (p.given != 0 || TR_MUTANT(POLICY_KEEPS_TOPIC)) {
        copy = tr_topics_copy_policy(&s->topics, &p);
        if (copy == NULL) {
            return TARRY_ENOMEM;
        }
    }
    set_policy(s, t, copy, TR_CHECKPOINT_POLICY_HEAD + rec->body.len);
    return TARRY_OK;
}

/* Its jobs count no more. They stay alive in L until they are killed one by one: whoever finds
 * them asks for their topic. */
static int apply_purge(struct tr_state *s, const struct tr_record *rec)
{
    struct tr_topic *t = tr_topics_by_number(&s->topics, rec->topic);

    if (t == NULL || t->purged || rec->number < s->next_rid) {
        return TARRY_EDAMAGED;
    }
    t->purged_no = s->freeze != NULL && !TR_MUTANT(PURGE_NOT_FROZEN) ? s->jobs.freeze_no : 0;
    tr_tally_purge(s, t);
    set_policy(s, t, NULL, 0);
    tr_topics_purge(&s->topics, t);
    return TARRY_OK;
}

struct tr_job *tr_state_job(const struct tr_state *s, uint64_t id)
{
    struct tr_job *job = tr_jobs_by_id(&s->jobs, id);

    return job != NULL && (!job->topic->purged || TR_MUTANT(PURGE_FOUND)) ? job : NULL;
}

uint64_t tr_state_far_rid(const struct tr_state *s, uint64_t id)
{
    uint64_t rid = tr_far_rid(&s->jobs.far, id);

    const struct tr_topic *t =
        rid != 0 ? tr_topics_by_number(&s->topics, tr_far_find(&s->jobs.far, rid)->topic) : NULL;

    return t != NULL && (!t->purged || TR_MUTANT(PURGE_FAR_FOUND)) ? rid : 0;
}

/* The same for one that is not in memory. In a replay it may not have been met yet. */
static bool kill_far(struct tr_state *s, const struct tr_kill *kill, uint64_t batch)
{
    const struct tr_far_entry *entry = tr_far_find(&s->jobs.far, kill->rid);
    struct tr_topic *t = tr_topics_by_number(&s->topics, kill->topic);

    if (t == NULL || (entry == NULL && !s->replaying) ||
        !tr_bitmap_test(&s->jobs.alive, kill->rid)) {
        return false;
    }
    if (s->freeze != NULL) {
        tr_freeze_rid(s->freeze, kill->rid);
    }
    if (entry != NULL) {
        s->freed_bytes += entry->len;
        (void)leave_far(s, kill->rid, batch);
    }
    tr_far_forget_moved(&s->jobs.far, kill->rid);
    tr_keys_lost(&s->keys, 1);
    if (!s->recount) {
        count(s, t, UINT64_MAX);
    }
    return tr_bitmap_clear(&s->jobs.alive, kill->rid);
}

bool tr_state_kill(struct tr_state *s, const struct tr_kill *kill, uint64_t batch)
{
    struct tr_tally from = tr_tally_old(s, kill);
    struct tr_job *job = tr_jobs_by_rid(&s->jobs, kill->rid);
    struct tr_kill weighed = *kill;

    if (TR_MUTANT(KILL_ANY_CELL) && from.topic != NULL && from.kind != TR_RF_CELL_HOUR &&
        tr_cells_count(&s->cells, from.topic->row,
                       tr_cells_when(&s->cells, from.due_us, TR_RF_CELL_HOUR))) {
        from.kind = TR_RF_CELL_HOUR;
    }
    if (tr_tally_check(s, &from, NULL) != TARRY_OK) {
        return false;
    }
    tr_state_weigh(s, &weighed);
    if (job == NULL) {
        bool killed = kill_far(s, kill, batch);

        if (killed) {
            tr_tally_shift(s, &from, NULL);
            count_bytes(s, from.topic, 0, weighed.body_len);
        }
        return killed;
    }
    tr_tally_shift(s, &from, NULL);
    before_change(s, job, true);
    count(s, job->topic, UINT64_MAX);
    count_bytes(s, job->topic, 0, weighed.body_len);
    s->freed_bytes += job->record_len;
    forget_key(s, job);
    tr_job_unplace(job, batch);
    tr_jobs_remove(&s->jobs, job);
    return true;
}

int tr_state_apply(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                   struct tr_job **job)
{
    int err = TARRY_OK;

    *job = NULL;
    if ((rec->mask & ~FIELDS) != 0) {
        return TARRY_EVERSION;
    }
    switch (rec->type) {
    case TR_REC_PUSH:
    case TR_REC_MOVE:
        if (rec->rid < s->next_rid || rec->rid >= TR_RID_MAX ||
            tr_bitmap_test(&s->jobs.alive, rec->rid)) {
            return TARRY_EDAMAGED;
        }
        err = rec->type == TR_REC_PUSH ? apply_push(s, rec, job) : apply_move(s, rec, batch, job);
        if (err == TARRY_OK) {
            s->next_rid = rec->rid + 1;
        }
        return err;
    case TR_REC_ATTEMPT:
    case TR_REC_ALTER:
        return apply_change(s, rec, false, job);
    case TR_REC_RELOG:
        return apply_relog(s, rec, batch, job);
    case TR_REC_TOPIC:
        return apply_topic(s, rec);
    case TR_REC_POLICY:
        return apply_policy(s, rec);
    case TR_REC_PURGE:
        return apply_purge(s, rec);
    case TR_REC_SCHED:
        return tr_scheds_apply(s, rec);
    case TR_REC_CLOCK:
        if (rec->number < s->clock_us) {
            return TARRY_EDAMAGED;
        }
        s->clock_us = rec->number;
        return TARRY_OK;
    default:
        return rec->type >= TR_REC_SKIPPABLE ? TARRY_OK : TARRY_EVERSION;
    }
}

void tr_state_describe_changes(const struct tr_job *job, struct tr_record *rec)
{
    *rec = (struct tr_record){
        .type = TR_REC_ALTER,
        .mask = TR_FIELD(DUE) | TR_FIELD(DELAY) | TR_FIELD(PRIORITY) | TR_FIELD(TTR) |
                TR_FIELD(COUNTERS) | TR_FIELD(FLAGS) | TR_FIELD(DEAD) | TR_FIELD(LEASE),
        .rid = job->rid,
        .due_us = job->due_us,
        .delay_us = job->delay_us,
        .priority = job->priority,
        .ttr_us = job->ttr_us,
        .dead = {job->dead_reason, job->dead_seq, job->dead_at_us},
        .counters = job->counters,
        .flags = job->flags,
        .lease = {(uint32_t)(job->lease >> TR_LEASE_BITS),
                  job->lease & ((UINT64_C(1) << TR_LEASE_BITS) - 1), job->lease_end_us,
                  job->lease_ttr_us},
    };
    tr_extra_describe_changes(job->extra, rec);
}

static bool same_fields(const struct tr_record *a, const struct tr_record *b)
{
    return a->due_us == b->due_us && a->delay_us == b->delay_us && a->priority == b->priority &&
           a->ttr_us == b->ttr_us && a->ttl_us == b->ttl_us && tr_bytes_same(a->tag, b->tag) &&
           a->flags == b->flags && a->dead.reason == b->dead.reason && a->dead.seq == b->dead.seq &&
           a->dead.at_us == b->dead.at_us && a->lease.epoch == b->lease.epoch &&
           a->lease.number == b->lease.number && a->lease.end_us == b->lease.end_us &&
           a->lease.ttr_us == b->lease.ttr_us && a->counters.reserves == b->counters.reserves &&
           a->counters.timeouts == b->counters.timeouts &&
           a->counters.releases == b->counters.releases &&
           a->counters.buries == b->counters.buries && a->counters.kicks == b->counters.kicks;
}

void tr_state_absorb(struct tr_state *s, struct tr_job *job, const struct tr_record *rec)
{
    struct tr_record now;

    tr_state_describe_changes(job, &now);
    if (job->altered && (same_fields(&now, rec) || TR_MUTANT(ABSORBED_LATE))) {
        before_change(s, job, false);
        tr_jobs_set_altered(&s->jobs, job, false);
    }
}

void tr_state_describe(const struct tr_job *job, uint8_t type, struct tr_record *rec)
{
    tr_state_describe_changes(job, rec);
    rec->type = type;
    rec->mask |= TR_FIELD(CREATED) | TR_FIELD(TOPIC) | TR_FIELD(BODY);
    rec->created_us = job->created_us;
    rec->topic = job->topic->number;
    rec->body = (struct tr_bytes){job->body, job->body_len};
    if (job->id != job->rid) {
        rec->mask |= TR_FIELD(ID);
        rec->id = job->id;
    }
    if (job->dead_seq == 0) {
        rec->mask &= ~TR_FIELD(DEAD);
    }
    if (job->delay_us == 0) {
        rec->mask &= ~TR_FIELD(DELAY);
    }
    if (job->ttr_us == 0) { /* the default */
        rec->mask &= ~TR_FIELD(TTR);
    }
    if (job->flags == 0) {
        rec->mask &= ~TR_FIELD(FLAGS);
    }
    if (job->lease == 0) {
        rec->mask &= ~TR_FIELD(LEASE);
    }
    if ((job->counters.reserves | job->counters.timeouts | job->counters.releases |
         job->counters.buries | job->counters.kicks) == 0) {
        rec->mask &= ~TR_FIELD(COUNTERS);
    }
    tr_extra_describe(job->extra, rec);
}

void tr_state_remove_topic(struct tr_state *s, struct tr_topic *t)
{
    if (s->freeze != NULL) {
        tr_freeze_topic(s->freeze, t);
    }
    tr_topics_remove(&s->topics, t);
}

void tr_state_drop_empty_topics(struct tr_state *s)
{
    struct tr_list *next;

    for (struct tr_list *n = s->topics.all.next; n != &s->topics.all; n = next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        next = n->next;
        if (!tr_topic_needed(t)) {
            tr_topics_remove(&s->topics, t);
        }
    }
}

/* Has every keyed job in memory its entry, and no other one its key? */
static bool keys_ok(const struct tr_state *s)
{
    const struct tr_job *job;
    size_t at = 0;

    while ((job = tr_jobs_next(&s->jobs, &at)) != NULL) {
        struct tr_bytes key = tr_extra_key(job->extra);
        struct tr_siphash hash;
        uint64_t rid = 0;

        if (key.len == 0) {
            continue;
        }
        hash = tr_keyer_hash(&s->keys.keyer, job->topic->number, key);
        if (!tr_keys_has(&s->keys, hash, job->rid)) {
            return false;
        }
        while ((rid = tr_keymap_find(&s->keys.map, hash, rid)) != 0) {
            const struct tr_job *other = tr_jobs_by_rid(&s->jobs, rid);

            if (other != NULL && other != job && other->topic == job->topic &&
                tr_bytes_same(tr_extra_key(other->extra), key)) {
                return false;
            }
        }
    }
    return tr_keymap_ok(&s->keys.map);
}

bool tr_state_ok(const struct tr_state *s)
{
    uint64_t jobs = 0;

    for (const struct tr_list *n = s->topics.all.next; n != &s->topics.all; n = n->next) {
        jobs += TR_CONTAINER_OF(n, struct tr_topic, link)->jobs;
    }
    return tr_jobs_ok(&s->jobs) && tr_topics_ok(&s->topics) && tr_cells_ok(&s->cells) &&
           jobs == s->jobs.alive.members && keys_ok(s) && tr_scheds_ok(&s->scheds);
}
