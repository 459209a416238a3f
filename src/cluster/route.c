/*
 * One command on its way through a cluster that moves.
 *
 *     what came                        what is done
 *     --------------------------------------------------------------------------------------------
 *     MOVED slot host:port             sent there; the map is old
 *     ASK slot host:port               sent there behind ASKING; the map stays
 *     TRYAGAIN                         sent again by the map in 5, 10 ... 100 ms
 *     NOSCRIPT                         sent again with the text, once
 *     LOADING CLUSTERDOWN MASTERDOWN   by a new map, in 10, 20 ... 640 ms
 *     READONLY                         the same: we talk to one who was a primary
 *     BUSY                             the same, but never SCRIPT KILL
 *     OOM MISCONF NOREPLICAS           refused: FULL
 *     lost                             the connection is closed; sent again, if a repeat is
 * answered as the first time not sent                         sent again CHECK NOSLOT (from a
 * script)     the script `check`, and then sent again CLOCK OTHER STALE                given up any
 * other error                  refused for ever
 *
 * Invariant: once an attempt was lost, the command may have been done. From then on it is either
 * answered by its repeat, or given up as UNKNOWN; a refusal of the repeat says nothing about the
 * first attempt. It follows that "nothing was done" (AWAY, FULL) is always true.
 *
 * A redirect costs no wait, but after five in a row the map is in motion and it waits like the
 * rest.
 */

#include "cluster/route.h"

#include <string.h>

enum { REDIRECTS_MAX = 5 };

#define TRYAGAIN_FIRST_US UINT64_C(5000)
#define TRYAGAIN_MOST_US UINT64_C(100000)
#define AWAY_FIRST_US UINT64_C(10000)
#define AWAY_MOST_US UINT64_C(640000)

void tr_route_init(struct tr_route *r, uint64_t deadline_us, bool repeats)
{
    *r = (struct tr_route){.deadline_us = deadline_us, .repeats = repeats};
}

bool tr_span_begins(struct tr_span s, const char *word)
{
    size_t len = strlen(word);

    return s.len >= len && memcmp(s.at, word, len) == 0 && (s.len == len || s.at[len] == ' ');
}

static bool begins_one(struct tr_span s, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (tr_span_begins(s, *words)) {
            return true;
        }
    }
    return false;
}

/* "MOVED 3999 127.0.0.1:6381": the last word. Empty if it has no port. */
static struct tr_span server_of(struct tr_span error)
{
    size_t at = error.len;

    while (at > 0 && error.at[at - 1] != ' ') {
        at--;
    }
    if (at == 0 || memchr(error.at + at, ':', error.len - at) == NULL) {
        return (struct tr_span){0};
    }
    return (struct tr_span){error.at + at, error.len - at};
}

static struct tr_route_step give_up(const struct tr_route *r, enum tr_route_why why)
{
    return (struct tr_route_step){.what = TR_DO_FAIL, .why = r->unknown ? TR_ROUTE_UNKNOWN : why};
}

/* By the map, after a while that doubles from time to time. Past the deadline: no more. */
static struct tr_route_step again(struct tr_route *r, uint64_t first_us, uint64_t most_us,
                                  uint64_t now_us)
{
    uint64_t wait_us = first_us << (r->waits < 16 ? r->waits : 16);

    if (wait_us > most_us) {
        wait_us = most_us;
    }
    r->waits++;
    r->redirects = 0;
    r->asking = false;
    r->text = false;
    if (now_us + wait_us > r->deadline_us) {
        return give_up(r, TR_ROUTE_AWAY);
    }
    return (struct tr_route_step){.what = TR_DO_SEND, .at_us = now_us + wait_us};
}

static struct tr_route_step again_by_new_map(struct tr_route *r, uint64_t now_us)
{
    struct tr_route_step step = again(r, AWAY_FIRST_US, AWAY_MOST_US, now_us);

    step.refresh = true;
    return step;
}

