#ifndef TR_CLUSTER_DESK_H
#define TR_CLUSTER_DESK_H

/*
 * The engine with a database, which has the truth: what its files share. Requests come here by
 * their lanes (lane.c), which ask a database instead of Redis if there is one:
 *
 *     desk.c        asks under way, the database's clock; lanes of asks
 *     sql_lines.c   whether it is there, and by which connections
 *     image.c       what became of a job, on its way into the index in Redis
 *     numbers.c     ids of new jobs: blocks.c of each slot
 *     fold.c        counts of nodes that are gone
 *     claim.c       hand-outs: what Redis has named is asked for
 *     sql_push.c, sql_edit.c, sql_take.c, sql_look.c, sql_topic.c, sql_flow.c, sql_bulk.c,
 *     sql_purge.c, and parts of roam.c    requests
 *     sql_plan.c, sql_recur.c    schedules: rows, at work
 *     sql_outlet.c, sql_house.c  topics that deliver; housekeeping of rows
 *
 * A change is: lane ──► CHANGE, decided by truth.c ──► committed ──► image ──► `index` ──► answer,
 * which waits for the index for 250 ms at most. The index follows the commit, never the other way.
 */

#include "cluster/blocks.h"
#include "cluster/inner.h"
#include "cluster/truth.h"
#include "port/sql.h"

/* One ask; embedded by who asks. */
struct tr_desk_call;
typedef void tr_desk_done_fn(struct tr_cluster *c, struct tr_desk_call *call);
struct tr_desk_call {
    struct tr_sql_ask ask;
    tr_desk_done_fn *done;
    uint64_t sent_us;
    uint64_t life; /* of the database's server, as far as was known then */
    bool busy;
};

/* Numbers of a slot, and pushes that wait for some; and its index. */
struct tr_desk_slot {
    struct tr_block block;
    struct tr_list waiting;
    struct tr_desk_call call;
    uint32_t asked;
    uint64_t full_us; /* boot time: until then nothing new is put into its index, which is full; */
    bool probes;      /* one that found no room is sent again from time to time, */
    bool starved;     /* and others were dropped */
};

/* A connection to it. */
struct tr_desk_line {
    bool failed;       /* the last ask that went by it: until one is done, only probes do */
    uint64_t heard_us; /* boot time of the last good answer; 0: none yet */
    unsigned busy;     /* asks under way */
    struct tr_desk_call probe;
    uint64_t probe_us; /* boot time of the next one */
};

struct tr_desk {
    struct tr_sql_port port;
    unsigned conns;
    unsigned batch;
    bool ready;               /* it has answered */
    uint64_t down_us;         /* boot time until which nobody is asked, since all have failed */
    struct tr_desk_call fold; /* fold.c; */
    uint64_t fold_us;         /* boot time of the next one */
    uint64_t full_us;         /* boot time until which it is believed to be full */
    enum tr_sql_blame blame;  /* what was wrong with it last; FINE: nothing */
    char why[TR_SQL_WHY];
    uint64_t trip_us;          /* of the answer by which its time is known, */
    uint64_t trip_at_us;       /* and when that came */
    struct tr_desk_call agree; /* life.c: which store it has */
    bool agreed;
    uint64_t agree_us;
    uint64_t life;  /* of its server; 0: not known yet */
    uint64_t lives; /* so often it was another one */
    uint64_t under_way;
    struct tr_desk_line lines[TR_SQL_CONNS_MAX];
    struct tr_map topics;   /* by their numbers there */
    struct tr_list tickets; /* images on their way, */
    struct tr_list replies; /* tickets whose askers wait for the index, the oldest first; */
    uint64_t slow_us;       /* boot: up to then they wait for less long, as one waited in vain */
    struct tr_list later;   /* images that could not be sent: again at */
    uint64_t later_us;
    uint64_t images;                     /* so many are on their way, */
    uint64_t dropped;                    /* and so many were left to reconciliation */
    struct tr_align *align;              /* load.h */
    struct tr_dregs *dregs;              /* sql_purge.c */
    struct tr_desk_call days;            /* that are over go: sql_flow.c; */
    uint64_t days_us;                    /* boot time of the next look */
    struct tr_event *events;             /* room for a history */
    struct tr_recurs *recurs;            /* schedules at work */
    struct tr_house *house;              /* housekeeping of rows */
    uint64_t woken_us;                   /* boot time: who waits was asked for once more */
    struct tr_list crowds;               /* sql_edit.c */
    uint8_t policy[TR_POLICY_BYTES_MAX]; /* that is being stored; */
    char text[TR_CL_NOTE_HEAD + TR_POLICY_BYTES_MAX]; /* that was read: sql_topic.c */
    struct tr_desk_slot slots[];                      /* layout.slots */
};

