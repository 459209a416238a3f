/*
 * Schedules in a checkpoint, exact at its batch: those that are made later are left out, one that
 * is about to change or to go is copied first. See sched.c for the rows.
 */

#include "base/bytes.h"
#include "base/err.h"
#include "engine/checkpoint.h"

#include <string.h>

enum { SMALL = 1024, UNITS = 2 };

static int add_rows(struct tr_freeze *f, const struct tr_sched *s, const uint8_t *all, size_t len)
{
    uint8_t row[TR_SCHED_ROW_HEAD + TR_SCHED_CHUNK];
    int err = TARRY_OK;

    for (size_t off = 0; off < len && err == TARRY_OK;) {
        size_t part = len - off < TR_SCHED_CHUNK ? len - off : TR_SCHED_CHUNK;
        size_t head = tr_put_varint(row, s->number);

        head += tr_put_varint(row + head, off);
        head += tr_put_varint(row + head, len);
        head += tr_put_varint(row + head, part);
        TR_CHECK(head <= TR_SCHED_ROW_HEAD);
        memcpy(row + head, all + off, part);
        err = tr_freeze_row(f, TR_PAGE_SCHEDULES, row, head + part);
        off += part;
    }
    return err;
}

static int copy(struct tr_freeze *f, struct tr_sched *s)
{
    uint8_t small[SMALL];
    size_t size = tr_sched_row_bytes(s->name_len, s->def_len);
    uint8_t *all = size <= SMALL ? small : tr_mem_alloc(f->pages->mem, size);
    int err;

    if (s->number >= f->next_sched || s->row_no == f->state->jobs.freeze_no) {
        err = TARRY_OK;
    } else {
        err = all != NULL ? add_rows(f, s, all, tr_sched_pack(s, all)) : TARRY_ENOMEM;
        s->row_no = f->state->jobs.freeze_no;
    }
    if (all != small) {
        tr_mem_free(f->pages->mem, all, size);
    }
    return err;
}

int tr_freeze_copy_scheds(struct tr_freeze *f, unsigned *work)
{
    while (f->sched != &f->state->scheds.all) {
        if (*work == 0) {
            return TARRY_EFULL;
        }
        *work -= *work < UNITS ? *work : UNITS;
        if (f->failed || copy(f, TR_CONTAINER_OF(f->sched, struct tr_sched, link)) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        f->sched = f->sched->next;
    }
    return TARRY_OK;
}

void tr_freeze_sched(struct tr_freeze *f, struct tr_sched *s)
{
    if (!f->failed && copy(f, s) != TARRY_OK) {
        f->failed = true;
    }
}

void tr_freeze_sched_leaves(struct tr_freeze *f, const struct tr_sched *s)
{
    if (f->sched == &s->link) {
        f->sched = s->link.next;
    }
}
