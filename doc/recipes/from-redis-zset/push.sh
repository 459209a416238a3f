#!/bin/sh
# Was: ZADD delayed <now + delay> <id>, and HSET bodies <id> <body>.
#
#     sh push.sh ID DELAY BODY       DELAY as 30m or 1.5h
#     sh push.sh -d ID               was: ZREM delayed <id>, HDEL bodies <id>
set -eu
server=${TARRY_SERVER:-http://127.0.0.1:11301}

if [ "$1" = -d ]; then
    curl -X DELETE "$server/v1/topics/orders/keys/$2"
else
    curl -X POST "$server/v1/topics/orders/jobs?key=$1&delay=$2" -d "$3"
fi
echo
