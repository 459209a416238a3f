#include "base/base64.h"

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tr_base64_write(char *out, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)bytes[i] << 16;

        bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)bytes[i + 2] : 0;
        *out++ = alphabet[bits >> 18];
        *out++ = alphabet[bits >> 12 & 63];
        *out++ = (char)(left > 1 ? alphabet[bits >> 6 & 63] : '=');
        *out++ = (char)(left > 2 ? alphabet[bits & 63] : '=');
    }
}

/* 0 to 63; 64: not of the alphabet. */
static uint32_t value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (uint32_t)(c - 'A');
    }
    if (c >= 'a' && c <= 'z') {
        return (uint32_t)(c - 'a') + 26;
    }
    if (c >= '0' && c <= '9') {
        return (uint32_t)(c - '0') + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool tr_base64_read(uint8_t *out, size_t *out_len, const char *text, size_t len)
{
    size_t pad = len >= 4 ? (size_t)(text[len - 1] == '=') + (text[len - 2] == '=') : 0;
    size_t written = 0;

    if (len % 4 != 0 || (pad == 1 && text[len - 1] != '=')) {
        return false;
    }
    for (size_t i = 0; i < len; i += 4) {
        size_t count = i + 4 < len ? 4 : 4 - pad;
        uint32_t bits = 0;

        for (size_t k = 0; k < 4; k++) {
            uint32_t value = k < count ? value_of(text[i + k]) : 0;

            if (value > 63) {
                return false;
            }
            bits = bits << 6 | value;
        }
        if ((count < 4 && (bits & 0xff) != 0) || (count < 3 && (bits & 0xffff) != 0)) {
            return false; /* bits that no byte has: another text for the same bytes */
        }
        for (size_t k = 0; k + 1 < count; k++) {
            out[written++] = (uint8_t)(bits >> (16 - 8 * k));
        }
    }
    *out_len = written;
    return true;
}
