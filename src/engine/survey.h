#ifndef TR_ENGINE_SURVEY_H
#define TR_ENGINE_SURVEY_H

/*
 * All live jobs of a store, one after the other, wherever their records are. See survey.c.
 */

#include "base/bitmap.h"
#include "engine/finding.h"
#include "engine/inner.h"

struct tr_survey {
    struct tr_engine *e; /* open, and no io of its own in flight */
    void *ctx;
    /* A live job as it is now, body included; purged ones too. Any error ends the survey. */
    int (*job)(void *ctx, const struct tr_record *rec, struct tr_topic *t);
    /* Or NULL: a record of a run, dead ones too, with its place; before `job`. */
    int (*record)(void *ctx, const struct tr_group *g, const struct tr_record *rec, uint64_t place);
    /* Or NULL: all records of a group have been told. */
    int (*group)(void *ctx, struct tr_group *g);
    tr_found_fn *found;                         /* what cannot be read; or NULL */
    void (*progress)(void *ctx, uint64_t more); /* so many bytes more were read; or NULL */

    /* Its own. */
    uint8_t *buf;
    size_t room;
    uint8_t page[TR_SIDE_PAGE];
};

/* Reads everything that is needed, around the page cache of nobody: it blocks. What cannot be read
 * is told and left out. TARRY_ENOMEM, or what a call gave. */
TR_MUST_USE int tr_survey_run(struct tr_survey *s);

/* Only the records of one run of a group; `job` may be NULL. Then tr_survey_fini. */
TR_MUST_USE int tr_survey_part(struct tr_survey *s, struct tr_group *g, unsigned run);
void tr_survey_fini(struct tr_survey *s);

/* Bytes that it will read, about. */
uint64_t tr_survey_bytes(const struct tr_engine *e);

#endif
