/*
 * Who has a meter of his own.
 *
 *     seats   | orders | mail | sms | ... 1,000      a name each, whether its topic is there or not
 *     other   what happens to all topics without a seat
 *
 * While there are seats left, each topic that is made gets one. Then a topic without one that is
 * busy asks for a seat with every eighth thing that happens to it; a hand goes round the seats, a
 * few at each such question, and one of which far less was heard since the hand was there before
 * (half as much, with what came earlier counting half each round) goes to who asks.
 *
 * What it had counted is added to `other`. So whatever happens,
 *
 *   1. no count of a seat goes down while its name stands there, and none of `other` ever does;
 *   2. the sum over all seats and `other` is what has happened since the start;
 *   3. a topic that vanishes and comes back goes on where it was, unless its seat was taken: then
 *      it begins anew at 0, as after a restart, which those who read counters know how to take.
 *      Whoever is left without a seat gets none before the next look has begun: so he is missing
 *      there, and no count goes down from one look to the next.
 *
 * The price of 2 is that the counts of `other` rise at once by all that the one who leaves had. As
 * it is one of which nothing was heard of late, that is seldom and mostly little.
 *
 * Those who read want neither names that come and go nor, in one page, a name twice or a count in
 * two lines: between two looks only some seats change their topic, and none while somebody looks.
 * One who goes away before he has seen all is forgotten when some have begun after him, or when
 * much has happened since. Who wants a seat meanwhile is refused, but is still known to be busy.
 *
 * Cost: counting is an addition and a comparison of two pointers; a topic without a seat pays some
 * 10 ns for each thing that happens. 600 bytes a seat.
 */

#include "rules/meter.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"

#include <string.h>

enum {
    ASKS = 8,        /* with so many things that happened, and each time with so many more, */
    LOOKS = 8,       /* it is looked at so many seats, */
    SPARE = 4,       /* and one goes to a topic of which twice as much was heard, and this */
    SWAPS_MAX = 200, /* between two looks at all of them */
    STILL = 256,     /* questions that are in vain, if he who looks is never heard of again */
    BEGUN_MAX = 4,   /* one who has not seen all when so many have begun is gone */
};

static const char other_name[] = "_other";

static uint64_t hash_of(const char *name, size_t len)
{
    return (uint64_t)tr_crc(0, name, len) << 32 | tr_crc(tr_crc_seed(len), name, len);
}

/* The name of all others is nobody's. */
static bool is_other(const char *name, size_t len)
{
    return len == sizeof other_name - 1 && memcmp(name, other_name, len) == 0;
}

static bool has_name(const struct tr_meter *m, const char *name, size_t len)
{
    return m->name_len == len && memcmp(m->name, name, len) == 0;
}

static void set_name(struct tr_meter *m, const char *name, size_t len)
{
    m->name_len = (uint32_t)len;
    memcpy(m->name, name, len);
}

void tr_meters_init(struct tr_meters *ms, struct tr_mem *mem, unsigned max)
{
    TR_CHECK(max <= TR_METERS_MAX);
    *ms = (struct tr_meters){.mem = mem, .max = max};
    tr_map_init(&ms->by_name, mem);
    set_name(&ms->other, other_name, sizeof other_name - 1);
}

void tr_meters_fini(struct tr_meters *ms)
{
    for (unsigned i = 0; i < ms->count; i++) {
        tr_mem_free(ms->mem, ms->seats[i], sizeof *ms->seats[i]);
    }
    tr_map_fini(&ms->by_name);
    ms->count = 0;
}

/* ---- seats ---- */

/* The seat of that name, a new one if there is none and it can be had, or NULL. */
static struct tr_meter *seat_of(struct tr_meters *ms, const char *name, size_t len)
{
    uint64_t hash = hash_of(name, len);
    struct tr_meter *m = tr_map_find(&ms->by_name, hash);

    if (m != NULL) {
        return has_name(m, name, len) ? m : NULL;
    }
    if (ms->count == ms->max || is_other(name, len)) {
        return NULL;
    }
    m = tr_mem_alloc(ms->mem, sizeof *m);
    if (m == NULL) {
        return NULL;
    }
    if (tr_map_put(&ms->by_name, hash, m) != TARRY_OK) {
        tr_mem_free(ms->mem, m, sizeof *m);
        return NULL;
    }
    set_name(m, name, len);
    ms->seats[ms->count++] = m;
    return m;
}

void tr_meters_join(struct tr_meters *ms, struct tr_meter_hold *hold, const char *name, size_t len)
{
    struct tr_meter *m = seat_of(ms, name, len);

    *hold = (struct tr_meter_hold){.meter = &ms->other, .round = ms->round, .lost = ms->told};
    if (m != NULL && m->hold == NULL) { /* else one that is being purged still has it */
        m->hold = hold;
        hold->meter = m;
    }
}

