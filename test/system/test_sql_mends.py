"""Two nodes with a database: what one does the other one sees; and a database in trouble does no more harm than it must.
One mariadbd, one redis-server and two nodes for all tests, so each has topics of its own."""
import concurrent.futures
import contextlib
import json
import re
import select
import socket
import subprocess
import threading
import time

import pytest

from beanstalk import LISTENING, Conn
from harness import PATIENCE_S
from on_sql import Both
from web import Web, ready_web, web_server

FLAGS = ["--set", "cluster.reconcile=1h", "--beanstalk", "127.0.0.1:0"]


class Pair:
    """Two running nodes: a and b speak HTTP."""

    def __init__(self, both, folder):
        self.both = both
        self.flags = [*both.tarry(), *FLAGS]
        self.user = next(flag for flag in self.flags if flag.startswith("sql.user=")).split("=")[1]
        self.nodes = [web_server(folder / name, *self.flags) for name in "ab"]
        self.a, self.b = [ready_web(node) for node in self.nodes]

    def worker(self):
        """A connection to the first node's beanstalk port."""
        return Conn(("127.0.0.1", int(re.search(LISTENING, self.nodes[0].said)[1])))

    def sql(self, text):
        return self.both.maria.ask(text, self.user)

    @contextlib.contextmanager
    def holds(self, text):
        """A transaction in which this was asked, by a client of the database."""
        client = subprocess.Popen(["mariadb", "--no-defaults", f"--socket={self.both.maria.path}", "--user=root", "-N",
                                   "--unbuffered", self.user], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        client.stdin.write(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; {text};\n")
        client.stdin.flush()
        try:
            assert client.stdout.readline() != ""
            yield
        finally:  # or its locks would be there for all tests behind one that fails
            client.communicate("COMMIT;\n")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Both() as both:
        made = Pair(both, tmp_path_factory.mktemp("pair"))
        try:
            yield made
            assert [node.stop() for node in made.nodes] == [0, 0], [node.said for node in made.nodes]
        finally:
            for node in made.nodes:
                node.__exit__()


def say(conn, text):
    conn.send(text.encode() + b"\r\n")
    return conn.line().decode().strip()


def test_a_topic_that_was_not_there_is_looked_for_again(pair):
    topic = "/v1/topics/later"
    assert pair.a.get(topic).status == 404
    assert pair.a.get(topic + "/keys/k").status == 404
    made = pair.b.push("later", b"x", key="k", delay="1h")
    assert pair.a.get(topic).status == 200
    assert pair.a.get(topic + "/keys/k").json["id"] == made["id"]
    assert [job["id"] for job in pair.a.get("/v1/jobs", topic="later").json["jobs"]] == [made["id"]]
    assert pair.a.ask("DELETE", topic + "/keys/k").status == 200
    assert pair.b.get(topic + "/keys/k").status == 404


def test_a_worker_that_was_there_before_its_topic_gets_jobs(pair):
    with pair.worker() as worker:
        assert say(worker, "watch early") == "WATCHING 2"
        assert say(worker, "reserve-with-timeout 0") == "TIMED_OUT"
        made = pair.b.push("early", b"hello")
        end = time.monotonic() + PATIENCE_S
        said = "TIMED_OUT"
        while said == "TIMED_OUT":
            assert time.monotonic() < end
            said = say(worker, "reserve-with-timeout 0")
        assert said == f"RESERVED {made['id']} 5"
        assert worker.line() == b"hello\r\n"
        assert say(worker, f"delete {made['id']}") == "DELETED"


def test_waiting_for_a_topic_does_not_fix_its_spread(pair):
    """Nor do settings without it, before there is a job."""
    def put(node, **settings):
        return node.ask("PUT", "/v1/topics/wide", json.dumps(settings)).status

    def is_loaded():
        with contextlib.closing(pair.both.redis.client()) as redis:
            return any(redis("HGET", key, "loaded") for key in redis("KEYS", "*:wide:c"))

    wait_until(lambda: pair.a.get("/readyz").status == pair.b.get("/readyz").status == 200)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(Web(node.port).reserve, "wide", wait="60s") for node in (pair.a, pair.b)]
        wait_until(is_loaded)  # its owner has heard of it
        assert put(pair.b, retries=3) == 200
        assert put(pair.a, spread=4) == 200
        made = {pair.b.push("wide", b"%d" % n)["id"] for n in range(8)}
        assert {wait.result()[0]["id"] for wait in waits} <= made
    assert len({int(id) % 1024 for id in made}) == 4
    assert put(pair.a, spread=8) == 409


def test_settings_hold_on_every_node_from_their_answer_on(pair):
    """Also on one that only pushes jobs that are due so late that they are in no index."""
    topics = [f"set{n}" for n in range(4)]
    for topic in topics:
        pair.a.push(topic, b"x", delay="2h")
    for topic in topics:
        assert pair.b.ask("PUT", f"/v1/topics/{topic}", json.dumps({"paused": "in"})).status == 200
        refused = pair.a.post(f"/v1/topics/{topic}/jobs", b"y", delay="2h", key="k")
        assert refused.status == 409 and refused.code == "paused", refused
        assert pair.b.ask("PUT", f"/v1/topics/{topic}", json.dumps({"max_jobs": 1})).status == 200
        refused = pair.a.post(f"/v1/topics/{topic}/jobs", b"y", delay="2h")
        assert refused.status == 429, refused
        assert pair.b.ask("PUT", f"/v1/topics/{topic}", json.dumps({})).status == 200
        pair.a.push(topic, b"y", delay="2h", key="k")


def put(web, topic, **policy):
    assert web.ask("PUT", f"/v1/topics/{topic}", json.dumps(policy)).status in (200, 201)


def patch(web, topic, **policy):
    assert web.ask("PATCH", f"/v1/topics/{topic}", json.dumps(policy)).status == 200


def test_a_push_goes_by_settings_that_another_node_has_set(pair):
    """At a node that knows older ones; jobs that are there keep theirs, whoever hands them out."""
    put(pair.a, "lease", ttr="50s")
    old = pair.a.push("lease", b"old")
    assert old["ttr_ms"] == 50000
    put(pair.b, "lease", ttr="7s", retries=0, ttl="1h")
    new = pair.a.push("lease", b"new")
    assert (new["ttr_ms"], new["retries"], new["ttl_ms"]) == (7000, 0, 3600_000)
    jobs = {job["id"]: job for job in pair.b.reserve("lease", wait="60s") + pair.a.reserve("lease", wait="60s")}
    assert {id: job["lease_ms"] for id, job in jobs.items()} == {old["id"]: 50000, new["id"]: 7000}
    ends = [pair.a.post(f"/v1/jobs/{job['id']}/release", lease=jobs[job["id"]]["lease"]).json for job in (old, new)]
    assert [job["state"] for job in ends] == ["delayed", "dead"]  # by the backoff; after the last attempt


def test_history_goes_by_settings_that_another_node_has_set(pair):
    put(pair.a, "ends", history="off")
    job = pair.a.push("ends", b"x")["id"]
    patch(pair.b, "ends", history="full")
    assert pair.a.ask("DELETE", f"/v1/jobs/{job}").status == 200
    assert "cancelled" in json.dumps(pair.a.get(f"/v1/jobs/{job}/history").json)


def test_limits_outlive_an_emptied_redis(pair):
    """A node that has heard nothing of them puts its older settings into it, and must not go by those."""
    redis = pair.both.redis.client()
    for n in range(3):
        for topic in (f"shut{n}", f"few{n}"):
            for i in range(8):
                pair.a.push(topic, str(i).encode())
            pair.b.push(topic, b"known", delay="1h")
            assert len(pair.b.reserve(topic, wait="60s")) == 1
        patch(pair.a, f"shut{n}", paused="out")
        patch(pair.a, f"few{n}", in_flight=2)
        redis("FLUSHALL")
        assert pair.b.reserve(f"shut{n}", wait="2s") == []
        assert len(pair.b.reserve(f"few{n}", count=8, wait="10s")) <= 2
        assert pair.b.reserve(f"shut{n}") == []
        patch(pair.a, f"shut{n}", paused="no")
        assert len(pair.b.reserve(f"shut{n}", wait="60s")) == 1


def test_a_job_that_somebody_locks_leaves_others_alone(pair):
    ids = {pair.a.push("locked", b"%d" % n)["id"] for n in range(20)}
    first = min(ids, key=int)
    with pair.holds(f"SELECT id FROM job WHERE id = {first} FOR UPDATE"):
        got, end = [], time.monotonic() + PATIENCE_S
        while len(got) < 19 and time.monotonic() < end:
            got += pair.a.reserve("locked", wait="2s", count=20, ttr="1h")
        assert {job["id"] for job in got} == ids - {first}
        busy = pair.a.post(f"/v1/jobs/{first}/fire")
        assert busy.status == 503, busy
    assert pair.a.reserve("locked", wait="60s")[0]["id"] == first


def test_one_locked_row_does_not_fail_its_batch(pair):
    """Acks that gather behind one that waits for a lock; and the row of one of those is locked, too."""
    for n in range(8):
        pair.a.push("acks", b"%d" % n)
    jobs = pair.a.reserve("acks", wait="60s", count=8, ttr="1h")
    assert len(jobs) == 8
    # Not innodb_trx: that is a copy, which is not renewed while somebody asks more often than each 100 ms.
    waits = ("SELECT variable_value FROM information_schema.global_status"
             " WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'")
    with pair.holds(f"SELECT id FROM job WHERE id IN ({jobs[0]['id']}, {jobs[1]['id']}) FOR UPDATE"), \
            concurrent.futures.ThreadPoolExecutor(8) as pool:
        acks = []
        for job in jobs:
            acks.append(pool.submit(Web(pair.a.port).post, f"/v1/jobs/{job['id']}/ack", lease=job["lease"]))
            if len(acks) == 1:  # it waits for some seconds; who sees that too late comes behind it
                wait_until(lambda: pair.sql(waits) != "0\n" or acks[0].done())
        assert [ack.result().status for ack in acks] == [503, 503] + [200] * 6


def refused(pair, why):
    """Is the first node not ready, for this reason?"""
    answer = pair.a.get("/readyz")
    return answer.status == 503 and why in answer.body.decode()


def wait_until(true):
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_server_that_lets_nobody_in_is_told_of(pair):
    """By a code that means nothing to tarry (4151)."""
    pair.a.push("doors", b"x")
    pair.sql(f"ALTER USER {pair.user}@'127.0.0.1' ACCOUNT LOCK")
    try:
        for number in pair.sql(f"SELECT id FROM information_schema.processlist WHERE user = '{pair.user}'").split():
            pair.both.maria.ask(f"KILL {number}", check=False)
        wait_until(lambda: pair.a.post("/v1/topics/doors/jobs", b"y").status == 503 and refused(pair, "sql_refused"))
        for _ in range(10):
            assert refused(pair, "sql_refused")
            time.sleep(0.05)
    finally:
        pair.sql(f"ALTER USER {pair.user}@'127.0.0.1' ACCOUNT UNLOCK")
    wait_until(lambda: pair.a.get("/readyz").status == 200)
    pair.a.push("doors", b"z")


def test_a_read_only_server_is_read_and_told_of_once(pair):
    made = pair.a.push("reads", b"x", delay="1h")
    pair.sql("SET GLOBAL read_only = ON")
    try:
        assert pair.a.post("/v1/topics/reads/jobs", b"y").status == 503
        for _ in range(20):
            assert refused(pair, "sql_read_only")
            assert pair.a.get(f"/v1/jobs/{made['id']}").status == 200
            time.sleep(0.05)
        assert pair.a.post("/v1/topics/reads/jobs", b"y").status == 503
    finally:
        pair.sql("SET GLOBAL read_only = OFF")
    wait_until(lambda: pair.a.get("/readyz").status == 200)
    pair.a.push("reads", b"z", delay="1h")
    pair.nodes[0].wait_for(r"is read-only[^$]*answers again")
    said = pair.nodes[0].said
    assert said.count("is read-only") == said[said.index("is read-only"):].count("answers again") == 1, said


class Cutter:
    """Between a node and the database: cuts the first connection that says something, when the database has answered
    that; then `done` is called, and nobody is let in any more while it is shut."""

    def __init__(self, port, something, done=None):
        self.target = port
        self.something = something
        self.done = done
        self.armed = self.shut = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while self.open:
            if select.select([self.listener], [], [], 0.1)[0]:
                client, _ = self.listener.accept()
                if self.shut:
                    client.close()
                    continue
                self.threads.append(threading.Thread(target=self.carry, args=(client,)))
                self.threads[-1].start()

    def carry(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            while self.open:
                for ready in select.select([client, server], [], [], 0.1)[0]:
                    data = ready.recv(1 << 20)
                    if not data:
                        return
                    if ready is client and self.armed and self.something in data:
                        self.armed = False
                        server.sendall(data)
                        server.recv(1 << 20)
                        self.done(self)
                        return
                    (server if ready is client else client).sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        for thread in self.threads:
            thread.join()
        self.listener.close()


@contextlib.contextmanager
def cut_off(pair, folder, something, done):
    """A third node of the same store, behind a cutter."""
    with Cutter(pair.both.maria.port, something, done) as cutter:
        flags = [flag.replace(f":{pair.both.maria.port}/", f":{cutter.port}/") for flag in pair.flags]
        with web_server(folder / "c", *flags) as node:
            web = ready_web(node)
            yield cutter, web
            assert node.stop() == 0, node.said


def test_settings_whose_answer_was_lost_are_unsure(pair, tmp_path):
    def shut(cutter):
        cutter.shut = True

    with cut_off(pair, tmp_path, b"UPDATE `topic` SET `policy`", shut) as (cutter, web):
        web.push("unsure", b"x", delay="1h")
        cutter.armed = True
        answer = web.ask("PUT", "/v1/topics/unsure", json.dumps({"paused": "in"}))
        assert answer.status == 503 and answer.code == "unsure", answer
        cutter.shut = False
        assert pair.a.get("/v1/topics/unsure").json["policy"]["paused"] == "in", "it was done"
        wait_until(lambda: web.get("/readyz").status == 200)


def test_what_became_of_a_commit_is_not_asked_of_a_replica(pair, tmp_path):
    """One that can only be read may be behind: it is not believed that nothing was done, nor that it was."""
    def turn_away(_):
        pair.sql("SET GLOBAL read_only = ON")

    with cut_off(pair, tmp_path, b"; COMMIT", turn_away) as (cutter, web):
        web.push("replica", b"x", delay="1h")
        cutter.armed = True
        try:
            answer = web.post("/v1/topics/replica/jobs", b"y", delay="2h")
        finally:
            pair.sql("SET GLOBAL read_only = OFF")
        assert answer.status == 503 and answer.code == "unsure", answer
        wait_until(lambda: web.get("/readyz").status == 200)


def test_lanes_that_nobody_uses_are_folded(pair, tmp_path):
    """Counts of nodes that are gone are those of lane 0, and the sums are what they were."""
    flags = pair.both.tarry()
    name = next(flag for flag in flags if flag.startswith("sql.user=")).split("=")[1]
    sums = "SELECT SUM(waiting), SUM(reserved), SUM(dead), SUM(bytes) FROM cnt"
    for n in range(2):
        with web_server(tmp_path / f"n{n}", *flags) as node:
            web = ready_web(node)
            for topic in ("x", "y"):
                for _ in range(3 + n):
                    web.push(topic, b"body")
            assert len(web.reserve("x", wait="60s")) == 1
            assert node.stop() == 0, node.said
        pair.both.maria.ask("UPDATE lane SET seen = seen - 90000000000", name)
        before = pair.both.maria.ask(sums, name)
    with web_server(tmp_path / "last", *flags) as node:
        web = ready_web(node)
        wait_until(lambda: pair.both.maria.ask("SELECT COUNT(*) FROM lane WHERE seen < UNIX_TIMESTAMP() * 1000000"
                                               " - 86400000000", name) == "0\n")
        assert pair.both.maria.ask(sums, name) == before
        assert pair.both.maria.ask("SELECT COUNT(*) FROM cnt WHERE lane <> 0", name) == "0\n"
        assert pair.both.maria.ask("SELECT COUNT(*) FROM cnt WHERE lane = 0", name) == "2\n"
        web.push("x", b"body")
        assert web.get("/v1/topics/y").json["ready"] == 7
        assert node.stop() == 0, node.said


def test_a_redis_that_takes_changes_again_is_told(pair):
    """With a database nobody pushes to Redis: images of rows tell that it is well again."""
    client = pair.both.redis.client()

    def until(codes):
        end = time.monotonic() + PATIENCE_S
        while [r["code"] for r in pair.a.get("/readyz").json["reasons"]] != codes:
            assert time.monotonic() < end, pair.a.get("/readyz")
            pair.a.push("again", b"x")
            time.sleep(0.02)

    client("CONFIG", "SET", "min-replicas-to-write", "1")
    try:
        until(["redis_full"])
        assert pair.a.get("/readyz").status == 200, "pushes go on"
    finally:
        client("CONFIG", "SET", "min-replicas-to-write", "0")
    until([])
