/*
 * The table of groups.
 *
 * Two orders: by index, which never changes while a group lives, since far jobs know the run of
 * their record by its number (TR_MANIFEST_SLOTS_MAX + 2 x index + run); and by rid, for look-ups.
 * A new group covers rids behind those of all others, so adding is appending; or it takes the place
 * of neighbours that it was merged from. These stay in the table until nobody needs them.
 *
 * Cost: a look-up is a search by halves in at most 300 groups. In memory a group has about 0.13
 * bytes a job for fences and blocks.
 */

#include "engine/group.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

static const char *const suffixes[TR_GROUP_FILES] = {"run", "dead", "six"};

void tr_groups_init(struct tr_groups *gs, struct tr_mem *mem)
{
    *gs = (struct tr_groups){.mem = mem, .next_no = 1};
}

void tr_groups_fini(struct tr_groups *gs)
{
    for (uint32_t i = 0; i < TR_GROUPS_MAX && gs->mem != NULL; i++) {
        if (gs->table[i] != NULL) {
            tr_group_free(gs, gs->table[i]);
        }
    }
    *gs = (struct tr_groups){0};
}

struct tr_group *tr_group_new(struct tr_groups *gs)
{
    struct tr_group *g = NULL;

    for (uint32_t i = 0; i < TR_GROUPS_MAX; i++) {
        if (gs->table[i] != NULL) {
            continue;
        }
        g = tr_mem_alloc(gs->mem, sizeof *g);
        if (g == NULL) {
            return NULL;
        }
        g->index = i;
        gs->table[i] = g;
        break;
    }
    if (g == NULL) {
        return NULL;
    }
    g->is.no = gs->next_no++;
    g->alive = UINT64_MAX;
    g->side_file = -1;
    for (uint32_t i = 0; i < TR_GROUP_RUNS; i++) {
        g->runs[i].state = TR_SLOT_SEALED;
        g->runs[i].number = TR_MANIFEST_SLOTS_MAX + g->index * TR_GROUP_RUNS + i;
        g->runs[i].file = -1;
        tr_list_init(&g->runs[i].jobs);
    }
    return g;
}

void tr_groups_add(struct tr_groups *gs, struct tr_group *g)
{
    TR_CHECK(gs->count == 0 || gs->order[gs->count - 1]->is.rid_last < g->is.rid_first);
    gs->order[gs->count++] = g;
    gs->covered = g->is.rid_last;
}

void tr_groups_replace(struct tr_groups *gs, struct tr_group *const *old, unsigned count,
                       struct tr_group *g)
{
    uint32_t at = 0;

    while (at < gs->count && gs->order[at] != old[0]) {
        at++;
    }
    TR_CHECK(at + count <= gs->count && gs->order[at + count - 1] == old[count - 1]);
    gs->order[at] = g;
    gs->count -= count - 1;
    memmove(&gs->order[at + 1], &gs->order[at + count], (gs->count - at - 1) * sizeof gs->order[0]);
}

uint64_t tr_group_jobs(const struct tr_group *g)
{
    return (uint64_t)g->side.live + g->side.dead;
}

uint64_t tr_group_bytes(const struct tr_group *g)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < TR_GROUP_FILES; i++) {
        bytes += g->is.bytes[i];
    }
    return bytes;
}

uint64_t tr_group_live(const struct tr_group *g)
{
    return g->runs[TR_GROUP_LIVE].live + g->runs[TR_GROUP_DEAD].live;
}

/* Of its live records. They are made smaller or larger by a little when they are copied. */
static uint64_t record_bytes(const struct tr_group *g)
{
    uint64_t most = (uint64_t)g->is.bytes[TR_GROUP_LIVE] + g->is.bytes[TR_GROUP_DEAD];
    uint64_t bytes = g->runs[TR_GROUP_LIVE].live_bytes + g->runs[TR_GROUP_DEAD].live_bytes;

    bytes = bytes > UINT64_MAX / 2 ? 0 : bytes;
    return bytes < most ? bytes : most;
}

uint64_t tr_group_live_bytes(const struct tr_group *g)
{
    uint64_t jobs = tr_group_jobs(g);
    uint64_t live = tr_group_live(g);

    return live == 0   ? 0
           : jobs == 0 ? tr_group_bytes(g)
                       : record_bytes(g) + (uint64_t)g->is.bytes[TR_GROUP_SIDE] * live / jobs;
}

void tr_group_set_live(struct tr_group *g, uint64_t live)
{
    uint64_t jobs = tr_group_jobs(g);
    uint64_t bytes = (uint64_t)g->is.bytes[TR_GROUP_LIVE] + g->is.bytes[TR_GROUP_DEAD];
    uint64_t mean = g->is.mean != 0 || jobs == 0 ? g->is.mean : bytes / jobs;

    g->runs[TR_GROUP_LIVE].live = live;
    g->runs[TR_GROUP_LIVE].live_bytes = live * mean;
    g->runs[TR_GROUP_DEAD].live = 0;
    g->runs[TR_GROUP_DEAD].live_bytes = 0;
}

