"""Was: a loop of ZRANGEBYSCORE delayed 0 <now>, ZREM, HGET, sleep.

    python3 worker.py [30s]      ends when nothing came for so long
"""
import json
import os
import sys
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")
patience = sys.argv[1] if len(sys.argv) > 1 else ""


def post(path):
    with urllib.request.urlopen(urllib.request.Request(SERVER + path, method="POST")) as reply:
        return json.loads(reply.read() or "null")


while True:
    said = post(f"/v1/topics/orders/reserve?count=10&wait={patience or '30s'}")
    if said is None and patience:
        break
    for job in said["jobs"] if said else []:
        print(f"{job['key']}: {job['body']}")
        post(f"/v1/jobs/{job['id']}/ack?lease={job['lease']}")
