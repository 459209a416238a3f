#ifndef TR_SERVER_ADDRESS_H
#define TR_SERVER_ADDRESS_H

/*
 * Where to listen, as people write it: "127.0.0.1:11300", "[::1]:0", ":11300" and "11300" (both on
 * 127.0.0.1), "localhost:11300" (the same), "unix:PATH", "off". See address.c.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_address_kind {
    TR_ADDRESS_OFF,
    TR_ADDRESS_IP4,
    TR_ADDRESS_IP6,
    TR_ADDRESS_UNIX,
};

enum { TR_ADDRESS_PATH_MAX = 107, TR_ADDRESS_TEXT = 128 };

struct tr_address {
    enum tr_address_kind kind;
    uint16_t port;                      /* 0: any free one */
    char host[TR_ADDRESS_PATH_MAX + 1]; /* "127.0.0.1", "::1"; TR_ADDRESS_UNIX: the path */
};

/* Takes text apart. On TARRY_EINVAL *why is what is wrong with it: the end of a sentence. */
TR_MUST_USE int tr_address_read(struct tr_address *a, const char *text, const char **why);

/* The same with the port apart, as beanstalkd has it: an address without brackets, or unix:PATH. */
TR_MUST_USE int tr_address_read_host(struct tr_address *a, const char *host, uint16_t port,
                                     const char **why);

/* Can only processes of this machine reach it? True for off and unix, too. */
bool tr_address_is_local(const struct tr_address *a);

/* The canonical text, at most TR_ADDRESS_TEXT bytes with its NUL. */
void tr_address_text(const struct tr_address *a, char out[TR_ADDRESS_TEXT]);

#endif
