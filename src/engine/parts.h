#ifndef TR_ENGINE_PARTS_H
#define TR_ENGINE_PARTS_H

/*
 * What each part of the engine remembers between two turns. See inner.h for what the parts are, and
 * the file that is named at each of them.
 */

#include "base/map.h"
#include "base/rng.h"
#include "engine/backup.h"
#include "engine/checkpoint.h"
#include "engine/clock.h"
#include "engine/damage.h"
#include "engine/engine.h"
#include "engine/fate.h"
#include "engine/group.h"
#include "engine/history.h"
#include "engine/log.h"
#include "engine/manifest.h"
#include "engine/overlay.h"
#include "engine/pace.h"
#include "engine/promote.h"
#include "engine/scrub.h"
#include "engine/state.h"
#include "engine/wheel.h"
#include "rules/atlas.h"

#define TR_NEVER UINT64_MAX

enum {
    TR_SLOTS_BASE = 4,   /* tail and three free ones: what an idle store keeps */
    TR_META_PIECES = 16, /* of pages, in one write */
    TR_RETRY_US = 2000,  /* what could not be logged now is tried again so much later */
};

/* Who holds reserved jobs: a connection, or (number 0) the leases that outlive connections. */
struct tr_holder {
    uint64_t number;
    uint64_t count;
    struct tr_list jobs;
    struct tr_list *rest;  /* first of jobs that was not looked at for `ends` */
    struct tr_heap ends;   /* leases by their end, of the jobs before rest */
    struct tr_list warned; /* struct tr_wait: its reserves that are to end before a lease does */
};

/* One topic that a waiting reserve waits for. */
struct tr_waiter {
    struct tr_list link; /* of topic->waiters */
    struct tr_topic *topic;
    struct tr_wait *wait;
};

/* A reserve that cannot be answered at once. */
struct tr_wait {
    struct tr_list all; /* of engine->waiting */
    struct tr_req *req;
    struct tr_list of_holder; /* of holder->warned, in line and if it is to be warned */
    struct tr_timer timer;    /* in line: armed for until_us, */
    struct tr_timer warn;     /* and for its warning, by the clock of leases */
    uint64_t until_us;        /* its time-out, boot time, or TR_NEVER */
    uint64_t holder;          /* to be warned of its leases, or 0 */
    bool in_line;             /* it waits for a job, not for a body or its next slice */
    unsigned count;
    struct tr_waiter waiters[];
};

/* A record being read for a request, or to be written again. */
struct tr_read {
    struct tr_io io;
    struct tr_list link; /* of engine->reads */
    struct tr_req *req;  /* NULL: for space.c, for load.c, or abandoned */
    bool relog;
    bool far;    /* brings a far job back, */
    bool listed; /* or only tells of it */
    bool direct;
    struct tr_slot *slot;
    uint64_t rid;
    uint32_t stamp; /* the job's when it was asked for */
    uint64_t lease; /* of the hand-out that waits for the body, or 0 */
    uint64_t off;
    uint8_t *buf;
    uint32_t len;
};

enum tr_meta_step {
    TR_META_IDLE,
    TR_META_WAIT_LOG, /* the log must be durable up to what is to be written (R19) */
    TR_META_PAGES,
    TR_META_PAGES_SYNC,
    TR_META_MANIFEST,
};

/* Checkpoints and manifests; see meta.c. */
struct tr_meta {
    enum tr_meta_step step;
    struct tr_io io;
    struct tr_piece pieces[TR_META_PIECES];
    struct tr_manifest now;  /* what is durable */
    struct tr_manifest next; /* what is being written */
    uint64_t known_gen;      /* newest manifest that the log names, at a start */
    int man_file[2];
    int ckpt_file[2];
    int lock_file;
    uint8_t *man_buf;
    uint64_t done_bytes;
    unsigned copy;           /* of the manifest being written */
    struct tr_freeze freeze; /* makes pages, whatever the step is */
    struct tr_pages pages;   /* being made, or complete and to be written */
    bool frozen;             /* complete: the next round writes them */
    bool with_pages;         /* this round writes a checkpoint */
    uint64_t batch;          /* what it is exact at */
    bool want_checkpoint;
    bool want_manifest;
    uint64_t ckpt_room[2]; /* bytes allocated */
    bool growing;          /* an ALLOCATE for ckpt_file[grow_file] is out */
    bool grow_failed;
    unsigned grow_file;
    struct tr_io grow_io;
    uint64_t grow_bytes;
    uint64_t made;
    uint64_t retry_at; /* boot: no checkpoint is begun before, */
    unsigned failures; /* since so many in a row came to nothing */
    bool failing;      /* the last checkpoint could not be written */
    bool spoiled[2];   /* a sync of this file failed since the first page was written */
};

