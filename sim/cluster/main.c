/*
 * tarry-sim-cluster: the scripts and the client of the server on Redis, against a Redis that loses,
 * delays, fails over and moves.
 *
 *     tarry-sim-cluster SEED [COUNT]         runs seeds; 1 and the seed if one went wrong
 *     tarry-sim-cluster --sql SEED [COUNT]   the same with a database, of which Redis is an index
 *     tarry-sim-cluster SEED --trace         one seed, and each call
 *     tarry-sim-cluster --mutants [SEEDS [WORDS [FROM]]]    each deliberate bug (of these words)
 * must be noticed, by a seed from FROM to SEEDS
 */

#include "cluster/mutant.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mutant {
    const char *name;
    enum tr_cl_mutant bug;      /* of the engine, */
    enum tr_script_name script; /* or of a script: */
    const char *old;            /* this is left out, or */
    const char *new;            /* something else said */
};

static const struct mutant mutants[] = {
#define X(name, what) {what, TR_CL_MUTANT_##name, 0, NULL, NULL},
    TR_CL_MUTANTS_LIST(X)
#undef X
        {"a push does not keep its answer", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH, "if kept then",
         "if false then"},
    {"an edit does not keep its answer", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT, "if kept then",
     "if false then"},
    {"a push that was overtaken is done", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH,
     "and sub(kept, 1, 14) > OP", "and false"},
    {"ids that were undone are used again", TR_CL_MUTANT_NONE, TR_SCRIPT_CHECK,
     "local seq = math.max(tonumber(got[3]) or 0, math.min(ms, wall + 5000), seen)",
     "jump = 0 local seq = math.max(tonumber(got[3]) or 0, seen)"},
    {"a push believes what its connection was told once", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH,
     "if not kept and slot_is[2] ~= life() then", "if false then"},
    {"two failovers in a row jump equally far", TR_CL_MUTANT_NONE, TR_SCRIPT_CHECK,
     "+ 1024 * (wall % 1048576)", ""},
    {"any lease will do", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT, "or j.lease ~= leases[i]", ""},
    {"the latest time seen counts as now", TR_CL_MUTANT_NONE, TR_SCRIPT_TAKE,
     "base = max(now, tmax)", "now = max(now, tmax)"},
    {"a clock that is behind counts", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH,
     "base = max(base, tonumber(ARGV[5]))", ""},
    {"what was taken stays in its set", TR_CL_MUTANT_NONE, TR_SCRIPT_TAKE, "each(t.drop, 'ZREM')",
     ""},
    {"more are in flight than may be", TR_CL_MUTANT_NONE, TR_SCRIPT_TAKE,
     "t.in_flight - (call('ZCARD', t.prep) - #ended)", "allowed"},
    {"a bucket stays full", TR_CL_MUTANT_NONE, TR_SCRIPT_TAKE, "t.level_new = t.level_now - #ids",
     "t.level_new = t.level_now"},
    {"quick: limits are not minded", TR_CL_MUTANT_NONE, TR_SCRIPT_TAKE,
     "and not (c[4] or c[5] or c[6] or c[7])", ""},
    {"quick: any lease will do", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT, "and sub(h, 29, 36) == lease",
     ""},
    {"quick: the next header is like this one", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT,
     "if h ~= was or leases[i] ~= lease then", "if not was then"},
    {"quick: a push does not keep its answer", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH,
     "OP .. put('>I2I2', 8, #told) .. vers .. told .. 'n' .. put('>I7I7', base, from)", "''"},
    {"quick: an ack does not keep its answer", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT,
     "call('HSET', META, KIND .. NODE, OP .. put('>I2I2', 8, 0) .. vers .. put('>I2I2', 1, 2) .. "
     "'Op')",
     ""},
    {"who is told of a later job is forgotten", TR_CL_MUTANT_NONE, TR_SCRIPT_PUSH,
     "if wake and (t.freed or t.soonest <= now) then", "if wake then"},
    {"a schedule moves on without a look at its last number", TR_CL_MUTANT_NONE, TR_SCRIPT_SCHEDULE,
     "sub(is, 1, 30) ~= stamp and stamp ~= '*' and what ~= 'r'", "false"},
    {"a purge leaves what is handed out", TR_CL_MUTANT_NONE, TR_SCRIPT_PURGE, "r = 'p'", "r = 'd'"},
    {"a list leaves one out", TR_CL_MUTANT_NONE, TR_SCRIPT_LIST, "for i = 1, math.min(most, #jobs)",
     "for i = 2, math.min(most, #jobs)"},
    {"who is the owner no more goes on", TR_CL_MUTANT_NONE, TR_SCRIPT_TEND,
     "is[2] ~= NODE or is[1] ~= ARGV[REST + 2]", "false"},
    {"with a database: an older image replaces a newer one", TR_CL_MUTANT_NONE, TR_SCRIPT_INDEX,
     "if e.is and e.is.ver > j.ver then", "if false then"},
    {"with a database: a claim has no end", TR_CL_MUTANT_NONE, TR_SCRIPT_CLAIM, "now + 3000000",
     "now + 3000000000"},
    {"with a database: no epoch on loaded", TR_CL_MUTANT_NONE, TR_SCRIPT_RAISE,
     "if is[2] ~= NODE or is[1] ~= epoch then", "if false then"},
    {"with a database: a full set does not lower loaded", TR_CL_MUTANT_NONE, TR_SCRIPT_INDEX,
     "t.loaded, t.count = math.min(t.loaded, one.due), t.count - 1", "t.count = t.count - 1"},
    {"a release forgets to add", TR_CL_MUTANT_NONE, TR_SCRIPT_EDIT, "each(t.add, 'ZADD')", ""},
};

