/*
 * Addresses to listen on. Host names are not looked up: a name can mean another machine's address
 * tomorrow, and the rule about loopback would then have been checked against nothing. The one
 * exception is localhost, which is 127.0.0.1 here without asking anybody.
 */

#include "server/address.h"

#include "base/err.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>
#include <sys/un.h>

static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == TR_ADDRESS_PATH_MAX + 1,
              "a path must fit into a socket's address");

#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

static int fail(const char **why, const char *text)
{
    *why = text;
    return TARRY_EINVAL;
}

static bool is_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static int read_port(struct tr_address *a, const char *text, const char **why)
{
    unsigned long port = 0;

    if (!is_digits(text) || strlen(text) > 5) {
        return fail(why, "has a port that is no number from 0 to 65535");
    }
    for (; *text != '\0'; text++) {
        port = port * 10 + (unsigned long)(*text - '0');
    }
    if (port > UINT16_MAX) {
        return fail(why, "has a port that is no number from 0 to 65535");
    }
    a->port = (uint16_t)port;
    return TARRY_OK;
}

static int read_path(struct tr_address *a, const char *path, const char **why)
{
    size_t len = strlen(path);

    if (len == 0) {
        return fail(why, "has no path behind unix:");
    }
    if (len > TR_ADDRESS_PATH_MAX) {
        return fail(why, "has a path longer than the 107 bytes that a socket's name can have");
    }
    a->kind = TR_ADDRESS_UNIX;
    memcpy(a->host, path, len + 1);
    return TARRY_OK;
}

/* A host without port and brackets. */
static int read_host(struct tr_address *a, const char *host, const char **why)
{
    struct in_addr ip4;
    struct in6_addr ip6;

    if (strcmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    }
    if (inet_pton(AF_INET, host, &ip4) == 1) {
        a->kind = TR_ADDRESS_IP4;
        (void)inet_ntop(AF_INET, &ip4, a->host, sizeof a->host);
        return TARRY_OK;
    }
    if (inet_pton(AF_INET6, host, &ip6) == 1) {
        a->kind = TR_ADDRESS_IP6;
        (void)inet_ntop(AF_INET6, &ip6, a->host, sizeof a->host);
        return TARRY_OK;
    }
    if (*host == '\0' || host[strspn(host, HOST_CHARS)] != '\0') {
        return fail(why,
                    "is no address; write IP:PORT, [IPV6]:PORT, :PORT, PORT, unix:PATH or off");
    }
    if (host[strspn(host, "0123456789.")] == '\0') {
        return fail(why,
                    "is no IPv4 address; that is four numbers from 0 to 255 with dots between");
    }
    return fail(why, "names a host, and names are not looked up: give its IP address");
}

/* Copies len bytes of text to be read as a host. */
static int read_host_part(struct tr_address *a, const char *text, size_t len, const char **why)
{
    char host[64];

    if (len >= sizeof host) {
        return fail(why, "is no address: its host is too long");
    }
    memcpy(host, text, len);
    host[len] = '\0';
    return read_host(a, host, why);
}

int tr_address_read(struct tr_address *a, const char *text, const char **why)
{
    const char *colon = strrchr(text, ':');
    const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
    int err;

    *a = (struct tr_address){.kind = TR_ADDRESS_OFF};
    if (strcmp(text, "off") == 0) {
        return TARRY_OK;
    }
    if (strncmp(text, "unix:", 5) == 0) {
        return read_path(a, text + 5, why);
    }
    if (is_digits(text) || (text[0] == ':' && is_digits(text + 1))) {
        err = read_host(a, "127.0.0.1", why);
        return err == TARRY_OK ? read_port(a, text + (text[0] == ':'), why) : err;
    }
    if (bracket != NULL && bracket[1] == ':') {
        err = read_host_part(a, text + 1, (size_t)(bracket - text - 1), why);
        if (err == TARRY_OK && a->kind != TR_ADDRESS_IP6) {
            return fail(why, "has brackets around what is no IPv6 address");
        }
        return err == TARRY_OK ? read_port(a, bracket + 2, why) : err;
    }
    if (colon != NULL && strchr(text, ':') != colon) {
        return fail(why, "looks like IPv6: write it with brackets and a port, as in [::1]:11300");
    }
    if (colon == NULL) {
        err = read_host_part(a, text, strlen(text), why);
        return err == TARRY_OK ? fail(why, "has no port; write it as in 127.0.0.1:11300") : err;
    }
    err = read_host_part(a, text, (size_t)(colon - text), why);
    return err == TARRY_OK ? read_port(a, colon + 1, why) : err;
}

int tr_address_read_host(struct tr_address *a, const char *host, uint16_t port, const char **why)
{
    size_t len = strlen(host);

    *a = (struct tr_address){.kind = TR_ADDRESS_OFF, .port = port};
    if (strncmp(host, "unix:", 5) == 0) {
        a->port = 0;
        return read_path(a, host + 5, why);
    }
    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    return read_host_part(a, host, len, why);
}

bool tr_address_is_local(const struct tr_address *a)
{
    switch (a->kind) {
    case TR_ADDRESS_IP4:
        return strncmp(a->host, "127.", 4) == 0;
    case TR_ADDRESS_IP6:
        return strcmp(a->host, "::1") == 0;
    case TR_ADDRESS_OFF:
    case TR_ADDRESS_UNIX:
        break;
    }
    return true;
}

void tr_address_text(const struct tr_address *a, char out[TR_ADDRESS_TEXT])
{
    switch (a->kind) {
    case TR_ADDRESS_OFF:
        tr_text(out, TR_ADDRESS_TEXT, "off");
        break;
    case TR_ADDRESS_IP4:
        tr_text(out, TR_ADDRESS_TEXT, "%s:%u", a->host, (unsigned)a->port);
        break;
    case TR_ADDRESS_IP6:
        tr_text(out, TR_ADDRESS_TEXT, "[%s]:%u", a->host, (unsigned)a->port);
        break;
    case TR_ADDRESS_UNIX:
        tr_text(out, TR_ADDRESS_TEXT, "unix:%s", a->host);
        break;
    }
}