TR_MUST_USE int tr_desk_init(struct tr_cluster *c);
/* Tickets and all that they pin; lanes are gone already. Then the rest, when topics are gone. */
void tr_desk_free_parts(struct tr_cluster *c);
void tr_desk_fini(struct tr_cluster *c);
void tr_desk_turn(struct tr_cluster *c);
uint64_t tr_desk_next(const struct tr_cluster *c);
/* It is of no use now: a reason for /readyz. */
bool tr_desk_trouble(const struct tr_cluster *c, struct tr_reason *reason);
/* Is Redis needed for it? */
bool tr_desk_needs_redis(enum tr_op op);

/* By the connection that ask.conn names, or another one if that fails. */
void tr_desk_send(struct tr_cluster *c, struct tr_desk_call *call);
void tr_desk_send_by(struct tr_cluster *c, struct tr_desk_call *call, unsigned conn);

/* sql_lines.c: connections. One that does what this one should; an answer has come, or none, to
 * what was sent then. */
void tr_lines_init(struct tr_desk *d);
unsigned tr_lines_pick(const struct tr_desk *d, unsigned conn);
/* The one that has least to do, of those that work; those behind this one come first. */
unsigned tr_lines_least(const struct tr_desk *d, unsigned conn);
void tr_lines_heard(struct tr_cluster *c, const struct tr_sql_ask *ask, uint64_t sent_us);
void tr_lines_turn(struct tr_cluster *c);
uint64_t tr_lines_next(const struct tr_cluster *c);

/* Days of which nothing is kept any more; only one node looks after them. */
void tr_flow_turn(struct tr_cluster *c);
uint64_t tr_flow_next(const struct tr_cluster *c);
void tr_flow_free(struct tr_cluster *c);

/* Rows of topics that were purged go, some at a time: sql_purge.c */
TR_MUST_USE int tr_dregs_init(struct tr_cluster *c);
void tr_dregs_free(struct tr_cluster *c);
void tr_dregs_turn(struct tr_cluster *c);
uint64_t tr_dregs_next(const struct tr_cluster *c);
void tr_dregs_soon(struct tr_cluster *c);
unsigned tr_desk_conn(const struct tr_cluster *c, unsigned slot);
/* That of a lane of this kind. */
unsigned tr_desk_lane_conn(const struct tr_cluster *c, enum tr_cl_kind kind, unsigned slot);
/* It has just failed: nothing is asked for the moment. */
bool tr_desk_down(const struct tr_cluster *c);
/* No row can be changed, as far as is known, nor before long: nothing can be handed out. */
bool tr_desk_stands(const struct tr_cluster *c);
/* What it has said that makes a request end so, if it can be reached; good as `why` of asks is.
 * NULL: nothing that would help. */
const char *tr_desk_words(const struct tr_cluster *c, int status);
/* What who asked is told. */
int tr_desk_status(const struct tr_sql_ask *ask, enum tr_sql_end end);
/* The same of one item of a change, which was not done; or perhaps it was, and then the index is to
 * be looked at. And who asked for it hears why. */
int tr_desk_failed(struct tr_cluster *c, const struct tr_sql_item *row);
void tr_desk_refused(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_item *row);
void tr_desk_ended(void *ctx, struct tr_sql_ask *ask);

/* Settings that a change has met, and that this node does not know: sql_topic.c */
void tr_desk_learn(struct tr_cluster *c, const struct tr_sql_ask *ask);

/* A topic by its number in the database; NULL: this node has not met it. */
struct tr_ctopic *tr_desk_topic(const struct tr_cluster *c, uint32_t row);

/* life.c: is it known which store it has? Before that there is none in Redis either. */
bool tr_life_agreed(const struct tr_cluster *c);
void tr_life_turn(struct tr_cluster *c);
uint64_t tr_life_next(const struct tr_cluster *c);
/* An answer came from this life of the server, to what was asked of that one. */
void tr_life_heard(struct tr_cluster *c, uint64_t asked, uint64_t life);
/* All that waits in lanes hears that it is away; */
void tr_desk_lanes_refuse(struct tr_cluster *c);
/* numbers for ids are of no use any more; */
void tr_numbers_forget(struct tr_cluster *c);
/* images that were not sent are of rows that may be others now. */
void tr_images_forget(struct tr_cluster *c);

