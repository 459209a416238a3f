#ifndef TR_SIM_BACKUP_H
#define TR_SIM_BACKUP_H

/*
 * Copies of the store, made while it is used, and what they open to (I28). See backup.c.
 */

#include "prefix.h"
#include "sim_disk.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_run;

struct sim_backup {
    struct sim_disk *disk; /* on which a copy is opened */
    struct sim_prefix prefix;
    struct tr_req req;
    struct sim_rows rows; /* what the copy must open to, */
    uint64_t batch;       /* which is the store at the end of this one; 0: not known yet */
    bool pending;
    bool answered; /* since the last look */
    bool whole;    /* success was told: a copy is there, whatever happens; */
    bool guessed;  /* or it was not, but its mark is gone, unless a power cut brings that back */
    bool faulty;   /* since it was asked for, the disk may have answered with errors */
    uint64_t made;
};

void sim_backup_init(struct sim_backup *b, struct sim_run *r);
void sim_backup_fini(struct sim_backup *b);
void sim_backup_reset(struct sim_run *r);

/* Somebody asks for one, in the folder of the last. */
void sim_backup_ask(struct sim_run *r);

/* After a turn: remembers what the one under way must become; looks at one that has just ended. */
void sim_backup_turned(struct sim_run *r);

/* Nobody waits for it any more; it may go on. */
void sim_backup_leave(struct sim_run *r);

/* The process is gone. */
void sim_backup_crashed(struct sim_run *r);

/* Opens what is in the folder: a whole copy, or one that is refused. */
void sim_backup_check(struct sim_run *r);

#endif
