#ifndef TR_SIM_ORACLE_H
#define TR_SIM_ORACLE_H

/*
 * Says whether what the engine did was right. See oracle.c (calls, refusals), answer.c
 * (successes) and check.c (memory, quiet moments, recovery).
 *
 * Use, around every call of the engine: sim_oracle_begin, the call, sim_oracle_end. Requests are
 * made from struct sim_ask, whose `done` is sim_oracle_done.
 */

#include "engine/engine.h"
#include "model.h"
#include "prefix.h"
#include "report.h"
#include "sim_disk.h"
#include "swarm.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_ASKS_MAX = 16, SIM_LAST_MAX = 32 };

struct sim_oracle;

/* A request and what the oracle must remember of it. */
struct sim_ask {
    struct tr_req req;
    struct sim_oracle *oracle;
    bool pending;  /* submitted, not yet answered */
    bool answered; /* in the queue of this call */
    bool nested;   /* asked from inside `done`: others of this call may come after it */
    bool wrong;    /* must be refused with TARRY_EINVAL or TARRY_EFULL */
    unsigned client;
    unsigned topic; /* index */
    unsigned topics[SIM_TOPICS_MAX];
    uint32_t numbers[SIM_TOPICS_MAX]; /* req.topics */
    bool keeps[SIM_TOPICS_MAX];       /* it was there when a reserve began, so it stays */
    size_t after;                     /* so many answers of this call came before it was asked */
    uint64_t body_seed;
    uint32_t key; /* number; 0: none */
    char key_text[SIM_KEY_BYTES + 1];
    char tag_text[64];
    struct tr_backoff backoff; /* req.backoff */
    uint64_t submit_call;
    struct tr_now submit_now;
    uint64_t submit_span_us;
    uint64_t wall_max_us; /* highest wall clock since it was submitted */

    /* From done. */
    bool has_body;
    uint32_t job_key;           /* of out.job */
    struct sim_extra job_extra; /* the same */
    uint64_t body_hash;
    uint64_t closed;
    int name_topic;              /* index of out.name, -1: unknown */
    uint64_t changed;            /* BULK: jobs so far */
    struct tr_event event_first; /* HISTORY */
    struct tr_event event_last;
    struct tr_policy policy;       /* POLICY: req.policy, */
    struct sim_policy to;          /* the same; */
    struct sim_policy policy_told; /* and out.stat.policy */
};

/* A BULK has changed a job. */
struct sim_each {
    struct sim_ask *ask;
    struct tr_job_view job;
    size_t after;  /* so many answers of this call came before it */
    uint64_t gate; /* batch that was open */
};

enum { SIM_EACH_MAX = 4096 };

struct sim_oracle {
    struct sim_model model;
    struct sim_prefix prefix;
    struct sim_report *report;
    struct tr_job_view listed[SIM_ASKS_MAX][TR_LIST_MAX]; /* what LIST answered, by client */
    struct sim_extra listed_extra[SIM_ASKS_MAX][TR_LIST_MAX];

    struct sim_each each[SIM_EACH_MAX];

    const struct sim_params *params; /* from here on all is zero at the start of a run */
    struct tr_engine *engine;
    struct sim_disk *disk;
    uint64_t history_kept; /* so many events of the last engine are in its file */

    struct sim_ask asks[SIM_ASKS_MAX]; /* one per client */
    struct sim_ask *queue[SIM_ASKS_MAX];
    size_t queued;
    size_t judged; /* so many of them */
    size_t each_count;
    size_t each_judged;

    uint64_t closed;      /* newest closed batch */
    uint64_t durable;     /* newest batch told to be durable */
    uint64_t call_closed; /* closed when the call began */
    bool reading;         /* a READ was in flight when the call began, or is now */
    bool read_done;       /* one has come in this call: a hand-out may have waited for it */
    bool was_failed;      /* the engine had failed before the call */
    bool settled;         /* the engine asked for no other turn before time goes on */
    bool quiet;           /* and nothing is in flight */
    uint64_t next_turn;   /* as the engine last said */
    uint64_t visited_us; /* boot time: when first jobs of a topic were last brought for who asked */
    uint64_t id_told;    /* highest id that a client knows */
    unsigned since_sync;

    /* The wall clock was stepped; the engine may take its time to believe it. */
    bool clock_doubt;
    unsigned starts;   /* of the engine, */
    unsigned crash;    /* and how many there were at the last one that did not just go on */
    bool clock_turned; /* the engine has seen it */
    uint64_t clock_boot_us;

    uint64_t test_us;   /* where the test clock stands, */
    uint64_t target_us; /* where anybody asked it to go at most, */
    uint64_t by_us;     /* and, from wherever it was then, by so much in all */

