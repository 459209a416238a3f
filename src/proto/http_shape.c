/*
 * Times are told twice, for people and for programs; milliseconds are rounded down. Absent fields
 * are left out.
 *
 * A lease is its number and a seal over that and the id of the job, 16 hexadecimal digits each: a
 * text, since programs that take it for a number would lose its last digits. Numbers can be
 * guessed, seals cannot: so nobody can finish a job that he was not given.
 */

#include "proto/http_shape.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/text.h"
#include "rules/backoff.h"
#include "rules/moment.h"
#include "rules/policy.h"

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
    tr_json_member(j, name, n);
}

const char *tr_shape_why(unsigned why)
{
    static const char *const names[] = {
        [TR_WHY_ACKED] = "acked",     [TR_WHY_CANCELLED] = "cancelled",
        [TR_WHY_EXPIRED] = "expired", [TR_WHY_BURIED] = "buried",
        [TR_WHY_RETRIES] = "retries", [TR_WHY_DROPPED] = "dropped",
        [TR_WHY_DAMAGED] = "damaged",
    };

    return why < sizeof names / sizeof names[0] ? names[why] : NULL;
}

static void optional_text(struct tr_json *j, const char *name, const char *text, size_t len)
{
    if (text != NULL && len > 0) {
        tr_json_name(j, name);
        tr_json_string(j, text, len);
    }
}

/* Whose it is, and until when. */
static void lease(struct tr_json *j, const struct tr_job_view *job, const uint8_t *key)
{
    char text[TR_LEASE_TEXT];

    tr_lease_print(text, key, job->id, job->lease);
    tr_json_name(j, "lease");
    tr_json_plain(j, text, TR_LEASE_TEXT - 1);
    number(j, "lease_ms", job->left_us / 1000);
}

int64_t tr_shape_retries(const struct tr_job_view *job)
{
    return job->has_retries ? job->retries : tr_policy_retries(job->beanstalk);
}

/* As the push and its topic's policy fixed it; a backoff that is HTTP's default is not said. */
static void policy(struct tr_json *j, const struct tr_job_view *job)
{
    char text[TR_BACKOFF_TEXT];

    number(j, "ttr_ms", job->ttr_us / 1000);
    if (job->ttl_us != 0) {
        number(j, "ttl_ms", job->ttl_us / 1000);
    }
    tr_json_name(j, "retries");
    tr_json_signed(j, tr_shape_retries(job));
    if (job->backoff != NULL) {
        tr_backoff_print(text, job->backoff);
        tr_json_name(j, "backoff");
        tr_json_text(j, text);
    } else if (job->beanstalk) {
        tr_json_name(j, "backoff");
        tr_json_text(j, "0s");
    }
}

static void death(struct tr_json *j, const struct tr_job_view *job)
{
    const char *why = tr_shape_why(job->dead_why);

    if (job->state == TR_DEAD && why != NULL) {
        tr_json_name(j, "reason");
        tr_json_text(j, why);
    }
    if (job->state == TR_DEAD && job->dead_at_us != 0) {
        number(j, "dead_ms", job->dead_at_us / 1000);
    }
}

void tr_shape_job(struct tr_json *j, const struct tr_job_view *job, struct tr_shape what)
{
    const char *state = tr_shape_state(job->state);
    char text[TR_MOMENT_TEXT];

    tr_json_name(j, "id");
    tr_json_id(j, job->id);
    if (what.lease_key != NULL) {
        lease(j, job, what.lease_key);
    }
    if (job->topic_name_len > 0) {
        tr_json_name(j, "topic");
        tr_json_plain(j, job->topic_name, job->topic_name_len);
    }
    optional_text(j, "key", job->key, job->key_len);
    optional_text(j, "tag", job->tag, job->tag_len);
    tr_json_name(j, "state");
    tr_json_plain(j, state, strlen(state));
    number(j, "priority", job->priority);
    tr_json_name(j, "due");
    tr_json_plain(j, text, tr_moment_print(text, (int64_t)job->due_us));
    number(j, "due_ms", job->due_us / 1000);
    number(j, "created_ms", job->created_us / 1000);
    number(j, "attempts", job->reserves);
    policy(j, job);
    if (job->state == TR_READY || job->state == TR_RESERVED) {
        number(j, "late_ms", job->late_us / 1000);
    }
    death(j, job);
    if (job->damaged) {
        tr_json_name(j, "damaged");
        tr_json_bool(j, true);
    }
    if (what.body) {
        tr_json_body(j, job->body, job->body_len);
    }
}

/* Says which state is in the way. */
static const char *state_message(enum tr_job_state state)
{
    switch (state) {
    case TR_DELAYED:
        return "the job is delayed: it is not due yet";
    case TR_READY:
        return "the job is ready: it waits for a consumer";
    case TR_RESERVED:
        return "the job is reserved: a consumer has it";
    case TR_DEAD:
        return "the job is dead: kick brings it back";
    }
    return "the job is in another state";
}

