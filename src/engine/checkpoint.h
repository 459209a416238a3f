#ifndef TR_ENGINE_CHECKPOINT_H
#define TR_ENGINE_CHECKPOINT_H

/*
 * A checkpoint: the durable state at the end of one batch, as pages of 8 KiB. See checkpoint.c.
 *
 * Freezing copies what the checkpoint needs out of the state, in slices. The state may change
 * meanwhile: whatever is about to change and was not copied yet is copied first.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/frame.h"
#include "engine/state.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TR_PAGE = 8192,
    TR_PAGES_PIECE = 8 * TR_PAGE,
    TR_CHECKPOINT_POLICY_HEAD = 8, /* a policy's row has at most so many bytes more than itself */
};

enum tr_page_kind {
    TR_PAGE_META,
    TR_PAGE_TOPICS,
    TR_PAGE_BITS,
    TR_PAGE_CHANGES,
    TR_PAGE_COUNTS,
    TR_PAGE_CELLS,
    TR_PAGE_POLICIES,
    TR_PAGE_SCHEDULES,
    TR_PAGE_KINDS
};

struct tr_pages {
    struct tr_mem *mem;
    uint8_t **pieces;  /* TR_PAGES_PIECE bytes each; NULL: given back */
    size_t piece_room; /* pointers allocated */
    size_t count;      /* pages */
    uint64_t batch;
};

void tr_pages_fini(struct tr_pages *p);

/* The bytes from off on that stand together; *len: how many. */
const uint8_t *tr_pages_at(const struct tr_pages *p, uint64_t off, size_t *len);

/* Gives back the pieces that end at `off` or before. */
void tr_pages_drop(struct tr_pages *p, uint64_t off);

/* A checkpoint in the making; state->freeze points to it. All zero: none is. */
struct tr_freeze {
    struct tr_state *state; /* NULL: none is made */
    struct tr_pages *pages;
    enum tr_page_kind step;     /* what is copied now */
    size_t open[TR_PAGE_KINDS]; /* the page to which rows of a kind go, or 0 */
    uint8_t uuid[TR_UUID];
    uint64_t next_rid; /* this and the next four as they were at the beginning */
    uint32_t next_topic;
    uint64_t jobs;
    uint64_t altered;
    uint64_t clock_us;
    uint64_t chunk;              /* BITS: the next one of L */
    struct tr_bitmap cleared;    /* BITS: rids that have died since, in this chunk or later ones */
    struct tr_list *topic;       /* TOPICS: the next one */
    struct tr_list *cells_of;    /* CELLS: the topic whose cells are next, */
    struct tr_cells_walk cells;  /* from here on, */
    struct tr_map cells_changed; /* but for these, which have been dealt with */
    struct tr_list *sched;       /* SCHEDULES: the next one, */
    uint64_t next_sched;         /* if its number is less than this */
    bool failed;                 /* there was no memory for something that had to be copied */
};

/* Begins to make the pages of s as it is now, at the end of `batch`. TARRY_ENOMEM: nothing is
 * made. */
TR_MUST_USE int tr_freeze_begin(struct tr_freeze *f, struct tr_pages *p, struct tr_state *s,
                                const uint8_t uuid[TR_UUID], uint64_t batch);

/* Goes on for *work units. TARRY_EFULL: there is more; TARRY_OK: the pages are complete;
 * TARRY_ENOMEM: it is over and they are empty. */
TR_MUST_USE int tr_freeze_step(struct tr_freeze *f, unsigned *work);

/* Ends it, if one is made; the pages are empty. */
void tr_freeze_cancel(struct tr_freeze *f);

/* A job of the state is about to change; `dies`: its rid, too. The second: a far job is to die. */
void tr_freeze_job(struct tr_freeze *f, struct tr_job *job, bool dies);
void tr_freeze_rid(struct tr_freeze *f, uint64_t rid);

/* A cell of a topic is about to change, or one of a row on its way out. */
void tr_freeze_cell(struct tr_freeze *f, const struct tr_topic *t, uint32_t when);
void tr_freeze_dropped(struct tr_freeze *f, const struct tr_dropped *d, const struct tr_cell *cell);

/* A topic is about to go; its policy is about to change. */
void tr_freeze_topic(struct tr_freeze *f, struct tr_topic *t);
void tr_freeze_policy(struct tr_freeze *f, struct tr_topic *t);

/* checkpoint_sched.c: a schedule is about to change; it goes; a slice of them is copied. */
void tr_freeze_sched(struct tr_freeze *f, struct tr_sched *s);
void tr_freeze_sched_leaves(struct tr_freeze *f, const struct tr_sched *s);
TR_MUST_USE int tr_freeze_copy_scheds(struct tr_freeze *f, unsigned *work);

/* Adds a row to the pages of its kind. */
TR_MUST_USE int tr_freeze_row(struct tr_freeze *f, enum tr_page_kind kind, const uint8_t *row,
                              size_t len);

/* All of it at once. */
TR_MUST_USE int tr_checkpoint_freeze(struct tr_pages *p, struct tr_state *s,
                                     const uint8_t uuid[TR_UUID], uint64_t batch);

/* Bytes that a checkpoint can need at most when there are so many more jobs, and all of them that
 * are in memory are altered. */
uint64_t tr_checkpoint_bound(const struct tr_state *s, uint64_t more);
/* What policies of so many bytes, their heads included, can add to that. */
uint64_t tr_checkpoint_policies(uint64_t bytes);

/* The number of pages that the first page names, or 0 when it is no page of this batch. */
uint64_t tr_checkpoint_pages(const uint8_t *page, const uint8_t uuid[TR_UUID], uint64_t batch);

/*
 * Looks at every page. TARRY_EDAMAGED: one is bad; *page is its number. TARRY_EVERSION.
 */
TR_MUST_USE int tr_checkpoint_check(const uint8_t *bytes, size_t pages, uint64_t batch,
                                    size_t *page);
TR_MUST_USE int tr_checkpoint_check_page(const uint8_t *page, uint64_t number, uint64_t batch);

/* What a damaged checkpoint does not tell. */
struct tr_checkpoint_gap {
    bool any;  /* a page is bad: topics or changes may be missing, */
    bool meta; /* and so is the first page; */
    bool bits; /* and live rids: those of [from, to) are not known */
    uint64_t from;
    uint64_t to;
};

/* The rows of one good page of topics, L or changes; rows that make no sense are left out. */
TR_MUST_USE int tr_checkpoint_load_page(const uint8_t *page, struct tr_state *s);

/* For salvage: what good pages say of topics and L, and what is missing. */
TR_MUST_USE int tr_checkpoint_salvage(const uint8_t *bytes, size_t pages, uint64_t batch,
                                      struct tr_state *s, struct tr_checkpoint_gap *gap);
/* And of changes. */
TR_MUST_USE int tr_checkpoint_salvage_changes(const uint8_t *bytes, size_t pages, uint64_t batch,
                                              struct tr_state *s);

/* Gives checked pages to an empty state: L, topics, counters. */
TR_MUST_USE int tr_checkpoint_load(const uint8_t *bytes, size_t pages, struct tr_state *s);

/* Then, when the jobs of the log up to that batch have been met: the changes of altered jobs. */
TR_MUST_USE int tr_checkpoint_load_changes(const uint8_t *bytes, size_t pages, struct tr_state *s);

#endif
