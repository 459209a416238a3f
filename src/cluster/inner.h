#ifndef TR_CLUSTER_INNER_H
#define TR_CLUSTER_INNER_H

/*
 * What the files of the engine on Redis share, on top of wire.h. From the bottom up:
 *
 *     lane.c    one call a slot and kind; what comes meanwhile is the next batch
 *     item.c    a request on its way through the steps below, and how it ends
 *     topics.c  names, numbers and settings of topics
 *     push.c, edit.c, look.c, count.c, policy.c    requests
 *     gauge.c                                      what is told of them
 *     tour.c, roam.c, bulk.c                       requests of whole topics
 *     wait.c, take.c, hold.c                       hand-outs
 *     wake.c, coord.c, home.c, mourn.c             other nodes, housekeeping,
 *     sweep.c, forget.c                            and what is left of them
 *     picture.c                                    how all of it is
 *     plan.c, roster.c, schedule.c, recur.c        schedules: kept, named, asked for, at work
 *     loss.c, room.c                               data that a server has lost; one that is full
 *     deliver.c; desk.h                            which topics this node delivers; a database
 *
 * Nothing is sent from inside submit, so that all requests of a round go together: see
 * tr_cluster_turn.
 */

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/name.h"
#include "base/rng.h"
#include "cluster/answer.h"
#include "cluster/engine.h"
#include "cluster/eval.h"
#include "cluster/member.h"
#include "cluster/vigil.h"
#include "cluster/walk.h"
#include "cluster/wire.h"
#include "port/coord.h"
#include "port/picture.h"
#include "rules/atlas.h"
#include "rules/figures.h"
#include "rules/meter.h"
#include "rules/policy.h"

enum {
    TR_CL_CACHE = 4096, /* ids whose topic is remembered; a power of two */
    TR_CL_MANY = 128,   /* items in a call */
    TR_CL_MET = 256,    /* schedules of which it is known when they were met */
};

/* ---- requests ---- */

struct tr_ctopic;
struct tr_holder;
struct tr_holding;
struct tr_roam;
struct tr_tour;
struct tr_plan;
struct tr_cbulk;
struct tr_desk;
struct tr_item;
typedef void tr_item_fn(struct tr_cluster *c, struct tr_item *item);

struct tr_item {
    struct tr_list link;     /* of what it waits for */
    struct tr_req *req;      /* NULL: nobody hears of it */
    struct tr_ctopic *topic; /* which then stays */
    tr_item_fn *then;        /* what is next, when that is there */
    tr_item_fn *end;         /* of an inner one */
    enum tr_op op;
    char kind; /* of an inner edit: what the script calls it; KICK: d or s, 0: not known */
    uint64_t id;
    uint64_t lease;
    uint64_t since_us; /* boot time: asked */
    uint64_t number;   /* done so far */
    unsigned slot;
    unsigned at;                /* which of the topic's slots is next */
    unsigned tries;             /* in a row */
    bool queued;                /* in a lane */
    bool flying;                /* in a call: stays until that is answered, whoever leaves */
    bool inner;                 /* a part of something else: is not freed */
    bool implied;               /* the lease is the holder's, who named none */
    bool waits;                 /* is a struct tr_wait */
    int status;                 /* an inner one's end */
    uint64_t fresh_us;          /* counts are to be of this time, or later; */
    bool light;                 /* only what comes first, and whether there is anything */
    tr_item_fn *after;          /* what comes behind `then` */
    const char *partly;         /* some of it was done: so if the rest fails, this is why */
    struct tr_roam *roam;       /* of a whole topic, or NULL */
    struct tr_tour *tour;       /* where that is, or a bulk */
    struct tr_plan *plan;       /* of a schedule, or NULL */
    struct tr_cbulk *bulk;      /* of all that match, or NULL */
    struct tr_holding *holding; /* RESERVE_JOB: room for it, */
    struct tr_holder *holder;   /* and for whom */
};

struct tr_item *tr_item_new(struct tr_cluster *c, struct tr_req *r);
void tr_item_pin(struct tr_item *item, struct tr_ctopic *t);
/* The end of it: req->out is filled but for the status. An inner one goes to its `then`. */
void tr_item_finish(struct tr_cluster *c, struct tr_item *item, int status);
void tr_item_refuse(struct tr_cluster *c, struct tr_item *item, int status, const char *why);
void tr_item_free(struct tr_cluster *c, struct tr_item *item);
/* A request without an item. */
void tr_req_finish(struct tr_req *r, int status);
/* out.job, from a header; spans and names are good until it is finished. */
void tr_item_view(struct tr_cluster *c, struct tr_item *item, const struct tr_header *h,
                  uint64_t now_us);

/* ---- lanes ---- */

