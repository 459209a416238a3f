/*
 * The table of live keys.
 *
 *     SIGHUP --> tr_config_reload: read all anew, check, take over --> tr_live_apply: each row
 *                                             |
 *                                             +-- the certificate is read
 *
 * A row brings the value of its key to where it is used. It must do that whatever was there before,
 * and as often as it is asked to: it runs at the start, and after each reload, also when its own
 * key has not changed, since a file that it names may have.
 *
 * What can go wrong with a value is found before anything is taken over: where it is read
 * (config_keys.c), or, if that takes more than the value (a file that has to be opened), in the
 * function that is given to tr_config_reload. So a row cannot fail.
 *
 * A key that has no row here is `fixed` in config_keys.c, with the reason.
 */

#include "server/live.h"

#include "base/err.h"
#include "server/certificate.h"

#include <stddef.h>

typedef void row_fn(struct tr_live *l);

static void set_log(struct tr_live *l)
{
    l->log->level = l->config->log_level;
    l->log->json = l->config->log_json;
    l->conns->slow_us = l->config->slow_us;
}

static void set_body(struct tr_live *l)
{
    l->conns->beanstalk.body_max = l->config->body_max;
    l->conns->http.body_max = l->config->http_body_max;
}

static void set_header(struct tr_live *l)
{
    l->conns->patience_us[TR_PATIENCE_HEAD] = l->config->header_us;
    l->conns->patience_us[TR_PATIENCE_SHAKE] = l->config->header_us;
    l->conns->patience_us[TR_PATIENCE_AUTH] = l->config->header_us;
    l->conns->http.limits = (struct tr_http_limits){.head = l->config->header_bytes,
                                                    .url = l->config->header_bytes / 2};
}

static void set_idle(struct tr_live *l)
{
    l->conns->patience_us[TR_PATIENCE_BODY] = l->config->idle_us;
    l->conns->patience_us[TR_PATIENCE_IDLE] = l->config->idle_us;
    l->conns->patience_us[TR_PATIENCE_UNREAD] = l->config->idle_us;
    l->conns->patience_us[TR_PATIENCE_UNREAD_LONG] = l->config->unread_us;
}

static void set_bounds(struct tr_live *l)
{
    l->conns->address_max = l->config->address_max;
    l->conns->body_rate = l->config->body_rate;
    l->conns->buffers.limit_bytes = l->budget->connections;
}

static void set_connections(struct tr_live *l)
{
    uint64_t most = l->config->connections_max;

    tr_conns_allow(l->conns, most < l->most ? most : l->most);
}

static void set_http(struct tr_live *l)
{
    l->conns->http.hosts = l->config->http_hosts;
    l->conns->http.classic = l->config->http_classic;
    l->conns->http.backup_root = l->config->backup_root;
}

static void set_engine(struct tr_live *l)
{
    l->engine->ops->tune(l->engine->ctx);
}

static const struct {
    enum tr_key key;
    row_fn *set;
} rows[] = {
    {TR_KEY_LIMITS_PER_ADDRESS, set_bounds},
    {TR_KEY_LIMITS_BODY_RATE, set_bounds},
    {TR_KEY_LIMITS_BUFFERS, set_bounds},
    {TR_KEY_LIMITS_UNREAD, set_idle},
    {TR_KEY_STORE_BACKUP_ROOT, set_http},
    {TR_KEY_HTTP_HOSTS, set_http},
    {TR_KEY_HTTP_CLASSIC, set_http},
    {TR_KEY_LIMITS_BODY, set_body},
    {TR_KEY_LIMITS_HEADER, set_header},
    {TR_KEY_LIMITS_HEADER_BYTES, set_header},
    {TR_KEY_LIMITS_IDLE, set_idle},
    {TR_KEY_LIMITS_CONNECTIONS, set_connections},
    {TR_KEY_HISTORY_KEEP, set_engine},
    {TR_KEY_HISTORY_BYTES, set_engine},
    {TR_KEY_MEMORY_FAR, set_engine},
    {TR_KEY_IO_BACKGROUND, set_engine},
    {TR_KEY_SCRUB_RATE, set_engine},
    {TR_KEY_SCRUB_EVERY, set_engine},
    {TR_KEY_LOG_LEVEL, set_log},
    {TR_KEY_LOG_JSON, set_log},
    {TR_KEY_LOG_SLOW, set_log},
};

void tr_live_apply(struct tr_live *l)
{
    unsigned count = 0;

    *l->budget = tr_budget_cut(l->config, l->ram_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TR_CHECK(tr_config_is_live(rows[i].key));
        rows[i].set(l);
    }
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        count += tr_config_is_live((enum tr_key)i);
    }
    TR_CHECK(count == sizeof rows / sizeof rows[0]); /* none is missing */
}

/* Which files a certificate is in cannot change, but what is in them can. */
static int check(void *ctx, const struct tr_config *fresh, char *why, size_t room)
{
    struct tr_live *l = ctx;

    (void)fresh;
    return tr_certificate_read(&l->tls, l->conns, l->config, why, room);
}

int tr_live_reload(struct tr_live *l)
{
    int err = tr_config_reload(l->config, l->log, check, l);

    if (err == TARRY_OK) {
        tr_live_apply(l);
        tr_certificate_take(l->conns, l->tls, l->config, l->log);
    }
    return err;
}
