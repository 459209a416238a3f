#ifndef TR_CLUSTER_HEADER_H
#define TR_CLUSTER_HEADER_H

/*
 * A job's header as it stands in Redis: all of it but the body. See header.c for the layout, and
 * load() and open() in lua/common.lua for the other reader.
 */

#include "base/check.h"
#include "port/request.h"
#include "rules/backoff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_header_flag {
    TR_HEADER_BEANSTALK = 1, /* made on that port */
    TR_HEADER_HELD = 2,      /* reserved by a connection: released when that or its node is gone */
                             /* from 8 on: what the bytes have, see header.c */
};

#define TR_RETRIES_USUAL UINT32_MAX /* none were given: tr_policy_retries */
#define TR_RETRIES_NO_END (UINT32_MAX - 1)

/* Texts are borrowed from what was read. */
struct tr_header {
    char set; /* s: store, r: ready, p: prepared, d: dead */
    uint32_t ver;
    uint32_t priority;
    uint64_t due_us;
    uint64_t at_us; /* end of the lease, or time of death */
    uint64_t lease;
    uint32_t attempts, timeouts, releases, buries, kicks;
    uint8_t why; /* enum tr_why */
    uint64_t delay_us;
    uint64_t ttr_us; /* 0: none was given */
    uint64_t ttl_us; /* 0: none */
    uint32_t retries;
    unsigned flags; /* enum tr_header_flag */
    uint64_t created_us;
    uint32_t body_len;
    const char *topic, *tag, *key, *backoff;
    size_t topic_len, tag_len, key_len, backoff_len;
    const char *schedule; /* that waits for its end */
    size_t schedule_len;
};

/* Those of a push. */
uint32_t tr_header_retries(const struct tr_req *push);

/* TARRY_EDAMAGED: that is none. */
TR_MUST_USE int tr_header_read(const char *text, size_t len, struct tr_header *h);

enum { TR_HEADER_BACKOFF = 1024, TR_HEADER_MAX = 93 + 255 * 3 + TR_HEADER_BACKOFF };
/* The same the other way; gives the length. out has room for TR_HEADER_MAX. */
size_t tr_header_write(char *out, const struct tr_header *h);

/*
 * A new job's header is put together by the script that makes it: this is how it ends, behind the
 * delay, and what its byte of flags is. *key_at: where in that the key is; 0: there is none.
 */
size_t tr_header_write_end(char *out, const struct tr_header *h, size_t *key_at);
unsigned tr_header_flags(const struct tr_header *h);

/* Which state others see: a stored job that is due is ready. */
enum tr_job_state tr_header_state(const struct tr_header *h, uint64_t now_us);

/* As the ports tell it. *backoff has room for the job's own, to which the view may point. */
void tr_header_view(const struct tr_header *h, uint64_t id, uint64_t now_us,
                    struct tr_backoff *backoff, struct tr_job_view *view);

/* A backoff as scripts read it: l<us>,<us>... or e<base>,<factor/100>,<max>,<jitter/1000>. Gives
 * the length, 0 for NULL. TARRY_EDAMAGED: that is none. */
size_t tr_header_put_backoff(char out[TR_HEADER_BACKOFF], const struct tr_backoff *b);
TR_MUST_USE int tr_header_get_backoff(const char *text, size_t len, struct tr_backoff *b);

#endif
