/*
 * The command line of beanstalkd, for scripts that were written for it.
 *
 *     beanstalkd [-V] [-p11300] [-Vf50] [-l ADDR] ...
 *
 * Letters may be joined; the value of a flag is the rest of its argument, or else the next one,
 * whatever that begins with; the last of two wins; -h and -v end the reading where they stand.
 * What beanstalkd refuses ends with its exit status, 5. What it takes but tarry cannot do ends
 * with 2 like every wrong usage of tarry.
 *
 * Other than beanstalkd we listen on 127.0.0.1 unless -l says otherwise.
 */

#include "base/err.h"
#include "base/text.h"
#include "server/config_inner.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define PORT_DEFAULT 11300

/* One day; more is not more, and microseconds of it never overflow. */
#define SYNC_MS_MAX UINT64_C(86400000)

struct drop_in {
    struct tr_reading *r;
    const char *dir;     /* -b; NULL: none */
    const char *address; /* -l; NULL: none */
    const char *user;
    uint64_t port;
    uint64_t sync_ms; /* 0: always */
    uint64_t body_max;
    unsigned verbose;
    bool no_sync;
    bool port_given;
    bool sync_given;
    bool body_given;
    bool ended; /* -h or -v */
};

/* What beanstalkd refuses, too. */
__attribute__((format(printf, 2, 3))) static int refuse(struct drop_in *d, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    d->r->exit = TR_EXIT_DROP_IN;
    return tr_reading_refuse(d->r, "%s", text);
}

/* Digits only; what is too large for 64 bits is UINT64_MAX. */
static bool read_number(const char *text, uint64_t *out)
{
    uint64_t number = 0;

    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    }
    *out = number;
    return true;
}

static int read_size(struct drop_in *d, char flag, const char *value, uint64_t *out)
{
    if (!read_number(value, out)) {
        return refuse(d, "-%c takes a number, not \"%s\".", flag, value);
    }
    return TARRY_OK;
}

static int read_port(struct drop_in *d, const char *value)
{
    if (!read_number(value, &d->port) || d->port > UINT16_MAX) {
        return tr_reading_refuse(d->r, "-p takes a port from 0 to 65535, not \"%s\".", value);
    }
    d->port_given = true;
    return TARRY_OK;
}

static int read_body(struct drop_in *d, const char *value)
{
    int err = read_size(d, 'z', value, &d->body_max);

    d->body_given = true;
    if (err == TARRY_OK && (d->body_max < 1 || d->body_max > TR_CONFIG_BODY_MAX)) {
        return tr_reading_refuse(d->r,
                                 "-z takes 1 to %u bytes, not %s: tarry keeps no job with a body "
                                 "of more than 8 MiB.",
                                 TR_CONFIG_BODY_MAX, value);
    }
    return err;
}

static int read_sync(struct drop_in *d, const char *value)
{
    int err = read_size(d, 'f', value, &d->sync_ms);

    d->no_sync = false;
    d->sync_given = true;
    if (d->sync_ms > SYNC_MS_MAX) {
        d->sync_ms = SYNC_MS_MAX;
    }
    return err;
}

/* A flag that has a value. */
static int take_value(struct drop_in *d, char flag, const char *value)
{
    uint64_t unused;

    switch (flag) {
    case 'b':
        d->dir = value;
        return *value != '\0' ? TARRY_OK : tr_reading_refuse(d->r, "-b needs a directory.");
    case 'f':
        return read_sync(d, value);
    case 'l':
        d->address = value;
        return TARRY_OK;
    case 'p':
        return read_port(d, value);
    case 's':
        return read_size(d, flag, value, &unused);
    case 'u':
        d->user = value;
        return *value != '\0' ? TARRY_OK : tr_reading_refuse(d->r, "-u needs the name of a user.");
    default:
        TR_CHECK(flag == 'z');
        return read_body(d, value);
    }
}

/* A flag that has none. */
static int take_letter(struct drop_in *d, char flag)
{
    switch (flag) {
    case 'c': /* beanstalkd has no use for these two either */
    case 'n':
        break;
    case 'F':
        d->no_sync = true;
        d->sync_given = true;
        break;
    case 'V':
        d->verbose++;
        break;
    case 'h':
        d->r->config->command = TR_COMMAND_HELP_DROP_IN;
        d->ended = true;
        break;
    case 'v':
        d->r->config->command = TR_COMMAND_VERSION_DROP_IN;
        d->ended = true;
        break;
    default:
        return refuse(d, "there is no flag -%c.", flag);
    }
    return TARRY_OK;
}

/* One argument, and the next if the last flag of this one needs it. */
static int read_letters(struct drop_in *d, const char *letters, const char *next, int *used)
{
    int err = TARRY_OK;

    *used = 1;
    for (; err == TARRY_OK && !d->ended && *letters != '\0'; letters++) {
        if (strchr("bflpsuz", *letters) == NULL) {
            err = take_letter(d, *letters);
            continue;
        }
        if (letters[1] != '\0') {
            return take_value(d, *letters, letters + 1);
        }
        if (next == NULL) {
            return refuse(d, "-%c needs a value.", *letters);
        }
        *used = 2;
        return take_value(d, *letters, next);
    }
    return err;
}

