/*
 * Records.
 *
 *     u32     crc32c of all that follows, body included; begun with a number that is not in the
 *             bytes: the full rid for a job record, the base rid for all others
 *     varint  length of what follows, body included
 *     u8      type
 *     ...     by type
 *
 * `varint` is 7 bits a byte, low bits first; `signed` is zigzag, then varint. A `time` is signed:
 * its distance from the base's clock. A `maybe` time is often 0, which is far from any clock: with
 * z the zigzag that 0 would have, the varint 0 stands for it, v + 1 for a zigzag v < z, v for a
 * zigzag v > z. `bytes` are a varint length and so many bytes. All sums wrap at 2^64.
 *
 * Job records (PUSH, MOVE, ATTEMPT, ALTER, OCCUR, RELOG):
 *
 *     varint  mask: which fields are there
 *     signed  rid - base rid
 *      0 id         signed   id - rid
 *      1 due        time
 *      2 created    time
 *      3 delay      varint   us
 *      4 topic      varint   u32
 *      5 priority   varint   u32
 *      6 ttr        varint   us
 *      7 ttl        varint   us
 *      8 key        bytes    at most 255
 *      9 tag        bytes    at most 64
 *     10 retries    signed
 *     11 backoff    bytes    at most 400
 *     12 dead       u8 reason, varint seq, time
 *     13 counters   5 varints, u32: reserves, timeouts, releases, buries, kicks
 *     14 schedule   varint number, u32; varint occurrence
 *     15 actor      varint   u32
 *     16 old        signed rid - this rid, varint topic, time due, u8 marks
 *     17 flags      varint   u32
 *     18 times      maybe ready, maybe handed
 *     19 lease      varint epoch, u32; varint number; maybe end; varint its own ttr, us
 *     20 body       varint   its length, at most 8 MiB
 *     21 - 23       not used; a record that has one is of a newer version
 *     24 - 63       bytes    passed over
 *     the body, to the end
 *
 * KILLSET:  u8 reason, varint actor (u32), varint count, and per kill
 *           signed rid, signed topic, signed due: each less that of the kill before it, the first
 *           less the base rid, 0, the base clock; u8 marks
 * TOPIC:    varint topic (u32), bytes name
 * POLICY, PURGE, SCHED, CLOCK, SEAL, NOTE:
 *           varint topic (u32), varint number, bytes name, the body to the end
 *
 * `marks` is the cell kind (bits 0-1), was-dead (bit 2), and whether the length of its body follows
 * as a varint (bit 3); the other bits are 0. Logs of older builds have no such lengths.
 *
 * An unknown type below 128 is of a newer version; from 128 on it is passed over. The crc of both
 * begins with the base rid: whoever adds a type keeps to that.
 *
 * Because the crc covers the full rid, a record that is read at the wrong place or with the wrong
 * base is damaged, not another job. Nothing is believed before the crc is right, but for what is
 * needed to check it: the length, the type, and the rid. After that a number that does not fit is
 * still damage: a good crc says that we wrote the bytes, not that we wrote them well.
 *
 * Cost: one pass, and the crc's own. A put without key takes 20-28 bytes and its body.
 */

#include "engine/record.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

enum {
    CRC_SIZE = 4,
    LENGTH_SIZE_MAX = 5, /* of a varint below 2^32 */
    KILL_SIZE_MIN = 4,   /* rid, topic, due, marks: a byte each */
    WIDE_COUNT = 18,     /* numbers of 64 bits in a job record, mask and rid among them */
    NARROW_COUNT = 14,   /* numbers of 32 bits */
    SMALL_SIZE = 7,      /* lengths of key, tag and backoff; reason and marks */
    CELL_MAX = 3,        /* of two bits */
    DEAD_MARK = 4,
    LENGTH_MARK = 8,
};

static_assert(TR_F_BODY == 20, "the fields above are numbered by the header");
static_assert(CRC_SIZE + LENGTH_SIZE_MAX + 1 + WIDE_COUNT * TR_VARINT_MAX + NARROW_COUNT * 5 +
                      SMALL_SIZE + TR_KEY_MAX + TR_TAG_MAX + TR_BACKOFF_MAX <=
                  TR_RECORD_HEAD_MAX,
              "a head fits");
