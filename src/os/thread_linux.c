/* The mask of signals is inherited, so it is set around the start and put back. */

#include "os/thread_linux.h"

#include <signal.h>

bool tr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    pthread_t made;
    sigset_t all;
    sigset_t before;
    bool ok;
    int err;

    sigfillset(&all);
    err = pthread_sigmask(SIG_SETMASK, &all, &before);
    TR_CHECK(err == 0);
    ok = pthread_create(&made, NULL, run, arg) == 0;
    err = pthread_sigmask(SIG_SETMASK, &before, NULL);
    TR_CHECK(err == 0);
    if (!ok) {
        return false;
    }
    (void)pthread_setname_np(made, name);
    if (thread != NULL) {
        *thread = made;
        return true;
    }
    err = pthread_detach(made);
    TR_CHECK(err == 0);
    return true;
}
