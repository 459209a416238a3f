/*
 * The table of jobs.
 *
 *     rid  --by_rid-->  job  <--moved--  id, where id != rid
 *
 * A job that was never moved has rid == id, so by_rid finds it by either; only moved ones need a
 * second entry. Jobs live in chunks that never move; dead ones wait in `spare`. A chunk with nobody
 * in it is given back when there is time (tr_jobs_trim) and leaves a hole for the next one, so that
 * walks over all jobs keep their place.
 *
 * Invariant: L[rid] is set exactly for the rids in by_rid and the far ones, and goes from 1 to 0
 * only (R15): it is set by tr_jobs_add and tr_jobs_rename with a rid that was never used, by
 * nothing else.
 *
 * Cost: O(1) each, an allocation per 64 jobs. About 400 bytes a job in memory, 33 a far one.
 *
 * Not done here: lists, timers and heaps of a job's state; those belong to change.c.
 */

#include "engine/job.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/slot.h"

#include <string.h>

enum { CHUNK_JOBS = 64 };

struct tr_job_chunk {
    unsigned used;
    struct tr_job jobs[CHUNK_JOBS];
};

void tr_jobs_init(struct tr_jobs *js, struct tr_mem *mem)
{
    *js = (struct tr_jobs){.mem = mem};
    tr_bitmap_init(&js->alive, mem);
    tr_index_init(&js->by_rid, mem);
    tr_map_init(&js->moved, mem);
    tr_far_init(&js->far, mem);
    tr_list_init(&js->spare);
    tr_list_init(&js->altered_jobs);
}

void tr_jobs_fini(struct tr_jobs *js)
{
    size_t at = 0;
    struct tr_job *job;

    if (js->mem == NULL) {
        return;
    }
    while ((job = tr_jobs_next(js, &at)) != NULL) {
        tr_jobs_drop_body(js, job);
        tr_extra_free(js->mem, job->extra);
    }
    for (size_t i = 0; i < js->chunk_count; i++) {
        tr_mem_free(js->mem, js->chunks[i], sizeof(struct tr_job_chunk));
    }
    tr_mem_free(js->mem, js->chunks, js->chunk_room * sizeof(struct tr_job_chunk *));
    tr_bitmap_fini(&js->alive);
    tr_index_fini(&js->by_rid);
    tr_map_fini(&js->moved);
    tr_far_fini(&js->far);
    *js = (struct tr_jobs){0};
}

static int add_chunk(struct tr_jobs *js)
{
    struct tr_job_chunk *chunk;

    while (js->hole < js->chunk_count && js->chunks[js->hole] != NULL) {
        js->hole++;
    }
    if (js->hole == js->chunk_room) {
        size_t room = js->chunk_room == 0 ? 16 : js->chunk_room * 2;
        struct tr_job_chunk **chunks =
            tr_mem_resize(js->mem, js->chunks, js->chunk_room * sizeof(struct tr_job_chunk *),
                          room * sizeof(struct tr_job_chunk *));

        if (chunks == NULL) {
            return TARRY_ENOMEM;
        }
        js->chunks = chunks;
        js->chunk_room = room;
    }
    chunk = tr_mem_alloc(js->mem, sizeof *chunk);
    if (chunk == NULL) {
        return TARRY_ENOMEM;
    }
    js->chunks[js->hole] = chunk;
    js->chunk_count += js->hole == js->chunk_count;
    for (unsigned i = 0; i < CHUNK_JOBS; i++) {
        chunk->jobs[i].nth = (uint8_t)i;
        tr_list_append(&js->spare, &chunk->jobs[i].link);
    }
    return TARRY_OK;
}

bool tr_jobs_trim(struct tr_jobs *js, size_t number)
{
    struct tr_job_chunk *chunk = number < js->chunk_count ? js->chunks[number] : NULL;

    if (chunk == NULL || chunk->used > 0) {
        return false;
    }
    for (size_t i = 0; i < CHUNK_JOBS; i++) {
        tr_list_remove(&chunk->jobs[i].link);
    }
    tr_mem_free(js->mem, chunk, sizeof *chunk);
    js->chunks[number] = NULL;
    js->hole = number < js->hole ? number : js->hole;
    while (js->chunk_count > 0 && js->chunks[js->chunk_count - 1] == NULL) {
        js->chunk_count--;
    }
    return true;
}

void tr_jobs_set_extra(struct tr_jobs *js, struct tr_job *job, struct tr_extra *x)
{
    js->extras += (uint64_t)(x != NULL) - (job->extra != NULL);
    js->tag_bytes += tr_extra_tag(x).len - tr_extra_tag(job->extra).len;
    tr_extra_free(js->mem, job->extra);
    job->extra = x;
}

static struct tr_job_chunk *chunk_of(struct tr_job *job)
{
    return TR_CONTAINER_OF(job - job->nth, struct tr_job_chunk, jobs);
}

