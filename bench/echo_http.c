/*
 * bench-echo-http PORT_FILE: the limit of an HTTP server on libuv and llhttp that keeps nothing.
 *
 * Each read is parsed, every whole request in it gets the answer that its path asks for, and one
 * write sends them. Every job is the same one, so a generator must be told not to believe it. The
 * port is a free one of 127.0.0.1 and is written to the file. Ends by a signal.
 */

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { ROOM = 1 << 18 };

static char pushed[1024];
static char reserved[1024];
static char acked[1024];

struct conn {
    uv_tcp_t tcp;
    llhttp_t parser;
    size_t out_len;
    char path_end; /* last letter of the path: s of jobs, e of reserve, k of ack */
    char out[ROOM];
};

static char in[ROOM]; /* one thread, and a read is used up before the next */
static llhttp_settings_t settings;

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct conn *c = parser->data;
    const char *query = memchr(at, '?', len);

    c->path_end = query != NULL ? query[-1] : at[len - 1];
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    struct conn *c = parser->data;
    const char *text = c->path_end == 's' ? pushed : c->path_end == 'e' ? reserved : acked;
    size_t len = strlen(text);

    if (c->out_len + len > ROOM) {
        return 1;
    }
    memcpy(c->out + c->out_len, text, len);
    c->out_len += len;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_room(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    (void)handle;
    (void)hint;
    *buf = uv_buf_init(in, sizeof(in));
}

/* A generator never has more outstanding than the socket's buffer holds. */
static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    uv_buf_t out;

    if (got == 0) {
        return;
    }
    c->out_len = 0;
    if (got > 0 && llhttp_execute(&c->parser, buf->base, (size_t)got) == HPE_OK) {
        out = uv_buf_init(c->out, (unsigned)c->out_len);
        if (c->out_len == 0 || uv_try_write(stream, &out, 1) == (int)c->out_len) {
            return;
        }
    }
    if (!uv_is_closing((uv_handle_t *)stream)) {
        uv_close((uv_handle_t *)stream, on_closed);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct conn *c = status == 0 ? calloc(1, sizeof(*c)) : NULL;

    if (c == NULL) {
        return;
    }
    llhttp_init(&c->parser, HTTP_REQUEST, &settings);
    c->parser.data = c;
    (void)uv_tcp_init(listener->loop, &c->tcp);
    c->tcp.data = c;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 || uv_tcp_nodelay(&c->tcp, 1) != 0 ||
        uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read) != 0) {
        uv_close((uv_handle_t *)&c->tcp, on_closed);
    }
}

static void make(char *out, size_t room, const char *status, const char *json)
{
    (void)snprintf(out, room,
                   "HTTP/1.1 %s\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   status, strlen(json), json);
}

/* As many bytes as tarry says, about, of a body of 100 bytes that is not text. */
static void make_replies(void)
{
    char job[512];
    char body[135] = {0};

    (void)snprintf(job, sizeof(job),
                   "{\"id\":\"1234567\",\"topic\":\"default\",\"state\":\"delayed\","
                   "\"priority\":1024,\"due\":\"2026-11-15T08:30:00.123Z\",\"due_ms\":%013d,"
                   "\"created_ms\":%013d,\"attempts\":0,\"ttr_ms\":60000}",
                   0, 0);
    make(pushed, sizeof(pushed), "201 Created", job);
    memset(body, 'A', sizeof(body) - 1);
    (void)snprintf(job, sizeof(job),
                   "{\"jobs\":[{\"id\":\"1234567\",\"lease\":\"%032d\",\"topic\":\"default\","
                   "\"state\":\"reserved\",\"attempts\":1,\"late_ms\":0,\"created_ms\":%013d,"
                   "\"due_ms\":%013d,\"ttr_ms\":60000,\"body_base64\":\"%s==\"}]}",
                   0, 0, 0, body);
    make(reserved, sizeof(reserved), "200 OK", job);
    make(acked, sizeof(acked), "200 OK", "{\"acked\":true}");
}

static int write_port(uv_tcp_t *listener, const char *path)
{
    struct sockaddr_in a;
    int len = sizeof(a);
    FILE *f;

    if (uv_tcp_getsockname(listener, (struct sockaddr *)&a, &len) != 0 ||
        (f = fopen(path, "we")) == NULL) {
        return -1;
    }
    return fprintf(f, "%u\n", ntohs(a.sin_port)) > 0 && fclose(f) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    static uv_tcp_t listener;
    struct sockaddr_in a;

    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_message_complete = on_complete;
    make_replies();
    if (argc != 2 || uv_tcp_init(uv_default_loop(), &listener) != 0 ||
        uv_ip4_addr("127.0.0.1", 0, &a) != 0 ||
        uv_tcp_bind(&listener, (const struct sockaddr *)&a, 0) != 0 ||
        uv_listen((uv_stream_t *)&listener, 1024, on_connection) != 0 ||
        write_port(&listener, argv[1]) != 0) {
        (void)fprintf(stderr, "usage: bench-echo-http PORT_FILE\n");
        return 2;
    }
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
