/*
 * Events of jobs, in the order in which they happened.
 *
 *     pieces:  | 64 KiB, full | full | full | being filled |       16 bytes an event
 *               ^ goes first: too old, or too many
 *
 *     word 0:  id 53 bits, what 4, why 4, state 3       word 1:  actor 11 bits, time 53
 *
 * To note one is to write two words behind the last. To find those of a job is to look at all
 * pieces whose ids include it, which is 64 MiB of memory at most and cut in slices by the caller;
 * nobody asks often. A piece is given back when its youngest event is older than keep_us, or when
 * there are too many: when a new one is begun, and whenever somebody asks.
 *
 * Place of an event: number of its piece since the start, times its events, plus its place there.
 * So a place can be kept while pieces come and go.
 *
 * When a job was made its record says, but a far job dies without a look at that. Ids are in the
 * order of time, so it is enough to know the time of some: of one in each tenth of a second in
 * which there is any, the last 65,536 of them (1 MiB). A push costs a comparison. A start learns
 * them from the log, as far as that goes; where something is missing in it they are not known.
 */

#include "engine/history.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/mutant.h"

#include <assert.h>
#include <string.h>

enum { WHAT_BITS = 4, WHY_BITS = 4, STATE_BITS = 3, BITS = WHAT_BITS + WHY_BITS + STATE_BITS };

/* 53 bits of microseconds last until the year 2255; a test clock beyond that is told as then. */
#define TIME_BITS 53
#define TIME_MAX ((UINT64_C(1) << TIME_BITS) - 1)

static_assert(TR_ACTORS_MAX < 1 << (64 - TIME_BITS), "an actor fits");

static uint64_t time_of(uint64_t when)
{
    return when & TIME_MAX;
}

static uint64_t pack(uint64_t id, const struct tr_event *e)
{
    TR_CHECK(id < UINT64_C(1) << (64 - BITS));
    return id << BITS | (uint64_t)e->what << (WHY_BITS + STATE_BITS) |
           (uint64_t)e->why << STATE_BITS | e->state;
}

static uint64_t pack_when(const struct tr_event *e)
{
    return (uint64_t)(e->actor <= TR_ACTORS_MAX ? e->actor : 0) << TIME_BITS |
           (e->at_us < TIME_MAX ? e->at_us : TIME_MAX);
}

static struct tr_event unpack(uint64_t what, uint64_t when)
{
    return (struct tr_event){
        .at_us = time_of(when),
        .actor = (uint32_t)(when >> TIME_BITS),
        .what = (uint8_t)(what >> (WHY_BITS + STATE_BITS) & ((1U << WHAT_BITS) - 1)),
        .why = (uint8_t)(what >> STATE_BITS & ((1U << WHY_BITS) - 1)),
        .state = (uint8_t)(what & ((1U << STATE_BITS) - 1)),
    };
}

void tr_histories_init(struct tr_histories *h, uint64_t now_us)
{
    *h = (struct tr_histories){.since_us = now_us};
    tr_mem_init(&h->mem, 0);
    tr_list_init(&h->pieces);
}

static struct tr_history_piece *oldest(const struct tr_histories *h)
{
    return TR_CONTAINER_OF(h->pieces.next, struct tr_history_piece, link);
}

static struct tr_history_piece *newest(const struct tr_histories *h)
{
    return TR_CONTAINER_OF(h->pieces.prev, struct tr_history_piece, link);
}

static void drop_oldest(struct tr_histories *h)
{
    struct tr_history_piece *p = oldest(h);

    h->since_us = p->newest_us + 1 > h->since_us ? p->newest_us + 1 : h->since_us;
    h->hint = h->hint == &p->link ? NULL : h->hint;
    tr_list_remove(&p->link);
    tr_mem_free(&h->mem, p, sizeof *p);
    h->bytes -= sizeof *p;
    h->first++;
}

void tr_histories_fini(struct tr_histories *h)
{
    while (h->pieces.next != NULL && !tr_list_empty(&h->pieces)) {
        drop_oldest(h);
    }
    if (h->made != NULL) {
        tr_mem_free(&h->mem, h->made, h->made_room * sizeof *h->made);
    }
    tr_mem_free(&h->mem, h->actors, h->actor_room * sizeof h->actors[0]);
    *h = (struct tr_histories){0};
}

