/*
 *     FILE.XXXXXX  made beside it --> written, synced --> renamed over FILE --> folder synced
 *
 * Whoever reads meanwhile sees the old file or the new one, never a part.
 */

#include "os/replace_linux.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tr_replace_linux_read(const char *path, size_t most, char **bytes, size_t *len)
{
    FILE *file = fopen(path, "re");
    int err = TARRY_OK;

    *bytes = NULL;
    *len = 0;
    if (file == NULL) {
        return TARRY_EIO;
    }
    *bytes = malloc(most + 1);
    if (*bytes == NULL) {
        err = TARRY_ENOMEM;
    } else {
        *len = fread(*bytes, 1, most + 1, file);
        err = ferror(file) ? TARRY_EIO : *len > most ? TARRY_EFULL : TARRY_OK;
    }
    (void)fclose(file);
    if (err != TARRY_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return err;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void sync_folder(char *path)
{
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd); /* the file is whole either way */
        close(fd);
    }
}

/* The new file, whole and on disk, beside the old one. */
static bool make(int fd, const struct stat *was, const char *bytes, size_t len)
{
    return fchmod(fd, was->st_mode & 07777) == 0 &&
           ((was->st_uid == geteuid() && was->st_gid == getegid()) ||
            fchown(fd, was->st_uid, was->st_gid) == 0) &&
           write_all(fd, bytes, len) && fsync(fd) == 0;
}

int tr_replace_linux_write(const char *path, const char *bytes, size_t len)
{
    char real[PATH_MAX];
    char fresh[PATH_MAX + 8];
    struct stat was;
    bool ok;
    int fd;

    if (realpath(path, real) == NULL || stat(real, &was) != 0) {
        return TARRY_EIO;
    }
    (void)snprintf(fresh, sizeof fresh, "%s.XXXXXX", real);
    fd = mkstemp(fresh); /* for nobody else to read until it has its mode */
    if (fd < 0) {
        return TARRY_EIO;
    }
    ok = make(fd, &was, bytes, len);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(fresh, real) != 0) {
        int reason = errno;

        (void)unlink(fresh);
        errno = reason;
        return TARRY_EIO;
    }
    sync_folder(real);
    return TARRY_OK;
}
