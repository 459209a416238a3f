/*
 * One damaged place, chosen so that each rule about damage is met often enough: anywhere, in the
 * newest batch, in the header of a segment, in the newest checkpoint, in metadata, in a file of a
 * group (harm.c), or (its own swarm) all of the newest manifest.
 *
 * What must come of it: the header of a segment, a checkpoint page or one copy of a manifest is
 * survived without loss, since there is another way to know; everything else may be refused, if it
 * is said what is damaged. Never is it passed over.
 */
#include "run.h"

#include "base/err.h"
#include "engine/checkpoint.h"
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

/* The newest manifest and the file it is in; gen 0: there is none. */
struct newest {
    struct tr_manifest man;
    char name[TR_IO_NAME_MAX];
};

static void find_manifest(const struct sim_run *r, struct newest *found)
{
    uint8_t copy[TR_MANIFEST_COPY];
    struct tr_manifest man;

    found->man.gen = 0;
    for (unsigned i = 0; i < 2 * TR_MANIFEST_COPIES; i++) {
        char name[TR_IO_NAME_MAX];
        uint64_t off = (uint64_t)(i / 2) * TR_MANIFEST_COPY;

        (void)snprintf(name, sizeof(name), "man.%u", i % 2);
        if (sim_disk_peek(r->disk, name, off, copy, sizeof(copy)) == sizeof(copy) &&
            tr_manifest_decode(copy, &man) == TARRY_OK && man.gen > found->man.gen) {
            found->man = man;
            memcpy(found->name, name, sizeof(name));
        }
    }
}

/* True when a frame of this store stands there. */
static bool read_frame(const struct sim_run *r, const uint8_t *uuid, const char *name, uint64_t off,
                       struct tr_frame *f)
{
    uint8_t head[TR_FRAME_HEAD];
    uint32_t crc;

    return sim_disk_peek(r->disk, name, off, head, sizeof(head)) == sizeof(head) &&
           tr_frame_decode(head, tr_frame_place(uuid, off), f, &crc) == TARRY_OK;
}

/* The frame of the newest batch, by looking at every block. */
static bool find_last_frame(const struct sim_run *r, const uint8_t *uuid, struct spot *spot)
{
    uint64_t gen = 0;

    spot->batch = 0;
    for (unsigned i = 0; i < SLOTS_SCANNED; i++) {
        char name[TR_IO_NAME_MAX];
        uint64_t size;

        (void)snprintf(name, sizeof(name), "w.%03u", i);
        size = sim_disk_size(r->disk, name);
        for (uint64_t off = TR_BLOCK; off + TR_BLOCK <= size; off += TR_BLOCK) {
            struct tr_frame f;

            if (!read_frame(r, uuid, name, off, &f)) {
                continue;
            }
            gen = f.man_gen > gen ? f.man_gen : gen;
            if (f.batch_no > spot->batch && (f.flags & TR_FRAME_SEAL) == 0) {
                *spot = (struct spot){.off = off, .batch = f.batch_no};
                spot->len = TR_FRAME_HEAD + (uint64_t)f.payload_len;
                memcpy(spot->name, name, sizeof(name));
            }
        }
    }
    spot->man_gen = gen;
    return spot->batch != 0;
}

