/*
 * AMQP 0-9-1 by librabbitmq, which blocks, on a line with a thread of its own (line.c).
 *
 *     waiting --publish--> sent, in the order of tags --ack--> OK
 *                                                     --nack--> FAILED
 *                                                     --return, then ack--> FAILED: no queue for it
 *
 * One connection with one channel in confirm mode. The n-th message of a channel has the tag n, and
 * the broker confirms by tags, one or all up to one. A message is persistent, so it is confirmed
 * when it is safe (on disk, for a durable queue), and mandatory, so one that no queue takes comes
 * back before its confirmation, named by its message id. OK is said for nothing else but an ack.
 *
 * A broker that closes the channel names one message (no such exchange, too large) and confirms no
 * other: all that was sent fails, and the connection with it, which is simpler than a new channel.
 *
 * Time. Each call of the library is bounded: tr_dial, the time-outs of handshake and rpc, and for
 * writes TCP_USER_TIMEOUT (dial.c). A broker that is short of memory says so (connection.blocked):
 * nothing is published then, and what waits fails in time. The library sends heartbeats when it is
 * called, so it is called at least twice in each interval.
 *
 * TLS. The library wants to connect by itself, so it is given the address that the guard let pass,
 * as a number; OpenSSL compares the certificate with the name of the URL.
 */

#include "base/err.h"
#include "base/text.h"
#include "outlet/dial.h"
#include "outlet/kinds.h"
#include "outlet/label.h"
#include "outlet/line.h"

#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHANNEL = 1,
    NAME_BYTES = 255, /* of exchanges and routing keys, by the protocol */
    HEARTBEAT_S = 20,
    GOODBYE_MS = 200,
};

struct sender {
    struct tr_line line; /* first */
    bool tls;
    char exchange[NAME_BYTES + 1];
    char routing_key[NAME_BYTES + 1];

    /* The thread's. */
    amqp_connection_state_t wire; /* NULL: none */
    uint64_t tag;                 /* of the last message */
};

/* A reply code of the protocol and the broker's words. */
static bool note_reply(struct sender *a, unsigned code, amqp_bytes_t text)
{
    struct tr_line *l = &a->line;
    size_t len = text.len < sizeof l->why ? text.len : sizeof l->why;

    l->outcome = TR_SEND_UNREACHABLE;
    tr_text(l->code, sizeof l->code, "%u", code);
    tr_text(l->why, sizeof l->why, "the broker says %u %.*s", code, (int)len,
            len > 0 ? (const char *)text.bytes : "");
    return false;
}

static bool note_status(struct sender *a, int status)
{
    bool late = status == AMQP_STATUS_TIMEOUT || status == AMQP_STATUS_HEARTBEAT_TIMEOUT;

    return tr_line_note(&a->line, late ? "timeout" : "connect", amqp_error_string2(status));
}

/* Is it a good reply? If not, notes why. */
static bool replied(struct sender *a, amqp_rpc_reply_t r)
{
    if (r.reply_type == AMQP_RESPONSE_NORMAL) {
        return true;
    }
    if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        return note_status(a, r.library_error);
    }
    if (r.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *c = r.reply.decoded;

        return note_reply(a, c->reply_code, c->reply_text);
    }
    if (r.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *c = r.reply.decoded;

        return note_reply(a, c->reply_code, c->reply_text);
    }
    return tr_line_note(&a->line, "protocol", "the broker answers with something else");
}

/* ---- Connecting. */

