/*
 * Arguments of scripts. Short ones are printed into a scratch that may move while it grows, so they
 * are noted by their place there, and become spans when the call is complete.
 */

#include "cluster/eval.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/header.h"
#include "cluster/hex.h"
#include "cluster/truth.h"

#include <assert.h>
#include <string.h>

enum {
    EVALSHA = 0,
    SCRIPT = 1,
    WALL_BEHIND = 3,
    LINE = 128,
    TIME = 7,
    WHAT = 25,
    KIND = 2, /* where in that: d, a or D, time, age; */
    TIMES = 2 * TIME,
    COUNT = 22, /* place of the key, or how many bodies there are */
    KEPT_BYTES = 16384,
};

void tr_eval_init(struct tr_eval *c, struct tr_mem *mem)
{
    *c = (struct tr_eval){.mem = mem};
}

void tr_eval_fini(struct tr_eval *c)
{
    tr_mem_free(c->mem, c->args, c->room * sizeof *c->args);
    tr_mem_free(c->mem, c->bytes, c->size);
    *c = (struct tr_eval){.mem = c->mem};
}

static void add(struct tr_eval *c, struct tr_span arg)
{
    if (c->count == c->room) {
        unsigned room = c->room != 0 ? 2 * c->room : 64;
        struct tr_span *args =
            tr_mem_resize(c->mem, c->args, c->room * sizeof *args, room * sizeof *args);

        if (args == NULL) {
            c->failed = true;
            return;
        }
        c->args = args;
        c->room = room;
    }
    c->args[c->count++] = arg;
}

static void add_lent(struct tr_eval *c, const char *at, size_t len)
{
    add(c, (struct tr_span){len > 0 ? at : "", len});
}

/* Copied, and until the end noted as (NULL, place): the length stands before the bytes. */
static void add_copy(struct tr_eval *c, const char *text, size_t len)
{
    size_t need = c->used + sizeof len + len;

    if (need > c->size) {
        size_t size = c->size != 0 ? c->size : 1024;
        char *bytes;

        while (size < need) {
            size *= 2;
        }
        bytes = tr_mem_resize(c->mem, c->bytes, c->size, size);
        if (bytes == NULL) {
            c->failed = true;
            return;
        }
        c->bytes = bytes;
        c->size = size;
    }
    add(c, (struct tr_span){NULL, c->used});
    memcpy(c->bytes + c->used, &len, sizeof len);
    if (len > 0) {
        memcpy(c->bytes + c->used + sizeof len, text, len);
    }
    c->used = need;
}

static void add_number(struct tr_eval *c, uint64_t v)
{
    char text[TR_TEXT_NUMBER];

    add_copy(c, text, tr_text_number(text, v));
}

static void add_hex(struct tr_eval *c, unsigned width, uint64_t v)
{
    char text[16];

    tr_hex_put(text, width, v);
    add_copy(c, text, width);
}

static void add_keys(struct tr_eval *c, const struct tr_eval_about *a)
{
    char key[TR_PLACE_KEY_MAX];

    for (unsigned k = 0; k < TR_PLACE_SLOT_KEYS; k++) {
        add_copy(c, key, tr_place_key(key, a->layout, a->slot, k, NULL));
    }
    for (unsigned t = 0; t < a->topic_count; t++) {
        for (unsigned k = 0; k < TR_PLACE_TOPIC_KEYS; k++) {
            add_copy(
                c, key,
                tr_place_key(key, a->layout, a->slot, TR_PLACE_SLOT_KEYS + k, a->topics[t].name));
        }
    }
    if (a->schedules) {
        add_copy(c, key, tr_place_schedules_key(key, a->layout, a->slot));
    }
}

void tr_eval_begin(struct tr_eval *c, enum tr_script_name script, const struct tr_eval_about *a)
{
    TR_CHECK(a->topic_count <= TR_EVAL_TOPICS);
    c->count = 0;
    c->used = 0;
    c->alike_at = 0;
    c->acks = 0;
    c->failed = false;
    add_lent(c, "EVALSHA", 7);
    add_lent(c, tr_scripts[script].sha, strlen(tr_scripts[script].sha));
    add_number(c, TR_PLACE_SLOT_KEYS + a->topic_count * TR_PLACE_TOPIC_KEYS + a->schedules);
    add_keys(c, a);
    add_lent(c, a->uuid, strlen(a->uuid));
    c->run_at = c->count;
    add_lent(c, "", 0); /* tr_eval_aim says what */
    add_lent(c, a->node, TR_PLACE_NODE_DIGITS);
    add_hex(c, TR_HEX_ID, a->op);
    add_lent(c, "", 0);
    add_number(c, a->topic_count);
    for (unsigned t = 0; t < a->topic_count; t++) {
        c->topics[t] = a->topics[t].name;
        add_lent(c, a->topics[t].name, strlen(a->topics[t].name));
        add_number(c, a->topics[t].spread);
        add_copy(c, a->topics[t].order == TR_ORDER_DUE ? "due" : "id",
                 a->topics[t].order == TR_ORDER_DUE ? 3 : 2);
    }
}

