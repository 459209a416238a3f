/*
 * What MariaDB and MySQL say, as sentences: what happened, and what to do about it.
 *
 * The numbers are those of the servers (from 1000) and of the client library (from 2000); they are
 * the same in both and do not change.
 */

#include "base/text.h"
#include "remote/sql_conn.h"

#include <string.h>

static const struct {
    unsigned code;
    enum tr_sql_blame blame;
    const char *what; /* %s: the database and where it is */
    const char *advice;
} faults[] = {
    {1045, TR_SQL_REFUSED, "%s does not let this user in",
     "Check sql.user and sql.password (better in the file or as TARRY_SQL_PASSWORD than behind "
     "--set)."},
    {1698, TR_SQL_REFUSED, "%s does not let this user in",
     "Check sql.user and sql.password; a user that is known by its system account comes by the "
     "socket only (sql.url = mariadb:///DATABASE?socket=PATH)."},
    {1130, TR_SQL_REFUSED, "%s lets nobody in from this machine",
     "Make the user for it: CREATE USER name@'this machine' IDENTIFIED BY '...'."},
    {1044, TR_SQL_REFUSED, "this user may not use %s", "Let an administrator GRANT it:"},
    {1049, TR_SQL_REFUSED, "there is no database %s",
     "Let an administrator make it: CREATE DATABASE, and GRANT this user what it needs:"},
    {1142, TR_SQL_REFUSED, "this user lacks a right in %s", "Let an administrator GRANT it:"},
    {1143, TR_SQL_REFUSED, "this user lacks a right in %s", "Let an administrator GRANT it:"},
    {1370, TR_SQL_REFUSED, "this user lacks a right in %s", "Let an administrator GRANT it:"},
    {1227, TR_SQL_REFUSED, "this user lacks a right in %s", "Let an administrator GRANT it:"},
    {2059, TR_SQL_REFUSED, "%s wants another kind of password than this client knows",
     "Install the plugins of libmariadb3, or make the user with mysql_native_password."},
    {1146, TR_SQL_NO_TABLES, "a table is missing in %s", "Make it: tarry sql migrate."},
    {1054, TR_SQL_NO_TABLES, "a table in %s is not as tarry makes it",
     "If the table is tarry's: tarry sql migrate. If not: give tarry a database of its own."},
    {1290, TR_SQL_READ_ONLY, "%s is read-only", "Name the primary server in sql.url."},
    {1836, TR_SQL_READ_ONLY, "%s is read-only", "Name the primary server in sql.url."},
    {1792, TR_SQL_READ_ONLY, "%s is read-only", "Name the primary server in sql.url."},
    {1021, TR_SQL_FULL, "the disk of %s is full", "Make room there."},
    {1114, TR_SQL_FULL, "a table in %s is full", "Make room there."},
    {1041, TR_SQL_FULL, "%s has no memory left", "Give it more."},
    {3, TR_SQL_FULL, "%s cannot write to its disk", "Make room there."},
    {1026, TR_SQL_FULL, "%s cannot write to its disk", "Make room there."},
    {1129, TR_SQL_AWAY, "%s takes no connections from this machine for now",
     "There were too many broken ones: FLUSH HOSTS there, or raise max_connect_errors."},
    {1226, TR_SQL_AWAY, "%s lets this user do no more for now",
     "Raise its limits there (MAX_USER_CONNECTIONS, MAX_QUERIES_PER_HOUR and so on)."},
    {1040, TR_SQL_AWAY, "%s takes no more connections",
     "Raise max_connections there, or lower sql.connections."},
    {1203, TR_SQL_AWAY, "%s takes no more connections of this user",
     "Raise its limit there, or lower sql.connections."},
    {1205, TR_SQL_AGAIN, "a lock in %s did not come", "It is tried again."},
    {1213, TR_SQL_AGAIN, "there was a deadlock in %s", "It is tried again."},
    {1020, TR_SQL_AGAIN, "a row in %s was changed meanwhile", "It is tried again."},
    {3101, TR_SQL_AGAIN, "the group of %s has undone it", "It is tried again."},
    {1180, TR_SQL_AWAY, "%s could not finish a commit", "It is looked up what became of it."},
    {1047, TR_SQL_AWAY, "%s is not ready", "Wait for the cluster to have its nodes."},
    {1053, TR_SQL_AWAY, "%s is being stopped", "Start it again."},
    {1077, TR_SQL_AWAY, "%s is being stopped", "Start it again."},
    {1079, TR_SQL_AWAY, "%s is being stopped", "Start it again."},
    {1317, TR_SQL_AWAY, "%s has broken it off", "It is tried again."},
    {1927, TR_SQL_AWAY, "%s has ended the connection", "It is tried again."},
    {1153, TR_SQL_BAD, "%s does not take that much at once",
     "Raise max_allowed_packet there to limits.body and 1 MiB, or more; until then it has to be "
     "smaller."},
    {1406, TR_SQL_BAD, "%s has no room for a value", "Is the table as tarry sql migrate makes it?"},
    {1264, TR_SQL_BAD, "%s has no room for a value", "Is the table as tarry sql migrate makes it?"},
    {1366, TR_SQL_BAD, "%s does not take a value", "Is the table as tarry sql migrate makes it?"},
    {1048, TR_SQL_BAD, "%s does not take a value", "Is the table as tarry sql migrate makes it?"},
    {1665, TR_SQL_REFUSED, "%s has binlog_format = STATEMENT, which cannot be used with tarry",
     "Set it to ROW or MIXED there."},
    {2002, TR_SQL_AWAY, "%s cannot be reached", "Is it running, and does sql.url name it?"},
    {2003, TR_SQL_AWAY, "%s cannot be reached", "Is it running, and does sql.url name it?"},
    {2005, TR_SQL_AWAY, "the host of %s is not known", "Check sql.url."},
    {2006, TR_SQL_AWAY, "%s has gone away", "Is it running?"},
    {2013, TR_SQL_AWAY, "the connection to %s broke", "Is it running?"},
    {2026, TR_SQL_REFUSED, "%s wants TLS, which tarry does not speak to databases",
     "Let this user in without, inside a network that can be trusted."},
};

