"""The rows of the engine on Redis with a database: rows in a MariaDB are the truth, every answer follows its
commit, and each commit is on the disk (innodb_flush_log_at_trx_commit = 1).

Beside it the same table without tarry: clients that write one row in each transaction, over one connection or
many, on a MariaDB of the same settings (bench-sql, on the same client library as tarry). A cycle of theirs is three transactions: insert; update to reserved; delete.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

from cluster_rows import OnRedis
from rows import SPEED, Row, at_least, at_most, only
from servers import BUILD, START_S, TICK, TOP, Others

sys.path.append(str(TOP / "test" / "system"))
from mariadb_server import Server as Maria  # noqa: E402  pylint: disable=wrong-import-position
from redis_server import Client  # noqa: E402  pylint: disable=wrong-import-position

ON_SQL = "tarry on Redis and SQL"
ONE = "one connection, one row each"
MANY = "256 connections, one row each"
STEPS = "64 connections, one transaction for each step"
FLAGS = ["--innodb-buffer-pool-size=256M", "--innodb-log-file-size=256M", "--innodb-flush-method=fsync",
         "--innodb-flush-log-at-trx-commit=1", "--max-connections=400"]


class OnSql(OnRedis):
    """A node, the redis-server and the mariadbd below it."""

    def __init__(self, scratch):
        super().__init__(scratch)
        self.maria = Maria(*FLAGS, home=scratch)
        self.database = None
        self.access = []

    def __enter__(self):
        self.maria.__enter__()
        self.database = self.maria.database()
        self.access = ["--set", f"sql.url=mariadb://127.0.0.1:{self.maria.port}/{self.database}",
                       "--set", f"sql.user={self.database}", "--set", "sql.password=word"]
        subprocess.run([BUILD / "tarry", "sql", "migrate", *self.access], check=True, capture_output=True)
        return super().__enter__()

    def __exit__(self, *_):
        super().__exit__()
        self.maria.__exit__()

    def spawn(self, env=None):
        with open(self.data / "said", "ab") as said:
            self.process = subprocess.Popen(
                [BUILD / "tarry", "serve", "--engine", "redis", "--set",
                 f"redis.servers=127.0.0.1:{self.below.port}", *self.access, "--beanstalk",
                 f"127.0.0.1:{self.port}", "--http", "off"], cwd=self.data, stdin=subprocess.DEVNULL,
                stdout=said, stderr=said, env={**os.environ, **(env or {})})

    def restart(self):
        self.kill()
        self.start()

    def ready(self):
        """The database has answered."""
        until = time.monotonic() + START_S
        while not put(self, "warm", 86400).startswith("INSERTED"):
            if time.monotonic() > until:
                raise RuntimeError("no job can be put")
            time.sleep(0.05)

    def multiply(self, job, count):
        """That job is there so often; by rows alone, whose numbers are lower than all that tarry gives."""
        sql = self.maria
        names = sql.ask("SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND "
                        "table_name = 'job' AND column_name <> 'id' ORDER BY ordinal_position", self.database).split()
        columns = ",".join(f"`{name}`" for name in names)
        for first in range(1, count, 20000):
            last = min(count - 1, first + 19999)
            sql.ask(f"INSERT INTO job (id,{columns}) SELECT s.seq * 1024 + {job} % 1024,{columns} FROM job j JOIN "
                    f"seq_{first}_to_{last} s WHERE j.id = {job}", self.database)


def dial(server):
    return socket.create_connection(("127.0.0.1", server.port), 120)


def put(server, tube, delay):
    """One job; what was answered."""
    with dial(server) as sock:
        sock.sendall(f"use {tube}\r\nput 0 {delay} 60 4\r\nbody\r\n".encode())
        stream = sock.makefile("rb")
        stream.readline()
        return stream.readline().decode()


def missing():
    """There is no MariaDB, or this build has no SQL: then there is nothing to measure."""
    return not (shutil.which("mariadb-install-db") and (BUILD / "bench-sql").exists())


def cpu_s(pid):
    """Of a process that lives."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICK


def measured(mode, conns, depth, **flags):
    def case(bench):
        if missing():
            return {"skipped": "there is no MariaDB"}
        with OnSql(bench.scratch) as s:
            s.ready()
            pids = {"sql_us": s.maria.process.pid, "redis_us": s.below.pid, "node_us": s.pid}
            before = {name: cpu_s(pid) for name, pid in pids.items()}
            got = bench.load(s, mode, conns=conns, depth=depth, seconds=bench.seconds * 2, **flags)
            for name, pid in pids.items():
                got[name] = round((cpu_s(pid) - before[name]) * 1e6 / max(float(got.get("jobs", 0)), 1), 1)
            return got
    return case


def peer(mode, conns):
    def case(bench):
        if missing():
            return {"skipped": "there is no MariaDB"}
        maria = Maria(*FLAGS, home=bench.scratch)
        with maria:
            name = maria.database()
            before = cpu_s(maria.process.pid)
            with Others() as others:
                done = subprocess.run([BUILD / "bench-sql", mode, str(maria.port), name, "word", name, str(conns),
                                       str(bench.seconds * 2)], capture_output=True, text=True, timeout=300)
            got = bench.judged(done.returncode, done.stdout, done.stderr)
            used = cpu_s(maria.process.pid) - before
            got["sql_us"] = round(used * 1e6 / max(float(got.get("jobs", 0)), 1), 1)
            got.update(others.besides([maria.process.pid], 0))
            return got
    return case


