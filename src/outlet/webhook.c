/*
 * Webhooks: an HTTP POST for each job, on libcurl's multi interface inside the loop.
 *
 *     send() --> queue --timer--> curl_multi_add_handle
 *                                            |
 *     sockets, timer of the loop --> curl_multi_socket_action --> messages --> done()
 *
 * All webhooks of the server share one multi handle, and with it the connections that are kept
 * alive, the cache of names and that of certificates. A call (an easy handle with the text of its
 * headers) is used again and again by its sender.
 *
 * Nothing blocks. Names are resolved by threads of libcurl, one for each transfer that does not
 * find its name in the cache; a transfer that ends while its name is still being resolved must not
 * wait for that thread (CURLOPT_QUICK_EXIT: the thread then tidies up after itself). So of one
 * webhook only a few may be without an address at a time, and the others wait: they will find it in
 * the cache, or a connection that is there. Transfers are begun a few at a time, as each takes some
 * system calls.
 *
 * Whom it talks to. Only http and https, no redirects, no proxy of the environment. The guard looks
 * at the very address that a socket is made for; a connection that is used again was looked at when
 * it was made.
 *
 * The answer. Only as much of it is kept as the text that `success` asks for, and one byte; of more
 * than 1 MiB nothing is read: what it begins with is judged then.
 *
 * Time. Time-outs and the seconds of the signature are real ones, with a test clock, too: the other
 * side does not have it.
 */

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "outlet/guard.h"
#include "outlet/kinds.h"
#include "outlet/sign.h"
#include "rules/moment.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STARTS = 16,      /* at a time */
    LOOKS = 8,        /* transfers of one webhook without an address */
    CONNECTIONS = 64, /* kept alive at least */
    ANSWER_MAX = 1 << 20,
    HEAD_MAX = 300 << 10, /* libcurl's: it reads no more */
    BUFFER = 16384,
    LINES = 10,
    LINES_TEXT = 2048,
    RETRY_AFTER_MAX_S = 1000000000, /* of what is told: more than anybody waits */
    AT_ONCE_MAX = 20,               /* attempts after which 0 is not honoured any more */
};

/* What all webhooks share. */
struct hooks {
    CURLM *multi;
    const struct tr_poller *poller;
    struct tr_poll_timer *timer; /* of libcurl */
    struct tr_poll_timer *start; /* of the queue */
    struct tr_send *first;       /* that: what is to begin; `own` is its webhook */
    struct tr_send *last;
    struct tr_send *dropped; /* what was to begin, and is not to any more */
    struct tr_list doomed;   /* calls that are to be ended */
    unsigned users;
    long connections;
    void **place; /* where we are known from */
};

struct webhook {
    struct hooks *hooks;
    const struct tr_sender_host *host;
    struct tr_signer *signer; /* NULL: there is no secret */
    struct curl_slist *fixed; /* headers that are always the same */
    char *url;
    char *success; /* NULL: any 2xx will do */
    size_t success_len;
    long timeout_ms;
    unsigned concurrency;
    unsigned busy;
    unsigned looking;         /* calls without an address yet */
    struct tr_send *held;     /* what waits until these are fewer */
    struct tr_send *held_end; /* the last of it */
    struct tr_list idle;      /* calls, */
    struct tr_list calls;     /* and those that are under way */
};

struct call {
    struct tr_list link; /* of the webhook: idle or calls */
    struct tr_list doom; /* of the hooks */
    struct webhook *hook;
    CURL *easy;
    struct tr_send *send;
    bool running;  /* with libcurl */
    bool looking;  /* it has not got its address yet */
    bool guarded;  /* its address was refused */
    bool too_long; /* so was the rest of the answer */
    bool equal;    /* what came is what `success` begins with */
    size_t got;    /* bytes of the answer */
    struct curl_slist nodes[LINES];
    unsigned node_count;
    char text[LINES_TEXT];
    size_t text_len;
};

/* ---- headers ---- */

/* libcurl takes a header without a value away, unless it ends with a semicolon. */
static bool is_blank(const char *value, size_t len)
{
    while (len > 0 && value[len - 1] == ' ') {
        len--;
    }
    return len == 0;
}

