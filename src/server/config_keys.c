/*
 * The table of keys: all that is special about one key stands in its row. Flags, --set, the
 * environment, the file and a reload work from the table; a new key is a number in config.h, a row
 * here, a line in the help, one in doc/config.md and one in contrib/tarry.conf. Its row says that
 * it is `live`, and live.c what to do when it changes, or `fixed`, and why.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/eval.h"
#include "cluster/place.h"
#include "cluster/sql_url.h"
#include "engine/record.h"
#include "rules/duration.h"
#include "rules/moment.h"
#include "server/config_inner.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static_assert(TR_CONFIG_BODY_MAX == TR_BODY_MAX, "no port may take more than the engine");

int tr_reading_refuse(struct tr_reading *r, const char *format, ...)
{
    va_list args;

    if (r->why[0] == '\0') {
        va_start(args, format);
        tr_text_list(r->why, sizeof r->why, format, args);
        va_end(args);
    }
    return TARRY_EINVAL;
}

int tr_reading_no_memory(struct tr_reading *r)
{
    r->exit = TR_EXIT_FAILED;
    (void)tr_reading_refuse(r, "there is not enough memory to read the config.");
    return TARRY_ENOMEM;
}

/* ---- what the values mean ---- */

static const char *const sync_names[] = {
    [TR_SYNC_ALWAYS] = "always",
    [TR_SYNC_INTERVAL] = "50ms",
    [TR_SYNC_NEVER] = "never",
};

enum { SYNCS = sizeof sync_names / sizeof sync_names[0] };

enum {
    HEADER_BYTES_MIN = 1024,
    HEADER_BYTES_MAX = 1 << 20,
    RATE_MAX = 1 << 30,
    SQL_CONNECTIONS_MAX = 64,
    SQL_BATCH_MAX = 1024,
    HOT_MAX_LEAST = 100,
    ROOT_MAX = 200,
    SHOWN_MAX = 512,
    MEMORY_AUTO = 75 /* percent */
};

#define MEMORY_MAX (UINT64_C(1) << 44)

#define BUFFERS_MIN (UINT32_C(64) << 20) /* so that the largest request has room */
#define SCRUB_LEAST_US UINT64_C(60000000)
#define TIME_MIN_US UINT64_C(10000)
#define LEASE_LEAST_US UINT64_C(3000000)
#define HOT_WINDOW_LEAST_US UINT64_C(60000000)
#define RECONCILE_LEAST_US UINT64_C(10000000)
#define REPLICAS_MOST 16
#define SESSION_LEAST_US UINT64_C(2000000)
#define SESSION_MOST_US UINT64_C(600000000)
#define TIME_MAX_US (UINT64_C(86400) * 1000000)

static int apply_path(struct tr_config *c, const char *value, const char **why)
{
    (void)c; /* tr_config_finish takes the text */
    (void)value;
    (void)why;
    return TARRY_OK;
}

static int apply_sync(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    for (unsigned i = 0; i < SYNCS; i++) {
        if (strcmp(value, sync_names[i]) == 0) {
            c->sync = (enum tr_sync)i;
            return TARRY_OK;
        }
    }
    return TARRY_EINVAL;
}

static int read_switch(const char *value, bool *on)
{
    *on = strcmp(value, "on") == 0;
    return *on || strcmp(value, "off") == 0 ? TARRY_OK : TARRY_EINVAL;
}

static int apply_read_only(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->read_only);
}

static int apply_test_clock(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->test_clock);
}

static int apply_clock_start(struct tr_config *c, const char *value, const char **why)
{
    int64_t us = 0;

    if (strcmp(value, "now") != 0) {
        if (tr_moment_read(value, strlen(value), &us, why) != TARRY_OK) {
            return TARRY_EINVAL;
        }
        if (us <= 0) {
            *why = "is before 1970";
            return TARRY_EINVAL;
        }
    }
    c->clock_start_us = (uint64_t)us;
    return TARRY_OK;
}

static int apply_beanstalk(struct tr_config *c, const char *value, const char **why)
{
    return tr_address_read(&c->beanstalk_addr, value, why);
}

