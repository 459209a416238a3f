#ifndef TR_BENCH_MICRO_H
#define TR_BENCH_MICRO_H

/*
 * What the benches of single modules share: bench_<module> [COUNT].
 *
 * Without an argument the size is small and the checksum of what was computed must be a known one:
 * that is the test. With an argument it is only printed. No time is ever judged.
 */

#include <stdint.h>

struct micro {
    const char *name;
    uint64_t count; /* operations */
    uint64_t want;  /* checksum at the small size; 0: any */
    uint64_t begin_ns;
    uint64_t ns;
};

/* The count is `small` or the argument's. Leaves with 2 on wrong usage. */
struct micro micro_init(const char *name, int argc, char **argv, uint64_t small, uint64_t want);

/* Around what is measured; may be called again, times add up. */
void micro_begin(struct micro *m);
void micro_end(struct micro *m);

/* One step of a checksum, in which order counts. */
static inline uint64_t micro_sum(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

/* Prints the line; gives the exit code. ops: what was done in all. */
int micro_print(const struct micro *m, uint64_t ops, uint64_t sum);

#endif
