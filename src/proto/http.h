#ifndef TR_PROTO_HTTP_H
#define TR_PROTO_HTTP_H

/*
 * The HTTP API: bytes of one client in, requests to the queue, bytes to that client out. See http.c
 * for how a session goes; http_route.h lists what can be asked, http_<family>.c have what is done.
 *
 * Pure: whoever owns the socket feeds what was received, sends what `out` lets go, and is woken
 * when a session can go on. Threads: one.
 */

#include "base/siphash.h"
#include "port/engine.h"
#include "port/meter.h"
#include "port/outlet.h"
#include "port/queue.h"
#include "proto/auth.h"
#include "proto/http_args.h"
#include "proto/http_file.h"
#include "proto/http_parse.h"
#include "proto/http_reply.h"
#include "proto/http_route.h"
#include "proto/json_in.h"
#include "proto/json_out.h"
#include "proto/output.h"
#include "proto/prom_out.h"
#include "proto/session.h"
#include "rules/policy.h"
#include "rules/schedule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_deliver;
struct tr_hs;

enum {
    TR_HS_DATE = 30, /* bytes: Sun, 06 Nov 1994 08:49:37 GMT, and its NUL */
    TR_HS_PATH = 256,
    TR_HS_WITHIN = 4,     /* forecasts of /metrics */
    TR_HS_FEW_TOPICS = 2, /* of a reserve */
    TR_HS_LINES = 5,      /* statuses from 200 on, of which the first lines are ready */
    TR_HS_STATUSES = 500, /* from 100 on */
};

/* What /metrics asks of the server; each may be NULL. */
struct tr_hs_metrics {
    void (*begin)(void *ctx); /* a page is begun */
    bool (*looks)(void *ctx); /* what it tells of next due times will be better soon */
    /* Topics from this one on, at most TR_METER_VIEWS: gives how many. The last one is `other`. */
    unsigned (*topics)(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views);
    void (*tell)(void *ctx, struct tr_prom *p); /* all that is not of a topic */
};

/* May what needs the store be asked for? */
enum tr_hs_store {
    TR_HS_OPEN,
    TR_HS_SOON,  /* it is being opened: requests wait, but those that need no store, */
    TR_HS_LATER, /* and this takes longer: they are refused, 503 */
};

/* What all sessions share. */
struct tr_hs_port {
    struct tr_mem *mem;
    struct tr_queue queue;
    struct tr_auth *auth; /* the tokens; NULL: there are none */
    struct tr_http_limits limits;
    uint32_t body_max; /* of a job */
    bool secure;       /* clients speak TLS with us */
    size_t output_max; /* a session with so much to send reads no further request */
    void *ctx;
    void (*woken)(void *ctx, struct tr_hs *s); /* s can go on: feed it soon */

    /* Members of the replies to /v1/config and /v1/stats that only the server knows. */
    void (*tell_config)(void *ctx, struct tr_json *j);
    void (*tell_stats)(void *ctx, struct tr_json *j);
    void (*tell_cluster)(void *ctx, struct tr_json *j); /* of /v1/cluster; NULL: there is none */

    /* The name of an actor, without an end; NULL: it is not known. */
    const char *(*actor_name)(void *ctx, uint32_t actor, size_t *len);

    struct tr_hs_metrics metrics;

    /* Outlets; NULL: there are none. Could this be served? TARRY_EUNSUPPORTED, with a sentence, or
     * TARRY_EPERM, with the end of one that begins with its url. And how is that of a topic? False:
     * it has none. */
    int (*admit)(void *ctx, const struct tr_deliver *d, const char **why);
    bool (*outlet)(void *ctx, uint32_t topic, struct tr_outlet_view *v);

    /* Why it is not ready: gives how many reasons there are, TR_REASONS at most; 0: it is. */
    unsigned (*unready)(void *ctx, struct tr_reason *reasons);
    const struct tr_http_file *files; /* the dashboard; NULL: there is none */
    const char *version;
    const char *hosts;      /* that we are called, besides addresses: with commas between them */
    bool classic;           /* the routes of the queues of old answer */
    bool stopping;          /* no connection is kept */
    enum tr_hs_store store; /* whoever changes it wakes the sessions */
    struct tr_reason later; /* what is said with TR_HS_LATER; NULL: the store is being opened */
    bool test_clock;
    const char *elsewhere; /* what has the jobs, for people; NULL: a folder of this server */
    unsigned slots; /* that the jobs are cut into: what `spread` of a policy may be; 0: one */
    const char *backup_root; /* a folder, below which copies of the store may be made; NULL: none */
    uint8_t lease_key[TR_SIPHASH_KEY];

