/*
 * From what is there to what this version makes.
 *
 *     ask the server ─► lock ─► which schema? ─► its steps ─► are all columns there?
 *
 * The lock (GET_LOCK) is of the database, so that two who migrate at once do not both begin; the
 * steps would bear it, but their messages would not. Rights are tried by statements that touch no
 * row (WHERE FALSE), since grants come by roles, wildcards and columns that nobody wants to parse.
 */

#include "remote/sql_migrate.h"

#include "base/err.h"
#include "base/text.h"
#include "remote/sql_schema.h"
#include "remote/sql_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1024, PACKET_SPARE = 1 << 20 };

struct job {
    struct tr_sql_conn *conn;
    const struct tr_sql_access *access;
    struct tr_sql_found *found;
    struct tr_sql_fault *f;
    unsigned number;    /* of a question for one */
    char columns[TEXT]; /* of a question for those */
};

/* ---- sentences ---- */

static int refuse(struct job *j, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct job *j, int err, const char *format, ...)
{
    char place[TR_SQL_PLACE];
    va_list args;

    tr_sql_place(place, &j->access->url);
    *j->f = (struct tr_sql_fault){.blame = TR_SQL_REFUSED};
    tr_text(j->f->why, sizeof j->f->why, "%s: ", place);
    va_start(args, format);
    tr_text_list(j->f->why + strlen(j->f->why), sizeof j->f->why - strlen(j->f->why), format, args);
    va_end(args);
    return err;
}

static int run(struct job *j, const char *text, tr_sql_row_fn *fn)
{
    int err = tr_sql_conn_run(j->conn, text, strlen(text), fn, j);

    if (err != TARRY_OK) {
        *j->f = *tr_sql_conn_fault(j->conn);
    }
    return err;
}

/* ---- what is there ---- */

static void note_server(void *ctx, const struct tr_sql_row *row)
{
    struct job *j = ctx;
    struct tr_sql_found *found = j->found;

    tr_text(found->version, sizeof found->version, "%s", row->values[0]);
    found->read_only = tr_sql_number(row, 1) != 0;
    found->packet_max = tr_sql_number(row, 2);
    found->flush = (unsigned)tr_sql_number(row, 3);
    found->sync = (unsigned)tr_sql_number(row, 4);
    found->log_bin = tr_sql_number(row, 5) != 0;
    tr_text(found->format, sizeof found->format, "%s", row->values[6]);
}

static void note_number(void *ctx, const struct tr_sql_row *row)
{
    struct job *j = ctx;

    j->number = (unsigned)tr_sql_number(row, 0);
}

static void note_columns(void *ctx, const struct tr_sql_row *row)
{
    struct job *j = ctx;

    tr_text(j->columns, sizeof j->columns, "%s", row->values[0] != NULL ? row->values[0] : "");
}

/* MariaDB 10.5 and MySQL 8.0 have all that is used. */
static bool is_old(const char *version)
{
    unsigned long major = strtoul(version, NULL, 10);
    const char *dot = strchr(version, '.');
    unsigned long minor = dot != NULL ? strtoul(dot + 1, NULL, 10) : 0;
    bool mariadb = strstr(version, "MariaDB") != NULL;

    return mariadb ? major < 10 || (major == 10 && minor < 5) : major < 8;
}

static int ask_server(struct job *j)
{
    int err = run(j,
                  "SELECT @@version, @@global.read_only, @@max_allowed_packet, "
                  "@@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin, @@binlog_format",
                  note_server);

    if (err == TARRY_OK && is_old(j->found->version)) {
        return refuse(j, TARRY_ESTATE,
                      "the server is %s, and tarry needs MariaDB 10.5 or MySQL 8.0.",
                      j->found->version);
    }
    if (err == TARRY_OK && j->found->log_bin && strcmp(j->found->format, "STATEMENT") == 0) {
        return refuse(j, TARRY_ESTATE,
                      "the server has binlog_format = STATEMENT, which cannot be "
                      "used with READ COMMITTED: set it to ROW or MIXED there.");
    }
    return err;
}

static int ask_schema(struct job *j)
{
    int err;

    j->number = 0;
    err = run(j, "SELECT `v` FROM `meta` WHERE `k` = 'schema'", note_number);
    if (err != TARRY_OK && j->f->code == 1146) {
        err = TARRY_OK; /* there is no such table */
    }
    j->found->schema = j->number;
    return err;
}

static int check_newer(struct job *j)
{
    if (tr_sql_schema_fit(j->found->schema) != TR_SQL_NEWER) {
        return TARRY_OK;
    }
    return refuse(
        j, TARRY_EVERSION,
        "its tables are of schema %u, which a newer tarry made; this one knows schema %d. "
        "Use that version, or another database.",
        j->found->schema, TR_SQL_SCHEMA);
}

