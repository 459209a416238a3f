/*
 * Connections to the database, and whether it is there at all.
 *
 *     ask ──► its connection ──► done: that one works, and so does the database
 *       │                    └──► failed: only probes go by it, until one is done
 *       └──► another one that works, if its own fails
 *
 * One that fails says little: its server may be one of several behind a proxy, or let in fewer than
 * sql.connections. If another one has answered since that ask was sent, the rest goes on by that.
 * Else it is not known whether any works: for 300 ms who wants something hears that the database is
 * away, and all others are tried at once; the first that answers ends that.
 *
 * *It follows.* A connection that can never be made costs the asks by which that is found out, and
 * no others. A server that is gone is found out by the first one that waits for its time to be
 * over, not by each in turn.
 *
 * A server that is read-only, or full, is all connections' fault: it can be read, and only a write
 * that was done says that it is over.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/desk.h"

#define DOWN_US UINT64_C(300000)
#define AGAIN_US UINT64_C(1000000) /* one fails, and others work */
#define PROBE_US UINT64_C(10000000)
#define FULL_US UINT64_C(10000000) /* so long it is believed to be */

static tr_desk_done_fn probed;

void tr_lines_init(struct tr_desk *d)
{
    d->blame = TR_SQL_AWAY;
    tr_text(d->why, sizeof d->why, "%s", "no answer has come from the database yet: see sql.url");
    for (unsigned i = 0; i < d->conns; i++) {
        d->lines[i].probe.done = probed;
        d->lines[i].probe_us = i == 0 ? 0 : PROBE_US; /* one tells whether it is there */
    }
}

bool tr_desk_down(const struct tr_cluster *c)
{
    return c->desk->down_us > c->now.boot_us;
}

unsigned tr_lines_pick(const struct tr_desk *d, unsigned conn)
{
    for (unsigned i = 0; i < d->conns; i++) {
        if (!d->lines[(conn + i) % d->conns].failed) {
            return (conn + i) % d->conns;
        }
    }
    return conn;
}

unsigned tr_lines_least(const struct tr_desk *d, unsigned conn)
{
    unsigned best = (conn + 1) % d->conns;

    for (unsigned i = 2; i <= d->conns; i++) {
        unsigned other = (conn + i) % d->conns;
        const struct tr_desk_line *is = &d->lines[other];

        if (d->lines[best].failed || (!is->failed && is->busy < d->lines[best].busy)) {
            best = other;
        }
    }
    return best;
}

bool tr_desk_stands(const struct tr_cluster *c)
{
    enum tr_sql_blame blame = c->desk->blame;

    return blame == TR_SQL_AWAY || blame == TR_SQL_REFUSED || blame == TR_SQL_NO_TABLES ||
           blame == TR_SQL_READ_ONLY; /* one that is full can often write a little */
}

const char *tr_desk_words(const struct tr_cluster *c, int status)
{
    const struct tr_desk *d = c->desk;
    bool away = status == TARRY_EAWAY && d != NULL && tr_desk_stands(c) && d->blame != TR_SQL_AWAY;
    bool full = status == TARRY_ENOSPC && d != NULL && d->blame == TR_SQL_FULL;

    return away || full ? d->why : NULL;
}

/* ---- what an answer tells ---- */

static bool is_fault(enum tr_sql_blame blame)
{
    return blame != TR_SQL_FINE && blame != TR_SQL_AGAIN && blame != TR_SQL_BAD &&
           blame != TR_SQL_OTHER;
}

/* Somebody could write: a server that is read-only, or full, can be read all the same. */
static bool has_written(const struct tr_sql_ask *ask)
{
    for (unsigned i = 0; ask->kind == TR_SQL_CHANGE && i < ask->count; i++) {
        if (ask->items[i].end == TR_SQL_DONE && ask->items[i].write != TR_SQL_LEAVE) {
            return true;
        }
    }
    return ask->end == TR_SQL_DONE &&
           (ask->kind == TR_SQL_BLOCK || ask->kind == TR_SQL_OWN || ask->kind == TR_SQL_POLICY);
}

/* It can be read, and that is all that is known. */
static bool only_reads(enum tr_sql_blame blame)
{
    return blame == TR_SQL_READ_ONLY || blame == TR_SQL_FULL;
}

static bool is_over(const struct tr_cluster *c, const struct tr_sql_ask *ask)
{
    const struct tr_desk *d = c->desk;

    /* A full one may have room for some. */
    return !only_reads(d->blame) ||
           (has_written(ask) && (d->blame != TR_SQL_FULL || d->full_us <= c->now.boot_us));
}

/* Does any other work, and has it said so since then? */
static bool others_work(const struct tr_desk *d, unsigned conn, uint64_t since_us)
{
    for (unsigned i = 0; i < d->conns; i++) {
        const struct tr_desk_line *l = &d->lines[i];

        if (i != conn && !l->failed && l->heard_us >= since_us) {
            return true;
        }
    }
    return false;
}

/* As far as is known none can be asked. */
static void all_failed(struct tr_cluster *c, const struct tr_sql_ask *ask)
{
    struct tr_desk *d = c->desk;

    if (d->blame == TR_SQL_FINE) {
        tr_cluster_note(c, TR_NOTE_WARNING, "%s", ask->why);
    }
    d->blame = ask->blame;
    tr_text(d->why, sizeof d->why, "%s", ask->why);
    d->full_us = c->now.boot_us + FULL_US;
    if (only_reads(d->blame)) {
        d->lines[tr_lines_pick(d, 0)].probe_us = c->now.boot_us + DOWN_US;
        return;
    }
    d->down_us = c->now.boot_us + DOWN_US;
    for (unsigned i = 0; i < d->conns; i++) {
        if (!d->lines[i].failed) {
            d->lines[i].probe_us = c->now.boot_us;
        }
    }
}

