/*
 * Preloaded before libfaketime by bench/scale: libfaketime shifts timerfd_settime by its offset
 * whatever the timer's clock is, which is wrong for ours, on the boot clock.
 */

#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

__attribute__((visibility("default"))) int
timerfd_settime(int fd, int flags, const struct itimerspec *new_value, struct itimerspec *old_value)
{
    return (int)syscall(SYS_timerfd_settime, fd, flags, new_value, old_value);
}
