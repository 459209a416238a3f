/*
 * A socket of the manager's is a path, or an abstract name, which begins with '@' here and with a
 * NUL in the kernel. It is connected once, at the start, as the user that we start as.
 *
 * The variables stay in the environment: we start no other program.
 */

#include "os/notify_linux.h"

#include "base/err.h"
#include "base/text.h"
#include "os/process_linux.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Digits only; else 0. */
static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;

    if (text == NULL || strlen(text) > 18 || text[strspn(text, "0123456789")] != '\0') {
        return 0;
    }
    for (; *text != '\0'; text++) {
        number = number * 10 + (uint64_t)(*text - '0');
    }
    return number;
}

static int connect_to(struct tr_notify_linux *n, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval second = {.tv_sec = 1};
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len >= sizeof address.sun_path) {
        return TARRY_EINVAL;
    }
    memcpy(address.sun_path, name, len);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0) {
        return TARRY_EFULL;
    }
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    if (connect(n->fd, (const struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) != 0) {
        tr_notify_linux_close(n);
        return TARRY_ENOTFOUND;
    }
    return TARRY_OK;
}

int tr_notify_linux_open(struct tr_notify_linux *n)
{
    const char *name = getenv("NOTIFY_SOCKET");
    uint64_t whose = number_of("WATCHDOG_PID");
    int err;

    *n = (struct tr_notify_linux){.fd = -1};
    if (name == NULL || *name == '\0') {
        return TARRY_OK;
    }
    err = connect_to(n, name);
    if (err == TARRY_OK && (whose == 0 || whose == tr_process_id())) {
        n->watchdog_us = number_of("WATCHDOG_USEC");
    }
    return err;
}

void tr_notify_linux_close(struct tr_notify_linux *n)
{
    if (n->fd >= 0) {
        close(n->fd);
    }
    *n = (struct tr_notify_linux){.fd = -1};
}

void tr_notify_linux_say(const struct tr_notify_linux *n, const char *lines)
{
    if (n->fd >= 0) {
        ssize_t sent = send(n->fd, lines, strlen(lines), MSG_NOSIGNAL);

        (void)sent; /* who does not listen does not care */
    }
}

void tr_notify_linux_reloading(const struct tr_notify_linux *n)
{
    struct timespec now;
    char lines[80];

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    tr_text(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
            (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    tr_notify_linux_say(n, lines);
}
