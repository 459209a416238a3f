#ifndef TR_ENGINE_SIDECAR_H
#define TR_ENGINE_SIDECAR_H

/*
 * A sidecar: the index file of one sealed slot, or of the runs of one group. It finds jobs by
 * topic, rid, key, id and due without reading their records. See sidecar.c for the bytes,
 * sidecar_build.c for the builder.
 *
 *     | head | fences | FRAMES | TOPICS | T | R | K | I | D |        pages of 4 KiB
 *
 * A section is a row of entries in order, cut into pages. The *fence* of a page is the key of its
 * first entry. Head and fences are in memory while the file is in use, so that one page read finds
 * anything. A sidecar can be made again from its slot or its runs: it is an index, never the truth.
 *
 * Nothing here reads or writes a file. A look-up has two halves, with the read between them:
 *
 *     at.page = tr_sidecar_find(s, section, &key)      which page
 *     ... read TR_SIDE_PAGE bytes at tr_sidecar_off(s, section, at.page) ...
 *     tr_sidecar_check(s, section, at.page, bytes)     once after each read: the crc
 *     tr_sidecar_view(s, section, at.page, bytes, &v)  once before each use: cheap
 *     at.index = tr_side_lower(&v, &key)               first entry that is not before the key
 *     tr_side_get(&v, at.index, &row)                  if at.index < v.count; else it is the first
 *                                                      one of the next page, if there is one
 *
 * Threads: none. The builder may run on any thread between init and fini, alone.
 */

#include "base/check.h"
#include "base/mem.h"
#include "base/sort.h"
#include "engine/frame.h"
#include "engine/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TR_SIDE_NONE UINT32_MAX /* no page, no entry */
#define TR_SIDE_RID_MAX ((UINT64_C(1) << 48) - 1)

enum {
    TR_SIDE_PAGE = 4096,
    TR_SIDE_COLUMNS_MAX = 7,
    TR_SIDE_JOBS_MAX = 1 << 26, /* of one sidecar */
};

/*                     order                            what an entry has besides */
enum tr_side_section {
    TR_SIDE_FRAMES, /* place                            rid, due_us: the base of a frame of the slot
                                                        that begins there */
    TR_SIDE_TOPICS, /* topic                            live, dead: counts; t: its first entry */
    TR_SIDE_T,      /* topic, live before dead,         place, cell, head
                       due_us or dead_seq, rid */
    TR_SIDE_R,      /* rid                              t: its entry */
    TR_SIDE_K,      /* key_hi, key_lo, rid              (keyed jobs only) */
    TR_SIDE_I,      /* id, rid                          (only jobs whose id is not their rid) */
    TR_SIDE_D,      /* due_us, rid                      topic, place (slots only; no dead jobs) */
    TR_SIDE_SECTIONS,
};

/* What a sidecar is of. It counts for nothing else (R30). */
struct tr_side_of {
    uint8_t uuid[TR_UUID]; /* of the store */
    bool group;            /* else a slot */
    uint64_t number;       /* seg_no, or number of the group */
    uint64_t nonce;        /* of the segment; 0 of a group */
};

/* A job as the builder takes it. As a key, only the fields of the section's order count; in T a job
 * with a dead_seq is dead, and then due_us does not count. */
struct tr_side_job {
    uint64_t rid;      /* below 2^48, once in a sidecar */
    uint64_t id;       /* below 2^48 */
    uint64_t due_us;   /* FRAMES: base clock */
    uint64_t dead_seq; /* 0: not dead */
    uint64_t place;    /* see place.h; FRAMES: of piece 0, length 0 */
    uint64_t key_hi;   /* 80 bits of the hash of (topic, key) */
    uint16_t key_lo;
    uint16_t head; /* bytes of its record before the body; 0: not known */
    uint32_t topic;
    uint8_t cell; /* 0 to 3 */
    bool keyed;
};

/* ---- building ---- */

struct tr_side_input {
    struct tr_side_of of;
    uint64_t rid_first; /* the rids that this slot or group covers: jobs beyond are strays */
    uint64_t rid_last;
    const struct tr_side_job *jobs; /* in any order; live ones by (due, rid) is quickest */
    uint32_t job_count;             /* 0 is allowed */
    uint32_t keyed_max;             /* at most so many are keyed: job_count if that is not known */
    uint32_t moved_max;             /* at most so many have an id that is not their rid */
    const struct tr_side_job *frames; /* of a slot, by rising place: place, rid, due_us */
    uint32_t frame_count;
};

struct tr_side_count { /* of a topic */
    uint32_t topic;
    uint32_t live;
    uint32_t dead;
    uint32_t from; /* its first entry of T */
};

struct tr_side_cuts { /* how a section is cut into pages */
    uint32_t *from;   /* first entry of each page */
    uint32_t room;
    uint32_t pages;
    uint32_t entries;
    uint32_t first; /* page of the file */
};

