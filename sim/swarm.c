/*
 * Swarms.
 *
 * sim_params_draw draws a generic seed: everything at once, each at a random rate, some of it off.
 * A swarm then overrules a few of these, so that one thing happens often and in tight succession.
 * Seeds of a swarm differ from each other in everything else.
 *
 * Sizes are tiny so that in a few hundred steps slots fill and are used again, batches overflow,
 * rid blocks end and checkpoints are made.
 */
#include "swarm.h"

#include "rules/policy.h"

#include <string.h>

enum { KIB = 1024 };

static const uint64_t MS = 1000;
static const uint64_t SEC = 1000000;

bool sim_dice(struct tr_rng *rng, unsigned pct)
{
    return tr_rng_below(rng, 100) < pct;
}

uint64_t sim_between(struct tr_rng *rng, uint64_t least, uint64_t most)
{
    return least + tr_rng_below(rng, most - least + 1);
}

uint64_t sim_spread(struct tr_rng *rng, uint64_t least, uint64_t most)
{
    unsigned bits = 0;
    uint64_t top;

    for (uint64_t span = most / least; span > 1; span /= 2) {
        bits++;
    }
    top = least << tr_rng_below(rng, bits + 1);
    return top >= most ? most : sim_between(rng, top, top * 2 > most ? most : top * 2);
}

static void draw_config(struct sim_params *p, struct tr_rng *rng)
{
    p->sync = TR_SYNC_ALWAYS;
    p->sync_us = 50 * MS;
    p->slot_bytes = sim_dice(rng, 60) ? 64 * KIB : 128 * KIB;
    p->slots_max = (uint32_t)sim_between(rng, 6, 24);
    p->batch_bytes = sim_between(rng, 1, 6) * 4 * KIB;
    p->body_max = 8 * KIB;
    p->body_cache_bytes = sim_dice(rng, 30) ? 0 : sim_spread(rng, 256, 64 * KIB);
    p->move_body_max = (uint32_t)sim_spread(rng, 64, 4096);
    p->rid_block = (uint32_t)sim_spread(rng, 32, sim_dice(rng, 5) ? 1 << 17 : 256);
    p->slice = (uint32_t)sim_spread(rng, 8, 1000);
    p->checkpoint_slack = sim_spread(rng, 8 * KIB, 256 * KIB);
    p->seal_us = sim_spread(rng, 1 * MS, 50 * MS);
    p->lazy_us = sim_spread(rng, 1 * MS, 100 * MS);
    p->gather_us = sim_between(rng, 0, 1) * sim_spread(rng, 100, 20 * MS);
    p->gather_bytes = sim_spread(rng, 64, 32 * KIB);
    p->linger_us = sim_between(rng, 0, 1) * sim_spread(rng, 10, 5 * MS);
    p->many_topics = (unsigned)sim_between(rng, 0, 3);
    p->near_us = sim_spread(rng, 1, 100) * (sim_dice(rng, 70) ? 10 * MS : 60000 * MS);
    p->promote_slots = sim_dice(rng, 60) ? (unsigned)sim_between(rng, 1, 3) : 0;
    p->far_max = sim_spread(rng, 1, 200);
    p->cells_max = sim_dice(rng, 40) ? sim_spread(rng, 1, 60) : 1 << 20;
    p->merge_groups = (unsigned)sim_spread(rng, 1, 20);
    p->crowd = p->merge_groups; /* no number of its own: seeds stay what they are */
    p->meters = p->merge_groups % 5;
    p->merge_waste = sim_spread(rng, 1, 256 * KIB);
    p->background_rate = sim_dice(rng, 30) ? sim_spread(rng, 10 * KIB, 100 * KIB * KIB) : 0;
    p->scrub_rate = sim_spread(rng, 100 * KIB, 100 * KIB * KIB);
    p->scrub_every_us = sim_dice(rng, 30) ? sim_spread(rng, 1000000, UINT64_C(3600000000)) : 0;
    p->hour_us = 3600 * sim_spread(rng, 300, 1 * SEC);
    p->near_min = 64;
    p->near_max = 1000000;
    p->checkpoint_us = sim_spread(rng, 5 * MS, 30 * SEC);
    p->idle_us = sim_spread(rng, 10 * MS, 10 * SEC);
    p->mem_bytes = 64 * KIB * KIB;
}

