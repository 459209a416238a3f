#ifndef TR_CLI_HTTP_INNER_H
#define TR_CLI_HTTP_INNER_H

/* What one request and many at once share: a request on a handle of libcurl. See http.c. */

#include "cli/http.h"

#include <curl/curl.h>

enum { TR_CLI_URL_MAX = 16384 };

/* One request, set up on a handle. */
struct tr_cli_transfer {
    struct tr_cli_answer *answer;
    struct curl_slist *headers;
};

/* The URL of the target, or stderr says why there is none, and this is how the process ends. */
TR_MUST_USE int tr_cli_url(const struct tr_cli_server *s, const char *target,
                           char url[TR_CLI_URL_MAX]);

/* False: no memory. The body of the request must stay where it is until the answer is there. */
TR_MUST_USE bool tr_cli_transfer_begin(struct tr_cli_transfer *t, CURL *curl,
                                       const struct tr_cli_server *s,
                                       const struct tr_cli_request *r, const char *url);
void tr_cli_transfer_end(struct tr_cli_transfer *t, CURL *curl);

#endif
