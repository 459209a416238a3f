/*
 * The config without a server: sources and which of them wins, refusals, the flags of beanstalkd,
 * the help, warnings. Reading it again is in test_reload.c.
 */

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "server/config_inner.h"
#include "server/help.h"
#include "test/unit/ear.h"
#include "test/unit/reading.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- sources ---- */

static void test_config_defaults(void **state)
{
    struct bench b = {0};

    (void)state;
    assert_int_equal(read_both(&b, "tarry serve", "HOME=/x TARRYX=1 TARRY_BIN=x TARRY_SIM=y"), 0);
    assert_int_equal(b.c.command, TR_COMMAND_SERVE);
    assert_false(b.c.drop_in);
    assert_null(b.c.config_path);
    assert_null(b.c.user);
    assert_string_equal(b.c.data_path, "./tarry-data");
    assert_int_equal(b.c.sync, TR_SYNC_ALWAYS);
    assert_string_equal(b.c.sync_text, "always");
    assert_int_equal(b.c.sync_us, 50000);
    assert_string_equal(b.c.listen_beanstalk, "127.0.0.1:11300");
    assert_int_equal(b.c.beanstalk_addr.port, 11300);
    assert_string_equal(b.c.listen_http, "127.0.0.1:11301");
    assert_false(b.c.insecure);
    assert_int_equal(b.c.body_max, TR_CONFIG_BODY_DEFAULT);
    assert_int_equal(b.c.http_body_max, 1 << 20);
    assert_int_equal(b.c.header_us, 10000000);
    assert_int_equal(b.c.header_bytes, 16384);
    assert_int_equal(b.c.idle_us, 60000000);
    assert_int_equal(b.c.connections_max, 10000);
    assert_int_equal(b.c.address_max, 0);
    assert_int_equal(b.c.body_rate, 1024);
    assert_int_equal(b.c.unread_us, 300000000);
    assert_int_equal(b.c.buffers, 256 << 20);
    assert_null(b.c.tls_cert);
    assert_null(b.c.tls_key);
    assert_null(b.c.tls_client_ca);
    assert_false(b.c.http_classic);
    assert_int_equal(b.c.log_level, TR_LEVEL_INFO);
    assert_false(b.c.log_json);
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        assert_setting(&b, (enum tr_key)i, tr_key_rows[i].fallback, TR_FROM_DEFAULT);
        assert_int_equal(b.c.settings[i].line, 0);
    }
    assert_string_equal(tr_config_key_name(TR_KEY_STORE_READ_ONLY), "store.read_only");
    assert_string_equal(tr_config_from_name(TR_FROM_ENVIRONMENT), "environment");
    end(&b);
}

/* For each key a value that is not its default, where there is one. */
static const char *const others[TR_KEY_COUNT] = {
    [TR_KEY_STORE_PATH] = "/x",
    [TR_KEY_STORE_SYNC] = "never",
    [TR_KEY_STORE_READ_ONLY] = "off",
    [TR_KEY_STORE_BACKUP_ROOT] = "/copies",
    [TR_KEY_LISTEN_BEANSTALK] = "127.0.0.2:1",
    [TR_KEY_LISTEN_HTTP] = "off",
    [TR_KEY_LISTEN_INSECURE] = "on",
    [TR_KEY_ENGINE_KIND] = "local",
    [TR_KEY_REDIS_SERVERS] = "a.example:6379,[::1]:1",
    [TR_KEY_REDIS_USER] = "who",
    [TR_KEY_REDIS_PASSWORD] = "word",
    [TR_KEY_REDIS_PREFIX] = "p:",
    [TR_KEY_REDIS_TIMEOUT] = "1s",
    [TR_KEY_REDIS_WAIT_REPLICAS] = "1",
    [TR_KEY_SQL_URL] = "mariadb://127.0.0.1/tarry",
    [TR_KEY_SQL_USER] = "tarry",
    [TR_KEY_SQL_PASSWORD] = "word",
    [TR_KEY_SQL_CONNECTIONS] = "8",
    [TR_KEY_SQL_BATCH] = "100",
    [TR_KEY_CLUSTER_SLOTS] = "64",
    [TR_KEY_CLUSTER_LEASE] = "5s",
    [TR_KEY_CLUSTER_HOT_WINDOW] = "5m",
    [TR_KEY_CLUSTER_HOT_MAX] = "1000",
    [TR_KEY_CLUSTER_RECONCILE] = "30s",
    [TR_KEY_ZOOKEEPER_SERVERS] = "127.0.0.1:2181,zoo.example.com:2181",
    [TR_KEY_ZOOKEEPER_ROOT] = "/queues/tarry",
    [TR_KEY_ZOOKEEPER_SESSION] = "4s",
    [TR_KEY_CLOCK_TEST] = "on",
    [TR_KEY_CLOCK_START] = "2027-01-01T00:00:00Z",
    [TR_KEY_HISTORY_KEEP] = "1h",
    [TR_KEY_HISTORY_BYTES] = "1MiB",
    [TR_KEY_LIMITS_BODY] = "2MiB",
    [TR_KEY_LOG_LEVEL] = "debug",
    [TR_KEY_LOG_JSON] = "on",
    [TR_KEY_LOG_SLOW] = "50ms",
    [TR_KEY_MEMORY_LIMIT] = "2GiB",
    [TR_KEY_MEMORY_FAR] = "5000",
    [TR_KEY_MEMORY_NEAR] = "6000",
    [TR_KEY_OUTLET_ALLOW_PRIVATE] = "on",
    [TR_KEY_IO_BACKGROUND] = "5M",
    [TR_KEY_SCRUB_RATE] = "1M",
    [TR_KEY_SCRUB_EVERY] = "30d",
    [TR_KEY_HTTP_HOSTS] = "tarry.example",
    [TR_KEY_HTTP_CLASSIC] = "on",
    [TR_KEY_LIMITS_HEADER] = "5s",
    [TR_KEY_LIMITS_IDLE] = "1h30m",
    [TR_KEY_LIMITS_HEADER_BYTES] = "8KiB",
    [TR_KEY_LIMITS_CONNECTIONS] = "7",
    [TR_KEY_LIMITS_PER_ADDRESS] = "3",
    [TR_KEY_LIMITS_BODY_RATE] = "0",
    [TR_KEY_LIMITS_UNREAD] = "30s",
    [TR_KEY_LIMITS_BUFFERS] = "64MiB",
    [TR_KEY_LIMITS_TOPICS] = "5000",
    [TR_KEY_TLS_CERT] = "/cert.pem",
    [TR_KEY_TLS_KEY] = "/key.pem",
    [TR_KEY_TLS_CLIENT_CA] = "/ca.pem",
};