static void draw_ops(struct sim_params *p, struct tr_rng *rng)
{
    static const uint8_t common[TR_OP_COUNT] = {
        [TR_OP_PUSH] = 60,      [TR_OP_RESERVE] = 50,   [TR_OP_RESERVE_JOB] = 4,
        [TR_OP_DELETE] = 30,    [TR_OP_RELEASE] = 14,   [TR_OP_RETURN] = 3,
        [TR_OP_BURY] = 10,      [TR_OP_TOUCH] = 6,      [TR_OP_KICK] = 5,
        [TR_OP_KICK_JOB] = 4,   [TR_OP_FIRE] = 4,       [TR_OP_EDIT] = 10,
        [TR_OP_PAUSE] = 2,      [TR_OP_PEEK] = 8,       [TR_OP_PEEK_FIRST] = 6,
        [TR_OP_STAT_JOB] = 6,   [TR_OP_STAT_TOPIC] = 4, [TR_OP_STAT] = 2,
        [TR_OP_HOLD_TOPIC] = 3, [TR_OP_FIND_TOPIC] = 2, [TR_OP_DROP_TOPIC] = 2,
        [TR_OP_CLOSE] = 2,      [TR_OP_NEXT_TOPIC] = 1, [TR_OP_LIST] = 4,
        [TR_OP_PURGE] = 1,      [TR_OP_FORECAST] = 3,   [TR_OP_BULK] = 1,
        [TR_OP_POLICY] = 2,
    };

    for (unsigned i = 0; i < TR_OP_COUNT; i++) {
        if (i == TR_OP_PICTURE) {
            continue; /* this engine has none; without dice for it seeds are what they were */
        }
        p->op_weight[i] = common[i] * (unsigned)sim_between(rng, 1, 4);
        if (sim_dice(rng, 10)) {
            p->op_weight[i] = 0;
        }
    }
    p->op_weight[TR_OP_PUSH] += 20;
    p->body_big_pct = (unsigned)sim_between(rng, 0, 30);
    p->body_least = 100;
    p->delay_pct = (unsigned)sim_between(rng, 0, 80);
    p->far_pct = (unsigned)sim_between(rng, 0, 30);
    p->stale_pct = (unsigned)sim_between(rng, 2, 25);
    p->ttr_max_us = sim_spread(rng, 2 * MS, 60 * SEC);
    p->wait_pct = 50;
    p->warn_pct = 40;
    p->nest_pct = sim_dice(rng, 40) ? (unsigned)sim_between(rng, 5, 40) : 0;
}

static void draw_world(struct sim_params *p, struct tr_rng *rng)
{
    p->event_weight[SIM_EV_SUBMIT] = (unsigned)sim_between(rng, 20, 60);
    p->event_weight[SIM_EV_TURN] = (unsigned)sim_between(rng, 10, 40);
    p->event_weight[SIM_EV_DISK] = (unsigned)sim_between(rng, 10, 60);
    p->event_weight[SIM_EV_TIME] = (unsigned)sim_between(rng, 5, 20);
    p->event_weight[SIM_EV_SETTLE] = (unsigned)sim_between(rng, 0, 10);
    p->event_weight[SIM_EV_ABANDON] = (unsigned)sim_between(rng, 0, 2);
    p->event_weight[SIM_EV_REOPEN] = sim_dice(rng, 20) ? 1 : 0;
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 60) ? 1 : 0;
    p->event_weight[SIM_EV_CLOCK] = sim_dice(rng, 15) ? (unsigned)sim_between(rng, 1, 3) : 0;
    p->event_weight[SIM_EV_SPACE] = 0;
    p->event_weight[SIM_EV_STALL] = sim_dice(rng, 20) ? 1 : 0;
    p->power_pct = 65;
    p->op_crash_pct = sim_dice(rng, 70) ? 60 : 0;
    p->again_pct = 25;
    p->clock_start_pct = p->event_weight[SIM_EV_CLOCK] != 0 ? 20 : 0;
    p->late_pct = (uint32_t)sim_between(rng, 0, 60);
    if (sim_dice(rng, 40)) {
        p->short_ppm = 20000;
    }
    if (sim_dice(rng, 15)) {
        p->sync_eio_ppm = (uint32_t)sim_spread(rng, 1000, 20000);
    }
    if (sim_dice(rng, 10)) {
        p->write_eio_ppm = (uint32_t)sim_spread(rng, 1000, 10000);
    }
    if (sim_dice(rng, 10)) {
        p->read_eio_ppm = (uint32_t)sim_spread(rng, 1000, 50000);
    }
}

static void swarm_generic(struct sim_params *p, struct tr_rng *rng)
{
    p->full = sim_dice(rng, 15);
    if (p->full) {
        p->event_weight[SIM_EV_SPACE] = 1;
    }
}

/* Crash upon crash, at any disk op, in recovery too. */
static void swarm_crash(struct sim_params *p, struct tr_rng *rng)
{
    p->event_weight[SIM_EV_CRASH] = (unsigned)sim_between(rng, 2, 8);
    p->op_crash_pct = 90;
    p->again_pct = 60;
    p->power_pct = sim_dice(rng, 50) ? 100 : 65;
}

/* Slots are emptied, checkpointed and used again as fast as can be. */
static void small_ring(struct sim_params *p, struct tr_rng *rng)
{
    p->slot_bytes = 64 * KIB;
    p->slots_max = (uint32_t)sim_between(rng, 6, 8);
    p->body_big_pct = (unsigned)sim_between(rng, 30, 80);
    p->checkpoint_us = sim_spread(rng, 1 * MS, 200 * MS);
    p->live_max = (unsigned)sim_between(rng, 5, 20);
    p->op_weight[TR_OP_PUSH] = 200;
    p->op_weight[TR_OP_DELETE] = 200;
}

