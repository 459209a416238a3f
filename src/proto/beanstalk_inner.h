#ifndef TR_PROTO_BEANSTALK_INNER_H
#define TR_PROTO_BEANSTALK_INNER_H

/* Between the files that together are a session of the beanstalk protocol. */

#include "proto/beanstalk.h"

/* beanstalk.c */

/* Sends s->req, of which only `op` and what that needs is set, to the queue; `then` is called when
 * it is answered and may look at s->req.out, reply, and set the next step; but not ask again. */
void tr_bs_ask(struct tr_bs_session *s, enum tr_op op, tr_bs_step_fn *then);

/* Forgets the body that is kept; for when the queue has taken it. */
void tr_bs_drop_body(struct tr_bs_session *s);

/* Says a whole line when the answer of the queue may be told; end is "\r\n" included. */
void tr_bs_say(struct tr_bs_session *s, const char *line);
void tr_bs_say_number(struct tr_bs_session *s, const char *word, uint64_t number);

/* For anything but success. */
void tr_bs_say_error(struct tr_bs_session *s, int status);

/* word, id and length, and then the body of the job that the queue gave. */
void tr_bs_say_job(struct tr_bs_session *s, const char *word, const struct tr_job_view *job);

/* OK, length, text. */
void tr_bs_say_text(struct tr_bs_session *s, const void *text, size_t len);

/* Where CR and LF stand together, or NULL. */
const uint8_t *tr_bs_find_end(const uint8_t *bytes, size_t len);

/* beanstalk_ahead.c */

/* While a put, delete or reserve is under way: takes the next one, if these bytes are one and it
 * may go ahead, and says how many; else 0. */
size_t tr_bs_ahead(struct tr_bs_session *s, const uint8_t *bytes, size_t len);
/* Says what can be said of those, when the one before them was told. */
void tr_bs_ahead_say(struct tr_bs_session *s);
/* The session ends. */
void tr_bs_ahead_drop(struct tr_bs_session *s, bool abandon, struct tr_now now);
/* Of those that are reserves: are there any? They take what is there, and wait no longer; they are
 * given up, and it were so many. */
bool tr_bs_ahead_waits(const struct tr_bs_session *s);
void tr_bs_ahead_end_waits(struct tr_bs_session *s, struct tr_now now);
unsigned tr_bs_ahead_drop_waits(struct tr_bs_session *s, struct tr_now now);

/* beanstalk_do.c */

/* What the line of a put says of its job. */
void tr_bs_set_put(const struct tr_bs_session *s, struct tr_req *r, const struct tr_bs_line *line);
/* What a reserve asks for, and says. */
void tr_bs_set_reserve(const struct tr_bs_session *s, struct tr_req *r, uint64_t wait_us);
void tr_bs_say_reserved(struct tr_bs_session *s, const struct tr_req *r);

/* Executes s->line; for a put, which is a line and a body, the second. */
void tr_bs_do(struct tr_bs_session *s);
void tr_bs_do_put(struct tr_bs_session *s, const uint8_t *body, size_t len);
tr_bs_step_fn tr_bs_do_open;  /* the first step of a session */
tr_bs_step_fn tr_bs_do_close; /* the last ones; sets gone */

/* beanstalk_auth.c */

/* May this line be executed? NULL, or what is said instead. */
const char *tr_bs_guard(struct tr_bs_session *s, enum tr_bs_verdict verdict, const char *text,
                        size_t len);
tr_bs_step_fn tr_bs_do_auth;
tr_bs_step_fn tr_bs_look_again; /* drops the topics that are not for this token */

/* Commands about a job by its id: first whether its topic is for this token; then comes `act`. */
void tr_bs_name_job(struct tr_bs_session *s, tr_bs_step_fn *act);

/* beanstalk_text.c */
tr_bs_step_fn tr_bs_text_stats;
tr_bs_step_fn tr_bs_text_stats_job;
tr_bs_step_fn tr_bs_text_stats_tube;

#endif
