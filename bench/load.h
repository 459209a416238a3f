#ifndef TR_BENCH_LOAD_H
#define TR_BENCH_LOAD_H

/*
 * The load generator: connections with requests in flight, and what is known of each job. See
 * load.c. A driver speaks a protocol, a mode decides what is asked and when.
 *
 * One thread. Replies come in the order of the requests, so each connection keeps its requests in
 * a ring and gives the oldest to the driver to read its reply.
 */

#include "base/rng.h"
#include "bench/hist.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct load;

enum { LOAD_SCRIPTS = 4, LOAD_LEASE = 33, LOAD_BODY_MAX = 8 << 20 };

enum step {
    STEP_PUT,
    STEP_TAKE,  /* waits for a job */
    STEP_FETCH, /* asks for its body, where TAKE does not bring it */
    STEP_ACK,   /* the job is done */
    STEP_MOVE,  /* Redis: what is due goes to the ready list */
    STEP_PLAIN, /* a reply is enough */
    STEP_ASK,   /* about a job, or a tube, see enum ask */
    STEP_COUNT,
};

/* What can be asked about far jobs (mode ask). */
enum ask {
    ASK_NOTHING,
    ASK_PEEK,   /* a job by id */
    ASK_STATE,  /* the same, without its body */
    ASK_CANCEL, /* it goes */
    ASK_MOVE,   /* it is due at another time; on beanstalk that takes two commands */
    ASK_FIRST,  /* the first delayed job of a tube */
    ASK_COUNT,  /* how many are in a tube */
};

struct request {
    enum step step;
    uint64_t job;      /* our number of the job, when it is known */
    uint64_t id;       /* the server's */
    uint64_t sent_ns;  /* the moment before it was sent */
    uint64_t begin_ns; /* of the first request for this job */
    uint32_t delay_s;
    const char *word; /* PLAIN: the command; TAKE: NULL */
    uint32_t tube;
    enum ask ask;
    char lease[LOAD_LEASE]; /* ACK, HTTP */
};

enum answer { ANSWER_FINE, ANSWER_NONE, ANSWER_WRONG };

struct reply {
    enum answer answer;
    uint64_t id;
    uint64_t number; /* MOVE: how many were moved */
    const char *body;
    size_t body_len;
    char lease[LOAD_LEASE];
};

struct conn {
    int fd;
    unsigned number;
    bool sending; /* epoll tells when there is room to write */
    bool mover;
    uint32_t tube; /* mode tubes: the one in use */
    char *out;
    size_t out_len;
    size_t out_sent;
    size_t out_room;
    char *in;
    size_t in_len;
    size_t in_room;
    struct request *ring;
    unsigned head;
    unsigned count;
    unsigned room; /* a power of two */
};

struct driver {
    const char *name;
    bool fetches;    /* TAKE does not bring the body */
    bool needs_move; /* a mover must be there for delayed jobs */
    bool plain;      /* knows neither ASK nor tubes */

    /* Before the run, blocking; NULL: nothing to do. False: it cannot work. */
    bool (*prepare)(struct load *l, const struct conn *c);

    /* Writes r to `out`, which has room for body_bytes + 512, and gives the bytes. */
    size_t (*write)(struct load *l, char *out, const struct request *r);

    /* Reads the reply to r at the front of p: gives its bytes, 0 when it is not all there. */
    size_t (*read)(const char *p, size_t len, const struct request *r, struct reply *reply);
};

extern const struct driver load_beanstalk;
extern const struct driver load_http;
extern const struct driver load_redis;

/* The words of --ask; ASK_NOTHING when there is no such. */
enum ask load_find_ask(const char *word);
const char *load_ask_word(enum ask ask);

struct mode {
    const char *name;

    /* Sends the first requests. */
    void (*start)(struct load *l);

    void (*replied)(struct load *l, struct conn *c, const struct request *r, const struct reply *a);

    /* Called between events; NULL: never needed. Gives when to be called again. */
    uint64_t (*tick)(struct load *l);
};

