#ifndef TR_SERVER_TELL_H
#define TR_SERVER_TELL_H

/*
 * What only the server knows, as members of a JSON object: its config, its process, its memory and
 * its connections. See tell.c.
 */

#include "os/loop_linux.h"
#include "port/engine.h"
#include "proto/json_out.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/conn.h"

#include <stdint.h>

/* durability: what success means, a sentence. */
void tr_tell_config(struct tr_json *j, const struct tr_config *c, const char *durability);
void tr_tell_process(struct tr_json *j, uint64_t uptime_us, struct tr_loop_stat loop);
void tr_tell_memory(struct tr_json *j, const struct tr_budget *b, const struct tr_engine_view *v,
                    uint64_t conn_bytes);
void tr_tell_conns(struct tr_json *j, const struct tr_conns *cs);
void tr_tell_auth(struct tr_json *j, const struct tr_auth *a);

#endif