static bool open_tls(struct sender *a, int fd, const struct timeval *limit)
{
    struct tr_line *l = &a->line;
    amqp_socket_t *s = amqp_ssl_socket_new(a->wire);
    SSL_CTX *ctx = s != NULL ? amqp_ssl_socket_get_context(s) : NULL;
    X509_VERIFY_PARAM *param = ctx != NULL ? SSL_CTX_get0_param(ctx) : NULL;
    char address[TR_DIAL_ADDRESS];
    bool known = tr_dial_address(fd, address) == TARRY_OK;
    int status;

    (void)close(fd);
    if (param == NULL || !known) {
        return tr_line_note(l, "tls", "TLS cannot be set up");
    }
    if ((X509_VERIFY_PARAM_set1_ip_asc(param, l->url.host) != 1 &&
         X509_VERIFY_PARAM_set1_host(param, l->url.host, 0) != 1) ||
        SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return tr_line_note(l, "tls", "TLS cannot be set up: no certificates to trust");
    }
    amqp_ssl_socket_set_verify_peer(s, 1);
    amqp_ssl_socket_set_verify_hostname(s, 0); /* all that it knows is the address */
    (void)amqp_ssl_socket_set_ssl_versions(s, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    status = amqp_socket_open_noblock(s, address, (int)strtol(l->url.port, NULL, 10), limit);
    if (status != AMQP_STATUS_OK) {
        return tr_line_note(l, "tls", amqp_error_string2(status));
    }
    tr_dial_tune(amqp_get_sockfd(a->wire), l->post.timeout_ms);
    return true;
}

static bool open_socket(struct sender *a, int fd, const struct timeval *limit)
{
    amqp_socket_t *s;

    a->wire = amqp_new_connection();
    if (a->wire != NULL && a->tls) {
        return open_tls(a, fd, limit);
    }
    s = a->wire != NULL ? amqp_tcp_socket_new(a->wire) : NULL;
    if (s == NULL) {
        (void)close(fd);
        return tr_line_note(&a->line, "memory", "out of memory");
    }
    amqp_tcp_socket_set_sockfd(s, fd);
    return true;
}

static amqp_table_entry_t can(const char *name)
{
    return (amqp_table_entry_t){amqp_cstring_bytes(name),
                                {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

static amqp_table_entry_t text(const char *name, amqp_bytes_t value)
{
    return (amqp_table_entry_t){amqp_cstring_bytes(name),
                                {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = value}};
}

static bool log_in(struct sender *a, const struct timeval *limit)
{
    const struct tr_url *url = &a->line.url;
    const char *user = url->has_user ? url->user : "guest";
    const char *password = url->has_password ? url->password : "guest";
    const char *vhost = url->path[0] != '\0' ? url->path : "/";
    amqp_table_entry_t abilities[] = {can("publisher_confirms"), can("basic.nack"),
                                      can("connection.blocked"),
                                      can("authentication_failure_close")};
    amqp_table_entry_t told[] = {
        text("product", amqp_cstring_bytes("tarry")),
        text("connection_name", amqp_cstring_bytes(a->line.post.host->topic)),
        {amqp_cstring_bytes("capabilities"),
         {.kind = AMQP_FIELD_KIND_TABLE,
          .value.table = {sizeof abilities / sizeof abilities[0], abilities}}},
    };
    amqp_table_t properties = {sizeof told / sizeof told[0], told};

    if (amqp_set_handshake_timeout(a->wire, limit) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(a->wire, limit) != AMQP_STATUS_OK) {
        return tr_line_note(&a->line, "memory", "out of memory");
    }
    return replied(a, amqp_login_with_properties(a->wire, vhost, CHANNEL, AMQP_DEFAULT_FRAME_SIZE,
                                                 HEARTBEAT_S, &properties, AMQP_SASL_METHOD_PLAIN,
                                                 user, password));
}

static bool open_channel(struct sender *a)
{
    (void)amqp_channel_open(a->wire, CHANNEL);
    if (!replied(a, amqp_get_rpc_reply(a->wire))) {
        return false;
    }
    (void)amqp_confirm_select(a->wire, CHANNEL);
    a->tag = 0;
    return replied(a, amqp_get_rpc_reply(a->wire));
}

static bool dial(struct tr_line *l)
{
    struct sender *a = TR_CONTAINER_OF(l, struct sender, line);
    struct timeval limit = {.tv_sec = (time_t)(l->post.timeout_ms / 1000),
                            .tv_usec = (suseconds_t)(l->post.timeout_ms % 1000 * 1000)};
    int fd = tr_line_dial(l);
    bool ok;

    if (fd < 0 || !open_socket(a, fd, &limit)) {
        return false;
    }
    l->fd = amqp_get_sockfd(a->wire);
    tr_post_blocks(&l->post, l->fd);
    ok = log_in(a, &limit) && open_channel(a);
    tr_post_blocks_no_more(&l->post);
    return ok;
}

static void hang_up(struct tr_line *l, bool polite)
{
    struct sender *a = TR_CONTAINER_OF(l, struct sender, line);
    struct timeval limit = {.tv_usec = GOODBYE_MS * 1000};

    if (a->wire == NULL) {
        return;
    }
    if (polite && amqp_set_rpc_timeout(a->wire, &limit) == AMQP_STATUS_OK) {
        (void)amqp_connection_close(a->wire, AMQP_REPLY_SUCCESS);
    }
    (void)amqp_destroy_connection(a->wire); /* closes the socket, too */
    a->wire = NULL;
}

/* ---- Sending. */

static amqp_bytes_t bytes(const void *at, size_t len)
{
    return (amqp_bytes_t){len, (void *)at};
}

static bool publish(struct sender *a, struct tr_mail *m)
{
    struct tr_labels labels;
    amqp_table_entry_t headers[TR_LABELS];
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_APP_ID_FLAG,
        .content_type = amqp_cstring_bytes("application/octet-stream"),
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .app_id = amqp_cstring_bytes("tarry"),
    };
    int count = 0;
    int status;

    tr_labels_init(&labels, m->send);
    for (int i = 0; i < TR_LABELS; i++) {
        if (labels.at[i].len > 0) {
            headers[count++] = text(labels.at[i].name, bytes(labels.at[i].text, labels.at[i].len));
        }
    }
    p.headers = (amqp_table_t){count, headers};
    p.message_id = bytes(labels.at[TR_LABEL_ID].text, labels.at[TR_LABEL_ID].len);
    m->tag = ++a->tag;
    tr_mails_append(&a->line.sent, m); /* before it is sure: a part may arrive */
    tr_post_blocks(&a->line.post, a->line.fd);
    status = amqp_basic_publish(a->wire, CHANNEL, amqp_cstring_bytes(a->exchange),
                                amqp_cstring_bytes(a->routing_key), 1, 0, &p,
                                bytes(m->send->body, m->send->body_len));
    tr_post_blocks_no_more(&a->line.post);
    return status == AMQP_STATUS_OK || note_status(a, status);
}

/* ---- Hearing. */

static void confirm_one(struct sender *a, struct tr_mail *m, bool taken)
{
    struct tr_post_answer answer = {TR_SEND_OK, "ok", NULL};

    if (m->returned) {
        answer = (struct tr_post_answer){TR_SEND_FAILED, "returned",
                                         "no queue takes it: look at exchange and routing_key"};
    } else if (!taken) {
        answer = (struct tr_post_answer){TR_SEND_FAILED, "nack", "the broker could not take it"};
    }
    tr_line_confirm(&a->line, m, &answer);
}

static void confirm(struct sender *a, uint64_t tag, bool multiple, bool taken)
{
    struct tr_mail *before = NULL;
    struct tr_mail *m = a->line.sent.first;

    while (m != NULL && m->tag <= tag) {
        struct tr_mail *next = m->next;

        if (multiple || m->tag == tag) {
            confirm_one(a, tr_mails_take(&a->line.sent, before), taken);
        } else {
            before = m;
        }
        m = next;
    }
}

/* One that came back: its confirmation follows. */
static void mark_returned(struct sender *a, const amqp_basic_properties_t *p)
{
    struct tr_labels labels;

    for (struct tr_mail *m = a->line.sent.first; m != NULL; m = m->next) {
        const struct tr_label *id = &labels.at[TR_LABEL_ID];

        tr_labels_init(&labels, m->send);
        if ((p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 && p->message_id.len == id->len &&
            memcmp(p->message_id.bytes, id->text, id->len) == 0) {
            m->returned = true;
        }
    }
}

/* False: that was the end of the connection. */
static bool obey(struct sender *a, const amqp_method_t *method)
{
    const amqp_basic_ack_t *ack = method->decoded;
    const amqp_basic_nack_t *nack = method->decoded;
    const amqp_channel_close_t *end = method->decoded;
    const amqp_connection_close_t *all_end = method->decoded;

    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD:
        confirm(a, ack->delivery_tag, ack->multiple != 0, true);
        return true;
    case AMQP_BASIC_NACK_METHOD:
        confirm(a, nack->delivery_tag, nack->multiple != 0, false);
        return true;
    case AMQP_CONNECTION_BLOCKED_METHOD:
        a->line.held = "the broker takes no messages now: its memory or disk is short";
        return true;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        a->line.held = NULL;
        return true;
    case AMQP_CHANNEL_CLOSE_METHOD:
        (void)note_reply(a, end->reply_code, end->reply_text);
        a->line.outcome = TR_SEND_FAILED; /* it did answer */
        return false;
    case AMQP_CONNECTION_CLOSE_METHOD:
        return note_reply(a, all_end->reply_code, all_end->reply_text);
    default: /* a return: what matters is in the header that follows */
        return true;
    }
}

/* All that has come; a heartbeat is sent if it is time. */
static bool hear(struct sender *a)
{
    for (;;) {
        struct timeval none = {0};
        amqp_frame_t frame;
        int status;

        amqp_maybe_release_buffers(a->wire);
        status = amqp_simple_wait_frame_noblock(a->wire, &frame, &none);
        if (status == AMQP_STATUS_TIMEOUT) {
            return true;
        }
        if (status != AMQP_STATUS_OK) {
            return note_status(a, status);
        }
        if (frame.frame_type == AMQP_FRAME_HEADER) {
            mark_returned(a, frame.payload.properties.decoded);
        } else if (frame.frame_type == AMQP_FRAME_METHOD && !obey(a, &frame.payload.method)) {
            return false;
        }
    }
}

static bool pump(struct tr_line *l)
{
    struct sender *a = TR_CONTAINER_OF(l, struct sender, line);
    bool any = false;

    if (!hear(a)) {
        return false;
    }
    while (l->waiting.first != NULL && l->held == NULL) {
        if (!publish(a, tr_mails_pop(&l->waiting))) {
            return false;
        }
        any = true;
    }
    return !any || hear(a); /* what came into the library's buffer meanwhile makes no event */
}

/* ---- The loop's side. */

/* What is wrong with them; NULL: nothing. */
static const char *read_settings(struct sender *a, const struct tr_deliver *d, const char *topic)
{
    static const struct tr_line_scheme schemes[2] = {{"amqp", "5672"}, {"amqps", "5671"}};
    struct tr_deliver_text exchange = d->texts[TR_DELIVER_EXCHANGE];
    struct tr_deliver_text key = d->texts[TR_DELIVER_ROUTING_KEY];

    if ((d->given >> TR_DELIVER_ROUTING_KEY & 1) == 0) {
        key = (struct tr_deliver_text){topic, strlen(topic)};
    }
    if (exchange.len > NAME_BYTES || key.len > NAME_BYTES) {
        return "exchange or routing_key is longer than 255 bytes";
    }
    if (exchange.len > 0) {
        memcpy(a->exchange, exchange.at, exchange.len);
    }
    if (key.len > 0) {
        memcpy(a->routing_key, key.at, key.len);
    }
    return tr_line_read_url(&a->line, d, schemes, &a->tls);
}

static int open_sender(void **out, const struct tr_deliver *d, const struct tr_sender_host *host)
{
    static const struct tr_line_ops ops = {"amqp", HEARTBEAT_S * 1000 / 2, dial, pump, hang_up};
    struct sender *a = calloc(1, sizeof *a);

    if (a == NULL) {
        return TARRY_ENOMEM;
    }
    a->line.ops = &ops;
    a->line.bad = read_settings(a, d, host->topic);
    *out = a;
    return tr_line_open(&a->line, host, d);
}

const struct tr_sender_kind tr_amqp_kind = {
    .type = TR_DELIVER_AMQP,
    .open = open_sender,
    .window = tr_post_window,
    .send = tr_post_send,
    .collect = tr_post_collect,
    .stop = tr_post_stop,
    .stopped = tr_post_stopped,
    .close = tr_post_close,
};
