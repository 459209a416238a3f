/*
 * Kafka by librdkafka, which has threads and reconnects of its own; ours is between it and the
 * loop.
 *
 *     mail --produce--> librdkafka's queue --its threads--> brokers
 *     answer <--delivery report, in rd_kafka_poll on our thread-- its queue of events
 *
 * Its queue of events writes to the eventfd of the post, so that our thread sleeps in one place.
 *
 * A message is confirmed by all replicas in sync (acks=all); the producer is idempotent, so what
 * librdkafka sends again is there once, and in order. A job that we send again, because a report
 * came too late or never, is a new message with the same id: at least once.
 *
 * Each message has a time-out (message.timeout.ms), after which its report says so; so each mail
 * is answered, whatever the brokers do. While none can be reached that takes the whole time-out.
 *
 * A fatal error (idempotence cannot be kept up) ends a producer for good: all that is under way is
 * purged, which makes reports, and the next mail makes a new one.
 *
 * The guard stands in the callback that connects, so it sees every address: of the brokers that
 * were given, and of those that these name. When it refuses one nothing else will come of it for
 * what waits: it is purged at once.
 */

#include "base/err.h"
#include "base/text.h"
#include "outlet/guard.h"
#include "outlet/kinds.h"
#include "outlet/label.h"
#include "outlet/post.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LOOK_MS = 1000 };

struct sender {
    struct tr_post post; /* first */
    char brokers[TR_DELIVER_TEXT_MAX + 1];
    char topic[TR_DELIVER_TEXT_MAX + 1];
    bool by_id;

    /* The thread's. */
    rd_kafka_t *producer; /* NULL: none was needed yet, or the last one has died */
    size_t under_way;
    bool stopping;
    bool refused;              /* by the guard, since the last success */
    char trouble[TR_SEND_WHY]; /* what the library said last; empty: nothing since a success */

    atomic_bool guarded; /* by threads of the library: an address was refused */
};

/* ---- What the library calls. */

/* On one of its threads. 0, or an errno; a connect that goes on is a success. */
static int on_connect(int fd, const struct sockaddr *address, int len, const char *id, void *opaque)
{
    struct sender *k = opaque;

    (void)id;
    if (!tr_guard_allows(address, (socklen_t)len, k->post.host->allow_private)) {
        atomic_store(&k->guarded, true);
        tr_post_nudge(&k->post);
        return EACCES;
    }
    return connect(fd, address, (socklen_t)len) == 0 || errno == EINPROGRESS ? 0 : errno;
}

/* On our thread, as the next two. */
static void on_error(rd_kafka_t *rk, int err, const char *reason, void *opaque)
{
    struct sender *k = opaque;

    (void)rk;
    (void)err;
    tr_text(k->trouble, sizeof k->trouble, "%s", reason);
}

static struct tr_post_answer judge_purged(const struct sender *k, const rd_kafka_message_t *message)
{
    bool sent = rd_kafka_message_status(message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;

    if (k->stopping) {
        return (struct tr_post_answer){sent ? TR_SEND_UNREACHABLE : TR_SEND_BACK, "stopped",
                                       "it was not confirmed before the outlet was stopped"};
    }
    if (k->refused) {
        return (struct tr_post_answer){TR_SEND_UNREACHABLE, "private",
                                       "a broker has a private address, and "
                                       "outlet.allow_private is off"};
    }
    return (struct tr_post_answer){TR_SEND_UNREACHABLE, "fatal", k->trouble};
}

static struct tr_post_answer judge(const struct sender *k, const rd_kafka_message_t *message,
                                   char code[TR_SEND_CODE])
{
    rd_kafka_resp_err_t err = message->err;

    switch (err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return (struct tr_post_answer){TR_SEND_OK, "ok", NULL};
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
        return judge_purged(k, message);
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
        return (struct tr_post_answer){TR_SEND_UNREACHABLE, "timeout",
                                       k->trouble[0] != '\0' ? k->trouble
                                                             : "it was not confirmed in time"};
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__FATAL:
        return (struct tr_post_answer){TR_SEND_UNREACHABLE, "connect", rd_kafka_err2str(err)};
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        return (struct tr_post_answer){TR_SEND_FAILED, "topic",
                                       "there is no such topic in the cluster"};
    default: /* the error of a broker has a number, those of the library are negative */
        tr_text(code, TR_SEND_CODE, "%d", (int)err);
        return (struct tr_post_answer){TR_SEND_FAILED, err > 0 ? code : "error",
                                       rd_kafka_err2str(err)};
    }
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct sender *k = opaque;
    char code[TR_SEND_CODE];
    struct tr_post_answer answer = judge(k, message, code);

    (void)rk;
    if (answer.outcome == TR_SEND_OK) {
        k->trouble[0] = '\0';
        k->refused = false;
    }
    k->under_way--;
    tr_post_answer(&k->post, message->_private, &answer);
}

/* ---- The producer. */

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, char why[TR_SEND_WHY])
{
    return rd_kafka_conf_set(conf, name, value, why, TR_SEND_WHY) == RD_KAFKA_CONF_OK;
}