static int apply_http(struct tr_config *c, const char *value, const char **why)
{
    return tr_address_read(&c->http_addr, value, why);
}

static int apply_insecure(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->insecure);
}

static int apply_engine(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    c->on_redis = strcmp(value, "redis") == 0;
    return c->on_redis || strcmp(value, "local") == 0 ? TARRY_OK : TARRY_EINVAL;
}

/* HOST:PORT; the host may be an IPv6 address, best in brackets. A password has a key of its own:
 * addresses are shown. */
static bool is_server(const char *at, size_t len)
{
    size_t digits = 0;
    unsigned port = 0;

    while (digits < len && at[len - digits - 1] >= '0' && at[len - digits - 1] <= '9') {
        digits++;
    }
    if (digits == 0 || digits > 5 || len < digits + 2 || at[len - digits - 1] != ':') {
        return false;
    }
    for (size_t i = len - digits; i < len; i++) {
        port = port * 10 + (unsigned)(at[i] - '0');
    }
    for (size_t i = 0; i < len; i++) {
        if (at[i] <= ' ' || at[i] > '~' || at[i] == '@' || at[i] == '/') {
            return false;
        }
    }
    return port > 0 && port <= UINT16_MAX;
}

static int apply_servers(struct tr_config *c, const char *value, const char **why)
{
    (void)c; /* tr_config_finish takes the text */
    (void)why;
    if (strcmp(value, "none") == 0) {
        return TARRY_OK;
    }
    for (const char *at = value;;) {
        size_t len = strcspn(at, ",");

        if (!is_server(at, len)) {
            return TARRY_EINVAL;
        }
        if (at[len] == '\0') {
            return TARRY_OK;
        }
        at += len + 1;
    }
}

static int apply_prefix(struct tr_config *c, const char *value, const char **why)
{
    struct tr_layout layout;

    (void)c;
    (void)why;
    return tr_layout_init(&layout, value, 1);
}

static int read_long_bytes(const char *value, uint64_t least, uint64_t most, uint64_t *bytes)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {{"", 1},          {"k", 1024},    {"KiB", 1024},   {"M", 1 << 20},
                 {"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30}};
    size_t digits = strspn(value, "0123456789");
    uint64_t number = 0;

    if (digits == 0 || digits > 9) {
        return TARRY_EINVAL;
    }
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (uint64_t)(value[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(value + digits, units[i].suffix) == 0) {
            *bytes = number * units[i].factor;
            return *bytes >= least && *bytes <= most ? TARRY_OK : TARRY_EINVAL;
        }
    }
    return TARRY_EINVAL;
}

static int read_bytes(const char *value, uint64_t least, uint64_t most, uint32_t *bytes)
{
    uint64_t number = 0;
    int err = read_long_bytes(value, least, most, &number);

    *bytes = (uint32_t)number;
    return err;
}

static int apply_body(struct tr_config *c, const char *value, const char **why)
{
    int err = read_bytes(value, 1, TR_CONFIG_BODY_MAX, &c->http_body_max);

    (void)why;
    c->body_max = c->http_body_max;
    return err;
}

static int apply_header_bytes(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, HEADER_BYTES_MIN, HEADER_BYTES_MAX, &c->header_bytes);
}

/* From 10 ms to a day. */
static int read_time(const char *value, uint64_t *us)
{
    const char *why;
    int err = tr_duration_read(value, strlen(value), us, &why);

    return err == TARRY_OK && *us >= TIME_MIN_US && *us <= TIME_MAX_US ? TARRY_OK : TARRY_EINVAL;
}

static int apply_header(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_time(value, &c->header_us);
}

static int apply_idle(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_time(value, &c->idle_us);
}

static int apply_allow_private(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->allow_private);
}

static int apply_classic(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->http_classic);
}

static int apply_background(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, 0, RATE_MAX, &c->background_rate);
}

static int apply_scrub_rate(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, 0, RATE_MAX, &c->scrub_rate);
}

static int apply_scrub_every(struct tr_config *c, const char *value, const char **why)
{
    int err = tr_duration_read(value, strlen(value), &c->scrub_every_us, why);

    if (err == TARRY_OK && c->scrub_every_us < SCRUB_LEAST_US) {
        *why = "is too often: it takes a minute at least";
        err = TARRY_EINVAL;
    }
    return err;
}

