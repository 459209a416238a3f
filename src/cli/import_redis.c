/*
 * From a sorted set in Redis, the classic delay queue: a member is a job, its score is when it is
 * due. With --hash a member is the name of a field of that hash, which has the body, and is the key
 * of the job here, if it can be one. Members are taken in the order of their scores, 500 at a time;
 * those that are safe here are removed there, unless --keep says otherwise.
 *
 * The few words of RESP that it takes are written here: a client library would be the larger part.
 */

#include "cli/human.h"
#include "cli/import.h"
#include "cli/json.h"
#include "cli/wire.h"
#include "proto/http_args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 500, WORDS = PAGE + 3, TOLD_MAX = 10, KEY_MAX = 255 };

struct word {
    const char *bytes;
    size_t len;
};

/* A string that came. */
struct item {
    char *bytes; /* NULL: nil */
    size_t len;
};

struct source {
    struct tr_import *im;
    struct tr_wire wire;
    const char *key;
    const char *hash;
    const char *topic;
    struct item items[2 * PAGE];
    size_t count;
    struct item bodies[PAGE];
    struct word words[WORDS];
    size_t rows[PAGE]; /* which member each row of the batch is */
    bool safe[PAGE];   /* members that were pushed */
};

/* ---- RESP ---- */

static bool send_words(struct source *s, size_t count)
{
    if (!tr_wire_say(&s->wire, "*%zu\r\n", count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!tr_wire_say(&s->wire, "$%zu\r\n", s->words[i].len) ||
            !tr_wire_send(&s->wire, s->words[i].bytes, s->words[i].len) ||
            !tr_wire_send(&s->wire, "\r\n", 2)) {
            return false;
        }
    }
    return true;
}

static void set_word(struct source *s, size_t i, const char *text)
{
    s->words[i] = (struct word){text, strlen(text)};
}

/* The first line of an answer; an error is told. */
static bool read_head(struct source *s, char line[TR_WIRE_LINE])
{
    if (!tr_wire_line(&s->wire, line)) {
        return false;
    }
    if (line[0] == '-') {
        char text[TR_WIRE_LINE];

        fprintf(stderr, "tarry: Redis says: %s.\n",
                tr_cli_printable(line + 1, strlen(line + 1), text, sizeof text));
        s->wire.broken = true;
        return false;
    }
    return true;
}

static void forget(struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].bytes);
        items[i] = (struct item){0};
    }
}

static bool odd(struct source *s)
{
    if (!s->wire.broken) {
        fputs("tarry: that is not what Redis would answer. Is it one?\n", stderr);
    }
    s->wire.broken = true;
    return false;
}

/* An array of strings, at most `most`. */
static bool read_strings(struct source *s, struct item *items, size_t most, size_t *count)
{
    char line[TR_WIRE_LINE];
    size_t all;

    if (!read_head(s, line)) {
        return false;
    }
    all = line[0] == '*' ? strtoull(line + 1, NULL, 10) : SIZE_MAX;
    if (all > most) {
        return odd(s);
    }
    for (*count = 0; *count < all; (*count)++) {
        struct item *item = &items[*count];
        long long len;
        char end[2];

        if (!read_head(s, line) || line[0] != '$') {
            return odd(s);
        }
        len = strtoll(line + 1, NULL, 10);
        if (len < 0) {
            *item = (struct item){0};
            continue;
        }
        item->len = (size_t)len;
        item->bytes = tr_cli_memory(NULL, item->len + 1);
        item->bytes[item->len] = '\0';
        if (!tr_wire_bytes(&s->wire, item->bytes, item->len) || !tr_wire_bytes(&s->wire, end, 2)) {
            return false;
        }
    }
    return true;
}

static bool read_integer(struct source *s, uint64_t *n)
{
    char line[TR_WIRE_LINE];

    if (!read_head(s, line)) {
        return false;
    }
    *n = strtoull(line + 1, NULL, 10);
    return line[0] == ':' || odd(s);
}

/* ---- a page ---- */

/* Scores below 10^11 are seconds; milliseconds are rounded up, so that none is early. What was due
 * long ago (before 1973, or 0) is due now. */
static bool due_of(const char *score, uint64_t *ms)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(score, &end);
    if (*end != '\0' || errno != 0 || !(value >= 0 && value < 1e17)) {
        return false;
    }
    value *= value < 1e11 ? 1000 : 1;
    *ms = (uint64_t)value;
    *ms += (double)*ms < value;
    *ms = *ms < UINT64_C(100000000000) ? 0 : *ms;
    return true;
}

static bool read_page(struct source *s, uint64_t from)
{
    char first[32];
    char last[32];

    (void)snprintf(first, sizeof first, "%" PRIu64, from);
    (void)snprintf(last, sizeof last, "%" PRIu64, from + PAGE - 1);
    set_word(s, 0, "ZRANGE");
    set_word(s, 1, s->key);
    set_word(s, 2, first);
    set_word(s, 3, last);
    set_word(s, 4, "WITHSCORES");
    if (!send_words(s, 5) ||
        !read_strings(s, s->items, sizeof s->items / sizeof s->items[0], &s->count)) {
        return false;
    }
    return s->count % 2 == 0 || odd(s);
}

/* The members of the page as words behind the first ones. */
static size_t member_words(struct source *s, size_t at, bool safe_only)
{
    for (size_t i = 0; i < s->count; i += 2) {
        if (!safe_only || s->safe[i / 2]) {
            s->words[at++] = (struct word){s->items[i].bytes, s->items[i].len};
        }
    }
    return at;
}

