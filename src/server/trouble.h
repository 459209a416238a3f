#ifndef TR_SERVER_TROUBLE_H
#define TR_SERVER_TROUBLE_H

/* What goes wrong when a server starts, in words for people: what it is, where, and what to do. */

#include "server/config.h"

/* The store in `path` cannot be used. */
enum tr_exit tr_trouble_store(const char *path, int err);

/* The engine on Redis cannot even begin. */
enum tr_exit tr_trouble_redis(const char *servers, int err);
enum tr_exit tr_trouble_zookeeper(const char *servers, int err);

/* The address cannot be listened on. */
enum tr_exit tr_trouble_listen(const char *address, int err);

/* The user cannot be had. */
enum tr_exit tr_trouble_user(const char *user, int err);

#endif
