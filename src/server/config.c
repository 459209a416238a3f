/*
 * One config out of four sources.
 *
 *     default  <  file  <  environment  <  command line (flags and --set)
 *
 * They are read in this order, and each value is checked where it stands: a bad line in the file
 * is an error even if a flag hides it. What is set later replaces what was set earlier, and the
 * setting remembers where it came from. What concerns several keys is checked at the end.
 *
 * The drop-in for beanstalkd has one source, its own flags (config_drop_in.c): a machine that has
 * TARRY_STORE_PATH set for one server must not turn the temporary store of another into that one.
 *
 * A reload is a second reading of the same sources into a config of its own; only when that has
 * succeeded, and the server can go on with it, are the values taken over that can change while it
 * runs. Which these are, and why the others cannot, is in the table of keys; live.c has, for each
 * of them, what to do then.
 */

#include "server/config.h"

#include "base/err.h"
#include "base/text.h"
#include "server/config_inner.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tr_config_from_name(enum tr_from from)
{
    static const char *const names[] = {
        [TR_FROM_DEFAULT] = "default",
        [TR_FROM_FILE] = "file",
        [TR_FROM_ENVIRONMENT] = "environment",
        [TR_FROM_FLAG] = "flag",
    };

    TR_CHECK((unsigned)from < sizeof names / sizeof names[0]);
    return names[from];
}

/* ---- the environment ---- */

/* The names under TARRY_ that are not for the config: of the tools, and of a command that `tarry
 * work` runs, which may well start a server. */
