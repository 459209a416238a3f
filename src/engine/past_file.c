/*
 * History over a clean restart.
 *
 * What is noted is in memory. When a store is closed in order it is written to the file `history`,
 * and the next start reads it. It is only told, never relied on: no sync, no error. After a crash
 * there is the file of an earlier close, or none; what is in it is told, and history_us says that
 * some may be missing.
 *
 *     frames of 64 KiB:  u32 magic "thst", or "thsn" for names   u32 crc32c of all that follows,
 *                        uuid first   u64 epoch of the engine that wrote it   u32 events, or names
 *                        u32 number of the frame   u64 since when nothing is missing
 *                        for each event: its two words (see history.c), u64 each
 *                        for each name of an actor, from number 1 on: u8 length, 64 bytes
 *
 * Names come first, if there are any, so that no event is read whose actor is not known.
 * The first frame that is not good, or of another epoch, is the end.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/inner.h"

#include <assert.h>
#include <string.h>

enum {
    MAGIC = 0x74736874,
    MAGIC_NAMES = 0x6e736874,
    HEAD = 32,
    EVENT = 16,
    ACTOR = 1 + TR_ACTOR_NAME_MAX,
    FRAME = 65536,
    NAMES = (FRAME - HEAD) / ACTOR, /* in a frame */
};

static const char NAME[] = "history";

static_assert(HEAD + EVENT * TR_HISTORY_PIECE <= FRAME, "a piece fits a frame");

static uint32_t crc_of(const struct tr_engine *e, const uint8_t *frame)
{
    return tr_crc(tr_crc(0, e->log.uuid, TR_UUID), frame + 8, FRAME - 8);
}

static int run(struct tr_engine *e, struct tr_io *io)
{
    memcpy(io->name, NAME, sizeof NAME);
    return e->disk.ops->run(e->disk.ctx, io);
}

static int write_frame(struct tr_engine *e, int file, uint64_t number, const uint8_t *frame)
{
    uint64_t done = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && done < FRAME) {
        struct tr_piece piece = {frame + done, (size_t)(FRAME - done)};
        struct tr_io io = {.op = TR_IO_WRITE,
                           .file = file,
                           .off = number * FRAME + done,
                           .len = piece.len,
                           .pieces = &piece,
                           .piece_count = 1};

        err = run(e, &io);
        done += io.got;
    }
    return err;
}

static void fill_head(const struct tr_engine *e, uint32_t magic, uint32_t count, uint32_t number,
                      uint8_t *frame)
{
    memset(frame, 0, FRAME);
    tr_put_le(frame, magic, 4);
    tr_put_le(frame + 8, e->epoch, 8);
    tr_put_le(frame + 16, count, 4);
    tr_put_le(frame + 20, number, 4);
    tr_put_le(frame + 24, e->histories.since_us, 8);
}

/* The names that belong into this frame. */
static void fill_names(const struct tr_engine *e, uint32_t number, uint8_t *frame)
{
    const struct tr_histories *h = &e->histories;
    uint32_t left = h->actor_count - number * NAMES;
    uint32_t count = left < NAMES ? left : NAMES;

    fill_head(e, MAGIC_NAMES, count, number, frame);
    for (uint32_t i = 0; i < count; i++) {
        const struct tr_actor *a = &h->actors[number * NAMES + i];
        uint8_t *at = frame + HEAD + (size_t)ACTOR * i;

        at[0] = a->len;
        memcpy(at + 1, a->name, a->len);
    }
    tr_put_le(frame + 4, crc_of(e, frame), 4);
}

static void fill(const struct tr_engine *e, const struct tr_history_piece *p, uint32_t number,
                 uint8_t *frame)
{
    fill_head(e, MAGIC, p->count, number, frame);
    for (uint32_t i = 0; i < p->count; i++) {
        tr_put_le(frame + HEAD + (size_t)EVENT * i, p->events[i].what, 8);
        tr_put_le(frame + HEAD + (size_t)EVENT * i + 8, p->events[i].when, 8);
    }
    tr_put_le(frame + 4, crc_of(e, frame), 4);
}