static void line(struct call *c, const char *name, const char *value, size_t len)
{
    char *at = c->text + c->text_len;
    size_t need = strlen(name) + 2 + len + 1;

    if (c->node_count == LINES || c->text_len + need > sizeof c->text) {
        return; /* cannot be: names, keys and signatures have limits */
    }
    len = is_blank(value, len) ? 0 : len;
    tr_text(at, need, len > 0 ? "%s: %.*s" : "%s;%.*s", name, (int)len, value);
    c->nodes[c->node_count] = (struct curl_slist){.data = at};
    if (c->node_count > 0) {
        c->nodes[c->node_count - 1].next = &c->nodes[c->node_count];
    }
    c->node_count++;
    c->text_len += need;
}

static void number_line(struct call *c, const char *name, uint64_t n)
{
    char text[24];

    tr_text(text, sizeof text, "%" PRIu64, n);
    line(c, name, text, strlen(text));
}

/* False: it cannot be signed. */
static bool write_lines(struct call *c)
{
    const struct tr_send *s = c->send;
    char due[TR_MOMENT_TEXT];
    char signature[TR_SIGNATURE];

    c->node_count = 0;
    c->text_len = 0;
    number_line(c, "Tarry-Id", s->id);
    line(c, "Tarry-Topic", s->topic, s->topic_len);
    if (s->key_len > 0) {
        line(c, "Tarry-Key", s->key, s->key_len);
    }
    if (s->tag_len > 0) {
        line(c, "Tarry-Tag", s->tag, s->tag_len);
    }
    number_line(c, "Tarry-Attempt", s->attempt);
    line(c, "Tarry-Due", due, tr_moment_print(due, (int64_t)s->due_us));
    number_line(c, "Tarry-Late-Ms", s->late_us / 1000);
    number_line(c, "Idempotency-Key", s->id);
    if (c->hook->signer != NULL) {
        if (!tr_signer_sign(c->hook->signer, signature, (uint64_t)time(NULL),
                            (struct tr_deliver_text){(const char *)s->body, s->body_len})) {
            return false;
        }
        line(c, "Tarry-Signature", signature, strlen(signature));
    }
    c->nodes[c->node_count - 1].next = c->hook->fixed;
    return true;
}

/* ---- what libcurl calls ---- */

/* Bytes of the answer. */
static size_t take(char *bytes, size_t one, size_t len, void *ctx)
{
    struct call *c = ctx;
    const struct webhook *w = c->hook;

    (void)one; /* it is 1 */
    if (w->success != NULL && c->equal) {
        c->equal = c->got + len <= w->success_len && memcmp(bytes, w->success + c->got, len) == 0;
    }
    c->got += len;
    c->too_long = c->got > ANSWER_MAX;
    return c->too_long ? 0 : len;
}

/* Behind all that is to begin. */
static void line_up(struct hooks *h, struct tr_send *first, struct tr_send *last)
{
    last->next = NULL;
    *(h->last != NULL ? &h->last->next : &h->first) = first;
    h->last = last;
    h->poller->timer_set(h->start, 0);
}

/* A call has its address, or will not have one. What waited for that goes back into the queue. */
static void looked(struct call *c)
{
    struct webhook *w = c->hook;

    if (c->looking) {
        c->looking = false;
        w->looking--;
        if (w->held != NULL) {
            line_up(w->hooks, w->held, w->held_end);
            w->held = NULL;
        }
    }
}

/* Also where a connection is used again. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static int before_request(void *ctx, char *to, char *from, int to_port, int from_port)
{
    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    looked(ctx);
    return CURL_PREREQFUNC_OK;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct call *c = ctx;

    (void)purpose;
    looked(c);
    if (!tr_guard_allows(&address->addr, address->addrlen, c->hook->host->allow_private)) {
        c->guarded = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- the end of a call ---- */

/* How a send ended. */
struct end {
    enum tr_send_outcome outcome;
    const char *code;
    const char *why;
};

static void give(struct webhook *w, struct tr_send *s, struct end e)
{
    w->busy--;
    s->own = NULL;
    s->outcome = e.outcome;
    tr_text(s->code, sizeof s->code, "%s", e.code);
    tr_text(s->why, sizeof s->why, "%s", e.why);
    w->host->done(w->host->ctx, s);
}

/* There was no address for one: what waits for it goes back where it came from, so that a breaker
 * that opens leaves nothing behind. */