enum tr_cl_mutant tr_cl_mutant_now;

static struct fake_lua *lua_of(const struct mutant *m, char **text)
{
    const struct tr_script *s = m != NULL && m->old != NULL ? &tr_scripts[m->script] : NULL;
    const char *at;
    size_t before, size;

    *text = NULL;
    if (s == NULL) {
        return fake_lua_new(0, NULL, 0);
    }
    *text = malloc(s->len + 200);
    TR_CHECK(*text != NULL);
    memcpy(*text, s->text, s->len);
    (*text)[s->len] = '\0';
    at = strstr(*text, m->old);
    TR_CHECK(at != NULL); /* the script says that no more */
    before = (size_t)(at - *text);
    size = (size_t)snprintf(*text + before, s->len + 200 - before, "%s%.*s", m->new,
                            (int)(s->len - before - strlen(m->old)),
                            s->text + before + strlen(m->old));
    return fake_lua_new(m->script, *text, before + size);
}

static void tell(uint64_t seed, const struct cluster *c)
{
    printf("seed %llu: jobs=%u handed=%llu refused=%llu unknown=%llu calls=%llu repeats=%llu "
           "lost=%llu batches=%llu items=%llu takes=%llu empty=%llu wakes=%llu/%llu back=%llu "
           "tended=%llu ticks=%llu failovers=%llu moves=%llu redirects=%llu tryagain=%llu\n",
           (unsigned long long)seed, c->judge.count, (unsigned long long)c->handed,
           (unsigned long long)c->refusals, (unsigned long long)c->unknowns,
           (unsigned long long)c->stat.calls, (unsigned long long)c->stat.repeats,
           (unsigned long long)c->stat.losses, (unsigned long long)c->stat.batches,
           (unsigned long long)c->stat.items, (unsigned long long)c->stat.takes,
           (unsigned long long)c->stat.empty, (unsigned long long)c->stat.wakes_sent,
           (unsigned long long)c->stat.wakes_heard, (unsigned long long)c->stat.given_back,
           (unsigned long long)c->stat.tended, (unsigned long long)c->judge.ticks,
           (unsigned long long)c->world.failovers, (unsigned long long)c->world.moves,
           (unsigned long long)c->world.redirects, (unsigned long long)c->world.tries);
}

static bool tracing;
static bool with_sql;

/* Is it a bug of what is only there with a database? */
static bool needs_sql(const struct mutant *m)
{
    if (m == NULL) {
        return with_sql;
    }
    return m->bug == TR_CL_MUTANT_RAISED_UNREAD || strncmp(m->name, "with a database", 15) == 0 ||
           (m->old != NULL && m->script >= TR_SCRIPT_CLAIM && m->script <= TR_SCRIPT_SCAN);
}

