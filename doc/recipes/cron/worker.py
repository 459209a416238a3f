"""Does the chores that schedules make.

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

CHORES = {
    "report": lambda job: print(f"report of {job['due']}"),
    "sweep": lambda job: print(f"swept at {job['due']}"),
}


def post(path):
    """(status, answer) of the server."""
    try:
        with urllib.request.urlopen(urllib.request.Request(SERVER + path, method="POST")) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def finish(job, how):
    status, said = post(f"/v1/jobs/{job['id']}/{how}?lease={job['lease']}")
    if status != 200:  # say, it took longer than the ttr: the lease was lost, and the job comes again
        print(f"{job['body']}: {said['error']['message']}", file=sys.stderr)


while True:
    status, said = post(f"/v1/topics/chores/reserve?wait={patience or '30s'}")
    if status == 204 and patience:
        break
    if status not in (200, 204):  # the server is draining, or not ready: it passes
        print(said["error"]["message"], file=sys.stderr)
        time.sleep(1)
    for job in said["jobs"] if status == 200 else []:
        how = "ack"
        try:
            CHORES[job["body"]](job)
        except Exception as trouble:  # it comes again by the backoff of the topic
            print(f"{job['body']}: {trouble}", file=sys.stderr)
            how = "release"
        finish(job, how)
