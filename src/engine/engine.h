#ifndef TR_ENGINE_ENGINE_H
#define TR_ENGINE_ENGINE_H

/*
 * The embedded engine: requests in, completions out; all durable state behind a struct tr_disk.
 * doc/engine.md tells how it works; engine.c how a turn goes.
 *
 * Pure: it reads no clock, has no thread and makes no system call. One thread calls it. None of
 * these functions waits for the disk but tr_engine_open and tr_engine_close.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/finding.h"
#include "port/clock.h"
#include "port/disk.h"
#include "port/engine.h"
#include "port/meter.h"
#include "port/request.h"
#include "port/zones.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_engine;

struct tr_engine_config {
    struct tr_mem *mem;
    enum tr_sync sync;
    uint64_t sync_us;          /* TR_SYNC_INTERVAL */
    uint64_t slot_bytes;       /* of a new store; an old one keeps its own */
    uint32_t slots_max;        /* ring length at most */
    uint64_t batch_bytes;      /* a batch is closed at this size */
    uint32_t body_max;         /* <= TR_BODY_MAX, and far below slot_bytes */
    uint64_t body_cache_bytes; /* bodies kept in memory */
    uint32_t move_body_max;    /* a longer body is not written again by a change of due */
    uint32_t rid_block;        /* rids are promised to the manifest in blocks of so many */
    uint32_t slice;            /* work units per turn */
    unsigned key_bits;         /* tests: of the hash of a key; 0: all. Never changed in a store */
    uint64_t checkpoint_slack; /* bytes that checkpoint files have beyond what is needed now */
    uint64_t seal_us;          /* idle time before a SEAL */
    uint64_t near_us;          /* jobs due within this are in memory */
    uint64_t near_min;         /* delayed and ready jobs that each topic may have in memory, */
    uint64_t near_max;         /* and what topics may have beyond that, together */
    uint64_t far_max;          /* far jobs in slots; with more the oldest slots become a group */
    unsigned promote_slots;    /* so many of them at a time; 0: never */
    uint64_t cells_max;        /* of the forecast; with more, jobs are counted by day */
    uint64_t hour_us;          /* of its cells; a store has always the same. For tests */
    uint64_t crowd;          /* a topic with so many delayed jobs in memory keeps nobody waiting */
    unsigned merge_groups;   /* with more groups than this neighbours become one */
    uint64_t merge_waste;    /* dead bytes of a half-dead group that has to go at once */
    uint64_t scrub_rate;     /* bytes a second at which files of groups are looked through, */
    uint64_t scrub_every_us; /* each so often; 0: never, either of them */
    uint64_t lazy_us;        /* an ATTEMPT waits at most so long for company */
    uint64_t gather_us;      /* weak sync: so does everything, */
    uint64_t gather_bytes;   /* or until there is so much of it */
    uint64_t linger_us;      /* always: a batch waits about so long for those just answered */
    uint64_t max_topics;     /* one more is refused with TARRY_EFULL */
    unsigned meters;         /* topics that are told of one by one (meter.h), at most 1,000 */
    unsigned many_topics;    /* a reserve of more first looks which of all have anything */
    uint64_t checkpoint_us;  /* after the first change */
    uint64_t idle_us;        /* before the ring is made smaller */
    uint64_t history_us;     /* what happened to jobs is told for so long, */
    uint64_t history_bytes;  /* if it takes no more memory than this; */
    uint64_t history_flush_us; /* it goes to its file so long after it happened */
    bool test_clock;           /* time stands still until TR_OP_ADVANCE; a store is made with such a
                                  clock or without, and keeps to it */
    uint64_t clock_start_us;  /* where a test clock stands at least; 0: of a new store the wall's */
    uint64_t background_rate; /* bytes a second that promotions and merges write, at most; 0: any */
    void (*moved)(void *ctx, uint64_t t_us); /* tests: the test clock is about to go there */
    uint64_t (*event)(void *ctx); /* test clock: the next moment at which something happens outside
                                     that it has to stop for; one that is past: it has not yet
                                     happened. UINT64_MAX: none. Or NULL */
    void (*outlet)(void *ctx, uint32_t topic); /* the policy of this topic (as requests name it) was
                                                  changed, and it delivers, or did. Or NULL */
    void (*dropped)(void *ctx, uint32_t topic); /* nobody needs this topic any more: it is about to
                                                   be forgotten. Or NULL */
    void (*idle)(void *ctx); /* nothing was logged for a while; again after tidying up */
    void *ctx;
    void (*durable)(void *ctx, uint64_t batch); /* all replies gated by up to this one may go */
    void (*closed)(void *ctx, uint64_t batch);  /* a batch was closed: memory is exact at its end */
    tr_notice_fn *notice;
    tr_zone_file_fn *zone; /* reads time zones, with zone_ctx; NULL: there is only UTC */
    void *zone_ctx;
    bool read_only; /* only look: nothing is written, nothing is handed out */
    bool salvage;   /* open what is left of a damaged store; without read_only it is repaired, and
                       the engine can only be closed then */
    tr_found_fn *found; /* salvage: tells what is damaged; with ctx. Or NULL */
};

