#ifndef TR_CLI_IMPORT_H
#define TR_CLI_IMPORT_H

/*
 * Jobs on their way into a server, in batches: what the sources of `tarry import` share. See
 * import.c.
 */

#include "base/mem.h"
#include "cli/bar.h"
#include "cli/cli.h"
#include "proto/json_out.h"

enum { TR_IMPORT_BATCH = 5000, TR_IMPORT_BYTES = 4 << 20 };

struct tr_import {
    struct tr_cli *cli;
    bool dry;
    const char *conflict; /* what a push does with a key that is taken */
    struct tr_mem mem;
    struct tr_output bytes; /* the batch, as NDJSON */
    struct tr_json j;
    unsigned count;                   /* of the batch */
    uint64_t ids[TR_IMPORT_BATCH];    /* of the last batch: 0, it was refused */
    bool dead[TR_IMPORT_BATCH];       /* of the batch: to be buried */
    bool fresh[TR_IMPORT_BATCH];      /* of the last batch: they were made by it */
    uint64_t places[TR_IMPORT_BATCH]; /* of the batch: the line or number, for messages */
    bool asked;                       /* whether */
    bool may_bury;
    struct tr_bar bar;
    uint64_t pushed;
    uint64_t kept; /* the key was there */
    uint64_t refused;
    uint64_t buried;
    uint64_t not_buried; /* dead ones that could not be imported */
    uint64_t policies;
    uint64_t schedules;
    uint64_t outlets_left; /* they have secrets */
    uint64_t lacked;       /* what earlier runs could not bring in */
    int how;
};

/* A job of another queue. */
struct tr_import_job {
    const char *topic;
    const char *key; /* or NULL */
    const char *body;
    size_t len;
    uint64_t due_ms; /* 0: now */
    uint64_t delay_ms;
    uint64_t priority;
    uint64_t ttr_ms; /* 0: the topic's */
    bool has_priority;
    bool endless; /* as on the beanstalk port: no end of retries, and all of them at once */
    bool dead;
    uint64_t place;
};

/* One more for the batch, which is not full. */
void tr_import_add(struct tr_import *im, const struct tr_import_job *job);

/* Is the batch full? */
bool tr_import_full(const struct tr_import *im);

/* Pushes the batch: ids has what became of each. 0, or how the process ends: then none of them was
 * pushed, as far as is known. */
TR_MUST_USE int tr_import_flush(struct tr_import *im);

/* Can dead jobs come in? If not stderr says why, once, unless it was said that they are skipped. */
bool tr_import_takes_dead(struct tr_import *im);
/* Buries those of the last batch that are to be. */
void tr_import_bury(struct tr_import *im, unsigned count);
/* Is it one that was pushed to be buried? */
bool tr_import_waits_for_burial(const struct tr_json_value *job);
extern const char tr_import_later[]; /* the delay of a dead job, until it is buried */

/* Takes a job back that was pushed a moment ago. */
void tr_import_undo(struct tr_import *im, uint64_t id);

/* The sources: 0, or how the process ends. */
int tr_import_from_beanstalkd(struct tr_import *im, const char *url);
int tr_import_from_redis(struct tr_import *im, const char *url);

#endif
