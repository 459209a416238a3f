/*
 * Snapshots of the facts, one per closed batch.
 *
 *     floor                                newest
 *     | batch 41 | batch 42 | batch 43 |
 *       durable    in flight  closed
 *
 * When batch n becomes durable, those before n are given up: a recovery must give n or more. After
 * a recovery to n those after n are given up too: they never happened and must never come back.
 *
 * Memory is exact at the end of a batch at the moment when it is closed, also in the middle of a
 * call; that is why facts are compared, and not the model, which may not have heard the answer yet.
 */
#include "prefix.h"

#include "base/check.h"
#include "base/err.h"
#include "engine/cells.h"
#include "engine/group.h"
#include "engine/record.h"
#include "sim_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sim_prefix_init(struct sim_prefix *p, struct sim_model *model, struct sim_report *report)
{
    *p = (struct sim_prefix){.model = model, .report = report, .promise = "I10"};
}

void sim_prefix_fini(struct sim_prefix *p)
{
    for (size_t i = 0; i < p->room; i++) {
        free(p->snaps[i].rows);
    }
    free(p->snaps);
    free(p->now.rows);
    sim_harm_fini(&p->harm);
}

void sim_prefix_reset(struct sim_prefix *p)
{
    p->first = 0;
    p->count = 0;
    p->rid_high = 0;
    sim_harm_reset(&p->harm);
}

struct reader {
    struct sim_prefix *p;
    struct sim_rows *into;
    const struct tr_engine *e;
};

static void set_fields(struct sim_row *row, const struct tr_record *rec)
{
    row->created_us = rec->created_us;
    row->delay_us = rec->delay_us;
    row->ttr_us = rec->ttr_us;
    row->priority = rec->priority;
    row->key = sim_key_number(rec->key.at, rec->key.len);
    row->extra = sim_extra_of_record(rec);
    row->body_len = (uint32_t)rec->body.len;
    row->reserves = rec->counters.reserves;
    row->timeouts = rec->counters.timeouts;
    row->releases = rec->counters.releases;
    row->buries = rec->counters.buries;
    row->kicks = rec->counters.kicks;
    row->body_hash = sim_body_hash(rec->body.at, row->body_len);
}

/* A far job's facts are in its record. False: it cannot be read. */
static bool read_record(const struct sim_prefix *p, const struct tr_job_fact *f,
                        struct sim_row *row)
{
    uint8_t *buf = malloc(f->len);
    struct tr_record rec;
    bool ok;

    TR_CHECK(buf != NULL);
    ok = sim_disk_peek(p->disk, f->file, f->off, buf, f->len) == f->len &&
         tr_record_decode_known(buf, f->len, f->rid, f->due_us, &rec) == TARRY_OK;
    if (ok) {
        set_fields(row, &rec);
    }
    free(buf);
    return ok;
}

static struct sim_row *new_row(struct sim_rows *r, uint64_t rid)
{
    r->sorted = r->sorted && (r->count == 0 || r->rows[r->count - 1].rid < rid);
    if (r->count == r->room) {
        r->room = r->room == 0 ? 64 : r->room * 2;
        r->rows = realloc(r->rows, r->room * sizeof(*r->rows));
        TR_CHECK(r->rows != NULL);
    }
    return &r->rows[r->count++];
}

static void add_row(void *ctx, const struct tr_job_fact *f)
{
    struct reader *reader = ctx;
    struct sim_rows *r = reader->into;
    struct sim_row *row;
    int topic = sim_model_topic_by_name(reader->p->model, f->topic, f->topic_len);

    if (topic < 0) {
        sim_fail(reader->p->report, "I7", "job %" PRIu64 " is in an unknown topic", f->id);
        return;
    }
    row = new_row(r, f->rid);
    *row = (struct sim_row){
        .rid = f->rid,
        .id = f->id,
        .due_us = f->due_us,
        .created_us = f->created_us,
        .delay_us = f->delay_us,
        .ttr_us = f->ttr_us,
        .dead_seq = f->dead_seq,
        .dead_at_us = f->dead_at_us,
        .dead_why = f->dead_why,
        .lease = f->lease,
        .lease_end_us = f->lease_end_us,
        .topic = (uint32_t)topic,
        .key = sim_key_number(f->key, f->key_len),
        .extra = sim_extra_of_fact(f),
        .priority = f->priority,
        .body_len = f->body_len,
        .reserves = f->reserves,
        .timeouts = f->timeouts,
        .releases = f->releases,
        .buries = f->buries,
        .kicks = f->kicks,
    };
    row->number = f->number;
    row->cell = f->cell;
    row->away = f->far;
    row->state = f->state;
    row->unread = f->far && !read_record(reader->p, f, row);
    if (f->body != NULL) {
        row->body_hash = sim_body_hash(f->body, f->body_len);
    }
}

