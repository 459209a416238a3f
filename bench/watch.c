/* Reads /proc; what cannot be read counts as 0. */

#include "bench/watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;

    (void)clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t watch_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t watch_own_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* The number behind `word` (the first one when it is empty) in a small file, or 0. */
static uint64_t number_in(const char *path, const char *word)
{
    char text[4096];
    FILE *f = fopen(path, "re");
    size_t got;
    const char *at;

    if (f == NULL) {
        return 0;
    }
    got = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    text[got] = '\0';
    at = strstr(text, word);
    return at != NULL ? strtoull(at + strlen(word), NULL, 10) : 0;
}

uint64_t watch_cpu_ns(int pid)
{
    char path[320];
    uint64_t sum = 0;
    DIR *dir;
    const struct dirent *entry;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = pid > 0 ? opendir(path) : NULL;
    if (dir == NULL) {
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, entry->d_name);
            sum += number_in(path, "");
        }
    }
    (void)closedir(dir);
    return sum;
}

uint64_t watch_rss_bytes(int pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    return pid > 0 ? number_in(path, "VmRSS:") * 1024 : 0;
}

uint64_t watch_written_bytes(int pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/io", pid);
    return pid > 0 ? number_in(path, "\nwchar:") : 0;
}
