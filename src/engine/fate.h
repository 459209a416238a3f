#ifndef TR_ENGINE_FATE_H
#define TR_ENGINE_FATE_H

/*
 * What policies do to jobs and topics at run time: attempts and backoff (retry.c), rate and
 * in_flight (limit.c), ttl (expiry.c), the end of the dead (drop.c). A part of inner.h.
 */

#include "base/check.h"
#include "engine/record.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_engine;
struct tr_job;
struct tr_topic;

/* retry.c */
bool tr_retry_was_last(const struct tr_job *job); /* attempt that it may have */
uint64_t tr_retry_delay(struct tr_engine *e, const struct tr_job *job); /* the backoff; 0: none */
/* rec makes the job dead, and nothing else of when it is due. */
void tr_retry_die(const struct tr_engine *e, const struct tr_job *job, enum tr_why why,
                  struct tr_record *rec);
/* rec makes it wait for as long as the backoff says, from from_us on (wall). */
void tr_retry_later(struct tr_engine *e, const struct tr_job *job, uint64_t from_us,
                    struct tr_record *rec);
/* A kick brings it back, and its attempts are counted anew. */
bool tr_retry_forgets(const struct tr_job *job, bool beanstalk);
/* tr_change_revise, gated; if there is no memory to wait, it is ready at once. */
TR_MUST_USE int tr_retry_revise(struct tr_engine *e, struct tr_job *job, struct tr_record *rec);

/* limit.c */
bool tr_limit_holds(const struct tr_engine *e, struct tr_topic *t); /* its hand-outs back */
void tr_limit_take(const struct tr_engine *e, struct tr_job *job);  /* a token: it is handed out, */
void tr_limit_refund(struct tr_engine *e, struct tr_job *job);      /* but reached nobody */
void tr_limit_freed(struct tr_engine *e, struct tr_topic *t);       /* one less of it is reserved */
void tr_limit_wait(struct tr_engine *e, struct tr_topic *t);    /* somebody waits: for a token? */
void tr_limit_stop(struct tr_engine *e, struct tr_topic *t);    /* nobody does any more */
void tr_limit_changed(struct tr_engine *e, struct tr_topic *t); /* its policy has */
void tr_limit_step(struct tr_engine *e);

/* expiry.c */
bool tr_expiry_may(const struct tr_job *job);                   /* ready, with an end to that */
void tr_expiry_arm(struct tr_engine *e, struct tr_job *job);    /* it is ready from now on */
void tr_expiry_disarm(struct tr_engine *e, struct tr_job *job); /* no longer */
/* If it is over it dies. TARRY_EFULL: not now. */
TR_MUST_USE int tr_expiry_settle(struct tr_engine *e, struct tr_job *job);
void tr_expiry_step(struct tr_engine *e);
bool tr_expiry_waits(const struct tr_engine *e); /* some are over and not dead yet, */
bool tr_expiry_waits_of(const struct tr_engine *e, const struct tr_topic *t); /* of this topic */
uint64_t tr_expiry_next(const struct tr_engine *e);                           /* boot */
uint64_t tr_expiry_event(const struct tr_engine *e); /* T: something is to be done then */

/* drop.c */
void tr_drop_note(struct tr_engine *e, struct tr_job *job);    /* it is dead, and in memory */
void tr_drop_changed(struct tr_engine *e, struct tr_topic *t); /* its policy has */
void tr_drop_begin(struct tr_engine *e);                       /* before serving */
void tr_drop_stop(struct tr_engine *e, struct tr_topic *t);    /* it goes */
void tr_drop_step(struct tr_engine *e);
uint64_t tr_drop_next(const struct tr_engine *e);  /* boot */
uint64_t tr_drop_event(const struct tr_engine *e); /* T */

#endif
