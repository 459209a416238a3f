"""Several nodes on one Redis: what /v1/cluster and `tarry cluster` tell of them, and how slots move when
nodes come and go."""
import contextlib
import json
import signal
import time

import pytest

from harness import tarry
from on_redis import Redis
from redis_cluster import until
from test_http import is_error
from test_redis_cluster import Node
from web import Web, web_port, web_server
from zookeeper import Ensemble

LEASE_S = 6  # a busy machine is no fault
SLOTS = 256


@pytest.fixture(scope="module")
def zookeeper():
    """Three that elect a leader."""
    with Ensemble(3) as made:
        yield made


class Nodes:
    """Nodes of one store, which come and go."""

    def __init__(self, redis, folder, stack, zookeeper=None):
        self.redis, self.folder, self.stack = redis, folder, stack
        self.prefix = redis.tarry()[-1].partition("=")[2]
        self.made = 0
        self.flags = ["--set", f"redis.prefix={self.prefix}", "--set", f"cluster.lease={LEASE_S}s",
                      "--set", "redis.timeout=3s"]  # a busy machine is no fault
        if zookeeper is not None:
            self.root = f"/test/{self.prefix.strip(':')}"
            self.flags += ["--set", f"zookeeper.servers={zookeeper.address}", "--set",
                           f"zookeeper.session={LEASE_S}s", "--set", f"zookeeper.root={self.root}"]

    def start(self):
        self.made += 1
        node = self.stack.enter_context(Node(self.folder / f"node-{self.made}",
                                             f"127.0.0.1:{self.redis.port}", *self.flags))
        until(node.is_ready)
        node.web = Web(node.web_port())
        self.stack.callback(node.web.close)
        return node