static int read_args(struct drop_in *d, int first)
{
    const struct tr_config *c = d->r->config;
    int err = TARRY_OK;
    int used;

    for (int i = first; err == TARRY_OK && !d->ended && i < c->argc; i += used) {
        const char *arg = c->argv[i];

        used = 1;
        if (strcmp(arg, "--help") == 0) {
            err = take_letter(d, 'h');
        } else if (arg[0] != '-' || arg[1] == '\0') {
            err = refuse(d, "\"%s\" is no flag, and there is nothing but flags here.", arg);
        } else if (arg[1] == '-') {
            err = refuse(d, "there is no flag %s.", arg);
        } else {
            err = read_letters(d, arg + 1, i + 1 < c->argc ? c->argv[i + 1] : NULL, &used);
        }
    }
    return err;
}

bool tr_config_has_binlog(const char *dir)
{
    DIR *listing = opendir(dir);
    const struct dirent *entry;
    bool found = false;

    if (listing == NULL) {
        return false;
    }
    for (entry = readdir(listing); entry != NULL && !found; entry = readdir(listing)) {
        found = strncmp(entry->d_name, "binlog.", 7) == 0;
    }
    (void)closedir(listing);
    return found;
}

/* ---- from flags to settings ---- */

static int set_address(struct drop_in *d)
{
    struct tr_config *c = d->r->config;
    struct tr_place place = {.from = d->address != NULL || d->port_given ? TR_FROM_FLAG
                                                                         : TR_FROM_DEFAULT};
    const char *host = d->address != NULL ? d->address : "127.0.0.1";
    char text[TR_ADDRESS_TEXT];
    const char *why;

    if (tr_address_read_host(&c->beanstalk_addr, host, (uint16_t)d->port, &why) != TARRY_OK) {
        return tr_reading_refuse(d->r, "-l: \"%s\" %s.", host, why);
    }
    tr_address_text(&c->beanstalk_addr, text);
    return tr_config_note(d->r, TR_KEY_LISTEN_BEANSTALK, text, &place);
}

/* -f and -F mean nothing without -b, as there. */
static int set_sync(struct drop_in *d)
{
    struct tr_config *c = d->r->config;
    struct tr_place place = {.from = d->sync_given ? TR_FROM_FLAG : TR_FROM_DEFAULT};
    char text[32];

    c->sync_us = d->sync_ms * 1000;
    if (d->dir == NULL || d->no_sync) {
        c->sync = TR_SYNC_NEVER;
        tr_text(text, sizeof text, "never");
    } else if (d->sync_ms == 0) {
        c->sync = TR_SYNC_ALWAYS;
        tr_text(text, sizeof text, "always");
    } else {
        c->sync = TR_SYNC_INTERVAL;
        tr_text(text, sizeof text, "%" PRIu64 "ms", d->sync_ms);
    }
    return tr_config_note(d->r, TR_KEY_STORE_SYNC, text, &place);
}

/* The keys that have flags of their own here; all others have their defaults. */
static int set_rest(struct drop_in *d)
{
    static const char *const levels[] = {"warning", "info", "debug"};
    struct tr_place dir = {.from = d->dir != NULL ? TR_FROM_FLAG : TR_FROM_DEFAULT};
    struct tr_place body = {.from = d->body_given ? TR_FROM_FLAG : TR_FROM_DEFAULT};
    struct tr_place level = {.from = d->verbose > 0 ? TR_FROM_FLAG : TR_FROM_DEFAULT};
    struct tr_place http = {.from = TR_FROM_DEFAULT};
    char text[32];
    int err = tr_config_note(d->r, TR_KEY_STORE_PATH, d->dir, &dir);

    memset(d->r->given, 0, sizeof d->r->given);
    tr_text(text, sizeof text, "%" PRIu64, d->body_max);
    if (err == TARRY_OK) {
        err = tr_config_set(d->r, TR_KEY_LIMITS_BODY, text, &body);
    }
    if (err == TARRY_OK) {
        err =
            tr_config_set(d->r, TR_KEY_LOG_LEVEL, levels[d->verbose < 2 ? d->verbose : 2], &level);
    }
    return err == TARRY_OK ? tr_config_set(d->r, TR_KEY_LISTEN_HTTP, "off", &http) : err;
}

int tr_config_read_drop_in(struct tr_reading *r, int first)
{
    struct drop_in d = {
        .r = r, .port = PORT_DEFAULT, .sync_ms = 50, .body_max = TR_CONFIG_BODY_DEFAULT};
    int err;

    r->config->command = TR_COMMAND_SERVE;
    r->config->drop_in = true;
    r->advice = "tarry beanstalkd -h";
    err = read_args(&d, first);
    if (err != TARRY_OK || d.ended) {
        return err;
    }
    r->config->user = d.user;
    err = tr_config_set_defaults(r);
    if (err == TARRY_OK) {
        err = set_address(&d);
    }
    if (err == TARRY_OK) {
        err = set_sync(&d);
    }
    if (err == TARRY_OK) {
        err = set_rest(&d);
    }
    return err == TARRY_OK ? tr_config_finish(r) : err;
}
