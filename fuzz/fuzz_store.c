/*
 * A whole store with damage, opened by the engine.
 *
 * The input is a list of damages to a small store that was closed in order:
 *
 *     u8 kind  u8 file  u24 offset  u8 argument
 *     kind % 6: 0, 1 one bit is flipped   2 one byte is set   3 a block is zero
 *               4 a block is a copy of another one            5 the file is gone
 *
 * Opening gives an error, or a store in which all invariants hold and every body can be read or is
 * reported. If a few bits were flipped and nothing else, then nothing may be lost in silence: what
 * opens without a report is exactly what was closed.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/engine.h"
#include "sim/sim_disk.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 8, FILE_MAX = 256 << 10, DAMAGE = 6, DAMAGES_MAX = 16, BLOCK = 4096, FLIPS_MAX = 3 };

static const char *const names[FILES] = {"man.0", "man.1", "ckpt.0", "ckpt.1",
                                         "w.000", "w.001", "w.002",  "w.003"};

struct bench {
    struct tr_mem mem;
    struct sim_disk *disk;
    struct tr_engine *e;
    struct tr_engine_config config;
    struct tr_now now;
    unsigned damage_notes;
};

/* The store as it was closed. */
static uint8_t golden[FILES][FILE_MAX];
static size_t golden_len[FILES];
static uint64_t golden_sum;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void on_io(void *ctx, struct tr_io *io)
{
    struct bench *b = ctx;

    tr_engine_io_done(b->e, io, b->now);
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    struct bench *b = ctx;

    (void)text;
    b->damage_notes += kind == TR_NOTE_DAMAGE;
}

static void on_done(struct tr_req *r)
{
    *(bool *)r->ctx = true;
}

static void settle(struct bench *b)
{
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t next = tr_engine_turn(b->e, b->now);

        if (!sim_disk_step(b->disk) && next > b->now.boot_us) {
            return;
        }
    }
    abort();
}

static int ask(struct bench *b, struct tr_req *r)
{
    bool done = false;

    r->done = on_done;
    r->ctx = &done;
    tr_engine_submit(b->e, r, b->now);
    settle(b);
    must(done);
    return r->out.status;
}

static void start(struct bench *b)
{
    static struct sim_disk *disk; /* kept: its memory is used again */

    if (disk == NULL) {
        disk = sim_disk_new(on_io, b);
    }
    *b = (struct bench){.disk = disk, .now = {UINT64_C(1700000000000000), 1000000}};
    tr_mem_init(&b->mem, 256 << 20);
    sim_disk_set_done(b->disk, on_io, b);
    sim_disk_reset(b->disk, 1);
    tr_engine_config_init(&b->config, &b->mem);
    b->config.slot_bytes = 65536;
    b->config.slots_max = 4;
    b->config.batch_bytes = 16384;
    b->config.body_max = 8192;
    b->config.rid_block = 64;
    b->config.near_us = UINT64_MAX / 4; /* all jobs stay in memory, where the facts are */
    b->config.checkpoint_slack = 16384;
    b->config.ctx = b;
    b->config.notice = on_notice;
}

static void finish(struct bench *b)
{
    sim_disk_kill(b->disk);
    tr_engine_free(b->e);
    must(b->mem.used_bytes == 0);
}