/* ---- tickets ---- */

struct tr_ticket;
typedef void tr_ticket_fn(struct tr_cluster *c, struct tr_ticket *k);

/* One job of a change: all that the database's thread reads of it, and then its image. */
struct tr_ticket {
    struct tr_item image;  /* on its way into the index; its topic stays */
    struct tr_list all;    /* of the desk's, on their way */
    struct tr_list reply;  /* among those who wait */
    struct tr_item *asker; /* who is told when the index has it; NULL: nobody waits */
    tr_ticket_fn *tell;    /* how */
    uint64_t since_us;     /* boot time */
    size_t size;
    bool gone;
    char how;      /* enum tr_index_how */
    char letter;   /* what the index said of it, */
    bool unloaded; /* and of its topic: that none of its rows are there yet */
    bool probes;   /* whether there is room again */
    bool forgotten;
    uint64_t lives; /* of the database's server, when it departed */
    struct tr_sql_job row;
    uint64_t now_us; /* when, by the database */
    struct tr_truth truth;
    char *body; /* of a new job; it goes when that is committed */
    size_t body_len;
    size_t used; /* of text */
    char text[];
};

/* With room for so many bytes of texts. NULL: no memory. */
struct tr_ticket *tr_ticket_new(struct tr_cluster *c, struct tr_ctopic *t, size_t room);
void tr_ticket_free(struct tr_cluster *c, struct tr_ticket *k);
/* A copy of a body, until the job is committed. False: no memory. */
TR_MUST_USE bool tr_ticket_body(struct tr_cluster *c, struct tr_ticket *k, const void *at,
                                size_t len);
/* Texts that may be others' are copied to where they stay. */
struct tr_span tr_ticket_keep(struct tr_ticket *k, const void *at, size_t len);
enum { TR_TICKET_TEXTS = 64 + 255 + TR_HEADER_BACKOFF + TR_ACTOR_NAME_MAX };

/* The change is done: *row is how it is now (or was, if it is gone). The ticket goes into the index
 * and is freed then. The asker, if there is one, is told by `tell` when that was done, or a
 * second later (a quarter, if one has just waited in vain), or at once if Redis is away. */
void tr_image_go(struct tr_cluster *c, struct tr_ticket *k, const struct tr_sql_job *row,
                 uint64_t now_us);
/* The header of the row that the ticket has, for an answer. */
void tr_ticket_header(const struct tr_ticket *k, struct tr_header *h);
void tr_image_turn(struct tr_cluster *c);
uint64_t tr_image_next(const struct tr_cluster *c);
void tr_images_free(struct tr_cluster *c);
/* An image of a row that was read; false: no memory. */
TR_MUST_USE bool tr_image_put(struct tr_cluster *c, struct tr_ctopic *t, char how,
                              const struct tr_sql_job *row);
TR_MUST_USE bool tr_image_gone(struct tr_cluster *c, struct tr_ctopic *t, uint64_t id,
                               uint32_t ver);

/* An image of this slot will not be sent: its owner is told to compare. */
void tr_align_dropped(struct tr_cluster *c, unsigned slot);

/* A script has said what the index has of a topic in a slot: load.c */
void tr_load_hint(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot,
                  const struct tr_indexed *x);

/* Lanes of the database that nobody uses any more: fold.c */
void tr_fold_turn(struct tr_cluster *c);
uint64_t tr_fold_next(const struct tr_cluster *c);

/* ---- lanes of asks ---- */

/* How one works. */
struct tr_desk_way {
    unsigned most; /* items in an ask; 0: as many as the config says */
    /* The ask for all in `flying`. False: no memory. */
    bool (*build)(struct tr_cluster *c, struct tr_clane *lane);
    /* It has ended; ends all in `flying`. */
    void (*ended)(struct tr_cluster *c, struct tr_clane *lane);
    /* How many jobs it is; NULL: one. */
    unsigned (*weight)(const struct tr_item *item);
    /* How many bytes go or come with it; NULL: its request's body. */
    size_t (*bytes)(const struct tr_item *item);
    /* Both cannot be in one ask; or NULL. */
    bool (*clash)(const struct tr_item *a, const struct tr_item *b);
    /* It may be asked while those before it are; NULL: none may. */
    bool (*beside)(const struct tr_item *item);
};

