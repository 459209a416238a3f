/*
 * tarry sql: the tables in MariaDB or MySQL. It stands here and not among the other commands since
 * it reads the config as the server does: file, environment, --set.
 */

#include "base/err.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: tarry sql migrate [--print] [--json] [FLAGS]\n"
    "       tarry sql check [--json] [FLAGS]\n"
    "\n"
    "migrate makes the tables of tarry in MariaDB or MySQL, or brings older ones up to\n"
    "date; what is there stays. It may be run again at any time. The user needs the\n"
    "rights SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP and INDEX in the database,\n"
    "which has to be there.\n"
    "\n"
    "check changes nothing: it says whether tarry serve --engine redis could use them\n"
    "(tables, rights, settings).\n"
    "\n"
    "  --print           migrate: print the statements instead, for somebody else to run\n"
    "  --json            print a JSON object instead; what is wrong stays on stderr\n"
    "  --config FILE     read the section [sql] of this file (or TARRY_CONFIG=FILE)\n"
    "  --set KEY=VALUE   set a key: sql.url, sql.user, sql.password (or TARRY_SQL_URL and\n"
    "                    so on)\n"
    "  --help            print this\n"
    "\n"
    "examples:\n"
    "  tarry sql migrate --config /etc/tarry/tarry.conf\n"
    "  tarry sql check --set sql.url=mariadb://127.0.0.1/tarry --set sql.user=tarry\n"
    "  tarry sql migrate --print | mariadb tarry\n"
    "\n"
    "exit codes: 0 fine; 1 the database cannot be reached or used, stderr says why; 2\n"
    "            wrong usage or config; 3 the tables were made by a newer tarry\n";

#ifdef TR_SQL

#include "remote/sql_migrate.h"
#include "remote/sql_schema.h"

enum { TIMEOUT_S = 60 }; /* a table that is changed may take its time */

static int print(void)
{
    const char *text;

    printf("-- The tables of tarry, schema %d. They may be there already.\n", TR_SQL_SCHEMA);
    for (unsigned to = 1; to <= TR_SQL_SCHEMA; to++) {
        for (unsigned i = 0; (text = tr_sql_schema_step(to, i)) != NULL; i++) {
            printf("%s;\n", text);
        }
    }
    return TR_CLI_FINE;
}

static void tell(const struct tr_sql_access *access, const struct tr_sql_found *found,
                 bool migrates)
{
    char place[TR_SQL_PLACE];
    const char *odd;

    tr_sql_place(place, &access->url);
    if (migrates && found->steps > 0) {
        printf("%s: schema %d is made (it was %u)\n", place, TR_SQL_SCHEMA, found->schema);
    } else if (migrates) {
        printf("%s: schema %d is there already\n", place, TR_SQL_SCHEMA);
    } else {
        printf("%s: schema %u, %s: all is there\n", place, found->schema, found->version);
    }
    for (unsigned i = 0; (odd = tr_sql_odd(found, i)) != NULL; i++) {
        fprintf(stderr, "warning: %s.\n", odd);
    }
}

/* The same as an object. */
static void tell_json(const struct tr_sql_access *access, const struct tr_sql_found *found,
                      bool migrates)
{
    char place[TR_SQL_PLACE];
    const char *odd;
    char *text;

    tr_sql_place(place, &access->url);
    text = tr_cli_quote(place);
    printf("{\"ok\":true,\"place\":%s,\"schema\":%u", text,
           migrates ? (unsigned)TR_SQL_SCHEMA : (unsigned)found->schema);
    free(text);
    if (migrates) {
        printf(",\"was\":%u,\"steps\":%u", (unsigned)found->schema, (unsigned)found->steps);
    } else {
        text = tr_cli_quote(found->version);
        printf(",\"server\":%s", text);
        free(text);
    }
    printf(",\"warnings\":[");
    for (unsigned i = 0; (odd = tr_sql_odd(found, i)) != NULL; i++) {
        text = tr_cli_quote(odd);
        printf("%s%s", i > 0 ? "," : "", text);
        free(text);
    }
    puts("]}");
}

