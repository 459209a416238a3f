/*
 * tarry-sim-rows: what nodes do to the rows of a database, at the same time, while it is away,
 * undoes and loses answers.
 *
 *     tarry-sim-rows SEED [COUNT]      runs seeds; 1 and the seed if one went wrong
 *     tarry-sim-rows --bugs [SEEDS]    each deliberate bug must be noticed
 */

#include "rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_bugs(uint64_t seeds)
{
    int missed = 0;

    for (unsigned bug = 1; rows_bug(bug) != NULL; bug++) {
        const char *wrong = NULL;

        for (uint64_t seed = 1; wrong == NULL && seed <= seeds; seed++) {
            wrong = rows_run(seed, bug);
        }
        missed |= wrong == NULL;
        printf("%s: %s\n", rows_bug(bug), wrong != NULL ? wrong : "MISSED");
    }
    return missed;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t seed;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: tarry-sim-rows SEED [COUNT] | --bugs [SEEDS]\n");
        return 2;
    }
    if (strcmp(argv[1], "--bugs") == 0) {
        return run_bugs(argc > 2 ? count : 100);
    }
    seed = strtoull(argv[1], NULL, 10);
    for (uint64_t i = 0; i < count; i++) {
        const char *wrong = rows_run(seed + i, 0);

        if (wrong != NULL) {
            printf("seed %" PRIu64 ": %s\n", seed + i, wrong);
            return 1;
        }
    }
    printf("%llu seeds, all well\n", (unsigned long long)count);
    return 0;
}
