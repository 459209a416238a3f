/* The sentences. Each trouble says what is wrong and what to do next. */

#include "server/trouble.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

struct trouble {
    int err;
    enum tr_exit exit;
    const char *what;
    const char *advice;
};

static const struct trouble store_troubles[] = {
    {TARRY_ELOCKED, TR_EXIT_FAILED, "another tarry has this store open",
     "Stop that one first, or name another directory with --data."},
    {TARRY_EPERM, TR_EXIT_FAILED, "no permission to use this data directory",
     "Give it and its files to the user that runs tarry, or name another one with --data."},
    {TARRY_ENOTFOUND, TR_EXIT_FAILED, "there is no such directory, or no store in it",
     "Make its parent first (mkdir -p), or name another directory with --data."},
    {TARRY_ENOSPC, TR_EXIT_FAILED, "the disk of this data directory is full",
     "Make room there, or name a directory on another disk with --data."},
    {TARRY_EFULL, TR_EXIT_FAILED, "the system gives no more files, threads or memory",
     "Raise the limits of the user that runs tarry (ulimit -n, ulimit -u)."},
    {TARRY_ENOMEM, TR_EXIT_FAILED, "there is not enough memory for this store",
     "Give the process more (ulimit -v, the limit of its container)."},
    {TARRY_EIO, TR_EXIT_FAILED, "the disk of this data directory failed",
     "The kernel's log (dmesg) may say why; put that right and start again."},
    {TARRY_EDAMAGED, TR_EXIT_DAMAGED, "the store is damaged and was not opened",
     "tarry check DIR lists what is damaged and which jobs that concerns, tarry check --repair DIR "
     "saves what can be saved; tarry serve --read-only shows what can be read."},
    {TARRY_EINVAL, TR_EXIT_USAGE, "the store was made for another clock",
     "Start with --test-clock if it was made so, else without; or name another directory with "
     "--data."},
    {TARRY_EVERSION, TR_EXIT_DAMAGED,
     "the store was written by a newer tarry than this one (" TARRY_VERSION ")",
     "Use that newer tarry, or name another directory with --data."},
};

static const struct trouble redis_troubles[] = {
    {TARRY_EUNSUPPORTED, TR_EXIT_USAGE, "this tarry was built without Redis (hiredis)",
     "Use another build, or the embedded engine (--engine local)."},
    {TARRY_EINVAL, TR_EXIT_USAGE,
     "redis.servers, redis.user, redis.password or redis.prefix "
     "cannot be used as it is",
     "Name at most 64 servers, with names of at most 255 bytes."},
    {TARRY_EFULL, TR_EXIT_FAILED, "the system gives no more files, threads or memory",
     "Raise the limits of the user that runs tarry (ulimit -n, ulimit -u)."},
};

static const struct trouble zookeeper_troubles[] = {
    {TARRY_EUNSUPPORTED, TR_EXIT_USAGE, "this tarry was built without ZooKeeper (libzookeeper_mt)",
     "Use another build, or leave zookeeper.servers out: leases in Redis do the same."},
    {TARRY_EFULL, TR_EXIT_FAILED, "the system gives no more files, threads or memory",
     "Raise the limits of the user that runs tarry (ulimit -n, ulimit -u)."},
};

static const struct trouble listen_troubles[] = {
    {TARRY_ELOCKED, TR_EXIT_FAILED,
     "another program listens there already, or a file is in the way",
     "Stop that one first, or name another address: --http, --beanstalk (port 0: a free one)."},
    {TARRY_EPERM, TR_EXIT_FAILED, "no permission to listen there",
     "Ports below 1024 are for root; name another one: --http HOST:PORT, --beanstalk HOST:PORT."},
    {TARRY_ENOTFOUND, TR_EXIT_FAILED, "this machine has no such address",
     "Name another one with --http or --beanstalk, such as 127.0.0.1:11300 or unix:PATH (in a "
     "directory that is there)."},
    {TARRY_EFULL, TR_EXIT_FAILED, "the system gives no more files or memory",
     "Raise the limits of the user that runs tarry (ulimit -n)."},
};

static const struct trouble user_troubles[] = {
    {TARRY_ENOTFOUND, TR_EXIT_FAILED, "there is no such user", "Name one that is there."},
    {TARRY_EPERM, TR_EXIT_FAILED, "only root can become another user",
     "Start it as root, or as that user and without -u."},
};

static enum tr_exit tell(const struct trouble *troubles, size_t count, const char *what, int err)
{
    for (size_t i = 0; i < count; i++) {
        if (troubles[i].err == err) {
            fprintf(stderr, "tarry: %s: %s\n%s\n", what, troubles[i].what, troubles[i].advice);
            return troubles[i].exit;
        }
    }
    fprintf(stderr, "tarry: %s: %s\n", what, tarry_strerror(err));
    return TR_EXIT_FAILED;
}

/* It is a file, or something in front of its last / is one. */
static bool is_in_the_way(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 ? !S_ISDIR(is.st_mode) : errno == ENOTDIR;
}

enum tr_exit tr_trouble_store(const char *path, int err)
{
    if (err == TARRY_ENOTFOUND && is_in_the_way(path)) {
        fprintf(stderr, "tarry: %s: this is no directory, but a file, or leads through one\n%s\n",
                path, "Name a directory with --data.");
        return TR_EXIT_FAILED;
    }
    return tell(store_troubles, sizeof store_troubles / sizeof store_troubles[0], path, err);
}

enum tr_exit tr_trouble_redis(const char *servers, int err)
{
    return tell(redis_troubles, sizeof redis_troubles / sizeof redis_troubles[0], servers, err);
}

enum tr_exit tr_trouble_zookeeper(const char *servers, int err)
{
    return tell(zookeeper_troubles, sizeof zookeeper_troubles / sizeof zookeeper_troubles[0],
                servers, err);
}

enum tr_exit tr_trouble_listen(const char *address, int err)
{
    return tell(listen_troubles, sizeof listen_troubles / sizeof listen_troubles[0], address, err);
}

enum tr_exit tr_trouble_user(const char *user, int err)
{
    return tell(user_troubles, sizeof user_troubles / sizeof user_troubles[0], user, err);
}