@pytest.fixture
def nodes(redis, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Nodes(redis, tmp_path, stack)


@pytest.fixture(params=["redis", "zookeeper"])
def both(request, redis, tmp_path):
    """The same with either coordinator."""
    with contextlib.ExitStack() as stack:
        made = Nodes(redis, tmp_path, stack,
                     request.getfixturevalue("zookeeper") if request.param == "zookeeper" else None)
        made.kind = request.param
        yield made


@pytest.fixture
def zoo_nodes(redis, zookeeper, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Nodes(redis, tmp_path, stack, zookeeper)


def cluster(node):
    answer = node.web.get("/v1/cluster")
    assert answer.status == 200, answer
    return answer.json


def keepers(node):
    return [slot["keeper"] for slot in cluster(node)["slots"]]


def shares(node):
    """How many slots each node is to look after, the fewest first."""
    all_ = keepers(node)
    return sorted(all_.count(name) for name in set(all_))


def even(nodes):
    """Does each of them see all of them, and none with more than its share?"""
    return all(len(shares(n)) == len(nodes) and max(shares(n)) == -(-SLOTS // len(nodes)) for n in nodes)


def test_how_it_is_told(nodes):
    first, second = nodes.start(), nodes.start()
    until(lambda: even([first, second]))
    one, two = cluster(first), cluster(second)
    assert keepers(first) == keepers(second)
    assert one["store"] == two["store"] and len(one["store"]) == 32
    assert one["engine"] == "redis" and "appendfsync" in one["promises"]
    assert one["coordinator"]["kind"] == "redis" and one["coordinator"]["keeps_house"]
    assert one["coordinator"]["session_ms"] == LEASE_S * 1000 and one["coordinator"]["message"] is None
    assert {n["address"] for n in one["nodes"]} == {f"127.0.0.1:{n.web_port()}" for n in (first, second)}
    assert all(n["alive"] and n["version"] and n["slots"] == SLOTS // 2 for n in one["nodes"])
    assert [n["node"] for n in one["nodes"] if n["self"]] == [one["node"]] != [two["node"]]
    assert all(0 < n["until_ms"] - one["now_ms"] <= LEASE_S * 1000 for n in one["nodes"])
    (server,) = one["servers"]
    assert server["address"] == f"127.0.0.1:{nodes.redis.port}" and server["role"] == "primary"
    assert server["connection"] == "up" and server["slots"] == SLOTS
    assert abs(server["clock_offset_us"]) < 1_000_000 + server["round_trip_us"]
    assert one["late"]["unknown"] == 0 and all(slot["known"] for slot in one["slots"])
    assert first.web.get("/v1/cluster", x=1).status == 400


def test_what_seals_leases_is_told_to_nobody(nodes):
    """Leases are sealed under the uuid that the store has in Redis; the name that is shown is another."""
    node = nodes.start()
    shown = cluster(node)["store"]
    ask = nodes.redis.client()
    uuid = ask("HGET", nodes.prefix + "{meta}:layout", "uuid").decode()
    ask.close()
    assert len(uuid) == 32 and len(shown) == 32
    assert uuid not in "".join(node.web.get(f"/v1/{path}").body.decode() for path in ("cluster", "stats", "config"))


def test_a_node_that_dies_is_succeeded_and_epochs_rise(both):
    first = both.start()
    until(lambda: shares(first) == [SLOTS])
    topics = [f"t{i}" for i in range(40)]
    second = both.start()
    name = cluster(second)["node"]

    def sworn(node, who):
        """All that was late there was seen to."""
        slots = [s for s in cluster(node)["slots"] if s["topics"] and s["keeper"] == who]
        return (sum(s["owner"] == who and s["epoch"] > 0 for s in slots) >= 3
                and not any(s["late_ms"] for s in slots))

    until(lambda: even([first, second]))
    for topic in topics:  # what time does to them is left to housekeeping, which is told of a new one
        first.web.push(topic, b"x", ttl="10ms")
    until(lambda: sworn(second, name))
    told = cluster(second)
    assert next(n["owned"] for n in told["nodes"] if n["self"]) >= 3
    moved = {s["slot"]: s["epoch"] for s in told["slots"] if s["owner"] == name}
    second.process.kill()
    second.process.wait()
    began = time.monotonic()
    for topic in topics:
        first.web.push(topic, b"y", ttl="10ms")
    until(lambda: shares(first) == [SLOTS])
    assert time.monotonic() - began >= LEASE_S / 3  # it might have lived
    own = cluster(first)["node"]
    until(lambda: all(s["owner"] == own and s["epoch"] == moved[s["slot"]] + 1
                      for s in cluster(first)["slots"] if s["slot"] in moved))
    assert cluster(first)["coordinator"]["kind"] == both.kind
    dead = until(lambda: next((n for n in cluster(first)["nodes"]
                               if n["node"] == name and not n["alive"]), None))
    assert dead["slots"] == 0


def test_few_slots_move(both):
    made = [both.start() for _ in range(3)]
    until(lambda: even(made))
    before = keepers(made[0])
    made.append(both.start())
    until(lambda: even(made))
    after = keepers(made[0])
    moved = sum(a != b for a, b in zip(before, after))
    assert 64 <= moved <= 110, moved
    assert made.pop().stop() == 0  # it says that it leaves: nobody waits for its lease
    until(lambda: even(made))
    assert keepers(made[0]) == keepers(made[1]) == before


def test_a_node_that_stood_still_stops_by_itself(both):
    first, second = both.start(), both.start()
    until(lambda: even([first, second]))
    name, other = cluster(first)["node"], cluster(second)["node"]
    until(lambda: all(n.web.get("/v1/stats").json["redis"]["items"] >= SLOTS // 2 for n in (first, second)))
    topics = [f"t{i}" for i in range(40)]
    first.process.send_signal(signal.SIGSTOP)
    for topic in topics:
        second.web.push(topic, b"x", ttl="10ms")
    until(lambda: shares(second) == [SLOTS])

    def seen_to():
        """The epochs of all slots that have topics, when the second one has seen to each."""
        slots = [s for s in cluster(second)["slots"] if s["topics"]]
        return (all(s["owner"] == other and not s["late_ms"] for s in slots)
                and {s["slot"]: s["epoch"] for s in slots})

    taken = until(seen_to)
    for topic in topics:  # which the second one will not look at for a minute
        second.web.push(topic, b"y", ttl="10ms")
    first.process.send_signal(signal.SIGCONT)
    until(lambda: even([first, second]))
    until(lambda: cluster(first)["coordinator"]["keeps_house"])
    assert first.web.get("/v1/stats").json["redis"]["self_stops"] >= 1
    until(lambda: any(s["owner"] == name and s["epoch"] > taken.get(s["slot"], SLOTS)
                      for s in cluster(first)["slots"]))
    assert all(s["epoch"] > taken[s["slot"]] or s["owner"] == other
               for s in cluster(first)["slots"] if s["slot"] in taken)


def test_an_owner_with_an_old_epoch_is_refused(nodes):
    node = nodes.start()
    node.web.push("fenced", b"x", ttl="10ms")
    node.web.push("fenced", b"y", ttl="6s")
    assert node.stop() == 0
    node = nodes.start()  # has all slots at once, looks, is entered, and knows when it must look again
    name = cluster(node)["node"]
    slot = until(lambda: next((s for s in cluster(node)["slots"] if s["owner"] == name), None))
    with contextlib.closing(nodes.redis.client()) as wire:  # another one, behind its back
        key = f"{nodes.prefix}{{{slot['slot']}}}:m"
        wire("HSET", key, "owner", "0123456789abcdef", "epoch", slot["epoch"] + 1)
        until(lambda: wire("HMGET", key, "owner", "epoch")
              == [name.encode(), str(slot["epoch"] + 2).encode()])
    assert node.web.get("/v1/stats").json["redis"]["ousted"] == 1


def test_zookeeper_goes_and_comes_back(zoo_nodes, zookeeper):
    node = zoo_nodes.start()
    until(lambda: cluster(node)["coordinator"]["keeps_house"])
    (path,) = until(lambda: [p for p in zookeeper.ephemerals() if p.startswith(zoo_nodes.root + "/")])
    assert path.startswith(f"{zoo_nodes.root}/nodes/{cluster(node)['node']}-1-")
    assert cluster(node)["coordinator"]["session_ms"] == LEASE_S * 1000
    zookeeper.stop()
    try:
        told = until(lambda: (lambda a: a.status == 503 and a.json)(node.web.get("/readyz")))
        assert told["reasons"][0]["code"] == "coordinator_away"
        assert "zookeeper" in told["reasons"][0]["message"].lower()
        until(lambda: not cluster(node)["coordinator"]["keeps_house"])
        assert cluster(node)["coordinator"]["message"]
        node.web.push("on", b"x")  # jobs go on
        (job,) = node.web.reserve("on", wait="60s")
        assert node.web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status in (200, 204)
    finally:
        zookeeper.start()
    until(lambda: node.is_ready() and cluster(node)["coordinator"]["keeps_house"])
    assert node.stop() == 0
    assert not [p for p in zookeeper.ephemerals() if p.startswith(zoo_nodes.root + "/")]


def test_the_leader_of_zookeeper_dies(zoo_nodes, zookeeper):
    """Sessions outlive their leader: nobody is succeeded, and nobody is away for longer than a session."""
    first, second = zoo_nodes.start(), zoo_nodes.start()
    until(lambda: even([first, second]))
    before, names = keepers(first), {p for p in zookeeper.ephemerals() if p.startswith(zoo_nodes.root + "/")}
    assert len(names) == 2
    victim = zookeeper.leader()
    victim.stop()
    try:
        until(lambda: zookeeper.leader() is not None)
        until(lambda: all(cluster(n)["coordinator"]["keeps_house"] for n in (first, second)))
        assert keepers(first) == keepers(second) == before
        assert {p for p in zookeeper.ephemerals() if p.startswith(zoo_nodes.root + "/")} == names
        third = zoo_nodes.start()  # two of three are enough for that
        until(lambda: even([first, second, third]))
    finally:
        zookeeper.start()
    until(lambda: even([first, second, third]) and all(n.is_ready() for n in (first, second, third)))


def test_another_coordinator_is_refused(redis, zookeeper, tmp_path):
    """Half of the nodes with ZooKeeper, half without, or below another root: they would take slots from
    each other. Who comes second does not start, and the sentence names both."""
    with contextlib.ExitStack() as stack:
        zoo = Nodes(redis, tmp_path, stack, zookeeper)
        plain = zoo.flags[:6]  # leases in Redis, the same store
        elsewhere = [flag + "-other" if "zookeeper.root" in flag else flag for flag in zoo.flags]
        first = zoo.start()

        def refused(number, flags):
            with Node(tmp_path / f"other-{number}", f"127.0.0.1:{redis.port}", *flags) as node:
                assert node.ended() == 2, node.said
                return node.said

        for number, (flags, name) in enumerate([(plain, "redis"), (elsewhere, f"zookeeper at {zoo.root}-other")]):
            said = refused(number, flags)
            assert f"127.0.0.1:{first.web_port()}" in said and f"this one {name}" in said, said
            assert f"has the coordinator zookeeper at {zoo.root}/nodes" in said and "cluster.lease" in said, said
        until(lambda: shares(first) == [SLOTS])
        assert [n["self"] for n in cluster(first)["nodes"]] == [True]  # nobody else was entered
        assert cluster(first)["nodes"][0]["version"].count("\n") == 0
        second = zoo.start()
        until(lambda: even([first, second]))
        assert first.stop() == 0 and second.stop() == 0
        zoo.flags = plain  # all are stopped: then it may be another one
        third = zoo.start()
        until(lambda: shares(third) == [SLOTS])
        assert "zookeeper" in refused(2, zoo.flags + elsewhere[6:]) and third.is_ready()


def test_a_picture_without_redis(tmp_path):
    with Redis() as redis, Node(tmp_path / "n", f"127.0.0.1:{redis.port}") as node:
        until(node.is_ready)
        node.web = Web(node.web_port())
        redis.stop()

        def picture():
            """When all of it shows that Redis is away, which is noticed piece by piece."""
            told = node.web.get("/v1/cluster")
            return told.status == 200 and not told.json["nodes_known"] and told.json["late"]["unknown"] == SLOTS and \
                told.json["servers"][0]["connection"] != "up"
        until(picture)
        redis.start()
        until(lambda: node.web.get("/v1/cluster").json["late"]["unknown"] == 0)
        node.web.close()


@pytest.fixture
def two(nodes):
    return [nodes.start().web for _ in range(2)]


def settings(web, topic, method="PATCH", **policy):
    assert web.ask(method, f"/v1/topics/{topic}", json.dumps(policy)).status in (200, 201)


def test_a_topic_that_another_node_has_made_is_there_at_once(two):
    a, b = two
    for n in range(4):
        for topic in (f"x{n}", f"y{n}", f"z{n}"):
            assert b.get(f"/v1/topics/{topic}").status == 404
        assert b.get("/v1/jobs", tag="none").json["jobs"] == []
        a.push(f"x{n}", b"x", tag=f"x{n}", delay="1h")
        assert b.get(f"/v1/topics/x{n}").status == 200
        a.push(f"y{n}", b"y", tag=f"y{n}", delay="1h")
        assert len(b.get("/v1/jobs", tag=f"y{n}").json["jobs"]) == 1
        a.push(f"z{n}", b"z", tag=f"z{n}", delay="1h")
        assert b.post("/v1/jobs/cancel", tag=f"z{n}").json == {"matched": 1, "done": 1, "more": False}
        assert b.post(f"/v1/topics/x{n}/purge").json["purged"] == 1
        a.push(f"w{n}", b"w")
        assert f"w{n}" in [topic["name"] for topic in b.get("/v1/topics").json["topics"]]


def test_settings_are_shown_as_another_node_has_set_them(two):
    a, b = two
    settings(a, "p", "PUT", ttr="50s")
    for n in range(1, 4):
        settings(b, "p", ttr=f"{n}s")
        assert a.get("/v1/topics/p").json["policy"]["ttr_ms"] == 1000 * n
    a.push("p", b"x")
    settings(b, "p", ttr="9s", retries=0)
    a.push("p", b"y")  # at a node that has not heard of it
    jobs = a.reserve("p") + b.reserve("p")
    assert [(job["lease_ms"], job["ttr_ms"], job["retries"]) for job in jobs] == [(3000, 3000, 16), (9000, 9000, 0)]
    a.push("p", b"x")
    settings(b, "p", jitter="1000h")
    assert a.push("p", b"the first one may be as before")["state"] in ("ready", "delayed")
    # They are asked for as soon as its answer came, over the connection that the next push goes by.
    assert "delayed" in [a.push("p", b"y")["state"] for _ in range(5)]


def test_a_topic_that_another_node_has_deleted_is_gone(two):
    a, b = two
    for n in range(3):
        settings(a, f"d{n}", "PUT", ttr="50s")
        assert b.get(f"/v1/topics/d{n}").status == 200
        assert a.ask("DELETE", f"/v1/topics/d{n}").status in (200, 204)
        assert b.get(f"/v1/topics/d{n}").status == 404
        assert f"d{n}" not in [topic["name"] for topic in b.get("/v1/topics").json["topics"]]
        assert b.post(f"/v1/topics/d{n}/purge").status == 404


def test_the_command(nodes):
    node = nodes.start()
    address = f"http://127.0.0.1:{node.web_port()}"
    said = tarry("cluster", "--server", address)
    assert said.returncode == 0, said
    lines = said.stdout.splitlines()
    assert any(line.startswith("coordinator:") and "redis" in line for line in lines)
    assert any(" * " in line and "alive" in line and str(SLOTS) in line for line in lines), said.stdout
    assert any("primary" in line and " us " in line for line in lines)
    slots = tarry("cluster", "--slots", "--server", address).stdout
    assert len(slots.splitlines()) > SLOTS
    assert json.loads(tarry("cluster", "--json", "--server", address).stdout)["engine"] == "redis"


def test_one_node_with_its_own_store_has_none(tmp_path):
    with web_server(tmp_path / "data") as server:
        web = Web(web_port(server))
        is_error(web.get("/v1/cluster"), 501, "unsupported")
        web.close()
        said = tarry("cluster", "--server", f"http://127.0.0.1:{web_port(server)}")
        assert said.returncode == 1 and "--engine redis" in said.stderr