static struct tr_route_step redirect(struct tr_route *r, struct tr_span error, bool asking,
                                     uint64_t now_us)
{
    struct tr_span server = server_of(error);

    if (server.len == 0 || ++r->redirects > REDIRECTS_MAX) {
        return again_by_new_map(r, now_us);
    }
    r->asking = asking;
    r->text = false;
    return (struct tr_route_step){.what = TR_DO_SEND,
                                  .at_us = now_us,
                                  .server = server,
                                  .asking = asking,
                                  .refresh = !asking};
}

static struct tr_route_step refused(const struct tr_route *r, enum tr_route_why why)
{
    struct tr_route_step step = give_up(r, why);

    step.alarm = true;
    return step;
}

static struct tr_route_step on_error(struct tr_route *r, struct tr_span error, uint64_t now_us)
{
    static const char *const away[] = {"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY",
                                       "BUSY",    "UNBLOCKED",   NULL};
    static const char *const full[] = {"OOM", "MISCONF", "NOREPLICAS", NULL};

    if (tr_span_begins(error, "MOVED")) {
        return redirect(r, error, false, now_us);
    }
    if (tr_span_begins(error, "ASK")) {
        return redirect(r, error, true, now_us);
    }
    if (tr_span_begins(error, "TRYAGAIN")) {
        return again(r, TRYAGAIN_FIRST_US, TRYAGAIN_MOST_US, now_us);
    }
    if (tr_span_begins(error, "NOSCRIPT") && !r->text) {
        /* To the same server, as the last time: ASKING holds for one command only. */
        r->text = true;
        return (struct tr_route_step){
            .what = TR_DO_SEND, .at_us = now_us, .asking = r->asking, .text = true};
    }
    if (begins_one(error, away)) {
        return again_by_new_map(r, now_us);
    }
    if (begins_one(error, full)) {
        if (r->unknown) {
            struct tr_route_step step = again(r, AWAY_FIRST_US, AWAY_MOST_US, now_us);

            step.alarm = true;
            return step;
        }
        return (struct tr_route_step){.what = TR_DO_FAIL, .why = TR_ROUTE_FULL, .alarm = true};
    }
    return refused(r, TR_ROUTE_REFUSED);
}

static struct tr_route_step on_answer(struct tr_route *r, const struct tr_redis_reply *reply,
                                      uint64_t now_us)
{
    struct tr_span first =
        reply->count > 0 && !r->plain ? reply->items[0] : (struct tr_span){"", 0};

    if (tr_span_begins(first, "CHECK") || tr_span_begins(first, "NOSLOT")) {
        r->asking = false;
        r->text = false;
        if (now_us > r->deadline_us) {
            return give_up(r, TR_ROUTE_AWAY);
        }
        return (struct tr_route_step){.what = TR_DO_CHECK, .at_us = now_us};
    }
    if (tr_span_begins(first, "CLOCK")) {
        return refused(r, TR_ROUTE_CLOCK);
    }
    if (tr_span_begins(first, "OTHER")) {
        return refused(r, TR_ROUTE_REFUSED);
    }
    if (tr_span_begins(first, "STALE")) {
        r->unknown = true; /* a newer one of ours was answered: nobody knows of this one any more */
        return refused(r, TR_ROUTE_UNKNOWN);
    }
    return (struct tr_route_step){.what = TR_DO_ANSWER};
}

struct tr_route_step tr_route_next(struct tr_route *r, const struct tr_redis_reply *reply,
                                   uint64_t now_us)
{
    struct tr_route_step step;

    if (reply->event == TR_REDIS_LIST) {
        return on_answer(r, reply, now_us);
    }
    if (reply->event == TR_REDIS_ERROR) {
        return on_error(r, reply->error, now_us);
    }
    if (reply->event == TR_REDIS_UNSENT) {
        return again_by_new_map(r, now_us);
    }
    r->unknown = true;
    step = r->repeats ? again_by_new_map(r, now_us) : give_up(r, TR_ROUTE_UNKNOWN);
    step.close = true;
    step.refresh = true;
    return step;
}
