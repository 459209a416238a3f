#ifndef TR_SERVER_HELP_H
#define TR_SERVER_HELP_H

/* What `tarry help` and `tarry serve --help` print: whole texts, true for this version. */

extern const char tr_help_text[];
extern const char tr_help_serve_text[];

#endif
