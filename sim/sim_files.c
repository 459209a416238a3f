/*
 * Files with two contents.
 *
 *     file -> pages[] -> | cur: what READ gives    | per sector (512 bytes) one bit of
 *                        | dur: what is on platter | dirty, stale, guard, bad
 *
 * A write changes cur and makes its sectors dirty. A sync copies dirty sectors to dur. A power cut
 * rolls dice for each dirty sector (old, new, torn, noise) and makes cur = dur. A sync that fails
 * does what Linux does: some sectors reach the platter, all count as clean, the cache goes on
 * showing the new content (stale), and the next sync has nothing to do and succeeds.
 *
 * Size and allocation are metadata with a cached and a durable value; the sync of the file makes
 * them durable. The directory is a cached list, a durable list and the operations between them;
 * only DIRSYNC moves those. A file lives while any of the three or an open handle knows it.
 *
 * Invariant: cur and dur differ only in dirty or stale sectors, and pages with such sectors are in
 * the file's list `differ`; beyond size both are zero.
 *
 * It follows: sync and power cut walk that list and never a whole file; a page that was never
 * written costs nothing, so big allocations are cheap.
 *
 * Around the page cache (direct) means on Linux: dirty pages are written to the device first, but
 * its cache is not flushed. So a direct read gives cur where dirty, which a power cut may still
 * take back, and dur where stale.
 *
 * Space: a file takes its size or its allocation, whichever is more, in whole pages, holes too,
 * until it has neither name nor handle.
 */
#include "sim_files.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB_PAGES = 64 };

struct sim_slab {
    struct sim_slab *next;
    struct sim_page pages[SLAB_PAGES];
};

static bool dice(struct tr_rng *rng, unsigned percent)
{
    return tr_rng_below(rng, 100) < percent;
}

