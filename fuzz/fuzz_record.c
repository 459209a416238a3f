/*
 * Records from a hostile disk.
 *
 *     0  u8   bit 0: make the crc right first, else nearly nothing gets past it
 *     1  u64  base rid
 *     9  u64  base clock
 *     17      the bytes to be read
 *
 * What can be read must be written and read again as the same: that is what a rewrite does.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/record.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 17, BYTES_MAX = 4096, KILLS_MAX = BYTES_MAX / 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_job(uint64_t type)
{
    return type == TR_REC_PUSH || type == TR_REC_MOVE || type == TR_REC_ATTEMPT ||
           type == TR_REC_ALTER || type == TR_REC_OCCUR || type == TR_REC_RELOG;
}

/* Writes the crc that the record at p would have, if its length fits. */
static void repair(uint8_t *p, size_t len, uint64_t rid)
{
    struct tr_reader r = tr_reader_of(p, len);
    uint64_t said;
    uint64_t type;

    tr_read_le(&r, 4);
    said = tr_read_varint(&r);
    if (r.bad || said > tr_reader_left(&r)) {
        return;
    }
    len = (size_t)(r.at - p) + (size_t)said;
    type = tr_read_le(&r, 1);
    if (is_job(type)) {
        tr_read_varint(&r);
        rid += (uint64_t)tr_read_signed(&r);
    }
    tr_put_le(p, tr_crc(tr_crc_seed(rid), p + 4, len - 4), 4);
}

static bool same_bytes(struct tr_bytes a, struct tr_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Reads the kills of rec into a list; every kill is checked to be there. */
static void list_kills(const struct tr_record *rec, struct tr_base base, struct tr_kill *kills)
{
    struct tr_kill_walk walk = {0};
    uint32_t count = 0;

    while (tr_record_next_kill(rec, base, &walk, &kills[count])) {
        if (++count == KILLS_MAX) {
            break;
        }
    }
    if (count != rec->kill_count) {
        abort();
    }
}

static bool same_kill(const struct tr_kill *a, const struct tr_kill *b)
{
    return a->rid == b->rid && a->due_us == b->due_us && a->topic == b->topic &&
           a->cell == b->cell && a->was_dead == b->was_dead;
}

static bool same_numbers(const struct tr_record *a, const struct tr_record *b)
{
    return a->type == b->type && a->mask == b->mask && a->rid == b->rid && a->id == b->id &&
           a->due_us == b->due_us && a->created_us == b->created_us && a->delay_us == b->delay_us &&
           a->topic == b->topic && a->priority == b->priority && a->ttr_us == b->ttr_us &&
           a->ttl_us == b->ttl_us && a->retries == b->retries && a->actor == b->actor &&
           a->flags == b->flags && a->number == b->number && a->reason == b->reason &&
           a->kill_count == b->kill_count;
}

static bool same_groups(const struct tr_record *a, const struct tr_record *b)
{
    return a->dead.reason == b->dead.reason && a->dead.seq == b->dead.seq &&
           a->dead.at_us == b->dead.at_us &&
           memcmp(&a->counters, &b->counters, sizeof a->counters) == 0 &&
           a->schedule.number == b->schedule.number &&
           a->schedule.occurrence == b->schedule.occurrence && same_kill(&a->old, &b->old) &&
           a->times.ready_us == b->times.ready_us && a->times.handed_us == b->times.handed_us &&
           a->lease.epoch == b->lease.epoch && a->lease.number == b->lease.number &&
           a->lease.end_us == b->lease.end_us;
}

static void check_same(const struct tr_record *a, const struct tr_record *b)
{
    if (!same_numbers(a, b) || !same_groups(a, b)) {
        abort();
    }
    if (!same_bytes(a->key, b->key) || !same_bytes(a->tag, b->tag) ||
        !same_bytes(a->backoff, b->backoff) || !same_bytes(a->name, b->name) ||
        !same_bytes(a->body, b->body)) {
        abort();
    }
}

/* Writes rec against another base and reads it again. */
static void check_rewrite(const struct tr_record *rec, struct tr_base base)
{
    static uint8_t out[TR_RECORD_HEAD_MAX + KILLS_MAX * TR_KILL_MAX + BYTES_MAX];
    static struct tr_kill kills[KILLS_MAX];
    static struct tr_kill again[KILLS_MAX];
    struct tr_base other = {.rid = base.rid + 1, .clock_us = base.clock_us ^ 0xfff};
    struct tr_record copy = *rec;
    struct tr_record got;
    size_t len;
    size_t used;

    list_kills(rec, base, kills);
    copy.kill_list = kills;
    len = tr_record_encode(out, &copy, other);
    if (rec->body.len > 0) {
        memcpy(out + len, rec->body.at, rec->body.len);
    }
    len += rec->body.len;
    if (tr_record_decode(out, len, other, &got, &used) != TARRY_OK || used != len) {
        abort();
    }
    check_same(rec, &got);
    list_kills(&got, other, again);
    for (uint32_t i = 0; i < rec->kill_count; i++) {
        if (!same_kill(&kills[i], &again[i])) {
            abort();
        }
    }
    if (tr_record_good(out, len, is_job(rec->type) ? rec->rid : other.rid) != is_job(rec->type)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t p[BYTES_MAX];
    struct tr_base base;
    struct tr_record rec;
    size_t used;
    int err;

    if (size < HEAD || size - HEAD > BYTES_MAX) {
        return 0;
    }
    base.rid = tr_get_le(data + 1, 8);
    base.clock_us = tr_get_le(data + 9, 8);
    size -= HEAD;
    memcpy(p, data + HEAD, size);
    if ((data[0] & 1) != 0) {
        repair(p, size, base.rid);
    }
    err = tr_record_decode(p, size, base, &rec, &used);
    if (err == TARRY_EDAMAGED ? used != 0 : used == 0 || used > size) {
        abort();
    }
    if (err == TARRY_OK && rec.type <= TR_REC_NOTE) { /* a type to be passed over is not written */
        check_rewrite(&rec, base);
    }
    return 0;
}
