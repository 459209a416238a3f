#include "base/text.h"

#include <stdio.h>

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