static void drop_held(struct webhook *w)
{
    struct hooks *h = w->hooks;

    while (w->held != NULL) {
        struct tr_send *s = w->held;

        w->held = s->next;
        s->next = h->dropped;
        h->dropped = s;
        h->poller->timer_set(h->start, 0);
    }
}

static void end(struct call *c, enum tr_send_outcome outcome, const char *code, const char *why)
{
    struct webhook *w = c->hook;
    struct tr_send *s = c->send;

    TR_CHECK(s != NULL);
    if (c->looking && outcome == TR_SEND_UNREACHABLE) {
        drop_held(w);
    }
    looked(c);
    if (c->running) {
        (void)curl_multi_remove_handle(w->hooks->multi, c->easy);
        c->running = false;
    }
    tr_list_remove(&c->doom);
    tr_list_remove(&c->link);
    tr_list_append(&w->idle, &c->link);
    c->send = NULL;
    give(w, s, (struct end){.outcome = outcome, .code = code, .why = why});
}

/* A number of seconds, as long as it may be; false: that is none. */
static bool read_seconds(const char *text, uint64_t *us)
{
    uint64_t s = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        s = s < RETRY_AFTER_MAX_S ? s * 10 + (uint64_t)(text[i] - '0') : s;
    }
    *us = s * 1000000;
    return true;
}

/* Until then; a date that is past means at once. False: that is none. */
static bool read_date(const char *text, uint64_t *us)
{
    time_t at = curl_getdate(text, NULL);
    time_t now = time(NULL);
    uint64_t s = at > now ? (uint64_t)(at - now) : 0;

    *us = (s < RETRY_AFTER_MAX_S ? s : RETRY_AFTER_MAX_S) * 1000000;
    return at != -1;
}

/* Read here, as libcurl takes 0, too many seconds and dates that are past for none, and 1e3 for
 * one. At once is for so many attempts only: there are jobs without an end of theirs. */
static void read_retry_after(struct call *c)
{
    struct curl_header *h;
    struct tr_send *s = c->send;

    if (curl_easy_header(c->easy, "Retry-After", 0, CURLH_HEADER, -1, &h) != CURLHE_OK) {
        return;
    }
    s->has_retry_after = h->value[0] >= '0' && h->value[0] <= '9'
                             ? read_seconds(h->value, &s->retry_after_us)
                             : read_date(h->value, &s->retry_after_us);
    if (s->retry_after_us == 0 && s->attempt > AT_ONCE_MAX) {
        s->has_retry_after = false;
    }
}

/* There was an answer, of this status. */
static void end_answered(struct call *c, long status)
{
    struct webhook *w = c->hook;
    bool good = status >= 200 && status < 300;
    bool says = w->success == NULL || (c->equal && c->got == w->success_len);
    char code[TR_SEND_CODE];
    char why[TR_SEND_WHY];

    tr_text(code, sizeof code, "%ld", status);
    if (good && says) {
        end(c, TR_SEND_OK, code, "");
        return;
    }
    tr_text(why, sizeof why, "it answered %ld%s", status,
            good                            ? ", but not the text that success asks for"
            : status >= 300 && status < 400 ? ": redirects are not followed"
                                            : "");
    read_retry_after(c);
    end(c, TR_SEND_FAILED, code, why);
}

static const char *code_of(CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return "timeout";
    case CURLE_COULDNT_RESOLVE_HOST:
        return "name";
    case CURLE_COULDNT_CONNECT:
        return "connect";
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return "tls";
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
        return "closed";
    default:
        return "error";
    }
}

/* What libcurl says of an answer's head with a line, or lines, beyond what it takes: it has no
 * memory, if a line is too long, or could not receive. */
static bool head_too_large(const struct call *c, CURLcode result)
{
    curl_off_t first_us = 0; /* until there was a byte of the answer */
    long head = 0;

    (void)curl_easy_getinfo(c->easy, CURLINFO_STARTTRANSFER_TIME_T, &first_us);
    (void)curl_easy_getinfo(c->easy, CURLINFO_HEADER_SIZE, &head);
#if LIBCURL_VERSION_NUM >= 0x080600
    if (result == CURLE_TOO_LARGE) {
        return true;
    }
#endif
    return (result == CURLE_OUT_OF_MEMORY && first_us > 0) ||
           (result == CURLE_RECV_ERROR && head >= HEAD_MAX);
}