enum tr_space_step {
    TR_SPACE_IDLE,
    TR_SPACE_OPEN,
    TR_SPACE_ALLOCATE,
    TR_SPACE_ZERO,
    TR_SPACE_SYNC,
    TR_SPACE_DIRSYNC,
    TR_SPACE_CLOSE,
    TR_SPACE_UNLINK
};

/* The ring's housekeeping; see space.c. */
struct tr_space {
    enum tr_space_step step;
    struct tr_io io;
    struct tr_slot *slot;   /* being made or removed */
    bool no_room;           /* the disk refused a new slot */
    uint64_t retry_at;      /* boot */
    struct tr_slot *victim; /* its live records are being written again, */
    struct tr_far_walk far; /* after those that are far have been brought back: so far */
    unsigned reads;         /* in flight for it */
    uint64_t relogged;
    uint64_t relogged_bytes;
    bool idle; /* nothing happened for a while: make the ring small */
};

enum { TR_PULL_MAX = 256, TR_READS_MAX = 256 };

/* What comes into memory and what goes; see load.c. */
struct tr_load {
    uint64_t horizon_us;      /* T: what is due before it is in memory, or being loaded, */
    uint64_t next_us;         /* and no far job is due before this one */
    bool sweeping;            /* bringing in what is due before the horizon: */
    struct tr_far_walk sweep; /* so far; */
    uint64_t sweep_us;        /* that is, before this; */
    uint64_t first_us;        /* about when the first of them is due; */
    uint64_t left_us;         /* and the first due time that was left */
    uint64_t retry_at;        /* boot: something could not be loaded, or TR_NEVER; */
    uint64_t bad_at;          /* the same for what could not be read: */
    uint64_t bad_wait;        /* how long that is: each time longer; */
    bool forgives;            /* the next sweep tries it again */
    unsigned reads;           /* in flight */
    struct tr_list visitors;  /* far jobs that somebody asked for, by visit_us */
    uint32_t pull_topic;      /* whose first far jobs are being looked for, or 0: */
    struct tr_far_walk pull;  /* so far, */
    unsigned pull_count;      /* and these; */
    uint32_t error_topic;     /* whose first ones cannot be had, or 0; */
    int pull_error;           /* why; */
    uint64_t error_until;     /* boot: who asks later asks anew */
    uint64_t pull_us;         /* only those that are due from then on are meant */
    struct tr_pulled {
        uint64_t rid;
        uint64_t due_us;
        uint64_t id;
        struct tr_far_entry entry; /* of one in a run, */
        uint64_t group_no;         /* of this group; 0: it is in a slot */
    } pulled[TR_PULL_MAX];         /* in order */
    bool pull_runs;                /* slots have been looked through, runs are */
    bool pull_damaged;             /* some of them could not be, */
    bool front_damaged;            /* in the search that made the front */
    uint32_t front_topic;          /* the topic whose jobs are in memory up to this, or 0 */
    uint64_t front_us;
    uint64_t front_id;
    uint64_t front_until; /* boot */
    uint64_t sent;        /* since the start: out of memory, */
    uint64_t loaded;      /* and back */
};

