#ifndef TR_CLUSTER_SQL_URL_H
#define TR_CLUSTER_SQL_URL_H

/*
 * Where a database is: mariadb://HOST[:PORT]/DATABASE, or mariadb:///DATABASE?socket=PATH. See
 * sql_url.c.
 */

#include "base/check.h"

#include <stdint.h>

enum { TR_SQL_HOST = 256, TR_SQL_NAME = 65, TR_SQL_PATH = 108 }; /* bytes, a NUL included */

struct tr_sql_url {
    char host[TR_SQL_HOST]; /* an IPv6 address without its brackets; empty: a socket */
    uint16_t port;
    char socket[TR_SQL_PATH]; /* empty: a host */
    char database[TR_SQL_NAME];
};

/* TARRY_EINVAL: *why is how a sentence goes on that begins with the URL. */
TR_MUST_USE int tr_sql_url_read(struct tr_sql_url *url, const char *text, const char **why);

#endif
