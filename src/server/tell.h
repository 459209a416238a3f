#ifndef TR_SERVER_TELL_H
#define TR_SERVER_TELL_H

/*
 * What only the server knows, as members of a JSON object: its config, its process, its store and
 * its connections. See tell.c.
 */

#include "engine/engine.h"
#include "os/loop_linux.h"
#include "proto/json_out.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/conn.h"

#include <stdint.h>

void tr_tell_config(struct tr_json *j, const struct tr_config *c);
void tr_tell_process(struct tr_json *j, uint64_t uptime_us, struct tr_loop_stat loop);
void tr_tell_store(struct tr_json *j, const struct tr_engine_stat *stat,
                   const struct tr_engine_gauges *g);
void tr_tell_damage(struct tr_json *j, const struct tr_engine_stat *stat);
void tr_tell_memory(struct tr_json *j, const struct tr_budget *b, const struct tr_engine_stat *stat,
                    uint64_t conn_bytes);
void tr_tell_conns(struct tr_json *j, const struct tr_conns *cs);
void tr_tell_auth(struct tr_json *j, const struct tr_auth *a);

#endif
