#ifndef TR_SIM_DISK_H
#define TR_SIM_DISK_H

/*
 * A disk that answers port/disk.h from memory, with every fault that a disk can have, all of it
 * decided by dice from one seed. See sim_disk.c for lanes, completions and faults, sim_files.c for
 * the page cache and the platter.
 *
 * Use: new, reset(seed), give sim_disk_port() to the engine, set the faults, then step until
 * pending is 0 or the disk is dead. After a crash: power_cut or kill, which revive the disk, then
 * free the old engine and open a new one. Power_cut and kill come first, because kill may still
 * execute queued requests and so reads their buffers.
 *
 * Threads: none. Ownership: a request belongs to the disk from submit until done was called for
 * it, or until power_cut, kill or reset, which forget it without a word.
 */

#include "base/err.h"
#include "port/disk.h"
#include "sim_files.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sim_disk;

enum { SIM_FAIL_SHORT = -1000 }; /* a fail_code: a short write instead of an error */

/* Zero is "off" for each. The harness may change them at any time, between any two calls. */
struct sim_faults {
    /* Chances in a million, each for the requests it fits. */
    uint32_t sync_eio_ppm;
    uint32_t write_eio_ppm; /* WRITE and ZERO; a random part was done */
    uint32_t short_ppm;
    uint32_t read_eio_ppm; /* this once */
    uint32_t read_bad_ppm; /* a sector of it is unreadable from now on; counts as damage */
    uint32_t dir_eio_ppm;  /* OPEN, UNLINK, LIST, DIRSYNC, ALLOCATE */
    uint32_t enospc_ppm;   /* whatever needs new blocks, though there is room */

    /* Chances in a hundred. */
    uint32_t write_back_pct; /* a dirty sector reached the platter before it was written again */
    uint32_t late_pct;       /* completions that wait for a step of their own after the execution */

    uint64_t crash_at; /* the op with this number (sim_disk_op_count counts from 1) never ends */
    uint32_t crash_mid_pct; /* chance that a part of it is done */

    /* Once: the n-th WRITE from now (1: the next) counts down to 0 and is then ... */
    uint32_t lose_in;      /* acknowledged, but not done */
    uint32_t misdirect_in; /* acknowledged, but done in another place */

    /*
     * Sweeps: the fail_at-th op from now that fail_code fits fails, and with fail_on all such ops
     * after it. fail_code: TARRY_EIO (all but CLOSE), TARRY_ENOSPC (what needs new blocks or a new
     * name), SIM_FAIL_SHORT (a WRITE of more than one byte). Sweep n = 1, 2, 3 ... until
     * fail_hits stays 0.
     */
    uint64_t fail_at;
    int fail_code;
    bool fail_on;
    uint64_t fail_seen; /* ops that fitted, set by the disk; set it to 0 when fail_at is set */
    uint64_t fail_hits; /* ops that failed, set by the disk */

    /* All but crash_at only on files whose name begins so; NULL: all. Borrowed. */
    const char *only;
};

struct sim_place {
    char name[TR_IO_NAME_MAX];
    uint64_t off;
    uint64_t len;
    uint64_t op_no;   /* when */
    const char *what; /* "bit", "sector", "bad", "lost", "misdirected", "write", "unlink" ... */
};

/* done is called from sim_disk_step only. */
struct sim_disk *sim_disk_new(void (*done)(void *ctx, struct tr_io *io), void *ctx);
void sim_disk_free(struct sim_disk *d);

/* An empty disk without faults or limits; all dice come from seed. Keeps memory and counts. */
void sim_disk_reset(struct sim_disk *d, uint64_t seed);

/* Another receiver, for a new engine. */
void sim_disk_set_done(struct sim_disk *d, void (*done)(void *ctx, struct tr_io *io), void *ctx);

struct tr_disk sim_disk_port(struct sim_disk *d);
struct sim_faults *sim_disk_faults(struct sim_disk *d);
struct sim_counts *sim_disk_counts(struct sim_disk *d);