static void upper(char *text)
{
    for (; *text != '\0'; text++) {
        *text = *text == '.' ? '_' : (char)toupper((unsigned char)*text);
    }
}

static void test_config_each_key_from_each_source(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_key_row *row = &tr_key_rows[i];
        enum tr_key key = (enum tr_key)i;
        struct bench b = {0};
        char text[256];

        tr_text(text, sizeof text, "\n[%s]\n%s=%s\n", row->section, row->name, others[i]);
        assert_int_equal(read_file(&b, text, "", ""), TARRY_OK);
        assert_setting(&b, key, others[i], TR_FROM_FILE);
        assert_int_equal(b.c.settings[i].line, 3);
        end(&b);

        tr_text(text, sizeof text, "TARRY_%s", row->full);
        upper(text);
        tr_text(text + strlen(text), 100, "=%s", others[i]);
        assert_int_equal(read_both(&b, "tarry serve", text), TARRY_OK);
        assert_setting(&b, key, others[i], TR_FROM_ENVIRONMENT);
        end(&b);

        tr_text(text, sizeof text, "tarry serve --set %s=%s", row->full, others[i]);
        assert_int_equal(read_both(&b, text, ""), TARRY_OK);
        assert_setting(&b, key, others[i], TR_FROM_FLAG);
        end(&b);

        if (row->flag != NULL) {
            tr_text(text, sizeof text, "tarry serve %s=%s", row->flag, others[i]);
            assert_int_equal(read_both(&b, text, ""), TARRY_OK);
            assert_setting(&b, key, others[i], TR_FROM_FLAG);
            end(&b);
        }
    }
}

static void test_config_flag_over_environment_over_file(void **state)
{
    struct bench b = {0};

    (void)state;
    assert_int_equal(read_file(&b,
                               "[store]\npath = from-file\nsync = 50ms\n[limits]\nbody = 1k\n"
                               "[log]\nlevel = error\njson = on\n",
                               "TARRY_STORE_PATH=from-env TARRY_LOG_LEVEL=warning "
                               "TARRY_LOG_JSON=off",
                               "--data from-flag --log-json"),
                     TARRY_OK);
    assert_string_equal(b.c.config_path, b.path);
    assert_setting(&b, TR_KEY_STORE_PATH, "from-flag", TR_FROM_FLAG);
    assert_string_equal(b.c.data_path, "from-flag");
    assert_setting(&b, TR_KEY_LOG_JSON, "on", TR_FROM_FLAG);
    assert_true(b.c.log_json);
    assert_setting(&b, TR_KEY_LOG_LEVEL, "warning", TR_FROM_ENVIRONMENT);
    assert_int_equal(b.c.log_level, TR_LEVEL_WARNING);
    assert_setting(&b, TR_KEY_STORE_SYNC, "50ms", TR_FROM_FILE);
    assert_int_equal(b.c.settings[TR_KEY_STORE_SYNC].line, 3);
    assert_int_equal(b.c.sync, TR_SYNC_INTERVAL);
    assert_int_equal(b.c.body_max, 1024);
    end(&b);
}

static void test_config_file_from_the_environment(void **state)
{
    struct bench b = {0};
    char env[128];

    (void)state;
    new_file(&b, "[store]\npath=a\n", 15);
    tr_text(env, sizeof env, "TARRY_CONFIG=%s", b.path);
    assert_int_equal(read_both(&b, "tarry serve", env), TARRY_OK);
    assert_string_equal(b.c.data_path, "a");
    tr_config_fini(&b.c);
    assert_int_equal(read_both(&b, "tarry serve --config /nonexistent/x", env), TARRY_EINVAL);
    assert_says(b.r.why, "/nonexistent/x cannot be read");
    end(&b);
    assert_int_equal(read_both(&b, "tarry serve", "TARRY_CONFIG="), TARRY_EINVAL);
    assert_says(b.r.why, "TARRY_CONFIG is empty");
    end(&b);
}

