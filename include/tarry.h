#ifndef TARRY_H
#define TARRY_H

/*
 * libtarry: the embedded engine of tarry, without the server, for programs in C.
 *
 * A store is a folder. One process can have it open at a time; any number of its threads may call
 * the library at once. A thread of the library does the work, and the callers wait for it. Jobs are
 * handed out when they are due, at least once, never before.
 *
 * When a call returns TARRY_OK, it has done what it says, and (with TARRY_SYNC_ALWAYS) neither
 * kill -9 nor a power cut takes it back. Any other result is one of the codes below, all negative,
 * and then nothing has changed: TARRY_EINVAL, for one, if a pointer is NULL for which that is not
 * said to be allowed. After TARRY_EIO every call returns TARRY_EIO: close the store and
 * open it again.
 *
 * All times are microseconds. Absolute times count from 1970 in UTC, as the clock of the system.
 *
 * Initialize a struct with its INIT macro and then set the fields you need: so a program keeps
 * working when a later version of the library has more fields.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_API __attribute__((visibility("default")))

/* ---- Codes ---- */

#ifndef TR_BASE_ERR_H /* within tarry itself the list is there */
/* What a call may return. */
enum tarry_err {
    TARRY_OK = 0,
    TARRY_EIO = -1,           /* the disk failed: nothing works until the store is opened again */
    TARRY_EDAMAGED = -2,      /* the store is damaged, or the record of this job is */
    TARRY_EFULL = -3,         /* a limit is reached: the body is too long */
    TARRY_ENOTFOUND = -4,     /* there is no such job, topic or folder */
    TARRY_ESTATE = -5,        /* the job is in another state, which the result tells */
    TARRY_ENOMEM = -6,        /* no memory, or the limit of options is reached */
    TARRY_ENOSPC = -7,        /* the disk is full: pushes are refused, the rest goes on */
    TARRY_ETIMEOUT = -8,      /* no job came in time */
    TARRY_ELOCKED = -9,       /* the store is open already, perhaps in the parent of this process */
    TARRY_EVERSION = -10,     /* the store was written by a newer version */
    TARRY_EINVAL = -11,       /* an argument makes no sense */
    TARRY_EDRAINING = -12,    /* no new jobs are taken */
    TARRY_EPERM = -13,        /* permission was denied */
    TARRY_ESOON = -14,        /* not given by the library */
    TARRY_EEXISTS = -15,      /* there is a job with that key, which the result tells; or a file */
    TARRY_EPAUSED = -16,      /* the topic takes no jobs: it is paused */
    TARRY_EQUOTA = -17,       /* the topic has as much as its policy allows */
    TARRY_EUNSUPPORTED = -18, /* this version of the library cannot do that */
    TARRY_EREADONLY = -19,    /* the store is open for reading only */
    TARRY_ECLOSED = -20,      /* another thread is closing the store */
    TARRY_EAWAY = -21,        /* not given by the library, */
    TARRY_EUNSURE = -22       /* nor is this */
};
#endif

/* A sentence for people, and the name of the code. Both take any number. */
TARRY_API const char *tarry_strerror(int err);
TARRY_API const char *tarry_errname(int err);

/* The version of the library, such as "0.1.0". */
TARRY_API const char *tarry_version(void);

/* ---- Times ---- */

#define TARRY_MS UINT64_C(1000)
#define TARRY_SECOND (1000 * TARRY_MS)
#define TARRY_MINUTE (60 * TARRY_SECOND)
#define TARRY_HOUR (60 * TARRY_MINUTE)
#define TARRY_DAY (24 * TARRY_HOUR)

/* As the time-out of a reserve: wait as long as it takes. */
#define TARRY_FOREVER UINT64_MAX

/* The longest delay: 137 years. Longer ones are refused with TARRY_EINVAL. */
#define TARRY_DELAY_MAX (137 * 365 * TARRY_DAY)

/* ---- Opening and closing ---- */

/* An open store. */
struct tarry;

/* When a change counts as durable. */
enum tarry_sync {
    TARRY_SYNC_ALWAYS,   /* after a sync of the disk; many threads share one */
    TARRY_SYNC_INTERVAL, /* at once; synced every 50 ms, which a power cut may take back */
    TARRY_SYNC_NEVER     /* at once; synced when the kernel likes */
};

