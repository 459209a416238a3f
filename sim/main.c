/*
 * tarry-sim: plays seeds against the real engine. See run.c for what a seed is.
 *
 *     tarry-sim SEED [SEEDS] [SWARM]   plays SEEDS seeds from SEED on, each twice
 *     tarry-sim --all N                N generic seeds and N / 6 of each other swarm
 *     tarry-sim --seeds-file FILE      those that failed once: lines "swarm seed reason"
 *     tarry-sim [SEED] --sweep crash|fault N   every crash point, every fault, over N workloads;
 *                                      --every K: not each at all points
 *     tarry-sim --list                 the swarms
 *     --swarm NAME, --trace (every answer), --once (not twice), --again N (only every N-th seed
 *     twice), --keep (one line per broken seed, then go on), --mutant NAME
 *
 * Built with mutants it plays those instead: tarry-sim-mutants [SWARM or NAME] [--table FILE], or
 * with --noted FILE only the seeds that noticed them when the table of that file was made.
 */
#define _POSIX_C_SOURCE 200809L

#include "mutants.h"
#include "run.h"
#include "sweep.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
    uint64_t seed;
    uint64_t seeds;
    uint64_t all;
    uint64_t sweep_count;
    uint64_t every; /* point of a sweep; see sweep.c */
    const char *sweep;
    const char *swarm;
    const char *seeds_file;
    const char *table;
    const char *noted;
    const char *mutant;
    uint64_t again; /* every so many seeds one is played twice; 0: none */
    bool keep;
    bool trace;
    bool list;
};

/* For the last words of a process that dies in the middle of a seed. */
static struct sim_run *running;

/* NOLINTBEGIN(bugprone-signal-handler): not safe in a handler, but there is nothing to lose. */
static void last_words(int sig)
{
    char text[128];
    int len =
        snprintf(text, sizeof(text), "signal %d in seed %" PRIu64 ", swarm %s, step %" PRIu64 "\n",
                 sig, running->seed, running->params.swarm, running->step);

    if (len > 0 && write(STDOUT_FILENO, text, (size_t)len) > 0) {
        sim_run_print(running, stdout);
        (void)fflush(stdout);
    }
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
}
/* NOLINTEND(bugprone-signal-handler) */

static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void report(struct sim_run *r, const struct options *opt)
{
    if (opt->keep) {
        printf("%s %" PRIu64 " step %" PRIu64 " %s: %s\n", r->params.swarm, r->seed, r->step,
               r->report.promise, r->report.text);
    } else {
        sim_run_print(r, stdout);
    }
    (void)fflush(stdout);
}

/* Plays one seed, some of them twice: all that happens comes from the seed. */
static bool play(struct sim_run *r, const struct options *opt, const struct sim_swarm *swarm,
                 uint64_t seed)
{
    uint64_t digest[2] = {0, 0};

    if (!sim_run_seed(r, swarm, seed, NULL, &digest[0])) {
        report(r, opt);
        return false;
    }
    if (opt->again != 0 && seed % opt->again == 0) {
        if (!sim_run_seed(r, swarm, seed, NULL, &digest[1]) || digest[0] != digest[1]) {
            sim_fail(&r->report, "I20", "two runs of one seed differ");
            report(r, opt);
            return false;
        }
    }
    return true;
}

