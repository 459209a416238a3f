"""Three nodes on a real Redis Cluster of three primaries and three replicas: nodes die, primaries fail
over and die, hash slots move, scripts are forgotten, all under load; and what a Redis that does not fit
is told at the start. cluster_load.py judges: nothing acknowledged is lost, nothing is early, nothing
comes after an acknowledged ack. Each fault must be seen to have happened.
"""
import binascii
import contextlib
import json
import os
import select
import socket
import threading
import time

import pytest

import redis_cluster
from cluster_load import Storm
from harness import Server
from redis_cluster import until
from web import LISTENING, Web

TOPICS = ("storm-a", "storm-b", "storm-c", "storm-d")


class Node(Server):
    """A tarry on Redis."""

    def __init__(self, folder, servers, *flags):
        super().__init__(folder, "--http", "127.0.0.1:0", "--engine", "redis", "--set",
                         f"redis.servers={servers}", *flags)
        self.number = None

    def web_port(self):
        if self.number is None:
            self.number = int(self.wait_for(LISTENING)[1])
        return self.number

    def drain(self):
        """Reads what it says, so that it is never held up by that."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                return
            self.said += more.decode()

    def is_ready(self):
        web = Web(self.web_port())
        answer = web.get("/readyz")
        web.close()
        return answer.status == 200


@pytest.fixture(scope="module")
def cluster():
    with redis_cluster.Cluster(flags=["--cluster-node-timeout", "5000"]) as made:  # a busy machine is no fault
        yield made


@pytest.fixture
def nodes(cluster, tmp_path):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(Node(tmp_path / f"node-{i}", cluster.servers)) for i in range(3)]
        for node in made:
            until(node.is_ready)
        yield made


def ports(nodes):
    return [node.web_port() for node in nodes]


def judge(storm, at_least=200):
    wrong = storm.settle()
    print(dict(storm.answers), "late p50",
          sorted(storm.late)[len(storm.late) // 2] if storm.late else None)
    assert wrong == []
    assert storm.pushed() >= at_least and storm.acked() >= at_least, storm.answers


def slots_of(topics):
    """Hash slots of the slots of these topics (spread 1, 256 slots)."""
    return [redis_cluster.hash_slot(binascii.crc32(topic.encode()) % 256) for topic in topics]


# ---- a cluster that lives ----


class Waiter:
    """A reserve that waits, in a thread of its own."""

    def __init__(self, port, topic):
        self.web, self.got = Web(port), []
        self.thread = threading.Thread(
            target=lambda: self.got.extend(self.web.reserve(topic, wait="100s")))
        self.thread.start()
        time.sleep(0.3)  # it waits by now, most likely; if not, the test is only easier

    def job(self):
        """What came; how long that took from now on."""
        began = time.monotonic()
        self.thread.join()
        self.web.close()
        assert len(self.got) == 1
        return self.got[0], time.monotonic() - began


def test_one_node_pushes_another_hands_out(nodes):
    a, b = Web(ports(nodes)[0]), Web(ports(nodes)[1])
    waiter = Waiter(ports(nodes)[1], "shared")
    pushed = a.push("shared", b"hello")
    job, took = waiter.job()
    assert (job["body"], job["id"]) == ("hello", pushed["id"])
    assert took < 30  # it was woken: the guard looks after 45 s
    assert a.post(f"/v1/jobs/{pushed['id']}/ack", lease=job["lease"]).status in (200, 204)
    assert b.get(f"/v1/jobs/{pushed['id']}").status == 404
    a.close()
    b.close()


def test_all_servers_are_told(cluster, nodes):
    web = Web(ports(nodes)[0])
    told = web.get("/v1/cluster").json
    web.close()
    roles = {s["address"]: s for s in told["servers"]}
    assert set(roles) == {node.address for node in cluster.nodes}
    primaries = {a for a, s in roles.items() if s["role"] == "primary"}
    replicas = {a: s["of"] for a, s in roles.items() if s["role"] == "replica"}
    assert len(primaries) == len(replicas) == 3 and set(replicas.values()) == primaries
    assert sum(roles[a]["slots"] for a in primaries) == 256
    assert all(abs(roles[a]["clock_offset_us"]) < 1_000_000 for a in primaries)
    assert not any(s["failing"] for s in roles.values()) and told["late"]["unknown"] == 0


def test_a_waiter_outlives_a_failover(cluster, nodes):
    a = Web(ports(nodes)[0])
    waiter = Waiter(ports(nodes)[1], "patient")
    old = cluster.owner(slots_of(["patient"])[0])
    assert cluster.failover(old) is not old
    until(lambda: a.post("/v1/topics/patient/jobs", b"late").status == 201)
    job, took = waiter.job()
    assert job["body"] == "late" and took < 30
    a.close()
    cluster.whole()


def test_a_node_dies(nodes):
    with Storm(ports(nodes), TOPICS, seed=1) as storm:
        storm.wait_for_pushes(150)
        port = nodes[2].web_port()
        nodes[2].process.kill()
        nodes[2].process.wait()
        until(lambda: any("broken" in what for what in list(storm.answers)))
        storm.ports.remove(port)
        storm.wait_for_pushes(150)
        judge(storm)


def test_a_planned_failover(cluster, nodes):
    with Storm(ports(nodes), TOPICS, seed=2) as storm:
        storm.wait_for_pushes(150)
        old = cluster.owner(slots_of(TOPICS)[0])
        assert cluster.failover(old) is not old
        storm.wait_for_pushes(150)
        judge(storm)
    cluster.whole()


def test_hash_slots_that_move(cluster, nodes):
    before = cluster.counts()
    with Storm(ports(nodes), TOPICS, seed=3) as storm:
        storm.wait_for_pushes(150)
        for slot in slots_of(TOPICS):
            owner = cluster.owner(slot)
            to = next(n for n in cluster.alive() if cluster.is_primary(n) and n is not owner)
            cluster.move(slot, to, pause=0.005)
            assert cluster.owner(slot) is to
        storm.wait_for_pushes(150)
        judge(storm)
    after = cluster.counts()
    assert after.get("MOVED", 0) > before.get("MOVED", 0), (before, after)
    assert after.get("TRYAGAIN", 0) + after.get("ASK", 0) > before.get("TRYAGAIN", 0) + before.get(
        "ASK", 0), (before, after)


def test_scripts_that_are_forgotten(cluster, nodes):
    before = cluster.counts().get("NOSCRIPT", 0)
    with Storm(ports(nodes), TOPICS, seed=4) as storm:
        for _ in range(5):
            storm.wait_for_pushes(50)
            for node in cluster.alive():
                if cluster.is_primary(node):
                    node("SCRIPT", "FLUSH")
        storm.wait_for_pushes(50)
        judge(storm)
    assert cluster.counts().get("NOSCRIPT", 0) > before


def test_a_primary_dies(cluster, nodes):
    """What it answered in its last moment may be undone: replication is asynchronous (doc/cluster.md).
    Only that is excused."""
    with Storm(ports(nodes), TOPICS, seed=5) as storm:
        storm.wait_for_pushes(150)
        slot = slots_of(TOPICS)[0]
        dead = cluster.owner(slot)
        storm.undone.append(time.monotonic())
        dead.kill()
        until(lambda: cluster.owner_or_none(slot) not in (None, dead))
        storm.wait_for_pushes(150)
        judge(storm)
    for port in ports(nodes):  # the new one has no replica, but others do
        web = Web(port)
        web.push(TOPICS[0], b"x", delay="1h")
        until(lambda: "0 replicas at least" in web.get("/v1/config").json["durability"])
        promise = web.get("/v1/config").json["durability"]
        web.close()
        assert "a failover may take back" in promise, promise
    dead.start()
    cluster.whole()
    assert any("503" in what for what in storm.answers), storm.answers


# ---- no Redis, and a wrong one ----


def test_no_redis_at_all(tmp_path):
    """It says so, is quick to refuse, and comes by itself when there is one."""
    with redis_cluster.Single() as redis:
        redis.node.kill()
        with Node(tmp_path / "data", redis.servers) as node:
            web = Web(node.web_port())
            began = time.monotonic()
            answer = web.post("/v1/topics/t/jobs", b"x")
            assert answer.status == 503 and time.monotonic() - began < 30, answer
            assert "Retry-After" in answer.headers
            ready = web.get("/readyz")
            assert ready.status == 503 and redis.servers.encode() in ready.body, ready
            assert web.get("/healthz").status == 200
            redis.node.start()
            until(node.is_ready)
            web.push("t", b"y")
            [job] = web.reserve("t", wait="60s")
            assert job["body"] == "y"
            redis.node.kill()
            began = time.monotonic()
            assert web.post("/v1/topics/t/jobs", b"x").status == 503
            assert time.monotonic() - began < 30
            until(lambda: not node.is_ready())
            redis.node.start()
            until(lambda: web.post("/v1/topics/t/jobs", b"z").status in (200, 201))
            web.close()
            assert node.stop() == 0


def test_an_emptied_redis(tmp_path):
    """The jobs are gone, which is told; ids do not come again, and it goes on, also with new nodes."""
    with redis_cluster.Single() as redis:
        with Node(tmp_path / "one", redis.servers) as first:  # which makes the store
            until(first.is_ready)
            assert first.stop() == 0
        with Node(tmp_path / "two", redis.servers) as node:
            until(node.is_ready)
            web = Web(node.web_port())
            before = [int(web.push("t", b"gone")["id"]) for _ in range(20)]
            redis.node("FLUSHALL")
            after = [int(web.push("t", b"here")["id"]) for _ in range(20)]
            assert min(after) > max(before) + 1024 * 2**30  # past whatever anybody was given
            until(lambda: (node.drain(), "emptied" in node.said)[1])
            # It is used on, and says for two minutes that jobs were lost.
            until(lambda: [r["code"] for r in web.get("/readyz").json["reasons"]] == ["redis_lost"])
            web.close()
            assert node.stop() == 0
        with Node(tmp_path / "three", redis.servers) as node:
            until(node.is_ready)
            web = Web(node.web_port())
            assert int(web.push("t", b"here")["id"]) > max(after)
            assert len(web.reserve("t", count=50, wait="60s")) == 21
            web.close()


def test_a_server_that_is_down_and_a_name(tmp_path):
    """One of those that are named will do, and it may be a name."""
    with redis_cluster.Single() as redis:
        nobody = redis_cluster.free_port({redis.node.port})
        servers = f"127.0.0.1:{nobody},localhost:{redis.node.port}"
        with Node(tmp_path / "data", servers) as node:
            until(node.is_ready)
            web = Web(node.web_port())
            web.push("t", b"x")
            assert [job["body"] for job in web.reserve("t", wait="60s")] == ["x"]
            web.close()
            assert node.stop() == 0


def refused(tmp_path, servers, *flags):
    """A node that must not start: what it said."""
    with Node(tmp_path / "data", servers, *flags) as node:
        assert node.ended() == 2, node.said
        return node.said


def test_a_redis_that_evicts(tmp_path):
    with redis_cluster.Single("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as redis:
        said = refused(tmp_path, redis.servers)
        assert "allkeys-lru" in said and "noeviction" in said, said


def test_a_wrong_password(tmp_path):
    with redis_cluster.Single() as redis:
        redis.node("CONFIG", "SET", "requirepass", "right-one")
        said = refused(tmp_path, redis.servers, "--set", "redis.password=wrong-one")
        assert "WRONGPASS" in said and "wrong-one" not in said, said
        said = refused(tmp_path, redis.servers)
        assert "NOAUTH" in said and "redis.password" in said, said
        with Node(tmp_path / "data", redis.servers, "--set", "redis.password=right-one") as node:
            until(node.is_ready)
            assert "right-one" not in node.said
            assert node.stop() == 0


def told(node):
    """Why it is not ready; None: it is."""
    web = Web(node.web_port())
    answer = web.get("/readyz")
    web.close()
    return None if answer.status == 200 else answer.json["reasons"][0]["message"]


def test_only_a_replica(tmp_path):
    """It says so, and not that nobody answers; it goes on when it is promoted, and tells when it is
    demoted, also to who only looks at /readyz."""
    with redis_cluster.Single() as redis, redis_cluster.Single() as other:
        redis.node("REPLICAOF", "127.0.0.1", other.node.port)
        with Node(tmp_path / "data", redis.servers) as node:
            until(lambda: "is a replica" in (told(node) or ""))
            assert redis.servers in told(node) and "redis.servers" in told(node)
            redis.node("REPLICAOF", "NO", "ONE")
            until(lambda: told(node) is None)
            web = Web(node.web_port())
            web.push("t", b"x")
            assert "appendfsync everysec" in web.get("/v1/config").json["durability"]
            redis.node("REPLICAOF", "127.0.0.1", other.node.port)
            until(lambda: "is a replica" in (told(node) or ""))
            web.close()
            node.drain()
            assert f"Redis at {redis.servers} is a replica" in node.said, node.said


def test_a_cluster_that_is_not_made_yet(tmp_path):
    """Hash slots that nobody has are told, and looked for again by the node itself."""
    with redis_cluster.Single("--cluster-enabled", "yes") as redis:
        with Node(tmp_path / "data", redis.servers) as node:
            until(lambda: "has hash slot" in (told(node) or ""))
            assert redis.servers in told(node) and "CLUSTER INFO" in told(node)
            redis.node("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: told(node) is None)
            redis.node("CLUSTER", "DELSLOTSRANGE", 0, 16383)
            until(lambda: "has hash slot" in (told(node) or ""))
            redis.node("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: told(node) is None)
            node.drain()
            assert "no server of the Redis Cluster has hash slot" in node.said, node.said


class OldRedis:
    """Answers as a Redis 6 would, as far as anybody asks before knowing that."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.servers = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                wire, _ = self.listener.accept()
                threading.Thread(target=self.talk, args=(wire,), daemon=True).start()

    def talk(self, wire):
        info = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nrun_id:%s\r\n" % (b"a" * 40)
        with wire, wire.makefile("rb") as stream:
            while True:
                head = stream.readline()
                if not head:
                    return
                words = []
                for _ in range(int(head[1:])):
                    size = int(stream.readline()[1:])
                    words.append(stream.read(size + 2)[:-2])
                if words[0].upper() == b"INFO":
                    wire.sendall(b"$%d\r\n%s\r\n" % (len(info), info))
                else:
                    wire.sendall(b"+OK\r\n" if words[0].upper() == b"CLIENT" else b"-ERR unknown\r\n")


