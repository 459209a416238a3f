/*
 * Stands in for libFuzzer's main: feeds files to a fuzzer, one by one, so that any compiler can
 * replay a corpus.
 *
 *     replay_<name> DIR-OR-FILE...
 *
 * A folder is read in the order of its names and may be absent: then there is nothing to replay.
 * The empty input is always fed first. A crash is the failure; the last file named is the culprit.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 16 << 20, PATH_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void feed(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    uint8_t *exact;
    size_t size;

    if (file == NULL || data == NULL) {
        die("cannot read", path);
    }
    size = fread(data, 1, INPUT_BYTES_MAX, file);
    if (ferror(file) || !feof(file)) {
        die("cannot read all of", path);
    }
    fclose(file);
    exact = realloc(data, size + (size == 0)); /* so that a sanitizer sees a read past the end */
    if (exact == NULL) {
        die("no memory for", path);
    }
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static unsigned feed_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_visible, alphasort);

    if (count < 0) {
        die("cannot list", folder);
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES_MAX];

        if (snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) >= PATH_BYTES_MAX) {
            errno = ENAMETOOLONG;
            die("cannot read", folder);
        }
        feed(path);
        free(entries[i]);
    }
    free(entries);
    return (unsigned)count;
}

int main(int argc, char **argv)
{
    unsigned count = 1;

    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st) != 0) {
            if (errno != ENOENT) {
                die("cannot read", argv[i]);
            }
        } else if (S_ISDIR(st.st_mode)) {
            count += feed_folder(argv[i]);
        } else {
            feed(argv[i]);
            count++;
        }
    }
    printf("%u inputs replayed\n", count);
    return 0;
}
