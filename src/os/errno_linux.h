#ifndef TR_OS_ERRNO_LINUX_H
#define TR_OS_ERRNO_LINUX_H

/* errno ends in os/: this is where it becomes one of our codes. */

int tr_errno_code(int err);

#endif