static void swarm_rot(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 50)) {
        small_ring(p, rng);
    }
    p->rot = true;
    p->body_cache_bytes = sim_dice(rng, 50) ? 0 : p->body_cache_bytes;
    p->event_weight[SIM_EV_CRASH] = 1;
    p->event_weight[SIM_EV_CLOCK] = 0;
    p->event_weight[SIM_EV_SETTLE] = 10;
    p->clock_start_pct = 0;
    p->again_pct = 10;
    p->sync_eio_ppm = 0;
    p->write_eio_ppm = 0;
    p->read_eio_ppm = 0;
}

/* The newest manifest is gone for good: the older one must not be believed. */
static void swarm_manifest(struct sim_params *p, struct tr_rng *rng)
{
    swarm_rot(p, rng);
    small_ring(p, rng);
    p->rot_manifest = true;
}

static void swarm_full(struct sim_params *p, struct tr_rng *rng)
{
    p->full = true;
    p->event_weight[SIM_EV_SPACE] = 3;
    p->body_big_pct = (unsigned)sim_between(rng, 30, 90);
    p->slots_max = (uint32_t)sim_between(rng, 6, 12);
    p->enospc_ppm = sim_dice(rng, 30) ? 20000 : 0;
    p->live_max = 120;
    switch (tr_rng_below(rng, 3)) {
    case 0: /* many small jobs: it is the checkpoints that need room */
        p->topics = 1;
        p->body_big_pct = 0;
        p->body_cache_bytes = 0;
        p->delay_pct = 100;
        p->far_pct = 100;
        p->live_max = 600;
        p->checkpoint_slack = 1;
        p->checkpoint_us = sim_spread(rng, 5 * MS, 500 * MS);
        p->op_weight[TR_OP_PUSH] = 2000;
        p->op_weight[TR_OP_KICK] = 30;
        p->steps += 400;
        break;
    case 1: /* few large ones that stay: the ring is full of what lives */
        p->slot_bytes = 64 * KIB;
        p->slots_max = (uint32_t)sim_between(rng, 5, 7);
        p->body_least = 4 * KIB;
        p->body_big_pct = 100;
        p->delay_pct = 80;
        p->far_pct = 100;
        p->live_max = 200;
        p->op_weight[TR_OP_PUSH] = 600;
        break;
    default:
        break;
    }
}

/* Completions come late and lanes stand still: past due, past ttr. */
static void swarm_slow(struct sim_params *p, struct tr_rng *rng)
{
    p->late_pct = 80;
    p->event_weight[SIM_EV_DISK] = (unsigned)sim_between(rng, 2, 10);
    p->event_weight[SIM_EV_STALL] = 3;
    p->event_weight[SIM_EV_SETTLE] = 1;
    p->event_weight[SIM_EV_ABANDON] = 4;
    p->body_cache_bytes = sim_dice(rng, 70) ? 0 : 512;
    p->ttr_max_us = 20 * MS;
}

static void swarm_clock(struct sim_params *p, struct tr_rng *rng)
{
    p->event_weight[SIM_EV_CLOCK] = (unsigned)sim_between(rng, 3, 10);
    p->clock_start_pct = 50;
    p->delay_pct = 80;
}

static void swarm_weak(struct sim_params *p, struct tr_rng *rng)
{
    p->sync = sim_dice(rng, 60) ? TR_SYNC_INTERVAL : TR_SYNC_NEVER;
    p->sync_us = sim_spread(rng, 1 * MS, 50 * MS);
    /* Mostly not gathered: of many small batches a crash can leave many different ones. */
    p->gather_us = sim_dice(rng, 15) ? sim_spread(rng, 100, 20 * MS) : 0;
    p->rid_block = (uint32_t)sim_spread(rng, 8, 64);
    p->event_weight[SIM_EV_CRASH] = (unsigned)sim_between(rng, 1, 4);
    if (sim_dice(rng, 50)) { /* power cuts where one slot ends and the next begins */
        p->slot_bytes = 64 * KIB;
        p->body_big_pct = (unsigned)sim_between(rng, 40, 90);
        p->event_weight[SIM_EV_CRASH] = (unsigned)sim_between(rng, 4, 12);
        p->power_pct = 100;
    }
    p->event_weight[SIM_EV_STALL] = sim_dice(rng, 50) ? 3 : 0;
}

/* Few free slots, long-lived jobs among many short ones: the log must be rewritten all the time. */
static void swarm_relog(struct sim_params *p, struct tr_rng *rng)
{
    small_ring(p, rng);
    p->body_big_pct = (unsigned)sim_between(rng, 40, 90);
    p->body_cache_bytes = sim_dice(rng, 50) ? 0 : 4096;
    p->delay_pct = 30;
    p->far_pct = 60;
    p->live_max = (unsigned)sim_between(rng, 5, 30);
    p->op_weight[TR_OP_EDIT] = 60;
    p->op_crash_pct = 80;
    p->event_weight[SIM_EV_STALL] = sim_dice(rng, 50) ? 3 : 0;
    p->stall_crash_pct = 50;
    p->steps += 300;
    p->sync_eio_ppm = 0;
    p->write_eio_ppm = 0;
}