struct tr_http_error tr_shape_error(int err, enum tr_job_state state)
{
    static const struct {
        int err;
        struct tr_http_error error;
    } replies[] = {
        {TARRY_ENOTFOUND, {.status = 404, .code = "not_found", .message = "there is no such job"}},
        {TARRY_ESTATE, {.status = 409, .code = "wrong_state"}},
        {TARRY_EEXISTS,
         {.status = 409, .code = "key_exists", .message = "there is a job with this key"}},
        {TARRY_EPAUSED,
         {.status = 409,
          .code = "paused",
          .message = "the topic takes no jobs: its policy has paused = in or both"}},
        {TARRY_EFULL,
         {.status = 429, .code = "limit", .message = "a limit is reached: try again later"}},
        {TARRY_EQUOTA,
         {.status = 429,
          .code = "quota",
          .message = "the topic has as much as its policy allows: max_jobs or max_bytes"}},
        {TARRY_ENOMEM,
         {.status = 503,
          .code = "no_memory",
          .message = "memory.limit is reached: try again when jobs are gone, or raise it"}},
        {TARRY_EDRAINING,
         {.status = 503, .code = "draining", .message = "no new jobs are taken: use another node"}},
        {TARRY_ENOSPC,
         {.status = 507, .code = "disk_full", .message = "the disk is nearly full: free space"}},
        {TARRY_EINVAL,
         {.status = 400, .code = "bad_request", .message = "the request makes no sense"}},
        {TARRY_EUNSUPPORTED,
         {.status = 501,
          .code = "unsupported",
          .message = "the engine of this server cannot do that"}},
        {TARRY_EAWAY,
         {.status = 503,
          .code = "away",
          .message = "the servers that keep the jobs cannot be reached, nothing was done: try "
                     "again later (GET /readyz)"}},
        {TARRY_EUNSURE,
         {.status = 503,
          .code = "unsure",
          .message = "no answer came from the servers that keep the jobs: it is not known whether "
                     "this was done. Look, or repeat it if that does no harm"}},
        {TARRY_EREADONLY,
         {.status = 501,
          .code = "read_only",
          .message = "this server only shows its store (--read-only): ask the one that writes"}},
        {TARRY_EDAMAGED,
         {.status = 500,
          .code = "damaged",
          .message = "what is stored of this job cannot be read any more: see the server's log"}},
    };
    struct tr_http_error e = {
        .status = 500, .code = "failed", .message = "the store has failed: see the server's log"};

    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        if (replies[i].err == err) {
            e = replies[i].error;
        }
    }
    if (err == TARRY_ESTATE) {
        e.message = state_message(state);
    }
    e.state = e.status == 409 ? tr_shape_state(state) : NULL;
    return e;
}

void tr_shape_explain(struct tr_http_error *e, const struct tr_req *r)
{
    int err = r->out.status;

    if (r->out.why == NULL) {
        return;
    }
    if (err == TARRY_EUNSUPPORTED || err == TARRY_EAWAY || err == TARRY_EUNSURE ||
        err == TARRY_ENOSPC || err == TARRY_ESTATE || err == TARRY_EFULL || err == TARRY_EQUOTA) {
        e->message = r->out.why;
    } else if (err == TARRY_EINVAL) { /* well said, but it cannot be */
        *e = (struct tr_http_error){.status = 422, .code = "unprocessable", .message = r->out.why};
    }
}

/* ---- leases ---- */

static uint64_t seal(const uint8_t key[TR_SIPHASH_KEY], uint64_t id, uint64_t number_of_lease)
{
    uint8_t bytes[16];

    tr_put_le(bytes, id, 8);
    tr_put_le(bytes + 8, number_of_lease, 8);
    return tr_siphash64(key, bytes, sizeof bytes);
}

static void print_hex(char out[16], uint64_t n)
{
    for (size_t i = 16; i > 0; i--, n >>= 4) {
        out[i - 1] = "0123456789abcdef"[n & 15];
    }
}

void tr_lease_print(char out[TR_LEASE_TEXT], const uint8_t key[TR_SIPHASH_KEY], uint64_t id,
                    uint64_t lease_number)
{
    print_hex(out, lease_number);
    print_hex(out + 16, seal(key, id, lease_number));
    out[32] = '\0';
}

/* 16 small hexadecimal digits. */
static bool read_hex(const char *text, uint64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < 16; i++) {
        char c = text[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        *n = *n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

uint64_t tr_lease_read(struct tr_http_text text, const uint8_t key[TR_SIPHASH_KEY], uint64_t id)
{
    uint64_t number_of_lease;
    uint64_t sealed;

    if (text.len != TR_LEASE_TEXT - 1 || !read_hex(text.at, &number_of_lease) ||
        !read_hex(text.at + 16, &sealed)) {
        return 0;
    }
    return seal(key, id, number_of_lease) == sealed ? number_of_lease : 0;
}
