/*
 * One byte of a store is changed, then another one, and so on: each time the store is opened,
 * looked into and drained. Either all is right, or it is said what is not: the open is refused by
 * name, or the job that does not come out was reported by its id. Nobody gets anything that was not
 * pushed. A check tells of a header of a slot that is in use, and of a page of a checkpoint that
 * counts, whatever the engine makes of them; and a start tells of such a header.
 *
 * The store is small, but has all there is: slots, checkpoints, manifests, groups with live and
 * dead runs, keys, moved and altered jobs. It is in memory as plain arrays; see struct disk.
 *
 * By default every 1499th byte is changed, and each sixth of the first 48 of each page that has
 * more than zeros in it, which takes some seconds. With slow checks, which look at all there is
 * after each turn, it is every seventh of these. FLIP_STEP=1 changes all bytes, 2.5 ms each: an
 * hour. FLIP_FILE=name is for one file, FLIP_STORE=closed or killed for one of the two stores.
 */

#include "base/crc.h"
#include "base/err.h"
#include "engine/inner.h"
#include "engine/verify.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)
#define ME UINT64_C(7)

enum {
    FILES_MAX = 96,
    QUEUE_MAX = 512,
    JOBS_MAX = 1000,
    TOPICS = 2,
    BODY_MAX = 3000,
    PAGE = 4096,
    HEAD = 48, /* bytes of each page of which more are changed */
    STEP = 1499,
#ifdef TR_SLOW
    OF_THESE = 7, /* one is changed */
#else
    OF_THESE = 1,
#endif
    TURNS_MAX = 200000
};

/* ---- a disk ---- */

struct file {
    char name[TR_IO_NAME_MAX];
    uint8_t *bytes;
    size_t len;
    size_t room;
};

struct disk {
    struct file files[FILES_MAX]; /* bytes NULL: none; removed ones keep their place */
    bool removed[FILES_MAX];
    unsigned count;
    struct tr_io *queue[QUEUE_MAX];
    unsigned first;
    unsigned queued;
};

static struct file *find(struct disk *d, const char *name)
{
    for (unsigned i = 0; i < d->count; i++) {
        if (!d->removed[i] && strcmp(d->files[i].name, name) == 0) {
            return &d->files[i];
        }
    }
    return NULL;
}

static void grow(struct file *f, size_t len)
{
    if (len > f->room) {
        size_t room = 2 * len;

        f->bytes = realloc(f->bytes, room);
        assert_non_null(f->bytes);
        memset(f->bytes + f->room, 0, room - f->room);
        f->room = room;
    }
    f->len = len > f->len ? len : f->len;
}

static int open_file(struct disk *d, struct tr_io *io)
{
    struct file *f = find(d, io->name);

    if (f == NULL && (io->flags & TR_IO_CREATE) == 0) {
        return TARRY_ENOTFOUND;
    }
    if (f == NULL) {
        assert_true(d->count < FILES_MAX);
        f = &d->files[d->count++];
        *f = (struct file){0};
        d->removed[f - d->files] = false;
        memcpy(f->name, io->name, sizeof f->name);
    }
    io->file = (int)(f - d->files);
    return TARRY_OK;
}

static void list(struct disk *d, struct tr_io *io)
{
    char *at = io->buf;

    for (unsigned i = 0; i < d->count; i++) {
        if (!d->removed[i] && strchr(d->files[i].name, '/') == NULL) {
            size_t len = strlen(d->files[i].name) + 1;

            memcpy(at, d->files[i].name, len);
            at += len;
        }
    }
    io->got = (uint64_t)(at - (char *)io->buf);
}

static void write_pieces(struct file *f, struct tr_io *io)
{
    uint64_t off = io->off;

    for (unsigned i = 0; i < io->piece_count; i++) {
        grow(f, (size_t)off + io->pieces[i].len);
        memcpy(f->bytes + off, io->pieces[i].at, io->pieces[i].len);
        off += io->pieces[i].len;
    }
    io->got = off - io->off;
}

static void transfer(struct file *f, struct tr_io *io)
{
    switch (io->op) {
    case TR_IO_READ:
    case TR_IO_READ_DIRECT:
        io->got = io->off < f->len ? f->len - io->off : 0;
        io->got = io->got < io->len ? io->got : io->len;
        if (io->got != 0) {
            memcpy(io->buf, f->bytes + io->off, (size_t)io->got);
        }
        break;
    case TR_IO_WRITE:
        write_pieces(f, io);
        break;
    case TR_IO_ALLOCATE:
        grow(f, (size_t)io->len);
        break;
    case TR_IO_ZERO:
        grow(f, (size_t)(io->off + io->len));
        memset(f->bytes + io->off, 0, (size_t)io->len);
        break;
    default:
        break;
    }
}

