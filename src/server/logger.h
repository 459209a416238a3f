#ifndef TR_SERVER_LOGGER_H
#define TR_SERVER_LOGGER_H

/*
 * What the operator should hear of, a line each on stderr: text, or a JSON object. See logger.c.
 * (The log, without -ger, is the engine's.)
 *
 * Threads: any, as long as nobody changes level and json meanwhile; a line is one write.
 */

#include "port/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tr_log_level {
    TR_LEVEL_ERROR,
    TR_LEVEL_WARNING,
    TR_LEVEL_INFO,
    TR_LEVEL_DEBUG,
};

struct tr_logger {
    FILE *out;
    enum tr_log_level level; /* what is less important is dropped */
    bool json;
};

/* Writes to stderr; a test may put another file into `out`. */
void tr_logger_init(struct tr_logger *l, enum tr_log_level level, bool json);

/* Is this level written? For what is costly to find out. */
bool tr_logger_has(const struct tr_logger *l, enum tr_log_level level);

/* One line. What is longer than 4 KiB is cut; control characters do not get through. */
void tr_logger_say(const struct tr_logger *l, enum tr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What an admin did. */
struct tr_audit {
    const char *token; /* its name */
    const char *from;  /* an address */
    const char *what;
    unsigned status; /* of HTTP; 0: none */
};

/* One line of the level info, marked as one of these. It is written whatever the level: whoever
 * wants fewer lines does not mean these. */
void tr_logger_audit(const struct tr_logger *l, const struct tr_audit *a);

/* A command that held the loop. Names and words have nothing that JSON would escape. */
struct tr_slow {
    const char *port;
    const char *command;
    const char *topic; /* without an end; NULL: none, or not known */
    size_t topic_len;
    uint64_t took_us;
};

/* One line of the level warning, marked as one of these. Never a body. */
void tr_logger_slow(const struct tr_logger *l, const struct tr_slow *s);

/* A tr_notice_fn, with the logger as ctx. */
void tr_logger_notice(void *ctx, enum tr_notice kind, const char *text);

/* "error", "warning", "info", "debug". */
const char *tr_log_level_name(enum tr_log_level level);

#endif
