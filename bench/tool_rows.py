"""Rows of what stands beside the queue: very many schedules, and jobs that move to another server."""
import json
import random
import resource
import socket
import statistics
import subprocess
import time

from rows import Row, at_least, only
from servers import BUILD, Others, Server

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Sydney", "UTC")


# ---- Schedules.

def put_schedule(name, schedule):
    body = json.dumps({"topic": "ticks", **schedule}).encode()
    return (f"PUT /v1/schedules/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            f"{len(body)}\r\n\r\n").encode() + body


def far_schedules(count):
    """Cron in zones, none of which fires within the next half hour."""
    dice = random.Random(1)
    hour = time.gmtime().tm_hour
    hours = [h % 24 for h in range(hour + 2, hour + 22)]
    for n in range(count):
        zone = dice.choice(ZONES)
        if zone == "UTC":
            cron = f"{dice.randrange(60)} {dice.choice(hours)} * * *"
        else:  # the hour there is not known here: a day that is far away is
            cron = f"{dice.randrange(60)} {dice.randrange(24)} 1 1 *"
        yield put_schedule(f"cron-{n}", {"cron": cron, "tz": zone, "body": "x"})


def send_all(server, requests):
    """Over one connection, 100 at a time; gives how many were taken."""
    made = 0
    with socket.create_connection(("127.0.0.1", server.port), 60) as wire:
        stream = wire.makefile("rb")
        for at in range(0, len(requests), 100):
            part = requests[at:at + 100]
            wire.sendall(b"".join(part))
            for _ in part:
                made += b" 201 " in stream.readline()
                length = 0
                while (line := stream.readline().strip().lower()) != b"":
                    if line.startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                stream.read(length)
    return made


def lateness(server):
    """late_ms of all jobs of the topic."""
    late, cursor = [], ""
    while cursor is not None:
        page = server.get(f"/v1/jobs?topic=ticks&state=ready&limit=1000{cursor}")
        late += [job["late_ms"] for job in page["jobs"]]
        cursor = page["cursor"] and f"&cursor={page['cursor']}"
    return sorted(late)


def schedules(bench):
    """Most of them rest; a tenth fires at the same microsecond."""
    many, ticks = bench.schedules, bench.schedules // 10
    with Server("tarry never, HTTP", bench.scratch) as s, Others() as others:
        empty, begin = s.rss_bytes(), time.monotonic()
        made = send_all(s, list(far_schedules(many - ticks)))
        at_s = int(time.time()) + (10 if many < 50000 else 40)
        soon = {"every": "1h", "start": at_s * 1000, "body": "x"}
        made += send_all(s, [put_schedule(f"soon-{n}", soon) for n in range(ticks)])
        got = {"ops": round(many / (time.monotonic() - begin)), "jobs": many}
        spare_s = at_s - time.time()
        cpu, begin = s.cpu_s(), time.monotonic()
        time.sleep(max(spare_s - 2, 0))
        got["idle_pct"] = (s.cpu_s() - cpu) / (time.monotonic() - begin) * 100
        got["idle_s"] = time.monotonic() - begin
        got["each_b"] = round((s.rss_bytes() - empty) / many)
        time.sleep(max(at_s + 3 - time.time(), 0))
        late = lateness(s)
        got["longest_us"] = s.longest_us()
        if made != many or len(late) != ticks or spare_s < 5:
            got["failed"] = f"{made} made, {len(late)} fired, {spare_s:.0f} s to rest"
        else:
            got["late_p50_us"] = statistics.median(late) * 1000
            got["late_p99_us"] = late[len(late) * 99 // 100] * 1000
            got["late_max_us"] = late[-1] * 1000
    got.update(others.besides([s.pid]))
    return got


def judge_schedules(r):
    return [only("memory for each", r.median("tarry never", "each_b"), "B"),
            only("CPU while they rest", r.median("tarry never", "idle_pct"), "% of one CPU"),
            only("late p99, a tenth of them due at the same microsecond",
                 r.median("tarry never", "late_p99_us") / 1e3, "ms")]


# ---- Moving.

def move(sync):
    """tarry export | tarry import, from one server to another; both keep what they have."""
    def case(bench):
        with Server(f"tarry {sync}, HTTP", bench.scratch) as old, \
                Server(f"tarry {sync}, HTTP", bench.scratch) as new:
            bench.load(old, "put", conns=16, depth=16, count=bench.moved, limit=200)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu, begin = old.cpu_s() + new.cpu_s(), time.monotonic()
            with Others() as others, \
                    subprocess.Popen([BUILD / "tarry", "export", "--server", f"127.0.0.1:{old.port}"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) as source:
                done = subprocess.run([BUILD / "tarry", "import", "--server", f"127.0.0.1:{new.port}"],
                                      stdin=source.stdout, capture_output=True, text=True)
                source.stdout.close()
                source.stderr.read()
            took = time.monotonic() - begin
            client = resource.getrusage(resource.RUSAGE_CHILDREN)
            mine = client.ru_utime + client.ru_stime - used.ru_utime - used.ru_stime
            got = {"ops": round(bench.moved / took), "jobs": bench.moved, "secs": took,
                   "minute": bench.moved / took * 60 / 1e6, "client_cpu": mine,
                   "server_cpu": old.cpu_s() + new.cpu_s() - cpu}
            if done.returncode != 0 or source.returncode != 0 or new.pending() != bench.moved:
                got["failed"] = f"{new.pending()} arrived: {done.stderr.strip()}"
            got.update(others.besides([old.pid, new.pid], mine))
            return got
    return case


def judge_moves(r):
    return [at_least(f"tarry {sync}: jobs a minute", r.median(f"tarry {sync}", "minute"), 1, "M")
            for sync in ("never", "always")]


ROWS = [
    Row("schedules", "100,000 schedules, a tenth of them due at the same microsecond",
        {"tarry never": schedules}, judge_schedules,
        columns=[("made/s", "ops", 1), ("B each", "each_b", 1), ("idle CPU %", "idle_pct", 1),
                 ("late p50 ms", "late_p50_us", 1e3), ("late p99 ms", "late_p99_us", 1e3),
                 ("late max ms", "late_max_us", 1e3)], reps=3),
    Row("move", "tarry export | tarry import",
        {f"tarry {sync}": move(sync) for sync in ("never", "always")}, judge_moves,
        columns=[("jobs/s", "ops", 1)], reps=2),
]
