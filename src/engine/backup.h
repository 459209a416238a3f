#ifndef TR_ENGINE_BACKUP_H
#define TR_ENGINE_BACKUP_H

/*
 * A copy of the store in another folder, made while it serves. See backup.c.
 */

#include "engine/group.h"
#include "port/disk.h"
#include "port/request.h"

#include <stdbool.h>
#include <stdint.h>

/* As long as a copy is not finished it has a file of this name, and is no store. */
#define TR_BACKUP_MARK "backup.part"

#define TR_BACKUP_RIDS (UINT64_C(1) << 32) /* a copy leaves out when it is first opened, */
#define TR_BACKUP_EPOCHS 1024              /* and so many epochs */

enum {
    TR_BACKUP_CHUNK = 1 << 20,
    TR_BACKUP_SYNC = 4 << 20, /* bytes between two syncs of a file */
    TR_BACKUP_PAUSE_US = 200000,
    TR_BACKUP_NAMES = 131072 /* bytes of names that an unfinished copy may have */
};

enum tr_backup_step {
    TR_BACKUP_IDLE,
    TR_BACKUP_FOLDER,   /* is being made or opened */
    TR_BACKUP_LIST,     /* what is in it, */
    TR_BACKUP_CLEAR,    /* and was left by one that was not finished, goes */
    TR_BACKUP_MARK_NEW, /* the mark is made, */
    TR_BACKUP_MARK_CLOSE,
    TR_BACKUP_MARK_SYNC,
    TR_BACKUP_WAIT, /* for a checkpoint */
    TR_BACKUP_NEXT, /* file */
    TR_BACKUP_LINK,
    TR_BACKUP_OPEN,
    TR_BACKUP_ALLOCATE,
    TR_BACKUP_READ,
    TR_BACKUP_WRITE,
    TR_BACKUP_SYNC_SOME,
    TR_BACKUP_PAUSE,
    TR_BACKUP_SYNC_ALL,
    TR_BACKUP_CLOSE,
    TR_BACKUP_NAMES_SYNC, /* all files are there */
    TR_BACKUP_UNMARK,
    TR_BACKUP_UNMARK_SYNC,
    TR_BACKUP_FAILED, /* what was made goes again, from here on */
    TR_BACKUP_FAILED_LIST,
    TR_BACKUP_FAILED_CLEAR,
    TR_BACKUP_FAILED_SYNC,
    TR_BACKUP_FAILED_UNMARK,
    TR_BACKUP_LEAVE /* the folder */
};

/* A file of the copy. */
struct tr_backup_file {
    char name[TR_IO_NAME_MAX];
    bool link;              /* it may be the same file, */
    int file;               /* or is copied from this one; -1: from memory */
    uint64_t len;           /* so much of it; */
    uint64_t allocate;      /* it is to have room for so much, or 0 */
    struct tr_slot *slot;   /* which must stay as it is until this is done, */
    struct tr_group *group; /* or this one must */
};

/* What is only there while one is made. */
struct tr_backup_work {
    char *path;
    size_t path_room;
    char *names;  /* TR_BACKUP_NAMES */
    uint8_t *buf; /* TR_BACKUP_CHUNK */
    struct tr_manifest manifest;
    struct tr_backup_file *files;
    size_t count;
    size_t room;
    uint32_t slot_count; /* slots that are to stay, with where their batches end: */
    struct tr_backup_slot {
        struct tr_slot *slot;
        uint64_t end_off;
    } slots[TR_MANIFEST_SLOTS_MAX];
    uint32_t group_count;
    struct tr_group *groups[TR_GROUPS_MAX];
};

struct tr_backup {
    enum tr_backup_step step;
    struct tr_req *req; /* or NULL: its maker is gone */
    struct tr_io io;
    struct tr_piece piece;
    bool busy;   /* io is out */
    bool frozen; /* the checkpoint that it waits for is being made: */
    uint64_t batch;
    bool kept;   /* checkpoints are not to be made anew now */
    size_t next; /* file */
    int file;    /* of the copy, open; -1: none */
    uint64_t off;
    uint64_t part; /* bytes of buf that are to be written, */
    uint64_t done; /* and those that are */
    uint64_t unsynced;
    uint64_t sent_us; /* boot */
    uint64_t pause_until;
    uint64_t copied;
    uint64_t name_at;   /* in names, */
    uint64_t names_len; /* which are so long */
    int status;
    uint64_t made; /* since the start */
    struct tr_backup_work *work;
};

#endif