static void finish(struct call *c, CURLcode result)
{
    long status = 0;

    (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OK || (c->too_long && status != 0)) {
        end_answered(c, status);
    } else if (c->guarded && result == CURLE_COULDNT_CONNECT) {
        end(c, TR_SEND_UNREACHABLE, "private",
            "its address is private, loopback or link-local: outlet.allow_private is off");
    } else if (head_too_large(c, result)) {
        end(c, TR_SEND_UNREACHABLE, "error",
            "the head of its answer is too large: a line may have 100 kB, all of it 300 kB");
    } else {
        end(c, TR_SEND_UNREACHABLE, code_of(result), curl_easy_strerror(result));
    }
}

static void finish_all(struct hooks *h)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        if (m->msg == CURLMSG_DONE) {
            CURLcode result = m->data.result; /* m is gone when its handle is removed */
            struct call *c = NULL;

            (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
            finish(c, result);
        }
    }
}

/* ---- the loop ---- */

static void on_socket(void *ctx, int fd, unsigned events)
{
    struct hooks *h = ctx;
    int mask = 0;
    int running;

    mask |= (events & TR_POLL_READ) != 0 ? CURL_CSELECT_IN : 0;
    mask |= (events & TR_POLL_WRITE) != 0 ? CURL_CSELECT_OUT : 0;
    mask |= (events & TR_POLL_ERROR) != 0 ? CURL_CSELECT_ERR : 0;
    (void)curl_multi_socket_action(h->multi, fd, mask, &running);
    finish_all(h);
}

static void on_time(void *ctx)
{
    struct hooks *h = ctx;
    int running;

    (void)curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    finish_all(h);
}

static int watch(CURL *easy, curl_socket_t fd, int what, void *ctx, void *poll_ctx)
{
    struct hooks *h = ctx;
    struct tr_poll *poll = poll_ctx;
    unsigned events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (poll != NULL) {
            h->poller->close(poll);
            (void)curl_multi_assign(h->multi, fd, NULL);
        }
        return 0;
    }
    if (poll == NULL) {
        poll = h->poller->open(h->poller->ctx, fd, on_socket, h);
        if (poll == NULL) {
            return -1;
        }
        if (curl_multi_assign(h->multi, fd, poll) != CURLM_OK) {
            h->poller->close(poll);
            return -1;
        }
    }
    events |= what == CURL_POLL_IN || what == CURL_POLL_INOUT ? TR_POLL_READ : 0U;
    events |= what == CURL_POLL_OUT || what == CURL_POLL_INOUT ? TR_POLL_WRITE : 0U;
    h->poller->watch(poll, events);
    return 0;
}

static int set_time(CURLM *multi, long after_ms, void *ctx)
{
    struct hooks *h = ctx;

    (void)multi;
    h->poller->timer_set(h->timer, after_ms < 0 ? UINT64_MAX : (uint64_t)after_ms);
    return 0;
}

static void begin(struct call *c)
{
    struct hooks *h = c->hook->hooks;
    struct tr_send *s = c->send;

    c->guarded = false;
    c->too_long = false;
    c->equal = true;
    c->got = 0;
    if (!write_lines(c)) {
        end(c, TR_SEND_UNREACHABLE, "error", "it could not be signed");
        return;
    }
    if (curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, s->body) != CURLE_OK ||
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body_len) !=
            CURLE_OK ||
        curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->nodes) != CURLE_OK ||
        curl_multi_add_handle(h->multi, c->easy) != CURLM_OK) {
        end(c, TR_SEND_UNREACHABLE, "error", "there is no memory to send it");
        return;
    }
    c->running = true;
    c->looking = true;
    c->hook->looking++;
}

/* ---- calls ---- */

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return curl_easy_setopt(easy, option, text) == CURLE_OK;
}

static bool set_number(CURL *easy, CURLoption option, long n)
{
    return curl_easy_setopt(easy, option, n) == CURLE_OK;
}

