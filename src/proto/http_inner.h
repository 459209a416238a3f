#ifndef TR_PROTO_HTTP_INNER_H
#define TR_PROTO_HTTP_INNER_H

/*
 * Between the files that together are a session of the HTTP API.
 *
 * A route is a function that begins it. It may reply at once; or ask the queue, and a function that
 * looks at the answer replies; or set `next`, a step that is taken when others had their turn. When
 * a reply was written and no step is left, the next request is read.
 */

#include "proto/http.h"
#include "proto/http_shape.h"

/* ---- http.c ---- */

/* Sends s->req, of which only `op` and what that needs is set, to the queue; `then` is called when
 * it is answered and may look at s->req.out, reply, and set the next step; but not ask again. */
void tr_hs_ask(struct tr_hs *s, enum tr_op op, tr_hs_step_fn *then);

/* An argument: true when it was given; its number. */
bool tr_hs_given(const struct tr_hs *s, enum tr_arg arg);
uint64_t tr_hs_number(const struct tr_hs *s, enum tr_arg arg, uint64_t otherwise);

/* What the header Content-Type names, without its parameters; absent: .at is NULL. */
struct tr_http_text tr_hs_media_type(const struct tr_hs *s);

/* The next piece of the body into s->many.in, of which at most so much is looked at as is no long
 * work. */
enum tr_json_event tr_hs_read_json(struct tr_hs *s);

/* 400: it is no JSON, as s->many.in says. */
void tr_hs_bad_json(struct tr_hs *s);

/* ---- http_guard.c: who may ask; TARRY_OK, or s->error says why not ---- */

TR_MUST_USE int tr_hs_guard_host(struct tr_hs *s);
TR_MUST_USE int tr_hs_guard_token(struct tr_hs *s);
TR_MUST_USE int tr_hs_guard_role(struct tr_hs *s); /* from here on the route is known */
TR_MUST_USE int tr_hs_guard_origin(struct tr_hs *s);

/* May this request touch, or tell of, this topic? */
bool tr_hs_may(const struct tr_hs *s, const char *name, size_t len);
struct tr_http_error tr_hs_foreign_topic(void); /* 403 */
struct tr_http_error tr_hs_unauthorized(void);  /* 401 */

/* The request is over: tells the operator of it if it was one for admins. */
void tr_hs_audit(struct tr_hs *s);

/* ---- http_say.c: replies ---- */

struct tr_hs_reply {
    struct tr_http_reply http;
    struct tr_json json;
};

/* A JSON object: opens it, for the caller to write members into r->json. */
void tr_hs_open(struct tr_hs *s, struct tr_hs_reply *r, unsigned status);
void tr_hs_close(struct tr_hs *s, struct tr_hs_reply *r);

void tr_hs_refuse(struct tr_hs *s, const struct tr_http_error *e);

/* What the queue said no with, as in s->req.out. */
void tr_hs_fail(struct tr_hs *s);

/* The same for a request about a topic: 404 is for that. */
void tr_hs_no_topic(struct tr_hs *s);

/* 400 for this argument; why is the end of a sentence that begins with its name. */
void tr_hs_bad(struct tr_hs *s, enum tr_arg arg, const char *why);

/* 204. */
void tr_hs_none(struct tr_hs *s);

/* A reply up to its headers; the caller goes on with http_reply.h, and sets `answered`. The second
 * is 200. */
void tr_hs_open_head(struct tr_hs *s, struct tr_http_reply *r, unsigned status);
void tr_hs_open_bytes(struct tr_hs *s, struct tr_http_reply *r);

/* 200 with a body of this type and length, which the caller adds to the output, perhaps in several
 * steps. False: it is not asked for (HEAD). */
TR_MUST_USE bool tr_hs_open_sized(struct tr_hs *s, const char *type, size_t len);

/* The job in s->req.out. */
void tr_hs_job(struct tr_hs *s, unsigned status, struct tr_shape what);

