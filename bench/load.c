/*
 * The load generator's loop.
 *
 * Each readable event is one read; every whole reply in it goes to the mode, which queues what
 * comes next; then one write. So with a depth of D a connection sends up to D requests at once, as
 * a client with a pipeline does. The clock is read once per event: a request counts as sent when
 * the event began that caused it, so latency is never too small and first_due never too late.
 *
 * Job numbers count from 0 over the whole run, and tables by number are reserved address space
 * that only costs what is touched.
 */

#include "bench/load.h"

#include "bench/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64, IN_ROOM = 1 << 17, TRICKLE_MAX = 8192 };

#define JOBS_MAX (UINT64_C(1) << 31)

/* ---- Bodies. */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

void load_fill_body(char *body, size_t len, uint64_t job)
{
    uint64_t word = mix(job + 1);

    memcpy(body, &job, sizeof(job));
    for (size_t at = sizeof(job); at < len; at += sizeof(word)) {
        size_t n = len - at < sizeof(word) ? len - at : sizeof(word);

        word = word * 0x9e3779b97f4a7c15u + job;
        memcpy(body + at, &word, n);
    }
}

bool load_check_body(const char *body, size_t len, uint64_t *job)
{
    char want[8];
    uint64_t word;

    if (len < sizeof(*job)) {
        return false;
    }
    memcpy(job, body, sizeof(*job));
    word = mix(*job + 1);
    for (size_t at = sizeof(*job); at < len; at += sizeof(word)) {
        size_t n = len - at < sizeof(word) ? len - at : sizeof(word);

        word = word * 0x9e3779b97f4a7c15u + *job;
        memcpy(want, &word, sizeof(word));
        if (memcmp(body + at, want, n) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- Requests out. */

char *load_number(char *out, uint64_t number)
{
    char digits[20];
    unsigned n = 0;

    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        *out++ = digits[--n];
    }
    return out;
}

char *load_bytes(char *out, const char *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

void load_send(struct load *l, struct conn *c, struct request r)
{
    size_t need = l->opt.body_bytes + 512;

    if (c->count == c->room || c->out_len + need > c->out_room) {
        l->failed = "full"; /* a bug: the ring is made for the depth */
        return;
    }
    r.sent_ns = l->now_ns;
    if (r.begin_ns == 0) {
        r.begin_ns = l->now_ns;
    }
    c->ring[(c->head + c->count) & (c->room - 1)] = r;
    c->count++;
    c->out_len += l->driver->write(l, c->out + c->out_len, &r);
    if (!c->mover) {
        l->outstanding++;
    }
}

static void want_write(struct load *l, struct conn *c, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};

    if (c->sending != on) {
        c->sending = on;
        (void)epoll_ctl(l->poll, EPOLL_CTL_MOD, c->fd, &event);
    }
}

void load_flush(struct load *l, struct conn *c)
{
    ssize_t sent;

    if (c->out_len == c->out_sent) {
        return;
    }
    sent = write(c->fd, c->out + c->out_sent, c->out_len - c->out_sent);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        l->failed = "write";
        return;
    }
    c->out_sent += sent > 0 ? (size_t)sent : 0;
    if (c->out_sent == c->out_len) {
        c->out_sent = 0;
        c->out_len = 0;
    } else if (c->out_sent > c->out_room / 2) {
        c->out_len -= c->out_sent;
        memmove(c->out, c->out + c->out_sent, c->out_len);
        c->out_sent = 0;
    }
    want_write(l, c, c->out_len > 0);
}

void load_put(struct load *l, struct conn *c, uint32_t delay_s)
{
    struct request r = {.step = STEP_PUT, .job = l->next_job, .delay_s = delay_s, .tube = c->tube};

    if (l->next_job == JOBS_MAX) {
        l->failed = "jobs";
        return;
    }
    l->next_job++;
    if (l->first_due != NULL) {
        l->first_due[r.job] = l->now_ns + delay_s * UINT64_C(1000000000);
    }
    load_send(l, c, r);
}

/* ---- Replies in. */

/* The put's reply and the hand-out, whichever is read first, must name the same id. */
static void note_id(struct load *l, uint64_t job, uint64_t id)
{
    if (l->ids == NULL) {
        return;
    }
    if (l->ids[job] == 0) {
        l->ids[job] = id;
    } else if (l->ids[job] != id) {
        l->wrong++;
    }
}

static void note_put(struct load *l, const struct request *r, uint64_t id)
{
    l->put++;
    l->flags[r->job] |= JOB_PUT;
    note_id(l, r->job, id);
    if (l->last_due != NULL) {
        l->last_due[r->job] = l->now_ns + r->delay_s * UINT64_C(1000000000);
    }
    if (l->series != NULL) {
        hist_add(&l->second, l->now_ns - r->sent_ns);
        l->second_put++;
    }
}

bool load_good_body(const struct load *l, const struct reply *a, uint64_t *job)
{
    return a->body_len == l->opt.body_bytes && load_check_body(a->body, a->body_len, job) &&
           *job < l->next_job;
}

static void note_lateness(struct load *l, uint64_t job)
{
    if (l->first_due == NULL) {
        return;
    }
    if (l->now_ns < l->first_due[job]) {
        l->early++;
        return;
    }
    hist_add(&l->late, l->now_ns - l->first_due[job]);
    hist_add(&l->late_low, l->now_ns > l->last_due[job] ? l->now_ns - l->last_due[job] : 0);
}

/* A job was handed out, also where its body comes later: then the server's id is our number. */
static void note_take(struct load *l, const struct reply *a, uint64_t *job)
{
    uint64_t found = a->id;

    l->taken++;
    *job = 0;
    if (l->opt.trusting) {
        return;
    }
    if (l->driver->fetches ? found >= l->next_job : !load_good_body(l, a, &found)) {
        l->bad_body++;
        l->vain++;
        return;
    }
    *job = found;
    note_id(l, found, a->id);
    if ((l->flags[found] & JOB_TAKEN) != 0) {
        l->twice++;
        l->vain++;
        return;
    }
    l->flags[found] |= JOB_TAKEN;
    if (found < l->opt.background) {
        l->vain++;
        l->early += l->first_due == NULL;
    }
    note_lateness(l, found);
}

/* The body that was asked for; a number that is not ours was counted when it was handed out. */
static void note_fetch(struct load *l, const struct request *r, const struct reply *a)
{
    uint64_t job = 0;

    if (r->job < l->next_job && !(load_good_body(l, a, &job) && job == r->job)) {
        l->bad_body++;
    }
}

static void note_ack(struct load *l, const struct request *r)
{
    l->done++;
    l->sum += mix(r->job ^ 0x5bd1e995u);
    hist_add(&l->whole, l->now_ns - r->begin_ns);
}

void load_note(struct load *l, const struct request *r, const struct reply *a, uint64_t *job)
{
    hist_add(&l->latency[r->step], l->now_ns - r->sent_ns);
    l->end_ns = l->now_ns;
    if (a->answer != ANSWER_FINE) {
        l->wrong++;
        l->vain += r->step == STEP_TAKE;
        return;
    }
    switch (r->step) {
    case STEP_PUT:
        note_put(l, r, a->id);
        break;
    case STEP_TAKE:
        note_take(l, a, job);
        break;
    case STEP_FETCH:
        note_fetch(l, r, a);
        break;
    case STEP_ACK:
        note_ack(l, r);
        break;
    default:
        break;
    }
}

static void read_replies(struct load *l, struct conn *c)
{
    size_t at = 0;

    while (c->count > 0 && at < c->in_len) {
        const struct request *r = &c->ring[c->head];
        struct reply reply = {0};
        struct request copy;
        size_t used = l->driver->read(c->in + at, c->in_len - at, r, &reply);

        if (used == 0) {
            break;
        }
        copy = *r;
        c->head = (c->head + 1) & (c->room - 1);
        c->count--;
        at += used;
        if (!c->mover) {
            l->outstanding--;
        }
        l->mode->replied(l, c, &copy, &reply);
    }
    if (c->count == 0 && at < c->in_len) {
        l->failed = "unasked reply";
    }
    c->in_len -= at;
    memmove(c->in, c->in + at, c->in_len);
}

static void on_readable(struct load *l, struct conn *c)
{
    ssize_t got = read(c->fd, c->in + c->in_len, c->in_room - c->in_len);

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        l->failed = "closed by the server";
        return;
    }
    l->now_ns = watch_now_ns();
    l->received += (uint64_t)got;
    c->in_len += (size_t)got;
    read_replies(l, c);
}

