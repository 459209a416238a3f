/*
 * Requests as system calls.
 *
 * A file number is its file descriptor. The names of the open files are kept besides, because
 * O_DIRECT belongs to the descriptor: READ_DIRECT opens the file a second time by name, makes
 * sure that it is the same one, and closes it again. Where O_DIRECT is refused (some file systems
 * say EINVAL at open, others at the read) the same end is reached by fdatasync, which leaves
 * nothing in the cache that the disk does not have, and POSIX_FADV_DONTNEED, which drops it.
 *
 * A write that fails half-way gives the error, not the bytes: its owner must not build on it. An
 * interrupted call is started again; nothing else is ever tried twice, above all no sync, since
 * the second one can say yes about pages that the first one lost.
 *
 * errno ends here: see errno_linux.h.
 */

#include "os/files_linux.h"

#include "base/err.h"
#include "os/errno_linux.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOLDER "quarantine"

enum {
    FILE_MODE = 0600, /* bodies of jobs are nobody else's business */
    DIR_MODE = 0700,
    ALIGN = 4096,
    BOUNCE_BYTES = 1 << 20,
    ZEROS_BYTES = 1 << 16,
    ZEROS_PIECES = 16,
};

static const char zeros[ZEROS_BYTES];

/* ---- names of open files ---- */

static int add_name(struct tr_files_linux *f, int fd, const char *name)
{
    int status = TARRY_OK;

    pthread_mutex_lock(&f->lock);
    if (fd >= f->names_room) {
        int room = fd + fd / 2 + 64;
        void *names = realloc(f->names, (size_t)room * sizeof *f->names);

        if (names == NULL) {
            status = TARRY_EFULL;
            goto end;
        }
        f->names = names;
        memset(f->names[f->names_room], 0, (size_t)(room - f->names_room) * sizeof *f->names);
        f->names_room = room;
    }
    memcpy(f->names[fd], name, TR_IO_NAME_MAX);
end:
    pthread_mutex_unlock(&f->lock);
    return status;
}

static void find_name(struct tr_files_linux *f, int fd, char name[TR_IO_NAME_MAX])
{
    pthread_mutex_lock(&f->lock);
    TR_CHECK(fd >= 0);
    TR_CHECK(fd < f->names_room);
    TR_CHECK(f->names[fd][0] != 0);
    memcpy(name, f->names[fd], TR_IO_NAME_MAX);
    pthread_mutex_unlock(&f->lock);
}

static void remove_name(struct tr_files_linux *f, int fd)
{
    pthread_mutex_lock(&f->lock);
    TR_CHECK(fd >= 0);
    TR_CHECK(fd < f->names_room);
    TR_CHECK(f->names[fd][0] != 0);
    f->names[fd][0] = 0;
    pthread_mutex_unlock(&f->lock);
}

/* True: the file is in the only folder that there may be. */
static bool in_folder(const char *name)
{
    return strncmp(name, FOLDER "/", sizeof FOLDER) == 0;
}

static void check_name(const char *name)
{
    TR_CHECK(memchr(name, 0, TR_IO_NAME_MAX) != NULL);
    name += in_folder(name) ? sizeof FOLDER : 0;
    TR_CHECK(name[0] != 0);
    TR_CHECK(strchr(name, '/') == NULL);
    TR_CHECK(strcmp(name, ".") != 0);
    TR_CHECK(strcmp(name, "..") != 0);
}

/* ---- bytes ---- */

/* Reads until len or the end of the file. TARRY_EINVAL: this descriptor refuses. */
static int read_all(int fd, uint64_t off, void *buf, size_t len, size_t *got)
{
    *got = 0;
    while (*got < len) {
        ssize_t n = pread(fd, (char *)buf + *got, len - *got, (off_t)(off + *got));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EINVAL ? TARRY_EINVAL : tr_errno_code(errno);
        }
        if (n == 0) {
            break;
        }
        *got += (size_t)n;
    }
    return TARRY_OK;
}

