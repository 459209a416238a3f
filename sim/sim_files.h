#ifndef TR_SIM_FILES_H
#define TR_SIM_FILES_H

/*
 * The files of the simulated disk, twice: as the page cache shows them and as they are on the
 * platter, and what a power cut makes of the difference. See sim_files.c.
 *
 * Knows nothing of requests, lanes or error codes: that is sim_disk.c. Ownership: files and pages
 * belong to struct sim_files and are used again after a reset. Threads: none.
 */

#include "base/rng.h"
#include "port/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_SECTOR = 512,
    SIM_PAGE = 4096,
    SIM_SECTORS = SIM_PAGE / SIM_SECTOR,
};

enum sim_rot {
    SIM_ROT_ANY,    /* by dice: a bit or a sector */
    SIM_ROT_BIT,    /* one bit */
    SIM_ROT_SECTOR, /* 512 bytes of noise */
    SIM_ROT_BAD,    /* nothing changes, but the sector cannot be read until it is written again */
};

/* What happened, for reports; never set back by a reset. */
#define SIM_COUNT_LIST(X)                                                                          \
    X(ops)                                                                                         \
    X(reads)                                                                                       \
    X(writes)                                                                                      \
    X(syncs)                                                                                       \
    X(dirsyncs)                                                                                    \
    X(unlinks)                                                                                     \
    X(written_bytes)                                                                               \
    X(late)          /* completions delivered in a later step than the execution */                \
    X(crashes)       /* crash_at was reached */                                                    \
    X(crashes_in_op) /* of these, with a part of the op done */                                    \
    X(power_cuts)                                                                                  \
    X(kills)                                                                                       \
    X(kill_executed) /* requests executed though nobody heard of it */                             \
    X(sectors_new)   /* dirty sectors at a power cut */                                            \
    X(sectors_old)                                                                                 \
    X(sectors_torn)                                                                                \
    X(sectors_noise)                                                                               \
    X(sectors_stale) /* clean in the cache, but never written because of a failed sync */          \
    X(dirops_kept)                                                                                 \
    X(dirops_lost)                                                                                 \
    X(growth_lost)                                                                                 \
    X(files_vanished)                                                                              \
    X(sync_eio)                                                                                    \
    X(write_eio)                                                                                   \
    X(read_eio)                                                                                    \
    X(read_bad) /* reads that met an unreadable sector */                                          \
    X(dir_eio)  /* OPEN, UNLINK, LIST, DIRSYNC, ALLOCATE */                                        \
    X(short_writes)                                                                                \
    X(enospc)                                                                                      \
    X(forced) /* faults from fail_at */                                                            \
    X(rots)                                                                                        \
    X(lost_writes)                                                                                 \
    X(misdirected)                                                                                 \
    X(guard_hits)

struct sim_counts {
#define X(name) uint64_t name;
    SIM_COUNT_LIST(X)
#undef X
};

/* 4 KiB of a file; the masks have one bit per sector. */
struct sim_page {
    uint8_t cur[SIM_PAGE];
    uint8_t dur[SIM_PAGE];
    struct sim_page *next; /* in the file's list of pages that differ, or in the pool */
    uint8_t dirty;         /* written since the last sync */
    uint8_t stale;         /* clean, but cur is not dur: a failed sync, a lost write */
    uint8_t guard;         /* must not be written */
    uint8_t bad;           /* cannot be read until written again */
    bool listed;
};

struct sim_file {
    char name[TR_IO_NAME_MAX];
    struct sim_page **pages; /* NULL: never written, reads as zeros */
    size_t page_count;
    size_t page_room;
    struct sim_page *differ; /* pages with dirty or stale sectors, maybe others */
    uint64_t size;
    uint64_t size_dur;
    uint64_t alloc; /* [0, alloc) has blocks */
    uint64_t alloc_dur;
    uint64_t charged; /* bytes counted in used_bytes */
    unsigned opens;
    unsigned guards; /* sectors */
    bool taken;      /* false: free to be used for another file */
    bool linked;     /* has a name in the cached directory */
    bool locked;
    bool marked; /* for the sweep */
};

struct sim_entry {
    char name[TR_IO_NAME_MAX];
    struct sim_file *file; /* in a pending operation NULL: the name goes away */
};

