/*
 * The real disk in a folder of its own, and the other two system sources, clock and random.
 *
 * Nothing waits for time: a test sleeps in a semaphore until wake has been called.
 */

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/disk_linux.h"
#include "os/random_linux.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char top[64];  /* made by mkdtemp */
    char dir[128]; /* in it, made by the disk */
    struct tr_disk_linux *disk;
    sem_t woken;
};

static void on_wake(void *ctx)
{
    struct fixture *f = ctx;

    (void)sem_post(&f->woken);
}

static void set_up(struct fixture *f, const char *where)
{
    memset(f, 0, sizeof *f);
    (void)snprintf(f->top, sizeof f->top, "%s/tarry-test-XXXXXX", where);
    assert_non_null(mkdtemp(f->top));
    (void)snprintf(f->dir, sizeof f->dir, "%s/store", f->top);
    assert_int_equal(sem_init(&f->woken, 0, 0), 0);
    assert_int_equal(tr_disk_linux_open(&f->disk, f->dir, on_wake, f), TARRY_OK);
}

static void tear_down(struct fixture *f)
{
    DIR *dir;

    tr_disk_linux_close(f->disk);
    dir = opendir(f->dir);
    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        (void)unlinkat(dirfd(dir), e->d_name, 0);
        (void)unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    (void)closedir(dir);
    assert_int_equal(rmdir(f->dir), 0);
    assert_int_equal(rmdir(f->top), 0);
    (void)sem_destroy(&f->woken);
}

static int run(struct fixture *f, struct tr_io *io)
{
    struct tr_disk port = tr_disk_linux_port(f->disk);

    return port.ops->run(port.ctx, io);
}

static void submit(struct fixture *f, struct tr_io *io)
{
    struct tr_disk port = tr_disk_linux_port(f->disk);

    port.ops->submit(port.ctx, io);
}

static struct tr_io *wait_done(struct fixture *f)
{
    while (sem_wait(&f->woken) != 0) {
    }
    return tr_disk_linux_take_done(f->disk);
}

static struct tr_io named(enum tr_io_op op, const char *name, unsigned flags)
{
    struct tr_io io = {.op = op, .flags = flags, .file = -1};

    memcpy(io.name, name, strlen(name));
    return io;
}

static int open_file(struct fixture *f, const char *name)
{
    struct tr_io io = named(TR_IO_OPEN, name, TR_IO_CREATE);

    assert_int_equal(run(f, &io), TARRY_OK);
    assert_true(io.file >= 0);
    return io.file;
}

static int op(struct fixture *f, enum tr_io_op what, int file, uint64_t off, uint64_t len)
{
    struct tr_io io = {.op = what, .file = file, .off = off, .len = len};

    return run(f, &io);
}

static int write_text(struct fixture *f, int file, uint64_t off, const char *text)
{
    struct tr_piece pieces[3] = {{text, 1}, {text, 0}, {text + 1, strlen(text) - 1}};
    struct tr_io io = {.op = TR_IO_WRITE,
                       .flags = TR_IO_THEN_SYNC,
                       .file = file,
                       .off = off,
                       .len = strlen(text),
                       .pieces = pieces,
                       .piece_count = 3};
    int status = run(f, &io);

    assert_true(status != TARRY_OK || io.got == strlen(text));
    return status;
}

/* Reads len bytes at off, as io.op says, into buf. */
static uint64_t read_at(struct fixture *f, struct tr_io io, uint64_t off, void *buf, uint64_t len)
{
    io.off = off;
    io.len = len;
    io.buf = buf;
    assert_int_equal(run(f, &io), TARRY_OK);
    return io.got;
}

/* ---- cases ---- */

