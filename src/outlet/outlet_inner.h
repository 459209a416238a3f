#ifndef TR_OUTLET_INNER_H
#define TR_OUTLET_INNER_H

/*
 * Between outlets.c (topics, policies, the turn) and outlet.c (one sender, and the jobs that it is
 * given).
 */

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "outlet/outlets.h"
#include "outlet/sender.h"
#include "rules/breaker.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TR_OUTLET_NAME = 200 }; /* bytes of the name of a topic */

/* What is there once, and outlives us if a thread of a sender does. */
struct tr_bell {
    pthread_mutex_t lock;
    struct tr_outlets *of; /* NULL: gone */
};

struct tr_outlets {
    struct tr_outlets_config config;
    struct tr_mem mem;
    uint64_t job_bytes;      /* that parcels take */
    struct tr_map faces;     /* by topic */
    struct tr_list in_order; /* the same */
    struct tr_list dirty;    /* faces whose policy has to be looked at */
    struct tr_list outlets;  /* all of them, retired ones too */
    struct tr_list work;     /* outlets with something to do */
    struct tr_list gated;    /* parcels that wait for the disk, */
    struct tr_list decided;  /* whose end the queue is to be told, */
    struct tr_list telling;  /* and is being told, */
    struct tr_list later;    /* again, since it could not do it; the first of them first, */
    struct tr_list touch;    /* all of these, the longest untouched first */
    uint64_t durable;
    uint64_t next_us; /* boot time at which an outlet that pauses has to be looked at */
    uint64_t holders; /* so many have been given a number */
    uint64_t parcels; /* there are */
    uint64_t looks;   /* under way */
    struct tr_rng rng;
    struct tr_bell *bell;
    void *shared[TR_DELIVER_TYPES]; /* see sender.h */
    bool stopping;
    bool hurrying;
    bool aborted;
    bool asked;  /* something of the queue since it was last said */
    bool rescan; /* a topic could not be noted for want of memory */
    uint64_t rescan_us;
    atomic_bool woken;
};

/* What is known of a topic that has, or had, an outlet. */
struct tr_face {
    struct tr_list link;
    struct tr_list dirty;
    struct tr_outlets *all;
    uint32_t topic;
    char name[TR_OUTLET_NAME + 1];
    size_t name_len;
    struct tr_req look;
    bool looking;
    bool again;               /* it changed meanwhile */
    struct tr_outlet *outlet; /* the one in force, or NULL */
    unsigned outlets;         /* retired ones, too */
    bool gone;                /* the topic is */
    uint64_t delivered;
    uint64_t failed;
    uint64_t refused;
    struct tr_outlet_count counts[TR_OUTLET_CODES];
    unsigned count_count;
    char why[TR_OUTLET_WHY];
    uint64_t why_us;
    uint64_t quiet_us; /* boot time until which nothing is said of single failures */
};

/* A sender of one topic. */
struct tr_outlet {
    struct tr_list link;
    struct tr_list work;
    struct tr_outlets *all;
    struct tr_face *face;
    const struct tr_sender_kind *kind;
    void *sender; /* NULL: not opened yet */
    struct tr_sender_host host;
    struct tr_bell *bell;
    uint8_t *bytes; /* the policy, */
    size_t len;
    uint64_t gate; /* which has to be durable */
    unsigned window;
    unsigned busy;      /* parcels, */
    uint64_t job_bytes; /* that take so much */
    uint64_t short_of;  /* the bytes of a job for which there was no room; 0: there was */
    uint64_t holder;
    struct tr_req fetch; /* the next job */
    bool fetching;
    struct tr_req back;   /* a job for which there was no memory */
    bool backing;         /* it is not back yet, */
    bool back_due;        /* nor is it asked for */
    struct tr_list ready; /* parcels that may be sent */
    struct tr_breaker breaker;
    uint64_t era;      /* times that it opened, */
    unsigned recent;   /* and parcels since then */
    uint64_t pause_us; /* boot time before which nothing is tried; 0: none */
    bool retired;
    bool stopping; /* the sender was told to */
};

enum tr_stage {
    TR_STAGE_GATED,
    TR_STAGE_READY,
    TR_STAGE_SENDING,
    TR_STAGE_DECIDED, /* send.outcome says what is to become of it */
    TR_STAGE_TELLING, /* the queue is being told */
};

/* A job on its way. */
struct tr_parcel {
    struct tr_send send;
    struct tr_list link;  /* of the list that its stage has; none while it is being sent */
    struct tr_list touch; /* of all */
    struct tr_outlet *outlet;
    enum tr_stage stage;
    struct tr_req req;
    bool asked; /* req is with the queue */
    uint64_t lease;
    uint64_t gate;
    uint64_t touched_us;
    uint64_t again_us;
    uint64_t era; /* of its outlet, when it was fetched */
    bool bare;    /* it would be sent again at once, for ever */
    size_t size;
    uint8_t bytes[]; /* key, tag, body */
};

/* ---- outlets.c ---- */

uint64_t tr_outlets_boot(const struct tr_outlets *o);
void tr_outlets_ask(struct tr_outlets *o, struct tr_req *r);
void tr_face_left(struct tr_face *f); /* one of its outlets was freed */

/* ---- outlet.c ---- */

/* NULL: no memory. It copies the bytes. */
struct tr_outlet *tr_outlet_new(struct tr_face *f, const struct tr_sender_kind *kind,
                                const void *bytes, size_t len);
void tr_outlet_mark(struct tr_outlet *out);
void tr_outlet_step(struct tr_outlet *out); /* may free it */
void tr_outlet_retire(struct tr_outlet *out);
void tr_outlet_stop(struct tr_outlet *out); /* its sender: what is under way ends soon */
void tr_outlet_free(struct tr_outlet *out);

void tr_parcel_tell(struct tr_parcel *p);
void tr_parcel_touch(struct tr_parcel *p, uint64_t now_us);
void tr_parcel_free(struct tr_parcel *p);

#endif