enum tarry_note {
    TARRY_NOTE_INFO,
    TARRY_NOTE_WARNING,
    TARRY_NOTE_DAMAGE, /* what is damaged, by name */
    TARRY_NOTE_FATAL   /* why nothing works any more */
};

struct tarry_options {
    size_t size;           /* set by TARRY_OPTIONS_INIT */
    enum tarry_sync sync;  /* TARRY_SYNC_ALWAYS */
    uint64_t memory_bytes; /* limit for the engine, 0: none; beyond it pushes are refused */
    size_t body_max;       /* longest body, 1 MiB; at most 8 MiB */
    /* Called with what an operator should know, as whole sentences: by a thread of the library, or
     * from inside tarry_open and tarry_close. It must not call the library. */
    void (*note)(void *ctx, enum tarry_note kind, const char *text);
    void *note_ctx;
};

#define TARRY_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_options), TARRY_SYNC_ALWAYS, 0, 1 << 20, NULL, NULL                    \
    }

/*
 * Opens the store in the folder dir, and creates it if it does not exist (its parent must). NULL as
 * options means TARRY_OPTIONS_INIT. On failure *t is NULL. Errors: TARRY_ELOCKED, TARRY_EVERSION,
 * TARRY_EDAMAGED (options.note is told what), TARRY_ENOTFOUND, TARRY_EPERM, TARRY_ENOSPC,
 * TARRY_ENOMEM, TARRY_EIO.
 */
TARRY_API int tarry_open(struct tarry **t, const char *dir, const struct tarry_options *options);

/*
 * Closes the store. Threads that wait in tarry_reserve return with TARRY_ECLOSED; other calls are
 * finished first. Jobs that are still reserved are ready at the next opening. Whatever it returns,
 * t must not be used any more; NULL is fine. In a child made by fork it does nothing and returns
 * TARRY_ELOCKED.
 */
TARRY_API int tarry_close(struct tarry *t);

/*
 * Makes a copy of the store in another folder while the store is used: exactly what it was at one
 * moment of this call. The folder must not exist, or be empty, or hold a copy that was cut short;
 * else TARRY_EEXISTS. Files that never change are linked, so on the same file system it takes
 * seconds whatever the number of jobs. To restore, open the copy; both may be used side by side. A
 * copy that was not finished does not open (TARRY_EDAMAGED).
 */
TARRY_API int tarry_backup(struct tarry *t, const char *dir);

/* ---- Jobs ---- */

enum tarry_state {
    TARRY_DELAYED = 1, /* not due yet */
    TARRY_READY,       /* due, and nobody has it */
    TARRY_RESERVED,    /* somebody has it */
    TARRY_DEAD         /* put aside: buried, expired, or tried too often */
};

/* A job as the library gives it; free it with tarry_job_free. */
struct tarry_job {
    uint64_t id;    /* 1 to 2^53, never used twice in a store */
    uint64_t lease; /* of this hand-out; 0 if it was only looked at */
    const char *topic;
    const char *key;  /* or NULL */
    const void *body; /* a 0 follows, so that text may be used as it is */
    size_t body_len;
    enum tarry_state state;
    uint32_t priority;
    uint64_t due_us;
    uint64_t created_us;
    uint64_t late_us;  /* how long after its due time it was made ready */
    uint64_t ttr_us;   /* how long it may be reserved */
    uint64_t left_us;  /* until it is due, or goes back */
    uint32_t attempts; /* how often it was handed out */
    uint32_t timeouts;
    uint32_t releases;
    uint32_t buries;
    uint32_t kicks;
    const char *tag; /* or NULL */
    uint64_t ttl_us; /* 0: none */
};

/* job may be NULL. */
TARRY_API void tarry_job_free(struct tarry_job *job);

/* Names a job: by its id, or by its topic and key. */
struct tarry_which {
    uint64_t id; /* 0: by key */
    const char *topic;
    const char *key;
};

static inline struct tarry_which tarry_by_id(uint64_t id)
{
    struct tarry_which which = {id, NULL, NULL};

    return which;
}

static inline struct tarry_which tarry_by_key(const char *topic, const char *key)
{
    struct tarry_which which = {0, topic, key};

    return which;
}

/*
 * What a call found or did. With TARRY_ESTATE and TARRY_EEXISTS it says which job was in the way,
 * and its state. Pass NULL if you do not need it.
 */
