#ifndef TR_SERVER_REDIS_INNER_H
#define TR_SERVER_REDIS_INNER_H

/* What redis.c and redis_tell.c share. */

#include "cluster/engine.h"
#include "remote/redis.h"
#include "remote/sql.h"
#include "remote/zoo.h"
#include "server/engines.h"

enum { TR_ON_REDIS_TEXT = 512 };

struct tr_on_redis {
    struct tr_engine_parts parts;
    struct tr_redis *remote;        /* the connections */
    struct tr_zoo *zoo;             /* the coordinator; NULL: leases in Redis are */
    struct tr_sql *sql;             /* the database; NULL: there is none */
    struct tr_cluster *cluster;     /* NULL: not there yet */
    char name[32];                  /* of this node, as Redis shows it */
    char address[128];              /* of its HTTP port, and its version */
    char uuid[TR_CLUSTER_UUID + 1]; /* that a new store gets */
    struct tr_req count;            /* asks how many jobs there are, once: */
    bool counting;                  /* it was asked, */
    bool counted;                   /* and answered, or that failed */
    uint64_t jobs;                  /* UINT64_MAX: not known */
    bool draining;
    uint64_t stop_us; /* boot time; 0: it goes on */
    bool told;        /* what was found was said */
    char durability[TR_ON_REDIS_TEXT];
    char sql_found[TR_ON_REDIS_TEXT]; /* the same of the database; empty: it was away */
};

/* Functions of the table. */
const char *tr_on_redis_durability(void *ctx);
void tr_on_redis_tell(void *ctx, struct tr_json *j);
void tr_on_redis_metrics(void *ctx, struct tr_prom *p);

/* The database: redis_sql.c. Gives how the process is to end, and has said why; 0: all is well.
 * The store is called as its tables say, if they do. */
int tr_on_redis_open_sql(struct tr_on_redis *o, uint64_t node);
struct tr_sql_port tr_on_redis_sql_port(const struct tr_on_redis *o);
void tr_on_redis_sql_listen(const struct tr_on_redis *o);
/* What it has answered. */
void tr_on_redis_collect(const struct tr_on_redis *o);
void tr_on_redis_close_sql(struct tr_on_redis *o);
struct tr_sql_stat tr_on_redis_sql_stat(const struct tr_on_redis *o);

#endif
