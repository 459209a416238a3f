/*
 *     lost: w.001, offset 8192, 4096 bytes: Batch 7 of the log is damaged ...; jobs 12 to 19
 *     {"fate":"lost","what":"...","file":"w.001","offset":8192,"length":4096,"id":"12",...}
 */

#include "cli/report.h"

#include "rules/moment.h"

#include <inttypes.h>

static const char *const fates[] = {
    [TR_FATE_NONE] = "damaged", [TR_FATE_LOST] = "lost", [TR_FATE_TWICE] = "twice"};

void tr_report_init(struct tr_report *r, FILE *out, bool json)
{
    *r = (struct tr_report){.out = out, .json = json};
    tr_mem_init(&r->mem, 0);
    tr_output_init(&r->bytes, &r->mem);
    tr_json_init(&r->j, &r->bytes);
}

void tr_report_fini(struct tr_report *r)
{
    tr_output_fini(&r->bytes);
}

void tr_report_flush(struct tr_report *r)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(&r->bytes, UINT64_MAX, &bytes);

    if (len > 0) {
        (void)fwrite(bytes, 1, len, r->out); /* ferror tells, in the end */
        tr_output_drop(&r->bytes, len);
    }
}

static void print(const struct tr_report *r, const struct tr_finding *f)
{
    char due[TR_MOMENT_TEXT];

    fprintf(r->out, "%s: ", fates[f->fate]);
    if (f->file[0] != '\0') {
        fprintf(r->out, "%s", f->file);
        if (f->len != 0) {
            fprintf(r->out, ", offset %" PRIu64 ", %" PRIu64 " bytes", f->off, f->len);
        }
        fprintf(r->out, ": ");
    }
    fprintf(r->out, "%s", f->what);
    if (f->id != 0 && f->id_last > f->id) {
        fprintf(r->out, " Jobs from %" PRIu64 " to %" PRIu64 " may be among them.", f->id,
                f->id_last);
    } else if (f->id != 0 && f->id_last == 0) {
        fprintf(r->out, " Job %" PRIu64 ".", f->id);
    }
    if (f->topic != NULL) {
        fprintf(r->out, " Topic %.*s.", (int)f->topic_len, f->topic);
    }
    if (f->due_us != 0) {
        (void)tr_moment_print(due, (int64_t)f->due_us);
        fprintf(r->out, " Due %s.", due);
    }
    fputc('\n', r->out);
}

static void member(struct tr_json *j, const char *name, uint64_t number)
{
    tr_json_name(j, name);
    tr_json_number(j, number);
}

static void print_json(struct tr_report *r, const struct tr_finding *f)
{
    struct tr_json *j = &r->j;
    char due[TR_MOMENT_TEXT];

    tr_json_open(j, '{');
    tr_json_name(j, "fate");
    tr_json_text(j, fates[f->fate]);
    tr_json_name(j, "what");
    tr_json_text(j, f->what);
    if (f->file[0] != '\0') {
        tr_json_name(j, "file");
        tr_json_text(j, f->file);
        member(j, "offset", f->off);
        member(j, "length", f->len);
    }
    if (f->id != 0) {
        tr_json_name(j, "id");
        tr_json_id(j, f->id);
    }
    if (f->id_last != 0) {
        tr_json_name(j, "id_last");
        tr_json_id(j, f->id_last);
    }
    if (f->topic != NULL) {
        tr_json_name(j, "topic");
        tr_json_string(j, f->topic, f->topic_len);
    }
    if (f->due_us != 0) {
        (void)tr_moment_print(due, (int64_t)f->due_us);
        tr_json_name(j, "due");
        tr_json_text(j, due);
        member(j, "due_ms", f->due_us / 1000);
    }
    tr_json_close(j, '}');
    tr_report_flush(r);
}

void tr_report_found(void *ctx, const struct tr_finding *f)
{
    struct tr_report *r = ctx;

    r->findings++;
    r->by_fate[f->fate]++;
    if (r->json) {
        print_json(r, f);
    } else {
        print(r, f);
    }
}