/* An array that is made in several steps, by s->json, and then is a member of that name. */
bool tr_hs_begin_text(struct tr_hs *s);  /* false: no memory, and it was refused */
bool tr_hs_begin_bytes(struct tr_hs *s); /* the same for what is no JSON */
void tr_hs_end_text(struct tr_hs *s, struct tr_hs_reply *r, const char *name);

/* The same, as the only member: all of the reply, in slices if it is long; `then`, if it is not
 * NULL, is the step that comes. Gives where the reply will end in the output. */
uint64_t tr_hs_tell_text(struct tr_hs *s, const char *name, tr_hs_step_fn *then);
void tr_hs_drop_text(struct tr_hs *s);

/* ---- http_name.c: from names to numbers ---- */

/* Asks for the topic of that name, with which `then` goes on: s->req.out.topic. The second makes
 * it if need be and holds it, until the step tr_hs_let_go. */
void tr_hs_find_topic(struct tr_hs *s, struct tr_http_text name, tr_hs_step_fn *then);
void tr_hs_hold_topic(struct tr_hs *s, struct tr_http_text name, tr_hs_step_fn *then);
tr_hs_step_fn tr_hs_let_go; /* then comes s->after */

/* What time it is for the queue, which may have a test clock: the step `act` has it in s->number.
 */
void tr_hs_ask_now(struct tr_hs *s, tr_hs_step_fn *act);

/* The job that the path names, by id or by key: `act` asks for what is to be done with it. One of a
 * topic that this client may not touch is not there. */
void tr_hs_name_job(struct tr_hs *s, tr_hs_step_fn *act);

/* The topic that an argument names; none: all, or that of a token which is for one only. False: it
 * may not be, and was refused. */
bool tr_hs_topic_arg(struct tr_hs *s, struct tr_http_text *name);

/* ---- the routes ---- */

tr_hs_step_fn tr_hs_push; /* http_push.c */

/* Pushes a job as s->args say; `act`, in whose time s->req.out is the answer, tells it and may set
 * the next step. */
void tr_hs_push_job(struct tr_hs *s, struct tr_http_text topic, struct tr_http_text body,
                    tr_hs_step_fn *act);
void tr_hs_tell_pushed(struct tr_json *j, const struct tr_req *r);
struct tr_http_error tr_hs_push_error(struct tr_hs *s);
void tr_hs_fill_due(struct tr_hs *s);
struct tr_http_error tr_hs_too_large(void);
bool tr_hs_body_fits(struct tr_hs *s); /* of JSON; else it was refused */

tr_hs_step_fn tr_hs_show; /* http_job.c */

/* Does the client want the bytes of a job, and what else there is in headers? Tells the job in
 * s->req.out so; lease_key: with its lease. */
bool tr_hs_accepts_bytes(const struct tr_hs *s);
void tr_hs_job_bytes(struct tr_hs *s, const uint8_t *lease_key);
tr_hs_step_fn tr_hs_cancel;
tr_hs_step_fn tr_hs_edit;
tr_hs_step_fn tr_hs_fire;
tr_hs_step_fn tr_hs_kick;

tr_hs_step_fn tr_hs_ack; /* http_lease.c */
tr_hs_step_fn tr_hs_release;
tr_hs_step_fn tr_hs_bury;
tr_hs_step_fn tr_hs_touch;
uint64_t tr_hs_lease(const struct tr_hs *s, struct tr_http_text text, uint64_t id);
struct tr_http_error tr_hs_lease_error(int err, enum tr_job_state state);

tr_hs_step_fn tr_hs_push_many; /* http_many.c */
tr_hs_step_fn tr_hs_ack_many;

tr_hs_step_fn tr_hs_list; /* http_list.c */
tr_hs_step_fn tr_hs_bulk;
tr_hs_step_fn tr_hs_purge;

