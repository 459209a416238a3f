#ifndef TR_BASE_TEXT_H
#define TR_BASE_TEXT_H

/* Text for people and file names: the one place where pure code formats. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_TEXT_NUMBER = 21 }; /* digits of a number, and a NUL */

/* Writes at most size bytes, always ended by a NUL; what does not fit is cut off. */
void tr_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void tr_text_list(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* The number in decimal digits and a NUL: how many digits. Much quicker than the above. */
size_t tr_text_number(char out[TR_TEXT_NUMBER], uint64_t number);

#endif
