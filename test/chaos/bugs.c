/*
 * A tarry with deliberate bugs of the engine on Redis (cluster/mutant.h), to show that a live run
 * notices them: the environment says which, CLUSTER_BUG=CLAIM_BLIND. Without it there is none.
 */

#include "base/check.h"
#include "cluster/mutant.h"

#include <stdlib.h>
#include <string.h>

enum tr_cl_mutant tr_cl_mutant_now;

__attribute__((constructor)) static void choose(void)
{
    static const char *const names[] = {"",
#define X(name, what) #name,
                                        TR_CL_MUTANTS_LIST(X)
#undef X
    };
    const char *wanted = getenv("CLUSTER_BUG");

    if (wanted == NULL) {
        return;
    }
    while (tr_cl_mutant_now < TR_CL_MUTANT_COUNT && strcmp(names[tr_cl_mutant_now], wanted) != 0) {
        tr_cl_mutant_now++;
    }
    TR_CHECK(tr_cl_mutant_now < TR_CL_MUTANT_COUNT); /* there is no such bug */
}