/* Drops the first n bytes of iov. */
static void advance(struct iovec **iov, int *count, size_t n)
{
    while (*count > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        (*count)--;
    }
    if (*count > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

/* Writes all of iov, which it changes. *got: the bytes written, also after an error. */
static int write_all(int fd, uint64_t off, struct iovec *iov, int count, uint64_t *got)
{
    *got = 0;
    advance(&iov, &count, 0);
    while (count > 0) {
        ssize_t n = pwritev(fd, iov, count, (off_t)(off + *got));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? tr_errno_code(errno) : TARRY_EIO;
        }
        *got += (uint64_t)n;
        advance(&iov, &count, (size_t)n);
    }
    return TARRY_OK;
}

static int write_zeros(int fd, uint64_t off, uint64_t end)
{
    while (off < end) {
        struct iovec iov[ZEROS_PIECES];
        int count = 0;
        uint64_t got;
        uint64_t left = end - off;
        int status;

        while (left > 0 && count < ZEROS_PIECES) {
            size_t part = left < ZEROS_BYTES ? (size_t)left : ZEROS_BYTES;

            iov[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros, .iov_len = part};
            left -= part;
        }
        status = write_all(fd, off, iov, count, &got);
        if (status != TARRY_OK) {
            return status;
        }
        off += got;
    }
    return TARRY_OK;
}

static int sync_file(int fd)
{
    int status;

    do {
        status = fdatasync(fd);
    } while (status != 0 && errno == EINTR);
    return status == 0 ? TARRY_OK : tr_errno_code(errno);
}

/* ---- requests ---- */

static int dir_of(const struct tr_files_linux *f, const struct tr_io *io)
{
    TR_CHECK((io->flags & TR_IO_ASIDE) == 0 || f->aside >= 0);
    return (io->flags & TR_IO_ASIDE) != 0 ? f->aside : f->dir;
}

/* False: it is there, or cannot be made. */
static bool make_folder(const struct tr_files_linux *f)
{
    bool made = mkdirat(f->dir, FOLDER, DIR_MODE) == 0;

    errno = made ? 0 : ENOENT;
    return made;
}

static int do_open(struct tr_files_linux *f, struct tr_io *io)
{
    bool look = f->read_only || (io->flags & TR_IO_READ_ONLY) != 0;
    int flags = O_CLOEXEC | (look ? O_RDONLY : O_RDWR) |
                (!look && (io->flags & TR_IO_CREATE) != 0 ? O_CREAT : 0);
    int status;
    int fd;

    check_name(io->name);
    do {
        fd = openat(dir_of(f, io), io->name, flags, FILE_MODE);
    } while (fd < 0 && (errno == EINTR || (errno == ENOENT && (flags & O_CREAT) != 0 &&
                                           in_folder(io->name) && make_folder(f))));
    if (fd < 0) {
        return tr_errno_code(errno);
    }
    if ((io->flags & TR_IO_LOCK) != 0 && flock(fd, (look ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK ? TARRY_ELOCKED : tr_errno_code(errno);
        goto fail;
    }
    status = add_name(f, fd, io->name);
    if (status != TARRY_OK) {
        goto fail;
    }
    io->file = fd;
    return TARRY_OK;
fail:
    close(fd);
    return status;
}

static int do_close(struct tr_files_linux *f, const struct tr_io *io)
{
    remove_name(f, io->file);
    /* On Linux the descriptor is gone whatever close says, and late errors were the sync's. */
    close(io->file);
    return TARRY_OK;
}

static int do_read(struct tr_io *io)
{
    size_t got;
    int status = read_all(io->file, io->off, io->buf, (size_t)io->len, &got);

    io->got = got;
    return status == TARRY_EINVAL ? TARRY_EIO : status;
}

/* The same file once more, with O_DIRECT; negative: this file system or this file cannot. */
static int open_direct(struct tr_files_linux *f, int file)
{
    char name[TR_IO_NAME_MAX];
    struct stat ours;
    struct stat other;
    int fd;

    find_name(f, file, name);
    fd = openat(f->dir, name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fstat(file, &ours) != 0 || fstat(fd, &other) != 0 || ours.st_ino != other.st_ino ||
        ours.st_dev != other.st_dev) {
        close(fd); /* its name was removed, and perhaps given to another file */
        return -1;
    }
    return fd;
}

/* Through an aligned buffer, piece by piece. TARRY_EINVAL: this file system cannot. */
static int read_bounced(int fd, struct tr_io *io)
{
    uint64_t end = io->off + io->len;
    uint64_t at = io->off / ALIGN * ALIGN;
    void *bounce = NULL;
    int status = TARRY_OK;

    if (posix_memalign(&bounce, ALIGN, BOUNCE_BYTES) != 0) {
        return TARRY_EFULL;
    }
    while (at < end && status == TARRY_OK) {
        uint64_t want = (end - at + ALIGN - 1) / ALIGN * ALIGN;
        size_t part = want < BOUNCE_BYTES ? (size_t)want : BOUNCE_BYTES;
        size_t skip = at < io->off ? (size_t)(io->off - at) : 0;
        ssize_t n = pread(fd, bounce, part, (off_t)at);

        if (n < 0 && errno != EINTR) {
            status = errno == EINVAL ? TARRY_EINVAL : tr_errno_code(errno);
        }
        if (n > (ssize_t)skip) {
            size_t use = (size_t)n - skip;

            use = use < io->len - io->got ? use : (size_t)(io->len - io->got);
            memcpy((char *)io->buf + io->got, (char *)bounce + skip, use);
            io->got += use;
        }
        if (n == 0 || n % ALIGN > 0) {
            break; /* the end of the file */
        }
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(bounce);
    return status;
}

static int do_read_direct(struct tr_files_linux *f, struct tr_io *io)
{
    int status = TARRY_EINVAL;
    int fd = open_direct(f, io->file);

    if (fd >= 0) {
        status = read_bounced(fd, io);
        close(fd);
    }
    if (status != TARRY_EINVAL) {
        return status;
    }
    io->got = 0;
    status = f->read_only ? TARRY_OK : sync_file(io->file);
    if (status != TARRY_OK) {
        return status;
    }
    (void)posix_fadvise(io->file, 0, 0, POSIX_FADV_DONTNEED); /* on tmpfs there is no other copy */
    return do_read(io);
}

static int do_write(struct tr_io *io)
{
    struct iovec iov[TR_IO_PIECES_MAX];
    uint64_t sum = 0;
    int status;

    TR_CHECK(io->piece_count <= TR_IO_PIECES_MAX);
    for (unsigned i = 0; i < io->piece_count; i++) {
        iov[i].iov_base = (void *)(uintptr_t)io->pieces[i].at;
        iov[i].iov_len = io->pieces[i].len;
        sum += io->pieces[i].len;
    }
    TR_CHECK(sum == io->len);
    status = write_all(io->file, io->off, iov, (int)io->piece_count, &io->got);
    if (status == TARRY_OK && (io->flags & TR_IO_THEN_SYNC) != 0) {
        status = sync_file(io->file);
    }
    return status;
}

static int do_allocate(const struct tr_io *io)
{
    struct stat st;
    int err;

    do {
        err = fallocate(io->file, 0, 0, (off_t)io->len) != 0 ? errno : 0;
    } while (err == EINTR);
    if (err == 0) {
        return TARRY_OK;
    }
    if (err != EOPNOTSUPP && err != ENOSYS) {
        return tr_errno_code(err);
    }
    /* What is before the end was written by us, without holes. */
    if (fstat(io->file, &st) != 0) {
        return tr_errno_code(errno);
    }
    return write_zeros(io->file, (uint64_t)st.st_size, io->len);
}

static int do_unlink(const struct tr_files_linux *f, const struct tr_io *io)
{
    check_name(io->name);
    if (unlinkat(dir_of(f, io), io->name, 0) != 0 && errno != ENOENT) {
        return tr_errno_code(errno);
    }
    return TARRY_OK;
}

static int do_dirsync(const struct tr_files_linux *f, const struct tr_io *io)
{
    int status;

    do {
        status = fsync(dir_of(f, io));
    } while (status != 0 && errno == EINTR);
    return status == 0 ? TARRY_OK : tr_errno_code(errno);
}

/* ---- the folder aside ---- */

/* Makes the name of dir in its parent durable. */
static int sync_parent(const char *dir)
{
    char path[PATH_MAX];
    size_t len = strlen(dir);
    int status;
    int fd;

    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    while (len > 0 && dir[len - 1] != '/') {
        len--;
    }
    if (len >= sizeof path) {
        return TARRY_EIO;
    }
    memcpy(path, len == 0 ? "." : dir, len == 0 ? 1 : len);
    path[len == 0 ? 1 : len] = 0;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return tr_errno_code(errno);
    }
    status = fsync(fd) == 0 ? TARRY_OK : tr_errno_code(errno);
    close(fd);
    return status;
}

static int do_folder(struct tr_files_linux *f, const char *path)
{
    bool made;
    int status;

    if (f->aside >= 0) {
        close(f->aside);
        f->aside = -1;
    }
    if (path == NULL) {
        return TARRY_OK;
    }
    made = mkdir(path, DIR_MODE) == 0;
    if (!made && errno != EEXIST) {
        return tr_errno_code(errno);
    }
    status = sync_parent(path);
    if (made && status != TARRY_OK) {
        return status;
    }
    f->aside = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->aside >= 0 ? TARRY_OK : tr_errno_code(errno);
}

static int do_link(const struct tr_files_linux *f, const struct tr_io *io)
{
    check_name(io->name);
    TR_CHECK(f->aside >= 0);
    if (linkat(f->dir, io->name, f->aside, io->name, 0) == 0) {
        return TARRY_OK;
    }
    switch (errno) {
    case EXDEV: /* another file system */
    case EMLINK:
    case EPERM: /* one that has no links */
    case EOPNOTSUPP:
        return TARRY_EUNSUPPORTED;
    default:
        return tr_errno_code(errno);
    }
}

/* ---- LIST ---- */

struct names {
    char (*rows)[TR_IO_NAME_MAX];
    size_t count;
    size_t room;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_regular(int dir, const struct dirent *e)
{
    struct stat st;

    if (e->d_type != DT_UNKNOWN) {
        return e->d_type == DT_REG;
    }
    return fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static int keep_name(struct names *n, const char *name)
{
    size_t len = strlen(name) + 1;

    if (len > TR_IO_NAME_MAX) {
        return TARRY_OK; /* not one of ours: we could not even open it */
    }
    if (n->count == n->room) {
        size_t room = n->room * 2 + 64;
        void *rows = realloc(n->rows, room * sizeof *n->rows);

        if (rows == NULL) {
            return TARRY_EFULL;
        }
        n->rows = rows;
        n->room = room;
    }
    memcpy(n->rows[n->count++], name, len);
    return TARRY_OK;
}

static int read_names(int dir, struct names *n)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    int status = TARRY_OK;

    if (stream == NULL) {
        status = tr_errno_code(errno);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    while (status == TARRY_OK) {
        const struct dirent *e;

        errno = 0;
        e = readdir(stream);
        if (e == NULL) {
            status = errno != 0 ? tr_errno_code(errno) : TARRY_OK;
            break;
        }
        if (is_regular(dir, e)) {
            status = keep_name(n, e->d_name);
        }
    }
    closedir(stream);
    return status;
}

static int do_list(const struct tr_files_linux *f, struct tr_io *io)
{
    struct names n = {0};
    int status = read_names(dir_of(f, io), &n);

    if (n.count > 1) {
        qsort(n.rows, n.count, sizeof *n.rows, compare_names);
    }
    for (size_t i = 0; i < n.count && status == TARRY_OK; i++) {
        size_t len = strlen(n.rows[i]) + 1;

        if (io->got + len > io->len) {
            status = TARRY_EFULL;
        } else {
            memcpy((char *)io->buf + io->got, n.rows[i], len);
            io->got += len;
        }
    }
    free(n.rows);
    return status;
}

/* What is kept back for the administrator is not ours. */
static int do_space(const struct tr_files_linux *f, struct tr_io *io)
{
    struct statvfs is;

    if (fstatvfs(f->dir, &is) != 0) {
        return tr_errno_code(errno);
    }
    io->got = (uint64_t)is.f_bavail * is.f_frsize;
    return TARRY_OK;
}

static int do_request(struct tr_files_linux *f, struct tr_io *io)
{
    switch (io->op) {
    case TR_IO_OPEN:
        return do_open(f, io);
    case TR_IO_CLOSE:
        return do_close(f, io);
    case TR_IO_READ:
        return do_read(io);
    case TR_IO_READ_DIRECT:
        return do_read_direct(f, io);
    case TR_IO_WRITE:
        return do_write(io);
    case TR_IO_SYNC:
        return f->read_only ? TARRY_OK : sync_file(io->file);
    case TR_IO_ALLOCATE:
        return do_allocate(io);
    case TR_IO_ZERO:
        return write_zeros(io->file, io->off, io->off + io->len);
    case TR_IO_UNLINK:
        return do_unlink(f, io);
    case TR_IO_LIST:
        return do_list(f, io);
    case TR_IO_DIRSYNC:
        return do_dirsync(f, io);
    case TR_IO_FOLDER:
        return do_folder(f, io->buf);
    case TR_IO_LINK:
        return do_link(f, io);
    case TR_IO_CALL:
        io->call(io->buf);
        return TARRY_OK;
    case TR_IO_SPACE:
        return do_space(f, io);
    default:
        tr_check_failed("an op that port/disk.h knows", __FILE__, __LINE__);
    }
}

bool tr_files_linux_read_cached(struct tr_io *io)
{
    struct iovec iov = {.iov_base = io->buf, .iov_len = io->len};
    ssize_t n = preadv2(io->file, &iov, 1, (off_t)io->off, RWF_NOWAIT);

    if (n < 0 || (uint64_t)n != io->len) {
        return false;
    }
    io->got = io->len;
    io->status = TARRY_OK;
    return true;
}

/* Nothing is left to the rights of the files: a store that is only looked at stays as it is. */
static bool changes(const struct tr_io *io)
{
    return io->op == TR_IO_WRITE || io->op == TR_IO_ALLOCATE || io->op == TR_IO_ZERO ||
           io->op == TR_IO_UNLINK || io->op == TR_IO_DIRSYNC || io->op == TR_IO_FOLDER ||
           io->op == TR_IO_LINK;
}

void tr_files_linux_do(struct tr_files_linux *f, struct tr_io *io)
{
    io->got = 0;
    io->status = f->read_only && changes(io) ? TARRY_EREADONLY : do_request(f, io);
}

/* ---- the directory ---- */

static int open_dir(struct tr_files_linux *f, const char *dir)
{
    int err;

    f->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0) {
        return tr_errno_code(errno);
    }
    err = pthread_mutex_init(&f->lock, NULL);
    TR_CHECK(err == 0);
    return TARRY_OK;
}

int tr_files_linux_init(struct tr_files_linux *f, const char *dir)
{
    bool made = mkdir(dir, DIR_MODE) == 0;
    int status;

    memset(f, 0, sizeof *f);
    f->dir = -1;
    f->aside = -1;
    if (!made && errno != EEXIST) {
        return tr_errno_code(errno);
    }
    /* Also when it was there: the process that made it may have been killed before its sync. */
    status = sync_parent(dir);
    if (made && status != TARRY_OK) {
        return status;
    }
    return open_dir(f, dir);
}

int tr_files_linux_look(struct tr_files_linux *f, const char *dir)
{
    memset(f, 0, sizeof *f);
    f->aside = -1;
    f->read_only = true;
    return open_dir(f, dir);
}

void tr_files_linux_fini(struct tr_files_linux *f)
{
    for (int fd = 0; fd < f->names_room; fd++) {
        if (f->names[fd][0] != 0) {
            close(fd);
        }
    }
    free(f->names);
    close(f->dir);
    if (f->aside >= 0) {
        close(f->aside);
    }
    pthread_mutex_destroy(&f->lock);
    memset(f, 0, sizeof *f);
    f->dir = -1;
}