static void check_reads(struct fixture *f, enum tr_io_op how)
{
    static char buf[3 << 20];
    int file = open_file(f, "a");
    struct tr_io from = {.op = how, .file = file};

    assert_int_equal(op(f, TR_IO_ALLOCATE, file, 0, (2 << 20) + 100), TARRY_OK);
    assert_int_equal(write_text(f, file, 4090, "over the border"), TARRY_OK);
    assert_int_equal(write_text(f, file, (2 << 20) + 96, "the end"), TARRY_OK);
    assert_int_equal(read_at(f, from, 4090, buf, 15), 15);
    assert_memory_equal(buf, "over the border", 15);
    /* All of it, through more than one piece, and more than there is. */
    assert_int_equal(read_at(f, from, 1, buf, sizeof buf), (2 << 20) + 102);
    assert_memory_equal(buf + 4089, "over the border", 15);
    assert_memory_equal(buf + (2 << 20) + 95, "the end", 7);
    assert_int_equal(buf[100], 0);
    assert_int_equal(read_at(f, from, (2 << 20) + 103, buf, 10), 0);
    assert_int_equal(read_at(f, from, 100 << 20, buf, 10), 0);
    assert_int_equal(read_at(f, from, (2 << 20) + 100, buf, 4096), 3);
    assert_memory_equal(buf, "end", 3);
    assert_int_equal(read_at(f, from, 5, buf, 0), 0);
    /* A removed file can still be read. */
    {
        struct tr_io gone = named(TR_IO_UNLINK, "a", 0);

        assert_int_equal(run(f, &gone), TARRY_OK);
    }
    assert_int_equal(read_at(f, from, 4090, buf, 15), 15);
    assert_memory_equal(buf, "over the border", 15);
    assert_int_equal(op(f, TR_IO_CLOSE, file, 0, 0), TARRY_OK);
}

static void test_disk_linux_reads(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, "/tmp");
    check_reads(&f, TR_IO_READ);
    check_reads(&f, TR_IO_READ_DIRECT);
    tear_down(&f);
}

static void test_disk_linux_reads_direct_where_refused(void **state)
{
    struct fixture f;

    (void)state;
    if (access("/dev/shm", W_OK) != 0) {
        skip();
    }
    set_up(&f, "/dev/shm");
    check_reads(&f, TR_IO_READ_DIRECT);
    tear_down(&f);
}

static void test_disk_linux_names(void **state)
{
    struct fixture f;
    struct tr_io absent = named(TR_IO_OPEN, "nothing", 0);
    struct tr_io gone = named(TR_IO_UNLINK, "b", 0);
    char names[16];
    struct tr_io list = {.op = TR_IO_LIST, .buf = names, .len = sizeof names};
    char path[160];
    int file;

    (void)state;
    set_up(&f, "/tmp");
    assert_int_equal(run(&f, &absent), TARRY_ENOTFOUND);
    assert_int_equal(run(&f, &list), TARRY_OK);
    assert_int_equal(list.got, 0);
    (void)open_file(&f, "c");
    file = open_file(&f, "b");
    (void)open_file(&f, "a");
    assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    (void)snprintf(path, sizeof path, "%s/quarantine", f.dir); /* not a file: not listed */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(run(&f, &list), TARRY_OK);
    assert_int_equal(list.got, 6);
    assert_memory_equal(names, "a\0b\0c", 6);
    list.len = 5;
    assert_int_equal(run(&f, &list), TARRY_EFULL);
    list.len = sizeof names;
    assert_int_equal(run(&f, &gone), TARRY_OK);
    assert_int_equal(run(&f, &gone), TARRY_OK);
    assert_int_equal(op(&f, TR_IO_DIRSYNC, -1, 0, 0), TARRY_OK);
    assert_int_equal(run(&f, &list), TARRY_OK);
    assert_int_equal(list.got, 4);
    assert_memory_equal(names, "a\0c", 4);
    tear_down(&f);
}

/* What LIST gives, all names behind each other. */
static void check_list(struct fixture *f, unsigned flags, const char *want, size_t len)
{
    char names[256];
    struct tr_io io = {.op = TR_IO_LIST, .flags = flags, .buf = names, .len = sizeof names};

    assert_int_equal(run(f, &io), TARRY_OK);
    assert_int_equal(io.got, len);
    assert_memory_equal(names, want, len);
}

