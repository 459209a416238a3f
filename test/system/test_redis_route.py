"""The scripts, the client's decisions and its connections on a real Redis Cluster of three primaries
and three replicas, while hash slots move, primaries change and scripts are forgotten: redis-tool
makes the load and counts what came of it.

Each fault must be seen to have happened, or the test says nothing.
"""
import os
import pathlib
import select
import subprocess
import time

import pytest

import redis_cluster
from harness import PATIENCE_S, TARRY

TOOL = os.environ.get("REDIS_TOOL", pathlib.Path(TARRY).parent / "redis-tool")
SLOTS = 8  # of redis-tool


class Load:
    """A running redis-tool."""

    def __init__(self, servers, seconds, seed=1, patience=30):
        self.process = subprocess.Popen([TOOL, str(seconds), str(seed), servers, str(patience)],
                                        stdout=subprocess.PIPE, text=True)

    def ready(self):
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert readable and self.process.stdout.readline() == "ready\n"

    def counts(self):
        """Waits for its end."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        print(out)
        return {name: int(n) for name, n in (word.split("=") for word in out.split())}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def cluster():
    with redis_cluster.Cluster() as made:
        yield made


def check_promises(counts):
    assert counts["pushed"] > 20, counts  # how many they are is a matter of the machine
    broken = {name: counts[name] for name in ("lost", "back", "early", "odd", "refused")}
    assert not any(broken.values()), counts


def test_one_redis_without_a_cluster():
    with redis_cluster.Single() as redis, Load(redis.servers, 1) as load:
        load.ready()
        check_promises(load.counts())


def test_a_loss_is_noticed():
    """The judge can fail."""
    with redis_cluster.Single() as redis, Load(redis.servers, 1, patience=1) as load:
        load.ready()
        time.sleep(0.5)
        redis.node("FLUSHALL")
        counts = load.counts()
        assert counts["lost"] + counts["odd"] > 0, counts


def test_hash_slots_that_move(cluster):
    """Each of the tool's slots goes to another primary under load, key by key."""
    with Load(cluster.servers, 3) as load:
        load.ready()
        for slot in range(SLOTS):
            where = redis_cluster.hash_slot(slot)
            owner = cluster.owner(where)
            to = next(n for n in cluster.alive() if cluster.is_primary(n) and n is not owner)
            cluster.move(where, to, pause=0.002)
            assert cluster.owner(where) is to
        counts = load.counts()
    check_promises(counts)
    assert counts["moved"] > 0 and counts["asks"] + counts["tryagain"] > 0, counts
    assert counts["checks"] > 0, counts  # the slots know that they are on another server


def test_a_planned_failover(cluster):
    with Load(cluster.servers, 5, seed=2) as load:
        load.ready()
        old = cluster.owner(redis_cluster.hash_slot(0))
        new = cluster.failover(old)
        counts = load.counts()
    assert new is not old
    check_promises(counts)
    assert counts["checks"] > 0, counts
    cluster.whole()


def test_scripts_that_are_forgotten(cluster):
    with Load(cluster.servers, 2, seed=3) as load:
        load.ready()
        while load.process.poll() is None:
            time.sleep(0.2)
            for node in cluster.alive():
                if cluster.is_primary(node):
                    node("SCRIPT", "FLUSH")
        counts = load.counts()
    check_promises(counts)
    assert counts["noscript"] > 0, counts


def test_a_primary_that_dies(cluster):
    """What it had answered last may be undone by the failover, which is said in doc/cluster.md; so a
    few may be lost or come back, but only of that moment, and none is early."""
    with Load(cluster.servers, 10, seed=4) as load:
        load.ready()
        slot = redis_cluster.hash_slot(0)
        dead = cluster.owner(slot)
        time.sleep(0.5)
        dead.kill()
        redis_cluster.until(lambda: cluster.owner_or_none(slot) not in (None, dead))
        counts = load.counts()
    dead.start()
    cluster.whole()
    assert counts["pushed"] > 20 and counts["checks"] > 0, counts
    assert counts["lost_calls"] + counts["unsent"] > 0, counts
    assert counts["early"] == counts["refused"] == 0, counts
    assert counts["lost"] + counts["back"] + counts["odd"] <= 5 + 0.01 * counts["pushed"], counts
