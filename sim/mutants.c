/*
 * Would the simulator notice?
 *
 * Each row of TR_MUTANT_LIST breaks one rule of the engine in the real code. For each, seeds of its
 * swarm are played in a child process, from 1 on, until one notices: a broken promise, a failed
 * check, a crash, a hang. A row whose bug is not noticed within its budget of seeds fails the test.
 * Then some more seeds tell how often it is noticed. A seed counts only if it is clean without the
 * bug: the same seed is played again with none.
 *
 * The table takes minutes. `make test` asks less: is each bug still noticed by the seed that the
 * page doc/mutations.md notes for it? Only where it is not (the engine or the dice have changed, or
 * the row is new) seeds are played from 1 on as above.
 *
 * Two workers take rows in turn; what they find stands in memory that all processes share.
 */
#define _DEFAULT_SOURCE

#include "mutants.h"

#include "base/mutant.h"
#include "run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef TR_MUTANTS

enum tr_mutant tr_mutant_now = TR_MUTANT_NONE;

enum { WORKERS = 2, RATE_SEEDS = 200, RATE_SECONDS = 20, HANG_SECONDS = 20, HOW_MAX = 200 };

static const struct row {
    const char *name;
    const char *rule;
    const char *what;
    const char *where;
    const char *swarm;
    uint64_t seeds;
} rows[] = {{NULL, NULL, NULL, NULL, NULL, 0},
#define X(name, rule, what, where, swarm, seeds) {#name, rule, what, where, swarm, seeds},
            TR_MUTANT_LIST(X)
#undef X
};

/* Shared by all processes. */
struct found {
    uint64_t seed;  /* being played */
    uint64_t first; /* that noticed; 0: none */
    uint64_t played;
    uint64_t caught;
    uint64_t base; /* seeds that fail without any bug, too */
    bool in_seed;
    bool in_base;
    char how[HOW_MAX];
};

struct board {
    int next;                        /* row; taken with an atomic add */
    bool only_once;                  /* no more than one seed that notices is wanted */
    uint64_t noted[TR_MUTANT_COUNT]; /* seeds that noticed once; 0: not known */
    struct found found[TR_MUTANT_COUNT];
};

static void notice(struct found *f, const char *how)
{
    f->caught++;
    if (f->first == 0) {
        f->first = f->seed;
        (void)snprintf(f->how, sizeof(f->how), "%s", how);
    }
}

/* Does the seed fail without any bug, too? */
static bool fails_anyway(struct sim_run *r, const struct sim_swarm *swarm, struct found *f)
{
    enum tr_mutant mutant = tr_mutant_now;
    uint64_t digest;
    bool good;

    tr_mutant_now = TR_MUTANT_NONE;
    f->in_base = true;
    good = sim_run_seed(r, swarm, f->seed, NULL, &digest);
    f->in_base = false;
    tr_mutant_now = mutant;
    return !good;
}

/* In the child: plays seeds until the budget is used up, or enough is known. */
static void play_seeds(const struct row *row, struct found *f, uint64_t last, time_t until)
{
    struct sim_run *r = sim_run_new();
    const struct sim_swarm *swarm = sim_swarm_find(row->swarm);

    while (f->seed < last && (f->first == 0 || time(NULL) < until)) {
        uint64_t digest;
        char how[HOW_MAX];

        f->seed++;
        f->in_seed = true;
        (void)alarm(HANG_SECONDS);
        if (!sim_run_seed(r, swarm, f->seed, NULL, &digest)) {
            (void)snprintf(how, sizeof(how), "%s: %.150s", r->report.promise, r->report.text);
            if (fails_anyway(r, swarm, f)) {
                f->base++;
            } else {
                notice(f, how);
            }
        }
        f->in_seed = false;
        f->played++;
        if (f->first == f->seed) {
            return; /* a new budget begins */
        }
    }
}

static void describe_death(char *how, size_t size, int status, FILE *words)
{
    char line[HOW_MAX] = "";

    rewind(words);
    if (fgets(line, sizeof(line), words) != NULL) {
        line[strcspn(line, "\n")] = '\0';
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        (void)snprintf(how, size, "hangs");
    } else if (line[0] != '\0') {
        (void)snprintf(how, size, "%.180s", line);
    } else {
        (void)snprintf(how, size, "dies (%d)", status);
    }
}