static bool is_foreign(const char *name, size_t len)
{
    static const char *const others[] = {
        "BIN",        "CONFIG",  "SERVER",   "SIM",    "TOKEN",  "CA",       "ID",      "LEASE",
        "LEASE_MS",   "TOPIC",   "KEY",      "TAG",    "STATE",  "PRIORITY", "DUE",     "DUE_MS",
        "CREATED_MS", "ATTEMPT", "ATTEMPTS", "TTR_MS", "TTL_MS", "RETRIES",  "BACKOFF", "LATE_MS"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strlen(others[i]) == len && memcmp(others[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Kubernetes puts variables into each container for each service: for one named tarry or
 * tarry-http, TARRY_SERVICE_HOST, TARRY_PORT, TARRY_HTTP_PORT_11301_TCP_ADDR and the like.
 */
static bool is_kubernetes(const char *name, size_t len)
{
    for (size_t i = 0; i + 4 <= len; i++) {
        bool starts = i == 0 || name[i - 1] == '_';

        if (starts && i + 8 <= len && memcmp(name + i, "SERVICE_", 8) == 0) {
            return true;
        }
        if (starts && memcmp(name + i, "PORT", 4) == 0 &&
            (i + 4 == len || (name[i + 4] == '_' && isdigit((unsigned char)name[i + 5])))) {
            return true;
        }
    }
    return false;
}

/* Is len bytes of name the key in capitals, with _ between section and name? */
static bool is_env_key(const struct tr_key_row *row, const char *name, size_t len)
{
    if (strlen(row->full) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int want = row->full[i] == '.' ? '_' : toupper((unsigned char)row->full[i]);

        if ((unsigned char)name[i] != want) {
            return false;
        }
    }
    return true;
}

/* TOKENS_NAME, unless Kubernetes has a service of that name. */
static bool is_env_token(const char *name, size_t len, const char *value)
{
    return len > 7 && memcmp(name, "TOKENS_", 7) == 0 &&
           (!is_kubernetes(name, len) || strstr(value, "sha256:") != NULL);
}

static int read_env_token(struct tr_reading *r, const char *variable, const char *equals)
{
    struct tr_place place = {.from = TR_FROM_ENVIRONMENT};
    const char *name = variable + strlen("TARRY_TOKENS_");
    char small[TR_TOKEN_NAME_MAX + 2] = "";
    char whole[128];

    for (size_t i = 0; name + i < equals && i < sizeof small - 1; i++) {
        small[i] = (char)tolower((unsigned char)name[i]);
    }
    tr_text(whole, sizeof whole, "%.*s", (int)(equals - variable), variable);
    place.name = whole;
    return tr_config_set_token(r, small, equals + 1, &place);
}

/* TR_KEY_COUNT: none. */
static enum tr_key find_env_key(const char *name, size_t len)
{
    unsigned i = 0;

    while (i < TR_KEY_COUNT && !is_env_key(&tr_key_rows[i], name, len)) {
        i++;
    }
    return (enum tr_key)i;
}

/* Does it begin as a key does, with a section? Then somebody meant one. */
static bool is_of_section(const char *name, size_t len)
{
    const char *end = memchr(name, '_', len);
    size_t first = end != NULL ? (size_t)(end - name) : len;
    char small[16] = "";

    if (first >= sizeof small) {
        return false;
    }
    for (size_t i = 0; i < first; i++) {
        small[i] = (char)tolower((unsigned char)name[i]);
    }
    return strcmp(small, "tokens") == 0 || tr_config_has_section(small, first);
}

static int read_variable(struct tr_reading *r, const char *variable, const char *equals)
{
    struct tr_place place = {.from = TR_FROM_ENVIRONMENT};
    const char *name = variable + strlen("TARRY_");
    size_t len = (size_t)(equals - name);
    enum tr_key key = find_env_key(name, len);
    char whole[64];

    if (is_env_token(name, len, equals + 1)) {
        return read_env_token(r, variable, equals);
    }
    if (key != TR_KEY_COUNT) {
        tr_text(whole, sizeof whole, "%.*s", (int)(equals - variable), variable);
        place.name = whole;
        return tr_config_set(r, key, equals + 1, &place);
    }
    if (is_foreign(name, len) || is_kubernetes(name, len) || !is_of_section(name, len)) {
        return TARRY_OK; /* of the last kind warn_env tells */
    }
    return tr_reading_refuse(r,
                             "there is no key for the environment variable %.*s; the names are "
                             "TARRY_SECTION_KEY, such as TARRY_STORE_PATH. Unset it.",
                             (int)(equals - variable), variable);
}

static int read_env(struct tr_reading *r, char **env)
{
    int err = TARRY_OK;

    for (; err == TARRY_OK && *env != NULL; env++) {
        const char *equals = strchr(*env, '=');

        if (equals != NULL && strncmp(*env, "TARRY_", 6) == 0) {
            err = read_variable(r, *env, equals);
        }
    }
    return err;
}

/* The file's name: the flag, or TARRY_CONFIG, or none. */
static int find_file(struct tr_reading *r, const struct tr_flags *flags)
{
    struct tr_config *c = r->config;

    c->config_path = flags->config_path;
    for (char **env = c->env; c->config_path == NULL && *env != NULL; env++) {
        if (strncmp(*env, "TARRY_CONFIG=", 13) == 0) {
            c->config_path = *env + 13;
            if (*c->config_path == '\0') {
                return tr_reading_refuse(r, "TARRY_CONFIG is empty: name a file, or unset it.");
            }
        }
    }
    return TARRY_OK;
}

/* ---- all sources ---- */

int tr_config_set_defaults(struct tr_reading *r)
{
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && i < TR_KEY_COUNT; i++) {
        struct tr_place place = {.from = TR_FROM_DEFAULT, .name = tr_key_rows[i].full};

        err = tr_config_set(r, (enum tr_key)i, tr_key_rows[i].fallback, &place);
    }
    r->config->sync_us = 50000;
    return err;
}

/* One of --set, NAME=VALUE. */
static int set_token(struct tr_reading *r, const char *pair)
{
    struct tr_place place = {.from = TR_FROM_FLAG};
    size_t len = strcspn(pair, "=");
    char name[TR_TOKEN_NAME_MAX + 2] = "";
    char whole[128];

    memcpy(name, pair, len < sizeof name - 1 ? len : sizeof name - 1);
    tr_text(whole, sizeof whole, "--set tokens.%s", name);
    place.name = whole;
    return tr_config_set_token(r, name, pair + len + 1, &place);
}

static int set_flags(struct tr_reading *r, const struct tr_flags *flags)
{
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && i < flags->token_count; i++) {
        err = set_token(r, flags->tokens[i]);
    }

    for (unsigned i = 0; err == TARRY_OK && i < TR_KEY_COUNT; i++) {
        struct tr_place place = {.from = TR_FROM_FLAG, .name = flags->name[i]};

        if (flags->value[i] != NULL) {
            err = tr_config_set(r, (enum tr_key)i, flags->value[i], &place);
        }
    }
    return err;
}

static int check_open(struct tr_reading *r, enum tr_key key, const struct tr_address *a)
{
    const struct tr_setting *setting = &r->config->settings[key];
    char where[512] = "";

    if (tr_address_is_local(a) || r->config->insecure || r->config->token_count > 0) {
        return TARRY_OK;
    }
    if (setting->from == TR_FROM_FILE) {
        tr_text(where, sizeof where, "%s:%d: ", r->config->config_path, setting->line);
    }
    return tr_reading_refuse(
        r,
        "%s%s is %s, which other machines can reach, and there are no tokens: whoever gets there "
        "may take and delete every job. Make a token (tarry token new), listen on 127.0.0.1, or if "
        "that network can be trusted say --insecure (listen.insecure = on).",
        where, tr_key_rows[key].full, setting->text);
}

/* The text, or NULL for "none". */
static const char *text_of(const struct tr_config *c, enum tr_key key)
{
    const char *text = c->settings[key].text;

    return text != NULL && strcmp(text, "none") != 0 ? text : NULL;
}

/* The name of a file, or NULL for "off". */
static const char *file_of(const struct tr_config *c, enum tr_key key)
{
    const char *text = c->settings[key].text;

    return text != NULL && strcmp(text, "off") != 0 ? text : NULL;
}

/* What follows from the settings. */
static void derive(struct tr_config *c)
{
    c->data_path = c->settings[TR_KEY_STORE_PATH].text;
    c->backup_root = file_of(c, TR_KEY_STORE_BACKUP_ROOT);
    c->tls_cert = file_of(c, TR_KEY_TLS_CERT);
    c->tls_key = file_of(c, TR_KEY_TLS_KEY);
    c->tls_client_ca = file_of(c, TR_KEY_TLS_CLIENT_CA);
    c->sync_text = c->on_redis ? "redis" : c->settings[TR_KEY_STORE_SYNC].text;
    c->redis_servers = text_of(c, TR_KEY_REDIS_SERVERS);
    c->redis_user = text_of(c, TR_KEY_REDIS_USER);
    c->redis_password = text_of(c, TR_KEY_REDIS_PASSWORD);
    c->sql_url = text_of(c, TR_KEY_SQL_URL);
    c->sql_user = text_of(c, TR_KEY_SQL_USER);
    c->sql_password = text_of(c, TR_KEY_SQL_PASSWORD);
    c->redis_prefix = c->settings[TR_KEY_REDIS_PREFIX].text;
    c->zookeeper_servers = text_of(c, TR_KEY_ZOOKEEPER_SERVERS);
    c->zookeeper_root = c->settings[TR_KEY_ZOOKEEPER_ROOT].text;
    c->listen_beanstalk = c->settings[TR_KEY_LISTEN_BEANSTALK].text;
    c->listen_http = c->settings[TR_KEY_LISTEN_HTTP].text;
    c->http_hosts = c->settings[TR_KEY_HTTP_HOSTS].text;
    if (!c->drop_in && c->settings[TR_KEY_LIMITS_BODY].from == TR_FROM_DEFAULT) {
        c->body_max = TR_CONFIG_BODY_DEFAULT; /* what clients of beanstalkd are used to */
    }
    if (c->drop_in) {
        c->connections_max = UINT32_MAX; /* beanstalkd has no limit of its own */
    }
}

/* What is of the embedded engine only; store.path may be given: nobody uses it. */
static int check_redis(struct tr_reading *r)
{
    const struct tr_config *c = r->config;
    const char *what = NULL;

    if (!c->on_redis) {
        return TARRY_OK;
    }
    if (c->redis_servers == NULL) {
        return tr_reading_refuse(r, "--engine redis needs to know where Redis is: say "
                                    "--set redis.servers=HOST:PORT, such as 127.0.0.1:6379, or of "
                                    "a cluster a few of its servers with commas between them.");
    }
    if (c->redis_user != NULL && c->redis_password == NULL) {
        return tr_reading_refuse(r, "redis.user is given, and redis.password is not: give both.");
    }
    what = c->settings[TR_KEY_STORE_SYNC].from != TR_FROM_DEFAULT      ? "store.sync"
           : c->read_only                                              ? "store.read_only"
           : c->test_clock                                             ? "clock.test"
           : c->backup_root != NULL                                    ? "store.backup_root"
           : c->settings[TR_KEY_LIMITS_TOPICS].from != TR_FROM_DEFAULT ? "limits.topics"
                                                                       : NULL;
    if (what != NULL) {
        return tr_reading_refuse(r,
                                 "%s is of the embedded engine: leave it out with --engine redis "
                                 "(Redis has its own settings, such as appendfsync).",
                                 what);
    }
    return TARRY_OK;
}

int tr_config_finish(struct tr_reading *r)
{
    struct tr_config *c = r->config;
    int err = TARRY_OK;

    derive(c);
    if (!c->drop_in) {
        err = check_redis(r);
    }
    if (err == TARRY_OK && !c->drop_in) {
        err = check_open(r, TR_KEY_LISTEN_BEANSTALK, &c->beanstalk_addr);
    }
    return err == TARRY_OK && !c->drop_in ? check_open(r, TR_KEY_LISTEN_HTTP, &c->http_addr) : err;
}

static void next_source(struct tr_reading *r)
{
    memset(r->given, 0, sizeof r->given);
}

static int read_sources(struct tr_reading *r, const struct tr_flags *flags)
{
    struct tr_config *c = r->config;
    int err = tr_config_set_defaults(r);

    next_source(r);
    if (err == TARRY_OK) {
        err = find_file(r, flags);
    }
    if (err == TARRY_OK && c->config_path != NULL) {
        err = tr_config_read_file(r, c->config_path);
    }
    next_source(r);
    if (err == TARRY_OK) {
        err = read_env(r, c->env);
    }
    next_source(r);
    if (err == TARRY_OK) {
        err = set_flags(r, flags);
    }
    return err == TARRY_OK ? tr_config_finish(r) : err;
}

int tr_config_read_all(struct tr_reading *r, struct tr_config *c, int argc, char **argv, char **env)
{
    struct tr_flags flags;
    int err;

    *c = (struct tr_config){.argc = argc, .argv = argv, .env = env};
    *r = (struct tr_reading){.config = c, .exit = TR_EXIT_USAGE};
    err = tr_config_read_command(r, &flags);
    if (err == TARRY_OK && c->command == TR_COMMAND_SERVE && !c->drop_in) {
        err = read_sources(r, &flags);
    }
    free(flags.tokens);
    return err;
}

enum tr_exit tr_config_read(struct tr_config *c, int argc, char **argv, char **env)
{
    struct tr_reading r;

    if (tr_config_read_all(&r, c, argc, argv, env) == TARRY_OK) {
        return TR_EXIT_FINE;
    }
    fprintf(stderr, "tarry: %s\nTry: %s\n", r.why, r.advice);
    return r.exit;
}

void tr_config_fini(struct tr_config *c)
{
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        free(c->settings[i].text);
    }
    tr_config_drop_tokens(c);
    *c = (struct tr_config){.command = TR_COMMAND_HELP};
}

static void warn_open(const struct tr_config *c, const struct tr_address *a, const char *text,
                      struct tr_logger *log)
{
    if (!tr_address_is_local(a) && c->token_count == 0) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "%s can be reached from other machines, and whoever gets there may take and "
                      "delete every job",
                      text);
    } else if (!tr_address_is_local(a) && c->tls_cert == NULL) {
        tr_logger_say(
            log, TR_LEVEL_WARNING,
            "%s can be reached from other machines, and there is no TLS (tls.cert): tokens "
            "and jobs can be read on the way",
            text);
    }
}

