#ifndef TR_CLUSTER_WIRE_H
#define TR_CLUSTER_WIRE_H

/*
 * How the engine on Redis talks to servers:
 *
 *     link.c     connections, one for each server
 *     call.c     one command on its way, by route.c; confirm.c: until replicas have it
 *     chart.c    which server has which hash slot
 */

#include "base/list.h"
#include "cluster/engine.h"
#include "cluster/eval.h"
#include "cluster/route.h"
#include "cluster/shards.h"

enum {
    TR_CL_RUN = 96,  /* bytes of what a server says of itself */
    TR_CL_WHY = 160, /* of a sentence about it */
};

#define TR_CL_NEVER UINT64_MAX

/* ---- one command under way ---- */

enum tr_call_state {
    TR_CALL_IDLE,
    TR_CALL_WAITS,  /* for its time */
    TR_CALL_QUEUED, /* for a connection */
    TR_CALL_UNSENT, /* there is none: it hears so in the next turn */
    TR_CALL_SENT,
};

struct tr_call;
/* It was answered: why is 0. Or it was given up, and reply, if there is one, is what was said last.
 * The call is idle again. */
typedef void tr_call_done_fn(struct tr_cluster *c, struct tr_call *call,
                             const struct tr_redis_reply *reply, enum tr_route_why why);

struct tr_call {
    struct tr_list link; /* of the connection's */
    uint32_t place;      /* among the timers */
    uint64_t at_us;
    uint64_t number; /* of all calls that were begun: of one moment the older goes first */
    enum tr_call_state state;
    struct tr_eval eval;
    struct tr_route route;
    tr_call_done_fn *done;
    int script; /* enum tr_script_name; -1: a command of Redis */
    unsigned hash_slot;
    unsigned slot;   /* a script of jobs: the one that `check` is for */
    int aim;         /* the server it was sent to by a redirect; -1: whom the map says */
    unsigned server; /* where it is, or was last */
    bool asking;
    bool text;
    unsigned checks; /* in a row */
    uint64_t tag;
    uint64_t sent_us;
    size_t weight;        /* bytes, of what is sent and of what may come */
    size_t brings;        /* who starts it may say so: bytes that may come */
    bool confirms;        /* replicas are asked whether they have it: confirm.c */
    struct tr_span *held; /* the answer until they do, or NULL */
    size_t held_count, held_bytes;
};

/* A place among the timers, so that nothing later can fail. */
TR_MUST_USE int tr_call_init(struct tr_cluster *c, struct tr_call *call, tr_call_done_fn *done);
void tr_call_fini(struct tr_cluster *c, struct tr_call *call);

struct tr_call_way {
    int script;
    unsigned hash_slot;
    unsigned slot;
    int server; /* not by the map: to this one; -1 */
    uint64_t patience_us;
    bool repeats; /* see struct tr_route */
};
/* Its eval is complete. It is sent in this turn, or later. */
void tr_call_start(struct tr_cluster *c, struct tr_call *call, const struct tr_call_way *way);
/* It is the first of its connection, and is answered. */
void tr_call_heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply);
/* What became of it, other than an answer. */
void tr_call_event(struct tr_cluster *c, struct tr_call *call, enum tr_redis_event event);
/* There is no connection for it. */
void tr_call_unsent(struct tr_cluster *c, struct tr_call *call);
/* It was done, but replicas did not confirm it. */
void tr_call_unconfirmed(struct tr_cluster *c, struct tr_call *call);
void tr_call_set_timer(struct tr_cluster *c, struct tr_call *call, uint64_t at_us);
void tr_call_timers(struct tr_cluster *c);
int tr_call_status(enum tr_route_why why);

/* ---- connections ---- */

/* What it says of itself. */
struct tr_link_facts {
    bool primary;
    bool keeps; /* appendonly */
    unsigned replicas;
    char version[16];
    char fsync[16]; /* appendfsync; empty: it does not tell */
};

enum tr_link_state { TR_LINK_DOWN, TR_LINK_DIALS, TR_LINK_ASKS, TR_LINK_UP };