static void test_disk_linux_folder_aside(void **state)
{
    struct fixture f;
    struct tr_io io;
    struct stat a;
    struct stat b;
    char path[160];
    char same[200];
    int file;

    (void)state;
    set_up(&f, "/tmp");
    file = open_file(&f, "run");
    assert_int_equal(write_text(&f, file, 0, "linked"), TARRY_OK);
    (void)snprintf(path, sizeof path, "%s/copy", f.top);
    io = (struct tr_io){.op = TR_IO_FOLDER, .buf = path};
    assert_int_equal(run(&f, &io), TARRY_OK);
    check_list(&f, TR_IO_ASIDE, "", 0);
    io = named(TR_IO_LINK, "run", TR_IO_ASIDE);
    assert_int_equal(run(&f, &io), TARRY_OK);
    io = named(TR_IO_OPEN, "new", TR_IO_CREATE | TR_IO_ASIDE);
    assert_int_equal(run(&f, &io), TARRY_OK);
    assert_int_equal(write_text(&f, io.file, 0, "aside"), TARRY_OK);
    assert_int_equal(op(&f, TR_IO_CLOSE, io.file, 0, 0), TARRY_OK);
    io = (struct tr_io){.op = TR_IO_DIRSYNC, .flags = TR_IO_ASIDE};
    assert_int_equal(run(&f, &io), TARRY_OK);
    check_list(&f, TR_IO_ASIDE, "new\0run", 8);
    check_list(&f, 0, "run", 4);
    assert_int_equal(fstat(file, &a), 0);
    (void)snprintf(same, sizeof same, "%s/run", path);
    assert_int_equal(stat(same, &b), 0);
    assert_true(a.st_ino == b.st_ino);
    for (unsigned i = 0; i < 2; i++) {
        io = named(TR_IO_UNLINK, i == 0 ? "new" : "run", TR_IO_ASIDE);
        assert_int_equal(run(&f, &io), TARRY_OK);
    }
    check_list(&f, TR_IO_ASIDE, "", 0);
    check_list(&f, 0, "run", 4);
    io = (struct tr_io){.op = TR_IO_FOLDER};
    assert_int_equal(run(&f, &io), TARRY_OK);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof path, "%s/no/copy", f.top);
    io = (struct tr_io){.op = TR_IO_FOLDER, .buf = path};
    assert_int_equal(run(&f, &io), TARRY_ENOTFOUND);
    tear_down(&f);
}

static void test_disk_linux_no_link_to_another_disk(void **state)
{
    struct fixture f;
    struct stat here;
    struct stat there;
    char path[] = "/dev/shm/tarry-test-XXXXXX";
    struct tr_io io;

    (void)state;
    set_up(&f, "/tmp");
    (void)open_file(&f, "run");
    if (mkdtemp(path) != NULL) {
        assert_int_equal(stat(path, &there), 0);
        assert_int_equal(stat(f.dir, &here), 0);
        io = (struct tr_io){.op = TR_IO_FOLDER, .buf = path};
        assert_int_equal(run(&f, &io), TARRY_OK);
        io = named(TR_IO_LINK, "run", TR_IO_ASIDE);
        assert_int_equal(run(&f, &io), here.st_dev == there.st_dev ? TARRY_OK : TARRY_EUNSUPPORTED);
        io = named(TR_IO_UNLINK, "run", TR_IO_ASIDE);
        assert_int_equal(run(&f, &io), TARRY_OK);
        assert_int_equal(rmdir(path), 0);
    }
    tear_down(&f);
}

static void test_disk_linux_zero_and_allocate(void **state)
{
    struct fixture f;
    struct stat st;
    char text[] = "0123456789";
    char *big = malloc(3 << 20);
    int file;

    (void)state;
    assert_non_null(big);
    set_up(&f, "/tmp");
    file = open_file(&f, "a");
    assert_int_equal(write_text(&f, file, 0, text), TARRY_OK);
    assert_int_equal(op(&f, TR_IO_ZERO, file, 2, 3), TARRY_OK);
    assert_int_equal(read_at(&f, (struct tr_io){.op = TR_IO_READ, .file = file}, 0, text, 10), 10);
    assert_memory_equal(text,
                        "01\0\0\0"
                        "56789",
                        10);
    assert_int_equal(op(&f, TR_IO_ZERO, file, 5, 3 << 20), TARRY_OK);
    assert_int_equal(read_at(&f, (struct tr_io){.op = TR_IO_READ, .file = file}, 5, big, 3 << 20),
                     3 << 20);
    for (int i = 0; i < 3 << 20; i++) {
        assert_int_equal(big[i], 0);
    }
    assert_int_equal(op(&f, TR_IO_SYNC, file, 0, 0), TARRY_OK);
    assert_int_equal(op(&f, TR_IO_ALLOCATE, file, 0, 4 << 20), TARRY_OK);
    assert_int_equal(op(&f, TR_IO_ALLOCATE, file, 0, 4096), TARRY_OK); /* never shrinks */
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 4 << 20);
    assert_true(st.st_blocks * 512 >= 4 << 20);
    tear_down(&f);
    free(big);
}

