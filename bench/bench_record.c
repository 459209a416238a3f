/* Records: a PUSH as the beanstalk port makes it is encoded with its body of 100 bytes, then read
 * again. */

#include "base/check.h"
#include "base/err.h"
#include "base/rng.h"
#include "bench/micro.h"
#include "engine/record.h"

#include <string.h>

enum { BODY = 100 };

int main(int argc, char **argv)
{
    struct micro m = micro_init("record", argc, argv, 20000, UINT64_C(0x27e25791dc7f0744));
    struct tr_rng rng = {1};
    static const uint8_t body[BODY] = "a body";
    static uint8_t out[TR_RECORD_HEAD_MAX + BODY];
    uint64_t sum = 0;

    micro_begin(&m);
    for (uint64_t i = 0; i < m.count; i++) {
        uint64_t now_us = UINT64_C(1700000000000000) + i;
        struct tr_base base = {1000000 + i / 64 * 64, now_us - i % 64};
        uint64_t delay_us = (1 + tr_rng_below(&rng, 90000)) * 1000000;
        struct tr_record rec = {.type = TR_REC_PUSH,
                                .mask = TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(DELAY) |
                                        TR_FIELD(TOPIC) | TR_FIELD(PRIORITY) | TR_FIELD(TTR) |
                                        TR_FIELD(FLAGS) | TR_FIELD(BODY),
                                .rid = 1000000 + i,
                                .due_us = now_us + delay_us,
                                .created_us = now_us,
                                .delay_us = delay_us,
                                .topic = (uint32_t)(i % 100),
                                .priority = 1024,
                                .ttr_us = 60000000,
                                .flags = TR_RF_BEANSTALK,
                                .body = {body, BODY}};
        struct tr_record back;
        size_t used;
        size_t len = tr_record_encode(out, &rec, base);

        memcpy(out + len, body, BODY);
        TR_CHECK(tr_record_decode(out, len + BODY, base, &back, &used) == TARRY_OK);
        TR_CHECK(used == len + BODY);
        sum = micro_sum(sum, back.rid ^ back.due_us ^ back.ttr_us ^ used);
    }
    micro_end(&m);
    return micro_print(&m, m.count, sum);
}
