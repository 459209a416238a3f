#ifndef TR_TEST_UNIT_EAR_H
#define TR_TEST_UNIT_EAR_H

/* A logger that writes into memory, for tests that want to know what was said. */

#include "server/logger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct ear {
    struct tr_logger log;
    char *text;
    size_t len;
};

static inline void listen(struct ear *e, enum tr_log_level level, bool json)
{
    tr_logger_init(&e->log, level, json);
    assert_ptr_equal(e->log.out, stderr);
    e->log.out = open_memstream(&e->text, &e->len);
    assert_non_null(e->log.out);
}

/* What it heard; belongs to the ear until `deafen`. */
static inline const char *heard(struct ear *e)
{
    assert_int_equal(fflush(e->log.out), 0);
    return e->text;
}

static inline void deafen(struct ear *e)
{
    assert_int_equal(fclose(e->log.out), 0);
    free(e->text);
    *e = (struct ear){.text = NULL};
}

#endif
