/*
 * The beanstalk protocol and the engine without sockets: every dialogue of test/proto, in one
 * piece and byte by byte, and what only shows from inside: gates, limits, memory.
 */

#include "base/err.h"
#include "test/unit/wire.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- dialogues ---- */

enum { VARS = 100, LINE_MAX_BYTES = 1 << 17, FILES_MAX = 100 };

struct dialogue {
    struct wire wire;
    char name[200];
    unsigned line;
    char vars[VARS][24]; /* job ids, as text */
    bool other;          /* the rest of the file is for another server */
};

#define WRONG(d, ...)                                                                              \
    do {                                                                                           \
        print_error("%s:%u: ", (d)->name, (d)->line);                                              \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static unsigned hex(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : tolower(c) - 'a' + 10);
}

/* The number behind a dollar, at most two digits. */
static unsigned var_of(const char **text)
{
    unsigned n = 0;

    for (unsigned digits = 0; digits < 2 && isdigit((unsigned char)**text); digits++) {
        n = n * 10 + hex(*(*text)++);
    }
    return n;
}

/* One escape behind its backslash: gives the byte, and how often. */
static uint8_t escape(const char **text, size_t *times)
{
    char c = *(*text)++;
    uint8_t byte;

    *times = 1;
    switch (c) {
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case '0':
        return '\0';
    case 'x':
        byte = (uint8_t)(hex((*text)[0]) << 4 | hex((*text)[1]));
        *text += 2;
        return byte;
    case '{':
        byte = (uint8_t) * (*text)++;
        *times = strtoul(*text + 1, (char **)text, 10);
        (*text)++;
        return byte;
    default:
        return (uint8_t)c;
    }
}

/* The bytes that a text stands for; room for LINE_MAX_BYTES. */
static size_t expand(struct dialogue *d, const char *text, uint8_t *bytes)
{
    size_t len = 0;

    while (*text != '\0') {
        size_t times = 1;
        uint8_t byte;

        if (*text == '$') {
            text++;
            len += (size_t)snprintf((char *)bytes + len, LINE_MAX_BYTES - len, "%s",
                                    d->vars[var_of(&text)]);
            continue;
        }
        byte = (uint8_t)*text++;
        if (byte == '\\') {
            byte = escape(&text, &times);
        }
        memset(bytes + len, byte, times);
        len += times;
    }
    bytes[len] = '\0';
    return len;
}

static void dialogue_send(struct dialogue *d, unsigned client, const char *text)
{
    static uint8_t bytes[LINE_MAX_BYTES];

    wire_send(&d->wire, client, bytes, expand(d, text, bytes));
    wire_settle(&d->wire);
    wire_pass(&d->wire, 10); /* as on any real machine */
}

static void got_instead(struct dialogue *d, unsigned client, const char *text)
{
    const struct wire_client *c = &d->wire.clients[client];

    WRONG(d, "expected %.300s, received %.*s", text, (int)(c->got_len < 300 ? c->got_len : 300),
          c->got_len > 0 ? (const char *)c->got : "");
}

/* Compares, binding ids as they come. */
static void dialogue_expect(struct dialogue *d, unsigned client, const char *text)
{
    const struct wire_client *c = &d->wire.clients[client];
    const char *all = text;
    size_t at = 0;

    while (*text != '\0') {
        size_t times = 1;
        uint8_t byte;

        if (*text == '$') {
            char *var;
            size_t len;

            text++;
            var = d->vars[var_of(&text)];
            for (len = 0; *var == '\0' && at + len < c->got_len && isdigit(c->got[at + len]);) {
                len++;
            }
            if (*var == '\0') {
                memcpy(var, c->got + at, len);
                var[len] = '\0';
            }
            len = strlen(var);
            if (len == 0 || at + len > c->got_len || memcmp(c->got + at, var, len) != 0) {
                got_instead(d, client, all);
            }
            at += len;
            continue;
        }
        byte = (uint8_t)*text++;
        if (byte == '\\') {
            byte = escape(&text, &times);
        }
        for (; times > 0; times--) {
            if (at >= c->got_len || c->got[at++] != byte) {
                got_instead(d, client, all);
            }
        }
    }
    wire_drop(&d->wire, client, at);
}