void tr_eval_plain(struct tr_eval *c, const char *command)
{
    c->count = 0;
    c->used = 0;
    c->run_at = 0;
    c->failed = false;
    add_lent(c, command, strlen(command));
}

void tr_eval_meta(struct tr_eval *c, enum tr_script_name script, unsigned keys)
{
    tr_eval_plain(c, "EVALSHA");
    add_lent(c, tr_scripts[script].sha, strlen(tr_scripts[script].sha));
    add_number(c, keys);
}

void tr_eval_add(struct tr_eval *c, const char *text, size_t len)
{
    add_copy(c, text, len);
}

void tr_eval_add_number(struct tr_eval *c, uint64_t v)
{
    add_number(c, v);
}

void tr_eval_trim(struct tr_eval *c)
{
    if (c->size > KEPT_BYTES) {
        tr_eval_fini(c);
    }
}

/* A line of numbers, one after the other: in hex, or as bytes. */
struct line {
    char text[LINE];
    size_t len;
};

static void put_char(struct line *l, char ch)
{
    l->text[l->len++] = ch;
}

static void put_hex(struct line *l, unsigned width, uint64_t v)
{
    TR_CHECK(l->len + width <= sizeof l->text);
    tr_hex_put(l->text + l->len, width, v);
    l->len += width;
}

static void put_bytes(struct line *l, unsigned width, uint64_t v)
{
    TR_CHECK(l->len + width <= sizeof l->text);
    for (unsigned i = width; i > 0; i--) {
        l->text[l->len++] = (char)(unsigned char)(v >> 8 * (i - 1) & 255);
    }
}

static uint64_t time_of(const struct tr_req *r)
{
    return r->at_us != 0 ? r->at_us : r->delay_us;
}

static char kind_of_time(const struct tr_req *r)
{
    return r->at_us != 0 ? 'a' : 'd';
}

void tr_eval_push_from(struct tr_eval *c, uint64_t seen, unsigned slot)
{
    add_number(c, seen);
    add_number(c, slot);
    c->rows_at = c->count;
}

static void add_bytes(struct tr_eval *c, unsigned width, uint64_t v)
{
    struct line l = {.len = 0};

    put_bytes(&l, width, v);
    add_copy(c, l.text, l.len);
}

static struct tr_header header_of(const struct tr_req *r, const char *topic,
                                  char backoff[TR_HEADER_BACKOFF])
{
    return (struct tr_header){
        .flags = r->beanstalk ? TR_HEADER_BEANSTALK : 0U,
        .ttr_us = r->ttr_us,
        .ttl_us = r->ttl_us,
        .retries = tr_header_retries(r),
        .topic = topic,
        .topic_len = strlen(topic),
        .tag = r->tag,
        .tag_len = r->tag_len,
        .key = r->key,
        .key_len = r->key_len,
        .backoff = backoff,
        .backoff_len = tr_header_put_backoff(backoff, r->backoff),
        .schedule = r->name,
        .schedule_len = r->exact ? r->name_len : 0,
    };
}

static_assert(TR_EVAL_JOBS <= UINT8_MAX, "a row has one call at most");

/* Is it alike but for times and bodies? */
static bool is_alike(const struct tr_eval *c, const char *what, size_t len)
{
    const char *last = c->bytes + c->alike_at;
    size_t behind = KIND + 1 + TIMES;

    return !c->failed && c->alike_at != 0 && c->alike_len == len && memcmp(last, what, KIND) == 0 &&
           memcmp(last + behind, what + behind, COUNT - behind) == 0 &&
           memcmp(last + COUNT + 2, what + COUNT + 2, len - COUNT - 2) == 0;
}

/* The row has one job: from now on its times stand in front of its body, as those of others. */
static void mix(struct tr_eval *c)
{
    struct tr_span body = c->args[c->count - 1];
    char times[TIMES];

    c->bytes[c->alike_at + KIND] = 'D';
    memcpy(times, c->bytes + c->alike_at + KIND + 1, TIMES);
    c->count--;
    add_copy(c, times, TIMES);
    add(c, body);
}