static int run_io(void *ctx, struct tr_io *io)
{
    struct disk *d = ctx;

    io->status = TARRY_OK;
    io->got = 0;
    if (io->op == TR_IO_OPEN) {
        io->status = open_file(d, io);
    } else if (io->op == TR_IO_UNLINK) {
        struct file *f = find(d, io->name);

        if (f != NULL) {
            d->removed[f - d->files] = true;
        }
    } else if (io->op == TR_IO_LIST) {
        list(d, io);
    } else if (io->op == TR_IO_CALL) {
        io->call(io->buf);
    } else if (io->op == TR_IO_SPACE) {
        io->got = UINT64_MAX;
    } else if (io->op != TR_IO_DIRSYNC && io->op != TR_IO_CLOSE) {
        transfer(&d->files[io->file], io);
    }
    return io->status;
}

static void submit_io(void *ctx, struct tr_io *io)
{
    struct disk *d = ctx;

    assert_true(d->queued < QUEUE_MAX);
    d->queue[(d->first + d->queued++) % QUEUE_MAX] = io;
}

static const struct tr_disk_ops ops = {submit_io, run_io};

static void copy_disk(struct disk *to, const struct disk *from)
{
    for (unsigned i = from->count; i < to->count; i++) {
        free(to->files[i].bytes);
        to->files[i] = (struct file){0};
        to->removed[i] = true;
    }
    for (unsigned i = 0; i < from->count; i++) {
        struct file *f = &to->files[i];

        memcpy(f->name, from->files[i].name, sizeof f->name);
        f->len = 0;
        grow(f, from->files[i].len);
        if (f->len != 0) {
            memcpy(f->bytes, from->files[i].bytes, f->len);
        }
        to->removed[i] = from->removed[i];
    }
    to->count = from->count;
    to->first = 0;
    to->queued = 0;
}

static void drop_disk(struct disk *d)
{
    for (unsigned i = 0; i < FILES_MAX; i++) {
        free(d->files[i].bytes);
    }
    free(d);
}

/* ---- an engine on it ---- */

struct want {
    uint64_t id;
    unsigned topic;
    uint32_t body_len;
    uint32_t body_crc;
    char key[16]; /* "": none */
    bool dead;
    bool came;     /* out */
    bool reported; /* as damaged */
    bool listed;
};

struct world {
    struct disk *disk;
    struct tr_mem mem;
    struct tr_engine *e;
    struct tr_engine_config config;
    struct tr_now now;
    uint64_t durable;
    unsigned damage; /* notices */
    unsigned said;   /* notices that are not only information */
    char last[512];
    struct want jobs[JOBS_MAX];
    unsigned job_count;
    uint32_t topics[TOPICS];
    const char *where; /* what was changed */
    uint64_t off;
    bool done;
    uint8_t body[BODY_MAX]; /* of the last answer, */
    uint32_t body_len;
};

