#ifndef TR_SERVER_CONN_INNER_H
#define TR_SERVER_CONN_INNER_H

/* What the files of the connections share: one connection, and what is done to it. */

#include "server/conn.h"

#include <stdalign.h>
#include <stddef.h>

enum { TR_CONN_OUTPUT_MAX = 256 << 10 }; /* bytes to send, beyond which no command is read */

struct tr_conn {
    struct tr_conns *conns;
    const struct tr_proto *proto;
    struct tr_output *out;   /* of the session */
    struct tr_sock *sock;    /* NULL: closed */
    struct tr_tls_conn *tls; /* NULL: none, or not a byte has come yet */
    struct tr_list all;
    struct tr_list working; /* of conns->work, or none */
    struct tr_list sending; /* of unsent or gated, or none */
    uint8_t *pending;       /* read, not yet taken by the session */
    size_t pending_len;
    size_t pending_room;
    struct tr_list patient; /* of conns->patient[patience], or none */
    enum tr_patience patience;
    uint64_t since_us; /* boot time since which it is */
    uint64_t request;  /* for which */
    uint64_t begun_us; /* boot time since which bytes of a body are counted, */
    uint64_t moved;    /* so many so far */
    struct tr_door *door;
    uint64_t address;  /* a hash of where it comes from; 0: it is not counted */
    uint64_t spent_us; /* by the loop, on the command */
    uint64_t spent_on; /* of this number */
    bool active;       /* bytes came or went since */
    bool shaking;      /* keys are not agreed on yet */
    bool lingers;      /* all was said; we wait for the other side to close */
    bool readable;
    bool dead;    /* nobody is there any more, but what had arrived can still be read */
    bool ended;   /* the other side sends no more, and all it sent was read */
    bool blocked; /* the socket took less than there was */
    alignas(max_align_t) unsigned char session[];
};

/* What time it is to sessions: by the engine's clock, if that is another. */
struct tr_now tr_conns_clock(const struct tr_conns *cs);

/* Its turn comes. */
void tr_conn_work_later(struct tr_conn *c);

/* Puts the connection where its state wants it. It may be closed and freed by this. */
void tr_conn_settle(struct tr_conn *c, struct tr_now now);

/* The connection ends here; c may be freed afterwards. */
void tr_conn_close(struct tr_conn *c, struct tr_now now);

/* All was said: we send no more, and what still comes is dropped until the other side closes. */
void tr_conn_linger(struct tr_conn *c, struct tr_now now);

void tr_conn_watch(struct tr_conn *c, unsigned events);

static inline void tr_conn_count(struct tr_conn *c, enum tr_refusal why)
{
    c->door->refused[why]++;
}

/* conn_door.c: one went, so there may be a place again. */
void tr_conns_let_in(struct tr_conns *cs);
void tr_conns_close_doors(struct tr_conns *cs);
void tr_conn_leave_address(struct tr_conn *c);

/* conn_time.c: notes since when we wait for the other side, and for what. */
void tr_conn_be_patient(struct tr_conn *c, struct tr_now now);

/* conn_tls.c: one go for a connection that is to agree on keys. */
void tr_conn_shake(struct tr_conn *c, struct tr_now now);
extern const char tr_conn_plain_http[]; /* said to a client that does not speak TLS */

#endif
