#ifndef TR_REMOTE_ZOO_H
#define TR_REMOTE_ZOO_H

/*
 * ZooKeeper as the coordinator of port/coord.h. See zoo.c.
 *
 * Threads: the loop's.
 */

#include "base/check.h"
#include "port/coord.h"
#include "port/poller.h"

struct tr_zoo;

struct tr_zoo_setup {
    struct tr_poller poller; /* its ctx has to outlive it */
    struct tr_now (*now)(void);
    const char *servers; /* HOST:PORT, several with commas between them */
    const char *root;    /* a path: root/nodes/... is what we use */
    uint64_t session_us; /* as is asked for; the server may give another one */
    uint64_t node;
    const char *address; /* for people who look there */
};

/* All texts are copied. TARRY_EFULL: no memory, descriptors or threads. Nobody is asked yet. */
TR_MUST_USE int tr_zoo_open(struct tr_zoo **out, const struct tr_zoo_setup *setup);

struct tr_coord_port tr_zoo_port(struct tr_zoo *z);

/* Where it tells what happened; before the first beat. */
void tr_zoo_listen(struct tr_zoo *z, struct tr_coord_ear ear);

/* Nothing is told any more. Waits a moment for the session to end, so that others need not. z may
 * be NULL. */
void tr_zoo_close(struct tr_zoo *z);

#endif
