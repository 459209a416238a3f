/*
 * tarry token: makes tokens, and looks after those in a config.
 *
 *     new       32 random bytes --> the token, printed once; its SHA-256 --> the line, printed too
 *     ls        the lines of the section [tokens], without digests
 *     revoke    cuts one line out; all else in the file stays as it is
 *
 * What a program wants (the token, the line, a table) goes to stdout, what people should know to
 * stderr.
 */

#include "base/err.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "os/digest_linux.h"
#include "os/random_linux.h"
#include "os/replace_linux.h"
#include "proto/auth.h"
#include "rules/decimal.h"
#include "rules/token_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: tarry token new --role ROLE --topics PATTERN[,PATTERN] [FLAGS]\n"
    "       tarry token ls --config FILE [--json]\n"
    "       tarry token revoke NAME --config FILE [--json]\n"
    "\n"
    "new prints a new token, once, and the line for the section [tokens] of the\n"
    "config, which has only its SHA-256:\n"
    "\n"
    "  --role ROLE       read, produce, consume or admin; several as in produce+consume\n"
    "  --topics P,P      names of topics, with * for any bytes; '*' is all topics\n"
    "  --name NAME       what logs call it; default: the role and some digits\n"
    "  --rate N          at most so many requests a second\n"
    "  --config FILE     add the line to this file\n"
    "  --json            print a JSON object instead\n"
    "\n"
    "ls prints the tokens in FILE, revoke takes one out of it. A server that runs\n"
    "learns of it by kill -HUP, or at its next start.\n"
    "\n"
    "  --config FILE     default: TARRY_CONFIG in the environment\n"
    "  --help            print this\n"
    "\n"
    "examples:\n"
    "  tarry token new --role produce --topics 'orders*' --name shop\n"
    "  curl -H \"Authorization: Bearer $TOKEN\" localhost:11301/v1/topics\n"
    "  tarry token revoke shop --config /etc/tarry/tarry.conf && kill -HUP PID\n"
    "\n"
    "exit codes: 0 fine; 1 the file could not be read or written, or there is no such\n"
    "            token; 2 wrong usage\n";

enum { SECRET_BYTES = 32, SECRET_TEXT = 6 + 2 * SECRET_BYTES + 1, CONFIG_MAX = 1 << 20 };

struct options {
    const char *role;
    const char *topics;
    const char *name; /* of new: the flag; of revoke: the argument */
    const char *rate;
    const char *config;
    bool json;
    bool revokes;
};

struct config {
    const char *path;
    char *text;
    size_t len;
};

static int usage(const char *why)
{
    return tr_cli_usage("token", "%s", why);
}

/* ---- the config ---- */

static int read_config(struct config *c, const char *path)
{
    *c = (struct config){.path = path};
    switch (tr_replace_linux_read(path, CONFIG_MAX, &c->text, &c->len)) {
    case TARRY_OK:
        return TR_CLI_FINE;
    case TARRY_EFULL:
        fprintf(stderr, "tarry: %s is larger than 1 MiB: is it a config?\n", path);
        return TR_CLI_FAILED;
    default:
        fprintf(stderr, "tarry: %s cannot be read: %s\n", path, strerror(errno));
        return TR_CLI_FAILED;
    }
}

/* Puts `line` in the place of what stands from..to. */
static int change_config(const struct config *c, size_t from, size_t to, const char *line)
{
    size_t len = strlen(line);
    char *text = malloc(c->len + len + 1);
    int err = TARRY_ENOMEM;

    if (text != NULL) {
        memcpy(text, c->text, from);
        memcpy(text + from, line, len);
        memcpy(text + from + len, c->text + to, c->len - to);
        err = tr_replace_linux_write(c->path, text, from + len + c->len - to);
    }
    free(text);
    if (err == TARRY_OK) {
        return TR_CLI_FINE;
    }
    fprintf(stderr, "tarry: %s cannot be written, and is as it was: %s\n", c->path,
            err == TARRY_ENOMEM ? "no memory" : strerror(errno));
    return TR_CLI_FAILED;
}

