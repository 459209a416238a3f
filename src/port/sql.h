#ifndef TR_PORT_SQL_H
#define TR_PORT_SQL_H

/*
 * A database as pure code sees it: typed questions go out, and what came of them comes back.
 * remote/sql.c answers for real, on threads of its own; a simulator could with dice.
 *
 * The heart of it is CHANGE: one transaction for many items, each about one job:
 *
 *     lock and read the rows ──► decide, pure, per item ──► write, commit
 *
 * The rules, which both sides keep:
 *
 *     1. An ask, and all that hangs on it, is the port's from `send` until `ended`, which is told
 *        once, never from inside send. What `row` and `rows` point to is good until `ended` has
 *        returned.
 *     2. Asks of one connection are done one after the other, in order. Those of several are done
 *        in any order: whoever wants one waits for the end of the ask before.
 *     3. `decide` is called by a thread of the port. It touches nothing but the ask and what hangs
 *        on it, and is pure: the same rows and the same time give the same decision. It may be
 *        called again for the same items, when a transaction was undone: only the last one counts.
 *     4. No two items of an ask are about the same job, or the same key.
 *     5. The items of an ask may be done in several transactions (one bad one is not to fail its
 *        neighbours); each item is done or not as a whole.
 *     6. The port connects, and finds out what became of a commit whose answer was lost. DONE and
 *        UNDONE are therefore certain, of CHANGE and POLICY; what others leave behind harms
 *        nobody. UNSURE is said only when it could not find out in time.
 *     7. Whatever is asked is bounded by whoever asks: items, bytes, rows of a page.
 */

#include "port/clock.h"
#include "port/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_SQL_ITEMS_MAX = 1024, /* of an ask */
    TR_SQL_PAGE_MAX = 1024,  /* rows */
    TR_SQL_CONNS_MAX = 64,
};

enum tr_sql_state { TR_SQL_WAITING, TR_SQL_RESERVED, TR_SQL_DEAD };

/* A row: a job as it is. 0 stands for none, and for what the topic says. */
struct tr_sql_job {
    uint64_t id;
    uint32_t topic; /* by its number in the database */
    uint32_t gen;   /* of the topic when it was made: older than that of now, it was purged */
    uint32_t ver;
    uint8_t state;    /* enum tr_sql_state */
    uint8_t flags;    /* enum tr_header_flag */
    uint8_t holder;   /* whose lease it is */
    uint8_t why;      /* enum tr_why: it is dead */
    uint64_t next_us; /* due, end of the lease, or time of death */
    uint64_t due_us;
    uint64_t created_us;
    uint64_t changed_us;
    uint64_t handed_us; /* first handed out */
    uint64_t delay_us;
    uint64_t ttr_us;
    uint64_t ttl_us;
    uint64_t lease;
    uint32_t priority;
    uint32_t retries; /* TR_RETRIES_USUAL and so on */
    uint32_t attempts, timeouts, releases, buries, kicks;
    uint32_t sched; /* made by this schedule, */
    uint64_t sched_n;
    uint64_t body_len; /* also when the body was not asked for */
    struct tr_span tag, key, backoff, body;
};

/* One line of what happened to a job. */
struct tr_sql_event {
    uint8_t event; /* enum tr_event_what */
    uint8_t from, to;
    uint8_t why;
    struct tr_span actor, info;
};

/* How the job of an item is found. */
enum tr_sql_by {
    TR_SQL_BY_ID,
    TR_SQL_BY_KEY,  /* topic, key */
    TR_SQL_NEW,     /* nothing is read */
    TR_SQL_NEW_KEY, /* the one that has the key of the topic; if there is none, id has it from now
                       on, if it is inserted */
};

enum tr_sql_write {
    TR_SQL_LEAVE,
    TR_SQL_INSERT, /* of NEW_KEY: one that had the key before, and was found, is deleted */
    TR_SQL_UPDATE, /* all but id, topic, gen, key; the body if with_body */
    TR_SQL_DELETE, /* and its key */
};

enum tr_sql_end {
    TR_SQL_UNDONE, /* nothing was done: see blame and why of the ask */
    TR_SQL_DONE,
    TR_SQL_UNSURE,
};

/* What went wrong, as far as it matters to what is done next. */
enum tr_sql_blame {
    TR_SQL_FINE,
    TR_SQL_AWAY,      /* no server, or none any more */
    TR_SQL_AGAIN,     /* a deadlock, or a lock that did not come: all was undone */
    TR_SQL_REFUSED,   /* user, password, rights, database: somebody has to do something */
    TR_SQL_NO_TABLES, /* or other ones than ours */
    TR_SQL_READ_ONLY,
    TR_SQL_FULL,
    TR_SQL_BAD, /* this very thing: too large, or no value of its column. So it will be each time */
    TR_SQL_OTHER,
};

enum { TR_SQL_EVENTS = 2 }; /* of one item */

struct tr_sql_topic;

