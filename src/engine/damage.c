/*
 * What is known to be damaged.
 *
 *     a place   a page or block that cannot be read: file and offset
 *     a job     whose record cannot be: id, topic, due time, file and offset
 *
 * Each is told once, when it is found, and stays in the list while it is so: until the job is gone
 * or its record is read after all, until the group with that file has been written again. The list
 * is in memory only: after a start damage is found, and told, anew. While it is not empty the store
 * is not well (tr_engine_stat), though all that can be read goes on.
 *
 * The bytes are kept for whoever wants to look at them: `quarantine/<file>.<offset>`, and beside it
 * a text that says what they were. That is done in the background, for the first few places; if it
 * fails, it is left out: the damaged file itself is still there.
 *
 * The starting design would put a notice into a topic `$damaged`. It is not done: a damaged store
 * should write as little as it can, every start would add the same notices again, and a topic that
 * nobody asked for has nobody who empties it. The log, the list and the quarantine say the same.
 */

#include "engine/damage.h"

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/inner.h"

#include <inttypes.h>
#include <string.h>

/* ---- the list ---- */

/* Is it still so? */
static bool is_current(const struct tr_engine *e, const struct tr_damaged *d)
{
    if (d->rid != 0) {
        return tr_bitmap_test(&e->state.jobs.alive, d->rid);
    }
    return d->group == 0 || tr_groups_by_no(&e->groups, d->group) != NULL;
}

static bool is_same(const struct tr_damaged *a, const struct tr_damaged *b)
{
    return a->rid == b->rid && (a->rid != 0 || (a->off == b->off && strcmp(a->file, b->file) == 0));
}

/* Those that are over make room. */
static void tidy(struct tr_engine *e)
{
    struct tr_damage *d = &e->damage;
    unsigned kept = 0;

    for (unsigned i = 0; i < d->count; i++) {
        if (is_current(e, &d->items[i])) {
            d->items[kept++] = d->items[i];
        }
    }
    d->count = kept;
}

bool tr_damage_add(struct tr_engine *e, const struct tr_damaged *found)
{
    struct tr_damage *d = &e->damage;

    if (d->items == NULL) {
        d->items = tr_mem_stretch(e->mem, NULL, 0, TR_DAMAGE_MAX * sizeof *d->items);
    }
    tidy(e);
    for (unsigned i = 0; i < d->count; i++) {
        if (is_same(&d->items[i], found)) {
            return false;
        }
    }
    if (d->items == NULL || d->count == TR_DAMAGE_MAX) {
        d->more++;
        return true;
    }
    d->items[d->count] = *found;
    d->items[d->count++].at_us = e->now.wall_us;
    return true;
}

void tr_damage_lift(struct tr_engine *e, uint64_t rid)
{
    struct tr_damage *d = &e->damage;

    for (unsigned i = 0; i < d->count; i++) {
        if (d->items[i].rid == rid) {
            tr_engine_note(e, TR_NOTE_INFO, "The record of job %" PRIu64 " can be read after all.",
                           d->items[i].id);
            d->items[i] = d->items[--d->count];
            d->mended++;
            return;
        }
    }
}

void tr_damage_keep(struct tr_engine *e, const struct tr_damaged *what, const uint8_t *bytes,
                    const char *note)
{
    struct tr_damage *d = &e->damage;
    struct tr_damage_copy *c = &d->copies[d->copy_count];

    if (d->copy_count == TR_DAMAGE_COPIES || d->files >= TR_DAMAGE_FILES || e->failed ||
        e->space.no_room) {
        return;
    }
    *c = (struct tr_damage_copy){.len = what->len};
    c->bytes = bytes != NULL && what->len != 0 ? tr_mem_stretch(e->mem, NULL, 0, what->len) : NULL;
    if (c->bytes != NULL) {
        memcpy(c->bytes, bytes, what->len);
    }
    tr_text(c->name, sizeof c->name, "quarantine/%s.%" PRIx64, what->file, what->off);
    tr_text(c->note, sizeof c->note, "%s\n", note);
    d->copy_count++;
    d->files++;
}

void tr_damage_tell(struct tr_engine *e, const struct tr_damaged *d, const uint8_t *bytes)
{
    const struct tr_topic *t = tr_topics_by_number(&e->state.topics, d->topic);
    char note[TR_DAMAGE_NOTE];
    char due[48] = "";

    if (!tr_damage_add(e, d)) {
        return;
    }
    if (d->due_us != TR_NEVER) {
        tr_text(due, sizeof due, ", due at %" PRIu64 " ms", d->due_us / 1000);
    }
    tr_text(note, sizeof note,
            "The record of job %" PRIu64 " (topic %.*s%s) cannot be read: file %s, offset %" PRIu64
            ", %u bytes.",
            d->id, t != NULL ? (int)t->name_len : 1, t != NULL ? t->name : "?", due, d->file,
            d->off, d->len);
    tr_engine_note(e, TR_NOTE_DAMAGE, "%s", note);
    if (bytes != NULL) {
        tr_damage_keep(e, d, bytes, note);
    }
}

