/* System calls about the process itself. */

#include "os/process_linux.h"

#include "base/err.h"
#include "os/errno_linux.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static uint64_t in_us(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

struct tr_process_usage tr_process_usage(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return (struct tr_process_usage){0};
    }
    return (struct tr_process_usage){.user_us = in_us(usage.ru_utime),
                                     .system_us = in_us(usage.ru_stime)};
}

uint64_t tr_process_resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long all = 0;
    unsigned long long resident = 0;
    bool good = f != NULL && fscanf(f, "%llu %llu", &all, &resident) == 2;

    if (f != NULL) {
        (void)fclose(f);
    }
    return good ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

bool tr_process_disk_free(const char *path, uint64_t *bytes)
{
    struct statvfs info;

    if (statvfs(path, &info) != 0) {
        return false;
    }
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return true;
}

uint64_t tr_process_id(void)
{
    return (uint64_t)getpid();
}

/*
 * Left to itself, glibc gathers small pieces and joins them all at once (up to 30 ms on the loop
 * thread with a million jobs), and gives memory back to the kernel in the midst of work, only to
 * ask for it again. Pieces are joined when they are freed instead, and what is freed is kept, up to
 * a limit.
 */
void tr_process_tune_memory(void)
{
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_MMAP_THRESHOLD, 16 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

void tr_process_trim_memory(void)
{
    (void)malloc_trim(0);
}

/* The number that is all of a file's first line; UINT64_MAX: there is none ("max", no file). */
static uint64_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t number = UINT64_MAX;
    char line[32];

    if (file != NULL) {
        if (fgets(line, sizeof line, file) != NULL && line[0] >= '0' && line[0] <= '9') {
            number = strtoull(line, NULL, 10);
        }
        (void)fclose(file);
    }
    return number;
}

/* The least limit of our control group and those above it; `group` is "/a/b", and is cut short. */
static uint64_t group_limit(char *group)
{
    uint64_t least = read_limit("/sys/fs/cgroup/memory.max");
    char *end = group + strlen(group);

    while (end > group) {
        char path[PATH_MAX];
        uint64_t limit;

        if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group) < PATH_MAX) {
            limit = read_limit(path);
            least = limit < least ? limit : least;
        }
        *end = '\0';
        end = strrchr(group, '/');
        end = end != NULL ? end : group;
        *end = '\0';
    }
    return least;
}

uint64_t tr_process_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    uint64_t limit = read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"); /* version 1 */
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX];

    least = limit < least ? limit : least;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) { /* version 2 */
            line[strcspn(line, "\n")] = '\0';
            limit = group_limit(line + 3);
            least = limit < least ? limit : least;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return least != UINT64_MAX ? least : 0;
}

uint64_t tr_process_raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1024; /* what a process has nearly everywhere */
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}

static void copy_name(char out[65], const char *name)
{
    size_t len = strnlen(name, 64);

    for (size_t i = 0; i < len; i++) {
        bool plain = name[i] >= ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\\';

        out[i] = '?';
        if (plain) {
            out[i] = name[i];
        }
    }
    out[len] = '\0';
}

struct tr_process_names tr_process_names(void)
{
    struct tr_process_names names = {.host = "?", .os = "?", .platform = "?"};
    struct utsname uts;

    if (uname(&uts) == 0) {
        copy_name(names.host, uts.nodename);
        copy_name(names.os, uts.version);
        copy_name(names.platform, uts.machine);
    }
    return names;
}

int tr_process_become(const char *user)
{
    const struct passwd *who;

    errno = 0;
    who = getpwnam(user);
    if (who == NULL) {
        return TARRY_ENOTFOUND;
    }
    if (who->pw_uid == geteuid()) {
        return TARRY_OK;
    }
    if (initgroups(user, who->pw_gid) != 0 || setgid(who->pw_gid) != 0 ||
        setuid(who->pw_uid) != 0) {
        return TARRY_EPERM;
    }
    return TARRY_OK;
}

int tr_process_temp_dir(char *path, size_t room)
{
    const char *top = getenv("TMPDIR");
    int len =
        snprintf(path, room, "%s/tarry-temp-XXXXXX", top != NULL && *top != '\0' ? top : "/tmp");

    if (len < 0 || (size_t)len >= room) {
        return TARRY_EINVAL;
    }
    return mkdtemp(path) != NULL ? TARRY_OK : tr_errno_code(errno);
}

void tr_process_remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
    (void)rmdir(path);
}