/* What is the same for each of its transfers. */
static bool prepare(struct call *c)
{
    CURL *e = c->easy;
    const struct webhook *w = c->hook;
    const char *trusted = getenv("SSL_CERT_FILE"); /* as OpenSSL's own way has it for the others */

    return set_text(e, CURLOPT_URL, w->url) && set_text(e, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(e, CURLOPT_PROXY, "") && set_text(e, CURLOPT_USERAGENT, "tarry") &&
           set_number(e, CURLOPT_POST, 1) && set_number(e, CURLOPT_FOLLOWLOCATION, 0) &&
           set_number(e, CURLOPT_NOSIGNAL, 1) && set_number(e, CURLOPT_BUFFERSIZE, BUFFER) &&
           set_number(e, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER) &&
           set_number(e, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           set_number(e, CURLOPT_TIMEOUT_MS, w->timeout_ms) &&
           set_number(e, CURLOPT_CONNECTTIMEOUT_MS, w->timeout_ms) &&
           (trusted == NULL || set_text(e, CURLOPT_CAINFO, trusted)) &&
#if LIBCURL_VERSION_NUM >= 0x075700
           set_number(e, CURLOPT_QUICK_EXIT, 1) &&
#endif
           curl_easy_setopt(e, CURLOPT_PRIVATE, c) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_WRITEDATA, c) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, before_request) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_PREREQDATA, c) == CURLE_OK;
}

/* It is in no list, or these go, too. */
static void call_free(struct call *c)
{
    if (c->easy != NULL) {
        curl_easy_cleanup(c->easy);
    }
    free(c);
}

static bool add_call(struct webhook *w)
{
    struct call *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return false;
    }
    c->hook = w;
    tr_list_init(&c->doom);
    tr_list_init(&c->link);
    c->easy = curl_easy_init();
    if (c->easy == NULL || !prepare(c)) {
        call_free(c);
        return false;
    }
    tr_list_append(&w->idle, &c->link);
    return true;
}

/* ---- the queue ---- */

/* A call for the next send; NULL: no memory. */
static struct call *call_for(struct webhook *w)
{
    struct call *c;

    if (tr_list_empty(&w->idle) && !add_call(w)) {
        return NULL;
    }
    c = TR_CONTAINER_OF(w->idle.next, struct call, link);
    tr_list_remove(&c->link);
    tr_list_append(&w->calls, &c->link);
    return c;
}

/* Waits until fewer calls are without an address. */
static void hold(struct webhook *w, struct tr_send *s)
{
    s->next = NULL;
    *(w->held != NULL ? &w->held_end->next : &w->held) = s;
    w->held_end = s;
}

static void begin_one(struct webhook *w, struct tr_send *s)
{
    struct call *c = NULL;

    if (w->looking >= LOOKS) {
        hold(w, s);
        return;
    }
    c = call_for(w);
    if (c == NULL) {
        give(w, s,
             (struct end){.outcome = TR_SEND_UNREACHABLE,
                          .code = "error",
                          .why = "there is no memory to send it"});
        return;
    }
    c->send = s;
    begin(c);
}

/* Ends what is to end, and begins some of what is to begin. */
static void on_start(void *ctx)
{
    struct hooks *h = ctx;

    while (h->dropped != NULL) {
        struct tr_send *s = h->dropped;

        h->dropped = s->next;
        give(s->own, s, (struct end){.outcome = TR_SEND_BACK, .code = "", .why = ""});
    }
    while (!tr_list_empty(&h->doomed)) {
        end(TR_CONTAINER_OF(h->doomed.next, struct call, doom), TR_SEND_BACK, "", "");
    }
    for (unsigned i = 0; i < STARTS && h->first != NULL; i++) {
        struct tr_send *s = h->first;

        h->first = s->next;
        h->last = h->first != NULL ? h->last : NULL;
        begin_one(s->own, s);
    }
    if (h->first != NULL) {
        h->poller->timer_set(h->start, 0);
    }
}

/* ---- what is shared ---- */

static void hooks_free(struct hooks *h)
{
    if (h->multi != NULL) {
        (void)curl_multi_cleanup(h->multi);
    }
    if (h->timer != NULL) {
        h->poller->timer_close(h->timer);
    }
    if (h->start != NULL) {
        h->poller->timer_close(h->start);
    }
    free(h);
}

static struct hooks *hooks_new(const struct tr_poller *poller)
{
    struct hooks *h = calloc(1, sizeof *h);