/* Variables that may be meant for the config, but cannot be: other programs have theirs, too. */
static void warn_env(const struct tr_config *c, struct tr_logger *log)
{
    for (char **env = c->env; !c->drop_in && *env != NULL; env++) {
        const char *name = *env + strlen("TARRY_");
        const char *equals = strchr(*env, '=');
        size_t len = equals != NULL && equals > name ? (size_t)(equals - name) : 0;

        if (strncmp(*env, "TARRY_", 6) == 0 && len > 0 && find_env_key(name, len) == TR_KEY_COUNT &&
            !is_foreign(name, len) && !is_kubernetes(name, len) && !is_of_section(name, len)) {
            tr_logger_say(log, TR_LEVEL_WARNING,
                          "the environment variable %.*s is ignored: it is no key (the names are "
                          "TARRY_SECTION_KEY, such as TARRY_STORE_PATH)",
                          (int)(equals - *env), *env);
        }
    }
}

void tr_config_warn(const struct tr_config *c, struct tr_logger *log)
{
    warn_env(c, log);
    if (c->settings[TR_KEY_CLOCK_START].from != TR_FROM_DEFAULT && !c->test_clock) {
        tr_logger_say(log, TR_LEVEL_WARNING, "clock.start means nothing without clock.test");
    }
    if (!c->on_redis && c->redis_servers != NULL) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "redis.servers means nothing without --engine redis: jobs are in %s",
                      c->data_path != NULL ? c->data_path : "a temporary folder");
    }
    if (!c->on_redis && c->sql_url != NULL) {
        tr_logger_say(log, TR_LEVEL_WARNING, "sql.url means nothing without --engine redis");
    }
    if (!c->on_redis && c->zookeeper_servers != NULL) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "zookeeper.servers means nothing without --engine redis");
    }
    if (!c->on_redis && c->settings[TR_KEY_CLUSTER_SLOTS].from != TR_FROM_DEFAULT) {
        tr_logger_say(log, TR_LEVEL_WARNING, "cluster.slots means nothing without --engine redis");
    }
    if (c->on_redis && c->settings[TR_KEY_STORE_PATH].from == TR_FROM_FLAG) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "--data means nothing with --engine redis: jobs are in %s",
                      c->sql_url != NULL ? "the database" : "Redis");
    }
    if (c->on_redis && c->sql_url == NULL && (c->sql_user != NULL || c->sql_password != NULL)) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "sql.user and sql.password mean nothing without sql.url: jobs are in Redis");
    }
    if (c->drop_in && c->data_path != NULL && tr_config_has_binlog(c->data_path)) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "%s holds a binlog of beanstalkd, which tarry does not read: the jobs in it "
                      "are not taken over",
                      c->data_path);
    }
    warn_open(c, &c->beanstalk_addr, c->listen_beanstalk, log);
    warn_open(c, &c->http_addr, c->listen_http, log);
}

