#ifndef TR_SIM_CLUSTER_FAKE_H
#define TR_SIM_CLUSTER_FAKE_H

/*
 * A Redis that is none: keys in arrays, and the real script texts run by Lua 5.1. It knows the
 * commands that the scripts use, and no others: an unknown one fails the run. See fake.c.
 */

#include "cluster/script.h"
#include "port/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_db;
struct fake_lua;

struct fake_db *fake_db_new(void);
void fake_db_free(struct fake_db *db);
/* What a replica is after it caught up. */
void fake_db_copy(struct fake_db *to, const struct fake_db *from);
/* The first key that has this in its name, or NULL; and its move to another server. */
const char *fake_db_find(const struct fake_db *db, const char *part);
void fake_db_move(struct fake_db *to, struct fake_db *from, const char *key);
bool fake_db_has(const struct fake_db *db, struct tr_span key);

/* text: instead of that of a script, or NULL: a mutation. */
struct fake_lua *fake_lua_new(enum tr_script_name changed, const char *text, size_t len);
void fake_lua_free(struct fake_lua *l);

struct fake_call {
    struct fake_db *db;
    uint64_t now_us;
    const char *life; /* INFO: the server's replication id */
    bool moving;      /* its hash slot is on the move: a key that is not there is an error */
    const struct tr_span *args; /* EVALSHA ... */
    size_t count;
};

/* The texts are the reply's own. */
struct fake_reply {
    struct tr_redis_reply is;
    struct tr_span *items;
    char *error;
};
struct fake_reply *fake_run(struct fake_lua *l, const struct fake_call *call);
/* A command that is no script. */
struct fake_reply *fake_plain(struct fake_lua *l, const struct fake_call *call);
/* A list of these texts. */
struct fake_reply *fake_list(const struct tr_span *items, size_t count);
/* Which script a call names, by its sum or its text. */
unsigned fake_script(const struct tr_span *args);
struct fake_reply *fake_error(const char *text);
void fake_reply_free(struct fake_reply *r);

#endif