static uint64_t page_up(uint64_t n)
{
    return (n + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint8_t sim_files_mask(uint64_t from, uint64_t to)
{
    unsigned first = (unsigned)(from % SIM_PAGE / SIM_SECTOR);
    unsigned last = (unsigned)((to - 1) % SIM_PAGE / SIM_SECTOR);

    return (uint8_t)((0xffu << first) & (0xffu >> (SIM_SECTORS - 1 - last)));
}

/* ---- pages ---- */

static struct sim_page *take_page(struct sim_files *s)
{
    struct sim_page *p;

    if (s->pool == NULL) {
        struct sim_slab *slab = malloc(sizeof *slab);

        TR_CHECK(slab != NULL);
        slab->next = s->slabs;
        s->slabs = slab;
        for (size_t i = 0; i < SLAB_PAGES; i++) {
            slab->pages[i].next = s->pool;
            s->pool = &slab->pages[i];
        }
    }
    p = s->pool;
    s->pool = p->next;
    memset(p, 0, sizeof *p);
    return p;
}

static struct sim_page *find_page(const struct sim_file *f, uint64_t off)
{
    uint64_t n = off / SIM_PAGE;

    return n < f->page_count ? f->pages[n] : NULL;
}

struct sim_page *sim_files_page(struct sim_files *s, struct sim_file *f, uint64_t off)
{
    size_t n = (size_t)(off / SIM_PAGE);

    if (n >= f->page_room) {
        size_t room = n + n / 2 + 16;

        f->pages = realloc(f->pages, room * sizeof *f->pages);
        TR_CHECK(f->pages != NULL);
        f->page_room = room;
    }
    while (f->page_count <= n) {
        f->pages[f->page_count++] = NULL;
    }
    if (f->pages[n] == NULL) {
        f->pages[n] = take_page(s);
    }
    return f->pages[n];
}

static void list_page(struct sim_file *f, struct sim_page *p)
{
    if (!p->listed) {
        p->listed = true;
        p->next = f->differ;
        f->differ = p;
    }
}

/* Takes the whole list; the caller puts back what belongs there. */
static struct sim_page *take_differing(struct sim_file *f)
{
    struct sim_page *list = f->differ;

    f->differ = NULL;
    return list;
}

/* ---- files ---- */

static struct sim_file *take_file(struct sim_files *s)
{
    struct sim_file *f;

    for (size_t i = 0; i < s->file_count; i++) {
        if (!s->files[i]->taken) {
            return s->files[i];
        }
    }
    if (s->file_count == s->file_room) {
        s->file_room = s->file_room * 2 + 32;
        s->files = realloc(s->files, s->file_room * sizeof *s->files);
        TR_CHECK(s->files != NULL);
    }
    f = calloc(1, sizeof *f);
    TR_CHECK(f != NULL);
    s->files[s->file_count++] = f;
    return f;
}

static void recharge(struct sim_files *s, struct sim_file *f)
{
    bool there = f->taken && (f->linked || f->opens != 0);
    uint64_t now = there ? page_up(most(f->size, f->alloc)) : 0;

    s->used_bytes += now - f->charged;
    f->charged = now;
}

static void release_file(struct sim_files *s, struct sim_file *f)
{
    struct sim_page **pages = f->pages;
    size_t room = f->page_room;

    for (size_t i = 0; i < f->page_count; i++) {
        if (pages[i] != NULL) {
            pages[i]->next = s->pool;
            s->pool = pages[i];
        }
    }
    f->taken = false;
    recharge(s, f);
    memset(f, 0, sizeof *f);
    f->pages = pages;
    f->page_room = room;
}

/* Gives back the files that nothing knows any more. */
static void sweep(struct sim_files *s)
{
    const struct sim_dir *dirs[] = {&s->cached, &s->durable, &s->pending};

    for (size_t i = 0; i < s->file_count; i++) {
        s->files[i]->marked = s->files[i]->opens != 0;
    }
    for (size_t d = 0; d < sizeof dirs / sizeof dirs[0]; d++) {
        for (size_t i = 0; i < dirs[d]->count; i++) {
            if (dirs[d]->entries[i].file != NULL) {
                dirs[d]->entries[i].file->marked = true;
            }
        }
    }
    for (size_t i = 0; i < s->file_count; i++) {
        if (s->files[i]->taken && !s->files[i]->marked) {
            release_file(s, s->files[i]);
        }
    }
}

uint64_t sim_files_need(const struct sim_file *f, uint64_t end)
{
    uint64_t have = page_up(most(f->size, f->alloc));

    return page_up(end) > have ? page_up(end) - have : 0;
}

size_t sim_files_read(const struct sim_file *f, uint64_t off, void *buf, size_t len, bool direct)
{
    size_t n = off >= f->size ? 0 : (size_t)least(len, f->size - off);
    uint8_t *to = buf;

    for (size_t done = 0; done < n;) {
        size_t at = (size_t)((off + done) % SIM_PAGE);
        size_t part = (size_t)least(n - done, SIM_PAGE - at);
        const struct sim_page *p = find_page(f, off + done);

        if (p != NULL && direct && p->stale != 0) { /* sector by sector */
            part = (size_t)least(part, SIM_SECTOR - at % SIM_SECTOR);
            memcpy(to + done, (p->stale >> (at / SIM_SECTOR) & 1 ? p->dur : p->cur) + at, part);
        } else if (p != NULL) {
            memcpy(to + done, p->cur + at, part);
        } else {
            memset(to + done, 0, part);
        }
        done += part;
    }
    return n;
}

bool sim_files_bad(const struct sim_file *f, uint64_t off, uint64_t len)
{
    uint64_t end = least(off + len, f->size);

    for (uint64_t o = off; o < end; o = (o / SIM_PAGE + 1) * SIM_PAGE) {
        const struct sim_page *p = find_page(f, o);
        uint64_t to = least(end, (o / SIM_PAGE + 1) * SIM_PAGE);

        if (p != NULL && (p->bad & sim_files_mask(o, to)) != 0) {
            return true;
        }
    }
    return false;
}

bool sim_files_guarded(const struct sim_file *f, uint64_t off, uint64_t len)
{
    for (uint64_t o = off; f->guards != 0 && o < off + len; o = (o / SIM_PAGE + 1) * SIM_PAGE) {
        const struct sim_page *p = find_page(f, o);
        uint64_t to = least(off + len, (o / SIM_PAGE + 1) * SIM_PAGE);

        if (p != NULL && (p->guard & sim_files_mask(o, to)) != 0) {
            return true;
        }
    }
    return false;
}

static void grow(struct sim_files *s, struct sim_file *f, uint64_t size)
{
    if (size > f->size) {
        f->size = size;
        recharge(s, f);
    }
}

void sim_files_write(struct sim_files *s, struct sim_file *f, uint64_t off, const void *from,
                     size_t len)
{
    for (size_t done = 0; done < len;) {
        uint64_t o = off + done;
        size_t part = (size_t)least(len - done, SIM_PAGE - o % SIM_PAGE);
        struct sim_page *p = find_page(f, o);

        if (p == NULL && from == NULL) { /* zeros over a hole change nothing */
            done += part;
            continue;
        }
        if (p == NULL) {
            p = sim_files_page(s, f, o);
        }
        if (from != NULL) {
            memcpy(p->cur + o % SIM_PAGE, (const uint8_t *)from + done, part);
        } else {
            memset(p->cur + o % SIM_PAGE, 0, part);
        }
        p->dirty |= sim_files_mask(o, o + part);
        p->stale &= (uint8_t)~p->dirty;
        p->bad &= (uint8_t)~p->dirty;
        list_page(f, p);
        done += part;
    }
    if (len != 0) {
        grow(s, f, off + len);
    }
}

void sim_files_lose(struct sim_file *f, uint64_t off, uint64_t len)
{
    for (uint64_t o = off; o < off + len; o = (o / SIM_PAGE + 1) * SIM_PAGE) {
        struct sim_page *p = find_page(f, o);
        uint64_t to = least(off + len, (o / SIM_PAGE + 1) * SIM_PAGE);

        if (p != NULL) {
            p->stale |= p->dirty & sim_files_mask(o, to);
            p->dirty &= (uint8_t)~p->stale;
        }
    }
}

void sim_files_poke(struct sim_files *s, struct sim_file *f, uint64_t off, const void *from,
                    size_t len)
{
    TR_CHECK(off + len <= f->size);
    for (size_t done = 0; done < len;) {
        uint64_t o = off + done;
        size_t part = (size_t)least(len - done, SIM_PAGE - o % SIM_PAGE);
        struct sim_page *p = sim_files_page(s, f, o);

        memcpy(p->cur + o % SIM_PAGE, (const uint8_t *)from + done, part);
        memcpy(p->dur + o % SIM_PAGE, (const uint8_t *)from + done, part);
        done += part;
    }
}

void sim_files_allocate(struct sim_files *s, struct sim_file *f, uint64_t len)
{
    f->alloc = most(f->alloc, len);
    f->size = most(f->size, len);
    recharge(s, f);
}

/* ---- syncs ---- */

static void copy_sectors(uint8_t *to, const uint8_t *from, uint8_t mask)
{
    if (mask == 0xff) {
        memcpy(to, from, SIM_PAGE);
        return;
    }
    for (size_t i = 0; i < SIM_SECTORS; i++) {
        if (mask >> i & 1) {
            memcpy(to + i * SIM_SECTOR, from + i * SIM_SECTOR, SIM_SECTOR);
        }
    }
}

void sim_files_write_back(struct sim_file *f, uint64_t off, uint64_t len, struct tr_rng *rng,
                          uint32_t percent)
{
    for (uint64_t o = off; o < off + len; o = (o / SIM_SECTOR + 1) * SIM_SECTOR) {
        struct sim_page *p = find_page(f, o);
        uint8_t mask = sim_files_mask(o, o + 1);

        if (p != NULL && (p->dirty & mask) != 0 && dice(rng, percent)) {
            copy_sectors(p->dur, p->cur, mask);
        }
    }
}

void sim_files_sync(struct sim_file *f)
{
    struct sim_page *p = take_differing(f);

    while (p != NULL) {
        struct sim_page *next = p->next;

        copy_sectors(p->dur, p->cur, p->dirty);
        p->dirty = 0;
        p->listed = false;
        if (p->stale != 0) {
            list_page(f, p);
        }
        p = next;
    }
    f->size_dur = f->size;
    f->alloc_dur = f->alloc;
}

void sim_files_sync_broken(struct sim_file *f, struct tr_rng *rng)
{
    unsigned part = (unsigned)tr_rng_below(rng, 101);

    for (struct sim_page *p = f->differ; p != NULL; p = p->next) {
        uint8_t reached = 0;

        for (unsigned i = 0; i < SIM_SECTORS; i++) {
            if ((p->dirty >> i & 1) && dice(rng, part)) {
                reached |= (uint8_t)(1u << i);
            }
        }
        copy_sectors(p->dur, p->cur, reached);
        p->stale |= p->dirty & (uint8_t)~reached;
        p->dirty = 0;
    }
    if (dice(rng, 50)) {
        f->size_dur = f->size;
        f->alloc_dur = f->alloc;
    }
}

/* ---- directory ---- */

static struct sim_entry *find_entry(const struct sim_dir *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->entries[i].name, name) == 0) {
            return &d->entries[i];
        }
    }
    return NULL;
}

