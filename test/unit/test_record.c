/*
 * Records: what goes in comes out, whatever the base; and every damage is seen.
 *
 * The model is the record itself: random fields are set, written, read and compared one by one.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { KILLS = 20, ROOM = TR_RECORD_HEAD_MAX + KILLS * TR_KILL_MAX + 4096 };

static const struct tr_base base = {.rid = 1000000, .clock_us = UINT64_C(1760000000000000)};

/* Writes rec with its body behind it; gives the length of both. */
static size_t write_record(uint8_t *out, const struct tr_record *rec, struct tr_base from)
{
    size_t len = tr_record_encode(out, rec, from);

    if (rec->body.len > 0) {
        memcpy(out + len, rec->body.at, rec->body.len);
    }
    return len + rec->body.len;
}

/* Makes the crc right again after a change to the bytes behind it. */
static void repair(uint8_t *p, size_t len, uint64_t seed)
{
    tr_put_le(p, tr_crc(tr_crc_seed(seed), p + 4, len - 4), 4);
}

static struct tr_record plain_put(const uint8_t *body, size_t len)
{
    return (struct tr_record){
        .type = TR_REC_PUSH,
        .mask = TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(TOPIC) | TR_FIELD(BODY),
        .rid = base.rid + 77,
        .due_us = base.clock_us + UINT64_C(1800000000),
        .created_us = base.clock_us - 120,
        .topic = 300,
        .body = {.at = body, .len = len},
    };
}

static void test_record_plain_put_is_small(void **state)
{
    uint8_t out[ROOM];
    struct tr_record rec = plain_put((const uint8_t *)"hello", 5);

    (void)state;
    assert_true(tr_record_encode(out, &rec, base) <= 28);
}

/* The format is for ever: these bytes must mean the same in every later version. */
static void test_record_bytes_do_not_change(void **state)
{
    static const uint8_t want[] = {
        0x00, 0x00, 0x00, 0x00,            /* crc, below */
        0x15,                              /* length */
        0x01,                              /* PUSH */
        0x96, 0x80, 0x40,                  /* due, created, topic, body */
        0x9a, 0x01,                        /* rid: +77 */
        0x80, 0xc8, 0xce, 0xb4, 0x0d,      /* due: +1,800,000,000 */
        0xef, 0x01,                        /* created: -120 */
        0xac, 0x02,                        /* topic 300 */
        0x05, 'h',  'e',  'l',  'l',  'o', /* body */
    };
    uint8_t out[ROOM];
    struct tr_record rec = plain_put((const uint8_t *)"hello", 5);

    (void)state;
    assert_int_equal(write_record(out, &rec, base), sizeof want);
    assert_memory_equal(out + 4, want + 4, sizeof want - 4);
    assert_int_equal(tr_get_le(out, 4),
                     tr_crc(tr_crc_seed(base.rid + 77), want + 4, sizeof want - 4));
}

static void test_record_any_flipped_bit_is_seen(void **state)
{
    uint8_t out[ROOM];
    struct tr_record rec = plain_put((const uint8_t *)"hello", 5);
    struct tr_record got;
    size_t len = write_record(out, &rec, base);
    size_t used;

    (void)state;
    for (size_t bit = 0; bit < len * 8; bit++) {
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(tr_record_decode(out, len, base, &got, &used), TARRY_EDAMAGED);
        assert_int_equal(used, 0);
        assert_false(tr_record_good(out, len, rec.rid));
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(tr_record_decode(out, cut, base, &got, &used), TARRY_EDAMAGED);
        assert_false(tr_record_good(out, cut, rec.rid));
    }
    assert_int_equal(tr_record_decode(out, len + 9, base, &got, &used), TARRY_OK);
    assert_int_equal(used, len);
}