/* Room for one more; the oldest quarter goes when there are enough. False: no memory. */
static bool make_room(struct tr_histories *h)
{
    uint32_t room = h->made_room == 0 ? 64 : h->made_room * 2;
    struct tr_made *made;

    if (h->made != NULL && h->made_count < h->made_room) {
        return true;
    }
    if (h->made != NULL && h->made_room == TR_MADE_MAX) {
        h->made_count -= TR_MADE_MAX / 4;
        memmove(h->made, h->made + TR_MADE_MAX / 4, h->made_count * sizeof *h->made);
        return true;
    }
    made = tr_mem_stretch(&h->mem, h->made, h->made_room * sizeof *made, room * sizeof *made);
    if (made == NULL) {
        return false;
    }
    h->made = made;
    h->made_room = room;
    return true;
}

void tr_histories_made(struct tr_histories *h, uint64_t id, uint64_t now_us)
{
    const struct tr_made *last = h->made_count != 0 ? &h->made[h->made_count - 1] : NULL;

    if (h->bytes_max == 0 || (last != NULL && id <= last->id) ||
        (last != NULL && last->at_us != 0 && now_us - last->at_us < TR_MADE_EVERY_US)) {
        return;
    }
    if (make_room(h)) {
        h->made[h->made_count++] = (struct tr_made){id, now_us};
    } else {
        h->made_count = 0; /* those that follow would count for the last one */
    }
}

