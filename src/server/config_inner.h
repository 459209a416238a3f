#ifndef TR_SERVER_CONFIG_INNER_H
#define TR_SERVER_CONFIG_INNER_H

/* What the files of the config share: one reading of it, and the table of keys. */

#include "base/check.h"
#include "server/config.h"

/* One reading, until it succeeds or is refused. */
struct tr_reading {
    struct tr_config *config;
    bool given[TR_KEY_COUNT]; /* in the source being read: none may come twice */
    enum tr_exit exit;        /* refused: how the process ends */
    const char *advice;       /* refused: what to try */
    char why[1024];           /* refused: a sentence; else empty */
};

/* Where a value stands, for the setting and for a sentence. */
struct tr_place {
    enum tr_from from;
    int line;         /* in the file; else 0 */
    const char *name; /* "--sync", "TARRY_STORE_SYNC", "tarry.conf:3: store.sync" */
};

/* What the command line of serve has: each value is borrowed from argv, NULL: not given. */
struct tr_flags {
    const char *value[TR_KEY_COUNT];
    const char *name[TR_KEY_COUNT]; /* by which flag */
    const char *config_path;
    const char **tokens; /* those of --set tokens.NAME=VALUE, from "NAME=" on; borrowed from argv */
    unsigned token_count;
};

struct tr_key_row {
    const char *section;
    const char *name;
    const char *full;  /* "section.name" */
    const char *set;   /* "--set section.name" */
    const char *flag;  /* NULL: only --set */
    bool is_switch;    /* the flag alone means "on" */
    bool secret;       /* never told */
    bool live;         /* can change while the server runs: live.c brings it to its place */
    const char *fixed; /* or why it cannot: "... stays as it is until a restart: the store ..." */
    const char *fallback; /* the default */
    const char *allowed;  /* "--sync takes ..." */
    /* Takes the value over. TARRY_EINVAL: *why is how it goes on after the value, or stays NULL. */
    int (*apply)(struct tr_config *c, const char *value, const char **why);
};

extern const struct tr_key_row tr_key_rows[TR_KEY_COUNT];

/* Notes why, unless there is a reason already. Always TARRY_EINVAL. */
int tr_reading_refuse(struct tr_reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes that memory is short. Always TARRY_ENOMEM. */
int tr_reading_no_memory(struct tr_reading *r);

/* TR_KEY_COUNT: there is no such key. `full` is len bytes like "store.path". */
enum tr_key tr_config_find_key(const char *section, const char *name);
enum tr_key tr_config_find_full(const char *full, size_t len);
bool tr_config_has_section(const char *name, size_t len);

/* Checks a value and takes it over, whatever was there. */
TR_MUST_USE int tr_config_set(struct tr_reading *r, enum tr_key key, const char *value,
                              const struct tr_place *place);

/* Notes the text of a setting without looking at it; text NULL: none. */
TR_MUST_USE int tr_config_note(struct tr_reading *r, enum tr_key key, const char *text,
                               const struct tr_place *place);

/* The sources. read_drop_in finishes what it has read. */
TR_MUST_USE int tr_config_set_defaults(struct tr_reading *r);
TR_MUST_USE int tr_config_read_file(struct tr_reading *r, const char *path);
TR_MUST_USE int tr_config_read_command(struct tr_reading *r, struct tr_flags *flags);
TR_MUST_USE int tr_config_read_drop_in(struct tr_reading *r, int first);

/* config_tokens.c: a token. `place->name` is where it stands, with its name. */
TR_MUST_USE int tr_config_set_token(struct tr_reading *r, const char *name, const char *value,
                                    const struct tr_place *place);
void tr_config_drop_tokens(struct tr_config *c);

/* Says which tokens are different now; gives how many are. */
unsigned tr_config_compare_tokens(const struct tr_config *now, const struct tr_config *fresh,
                                  const struct tr_logger *log);

/* Are there files of beanstalkd in this directory? */
bool tr_config_has_binlog(const char *dir);

/* After the sources: the strings, and what concerns several keys. */
TR_MUST_USE int tr_config_finish(struct tr_reading *r);

/* All of it, into c, which is made new; either way tr_config_fini is due. */
TR_MUST_USE int tr_config_read_all(struct tr_reading *r, struct tr_config *c, int argc, char **argv,
                                   char **env);

#endif