/* Reads the line that f stands at. A bad one is told. */
static int read_line(const struct config *c, const struct tr_token_file *f, struct tr_token *t)
{
    struct tr_token_pair pair;
    const char *why = "is no NAME = ROLE PATTERN sha256:HEX";

    if (tr_token_split(&pair, f->text + f->from, tr_token_file_line_len(f)) == TARRY_OK &&
        tr_token_read(t, pair.name, pair.value, &why) == TARRY_OK) {
        return TR_CLI_FINE;
    }
    fprintf(stderr, "tarry: %s:%d: the token %s.\n", c->path, f->number, why);
    return TR_CLI_USAGE;
}

/* Looks for a token of that name. Stands at its line, or at the end; counts the others. */
static bool find(const struct config *c, struct tr_token_file *f, const char *name,
                 unsigned *others)
{
    struct tr_token_file at = {.text = c->text, .len = c->len};
    struct tr_token_pair pair;
    bool found = false;

    *others = 0;
    while (tr_token_file_next(&at)) {
        if (tr_token_split(&pair, at.text + at.from, tr_token_file_line_len(&at)) == TARRY_OK &&
            strcmp(pair.name, name) == 0) {
            found = true;
            *f = at;
        } else {
            (*others)++;
        }
    }
    if (!found) {
        *f = at;
    }
    return found;
}

/* ---- new ---- */