struct tr_side_build {
    struct tr_mem *mem;
    struct tr_side_input in; /* what it points to is borrowed until fini */
    uint64_t sum;            /* of all jobs and frames */
    uint32_t live;
    uint32_t dead;
    uint32_t strays;
    uint32_t keyed;
    uint32_t moved;
    bool ordered; /* jobs are given as sort_topics would sort them but for their topics */
    uint64_t due_first;
    uint64_t due_last;
    struct tr_sort sort;               /* job_count items each */
    struct tr_side_count *topics;      /* when that is done, in the first of them */
    uint32_t *order[TR_SIDE_SECTIONS]; /* entry -> job; NULL where there is none */
    uint32_t order_room[TR_SIDE_SECTIONS];
    uint32_t *t_entry; /* job -> entry of T: page and index in one */
    struct tr_side_cuts cuts[TR_SIDE_SECTIONS];
    uint32_t fence_bytes;
    uint32_t fence_pages;
    uint32_t salt;
    uint32_t page_count; /* of the file; 0 until prepared */
    uint32_t next;       /* page that tr_side_build_pages makes next */
};

/* As if an older build had made the index: it does not tell how long heads are. */
void tr_side_forget_heads(struct tr_side_job *jobs, size_t count);

/* Takes all memory that the rest needs, about 50 bytes a job: nothing after it can fail. */
TR_MUST_USE int tr_side_build_init(struct tr_side_build *b, struct tr_mem *mem,
                                   const struct tr_side_input *in);
void tr_side_build_fini(struct tr_side_build *b);

/* Sorts and cuts; then page_count is known. The long part; pure, touches only b and the input. */
void tr_side_build_prepare(struct tr_side_build *b);

/* Writes the next pages of the file to out, at most `pages` of them. Gives how many; 0: that was
 * all. */
uint32_t tr_side_build_pages(struct tr_side_build *b, uint8_t *out, uint32_t pages);

/* ---- reading ---- */

struct tr_sidecar {
    struct tr_mem *mem;
    struct tr_side_of of;
    uint32_t salt;
    uint32_t page_count;  /* of the file */
    uint32_t fence_pages; /* from page 1 on */
    uint32_t live;
    uint32_t dead;
    uint32_t strays;
    uint64_t rid_first; /* what it covers */
    uint64_t rid_last;
    uint64_t due_first; /* of its live jobs; when there are none, due_first > due_last */
    uint64_t due_last;
    struct {
        uint32_t first; /* page of the file */
        uint32_t pages;
        uint32_t entries;
        uint32_t fence; /* where its fences begin, in bytes */
    } sections[TR_SIDE_SECTIONS];
    uint8_t *fences; /* NULL until loaded */
    size_t fence_bytes;
};

/* Reads page 0. TARRY_EDAMAGED: not of this slot or group. TARRY_EVERSION. Nothing to give back. */
TR_MUST_USE int tr_sidecar_head(struct tr_sidecar *s, const struct tr_side_of *of,
                                const uint8_t page[TR_SIDE_PAGE]);

/* Then the fence_pages pages behind it. TARRY_EDAMAGED, TARRY_ENOMEM: s is as it was. */
TR_MUST_USE int tr_sidecar_load(struct tr_sidecar *s, struct tr_mem *mem, const uint8_t *pages);

/* Are these the bytes of page i of the fences, undamaged? */
bool tr_sidecar_fence_ok(const struct tr_sidecar *s, uint32_t i, const uint8_t bytes[TR_SIDE_PAGE]);

void tr_sidecar_fini(struct tr_sidecar *s);

/* The page of the section in which an entry with this key is, if there is one; and the one to begin
 * with to meet all entries from this key on. TR_SIDE_NONE: the section is empty. */
uint32_t tr_sidecar_find(const struct tr_sidecar *s, enum tr_side_section section,
                         const struct tr_side_job *key);

/* Where a page is in the file, in bytes. */
uint64_t tr_sidecar_off(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page);

/* Are these the bytes of that page of that section, undamaged? */
TR_MUST_USE int tr_sidecar_check(const struct tr_sidecar *s, enum tr_side_section section,
                                 uint32_t page, const uint8_t bytes[TR_SIDE_PAGE]);

/* An entry of a section: the index counts from 0 in each page. */
struct tr_side_at {
    uint32_t page;
    uint32_t index;
};

/* A page that was checked and can be looked into; it borrows the bytes. */
struct tr_side_view {
    const uint8_t *rows;
    enum tr_side_section section;
    uint32_t count;    /* entries */
    uint32_t row_bits; /* of each */
    uint32_t t_pages;  /* of the sidecar */
    uint64_t base[TR_SIDE_COLUMNS_MAX];
    uint8_t bits[TR_SIDE_COLUMNS_MAX];
    uint16_t shift[TR_SIDE_COLUMNS_MAX]; /* bits of the row before the column */
};

/* Looks at all lengths, so that nothing after it can read outside, but not at the crc. */
TR_MUST_USE int tr_sidecar_view(const struct tr_sidecar *s, enum tr_side_section section,
                                uint32_t page, const uint8_t bytes[TR_SIDE_PAGE],
                                struct tr_side_view *v);

/* The first entry that is not before the key; v->count when all are. */
uint32_t tr_side_lower(const struct tr_side_view *v, const struct tr_side_job *key);

/* What an entry has; fields that its section does not have are 0. */
struct tr_side_row {
    struct tr_side_job job;
    struct tr_side_at t;
    uint32_t live;
    uint32_t dead;
};

/* TARRY_EDAMAGED: a number in it cannot be, or the page has no such entry. A row's `t` names a page
 * of T that is there; whether that page has the index is asked of its view. */
TR_MUST_USE int tr_side_get(const struct tr_side_view *v, uint32_t index, struct tr_side_row *row);

#endif
