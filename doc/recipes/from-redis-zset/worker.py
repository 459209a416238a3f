"""Was: a loop of ZRANGEBYSCORE delayed 0 <now>, ZREM, HGET, sleep.

    python3 worker.py [30s]      ends when nothing came for so long
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")
patience = sys.argv[1] if len(sys.argv) > 1 else ""


def post(path):
    """(status, answer) of the server."""
    try:
        with urllib.request.urlopen(urllib.request.Request(SERVER + path, method="POST")) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def ack(job):
    status, said = post(f"/v1/jobs/{job['id']}/ack?lease={job['lease']}")
    if status != 200:  # say, it took longer than the ttr: the lease was lost, and the job comes again
        print(f"{job['key']}: {said['error']['message']}", file=sys.stderr)


while True:
    status, said = post(f"/v1/topics/orders/reserve?count=10&wait={patience or '30s'}")
    if status == 204 and patience:
        break
    if status not in (200, 204):  # the server is draining, or not ready: it passes
        print(said["error"]["message"], file=sys.stderr)
        time.sleep(1)
    for job in said["jobs"] if status == 200 else []:
        print(f"{job['key']}: {job['body']}")
        ack(job)
