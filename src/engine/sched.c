/*
 * Schedules, as records make them.
 *
 *     SCHED   number, name   1 WHOLE: varint length, definition, state    made, or made anew
 *             number         2 STEP:  state                               a tick, an end, a pause
 *             number         3 GONE
 *
 * A state is whole in each record, so the newest one is right whatever came before. The job of an
 * occurrence is an ordinary PUSH in the same batch as the step that made it: a batch is there or
 * not, so an occurrence is made once, whatever happens (I24).
 *
 * In a checkpoint a schedule is its name, definition and state in rows of up to TR_SCHED_CHUNK
 * bytes: varint number, varint offset, varint length of all, varint length, so many bytes. Rows of
 * one stand behind each other.
 *
 * Memory: about 400 bytes, name and body for each, under the engine's budget.
 */

#include "engine/sched.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "engine/checkpoint.h"
#include "engine/state.h"

#include <string.h>

void tr_scheds_init(struct tr_scheds *ss, struct tr_mem *mem)
{
    *ss = (struct tr_scheds){.mem = mem, .next_number = 1};
    tr_list_init(&ss->all);
    tr_map_init(&ss->by_number, mem);
    tr_map_init(&ss->by_name, mem);
    tr_map_init(&ss->live, mem);
}

static size_t size_of(const struct tr_sched *s)
{
    return sizeof *s + s->name_len + s->def_len;
}

static void drop_part(struct tr_scheds *ss)
{
    tr_mem_free(ss->mem, ss->part, ss->part_size);
    ss->part = NULL;
    ss->part_size = 0;
    ss->part_len = 0;
}

void tr_scheds_fini(struct tr_scheds *ss)
{
    if (ss->mem == NULL) {
        return;
    }
    while (!tr_list_empty(&ss->all)) {
        struct tr_sched *s = TR_CONTAINER_OF(ss->all.next, struct tr_sched, link);

        tr_list_remove(&s->link);
        tr_mem_free(ss->mem, s, size_of(s));
    }
    drop_part(ss);
    tr_map_fini(&ss->by_number);
    tr_map_fini(&ss->by_name);
    tr_map_fini(&ss->live);
}

const char *tr_sched_name(const struct tr_sched *s)
{
    return (const char *)s->bytes;
}

static uint64_t name_hash(const char *name, size_t len)
{
    return (uint64_t)tr_crc(0, name, len) << 32 | tr_crc(tr_crc_seed(len), name, len);
}

struct tr_sched *tr_scheds_find(const struct tr_scheds *ss, const char *name, size_t len)
{
    struct tr_sched *s = tr_map_find(&ss->by_name, name_hash(name, len));

    while (s != NULL && (s->name_len != len || memcmp(s->bytes, name, len) != 0)) {
        s = s->same_hash;
    }
    return s;
}

static struct tr_sched *scheds_by_number(const struct tr_scheds *ss, uint64_t number)
{
    return tr_map_find(&ss->by_number, number);
}

struct tr_sched *tr_scheds_by_live(const struct tr_scheds *ss, uint64_t id)
{
    return tr_map_count(&ss->live) != 0 ? tr_map_find(&ss->live, id) : NULL;
}

struct tr_sched *tr_scheds_after(const struct tr_scheds *ss, uint64_t number)
{
    const struct tr_sched *at = scheds_by_number(ss, number);
    struct tr_list *n = at != NULL ? at->link.next : ss->all.next;

    while (n != &ss->all && TR_CONTAINER_OF(n, struct tr_sched, link)->number <= number) {
        n = n->next; /* that one is gone: as a rule it was the first */
    }
    return n != &ss->all ? TR_CONTAINER_OF(n, struct tr_sched, link) : NULL;
}

size_t tr_sched_row_bytes(size_t name_len, size_t def_len)
{
    size_t len = (size_t)2 * TR_VARINT_MAX + name_len + def_len + TR_SCHEDULE_STATE_MAX;

    return len + (len / TR_SCHED_CHUNK + 1) * TR_SCHED_ROW_HEAD;
}

/* ---- lists and maps ---- */

static void remember_name(struct tr_scheds *ss, struct tr_sched *s)
{
    uint64_t hash = name_hash(tr_sched_name(s), s->name_len);

    s->same_hash = tr_map_find(&ss->by_name, hash);
    TR_CHECK(tr_map_put(&ss->by_name, hash, s) == TARRY_OK);
}

static void forget_name(struct tr_scheds *ss, struct tr_sched *s)
{
    uint64_t hash = name_hash(tr_sched_name(s), s->name_len);
    struct tr_sched *at = tr_map_find(&ss->by_name, hash);

    if (at != s) {
        while (at->same_hash != s) {
            at = at->same_hash;
        }
        at->same_hash = s->same_hash;
    } else if (s->same_hash != NULL) {
        TR_CHECK(tr_map_put(&ss->by_name, hash, s->same_hash) == TARRY_OK); /* replaces */
    } else {
        TR_CHECK(tr_map_take(&ss->by_name, hash) == s);
    }
}