/* ---- reading again ---- */

static bool same(const struct tr_setting *a, const struct tr_setting *b)
{
    return a->text != NULL && b->text != NULL && strcmp(a->text, b->text) == 0;
}

/* Says what is different now; gives how many are. */
static unsigned compare(const struct tr_config *now, const struct tr_config *fresh,
                        const struct tr_logger *log)
{
    unsigned count = 0;

    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const char *old = now->settings[i].text;
        const char *new = fresh->settings[i].text;

        if (same(&now->settings[i], &fresh->settings[i])) {
            continue;
        }
        count++;
        if (tr_key_rows[i].secret) {
            tr_logger_say(log, TR_LEVEL_WARNING,
                          "config read again: %s stays as it is until a restart: %s",
                          tr_key_rows[i].full, tr_key_rows[i].fixed);
        } else if (tr_key_rows[i].live) {
            tr_logger_say(log, TR_LEVEL_INFO, "config read again: %s is now %s, was %s",
                          tr_key_rows[i].full, new, old);
        } else {
            tr_logger_say(log, TR_LEVEL_WARNING,
                          "config read again: %s stays %s until a restart, which would make it "
                          "%s: %s",
                          tr_key_rows[i].full, old, new, tr_key_rows[i].fixed);
        }
    }
    return count;
}

