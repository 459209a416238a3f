/*
 * Arguments: found by name among those allowed, read by kind, checked against their row.
 *
 *     ?delay=1.5&priority=7                query: every value is text
 *     {"delay":"1.5","priority":7}         JSON: a number where it is a number, a string where it
 *                                          is text; durations and times may be either
 *
 * So a JSON value becomes the text that a query would have, and one function reads both. A query
 * has no null; in JSON it means that a member is to be as if it had never been given, which is for
 * the caller to allow (`cleared`).
 *
 * Errors name the field: "delay is no duration: write 250ms, ...".
 */

#include "proto/http_args.h"

#include "base/base64.h"
#include "base/err.h"
#include "base/name.h"
#include "base/text.h"
#include "base/utf8.h"
#include "port/request.h"
#include "proto/json_read.h"
#include "rules/backoff.h"
#include "rules/bucket.h"
#include "rules/decimal.h"
#include "rules/duration.h"
#include "rules/moment.h"

#include <assert.h>
#include <string.h>

static_assert(TR_ARG_COUNT <= 64, "what is given are bits of one word");
static_assert(TR_ARGS_LONG == TR_DELAY_MAX_US, "no delay is longer than the engine takes");
static_assert(TR_ARGS_RATE_MAX == TR_BUCKET_RATE_MAX, "no rate is more than a bucket gives");

const struct tr_arg_about tr_arg_table[TR_ARG_COUNT] = {
#define X(name, called, kind, from, to, words, about)                                              \
    [TR_ARG_##name] = {called, TR_KIND_##kind, from, to, words, about},
    TR_HTTP_ARGS(X)
#undef X
};

/* Of each only one may be given. */
static const uint64_t exclusive[] = {
    TR_ARG_BIT(DELAY) | TR_ARG_BIT(AT),
    TR_ARG_BIT(BODY) | TR_ARG_BIT(BODY_BASE64),
    TR_ARG_BIT(BY) | TR_ARG_BIT(ADVANCE) | TR_ARG_BIT(TO),
    TR_ARG_BIT(CRON) | TR_ARG_BIT(EVERY) | TR_ARG_BIT(AFTER),
    TR_ARG_BIT(LEASE) | TR_ARG_BIT(FORCE),
};

void tr_args_init(struct tr_args *a)
{
    a->given = 0;
    a->cleared = 0;
}

/* ---- errors ---- */

/* "field why". */
static int refuse(struct tr_args *a, struct tr_http_error *e, struct tr_http_text field,
                  const char *why)
{
    size_t len = field.len < sizeof a->field - 1 ? field.len : sizeof a->field - 1;

    if (len > 0) {
        memcpy(a->field, field.at, len);
    }
    a->field[len] = '\0';
    tr_text(a->message, sizeof a->message, "%s %s", a->field, why);
    *e = (struct tr_http_error){
        .status = 400, .code = "bad_request", .message = a->message, .field = a->field};
    return TARRY_EINVAL;
}

static struct tr_http_text name_of(enum tr_arg arg)
{
    const char *called = tr_arg_table[arg].called;

    return (struct tr_http_text){called, strlen(called)};
}

/* ---- reading by kind ---- */

bool tr_label_ok(const char *text, size_t len, size_t most)
{
    const uint8_t *bytes = (const uint8_t *)text;

    if (len < 1 || len > most || !tr_utf8_ok(bytes, len)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        bool c1 = bytes[i] == 0xc2 && bytes[i + 1] < 0xa0; /* U+0080 to U+009F */

        if (bytes[i] < 0x20 || bytes[i] == 0x7f || c1) {
            return false;
        }
    }
    return true;
}

bool tr_id_read(const char *text, size_t len, uint64_t *id)
{
    uint64_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        n = n >> 53 > 0 ? n : n * 10 + (uint64_t)(text[i] - '0');
    }
    *id = n >> 53 > 0 ? 0 : n;
    return len > 0;
}

static bool is(struct tr_http_text text, const char *word, size_t len)
{
    return text.len == len && memcmp(text.at, word, len) == 0;
}

