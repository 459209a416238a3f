/*
 * One ask, until it is known what became of it.
 *
 *     connect ──► run ──► done
 *        ▲         ├── deadlock: once more, three times, then in halves
 *        │         ├── a lock that does not come: in halves; one alone three times
 *        │         ├── refused, full, read-only: all that is left ends so
 *        │         ├── what it refuses, and any other error: in halves; one alone ends so
 *        └─────────┴── the connection broke: connect, and look in the lane what became of it
 *
 * Invariant: an item ends DONE when a COMMIT of it was answered, or found in the lane; UNDONE when
 * no COMMIT was sent that could still be done: the lane's row, read FOR UPDATE, waits for the end
 * of a transaction that the server still has. UNSURE is only said when time is up before that. A
 * replica, which may be behind, is read-only and refuses that.
 *
 * An ask has so much time for all of its attempts; what was not tried by then ends UNDONE. What
 * became of a commit has a time of its own, from when its answer was missed.
 *
 * A connection that broke is killed by its number, too (KILL), if the server is still the one it
 * was made to: otherwise it keeps its locks until the server notices.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#include <string.h>
#include <time.h>

enum {
    TRIES = 3,       /* of a deadlock, or a lock */
    ASK_MS = 12000,  /* an ask is not tried again after that */
    LOCK = 1205,     /* a lock that did not come */
    DOWN_MS = 300,   /* after a failure to connect nobody tries again for so long */
    NAP_MS = 20,     /* between attempts while the outcome of a commit is looked for */
    CUT_SPARE_S = 5, /* clocks of seconds that are compared */
};

static uint64_t sql_now_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_BOOTTIME, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

