/*
 * One request, one answer, on libcurl: it knows TLS, and what names mean. Debian has it, so does
 * nearly everybody; where it was not there at the build, commands that need a server say so.
 *
 * A request that has no time-out of its own ends when not a byte moves for QUIET_S, besides what it
 * waits for by request: a server may accept and never answer. What works on many jobs, or copies a
 * store, is given more, since its answer comes at its end. A server whose machine is gone is
 * noticed by keepalive. The connection is kept for the next request.
 */

#include "cli/http.h"

#include "base/err.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "proto/json_in.h"
#include "rules/duration.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char LOCAL[] = "http://127.0.0.1:11301";

/* An empty one counts as not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

void tr_cli_server_init(struct tr_cli_server *s)
{
    *s = (struct tr_cli_server){.url = variable("TARRY_SERVER"),
                                .token = variable("TARRY_TOKEN"),
                                .ca = variable("TARRY_CA")};
}

const char *tr_cli_server_name(const struct tr_cli_server *s)
{
    return s->url != NULL ? s->url : LOCAL;
}

/* A password may have @, / and ? in it. All that we add to an address is encoded, so that an @ is
 * never of that. */
static const char *show_url(char out[TR_CLI_SHOWN], const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *from = scheme != NULL ? scheme + 3 : url;
    const char *at = strrchr(from, '@');
    const char *rest = at != NULL ? at : from;

    tr_text(out, TR_CLI_SHOWN, "%.*s%s%.*s", (int)(from - url), url, at != NULL ? "***" : "",
            (int)strcspn(rest, "?"), rest);
    return out;
}

const char *tr_cli_server_shown(const struct tr_cli_server *s, char out[TR_CLI_SHOWN])
{
    return show_url(out, tr_cli_server_name(s));
}

void tr_cli_answer_fini(struct tr_cli_answer *a)
{
    free(a->body);
    *a = (struct tr_cli_answer){0};
}

/* ---- targets ---- */

static void add(struct tr_cli_target *t, const char *bytes, size_t len)
{
    if (t->room - t->len <= len) {
        size_t room = 2 * (t->len + len) + 256;

        t->text = tr_cli_memory(t->text, room);
        t->room = room;
    }
    memcpy(t->text + t->len, bytes, len);
    t->len += len;
    t->text[t->len] = '\0';
}

static void add_escaped(struct tr_cli_target *t, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        char code[3] = {'%', hex[*c >> 4], hex[*c & 15]};

        if (isalnum(*c) || strchr("-._~", *c) != NULL) {
            add(t, (const char *)c, 1);
        } else {
            add(t, code, sizeof code);
        }
    }
}

void tr_cli_target_add(struct tr_cli_target *t, const char *text)
{
    add(t, text, strlen(text));
}

void tr_cli_target_part(struct tr_cli_target *t, const char *part)
{
    add(t, "/", 1);
    add_escaped(t, part);
}

void tr_cli_target_arg(struct tr_cli_target *t, const char *name, const char *value)
{
    add(t, t->query ? "&" : "?", 1);
    t->query = true;
    add(t, name, strlen(name));
    add(t, "=", 1);
    add_escaped(t, value);
}

void tr_cli_target_fini(struct tr_cli_target *t)
{
    free(t->text);
    *t = (struct tr_cli_target){0};
}

#ifdef TR_CURL
#include "cli/http_inner.h"

enum { CONNECT_S = 10, ALIVE_S = 15, QUIET_S = 30, WORKS_S = 3600, ANSWER_MAX = 1 << 28 };

/* ---- what is wrong with the flags ---- */

static int check_token(const struct tr_cli_server *s)
{
    for (const char *c = s->token; c != NULL && *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') {
            fputs("tarry: that token has characters that no token has.\n", stderr);
            return TR_CLI_USAGE;
        }
    }
    if (s->token != NULL && (*s->token == '\0' || strlen(s->token) > 2048)) {
        fputs("tarry: --token (or TARRY_TOKEN) is empty or too long.\n", stderr);
        return TR_CLI_USAGE;
    }
    return TR_CLI_FINE;
}

