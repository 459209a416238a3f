#ifndef TR_PORT_REQUEST_H
#define TR_PORT_REQUEST_H

/*
 * What the ports ask of an engine, and what it answers. The embedded engine takes requests by
 * tr_engine_submit; the engine on Redis will answer the same struct.
 *
 * A request belongs to its maker, who does not touch it between submit and `done`. `done` is
 * called once, perhaps from inside submit, when the request has taken effect in memory; it may
 * submit and abandon other requests, and whoever goes on like that without end must do so from a
 * loop of his own: each is a call inside a call. Its
 * answer may be told to the outside only when the engine's durable batch has reached `gate`;
 * 0 means at once. What `out` points to (body, key, names, topic name) is valid during `done` only.
 * A body that is pushed must stay until `done`; but its maker may move it and set `body` anew.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TR_WAIT_FOREVER UINT64_MAX
#define TR_DELAY_MAX_US (UINT64_C(137) * 365 * 86400 * 1000000)

struct tr_picture;
struct tr_policy;
struct tr_backoff;
struct tr_schedule;
struct tr_schedule_state;

enum tr_op {
    TR_OP_PUSH,        /* topic, body, delay_us or at_us, priority, ttr_us; key -> job, existed */
    TR_OP_RESERVE,     /* topics, topic_count, order, wait_us, warn_us, holder -> job */
    TR_OP_RESERVE_JOB, /* id, holder: whatever its state but reserved -> job */
    TR_OP_DELETE,      /* id, holder or lease, force: ack or cancel -> job (state it had) */
    TR_OP_RELEASE,     /* id, holder or lease, priority, delay_us */
    TR_OP_RETURN,      /* id, holder or lease: as if it had never been handed out */
    TR_OP_BURY,        /* id, holder or lease, priority; force: one that nobody holds */
    TR_OP_TOUCH,       /* id, holder or lease */
    TR_OP_KICK,     /* topic, count: dead ones first, delayed ones if there was no dead -> number */
    TR_OP_KICK_JOB, /* id: dead or delayed */
    TR_OP_FIRE,     /* id: delayed, due now */
    TR_OP_EDIT,     /* id, edit mask: delay_us/at_us, priority, ttr_us, body -> job */
    TR_OP_PAUSE,    /* topic, wait_us: no hand-outs for so long; 0 resumes; force: that is not
                       counted as a pause */
    TR_OP_PEEK,     /* id -> job with body */
    TR_OP_PEEK_FIRST, /* topic, state (ready, delayed or dead), order -> job with body */
    TR_OP_STAT_JOB,   /* id -> job without body, name of its topic */
    TR_OP_STAT_TOPIC, /* topic -> stat, name */
    TR_OP_STAT,       /* -> total; number: topics that are listed, or `shown` */
    TR_OP_FORECAST,   /* topic (0: all), from_us, until_us, step_us -> forecast */
    TR_OP_HOLD_TOPIC, /* name, hold -> topic: makes it if need be, keeps it while held; TARRY_EFULL:
                         there are too many */
    TR_OP_FIND_TOPIC, /* name, shown -> topic, stat.listed; TARRY_ENOTFOUND when there is none */
    TR_OP_DROP_TOPIC, /* topic, hold: undoes one HOLD_TOPIC */
    TR_OP_NEXT_TOPIC, /* topic, shown: the next one by number after it (0: the first) -> topic,
                         name, stat.listed */
    TR_OP_CLOSE,      /* holder: is gone; what it holds is ready again */
    TR_OP_BULK,       /* topic, filter, bulk, shift_us, count, dry_run, cursor -> number, passed,
                         cursor */
    TR_OP_PURGE,      /* topic: all its jobs are dead, reserved ones too -> number */
    TR_OP_LIST,       /* topic, filter, cursor, count: a page of so many at most -> jobs, cursor */
    TR_OP_POLICY,     /* topic, policy, fields: those are as in *policy from now on -> stat */
    TR_OP_HISTORY,    /* id -> events; TARRY_ENOTFOUND: nothing is known of it */
    TR_OP_ADVANCE, /* at_us, or delay_us from where it stands: the test clock goes there, all that
                      happens on the way is done -> number: where it stands; TARRY_EUNSUPPORTED:
                      there is no test clock; TARRY_ESTATE: that is past. If its maker leaves it
                      goes on */
    TR_OP_BACKUP,  /* name: path of a folder that is not there, is empty or has a copy that was not
                      finished; else TARRY_EEXISTS -> number: bytes copied. It goes on as well */
    TR_OP_PICTURE, /* -> picture, of a server that is many nodes; else TARRY_EUNSUPPORTED */
    TR_OP_RESTORE, /* id, or 0: all: what a database knows is put into Redis anew -> job, or number:
                      slots; TARRY_ESTATE: a dead one is not there. Else TARRY_EUNSUPPORTED */
    TR_OP_SCHEDULE,       /* name, schedule: it is so from now on -> schedule, existed. Another one
                             of that name is made anew; TARRY_ENOTFOUND: there is no such zone */
    TR_OP_SCHEDULE_GET,   /* name -> schedule, as all below; TARRY_ENOTFOUND: there is none */
    TR_OP_SCHEDULE_AFTER, /* id: the next one by number after it (0: the first) */
    TR_OP_SCHEDULE_TIMES, /* name, count up to TR_SCHEDULE_TIMES_MAX -> times, number. schedule: not
                             of the one that there is, but of this one, if it were set now */
    TR_OP_SCHEDULE_DROP,  /* name: it ends; its jobs stay */
    TR_OP_SCHEDULE_PAUSE, /* name: no ticks any more, */
    TR_OP_SCHEDULE_RESUME, /* name: and again, from now on */
    TR_OP_SCHEDULE_RUN,    /* name: one job now, besides all ticks -> job */
    TR_OP_COUNT
};

