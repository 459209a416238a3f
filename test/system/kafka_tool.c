/*
 * A Kafka cluster for system tests: the mock one of librdkafka, which keeps its messages in memory,
 * and a consumer to read them. Prints where it listens (BROKERS host:port,...), then does what each
 * line of stdin says and answers with a line "ok" or "failed: why":
 *
 *     topic NAME PARTITIONS
 *     down, up              all brokers hang up and refuse everybody; and no longer
 *     fail CODE COUNT       so many of the next produce requests get this error of the protocol
 *     slow MS               each answer takes so long
 *     read NAME COUNT MS    messages from the beginning, at most so many, waiting at most so long;
 *                           a line each: message KEY BODY [HEADER=VALUE]..., all in hexadecimal
 *
 * It ends when stdin does.
 */

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PRODUCE = 0, BROKERS = 2, FAILS_MAX = 1000, PARTITIONS_MAX = 16, WHY = 256 };

static rd_kafka_t *handle(rd_kafka_type_t type, const char *brokers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[WHY] = "";
    rd_kafka_t *rk;

    if (brokers != NULL &&
        (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why) != 0 ||
         rd_kafka_conf_set(conf, "group.id", "test", why, sizeof why) != 0 ||
         rd_kafka_conf_set(conf, "enable.auto.commit", "false", why, sizeof why) != 0)) {
        fprintf(stderr, "kafka-tool: %s\n", why);
        exit(1);
    }
    (void)rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why);
    rk = rd_kafka_new(type, conf, why, sizeof why);
    if (rk == NULL) {
        fprintf(stderr, "kafka-tool: %s\n", why);
        exit(1);
    }
    return rk;
}

static long long now_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (long long)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static void put_hex(const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        printf("%02x", ((const unsigned char *)bytes)[i]);
    }
    if (len == 0) {
        printf("-");
    }
}

static void put_message(rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t len;

    printf("message ");
    put_hex(m->key, m->key_len);
    printf(" ");
    put_hex(m->payload, m->len);
    if (rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &len) == 0; i++) {
            printf(" %s=", name);
            put_hex(value, len);
        }
    }
    printf("\n");
}

static rd_kafka_resp_err_t read_back(const char *brokers, const char *topic, long count, long ms)
{
    rd_kafka_t *rk = handle(RD_KAFKA_CONSUMER, brokers);
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(PARTITIONS_MAX);
    const struct rd_kafka_metadata *meta = NULL;
    rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
    long long end = now_ms() + ms;
    rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 0, t, &meta, (int)ms);

    for (int i = 0; err == 0 && i < meta->topics[0].partition_cnt; i++) {
        rd_kafka_topic_partition_list_add(parts, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    if (err == 0) {
        err = rd_kafka_assign(rk, parts);
    }
    while (err == 0 && count > 0 && now_ms() < end) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 50);

        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            put_message(m);
            count--;
        }
        if (m != NULL) {
            rd_kafka_message_destroy(m);
        }
    }
    if (meta != NULL) {
        rd_kafka_metadata_destroy(meta);
    }
    rd_kafka_topic_partition_list_destroy(parts);
    rd_kafka_topic_destroy(t);
    (void)rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    return err;
}

static rd_kafka_resp_err_t obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    rd_kafka_resp_err_t fails[FAILS_MAX];
    char name[100];
    long a;
    long b;

    if (sscanf(line, "topic %99s %ld", name, &a) == 2) {
        return rd_kafka_mock_topic_create(cluster, name, (int)a, BROKERS);
    }
    if (sscanf(line, "read %99s %ld %ld", name, &a, &b) == 3) {
        return read_back(rd_kafka_mock_cluster_bootstraps(cluster), name, a, b);
    }
    if (sscanf(line, "slow %ld", &a) == 1) {
        return rd_kafka_mock_broker_set_rtt(cluster, -1, (int)a);
    }
    if (sscanf(line, "fail %ld %ld", &a, &b) == 2 && b <= FAILS_MAX) {
        for (long i = 0; i < b; i++) {
            fails[i] = (rd_kafka_resp_err_t)a;
        }
        rd_kafka_mock_push_request_errors_array(cluster, PRODUCE, (size_t)b, fails);
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    if (strcmp(line, "down\n") == 0) {
        return rd_kafka_mock_broker_set_down(cluster, -1);
    }
    if (strcmp(line, "up\n") == 0) {
        return rd_kafka_mock_broker_set_up(cluster, -1);
    }
    return RD_KAFKA_RESP_ERR__INVALID_ARG;
}

int main(void)
{
    rd_kafka_t *rk = handle(RD_KAFKA_PRODUCER, NULL);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(rk, BROKERS);
    char line[400];

    if (cluster == NULL) {
        fprintf(stderr, "kafka-tool: no cluster\n");
        return 1;
    }
    printf("BROKERS %s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        rd_kafka_resp_err_t err = obey(cluster, line);

        if (err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            printf("ok\n");
        } else {
            printf("failed: %s\n", rd_kafka_err2str(err));
        }
        (void)fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(rk);
    return 0;
}
