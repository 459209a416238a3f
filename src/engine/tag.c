/*
 * Ready jobs by tag.
 *
 *     by_state[READY]    a b o a o b a | o a o         jobs with tag a or b, or another, or none
 *                                      ^ rest
 *     tag a              heap of the a's before its rest, by (priority, due, id)
 *
 * A tag that somebody asks for gets a heap, which is filled from the list of ready jobs in slices
 * and kept up from then on; so a topic full of other jobs is walked once, not with each reserve. A
 * job is in one of these heaps at most, that of its own tag. Without memory a job that becomes
 * ready is the new rest, as in topic.c.
 *
 * A topic keeps TR_TAGS_MAX of them; then the one that was asked for longest ago goes, in slices.
 * All go when the topic has no ready job. A topic in which nobody ever asked for a tag has none,
 * and pays one look for each job. In others a job finds its tag by hash, and only while some tag
 * has a rest, which a job that leaves may be, all are looked at.
 */

#include "engine/tag.h"

#include "base/crc.h"
#include "base/err.h"

#include <stddef.h>
#include <string.h>

enum { CHAINS = 64 };

struct tagged {
    struct tr_list link;  /* of topic->tags, last asked for first */
    struct tagged *chain; /* the next one in its chain */
    struct tr_heap heap;
    struct tr_list *rest; /* first ready job that was not looked at; NULL: it is on its way out */
    struct tr_bytes tag;  /* its bytes are behind this */
};

static bool is_of(const struct tagged *g, const struct tr_job *job)
{
    return tr_bytes_same(g->tag, tr_extra_tag(job->extra));
}

static bool has_rest(const struct tr_topic *t, const struct tagged *g)
{
    return g->rest != NULL && g->rest != &t->by_state[TR_READY];
}

static void set_rest(struct tr_topic *t, struct tagged *g, struct tr_list *rest)
{
    t->tags_open -= has_rest(t, g);
    g->rest = rest;
    t->tags_open += has_rest(t, g);
}

static struct tagged **chain_of(const struct tr_topic *t, struct tr_bytes tag)
{
    return &t->tag_chains[tr_crc(0, tag.at, tag.len) % CHAINS];
}

static struct tagged *find(const struct tr_topic *t, struct tr_bytes tag)
{
    struct tagged *g = t->tag_chains != NULL ? *chain_of(t, tag) : NULL;

    while (g != NULL && !tr_bytes_same(g->tag, tag)) {
        g = g->chain;
    }
    return g;
}

static struct tr_heap_item item_of(struct tr_job *job)
{
    return (struct tr_heap_item){
        .first = job->priority, .second = job->due_us, .third = job->id, .what = job};
}

void tr_tags_enter(struct tr_topic *t, struct tr_job *job)
{
    struct tr_bytes tag = t->tag_count != 0 ? tr_extra_tag(job->extra) : (struct tr_bytes){0};
    struct tagged *g = tag.len != 0 ? find(t, tag) : NULL;

    if (g != NULL && g->rest == &t->by_state[TR_READY] &&
        tr_heap_push(&g->heap, item_of(job)) != TARRY_OK) {
        set_rest(t, g, &job->link);
    }
}

void tr_tags_leave(struct tr_topic *t, struct tr_job *job)
{
    for (struct tr_list *n = t->tags.next; t->tags_open != 0 && n != &t->tags; n = n->next) {
        struct tagged *g = TR_CONTAINER_OF(n, struct tagged, link);

        if (g->rest == &job->link) {
            set_rest(t, g, job->link.next);
        }
    }
    if (job->tag_place != 0) {
        struct tagged *own = find(t, tr_extra_tag(job->extra));

        TR_CHECK(own != NULL);
        tr_heap_remove(&own->heap, job);
    }
}

static void end(struct tr_topic *t, struct tagged *g)
{
    struct tagged **at = chain_of(t, g->tag);

    while (*at != g) {
        at = &(*at)->chain;
    }
    *at = g->chain;
    set_rest(t, g, NULL);
    tr_heap_fini(&g->heap);
    tr_list_remove(&g->link);
    t->tag_count--;
    tr_mem_free(t->of->mem, g, sizeof *g + g->tag.len);
}

