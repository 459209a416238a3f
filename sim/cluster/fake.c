/*
 * A fake Redis: see fake.h.
 *
 * A key is a list of entries, for a hash in no order, for a sorted set by (score, member); all is
 * looked for from the front, since a slot of the simulation has some dozen jobs. A key without an
 * entry is not there, as in Redis.
 *
 * A script that fails keeps what it did until then, as in Redis.
 */

#include "fake.h"

#include "base/check.h"
#include "packs.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char *name;
    size_t name_len;
    char *value; /* of a hash */
    size_t value_len;
    double score;
};

struct key {
    char *name;
    bool sorted;
    struct entry *entries;
    size_t count;
};

struct fake_db {
    struct key *keys;
    size_t count;
};

struct fake_lua {
    lua_State *state;
    int chunks[TR_SCRIPT_COUNT];
    const struct fake_call *call; /* the one that runs */
};

/* ---- memory and keys ---- */

static void *grow(void *p, size_t size)
{
    void *got = realloc(p, size != 0 ? size : 1);

    TR_CHECK(got != NULL);
    return got;
}

static char *copy(const char *text, size_t len)
{
    char *got = grow(NULL, len + 1);

    if (len > 0) {
        memcpy(got, text, len);
    }
    got[len] = '\0';
    return got;
}

static void entry_free(struct entry *e)
{
    free(e->name);
    free(e->value);
}

static void key_free(struct key *k)
{
    for (size_t i = 0; i < k->count; i++) {
        entry_free(&k->entries[i]);
    }
    free(k->entries);
    free(k->name);
}

struct fake_db *fake_db_new(void)
{
    struct fake_db *db = grow(NULL, sizeof *db);

    *db = (struct fake_db){0};
    return db;
}

static void clear(struct fake_db *db)
{
    for (size_t i = 0; i < db->count; i++) {
        key_free(&db->keys[i]);
    }
    free(db->keys);
    *db = (struct fake_db){0};
}

void fake_db_free(struct fake_db *db)
{
    clear(db);
    free(db);
}

static struct key *add_key(struct fake_db *db, const char *name, bool sorted)
{
    db->keys = grow(db->keys, (db->count + 1) * sizeof *db->keys);
    db->keys[db->count] = (struct key){.name = copy(name, strlen(name)), .sorted = sorted};
    return &db->keys[db->count++];
}

void fake_db_copy(struct fake_db *to, const struct fake_db *from)
{
    clear(to);
    for (size_t i = 0; i < from->count; i++) {
        const struct key *k = &from->keys[i];
        struct key *mine = add_key(to, k->name, k->sorted);

        mine->entries = grow(NULL, k->count * sizeof *k->entries);
        mine->count = k->count;
        for (size_t j = 0; j < k->count; j++) {
            const struct entry *e = &k->entries[j];

            mine->entries[j] = (struct entry){.name = copy(e->name, e->name_len),
                                              .name_len = e->name_len,
                                              .value = copy(e->value, e->value_len),
                                              .value_len = e->value_len,
                                              .score = e->score};
        }
    }
}

static struct key *find_key(const struct fake_db *db, const char *name)
{
    for (size_t i = 0; i < db->count; i++) {
        if (strcmp(db->keys[i].name, name) == 0) {
            return &db->keys[i];
        }
    }
    return NULL;
}

static void drop_key(struct fake_db *db, struct key *k)
{
    size_t at = (size_t)(k - db->keys);

    key_free(k);
    db->count--;
    memmove(&db->keys[at], &db->keys[at + 1], (db->count - at) * sizeof *k);
}

const char *fake_db_find(const struct fake_db *db, const char *part)
{
    for (size_t i = 0; i < db->count; i++) {
        if (strstr(db->keys[i].name, part) != NULL) {
            return db->keys[i].name;
        }
    }
    return NULL;
}