struct tr_manifest_group tr_group_described(const struct tr_group *g)
{
    struct tr_manifest_group is = g->is;
    uint64_t live = tr_group_live(g);

    is.mean = live != 0 ? (uint32_t)(record_bytes(g) / live) : 0;
    return is;
}

void tr_group_free(struct tr_groups *gs, struct tr_group *g)
{
    for (uint32_t i = 0; i < gs->count; i++) {
        if (gs->order[i] == g) {
            gs->count--;
            memmove(&gs->order[i], &gs->order[i + 1], (gs->count - i) * sizeof gs->order[0]);
            break;
        }
    }
    for (unsigned i = 0; i < TR_GROUP_RUNS; i++) {
        if (g->bytes[i] != NULL) {
            size_t len = (size_t)(g->is.bytes[i] - g->footers[i].stat.bytes);

            tr_mem_free(gs->mem, g->bytes[i], len);
        }
    }
    tr_sidecar_fini(&g->side);
    if (g->has_read) {
        tr_bitmap_fini(&g->has);
    }
    gs->table[g->index] = NULL;
    tr_mem_free(gs->mem, g, sizeof *g);
}

struct tr_group *tr_groups_find(const struct tr_groups *gs, uint64_t rid)
{
    uint32_t from = 0;
    uint32_t to = gs->count;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (gs->order[mid]->is.rid_last < rid) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from < gs->count && gs->order[from]->is.rid_first <= rid ? gs->order[from] : NULL;
}

struct tr_group *tr_groups_by_no(const struct tr_groups *gs, uint64_t no)
{
    for (uint32_t i = 0; i < gs->count; i++) {
        if (gs->order[i]->is.no == no) {
            return gs->order[i];
        }
    }
    return NULL;
}

struct tr_group *tr_groups_of_run(const struct tr_groups *gs, uint32_t number)
{
    TR_CHECK(number >= TR_MANIFEST_SLOTS_MAX && number < TR_FILES_MAX);
    return gs->table[(number - TR_MANIFEST_SLOTS_MAX) / TR_GROUP_RUNS];
}

struct tr_slot *tr_groups_run(const struct tr_groups *gs, uint32_t number)
{
    struct tr_group *g = tr_groups_of_run(gs, number);

    TR_CHECK(g != NULL);
    return &g->runs[(number - TR_MANIFEST_SLOTS_MAX) % TR_GROUP_RUNS];
}

void tr_group_name(char name[TR_IO_NAME_MAX], uint64_t no, enum tr_group_file file)
{
    tr_text(name, TR_IO_NAME_MAX, "g%llu.%s", (unsigned long long)no, suffixes[file]);
}

uint64_t tr_group_number(const char *name)
{
    char same[TR_IO_NAME_MAX];
    uint64_t no = 0;

    if (name[0] != 'g' || name[1] == '0') {
        return 0;
    }
    for (const char *c = name + 1; *c >= '0' && *c <= '9'; c++) {
        if (no > UINT64_MAX / 16) {
            return 0;
        }
        no = no * 10 + (uint64_t)(*c - '0');
    }
    for (unsigned i = 0; i < TR_GROUP_FILES && no != 0; i++) {
        tr_group_name(same, no, (enum tr_group_file)i);
        if (strcmp(name, same) == 0) {
            return no;
        }
    }
    return 0;
}

struct tr_run_of tr_group_run_of(const struct tr_group *g, unsigned run,
                                 const uint8_t uuid[TR_UUID])
{
    struct tr_run_of of = {.group = g->is.no, .piece = run};

    memcpy(of.uuid, uuid, TR_UUID);
    return of;
}

struct tr_side_of tr_group_side_of(const struct tr_group *g, const uint8_t uuid[TR_UUID])
{
    struct tr_side_of of = {.group = true, .number = g->is.no};

    memcpy(of.uuid, uuid, TR_UUID);
    return of;
}

int tr_group_take_footer(struct tr_group *g, unsigned run, const struct tr_run_of *of,
                         const struct tr_run_trailer *trailer, uint8_t *buf)
{
    int err = tr_run_footer(buf, of, trailer, &g->footers[run]);

    for (uint32_t i = 0; err == TARRY_OK && i < g->footers[run].block_count; i++) {
        uint32_t len = tr_run_footer_block(&g->footers[run], i).len;

        g->longest = len > g->longest ? len : g->longest;
    }
    if (err == TARRY_OK) {
        g->bytes[run] = buf;
    }
    return err;
}
