/*
 * bench-calib DIR [MS]: what this machine allows, for the limits in doc/performance.md.
 *
 * Lines of `calib key=value ...`: fdatasync of blocks of a file that was written before (in DIR, by
 * size), loopback echo at depth 1 and 16, how late a timer wakes a thread, CRC-32C. MS is the time
 * for each step, 300 unless told. Every step ends by time and by count.
 */

#include "base/crc.h"
#include "bench/hist.h"
#include "bench/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20, CHUNK = 1 << 20, STEPS_MAX = 1 << 20, MESSAGE = 118, DEPTH_MAX = 16 };

static uint8_t chunk[CHUNK] __attribute__((aligned(4096)));
static uint64_t step_ns = 300000000;
static struct hist times;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

/* ---- The disk. */

static void sync_size(int fd, size_t size)
{
    uint64_t begin = watch_now_ns();
    uint64_t last = begin;
    uint64_t off = 0;

    hist_clear(&times);
    while (last - begin < step_ns && times.count < STEPS_MAX) {
        uint64_t now;

        chunk[0]++; /* not the same bytes again */
        if (pwrite(fd, chunk, size, (off_t)off) != (ssize_t)size || fdatasync(fd) != 0) {
            die("write");
        }
        now = watch_now_ns();
        hist_add(&times, now - last);
        last = now;
        off = off + 2 * size <= FILE_BYTES ? off + size : 0;
    }
    printf("calib what=sync bytes=%zu count=%llu mean_us=%.1f p50_us=%.1f p99_us=%.1f mb_s=%.1f\n",
           size, (unsigned long long)times.count, us(last - begin) / (double)times.count,
           us(hist_part(&times, 0.5)), us(hist_part(&times, 0.99)),
           (double)size * (double)times.count * 1e3 / (double)(last - begin));
}

static void disk(const char *dir)
{
    char path[4096];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/calib.%d", dir, (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        die(path);
    }
    (void)unlink(path);
    memset(chunk, 0x5a, sizeof(chunk));
    for (off_t off = 0; off < FILE_BYTES; off += CHUNK) {
        if (pwrite(fd, chunk, CHUNK, off) != CHUNK) {
            die(path);
        }
    }
    if (fsync(fd) != 0) {
        die(path);
    }
    for (size_t size = 4096; size <= CHUNK; size *= 4) {
        sync_size(fd, size);
    }
    (void)close(fd);
}

/* ---- The wire: another thread sends back what it reads. */

static void *answer(void *arg)
{
    int fd = *(const int *)arg;
    char bytes[MESSAGE * DEPTH_MAX];
    ssize_t got;

    while ((got = read(fd, bytes, sizeof(bytes))) > 0 && write(fd, bytes, (size_t)got) == got) {
    }
    (void)close(fd);
    return NULL;
}

/* Two ends of a TCP connection over loopback. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || ends[0] < 0 || bind(listener, (const struct sockaddr *)&a, len) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&a, &len) != 0 ||
        connect(ends[0], (const struct sockaddr *)&a, len) != 0) {
        die("loopback");
    }
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (ends[1] < 0) {
        die("accept");
    }
    (void)close(listener);
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
}

static void echo(size_t depth)
{
    char bytes[MESSAGE * DEPTH_MAX] = {0};
    size_t len = MESSAGE * depth;
    pthread_t thread;
    int ends[2];
    uint64_t begin;
    uint64_t last;

    connect_pair(ends);
    if (pthread_create(&thread, NULL, answer, &ends[1]) != 0) {
        die("thread");
    }
    hist_clear(&times);
    begin = last = watch_now_ns();
    while (last - begin < step_ns && times.count < STEPS_MAX) {
        uint64_t now;
        size_t got = 0;

        if (write(ends[0], bytes, len) != (ssize_t)len) {
            die("write");
        }
        while (got < len) {
            ssize_t n = read(ends[0], bytes, len - got);

            if (n <= 0) {
                die("read");
            }
            got += (size_t)n;
        }
        now = watch_now_ns();
        hist_add(&times, now - last);
        last = now;
    }
    (void)close(ends[0]);
    (void)pthread_join(thread, NULL);
    printf("calib what=echo depth=%zu bytes=%d ops=%.0f p50_us=%.1f p99_us=%.1f\n", depth, MESSAGE,
           (double)depth * (double)times.count * 1e9 / (double)(last - begin),
           us(hist_part(&times, 0.5)), us(hist_part(&times, 0.99)));
}

/* ---- The timer: every millisecond, by a moment, not by a duration. */

static void timer(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    uint64_t begin = watch_now_ns();
    uint64_t at = begin;

    if (fd < 0) {
        die("timerfd");
    }
    hist_clear(&times);
    while (at - begin < step_ns * 3 && times.count < STEPS_MAX) {
        struct itimerspec when = {0};
        uint64_t rang;

        at = watch_now_ns() + 1000000;
        when.it_value.tv_sec = (time_t)(at / 1000000000);
        when.it_value.tv_nsec = (long)(at % 1000000000);
        if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) != 0 ||
            read(fd, &rang, sizeof(rang)) != sizeof(rang)) {
            die("timerfd");
        }
        hist_add(&times, watch_now_ns() - at);
    }
    (void)close(fd);
    printf("calib what=timer count=%llu p50_us=%.1f p99_us=%.1f max_us=%.1f\n",
           (unsigned long long)times.count, us(hist_part(&times, 0.5)), us(hist_part(&times, 0.99)),
           us(times.max));
}

static void crc(void)
{
    uint64_t begin = watch_now_ns();
    uint64_t now = begin;
    uint64_t chunks = 0;
    uint32_t sum = 0;

    while (now - begin < step_ns / 3 && chunks < STEPS_MAX) {
        sum = tr_crc(sum, chunk, sizeof(chunk));
        chunks++;
        now = watch_now_ns();
    }
    printf("calib what=crc32c gb_s=%.2f sum=%08x\n", (double)chunks * CHUNK / (double)(now - begin),
           sum);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        (void)fprintf(stderr, "usage: bench-calib DIR [MS]\n");
        return 2;
    }
    if (argc == 3) {
        step_ns = strtoull(argv[2], NULL, 10) * 1000000;
    }
    disk(argv[1]);
    echo(1);
    echo(DEPTH_MAX);
    timer();
    crc();
    return 0;
}