void tr_engine_config_init(struct tr_engine_config *c, struct tr_mem *mem);

/*
 * Opens the store in d, or makes one in an empty directory. Blocks. `seed` gives nonces and ids of
 * stores. TARRY_ELOCKED, EVERSION, EDAMAGED (told by notices), EIO, ENOSPC, ENOMEM; TARRY_EINVAL:
 * with a test clock, but made without one, or the other way round; with read_only TARRY_ENOTFOUND
 * when there is no store. On failure *e is NULL. The limit of c->mem counts from when the store is
 * open, and is raised if that took more.
 */
TR_MUST_USE int tr_engine_open(struct tr_engine **e, const struct tr_engine_config *c,
                               struct tr_disk d, uint64_t seed, struct tr_now now);

/*
 * Commits everything, says CLEAN in the manifest, closes the files. Blocks; no io may be in flight
 * (tr_engine_busy). Whatever it gives, only tr_engine_free may follow.
 */
TR_MUST_USE int tr_engine_close(struct tr_engine *e, struct tr_now now);

/* Drops all memory without a word to the disk: what a crash would do. NULL is fine. */
void tr_engine_free(struct tr_engine *e);

/* After any of the next three, call tr_engine_turn. Requests that waited for what r made ready are
 * completed before submit returns, as many as fit its slice; if it is called from inside `done`,
 * before the outermost call returns. */
void tr_engine_submit(struct tr_engine *e, struct tr_req *r, struct tr_now now);

/* The maker is gone: r will not be completed and may be freed. A hand-out in the making is undone.
 */
void tr_engine_abandon(struct tr_engine *e, struct tr_req *r, struct tr_now now);

/* Does one slice of what is due, and starts the writing. When to call again, in boot time: a
 * moment <= now.boot_us means at once, UINT64_MAX only when something happens. */
uint64_t tr_engine_turn(struct tr_engine *e, struct tr_now now);

/* An io that the engine had submitted is done. Call tr_engine_turn afterwards. */
void tr_engine_io_done(struct tr_engine *e, struct tr_io *io, struct tr_now now);

/* Work units that the last submit took: for whoever shares the thread's time among many. */
unsigned tr_engine_work(const struct tr_engine *e);

/* What time it is to the engine: the wall clock as a rule, or the test clock. */
uint64_t tr_engine_clock(const struct tr_engine *e);

/* True while an io of the engine's is queued or in flight. */
bool tr_engine_busy(const struct tr_engine *e);

/* True after a failure that is final: nothing is answered with success any more. */
bool tr_engine_failed(const struct tr_engine *e);

void tr_engine_drain(struct tr_engine *e); /* no new jobs from now on */

/* What of the config may change while it runs, all of it. Call tr_engine_turn afterwards. */
struct tr_engine_tune {
    uint64_t far_max;
    uint64_t background_rate;
    uint64_t scrub_rate;
    uint64_t scrub_every_us;
    uint64_t history_us;
    uint64_t history_bytes;
};
void tr_engine_tune(struct tr_engine *e, const struct tr_engine_tune *tune);

