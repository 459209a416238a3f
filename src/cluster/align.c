/*
 * The index in Redis is made right, by the owners of slots. What a slot may need:
 *
 *     window  half of hot_window is over: rows that are due before long now
 *     all     it is ours anew, a node has died, a server has another life or lost it all, images
 * were dropped, reconcile is over, or somebody asks for it: all that should be there, and what
 *             should not
 *
 *     a round: all topics of the database, a page at a time ──► each of their slots that needs it:
 *     load.c ──► slots that need all: what is there ──► what rows say of it
 *
 * (a) *What should not be there.* A page of entries, then their rows. An entry follows the commit
 * of its row, so if there is no row it was deleted; a row of a newer version has its image sent;
 * one of an older version, or of the same that says something else, can only be if the database has
 * forgotten what it had committed (life.c), and then the row is right. It may have a newer image by
 * then, that found the entry newer: so the slot is looked at once more. Redis is read first: the
 * other way a row that is committed in between would be taken for one that is gone.
 *
 * (b) *What should be there*: rows up to `loaded`, as images that mend: an entry that is as new is
 * left alone, so claims under way are not disturbed, and nothing has to be compared here.
 *
 * Both may be done at any time, by two nodes at once, and while all else goes on: each step is
 * decided by a version. So a difference need not be looked at twice before something is done.
 */

#include "cluster/load.h"

#include "base/err.h"
#include "cluster/mutant.h"

#include <string.h>

#define RETRY_US UINT64_C(300000)
#define WAITS_US UINT64_C(5000)
#define TELL_EVERY_US UINT64_C(20000)

enum { SCAN = 100, LOST_TOLD = 8 };

/* ---- what slots need ---- */

static void want(struct tr_align *m, unsigned slot, enum tr_align_mode mode)
{
    if (m->need[slot] < mode) {
        m->need[slot] = (uint8_t)mode;
        m->again = true;
    }
}

void tr_align_slot(struct tr_cluster *c, unsigned slot, enum tr_align_mode mode)
{
    struct tr_align *m = c->desk->align;

    if (c->slots[slot].owned) {
        want(m, slot, mode);
    } else if (mode == TR_ALIGN_ALL || m->told_us[slot] + TELL_EVERY_US <= c->now.boot_us) {
        m->told_us[slot] = c->now.boot_us;
        tr_home_tell(c, slot, mode == TR_ALIGN_ALL ? TR_HOME_ALIGN : TR_HOME_LOAD);
    } else if (!m->untold[slot]) { /* what it has read since then may be of before */
        m->untold[slot] = true;
        m->untold_us = m->untold_any ? m->untold_us : c->now.boot_us + TELL_EVERY_US;
        m->untold_any = true;
    }
}

static void tell_again(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    m->untold_any = false;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (m->untold[s]) {
            m->untold[s] = false;
            tr_align_slot(c, s, TR_ALIGN_WINDOW);
        }
    }
}

void tr_align_everything(struct tr_cluster *c)
{
    for (unsigned s = 0; s < c->layout.slots; s++) {
        tr_align_slot(c, s, TR_ALIGN_ALL);
    }
}

void tr_align_failed(struct tr_cluster *c, unsigned slot)
{
    c->desk->align->retry_us = c->now.boot_us + RETRY_US;
    want(c->desk->align, slot, TR_ALIGN_ALL);
}

static void want_all(struct tr_cluster *c)
{
    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (c->slots[s].owned) {
            want(c->desk->align, s, TR_ALIGN_ALL);
        }
    }
}

static bool has(const struct tr_members *members, uint64_t node)
{
    for (unsigned i = 0; i < members->count; i++) {
        if (members->nodes[i] == node) {
            return true;
        }
    }
    return false;
}

/* Somebody who was there is gone: what he had committed may not be in the index. */
static bool one_died(const struct tr_members *before, const struct tr_members *now)
{
    for (unsigned i = 0; i < before->count; i++) {
        if (!has(now, before->nodes[i])) {
            return true;
        }
    }
    return false;
}