static void print_hex(char *out, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

/* The secret and its digest. */
static int make(struct tr_token *t, char secret[SECRET_TEXT])
{
    uint8_t bytes[SECRET_BYTES];
    struct tr_digest digest;
    bool ok = tr_random_linux_fill(bytes, sizeof bytes) == TARRY_OK;

    if (ok && tr_digest_linux_open(&digest) == TARRY_OK) {
        memcpy(secret, "tarry_", 6);
        print_hex(secret + 6, bytes, sizeof bytes);
        ok = digest.sha256(digest.ctx, secret, strlen(secret), t->digest);
        tr_digest_linux_close(&digest);
    } else {
        ok = false;
    }
    if (!ok) {
        fputs("tarry: the system has no random numbers, or OpenSSL no SHA-256.\n", stderr);
    }
    return ok ? TR_CLI_FINE : TR_CLI_FAILED;
}

static void name_it(struct tr_token *t, const char *name)
{
    char role[TR_TOKEN_ROLES_TEXT];
    char hex[7];

    tr_token_print_roles(role, t->roles);
    for (char *at = role; *at != '\0'; at++) {
        *at = (char)(*at == '+' ? '-' : *at);
    }
    print_hex(hex, t->digest, 3);
    if (name != NULL) {
        tr_text(t->name, sizeof t->name, "%s", name);
    } else {
        tr_text(t->name, sizeof t->name, "%s-%s", role, hex);
    }
}

static int add_to_config(const char *path, const struct tr_token *t)
{
    char text[TR_TOKEN_LINE + 16];
    char line[TR_TOKEN_LINE];
    struct tr_token_file f;
    struct config c;
    unsigned others;
    size_t at;
    int how = read_config(&c, path);

    if (how != TR_CLI_FINE) {
        return how;
    }
    if (find(&c, &f, t->name, &others)) {
        fprintf(stderr,
                "tarry: %s:%d: there is a token of that name: revoke it, or take another "
                "--name.\n",
                path, f.number);
        how = TR_CLI_FAILED;
    } else {
        at = f.end > 0 ? f.end : c.len;
        tr_token_print(line, t);
        tr_text(text, sizeof text, "%s%s%s\n", at > 0 && c.text[at - 1] != '\n' ? "\n" : "",
                f.end > 0 ? "" : "\n[tokens]\n", line);
        how = change_config(&c, at, at, text);
    }
    free(c.text);
    return how;
}

static void tell(const struct options *o, const struct tr_token *t, const char *secret)
{
    struct tr_report out;
    char line[TR_TOKEN_LINE];

    tr_token_print(line, t);
    if (!o->json) {
        printf("%s\n%s\n", secret, line);
        fprintf(stderr,
                "The first line is the token: it is shown this once. %s\n"
                "A server that runs learns of it by kill -HUP.\n",
                o->config != NULL ? "The second was added to the config."
                                  : "The second goes into the section [tokens] of the config.");
        return;
    }
    tr_report_init(&out, stdout, true);
    tr_json_open(&out.j, '{');
    tr_json_name(&out.j, "token");
    tr_json_text(&out.j, secret);
    tr_json_name(&out.j, "name");
    tr_json_text(&out.j, t->name);
    tr_json_name(&out.j, "line");
    tr_json_text(&out.j, line);
    tr_json_close(&out.j, '}');
    tr_report_flush(&out);
    tr_report_fini(&out);
    puts("");
}

static int new_token(const struct options *o)
{
    struct tr_token t = {.roles = 0};
    char secret[SECRET_TEXT];
    const char *why = NULL;
    int how;

    if (o->role == NULL || o->topics == NULL) {
        return usage("new needs --role and --topics.");
    }
    if (o->name != NULL && !tr_token_name_ok(o->name, strlen(o->name))) {
        return usage("--name takes 1 to 64 of A-Za-z0-9_.- without - or . in front.");
    }
    if (tr_token_read_roles(&t, o->role, strlen(o->role), &why) != TARRY_OK ||
        tr_token_read_topics(&t, o->topics, strlen(o->topics), &why) != TARRY_OK ||
        (o->rate != NULL && tr_token_read_rate(&t, o->rate, strlen(o->rate), &why) != TARRY_OK)) {
        return tr_cli_usage("token", "the token %s.", why);
    }
    how = make(&t, secret);
    if (how == TR_CLI_FINE) {
        name_it(&t, o->name);
    }
    if (how == TR_CLI_FINE && o->config != NULL) {
        how = add_to_config(o->config, &t);
    }
    if (how == TR_CLI_FINE) {
        tell(o, &t, secret);
    }
    return tr_cli_end(how);
}

/* ---- ls ---- */

static void tell_row(struct tr_json *j, const struct tr_token *t, bool json)
{
    char role[TR_TOKEN_ROLES_TEXT];
    char rate[TR_DECIMAL_TEXT] = "";

    if (json) {
        tr_json_open(j, '{');
        tr_auth_tell(j, t);
        tr_json_close(j, '}');
        return;
    }
    tr_token_print_roles(role, t->roles);
    if (t->rate_milli > 0) {
        tr_decimal_print(rate, t->rate_milli, 3);
    }
    printf("%-24s %-22s %8s  %s\n", t->name, role, rate, t->topics);
}

static int list(const struct options *o)
{
    struct tr_token_file f;
    struct tr_report out;
    struct config c;
    int how = read_config(&c, o->config);

    if (how != TR_CLI_FINE) {
        return how;
    }
    f = (struct tr_token_file){.text = c.text, .len = c.len};
    tr_report_init(&out, stdout, o->json);
    if (o->json) {
        tr_json_open(&out.j, '[');
    } else {
        printf("%-24s %-22s %8s  %s\n", "NAME", "ROLE", "RATE", "TOPICS");
    }
    while (tr_token_file_next(&f)) {
        struct tr_token t;
        int bad = read_line(&c, &f, &t);

        how = bad != TR_CLI_FINE ? bad : how;
        if (bad == TR_CLI_FINE) {
            tell_row(&out.j, &t, o->json);
        }
    }
    if (o->json) {
        tr_json_close(&out.j, ']');
        tr_report_flush(&out);
        puts("");
    }
    tr_report_fini(&out);
    free(c.text);
    return tr_cli_end(how);
}

/* ---- revoke ---- */

static int revoke(const struct options *o)
{
    struct tr_token_file f;
    struct config c;
    unsigned others;
    int how = read_config(&c, o->config);

    if (how != TR_CLI_FINE) {
        return how;
    }
    if (!find(&c, &f, o->name, &others)) {
        fprintf(stderr,
                "tarry: there is no token \"%s\" in %s. (One of --set or the environment "
                "is revoked there.)\n",
                o->name, c.path);
        how = TR_CLI_FAILED;
    } else {
        how = change_config(&c, f.from, f.to, "");
    }
    free(c.text);
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (o->json) {
        printf("{\"revoked\":\"%s\",\"left\":%u}\n", o->name, others); /* as names are, see find */
    } else {
        printf("revoked: %s\n", o->name);
    }
    fputs("A server that runs takes it until kill -HUP, or its next start.\n", stderr);
    if (others == 0) {
        fputs("warning: that was the last token of this file: without any, whoever reaches the "
              "server may do everything.\n",
              stderr);
    }
    return tr_cli_end(how);
}

/* ---- the command line ---- */

/* The flag with its value, as one argument or as two. */
static bool take_flag(const char *flag, const char **value, int *i, int argc, char **argv)
{
    size_t len = strlen(flag);
    const char *arg = argv[*i];

    if (strncmp(arg, flag, len) != 0 || (arg[len] != '\0' && arg[len] != '=')) {
        return false;
    }
    if (arg[len] == '=') {
        *value = arg + len + 1;
    } else {
        *value = *i + 1 < argc ? argv[++*i] : "";
    }
    return true;
}

/* 0, or the exit code. */
static int read_args(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (take_flag("--role", &o->role, &i, argc, argv) ||
            take_flag("--topics", &o->topics, &i, argc, argv) ||
            take_flag("--name", &o->name, &i, argc, argv) ||
            take_flag("--rate", &o->rate, &i, argc, argv) ||
            take_flag("--config", &o->config, &i, argc, argv)) {
            continue;
        }
        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
        } else if (argv[i][0] != '-' && o->revokes && o->name == NULL) {
            o->name = argv[i];
        } else {
            return tr_cli_usage("token", "token %s does not know what to do with \"%s\".", argv[0],
                                argv[i]);
        }
    }
    for (int i = 0; i < 5; i++) {
        const char *const values[] = {o->role, o->topics, o->name, o->rate, o->config};

        if (values[i] != NULL && values[i][0] == '\0') {
            return usage("a flag needs a value.");
        }
    }
    return 0;
}

