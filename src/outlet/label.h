#ifndef TR_OUTLET_LABEL_H
#define TR_OUTLET_LABEL_H

/* What is told of a job beside its body, as names and texts: headers of messages. See label.c. */

#include "outlet/sender.h"

enum tr_label_name {
    TR_LABEL_ID,
    TR_LABEL_TOPIC,
    TR_LABEL_KEY, /* len 0: it has none */
    TR_LABEL_TAG, /* the same */
    TR_LABEL_ATTEMPT,
    TR_LABEL_DUE,  /* RFC 3339, UTC */
    TR_LABEL_LATE, /* milliseconds */
    TR_LABELS
};

struct tr_label {
    const char *name; /* the same as that of the header of a webhook */
    const char *text; /* without an end */
    size_t len;
};

struct tr_labels {
    struct tr_label at[TR_LABELS];
    char room[4][32]; /* for what is printed */
};

/* Points into s, too. Does not move. */
void tr_labels_init(struct tr_labels *l, const struct tr_send *s);

#endif