/* History on its way to its file; see past_file.c. */
struct tr_past_file {
    struct tr_io io;
    struct tr_piece piece;
    bool busy;     /* a request is out */
    bool failed;   /* nothing is written any more, until the store is closed */
    bool anew;     /* the file is to be removed: what is to be in it is written again */
    bool unwanted; /* somebody found no room on the disk */
    bool marked;   /* what is to be written is known */
    bool ending;   /* nothing will be noted any more */
    bool open;
    int file;            /* then it is this one */
    uint32_t fit;        /* pieces that the file may have */
    uint64_t extent;     /* bytes that it has, or may have now */
    uint64_t full_until; /* boot: there was no room, and it is not asked for before this */
    uint64_t at;         /* boot: nothing is written before this; 0: nothing is to be written */

    uint8_t *frame; /* or NULL */
    bool writing;   /* what is in it: */
    bool names;     /* of actors, else */
    uint32_t no;    /* the events of this piece, */
    uint32_t from;  /* from this one on */
    uint32_t count; /* up to this one, */
    unsigned size;  /* so many bytes each; */
    uint32_t crc;   /* of all entries of the frame; */
    uint64_t off;   /* goes here in the file; */
    uint64_t done;  /* so many bytes have */

    uint32_t saved_no; /* up to here it is in the file, */
    uint32_t saved_count;
    uint32_t saved_crc;
    uint32_t saved_names;
    uint32_t names_crc;
    uint64_t saved_noted;
    uint32_t upto_no; /* and up to here it is to be, */
    uint32_t upto_count;
    uint64_t upto_noted;
    uint64_t batch; /* once this one is durable */
};

/* A group that nothing alive is in goes; see retire.c. */
struct tr_retire {
    struct tr_group *group; /* being removed, or NULL */
    bool busy;              /* a request is out */
    bool named;             /* the manifest still names it; */
    bool ready;             /* the next one does not: */
    uint64_t batch;         /* this one is durable */
    unsigned unlinked;      /* files */
    struct tr_io io;
    uint32_t next; /* place in order that is looked at next */
};

enum { TR_FETCH_SEEKS = 32, TR_FETCH_LOCATED = 4096 };

/* A page or block on its way. */
struct tr_fetch_read {
    struct tr_io io;
    bool busy;
    bool direct;
    bool stale; /* what comes is not wanted any more */
    struct tr_group *group;
    enum tr_side_section section;
    uint32_t page; /* or block */
    uint32_t index;
    uint64_t rid;
    uint64_t damaged_until; /* boot: this rid cannot be found, */
    uint64_t no_room_until; /* or there was no memory for its entry */
    uint8_t *buf;
    size_t room;
};

/* What is read from run files; see fetch.c. */
struct tr_fetch {
    struct tr_fetch_read seeks[TR_FETCH_SEEKS];
    struct tr_fetch_read pull;
    struct tr_fetch_read block;
    struct tr_fetch_read scan;   /* for the forecast */
    unsigned reads;              /* in flight */
    struct tr_run_block records; /* of the block in hand: */
    bool taking;                 /* there is one, */
    bool whole;                  /* and nothing of it is left so far */
    bool skipped;                /* some block could not be read */
    uint64_t sweep_rid;          /* groups up to this rid are swept, */
    uint64_t pull_rid;           /* or looked through, */
    bool window;                 /* first what is due from now on: */
    uint64_t window_no;          /* of this group, */
    uint32_t window_block;       /* from this block on */
    uint64_t passed;             /* blocks since the sweep began, after that */
    uint64_t pull_from;          /* from this due time on */
    struct tr_located {
        uint64_t rid;
        uint64_t until_us;       /* boot */
    } located[TR_FETCH_LOCATED]; /* a ring */
    uint64_t located_next;
    uint64_t located_count;
};

/* Through T of all groups, for one topic; see walk.c. */
struct tr_walk {
    struct tr_io io;
    uint32_t topic;     /* 0: it has ended */
    uint64_t from_us;   /* live entries from this due time on, */
    bool with_dead;     /* and then the dead ones, */
    uint64_t dead_from; /* or only these, from this dead_seq on */
    uint64_t no;        /* groups up to this one have been walked */
    struct tr_group *group;
    uint32_t page;
    uint32_t at;
    bool here; /* the page is in hand */
    bool reading;
    bool direct;
    bool skipped; /* something could not be read */
    uint8_t *buf;
    struct tr_side_view view;
    bool every;          /* all topics: through the runs themselves, by due time; the dead ones in
                            no order of time */
    struct tr_bytes tag; /* by block: of the last one that was told, */
    uint64_t dead_at_us; /* and when it died */
    bool by_block;       /* T cannot be read, or is not asked: through the runs themselves */
    unsigned run;        /* which of them, */
    uint32_t block;      /* and where in it, */
    uint8_t *block_buf;  /* read to here */
    uint32_t block_room;
    struct tr_run_block records;
    struct tr_run_block before; /* the last one that was told */
};

