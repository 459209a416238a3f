/*
 * Sweeps: not by chance, but at every point.
 *
 *     crash   the workload is played again and again, and cut at disk op 1, 2, 3 ... until it ends
 *             before the cut: by kill, and by power cut with three kinds of damage. At some of the
 *             cuts the recovery is cut too, at each of its own ops.
 *     fault   request 1, 2, 3 ... of the disk fails (error, no space, short write), or allocation
 *             1, 2, 3 ..., once or from there on, while the workload is played, and in a recovery
 *             at its end; the next recovery, without the fault, must succeed.
 *
 * Of `every` points that follow each other one is taken, another one for each way to be cut or to
 * fail: so with up to four of a kind (two for faults) no point is left out, but not all happens
 * at each.
 */
#include "sweep.h"

#include "base/err.h"

#include <inttypes.h>

enum { STEPS = 200, DAMAGES = 3, AGAIN_EVERY = 11 };

/* Every other workload is about run files. */
static bool play(struct sim_run *r, uint64_t seed, const struct sim_plan *plan)
{
    const struct sim_swarm *swarm = seed % 2 != 0 ? sim_swarm_find("short") : &sim_swarms[0];
    uint64_t digest;

    if (sim_run_seed(r, swarm, seed, plan, &digest)) {
        return true;
    }
    printf("broken by the plan: crash at %" PRIu64 " (%s, damage %" PRIu64 "), again at %" PRIu64
           ", fault %d at %" PRIu64 "%s, allocation %" PRIu64 "%s%s\n",
           plan->crash_at, plan->power ? "power" : "kill", plan->damage, plan->again_at,
           plan->fault_code, plan->fault_at, plan->fault_on ? " and on" : "", plan->mem_at,
           plan->mem_on ? " and on" : "", plan->in_recovery ? ", in recovery" : "");
    sim_run_print(r, stdout);
    return false;
}

static bool cut_again(struct sim_run *r, uint64_t seed, struct sim_plan plan, uint64_t *points)
{
    for (plan.again_at = 1;; plan.again_at++) {
        if (!play(r, seed, &plan)) {
            return false;
        }
        if (r->deaths < 2) {
            return true;
        }
        (*points)++;
    }
}

bool sim_sweep_crash(struct sim_run *r, uint64_t first, uint64_t n, uint64_t every)
{
    uint64_t points = 0;
    uint64_t double_points = 0;

    for (uint64_t seed = first; seed < first + n; seed++) {
        for (unsigned kind = 0; kind <= DAMAGES; kind++) {
            struct sim_plan plan = {
                .calm = true, .steps = STEPS, .power = kind != 0, .damage = kind};

            for (plan.crash_at = 1 + kind % every;; plan.crash_at += every) {
                if (!play(r, seed, &plan)) {
                    return false;
                }
                if (!r->reached) {
                    break;
                }
                points++;
                if (plan.crash_at % AGAIN_EVERY == seed % AGAIN_EVERY && kind < 2 &&
                    !cut_again(r, seed, plan, &double_points)) {
                    return false;
                }
            }
        }
    }
    printf("sweep crash: workloads=%" PRIu64 " crash_points=%" PRIu64 " in_recovery=%" PRIu64 "\n",
           n, points, double_points);
    return true;
}

/* From the plan's own point on. */
static bool sweep_plan(struct sim_run *r, uint64_t seed, struct sim_plan plan, uint64_t every,
                       uint64_t *points)
{
    uint64_t from = plan.fault_at;

    plan.fault_at = 0;
    for (uint64_t at = from;; at += every) {
        if (plan.fault_code != 0) {
            plan.fault_at = at;
        } else {
            plan.mem_at = at;
        }
        if (!play(r, seed, &plan)) {
            return false;
        }
        if (!r->reached) {
            return true;
        }
        (*points)++;
    }
}

bool sim_sweep_fault(struct sim_run *r, uint64_t first, uint64_t n, uint64_t every)
{
    static const struct {
        int code; /* 0: an allocation */
        const char *name;
    } kinds[] = {
        {TARRY_EIO, "eio"}, {TARRY_ENOSPC, "enospc"}, {SIM_FAIL_SHORT, "short"}, {0, "memory"}};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        uint64_t points[2] = {0, 0};

        for (uint64_t seed = first; seed < first + n; seed++) {
            for (unsigned how = 0; how < 4; how++) {
                struct sim_plan plan = {.calm = true,
                                        .steps = STEPS,
                                        .fault_code = kinds[k].code,
                                        .fault_at = 1 + how % every,
                                        .fault_on = (how & 1) != 0,
                                        .mem_on = (how & 1) != 0,
                                        .in_recovery = (how & 2) != 0};

                if (!sweep_plan(r, seed, plan, every, &points[how >> 1])) {
                    return false;
                }
            }
        }
        printf("sweep fault: kind=%s workloads=%" PRIu64 " points=%" PRIu64 " in_recovery=%" PRIu64
               "\n",
               kinds[k].name, n, points[0], points[1]);
    }
    return true;
}