static void forget_live(struct tr_scheds *ss, const struct tr_sched *s)
{
    if (s->at.live_id != 0) {
        TR_CHECK(tr_map_take(&ss->live, s->at.live_id) == s);
    }
}

/* Numbers rise, but for a replay of one that was made again. */
static void insert(struct tr_scheds *ss, struct tr_sched *s)
{
    struct tr_list *before = ss->all.prev;

    while (before != &ss->all &&
           TR_CONTAINER_OF(before, struct tr_sched, link)->number > s->number) {
        before = before->prev;
    }
    s->link.prev = before;
    s->link.next = before->next;
    before->next->prev = &s->link;
    before->next = &s->link;
}

static void remove_sched(struct tr_scheds *ss, struct tr_sched *s)
{
    TR_CHECK(!s->timer.armed);
    forget_live(ss, s);
    forget_name(ss, s);
    tr_list_remove(&s->link);
    if (!tr_list_empty(&s->in_held)) {
        tr_list_remove(&s->in_held);
    }
    ss->count--;
    ss->row_bytes -= tr_sched_row_bytes(s->name_len, s->def_len);
    tr_mem_free(ss->mem, s, size_of(s));
}

/* ---- records ---- */

/* A struct for what the bytes say. */
static int make(struct tr_scheds *ss, struct tr_bytes name, struct tr_bytes def,
                struct tr_sched **out)
{
    struct tr_sched *s = tr_mem_alloc(ss->mem, sizeof *s + name.len + def.len);
    char why[TR_CRON_WHY];
    int err;

    *out = s;
    if (s == NULL) {
        return TARRY_ENOMEM;
    }
    s->name_len = name.len;
    s->def_len = def.len;
    memcpy(s->bytes, name.at, name.len);
    memcpy(s->bytes + name.len, def.at, def.len);
    tr_list_init(&s->in_held);
    tr_timer_init(&s->timer);
    err = tr_schedule_decode(s->bytes + name.len, def.len, &s->is);
    if (err == TARRY_OK && s->is.kind == TR_SCHEDULE_CRON &&
        tr_cron_read(s->is.cron.at, s->is.cron.len, &s->cron, why) != TARRY_OK) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        tr_mem_free(ss->mem, s, size_of(s));
        *out = NULL;
    }
    return err;
}

/* It is about to change or go. */
static void before_change(struct tr_state *s, struct tr_sched *sched)
{
    if (s->freeze != NULL && !TR_MUTANT(SCHED_NOT_FROZEN)) {
        tr_freeze_sched(s->freeze, sched);
    }
}

/* Memory for all that follows. */
static int make_room(struct tr_scheds *ss, const struct tr_schedule_state *at)
{
    int err = tr_map_reserve(&ss->by_number, 1);

    err = err == TARRY_OK ? tr_map_reserve(&ss->by_name, 1) : err;
    return err == TARRY_OK && at->live_id != 0 ? tr_map_reserve(&ss->live, 1) : err;
}

static int apply_whole(struct tr_state *state, const struct tr_record *rec, struct tr_reader *r)
{
    struct tr_scheds *ss = &state->scheds;
    struct tr_sched *old = scheds_by_number(ss, rec->number);
    struct tr_sched *other = tr_scheds_find(ss, (const char *)rec->name.at, rec->name.len);
    struct tr_schedule_state at;
    struct tr_sched *s;
    size_t len = (size_t)tr_read_varint(r);
    const uint8_t *def = tr_read_bytes(r, len);
    int err;

    if (def == NULL || rec->number == 0 || rec->name.len == 0 ||
        rec->name.len > TR_SCHEDULE_NAME_MAX || other != old) {
        return TARRY_EDAMAGED;
    }
    err = tr_schedule_state_decode(r->at, tr_reader_left(r), &at);
    if (err == TARRY_OK && at.live_id != 0 && tr_scheds_by_live(ss, at.live_id) != NULL &&
        tr_scheds_by_live(ss, at.live_id) != old) {
        err = TARRY_EDAMAGED;
    }
    err = err == TARRY_OK ? make_room(ss, &at) : err;
    err = err == TARRY_OK ? make(ss, rec->name, (struct tr_bytes){def, len}, &s) : err;
    if (err != TARRY_OK) {
        return err;
    }
    s->number = rec->number;
    s->at = at;
    if (old != NULL) {
        before_change(state, old);
        if (state->freeze != NULL) {
            tr_freeze_sched_leaves(state->freeze, old);
        }
        s->row_no = state->jobs.freeze_no; /* the old one is in the checkpoint */
        remove_sched(ss, old);
    }
    TR_CHECK(tr_map_put(&ss->by_number, s->number, s) == TARRY_OK);
    remember_name(ss, s);
    insert(ss, s);
    if (at.live_id != 0) {
        TR_CHECK(tr_map_put(&ss->live, at.live_id, s) == TARRY_OK);
    }
    ss->count++;
    ss->row_bytes += tr_sched_row_bytes(s->name_len, s->def_len);
    if (ss->next_number <= s->number) {
        ss->next_number = s->number + 1;
    }
    return TARRY_OK;
}

