/* The wheel: COUNT timers, 20 in a millisecond, are armed; a tenth is disarmed; the rest comes out
 * in steps of a millisecond. */

#include "base/check.h"
#include "base/rng.h"
#include "bench/micro.h"
#include "engine/wheel.h"

#include <stdlib.h>

enum { EACH_US = 50, STEP_US = 1000, SLICE = 1000 };

int main(int argc, char **argv)
{
    struct micro m = micro_init("wheel", argc, argv, 20000, UINT64_C(0xc0e6793d78bb7d9d));
    struct tr_rng rng = {1};
    struct tr_timer *timers = calloc(m.count, sizeof(*timers));
    static struct tr_wheel wheel;
    uint64_t sum = 0;
    uint64_t out = 0;

    TR_CHECK(timers != NULL);
    tr_wheel_init(&wheel, 0);
    micro_begin(&m);
    for (uint64_t i = 0; i < m.count; i++) {
        tr_timer_init(&timers[i]);
        tr_wheel_arm(&wheel, &timers[i], tr_rng_below(&rng, m.count * EACH_US));
    }
    for (uint64_t i = 0; i < m.count; i += 10) {
        tr_wheel_disarm(&wheel, &timers[i]);
    }
    for (uint64_t now_us = 0; wheel.count > 0; now_us += STEP_US) {
        unsigned work = SLICE;
        const struct tr_timer *t;

        while ((t = tr_wheel_pop(&wheel, now_us, &work)) != NULL || work == 0) {
            if (t != NULL) {
                TR_CHECK(t->at_us <= now_us);
                sum += micro_sum(now_us, t->at_us); /* in one step they come in no order */
                out++;
            }
            if (work == 0) {
                work = SLICE;
            }
        }
        TR_CHECK(tr_wheel_next(&wheel) > now_us);
    }
    micro_end(&m);
    TR_CHECK(out == m.count - (m.count + 9) / 10);
    free(timers);
    return micro_print(&m, m.count + (m.count + 9) / 10 + out, sum);
}
