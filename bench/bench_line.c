/* Lines of the beanstalk port: the mix of a producer and a consumer, and some rarer ones. */

#include "bench/micro.h"
#include "proto/beanstalk_line.h"

#include <string.h>

static const char *const lines[] = {
    "put 1024 0 60 100",      "reserve",
    "delete 123456789",       "put 0 86400 600 65535",
    "reserve-with-timeout 5", "delete 18446744073709551615",
    "release 42 1024 10",     "use mail.outgoing",
    "watch mail.outgoing",    "ignore default",
    "touch 123456",           "stats-job 4711",
    "put 1 2 3 nothing",      "hello",
};

enum { LINES = sizeof(lines) / sizeof(lines[0]) };

int main(int argc, char **argv)
{
    struct micro m = micro_init("line", argc, argv, 20000, UINT64_C(0xeacd93cea4169552));
    size_t lens[LINES];
    uint64_t sum = 0;

    for (unsigned i = 0; i < LINES; i++) {
        lens[i] = strlen(lines[i]);
    }
    micro_begin(&m);
    for (uint64_t i = 0; i < m.count; i++) {
        struct tr_bs_line line = {0};
        enum tr_bs_verdict verdict = tr_bs_line_read(&line, lines[i % LINES], lens[i % LINES]);

        sum = micro_sum(sum, (uint64_t)verdict << 60 ^ line.id ^ line.body_len ^ line.delay_s ^
                                 (uint64_t)line.ttr_s << 32 ^ line.name_len);
    }
    micro_end(&m);
    return micro_print(&m, m.count, sum);
}
