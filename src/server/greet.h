#ifndef TR_SERVER_GREET_H
#define TR_SERVER_GREET_H

/*
 * What a server prints to stdout when it starts and ends: lines for people, which programs read,
 * too. See greet.c.
 */

#include "port/engine.h"
#include "server/config.h"
#include "server/conn.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the data is, and how safe it is there. */
void tr_greet(const struct tr_config *c, const char *path, bool temporary);

/* The same of jobs in Redis. */
void tr_greet_redis(const struct tr_config *c);

/* Where it listens, what it found and how long that took. */
void tr_greet_ready(const struct tr_config *c, const struct tr_conns *cs,
                    const struct tr_engine_view *engine, uint64_t took_us);

/* The end, in order. */
void tr_greet_bye(const char *path, uint64_t jobs);

#endif