int tr_cli_url(const struct tr_cli_server *s, const char *target, char url[TR_CLI_URL_MAX])
{
    const char *base = tr_cli_server_name(s);
    bool has_scheme = strncmp(base, "http://", 7) == 0 || strncmp(base, "https://", 8) == 0;
    const char *host = has_scheme ? strstr(base, "://") + 3 : base;
    size_t len = strlen(base);
    char shown[TR_CLI_SHOWN];

    while (len > 0 && base[len - 1] == '/') {
        len--;
    }
    if (len > 1024 || *host == '\0' || strchr("/?#:@", *host) != NULL ||
        (!has_scheme && strstr(base, "://") != NULL)) {
        fprintf(stderr,
                "tarry: --server (or TARRY_SERVER) takes an address such as %s, not \"%s\"%s.\n",
                LOCAL, show_url(shown, base),
                has_scheme && len <= 1024 ? ": there is no host in it" : "");
        return TR_CLI_USAGE;
    }
    if (len + strlen(target) + 8 > TR_CLI_URL_MAX) {
        fputs("tarry: those names and values are too long for a request.\n", stderr);
        return TR_CLI_USAGE;
    }
    tr_text(url, TR_CLI_URL_MAX, "%s%.*s%s", has_scheme ? "" : "http://", (int)len, base, target);
    return check_token(s);
}

/* ---- asking ---- */

static size_t take(char *bytes, size_t one, size_t len, void *ctx)
{
    struct tr_cli_answer *a = ctx;
    char *more = a->len + len < ANSWER_MAX ? realloc(a->body, a->len + len + 1) : NULL;

    (void)one; /* it is 1 */
    if (more == NULL) {
        return 0;
    }
    a->body = more;
    memcpy(a->body + a->len, bytes, len);
    a->len += len;
    a->body[a->len] = '\0';
    return len;
}

/* Says on stderr why there is no answer. Gives how the process ends. */
static int tell_failure(CURLcode code, const char *url)
{
    char shown[TR_CLI_SHOWN];

    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
        fprintf(stderr, "tarry: what answers at %s does not speak HTTP.\n", show_url(shown, url));
        fprintf(stderr,
                "--server is where tarry listens for HTTP, such as %s; port 11300 is for clients "
                "of beanstalkd.\n",
                LOCAL);
        return TR_CLI_FAILED;
    }
    if (code == CURLE_URL_MALFORMAT) {
        fprintf(stderr, "tarry: --server takes an address such as %s: \"%s\" is none.\n", LOCAL,
                show_url(shown, url));
        return TR_CLI_USAGE;
    }
    fprintf(stderr, "tarry: no answer from %s: %s.\n", show_url(shown, url),
            code == CURLE_OPERATION_TIMEDOUT ? "nothing came in time" : curl_easy_strerror(code));
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) {
        fputs("Is the server running? --server URL (or TARRY_SERVER) says where.\n", stderr);
    } else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        fputs("Who signed its certificate is said with --ca FILE (or TARRY_CA).\n", stderr);
    } else {
        fputs("See the server's log.\n", stderr);
    }
    return TR_CLI_FAILED;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char line[4096];
    struct curl_slist *longer;

    tr_text(line, sizeof line, "%s: %s", name, value);
    longer = curl_slist_append(*list, line);
    *list = longer != NULL ? longer : *list;
    return longer != NULL;
}

/* Without a token there is no header for it, whatever ~/.netrc says. */
static bool make_headers(struct curl_slist **list, const struct tr_cli_server *s,
                         const struct tr_cli_request *r)
{
    char bearer[2100];
    const char *type = r->type != NULL ? r->type : "application/octet-stream";

    *list = curl_slist_append(NULL, "Expect:"); /* it costs a round trip, and saves nothing here */
    tr_text(bearer, sizeof bearer, "Bearer %s", s->token != NULL ? s->token : "");
    return *list != NULL &&
           (s->token != NULL ? add_header(list, "Authorization", bearer)
                             : add_header(list, "Authorization", "")) &&
           (r->body == NULL || add_header(list, "Content-Type", type)) &&
           (r->accept == NULL || add_header(list, "Accept", r->accept));
}

