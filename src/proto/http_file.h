#ifndef TR_PROTO_HTTP_FILE_H
#define TR_PROTO_HTTP_FILE_H

/* A file that a server has in itself: of the dashboard. See http_file.c. */

#include <stddef.h>
#include <stdint.h>

struct tr_http_file {
    const char *name; /* NULL: behind the last one */
    const char *type; /* for Content-Type */
    const char *etag; /* of these bytes and no others; with its quotes */
    const uint8_t *bytes;
    size_t len;
};

#endif
