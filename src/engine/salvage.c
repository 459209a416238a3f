/*
 * Opening a damaged store with what is left of it.
 *
 *     1  the best manifest and checkpoint; of a checkpoint all good pages
 *     2  the log is walked once to collect: who has a whole record, who is dead for certain
 *     3  L is made from that, and what groups have
 *     4  the log is walked again: records give their jobs places, changes are applied
 *     5  everything is read (survey.c); what cannot be is dropped and told; the rest is counted
 *
 * Who is alive? The order of records does not matter, as a rid dies once and never comes back:
 *
 *     alive = it has a whole record, in the log or in a group,
 *             and the checkpoint calls it alive, or does not know it, or is older than it,
 *             and no record that is left says that it died.
 *
 * A death that was on damaged bytes is not known; such a job comes back: twice is better than
 * never. Some deaths can be told all the same: of the rids of one id only the largest can be alive,
 * and so of those with one key of one topic, as a job with that key is pushed only when there is no
 * other. What was pushed on damaged bytes is lost; rids rise, so between which ids is known.
 *
 * In the log the walk goes on at the next good frame of the segment; of a frame whose payload is
 * damaged the good records are used. What comes after the end of a log that was only cut short is
 * not used (R20): nobody was told of it.
 *
 * Nothing is written: repair.c does that, when all is in memory.
 */

#include "engine/salvage.h"

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/survey.h"

#include <inttypes.h>
#include <string.h>

struct tr_salvage_count {
    uint64_t jobs;
    uint64_t dead;
    uint64_t bytes; /* of their bodies */
};

void tr_salvage_init(struct tr_salvage *s, struct tr_engine *e)
{
    *s = (struct tr_salvage){.e = e};
    tr_bitmap_init(&s->met, e->mem);
    tr_bitmap_init(&s->gone, e->mem);
    tr_bitmap_init(&s->seen, e->mem);
    tr_map_init(&s->last, e->mem);
    tr_map_init(&s->keys, e->mem);
    tr_map_init(&s->counts, e->mem);
}

void tr_salvage_fini(struct tr_salvage *s)
{
    const struct tr_list *all = &s->e->state.topics.all;

    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_salvage_count *c =
            tr_map_take(&s->counts, TR_CONTAINER_OF(n, struct tr_topic, link)->number);

        tr_mem_free(s->e->mem, c, sizeof *c);
    }
    tr_bitmap_fini(&s->met);
    tr_bitmap_fini(&s->gone);
    tr_bitmap_fini(&s->seen);
    tr_map_fini(&s->last);
    tr_map_fini(&s->keys);
    tr_map_fini(&s->counts);
}

void tr_salvage_tell(const struct tr_engine *e, const struct tr_finding *f)
{
    if (e->config.found != NULL) {
        e->config.found(e->config.ctx, f);
    }
}

bool tr_salvage_read(struct tr_engine *e, int file, uint64_t off, uint8_t *buf, uint64_t len)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len, .buf = buf};

    bool whole = true;

    memset(buf, 0, len);
    if (file < 0 || e->disk.ops->run(e->disk.ctx, &io) == TARRY_OK) {
        return true;
    }
    for (uint64_t at = 0; at < len; at += TR_BLOCK) {
        uint64_t part = len - at < TR_BLOCK ? len - at : TR_BLOCK;

        io = (struct tr_io){
            .op = TR_IO_READ_DIRECT, .file = file, .off = off + at, .len = part, .buf = buf + at};
        if (e->disk.ops->run(e->disk.ctx, &io) != TARRY_OK) {
            memset(buf + at, 0, part);
            whole = false;
        }
    }
    return whole;
}

void tr_salvage_unread(const struct tr_engine *e, const struct tr_slot *slot)
{
    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = "A part of the log cannot be read: if it was written last, what "
                                   "was pushed in it is lost, and what was taken back in it may "
                                   "come again."};

    tr_log_slot_name(f.file, slot->number);
    tr_salvage_tell(e, &f);
}

/* ---- collecting ---- */