struct tr_desk_lane {
    struct tr_desk_call call;
    struct tr_clane *lane;
    struct tr_sql_item *items; /* of the ask, */
    unsigned room;             /* so many */
    char key[255];             /* that is looked for */
};

/* NULL: lanes of this kind are those of Redis. */
const struct tr_desk_way *tr_desk_way(const struct tr_cluster *c, enum tr_cl_kind kind);
TR_MUST_USE int tr_desk_lane_init(struct tr_cluster *c, struct tr_clane *lane);
void tr_desk_lane_fini(struct tr_cluster *c, struct tr_clane *lane);
void tr_desk_lane_go(struct tr_cluster *c, struct tr_clane *lane);
/* Room for the items of its ask; NULL: no memory. */
struct tr_sql_item *tr_desk_items(struct tr_cluster *c, struct tr_clane *lane, unsigned count);
struct tr_item *tr_desk_first(const struct tr_clane *lane);

extern const struct tr_cl_way tr_index_way;
extern const struct tr_desk_way tr_desk_push, tr_desk_edit, tr_desk_kick, tr_desk_claim,
    tr_desk_look, tr_desk_header, tr_desk_key, tr_desk_list, tr_desk_purge, tr_desk_count,
    tr_desk_load, tr_desk_note, tr_desk_names, tr_desk_which, tr_desk_epoch, tr_desk_flow,
    tr_desk_sift, tr_desk_bulk, tr_desk_forecast, tr_desk_plan, tr_desk_schedule, tr_desk_outlets;

/* Who asks, and how much is noted of what is done. */
void tr_ticket_say(struct tr_cluster *c, struct tr_ticket *k, const struct tr_item *item);

/* Parts of requests that are the same with Redis alone: push.c, edit.c, look.c, policy.c, roam.c,
 * topics.c, take.c. The due times of a topic are spread by its jitter, later only. */
void tr_push_jitter(struct tr_cluster *c, const struct tr_ctopic *t, struct tr_req *r);
/* A new job, for the answer: what was asked, and what the topic's settings gave. */
void tr_push_view(struct tr_cluster *c, struct tr_item *item, const struct tr_req *asked,
                  uint64_t due_us, uint64_t now_us);
/* This is what became of it. */
void tr_push_ended(struct tr_cluster *c, struct tr_item *item, const struct tr_pushed *p,
                   uint64_t now_us);
void tr_edit_ended(struct tr_cluster *c, struct tr_item *item, const struct tr_edited *e,
                   uint64_t now_us);
/* Header and body as they were read, or both empty. */
void tr_look_show(struct tr_cluster *c, struct tr_item *item, const struct tr_span said[2],
                  uint64_t now_us);
bool tr_look_body(const struct tr_item *item);
/* Settings were stored, or others were quicker; text: as they are now. */
void tr_policy_noted(struct tr_cluster *c, struct tr_item *item, bool stored, struct tr_span text);
void tr_policy_next(const struct tr_item *item, struct tr_policy *next);
/* A topic was purged: sql_purge.c; item->number jobs. */
void tr_purge_done(struct tr_cluster *c, struct tr_item *item);
/* Housekeeping of its topic. */
void tr_take_tend(struct tr_cluster *c, struct tr_item *keeper);
/* All topics were named. */
void tr_ctopics_unlist(struct tr_cluster *c);

/* The meters of what time had done to a job, if this change wrote that: gauge.c */
void tr_gauge_settled(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_sql_item *item);

/* A push, whose topic and slot are known: the topic is made, quotas are looked at. */
void tr_desk_push_ask(struct tr_cluster *c, struct tr_item *item);
bool tr_desk_is_paused(const struct tr_cluster *c, const struct tr_policy *p);
bool tr_desk_has_quota(const struct tr_policy *p);
/* As it was counted: may there be no new job of so many bytes? */
bool tr_desk_is_full(const struct tr_ctopic *t, size_t more_bytes);
/* The row that is asked for; its texts are the ticket's. r gets what the topic's policy gives. */
void tr_desk_push_fill(struct tr_cluster *c, struct tr_ticket *k, const struct tr_item *item,
                       struct tr_req *r);
/* An id for a new job, then its lane: SCHEDULE if it is a schedule's. */
void tr_numbers_give(struct tr_cluster *c, struct tr_item *item);
void tr_numbers_free(struct tr_cluster *c);

void tr_crowds_free(struct tr_cluster *c);