static void test_disk_linux_lock_is_exclusive(void **state)
{
    struct fixture f;
    struct tr_disk_linux *other;
    struct tr_disk port;
    struct tr_io lock = named(TR_IO_OPEN, "lock", TR_IO_CREATE | TR_IO_LOCK);
    struct tr_io again = lock;

    (void)state;
    set_up(&f, "/tmp");
    assert_int_equal(tr_disk_linux_open(&other, f.dir, on_wake, &f), TARRY_OK);
    port = tr_disk_linux_port(other);
    assert_int_equal(run(&f, &lock), TARRY_OK);
    assert_int_equal(port.ops->run(port.ctx, &again), TARRY_ELOCKED);
    assert_int_equal(op(&f, TR_IO_CLOSE, lock.file, 0, 0), TARRY_OK);
    assert_int_equal(port.ops->run(port.ctx, &again), TARRY_OK);
    assert_int_equal(run(&f, &lock), TARRY_ELOCKED);
    tr_disk_linux_close(other); /* also frees the lock */
    assert_int_equal(run(&f, &lock), TARRY_OK);
    tear_down(&f);
}

static void test_disk_linux_open_says_why_not(void **state)
{
    struct fixture f;
    struct tr_disk_linux *d;
    char path[192];

    (void)state;
    set_up(&f, "/tmp");
    (void)snprintf(path, sizeof path, "%s/no/such", f.top);
    assert_int_equal(tr_disk_linux_open(&d, path, on_wake, &f), TARRY_ENOTFOUND);
    assert_null(d);
    (void)open_file(&f, "file");
    (void)snprintf(path, sizeof path, "%s/file", f.dir);
    assert_int_equal(tr_disk_linux_open(&d, path, on_wake, &f), TARRY_ENOTFOUND);
    if (geteuid() != 0) {
        (void)snprintf(path, sizeof path, "%s/other", f.dir);
        assert_int_equal(chmod(f.dir, 0500), 0);
        assert_int_equal(tr_disk_linux_open(&d, path, on_wake, &f), TARRY_EPERM);
        assert_int_equal(chmod(f.dir, 0700), 0);
    }
    tr_disk_linux_close(NULL);
    tear_down(&f);
}

/* A file system of 1 MiB in a name space of its own; false when this machine does not let us. */
static bool mount_small(const char *dir)
{
    char map[64];
    uid_t uid = geteuid();
    int fd;

    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            return false;
        }
        (void)snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
        fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, map, strlen(map)) < 0) {
            return false;
        }
        (void)close(fd);
    }
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tarry", dir, "tmpfs", 0, "size=1m") == 0;
}

/* The exit code of the child: 0 right, 1 wrong, 2 skip. */
static int check_full_disk(struct fixture *f)
{
    static char big[2 << 20];
    struct tr_piece piece = {big, sizeof big};
    struct tr_io write_big = {
        .op = TR_IO_WRITE, .len = sizeof big, .pieces = &piece, .piece_count = 1};
    struct tr_io make = named(TR_IO_OPEN, "a", TR_IO_CREATE);

    if (!mount_small(f->top)) {
        return 2;
    }
    if (tr_disk_linux_open(&f->disk, f->dir, on_wake, f) != TARRY_OK || run(f, &make) != TARRY_OK) {
        return 1;
    }
    write_big.file = make.file;
    if (op(f, TR_IO_ALLOCATE, make.file, 0, 2 << 20) != TARRY_ENOSPC ||
        op(f, TR_IO_ALLOCATE, make.file, 0, 512 << 10) != TARRY_OK ||
        run(f, &write_big) != TARRY_ENOSPC ||
        op(f, TR_IO_ZERO, make.file, 0, 2 << 20) != TARRY_ENOSPC ||
        op(f, TR_IO_ZERO, make.file, 0, 512 << 10) != TARRY_OK) {
        return 1;
    }
    tr_disk_linux_close(f->disk);
    return 0;
}