static_assert(CRC_SIZE + LENGTH_SIZE_MAX + 1 + 5 + TR_VARINT_MAX + 2 + TR_NAME_MAX <=
                  TR_RECORD_HEAD_MAX,
              "a name fits");
static_assert(2 * TR_VARINT_MAX + 5 + 1 + 5 <= TR_KILL_MAX, "a kill fits");

/* Fields that this version can write. */
#define FIELDS_KNOWN ((UINT64_C(1) << (TR_F_BODY + 1)) - 1)
/* Fields that must not be there: neither known nor to be passed over. */
#define FIELDS_NEWER (((UINT64_C(1) << TR_F_OPTIONAL) - 1) & ~FIELDS_KNOWN)

static bool is_job(uint8_t type)
{
    switch (type) {
    case TR_REC_PUSH:
    case TR_REC_MOVE:
    case TR_REC_ATTEMPT:
    case TR_REC_ALTER:
    case TR_REC_OCCUR:
    case TR_REC_RELOG:
        return true;
    default:
        return false;
    }
}

static bool has(const struct tr_record *rec, enum tr_field field)
{
    return (rec->mask >> field & 1) != 0;
}

/* ---- Writing. A cursor goes through the bytes; there is always room (TR_RECORD_HEAD_MAX). */

static void put(uint8_t **at, uint64_t v)
{
    *at += tr_put_varint(*at, v);
}

static void put_less(uint8_t **at, uint64_t v, uint64_t base)
{
    put(at, tr_zigzag((int64_t)(v - base)));
}

/* As above: 0 goes to the front, those that were before it make room. */
static void put_maybe(uint8_t **at, uint64_t time_us, uint64_t clock_us)
{
    uint64_t v = tr_zigzag((int64_t)(time_us - clock_us));
    uint64_t none = tr_zigzag((int64_t)(0 - clock_us));

    put(at, v == none ? 0 : v < none ? v + 1 : v);
}

static void put_bytes(uint8_t **at, struct tr_bytes b, size_t max)
{
    TR_CHECK(b.len <= max);
    put(at, b.len);
    if (b.len > 0) {
        memcpy(*at, b.at, b.len);
        *at += b.len;
    }
}

static void put_marks(uint8_t **at, const struct tr_kill *kill)
{
    TR_CHECK(kill->cell <= CELL_MAX);
    TR_CHECK(kill->was_dead <= 1);
    *(*at)++ = (uint8_t)(kill->cell | (kill->was_dead != 0 ? DEAD_MARK : 0) |
                         (kill->weighed ? LENGTH_MARK : 0));
    if (kill->weighed) {
        put(at, kill->body_len);
    }
}

/* Fields 0 to 9: what a put has. */
static void put_first_fields(uint8_t **at, const struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_ID)) {
        put_less(at, rec->id, rec->rid);
    }
    if (has(rec, TR_F_DUE)) {
        put_less(at, rec->due_us, base.clock_us);
    }
    if (has(rec, TR_F_CREATED)) {
        put_less(at, rec->created_us, base.clock_us);
    }
    if (has(rec, TR_F_DELAY)) {
        put(at, rec->delay_us);
    }
    if (has(rec, TR_F_TOPIC)) {
        put(at, rec->topic);
    }
    if (has(rec, TR_F_PRIORITY)) {
        put(at, rec->priority);
    }
    if (has(rec, TR_F_TTR)) {
        put(at, rec->ttr_us);
    }
    if (has(rec, TR_F_TTL)) {
        put(at, rec->ttl_us);
    }
    if (has(rec, TR_F_KEY)) {
        put_bytes(at, rec->key, TR_KEY_MAX);
    }
    if (has(rec, TR_F_TAG)) {
        put_bytes(at, rec->tag, TR_TAG_MAX);
    }
}