static void swarm_lease(struct sim_params *p, struct tr_rng *rng)
{
    p->tokens = (unsigned)sim_between(rng, 3, 6);
    p->ttr_max_us = sim_spread(rng, 10 * MS, 3 * SEC);
    p->op_weight[TR_OP_RESERVE] = 200;
    p->op_weight[TR_OP_RELEASE] = 60;
    p->op_weight[TR_OP_TOUCH] = 60;
    p->op_weight[TR_OP_BURY] = 40;
    p->op_weight[TR_OP_RETURN] = 20;
    p->op_weight[TR_OP_HISTORY] = 20;
    p->stale_pct = 40;
    p->delay_pct = 20;
    p->event_weight[SIM_EV_CRASH] = (unsigned)sim_between(rng, 1, 4);
    p->event_weight[SIM_EV_REOPEN] = 1;
}

/* The disk answers with errors. */
static void swarm_fault(struct sim_params *p, struct tr_rng *rng)
{
    p->sync_eio_ppm = sim_dice(rng, 60) ? (uint32_t)sim_spread(rng, 2000, 60000) : 0;
    p->write_eio_ppm = sim_dice(rng, 40) ? (uint32_t)sim_spread(rng, 2000, 30000) : 0;
    p->read_eio_ppm = sim_dice(rng, 40) ? (uint32_t)sim_spread(rng, 2000, 100000) : 0;
    p->dir_eio_ppm = sim_dice(rng, 30) ? (uint32_t)sim_spread(rng, 2000, 60000) : 0;
    p->short_ppm = sim_dice(rng, 50) ? 200000 : 0;
    p->event_weight[SIM_EV_REOPEN] = 1;
}

static void swarm_memory(struct sim_params *p, struct tr_rng *rng)
{
    p->mem_bytes = sim_spread(rng, 1024 * KIB, 3072 * KIB);
    p->mem_small = true;
    p->body_big_pct = 50;
    p->live_max = 200;
}

/* No crash, all bodies in memory: hand-outs come at once and their order is checked exactly. */
static void swarm_order(struct sim_params *p, struct tr_rng *rng)
{
    memset(p->event_weight + SIM_EV_ABANDON, 0,
           sizeof(p->event_weight[0]) * (SIM_EV_COUNT - SIM_EV_ABANDON));
    p->op_crash_pct = 0;
    p->sync_eio_ppm = 0;
    p->write_eio_ppm = 0;
    p->read_eio_ppm = 0;
    p->full = false;
    p->body_big_pct = 2;
    p->body_cache_bytes = 16 * KIB * KIB;
    p->slots_max = 24;
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->op_weight[TR_OP_KICK] = 30;
    p->op_weight[TR_OP_BURY] = 30;
    p->op_weight[TR_OP_PEEK_FIRST] = 30;
    p->op_weight[TR_OP_STAT_TOPIC] = 20;
    p->op_weight[TR_OP_RESERVE] = 150;
}

static void swarm_far(struct sim_params *p, struct tr_rng *rng)
{
    p->near_us = sim_spread(rng, 1 * MS, 2000 * MS);
    p->promote_slots = sim_dice(rng, 80) ? (unsigned)sim_between(rng, 1, 3) : 0;
    p->far_max = sim_spread(rng, 1, 40);
    p->merge_groups = (unsigned)sim_spread(rng, 1, 6);
    p->slot_bytes = 64 * KIB;
    p->delay_pct = 90;
    p->op_weight[TR_OP_PEEK_FIRST] = 6;
    p->op_weight[TR_OP_KICK] = sim_dice(rng, 50) ? 4 : 1;
    p->op_weight[TR_OP_KICK_JOB] = 6;
    p->op_weight[TR_OP_STAT_JOB] = 6;
    p->op_weight[TR_OP_EDIT] = (unsigned)sim_between(rng, 5, 20);
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 60) ? 2 : 0;
    p->event_weight[SIM_EV_STALL] = sim_dice(rng, 40) ? 3 : 0;
    if (sim_dice(rng, 20)) { /* a crash takes kills back whose group is gone, if nobody waits */
        p->sync = TR_SYNC_NEVER;
        p->gather_us = 0;
        p->power_pct = 90;
    }
    if (sim_dice(rng, 30)) { /* what was to be loaded does not fit, now and then */
        p->mem_small = true;
        p->mem_fail_pct = (unsigned)sim_between(rng, 1, 20);
    }
}

/* For hours the disk has no room for what comes next: promotions and merges fail and are tried
 * again, slots are emptied by writing again, and pushes come back when jobs go. */
static void swarm_brim(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    p->full = true;
    p->event_weight[SIM_EV_SPACE] = (unsigned)sim_between(rng, 3, 8);
    p->enospc_ppm = sim_dice(rng, 50) ? 50000 : 0;
    p->slots_max = (uint32_t)sim_between(rng, 5, 12);
    p->promote_slots = (unsigned)sim_between(rng, 1, 3);
    p->body_big_pct = (unsigned)sim_between(rng, 30, 100);
    p->body_least = sim_dice(rng, 50) ? 2 * KIB : p->body_least;
    p->live_max = (unsigned)sim_between(rng, 60, 300);
    p->far_pct = (unsigned)sim_between(rng, 20, 95);
    p->merge_waste = sim_spread(rng, 1, 16 * KIB);
    p->op_weight[TR_OP_PUSH] = (unsigned)sim_between(rng, 200, 600);
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 20, 200);
    p->steps += 500;
    p->mem_small = false;
    p->mem_fail_pct = 0;
}

