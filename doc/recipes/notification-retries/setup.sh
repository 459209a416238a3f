#!/bin/sh
# Jobs of the topic notify are sent to a shop until it answers "success": at once, and again after
# 4 m, 10 m, 10 m, 1 h, 2 h, 6 h and 15 h. Then the job is dead.
set -eu
shop=${1:?usage: setup.sh URL SECRET}
secret=${2:?usage: setup.sh URL SECRET}

curl --fail-with-body -X PUT "${TARRY_SERVER:-http://127.0.0.1:11301}/v1/topics/notify" -d '{
    "retries": 7, "backoff": "4m,10m,10m,1h,2h,6h,15h",
    "deliver": {"type": "webhook", "url": "'"$shop"'", "success": "success", "secret": "'"$secret"'"}}'