/* Seconds for which nothing need come. */
static long quiet_s(const struct tr_cli_request *r)
{
    static const char *const work[] = {"/v1/backup",     "/v1/jobs/cancel", "/v1/jobs/shift",
                                       "/v1/jobs/kick",  "/purge",          "/restore",
                                       "/clock/advance", "force=true"};
    const char *wait = strstr(r->target, "?wait=");
    const char *why;
    uint64_t us = 0;

    if (strcmp(r->method, "GET") == 0) {
        return QUIET_S;
    }
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
        if (strstr(r->target, work[i]) != NULL) {
            return WORKS_S;
        }
    }
    wait = wait != NULL ? wait : strstr(r->target, "&wait=");
    if (wait != NULL && tr_duration_read(wait + 6, strcspn(wait + 6, "&"), &us, &why) != TARRY_OK) {
        us = 0; /* the server will say so */
    }
    return QUIET_S + (long)(us / 1000000);
}

bool tr_cli_transfer_begin(struct tr_cli_transfer *t, CURL *curl, const struct tr_cli_server *s,
                           const struct tr_cli_request *r, const char *url)
{
    bool gets = strcmp(r->method, "GET") == 0;

    if (!make_headers(&t->headers, s, r)) {
        tr_cli_transfer_end(t, curl);
        return false;
    }
    curl_easy_reset(curl); /* its connections stay */
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarry/" TARRY_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)r->most_ms);
    if (r->most_ms == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, quiet_s(r));
    }
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, (long)ALIVE_S);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, (long)ALIVE_S);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, t->answer);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, t->headers);
    if (s->ca != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, s->ca);
    }
    if (!gets) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)r->len);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body != NULL ? r->body : "");
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, r->method);
    }
    return true;
}

void tr_cli_transfer_end(struct tr_cli_transfer *t, CURL *curl)
{
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(t->headers);
    t->headers = NULL;
}

static CURLcode perform(struct tr_cli_server *s, const struct tr_cli_request *r, const char *url,
                        struct tr_cli_answer *a)
{
    struct tr_cli_transfer t = {.answer = a};
    CURLcode code;

    s->curl = s->curl != NULL ? s->curl : curl_easy_init();
    if (s->curl == NULL || !tr_cli_transfer_begin(&t, s->curl, s, r, url)) {
        return CURLE_OUT_OF_MEMORY;
    }
    code = curl_easy_perform(s->curl);
    if (code == CURLE_OK) {
        (void)curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &a->status);
    }
    tr_cli_transfer_end(&t, s->curl);
    return code;
}

int tr_cli_send(struct tr_cli_server *s, const struct tr_cli_request *r, struct tr_cli_answer *a)
{
    char url[TR_CLI_URL_MAX];
    int exit = tr_cli_url(s, r->target, url);
    CURLcode code;

    *a = (struct tr_cli_answer){0};
    if (exit != TR_CLI_FINE) {
        return exit;
    }
    code = perform(s, r, url, a);
    return code == CURLE_OK ? TR_CLI_FINE : tell_failure(code, url);
}

bool tr_cli_send_quietly(struct tr_cli_server *s, const struct tr_cli_request *r,
                         struct tr_cli_answer *a)
{
    char url[TR_CLI_URL_MAX];

    *a = (struct tr_cli_answer){0};
    return tr_cli_url(s, r->target, url) == TR_CLI_FINE && perform(s, r, url, a) == CURLE_OK;
}

