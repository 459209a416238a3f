#ifndef TR_SIM_MODEL_H
#define TR_SIM_MODEL_H

/*
 * The model: a plain table of jobs and topics, changed by answers alone. What the engine decides
 * in silence (a job became ready, a lease ran out) the model knows only within bounds; each such
 * doubt is a named field or function here. See model.c.
 */

#include "base/rng.h"
#include "engine/engine.h"
#include "rules/bucket.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_TOPICS_MAX = 6,
    SIM_JOBS_MAX = 4096, /* that ever lived in one run */
    SIM_BODIES_MAX = 32, /* bodies remembered per job */
    SIM_LEASES_MAX = 4096,
    SIM_HASH = 1024,
    SIM_KEYS_MAX = 24,
    SIM_BACKOFFS_MAX = 1024,
    SIM_KEY_BYTES = 255,
};

enum sim_where { SIM_GONE, SIM_PENDING, SIM_RESERVED, SIM_DEAD };

struct sim_body {
    uint64_t rid; /* of the first version with this body */
    uint64_t seed;
    uint64_t hash;
    uint32_t len;
};

/* What few jobs have, as numbers that can be compared; 0: none. */
struct sim_extra {
    uint64_t tag; /* hash */
    uint64_t ttl_us;
    uint64_t retries; /* + 2 */
    uint64_t backoff; /* hash of its bytes */
    uint64_t beanstalk;
};

struct sim_job {
    uint64_t id;
    uint64_t rid; /* as last seen among the facts; 0: not yet */
    enum sim_where where;
    unsigned topic; /* index */
    uint32_t key;   /* its number; 0: none */
    uint32_t priority;
    uint64_t due_us;
    uint64_t created_us;
    uint64_t delay_us;
    uint64_t ttr_us; /* 0: the topic's */
    struct sim_extra extra;
    struct sim_body body;
    struct sim_body bodies[SIM_BODIES_MAX]; /* earlier ones, by rid, for the way back */
    unsigned body_count;

    uint32_t reserves, timeouts, releases, buries, kicks;
    uint64_t dead_order; /* rises with each burial */
    uint64_t dead_at_us; /* wall */
    uint8_t dead_why;
    bool paid;           /* its hand-out took a token */
    uint64_t loose_call; /* its lease ran out in this call: when it is due the engine says */

    uint64_t holder; /* reserved: the connection, or 0 */
    uint64_t lease;
    uint64_t lease_ttr_us;
    uint64_t last_lease; /* the last one given, over or not, and its time to run */
    uint64_t last_ttr_us;
    uint64_t lease_lo_us; /* span: the lease may end from here on */
    uint64_t lease_hi_us; /* span: and has ended by here */

    uint64_t ready_call; /* surely ready since this engine call; 0: perhaps not */
    uint64_t gate;       /* batch of its last gated change */
    uint64_t push_gate;  /* its maker is told when this is durable */
    uint64_t kick_call;  /* when it was last kicked */
    uint64_t bulk_call;  /* which BULK changed it last */
    uint64_t seen_call;  /* when it was last among the facts */
    uint64_t same_call;  /* since when it is where it is, under this rid, with this due time */
    uint64_t same_due_us;
    uint64_t late_us;     /* as last told, */
    uint64_t late_due_us; /* of this due time, */
    unsigned late_start;  /* since this start; 0: never */
    enum sim_where same_where;
    bool was_dead;       /* when it was last kicked */
    bool own_word;       /* a client's own word made it come early */
    bool told;           /* its maker knows its id */
    bool gone_seen;      /* it went by a DELETE or BULK of this engine, */
    uint32_t gone_by;    /* and of this actor, */
    uint64_t gone_noted; /* when the engine had noted so many events; 1: before the last start */
    uint64_t gone_us;    /* wall */
    uint32_t made_by;    /* who pushed it; 0: not known */
    bool damaged;        /* its body was reported as damaged */
    bool repaired;       /* it is there after a repair */
    bool hidden;         /* the index of its group was: it may not be found */
    bool doubt;          /* its connection is being closed */
    bool late_close;     /* its lease may have run out while that went on, in this call */
    int32_t next;        /* in the hash */
};