static void add_entry(struct sim_dir *d, const char *name, struct sim_file *f)
{
    struct sim_entry *e;

    if (d->count == d->room) {
        d->room = d->room * 2 + 32;
        d->entries = realloc(d->entries, d->room * sizeof *d->entries);
        TR_CHECK(d->entries != NULL);
    }
    e = &d->entries[d->count++];
    memset(e, 0, sizeof *e);
    memcpy(e->name, name, strlen(name));
    e->file = f;
}

static void remove_entry(struct sim_dir *d, struct sim_entry *e)
{
    *e = d->entries[--d->count];
}

/* One pending operation reaches the platter. */
static void apply(struct sim_files *s, const struct sim_entry *op)
{
    struct sim_entry *e = find_entry(&s->durable, op->name);

    if (op->file == NULL) {
        if (e != NULL) {
            remove_entry(&s->durable, e);
        }
    } else if (e != NULL) {
        e->file = op->file;
    } else {
        add_entry(&s->durable, op->name, op->file);
    }
    s->counts.dirops_kept++;
}

struct sim_file *sim_files_find(const struct sim_files *s, const char *name)
{
    const struct sim_entry *e = find_entry(&s->cached, name);

    return e != NULL ? e->file : NULL;
}

struct sim_file *sim_files_create(struct sim_files *s, const char *name)
{
    struct sim_file *f = take_file(s);