uint64_t tr_histories_when(const struct tr_histories *h, uint64_t id)
{
    uint32_t low = 0; /* those before it are not behind the id */
    uint32_t high = h->made_count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (h->made[mid].id <= id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low > 0 ? h->made[low - 1].at_us : 0;
}

uint32_t tr_histories_actor(struct tr_histories *h, const char *name, size_t len)
{
    TR_CHECK(len >= 1 && len <= TR_ACTOR_NAME_MAX);
    for (uint32_t i = 0; i < h->actor_count; i++) {
        if (h->actors[i].len == len && memcmp(h->actors[i].name, name, len) == 0) {
            return i + 1;
        }
    }
    if (h->actor_count == TR_ACTORS_MAX) {
        return 0;
    }
    if (h->actor_count == h->actor_room) {
        uint32_t room = h->actor_room > 0 ? h->actor_room * 2 : 8;
        struct tr_actor *more =
            tr_mem_resize(&h->mem, h->actors, h->actor_room * sizeof *more, room * sizeof *more);

        if (more == NULL) {
            return 0;
        }
        h->actors = more;
        h->actor_room = room;
    }
    h->actors[h->actor_count].len = (uint8_t)len;
    memcpy(h->actors[h->actor_count].name, name, len);
    return ++h->actor_count;
}

void tr_histories_age(struct tr_histories *h, uint64_t now_us)
{
    uint64_t from_us = now_us > h->keep_us ? now_us - h->keep_us : 0;

    while (!tr_list_empty(&h->pieces) && oldest(h)->newest_us < from_us) {
        drop_oldest(h);
    }
    h->since_us = from_us > h->since_us ? from_us : h->since_us;
}

void tr_histories_limit(struct tr_histories *h, uint64_t bytes_max, uint64_t keep_us,
                        uint64_t now_us)
{
    h->bytes_max = bytes_max;
    h->keep_us = keep_us;
    tr_histories_age(h, now_us);
    while (!tr_list_empty(&h->pieces) && h->bytes > h->bytes_max) {
        drop_oldest(h);
    }
}

/* A new piece behind the others. NULL: no memory. */
static struct tr_history_piece *begin(struct tr_histories *h, uint64_t now_us)
{
    struct tr_history_piece *p;

    tr_histories_age(h, now_us);
    while (!tr_list_empty(&h->pieces) && h->bytes + sizeof *p > h->bytes_max) {
        drop_oldest(h);
    }
    p = h->bytes + sizeof *p <= h->bytes_max ? tr_mem_stretch(&h->mem, NULL, 0, sizeof *p) : NULL;
    if (p == NULL) {
        return NULL;
    }
    p->id_least = UINT64_MAX;
    p->id_most = 0;
    p->newest_us = 0;
    p->no = h->next_no++;
    p->count = 0;
    tr_list_init(&p->link);
    tr_list_append(&h->pieces, &p->link);
    h->bytes += sizeof *p;
    return p;
}

void tr_histories_add(struct tr_histories *h, uint64_t id, const struct tr_event *event)
{
    struct tr_history_piece *p = tr_list_empty(&h->pieces) ? NULL : newest(h);

    h->noted++;
    if (p == NULL || p->count == TR_HISTORY_PIECE) {
        p = begin(h, event->at_us);
    }
    if (p == NULL) {
        h->since_us = event->at_us + 1 > h->since_us ? event->at_us + 1 : h->since_us;
        return;
    }
    p->events[p->count].what = pack(id, event);
    p->events[p->count++].when = pack_when(event);
    p->newest_us = event->at_us > p->newest_us ? event->at_us : p->newest_us;
    p->id_least = id < p->id_least ? id : p->id_least;
    p->id_most = id > p->id_most ? id : p->id_most;
}

bool tr_histories_read(struct tr_histories *h, uint32_t no, const uint8_t *bytes, uint32_t count)
{
    bool known = true;

    h->next_no = no;
    if (count == 0 || begin(h, time_of(tr_get_le(bytes + 8, 8))) == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t what = tr_get_le(bytes + (size_t)16 * i, 8);
        struct tr_event event = unpack(what, tr_get_le(bytes + (size_t)16 * i + 8, 8));

        if (event.actor > h->actor_count) {
            event.actor = 0;
            known = false;
        }
        tr_histories_add(h, what >> BITS, &event);
    }
    return known;
}

const struct tr_history_piece *tr_histories_newest(const struct tr_histories *h)
{
    return tr_list_empty(&h->pieces) ? NULL : newest(h);
}

const struct tr_history_piece *tr_histories_from(const struct tr_histories *h, uint32_t no)
{
    const struct tr_history_piece *found = NULL;

    for (const struct tr_list *n = h->pieces.prev; n != &h->pieces; n = n->prev) {
        const struct tr_history_piece *p = TR_CONTAINER_OF(n, const struct tr_history_piece, link);

        if (p->no < no) {
            break;
        }
        found = p;
    }
    return found;
}

bool tr_histories_next(struct tr_histories *h, uint64_t *at, uint64_t id, struct tr_event *event)
{
    uint64_t number = *at / TR_HISTORY_PIECE;
    struct tr_list *n = h->pieces.next;
    uint64_t k = h->first;
    uint64_t i = *at % TR_HISTORY_PIECE;

    if (number < h->first) { /* it is gone */
        number = h->first;
        i = 0;
    }
    if (h->hint != NULL && h->hint_no <= number) {
        n = h->hint;
        k = h->hint_no;
    }
    for (; k < number && n != &h->pieces; k++) {
        n = n->next;
    }
    h->hint = n != &h->pieces ? n : NULL;
    h->hint_no = k;
    if (n == &h->pieces) {
        *at = UINT64_MAX;
        return false;
    }

    const struct tr_history_piece *p = TR_CONTAINER_OF(n, const struct tr_history_piece, link);

    for (; i < p->count && id >= p->id_least && id <= p->id_most; i++) {
        if (p->events[i].what >> BITS == id) {
            *event = unpack(p->events[i].what, p->events[i].when);
            *at = number * TR_HISTORY_PIECE + i + 1;
            return true;
        }
    }

    /* The one that is being filled is the last: who came back for the next one later on would miss
     * what was added to this one meanwhile. */
    bool last = p == newest(h) && p->count < TR_HISTORY_PIECE && !TR_MUTANT(HISTORY_END_MISSED);

    *at = last ? UINT64_MAX : (number + 1) * TR_HISTORY_PIECE;
    return false;
}