static int do_it(const struct tr_config *c, bool migrates, bool json)
{
    struct tr_sql_access access = {
        .user = c->sql_user, .password = c->sql_password, .timeout_s = TIMEOUT_S};
    struct tr_sql_found found;
    struct tr_sql_fault f;
    const char *why;
    int err;

    if (c->sql_url == NULL || tr_sql_url_read(&access.url, c->sql_url, &why) != TARRY_OK) {
        return tr_cli_usage("sql", "where is the database? Say --set "
                                   "sql.url=mariadb://HOST:PORT/DATABASE, or TARRY_SQL_URL, or url "
                                   "in the section [sql] of --config FILE.");
    }
    if (!tr_sql_library_open()) {
        fputs("tarry: there is no memory left.\n", stderr);
        return TR_CLI_FAILED;
    }
    err = migrates ? tr_sql_migrate(&access, &found, &f)
                   : tr_sql_inspect(&access, c->http_body_max, &found, &f);
    tr_sql_library_close();
    if (err == TARRY_OK) {
        (json ? tell_json : tell)(&access, &found, migrates);
        return TR_CLI_FINE;
    }
    fprintf(stderr, "tarry: %s\n", f.why);
    return err == TARRY_EVERSION ? TR_CLI_DAMAGED : TR_CLI_FAILED;
}

#else

static int no_library(void)
{
    fputs("tarry: this tarry was built without SQL: install libmariadb-dev and build it again.\n",
          stderr);
    return TR_CLI_FAILED;
}

static int print(void)
{
    return no_library();
}

static int do_it(const struct tr_config *c, bool migrates, bool json)
{
    (void)json;
    (void)c;
    (void)migrates;
    return no_library();
}

#endif

struct ways {
    bool prints;
    bool json;
};

/* The words as those of `tarry serve`, which the config reads; NULL: they make no sense, and that
 * was said. */
static char **to_config(int argc, char **argv, struct ways *ways, int *count)
{
    char **words = tr_cli_memory(NULL, ((size_t)argc + 3) * sizeof *words);
    static char program[] = "tarry";
    static char serve[] = "serve";

    words[0] = program;
    words[1] = serve;
    *count = 2;
    for (int i = 1; i < argc; i++) {
        bool two = strcmp(argv[i], "--config") == 0 || strcmp(argv[i], "--set") == 0;

        if (strcmp(argv[i], "--print") == 0 && strcmp(argv[0], "migrate") == 0) {
            ways->prints = true;
            continue;
        }
        if (strcmp(argv[i], "--json") == 0) {
            ways->json = true;
            continue;
        }
        if (!two && strncmp(argv[i], "--config=", 9) != 0 && strncmp(argv[i], "--set=", 6) != 0) {
            (void)tr_cli_usage("sql", "sql %s does not know what to do with \"%s\".", argv[0],
                               argv[i]);
            free(words);
            return NULL;
        }
        words[(*count)++] = argv[i];
        if (two && i + 1 < argc) {
            words[(*count)++] = argv[++i];
        }
    }
    words[*count] = NULL;
    return words;
}

static int run(int argc, char **argv)
{
    bool migrates = strcmp(argv[0], "migrate") == 0;
    struct ways ways = {.prints = false};
    struct tr_config config;
    int count;
    char **words = to_config(argc, argv, &ways, &count);
    int how;

    if (words == NULL) {
        return TR_CLI_USAGE;
    }
    if (ways.prints && ways.json) {
        how = tr_cli_usage("sql", "--print has statements, not JSON: leave out one of them.");
    } else if (ways.prints) {
        how = print();
    } else {
        how = (int)tr_config_read(&config, count, words, environ);
        if (how == TR_CLI_FINE) {
            how = do_it(&config, migrates, ways.json);
        }
        tr_config_fini(&config);
    }
    free(words);
    return how;
}

static int sql_main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (tr_cli_is_help(argv[i])) {
            fputs(help, stdout);
            return tr_cli_end(TR_CLI_FINE);
        }
    }
    if (argc == 0) {
        return tr_cli_usage("sql", "sql needs to know what to do: migrate or check.");
    }
    if (strcmp(argv[0], "migrate") != 0 && strcmp(argv[0], "check") != 0) {
        return tr_cli_usage("sql", "sql does not know what to do with \"%s\".", argv[0]);
    }
    return tr_cli_end(run(argc, argv));
}

const struct tr_cli_command tr_cli_command_sql = {
    .name = "sql",
    .group = TR_CLI_STORES,
    .about = "make or check the tables in MariaDB or MySQL",
    .help = help,
    .main = sql_main,
};
