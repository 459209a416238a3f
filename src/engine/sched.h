#ifndef TR_ENGINE_SCHED_H
#define TR_ENGINE_SCHED_H

/*
 * The schedules of a store, as a function of SCHED records. See sched.c; occur.c has what they do.
 */

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/record.h"
#include "engine/wheel.h"
#include "rules/schedule.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_state;

struct tr_sched {
    uint64_t number;
    struct tr_schedule is;       /* borrows from bytes */
    struct tr_schedule_state at; /* durable, as `is` */
    struct tr_cron cron;
    const struct tr_zone *zone; /* NULL: not known; occur.c sets it */
    uint32_t row_no;            /* number of the freeze that has dealt with its row */
    bool held;                  /* its tick could not make a job, and is tried again */
    struct tr_list in_held;
    struct tr_list link; /* of all, by number */
    struct tr_sched *same_hash;
    struct tr_timer timer; /* by T: its next tick */
    size_t name_len;
    size_t def_len;
    uint8_t bytes[]; /* name, definition */
};

struct tr_scheds {
    struct tr_mem *mem;
    struct tr_list all;
    struct tr_map by_number;
    struct tr_map by_name; /* by a hash; equal ones form a chain */
    struct tr_map live;    /* by the id of the occurrence that lives */
    uint64_t count;
    uint64_t next_number;
    uint64_t row_bytes;   /* of all of them in a checkpoint, at most */
    uint8_t *part;        /* while a checkpoint is loaded: the beginning of one, */
    uint64_t part_number; /* of this one, */
    size_t part_len;      /* so far */
    size_t part_size;
};

/* What a SCHED record says: first byte of its body. */
enum tr_sched_what {
    TR_SCHED_WHOLE = 1, /* name; varint length, definition, state */
    TR_SCHED_STEP = 2,  /* state */
    TR_SCHED_GONE = 3,
};

enum {
    TR_SCHED_CHUNK = 4000, /* bytes of one that a row of a checkpoint has at most */
    TR_SCHED_ROW_HEAD = 32,
    TR_SCHED_STEP_MAX = 160, /* a record of a step */
};

void tr_scheds_init(struct tr_scheds *ss, struct tr_mem *mem);
void tr_scheds_fini(struct tr_scheds *ss);

/* Applies a SCHED record, as tr_state_apply. One that is defined anew is another struct then. A
 * timer of one that goes must not be armed. */
TR_MUST_USE int tr_scheds_apply(struct tr_state *s, const struct tr_record *rec);

const char *tr_sched_name(const struct tr_sched *s);
struct tr_sched *tr_scheds_find(const struct tr_scheds *ss, const char *name, size_t len);
struct tr_sched *tr_scheds_by_live(const struct tr_scheds *ss, uint64_t id);
/* The first one with a larger number, or NULL. */
struct tr_sched *tr_scheds_after(const struct tr_scheds *ss, uint64_t number);

/* Bytes that rows of a definition of so many bytes can have. */
size_t tr_sched_row_bytes(size_t name_len, size_t def_len);

/* All of it, for a checkpoint; out has room for tr_sched_row_bytes. Gives the length. */
size_t tr_sched_pack(const struct tr_sched *s, uint8_t *out);
/* One row with a part of that. */
TR_MUST_USE int tr_scheds_load_row(struct tr_state *s, struct tr_reader *r);

bool tr_scheds_ok(const struct tr_scheds *ss);

#endif
