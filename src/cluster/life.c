/*
 * Which database this is: the store that it has, and the life of its server.
 *
 * *The store.* Its uuid, slots and prefix are the database's; the first node writes them. Before
 * they are known nothing is written to Redis: a store that is made there with a name of its own
 * would be another one.
 *
 * *Another life.* A server that was started anew, or another one after a failover, may have lost
 * what was committed last. The port has seen to ids, epochs and versions of settings (remote/
 * sql_life.c), and refuses what is asked by somebody who knows the life before. Here all goes that
 * was read in that:
 *
 *     numbers for ids                    new ones come from the new server
 *     numbers of topics, their settings  read again; they may be others'
 *     what waits in lanes                hears that the database is away, as it was
 *     images that are not sent yet       their commits may be undone
 *     epochs                             asked for again
 *
 * and the index is compared with the rows, by the owners of all slots: entries that are newer than
 * their rows, or of the same version and different, are set right (align.c). Each node does so when
 * it notices: what one that notices late still sends into the index is found then.
 */

#include "cluster/load.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/mutant.h"

#include <string.h>

#define AGAIN_US UINT64_C(300000)

/* ---- the store ---- */

static void agreed(struct tr_cluster *c, struct tr_desk_call *call)
{
    const struct tr_sql_ask *ask = &call->ask;
    struct tr_desk *d = c->desk;

    if (ask->end != TR_SQL_DONE || ask->uuid.len == 0 || ask->uuid.len > TR_CLUSTER_UUID) {
        d->agree_us = c->now.boot_us + AGAIN_US;
        return;
    }
    if (ask->first != c->layout.slots || ask->prefix.len != c->layout.prefix_len ||
        memcmp(ask->prefix.at, c->layout.prefix, ask->prefix.len) != 0) {
        char why[TR_CL_WHY];

        tr_text(why, sizeof why,
                "the rows in the database are those of a store with %u slots and the prefix %.*s; "
                "this node is set up for %u slots and the prefix %s",
                (unsigned)ask->first, (int)ask->prefix.len, ask->prefix.at, c->layout.slots,
                c->layout.prefix);
        tr_home_refuse(c, TR_CL_LAYOUT, why);
        d->agree_us = c->now.boot_us + AGAIN_US;
        return;
    }
    memcpy(c->fresh_uuid, ask->uuid.at, ask->uuid.len);
    c->fresh_uuid[ask->uuid.len] = '\0';
    d->agreed = true;
}

bool tr_life_agreed(const struct tr_cluster *c)
{
    return c->desk == NULL || c->desk->agreed;
}

void tr_life_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;

    if (!d->agreed && !d->agree.busy && !c->leaving && d->agree_us <= c->now.boot_us) {
        d->agree.done = agreed;
        d->agree.ask = (struct tr_sql_ask){.kind = TR_SQL_AGREE,
                                           .name = {c->fresh_uuid, strlen(c->fresh_uuid)},
                                           .number = c->layout.slots,
                                           .text = {c->layout.prefix, c->layout.prefix_len}};
        tr_desk_send(c, &d->agree);
    }
}

uint64_t tr_life_next(const struct tr_cluster *c)
{
    const struct tr_desk *d = c->desk;

    return d->agreed || d->agree.busy || c->leaving ? TR_CL_NEVER : d->agree_us;
}

/* ---- another life ---- */

static void forget_topics(struct tr_cluster *c)
{
    for (struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);

        if (t->row != 0) {
            (void)tr_map_take(&c->desk->topics, t->row);
        }
        t->row = 0;
        t->known = false;
        t->kept = false;
        t->loaded = false;
    }
}

static void another(struct tr_cluster *c)
{
    tr_cluster_note(
        c, TR_NOTE_WARNING,
        "The server of the database is another one, or was started anew: what it has is "
        "read again, and compared with Redis. If it is one to which a failover led, the "
        "last commits may be lost.");
    c->desk->lives++;
    if (!TR_CL_MUTANT(TOPICS_KEPT)) {
        forget_topics(c);
    }
    tr_numbers_forget(c);
    tr_desk_lanes_refuse(c);
    tr_images_forget(c);
    for (unsigned s = 0; s < c->layout.slots; s++) {
        c->slots[s].sworn = false;
    }
    tr_align_everything(c);
    tr_recurs_look_all(c);
}

/* Answers may come in another order than they were made: so only one that was refused for its life
 * tells that there is another one. What was asked when none was known tells the first. */
void tr_life_heard(struct tr_cluster *c, uint64_t asked, uint64_t life)
{
    struct tr_desk *d = c->desk;

    if (life == 0 || life == d->life) {
        return;
    }
    if (d->life == 0) {
        d->life = life;
    } else if (asked == d->life) {
        d->life = life;
        another(c);
    }
}
