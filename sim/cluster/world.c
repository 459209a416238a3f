/*
 * Three servers with four slots, each server with a replica that lags. A failover makes the
 * replica's state the server's, under a new name: an earlier state of itself, since effects of a
 * script reach a replica as one. A slot moves key by key; while it does, a call finds all its keys
 * (and runs), none (ASK), or some (TRYAGAIN), and a key that vanishes inside a script is an error.
 */

#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void promote(struct world *w, unsigned server)
{
    struct server *s = &w->servers[server];

    (void)snprintf(s->life, sizeof s->life, "%08x%08x", server, ++s->promotions);
}

/* Its slots are with another life. */
static void change(struct world *w, unsigned server)
{
    for (unsigned s = 0; s <= SLOTS; s++) {
        w->changes[s] += w->owner[s] == (int)server || w->moving_to[s] == (int)server;
    }
}

static void new_life(struct world *w, unsigned server)
{
    struct server *s = &w->servers[server];

    promote(w, server);
    s->lives++;
    s->scripts = 0;
    (void)snprintf(s->run, sizeof s->run, "run-%u-%u", server, s->lives);
}

void world_init(struct world *w, uint64_t seed, struct fake_lua *lua)
{
    *w = (struct world){.rng = {seed}, .now_us = UINT64_C(1800000000000000), .lua = lua};
    TR_CHECK(tr_layout_init(&w->layout, "tarry:", SLOTS) == 0);
    for (unsigned i = 0; i < SERVERS; i++) {
        w->servers[i].db = fake_db_new();
        w->servers[i].replica = fake_db_new();
        new_life(w, i);
    }
    for (unsigned i = 0; i <= SLOTS; i++) {
        w->owner[i] = (int)(i % SERVERS);
        w->moving_to[i] = -1;
    }
}

void world_fini(struct world *w)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        fake_db_free(w->servers[i].db);
        fake_db_free(w->servers[i].replica);
    }
}

bool world_dice(struct world *w, unsigned of)
{
    return tr_rng_below(&w->rng, of) == 0;
}

uint64_t world_time(const struct world *w, unsigned server)
{
    return w->now_us + (uint64_t)w->servers[server].skew_us;
}

static struct fake_reply *redirect(struct world *w, const char *word, int server)
{
    char text[64];

    w->redirects++;
    (void)snprintf(text, sizeof text, "%s 0 s%d:1", word, server);
    return fake_error(text);
}

bool world_is(struct tr_span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static bool is_script(const struct world_call *c)
{
    return world_is(c->args[0], "EVAL") || world_is(c->args[0], "EVALSHA");
}

unsigned world_slot(const struct world_call *c)
{
    struct tr_span key = c->args[is_script(c) ? 3 : 1];
    const char *open = memchr(key.at, '{', key.len);
    unsigned slot;

    if (open == NULL || open[1] < '0' || open[1] > '9') {
        return META;
    }
    slot = (unsigned)strtoul(open + 1, NULL, 10);
    return slot < SLOTS ? slot : META;
}

unsigned world_hash_slot(unsigned slot)
{
    char key[16];
    int len = slot == META ? snprintf(key, sizeof key, "{meta}")
                           : snprintf(key, sizeof key, "{%u}", slot);

    return tr_place_hash_slot(key, (size_t)len);
}

/* Which of a call's keys are there: all, none, or some. */
static char keys_there(const struct world *w, const struct world_call *c)
{
    size_t keys = is_script(c) ? strtoul(c->args[2].at, NULL, 10) : 1;
    const struct tr_span *first = &c->args[is_script(c) ? 3 : 1];
    size_t there = 0;

    for (size_t i = 0; i < keys; i++) {
        there += fake_db_has(w->servers[c->server].db, first[i]);
    }
    if (there == keys) {
        return 'a';
    }
    return there == 0 ? 'n' : 's';
}

struct fake_reply *world_refuse(struct world *w, const struct world_call *c)
{
    unsigned slot = world_slot(c);
    bool owns = w->owner[slot] == (int)c->server;
    bool imports = w->moving_to[slot] == (int)c->server && c->asking;
    bool one = !is_script(c) || world_is(c->args[2], "1");
    char there;

    if (w->servers[c->server].loading_until_us > w->now_us) {
        return fake_error("LOADING Redis is loading the dataset in memory");
    }
    if (!owns && !imports) {
        return redirect(w, "MOVED", w->owner[slot]);
    }
    if (w->moving_to[slot] >= 0) {
        there = keys_there(w, c);
        if (there == 'n' && owns) {
            return redirect(w, "ASK", w->moving_to[slot]);
        }
        if (there != 'a' && !one) {
            w->tries++;
            return fake_error("TRYAGAIN Multiple keys request during rehashing of slot");
        }
    }
    if (is_script(c) && w->servers[c->server].full_until_us > w->now_us &&
        strncmp(tr_scripts[fake_script(c->args)].text, "#!lua\n", 6) == 0) {
        w->refusals++;
        return fake_error("OOM command not allowed when used memory > 'maxmemory'.");
    }
    return NULL;
}

struct fake_reply *world_exec(struct world *w, const struct world_call *c)
{
    struct fake_reply *no = world_refuse(w, c);
    struct server *s = &w->servers[c->server];
    struct fake_call call = {.db = s->db,
                             .now_us = world_time(w, c->server),
                             .life = s->life,
                             .args = c->args,
                             .count = c->count};
    unsigned bit;

    if (no != NULL) {
        return no;
    }
    if (!is_script(c)) {
        return fake_plain(w->lua, &call);
    }
    bit = 1U << fake_script(c->args);
    call.moving = w->moving_to[world_slot(c)] >= 0 && !world_is(c->args[2], "1");
    if (world_is(c->args[0], "EVAL")) {
        s->scripts |= bit;
    }
    if ((s->scripts & bit) == 0) {
        return fake_error("NOSCRIPT No matching script. Please use EVAL.");
    }
    return fake_run(w->lua, &call);
}

void world_sync(struct world *w, unsigned server)
{
    fake_db_copy(w->servers[server].replica, w->servers[server].db);
    w->servers[server].synced_us = w->now_us;
}

void world_failover(struct world *w, unsigned server)
{
    w->failovers++;
    fake_db_copy(w->servers[server].db, w->servers[server].replica);
    change(w, server);
    new_life(w, server);
}

void world_demote(struct world *w, unsigned server)
{
    w->failovers++;
    fake_db_copy(w->servers[server].db, w->servers[server].replica);
    change(w, server);
    promote(w, server);
}

void world_begin_move(struct world *w, unsigned slot)
{
    unsigned to = (unsigned)tr_rng_below(&w->rng, SERVERS);

    if (w->moving_to[slot] < 0 && (int)to != w->owner[slot]) {
        w->moving_to[slot] = (int)to;
        w->changes[slot]++;
        w->moves++;
    }
}

void world_step_move(struct world *w, unsigned slot)
{
    unsigned from = (unsigned)w->owner[slot];
    unsigned to = (unsigned)w->moving_to[slot];
    char part[16];
    const char *found;

    (void)snprintf(part, sizeof part, "{%u}", slot);
    found = fake_db_find(w->servers[from].db, part);
    if (found != NULL) {
        char key[TR_PLACE_KEY_MAX];

        (void)snprintf(key, sizeof key, "%s", found);
        fake_db_move(w->servers[to].db, w->servers[from].db, key);
    } else {
        w->owner[slot] = (int)to;
        w->moving_to[slot] = -1;
    }
    world_sync(w, from); /* what moves is on both sides' replicas: a failover loses no key of it */
    world_sync(w, to);
}