/* The body of an OK, as text that the caller frees. */
static char *take_ok(struct dialogue *d, unsigned client)
{
    struct wire_client *c = &d->wire.clients[client];
    size_t len = 0;
    int head = 0;
    char *body;
    char *text = calloc(1, c->got_len + 1);

    memcpy(text, c->got_len > 0 ? (const char *)c->got : "", c->got_len);
    if (sscanf(text, "OK %zu\r\n%n", &len, &head) != 1 || head == 0 ||
        (size_t)head + len + 2 > c->got_len || strncmp(text + head, "---\n", 4) != 0 ||
        strncmp(text + head + len, "\r\n", 2) != 0) {
        got_instead(d, client, "OK <bytes> and a body");
    }
    body = calloc(1, len + 2);
    memcpy(body + 1, text + head, len);
    body[0] = '\n'; /* so that every line begins behind one */
    free(text);
    wire_drop(&d->wire, client, (size_t)head + len + 2);
    return body;
}

/* The value of a key, or NULL; both end with their line. */
static const char *value_of(const char *body, const char *key, size_t key_len)
{
    for (const char *line = strchr(body, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
        if (strncmp(line + 1, key, key_len) == 0 && strncmp(line + 1 + key_len, ": ", 2) == 0) {
            return line + 1 + key_len + 2;
        }
    }
    return NULL;
}

static bool value_ok(struct dialogue *d, const char *value, const char *text)
{
    static char want[LINE_MAX_BYTES];
    size_t len = strcspn(value, "\n");
    const char *dots;

    (void)expand(d, text, (uint8_t *)want);
    dots = strstr(want, "..");
    if (dots != NULL) {
        unsigned long n = strtoul(value, NULL, 10);

        return n >= strtoul(want, NULL, 10) && n <= strtoul(dots + 2, NULL, 10);
    }
    return strlen(want) == len && strncmp(value, want, len) == 0;
}

static void dialogue_ok(struct dialogue *d, unsigned client, char *text)
{
    char *body = take_ok(d, client);
    char *rest = NULL;

    for (char *item = strtok_r(text, "|", &rest); item != NULL; item = strtok_r(NULL, "|", &rest)) {
        char *key = item + strspn(item, " ");
        char *colon = strstr(key, ": ");
        const char *value;
        char *want;

        assert_non_null(colon);
        want = colon + 2;
        while (strlen(want) > 0 && want[strlen(want) - 1] == ' ') {
            want[strlen(want) - 1] = '\0';
        }
        value = value_of(body, key, (size_t)(colon - key));
        if (value == NULL || !value_ok(d, value, want)) {
            WRONG(d, "expected %s in %s", key, body);
        }
    }
    free(body);
}

static void dialogue_keys(struct dialogue *d, unsigned client, char *text)
{
    char *body = take_ok(d, client);
    const char *line = strchr(body + 1, '\n') + 1;
    char *rest = NULL;

    for (char *key = strtok_r(text, " ", &rest); key != NULL; key = strtok_r(NULL, " ", &rest)) {
        if (strncmp(line, key, strlen(key)) != 0 || line[strlen(key)] != ':') {
            WRONG(d, "expected the key %s at %s", key, line);
        }
        line = strchr(line, '\n') + 1;
    }
    free(body);
}

static void dialogue_list(struct dialogue *d, unsigned client, char *text)
{
    char *body = take_ok(d, client);
    size_t len = strlen("\n---\n");
    char *rest = NULL;

    for (char *name = strtok_r(text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        static char plain[LINE_MAX_BYTES];
        char line[256];

        (void)expand(d, name, (uint8_t *)plain);
        (void)snprintf(line, sizeof line, "\n- %.200s\n", plain);
        if (strstr(body, line) == NULL) {
            WRONG(d, "expected %s in %s", name, body);
        }
        len += strlen(line) - 1;
    }
    if (strlen(body) != len) {
        WRONG(d, "more than expected in %s", body);
    }
    free(body);
}

/* A line that begins with the name of a connection. */
static void dialogue_client(struct dialogue *d, char *line)
{
    unsigned client = (unsigned)(line[0] - 'A');
    const struct wire_client *c = &d->wire.clients[client];

    if (strncmp(line + 1, "> ", 2) == 0) {
        dialogue_send(d, client, line + 3);
    } else if (strncmp(line + 1, "< ", 2) == 0) {
        dialogue_expect(d, client, line + 3);
    } else if (strncmp(line + 1, "<ok ", 4) == 0) {
        dialogue_ok(d, client, line + 5);
    } else if (strncmp(line + 1, "<keys ", 6) == 0) {
        dialogue_keys(d, client, line + 7);
    } else if (strncmp(line + 1, "<list", 5) == 0) {
        dialogue_list(d, client, line + 6);
    } else if (strcmp(line + 1, "<>") == 0) {
        if (c->got_len > 0) {
            got_instead(d, client, "nothing");
        }
    } else if (strcmp(line + 1, ".eof") == 0) {
        if (!c->closed || c->got_len > 0) {
            got_instead(d, client, "the end");
        }
    } else if (strcmp(line + 1, ".close") == 0) {
        wire_close(&d->wire, client);
        wire_settle(&d->wire);
    } else if (strcmp(line + 1, ".halfclose") == 0) {
        wire_half_close(&d->wire, client);
    } else {
        WRONG(d, "what is %s?", line);
    }
}

/* Is a line for tarry with jobs of its own? Names of servers, or of engines, with commas. */
static bool is_mine(const char *names, size_t len)
{
    static const char *const mine[] = {"tarry", "local"};
    size_t begin = 0;

    for (size_t end = 0; end <= len; end++) {
        if (end < len && names[end] != ',') {
            continue;
        }
        for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++) {
            if (end - begin == strlen(mine[i]) &&
                memcmp(names + begin, mine[i], end - begin) == 0) {
                return true;
            }
        }
        begin = end + 1;
    }
    return false;
}

static void dialogue_line(struct dialogue *d, char *line)
{
    if (line[0] == '!') {
        size_t len = strcspn(line + 1, " ");
        bool mine = is_mine(line + 1, len);

        if (line[1 + len] == '\0') {
            d->other = !mine;
            return;
        }
        if (!mine) {
            return;
        }
        line += 1 + len + 1;
    }
    if (d->other || line[0] == '\0' || line[0] == '#') {
        return;
    }
    if (line[0] == '+') {
        wire_pass(&d->wire, strtoul(line + 1, NULL, 10) * 1000);
    } else if (strcmp(line, "drain") == 0) {
        tr_engine_drain(d->wire.rig.e);
    } else {
        dialogue_client(d, line);
    }
}

static void play(const char *name, size_t piece)
{
    static char line[LINE_MAX_BYTES];
    struct dialogue *d = calloc(1, sizeof *d);
    char path[1024];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/test/proto/%s", SOURCE_ROOT, name);
    (void)snprintf(d->name, sizeof d->name, "%s", name);
    wire_init(&d->wire);
    d->wire.piece = piece;
    wire_open(&d->wire);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        d->line++;
        line[strcspn(line, "\n")] = '\0';
        dialogue_line(d, line);
    }
    (void)fclose(file);
    for (unsigned i = 0; i < WIRE_CLIENTS; i++) {
        if (d->wire.clients[i].got_len > 0) {
            got_instead(d, i, "nothing more");
        }
    }
    wire_fini(&d->wire);
    free(d);
}