/* One more of the last row, if it is like it. */
static bool joins(struct tr_eval *c, const char *what, size_t len, size_t body_len)
{
    const char *times = what + KIND + 1;
    const char *last = c->bytes + c->alike_at;
    bool same;

    if (!is_alike(c, what, len)) {
        return false;
    }
    same = body_len == c->alike_body && memcmp(c->times, times, TIMES) == 0;
    if (last[KIND] == 'D' ? same || what[KIND] != 'd' : !same || what[KIND] != last[KIND]) {
        if (last[KIND] != 'd' || what[KIND] != 'd' || last[COUNT + 1] != 1) {
            return false;
        }
        mix(c);
    }
    if (c->bytes[c->alike_at + KIND] == 'D') {
        add_copy(c, times, TIMES);
    }
    c->bytes[c->alike_at + COUNT + 1]++;
    return true;
}

void tr_eval_push(struct tr_eval *c, unsigned topic, const struct tr_req *r, uint64_t age_us)
{
    static const char conflicts[TR_CONFLICT_COUNT] = {'r', 'k', 'e'};
    char backoff[TR_HEADER_BACKOFF];
    char what[WHAT + TR_HEADER_MAX];
    struct tr_header h = header_of(r, c->topics[topic], backoff);
    struct line l = {.len = 0};
    size_t key_at;
    size_t len = tr_header_write_end(what + WHAT, &h, &key_at);

    put_bytes(&l, 1, topic + 1);
    put_char(&l, conflicts[r->conflict]);
    put_char(&l, kind_of_time(r));
    put_bytes(&l, TIME, time_of(r));
    put_bytes(&l, TIME, age_us);
    put_bytes(&l, 1, tr_header_flags(&h));
    put_bytes(&l, 4, r->priority);
    put_bytes(&l, 2, r->key_len > 0 ? WHAT + key_at + 1 : 1);
    put_bytes(&l, 1, r->key_len);
    TR_CHECK(l.len == WHAT);
    memcpy(what, l.text, WHAT);
    if (r->key_len > 0 || !joins(c, what, WHAT + len, r->body_len)) {
        add_copy(c, what, WHAT + len);
        c->alike_at = r->key_len > 0 ? 0 : c->used - WHAT - len;
        c->alike_len = WHAT + len;
    }
    c->alike_body = r->body_len;
    memcpy(c->times, what + KIND + 1, TIMES);
    add_copy(c, (const char *)r->body, r->body_len);
}

static uint64_t get_bytes(struct tr_span s, size_t at, unsigned width)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < width; i++) {
        v = v << 8 | (unsigned char)s.at[at + i];
    }
    return v;
}

uint64_t tr_eval_due(const struct tr_eval *c, struct tr_eval_rows *rows, uint64_t from_us)
{
    struct tr_span what;
    struct tr_span times;
    uint64_t time_us;

    if (rows->left == 0) {
        rows->what = rows->next != 0 ? rows->next : c->rows_at;
        TR_CHECK(rows->what < c->count);
        what = c->args[rows->what];
        rows->left = what.at[COUNT + 2] != 0 ? 1 : (unsigned)get_bytes(what, COUNT, 2);
        rows->next = rows->what + 1 + rows->left * (what.at[KIND] == 'D' ? 2 : 1);
    }
    what = c->args[rows->what];
    times = (struct tr_span){what.at + KIND + 1, TIMES};
    if (what.at[KIND] == 'D') {
        times = c->args[rows->next - 2 * rows->left];
    }
    rows->left--;
    time_us = get_bytes(times, 0, TIME);
    if (what.at[KIND] != 'a') {
        return from_us - get_bytes(times, TIME, TIME) + time_us;
    }
    return time_us > from_us ? time_us : from_us;
}

void tr_eval_take(struct tr_eval *c, const struct tr_eval_take *t)
{
    add_number(c, t->count);
    add_bytes(c, 8, t->lease);
    add_number(c, t->ttr_us);
    add_copy(c, t->tag, t->tag_len);
    add_number(c, t->wait_until_us);
    add_number(c, t->held ? 1 : 0);
    add_number(c, t->least_us);
    add_number(c, t->bytes);
    add_hex(c, TR_HEX_ID, t->heard);
}

