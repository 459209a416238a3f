#ifndef TR_CLUSTER_WALK_H
#define TR_CLUSTER_WALK_H

/*
 * Walks through the jobs of a topic in one slot, some hundred entries a call: purge, jobs of a dead
 * node, pages of a list. Whatever comes and goes meanwhile, an entry that stays in its set is met
 * once. See walk.c.
 */

#include "base/check.h"
#include "base/mem.h"
#include "cluster/answer.h"
#include "cluster/eval.h"
#include "port/request.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_WALK_LOOK = 500 }; /* entries that a call looks at, as a rule */

/* How far a walk has come in a set: behind this entry. */
struct tr_walk {
    char set; /* s: store, r: ready, p: prepared, d: dead; 0: all were looked at */
    char score[32];
    size_t score_len; /* 0: it is at the beginning */
    char member[32];
    size_t member_len;
};
struct tr_walk tr_walk_at(char set);

/* PURGE: of the whole topic, from tr_walk_at('s') on until set is 0; last_id is 0 at first, and
 * then what was answered. Jobs move from set to set meanwhile: ask anew, with the same last_id,
 * until a whole walk has found none. */
void tr_eval_purge(struct tr_eval *c, const struct tr_walk *w, uint64_t last_id, unsigned look);
TR_MUST_USE int tr_answer_purged(const struct tr_answer *a, struct tr_walk *w, uint64_t *last_id,
                                 uint64_t *count);

/* ORPHANS: jobs that connections of a dead node held; from tr_walk_at('p') on until set is 0. */
void tr_eval_orphans(struct tr_eval *c, const struct tr_walk *w, const char *node, unsigned look);
TR_MUST_USE int tr_answer_orphans(const struct tr_answer *a, struct tr_walk *w, uint64_t *count);

/* Bits of the states that a filter wants, as scripts read them. */
unsigned tr_walk_states(const struct tr_filter *f);

/* LIST: jobs of one set, behind the cursor, that the filter wants; tr_page has the first of them.
 * For store and dead go on only while a page is not full: they come in order. */
struct tr_eval_list {
    const struct tr_filter *filter;
    struct tr_cursor after; /* all zero: from the beginning; dead: only for the set d */
    unsigned look;
    unsigned most;
};
void tr_eval_list(struct tr_eval *c, const struct tr_walk *w, const struct tr_eval_list *l);
/* Then count jobs, as tr_answer_listed_job tells them. */
TR_MUST_USE int tr_answer_listed(const struct tr_answer *a, struct tr_walk *w, size_t *count);
struct tr_listed_job {
    uint64_t id;
    struct tr_header header;
    struct tr_span bytes; /* of the header */
};
TR_MUST_USE int tr_answer_listed_job(const struct tr_answer *a, size_t i,
                                     struct tr_listed_job *job);

/* FORECAST: steps of at most TR_FORECAST_STEPS_MAX; counts are added to what is in there. */
void tr_eval_forecast(struct tr_eval *c, uint64_t from_us, uint64_t step_us, unsigned steps);
TR_MUST_USE int tr_answer_forecast(const struct tr_answer *a, uint64_t *counts, unsigned steps);

/* CONF: a topic's settings as the scripts of one of its slots read them; limits are its share. */
void tr_eval_conf(struct tr_eval *c, uint32_t version, const struct tr_policy *p, uint32_t spread);

/* The first jobs of several sets, slots and topics: by due time and id, then the dead ones. */
struct tr_paged {
    struct tr_cursor key; /* of this job */
    char *bytes;          /* its header */
    size_t len;
};
struct tr_page {
    struct tr_mem *mem;
    struct tr_paged *jobs;
    unsigned count;
    unsigned limit;
    bool more; /* some were left out: there are more behind the last one */
};
TR_MUST_USE int tr_page_init(struct tr_page *p, struct tr_mem *mem, unsigned limit);
void tr_page_fini(struct tr_page *p);
/* TARRY_ENOMEM: the page is as it was. */
TR_MUST_USE int tr_page_add(struct tr_page *p, const struct tr_listed_job *job);

#endif
