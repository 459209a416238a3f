#ifndef TR_RULES_TOKEN_FILE_H
#define TR_RULES_TOKEN_FILE_H

/*
 * The section [tokens] in the text of a config: its lines one after the other, and where they
 * stand, so that one can be cut out or added and all else stays as it is. See token_file.c.
 */

#include "rules/token.h"

#include <stdbool.h>
#include <stddef.h>

enum { TR_TOKEN_FILE_LINE_MAX = 1000 };

/* NAME = VALUE, without spaces around them and without a comment. */
struct tr_token_pair {
    char name[TR_TOKEN_FILE_LINE_MAX + 1];
    char value[TR_TOKEN_FILE_LINE_MAX + 1];
};

/* TARRY_EFULL: the line is too long; TARRY_EINVAL: there is neither = nor : in it. */
TR_MUST_USE int tr_token_split(struct tr_token_pair *pair, const char *line, size_t len);

struct tr_token_file {
    const char *text;
    size_t len;

    /* Of the line that was found last: */
    size_t from; /* where it begins, */
    size_t to;   /* and the next one does */
    int number;  /* from 1 on */
    bool inside; /* in the section */
    size_t end;  /* behind the last token so far, or the head of the section; 0: there is none */
};

/* Starts with the text set and all else zero. The next line with a token: text[from, to). False:
 * there is none. */
bool tr_token_file_next(struct tr_token_file *f);

/* The same without its end. */
size_t tr_token_file_line_len(const struct tr_token_file *f);

#endif
