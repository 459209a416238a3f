/*
 * Connector/C, held so that nothing depends on how the server is set up: the session's own mode,
 * isolation, character set and time zone. Several statements go in one packet; what they answer is
 * read to the end before anything else is said.
 *
 * LOCAL INFILE is off: a server could ask for any file of this machine. The library does not
 * connect again by itself: what was under way would be lost silently, and the session's settings
 * with it.
 */

#include "remote/sql_conn.h"

#include "base/err.h"
#include "base/text.h"

#include <mysql.h>
#include <stdlib.h>
#include <string.h>

enum { RESULTS = 64 };

struct tr_sql_conn {
    MYSQL *mysql;
    const struct tr_sql_access *access;
    struct tr_sql_fault fault;
    uint64_t changed[RESULTS];
};

static const char session[] =
    "SET NAMES binary; SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', "
    "time_zone = '+00:00', autocommit = 1, "
    /* A node that stands still in the midst of a transaction keeps its locks so long (MariaDB). */
    "/*M!100300 idle_transaction_timeout = 5, */ innodb_lock_wait_timeout = 1, wait_timeout = 600; "
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

bool tr_sql_library_open(void)
{
    return mysql_library_init(0, NULL, NULL) == 0;
}

void tr_sql_library_close(void)
{
    mysql_library_end();
}

static int note(struct tr_sql_conn *c)
{
    tr_sql_fault_set(&c->fault, c->access, mysql_errno(c->mysql), mysql_error(c->mysql));
    return TARRY_EAWAY;
}

static void set_options(struct tr_sql_conn *c)
{
    unsigned whole = c->access->timeout_s;
    unsigned half = whole > 1 ? whole / 2 : 1;
    unsigned off = 0;
    my_bool no = 0;

    (void)mysql_optionsv(c->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &half);
    (void)mysql_optionsv(c->mysql, MYSQL_OPT_READ_TIMEOUT, &whole);
    (void)mysql_optionsv(c->mysql, MYSQL_OPT_WRITE_TIMEOUT, &whole);
    (void)mysql_optionsv(c->mysql, MYSQL_OPT_LOCAL_INFILE, &off);
    (void)mysql_optionsv(c->mysql, MYSQL_OPT_RECONNECT, &no);
    (void)mysql_optionsv(c->mysql, MYSQL_SET_CHARSET_NAME, "binary");
}

static int dial(struct tr_sql_conn *c)
{
    const struct tr_sql_url *url = &c->access->url;
    bool local = url->socket[0] != '\0';
    unsigned protocol = local ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;

    set_options(c);
    (void)mysql_optionsv(c->mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (mysql_real_connect(c->mysql, local ? NULL : url->host, c->access->user, c->access->password,
                           url->database, local ? 0 : url->port, local ? url->socket : NULL,
                           CLIENT_MULTI_STATEMENTS) == NULL) {
        return note(c);
    }
    return tr_sql_conn_run(c, session, sizeof session - 1, NULL, NULL);
}

struct tr_sql_conn *tr_sql_conn_open(const struct tr_sql_access *access, struct tr_sql_fault *f)
{
    struct tr_sql_conn *c = calloc(1, sizeof *c);

    if (c != NULL) {
        c->access = access;
        c->mysql = mysql_init(NULL);
    }
    if (c == NULL || c->mysql == NULL) {
        free(c);
        tr_sql_fault_set(f, access, 2008, "this client has no memory left");
        return NULL;
    }
    if (dial(c) != TARRY_OK) {
        *f = c->fault;
        tr_sql_conn_close(c);
        return NULL;
    }
    return c;
}

void tr_sql_conn_close(struct tr_sql_conn *c)
{
    if (c != NULL) {
        mysql_close(c->mysql);
        free(c);
    }
}

/* The rows of one result, which has some. */
static int read_rows(struct tr_sql_conn *c, unsigned number, tr_sql_row_fn *fn, void *ctx)
{
    MYSQL_RES *result = mysql_store_result(c->mysql);
    struct tr_sql_row row = {.result = number};
    MYSQL_ROW values;

    if (result == NULL) {
        return mysql_field_count(c->mysql) != 0 ? note(c) : TARRY_OK;
    }
    row.count = mysql_num_fields(result);
    while ((values = mysql_fetch_row(result)) != NULL) {
        row.values = values;
        row.lengths = mysql_fetch_lengths(result);
        if (fn != NULL) {
            fn(ctx, &row);
        }
    }
    mysql_free_result(result);
    return TARRY_OK;
}

int tr_sql_conn_run(struct tr_sql_conn *c, const char *text, size_t len, tr_sql_row_fn *fn,
                    void *ctx)
{
    int more = 0;
    int err = TARRY_OK;

    c->fault = (struct tr_sql_fault){.blame = TR_SQL_FINE};
    memset(c->changed, 0, sizeof c->changed);
    if (mysql_real_query(c->mysql, text, len) != 0) {
        return note(c);
    }
    for (unsigned i = 0; err == TARRY_OK && more == 0; i++) {
        bool rows = mysql_field_count(c->mysql) != 0;

        if (!rows && i < RESULTS) {
            c->changed[i] = mysql_affected_rows(c->mysql);
        }
        err = read_rows(c, i, fn, ctx);
        if (err == TARRY_OK) {
            more = mysql_next_result(c->mysql); /* 0: yes, -1: no, more than 0: an error */
        }
    }
    return err == TARRY_OK && more > 0 ? note(c) : err;
}

const struct tr_sql_fault *tr_sql_conn_fault(const struct tr_sql_conn *c)
{
    return &c->fault;
}

uint64_t tr_sql_conn_changed(const struct tr_sql_conn *c, unsigned i)
{
    return i < RESULTS ? c->changed[i] : 0;
}

int tr_sql_conn_socket(const struct tr_sql_conn *c)
{
    return (int)mysql_get_socket(c->mysql);
}

bool tr_sql_conn_skips(const struct tr_sql_conn *c)
{
    unsigned long version = mysql_get_server_version(c->mysql);

    return version >= 100600 || (version >= 80001 && version < 100000); /* MariaDB; MySQL */
}

uint64_t tr_sql_conn_number(const struct tr_sql_conn *c)
{
    return mysql_thread_id(c->mysql);
}

uint64_t tr_sql_number(const struct tr_sql_row *row, unsigned i)
{
    uint64_t number = 0;

    if (i >= row->count || row->values[i] == NULL) {
        return 0;
    }
    for (unsigned long at = 0; at < row->lengths[i]; at++) {
        char c = row->values[i][at];

        if (c < '0' || c > '9') {
            break;
        }
        number = number * 10 + (uint64_t)(c - '0');
    }
    return number;
}