    TR_CHECK(strlen(name) < TR_IO_NAME_MAX);
    memcpy(f->name, name, strlen(name) + 1);
    f->taken = true;
    f->linked = true;
    add_entry(&s->cached, name, f);
    add_entry(&s->pending, name, f);
    return f;
}

bool sim_files_is_aside(const char *name)
{
    return strncmp(name, SIM_ASIDE, strlen(SIM_ASIDE)) == 0;
}

void sim_files_link(struct sim_files *s, struct sim_file *f, const char *name)
{
    TR_CHECK(strlen(name) < TR_IO_NAME_MAX);
    add_entry(&s->cached, name, f);
    add_entry(&s->pending, name, f);
}

void sim_files_unlink(struct sim_files *s, const char *name)
{
    struct sim_entry *e = find_entry(&s->cached, name);
    struct sim_file *f = e != NULL ? e->file : NULL;

    if (e == NULL) {
        return;
    }
    remove_entry(&s->cached, e);
    f->linked = false;
    for (size_t i = 0; i < s->cached.count; i++) {
        f->linked = f->linked || s->cached.entries[i].file == f;
    }
    recharge(s, f);
    add_entry(&s->pending, name, NULL);
}

void sim_files_open(struct sim_files *s, struct sim_file *f)
{
    f->opens++;
    recharge(s, f);
}