/* A policy, without the text that it names. */
struct sim_policy {
    struct tr_policy p;
    uint64_t text_len;
    uint64_t text_hash;
};

struct sim_topic {
    char name[24];
    struct sim_policy policy;
    uint64_t stop_call;      /* when that changed last; */
    bool stop_over;          /* its pause of hand-outs has ended */
    uint64_t policy_call;    /* when it last changed */
    struct tr_bucket bucket; /* of its rate */
    uint64_t dead_most;      /* so many may have been dead at a time in this call */
    uint64_t silent_call;    /* when a job of it last died unheard of */
    uint32_t number;         /* 0: not known */
    uint64_t holds[TR_HOLD_COUNT];
    uint64_t pause_until_us; /* span; 0: surely not paused */
    bool pause_unsure;       /* perhaps the topic was gone meanwhile, and the pause with it */
    uint64_t pause_call;     /* when the last change of pause was asked */
    uint64_t resume_call;    /* surely not paused since */
    uint64_t gate;           /* batch of the last gated change of any of its jobs, */
    uint64_t changed_call;   /* and when that was, if it was not by a BULK */
    unsigned kicking;        /* KICKs under way; they may take several calls */
    uint64_t kick_call;      /* when the last one was answered */
    bool undoing;            /* a hand-out that was abandoned may not be undone yet */
};

/* A backoff that some push gave, by the hash of its bytes. */
struct sim_backoff {
    uint64_t hash;
    struct tr_backoff backoff;
};

struct sim_model {
    struct sim_job jobs[SIM_JOBS_MAX];
    size_t job_count;
    int32_t hash[SIM_HASH];
    struct sim_topic topics[SIM_TOPICS_MAX];
    unsigned topic_count;
    uint64_t leases[SIM_LEASES_MAX]; /* all that were ever given: a hash set */
    size_t lease_count;
    struct sim_backoff backoffs[SIM_BACKOFFS_MAX]; /* a ring */
    size_t backoff_count;
    uint64_t live;
    uint64_t dead_order;
    uint64_t gate; /* batch of the last gated change of all */

    struct tr_now now;
    uint64_t span_us;      /* the clock of leases and pauses: boot time, or the test clock */
    uint64_t call;         /* number of the engine call under way */
    uint64_t wall_high_us; /* highest wall clock ever seen */
};

void sim_model_reset(struct sim_model *m, unsigned topics);

struct sim_job *sim_model_find(struct sim_model *m, uint64_t id);

/* The live job of a topic with this key, or NULL. */
struct sim_job *sim_model_find_key(struct sim_model *m, unsigned topic, uint32_t key);

/* Keys are numbers from 1 to SIM_KEYS_MAX, written out: some are short, some as long as can be. The
 * other way round 0 is no key, UINT32_MAX an unknown one. */
size_t sim_key_text(uint32_t key, char out[SIM_KEY_BYTES]);
uint32_t sim_key_number(const void *text, size_t len);

/* A new job, pending; NULL when the table is full. id must not be there. */
struct sim_job *sim_model_add(struct sim_model *m, uint64_t id);

/* Forgets a job that was never told of, so that its id may come again. */
void sim_model_forget(struct sim_model *m, struct sim_job *j);

/* -1: unknown. */
int sim_model_topic_by_name(const struct sim_model *m, const char *name, size_t len);

/* Notes a lease number. False when it was given before. */
bool sim_model_new_lease(struct sim_model *m, uint64_t lease);

void sim_model_set_where(struct sim_model *m, struct sim_job *j, enum sim_where where);

/* Fills buf with the bytes that seed stands for. */
void sim_body_fill(uint64_t seed, uint8_t *buf, uint32_t len);
uint64_t sim_body_hash(const uint8_t *buf, uint32_t len);