static int read_count(const char *value, uint64_t least, uint32_t *count)
{
    size_t digits = strspn(value, "0123456789");
    uint64_t number = 0;

    if (digits == 0 || digits > 9 || value[digits] != '\0') {
        return TARRY_EINVAL;
    }
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (uint64_t)(value[i] - '0');
    }
    *count = (uint32_t)number;
    return number >= least ? TARRY_OK : TARRY_EINVAL;
}

static int apply_sql_url(struct tr_config *c, const char *value, const char **why)
{
    struct tr_sql_url url;

    (void)c; /* tr_config_finish takes the text */
    return strcmp(value, "none") == 0 ? TARRY_OK : tr_sql_url_read(&url, value, why);
}

static int apply_sql_connections(struct tr_config *c, const char *value, const char **why)
{
    int err = read_count(value, 1, &c->sql_connections);

    (void)why;
    return err == TARRY_OK && c->sql_connections <= SQL_CONNECTIONS_MAX ? TARRY_OK : TARRY_EINVAL;
}

static int apply_sql_batch(struct tr_config *c, const char *value, const char **why)
{
    int err = read_count(value, 1, &c->sql_batch);

    (void)why;
    return err == TARRY_OK && c->sql_batch <= SQL_BATCH_MAX ? TARRY_OK : TARRY_EINVAL;
}

static int apply_slots(struct tr_config *c, const char *value, const char **why)
{
    struct tr_layout layout;
    int err = read_count(value, 1, &c->cluster_slots);

    (void)why;
    return err == TARRY_OK ? tr_layout_init(&layout, "", c->cluster_slots) : err;
}

static int apply_redis_timeout(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_time(value, &c->redis_timeout_us);
}

static int apply_wait_replicas(struct tr_config *c, const char *value, const char **why)
{
    int err = read_count(value, 0, &c->redis_wait_replicas);

    (void)why;
    return err == TARRY_OK && c->redis_wait_replicas > REPLICAS_MOST ? TARRY_EINVAL : err;
}

static int apply_lease(struct tr_config *c, const char *value, const char **why)
{
    int err = read_time(value, &c->cluster_lease_us);

    if (err == TARRY_OK && c->cluster_lease_us < LEASE_LEAST_US) {
        *why = "is too short: a node that is only busy would be taken for dead; 3s at least";
        err = TARRY_EINVAL;
    }
    return err;
}

static int apply_hot_window(struct tr_config *c, const char *value, const char **why)
{
    int err = read_time(value, &c->cluster_hot_window_us);

    if (err == TARRY_OK && (c->cluster_hot_window_us < HOT_WINDOW_LEAST_US ||
                            c->cluster_hot_window_us > TR_HOT_WINDOW_MAX_US)) {
        *why = "is not from 1m to 1h";
        err = TARRY_EINVAL;
    }
    return err;
}

static int apply_hot_max(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_count(value, HOT_MAX_LEAST, &c->cluster_hot_max);
}

static int apply_reconcile(struct tr_config *c, const char *value, const char **why)
{
    int err = read_time(value, &c->cluster_reconcile_us);

    if (err == TARRY_OK && c->cluster_reconcile_us < RECONCILE_LEAST_US) {
        *why = "is too short: all rows would be read all the time; 10s at least";
        err = TARRY_EINVAL;
    }
    return err;
}

static int apply_session(struct tr_config *c, const char *value, const char **why)
{
    int err = read_time(value, &c->zookeeper_session_us);

    if (err == TARRY_OK &&
        (c->zookeeper_session_us < SESSION_LEAST_US || c->zookeeper_session_us > SESSION_MOST_US)) {
        *why = "is no session of use: 2s to 10m";
        err = TARRY_EINVAL;
    }
    return err;
}

