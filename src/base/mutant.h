#ifndef TR_BASE_MUTANT_H
#define TR_BASE_MUTANT_H

/*
 * Deliberate bugs. Each breaks one rule of the engine (doc/engine.md) in the real code, so that
 * the simulator can show that it would notice. They exist only in the binary tarry-sim-mutants;
 * everywhere else TR_MUTANT is the constant false and the compiler removes it.
 *
 * A row: name, rule, what is broken, where, the swarm that is to catch it, seeds allowed.
 */
#include "base/mutants.h"

enum tr_mutant {
    TR_MUTANT_NONE,
#define X(name, rule, what, where, swarm, seeds) TR_MUTANT_##name,
    TR_MUTANT_LIST(X)
#undef X
        TR_MUTANT_COUNT
};

#ifdef TR_MUTANTS
extern enum tr_mutant tr_mutant_now; /* set by the simulator alone */
#define TR_MUTANT(name) (tr_mutant_now == TR_MUTANT_##name)
#else
#define TR_MUTANT(name) (0)
#endif

#endif
