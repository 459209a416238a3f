#ifndef TR_BASE_TEXT_H
#define TR_BASE_TEXT_H

/* Text for people and file names: the one place where pure code formats. */

#include <stdarg.h>
#include <stddef.h>

/* Writes at most size bytes, always ended by a NUL; what does not fit is cut off. */
void tr_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void tr_text_list(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