enum tr_job_state { TR_DELAYED = 1, TR_READY, TR_RESERVED, TR_DEAD };

/* Both orders begin with the priority. */
enum tr_order {
    TR_ORDER_DUE, /* then due, then id: HTTP */
    TR_ORDER_ID,  /* then id: beanstalk */
    TR_ORDER_COUNT
};

enum tr_edit {
    TR_EDIT_DUE = 1,
    TR_EDIT_PRIORITY = 2,
    TR_EDIT_TTR = 4,
    TR_EDIT_BODY = 8,
    TR_EDIT_TTL = 16, /* 0: none */
    TR_EDIT_TAG = 32, /* of 0 bytes: none */
};

/* Which jobs a LIST or BULK is about, of one topic or, if that is 0, of all. All zero: all. */
struct tr_filter {
    unsigned states;      /* bits 1 << enum tr_job_state; 0: any */
    uint64_t due_from_us; /* due times from this one on, */
    uint64_t due_to_us;   /* and before this one; 0: without end */
    const char *tag;      /* must stay until `done` */
    size_t tag_len;       /* 0: any */
};

/* What a BULK does to each: cancel (delayed, ready, dead), change the due time by shift_us
 * (delayed, ready; the past means now), make due now (delayed, dead). Reserved jobs are passed
 * over. */
enum tr_bulk_what { TR_BULK_CANCEL, TR_BULK_SHIFT, TR_BULK_KICK, TR_BULK_COUNT };

enum { TR_BULK_MAX = 1000000 }; /* jobs that one BULK changes */

enum { TR_LIST_MAX = 1000 }; /* jobs of one page */

/*
 * How far a LIST has come: behind this job. A page has jobs by (due, id), then the dead ones by
 * their time of death. It may have fewer jobs than were asked for, or none, though there are more.
 */
struct tr_cursor {
    bool dead;
    bool more;   /* from an answer: there may be more behind it */
    uint64_t at; /* due time, or place among the dead; all zero: the beginning */
    uint64_t id;
};