static void test_disk_linux_full_disk(void **state)
{
    struct fixture f = {.top = "/tmp/tarry-test-XXXXXX"};
    int status;
    pid_t child;

    (void)state;
    assert_non_null(mkdtemp(f.top));
    (void)snprintf(f.dir, sizeof f.dir, "%s/store", f.top);
    assert_int_equal(sem_init(&f.woken, 0, 0), 0);
    child = fork();
    if (child == 0) {
        _exit(check_full_disk(&f));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(f.top), 0); /* the mount ended with the child */
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_disk_linux_wakes_once_for_many(void **state)
{
    struct fixture f;
    struct tr_io io[3] = {0};
    unsigned seen = 0;
    int left = 0;

    (void)state;
    set_up(&f, "/tmp");
    assert_null(tr_disk_linux_take_done(f.disk));
    for (unsigned i = 0; i < 3; i++) {
        io[i] = (struct tr_io){.op = TR_IO_DIRSYNC, .lane = (enum tr_lane)i};
        submit(&f, &io[i]);
    }
    while (seen < 3) {
        for (struct tr_io *done = wait_done(&f); done != NULL; done = done->next) {
            assert_int_equal(done->status, TARRY_OK);
            seen++;
        }
    }
    assert_null(tr_disk_linux_take_done(f.disk));
    assert_int_equal(sem_getvalue(&f.woken, &left), 0);
    assert_int_equal(left, 0);
    tear_down(&f);
}

enum { BURST = 1000, BLOCK = 4096 };

struct burst {
    struct tr_io writes[BURST];
    struct tr_io reads[BURST];
    struct tr_piece pieces[BURST];
    uint8_t out[BURST][BLOCK];
    uint8_t in[BURST][BLOCK];
};

static void start_burst(struct fixture *f, struct burst *b, const int files[4])
{
    for (unsigned i = 0; i < BURST; i++) {
        for (unsigned k = 0; k < BLOCK; k++) {
            b->out[i][k] = (uint8_t)(i * 31 + k * 7 + (i >> 8));
        }
        b->pieces[i] = (struct tr_piece){b->out[i], BLOCK};
        b->writes[i] = (struct tr_io){
            .op = TR_IO_WRITE,
            .lane = i % 2 == 0 ? TR_LANE_LOG : TR_LANE_BACK,
            .flags = i % 100 < 2 ? TR_IO_THEN_SYNC : 0,
            .file = files[i % 4],
            .off = (uint64_t)i / 4 * BLOCK,
            .len = BLOCK,
            .pieces = &b->pieces[i],
            .piece_count = 1,
            .tag = (int)i,
        };
        submit(f, &b->writes[i]);
    }
}

/* Every block is read as soon as it is known to be written. */
static void read_back(struct fixture *f, struct burst *b, const struct tr_io *write)
{
    struct tr_io *io = &b->reads[write->tag];

    *io = (struct tr_io){
        .op = write->tag % 50 == 0 ? TR_IO_READ_DIRECT : TR_IO_READ,
        .lane = TR_LANE_READ,
        .file = write->file,
        .off = write->off,
        .len = BLOCK,
        .buf = b->in[write->tag],
        .tag = write->tag,
    };
    submit(f, io);
}

static void test_disk_linux_burst(void **state)
{
    struct burst *b = calloc(1, sizeof *b);
    struct fixture f;
    int files[4];
    int last[TR_LANE_COUNT] = {-1, -1, -1};
    unsigned read = 0;

    (void)state;
    assert_non_null(b);
    set_up(&f, "/tmp");
    for (unsigned i = 0; i < 4; i++) {
        files[i] = open_file(&f, (const char *[]){"a", "b", "c", "d"}[i]);
    }
    start_burst(&f, b, files);
    while (read < BURST) {
        struct tr_io *next;

        for (struct tr_io *io = wait_done(&f); io != NULL; io = next) {
            next = io->next;
            assert_int_equal(io->status, TARRY_OK);
            assert_int_equal(io->got, BLOCK);
            if (io->op == TR_IO_WRITE) {
                assert_true(io->tag > last[io->lane]);
                last[io->lane] = io->tag;
                read_back(&f, b, io);
            } else {
                assert_memory_equal(b->in[io->tag], b->out[io->tag], BLOCK);
                read++;
            }
        }
    }
    tear_down(&f);
    free(b);
}

/* A small write to the log of this file. */
static struct tr_io commit_of(int file, uint64_t off, const struct tr_piece *piece)
{
    return (struct tr_io){.op = TR_IO_WRITE,
                          .lane = TR_LANE_LOG,
                          .flags = TR_IO_THEN_SYNC,
                          .file = file,
                          .off = off,
                          .len = piece->len,
                          .pieces = piece,
                          .piece_count = 1};
}

/* The threads do such writes until they were quick, however slow this disk is at first. */
static struct tr_io *first_held(struct fixture *f, struct tr_io *io)
{
    struct tr_io *held = NULL;

    for (unsigned i = 0; i < 100000 && held == NULL; i++) {
        io->flags = 0; /* into the cache: quick */
        submit(f, io);
        held = tr_disk_linux_help(f->disk);
        if (held == NULL) {
            assert_ptr_equal(wait_done(f), io);
        }
    }
    return held;
}

static void test_disk_linux_loop_thread_helps(void **state)
{
    static const char text[] = "abcdefgh";
    struct tr_piece one = {text, 4};
    struct tr_piece two = {text + 4, 4};
    struct fixture f;
    struct tr_io first;
    struct tr_io second;
    int file;

    (void)state;
    set_up(&f, "/tmp");
    file = open_file(&f, "w");
    first = commit_of(file, 0, &one);
    second = commit_of(file, 4, &two);
    submit(&f, &first); /* nobody has offered help */
    assert_null(tr_disk_linux_help(f.disk));
    assert_ptr_equal(wait_done(&f), &first);

    tr_disk_linux_offer_help(f.disk);
    assert_ptr_equal(first_held(&f, &first), &first);
    assert_int_equal(first.status, TARRY_OK);
    assert_int_equal(first.got, 4);
    assert_null(tr_disk_linux_help(f.disk));
    assert_null(tr_disk_linux_take_done(f.disk));

    submit(&f, &first); /* held: the one behind it takes it along, in order */
    submit(&f, &second);
    assert_null(tr_disk_linux_help(f.disk));
    for (const struct tr_io *io = wait_done(&f), *last = NULL; last != &second;) {
        io = io != NULL ? io : wait_done(&f);
        assert_ptr_equal(io, last == NULL ? &first : &second);
        last = io;
        io = io->next;
    }

    second.len = UINT64_C(1) << 20; /* too large: the thread's */
    second.pieces = &(struct tr_piece){calloc(1, 1 << 20), 1 << 20};
    submit(&f, &second);
    assert_null(tr_disk_linux_help(f.disk));
    assert_ptr_equal(wait_done(&f), &second);
    free((void *)(uintptr_t)second.pieces[0].at);

    submit(&f, &first); /* held at the end */
    tear_down(&f);
    assert_int_equal(first.status, TARRY_OK);
}

/* Written just now, so in the page cache, if the file system can tell: else a thread reads. */
static void test_disk_linux_loop_thread_reads_what_is_cached(void **state)
{
    static const char text[] = "abcdefgh";
    struct tr_piece piece = {text, 8};
    char got[2][9] = {{0}};
    struct fixture f;
    struct tr_io write;
    struct tr_io reads[2];
    struct tr_io *io;
    int file;

    (void)state;
    set_up(&f, "/tmp");
    file = open_file(&f, "w");
    write = commit_of(file, 0, &piece);
    submit(&f, &write);
    assert_ptr_equal(wait_done(&f), &write);
    tr_disk_linux_offer_help(f.disk);
    for (unsigned i = 0; i < 2; i++) {
        reads[i] = (struct tr_io){.op = TR_IO_READ, .lane = TR_LANE_READ, .file = file, .len = 4};
        reads[i].off = i * 4;
        reads[i].buf = got[i];
        submit(&f, &reads[i]);
    }
    io = tr_disk_linux_help(f.disk);
    if (io != NULL) {
        assert_ptr_equal(io, &reads[0]);
        assert_ptr_equal(io->next, &reads[1]);
        assert_null(io->next->next);
        assert_null(tr_disk_linux_help(f.disk));
        assert_null(tr_disk_linux_take_done(f.disk));
        reads[0].off = 6; /* beyond the end of the file: the thread's */
        submit(&f, &reads[0]);
        assert_null(tr_disk_linux_help(f.disk));
        assert_ptr_equal(wait_done(&f), &reads[0]);
        assert_int_equal(reads[0].got, 2);
        assert_memory_equal(got[0], "ghcd", 4);
        assert_memory_equal(got[1], "efgh", 4);
    }
    tear_down(&f);
    assert_int_equal(reads[0].status, TARRY_OK);
    assert_int_equal(reads[1].status, TARRY_OK);
    assert_int_equal(reads[1].got, 4);
}

static void test_disk_linux_close_finishes_what_is_queued(void **state)
{
    struct tr_io io[100] = {0};
    struct fixture f;

    (void)state;
    set_up(&f, "/tmp");
    for (unsigned i = 0; i < 100; i++) {
        io[i] = named(TR_IO_UNLINK, "x", 0);
        io[i].lane = (enum tr_lane)(i % TR_LANE_COUNT);
        io[i].status = TARRY_EIO;
        submit(&f, &io[i]);
    }
    tear_down(&f);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(io[i].status, TARRY_OK);
    }
}