#define FLIP_FAIL(w, ...)                                                                          \
    do {                                                                                           \
        print_error("%s at %" PRIu64 " (last notice: %s)\n", (w)->where, (w)->off, (w)->last);     \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static struct want *find_want(struct world *w, uint64_t id)
{
    for (unsigned i = 0; i < w->job_count; i++) {
        if (w->jobs[i].id == id) {
            return &w->jobs[i];
        }
    }
    return NULL;
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    struct world *w = ctx;
    const char *at = strstr(text, "job ");
    uint64_t id;
    struct want *job;

    if (kind == TR_NOTE_INFO) {
        return;
    }
    w->said++;
    w->damage += kind == TR_NOTE_DAMAGE;
    (void)snprintf(w->last, sizeof w->last, "%s", text);
    if (kind == TR_NOTE_DAMAGE && at != NULL && sscanf(at, "job %" SCNu64, &id) == 1) {
        job = find_want(w, id);
        if (job != NULL) {
            job->reported = true;
        }
    }
}

static void on_durable(void *ctx, uint64_t batch)
{
    ((struct world *)ctx)->durable = batch;
}

static int open_world(struct world *w)
{
    struct tr_disk port = {&ops, w->disk};

    w->config.mem = &w->mem;
    w->config.ctx = w;
    w->config.notice = on_notice;
    w->config.durable = on_durable;
    return tr_engine_open(&w->e, &w->config, port, 1, w->now);
}

static uint64_t settle(struct world *w)
{
    for (unsigned i = 0; i < TURNS_MAX; i++) {
        uint64_t next = tr_engine_turn(w->e, w->now);

        if (w->disk->queued != 0) {
            struct tr_io *io = w->disk->queue[w->disk->first % QUEUE_MAX];

            w->disk->first++;
            w->disk->queued--;
            (void)run_io(w->disk, io);
            tr_engine_io_done(w->e, io, w->now);
        } else if (next > w->now.boot_us) {
            return next;
        }
    }
    FLIP_FAIL(w, "the engine does not come to rest");
    return 0;
}

static void pass(struct world *w, uint64_t us)
{
    uint64_t end = w->now.boot_us + us;
    uint64_t next;

    while ((next = settle(w)) <= end) {
        w->now.wall_us += next - w->now.boot_us;
        w->now.boot_us = next;
    }
    w->now.wall_us += end - w->now.boot_us;
    w->now.boot_us = end;
    (void)settle(w);
}

static void on_done(struct tr_req *r)
{
    struct world *w = r->ctx;

    w->done = true;
    w->body_len = r->out.job.body_len;
    if (r->out.job.body != NULL && r->out.job.body_len <= BODY_MAX) {
        memcpy(w->body, r->out.job.body, r->out.job.body_len);
    }
    if (r->op == TR_OP_LIST) {
        for (uint64_t i = 0; i < r->out.number; i++) {
            struct want *job = find_want(w, r->out.jobs[i].id);

            if (job == NULL) {
                FLIP_FAIL(w, "job %" PRIu64 " is listed, but was never pushed", r->out.jobs[i].id);
            } else {
                job->listed = true;
            }
        }
    }
}

static struct tr_req ask(struct world *w, enum tr_op op)
{
    return (struct tr_req){
        .op = op, .done = on_done, .ctx = w, .priority = 100, .ttr_us = 60 * SECOND};
}

static int go(struct world *w, struct tr_req *r)
{
    w->done = false;
    tr_engine_submit(w->e, r, w->now);
    (void)settle(w);
    for (unsigned i = 0; i < 200 && !w->done; i++) { /* something is tried again later */
        pass(w, SECOND);
    }
    if (!w->done) {
        FLIP_FAIL(w, "request %d is not answered", (int)r->op);
    }
    return r->out.status;
}

static uint32_t hold(struct world *w, const char *name)
{
    struct tr_req r = ask(w, TR_OP_HOLD_TOPIC);

    r.name = name;
    r.name_len = strlen(name);
    assert_int_equal(go(w, &r), TARRY_OK);
    return r.out.topic;
}

/* ---- the store ---- */

static void push(struct world *w, unsigned topic, uint64_t delay_us, uint32_t len, bool keyed)
{
    struct want *job = &w->jobs[w->job_count];
    uint8_t body[BODY_MAX];
    struct tr_req r = ask(w, TR_OP_PUSH);

    for (uint32_t i = 0; i < len; i++) {
        body[i] = (uint8_t)(w->job_count * 131 + i * 7 + i / 256);
    }
    *job = (struct want){.topic = topic, .body_len = len, .body_crc = tr_crc(0, body, len)};
    r.topic = w->topics[topic];
    r.delay_us = delay_us;
    r.body = body;
    r.body_len = len;
    if (keyed) {
        r.key_len = (size_t)snprintf(job->key, sizeof job->key, "key-%u", w->job_count);
        r.key = job->key;
    }
    assert_int_equal(go(w, &r), TARRY_OK);
    job->id = r.out.job.id;
    w->job_count++;
}

static void edit(struct world *w, uint64_t id, unsigned what)
{
    struct tr_req r = ask(w, TR_OP_EDIT);

    r.id = id;
    r.edit = what;
    r.delay_us = 100 * 60 * SECOND;
    r.priority = 7;
    assert_int_equal(go(w, &r), TARRY_OK);
}

static void bury(struct world *w, struct want *job)
{
    struct tr_req r = ask(w, TR_OP_RESERVE_JOB);

    r.id = job->id;
    r.holder = ME;
    assert_int_equal(go(w, &r), TARRY_OK);
    r = ask(w, TR_OP_BURY);
    r.id = job->id;
    r.holder = ME;
    assert_int_equal(go(w, &r), TARRY_OK);
    job->dead = true;
}

static void cancel(struct world *w, struct want *job)
{
    struct tr_req r = ask(w, TR_OP_DELETE);

    r.id = job->id;
    assert_int_equal(go(w, &r), TARRY_OK);
    *job = w->jobs[--w->job_count];
}

static void change_some(struct world *w)
{
    for (unsigned i = 0; i < w->job_count; i += 9) {
        edit(w, w->jobs[i].id, TR_EDIT_DUE);
    }
    for (unsigned i = 4; i < w->job_count; i += 11) {
        bury(w, &w->jobs[i]);
    }
}

static void make_store(struct world *w, bool clean)
{
    struct tr_engine_stat stat;

    tr_mem_init(&w->mem, 0);
    tr_engine_config_init(&w->config, &w->mem);
    w->config.slot_bytes = 65536;
    w->config.slots_max = 8;
    w->config.batch_bytes = 16384;
    w->config.body_max = 8192;
    w->config.rid_block = 1024;
    w->config.checkpoint_slack = 8192;
    w->config.near_us = 60 * SECOND;
    w->config.far_max = 20;
    w->config.promote_slots = 2;
    w->config.linger_us = 0;
    w->now = (struct tr_now){UINT64_C(1700000000000000), SECOND};
    w->where = "making the store";
    assert_int_equal(open_world(w), TARRY_OK);
    w->topics[0] = hold(w, "a");
    w->topics[1] = hold(w, "b");
    for (unsigned i = 0; i < 80; i++) {
        push(w, i % 2, HOUR + i * 30 * SECOND, 100 + i * 37 % 900, i % 3 == 0);
    }
    change_some(w);
    pass(w, 30 * SECOND); /* promoted */
    for (unsigned i = 0; i < 20; i++) {
        push(w, i % 2, HOUR + i * SECOND, 2000, i % 4 == 0);
    }
    edit(w, w->jobs[3].id, TR_EDIT_PRIORITY);
    pass(w, 60 * SECOND);
    tr_engine_stat(w->e, &stat);
    assert_true(stat.groups >= 1);
    for (unsigned i = 0; i < 12; i++) {
        push(w, i % 2, i * 4 * SECOND, 50 + i, i % 2 == 0);
    }
    edit(w, w->jobs[5].id, TR_EDIT_PRIORITY);
    bury(w, &w->jobs[w->job_count - 1]);
    cancel(w, &w->jobs[7]);
    cancel(w, &w->jobs[w->job_count - 4]);
    pass(w, SECOND); /* a SEAL says that all is durable */
    assert_int_equal(w->disk->queued, 0);
    if (clean) {
        assert_int_equal(tr_engine_close(w->e, w->now), TARRY_OK);
    }
    tr_engine_free(w->e);
    assert_int_equal(w->mem.used_bytes, 0);
}

/* ---- looking into it ---- */

static void list_all(struct world *w)
{
    for (unsigned t = 0; t < TOPICS; t++) {
        struct tr_cursor cursor = {0};

        do {
            struct tr_req r = ask(w, TR_OP_LIST);

            r.topic = w->topics[t];
            r.count = 1000;
            r.cursor = cursor;
            if (go(w, &r) != TARRY_OK) {
                if (w->damage == 0) {
                    FLIP_FAIL(w, "list: %s", tarry_errname(r.out.status));
                }
                return;
            }
            cursor = r.out.cursor;
        } while (cursor.more);
    }
    for (unsigned i = 0; i < w->job_count; i++) {
        if (!w->jobs[i].listed && w->damage == 0) {
            FLIP_FAIL(w, "job %" PRIu64 " is not listed, and nothing was said", w->jobs[i].id);
        }
    }
}

static void look_up_keys(struct world *w)
{
    for (unsigned i = 0; i < w->job_count; i++) {
        struct tr_req r = ask(w, TR_OP_PEEK);
        int status;

        if (w->jobs[i].key[0] == '\0') {
            continue;
        }
        r.topic = w->topics[w->jobs[i].topic];
        r.key = w->jobs[i].key;
        r.key_len = strlen(r.key);
        status = go(w, &r);
        if (status == TARRY_OK ? r.out.job.id != w->jobs[i].id
                               : status != TARRY_EDAMAGED || w->damage == 0) {
            FLIP_FAIL(w, "job %" PRIu64 " by key: %s, job %" PRIu64, w->jobs[i].id,
                      tarry_errname(status), r.out.job.id);
        }
    }
}

static bool take_one(struct world *w, unsigned topic)
{
    struct tr_req r = ask(w, TR_OP_RESERVE);
    struct want *job;
    uint64_t id;

    r.topics = &w->topics[topic];
    r.topic_count = 1;
    r.holder = ME;
    if (go(w, &r) != TARRY_OK) {
        if (r.out.status != TARRY_ETIMEOUT) {
            FLIP_FAIL(w, "reserve: %s", tarry_errname(r.out.status));
        }
        return false;
    }
    id = r.out.job.id;
    job = find_want(w, id);
    if (job == NULL || job->came || job->topic != topic || w->body_len != job->body_len ||
        tr_crc(0, w->body, w->body_len) != job->body_crc) {
        FLIP_FAIL(w, "job %" PRIu64 " is not what was pushed", id);
    } else {
        job->came = true;
    }
    r = ask(w, TR_OP_DELETE);
    r.id = id;
    r.holder = ME;
    assert_int_equal(go(w, &r), TARRY_OK);
    return true;
}

static void drain(struct world *w)
{
    for (unsigned t = 0; t < TOPICS; t++) {
        struct tr_req r = ask(w, TR_OP_KICK);

        while (take_one(w, t)) {
        }
        r.topic = w->topics[t];
        r.count = 1000;
        (void)go(w, &r);
        while (take_one(w, t)) {
        }
    }
}

static void check_open(struct world *w)
{
    struct tr_engine_stat stat;

    w->topics[0] = hold(w, "a");
    w->topics[1] = hold(w, "b");
    list_all(w);
    look_up_keys(w);
    pass(w, 3 * HOUR);
    drain(w);
    for (unsigned i = 0; i < w->job_count; i++) {
        if (!w->jobs[i].came && !w->jobs[i].reported) {
            FLIP_FAIL(w, "job %" PRIu64 "%s did not come out, and nothing was said", w->jobs[i].id,
                      w->jobs[i].dead ? " (dead)" : "");
        }
    }
    tr_engine_stat(w->e, &stat);
    if (w->damage == 0 && stat.damaged) {
        FLIP_FAIL(w, "the store is not well, but nothing was said");
    }
    while (w->disk->queued != 0) {
        (void)settle(w);
    }
}

/* ---- a check ---- */

/* What of the store counts, as it is before anything is changed. */
static struct {
    bool slot[100];
    uint64_t pages[2]; /* of checkpoints, */
    bool both;         /* and the one that is not in use, too */
    uint32_t newer;
} counts;

static void on_found(void *ctx, const struct tr_finding *f)
{
    (void)f;
    *(unsigned *)ctx += 1;
}

/* So many findings; what cannot be opened counts as one. */
static unsigned check(struct world *w)
{
    unsigned found = 0;
    struct tr_verify_calls calls = {.ctx = &found, .found = on_found};
    struct tr_verify_sum sum;

    w->config.read_only = true;
    if (open_world(w) == TARRY_OK) {
        assert_int_equal(tr_verify_run(w->e, &calls, &sum), TARRY_OK);
        tr_engine_free(w->e);
    } else {
        found++;
    }
    w->config.read_only = false;
    assert_int_equal(w->mem.used_bytes, 0);
    return found;
}

static void note_what_counts(struct world *w, bool clean)
{
    memset(&counts, 0, sizeof counts);
    w->config.read_only = true;
    assert_int_equal(open_world(w), TARRY_OK);
    for (uint32_t i = 0; i < w->e->log.slots_max && i < 100; i++) {
        enum tr_slot_state is = w->e->log.slots[i].state;

        counts.slot[i] = is == TR_SLOT_TAIL || is == TR_SLOT_SEALED;
    }
    counts.pages[0] = w->e->meta.now.ckpt[0].pages;
    counts.pages[1] = w->e->meta.now.ckpt[1].pages;
    counts.newer = w->e->meta.now.ckpt_now;
    counts.both = clean;
    tr_engine_free(w->e);
    w->config.read_only = false;
}

static bool is_header(const char *name, size_t off)
{
    unsigned number;

    return sscanf(name, "w.%u", &number) == 1 && number < 100 && counts.slot[number] && off < PAGE;
}

static bool is_in_checkpoint(const char *name, size_t off)
{
    unsigned number;

    return sscanf(name, "ckpt.%u", &number) == 1 && number < 2 &&
           (counts.both || number == counts.newer) && off < counts.pages[number] * TR_PAGE &&
           off % TR_PAGE < HEAD;
}

static uint64_t refused;
static uint64_t mended;
static uint64_t flips;

static void flip(struct world *w, const struct world *good, const char *name, size_t off)
{
    struct disk *disk = w->disk;
    struct file *f;
    int err;

    copy_disk(disk, good->disk);
    *w = *good;
    w->disk = disk;
    w->where = name;
    w->off = off;
    tr_mem_init(&w->mem, 0);
    f = find(disk, name);
    f->bytes[off] ^= (uint8_t)(1U << off % 8);
    if ((is_header(name, off) || is_in_checkpoint(name, off)) && check(w) == 0) {
        FLIP_FAIL(w, "a check found nothing");
    }
    w->damage = 0;
    w->said = 0;
    w->last[0] = '\0';
    err = open_world(w);
    if (err == TARRY_OK && is_header(name, off) && w->said == 0) {
        FLIP_FAIL(w, "the header of a slot was put right, and nothing was said");
    }
    flips++;
    mended += err == TARRY_OK && w->said != 0;
    if (err == TARRY_OK) {
        check_open(w);
        tr_engine_free(w->e);
    } else {
        refused++;
        if ((err != TARRY_EDAMAGED && err != TARRY_EVERSION) || w->said == 0) {
            FLIP_FAIL(w, "refused with %s, and %u notices", tarry_errname(err), w->said);
        }
    }
    if (w->mem.used_bytes != 0) {
        FLIP_FAIL(w, "%" PRIu64 " bytes are not given back", w->mem.used_bytes);
    }
}

static bool is_blank(const struct file *f, size_t off)
{
    static const uint8_t zeros[PAGE];
    size_t from = off / PAGE * PAGE;
    size_t len = f->len - from < PAGE ? f->len - from : PAGE;

    return memcmp(f->bytes + from, zeros, len) == 0;
}

static void flip_all(bool clean)
{
    static struct world good;
    static struct world w;
    const char *step_text = getenv("FLIP_STEP");
    const char *only = getenv("FLIP_FILE");
    const char *store = getenv("FLIP_STORE");
    size_t step = step_text != NULL ? (size_t)strtoul(step_text, NULL, 10) : STEP;
    unsigned of_these = step_text != NULL ? 1 : OF_THESE;
    unsigned met = 0;

    if (store != NULL && strcmp(store, clean ? "closed" : "killed") != 0) {
        return;
    }
    good = (struct world){.disk = calloc(1, sizeof(struct disk))};
    w = (struct world){.disk = calloc(1, sizeof(struct disk))};
    assert_non_null(good.disk);
    assert_non_null(w.disk);
    make_store(&good, clean);
    note_what_counts(&good, clean);
    refused = 0;
    mended = 0;
    flips = 0;
    for (unsigned i = 0; i < good.disk->count; i++) {
        const struct file *f = &good.disk->files[i];
        uint64_t was[3] = {flips, refused, mended};

        if (good.disk->removed[i] || (only != NULL && strcmp(only, f->name) != 0)) {
            continue;
        }
        for (size_t off = 0; off < f->len; off++) {
            bool more = step == STEP && off % PAGE < HEAD && (off + off / PAGE) % 6 == 0;

            if ((off % step == 0 || (more && !is_blank(f, off))) && met++ % of_these == 0) {
                flip(&w, &good, f->name, off);
            }
        }
        print_message("%s: %zu bytes, %" PRIu64 " changed, %" PRIu64 " refused, %" PRIu64
                      " reported\n",
                      f->name, f->len, flips - was[0], refused - was[1], mended - was[2]);
    }
    drop_disk(good.disk);
    drop_disk(w.disk);
}

/* Nothing is changed: everything comes out, and nothing is said. */
static void test_flip_nothing(void **state)
{
    static struct world w;

    (void)state;
    for (unsigned clean = 0; clean < 2; clean++) {
        w = (struct world){.disk = calloc(1, sizeof(struct disk))};
        make_store(&w, clean != 0);
        w.where = "nothing";
        assert_int_equal(check(&w), 0);
        w.said = 0;
        assert_int_equal(open_world(&w), TARRY_OK);
        check_open(&w);
        assert_int_equal(w.said, 0);
        for (unsigned i = 0; i < w.job_count; i++) {
            assert_true(w.jobs[i].came);
            assert_true(w.jobs[i].listed);
        }
        tr_engine_free(w.e);
        drop_disk(w.disk);
    }
}

static void test_flip_closed_store(void **state)
{
    (void)state;
    flip_all(true);
}

static void test_flip_killed_store(void **state)
{
    (void)state;
    flip_all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip_nothing),
        cmocka_unit_test(test_flip_closed_store),
        cmocka_unit_test(test_flip_killed_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