enum {
    FAULTS = sizeof faults / sizeof faults[0],
    DISK = 1030, /* Got error N "..." from storage engine: any error of a disk */
};
#define NO_SPACE "error 28"

void tr_sql_place(char *out, const struct tr_sql_url *url)
{
    if (url->socket[0] != '\0') {
        tr_text(out, TR_SQL_PLACE, "%s at %s", url->database, url->socket);
    } else {
        tr_text(out, TR_SQL_PLACE, strchr(url->host, ':') != NULL ? "%s at [%s]:%u" : "%s at %s:%u",
                url->database, url->host, url->port);
    }
}

static void copy_line(char *out, size_t size, const char *text)
{
    size_t len = 0;

    for (; *text != '\0' && len + 1 < size; text++) {
        out[len++] = (char)(*text >= ' ' && *text != '\x7f' ? *text : ' ');
    }
    out[len] = '\0';
}

/* "CREATE command denied to user ..." names what is lacking; else all that tarry needs. */
static void add_grant(struct tr_sql_fault *f, const struct tr_sql_access *a)
{
    const char *end = strstr(f->said, " command denied");
    char rights[TR_SQL_SAID] = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX";

    if (end != NULL) {
        tr_text(rights, sizeof rights, "%.*s", (int)(end - f->said), f->said);
    }
    tr_text(f->why + strlen(f->why), sizeof f->why - strlen(f->why), " GRANT %s ON `%s`.* TO %s;",
            rights, a->url.database, a->user != NULL ? a->user : "that user");
}

void tr_sql_fault_set(struct tr_sql_fault *f, const struct tr_sql_access *access, unsigned code,
                      const char *said)
{
    char place[TR_SQL_PLACE];
    unsigned i = 0;
    const char *advice;

    tr_sql_place(place, &access->url);
    f->code = code;
    copy_line(f->said, sizeof f->said, said);
    if (code == DISK && strstr(f->said, NO_SPACE) != NULL) {
        code = 1021;
    }
    while (i < FAULTS && faults[i].code != code) {
        i++;
    }
    if (i == FAULTS) {
        f->blame = code >= 2000 && code < 3000 ? TR_SQL_AWAY : TR_SQL_OTHER;
        tr_text(f->why, sizeof f->why, "%s says: %s (%u).", place, f->said, code);
        return;
    }
    f->blame = faults[i].blame;
    advice = faults[i].advice;
    if (strchr(faults[i].what, '%') == faults[i].what) {
        tr_text(f->why, sizeof f->why, "%s%s", place, faults[i].what + 2);
    } else {
        const char *at = strstr(faults[i].what, "%s");

        tr_text(f->why, sizeof f->why, "%.*s%s%s", (int)(at - faults[i].what), faults[i].what,
                place, at + 2);
    }
    tr_text(f->why + strlen(f->why), sizeof f->why - strlen(f->why), ": %s (%u). %s", f->said, code,
            advice);
    if (advice[strlen(advice) - 1] == ':') {
        add_grant(f, access);
    }
}
