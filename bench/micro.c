/* One line for each bench: name, operations, time for each, checksum. */

#include "bench/micro.h"

#include "bench/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct micro micro_init(const char *name, int argc, char **argv, uint64_t small, uint64_t want)
{
    struct micro m = {.name = name, .count = small, .want = want};

    if (argc == 2) {
        m.count = strtoull(argv[1], NULL, 10);
        m.want = m.count == small ? want : 0;
    }
    if (argc > 2 || m.count == 0) {
        (void)fprintf(stderr, "usage: bench_%s [COUNT]\n", name);
        exit(2);
    }
    return m;
}

void micro_begin(struct micro *m)
{
    m->begin_ns = watch_now_ns();
}

void micro_end(struct micro *m)
{
    m->ns += watch_now_ns() - m->begin_ns;
}

int micro_print(const struct micro *m, uint64_t ops, uint64_t sum)
{
    printf("%s count=%" PRIu64 " ops=%" PRIu64 " ns_op=%.1f sum=%016" PRIx64 "\n", m->name,
           m->count, ops, (double)m->ns / (double)ops, sum);
    if (m->want != 0 && sum != m->want) {
        printf("%s: the checksum should be %016" PRIx64 "\n", m->name, m->want);
        return 1;
    }
    return 0;
}