    bool damage;      /* a DAMAGE notice was given */
    bool said;        /* a notice was given since the last open */
    bool rotten;      /* something on the disk was damaged */
    bool must_open;   /* ... where there is a second copy */
    bool all_there;   /* ... so that nothing may be lost by it */
    bool must_refuse; /* ... without which the store must not be believed */
    bool sealed;      /* a SEAL, or a clean end, stands behind the last batch */
    uint64_t durable_boot_us;
    uint64_t opened_boot_us;
    uint64_t checkpoints;      /* of this engine, as last seen */
    uint64_t checkpoint_batch; /* newest batch then */
    uint64_t checkpoint_boot_us;
    struct sim_ask last[SIM_LAST_MAX]; /* the last answers, a ring */
    uint64_t last_call[SIM_LAST_MAX];
    uint64_t last_count;
    bool forced;  /* a sweep makes requests of the disk fail, */
    bool starved; /* or allocations */

    void (*nested)(void *ctx); /* called at the end of each `done`; NULL: nothing is to be done */
    void *nested_ctx;

    uint64_t requests, handouts, refused, told, batches;
    uint64_t digest;
    bool trace;
};

void sim_oracle_init(struct sim_oracle *o, struct sim_report *report);
void sim_oracle_fini(struct sim_oracle *o);
void sim_oracle_reset(struct sim_oracle *o, const struct sim_params *params, struct sim_disk *disk);

void sim_oracle_begin(struct sim_oracle *o, struct tr_now now);
void sim_oracle_clock_back(struct sim_oracle *o); /* the wall clock was set back */
void sim_oracle_end(struct sim_oracle *o);

/* After sim_oracle_end of a tr_engine_turn that gave next. */
void sim_oracle_turned(struct sim_oracle *o, uint64_t next);

/* Before tr_engine_submit: fills what the oracle needs. */
void sim_oracle_ask(struct sim_oracle *o, struct sim_ask *a);
void sim_oracle_abandoned(struct sim_oracle *o, struct sim_ask *a);

/* Callbacks of request and config. */
void sim_oracle_done(struct tr_req *r);
void sim_oracle_each(struct tr_req *r);
void sim_oracle_closed(struct sim_oracle *o, uint64_t batch);
void sim_oracle_durable(struct sim_oracle *o, uint64_t batch);
void sim_oracle_notice(struct sim_oracle *o, enum tr_notice kind, const char *text);

/* A new engine is open. */
void sim_oracle_opened(struct sim_oracle *o, struct tr_engine *e, struct tr_now now);

/* The engine is no more: requests and answers in the air are lost. */
void sim_oracle_crashed(struct sim_oracle *o);

/* Compares the engine's memory with the model. */
void sim_oracle_sync(struct sim_oracle *o);

/* The last answers, oldest first. */
void sim_oracle_print_last(const struct sim_oracle *o, FILE *out);

const char *sim_op_name(enum tr_op op);

/* A gated change of a job of the topic went into batch `gate`. */
void sim_oracle_changed(struct sim_oracle *o, unsigned topic, uint64_t gate);

/* May a job of the topic be reserved by a hand-out that nobody has heard of? */
bool sim_oracle_limbo(const struct sim_oracle *o, unsigned topic);

/* Between the files of the oracle. answer.c: judges an answer and does to the model what it says.
 */