/* A path of ZooKeeper: /a/b, without a slash at the end. */
static int apply_root(struct tr_config *c, const char *value, const char **why)
{
    size_t len = strlen(value);
    char last = '\0';

    (void)c; /* tr_config_finish takes the text */
    (void)why;
    for (size_t i = 0; i < len; i++) {
        bool plain = (value[i] >= 'a' && value[i] <= 'z') || (value[i] >= 'A' && value[i] <= 'Z') ||
                     (value[i] >= '0' && value[i] <= '9') || strchr("-_.", value[i]) != NULL;

        if (!(plain && i > 0) && !(value[i] == '/' && last != '/')) {
            return TARRY_EINVAL;
        }
        last = value[i];
    }
    return len > 1 && len <= ROOT_MAX && last != '/' ? TARRY_OK : TARRY_EINVAL;
}

static int apply_connections(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_count(value, 1, &c->connections_max);
}

static int apply_address(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    c->address_max = 0;
    return strcmp(value, "none") == 0 ? TARRY_OK : read_count(value, 1, &c->address_max);
}

static int apply_topics(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_count(value, 1, &c->topics_max);
}

static int apply_body_rate(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, 0, RATE_MAX, &c->body_rate);
}

static int apply_unread(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_time(value, &c->unread_us);
}

static int apply_buffers(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, BUFFERS_MIN, UINT32_MAX, &c->buffers);
}

/* "75%": *percent. */
static bool read_percent(const char *value, unsigned *percent)
{
    size_t digits = strspn(value, "0123456789");

    if (digits == 0 || digits > 2 || strcmp(value + digits, "%") != 0) {
        return false;
    }
    *percent = (unsigned)(value[0] - '0');
    if (digits == 2) {
        *percent = *percent * 10 + (unsigned)(value[1] - '0');
    }
    return *percent != 0;
}

static int apply_memory(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    c->memory_bytes = 0;
    c->memory_percent = 0;
    if (strcmp(value, "auto") == 0) {
        c->memory_percent = MEMORY_AUTO;
        return TARRY_OK;
    }
    if (strcmp(value, "off") == 0 || read_percent(value, &c->memory_percent)) {
        return TARRY_OK;
    }
    return read_long_bytes(value, TR_CONFIG_MEMORY_MIN, MEMORY_MAX, &c->memory_bytes);
}

static int apply_far(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_count(value, 1000, &c->far_max);
}

static int apply_near(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_count(value, 1000, &c->near_max);
}

static int apply_level(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    for (unsigned i = TR_LEVEL_ERROR; i <= TR_LEVEL_DEBUG; i++) {
        if (strcmp(value, tr_log_level_name((enum tr_log_level)i)) == 0) {
            c->log_level = (enum tr_log_level)i;
            return TARRY_OK;
        }
    }
    return TARRY_EINVAL;
}

static int apply_json(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_switch(value, &c->log_json);
}

static int apply_slow(struct tr_config *c, const char *value, const char **why)
{
    int err;

    if (strcmp(value, "off") == 0) {
        c->slow_us = 0;
        return TARRY_OK;
    }
    err = tr_duration_read(value, strlen(value), &c->slow_us, why);
    if (err == TARRY_OK && c->slow_us == 0) {
        *why = "is nothing: say off to have no such lines";
        err = TARRY_EINVAL;
    }
    return err;
}

static int apply_history_keep(struct tr_config *c, const char *value, const char **why)
{
    return tr_duration_read(value, strlen(value), &c->history_us, why);
}

static int apply_history_bytes(struct tr_config *c, const char *value, const char **why)
{
    (void)why;
    return read_bytes(value, 0, UINT64_C(1) << 30, &c->history_bytes);
}

/* ---- the table ---- */

#define NAME(s, n) .section = (s), .name = (n), .full = s "." n, .set = "--set " s "." n
#define TIME "a time from 10ms to 24h, such as 10s or 1m"
#define ADDRESS "IP:PORT, [IPV6]:PORT, :PORT, PORT, unix:PATH or off"
#define OPEN_STORE "the store was opened with it"
#define OPEN_PORTS "the ports were opened with it"