/* Of those that share this only the largest rid can be alive. */
static int rival(struct tr_salvage *s, struct tr_map *map, uint64_t key, uint64_t rid)
{
    uint64_t other = (uintptr_t)tr_map_find(map, key);
    uint64_t loser = other < rid ? other : rid;

    if (other == rid) {
        return TARRY_OK;
    }
    if (loser != 0 && tr_bitmap_set(&s->gone, loser) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    return tr_map_put(map, key, (void *)(uintptr_t)(other > rid ? other : rid));
}

static int collect_moved(void *ctx, uint64_t rid, uint64_t id)
{
    struct tr_salvage *s = ctx;
    int err = tr_bitmap_set(&s->gone, id); /* its first rid */

    return err == TARRY_OK ? rival(s, &s->last, id, rid) : err;
}

static int collect_kills(struct tr_salvage *s, const struct tr_record *rec, struct tr_base base)
{
    struct tr_kill_walk walk = {0};
    struct tr_kill kill;
    int err = TARRY_OK;

    while (err == TARRY_OK && !TR_MUTANT(SALVAGE_NO_KILLS) &&
           tr_record_next_kill(rec, base, &walk, &kill)) {
        err = tr_bitmap_set(&s->gone, kill.rid);
    }
    return err;
}

static bool is_whole(const struct tr_record *rec)
{
    return rec->type == TR_REC_PUSH || rec->type == TR_REC_MOVE || rec->type == TR_REC_RELOG;
}

static int collect(struct tr_salvage *s, const struct tr_record *rec, struct tr_base base)
{
    int err = TARRY_OK;

    if (rec->type == TR_REC_KILLSET) {
        return collect_kills(s, rec, base);
    }
    if (!is_whole(rec)) {
        return TARRY_OK;
    }
    if (rec->rid == 0 || rec->rid >= TR_RID_MAX) {
        return TARRY_OK;
    }
    err = tr_bitmap_set(&s->met, rec->rid);
    s->seen_rid = rec->rid >= s->seen_rid ? rec->rid + 1 : s->seen_rid;
    if (err == TARRY_OK && rec->type == TR_REC_MOVE) {
        err = tr_bitmap_set(&s->gone, rec->old.rid);
    }
    if (err == TARRY_OK && (rec->mask & TR_FIELD(ID)) != 0 && rec->id != rec->rid) {
        err = collect_moved(s, rec->rid, rec->id);
    }
    if (err == TARRY_OK && rec->key.len != 0) {
        struct tr_siphash hash = tr_keyer_hash(&s->e->state.keys.keyer, rec->topic, rec->key);

        err = s->e->state.keys.keyer.bits == 0 ? rival(s, &s->keys, hash.high, rec->rid) : TARRY_OK;
    }
    return err;
}

/* ---- applying ---- */

/* A topic whose name was on damaged bytes gets another one. */
static struct tr_topic *topic_of(const struct tr_salvage *s, uint32_t number)
{
    struct tr_topics *ts = &s->e->state.topics;
    struct tr_topic *t = tr_topics_by_number(ts, number);
    struct tr_finding f = {.what = "The name of a topic is lost; its jobs are in this one."};
    char name[32];

    if (t != NULL || number == 0) {
        return t;
    }
    tr_text(name, sizeof name, "lost-topic-%" PRIu32, number);
    if (tr_topics_add(ts, number, name, strlen(name), &t) != TARRY_OK) {
        return NULL;
    }
    t->logged = true; /* the next checkpoint has it */
    f.topic = name;
    f.topic_len = strlen(name);
    tr_salvage_tell(s->e, &f);
    return t;
}

static int apply_whole(struct tr_replay *p, struct tr_slot *slot, const struct tr_record *rec,
                       uint64_t off, uint32_t len)
{
    struct tr_state *state = &p->e->state;
    struct tr_job *job = NULL;
    int err;

    if (!tr_bitmap_test(&state->jobs.alive, rec->rid)) {
        return TARRY_OK;
    }
    if (topic_of(p->salvage, rec->topic) == NULL) {
        return rec->topic == 0 ? TARRY_OK : TARRY_ENOMEM;
    }
    err = tr_state_meet(state, rec, &job);
    if (err != TARRY_OK || job == NULL) {
        return err;
    }
    if (rec->rid > slot->last_rid) {
        slot->last_rid = rec->rid;
    }
    if (job->slot == NULL) {
        tr_job_place(job, slot, off, len);
    }
    return tr_load_far(p->e, job) ? tr_state_send_far(state, job) : TARRY_OK;
}

static void apply_purge(const struct tr_salvage *s, uint32_t number)
{
    struct tr_topic *t = tr_topics_by_number(&s->e->state.topics, number);

    if (t != NULL && !t->purged) {
        if (!TR_MUTANT(SALVAGE_KEEPS_POLICY)) { /* no checkpoint may have one of a purged topic */
            tr_topic_set_policy(t, NULL, 0);
        }
        tr_topics_purge(&s->e->state.topics, t);
    }
}

/* `later`: the checkpoint does not contain it. */
static int apply(struct tr_replay *p, const struct tr_record *rec, uint64_t batch, bool later)
{
    struct tr_job *job;

    switch (rec->type) {
    case TR_REC_ATTEMPT:
    case TR_REC_ALTER:
        return later && tr_bitmap_test(&p->e->state.jobs.alive, rec->rid)
                   ? tr_state_meet_change(&p->e->state, rec)
                   : TARRY_OK;
    case TR_REC_PURGE:
        if (later) {
            apply_purge(p->salvage, rec->topic);
        }
        return TARRY_OK;
    case TR_REC_KILLSET:
        return TARRY_OK;
    default:
        return later ? tr_state_apply(&p->e->state, rec, batch, &job) : TARRY_OK;
    }
}

/* ---- frames ---- */

/* Where a record stands in its slot. */
struct where {
    uint64_t off;
    uint32_t len;
};

/* One record; what makes no sense is passed over. */
static int use(struct tr_replay *p, struct tr_slot *slot, const struct tr_frame *f,
               const struct tr_record *rec, struct where at)
{
    struct tr_salvage *s = p->salvage;
    struct tr_base base = {.rid = f->first_rid, .clock_us = f->clock_us};
    bool later = f->batch_no > p->checkpoint || s->gap.any;
    int err;

    if (s->collecting) {
        return collect(s, rec, base);
    }
    err = is_whole(rec) ? apply_whole(p, slot, rec, at.off, at.len)
                        : apply(p, rec, f->batch_no, later);
    return err == TARRY_EDAMAGED || err == TARRY_EIO || err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

/* The next byte of the payload at which a record may begin: behind a damaged one, or anywhere. */
static size_t skip(const uint8_t *bytes, size_t at, size_t len, struct tr_base base)
{
    struct tr_record rec;
    size_t used;

    while (++at < len && tr_record_decode(bytes + at, len - at, base, &rec, &used) != TARRY_OK) {
    }
    return at;
}

int tr_salvage_frame(struct tr_replay *p, struct tr_slot *slot, const struct tr_frame *f, bool bad)
{
    struct tr_salvage *s = p->salvage;
    struct tr_base base = {.rid = f->first_rid, .clock_us = f->clock_us};
    uint64_t room = p->e->log.slot_bytes - slot->end_off - TR_FRAME_HEAD;
    size_t len = f->payload_len < room ? f->payload_len : (size_t)room;
    const uint8_t *bytes = p->bytes + slot->end_off + TR_FRAME_HEAD;
    size_t at = 0;
    int err = TARRY_OK;

    if (s->collecting && s->next_rid == 0 && f->batch_no > p->checkpoint) {
        s->next_rid = f->first_rid - (f->first_rid > 1); /* the first record may have taken one */
    }
    while (at < len && err == TARRY_OK) {
        struct tr_record rec;
        size_t used = 0;

        err = tr_record_decode(bytes + at, len - at, base, &rec, &used);
        if (err == TARRY_EDAMAGED && bad) {
            at = skip(bytes, at, len, base);
            err = TARRY_OK;
            continue;
        }
        if (err == TARRY_OK) {
            err = use(p, slot, f, &rec,
                      (struct where){slot->end_off + TR_FRAME_HEAD + at, (uint32_t)used});
        }
        at += used;
        p->e->replayed += !s->collecting;
    }
    return err == TARRY_EDAMAGED ? TARRY_OK : err;
}

/* ---- holes ---- */

/* next_rid: the first one that was given after it; 0: not known. */
static void tell_hole(const struct tr_replay *p, const struct tr_slot *slot, uint64_t to,
                      uint64_t next_rid)
{
    const struct tr_salvage *s = p->salvage;
    char what[160];

    next_rid = next_rid != 0 ? next_rid : p->e->meta.now.rid_limit;

    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = what,
                           .off = slot->end_off,
                           .len = to - slot->end_off,
                           .id = s->seen_rid,
                           .id_last = next_rid - 1};
    bool before = p->next_batch <= p->checkpoint;

    if (!s->collecting) {
        return;
    }
    if (before || next_rid <= s->seen_rid) { /* nothing was pushed; or who is lost will be told */
        f.fate = before ? TR_FATE_NONE : TR_FATE_TWICE;
        f.id = 0;
        f.id_last = 0;
    }
    tr_text(what, sizeof what,
            before ? "Batch %" PRIu64 " of the log is damaged."
                   : "Batch %" PRIu64 " of the log is damaged: what was pushed in it is lost, what "
                     "was taken back in it may come again.",
            p->next_batch);
    tr_log_slot_name(f.file, slot->number);
    tr_salvage_tell(p->e, &f);
}

/* The base of the next good frame of the segment, or 0. */
static uint64_t rid_behind(const struct tr_replay *p, const struct tr_slot *slot, uint64_t off)
{
    const struct tr_log *log = &p->e->log;
    struct tr_frame f;
    uint32_t crc;

    for (; off + TR_FRAME_HEAD <= log->slot_bytes; off += TR_BLOCK) {
        if (tr_frame_decode(p->bytes + off, tr_frame_place(log->uuid, off), &f, &crc) == TARRY_OK &&
            f.seg_no == slot->seg_no && f.nonce == slot->nonce && (f.flags & TR_FRAME_SEAL) == 0) {
            return f.first_rid;
        }
    }
    return 0;
}

/* The head of this frame is good: go on behind it, with what is good in it. */
static int go_over(struct tr_replay *p, struct tr_slot *slot, const struct tr_frame *f)
{
    uint64_t end = slot->end_off + tr_frame_size(f->payload_len);
    int err;

    tell_hole(p, slot, end, rid_behind(p, slot, end));
    err = tr_salvage_frame(p, slot, f, true);
    slot->end_off = end;
    slot->last_batch = f->batch_no;
    p->next_batch = f->batch_no + 1;
    return err;
}

bool tr_salvage_go_on(struct tr_replay *p, struct tr_slot *slot)
{
    struct tr_log *log = &p->e->log;

    for (uint64_t off = slot->end_off; off + TR_FRAME_HEAD <= log->slot_bytes; off += TR_BLOCK) {
        struct tr_frame f;
        uint32_t crc;

        if (tr_frame_decode(p->bytes + off, tr_frame_place(log->uuid, off), &f, &crc) != TARRY_OK ||
            f.seg_no != slot->seg_no || f.nonce != slot->nonce || f.batch_no < p->next_batch) {
            continue;
        }
        if (off == slot->end_off && f.batch_no == p->next_batch && f.prev_crc == log->prev_crc) {
            if ((f.flags & TR_FRAME_SEAL) != 0) {
                return false;
            }
            log->prev_crc = crc; /* its payload is what is bad */
            return go_over(p, slot, &f) == TARRY_OK;
        }
        if (off != slot->end_off || f.batch_no != p->next_batch) {
            tell_hole(p, slot, off, (f.flags & TR_FRAME_SEAL) != 0 ? 0 : f.first_rid);
        }
        slot->end_off = off;
        p->next_batch = f.batch_no;
        log->prev_crc = f.prev_crc;
        return (f.flags & TR_FRAME_SEAL) == 0;
    }
    tell_hole(p, slot, log->slot_bytes, 0);
    return false;
}

int tr_salvage_no_segment(const struct tr_replay *p, const struct tr_slot *slot)
{
    char what[128];
    struct tr_finding f = {.fate = TR_FATE_LOST, .what = what};

    tr_text(what, sizeof what, "Segment %" PRIu64 " of the log, which is needed, is not there.",
            slot->seg_no);
    tr_log_slot_name(f.file, slot->number);
    if (p->salvage->collecting) {
        tr_salvage_tell(p->e, &f);
    }
    return TARRY_ENOTFOUND;
}

/* ---- who is alive ---- */

static int collect_groups(struct tr_salvage *s)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < s->e->groups.count && err == TARRY_OK; i++) {
        struct tr_group *g = s->e->groups.order[i];
        bool has;

        err = tr_regroup_has(s->e, g->is.rid_first, &has); /* reads all that are in it */
        for (uint64_t rid = tr_bitmap_next(&g->has, 0); err == TARRY_OK && rid != UINT64_MAX;
             rid = tr_bitmap_next(&g->has, rid + 1)) {
            err = tr_bitmap_set(&s->met, rid);
        }
        if (err == TARRY_OK) {
            err = tr_regroup_moved(s->e, g, s, collect_moved);
            err = err == TARRY_EDAMAGED || err == TARRY_EIO ? TARRY_OK : err; /* told by check */
        }
    }
    return err;
}