/* Fields 10 to 15. */
static void put_middle_fields(uint8_t **at, const struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_RETRIES)) {
        put(at, tr_zigzag(rec->retries));
    }
    if (has(rec, TR_F_BACKOFF)) {
        put_bytes(at, rec->backoff, TR_BACKOFF_MAX);
    }
    if (has(rec, TR_F_DEAD)) {
        *(*at)++ = rec->dead.reason;
        put(at, rec->dead.seq);
        put_less(at, rec->dead.at_us, base.clock_us);
    }
    if (has(rec, TR_F_COUNTERS)) {
        put(at, rec->counters.reserves);
        put(at, rec->counters.timeouts);
        put(at, rec->counters.releases);
        put(at, rec->counters.buries);
        put(at, rec->counters.kicks);
    }
    if (has(rec, TR_F_SCHEDULE)) {
        put(at, rec->schedule.number);
        put(at, rec->schedule.occurrence);
    }
    if (has(rec, TR_F_ACTOR)) {
        put(at, rec->actor);
    }
}

/* Fields 16 to 20. */
static void put_last_fields(uint8_t **at, const struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_OLD)) {
        put_less(at, rec->old.rid, rec->rid);
        put(at, rec->old.topic);
        put_less(at, rec->old.due_us, base.clock_us);
        put_marks(at, &rec->old);
    }
    if (has(rec, TR_F_FLAGS)) {
        put(at, rec->flags);
    }
    if (has(rec, TR_F_TIMES)) {
        put_maybe(at, rec->times.ready_us, base.clock_us);
        put_maybe(at, rec->times.handed_us, base.clock_us);
    }
    if (has(rec, TR_F_LEASE)) {
        put(at, rec->lease.epoch);
        put(at, rec->lease.number);
        put_maybe(at, rec->lease.end_us, base.clock_us);
        put(at, rec->lease.ttr_us);
    }
    if (has(rec, TR_F_BODY)) {
        put(at, rec->body.len);
    }
}

static void put_kills(uint8_t **at, const struct tr_record *rec, struct tr_base base)
{
    struct tr_kill last = {.rid = base.rid, .due_us = base.clock_us};

    *(*at)++ = rec->reason;
    put(at, rec->actor);
    put(at, rec->kill_count);
    for (uint32_t i = 0; i < rec->kill_count; i++) {
        const struct tr_kill *kill = &rec->kill_list[i];

        put_less(at, kill->rid, last.rid);
        put_less(at, kill->topic, last.topic);
        put_less(at, kill->due_us, last.due_us);
        put_marks(at, kill);
        last = *kill;
    }
}

/* All between the length and the body. */
static void put_content(uint8_t **at, const struct tr_record *rec, struct tr_base base)
{
    *(*at)++ = rec->type;
    if (is_job(rec->type)) {
        TR_CHECK((rec->mask & ~FIELDS_KNOWN) == 0);
        TR_CHECK(rec->body.len == 0 || has(rec, TR_F_BODY));
        TR_CHECK(rec->number == 0); /* an OCCUR has it in its field SCHEDULE */
        put(at, rec->mask);
        put_less(at, rec->rid, base.rid);
        put_first_fields(at, rec, base);
        put_middle_fields(at, rec, base);
        put_last_fields(at, rec, base);
        return;
    }
    TR_CHECK(rec->mask == 0);
    if (rec->type == TR_REC_KILLSET) {
        TR_CHECK(rec->body.len == 0);
        put_kills(at, rec, base);
        return;
    }
    put(at, rec->topic);
    if (rec->type == TR_REC_TOPIC) {
        TR_CHECK(rec->body.len == 0);
    } else {
        put(at, rec->number);
    }
    put_bytes(at, rec->name, TR_NAME_MAX);
}

static bool is_known(uint8_t type)
{
    return (type >= TR_REC_PUSH && type <= TR_REC_CLOCK) || type == TR_REC_SEAL ||
           type == TR_REC_NOTE;
}

static size_t varint_size(uint64_t v)
{
    uint8_t raw[TR_VARINT_MAX];

    return tr_put_varint(raw, v);
}

size_t tr_record_encode(uint8_t *out, const struct tr_record *rec, struct tr_base base)
{
    /* The content is written where it will stand if the guess of its length is right. */
    size_t guess = varint_size(rec->body.len + 32);
    uint8_t *content = out + CRC_SIZE + guess;
    uint8_t *end = content;
    uint64_t seed = is_job(rec->type) ? rec->rid : base.rid;
    size_t head;
    size_t gap;
    uint32_t crc;

    TR_CHECK(is_known(rec->type));
    TR_CHECK(rec->body.len <= TR_BODY_MAX);
    put_content(&end, rec, base);
    head = (size_t)(end - content);
    gap = varint_size(head + rec->body.len);
    if (gap != guess) {
        memmove(out + CRC_SIZE + gap, content, head);
    }
    tr_put_varint(out + CRC_SIZE, head + rec->body.len);
    crc = tr_crc(tr_crc_seed(seed), out + CRC_SIZE, gap + head);
    if (rec->body.len > 0) {
        crc = tr_crc(crc, rec->body.at, rec->body.len);
    }
    tr_put_le(out, crc, CRC_SIZE);
    return CRC_SIZE + gap + head;
}

