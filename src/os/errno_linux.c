/* What the kernel says, in our words; what has no word of its own is a failure of the device. */

#include "os/errno_linux.h"

#include "base/err.h"

#include <errno.h>

int tr_errno_code(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT:
        return TARRY_ENOSPC;
    case EACCES:
    case EPERM:
    case EROFS:
        return TARRY_EPERM;
    case ENOENT:
    case ENOTDIR:
    case EADDRNOTAVAIL:
        return TARRY_ENOTFOUND;
    case EADDRINUSE:
        return TARRY_ELOCKED;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return TARRY_EFULL;
    default:
        return TARRY_EIO;
    }
}
