/* getrandom, as often as it takes. */

#include "os/random_linux.h"

#include "base/err.h"

#include <errno.h>
#include <sys/random.h>

int tr_random_linux_fill(void *buf, size_t len)
{
    unsigned char *at = buf;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return TARRY_EIO;
        }
        at += n;
        len -= (size_t)n;
    }
    return TARRY_OK;
}

int tr_random_linux_seed(uint64_t *seed)
{
    return tr_random_linux_fill(seed, sizeof *seed);
}