enum tr_cl_kind {
    TR_CL_PUSH,
    TR_CL_EDIT,
    TR_CL_LOOK,
    TR_CL_KICK,
    TR_CL_CONF,
    TR_CL_PAUSE,
    TR_CL_COUNT,
    TR_CL_TEND,
    TR_CL_PURGE,
    TR_CL_LIST,
    TR_CL_SIFT, /* which jobs a bulk is for, */
    TR_CL_BULK, /* and those are changed */
    TR_CL_FORECAST,
    TR_CL_HEADER,   /* which topic an id is of */
    TR_CL_KEY,      /* which id a key has */
    TR_CL_AGENDA,   /* which topics of a slot are to be looked after */
    TR_CL_OWN,      /* a slot's housekeeping is this node's */
    TR_CL_LOAD,     /* of the whole store: settings of topics, */
    TR_CL_NOTE,     /* those are others now, */
    TR_CL_NAMES,    /* which topics there are */
    TR_CL_DEAD,     /* which nodes' time is over */
    TR_CL_LEASES,   /* which topics of a slot have leases */
    TR_CL_ORPHANS,  /* jobs of a dead node */
    TR_CL_SCHEDULE, /* schedules change, */
    TR_CL_PLAN,     /* are read, */
    TR_CL_ROSTER,   /* get a name, */
    TR_CL_WHERE,    /* are looked for by it, */
    TR_CL_ORDER,    /* or one by one */
    TR_CL_OUTLETS,  /* which topics deliver */
    TR_CL_FIELDS,   /* whose fields the meta of a slot has, */
    TR_CL_BEATS,    /* who has beaten of late, */
    TR_CL_SWEEP,    /* and the fields of others go */
    TR_CL_FORGET,   /* a topic that nobody needs */
    TR_CL_FIX,      /* how many slots a topic has */
    TR_CL_MADE,     /* a slot was made */
    TR_CL_INDEX,    /* with a database, see desk.h: what changed, */
    TR_CL_CLAIM,    /* jobs that are to be handed out, */
    TR_CL_WHICH,    /* a topic by its number there, */
    TR_CL_EPOCH,    /* an epoch for the owner of a slot, */
    TR_CL_RAISE,    /* up to which time rows are in Redis, */
    TR_CL_SCAN,     /* what is there, */
    TR_CL_FLOW,     /* and what happened to a job */
    TR_CL_KINDS,
};

struct tr_clane {
    struct tr_call call;
    struct tr_list all;
    enum tr_cl_kind kind;
    unsigned slot;
    uint64_t op;
    struct tr_list dirty;                     /* has items and no call */
    struct tr_list items;                     /* for the next call */
    struct tr_list flying;                    /* of the one under way */
    unsigned count;                           /* of those */
    struct tr_ctopic *topics[TR_EVAL_TOPICS]; /* of those: a script of jobs names them, */
    unsigned topic_count;
    uint64_t soonest_us;      /* and says that something is due then; 0: now */
    struct tr_desk_lane *sql; /* it asks a database, for all slots of a connection; or NULL */
    struct tr_clane *twin;    /* a second call, for the same items; or NULL */
    struct tr_clane *first;   /* whose twin it is, or NULL */
    bool sheds;               /* INDEX: the call under way makes nothing new */
    unsigned crowd;           /* items that stood in line or were under way, of late */
};

/* How a kind of lane works. */
struct tr_cl_way {
    int script;     /* -1: a command of Redis */
    unsigned most;  /* items in a call */
    bool jobs;      /* a script of jobs: its keys and first arguments are those of common.lua */
    bool meta;      /* of the whole store, not of a slot */
    bool schedules; /* the slot's schedules are its last key */
    bool twin;      /* two may be under way: the script tells them apart by their numbers */
    /* Which script, if it is not always the same; or NULL. */
    int (*choose)(struct tr_cluster *c, struct tr_clane *lane);
    /* Arguments for the items in `flying`, behind those that all have in common. */
    void (*build)(struct tr_cluster *c, struct tr_clane *lane);
    /* What was said: of jobs, as an answer; else, and what is no answer, as it came. Ends all in
     * `flying`. */
    void (*answered)(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a);
    void (*heard)(struct tr_cluster *c, struct tr_clane *lane, const struct tr_redis_reply *reply);
};

/* NULL: no memory. */
struct tr_clane *tr_lane_of(struct tr_cluster *c, enum tr_cl_kind kind, unsigned slot);
/* For a second call. Made when it is first needed; NULL: no memory, so it goes without. */
struct tr_clane *tr_lane_twin(struct tr_cluster *c, struct tr_clane *lane);
/* Into the lane of its slot, which there must be. It goes with the next call. */
void tr_lane_add(struct tr_cluster *c, struct tr_clane *lane, struct tr_item *item);
/* The same, and if there is no memory for one the item ends so. */
void tr_lane_put(struct tr_cluster *c, enum tr_cl_kind kind, struct tr_item *item);
/* Sends what there is. */
void tr_lane_go(struct tr_cluster *c, struct tr_clane *lane);
/* The first one of `flying`, taken out; NULL: that was all. */
struct tr_item *tr_lane_next(struct tr_clane *lane);
unsigned tr_lane_topic(const struct tr_clane *lane, const struct tr_ctopic *t);
/* What all answers of jobs tell: time, versions, whom to wake. */
struct tr_lane_told {
    unsigned slot;
    struct tr_ctopic *const *topics; /* of the call */
    unsigned count;
    uint64_t soonest_us; /* something is due then; 0: now */
};
void tr_lane_common(struct tr_cluster *c, const struct tr_answer *a, const struct tr_lane_told *of);
/* All in `flying` end so. */
void tr_lane_fail(struct tr_cluster *c, struct tr_clane *lane, int status);
/* An answer that says SPREAD: so many slots it should be; else 0. */
unsigned tr_lane_spread(const struct tr_redis_reply *reply);

extern const struct tr_cl_way tr_push_way, tr_edit_way, tr_look_way, tr_kick_way, tr_conf_way,
    tr_pause_way, tr_count_way, tr_tend_way, tr_header_way, tr_key_way, tr_agenda_way, tr_own_way,
    tr_load_way, tr_note_way, tr_names_way, tr_purge_way, tr_list_way, tr_forecast_way, tr_dead_way,
    tr_leases_way, tr_orphans_way, tr_schedule_way, tr_plan_way, tr_roster_way, tr_where_way,
    tr_order_way, tr_outlets_way, tr_sift_way, tr_bulk_way, tr_fields_way, tr_beats_way,
    tr_sweep_way, tr_forget_way;

/* ---- topics ---- */

