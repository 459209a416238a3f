/*
 * Replies. Each is written in one go, behind the gate of all that was asked for it. A reply that
 * takes several steps is gathered in a text of its own and copied when it is whole, since what is
 * in the output may be sent at any time. Its length is known then, so a long one is copied piece by
 * piece, as the client reads.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "rules/moment.h"

#include <string.h>

#define US_PER_S UINT64_C(1000000)

enum { PIECE = 65536, UNIT_BYTES = 1024 }; /* what is copied in one step, and for a unit of work */

/* Sun, 06 Nov 1994 08:49:37 GMT: once a second. */
static const char *date(struct tr_hs *s)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970 began on a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tr_hs_port *port = s->port;
    uint64_t second = s->now.wall_us / US_PER_S;
    struct tr_date day;

    if (port->date[0] != '\0' && port->date_s == second) {
        return port->date;
    }
    day = tr_date_of_days((int64_t)(second / 86400));
    port->date_s = second;
    memset(port->line_lens, 0, sizeof port->line_lens);
    tr_text(port->date, sizeof port->date, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
            days + second / 86400 % 7 * 3, day.day, months + (size_t)(day.month - 1) * 3,
            (unsigned)day.year, (unsigned)(second / 3600 % 24), (unsigned)(second / 60 % 60),
            (unsigned)(second % 60));
    return port->date;
}

/* How the replies of this second begin that are told most; or NULL. */
static const char *line_of(struct tr_hs_port *port, unsigned status, size_t *len)
{
    unsigned i = status - 200;

    if (i >= TR_HS_LINES) {
        return NULL;
    }
    if (port->line_lens[i] == 0) {
        port->line_lens[i] = tr_http_reply_line(port->lines[i], status, port->date);
    }
    *len = port->line_lens[i];
    return port->lines[i];
}

static struct tr_http_how how(struct tr_hs *s, unsigned status)
{
    struct tr_http_how h;

    /* Not because of the end of input: pipelined ones are answered. */
    if (s->port->stopping || s->unwanted) {
        s->parse.request.keep_alive = false;
    }
    h = tr_http_how_of(&s->parse.request);
    h.date = date(s);
    h.line = line_of(s->port, status, &h.line_len);
    return h;
}

/* A reply begins: its status is counted. */
static void begin(struct tr_hs *s, struct tr_http_reply *r, unsigned status)
{
    struct tr_http_how h = how(s, status);

    s->status = status;
    s->port->replies[status - 100]++;
    tr_output_gate(&s->out, s->gate);
    tr_http_reply_open(r, &s->out, &h, status);
}

void tr_hs_open(struct tr_hs *s, struct tr_hs_reply *r, unsigned status)
{
    begin(s, &r->http, status);
    if (status == 503) {
        tr_http_reply_retry(&r->http, 0);
    }
    tr_http_reply_json(&r->http);
    tr_json_init(&r->json, &s->out);
    tr_json_open(&r->json, '{');
}

void tr_hs_close(struct tr_hs *s, struct tr_hs_reply *r)
{
    tr_json_close(&r->json, '}');
    tr_http_reply_close(&r->http);
    s->answered = true;
}

void tr_hs_refuse(struct tr_hs *s, const struct tr_http_error *e)
{
    struct tr_http_how h = how(s, e->status);

    s->status = e->status;
    s->port->replies[e->status - 100]++;
    tr_output_gate(&s->out, s->gate);
    tr_http_reply_error(&s->out, &h, e);
    s->answered = true;
}

void tr_hs_fail(struct tr_hs *s)
{
    struct tr_http_error e = tr_shape_error(s->req.out.status, s->req.out.job.state);

    tr_shape_explain(&e, &s->req);
    tr_hs_refuse(s, &e);
}

void tr_hs_no_topic(struct tr_hs *s)
{
    struct tr_http_error e = tr_shape_error(s->req.out.status, s->req.out.job.state);

    if (s->req.out.status == TARRY_ENOTFOUND) {
        e.message = "there is no such topic";
    }
    tr_shape_explain(&e, &s->req);
    tr_hs_refuse(s, &e);
}

