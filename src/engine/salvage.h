#ifndef TR_ENGINE_SALVAGE_H
#define TR_ENGINE_SALVAGE_H

/*
 * Opening a damaged store with what is left of it. See salvage.c.
 */

#include "base/bitmap.h"
#include "base/map.h"
#include "engine/checkpoint.h"
#include "engine/finding.h"
#include "engine/replay.h"

struct tr_salvage {
    struct tr_engine *e;
    bool collecting;       /* the log is read to learn who may be alive, not yet to apply */
    struct tr_bitmap met;  /* rids with a whole record somewhere, */
    struct tr_bitmap gone; /* and those that are dead for certain */
    struct tr_map last;    /* the newest rid of an id, as a pointer; of jobs that were moved */
    struct tr_map keys;    /* the same of the hash of a topic and key */
    struct tr_checkpoint_gap gap; /* what of the checkpoint is not known */
    uint64_t next_rid;            /* of the checkpoint: from there on only the log knows */
    uint64_t seen_rid;            /* rids below it have been seen in the log */
    struct tr_bitmap seen;        /* rids whose jobs can be read */
    struct tr_map counts;         /* by topic number: struct tr_salvage_count */
};

void tr_salvage_init(struct tr_salvage *s, struct tr_engine *e);
void tr_salvage_fini(struct tr_salvage *s);

void tr_salvage_tell(const struct tr_engine *e, const struct tr_finding *f);

/* Reads len bytes, block by block if need be. False: what cannot be read is zero. */
bool tr_salvage_read(struct tr_engine *e, int file, uint64_t off, uint8_t *buf, uint64_t len);
void tr_salvage_unread(const struct tr_engine *e, const struct tr_slot *slot); /* tells of that */

/* A frame that is good, or (`bad`) whose payload is not. */
TR_MUST_USE int tr_salvage_frame(struct tr_replay *p, struct tr_slot *slot,
                                 const struct tr_frame *f, bool bad);

/*
 * At the end of slot stands no good frame of the next batch, though one was durable. True: the walk
 * goes on behind what is damaged.
 */
bool tr_salvage_go_on(struct tr_replay *p, struct tr_slot *slot);

/* The slot does not hold the segment that it should. TARRY_ENOTFOUND. */
TR_MUST_USE int tr_salvage_no_segment(const struct tr_replay *p, const struct tr_slot *slot);

/* What groups know, after the log: then L is made. */
TR_MUST_USE int tr_salvage_alive(struct tr_salvage *s);

/* When the log has been applied: whoever cannot be read is dropped, the others are counted. */
TR_MUST_USE int tr_salvage_weigh(struct tr_salvage *s);

/* repair.c: writes what was found as a good store. Afterwards the engine can only be closed. */
TR_MUST_USE int tr_repair(struct tr_engine *e);

#endif
