#ifndef TR_SERVER_CONFIG_H
#define TR_SERVER_CONFIG_H

/*
 * What to do, and how: from the command line, the environment and the config file. See config.c.
 *
 * Ownership: the config owns its strings; they live until tr_config_fini, but those of keys that
 * can change only until the next reload. argv and the environment are borrowed for as long as
 * the config lives.
 */

#include "base/check.h"
#include "port/engine.h"
#include "rules/token.h"
#include "server/address.h"
#include "server/logger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the process ends. */
enum tr_exit {
    TR_EXIT_FINE = 0,
    TR_EXIT_FAILED = 1,  /* something went wrong at run time */
    TR_EXIT_USAGE = 2,   /* the command line or the config is wrong */
    TR_EXIT_DAMAGED = 3, /* the store cannot be used by this version: damaged, or too new */
    TR_EXIT_DROP_IN = 5, /* wrong flags of `tarry beanstalkd`: the number that beanstalkd uses */
};

enum tr_command {
    TR_COMMAND_HELP,
    TR_COMMAND_HELP_SERVE,
    TR_COMMAND_HELP_DROP_IN,
    TR_COMMAND_SERVE, /* also for beanstalkd, with drop_in */
    TR_COMMAND_VERSION,
    TR_COMMAND_VERSION_DROP_IN,
};

/* The keys; config_keys.c says what each may be. */
enum tr_key {
    TR_KEY_STORE_PATH,
    TR_KEY_STORE_SYNC,
    TR_KEY_STORE_READ_ONLY,
    TR_KEY_STORE_BACKUP_ROOT,
    TR_KEY_LISTEN_BEANSTALK,
    TR_KEY_LISTEN_HTTP,
    TR_KEY_LISTEN_INSECURE,
    TR_KEY_ENGINE_KIND,
    TR_KEY_REDIS_SERVERS,
    TR_KEY_REDIS_USER,
    TR_KEY_REDIS_PASSWORD,
    TR_KEY_REDIS_PREFIX,
    TR_KEY_REDIS_TIMEOUT,
    TR_KEY_REDIS_WAIT_REPLICAS,
    TR_KEY_SQL_URL,
    TR_KEY_SQL_USER,
    TR_KEY_SQL_PASSWORD,
    TR_KEY_SQL_CONNECTIONS,
    TR_KEY_SQL_BATCH,
    TR_KEY_CLUSTER_SLOTS,
    TR_KEY_CLUSTER_LEASE,
    TR_KEY_CLUSTER_HOT_WINDOW,
    TR_KEY_CLUSTER_HOT_MAX,
    TR_KEY_CLUSTER_RECONCILE,
    TR_KEY_ZOOKEEPER_SERVERS,
    TR_KEY_ZOOKEEPER_ROOT,
    TR_KEY_ZOOKEEPER_SESSION,
    TR_KEY_CLOCK_TEST,
    TR_KEY_CLOCK_START,
    TR_KEY_HTTP_HOSTS,
    TR_KEY_HTTP_CLASSIC,
    TR_KEY_LIMITS_BODY,
    TR_KEY_LIMITS_HEADER,
    TR_KEY_LIMITS_HEADER_BYTES,
    TR_KEY_LIMITS_IDLE,
    TR_KEY_LIMITS_CONNECTIONS,
    TR_KEY_LIMITS_PER_ADDRESS,
    TR_KEY_LIMITS_BODY_RATE,
    TR_KEY_LIMITS_UNREAD,
    TR_KEY_LIMITS_BUFFERS,
    TR_KEY_LIMITS_TOPICS,
    TR_KEY_TLS_CERT,
    TR_KEY_TLS_KEY,
    TR_KEY_TLS_CLIENT_CA,
    TR_KEY_HISTORY_KEEP,
    TR_KEY_HISTORY_BYTES,
    TR_KEY_MEMORY_LIMIT,
    TR_KEY_MEMORY_FAR,
    TR_KEY_MEMORY_NEAR,
    TR_KEY_OUTLET_ALLOW_PRIVATE,
    TR_KEY_IO_BACKGROUND,
    TR_KEY_SCRUB_RATE,
    TR_KEY_SCRUB_EVERY,
    TR_KEY_LOG_LEVEL,
    TR_KEY_LOG_JSON,
    TR_KEY_LOG_SLOW,
    TR_KEY_COUNT
};

/* Where a value came from; the later wins over the earlier. */
enum tr_from { TR_FROM_DEFAULT, TR_FROM_FILE, TR_FROM_ENVIRONMENT, TR_FROM_FLAG };

struct tr_setting {
    char *text;        /* the value as it was given; an address in its canonical form; may be NULL
                          for the data path of a drop_in */
    enum tr_from from; /* of text */
    int line;          /* TR_FROM_FILE: in config_path; else 0 */
};

/* Where a token stands. */
struct tr_token_place {
    enum tr_from from;
    int line; /* TR_FROM_FILE: in config_path; else 0 */
};