void fake_db_move(struct fake_db *to, struct fake_db *from, const char *key)
{
    struct key *k = find_key(from, key);

    TR_CHECK(k != NULL);
    to->keys = grow(to->keys, (to->count + 1) * sizeof *to->keys);
    to->keys[to->count++] = *k;
    from->count--;
    memmove(k, k + 1, (from->count - (size_t)(k - from->keys)) * sizeof *k);
}

bool fake_db_has(const struct fake_db *db, struct tr_span key)
{
    char *name = copy(key.at, key.len);
    bool has = find_key(db, name) != NULL;

    free(name);
    return has;
}

/* ---- entries ---- */

static struct entry *find_entry(const struct key *k, struct tr_span name)
{
    for (size_t i = 0; k != NULL && i < k->count; i++) {
        if (k->entries[i].name_len == name.len &&
            memcmp(k->entries[i].name, name.at, name.len) == 0) {
            return &k->entries[i];
        }
    }
    return NULL;
}

static bool before(const struct entry *a, const struct entry *b)
{
    size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order;

    if (a->score < b->score || b->score < a->score) {
        return a->score < b->score;
    }
    order = memcmp(a->name, b->name, len);
    return order != 0 ? order < 0 : a->name_len < b->name_len;
}

static void remove_entry(struct fake_db *db, struct key *k, struct entry *e)
{
    size_t at = (size_t)(e - k->entries);

    entry_free(e);
    k->count--;
    memmove(e, e + 1, (k->count - at) * sizeof *e);
    if (k->count == 0) {
        drop_key(db, k);
    }
}

static void insert(struct key *k, struct entry e)
{
    size_t at = k->count;

    k->entries = grow(k->entries, (k->count + 1) * sizeof *k->entries);
    while (k->sorted && at > 0 && before(&e, &k->entries[at - 1])) {
        k->entries[at] = k->entries[at - 1];
        at--;
    }
    k->entries[at] = e;
    k->count++;
}

/* ---- commands, as Lua calls them ---- */

/* One command: its arguments as spans; Lua's stack keeps them. */
struct command {
    lua_State *lua;
    struct fake_db *db;
    struct tr_span args[600];
    char numbers[600][32];
    size_t count;
    struct key *key;
    char *name; /* of the key */
};

