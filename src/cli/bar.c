/* One line that is written over, five times a second at most, when it takes longer than half one.
 */

#include "cli/bar.h"

#include "os/clock_linux.h"
#include "rules/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 30, FIRST_US = 500000, AGAIN_US = 200000 };

void tr_bar_begin(struct tr_bar *b, const char *what)
{
    *b = (struct tr_bar){
        .what = what, .on = isatty(STDERR_FILENO) == 1, .begun_us = tr_clock_linux_now().boot_us};
    b->shown_us = b->begun_us + FIRST_US - AGAIN_US;
}

void tr_bar_show(struct tr_bar *b, uint64_t done, uint64_t all)
{
    uint64_t now = b->on ? tr_clock_linux_now().boot_us : 0;
    char left[TR_DURATION_TEXT] = "";
    uint64_t part = all > 0 ? done * WIDTH / all : 0;

    if (!b->on || now < b->shown_us + AGAIN_US) {
        return;
    }
    b->shown_us = now;
    b->shown = true;
    if (done > 0 && all > done) {
        uint64_t left_s = (now - b->begun_us) / 1000 * (all - done) / done / 1000;

        tr_duration_tell(left, (left_s + 1) * 1000000);
    }
    fprintf(stderr, "\r%s [", b->what);
    for (uint64_t i = 0; i < WIDTH; i++) {
        fputc(i < part ? '#' : '.', stderr);
    }
    fprintf(stderr, "] %3" PRIu64 " %%%s%s\033[K", all > 0 ? done * 100 / all : 0,
            left[0] != '\0' ? ", left: " : "", left);
    (void)fflush(stderr);
}

void tr_bar_end(struct tr_bar *b)
{
    if (b->shown) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}
