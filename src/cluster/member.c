/*
 * Ownership by rendezvous: each slot goes to the live node whose hash with it is the highest, and
 * that has not yet its full share. So all nodes come to the same answer from the same list without
 * a word, shares differ by one slot at most but for the last nodes, and when a node comes or goes
 * about its share moves.
 *
 * *Tenure.* A node is a member for lease_us after its beat, by the clock of Redis. It counts from
 * the moment it *sent* the beat by its own clock, and stops at two thirds: so it stops before
 * others take over, however long the answer took. A process that stood still (SIGSTOP, a paused
 * machine) does not know how long: the first look after a gap does nothing.
 */

#include "cluster/member.h"

/* A mixing step with good avalanche, so that slots spread evenly. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t weight(uint64_t node, unsigned slot)
{
    return mix(mix(node) + slot);
}

/* Equal weights go by name, so that the order of the list does not matter. */
static bool beats(uint64_t node, uint64_t w, uint64_t other, uint64_t other_w)
{
    return w > other_w || (w == other_w && node > other);
}

void tr_members_share(const struct tr_members *m, unsigned slots, uint8_t owner[TR_SLOTS_MAX])
{
    unsigned cap;
    unsigned has[TR_MEMBERS_MAX] = {0};

    TR_CHECK(m->count > 0 && m->count <= TR_MEMBERS_MAX && slots <= TR_SLOTS_MAX);
    cap = (slots + m->count - 1) / m->count;
    for (unsigned s = 0; s < slots; s++) {
        unsigned best = m->count;
        uint64_t best_w = 0;

        for (unsigned i = 0; i < m->count; i++) {
            uint64_t w = weight(m->nodes[i], s);

            if (has[i] < cap &&
                (best == m->count || beats(m->nodes[i], w, m->nodes[best], best_w))) {
                best = i;
                best_w = w;
            }
        }
        TR_CHECK(best < m->count);
        has[best]++;
        owner[s] = (uint8_t)best;
    }
}

void tr_tenure_init(struct tr_tenure *t, uint64_t lease_us)
{
    *t = (struct tr_tenure){.lease_us = lease_us};
}

static uint64_t beat_every(const struct tr_tenure *t)
{
    return t->lease_us * 3 / 10;
}

static uint64_t believed(const struct tr_tenure *t)
{
    return t->lease_us * 2 / 3;
}

bool tr_tenure_beat(struct tr_tenure *t, uint64_t now_us)
{
    if (t->sent_us != 0 || (t->since_us != 0 && now_us < t->since_us + beat_every(t))) {
        return false;
    }
    t->sent_us = now_us;
    return true;
}

uint64_t tr_tenure_next(const struct tr_tenure *t)
{
    if (t->sent_us != 0) {
        return t->since_us != 0 ? t->since_us + believed(t) : UINT64_MAX;
    }
    return t->since_us != 0 ? t->since_us + beat_every(t) : 0;
}

void tr_tenure_answered(struct tr_tenure *t)
{
    TR_CHECK(t->sent_us != 0);
    t->since_us = t->sent_us;
    t->sent_us = 0;
}

void tr_tenure_lost(struct tr_tenure *t)
{
    t->sent_us = 0;
}

bool tr_tenure_believes(const struct tr_tenure *t, uint64_t now_us)
{
    return t->since_us != 0 && now_us < t->since_us + believed(t);
}

bool tr_tenure_holds(struct tr_tenure *t, uint64_t now_us)
{
    uint64_t gap_us = t->turn_us != 0 ? now_us - t->turn_us : 0;

    t->turn_us = now_us;
    return tr_tenure_believes(t, now_us) && gap_us < believed(t);
}