    /* Its own. */
    char date[TR_HS_DATE];
    uint64_t date_s; /* of what second it is */
    char lines[TR_HS_LINES][TR_HTTP_LINE];
    size_t line_lens[TR_HS_LINES]; /* 0: not made yet */
    uint64_t sessions;
    uint64_t requests;                /* ever */
    uint64_t counts[TR_ROUTE_COUNT];  /* those that were served, by route, */
    uint64_t replies[TR_HS_STATUSES]; /* and what was said, by status - 100 */
    uint64_t no_memory;               /* requests that were refused for want of it */
};

/* A job that is being told: if its client goes before it was sent, it was never handed out. */
struct tr_hs_handout {
    uint64_t end; /* of its reply, as tr_output_end counts; UINT64_MAX: it is not written yet */
    uint64_t id;
    uint64_t lease;
};

typedef void tr_hs_step_fn(struct tr_hs *s);

/* Of requests with many jobs: where we are in the body. */
struct tr_hs_many {
    struct tr_json_in in;
    size_t at;                /* bytes of the body that were looked at */
    uint32_t count;           /* items */
    tr_hs_step_fn *each;      /* what is done with one, */
    struct tr_http_text item; /* this one */
};

/* Of /metrics: how far the page is. */
struct tr_hs_page {
    uint64_t now_us;
    uint64_t until_us[TR_HS_WITHIN]; /* up to which due jobs are counted, */
    uint64_t due[TR_HS_WITHIN];      /* how many there are; UINT64_MAX: not known */
    unsigned ask;                    /* which of these is asked for */
    unsigned family;
    unsigned from; /* topic */
    unsigned waits;
    uint64_t shown[TR_DEAD + 1];
    size_t poured; /* bytes of the text that are in the output */
};

/* Of requests that go through a list. */
struct tr_hs_each {
    enum tr_op op; /* that is asked for each */
    bool skip_expired;
    tr_hs_step_fn *end; /* when all are done; s->number says how many */
};

/* Of a list of topics that is sorted: those that come first so far. */
struct tr_hs_rank {
    uint64_t value;
    uint32_t topic;
};

struct tr_hs {
    struct tr_hs_port *port;
    struct tr_output out;
    struct tr_now now;
    struct tr_http parse;
    uint64_t requests; /* so far */

    /* The request that is being served. */
    struct tr_auth_pass pass; /* who asks */
    unsigned status;          /* of its reply */
    struct tr_route_match match;
    struct tr_args args;
    struct tr_policy policy; /* of the arguments; a push has only the backoff */
    struct tr_schedule schedule;
    uint8_t backoff[TR_BACKOFF_BYTES]; /* of that */
    struct tr_http_error error;
    bool judged;      /* it was looked at: */
    bool refused;     /* error says why */
    bool begun;       /* what it asks for is being done */
    bool answered;    /* the reply is written; there may be steps left */
    uint64_t gate;    /* of all that was asked for it */
    uint32_t *topics; /* that it is about; */
    unsigned topic_count;
    unsigned topic_room;
    unsigned held;                        /* so many of them, the first ones, are held */
    uint32_t topic_few[TR_HS_FEW_TOPICS]; /* they stand here if they are few */
    bool holds;                           /* all of them are to be held */
    bool holding;                         /* the topic in `topic` is */
    uint32_t topic;
    uint64_t number;        /* what the route's functions count */
    struct tr_output *text; /* of a reply that takes several steps */
    struct tr_json json;    /* into that */
    struct tr_hs_many many;
    struct tr_hs_each each;
    struct tr_hs_page page;
    struct tr_hs_rank *ranks;
    unsigned rank_count;
    unsigned rank_room;
    char path[TR_HS_PATH];    /* of a copy of the store */
    struct tr_http_text name; /* of the topic */
    struct tr_http_text body; /* of the job */
    tr_hs_step_fn *act;       /* what is asked when the job is named, or done when it is pushed */
    tr_hs_step_fn *after;     /* the step that comes when the topic was let go, */
    tr_hs_step_fn *poured;    /* or when all of the text is in the output; or NULL */

    /* What is asked for it. */
    struct tr_req req;
    bool asked;          /* req is with the queue */
    tr_hs_step_fn *then; /* when req is answered, inside its `done` */
    tr_hs_step_fn *next; /* the next step */
    unsigned cost;       /* of this go, in units of work */
    bool tired;          /* had its share of work */
    bool pouring;        /* the next step waits while there is much to send */
    bool running;        /* being fed: no need to be woken */
    bool half_closed;    /* nothing more will come: do not wait for jobs */
    bool told_fault;
    bool ending;   /* its patience was over */
    bool unwanted; /* it is turned away, for this reason: */
    enum tr_turn_away unwanted_why;
    bool closing;
    bool gone;

    struct tr_hs_handout *handouts;
    size_t handout_count;
    size_t handout_room;
};

/* Its sessions are struct tr_hs, its port is struct tr_hs_port. */
extern const struct tr_proto tr_http_proto;

#endif
