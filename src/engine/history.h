#ifndef TR_ENGINE_HISTORY_H
#define TR_ENGINE_HISTORY_H

/*
 * What happened to jobs of late, by id, also to those that are gone. See history.c.
 *
 * In memory, bounded by bytes and age; past_file.c writes it to a file. Times are T, and are given.
 */

#include "base/list.h"
#include "base/mem.h"
#include "port/request.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_HISTORY_PIECE = 4090 }; /* events that are allocated together: 64 KiB */

struct tr_history_piece {
    struct tr_list link;
    uint64_t id_least;
    uint64_t id_most;
    uint64_t newest_us; /* of its events: some are noted later than they happened */
    uint32_t no;        /* rises from piece to piece, over restarts too */
    uint32_t count;
    struct {
        uint64_t what; /* id, event, why, state: see pack */
        uint64_t when; /* actor and time */
    } events[TR_HISTORY_PIECE];
};

/* From this job on, in the order of ids, they were made at this time or within TR_MADE_EVERY_US. */
struct tr_made {
    uint64_t id;
    uint64_t at_us;
};

enum { TR_MADE_EVERY_US = 100000, TR_MADE_MAX = 1 << 16 };

/* Somebody who does things. */
struct tr_actor {
    uint8_t len;
    char name[TR_ACTOR_NAME_MAX];
};

struct tr_histories {
    struct tr_mem mem; /* its own: it takes nothing from jobs */
    uint64_t bytes_max;
    uint64_t keep_us;
    struct tr_list pieces; /* the oldest first */
    struct tr_list *hint;  /* a piece that was looked at, or NULL, */
    uint64_t hint_no;      /* and its number */
    uint64_t bytes;
    uint64_t first;       /* how many pieces have been dropped since the start */
    uint32_t next_no;     /* of the next piece */
    uint64_t noted;       /* events, ever; also those that were lost */
    uint64_t since_us;    /* nothing that happened from here on is missing */
    struct tr_made *made; /* by rising id */
    uint32_t made_count;
    uint32_t made_room;
    struct tr_actor *actors; /* number 1 is the first */
    uint32_t actor_count;
    uint32_t actor_room;
};

void tr_histories_init(struct tr_histories *h, uint64_t now_us);
void tr_histories_fini(struct tr_histories *h);

/* How much is kept from now on, and for how long: what is more than that goes at once. */
void tr_histories_limit(struct tr_histories *h, uint64_t bytes_max, uint64_t keep_us,
                        uint64_t now_us);

/* Without memory it is lost, and since_us says so. id < 2^53. */
void tr_histories_add(struct tr_histories *h, uint64_t id, const struct tr_event *event);

/* The same for `count` of them as they are in a file, 16 bytes each: piece `no`, a new one. False:
 * some are by actors that are not known, and are told as by nobody. */
bool tr_histories_read(struct tr_histories *h, uint32_t no, const uint8_t *bytes, uint32_t count);

/* The newest piece; the first one from this number on; or NULL. */
const struct tr_history_piece *tr_histories_newest(const struct tr_histories *h);
const struct tr_history_piece *tr_histories_from(const struct tr_histories *h, uint32_t no);

/* A job is made, with an id above all others. With 0: from this id on it is not known when. */
void tr_histories_made(struct tr_histories *h, uint64_t id, uint64_t now_us);

/* When the job with this id was made, or a tenth of a second before that; 0: that is not known. */
uint64_t tr_histories_when(const struct tr_histories *h, uint64_t id);

/* The number of somebody of that name, 1 to 64 bytes; a new one if need be. 0: there are too many,
 * or no memory. They are never forgotten. */
uint32_t tr_histories_actor(struct tr_histories *h, const char *name, size_t len);

/* What is older than keep_us goes; since_us follows. */
void tr_histories_age(struct tr_histories *h, uint64_t now_us);

/*
 * The next event of a job from *at on, which is 0 at first; *at may be kept while others are added
 * and dropped. Looks at one piece at most. False: that piece has none left, or (*at == UINT64_MAX)
 * none has.
 */
bool tr_histories_next(struct tr_histories *h, uint64_t *at, uint64_t id, struct tr_event *event);

#endif