enum { TR_DEATHS_MAX = 256 };

/* The first dead ones of a topic are looked for; see deaths.c. */
struct tr_deaths {
    uint32_t topic; /* or 0: nobody asks; */
    bool looking;   /* for them, in T; else they are on their way; */
    bool cut;       /* not all could be done in this slice */
    struct tr_walk walk;
    unsigned count;
    unsigned here; /* so many of the first ones are in memory, or not to be had */
    struct tr_found_dead {
        uint64_t rid;
        uint64_t seq;
        uint64_t group_no;
        struct tr_far_entry entry;
    } found[TR_DEATHS_MAX]; /* in order */
    bool unsure;            /* some could not be read */
    uint32_t failed_topic;  /* whose cannot be had, or 0: */
    int failed;             /* for this reason, */
    uint64_t failed_until;  /* which counts until then, boot */
};

enum tr_listing_step {
    TR_LISTING_SLOTS,    /* far jobs of slots */
    TR_LISTING_RUNS,     /* those of runs, */
    TR_LISTING_DEAD,     /* and dead ones of runs */
    TR_LISTING_STATES,   /* those in memory, by state */
    TR_LISTING_RESERVED, /* of which reserved ones are looked for among all */
    TR_LISTING_READ,     /* records of those that are far */
};

/* A page in the making; see list.c. */
struct tr_listing {
    struct tr_mem *mem;
    struct tr_req *req; /* NULL: none is made */
    enum tr_listing_step step;
    uint32_t topic; /* by number, */
    bool all;       /* or all of them */
    uint32_t limit;
    struct tr_listed *jobs; /* room for limit, */
    uint32_t *heap;         /* the last of them in order first, */
    uint32_t count;         /* and how many there are; */
    struct tr_job_view *views;
    bool dropped;           /* there are more behind the last, */
    bool cut;               /* or not everything behind this was looked at: */
    uint64_t cut_us;        /* due time */
    struct tr_far_walk far; /* SLOTS */
    struct tr_walk walk;    /* RUNS */
    uint32_t looked;        /* RUNS: at entries of this group */
    uint64_t looked_no;
    enum tr_job_state state; /* STATES */
    size_t at;               /* RESERVED */
    uint32_t next;           /* READ: place in the heap */
    unsigned reads;          /* in flight, */
    uint64_t read_bytes;     /* of so many bytes */
    bool waits;              /* for what is being read */
    bool no_memory;          /* for what was read */
    bool damaged;            /* some could not be found */
};

enum { TR_BULK_LOADS = 64 };
enum tr_bulk_step { TR_BULK_SLOTS, TR_BULK_RUNS, TR_BULK_LOADING, TR_BULK_MEMORY };

/* Many jobs are changed; see bulk.c. */
struct tr_bulk {
    bool on;
    struct tr_req *req; /* NULL: its maker has left */
    uint32_t actor;     /* who that is */
    enum tr_bulk_what what;
    struct tr_filter filter;
    int64_t shift_us;
    uint64_t count; /* at most */
    bool dry_run;
    uint64_t before;              /* rids below this one, */
    uint64_t mark;                /* and without this mark */
    uint64_t marks;               /* given so far */
    struct tr_bitmap met;         /* rids that were counted, and stay what they are */
    uint32_t topic;               /* by number, */
    bool all;                     /* or all of them */
    uint64_t at_us;               /* SHIFT: to this due time; 0: by shift_us */
    char tag[TR_TAG_MAX];         /* of the filter, which its maker may take away */
    unsigned step;                /* enum tr_bulk_step */
    struct tr_far_walk far;       /* SLOTS */
    uint64_t page;                /* in hand, by its first rid, */
    uint64_t page_rid;            /* done up to this one */
    struct tr_walk walk;          /* RUNS */
    size_t at;                    /* MEMORY */
    uint64_t load[TR_BULK_LOADS]; /* rids that must come back first */
    unsigned loads;
    uint64_t done;
    uint64_t passed;
    bool more;
    bool waits; /* for what is being read or written */
};

