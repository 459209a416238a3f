/*
 * DIR/quarantine/<when>/report.txt        what was found, a line each
 *                      /<file>.<offset>   the bytes that were there
 *
 * Each repair has a folder of its own, named by the moment. Places that lie in others are copied
 * once. All of it is synced before anything of the store is written.
 */

#include "cli/quarantine.h"

#include "base/err.h"
#include "base/text.h"
#include "cli/report.h"
#include "os/clock_linux.h"
#include "os/errno_linux.h"
#include "rules/moment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16, DIR_MODE = 0700, FILE_MODE = 0600 };

void tr_quarantine_init(struct tr_quarantine *q, const char *dir)
{
    *q = (struct tr_quarantine){.dir = dir};
}

void tr_quarantine_fini(struct tr_quarantine *q)
{
    free(q->kept);
    free(q->report);
}

static void add_line(struct tr_quarantine *q, const struct tr_finding *f)
{
    struct tr_report r;
    char *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);
    char *more;

    if (out == NULL) {
        q->failed = TARRY_ENOMEM;
        return;
    }
    tr_report_init(&r, out, false);
    tr_report_found(&r, f);
    tr_report_fini(&r);
    (void)fclose(out);
    more = realloc(q->report, q->report_len + len + 1);
    if (more == NULL) {
        q->failed = TARRY_ENOMEM;
    } else {
        memcpy(more + q->report_len, line, len);
        q->report = more;
        q->report_len += len;
    }
    free(line);
}

void tr_quarantine_add(struct tr_quarantine *q, const struct tr_finding *f)
{
    add_line(q, f);
    if (f->len == 0 || f->file[0] == '\0') {
        return;
    }
    for (size_t i = 0; i < q->count; i++) {
        const struct tr_kept *k = &q->kept[i];

        if (strcmp(k->file, f->file) == 0 && k->off <= f->off &&
            f->off + f->len <= k->off + k->len) {
            return;
        }
    }
    if (q->count == q->room) {
        size_t room = 2 * q->room + 16;
        void *kept = realloc(q->kept, room * sizeof *q->kept);

        if (kept == NULL) {
            q->failed = TARRY_ENOMEM;
            return;
        }
        q->kept = kept;
        q->room = room;
    }
    q->kept[q->count] = (struct tr_kept){.off = f->off, .len = f->len};
    memcpy(q->kept[q->count++].file, f->file, sizeof f->file);
}

static int make_dir(const char *path)
{
    return mkdir(path, DIR_MODE) == 0 || errno == EEXIST ? TARRY_OK : tr_errno_code(errno);
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno != EINTR) {
            return tr_errno_code(errno);
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return TARRY_OK;
}

/* A file of the folder; it is synced by end_file. */
static int make_file(const struct tr_quarantine *q, const char *name)
{
    char path[TR_QUARANTINE_PATH + TR_IO_NAME_MAX + 32];

    tr_text(path, sizeof path, "%s/%s", q->path, name);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
}

static int end_file(int fd, int err)
{
    if (err == TARRY_OK && fsync(fd) != 0) {
        err = tr_errno_code(errno);
    }
    close(fd);
    return err;
}

/* What the disk does not give is left out: there is nothing to keep. */
static int copy(const struct tr_quarantine *q, const struct tr_kept *k)
{
    char path[TR_QUARANTINE_PATH + TR_IO_NAME_MAX];
    char name[TR_IO_NAME_MAX + 32];
    char bytes[PIECE];
    int from;
    int to;
    int err = TARRY_OK;

    tr_text(path, sizeof path, "%s/%s", q->dir, k->file);
    tr_text(name, sizeof name, "%s.%" PRIu64, k->file, k->off);
    from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0) {
        return TARRY_OK;
    }
    to = make_file(q, name);
    if (to < 0) {
        err = tr_errno_code(errno);
        close(from);
        return err;
    }
    for (uint64_t at = 0; at < k->len && err == TARRY_OK;) {
        size_t want = k->len - at < PIECE ? (size_t)(k->len - at) : PIECE;
        ssize_t n = pread(from, bytes, want, (off_t)(k->off + at));

        if (n == 0) {
            break;
        }
        err = n > 0 ? write_all(to, bytes, (size_t)n) : TARRY_OK;
        at += n > 0 ? (uint64_t)n : want;
    }
    close(from);
    return end_file(to, err);
}

static int sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 ? end_file(fd, TARRY_OK) : tr_errno_code(errno);
}

int tr_quarantine_write(struct tr_quarantine *q)
{
    char top[TR_QUARANTINE_PATH];
    char now[TR_MOMENT_TEXT];
    int err = q->failed;
    int fd;

    (void)tr_moment_print(now, (int64_t)tr_clock_linux_now().wall_us);
    tr_text(top, sizeof top, "%s/quarantine", q->dir);
    tr_text(q->path, sizeof q->path, "%.*s/%s", (int)sizeof q->path - TR_MOMENT_TEXT - 2, top, now);
    if (err == TARRY_OK) {
        err = make_dir(top);
    }
    if (err == TARRY_OK) {
        err = make_dir(q->path);
    }
    for (size_t i = 0; i < q->count && err == TARRY_OK; i++) {
        err = copy(q, &q->kept[i]);
    }
    if (err == TARRY_OK) {
        fd = make_file(q, "report.txt");
        err =
            fd >= 0 ? end_file(fd, write_all(fd, q->report, q->report_len)) : tr_errno_code(errno);
    }
    if (err == TARRY_OK) {
        err = sync_dir(q->path);
    }
    if (err == TARRY_OK) {
        err = sync_dir(top);
    }
    return err == TARRY_OK ? sync_dir(q->dir) : err;
}
