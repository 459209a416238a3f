/*
 * Damage of run files and sidecars.
 *
 * What must come of it: of a run, only jobs with a record on the damaged bytes may be held back,
 * and that is reported by file and place, and by the job's own id; of a sidecar, look-ups of its
 * group may fail, and searches may miss its jobs, but all of them come out when they are due. A
 * start makes a sidecar or a footer again; it may refuse the store for a damaged block, by the
 * number of the group. Whoever is blamed must be damaged.
 */
#include "harm.h"

#include "base/check.h"
#include "base/err.h"
#include "swarm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SECTOR = 512 };

void sim_harm_reset(struct sim_harm *h)
{
    h->name[0] = '\0';
    h->count = 0;
    h->named = false;
}

void sim_harm_fini(struct sim_harm *h)
{
    free(h->good);
    free(h->rids);
}

bool sim_harm_is(const struct sim_harm *h, const char *name)
{
    return h->name[0] != '\0' && strcmp(h->name, name) == 0;
}

/* ---- Doing it. */

/* Chooses a group, a file of it, and keeps what is in it. */
static bool choose_file(struct sim_harm *h, const struct sim_disk *disk,
                        const struct tr_manifest *man, struct tr_rng *rng)
{
    static const enum tr_group_file kinds[] = {TR_GROUP_LIVE, TR_GROUP_LIVE, TR_GROUP_SIDE,
                                               TR_GROUP_SIDE, TR_GROUP_DEAD};

    if (man->group_count == 0) {
        return false;
    }
    h->group = man->groups[tr_rng_below(rng, man->group_count)];
    h->kind = kinds[tr_rng_below(rng, sizeof(kinds) / sizeof(kinds[0]))];
    h->good_len = h->group.bytes[h->kind];
    if (h->good_len < PAGE) {
        return false;
    }
    h->good = realloc(h->good, h->good_len);
    TR_CHECK(h->good != NULL);
    tr_group_name(h->name, h->group.no, h->kind);
    if (sim_disk_peek(disk, h->name, 0, h->good, h->good_len) != h->good_len) {
        h->name[0] = '\0';
        return false;
    }
    return true;
}

static void add_rid(struct sim_harm *h, uint64_t rid)
{
    if (h->count == h->room) {
        h->room = h->room == 0 ? 64 : 2 * h->room;
        h->rids = realloc(h->rids, h->room * sizeof(*h->rids));
        TR_CHECK(h->rids != NULL);
    }
    h->rids[h->count++] = rid;
}

/* Which jobs have a record on the damaged bytes? None if it is the footer. False: this is no run.
 */
static bool find_rids(struct sim_harm *h, const uint8_t uuid[TR_UUID])
{
    struct tr_run_of of = {.group = h->group.no, .piece = h->kind};
    struct tr_run_trailer trailer;
    struct tr_run_footer footer;
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    uint32_t at;

    memcpy(of.uuid, uuid, TR_UUID);
    if (tr_run_trailer(h->good + h->good_len - TR_RUN_TRAILER, &of, h->good_len, &trailer) !=
            TARRY_OK ||
        tr_run_footer(h->good + trailer.footer_off, &of, &trailer, &footer) != TARRY_OK) {
        return false;
    }
    at = tr_run_footer_off(&footer, h->off);
    h->from = trailer.footer_off;
    h->end = h->good_len;
    h->again = at == footer.block_count;
    h->padding = false;
    if (h->again) {
        return true;
    }
    h->from = tr_run_footer_block(&footer, at).off;
    h->end = h->from + tr_run_footer_block(&footer, at).len;
    if (tr_run_block(&footer, at, h->good + h->from, &block) != TARRY_OK) {
        return false;
    }
    h->padding = h->off >= h->from + TR_RUN_BLOCK_HEAD + block.len;
    while (tr_run_next(&block, &rec, &place) == TARRY_OK) {
        if (tr_place_off(place) < h->off + h->len &&
            h->off < tr_place_off(place) + tr_place_len(place)) {
            add_rid(h, rec.rid);
        }
    }
    return true;
}

/* A write that was lost: the block is empty, or what was there before, of this file or another. */
static void overwrite(struct sim_harm *h, struct sim_disk *disk, const struct tr_manifest *man,
                      struct tr_rng *rng)
{
    uint8_t page[PAGE] = {0};
    const struct tr_manifest_group *other = &man->groups[tr_rng_below(rng, man->group_count)];
    char name[TR_IO_NAME_MAX];

    h->off = h->off / PAGE * PAGE;
    h->len = PAGE;
    tr_group_name(name, other->no, h->kind);
    if (other->no == h->group.no || sim_dice(rng, 30)) {
        uint64_t from = tr_rng_below(rng, h->good_len / PAGE) * PAGE;

        if (from != h->off && sim_dice(rng, 60)) {
            memcpy(page, h->good + from, PAGE); /* it went astray */
        }
    } else if (sim_disk_exists(disk, name)) {
        (void)sim_disk_peek(disk, name, h->off, page, PAGE); /* the same page of another group */
    }
    sim_disk_poke(disk, h->name, h->off, page, PAGE);
}

static void damage(struct sim_harm *h, struct sim_disk *disk, const struct tr_manifest *man,
                   struct tr_rng *rng)
{
    uint64_t dice = tr_rng_below(rng, 100);
    uint8_t bytes[SECTOR];

