#ifndef TR_BASE_BASE64_H
#define TR_BASE_BASE64_H

/* Base64 of RFC 4648: the usual alphabet, padded; nothing else is read. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many characters len bytes become. */
static inline size_t tr_base64_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Writes tr_base64_len(len) characters, without a NUL. */
void tr_base64_write(char *out, const uint8_t *bytes, size_t len);

/*
 * Writes at most len / 4 * 3 bytes and says how many. False: text is not base64. out may be text
 * itself.
 */
bool tr_base64_read(uint8_t *out, size_t *out_len, const char *text, size_t len);

#endif