/* ---- Reading. Whatever does not fit makes the reader bad; that is looked at once, at the end. */

static uint64_t get_upto(struct tr_reader *r, uint64_t max)
{
    uint64_t v = tr_read_varint(r);

    if (v > max) {
        r->bad = true;
        return 0;
    }
    return v;
}

static uint32_t get_u32(struct tr_reader *r)
{
    return (uint32_t)get_upto(r, UINT32_MAX);
}

static uint64_t get_more(struct tr_reader *r, uint64_t base)
{
    return base + (uint64_t)tr_read_signed(r);
}

static uint64_t get_maybe(struct tr_reader *r, uint64_t clock_us)
{
    uint64_t v = tr_read_varint(r);
    uint64_t none = tr_zigzag((int64_t)(0 - clock_us));

    if (v == 0) {
        return 0;
    }
    return clock_us + (uint64_t)tr_unzigzag(v <= none ? v - 1 : v);
}

/* The next len bytes; those of length 0 are nowhere. */
static struct tr_bytes get_run(struct tr_reader *r, uint64_t len)
{
    const uint8_t *at = tr_read_bytes(r, len);

    return at != NULL && len > 0 ? (struct tr_bytes){.at = at, .len = (size_t)len}
                                 : (struct tr_bytes){0};
}

static struct tr_bytes get_bytes(struct tr_reader *r, uint64_t max)
{
    return get_run(r, get_upto(r, max));
}

static struct tr_bytes get_body(struct tr_reader *r, uint64_t len)
{
    r->bad |= len > TR_BODY_MAX;
    return get_run(r, len);
}

static void get_marks(struct tr_reader *r, struct tr_kill *kill)
{
    uint8_t marks = (uint8_t)tr_read_le(r, 1);

    r->bad |= marks > (CELL_MAX | DEAD_MARK | LENGTH_MARK);
    kill->cell = marks & CELL_MAX;
    kill->was_dead = (marks & DEAD_MARK) != 0;
    kill->weighed = (marks & LENGTH_MARK) != 0;
    kill->body_len = kill->weighed ? (uint32_t)get_upto(r, TR_BODY_MAX) : 0;
}

static void get_first_fields(struct tr_reader *r, struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_ID)) {
        rec->id = get_more(r, rec->rid);
    }
    if (has(rec, TR_F_DUE)) {
        rec->due_us = get_more(r, base.clock_us);
    }
    if (has(rec, TR_F_CREATED)) {
        rec->created_us = get_more(r, base.clock_us);
    }
    if (has(rec, TR_F_DELAY)) {
        rec->delay_us = tr_read_varint(r);
    }
    if (has(rec, TR_F_TOPIC)) {
        rec->topic = get_u32(r);
    }
    if (has(rec, TR_F_PRIORITY)) {
        rec->priority = get_u32(r);
    }
    if (has(rec, TR_F_TTR)) {
        rec->ttr_us = tr_read_varint(r);
    }
    if (has(rec, TR_F_TTL)) {
        rec->ttl_us = tr_read_varint(r);
    }
    if (has(rec, TR_F_KEY)) {
        rec->key = get_bytes(r, TR_KEY_MAX);
    }
    if (has(rec, TR_F_TAG)) {
        rec->tag = get_bytes(r, TR_TAG_MAX);
    }
}

