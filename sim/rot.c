/*
 * One damaged place, chosen so that each rule about damage is met often enough: anywhere, in the
 * newest batch, in the header of a segment, in metadata, or (its own swarm) all of the newest
 * manifest.
 *
 * What must come of it: a checkpoint page or one copy of a manifest is survived, since there is
 * another; everything else may be refused, if it is said what is damaged. Never is it passed over.
 */
#include "run.h"

#include "base/err.h"
#include "engine/frame.h"
#include "engine/manifest.h"

#include <inttypes.h>
#include <string.h>

enum { NOISE = 64, SLOTS_SCANNED = 32 };

struct spot {
    char name[TR_IO_NAME_MAX];
    uint64_t off;
    uint64_t len;
    uint64_t batch;
    uint64_t man_gen; /* newest generation that any frame knows */
};

/* The store's uuid, from any slot whose header is good. */
static void find_uuid(const struct sim_run *r, uint8_t uuid[TR_UUID])
{
    for (unsigned i = 0; i < SLOTS_SCANNED; i++) {
        char name[TR_IO_NAME_MAX];
        uint8_t block[TR_BLOCK];
        struct tr_segment seg;

        (void)snprintf(name, sizeof(name), "w.%03u", i);
        if (sim_disk_peek(r->disk, name, 0, block, sizeof(block)) == sizeof(block) &&
            tr_segment_decode(block, &seg) == TARRY_OK) {
            memcpy(uuid, seg.uuid, TR_UUID);
            return;
        }
    }
}

/* The frame of the newest batch, by looking at every block. */
static bool find_last_frame(const struct sim_run *r, struct spot *spot)
{
    uint8_t uuid[TR_UUID] = {0};

    find_uuid(r, uuid);
    uint64_t gen = 0;

    spot->batch = 0;
    for (unsigned i = 0; i < SLOTS_SCANNED; i++) {
        char name[TR_IO_NAME_MAX];
        uint64_t size;

        (void)snprintf(name, sizeof(name), "w.%03u", i);
        size = sim_disk_size(r->disk, name);
        for (uint64_t off = TR_BLOCK; off + TR_BLOCK <= size; off += TR_BLOCK) {
            uint8_t head[TR_FRAME_HEAD];
            struct tr_frame f;
            uint32_t crc;

            if (sim_disk_peek(r->disk, name, off, head, sizeof(head)) == sizeof(head) &&
                tr_frame_decode(head, tr_frame_place(uuid, off), &f, &crc) == TARRY_OK &&
                f.batch_no > spot->batch && (f.flags & TR_FRAME_SEAL) == 0) {
                *spot = (struct spot){.off = off, .batch = f.batch_no};
                spot->len = TR_FRAME_HEAD + (uint64_t)f.payload_len;
                memcpy(spot->name, name, sizeof(name));
            }
        }
    }
    spot->man_gen = gen;
    return spot->batch != 0;
}

static void spoil(struct sim_run *r, const char *name, uint64_t off, size_t len)
{
    uint8_t bytes[NOISE];

    len = len < NOISE ? len : NOISE;
    if (sim_disk_peek(r->disk, name, off, bytes, len) == len) {
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= (uint8_t)(1 + tr_rng_below(&r->rng, 255));
        }
        sim_disk_poke(r->disk, name, off, bytes, len);
    }
}

static void spoil_one_bit(struct sim_run *r, const char *name, uint64_t off)
{
    uint8_t byte = 0;

    if (sim_disk_peek(r->disk, name, off, &byte, 1) == 1) {
        byte ^= (uint8_t)(1U << tr_rng_below(&r->rng, 8));
        sim_disk_poke(r->disk, name, off, &byte, 1);
    }
}

static bool rot_last_batch(struct sim_run *r, struct spot *spot)
{
    if (!find_last_frame(r, spot)) {
        return false;
    }
    spot->off += tr_rng_below(&r->rng, spot->len);
    spoil_one_bit(r, spot->name, spot->off);
    return true;
}

/*
 * A slot whose header did not survive a power cut, but its only frame did. Recovery repairs the
 * header before it goes on (R6), so that there is none; if there is one, its frame rots.
 */
