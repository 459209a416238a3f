/*
 * See walk.h.
 *
 * A page. Store and dead are in the order of a list; ready is by priority and prep by the end of
 * leases, so of those all entries are looked at, and each call gives the first of what it saw. A
 * page keeps the first `limit` of all that it is given, in order.
 */

#include "cluster/walk.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "rules/bucket.h"

#include <string.h>

enum { LISTED = 2, PER_JOB = 2, NODE_BYTES = 4 };

#define NEVER_US UINT64_C(9007199254740991) /* as scripts read it */

struct tr_walk tr_walk_at(char set)
{
    return (struct tr_walk){.set = set};
}

static void add_place(struct tr_eval *c, const struct tr_walk *w)
{
    tr_eval_add(c, w->score, w->score_len);
    tr_eval_add(c, w->member, w->member_len);
}

static bool get_place(struct tr_walk *w, struct tr_span score, struct tr_span member)
{
    if (score.len > sizeof w->score || member.len > sizeof w->member ||
        (score.len == 0) != (member.len == 0)) {
        return false;
    }
    memcpy(w->score, score.at, score.len);
    memcpy(w->member, member.at, member.len);
    w->score_len = score.len;
    w->member_len = member.len;
    return true;
}

static bool get_number(struct tr_span item, uint64_t *v)
{
    return item.len == TR_HEX_ID && tr_hex_get(item.at, TR_HEX_ID, v);
}

static void add_id(struct tr_eval *c, uint64_t id)
{
    char text[TR_HEX_ID];

    tr_hex_put(text, TR_HEX_ID, id);
    tr_eval_add(c, text, id != 0 ? TR_HEX_ID : 0);
}

/* ---- purge, jobs of a dead node ---- */

void tr_eval_purge(struct tr_eval *c, const struct tr_walk *w, uint64_t last_id, unsigned look)
{
    tr_eval_add_number(c, look);
    add_id(c, last_id);
    tr_eval_add(c, &w->set, 1);
    add_place(c, w);
}

int tr_answer_purged(const struct tr_answer *a, struct tr_walk *w, uint64_t *last_id,
                     uint64_t *count)
{
    const struct tr_span *item = a->items;

    if (a->count != 5 || !get_number(item[0], last_id) || item[1].len > 1 ||
        (item[1].len == 1 && memchr("srpd", item[1].at[0], 4) == NULL) ||
        !get_place(w, item[2], item[3]) || !get_number(item[4], count)) {
        return TARRY_EDAMAGED;
    }
    w->set = '\0';
    if (item[1].len == 1) {
        w->set = item[1].at[0];
    }
    return TARRY_OK;
}

void tr_eval_orphans(struct tr_eval *c, const struct tr_walk *w, const char *node, unsigned look)
{
    char name[NODE_BYTES] = {0};
    uint64_t v = 0;

    TR_CHECK(tr_hex_get(node, 2 * NODE_BYTES, &v));
    for (unsigned i = 0; i < NODE_BYTES; i++) {
        name[i] = (char)(unsigned char)(v >> 8 * (NODE_BYTES - 1 - i) & 255);
    }
    tr_eval_add_number(c, look);
    tr_eval_add(c, name, NODE_BYTES);
    add_place(c, w);
}

int tr_answer_orphans(const struct tr_answer *a, struct tr_walk *w, uint64_t *count)
{
    const struct tr_span *item = a->items;

    if (a->count != 3 || !get_place(w, item[0], item[1]) || !get_number(item[2], count)) {
        return TARRY_EDAMAGED;
    }
    w->set = w->score_len > 0 ? 'p' : '\0';
    return TARRY_OK;
}

/* ---- list ---- */

unsigned tr_walk_states(const struct tr_filter *f)
{
    unsigned all = 1U << TR_DELAYED | 1U << TR_READY | 1U << TR_RESERVED | 1U << TR_DEAD;

    return f->states != 0 ? f->states & all : all;
}

void tr_eval_list(struct tr_eval *c, const struct tr_walk *w, const struct tr_eval_list *l)
{
    bool behind = l->after.id != 0 && l->after.dead == (w->set == 'd');

    tr_eval_add(c, &w->set, 1);
    add_place(c, w);
    tr_eval_add_number(c, l->look);
    tr_eval_add_number(c, l->most);
    tr_eval_add_number(c, tr_walk_states(l->filter));
    tr_eval_add_number(c, l->filter->due_from_us);
    tr_eval_add_number(c, l->filter->due_to_us);
    tr_eval_add_number(c, behind ? l->after.at : 0);
    add_id(c, behind ? l->after.id : 0);
    tr_eval_add(c, l->filter->tag_len > 0 ? l->filter->tag : "", l->filter->tag_len);
}

int tr_answer_listed(const struct tr_answer *a, struct tr_walk *w, size_t *count)
{
    if (a->count < LISTED || (a->count - LISTED) % PER_JOB != 0 ||
        !get_place(w, a->items[0], a->items[1])) {
        return TARRY_EDAMAGED;
    }
    if (w->score_len == 0) {
        w->set = '\0';
    }
    *count = (a->count - LISTED) / PER_JOB;
    return TARRY_OK;
}

int tr_answer_listed_job(const struct tr_answer *a, size_t i, struct tr_listed_job *job)
{
    const struct tr_span *item = a->items + LISTED + i * PER_JOB;

    TR_CHECK(LISTED + (i + 1) * PER_JOB <= a->count);
    job->bytes = item[1];
    if (!get_number(item[0], &job->id)) {
        return TARRY_EDAMAGED;
    }
    return tr_header_read(item[1].at, item[1].len, &job->header);
}

/* ---- forecast, settings ---- */

