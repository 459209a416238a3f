#ifndef TR_CLI_CONVERT_H
#define TR_CLI_CONVERT_H

/*
 * What the server tells of jobs, policies and schedules, as it takes them: ttr_ms: 60000 becomes
 * ttr: "60000ms", due_ms becomes at, what cannot be set is left out. See convert.c.
 */

#include "base/check.h"
#include "proto/json_out.h"
#include "proto/json_read.h"

/* Names that can be set, NULL at the end. */
extern const char *const tr_convert_job[];
extern const char *const tr_convert_policy[];
extern const char *const tr_convert_schedule[];

/* Writes those members of the object that are among the names. What is null is left out. */
void tr_convert(struct tr_json *j, const struct tr_json_value *object, const char *const *names);

/* The pause and the outlet of a policy. What is not set is left out, so that it takes nothing away
 * where it is not set either. False: the outlet has secrets, which are not told: it is left out. */
void tr_convert_paused(struct tr_json *j, const struct tr_json_value *policy);
TR_MUST_USE bool tr_convert_deliver(struct tr_json *j, const struct tr_json_value *policy);

#endif
