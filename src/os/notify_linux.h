#ifndef TR_OS_NOTIFY_LINUX_H
#define TR_OS_NOTIFY_LINUX_H

/*
 * Tells the service manager that started us how we are: lines like READY=1 or STATUS=text, sent as
 * one datagram to the socket that NOTIFY_SOCKET names. That is all of systemd's protocol, so no
 * library is needed. See sd_notify(3) for the words.
 */

#include "base/check.h"

#include <stdint.h>

struct tr_notify_linux {
    int fd;               /* -1: nobody wants to know */
    uint64_t watchdog_us; /* say WATCHDOG=1 at least this often; 0: not wanted */
};

/* TARRY_OK also when nobody wants to know. Else the socket cannot be reached; n can be used. */
TR_MUST_USE int tr_notify_linux_open(struct tr_notify_linux *n);
void tr_notify_linux_close(struct tr_notify_linux *n);

/* Tells some lines. If it is lost it is lost: waits for a second at most. */
void tr_notify_linux_say(const struct tr_notify_linux *n, const char *lines);

/* RELOADING=1, with the time that belongs to it; READY=1 ends that. */
void tr_notify_linux_reloading(const struct tr_notify_linux *n);

#endif
