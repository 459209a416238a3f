#ifndef TR_CLI_REPORT_H
#define TR_CLI_REPORT_H

/*
 * What is damaged, as lines for people or as JSON. See report.c.
 */

#include "base/mem.h"
#include "engine/finding.h"
#include "proto/json_out.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tr_report {
    FILE *out;
    bool json; /* an array is open: each finding is an item of it */
    struct tr_mem mem;
    struct tr_output bytes;
    struct tr_json j;
    uint64_t findings;
    uint64_t by_fate[TR_FATE_COUNT];
};

void tr_report_init(struct tr_report *r, FILE *out, bool json);
void tr_report_fini(struct tr_report *r);

/* Of the type tr_found_fn; ctx is the report. */
void tr_report_found(void *ctx, const struct tr_finding *f);

/* Sends what stands in r->j. */
void tr_report_flush(struct tr_report *r);

#endif
