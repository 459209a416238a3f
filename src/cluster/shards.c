/* See shards.h. During a reshard each command may be sent elsewhere: one question answers for all.
 */

#include "cluster/shards.h"

#include "base/err.h"

#include <string.h>

void tr_shards_init(struct tr_shards *s)
{
    memset(s, 0, sizeof *s);
    s->wanted = true;
}

int tr_shards_name(struct tr_shards *s, const char *name, size_t len)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (strlen(s->names[i]) == len && memcmp(s->names[i], name, len) == 0) {
            return (int)i;
        }
    }
    if (len == 0 || len >= TR_SHARDS_NAME || s->count == TR_SHARDS_SERVERS) {
        return -1;
    }
    memcpy(s->names[s->count], name, len);
    s->names[s->count][len] = '\0';
    return (int)s->count++;
}

void tr_shards_clear(struct tr_shards *s)
{
    memset(s->server, 0, sizeof s->server);
    s->wanted = false;
}

int tr_shards_set(struct tr_shards *s, unsigned first, unsigned last, int server)
{
    if (first > last || last >= TR_HASH_SLOTS || server < 0 || (unsigned)server >= s->count) {
        return TARRY_EINVAL;
    }
    for (unsigned i = first; i <= last; i++) {
        s->server[i] = (uint16_t)(server + 1);
    }
    return TARRY_OK;
}

int tr_shards_find(const struct tr_shards *s, unsigned hash_slot)
{
    return hash_slot < TR_HASH_SLOTS ? (int)s->server[hash_slot] - 1 : -1;
}

bool tr_shards_serves(const struct tr_shards *s, int server)
{
    for (unsigned i = 0; i < TR_HASH_SLOTS; i++) {
        if (s->server[i] == server + 1) {
            return true;
        }
    }
    return false;
}

void tr_shards_doubt(struct tr_shards *s)
{
    s->wanted = true;
}

bool tr_shards_ask(struct tr_shards *s, uint64_t now_us)
{
    if (!s->wanted || (s->asked_us != 0 && now_us < s->asked_us + TR_SHARDS_REFRESH_US)) {
        return false;
    }
    s->asked_us = now_us;
    return true;
}
