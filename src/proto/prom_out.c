/*
 * A page is some ten thousand short lines when there are many topics, so lines are put together
 * from pieces and not formatted. What may stand in a label is escaped as the format wants it:
 * backslash, quote and line feed; bytes that are no UTF-8 become U+FFFD.
 */

#include "proto/prom_out.h"

#include "base/utf8.h"

#include <string.h>

enum { DIGITS_MAX = 20, FRACTION = 6 };

static void put(struct tr_prom *p, const char *text, size_t len)
{
    tr_output_add(p->out, text, len);
}

static void put_text(struct tr_prom *p, const char *text)
{
    put(p, text, strlen(text));
}

static void put_digits(struct tr_prom *p, uint64_t number)
{
    char buf[DIGITS_MAX];
    size_t at = DIGITS_MAX; /* from the last one to the first */

    do {
        buf[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(p, buf + at, DIGITS_MAX - at);
}

/* Microseconds as seconds, without zeros at the end. */
static void put_seconds(struct tr_prom *p, uint64_t us)
{
    char part[FRACTION + 1] = ".";
    uint64_t rest = us % 1000000;
    size_t len = FRACTION + 1;

    put_digits(p, us / 1000000);
    if (rest == 0) {
        return;
    }
    for (size_t i = FRACTION; i > 0; i--) {
        part[i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    while (part[len - 1] == '0') {
        len--;
    }
    put(p, part, len);
}

static void put_value(struct tr_prom *p, enum tr_prom_unit unit, uint64_t value)
{
    if (unit == TR_PROM_SECONDS) {
        put_seconds(p, value);
    } else {
        put_digits(p, value);
    }
}

static void put_escaped(struct tr_prom *p, const char *bytes, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\\' || bytes[i] == '"' || bytes[i] == '\n') {
            put(p, bytes + from, i - from);
            put(p, bytes[i] == '\n' ? "\\n" : bytes[i] == '"' ? "\\\"" : "\\\\", 2);
            from = i + 1;
        }
    }
    put(p, bytes + from, len - from);
}

void tr_prom_init(struct tr_prom *p, struct tr_output *out)
{
    *p = (struct tr_prom){.out = out};
}

void tr_prom_family(struct tr_prom *p, const char *name, const char *type, const char *help)
{
    p->name = name;
    put(p, "# HELP ", 7);
    put_text(p, name);
    put(p, " ", 1);
    put_text(p, help);
    put(p, "\n# TYPE ", 8);
    put_text(p, name);
    put(p, " ", 1);
    put_text(p, type);
    put(p, "\n", 1);
}

void tr_prom_begin(struct tr_prom *p, const char *suffix)
{
    put_text(p, p->name);
    put_text(p, suffix);
    p->labelled = false;
}

void tr_prom_label(struct tr_prom *p, const char *label, const char *value, size_t len)
{
    put(p, p->labelled ? "," : "{", 1);
    put_text(p, label);
    put(p, "=\"", 2);
    while (len > 0) {
        size_t span = tr_utf8_span((const uint8_t *)value, len);

        put_escaped(p, value, span);
        value += span;
        len -= span;
        if (len > 0) {
            put(p, "\xef\xbf\xbd", 3);
            value++;
            len--;
        }
    }
    put(p, "\"", 1);
    p->labelled = true;
}

/* Between the labels and the value. */
static void put_gap(struct tr_prom *p)
{
    put(p, "} ", p->labelled ? 2 : 0);
    put(p, " ", p->labelled ? 0 : 1);
}

void tr_prom_label_text(struct tr_prom *p, const char *label, const char *value)
{
    tr_prom_label(p, label, value, strlen(value));
}

void tr_prom_number(struct tr_prom *p, uint64_t number)
{
    put_gap(p);
    put_digits(p, number);
    put(p, "\n", 1);
}

void tr_prom_seconds(struct tr_prom *p, int64_t us)
{
    put_gap(p);
    if (us < 0) {
        put(p, "-", 1);
    }
    put_seconds(p, us < 0 ? 0 - (uint64_t)us : (uint64_t)us);
    put(p, "\n", 1);
}

void tr_prom_gauge(struct tr_prom *p, const char *name, const char *help, uint64_t number)
{
    tr_prom_family(p, name, "gauge", help);
    tr_prom_begin(p, "");
    tr_prom_number(p, number);
}

void tr_prom_counter(struct tr_prom *p, const char *name, const char *help, uint64_t number)
{
    tr_prom_family(p, name, "counter", help);
    tr_prom_begin(p, "");
    tr_prom_number(p, number);
}

void tr_prom_gauge_seconds(struct tr_prom *p, const char *name, const char *help, int64_t us)
{
    tr_prom_family(p, name, "gauge", help);
    tr_prom_begin(p, "");
    tr_prom_seconds(p, us);
}

static void begin_hist(struct tr_prom *p, const struct tr_prom_hist *h, const char *suffix)
{
    tr_prom_begin(p, suffix);
    if (h->label != NULL) {
        tr_prom_label(p, h->label, h->value, h->len);
    }
}

void tr_prom_hist(struct tr_prom *p, const struct tr_prom_hist *h)
{
    uint64_t below = 0;

    for (unsigned i = 0; i <= h->scale->count; i++) {
        below += h->hist->counts[i];
        begin_hist(p, h, "_bucket");
        put(p, p->labelled ? ",le=\"" : "{le=\"", 5);
        if (i < h->scale->count) {
            put_value(p, h->unit, h->scale->bounds[i]);
        } else {
            put(p, "+Inf", 4);
        }
        put(p, "\"", 1);
        p->labelled = true;
        tr_prom_number(p, below);
    }
    begin_hist(p, h, "_sum");
    put_gap(p);
    put_value(p, h->unit, h->hist->sum);
    put(p, "\n", 1);
    begin_hist(p, h, "_count");
    tr_prom_number(p, below);
}

void tr_prom_one_hist(struct tr_prom *p, const char *name, const char *help,
                      const struct tr_prom_hist *h)
{
    tr_prom_family(p, name, "histogram", help);
    tr_prom_hist(p, h);
}
