#ifndef TR_BASE_ERR_H
#define TR_BASE_ERR_H

/*
 * One list gives the codes, their names and their texts. 0 is success, errors are negative.
 * Codes are never renumbered: they reach users through the library.
 */
#define TR_ERR_LIST(X)                                                                             \
    X(-1, TARRY_EIO, "the disk failed")                                                            \
    X(-2, TARRY_EDAMAGED, "the store is damaged")                                                  \
    X(-3, TARRY_EFULL, "a configured limit is reached")                                            \
    X(-4, TARRY_ENOTFOUND, "there is no such thing")                                               \
    X(-5, TARRY_ESTATE, "the job is in another state")                                             \
    X(-6, TARRY_ENOMEM, "the memory limit is reached")                                             \
    X(-7, TARRY_ENOSPC, "the disk is full")                                                        \
    X(-8, TARRY_ETIMEOUT, "nothing came in time")                                                  \
    X(-9, TARRY_ELOCKED, "another process has the store open")                                     \
    X(-10, TARRY_EVERSION, "the store was written by a newer version")                             \
    X(-11, TARRY_EINVAL, "the request makes no sense")                                             \
    X(-12, TARRY_EDRAINING, "no new jobs are taken")                                               \
    X(-13, TARRY_EPERM, "permission was denied")                                                   \
    X(-14, TARRY_ESOON, "a lease ends soon")                                                       \
    X(-15, TARRY_EEXISTS, "there is a job with that key")                                          \
    X(-16, TARRY_EPAUSED, "the topic takes no jobs: it is paused")                                 \
    X(-17, TARRY_EQUOTA, "the topic has as much as its policy allows")                             \
    X(-18, TARRY_EUNSUPPORTED, "this engine cannot do that")                                       \
    X(-19, TARRY_EREADONLY, "the store is open for reading only")                                  \
    X(-20, TARRY_ECLOSED, "the store is being closed")                                             \
    X(-21, TARRY_EAWAY, "the servers that keep the jobs cannot be reached: nothing was done")      \
    X(-22, TARRY_EUNSURE, "it is not known whether it was done")

enum tarry_err {
    TARRY_OK = 0,
#define X(code, name, text) name = (code),
    TR_ERR_LIST(X)
#undef X
};

/* A sentence for people, and the code's own name. Both for any number, known or not. Users of the
 * library may call them, too. */
__attribute__((visibility("default"))) const char *tarry_strerror(int err);
__attribute__((visibility("default"))) const char *tarry_errname(int err);

#endif