/* A file of a group is damaged, while jobs come back from there. */
static void swarm_runs(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    swarm_rot(p, rng);
    p->slots_max = (uint32_t)sim_between(rng, 6, 24);
    p->promote_slots = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 40, 250);
    p->far_max = sim_spread(rng, 1, 20);
    p->far_pct = (unsigned)sim_between(rng, 30, 95);
    p->body_big_pct = (unsigned)sim_between(rng, 20, 80);
    p->op_weight[TR_OP_PUSH] = (unsigned)sim_between(rng, 200, 500);
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 10, 100);
    p->steps += 200;
    p->rot_group = true;
    p->scrub_every_us = sim_dice(rng, 60) ? sim_spread(rng, 1000000, 60000000) : 0;
    p->look_pct = 70;
    p->op_weight[TR_OP_PEEK] = 20; /* look-ups and searches */
    p->op_weight[TR_OP_PEEK_FIRST] = 20;
    p->op_weight[TR_OP_FIRE] = 10;
    p->mem_small = false;
    p->mem_fail_pct = 0;
}

/* Whole topics are listed, changed and purged, most of their jobs far. */
static void swarm_purge(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->far_pct = (unsigned)sim_between(rng, 10, 90);
    p->op_weight[TR_OP_PUSH] = 200;
    p->op_weight[TR_OP_LIST] = 60;
    p->body_cache_bytes = sim_dice(rng, 50) ? 0 : p->body_cache_bytes;
    p->op_weight[TR_OP_PURGE] = (unsigned)sim_between(rng, 0, 10);
    p->op_weight[TR_OP_BULK] = (unsigned)sim_between(rng, 0, 30);
    p->slice = (uint32_t)sim_spread(rng, 8, 100);
    p->live_max = (unsigned)sim_between(rng, 40, 200);
}

/* Few keys, many who want them. */
static void swarm_keys(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 50)) {
        swarm_far(p, rng);
    } else if (sim_dice(rng, 50)) {
        small_ring(p, rng);
    }
    p->key_pct = 60;
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 10, 60);
    p->delay_pct = sim_dice(rng, 70) ? 90 : 30;
    p->far_pct = (unsigned)sim_between(rng, 20, 90);
    p->op_weight[TR_OP_PUSH] = 200;
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 40, 200);
    p->op_weight[TR_OP_EDIT] = (unsigned)sim_between(rng, 5, 40);
    p->op_weight[TR_OP_FIRE] = 10;
    p->op_weight[TR_OP_BURY] = 20;
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 70) ? (unsigned)sim_between(rng, 1, 4) : 0;
    p->steps += 200;
}

/* Policies come and go, and so do the topics that have nothing else. */
static void swarm_policy(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 50)) {
        swarm_far(p, rng);
    }
    p->op_weight[TR_OP_POLICY] = (unsigned)sim_between(rng, 20, 100);
    p->op_weight[TR_OP_PURGE] = (unsigned)sim_between(rng, 0, 20);
    p->op_weight[TR_OP_STAT_TOPIC] = 20;
    p->op_weight[TR_OP_DROP_TOPIC] = 40;
    p->live_max = (unsigned)sim_between(rng, 3, 40);
    p->checkpoint_us = sim_spread(rng, 1 * MS, 200 * MS);
    p->slice = (uint32_t)sim_spread(rng, 8, 60);
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 70) ? (unsigned)sim_between(rng, 1, 4) : 0;
}

/* Jobs are handed out again and again, and never finished. */
static void swarm_retry(struct sim_params *p, struct tr_rng *rng)
{
    p->op_weight[TR_OP_POLICY] = (unsigned)sim_between(rng, 10, 40);
    p->op_weight[TR_OP_RESERVE] = 250;
    p->op_weight[TR_OP_RELEASE] = 120;
    p->op_weight[TR_OP_BURY] = 20;
    p->op_weight[TR_OP_KICK_JOB] = 20;
    p->op_weight[TR_OP_CLOSE] = 6;
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->conns = (unsigned)sim_between(rng, 1, 4);
    p->tokens = (unsigned)sim_between(rng, 2, 5);
    p->live_max = (unsigned)sim_between(rng, 3, 20);
    p->ttr_max_us = sim_spread(rng, 10 * MS, 1 * SEC);
    p->delay_pct = 20;
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 50) ? 1 : 0;
}