/* Is it in a group that cannot be used? That was told as a whole. */
static bool in_lost_group(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_manifest *m = &e->meta.now;

    for (uint32_t i = 0; i < m->group_count; i++) {
        if (rid >= m->groups[i].rid_first && rid <= m->groups[i].rid_last) {
            return tr_groups_find(&e->groups, rid) == NULL;
        }
    }
    return false;
}

static void tell_lost(const struct tr_salvage *s, uint64_t rid, const char *what)
{
    uint64_t id = tr_far_moved_id(&s->e->state.jobs.far, rid);
    struct tr_finding f = {.fate = TR_FATE_LOST, .what = what, .id = id != 0 ? id : rid};

    tr_salvage_tell(s->e, &f);
}

static bool may_live(const struct tr_salvage *s, uint64_t rid)
{
    const struct tr_checkpoint_gap *gap = &s->gap;

    return rid >= s->next_rid || tr_bitmap_test(&s->e->state.jobs.alive, rid) ||
           (gap->bits && rid >= gap->from && rid < gap->to);
}

int tr_salvage_alive(struct tr_salvage *s)
{
    struct tr_bitmap *alive = &s->e->state.jobs.alive;
    struct tr_bitmap fresh;
    uint64_t last = 0;
    uint64_t twice = 0;
    int err = collect_groups(s);

    tr_bitmap_init(&fresh, s->e->mem);
    s->next_rid = s->next_rid != 0 ? s->next_rid : s->e->meta.now.next_rid;
    for (uint64_t rid = tr_bitmap_next(&s->met, 0); err == TARRY_OK && rid != UINT64_MAX;
         rid = tr_bitmap_next(&s->met, rid + 1)) {
        last = rid;
        if (!tr_bitmap_test(&s->gone, rid) && may_live(s, rid)) {
            err = tr_bitmap_set(&fresh, rid);
            twice += rid < s->next_rid && !tr_bitmap_test(alive, rid);
        }
    }
    if (err != TARRY_OK) {
        tr_bitmap_fini(&fresh);
        return err;
    }
    for (uint64_t rid = tr_bitmap_next(alive, 0); rid != UINT64_MAX;
         rid = tr_bitmap_next(alive, rid + 1)) {
        if (!tr_bitmap_test(&s->met, rid) && !tr_bitmap_test(&s->gone, rid) &&
            !in_lost_group(s->e, rid)) {
            tell_lost(s, rid, "A job is said to be alive, but there is no record of it.");
        }
    }
    tr_bitmap_fini(alive);
    *alive = fresh;
    if (twice != 0) {
        char what[160];
        struct tr_finding f = {.fate = TR_FATE_TWICE, .what = what};

        tr_text(what, sizeof what,
                "Of %" PRIu64 " jobs it is not known whether they are still alive: they may come "
                "again.",
                twice);
        tr_salvage_tell(s->e, &f);
    }
    if (s->e->state.next_rid <= last) {
        s->e->state.next_rid = last + 1;
    }
    return tr_regroup_index(s->e);
}