static void test_config_body_sizes(void **state)
{
    static const struct {
        const char *text;
        uint32_t bytes; /* 0: refused */
    } cases[] = {{"1", 1},         {"65535", 65535},
                 {"64k", 65536},   {"64KiB", 65536},
                 {"8M", 8 << 20},  {"8MiB", 8 << 20},
                 {"0064", 64},     {"8388608", 8 << 20},
                 {"8388609", 0},   {"9MiB", 0},
                 {"0", 0},         {"0k", 0},
                 {"-1", 0},        {"1.5M", 0},
                 {"1MB", 0},       {"k", 0},
                 {"1KIB", 0},      {"99999999999999999999", 0},
                 {"4294967297", 0}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};
        char line[128];

        tr_text(line, sizeof line, "tarry serve --set limits.body=%s", cases[i].text);
        assert_int_equal(read_both(&b, line, ""), cases[i].bytes > 0 ? TARRY_OK : TARRY_EINVAL);
        if (cases[i].bytes > 0) {
            assert_int_equal(b.c.body_max, cases[i].bytes);
            assert_int_equal(b.c.http_body_max, cases[i].bytes);
        } else {
            assert_says(b.r.why, "from 1 to 8388608");
        }
        end(&b);
    }
}

/* ---- refusals ---- */

static void test_config_wrong_command_lines(void **state)
{
    static const struct {
        const char *line;
        const char *why;
    } cases[] = {
        {"tarry", "no command is given"},
        {"tarry swerve", "\"swerve\""},
        {"tarry help swerve", "\"swerve\""},
        {"tarry serve x", "--data"},
        {"tarry serve --nope", "\"--nope\""},
        {"tarry serve --data", "--data needs a value"},
        {"tarry serve --data --sync never", "--data needs a value"},
        {"tarry serve --sync=", "--sync needs a value"},
        {"tarry serve --data a --data b", "--data was given twice"},
        {"tarry serve --data a --set store.path=b", "--data and --set store.path set the same"},
        {"tarry serve --set log.level=info --set log.level=info", "was given twice"},
        {"tarry serve --config a --config b", "--config was given twice"},
        {"tarry serve --set", "--set needs a value"},
        {"tarry serve --set store.path", "--set takes section.key=value"},
        {"tarry serve --set store.pth=x", "no key \"store.pth\""},
        {"tarry serve --set path=x", "no key \"path\""},
        {"tarry serve --set store.path=", "--set store.path needs a value"},
        {"tarry serve --set store.sync=x", "--set store.sync takes always, 50ms or never"},
        {"tarry serve --sync 100ms", "--sync takes always, 50ms or never, not \"100ms\""},
        {"tarry serve --log-level loud", "--log-level takes error, warning, info or debug"},
        {"tarry serve --log-json=yes", "--log-json takes on or off"},
        {"tarry serve --log-json yes", "\"yes\""},
        {"tarry serve --test-clock=yes", "--test-clock takes on or off"},
        {"tarry serve --set clock.start=tomorrow", "clock.start"},
        {"tarry serve --set clock.start=1969-12-31T00:00:00Z", "is before 1970"},
        {"tarry serve --read-only=maybe", "on or off"},
        {"tarry serve --beanstalk x", "\"x\" names a host"},
        {"tarry serve --http x", "--http: \"x\""},
        {"tarry serve --beanstalk 0.0.0.0:1", "listen.beanstalk is 0.0.0.0:1"},
        {"tarry serve --http [::]:1", "listen.http is [::]:1"},
        {"tarry serve --set limits.idle=1ms", "limits.idle takes a time from 10ms to 24h"},
        {"tarry serve --set limits.idle=25h", "limits.idle takes a time from 10ms to 24h"},
        {"tarry serve --set limits.header=soon", "limits.header takes a time"},
        {"tarry serve --set limits.header_bytes=1023", "limits.header_bytes takes a number"},
        {"tarry serve --set limits.connections=0", "limits.connections takes a number"},
        {"tarry serve --set limits.per_address=0", "limits.per_address takes a number"},
        {"tarry serve --set limits.body_rate=x", "limits.body_rate takes bytes a second"},
        {"tarry serve --set limits.unread=1ms", "limits.unread takes a time"},
        {"tarry serve --set limits.buffers=1MiB", "limits.buffers takes a number of bytes"},
        {"tarry serve --set tls.cert=", "needs a value"},
        {"tarry serve --set http.classic=yes", "http.classic takes on or off"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_both(&b, cases[i].line, ""), TARRY_EINVAL);
        assert_int_equal(b.r.exit, TR_EXIT_USAGE);
        assert_says(b.r.why, cases[i].why);
        end(&b);
    }
}