struct tr_engine_stat {
    uint64_t jobs;
    uint64_t purged; /* not among them: dead, and to be cleared away */
    uint64_t topics;
    uint64_t delayed, ready, reserved, dead;
    uint64_t waiting;                   /* reserves that stand in line */
    uint64_t pushed, deleted, timeouts; /* since the start */
    uint64_t durable_batch;
    uint64_t synced_batch; /* what a power cut cannot take, also with weak sync */
    uint64_t closed_batch;
    uint64_t slots;
    uint64_t slots_free;
    uint64_t log_live_bytes;
    uint64_t log_records; /* appended since the start */
    uint64_t seg_oldest;  /* number of the oldest segment in use, and of the newest */
    uint64_t seg_newest;
    uint64_t history_noted; /* events, since the start, and those that were read then; */
    uint64_t history_saved; /* so many of them are in the file */
    uint64_t slot_bytes;
    bool draining;
    uint64_t checkpoints;
    uint64_t relogged;
    uint64_t clock_steps;
    uint64_t clock_us; /* what time it is to the engine */
    uint64_t work_max; /* most work units in one turn */
    uint64_t replayed; /* records read at the start */
    uint64_t next_rid;
    uint64_t epoch;
    bool refusing;   /* pushes are refused for lack of space */
    uint64_t far;    /* jobs that are not in memory, */
    uint64_t runs;   /* those of them with records in runs, */
    uint64_t groups; /* in so many groups; */
    uint64_t promotions;
    uint64_t keys; /* entries of the table of keys: keyed jobs, and a few that are gone */
    uint64_t merges;
    uint64_t parked;         /* topics with jobs that are due and not in memory */
    uint64_t refills;        /* since the start */
    uint64_t backups;        /* the same */
    uint64_t backup_batch;   /* the one under way will be exact at this one; 0: not known yet */
    bool damaged;            /* something is, that is known: the store is not well */
    uint64_t damaged_jobs;   /* jobs that are held back, since their record cannot be read, */
    uint64_t damaged_places; /* pages and blocks that cannot be; tr_engine_damage tells all, */
    uint64_t damage_untold;  /* but for these */
    uint64_t quarantined;    /* of those, kept in quarantine/ since the start */
    uint64_t scrubbed_bytes; /* since the start, */
    uint64_t scrubbed_groups;
    uint64_t scrub_done;      /* of the group that is being looked through, */
    uint64_t scrub_of;        /* which has so many bytes; 0: none is */
    uint64_t background_rate; /* bytes a second that promotions and merges may write now; 0: any */
    uint64_t commit_p99_us;   /* of commits while none is under way, */
    uint64_t commit_busy_us;  /* and while one is; 0: too few are known */
    uint64_t mended;          /* since the start: made again, or read at last */
    uint64_t sent;            /* how often one left it since the start, */
    uint64_t loaded;          /* and came back */
    uint64_t memory_used;     /* bytes of the budget, */
    uint64_t memory_limit;    /* which are so many at most; 0: no limit */
    bool memory_full;         /* so many that nothing new is taken, or not for long */
};

void tr_engine_stat(const struct tr_engine *e, struct tr_engine_stat *s);

/* How it goes, for those who watch. Pointers are good until the next call. */
struct tr_engine_gauges {
    const struct tr_hist *commit; /* us, of tr_hist_commits: a batch is written, and synced if need
                                     be, */
    const struct tr_hist *gate;   /* and the same from its first change on: so long answers wait */
    const struct tr_hist *batch;  /* changes in one, of tr_hist_sizes */
    uint64_t live_bytes;          /* of records that are alive */
    uint64_t disk_bytes;          /* of all files */
    uint64_t loader_lag_us;       /* so long ago the first job was due that is still to be read */
    uint64_t debt;                /* far jobs in the log beyond far_max: promotion is behind */
    uint64_t stalled;             /* requests that wait for the log or the disk */
    int64_t clock_us;             /* how far its time is ahead of the wall clock, mostly 0 */
};
void tr_engine_gauges(const struct tr_engine *e, struct tr_engine_gauges *g);

/*
 * Topics with their meters, from this one on, at most TR_METER_VIEWS; gives how many. The last one
 * of all is `other`. Whoever goes through them says so before, and after. with_due: tells
 * next_due_us, too, which takes longer.
 */
void tr_engine_meters_begin(struct tr_engine *e);
void tr_engine_meters_end(struct tr_engine *e);
bool tr_engine_meters_looks(const struct tr_engine *e); /* some next_due_us are looked for */
unsigned tr_engine_meters(struct tr_engine *e, unsigned from, bool with_due,
                          struct tr_meter_view *views);

/* The number of somebody who makes requests, for `actor` of those: by his name of 1 to 64 bytes.
 * The same name has the same number, as far as histories reach. 0: there are too many, or no
 * memory. */
uint32_t tr_engine_actor(struct tr_engine *e, const char *name, size_t len);

