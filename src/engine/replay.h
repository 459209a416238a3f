#ifndef TR_ENGINE_REPLAY_H
#define TR_ENGINE_REPLAY_H

/*
 * From the bytes of the log to the state: the walk over the segments. See replay.c.
 */

#include "engine/inner.h"
#include "engine/scan.h"

struct tr_salvage;

struct tr_replay {
    struct tr_engine *e;
    struct tr_scan *scans; /* of each slot, by number */
    uint8_t *bytes;        /* one slot */
    uint64_t checkpoint;   /* batches up to this one are in the checkpoint */
    const uint8_t *pages;  /* its bytes */
    size_t page_count;
    size_t page_bytes;   /* salvage: allocated for them; 0: just what they take */
    uint64_t next_batch; /* expected next */
    uint64_t clock_us;   /* of the newest frame */
    uint64_t next_made;  /* rid behind the last one that a record brought */
    bool changes_loaded;
    bool cut;                   /* something after the end was thrown away */
    bool blank;                 /* no slot was ever written to */
    bool sealed;                /* the walk ended at a SEAL */
    bool bad;                   /* the walk ended at a frame with a good head and a bad payload */
    struct tr_salvage *salvage; /* what is damaged is told, and passed over; NULL: refused */
};

/* Reads all slots: which segment each one holds. */
TR_MUST_USE int tr_replay_scan(struct tr_replay *p);

/*
 * Walks the log from the oldest segment that is needed to its end, places and applies records, and
 * leaves the log ready to go on. TARRY_EDAMAGED with a notice: proven damage. Writes nothing but
 * zeros over what comes after the end, and headers of slots.
 */
TR_MUST_USE int tr_replay_run(struct tr_replay *p);

#endif