static void test_config_of_redis(void **state)
{
    static const struct {
        const char *line;
        const char *why;
    } cases[] = {
        {"tarry serve --engine redis", "needs to know where Redis is"},
        {"tarry serve --engine sql", "--engine takes local or redis"},
        {"tarry serve --set redis.servers=x", "takes HOST:PORT"},
        {"tarry serve --set redis.servers=x:0", "takes HOST:PORT"},
        {"tarry serve --set redis.servers=x:65536", "takes HOST:PORT"},
        {"tarry serve --set redis.servers=x:1,", "takes HOST:PORT"},
        {"tarry serve --set redis.servers=:6379", "takes HOST:PORT"},
        {"tarry serve --set redis.prefix={x}", "without braces"},
        {"tarry serve --set redis.timeout=1us", "redis.timeout"},
        {"tarry serve --set redis.wait_replicas=17", "from 0 to 16"},
        {"tarry serve --set redis.wait_replicas=-1", "from 0 to 16"},
        {"tarry serve --set sql.url=h", "is no mariadb://HOST:PORT/DATABASE"},
        {"tarry serve --set sql.url=mysql://u@h/d", "say sql.user and sql.password"},
        {"tarry serve --set sql.connections=0", "from 1 to 64"},
        {"tarry serve --set sql.batch=1025", "from 1 to 1024"},
        {"tarry serve --set cluster.slots=3", "a power of two"},
        {"tarry serve --set cluster.slots=2048", "a power of two"},
        {"tarry serve --set cluster.lease=1s", "is too short"},
        {"tarry serve --set cluster.hot_window=59s", "from 1m to 1h"},
        {"tarry serve --set cluster.hot_window=61m", "from 1m to 1h"},
        {"tarry serve --set cluster.hot_max=99", "from 100 on"},
        {"tarry serve --set cluster.reconcile=1s", "is too short"},
        {"tarry serve --engine redis --set redis.servers=x:1 --sync always", "store.sync"},
        {"tarry serve --engine redis --set redis.servers=x:1 --read-only", "store.read_only"},
        {"tarry serve --engine redis --set redis.servers=x:1 --test-clock", "clock.test"},
        {"tarry serve --engine redis --set redis.servers=x:1 --set redis.user=u", "give both"},
    };
    struct bench b = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(read_both(&b, cases[i].line, ""), TARRY_EINVAL);
        assert_says(b.r.why, cases[i].why);
        end(&b);
    }
    assert_int_equal(read_both(&b,
                               "tarry serve --engine redis --data x --set redis.servers=a:1,[::1]:2"
                               " --set redis.password=word --set cluster.slots=64",
                               ""),
                     TARRY_OK);
    assert_true(b.c.on_redis);
    assert_string_equal(b.c.redis_servers, "a:1,[::1]:2");
    assert_string_equal(b.c.redis_password, "word");
    assert_null(tr_config_told(&b.c, TR_KEY_REDIS_PASSWORD));
    assert_string_equal(tr_config_told(&b.c, TR_KEY_REDIS_PREFIX), "tarry:");
    assert_null(b.c.redis_user);
    assert_null(b.c.sql_url);
    assert_int_equal(b.c.sql_connections, 4);
    assert_int_equal(b.c.sql_batch, 256);
    assert_int_equal(b.c.cluster_slots, 64);
    assert_int_equal(b.c.redis_timeout_us, 500000);
    assert_int_equal(b.c.cluster_lease_us, 10000000);
    assert_int_equal(b.c.cluster_hot_window_us, 600000000);
    assert_int_equal(b.c.cluster_hot_max, 50000);
    assert_int_equal(b.c.cluster_reconcile_us, 600000000);
    end(&b);
}

static void test_config_insecure_allows_all(void **state)
{
    struct bench b = {0};

    (void)state;
    assert_int_equal(read_both(&b, "tarry serve --beanstalk 0.0.0.0:1 --insecure", ""), TARRY_OK);
    end(&b);
    assert_int_equal(read_file(&b, "[listen]\nhttp = [::]:1\nbeanstalk = 10.0.0.1:1\n",
                               "TARRY_LISTEN_INSECURE=on", ""),
                     TARRY_OK);
    end(&b);
    assert_int_equal(read_file(&b, "[listen]\nbeanstalk = 10.0.0.1:1\n", "", ""), TARRY_EINVAL);
    assert_says(b.r.why, ":2: listen.beanstalk is 10.0.0.1:1");
    end(&b);
    assert_int_equal(read_file(&b, "[listen]\nbeanstalk = 10.0.0.1:1\n", "", "--beanstalk off"),
                     TARRY_OK);
    end(&b);
}