def redis_sum(server, command, pattern):
    """Of all keys of that kind."""
    client = Client(server.below.port)
    total = sum(int(client(command, key)) for key in client("KEYS", pattern))
    client.close()
    return total


def rebuild(bench):
    if missing():
        return {"skipped": "there is no MariaDB"}
    topics = max(1, bench.many // 40000)  # fewer in each than hot_max
    each = bench.many // topics
    with OnSql(bench.scratch) as s:
        s.ready()
        for i in range(topics):
            s.multiply(int(put(s, f"hot{i}", 400).split()[1]), each)
        for _ in range(10):
            put(s, "now", 0)
        s.restart()
        s.ready()
        wait_for(lambda: redis_sum(s, "HLEN", "tarry:*:h") >= topics * each)
        client = Client(s.below.port)
        began = time.monotonic()
        client("FLUSHALL")
        with dial(s) as sock:
            sock.sendall(b"watch now\r\nreserve-with-timeout 60\r\n")
            stream = sock.makefile("rb")
            stream.readline()
            said = stream.readline()
            first = time.monotonic() - began
        if not said.startswith(b"RESERVED"):
            return {"failed": f"no job: {said}"}
        wait_for(lambda: redis_sum(s, "HLEN", "tarry:*:h") >= topics * each)
        took = time.monotonic() - began
        client.close()
        return {"jobs": topics * each, "ops": round(topics * each / took), "secs": round(took, 2),
                "job_ms": round(first * 1e3, 1)}


def far(bench):
    if missing():
        return {"skipped": "there is no MariaDB"}
    count = int(os.environ.get("SQL_FAR", bench.far))
    with OnSql(bench.scratch) as s:
        s.ready()
        job = int(put(s, "far", 86400).split()[1])
        client = Client(s.below.port)
        s.restart()
        s.ready()
        time.sleep(bench.settle_s)
        before = used(client), redis_sum(s, "HLEN", "tarry:*:h")
        s.multiply(job, count)
        s.restart()
        s.ready()
        time.sleep(bench.settle_s)
        after = used(client), redis_sum(s, "HLEN", "tarry:*:h")
        client.close()
        return {"jobs": count, "ram_job": round(max(0, after[0] - before[0]) / count, 3),
                "entries": after[1] - before[1]}


def used(client):
    text = client("INFO", "memory").decode()
    return int(next(line for line in text.splitlines() if line.startswith("used_memory:")).split(":")[1])


def wait_for(true):
    until = time.monotonic() + 300
    while not true():
        if time.monotonic() > until:
            raise RuntimeError("it takes too long")
        time.sleep(0.05)


def faster(r):
    return [at_least(f"{ON_SQL} / {ONE}", r.ratio(ON_SQL, ONE), 15),
            at_least(f"{ON_SQL} / {MANY}", r.ratio(ON_SQL, MANY), 4)]


def cycles(r):
    return [at_least(f"{ON_SQL} / {STEPS}", r.ratio(ON_SQL, STEPS), 1.5)]


def back(r):
    return [at_least("entries a second", r.median(ON_SQL, "ops"), 50000, "entries/s"),
            at_most("first job after", r.median(ON_SQL, "job_ms"), 1000, "ms")]


def nothing(r):
    return [at_most("entries of them in Redis", r.median(ON_SQL, "entries"), 0, "entries"),
            only("what Redis grew by, for each of them", r.median(ON_SQL, "ram_job"), "B")]


COST = [*SPEED[:3], ("database µs/job", "sql_us", 1), ("Redis µs/job", "redis_us", 1), ("node µs/job", "node_us", 1)]

ROWS = [
    Row("sql-put-64x16", "On SQL: put into one topic, 64×16",
        {ON_SQL: measured("put", 64, 16), ONE: peer("put", 1), MANY: peer("put", 256)}, faster, columns=COST,
        reps=3),
    Row("sql-put-64x1", "On SQL: put into one topic, 64×1",
        {ON_SQL: measured("put", 64, 1), ONE: peer("put", 1), MANY: peer("put", 256)}, faster, columns=COST,
        reps=3),
    Row("sql-cycle-64x1", "On SQL: put → reserve → delete in one topic, 64×1",
        {ON_SQL: measured("cycle", 64, 1), STEPS: peer("cycle", 64)}, cycles, columns=COST, reps=3),
    Row("sql-cycle-64x16", "On SQL: put → reserve → delete in one topic, 64×16",
        {ON_SQL: measured("cycle", 64, 16), STEPS: peer("cycle", 64)}, cycles, columns=COST, reps=3),
    Row("sql-rebuild", "On SQL: Redis is emptied, the index is made anew", {ON_SQL: rebuild}, back,
        columns=[("entries/s", "ops", 1), ("first job ms", "job_ms", 1)], reps=1, long=True),
    Row("sql-far", "On SQL: jobs that are due in a day (SQL_FAR of them)", {ON_SQL: far}, nothing,
        columns=[("Redis B/job", "ram_job", 1), ("entries", "entries", 1)], reps=1, long=True),
]
