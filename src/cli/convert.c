/* One rule for all: a member is copied as it stands, unless only its name in milliseconds is known.
 */

#include "cli/convert.h"

#include "base/text.h"
#include "cli/json.h"

#include <inttypes.h>
#include <string.h>

const char *const tr_convert_job[] = {"topic", "key",     "tag",     "at",   "priority",    "ttr",
                                      "ttl",   "retries", "backoff", "body", "body_base64", NULL};
const char *const tr_convert_policy[] = {
    "ttr",       "retries",   "backoff",  "ttl",       "rate",   "burst",   "max_jobs",
    "max_bytes", "dead_keep", "dead_max", "in_flight", "jitter", "history", NULL};
const char *const tr_convert_schedule[] = {"topic",  "cron", "tz",          "every",    "after",
                                           "start",  "end",  "limit",       "jitter",   "overlap",
                                           "missed", "body", "body_base64", "priority", "ttr",
                                           "ttl",    "tag",  "retries",     "backoff",  NULL};

/* Until when is told rounded down, and as a text, too. */
void tr_convert_paused(struct tr_json *j, const struct tr_json_value *policy)
{
    struct tr_json_value v;
    struct tr_json_value what;
    uint64_t until_ms;

    if (!tr_cli_member(policy, "paused", &v) || tr_json_says(&v, "no")) {
        return;
    }
    tr_json_name(j, "paused");
    if (v.kind == TR_JSON_OBJECT_KIND && tr_cli_member(&v, "what", &what) &&
        tr_cli_number(&v, "until_ms", &until_ms)) {
        tr_json_open(j, '{');
        tr_json_name(j, "what");
        tr_json_raw(j, what.text, what.len);
        tr_json_name(j, "until");
        tr_json_number(j, until_ms + 1);
        tr_json_close(j, '}');
    } else {
        tr_json_raw(j, v.text, v.len);
    }
}

/* Secrets are told as their number, or as stars. */
static bool has_secrets(const struct tr_json_value *deliver)
{
    struct tr_json_value v;

    return tr_cli_member(deliver, "secret_count", &v) || tr_cli_member(deliver, "headers", &v) ||
           memmem(deliver->text, deliver->len, "***", 3) != NULL;
}

bool tr_convert_deliver(struct tr_json *j, const struct tr_json_value *policy)
{
    static const char *const names[] = {
        "type",    "url",   "success", "timeout", "concurrency", "exchange", "routing_key",
        "brokers", "topic", "key",     "list",    "stream",      NULL};
    struct tr_json_value v;

    if (!tr_cli_member(policy, "deliver", &v) || v.kind != TR_JSON_OBJECT_KIND) {
        return true;
    }
    if (has_secrets(&v)) {
        return false;
    }
    tr_json_name(j, "deliver");
    tr_json_open(j, '{');
    tr_convert(j, &v, names);
    tr_json_close(j, '}');
    return true;
}

void tr_convert(struct tr_json *j, const struct tr_json_value *object, const char *const *names)
{
    for (; *names != NULL; names++) {
        struct tr_json_value v;
        char in_ms[64];
        char text[32];
        uint64_t ms;

        tr_text(in_ms, sizeof in_ms, "%s_ms", strcmp(*names, "at") == 0 ? "due" : *names);
        if (tr_cli_member(object, *names, &v)) {
            if (v.kind != TR_JSON_NULL_KIND) {
                tr_json_name(j, *names);
                tr_json_raw(j, v.text, v.len);
            }
        } else if (tr_cli_number(object, in_ms, &ms)) {
            tr_json_name(j, *names);
            if (strcmp(*names, "at") == 0) {
                tr_json_number(j, ms);
            } else {
                tr_text(text, sizeof text, "%" PRIu64 "ms", ms);
                tr_json_text(j, text);
            }
        }
    }
}