static bool third(void *ctx)
{
    unsigned *asked = ctx;

    return ++*asked > 2;
}

/* From the moment on in which it is asked to give up, nothing is done, whatever it is. */
static void test_disk_linux_gives_up(void **state)
{
    struct fixture f;
    struct tr_disk port;
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE, .name = "a"};
    unsigned asked = 0;

    (void)state;
    set_up(&f, "/tmp");
    port = tr_disk_linux_port(f.disk);
    tr_disk_linux_give_up(f.disk, third, &asked);
    assert_int_equal(port.ops->run(port.ctx, &io), TARRY_OK);
    io = (struct tr_io){.op = TR_IO_CLOSE, .file = io.file};
    assert_int_equal(port.ops->run(port.ctx, &io), TARRY_OK);
    assert_false(tr_disk_linux_gave_up(f.disk));
    for (unsigned i = 0; i < 3; i++) {
        io = (struct tr_io){.op = TR_IO_OPEN, .flags = TR_IO_CREATE, .name = "b"};
        assert_int_equal(port.ops->run(port.ctx, &io), TARRY_ECLOSED);
        assert_true(tr_disk_linux_gave_up(f.disk));
    }
    assert_int_equal(asked, 3); /* it stays so */
    tr_disk_linux_give_up(f.disk, NULL, NULL);
    io = (struct tr_io){.op = TR_IO_OPEN, .name = "b"};
    assert_int_equal(port.ops->run(port.ctx, &io), TARRY_ENOTFOUND);
    tear_down(&f);
}