static bool configure(struct sender *k, rd_kafka_conf_t *conf, char why[TR_SEND_WHY])
{
    char timeout[24];
    /* A request may not outlive its messages; both have lower bounds of their own. */
    uint64_t ms = k->post.timeout_ms;

    tr_text(timeout, sizeof timeout, "%u", ms < 1000 ? 1000 : ms > 300000 ? 300000 : (unsigned)ms);
    rd_kafka_conf_set_opaque(conf, k);
    rd_kafka_conf_set_connect_cb(conf, on_connect);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_log_cb(conf, NULL); /* what matters comes by errors and reports */
    return set(conf, "bootstrap.servers", k->brokers, why) &&
           set(conf, "client.id", "tarry", why) && set(conf, "acks", "all", why) &&
           set(conf, "enable.idempotence", "true", why) &&
           set(conf, "message.timeout.ms", timeout, why) &&
           set(conf, "socket.timeout.ms", timeout, why) &&
           set(conf, "socket.connection.setup.timeout.ms", timeout, why) &&
           set(conf, "topic.metadata.propagation.max.ms", "3000", why) && /* no such topic */
           set(conf, "reconnect.backoff.max.ms", "2000", why) &&
           set(conf, "linger.ms", "0", why) && /* due means now */
           set(conf, "socket.nagle.disable", "true", why) &&
           set(conf, "message.max.bytes", "67108864", why) && /* the broker's limit decides */
           set(conf, "partitioner", "murmur2_random", why);   /* as the clients in Java do */
}

/* False: why says so. */
static bool make_producer(struct sender *k, char why[TR_SEND_WHY])
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_queue_t *events;
    uint64_t one = 1;

    k->trouble[0] = '\0';
    k->refused = false;
    atomic_store(&k->guarded, false);
    if (configure(k, conf, why)) {
        k->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, TR_SEND_WHY);
    }
    if (k->producer == NULL) {
        rd_kafka_conf_destroy(conf);
        return false;
    }
    events = rd_kafka_queue_get_main(k->producer);
    rd_kafka_queue_io_event_enable(events, k->post.wake_fd, &one, sizeof one);
    rd_kafka_queue_destroy(events);
    return true;
}

/* What is in the library's queue, or in flight, gets its report soon. */
static void purge(struct sender *k, int what)
{
    (void)rd_kafka_purge(k->producer, what | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

/* It is of no use, or nobody needs it; waits until all have their reports. */
static void end_producer(struct sender *k)
{
    while (k->under_way > 0) {
        purge(k, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        (void)rd_kafka_poll(k->producer, 50);
    }
    rd_kafka_destroy(k->producer);
    k->producer = NULL;
}

static rd_kafka_headers_t *make_headers(const struct tr_labels *labels)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(TR_LABELS);

    for (unsigned i = 0; i < TR_LABELS; i++) {
        if (labels->at[i].len > 0) {
            (void)rd_kafka_header_add(headers, labels->at[i].name, -1, labels->at[i].text,
                                      (ssize_t)labels->at[i].len);
        }
    }
    return headers;
}

/* The body stays where it is until the report; all else is copied. */
static rd_kafka_resp_err_t produce(struct sender *k, struct tr_mail *m,
                                   const struct tr_labels *labels)
{
    const struct tr_label *own = &labels->at[TR_LABEL_KEY];
    const struct tr_label *key = k->by_id || own->len == 0 ? &labels->at[TR_LABEL_ID] : own;
    rd_kafka_headers_t *headers = make_headers(labels);
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = k->topic},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)m->send->body, m->send->body_len}},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)key->text, key->len}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = m},
    };
    rd_kafka_error_t *error;
    rd_kafka_resp_err_t err;

    error = rd_kafka_produceva(k->producer, parts, sizeof parts / sizeof parts[0]);
    if (error == NULL) {
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    err = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers); /* still ours */
    return err;
}