static void get_middle_fields(struct tr_reader *r, struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_RETRIES)) {
        rec->retries = tr_read_signed(r);
    }
    if (has(rec, TR_F_BACKOFF)) {
        rec->backoff = get_bytes(r, TR_BACKOFF_MAX);
    }
    if (has(rec, TR_F_DEAD)) {
        rec->dead.reason = (uint8_t)tr_read_le(r, 1);
        rec->dead.seq = tr_read_varint(r);
        rec->dead.at_us = get_more(r, base.clock_us);
    }
    if (has(rec, TR_F_COUNTERS)) {
        rec->counters.reserves = get_u32(r);
        rec->counters.timeouts = get_u32(r);
        rec->counters.releases = get_u32(r);
        rec->counters.buries = get_u32(r);
        rec->counters.kicks = get_u32(r);
    }
    if (has(rec, TR_F_SCHEDULE)) {
        rec->schedule.number = get_u32(r);
        rec->schedule.occurrence = tr_read_varint(r);
    }
    if (has(rec, TR_F_ACTOR)) {
        rec->actor = get_u32(r);
    }
}

static void get_last_fields(struct tr_reader *r, struct tr_record *rec, struct tr_base base)
{
    if (has(rec, TR_F_OLD)) {
        rec->old.rid = get_more(r, rec->rid);
        rec->old.topic = get_u32(r);
        rec->old.due_us = get_more(r, base.clock_us);
        get_marks(r, &rec->old);
    }
    if (has(rec, TR_F_FLAGS)) {
        rec->flags = get_u32(r);
    }
    if (has(rec, TR_F_TIMES)) {
        rec->times.ready_us = get_maybe(r, base.clock_us);
        rec->times.handed_us = get_maybe(r, base.clock_us);
    }
    if (has(rec, TR_F_LEASE)) {
        rec->lease.epoch = get_u32(r);
        rec->lease.number = tr_read_varint(r);
        rec->lease.end_us = get_maybe(r, base.clock_us);
        rec->lease.ttr_us = tr_read_varint(r);
    }
}

/* The fields of a job record, then its body: what is left must be exactly that. */
static int get_fields(struct tr_reader *r, struct tr_record *rec, struct tr_base base)
{
    uint64_t body_len = 0;
    uint64_t optional = rec->mask >> TR_F_OPTIONAL;

    if ((rec->mask & FIELDS_NEWER) != 0) {
        return TARRY_EVERSION;
    }
    get_first_fields(r, rec, base);
    get_middle_fields(r, rec, base);
    get_last_fields(r, rec, base);
    if (has(rec, TR_F_BODY)) {
        body_len = tr_read_varint(r);
    }
    for (; optional != 0; optional &= optional - 1) {
        tr_read_bytes(r, tr_read_varint(r));
    }
    rec->mask &= FIELDS_KNOWN;
    rec->body = get_body(r, body_len);
    return TARRY_OK;
}

/* The next kill, told as differences from the last. */
static void get_kill(struct tr_reader *r, const struct tr_kill *last, struct tr_kill *kill)
{
    uint64_t topic;

    kill->rid = get_more(r, last->rid);
    topic = get_more(r, last->topic);
    r->bad |= topic > UINT32_MAX;
    kill->topic = (uint32_t)topic;
    kill->due_us = get_more(r, last->due_us);
    get_marks(r, kill);
}

static void get_kills(struct tr_reader *r, struct tr_record *rec)
{
    struct tr_kill kill = {0}; /* only whether it can be read counts, so the base does not */
    const uint8_t *from;

    rec->reason = (uint8_t)tr_read_le(r, 1);
    rec->actor = get_u32(r);
    rec->kill_count = (uint32_t)get_upto(r, tr_reader_left(r) / KILL_SIZE_MIN);
    from = r->at;
    for (uint32_t i = 0; i < rec->kill_count && !r->bad; i++) {
        struct tr_kill last = kill;

        get_kill(r, &last, &kill);
    }
    rec->kills = (struct tr_bytes){.at = from, .len = (size_t)(r->at - from)};
}

/* All behind the type (and the rid, where there is one). */
static int get_content(struct tr_reader *r, struct tr_record *rec, struct tr_base base)
{
    if (is_job(rec->type)) {
        return get_fields(r, rec, base);
    }
    if (rec->type == TR_REC_KILLSET) {
        get_kills(r, rec);
        return TARRY_OK;
    }
    rec->topic = get_u32(r);
    if (rec->type != TR_REC_TOPIC) {
        rec->number = tr_read_varint(r);
    }
    rec->name = get_bytes(r, TR_NAME_MAX);
    if (rec->type != TR_REC_TOPIC) {
        rec->body = get_body(r, tr_reader_left(r));
    }
    return TARRY_OK;
}