/* By a connection of its own: what was asked for before is not told of one that is kept. */
bool tr_cli_certificate(struct tr_cli_server *s, uint64_t *until_s)
{
    static const char NAME[] = "Expire date:";
    struct tr_cli_request r = {.method = "GET", .target = "/healthz"};
    struct tr_cli_answer a = {0};
    struct tr_cli_transfer t = {.answer = &a};
    struct curl_certinfo *info = NULL;
    char url[TR_CLI_URL_MAX];
    time_t until = -1;
    CURL *curl = curl_easy_init();

    if (curl != NULL && tr_cli_url(s, r.target, url) == TR_CLI_FINE &&
        strncmp(url, "https://", 8) == 0 && tr_cli_transfer_begin(&t, curl, s, &r, url)) {
        (void)curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
        if (curl_easy_perform(curl) == CURLE_OK &&
            curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info) == CURLE_OK && info != NULL &&
            info->num_of_certs > 0) {
            for (struct curl_slist *at = info->certinfo[0]; at != NULL; at = at->next) {
                if (strncmp(at->data, NAME, sizeof NAME - 1) == 0) {
                    until = curl_getdate(at->data + sizeof NAME - 1, NULL);
                }
            }
        }
        tr_cli_transfer_end(&t, curl);
    }
    tr_cli_answer_fini(&a);
    curl_easy_cleanup(curl);
    *until_s = until > 0 ? (uint64_t)until : 0;
    return until > 0;
}

void tr_cli_server_fini(struct tr_cli_server *s)
{
    if (s->curl != NULL) {
        curl_easy_cleanup(s->curl);
        s->curl = NULL;
    }
}

#else

bool tr_cli_certificate(struct tr_cli_server *s, uint64_t *until_s)
{
    (void)s;
    *until_s = 0;
    return false;
}

int tr_cli_send(struct tr_cli_server *s, const struct tr_cli_request *r, struct tr_cli_answer *a)
{
    (void)s;
    (void)r;
    *a = (struct tr_cli_answer){0};
    fputs("tarry: it was built without libcurl, so it cannot talk to a server. Install "
          "libcurl4-openssl-dev and build it again; or use curl.\n",
          stderr);
    return TR_CLI_FAILED;
}

bool tr_cli_send_quietly(struct tr_cli_server *s, const struct tr_cli_request *r,
                         struct tr_cli_answer *a)
{
    (void)s;
    (void)r;
    *a = (struct tr_cli_answer){0};
    return false;
}

void tr_cli_server_fini(struct tr_cli_server *s)
{
    s->curl = NULL;
}

#endif

int tr_cli_ask(struct tr_cli_server *s, const char *method, const char *target,
               struct tr_cli_answer *a)
{
    struct tr_cli_request r = {.method = method, .target = target};
    int exit = tr_cli_send(s, &r, a);

    return exit == TR_CLI_FINE ? tr_cli_judge(a) : exit;
}

/* ---- what the answer says ---- */

static bool is_json(const struct tr_cli_answer *a)
{
    struct tr_json_in in;
    size_t taken;
    size_t at = 0;

    tr_json_in_init(&in, TR_JSON_VALUE);
    while (at < a->len) {
        if (tr_json_in_feed(&in, a->body + at, a->len - at, &taken) == TR_JSON_BAD) {
            return false;
        }
        at += taken;
    }
    return a->len != 0 && tr_json_in_end(&in) != TR_JSON_BAD;
}

bool tr_cli_read(const struct tr_cli_answer *a, struct tr_json_value *v)
{
    if (!is_json(a)) {
        fputs("tarry: that is not what tarry would answer. Is it one?\n", stderr);
        return false;
    }
    *v = tr_json_value_of(a->body, a->len);
    return true;
}

int tr_cli_judge(const struct tr_cli_answer *a)
{
    struct tr_json_value all;
    struct tr_json_value error;
    char text[1024] = "";

    if (a->status >= 200 && a->status < 300) {
        return TR_CLI_FINE;
    }
    if (is_json(a)) {
        all = tr_json_value_of(a->body, a->len);
        if (tr_cli_member(&all, "error", &error)) {
            tr_cli_string(&error, "message", text, sizeof text);
        }
    }
    if (text[0] != '\0') {
        fprintf(stderr, "tarry: the server says %ld: %s.\n", a->status, text);
    } else {
        fprintf(stderr,
                "tarry: the server says %ld, and nothing that tarry would say. Is it one?\n",
                a->status);
    }
    if (a->status == 401 || a->status == 403) {
        fputs("A token that may do this is given with --token, or in TARRY_TOKEN.\n", stderr);
    }
    return a->status == 400 ? TR_CLI_USAGE : TR_CLI_FAILED;
}
