#include "base/utf8.h"

#include <string.h>

static bool begin(struct tr_utf8 *u, uint8_t byte)
{
    *u = (struct tr_utf8){.low = 0x80, .high = 0xbf};
    if (byte < 0x80) {
        return true;
    }
    if (byte < 0xc2 || byte > 0xf4) { /* a later byte, a longer form of ASCII, beyond U+10FFFF */
        return false;
    }
    u->need = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    u->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;  /* no longer forms */
    u->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf; /* no surrogates; the end */
    return true;
}

bool tr_utf8_step(struct tr_utf8 *u, uint8_t byte)
{
    if (u->need == 0) {
        return begin(u, byte);
    }
    if (byte < u->low || byte > u->high) {
        return false;
    }
    *u = (struct tr_utf8){.need = (uint8_t)(u->need - 1), .low = 0x80, .high = 0xbf};
    return true;
}

size_t tr_utf8_span(const uint8_t *bytes, size_t len)
{
    struct tr_utf8 u = {0};
    size_t span = 0;

    for (size_t i = 0; i < len; i++) {
        uint64_t eight;

        while (u.need == 0 && len - i >= sizeof eight) { /* nearly all text is ASCII */
            memcpy(&eight, bytes + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) != 0) {
                break;
            }
            i += sizeof eight;
            span = i;
        }
        if (i == len || !tr_utf8_step(&u, bytes[i])) {
            break;
        }
        span = u.need == 0 ? i + 1 : span;
    }
    return span;
}

bool tr_utf8_ok(const uint8_t *bytes, size_t len)
{
    return tr_utf8_span(bytes, len) == len;
}
