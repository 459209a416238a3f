#ifndef TR_SIM_SWARM_H
#define TR_SIM_SWARM_H

/*
 * What one seed plays: sizes, weights of operations and events, rates of faults. A swarm is a way
 * to draw them; each makes some corner of the engine likelier than chance would. See swarm.c.
 */

#include "base/rng.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

/* What a step can be. */
enum sim_event {
    SIM_EV_SUBMIT,  /* a client asks something */
    SIM_EV_TURN,    /* tr_engine_turn */
    SIM_EV_DISK,    /* one step of the disk */
    SIM_EV_TIME,    /* both clocks go on */
    SIM_EV_SETTLE,  /* turns and disk steps until nothing is left to do */
    SIM_EV_ABANDON, /* a client leaves in the middle of a request */
    SIM_EV_CRASH,   /* power cut or kill */
    SIM_EV_REOPEN,  /* clean close, then open */
    SIM_EV_CLOCK,   /* the wall clock steps */
    SIM_EV_SPACE,   /* the disk gets full, or has room again */
    SIM_EV_STALL,   /* a lane of the disk stands still, or goes on */
    SIM_EV_BACKUP,  /* somebody wants a copy */
    SIM_EV_METERS,  /* somebody looks at the meters */
    SIM_EV_TUNE,    /* the config is read again */
    SIM_EV_COUNT
};

struct sim_params {
    const char *swarm;
    unsigned steps;
    unsigned topics;   /* 1 .. SIM_TOPICS_MAX */
    unsigned conns;    /* clients that are connections */
    unsigned tokens;   /* clients with leases that outlive connections */
    unsigned live_max; /* pushes stop being likely above so many live jobs */
    unsigned op_weight[TR_OP_COUNT];
    unsigned event_weight[SIM_EV_COUNT];

    /* The engine's config. */
    enum tr_sync sync;
    uint64_t sync_us;
    uint64_t slot_bytes;
    uint32_t slots_max;
    uint64_t batch_bytes;
    uint32_t body_max;
    uint64_t body_cache_bytes;
    uint32_t move_body_max;
    uint32_t rid_block;
    uint32_t slice;
    uint64_t checkpoint_slack;
    uint64_t seal_us;
    uint64_t lazy_us;
    uint64_t gather_us;
    uint64_t gather_bytes;
    uint64_t linger_us;
    unsigned many_topics;
    unsigned meters;
    uint64_t near_us;
    uint64_t near_min;
    uint64_t near_max;
    uint64_t far_max;
    uint64_t cells_max;
    uint64_t hour_us;
    unsigned promote_slots;
    unsigned merge_groups;
    uint64_t crowd;
    uint64_t merge_waste;
    uint64_t background_rate;
    uint64_t scrub_rate;
    uint64_t scrub_every_us; /* 0: never */
    uint64_t checkpoint_us;
    uint64_t idle_us;
    bool test_clock;       /* and ADVANCEs */
    uint64_t mem_bytes;    /* limit */
    bool mem_small;        /* so that requests may be refused */
    unsigned mem_fail_pct; /* chance, at each step, that an allocation soon fails; mem_small */

    /* Jobs. */
    uint32_t body_least;   /* of the big ones */
    unsigned body_big_pct; /* bodies up to body_max, instead of a few bytes */
    unsigned delay_pct;    /* pushes with a delay */
    unsigned far_pct;      /* of these, over minutes */
    unsigned stale_pct;    /* requests under an old lease, or of an unknown job */
    uint64_t ttr_max_us;
    bool exact_rate;   /* no hand-out waits for a body: rates are checked exactly */
    unsigned limits;   /* TR_POLICY_BIT of those fields that clients give, besides others */
    unsigned tag_pct;  /* reserves that ask for a tag; 0: pushes seldom have one, too */
    unsigned wait_pct; /* reserves that wait */
    unsigned bury_pct; /* buries by force; 0: no dice are thrown for it */
    unsigned warn_pct; /* ... that are to end before a lease does */
    unsigned key_pct;  /* pushes with a key, and requests that name a job by one; 0: none at all */
    unsigned keys;     /* so many of them, 1 .. SIM_KEYS_MAX */
    unsigned key_bits; /* of their hash */
    unsigned nest_pct; /* answers upon which somebody asks from inside `done` */

    /* The world. */
    unsigned power_pct;       /* crashes that are power cuts */
    unsigned op_crash_pct;    /* chance, at each start, of a crash at some later disk op */
    unsigned stall_crash_pct; /* chance of a crash soon after the manifests' lane was stalled */
    unsigned again_pct;       /* chance that the recovery after a crash is cut too */
    unsigned clock_start_pct; /* chance that a start finds a wrong clock */
    bool full;                /* the disk fills up */
    bool rot;                 /* one damaged place */
    unsigned look_pct;        /* chance that all jobs are looked up before the end */
    bool rot_group;           /* in a file of a group */
    bool rot_manifest;        /* the newest manifest, both copies, after it was written */
    uint32_t sync_eio_ppm;
    uint32_t write_eio_ppm;
    uint32_t short_ppm;
    uint32_t read_eio_ppm;
    uint32_t dir_eio_ppm;
    uint32_t enospc_ppm;
    uint32_t late_pct;
};

struct sim_swarm {
    const char *name;
    const char *what;
    void (*draw)(struct sim_params *p, struct tr_rng *rng); /* changes what sim_params_draw drew */
};

/* The first is "generic". Ends with a NULL name. */
extern const struct sim_swarm sim_swarms[];

/* NULL when there is no swarm of that name. */
const struct sim_swarm *sim_swarm_find(const char *name);

void sim_params_draw(struct sim_params *p, const struct sim_swarm *swarm, struct tr_rng *rng);

/* True with a chance of pct in 100. */
bool sim_dice(struct tr_rng *rng, unsigned pct);

/* A number in [least, most]. */
uint64_t sim_between(struct tr_rng *rng, uint64_t least, uint64_t most);

/* The same, but small ones are as likely as large ones (by number of digits). least > 0. */
uint64_t sim_spread(struct tr_rng *rng, uint64_t least, uint64_t most);

#endif
