/*
 * One request, one answer, on libcurl: it knows TLS, and what names mean. Debian has it, so does
 * nearly everybody; where it was not there at the build, commands that need a server say so.
 *
 * Nothing has a time-out but the connecting: a copy of a large store takes its time, and whoever
 * waits can always stop it.
 */

#include "cli/http.h"

#include "base/err.h"
#include "base/text.h"
#include "cli/cli.h"
#include "proto/json_in.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TR_CURL
#include <curl/curl.h>
#endif

static const char LOCAL[] = "http://127.0.0.1:11301";

enum { CONNECT_S = 10, URL_MAX = 4096, ANSWER_MAX = 1 << 28 };

void tr_cli_server_init(struct tr_cli_server *s)
{
    *s = (struct tr_cli_server){.url = getenv("TARRY_SERVER"), .token = getenv("TARRY_TOKEN")};
}

bool tr_cli_server_flag(struct tr_cli_server *s, int argc, char **argv, int *i)
{
    static const char *const names[] = {"--server", "--token"};
    const char **values[] = {&s->url, &s->token};

    for (unsigned k = 0; k < 2; k++) {
        size_t len = strlen(names[k]);

        if (strncmp(argv[*i], names[k], len) != 0) {
            continue;
        }
        if (argv[*i][len] == '=') {
            *values[k] = argv[*i] + len + 1;
            return true;
        }
        if (argv[*i][len] == '\0') {
            *values[k] = *i + 1 < argc ? argv[++*i] : "";
            return true;
        }
    }
    return false;
}

void tr_cli_answer_fini(struct tr_cli_answer *a)
{
    free(a->body);
    *a = (struct tr_cli_answer){0};
}

bool tr_cli_escape(char *out, size_t room, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t len = 0;

    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        bool plain = isalnum(*c) || strchr("-._~", *c) != NULL;

        if (len + 4 > room) {
            return false;
        }
        if (plain) {
            out[len++] = (char)*c;
        } else {
            out[len++] = '%';
            out[len++] = hex[*c >> 4];
            out[len++] = hex[*c & 15];
        }
    }
    out[len] = '\0';
    return true;
}

/* ---- what is wrong with the flags ---- */

/* The URL of the target, or why there is none. */
static int url_of(const struct tr_cli_server *s, const char *target, char url[URL_MAX])
{
    const char *base = s->url != NULL ? s->url : LOCAL;
    bool has_scheme = strncmp(base, "http://", 7) == 0 || strncmp(base, "https://", 8) == 0;
    size_t len = strlen(base);

    while (len > 0 && base[len - 1] == '/') {
        len--;
    }
    if (len == 0 || (!has_scheme && strstr(base, "://") != NULL) ||
        len + strlen(target) + 8 > URL_MAX) {
        fprintf(stderr, "tarry: --server takes an address such as %s, not \"%s\".\n", LOCAL, base);
        return TR_CLI_USAGE;
    }
    tr_text(url, URL_MAX, "%s%.*s%s", has_scheme ? "" : "http://", (int)len, base, target);
    return TR_CLI_FINE;
}

static int check_token(const struct tr_cli_server *s)
{
    for (const char *c = s->token; c != NULL && *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') {
            fputs("tarry: that token has characters that no token has.\n", stderr);
            return TR_CLI_USAGE;
        }
    }
    if (s->token != NULL && (*s->token == '\0' || strlen(s->token) > URL_MAX / 2)) {
        fputs("tarry: --token (or TARRY_TOKEN) is empty or too long.\n", stderr);
        return TR_CLI_USAGE;
    }
    return TR_CLI_FINE;
}

/* ---- asking ---- */

#ifdef TR_CURL

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

static int tell_failure(CURLcode code, const char *url)
{
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
        fprintf(stderr, "tarry: --server takes an address such as %s: \"%s\" is none.\n", LOCAL,
                url);
        return TR_CLI_USAGE;
    }
    fprintf(stderr, "tarry: no answer from %s: %s.\n", url, curl_easy_strerror(code));
    fputs(code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST
              ? "Is the server running? --server URL (or TARRY_SERVER) says where.\n"
              : "See the server's log.\n",
          stderr);
    return TR_CLI_FAILED;
}

static CURLcode perform(CURL *curl, const char *method, const char *url, struct tr_cli_answer *a)
{
    CURLcode code;

    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarry/" TARRY_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
    if (strcmp(method, "GET") != 0) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    }
    code = curl_easy_perform(curl);
    if (code == CURLE_OK) {
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
    }
    return code;
}

static int ask(const struct tr_cli_server *s, const char *method, const char *url,
               struct tr_cli_answer *a)
{
    char line[URL_MAX] = "Authorization:";
    struct curl_slist *headers;
    CURLcode code = CURLE_FAILED_INIT;
    CURL *curl = curl_easy_init();

    if (s->token != NULL) {
        tr_text(line, sizeof line, "Authorization: Bearer %s", s->token);
    }
    headers = curl_slist_append(NULL, line); /* without a token: none, whatever ~/.netrc says */
    if (curl != NULL && headers != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        code = perform(curl, method, url, a);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return code == CURLE_OK ? TR_CLI_FINE : tell_failure(code, url);
}

#else

static int ask(const struct tr_cli_server *s, const char *method, const char *url,
               struct tr_cli_answer *a)
{
    (void)s;
    (void)method;
    (void)url;
    (void)a;
    fputs("tarry: it was built without libcurl, so it cannot talk to a server. Install "
          "libcurl4-openssl-dev and build it again; or use curl.\n",
          stderr);
    return TR_CLI_FAILED;
}

#endif

int tr_cli_ask(const struct tr_cli_server *s, const char *method, const char *target,
               struct tr_cli_answer *a)
{
    char url[URL_MAX];
    int exit = url_of(s, target, url);

    *a = (struct tr_cli_answer){0};
    if (exit == TR_CLI_FINE) {
        exit = check_token(s);
    }
    return exit == TR_CLI_FINE ? ask(s, method, url, a) : exit;
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

static bool find(const struct tr_json_value *object, const char *name, struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value is;

    if (object->kind != TR_JSON_OBJECT_KIND) {
        return false;
    }
    tr_json_walk_init(&walk, object);
    while (tr_json_walk_member(&walk, &is, v)) {
        if (tr_json_says(&is, name)) {
            return true;
        }
    }
    return false;
}

bool tr_cli_find_member(const struct tr_cli_answer *a, const char *name, struct tr_json_value *v)
{
    struct tr_json_value all;

    if (!is_json(a)) {
        return false;
    }
    all = tr_json_value_of(a->body, a->len);
    return find(&all, name, v);
}

int tr_cli_judge(const struct tr_cli_answer *a)
{
    struct tr_json_value error;
    struct tr_json_value message;
    char text[1024];
    size_t len = 0;

    if (a->status >= 200 && a->status < 300) {
        return TR_CLI_FINE;
    }
    if (tr_cli_find_member(a, "error", &error) && find(&error, "message", &message) &&
        message.kind == TR_JSON_STRING_KIND && message.len < sizeof text) {
        len = tr_json_unescape(&message, text);
        fprintf(stderr, "tarry: the server says %ld: %.*s.\n", a->status, (int)len, text);
    } else {
        fprintf(stderr,
                "tarry: the server says %ld, and nothing that tarry would say. Is it one?\n",
                a->status);
    }
    if (a->status == 401 || a->status == 403) {
        fputs("A token that may do this is given with --token, or in TARRY_TOKEN.\n", stderr);
    }
    return TR_CLI_FAILED;
}