static bool is_new_view(const struct tr_members *a, const struct tr_members *b)
{
    return a->count != b->count || memcmp(a->nodes, b->nodes, a->count * sizeof a->nodes[0]) != 0;
}

void tr_align_dropped(struct tr_cluster *c, unsigned slot)
{
    struct tr_align *m = c->desk->align;

    c->desk->dropped++;
    m->lost[slot] = LOST_TOLD;
    m->lost_any = true;
}

/* More than once, since nobody says that it was heard, and Redis may not be there in all parts. */
static void tell_lost(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    m->lost_us = c->now.boot_us + RETRY_US;
    if (!tr_link_any_up(c)) {
        return;
    }
    m->lost_any = false;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (m->lost[s] > 0) {
            m->lost[s]--;
            m->lost_any = m->lost_any || m->lost[s] > 0;
            tr_align_slot(c, s, TR_ALIGN_ALL);
        }
    }
}

/* What has happened since the last turn. */
static void notice(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    if (c->owns && !m->owns) {
        want_all(c);
    }
    if (m->lost_any && m->lost_us <= c->now.boot_us) {
        tell_lost(c);
    }
    if (m->untold_any && m->untold_us <= c->now.boot_us) {
        tell_again(c);
    }
    m->owns = c->owns;
    if (m->shares != c->shares) { /* also one that was ousted, and came back in the same view */
        m->shares = c->shares;
        m->again = true;
    }
    if (is_new_view(&m->members, &c->members)) {
        if (one_died(&m->members, &c->members)) {
            want_all(c);
        }
        m->members = c->members;
        m->again = true;
    }
}

/* Slots that became ours; and those whose time has come. */
static void look_at_slots(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    m->next_us = TR_CL_NEVER;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        bool owned = c->slots[s].owned;

        if (owned && !m->had[s]) {
            want(m, s, TR_ALIGN_ALL);
        }
        m->had[s] = owned;
        if (!owned || m->need[s] != TR_ALIGN_NOT || m->doing[s] != TR_ALIGN_NOT) {
            continue;
        }
        if (m->all_us[s] <= c->now.boot_us) {
            want(m, s, TR_ALIGN_ALL);
        } else if (m->window_us[s] <= c->now.boot_us) {
            want(m, s, TR_ALIGN_WINDOW);
        } else {
            m->next_us = m->all_us[s] < m->next_us ? m->all_us[s] : m->next_us;
            m->next_us = m->window_us[s] < m->next_us ? m->window_us[s] : m->next_us;
        }
    }
}

/* ---- (a) ---- */

static struct tr_scanner *scanner_of(struct tr_item *item)
{
    return TR_CONTAINER_OF(item, struct tr_scanner, item);
}

static void drop_page(struct tr_cluster *c, struct tr_scanner *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        tr_ctopic_unpin(c, s->seen[i].topic);
    }
    tr_mem_free(c->mem, s->seen, s->room * sizeof *s->seen);
    tr_mem_free(c->mem, s->items, s->room * sizeof *s->items);
    s->seen = NULL;
    s->items = NULL;
    s->count = 0;
    s->room = 0;
}

static void scan_ended(struct tr_cluster *c, struct tr_scanner *s, bool good)
{
    drop_page(c, s);
    s->busy = false;
    s->item.topic = NULL;
    c->desk->align->again = true;
    if (!good) {
        tr_align_failed(c, s->slot);
    }
}

static void scan_failed(struct tr_cluster *c, struct tr_item *item)
{
    scan_ended(c, scanner_of(item), false);
}

static void scan_page(struct tr_cluster *c, struct tr_scanner *s)
{
    s->item.flying = false;
    s->item.topic = NULL;
    if (tr_coord_may(c) && c->slots[s->slot].owned) {
        tr_lane_put(c, TR_CL_SCAN, &s->item);
    } else {
        scan_ended(c, s, true); /* it is another one's */
    }
}