/* Reads crc and length, and makes r end with the record. */
static uint32_t get_frame(struct tr_reader *r)
{
    uint32_t crc = (uint32_t)tr_read_le(r, CRC_SIZE);
    struct tr_reader ahead = *r;
    uint64_t len = get_upto(&ahead, tr_reader_left(&ahead));

    if (tr_read_bytes(&ahead, len) == NULL || len == 0) {
        r->bad = true;
    } else {
        r->end = ahead.at;
    }
    return crc;
}

int tr_record_decode(const uint8_t *p, size_t len, struct tr_base base, struct tr_record *rec,
                     size_t *used)
{
    struct tr_reader r = tr_reader_of(p, len);
    uint32_t crc = get_frame(&r);
    const uint8_t *covered = r.at;
    uint64_t seed = base.rid;
    int err;

    memset(rec, 0, sizeof *rec);
    *used = 0;
    tr_read_varint(&r); /* the length, which get_frame has seen to */
    rec->type = (uint8_t)tr_read_le(&r, 1);
    if (is_job(rec->type)) {
        rec->mask = tr_read_varint(&r);
        rec->rid = get_more(&r, base.rid);
        seed = rec->rid;
    }
    if (r.bad || tr_crc(tr_crc_seed(seed), covered, (size_t)(r.end - covered)) != crc) {
        return TARRY_EDAMAGED;
    }
    if (!is_known(rec->type)) {
        *used = (size_t)(r.end - p);
        return rec->type < TR_REC_SKIPPABLE ? TARRY_EVERSION : TARRY_OK;
    }
    err = get_content(&r, rec, base);
    if (err == TARRY_OK && (r.bad || tr_reader_left(&r) != 0)) {
        err = TARRY_EDAMAGED;
    }
    *used = err == TARRY_EDAMAGED ? 0 : (size_t)(r.end - p);
    return err;
}

int tr_record_decode_known(const uint8_t *p, size_t len, uint64_t rid, uint64_t due_us,
                           struct tr_record *rec)
{
    struct tr_reader r = tr_reader_of(p, len);
    struct tr_base base = {0};
    uint64_t mask;
    size_t used;
    int err;

    (void)get_frame(&r);
    tr_read_varint(&r); /* the length */
    if (!is_job((uint8_t)tr_read_le(&r, 1))) {
        return TARRY_EDAMAGED;
    }
    mask = tr_read_varint(&r);
    base.rid = rid - get_more(&r, 0);
    if ((mask & TR_FIELD(ID)) != 0) {
        tr_read_signed(&r);
    }
    if ((mask & TR_FIELD(DUE)) != 0) {
        base.clock_us = due_us - get_more(&r, 0);
    }
    if (r.bad) {
        return TARRY_EDAMAGED;
    }
    err = tr_record_decode(p, len, base, rec, &used);
    return err == TARRY_OK && used != len ? TARRY_EDAMAGED : err;
}

bool tr_record_good(const uint8_t *p, size_t len, uint64_t rid)
{
    struct tr_reader r = tr_reader_of(p, len);
    uint32_t crc = get_frame(&r);
    const uint8_t *covered = r.at;

    tr_read_varint(&r);
    if (!is_job((uint8_t)tr_read_le(&r, 1)) || r.bad || r.end != p + len) {
        return false;
    }
    return tr_crc(tr_crc_seed(rid), covered, (size_t)(r.end - covered)) == crc;
}

bool tr_record_next_kill(const struct tr_record *rec, struct tr_base base,
                         struct tr_kill_walk *walk, struct tr_kill *kill)
{
    struct tr_reader r;

    TR_CHECK(walk->at <= rec->kills.len);
    if (walk->at == rec->kills.len) {
        return false;
    }
    if (walk->at == 0) {
        walk->last = (struct tr_kill){.rid = base.rid, .due_us = base.clock_us};
    }
    r = tr_reader_of(rec->kills.at + walk->at, rec->kills.len - walk->at);
    get_kill(&r, &walk->last, kill);
    TR_CHECK(!r.bad);
    walk->at = (size_t)(r.at - rec->kills.at);
    walk->last = *kill;
    return true;
}
