#ifndef TR_SERVER_HELP_H
#define TR_SERVER_HELP_H

/* What `tarry help`, `tarry serve --help` and `tarry beanstalkd -h` print: whole texts. */

extern const char tr_help_text[];
extern const char tr_help_version_text[];
extern const char tr_help_end_text[];
extern const char tr_help_serve_text[]; /* the flags; then come the keys */
extern const char tr_help_keys_text[];
extern const char tr_help_more_keys_text[];
extern const char tr_help_about_text[]; /* what they mean */
extern const char tr_help_drop_in_text[];

#endif
