#ifndef TR_TEST_UNIT_WIRE_H
#define TR_TEST_UNIT_WIRE_H

/*
 * Sessions of any protocol on a rig: clients without sockets, in time that the test moves. See
 * wire.c.
 */

#include "proto/beanstalk.h"
#include "proto/http.h"
#include "test/unit/rig.h"

enum { WIRE_CLIENTS = 26 };

struct wire_client {
    const struct tr_proto *proto;
    union {
        struct tr_bs_session session;
        struct tr_hs http;
    };
    bool open;
    bool runnable;
    bool ended;  /* sends no more */
    bool closed; /* by the server */
    uint8_t *in; /* sent, not yet taken */
    size_t in_len;
    uint8_t *got; /* received, not yet looked at */
    size_t got_len;
};

struct wire {
    struct rig rig;
    struct tr_bs_port port;
    struct tr_hs_port http;
    const struct tr_proto *proto; /* of new clients; beanstalk unless set */
    struct wire_client clients[WIRE_CLIENTS];
    uint64_t next_number;
    size_t piece; /* bytes given to a session at once; 0: all there are */
    bool deaf;    /* clients do not read */
};

void wire_init(struct wire *w); /* rig_init; change what you like, then wire_open */
void wire_open(struct wire *w);
void wire_fini(struct wire *w); /* all memory must come back */

/* Client number i: connects when it is new, and sends. */
void wire_send(struct wire *w, unsigned i, const void *bytes, size_t len);
void wire_half_close(struct wire *w, unsigned i);
void wire_close(struct wire *w, unsigned i);

/* Without disk: what can be done without it. */
void wire_run(struct wire *w);

/* With disk, until nothing more happens. */
void wire_settle(struct wire *w);

void wire_pass(struct wire *w, uint64_t us);

/* Takes the first bytes of what i received. */
void wire_drop(struct wire *w, unsigned i, size_t len);

#endif