static bool is(struct tr_span s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

static double bound(struct tr_span s, bool *open)
{
    char text[64];

    *open = s.len > 0 && s.at[0] == '(';
    (void)snprintf(text, sizeof text, "%.*s", (int)s.len - *open, s.at + *open);
    if (strcmp(text, "-inf") == 0) {
        return -INFINITY;
    }
    return strcmp(text, "+inf") == 0 ? INFINITY : strtod(text, NULL);
}

static struct key *need(struct command *c, bool sorted)
{
    if (c->key == NULL) {
        c->key = add_key(c->db, c->name, sorted);
    }
    return c->key;
}

static void push_value(struct command *c, const struct entry *e)
{
    if (e != NULL) {
        lua_pushlstring(c->lua, e->value, e->value_len);
    } else {
        lua_pushboolean(c->lua, 0);
    }
}

static void hmget(struct command *c)
{
    lua_newtable(c->lua);
    for (size_t i = 2; i < c->count; i++) {
        push_value(c, find_entry(c->key, c->args[i]));
        lua_rawseti(c->lua, -2, (int)i - 1);
    }
}

static void hkeys(struct command *c)
{
    lua_newtable(c->lua);
    for (size_t i = 0; c->key != NULL && i < c->key->count; i++) {
        lua_pushlstring(c->lua, c->key->entries[i].name, c->key->entries[i].name_len);
        lua_rawseti(c->lua, -2, (int)i + 1);
    }
}

/* Any number that is always the same for a name: the order in which HSCAN meets them. */
static double turn_of(const struct entry *e)
{
    unsigned sum = 1;

    for (size_t i = 0; i < e->name_len; i++) {
        sum = sum * 31 + (unsigned char)e->name[i];
    }
    return 1 + sum % 1000003;
}

/* HSCAN key cursor COUNT n: those whose turn is behind the cursor, up to that of the n-th. */
static void hscan(struct command *c)
{
    bool open;
    double from = bound(c->args[2], &open), next = INFINITY;
    double most = bound(c->args[4], &open);
    size_t out = 0;
    char text[32] = "0";

    for (double met = 0; c->key != NULL && met < most; met++) {
        double first = INFINITY;

        for (size_t i = 0; i < c->key->count; i++) {
            double turn = turn_of(&c->key->entries[i]);

            first = turn > (met > 0 ? next : from) && turn < first ? turn : first;
        }
        next = first;
        if (!isfinite(next)) {
            break;
        }
    }
    lua_newtable(c->lua);
    lua_newtable(c->lua);
    for (size_t i = 0; c->key != NULL && i < c->key->count; i++) {
        const struct entry *e = &c->key->entries[i];

        if (turn_of(e) > from && turn_of(e) <= next) {
            lua_pushlstring(c->lua, e->name, e->name_len);
            lua_rawseti(c->lua, -2, (int)++out);
            lua_pushlstring(c->lua, e->value, e->value_len);
            lua_rawseti(c->lua, -2, (int)++out);
        }
    }
    lua_rawseti(c->lua, -2, 2);
    if (isfinite(next)) {
        (void)snprintf(text, sizeof text, "%.0f", next);
    }
    lua_pushstring(c->lua, text);
    lua_rawseti(c->lua, -2, 1);
}

static void hset(struct command *c)
{
    struct key *k = need(c, false);

    for (size_t i = 2; i + 1 < c->count; i += 2) {
        struct entry *e = find_entry(k, c->args[i]);

        if (e != NULL) {
            free(e->value);
            e->value = copy(c->args[i + 1].at, c->args[i + 1].len);
            e->value_len = c->args[i + 1].len;
        } else {
            insert(k, (struct entry){.name = copy(c->args[i].at, c->args[i].len),
                                     .name_len = c->args[i].len,
                                     .value = copy(c->args[i + 1].at, c->args[i + 1].len),
                                     .value_len = c->args[i + 1].len});
        }
    }
    lua_pushnumber(c->lua, 1);
}

/* HDEL, ZREM */
static void take_out(struct command *c)
{
    for (size_t i = 2; i < c->count; i++) {
        struct key *k = find_key(c->db, c->name);
        struct entry *e = find_entry(k, c->args[i]);

        if (e != NULL) {
            remove_entry(c->db, k, e);
        }
    }
    lua_pushnumber(c->lua, 1);
}

/* ZREMRANGEBYRANK key 0 last */
static void take_out_first(struct command *c)
{
    unsigned long last = strtoul(c->args[3].at, NULL, 10);

    for (unsigned long i = 0; i <= last; i++) {
        struct key *k = find_key(c->db, c->name);

        if (k != NULL) {
            remove_entry(c->db, k, &k->entries[0]);
        }
    }
    lua_pushnumber(c->lua, 1);
}

static void zadd(struct command *c)
{
    bool lower = is(c->args[2], "LT");
    bool open;

    for (size_t i = lower ? 3 : 2; i + 1 < c->count; i += 2) {
        double score = bound(c->args[i], &open);
        struct key *k = need(c, true);
        struct entry *e = find_entry(k, c->args[i + 1]);

        if (e != NULL && lower && score >= e->score) {
            continue;
        }
        if (e != NULL) { /* the key stays: one follows */
            entry_free(e);
            k->count--;
            memmove(e, e + 1, (k->count - (size_t)(e - k->entries)) * sizeof *e);
        }
        insert(k, (struct entry){.name = copy(c->args[i + 1].at, c->args[i + 1].len),
                                 .name_len = c->args[i + 1].len,
                                 .value = copy("", 0),
                                 .score = score});
    }
    lua_pushnumber(c->lua, 1);
}

/* ZRANGE key a b [BYSCORE] [LIMIT from count] [WITHSCORES] */
static void zrange(struct command *c)
{
    bool by_score = false, scores = false, open_a = false, open_b = false;
    long from = 0, most = -1, out = 0;
    double a, b;

    for (size_t i = 4; i < c->count; i++) {
        by_score = by_score || is(c->args[i], "BYSCORE");
        scores = scores || is(c->args[i], "WITHSCORES");
        if (is(c->args[i], "LIMIT")) {
            from = (long)bound(c->args[i + 1], &open_a);
            most = (long)bound(c->args[i + 2], &open_a);
        }
    }
    a = bound(c->args[2], &open_a);
    b = bound(c->args[3], &open_b);
    if (!by_score && a < 0 && c->key != NULL) {
        a += (double)c->key->count;
    }
    lua_newtable(c->lua);
    for (size_t i = 0; c->key != NULL && i < c->key->count; i++) {
        const struct entry *e = &c->key->entries[i];
        double at = by_score ? e->score : (double)i;
        double end = !by_score && b < 0 ? (double)c->key->count + b : b;
        char text[32];

        if (at < a || (open_a && at <= a) || at > end || (open_b && at >= end) || from-- > 0) {
            continue;
        }
        if (most-- == 0) {
            break;
        }
        lua_pushlstring(c->lua, e->name, e->name_len);
        lua_rawseti(c->lua, -2, (int)++out);
        if (scores) {
            (void)snprintf(text, sizeof text, "%.17g", e->score);
            lua_pushstring(c->lua, text);
            lua_rawseti(c->lua, -2, (int)++out);
        }
    }
}

static void zcount(struct command *c)
{
    bool open_a, open_b;
    double a = bound(c->args[2], &open_a), b = bound(c->args[3], &open_b);
    int count = 0;

    for (size_t i = 0; c->key != NULL && i < c->key->count; i++) {
        double at = c->key->entries[i].score;

        count += !(at < a || (open_a && at <= a) || at > b || (open_b && at >= b));
    }
    lua_pushnumber(c->lua, count);
}

/* A string of bits: each is an entry by its number. */
static void setbit(struct command *c)
{
    const struct entry *e = find_entry(c->key, c->args[2]);
    bool was = e != NULL && e->value[0] == '1';

    hset(c);
    lua_pop(c->lua, 1);
    lua_pushnumber(c->lua, was);
}

static bool run_command(struct command *c)
{
    struct tr_span name = c->args[0];

    if (is(name, "HGET")) {
        push_value(c, find_entry(c->key, c->args[2]));
    } else if (is(name, "HMGET")) {
        hmget(c);
    } else if (is(name, "HKEYS")) {
        hkeys(c);
    } else if (is(name, "HSCAN")) {
        hscan(c);
    } else if (is(name, "HSET")) {
        hset(c);
    } else if (is(name, "SETBIT")) {
        setbit(c);
    } else if (is(name, "HDEL") || is(name, "ZREM")) {
        take_out(c);
    } else if (is(name, "ZREMRANGEBYRANK")) {
        TR_CHECK(is(c->args[2], "0"));
        take_out_first(c);
    } else if (is(name, "ZADD")) {
        zadd(c);
    } else if (is(name, "ZRANGE")) {
        zrange(c);
    } else if (is(name, "ZCARD")) {
        lua_pushnumber(c->lua, c->key != NULL ? (double)c->key->count : 0);
    } else if (is(name, "ZCOUNT")) {
        zcount(c);
    } else if (is(name, "DEL")) {
        if (c->key != NULL) {
            drop_key(c->db, c->key);
        }
        lua_pushnumber(c->lua, 1);
    } else {
        return false;
    }
    return true;
}

/* Numbers become text as Redis makes it: with 17 digits. */
static void read_args(struct command *c)
{
    c->count = (size_t)lua_gettop(c->lua);
    TR_CHECK(c->count > 0 && c->count < sizeof c->args / sizeof c->args[0]);
    for (size_t i = 0; i < c->count; i++) {
        if (lua_type(c->lua, (int)i + 1) == LUA_TNUMBER) {
            (void)snprintf(c->numbers[i], sizeof c->numbers[i], "%.17g",
                           lua_tonumber(c->lua, (int)i + 1));
            c->args[i] = (struct tr_span){c->numbers[i], strlen(c->numbers[i])};
        } else {
            c->args[i].at = lua_tolstring(c->lua, (int)i + 1, &c->args[i].len);
            TR_CHECK(c->args[i].at != NULL);
        }
    }
}

static int redis_call(lua_State *lua)
{
    const struct fake_lua *l = lua_touserdata(lua, lua_upvalueindex(1));
    struct command *c = grow(NULL, sizeof *c);
    bool known;

    *c = (struct command){.lua = lua, .db = l->call->db};
    read_args(c);
    if (is(c->args[0], "TIME")) {
        char text[32];

        free(c);
        lua_newtable(lua);
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)l->call->now_us / 1000000);
        lua_pushstring(lua, text);
        lua_rawseti(lua, -2, 1);
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)l->call->now_us % 1000000);
        lua_pushstring(lua, text);
        lua_rawseti(lua, -2, 2);
        return 1;
    }
    if (is(c->args[0], "INFO")) {
        free(c);
        lua_pushfstring(lua, "# Replication\r\nrole:master\r\nmaster_replid:%s\r\n", l->call->life);
        return 1;
    }
    c->name = copy(c->args[1].at, c->args[1].len);
    c->key = find_key(c->db, c->name);
    if (c->key == NULL && l->call->moving) {
        free(c->name);
        free(c);
        return luaL_error(lua, "ASK: the key is not here while its slot moves");
    }
    known = run_command(c);
    free(c->name);
    free(c);
    return known ? 1 : luaL_error(lua, "the fake Redis does not know that command");
}