enum tr_purge_step { TR_PURGE_MEMORY, TR_PURGE_SLOTS, TR_PURGE_RUNS };

/* What a purge left is cleared away; see purge.c. */
struct tr_purge {
    uint32_t topic; /* by number, or 0: none is chosen */
    uint64_t round; /* through all of them */
    enum tr_purge_step step;
    size_t at;              /* MEMORY: reserved jobs are looked for among all */
    struct tr_far_walk far; /* SLOTS */
    struct tr_walk walk;    /* RUNS */
    uint64_t killed;        /* since the first topic was chosen; */
    bool skipped;           /* something could not be read since then */
    uint64_t retry_at;      /* boot: something could not be cleared */
    bool waits;             /* for what is being read or written */
};

enum tr_scan_step { TR_SCAN_NOT, TR_SCAN_MEMORY, TR_SCAN_TABLE, TR_SCAN_RUNS };

/* The forecast; see forecast.c. */
struct tr_forecast {
    struct tr_req *req; /* that is being answered, or NULL; */
    bool begun;         /* its cells are being added up: */
    uint32_t row;
    struct tr_cells_watch hours;
    struct tr_cells_walk hour_walk;
    struct tr_cells_watch seconds;
    struct tr_cells_walk second_walk;
    uint64_t fine_us;  /* seconds count up to here */
    bool again;        /* it must begin anew: */
    uint64_t least_us; /* with steps of at least this, */
    bool whole_day;    /* from the beginning of the day on, */
    bool whole_minute; /* or of the minute, */
    bool no_fine;      /* or without seconds */
    struct tr_forecast_view view;
    uint64_t counts[TR_FORECAST_STEPS_MAX + 2];

    enum tr_scan_step step;
    uint64_t scan_us;       /* jobs due from here on are looked for: */
    size_t at;              /* in memory, */
    struct tr_far_walk far; /* in the table, */
    uint64_t group_no;      /* in this group, */
    uint32_t block;
    uint64_t done[TR_GROUPS_MAX]; /* but not in these any more */
    unsigned done_count;
    struct tr_run_block records; /* of the block in hand, */
    bool taking;                 /* if there is one */
    uint64_t seen_us;            /* the latest T since the table was begun; */
    uint64_t used_us;            /* boot: when the table was last asked for, */
    uint64_t lost_us;            /* and when it was lost, or TR_NEVER */
};

enum { TR_REFILL_SPANS = 8 };

/* A far job of the topic that is refilled. */
struct tr_refill_item {
    struct tr_edge at;
    uint64_t rid;
    uint32_t off; /* of its record */
    uint32_t len;
    uint32_t group;  /* low half of the number of the group that its run is of */
    uint32_t place;  /* in the heap */
    uint16_t number; /* of the slot or run */
    uint16_t head;
    uint8_t cell;
};

/* Neighbours, which are read together. */
struct tr_refill_span {
    struct tr_io io;
    bool busy;   /* it is being read, */
    bool taking; /* or it has come, and its jobs come in: */
    bool direct;
    uint32_t from; /* of order: this one first, */
    uint32_t next; /* then this one, */
    uint32_t to;   /* up to here */
    struct tr_slot *slot;
    uint64_t off;
    uint32_t len;
    uint8_t *buf;
};

enum tr_refill_step { TR_REFILL_TABLE, TR_REFILL_RUNS, TR_REFILL_SORT, TR_REFILL_LOAD };

