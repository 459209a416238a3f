#ifndef TR_SIM_REPORT_H
#define TR_SIM_REPORT_H

/* The first broken promise of a run. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sim_report {
    bool failed;
    char promise[8]; /* I1 ... */
    char text[600];
};

/* Only the first one is kept. */
static inline void __attribute__((format(printf, 3, 4)))
sim_fail(struct sim_report *r, const char *promise, const char *text, ...)
{
    va_list args;

    if (r->failed) {
        return;
    }
    r->failed = true;
    (void)snprintf(r->promise, sizeof(r->promise), "%s", promise);
    va_start(args, text);
    (void)vsnprintf(r->text, sizeof(r->text), text, args);
    va_end(args);
}

#endif