    if (dice < 50) {
        bytes[0] = h->good[h->off] ^ (uint8_t)(1U << tr_rng_below(rng, 8));
        h->len = 1;
        sim_disk_poke(disk, h->name, h->off, bytes, 1);
    } else if (dice < 60) {
        h->off = h->off / SECTOR * SECTOR;
        h->len = SECTOR;
        for (size_t i = 0; i < SECTOR; i++) {
            bytes[i] = (uint8_t)tr_rng_next(rng);
        }
        sim_disk_poke(disk, h->name, h->off, bytes, SECTOR);
    } else if (dice < 70) {
        h->off = h->off / SECTOR * SECTOR;
        h->len = SECTOR;
        sim_disk_break(disk, h->name, h->off);
    } else {
        overwrite(h, disk, man, rng);
    }
}

/* Where in a sidecar: mostly where jobs are looked up. */
static uint64_t choose_page(const struct sim_harm *h, const uint8_t uuid[TR_UUID],
                            struct tr_rng *rng)
{
    struct tr_side_of of = {.group = true, .number = h->group.no};
    struct tr_sidecar side = {0};
    enum tr_side_section section = sim_dice(rng, 65) ? TR_SIDE_T : TR_SIDE_R;

    memcpy(of.uuid, uuid, TR_UUID);
    if (sim_dice(rng, 25) || tr_sidecar_head(&side, &of, h->good) != TARRY_OK ||
        side.sections[section].pages == 0) {
        return tr_rng_below(rng, h->good_len / PAGE) * PAGE;
    }
    return tr_sidecar_off(&side, section,
                          (uint32_t)tr_rng_below(rng, side.sections[section].pages));
}

bool sim_harm_do(struct sim_harm *h, struct sim_disk *disk, const struct tr_manifest *man,
                 struct tr_rng *rng)
{
    if (!choose_file(h, disk, man, rng)) {
        return false;
    }
    h->off = h->kind == TR_GROUP_SIDE ? choose_page(h, man->uuid, rng)
                                      : tr_rng_below(rng, h->good_len / PAGE) * PAGE;
    h->off += tr_rng_below(rng, sim_dice(rng, 60) ? 256 : PAGE);
    h->from = h->off / PAGE * PAGE;
    h->end = h->from + PAGE;
    h->count = 0;
    h->again = h->kind == TR_GROUP_SIDE;
    h->padding = false;
    if (h->kind != TR_GROUP_SIDE && !find_rids(h, man->uuid)) {
        h->name[0] = '\0'; /* it is not what the manifest says: being removed */
        return false;
    }
    damage(h, disk, man, rng);
    h->count = 0;
    return h->kind == TR_GROUP_SIDE || find_rids(h, man->uuid);
}

bool sim_harm_lasts(const struct sim_harm *h, const struct sim_disk *disk)
{
    uint8_t bytes[PAGE];

    return h->name[0] != '\0' && h->len <= PAGE &&
           sim_disk_peek(disk, h->name, h->off, bytes, (size_t)h->len) == h->len &&
           memcmp(bytes, h->good + h->off, (size_t)h->len) != 0;
}

/* ---- Reports. */

static bool has_record(const struct sim_harm *h, uint64_t rid)
{
    for (size_t i = 0; i < h->count; i++) {
        if (h->rids[i] == rid) {
            return true;
        }
    }
    return false;
}

static void mark(struct sim_harm *h, struct sim_model *m)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct sim_job *j = &m->jobs[i];

        j->damaged = j->damaged || has_record(h, j->rid);
        j->hidden = j->hidden || (h->kind == TR_GROUP_SIDE && j->rid >= h->group.rid_first &&
                                  j->rid <= h->group.rid_last);
    }
}

static const char *blame_page(struct sim_harm *h, struct sim_model *m, uint64_t off)
{
    if (off < h->from || off >= h->end) {
        return "another place of the file is damaged";
    }
    h->quiet = h->blamed ? h->quiet : 0;
    h->blamed = true;
    mark(h, m);
    return NULL;
}

void sim_harm_opened(struct sim_harm *h, struct sim_model *m, uint64_t groups)
{
    h->scrubs = 0;
    h->groups = groups;
    if (h->blamed) { /* while it was opened; it is told once */
        mark(h, m);
    }
}

const char *sim_harm_reported(struct sim_harm *h, struct sim_model *m, const char *text,
                              bool opening)
{
    char name[TR_IO_NAME_MAX];
    const char *file = strstr(text, "ile g");
    const struct sim_job *j;
    uint64_t number;
    uint64_t off;

    if (sscanf(text, "Group %" SCNu64, &number) == 1) {
        h->named = h->named || number == h->group.no;
        return number == h->group.no ? NULL : "another group is damaged";
    }
    if (sscanf(text, "The record of rid %" SCNu64, &number) == 1) {
        return has_record(h, number) ? NULL : "its record is not damaged";
    }
    if (file == NULL || sscanf(file, "ile %31[^, ]", name) != 1) {
        return NULL; /* it is about something else */
    }
    if (!sim_harm_is(h, name)) {
        return "another file is damaged";
    }
    h->named = true;
    if (sscanf(text, "The record of job %" SCNu64, &number) == 1) {
        j = sim_model_find(m, number);
        return j != NULL && !opening && !has_record(h, j->rid) ? "its record is not damaged" : NULL;
    }
    file = strstr(text, "offset ");
    if (file == NULL || sscanf(file, "offset %" SCNu64, &off) != 1) {
        return "it does not say where";
    }
    return blame_page(h, m, off);
}
