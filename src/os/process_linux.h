#ifndef TR_OS_PROCESS_LINUX_H
#define TR_OS_PROCESS_LINUX_H

/* This process and the machine it runs on. Threads: any, but tr_process_become alone. */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_process_usage {
    uint64_t user_us;
    uint64_t system_us;
};

struct tr_process_usage tr_process_usage(void);

uint64_t tr_process_resident_bytes(void); /* 0: not known */

/* What is free on the disk of this directory, for us. False: not known. */
TR_MUST_USE bool tr_process_disk_free(const char *path, uint64_t *bytes);

uint64_t tr_process_id(void);

/* Raises the limit of open files as far as is allowed, and says how many that are. */
uint64_t tr_process_raise_files(void);

/* Asks the allocator for steady times instead of the last byte: to be called once, at the start. */
void tr_process_tune_memory(void);

/* Gives memory that is not used back to the system; takes some milliseconds. */
void tr_process_trim_memory(void);

/* How much memory the machine, or the control group we are in, lets us use; 0: not known. */
uint64_t tr_process_memory(void);

struct tr_process_names {
    char host[65];
    char os[65]; /* the kernel's version */
    char platform[65];
};

/* What the kernel calls things; quotes, backslashes and control characters become '?'. */
struct tr_process_names tr_process_names(void);

/* Becomes this user for good. TARRY_ENOTFOUND: there is none; TARRY_EPERM: may not. */
TR_MUST_USE int tr_process_become(const char *user);

/* A new empty directory of our own where temporary files go. TARRY_EPERM, TARRY_ENOSPC, ... */
TR_MUST_USE int tr_process_temp_dir(char *path, size_t room);

/* Removes such a directory and the files in it. */
void tr_process_remove_dir(const char *path);

#endif