static void test_dialogue_whole(void **state)
{
    play(*state, 0);
}

static void test_dialogue_byte_by_byte(void **state)
{
    play(*state, 1);
}

/* ---- from inside ---- */

static void say(struct wire *w, unsigned client, const char *text)
{
    wire_send(w, client, text, strlen(text));
}

static void expect(struct wire *w, unsigned client, const char *text)
{
    const struct wire_client *c = &w->clients[client];

    if (c->got_len != strlen(text) || (c->got_len > 0 && memcmp(c->got, text, c->got_len) != 0)) {
        fail_msg("expected %s, received %.*s", text, (int)c->got_len, (const char *)c->got);
    }
    wire_drop(w, client, c->got_len);
}

static void start(struct wire *w)
{
    wire_init(w);
    wire_open(w);
    rig_settle(&w->rig);
}

static void test_beanstalk_no_reply_before_the_disk(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    say(&w, 0, "put 0 0 60 1\r\na\r\n");
    say(&w, 1, "peek 1\r\nreserve\r\nstats-job 2\r\n");
    wire_run(&w); /* no disk */
    expect(&w, 0, "");
    expect(&w, 1, "");
    wire_settle(&w);
    expect(&w, 0, "INSERTED 1\r\n");
    expect(&w, 1, "FOUND 1 1\r\na\r\nRESERVED 1 1\r\na\r\nNOT_FOUND\r\n");

    say(&w, 1, "delete 1\r\n");
    say(&w, 2, "peek 1\r\nlist-tube-used\r\n");
    wire_run(&w);
    expect(&w, 1, "");
    expect(&w, 2, "");
    wire_settle(&w);
    expect(&w, 1, "DELETED\r\n");
    expect(&w, 2, "NOT_FOUND\r\nUSING default\r\n");
    wire_fini(&w);
}

