#ifndef TR_PORT_CLOCK_H
#define TR_PORT_CLOCK_H

/*
 * The time, always an argument. Whoever calls the engine has read both clocks just before.
 *
 * wall_us is CLOCK_REALTIME: due times are compared with it; it may jump either way. boot_us is
 * CLOCK_BOOTTIME: it only goes forward, also in suspend; leases, waits and inner timers run on it.
 */

#include <stdint.h>

struct tr_now {
    uint64_t wall_us;
    uint64_t boot_us;
};

#endif
