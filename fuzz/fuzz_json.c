/*
 * JSON of clients.
 *
 *     0  u8   the form, and the size of the pieces
 *     1       the text
 *
 * In one piece and in small ones the same is found. Each item is JSON by itself, can be walked to
 * its leaves, and its strings can be written and read again as the same. Text that is no JSON is
 * walked, too: it must not be read past its end.
 */

#include "proto/json_in.h"
#include "proto/json_out.h"
#include "proto/json_read.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 256 };

struct found {
    uint64_t good;
    uint64_t count;
    uint64_t at;
    uint64_t spans[2 * ITEMS_MAX];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void note(struct found *f, const struct tr_json_in *s)
{
    must(s->item_from < s->item_to && s->item_to <= s->at);
    if (f->count < ITEMS_MAX) {
        f->spans[2 * f->count] = s->item_from;
        f->spans[2 * f->count + 1] = s->item_to;
        f->count++;
    }
}

static void scan(struct found *f, enum tr_json_form form, const char *text, size_t len,
                 size_t piece)
{
    struct tr_json_in s;
    enum tr_json_event event = TR_JSON_MORE;
    size_t at = 0;

    memset(f, 0, sizeof *f);
    tr_json_in_init(&s, form);
    while (at < len && event != TR_JSON_BAD) {
        size_t taken;

        event = tr_json_in_feed(&s, text + at, len - at < piece ? len - at : piece, &taken);
        at += taken;
        if (event == TR_JSON_ITEM) {
            note(f, &s);
        }
    }
    while ((event = tr_json_in_end(&s)) == TR_JSON_ITEM) {
        note(f, &s);
    }
    f->good = event == TR_JSON_END;
    f->at = s.at;
    must(s.at == at && (s.why == NULL) == (f->good != 0));
}

/* What a string says, written and read again. */
static void check_string(const struct tr_json_value *v, bool good)
{
    static struct tr_mem mem;
    struct tr_output out;
    struct tr_json j;
    char *said = malloc(v->len + 1); /* exact, so that a sanitizer sees more */
    char *again;
    size_t len = tr_json_unescape(v, said);
    struct tr_json_value w;
    const uint8_t *bytes;
    size_t wrote;

    must(len <= v->len);
    if (good) {
        tr_mem_init(&mem, 0);
        tr_output_init(&out, &mem);
        tr_json_init(&j, &out);
        tr_json_string(&j, said, len);
        wrote = tr_output_ready(&out, 0, &bytes);
        w = tr_json_value_of((const char *)bytes, wrote);
        must(w.kind == TR_JSON_STRING_KIND && w.len == wrote);
        again = malloc(wrote);
        must(tr_json_unescape(&w, again) == len && memcmp(again, said, len) == 0);
        free(again);
        tr_output_fini(&out);
        must(mem.used_bytes == 0);
    }
    free(said);
}

/* To the leaves. */
static void walk(struct tr_json_value v, bool good)
{
    struct tr_json_walk levels[TR_JSON_DEPTH_MAX];
    bool objects[TR_JSON_DEPTH_MAX];
    unsigned depth = 0;
    uint64_t n;

    for (;;) {
        struct tr_json_value name;

        if (v.kind == TR_JSON_STRING_KIND) {
            check_string(&v, good);
        }
        (void)tr_json_u64(&v, &n);
        if (v.kind <= TR_JSON_ARRAY_KIND && depth < TR_JSON_DEPTH_MAX) {
            objects[depth] = v.kind == TR_JSON_OBJECT_KIND;
            tr_json_walk_init(&levels[depth++], &v);
        }
        must(!good || v.kind > TR_JSON_ARRAY_KIND || depth > 0);
        while (depth > 0 &&
               !(objects[depth - 1] ? tr_json_walk_member(&levels[depth - 1], &name, &v)
                                    : tr_json_walk_element(&levels[depth - 1], &v))) {
            depth--;
        }
        if (depth == 0) {
            return;
        }
        if (objects[depth - 1]) {
            must(!good || name.kind == TR_JSON_STRING_KIND);
            (void)tr_json_says(&name, "topic");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct found one;
    static struct found many;
    static struct found item;
    const char *text = (const char *)data + 1;
    enum tr_json_form form;

    if (size < 2 || size > 65536) {
        return 0;
    }
    size--;
    form = (enum tr_json_form)(data[0] % 3);
    scan(&one, form, text, size, size);
    scan(&many, form, text, size, 1 + data[0] / 3 % 8);
    must(memcmp(&one, &many, sizeof one) == 0);
    if (one.good == 0) {
        walk(tr_json_value_of(text, size), false);
        return 0;
    }
    for (unsigned i = 0; i < one.count; i++) {
        const char *from = text + one.spans[2 * i];
        size_t len = (size_t)(one.spans[2 * i + 1] - one.spans[2 * i]);
        struct tr_json_value v = tr_json_value_of(from, len);

        scan(&item, TR_JSON_VALUE, from, len, len);
        must(item.good != 0 && item.count == 1 && item.spans[0] == 0 && item.spans[1] == len);
        must(v.text == from && v.len == len);
        walk(v, true);
    }
    return 0;
}
