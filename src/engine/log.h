#ifndef TR_ENGINE_LOG_H
#define TR_ENGINE_LOG_H

/*
 * The writing side of the log: batches, group commit, and the ring of slots they go to. See log.c
 * for the rules, scan.h for the reading side.
 *
 * Records gather in the open batch. tr_log_start closes it and sends it to the disk; tr_log_io_done
 * tells what became of it. One batch is in flight at a time.
 */

#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/frame.h"
#include "engine/record.h"
#include "engine/slot.h"
#include "port/disk.h"

struct tr_placed {
    uint64_t rid;
    uint32_t off; /* in the payload */
    uint32_t len;
};

struct tr_killed {
    struct tr_kill kill;
    uint8_t reason;
};

struct tr_batch {
    uint64_t no;
    struct tr_base base;
    uint8_t *buf; /* frame head, payload, padding */
    size_t len;   /* of the payload */
    uint32_t records;
    uint32_t changes; /* records and kills appended */
    uint32_t crc;     /* of the payload so far */
    bool gated;       /* holds a record that somebody's answer waits for */
    struct tr_placed *placed;
    size_t placed_count;
    size_t placed_room;
    struct tr_killed *kills; /* not yet in the payload */
    size_t kill_count;
    size_t kill_room;
};

enum tr_log_event {
    TR_LOG_NOTHING,
    TR_LOG_WRITTEN, /* the batch in flight is on its slot; with sync = always it is durable */
    TR_LOG_SYNCED,  /* weak sync: `synced` has moved */
    TR_LOG_FAILED,
};

struct tr_log {
    struct tr_mem *mem;
    struct tr_disk disk;
    const struct tr_engine_config *config;
    struct tr_rng rng; /* nonces */
    uint8_t uuid[TR_UUID];
    uint64_t slot_bytes;
    size_t batch_room; /* bytes of a batch's buffer */

    struct tr_slot *slots;
    uint32_t slots_max;
    uint32_t free_count;
    struct tr_slot *tail; /* NULL until the first batch */
    uint64_t seg_no;      /* of the tail, or the last one there was */

    struct tr_batch open;
    struct tr_batch flight;
    bool writing; /* flight is being written */
    bool rolled;  /* ... as the first of a segment */
    bool sealing; /* a SEAL is being written */
    bool sealed;  /* a SEAL stands at the end */
    bool pressed; /* the open batch was too full for somebody: it should go */
    bool failed;
    bool blocking;    /* closing: requests are run, not submitted */
    uint64_t durable; /* newest batch that answers may count on */
    uint64_t synced;  /* newest batch that a power cut cannot take */
    uint64_t gated;   /* newest batch with a gated record */
    uint64_t records; /* appended since the start, kills too */
    uint64_t man_gen;
    uint32_t prev_crc;
    uint64_t flight_off; /* where the frame in flight begins in the tail */

    struct tr_io io; /* the write */
    struct tr_piece pieces[2];
    uint64_t io_done_bytes;
    struct tr_io sync_io;
    bool syncing;
    uint64_t sync_batch;    /* what the running sync makes durable; 0: older slots, not all yet */
    uint8_t head[TR_BLOCK]; /* segment header, or SEAL */
};

/* Slots are all ABSENT. TARRY_ENOMEM. fini also accepts what init could not finish. */
TR_MUST_USE int tr_log_init(struct tr_log *log, const struct tr_engine_config *config,
                            struct tr_disk disk, uint64_t slot_bytes, uint64_t seed);
void tr_log_fini(struct tr_log *log);

/*
 * Makes room for `records` records and kills of together `bytes` (heads and bodies), so that
 * appending them cannot fail. TARRY_EFULL: not before the batch in flight is written, or no slot
 * is left. TARRY_EIO: the log has failed.
 */
TR_MUST_USE int tr_log_reserve(struct tr_log *log, size_t bytes, size_t records);

/* True when so many more bytes in the open batch still let it go into the tail. */
bool tr_log_fits_tail(const struct tr_log *log, size_t bytes);

/* Adds a record; the first of a batch sets its base. gated: an answer will wait for it. */
void tr_log_append(struct tr_log *log, const struct tr_record *rec, struct tr_base base,
                   bool gated);
void tr_log_kill(struct tr_log *log, struct tr_kill kill, uint8_t reason, struct tr_base base,
                 bool gated);

bool tr_log_open_empty(const struct tr_log *log);

/* Closes the open batch and sends it. False: one is in flight, or there is no free slot. */
bool tr_log_start(struct tr_log *log);

/* Weak sync: makes what is written durable. No effect while one runs or when nothing is to do. */
void tr_log_sync(struct tr_log *log);

/* Writes a SEAL behind the last batch if there is one to be sealed. False: the tail has no room. */
bool tr_log_seal(struct tr_log *log);

/* True while a write of ours is queued. */
bool tr_log_busy(const struct tr_log *log);

/* Writes the open batch and syncs everything before it returns; nothing may be in flight. */
TR_MUST_USE int tr_log_finish(struct tr_log *log);

enum tr_log_event tr_log_io_done(struct tr_log *log, struct tr_io *io);

/* The batch an answer computed now must wait for, or 0. */
uint64_t tr_log_gate(const struct tr_log *log);

void tr_log_slot_name(char name[TR_IO_NAME_MAX], uint32_t number);
void tr_log_set_state(struct tr_log *log, struct tr_slot *slot, enum tr_slot_state state);

#endif