/* False: something went wrong, and is told. */
static bool run(uint64_t seed, const struct mutant *m, bool quiet)
{
    struct cluster *c = malloc(sizeof *c);
    char *text;
    struct fake_lua *lua = lua_of(m, &text);
    bool ok;

    TR_CHECK(c != NULL);
    tr_cl_mutant_now = m != NULL ? m->bug : TR_CL_MUTANT_NONE;
    cluster_init(c, seed, lua, needs_sql(m));
    c->net.trace = tracing;
    cluster_run(c, c->world.now_us + 8000000);
    if (c->judge.wrong[0] == '\0') {
        cluster_drain(c);
    }
    cluster_stop(c);
    ok = c->judge.wrong[0] == '\0';
    if (!quiet && !ok) {
        printf("seed %llu: %s\n", (unsigned long long)seed, c->judge.wrong);
    }
    if (!quiet && ok && seed % 100 == 0) {
        tell(seed, c);
    }
    cluster_fini(c);
    fake_lua_free(lua);
    free(text);
    free(c);
    return ok;
}

/* Seeds that notice what few do: they are tried first. When the dice have changed they may not any
 * more; then others are looked for, and belong here. */
static const struct {
    const char *name;
    uint64_t seed;
} noted[] = {
    {"with a database: a schedule moves on without a look at its last number", 4},
    {"who becomes the owner of a slot is not told what the last one was told", 800},
    {"with a database: an entry of the row's version is right, after a failover, too", 554},
    {"with a database: an older image replaces a newer one", 457},
    {"a bulk does not know which jobs it has changed", 1},
    {"quick: the next header is like this one", 91},
    {"answers that living nodes may need again are thrown away", 20},
    {"a job that was reserved by its id for nobody stays out", 3},
    {"jobs of a dead node's connections stay out until their lease ends", 3},
    {"ids that were undone are used again", 3},
    {"a bulk is about jobs that came later, too", 1},
    {"a schedule moves on without a look at its last number", 40},
    {"a topic is not asked again when no wake-up comes", 10},
    {"what a take that was given up has handed out stays out", 25},
    {"quick: any lease will do", 3},
};

/* Is it noticed by the seed that is noted for it, which is clean without it? */
static bool is_as_noted(const struct mutant *m, uint64_t *seed)
{
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++) {
        if (strcmp(noted[i].name, m->name) == 0) {
            bool before = with_sql;
            bool clean;

            *seed = noted[i].seed;
            with_sql = needs_sql(m);
            clean = run(*seed, NULL, true);
            with_sql = before;
            return clean && !run(*seed, m, true);
        }
    }
    return false;
}

static int run_mutants(uint64_t seeds, const char *words, uint64_t from)
{
    int missed = 0;

    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        uint64_t seed = 0;

        if (strstr(mutants[i].name, words) == NULL) {
            continue;
        }
        if (from > 1 || !is_as_noted(&mutants[i], &seed)) {
            seed = from;
            while (seed <= seeds && run(seed, &mutants[i], true)) {
                seed++;
            }
            seed = seed <= seeds ? seed : 0;
        }
        if (seed == 0) {
            printf("MISSED in %llu seeds: %s\n", (unsigned long long)seeds, mutants[i].name);
            missed = 1;
        } else {
            printf("seed %llu: %s\n", (unsigned long long)seed, mutants[i].name);
        }
    }
    return missed;
}

int main(int argc, char **argv)
{
    uint64_t seed, count;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: tarry-sim-cluster SEED [COUNT] | --mutants [SEEDS]\n");
        return 2;
    }
    if (strcmp(argv[1], "--sql") == 0 && argc > 2) {
        with_sql = true;
        argv++;
        argc--;
    }
    count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (strcmp(argv[1], "--mutants") == 0) {
        return run_mutants(argc > 2 ? count : 300, argc > 3 ? argv[3] : "",
                           argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    }
    seed = strtoull(argv[1], NULL, 10);
    if (argc > 2 && strcmp(argv[2], "--trace") == 0) {
        tracing = true;
        count = 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!run(seed + i, NULL, false)) {
            return 1;
        }
    }
    printf("%llu seeds, all well\n", (unsigned long long)count);
    return 0;
}