static void scan_slot(struct tr_cluster *c, struct tr_scanner *s, unsigned slot)
{
    s->item = (struct tr_item){.inner = true, .end = scan_failed, .slot = slot};
    tr_list_init(&s->item.link);
    s->slot = slot;
    s->busy = true;
    s->cursor_len = 0;
    scan_page(c, s);
}

static void build_scan(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_scanner *s =
        scanner_of(TR_CONTAINER_OF(lane->flying.next, struct tr_item, link));

    tr_eval_scan(&lane->call.eval, tr_cluster_server_now(c),
                 (struct tr_span){s->cursor, s->cursor_len}, SCAN);
}

/* An entry of the row's version says what the row says. Else the database has forgotten commits,
 * and others have been made since. */
static bool is_alike(const struct tr_scanned *e, const struct tr_sql_job *row)
{
    bool claimed = e->set == 'p' && e->lease == 0;

    if (e->priority != row->priority || e->due_us != row->due_us) {
        return false;
    }
    if (row->state == TR_SQL_RESERVED) {
        return claimed || (e->set == 'p' && e->lease == row->lease && e->at_us == row->next_us);
    }
    return claimed || e->set != 'p';
}

/* Is something to be done about the entry? Then it is. False: no memory. */
static bool judge(struct tr_cluster *c, const struct tr_scanned *e, const struct tr_sql_item *item)
{
    struct tr_align *m = c->desk->align;

    if (!item->found || item->row.gen != item->gen) {
        m->gone++;
        return tr_image_gone(c, e->topic, e->id, e->ver);
    }
    if (item->row.ver <= e->ver) {
        m->forced++;
        tr_align_slot(c, tr_place_slot_of(e->id), TR_ALIGN_ALL); /* is there a newer one now? */
        return tr_image_put(c, e->topic, TR_INDEX_FORCE, &item->row);
    }
    m->mended++;
    return tr_image_put(c, e->topic, TR_INDEX_IS, &item->row);
}

static bool is_right(const struct tr_scanned *e, const struct tr_sql_item *item)
{
    return item->found && item->row.gen == item->gen && item->row.ver == e->ver &&
           item->row.state != TR_SQL_DEAD &&
           (is_alike(e, &item->row) || TR_CL_MUTANT(SAME_VERSION));
}

static void next_page(struct tr_cluster *c, struct tr_scanner *s)
{
    drop_page(c, s);
    if (s->cursor_len == 1 && s->cursor[0] == '0') {
        scan_ended(c, s, true);
    } else {
        scan_page(c, s);
    }
}

/* What rows point to is good until this has returned. */
static void rows_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_scanner *s = TR_CONTAINER_OF(call, struct tr_scanner, call);
    bool good = call->ask.end == TR_SQL_DONE;

    for (unsigned i = 0; good && i < s->count; i++) {
        const struct tr_scanned *e = &s->seen[i];

        if (!is_right(e, &s->items[i]) && tr_ctopic_spot(e->topic, s->slot) != NULL) {
            good = judge(c, e, &s->items[i]);
        }
    }
    if (good) {
        next_page(c, s);
    } else {
        scan_ended(c, s, false);
    }
}

static void ask_rows(struct tr_cluster *c, struct tr_scanner *s)
{
    s->call.done = rows_came;
    s->call.ask = (struct tr_sql_ask){.kind = TR_SQL_LOOK,
                                      .conn = tr_desk_conn(c, s->slot),
                                      .items = s->items,
                                      .count = s->count};
    tr_desk_send(c, &s->call);
}

/* In how many slots topics are is to be known before. */
static void settings_came(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_scanner *s = scanner_of(item);

    for (; s->at < s->count; s->at++) {
        if (!s->seen[s->at].topic->loaded) {
            item->topic = s->seen[s->at].topic;
            tr_ctopic_load(c, item, settings_came);
            return;
        }
    }
    item->topic = NULL;
    if (s->count > 0) {
        ask_rows(c, s);
    } else {
        next_page(c, s);
    }
}

