#ifndef TR_ENGINE_TALLY_H
#define TR_ENGINE_TALLY_H

/*
 * Which cell of the forecast counts which job. See tally.c.
 *
 * Each live job that is not dead is counted once, by its topic and its due time; a dead one by its
 * topic alone. What changes one of these, or kills the job, goes through here: tr_tally_check
 * before the log and the state are touched, tr_tally_shift with them.
 */

#include "base/check.h"
#include "engine/record.h"
#include "engine/topic.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_state;

enum { TR_TALLY_DROPS = 16 };

/* How a job is counted. */
struct tr_tally {
    uint64_t rid;
    struct tr_topic *topic;
    uint64_t due_us;
    uint32_t kind; /* of cell */
    bool dead;     /* then it is not */
};

/* As a record or the state says it. */
struct tr_tally tr_tally_old(const struct tr_state *s, const struct tr_kill *kill);
struct tr_tally tr_tally_job(const struct tr_job *job);
struct tr_tally tr_tally_record(const struct tr_state *s, const struct tr_record *rec);
/* After an ALTER of a job that was counted like this. */
struct tr_tally tr_tally_altered(struct tr_tally old, const struct tr_record *rec);

/* What a KILLSET, or the field OLD, says of a job. */
struct tr_kill tr_tally_kill(const struct tr_job *job);
struct tr_kill tr_tally_far(uint64_t rid, const struct tr_far_entry *entry);

/* In which kind of cell a job of this topic is to be counted. TARRY_ENOMEM. */
TR_MUST_USE int tr_tally_kind(struct tr_state *s, struct tr_topic *t, uint64_t due_us,
                              uint32_t *kind);

/*
 * Can what was counted as `from` be counted as `to`? NULL: it was not, or will not be. TARRY_OK:
 * tr_tally_shift may follow. TARRY_ENOMEM; TARRY_EDAMAGED: nothing is counted like that.
 */
TR_MUST_USE int tr_tally_check(struct tr_state *s, const struct tr_tally *from,
                               const struct tr_tally *to);
void tr_tally_shift(struct tr_state *s, const struct tr_tally *from, const struct tr_tally *to);

/* A job in memory has entered its state: the table of seconds counts delayed ones only. */
void tr_tally_entered(struct tr_state *s, const struct tr_job *job);

/* One that was counted like this has left memory at t_us, and is not dead: it is delayed if it is
 * due ahead, also when it was ready. */
void tr_tally_left(struct tr_state *s, const struct tr_tally *at, uint64_t t_us);

/* How many jobs the topic has is about to change: a checkpoint in the making wants to know what it
 * was. */
void tr_tally_keep(const struct tr_state *s, struct tr_topic *t);

/* The number of the topic's row of cells. */
uint32_t tr_tally_row(struct tr_state *s, struct tr_topic *t);

/*
 * All jobs of the topic count no more, at once (a purge). Their cells go in slices: one of *work
 * for each; true when all are gone. Until then those of all topics count too many.
 */
void tr_tally_purge(struct tr_state *s, struct tr_topic *t);
TR_MUST_USE bool tr_tally_drop(struct tr_state *s, unsigned *work);

#endif