/* ---- scripts ---- */

struct fake_lua *fake_lua_new(enum tr_script_name changed, const char *text, size_t len)
{
    struct fake_lua *l = grow(NULL, sizeof *l);
    *l = (struct fake_lua){.state = luaL_newstate()};
    TR_CHECK(l->state != NULL);
    luaL_openlibs(l->state);
    packs_open(l->state);
    lua_newtable(l->state);
    lua_pushlightuserdata(l->state, l);
    lua_pushcclosure(l->state, redis_call, 1);
    lua_setfield(l->state, -2, "call");
    lua_setglobal(l->state, "redis");
    for (unsigned i = 0; i < TR_SCRIPT_COUNT; i++) {
        const struct tr_script *s = &tr_scripts[i];
        bool other = text != NULL && i == (unsigned)changed;
        const char *whole = other ? text : s->text;
        const char *body = strchr(whole, '\n') + 1; /* behind #!lua */
        size_t size = (other ? len : s->len) - (size_t)(body - whole);

        if (luaL_loadbuffer(l->state, body, size, s->name) != 0) {
            (void)fprintf(stderr, "%s\n", lua_tostring(l->state, -1));
            abort();
        }
        l->chunks[i] = luaL_ref(l->state, LUA_REGISTRYINDEX);
    }
    return l;
}