/* Wherever it stands, what may be a password is not repeated. */
static void test_config_refusals_hide_passwords(void **state)
{
    static const struct {
        const char *pair;
        const char *shown; /* "": nothing of the value */
    } cases[] = {
        {"sql.url=mariadb://u:SECRET@127.0.0.1/t",
         "\"mariadb://***@127.0.0.1/t\" has a user in it"},
        {"sql.url=mariadb://u:SEC@RET@127.0.0.1/t", "\"mariadb://***@127.0.0.1/t\""},
        {"sql.url=mariadb://u:SEC/RET@h/t", "\"mariadb://***@h/t\""},
        {"sql.url=u:SECRET@h/t", "\"***@h/t\""},
        {"sql.url=mariadb://h/t?password=SECRET", "\"mariadb://h/t?***\""},
        {"redis.servers=redis://:SECRET@127.0.0.1:6379", "not \"redis://***@127.0.0.1:6379\""},
        {"redis.servers=:SECRET@127.0.0.1:6379", "not \"***@127.0.0.1:6379\""},
        {"tokens.shop=SECRET", "the token"},
        {"tokens.shop=consume SECRET", "no"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t section = strcspn(cases[i].pair, ".");
        struct bench b = {0};
        char text[256];

        tr_text(text, sizeof text, "tarry serve --set %s", cases[i].pair);
        for (char *at = text + 18; *at != '\0'; at++) {
            *at = (char)(*at == ' ' ? '\t' : *at); /* one word */
        }
        assert_int_equal(read_both(&b, text, ""), TARRY_EINVAL);
        assert_says(b.r.why, section < 6 ? cases[i].shown : "shop");
        assert_null(strstr(b.r.why, "SEC"));
        end(&b);

        tr_text(text, sizeof text, "[%.*s]\n%s\n", (int)section, cases[i].pair,
                cases[i].pair + section + 1);
        assert_int_equal(read_file(&b, text, "", ""), TARRY_EINVAL);
        assert_null(strstr(b.r.why, "SEC"));
        end(&b);

        tr_text(text, sizeof text, "TARRY_%s", cases[i].pair);
        for (char *at = text; *at != '='; at++) {
            *at = *at == '.' ? '_' : (char)toupper((unsigned char)*at);
        }
        assert_int_equal(read_both(&b, "tarry serve", text), TARRY_EINVAL);
        assert_null(strstr(b.r.why, "SEC"));
        end(&b);
    }
    for (size_t i = 0; i < 2; i++) {
        static const char *const lines[] = {"tarry serve --set redis.password:SECRET",
                                            "tarry serve --redis.password=SECRET"};
        struct bench b = {0};

        assert_int_equal(read_both(&b, lines[i], ""), TARRY_EINVAL);
        assert_says(b.r.why, "redis.password");
        assert_null(strstr(b.r.why, "SEC"));
        end(&b);
    }
}

static void test_config_environment_names(void **state)
{
    static const char *const fine[] = {"TARRY_SERVER=x",
                                       "TARRY_TOKEN=x",
                                       "TARRY_BIN=x",
                                       "TARRY_SIM=x",
                                       "TARRY_SERVICE_HOST=x",
                                       "TARRY_SERVICE_PORT_HTTP=1",
                                       "TARRY_PORT=tcp://x",
                                       "TARRY_PORT_1_TCP=x",
                                       "TARRY_HTTP_PORT_1_TCP_ADDR=x",
                                       "TARRY_HTTP_PORT=x",
                                       "TARRY=x",
                                       "XTARRY_FOO=1",
                                       "TARRY_FOO=1",
                                       "TARRY_DATA=/x",
                                       "TARRY_TEST_DIR=1",
                                       "TARRY_=1",
                                       "TARRY_REPORT=x",
                                       "TARRY_PORTS=1",
                                       "TARRY_PORT_X=1",
                                       "tarry_store_path=x"};
    static const char *const wrong[] = {
        "TARRY_STORE_PTH=x", "TARRY_STORE=x",  "TARRY_STORE_PATHS=x",
        "TARRY_log_level=x", "TARRY_TOKENS=x",
    };
    struct bench b = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++) {
        assert_int_equal(read_both(&b, "tarry serve", fine[i]), TARRY_OK);
        assert_string_equal(b.c.data_path, "./tarry-data");
        end(&b);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(read_both(&b, "tarry serve", wrong[i]), TARRY_EINVAL);
        assert_says(b.r.why, "no key for the environment variable TARRY_");
        end(&b);
    }
    assert_int_equal(read_both(&b, "tarry serve", "TARRY_STORE_PATH="), TARRY_EINVAL);
    assert_says(b.r.why, "TARRY_STORE_PATH needs a value");
    end(&b);
    assert_int_equal(read_both(&b, "tarry serve", "TARRY_STORE_SYNC=x"), TARRY_EINVAL);
    assert_says(b.r.why, "TARRY_STORE_SYNC takes always, 50ms or never, not \"x\"");
    end(&b);
}

/* ---- the file ---- */

static void test_config_file_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"[store]\npth = x\n", ":2: there is no key \"pth\" in the section [store]"},
        {"[store]\nPath = x\n", ":2: there is no key \"Path\""},
        {"[log]\npath = x\n", ":2: there is no key \"path\" in the section [log]"},
        {"\n\n[stroe]\n", ":3: there is no section \"stroe\""},
        {"[]\n", ":1: there is no section \"\""},
        {"[ store ]\n", ":1: there is no section"},
        {"[store\npath=x\n", ":1: the section has no \"]\""},
        {"[store] path = x\n", ":1: behind the section"},
        {"path = x\n", ":1: \"path\" stands before the first [section]"},
        {"[store]\npath = x\n; y\npath = x\n", ":4: store.path was given twice; the first is in "
                                               "line 2"},
        {"[store]\npath=x\n[store]\npath=y\n", ":4: store.path was given twice"},
        {"[store]\npath =\n", ":2: store.path needs a value"},
        {"[store]\npath = ; nothing\n", ":2: store.path needs a value"},
        {"[store]\npath\n", ":2: this is no [section]"},
        {"[store]\npath ; = x\n", ":2: this is no [section]"},
        {"[store]\n= x\n", ":2: there is no key \"\""},
        {"[store]\npath = a\n  b\n", ":3: this is no [section]"},
        {"[redis]\nservers = a:1,\n  b:2\n", ":2: redis.servers takes HOST:PORT"},
        {"[redis]\nservers = a:1\n  b:2\n", ":3: there is no key \"b\""},
        {" [stroe]\n", ":1: there is no section \"stroe\""},
        {"[store]\npath = \"x\"\n", ":2: store.path: values stand without quotes"},
        {"[store]\npath = 'x'\n", ":2: store.path: values stand without quotes"},
        {"[store]\npath = x # y\n", ":2: store.path: a comment behind a value"},
        {"[store]\nsync = fast\n", ":2: store.sync takes always, 50ms or never, not \"fast\""},
        {"[log]\njson = true\n", ":2: log.json takes on or off, not \"true\""},
        {"[listen]\nbeanstalk = x:1\n", ":2: listen.beanstalk: \"x:1\" names a host"},
        {"[engine]\nkind = sql\n", ":2: engine.kind takes local or redis, not \"sql\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_file(&b, cases[i].text, "", "--sync never"), TARRY_EINVAL);
        assert_says(b.r.why, cases[i].why);
        assert_ptr_equal(strstr(b.r.why, b.path), b.r.why);
        end(&b);
    }
}