/* http_each.c: for each job of s->req.filter, of s->req.topic or of all. */
void tr_hs_each(struct tr_hs *s, struct tr_hs_each each);

tr_hs_step_fn tr_hs_topics; /* http_topic.c */
tr_hs_step_fn tr_hs_topic;
tr_hs_step_fn tr_hs_topic_set; /* and change */
tr_hs_step_fn tr_hs_topic_delete;
tr_hs_step_fn tr_hs_pause;
void tr_hs_tell_topic(struct tr_hs *s, struct tr_json *j); /* members of the one in s->req.out */

/* http_rank.c: GET /v1/topics with sort. */
void tr_hs_rank_topics(struct tr_hs *s);
void tr_hs_drop_ranks(struct tr_hs *s);
bool tr_hs_topic_wanted(const struct tr_hs *s);  /* is the one in s->req.out to be told of? */
bool tr_hs_outlet_wanted(const struct tr_hs *s); /* the same by what STAT_TOPIC says */
tr_hs_step_fn tr_hs_resume;

/* http_policy.c: the arguments into s->policy and s->req.fields. False: they were refused. */
bool tr_hs_read_policy(struct tr_hs *s);
void tr_hs_tell_policy(struct tr_json *j, const struct tr_policy *p, uint64_t now_us); /* members */

/* http_deliver.c: its field `deliver`, into s->policy; the same. */
bool tr_hs_read_deliver(struct tr_hs *s);
void tr_hs_tell_deliver(struct tr_json *j, const struct tr_policy *p);     /* a member, */
void tr_hs_tell_outlet(struct tr_json *j, const struct tr_outlet_view *v); /* and of a topic */

tr_hs_step_fn tr_hs_schedules; /* http_schedule.c */
tr_hs_step_fn tr_hs_schedule;
tr_hs_step_fn tr_hs_schedule_set;
tr_hs_step_fn tr_hs_schedule_delete;
tr_hs_step_fn tr_hs_schedule_run;
tr_hs_step_fn tr_hs_schedule_pause;
tr_hs_step_fn tr_hs_schedule_resume;
tr_hs_step_fn tr_hs_schedule_next;

tr_hs_step_fn tr_hs_forecast; /* http_figures.c */
tr_hs_step_fn tr_hs_stats;
tr_hs_step_fn tr_hs_config;
tr_hs_step_fn tr_hs_whoami;
tr_hs_step_fn tr_hs_healthz;
tr_hs_step_fn tr_hs_readyz;
tr_hs_step_fn tr_hs_openapi;

tr_hs_step_fn tr_hs_metrics; /* http_metrics.c */

tr_hs_step_fn tr_hs_dashboard; /* http_file.c */
tr_hs_step_fn tr_hs_dashboard_file;

tr_hs_step_fn tr_hs_reserve;              /* http_reserve.c */
tr_hs_step_fn tr_hs_reserve_none;         /* the wait is over */
tr_hs_step_fn tr_hs_reserve_unauthorized; /* the same: 401 */
void tr_hs_drop_topics(struct tr_hs *s);

/* Room for one more hand-out, so that it can be noted; it is; all that were are in the reply now.
 */
bool tr_hs_handout_room(struct tr_hs *s);
void tr_hs_note_handout(struct tr_hs *s, const struct tr_job_view *job);
void tr_hs_handouts_told(struct tr_hs *s, uint64_t end);

tr_hs_step_fn tr_hs_classic_push; /* http_classic.c */
tr_hs_step_fn tr_hs_classic_delete;
tr_hs_step_fn tr_hs_classic_get;
tr_hs_step_fn tr_hs_restore;
tr_hs_step_fn tr_hs_restore_job;

tr_hs_step_fn tr_hs_clock; /* http_clock.c */
tr_hs_step_fn tr_hs_advance;
tr_hs_step_fn tr_hs_history;
tr_hs_step_fn tr_hs_backup;

tr_hs_step_fn tr_hs_cluster; /* http_cluster.c */

#endif