/* PUSH: what to do when a live job of the topic, dead ones included, has its key. */
enum tr_conflict {
    TR_CONFLICT_REPLACE, /* that job keeps its id and is all else that was asked for, its counters
                            0; a dead one lives again; TARRY_ESTATE if it is reserved */
    TR_CONFLICT_KEEP,    /* it is the answer, and nothing changes */
    TR_CONFLICT_ERROR,   /* TARRY_EEXISTS, with the job */
    TR_CONFLICT_COUNT
};

/* Why a topic is held: only counted apart. KEEP: so that it is always there. */
enum tr_hold { TR_HOLD_USE, TR_HOLD_WATCH, TR_HOLD_KEEP, TR_HOLD_COUNT };

/* A job as others see it. */
struct tr_job_view {
    uint64_t id;
    uint32_t topic;
    const char *topic_name; /* without an end; NULL: it died with the job */
    size_t topic_name_len;
    enum tr_job_state state;
    uint32_t priority;
    uint64_t due_us;
    uint64_t created_us;
    uint64_t age_us;   /* since then; 0 if it was not read */
    uint64_t delay_us; /* as last given */
    uint64_t ttr_us;
    uint64_t left_us; /* until due, or until the lease ends; else 0 */
    uint64_t late_us; /* became ready - due; ready and reserved only */
    uint64_t lease;   /* reserved only */
    uint32_t reserves;
    uint32_t timeouts;
    uint32_t releases;
    uint32_t buries;
    uint32_t kicks;
    uint32_t body_len;
    const uint8_t *body; /* where the request says so */
    bool damaged;    /* LIST: its record cannot be read: only id, topic, state and due are known */
    const char *key; /* 1 to 255 bytes without an end; NULL: it has none, or it was not read */
    size_t key_len;
    const char *tag; /* the same, 1 to 64 bytes */
    size_t tag_len;
    uint64_t ttl_us;                  /* 0: none */
    bool has_retries;                 /* given by the push or the topic's policy, */
    int64_t retries;                  /* namely; -1: no end */
    const struct tr_backoff *backoff; /* its own, or NULL; not to be copied as a whole */
    uint8_t dead_why;                 /* enum tr_why; dead ones only, */
    uint64_t dead_at_us;              /* and since when they are */
    bool beanstalk;                   /* made on that port */
};

/* Why a job is dead, or how it went. */
enum tr_why {
    TR_WHY_NONE,
    TR_WHY_ACKED = 1,
    TR_WHY_CANCELLED = 2,
    TR_WHY_EXPIRED = 3,
    TR_WHY_BURIED = 4,
    TR_WHY_RETRIES = 5,
    TR_WHY_DROPPED = 6, /* dead for too long, or too many dead */
    TR_WHY_DAMAGED = 7, /* its body cannot be read any more */
};

/* Something that happened to a job. */
enum tr_event_what {
    TR_EVENT_PUSHED = 1,
    TR_EVENT_CHANGED, /* rescheduled, edited */
    TR_EVENT_READY,
    TR_EVENT_HANDED,
    TR_EVENT_TOUCHED,
    TR_EVENT_RELEASED,
    TR_EVENT_TIMED_OUT, /* its lease ran out */
    TR_EVENT_DEAD,      /* see why */
    TR_EVENT_KICKED,
    TR_EVENT_GONE, /* see why */
};

struct tr_event {
    uint64_t at_us;
    uint8_t what;   /* enum tr_event_what */
    uint8_t state;  /* enum tr_job_state from then on; 0: gone */
    uint8_t why;    /* enum tr_why */
    uint32_t actor; /* who did it, from tr_engine_actor; 0: not known, or nobody */
};

enum { TR_ACTORS_MAX = 2047, TR_ACTOR_NAME_MAX = 64 };

