#ifndef TR_OS_FILES_LINUX_H
#define TR_OS_FILES_LINUX_H

/*
 * The system calls behind each request of port/disk.h, for one directory. See files_linux.c.
 * Threads: any number may do requests at the same time; init and fini alone.
 */

#include "base/check.h"
#include "port/disk.h"

#include <pthread.h>
#include <stdbool.h>

struct tr_files_linux {
    int dir;                       /* file descriptor */
    int aside;                     /* the same of the folder aside, or -1 */
    pthread_mutex_t lock;          /* of the two below */
    char (*names)[TR_IO_NAME_MAX]; /* of the open files, by file descriptor; empty: not ours */
    int names_room;
    bool read_only; /* whatever would change something is TARRY_EREADONLY */
};

/* As tr_disk_linux_open, and as tr_disk_linux_look. */
TR_MUST_USE int tr_files_linux_init(struct tr_files_linux *f, const char *dir);
TR_MUST_USE int tr_files_linux_look(struct tr_files_linux *f, const char *dir);

/* Closes all files. */
void tr_files_linux_fini(struct tr_files_linux *f);

/* Does the request and sets status and got. */
void tr_files_linux_do(struct tr_files_linux *f, struct tr_io *io);

/* Does a READ if all of it is in the page cache. False: it is not, or nobody can tell, and nothing
 * but io->buf has changed. Never waits for the disk. */
bool tr_files_linux_read_cached(struct tr_io *io);

#endif