static char kind_of(const struct tr_req *r)
{
    switch (r->op) {
    case TR_OP_DELETE:
        return r->lease != 0 ? 'A' : 'C';
    case TR_OP_RELEASE:
        return 'R';
    case TR_OP_RETURN:
        return 'G';
    case TR_OP_BURY:
        return r->force && r->lease == 0 ? 'V' : 'B';
    case TR_OP_TOUCH:
        return 'T';
    case TR_OP_CLOSE:
        return 'D';
    case TR_OP_RESERVE_JOB:
        return 'H';
    case TR_OP_FIRE:
        return 'F';
    case TR_OP_KICK_JOB:
        return 'K';
    default:
        TR_CHECK(r->op == TR_OP_EDIT);
        return 'E';
    }
}

static void put_priority(struct line *l, const struct tr_req *r)
{
    if (r->keep_priority) {
        put_char(l, 'k');
    } else {
        put_hex(l, 8, r->priority);
    }
}

static void put_release(struct line *l, const struct tr_req *r)
{
    if (r->by_backoff) {
        put_char(l, 'b');
    } else {
        put_char(l, 'd');
        put_hex(l, TR_HEX_ID, r->delay_us);
    }
    put_priority(l, r);
}

static void put_edit(struct line *l, const struct tr_req *r, uint64_t age_us)
{
    put_hex(l, 2, r->edit);
    put_char(l, kind_of_time(r));
    put_hex(l, TR_HEX_ID, time_of(r));
    put_hex(l, TR_HEX_ID, age_us);
    put_hex(l, 8, r->priority);
    put_hex(l, TR_HEX_ID, r->ttr_us);
    put_hex(l, TR_HEX_ID, r->ttl_us);
}

/* The last ack becomes a row, of one. */
static void begin_acks(struct tr_eval *c)
{
    struct line l = {.len = 0};

    c->count--;
    put_char(&l, 'a');
    put_bytes(&l, 1, c->ack_topic + 1);
    put_bytes(&l, 1, 1);
    put_bytes(&l, 8, c->ack_lease);
    add_copy(c, l.text, l.len);
    c->acks_at = c->used - l.len;
    add_hex(c, TR_HEX_ID, c->ack_id);
}

/* One more ack of the last row, if it is under the same lease. */
static bool joins_acks(struct tr_eval *c, unsigned topic, const struct tr_req *r)
{
    if (c->failed || c->acks == 0 || c->ack_topic != topic || c->ack_lease != r->lease) {
        return false;
    }
    if (c->acks == 1) {
        begin_acks(c);
    }
    if (!c->failed) {
        c->bytes[c->acks_at + 2]++;
    }
    c->acks++;
    add_hex(c, TR_HEX_ID, r->id);
    return true;
}

void tr_eval_edit(struct tr_eval *c, unsigned topic, const struct tr_req *r, uint64_t age_us)
{
    struct line l = {.len = 0};
    char kind = kind_of(r);

    if (kind == 'A' && joins_acks(c, topic, r)) {
        return;
    }
    c->acks = kind == 'A' ? 1 : 0;
    c->ack_topic = topic;
    c->ack_lease = r->lease;
    c->ack_id = r->id;

    put_char(&l, kind);
    put_bytes(&l, 1, topic + 1);
    put_hex(&l, TR_HEX_ID, r->id);
    put_bytes(&l, 8, r->lease);
    if (kind == 'C') {
        put_char(&l, r->force ? '1' : '0');
    } else if (kind == 'R') {
        put_release(&l, r);
    } else if (kind == 'B' || kind == 'V') {
        put_priority(&l, r);
    } else if (kind == 'T') {
        put_hex(&l, TR_HEX_ID, r->ttr_us);
        if (r->lease_us != 0) {
            put_hex(&l, TR_HEX_ID, r->lease_us);
        }
    } else if (kind == 'H') {
        put_hex(&l, TR_HEX_ID, r->ttr_us);
        put_char(&l, r->holder != 0 ? '1' : '0');
    } else if (kind == 'K') {
        put_char(&l, r->beanstalk ? '1' : '0');
    } else if (kind == 'E') {
        put_edit(&l, r, age_us);
    }
    add_copy(c, l.text, l.len);
    if (kind == 'E') {
        add_copy(c, r->tag, r->tag_len);
        add_copy(c, (const char *)r->body, r->body_len);
    }
}

void tr_eval_tend(struct tr_eval *c, unsigned most, uint64_t forget_us, uint64_t epoch)
{
    add_number(c, most);
    add_number(c, forget_us);
    add_number(c, epoch);
}

void tr_eval_kick(struct tr_eval *c, unsigned most, bool beanstalk, char only)
{
    add_number(c, most);
    add_number(c, beanstalk ? 1 : 0);
    add_copy(c, &only, only != '\0' ? 1 : 0);
}