static void nap(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* ---- the connection ---- */

/* Is it about what was asked, and not about the server? */
static bool is_own(enum tr_sql_blame blame)
{
    return blame == TR_SQL_FINE || blame == TR_SQL_BAD || blame == TR_SQL_OTHER;
}

static void note_socket(struct tr_sql_line *line, int socket)
{
    pthread_mutex_lock(line->lock);
    line->socket = socket;
    pthread_mutex_unlock(line->lock);
}

void tr_sql_line_close(struct tr_sql_line *line)
{
    note_socket(line, -1);
    tr_sql_conn_close(line->conn);
    line->conn = NULL;
}

int tr_sql_line_run(struct tr_sql_line *line, tr_sql_row_fn *fn, void *ctx)
{
    int err;

    if (line->text.failed) {
        tr_sql_fault_set(&line->fault, line->access, 1041, "this node has no memory left");
        return TARRY_ENOMEM;
    }
    err = tr_sql_conn_run(line->conn, line->text.at, line->text.len, fn, ctx);
    line->fault = *tr_sql_conn_fault(line->conn);
    if (line->fault.blame == TR_SQL_AWAY) {
        tr_sql_line_close(line);
    }
    return err;
}

static void note_uptime(void *ctx, const struct tr_sql_row *row)
{
    *(uint64_t *)ctx = tr_sql_number(row, 1);
}

static void note_greeting(void *ctx, const struct tr_sql_row *row)
{
    struct tr_sql_line *line = ctx;

    line->packet_max = tr_sql_number(row, 0);
}

static void note_lane(void *ctx, const struct tr_sql_row *row)
{
    struct tr_sql_line *line = ctx;

    line->lane = tr_sql_number(row, 0);
}

/* The one before, if the server is still the same. That it is gone already is no error. */
static int kill_last(struct tr_sql_line *line, uint64_t number, uint64_t age_ms)
{
    uint64_t uptime_s = 0;
    int err;

    if (number == 0) {
        return TARRY_OK;
    }
    tr_sql_text_clear(&line->text);
    tr_sql_put(&line->text, "SHOW GLOBAL STATUS LIKE 'Uptime'");
    err = tr_sql_line_run(line, note_uptime, &uptime_s);
    if (err == TARRY_OK && uptime_s > age_ms / 1000 + CUT_SPARE_S) {
        tr_sql_text_clear(&line->text);
        tr_sql_putf(&line->text, "KILL %u", number);
        err = tr_sql_line_run(line, NULL, NULL);
    }
    (void)err;
    return line->conn != NULL ? TARRY_OK : TARRY_EAWAY;
}

static int make_lane(struct tr_sql_line *line)
{
    if (line->lane != 0) {
        return TARRY_OK;
    }
    tr_sql_text_clear(&line->text);
    tr_sql_putf(&line->text,
                "INSERT INTO `lane` (`node`, `seen`) VALUES (%u, " TR_SQL_NOW "); "
                "SELECT LAST_INSERT_ID()",
                line->node);
    return tr_sql_line_run(line, note_lane, line);
}

static int connect_anew(struct tr_sql_line *line)
{
    uint64_t before = line->number;
    uint64_t now_ms = sql_now_ms();
    uint64_t age_ms = now_ms - line->made_ms;
    int err;

    if (now_ms < line->down_ms || atomic_load(line->stop)) {
        return TARRY_EAWAY; /* the fault is that of the last time */
    }
    line->conn = tr_sql_conn_open(line->access, &line->fault);
    if (line->conn == NULL) {
        line->down_ms = sql_now_ms() + DOWN_MS;
        if (is_own(line->fault.blame)) { /* it is not about a job */
            line->fault.blame = TR_SQL_REFUSED;
        }
        return TARRY_EAWAY;
    }
    line->skips = tr_sql_conn_skips(line->conn);
    atomic_fetch_add(&line->connects, 1);
    note_socket(line, tr_sql_conn_socket(line->conn));
    tr_sql_text_clear(&line->text);
    tr_sql_put(&line->text, "SELECT @@max_allowed_packet");
    err = tr_sql_line_run(line, note_greeting, line);
    if (err == TARRY_OK) {
        err = kill_last(line, before, age_ms);
    }
    if (err == TARRY_OK) {
        line->number = tr_sql_conn_number(line->conn);
        line->made_ms = now_ms;
        err = tr_sql_life_meet(line);
    }
    if (err != TARRY_OK) {
        tr_sql_line_close(line);
    }
    return err;
}

/* 0, or the fault is set. What is wrong here is no single ask's fault: somebody has to do something
 * about it, whatever the server calls it. */
static int connect(struct tr_sql_line *line)
{
    int err = line->conn != NULL ? TARRY_OK : connect_anew(line);

    if (err == TARRY_OK) {
        err = make_lane(line);
    }
    if (err != TARRY_OK && is_own(line->fault.blame)) {
        line->fault.blame = TR_SQL_REFUSED;
    }
    if (err != TARRY_OK && line->conn == NULL && line->down_ms < sql_now_ms()) {
        line->down_ms = sql_now_ms() + DOWN_MS;
    }
    return err;
}

/* ---- the outcome of a commit ---- */

struct lane_row {
    bool there;
    uint64_t node;
    uint64_t op;
};

static void note_row(void *ctx, const struct tr_sql_row *row)
{
    struct lane_row *is = ctx;

    is->there = true;
    is->node = tr_sql_number(row, 0);
    is->op = tr_sql_number(row, 1);
}

/* Was the transaction done that would have made the lane's op one more? */
static enum tr_sql_end find_out(struct tr_sql_line *line)
{
    uint64_t until_ms = sql_now_ms() + line->patience_ms;
    uint64_t lane = line->lane;

    atomic_fetch_add(&line->lookups, 1);
    while (sql_now_ms() < until_ms && !atomic_load(line->stop)) {
        struct lane_row is = {0};

        line->down_ms = 0;
        if (connect(line) == TARRY_OK) {
            tr_sql_text_clear(&line->text);
            tr_sql_putf(&line->text,
                        "START TRANSACTION; SELECT `node`, `op` FROM `lane` WHERE `lane` = %u FOR "
                        "UPDATE; COMMIT",
                        lane);
            if (tr_sql_line_run(line, note_row, &is) == TARRY_OK) {
                return is.there && is.node == line->node && is.op > line->op ? TR_SQL_DONE
                                                                             : TR_SQL_UNDONE;
            }
        }
        nap(NAP_MS);
    }
    return TR_SQL_UNSURE;
}

/* ---- an ask ---- */

static void end_items(struct tr_sql_ask *ask, unsigned from, unsigned to, enum tr_sql_end end)
{
    if (ask->kind != TR_SQL_CHANGE) {
        ask->end = end;
        to = ask->kind == TR_SQL_PLAN ? ask->count : from;
    }
    for (unsigned i = from; i < to; i++) {
        ask->items[i].end = end;
        ask->items[i].blame = TR_SQL_FINE;
        ask->items[i].why = "";
    }
}

/* Tables of the schema before have no schedules and outlets: all else can be served from them. */
static bool is_newer(const struct tr_sql_ask *ask, const struct tr_sql_fault *fault)
{
    return fault->blame == TR_SQL_NO_TABLES &&
           (ask->kind == TR_SQL_PLAN || ask->kind == TR_SQL_PLANS || ask->kind == TR_SQL_OUTLETS ||
            (ask->kind == TR_SQL_POLICY && ask->delivers != TR_SQL_DELIVERS_NOT));
}

/* Items from `from` to before `to` were not done. What is wrong with the server stays what is said
 * of the whole ask. */
static void fail_items(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from, unsigned to,
                       enum tr_sql_end end)
{
    struct tr_span text = tr_sql_room_copy(line->room, line->fault.why, strlen(line->fault.why));
    enum tr_sql_blame blame = is_newer(ask, &line->fault) ? TR_SQL_OTHER : line->fault.blame;
    const char *why = text.at != NULL ? text.at : "there is no memory left";

    end_items(ask, from, to, end);
    for (unsigned i = from; ask->kind == TR_SQL_CHANGE && i < to; i++) {
        ask->items[i].blame = blame;
        ask->items[i].why = why;
    }
    if (is_own(ask->blame)) {
        ask->blame = blame;
        ask->why = why;
    }
}

/* Does who asks know another life of the server, or another server? What he asks may make no sense
 * there. */
static bool is_strange(const struct tr_sql_line *line, const struct tr_sql_ask *ask)
{
    return ask->life != 0 && ask->life != line->life;
}

/* What a failure means for those of this attempt. */
enum next { ONCE_MORE, IN_HALVES, GIVE_UP };

static enum next after_failure(const struct tr_sql_line *line, enum tr_sql_ran ran, unsigned tries,
                               unsigned count)
{
    if (sql_now_ms() >= line->until_ms || atomic_load(line->stop)) {
        return GIVE_UP;
    }
    if (ran == TR_SQL_RAN_LOST) {
        return ONCE_MORE; /* it was found out that nothing was done */
    }
    switch (line->fault.blame) {
    case TR_SQL_AWAY:
        return tries < TRIES ? ONCE_MORE : GIVE_UP;
    case TR_SQL_AGAIN:
        /* The same would wait for the same lock. */
        return tries < TRIES && (line->fault.code != LOCK || count == 1) ? ONCE_MORE : IN_HALVES;
    case TR_SQL_BAD:
    case TR_SQL_OTHER:
        return IN_HALVES;
    default:
        return GIVE_UP;
    }
}

/* One attempt of items from `from` to before `to`. */
static enum tr_sql_ran attempt(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from,
                               unsigned to)
{
    bool before = line->conn != NULL;
    int err = connect(line);

    if (err == TARRY_OK && before && is_strange(line, ask)) {
        tr_sql_line_close(
            line); /* he has heard of it by another connection: this one may be dead */
        err = connect(line);
    }
    if (err != TARRY_OK) {
        return TR_SQL_RAN_FAILED;
    }
    if (is_strange(line, ask)) {
        tr_sql_fault_set(&line->fault, line->access, 1020,
                         "the server is another one than before, or was started anew");
        return TR_SQL_RAN_FAILED;
    }
    atomic_fetch_add(&line->transactions, 1);
    if (ask->kind == TR_SQL_PLAN) {
        return tr_sql_change_run(line, ask, 0, ask->count);
    }
    return ask->kind == TR_SQL_CHANGE ? tr_sql_change_run(line, ask, from, to)
                                      : tr_sql_small_run(line, ask);
}

/* The end of items from `from` to before `to`; or *step is set: so many at a time. */
static void run_part(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from, unsigned to,
                     unsigned *step)
{
    bool perhaps = false; /* settings were sent, and not answered */

    for (unsigned tries = 1;; tries++) {
        bool up = line->conn != NULL;
        enum tr_sql_ran ran = attempt(line, ask, from, to);
        enum tr_sql_end end = TR_SQL_UNDONE;
        enum next next;

        if (ran == TR_SQL_RAN_LOST && ask->kind == TR_SQL_POLICY) {
            perhaps = true;
            ran = TR_SQL_RAN_FAILED;
        } else if (ran == TR_SQL_RAN_LOST) {
            end = find_out(line);
        }

        if (ran == TR_SQL_RAN_DONE || end == TR_SQL_DONE) {
            end_items(ask, from, to, TR_SQL_DONE);
            return;
        }
        next = after_failure(line, ran, tries, to - from);
        if (!up && line->conn == NULL && ran != TR_SQL_RAN_LOST) {
            next = GIVE_UP; /* it was not there before, and is not now */
        }
        if (line->conn != NULL && is_strange(line, ask)) {
            next = GIVE_UP; /* he is told, and knows better the next time */
        }
        if (end == TR_SQL_UNSURE || next == GIVE_UP || (next == IN_HALVES && to - from <= 1)) {
            if (line->fault.blame == TR_SQL_FINE) {
                tr_sql_fault_set(&line->fault, line->access, 2013, "it took too long");
            }
            fail_items(line, ask, from, to, perhaps ? TR_SQL_UNSURE : end);
            return;
        }
        if (next == IN_HALVES) {
            atomic_fetch_add(&line->halvings, 1);
            *step = (to - from + 1) / 2;
            return;
        }
        atomic_fetch_add(&line->repeats, 1);
        nap(tries * (unsigned)(line->lane % 8 + 1)); /* those who met do not meet again */
    }
}

void tr_sql_line_do(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    unsigned count = ask->kind == TR_SQL_CHANGE ? ask->count : 1;
    unsigned step = count;

    ask->blame = TR_SQL_FINE;
    ask->why = "";
    ask->rows = NULL;
    ask->topics = NULL;
    ask->flow = NULL;
    ask->steps = NULL;
    ask->approximate = false;
    line->until_ms = sql_now_ms() + (line->patience_ms > ASK_MS ? line->patience_ms : ASK_MS);
    ask->plans = NULL;
    for (unsigned from = 0; from < count;) {
        unsigned to = count - from < step ? count : from + step;
        unsigned smaller = 0;

        if (ask->blame != TR_SQL_FINE && sql_now_ms() >= line->until_ms) {
            tr_sql_fault_set(&line->fault, line->access, 2013, "it took too long");
            fail_items(line, ask, from, count, TR_SQL_UNDONE);
            break;
        }
        run_part(line, ask, from, to, &smaller);
        if (smaller != 0) {
            step = smaller;
        } else {
            from = to;
        }
    }
    ask->life = line->conn != NULL ? line->life : ask->life;
    if (ask->kind == TR_SQL_CHANGE) {
        ask->end = ask->blame == TR_SQL_FINE ? TR_SQL_DONE : TR_SQL_UNDONE;
    }
}
