"""Does the chores that schedules make.

    python3 worker.py [30s]      ends when nothing came for so long
"""
import json
import os
import sys
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")
patience = sys.argv[1] if len(sys.argv) > 1 else ""

CHORES = {
    "report": lambda job: print(f"report of {job['due']}"),
    "sweep": lambda job: print(f"swept at {job['due']}"),
}


def post(path):
    with urllib.request.urlopen(urllib.request.Request(SERVER + path, method="POST")) as reply:
        return json.loads(reply.read() or "null")


while True:
    said = post(f"/v1/topics/chores/reserve?wait={patience or '30s'}")
    if said is None and patience:
        break
    for job in said["jobs"] if said else []:
        end = "ack"
        try:
            CHORES[job["body"]](job)
        except Exception as trouble:  # it comes again by the backoff of the topic
            print(f"{job['body']}: {trouble}", file=sys.stderr)
            end = "release"
        post(f"/v1/jobs/{job['id']}/{end}?lease={job['lease']}")
