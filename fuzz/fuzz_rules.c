/*
 * Texts of requests and configs: each input is read as everything that src/rules reads. What can
 * be read must be printed, and read again as the same.
 */

#include "base/err.h"
#include "port/request.h"
#include "rules/backoff.h"
#include "rules/cron.h"
#include "rules/duration.h"
#include "rules/moment.h"
#include "rules/schedule.h"
#include "rules/ticks.h"
#include "rules/token_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) {
        abort();
    }
}

static void check_duration(const char *text, size_t len)
{
    char printed[TR_DURATION_TEXT];
    const char *why = NULL;
    uint64_t us;
    uint64_t again;
    int64_t moved;

    must(tr_duration_read_signed(text, len, &moved, &why) != TARRY_OK ||
         (moved >= -(int64_t)TR_DELAY_MAX_US && moved <= (int64_t)TR_DELAY_MAX_US));
    if (tr_duration_read(text, len, &us, &why) != TARRY_OK) {
        must(why != NULL);
        return;
    }
    must(us <= TR_DELAY_MAX_US);
    tr_duration_tell(printed, us);
    tr_duration_print(printed, us);
    must(tr_duration_read(printed, strlen(printed), &again, &why) == TARRY_OK && again == us);
}

static void check_moment(const char *text, size_t len)
{
    char printed[TR_MOMENT_TEXT];
    const char *why = NULL;
    int64_t us;
    int64_t again;

    if (tr_moment_read(text, len, &us, &why) != TARRY_OK) {
        must(why != NULL);
        return;
    }
    must(tr_moment_print(printed, us) == strlen(printed));
    if (strlen(printed) == 24) { /* else a zone has moved it out of the years that are read */
        must(tr_moment_read(printed, 24, &again, &why) == TARRY_OK);
        must(again <= us && us - again < 1000);
    }
}

static void check_backoff(const char *text, size_t len)
{
    char printed[TR_BACKOFF_TEXT];
    const char *why = NULL;
    struct tr_backoff b;
    struct tr_backoff again;

    if (tr_backoff_read(text, len, &b, &why) != TARRY_OK) {
        must(why != NULL);
        return;
    }
    tr_backoff_print(printed, &b);
    must(tr_backoff_read(printed, strlen(printed), &again, &why) == TARRY_OK);
    for (uint32_t i = 1; i != 0; i *= 2) {
        must(tr_backoff_delay(&b, i, i) == tr_backoff_delay(&again, i, i));
        must(tr_backoff_delay(&b, i, i) <= 2 * TR_DELAY_MAX_US);
    }
}

/* What can be read has a next match that is one, and is told before its end. */
static void check_cron(const char *text, size_t len)
{
    char why[TR_CRON_WHY];
    struct tr_cron c;
    int64_t first;
    int64_t again;

    if (tr_cron_read(text, len, &c, why) != TARRY_OK) {
        must(why[0] != '\0');
        return;
    }
    if (tr_cron_next(&c, 1800000000, 1800000000 + INT64_C(50) * 366 * 86400, &first)) {
        must(first >= 1800000000);
        must(tr_cron_next(&c, first, first + 1, &again) && again == first);
    }
}

/* The same as a config: each token that can be read is printed as one that says the same. */
static void check_tokens(const char *text, size_t len)
{
    struct tr_token_file f = {.text = text, .len = len};

    while (tr_token_file_next(&f)) {
        struct tr_token_pair pair;
        struct tr_token t;
        struct tr_token again;
        char printed[TR_TOKEN_LINE];
        char more[TR_TOKEN_LINE];
        const char *why = NULL;

        must(f.from < f.to && f.to <= len);
        if (tr_token_split(&pair, text + f.from, tr_token_file_line_len(&f)) != TARRY_OK) {
            continue;
        }
        if (tr_token_read(&t, pair.name, pair.value, &why) != TARRY_OK) {
            must(why != NULL);
            continue;
        }
        tr_token_print(printed, &t);
        must(tr_token_split(&pair, printed, strlen(printed)) == TARRY_OK);
        must(tr_token_read(&again, pair.name, pair.value, &why) == TARRY_OK);
        tr_token_print(more, &again);
        must(strcmp(printed, more) == 0 && t.all == again.all);
        (void)tr_token_has_topic(&t, text, len < 200 ? len : 200);
    }
}

/* The same bytes as a file of a zone, and as a schedule. */
static void check_bytes(const uint8_t *data, size_t len)
{
    static uint8_t again[TR_SCHEDULE_BYTES_MAX];
    struct tr_schedule s;
    struct tr_zone z;

    if (tr_zone_read(data, len, &z) == TARRY_OK) {
        struct tr_zone_span span = tr_zone_at(&z, 1800000000);

        must(span.from_s <= 1800000000 && span.until_s > 1800000000);
    }
    if (tr_schedule_decode(data, len, &s) == TARRY_OK) {
        struct tr_schedule same;

        must(tr_schedule_decode(again, tr_schedule_encode(again, &s), &same) == TARRY_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    if (size > 4096) {
        return 0;
    }
    check_duration(text, size);
    check_moment(text, size);
    check_backoff(text, size);
    check_cron(text, size);
    check_tokens(text, size);
    check_bytes(data, size);
    return 0;
}
