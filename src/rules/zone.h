#ifndef TR_RULES_ZONE_H
#define TR_RULES_ZONE_H

/*
 * Time zones: what clocks on the wall show, read from the bytes of a TZif file (RFC 8536), version
 * 2 or later. See zone.c.
 *
 * All moments are seconds since 1970 in UTC; east_s is local time less UTC.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_ZONE_NAME_MAX = 64,
    TR_ZONE_BYTES_MAX = 128 * 1024, /* of a file; those of today have less than 4 KiB */
};

/* When clocks are changed in a year: day and second of it by the clock that is about to change. */
struct tr_zone_change {
    enum {
        TR_ZONE_WEEKDAY, /* the week-th weekday of the month; 5: the last one */
        TR_ZONE_JULIAN,  /* day 1 to 365: February has 28 days in each year */
        TR_ZONE_DAY      /* day 0 to 365 */
    } kind;
    unsigned month;
    unsigned week;
    unsigned weekday;
    unsigned day;
    int32_t second;
};

/* Bytes are borrowed for as long as the zone is used. All zero is UTC. */
struct tr_zone {
    const uint8_t *times; /* 8 bytes each, big-endian, rising */
    const uint8_t *kinds; /* 1 byte each: which of the types from that time on */
    const uint8_t *types; /* 6 bytes each: 4 of the offset */
    uint32_t times_count;
    uint32_t types_count;
    bool has_rule;    /* for all behind the last time */
    bool has_summer;  /* the rule: twice a year; else always winter_s */
    int32_t winter_s; /* east */
    int32_t summer_s;
    struct tr_zone_change to_summer;
    struct tr_zone_change to_winter;
};

/* A time in which the offset does not change: from <= moment < until. The next one may have the
 * same offset. Without a beginning or an end: INT64_MIN and INT64_MAX. */
struct tr_zone_span {
    int64_t from_s;
    int64_t until_s;
    int32_t east_s;
};

/* TARRY_EINVAL: that is no TZif file, or one with leap seconds. *z is as it was. */
TR_MUST_USE int tr_zone_read(const uint8_t *bytes, size_t len, struct tr_zone *z);

struct tr_zone_span tr_zone_at(const struct tr_zone *z, int64_t moment_s);

/* Could it be the name of a zone, and of nothing but a file below the folder of zones? */
bool tr_zone_name_ok(const char *name, size_t len);

/* The zone that needs no file. */
bool tr_zone_is_utc(const char *name, size_t len);

#endif
