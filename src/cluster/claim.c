/*
 * Claims: Redis has said which jobs may be to be had, for three seconds; now the database is asked
 * (sql_take.c), and its rows decide.
 *
 *     take ──► `claim` ──► jobs ──► aside ──► CHANGE ──► won: to those it was asked for
 *       ▲                   │                    └────► lost: those are asked for again
 *       └─ the next one ◄───┘
 *
 * The slot asks on while the database is busy with what it named: so several claims are under way,
 * each over the connection that has least to do. A job that is claimed is not claimed again for
 * three seconds; if it is, since the database takes longer than that, the row decides: those two
 * claims are never in one ask (sql_take.c). What is asked of Redis itself goes one after the other,
 * since a slot keeps one answer for each node.
 *
 * Another claim goes beside those that are under way for the same topic when a quarter of all who
 * are about stand in line: else each would be for the one who came last, and a transaction costs
 * the database more than a job in it. Whoever waits for that is asked for when one has ended.
 *
 * If there is no memory for another claim the slot waits for this one.
 *
 * *Invariant.* Who was asked for is in one group: that of the take, or of one of its asides.
 */

#include "base/err.h"
#include "cluster/mutant.h"
#include "cluster/take.h"

#include <string.h>

#define AWAY_AGAIN_US UINT64_C(1000000)
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define OWED_MOST_US UINT64_C(3600000000) /* by then nearly all leases have ended */

enum { ASIDES = 8, CROWD_PART = 4 }; /* of a slot; as in lane.c */

static tr_item_fn claimed;

/* ---- begin and end ---- */

static struct tr_claim *claim_new(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_claim *claim = tr_mem_alloc(c->mem, sizeof *claim);

    if (claim != NULL) {
        claim->take = take;
        claim->item = (struct tr_item){.inner = true, .end = claimed, .slot = take->slot};
        tr_list_init(&claim->item.link);
    }
    return claim;
}

bool tr_claim_make(struct tr_cluster *c, struct tr_take *take)
{
    if (c->desk == NULL) {
        return true;
    }
    for (unsigned i = 0; i < c->desk->conns; i++) { /* so that nothing can fail later */
        if (tr_lane_of(c, TR_CL_CLAIM, i) == NULL) {
            return false;
        }
    }
    take->claim = claim_new(c, take);
    return take->claim != NULL;
}

void tr_claim_drop(struct tr_cluster *c, struct tr_take *take)
{
    if (take->claim != NULL) {
        tr_list_remove(&take->claim->item.link);
        tr_mem_free(c->mem, take->claim, sizeof *take->claim);
        take->claim = NULL;
    }
}

static void aside_free(struct tr_cluster *c, struct tr_take *aside)
{
    tr_list_remove(&aside->aside);
    tr_take_drop_rooms(c, aside);
    tr_claim_drop(c, aside);
    aside->of->aside_count--;
    tr_mem_free(c->mem, aside, sizeof *aside);
}

void tr_claims_free(struct tr_cluster *c, struct tr_take *take)
{
    while (!tr_list_empty(&take->asides)) {
        aside_free(c, TR_CONTAINER_OF(take->asides.next, struct tr_take, aside));
    }
}

bool tr_claim_may(const struct tr_take *take)
{
    const struct tr_spot *spot = TR_CONTAINER_OF(take->spots.next, struct tr_spot, queued);
    unsigned flying = 0;
    unsigned enough;

    for (const struct tr_list *n = take->asides.next; n != &take->asides; n = n->next) {
        const struct tr_take *aside = TR_CONTAINER_OF(n, struct tr_take, aside);

        flying += aside->spot == spot ? aside->want : 0;
    }
    enough = (flying + CROWD_PART - 2) / (CROWD_PART - 1);
    return take->aside_count < ASIDES && tr_take_open(spot, enough) >= enough;
}

/* What the take has asked waits elsewhere; NULL: no memory. */
static struct tr_take *set_aside(struct tr_cluster *c, struct tr_take *take)
{
    struct tr_take *aside = tr_mem_alloc(c->mem, sizeof *aside);
    struct tr_claim *next = aside != NULL ? claim_new(c, take) : NULL;

    if (next == NULL) {
        tr_mem_free(c->mem, aside, sizeof *aside);
        return NULL;
    }
    tr_list_init(&aside->dirty);
    tr_list_init(&aside->group);
    aside->of = take;
    aside->slot = take->slot;
    aside->spot = take->spot;
    aside->round = take->round;
    aside->want = take->want;
    aside->tagged = take->tagged;
    aside->told = take->told;
    aside->next_us = take->next_us;
    aside->more = take->more;
    aside->told_jobs = take->told_jobs;
    memcpy(aside->rooms, take->rooms, take->room_count * sizeof take->rooms[0]);
    aside->room_count = take->room_count;
    take->room_count = 0;
    aside->claim = take->claim;
    aside->claim->take = aside;
    take->claim = next;
    tr_list_append(&take->asides, &aside->aside);
    take->aside_count++;
    tr_take_part(c, take, aside);
    return aside;
}

/* ---- the database's answer ---- */