def test_an_old_redis(tmp_path):
    said = refused(tmp_path, OldRedis().servers)
    assert "6.2.14" in said and "7.0" in said, said


def test_another_layout(tmp_path):
    with redis_cluster.Single() as redis:
        with Node(tmp_path / "one", redis.servers) as node:
            until(node.is_ready)
            said = refused(tmp_path, redis.servers, "--set", "cluster.slots=64")
            assert "64" in said and "256" in said, said


def test_schedules_tick_once_while_the_cluster_moves(cluster, nodes):
    """Every 200 ms in eight slots, while hash slots move and a primary is replaced: each tick makes one
    job, none is left out."""
    web = Web(ports(nodes)[1])
    topics = [f"tick-{i}" for i in range(8)]
    for topic in topics:
        made = web.ask("PUT", f"/v1/schedules/{topic}", json.dumps(
            {"topic": topic, "every": "200ms", "overlap": "allow", "missed": "all"}))
        assert made.status == 201, made

    def fired():
        """How many each has made; of those that can be asked now."""
        said = [web.get(f"/v1/schedules/{topic}") for topic in topics]
        return [one.json["fired"] if one.status == 200 else 0 for one in said]

    until(lambda: min(fired()) >= 2)
    slots = slots_of(topics)
    for slot in slots[:4]:
        to = next(node for node in cluster.nodes if cluster.is_primary(node) and node is not cluster.owner(slot))
        cluster.move(slot, to)
    primary = cluster.owner(slots[5])
    cluster.failover(primary)
    before = fired()
    until(lambda: all(now >= then + 5 for now, then in zip(fired(), before)))
    for topic in topics:
        jobs, cursor = [], {}
        while cursor is not None:
            page = until(lambda: (said := web.get("/v1/jobs", topic=topic, limit=1000, **cursor)).status == 200 and said.json)
            jobs += [job["due_ms"] for job in page["jobs"]]
            cursor = {"cursor": page["cursor"]} if page["cursor"] else None
        assert all(b - a == 200 for a, b in zip(jobs, jobs[1:])), (topic, jobs)
        assert web.ask("DELETE", f"/v1/schedules/{topic}").status == 200
        assert web.post(f"/v1/topics/{topic}/purge").status == 200
    web.close()
