/*
 * From left to right, by the first delimiter that ends a part:
 *
 *     ( "mariadb" | "mysql" ) "://" host [ ":" port ] "/" database
 *     ( "mariadb" | "mysql" ) ":///" database "?socket=" path
 *
 * An IPv6 address stands in brackets. Nothing is decoded: names of databases that would need it are
 * refused. So is a user or a password, which have keys of their own: URLs are shown.
 */

#include "cluster/sql_url.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

enum { PORT_DEFAULT = 3306 };

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '$';
}

static bool is_host_byte(char c)
{
    return is_name_byte(c) || c == '.' || c == ':' || c == '%';
}

/* Digits from 1 to 65535, to the end. */
static bool read_port(struct tr_sql_url *url, const char *at, size_t len)
{
    unsigned port = 0;

    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9') {
            return false;
        }
        port = port * 10 + (unsigned)(at[i] - '0');
    }
    url->port = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

/* HOST, HOST:PORT, [V6], [V6]:PORT. */
static bool read_host(struct tr_sql_url *url, const char *at, size_t len)
{
    const char *end = memchr(at, ':', len);
    size_t host;
    size_t skip = 0;

    if (at[0] == '[') {
        end = memchr(at, ']', len);
        if (end == NULL) {
            return false;
        }
        at++;
        len--;
        skip = 1;
    }
    host = end != NULL ? (size_t)(end - at) : len;
    if (host == 0 || host >= TR_SQL_HOST) {
        return false;
    }
    for (size_t i = 0; i < host; i++) {
        if (!is_host_byte(at[i])) {
            return false;
        }
    }
    memcpy(url->host, at, host);
    at += host + skip;
    len -= host + skip;
    return len == 0 || (at[0] == ':' && read_port(url, at + 1, len - 1));
}

static bool read_database(struct tr_sql_url *url, const char *at, size_t len)
{
    if (len == 0 || len >= TR_SQL_NAME) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_name_byte(at[i])) {
            return false;
        }
    }
    memcpy(url->database, at, len);
    return true;
}

static bool read_socket(struct tr_sql_url *url, const char *at)
{
    size_t len = strlen(at);

    if (strncmp(at, "?socket=", 8) != 0 || at[8] != '/' || len - 8 >= TR_SQL_PATH) {
        return false;
    }
    memcpy(url->socket, at + 8, len - 8);
    return true;
}

/* Where this byte is, or the end. */
static size_t until(const char *at, char stop)
{
    const char *found = memchr(at, stop, strlen(at));

    return found != NULL ? (size_t)(found - at) : strlen(at);
}

int tr_sql_url_read(struct tr_sql_url *url, const char *text, const char **why)
{
    size_t scheme = until(text, ':');
    const char *at = text + scheme;
    size_t host;
    size_t database;

    *url = (struct tr_sql_url){.port = PORT_DEFAULT};
    *why = "is no mariadb://HOST:PORT/DATABASE or mariadb:///DATABASE?socket=PATH";
    if (strncmp(at, "://", 3) != 0 || (!(scheme == 7 && memcmp(text, "mariadb", 7) == 0) &&
                                       !(scheme == 5 && memcmp(text, "mysql", 5) == 0))) {
        return TARRY_EINVAL;
    }
    at += 3;
    host = until(at, '/');
    if (memchr(at, '@', host) != NULL) {
        *why = "has a user in it: say sql.user and sql.password, since URLs are shown";
        return TARRY_EINVAL;
    }
    if (at[host] != '/' || (host > 0 && !read_host(url, at, host))) {
        return TARRY_EINVAL;
    }
    at += host + 1;
    database = until(at, '?');
    if (!read_database(url, at, database)) {
        *why = "names no database: letters, digits, _, - and $, as in mariadb://HOST/tarry";
        return TARRY_EINVAL;
    }
    at += database;
    if (host == 0 ? read_socket(url, at) : *at == '\0') {
        return TARRY_OK;
    }
    return TARRY_EINVAL;
}
