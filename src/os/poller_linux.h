#ifndef TR_OS_POLLER_LINUX_H
#define TR_OS_POLLER_LINUX_H

/* Answers port/poller.h on the loop. */

#include "os/loop_linux.h"
#include "port/poller.h"

/* What was opened has to be closed before the loop is. */
struct tr_poller tr_poller_linux(struct tr_loop_linux *loop);

#endif