static bool note_entry(struct tr_cluster *c, struct tr_scanner *s, const struct tr_answer *a,
                       size_t i)
{
    struct tr_scanned *e = &s->seen[s->count];
    struct tr_header h;

    if (tr_answer_scanned_entry(a, i, &e->id, &h) != TARRY_OK) {
        return false;
    }
    e->ver = h.ver;
    e->set = h.set;
    e->priority = h.priority;
    e->due_us = h.due_us;
    e->at_us = h.at_us;
    e->lease = h.lease;
    e->topic = tr_ctopic_get(c, h.topic, h.topic_len);
    if (e->topic == NULL) {
        return false;
    }
    tr_ctopic_pin(e->topic);
    s->items[s->count] = (struct tr_sql_item){.by = TR_SQL_BY_ID, .id = e->id};
    s->count++;
    return true;
}

static void answered_scan(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_scanner *s = scanner_of(tr_lane_next(lane));
    struct tr_span cursor;
    size_t entries;
    bool good;

    s->item.flying = false;
    good = tr_answer_scanned(a, &cursor, &entries) == TARRY_OK && cursor.len < sizeof s->cursor;
    if (good) {
        memcpy(s->cursor, cursor.at, cursor.len);
        s->cursor_len = cursor.len;
        entries = entries < TR_SQL_ITEMS_MAX ? entries : TR_SQL_ITEMS_MAX;
        s->seen = tr_mem_alloc(c->mem, (entries + 1) * sizeof *s->seen);
        s->items = tr_mem_alloc(c->mem, (entries + 1) * sizeof *s->items);
        s->room = (unsigned)entries + 1;
        good = s->seen != NULL && s->items != NULL;
    }
    for (size_t i = 0; good && i < entries; i++) {
        good = note_entry(c, s, a, i);
    }
    s->at = 0;
    if (good) {
        settings_came(c, &s->item);
    } else {
        scan_ended(c, s, false);
    }
}

const struct tr_cl_way tr_scan_way = {.script = TR_SCRIPT_SCAN,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_scan,
                                      .answered = answered_scan};

/* ---- who may ---- */

/* The epoch is the database's, so that it only grows: one in Redis begins anew when that is
 * emptied, and an owner from before could have the same. */
static bool build_epoch(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    ask->kind = TR_SQL_OWN;
    ask->slot = item->slot;
    ask->node = c->config.node;
    ask->epoch = c->slots[item->slot].epoch;
    return true;
}

/* It is this node's: Redis hears of it. Else somebody was quicker: once more, with his epoch. */
static void ended_epoch(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    struct tr_cl_slot *slot = &c->slots[item->slot];

    item->flying = false;
    if (ask->end != TR_SQL_DONE) {
        tr_item_finish(c, item, TARRY_EAWAY);
        return;
    }
    slot->epoch = (uint32_t)ask->first;
    slot->sworn = false;
    if (ask->number == 1) {
        tr_lane_put(c, TR_CL_OWN, item);
    } else {
        slot->agenda_us = c->now.boot_us;
        tr_item_finish(c, item, TARRY_OK);
    }
}

const struct tr_desk_way tr_desk_epoch = {.most = 1, .build = build_epoch, .ended = ended_epoch};

/* ---- a round ---- */

static bool can(struct tr_cluster *c)
{
    return c->stage == TR_ENGINE_OPEN && c->server_at_us != 0 && !tr_desk_down(c) &&
           c->desk->align->retry_us <= c->now.boot_us && tr_coord_may(c);
}

static struct tr_loader *free_loader(struct tr_align *m)
{
    for (unsigned i = 1; i < TR_LOADERS; i++) {
        if (!m->loaders[i].busy) {
            return &m->loaders[i];
        }
    }
    return NULL;
}

static bool loaders_rest(const struct tr_align *m)
{
    for (unsigned i = 1; i < TR_LOADERS; i++) {
        if (m->loaders[i].busy) {
            return false;
        }
    }
    return true;
}

