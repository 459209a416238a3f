/*
 * A library to be preloaded (LD_PRELOAD) that remembers what a power cut could still take from the
 * files of one folder. test/system/powerloss.py reads what it wrote, after the process was killed,
 * and makes the files what they would be on a disk that lost some of it.
 *
 *     POWERLOSS_DIR       the folder
 *     POWERLOSS_JOURNAL   a file in another folder; beside it, JOURNAL.d keeps removed files
 *     POWERLOSS_SLOW_US   how much longer a sync takes, so that a kill often finds one under way
 *     POWERLOSS_LIE       if set, syncs are not written down: as if the disk had lied
 *
 * Writes go to the files at once. Before each, the bytes that it overwrites go to the journal, and
 * the size of the file if it grows; before a name is made or removed, that does, too. After a sync
 * has returned, the journal says so, and up to where it counts: what was begun later does not. The
 * journal is only written, never synced: a kill of the process leaves it whole.
 *
 * A record is a head of eight numbers, then `len` bytes:
 *
 *     kind   1 WRITE  2 SIZE  3 SYNC  4 CREATE  5 UNLINK  6 DIRSYNC
 *     ino    of the file; of a folder 0
 *     off    WRITE: where; SIZE: as it was; SYNC, DIRSYNC: what is before this place of the journal
 *     len    of the bytes that follow: those overwritten; or the name
 *     aux    UNLINK: the number under which it is kept; else 0
 */

#undef _FILE_OFFSET_BITS /* both names of each call are defined here */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SIZE, SYNC, CREATE, UNLINK, DIRSYNC };
enum { FDS = 65536, CHUNK = 65536 };

struct head {
    uint64_t kind, ino, off, len, aux, zero[3];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int journal = -1;
static uint64_t journal_end;
static uint64_t dir_dev;
static uint64_t dir_ino;
static bool lies;
static unsigned slow_us;
static char kept_dir[4096];
static uint64_t kept;
static uint64_t inodes[FDS]; /* of files of the folder, by descriptor; 0: not one of them; */
static bool folders[FDS];    /* or the folder itself */

static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off64_t);
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static int (*real_fallocate)(int, int, off64_t, off64_t);
static int (*real_unlinkat)(int, const char *, int);

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL) {
        fprintf(stderr, "powerloss: no %s\n", name);
        abort();
    }
    return found;
}

static void init(void)
{
    const char *dir = getenv("POWERLOSS_DIR");
    const char *path = getenv("POWERLOSS_JOURNAL");
    struct stat st;

    *(void **)&real_openat = find("openat64");
    *(void **)&real_close = find("close");
    *(void **)&real_pwritev = find("pwritev64");
    *(void **)&real_fdatasync = find("fdatasync");
    *(void **)&real_fsync = find("fsync");
    *(void **)&real_fallocate = find("fallocate64");
    *(void **)&real_unlinkat = find("unlinkat");
    if (dir == NULL || path == NULL || stat(dir, &st) != 0) {
        return; /* nothing is to be remembered */
    }
    dir_dev = st.st_dev;
    dir_ino = st.st_ino;
    lies = getenv("POWERLOSS_LIE") != NULL;
    slow_us = getenv("POWERLOSS_SLOW_US") != NULL
                  ? (unsigned)strtoul(getenv("POWERLOSS_SLOW_US"), NULL, 10)
                  : 0;
    (void)snprintf(kept_dir, sizeof kept_dir, "%s.d", path);
    (void)mkdir(kept_dir, 0700);
    journal = real_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0 || fstat(journal, &st) != 0) {
        fprintf(stderr, "powerloss: %s: %s\n", path, strerror(errno));
        abort();
    }
    journal_end = (uint64_t)st.st_size;
}

static bool on(void)
{
    int saved = errno;

    (void)pthread_once(&once, init);
    errno = saved;
    return journal >= 0;
}

/* Under the lock. */
static void put(struct head h, const void *bytes)
{
    struct iovec iov[2] = {{&h, sizeof h}, {(void *)(uintptr_t)bytes, h.len}};

    if (writev(journal, iov, 2) != (ssize_t)(sizeof h + h.len)) {
        fprintf(stderr, "powerloss: the journal cannot be written\n");
        abort();
    }
    journal_end += sizeof h + h.len;
}

static bool is_ours(int fd)
{
    return fd >= 0 && fd < FDS && inodes[fd] != 0;
}

/* [off, off + len) of the file is about to change. */
static void remember(int fd, uint64_t off, uint64_t len)
{
    static uint8_t old[CHUNK];
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return;
    }
    if (off + len > (uint64_t)st.st_size) {
        put((struct head){.kind = SIZE, .ino = inodes[fd], .off = (uint64_t)st.st_size}, NULL);
    }
    while (len > 0 && off < (uint64_t)st.st_size) {
        uint64_t part = len < CHUNK ? len : CHUNK;
        ssize_t got = pread(fd, old, part, (off_t)off);

        if (got <= 0) {
            break;
        }
        put((struct head){.kind = WRITE, .ino = inodes[fd], .off = off, .len = (uint64_t)got}, old);
        off += (uint64_t)got;
        len -= (uint64_t)got < len ? (uint64_t)got : len;
    }
}

