"""The rows of the engine on Redis: a tarry node over a redis-server, beside the classic queue on a
redis-server of the same settings. Both keep their jobs in Redis without a log, so that its CPU is
what is compared. The classic queue has no leases: what it hands out is gone when the consumer dies.

BullMQ is beside them, from the npm registry, in a folder that goes with the run; without node, npm or
the registry its cases are skipped, and say so. Its figures are those of one node process, in which
the queue's own logic runs: its CPU is the client's.
"""
import os
import resource
import shutil
import subprocess
import sys

from rows import LATE, SPEED, Row, at_least, at_most, by_seconds, only
from servers import BUILD, TOP, Others, Server

sys.path.append(str(TOP / "test" / "system"))
from redis_cluster import Cluster  # noqa: E402  pylint: disable=wrong-import-position

ON_REDIS = "tarry on Redis"
ON_THREE = "tarry on 3 primaries"
CLASSIC = "redis"
BULLMQ = "BullMQ"
NPM_S = 180  # to fetch it
TUBES = 64  # so that all primaries have some
CALLS = ("evalsha", "eval", "blpop")  # what is sent; all else is done inside scripts,
CLASSIC_CALLS = (*CALLS, "hget", "hdel")  # but for what these send
BULLMQ_CALLS = (*CALLS, "bzpopmin")


class OnRedis(Server):
    """A node and the redis-server below it."""

    def __init__(self, scratch):
        super().__init__(ON_REDIS, scratch)
        self.below = Server(CLASSIC, scratch)

    def __enter__(self):
        self.below.__enter__()
        return super().__enter__()

    def __exit__(self, *_):
        super().__exit__()
        self.below.__exit__()

    def spawn(self, env=None):
        with open(self.data / "said", "ab") as said:
            self.process = subprocess.Popen(
                [BUILD / "tarry", "serve", "--engine", "redis", "--set",
                 f"redis.servers=127.0.0.1:{self.below.port}", "--beanstalk",
                 f"127.0.0.1:{self.port}", "--http", "off"], cwd=self.data, stdin=subprocess.DEVNULL,
                stdout=said, stderr=said, env={**os.environ, **(env or {})})

    def answers(self):
        return self.ask("peek 1").startswith("NOT_FOUND")


class OnThree(OnRedis):
    """A node and a Redis Cluster of three primaries below it, without replicas."""

    def __init__(self, scratch):
        super().__init__(scratch)
        self.cluster = Cluster(replicas=0, flags=["--appendonly", "no"])

    def __enter__(self):
        self.cluster.__enter__()
        self.below = self.cluster.nodes[0]
        return Server.__enter__(self)

    def __exit__(self, *_):
        Server.__exit__(self)
        self.cluster.__exit__()


def redis_of(server):
    """Those that it has its jobs in."""
    if isinstance(server, OnThree):
        return server.cluster.nodes
    return [server.below if isinstance(server, OnRedis) else server]


def info(redis, section):
    if not isinstance(redis, Server):
        return redis.info(section)
    lines = redis.ask(f"INFO {section}").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def look_at(redis, names):
    cpu, stats, commands = (info(redis, name) for name in ("cpu", "stats", "commandstats"))
    calls = sum(int(commands.get(f"cmdstat_{name}", "calls=0").split("=")[1].split(",")[0]) for name in names)
    return {"cpu": float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]), "calls": calls,
            "bytes": int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])}


def look(server, names=None):
    """What Redis has done so far: CPU in s, bytes both ways, commands that somebody sent."""
    names = names or (CALLS if isinstance(server, OnRedis) else CLASSIC_CALLS)
    found = [look_at(redis, names) for redis in redis_of(server)]
    return {key: sum(one[key] for one in found) for key in found[0]}


def add_costs(got, before, after):
    """CPU for each job in us, of Redis, of the node (where there is one) and of the client; how busy Redis was."""
    jobs, seconds = max(float(got.get("jobs", 0)), 1), float(got.get("secs", 0))
    used = after["cpu"] - before["cpu"]
    got["redis_us"] = round(used * 1e6 / jobs, 2)
    got["client_us"] = round(float(got.get("client_cpu", 0)) * 1e6 / jobs, 2)
    got["redis_busy"] = round(used / seconds, 3) if seconds else 0
    got["redis_bytes"] = round((after["bytes"] - before["bytes"]) / jobs)
    got["redis_calls"] = round((after["calls"] - before["calls"]) / jobs, 3)
    return got


SERVERS = {ON_REDIS: OnRedis, ON_THREE: OnThree, CLASSIC: lambda scratch: Server(CLASSIC, scratch)}


def measured(server, mode, conns, depth, **flags):
    def case(bench):
        more = {key: value(bench) if callable(value) else value for key, value in flags.items()}
        with SERVERS[server](bench.scratch) as s:
            before = look(s)
            got = add_costs(bench.load(s, mode, conns=conns, depth=depth, **more), before, look(s))
            if isinstance(s, OnRedis):  # what Redis used is not others' load
                got["node_us"] = round(float(got.get("server_cpu", 0)) * 1e6 / max(float(got.get("jobs", 0)), 1), 2)
                got["others"] = round(max(got.get("others", 0) - got["redis_busy"], 0), 2)
            return got
    return case


# ---- BullMQ.