/* ---- what can be read ---- */

static int weigh_job(void *ctx, const struct tr_record *rec, struct tr_topic *t)
{
    struct tr_salvage *s = ctx;
    struct tr_state *state = &s->e->state;
    bool dead = (rec->mask & TR_FIELD(DEAD)) != 0 && rec->dead.seq != 0;
    struct tr_salvage_count *c;
    struct tr_tally at;
    int err;

    t = t != NULL ? t : topic_of(s, rec->topic);
    c = t != NULL ? tr_map_find(&s->counts, t->number) : NULL;
    if (t != NULL && c == NULL) {
        c = tr_mem_alloc(s->e->mem, sizeof *c);
        if (c != NULL && tr_map_put(&s->counts, t->number, c) != TARRY_OK) {
            tr_mem_free(s->e->mem, c, sizeof *c);
            c = NULL;
        }
    }
    if (c == NULL) {
        return TARRY_ENOMEM;
    }
    c->jobs++;
    c->dead += dead;
    c->bytes += rec->body.len;
    if (dead && t->next_dead_seq <= rec->dead.seq) {
        t->next_dead_seq = rec->dead.seq + 1;
    }
    at = tr_tally_record(state, rec);
    err = dead ? TARRY_OK : tr_tally_check(state, NULL, &at);
    if (err == TARRY_OK && !dead) {
        tr_tally_shift(state, NULL, &at);
    }
    return err == TARRY_OK ? tr_bitmap_set(&s->seen, rec->rid) : err;
}

