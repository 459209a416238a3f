/*
 * hiredis takes the protocol apart; what it finds goes into one piece of memory, not into an object
 * each: the texts of an answer stand one behind the other in `bytes`, and only their lengths are
 * noted, since `bytes` may move while it grows. The places are put in when the answer is complete.
 *
 *     *3 $2 OK $-1 $3 abc    bytes: OKabc    items: 2, nothing, 3
 *
 * The memory is kept for the next answer, if it is not much.
 *
 * A list in a list, and an error in one, become an error: no command of ours is answered so.
 */

#include "remote/reader.h"

#include "base/err.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <string.h>

enum {
    KEEP_BYTES = 256 * 1024,
    KEEP_ITEMS = 1024,
    FIRST_ITEMS = 16,
    FIRST_BYTES = 1024,
    ITEMS_MOST = 1 << 24,
};

#if HIREDIS_MAJOR >= 1
typedef size_t list_len;
#else
typedef int list_len;
#endif

struct tr_reader {
    struct tr_mem *mem;
    redisReader *hiredis;
    struct tr_span *items; /* until the end: `at` is NULL or not */
    size_t count;
    size_t room;
    char *bytes;
    size_t used;
    size_t size;
    bool told;    /* what is here was given out: the next answer begins anew */
    bool error;   /* the answer is one */
    bool strange; /* it is of no kind that we know */
    bool too_long;
};

static bool want_items(struct tr_reader *r, size_t count)
{
    size_t room = r->room != 0 ? r->room : FIRST_ITEMS;
    struct tr_span *items;

    if (count > ITEMS_MOST) {
        r->too_long = true;
        return false;
    }
    while (room < count) {
        room *= 2;
    }
    if (room == r->room) {
        return true;
    }
    items = tr_mem_stretch(r->mem, r->items, r->room * sizeof *items, room * sizeof *items);
    if (items == NULL) {
        return false;
    }
    r->items = items;
    r->room = room;
    return true;
}

static bool want_bytes(struct tr_reader *r, size_t len)
{
    size_t size = r->size != 0 ? r->size : FIRST_BYTES;
    char *bytes;

    if (len > TR_READER_LONGEST - r->used) {
        r->too_long = true;
        return false;
    }
    while (size < r->used + len) {
        size *= 2;
    }
    if (size == r->size) {
        return true;
    }
    bytes = tr_mem_stretch(r->mem, r->bytes, r->size, size);
    if (bytes == NULL) {
        return false;
    }
    r->bytes = bytes;
    r->size = size;
    return true;
}

/* What hiredis is given as an object: anything but NULL, which says that there is no memory. */
static void *add(struct tr_reader *r, const char *text, size_t len)
{
    if (!want_items(r, r->count + 1) || !want_bytes(r, len)) {
        return NULL;
    }
    if (len > 0) {
        memcpy(r->bytes + r->used, text, len);
        r->used += len;
    }
    r->items[r->count++] = (struct tr_span){text, len};
    return r;
}

static void *on_string(const redisReadTask *task, char *text, size_t len)
{
    struct tr_reader *r = task->privdata;

    if (task->type == REDIS_REPLY_ERROR) {
        r->error = true;
        r->strange = r->strange || task->parent != NULL;
    }
    return add(r, text, len);
}

static void *on_list(const redisReadTask *task, list_len len)
{
    struct tr_reader *r = task->privdata;

    if (task->parent != NULL) {
        r->strange = true;
        return r;
    }
    /* What is said to come is not believed beyond that: the rest grows as it comes. */
    return want_items(r, (size_t)len < KEEP_ITEMS ? (size_t)len : KEEP_ITEMS) ? r : NULL;
}

static void *on_integer(const redisReadTask *task, long long value)
{
    char text[24];

    tr_text(text, sizeof text, "%lld", value);
    return add(task->privdata, text, strlen(text));
}

static void *on_nil(const redisReadTask *task)
{
    return add(task->privdata, NULL, 0);
}

static void on_free(void *object)
{
    (void)object; /* it is the reader itself */
}

static redisReplyObjectFunctions functions = {.createString = on_string,
                                              .createArray = on_list,
                                              .createInteger = on_integer,
                                              .createNil = on_nil,
                                              .freeObject = on_free};

struct tr_reader *tr_reader_new(struct tr_mem *mem)
{
    struct tr_reader *r = tr_mem_alloc(mem, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    r->mem = mem;
    r->hiredis = redisReaderCreateWithFunctions(&functions);
    if (r->hiredis == NULL) {
        tr_mem_free(mem, r, sizeof *r);
        return NULL;
    }
    r->hiredis->privdata = r;
    return r;
}

void tr_reader_free(struct tr_reader *r)
{
    if (r == NULL) {
        return;
    }
    redisReaderFree(r->hiredis);
    tr_mem_free(r->mem, r->items, r->room * sizeof *r->items);
    tr_mem_free(r->mem, r->bytes, r->size);
    tr_mem_free(r->mem, r, sizeof *r);
}

static int fault(const struct tr_reader *r)
{
    return r->hiredis->err == REDIS_ERR_OOM && !r->too_long ? TARRY_ENOMEM : TARRY_EDAMAGED;
}

int tr_reader_feed(struct tr_reader *r, const char *bytes, size_t len)
{
    if (redisReaderFeed(r->hiredis, bytes, len) != REDIS_OK) {
        return fault(r);
    }
    /* One text that does not come to its end. */
    return r->hiredis->len - r->hiredis->pos > TR_READER_LONGEST ? TARRY_EDAMAGED : TARRY_OK;
}

/* Makes room for a new answer. */
static void clear(struct tr_reader *r)
{
    if (r->room > KEEP_ITEMS) {
        tr_mem_free(r->mem, r->items, r->room * sizeof *r->items);
        r->items = NULL;
        r->room = 0;
    }
    if (r->size > KEEP_BYTES) {
        tr_mem_free(r->mem, r->bytes, r->size);
        r->bytes = NULL;
        r->size = 0;
    }
    r->count = 0;
    r->used = 0;
    r->told = false;
    r->error = false;
    r->strange = false;
}

static void give(struct tr_reader *r, struct tr_redis_reply *reply)
{
    static const char strange[] = "ERR the answer has lists in lists";
    const char *at = r->bytes;

    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].at != NULL) {
            r->items[i].at = at;
            at += r->items[i].len;
        }
    }
    r->told = true;
    *reply = (struct tr_redis_reply){
        .event = TR_REDIS_LIST, .items = r->items, .count = r->count, .error = {"", 0}};
    if (r->strange) {
        reply->event = TR_REDIS_ERROR;
        reply->error = (struct tr_span){strange, sizeof strange - 1};
    } else if (r->error) {
        reply->event = TR_REDIS_ERROR;
        reply->error = r->items[0];
    }
}

int tr_reader_next(struct tr_reader *r, struct tr_redis_reply *reply, bool *there)
{
    void *object = NULL;

    *there = false;
    if (r->told) {
        clear(r);
    }
    if (redisReaderGetReply(r->hiredis, &object) != REDIS_OK) {
        return fault(r);
    }
    if (object != NULL) {
        *there = true;
        give(r, reply);
    }
    return TARRY_OK;
}