static void end_round(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (m->doing[s] != TR_ALIGN_NOT) {
            m->window_us[s] = c->now.boot_us + c->config.hot_window_us / 2;
        }
        if (m->doing[s] == TR_ALIGN_ALL) {
            m->all_us[s] = c->now.boot_us + c->config.reconcile_us;
        }
        m->doing[s] = TR_ALIGN_NOT;
    }
    m->round = false;
    m->again = true;
    m->rounds++;
}

/* It cannot go on: all that it was for is still needed. */
static void break_round(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    for (unsigned s = 0; s < c->layout.slots; s++) {
        want(m, s, (enum tr_align_mode)m->doing[s]);
        m->doing[s] = TR_ALIGN_NOT;
    }
    m->round = false;
    m->retry_us = c->now.boot_us + RETRY_US;
    m->again = true;
}

static void topics_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_align *m = c->desk->align;
    const struct tr_sql_ask *ask = &call->ask;

    if (ask->end != TR_SQL_DONE || m->lives != c->desk->lives) {
        break_round(c);
        return;
    }
    m->topic_count = 0;
    m->topic_at = 0;
    m->slot_at = 0;
    for (unsigned i = 0; i < ask->count && i < TR_LOAD_TOPICS; i++) {
        const struct tr_sql_topic *from = &ask->topics[i];
        struct tr_align_topic *to = &m->topics[m->topic_count++];

        *to = (struct tr_align_topic){.row = from->id, .spread = from->spread, .gen = from->gen};
        to->len = from->name.len <= TR_TOPIC_NAME_MAX ? from->name.len : 0;
        memcpy(to->name, from->name.at, to->len);
    }
    m->last = m->topic_count < TR_LOAD_TOPICS;
    m->again = true;
}

static void ask_topics(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;
    uint32_t behind = m->topic_count > 0 ? m->topics[m->topic_count - 1].row : 0;

    m->call.done = topics_came;
    m->call.ask = (struct tr_sql_ask){
        .kind = TR_SQL_TOPICS, .topic = behind, .number = TR_LOAD_TOPICS, .conn = 0};
    tr_desk_send(c, &m->call);
}

static void begin_round(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;
    bool any = false;

    for (unsigned s = 0; s < c->layout.slots; s++) {
        m->doing[s] = c->slots[s].owned ? m->need[s] : TR_ALIGN_NOT;
        m->need[s] = TR_ALIGN_NOT; /* one that is not ours is another one's to mend */
        any = any || m->doing[s] != TR_ALIGN_NOT;
    }
    if (any) {
        m->round = true;
        m->lives = c->desk->lives;
        m->scans = false;
        m->slot = 0;
        m->topic_count = 0;
        ask_topics(c);
    }
}

/* One topic in the next of its slots. False: that was all of the page, or no loader is free. */
static bool load_one(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;
    const struct tr_align_topic *from = &m->topics[m->topic_at];
    struct tr_loader *l = free_loader(m);
    struct tr_ctopic *t;
    unsigned slot;

    if (m->topic_at == m->topic_count || l == NULL) {
        return false;
    }
    if (m->slot_at >= from->spread || from->len == 0) {
        m->topic_at++;
        m->slot_at = 0;
        return true;
    }
    slot = tr_place_slot(&c->layout, from->name, from->len, m->slot_at++);
    if (m->doing[slot] == TR_ALIGN_NOT) {
        return true;
    }
    t = tr_ctopic_get(c, from->name, from->len);
    if (t == NULL) {
        tr_align_failed(c, slot);
        return true;
    }
    l->all = m->doing[slot] == TR_ALIGN_ALL;
    l->row = from->row;
    l->gen = from->gen;
    l->knows_gen = true;
    tr_loader_start(c, l, t, slot);
    return true;
}

static void scan_one(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    while (m->slot < c->layout.slots && m->doing[m->slot] != TR_ALIGN_ALL) {
        m->slot++;
    }
    if (m->slot < c->layout.slots) {
        scan_slot(c, &m->scanner, m->slot++);
    } else {
        end_round(c);
    }
}