    if (h == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(h);
        return NULL;
    }
    h->poller = poller;
    tr_list_init(&h->doomed);
    h->timer = poller->timer_open(poller->ctx, on_time, h);
    h->start = poller->timer_open(poller->ctx, on_start, h);
    h->multi = curl_multi_init();
    if (h->timer == NULL || h->start == NULL || h->multi == NULL ||
        curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_time) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) != CURLM_OK ||
        curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) != CURLM_OK) {
        hooks_free(h);
        return NULL;
    }
    return h;
}

/* So many connections more, or less, may be kept. */
static void change_connections(struct hooks *h, long by)
{
    h->connections += by;
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS,
                            h->connections > CONNECTIONS ? h->connections : CONNECTIONS);
}

/* ---- one webhook ---- */

static char *copy(struct tr_deliver_text t)
{
    char *c = malloc(t.len + 1);

    if (c != NULL) {
        memcpy(c, t.at, t.len);
        c[t.len] = '\0';
    }
    return c;
}

static bool add_line(struct webhook *w, const char *text)
{
    struct curl_slist *more = curl_slist_append(w->fixed, text);

    w->fixed = more != NULL ? more : w->fixed;
    return more != NULL;
}

static bool is_type(struct tr_deliver_text name)
{
    static const char type[] = "content-type";

    for (size_t i = 0; i < name.len && name.len == sizeof type - 1; i++) {
        if ((name.at[i] | 32) != type[i]) {
            return false;
        }
    }
    return name.len == sizeof type - 1;
}

/* Headers of the policy, and those that libcurl would set otherwise. */
static bool add_lines(struct webhook *w, const struct tr_deliver *d)
{
    bool typed = false;
    bool ok = add_line(w, "Expect:");

    for (unsigned i = 0; i < d->header_count && ok; i++) {
        const struct tr_deliver_header *h = &d->headers[i];
        char text[2048];
        size_t len;

        typed |= is_type(h->name);
        len = is_blank(h->value.at, h->value.len) ? 0 : h->value.len;
        tr_text(text, sizeof text, len > 0 ? "%.*s: %.*s" : "%.*s;%.*s", (int)h->name.len,
                h->name.at, (int)len, h->value.at);
        ok = add_line(w, text);
    }
    return ok && (typed || add_line(w, "Content-Type: application/octet-stream"));
}

static void webhook_close(void *sender)
{
    struct webhook *w = sender;
    struct hooks *h = w->hooks;

    for (struct tr_list *n = w->idle.next, *next; n != &w->idle; n = next) {
        next = n->next;
        call_free(TR_CONTAINER_OF(n, struct call, link));
    }
    curl_slist_free_all(w->fixed);
    tr_signer_close(w->signer);
    free(w->url);
    free(w->success);
    if (h != NULL) {
        change_connections(h, -(long)w->concurrency);
        h->users--;
        if (h->users == 0) {
            *h->place = NULL;
            hooks_free(h);
        }
    }
    free(w);
}

/* The hooks that all share, or the first. */
static int join(struct webhook *w)
{
    void **place = w->host->shared;
    struct hooks *h = *place != NULL ? *place : hooks_new(w->host->poller);

    if (h == NULL) {
        return TARRY_ENOMEM;
    }
    *place = h;
    h->place = place;
    h->users++;
    w->hooks = h;
    change_connections(h, (long)w->concurrency);
    return TARRY_OK;
}

/* libcurl has to read the url as it will when it sends. */
static const char *webhook_fault(const struct tr_deliver *d)
{
    char *url = copy(d->texts[TR_DELIVER_URL]);
    CURLU *read = curl_url();
    char *port = NULL;
    const char *why = NULL;

    if (url == NULL || read == NULL) {
        why = "cannot be looked at: out of memory";
    } else if (curl_url_set(read, CURLUPART_URL, url, 0) != CURLUE_OK) {
        why = "has to be scheme://user:password@host:port/path?query, with %XX for special "
              "characters";
    } else if (curl_url_get(read, CURLUPART_PORT, &port, 0) == CURLUE_OK &&
               strcmp(port, "0") == 0) {
        why = "has port 0, where nobody can listen";
    }
    curl_free(port);
    curl_url_cleanup(read);
    free(url);
    return why;
}