struct tarry_result {
    size_t size; /* set by TARRY_RESULT_INIT */
    uint64_t id;
    enum tarry_state state; /* as it is now; of a cancelled one: as it was */
    uint64_t due_us;
    bool existed; /* push: there was a job with that key */
};

#define TARRY_RESULT_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_result), 0, (enum tarry_state)0, 0, false                              \
    }

/* ---- Producing ---- */

/* When a live job of the topic, dead ones included, has the key of a new one. */
enum tarry_conflict {
    TARRY_REPLACE, /* it gets the new body, due time and fields, and keeps its id; a dead one lives
                      again; TARRY_ESTATE if it is reserved */
    TARRY_KEEP,    /* it stays as it is, and is the answer */
    TARRY_ERROR    /* TARRY_EEXISTS */
};

struct tarry_push {
    size_t size;       /* set by TARRY_PUSH_INIT */
    const char *topic; /* 1 to 200 of A-Za-z0-9-+/;.$_() and not beginning with '-' */
    const void *body;  /* any bytes */
    size_t body_len;
    uint64_t delay_us; /* due so long from now; 0: now */
    uint64_t at_us;    /* or due at this moment, if it is not 0; the past means now */
    const char *key;   /* or NULL; 1 to 255 bytes of UTF-8 without control characters */
    enum tarry_conflict conflict;
    uint32_t priority; /* smaller first, 1024 */
    uint64_t ttr_us; /* how long a consumer may hold it before it goes back; 0: the topic's, 60 s */
    uint64_t ttl_us; /* so long after its due time it is not handed out for the first time any more,
                        but dead; 0: the topic's, without end */
    const char *tag; /* or NULL; 1 to 64 bytes of UTF-8 without control characters */
    int64_t retries; /* attempts after the first, then it is dead; -1: no end; or this: */
#define TARRY_RETRIES_TOPIC INT64_MIN /* the topic's, 16 */
    const char *backoff; /* how long it waits after each attempt that failed: "4m,10m,1h", or
                            "exp(base,factor,max,jitter)"; NULL: the topic's, exp(1s,2,1h,0.1) */
};

#define TARRY_PUSH_INIT                                                                            \
    {                                                                                              \
        sizeof(struct tarry_push), NULL, NULL, 0, 0, 0, NULL, TARRY_REPLACE, 1024, 0, 0, NULL,     \
            TARRY_RETRIES_TOPIC, NULL                                                              \
    }

/* Pushes a new job. TARRY_EINVAL, TARRY_EFULL (the body), TARRY_ENOSPC, TARRY_ENOMEM,
 * TARRY_EEXISTS, TARRY_ESTATE. */
TARRY_API int tarry_push(struct tarry *t, const struct tarry_push *push,
                         struct tarry_result *result);

/*
 * Cancels a job. Success means that it will not be handed out any more. TARRY_ENOTFOUND: there is
 * none; TARRY_ESTATE: it is reserved, so it may be too late. With force it is cancelled all the
 * same, and its holder cannot ack it any more.
 */
TARRY_API int tarry_cancel(struct tarry *t, struct tarry_which which, bool force,
                           struct tarry_result *result);

/* Makes a delayed or ready job due delay_us from now. TARRY_ENOTFOUND; TARRY_ESTATE: it is reserved
 * or dead. */
TARRY_API int tarry_reschedule(struct tarry *t, struct tarry_which which, uint64_t delay_us,
                               struct tarry_result *result);

/* Which fields of struct tarry_change count. */
enum tarry_field {
    TARRY_FIELD_DUE = 1,
    TARRY_FIELD_PRIORITY = 2,
    TARRY_FIELD_TTR = 4,
    TARRY_FIELD_BODY = 8,
    TARRY_FIELD_TTL = 16,
    TARRY_FIELD_TAG = 32
};

struct tarry_change {
    size_t size;       /* set by TARRY_CHANGE_INIT */
    unsigned fields;   /* enum tarry_field, one or more */
    uint64_t delay_us; /* TARRY_FIELD_DUE, as for a push */
    uint64_t at_us;
    uint32_t priority;
    uint64_t ttr_us;
    const void *body;
    size_t body_len;
    uint64_t ttl_us; /* 0: none any more */
    const char *tag; /* NULL: none any more */
};

#define TARRY_CHANGE_INIT                                                                          \
    {                                                                                              \
        sizeof(struct tarry_change), 0, 0, 0, 0, 0, NULL, 0, 0, NULL                               \
    }