static void test_record_wrong_base_is_damage(void **state)
{
    struct tr_base other = {.rid = base.rid + 1, .clock_us = base.clock_us};
    struct tr_record rec = plain_put((const uint8_t *)"hello", 5);
    struct tr_record topic = {
        .type = TR_REC_TOPIC, .topic = 3, .name = {.at = (const uint8_t *)"mail", .len = 4}};
    uint8_t out[ROOM];
    struct tr_record got;
    size_t len = write_record(out, &rec, base);
    size_t used;

    (void)state;
    assert_int_equal(tr_record_decode(out, len, other, &got, &used), TARRY_EDAMAGED);
    assert_true(tr_record_good(out, len, rec.rid));
    assert_false(tr_record_good(out, len, rec.rid + 1));
    assert_false(tr_record_good(out, len + 1, rec.rid));
    len = write_record(out, &topic, base);
    assert_int_equal(tr_record_decode(out, len, base, &got, &used), TARRY_OK);
    assert_int_equal(tr_record_decode(out, len, other, &got, &used), TARRY_EDAMAGED);
    assert_false(tr_record_good(out, len, base.rid)); /* of no job */
}

static void test_record_newer_versions_are_told_apart(void **state)
{
    uint8_t p[] = {0, 0, 0, 0, 5, 0, 0, 0, 0, 0};
    struct tr_record got;
    size_t used;

    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        bool known = (type >= TR_REC_PUSH && type <= TR_REC_CLOCK) || type == TR_REC_SEAL ||
                     type == TR_REC_NOTE;

        if (known) {
            continue;
        }
        p[5] = (uint8_t)type;
        repair(p, sizeof p, base.rid);
        assert_int_equal(tr_record_decode(p, sizeof p, base, &got, &used),
                         type < TR_REC_SKIPPABLE ? TARRY_EVERSION : TARRY_OK);
        assert_int_equal(got.type, type);
        assert_int_equal(used, sizeof p);
    }
}

static void test_record_unknown_fields(void **state)
{
    for (unsigned bit = TR_F_BODY + 1; bit < 64; bit++) {
        uint8_t p[64] = {0};
        size_t len = 6;
        struct tr_record got;
        size_t used;
        int want = bit < TR_F_OPTIONAL ? TARRY_EVERSION : TARRY_OK;

        (void)state;
        p[5] = TR_REC_ALTER;
        len += tr_put_varint(p + len, TR_FIELD(PRIORITY) | UINT64_C(1) << bit);
        p[len++] = 2;  /* rid: +1 */
        p[len++] = 42; /* priority */
        p[len++] = 3;  /* the field that is not known */
        len += 3;
        p[4] = (uint8_t)(len - 5);
        repair(p, len, base.rid + 1);
        assert_int_equal(tr_record_decode(p, len, base, &got, &used), want);
        if (want == TARRY_OK) {
            assert_int_equal(got.priority, 42);
            assert_true(got.mask == TR_FIELD(PRIORITY));
        }
        assert_int_equal(used, len);
        p[len - 4] = 4; /* longer than what is left */
        repair(p, len, base.rid + 1);
        assert_int_equal(tr_record_decode(p, len, base, &got, &used),
                         want == TARRY_OK ? TARRY_EDAMAGED : want);
    }
}

