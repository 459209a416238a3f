/*
 * Redis: LPUSH onto a list (the body alone) or XADD to a stream (id, topic, key, attempt, due and
 * body as fields), on a line with a thread of its own (line.c). hiredis writes the commands and
 * reads the replies; the bytes go over a cable that does not block.
 *
 *     waiting --a command into `out`--> sent --the n-th reply is for the n-th command--> OK, FAILED
 *
 * Commands are sent one behind the other without waiting for replies, as many as there are; `out`
 * is filled up to 256 KiB, so that large bodies are not copied all at once.
 *
 * A connection begins with AUTH and SELECT, as the URL says, and nothing else is sent before they
 * were answered: a job in another database is a job lost.
 *
 * Confirmed means here that Redis has it. What that is worth is a setting of Redis (appendonly,
 * appendfsync, replicas), not ours.
 */

#include "base/err.h"
#include "base/text.h"
#include "outlet/cable.h"
#include "outlet/kinds.h"
#include "outlet/label.h"
#include "outlet/line.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUT_FULL = 256 * 1024,
    IN_BYTES = 16 * 1024,
    REPLY_BYTES = 64 * 1024, /* no reply to us is as long as that */
    WORDS = 15,
};

struct sender {
    struct tr_line line; /* first */
    bool tls;
    bool stream;
    char name[TR_DELIVER_TEXT_MAX]; /* of the list or stream; without an end */
    size_t name_len;

    /* The thread's. */
    struct tr_cable cable;
    redisReader *reader;
    char *out; /* what is to be written yet: from out_at to out_len */
    size_t out_at;
    size_t out_len;
    size_t out_room;
};

/* A command as it is gathered. */
struct command {
    const char *words[WORDS];
    size_t lens[WORDS];
    int count;
};

static void add(struct command *c, const void *word, size_t len)
{
    c->words[c->count] = word;
    c->lens[c->count++] = len;
}

static void add_text(struct command *c, const char *word)
{
    add(c, word, strlen(word));
}

static bool make_room(struct sender *r, size_t bytes)
{
    size_t need = r->out_len + bytes;
    size_t room = need > 2 * r->out_room ? need : 2 * r->out_room;
    char *more;

    if (need <= r->out_room) {
        return true;
    }
    more = realloc(r->out, room);
    if (more == NULL) {
        return false;
    }
    r->out = more;
    r->out_room = room;
    return true;
}

static bool write_command(struct sender *r, struct command *c)
{
    char *bytes = NULL;
    int len = redisFormatCommandArgv(&bytes, c->count, c->words, c->lens);

    if (len <= 0 || !make_room(r, (size_t)len)) {
        redisFreeCommand(bytes);
        return tr_line_note(&r->line, "memory", "out of memory");
    }
    memcpy(r->out + r->out_len, bytes, (size_t)len);
    r->out_len += (size_t)len;
    redisFreeCommand(bytes);
    return true;
}

static bool write_job(struct sender *r, const struct tr_send *s)
{
    static const struct {
        const char *name;
        enum tr_label_name label;
    } fields[] = {{"id", TR_LABEL_ID},
                  {"topic", TR_LABEL_TOPIC},
                  {"key", TR_LABEL_KEY},
                  {"attempt", TR_LABEL_ATTEMPT},
                  {"due", TR_LABEL_DUE}};
    struct command c = {.count = 0};
    struct tr_labels labels;

    add_text(&c, r->stream ? "XADD" : "LPUSH");
    add(&c, r->name, r->name_len);
    if (r->stream) {
        tr_labels_init(&labels, s);
        add_text(&c, "*");
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            add_text(&c, fields[i].name);
            add(&c, labels.at[fields[i].label].text, labels.at[fields[i].label].len);
        }
        add_text(&c, "body");
    }
    add(&c, s->body, s->body_len);
    return write_command(r, &c);
}

static bool write_out(struct sender *r)
{
    while (r->out_at < r->out_len) {
        ssize_t n = tr_cable_write(&r->cable, r->out + r->out_at, r->out_len - r->out_at);

        if (n < 0) {
            return tr_line_note(&r->line, "connect", r->cable.fault);
        }
        if (n == 0) {
            return true;
        }
        r->out_at += (size_t)n;
    }
    r->out_at = 0;
    r->out_len = 0;
    return true;
}