static int webhook_open(void **sender, const struct tr_deliver *d,
                        const struct tr_sender_host *host)
{
    struct webhook *w = calloc(1, sizeof *w);
    int err;

    *sender = w;
    if (w == NULL) {
        return TARRY_ENOMEM;
    }
    w->host = host;
    w->concurrency = d->concurrency;
    w->timeout_ms = (long)((d->timeout_us + 999) / 1000);
    tr_list_init(&w->idle);
    tr_list_init(&w->calls);
    w->url = copy(d->texts[TR_DELIVER_URL]);
    if ((d->given >> TR_DELIVER_SUCCESS & 1) != 0) {
        w->success = copy(d->texts[TR_DELIVER_SUCCESS]);
        w->success_len = d->texts[TR_DELIVER_SUCCESS].len;
    }
    err = w->url != NULL && (w->success != NULL || w->success_len == 0) && add_lines(w, d)
              ? TARRY_OK
              : TARRY_ENOMEM;
    if (err == TARRY_OK && d->secret_count > 0) {
        err = tr_signer_open(&w->signer, d);
    }
    if (err == TARRY_OK) {
        err = join(w);
    }
    if (err != TARRY_OK) {
        webhook_close(w);
        *sender = NULL;
    }
    return err;
}

static unsigned webhook_window(const void *sender)
{
    return ((const struct webhook *)sender)->concurrency;
}

static void webhook_send(void *sender, struct tr_send *s)
{
    struct webhook *w = sender;

    w->busy++;
    s->own = w;
    line_up(w->hooks, s, s);
}

/* Takes one off a list; false: it is not there. */
static bool take_off(struct tr_send **first, struct tr_send **last, struct tr_send *s)
{
    struct tr_send *before = NULL;
    struct tr_send *at = *first;

    while (at != NULL && at != s) {
        before = at;
        at = at->next;
    }
    if (at == NULL) {
        return false;
    }
    *(before != NULL ? &before->next : first) = s->next;
    *last = *last == s ? before : *last;
    return true;
}

/* One that was not begun yet is not any more. */
static void drop(struct webhook *w, struct tr_send *s)
{
    struct hooks *h = w->hooks;

    if (take_off(&h->first, &h->last, s) || take_off(&w->held, &w->held_end, s)) {
        s->next = h->dropped;
        h->dropped = s;
        h->poller->timer_set(h->start, 0);
    }
}

static void webhook_cancel(void *sender, struct tr_send *s)
{
    struct webhook *w = sender;

    drop(w, s);
    for (struct tr_list *n = w->calls.next; n != &w->calls; n = n->next) {
        struct call *c = TR_CONTAINER_OF(n, struct call, link);

        if (c->send == s && tr_list_empty(&c->doom)) {
            tr_list_append(&w->hooks->doomed, &c->doom);
            w->hooks->poller->timer_set(w->hooks->start, 0);
        }
    }
}

static void webhook_stop(void *sender)
{
    struct webhook *w = sender;
    struct hooks *h = w->hooks;
    struct tr_send *s = h->first;

    h->first = NULL;
    h->last = NULL;
    while (s != NULL) { /* those of others stay, in their order */
        struct tr_send *next = s->next;

        if (s->own == w) {
            give(w, s, (struct end){.outcome = TR_SEND_BACK, .code = "", .why = ""});
        } else {
            s->next = NULL;
            *(h->last != NULL ? &h->last->next : &h->first) = s;
            h->last = s;
        }
        s = next;
    }
    while (w->held != NULL) {
        s = w->held;
        w->held = s->next;
        give(w, s, (struct end){.outcome = TR_SEND_BACK, .code = "", .why = ""});
    }
    while (!tr_list_empty(&w->calls)) {
        end(TR_CONTAINER_OF(w->calls.next, struct call, link), TR_SEND_BACK, "", "");
    }
}

static bool webhook_stopped(const void *sender)
{
    return ((const struct webhook *)sender)->busy == 0;
}

const struct tr_sender_kind tr_webhook_kind = {
    .type = TR_DELIVER_WEBHOOK,
    .fault = webhook_fault,
    .open = webhook_open,
    .window = webhook_window,
    .send = webhook_send,
    .cancel = webhook_cancel,
    .stop = webhook_stop,
    .stopped = webhook_stopped,
    .close = webhook_close,
};
