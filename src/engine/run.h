#ifndef TR_ENGINE_RUN_H
#define TR_ENGINE_RUN_H

/*
 * A run: a file that is written once and holds the records of far jobs, in the order in which they
 * will be wanted. See run.c for the bytes.
 *
 *     | block | block | block ... | footer | trailer |
 *
 * Live jobs stand by (due, rid); the dead jobs of a group have runs of their own, by (topic,
 * dead_seq). A group has at most one of each, its *pieces* 0 and 1. Nothing here reads or writes a
 * file: the caller moves the bytes. Threads: none; the memory is the caller's tr_mem.
 *
 * Writing:   tr_run_init
 *            tr_run_buffer          somewhere to put blocks, 1 MiB, say
 *            tr_run_add ...         until TARRY_EFULL: write out the first tr_run_ready() bytes of
 *                                   the buffer, tr_run_buffer again, the same record again
 *            tr_run_end             write out tr_run_ready() bytes, then `footer`
 *            tr_run_fini
 *
 * Reading:   tr_run_trailer         the last TR_RUN_TRAILER bytes say where the footer is
 *            tr_run_footer          the footer says where blocks are; kept in memory
 *            tr_run_block, _next    a whole block, record by record
 *            tr_run_get             one record at a place that the sidecar gave: only its own bytes
 *                                   are read, since the footer has what it is relative to
 */

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/frame.h"
#include "engine/place.h"
#include "engine/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_RUN_BLOCK = 65536, /* a block is not longer, unless it has only one record */
    TR_RUN_BLOCK_HEAD = 48,
    TR_RUN_TRAILER = 64,
    TR_RUN_BYTES_MAX = (1 << 30) - (1 << 24), /* no block begins here or later */
};

/* Which run of which store. Blocks, footer and trailer are good for this one only. */
struct tr_run_of {
    uint8_t uuid[TR_UUID]; /* of the store */
    uint64_t group;
    uint32_t piece; /* at most TR_PLACE_PIECE_MAX */
};

/* What the whole run says of itself. */
struct tr_run_stat {
    uint64_t jobs;
    uint64_t bytes;     /* of the blocks: where the footer begins */
    uint64_t due_first; /* least and largest due, us */
    uint64_t due_last;
    uint64_t rid_first; /* least and largest rid */
    uint64_t rid_last;
};

/* A block as the footer knows it. */
struct tr_run_block_stat {
    uint64_t off;
    uint32_t len;       /* whole blocks of 4 KiB */
    uint32_t jobs;      /* at least 1 */
    uint64_t first_due; /* of its first record: the base clock */
    uint64_t first_rid; /* of its first record: the base rid */
    uint32_t topic;     /* the only one, or 0: several */
};

/* ---- writing ---- */

struct tr_run_topic {
    uint32_t topic;
    uint32_t jobs;
};

struct tr_run_writer {
    struct tr_mem *mem;
    struct tr_run_of of;
    bool dead;
    struct tr_run_stat stat;
    uint64_t last[2]; /* (due, rid) or (topic, dead_seq) of the last record: order is checked */

    uint8_t *buf; /* the caller's */
    size_t room;
    size_t ready;                  /* bytes of finished blocks at its front */
    size_t used;                   /* and of the open one behind them; 0: none is */
    struct tr_run_block_stat open; /* the open block */

    struct tr_run_block_stat *blocks;
    uint32_t block_count;
    uint32_t block_room;
    struct tr_run_topic *topics; /* in order of appearance */
    uint32_t topic_count;
    uint32_t topic_room;
    struct tr_map topic_at; /* topic -> its index + 1, as a pointer */

    uint8_t *footer; /* after tr_run_end: what follows the blocks, trailer included */
    size_t footer_len;
};

/* dead: its jobs come by (topic, dead_seq), else by (due, rid). */
void tr_run_init(struct tr_run_writer *w, struct tr_mem *mem, const struct tr_run_of *of,
                 bool dead);
void tr_run_fini(struct tr_run_writer *w);

/*
 * From now on blocks go to buf, which is borrowed until the next call. Bytes that were ready must
 * have been written out; those of the open block move to the front of buf, which may be the old
 * one. room is at least TR_RUN_BLOCK.
 */
void tr_run_buffer(struct tr_run_writer *w, uint8_t *buf, size_t room);

/* Bytes at the front of the buffer that will not change any more; whole blocks of 4 KiB. */
size_t tr_run_ready(const struct tr_run_writer *w);

