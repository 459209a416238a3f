#ifndef TR_PORT_REDIS_H
#define TR_PORT_REDIS_H

/*
 * Connections to Redis servers as pure code sees them: commands go out, and what came of them comes
 * back. remote/ answers for real, the simulator with dice.
 *
 * A connection has a number that the engine chooses, below TR_REDIS_CONNS, which nobody else has
 * until it is closed. Its life:
 *
 *     connect ──► up ──► (send ... heard ...) ──► closed, told by the port, or close, by the engine
 *            └──────────────────────────────────► closed: it could not be made, why says so
 *
 * The rules, which both sides keep:
 *
 *     1. Nothing is sent before `up`. The port has then done what each connection needs (password,
 *        name, database); all else, INFO too, is the engine's to ask.
 *     2. Commands of a connection go out and are answered in order, each once, with the tag that
 *        came with it. One that blocks (BLPOP) holds up those behind it: it has its own connection.
 *     3. After `closed`, and after `close`, nothing more is heard of that connection: the engine
 *        knows what was under way there, and that it does not know what came of it. The number may
 *        be used again at once.
 *     4. up, heard and closed are never called from inside connect, send or close; but they may
 *        call those, and close even the connection that they tell of.
 *     5. The port has no time-outs: the engine closes what takes too long. (TCP keep-alive is
 *        fine.) It does not connect again by itself.
 *     6. A command that cannot be sent (no memory, a broken socket) is a broken connection:
 *        `closed` comes, later.
 */

#include "port/clock.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_REDIS_CONNS = 1024 };

/* Bytes of somebody else's. */
struct tr_span {
    const char *at;
    size_t len;
};

enum tr_redis_event {
    TR_REDIS_LIST,   /* an answer: items */
    TR_REDIS_ERROR,  /* an answer: the text behind the minus */
    TR_REDIS_LOST,   /* it was sent, and no answer will come: time-out, broken connection */
    TR_REDIS_UNSENT, /* it was not sent: there is no connection */
};

/*
 * It is good during the call that brings it. A list of texts has so many items; a text, a status
 * and a number (in decimal digits) are a list of one. Nothing (nil) is an item whose `at` is NULL;
 * so is a nil in a list; an empty text has an `at` that is not. A list that is nil (BLPOP that
 * waited in vain) is one such item. We send no command whose answer has lists in lists: the port
 * may make an error of it. LOST and UNSENT are the engine's own, the port says neither.
 */
struct tr_redis_reply {
    enum tr_redis_event event;
    struct tr_span error;
    const struct tr_span *items;
    size_t count;
};

/* What the engine asks. */
struct tr_redis_port {
    void *ctx;
    /* server: "host:port"; the port is behind the last colon, and an IPv6 address stands as it is,
     * without brackets ("::1:6379"), as Redis itself writes it. It is copied. */
    void (*connect)(void *ctx, unsigned conn, const char *server);
    /* One command: count >= 1 arguments, the name first; copied before it returns. What is sent in
     * one turn of the loop should leave as one write. */
    void (*send)(void *ctx, unsigned conn, uint64_t tag, const struct tr_span *args,
                 unsigned count);
    void (*close)(void *ctx, unsigned conn);
};

/* What the engine hears. */
struct tr_redis_ear {
    void *ctx;
    void (*up)(void *ctx, unsigned conn, struct tr_now now);
    void (*heard)(void *ctx, unsigned conn, uint64_t tag, const struct tr_redis_reply *reply,
                  struct tr_now now);
    /* why: for people and logs; also the server's own words, as "WRONGPASS ...". No secrets. */
    void (*closed)(void *ctx, unsigned conn, const char *why, struct tr_now now);
};

#endif