static bool read_bodies(struct source *s)
{
    size_t count = 0;

    set_word(s, 0, "HMGET");
    set_word(s, 1, s->hash);
    return send_words(s, member_words(s, 2, false)) && read_strings(s, s->bodies, PAGE, &count) &&
           (count == s->count / 2 || odd(s));
}

static bool remove_page(struct source *s, const char *command, const char *key)
{
    uint64_t n;
    size_t count;

    set_word(s, 0, command);
    set_word(s, 1, key);
    count = member_words(s, 2, true);
    return count == 2 || (send_words(s, count) && read_integer(s, &n));
}

/* Pushes what was gathered; those that are safe may go there. */
static int flush(struct source *s)
{
    unsigned count = s->im->count;
    int how = tr_import_flush(s->im);

    for (unsigned i = 0; i < count; i++) {
        s->safe[s->rows[i]] = how == TR_CLI_FINE && s->im->ids[i] != 0;
    }
    return how;
}

/* One that is no job stays where it is; the others come. */
static void refuse(struct source *s, size_t i, const char *why)
{
    char member[200];

    if (s->im->refused++ < TOLD_MAX) {
        tr_bar_end(&s->im->bar);
        fprintf(stderr, "tarry: refused: %s: %s.\n",
                tr_cli_printable(s->items[2 * i].bytes, s->items[2 * i].len, member, sizeof member),
                why);
    }
}

/* Can a member be a key? Else its job comes without one. */
static bool is_key(const struct item *member)
{
    return tr_label_ok(member->bytes, member->len, KEY_MAX);
}

/* Pushes the page. Gives how many were refused, by us or the server. */
static int push_page(struct source *s, uint64_t from, uint64_t *refused)
{
    uint64_t before = s->im->refused;
    int how = TR_CLI_FINE;

    memset(s->safe, 0, sizeof s->safe);
    for (size_t i = 0; i < s->count / 2 && how == TR_CLI_FINE; i++) {
        const struct item *body = s->hash != NULL ? &s->bodies[i] : &s->items[2 * i];
        struct tr_import_job job = {
            .topic = s->topic, .body = body->bytes, .len = body->len, .place = from + i + 1};

        if (s->hash != NULL && is_key(&s->items[2 * i])) {
            job.key = s->items[2 * i].bytes;
        }
        if (!due_of(s->items[2 * i + 1].bytes, &job.due_ms)) {
            refuse(s, i, "its score is no due time");
        } else if (body->bytes == NULL) {
            refuse(s, i, "the hash has no field of that name");
        } else {
            s->rows[s->im->count] = i;
            tr_import_add(s->im, &job);
            how = tr_import_full(s->im) ? flush(s) : TR_CLI_FINE;
        }
    }
    how = how == TR_CLI_FINE ? flush(s) : how;
    *refused = s->im->refused - before;
    return how;
}

static int take_page(struct source *s, uint64_t *from)
{
    bool keeps = tr_cli_given(s->im->cli, "--keep") || s->im->dry;
    uint64_t refused = 0;
    int how;

    if (!read_page(s, *from) || (s->hash != NULL && s->count > 0 && !read_bodies(s))) {
        return TR_CLI_FAILED;
    }
    how = push_page(s, *from, &refused);
    if (!keeps && (!remove_page(s, "ZREM", s->key) ||
                   (s->hash != NULL && !remove_page(s, "HDEL", s->hash)))) {
        how = TR_CLI_FAILED;
    }
    *from += keeps ? s->count / 2 : refused;
    return how;
}

/* ---- all of it ---- */

static bool log_in(struct source *s, const struct tr_wire_address *a)
{
    const char *kept = getenv("REDISCLI_AUTH"); /* unlike the URL, ps does not show it */
    const char *password = *a->password != '\0' || kept == NULL ? a->password : kept;
    char line[TR_WIRE_LINE];
    size_t count = 0;

    if (*password == '\0') {
        return true;
    }
    set_word(s, count++, "AUTH");
    if (*a->user != '\0') {
        set_word(s, count++, a->user);
    }
    set_word(s, count++, password);
    return send_words(s, count) && read_head(s, line);
}

static int take_all(struct source *s)
{
    uint64_t from = 0;
    uint64_t all = 0;
    uint64_t done = 0;
    int how;

    set_word(s, 0, "ZCARD");
    set_word(s, 1, s->key);
    if (!send_words(s, 2) || !read_integer(s, &all)) {
        return TR_CLI_FAILED;
    }
    tr_bar_begin(&s->im->bar, "importing");
    do {
        how = take_page(s, &from);
        done += s->count / 2;
        tr_bar_show(&s->im->bar, done, all > done ? all : done);
        forget(s->bodies, PAGE);
        forget(s->items, 2 * PAGE);
    } while (how == TR_CLI_FINE && s->count > 0);
    tr_bar_end(&s->im->bar);
    return how;
}

int tr_import_from_redis(struct tr_import *im, const char *url)
{
    struct source *s = tr_cli_memory(NULL, sizeof *s);
    struct tr_wire_address a = {.port = NULL};
    int how = TR_CLI_FAILED;

    if (!tr_wire_address(&a, url, "redis-zset", "6379") || *a.path == '\0') {
        free(s);
        return tr_cli_usage("import", "\"%s\" is no redis-zset://HOST:PORT/KEY.", url);
    }
    *s = (struct source){
        .im = im,
        .key = a.path,
        .hash = tr_cli_value(im->cli, "--hash"),
        .topic = tr_cli_given(im->cli, "--topic") ? tr_cli_value(im->cli, "--topic") : a.path};
    if (tr_wire_open(&s->wire, a.host, a.port, "Redis")) {
        how = log_in(s, &a) ? take_all(s) : TR_CLI_FAILED;
    }
    tr_wire_close(&s->wire);
    free(s);
    return how;
}
