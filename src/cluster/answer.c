/* See answer.h, and the top of each file in lua/ for what it says. */

#include "cluster/answer.h"

#include "base/err.h"
#include "cluster/hex.h"
#include "cluster/route.h"

#include <string.h>

enum {
    COMMON = 4, /* OK, now, versions, waiters */
    VERSION = 8,
    WAITER = 2 + TR_PLACE_NODE_DIGITS,
    TAKEN = 2, /* next, more */
    PER_JOB = 3,
    CLAIMED = 6, /* next, more, loaded, left, bytes, jobs */
    CLAIM = 1 + TR_HEX_ID,
    RAISED = 3,
};

int tr_answer_read(const struct tr_redis_reply *reply, struct tr_answer *a)
{
    const struct tr_span *items = reply->items;

    if (reply->event != TR_REDIS_LIST || reply->count < COMMON || !tr_span_begins(items[0], "OK")) {
        return TARRY_EDAMAGED;
    }
    *a = (struct tr_answer){.versions = items[2],
                            .waiters = items[3],
                            .items = items + COMMON,
                            .count = reply->count - COMMON};
    if (items[1].len != TR_HEX_ID || !tr_hex_get(items[1].at, TR_HEX_ID, &a->now_us) ||
        items[2].len % VERSION != 0 || items[3].len % WAITER != 0) {
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

uint32_t tr_answer_version(const struct tr_answer *a, unsigned topic)
{
    uint64_t v = 0;

    if ((topic + 1) * (size_t)VERSION > a->versions.len ||
        !tr_hex_get(a->versions.at + topic * (size_t)VERSION, VERSION, &v)) {
        return 0;
    }
    return (uint32_t)v;
}

bool tr_answer_waiter(const struct tr_answer *a, unsigned i, unsigned *topic,
                      char node[TR_PLACE_NODE_DIGITS])
{
    const char *at = a->waiters.at + i * (size_t)WAITER;
    uint64_t number;

    if ((i + 1) * (size_t)WAITER > a->waiters.len || !tr_hex_get(at, 2, &number) || number == 0) {
        return false;
    }
    *topic = (unsigned)number - 1;
    memcpy(node, at + 2, TR_PLACE_NODE_DIGITS);
    return true;
}

bool tr_answer_ended(const struct tr_answer *a)
{
    uint64_t number;

    return a->waiters.len >= WAITER &&
           tr_hex_get(a->waiters.at + a->waiters.len - WAITER, 2, &number) && number == 0;
}

static char first_of(struct tr_span item)
{
    if (item.len == 0) {
        return '\0';
    }
    return item.at[0];
}

int tr_answer_pushed(struct tr_span item, struct tr_pushed *p)
{
    *p = (struct tr_pushed){.what = first_of(item)};
    if (p->what == 'P' || p->what == 'F') {
        return item.len == 1 ? TARRY_OK : TARRY_EDAMAGED;
    }
    if (item.len < 1 + TR_HEX_ID || !tr_hex_get(item.at + 1, TR_HEX_ID, &p->id)) {
        return TARRY_EDAMAGED;
    }
    item.at += 1 + TR_HEX_ID;
    item.len -= 1 + TR_HEX_ID;
    switch (p->what) {
    case 'N':
        return item.len == TR_HEX_ID && tr_hex_get(item.at, TR_HEX_ID, &p->due_us) ? TARRY_OK
                                                                                   : TARRY_EDAMAGED;
    case 'R':
    case 'K':
    case 'E':
    case 'X':
        if (tr_header_read(item.at, item.len, &p->header) != TARRY_OK) {
            return TARRY_EDAMAGED;
        }
        p->due_us = p->header.due_us;
        return TARRY_OK;
    default:
        return TARRY_EDAMAGED;
    }
}

bool tr_answer_all_new(const struct tr_answer *a, uint64_t *from_us, uint64_t *first)
{
    const struct tr_span *item = a->items;

    return a->count == 1 && item->len == 1 + 2 * TR_HEX_ID && first_of(*item) == 'n' &&
           tr_hex_get(item->at + 1, TR_HEX_ID, from_us) &&
           tr_hex_get(item->at + 1 + TR_HEX_ID, TR_HEX_ID, first);
}

uint64_t tr_answer_new_id(uint64_t first, size_t i)
{
    return tr_place_id(tr_place_seq_of(first) + i, tr_place_slot_of(first));
}

const struct tr_span *tr_answer_item(const struct tr_answer *a, size_t i)
{
    if (a->count == 1) {
        return a->items;
    }
    return i < a->count ? a->items + i : NULL;
}

int tr_answer_taken(const struct tr_answer *a, struct tr_taken *t)
{
    *t = (struct tr_taken){.next_us = UINT64_MAX};
    if (a->count < TAKEN || (a->count - TAKEN) % PER_JOB != 0 || a->items[1].len != 1) {
        return TARRY_EDAMAGED;
    }
    if (a->items[0].len != 0 &&
        (a->items[0].len != TR_HEX_ID || !tr_hex_get(a->items[0].at, TR_HEX_ID, &t->next_us))) {
        return TARRY_EDAMAGED;
    }
    t->more = a->items[1].at[0] == '1';
    t->jobs = (a->count - TAKEN) / PER_JOB;
    return TARRY_OK;
}

int tr_answer_taken_job(const struct tr_answer *a, size_t i, struct tr_taken_job *job)
{
    const struct tr_span *item = a->items + TAKEN + i * PER_JOB;

    TR_CHECK(TAKEN + (i + 1) * PER_JOB <= a->count);
    job->body = item[2];
    if (item[0].len != TR_HEX_ID || !tr_hex_get(item[0].at, TR_HEX_ID, &job->id)) {
        return TARRY_EDAMAGED;
    }
    return tr_header_read(item[1].at, item[1].len, &job->header);
}

int tr_answer_edited(struct tr_span item, struct tr_edited *e)
{
    *e = (struct tr_edited){.what = first_of(item)};
    if (e->what == 'N' || e->what == 'F') {
        return item.len == 1 ? TARRY_OK : TARRY_EDAMAGED;
    }
    if (item.len < 2 || memchr("ODLS", e->what, 4) == NULL) {
        return TARRY_EDAMAGED;
    }
    if (e->what == 'O' && item.len == 2) {
        e->was = item.at[1];
        return memchr("srpd", e->was, 4) != NULL ? TARRY_OK : TARRY_EDAMAGED;
    }
    return tr_header_read(item.at + 1, item.len - 1, &e->header);
}

int tr_answer_kicked(const struct tr_answer *a, struct tr_kicked *k)
{
    const struct tr_span *item = a->items;

    if (a->count != 2 || item[0].len != 1 || memchr("ds", item[0].at[0], 2) == NULL ||
        item[1].len != TR_HEX_ID || !tr_hex_get(item[1].at, TR_HEX_ID, &k->count)) {
        return TARRY_EDAMAGED;
    }
    k->which = item[0].at[0];
    return TARRY_OK;
}

int tr_answer_counted(struct tr_span item, struct tr_counted *n)
{
    uint64_t *const to[] = {&n->ready,           &n->urgent,       &n->delayed,
                            &n->reserved,        &n->dead,         &n->next_due_us,
                            &n->oldest_ready_us, &n->out_until_us, &n->hold_until_us,
                            &n->hold_us,         &n->holds,        &n->best_priority,
                            &n->best_due_us,     &n->best_id,      &n->first_delayed_id,
                            &n->first_dead_id};
    size_t at = 0;

    for (unsigned i = 0; i < sizeof to / sizeof to[0]; i++) {
        unsigned width = to[i] == &n->best_priority ? 8 : TR_HEX_ID;

        if (item.len - at < width || !tr_hex_get(item.at + at, width, to[i])) {
            return TARRY_EDAMAGED;
        }
        at += width;
    }
    return at == item.len ? TARRY_OK : TARRY_EDAMAGED;
}

static bool get_hex(struct tr_span text, uint64_t *v)
{
    return text.len == TR_HEX_ID && tr_hex_get(text.at, TR_HEX_ID, v);
}

int tr_answer_claimed(const struct tr_answer *a, struct tr_claimed *t)
{
    const struct tr_span *item = a->items;

    *t = (struct tr_claimed){.next_us = UINT64_MAX};
    if (a->count != CLAIMED || (item[0].len != 0 && !get_hex(item[0], &t->next_us)) ||
        item[1].len != 1 || !get_hex(item[2], &t->loaded_us) || !get_hex(item[3], &t->left) ||
        !get_hex(item[4], &t->bytes) || item[5].len % CLAIM != 0) {
        return TARRY_EDAMAGED;
    }
    t->more = item[1].at[0] == '1';
    t->jobs = item[5].len / CLAIM;
    return TARRY_OK;
}

int tr_answer_claimed_job(const struct tr_answer *a, size_t i, char *what, uint64_t *id)
{
    const char *at = a->items[CLAIMED - 1].at + i * CLAIM;

    TR_CHECK((i + 1) * CLAIM <= a->items[CLAIMED - 1].len);
    *what = at[0];
    return (*what == 'C' || *what == 'E') && tr_hex_get(at + 1, TR_HEX_ID, id) ? TARRY_OK
                                                                               : TARRY_EDAMAGED;
}

int tr_answer_indexed(const struct tr_answer *a, unsigned topic, struct tr_indexed *x)
{
    const char *at;

    if (a->count != 2 || a->items[0].len < (topic + 1) * (size_t)(2 * TR_HEX_ID)) {
        return TARRY_EDAMAGED;
    }
    at = a->items[0].at + topic * (size_t)(2 * TR_HEX_ID);
    return tr_hex_get(at, TR_HEX_ID, &x->loaded_us) &&
                   tr_hex_get(at + TR_HEX_ID, TR_HEX_ID, &x->left)
               ? TARRY_OK
               : TARRY_EDAMAGED;
}

char tr_answer_indexed_job(const struct tr_answer *a, size_t i)
{
    if (a->count != 2 || i >= a->items[1].len) {
        return '\0';
    }
    return a->items[1].at[i];
}

int tr_answer_raised(const struct tr_answer *a, struct tr_raised *r)
{
    return a->count == RAISED && get_hex(a->items[0], &r->was_us) &&
                   get_hex(a->items[1], &r->is_us) && get_hex(a->items[2], &r->left)
               ? TARRY_OK
               : TARRY_EDAMAGED;
}

int tr_answer_scanned(const struct tr_answer *a, struct tr_span *cursor, size_t *entries)
{
    if (a->count % 2 != 1 || a->items[0].len == 0) {
        return TARRY_EDAMAGED;
    }
    *cursor = a->items[0];
    *entries = a->count / 2;
    return TARRY_OK;
}

int tr_answer_scanned_entry(const struct tr_answer *a, size_t i, uint64_t *id,
                            struct tr_header *header)
{
    const struct tr_span *item = a->items + 1 + 2 * i;

    TR_CHECK(2 + 2 * i < a->count);
    return get_hex(item[0], id) ? tr_header_read(item[1].at, item[1].len, header) : TARRY_EDAMAGED;
}