static void go_on(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    if (m->call.busy || m->scanner.busy) {
        return;
    }
    if (m->lives != c->desk->lives) { /* topics have other numbers */
        break_round(c);
        return;
    }
    while (load_one(c)) {
    }
    if (m->topic_at < m->topic_count || !loaders_rest(m)) {
        return;
    }
    if (!m->last) {
        ask_topics(c);
    } else {
        scan_one(c);
    }
}

/* Who cannot wait. */
static void take_hint(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;
    struct tr_load_hinted hint = m->hints[0];
    struct tr_loader *l = &m->loaders[0];

    m->hint_count--;
    memmove(&m->hints[0], &m->hints[1], m->hint_count * sizeof m->hints[0]);
    if (c->slots[hint.slot].owned) {
        l->all = false;
        l->row = 0;
        l->knows_gen = false;
        tr_loader_start(c, l, hint.topic, hint.slot);
    }
    tr_ctopic_unpin(c, hint.topic);
}

static bool any_needs(const struct tr_cluster *c)
{
    const struct tr_align *m = c->desk->align;

    for (unsigned s = 0; s < c->layout.slots; s++) {
        if (m->need[s] != TR_ALIGN_NOT && c->slots[s].owned) {
            return true;
        }
    }
    return false;
}

static void wake_loaders(struct tr_cluster *c)
{
    struct tr_align *m = c->desk->align;

    for (unsigned i = 0; i < TR_LOADERS; i++) {
        if (m->loaders[i].waits) {
            tr_loader_go_on(c, &m->loaders[i]);
        }
    }
}

void tr_align_turn(struct tr_cluster *c)
{
    struct tr_align *m = c->desk != NULL ? c->desk->align : NULL;

    if (m == NULL) {
        return;
    }
    notice(c);
    wake_loaders(c);
    if (!c->owns || (!m->again && m->next_us > c->now.boot_us)) {
        return;
    }
    m->again = false;
    look_at_slots(c);
    while (m->hint_count > 0 && !m->loaders[0].busy && can(c)) {
        take_hint(c);
    }
    if (!m->round && can(c) && any_needs(c)) {
        begin_round(c);
    } else if (m->round) {
        go_on(c);
    }
    m->again = m->again && can(c);
    if (!can(c) && c->now.boot_us + RETRY_US < m->next_us) {
        m->next_us = c->now.boot_us + RETRY_US;
    }
}

uint64_t tr_align_next(const struct tr_cluster *c)
{
    const struct tr_align *m = c->desk != NULL ? c->desk->align : NULL;
    uint64_t tell_us = m != NULL && m->lost_any ? m->lost_us : TR_CL_NEVER;

    if (m != NULL && m->untold_any && m->untold_us < tell_us) {
        tell_us = m->untold_us;
    }
    if (m == NULL || !c->owns) {
        return tell_us;
    }
    if (m->again) {
        return c->now.boot_us;
    }
    if (tell_us < m->next_us) {
        return tell_us;
    }
    for (unsigned i = 0; i < TR_LOADERS; i++) {
        if (m->loaders[i].waits && c->now.boot_us + WAITS_US < m->next_us) {
            return c->now.boot_us + WAITS_US;
        }
    }
    return m->next_us;
}

int tr_align_init(struct tr_cluster *c)
{
    if (c->desk == NULL) {
        return TARRY_OK;
    }
    c->desk->align = tr_mem_alloc(c->mem, sizeof *c->desk->align);
    if (c->desk->align == NULL) {
        return TARRY_ENOMEM;
    }
    c->desk->align->again = true;
    return TARRY_OK;
}

void tr_align_fini(struct tr_cluster *c)
{
    if (c->desk != NULL && c->desk->align != NULL) {
        drop_page(c, &c->desk->align->scanner);
        tr_mem_free(c->mem, c->desk->align, sizeof *c->desk->align);
        c->desk->align = NULL;
    }
}
