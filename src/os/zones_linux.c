/*
 * Reads a file of the tz database. Names come from clients: tr_zone_name_ok lets nothing through
 * that could leave the folder. Whether the bytes are a zone is for rules/zone.c to say.
 */

#include "os/zones_linux.h"

#include "base/err.h"
#include "base/text.h"
#include "os/errno_linux.h"
#include "rules/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, struct tr_zone_file *file)
{
    file->len = 0;
    for (;;) {
        size_t left = file->size - file->len;
        uint8_t more;
        ssize_t n = left > 0 ? read(fd, file->at + file->len, left) : read(fd, &more, 1);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? TARRY_OK : tr_errno_code(errno);
        }
        if (left == 0) {
            return TARRY_EFULL;
        }
        file->len += (size_t)n;
    }
}

int tr_zones_linux_read(void *ctx, const char *name, size_t name_len, struct tr_zone_file *file)
{
    const char *dir = getenv("TZDIR");
    char path[PATH_MAX];
    struct stat about;
    int err;
    int fd;

    (void)ctx;
    if (!tr_zone_name_ok(name, name_len)) {
        return TARRY_ENOTFOUND;
    }
    tr_text(path, sizeof path, "%s/%.*s", dir != NULL && *dir != '\0' ? dir : "/usr/share/zoneinfo",
            (int)name_len, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return tr_errno_code(errno);
    }
    err = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? TARRY_OK : TARRY_ENOTFOUND;
    if (err == TARRY_OK) {
        err = read_all(fd, file);
    }
    (void)close(fd);
    return err;
}