static void send_one(struct sender *k, struct tr_mail *m)
{
    char why[TR_SEND_WHY] = "";
    struct tr_post_answer answer = {TR_SEND_UNREACHABLE, "error", why};
    struct tr_labels labels;
    rd_kafka_resp_err_t err;

    if (k->producer == NULL && !make_producer(k, why)) {
        tr_post_answer(&k->post, m, &answer);
        return;
    }
    tr_labels_init(&labels, m->send);
    err = produce(k, m, &labels);
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        k->under_way++;
        return;
    }
    answer.why = rd_kafka_err2str(err);
    if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        answer.outcome = TR_SEND_REFUSED;
        answer.code = "size";
    } else if (err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC) {
        answer.outcome = TR_SEND_FAILED;
        answer.code = "topic";
    }
    tr_post_answer(&k->post, m, &answer);
}

/* ---- The thread. */

static void serve_events(struct sender *k)
{
    char why[TR_SEND_WHY];

    if (k->producer == NULL) {
        return;
    }
    (void)rd_kafka_poll(k->producer, 0);
    if (atomic_exchange(&k->guarded, false)) {
        k->refused = true;
        purge(k, RD_KAFKA_PURGE_F_QUEUE);
    }
    if (rd_kafka_fatal_error(k->producer, why, sizeof why) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        tr_text(k->trouble, sizeof k->trouble, "%s", why);
        end_producer(k);
    }
}

static void run(struct tr_post *post)
{
    struct sender *k = TR_CONTAINER_OF(post, struct sender, post);
    struct tr_post_answer back = {.outcome = TR_SEND_BACK};
    struct tr_mails came = {0};
    uint64_t end_ms = UINT64_MAX;
    uint64_t next_ms;
    struct tr_mail *m;

    for (;;) {
        if (tr_post_take(post, &came)) {
            uint64_t now_ms = tr_post_now_ms();

            k->stopping = true;
            end_ms = end_ms == UINT64_MAX ? now_ms + TR_POST_GRACE_MS : end_ms;
            tr_post_answer_all(post, &came, &back);
            if (k->under_way == 0 || now_ms >= end_ms) {
                break;
            }
        }
        while ((m = tr_mails_pop(&came)) != NULL) {
            send_one(k, m);
        }
        serve_events(k);
        /* Reports wake us. Should the library ever forget to, we look all the same. */
        next_ms = k->under_way > 0 ? tr_post_now_ms() + LOOK_MS : UINT64_MAX;
        tr_post_wait(post, -1, 0, next_ms < end_ms ? next_ms : end_ms);
    }
    if (k->producer != NULL) {
        end_producer(k);
    }
}

/* ---- The loop's side. */

static void copy(char out[TR_DELIVER_TEXT_MAX + 1], struct tr_deliver_text from)
{
    size_t len = from.len <= TR_DELIVER_TEXT_MAX ? from.len : TR_DELIVER_TEXT_MAX;

    if (len > 0) {
        memcpy(out, from.at, len);
    }
}

static int open_sender(void **out, const struct tr_deliver *d, const struct tr_sender_host *host)
{
    struct sender *k = calloc(1, sizeof *k);
    struct tr_deliver_text topic = d->texts[TR_DELIVER_TOPIC];

    if (k == NULL) {
        return TARRY_ENOMEM;
    }
    if (topic.len == 0) {
        topic = (struct tr_deliver_text){host->topic, strlen(host->topic)};
    }
    copy(k->brokers, d->texts[TR_DELIVER_BROKERS]);
    copy(k->topic, topic);
    k->by_id = d->key == TR_DELIVER_BY_ID;
    *out = k;
    return tr_post_open(&k->post, host, d, "kafka", run);
}

const struct tr_sender_kind tr_kafka_kind = {
    .type = TR_DELIVER_KAFKA,
    .open = open_sender,
    .window = tr_post_window,
    .send = tr_post_send,
    .collect = tr_post_collect,
    .stop = tr_post_stop,
    .stopped = tr_post_stopped,
    .close = tr_post_close,
};