/* A job of a run. */
static void add_run_row(struct reader *reader, const struct tr_record *rec)
{
    struct sim_prefix *p = reader->p;
    struct sim_row *row = new_row(reader->into, rec->rid);
    int topic = -1;

    for (unsigned i = 0; i < p->model->topic_count && p->like == NULL; i++) {
        if (p->model->topics[i].number == rec->topic) {
            topic = (int)i;
        }
    }
    for (size_t i = 0; p->like != NULL && i < p->like->count; i++) {
        if (p->like->rows[i].number == rec->topic) {
            topic = (int)p->like->rows[i].topic;
        }
    }
    *row = (struct sim_row){.rid = rec->rid,
                            .id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid,
                            .due_us = rec->due_us,
                            .dead_seq = rec->mask & TR_FIELD(DEAD) ? rec->dead.seq : 0,
                            .dead_at_us = rec->dead.at_us,
                            .dead_why = rec->dead.reason,
                            .away = true,
                            .number = rec->topic,
                            .cell = rec->flags & TR_RF_CELL,
                            .topic = (uint32_t)topic};
    set_fields(row, rec);
    if (topic < 0) { /* the model has not heard of the number yet */
        const struct sim_job *j = sim_model_find(p->model, row->id);

        row->topic = j != NULL ? j->topic : 0;
    }
}

/* All bytes of a file, as they were before any damage. */
static bool read_file(const struct sim_prefix *p, const char *name, uint8_t *bytes, size_t len)
{
    if (sim_harm_is(&p->harm, name)) {
        memcpy(bytes, p->harm.good, len < p->harm.good_len ? len : p->harm.good_len);
        return len == p->harm.good_len;
    }
    return sim_disk_peek(p->disk, name, 0, bytes, len) == len;
}

static void add_run(struct reader *reader, const struct tr_group_fact *g, unsigned piece)
{
    struct tr_run_of of = {.group = g->no, .piece = piece};
    uint32_t len = piece == 0 ? g->run_bytes : g->dead_bytes;
    char name[TR_IO_NAME_MAX];
    uint8_t *bytes = malloc(len + 1);
    struct tr_run_trailer trailer;
    struct tr_run_footer footer;

    TR_CHECK(bytes != NULL);
    memcpy(of.uuid, g->uuid, sizeof of.uuid);
    tr_group_name(name, g->no, (enum tr_group_file)piece);
    if (len < TR_RUN_TRAILER || !read_file(reader->p, name, bytes, len) ||
        tr_run_trailer(bytes + len - TR_RUN_TRAILER, &of, len, &trailer) != TARRY_OK ||
        tr_run_footer(bytes + trailer.footer_off, &of, &trailer, &footer) != TARRY_OK) {
        sim_fail(reader->p->report, "I10", "run %s cannot be read", name);
        free(bytes);
        return;
    }
    for (uint32_t i = 0; i < footer.block_count; i++) {
        struct tr_run_block_stat stat = tr_run_footer_block(&footer, i);
        struct tr_run_block block;
        struct tr_record rec;
        uint64_t place;

        if (tr_run_block(&footer, i, bytes + stat.off, &block) != TARRY_OK) {
            sim_fail(reader->p->report, "I10", "block %u of run %s cannot be read", i, name);
            break;
        }
        while (tr_run_next(&block, &rec, &place) == TARRY_OK) {
            if (tr_engine_only_in_run(reader->e, rec.rid, rec.topic)) {
                add_run_row(reader, &rec);
            }
        }
    }
    free(bytes);
}

static void add_group(void *ctx, const struct tr_group_fact *g)
{
    for (unsigned piece = 0; piece < 2; piece++) {
        if ((piece == 0 ? g->run_bytes : g->dead_bytes) != 0) {
            add_run(ctx, g, piece);
        }
    }
}

static int by_rid(const void *a, const void *b)
{
    const struct sim_row *x = a;
    const struct sim_row *y = b;

    return x->rid < y->rid ? -1 : x->rid > y->rid;
}

