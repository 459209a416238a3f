#ifndef TR_PROTO_OUTPUT_H
#define TR_PROTO_OUTPUT_H

/*
 * What a connection has still to send: a queue of bytes of which the later part may have to wait
 * for the disk. See output.c.
 *
 * Memory that cannot be had makes it `broken`: bytes are missing from then on, so the connection
 * must be closed without sending any more.
 */

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TR_OUTPUT_MARKS = 4 };

struct tr_output_mark {
    uint64_t at;   /* bytes from here on, counted from the first ever added, */
    uint64_t gate; /* wait for this batch */
};

struct tr_output {
    struct tr_mem *mem;
    uint8_t *bytes;
    size_t room;
    size_t from; /* bytes[from, to) are to be sent */
    size_t to;
    uint64_t sent; /* ever */
    size_t usual;  /* room of the last buffer that was given back */
    struct tr_output_mark marks[TR_OUTPUT_MARKS];
    unsigned mark_count;
    bool broken;
};

void tr_output_init(struct tr_output *o, struct tr_mem *mem);
void tr_output_fini(struct tr_output *o);

/* What is added from now on must wait for this batch; 0: for none. */
void tr_output_gate(struct tr_output *o, uint64_t gate);

/* The same as tr_output_place, where there is no room at the end. */
uint8_t *tr_output_make_room(struct tr_output *o, size_t len);

/* A place for len bytes at the end, or NULL (broken); tr_output_added makes them count. */
static inline uint8_t *tr_output_place(struct tr_output *o, size_t len)
{
    if (o->bytes != NULL && !o->broken && o->room - o->to >= len) {
        return o->bytes + o->to;
    }
    return tr_output_make_room(o, len);
}

void tr_output_added(struct tr_output *o, size_t len);

static inline void tr_output_add(struct tr_output *o, const void *bytes, size_t len)
{
    uint8_t *place = len > 0 ? tr_output_place(o, len) : NULL;

    if (place != NULL) {
        memcpy(place, bytes, len);
        o->to += len;
    }
}

/* What may be sent now that everything up to batch `durable` is on disk; 0: nothing. */
size_t tr_output_ready(struct tr_output *o, uint64_t durable, const uint8_t **bytes);

/* So many of those were sent. */
void tr_output_drop(struct tr_output *o, size_t len);

size_t tr_output_len(const struct tr_output *o);

/* How many bytes were ever added: where the next one will stand. */
uint64_t tr_output_end(const struct tr_output *o);

/* The bytes from place `at` to the end, which are not sent yet and may be altered. */
uint8_t *tr_output_from(struct tr_output *o, uint64_t at);

/* Takes the last len bytes back; no gate was set since the first of them. */
void tr_output_cut(struct tr_output *o, size_t len);

#endif
