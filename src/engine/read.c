/*
 * Reading records back: bodies that are not in memory.
 *
 * A read is asked for (job, place) and answered some time later, when the job may be gone, moved
 * or written again elsewhere, and its slot may even hold other bytes. So the first question after
 * a read is always whether the job is still the same at the same place; only then bytes that fail
 * their crc (R29) are damage. The crc is seeded with the rid: no other record can pass.
 *
 * Damage is looked at twice, the second time around the page cache, then reported.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

static void send_read(struct tr_engine *e, struct tr_read *read)
{
    read->io = (struct tr_io){.op = read->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                              .lane = TR_LANE_READ,
                              .file = read->slot->file,
                              .off = read->off,
                              .len = read->len,
                              .buf = read->buf,
                              .owner = read};
    e->disk.ops->submit(e->disk.ctx, &read->io);
}

static int new_read(struct tr_engine *e, uint32_t len, struct tr_read **out)
{
    struct tr_read *read;

    if (e->read_count >= TR_READS_MAX) {
        return TARRY_EFULL;
    }
    read = tr_mem_alloc(e->mem, sizeof *read);
    if (read == NULL) {
        return TARRY_ENOMEM;
    }
    read->len = len;
    read->buf = tr_mem_alloc(e->mem, read->len);
    if (read->buf == NULL) {
        tr_mem_free(e->mem, read, sizeof *read);
        return TARRY_ENOMEM;
    }
    tr_list_init(&read->link);
    *out = read;
    return TARRY_OK;
}

int tr_read_new(struct tr_engine *e, const struct tr_job *job, struct tr_read **read)
{
    TR_CHECK(job->slot != NULL);
    return new_read(e, job->record_len, read);
}

/* It goes its way; where its bytes are was said. */
static void begin(struct tr_engine *e, struct tr_read *read)
{
    read->slot->readers++;
    tr_list_append(&e->reads, &read->link);
    e->read_count++;
    send_read(e, read);
}

int tr_read_start_far(struct tr_engine *e, uint64_t rid, const struct tr_far_entry *entry)
{
    struct tr_read *read;
    int err = new_read(e, entry->len, &read);

    if (err == TARRY_OK) {
        read->far = true;
        read->rid = rid;
        read->slot = tr_state_slot(&e->state, entry->slot);
        read->off = entry->off;
        begin(e, read);
    }
    return err;
}

int tr_read_start_listed(struct tr_engine *e, uint64_t rid, const struct tr_far_entry *entry,
                         uint32_t index)
{
    struct tr_read *read;
    int err = new_read(e, entry->len, &read);

    if (err == TARRY_OK) {
        read->listed = true;
        read->rid = rid;
        read->stamp = index;
        read->slot = tr_state_slot(&e->state, entry->slot);
        read->off = entry->off;
        begin(e, read);
    }
    return err;
}

void tr_read_send(struct tr_engine *e, struct tr_read *read, struct tr_job *job, struct tr_req *r)
{
    bool handing = r != NULL && (r->op == TR_OP_RESERVE || r->op == TR_OP_RESERVE_JOB);

    TR_CHECK(read->len == job->record_len);
    read->req = r;
    read->slot = job->slot;
    read->rid = job->rid;
    read->stamp = job->stamp;
    read->lease = handing ? job->lease : 0;
    read->off = job->record_off;
    begin(e, read);
}

int tr_read_start(struct tr_engine *e, struct tr_job *job, struct tr_req *r, bool relog)
{
    struct tr_read *read;
    int err = tr_read_new(e, job, &read);

    if (err == TARRY_OK) {
        read->relog = relog;
        tr_read_send(e, read, job, r);
    }
    return err;
}

static void drop(struct tr_engine *e, struct tr_read *read)
{
    if (read != NULL) {
        tr_mem_free(e->mem, read->buf, read->len);
        tr_mem_free(e->mem, read, sizeof *read);
    }
}

static void read_free(struct tr_engine *e, struct tr_read *read)
{
    tr_list_remove(&read->link);
    e->read_count--;
    drop(e, read);
}

