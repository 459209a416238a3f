#ifndef TR_CLUSTER_MUTANT_H
#define TR_CLUSTER_MUTANT_H

/*
 * Deliberate bugs of the engine on Redis, as base/mutant.h has them of the embedded one. They exist
 * only in tarry-sim-cluster, which shows that it notices them, and in tarry-bugs, with which
 * tools/chaos does.
 */

#define TR_CL_MUTANTS_LIST(X)                                                                      \
    X(NEW_OP, "a call is repeated under a new number")                                             \
    X(REFUSAL_BELIEVED, "a refusal after a loss is believed")                                      \
    X(ONE_NUMBER, "a slot takes the second call under way for the first one")                      \
    X(LEASE_AGAIN, "all hand-outs of a node have one lease")                                       \
    X(LOST_IS_UNSENT, "what was under way on a broken connection counts as not sent")              \
    X(WRONG_ORDER, "the answers of a batch go to the wrong requests")                              \
    X(NO_WAKE, "who waits on another node is not told")                                            \
    X(ONE_CLOCK, "wake-ups are read by the clock of whichever server answered last")               \
    X(NO_GUARD, "a topic is not asked again when no wake-up comes")                                \
    X(WAKE_OVERHEARD, "a wake-up that comes during a question is not minded")                      \
    X(ONE_ROUND, "who came while others were asked for is not asked for")                          \
    X(CLOSE_KEEPS, "jobs of a closed connection stay out until their lease ends")                  \
    X(SURPLUS_KEPT, "a job that came for nobody is not given back")                                \
    X(NO_SELF_STOP, "a node looks after its slots although nobody has said that it lives")         \
    X(TAKE_FORGOTTEN, "what a take that was given up has handed out stays out")                    \
    X(REST_FORGOTTEN, "who got nothing since the answer was full is told that there is nothing")   \
    X(WAKES_LOST, "more wake-ups than there is room for are thrown away")                          \
    X(MADE_UNSEEN, "a topic that was forgotten is not entered again by the next push")             \
    X(NOT_MOURNED, "jobs of a dead node's connections stay out until their lease ends")            \
    X(BULK_MEETS_OWN, "a bulk does not know which jobs it has changed")                            \
    X(BULK_ANY_ID, "a bulk is about jobs that came later, too")                                    \
    X(SWEEP_LIVING, "answers that living nodes may need again are thrown away")                    \
    X(OUTLET_LEFT, "the outlets of a dead node are nobody's")                                      \
    X(TOLD_ONCE, "who becomes the owner of a slot is not told what the last one was told")         \
    X(RESERVED_KEPT, "a job that was reserved by its id for nobody stays out")                     \
    X(LIMIT_WHOLE, "each slot of a topic has the whole limit")                                     \
    X(NOT_CONFIRMED, "what replicas were asked about is answered before they say so")              \
    X(RAISED_UNREAD, "rows that are said to be in the index are not read")                         \
    X(GEN_UNSEEN, "with a database: jobs that were purged are handed out")                         \
    X(SAME_VERSION,                                                                                \
      "with a database: an entry of the row's version is right, after a failover, too")            \
    X(TOPICS_KEPT, "with a database: numbers of topics outlive a failover")                        \
    X(NO_JUMP, "with a database: a failover gives ids that were given before")                     \
    X(CLAIM_BLIND,                                                                                 \
      "with a database: what was claimed in Redis is handed out, whatever the row says")           \
    X(ROWS_NOT_MOURNED, "with a database: a dead node's jobs stay out until their lease ends")     \
    X(REPLY_EARLY, "with a database: a push is answered before it is committed")                   \
    X(INDEX_EARLY, "with a database: a job that is to go leaves the index before its row")         \
    X(PLAN_ANY_NUMBER, "with a database: a schedule moves on without a look at its last number")

enum tr_cl_mutant {
    TR_CL_MUTANT_NONE,
#define X(name, what) TR_CL_MUTANT_##name,
    TR_CL_MUTANTS_LIST(X)
#undef X
        TR_CL_MUTANT_COUNT
};

#ifdef TR_CL_MUTANTS
extern enum tr_cl_mutant tr_cl_mutant_now; /* set by the simulator, or test/chaos/bugs.c */
#define TR_CL_MUTANT(name) (tr_cl_mutant_now == TR_CL_MUTANT_##name)
#else
#define TR_CL_MUTANT(name) (0)
#endif

#endif
