#ifndef TR_CLI_BAR_H
#define TR_CLI_BAR_H

/*
 * How far something has come, on stderr, if that is a terminal; else nothing. See bar.c.
 */

#include <stdbool.h>
#include <stdint.h>

struct tr_bar {
    const char *what;
    bool on;
    uint64_t begun_us;
    uint64_t shown_us;
    bool shown;
};

void tr_bar_begin(struct tr_bar *b, const char *what);
void tr_bar_show(struct tr_bar *b, uint64_t done, uint64_t all);
void tr_bar_end(struct tr_bar *b); /* the line is clear again */

#endif