/* Hand-outs are held back by rate and number; many wait for the next one. */
static void swarm_limit(struct sim_params *p, struct tr_rng *rng)
{
    swarm_order(p, rng);
    p->limits = TR_POLICY_BIT(IN_FLIGHT) | (sim_dice(rng, 70) ? TR_POLICY_BIT(RATE) : 0);
    p->exact_rate = true;
    p->near_us = 60 * SEC * 60 * 24 * 365;
    p->near_max = 1000000;
    p->full = false;
    p->mem_small = false;
    p->op_weight[TR_OP_POLICY] = (unsigned)sim_between(rng, 10, 60);
    p->op_weight[TR_OP_RESERVE] = 300;
    p->op_weight[TR_OP_RETURN] = 30;
    p->op_weight[TR_OP_PURGE] = 1;
    p->wait_pct = 70;
    p->delay_pct = 20;
    p->far_pct = 0;
    p->ttr_max_us = sim_spread(rng, 10 * MS, 2 * SEC);
    p->event_weight[SIM_EV_ABANDON] = 3;
    p->event_weight[SIM_EV_SETTLE] = 10;
}

/* Jobs are not taken in time, and the dead are not kept. */
static void swarm_expiry(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 40)) {
        swarm_far(p, rng);
    }
    p->limits = TR_POLICY_BIT(TTL) | TR_POLICY_BIT(DEAD_KEEP) | TR_POLICY_BIT(DEAD_MAX);
    p->op_weight[TR_OP_POLICY] = (unsigned)sim_between(rng, 10, 40);
    p->op_weight[TR_OP_RESERVE] = (unsigned)sim_between(rng, 20, 100);
    p->op_weight[TR_OP_BURY] = 40;
    p->bury_pct = 40;
    p->op_weight[TR_OP_KICK_JOB] = 20;
    p->op_weight[TR_OP_KICK] = 4;
    p->op_weight[TR_OP_STAT_TOPIC] = 10;
    p->op_weight[TR_OP_PEEK_FIRST] = 10;
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 10, 60);
    p->far_pct = 20;
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 50) ? 1 : 0;
    p->event_weight[SIM_EV_SETTLE] = (unsigned)sim_between(rng, 1, 10);
}

/* Few tags, many who ask for one and wait. */
static void swarm_tags(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 70)) {
        swarm_order(p, rng);
        p->event_weight[SIM_EV_ABANDON] = 3;
    }
    p->tag_pct = (unsigned)sim_between(rng, 30, 90);
    p->op_weight[TR_OP_RESERVE] = 250;
    p->op_weight[TR_OP_EDIT] = 30;
    p->op_weight[TR_OP_PURGE] = 1;
    p->slice = (uint32_t)sim_spread(rng, 8, 200);
    p->wait_pct = (unsigned)sim_between(rng, 20, 90);
    p->live_max = (unsigned)sim_between(rng, 5, 60);
    p->delay_pct = 30;
}

static void draw_keys(struct sim_params *p, struct tr_rng *rng)
{
    unsigned least = p->key_pct != 0 ? p->key_pct : 10;

    if (p->key_pct != 0 || sim_dice(rng, 30)) {
        p->key_pct = (unsigned)sim_between(rng, least, 95);
        p->keys = (unsigned)sim_between(rng, 1, sim_dice(rng, 50) ? 4 : 24);
        p->key_bits = sim_dice(rng, 40) ? (unsigned)sim_between(rng, 1, 4) : 0;
    }
}

/* Slots fill quickly with jobs that wait for long, and most of them are cancelled. */
static void swarm_merge(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    p->promote_slots = (unsigned)sim_between(rng, 1, 3);
    p->far_max = sim_spread(rng, 1, 10);
    p->merge_groups = (unsigned)sim_spread(rng, 1, 5);
    p->merge_waste = sim_spread(rng, 1, 16 * KIB);
    p->idle_us = sim_spread(rng, 10 * MS, 1 * SEC);
    p->steps += 200;
    p->body_big_pct = (unsigned)sim_between(rng, 20, 70);
    p->live_max = (unsigned)sim_between(rng, 30, 150);
    p->far_pct = (unsigned)sim_between(rng, 10, 60);
    p->op_weight[TR_OP_PUSH] = 200;
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 40, 120);
    if (sim_dice(rng, 30)) {
        p->sync = TR_SYNC_NEVER;
    }
}

/* Copies are made while everything moves: slots, groups, checkpoints. */
static void swarm_backup(struct sim_params *p, struct tr_rng *rng)
{
    swarm_merge(p, rng);
    p->event_weight[SIM_EV_BACKUP] = (unsigned)sim_between(rng, 2, 8);
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 60) ? (unsigned)sim_between(rng, 1, 3) : 0;
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 80, 300);
    p->checkpoint_us = sim_spread(rng, 5 * MS, 1 * SEC);
    p->mem_small = false;
    p->mem_fail_pct = 0;
    if (sim_dice(rng, 20)) {
        p->dir_eio_ppm = 20000;
        p->enospc_ppm = 20000;
    }
}

