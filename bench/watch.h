#ifndef TR_BENCH_WATCH_H
#define TR_BENCH_WATCH_H

/* What a process has used so far, read from /proc, and the clock of all benches. */

#include <stdint.h>

/* CLOCK_MONOTONIC. */
uint64_t watch_now_ns(void);

/* Time on a CPU of all threads of a process, ended ones not counted; 0 when pid is 0 or gone. */
uint64_t watch_cpu_ns(int pid);

/* Of this process. */
uint64_t watch_own_cpu_ns(void);

/* Resident bytes; 0 when pid is 0 or gone. */
uint64_t watch_rss_bytes(int pid);

/* Bytes that the process has passed to write calls, sockets too if it uses those for them. What
 * write_bytes says is of no use: with large folios it counts the same page again and again. */
uint64_t watch_written_bytes(int pid);

#endif
