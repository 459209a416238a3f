/*
 * Dead jobs on their way in. Nothing pushes a dead job, so it is pushed with a due time in a
 * hundred years and then buried by force: no consumer can get it in between.
 */

#include "base/text.h"
#include "cli/import.h"
#include "cli/json.h"

#include <inttypes.h>
#include <string.h>

const char tr_import_later[] = "36500d";

static const uint64_t NEARLY_MS = UINT64_C(36400) * 24 * 60 * 60 * 1000;

/* Does the token allow it? One that may not ask is believed to. */
static bool may_bury(const struct tr_import *im)
{
    struct tr_cli_request r = {.method = "GET", .target = "/v1/whoami"};
    struct tr_cli_answer a = {0};
    struct tr_json_value roles;
    struct tr_json_value role;
    struct tr_json_walk walk;
    bool may = true;

    if (tr_cli_send_quietly(&im->cli->server, &r, &a) && a.status == 200 &&
        tr_cli_read(&a, &roles) && tr_cli_member(&roles, "roles", &roles) &&
        roles.kind == TR_JSON_ARRAY_KIND) {
        may = false;
        tr_json_walk_init(&walk, &roles);
        while (tr_json_walk_element(&walk, &role)) {
            may = may || tr_json_says(&role, "consume");
        }
    }
    tr_cli_answer_fini(&a);
    return may;
}

bool tr_import_takes_dead(struct tr_import *im)
{
    if (im->dry) {
        return true;
    }
    if (tr_cli_given(im->cli, "--skip-dead")) {
        return false;
    }
    if (!im->asked) {
        im->asked = true;
        im->may_bury = may_bury(im);
        if (!im->may_bury) {
            fputs("tarry: dead jobs need a token with the role consume, too: --skip-dead leaves "
                  "them out.\n",
                  stderr);
        }
    }
    return im->may_bury;
}

bool tr_import_waits_for_burial(const struct tr_json_value *job)
{
    struct tr_json_value state;
    uint64_t due = tr_cli_number_or(job, "due_ms", 0);
    uint64_t created = tr_cli_number_or(job, "created_ms", 0);

    return tr_cli_member(job, "state", &state) && tr_json_says(&state, "delayed") &&
           due > created && due - created >= NEARLY_MS;
}

/* Stderr says why not, the first time. */
static bool bury(struct tr_import *im, uint64_t id)
{
    struct tr_cli_answer a = {0};
    struct tr_cli_request r = {.method = "POST"};
    char target[64];
    bool fine;

    tr_text(target, sizeof target, "/v1/jobs/%" PRIu64 "/bury?force=true", id);
    r.target = target;
    fine = im->not_buried == 0 ? tr_cli_ask(&im->cli->server, "POST", target, &a) == TR_CLI_FINE
                               : tr_cli_send_quietly(&im->cli->server, &r, &a) && a.status == 200;
    tr_cli_answer_fini(&a);
    return fine;
}

static void not_buried(struct tr_import *im, unsigned i)
{
    im->not_buried++;
    if (im->fresh[i]) {
        im->pushed -= im->pushed > 0;
        tr_import_undo(im, im->ids[i]);
        im->ids[i] = 0;
    } else {
        fprintf(stderr,
                "tarry: job %" PRIu64 " was to be buried, and is due in a hundred years: import it "
                "once more.\n",
                im->ids[i]);
    }
}

void tr_import_bury(struct tr_import *im, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!im->dead[i] || im->ids[i] == 0) {
            continue;
        }
        if (bury(im, im->ids[i])) {
            im->buried++;
        } else {
            not_buried(im, i);
        }
    }
}
