#ifndef TR_ENGINE_SCRUB_H
#define TR_ENGINE_SCRUB_H

/* The files of groups are read now and then, so that damage is found before it hurts. See scrub.c.
 */

#include "base/bitmap.h"
#include "engine/group.h"
#include "port/disk.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_SCRUB_BYTES = 256 << 10, TR_SCRUB_BAD = 64 };

enum tr_scrub_step {
    TR_SCRUB_IDLE,
    TR_SCRUB_WAIT,  /* for the next piece, since the last one took its share */
    TR_SCRUB_READ,  /* it */
    TR_SCRUB_CHECK, /* call: is it good? */
    TR_SCRUB_RIDS,  /* is everybody who is alive in it? in slices */
};

/* Where it is in a file. */
enum tr_scrub_part {
    TR_SCRUB_BLOCKS, /* of a run, */
    TR_SCRUB_FOOTER, /* or what follows them; */
    TR_SCRUB_HEAD,   /* of the sidecar, with the fences, */
    TR_SCRUB_PAGES,  /* or the other pages */
};

struct tr_scrub {
    enum tr_scrub_step step;
    struct tr_io io;
    struct tr_group *group; /* in hand; it counts a reader */
    unsigned file;          /* of it: enum tr_group_file */
    enum tr_scrub_part part;
    uint32_t at;    /* next block or page */
    uint32_t count; /* of those in hand */
    bool alone;     /* one at a time, since several could not be read together */
    uint8_t *buf;
    size_t room;
    uint32_t bad[TR_SCRUB_BAD]; /* of those in hand: so many are, */
    unsigned bad_count;
    bool lost;         /* some of the group's blocks, or no memory: nobody is missed then */
    struct tr_mem mem; /* of what the calls make: */
    struct tr_bitmap has;
    uint64_t rid;

    uint64_t wait_until; /* boot */
    uint64_t wake_at;    /* boot: when the next group is to be read */
    bool begun;          /* groups that come from now on are new */
    uint64_t seen;       /* groups that were there, and made, when wake_at was reckoned */
    uint64_t done_bytes; /* of the group in hand */
    uint64_t bytes;      /* since the start */
    uint64_t groups;     /* since the start */
};

struct tr_engine;
struct tr_engine_stat;

void tr_scrub_step(struct tr_engine *e);
void tr_scrub_io_done(struct tr_engine *e);
bool tr_scrub_busy(const struct tr_engine *e);
uint64_t tr_scrub_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_scrub_stat(const struct tr_engine *e, struct tr_engine_stat *st);
void tr_scrub_retime(struct tr_engine *e); /* scrub_rate or scrub_every_us is another now */
void tr_scrub_fini(struct tr_engine *e);

#endif
