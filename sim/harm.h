#ifndef TR_SIM_HARM_H
#define TR_SIM_HARM_H

/*
 * One damaged place in a file of a group: a bit, a sector, a write that was lost or went astray.
 * What was there is kept, so that the oracle still knows which jobs the group has, and which of
 * them the damage touches. See harm.c.
 */

#include "base/rng.h"
#include "engine/group.h"
#include "model.h"
#include "sim_disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_harm {
    char name[TR_IO_NAME_MAX]; /* of the file; "": none is damaged */
    enum tr_group_file kind;
    struct tr_manifest_group group;
    uint64_t off; /* what is damaged */
    uint64_t len;
    uint64_t from; /* the block or page that it is in: nothing outside of it may be blamed */
    uint64_t end;
    uint8_t *good; /* the file before */
    size_t good_len;
    uint64_t *rids; /* with a record on the damaged bytes of a run */
    size_t count;
    size_t room;
    bool again;      /* what is damaged can be made again from what is not */
    bool padding;    /* nothing reads these bytes */
    uint64_t scrubs; /* groups that were looked through when it was done, or at the last open, */
    uint64_t groups; /* and that there were */
    unsigned quiet;  /* moments since its place was reported */
    bool blamed;     /* its place was reported since the last open began */
    bool named;      /* a report has named it since the last open began */
};

void sim_harm_reset(struct sim_harm *h);
void sim_harm_fini(struct sim_harm *h);

/* Damages some file of a group that the manifest names. False: there is none. */
bool sim_harm_do(struct sim_harm *h, struct sim_disk *disk, const struct tr_manifest *man,
                 struct tr_rng *rng);

/* Are the bytes still damaged? */
bool sim_harm_lasts(const struct sim_harm *h, const struct sim_disk *disk);

/* Is it this file that is damaged? Then h->good is what it had. */
bool sim_harm_is(const struct sim_harm *h, const char *name);

/* The model is what a start has found; so many groups there are. */
void sim_harm_opened(struct sim_harm *h, struct sim_model *m, uint64_t groups);

/* Damage was reported; marks the jobs of the model that it excuses. opening: the model knows other
 * rids than the replay. NULL, or what is wrong with the report. */
const char *sim_harm_reported(struct sim_harm *h, struct sim_model *m, const char *text,
                              bool opening);

#endif