int tr_jobs_add(struct tr_jobs *js, uint64_t rid, uint64_t id, struct tr_job **out)
{
    struct tr_job *job;
    uint32_t stamp;

    TR_CHECK(rid != 0);
    if (tr_list_empty(&js->spare) && add_chunk(js) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    job = TR_CONTAINER_OF(js->spare.next, struct tr_job, link);
    if (tr_index_make(&js->by_rid, rid) != TARRY_OK ||
        (rid != id && tr_map_reserve(&js->moved, 1) != TARRY_OK) ||
        (!tr_bitmap_test(&js->alive, rid) && tr_bitmap_set(&js->alive, rid) != TARRY_OK)) {
        return TARRY_ENOMEM;
    }
    tr_list_remove(&job->link);
    stamp = job->stamp;
    *job = (struct tr_job){.rid = rid, .id = id, .stamp = stamp + 1, .nth = job->nth};
    chunk_of(job)->used++;
    tr_timer_init(&job->timer);
    tr_list_init(&job->link);
    tr_list_init(&job->in_slot);
    tr_list_init(&job->in_altered);
    tr_list_init(&job->visit);
    tr_index_put(&js->by_rid, rid, job);
    if (rid != id) {
        TR_CHECK(tr_map_put(&js->moved, id, job) == TARRY_OK);
    }
    js->count++;
    *out = job;
    return TARRY_OK;
}

/* Takes the job out of the table; its memory is used again. */
static void forget(struct tr_jobs *js, struct tr_job *job)
{
    uint32_t stamp = job->stamp;

    TR_CHECK(tr_list_empty(&job->link));
    TR_CHECK(!job->timer.armed);
    TR_CHECK(job->slot == NULL);
    tr_list_remove(&job->visit);
    tr_jobs_drop_body(js, job);
    tr_jobs_set_extra(js, job, NULL);
    TR_CHECK(tr_index_take(&js->by_rid, job->rid) == job);
    if (job->rid != job->id) {
        TR_CHECK(tr_map_take(&js->moved, job->id) == job);
    }
    *job = (struct tr_job){.stamp = stamp + 1, .nth = job->nth};
    chunk_of(job)->used--;
    tr_list_append(js->spare.next, &job->link); /* the one used last is used next: it is warm */
    js->count--;
}

void tr_jobs_remove(struct tr_jobs *js, struct tr_job *job)
{
    tr_jobs_set_altered(js, job, false);
    TR_CHECK(tr_bitmap_clear(&js->alive, job->rid));
    forget(js, job);
}

int tr_jobs_send_far(struct tr_jobs *js, struct tr_job *job, const struct tr_far_entry *entry)
{
    int err = TARRY_OK;

    TR_CHECK(!job->altered);
    if (entry != NULL) {
        err = tr_far_put(&js->far, job->rid, job->id, entry);
    } else if (job->rid != job->id) {
        err = tr_far_note_moved(&js->far, job->rid, job->id);
    }
    if (err == TARRY_OK) {
        js->runs += entry == NULL;
        forget(js, job);
    }
    return err;
}

int tr_jobs_rename(struct tr_jobs *js, struct tr_job *job, uint64_t rid)
{
    TR_CHECK(rid > job->rid);
    if (tr_index_make(&js->by_rid, rid) != TARRY_OK || tr_map_reserve(&js->moved, 1) != TARRY_OK ||
        tr_bitmap_set(&js->alive, rid) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    tr_index_put(&js->by_rid, rid, job); /* before the other goes, which may take the page along */
    TR_CHECK(tr_index_take(&js->by_rid, job->rid) == job);
    TR_CHECK(tr_map_put(&js->moved, job->id, job) == TARRY_OK);
    TR_CHECK(tr_bitmap_clear(&js->alive, job->rid));
    job->rid = rid;
    return TARRY_OK;
}

struct tr_job *tr_jobs_by_rid(const struct tr_jobs *js, uint64_t rid)
{
    return tr_index_find(&js->by_rid, rid);
}

struct tr_job *tr_jobs_by_id(const struct tr_jobs *js, uint64_t id)
{
    struct tr_job *job = tr_index_find(&js->by_rid, id);

    return job != NULL && job->id == id ? job : tr_map_find(&js->moved, id);
}

void tr_jobs_set_altered(struct tr_jobs *js, struct tr_job *job, bool on)
{
    if (job->altered != on) {
        job->altered = on;
        js->altered += on ? 1 : UINT64_MAX;
        if (on) {
            tr_list_append(&js->altered_jobs, &job->in_altered);
            job->row = js->freeze_no;
        } else {
            tr_list_remove(&job->in_altered);
        }
    }
}

bool tr_jobs_has_row(const struct tr_jobs *js, const struct tr_job *job)
{
    return job->altered && job->row != js->freeze_no;
}

/* Those with a row to be made stand first: all others are appended. */
struct tr_job *tr_jobs_next_row(const struct tr_jobs *js)
{
    struct tr_job *job = TR_CONTAINER_OF(js->altered_jobs.next, struct tr_job, in_altered);

    return !tr_list_empty(&js->altered_jobs) && tr_jobs_has_row(js, job) ? job : NULL;
}

void tr_jobs_row_done(struct tr_jobs *js, struct tr_job *job)
{
    job->row = js->freeze_no;
    tr_list_remove(&job->in_altered);
    tr_list_append(&js->altered_jobs, &job->in_altered);
}

static size_t body_size(uint32_t len)
{
    return len == 0 ? 1 : len;
}

uint8_t *tr_jobs_copy_body(struct tr_jobs *js, const uint8_t *body, uint32_t len)
{
    uint8_t *copy = tr_mem_stretch(js->mem, NULL, 0, body_size(len)); /* not zeroed */

    if (copy != NULL && len != 0) {
        memcpy(copy, body, len);
    }
    return copy;
}

void tr_jobs_free_body(struct tr_jobs *js, uint8_t *copy, uint32_t len)
{
    if (copy != NULL) {
        tr_mem_free(js->mem, copy, body_size(len));
    }
}

void tr_jobs_give_body(struct tr_jobs *js, struct tr_job *job, uint8_t *copy, uint32_t len)
{
    tr_jobs_drop_body(js, job);
    job->body = copy;
    job->body_len = len;
    js->body_bytes += copy != NULL ? len : 0;
}

uint8_t *tr_jobs_take_body(struct tr_jobs *js, struct tr_job *job)
{
    uint8_t *copy = job->body;

    if (copy != NULL) {
        js->body_bytes -= job->body_len;
        job->body = NULL;
    }
    return copy;
}

void tr_jobs_drop_body(struct tr_jobs *js, struct tr_job *job)
{
    tr_jobs_free_body(js, tr_jobs_take_body(js, job), job->body_len);
}

void tr_job_place(struct tr_job *job, struct tr_slot *slot, uint64_t off, uint32_t len)
{
    TR_CHECK(job->slot == NULL);
    job->slot = slot;
    job->relogging = false;
    job->record_off = off;
    job->record_len = len;
    tr_list_append(&slot->jobs, &job->in_slot);
    slot->live++;
    slot->live_bytes += len;
    slot->dead += job->dead_seq != 0;
}

void tr_job_unplace(struct tr_job *job, uint64_t batch)
{
    struct tr_slot *slot = job->slot;

    if (slot == NULL) {
        return;
    }
    tr_list_remove(&job->in_slot);
    slot->live--;
    slot->live_bytes -= job->record_len;
    slot->dead -= job->dead_seq != 0;
    if (slot->emptied_by < batch) {
        slot->emptied_by = batch;
    }
    job->slot = NULL;
}

struct tr_job *tr_jobs_next(const struct tr_jobs *js, size_t *at)
{
    while (*at < js->chunk_count * CHUNK_JOBS) {
        struct tr_job_chunk *chunk = js->chunks[*at / CHUNK_JOBS];
        size_t nth = *at % CHUNK_JOBS;

        if (chunk == NULL || chunk->used == 0) {
            *at += CHUNK_JOBS - nth;
            continue;
        }
        (*at)++;
        if (chunk->jobs[nth].rid != 0) {
            return &chunk->jobs[nth];
        }
    }
    return NULL;
}

bool tr_jobs_walk(const struct tr_jobs *js, size_t *at, const struct tr_job **job)
{
    const struct tr_job_chunk *chunk;
    size_t nth = *at % CHUNK_JOBS;

    *job = NULL;
    if (*at >= js->chunk_count * CHUNK_JOBS) {
        return false;
    }
    chunk = js->chunks[*at / CHUNK_JOBS];
    if (chunk == NULL || chunk->used == 0) {
        *at += CHUNK_JOBS - nth;
        return true;
    }
    (*at)++;
    if (chunk->jobs[nth].rid != 0) {
        *job = &chunk->jobs[nth];
    }
    return true;
}

bool tr_jobs_ok(const struct tr_jobs *js)
{
    size_t at = 0;
    uint64_t count = 0;
    uint64_t altered = 0;
    struct tr_job *job;

    while ((job = tr_jobs_next(js, &at)) != NULL) {
        count++;
        altered += job->altered;
        if (!tr_bitmap_test(&js->alive, job->rid) || tr_jobs_by_rid(js, job->rid) != job ||
            tr_jobs_by_id(js, job->id) != job || tr_far_moved_id(&js->far, job->rid) != 0 ||
            tr_far_moved_rid(&js->far, job->id) != 0) { /* those are far */
            return false;
        }
    }
    return count == js->count &&
           count + js->far.count - js->far.located + js->runs == js->alive.members &&
           altered == js->altered && count == tr_index_count(&js->by_rid) &&
           tr_index_ok(&js->by_rid) && tr_bitmap_ok(&js->alive) && tr_far_ok(&js->far);
}