void tr_read_free_all(struct tr_engine *e)
{
    while (!tr_list_empty(&e->reads)) {
        read_free(e, TR_CONTAINER_OF(e->reads.next, struct tr_read, link));
    }
}

static bool good(const struct tr_read *read)
{
    return read->io.status == TARRY_OK && read->io.got == read->len &&
           (tr_record_good(read->buf, read->len, read->rid) || TR_MUTANT(NO_RECORD_CRC));
}

void tr_read_report(struct tr_engine *e, uint64_t id, uint32_t topic, uint64_t due_us,
                    const struct tr_read *read)
{
    uint32_t number = read->slot->number;
    struct tr_damaged d = {.rid = read->rid,
                           .id = id,
                           .topic = topic,
                           .due_us = due_us,
                           .off = read->off,
                           .len = read->len};
    bool here = read->buf != NULL && read->io.status == TARRY_OK && read->io.got == read->len;

    if (number < TR_MANIFEST_SLOTS_MAX) {
        tr_log_slot_name(d.file, number);
    } else {
        const struct tr_group *g = tr_groups_of_run(&e->groups, number);

        tr_group_name(d.file, g->is.no, (enum tr_group_file)(number - g->runs[0].number));
    }
    tr_damage_tell(e, &d, here ? read->buf : NULL);
}

/* The same for a far job. */
static void far_done(struct tr_engine *e, struct tr_read *read)
{
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, read->rid);
    bool same =
        entry != NULL && entry->slot == read->slot->number && entry->off == (uint32_t)read->off;
    int status = same ? TARRY_OK : TARRY_ENOTFOUND;

    if (same && !good(read)) {
        if (!read->direct && !e->failed) {
            read->direct = true;
            send_read(e, read);
            return;
        }
        status = read->io.status == TARRY_EFULL ? TARRY_EIO : TARRY_EDAMAGED;
        if (status == TARRY_EDAMAGED) {
            tr_read_report(e, tr_far_id(&e->state.jobs.far, read->rid), entry->topic, entry->due_us,
                           read);
        }
    }
    read->slot->readers--;
    tr_load_done(e, read, status);
    read_free(e, read);
}

/* For a list, which asks again itself if the job is elsewhere by now. */
static void listed_done(struct tr_engine *e, struct tr_read *read)
{
    bool fits = good(read);

    if (!fits && !read->direct && !e->failed) {
        read->direct = true;
        send_read(e, read);
        return;
    }
    tr_listing_read(e, read, fits);
    read->slot->readers--;
    read_free(e, read);
}

void tr_read_done(struct tr_engine *e, struct tr_read *read)
{
    struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, read->rid);
    int status = TARRY_OK;

    if (read->listed) {
        listed_done(e, read);
        return;
    }
    if (read->far) {
        far_done(e, read);
        return;
    }
    if (job != NULL && (job->slot != read->slot || job->record_off != read->off ||
                        (job->topic->purged && !read->relog && !TR_MUTANT(PURGE_HANDED)))) {
        job = NULL; /* written again since: the same bytes are elsewhere; or purged */
    }
    if (job != NULL && !good(read)) {
        if (!read->direct && !e->failed) {
            read->direct = true;
            send_read(e, read);
            return;
        }
        status = read->io.status == TARRY_EFULL ? TARRY_EIO : TARRY_EDAMAGED;
        if (status == TARRY_EDAMAGED) { /* else it could not even be tried */
            tr_read_report(e, job->id, job->topic->number, job->due_us, read);
        }
    }
    read->slot->readers--;
    tr_list_remove(&read->link); /* `done` may use the same struct tr_req again, and abandon that */
    if (read->relog) {
        tr_space_relog(e, read, job, status);
    } else if (read->req != NULL &&
               (read->req->op == TR_OP_RESERVE || read->req->op == TR_OP_RESERVE_JOB)) {
        tr_handout_body(e, read, job, status);
    } else if (read->req != NULL) { /* else it was abandoned */
        tr_view_body(e, read, job, status);
    }
    read_free(e, read);
}