static void print_totals(const struct sim_run *r, const char *name, uint64_t seeds, double took)
{
    const struct sim_totals *t = &r->totals;
    const struct sim_counts *c = sim_disk_counts(r->disk);

    printf("sim swarm=%s seeds=%" PRIu64, name, seeds);
#define X(field) printf(" %s=%" PRIu64, #field, t->field);
    SIM_TOTAL_LIST(X)
#undef X
#define X(field)                                                                                   \
    if (c->field != 0) {                                                                           \
        printf(" %s=%" PRIu64, #field, c->field);                                                  \
    }
    SIM_COUNT_LIST(X)
#undef X
    printf(" seeds_per_s=%.0f\n", (double)seeds / (took > 0 ? took : 1e-9));
    (void)fflush(stdout);
}

static bool play_range(const struct options *opt, const struct sim_swarm *swarm, uint64_t seed,
                       uint64_t seeds)
{
    struct sim_run *r = sim_run_new();
    double begun = seconds();
    bool good = true;
    uint64_t played = 0;

    r->trace = opt->trace;
    running = r;
    printf("seeds %" PRIu64 " to %" PRIu64 ", swarm %s\n", seed, seed + seeds - 1, swarm->name);
    (void)fflush(stdout);
    for (; played < seeds && (good || opt->keep); played++) {
        good = play(r, opt, swarm, seed + played) && good;
    }
    print_totals(r, swarm->name, played, seconds() - begun);
    sim_run_free(r);
    return good;
}

static bool play_all(const struct options *opt)
{
    bool good = play_range(opt, &sim_swarms[0], opt->seed, opt->all);

    for (const struct sim_swarm *s = sim_swarms + 1; s->name != NULL; s++) {
        good = play_range(opt, s, opt->seed, opt->all / 6 + 1) && good;
    }
    return good;
}

static bool play_file(const struct options *opt)
{
    FILE *file = fopen(opt->seeds_file, "r");
    char line[256];
    bool good = true;

    if (file == NULL) {
        (void)fprintf(stderr, "cannot open %s\n", opt->seeds_file);
        return false;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char name[32];
        uint64_t seed;
        const struct sim_swarm *swarm;

        if (line[0] == '#' || sscanf(line, "%31s %" SCNu64, name, &seed) != 2) {
            continue;
        }
        swarm = sim_swarm_find(name);
        if (swarm == NULL) {
            (void)fprintf(stderr, "there is no swarm %s\n", name);
            good = false;
            continue;
        }
        good = play_range(opt, swarm, seed, 1) && good;
    }
    (void)fclose(file);
    return good;
}

static bool sweep(const struct options *opt)
{
    struct sim_run *r = sim_run_new();
    double begun = seconds();
    bool good;

    running = r;
    r->trace = opt->trace;
    good = strcmp(opt->sweep, "crash") == 0
               ? sim_sweep_crash(r, opt->seed, opt->sweep_count, opt->every)
               : sim_sweep_fault(r, opt->seed, opt->sweep_count, opt->every);
    print_totals(r, opt->sweep, opt->sweep_count, seconds() - begun);
    sim_run_free(r);
    return good;
}

static int usage(void)
{
    (void)fprintf(
        stderr,
        "usage: tarry-sim SEED [SEEDS] [SWARM] [--swarm NAME] [--trace] [--once | --again N] "
        "[--keep] [--mutant NAME]\n"
        "       tarry-sim --all N | --seeds-file FILE | --sweep crash|fault N [--every K] | "
        "--list\n"
        "       tarry-sim-mutants [SWARM|MUTANT] [--table FILE | --noted FILE]\n");
    return 2;
}

static bool number(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

/* An option with its arguments at argv[*i]; false: wrong. */
static bool option(struct options *opt, int argc, char **argv, int *i)
{
    const char *name = argv[*i];
    const char *value = *i + 1 < argc ? argv[*i + 1] : NULL;

    if (strcmp(name, "--trace") == 0) {
        opt->trace = true;
        return true;
    }
    if (strcmp(name, "--once") == 0) {
        opt->again = 0;
        return true;
    }
    if (strcmp(name, "--keep") == 0) {
        opt->keep = true;
        return true;
    }
    if (strcmp(name, "--list") == 0) {
        opt->list = true;
        return true;
    }
    if (value == NULL) {
        return false;
    }
    (*i)++;
    if (strcmp(name, "--swarm") == 0) {
        opt->swarm = value;
    } else if (strcmp(name, "--seeds-file") == 0) {
        opt->seeds_file = value;
    } else if (strcmp(name, "--table") == 0) {
        opt->table = value;
    } else if (strcmp(name, "--noted") == 0) {
        opt->noted = value;
    } else if (strcmp(name, "--mutant") == 0) {
        opt->mutant = value;
    } else if (strcmp(name, "--all") == 0) {
        return number(value, &opt->all);
    } else if (strcmp(name, "--again") == 0) {
        return number(value, &opt->again);
    } else if (strcmp(name, "--every") == 0) {
        return number(value, &opt->every) && opt->every != 0;
    } else if (strcmp(name, "--sweep") == 0 && *i + 1 < argc) {
        opt->sweep = value;
        return (strcmp(value, "crash") == 0 || strcmp(value, "fault") == 0) &&
               number(argv[++*i], &opt->sweep_count);
    } else {
        return false;
    }
    return true;
}

static bool parse(struct options *opt, int argc, char **argv)
{
    unsigned place = 0;

    *opt = (struct options){.seed = 1, .seeds = 1, .again = 1, .every = 1};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            if (!option(opt, argc, argv, &i)) {
                return false;
            }
        } else if (place < 2 && number(argv[i], place == 0 ? &opt->seed : &opt->seeds)) {
            place++;
        } else if (opt->swarm == NULL && argv[i][0] != '\0') {
            opt->swarm = argv[i];
        } else if (argv[i][0] != '\0') {
            return false;
        }
    }
    return true;
}

static void list(void)
{
    for (const struct sim_swarm *s = sim_swarms; s->name != NULL; s++) {
        printf("%-10s %s\n", s->name, s->what);
    }
}

/* Engines come and go by the thousand: their memory is not mapped anew each time. */
static void keep_memory(void)
{
#ifdef M_MMAP_MAX
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

int main(int argc, char **argv)
{
    struct options opt;
    const struct sim_swarm *swarm;

    keep_memory();
    if (!parse(&opt, argc, argv)) {
        return usage();
    }
    (void)signal(SIGABRT, last_words);
    (void)signal(SIGSEGV, last_words);
    if (opt.list) {
        list();
        return 0;
    }
#ifdef TR_MUTANTS
    if (opt.mutant == NULL) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        return opt.noted != NULL ? sim_mutants_check(opt.swarm, opt.noted)
                                 : sim_mutants_run(opt.swarm, opt.table);
    }
#endif
    if (opt.mutant != NULL && !sim_mutants_select(opt.mutant)) {
        return usage();
    }
    swarm = sim_swarm_find(opt.swarm != NULL ? opt.swarm : sim_swarms[0].name);
    if (swarm == NULL) {
        return usage();
    }
    if (opt.sweep != NULL) {
        return sweep(&opt) ? 0 : 1;
    }
    if (opt.all != 0) {
        return play_all(&opt) ? 0 : 1;
    }
    if (opt.seeds_file != NULL) {
        return play_file(&opt) ? 0 : 1;
    }
    return play_range(&opt, swarm, opt.seed, opt.seeds) ? 0 : 1;
}