/* Into the reader. *more: there may be more. */
static bool read_in(struct sender *r, bool *more)
{
    char bytes[IN_BYTES];
    ssize_t n = tr_cable_read(&r->cable, bytes, sizeof bytes);

    *more = n > 0;
    if (n < 0) {
        return tr_line_note(&r->line, "connect", r->cable.fault);
    }
    if (n > 0 && redisReaderFeed(r->reader, bytes, (size_t)n) != REDIS_OK) {
        return tr_line_note(&r->line, "protocol", r->reader->errstr);
    }
    return true;
}

/* The next reply; NULL: it is not all there. */
static bool next_reply(struct sender *r, redisReply **reply)
{
    void *found = NULL;

    *reply = NULL;
    if (redisReaderGetReply(r->reader, &found) != REDIS_OK) {
        return tr_line_note(&r->line, "protocol", r->reader->errstr);
    }
    if (found == NULL && r->reader->len - r->reader->pos > REPLY_BYTES) {
        return tr_line_note(&r->line, "protocol", "the answer is too long for Redis");
    }
    *reply = found;
    return true;
}

/* The first word of an error, as a code for metrics: OOM, READONLY ... */
static void error_code(char out[TR_SEND_CODE], const char *text)
{
    size_t len = 0;

    while (len + 1 < TR_SEND_CODE && text[len] >= 'A' && text[len] <= 'Z') {
        out[len] = text[len];
        len++;
    }
    out[len] = '\0';
    if (len == 0 || (text[len] != ' ' && text[len] != '\0')) {
        tr_text(out, TR_SEND_CODE, "error");
    }
}

/* ---- Connecting. */

/* AUTH and SELECT; gives how many replies are to come, or -1. */
static int greet(struct sender *r)
{
    const struct tr_url *url = &r->line.url;
    struct command c = {.count = 0};
    int count = 0;

    if (url->has_password && url->password[0] != '\0') {
        add_text(&c, "AUTH");
        if (url->user[0] != '\0') {
            add_text(&c, url->user);
        }
        add_text(&c, url->password);
        if (!write_command(r, &c)) {
            return -1;
        }
        count++;
    }
    if (url->path[0] != '\0') {
        c = (struct command){.count = 0};
        add_text(&c, "SELECT");
        add_text(&c, url->path);
        if (!write_command(r, &c)) {
            return -1;
        }
        count++;
    }
    return count;
}

/* What an error says, without what it repeats of a command that Redis does not know: a password, or
 * the body of a job. */
static const char *error_text(const redisReply *reply)
{
    char *args = strstr(reply->str, ", with args");

    if (args != NULL) {
        *args = '\0';
    }
    return reply->str;
}

static bool welcomed(struct sender *r, const redisReply *reply)
{
    char code[TR_SEND_CODE];
    char why[TR_SEND_WHY];

    if (reply->type != REDIS_REPLY_ERROR) {
        return true;
    }
    error_code(code, reply->str);
    tr_text(why, sizeof why, "Redis does not let us in: %s", error_text(reply));
    return tr_line_note(&r->line, code, why);
}

static short wanted(const struct sender *r)
{
    return (short)(POLLIN | (r->out_at < r->out_len || r->cable.wants_write ? POLLOUT : 0));
}

/* Hears `count` replies, within the time-out. */
static bool hear_welcome(struct sender *r, int count)
{
    struct tr_post *post = &r->line.post;
    uint64_t until_ms = tr_post_now_ms() + post->timeout_ms;

    while (count > 0) {
        redisReply *reply;
        bool more;
        bool ok;

        if (!write_out(r) || !read_in(r, &more) || !next_reply(r, &reply)) {
            return false;
        }
        if (reply != NULL) {
            ok = welcomed(r, reply);
            freeReplyObject(reply);
            count--;
            if (!ok) {
                return false;
            }
            continue;
        }
        if (tr_post_stopping(post) || tr_post_now_ms() >= until_ms) {
            return tr_line_note(&r->line, "timeout", "Redis did not answer in time");
        }
        if (!more) {
            (void)tr_post_wait_for(post, r->cable.fd, wanted(r), until_ms);
        }
    }
    return true;
}

static bool dial(struct tr_line *l)
{
    struct sender *r = TR_CONTAINER_OF(l, struct sender, line);
    int fd = tr_line_dial(l);
    int count;

    if (fd < 0) {
        return false;
    }
    l->fd = fd;
    r->reader = redisReaderCreate();
    if (tr_cable_open(&r->cable, fd, r->tls ? l->url.host : NULL) != TARRY_OK) {
        return tr_line_note(l, "tls", r->cable.fault);
    }
    if (r->reader == NULL) {
        return tr_line_note(l, "memory", "out of memory");
    }
    count = greet(r);
    return count >= 0 && hear_welcome(r, count);
}

