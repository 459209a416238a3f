/* Tokens in use: who it is, how often, and what becomes of sessions when tokens change. */

#include "proto/auth.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static const struct tr_now start = {.wall_us = 5, .boot_us = 10 * SECOND};

/* The token itself, cut or filled up. */
static bool digest(void *ctx, const void *bytes, size_t len, uint8_t out[TR_DIGEST_BYTES])
{
    (void)ctx;
    memset(out, 0, TR_DIGEST_BYTES);
    memcpy(out, bytes, len < TR_DIGEST_BYTES ? len : TR_DIGEST_BYTES);
    return true;
}

static uint64_t peer(void *ctx, const void *session)
{
    (void)ctx;
    return *(const uint64_t *)session;
}

static unsigned warned;

static void warn(void *ctx, const void *session)
{
    (void)ctx;
    (void)session;
    warned++;
}

static struct tr_token make(const char *name, const char *topics, unsigned roles, const char *text)
{
    struct tr_token t = {.roles = roles, .all = strcmp(topics, "*") == 0};

    strncpy(t.name, name, sizeof t.name - 1);
    strncpy(t.topics, topics, sizeof t.topics - 1);
    (void)digest(NULL, text, strlen(text), t.digest);
    return t;
}

struct fixture {
    struct tr_mem mem;
    struct tr_auth auth;
    struct tr_token tokens[3];
    uint64_t session;
    struct tr_auth_pass pass;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){.session = 1};
    tr_mem_init(&f->mem, 0);
    f->auth =
        (struct tr_auth){.mem = &f->mem, .digest = {.sha256 = digest}, .peer = peer, .warn = warn};
    f->pass.session = &f->session;
    f->tokens[0] = make("a", "*", TR_ROLE_READ, "aaa");
    f->tokens[1] = make("b", "orders*", TR_ROLE_PRODUCE, "bbb");
    f->tokens[2] = make("c", "x", TR_ROLES_ALL, "ccc");
    assert_int_equal(tr_auth_set(&f->auth, f->tokens, 3, start), TARRY_OK);
    tr_auth_forget(&f->auth);
    warned = 0;
}

static void end(struct fixture *f)
{
    tr_auth_fini(&f->auth);
    assert_int_equal(f->mem.used_bytes, 0);
}

static enum tr_auth_verdict check(struct fixture *f, const char *token, struct tr_now now)
{
    return tr_auth_check(&f->auth, &f->pass, token, strlen(token), now);
}

static void test_auth_who_it_is(void **state)
{
    struct fixture f;
    char longest[TR_AUTH_TOKEN_MAX + 1];

    (void)state;
    begin(&f);
    assert_true(tr_auth_on(&f.auth));
    assert_false(tr_auth_on(NULL));
    assert_int_equal(check(&f, "bbb", start), TR_AUTH_FINE);
    assert_string_equal(f.pass.who->is.name, "b");
    assert_true(tr_auth_role(f.pass.who, TR_ROLE_PRODUCE));
    assert_false(tr_auth_role(f.pass.who, TR_ROLE_READ | TR_ROLE_CONSUME));
    assert_true(tr_auth_topic(f.pass.who, "orders-1", 8));
    assert_false(tr_auth_topic(f.pass.who, "order", 5));
    assert_true(tr_auth_narrow(f.pass.who));
    assert_int_equal(check(&f, "", start), TR_AUTH_ABSENT);
    assert_int_equal(f.auth.absent, 1);
    assert_ptr_equal(f.pass.who, &tr_auth_nobody); /* not the one before */
    assert_int_equal(check(&f, "bb", start), TR_AUTH_WRONG);
    assert_ptr_equal(f.pass.who, &tr_auth_nobody);
    assert_false(tr_auth_role(f.pass.who, TR_ROLE_READ));
    assert_false(tr_auth_topic(f.pass.who, "x", 1));
    assert_true(tr_auth_narrow(f.pass.who));
    memset(longest, 'a', sizeof longest);
    assert_int_equal(tr_auth_check(&f.auth, &f.pass, longest, sizeof longest, start),
                     TR_AUTH_WRONG);
    assert_true(tr_auth_role(NULL, TR_ROLE_ADMIN)); /* there are no tokens */
    assert_true(tr_auth_topic(NULL, "x", 1));
    assert_false(tr_auth_narrow(NULL));
    end(&f);
}

static void test_auth_wrong_ones_are_counted_by_address(void **state)
{
    struct fixture f;
    struct tr_now later = start;

    (void)state;
    begin(&f);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(check(&f, "no", start), TR_AUTH_WRONG);
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(check(&f, "no", start), TR_AUTH_TOO_MANY);
    }
    assert_int_equal(warned, 1);
    assert_int_equal(f.auth.failed, 110);
    assert_int_equal(f.auth.too_many, 10);
    assert_int_equal(check(&f, "aaa", start), TR_AUTH_FINE); /* nobody is locked out */
    f.session = 2;
    assert_int_equal(check(&f, "no", start), TR_AUTH_WRONG); /* somebody else */
    f.session = 1;
    later.boot_us += SECOND;
    assert_int_equal(check(&f, "no", later), TR_AUTH_WRONG);
    assert_int_equal(check(&f, "no", later), TR_AUTH_TOO_MANY);
    assert_int_equal(warned, 1);
    later.boot_us += 60 * SECOND;
    for (unsigned i = 0; i < 100; i++) {
        (void)check(&f, "no", later);
    }
    assert_int_equal(warned, 2);
    end(&f);
}