/* The next jobs of a parked topic; see refill.c. */
struct tr_refill {
    uint32_t topic; /* or 0: none is refilled */
    enum tr_refill_step step;
    uint64_t limit_us;    /* only those that are due before it */
    struct tr_edge from;  /* and none that comes before this */
    struct tr_edge first; /* least of those that are left */
    struct tr_far_walk walk;
    struct tr_refill_item *items;
    uint32_t room;
    uint32_t want;
    uint32_t count;
    uint64_t bytes;      /* of their records */
    uint32_t sorted;     /* so many are in the heap by place, */
    uint32_t *order;     /* or have come out of it: their numbers; */
    uint32_t ordered;    /* so many have, */
    uint32_t loaded;     /* and so many came into memory */
    struct tr_heap heap; /* the last one by (due, id) on top; then by place, the first */
    struct tr_fetch_read page;
    uint64_t group_rid; /* groups up to this rid have been looked through */
    struct tr_refill_span spans[TR_REFILL_SPANS];
    bool cut;           /* no memory or no room: the rest is for later */
    bool stale;         /* some were elsewhere by then, */
    unsigned vain;      /* and so were all, so many times */
    uint64_t retry_at;  /* boot: no sooner than this, */
    uint64_t used_then; /* unless less memory is in use than this */
    unsigned failures;  /* in a row */
    uint64_t made;
};

/* How many jobs of parked topics are due; see park.c. */
struct tr_count {
    bool busy;
    struct tr_far_walk walk; /* first through slots, then topic by topic */
    uint64_t until_us;       /* boot: the last count will do */
};

enum { TR_PAST_MAX = 1000 };

/* Somebody asks what happened to a job; see past.c. */
struct tr_past {
    struct tr_req *req; /* or NULL: nobody does */
    uint64_t id;        /* of which job, */
    uint64_t at;        /* so far */
    uint32_t count;
    uint64_t met;                        /* before some were overwritten */
    struct tr_event events[TR_PAST_MAX]; /* the newest ones: a ring, at the end by time */
    bool pushed;                         /* its making is among them, */
    uint64_t died_us;                    /* and this death */
};

/* When the first far job of a topic is due; see nearest.c. */
struct tr_nearest {
    bool passing;           /* through the table of far jobs, */
    struct tr_far_walk far; /* so far; */
    uint64_t from_us;       /* due times from this one on are meant */
    uint32_t passed;        /* the last pass that has ended, or 0 */
    uint32_t topic;         /* which is looked for in runs, or 0: */
    bool tired;             /* though its first job has gone; */
    struct tr_walk walk;    /* so far */
    unsigned seat;          /* of the meters: the topics from this one on are looked for, too, */
    unsigned seats;         /* so many of them */
};

/* How commits go; see gauges.c. */
struct tr_gauges {
    struct tr_hist commit; /* us: a write of the log, with its sync if answers wait for that */
    struct tr_hist batch;  /* changes in one */
    struct tr_hist gate;   /* us: from the first change of a batch until answers may go */
    uint64_t open_us;      /* boot: the first change of the open batch, */
    uint64_t flight_us;    /* and of the one in flight */
};

/* Schedules at work; see occur.c. */
struct tr_occur {
    struct tr_wheel ticks; /* by T */
    struct tr_atlas atlas;
    struct tr_list held;            /* those whose tick could not make a job, */
    uint64_t retry_at;              /* span: until then; or TR_NEVER */
    uint64_t hope_us;               /* span: later they are not tried for that; or TR_NEVER */
    uint64_t since_us;              /* T: ticks before it were missed */
    bool blocked;                   /* a tick could not be logged in this turn */
    bool checking;                  /* whether occurrences live, */
    uint64_t checked;               /* so far: of those up to this number */
    struct tr_req *asker;           /* who wants to know what will be, or NULL: */
    struct tr_schedule_state ahead; /* so far */
    uint64_t times[TR_SCHEDULE_TIMES_MAX];
};

/* The test clock is on its way; see advance.c. */
struct tr_advance {
    bool on;
    bool tried;         /* the schedules that are held, at its end */
    struct tr_req *req; /* NULL: its maker has left */
    uint64_t to_us;     /* where to, */
    uint64_t batch;     /* which this one says */
};

#endif
