/*
 * What users are given: structs of tarry.h from those of the engine.
 *
 * A job is one piece of memory: the struct, then topic, key, tag and body, each followed by a 0.
 * Structs that a caller fills begin with their size. A shorter one comes from a program that was
 * compiled with an older header: what it does not have is as by default. A longer one is from a
 * newer header: it may ask for what we do not know, so it is refused.
 */

#include "lib/inner.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Words of tarry.h are those of the engine. */
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours)

SAME(TARRY_DELAYED, TR_DELAYED);
SAME(TARRY_READY, TR_READY);
SAME(TARRY_RESERVED, TR_RESERVED);
SAME(TARRY_DEAD, TR_DEAD);
SAME(TARRY_REPLACE, TR_CONFLICT_REPLACE);
SAME(TARRY_KEEP, TR_CONFLICT_KEEP);
SAME(TARRY_ERROR, TR_CONFLICT_ERROR);
SAME(TARRY_FIELD_DUE, TR_EDIT_DUE);
SAME(TARRY_FIELD_PRIORITY, TR_EDIT_PRIORITY);
SAME(TARRY_FIELD_TTR, TR_EDIT_TTR);
SAME(TARRY_FIELD_BODY, TR_EDIT_BODY);
SAME(TARRY_FIELD_TTL, TR_EDIT_TTL);
SAME(TARRY_FIELD_TAG, TR_EDIT_TAG);
SAME(TARRY_SYNC_ALWAYS, TR_SYNC_ALWAYS);
SAME(TARRY_SYNC_INTERVAL, TR_SYNC_INTERVAL);
SAME(TARRY_SYNC_NEVER, TR_SYNC_NEVER);
SAME(TARRY_NOTE_INFO, TR_NOTE_INFO);
SAME(TARRY_NOTE_WARNING, TR_NOTE_WARNING);
SAME(TARRY_NOTE_DAMAGE, TR_NOTE_DAMAGE);
SAME(TARRY_NOTE_FATAL, TR_NOTE_FATAL);
static_assert(TARRY_FOREVER == TR_WAIT_FOREVER, "TARRY_FOREVER");
static_assert(TARRY_DELAY_MAX == TR_DELAY_MAX_US, "TARRY_DELAY_MAX");

/* Puts bytes and a 0 at *at, which moves on. */
static const char *put(char **at, const void *bytes, size_t len)
{
    char *place = *at;

    if (len != 0) {
        memcpy(place, bytes, len);
    }
    place[len] = '\0';
    *at += len + 1;
    return place;
}

struct tarry_job *tr_give_job(const struct tr_job_view *v, const char *topic, size_t topic_len)
{
    size_t body_len = v->body != NULL ? v->body_len : 0;
    struct tarry_job *job =
        malloc(sizeof *job + topic_len + v->key_len + v->tag_len + body_len + 4);
    char *at;

    if (job == NULL) {
        return NULL;
    }
    at = (char *)(job + 1);
    *job = (struct tarry_job){
        .id = v->id,
        .lease = v->lease,
        .body_len = body_len,
        .state = (enum tarry_state)v->state,
        .priority = v->priority,
        .due_us = v->due_us,
        .created_us = v->created_us,
        .late_us = v->late_us,
        .ttr_us = v->ttr_us,
        .left_us = v->left_us,
        .attempts = v->reserves,
        .timeouts = v->timeouts,
        .releases = v->releases,
        .buries = v->buries,
        .kicks = v->kicks,
        .ttl_us = v->ttl_us,
    };
    job->topic = put(&at, topic, topic_len);
    job->key = v->key != NULL ? put(&at, v->key, v->key_len) : NULL;
    job->tag = v->tag != NULL ? put(&at, v->tag, v->tag_len) : NULL;
    job->body = put(&at, v->body, body_len);
    return job;
}

void tarry_job_free(struct tarry_job *job)
{
    free(job);
}

void tr_give_result(struct tarry_result *to, const struct tr_req *r)
{
    struct tarry_result all = {.id = r->out.job.id,
                               .state = (enum tarry_state)r->out.job.state,
                               .due_us = r->out.job.due_us,
                               .existed = r->out.existed};

    all.size = to->size < sizeof all ? to->size : sizeof all;
    memcpy(to, &all, all.size);
}

int tr_give_take(void *to, size_t size, const void *from)
{
    size_t given;

    if (from == NULL) {
        return TARRY_EINVAL;
    }
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return TARRY_EINVAL; /* not made by an INIT */
    }
    if (given > size) {
        return TARRY_EUNSUPPORTED;
    }
    memcpy(to, from, given);
    return TARRY_OK;
}
