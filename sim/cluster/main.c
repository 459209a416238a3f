/*
 * tarry-sim-cluster: the scripts and the client of the server on Redis, against a Redis that loses,
 * delays, fails over and moves.
 *
 *     tarry-sim-cluster SEED [COUNT]         runs seeds; 1 and the seed if one went wrong
 *     tarry-sim-cluster --mutants [SEEDS]    each deliberate bug must be noticed
 */

#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mutant {
    const char *name;
    enum node_bug bug;          /* of the node, */
    enum tr_script_name script; /* or of a script: */
    const char *old;            /* this is left out, or */
    const char *new;            /* something else said */
};

static const struct mutant mutants[] = {
    {"a call is repeated under a new number", BUG_NEW_OP, 0, NULL, NULL},
    {"a refusal after a loss is believed", BUG_REFUSAL_BELIEVED, 0, NULL, NULL},
    {"all hand-outs of a node have one lease", BUG_LEASE_AGAIN, 0, NULL, NULL},
    {"a push does not keep its answer", BUG_NONE, TR_SCRIPT_PUSH,
     "call('HSET', META, kind .. NODE, OP .. pack(reply))", ""},
    {"an edit does not keep its answer", BUG_NONE, TR_SCRIPT_EDIT,
     "call('HSET', META, kind .. NODE, OP .. pack(reply))", ""},
    {"a push that was overtaken is done", BUG_NONE, TR_SCRIPT_PUSH, "return {'STALE'}",
     "return nil"},
    {"ids that were undone are used again", BUG_NONE, TR_SCRIPT_CHECK,
     "max(tonumber(got[3]) or 0, ms, seen) + jump", "max(tonumber(got[3]) or 0, seen)"},
    {"two failovers in a row jump equally far", BUG_NONE, TR_SCRIPT_CHECK,
     "+ 1024 * (ms % 1048576)", ""},
    {"any lease will do", BUG_NONE, TR_SCRIPT_EDIT, "or j.lease ~= lease", ""},
    {"the latest time seen counts as now", BUG_NONE, TR_SCRIPT_TAKE, "base = math.max(now, tmax)",
     "now = math.max(now, tmax)"},
    {"what was taken stays in its set", BUG_NONE, TR_SCRIPT_TAKE, "each(t.drop, 'ZREM')", ""},
    {"a release forgets to add", BUG_NONE, TR_SCRIPT_EDIT, "each(t.add, 'ZADD')", ""},
};

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

/* False: something went wrong, and is told. */
static bool run(uint64_t seed, const struct mutant *m, bool quiet)
{
    struct cluster *c = malloc(sizeof *c);
    char *text;
    struct fake_lua *lua = lua_of(m, &text);
    bool ok;

    TR_CHECK(c != NULL);
    cluster_init(c, seed, lua, m != NULL ? m->bug : BUG_NONE);
    cluster_run(c, c->world.now_us + 8000000);
    if (c->judge.wrong[0] == '\0') {
        cluster_drain(c);
    }
    ok = c->judge.wrong[0] == '\0';
    if (!quiet && !ok) {
        printf("seed %llu: %s\n", (unsigned long long)seed, c->judge.wrong);
    }
    if (!quiet && ok && seed % 100 == 0) {
        printf("seed %llu: jobs=%u answers=%llu repeats=%llu lost=%llu unknown=%llu failovers=%llu "
               "moves=%llu redirects=%llu tryagain=%llu\n",
               (unsigned long long)seed, c->judge.count, (unsigned long long)c->answers,
               (unsigned long long)c->repeats, (unsigned long long)c->losses,
               (unsigned long long)c->unknowns, (unsigned long long)c->world.failovers,
               (unsigned long long)c->world.moves, (unsigned long long)c->world.redirects,
               (unsigned long long)c->world.tries);
    }
    cluster_fini(c);
    fake_lua_free(lua);
    free(text);
    free(c);
    return ok;
}

static int run_mutants(uint64_t seeds)
{
    int missed = 0;

    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        uint64_t seed = 1;

        while (seed <= seeds && run(seed, &mutants[i], true)) {
            seed++;
        }
        if (seed > seeds) {
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
    count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (strcmp(argv[1], "--mutants") == 0) {
        return run_mutants(argc > 2 ? count : 300);
    }
    seed = strtoull(argv[1], NULL, 10);
    for (uint64_t i = 0; i < count; i++) {
        if (!run(seed + i, NULL, false)) {
            return 1;
        }
    }
    printf("%llu seeds, all well\n", (unsigned long long)count);
    return 0;
}
