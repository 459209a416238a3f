#ifndef TR_ENGINE_TAG_H
#define TR_ENGINE_TAG_H

/*
 * Ready jobs of a topic by tag, for reserves that ask for one. See tag.c.
 */

#include "base/check.h"
#include "engine/topic.h"

enum { TR_TAGS_MAX = 256 }; /* tags of one topic that are kept in order at a time */

/*
 * The first ready job with this tag, by (priority, due, id), or NULL. Costs a unit of *work for
 * each job that was not looked at before. TARRY_EFULL: that was not enough, call again;
 * TARRY_ENOMEM.
 */
TR_MUST_USE int tr_tags_first(struct tr_topic *t, struct tr_bytes tag, unsigned *work,
                              struct tr_job **job);

/* The job was appended to the ready ones; it is about to leave them. */
void tr_tags_enter(struct tr_topic *t, struct tr_job *job);
void tr_tags_leave(struct tr_topic *t, struct tr_job *job);

void tr_tags_drop(struct tr_topic *t); /* all of them: the topic has no ready job */
bool tr_tags_ok(const struct tr_topic *t);

#endif
