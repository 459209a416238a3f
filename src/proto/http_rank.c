/*
 * GET /v1/topics with `sort`: those with the most jobs, the highest rates, the oldest ready job.
 * With 10,000 topics a page that people look at costs a walk over counters that are there, and
 * never a list of them all.
 *
 *     each topic --> its value --> heap of the best `limit`, the worst of them on top --> in order,
 *                                                                                    told in full
 *
 * Nothing is kept between two requests, and the walk is a step for each topic, so others come to
 * their turn; a topic that is made or goes meanwhile may be in the list or not.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#include <string.h>

enum { RANKS = 100 };

enum { BY_DELAYED, BY_READY, BY_RESERVED, BY_DEAD, BY_PUSHED, BY_HANDED, BY_LATE, BY_OLDEST };

bool tr_hs_topic_wanted(const struct tr_hs *s)
{
    const char *name = s->req.out.name;
    size_t len = s->req.out.name_len;
    struct tr_http_text part = s->args.values[TR_ARG_MATCH].text;

    if (!tr_hs_may(s, name, len)) {
        return false;
    }
    if (!tr_hs_given(s, TR_ARG_MATCH)) {
        return true;
    }
    for (size_t at = 0; at + part.len <= len; at++) {
        if (memcmp(name + at, part.at, part.len) == 0) {
            return true;
        }
    }
    return false;
}

bool tr_hs_outlet_wanted(const struct tr_hs *s)
{
    const struct tr_policy *p = s->req.out.stat.policy;

    return tr_hs_number(s, TR_ARG_OUTLET, 0) == 0 || (p != NULL && p->deliver_len > 0);
}

/* ---- the heap ---- */

/* Of two that are the same the one that was made first comes first. */
static bool before(const struct tr_hs_rank *a, const struct tr_hs_rank *b)
{
    return a->value != b->value ? a->value > b->value : a->topic < b->topic;
}

/* The last one comes first of those below it: puts the one at `at` in its place among `count`. */
static void sink(struct tr_hs_rank *ranks, unsigned at, unsigned count)
{
    for (;;) {
        unsigned last = at;
        struct tr_hs_rank moved = ranks[at];

        for (unsigned child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            last = before(&ranks[last], &ranks[child]) ? child : last;
        }
        if (last == at) {
            return;
        }
        ranks[at] = ranks[last];
        ranks[last] = moved;
        at = last;
    }
}

static void offer(struct tr_hs *s, struct tr_hs_rank one)
{
    if (s->rank_count < s->rank_room) {
        s->ranks[s->rank_count++] = one;
        for (unsigned i = s->rank_count == s->rank_room ? s->rank_count / 2 : 0; i > 0; i--) {
            sink(s->ranks, i - 1, s->rank_count); /* it is full: now it becomes a heap */
        }
    } else if (before(&one, &s->ranks[0])) {
        s->ranks[0] = one;
        sink(s->ranks, 0, s->rank_count);
    }
}

/* From a heap, or none, to the order in which they are told. */
static void arrange(struct tr_hs *s)
{
    for (unsigned i = s->rank_count / 2; i > 0; i--) {
        sink(s->ranks, i - 1, s->rank_count);
    }
    for (unsigned left = s->rank_count; left > 1; left--) {
        struct tr_hs_rank last = s->ranks[0];

        s->ranks[0] = s->ranks[left - 1];
        s->ranks[left - 1] = last;
        sink(s->ranks, 0, left - 1);
    }
}

void tr_hs_drop_ranks(struct tr_hs *s)
{
    if (s->ranks != NULL) {
        tr_mem_free(s->port->mem, s->ranks, s->rank_room * sizeof s->ranks[0]);
        s->ranks = NULL;
        s->rank_count = 0;
        s->rank_room = 0;
    }
}

/* ---- telling them ---- */

static void tell_next(struct tr_hs *s);

static void told(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) { /* else it went meanwhile */
        tr_json_open(&s->json, '{');
        tr_hs_tell_topic(s, &s->json);
        tr_json_close(&s->json, '}');
    }
    s->next = tell_next;
}

static void tell_next(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->many.count < s->rank_count) {
        s->req.topic = s->ranks[s->many.count++].topic;
        s->req.counts_only = false;
        tr_hs_ask(s, TR_OP_STAT_TOPIC, told);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_hs_end_text(s, &r, "topics");
    tr_json_name(&r.json, "matched");
    tr_json_number(&r.json, s->number);
    tr_hs_close(s, &r);
}

/* ---- looking at them all ---- */

static void next_topic(struct tr_hs *s);

static uint64_t value_of(const struct tr_hs *s)
{
    const struct tr_topic_stat *stat = &s->req.out.stat;

    switch (tr_hs_number(s, TR_ARG_SORT, BY_DELAYED)) {
    case BY_READY:
        return stat->ready;
    case BY_RESERVED:
        return stat->reserved;
    case BY_DEAD:
        return stat->dead;
    case BY_PUSHED:
        return stat->pushed_milli;
    case BY_HANDED:
        return stat->handed_milli;
    case BY_LATE:
        return stat->late_p99_us;
    case BY_OLDEST:
        return stat->oldest_ready_us != 0 && stat->now_us > stat->oldest_ready_us
                   ? stat->now_us - stat->oldest_ready_us
                   : 0;
    default:
        return stat->delayed;
    }
}

static void looked(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK && tr_hs_outlet_wanted(s)) {
        s->number++;
        offer(s, (struct tr_hs_rank){.value = value_of(s), .topic = s->req.topic});
    }
    s->next = next_topic;
}

static void look(struct tr_hs *s)
{
    s->req.counts_only = true;
    tr_hs_ask(s, TR_OP_STAT_TOPIC, looked);
}

static void came(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        s->req.topic = s->req.out.topic;
        s->next = tr_hs_topic_wanted(s) ? look : next_topic;
    } else if (s->req.out.status != TARRY_ENOTFOUND) {
        tr_hs_fail(s);
    } else if (tr_hs_begin_text(s)) { /* that was the last one */
        arrange(s);
        s->many.count = 0;
        s->next = tell_next;
    }
}

static void next_topic(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_NEXT_TOPIC, came);
}

void tr_hs_rank_topics(struct tr_hs *s)
{
    unsigned room = (unsigned)tr_hs_number(s, TR_ARG_PAGE, RANKS);

    s->ranks = tr_mem_alloc(s->port->mem, room * sizeof s->ranks[0]);
    if (s->ranks == NULL) {
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
        return;
    }
    s->rank_room = room;
    s->rank_count = 0;
    next_topic(s);
}