void fake_lua_free(struct fake_lua *l)
{
    lua_close(l->state);
    free(l);
}

static void set_list(lua_State *lua, const char *name, const struct tr_span *args, size_t count)
{
    lua_newtable(lua);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, args[i].at, args[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setglobal(lua, name);
}

struct fake_reply *fake_error(const char *text)
{
    struct fake_reply *r = grow(NULL, sizeof *r);

    *r = (struct fake_reply){.error = copy(text, strlen(text))};
    r->is = (struct tr_redis_reply){.event = TR_REDIS_ERROR, .error = {r->error, strlen(text)}};
    return r;
}

static struct fake_reply *reply_of(lua_State *lua)
{
    struct fake_reply *r = grow(NULL, sizeof *r);
    size_t count = lua_objlen(lua, -1);

    *r = (struct fake_reply){.items = grow(NULL, count * sizeof *r->items)};
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *text;

        lua_rawgeti(lua, -1, (int)i + 1);
        text = lua_tolstring(lua, -1, &len);
        TR_CHECK(text != NULL);
        r->items[i] = (struct tr_span){copy(text, len), len};
        lua_pop(lua, 1);
    }
    r->is = (struct tr_redis_reply){.event = TR_REDIS_LIST, .items = r->items, .count = count};
    return r;
}