/* A topic in one of its slots. */
struct tr_spot {
    struct tr_ctopic *topic;
    unsigned index;
    unsigned slot;
    /* Who waits: take.c */
    struct tr_watch watch;
    struct tr_list queued; /* to be asked */
    unsigned asked;        /* so many questions are under way */
    uint64_t round;        /* who has not been asked for in this one is to be */
    uint64_t known_us;     /* boot time: when there may be more, as answers of this round said */
    /* Counts: count.c */
    struct tr_counted count;
    uint64_t counted_us; /* boot time of the question; 0: never */
    uint64_t headed_us;  /* the same, if only what comes first was asked for */
    bool light;          /* that is asked now */
    struct tr_item counter;
    bool counting;
    /* Settings that are to be said again: policy.c */
    struct tr_item mender;
    bool mending;
};

struct tr_ctopic {
    struct tr_list all;  /* by number */
    struct tr_list idle; /* nobody needs it; the longest first */
    struct tr_ctopic *same_hash;
    uint32_t number;
    unsigned pins;
    uint64_t holds[TR_HOLD_COUNT];
    size_t name_len;
    char name[TR_TOPIC_NAME_MAX + 1];

    /* Settings: topics.c, policy.c */
    bool loaded;
    bool loading;
    bool stale; /* there are newer ones */
    uint64_t loaded_us;
    bool known;     /* it is in the list of all topics, */
    uint32_t named; /* which last had it */
    bool kept;      /* also when it has no jobs */
    bool noting;
    bool note_again;      /* it was not there when a push came */
    struct tr_list noted; /* items, for the end of that */
    bool gathered;
    uint32_t version;
    uint32_t slot_version; /* the highest that a slot has named */
    uint32_t tried;        /* the same, when they were last asked for */
    struct tr_policy policy;
    uint8_t *bytes; /* what it was read from; it may point there */
    size_t byte_count;
    struct tr_list waiting; /* items, for that */
    struct tr_item loader;
    struct tr_item noter;

    unsigned spread;
    struct tr_spot *spots;   /* so many; NULL before it was loaded */
    struct tr_spot one;      /* most have one */
    unsigned turn;           /* where the next job without a key goes */
    struct tr_list counting; /* items, for counts */
    struct tr_list line;     /* waiters */
    unsigned waiting_count;
    enum tr_order order; /* if a push makes it */

    /* What this node did. */
    uint64_t pushed, deleted, pauses, handed;
    struct tr_meter_hold metering;
    struct tr_late *late;
    struct tr_rate pushes, hands;
    uint64_t full_us;  /* boot time at which it was last known to have a job; 0: not known */
    uint32_t row;      /* its number in the database; 0: it is not there, or that is not known */
    uint64_t asked_us; /* boot time: when its settings were last asked for */
    uint64_t heavy;    /* bytes that it had there when it was counted */
    bool makes, keeps; /* it is to be made there when it is loaded; and to stay without jobs */
};

