#ifndef TR_OS_CLOCK_LINUX_H
#define TR_OS_CLOCK_LINUX_H

/* The real clocks. Threads: any. */

#include "port/clock.h"

struct tr_now tr_clock_linux_now(void);

#endif
