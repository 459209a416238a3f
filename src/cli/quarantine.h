#ifndef TR_CLI_QUARANTINE_H
#define TR_CLI_QUARANTINE_H

/*
 * Damaged bytes of a store are kept before it is repaired: in DIR/quarantine, with a report. See
 * quarantine.c.
 */

#include "base/check.h"
#include "engine/finding.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_QUARANTINE_PATH = 4096 };

struct tr_quarantine {
    const char *dir;
    char path[TR_QUARANTINE_PATH]; /* of this repair's own folder */
    char *report;
    size_t report_len;
    struct tr_kept {
        char file[TR_IO_NAME_MAX];
        uint64_t off;
        uint64_t len;
    } * kept;
    size_t count;
    size_t room;
    int failed; /* for want of memory */
};

void tr_quarantine_init(struct tr_quarantine *q, const char *dir);
void tr_quarantine_fini(struct tr_quarantine *q);
void tr_quarantine_add(struct tr_quarantine *q, const struct tr_finding *f);

/* Copies and syncs all of it. TARRY_ENOSPC, EIO, EPERM, ENOMEM. */
TR_MUST_USE int tr_quarantine_write(struct tr_quarantine *q);

#endif
