/*
 * A manifest from a hostile disk.
 *
 *     0  u8   bit 0: make the crc right first
 *     1       the front of a copy; zeros follow
 *
 * What can be read must be written and read again as the same.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t p[TR_MANIFEST_COPY];
    static uint8_t out[TR_MANIFEST_COPY];
    static uint8_t twice[TR_MANIFEST_COPY];
    static struct tr_manifest m;
    static struct tr_manifest again;

    if (size < 1 || size - 1 > sizeof p) {
        return 0;
    }
    memset(p, 0, sizeof p);
    memcpy(p, data + 1, size - 1);
    if ((data[0] & 1) != 0) {
        tr_put_le(p + 4, tr_crc(0, p + 8, sizeof p - 8), 4);
    }
    if (tr_manifest_decode(p, &m) != TARRY_OK) {
        return 0;
    }
    if (m.ckpt_now > 1 || m.slot_count > TR_MANIFEST_SLOTS_MAX) {
        abort();
    }
    tr_manifest_encode(out, &m);
    if (tr_manifest_decode(out, &again) != TARRY_OK) {
        abort();
    }
    tr_manifest_encode(twice, &again);
    if (memcmp(out, twice, sizeof out) != 0) {
        abort();
    }
    return 0;
}