static void test_clock_linux_goes_on(void **state)
{
    struct tr_now a = tr_clock_linux_now();
    struct tr_now b = tr_clock_linux_now();

    (void)state;
    assert_true(a.wall_us > UINT64_C(1600000000000000));
    assert_true(a.boot_us > 0);
    assert_true(b.boot_us >= a.boot_us);
}

static void test_random_linux_differs(void **state)
{
    uint64_t a = 0;
    uint64_t b = 0;
    uint8_t many[1000] = {0};
    unsigned zeros = 0;

    (void)state;
    assert_int_equal(tr_random_linux_seed(&a), TARRY_OK);
    assert_int_equal(tr_random_linux_seed(&b), TARRY_OK);
    assert_true(a != b);
    assert_int_equal(tr_random_linux_fill(many, sizeof many), TARRY_OK);
    for (unsigned i = 0; i < sizeof many; i++) {
        zeros += many[i] == 0;
    }
    assert_true(zeros < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_linux_full_disk), /* forks: before there are threads */
        cmocka_unit_test(test_disk_linux_reads),
        cmocka_unit_test(test_disk_linux_reads_direct_where_refused),
        cmocka_unit_test(test_disk_linux_names),
        cmocka_unit_test(test_disk_linux_folder_aside),
        cmocka_unit_test(test_disk_linux_no_link_to_another_disk),
        cmocka_unit_test(test_disk_linux_zero_and_allocate),
        cmocka_unit_test(test_disk_linux_lock_is_exclusive),
        cmocka_unit_test(test_disk_linux_open_says_why_not),
        cmocka_unit_test(test_disk_linux_wakes_once_for_many),
        cmocka_unit_test(test_disk_linux_burst),
        cmocka_unit_test(test_disk_linux_loop_thread_helps),
        cmocka_unit_test(test_disk_linux_loop_thread_reads_what_is_cached),
        cmocka_unit_test(test_disk_linux_close_finishes_what_is_queued),
        cmocka_unit_test(test_disk_linux_gives_up),
        cmocka_unit_test(test_clock_linux_goes_on),
        cmocka_unit_test(test_random_linux_differs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
