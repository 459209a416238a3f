/* The characters of names: a table of 128 bits, since every command that names a topic asks. */

#include "base/name.h"

#include <stdint.h>

/* Bit c of the pair is set when c may stand in a name. */
#define FROM_33_TO_63 /* $ ( ) + - . / 0-9 ; */                                                    \
    (UINT64_C(1) << '$' | UINT64_C(1) << '(' | UINT64_C(1) << ')' | UINT64_C(1) << '+' |           \
     UINT64_C(1) << '-' | UINT64_C(1) << '.' | UINT64_C(1) << '/' | UINT64_C(0x3ff) << '0' |       \
     UINT64_C(1) << ';')
#define FROM_64_TO_127 /* A-Z _ a-z */                                                             \
    (UINT64_C(0x3ffffff) << ('A' - 64) | UINT64_C(1) << ('_' - 64) |                               \
     UINT64_C(0x3ffffff) << ('a' - 64))

static const uint64_t allowed[4] = {FROM_33_TO_63, FROM_64_TO_127, 0, 0};

size_t tr_name_span(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];

        if ((allowed[c / 64] >> c % 64 & 1) == 0) {
            return i;
        }
    }
    return len;
}

bool tr_name_ok(const char *name, size_t len)
{
    return len > 0 && len <= TR_TOPIC_NAME_MAX && name[0] != '-' && tr_name_span(name, len) == len;
}