struct options {
    const char *label; /* what stands before the figures */
    const char *mode;
    const char *proto;
    const char *address;
    unsigned port;
    unsigned conns;
    unsigned depth;
    unsigned body_bytes;
    uint64_t count;
    double seconds;    /* 0: until count */
    double limit_s;    /* give up */
    unsigned delay_s;  /* far jobs are due from here on; 0: at once */
    unsigned spread_s; /* and within so long; 0: eight times delay_s */
    unsigned ahead_s;
    unsigned rate;
    uint64_t first;      /* number of the first job */
    uint64_t known;      /* take, ask: so many jobs are there already */
    uint64_t background; /* jobs with a number below are not to be handed out */
    enum ask ask;
    unsigned later_s; /* Redis: the mover's clock is ahead by this */
    unsigned tubes;
    bool share;
    unsigned mover_ms;
    const char *tube;
    const char *series;
    bool trusting;
    int pid;
    uint64_t since_us;
    uint64_t seed;
};

enum job_flag { JOB_PUT = 1, JOB_TAKEN = 2 };

struct load {
    struct options opt;
    const struct driver *driver;
    const struct mode *mode;
    struct tr_rng rng;
    struct conn *conns;
    unsigned conn_count;
    int poll;
    uint64_t now_ns;      /* of the event at hand */
    uint64_t begin_ns;    /* of what is measured */
    uint64_t end_ns;      /* its last reply */
    uint64_t stop_ns;     /* no new jobs from here on; 0: the count decides */
    uint64_t outstanding; /* requests without a reply, the mover's not counted */
    bool finished;
    const char *failed;             /* why, or NULL */
    int phase;                      /* the mode's */
    char scripts[LOAD_SCRIPTS][41]; /* Redis: names of the Lua scripts */

    uint64_t next_job; /* number of the next one */
    uint64_t put;      /* acknowledged */
    uint64_t takes;    /* asked for */
    uint64_t taken;
    uint64_t done;
    uint64_t over;     /* trickle: jobs of which no more will be heard */
    uint64_t vain;     /* TAKEs answered, but not by a job that was still to come */
    uint64_t wrong;    /* unexpected replies, ids that changed */
    uint64_t twice;    /* jobs handed out again */
    uint64_t bad_body; /* or a job that we never put */
    uint64_t early;    /* handed out before it can have been due */
    uint64_t sum;      /* over all jobs done: does not depend on the order */

    uint8_t *flags; /* of each job, enum job_flag */
    uint64_t *ids;  /* the server's, of each job; NULL where they cannot be compared */
    uint64_t
        *first_due; /* earliest moment at which it may be due; only where lateness is asked for */
    uint64_t *last_due;  /* latest */
    uint64_t next_at_ns; /* trickle: the next put; burst: when all is due */
    uint64_t move_at_ns;
    bool moving;

    struct hist latency[STEP_COUNT];
    struct hist whole;    /* from the put to the reply of the last request of the job */
    struct hist late;     /* hand-out after first_due: not less than the truth */
    struct hist late_low; /* after last_due: not more than the truth */
    struct hist second;   /* put latency in this second */
    uint64_t second_ns;
    uint64_t second_put;
    void *series;

    uint64_t cpu_ns; /* at begin_ns, then what was used since */
    uint64_t own_cpu_ns;
    uint64_t written;
    uint64_t received; /* bytes, since the beginning */
    uint64_t fill_ns;  /* how long the first phase took, where there are two */
};

/* Queues a request; it leaves at the end of the event, or by load_flush. */
void load_send(struct load *l, struct conn *c, struct request r);
void load_flush(struct load *l, struct conn *c);

/* Begins, or ends, what is measured. */
void load_begin(struct load *l);
void load_end(struct load *l);

/* Puts a new job with this delay. */
void load_put(struct load *l, struct conn *c, uint32_t delay_s);

/* What every mode does with a reply to PUT, TAKE, FETCH and ACK: counts, checks, measures. A TAKE
 * that brought a job gives its number in *job, 0 when that is not known. */
void load_note(struct load *l, const struct request *r, const struct reply *a, uint64_t *job);

/* The body of a job: its number, then bytes that follow from it. */
void load_fill_body(char *body, size_t len, uint64_t job);
bool load_check_body(const char *body, size_t len, uint64_t *job);

/* False: the reply's body is not that of a job that we put. */
bool load_good_body(const struct load *l, const struct reply *a, uint64_t *job);

/* For drivers: writes a number, or some bytes, and gives where it ended. */
char *load_number(char *out, uint64_t number);
char *load_bytes(char *out, const char *bytes, size_t len);

/* Runs the mode until it has finished, failed or the limit is over. */
void load_run(struct load *l);

const struct mode *load_find_mode(const char *name);
bool load_open(struct load *l);
void load_close(struct load *l);

#endif
