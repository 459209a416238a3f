#ifndef TR_ENGINE_MANIFEST_H
#define TR_ENGINE_MANIFEST_H

/*
 * The manifest: which files, slots and checkpoints are the store. See manifest.c for the bytes.
 */

#include "base/check.h"
#include "engine/frame.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_MANIFEST_SLOTS_MAX = 512,
    TR_GROUPS_MAX = 300,
    TR_GROUP_FILES = 3,       /* live run, dead run, sidecar */
    TR_MANIFEST_COPY = 32768, /* bytes of one copy */
    TR_MANIFEST_COPIES = 2,   /* in each file */
};

enum tr_manifest_flag {
    TR_MAN_CLEAN = 1,      /* closed in order: the log ends with log_batch */
    TR_MAN_WEAK = 2,       /* answers were given before the disk had them */
    TR_MAN_TEST_CLOCK = 4, /* made with a test clock: state.clock_us says where it stands */
    TR_MAN_COPY = 8,       /* a backup that was never opened: backup.c */
    TR_MAN_KNOWN = TR_MAN_CLEAN | TR_MAN_WEAK | TR_MAN_TEST_CLOCK | TR_MAN_COPY
};

struct tr_manifest_slot {
    uint32_t number;
    uint64_t seg_no;
    uint64_t nonce;
    uint64_t first_batch;
    uint64_t last_batch; /* 0: not known when this was written */
};

struct tr_manifest_group {
    uint64_t no;
    uint64_t rid_first; /* what it covers */
    uint64_t rid_last;
    uint32_t bytes[TR_GROUP_FILES]; /* 0: there is none */
    uint32_t mean; /* bytes of a record in it that was alive, about; 0: not known */
};

struct tr_manifest {
    uint64_t gen;
    uint32_t flags;
    uint64_t epoch;     /* + 1 at each start */
    uint64_t rid_limit; /* rids below it may be used */
    uint64_t next_rid;  /* rids below it may have been used */
    uint64_t slot_bytes;
    uint64_t seg_no;    /* newest segment when this was written */
    uint64_t log_batch; /* the log was durable at least up to this batch */
    uint64_t clock_us;  /* T when this was written; 0: an older build did not tell */
    uint8_t uuid[TR_UUID];
    uint8_t key[TR_UUID]; /* of lease tokens */
    struct {
        uint64_t batch; /* 0: the empty state */
        uint64_t pages;
    } ckpt[2];
    uint32_t ckpt_now; /* the newer one */
    uint32_t slot_count;
    struct tr_manifest_slot slots[TR_MANIFEST_SLOTS_MAX]; /* with frames that are needed */
    uint32_t group_count;
    struct tr_manifest_group groups[TR_GROUPS_MAX]; /* by rising rids */
};

void tr_manifest_encode(uint8_t out[TR_MANIFEST_COPY], const struct tr_manifest *m);

/* TARRY_EDAMAGED: not a manifest. TARRY_EVERSION: a good one that this version cannot use. */
TR_MUST_USE int tr_manifest_decode(const uint8_t in[TR_MANIFEST_COPY], struct tr_manifest *m);

/* Does it name the group with this number? */
bool tr_manifest_names(const struct tr_manifest *m, uint64_t no);

#endif
