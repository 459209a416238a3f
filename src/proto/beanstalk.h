#ifndef TR_PROTO_BEANSTALK_H
#define TR_PROTO_BEANSTALK_H

/*
 * The beanstalk protocol: bytes of one client in, requests to the queue, bytes to that client out.
 * See beanstalk.c for how a session goes; beanstalk_line.h reads lines, beanstalk_do.c executes
 * commands, beanstalk_text.c writes the statistics.
 *
 * Pure: whoever owns the socket feeds what was received, sends what `out` lets go, and is woken
 * when a session can go on. Threads: one.
 */

#include "base/check.h"
#include "base/list.h"
#include "port/queue.h"
#include "proto/auth.h"
#include "proto/beanstalk_line.h"
#include "proto/output.h"
#include "proto/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_bs_session;

/* What `stats` tells of the process. */
struct tr_bs_usage {
    uint64_t user_us;
    uint64_t system_us;
    uint64_t uptime_us;
    uint64_t log_oldest; /* numbers of the oldest and the newest segment of the log */
    uint64_t log_newest;
    uint64_t log_migrated; /* records written again to free space */
    uint64_t log_written;  /* records written */
    uint64_t log_file_bytes;
    uint64_t stalls;     /* turns of the loop over 5 ms */
    uint64_t longest_us; /* turn of the loop */
    bool draining;
};

/* What all sessions share. */
struct tr_bs_port {
    struct tr_mem *mem;
    struct tr_queue queue;
    struct tr_auth *auth; /* the tokens; NULL: there are none */
    uint32_t body_max;
    size_t output_max;  /* a session with so much to send reads no further command */
    unsigned ahead_max; /* puts and deletes that are asked before the one before is answered */
    void *ctx;
    void (*woken)(void *ctx, struct tr_bs_session *s); /* s can go on: feed it soon */
    void (*usage)(void *ctx, struct tr_bs_usage *u);
    const char *version;
    const char *sync; /* when success is answered: always, 50ms, never */
    uint64_t pid;
    char id[17]; /* of this run, hex */
    char host[65];
    char os[65];
    char platform[65];

    /* Counted here. */
    uint64_t counts[TR_BS_COMMAND_COUNT];
    uint64_t sessions;
    uint64_t sessions_ever;
    uint64_t producers;
    uint64_t workers;
    uint64_t no_memory; /* bodies that were refused for want of it */
};

enum tr_bs_input { TR_BS_LINE, TR_BS_LONG_LINE, TR_BS_BODY, TR_BS_SKIP };

/* A job in `out`: if its client goes before it was sent, it was never handed out. */
struct tr_bs_handout {
    uint64_t end; /* of its reply, as tr_output_end counts */
    uint64_t id;
};

typedef void tr_bs_step_fn(struct tr_bs_session *s);

struct tr_bs_session {
    struct tr_bs_port *port;
    uint64_t number; /* as a holder of jobs; not 0 */
    struct tr_output out;
    struct tr_now now;

    enum tr_bs_input input;
    struct tr_bs_line line; /* the command being executed */
    uint64_t commands;      /* so far */
    uint8_t *body;          /* one that came in pieces, or had to wait */
    size_t body_room;
    size_t body_have;
    uint64_t skip;         /* bytes still to be passed over, */
    const char *skip_then; /* and what is said then */

    struct tr_req req;
    bool asked;           /* req is with the queue */
    struct tr_list ahead; /* further ones, in order: see beanstalk_ahead.c */
    unsigned ahead_count;
    unsigned cost;    /* of this go, in units of work */
    bool tired;       /* had its share of work */
    bool running;     /* inside tr_bs_feed: no need to be woken */
    bool half_closed; /* nothing more will come: do not wait for jobs */
    bool quitting;
    bool producer;
    bool worker;
    bool closing;
    bool gone;
    const char *success; /* what is said when the queue did it, for commands that say a line */
    tr_bs_step_fn *then; /* when req is answered, inside its `done` */
    tr_bs_step_fn *next; /* the next step of the command */
    tr_bs_step_fn *act;  /* the step that comes when the job may be touched */

    struct tr_auth_pass pass; /* who it is */
    bool used_foreign;        /* the topic in use is not for this token */
    bool look_again;          /* the token may be for other topics now */
    bool authing;             /* AUTHENTICATED is to be said when that was done */
    bool known;               /* it was somebody once, or there were no tokens */

    uint32_t used;
    uint32_t *watched;
    unsigned watched_count;
    unsigned watched_room;
    unsigned index;         /* into watched, for commands that go through it */
    struct tr_output *text; /* of a list being made */
    struct tr_bs_handout *handouts;
    size_t handout_count;
    size_t handout_room;
};

/* Before the first client: the topic that every client begins with is always there. TARRY_ENOMEM.
 */
TR_MUST_USE int tr_bs_port_open(struct tr_bs_port *port, struct tr_now now);

/* A new client. s is the owner's memory and stays where it is. */
void tr_bs_open(struct tr_bs_session *s, struct tr_bs_port *port, uint64_t number,
                struct tr_now now);

/* Takes what it can of these bytes and says how many; the rest is to be given again. */
size_t tr_bs_feed(struct tr_bs_session *s, const uint8_t *bytes, size_t len, struct tr_now now);

enum tr_want tr_bs_want(const struct tr_bs_session *s);

/* The client sends no more: a wait for a job is over. What it sent before is still executed. */
void tr_bs_half_close(struct tr_bs_session *s, struct tr_now now);

/*
 * The client is gone: its jobs go back, its topics are left. That may take a while: when tr_bs_gone
 * is false, feed no bytes whenever it is woken, until it is true; then the memory is the owner's
 * again.
 */
void tr_bs_close(struct tr_bs_session *s, struct tr_now now);
bool tr_bs_gone(const struct tr_bs_session *s);

/* Gives the memory back without a word to the queue, which must be gone. */
void tr_bs_fini(struct tr_bs_session *s);

/* The same as a table: its sessions are struct tr_bs_session, its port struct tr_bs_port. */
extern const struct tr_proto tr_bs_proto;

#endif