/* ---- The run. */

void load_begin(struct load *l)
{
    l->now_ns = watch_now_ns();
    l->begin_ns = l->now_ns;
    l->second_ns = l->now_ns;
    l->cpu_ns = watch_cpu_ns(l->opt.pid);
    l->own_cpu_ns = watch_own_cpu_ns();
    l->written = watch_written_bytes(l->opt.pid);
    l->received = 0;
    if (l->opt.seconds > 0) {
        l->stop_ns = l->now_ns + (uint64_t)(l->opt.seconds * 1e9);
    }
}

void load_end(struct load *l)
{
    if (!l->finished) {
        l->finished = true;
        l->cpu_ns = watch_cpu_ns(l->opt.pid) - l->cpu_ns;
        l->own_cpu_ns = watch_own_cpu_ns() - l->own_cpu_ns;
        l->written = watch_written_bytes(l->opt.pid) - l->written;
    }
}

static void end_second(struct load *l)
{
    const struct hist *h = &l->second;

    (void)fprintf(l->series, "%.3f %llu %.1f %.1f %.1f %.1f %llu\n",
                  (double)(l->now_ns - l->begin_ns) / 1e9, (unsigned long long)l->second_put,
                  (double)hist_part(h, 0.5) / 1e3, (double)hist_part(h, 0.99) / 1e3,
                  (double)hist_part(h, 0.999) / 1e3, (double)h->max / 1e3,
                  (unsigned long long)(watch_written_bytes(l->opt.pid) - l->written));
    hist_clear(&l->second);
    l->second_put = 0;
    l->second_ns = l->now_ns;
}