/* No two live jobs of a topic have one key. */
static void check_keys(struct sim_prefix *p, const struct sim_rows *rows)
{
    uint64_t seen[SIM_TOPICS_MAX][SIM_KEYS_MAX + 1] = {{0}};

    for (size_t i = 0; i < rows->count; i++) {
        const struct sim_row *row = &rows->rows[i];

        if (row->key == 0 || row->unread) {
            continue;
        }
        if (row->key > SIM_KEYS_MAX) {
            sim_fail(p->report, "I7", "job %" PRIu64 " has an unknown key", row->id);
            return;
        }
        if (seen[row->topic][row->key] != 0) {
            sim_fail(p->report, "I17", "jobs %" PRIu64 " and %" PRIu64 " have one key",
                     seen[row->topic][row->key], row->id);
        }
        seen[row->topic][row->key] = row->id;
    }
}

/* Topics count the bytes of their jobs, far ones and dead ones too, to the byte. */
static void check_bytes(struct sim_prefix *p, const struct sim_rows *rows)
{
    for (unsigned t = 0; t < SIM_TOPICS_MAX; t++) {
        uint64_t sum = 0;
        bool unread = false; /* one cannot be read, so who knows */

        for (size_t i = 0; i < rows->count && rows->numbers[t] != 0; i++) {
            bool of = rows->rows[i].number == rows->numbers[t];

            sum += of ? rows->rows[i].body_len : 0;
            unread = unread || (of && rows->rows[i].unread);
        }
        if (sum != rows->bytes[t] && !unread) {
            sim_fail(p->report, "I16",
                     "topic %u counts %" PRIu64 " bytes, but its jobs have %" PRIu64, t,
                     rows->bytes[t], sum);
        }
    }
}

static void add_policy(void *ctx, const struct tr_topic_fact *f)
{
    struct reader *reader = ctx;
    int topic = sim_model_topic_by_name(reader->p->model, f->name, f->name_len);

    if (topic < 0) {
        sim_fail(reader->p->report, "I7", "there is an unknown topic");
        return;
    }
    if (f->policy != NULL) {
        reader->into->policies[topic] = sim_policy_of(f->policy);
    }
    reader->into->bytes[topic] = f->bytes;
    reader->into->numbers[topic] = f->number;
}

static void read_into(struct sim_prefix *p, const struct tr_engine *e, struct sim_rows *into)
{
    struct reader reader = {p, into, e};

    into->count = 0;
    into->sorted = true;
    for (unsigned i = 0; i < SIM_TOPICS_MAX; i++) {
        into->policies[i] = sim_policy_none();
        into->bytes[i] = 0;
        into->numbers[i] = 0;
    }
    tr_engine_topics(e, add_policy, &reader);
    tr_engine_facts(e, add_row, &reader);
    tr_engine_groups(e, add_group, &reader);
    if (!into->sorted) {
        qsort(into->rows, into->count, sizeof(*into->rows), by_rid);
    }
    for (size_t i = 1; i < into->count; i++) {
        if (into->rows[i].rid == into->rows[i - 1].rid) {
            sim_fail(p->report, "I4", "rid %" PRIu64 " lives twice", into->rows[i].rid);
        }
    }
    check_keys(p, into);
    check_bytes(p, into);
}

void sim_prefix_read(struct sim_prefix *p, const struct tr_engine *e)
{
    read_into(p, e, &p->now);
}

/* ---- Cells of the forecast. */

struct cells {
    const struct sim_rows *rows;
    struct sim_prefix *p;
    uint64_t sums[2]; /* what the cells of topics count, and those of all */
};

static bool is_counted(const struct sim_prefix *p, const struct sim_row *row,
                       const struct tr_cell_fact *cell)
{
    uint64_t real = row->due_us / p->hour_us;
    uint64_t hour = real < TR_CELL_HOUR_MAX ? real : TR_CELL_HOUR_MAX;
    uint64_t when = row->cell == TR_RF_CELL_HOUR ? hour * 2 + 1 : hour / 24 * 24 * 2;

    return row->dead_seq == 0 && when == cell->when &&
           (cell->number == 0 || row->number == cell->number);
}

static void check_cell(void *ctx, const struct tr_cell_fact *cell)
{
    struct cells *c = ctx;
    uint64_t count = 0;

    for (size_t i = 0; i < c->rows->count; i++) {
        count += is_counted(c->p, &c->rows->rows[i], cell);
    }
    if (count != cell->count) {
        sim_fail(c->p->report, "I16",
                 "at batch %" PRIu64 " cell %" PRIu32 " of topic %" PRIu32 " counts %" PRIu32
                 ", but there are %" PRIu64 " jobs",
                 c->rows->batch, cell->when, cell->number, cell->count, count);
    }
    c->sums[cell->number == 0] += cell->count;
}

