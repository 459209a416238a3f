#include "rules/decimal.h"

#include "base/text.h"

#include <string.h>

bool tr_decimal_read(const char *text, size_t len, unsigned places, uint64_t most, uint64_t *scaled)
{
    unsigned behind = 0;
    bool point = false;
    uint64_t n = 0;

    if (len == 0 || text[0] == '.' || text[len - 1] == '.') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || (behind == places && point && digit != 0)) {
            return false;
        }
        if (behind < places || !point) {
            if (digit > most || n > (most - digit) / 10) {
                return false;
            }
            n = n * 10 + digit;
            behind += point;
        }
    }
    for (; behind < places; behind++) {
        if (n > most / 10) {
            return false;
        }
        n *= 10;
    }
    *scaled = n;
    return true;
}

void tr_decimal_print(char out[TR_DECIMAL_TEXT], uint64_t scaled, unsigned places)
{
    uint64_t one = 1;
    size_t len;

    for (unsigned i = 0; i < places; i++) {
        one *= 10;
    }
    tr_text(out, TR_DECIMAL_TEXT, "%llu.%0*llu", (unsigned long long)(scaled / one), (int)places,
            (unsigned long long)(scaled % one));
    len = strlen(out);
    while (out[len - 1] == '0') {
        len--;
    }
    out[out[len - 1] == '.' ? len - 1 : len] = '\0';
}