static void line_failed(struct tr_cluster *c, const struct tr_sql_ask *ask, uint64_t sent_us)
{
    struct tr_desk *d = c->desk;
    struct tr_desk_line *l = &d->lines[ask->conn];
    bool news = !l->failed;

    l->failed = true;
    l->probe_us = c->now.boot_us + DOWN_US;
    if (others_work(d, ask->conn, sent_us)) {
        if (news) {
            tr_cluster_note(c, TR_NOTE_WARNING,
                            "One connection to the database fails, others work: %s", ask->why);
        }
    } else if (news || !others_work(d, ask->conn, 0)) {
        all_failed(c, ask);
    } /* else nothing is new: those that did not fail were asked when this one first did */
}

static unsigned working(const struct tr_desk *d)
{
    unsigned n = 0;

    for (unsigned i = 0; i < d->conns; i++) {
        n += !d->lines[i].failed;
    }
    return n;
}

static void line_answered(struct tr_cluster *c, const struct tr_sql_ask *ask)
{
    struct tr_desk *d = c->desk;
    struct tr_desk_line *l = &d->lines[ask->conn];

    l->heard_us = c->now.boot_us;
    if (l->failed && d->blame == TR_SQL_FINE) {
        tr_cluster_note(c, TR_NOTE_INFO, "A connection to the database works again.");
    }
    l->failed = false;
    if (!is_over(c, ask)) {
        return;
    }
    if (d->blame != TR_SQL_FINE && d->ready) {
        tr_cluster_note(c, TR_NOTE_INFO, "The database answers again, by %u of %u connections.",
                        working(d), d->conns);
    }
    d->blame = TR_SQL_FINE;
    d->ready = true;
    d->down_us = 0;
}

void tr_lines_heard(struct tr_cluster *c, const struct tr_sql_ask *ask, uint64_t sent_us)
{
    if (ask->blame == TR_SQL_OTHER ||
        ask->blame == TR_SQL_BAD) { /* of one job: its neighbours are not to blame */
        tr_cluster_note(c, TR_NOTE_WARNING, "%s", ask->why);
    }
    if (!is_fault(ask->blame)) {
        line_answered(c, ask);
    } else if (only_reads(ask->blame)) {
        c->desk->lines[ask->conn].heard_us = c->now.boot_us;
        c->desk->lines[ask->conn].failed = false;
        all_failed(c, ask);
    } else {
        line_failed(c, ask, sent_us);
    }
}

/* ---- probes ---- */

static bool may_probe(const struct tr_cluster *c, const struct tr_desk_line *l)
{
    return !l->probe.busy && !c->leaving;
}

static void probed(struct tr_cluster *c, struct tr_desk_call *call)
{
    const struct tr_desk *d = c->desk;
    struct tr_desk_line *l = TR_CONTAINER_OF(call, struct tr_desk_line, probe);

    if (l->failed) {
        l->probe_us = c->now.boot_us + (d->blame == TR_SQL_FINE ? AGAIN_US : DOWN_US);
    } else if (d->blame != TR_SQL_FINE && l == &d->lines[tr_lines_pick(d, 0)]) {
        l->probe_us = c->now.boot_us + DOWN_US;
    } else {
        l->probe_us = c->now.boot_us + PROBE_US;
    }
}

void tr_lines_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;

    for (unsigned i = 0; i < d->conns; i++) {
        struct tr_desk_line *l = &d->lines[i];

        if (may_probe(c, l) && l->probe_us <= c->now.boot_us) {
            /* A block of no numbers is a write that changes nothing. */
            l->probe.ask =
                (struct tr_sql_ask){.kind = only_reads(d->blame) ? TR_SQL_BLOCK : TR_SQL_LOOK};
            tr_desk_send_by(c, &l->probe, i);
        }
    }
}

uint64_t tr_lines_next(const struct tr_cluster *c)
{
    const struct tr_desk *d = c->desk;
    uint64_t next_us = TR_CL_NEVER;

    for (unsigned i = 0; i < d->conns; i++) {
        const struct tr_desk_line *l = &d->lines[i];

        if (may_probe(c, l) && l->probe_us < next_us) {
            next_us = l->probe_us;
        }
    }
    return next_us;
}

/* ---- what is told ---- */

bool tr_desk_trouble(const struct tr_cluster *c, struct tr_reason *reason)
{
    static const char *const codes[] = {
        [TR_SQL_FINE] = "",
        [TR_SQL_AWAY] = "sql_away",
        [TR_SQL_AGAIN] = "sql_away",
        [TR_SQL_REFUSED] = "sql_refused",
        [TR_SQL_NO_TABLES] = "sql_tables",
        [TR_SQL_READ_ONLY] = "sql_read_only",
        [TR_SQL_FULL] = "sql_full",
        [TR_SQL_BAD] = "sql_away",
        [TR_SQL_OTHER] = "sql_away",
    };

    if (c->desk == NULL || c->desk->blame == TR_SQL_FINE) {
        return false;
    }
    *reason = (struct tr_reason){codes[c->desk->blame], c->desk->why, false};
    return true;
}