/* The names that are missing in `have`, which has all with commas; the first of them. */
static bool is_missing(const char *have, const char *want, char *name, size_t size)
{
    while (*want != '\0') {
        size_t len = strcspn(want, ",");
        const char *at = have;
        bool found = false;

        while (!found && *at != '\0') {
            size_t other = strcspn(at, ",");

            found = other == len && memcmp(at, want, len) == 0;
            at += other + (at[other] == ',');
        }
        if (!found) {
            tr_text(name, size, "%.*s", (int)len, want);
            return true;
        }
        want += len + (want[len] == ',');
    }
    return false;
}

/* Those of this schema. */
static int check_tables(struct job *j, unsigned schema)
{
    const struct tr_sql_table *t;
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && (t = tr_sql_schema_table(i)) != NULL; i++) {
        char text[TEXT];
        char name[64];

        if (t->since > schema) {
            continue;
        }
        tr_text(text, sizeof text,
                "SELECT GROUP_CONCAT(COLUMN_NAME) FROM information_schema.COLUMNS "
                "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '%s'",
                t->name);
        err = run(j, text, note_columns);
        if (err == TARRY_OK && is_missing(j->columns, t->columns, name, sizeof name)) {
            return refuse(j, TARRY_ESTATE,
                          "its table %s has no column %s: it is not one that tarry made, or was "
                          "changed. Give tarry a database of its own.",
                          t->name, name);
        }
    }
    return err;
}

/* ---- migrate ---- */

static int step(struct job *j, unsigned to)
{
    const char *text;
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && (text = tr_sql_schema_step(to, i)) != NULL; i++) {
        err = run(j, text, NULL);
    }
    return err;
}

static int migrate(struct job *j)
{
    int err = ask_server(j);

    if (err == TARRY_OK && j->found->read_only) {
        return refuse(j, TARRY_ESTATE,
                      "the server is read-only (read_only = ON): name the primary in sql.url.");
    }
    j->number = 0;
    if (err == TARRY_OK) {
        err = run(j, "SELECT GET_LOCK(CONCAT('tarry.', DATABASE()), 10)", note_number);
    }
    if (err == TARRY_OK && j->number != 1) {
        return refuse(j, TARRY_ESTATE, "somebody else migrates it right now: try again.");
    }
    if (err == TARRY_OK) {
        err = ask_schema(j);
    }
    if (err == TARRY_OK) {
        err = check_newer(j);
    }
    for (unsigned to = j->found->schema + 1; err == TARRY_OK && to <= TR_SQL_SCHEMA; to++) {
        err = step(j, to);
        j->found->steps++;
    }
    return err == TARRY_OK ? check_tables(j, TR_SQL_SCHEMA) : err;
}

int tr_sql_migrate(const struct tr_sql_access *access, struct tr_sql_found *found,
                   struct tr_sql_fault *f)
{
    struct job j = {.access = access, .found = found, .f = f};
    int err;

    *found = (struct tr_sql_found){0};
    *f = (struct tr_sql_fault){.blame = TR_SQL_FINE};
    j.conn = tr_sql_conn_open(access, f);
    if (j.conn == NULL) {
        return TARRY_EAWAY;
    }
    err = migrate(&j);
    tr_sql_conn_close(j.conn); /* which lets go of the lock */
    return err;
}

/* ---- inspect ---- */

/* Statements that need each right that serving takes, and change nothing. */
static int check_rights(struct job *j)
{
    const struct tr_sql_table *t;
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && (t = tr_sql_schema_table(i)) != NULL; i++) {
        char column[64];
        char text[TEXT];

        if (t->since > j->found->schema) {
            continue;
        }
        tr_text(column, sizeof column, "%.*s", (int)strcspn(t->columns, ","), t->columns);
        tr_text(text, sizeof text,
                "SELECT `%s` FROM `%s` WHERE FALSE; UPDATE `%s` SET `%s` = `%s` WHERE FALSE; "
                "DELETE FROM `%s` WHERE FALSE; INSERT INTO `%s` SELECT * FROM `%s` WHERE FALSE",
                column, t->name, t->name, column, column, t->name, t->name, t->name);
        err = run(j, text, NULL);
    }
    return err;
}

