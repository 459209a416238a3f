/*
 * The bounds. Each histogram of a topic is some sixteen lines of a page that is read every few
 * seconds, so there are few of them: dense where the product promises something (lateness of a
 * fraction of a millisecond, commits of a few), wide where only the size of the trouble counts.
 */

#include "base/hist.h"

#define MS UINT64_C(1000)
#define SECOND UINT64_C(1000000)

const struct tr_hist_scale tr_hist_waits = {
    .count = 14,
    .bounds = {100, 250, 500, 1 * MS, 2500, 5 * MS, 10 * MS, 25 * MS, 100 * MS, 1 * SECOND,
               10 * SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND},
};

const struct tr_hist_scale tr_hist_commits = {
    .count = 14,
    .bounds = {50, 100, 200, 500, 1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS,
               500 * MS, 1 * SECOND, 5 * SECOND},
};

const struct tr_hist_scale tr_hist_rounds = {
    .count = 12,
    .bounds = {20, 50, 100, 200, 500, 1 * MS, 2 * MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS,
               1 * SECOND},
};

const struct tr_hist_scale tr_hist_sizes = {
    .count = 14,
    .bounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536},
};

uint64_t tr_hist_total(const struct tr_hist *h)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < TR_HIST_BUCKETS; i++) {
        total += h->counts[i];
    }
    return total;
}

void tr_hist_join(struct tr_hist *to, const struct tr_hist *from)
{
    for (unsigned i = 0; i < TR_HIST_BUCKETS; i++) {
        to->counts[i] += from->counts[i];
    }
    to->sum += from->sum;
}