/* ---- what a program calls ---- */

static int open_any(int dir, const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool tracked = on();
    bool here = tracked && dir >= 0 && dir < FDS && folders[dir];
    int fd;

    if (here && (flags & O_CREAT) != 0) {
        (void)pthread_mutex_lock(&lock);
        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            put((struct head){.kind = CREATE, .len = strlen(path)}, path);
        }
        fd = real_openat(dir, path, flags, mode);
        (void)pthread_mutex_unlock(&lock);
    } else {
        fd = real_openat(dir, path, flags, mode);
    }
    if (!tracked || fd < 0 || fd >= FDS) {
        return fd;
    }
    folders[fd] = false;
    inodes[fd] = 0;
    if (fstat(fd, &st) == 0) {
        folders[fd] = S_ISDIR(st.st_mode) && st.st_ino == dir_ino && st.st_dev == dir_dev;
        inodes[fd] = here && S_ISREG(st.st_mode) ? st.st_ino : 0;
    }
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
}

#define OPENAT(name)                                                                               \
    int name(int dir, const char *path, int flags, ...);                                           \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_any(dir, path, flags, mode);                                                   \
    }

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...);                                                    \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_any(AT_FDCWD, path, flags, mode);                                              \
    }

OPENAT(openat)
OPENAT(openat64)
OPEN(open)
OPEN(open64)

int close(int fd)
{
    (void)on();
    if (fd >= 0 && fd < FDS) {
        inodes[fd] = 0;
        folders[fd] = false;
    }
    return real_close(fd);
}

static ssize_t write_at(int fd, const struct iovec *iov, int count, off64_t off)
{
    uint64_t len = 0;
    ssize_t n;

    if (!on() || !is_ours(fd)) {
        return real_pwritev(fd, iov, count, off);
    }
    for (int i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    (void)pthread_mutex_lock(&lock);
    remember(fd, (uint64_t)off, len);
    n = real_pwritev(fd, iov, count, off);
    (void)pthread_mutex_unlock(&lock);
    return n;
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t off)
{
    return write_at(fd, iov, count, off);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t off)
{
    return write_at(fd, iov, count, off);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t off)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, len};

    return write_at(fd, &iov, 1, off);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t off)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, len};

    return write_at(fd, &iov, 1, off);
}

static int allocate(int fd, int mode, off64_t off, off64_t len)
{
    struct stat st;
    int status;

    if (!on() || !is_ours(fd)) {
        return real_fallocate(fd, mode, off, len);
    }
    (void)pthread_mutex_lock(&lock);
    if (fstat(fd, &st) == 0 && off + len > st.st_size) {
        put((struct head){.kind = SIZE, .ino = inodes[fd], .off = (uint64_t)st.st_size}, NULL);
    }
    status = real_fallocate(fd, mode, off, len);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
    return allocate(fd, mode, off, len);
}

int fallocate64(int fd, int mode, off64_t off, off64_t len)
{
    return allocate(fd, mode, off, len);
}

/* What was begun before it counts from when it has returned. */
static int sync_any(int fd, int (*real)(int))
{
    bool folder = on() && fd >= 0 && fd < FDS && folders[fd];
    uint64_t ino = on() && is_ours(fd) ? inodes[fd] : 0;
    uint64_t upto;
    int status;

    if (!folder && ino == 0) {
        return real(fd);
    }
    (void)pthread_mutex_lock(&lock);
    upto = journal_end;
    (void)pthread_mutex_unlock(&lock);
    (void)usleep(slow_us);
    status = real(fd);
    if (status == 0 && !lies) {
        (void)pthread_mutex_lock(&lock);
        put((struct head){.kind = folder ? DIRSYNC : SYNC, .ino = ino, .off = upto}, NULL);
        (void)pthread_mutex_unlock(&lock);
    }
    return status;
}

int fdatasync(int fd)
{
    (void)on();
    return sync_any(fd, real_fdatasync);
}

int fsync(int fd)
{
    (void)on();
    return sync_any(fd, real_fsync);
}

int unlinkat(int dir, const char *path, int flags)
{
    char keep[4200];
    int status;

    if (!on() || dir < 0 || dir >= FDS || !folders[dir]) {
        return real_unlinkat(dir, path, flags);
    }
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(keep, sizeof keep, "%s/%llu", kept_dir, (unsigned long long)kept);
    if (linkat(dir, path, AT_FDCWD, keep, 0) == 0) {
        put((struct head){.kind = UNLINK, .len = strlen(path), .aux = kept++}, path);
    }
    status = real_unlinkat(dir, path, flags);
    (void)pthread_mutex_unlock(&lock);
    return status;
}
