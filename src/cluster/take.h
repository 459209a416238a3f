#ifndef TR_CLUSTER_TAKE_H
#define TR_CLUSTER_TAKE_H

/*
 * Questions for jobs of a slot: what take.c, which asks Redis, and claim.c, which then asks a
 * database, share.
 */

#include "cluster/desk.h"

struct tr_take {
    struct tr_call call;
    struct tr_list all;
    struct tr_list dirty;
    struct tr_list spots; /* to be asked */
    unsigned slot;
    uint64_t op;
    struct tr_spot *spot; /* asked now, */
    uint64_t round;       /* in this round of it: another one may begin before the answer */
    struct tr_list group; /* for whom */
    unsigned want;
    bool tagged;
    bool told;                              /* this node is to be told when there is more */
    struct tr_holding *rooms[TR_EVAL_JOBS]; /* for what may come */
    unsigned room_count;
    uint64_t heard;         /* the last op that was answered */
    struct tr_ctopic *owed; /* jobs of it are to be given back, or NULL */
    uint64_t owed_since_us;
    uint64_t owed_us; /* when that is tried */

    /* With a database: claim.c */
    struct tr_claim *claim; /* what it is asked; NULL: there is none */
    struct tr_take *of;     /* it only waits for the database, for that one; NULL: it asks Redis */
    struct tr_list asides;  /* those that do so for this one, */
    struct tr_list aside;
    unsigned aside_count;
    uint64_t next_us; /* what Redis has said */
    bool more;
    unsigned told_jobs;
    unsigned won;
    struct tr_item *keeper; /* housekeeping that waits, or is done now */
    bool tending;
};

/* Room for what a database is asked, for one that was just made; false: no memory. */
TR_MUST_USE bool tr_claim_make(struct tr_cluster *c, struct tr_take *take);
void tr_claim_drop(struct tr_cluster *c, struct tr_take *take);
/* All that wait for the database go, with what they have. */
void tr_claims_free(struct tr_cluster *c, struct tr_take *take);
/* May the first spot that is to be asked be asked, beside the claims that are under way? */
bool tr_claim_may(const struct tr_take *take);
/* Redis has answered a claim. */
void tr_claim_heard(struct tr_cluster *c, struct tr_take *take, const struct tr_redis_reply *reply);

/* take.c */
void tr_take_mark(struct tr_cluster *c, struct tr_take *take);
/* How many are to be asked for; so many are looked for. */
unsigned tr_take_open(const struct tr_spot *spot, unsigned most);
void tr_take_drop_rooms(struct tr_cluster *c, struct tr_take *take);
/* Nothing came of it: again then. */
void tr_take_give_up(struct tr_cluster *c, struct tr_take *take, int status, uint64_t again_us);
/* What was said besides jobs, before they are handed out; */
void tr_take_news(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t,
                  uint64_t now_us);
/* one of them; */
void tr_take_came(struct tr_cluster *c, struct tr_take *take, const struct tr_taken_job *job,
                  uint64_t now_us);
/* and all were handed out: what is to be asked next. */
void tr_take_end(struct tr_cluster *c, struct tr_take *take, const struct tr_taken *t);
void tr_take_part(struct tr_cluster *c, struct tr_take *take, struct tr_take *aside);
void tr_take_end_tending(struct tr_cluster *c, struct tr_take *take, int status);

#endif
