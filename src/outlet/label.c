/*
 * One set of names and forms for all kinds of outlets: whoever has read a webhook can read a
 * message of AMQP or Kafka.
 */

#include "outlet/label.h"

#include "base/text.h"
#include "rules/moment.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void put(struct tr_label *l, const char *name, const char *text, size_t len)
{
    *l = (struct tr_label){name, text != NULL ? text : "", text != NULL ? len : 0};
}

void tr_labels_init(struct tr_labels *l, const struct tr_send *s)
{
    enum { ROOM = sizeof l->room[0] };

    static_assert(sizeof l->room[0] >= TR_MOMENT_TEXT, "room for a moment");
    *l = (struct tr_labels){0};
    tr_text(l->room[0], ROOM, "%" PRIu64, s->id);
    tr_text(l->room[1], ROOM, "%" PRIu32, s->attempt);
    (void)tr_moment_print(l->room[2], (int64_t)s->due_us);
    tr_text(l->room[3], ROOM, "%" PRIu64, s->late_us / 1000);
    put(&l->at[TR_LABEL_ID], "Tarry-Id", l->room[0], strlen(l->room[0]));
    put(&l->at[TR_LABEL_TOPIC], "Tarry-Topic", s->topic, s->topic_len);
    put(&l->at[TR_LABEL_KEY], "Tarry-Key", s->key, s->key_len);
    put(&l->at[TR_LABEL_TAG], "Tarry-Tag", s->tag, s->tag_len);
    put(&l->at[TR_LABEL_ATTEMPT], "Tarry-Attempt", l->room[1], strlen(l->room[1]));
    put(&l->at[TR_LABEL_DUE], "Tarry-Due", l->room[2], strlen(l->room[2]));
    put(&l->at[TR_LABEL_LATE], "Tarry-Late-Ms", l->room[3], strlen(l->room[3]));
}
