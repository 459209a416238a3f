#include "base/text.h"

#include <stdio.h>
#include <string.h>

void tr_text_list(char *out, size_t size, const char *format, va_list args)
{
    (void)vsnprintf(out, size, format, args); /* NOLINT(clang-analyzer-valist.Uninitialized) */
}

void tr_text(char *out, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tr_text_list(out, size, format, args);
    va_end(args);
}

size_t tr_text_number(char out[TR_TEXT_NUMBER], uint64_t number)
{
    char digits[TR_TEXT_NUMBER];
    size_t at = sizeof digits;

    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at - 1;
}