/* His name, without an end; NULL: it is not known. */
const char *tr_engine_actor_name(const struct tr_engine *e, uint32_t actor, size_t *len);

/* The name of a topic, as requests number it; NULL: there is none. */
const char *tr_engine_topic_name(const struct tr_engine *e, uint32_t topic, size_t *len);

/* 16 bytes by which this store differs from all others, and always the same. */
const uint8_t *tr_engine_uuid(const struct tr_engine *e);

/* What is known to be damaged, for health checks and people. */
struct tr_damage_fact {
    const char *file;
    uint64_t off;
    uint32_t len; /* 0: not known */
    uint64_t id;  /* of the job whose record this is; 0: a page or block */
    const char *topic;
    size_t topic_len;
    uint64_t due_us; /* 0: not known, or a dead job */
    uint64_t at_us;  /* wall: when it was found */
};
typedef void tr_damage_fn(void *ctx, const struct tr_damage_fact *fact);
void tr_engine_damage(const struct tr_engine *e, tr_damage_fn *fn, void *ctx);

/* Every job in no order, for tests, the simulator and check: durable facts only. */
struct tr_job_fact {
    uint64_t rid, id, due_us, created_us, delay_us, ttr_us;
    const char *topic;
    size_t topic_len;
    uint32_t priority, body_len;
    uint32_t reserves, timeouts, releases, buries, kicks;
    uint8_t state;     /* enum tr_job_state; 0: far */
    uint64_t dead_seq; /* 0: not dead */
    uint64_t dead_at_us;
    uint8_t dead_why;
    uint64_t lease; /* a lease that outlives a restart, or 0 */
    uint64_t lease_end_us;
    const uint8_t *body; /* NULL: not in memory */
    const char *key;
    size_t key_len; /* 0: none, or far */
    const char *tag;
    size_t tag_len;
    uint64_t ttl_us;
    bool has_retries;
    int64_t retries;
    const uint8_t *backoff; /* as bytes */
    size_t backoff_len;
    uint32_t flags;            /* enum tr_record_flag */
    bool far;                  /* not in memory: the rest is in its record, */
    char file[TR_IO_NAME_MAX]; /* here */
    uint64_t off;
    uint32_t len;
    uint32_t number; /* of its topic */
    uint32_t cell;   /* kind of cell in which it is counted, if it is not dead */
};
/* A group of run files, whose jobs are no facts: who wants to know must read them. */
struct tr_group_fact {
    uint64_t no;
    uint32_t run_bytes;
    uint32_t dead_bytes;
    const uint8_t *uuid; /* of the store */
};
typedef void tr_group_fn(void *ctx, const struct tr_group_fact *fact);

typedef void tr_fact_fn(void *ctx, const struct tr_job_fact *fact);
void tr_engine_groups(const struct tr_engine *e, tr_group_fn *fn, void *ctx);
/* Alive, and nowhere else? topic: as its record says. */
bool tr_engine_only_in_run(const struct tr_engine *e, uint64_t rid, uint32_t topic);

void tr_engine_facts(const struct tr_engine *e, tr_fact_fn *fn, void *ctx);

/* Every topic, the same way. */
struct tr_topic_fact {
    const char *name;
    size_t name_len;
    uint64_t jobs;  /* live ones, */
    uint64_t bytes; /* and how long their bodies are */
    uint32_t number;
    uint32_t handle;                /* as requests name it */
    const struct tr_policy *policy; /* NULL: it has none */
};
typedef void tr_topic_fn(void *ctx, const struct tr_topic_fact *fact);
void tr_engine_topics(const struct tr_engine *e, tr_topic_fn *fn, void *ctx);

/* Every schedule, by number. */
typedef void tr_schedule_fn(void *ctx, const struct tr_schedule_view *fact);
void tr_engine_schedules(const struct tr_engine *e, tr_schedule_fn *fn, void *ctx);
/* The cells of each topic, and those of all (number 0); see cells.h. */
struct tr_cell_fact {
    uint32_t number;
    uint32_t when;
    uint32_t count;
};
typedef void tr_cell_fn(void *ctx, const struct tr_cell_fact *fact);
/* False: those of all topics are left out, since what a purge dropped is still in them. */
bool tr_engine_cells(const struct tr_engine *e, tr_cell_fn *fn, void *ctx);

/* Checks all invariants; for TR_SLOW_CHECK and tests. */
bool tr_engine_ok(const struct tr_engine *e);

#endif
