/*
 * What a token costs each request: its SHA-256, and finding that among all digests, of which each
 * is looked at. With one token, and with as many as there may be; the token is the one that `tarry
 * token new` makes, and not the same each time.
 */

#include "base/err.h"
#include "base/text.h"
#include "bench/micro.h"
#include "os/digest_linux.h"
#include "proto/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECRET = 6 + 64 };

static const struct tr_now now = {.wall_us = 1, .boot_us = 1};

/* The n-th secret. */
static void make(char out[SECRET + 1], unsigned n)
{
    tr_text(out, SECRET + 1, "tarry_%064x", n * 2654435761U);
}

static void fill(struct tr_auth *a, unsigned count)
{
    struct tr_token *tokens = calloc(count, sizeof *tokens);
    char secret[SECRET + 1];

    for (unsigned i = 0; i < count; i++) {
        bool ok;

        make(secret, i);
        tr_text(tokens[i].name, sizeof tokens[i].name, "t%u", i);
        tokens[i].roles = TR_ROLES_ALL;
        tokens[i].all = true;
        ok = a->digest.sha256(a->digest.ctx, secret, SECRET, tokens[i].digest);
        TR_CHECK(ok);
    }
    if (tr_auth_set(a, tokens, count, now) != TARRY_OK) {
        exit(1);
    }
    tr_auth_forget(a);
    free(tokens);
}

static int measure(struct micro m, unsigned count)
{
    struct tr_mem mem;
    struct tr_auth a = {.mem = &mem};
    char secrets[16][SECRET + 1];
    uint64_t sum = 0;

    tr_mem_init(&mem, 0);
    if (tr_digest_linux_open(&a.digest) != TARRY_OK) {
        return 1;
    }
    fill(&a, count);
    for (unsigned i = 0; i < 16; i++) {
        make(secrets[i], i * 61 % count);
    }
    micro_begin(&m);
    for (uint64_t i = 0; i < m.count; i++) {
        struct tr_auth_pass pass = {.session = &a};
        enum tr_auth_verdict verdict = tr_auth_check(&a, &pass, secrets[i % 16], SECRET, now);

        sum = micro_sum(sum, (uint64_t)verdict << 32 ^ (uint64_t)(pass.who - a.tokens + 1));
    }
    micro_end(&m);
    tr_auth_fini(&a);
    tr_digest_linux_close(&a.digest);
    return micro_print(&m, m.count, sum);
}

int main(int argc, char **argv)
{
    struct micro one = micro_init("auth-1", argc, argv, 2000, UINT64_C(0xb248d9991eb3c8b4));
    struct micro most = micro_init("auth-1000", argc, argv, 2000, UINT64_C(0xd6a0c381e60c314a));

    return measure(one, 1) + measure(most, TR_TOKENS_MAX);
}