/* The same for a seed in which the child died. */
static bool dies_anyway(const struct row *row, struct found *f)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct sim_run *r = sim_run_new();

        (void)alarm(HANG_SECONDS);
        _exit(fails_anyway(r, sim_swarm_find(row->swarm), f));
    }
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

/* Plays seeds up to `last` in children; one that dies has noticed. */
static void play_in_children(const struct row *row, struct found *f, uint64_t last, time_t until)
{
    uint64_t first = f->first;

    while (f->seed < last && f->first == first && (f->first == 0 || time(NULL) < until)) {
        FILE *words = tmpfile();
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
            (void)dup2(fileno(words), STDERR_FILENO);
            play_seeds(row, f, last, until);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0) {
            return;
        }
        if (f->in_seed) {
            char how[HOW_MAX];

            describe_death(how, sizeof(how), status, words);
            f->in_seed = false;
            f->played++;
            if (f->in_base || dies_anyway(row, f)) {
                f->base++;
                f->in_base = false;
            } else {
                notice(f, how);
            }
        }
        (void)fclose(words);
    }
}

static void play_row(struct board *board, int number)
{
    const struct row *row = &rows[number];
    struct found *f = &board->found[number];

    tr_mutant_now = (enum tr_mutant)number;
    if (sim_swarm_find(row->swarm) == NULL) {
        (void)snprintf(f->how, sizeof(f->how), "there is no swarm %s", row->swarm);
        return;
    }
    if (board->noted[number] != 0) {
        f->seed = board->noted[number] - 1;
        play_in_children(row, f, board->noted[number], 0);
    }
    if (f->first == 0) {
        f->seed = 0;
        play_in_children(row, f, row->seeds, 0);
    }
    if (f->first != 0 && !board->only_once) {
        time_t until = time(NULL) + RATE_SECONDS;

        play_in_children(row, f, f->seed + RATE_SEEDS, until);
    }
}

static bool is_meant(int number, const char *only)
{
    return only == NULL || strcmp(only, rows[number].swarm) == 0 ||
           strcmp(only, rows[number].name) == 0;
}

static void work(struct board *board, const char *only)
{
    for (;;) {
        int number = __atomic_add_fetch(&board->next, 1, __ATOMIC_SEQ_CST);

        if (number >= TR_MUTANT_COUNT) {
            return;
        }
        if (is_meant(number, only)) {
            play_row(board, number);
            (void)fprintf(stderr, "%s: %s\n", rows[number].name, board->found[number].how);
        }
    }
}