void sim_files_close(struct sim_files *s, struct sim_file *f)
{
    TR_CHECK(f->opens > 0);
    f->opens--;
    recharge(s, f);
}

/* The first `most` pending operations of one folder reach the disk, in order. */
static void apply_some(struct sim_files *s, bool aside, size_t most_of_them)
{
    size_t left = 0;

    for (size_t i = 0; i < s->pending.count; i++) {
        struct sim_entry *op = &s->pending.entries[i];

        if (sim_files_is_aside(op->name) == aside && most_of_them > 0) {
            apply(s, op);
            most_of_them--;
        } else {
            s->pending.entries[left++] = *op;
        }
    }
    s->pending.count = left;
    sweep(s);
}

void sim_files_dirsync(struct sim_files *s, bool aside)
{
    apply_some(s, aside, SIZE_MAX);
}

/*
 * Some operations reach the disk, in order; the rest stay pending, and a later sync may still bring
 * them. Directories have no clean pages that never arrived: a journal that cannot be written stops
 * the file system, so a name that is seen after a restart can be made durable.
 */
void sim_files_dirsync_broken(struct sim_files *s, struct tr_rng *rng, bool aside)
{
    apply_some(s, aside, (size_t)tr_rng_below(rng, s->pending.count + 1));
}

/* ---- crashes ---- */

static void cut_directory(struct sim_files *s, struct tr_rng *rng)
{
    bool in_order = dice(rng, 70);
    size_t prefix = (size_t)tr_rng_below(rng, s->pending.count + 1);

    for (size_t i = 0; i < s->pending.count; i++) {
        if (in_order ? i < prefix : dice(rng, 50)) {
            apply(s, &s->pending.entries[i]);
        } else {
            s->counts.dirops_lost++;
        }
    }
    s->pending.count = 0;
    for (size_t i = 0; i < s->cached.count; i++) {
        s->cached.entries[i].file->linked = false;
    }
    s->cached.count = 0;
    for (size_t i = 0; i < s->durable.count; i++) {
        struct sim_entry *e = &s->durable.entries[i];

        add_entry(&s->cached, e->name, e->file);
        e->file->linked = true;
    }
}

struct cut {
    struct tr_rng *rng;
    unsigned keep; /* percent of the dirty sectors that reached the platter */
    bool tears;
};

static void cut_sector(struct sim_files *s, const struct cut *c, struct sim_page *p, size_t at)
{
    uint8_t *dur = p->dur + at;

    if (c->tears && dice(c->rng, 6)) {
        memcpy(dur, p->cur + at, 1 + tr_rng_below(c->rng, SIM_SECTOR - 1));
        s->counts.sectors_torn++;
    } else if (c->tears && dice(c->rng, 6)) {
        for (size_t i = 0; i < SIM_SECTOR; i += 8) {
            uint64_t noise = tr_rng_next(c->rng);

            memcpy(dur + i, &noise, 8);
        }
        s->counts.sectors_noise++;
    } else if (dice(c->rng, c->keep)) {
        memcpy(dur, p->cur + at, SIM_SECTOR);
        s->counts.sectors_new++;
    } else {
        s->counts.sectors_old++;
    }
}