static int apply_step(struct tr_state *state, struct tr_sched *s, const struct tr_reader *r)
{
    struct tr_scheds *ss = &state->scheds;
    struct tr_schedule_state at;
    int err = tr_schedule_state_decode(r->at, tr_reader_left(r), &at);

    if (err == TARRY_OK && at.live_id != 0 && at.live_id != s->at.live_id) {
        err = tr_map_find(&ss->live, at.live_id) == NULL ? tr_map_put(&ss->live, at.live_id, s)
                                                         : TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    before_change(state, s);
    if (at.live_id != s->at.live_id) {
        forget_live(ss, s);
    }
    s->at = at;
    return TARRY_OK;
}

int tr_scheds_apply(struct tr_state *state, const struct tr_record *rec)
{
    struct tr_reader r = tr_reader_of(rec->body.at, rec->body.len);
    struct tr_sched *s = scheds_by_number(&state->scheds, rec->number);
    uint64_t what = tr_read_le(&r, 1);

    if (what == TR_SCHED_WHOLE) {
        return apply_whole(state, rec, &r);
    }
    if (what > TR_SCHED_GONE) {
        return TARRY_EVERSION;
    }
    if (r.bad || s == NULL) {
        return TARRY_EDAMAGED;
    }
    if (what == TR_SCHED_STEP) {
        return apply_step(state, s, &r);
    }
    before_change(state, s);
    if (state->freeze != NULL) {
        tr_freeze_sched_leaves(state->freeze, s);
    }
    TR_CHECK(tr_map_take(&state->scheds.by_number, s->number) == s);
    remove_sched(&state->scheds, s);
    return TARRY_OK;
}

/* ---- checkpoints ---- */

size_t tr_sched_pack(const struct tr_sched *s, uint8_t *out)
{
    size_t len = tr_put_varint(out, s->name_len);

    memcpy(out + len, s->bytes, s->name_len);
    len += s->name_len;
    len += tr_put_varint(out + len, s->def_len);
    memcpy(out + len, s->bytes + s->name_len, s->def_len);
    len += s->def_len;
    return len + tr_schedule_state_encode(out + len, &s->at);
}

/* Puts what was packed into the form of a record; only the first byte is another. */
static int load_packed(struct tr_state *s, uint64_t number, const uint8_t *at, size_t len)
{
    struct tr_reader r = tr_reader_of(at, len);
    struct tr_record rec = {.type = TR_REC_SCHED, .number = number};

    rec.name.len = (size_t)tr_read_varint(&r);
    rec.name.at = tr_read_bytes(&r, rec.name.len);
    return rec.name.at != NULL ? apply_whole(s, &rec, &r) : TARRY_EDAMAGED;
}

int tr_scheds_load_row(struct tr_state *s, struct tr_reader *r)
{
    struct tr_scheds *ss = &s->scheds;
    uint64_t number = tr_read_varint(r);
    uint64_t off = tr_read_varint(r);
    uint64_t all = tr_read_varint(r);
    size_t len = (size_t)tr_read_varint(r);
    const uint8_t *p = tr_read_bytes(r, len);
    int err = TARRY_OK;

    if (p == NULL || all > TR_SCHEDULE_BYTES_MAX + 1024 || off + len > all) {
        return TARRY_EDAMAGED;
    }
    if (off == 0) {
        drop_part(ss);
        if (len == all) {
            return load_packed(s, number, p, len);
        }
        ss->part = tr_mem_alloc(ss->mem, (size_t)all);
        ss->part_size = ss->part != NULL ? (size_t)all : 0;
        ss->part_number = number;
        if (ss->part == NULL) {
            return TARRY_ENOMEM;
        }
    }
    if (ss->part == NULL || ss->part_number != number || ss->part_len != off ||
        ss->part_size != all) {
        return TARRY_EDAMAGED;
    }
    memcpy(ss->part + off, p, len);
    ss->part_len += len;
    if (ss->part_len == all) {
        err = load_packed(s, number, ss->part, (size_t)all);
        drop_part(ss);
    }
    return err;
}

bool tr_scheds_ok(const struct tr_scheds *ss)
{
    uint64_t count = 0;
    uint64_t live = 0;
    uint64_t bytes = 0;
    uint64_t number = 0;

    for (const struct tr_list *n = ss->all.next; n != &ss->all; n = n->next) {
        const struct tr_sched *s = TR_CONTAINER_OF(n, struct tr_sched, link);

        if (s->number <= number || scheds_by_number(ss, s->number) != s ||
            tr_scheds_find(ss, tr_sched_name(s), s->name_len) != s ||
            (s->at.live_id != 0 && tr_map_find(&ss->live, s->at.live_id) != s)) {
            return false;
        }
        number = s->number;
        live += s->at.live_id != 0;
        bytes += tr_sched_row_bytes(s->name_len, s->def_len);
        count++;
    }
    return count == ss->count && bytes == ss->row_bytes && live == tr_map_count(&ss->live) &&
           count == tr_map_count(&ss->by_number);
}