static struct timespec until(uint64_t at_ns, uint64_t now_ns)
{
    uint64_t left = at_ns > now_ns ? at_ns - now_ns : 0;

    return (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
}

void load_run(struct load *l)
{
    struct epoll_event events[EVENTS];
    uint64_t limit_ns = watch_now_ns() + (uint64_t)(l->opt.limit_s * 1e9);

    l->now_ns = watch_now_ns();
    l->mode->start(l);
    for (unsigned i = 0; i < l->conn_count; i++) {
        load_flush(l, &l->conns[i]);
    }
    while (!l->finished && l->failed == NULL) {
        uint64_t at_ns = l->now_ns + 100000000;
        struct timespec wait;
        int count;

        l->now_ns = watch_now_ns();
        if (l->mode->tick != NULL) {
            uint64_t next = l->mode->tick(l);

            at_ns = next < at_ns ? next : at_ns;
        }
        wait = until(at_ns, l->now_ns);
        count = epoll_pwait2(l->poll, events, EVENTS, &wait, NULL);
        for (int i = 0; i < count && l->failed == NULL; i++) {
            struct conn *c = events[i].data.ptr;

            if ((events[i].events & ~(unsigned)EPOLLOUT) != 0) {
                on_readable(l, c);
            }
            load_flush(l, c);
        }
        if (l->series != NULL && l->now_ns - l->second_ns >= 1000000000) {
            end_second(l);
        }
        if (l->now_ns > limit_ns) {
            l->failed = "time is over";
        }
    }
    load_end(l);
}

/* ---- Making and ending connections. */

static int dial(const struct options *o)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0 || inet_pton(AF_INET, o->address, &a.sin_addr) != 1 ||
        connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return -1;
    }
    return fd;
}

static bool open_conn(struct load *l, struct conn *c, unsigned number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    size_t each = l->opt.body_bytes + 512;
    unsigned room = 8;
    int one = 1;

    /* A cycle has at most four requests per slot; what trickles does not wait for replies. */
    while (room < l->opt.depth * 4 + 16 ||
           (room < TRICKLE_MAX && number == 0 && l->first_due != NULL)) {
        room *= 2;
    }
    *c = (struct conn){.fd = dial(&l->opt), .number = number, .room = room};
    c->out_room = each * room * 2;
    c->in_room = each * room < IN_ROOM ? IN_ROOM : each * room;
    c->out = malloc(c->out_room);
    c->in = malloc(c->in_room);
    c->ring = calloc(room, sizeof(*c->ring));
    if (c->fd < 0 || c->out == NULL || c->in == NULL || c->ring == NULL) {
        return false;
    }
    if (l->driver->prepare != NULL && !l->driver->prepare(l, c)) {
        return false;
    }
    return ioctl(c->fd, FIONBIO, &one) == 0 &&
           epoll_ctl(l->poll, EPOLL_CTL_ADD, c->fd, &event) == 0;
}

static void *reserve_table(size_t each)
{
    void *p = mmap(NULL, JOBS_MAX * each, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p != MAP_FAILED ? p : NULL;
}

bool load_open(struct load *l)
{
    bool lateness = strcmp(l->opt.mode, "burst") == 0 || strcmp(l->opt.mode, "trickle") == 0;
    bool ids = strcmp(l->opt.mode, "put") != 0 && l->opt.known == 0 && !l->driver->fetches;

    l->poll = epoll_create1(EPOLL_CLOEXEC);
    l->flags = reserve_table(sizeof(*l->flags));
    if (lateness) {
        l->first_due = reserve_table(sizeof(*l->first_due));
        l->last_due = reserve_table(sizeof(*l->last_due));
    }
    if (ids) {
        l->ids = reserve_table(sizeof(*l->ids));
    }
    l->conns = calloc(l->conn_count, sizeof(*l->conns));
    if (l->poll < 0 || l->flags == NULL || l->conns == NULL ||
        (lateness && (l->first_due == NULL || l->last_due == NULL)) || (ids && l->ids == NULL)) {
        return false;
    }
    for (unsigned i = 0; i < l->conn_count; i++) {
        if (!open_conn(l, &l->conns[i], i)) {
            return false;
        }
        l->conns[i].mover = i >= l->opt.conns;
    }
    return true;
}

void load_close(struct load *l)
{
    for (unsigned i = 0; i < l->conn_count && l->conns != NULL; i++) {
        if (l->conns[i].fd > 0) {
            (void)close(l->conns[i].fd);
        }
        free(l->conns[i].out);
        free(l->conns[i].in);
        free(l->conns[i].ring);
    }
    free(l->conns);
}
