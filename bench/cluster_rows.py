"""The rows of the engine on Redis: a tarry node over a redis-server, beside the classic queue on a
redis-server of the same settings. Both keep their jobs in Redis without a log, so that its CPU is
what is compared. The classic queue has no leases: what it hands out is gone when the consumer dies.
"""
import os
import subprocess

from rows import LATE, SPEED, Row, at_least, at_most, by_seconds, only
from servers import BUILD, Server

ON_REDIS = "tarry on Redis"
CLASSIC = "redis"
CALLS = ("evalsha", "eval", "blpop", "rpush", "hget", "hdel", "hmget")  # scripts use HMGET only inside


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


def redis_of(server):
    return server.below if isinstance(server, OnRedis) else server


def info(redis, section):
    lines = redis.ask(f"INFO {section}").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def look(server):
    """What Redis has done so far: CPU in s, bytes both ways, commands that somebody sent."""
    redis = redis_of(server)
    cpu, stats, commands = (info(redis, name) for name in ("cpu", "stats", "commandstats"))
    inner = ("hget", "hdel", "rpush", "hmget") if isinstance(server, OnRedis) else ("rpush", "hmget")
    calls = sum(int(commands.get(f"cmdstat_{name}", "calls=0").split("=")[1].split(",")[0])
                for name in CALLS if name not in inner)
    return {"cpu": float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]), "calls": calls,
            "bytes": int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])}


def measured(server, mode, conns, depth, **flags):
    def case(bench):
        more = {key: value(bench) if callable(value) else value for key, value in flags.items()}
        with OnRedis(bench.scratch) if server == ON_REDIS else Server(server, bench.scratch) as s:
            before = look(s)
            got = bench.load(s, mode, conns=conns, depth=depth, **more)
            after, jobs = look(s), max(float(got.get("jobs", 0)), 1)
            got["redis_us"] = round((after["cpu"] - before["cpu"]) * 1e6 / jobs, 2)
            got["redis_bytes"] = round((after["bytes"] - before["bytes"]) / jobs)
            got["redis_calls"] = round((after["calls"] - before["calls"]) / jobs, 3)
            return got
    return case


def both(*args, **flags):
    return {name: measured(name, *args, **flags) for name in (ON_REDIS, CLASSIC)}


def faster(r):
    return [at_least(f"{ON_REDIS} / classic queue", r.ratio(ON_REDIS, CLASSIC), 1),
            only("Redis' CPU for each job", r.ratio(ON_REDIS, CLASSIC, "redis_us")),
            only("bytes to and from Redis for each job", r.ratio(ON_REDIS, CLASSIC, "redis_bytes")),
            only("commands for each job", r.ratio(ON_REDIS, CLASSIC, "redis_calls"))]


def later(r):
    return [at_most(f"p99, {ON_REDIS} / classic queue with a mover each ms",
                    r.ratio(ON_REDIS, CLASSIC, "late_p99_us"), 1),
            only("p50", r.ratio(ON_REDIS, CLASSIC, "late_p50_us")),
            only("Redis' CPU for each job", r.ratio(ON_REDIS, CLASSIC, "redis_us"))]


COST = [("Redis µs/job", "redis_us", 1), ("bytes/job", "redis_bytes", 1),
        ("commands/job", "redis_calls", 1)]

ROWS = [
    Row("redis-put-16x1", "On Redis: put, 16×1", both("put", 16, 1, seconds=by_seconds), faster,
        columns=SPEED[:3] + COST, reps=3),
    Row("redis-put-64x16", "On Redis: put, 64×16", both("put", 64, 16, seconds=by_seconds), faster,
        columns=SPEED[:3] + COST, reps=3),
    Row("redis-cycle-16x1", "On Redis: put → reserve → delete, 16×1",
        both("cycle", 16, 1, seconds=by_seconds), faster, columns=SPEED[:3] + COST, reps=3),
    Row("redis-cycle-64x16", "On Redis: put → reserve → delete, 64×16",
        both("cycle", 64, 16, seconds=by_seconds), faster, columns=SPEED[:3] + COST, reps=3),
    Row("redis-late", "On Redis: lateness, 1,000 jobs/s at random moments",
        both("trickle", 17, 1, rate=1000, limit=200, seconds=lambda bench: bench.trickle_s,
             background=0, **{"mover-ms": 1}), later, columns=LATE + COST, reps=3),
]