struct fake_reply *fake_list(const struct tr_span *items, size_t count)
{
    struct fake_reply *r = grow(NULL, sizeof *r);

    *r = (struct fake_reply){.items = grow(NULL, (count + 1) * sizeof *r->items)};
    for (size_t i = 0; i < count; i++) {
        r->items[i] = items[i].at != NULL
                          ? (struct tr_span){copy(items[i].at, items[i].len), items[i].len}
                          : (struct tr_span){NULL, 0};
    }
    r->is = (struct tr_redis_reply){.event = TR_REDIS_LIST, .items = r->items, .count = count};
    return r;
}

/* What a command gave: a table, a text, a number, or nothing. */
static struct fake_reply *plain_reply(lua_State *lua)
{
    struct tr_span items[1024];
    size_t count = lua_istable(lua, -1) ? lua_objlen(lua, -1) : 1;
    struct fake_reply *r;

    TR_CHECK(count <= sizeof items / sizeof items[0]);
    for (size_t i = 0; i < count; i++) {
        if (lua_istable(lua, 1)) {
            lua_rawgeti(lua, 1, (int)i + 1);
        }
        items[i] = (struct tr_span){NULL, 0};
        if (lua_isstring(lua, -1)) {
            items[i].at = lua_tolstring(lua, -1, &items[i].len);
        }
    }
    r = fake_list(items, count);
    return r;
}

struct fake_reply *fake_plain(struct fake_lua *l, const struct fake_call *call)
{
    struct fake_reply *reply;

    l->call = call;
    lua_settop(l->state, 0);
    TR_CHECK(lua_checkstack(l->state, 2000));
    lua_getglobal(l->state, "redis");
    lua_getfield(l->state, -1, "call");
    lua_remove(l->state, 1);
    for (size_t i = 0; i < call->count; i++) {
        lua_pushlstring(l->state, call->args[i].at, call->args[i].len);
    }
    if (lua_pcall(l->state, (int)call->count, 1, 0) != 0) {
        char text[400];

        (void)snprintf(text, sizeof text, "ERR %s", lua_tostring(l->state, -1));
        reply = fake_error(text);
    } else {
        reply = plain_reply(l->state);
    }
    lua_settop(l->state, 0);
    return reply;
}

unsigned fake_script(const struct tr_span *args)
{
    for (unsigned i = 0; i < TR_SCRIPT_COUNT; i++) {
        const struct tr_script *s = &tr_scripts[i];

        if (is(args[1], s->sha) ||
            (args[1].len == s->len && memcmp(args[1].at, s->text, s->len) == 0)) {
            return i;
        }
    }
    TR_CHECK(args == NULL); /* no script of ours */
    return 0;
}

struct fake_reply *fake_run(struct fake_lua *l, const struct fake_call *call)
{
    size_t keys = strtoul(call->args[2].at, NULL, 10);
    unsigned script = fake_script(call->args);
    struct fake_reply *reply;

    l->call = call;
    set_list(l->state, "KEYS", call->args + 3, keys);
    set_list(l->state, "ARGV", call->args + 3 + keys, call->count - 3 - keys);
    lua_rawgeti(l->state, LUA_REGISTRYINDEX, l->chunks[script]);
    if (lua_pcall(l->state, 0, 1, 0) != 0) {
        char text[400];

        (void)snprintf(text, sizeof text, "ERR %s", lua_tostring(l->state, -1));
        reply = fake_error(text);
    } else {
        reply = reply_of(l->state);
    }
    lua_settop(l->state, 0);
    return reply;
}

void fake_reply_free(struct fake_reply *r)
{
    for (size_t i = 0; r->items != NULL && i < r->is.count; i++) {
        free((char *)r->items[i].at);
    }
    free(r->items);
    free(r->error);
    free(r);
}