/* The new setting where that is possible; the other text goes with `fresh`. */
static void take_over(struct tr_config *now, struct tr_config *fresh)
{
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_key_row *row = &tr_key_rows[i];
        struct tr_setting old = now->settings[i];
        const char *why;

        if (!row->live && !same(&old, &fresh->settings[i])) {
            continue;
        }
        now->settings[i] = fresh->settings[i];
        fresh->settings[i] = old;
        if (row->live) {
            int err = row->apply(now, now->settings[i].text, &why);

            TR_CHECK(err == TARRY_OK); /* as it was when it was read */
        } else {                       /* the server may be using this very string */
            fresh->settings[i].text = now->settings[i].text;
            now->settings[i].text = old.text;
        }
    }
    derive(now);
    tr_config_drop_tokens(now);
    now->tokens = fresh->tokens;
    now->token_places = fresh->token_places;
    now->token_count = fresh->token_count;
    fresh->tokens = NULL;
    fresh->token_places = NULL;
    fresh->token_count = 0;
}

/* The ports stay where they are until a restart, so it is their addresses that count, and not those
 * that were read: without the last token whoever reaches them could do everything. */
static int check_still_guarded(struct tr_reading *r, const struct tr_config *now)
{
    const struct tr_config *fresh = r->config;
    bool local = tr_address_is_local(&now->beanstalk_addr) && tr_address_is_local(&now->http_addr);

    if (local || fresh->insecure || fresh->token_count > 0 || now->token_count == 0) {
        return TARRY_OK;
    }
    return tr_reading_refuse(
        r,
        "there would be no token any more, but other machines can reach %s until a restart. Keep a "
        "token and restart, or if that network can be trusted say listen.insecure = on.",
        tr_address_is_local(&now->http_addr) ? now->listen_beanstalk : now->listen_http);
}

