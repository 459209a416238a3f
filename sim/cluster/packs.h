#ifndef TR_SIM_CLUSTER_PACKS_H
#define TR_SIM_CLUSTER_PACKS_H

/* The library `struct`, as far as our scripts use it. See packs.c. */

struct lua_State;

void packs_open(struct lua_State *lua);

#endif