static void cut_pages(struct sim_files *s, const struct cut *c, struct sim_file *f)
{
    struct sim_page *p = take_differing(f);

    while (p != NULL) {
        struct sim_page *next = p->next;

        for (unsigned i = 0; i < SIM_SECTORS; i++) {
            if (p->dirty >> i & 1) {
                cut_sector(s, c, p, i * (size_t)SIM_SECTOR);
            } else if (p->stale >> i & 1) {
                s->counts.sectors_stale++;
            }
        }
        copy_sectors(p->cur, p->dur, p->dirty | p->stale);
        p->dirty = 0;
        p->stale = 0;
        p->listed = false;
        p = next;
    }
}

static void zero_tail(struct sim_file *f, uint64_t from, uint64_t to)
{
    for (uint64_t o = from; o < to; o = (o / SIM_PAGE + 1) * SIM_PAGE) {
        struct sim_page *p = find_page(f, o);

        if (p != NULL) {
            memset(p->cur + o % SIM_PAGE, 0, SIM_PAGE - o % SIM_PAGE);
            memset(p->dur + o % SIM_PAGE, 0, SIM_PAGE - o % SIM_PAGE);
        }
    }
}

/* Growth since the last sync: none, all, or (as a file system writes back piece by piece) some. */
static void cut_size(struct sim_files *s, const struct cut *c, struct sim_file *f)
{
    uint64_t old = f->size;
    bool alloc_kept = dice(c->rng, 50);

    if (f->size > f->size_dur) {
        switch (tr_rng_below(c->rng, 3)) {
        case 0:
            f->size = f->size_dur;
            break;
        case 1:
            f->size = f->size_dur + tr_rng_below(c->rng, f->size - f->size_dur);
            break;
        default:
            break;
        }
    }
    if (f->size < old) {
        s->counts.growth_lost++;
        alloc_kept = false;
    }
    /* Also when it kept its size: the last sector may have got noise behind the end. */
    zero_tail(f, f->size, most(old, page_up(f->size)));
    if (!alloc_kept) {
        f->alloc = f->alloc_dur;
    }
    f->size_dur = f->size;
    f->alloc_dur = f->alloc;
}

static void close_all(struct sim_files *s)
{
    for (size_t i = 0; i < s->file_count; i++) {
        s->files[i]->opens = 0;
        s->files[i]->locked = false;
    }
    sweep(s);
    for (size_t i = 0; i < s->file_count; i++) {
        recharge(s, s->files[i]);
    }
}

void sim_files_power_cut(struct sim_files *s, struct tr_rng *rng)
{
    static const unsigned keeps[] = {20, 55, 90};
    struct cut c = {.rng = rng, .keep = keeps[tr_rng_below(rng, 3)], .tears = dice(rng, 50)};
    size_t before = s->cached.count;

    cut_directory(s, rng);
    for (size_t i = 0; i < s->file_count; i++) {
        if (s->files[i]->taken) {
            cut_pages(s, &c, s->files[i]);
            cut_size(s, &c, s->files[i]);
        }
    }
    if (s->cached.count < before) {
        s->counts.files_vanished += before - s->cached.count;
    }
    close_all(s);
    s->counts.power_cuts++;
}

void sim_files_kill(struct sim_files *s)
{
    close_all(s);
    s->counts.kills++;
}

/* ---- guards and damage ---- */

void sim_files_guard(struct sim_files *s, struct sim_file *f, uint64_t off, uint64_t len)
{
    for (uint64_t o = off; o < off + len; o = (o / SIM_SECTOR + 1) * SIM_SECTOR) {
        struct sim_page *p = sim_files_page(s, f, o);
        uint8_t mask = sim_files_mask(o, o + 1);

        f->guards += (p->guard & mask) == 0;
        p->guard |= mask;
    }
}