static int inspect(struct job *j, uint64_t body_max)
{
    int err = ask_server(j);

    if (err == TARRY_OK) {
        err = ask_schema(j);
    }
    if (err == TARRY_OK) {
        err = check_newer(j);
    }
    if (err == TARRY_OK && tr_sql_schema_fit(j->found->schema) == TR_SQL_MISSING) {
        return refuse(j, TARRY_ESTATE,
                      j->found->schema == 0 ? "there are no tables of tarry: run tarry sql migrate."
                                            : "its tables are of an older tarry: run tarry sql "
                                              "migrate.");
    }
    if (err == TARRY_OK) {
        err = check_tables(j, j->found->schema);
    }
    if (err == TARRY_OK && j->found->read_only) {
        return refuse(j, TARRY_ESTATE,
                      "the server is read-only (read_only = ON): name the primary in sql.url.");
    }
    if (err == TARRY_OK) {
        err = check_rights(j);
    }
    if (err == TARRY_OK && j->found->packet_max < body_max + PACKET_SPARE) {
        return refuse(j, TARRY_ESTATE,
                      "max_allowed_packet is %" PRIu64 " there, and bodies may have %" PRIu64
                      " bytes: set it to "
                      "%" PRIu64 " or more, or lower limits.body.",
                      j->found->packet_max, body_max, body_max + PACKET_SPARE);
    }
    return err;
}

int tr_sql_inspect(const struct tr_sql_access *access, uint64_t body_max,
                   struct tr_sql_found *found, struct tr_sql_fault *f)
{
    struct job j = {.access = access, .found = found, .f = f};
    int err;

    *found = (struct tr_sql_found){0};
    *f = (struct tr_sql_fault){.blame = TR_SQL_FINE};
    j.conn = tr_sql_conn_open(access, f);
    if (j.conn == NULL) {
        return TARRY_EAWAY;
    }
    err = inspect(&j, body_max);
    tr_sql_conn_close(j.conn);
    return err;
}

/* ---- the store ---- */

enum { VALUE = 64, UUID = 32 };

struct agreed {
    char uuid[VALUE];
    char slots[VALUE];
    char prefix[VALUE];
};

static void note_meta(void *ctx, const struct tr_sql_row *row)
{
    struct agreed *a = ctx;
    const char *k = row->values[0];
    char *out = strcmp(k, "uuid") == 0 ? a->uuid : strcmp(k, "slots") == 0 ? a->slots : a->prefix;

    tr_text(out, VALUE, "%.*s", (int)row->lengths[1], row->values[1]);
}

static int agree(struct job *j, const struct tr_sql_store *store)
{
    struct agreed is = {{0}, {0}, {0}};
    struct tr_span uuid = {store->uuid, strlen(store->uuid)};
    struct tr_span prefix = {store->prefix, strlen(store->prefix)};
    struct tr_sql_text t = {0};
    char slots[VALUE];
    int err;

    tr_text(slots, sizeof slots, "%u", store->slots);
    tr_sql_putf(&t,
                "INSERT IGNORE INTO `meta` (`k`, `v`) VALUES ('uuid', %q), ('slots', %u), "
                "('prefix', %q); SELECT `k`, `v` FROM `meta` WHERE `k` IN ('uuid', 'slots', "
                "'prefix')",
                &uuid, (uint64_t)store->slots, &prefix);
    err = t.failed ? TARRY_ENOMEM : tr_sql_conn_run(j->conn, t.at, t.len, note_meta, &is);
    tr_sql_text_free(&t);
    if (err != TARRY_OK) {
        *j->f = *tr_sql_conn_fault(j->conn);
        return err;
    }
    if (strcmp(is.slots, slots) != 0 || strcmp(is.prefix, store->prefix) != 0 ||
        strlen(is.uuid) != UUID) {
        return refuse(j, TARRY_ESTATE,
                      "its rows are those of a store with %s slots and the prefix %s; this node is "
                      "set up for %s slots and the prefix %s (cluster.slots, redis.prefix).",
                      is.slots, is.prefix, slots, store->prefix);
    }
    memcpy(store->uuid, is.uuid, UUID + 1);
    return TARRY_OK;
}

int tr_sql_agree(const struct tr_sql_access *access, const struct tr_sql_store *store,
                 struct tr_sql_fault *f)
{
    struct job j = {.access = access, .f = f};
    int err;

    *f = (struct tr_sql_fault){.blame = TR_SQL_FINE};
    j.conn = tr_sql_conn_open(access, f);
    if (j.conn == NULL) {
        return TARRY_EAWAY;
    }
    err = agree(&j, store);
    tr_sql_conn_close(j.conn);
    return err;
}

const char *tr_sql_odd(const struct tr_sql_found *found, unsigned i)
{
    const char *odd[2];
    unsigned count = 0;

    if (found->flush != 1) {
        odd[count++] =
            "innodb_flush_log_at_trx_commit is not 1: a power cut of the database server "
            "takes back the last second";
    }
    if (found->log_bin && found->sync != 1) {
        odd[count++] = "sync_binlog is not 1: a power cut of the database server may leave its "
                       "replicas with other jobs than it has";
    }
    return i < count ? odd[i] : NULL;
}
