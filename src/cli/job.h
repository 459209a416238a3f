#ifndef TR_CLI_JOB_H
#define TR_CLI_JOB_H

/* What commands about jobs share. See job.c. */

#include "cli/cli.h"

/* How a job is named by key, for the options of a command. */
#define TR_CLI_KEY_OPTIONS                                                                         \
    {.name = "--topic", .value = "TOPIC", .about = "with --key, instead of the ID: its topic"},    \
    {                                                                                              \
        .name = "--key", .value = "KEY", .about = "and its key"                                    \
    }

/* What jobs a list or a bulk is about. */
#define TR_CLI_FILTER_OPTIONS(states)                                                              \
    {.name = "--state", .value = "STATE", .about = "only those that are " states, .sent = true},   \
        {.name = "--tag", .value = "TAG", .about = "only those with this tag", .sent = true},      \
        {.name = "--due-from",                                                                     \
         .value = "TIME",                                                                          \
         .about = "only those that are due then or later",                                         \
         .sent = true},                                                                            \
    {                                                                                              \
        .name = "--due-to", .value = "TIME", .about = "only those that are due before",            \
        .sent = true                                                                               \
    }

/* Adds /v1/jobs/ID or /v1/topics/TOPIC/keys/KEY: from the words, or from --topic and --key. 0, or
 * how the process ends. */
TR_MUST_USE int tr_cli_job_target(const struct tr_cli *c, struct tr_cli_target *t);

/* Asks, and prints the job that is answered, as a table or as JSON. */
TR_MUST_USE int tr_cli_job_send(struct tr_cli *c, const struct tr_cli_request *r);

/* POST or so to the job that the words name, with `verb` behind it and all options that are sent.
 */
TR_MUST_USE int tr_cli_job_do(struct tr_cli *c, const char *method, const char *verb);

/* The sent options as a JSON object, to be freed; `more` is JSON that is added, or NULL. */
char *tr_cli_object(const struct tr_cli *c, const char *more);

/* Something that is done to all jobs that match. */
struct tr_cli_bulk {
    const char *target;
    const char *done;          /* the word for it */
    const char *const *states; /* jobs that it is done to: others match and stay; NULL at the end */
};

/* Does it, again and again until all that match had it. A terminal is asked first. */
TR_MUST_USE int tr_cli_bulk(struct tr_cli *c, const struct tr_cli_bulk *b);

/* Is there a filter, and no job? */
bool tr_cli_is_bulk(const struct tr_cli *c);

#endif