void tr_eval_forecast(struct tr_eval *c, uint64_t from_us, uint64_t step_us, unsigned steps)
{
    tr_eval_add_number(c, from_us);
    tr_eval_add_number(c, step_us);
    tr_eval_add_number(c, steps);
}

int tr_answer_forecast(const struct tr_answer *a, uint64_t *counts, unsigned steps)
{
    if (a->count != 1 || a->items[0].len != steps * (size_t)TR_HEX_ID) {
        return TARRY_EDAMAGED;
    }
    for (unsigned i = 0; i < steps; i++) {
        uint64_t v;

        if (!tr_hex_get(a->items[0].at + i * (size_t)TR_HEX_ID, TR_HEX_ID, &v)) {
            return TARRY_EDAMAGED;
        }
        counts[i] += v;
    }
    return TARRY_OK;
}

/* A name and a number; given false: it has none, the script's default holds. */
static void add_setting(struct tr_eval *c, const char *name, bool given, uint64_t v)
{
    tr_eval_add(c, name, strlen(name));
    if (given) {
        tr_eval_add_number(c, v);
    } else {
        tr_eval_add(c, "", 0);
    }
}

static void add_limit(struct tr_eval *c, const char *name, uint64_t limit, uint32_t spread)
{
    add_setting(c, name, limit != UINT64_MAX, tr_place_share(limit, spread));
}

static void add_retries(struct tr_eval *c, const struct tr_policy *p)
{
    tr_eval_add(c, "retries", 7);
    if ((p->given & TR_POLICY_BIT(RETRIES)) == 0) {
        tr_eval_add(c, "", 0);
    } else if (p->retries < 0) {
        tr_eval_add(c, "-1", 2);
    } else {
        tr_eval_add_number(c, (uint64_t)p->retries);
    }
}

void tr_eval_conf(struct tr_eval *c, uint32_t version, const struct tr_policy *p, uint32_t spread)
{
    uint64_t until_us = p->paused_until_us != 0 ? p->paused_until_us : NEVER_US;
    uint64_t burst = p->burst != 0 ? p->burst : tr_bucket_burst_of(p->rate_milli);
    char backoff[TR_HEADER_BACKOFF];
    bool own = (p->given & TR_POLICY_BIT(BACKOFF)) != 0;

    burst = burst / spread > 0 ? burst / spread : 1;
    tr_eval_add_number(c, version);
    add_setting(c, "ttr", (p->given & TR_POLICY_BIT(TTR)) != 0, p->ttr_us);
    add_retries(c, p);
    tr_eval_add(c, "backoff", 7);
    tr_eval_add(c, backoff, tr_header_put_backoff(backoff, own ? &p->backoff : NULL));
    add_setting(c, "ttl", p->ttl_us != 0, p->ttl_us);
    add_setting(c, "rate", p->rate_milli != 0, tr_place_share(p->rate_milli, spread));
    add_setting(c, "burst", p->rate_milli != 0, burst);
    add_limit(c, "max_jobs", p->max_jobs, spread);
    add_limit(c, "max_bytes", p->max_bytes, spread);
    add_limit(c, "in_flight", p->in_flight, spread);
    add_limit(c, "dead_max", p->dead_max, spread);
    add_setting(c, "dead_keep", true, p->dead_keep_us < NEVER_US ? p->dead_keep_us : NEVER_US);
    add_setting(c, "out", (p->paused & TR_PAUSED_OUT) != 0, until_us);
    add_setting(c, "in", (p->paused & TR_PAUSED_IN) != 0, until_us);
}

/* ---- a page ---- */

int tr_page_init(struct tr_page *p, struct tr_mem *mem, unsigned limit)
{
    *p = (struct tr_page){.mem = mem, .limit = limit};
    p->jobs = tr_mem_alloc(mem, limit * sizeof *p->jobs);
    return p->jobs != NULL ? TARRY_OK : TARRY_ENOMEM;
}

void tr_page_fini(struct tr_page *p)
{
    for (unsigned i = 0; i < p->count; i++) {
        tr_mem_free(p->mem, p->jobs[i].bytes, p->jobs[i].len);
    }
    tr_mem_free(p->mem, p->jobs, p->limit * sizeof *p->jobs);
    *p = (struct tr_page){.mem = p->mem};
}

static bool comes_before(const struct tr_cursor *a, const struct tr_cursor *b)
{
    if (a->dead != b->dead) {
        return b->dead;
    }
    return a->at != b->at ? a->at < b->at : a->id < b->id;
}

int tr_page_add(struct tr_page *p, const struct tr_listed_job *job)
{
    bool dead = job->header.set == 'd';
    struct tr_paged new = {
        .key = {.dead = dead, .at = dead ? job->header.at_us : job->header.due_us, .id = job->id},
        .len = job->bytes.len};
    unsigned at = p->count;

    while (at > 0 && comes_before(&new.key, &p->jobs[at - 1].key)) {
        at--;
    }
    if (at > 0 && p->jobs[at - 1].key.id == job->id) {
        return TARRY_OK; /* it went from one set to another while the page was made */
    }
    if (at == p->limit) {
        p->more = true;
        return TARRY_OK;
    }
    new.bytes = tr_mem_alloc(p->mem, new.len);
    if (new.bytes == NULL) {
        return TARRY_ENOMEM;
    }
    memcpy(new.bytes, job->bytes.at, new.len);
    if (p->count == p->limit) {
        p->more = true;
        p->count--;
        tr_mem_free(p->mem, p->jobs[p->count].bytes, p->jobs[p->count].len);
    }
    memmove(&p->jobs[at + 1], &p->jobs[at], (p->count - at) * sizeof new);
    p->jobs[at] = new;
    p->count++;
    return TARRY_OK;
}