/* Topics have more due jobs than may be in memory. */
static void swarm_park(struct sim_params *p, struct tr_rng *rng)
{
    p->near_us = sim_dice(rng, 70) ? sim_spread(rng, 1 * MS, 2000 * MS) : 60 * SEC;
    p->near_min = sim_between(rng, 1, 8);
    p->near_max = sim_between(rng, 0, 32);
    p->promote_slots = sim_dice(rng, 70) ? (unsigned)sim_between(rng, 1, 3) : 0;
    p->far_max = sim_spread(rng, 1, 40);
    p->slot_bytes = 64 * KIB;
    p->topics = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 30, 200);
    p->delay_pct = (unsigned)sim_between(rng, 0, 90);
    p->far_pct = (unsigned)sim_between(rng, 0, 30);
    p->op_weight[TR_OP_PUSH] = (unsigned)sim_between(rng, 100, 400);
    p->op_weight[TR_OP_RESERVE] = (unsigned)sim_between(rng, 50, 200);
    p->op_weight[TR_OP_PEEK_FIRST] = sim_dice(rng, 50) ? 10 : 0;
    p->op_weight[TR_OP_EDIT] = sim_dice(rng, 50) ? p->op_weight[TR_OP_EDIT] : 0;
    p->op_weight[TR_OP_STAT_TOPIC] = 10;
    p->op_weight[TR_OP_STAT_JOB] = 10;
    p->op_weight[TR_OP_KICK] = sim_dice(rng, 50) ? 4 : 1;
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 50) ? 1 : 0;
    p->event_weight[SIM_EV_SETTLE] = (unsigned)sim_between(rng, 1, 10);
}

/* Few steps, and in them all that happens to run files: for sweeps, which play each many times.
 */
static void swarm_short(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    p->mem_small = false;
    p->mem_fail_pct = 0;
    p->topics = (unsigned)sim_between(rng, 1, 2);
    p->slots_max = (uint32_t)sim_between(rng, 6, 10);
    p->near_us = sim_spread(rng, 1 * MS, 50 * MS);
    p->promote_slots = 1;
    p->far_max = 1;
    p->merge_groups = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 8, 20);
    p->delay_pct = 85;
    p->far_pct = (unsigned)sim_between(rng, 0, 30);
    p->body_least = 4 * KIB;
    p->body_big_pct = 80;
    p->body_max = 8 * KIB;
    p->checkpoint_us = sim_spread(rng, 5 * MS, 100 * MS);
    p->idle_us = sim_spread(rng, 10 * MS, 200 * MS);
    p->op_weight[TR_OP_PUSH] = 300;
    p->op_weight[TR_OP_DELETE] = 150;
    p->op_weight[TR_OP_STAT_JOB] = 20;
    p->event_weight[SIM_EV_SUBMIT] = 30;
    p->event_weight[SIM_EV_SETTLE] = 20;
    p->event_weight[SIM_EV_TIME] = 15;
}

/* Connections that keep what they have and wait for more: their leases end, or nearly. */
static void swarm_wait(struct sim_params *p, struct tr_rng *rng)
{
    p->topics = (unsigned)sim_between(rng, 1, 2);
    p->conns = (unsigned)sim_between(rng, 4, 8);
    p->tokens = (unsigned)sim_between(rng, 0, 1);
    p->live_max = (unsigned)sim_between(rng, 3, 12);
    p->ttr_max_us = sim_spread(rng, 50 * MS, 10 * SEC);
    p->op_weight[TR_OP_PUSH] = 50;
    p->op_weight[TR_OP_RESERVE] = 300;
    p->op_weight[TR_OP_RESERVE_JOB] = 20;
    p->op_weight[TR_OP_TOUCH] = 40;
    p->op_weight[TR_OP_DELETE] = 20;
    p->op_weight[TR_OP_RELEASE] = 20;
    p->op_weight[TR_OP_PAUSE] = 0;
    p->stale_pct = 2;
    p->delay_pct = 20;
    p->far_pct = 0;
    p->wait_pct = 90;
    p->warn_pct = 80;
    p->nest_pct = 20;
    p->event_weight[SIM_EV_SETTLE] = 10;
    p->event_weight[SIM_EV_CRASH] = 0;
    p->op_crash_pct = 0;
}

/* Time stands still until somebody moves it. */
static void swarm_tclock(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 60)) {
        swarm_far(p, rng);
        p->mem_small = false;
        p->mem_fail_pct = 0;
    }
    if (sim_dice(rng, 25)) { /* with parked topics */
        p->near_min = sim_between(rng, 1, 8);
        p->near_max = sim_between(rng, 0, 32);
        p->topics = (unsigned)sim_between(rng, 1, 3);
        p->live_max = (unsigned)sim_between(rng, 30, 200);
    }
    p->test_clock = true;
    p->delay_pct = (unsigned)sim_between(rng, 30, 90);
    p->op_weight[TR_OP_ADVANCE] = (unsigned)sim_between(rng, 10, 60);
    p->op_weight[TR_OP_HISTORY] = 10;
    p->op_weight[TR_OP_RESERVE] = (unsigned)sim_between(rng, 50, 200);
    p->ttr_max_us = sim_spread(rng, 10 * MS, 60 * SEC);
    p->wait_pct = 80;
    p->checkpoint_us = sim_spread(rng, 1 * MS, 500 * MS);
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 70) ? (unsigned)sim_between(rng, 1, 4) : 0;
    p->event_weight[SIM_EV_REOPEN] = sim_dice(rng, 40) ? 1 : 0;
    p->event_weight[SIM_EV_CLOCK] = sim_dice(rng, 30) ? 2 : 0; /* which means nothing */
    p->clock_start_pct = p->event_weight[SIM_EV_CLOCK] != 0 ? 50 : 0;
}