bool tr_damage_place(struct tr_engine *e, const char *file, uint64_t group, uint64_t off)
{
    struct tr_damaged d = {.off = off, .group = group, .due_us = TR_NEVER};

    tr_text(d.file, sizeof d.file, "%s", file);
    return tr_damage_add(e, &d);
}

void tr_engine_damage(const struct tr_engine *e, tr_damage_fn *fn, void *ctx)
{
    for (unsigned i = 0; i < e->damage.count; i++) {
        const struct tr_damaged *d = &e->damage.items[i];
        const struct tr_topic *t = tr_topics_by_number(&e->state.topics, d->topic);
        struct tr_damage_fact fact = {.file = d->file,
                                      .off = d->off,
                                      .len = d->len,
                                      .id = d->rid != 0 ? d->id : 0,
                                      .topic = t != NULL ? t->name : "",
                                      .topic_len = t != NULL ? t->name_len : 0,
                                      .due_us = d->due_us != TR_NEVER ? d->due_us : 0,
                                      .at_us = d->at_us};

        if (is_current(e, d)) {
            fn(ctx, &fact);
        }
    }
}

void tr_damage_stat(const struct tr_engine *e, struct tr_engine_stat *s)
{
    const struct tr_damage *d = &e->damage;

    for (unsigned i = 0; i < d->count; i++) {
        if (is_current(e, &d->items[i])) {
            *(d->items[i].rid != 0 ? &s->damaged_jobs : &s->damaged_places) += 1;
        }
    }
    s->damage_untold = d->more;
    s->mended = d->mended;
    s->quarantined = d->files;
    s->damaged = s->damaged_jobs != 0 || s->damaged_places != 0 || d->more != 0 ||
                 e->overlay != NULL || /* its files are not as they are shown, */
                 e->config.salvage;    /* or what is left of a store is */
}

/* ---- copies ---- */

static void send(struct tr_engine *e, enum tr_damage_step step, struct tr_io io)
{
    struct tr_damage *d = &e->damage;

    io.lane = TR_LANE_BACK;
    io.file = io.op != TR_IO_OPEN ? d->io.file : -1;
    d->io = io;
    d->step = step;
    e->disk.ops->submit(e->disk.ctx, &d->io);
}

static void open_copy(struct tr_engine *e)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};

    tr_text(io.name, sizeof io.name, "%s%s", e->damage.copies[0].name,
            e->damage.report ? ".txt" : "");
    e->damage.done = 0;
    send(e, TR_DAMAGE_OPEN, io);
}

static void write_copy(struct tr_engine *e)
{
    struct tr_damage *d = &e->damage;
    const struct tr_damage_copy *c = &d->copies[0];
    uint64_t len = d->report ? strlen(c->note) : c->len;
    const uint8_t *from = d->report ? (const uint8_t *)c->note : c->bytes;

    if (d->done == len) {
        send(e, TR_DAMAGE_CLOSE, (struct tr_io){.op = TR_IO_CLOSE});
        return;
    }
    d->piece = (struct tr_piece){from + d->done, (size_t)(len - d->done)};
    send(e, TR_DAMAGE_WRITE,
         (struct tr_io){.op = TR_IO_WRITE,
                        .off = d->done,
                        .len = d->piece.len,
                        .pieces = &d->piece,
                        .piece_count = 1});
}

static void drop_first(struct tr_engine *e)
{
    struct tr_damage *d = &e->damage;

    if (d->copies[0].bytes != NULL) {
        tr_mem_free(e->mem, d->copies[0].bytes, d->copies[0].len);
    }
    d->copy_count--;
    memmove(&d->copies[0], &d->copies[1], d->copy_count * sizeof d->copies[0]);
    d->report = false;
}

void tr_damage_io_done(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_damage *d = &e->damage;
    enum tr_damage_step step = d->step;

    d->step = TR_DAMAGE_IDLE;
    if ((step == TR_DAMAGE_OPEN && io->status != TARRY_OK) || /* then without */
        (step == TR_DAMAGE_CLOSE && d->report)) {
        drop_first(e);
    } else if (step == TR_DAMAGE_CLOSE) {
        d->report = true;
    } else if (step == TR_DAMAGE_WRITE && (io->status != TARRY_OK || e->failed)) {
        send(e, TR_DAMAGE_CLOSE, (struct tr_io){.op = TR_IO_CLOSE});
    } else {
        d->done += step == TR_DAMAGE_WRITE ? io->got : 0;
        write_copy(e);
    }
}

void tr_damage_step(struct tr_engine *e)
{
    struct tr_damage *d = &e->damage;

    if (d->step == TR_DAMAGE_IDLE && d->copy_count != 0) {
        d->report = d->report || d->copies[0].bytes == NULL;
        open_copy(e);
    }
}

bool tr_damage_busy(const struct tr_engine *e)
{
    return e->damage.step != TR_DAMAGE_IDLE;
}

void tr_damage_fini(struct tr_engine *e)
{
    while (e->damage.copy_count != 0) {
        drop_first(e);
    }
    if (e->damage.items != NULL) {
        tr_mem_free(e->mem, e->damage.items, TR_DAMAGE_MAX * sizeof *e->damage.items);
        e->damage.items = NULL;
    }
    tr_overlay_free(e->overlay);
    e->overlay = NULL;
}