static void check_cells(struct sim_prefix *p, const struct tr_engine *e,
                        const struct sim_rows *rows)
{
    struct cells c = {.rows = rows, .p = p};
    uint64_t live = 0;
    bool all;

    for (size_t i = 0; i < rows->count; i++) {
        live += rows->rows[i].dead_seq == 0;
    }
    all = tr_engine_cells(e, check_cell, &c);
    if (c.sums[0] != live || (all && c.sums[1] != live)) {
        sim_fail(p->report, "I16",
                 "at batch %" PRIu64 " the cells of topics count %" PRIu64 " jobs, those of all "
                 "%" PRIu64 ", but there are %" PRIu64,
                 rows->batch, c.sums[0], c.sums[1], live);
    }
}

/* Room at the end; earlier snapshots that were given up lend their memory. */
static struct sim_rows *new_snap(struct sim_prefix *p, uint64_t batch)
{
    struct sim_rows *snap;

    if (p->first + p->count == p->room && p->first > 0) {
        for (size_t i = 0; i < p->count; i++) {
            struct sim_rows spare = p->snaps[i];

            p->snaps[i] = p->snaps[p->first + i];
            p->snaps[p->first + i] = spare;
        }
        p->first = 0;
    }
    if (p->first + p->count == p->room) {
        size_t room = p->room == 0 ? 16 : p->room * 2;

        p->snaps = realloc(p->snaps, room * sizeof(*p->snaps));
        TR_CHECK(p->snaps != NULL);
        memset(p->snaps + p->room, 0, (room - p->room) * sizeof(*p->snaps));
        p->room = room;
    }
    snap = &p->snaps[p->first + p->count++];
    snap->batch = batch;
    return snap;
}

uint64_t sim_prefix_floor(const struct sim_prefix *p)
{
    return p->count > 0 ? p->snaps[p->first].batch : 0;
}

static uint64_t newest(const struct sim_prefix *p)
{
    return p->count > 0 ? p->snaps[p->first + p->count - 1].batch : 0;
}

void sim_prefix_closed(struct sim_prefix *p, const struct tr_engine *e, uint64_t batch)
{
    struct sim_rows *snap;

    if (p->count > 0 && batch <= newest(p)) {
        sim_fail(p->report, "I6", "batch %" PRIu64 " is closed after batch %" PRIu64, batch,
                 newest(p));
        return;
    }
    snap = new_snap(p, batch);
    read_into(p, e, snap);
    check_cells(p, e, snap);
}

static void raise_rid_high(struct sim_prefix *p, const struct sim_rows *r)
{
    if (r->count > 0 && r->rows[r->count - 1].rid > p->rid_high) {
        p->rid_high = r->rows[r->count - 1].rid;
    }
}

void sim_prefix_durable(struct sim_prefix *p, uint64_t batch)
{
    while (p->count > 1 && p->snaps[p->first + 1].batch <= batch) {
        p->first++;
        p->count--;
    }
    if (p->count > 0 && p->snaps[p->first].batch <= batch) {
        raise_rid_high(p, &p->snaps[p->first]);
    }
}

const struct sim_rows *sim_prefix_find(const struct sim_prefix *p, uint64_t batch)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->snaps[p->first + i].batch == batch) {
            return &p->snaps[p->first + i];
        }
    }
    return NULL;
}

const struct sim_row *sim_rows_find(const struct sim_rows *r, uint64_t id)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->rows[i].id == id) {
            return &r->rows[i];
        }
    }
    return NULL;
}

#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct sim_row, name), sizeof(((struct sim_row *)0)->name)                 \
    }

enum { FAR_FIELDS = 4 }; /* the first ones, which are known of far jobs, too */

static const struct field {
    const char *name;
    size_t off;
    size_t size;
} fields[] = {
    FIELD(id),
    FIELD(rid),
    FIELD(topic),
    FIELD(due_us),
    FIELD(priority),
    FIELD(body_len),
    FIELD(dead_seq),
    FIELD(created_us),
    FIELD(delay_us),
    FIELD(ttr_us),
    FIELD(reserves),
    FIELD(timeouts),
    FIELD(releases),
    FIELD(buries),
    FIELD(kicks),
    FIELD(lease),
    FIELD(lease_end_us),
    FIELD(key),
    FIELD(extra.tag),
    FIELD(extra.ttl_us),
    FIELD(extra.retries),
    FIELD(extra.backoff),
    FIELD(extra.beanstalk),
    FIELD(dead_at_us),
    FIELD(dead_why),
};

