/* Which senders this build has: one line for each. */

#include "outlet/kinds.h"

#include <stddef.h>

const struct tr_sender_kind *tr_sender_kind_of(enum tr_deliver_type type)
{
    switch (type) {
#ifdef TR_CURL
    case TR_DELIVER_WEBHOOK:
        return &tr_webhook_kind;
#endif
#ifdef TR_AMQP
    case TR_DELIVER_AMQP:
        return &tr_amqp_kind;
#endif
#ifdef TR_KAFKA
    case TR_DELIVER_KAFKA:
        return &tr_kafka_kind;
#endif
#ifdef TR_REDIS
    case TR_DELIVER_REDIS:
        return &tr_redis_kind;
#endif
    default:
        return NULL;
    }
}
