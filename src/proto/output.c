/*
 * Bytes on their way out.
 *
 *     bytes:  ....[ may go |mark 7: waits for batch 7 |mark 8: waits for batch 8 ]....
 *                 from                                                           to
 *
 * A reply may be told when the batch of its gate is durable; the replies behind it wait with it,
 * since a connection answers in order. So one mark per batch is enough, gates of marks grow, and
 * what may go ends at the first mark that is not durable yet.
 *
 * Invariant: marks are in order of `at` and of `gate`, both strictly; a second gate for the same
 * place raises that of its mark.
 *
 * At any time replies wait for two batches at most, the one in flight and the open one. Should
 * there be more marks than places, the last one takes the newer gate: bytes wait longer, never
 * shorter.
 *
 * Cost: bytes are moved only when the free room is in front and they are the smaller half. A
 * buffer that has run empty is given back unless it is small, so idle connections own little; the
 * next one begins with the size that it had, or a busy connection would double its way up each
 * time.
 */

#include "proto/output.h"

#include "base/check.h"

#include <string.h>

enum { ROOM_MIN = 512, KEEP_MAX = 1024, USUAL_MAX = 16384 };

void tr_output_init(struct tr_output *o, struct tr_mem *mem)
{
    *o = (struct tr_output){.mem = mem};
}

void tr_output_fini(struct tr_output *o)
{
    tr_mem_free(o->mem, o->bytes, o->room);
    o->bytes = NULL;
    o->room = 0;
    o->from = 0;
    o->to = 0;
}

size_t tr_output_len(const struct tr_output *o)
{
    return o->to - o->from;
}

uint64_t tr_output_end(const struct tr_output *o)
{
    return o->sent + tr_output_len(o);
}

void tr_output_gate(struct tr_output *o, uint64_t gate)
{
    struct tr_output_mark *last = o->mark_count > 0 ? &o->marks[o->mark_count - 1] : NULL;
    uint64_t end = tr_output_end(o);

    if (gate == 0 || (last != NULL && gate <= last->gate)) {
        return;
    }
    if (last != NULL && (last->at == end || o->mark_count == TR_OUTPUT_MARKS)) {
        last->gate = gate;
        return;
    }
    o->marks[o->mark_count++] = (struct tr_output_mark){.at = end, .gate = gate};
}

uint8_t *tr_output_make_room(struct tr_output *o, size_t len)
{
    size_t used = tr_output_len(o);
    size_t room = o->bytes != NULL ? o->room : o->usual > ROOM_MIN ? o->usual : ROOM_MIN;
    uint8_t *bytes;

    if (o->broken) {
        return NULL;
    }
    if (o->bytes != NULL && used <= o->room / 2 && o->room - used >= len) {
        memmove(o->bytes, o->bytes + o->from, used);
        o->from = 0;
        o->to = used;
        return o->bytes + o->to;
    }
    while (room - o->to < len) {
        room *= 2;
    }
    bytes = tr_mem_stretch(o->mem, o->bytes, o->room, room);
    if (bytes == NULL) {
        o->broken = true;
        return NULL;
    }
    o->bytes = bytes;
    o->room = room;
    return o->bytes + o->to;
}

void tr_output_added(struct tr_output *o, size_t len)
{
    TR_CHECK(len <= o->room - o->to);
    o->to += len;
}

uint8_t *tr_output_from(struct tr_output *o, uint64_t at)
{
    TR_CHECK(at >= o->sent && at <= tr_output_end(o));
    return o->bytes + o->from + (at - o->sent);
}

void tr_output_cut(struct tr_output *o, size_t len)
{
    TR_CHECK(len <= tr_output_len(o));
    o->to -= len;
    TR_CHECK(o->mark_count == 0 || o->marks[o->mark_count - 1].at <= tr_output_end(o));
}

size_t tr_output_ready(struct tr_output *o, uint64_t durable, const uint8_t **bytes)
{
    unsigned done = 0;

    while (done < o->mark_count && o->marks[done].gate <= durable) {
        done++;
    }
    if (done > 0) {
        o->mark_count -= done;
        memmove(o->marks, o->marks + done, o->mark_count * sizeof o->marks[0]);
    }
    *bytes = o->bytes != NULL ? o->bytes + o->from : NULL;
    return o->mark_count > 0 ? (size_t)(o->marks[0].at - o->sent) : tr_output_len(o);
}

void tr_output_drop(struct tr_output *o, size_t len)
{
    TR_CHECK(len <= tr_output_len(o));
    TR_CHECK(o->mark_count == 0 || o->sent + len <= o->marks[0].at);
    o->from += len;
    o->sent += len;
    if (o->from == o->to) {
        o->from = 0;
        o->to = 0;
        if (o->room > KEEP_MAX) {
            o->usual = o->room < USUAL_MAX ? o->room : USUAL_MAX;
            tr_output_fini(o);
        }
    }
}