void tr_meters_leave(struct tr_meters *ms, struct tr_meter_hold *hold)
{
    if (hold->meter != NULL && hold->meter->hold == hold) {
        hold->meter->hold = NULL;
    }
    hold->meter = &ms->other;
}

/* ---- who is busy ---- */

static uint64_t all_of(const struct tr_meter *m)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < TR_METERED_COUNT; i++) {
        sum += m->counts[i];
    }
    return sum;
}

/* What was heard of it of late; the hand goes on. */
static uint64_t look_at(struct tr_meters *ms, struct tr_meter *m)
{
    uint64_t now = all_of(m);

    m->heat = m->heat / 2 + (now - m->seen);
    m->seen = now;
    ms->hand++;
    if (ms->hand == ms->count) {
        ms->hand = 0;
        ms->round++;
    }
    return m->heat;
}

/* The seat is another topic's from now on, if there is memory for its name. */
static void give(struct tr_meters *ms, struct tr_meter *m, struct tr_meter_hold *hold,
                 const char *name, size_t len)
{
    if (tr_map_reserve(&ms->by_name, 1) != TARRY_OK) {
        return;
    }
    for (unsigned i = 0; i < TR_METERED_COUNT && !TR_MUTANT(METER_FORGETS); i++) {
        ms->other.counts[i] += m->counts[i];
    }
    tr_hist_join(&ms->other.late, &m->late);
    tr_hist_join(&ms->other.wait, &m->wait);
    if (m->hold != NULL) {
        *m->hold =
            (struct tr_meter_hold){.meter = &ms->other, .round = ms->round, .lost = ms->told};
    }
    TR_CHECK(tr_map_put(&ms->by_name, hash_of(name, len), m) == TARRY_OK);
    TR_CHECK(tr_map_take(&ms->by_name, hash_of(m->name, m->name_len)) == m);
    *m = (struct tr_meter){.hold = hold, .heat = hold->heat};
    set_name(m, name, len);
    hold->meter = m;
    ms->swaps++;
}

static void ask(struct tr_meters *ms, struct tr_meter_hold *hold, const char *name, size_t len)
{
    if (ms->still > 0) {
        ms->still--;
        return;
    }
    if (is_other(name, len) || tr_map_find(&ms->by_name, hash_of(name, len)) != NULL) {
        return; /* the second one: another name has the same hash */
    }
    if (ms->count < ms->max) { /* there was no memory when it was made */
        tr_meters_join(ms, hold, name, len);
        return;
    }
    if (ms->told != 0 && (ms->swaps >= SWAPS_MAX || hold->lost == ms->told)) {
        return;
    }
    for (unsigned i = 0; i < LOOKS && i < ms->count; i++) {
        struct tr_meter *m = ms->seats[ms->hand];

        if (2 * look_at(ms, m) + SPARE <= hold->heat) {
            give(ms, m, hold, name, len);
            return;
        }
    }
}

struct tr_meter *tr_meters_seek(struct tr_meters *ms, struct tr_meter_hold *hold, const char *name,
                                size_t len)
{
    uint64_t rounds = ms->round - hold->round;

    hold->heat = rounds < 64 ? hold->heat >> rounds : 0;
    hold->round = ms->round;
    hold->heat++;
    if (hold->heat % ASKS == 0) {
        ask(ms, hold, name, len);
    }
    return hold->meter;
}

/* ---- for those who read ---- */

void tr_meters_look(struct tr_meters *ms, bool begins)
{
    if (begins) {
        bool gone = ms->still == 0 || ms->begun == BEGUN_MAX;

        ms->looks = gone ? 1 : ms->looks + 1;
        ms->begun = gone ? 1 : ms->begun + 1;
        ms->told++;
        ms->swaps = 0;
    }
    ms->still = STILL;
}

void tr_meters_looked(struct tr_meters *ms)
{
    ms->looks -= ms->looks > 0;
    if (ms->looks == 0) {
        ms->begun = 0;
        ms->still = 0;
    }
}

uint64_t tr_meters_sum(const struct tr_meters *ms, enum tr_metered what)
{
    uint64_t sum = ms->other.counts[what];

    for (unsigned i = 0; i < ms->count; i++) {
        sum += ms->seats[i]->counts[what];
    }
    return sum;
}

bool tr_meters_ok(const struct tr_meters *ms)
{
    bool ok = ms->count <= ms->max && ms->other.hold == NULL && ms->looks <= ms->begun &&
              ms->begun <= BEGUN_MAX && tr_map_count(&ms->by_name) == ms->count &&
              (ms->hand < ms->count || ms->hand == 0);

    for (unsigned i = 0; ok && i < ms->count; i++) {
        const struct tr_meter *m = ms->seats[i];

        ok = tr_map_find(&ms->by_name, hash_of(m->name, m->name_len)) == m &&
             (m->hold == NULL || m->hold->meter == m) && !is_other(m->name, m->name_len);
    }
    return ok;
}