/* Changes a delayed or ready job, which keeps its id. Errors: as tarry_reschedule, and
 * TARRY_EINVAL, TARRY_EFULL, TARRY_ENOSPC, TARRY_ENOMEM. */
TARRY_API int tarry_change(struct tarry *t, struct tarry_which which,
                           const struct tarry_change *change, struct tarry_result *result);

/* Makes a delayed job due now. TARRY_ESTATE: it is not delayed. */
TARRY_API int tarry_fire(struct tarry *t, struct tarry_which which, struct tarry_result *result);

/* Makes a dead or delayed job due now. TARRY_ESTATE: it is ready or reserved. */
TARRY_API int tarry_kick(struct tarry *t, struct tarry_which which, struct tarry_result *result);

/* The same for up to `most` dead jobs of a topic or, if it has none, delayed ones. *count, if it is
 * not NULL, is set to their number. */
TARRY_API int tarry_kick_topic(struct tarry *t, const char *topic, uint64_t most, uint64_t *count);

/* ---- Looking ---- */

/* Gets a job, with its body, without reserving it. TARRY_ENOTFOUND. */
TARRY_API int tarry_find(struct tarry *t, struct tarry_which which, struct tarry_job **job);

/* Gets the first job of a topic that is delayed, ready or dead. TARRY_ENOTFOUND: there is none. */
TARRY_API int tarry_peek(struct tarry *t, const char *topic, enum tarry_state state,
                         struct tarry_job **job);

struct tarry_stats {
    size_t size; /* set by TARRY_STATS_INIT */
    uint64_t topics;
    uint64_t delayed;
    uint64_t ready;
    uint64_t reserved;
    uint64_t dead;
    uint64_t waiting; /* threads that wait in tarry_reserve */
    uint64_t pushed;  /* since the store was opened, as those below */
    uint64_t deleted; /* acked or cancelled */
};

#define TARRY_STATS_INIT                                                                           \
    {                                                                                              \
        sizeof(struct tarry_stats), 0, 0, 0, 0, 0, 0, 0, 0                                         \
    }

/* Counts the jobs of a topic, or of all with NULL. TARRY_ENOTFOUND: there is no such topic. */
TARRY_API int tarry_stats(struct tarry *t, const char *topic, struct tarry_stats *stats);

/* ---- Consuming ---- */

struct tarry_reserve {
    size_t size;               /* set by TARRY_RESERVE_INIT */
    const char *topic;         /* from one topic, */
    const char *const *topics; /* or, if that is NULL, from any of these */
    size_t topic_count;        /* at most 10000 */
    uint64_t wait_us;          /* for a job to come; 0: not at all; TARRY_FOREVER */
};

#define TARRY_RESERVE_INIT                                                                         \
    {                                                                                              \
        sizeof(struct tarry_reserve), NULL, NULL, 0, 0                                             \
    }

/*
 * Takes the first ready job, by priority, due time and order of arrival. The caller holds it for
 * ttr_us, during which nobody else gets it, and has to ack, release or bury it; else it goes back.
 * TARRY_ETIMEOUT: none came in time. TARRY_ECLOSED: another thread is closing the store.
 *
 * A lease ends with the process: after a crash all reserved jobs are ready.
 */
TARRY_API int tarry_reserve(struct tarry *t, const struct tarry_reserve *reserve,
                            struct tarry_job **job);

/*
 * The calls below are for a job that the caller holds; they use only id and lease of `job`.
 * TARRY_ESTATE: the lease ran out, and nothing was done; TARRY_ENOTFOUND: the job is gone.
 */

/* Finishes the job: it is gone. */
TARRY_API int tarry_ack(struct tarry *t, const struct tarry_job *job);

/* As the delay of a release: as long as the job's backoff says. */
#define TARRY_BACKOFF UINT64_MAX

/* Gives the job back, to be handed out again after delay_us; after its last attempt it is dead. */
TARRY_API int tarry_release(struct tarry *t, const struct tarry_job *job, uint64_t delay_us);

/* Makes the job dead: it is kept until somebody kicks or cancels it. */
TARRY_API int tarry_bury(struct tarry *t, const struct tarry_job *job);

/* Restarts the lease, for ttr_us; 0: as long as before. */
TARRY_API int tarry_touch(struct tarry *t, const struct tarry_job *job, uint64_t ttr_us);

#ifdef __cplusplus
}
#endif

#endif
