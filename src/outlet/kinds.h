#ifndef TR_OUTLET_KINDS_H
#define TR_OUTLET_KINDS_H

/* The senders there are; which of them are compiled in depends on the libraries of the build. */

#include "outlet/sender.h"

extern const struct tr_sender_kind tr_webhook_kind; /* webhook.c, libcurl */
extern const struct tr_sender_kind tr_amqp_kind;    /* amqp.c, librabbitmq */
extern const struct tr_sender_kind tr_kafka_kind;   /* kafka.c, librdkafka */
extern const struct tr_sender_kind tr_redis_kind;   /* redis.c, hiredis */

#endif
