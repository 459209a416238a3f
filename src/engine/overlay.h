#ifndef TR_ENGINE_OVERLAY_H
#define TR_ENGINE_OVERLAY_H

/*
 * A disk of which some bytes are better known than it knows them itself: who only looks at a store
 * sees a file as it is to be, without writing to it. See overlay.c.
 *
 * Ownership: bytes that are put are copied. It must outlive all requests that went through it.
 */

#include "base/check.h"
#include "base/mem.h"
#include "port/disk.h"

#include <stdbool.h>

struct tr_overlay;

/* Over this disk; or NULL: no memory. */
struct tr_overlay *tr_overlay_new(struct tr_mem *mem, struct tr_disk under);
void tr_overlay_free(struct tr_overlay *o); /* may be NULL */

/* What requests go to instead. Whatever it submits passes tr_overlay_done when it is done. */
struct tr_disk tr_overlay_port(struct tr_overlay *o);
void tr_overlay_done(const struct tr_overlay *o, struct tr_io *io);

/* These bytes stand in the file, whatever it says. They must be those that were put there before,
 * or overlap none of them. TARRY_EFULL: there are too many. */
TR_MUST_USE int tr_overlay_put(struct tr_overlay *o, int file, uint64_t off, const uint8_t *bytes,
                               uint64_t len);

/* Has anything been refused for that since a file was closed? */
bool tr_overlay_full(const struct tr_overlay *o);

/* A file that the disk has not; it is empty. */
int tr_overlay_file(struct tr_overlay *o);

/* Each range that was put, in a file after the other, neighbours as one. */
typedef void tr_overlay_fn(void *ctx, int file, uint64_t off, uint64_t len);
void tr_overlay_walk(const struct tr_overlay *o, void *ctx, tr_overlay_fn *fn);

#endif