static bool rot_only_frame(struct sim_run *r, struct spot *spot)
{
    for (unsigned i = 0; i < SLOTS_SCANNED; i++) {
        uint8_t block[TR_BLOCK];
        struct tr_segment seg;
        struct tr_frame f;
        uint32_t crc;
        uint64_t next;

        (void)snprintf(spot->name, sizeof(spot->name), "w.%03u", i);
        if (sim_disk_peek(r->disk, spot->name, 0, block, sizeof(block)) != sizeof(block) ||
            tr_segment_decode(block, &seg) == TARRY_OK ||
            sim_disk_peek(r->disk, spot->name, TR_BLOCK, block, sizeof(block)) != sizeof(block) ||
            tr_frame_decode(block, TR_BLOCK, &f, &crc) != TARRY_OK) {
            continue;
        }
        next = TR_BLOCK + tr_frame_size(f.payload_len);
        if (sim_disk_peek(r->disk, spot->name, next, block, sizeof(block)) == sizeof(block) &&
            tr_frame_decode(block, next, &f, &crc) == TARRY_OK) {
            continue;
        }
        spot->off = TR_BLOCK;
        spoil(r, spot->name, spot->off, NOISE);
        return true;
    }
    return false;
}

static bool rot_header(struct sim_run *r, struct spot *spot)
{
    if (!find_last_frame(r, spot)) {
        return false;
    }
    spot->off = tr_rng_below(&r->rng, NOISE);
    spoil_one_bit(r, spot->name, spot->off);
    return true;
}

static bool rot_newest_manifest(struct sim_run *r, struct spot *spot)
{
    static uint8_t copy[TR_MANIFEST_COPY];
    static struct tr_manifest man;
    uint64_t known = find_last_frame(r, spot) ? spot->man_gen : 0;

    spot->batch = 0; /* here: the generation */
    for (unsigned i = 0; i < 2; i++) {
        char name[TR_IO_NAME_MAX];

        (void)snprintf(name, sizeof(name), "man.%u", i);
        for (unsigned k = 0; k < TR_MANIFEST_COPIES; k++) {
            if (sim_disk_peek(r->disk, name, (uint64_t)k * TR_MANIFEST_COPY, copy, sizeof(copy)) ==
                    sizeof(copy) &&
                tr_manifest_decode(copy, &man) == TARRY_OK && man.gen > spot->batch) {
                spot->batch = man.gen;
                memcpy(spot->name, name, sizeof(name));
            }
        }
    }
    for (unsigned k = 0; spot->batch != 0 && k < TR_MANIFEST_COPIES; k++) {
        spoil(r, spot->name, (uint64_t)k * TR_MANIFEST_COPY, NOISE);
    }
    r->oracle.must_refuse = spot->batch != 0 && known >= spot->batch;
    spot->off = 0;
    return spot->batch != 0;
}

static bool rot_anywhere(struct sim_run *r, struct spot *spot)
{
    static const char *const prefixes[] = {NULL, NULL, "man", "ckpt", "ckpt", "w."};
    enum sim_rot kind = sim_dice(&r->rng, 10) ? SIM_ROT_BAD : SIM_ROT_ANY;
    struct sim_place place;

    if (!sim_disk_rot(r->disk, prefixes[tr_rng_below(&r->rng, 6)], kind, &place)) {
        return false;
    }
    memcpy(spot->name, place.name, sizeof(spot->name));
    spot->off = place.off;
    return true;
}

/* Has every checkpoint been finished that was begun? Then there are two good ones. */
static bool checkpoints_are_whole(const struct sim_run *r)
{
    struct tr_engine_stat stat;

    tr_engine_stat(r->engine, &stat);
    return stat.checkpoints >= 2 && sim_disk_pending_lane(r->disk, TR_LANE_BACK) == 0;
}

bool sim_run_rot_frame(struct sim_run *r)
{
    struct spot spot = {.off = 0};

    if (!r->params.rot || r->oracle.rotten || !rot_only_frame(r, &spot)) {
        return false;
    }
    r->oracle.rotten = true;
    if (r->trace) {
        printf("rot: the only frame of %s, which has no header\n", spot.name);
    }
    return true;
}

void sim_run_rot(struct sim_run *r, bool then_crash)
{
    struct spot spot = {.off = 0};
    uint64_t dice = tr_rng_below(&r->rng, 100);
    bool done;

    if (r->params.rot_manifest) {
        done = rot_newest_manifest(r, &spot);
    } else if (dice < 25) {
        done = rot_last_batch(r, &spot);
    } else if (dice < 40) {
        done = rot_header(r, &spot);
    } else {
        done = rot_anywhere(r, &spot);
    }
    if (!done) {
        return;
    }
    r->oracle.rotten = true;
    r->oracle.must_open = then_crash && !r->params.rot_manifest &&
                          (memcmp(spot.name, "man.", 4) == 0 ||
                           (memcmp(spot.name, "ckpt.", 5) == 0 && checkpoints_are_whole(r)));
    if (r->trace) {
        printf("rot: %s at %" PRIu64 "%s\n", spot.name, spot.off,
               r->oracle.must_open ? ", must be survived" : "");
    }
}
