/*
 * Closing a store: what is in memory goes to the log, a last checkpoint and manifest say that all
 * of it is there (CLEAN), the files are closed, the lock last. A crash in between is one like any
 * other.
 */

#include "base/err.h"
#include "engine/inner.h"

static void close_file(struct tr_engine *e, int file)
{
    struct tr_io io = {.op = TR_IO_CLOSE, .file = file};

    if (file >= 0) {
        (void)e->disk.ops->run(e->disk.ctx, &io);
    }
}

void tr_engine_close_files(struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        close_file(e, e->log.slots != NULL ? e->log.slots[i].file : -1);
    }
    for (uint32_t i = 0; i < TR_GROUPS_MAX; i++) {
        const struct tr_group *g = e->groups.table[i];

        close_file(e, g != NULL ? g->side_file : -1);
        close_file(e, g != NULL ? g->runs[TR_GROUP_LIVE].file : -1);
        close_file(e, g != NULL ? g->runs[TR_GROUP_DEAD].file : -1);
    }
    for (unsigned i = 0; i < 2; i++) {
        close_file(e, e->meta.man_file[i]);
        close_file(e, e->meta.ckpt_file[i]);
    }
    close_file(e, e->backup.file);
    close_file(e, e->past_file.open ? e->past_file.file : -1);
    close_file(e, e->meta.lock_file);
}

int tr_engine_close(struct tr_engine *e, struct tr_now now)
{
    uint64_t limit = e->mem->limit_bytes;
    int err = e->failed ? TARRY_EIO : TARRY_OK;

    TR_CHECK(!tr_engine_busy(e));
    e->now = now;
    e->mem->limit_bytes = 0; /* the last checkpoint must not fail for want of memory */
    while (e->placing) {
        e->work = e->config.slice;
        tr_engine_place(e);
    }
    if (err == TARRY_OK && !e->config.read_only) {
        err = tr_log_finish(&e->log);
    }
    if (err == TARRY_OK && !e->config.read_only) {
        tr_engine_tell_durable(e);
        tr_meta_forget(e); /* a round that waited for the log begins anew */
        err = tr_meta_write_now(e, e->log.open.no > 1, TR_MAN_CLEAN);
    }
    if (err == TARRY_OK && !e->config.read_only) {
        tr_past_save(e);
    }
    e->mem->limit_bytes = limit;
    tr_engine_close_files(e);
    return err;
}

void tr_engine_free(struct tr_engine *e)
{
    struct tr_job *job;
    size_t at = 0;

    if (e == NULL) {
        return;
    }
    while ((job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        if (job->state == TR_RESERVED) {
            tr_handout_unhold(e, job);
        }
    }
    tr_handout_free_waits(e);
    tr_read_free_all(e);
    tr_promote_fini(e);
    tr_listing_fini(e);
    tr_purge_fini(e);
    tr_bulk_fini(e);
    tr_refill_fini(e);
    tr_deaths_fini(e);
    tr_nearest_fini(e);
    tr_occur_fini(e);
    tr_backup_fini(e);
    tr_past_fini(e);
    tr_scrub_fini(e);
    tr_damage_fini(e);
    tr_mend_fini(e);
    tr_fetch_fini(e);
    tr_meta_fini(e);
    tr_log_fini(&e->log);
    tr_state_fini(&e->state);
    tr_groups_fini(&e->groups);
    tr_map_fini(&e->holders);
    tr_mem_free(e->mem, e, sizeof *e);
}
