#ifndef TR_OS_THREAD_LINUX_H
#define TR_OS_THREAD_LINUX_H

/*
 * Threads that no signal reaches: signals are for the main thread, or for the program that has us
 * as a library. What such a thread starts itself has none either.
 */

#include "base/check.h"

#include <pthread.h>
#include <stdbool.h>

/* To be joined; or, if thread is NULL, on its own. False: the system has no more. */
TR_MUST_USE bool tr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg),
                                 void *arg);

#endif