/* Which of the words it is; -1: none. */
static int64_t choose(struct tr_http_text text, const char *words)
{
    for (int64_t i = 0;; i++) {
        const char *end = strchr(words, '|');
        size_t len = end != NULL ? (size_t)(end - words) : strlen(words);

        if (text.len > 0 && is(text, words, len)) {
            return i;
        }
        if (end == NULL) {
            return -1;
        }
        words = end + 1;
    }
}

static bool topics_ok(struct tr_http_text text)
{
    while (text.len > 0) {
        const char *comma = memchr(text.at, ',', text.len);
        size_t len = comma != NULL ? (size_t)(comma - text.at) : text.len;

        if (!tr_name_ok(text.at, len)) {
            return false;
        }
        if (comma == NULL) {
            return true;
        }
        text.at += len + 1;
        text.len -= len + 1;
    }
    return false;
}

/* A whole number with or without a minus. */
static bool read_whole(struct tr_http_text text, int64_t *number)
{
    bool minus = text.len > 0 && text.at[0] == '-';
    uint64_t n;

    for (size_t i = minus; i < text.len; i++) {
        if (text.at[i] == '.') {
            return false;
        }
    }
    if (!tr_decimal_read(text.at + minus, text.len - minus, 0, INT64_MAX, &n)) {
        return false;
    }
    *number = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

static const char *read_number(const struct tr_arg_about *about, struct tr_http_text text,
                               struct tr_arg_value *v)
{
    uint64_t wide = 0;
    const char *why = NULL;
    int err = TARRY_OK;

    switch (about->kind) {
    case TR_KIND_DURATION:
        err = tr_duration_read(text.at, text.len, &wide, &why);
        v->number = (int64_t)wide;
        break;
    case TR_KIND_MOVE:
        err = tr_duration_read_signed(text.at, text.len, &v->number, &why);
        break;
    case TR_KIND_MOMENT:
        err = tr_moment_read(text.at, text.len, &v->number, &why);
        break;
    case TR_KIND_RATE:
        if (!tr_decimal_read(text.at, text.len, 3, TR_ARGS_RATE_MAX, &wide)) {
            return "is no rate: write how many a second, with up to three places such as 0.5";
        }
        v->number = (int64_t)wide;
        break;
    default:
        if (!read_whole(text, &v->number)) {
            return "is no whole number";
        }
    }
    return err != TARRY_OK ? why : NULL;
}

/* NULL: fine; or why not. */
static const char *read_text(const struct tr_arg_about *about, struct tr_http_text text,
                             struct tr_arg_value *v)
{
    struct tr_backoff backoff;
    const char *why = NULL;
    uint64_t id;

    switch (about->kind) {
    case TR_KIND_BACKOFF:
        return tr_backoff_read(text.at, text.len, &backoff, &why) == TARRY_OK ? NULL : why;
    case TR_KIND_TOPIC:
        return tr_name_ok(text.at, text.len)
                   ? NULL
                   : "is no name of a topic: 1 to 200 of A-Za-z0-9-+/;.$_() without - in front";
    case TR_KIND_TOPICS:
        return topics_ok(text) ? NULL : "has to be names of topics with commas between them";
    case TR_KIND_LABEL:
        return tr_label_ok(text.at, text.len, (size_t)about->to)
                   ? NULL
                   : "is empty, too long, not UTF-8 or has control characters";
    case TR_KIND_ID:
        if (!tr_id_read(text.at, text.len, &id)) {
            return "is no number of a job";
        }
        v->number = (int64_t)id;
        return NULL;
    default:
        return NULL;
    }
}

/* Of a choice, or of what is on or off. */
static const char *read_word(struct tr_args *a, const struct tr_arg_about *about,
                             struct tr_http_text text, struct tr_arg_value *v)
{
    const char *words = about->kind == TR_KIND_BOOL ? "false|true" : about->words;

    v->number = choose(text, words);
    if (v->number >= 0) {
        return NULL;
    }
    tr_text(a->message, sizeof a->message, "has to be one of %s", words);
    return a->message;
}

enum { BOUND_TEXT = 1 + TR_DURATION_TEXT }; /* a sign and the longest of them */

static_assert((int)TR_DURATION_TEXT >= (int)TR_DECIMAL_TEXT, "room for rates");
static_assert((int)TR_DURATION_TEXT >= (int)TR_MOMENT_TEXT, "room for moments");

/* A bound as it would be written. */
static void print_bound(char out[BOUND_TEXT], enum tr_arg_kind kind, int64_t bound)
{
    switch (kind) {
    case TR_KIND_DURATION:
    case TR_KIND_MOVE:
        out[0] = '-';
        tr_duration_print(out + (bound < 0), (uint64_t)(bound < 0 ? -bound : bound));
        break;
    case TR_KIND_MOMENT:
        (void)tr_moment_print(out, bound);
        break;
    case TR_KIND_RATE:
        tr_decimal_print(out, (uint64_t)bound, 3);
        break;
    default:
        tr_text(out, BOUND_TEXT, "%lld", (long long)bound);
    }
}

/* NULL: fine; or why not. */
static const char *check_range(struct tr_args *a, const struct tr_arg_about *about, int64_t number)
{
    char bound[BOUND_TEXT];

    if (number < about->from) {
        print_bound(bound, about->kind, about->from);
        tr_text(a->message, sizeof a->message, "is too small: it has to be at least %s", bound);
        return a->message;
    }
    if (number > about->to) {
        print_bound(bound, about->kind, about->to);
        tr_text(a->message, sizeof a->message, "is too large: it can be at most %s", bound);
        return a->message;
    }
    return NULL;
}

static const char *read_value(struct tr_args *a, const struct tr_arg_about *about,
                              struct tr_http_text text, struct tr_arg_value *v)
{
    const char *why;

    *v = (struct tr_arg_value){.text = text};
    switch (about->kind) {
    case TR_KIND_DURATION:
    case TR_KIND_MOVE:
    case TR_KIND_MOMENT:
    case TR_KIND_NUMBER:
    case TR_KIND_RATE:
        why = read_number(about, text, v);
        return why != NULL ? why : check_range(a, about, v->number);
    case TR_KIND_BOOL:
    case TR_KIND_CHOICE:
        return read_word(a, about, text, v);
    default:
        return read_text(about, text, v);
    }
}

/* ---- from where ---- */

/* Which of those allowed is called so; TR_ARG_COUNT: none. */
static enum tr_arg find(uint64_t allowed, struct tr_http_text name)
{
    for (uint64_t left = allowed; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctzll(left);
        const char *called = tr_arg_table[i].called;

        if (is(name, called, strlen(called))) {
            return (enum tr_arg)i;
        }
    }
    return TR_ARG_COUNT;
}

/* Finds it and notes that it was there. */
static int meet(struct tr_args *a, uint64_t allowed, struct tr_http_text name, enum tr_arg *arg,
                struct tr_http_error *e)
{
    *arg = find(allowed, name);
    if (*arg == TR_ARG_COUNT) {
        return refuse(a, e, name, "is not known here");
    }
    if (((a->given | a->cleared) >> *arg & 1) != 0) {
        return refuse(a, e, name, "is given twice");
    }
    return TARRY_OK;
}

static int set(struct tr_args *a, enum tr_arg arg, struct tr_http_text text,
               struct tr_http_error *e)
{
    struct tr_arg_value v;
    const char *why = read_value(a, &tr_arg_table[arg], text, &v);
    char kept[sizeof a->message];

    if (why != NULL) {
        tr_text(kept, sizeof kept, "%s", why); /* it may be in a->message */
        return refuse(a, e, name_of(arg), kept);
    }
    a->values[arg] = v;
    a->given |= UINT64_C(1) << arg;
    return TARRY_OK;
}

int tr_args_query(struct tr_args *a, uint64_t allowed, const struct tr_http_request *request,
                  struct tr_http_error *e)
{
    for (unsigned i = 0; i < request->param_count; i++) {
        const struct tr_http_param *p = &request->params[i];
        enum tr_arg arg;
        int err = meet(a, allowed, p->name, &arg, e);

        if (err == TARRY_OK) {
            err = set(a, arg, p->value, e);
        }
        if (err != TARRY_OK) {
            return err;
        }
    }
    return TARRY_OK;
}

/* True when values of this kind may be written as that. */
static bool kind_fits(enum tr_arg_kind kind, enum tr_json_kind json)
{
    switch (kind) {
    case TR_KIND_NUMBER:
    case TR_KIND_RATE:
        return json == TR_JSON_NUMBER_KIND;
    case TR_KIND_DURATION:
    case TR_KIND_MOVE:
    case TR_KIND_MOMENT:
    case TR_KIND_ID:
        return json == TR_JSON_NUMBER_KIND || json == TR_JSON_STRING_KIND;
    case TR_KIND_BOOL:
        return json == TR_JSON_TRUE_KIND || json == TR_JSON_FALSE_KIND;
    case TR_KIND_BODY:
    case TR_KIND_JSON:
        return true;
    default:
        return json == TR_JSON_STRING_KIND;
    }
}

/* A number means the same however it is written. */
static int set_number(struct tr_args *a, enum tr_arg arg, const struct tr_json_value *v,
                      struct tr_http_error *e)
{
    char plain[TR_JSON_DECIMAL_MAX];
    size_t len = tr_json_decimal(v, plain);
    struct tr_http_text said = {v->text, v->len};
    int err = set(a, arg, len > 0 ? (struct tr_http_text){plain, len} : said, e);

    if (err == TARRY_OK) {
        a->values[arg].text = said;
    }
    return err;
}

static int set_json(struct tr_args *a, enum tr_arg arg, const struct tr_json_value *v,
                    struct tr_http_error *e)
{
    enum tr_arg_kind kind = tr_arg_table[arg].kind;
    struct tr_http_text text = {v->text, v->len};
    char *place = (char *)(uintptr_t)v->text; /* tr_args_json was given it to alter */

    if (v->kind == TR_JSON_NULL_KIND && kind != TR_KIND_BODY) {
        a->cleared |= UINT64_C(1) << arg;
        return TARRY_OK;
    }
    if (!kind_fits(kind, v->kind)) {
        return refuse(a, e, name_of(arg), "has the wrong type");
    }
    if (v->kind == TR_JSON_NUMBER_KIND && kind != TR_KIND_BODY && kind != TR_KIND_JSON) {
        return set_number(a, arg, v, e);
    }
    if (v->kind == TR_JSON_STRING_KIND && kind != TR_KIND_JSON) {
        text.len = tr_json_unescape(v, place);
    }
    if (kind == TR_KIND_BASE64 && !tr_base64_read((uint8_t *)place, &text.len, text.at, text.len)) {
        return refuse(a, e, name_of(arg), "is not base64");
    }
    return set(a, arg, text, e);
}

int tr_args_json(struct tr_args *a, uint64_t allowed, char *text, size_t len,
                 struct tr_http_error *e)
{
    struct tr_json_value object = tr_json_value_of(text, len);
    struct tr_json_walk w;
    struct tr_json_value name;
    struct tr_json_value v;

    if (object.kind != TR_JSON_OBJECT_KIND) {
        *e = (struct tr_http_error){
            .status = 400, .code = "bad_request", .message = "a JSON object is wanted here"};
        return TARRY_EINVAL;
    }
    tr_json_walk_init(&w, &object);
    while (tr_json_walk_member(&w, &name, &v)) {
        char *place = (char *)(uintptr_t)name.text;
        struct tr_http_text called = {place, tr_json_unescape(&name, place)};
        enum tr_arg arg;
        int err = meet(a, allowed, called, &arg, e);

        if (err == TARRY_OK) {
            err = set_json(a, arg, &v, e);
        }
        if (err != TARRY_OK) {
            return err;
        }
    }
    return TARRY_OK;
}

/* The first of a set that is not empty. */
static enum tr_arg first_of(uint64_t set_of_args)
{
    unsigned i = 0;

    while ((set_of_args >> i & 1) == 0) {
        i++;
    }
    return (enum tr_arg)i;
}

int tr_args_check(struct tr_args *a, uint64_t needed, struct tr_http_error *e)
{
    uint64_t missing = needed & ~a->given;

    if (missing != 0) {
        return refuse(a, e, name_of(first_of(missing)), "is missing");
    }
    for (size_t i = 0; i < sizeof exclusive / sizeof exclusive[0]; i++) {
        uint64_t both = exclusive[i] & a->given;

        if ((both & (both - 1)) != 0) { /* more than one bit */
            char why[64];

            tr_text(why, sizeof why, "and %s cannot be given together",
                    name_of(first_of(both & (both - 1))).at);
            return refuse(a, e, name_of(first_of(both)), why);
        }
    }
    return TARRY_OK;
}
