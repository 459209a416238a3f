#ifndef TR_SIM_CLUSTER_JUDGE_H
#define TR_SIM_CLUSTER_JUDGE_H

/*
 * What may happen to jobs and what may not, whatever servers and network do. See judge.c.
 */

#include "cluster/answer.h"
#include "cluster/route.h"
#include "port/request.h"
#include "rules/schedule.h"
#include "world.h"

#include <stdbool.h>
#include <stdint.h>

enum { JOBS_MAX = 4000, TOPICS = 8, PLANS = 4, LEASES = 256, TAKERS = 64, STAMPS = 128 };

/* A job, by its serial number, which is its body. */
struct sim_job {
    char push; /* 0: under way, A: answered, U: unknown, R: refused, nothing was done */
    unsigned topic;
    unsigned slot;
    uint64_t id;         /* 0: not known */
    bool loose;          /* a failover may have undone something of it */
    bool ended;          /* somebody was told that it is gone, */
    uint64_t ended_us;   /* at this time */
    uint64_t pushed_us;  /* its push was answered */
    bool ending;         /* somebody tried, and does not know */
    bool replaced;       /* by a push with its key */
    bool undone;         /* by a failover: what it replaced is back */
    bool gone;           /* a script ended it, */
    uint64_t gone_lease; /* by this lease; 0: it was cancelled */
    unsigned handed;
    bool stray;        /* the last time by a call that had been overtaken */
    uint32_t attempts; /* the last hand-out's */
    bool held;         /* by a lease that has not been ended by its holder */
    uint64_t lease;
    uint64_t lease_until_us; /* by the server's clock */
    uint64_t touched_us;     /* when a script last changed it */
    bool expires;            /* it has a ttl: it may never come out */
    uint64_t claimed;        /* the last lease that somebody was told of */
    uint64_t many;           /* the last bulk that changed it */
    uint64_t made_us;        /* when a script made it; 0: not yet */
    bool over;               /* with a database: it has the row of one with its key */
};

/* The bulk of a node, see many.c. */
struct sim_many {
    uint64_t number; /* 0: none yet */
    bool on;
    bool goes_on;      /* it ended at its limit */
    bool loose;        /* a failover came */
    bool unsure;       /* nobody knows what became of one before */
    bool stepped;      /* with a database: its clock was set, by which it knows what came later */
    uint64_t begun_us; /* it asked then which jobs there are */
    char node[TR_PLACE_NODE_DIGITS];
    struct tr_req asked;
    uint64_t done;
    uint64_t op[SLOTS];   /* of its last call there */
    uint64_t last[SLOTS]; /* it is about ids up to this one */
};

/* A schedule in a slot. */
struct sim_plan {
    uint64_t created_us;     /* that of its definition: 0: there is none */
    uint64_t last_n;         /* the number of its last occurrence */
    char stamps[STAMPS][30]; /* of its last changes: what comes with one of these is a repeat */
    unsigned changes;
    bool loose; /* a failover may have undone something of it */
    uint64_t touched_us;
};

/* What a topic may do in each of its slots: limits.c */
struct sim_limit {
    unsigned spread;     /* 0: one */
    unsigned in_flight;  /* 0: no limit */
    uint64_t rate_milli; /* 0: no limit */
    unsigned burst;
    struct sim_bucket {
        double level;
        uint64_t at_us; /* by the server's clock */
    } buckets[SLOTS];
};

struct judge {
    struct world *world;
    struct sim_job jobs[JOBS_MAX];
    unsigned count;
    unsigned slot_of[TOPICS]; /* the first one */
    struct sim_limit limits[TOPICS];
    bool limited; /* they hold */
    bool waits;   /* nodes wait for replicas before they answer */
    struct sim_many many[NODES];
    uint64_t manys;
    uint64_t paused_us[TOPICS]; /* by the server's clock: until then nothing is handed out */
    uint64_t latest_us[SLOTS];  /* the latest time by which a script of this slot ran */
    struct sim_taker {
        char node[TR_PLACE_NODE_DIGITS];
        uint64_t op[SLOTS]; /* the highest number of a take there */
    } takers[TAKERS];
    unsigned taker_count;
    struct sim_plan plans[PLANS][SLOTS];
    uint64_t ticks;          /* occurrences made */
    uint64_t leases[LEASES]; /* of jobs that were reserved by their id, the last ones */
    unsigned lease_count;
    unsigned marks, removes; /* of topics that are forgotten, as they run */
    size_t take_bytes;       /* of bodies, at most, that one answer brings */
    char wrong[256];         /* empty: all is well */
};

/* A new job is pushed: its serial number. */
unsigned judge_new(struct judge *j, unsigned topic, unsigned slot);

/* A job of a schedule was made, which is one as any other from now on. */
void judge_occurred(struct judge *j, unsigned topic, unsigned slot, uint64_t id);

/* A schedule was set or has moved on: C10. */
struct sim_plan_step {
    struct tr_schedule_state at; /* from now on */
    bool set;
    bool fires; /* with a job */
};
void judge_moved_on(struct judge *j, struct sim_plan *p, const struct sim_plan_step *step);

/* A script ran: what it answered, whoever hears of it. */
void judge_ran(struct judge *j, const struct world_call *call, const struct fake_reply *reply);

/* With a database: a job was committed, in the place of another or not; one was handed out (false:
 * it was answered before). */
void judge_made(struct judge *j, unsigned serial, uint64_t id, bool replaces);
bool judge_handed(struct judge *j, uint64_t now_us, const struct tr_taken_job *got);

/* Somebody was told. */
void judge_pushed(struct judge *j, unsigned serial, uint64_t id);
/* Another job has its key, and stays: this one is none. */
void judge_kept(struct judge *j, unsigned serial);
/* He has it now. */
void judge_claimed(struct judge *j, unsigned serial, uint64_t lease);
/* All is calm for some seconds: of all that a living node has taken somebody was told. nodes: the
 * first halves of their names. */
void judge_calm(struct judge *j, const uint32_t *nodes, unsigned count);
/* The topic is paused until then, on all nodes. */
void judge_paused(struct judge *j, unsigned topic, uint64_t until_us);
/* The lease that somebody had, and of which hand-out it is. */
struct sim_claim {
    uint64_t lease;
    uint32_t attempt;
};
/* kind: A (an ack by a lease), a (by a connection), C (cancel), R (the rest); status: as the
 * request was answered. */
void judge_edited(struct judge *j, unsigned serial, char kind, const struct sim_claim *claim,
                  int status);
void judge_failed(struct judge *j, unsigned serial, char kind, bool unknown);

/* Before a failover: what it may undo. */
void judge_undone(struct judge *j, unsigned server);

/* All is over, and what was to be had was taken. */
void judge_end(struct judge *j);

void judge_wrong(struct judge *j, const char *what, unsigned serial);

unsigned judge_serial(struct tr_span body);
/* The serial number of a job that was handed out: an occurrence has none in its body. */
unsigned judge_of(struct judge *j, uint64_t id, struct tr_span body);

struct sim_job *judge_find(struct judge *j, uint64_t id); /* or NULL */

#endif