static void weigh_found(void *ctx, const struct tr_finding *f)
{
    const struct tr_salvage *s = ctx;

    tr_salvage_tell(s->e, f);
}

/* What cannot be read is no more: it was told. */
static void drop(struct tr_salvage *s, uint64_t rid)
{
    struct tr_state *state = &s->e->state;
    struct tr_job *job = tr_jobs_by_rid(&state->jobs, rid);
    const struct tr_far_entry *entry = tr_far_find(&state->jobs.far, rid);
    struct tr_kill kill = {.rid = rid};

    if (job != NULL) {
        kill = tr_tally_kill(job);
    } else if (entry != NULL) {
        kill = tr_tally_far(rid, entry);
    }
    if (!tr_state_kill(state, &kill, 0)) {
        tr_far_forget_moved(&state->jobs.far, rid);
        (void)tr_bitmap_clear(&state->jobs.alive, rid);
    }
}

int tr_salvage_weigh(struct tr_salvage *s)
{
    struct tr_state *state = &s->e->state;
    struct tr_survey survey = {.e = s->e, .ctx = s, .job = weigh_job, .found = weigh_found};
    const struct tr_list *all = &state->topics.all;
    int err;

    state->recells = false;
    err = tr_survey_run(&survey);
    if (err != TARRY_OK) {
        return err;
    }
    state->recells = true; /* those who go were not counted */
    state->replaying = true;
    for (uint64_t rid = tr_bitmap_next(&state->jobs.alive, 0); rid != UINT64_MAX;
         rid = tr_bitmap_next(&state->jobs.alive, rid + 1)) {
        if (!tr_bitmap_test(&s->seen, rid)) {
            drop(s, rid);
        }
    }
    state->replaying = false;
    state->recells = false;
    state->recount = false;
    state->redead = false;
    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);
        const struct tr_salvage_count *c = tr_map_find(&s->counts, t->number);

        t->jobs = c != NULL ? c->jobs : 0;
        t->dead = c != NULL ? c->dead : 0;
        t->bytes = c != NULL ? c->bytes : 0;
        tr_topic_note_listed(t);
    }
    return TARRY_OK;
}
