/*
 * What our zones and cron expressions say, for comparison with those of others.
 *
 *     zone-tool offsets ZONE         for each moment on stdin (seconds since 1970): seconds east
 *     zone-tool ticks ZONE CRON FROM COUNT     the moments after FROM
 */

#include "base/err.h"
#include "os/zones_linux.h"
#include "rules/ticks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t bytes[TR_ZONE_BYTES_MAX];

static int open_zone(const char *name, struct tr_zone *z)
{
    struct tr_zone_file file = {bytes, sizeof bytes, 0};
    int err = tr_zones_linux_read(NULL, name, strlen(name), &file);

    return err != TARRY_OK ? err : tr_zone_read(bytes, file.len, z);
}

static int offsets(const struct tr_zone *z)
{
    long long moment;

    while (scanf("%lld", &moment) == 1) {
        printf("%d\n", (int)tr_zone_at(z, moment).east_s);
    }
    return 0;
}

static int ticks(const struct tr_zone *z, const char *text, int64_t from, long count)
{
    struct tr_cron c;
    char why[TR_CRON_WHY];

    if (tr_cron_read(text, strlen(text), &c, why) != TARRY_OK) {
        fprintf(stderr, "zone-tool: %s %s\n", text, why);
        return 2;
    }
    for (; count > 0 && tr_ticks_next(&c, z, from, INT64_MAX, &from); count--) {
        printf("%lld\n", (long long)from);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tr_zone z;
    int err = argc > 2 ? open_zone(argv[2], &z) : TARRY_EINVAL;

    if (err != TARRY_OK) {
        fprintf(stderr, "zone-tool: %s\n", tarry_errname(err));
        return 1;
    }
    if (argc == 3 && strcmp(argv[1], "offsets") == 0) {
        return offsets(&z);
    }
    if (argc == 6 && strcmp(argv[1], "ticks") == 0) {
        return ticks(&z, argv[3], strtoll(argv[4], NULL, 10), strtol(argv[5], NULL, 10));
    }
    return 2;
}