struct tr_topic_stat {
    uint64_t delayed;
    uint64_t ready;
    uint64_t urgent; /* ready with a priority < 1024 */
    uint64_t reserved;
    uint64_t dead;
    uint64_t pushed;   /* since the start; STAT: those of topics that are gone, too */
    uint64_t deleted;  /* since the start; the same */
    uint64_t timeouts; /* leases that ran out since the start; STAT only */
    uint64_t dropped;  /* dead ones killed for their age or number, since the start */
    uint64_t holds[TR_HOLD_COUNT];
    uint64_t waiting; /* reserves that wait here */
    uint64_t pauses;
    uint64_t pause_us;        /* as given */
    uint64_t pause_left_us;   /* 0: not paused */
    uint64_t now_us;          /* what time it is, by the test clock if there is one */
    uint64_t history_us;      /* what happened since then is known, if it is to be; STAT only */
    uint64_t next_due_us;     /* of the first delayed job, wherever it is; 0: there is none.
                                 STAT_TOPIC only, as all below */
    uint64_t oldest_ready_us; /* since when the oldest ready job in memory is; 0: there is none */
    uint64_t pushed_milli;    /* in 1000 seconds, by what was in the last ten; STAT, too */
    uint64_t handed_milli;
    uint64_t late_p50_us; /* of those that became due in the last 2 to 4 minutes, right to 1/8;
                             STAT, too */
    uint64_t late_p99_us;
    bool listed; /* it has a job or a hold: beanstalk shows it */
    const struct tr_policy *policy;
};

enum { TR_FORECAST_STEPS_MAX = 2000 };

/*
 * How many live, not dead jobs are due in each step. Times and steps are multiples of the
 * resolution, so the first step may begin before what was asked for, and the last one may be
 * shorter than the others. What is due before from_us is not counted: as a rule that is the second
 * of now, or later if that was asked for; when so much is pending that it can only be told by day
 * (or hour, or minute), it is the beginning of that day.
 */
struct tr_forecast_view {
    uint64_t resolution_us; /* a second, minute, hour or day */
    uint64_t first_us;      /* where the first step begins */
    uint64_t from_us;
    uint64_t until_us; /* where the last one ends */
    uint64_t step_us;
    unsigned count; /* steps */
    const uint64_t *counts;
    bool approximate; /* some of them are guessed */
};

enum { TR_SCHEDULE_TIMES_MAX = 1000 };

struct tr_schedule_view {
    uint64_t number;
    const char *name;
    size_t name_len;
    const struct tr_schedule *is;
    const struct tr_schedule_state *at;
    uint64_t next_us; /* when its next job will be due; 0: none will, or it waits for an end */
    bool held;        /* its tick cannot make a job now: the topic or the store takes none, */
    bool lost;        /* or its zone is not there any more */
};

struct tr_req;
typedef void tr_req_done_fn(struct tr_req *r);

struct tr_req {
    enum tr_op op;
    tr_req_done_fn *done;
    void *ctx; /* the maker's */

