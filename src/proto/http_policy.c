/*
 * Policies as HTTP writes them: read from the arguments of a request, and told in a topic.
 *
 * PUT sets all fields: what is not given, or null, has its default. PATCH changes what is given;
 * null is the default again.
 */

#include "base/err.h"
#include "proto/http_inner.h"
#include "proto/json_read.h"
#include "rules/bucket.h"
#include "rules/moment.h"

#include <string.h>

static const struct {
    enum tr_arg arg;
    enum tr_policy_field field;
} fields[] = {
    {TR_ARG_TTR, TR_POLICY_TTR},
    {TR_ARG_RETRIES, TR_POLICY_RETRIES},
    {TR_ARG_BACKOFF, TR_POLICY_BACKOFF},
    {TR_ARG_TTL, TR_POLICY_TTL},
    {TR_ARG_RATE, TR_POLICY_RATE},
    {TR_ARG_BURST, TR_POLICY_BURST},
    {TR_ARG_MAX_JOBS, TR_POLICY_MAX_JOBS},
    {TR_ARG_MAX_BYTES, TR_POLICY_MAX_BYTES},
    {TR_ARG_DEAD_KEEP, TR_POLICY_DEAD_KEEP},
    {TR_ARG_DEAD_MAX, TR_POLICY_DEAD_MAX},
    {TR_ARG_IN_FLIGHT, TR_POLICY_IN_FLIGHT},
    {TR_ARG_JITTER, TR_POLICY_JITTER},
    {TR_ARG_HISTORY, TR_POLICY_HISTORY},
    {TR_ARG_SPREAD, TR_POLICY_SPREAD},
    {TR_ARG_DELIVER, TR_POLICY_DELIVER},
    {TR_ARG_PAUSED, TR_POLICY_PAUSED},
};

/* ---- paused ---- */

static const char *const pauses[] = {"no", "in", "out", "both"}; /* by enum tr_paused */

/* "no", "in", "out", "both". */
static bool read_what(const struct tr_json_value *v, unsigned *paused)
{
    for (unsigned i = 0; v->kind == TR_JSON_STRING_KIND && i < 4; i++) {
        if (tr_json_says(v, pauses[i])) {
            *paused = i;
            return true;
        }
    }
    return false;
}

static bool read_until(const struct tr_json_value *v, uint64_t *until_us)
{
    const char *text = v->text;
    size_t len = v->len;
    const char *why;
    int64_t us;

    if (v->kind == TR_JSON_STRING_KIND) { /* a moment has nothing that is escaped */
        text++;
        len -= 2;
    } else if (v->kind != TR_JSON_NUMBER_KIND) {
        return false;
    }
    if (tr_moment_read(text, len, &us, &why) != TARRY_OK || us <= 0) {
        return false;
    }
    *until_us = (uint64_t)us;
    return true;
}

/* {"what":"out","until":"2027-01-01T00:00:00Z"} */
static bool read_object(const struct tr_json_value *v, struct tr_policy *p)
{
    struct tr_json_walk walk;
    struct tr_json_value name;
    struct tr_json_value value;
    bool what = false;
    bool until = false;

    tr_json_walk_init(&walk, v);
    while (tr_json_walk_member(&walk, &name, &value)) {
        bool is_what = tr_json_says(&name, "what");
        bool again = is_what ? what : until;

        if (again || (!is_what && !tr_json_says(&name, "until")) ||
            !(is_what ? read_what(&value, &p->paused) : read_until(&value, &p->paused_until_us))) {
            return false;
        }
        what |= is_what;
        until |= !is_what;
    }
    return what;
}

static bool read_paused(struct tr_http_text text, struct tr_policy *p)
{
    struct tr_json_value v = tr_json_value_of(text.at, text.len);

    return v.kind == TR_JSON_OBJECT_KIND ? read_object(&v, p) : read_what(&v, &p->paused);
}

/* ---- reading ---- */

static void set_field(struct tr_policy *p, enum tr_policy_field field, const struct tr_arg_value *v)
{
    uint64_t n = (uint64_t)v->number;
    const char *why;

    switch (field) {
    case TR_POLICY_TTR:
        p->ttr_us = n;
        break;
    case TR_POLICY_RETRIES:
        p->retries = v->number;
        break;
    case TR_POLICY_BACKOFF: /* it was read before, as a check */
        (void)!tr_backoff_read(v->text.at, v->text.len, &p->backoff, &why);
        break;
    case TR_POLICY_TTL:
        p->ttl_us = n;
        break;
    case TR_POLICY_RATE:
        p->rate_milli = n;
        break;
    case TR_POLICY_BURST:
        p->burst = n;
        break;
    case TR_POLICY_MAX_JOBS:
        p->max_jobs = n;
        break;
    case TR_POLICY_MAX_BYTES:
        p->max_bytes = n;
        break;
    case TR_POLICY_DEAD_KEEP:
        p->dead_keep_us = n;
        break;
    case TR_POLICY_DEAD_MAX:
        p->dead_max = n;
        break;
    case TR_POLICY_IN_FLIGHT:
        p->in_flight = n;
        break;
    case TR_POLICY_JITTER:
        p->jitter_us = n;
        break;
    case TR_POLICY_HISTORY:
        p->history = (enum tr_history)n;
        break;
    case TR_POLICY_SPREAD:
        p->spread = (uint32_t)n;
        break;
    default: /* DELIVER and PAUSED are read elsewhere */
        break;
    }
}

