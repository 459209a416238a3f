/*
 * Times are told twice, for people and for programs; milliseconds are rounded down. Absent fields
 * are left out. A lease is 16 hexadecimal digits: a text, since programs that take it for a number
 * would lose its last digits.
 */

#include "proto/http_shape.h"

#include "base/check.h"
#include "base/err.h"
#include "base/text.h"
#include "rules/moment.h"

#include <string.h>

const char *tr_shape_state(enum tr_job_state state)
{
    switch (state) {
    case TR_DELAYED:
        return "delayed";
    case TR_READY:
        return "ready";
    case TR_RESERVED:
        return "reserved";
    case TR_DEAD:
        return "dead";
    }
    return NULL;
}

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

void tr_shape_job(struct tr_json *j, const struct tr_job_view *job, struct tr_http_text topic,
                  unsigned what)
{
    char text[TR_MOMENT_TEXT];

    tr_json_name(j, "id");
    tr_json_id(j, job->id);
    if ((what & TR_SHAPE_LEASE) != 0) {
        tr_lease_print(text, job->lease);
        tr_json_name(j, "lease");
        tr_json_text(j, text);
    }
    tr_json_name(j, "topic");
    tr_json_string(j, topic.at, topic.len);
    if (job->key != NULL) {
        tr_json_name(j, "key");
        tr_json_string(j, job->key, job->key_len);
    }
    tr_json_name(j, "state");
    tr_json_text(j, tr_shape_state(job->state));
    number(j, "priority", job->priority);
    (void)tr_moment_print(text, (int64_t)job->due_us);
    tr_json_name(j, "due");
    tr_json_text(j, text);
    number(j, "due_ms", job->due_us / 1000);
    number(j, "created_ms", job->created_us / 1000);
    number(j, "attempts", job->reserves);
    number(j, "ttr_ms", job->ttr_us / 1000);
    if (job->state == TR_READY || job->state == TR_RESERVED) {
        number(j, "late_ms", job->late_us / 1000);
    }
    if ((what & TR_SHAPE_BODY) != 0) {
        tr_json_body(j, job->body, job->body_len);
    }
}

struct tr_http_error tr_shape_error(int err, enum tr_job_state state)
{
    static const struct {
        int err;
        struct tr_http_error error;
    } replies[] = {
        {TARRY_ENOTFOUND, {.status = 404, .code = "not_found", .message = "there is no such job"}},
        {TARRY_ESTATE,
         {.status = 409, .code = "wrong_state", .message = "the job is in another state"}},
        {TARRY_EEXISTS,
         {.status = 409, .code = "key_exists", .message = "there is a job with this key"}},
        {TARRY_EFULL,
         {.status = 429, .code = "limit", .message = "a limit is reached: try again later"}},
        {TARRY_ENOMEM,
         {.status = 503, .code = "no_memory", .message = "the memory limit is reached: try again"}},
        {TARRY_EDRAINING,
         {.status = 503, .code = "draining", .message = "no new jobs are taken: use another node"}},
        {TARRY_ENOSPC,
         {.status = 507, .code = "disk_full", .message = "the disk is nearly full: free space"}},
        {TARRY_EINVAL,
         {.status = 400, .code = "bad_request", .message = "the request makes no sense"}},
    };
    struct tr_http_error e = {
        .status = 500, .code = "failed", .message = "the store has failed: see the server's log"};

    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        if (replies[i].err == err) {
            e = replies[i].error;
        }
    }
    e.state = e.status == 409 ? tr_shape_state(state) : NULL;
    return e;
}

/* ---- leases ---- */

void tr_lease_print(char out[TR_LEASE_TEXT], uint64_t lease)
{
    tr_text(out, TR_LEASE_TEXT, "%016llx", (unsigned long long)lease);
}

bool tr_lease_read(struct tr_http_text text, uint64_t *lease)
{
    uint64_t n = 0;

    if (text.len != TR_LEASE_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *lease = n;
    return true;
}