static uint64_t field_of(const struct sim_row *row, const struct field *f)
{
    const char *at = (const char *)row + f->off;
    uint64_t wide = 0;
    uint32_t narrow = 0;

    if (f->size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

/* The first field that differs, or NULL. */
static const struct field *row_differs(const struct sim_row *a, const struct sim_row *b)
{
    size_t count = a->unread || b->unread ? FAR_FIELDS : sizeof(fields) / sizeof(fields[0]);

    for (size_t i = 0; i < count; i++) {
        if (field_of(a, &fields[i]) != field_of(b, &fields[i])) {
            return &fields[i];
        }
    }
    return NULL;
}

static uint64_t rid_at(const struct sim_rows *r, size_t i)
{
    return i < r->count ? r->rows[i].rid : UINT64_MAX;
}

static void compare(struct sim_prefix *p, const struct sim_rows *want, const struct sim_rows *got)
{
    for (size_t i = 0; i < want->count || i < got->count; i++) {
        const struct field *field;

        if (rid_at(want, i) < rid_at(got, i)) {
            sim_fail(p->report, p->promise,
                     "recovery to batch %" PRIu64 " lost job %" PRIu64 " (rid %" PRIu64 ")",
                     want->batch, want->rows[i].id, want->rows[i].rid);
            return;
        }
        if (rid_at(got, i) < rid_at(want, i)) {
            sim_fail(p->report, p->promise,
                     "recovery to batch %" PRIu64 " gave job %" PRIu64 " (rid %" PRIu64
                     "), which was not there",
                     want->batch, got->rows[i].id, got->rows[i].rid);
            return;
        }
        field = row_differs(&want->rows[i], &got->rows[i]);
        if (field != NULL) {
            sim_fail(p->report, p->promise,
                     "recovery to batch %" PRIu64 ": job %" PRIu64 " (rid %" PRIu64
                     ") has %s %" PRIu64 ", not %" PRIu64,
                     want->batch, got->rows[i].id, got->rows[i].rid, field->name,
                     field_of(&got->rows[i], field), field_of(&want->rows[i], field));
            return;
        }
    }
}

static void compare_policies(struct sim_prefix *p, const struct sim_rows *want,
                             const struct sim_rows *got)
{
    for (unsigned i = 0; i < SIM_TOPICS_MAX; i++) {
        if (!sim_policy_same(&want->policies[i], &got->policies[i])) {
            sim_fail(p->report, p->promise,
                     "recovery to batch %" PRIu64 " gave topic %u another policy (%x, not %x)",
                     want->batch, i, got->policies[i].p.given, want->policies[i].p.given);
        }
        if (want->bytes[i] != got->bytes[i]) {
            sim_fail(p->report, "I10",
                     "recovery to batch %" PRIu64 " gave topic %u %" PRIu64 " bytes, not %" PRIu64,
                     want->batch, i, got->bytes[i], want->bytes[i]);
        }
    }
}

void sim_prefix_same(struct sim_prefix *p, const struct tr_engine *e, const struct sim_rows *want)
{
    p->like = want;
    sim_prefix_read(p, e);
    p->like = NULL;
    compare(p, want, &p->now);
    compare_policies(p, want, &p->now);
}

void sim_rows_copy(struct sim_rows *to, const struct sim_rows *from)
{
    struct sim_rows copy = *from;

    copy.rows = malloc((from->count + 1) * sizeof *copy.rows);
    TR_CHECK(copy.rows != NULL);
    if (from->count != 0) {
        memcpy(copy.rows, from->rows, from->count * sizeof *copy.rows);
    }
    copy.room = from->count + 1;
    sim_rows_free(to);
    *to = copy;
}

void sim_rows_free(struct sim_rows *r)
{
    free(r->rows);
    *r = (struct sim_rows){0};
}

void sim_prefix_recovered(struct sim_prefix *p, const struct tr_engine *e, uint64_t batch)
{
    const struct sim_rows *want = sim_prefix_find(p, batch);
    struct sim_rows *snap;

    sim_prefix_read(p, e);
    if (p->count > 0 && batch < sim_prefix_floor(p)) {
        sim_fail(p->report, "I10", "recovered to batch %" PRIu64 ", but %" PRIu64 " was durable",
                 batch, sim_prefix_floor(p));
    } else if (p->count > 0 && want == NULL) {
        sim_fail(p->report, "I10",
                 "recovered to batch %" PRIu64 ", but only %" PRIu64 " to %" PRIu64 " are allowed",
                 batch, sim_prefix_floor(p), newest(p));
    } else if (want != NULL) {
        compare(p, want, &p->now);
        compare_policies(p, want, &p->now);
    } else if (p->now.count != 0) {
        sim_fail(p->report, "I10", "a new store has %zu jobs", p->now.count);
    }
    p->first = 0;
    p->count = 0;
    snap = new_snap(p, batch);
    read_into(p, e, snap);
    check_cells(p, e, snap);
    raise_rid_high(p, snap);
}
