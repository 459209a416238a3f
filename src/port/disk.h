#ifndef TR_PORT_DISK_H
#define TR_PORT_DISK_H

/*
 * What the engine asks of a disk: one directory of flat files, with a folder `quarantine/` in it,
 * which comes with the first file that is made there and which LIST does not show; and for a while
 * another directory, for a copy. Linux answers in
 * os/disk_linux.c with threads, the simulator in sim/sim_disk.c with dice.
 *
 * Every request is a struct tr_io that its owner keeps alive and does not touch until it is done.
 * `submit` queues it on its lane and returns at once; later, never from inside submit, the owner
 * hears of it through the function given when the disk was made. `run` does the same work before
 * it returns, for the time before and after serving (open, close), when nothing else is queued.
 *
 * Lanes: LOG in strict order. READ in any order. BACK in strict order. Between lanes there is no
 * order.
 */

#include <stddef.h>
#include <stdint.h>

enum { TR_IO_NAME_MAX = 64, TR_IO_PIECES_MAX = 64 };

enum tr_lane { TR_LANE_LOG, TR_LANE_READ, TR_LANE_BACK, TR_LANE_COUNT };

enum tr_io_op {
    TR_IO_OPEN,        /* name, flags -> file */
    TR_IO_CLOSE,       /* file */
    TR_IO_READ,        /* file, off, len, buf -> got; less than len only at the end of the file */
    TR_IO_READ_DIRECT, /* the same around the page cache: what a power cut would leave */
    TR_IO_WRITE,       /* file, off, pieces -> got; may be short: the owner sends the rest again */
    TR_IO_SYNC,        /* file: all its writes so far survive a power cut once this has succeeded */
    TR_IO_ALLOCATE, /* file, len: blocks for [0, len) exist; later writes there never lack space */
    TR_IO_ZERO,     /* file, off, len: write zeros */
    TR_IO_UNLINK,   /* name; no error when it is not there */
    TR_IO_LIST,     /* buf, len -> got: names, each ended by a NUL; TARRY_EFULL when too many */
    TR_IO_DIRSYNC,  /* creations and removals so far survive a power cut */
    TR_IO_FOLDER,   /* buf: the path of another folder, made if it is not there; from now on it is
                       the one aside. NULL: there is none any more */
    TR_IO_LINK,     /* name: the file has this name aside, too; TARRY_EUNSUPPORTED: it cannot */
    TR_IO_CALL,     /* call(buf): a long calculation over memory of its own, away from the loop */
    TR_IO_SPACE,    /* -> got: bytes that the disk has room for, about */
};

enum tr_io_flag {
    TR_IO_CREATE = 1,     /* OPEN: make it if it is not there (else TARRY_ENOTFOUND) */
    TR_IO_LOCK = 2,       /* OPEN: exclusive, TARRY_ELOCKED when another process has it */
    TR_IO_THEN_SYNC = 4,  /* WRITE: SYNC follows in the same request if the write was not short */
    TR_IO_ASIDE = 8,      /* OPEN, UNLINK, LIST, DIRSYNC: in the folder aside */
    TR_IO_READ_ONLY = 16, /* OPEN: for reading alone; with LOCK many may have it, but no writer */
};

struct tr_piece {
    const void *at;
    size_t len;
};

struct tr_io {
    enum tr_io_op op;
    enum tr_lane lane;
    unsigned flags; /* enum tr_io_flag */
    int file;       /* OPEN gives it, >= 0 */
    uint64_t off;
    uint64_t len; /* bytes; for WRITE the sum of the pieces */
    void *buf;
    void (*call)(void *buf);
    const struct tr_piece *pieces; /* WRITE: at most TR_IO_PIECES_MAX */
    unsigned piece_count;
    char name[TR_IO_NAME_MAX];

    int status;   /* TARRY_OK or why not: TARRY_EIO, ENOSPC, ENOTFOUND, ELOCKED, EPERM, EFULL,
                     EREADONLY */
    uint64_t got; /* bytes read or written */

    void *owner;        /* the owner's, untouched by the disk */
    int tag;            /* the owner's */
    struct tr_io *next; /* the disk's while queued, the owner's otherwise */
};

struct tr_disk_ops {
    void (*submit)(void *ctx, struct tr_io *io);
    int (*run)(void *ctx, struct tr_io *io); /* gives io->status */
};

struct tr_disk {
    const struct tr_disk_ops *ops;
    void *ctx;
};

#endif
