#!/bin/sh
# Two schedules: a report on working days at half past nine in Shanghai, and a sweep that begins ten
# minutes after the last one has ended.
set -eu
server=${TARRY_SERVER:-http://127.0.0.1:11301}

curl --fail-with-body -X PUT "$server/v1/schedules/report" -d '{
    "topic": "chores", "cron": "30 9 * * MON-FRI", "tz": "Asia/Shanghai", "body": "report"}'
echo
curl --fail-with-body -X PUT "$server/v1/schedules/sweep" -d '{
    "topic": "chores", "after": "10m", "body": "sweep"}'
echo