const struct tr_key_row tr_key_rows[TR_KEY_COUNT] = {
    [TR_KEY_STORE_PATH] = {NAME("store", "path"), .fixed = OPEN_STORE, .flag = "--data",
                           .fallback = "./tarry-data", .allowed = "a directory",
                           .apply = apply_path},
    [TR_KEY_STORE_SYNC] = {NAME("store", "sync"), .fixed = OPEN_STORE, .flag = "--sync",
                           .fallback = "always", .allowed = "always, 50ms or never",
                           .apply = apply_sync},
    [TR_KEY_STORE_READ_ONLY] = {NAME("store", "read_only"), .fixed = OPEN_STORE,
                                .flag = "--read-only", .is_switch = true, .fallback = "off",
                                .allowed = "on or off", .apply = apply_read_only},
    [TR_KEY_STORE_BACKUP_ROOT] = {NAME("store", "backup_root"), .live = true, .fallback = "off",
                                  .allowed = "a directory, or off", .apply = apply_path},
    [TR_KEY_LISTEN_BEANSTALK] = {NAME("listen", "beanstalk"), .fixed = OPEN_PORTS,
                                 .flag = "--beanstalk", .fallback = "127.0.0.1:11300",
                                 .allowed = ADDRESS, .apply = apply_beanstalk},
    [TR_KEY_LISTEN_HTTP] = {NAME("listen", "http"), .fixed = OPEN_PORTS, .flag = "--http",
                            .fallback = "127.0.0.1:11301", .allowed = ADDRESS, .apply = apply_http},
    [TR_KEY_LISTEN_INSECURE] = {NAME("listen", "insecure"), .fixed = OPEN_PORTS,
                                .flag = "--insecure", .is_switch = true, .fallback = "off",
                                .allowed = "on or off", .apply = apply_insecure},
    [TR_KEY_ENGINE_KIND] = {NAME("engine", "kind"), .fixed = OPEN_STORE, .flag = "--engine",
                            .fallback = "local", .allowed = "local or redis",
                            .apply = apply_engine},
    [TR_KEY_REDIS_SERVERS] = {NAME("redis", "servers"), .fixed = OPEN_STORE, .fallback = "none",
                              .allowed = "HOST:PORT, several with commas between them",
                              .apply = apply_servers},
    [TR_KEY_REDIS_USER] = {NAME("redis", "user"), .fixed = OPEN_STORE, .fallback = "none",
                           .allowed = "a name, or none", .apply = apply_path},
    [TR_KEY_REDIS_PASSWORD] = {NAME("redis", "password"), .fixed = OPEN_STORE, .secret = true,
                               .fallback = "none", .allowed = "a password, or none",
                               .apply = apply_path},
    [TR_KEY_REDIS_PREFIX] = {NAME("redis", "prefix"), .fixed = OPEN_STORE, .fallback = "tarry:",
                             .allowed = "up to 63 bytes without braces", .apply = apply_prefix},
    [TR_KEY_REDIS_TIMEOUT] = {NAME("redis", "timeout"), .fixed = OPEN_STORE, .fallback = "500ms",
                              .allowed = TIME, .apply = apply_redis_timeout},
    [TR_KEY_REDIS_WAIT_REPLICAS] = {NAME("redis", "wait_replicas"), .fixed = OPEN_STORE,
                                    .fallback = "0", .allowed = "a number from 0 to 16",
                                    .apply = apply_wait_replicas},
    [TR_KEY_SQL_URL] = {NAME("sql", "url"), .fixed = OPEN_STORE, .fallback = "none",
                        .allowed = "mariadb://HOST:PORT/DATABASE, or none", .apply = apply_sql_url},
    [TR_KEY_SQL_USER] = {NAME("sql", "user"), .fixed = OPEN_STORE, .fallback = "none",
                         .allowed = "a name, or none", .apply = apply_path},
    [TR_KEY_SQL_PASSWORD] = {NAME("sql", "password"), .fixed = OPEN_STORE, .secret = true,
                             .fallback = "none", .allowed = "a password, or none",
                             .apply = apply_path},
    [TR_KEY_SQL_CONNECTIONS] = {NAME("sql", "connections"), .fixed = OPEN_STORE, .fallback = "4",
                                .allowed = "a number from 1 to 64", .apply = apply_sql_connections},
    [TR_KEY_SQL_BATCH] = {NAME("sql", "batch"), .fixed = OPEN_STORE, .fallback = "256",
                          .allowed = "a number of jobs from 1 to 1024", .apply = apply_sql_batch},
    [TR_KEY_CLUSTER_SLOTS] = {NAME("cluster", "slots"), .fixed = OPEN_STORE, .fallback = "256",
                              .allowed = "a power of two from 1 to 1024", .apply = apply_slots},
    [TR_KEY_CLUSTER_LEASE] = {NAME("cluster", "lease"), .fixed = OPEN_STORE, .fallback = "10s",
                              .allowed = TIME, .apply = apply_lease},
    [TR_KEY_CLUSTER_HOT_WINDOW] = {NAME("cluster", "hot_window"), .fixed = OPEN_STORE,
                                   .fallback = "10m", .allowed = TIME, .apply = apply_hot_window},
    [TR_KEY_CLUSTER_HOT_MAX] = {NAME("cluster", "hot_max"), .fixed = OPEN_STORE,
                                .fallback = "50000", .allowed = "a number of jobs from 100 on",
                                .apply = apply_hot_max},
    [TR_KEY_CLUSTER_RECONCILE] = {NAME("cluster", "reconcile"), .fixed = OPEN_STORE,
                                  .fallback = "10m", .allowed = TIME, .apply = apply_reconcile},
    [TR_KEY_ZOOKEEPER_SERVERS] = {NAME("zookeeper", "servers"), .fixed = OPEN_STORE,
                                  .fallback = "none",
                                  .allowed = "HOST:PORT, several with commas between them",
                                  .apply = apply_servers},
    [TR_KEY_ZOOKEEPER_ROOT] = {NAME("zookeeper", "root"), .fixed = OPEN_STORE, .fallback = "/tarry",
                               .allowed = "a path such as /tarry", .apply = apply_root},
    [TR_KEY_ZOOKEEPER_SESSION] = {NAME("zookeeper", "session"), .fixed = OPEN_STORE,
                                  .fallback = "6s", .allowed = TIME, .apply = apply_session},
    [TR_KEY_CLOCK_TEST] = {NAME("clock", "test"), .fixed = OPEN_STORE, .flag = "--test-clock",
                           .is_switch = true, .fallback = "off", .allowed = "on or off",
                           .apply = apply_test_clock},
    [TR_KEY_CLOCK_START] = {NAME("clock", "start"), .fixed = OPEN_STORE, .fallback = "now",
                            .allowed = "now, or a moment as in 2027-01-01T00:00:00Z",
                            .apply = apply_clock_start},
    [TR_KEY_HTTP_HOSTS] = {NAME("http", "hosts"), .live = true, .fallback = "localhost",
                           .allowed = "names with commas between them", .apply = apply_path},
    [TR_KEY_HTTP_CLASSIC] = {NAME("http", "classic"), .live = true, .fallback = "off",
                             .allowed = "on or off", .apply = apply_classic},
    [TR_KEY_LIMITS_HEADER] = {NAME("limits", "header"), .live = true, .fallback = "10s",
                              .allowed = TIME, .apply = apply_header},
    [TR_KEY_LIMITS_HEADER_BYTES] = {NAME("limits", "header_bytes"), .live = true,
                                    .fallback = "16KiB",
                                    .allowed = "a number of bytes from 1024 to 1048576, also as "
                                               "in 16KiB",
                                    .apply = apply_header_bytes},
    [TR_KEY_LIMITS_IDLE] = {NAME("limits", "idle"), .live = true, .fallback = "60s",
                            .allowed = TIME, .apply = apply_idle},
    [TR_KEY_LIMITS_CONNECTIONS] = {NAME("limits", "connections"), .live = true, .fallback = "10000",
                                   .allowed = "a number from 1 to 999999999",
                                   .apply = apply_connections},
    [TR_KEY_LIMITS_PER_ADDRESS] = {NAME("limits", "per_address"), .live = true, .fallback = "none",
                                   .allowed = "a number from 1 to 999999999, or none",
                                   .apply = apply_address},
    [TR_KEY_LIMITS_BODY_RATE] = {NAME("limits", "body_rate"), .live = true, .fallback = "1KiB",
                                 .allowed = "bytes a second up to 1GiB, as in 1KiB; 0: any",
                                 .apply = apply_body_rate},
    [TR_KEY_LIMITS_UNREAD] = {NAME("limits", "unread"), .live = true, .fallback = "5m",
                              .allowed = TIME, .apply = apply_unread},
    [TR_KEY_LIMITS_BUFFERS] = {NAME("limits", "buffers"), .live = true, .fallback = "256MiB",
                               .allowed = "a number of bytes from 64MiB to 4095MiB",
                               .apply = apply_buffers},
    [TR_KEY_LIMITS_TOPICS] = {NAME("limits", "topics"), .fixed = OPEN_STORE, .fallback = "1000000",
                              .allowed = "a number from 1 to 999999999", .apply = apply_topics},
    [TR_KEY_TLS_CERT] = {NAME("tls", "cert"), .fixed = OPEN_PORTS, .fallback = "off",
                         .allowed = "a file, or off", .apply = apply_path},
    [TR_KEY_TLS_KEY] = {NAME("tls", "key"), .fixed = OPEN_PORTS, .fallback = "off",
                        .allowed = "a file, or off", .apply = apply_path},
    [TR_KEY_TLS_CLIENT_CA] = {NAME("tls", "client_ca"), .fixed = OPEN_PORTS, .fallback = "off",
                              .allowed = "a file, or off", .apply = apply_path},
    [TR_KEY_LIMITS_BODY] = {NAME("limits", "body"), .live = true, .fallback = "1MiB",
                            .allowed =
                                "a number of bytes from 1 to 8388608, also as in 64KiB or 1MiB",
                            .apply = apply_body},
    [TR_KEY_HISTORY_KEEP] = {NAME("history", "keep"), .live = true, .fallback = "24h",
                             .allowed = "a duration as in 24h", .apply = apply_history_keep},
    [TR_KEY_HISTORY_BYTES] = {NAME("history", "bytes"), .live = true, .fallback = "64MiB",
                              .allowed = "a number of bytes up to 1073741824, also as in 64MiB",
                              .apply = apply_history_bytes},
    [TR_KEY_MEMORY_LIMIT] = {NAME("memory", "limit"), .fixed = "all memory was cut from it",
                             .fallback = "auto",
                             .allowed = "a number of bytes from 128MiB on, as in 512MiB or 2GiB, a "
                                        "part of the machine's memory as in 50%, auto or off",
                             .apply = apply_memory},
    [TR_KEY_MEMORY_FAR] = {NAME("memory", "far"), .live = true, .fallback = "1000000",
                           .allowed = "a number of jobs from 1000 to 999999999",
                           .apply = apply_far},
    [TR_KEY_MEMORY_NEAR] = {NAME("memory", "near"), .fixed = "topics were given their shares of it",
                            .fallback = "2500000",
                            .allowed = "a number of jobs from 1000 to 999999999",
                            .apply = apply_near},
    [TR_KEY_OUTLET_ALLOW_PRIVATE] = {NAME("outlet", "allow_private"),
                                     .fixed = "senders were made with it", .fallback = "off",
                                     .allowed = "on or off", .apply = apply_allow_private},
    [TR_KEY_IO_BACKGROUND] = {NAME("io", "background"), .live = true, .fallback = "100M",
                              .allowed = "bytes a second up to 1GiB, as in 100M; 0: any",
                              .apply = apply_background},
    [TR_KEY_SCRUB_RATE] = {NAME("scrub", "rate"), .live = true, .fallback = "10M",
                           .allowed = "bytes a second, as in 10M; 0: never",
                           .apply = apply_scrub_rate},
    [TR_KEY_SCRUB_EVERY] = {NAME("scrub", "every"), .live = true, .fallback = "7d",
                            .allowed = "a duration from 1m on, as in 7d",
                            .apply = apply_scrub_every},
    [TR_KEY_LOG_LEVEL] = {NAME("log", "level"), .flag = "--log-level", .live = true,
                          .fallback = "info", .allowed = "error, warning, info or debug",
                          .apply = apply_level},
    [TR_KEY_LOG_JSON] = {NAME("log", "json"), .flag = "--log-json", .is_switch = true, .live = true,
                         .fallback = "off", .allowed = "on or off", .apply = apply_json},
    [TR_KEY_LOG_SLOW] = {NAME("log", "slow"), .live = true, .fallback = "100ms",
                         .allowed = "a time as in 100ms, or off", .apply = apply_slow},
};