/* However many there are, it takes no more memory, and whoever goes on is not forgotten. */
static void test_auth_many_addresses(void **state)
{
    struct fixture f;
    struct tr_now now = start;
    unsigned too_many = 0;

    (void)state;
    begin(&f);
    for (uint64_t i = 0; i < 20000; i++) {
        f.session = i % 2 == 0 ? 7 : 1000 + i;
        now.boot_us += 100;
        too_many += check(&f, "no", now) == TR_AUTH_TOO_MANY;
    }
    assert_true(too_many > 9000 && too_many < 10000);
    end(&f);
}

static void test_auth_rate(void **state)
{
    struct fixture f;
    struct tr_now now = start;

    (void)state;
    begin(&f);
    f.tokens[0].rate_milli = 2000;
    assert_int_equal(tr_auth_set(&f.auth, f.tokens, 3, now), TARRY_OK);
    assert_int_equal(check(&f, "aaa", now), TR_AUTH_FINE);
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), 0);
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), 0);
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), SECOND / 2);
    assert_int_equal(f.auth.limited, 1);
    assert_int_equal(tr_auth_set(&f.auth, f.tokens, 3, now), TARRY_OK); /* it is not full again */
    assert_true(tr_auth_again(&f.auth, &f.pass));
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), SECOND / 2);
    now.boot_us += SECOND / 2;
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), 0);
    assert_true(tr_auth_spend(&f.auth, &f.pass, now) > 0);
    assert_int_equal(check(&f, "bbb", now), TR_AUTH_FINE); /* another one has no rate */
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), 0);
    }
    f.pass.who = NULL;
    assert_int_equal(tr_auth_spend(&f.auth, &f.pass, now), 0);
    end(&f);
}

static void test_auth_other_tokens(void **state)
{
    struct fixture f;
    struct tr_auth_pass was;
    struct tr_token swapped[3];

    (void)state;
    begin(&f);
    swapped[0] = f.tokens[2];
    swapped[1] = f.tokens[1];
    swapped[2] = f.tokens[0];
    assert_int_equal(check(&f, "aaa", start), TR_AUTH_FINE);
    was = f.pass;
    assert_int_equal(tr_auth_set(&f.auth, swapped, 3, start), TARRY_OK);
    assert_true(tr_auth_again(&f.auth, &f.pass)); /* the same one, in another place */
    assert_ptr_equal(f.pass.who, &f.auth.tokens[2]);
    assert_string_equal(f.pass.who->is.name, "a");
    tr_auth_forget(&f.auth);
    swapped[2] = make("a", "y", TR_ROLE_READ, "aaa");
    assert_int_equal(tr_auth_set(&f.auth, swapped, 3, start), TARRY_OK);
    assert_false(tr_auth_again(&f.auth, &f.pass)); /* for another topic */
    assert_string_equal(f.pass.who->is.topics, "y");
    tr_auth_forget(&f.auth);
    swapped[2] = make("a", "y", TR_ROLE_READ, "new");
    assert_int_equal(tr_auth_set(&f.auth, swapped, 3, start), TARRY_OK);
    assert_false(tr_auth_again(&f.auth, &f.pass)); /* revoked */
    assert_ptr_equal(f.pass.who, &tr_auth_nobody);
    assert_int_equal(tr_auth_set(&f.auth, NULL, 0, start), TARRY_OK);
    assert_true(tr_auth_again(&f.auth, &f.pass));
    assert_null(f.pass.who);
    assert_int_equal(tr_auth_set(&f.auth, f.tokens, 3, start), TARRY_OK);
    assert_false(tr_auth_again(&f.auth, &f.pass)); /* who came without a token needs one now */
    assert_ptr_equal(f.pass.who, &tr_auth_nobody);
    (void)was;
    end(&f);
}

static void test_auth_no_memory_changes_nothing(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    for (uint64_t i = 1; i <= 2; i++) {
        f.mem.fail_at = f.mem.calls + i;
        assert_int_equal(tr_auth_set(&f.auth, f.tokens, 1, start), TARRY_ENOMEM);
        assert_int_equal(f.auth.count, 3);
        assert_int_equal(check(&f, "ccc", start), TR_AUTH_FINE);
    }
    f.mem.fail_at = f.mem.calls + 3;
    assert_int_equal(tr_auth_set(&f.auth, f.tokens, 1, start), TARRY_OK);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_who_it_is),
        cmocka_unit_test(test_auth_wrong_ones_are_counted_by_address),
        cmocka_unit_test(test_auth_many_addresses),
        cmocka_unit_test(test_auth_rate),
        cmocka_unit_test(test_auth_other_tokens),
        cmocka_unit_test(test_auth_no_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