static void test_config_file_oddities(void **state)
{
    static const struct {
        const char *text;
        const char *path;
    } cases[] = {
        {"\xef\xbb\xbf[store]\npath = a\n", "a"},
        {"[store]\r\npath = a\r\n", "a"},
        {"[store]\npath = a", "a"},
        {"[store]\npath:a", "a"},
        {"[store] ; comment\npath = a ; comment\n", "a"},
        {"[store] # comment\npath=a;b\n", "a;b"},
        {"; [nope]\n# nope\n   ; indented\n\t\n[store]\npath =   a b=c  \n", "a b=c"},
        {"[store]\n[log]\n[store]\npath = a#b\n", "a#b"},
        {"", "./tarry-data"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_file(&b, cases[i].text, "", ""), TARRY_OK);
        assert_string_equal(b.c.data_path, cases[i].path);
        end(&b);
    }
}

static void test_config_file_may_be_indented(void **state)
{
    static const char text[] = "  [store]\n    path = a\n\tsync = 50ms ; why\r\n \t ; no\n"
                               "[tokens]\n  shop = read * sha256:"
                               "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
                               "\t[log]\n\tlevel=error\n";
    struct bench b = {0};

    (void)state;
    assert_int_equal(read_file(&b, text, "", ""), TARRY_OK);
    assert_setting(&b, TR_KEY_STORE_PATH, "a", TR_FROM_FILE);
    assert_setting(&b, TR_KEY_STORE_SYNC, "50ms", TR_FROM_FILE);
    assert_int_equal(b.c.settings[TR_KEY_STORE_SYNC].line, 3);
    assert_int_equal(b.c.token_count, 1);
    assert_string_equal(b.c.tokens[0].name, "shop");
    assert_setting(&b, TR_KEY_LOG_LEVEL, "error", TR_FROM_FILE);
    end(&b);
}

/* A line that libinih would cut is refused; a comment may be of any length. */
static void test_config_file_long_lines(void **state)
{
    char text[1024];

    (void)state;
    for (int len = 190; len < 210; len++) {
        struct bench b = {0};

        tr_text(text, sizeof text, "[store]\n;%0400d\npath=%0*d\n[log]\nlevel=debug\n", 0, len - 5,
                0);
        if (len <= 199) {
            assert_int_equal(read_file(&b, text, "", ""), TARRY_OK);
            assert_int_equal(strlen(b.c.data_path), len - 5);
            assert_int_equal(b.c.settings[TR_KEY_LOG_LEVEL].line, 5);
        } else {
            assert_int_equal(read_file(&b, text, "", ""), TARRY_EINVAL);
            assert_says(b.r.why, ":3: the line is longer than 199 bytes");
        }
        end(&b);
    }
}

static void test_config_file_that_is_none(void **state)
{
    struct bench b = {0};
    char line[128];
    char *large = calloc(1, (1 << 20) + 1);

    (void)state;
    assert_non_null(large);
    assert_int_equal(read_both(&b, "tarry serve --config /", ""), TARRY_EINVAL);
    assert_says(b.r.why, "the config file / cannot be read: Is a directory");
    end(&b);
    new_file(&b, "[store]\npath=a\0b\n", 17);
    tr_text(line, sizeof line, "tarry serve --config %s", b.path);
    assert_int_equal(read_both(&b, line, ""), TARRY_EINVAL);
    assert_says(b.r.why, ":2: there is a NUL byte");
    tr_config_fini(&b.c);
    memset(large, '\n', (1 << 20) + 1);
    write_file(b.path, large, 1 << 20);
    assert_int_equal(read_both(&b, line, ""), TARRY_OK);
    tr_config_fini(&b.c);
    write_file(b.path, large, (1 << 20) + 1);
    assert_int_equal(read_both(&b, line, ""), TARRY_EINVAL);
    assert_says(b.r.why, "larger than 1 MiB");
    end(&b);
    free(large);
}

/* Whatever is in the file: it is taken, or refused with its name and a reason. */
static void test_config_file_of_random_pieces(void **state)
{
    static const char *const pieces[] = {
        "[store]", "[log]", "path", "sync", "level", "=",    ":",    "info", "always", "\n",
        "\n",      "\n",    " ",    ";",    "#",     "]",    "[",    "\r",   "\t",     "\"",
        "x",       "debug", "json", "on",   "\xff",  "\x01", "50ms", "=a\n", "=on\n",  "=info\n"};
    struct tr_rng rng = {.state = 1};
    unsigned taken = 0;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct bench b = {0};
        char text[512] = "[store]\n";
        uint64_t count = tr_rng_below(&rng, 12);

        for (uint64_t j = 0; j < count; j++) {
            tr_text(text + strlen(text), 16, "%s", pieces[tr_rng_below(&rng, COUNT(pieces))]);
        }
        if (read_file(&b, text, "", "") == TARRY_OK) {
            assert_int_equal(b.r.why[0], '\0');
            taken++;
        } else {
            assert_ptr_equal(strstr(b.r.why, b.path), b.r.why);
        }
        end(&b);
    }
    assert_in_range(taken, 100, 2900);
}

/* ---- the flags of beanstalkd ---- */