void sim_files_unguard(struct sim_file *f, uint64_t off, uint64_t len)
{
    for (uint64_t o = off; o < off + len; o = (o / SIM_SECTOR + 1) * SIM_SECTOR) {
        struct sim_page *p = find_page(f, o);
        uint8_t mask = sim_files_mask(o, o + 1);

        if (p != NULL) {
            f->guards -= (p->guard & mask) != 0;
            p->guard &= (uint8_t)~mask;
        }
    }
}

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static struct sim_file *pick(struct sim_files *s, struct tr_rng *rng, const char *const prefix[2])
{
    struct sim_file *found = NULL;
    uint64_t seen = 0;

    for (size_t i = 0; i < s->cached.count; i++) {
        struct sim_file *f = s->cached.entries[i].file;

        if (f->size != 0 && (begins(f->name, prefix[0]) || begins(f->name, prefix[1])) &&
            tr_rng_below(rng, ++seen) == 0) {
            found = f;
        }
    }
    return found;
}

struct sim_file *sim_files_pick(struct sim_files *s, struct tr_rng *rng, const char *prefix)
{
    struct sim_file *f = NULL;

    if (prefix == NULL && dice(rng, 40)) {
        f = pick(s, rng, (const char *const[2]){"man", "ckpt"});
    }
    if (f == NULL) {
        prefix = prefix != NULL ? prefix : "";
        f = pick(s, rng, (const char *const[2]){prefix, prefix});
    }
    return f;
}

static uint64_t pick_byte(const struct sim_file *f, struct tr_rng *rng)
{
    uint64_t blocks = (f->size + SIM_PAGE - 1) / SIM_PAGE;
    uint64_t block = dice(rng, 35) ? 0 : tr_rng_below(rng, blocks);
    uint64_t off;

    /* Bytes that were never written are zeros that nobody reads: look for others. */
    for (int i = 0; i < 20 && find_page(f, block * SIM_PAGE) == NULL; i++) {
        block = tr_rng_below(rng, blocks);
    }
    off = block * SIM_PAGE + tr_rng_below(rng, dice(rng, 60) ? 96 : SIM_PAGE);
    return least(off, f->size - 1);
}

uint64_t sim_files_rot(struct sim_files *s, struct sim_file *f, struct tr_rng *rng,
                       enum sim_rot kind)
{
    uint64_t off = pick_byte(f, rng);
    struct sim_page *p = sim_files_page(s, f, off);
    uint8_t bit = (uint8_t)(1u << tr_rng_below(rng, 8));

    if (kind == SIM_ROT_BIT) {
        p->cur[off % SIM_PAGE] ^= bit;
        p->dur[off % SIM_PAGE] ^= bit;
        return off;
    }
    off = off / SIM_SECTOR * SIM_SECTOR;
    if (kind == SIM_ROT_BAD) {
        p->bad |= sim_files_mask(off, off + 1);
        return off;
    }
    for (uint64_t o = off; o < least(off + SIM_SECTOR, f->size); o++) {
        p->dur[o % SIM_PAGE] = (uint8_t)tr_rng_next(rng);
        p->cur[o % SIM_PAGE] = p->dur[o % SIM_PAGE];
    }
    return off;
}

/* ---- life ---- */

void sim_files_init(struct sim_files *s)
{
    memset(s, 0, sizeof *s);
}

void sim_files_reset(struct sim_files *s)
{
    s->cached.count = 0;
    s->durable.count = 0;
    s->pending.count = 0;
    for (size_t i = 0; i < s->file_count; i++) {
        if (s->files[i]->taken) {
            release_file(s, s->files[i]);
        }
    }
    TR_CHECK(s->used_bytes == 0);
}

void sim_files_fini(struct sim_files *s)
{
    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i]->pages);
        free(s->files[i]);
    }
    while (s->slabs != NULL) {
        struct sim_slab *next = s->slabs->next;

        free(s->slabs);
        s->slabs = next;
    }
    free(s->files);
    free(s->cached.entries);
    free(s->durable.entries);
    free(s->pending.entries);
    memset(s, 0, sizeof *s);
}