/* A right crc over nonsense: counts and lengths that the bytes cannot hold. */
static void test_record_counts_are_not_believed(void **state)
{
    static const struct {
        const char *bytes; /* from the type on */
        uint8_t len;
    } bad[] = {
        {"\x03\x01\x00\xff\xff\xff\xff\x0f", 8},                  /* KILLSET of 4 G kills */
        {"\x03\x01\x00\x01\x00\x00\x00\x10", 8},                  /* a mark that is not one */
        {"\x03\x01\x00\x01\x00\x00\x00\x08", 8},                  /* a length that is not there */
        {"\x03\x01\x00\x01\x00\x00\x00\x08\x81\x80\x80\x04", 12}, /* and one that is too long */
        {"\x03\x01\x00\x01\x00\x01\x00\x00", 8},                  /* topic -1 */
        {"\x03\x01\x00\x01\x00\x00\x00\x00\x00", 9},              /* one byte too many */
        {"\x06\x01\x05ok", 5},                                    /* TOPIC with half a name */
        {"\x06\x01\x02ok!", 6},                                   /* and with too much */
        {"\x01\x80\x80\x40\x00\x05hello!", 12},                   /* body longer than said */
        {"\x01\x80\x80\x40\x00\x05hell", 10},                     /* body shorter than said */
        {"\x01\x10\x00\xff\xff\xff\xff\x1f", 8},                  /* topic of 33 bits */
        {"\x01\x80\x04\x00\x41", 5},                              /* tag of 65 bytes */
        {"\x07\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13}, /* POLICY, endless name */
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t p[64] = {0};
        struct tr_record got;
        size_t used = 1;

        p[4] = bad[i].len;
        memcpy(p + 5, bad[i].bytes, bad[i].len);
        repair(p, 5u + bad[i].len, base.rid);
        if (tr_record_decode(p, 5u + bad[i].len, base, &got, &used) != TARRY_EDAMAGED) {
            fail_msg("row %zu was read", i);
        }
        assert_int_equal(used, 0);
    }
}

/* A time that may be absent: none is lost at the places where the codes move up. */
static void test_record_maybe_times_at_their_edges(void **state)
{
    uint64_t clocks[] = {0, 1, base.clock_us, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX};

    (void)state;
    for (size_t c = 0; c < sizeof clocks / sizeof *clocks; c++) {
        struct tr_base from = {.rid = 1, .clock_us = clocks[c]};

        for (uint64_t near = 0; near < 60; near++) {
            uint64_t centre = near / 10 % 3 * clocks[c] + (near / 30 << 63);
            struct tr_record rec = {
                .type = TR_REC_ATTEMPT, .mask = TR_FIELD(LEASE) | TR_FIELD(TIMES), .rid = 2};
            struct tr_record got;
            uint8_t out[ROOM];
            size_t used;

            rec.lease.end_us = centre + near % 10 - 5;
            rec.times.handed_us = near % 2 * rec.lease.end_us;
            assert_int_equal(
                tr_record_decode(out, tr_record_encode(out, &rec, from), from, &got, &used),
                TARRY_OK);
            assert_true(got.lease.end_us == rec.lease.end_us);
            assert_true(got.times.handed_us == rec.times.handed_us);
            assert_true(got.times.ready_us == 0);
        }
    }
}

/* Every field at its largest still fits the head. */
static void test_record_largest_head_fits(void **state)
{
    static uint8_t pool[TR_BODY_MAX];
    struct tr_record rec = {
        .type = TR_REC_MOVE,
        .mask = TR_FIELD(BODY_ELSEWHERE) - 1,
        .rid = UINT64_MAX / 2,
        .id = UINT64_MAX,
        .due_us = UINT64_MAX,
        .created_us = UINT64_MAX,
        .delay_us = UINT64_MAX,
        .topic = UINT32_MAX,
        .priority = UINT32_MAX,
        .ttr_us = UINT64_MAX,
        .ttl_us = UINT64_MAX,
        .key = {pool, TR_KEY_MAX},
        .tag = {pool, TR_TAG_MAX},
        .retries = INT64_MIN,
        .backoff = {pool, TR_BACKOFF_MAX},
        .dead = {UINT8_MAX, UINT64_MAX, UINT64_MAX},
        .counters = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
        .schedule = {UINT32_MAX, UINT64_MAX},
        .actor = UINT32_MAX,
        .old = {UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, 3, 1, true},
        .flags = UINT32_MAX,
        .times = {UINT64_MAX, UINT64_MAX},
        .lease = {UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        .body = {pool, TR_BODY_MAX},
    };
    struct tr_base far = {.rid = 0, .clock_us = UINT64_MAX / 2 + 2};
    uint8_t out[TR_RECORD_HEAD_MAX];

    (void)state;
    assert_in_range(tr_record_encode(out, &rec, far), 900, TR_RECORD_HEAD_MAX);
}

static uint64_t any(struct tr_rng *rng)
{
    return tr_rng_next(rng) >> tr_rng_below(rng, 64);
}

/* A time near the base's clock, or any; or none. */
static uint64_t any_time(struct tr_rng *rng)
{
    switch (tr_rng_below(rng, 4)) {
    case 0:
        return 0;
    case 1:
        return any(rng);
    default:
        return base.clock_us + tr_rng_below(rng, UINT64_C(1) << 36) - (UINT64_C(1) << 35);
    }
}

static struct tr_bytes any_bytes(struct tr_rng *rng, size_t max)
{
    static const uint8_t pool[1200] = "The bytes of names, keys and bodies are borrowed from here.";
    size_t len = (size_t)tr_rng_below(rng, max + 1);

    return (struct tr_bytes){.at = len > 0 ? pool + tr_rng_below(rng, 32) : NULL, .len = len};
}

static struct tr_kill any_kill(struct tr_rng *rng)
{
    bool weighed = tr_rng_below(rng, 2) != 0;

    return (struct tr_kill){
        .rid = any(rng),
        .due_us = any_time(rng),
        .topic = (uint32_t)any(rng),
        .cell = (uint8_t)tr_rng_below(rng, 4),
        .was_dead = (uint8_t)tr_rng_below(rng, 2),
        .weighed = weighed,
        .body_len = weighed ? (uint32_t)tr_rng_below(rng, TR_BODY_MAX + 1) : 0,
    };
}

/* Sets all fields; drop_fields then clears those that the mask does not name. */
static void any_fields(struct tr_rng *rng, struct tr_record *rec)
{
    rec->rid = base.rid + any(rng) % 100000 - 1000;
    rec->id = any(rng);
    rec->due_us = any_time(rng);
    rec->created_us = any_time(rng);
    rec->delay_us = any(rng);
    rec->topic = (uint32_t)any(rng);
    rec->priority = (uint32_t)any(rng);
    rec->ttr_us = any(rng);
    rec->ttl_us = any(rng);
    rec->key = any_bytes(rng, TR_KEY_MAX);
    rec->tag = any_bytes(rng, TR_TAG_MAX);
    rec->retries = (int64_t)any(rng) * (tr_rng_below(rng, 2) != 0 ? -1 : 1);
    rec->backoff = any_bytes(rng, TR_BACKOFF_MAX);
    rec->dead.reason = (uint8_t)any(rng);
    rec->dead.seq = any(rng);
    rec->dead.at_us = any_time(rng);
    rec->counters = (struct tr_counters){(uint32_t)any(rng), (uint32_t)any(rng), 1, 0, 7};
    rec->schedule.number = (uint32_t)any(rng);
    rec->schedule.occurrence = any(rng);
    rec->actor = (uint32_t)any(rng);
    rec->old = any_kill(rng);
    rec->flags = (uint32_t)any(rng);
    rec->times.ready_us = any_time(rng);
    rec->times.handed_us = any_time(rng);
    rec->lease.epoch = (uint32_t)any(rng);
    rec->lease.number = any(rng);
    rec->lease.end_us = any_time(rng);
    rec->lease.ttr_us = any(rng);
    rec->body = any_bytes(rng, tr_rng_below(rng, 4) == 0 ? 1000 : 60);
}

#define DROP(rec, name, field)                                                                     \
    (((rec)->mask & TR_FIELD(name)) != 0 ? (void)0                                                 \
                                         : (void)memset(&(rec)->field, 0, sizeof(rec)->field))

static void drop_fields(struct tr_record *rec)
{
    DROP(rec, ID, id);
    DROP(rec, DUE, due_us);
    DROP(rec, CREATED, created_us);
    DROP(rec, DELAY, delay_us);
    DROP(rec, TOPIC, topic);
    DROP(rec, PRIORITY, priority);
    DROP(rec, TTR, ttr_us);
    DROP(rec, TTL, ttl_us);
    DROP(rec, KEY, key);
    DROP(rec, TAG, tag);
    DROP(rec, RETRIES, retries);
    DROP(rec, BACKOFF, backoff);
    DROP(rec, DEAD, dead);
    DROP(rec, COUNTERS, counters);
    DROP(rec, SCHEDULE, schedule);
    DROP(rec, ACTOR, actor);
    DROP(rec, OLD, old);
    DROP(rec, FLAGS, flags);
    DROP(rec, TIMES, times);
    DROP(rec, LEASE, lease);
    DROP(rec, BODY, body);
}

static void any_record(struct tr_rng *rng, struct tr_record *rec, struct tr_kill *kills)
{
    static const uint8_t types[] = {
        TR_REC_PUSH,  TR_REC_MOVE,  TR_REC_ATTEMPT, TR_REC_ALTER, TR_REC_RELOG,
        TR_REC_OCCUR, TR_REC_TOPIC, TR_REC_KILLSET, TR_REC_PURGE, TR_REC_POLICY,
        TR_REC_SCHED, TR_REC_CLOCK, TR_REC_SEAL,    TR_REC_NOTE,
    };
    size_t i = (size_t)tr_rng_below(rng, sizeof types);

    memset(rec, 0, sizeof *rec);
    rec->type = types[i];
    if (i < 6) {
        rec->mask = tr_rng_next(rng) & tr_rng_next(rng) & (TR_FIELD(BODY_ELSEWHERE) - 1);
        any_fields(rng, rec);
        drop_fields(rec);
        return;
    }
    if (rec->type == TR_REC_KILLSET) {
        rec->reason = (uint8_t)any(rng);
        rec->actor = (uint32_t)any(rng);
        rec->kill_count = (uint32_t)tr_rng_below(rng, KILLS + 1);
        rec->kill_list = kills;
        for (uint32_t k = 0; k < rec->kill_count; k++) {
            kills[k] = any_kill(rng);
        }
        return;
    }
    rec->topic = (uint32_t)any(rng);
    rec->name = any_bytes(rng, TR_NAME_MAX);
    if (rec->type != TR_REC_TOPIC) {
        rec->number = any(rng);
        rec->body = any_bytes(rng, 300);
    }
}

static void assert_bytes_equal(struct tr_bytes a, struct tr_bytes b)
{
    assert_int_equal(a.len, b.len);
    if (a.len > 0) {
        assert_memory_equal(a.at, b.at, a.len);
    }
}

static void assert_kill_equal(const struct tr_kill *a, const struct tr_kill *b)
{
    assert_true(a->rid == b->rid);
    assert_true(a->due_us == b->due_us);
    assert_true(a->topic == b->topic);
    assert_true(a->cell == b->cell);
    assert_true(a->was_dead == b->was_dead);
    assert_true(a->weighed == b->weighed);
    assert_true(a->body_len == b->body_len);
}

static void assert_record_equal(const struct tr_record *a, const struct tr_record *b)
{
    assert_int_equal(a->type, b->type);
    assert_true(a->mask == b->mask);
    assert_true(a->rid == b->rid);
    assert_true(a->id == b->id);
    assert_true(a->due_us == b->due_us);
    assert_true(a->created_us == b->created_us);
    assert_true(a->delay_us == b->delay_us);
    assert_true(a->topic == b->topic);
    assert_true(a->priority == b->priority);
    assert_true(a->ttr_us == b->ttr_us);
    assert_true(a->ttl_us == b->ttl_us);
    assert_bytes_equal(a->key, b->key);
    assert_bytes_equal(a->tag, b->tag);
    assert_true(a->retries == b->retries);
    assert_bytes_equal(a->backoff, b->backoff);
    assert_true(a->dead.reason == b->dead.reason);
    assert_true(a->dead.seq == b->dead.seq);
    assert_true(a->dead.at_us == b->dead.at_us);
    assert_memory_equal(&a->counters, &b->counters, sizeof a->counters);
    assert_true(a->schedule.number == b->schedule.number);
    assert_true(a->schedule.occurrence == b->schedule.occurrence);
    assert_true(a->actor == b->actor);
    assert_kill_equal(&a->old, &b->old);
    assert_true(a->flags == b->flags);
    assert_true(a->times.ready_us == b->times.ready_us);
    assert_true(a->times.handed_us == b->times.handed_us);
    assert_true(a->lease.epoch == b->lease.epoch);
    assert_true(a->lease.number == b->lease.number);
    assert_true(a->lease.ttr_us == b->lease.ttr_us);
    assert_true(a->lease.end_us == b->lease.end_us);
    assert_bytes_equal(a->body, b->body);
    assert_bytes_equal(a->name, b->name);
    assert_true(a->number == b->number);
    assert_true(a->reason == b->reason);
    assert_true(a->kill_count == b->kill_count);
}

static void check_kills(const struct tr_record *rec, struct tr_base from,
                        const struct tr_kill *want)
{
    struct tr_kill_walk walk = {0};
    struct tr_kill kill;
    uint32_t count = 0;

    while (tr_record_next_kill(rec, from, &walk, &kill)) {
        assert_true(count < rec->kill_count);
        assert_kill_equal(&kill, &want[count++]);
    }
    assert_int_equal(count, rec->kill_count);
}

/* Read by its rid and due time, as who knows them reads it. */
static void check_known(uint8_t *bytes, size_t len, const struct tr_record *rec)
{
    struct tr_record got;
    size_t flipped = len / 2;

    assert_int_equal(tr_record_decode_known(bytes, len, rec->rid, rec->due_us, &got), TARRY_OK);
    if ((rec->mask & TR_FIELD(DUE)) != 0) { /* or nobody knows what its times count from */
        assert_record_equal(&got, rec);
    }
    assert_int_equal(tr_record_decode_known(bytes, len, rec->rid + 1, rec->due_us, &got),
                     TARRY_EDAMAGED);
    assert_int_equal(tr_record_decode_known(bytes, len - 1, rec->rid, rec->due_us, &got),
                     TARRY_EDAMAGED);
    assert_int_equal(tr_record_decode_known(bytes, len + 1, rec->rid, rec->due_us, &got),
                     TARRY_EDAMAGED);
    bytes[flipped] ^= 0x10;
    assert_int_equal(tr_record_decode_known(bytes, len, rec->rid, rec->due_us, &got),
                     TARRY_EDAMAGED);
    bytes[flipped] ^= 0x10;
}

static void test_record_agrees_with_model(void **state)
{
    struct tr_rng rng = {.state = 1};

    (void)state;
    for (int turn = 0; turn < 30000; turn++) {
        struct tr_base from = base;
        struct tr_kill kills[KILLS] = {{0}};
        struct tr_record rec;
        struct tr_record got;
        uint8_t out[ROOM];
        size_t len;
        size_t used;
        bool job;

        any_record(&rng, &rec, kills);
        from.rid += tr_rng_below(&rng, 1000);
        from.clock_us += tr_rng_below(&rng, UINT64_C(1) << 40);
        len = write_record(out, &rec, from);
        assert_true(len - rec.body.len <= TR_RECORD_HEAD_MAX + rec.kill_count * TR_KILL_MAX);
        memset(out + len, 0xee, 16);
        assert_int_equal(tr_record_decode(out, len + 16, from, &got, &used), TARRY_OK);
        assert_int_equal(used, len);
        assert_record_equal(&got, &rec);
        check_kills(&got, from, kills);
        job = rec.rid != 0;
        assert_true(tr_record_good(out, len, job ? rec.rid : from.rid) == job);
        assert_true(!job || got.body.len == 0 || got.body.at == out + len - got.body.len);
        if (job) {
            check_known(out, len, &rec);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_plain_put_is_small),
        cmocka_unit_test(test_record_bytes_do_not_change),
        cmocka_unit_test(test_record_any_flipped_bit_is_seen),
        cmocka_unit_test(test_record_wrong_base_is_damage),
        cmocka_unit_test(test_record_newer_versions_are_told_apart),
        cmocka_unit_test(test_record_unknown_fields),
        cmocka_unit_test(test_record_counts_are_not_believed),
        cmocka_unit_test(test_record_maybe_times_at_their_edges),
        cmocka_unit_test(test_record_largest_head_fits),
        cmocka_unit_test(test_record_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