void tr_hs_bad(struct tr_hs *s, enum tr_arg arg, const char *why)
{
    struct tr_http_error e = {.status = 400,
                              .code = "bad_request",
                              .message = s->args.message,
                              .field = tr_arg_table[arg].called};

    tr_text(s->args.message, sizeof s->args.message, "%s %s", e.field, why);
    tr_hs_refuse(s, &e);
}

void tr_hs_none(struct tr_hs *s)
{
    struct tr_http_reply r;

    begin(s, &r, 204);
    tr_http_reply_none(&r);
    s->answered = true;
}

void tr_hs_open_head(struct tr_hs *s, struct tr_http_reply *r, unsigned status)
{
    begin(s, r, status);
}

void tr_hs_open_bytes(struct tr_hs *s, struct tr_http_reply *r)
{
    begin(s, r, 200);
}

bool tr_hs_open_sized(struct tr_hs *s, const char *type, size_t len)
{
    struct tr_http_reply r;
    char digits[24];

    begin(s, &r, 200);
    tr_http_reply_header(&r, "Content-Type", type, strlen(type));
    tr_text(digits, sizeof digits, "%llu", (unsigned long long)len);
    tr_http_reply_header(&r, "Content-Length", digits, strlen(digits));
    tr_http_reply_none(&r);
    return !r.head_only;
}

void tr_hs_job(struct tr_hs *s, unsigned status, struct tr_shape what)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, status);
    tr_shape_job(&r.json, &s->req.out.job, what);
    tr_hs_close(s, &r);
}

/* ---- in several steps ---- */

bool tr_hs_begin_bytes(struct tr_hs *s)
{
    s->text = tr_mem_alloc(s->port->mem, sizeof *s->text);
    if (s->text == NULL) {
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
        return false;
    }
    tr_output_init(s->text, s->port->mem);
    return true;
}

bool tr_hs_begin_text(struct tr_hs *s)
{
    if (!tr_hs_begin_bytes(s)) {
        return false;
    }
    tr_json_init(&s->json, s->text);
    tr_json_open(&s->json, '[');
    return true;
}

void tr_hs_drop_text(struct tr_hs *s)
{
    if (s->text != NULL) {
        tr_output_fini(s->text);
        tr_mem_free(s->port->mem, s->text, sizeof *s->text);
        s->text = NULL;
    }
}

void tr_hs_end_text(struct tr_hs *s, struct tr_hs_reply *r, const char *name)
{
    const uint8_t *bytes;
    size_t len;

    tr_json_close(&s->json, ']');
    len = tr_output_ready(s->text, 0, &bytes);
    tr_json_name(&r->json, name);
    tr_json_raw(&r->json, bytes, len);
    s->out.broken |= s->text->broken; /* bytes are missing */
    s->cost += (unsigned)(len / UNIT_BYTES);
    tr_hs_drop_text(s);
}

static void all_told(struct tr_hs *s)
{
    tr_hs_drop_text(s);
    s->answered = true;
    s->next = s->poured;
}

/* The next piece of the text, and what stands behind it. */
static void pour(struct tr_hs *s)
{
    const uint8_t *bytes;
    size_t left = tr_output_ready(s->text, 0, &bytes);
    size_t n = left < PIECE ? left : PIECE;

    tr_output_add(&s->out, bytes, n);
    tr_output_drop(s->text, n);
    s->cost += (unsigned)(n / UNIT_BYTES);
    s->pouring = n < left && !s->out.broken;
    s->next = pour;
    if (!s->pouring) {
        tr_output_add(&s->out, "}", 1);
        all_told(s);
    }
}

uint64_t tr_hs_tell_text(struct tr_hs *s, const char *name, tr_hs_step_fn *then)
{
    size_t name_len = strlen(name);
    const uint8_t *bytes;
    uint64_t end;
    size_t len;

    tr_json_close(&s->json, ']');
    len = tr_output_ready(s->text, 0, &bytes) + name_len + strlen("{\"\":}");
    s->out.broken |= s->text->broken; /* bytes are missing */
    s->poured = then;
    if (!tr_hs_open_sized(s, "application/json", len)) {
        all_told(s);
        return tr_output_end(&s->out);
    }
    end = tr_output_end(&s->out) + len;
    tr_output_add(&s->out, "{\"", 2);
    tr_output_add(&s->out, name, name_len);
    tr_output_add(&s->out, "\":", 2);
    pour(s);
    return end;
}
