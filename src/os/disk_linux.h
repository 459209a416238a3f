#ifndef TR_OS_DISK_LINUX_H
#define TR_OS_DISK_LINUX_H

/*
 * One directory of the real disk, behind port/disk.h. See disk_linux.c for the threads,
 * files_linux.c for the system calls.
 *
 * Threads: one loop thread calls everything here; workers do the requests. `wake` is called from
 * a worker when the first completion waits (and from inside submit when a lane is full): it must
 * only make the loop thread call tr_disk_linux_take_done soon, as uv_async_send does.
 */

#include "base/check.h"
#include "port/disk.h"

#include <stdbool.h>

struct tr_disk_linux;

enum { TR_DISK_LINUX_QUEUE_MAX = 16384 }; /* requests waiting in a lane; more: TARRY_EFULL */

/*
 * Opens dir, which is made if it is not there (its parent must be). TARRY_EPERM, TARRY_ENOTFOUND
 * (no parent, or not a directory), TARRY_ENOSPC, TARRY_EFULL (no more threads or files), TARRY_EIO.
 */
TR_MUST_USE int tr_disk_linux_open(struct tr_disk_linux **d, const char *dir,
                                   void (*wake)(void *ctx), void *ctx);

/* The same for a directory that is there, to look at what is in it: nothing is ever written, made
 * or removed (TARRY_EREADONLY). */
TR_MUST_USE int tr_disk_linux_look(struct tr_disk_linux **d, const char *dir,
                                   void (*wake)(void *ctx), void *ctx);

/* Finishes what is queued, ends the threads, closes all files. d may be NULL. */
void tr_disk_linux_close(struct tr_disk_linux *d);

/*
 * Once `asked` has said so nothing is done that is to be done at once (tr_disk_ops.run): it fails
 * with TARRY_ECLOSED. So a start can be given up, as if the process ended there. NULL: no longer.
 */
void tr_disk_linux_give_up(struct tr_disk_linux *d, bool (*asked)(void *ctx), void *ctx);

/* Did anything fail for that reason? */
bool tr_disk_linux_gave_up(const struct tr_disk_linux *d);

struct tr_disk tr_disk_linux_port(struct tr_disk_linux *d);

/* All completed requests since the last call, linked by next, oldest first; or NULL. */
struct tr_io *tr_disk_linux_take_done(struct tr_disk_linux *d);

/*
 * From now on the loop thread does small writes of the log by itself, as long as they are quick,
 * and small reads of what is in the page cache. Before it waits it calls help, until that gives
 * NULL. What it gives is done, linked by next like what take_done gives; until it is called such a
 * write does not begin, and nobody is woken for such a read.
 */
void tr_disk_linux_offer_help(struct tr_disk_linux *d);
struct tr_io *tr_disk_linux_help(struct tr_disk_linux *d);

#endif
