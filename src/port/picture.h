#ifndef TR_PORT_PICTURE_H
#define TR_PORT_PICTURE_H

/*
 * The whole of a server that is many nodes, as one of them sees it: other nodes, slots and who
 * looks after them, the servers behind. What TR_OP_PICTURE answers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_PICTURE_NODES = 512, TR_PICTURE_ADDRESS = 128, TR_PICTURE_TOPIC = 201 };

/* A node, alive or dead for less than an hour. */
struct tr_picture_node {
    uint64_t name;                    /* random, new with each start */
    uint64_t until_us;                /* it counts as alive until then, by the clock of the store */
    char address[TR_PICTURE_ADDRESS]; /* where its HTTP port is */
    char version[32];
    unsigned slots; /* that it is to look after, */
    unsigned owned; /* and in which it is entered as the owner */
};

struct tr_picture_slot {
    uint64_t keeper;  /* the node that is to look after it, as this node sees it; 0: nobody */
    uint64_t owner;   /* the one that is entered; 0: none yet, nothing was to be done */
    uint64_t epoch;   /* how often that changed */
    uint64_t due_us;  /* when its first topic is to be looked after; 0: none is */
    uint64_t late_us; /* how long ago that was */
    uint64_t topics;  /* that are to be looked after some day */
    char topic[TR_PICTURE_TOPIC]; /* the first one */
    int server;                   /* which has it; -1: not known */
    bool known;                   /* the server answered */
};

struct tr_picture_server {
    char address[TR_PICTURE_ADDRESS];
    char run[96];                /* what it calls this life of its own; "": not known */
    char of[TR_PICTURE_ADDRESS]; /* a replica's primary; "": it is one itself, or unknown */
    const char *role;            /* primary, replica, unknown */
    char state[96];              /* of our connection: up, or why not */
    unsigned slots;              /* of ours, that it has */
    bool measured;               /* its clock was, */
    int64_t offset_us;           /* and is so far ahead of that of this node, */
    uint64_t trip_us;            /* give or take half of this */
    bool failing;                /* the other servers say so */
};

/* Who says which nodes are alive. */
struct tr_picture_coordinator {
    const char *kind;    /* redis, zookeeper */
    const char *why;     /* what is wrong; NULL: nothing is */
    uint64_t session_us; /* how long a dead node counts as alive */
    uint64_t heard_us;   /* ago: the last proof that this node does; UINT64_MAX: there was none */
    bool holds;          /* this node may look after its slots */
};

struct tr_picture {
    uint64_t node;   /* who tells this */
    uint64_t now_us; /* what time it is by the store */
    char uuid[40];
    char prefix[64];
    struct tr_picture_coordinator coordinator;
    unsigned node_count;
    unsigned slot_count;
    unsigned server_count;
    bool nodes_known; /* they were asked for, and told */
    const struct tr_picture_node *nodes;
    const struct tr_picture_slot *slots;
    const struct tr_picture_server *servers;
};

#endif
