"""Reminders at a local time, which can be moved, cancelled and put off.

    python3 remind.py add NAME 2027-03-01T09:00 Europe/Berlin TEXT
    python3 remind.py move NAME 2027-03-02T09:00 Europe/Berlin
    python3 remind.py cancel NAME
    python3 remind.py work [30s]      ends when nothing came for so long
"""
import datetime
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zoneinfo

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")


def ask(method, path, body=None):
    """(status, answer) of the server."""
    request = urllib.request.Request(SERVER + path, body, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def moment(local, zone):
    """For a query: 2027-03-01T09:00:00+01:00, with its plus quoted."""
    when = datetime.datetime.fromisoformat(local).replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return urllib.parse.quote(when.isoformat(), safe="")


def place(name):
    return "/v1/topics/reminders/keys/" + urllib.parse.quote(name, safe="")


def add(name, local, zone, text):
    query = f"key={urllib.parse.quote(name, safe='')}&at={moment(local, zone)}"
    status, said = ask("POST", f"/v1/topics/reminders/jobs?{query}", text.encode())
    print(f"{name}: {said['due'] if status in (200, 201) else said['error']['message']}")


def move(name, local, zone):
    status, said = ask("PATCH", f"{place(name)}?at={moment(local, zone)}")
    print(f"{name}: {said['due'] if status == 200 else said['error']['message']}")


def cancel(name):
    status, said = ask("DELETE", place(name))
    print(f"{name}: {'cancelled' if status == 200 else said['error']['message']}")


def finish(job, how):
    status, said = ask("POST", f"/v1/jobs/{job['id']}/{how}lease={job['lease']}")
    if status != 200:  # say, it took longer than the ttr: the lease was lost, and the job comes again
        print(f"{job['key']}: {said['error']['message']}", file=sys.stderr)


def work(patience=""):
    while True:
        status, said = ask("POST", f"/v1/topics/reminders/reserve?wait={patience or '30s'}")
        if status == 204 and patience:
            return
        if status not in (200, 204):  # the server is draining, or not ready: it passes
            print(said["error"]["message"], file=sys.stderr)
            time.sleep(1)
        for job in said["jobs"] if status == 200 else []:
            print(f"{job['key']}: {job['body']}")
            if job["attempts"] < 2:  # nobody has looked: once more in ten minutes, under the same id
                finish(job, "release?delay=10m&")
            else:
                finish(job, "ack?")


if __name__ == "__main__":
    {"add": add, "move": move, "cancel": cancel, "work": work}[sys.argv[1]](*sys.argv[2:])