void tr_take_won(struct tr_cluster *c, struct tr_claim *claim, const struct tr_taken_job *job,
                 uint64_t now_us)
{
    claim->take->won++;
    tr_take_came(c, claim->take, job, now_us);
}

void tr_take_unsure(struct tr_cluster *c, struct tr_claim *claim, uint64_t id)
{
    struct tr_take *take = claim->take;
    struct tr_holding *g = take->rooms[--take->room_count];

    tr_item_pin(&g->item, claim->item.topic);
    g->item.id = id;
    g->item.lease = claim->lease;
    g->end_us = c->now.boot_us + OWED_MOST_US;
    tr_hold_return(c, g, false);
}

/* All is known of it, or there was nothing to ask the database. */
static void claimed(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_take *take = TR_CONTAINER_OF(item, struct tr_claim, item)->take;
    struct tr_take *main = take->of != NULL ? take->of : take;
    struct tr_ctopic *topic = item->topic;
    struct tr_claim *claim = TR_CONTAINER_OF(item, struct tr_claim, item);
    /* One that was not to be had leaves somebody with nothing though there may be more. */
    struct tr_taken t = {.next_us = take->next_us,
                         .more = take->more || take->claim->lost > 0,
                         .jobs = take->claim->lost > 0 ? take->told_jobs : take->won};

    item->topic = NULL;
    c->claims_under_way -= claim->asked;
    claim->asked = false;
    if (take->tending) {
        tr_take_end_tending(c, take, item->status);
        tr_ctopic_unpin(c, topic);
    } else if (item->status != TARRY_OK) {
        tr_take_give_up(c, take, item->status, AWAY_AGAIN_US);
    } else {
        tr_take_end(c, take, &t);
        tr_ctopic_unpin(c, topic);
    }
    if (take != main) {
        aside_free(c, take);
    }
    tr_take_mark(c, main);
}

/* ---- Redis' answer ---- */

static void read_jobs(struct tr_take *take, const struct tr_answer *a, size_t jobs)
{
    struct tr_claim *claim = take->claim;

    claim->count = 0;
    claim->lost = 0;
    take->won = 0;
    take->told_jobs = 0;
    for (size_t i = 0; i < jobs && claim->count < TR_CLAIM_IDS; i++) {
        unsigned n = claim->count;

        if (tr_answer_claimed_job(a, i, &claim->whats[n], &claim->ids[n]) == TARRY_OK &&
            (claim->whats[n] != 'C' || take->told_jobs < take->room_count)) {
            take->told_jobs += claim->whats[n] == 'C';
            claim->count++;
        }
    }
}

/* Which jobs may be to be had: the database is asked. */
static int read_claim(struct tr_cluster *c, struct tr_take *take, const struct tr_answer *a,
                      struct tr_ctopic *topic)
{
    struct tr_claim *claim = take->claim;
    struct tr_claimed t;

    if (tr_answer_claimed(a, &t) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    read_jobs(take, a, t.jobs);
    claim->bytes = t.bytes;
    claim->version = tr_answer_version(a, 0) != UINT32_MAX ? tr_answer_version(a, 0) : 0;
    take->next_us = t.next_us;
    take->more = t.more;
    tr_load_hint(c, topic, take->slot, &(struct tr_indexed){t.loaded_us, t.left});
    if (!take->tending) {
        tr_take_news(
            c, take,
            &(struct tr_taken){.next_us = t.next_us, .more = t.more, .jobs = take->told_jobs},
            tr_cluster_server_now(c));
    }
    claim->item.topic = topic;
    if (claim->count == 0) {
        claim->item.status = TARRY_OK;
        claimed(c, &claim->item);
        return TARRY_OK;
    }
    claim->asked = true;
    c->claims_under_way++;
    tr_lane_add(c, tr_lane_of(c, TR_CL_CLAIM, tr_lines_least(c->desk, tr_desk_conn(c, take->slot))),
                &claim->item);
    if (!take->tending) {
        (void)set_aside(c, take);
    }
    return TARRY_OK;
}

void tr_claim_heard(struct tr_cluster *c, struct tr_take *take, const struct tr_redis_reply *reply)
{
    struct tr_ctopic *topic = take->tending ? take->keeper->topic : take->spot->topic;
    struct tr_answer a;

    if (tr_answer_read(reply, &a) == TARRY_OK) {
        tr_lane_common(c, &a,
                       &(struct tr_lane_told){.slot = take->slot, .topics = &topic, .count = 1});
        if (take->tending) {
            tr_ctopic_pin(topic);
        }
        if (read_claim(c, take, &a, topic) == TARRY_OK) {
            return;
        }
        if (take->tending) {
            tr_ctopic_unpin(c, topic);
        }
    }
    if (take->tending) {
        tr_take_end_tending(c, take, TARRY_EDAMAGED);
    } else {
        tr_take_give_up(c, take, TARRY_EAWAY, NO_MEMORY_AGAIN_US);
    }
    if (tr_lane_spread(reply) != 0) {
        (void)tr_ctopic_set_spread(c, topic, tr_lane_spread(reply));
    }
}
