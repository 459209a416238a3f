#!/bin/sh
# Was: basic.publish to an exchange with x-delay, or to a queue with a TTL and a dead-letter exchange.
#
#     sh publish.sh KEY DELAY BODY      DELAY as 30m or 1.5h
set -eu
curl -X POST "${TARRY_SERVER:-http://127.0.0.1:11301}/v1/topics/orders/jobs?key=$1&delay=$2" -d "$3"
echo