/* Plays the rows that are meant, in two processes, to the end. */
static void play_rows(struct board *board, const char *only)
{
    for (int i = 0; i < WORKERS; i++) {
        pid_t worker = fork();

        if (worker == 0) {
            work(board, only);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
}

static struct board *new_board(void)
{
    void *at =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return at != MAP_FAILED ? at : NULL;
}

static void tell_base(const struct row *row, const struct found *f)
{
    (void)fprintf(stderr, "%s: %" PRIu64 " seeds of swarm %s fail without the bug, too\n",
                  row->name, f->base, row->swarm);
}

static bool print_table(const struct board *board, const char *only, FILE *out)
{
    bool all = true;
    bool clean = true;

    (void)fprintf(
        out,
        "# Mutations\n\n"
        "Each row is a deliberate bug in the real code. It is played on seeds of its swarm until\n"
        "the simulator notices; a row that is not noticed within its seeds is a failure. A seed\n"
        "counts only if it passes without the bug. `make mutants` writes this page, which takes\n"
        "minutes; `make test` plays the first catches again, and others where those are no "
        "more.\n\n");
    (void)fprintf(out, "| rule | mutation | where | swarm | seeds allowed | first catch | rate | "
                       "how it was noticed |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 1; i < TR_MUTANT_COUNT; i++) {
        const struct row *row = &rows[i];
        const struct found *f = &board->found[i];

        if (!is_meant(i, only)) {
            continue;
        }
        clean = clean && f->base == 0;
        if (f->base != 0 && out == stdout) {
            tell_base(row, f);
        }
        (void)fprintf(out, "| %s | %s: %s | %s | %s | %" PRIu64 " | ", row->rule, row->name,
                      row->what, row->where, row->swarm, row->seeds);
        if (f->first == 0) {
            all = false;
            (void)fprintf(out, "**none** | 0 of %" PRIu64 " | %s |\n", f->played, f->how);
        } else {
            (void)fprintf(out, "%" PRIu64 " | %.1f %% | %s |\n", f->first,
                          100.0 * (double)f->caught / (double)f->played, f->how);
        }
    }
    return all && clean;
}

int sim_mutants_run(const char *only, const char *table)
{
    struct board *board = new_board();
    bool all;

    if (board == NULL) {
        return 1;
    }
    play_rows(board, only);
    all = print_table(board, only, stdout);
    if (table != NULL) {
        FILE *out = fopen(table, "w");

        if (out == NULL) {
            return 1;
        }
        (void)print_table(board, only, out);
        (void)fclose(out);
    }
    return all ? 0 : 1;
}

/* Its row; 0: there is none. */
static int find_row(const char *name)
{
    int number = TR_MUTANT_COUNT - 1;

    while (number > 0 && strcmp(rows[number].name, name) != 0) {
        number--;
    }
    return number;
}

/* The first catches of the page that print_table wrote. */
static bool read_page(struct board *board, const char *page)
{
    FILE *in = fopen(page, "r");
    char line[1024];

    if (in == NULL) {
        (void)fprintf(stderr, "cannot open %s\n", page);
        return false;
    }
    while (fgets(line, sizeof(line), in) != NULL) {
        char name[64];
        uint64_t first;

        if (sscanf(line, "| %*[^|]| %63[A-Z0-9_]: %*[^|]| %*[^|]| %*[^|]| %*[^|]| %" SCNu64, name,
                   &first) == 2) {
            board->noted[find_row(name)] = first;
        }
    }
    (void)fclose(in);
    return true;
}

int sim_mutants_check(const char *only, const char *page)
{
    struct board *board = new_board();
    unsigned meant = 0;
    unsigned noticed = 0;
    unsigned elsewhere = 0;
    bool clean = true;

    if (board == NULL || !read_page(board, page)) {
        return 1;
    }
    board->only_once = true;
    play_rows(board, only);
    for (int i = 1; i < TR_MUTANT_COUNT; i++) {
        const struct found *f = &board->found[i];

        if (!is_meant(i, only)) {
            continue;
        }
        meant++;
        noticed += f->first != 0;
        if (f->first != 0 && f->first != board->noted[i]) {
            printf("%s is noticed by seed %" PRIu64 " now: %s\n", rows[i].name, f->first, f->how);
            elsewhere++;
        }
        clean = clean && f->base == 0;
        if (f->first == 0) {
            printf("%s is not noticed by seed %" PRIu64 ", nor by 1 to %" PRIu64 " of swarm %s\n",
                   rows[i].name, board->noted[i], rows[i].seeds, rows[i].swarm);
        }
        if (f->base != 0) {
            tell_base(&rows[i], f);
        }
    }
    printf("%u of %u mutations are noticed, %u of them by another seed than %s notes%s\n", noticed,
           meant, elsewhere, page, elsewhere != 0 ? " (make mutants writes it anew)" : "");
    return noticed == meant && clean ? 0 : 1;
}

int sim_mutants_select(const char *name)
{
    int number = find_row(name);

    tr_mutant_now = (enum tr_mutant)number;
    return number != 0;
}

#else

int sim_mutants_run(const char *only, const char *table)
{
    (void)only;
    (void)table;
    (void)fprintf(stderr, "this build has no mutants\n");
    return 2;
}

int sim_mutants_check(const char *only, const char *page)
{
    return sim_mutants_run(only, page);
}

int sim_mutants_select(const char *name)
{
    (void)name;
    return 0;
}

#endif