def fetch(bench):
    """Where BullMQ is, or None: it cannot be had, which is said once."""
    folder = bench.scratch / "bullmq"
    if not folder.exists():
        folder.mkdir()
        why = "there is no node and npm"
        if shutil.which("node") and shutil.which("npm"):
            try:
                done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix",
                                       folder, "bullmq", "ioredis"], capture_output=True, text=True, timeout=NPM_S)
                why = (done.stderr.strip().splitlines() or ["npm failed"])[-1] if done.returncode else ""
            except (OSError, subprocess.TimeoutExpired) as wrong:
                why = str(wrong)
        (folder / "why").write_text(why)
        if why:
            print(f"BullMQ is left out: {why}", flush=True)
    return None if (folder / "why").read_text() else folder


def bullmq(mode, conns, depth, **flags):
    def case(bench):
        folder = fetch(bench)
        if folder is None:
            return {"skipped": "BullMQ cannot be had"}
        more = {key: value(bench) if callable(value) else value for key, value in flags.items()}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        with Server(CLASSIC, bench.scratch) as s:
            before = look(s, BULLMQ_CALLS)
            with Others() as others:
                done = subprocess.run(
                    ["node", TOP / "bench" / "bullmq.js", folder, mode, *map(str, (
                        s.port, conns, depth, more["seconds"], more.get("rate", 0)))],
                    capture_output=True, text=True, timeout=300)
            wrong = [line for line in done.stderr.splitlines() if "Error" in line]
            got = bench.judged(done.returncode, done.stdout, (wrong or [""])[0])
            if "jobs" not in got:
                return {"failed": got["failed"]}
            after = look(s, BULLMQ_CALLS)
            add_costs(got, before, after)
            got["server_cpu"] = round(after["cpu"] - before["cpu"], 3)
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            got.update(others.besides([s.pid], spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime))
            return got
    return case


def all_three(*args, **flags):
    return {**{name: measured(name, *args, **flags) for name in (ON_REDIS, CLASSIC)},
            BULLMQ: bullmq(*args, **flags)}


def faster(r):
    return [at_least(f"{ON_REDIS} / classic queue", r.ratio(ON_REDIS, CLASSIC), 1),
            at_least(f"{ON_REDIS} / {BULLMQ}", r.ratio(ON_REDIS, BULLMQ), 4),
            only("Redis' CPU for each job", r.ratio(ON_REDIS, CLASSIC, "redis_us")),
            only("bytes to and from Redis for each job", r.ratio(ON_REDIS, CLASSIC, "redis_bytes")),
            only("commands for each job", r.ratio(ON_REDIS, CLASSIC, "redis_calls"))]


def later(r):
    return [at_most(f"p99, {ON_REDIS} / classic queue with a mover each ms",
                    r.ratio(ON_REDIS, CLASSIC, "late_p99_us"), 1),
            only("p50", r.ratio(ON_REDIS, CLASSIC, "late_p50_us")),
            only(f"p99, {ON_REDIS} / {BULLMQ}", r.ratio(ON_REDIS, BULLMQ, "late_p99_us")),
            only("Redis' CPU for each job", r.ratio(ON_REDIS, CLASSIC, "redis_us"))]


def wider(r):
    return [only(f"{ON_THREE} / {ON_REDIS}", r.ratio(ON_THREE, ON_REDIS)),
            only("Redis' CPU for each job", r.ratio(ON_THREE, ON_REDIS, "redis_us")),
            only("commands for each job", r.ratio(ON_THREE, ON_REDIS, "redis_calls"))]


COST = [("Redis µs/job", "redis_us", 1), ("node µs/job", "node_us", 1), ("client µs/job", "client_us", 1),
        ("Redis busy %", "redis_busy", 0.01), ("bytes/job", "redis_bytes", 1),
        ("commands/job", "redis_calls", 1)]

ROWS = [
    Row("redis-put-16x1", "On Redis: put, 16×1", all_three("put", 16, 1, seconds=by_seconds), faster,
        columns=SPEED[:3] + COST, reps=3),
    Row("redis-put-64x16", "On Redis: put, 64×16", all_three("put", 64, 16, seconds=by_seconds), faster,
        columns=SPEED[:3] + COST, reps=3),
    Row("redis-cycle-16x1", "On Redis: put → reserve → delete, 16×1",
        all_three("cycle", 16, 1, seconds=by_seconds), faster, columns=SPEED[:3] + COST, reps=3),
    Row("redis-cycle-64x16", "On Redis: put → reserve → delete, 64×16",
        all_three("cycle", 64, 16, seconds=by_seconds), faster, columns=SPEED[:3] + COST, reps=3),
    Row("redis-primaries", f"On Redis: one against three primaries, put → reserve → delete in {TUBES} tubes, 64×1",
        {name: measured(name, "tubes", 64, 1, seconds=by_seconds, tubes=TUBES) for name in (ON_REDIS, ON_THREE)},
        wider, columns=SPEED[:3] + COST, reps=3),
    Row("redis-late", "On Redis: lateness, 1,000 jobs/s at random moments",
        all_three("trickle", 17, 1, rate=1000, limit=200, seconds=lambda bench: bench.trickle_s,
             background=0, **{"mover-ms": 1}), later, columns=LATE + COST, reps=3),
]