static void test_drop_in_flags(void **state)
{
    static const struct {
        const char *line;
        const char *dir; /* NULL: temporary */
        const char *sync;
        const char *listen;
        uint32_t body_max;
        enum tr_log_level level;
    } cases[] = {
        {"tarry beanstalkd", NULL, "never", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"/usr/bin/beanstalkd", NULL, "never", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -b d", "d", "50ms", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -bd -f 0", "d", "always", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -b -x -f200", "-x", "200ms", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -b d -f 5 -F", "d", "never", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -b d -F -f 5", "d", "5ms", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -f 0", NULL, "never", "127.0.0.1:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -f99999999999999999999 -bd", "d", "86400000ms", "127.0.0.1:11300", 65535,
         TR_LEVEL_WARNING},
        {"beanstalkd -p 0 -l 0.0.0.0", NULL, "never", "0.0.0.0:0", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -l :: -p11301", NULL, "never", "[::]:11301", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -l [::1]", NULL, "never", "[::1]:11300", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -l localhost -p 1 -p 2", NULL, "never", "127.0.0.1:2", 65535,
         TR_LEVEL_WARNING},
        {"beanstalkd -l unix:/x -p 1", NULL, "never", "unix:/x", 65535, TR_LEVEL_WARNING},
        {"beanstalkd -z 8388608 -V", NULL, "never", "127.0.0.1:11300", 8 << 20, TR_LEVEL_INFO},
        {"beanstalkd -VVcnz1", NULL, "never", "127.0.0.1:11300", 1, TR_LEVEL_DEBUG},
        {"beanstalkd -VVVVf50 -s 4096 -c", NULL, "never", "127.0.0.1:11300", 65535, TR_LEVEL_DEBUG},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_both(&b, cases[i].line, "TARRY_STORE_PATH=x TARRY_FOO=x"), TARRY_OK);
        assert_int_equal(b.c.command, TR_COMMAND_SERVE);
        assert_true(b.c.drop_in);
        assert_int_equal(b.c.data_path == NULL, cases[i].dir == NULL);
        if (cases[i].dir != NULL) {
            assert_string_equal(b.c.data_path, cases[i].dir);
        }
        assert_string_equal(b.c.sync_text, cases[i].sync);
        assert_string_equal(b.c.listen_beanstalk, cases[i].listen);
        assert_string_equal(b.c.listen_http, "off");
        assert_int_equal(b.c.body_max, cases[i].body_max);
        assert_int_equal(b.c.log_level, cases[i].level);
        assert_null(b.c.user);
        end(&b);
    }
}

static void test_drop_in_sync_and_user(void **state)
{
    struct bench b = {0};

    (void)state;
    assert_int_equal(read_both(&b, "beanstalkd -b d -f 200 -u nobody", ""), TARRY_OK);
    assert_int_equal(b.c.sync, TR_SYNC_INTERVAL);
    assert_int_equal(b.c.sync_us, 200000);
    assert_string_equal(b.c.user, "nobody");
    assert_setting(&b, TR_KEY_STORE_SYNC, "200ms", TR_FROM_FLAG);
    assert_setting(&b, TR_KEY_LISTEN_BEANSTALK, "127.0.0.1:11300", TR_FROM_DEFAULT);
    assert_setting(&b, TR_KEY_LIMITS_BODY, "65535", TR_FROM_DEFAULT);
    end(&b);
    assert_int_equal(read_both(&b, "beanstalkd -f0 -bd", ""), TARRY_OK);
    assert_int_equal(b.c.sync, TR_SYNC_ALWAYS);
    end(&b);
    assert_int_equal(read_both(&b, "beanstalkd -f0", ""), TARRY_OK);
    assert_int_equal(b.c.sync, TR_SYNC_NEVER);
    end(&b);
}

static void test_drop_in_refusals(void **state)
{
    static const struct {
        const char *line;
        enum tr_exit exit;
        const char *why;
    } cases[] = {
        {"beanstalkd x", TR_EXIT_DROP_IN, "\"x\" is no flag"},
        {"beanstalkd -", TR_EXIT_DROP_IN, "\"-\" is no flag"},
        {"beanstalkd --", TR_EXIT_DROP_IN, "no flag --"},
        {"beanstalkd --port 1", TR_EXIT_DROP_IN, "no flag --port"},
        {"tarry beanstalkd serve", TR_EXIT_DROP_IN, "\"serve\" is no flag"},
        {"beanstalkd -VX", TR_EXIT_DROP_IN, "no flag -X"},
        {"beanstalkd -b", TR_EXIT_DROP_IN, "-b needs a value"},
        {"beanstalkd -Vp", TR_EXIT_DROP_IN, "-p needs a value"},
        {"beanstalkd -z 1k", TR_EXIT_DROP_IN, "-z takes a number, not \"1k\""},
        {"beanstalkd -f 1.5", TR_EXIT_DROP_IN, "-f takes a number"},
        {"beanstalkd -sabc", TR_EXIT_DROP_IN, "-s takes a number"},
        {"beanstalkd -z 8388609", TR_EXIT_USAGE, "8 MiB"},
        {"beanstalkd -z 1073741824", TR_EXIT_USAGE, "8 MiB"},
        {"beanstalkd -z 99999999999999999999999", TR_EXIT_USAGE, "8 MiB"},
        {"beanstalkd -z 0", TR_EXIT_USAGE, "-z takes 1 to 8388608"},
        {"beanstalkd -p abc", TR_EXIT_USAGE, "-p takes a port"},
        {"beanstalkd -p 65536", TR_EXIT_USAGE, "-p takes a port"},
        {"beanstalkd -l example.org", TR_EXIT_USAGE, "-l: \"example.org\" names a host"},
        {"beanstalkd -l unix:", TR_EXIT_USAGE, "no path"},
        {"beanstalkd -l 127.0.0.1:1", TR_EXIT_USAGE, "is no address"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_both(&b, cases[i].line, ""), TARRY_EINVAL);
        assert_int_equal(b.r.exit, cases[i].exit);
        assert_says(b.r.why, cases[i].why);
        end(&b);
    }
}

/* ---- commands and help ---- */

