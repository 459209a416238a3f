#ifndef TR_SIM_MUTANTS_H
#define TR_SIM_MUTANTS_H

/* The deliberate bugs of base/mutants.h against the simulator. See mutants.c. */

/* Runs every row, or those of one swarm or name (NULL: all), prints the table, also to the file
 * `table` if it is not NULL. Gives the exit code. Only in a build with TR_MUTANTS. */
int sim_mutants_run(const char *only, const char *table);

/* Are they still noticed by the seeds that `page`, a table of before, notes for them, or at least
 * by others? Prints what is not. Gives the exit code. */
int sim_mutants_check(const char *only, const char *page);

/* Turns one on by name, for this process. False when there is none. */
int sim_mutants_select(const char *name);

#endif