static void spoil(struct sim_run *r, const char *name, uint64_t off)
{
    uint8_t bytes[NOISE];

    if (sim_disk_peek(r->disk, name, off, bytes, NOISE) == NOISE) {
        for (size_t i = 0; i < NOISE; i++) {
            bytes[i] ^= (uint8_t)(1 + tr_rng_below(&r->rng, 255));
        }
        sim_disk_poke(r->disk, name, off, bytes, NOISE);
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

static bool rot_last_batch(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    if (!find_last_frame(r, n->man.uuid, spot)) {
        return false;
    }
    spot->off += tr_rng_below(&r->rng, spot->len);
    spoil_one_bit(r, spot->name, spot->off);
    return true;
}

static bool rot_header(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    if (!find_last_frame(r, n->man.uuid, spot)) {
        return false;
    }
    spot->off = tr_rng_below(&r->rng, NOISE);
    spoil_one_bit(r, spot->name, spot->off);
    r->oracle.all_there = true; /* the frames tell what the header did (R6) */
    return true;
}

/* The newest checkpoint, so that the older one must do (R16). */
static bool rot_checkpoint(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    const uint64_t pages = n->man.ckpt[n->man.ckpt_now].pages;

    if (pages == 0) {
        return false;
    }
    (void)snprintf(spot->name, sizeof(spot->name), "ckpt.%u", n->man.ckpt_now);
    spot->off = tr_rng_below(&r->rng, pages * TR_PAGE);
    spoil_one_bit(r, spot->name, spot->off);
    return true;
}

static bool rot_newest_manifest(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    for (unsigned k = 0; k < TR_MANIFEST_COPIES; k++) {
        spoil(r, n->name, (uint64_t)k * TR_MANIFEST_COPY);
    }
    memcpy(spot->name, n->name, sizeof(spot->name));
    spot->off = 0;
    return true;
}

/*
 * A slot whose header did not survive a power cut, but its only frame did. Recovery repairs the
 * header before it goes on (R6), so that there is none; if there is one, its frame rots.
 */
static bool rot_only_frame(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    for (unsigned i = 0; i < SLOTS_SCANNED; i++) {
        uint8_t block[TR_BLOCK];
        struct tr_segment seg;
        struct tr_frame f;

        (void)snprintf(spot->name, sizeof(spot->name), "w.%03u", i);
        if (sim_disk_peek(r->disk, spot->name, 0, block, sizeof(block)) == sizeof(block) &&
            tr_segment_decode(block, &seg) != TARRY_OK &&
            read_frame(r, n->man.uuid, spot->name, TR_BLOCK, &f) &&
            !read_frame(r, n->man.uuid, spot->name, TR_BLOCK + tr_frame_size(f.payload_len), &f)) {
            spot->off = TR_BLOCK;
            spoil(r, spot->name, spot->off);
            return true;
        }
    }
    return false;
}

static bool rot_group(struct sim_run *r, const struct newest *n, struct spot *spot)
{
    struct sim_harm *h = &r->oracle.prefix.harm;
    struct tr_engine_stat stat;

    if (!sim_harm_do(h, r->disk, &n->man, &r->rng)) {
        return false;
    }
    tr_engine_stat(r->engine, &stat);
    h->scrubs = stat.scrubbed_groups;
    h->groups = stat.groups;
    memcpy(spot->name, h->name, sizeof(spot->name));
    spot->off = h->off;
    return true;
}

static bool rot_anywhere(struct sim_run *r, struct spot *spot)
{
    static const char *const prefixes[] = {"w.", "w.", "man", "ckpt", "ckpt", "w."};
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

bool sim_run_knows_newer(const struct sim_run *r)
{
    struct newest n;
    struct spot spot = {.off = 0};

    find_manifest(r, &n);
    (void)find_last_frame(r, r->uuid, &spot);
    return spot.man_gen > n.man.gen;
}

bool sim_run_rot_frame(struct sim_run *r)
{
    struct newest n;
    struct spot spot = {.off = 0};

    if (!r->params.rot || r->oracle.rotten) {
        return false;
    }
    find_manifest(r, &n);
    if (n.man.gen == 0 || !rot_only_frame(r, &n, &spot)) {
        return false;
    }
    r->oracle.rotten = true;
    memcpy(r->uuid, n.man.uuid, sizeof(r->uuid));
    if (r->trace) {
        printf("rot: the only frame of %s, which has no header\n", spot.name);
    }
    return true;
}

void sim_run_rot(struct sim_run *r, bool then_crash)
{
    struct newest n;
    struct spot spot = {.off = 0};
    uint64_t dice = tr_rng_below(&r->rng, 100);
    bool done;

    find_manifest(r, &n);
    if (n.man.gen == 0) {
        return;
    }
    if (r->params.rot_manifest) {
        done = rot_newest_manifest(r, &n, &spot);
    } else if (r->params.rot_group || dice >= 90) {
        done = rot_group(r, &n, &spot);
    } else if (dice < 25) {
        done = rot_last_batch(r, &n, &spot);
    } else if (dice < 40) {
        done = rot_header(r, &n, &spot);
    } else if (dice < 60) {
        done = rot_checkpoint(r, &n, &spot);
    } else {
        done = rot_anywhere(r, &spot);
    }
    if (!done) {
        return;
    }
    r->oracle.rotten = true;
    memcpy(r->uuid, n.man.uuid, sizeof(r->uuid));
    r->oracle.must_open = then_crash && !r->params.rot_manifest &&
                          (r->oracle.all_there || memcmp(spot.name, "man.", 4) == 0 ||
                           (memcmp(spot.name, "ckpt.", 5) == 0 && checkpoints_are_whole(r)));
    r->oracle.all_there = r->oracle.must_open;
    if (r->trace) {
        printf("rot: %s at %" PRIu64 "%s\n", spot.name, spot.off,
               r->oracle.must_open ? ", must be survived" : "");
    }
}
