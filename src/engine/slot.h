#ifndef TR_ENGINE_SLOT_H
#define TR_ENGINE_SLOT_H

/*
 * A slot: one log file of the ring, w.<number>, and what it holds now.
 *
 *     ABSENT -> MAKING -> FREE -> TAIL -> SEALED -> FREEING -> FREE
 *                           \-> REMOVING -> ABSENT
 *
 * FREEING: a manifest that no longer names the segment is being written; only when that is durable
 * may the slot be written again (R10, R24).
 */

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_slot_state {
    TR_SLOT_ABSENT,
    TR_SLOT_MAKING,
    TR_SLOT_FREE,
    TR_SLOT_TAIL,
    TR_SLOT_SEALED,
    TR_SLOT_FREEING,
    TR_SLOT_REMOVING,
};

struct tr_slot {
    enum tr_slot_state state;
    uint32_t number;
    int file;
    uint64_t seg_no;
    uint64_t nonce;
    uint64_t first_batch;
    uint64_t last_batch;
    uint64_t last_rid;   /* newest that was given in it; 0: nothing in it is for a group */
    uint64_t end_off;    /* frames end here */
    uint64_t emptied_by; /* newest batch that took a live record away */
    uint64_t live;       /* jobs whose record is here, */
    uint64_t far;        /* and those of them that are not in memory */
    uint64_t live_bytes;
    struct tr_list jobs; /* the others, */
    uint64_t dead;       /* and how many of them are dead */
    unsigned readers;    /* reads in flight: the file stays open */
    bool raw;            /* its blocks are reserved but were never written: slow to sync; */
    bool filling;        /* they are being written: it is free, but not to be used now */
    bool unsynced;       /* weak sync: written since its last sync */
    bool stuck;          /* a live record here cannot be read, so it cannot be written again */
    bool held;           /* it is being copied: not to be freed */
    bool headless;       /* at the start its header was damaged, though it had been durable */
};

#endif
