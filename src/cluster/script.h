#ifndef TR_CLUSTER_SCRIPT_H
#define TR_CLUSTER_SCRIPT_H

/*
 * The Lua scripts that run inside Redis, as tools/make-lua makes them from src/cluster/lua. Each
 * file there says what its arguments and its reply are.
 */

#include <stddef.h>

enum tr_script_name {
    TR_SCRIPT_PUSH,     /* new jobs */
    TR_SCRIPT_TAKE,     /* hands out jobs of one topic */
    TR_SCRIPT_EDIT,     /* ack, cancel, release, ...: by id */
    TR_SCRIPT_TEND,     /* leases that ran out, jobs that expired, dead ones to drop */
    TR_SCRIPT_KICK,     /* brings back so many of a topic */
    TR_SCRIPT_LOOK,     /* jobs as they are */
    TR_SCRIPT_COUNTS,   /* how many there are of each topic */
    TR_SCRIPT_PAUSE,    /* the beanstalk port's pause */
    TR_SCRIPT_CONF,     /* settings of a topic */
    TR_SCRIPT_PURGE,    /* ends all jobs of a topic */
    TR_SCRIPT_BULK,     /* cancels, shifts, kicks those of a topic that are named and match */
    TR_SCRIPT_LIST,     /* jobs of a topic, a page at a time */
    TR_SCRIPT_ORPHANS,  /* jobs that connections of a dead node held */
    TR_SCRIPT_FORECAST, /* how many are due when */
    TR_SCRIPT_SWEEP,    /* what dead nodes left in a slot's meta */
    TR_SCRIPT_FORGET,   /* a topic that nobody needs */
    TR_SCRIPT_CHECK,    /* before a slot is first used over a connection */
    TR_SCRIPT_OWN,      /* who does a slot's housekeeping */
    TR_SCRIPT_BEAT,     /* a node lives; layout and members */
    TR_SCRIPT_SCHEDULE, /* a schedule, and the job that it makes */
    TR_SCRIPT_ROSTER,   /* names of schedules */
    TR_SCRIPT_WAKE,     /* wake-ups of a node */
    TR_SCRIPT_FIX,      /* how many slots a topic has */
    TR_SCRIPT_TOPIC,    /* a topic in the list of all, with its settings */
    TR_SCRIPT_PICTURE,  /* how a slot is, for people */
    TR_SCRIPT_CLAIM,    /* with a database: which jobs it is to be asked for, */
    TR_SCRIPT_INDEX,    /* how their rows are, */
    TR_SCRIPT_SHED,     /* the same if Redis is full, */
    TR_SCRIPT_RAISE,    /* up to which time rows are in Redis, */
    TR_SCRIPT_SCAN,     /* and what is there */
    TR_SCRIPT_ROOM,     /* does Redis take new things? */
    TR_SCRIPT_COUNT
};

struct tr_script {
    const char *name;
    const char *text; /* without an end */
    size_t len;
    const char *sha; /* 40 hex digits: what EVALSHA wants */
};

extern const struct tr_script tr_scripts[TR_SCRIPT_COUNT];

#endif
