#ifndef TR_OS_LOOP_LINUX_UV_H
#define TR_OS_LOOP_LINUX_UV_H

/* What the other files of os/ that use libuv need of the loop. Not for anybody else. */

#include "os/loop_linux.h"

#include <uv.h>

uv_loop_t *tr_loop_linux_uv(struct tr_loop_linux *l);

/* To be called first in every callback: a round of work begins, if it has not yet. */
void tr_loop_linux_begin(struct tr_loop_linux *l);

#endif
