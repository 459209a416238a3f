#ifndef TR_SERVER_WEB_H
#define TR_SERVER_WEB_H

/*
 * The files of the dashboard, from web/: tools/make-web makes the C file of them when the server is
 * built.
 */

#include "proto/http_file.h"

extern const struct tr_http_file tr_web_files[]; /* the last one has no name */

#endif
