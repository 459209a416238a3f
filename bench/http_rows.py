"""The rows of the HTTP port: beside the beanstalk port of the same build, and beside a bare server on
libuv and llhttp that keeps nothing.
"""
import contextlib
import json
import resource
import select
import socket
import subprocess
import time

from rows import Row, at_least, at_most, cycle, only, put, several
from servers import BUILD, Server

KINDS = ("never", "always")
HTTP = [f"tarry {sync}{port}" for sync in KINDS for port in ("", ", HTTP")] + ["echo, HTTP"]


# ---- Cases.

def kept(history):
    """Puts into a topic that keeps so much of what happened."""
    def case(bench):
        with Server("tarry never, HTTP", bench.scratch) as s:
            said = s.get("/v1/topics/default", "PUT", json.dumps({"history": history}))
            got = bench.load(s, "put", conns=64, depth=16, seconds=bench.seconds)
            if said is None or said["policy"]["history"] != history:
                got.setdefault("failed", "no such policy")
            return got
    return case


def polls(bench):
    """Long polls that wait: what each of them takes, and that one job wakes one of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    text = b"POST /v1/topics/default/reserve?wait=10m HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Server("tarry crowded, HTTP", bench.scratch) as s, contextlib.ExitStack() as stack:
        waiting = select.poll()
        empty = s.rss_bytes()
        for _ in range(bench.polls):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", s.port), 20))
            one.sendall(text)
            waiting.register(one, select.POLLIN)
        time.sleep(bench.settle_s)
        got = {"poll_b": round((s.rss_bytes() - empty) / bench.polls)}
        before = s.cpu_s()
        time.sleep(bench.settle_s)
        got["cpu_share"] = (s.cpu_s() - before) / bench.settle_s
        s.get("/v1/topics/default/jobs", "POST", "x")
        got["woken"] = len(waiting.poll(5000))
        if got["woken"] != 1:
            got["failed"] = f"one job, {got['woken']} answers"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return got


def bare_curl(bench):
    """libcurl alone, against a server that keeps nothing."""
    with Server("echo, HTTP", bench.scratch) as receiver:
        done = subprocess.run([str(BUILD / "bench-curl"), f"http://127.0.0.1:{receiver.port}/hook",
                               str(bench.hooks), "64"], capture_output=True, text=True, timeout=300)
    got = dict(word.split("=") for word in done.stdout.split())
    return got if done.returncode == 0 else {"failed": done.stderr.strip()}


def webhook(sync):
    """Jobs that are all ready are delivered, 64 at a time: from the first to the last."""
    def case(bench):
        with Server("echo, HTTP", bench.scratch) as receiver, \
                Server(f"tarry {sync}, HTTP", bench.scratch) as s:
            hook = {"type": "webhook", "url": f"http://127.0.0.1:{receiver.port}/hook",
                    "concurrency": 64}
            s.get("/v1/topics/default", "PUT", json.dumps({"paused": "out", "deliver": hook}))
            for _ in range(0, bench.hooks, 1000):
                many = [{"topic": "default", "body": "x" * 100}] * 1000
                s.get("/v1/jobs", "POST", json.dumps(many))
            before = s.longest_us()  # of the pushes
            cpu, begin = s.cpu_s(), time.monotonic()
            s.get("/v1/topics/default/resume", "POST")
            while s.pending() > 0 and time.monotonic() < begin + 300:
                time.sleep(0.01)
            took = time.monotonic() - begin
            outlet = s.get("/v1/topics/default").get("outlet", {})
            got = {"ops": round(bench.hooks / took), "jobs": bench.hooks,
                   "secs": took, "server_cpu": s.cpu_s() - cpu, "client_cpu": receiver.cpu_s(),
                   "before_us": before, "longest_us": s.longest_us()}
            if outlet.get("failed") != 0 or outlet.get("delivered", 0) < bench.hooks - 64:
                got["failed"] = f"it says {outlet}"
            return got
    return case


# ---- Verdicts.

def beside(wanted):
    def judge(r):
        goals = [at_least(f"tarry {sync}: HTTP / beanstalk port",
                          r.ratio(f"tarry {sync}, HTTP", f"tarry {sync}"), wanted)
                 for sync in KINDS]
        return goals + [
            only("tarry never, HTTP / echo, HTTP", r.ratio("tarry never, HTTP", "echo, HTTP")),
            at_most("longest turn of the loop",
                    r.median("tarry never, HTTP", "longest_us") / 1e3, 5, "ms")]
    return judge


def histories(r):
    return [at_least("pushes with history brief / off", r.ratio("brief", "off"), 0.9),
            only("pushes with history full / off", r.ratio("full", "off"))]


def webhooks(r):
    return [only(f"webhooks, tarry {sync} / bare libcurl", r.ratio(f"tarry {sync}", "libcurl"))
            for sync in KINDS] + [
        only("longest turn of the loop, pushes included",
             r.median("tarry never", "longest_us") / 1e3, "ms")]


def waits(r):
    return [at_most("memory for a long poll", r.median("tarry never", "poll_b") / 1024, 10, "KiB"),
            at_most("CPU while they wait", r.median("tarry never", "cpu_share") * 100, 0.1, "%")]


ROWS = [
    Row("http-put-64x1", "HTTP: push, 64×1", several(HTTP, put, 64, 1), beside(0.6)),
    Row("http-put-64x16", "HTTP: push, 64×16", several(HTTP, put, 64, 16), beside(0.4)),
    Row("http-cycle-64x1", "HTTP: push → reserve → ack, 64×1", several(HTTP, cycle, 64, 1),
        beside(0.6)),
    Row("http-cycle-64x16", "HTTP: push → reserve → ack, 64×16", several(HTTP, cycle, 64, 16),
        beside(0.4)),
    Row("http-history", "HTTP: push, 64×16, and history", several(["off", "brief", "full"], kept),
        histories),
    Row("http-webhook", "Webhook deliveries on loopback, 64 at a time",
        {"libcurl": bare_curl, **{f"tarry {sync}": webhook(sync) for sync in KINDS}}, webhooks,
        columns=[("deliveries/s", "ops", 1)], reps=3),
    Row("http-polls", "HTTP: 10,000 long polls that wait", {"tarry never": polls}, waits,
        columns=[("B each", "poll_b", 1), ("CPU share", "cpu_share", 1)], reps=1),
]