bool tr_config_is_live(enum tr_key key)
{
    TR_CHECK((unsigned)key < TR_KEY_COUNT);
    return tr_key_rows[key].live;
}

int tr_config_reload(struct tr_config *c, const struct tr_logger *log, tr_config_check_fn *check,
                     void *ctx)
{
    struct tr_config fresh;
    struct tr_reading r;
    int err;

    if (c->drop_in) {
        tr_logger_say(log, TR_LEVEL_INFO, "there is no config file to read again");
        return TARRY_OK;
    }
    err = tr_config_read_all(&r, &fresh, c->argc, c->argv, c->env);
    if (err == TARRY_OK) {
        err = check_still_guarded(&r, c);
    }
    if (err == TARRY_OK && check != NULL) {
        err = check(ctx, &fresh, r.why, sizeof r.why);
    }
    if (err != TARRY_OK) {
        tr_logger_say(log, TR_LEVEL_ERROR, "the config was not taken over, all stays as it was: %s",
                      r.why);
    } else {
        if (compare(c, &fresh, log) + tr_config_compare_tokens(c, &fresh, log) == 0) {
            tr_logger_say(log, TR_LEVEL_INFO, "%s",
                          c->config_path != NULL ? "config read again: nothing has changed"
                                                 : "there is no config file to read again");
        }
        take_over(c, &fresh);
    }
    tr_config_fini(&fresh);
    return err;
}