static void test_beanstalk_others_go_on_meanwhile(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    say(&w, 0, "put 0 0 60 1\r\na\r\n");
    say(&w, 1, "foo\r\n"); /* its answer says nothing about the store */
    wire_run(&w);
    expect(&w, 0, "");
    expect(&w, 1, "UNKNOWN_COMMAND\r\n");
    wire_settle(&w);
    wire_fini(&w);
}

static void test_beanstalk_job_of_a_client_that_left_is_not_counted(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    say(&w, 0, "put 0 0 60 1\r\na\r\n");
    say(&w, 1, "reserve\r\n");
    wire_run(&w); /* reserved, but its reply waits for the disk */
    wire_close(&w, 1);
    wire_settle(&w);
    expect(&w, 0, "INSERTED 1\r\n");
    assert_int_equal(rig_view(&w.rig, 1).state, TR_READY);
    assert_int_equal(rig_view(&w.rig, 1).reserves, 0);

    say(&w, 1, "reserve\r\n");
    wire_settle(&w);
    expect(&w, 1, "RESERVED 1 1\r\na\r\n");
    wire_close(&w, 1); /* it had it */
    assert_int_equal(rig_view(&w.rig, 1).state, TR_READY);
    assert_int_equal(rig_view(&w.rig, 1).reserves, 1);
    wire_fini(&w);
}

/* After the last attempt that a policy allows: BURIED. A kick by this port goes on counting. */
static void test_beanstalk_release_after_the_last_attempt(void **state)
{
    struct wire w;
    struct ask a = rig_ask(TR_OP_POLICY);
    struct tr_policy p = tr_policy_default();

    (void)state;
    start(&w);
    p.given = TR_POLICY_BIT(RETRIES);
    p.retries = 1;
    a.req.topic = rig_hold(&w.rig, "default");
    a.req.policy = &p;
    a.req.fields = TR_POLICY_BIT(RETRIES);
    assert_int_equal(rig_do(&w.rig, &a), TARRY_OK);
    say(&w, 0, "put 0 0 60 1\r\na\r\nreserve\r\nrelease 1 0 0\r\n");
    wire_settle(&w);
    expect(&w, 0, "INSERTED 1\r\nRESERVED 1 1\r\na\r\nRELEASED\r\n");
    say(&w, 0, "reserve\r\nrelease 1 0 5\r\n");
    wire_settle(&w);
    expect(&w, 0, "RESERVED 1 1\r\na\r\nBURIED\r\n");
    assert_int_equal(rig_view(&w.rig, 1).dead_why, TR_WHY_RETRIES);
    say(&w, 0, "kick 1\r\nreserve\r\nbury 1 0\r\nkick 1\r\n"); /* used up: anew */
    wire_settle(&w);
    expect(&w, 0, "KICKED 1\r\nRESERVED 1 1\r\na\r\nBURIED\r\nKICKED 1\r\n");
    assert_int_equal(rig_view(&w.rig, 1).reserves, 1); /* as beanstalkd */
    wire_fini(&w);
}

static void test_beanstalk_output_is_bounded(void **state)
{
    struct wire w;
    size_t replies = 0;

    (void)state;
    start(&w);
    w.port.output_max = 4096;
    w.deaf = true;
    for (unsigned i = 0; i < 2000; i++) {
        say(&w, 0, "stats-tube default\r\n");
    }
    say(&w, 1, "use other\r\n");
    wire_settle(&w);
    assert_in_range(tr_output_len(&w.clients[0].session.out), 4096, 8192);
    assert_true(w.clients[0].in_len > 0);
    assert_int_equal(tr_bs_want(&w.clients[0].session), TR_WANT_DRAIN);
    w.deaf = false;
    wire_settle(&w);
    expect(&w, 1, "USING other\r\n");
    for (size_t i = 0; i + 5 < w.clients[0].got_len; i++) {
        replies += memcmp(w.clients[0].got + i, "name:", 5) == 0;
    }
    assert_int_equal(replies, 2000);
    wire_fini(&w);
}

static void test_beanstalk_body_takes_memory_as_it_comes(void **state)
{
    static uint8_t body[60000];
    struct wire w;
    uint64_t before;

    (void)state;
    start(&w);
    say(&w, 0, "use x\r\n");
    wire_settle(&w);
    before = w.rig.mem.used_bytes;
    say(&w, 0, "put 0 0 60 60000\r\nabc");
    wire_settle(&w);
    assert_true(w.rig.mem.used_bytes < before + 8192);
    wire_send(&w, 0, body, 30000);
    wire_settle(&w);
    assert_true(w.rig.mem.used_bytes < before + 65536);
    wire_close(&w, 0); /* in the midst: nothing was stored, nothing is kept */
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 0);
    assert_true(w.rig.mem.used_bytes <= before);
    wire_fini(&w);
}

