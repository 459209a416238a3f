#ifndef TR_PROTO_PROM_OUT_H
#define TR_PROTO_PROM_OUT_H

/*
 * Prometheus' text format, version 0.0.4, written into an output. See prom_out.c.
 *
 *     tr_prom_family(&p, "tarry_jobs", "gauge", "Jobs by topic and state.");
 *     tr_prom_begin(&p, "");
 *     tr_prom_label(&p, "topic", "orders", 6);
 *     tr_prom_label(&p, "state", "ready", 5);
 *     tr_prom_number(&p, 17);
 *
 * All lines of a family stand together, behind its head; no two may have the same labels.
 */

#include "base/hist.h"
#include "proto/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_prom_unit { TR_PROM_PLAIN, TR_PROM_SECONDS /* values are us */ };

struct tr_prom {
    struct tr_output *out;
    const char *name; /* of the family; stays while its lines are written */
    bool labelled;    /* the line that is being written has a label */
};

void tr_prom_init(struct tr_prom *p, struct tr_output *out);

/* HELP and TYPE. name is borrowed; help is one line of ours, and needs no escape. */
void tr_prom_family(struct tr_prom *p, const char *name, const char *type, const char *help);

/* A line: the family's name with this behind it, then its labels, then its value. */
void tr_prom_begin(struct tr_prom *p, const char *suffix);
void tr_prom_label(struct tr_prom *p, const char *label, const char *value, size_t len);
void tr_prom_label_text(struct tr_prom *p, const char *label, const char *value);
void tr_prom_number(struct tr_prom *p, uint64_t number);
void tr_prom_seconds(struct tr_prom *p, int64_t us);

/* A family of one line without labels. */
void tr_prom_gauge(struct tr_prom *p, const char *name, const char *help, uint64_t number);
void tr_prom_counter(struct tr_prom *p, const char *name, const char *help, uint64_t number);
void tr_prom_gauge_seconds(struct tr_prom *p, const char *name, const char *help, int64_t us);

/* The lines of one histogram of the family. label NULL: it has none of its own. */
struct tr_prom_hist {
    const struct tr_hist *hist;
    const struct tr_hist_scale *scale;
    enum tr_prom_unit unit;
    const char *label;
    const char *value;
    size_t len;
};
void tr_prom_hist(struct tr_prom *p, const struct tr_prom_hist *h);

/* A family of one histogram. */
void tr_prom_one_hist(struct tr_prom *p, const char *name, const char *help,
                      const struct tr_prom_hist *h);

#endif
