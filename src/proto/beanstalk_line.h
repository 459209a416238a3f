#ifndef TR_PROTO_BEANSTALK_LINE_H
#define TR_PROTO_BEANSTALK_LINE_H

/*
 * One line of the beanstalk protocol: text to command. No state, no replies. See beanstalk_line.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_BS_LINE_MAX = 224 }; /* bytes of a line, CR and LF included */

/*
 * The commands: name, word, what follows the word. The order is that in which words are compared:
 * where one is the beginning of another, the longer one comes first.
 */
#define TR_BS_COMMANDS(X)                                                                          \
    X(PUT, "put ", TR_BS_PUT_ARGS)                                                                 \
    X(PEEK, "peek ", TR_BS_ID)                                                                     \
    X(PEEK_READY, "peek-ready", TR_BS_ALONE)                                                       \
    X(PEEK_DELAYED, "peek-delayed", TR_BS_ALONE)                                                   \
    X(PEEK_BURIED, "peek-buried", TR_BS_ALONE)                                                     \
    X(RESERVE_TIMEOUT, "reserve-with-timeout ", TR_BS_TIMEOUT)                                     \
    X(RESERVE_JOB, "reserve-job ", TR_BS_ID)                                                       \
    X(RESERVE, "reserve", TR_BS_ALONE)                                                             \
    X(DELETE, "delete ", TR_BS_ID)                                                                 \
    X(RELEASE, "release ", TR_BS_ID_PRIORITY_DELAY)                                                \
    X(BURY, "bury ", TR_BS_ID_PRIORITY)                                                            \
    X(KICK, "kick ", TR_BS_BOUND)                                                                  \
    X(KICK_JOB, "kick-job ", TR_BS_ID)                                                             \
    X(TOUCH, "touch ", TR_BS_ID)                                                                   \
    X(STATS_JOB, "stats-job ", TR_BS_ID)                                                           \
    X(STATS_TUBE, "stats-tube ", TR_BS_NAME)                                                       \
    X(STATS, "stats", TR_BS_ALONE)                                                                 \
    X(USE, "use ", TR_BS_NAME)                                                                     \
    X(WATCH, "watch ", TR_BS_NAME)                                                                 \
    X(IGNORE, "ignore ", TR_BS_NAME)                                                               \
    X(LIST_TUBES_WATCHED, "list-tubes-watched", TR_BS_ALONE)                                       \
    X(LIST_TUBE_USED, "list-tube-used", TR_BS_ALONE)                                               \
    X(LIST_TUBES, "list-tubes", TR_BS_ALONE)                                                       \
    X(QUIT, "quit", TR_BS_WHATEVER)                                                                \
    X(PAUSE_TUBE, "pause-tube", TR_BS_NAME_DELAY)                                                  \
    X(AUTH, "auth ", TR_BS_WORD) /* ours: unknown as long as there are no tokens */

/* What follows the word. */
enum tr_bs_args {
    TR_BS_ALONE,
    TR_BS_WHATEVER,
    TR_BS_ID,
    TR_BS_ID_PRIORITY,
    TR_BS_ID_PRIORITY_DELAY,
    TR_BS_PUT_ARGS,
    TR_BS_TIMEOUT,
    TR_BS_BOUND,
    TR_BS_NAME,
    TR_BS_NAME_DELAY,
    TR_BS_WORD,
};

enum tr_bs_command {
#define X(name, word, args) TR_BS_##name,
    TR_BS_COMMANDS(X)
#undef X
        TR_BS_COMMAND_COUNT
};

enum tr_bs_verdict {
    TR_BS_FINE,
    TR_BS_BAD_FORMAT,
    TR_BS_UNKNOWN,
};

struct tr_bs_line {
    enum tr_bs_command command;
    uint64_t id;
    uint32_t priority;
    uint32_t delay_s;
    uint32_t ttr_s;
    uint32_t body_len;
    uint32_t timeout_s;
    uint64_t bound;
    bool garbage;     /* PUT: something stands behind the numbers */
    const char *name; /* points into the text; of AUTH the token */
    size_t name_len;
};

enum { TR_BS_COMMAND_NAME = 32 };

/* Its word, without the space that some end with. */
void tr_bs_command_name(enum tr_bs_command command, char out[TR_BS_COMMAND_NAME]);

/* Reads a line without its CR and LF. BAD_FORMAT: `command` is set all the same. */
enum tr_bs_verdict tr_bs_line_read(struct tr_bs_line *line, const char *text, size_t len);

#endif