    /* What is asked. */
    uint32_t actor;         /* who asks, for histories; 0: not known */
    uint32_t topic;         /* by number, from HOLD_TOPIC or FIND_TOPIC */
    const uint32_t *topics; /* RESERVE; not needed after submit */
    unsigned topic_count;
    const char *name; /* HOLD_TOPIC, FIND_TOPIC; of a schedule */
    size_t name_len;
    const char *key; /* PUSH; and instead of an id, with topic: then the engine sets the id */
    size_t key_len;  /* 1 to 255; 0: none. The bytes must stay until `done` */
    enum tr_conflict conflict;
    uint64_t id;
    uint64_t holder; /* a connection, not 0; or 0: a lease that outlives connections and restarts */
    uint64_t lease;
    uint64_t delay_us;
    uint64_t at_us;   /* not 0: absolute, instead of delay_us; the past means now */
    uint64_t from_us; /* FORECAST: the past means now */
    uint64_t until_us;
    uint64_t step_us; /* at most TR_FORECAST_STEPS_MAX of them */
    uint64_t wait_us;
    uint64_t warn_us; /* RESERVE with a holder: TARRY_ESOON as soon as nothing can be handed out
                         and a lease of this holder ends within so long; 0: never */
    uint64_t ttr_us; /* 1 to TR_DELAY_MAX_US; RESERVE with holder 0: 0 is the job's own; TOUCH: 0 is
                        as before; PUSH: 0 is what the topic's policy gives */
    uint64_t lease_us; /* RESERVE, TOUCH, of a job that a holder has: its lease is at least so long;
                          the server's own consumers have a reason for that, clients none */
    uint64_t ttl_us;   /* PUSH: 0 is what the topic's policy gives; EDIT: 0 is none */
    bool has_retries;  /* PUSH: not what that gives, */
    int64_t retries;   /* but this */
    const struct tr_backoff *backoff; /* PUSH: NULL is what that gives */
    const char *tag;                  /* PUSH, EDIT; RESERVE: only jobs with this one. The bytes
                                         must stay until `done` */
    size_t tag_len;                   /* 1 to 64; 0: none */
    bool by_backoff;                /* RELEASE: the backoff says how long it waits, not delay_us */
    bool keep_priority;             /* RELEASE, BURY: it keeps the priority that it has */
    const struct tr_policy *policy; /* POLICY */
    const struct tr_schedule *schedule; /* SCHEDULE; what it borrows must stay until `done` */
    unsigned fields;                    /* POLICY: TR_POLICY_BIT */
    const uint8_t *body;
    size_t body_len;
    uint64_t count;
    struct tr_filter filter;
    struct tr_cursor cursor; /* LIST, BULK: to go on, as the last answer said. That of a BULK is
                                TARRY_ESTATE after a restart */
    enum tr_bulk_what bulk;
    int64_t shift_us;     /* BULK; or at_us: the due time of all */
    bool dry_run;         /* BULK: only counts */
    tr_req_done_fn *each; /* BULK: this job is changed, out.job, as it
                             is then or, if it goes, was; it may ask nothing. NULL: not told */
    uint32_t priority;
    enum tr_order order;
    enum tr_job_state state;
    enum tr_hold hold;
    unsigned edit; /* enum tr_edit */
    bool force;
    bool keep_topic; /* PUSH, POLICY: the topic is known from now on, also without a job, and by
                        POLICY over restarts; until */
    bool forget;     /* POLICY: it is not */
    bool shown;      /* FIND_TOPIC, NEXT_TOPIC, STAT: of topics that are there for users: not of one
                        that only TR_HOLD_KEEP keeps, but of those that have a policy only */
    bool counts_only; /* STAT_TOPIC: not next_due_us, for which jobs may have to be looked for */
    bool beanstalk;   /* PUSH: made on that port; KICK, KICK_JOB: a buried job keeps its count
                         of reserves, as there */

    /* What is answered. */
    struct {
        int status;      /* TARRY_OK, or why not */
        const char *why; /* a sentence of the engine's own, which stays; NULL: the usual one */
        uint64_t gate;   /* tell it only when this batch is durable */
        uint64_t number;
        uint32_t topic;
        const char *name;
        size_t name_len;
        bool existed;           /* PUSH: there was a job with that key */
        struct tr_job_view job; /* with TARRY_ESTATE: the state that was in the way */
        struct tr_topic_stat stat;
        const struct tr_job_view *jobs; /* LIST: `number` of them, in order, without bodies */
        struct tr_forecast_view forecast;
        struct tr_cursor cursor;       /* LIST, BULK */
        const struct tr_event *events; /* HISTORY: `number` of them, in order */
        struct tr_schedule_view schedule;
        const uint64_t *times; /* SCHEDULE_TIMES: `number` of them */
        const struct tr_picture *picture;
        uint64_t passed; /* BULK: matched, but could not be changed like that */
        bool damaged;    /* LIST, BULK, KICK, PEEK_FIRST: something cannot be read, so there may be
                            jobs that this does not tell of, or that come before this one */
    } out;

    /* The engine's. */
    struct tr_req *next;
    struct tr_req *prev;
    void *own;
    uint64_t start_wall_us;
    uint64_t progress;
    bool exact;   /* PUSH of an occurrence: at_us is its due time, though it may be past */
    bool busy;    /* submitted and not yet done */
    bool stalled; /* in the list of those that are tried again */
};

#endif