struct tr_sql_item {
    /* What is asked. */
    enum tr_sql_by by;
    uint64_t id;
    uint32_t topic; /* BY_ID: if it is known; then it is not purged in the middle of a CHANGE */
    struct tr_span key;
    uint32_t knows; /* the version of the topic's settings that the asker has */
    void *ctx;      /* the asker's: what is to be done */

    /* What was read. */
    bool found;
    bool locked; /* somebody has it just now, and it was not waited for */
    struct tr_sql_job row;
    uint32_t gen;                     /* of the topic, now */
    uint32_t version;                 /* of the topic's settings, now; `topic` must be known */
    const struct tr_sql_topic *other; /* if the asker has others: the topic as it is, without its
                                         name; or NULL. They stay so until the commit */

    /* What was decided. */
    enum tr_sql_write write;
    struct tr_sql_job next; /* INSERT, UPDATE: the whole row from now on */
    bool with_body;
    struct tr_sql_event events[TR_SQL_EVENTS];
    unsigned event_count;

    enum tr_sql_end end;
    /* Of one that was not done, as those of the ask: others of it may have failed otherwise. */
    enum tr_sql_blame blame;
    const char *why;
};

enum tr_sql_kind {
    TR_SQL_CHANGE, /* items, decide */
    TR_SQL_LOOK,   /* items, BY_ID or BY_KEY, without locks: only read */
    TR_SQL_PAGE,   /* slot, topic, state; those behind (from_us, from_id) by (next_us, id), before
                      until_us; number at most -> rows, count. None that was purged; or, `purged`:
                      only those, of any state, any of them */
    TR_SQL_BLOCK,  /* slot, number: ids of so many jobs -> first: the first sequence number */
    TR_SQL_TOPIC, /* name, or without one number; makes: spread, order, keep -> topics: the one, and
                     topic, or 0: there is none */
    TR_SQL_TOPICS, /* those behind `topic` by number, `number` of them at most -> topics, count */
    TR_SQL_POLICY, /* name, text, keep, spread, order, delivers; version: as it was, first: as it is
                      to be -> topics: the one; number: 1: it was changed */
    TR_SQL_COUNT, /* topic, slot, order -> counts, of the gen of now, and heads, of the slot; light:
                     of heads only the best one, among some of those that are due longest */
    TR_SQL_OWN,   /* slot, node, epoch: as it was -> epoch: as it is; number: 1: it is the node's */
    TR_SQL_AGREE, /* name: a uuid, number: slots, text: prefix, for a store that has none -> uuid,
                     first: slots, prefix: as the store has them */
    TR_SQL_FOLD,  /* counts of a lane that was not used since until_us become those of nobody;
                     number: 1: there was one */
    TR_SQL_FLOW, /* items: one, by id, as LOOK -> flow: what happened to it, the last first; number:
                    so many, TR_SQL_FLOW_MAX at most */
    TR_SQL_DAYS, /* from_us: what happened before the day of this may be forgotten -> number: 1: it
                    was; 0: more is to be done */
    TR_SQL_PURGE, /* topic: its gen is one more from now on -> number: jobs that it had */
    TR_SQL_OLD,   /* number: of topics that were purged and have counts of older gens, so many ->
                     topics, count */
    TR_SQL_CLEAR, /* topic, version: nothing is left of older gens than this one: counts of them go
                   */
    TR_SQL_FORECAST, /* slot, topic; from_us, until_us, first: so long is a step; number: so many
                        rows are counted, the rest is guessed -> steps, number: rows that were
                        counted, approximate */
    TR_SQL_PLAN,  /* plan: a schedule is locked and read, decide, written; with at most one item, a
                     NEW job. All of it is one transaction */
    TR_SQL_PLANS, /* schedules, only read: see enum tr_sql_plans -> plans, count */
    TR_SQL_OUTLETS, /* as TOPICS, but only those that deliver */
    TR_SQL_BUSY,    /* as TOPICS, but only those that have jobs of `state`, RESERVED or DEAD */
    TR_SQL_KINDS,
};

enum { TR_SQL_FLOW_MAX = 500 };

/* Something that happened to a job, as it was written. */
struct tr_sql_past {
    uint64_t at_us;
    uint8_t event; /* as in struct tr_sql_event */
    uint8_t to;
    uint8_t why;
    struct tr_span actor, info;
};

enum { TR_SQL_WHY = 1000 };

struct tr_sql_counts {
    int64_t waiting, reserved, dead, bytes;
};

/* Which jobs of a slot would be next. Times and ids: 0 is none. */
struct tr_sql_heads {
    uint64_t ready, urgent; /* as far as they were counted */
    uint64_t ended;         /* reserved ones whose lease is over, though nobody has written that */
    uint64_t oldest_us;     /* due time of the oldest ready one */
    uint64_t best_id, best_due_us;
    uint32_t best_priority;
    uint64_t next_id, next_due_us; /* the first one that is not due */
    uint64_t dead_id;
};