static void hang_up(struct tr_line *l, bool polite)
{
    struct sender *r = TR_CONTAINER_OF(l, struct sender, line);

    (void)polite;
    tr_cable_close(&r->cable);
    if (r->reader != NULL) {
        redisReaderFree(r->reader);
    }
    r->reader = NULL;
    free(r->out);
    r->out = NULL;
    r->out_at = r->out_len = r->out_room = 0;
}

/* ---- Sending and hearing. */

/* Errors that are not about a job: with any other it would be the same now. */
static bool is_of_all(const char *code)
{
    static const char *const codes[] = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF",
                                        "NOAUTH",      "OOM",     "READONLY"};

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* False: the connection is of no use. */
static bool hear_one(struct sender *r, const redisReply *reply)
{
    struct tr_mail *m = tr_mails_pop(&r->line.sent);
    struct tr_post_answer answer = {TR_SEND_OK, "ok", NULL};
    char code[TR_SEND_CODE] = "";
    int want = r->stream ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER;

    if (m == NULL) {
        return tr_line_note(&r->line, "protocol", "Redis answers more than it was asked");
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        error_code(code, reply->str);
        answer = (struct tr_post_answer){is_of_all(code) ? TR_SEND_UNREACHABLE : TR_SEND_FAILED,
                                         code, error_text(reply)};
    } else if (reply->type != want) {
        answer = (struct tr_post_answer){TR_SEND_FAILED, "protocol", "Redis answers strangely"};
    }
    tr_line_confirm(&r->line, m, &answer);
    /* What was a primary is a replica now: its name may already mean another one. */
    return strcmp(code, "READONLY") != 0 || tr_line_note(&r->line, code, "Redis is a replica now");
}

static bool hear(struct sender *r)
{
    bool more = true;

    while (more) {
        redisReply *reply = NULL;
        bool ok;

        if (!read_in(r, &more)) {
            return false;
        }
        do {
            if (!next_reply(r, &reply)) {
                return false;
            }
            if (reply != NULL) {
                ok = hear_one(r, reply);
                freeReplyObject(reply);
                if (!ok) {
                    return false;
                }
            }
        } while (reply != NULL);
    }
    return true;
}

static bool pump(struct tr_line *l)
{
    struct sender *r = TR_CONTAINER_OF(l, struct sender, line);

    if (!hear(r)) {
        return false;
    }
    while (l->waiting.first != NULL && r->out_len < OUT_FULL) {
        struct tr_mail *m = l->waiting.first;

        if (!write_job(r, m->send)) {
            return false; /* it still waits */
        }
        tr_mails_append(&l->sent, tr_mails_pop(&l->waiting));
        if ((l->waiting.first == NULL || r->out_len >= OUT_FULL) && !write_out(r)) {
            return false;
        }
    }
    if (!write_out(r)) {
        return false;
    }
    l->events = wanted(r);
    return true;
}

/* ---- The loop's side. */

static const char *read_settings(struct sender *r, const struct tr_deliver *d)
{
    static const struct tr_line_scheme schemes[2] = {{"redis", "6379"}, {"rediss", "6379"}};
    struct tr_deliver_text name;
    const char *bad = tr_line_read_url(&r->line, d, schemes, &r->tls);

    r->stream = (d->given >> TR_DELIVER_STREAM & 1) != 0;
    name = d->texts[r->stream ? TR_DELIVER_STREAM : TR_DELIVER_LIST];
    if (name.len == 0 || name.len > sizeof r->name) {
        return "the name of the list or stream is empty or too long";
    }
    memcpy(r->name, name.at, name.len);
    r->name_len = name.len;
    return bad;
}

static int open_sender(void **out, const struct tr_deliver *d, const struct tr_sender_host *host)
{
    static const struct tr_line_ops ops = {"redis", UINT64_MAX, dial, pump, hang_up};
    struct sender *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return TARRY_ENOMEM;
    }
    r->cable.fd = -1;
    r->line.ops = &ops;
    r->line.bad = read_settings(r, d);
    *out = r;
    return tr_line_open(&r->line, host, d);
}

const struct tr_sender_kind tr_redis_kind = {
    .type = TR_DELIVER_REDIS,
    .open = open_sender,
    .window = tr_post_window,
    .send = tr_post_send,
    .collect = tr_post_collect,
    .stop = tr_post_stop,
    .stopped = tr_post_stopped,
    .close = tr_post_close,
};
