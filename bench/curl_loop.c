/*
 * bench-curl URL COUNT CONCURRENCY: the limit of webhooks: libcurl's multi interface with nothing
 * around it.
 *
 * Posts COUNT bodies of 100 bytes with the headers that an outlet sends (signature and all but its
 * calculation), CONCURRENCY at a time, over connections that are kept alive. Prints ops=, jobs=,
 * secs= and client_cpu= on one line.
 */

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { BODY = 100 };

static char body[BODY + 1];

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t drop(char *bytes, size_t one, size_t len, void *ctx)
{
    (void)bytes;
    (void)one;
    (void)ctx;
    return len;
}

static struct curl_slist *headers(void)
{
    static const char *const lines[] = {
        "Expect:",           "Content-Type: application/octet-stream",
        "Tarry-Id: 1234567", "Tarry-Topic: default",
        "Tarry-Attempt: 1",  "Tarry-Due: 2026-11-15T08:30:00.123Z",
        "Tarry-Late-Ms: 0",  "Idempotency-Key: 1234567",
    };
    struct curl_slist *list = NULL;

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        list = curl_slist_append(list, lines[i]);
    }
    return list;
}

static CURL *make(const char *url, struct curl_slist *list)
{
    CURL *easy = curl_easy_init();

    if (easy == NULL || curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)BODY) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 10000L) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop) != CURLE_OK) {
        fputs("bench-curl: no memory\n", stderr);
        exit(1);
    }
    return easy;
}

/* Takes what has ended and begins the next; gives how many ended well. */
static long turn(CURLM *multi, long *left)
{
    CURLMsg *m;
    long ended = 0;
    int more;

    while ((m = curl_multi_info_read(multi, &more)) != NULL) {
        CURL *easy = m->easy_handle;
        long status = 0;

        if (m->data.result != CURLE_OK ||
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200) {
            fprintf(stderr, "bench-curl: %s, status %ld\n", curl_easy_strerror(m->data.result),
                    status);
            exit(1);
        }
        ended++;
        (void)curl_multi_remove_handle(multi, easy);
        if (*left > 0) {
            (*left)--;
            (void)curl_multi_add_handle(multi, easy);
        }
    }
    return ended;
}

int main(int argc, char **argv)
{
    long count = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    long wide = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    struct curl_slist *list = headers();
    CURLM *multi = curl_multi_init();
    struct rusage used;
    long left = count;
    long done = 0;
    double begin;
    double took;

    if (count <= 0 || wide <= 0 || multi == NULL) {
        fputs("usage: bench-curl URL COUNT CONCURRENCY\n", stderr);
        return 2;
    }
    memset(body, 'x', BODY);
    (void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, wide);
    begin = now_s();
    for (long i = 0; i < wide && left > 0; i++, left--) {
        (void)curl_multi_add_handle(multi, make(argv[1], list));
    }
    while (done < count) {
        int running;

        (void)curl_multi_perform(multi, &running);
        done += turn(multi, &left);
        if (done < count) {
            (void)curl_multi_poll(multi, NULL, 0, 1000, NULL);
        }
    }
    took = now_s() - begin;
    (void)getrusage(RUSAGE_SELF, &used);
    printf("ops=%.0f jobs=%ld secs=%.3f client_cpu=%.3f\n", (double)count / took, count, took,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0; /* the process ends, and all of it with it */
}
