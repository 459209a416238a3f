/* Signatures of webhooks, against values that `openssl dgst -sha256 -hmac` gives. */

#include "base/err.h"
#include "outlet/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tr_deliver_text text(const char *t)
{
    return (struct tr_deliver_text){t, strlen(t)};
}

/* HMAC("secret", "1700000000.hello"), HMAC("old", the same), HMAC("secret", "0.") */
#define NEW "47b1df0ab12338b2685470b0d2b37033add7c3b2bc8172f313e77413f1bb78c8"
#define OLD "c0d6590df4783154554bdd431196f9c6d8061f1ae151e38b336093226e20efde"
#define EMPTY "3445798a051818ef95def46c2eb62b43d377ce6e3c29b4d0aec3da0e59577f79"

static void test_sign_one_for_each_secret(void **state)
{
    struct tr_deliver d = tr_deliver_new(TR_DELIVER_WEBHOOK);
    struct tr_signer *s;
    char out[TR_SIGNATURE];

    (void)state;
    d.secrets[0] = text("secret");
    d.secrets[1] = text("old");
    d.secret_count = 1;
    assert_int_equal(tr_signer_open(&s, &d), TARRY_OK);
    for (unsigned i = 0; i < 2; i++) { /* the key is used again and again */
        assert_true(tr_signer_sign(s, out, 1700000000, text("hello")));
        assert_string_equal(out, "t=1700000000,v1=" NEW);
    }
    assert_true(tr_signer_sign(s, out, 0, text("")));
    assert_string_equal(out, "t=0,v1=" EMPTY);
    tr_signer_close(s);

    d.secret_count = 2;
    assert_int_equal(tr_signer_open(&s, &d), TARRY_OK);
    assert_true(tr_signer_sign(s, out, 1700000000, text("hello")));
    assert_string_equal(out, "t=1700000000,v1=" NEW ",v1=" OLD);
    tr_signer_close(s);
}

static void test_sign_longest_fits(void **state)
{
    struct tr_deliver d = tr_deliver_new(TR_DELIVER_WEBHOOK);
    struct tr_signer *s;
    char out[TR_SIGNATURE + 1];

    (void)state;
    for (d.secret_count = 0; d.secret_count < TR_DELIVER_SECRETS_MAX; d.secret_count++) {
        d.secrets[d.secret_count] = text("x");
    }
    out[TR_SIGNATURE] = '!';
    assert_int_equal(tr_signer_open(&s, &d), TARRY_OK);
    assert_true(tr_signer_sign(s, out, UINT64_MAX, text("hello")));
    assert_int_equal(out[TR_SIGNATURE], '!');
    tr_signer_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sign_one_for_each_secret),
        cmocka_unit_test(test_sign_longest_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
