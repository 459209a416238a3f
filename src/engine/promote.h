#ifndef TR_ENGINE_PROMOTE_H
#define TR_ENGINE_PROMOTE_H

/*
 * A promotion under way: what is still alive in the oldest slots becomes a group. See promote.c.
 * Or a merge: what is still alive in neighbouring groups does. See merge.c.
 */

#include "base/bitmap.h"
#include "engine/far.h"
#include "engine/group.h"
#include "engine/keys.h"
#include "engine/record.h"
#include "engine/run.h"
#include "engine/sidecar.h"
#include "port/disk.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_PROMOTE_SLOTS = 8,
    TR_PROMOTE_OTHERS = 120,
    TR_PROMOTE_BUFFER = 1 << 20,
    TR_MERGE_INPUTS = 8,
};

enum tr_promote_step {
    TR_PROMOTE_IDLE,
    TR_PROMOTE_JOBS,       /* choosing those in memory, */
    TR_PROMOTE_FAR,        /* and the others */
    TR_PROMOTE_RIDS,       /* a merge: choosing those that are alive */
    TR_PROMOTE_READ,       /* the slots */
    TR_PROMOTE_SINGLES,    /* records of other slots, one by one */
    TR_PROMOTE_SORT,       /* call */
    TR_PROMOTE_RUN_FILL,   /* a run: call; */
    TR_PROMOTE_REFILL,     /* a merge: the next blocks of an input */
    TR_PROMOTE_RUN_OPEN,   /* when there is something to write */
    TR_PROMOTE_RUN_WRITE,  /* blocks, then the footer */
    TR_PROMOTE_PART_SYNC,  /* now and then, so that no sync is long; */
    TR_PROMOTE_PAUSE,      /* for as long as that took; then more */
    TR_PROMOTE_RUN_SYNC,   /* the next run, or */
    TR_PROMOTE_SIDE_BUILD, /* call */
    TR_PROMOTE_SIDE_OPEN,
    TR_PROMOTE_SIDE_FILL, /* call */
    TR_PROMOTE_SIDE_WRITE,
    TR_PROMOTE_SIDE_SYNC,
    TR_PROMOTE_DIRSYNC,
    TR_PROMOTE_MANIFEST, /* waits for the log, then for a manifest with the group */
    TR_PROMOTE_SWITCH,   /* in memory: from slot to run */
    TR_PROMOTE_UNDO,     /* something failed: files are closed and removed */
};

/* A record that is to go into the group. */
struct tr_chosen {
    uint64_t rid;
    uint64_t first; /* when it is due; of a dead job, which is always changed, its topic */
    uint32_t off;
    uint32_t len;
    uint32_t change; /* 1 + index of what it is now, if that is not what its record says; else 0 */
    uint16_t slot; /* index of its slot; a single one is at `off` of the singles when it was read */
    bool dead;
    bool bad; /* its record cannot be read: it stays */
};

/* A job as it is to be written; its own bytes, since it may go meanwhile. */
struct tr_change_of {
    struct tr_record rec;    /* without key, retries and backoff, which its record has; */
    uint8_t tag[TR_TAG_MAX]; /* rec.tag.at is not used */
};

/* An input of a merge: a run of one group. */
struct tr_stream {
    const struct tr_run_footer *footer;
    int file;
    uint8_t *buf; /* blocks that were read, */
    size_t room;
    uint64_t off;       /* from here on, */
    uint32_t block_end; /* up to this one */
    uint32_t block;     /* in hand: */
    bool open;          /* its records are gone through; */
    bool direct;        /* it is read around the cache */
    bool failed;        /* the disk did not give them */
    struct tr_run_block records;
    bool has; /* the record that is next: */
    struct tr_record rec;
    uint64_t place;
    bool ended;
};

struct tr_promote {
    enum tr_promote_step step;
    uint32_t number; /* of this promotion, from 1 */
    struct tr_io io;
    struct tr_piece piece;
    struct tr_slot *slots[TR_PROMOTE_SLOTS + TR_PROMOTE_OTHERS]; /* victims, then others */
    uint64_t segments[TR_PROMOTE_SLOTS]; /* that they had at the beginning */
    uint8_t *bytes[TR_PROMOTE_SLOTS];
    unsigned slot_count;  /* victims, */
    unsigned other_count; /* others, from which single records are taken */
    uint8_t *singles;     /* those */
    size_t single_bytes;
    unsigned at; /* slot that is dealt with */
    uint64_t slot_bytes;
    struct tr_keyer keyer;
    uint64_t rid_last;
    uint64_t batch; /* up to this one changes may be contained */
    struct tr_far_walk walk;
    uint64_t left;            /* far jobs up to rid_last that are not taken */
    struct tr_chosen *chosen; /* those in memory, then far ones by rid */
    size_t count;
    size_t room;
    uint32_t *order;              /* after the sort: in which they are written */
    size_t dead_from;             /* the first dead one of that */
    size_t longest;               /* record */
    struct tr_change_of *changes; /* what chosen jobs are, that differ from their records */
    size_t change_count;
    size_t change_room;
    size_t next; /* chosen one that is dealt with; while a run is filled, in `order` */
    struct tr_group *group;