/* Adds a job to the sum; the order does not matter. */
static void add_fact(void *ctx, const struct tr_job_fact *f)
{
    uint64_t words[] = {f->rid,      f->id,       f->due_us, f->created_us, f->ttr_us,
                        f->priority, f->reserves, f->buries, f->dead_seq,   f->lease};
    uint64_t *sum = ctx;
    uint64_t one = f->topic_len;

    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        one = (one ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    *sum += one ^ one >> 29;
}

static uint64_t facts_sum(const struct bench *b)
{
    uint64_t sum = 0;

    tr_engine_facts(b->e, add_fact, &sum);
    return sum;
}

/* Jobs in all states, two topics, an altered and a moved one, a checkpoint in the middle. */
static void furnish(struct bench *b)
{
    static uint8_t body[5000];
    uint32_t topic[2];

    for (unsigned i = 0; i < 2; i++) {
        struct tr_req r = {.op = TR_OP_HOLD_TOPIC, .name = i == 0 ? "t" : "u", .name_len = 1};

        must(ask(b, &r) == TARRY_OK);
        topic[i] = r.out.topic;
    }
    for (unsigned i = 0; i < 14; i++) {
        struct tr_req r = {.op = TR_OP_PUSH,
                           .topic = topic[i % 2],
                           .delay_us = i % 3 * UINT64_C(1000000000),
                           .ttr_us = UINT64_C(3600000000),
                           .body = body,
                           .body_len = i == 3 ? sizeof body : i * 40};
        struct tr_req take = {.op = TR_OP_RESERVE_JOB};
        struct tr_req back = {.op = i % 4 == 0 ? TR_OP_BURY : TR_OP_RELEASE, .delay_us = i / 8};

        memset(body, (int)i, sizeof body);
        must(ask(b, &r) == TARRY_OK);
        if (i % 2 == 0) {
            take.id = r.out.job.id;
            must(ask(b, &take) == TARRY_OK);
            back.id = take.id;
            back.lease = take.out.job.lease;
            must(i == 6 || ask(b, &back) == TARRY_OK); /* one stays leased */
        }
        b->now.wall_us += i == 7 ? 40000000 : 200000;
        b->now.boot_us += i == 7 ? 40000000 : 200000;
        settle(b);
    }
}

static void make_golden(void)
{
    struct bench b;

    start(&b);
    must(tr_engine_open(&b.e, &b.config, sim_disk_port(b.disk), 1, b.now) == TARRY_OK);
    furnish(&b);
    golden_sum = facts_sum(&b);
    must(tr_engine_close(b.e, b.now) == TARRY_OK);
    for (unsigned i = 0; i < FILES; i++) {
        golden_len[i] = (size_t)sim_disk_size(b.disk, names[i]);
        must(golden_len[i] <= FILE_MAX);
        sim_disk_peek(b.disk, names[i], 0, golden[i], golden_len[i]);
    }
    finish(&b);
}

static void write_file(struct bench *b, const char *name, const uint8_t *bytes, size_t len)
{
    struct tr_disk d = sim_disk_port(b->disk);
    struct tr_piece piece = {bytes, len};
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    int file;

    memcpy(io.name, name, strlen(name));
    must(d.ops->run(d.ctx, &io) == TARRY_OK);
    file = io.file;
    io = (struct tr_io){.op = TR_IO_WRITE,
                        .file = file,
                        .len = len,
                        .pieces = &piece,
                        .piece_count = 1,
                        .flags = TR_IO_THEN_SYNC};
    must(d.ops->run(d.ctx, &io) == TARRY_OK);
    io = (struct tr_io){.op = TR_IO_CLOSE, .file = file};
    must(d.ops->run(d.ctx, &io) == TARRY_OK);
}

/* Lays the golden store out with the damages of the input; true: only a few flipped bits. */
static bool lay_out(struct bench *b, const uint8_t *data, size_t size)
{
    static uint8_t bytes[FILES][FILE_MAX];
    bool gone[FILES] = {false};
    unsigned flips = 0;
    bool mild = true;

    memcpy(bytes, golden, sizeof bytes);
    for (unsigned n = 0; n < DAMAGES_MAX && size >= DAMAGE; n++, data += DAMAGE, size -= DAMAGE) {
        unsigned file = data[1] % FILES;
        size_t off = (size_t)tr_get_le(data + 2, 3) % golden_len[file];
        size_t block = off / BLOCK * BLOCK;

        flips += data[0] % 6 < 2;
        mild = mild && data[0] % 6 < 2;
        switch (data[0] % 6) {
        case 2:
            bytes[file][off] = data[5];
            break;
        case 3:
            memset(bytes[file] + block, 0, BLOCK);
            break;
        case 4:
            memcpy(bytes[file] + block, golden[data[5] % FILES] + off % 65536 / BLOCK * BLOCK,
                   BLOCK);
            break;
        case 5:
            gone[file] = true;
            break;
        default:
            bytes[file][off] ^= (uint8_t)(1 << data[5] % 8);
        }
    }
    for (unsigned i = 0; i < FILES; i++) {
        if (!gone[i]) {
            write_file(b, names[i], bytes[i], golden_len[i]);
        }
    }
    return mild && flips <= FLIPS_MAX;
}

struct ids {
    uint64_t id[64];
    size_t count;
};

static void add_id(void *ctx, const struct tr_job_fact *f)
{
    struct ids *ids = ctx;

    if (ids->count < 64) {
        ids->id[ids->count++] = f->id;
    }
}

static void check_bodies(struct bench *b)
{
    struct ids ids = {.count = 0};

    tr_engine_facts(b->e, add_id, &ids);
    for (size_t i = 0; i < ids.count; i++) {
        struct tr_req r = {.op = TR_OP_PEEK, .id = ids.id[i]};
        unsigned notes = b->damage_notes;
        int err = ask(b, &r);

        must(err == TARRY_OK || (err == TARRY_EDAMAGED && b->damage_notes > notes));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bench b;
    bool mild;

    if (golden_sum == 0) {
        make_golden();
    }
    start(&b);
    b.now = (struct tr_now){UINT64_C(1700000100000000), 1000000};
    mild = lay_out(&b, data, size);
    if (tr_engine_open(&b.e, &b.config, sim_disk_port(b.disk), 2, b.now) == TARRY_OK) {
        must(tr_engine_ok(b.e));
        must(!mild || b.damage_notes != 0 || facts_sum(&b) == golden_sum);
        settle(&b);
        must(tr_engine_ok(b.e));
        check_bodies(&b);
    }
    finish(&b);
    return 0;
}
