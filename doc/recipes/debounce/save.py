"""A document is saved five seconds after the last edit, or at most every five seconds.

    python3 save.py edit NAME TEXT       debounce: each edit puts the save off
    python3 save.py touch NAME TEXT      throttle: the first edit sets the time, the others change nothing
    python3 save.py work [30s]           saves; ends when nothing came for so long
"""
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")


def ask(method, path, body=None):
    """(status, answer) of the server."""
    request = urllib.request.Request(SERVER + path, body, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def push(name, text, on_conflict):
    key = urllib.parse.quote(name, safe="")
    path = f"/v1/topics/saves/jobs?delay=5s&key={key}&on_conflict={on_conflict}"
    while True:
        status, said = ask("POST", path, text.encode())
        if status != 409:
            break
        time.sleep(0.1)  # it is being saved at this moment: after that there is room for a new job
    assert status in (200, 201), said
    print(f"{name}: {'will be' if said['created'] else 'would be'} saved at {said['due']}")


def ack(job):
    status, said = ask("POST", f"/v1/jobs/{job['id']}/ack?lease={job['lease']}")
    if status != 200:  # say, it took longer than the ttr: the lease was lost, and the job comes again
        print(f"{job['key']}: {said['error']['message']}", file=sys.stderr)


def work(patience):
    while True:
        status, said = ask("POST", f"/v1/topics/saves/reserve?wait={patience or '30s'}")
        if status == 204 and patience:
            return
        if status not in (200, 204):  # the server is draining, or not ready: it passes
            print(said["error"]["message"], file=sys.stderr)
            time.sleep(1)
        for job in said["jobs"] if status == 200 else []:
            print(f"{job['key']}: saved as {job['body']!r}")
            ack(job)


if __name__ == "__main__":
    word, *more = sys.argv[1:]
    if word == "work":
        work(more[0] if more else "")
    else:
        push(*more, {"edit": "replace", "touch": "keep"}[word])