int tr_ctopics_init(struct tr_cluster *c);
void tr_ctopics_fini(struct tr_cluster *c);
struct tr_ctopic *tr_ctopic_by_number(const struct tr_cluster *c, uint32_t number);
/* Makes it if need be; NULL: no memory, or too many. */
struct tr_ctopic *tr_ctopic_get(struct tr_cluster *c, const char *name, size_t len);
void tr_ctopic_pin(struct tr_ctopic *t);
void tr_ctopic_unpin(struct tr_cluster *c, struct tr_ctopic *t);
/* `then`, when its settings are known; or the item ends. */
void tr_ctopic_load(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* That would have to ask: it is not known, or was not there. */
bool tr_ctopic_is_news(const struct tr_cluster *c, const struct tr_ctopic *t);
/* They are asked for anew; whoever waits for that. */
void tr_ctopic_reload(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* A slot says that they are of this version. */
void tr_ctopic_version(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot, uint32_t version);
/* A slot says that it was made for so many slots. False: no memory, or that makes no sense. */
bool tr_ctopic_set_spread(struct tr_cluster *c, struct tr_ctopic *t, unsigned spread);
/* A push found that it was not there: it may have been forgotten. */
void tr_ctopic_made(struct tr_cluster *c, struct tr_ctopic *t);
/* It is to be among all topics. */
void tr_ctopic_note(struct tr_cluster *c, struct tr_ctopic *t, bool keep);
/* The same; `then`, when it is, or could not be. */
void tr_ctopic_noted(struct tr_cluster *c, struct tr_item *item, bool keep, tr_item_fn *then);
struct tr_spot *tr_ctopic_spot(struct tr_ctopic *t, unsigned slot);
void tr_ctopic_hold(struct tr_cluster *c, struct tr_req *r);
void tr_ctopic_drop(struct tr_cluster *c, struct tr_req *r);
void tr_ctopic_find(struct tr_cluster *c, struct tr_item *item);
void tr_ctopic_next(struct tr_cluster *c, struct tr_item *item);
/* `then`, when all topics that there are are known here, with counts, as they were a second ago. */
void tr_ctopics_all(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* The same without counts, as they were when it was asked or later. */
void tr_ctopics_now(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* Its settings are known now, or its counts, or will not be. */
void tr_ctopics_gathered(struct tr_cluster *c, struct tr_ctopic *t);
void tr_ctopics_named(struct tr_cluster *c, struct tr_item *names);
/* What stands in the list of topics, at NULL: nothing. False: no memory. */
bool tr_ctopic_learn(struct tr_cluster *c, struct tr_ctopic *t, struct tr_span text);
bool tr_ctopic_has_jobs(const struct tr_ctopic *t);

/* Is it there, or only for the port that holds it by TR_HOLD_KEEP, which is not `shown`? */
bool tr_ctopic_there(const struct tr_ctopic *t, bool shown);
bool tr_ctopic_held(const struct tr_ctopic *t);

/* Settings as they stand in the list of topics: version, kept or not, policy. */
enum { TR_CL_NOTE_HEAD = 9 };
extern const struct tr_cl_way tr_fix_way;
void tr_policy_set(struct tr_cluster *c, struct tr_item *item);
void tr_policy_pause(struct tr_cluster *c, struct tr_item *item);
/* This slot has older settings than there are. */
void tr_policy_mend(struct tr_cluster *c, struct tr_spot *spot);

/* ---- requests of jobs ---- */

void tr_push_ask(struct tr_cluster *c, struct tr_item *item);
void tr_edit_ask(struct tr_cluster *c, struct tr_item *item);
void tr_kick_ask(struct tr_cluster *c, struct tr_item *item);
void tr_look_ask(struct tr_cluster *c, struct tr_item *item);
void tr_look_at(struct tr_cluster *c, struct tr_item *item); /* id and topic are known */
/* Finds the topic of an id, or the id of a key. */
void tr_find_job(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* Jobs whose topic is known need not be looked for. */
void tr_find_note(struct tr_cluster *c, uint64_t id, const struct tr_ctopic *t);

/* `then`, when counts of all its slots are not older than since_us (boot time). */
void tr_count_topic(struct tr_cluster *c, struct tr_item *item, uint64_t since_us,
                    tr_item_fn *then);
/* The same, of what comes first alone, and whether there is anything: with a database that is
 * cheap, and the rest is not. */
void tr_count_heads(struct tr_cluster *c, struct tr_item *item, uint64_t since_us,
                    tr_item_fn *then);
void tr_count_heads_start(struct tr_cluster *c, struct tr_ctopic *t, uint64_t since_us);
/* Asks for those of them that are older, and does not wait. False: none is. */
bool tr_count_start(struct tr_cluster *c, struct tr_ctopic *t, uint64_t since_us);
void tr_count_prepare(struct tr_spot *spot);
/* This node changed something there. */
void tr_count_changed(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot);
/* Is the head of a before that of b? */
bool tr_count_better(const struct tr_counted *a, const struct tr_counted *b, enum tr_order order);
void tr_count_fill(struct tr_cluster *c, struct tr_req *r, const struct tr_ctopic *t);
void tr_count_sum(const struct tr_ctopic *t, struct tr_counted *sum);
void tr_count_stat_topic(struct tr_cluster *c, struct tr_item *item);
void tr_count_stat(struct tr_cluster *c, struct tr_item *item);
void tr_count_first(struct tr_cluster *c, struct tr_item *item);

void tr_purge_ask(struct tr_cluster *c, struct tr_item *item);
void tr_page_ask(struct tr_cluster *c, struct tr_item *item);
void tr_forecast_ask(struct tr_cluster *c, struct tr_item *item);
void tr_roam_free(struct tr_cluster *c, struct tr_item *item);

/* What happened to a job, from a database: sql_flow.c */
void tr_flow_ask(struct tr_cluster *c, struct tr_item *item);

/* What a database has comes into Redis anew: sql_look.c */
void tr_restore_ask(struct tr_cluster *c, struct tr_item *item);

void tr_bulks_init(struct tr_cluster *c);
void tr_bulks_fini(struct tr_cluster *c);
void tr_bulk_ask(struct tr_cluster *c, struct tr_item *item);
/* It ends so; gives what is to be answered. */
int tr_bulk_ends(struct tr_cluster *c, struct tr_item *item, int status);
void tr_bulk_free(struct tr_cluster *c, struct tr_item *item);

/* ---- charts ---- */

void tr_gauges_init(struct tr_cluster *c);
void tr_gauges_fini(struct tr_cluster *c);
void tr_gauge_join(struct tr_cluster *c, struct tr_ctopic *t);
void tr_gauge_leave(struct tr_cluster *c, struct tr_ctopic *t);
/* Something happened to so many jobs of it. */
void tr_gauge_count(struct tr_cluster *c, struct tr_ctopic *t, enum tr_metered what, uint64_t n);
void tr_gauge_pushed(struct tr_cluster *c, struct tr_ctopic *t);
struct tr_gauge_hand {
    uint64_t late_us;
    uint64_t waited_us; /* since it was due */
    bool fired;         /* it was delayed, and comes for the first time */
};
void tr_gauge_handed(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_gauge_hand *hand);
void tr_gauge_tended(struct tr_cluster *c, struct tr_ctopic *t, const struct tr_answer *a);
/* Rates and lateness of late; NULL: of all. */
void tr_gauge_fill(const struct tr_cluster *c, const struct tr_ctopic *t, struct tr_topic_stat *s);

/* ---- hand-outs ---- */

/* A job that a connection has; or one that came for nobody, and goes back. */
struct tr_holding {
    struct tr_item item; /* for when it goes back: id, lease, topic */
    struct tr_list all;
    struct tr_holder *holder;
    struct tr_list of_holder;
    uint64_t end_us; /* boot time: of its lease */
    uint32_t place;  /* among those that end */
    bool returning;
};

struct tr_holder {
    uint64_t number;
    struct tr_list holdings;
    struct tr_list waits; /* its reserves */
    unsigned users;       /* reserves that will add to it */
};

struct tr_wait;
struct tr_waiter {
    struct tr_list link; /* in the topic's line */
    struct tr_wait *wait;
    struct tr_ctopic *topic;
    uint64_t *seen; /* by spot: the last round in which it was asked for */
};

/* A RESERVE. */
struct tr_wait {
    struct tr_item item;
    struct tr_list all;
    uint32_t place; /* among the timers of waits */
    uint64_t at_us;
    uint64_t until_us; /* boot time */
    struct tr_holder *holder;
    struct tr_list of_holder;
    struct tr_spot *asked;   /* it is part of a question there, */
    struct tr_list in_group; /* among others */
    bool in_line;
    bool idle;             /* is not to wait: ends when all were asked */
    struct tr_spot *first; /* the one with the best head; only that is asked for it, */
    bool lined;            /* until all of them are */
    bool tried;            /* somebody was asked, in vain */
    unsigned step;         /* topics that are loaded, then counted */
    uint64_t *seen;
    unsigned seen_count;
    unsigned count;
    struct tr_waiter waiters[];
};

void tr_waits_init(struct tr_cluster *c);
void tr_wait_ask(struct tr_cluster *c, struct tr_req *r);
void tr_wait_abandon(struct tr_cluster *c, struct tr_wait *w);
void tr_wait_finish(struct tr_cluster *c, struct tr_wait *w, int status);
/* The same for all that wait. */
void tr_waits_end(struct tr_cluster *c, int status);
/* Its question came to nothing: another one, the line, or the end. */
void tr_wait_on(struct tr_cluster *c, struct tr_wait *w);
/* There was more than came: it is to be asked for there again. */
void tr_wait_unsee(struct tr_cluster *c, struct tr_wait *w, const struct tr_spot *spot);
/* Those whose patience is over, or whose holder is to be warned. */
void tr_wait_timers(struct tr_cluster *c);
/* The holder has another job, of whose end it may have to be warned. */
void tr_wait_retime(struct tr_cluster *c, struct tr_holder *h, uint64_t end_us);
uint64_t tr_wait_next(const struct tr_cluster *c);
/* The topic's slots become others: who waits leaves, and comes back. Not while one of them is
 * asked for. */
bool tr_wait_line_still(const struct tr_ctopic *t);
void tr_wait_unline(struct tr_cluster *c, struct tr_ctopic *t, struct tr_list *waits);
void tr_wait_reline(struct tr_cluster *c, struct tr_list *waits);
void tr_waits_free(struct tr_cluster *c);

/* Somebody waits for it, or nobody any more. */
TR_MUST_USE int tr_take_watch(struct tr_cluster *c, struct tr_ctopic *t);
void tr_take_unwatch(struct tr_cluster *c, struct tr_ctopic *t);
/* It is to be asked. */
void tr_take_spot(struct tr_cluster *c, struct tr_spot *spot);
/* So are those of its topics that were asked while it was elsewhere. */
void tr_take_missed(struct tr_cluster *c, struct tr_wait *w);
/* A wake-up came: due_us by the clock of Redis, 0: now. */
void tr_take_woken(struct tr_cluster *c, struct tr_spot *spot, uint64_t due_us, uint64_t now_us);
void tr_take_turn(struct tr_cluster *c);
uint64_t tr_take_next(const struct tr_cluster *c);
TR_MUST_USE int tr_take_lane(struct tr_cluster *c, unsigned slot);
void tr_take_free(struct tr_cluster *c);
uint64_t tr_take_lease(struct tr_cluster *c);

/* NULL: no memory. It stays until tr_hold_put, and while it has a job. */
struct tr_holder *tr_hold_get(struct tr_cluster *c, uint64_t number);
void tr_hold_put(struct tr_cluster *c, struct tr_holder *h);
struct tr_holding *tr_hold_new(struct tr_cluster *c);
void tr_hold_free(struct tr_cluster *c, struct tr_holding *g);
/* It has this job now. */
void tr_hold_add(struct tr_cluster *c, struct tr_holder *h, struct tr_holding *g);
struct tr_holding *tr_hold_find(struct tr_cluster *c, uint64_t holder, uint64_t id);
/* The job goes back: as if it had not been handed out, or since its connection is gone. */
void tr_hold_return(struct tr_cluster *c, struct tr_holding *g, bool handed);
void tr_hold_turn(struct tr_cluster *c);
uint64_t tr_hold_next(const struct tr_cluster *c);
/* That lease is over; or ends then. */
void tr_hold_end(struct tr_cluster *c, uint64_t holder, uint64_t id);
void tr_hold_touched(struct tr_cluster *c, uint64_t holder, uint64_t id, uint64_t end_us);
void tr_hold_close(struct tr_cluster *c, struct tr_req *r);
/* When the first lease of a holder ends; TR_CL_NEVER. */
uint64_t tr_hold_first_end(const struct tr_cluster *c, const struct tr_holder *h);
void tr_holds_free(struct tr_cluster *c);
/* RESERVE_JOB: before it is asked, when it was done, before who asked is told, and at the end: what
 * nobody was told of goes back. */
TR_MUST_USE bool tr_hold_room(struct tr_cluster *c, struct tr_item *item);
void tr_hold_reserved(struct tr_cluster *c, struct tr_item *item, const struct tr_header *h,
                      uint64_t now_us);
void tr_hold_settle(struct tr_cluster *c, struct tr_item *item, int status);
void tr_hold_let_go(struct tr_cluster *c, struct tr_item *item);

/* ---- other nodes ---- */

void tr_wake_node(struct tr_cluster *c, const char *node, unsigned slot, const struct tr_ctopic *t,
                  uint64_t due_us);
void tr_wake_turn(struct tr_cluster *c);
uint64_t tr_wake_next(const struct tr_cluster *c);
/* Whoever waits here asks again: it may be that nobody tells this node. */
void tr_wake_all(struct tr_cluster *c);
void tr_wake_up(struct tr_cluster *c);
void tr_wake_heard(struct tr_cluster *c, const struct tr_redis_reply *reply);
void tr_wake_closed(struct tr_cluster *c);
void tr_wakes_free(struct tr_cluster *c);

int tr_home_init(struct tr_cluster *c);
void tr_home_fini(struct tr_cluster *c);
void tr_home_turn(struct tr_cluster *c);
uint64_t tr_home_next(const struct tr_cluster *c);
void tr_home_leave(struct tr_cluster *c);
/* Wake-ups may have got lost: all that is ours is looked at soon. */
void tr_home_look_all(struct tr_cluster *c);
/* Something came into the slot of which nobody tells, or is about to: it is looked at in a second.
 */
void tr_home_look_later(struct tr_cluster *c, unsigned slot);
/* What may have changed, of which the owner of the slot is told: this node, or by a wake-up. */
enum tr_home_word { TR_HOME_AGENDA, TR_HOME_OUTLETS, TR_HOME_LOAD, TR_HOME_ALIGN, TR_HOME_WORDS };
void tr_home_tell(struct tr_cluster *c, unsigned slot, enum tr_home_word word);
/* It has another owner than this node believed: he is told what the last one was. */
void tr_home_retell(struct tr_cluster *c, unsigned slot);
void tr_home_heard(struct tr_cluster *c, unsigned slot, uint64_t word);

/* ---- topics that deliver ---- */

void tr_delivers_init(struct tr_cluster *c);
void tr_delivers_free(struct tr_cluster *c);
void tr_delivers_turn(struct tr_cluster *c);
uint64_t tr_delivers_next(const struct tr_cluster *c);
/* A list of all of them: it begins; one more, false: no memory; that was all. */
void tr_delivers_begin(struct tr_cluster *c);
TR_MUST_USE bool tr_delivers_name(struct tr_cluster *c, struct tr_span name);
void tr_delivers_end(struct tr_cluster *c);
/* Settings of some topic may be others. */
void tr_delivers_look(struct tr_cluster *c);
/* This node has changed this one's. */
void tr_delivers_changed(struct tr_cluster *c, const struct tr_ctopic *t);

/* ---- schedules; see plan.h ---- */

/* A request: SCHEDULE and the like. */
void tr_schedules_ask(struct tr_cluster *c, struct tr_item *item);
/* What an item has of a schedule. */
void tr_plan_free(struct tr_cluster *c, struct tr_item *item);
/* An entry of the agenda that is a schedule's: it is due. */
bool tr_recur_is(struct tr_span entry);
void tr_recur_due(struct tr_cluster *c, struct tr_item *keeper, struct tr_span entry,
                  uint64_t at_us);
/* Those who want to know what will be. */
void tr_schedules_turn(struct tr_cluster *c);
bool tr_schedules_busy(const struct tr_cluster *c);

/* Who lives, and what follows from that: coord.c */
struct tr_coord_state {
    struct tr_coord_port port;
    bool leases; /* it is Redis itself */
    bool again;  /* others came or went: a beat is wanted */
    uint64_t retry_us;
    char why[TR_CL_WHY]; /* it does not answer; "": it does */
    char told[2 * TR_CL_WHY];
};
void tr_coord_init(struct tr_cluster *c, const struct tr_coord_port *port);
/* Which one it is, for people; nodes of one store have the same. */
enum { TR_COORD_NAME = 128 };
void tr_coord_name(const struct tr_cluster *c, char name[TR_COORD_NAME]);
void tr_coord_turn(struct tr_cluster *c);
uint64_t tr_coord_next(const struct tr_cluster *c);
void tr_coord_members(void *ctx, const struct tr_coord_view *view, struct tr_now now);
void tr_coord_failed(void *ctx, const char *why, struct tr_now now);
/* May it look after its slots, at this moment? To be asked before each step. */
bool tr_coord_may(struct tr_cluster *c);
/* Is it among those who live, as far as is known? */
bool tr_coord_lives(const struct tr_cluster *c, uint64_t node);
/* A slot's script said that another one is its owner. */
void tr_coord_ousted(struct tr_cluster *c, unsigned slot);
/* What is wrong with it, for /readyz. */
bool tr_coord_trouble(struct tr_cluster *c, struct tr_reason *reason);

enum { TR_MOURN_TOPICS = 200, TR_MOURN_KNOWN = 256 };

/* A dead node's jobs: mourn.c */
struct tr_mourn {
    struct tr_item item;
    bool busy;
    uint64_t next_us;
    uint64_t alert_us; /* boot time: until then somebody may be found to be dead */
    uint64_t node;     /* whose they are */
    unsigned slot;     /* where it looks, */
    char topics[TR_MOURN_TOPICS][TR_TOPIC_NAME_MAX + 1]; /* at which topics */
    unsigned topic_count, topic_at;
    struct tr_walk walk;
    uint64_t known[TR_MOURN_KNOWN]; /* of those that died it has seen to these */
    unsigned known_at;
};
void tr_mourn_init(struct tr_cluster *c);
void tr_mourn_turn(struct tr_cluster *c);
/* A node has gone; a slot has become ours. */
void tr_mourn_alert(struct tr_cluster *c);
void tr_mourn_again(struct tr_cluster *c);
/* With a database: that was done, or could not be. */
void tr_mourn_done(struct tr_cluster *c, bool good);
uint64_t tr_mourn_next(const struct tr_cluster *c);

/* ---- how it all is ---- */

enum { TR_PICTURE_CALLS = 16 };

struct tr_canvas;
struct tr_painting {
    struct tr_call calls[TR_PICTURE_CALLS];
    struct tr_list asking;  /* items */
    struct tr_canvas *room; /* what is known so far; NULL: nobody asks */
    unsigned step;
    unsigned next_slot;
    unsigned under_way; /* slots that are asked for */
};
TR_MUST_USE int tr_picture_init(struct tr_cluster *c);
void tr_picture_fini(struct tr_cluster *c);
void tr_picture_ask(struct tr_cluster *c, struct tr_item *item);
enum { TR_SWEEP_NAMES = 500 };

/* What dead nodes left in slots: sweep.c */
struct tr_sweep {
    struct tr_item item;
    bool busy;
    uint64_t next_us;
    unsigned slot;
    uint64_t names[TR_SWEEP_NAMES]; /* whose fields are there; then those of the dead */
    unsigned count;
};
void tr_sweep_init(struct tr_cluster *c);
void tr_sweep_turn(struct tr_cluster *c);
uint64_t tr_sweep_next(const struct tr_cluster *c);

/* A Redis that takes no changes: room.c */
struct tr_room {
    struct tr_call call;
    bool full;
    bool meta;     /* by which way it was heard: the store's, or that */
    unsigned slot; /* of a slot, */
    unsigned server;
    uint64_t ask_us; /* boot time: when it is asked again */
};
TR_MUST_USE int tr_room_init(struct tr_cluster *c);
void tr_room_fini(struct tr_cluster *c);
/* The call was refused, in these words; or it brought something new, and was not. */
void tr_room_worse(struct tr_cluster *c, const struct tr_call *call, struct tr_span words);
void tr_room_better(struct tr_cluster *c, const struct tr_call *call);
void tr_room_turn(struct tr_cluster *c);
uint64_t tr_room_next(const struct tr_cluster *c);

/* A topic that is forgotten: forget.c */
struct tr_forget {
    struct tr_item item;
    bool busy;
    int step;
};
void tr_forget_init(struct tr_cluster *c);
/* If nothing else is; else housekeeping comes again. */
void tr_forget_topic(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot);

/* Slots that were made anew: loss.c */
struct tr_loss {
    struct tr_item item;
    bool busy;
    unsigned slot;                    /* the one that is being noted, */
    uint64_t made[TR_SLOTS_MAX / 64]; /* and those that are to be */
    uint64_t next_us;
    uint64_t red_until_us; /* boot time */
    uint64_t said_us;      /* not to be said again before */
};
extern const struct tr_cl_way tr_made_way;
void tr_loss_init(struct tr_cluster *c);
/* `check` has made this slot. */
void tr_loss_made(struct tr_cluster *c, unsigned slot);
/* Something was lost: the node is not ready for a while. */
void tr_loss_red(struct tr_cluster *c);
bool tr_loss_is_red(const struct tr_cluster *c);
void tr_loss_turn(struct tr_cluster *c);
uint64_t tr_loss_next(const struct tr_cluster *c);

/* ---- all of it ---- */

enum tr_cl_refusal { /* why this Redis cannot be served; bits */
                     TR_CL_LAYOUT = 1,
                     TR_CL_VERSION = 2,
                     TR_CL_EVICTION = 4,
                     TR_CL_AUTH = 8,
                     TR_CL_STORE = 16,
                     TR_CL_REPLICAS = 32,
                     TR_CL_COORD = 64,  /* other nodes have another coordinator, */
                     TR_CL_TRUTH = 128, /* or their jobs elsewhere */
};
/* No server is there, or will be before long, that is needed for it. */
bool tr_cluster_is_away(const struct tr_cluster *c, enum tr_op op);
void tr_home_refuse(struct tr_cluster *c, enum tr_cl_refusal what, const char *why);

struct tr_wake_link {
    enum tr_link_state state;
    unsigned server;
    uint64_t timer_us;
    unsigned failures;
    bool denied; /* it may not wait for them, and that was told */
};

struct tr_cl_slot {
    uint16_t hash;
    bool had;              /* it was made anew, and this node had known it before */
    uint64_t server_us;    /* what time it was by its server, */
    uint64_t server_at_us; /* at this boot time; 0: not known */
    uint64_t seen;         /* the highest sequence number that this node knows of */
    uint64_t checked_us;   /* wall clock of the last `check` that was sent */
    uint64_t agenda_us;    /* boot time: its housekeeping is to be looked at; */
    uint64_t later_us;     /* and whatever is found there, then; */
    uint64_t keeper_node;  /* by this node, as the last view has it; 0: there was none yet */
    bool owned;            /* if it is this one, */
    bool sworn;            /* and Redis knows */
    bool looking;
    bool nudged;                     /* meanwhile it changed */
    uint64_t told_us[TR_HOME_WORDS]; /* boot time: its owner was told, or this node was; 0: never */
    uint64_t since_us;               /* by Redis: ours since then; ticks before were missed */
    uint32_t epoch;
    struct tr_item keeper;
};

struct tr_cluster {
    struct tr_mem *mem;
    struct tr_desk *desk; /* it has a database: desk.h; or NULL */
    struct tr_cluster_config config;
    struct tr_redis_port port;
    struct tr_now now;
    struct tr_layout layout;
    char node[TR_PLACE_NODE_DIGITS + 1];
    char uuid[TR_CLUSTER_UUID + 1]; /* empty: not known yet */
    uint8_t uuid_bytes[16];
    char address[128]; /* and version, as others show them */
    char fresh_uuid[TR_CLUSTER_UUID + 1];
    uint64_t fresh_until_us; /* boot time: the store is new until then, and made by this node */
    bool emptied;            /* it was there, and is to be made once more */
    struct tr_rng rng;
    enum tr_engine_stage stage;
    unsigned refused; /* enum tr_cl_refusal */
    char refusal[2 * TR_CL_WHY];
    char away[2 * TR_CL_WHY];
    bool draining;
    uint64_t short_us;  /* boot time until which replicas are told to be missing */
    uint64_t denied_us; /* boot time until which it is told that a right is missing: */
    char denied[3 * TR_CL_WHY];
    uint64_t clock_off_us; /* boot time until which its clock is told to be off; 0: it is not */
    uint64_t server_us;    /* what time it was by Redis, */
    uint64_t server_at_us; /* at this boot time; 0: not known */
    uint64_t meta_us;      /* the same by the server of {meta} */
    uint64_t meta_at_us;
    uint64_t lease_count;
    unsigned work;

    struct tr_shards shards;
    struct tr_link links[TR_SHARDS_SERVERS];
    unsigned seed_count; /* the first so many servers are those of the config */
    bool alone;          /* no cluster: one server has all */
    struct tr_call chart;
    unsigned chart_at;     /* whom to ask next */
    uint64_t chart_us;     /* not before */
    bool chart_bad;        /* as it was told: nobody has some of the hash slots */
    struct tr_heap timers; /* calls */
    uint64_t tags;
    uint64_t calls_begun;

    struct tr_map lanes;
    struct tr_list all_lanes;
    struct tr_list dirty;
    uint64_t items_queued;    /* in lanes */
    uint64_t calls_under_way; /* of lanes and takes, */
    uint64_t takes_under_way; /* and of takes alone */
    uint64_t
        claims_under_way; /* jobs that a database was asked for, which may have them reserved */
    uint64_t owed;        /* takes that were given up, and are to be made undone */
    uint64_t returning;   /* jobs that go back */
    struct tr_backoff backoff; /* room for that of a view */
    struct tr_event events[3]; /* and for a history */
    uint64_t retry_us;         /* something found no memory: a round then */
    struct tr_map takes;
    struct tr_list all_takes;
    struct tr_list dirty_takes;
    struct tr_cl_slot slots[TR_SLOTS_MAX];
    unsigned meta_hash;

    struct tr_list topics; /* all, by number */
    struct tr_list idle_topics;
    struct tr_map by_name;
    struct tr_map by_number;
    uint32_t next_number;
    uint64_t topic_count;
    struct tr_list gathering; /* items, for all topics; those that are light want no counts */
    struct tr_item names;
    enum { TR_GATHER_NONE, TR_GATHER_NAMES, TR_GATHER_LOADS, TR_GATHER_COUNTS } gather;
    uint64_t gather_left; /* topics */
    int gather_status;    /* of one that could not be read */
    uint64_t named_us;    /* boot time of the last list of them; 0: never */
    uint64_t names_us;    /* the same, and they were counted; 0: never, or it was changed here */
    uint64_t listed_us;   /* the same, whatever was changed since */
    uint32_t names_round; /* counts those lists */
    uint64_t naming_us;   /* of the one that is under way */

    struct {
        uint64_t id;
        uint32_t topic;
    } cache[TR_CL_CACHE];

    struct tr_vigil vigil;
    struct tr_heap waits; /* timers of those who wait */
    struct tr_list waiting;
    uint64_t wait_count;
    struct tr_map holders;
    struct tr_list holdings;
    struct tr_heap ends;  /* of leases */
    struct tr_list later; /* items that go back, and could not: again at */
    uint64_t later_us;
    uint64_t held;
    struct tr_map wakers; /* by node */
    struct tr_list all_wakers;
    struct tr_wake_link wake;
    char wake_key[TR_PLACE_KEY_MAX];
    size_t wake_key_len;
    unsigned wake_hash;

    struct tr_coord_state coord;
    struct tr_tenure tenure;
    struct tr_members members;
    uint64_t viewed_us; /* boot time: who lives was heard last */
    struct tr_call beat;
    bool beat_asked;  /* by the coordinator that leases in Redis are */
    uint64_t beat_us; /* the next one, if they are not */
    uint64_t beat_retry_us;
    bool leaving;
    bool owns;         /* may do housekeeping, as far as it knew last */
    uint64_t house_us; /* when there is some */
    unsigned agenda_at;

    struct tr_mourn mourn;
    struct tr_painting painting;
    struct tr_loss loss;
    struct tr_list deliverers; /* topics: deliver.c */
    struct tr_item deliver_list;
    bool deliver_asking, deliver_again;
    uint64_t deliver_us;    /* when to ask which they are */
    uint64_t deliver_owned; /* as of this one of */
    uint64_t shares;        /* how often a slot became ours, or was no more */
    struct tr_sweep sweep;
    struct tr_room room;
    struct tr_atlas atlas;
    struct tr_met {
        uint64_t seed;  /* of a schedule, */
        uint64_t at_us; /* whose name was looked for then */
    } met[TR_CL_MET];
    struct tr_list telling; /* items that want to know when a schedule is due */
    struct tr_list bulks;   /* that can be gone on with */
    unsigned bulk_count;
    struct tr_forget forget;

    char *actors; /* TR_ACTOR_NAME_MAX bytes each, the rest zeros */
    unsigned actor_count, actor_room;

    struct tr_cluster_stat stat;
    struct tr_topic_stat totals; /* what this node did, of all topics */
    struct tr_meters meters;     /* and of each: gauge.c */
    struct tr_lates lates;
    struct tr_late *late;
    struct tr_rate pushes, hands;
};

void tr_cluster_note(const struct tr_cluster *c, enum tr_notice kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A call was given up. */
void tr_cluster_trouble(struct tr_cluster *c, const struct tr_call *call, enum tr_route_why why,
                        const struct tr_redis_reply *reply);
void tr_cluster_set_now(struct tr_cluster *c, struct tr_now now);
/* What time it is by Redis, as far as is known. */
uint64_t tr_cluster_server_now(const struct tr_cluster *c);
/* And by the server of this slot, or of {meta}: their clocks may differ. */
uint64_t tr_cluster_meta_now(const struct tr_cluster *c);
uint64_t tr_cluster_slot_now(const struct tr_cluster *c, unsigned slot);
/* Boot time of a time by Redis. */
uint64_t tr_cluster_boot_of(const struct tr_cluster *c, uint64_t server_us, uint64_t now_us);

#endif