struct tr_link {
    enum tr_link_state state;
    bool ready;           /* the lists were made */
    struct tr_list queue; /* calls for when it is up */
    struct tr_list sent;  /* in order, */
    unsigned sent_count;  /* so many, */
    size_t sent_bytes;    /* of such a weight */
    uint64_t timer_us;    /* DIALS, ASKS: when to give up */
    uint64_t retry_us;    /* DOWN: not before */
    unsigned failures;    /* in a row */
    char run[TR_CL_RUN];  /* which life of the server this is, as it said last */
    char why[TR_CL_WHY];  /* it is down */
    struct tr_link_facts facts;
};

/* Tags of checks: so much and the slot. Those of calls are lower. */
#define TR_LINK_CHECKS (UINT64_MAX - 2 * TR_SLOTS_MAX)
#define TR_LINK_WAITS (UINT64_C(1) << 62) /* tags of WAIT: this, and that of the call */

/* It was sent: replicas are asked, too, if it changes something and they are to be. */
void tr_confirm_sent(struct tr_cluster *c, struct tr_call *call);
/* The answer is held until they have it. False: it is to be told now. */
bool tr_confirm_holds(struct tr_cluster *c, struct tr_call *call,
                      const struct tr_redis_reply *reply);
void tr_confirm_heard(struct tr_cluster *c, unsigned server, uint64_t tag,
                      const struct tr_redis_reply *reply);
void tr_confirm_drop(struct tr_cluster *c, struct tr_call *call);

/* The call is sent there, or waits for the connection, or there is none. */
void tr_link_take(struct tr_cluster *c, struct tr_call *call);
/* Sends calls that wait for room, as far as there is some. */
void tr_link_pump(struct tr_cluster *c, unsigned server);
/* One that was sent there is over. */
void tr_link_less(struct tr_cluster *c, const struct tr_call *call);
/* Makes a connection if there is none and it is time. */
void tr_link_dial(struct tr_cluster *c, unsigned server);
void tr_link_hang_up(struct tr_cluster *c, unsigned server, const char *why);
/* It was refused because the user of this node may not do it. */
bool tr_link_lacks_right(const struct tr_redis_reply *reply);
/* Then it is told, and the start is refused; false: it was something else. */
bool tr_link_denied(struct tr_cluster *c, const struct tr_redis_reply *reply);
void tr_link_timers(struct tr_cluster *c);
uint64_t tr_link_next(const struct tr_cluster *c);
void tr_link_up(void *ctx, unsigned conn, struct tr_now now);
void tr_link_heard(void *ctx, unsigned conn, uint64_t tag, const struct tr_redis_reply *reply,
                   struct tr_now now);
void tr_link_closed(void *ctx, unsigned conn, const char *why, struct tr_now now);
bool tr_link_any_up(const struct tr_cluster *c);
/* Or may be before long. */
bool tr_link_hope(const struct tr_cluster *c);
/* The value of "name:value\r\n" in what INFO says. Empty: it is not there. */
struct tr_span tr_link_info(struct tr_span info, const char *name);
/* What it is now, primary or replica, and how many replicas it has. */
void tr_link_role(struct tr_link *l, struct tr_span info);

/* The connection that blocks. */
enum { TR_CL_WAKE_CONN = TR_SHARDS_SERVERS };

/* ---- the map ---- */

void tr_chart_turn(struct tr_cluster *c);
uint64_t tr_chart_next(const struct tr_cluster *c);
void tr_chart_answered(struct tr_cluster *c, struct tr_call *call,
                       const struct tr_redis_reply *reply, enum tr_route_why why);
/* This server is alone, or is a replica of one that is. */
void tr_chart_alone(struct tr_cluster *c, unsigned server, bool primary);
/* A server answers, but none takes changes for all that is ours. */
bool tr_chart_trouble(struct tr_cluster *c, struct tr_reason *reason);
/* host:port of the second word of a line of CLUSTER NODES, which this server said. False: there is
 * none, or it is too long. */
bool tr_chart_address(const struct tr_cluster *c, struct tr_span word, unsigned asked,
                      char out[TR_SHARDS_NAME]);
/* Is it among words with commas between? */
bool tr_chart_has(struct tr_span list, const char *what);

#endif