void tr_past_save(struct tr_engine *e)
{
    struct tr_io gone = {.op = TR_IO_UNLINK};
    struct tr_io made = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    uint8_t *frame = tr_mem_stretch(e->mem, NULL, 0, FRAME);
    const struct tr_list *all = &e->histories.pieces;
    uint32_t number = 0;

    if (frame != NULL && run(e, &gone) == TARRY_OK && !tr_list_empty(all) &&
        run(e, &made) == TARRY_OK) {
        struct tr_io end = {.op = TR_IO_CLOSE, .file = made.file};
        int err = TARRY_OK;

        while (err == TARRY_OK && number * NAMES < e->histories.actor_count) {
            fill_names(e, number, frame);
            err = write_frame(e, made.file, number++, frame);
        }
        for (const struct tr_list *n = all->next; n != all && err == TARRY_OK; n = n->next) {
            fill(e, TR_CONTAINER_OF(n, const struct tr_history_piece, link), number, frame);
            err = write_frame(e, made.file, number++, frame);
        }
        (void)run(e, &end);
    }
    if (frame != NULL) {
        tr_mem_free(e->mem, frame, FRAME);
    }
}

/* Is it this frame of that file? *epoch: 0 is any. */
static bool is_good(const struct tr_engine *e, const uint8_t *frame, uint32_t number,
                    uint64_t *epoch)
{
    uint64_t was = tr_get_le(frame + 8, 8);
    bool names = tr_get_le(frame, 4) == MAGIC_NAMES;

    if ((!names && tr_get_le(frame, 4) != MAGIC) || tr_get_le(frame + 4, 4) != crc_of(e, frame) ||
        tr_get_le(frame + 16, 4) > (names ? NAMES : TR_HISTORY_PIECE) ||
        tr_get_le(frame + 20, 4) != number || (*epoch != 0 && was != *epoch)) {
        return false;
    }
    *epoch = was;
    return true;
}

/* False: what follows cannot be understood. */
static bool take(struct tr_engine *e, const uint8_t *frame)
{
    struct tr_histories *h = &e->histories;
    uint32_t count = (uint32_t)tr_get_le(frame + 16, 4);

    if (tr_get_le(frame, 4) == MAGIC) {
        tr_histories_read(h, frame + HEAD, count);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = frame + HEAD + (size_t)ACTOR * i;
        uint32_t number = h->actor_count + 1;

        if (at[0] == 0 || at[0] > TR_ACTOR_NAME_MAX ||
            tr_histories_actor(h, (const char *)at + 1, at[0]) != number) {
            return false;
        }
    }
    return true;
}

void tr_past_load(struct tr_engine *e, bool clean)
{
    struct tr_io file = {.op = TR_IO_OPEN};
    uint8_t *frame = tr_mem_stretch(e->mem, NULL, 0, FRAME);
    uint64_t since_us = e->histories.since_us;
    uint64_t epoch = 0;

    if (frame != NULL && run(e, &file) == TARRY_OK) {
        struct tr_io end = {.op = TR_IO_CLOSE, .file = file.file};

        e->histories.since_us = 0; /* what is dropped to make room counts up from here */
        for (uint32_t number = 0;; number++) {
            struct tr_io io = {.op = TR_IO_READ,
                               .file = file.file,
                               .off = (uint64_t)number * FRAME,
                               .len = FRAME,
                               .buf = frame};

            if (run(e, &io) != TARRY_OK || io.got != FRAME || !is_good(e, frame, number, &epoch)) {
                break;
            }
            since_us = number == 0 && clean && epoch + !e->config.read_only == e->epoch
                           ? tr_get_le(frame + 24, 8)
                           : since_us;
            if (!take(e, frame)) {
                break;
            }
        }
        (void)run(e, &end);
    }
    if (e->histories.since_us < since_us) {
        e->histories.since_us = since_us;
    }
    if (frame != NULL) {
        tr_mem_free(e->mem, frame, FRAME);
    }
}
