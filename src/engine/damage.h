#ifndef TR_ENGINE_DAMAGE_H
#define TR_ENGINE_DAMAGE_H

/*
 * What of the store is known to be damaged, and what is done about it. See damage.c (the list, and
 * copies of damaged bytes), mend.c (blocks of runs) and rebuild.c (footers and sidecars).
 */

#include "base/check.h"
#include "engine/group.h"
#include "port/disk.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_DAMAGE_MAX = 1024, /* things that are told one by one; of others only the number */
    TR_DAMAGE_COPIES = 8, /* that wait to be written, */
    TR_DAMAGE_FILES = 64, /* and that are written, at most, since the start */
    TR_DAMAGE_NOTE = 384,
};

/* A damaged place, or a job whose record is one. */
struct tr_damaged {
    uint64_t rid; /* 0: a place */
    uint64_t id;
    uint64_t due_us; /* TR_NEVER: not known */
    uint32_t topic;  /* number */
    uint32_t len;
    uint64_t off;
    uint64_t group; /* number of the group that the file is of; 0: another file */
    uint64_t at_us; /* wall: when it was found */
    char file[TR_IO_NAME_MAX];
};

/* Damaged bytes on their way to a file of their own, and what is said of them. */
struct tr_damage_copy {
    char name[TR_IO_NAME_MAX]; /* without the folder */
    uint8_t *bytes;
    uint32_t len;
    char note[TR_DAMAGE_NOTE];
};

enum tr_damage_step { TR_DAMAGE_IDLE, TR_DAMAGE_OPEN, TR_DAMAGE_WRITE, TR_DAMAGE_CLOSE };

struct tr_damage {
    struct tr_damaged *items; /* NULL: nothing is */
    unsigned count;
    uint64_t more;   /* that found no place among them */
    uint64_t mended; /* since the start: made again, or read at last */

    struct tr_damage_copy copies[TR_DAMAGE_COPIES]; /* the first one is being written */
    unsigned copy_count;
    unsigned files; /* written so far */
    bool report;    /* its note is being written, not its bytes */
    enum tr_damage_step step;
    struct tr_io io;
    struct tr_piece piece;
    uint64_t done;
};

enum { TR_MEND_MAX = 64 };

/* A block of a run that cannot be read as a whole. */
struct tr_mend_block {
    uint64_t group_no;
    uint32_t run;
    uint32_t block;
};

enum tr_mend_step { TR_MEND_IDLE, TR_MEND_BLOCK, TR_MEND_PAGES, TR_MEND_RECORDS };

/* Its jobs are found one by one; see mend.c. */
struct tr_mend {
    struct tr_mend_block blocks[TR_MEND_MAX]; /* the first one is in hand */
    unsigned count;
    enum tr_mend_step step;
    struct tr_group *group; /* of the one in hand; it counts a reader */
    struct tr_io io;
    bool busy;
    bool here;    /* what was asked for has come */
    bool whole;   /* the disk gave the bytes of the block, */
    uint8_t *buf; /* which are here, */
    uint32_t buf_room;
    uint8_t *piece; /* and a page or a record here */
    uint32_t piece_room;
    uint32_t page;             /* of T */
    struct tr_side_job *found; /* jobs of the block, */
    uint32_t found_room;
    uint32_t found_count;
    uint32_t next;     /* up to this one dealt with; */
    uint32_t bad;      /* so many cannot be read */
    uint64_t retry_at; /* boot: there was no memory */
};

struct tr_engine;
struct tr_engine_stat;

/* damage.c */
/* False: it is known already. Who adds one tells of it. */
bool tr_damage_add(struct tr_engine *e, const struct tr_damaged *found);
bool tr_damage_place(struct tr_engine *e, const char *file, uint64_t group, uint64_t off);
/* The record of a job cannot be read: told, if that is new; bytes: what was read, or NULL. */
void tr_damage_tell(struct tr_engine *e, const struct tr_damaged *d, const uint8_t *bytes);
void tr_damage_lift(struct tr_engine *e, uint64_t rid); /* it could be */
/* A copy of damaged bytes (NULL: there are none) is put aside, with what is said of them. */
void tr_damage_keep(struct tr_engine *e, const struct tr_damaged *what, const uint8_t *bytes,
                    const char *note);
void tr_damage_stat(const struct tr_engine *e, struct tr_engine_stat *s);
void tr_damage_io_done(struct tr_engine *e, const struct tr_io *io);
void tr_damage_step(struct tr_engine *e);
bool tr_damage_busy(const struct tr_engine *e);
void tr_damage_fini(struct tr_engine *e);

/* rebuild.c: before serving; what is damaged is written again from the blocks (read-only: in
 * memory). TARRY_EDAMAGED, TARRY_EIO: one of those is, too. */
TR_MUST_USE int tr_rebuild_footer(struct tr_engine *e, const struct tr_group *g, unsigned which);
TR_MUST_USE int tr_rebuild_side(struct tr_engine *e, struct tr_group *g);

/* mend.c */
/* The block cannot be read as a whole. */
void tr_mend_add(struct tr_engine *e, struct tr_group *g, unsigned run, uint32_t block);
void tr_mend_io_done(struct tr_engine *e);
void tr_mend_step(struct tr_engine *e);
uint64_t tr_mend_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_mend_fini(struct tr_engine *e);

#endif
