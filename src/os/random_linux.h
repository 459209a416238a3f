#ifndef TR_OS_RANDOM_LINUX_H
#define TR_OS_RANDOM_LINUX_H

/* Randomness from the kernel: for the seed of the engine and for secrets. Threads: any. */

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

/* Fills buf, good enough for keys. Waits for the kernel's pool, which matters at boot only. */
TR_MUST_USE int tr_random_linux_fill(void *buf, size_t len);

TR_MUST_USE int tr_random_linux_seed(uint64_t *seed);

#endif