static void refuse(struct tr_hs *s, const char *field, const char *message)
{
    tr_hs_refuse(s, &(struct tr_http_error){
                        .status = 501, .code = "unsupported", .message = message, .field = field});
}

/* What this engine cannot do. */
static bool can_all(struct tr_hs *s)
{
    uint64_t spread = tr_hs_number(s, TR_ARG_SPREAD, 1);

    if (spread == 1) {
        return true;
    }
    if (s->port->slots <= 1) {
        refuse(s, "spread", "the embedded engine has one slot: spread is for --engine redis");
        return false;
    }
    if ((spread & (spread - 1)) != 0 || spread > s->port->slots) {
        tr_hs_bad(s, TR_ARG_SPREAD, "has to be a power of two, and no more than cluster.slots");
        return false;
    }
    return true;
}

bool tr_hs_read_policy(struct tr_hs *s)
{
    bool whole = s->match.route == TR_ROUTE_TOPIC_SET;

    s->policy = tr_policy_default();
    s->req.fields = whole ? TR_POLICY_ALL : 0;
    if (!can_all(s)) {
        return false;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        enum tr_arg arg = fields[i].arg;

        if (((s->args.given | s->args.cleared) >> arg & 1) == 0) {
            continue;
        }
        s->req.fields |= 1U << fields[i].field;
        if (tr_hs_given(s, arg)) {
            s->policy.given |= 1U << fields[i].field;
            set_field(&s->policy, fields[i].field, &s->args.values[arg]);
        }
    }
    if (tr_hs_given(s, TR_ARG_PAUSED) &&
        !read_paused(s->args.values[TR_ARG_PAUSED].text, &s->policy)) {
        tr_hs_bad(s, TR_ARG_PAUSED,
                  "has to be \"no\", \"in\", \"out\", \"both\" or {\"what\":…,\"until\":…}");
        return false;
    }
    if (tr_hs_given(s, TR_ARG_DELIVER) && !tr_hs_read_deliver(s)) {
        return false;
    }
    if (s->req.fields == 0) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 400,
                                                .code = "bad_request",
                                                .message = "there is nothing to change"});
        return false;
    }
    return true;
}

/* ---- telling ---- */

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

/* A limit, if there is one. */
static void limit(struct tr_json *j, const char *name, uint64_t n)
{
    if (n != UINT64_MAX) {
        number(j, name, n);
    }
}

/* A pause that has ended is none, though the policy still has it. */
static void tell_paused(struct tr_json *j, const struct tr_policy *p, uint64_t now_us)
{
    bool ended = p->paused_until_us != 0 && p->paused_until_us <= now_us;
    char text[TR_MOMENT_TEXT];

    tr_json_name(j, "paused");
    if (p->paused == 0 || p->paused_until_us == 0 || ended) {
        tr_json_text(j, pauses[ended ? 0 : p->paused & 3]);
        return;
    }
    (void)tr_moment_print(text, (int64_t)p->paused_until_us);
    tr_json_open(j, '{');
    tr_json_name(j, "what");
    tr_json_text(j, pauses[p->paused & 3]);
    tr_json_name(j, "until");
    tr_json_text(j, text);
    number(j, "until_ms", p->paused_until_us / 1000);
    tr_json_close(j, '}');
}

void tr_hs_tell_policy(struct tr_json *j, const struct tr_policy *p, uint64_t now_us)
{
    static const char *const histories[] = {"off", "brief", "full"};
    char backoff[TR_BACKOFF_TEXT];

    tr_backoff_print(backoff, &p->backoff);
    number(j, "ttr_ms", p->ttr_us / 1000);
    tr_json_name(j, "retries");
    tr_json_signed(j, p->retries);
    tr_json_name(j, "backoff");
    tr_json_text(j, backoff);
    if (p->ttl_us != 0) {
        number(j, "ttl_ms", p->ttl_us / 1000);
    }
    if (p->rate_milli != 0) {
        tr_json_name(j, "rate");
        tr_json_thousandths(j, p->rate_milli);
    }
    if (p->burst != 0) { /* also without a rate: it counts as soon as there is one */
        number(j, "burst", p->burst);
    } else if (p->rate_milli != 0) {
        number(j, "burst", tr_bucket_burst_of(p->rate_milli));
    }
    limit(j, "max_jobs", p->max_jobs);
    limit(j, "max_bytes", p->max_bytes);
    if (p->dead_keep_us != UINT64_MAX) {
        number(j, "dead_keep_ms", p->dead_keep_us / 1000);
    }
    limit(j, "dead_max", p->dead_max);
    limit(j, "in_flight", p->in_flight);
    number(j, "jitter_ms", p->jitter_us / 1000);
    tr_json_name(j, "history");
    tr_json_text(j, histories[p->history]);
    number(j, "spread", p->spread);
    tr_hs_tell_deliver(j, p);
    tell_paused(j, p, now_us);
}