const char *tr_config_key_name(enum tr_key key)
{
    TR_CHECK((unsigned)key < TR_KEY_COUNT);
    return tr_key_rows[key].full;
}

const char *tr_config_told(const struct tr_config *c, enum tr_key key)
{
    TR_CHECK((unsigned)key < TR_KEY_COUNT);
    return tr_key_rows[key].secret ? NULL : c->settings[key].text;
}

enum tr_key tr_config_find_key(const char *section, const char *name)
{
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        if (strcmp(section, tr_key_rows[i].section) == 0 &&
            strcmp(name, tr_key_rows[i].name) == 0) {
            return (enum tr_key)i;
        }
    }
    return TR_KEY_COUNT;
}

enum tr_key tr_config_find_full(const char *full, size_t len)
{
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        if (strlen(tr_key_rows[i].full) == len && memcmp(tr_key_rows[i].full, full, len) == 0) {
            return (enum tr_key)i;
        }
    }
    return TR_KEY_COUNT;
}

bool tr_config_has_section(const char *name, size_t len)
{
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const char *section = tr_key_rows[i].section;

        if (strlen(section) == len && memcmp(section, name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- taking a value over ---- */

int tr_config_note(struct tr_reading *r, enum tr_key key, const char *text,
                   const struct tr_place *place)
{
    struct tr_setting *setting = &r->config->settings[key];
    char *copy = text != NULL ? strdup(text) : NULL;

    if (text != NULL && copy == NULL) {
        return tr_reading_no_memory(r);
    }
    free(setting->text);
    *setting = (struct tr_setting){.text = copy, .from = place->from, .line = place->line};
    return TARRY_OK;
}

/*
 * A value that is refused, for people and logs: what stands before an @, and behind a ? of a URL,
 * may be a password. It was not understood, so more is hidden rather than less.
 */
static void show_refused(char out[SHOWN_MAX], const char *value)
{
    const char *scheme = strstr(value, "://");
    const char *from = scheme != NULL ? scheme + 3 : value;
    const char *at = strrchr(from, '@');
    const char *rest = at != NULL ? at : from;
    const char *query = scheme != NULL ? strchr(rest, '?') : NULL;

    tr_text(out, SHOWN_MAX, "%.*s%s%.*s%s", (int)(from - value), value, at != NULL ? "***" : "",
            query != NULL ? (int)(query + 1 - rest) : SHOWN_MAX, rest, query != NULL ? "***" : "");
}

int tr_config_set(struct tr_reading *r, enum tr_key key, const char *value,
                  const struct tr_place *place)
{
    const struct tr_key_row *row = &tr_key_rows[key];
    char shown[SHOWN_MAX] = "***";
    char canonical[TR_ADDRESS_TEXT];
    const char *why = NULL;

    if (r->given[key]) {
        return tr_reading_refuse(r, "%s was given twice; give it once.", place->name);
    }
    r->given[key] = true;
    if (*value == '\0') {
        return tr_reading_refuse(r, "%s needs a value: %s.", place->name, row->allowed);
    }
    if (row->apply(r->config, value, &why) != TARRY_OK) {
        if (!row->secret) {
            show_refused(shown, value);
        }
        if (why != NULL) {
            return tr_reading_refuse(r, "%s: \"%s\" %s.", place->name, shown, why);
        }
        return tr_reading_refuse(r, "%s takes %s, not \"%s\".", place->name, row->allowed, shown);
    }
    if (key == TR_KEY_LISTEN_BEANSTALK || key == TR_KEY_LISTEN_HTTP) {
        tr_address_text(key == TR_KEY_LISTEN_HTTP ? &r->config->http_addr
                                                  : &r->config->beanstalk_addr,
                        canonical);
        value = canonical;
    }
    return tr_config_note(r, key, value, place);
}