struct tr_config {
    enum tr_command command;
    bool drop_in;                     /* called as beanstalkd: flags only, no environment or file */
    const char *config_path;          /* NULL: no file */
    const char *data_path;            /* NULL: a temporary store, gone at exit; drop_in only */
    const char *backup_root;          /* NULL: no copies are made */
    enum tr_sync sync;                /* NEVER when data_path is NULL */
    uint64_t sync_us;                 /* TR_SYNC_INTERVAL: 50 ms; drop_in: any number of ms */
    const char *sync_text;            /* "always", "50ms", "never"; drop_in: any number of ms */
    const char *listen_beanstalk;     /* canonical: "127.0.0.1:11300", "[::1]:0", "unix:P", "off" */
    const char *listen_http;          /* the same */
    struct tr_address beanstalk_addr; /* listen_beanstalk, taken apart */
    struct tr_address http_addr;
    bool insecure;
    bool on_redis;             /* engine.kind: jobs are in Redis, not in data_path; */
    const char *redis_servers; /* "HOST:PORT", several with commas between them; NULL: none */
    const char *redis_user;    /* NULL: none, as the next */
    const char *redis_password;
    const char *redis_prefix;
    uint64_t redis_timeout_us;
    uint32_t redis_wait_replicas;
    const char *sql_url; /* "mariadb://HOST/DATABASE"; NULL: none */
    const char *sql_user;
    const char *sql_password;
    uint32_t sql_connections;
    uint32_t sql_batch;
    uint32_t cluster_slots;
    uint64_t cluster_lease_us;
    uint64_t cluster_hot_window_us;
    uint32_t cluster_hot_max;
    uint64_t cluster_reconcile_us;
    const char *zookeeper_servers; /* as redis_servers; NULL: leases in Redis say who lives */
    const char *zookeeper_root;
    uint64_t zookeeper_session_us;
    uint64_t history_us;    /* what happened to jobs is told for so long, */
    uint32_t history_bytes; /* from memory of at most so many */
    bool test_clock;
    uint64_t clock_start_us;  /* of a test clock, at least; 0: of a new store the wall clock */
    bool read_only;           /* the store is only looked at */
    const char *http_hosts;   /* names of this server, with commas between them */
    bool http_classic;        /* the routes of the queues of old answer */
    bool allow_private;       /* outlets may send to private addresses */
    uint32_t body_max;        /* of the beanstalk port; at most TR_CONFIG_BODY_MAX */
    uint32_t http_body_max;   /* of the HTTP port; the same unless limits.body was not given */
    uint64_t header_us;       /* a client may take so long to send the head of a request, */
    uint32_t header_bytes;    /* which may have so many bytes, */
    uint64_t idle_us;         /* and so long to send or read anything at all */
    uint32_t connections_max; /* of both ports together, */
    uint32_t address_max;     /* and from one address; 0: any */
    uint32_t body_rate;       /* bytes a second of a body, at least; 0: any */
    uint64_t unread_us;   /* a client of the beanstalk port may leave so long unread what it gets */
    uint32_t buffers;     /* bytes of all that clients sent or did not read */
    uint32_t topics_max;  /* of the embedded engine */
    const char *tls_cert; /* NULL: no TLS; else files */
    const char *tls_key;
    const char *tls_client_ca;
    uint64_t memory_bytes;    /* limit of all memory; 0: none, */
    unsigned memory_percent;  /* or this part of the machine's; 0: not so */
    uint32_t far_max;         /* far jobs whose records may be in the log */
    uint32_t near_max;        /* jobs that are due soon and may be in memory */
    uint32_t background_rate; /* bytes a second; 0: any */
    uint32_t scrub_rate;      /* bytes a second; 0: never */
    uint64_t scrub_every_us;
    const char *user; /* to become after the sockets are bound; NULL: stay; drop_in only */
    enum tr_log_level log_level;
    bool log_json;
    uint64_t slow_us; /* a command that takes so long of the loop is told; 0: none is */

    struct tr_token *tokens; /* section [tokens]; */
    struct tr_token_place *token_places;
    unsigned token_count;

    struct tr_setting settings[TR_KEY_COUNT];
    int argc; /* for a reload */
    char **argv;
    char **env;
};

#define TR_CONFIG_BODY_MAX (8U << 20)
#define TR_CONFIG_BODY_DEFAULT 65535U
#define TR_CONFIG_MEMORY_MIN (UINT64_C(128) << 20) /* with less not even run files can be made */

/*
 * Reads everything. TR_EXIT_FINE: go on with c->command. Else stderr says why and what to do, and
 * the process ends so. Either way tr_config_fini is due. `env` is like environ.
 */
TR_MUST_USE enum tr_exit tr_config_read(struct tr_config *c, int argc, char **argv, char **env);
void tr_config_fini(struct tr_config *c);

/* Logs what is odd but no error: to be called once, when the server starts. */
void tr_config_warn(const struct tr_config *c, struct tr_logger *log);

/* Could the server go on with what was read? Else `why` is a sentence that says why not. */
typedef int tr_config_check_fn(void *ctx, const struct tr_config *fresh, char *why, size_t room);

/*
 * Reads file and environment again, under the same command line. Takes over what can change while
 * the server runs, which has to look at it then (live.c), and says in `log` what that is, and of
 * other keys why they stay as they are. TARRY_EINVAL: something is wrong, or `check` said no; that
 * was logged, and all is as it was. TARRY_ENOMEM likewise. `check` may be NULL.
 */
TR_MUST_USE int tr_config_reload(struct tr_config *c, const struct tr_logger *log,
                                 tr_config_check_fn *check, void *ctx);

/* Can it change while the server runs? */
bool tr_config_is_live(enum tr_key key);

/* What may be told of its value: NULL, if there is none, or if it is a secret. */
const char *tr_config_told(const struct tr_config *c, enum tr_key key);

/* "store.path" and so on; "default", "file", "environment", "flag". */
const char *tr_config_key_name(enum tr_key key);
const char *tr_config_from_name(enum tr_from from);

#endif