/* Does it bring far jobs into memory, for a while? */
bool sim_ask_visits(const struct sim_ask *a);
void sim_answer(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_refused(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_seen(struct sim_oracle *o, const struct sim_ask *a, uint64_t need);
/* The batch of a change of j is its gate. */
void sim_answer_change(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j);
/* It is due at `got`: is that what was asked for? */
void sim_answer_due(struct sim_oracle *o, const struct sim_ask *a, uint64_t got);
/* Neither dead nor reserved; ready at once, unless the clock is in doubt. */
void sim_answer_pending(struct sim_oracle *o, struct sim_job *j);
/* answer_key.c: the job that a names by id or key, dead or alive; or NULL. */
struct sim_job *sim_answer_meant(struct sim_oracle *o, const struct sim_ask *a);
void sim_answer_push(struct sim_oracle *o, struct sim_ask *a);
/* Is there a reason to refuse a push for its key? */
bool sim_answer_push_refused(struct sim_oracle *o, struct sim_ask *a);
/* Forgets the number and pause of a topic that nobody needs any more. */
void sim_answer_topic_gone(struct sim_oracle *o, unsigned topic);
bool sim_answer_topic_is_used(const struct sim_oracle *o, unsigned topic);
void sim_answer_state(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j,
                      enum tr_job_state state);
/* Are the fields of out.job right? Adopts a kick. */
void sim_answer_fields(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j);
/* Somebody is getting it by its id, and waits for its body: it is due now. */
bool sim_answer_is_being_reserved(const struct sim_oracle *o, const struct sim_job *j);
/* It was where it is all the time since a was asked. */
bool sim_answer_is_steady(const struct sim_oracle *o, const struct sim_ask *a,
                          const struct sim_job *j, bool dead);
/* Somebody may be getting it. */
bool sim_answer_in_the_making(const struct sim_oracle *o, const struct sim_ask *a,
                              const struct sim_job *j);
/* stat.c */
void sim_answer_stat_topic(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_stat(struct sim_oracle *o, struct sim_ask *a);
/* The job that the request names, alive; or it complains if the answer says otherwise. */
struct sim_job *sim_answer_named(struct sim_oracle *o, struct sim_ask *a);
/* May the request act on the job, given who holds it? Complains if not. */
bool sim_answer_holder(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j);
/* retry.c: jobs that come back unfinished; and what a lease that ran out came to. */
void sim_answer_release(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_return(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_bury(struct sim_oracle *o, struct sim_ask *a);
void sim_check_back(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row);
/* limit.c: may hand-outs of the topic be held back; one; one that was taken back. */
void sim_limit_changed(struct sim_oracle *o, unsigned topic);
bool sim_limit_may_hold(struct sim_oracle *o, unsigned topic);
void sim_limit_handed(struct sim_oracle *o, struct sim_job *j);
void sim_limit_returned(struct sim_oracle *o, struct sim_job *j);
/* expiry.c: it is handed out; what the facts say of it; it is not among them. */
void sim_expiry_handed(struct sim_oracle *o, const struct sim_job *j);
void sim_expiry_row(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row);
bool sim_drop_gone(struct sim_oracle *o, struct sim_job *j);
/* Quiet: what should be over is. late: it may have to wait. */
void sim_expiry_quiet(struct sim_oracle *o, const struct sim_job *j, bool here, bool late);
void sim_drop_quiet(struct sim_oracle *o, bool late);
/* list.c: is a LIST or BULK about the job, as far as topic and tag say? Are KICKs under way there,
 * or was one answered since `call`? */
bool sim_list_about(const struct sim_ask *a, const struct sim_job *j);
bool sim_list_kicked(const struct sim_oracle *o, const struct sim_ask *a, uint64_t call);
/* list.c: a page of a list. */
void sim_answer_list(struct sim_oracle *o, struct sim_ask *a);
/* bulk.c: one job of many, and the end. */
void sim_answer_each(struct sim_oracle *o, const struct sim_each *each);
void sim_answer_bulk(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_purge(struct sim_oracle *o, struct sim_ask *a);
/* extra.c: tag, ttl, retries and backoff of a push; tag and ttl of an edit. */
struct tr_req sim_push_fixed(const struct sim_model *m,
                             const struct sim_ask *a); /* with what its topic gives */
void sim_extra_draw(struct sim_ask *a, struct tr_rng *rng);
void sim_tag_draw(struct sim_ask *a, struct tr_rng *rng); /* one of a few */
/* Is the job one of those that a reserve asks for, by its tag? */
bool sim_tag_fits(const struct sim_ask *a, const struct sim_job *j);
/* policy.c: a request; its answer; what STAT_TOPIC says; the policies in memory. */
void sim_policy_draw(struct sim_ask *a, struct tr_rng *rng, uint64_t wall_us, uint8_t text[]);
void sim_answer_policy(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_policy_told(struct sim_oracle *o, const struct sim_ask *a);
void sim_check_policies(struct sim_oracle *o);
/* answer_key.c: has the topic as much as its policy allows? */
bool sim_answer_over_quota(struct sim_oracle *o, const struct sim_ask *a);
/* Was there room for its body, in the place of that of `old`? */
void sim_answer_fits(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *old);
/* past.c: inside `done`; then; is it rightly not found? */
void sim_check_history(struct sim_oracle *o, struct sim_ask *a);
void sim_answer_history(struct sim_oracle *o, struct sim_ask *a);
bool sim_history_refused(struct sim_oracle *o, struct sim_ask *a);
void sim_history_gone(struct sim_oracle *o, struct sim_job *j, uint32_t by);
/* tclock.c: the test clock, if there is one. What time it is; */
struct tr_now sim_tclock_now(struct sim_oracle *o, struct tr_now now);
struct tr_now sim_tclock_opened(struct sim_oracle *o, struct tr_now now); /* after a start; */
void sim_tclock_asked(struct sim_oracle *o, const struct sim_ask *a);
void sim_tclock_moves(struct sim_oracle *o, uint64_t t_us, struct tr_now now);
void sim_answer_advance(struct sim_oracle *o, struct sim_ask *a);
bool sim_tclock_refused(const struct sim_oracle *o, const struct sim_ask *a); /* rightly */
/* check.c: takes from the facts which jobs a KICK has kicked. */
void sim_check_kick(struct sim_oracle *o, struct sim_ask *a);
/* forecast.c: inside `done`. */
void sim_check_forecast(struct sim_oracle *o, const struct sim_ask *a);
/* check.c: a lease of the one who asks ends within his margin, perhaps; or surely, and did so_us
 * ago. */
bool sim_check_may_warn(const struct sim_oracle *o, const struct sim_ask *a);
bool sim_check_must_warn(const struct sim_oracle *o, const struct sim_ask *a, uint64_t so_us);
/* check.c: nothing is left to do before time goes on; and nothing is in flight. */
void sim_check_settled(struct sim_oracle *o);

/* After each call: due jobs that were parked are not ready, to those who reserve. */
void sim_check_away(struct sim_oracle *o);

/* Due jobs of its topic may be far, and this one is. */
bool sim_check_parked(struct sim_oracle *o, const struct sim_job *j);
/* check.c: after a turn: which leases have run out? */
void sim_check_leases(struct sim_oracle *o);
void sim_check_quiet(struct sim_oracle *o);

#endif