struct sim_dir {
    struct sim_entry *entries;
    size_t count;
    size_t room;
};

struct sim_slab;

struct sim_files {
    struct sim_file **files;
    size_t file_count;
    size_t file_room;
    struct sim_dir cached;
    struct sim_dir durable;
    struct sim_dir pending; /* operations since the last DIRSYNC, oldest first */
    struct sim_page *pool;
    struct sim_slab *slabs;
    uint64_t used_bytes;
    struct sim_counts counts;
};

void sim_files_init(struct sim_files *s);
void sim_files_fini(struct sim_files *s);

/* An empty disk; memory and counts stay. */
void sim_files_reset(struct sim_files *s);

struct sim_file *sim_files_find(const struct sim_files *s, const char *name);
struct sim_file *sim_files_create(struct sim_files *s, const char *name);
void sim_files_unlink(struct sim_files *s, const char *name);

/* The folder aside: its files have names that begin like this. */
#define SIM_ASIDE "b/"
bool sim_files_is_aside(const char *name);

/* The file has this name, too, which is free. */
void sim_files_link(struct sim_files *s, struct sim_file *f, const char *name);
void sim_files_open(struct sim_files *s, struct sim_file *f);
void sim_files_close(struct sim_files *s, struct sim_file *f);

/* How many bytes of new blocks [0, end) of f would need. */
uint64_t sim_files_need(const struct sim_file *f, uint64_t end);

/* Gives the bytes read: fewer than len only at the end of the file. */
size_t sim_files_read(const struct sim_file *f, uint64_t off, void *buf, size_t len, bool direct);

/* True when a sector of the range cannot be read. */
bool sim_files_bad(const struct sim_file *f, uint64_t off, uint64_t len);

/* True when a sector of the range is guarded. */
bool sim_files_guarded(const struct sim_file *f, uint64_t off, uint64_t len);

/* Into the cache. from NULL: zeros. */
void sim_files_write(struct sim_files *s, struct sim_file *f, uint64_t off, const void *from,
                     size_t len);

/* Each dirty sector of the range reaches the platter with this chance, and stays dirty. */
void sim_files_write_back(struct sim_file *f, uint64_t off, uint64_t len, struct tr_rng *rng,
                          uint32_t percent);

/* The sectors of the range count as clean, whatever the platter has. */
void sim_files_lose(struct sim_file *f, uint64_t off, uint64_t len);

/* Into cache and platter at once, past all rules: damage. Only inside the file. */
void sim_files_poke(struct sim_files *s, struct sim_file *f, uint64_t off, const void *from,
                    size_t len);

void sim_files_allocate(struct sim_files *s, struct sim_file *f, uint64_t len);
void sim_files_sync(struct sim_file *f);
void sim_files_dirsync(struct sim_files *s, bool aside);

/* The same with an error: a random part reaches the platter, the rest is forgotten. */
void sim_files_sync_broken(struct sim_file *f, struct tr_rng *rng);
void sim_files_dirsync_broken(struct sim_files *s, struct tr_rng *rng, bool aside);

/* Makes the page at off exist. */
struct sim_page *sim_files_page(struct sim_files *s, struct sim_file *f, uint64_t off);

/* Bits of the sectors of [from, to), both inside one page, from < to. */
uint8_t sim_files_mask(uint64_t from, uint64_t to);

/* Guards the sectors that the range touches, or no longer. */
void sim_files_guard(struct sim_files *s, struct sim_file *f, uint64_t off, uint64_t len);
void sim_files_unguard(struct sim_file *f, uint64_t off, uint64_t len);

/* A file with a byte in it whose name begins with prefix (NULL: any, often man* and ckpt*). */
struct sim_file *sim_files_pick(struct sim_files *s, struct tr_rng *rng, const char *prefix);

/* Damages a place of f, which has a byte in it; kind is not ANY. Gives the place. */
uint64_t sim_files_rot(struct sim_files *s, struct sim_file *f, struct tr_rng *rng,
                       enum sim_rot kind);

void sim_files_power_cut(struct sim_files *s, struct tr_rng *rng);

/* All files are closed, locks are gone, the cache stays. */
void sim_files_kill(struct sim_files *s);

#endif