static int token_main(int argc, char **argv)
{
    struct options o = {.role = NULL};
    const char *what = argc > 0 ? argv[0] : "";
    int how;

    for (int i = 0; i < argc; i++) {
        if (tr_cli_is_help(argv[i])) {
            fputs(help, stdout);
            return tr_cli_end(TR_CLI_FINE);
        }
    }
    o.revokes = strcmp(what, "revoke") == 0;
    if (!o.revokes && strcmp(what, "new") != 0 && strcmp(what, "ls") != 0) {
        return usage("token takes new, ls or revoke.");
    }
    how = read_args(&o, argc, argv);
    if (how != 0) {
        return how;
    }
    if (strcmp(what, "new") == 0) {
        return new_token(&o);
    }
    o.config = o.config != NULL ? o.config : getenv("TARRY_CONFIG");
    if (o.config == NULL || (o.revokes && o.name == NULL)) {
        return usage(o.revokes ? "revoke needs a name, and --config FILE." : "ls needs --config.");
    }
    if (o.role != NULL || o.topics != NULL || o.rate != NULL || (!o.revokes && o.name != NULL)) {
        return usage("--role, --topics, --name and --rate are for new.");
    }
    return o.revokes ? revoke(&o) : list(&o);
}

const struct tr_cli_command tr_cli_command_token = {
    .name = "token",
    .group = TR_CLI_STORES,
    .about = "make tokens, list and revoke those of a config",
    .help = help,
    .main = token_main,
};
