/*
 * The body is in a file in memory, which the child has as its stdin: nobody has to feed a pipe, and
 * a command that reads nothing does not mind. Each field of the job is a variable, due_ms is
 * TARRY_DUE_MS; what another job left in our own environment is taken out.
 *
 * A child has its own process group: a Ctrl-C at the terminal is for us, and a time-out ends all
 * that the command has started. If we die, it is told so.
 */

#include "cli/child.h"

#include "cli/cli.h"
#include "cli/json.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

enum { VARIABLES = 64 };

static const char *const fields[] = {"id",       "lease",      "lease_ms", "topic",  "key",
                                     "tag",      "state",      "priority", "due",    "due_ms",
                                     "attempts", "created_ms", "ttr_ms",   "ttl_ms", "retries",
                                     "backoff",  "late_ms",    "attempt"};

enum { FIELDS = sizeof fields / sizeof fields[0] };

bool tr_child_exists(const char *name)
{
    const char *path = getenv("PATH");
    char whole[4096];

    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0;
    }
    for (path = path != NULL ? path : "/bin:/usr/bin"; *name != '\0';) {
        size_t len = strcspn(path, ":");

        (void)snprintf(whole, sizeof whole, "%.*s/%s", (int)len, len > 0 ? path : ".", name);
        if (access(whole, X_OK) == 0) {
            return true;
        }
        if (path[len] == '\0') {
            break;
        }
        path += len + 1;
    }
    return false;
}

/* TARRY_DUE_MS=… of the field, to be freed. */
static char *variable(const char *field, const char *value)
{
    size_t room = strlen(field) + strlen(value) + 8;
    char *out = tr_cli_memory(NULL, room);
    int len = snprintf(out, room, "TARRY_%s=", field);

    for (int i = 6; i < len; i++) {
        out[i] = (char)toupper((unsigned char)out[i]);
    }
    memcpy(out + len, value, strlen(value) + 1);
    return out;
}

/* Is it one of those that we set? */
static bool is_ours(const char *line)
{
    if (strncmp(line, "TARRY_SERVER=", 13) == 0) {
        return true;
    }
    for (unsigned i = 0; i < FIELDS; i++) {
        size_t len = strlen(fields[i]);

        if (strncmp(line, "TARRY_", 6) == 0 && strncasecmp(line + 6, fields[i], len) == 0 &&
            line[6 + len] == '=') {
            return true;
        }
    }
    return false;
}

/* What a field says, to be freed; NULL: the job has none. A NUL in it ends it. */
static char *value_of(const struct tr_json_value *job, const char *field)
{
    struct tr_json_value v;
    size_t len;
    char *text;

    if (strcmp(field, "attempt") == 0) { /* as a webhook calls it */
        field = "attempts";
    }
    if (!tr_cli_member(job, field, &v)) {
        return NULL;
    }
    if (v.kind == TR_JSON_STRING_KIND) {
        return tr_cli_bytes(job, field, &len);
    }
    text = tr_cli_memory(NULL, v.len + 1);
    memcpy(text, v.text, v.len);
    text[v.len] = '\0';
    return text;
}

/* Our environment and the job. What begins at `made` is to be freed. */
static char **environment(const struct tr_json_value *job, const char *server, size_t *made)
{
    size_t count = 0;
    char **all;

    while (environ[count] != NULL) {
        count++;
    }
    all = tr_cli_memory(NULL, (count + FIELDS + 2) * sizeof *all);
    count = 0;
    for (char **line = environ; *line != NULL; line++) {
        if (!is_ours(*line)) {
            all[count++] = *line;
        }
    }
    *made = count;
    all[count++] = variable("SERVER", server);
    for (unsigned i = 0; i < FIELDS; i++) {
        char *value = value_of(job, fields[i]);

        if (value != NULL) {
            all[count++] = variable(fields[i], value);
        }
        free(value);
    }
    all[count] = NULL;
    return all;
}

/* The body, to be read from its beginning. -1: see errno. */
static int body_file(const struct tr_json_value *job)
{
    int fd = memfd_create("tarry-body", MFD_CLOEXEC);
    size_t len;
    char *body = tr_cli_body(job, &len);
    size_t at = 0;

    while (fd >= 0 && at < len) {
        ssize_t wrote = write(fd, body + at, len - at);

        if (wrote < 0) {
            int why = errno;

            (void)close(fd);
            fd = -1;
            errno = why;
        } else {
            at += (size_t)wrote;
        }
    }
    free(body);
    if (fd >= 0) {
        (void)lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

_Noreturn static void become(char *const *argv, char *const *env, int body, int out)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(body, STDIN_FILENO) == STDIN_FILENO && dup2(out, STDOUT_FILENO) == STDOUT_FILENO) {
        (void)execvpe(argv[0], argv, env);
    }
    _exit(127);
}

pid_t tr_child_start(char *const *argv, const struct tr_json_value *job, const char *server,
                     int out)
{
    int body = body_file(job);
    size_t made;
    char **env;
    pid_t pid;

    if (body < 0) {
        return -1;
    }
    env = environment(job, server, &made);
    (void)fflush(NULL); /* nothing is to be written twice */
    pid = fork();
    if (pid == 0) {
        become(argv, env, body, out);
    }
    if (pid > 0) {
        (void)setpgid(pid, pid); /* whoever comes first */
    }
    for (size_t i = made; env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
    (void)close(body);
    return pid;
}