void tr_eval_pause(struct tr_eval *c, uint64_t us, bool counted)
{
    add_number(c, us);
    add_number(c, counted ? 1 : 0);
}

void tr_eval_look(struct tr_eval *c, bool bodies)
{
    add_number(c, bodies ? 1 : 0);
}

void tr_eval_look_at(struct tr_eval *c, unsigned topic, uint64_t id)
{
    struct line l = {.len = 0};

    put_hex(&l, 2, topic + 1);
    put_hex(&l, TR_HEX_ID, id);
    add_copy(c, l.text, l.len);
}

void tr_eval_claim(struct tr_eval *c, const struct tr_eval_claim *t)
{
    add_number(c, t->now_us);
    add_number(c, t->count);
    add_copy(c, t->tag, t->tag_len);
    add_number(c, t->wait_until_us);
    add_number(c, t->most);
    add_number(c, t->version);
    add_number(c, t->bytes);
}

void tr_eval_index_from(struct tr_eval *c, uint64_t now_us, uint64_t hot_max, bool sheds)
{
    char most[24];

    tr_text(most, sizeof most, "%s%llu", sheds ? "-" : "", (unsigned long long)hot_max);
    add_number(c, now_us);
    tr_eval_add(c, most, strlen(most));
}

static struct line image(char how, unsigned topic, uint64_t id)
{
    struct line l = {.len = 0};

    put_char(&l, how);
    put_bytes(&l, 1, topic + 1);
    put_hex(&l, TR_HEX_ID, id);
    return l;
}

void tr_eval_index(struct tr_eval *c, unsigned topic, enum tr_index_how how,
                   const struct tr_sql_job *row, uint64_t now_us)
{
    char text[LINE + TR_HEADER_MAX];
    struct line l = image((char)how, topic, row->id);
    struct tr_header h;

    if (row->state == TR_SQL_DEAD) {
        tr_eval_index_gone(c, topic, row->id, how == TR_INDEX_FORCE ? TR_INDEX_ANY : row->ver);
        return;
    }
    tr_truth_header(row, (struct tr_span){c->topics[topic], strlen(c->topics[topic])}, now_us, &h);
    h.key_len = 0; /* an entry says when, and who is first: the rest is in the row */
    h.backoff_len = 0;
    h.body_len = 0;
    memcpy(text, l.text, l.len);
    add_copy(c, text, l.len + tr_header_write(text + l.len, &h));
}

void tr_eval_index_gone(struct tr_eval *c, unsigned topic, uint64_t id, uint32_t ver)
{
    struct line l = image('G', topic, id);

    put_bytes(&l, 4, ver);
    add_copy(c, l.text, l.len);
}

void tr_eval_raise(struct tr_eval *c, uint64_t now_us, uint64_t upto_us, uint64_t epoch)
{
    add_number(c, now_us);
    add_number(c, upto_us);
    if (epoch != TR_RAISE_NEW) {
        add_number(c, epoch);
    } else {
        add_lent(c, "", 0);
    }
}

void tr_eval_scan(struct tr_eval *c, uint64_t now_us, struct tr_span cursor, unsigned count)
{
    add_number(c, now_us);
    add_copy(c, cursor.len > 0 ? cursor.at : "0", cursor.len > 0 ? cursor.len : 1);
    add_number(c, count);
}

int tr_eval_end(struct tr_eval *c)
{
    if (c->failed) {
        return TARRY_ENOMEM;
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (c->args[i].at == NULL) {
            const char *at = c->bytes + c->args[i].len;
            size_t len;

            memcpy(&len, at, sizeof len);
            c->args[i] = (struct tr_span){at + sizeof len, len};
        }
    }
    return TARRY_OK;
}

void tr_eval_aim(struct tr_eval *c, const char *run, uint64_t wall_us)
{
    c->args[c->run_at] = (struct tr_span){run, strlen(run)};
    c->args[c->run_at + WALL_BEHIND] = (struct tr_span){c->wall, tr_text_number(c->wall, wall_us)};
}

void tr_eval_with_text(struct tr_eval *c, enum tr_script_name script, bool text)
{
    const struct tr_script *s = &tr_scripts[script];

    c->args[EVALSHA] = text ? (struct tr_span){"EVAL", 4} : (struct tr_span){"EVALSHA", 7};
    c->args[SCRIPT] =
        text ? (struct tr_span){s->text, s->len} : (struct tr_span){s->sha, strlen(s->sha)};
}