/* Remembers j's body under its rid, for the way back. */
void sim_job_keep_body(struct sim_job *j);

/* The body that version rid had. */
struct sim_body sim_job_body_at(const struct sim_job *j, uint64_t rid);

/* extra.c: as records, facts and requests say it. */
struct tr_record;
struct sim_extra sim_extra_of_record(const struct tr_record *rec);
struct sim_extra sim_extra_of_fact(const struct tr_job_fact *f);
struct sim_extra sim_extra_of_view(const struct tr_job_view *v);
struct sim_extra sim_extra_of_push(const struct tr_req *r);
bool sim_extra_same(const struct sim_extra *a, const struct sim_extra *b);

/* How long a hand-out of it is for. */
uint64_t sim_job_ttr(const struct sim_job *j);

/* policy.c: of p, of a topic that has none, and are two the same? */
struct sim_policy sim_policy_of(const struct tr_policy *p);
struct sim_policy sim_policy_none(void);
/* Its policy holds hand-outs, or pushes, back: surely, or perhaps. */
bool sim_topic_is_stopped(const struct sim_model *m, unsigned topic);
bool sim_topic_takes_none(const struct sim_model *m, unsigned topic);
uint64_t sim_topic_bytes(const struct sim_model *m, unsigned topic);
uint64_t sim_topic_jobs(const struct sim_model *m, unsigned topic);
bool sim_policy_same(const struct sim_policy *a, const struct sim_policy *b);

/* Could it be reserved now? Must it be? */
bool sim_job_may_be_reserved(const struct sim_job *j);
bool sim_job_is_reserved(const struct sim_model *m, const struct sim_job *j);

/* Could it be neither dead nor reserved now? */
bool sim_job_may_be_pending(const struct sim_model *m, const struct sim_job *j);

bool sim_job_is_ready(const struct sim_job *j);
bool sim_job_may_be_ready(const struct sim_model *m, const struct sim_job *j);
bool sim_job_is_delayed(const struct sim_model *m, const struct sim_job *j);

/* A client's own word made it due at due_us, dead or not. */
void sim_job_woken(struct sim_model *m, struct sim_job *j, uint64_t due_us);

/* The lease ran out, or, not counted, its connection is closed: it may have run out before that. */
void sim_job_expire(struct sim_model *m, struct sim_job *j, bool counted);

/* fate.c: what becomes of a job that failed. Was that its last attempt? */
bool sim_fate_was_last(const struct sim_job *j);
/* How long the backoff may make it wait. */
void sim_fate_backoff(const struct sim_model *m, const struct sim_job *j, uint64_t *least,
                      uint64_t *most);
void sim_fate_learn(struct sim_model *m, const struct tr_req *r); /* the backoff of a push */
/* Could it have died in this call, unheard of? */
bool sim_fate_may_be_dead(const struct sim_model *m, const struct sim_job *j);
/* expiry.c: could it have expired, or been dropped, unheard of? How many of the topic (-1: all)? */
bool sim_expiry_may(const struct sim_model *m, const struct sim_job *j);
bool sim_drop_may(const struct sim_model *m, const struct sim_job *j);
void sim_drop_begin(struct sim_model *m); /* of a call */
uint64_t sim_drop_count(const struct sim_model *m, int topic);
void sim_fate_die(struct sim_model *m, struct sim_job *j, enum tr_why why);
void sim_fate_kicked(struct sim_job *j, bool beanstalk); /* before it is woken */
/* What an answer says of one whose lease ran out in this call. */
void sim_fate_adopt(struct sim_model *m, struct sim_job *j, const struct tr_job_view *v);

/* True when a comes before b. */
bool sim_job_before(const struct sim_job *a, const struct sim_job *b, enum tr_order order);
bool sim_job_due_before(const struct sim_job *a, const struct sim_job *b);

/* A pause ends with the first turn after its time. */
bool sim_topic_is_paused(const struct sim_model *m, unsigned topic);
bool sim_topic_may_be_paused(const struct sim_model *m, unsigned topic);

#endif
