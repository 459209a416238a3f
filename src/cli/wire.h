#ifndef TR_CLI_WIRE_H
#define TR_CLI_WIRE_H

/*
 * A plain connection to another queue: lines and bytes, one thing after the other. See wire.c.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

enum { TR_WIRE_LINE = 1024 };

struct tr_wire {
    int fd;
    char *bytes; /* received and not taken yet */
    size_t room;
    size_t from;
    size_t to;
    const char *name; /* for messages */
    bool broken;      /* it was told so */
};

/* scheme://[user:password@]host:port[/path], cut into its parts; they point into `text`. */
struct tr_wire_address {
    char text[512];
    const char *user;     /* "": none */
    const char *password; /* "": none */
    const char *host;
    const char *port;
    const char *path; /* behind the slash; "": none */
};

/* False: it is no such address. */
TR_MUST_USE bool tr_wire_address(struct tr_wire_address *a, const char *url, const char *scheme,
                                 const char *port);

/* Host and port as the header Host wants them. */
void tr_wire_host(const struct tr_wire_address *a, char *out, size_t room);

/* False: stderr says why. */
TR_MUST_USE bool tr_wire_open(struct tr_wire *w, const char *host, const char *port,
                              const char *name);
void tr_wire_close(struct tr_wire *w);

/* All of these are false when the connection is broken; stderr says so, once. */
TR_MUST_USE bool tr_wire_send(struct tr_wire *w, const void *bytes, size_t len);
TR_MUST_USE bool tr_wire_say(struct tr_wire *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
TR_MUST_USE bool tr_wire_line(struct tr_wire *w, char out[TR_WIRE_LINE]); /* without its end */
TR_MUST_USE bool tr_wire_bytes(struct tr_wire *w, char *out, size_t len);

#endif
