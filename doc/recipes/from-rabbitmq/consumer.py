"""Was: basic_consume with a prefetch of 10, basic_ack, basic_nack.

    python3 consumer.py [30s]      ends when nothing came for so long
"""
import concurrent.futures
import json
import os
import sys
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")
patience = sys.argv[1] if len(sys.argv) > 1 else ""


def post(path):
    with urllib.request.urlopen(urllib.request.Request(SERVER + path, method="POST")) as reply:
        return json.loads(reply.read() or "null")


def handle(job):
    end = "ack"
    try:
        print(f"{job['key']}: {job['body']}")
    except Exception:  # basic_nack with requeue; here it waits by the backoff, and is dead in the end
        end = "release"
    post(f"/v1/jobs/{job['id']}/{end}?lease={job['lease']}")


with concurrent.futures.ThreadPoolExecutor(10) as pool:
    while True:
        said = post(f"/v1/topics/orders/reserve?count=10&wait={patience or '30s'}")
        if said is None and patience:
            break
        list(pool.map(handle, said["jobs"] if said else []))
