#ifndef TR_ENGINE_FAR_H
#define TR_ENGINE_FAR_H

/*
 * Far jobs whose record is in a slot: what is kept of a live job that is not in memory. See far.c.
 *
 * From rid to the place of the record, and what a kill must know. A job is here or it is a struct
 * tr_job, never both. One whose record is in a run is here only for a while, when it was asked for
 * (located).
 */

#include "base/check.h"
#include "base/keymap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_FAR_PAGE = 64,
    TR_FAR_HEAD = 1023, /* the longest head that an entry can tell */
};

struct tr_far_entry {
    uint64_t due_us;
    uint32_t topic;
    uint32_t off; /* of its record in the slot */
    uint32_t len;
    uint16_t slot; /* number of the slot or run */
    /* All of one type, so that they are made in a register and stored at once. */
    uint16_t loading : 1; /* its record is being read */
    uint16_t bad : 1;     /* it cannot be read: reported, and left alone */
    uint16_t located : 1; /* its record is in a run: it is here only because somebody asked */
    uint16_t cell : 2;
    uint16_t dead : 1;  /* located, in a dead run; when it was due is not known, so never */
    uint16_t head : 10; /* bytes of its record before the body; 0: not known */
};

/* A head as an entry tells it. */
static inline unsigned tr_far_head(uint32_t head)
{
    return head <= TR_FAR_HEAD ? head : 0;
}

/* Neighbours, in the order of their rids. */
struct tr_far_page {
    uint64_t first;  /* rid, a multiple of TR_FAR_PAGE */
    uint64_t bits;   /* which of its rids are here */
    uint64_t due_us; /* none of them is due before this */
    unsigned count;
    unsigned room;
    struct tr_far_entry *entries;
    struct tr_list link; /* of all pages, the oldest first */
};

/* Goes through all pages, which may come and go between two steps. */
struct tr_far_walk {
    struct tr_list link;  /* of far->walks; empty: it has ended */
    struct tr_list *next; /* page */
};

struct tr_far {
    struct tr_mem *mem;
    struct tr_map pages;    /* by rid / TR_FAR_PAGE */
    struct tr_list all;     /* pages */
    struct tr_list walks;   /* under way */
    struct tr_keymap moved; /* by id, of those whose rid is another: the rid; and by rid: the id */
    uint64_t count;
    uint64_t located; /* of those */
};

void tr_far_init(struct tr_far *f, struct tr_mem *mem);
void tr_far_fini(struct tr_far *f);

/* rid must be new. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_far_put(struct tr_far *f, uint64_t rid, uint64_t id,
                           const struct tr_far_entry *entry);

/* Valid until the next put or take; or NULL. */
struct tr_far_entry *tr_far_find(const struct tr_far *f, uint64_t rid);

/* It will be looked for soon: brings the next part of the way to it into the cache, in
 * TR_FAR_STEPS calls some time apart, step 0 first. */
enum { TR_FAR_STEPS = 3 };
void tr_far_soon(const struct tr_far *f, uint64_t rid, unsigned step);

/* Removes it. False: there is none. */
bool tr_far_take(struct tr_far *f, uint64_t rid, struct tr_far_entry *entry);

/* Takes the entry away, but the job stays far: its record is in a run. False: there is none. */
bool tr_far_unlocate(struct tr_far *f, uint64_t rid);

/* Jobs whose record is in a run have no entry; of those that were moved the id is kept. What is
 * there is no error, and another rid of the id is forgotten; TARRY_ENOMEM; TARRY_EDAMAGED (the rid
 * has another id): nothing changed. */
TR_MUST_USE int tr_far_note_moved(struct tr_far *f, uint64_t rid, uint64_t id);
void tr_far_forget_moved(struct tr_far *f, uint64_t rid);
uint64_t tr_far_moved_rid(const struct tr_far *f, uint64_t id); /* 0: it was not */
uint64_t tr_far_moved_id(const struct tr_far *f, uint64_t rid);

/* The rid of the job with this id, and the other way round; 0: it has no entry. */
uint64_t tr_far_rid(const struct tr_far *f, uint64_t id);
uint64_t tr_far_id(const struct tr_far *f, uint64_t rid);

/* A walk meets all pages that are there when it begins, and perhaps newer ones. */
void tr_far_walk_begin(struct tr_far *f, struct tr_far_walk *w);
bool tr_far_walking(const struct tr_far_walk *w);
struct tr_far_page *tr_far_walk_page(const struct tr_far *f, const struct tr_far_walk *w);
void tr_far_walk_on(const struct tr_far *f, struct tr_far_walk *w); /* to the next page */
void tr_far_walk_end(struct tr_far_walk *w);

/* The rid of entry i of a page. */
uint64_t tr_far_page_rid(const struct tr_far_page *page, unsigned i);

bool tr_far_ok(const struct tr_far *f);

#endif