static void test_config_commands(void **state)
{
    static const struct {
        const char *line;
        enum tr_command command;
    } cases[] = {
        {"tarry help", TR_COMMAND_HELP},
        {"tarry -h", TR_COMMAND_HELP},
        {"tarry version", TR_COMMAND_VERSION},
        {"tarry --version", TR_COMMAND_VERSION},
        {"tarry version --help", TR_COMMAND_HELP},
        {"tarry help serve", TR_COMMAND_HELP_SERVE},
        {"tarry serve --sync never --help --nonsense", TR_COMMAND_HELP_SERVE},
        {"tarry help beanstalkd", TR_COMMAND_HELP_DROP_IN},
        {"tarry beanstalkd -h -X", TR_COMMAND_HELP_DROP_IN},
        {"tarry beanstalkd --help", TR_COMMAND_HELP_DROP_IN},
        {"beanstalkd -Vh", TR_COMMAND_HELP_DROP_IN},
        {"beanstalkd -vh", TR_COMMAND_VERSION_DROP_IN},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b = {0};

        assert_int_equal(read_both(&b, cases[i].line, "TARRY_FOO=x"), TARRY_OK);
        assert_int_equal(b.c.command, cases[i].command);
        end(&b);
    }
}

static void test_help_names_every_key(void **state)
{
    char keys[8192];

    (void)state;
    tr_text(keys, sizeof keys, "%s%s", tr_help_keys_text, tr_help_more_keys_text);
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_key_row *row = &tr_key_rows[i];
        char text[64];

        tr_text(text, sizeof text, "\n  %s ", row->full);
        assert_says(keys, text);
        tr_text(text, sizeof text, " %s ", row->fallback);
        assert_says(keys, text);
        tr_text(text, sizeof text, "TARRY_%s", row->full);
        upper(text);
        tr_text(text + strlen(text), 2, "\n");
        assert_says(keys, text);
        if (row->flag != NULL) {
            tr_text(text, sizeof text, "\n  %s ", row->flag);
            assert_says(tr_help_serve_text, text);
        }
    }
    for (const char *flag = "bfFlpzuVsvh"; *flag != '\0'; flag++) {
        char text[] = {'\n', ' ', ' ', '-', *flag, ' ', '\0'};

        assert_says(tr_help_drop_in_text, text);
    }
    assert_says(tr_help_drop_in_text, "-c, -n");
}

/* ---- warnings ---- */

static void test_config_warnings(void **state)
{
    static const struct {
        const char *line;
        const char *says;
    } cases[] = {
        {"tarry serve", ""},
        {"tarry serve --http off", ""},
        {"tarry serve --http 0.0.0.0:1 --insecure",
         "warning: 0.0.0.0:1 can be reached from other machines, and whoever gets there may take "
         "and delete every job\n"},
        {"tarry serve --insecure", ""},
        {"beanstalkd -b /nonexistent", ""},
    };
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        listen(&e, TR_LEVEL_WARNING, false);
        assert_int_equal(read_both(&b, cases[i].line, ""), TARRY_OK);
        tr_config_warn(&b.c, &e.log);
        assert_string_equal(heard(&e), cases[i].says);
        end(&b);
        deafen(&e);
    }
    listen(&e, TR_LEVEL_WARNING, false);
    assert_int_equal(read_both(&b, "tarry serve",
                               "TARRY_FOO=1 TARRY_TEST_DIR=2 TARRY_BIN=x TARRY_LOG_JSON=off "
                               "TARRY_SERVICE_HOST=x TARRY_=3 X=y"),
                     TARRY_OK);
    tr_config_warn(&b.c, &e.log);
    assert_string_equal(heard(&e),
                        "warning: the environment variable TARRY_FOO is ignored: it is no key (the "
                        "names are TARRY_SECTION_KEY, such as TARRY_STORE_PATH)\n"
                        "warning: the environment variable TARRY_TEST_DIR is ignored: it is no key "
                        "(the names are TARRY_SECTION_KEY, such as TARRY_STORE_PATH)\n");
    end(&b);
    deafen(&e);
    listen(&e, TR_LEVEL_WARNING, false);
    assert_int_equal(read_both(&b, "beanstalkd -l 0.0.0.0", "TARRY_FOO=1"), TARRY_OK);
    tr_config_warn(&b.c, &e.log);
    assert_says(heard(&e), "warning: 0.0.0.0:11300 can be reached from other machines");
    end(&b);
    deafen(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_defaults),
        cmocka_unit_test(test_config_each_key_from_each_source),
        cmocka_unit_test(test_config_flag_over_environment_over_file),
        cmocka_unit_test(test_config_file_from_the_environment),
        cmocka_unit_test(test_config_body_sizes),
        cmocka_unit_test(test_config_wrong_command_lines),
        cmocka_unit_test(test_config_of_redis),
        cmocka_unit_test(test_config_insecure_allows_all),
        cmocka_unit_test(test_config_refusals_hide_passwords),
        cmocka_unit_test(test_config_environment_names),
        cmocka_unit_test(test_config_file_is_refused_with_its_line),
        cmocka_unit_test(test_config_file_may_be_indented),
        cmocka_unit_test(test_config_file_oddities),
        cmocka_unit_test(test_config_file_long_lines),
        cmocka_unit_test(test_config_file_that_is_none),
        cmocka_unit_test(test_config_file_of_random_pieces),
        cmocka_unit_test(test_drop_in_flags),
        cmocka_unit_test(test_drop_in_sync_and_user),
        cmocka_unit_test(test_drop_in_refusals),
        cmocka_unit_test(test_config_commands),
        cmocka_unit_test(test_help_names_every_key),
        cmocka_unit_test(test_config_warnings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