/* ---- schedules at work: sql_recur.c ---- */

/* A slot whose schedules this node looks after. */
struct tr_recur_slot {
    struct tr_item keeper;
    uint64_t at_us; /* boot time: it is to be looked at */
    bool busy;
    bool nudged; /* meanwhile something changed */
};

struct tr_recurs {
    struct tr_desk_call call; /* which slots have any, and when */
    uint64_t ask_us;
    uint64_t next_us;
    uint64_t shares; /* c->shares, as they were when that was asked */
    struct tr_recur_slot slots[];
};

TR_MUST_USE int tr_recurs_init(struct tr_cluster *c);
void tr_recurs_free(struct tr_cluster *c);
void tr_recurs_turn(struct tr_cluster *c);
uint64_t tr_recurs_next(const struct tr_cluster *c);
/* A schedule of this slot may have changed; of any. */
void tr_recurs_look(struct tr_cluster *c, unsigned slot);
void tr_recurs_look_all(struct tr_cluster *c);

/* ---- housekeeping of rows: sql_house.c ---- */

enum { TR_HOUSE_TOPICS = 16, TR_HOUSE_PAGE = 64 };
enum tr_house_what { TR_HOUSE_DEAD, TR_HOUSE_ORPHANS };

struct tr_house {
    struct tr_item item; /* the topic that is looked at */
    struct tr_desk_call call;
    bool busy;
    enum tr_house_what what;
    uint64_t next_us; /* of the dead: boot time, */
    uint64_t hint_us; /* and when the last one that died here is to be looked at */
    uint64_t node;    /* of orphans: whose jobs; */
    bool mourns;      /* they are next */
    /* Topics, a page at a time, behind `after`. */
    uint32_t after;
    bool last;
    char names[TR_HOUSE_TOPICS][TR_TOPIC_NAME_MAX + 1];
    uint32_t rows[TR_HOUSE_TOPICS];
    unsigned count, at;
    /* Rows of one of them, in a slot. */
    unsigned spot;
    unsigned pages;
    bool too_many; /* not: too old */
    uint64_t from_us, from_id;
    bool full, more, failed;
    unsigned left;
    struct tr_item jobs[TR_HOUSE_PAGE];
};

TR_MUST_USE int tr_house_init(struct tr_cluster *c);
void tr_house_free(struct tr_cluster *c);
void tr_house_turn(struct tr_cluster *c);
uint64_t tr_house_next(const struct tr_cluster *c);
/* A job of this topic has died here. */
void tr_house_died(struct tr_cluster *c, const struct tr_ctopic *t);
/* Jobs that this node held are to be had again; then tr_mourn_done. */
void tr_house_mourn(struct tr_cluster *c, uint64_t node);

/* Jobs of a topic in a slot that are to be handed out, or looked at since time has changed them. */
enum { TR_CLAIM_TENDS = 64, TR_CLAIM_IDS = TR_EVAL_JOBS + TR_CLAIM_TENDS };
struct tr_claim {
    struct tr_item item; /* its topic is who asks' to keep */
    unsigned count;
    uint64_t ids[TR_CLAIM_IDS];
    char whats[TR_CLAIM_IDS]; /* C: is claimed; E: TR_TRUTH_TEND */
    uint64_t lease;
    bool held;
    uint64_t ttr_us, least_us;
    uint32_t version;     /* of the settings by which Redis has let them out */
    unsigned lost;        /* of those that were claimed, so many were not to be had */
    uint64_t bytes;       /* of their bodies, about */
    bool asked;           /* of the database, and not answered */
    struct tr_take *take; /* who has asked */
};
/* claim.c: this one was won; or it is not known whether it was. */
void tr_take_won(struct tr_cluster *c, struct tr_claim *claim, const struct tr_taken_job *job,
                 uint64_t now_us);
void tr_take_unsure(struct tr_cluster *c, struct tr_claim *claim, uint64_t id);

/* What an inner item of an edit has in its `kind`: a lease ran out, a cancel by force, a kick as
 * the beanstalk port has it, one that was dead at `number` is forgotten. */
enum { TR_DESK_TENDS = 't', TR_DESK_FORCES = 'f', TR_DESK_KICKS = 'b', TR_DESK_DROPS = 'd' };

/* Which topic is it, by its number there? Then item->then, with that topic. */
void tr_desk_which_topic(struct tr_cluster *c, struct tr_item *item, uint32_t row);

#endif
