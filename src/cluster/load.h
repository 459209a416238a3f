#ifndef TR_CLUSTER_LOAD_H
#define TR_CLUSTER_LOAD_H

/*
 * Where a database has the truth: which of its rows are in Redis, and that they are right. See
 * load.c (one topic in one slot) and align.c (all that a node owns).
 */

#include "cluster/desk.h"

enum {
    TR_LOADERS = 4,      /* the first is for who cannot wait */
    TR_LOAD_TOPICS = 32, /* of a page of all topics */
    TR_LOAD_HINTS = 32,
    TR_LOAD_IMAGES = 512, /* on their way; then no more rows are read for a while */
};

/* What a slot needs. */
enum tr_align_mode {
    TR_ALIGN_NOT,
    TR_ALIGN_WINDOW, /* rows that are due before long now, */
    TR_ALIGN_ALL,    /* or all that should be there, and what should not */
};

/* A topic in a slot: `loaded` is raised, then rows are read. */
struct tr_loader {
    struct tr_item item;
    struct tr_desk_call call;
    bool busy;
    bool all;    /* not only those that it has not read before */
    bool raised; /* if it fails now, rows are missing */
    bool waits;  /* until fewer images are on their way */
    bool cut;    /* the set was full, as far as is known: is `loaded` lower? */
    uint8_t state;
    unsigned tries;
    uint32_t row;     /* the topic's number in the database, */
    uint32_t gen;     /* and its gen; */
    bool knows_gen;   /* if that is known */
    uint64_t lives;   /* of the database's server, when it began: row is of that */
    uint64_t from_us; /* read up to here */
    uint64_t from_id;
    uint64_t upto_us;
};

/* Does this one wait for nothing? Then it has this to do. */
void tr_loader_start(struct tr_cluster *c, struct tr_loader *l, struct tr_ctopic *t, unsigned slot);
void tr_loader_go_on(struct tr_cluster *c, struct tr_loader *l);

/* What one slot has in Redis, page by page, against the rows. */
struct tr_scanner {
    struct tr_item item;
    struct tr_desk_call call;
    bool busy;
    unsigned slot;
    char cursor[24];
    size_t cursor_len;
    struct tr_scanned {
        uint64_t id;
        uint32_t ver;
        uint32_t priority;
        uint64_t due_us, at_us;
        uint64_t lease;
        struct tr_ctopic *topic; /* which stays */
        char set;
    } * seen;
    struct tr_sql_item *items;
    unsigned count, room, at;
};

struct tr_align {
    struct tr_loader loaders[TR_LOADERS];
    struct tr_scanner scanner;
    bool again;       /* there may be something to do */
    uint64_t next_us; /* boot time */
    uint64_t retry_us;
    /* What slots need. */
    uint8_t need[TR_SLOTS_MAX];
    uint8_t doing[TR_SLOTS_MAX];
    bool had[TR_SLOTS_MAX];
    uint64_t window_us[TR_SLOTS_MAX]; /* boot time of the next look; */
    uint64_t all_us[TR_SLOTS_MAX];
    uint64_t told_us[TR_SLOTS_MAX]; /* its owner was told last */
    bool untold[TR_SLOTS_MAX];      /* again, too soon: that is told a little later, */
    bool untold_any;
    uint64_t untold_us; /* at this boot time */
    /* What was seen last. */
    bool owns;
    uint64_t shares;
    uint8_t lost[TR_SLOTS_MAX]; /* images were dropped: its owner is told so many times more */
    bool lost_any;
    uint64_t lost_us; /* boot time of the next time */
    struct tr_members members;
    /* Who cannot wait. */
    struct tr_load_hinted {
        struct tr_ctopic *topic; /* which stays */
        unsigned slot;
    } hints[TR_LOAD_HINTS];
    unsigned hint_count;
    /* All topics, a page at a time, while `round`. */
    bool round;
    bool scans;
    bool last; /* page */
    uint64_t lives;
    unsigned slot;
    struct tr_desk_call call;
    struct tr_align_topic {
        uint32_t row, spread, gen;
        uint8_t order;
        size_t len;
        char name[TR_TOPIC_NAME_MAX + 1];
    } topics[TR_LOAD_TOPICS];
    unsigned topic_count, topic_at, slot_at;
    uint64_t rounds, loads, read, gone, mended, forced; /* what it did */
};

TR_MUST_USE int tr_align_init(struct tr_cluster *c);
void tr_align_fini(struct tr_cluster *c);
void tr_align_turn(struct tr_cluster *c);
uint64_t tr_align_next(const struct tr_cluster *c);
/* This slot needs that; at once, if it is ours; else its owner is told. */
void tr_align_slot(struct tr_cluster *c, unsigned slot, enum tr_align_mode mode);
/* All slots, on whichever node. */
void tr_align_everything(struct tr_cluster *c);
/* A loader is done; what it was to load is not. */
void tr_align_failed(struct tr_cluster *c, unsigned slot);

extern const struct tr_cl_way tr_raise_way, tr_scan_way;

#endif