    bool merge;                               /* of these groups: */
    bool low;                                 /* of whose bytes less than half is alive; */
    struct tr_group *inputs[TR_MERGE_INPUTS]; /* neighbours */
    unsigned input_count;
    struct tr_bitmap taken; /* rids that are to be copied */
    uint64_t at_rid;
    uint64_t bytes_then;   /* live ones of the inputs when these were chosen, */
    uint64_t bytes_copied; /* and those of their copies */
    struct tr_stream streams[TR_MERGE_INPUTS];
    struct tr_stream *hungry; /* nothing that was read of it is left */
    bool waits;               /* for entries of the table that are being loaded */

    struct tr_mem mem; /* of what the calls make */
    struct tr_run_writer writer;
    bool writing_run;
    unsigned run;   /* that is being written */
    size_t run_end; /* the end of this run in `order` */
    uint8_t *buf;   /* to be written */
    size_t buf_room;
    size_t buf_len;
    size_t buf_done;
    bool footer; /* the buffer in hand is the run's footer */
    uint64_t off;
    uint64_t synced;      /* of the file */
    uint64_t part_us;     /* boot: when the part that is synced as a whole was begun */
    uint64_t sent_us;     /* boot: when the request in hand went */
    uint64_t pause_until; /* boot */
    struct tr_side_job *side_jobs;
    size_t side_count;
    size_t keyed_count; /* of those */
    struct tr_side_build build;
    bool building;
    int failed; /* why a call could not go on, or TARRY_OK */

    uint64_t strays;   /* far jobs in slots that no promotion takes, when they were last counted */
    uint64_t retry_at; /* boot */
    unsigned failures; /* in a row: each time it is tried again later */
    uint64_t made;     /* groups, since the start */
    uint64_t bytes_written;
};

/* When to merge next. */
struct tr_merge {
    bool spoiled;      /* some group is to be written anew, as its sidecar cannot be read */
    uint64_t low;      /* rid of a group in which much has died, or 0 */
    uint32_t looked;   /* groups that were counted since something changed */
    uint32_t in_vain;  /* with so many groups no neighbours could be joined */
    uint64_t retry_at; /* boot */
    unsigned failures;
    uint64_t made; /* since the start */
};

struct tr_engine;

/* promote_make.c: for TR_IO_CALL; ctx is the promotion */
void tr_promote_sort(void *ctx); /* what was chosen */
void tr_promote_fill(
    void *ctx); /* the buffer with the next blocks of the run; at its end, a footer */
void tr_promote_build(void *ctx); /* the sidecar */
void tr_promote_pages(void *ctx); /* the buffer with its next pages */

/* What a chosen job was when it was chosen, if c->change says so; without what is fixed. */
struct tr_record tr_promote_change(const struct tr_promote *p, const struct tr_chosen *c);
/* What the sidecar says of a record that is at this place. */
struct tr_side_job tr_promote_index(const struct tr_keyer *keyer, const struct tr_record *rec,
                                    uint64_t place);
/* It is to know of this one. */
void tr_promote_note(struct tr_promote *p, const struct tr_record *rec, uint64_t place);
void tr_merge_fill(void *ctx); /* merge_make.c: the same as tr_promote_fill, from groups */

/* merge.c */
bool tr_merge_begin(struct tr_engine *e);        /* if there is something to merge */
bool tr_merge_urgent(const struct tr_engine *e); /* before any promotion */
bool tr_merge_goes_on(const struct tr_engine *e);
void tr_merge_rids(struct tr_engine *e);          /* a slice */
bool tr_merge_start_run(struct tr_promote *p);    /* if there is one */
struct tr_io tr_merge_read(struct tr_promote *p); /* for the hungry stream */
bool tr_merge_complete(const struct tr_promote *p);
void tr_merge_adopted(struct tr_engine *e);
bool tr_merge_switch(struct tr_engine *e); /* a slice; true: all is done */
void tr_merge_failed(struct tr_engine *e, int why);

/* promote_choose.c */
bool tr_promote_wanted(const struct tr_engine *e);
bool tr_promote_pressed(const struct tr_engine *e); /* the ring fills up: no time for pauses */
void tr_promote_begin(struct tr_engine *e);
void tr_promote_choose(struct tr_engine *e); /* a slice */

/* promote.c, for the others */
void *tr_promote_memory(struct tr_engine *e, size_t size);
void tr_promote_clear(struct tr_engine *e);
void tr_promote_read(struct tr_engine *e);     /* the next slot */
void tr_promote_next_run(struct tr_engine *e); /* or the sidecar */

#endif