/* A buffer that takes this record for certain. */
size_t tr_run_room(const struct tr_record *rec);

/*
 * Adds a job: a RELOG record with due, topic and all else; its body is copied. Records come in the
 * order of the run. *place: where it is. TARRY_EFULL: it was not added, since the buffer is full,
 * or the run is (tr_run_full). TARRY_ENOMEM: it was not added.
 */
TR_MUST_USE int tr_run_add(struct tr_run_writer *w, const struct tr_record *rec, uint64_t *place);

/* True when no record can be added, whatever the buffer: end it and begin the next piece. */
bool tr_run_full(const struct tr_run_writer *w);

/* Closes the last block, which there is room for, and makes the footer. At least one job was added.
 * TARRY_ENOMEM: may be tried again. */
TR_MUST_USE int tr_run_end(struct tr_run_writer *w);

/* ---- reading ---- */

struct tr_run_trailer {
    uint64_t footer_off;
    uint32_t footer_len; /* without the trailer, which follows */
    uint32_t footer_crc;
};

/* A footer that was read. It borrows the bytes. */
struct tr_run_footer {
    struct tr_run_of of;
    bool dead; /* by (topic, dead_seq) */
    struct tr_run_stat stat;
    uint32_t block_count;
    uint32_t topic_count;
    const uint8_t *blocks;
    const uint8_t *topics;
};

/* A block that was read; it borrows the bytes. */
struct tr_run_block {
    struct tr_base base;
    uint64_t off;
    uint32_t piece;
    uint32_t jobs;
    const uint8_t *payload;
    uint32_t len;

    uint32_t next; /* where tr_run_next goes on: record and byte of the payload */
    uint32_t next_at;
};

/* The last bytes of a file of file_len bytes. TARRY_EDAMAGED, or TARRY_EVERSION: a newer one. */
TR_MUST_USE int tr_run_trailer(const uint8_t in[TR_RUN_TRAILER], const struct tr_run_of *of,
                               uint64_t file_len, struct tr_run_trailer *t);

/* Reads t->footer_len bytes, which the footer borrows. Everything in them is checked. */
TR_MUST_USE int tr_run_footer(const uint8_t *in, const struct tr_run_of *of,
                              const struct tr_run_trailer *t, struct tr_run_footer *f);

/* i < block_count. */
struct tr_run_block_stat tr_run_footer_block(const struct tr_run_footer *f, uint32_t i);

/* Live runs: the block to begin with in order to meet every job due at due_us or later; block_count
 * when there is none. */
uint32_t tr_run_footer_due(const struct tr_run_footer *f, uint64_t due_us);

/* The block that holds this byte of the file, or block_count. */
uint32_t tr_run_footer_off(const struct tr_run_footer *f, uint64_t off);

/* How many jobs of this topic there are. */
uint32_t tr_run_footer_topic(const struct tr_run_footer *f, uint32_t topic);

/* i < topic_count; by topic number. */
struct tr_run_topic tr_run_footer_topic_at(const struct tr_run_footer *f, uint32_t i);

/* Checks the bytes of a block, stat.len of them, against the footer's word. */
TR_MUST_USE int tr_run_block(const struct tr_run_footer *f, uint32_t i, const uint8_t *in,
                             struct tr_run_block *block);

/* The same without a footer, for salvage: len bytes were read at off. */
TR_MUST_USE int tr_run_block_alone(const struct tr_run_of *of, uint64_t off, const uint8_t *in,
                                   size_t len, struct tr_run_block *block);

/* The head of a block: how long the block is, padding included; 0: that is no head. */
uint32_t tr_run_block_len(const uint8_t in[TR_RUN_BLOCK_HEAD]);

/* A block that is in the file becomes part of what is written, as if its records had been added, so
 * that the footer can be made again (tr_run_end). */
TR_MUST_USE int tr_run_adopt(struct tr_run_writer *w, struct tr_run_block *block, uint32_t len);

/* The next record of a block. TARRY_ENOTFOUND: that was the last. */
TR_MUST_USE int tr_run_next(struct tr_run_block *block, struct tr_record *rec, uint64_t *place);

/* The record of this rid at a place: in has tr_place_len(place) bytes, read at tr_place_off(place).
 * It checks the record, not its block. */
TR_MUST_USE int tr_run_get(const struct tr_run_footer *f, uint64_t place, uint64_t rid,
                           const uint8_t *in, struct tr_record *rec);

#endif