/* A topic, as the database has it. */
enum tr_sql_keep { TR_SQL_KEEP_JOBS, TR_SQL_KEEP_ALWAYS, TR_SQL_KEEP_NOT };

struct tr_sql_topic {
    uint32_t id;
    uint32_t spread;
    uint32_t version; /* of its policy */
    uint32_t gen;
    uint8_t order;
    uint8_t keep; /* enum tr_sql_keep: without jobs, too; or it was deleted */
    struct tr_span name, policy;
};

/* A schedule, as the database has it. */
struct tr_sql_plan {
    uint32_t id;  /* 0: there is none */
    uint32_t ver; /* 0: the name is there, and nothing else yet */
    uint32_t topic;
    unsigned slot;
    uint64_t last_n;   /* the number of the last job that it made */
    uint64_t next_us;  /* when it is to be looked at; 0: never */
    uint64_t last_job; /* the one whose end is waited for, or 0; */
    uint64_t ended_us; /* that has ended then, or 0; */
    bool lives;        /* that is there, and not dead */
    struct tr_span name, spec, state;
};

/* One that is changed. The port itself notes when the job ends that it waits for (by `sched` of its
 * row): ended_us is set, next_us is then, and it is a new version. */
struct tr_sql_planned {
    struct tr_span name;
    bool makes; /* the name is made if it is not there; it goes again if nothing is written */
    void *ctx;  /* the asker's */
    struct tr_sql_plan is;
    enum tr_sql_write write; /* LEAVE, UPDATE, DELETE */
    struct tr_sql_plan next; /* UPDATE: all but id and name; spec if with_spec */
    bool with_spec;
};

/* What a change of its policy does to a topic's outlet. */
enum tr_sql_delivers {
    TR_SQL_DELIVERS_NOT, /* there was none, and is none */
    TR_SQL_DELIVERS,
    TR_SQL_DELIVERS_NO_MORE,
};

/* Which ones PLANS is about: `state` of the ask. */
enum tr_sql_plans {
    TR_SQL_PLANS_NAME,  /* name */
    TR_SQL_PLANS_AFTER, /* the first one behind from_id */
    TR_SQL_PLANS_FIRST, /* of slot, the one that is to be looked at first */
    TR_SQL_PLANS_TIMES, /* of each slot that has one, when that is: only slot and next_us */
};

struct tr_sql_ask {
    enum tr_sql_kind kind;
    unsigned conn; /* which connection, below the number that there are */
    void *ctx;     /* the asker's */

    struct tr_sql_item *items; /* count of them */
    unsigned count;
    bool with_bodies; /* LOOK, CHANGE, PAGE: bodies are read, too */
    bool skips;       /* CHANGE: a row that is locked may be left out, and is `locked` then */
    /* Items from `from` to before `to`: their rows are read, now_us is set. */
    void (*decide)(struct tr_sql_ask *ask, unsigned from, unsigned to);

    unsigned slot;
    uint32_t topic;
    uint8_t state;
    uint64_t from_us;
    uint64_t from_id;
    uint64_t until_us;
    uint64_t number;
    uint64_t node;
    uint32_t epoch;
    struct tr_span name;
    struct tr_span text; /* a policy */
    uint32_t version;
    bool makes;
    uint8_t keep;
    uint32_t spread;
    uint8_t order;
    bool purged;

    /* What is answered. */
    enum tr_sql_end end; /* of CHANGE: see the items */
    uint64_t now_us;     /* what time it was by the database, of the last transaction */
    enum tr_sql_blame blame;
    const char *why; /* sentences for people; good until `ended` has returned */
    struct tr_sql_job *rows;
    struct tr_sql_topic *topics;
    uint64_t first;
    struct tr_sql_counts counts;
    struct tr_sql_heads heads;
    struct tr_sql_past *flow;
    uint64_t *steps; /* how many wait in each */
    bool approximate;
    struct tr_span uuid, prefix;
    bool light; /* asked */
    /* Which server, and since when it runs. Asked: as far as the asker knows; 0: any. Answered: the
     * one that it is. Another one than was asked: nothing was done (UNDONE, AGAIN). After a
     * failover, or a crash, the last commits may be gone; and numbers of topics may be others'. The
     * port has seen to it that no number for ids is given twice, and raised epochs and versions. */
    uint64_t life;
    struct tr_sql_planned *plan;
    struct tr_sql_plan *plans;
    uint8_t delivers; /* enum tr_sql_delivers */
    uint64_t skip;    /* PAGE, not 0: from the other end, all but the last so many */

    /* The port's. */
    struct tr_sql_ask *next;
    void *own;
};

struct tr_sql_port {
    void *ctx;
    void (*send)(void *ctx, struct tr_sql_ask *ask);
};

struct tr_sql_ear {
    void *ctx;
    void (*ended)(void *ctx, struct tr_sql_ask *ask);
};

#endif