/* Bytes that all files together may take; at the start no limit. May be less than is used. */
void sim_disk_set_cap(struct sim_disk *d, uint64_t cap_bytes);
uint64_t sim_disk_used(const struct sim_disk *d);

/*
 * Executes one request, or delivers one completion, or both; which one is decided by dice. False
 * when there was nothing to do in any lane that is not stalled. On a dead disk everything
 * completes with TARRY_EIO.
 */
bool sim_disk_step(struct sim_disk *d);

/* Requests submitted and not yet delivered. */
size_t sim_disk_pending(const struct sim_disk *d);
size_t sim_disk_pending_lane(const struct sim_disk *d, enum tr_lane lane);

/* A stalled lane neither executes nor delivers. */
void sim_disk_stall(struct sim_disk *d, enum tr_lane lane, bool on);

/* crash_at was reached: from there on nothing changes and everything fails. */
bool sim_disk_dead(const struct sim_disk *d);

/*
 * Ends of a process. Both forget all requests, close all files, free all locks, lift stalls, set
 * crash_at to 0 and revive a dead disk. power_cut: what was not synced is decided by dice. kill:
 * the page cache stays; of a disk that is not dead, a random prefix of LOG and of BACK is executed
 * first, and the WRITE after it perhaps in part.
 */
void sim_disk_power_cut(struct sim_disk *d);
void sim_disk_kill(struct sim_disk *d);

/*
 * Damages one place in a file whose name begins with prefix (NULL: any, often man* and ckpt*);
 * often in the first 96 bytes of a 4 KiB block. False when there is no such file with a byte in
 * it. place (may be NULL) tells where.
 */
bool sim_disk_rot(struct sim_disk *d, const char *prefix, enum sim_rot kind,
                  struct sim_place *place);

/* All damage since the reset (rot, bad sectors, lost and misdirected writes), oldest first. */
enum { SIM_DAMAGE_MAX = 64 };
const struct sim_place *sim_disk_damage(const struct sim_disk *d, size_t *count);

/*
 * Guarded sectors (whole ones: the range is widened) must not be written, nor their file
 * unlinked. Guards survive crashes; they end by unguard, reset, or with the file. name must exist
 * for guard. sim_disk_guard_hit: the first offence, or NULL.
 */
void sim_disk_guard(struct sim_disk *d, const char *name, uint64_t off, uint64_t len);
void sim_disk_unguard(struct sim_disk *d, const char *name, uint64_t off, uint64_t len);
const struct sim_place *sim_disk_guard_hit(const struct sim_disk *d);

/* For oracles and tests, past lanes and faults. peek gives the bytes read through the cache. */
bool sim_disk_exists(const struct sim_disk *d, const char *name);
size_t sim_disk_count_names(const struct sim_disk *d, const char *prefix);
uint64_t sim_disk_bytes(const struct sim_disk *d, const char *prefix); /* of all of them */
uint64_t sim_disk_size(const struct sim_disk *d, const char *name);    /* 0 when not there */
size_t sim_disk_peek(const struct sim_disk *d, const char *name, uint64_t off, void *buf,
                     size_t len);

/* Writes into cache and platter; inside an existing file. */
void sim_disk_poke(struct sim_disk *d, const char *name, uint64_t off, const void *from,
                   size_t len);

/* From now on the sector at off, of an existing file, cannot be read. */
void sim_disk_break(struct sim_disk *d, const char *name, uint64_t off);

/* Executed ops since the reset; a WRITE with THEN_SYNC counts as two. */
uint64_t sim_disk_op_count(const struct sim_disk *d);

/* Of every op with its parameters, written bytes and result, every delivery and every crash. */
uint64_t sim_disk_hash(const struct sim_disk *d);

/* The last 200 or so ops, oldest first. */
void sim_disk_print_trace(const struct sim_disk *d, FILE *out);

/* The folder aside becomes all that is on another disk, durably; gives the number of files. */
size_t sim_disk_copy_aside(const struct sim_disk *from, struct sim_disk *to);

/* All files aside are gone, as if they had never been. */
void sim_disk_clear_aside(struct sim_disk *d);

#endif