static void test_beanstalk_many_steps_give_way(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    for (unsigned i = 0; i < 1000; i++) {
        say(&w, 0, "list-tube-used\r\n");
    }
    (void)tr_bs_feed(&w.clients[0].session, w.clients[0].in, w.clients[0].in_len, w.rig.now);
    assert_int_equal(tr_bs_want(&w.clients[0].session), TR_WANT_TURN);
    w.clients[0].in_len = 0;
    wire_settle(&w);
    wire_fini(&w);
}

static const char everything[] =
    "use a\r\nwatch a\r\nwatch b\r\nwatch c\r\nput 1 0 60 3\r\nabc\r\nput 1 9 60 3\r\nabc\r\n"
    "reserve\r\nreserve-with-timeout 0\r\nrelease 1 5 0\r\nreserve-job 1\r\nbury 1 3\r\n"
    "peek-buried\r\nkick 5\r\npeek-ready\r\npeek-delayed\r\nstats\r\nstats-job 1\r\n"
    "stats-tube a\r\nlist-tubes\r\nlist-tubes-watched\r\nlist-tube-used\r\nignore b\r\n"
    "pause-tube a 5\r\npause-tube a 0\r\nreserve\r\ntouch 1\r\ndelete 1\r\nkick-job "
    "2\r\nreserve\r\n";

/* Whatever request for memory fails, and from then on: no crash, no leak, nothing half done. */
static void test_beanstalk_out_of_memory(void **state)
{
    bool reached = true;

    (void)state;
    for (uint64_t n = 1; reached; n += RIG_SLOW ? 3 : 1) {
        struct wire w;
        uint64_t calls;

        start(&w);
        calls = w.rig.mem.calls;
        w.rig.mem.fail_at = calls + n;
        w.rig.mem.fail_on = n % 2 == 0;
        w.piece = 7;
        say(&w, 0, everything);
        say(&w, 1, "watch a\r\nreserve\r\n");
        wire_settle(&w);
        reached = w.rig.mem.calls >= calls + n;
        w.rig.mem.fail_at = 0;
        w.rig.mem.fail_on = false;
        assert_true(tr_engine_ok(w.rig.e));
        wire_fini(&w);
        assert_true(n < 2000);
    }
}

/* ---- the list of tests ---- */

static unsigned add_dialogues(struct CMUnitTest *tests)
{
    char folder[1024];
    const struct dirent *entry;
    unsigned count = 0;
    DIR *dir;

    (void)snprintf(folder, sizeof folder, "%s/test/proto", SOURCE_ROOT);
    dir = opendir(folder);
    if (dir == NULL) {
        return 0;
    }
    while ((entry = readdir(dir)) != NULL && count < 2 * FILES_MAX) {
        char *name;

        if (strncmp(entry->d_name, "beanstalk-", 10) != 0) {
            continue;
        }
        name = strdup(entry->d_name);
        tests[count++] = (struct CMUnitTest){name, test_dialogue_whole, NULL, NULL, name};
        tests[count++] = (struct CMUnitTest){name, test_dialogue_byte_by_byte, NULL, NULL, name};
    }
    (void)closedir(dir);
    return count;
}

int main(void)
{
    static struct CMUnitTest dialogues[2 * FILES_MAX];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beanstalk_no_reply_before_the_disk),
        cmocka_unit_test(test_beanstalk_others_go_on_meanwhile),
        cmocka_unit_test(test_beanstalk_job_of_a_client_that_left_is_not_counted),
        cmocka_unit_test(test_beanstalk_release_after_the_last_attempt),
        cmocka_unit_test(test_beanstalk_output_is_bounded),
        cmocka_unit_test(test_beanstalk_body_takes_memory_as_it_comes),
        cmocka_unit_test(test_beanstalk_many_steps_give_way),
        cmocka_unit_test(test_beanstalk_out_of_memory),
    };
    unsigned count = add_dialogues(dialogues);
    int failed = _cmocka_run_group_tests("dialogues", dialogues, count, NULL, NULL);

    for (unsigned i = 0; i < count; i += 2) {
        free(dialogues[i].initial_state);
    }
    return cmocka_run_group_tests(tests, NULL, NULL) + failed + (count == 0);
}