/* Somebody looks at the meters, of which there are few, while topics come and go. */
static void swarm_meters(struct sim_params *p, struct tr_rng *rng)
{
    if (sim_dice(rng, 50)) {
        swarm_far(p, rng);
    }
    p->meters = (unsigned)sim_between(rng, 0, 3);
    p->topics = (unsigned)sim_between(rng, 2, 6);
    p->event_weight[SIM_EV_METERS] = (unsigned)sim_between(rng, 1, 20);
    p->event_weight[SIM_EV_CRASH] = sim_dice(rng, 30) ? 1 : 0;
    p->op_weight[TR_OP_PURGE] = (unsigned)sim_between(rng, 0, 10);
    p->op_weight[TR_OP_DELETE] = (unsigned)sim_between(rng, 30, 200);
    p->op_weight[TR_OP_DROP_TOPIC] = (unsigned)sim_between(rng, 0, 20);
}

/* The config is read again and again, while far jobs are promoted, merged and scrubbed. */
static void swarm_tune(struct sim_params *p, struct tr_rng *rng)
{
    swarm_far(p, rng);
    p->promote_slots = (unsigned)sim_between(rng, 1, 3);
    p->live_max = (unsigned)sim_between(rng, 30, 200);
    p->op_weight[TR_OP_PUSH] = (unsigned)sim_between(rng, 100, 300);
    p->event_weight[SIM_EV_TUNE] = (unsigned)sim_between(rng, 1, 8);
    p->event_weight[SIM_EV_SETTLE] = (unsigned)sim_between(rng, 1, 10);
}

const struct sim_swarm sim_swarms[] = {
    {"generic", "everything at once, at random rates", swarm_generic},
    {"crash", "crash upon crash, in recovery too", swarm_crash},
    {"rot", "one damaged place", swarm_rot},
    {"manifest", "the newest manifest is lost", swarm_manifest},
    {"full", "the disk fills up and has room again", swarm_full},
    {"slow", "late completions, stalled lanes", swarm_slow},
    {"clock", "the wall clock steps, stands still, is wrong at the start", swarm_clock},
    {"weak", "sync = interval or never", swarm_weak},
    {"relog", "a small ring that must be rewritten all the time", swarm_relog},
    {"lease", "leases over restarts, stale leases", swarm_lease},
    {"fault", "the disk answers with errors", swarm_fault},
    {"memory", "a small memory limit", swarm_memory},
    {"order", "no crash: orders and counts are exact", swarm_order},
    {"far", "most jobs are far, and come back for all kinds of reasons", swarm_far},
    {"brim", "the disk is full, and far jobs are promoted and merged", swarm_brim},
    {"runs", "a file of a group is damaged", swarm_runs},
    {"keys", "few keys, many who want them", swarm_keys},
    {"merge", "far jobs in many groups, of which most are cancelled", swarm_merge},
    {"purge", "whole topics are listed, changed and purged, most of their jobs far", swarm_purge},
    {"policy", "policies come and go", swarm_policy},
    {"backup", "copies are made while everything moves", swarm_backup},
    {"limit", "hand-outs are held back by rate and number", swarm_limit},
    {"expiry", "jobs are not taken in time, and the dead are not kept", swarm_expiry},
    {"tags", "few tags, many who ask for one", swarm_tags},
    {"retry", "jobs are handed out again and again, and never finished", swarm_retry},
    {"park", "topics have more due jobs than may be in memory", swarm_park},
    {"short", "a short life of run files, for sweeps", swarm_short},
    {"wait", "few jobs, many who wait for them while their leases end", swarm_wait},
    {"tclock", "a test clock, which somebody moves", swarm_tclock},
    {"meters", "somebody watches, and topics come and go", swarm_meters},
    {"cron", "schedules, their jobs, and crashes", swarm_generic},
    {"tune", "the config is read again and again", swarm_tune},
    {NULL, NULL, NULL},
};

const struct sim_swarm *sim_swarm_find(const char *name)
{
    for (const struct sim_swarm *s = sim_swarms; s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

void sim_params_draw(struct sim_params *p, const struct sim_swarm *swarm, struct tr_rng *rng)
{
    *p = (struct sim_params){.swarm = swarm->name};
    p->steps = (unsigned)sim_between(rng, 300, 600);
    p->topics = (unsigned)sim_between(rng, 1, 6);
    p->conns = (unsigned)sim_between(rng, 1, 6);
    p->tokens = (unsigned)sim_between(rng, 0, 3);
    p->live_max = (unsigned)sim_between(rng, 10, 80);
    draw_config(p, rng);
    draw_ops(p, rng);
    draw_world(p, rng);
    swarm->draw(p, rng);
    draw_keys(p, rng); /* last: seeds without keys are what they were */
}
