#ifndef TR_PORT_ENGINE_H
#define TR_PORT_ENGINE_H

/*
 * An engine as the server sees it: a table of functions and a ctx. Protocols know only its queue
 * (port/queue.h). The embedded engine answers in server/local.c, the one on Redis in
 * server/redis.c; all else of src/server asks here.
 *
 * Its life, as the server drives it:
 *
 *     prepare   after the ports were opened; quick: says where the jobs are, begins
 *     open      may take long: another thread may run the loop meanwhile, and of all these
 *               functions only `give_up` of the calls is used then
 *     stage     OPENING: turns go on, nothing can be asked yet; OPEN: everybody is served
 *     ...       requests, turns
 *     close     nobody asks any more, and it is not busy
 *     free      whatever happened before
 *
 * Threads: the loop's, but for prepare, open, close and free, which are the main thread's.
 */

#include "port/clock.h"
#include "port/meter.h"
#include "port/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_json;
struct tr_prom;

/* When a store of ours says that something is done: when it is synced; soon; the kernel has it. */
enum tr_sync { TR_SYNC_ALWAYS, TR_SYNC_INTERVAL, TR_SYNC_NEVER };

/* Things an operator should hear of. `text` is a whole sentence, valid during the call. */
enum tr_notice { TR_NOTE_INFO, TR_NOTE_WARNING, TR_NOTE_DAMAGE, TR_NOTE_FATAL };
typedef void tr_notice_fn(void *ctx, enum tr_notice kind, const char *text);

/* Why something is not to be had now. Both stay where they are as long as the engine lives; what
 * they say may change. */
struct tr_reason {
    const char *code;    /* for programs: draining */
    const char *message; /* for people */
    bool serves;         /* new jobs are taken all the same: it is a warning */
};

/* Is there one among them for which no new jobs are to come? */
static inline bool tr_reasons_stop(const struct tr_reason *reasons, unsigned count)
{
    bool stop = false;

    for (unsigned i = 0; i < count; i++) {
        stop = stop || !reasons[i].serves;
    }
    return stop;
}

enum { TR_REASONS = 9 }; /* that are told at once */

/* What an engine tells those who made it. */
struct tr_engine_calls {
    void *ctx;
    tr_notice_fn *notice;
    void (*durable)(void *ctx, uint64_t batch); /* all replies gated by up to this one may go */
    void (*outlet)(void *ctx, uint32_t topic);  /* its policy was changed, and it delivers, or did;
                                                   or that is done here from now on, or no more */
    void (*dropped)(void *ctx, uint32_t topic); /* nobody needs it: it is about to be forgotten */
    uint64_t (*event)(void *ctx); /* test clock: the next moment at which something happens outside
                                     that it has to stop for; UINT64_MAX: none */
    const char *(*address)(void *ctx); /* where its HTTP port is, from `prepare` on */
    bool (*give_up)(void *ctx); /* while it is opened, from any thread: is it to leave off? */
};

enum tr_engine_stage {
    TR_ENGINE_OPENING, /* not there yet; until it is, all requests are answered TARRY_EAWAY */
    TR_ENGINE_OPEN,
    TR_ENGINE_GIVEN_UP, /* it was told to stop before it was open */
    TR_ENGINE_REFUSED,  /* what it found cannot be served: `unready` says why and what to do. Once
                          it was OPEN it is not REFUSED any more: it says so, and tries again */
    TR_ENGINE_FAILED,   /* final: nothing is answered with success any more */
};

/* What every engine knows of itself at any time. */
struct tr_engine_view {
    uint64_t jobs;     /* UINT64_MAX: not known */
    uint64_t clock_us; /* what time it is to the engine */
    bool draining;
    uint64_t memory_used;  /* bytes of its budget, */
    uint64_t memory_limit; /* which are so many at most; 0: no limit */
    bool memory_full;      /* so many that nothing new is taken, or not for long */

    /* Of its log, for `stats` of the beanstalk port; 0: it has none. */
    uint64_t log_oldest; /* numbers of the oldest and the newest segment */
    uint64_t log_newest;
    uint64_t log_moved;   /* records written again to free space */
    uint64_t log_written; /* records written */
    uint64_t log_file_bytes;
};

typedef void tr_engine_topic_fn(void *ctx, uint32_t topic);

struct tr_engine_ops {
    /* Start and end. Each gives how the process is to end, as its exit code, and has said why; 0:
     * all is well. */
    int (*prepare)(void *ctx);
    int (*open)(void *ctx); /* or NULL: that was all, and it opens by turns */
    int (*close)(void *ctx);
    void (*free)(void *ctx);

    enum tr_engine_stage (*stage)(void *ctx);
    bool (*busy)(void *ctx); /* something is under way that `close` would not wait for */
    const char *stuck;       /* a sentence: it stayed busy, and is left so */

    /* Each round. `turn` gives the boot time of the next one, as the loop wants it. */
    uint64_t (*turn)(void *ctx, struct tr_now now);
    void (*woken)(void *ctx); /* the loop was woken, perhaps by its threads; or NULL */
    bool (*help)(void *ctx);  /* the end of a round: does what is left to this thread; true: there
                                 was something. Or NULL */

    /* What it tells of itself. */
    void (*view)(void *ctx, struct tr_engine_view *v);
    uint64_t (*clock)(void *ctx);
    const uint8_t *(*uuid)(void *ctx); /* 16 bytes, of the store; once it is OPEN */
    unsigned (*unready)(void *ctx, struct tr_reason *reasons); /* why it takes no jobs, or what
                                                                  else is wrong: how many reasons,
                                                                  TR_REASONS - 3 at most */
    const char *(*durability)(void *ctx);          /* when success is answered: a sentence */
    void (*tell)(void *ctx, struct tr_json *j);    /* members of /v1/stats */
    void (*metrics)(void *ctx, struct tr_prom *p); /* all that is not of a topic */
    void (*meters_begin)(void *ctx);               /* topics, as port/meter.h has them */
    void (*meters_end)(void *ctx);
    bool (*meters_looks)(void *ctx); /* some next_due_us are looked for */
    unsigned (*meters)(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views);

    /* Names and numbers; NULL, 0: it is not known, or there are too many. */
    uint32_t (*actor)(void *ctx, const char *name, size_t len);
    const char *(*actor_name)(void *ctx, uint32_t actor, size_t *len);
    const char *(*topic_name)(void *ctx, uint32_t topic, size_t *len);
    void (*deliverers)(void *ctx, tr_engine_topic_fn *fn, void *fn_ctx); /* topics that deliver */
    bool (*delivers)(void *ctx, uint32_t topic); /* is that done here? NULL: always */

    /* What it is told. */
    void (*drain)(void *ctx); /* no new jobs from now on */
    void (*tune)(void *ctx);  /* its config may have changed */
};

struct tr_engine_port {
    const struct tr_engine_ops *ops;
    void *ctx;
    struct tr_queue queue; /* the same ctx; good from the beginning on, asked when it is OPEN */
};

#endif