void tr_tags_drop(struct tr_topic *t)
{
    while (!tr_list_empty(&t->tags)) {
        end(t, TR_CONTAINER_OF(t->tags.next, struct tagged, link));
    }
    tr_mem_free(t->of->mem, t->tag_chains, CHAINS * sizeof *t->tag_chains);
    t->tag_chains = NULL;
}

/* The one that was asked for longest ago goes. */
static int make_place(struct tr_topic *t, unsigned *work)
{
    struct tagged *g = TR_CONTAINER_OF(t->tags.prev, struct tagged, link);

    set_rest(t, g, NULL);
    while (tr_heap_top(&g->heap) != NULL) {
        if (*work == 0) {
            return TARRY_EFULL;
        }
        tr_heap_remove(&g->heap, tr_heap_top(&g->heap)->what);
        --*work;
    }
    end(t, g);
    return TARRY_OK;
}

static int make(struct tr_topic *t, struct tr_bytes tag, unsigned *work, struct tagged **out)
{
    struct tagged *g;
    int err = t->tag_count < TR_TAGS_MAX ? TARRY_OK : make_place(t, work);

    if (err == TARRY_OK && t->tag_chains == NULL) {
        t->tag_chains = tr_mem_alloc(t->of->mem, CHAINS * sizeof *t->tag_chains);
        err = t->tag_chains != NULL ? TARRY_OK : TARRY_ENOMEM;
    }
    if (err != TARRY_OK) {
        return err;
    }
    g = tr_mem_alloc(t->of->mem, sizeof *g + tag.len);
    if (g == NULL) {
        return TARRY_ENOMEM;
    }
    tr_heap_init(&g->heap, t->of->mem, offsetof(struct tr_job, tag_place));
    memcpy(g + 1, tag.at, tag.len);
    g->tag = (struct tr_bytes){(const uint8_t *)(g + 1), tag.len};
    g->chain = *chain_of(t, g->tag);
    *chain_of(t, g->tag) = g;
    set_rest(t, g, t->by_state[TR_READY].next);
    t->tag_count++;
    tr_list_init(&g->link);
    *out = g;
    return TARRY_OK;
}

/* Looks at the rest of the ready ones. */
static int fill(struct tr_topic *t, struct tagged *g, unsigned *work)
{
    struct tr_list *head = &t->by_state[TR_READY];

    while (g->rest != head) {
        struct tr_job *job = TR_CONTAINER_OF(g->rest, struct tr_job, link);

        if (*work == 0) {
            return TARRY_EFULL;
        }
        if (is_of(g, job) && job->tag_place == 0 &&
            tr_heap_push(&g->heap, item_of(job)) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        set_rest(t, g, job->link.next);
        --*work;
    }
    return TARRY_OK;
}

int tr_tags_first(struct tr_topic *t, struct tr_bytes tag, unsigned *work, struct tr_job **job)
{
    const struct tr_heap_item *top;
    struct tagged *g;
    int err;

    *job = NULL;
    if (t->count[TR_READY] == 0) {
        return TARRY_OK;
    }
    g = find(t, tag);
    if (g == NULL) {
        err = make(t, tag, work, &g);
        if (err != TARRY_OK) {
            return err;
        }
    }
    if (g->rest == NULL) { /* it was on its way out */
        set_rest(t, g, t->by_state[TR_READY].next);
    }
    tr_list_remove(&g->link);
    tr_list_append(t->tags.next, &g->link); /* to the front */
    err = fill(t, g, work);
    top = err == TARRY_OK ? tr_heap_top(&g->heap) : NULL;
    *job = top != NULL ? top->what : NULL;
    return err;
}

bool tr_tags_ok(const struct tr_topic *t)
{
    uint64_t count = 0;
    uint64_t open = 0;

    for (struct tr_list *n = t->tags.next; n != &t->tags; n = n->next) {
        const struct tagged *g = TR_CONTAINER_OF(n, struct tagged, link);
        size_t mine = 0;

        count++;
        open += has_rest(t, g);
        for (struct tr_list *k = t->by_state[TR_READY].next;
             g->rest != NULL && k != &t->by_state[TR_READY] && k != g->rest; k = k->next) {
            mine += is_of(g, TR_CONTAINER_OF(k, struct tr_job, link));
        }
        if (!tr_heap_ok(&g->heap) || find(t, g->tag) != g ||
            (g->rest != NULL && mine != g->heap.count)) {
            return false;
        }
    }
    return count == t->tag_count && open == t->tags_open;
}
