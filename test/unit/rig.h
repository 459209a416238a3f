#ifndef TR_TEST_UNIT_RIG_H
#define TR_TEST_UNIT_RIG_H

/*
 * An engine on a disk without faults, in time that the test moves. See rig.c.
 *
 * Use: rig_init, change rig.config, rig_open, then ask and let time pass; rig_fini checks that all
 * memory came back. Time stands still unless rig_pass is called; the disk is done at once.
 */

#include "engine/engine.h"
#include "rules/policy.h"
#include "sim/sim_disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIG_WALL_US UINT64_C(1700000000000000) /* where time begins */
#define RIG_SECOND UINT64_C(1000000)
#define RIG_NO_FAR_US (UINT64_MAX / 4) /* config.near_us: all jobs stay in memory */
#define RIG_TTR_US (10 * RIG_SECOND)

enum { RIG_BODY_MAX = 20000, RIG_COUNTS_MAX = 200, RIG_NOTE_MAX = 512, RIG_TEXT_MAX = 1 << 18 };

/* A build with slow checks looks at the whole engine after each turn: long tests do less there. */
#ifdef TR_SLOW
#define RIG_SLOW true
#else
#define RIG_SLOW false
#endif

struct rig {
    struct tr_mem mem;
    struct sim_disk *disk; /* NULL: the test brought another one in port and step */
    struct tr_disk port;
    bool (*step)(void *ctx); /* lets the disk do something; false: it has nothing to do */
    void *step_ctx;
    struct tr_engine *e;
    struct tr_engine_config config;
    struct tr_now now;
    uint64_t seed;
    unsigned asked; /* answers so far */

    uint64_t durable; /* as the engine told */
    unsigned durable_calls;
    uint64_t closed;
    unsigned closed_calls;
    unsigned idles;                          /* for tests that count them */
    struct tr_policy policy;                 /* the last one that was told, */
    char policy_text[TR_POLICY_DELIVER_MAX]; /* and its text */
    unsigned notes[4];                       /* by enum tr_notice */
    char note[RIG_NOTE_MAX];                 /* the last one that was not INFO */
};

/* A request and its answer. It stays where it is from rig_submit until it is done. */
struct ask {
    struct tr_req req;
    struct rig *rig;
    unsigned done;    /* 0, or the how-manieth answer of the rig this was */
    uint64_t durable; /* of the rig, at that moment */
    char name[256];   /* copy of out.name */
    uint8_t body[RIG_BODY_MAX];
    bool has_body;
    char tag[65];                    /* copy of out.job.tag */
    struct tr_backoff backoff;       /* and of its backoff, */
    bool has_backoff;                /* if there is one */
    uint64_t counts[RIG_COUNTS_MAX]; /* copy of out.forecast.counts */
};

void rig_init(struct rig *rig);
void rig_fini(struct rig *rig);

/* Opens the store that is on the disk, or makes one. rig_open asserts that it works. */
int rig_try_open(struct rig *rig);
void rig_open(struct rig *rig);

void rig_close(struct rig *rig);     /* in order */
void rig_power_cut(struct rig *rig); /* whatever was not synced is lost */
void rig_kill(struct rig *rig);      /* kill -9 with nothing queued */

/* One turn, no disk: when the engine wants the next one. */
uint64_t rig_turn(struct rig *rig);

/* Turns and disk until there is nothing more to do now: when the engine wants the next turn. */
uint64_t rig_settle(struct rig *rig);

/* Both clocks go on by so much, with a turn whenever the engine asked for one. */
void rig_pass(struct rig *rig, uint64_t us);

struct ask rig_ask(enum tr_op op);
void rig_submit(struct rig *rig, struct ask *a);
int rig_do(struct rig *rig, struct ask *a); /* submit, settle: it must be done; its status */

/* Everyday requests; each asserts success unless it gives a status. Priority 100, body "<id>". */
uint32_t rig_hold(struct rig *rig, const char *name);
uint64_t rig_push(struct rig *rig, uint32_t topic, uint64_t delay_us);

/* Those fields of the topic's policy are as in p from now on. */
void rig_policy(struct rig *rig, uint32_t topic, const struct tr_policy *p, unsigned fields);
uint64_t rig_push_body(struct rig *rig, uint32_t topic, uint64_t delay_us, size_t len);
uint64_t rig_reserve(struct rig *rig, uint32_t topic, uint64_t holder); /* id, or 0: none ready */
int rig_with(struct rig *rig, enum tr_op op, uint64_t id, uint64_t holder);
enum tr_job_state rig_state(struct rig *rig, uint64_t id); /* 0: there is none */
struct tr_job_view rig_view(struct rig *rig, uint64_t id);
struct tr_topic_stat rig_stat(struct rig *rig, uint32_t topic);
struct tr_engine_stat rig_engine_stat(const struct rig *rig);

/* All jobs by id, one line each, with the crc of the body; freed by the caller. */
char *rig_facts(struct rig *rig);

#endif
