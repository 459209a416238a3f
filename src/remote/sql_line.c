/*
 * One ask, until it is known what became of it.
 *
 *     connect ──► run ──► done
 *        ▲         ├── deadlock: once more, three times, then in halves
 *        │         ├── refused, full, read-only: all that is left ends so
 *        │         ├── any other error: in halves; one alone ends so
 *        └─────────┴── the connection broke: connect, and look in the lane what became of it
 *
 * Invariant: an item ends DONE when a COMMIT of it was answered, or found in the lane; UNDONE when
 * no COMMIT was sent that could still be done: the lane's row, read FOR UPDATE, waits for the end
 * of a transaction that the server still has. UNSURE is only said when time is up before that.
 *
 * A connection that broke is killed by its number, too (KILL), if the server is still the one it
 * was made to: otherwise it keeps its locks until the server notices.
 */

#include "base/err.h"
#include "remote/sql_inner.h"

#include <string.h>
#include <time.h>

enum {
    TRIES = 3,       /* of a deadlock */
    DOWN_MS = 300,   /* after a failure to connect nobody tries again for so long */
    NAP_MS = 20,     /* between attempts while the outcome of a commit is looked for */
    CUT_SPARE_S = 5, /* clocks of seconds that are compared */
};

uint64_t tr_sql_now_ms(void)
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

/* 0, or the fault is set. */
static int connect(struct tr_sql_line *line)
{
    uint64_t before = line->number;
    uint64_t now_ms = tr_sql_now_ms();
    uint64_t age_ms = now_ms - line->made_ms;
    int err;

    if (line->conn != NULL) {
        return make_lane(line);
    }
    if (now_ms < line->down_ms || atomic_load(line->stop)) {
        return TARRY_EAWAY; /* the fault is that of the last time */
    }
    line->conn = tr_sql_conn_open(line->access, &line->fault);
    if (line->conn == NULL) {
        line->down_ms = tr_sql_now_ms() + DOWN_MS;
        return TARRY_EAWAY;
    }
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
        err = make_lane(line);
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
static enum tr_sql_end find_out(struct tr_sql_line *line, uint64_t until_ms)
{
    uint64_t lane = line->lane;

    atomic_fetch_add(&line->lookups, 1);
    while (tr_sql_now_ms() < until_ms && !atomic_load(line->stop)) {
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
        return;
    }
    for (unsigned i = from; i < to; i++) {
        ask->items[i].end = end;
    }
}

static void blame(struct tr_sql_line *line, struct tr_sql_ask *ask)
{
    struct tr_span why = tr_sql_room_copy(line->room, line->fault.why, strlen(line->fault.why));

    ask->blame = line->fault.blame;
    ask->why = why.at != NULL ? why.at : "there is no memory left";
}

/* What a failure means for those of this attempt. */
enum next { ONCE_MORE, IN_HALVES, GIVE_UP };

static enum next after_failure(const struct tr_sql_line *line, enum tr_sql_ran ran, unsigned tries,
                               uint64_t until_ms)
{
    if (tr_sql_now_ms() >= until_ms || atomic_load(line->stop)) {
        return GIVE_UP;
    }
    if (ran == TR_SQL_RAN_LOST) {
        return ONCE_MORE; /* it was found out that nothing was done */
    }
    switch (line->fault.blame) {
    case TR_SQL_AWAY:
        return tries < TRIES ? ONCE_MORE : GIVE_UP;
    case TR_SQL_AGAIN:
        return tries < TRIES ? ONCE_MORE : IN_HALVES;
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
    if (connect(line) != TARRY_OK) {
        return TR_SQL_RAN_FAILED;
    }
    atomic_fetch_add(&line->transactions, 1);
    return ask->kind == TR_SQL_CHANGE ? tr_sql_change_run(line, ask, from, to)
                                      : tr_sql_small_run(line, ask);
}

/* The end of items from `from` to before `to`; or *step is set: so many at a time. */
static void run_part(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from, unsigned to,
                     unsigned *step)
{
    uint64_t until_ms = tr_sql_now_ms() + line->patience_ms;

    for (unsigned tries = 1;; tries++) {
        bool up = line->conn != NULL;
        enum tr_sql_ran ran = attempt(line, ask, from, to);
        enum tr_sql_end end = ran == TR_SQL_RAN_LOST ? find_out(line, until_ms) : TR_SQL_UNDONE;
        enum next next;

        if (ran == TR_SQL_RAN_DONE || end == TR_SQL_DONE) {
            end_items(ask, from, to, TR_SQL_DONE);
            return;
        }
        next = after_failure(line, ran, tries, until_ms);
        if (!up && line->conn == NULL && ran != TR_SQL_RAN_LOST) {
            next = GIVE_UP; /* it was not there before, and is not now */
        }
        if (end == TR_SQL_UNSURE || next == GIVE_UP || (next == IN_HALVES && to - from <= 1)) {
            if (line->fault.blame == TR_SQL_FINE) {
                tr_sql_fault_set(&line->fault, line->access, 2013, "it took too long");
            }
            blame(line, ask);
            end_items(ask, from, to, end);
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
    for (unsigned from = 0; from < count;) {
        unsigned to = count - from < step ? count : from + step;
        unsigned smaller = 0;

        run_part(line, ask, from, to, &smaller);
        if (smaller != 0) {
            step = smaller;
        } else {
            from = to;
        }
    }
    if (ask->kind == TR_SQL_CHANGE) {
        ask->end = ask->blame == TR_SQL_FINE ? TR_SQL_DONE : TR_SQL_UNDONE;
    }
}
