"""Which rows of a database are in Redis, and that they are put right there: cluster.hot_window, hot_max, reconcile."""
import json
import re
import time

import pytest

from harness import PATIENCE_S
from redis_cluster import until
from web import ready_web, web_server

HOT_MAX = 100


@pytest.fixture
def redis(both):
    client = both.redis.client()
    client("FLUSHALL")
    yield client
    client.close()


def keys_of(redis, name):
    return redis("KEYS", "*" + name)


def entries(redis):
    """Ids of jobs in Redis."""
    return {int(id_, 16) for key in keys_of(redis, ":h") for id_ in redis("HKEYS", key)}


def push_many(web, count, delay):
    """Ids of so many jobs, in the order of their due times."""
    return [int(web.push("t", b"%d" % n, delay=f"{delay + n}ms")["id"]) for n in range(count)]


def test_only_what_is_due_before_long(tmp_path, both, redis):
    flags = [*both.tarry(), "--set", "cluster.hot_window=1m", "--set", f"cluster.hot_max={HOT_MAX}"]
    with web_server(tmp_path / "a", *flags) as one:
        web = ready_web(one)
        far = int(web.push("t", b"far", delay="5m")["id"])
        near = push_many(web, HOT_MAX + 60, 2500)
        assert far not in entries(redis)
        assert entries(redis) <= set(near) and len(entries(redis)) <= HOT_MAX
        assert near[0] in entries(redis) and near[-1] not in entries(redis), "those that are due last are not there"
        got = []
        end = time.monotonic() + PATIENCE_S
        while len(got) < len(near):
            assert time.monotonic() < end, f"{len(got)} of {len(near)} came"
            got += [int(job["id"]) for job in web.reserve("t", count=50, wait="2s", ttr="1h")]
            assert len(keys_of(redis, ":t:store")) <= 1
        assert sorted(got) == sorted(near) and len(set(got)) == len(got), "all of them, each once"
        assert one.stop() == 0, one.said


def test_what_is_wrong_in_redis_is_put_right(tmp_path, both, redis):
    flags = [*both.tarry(), "--set", "cluster.reconcile=10s"]
    with web_server(tmp_path / "a", *flags) as one:
        web = ready_web(one)
        ids = push_many(web, 20, 300_000)
        until(lambda: entries(redis) == set(ids))
        head, store = keys_of(redis, ":h")[0], keys_of(redis, ":t:store")[0]
        names = ["%014x" % id_ for id_ in ids]
        stale = redis("HGET", head, names[0])
        redis("HSET", head, "%014x" % (ids[0] + 1024 * 5000), stale)  # an entry without a row,
        redis("ZADD", store, 1, "%014x" % (ids[0] + 1024 * 5000))
        redis("HDEL", head, names[1], names[2])  # rows without an entry,
        redis("ZREM", store, names[2], names[3])  # and without a place in their set
        until(lambda: entries(redis) == set(ids) and redis("ZCARD", store) == len(ids))
        scores = redis("ZRANGE", store, 0, -1)
        assert [name.decode() for name in scores] == names, "in the order of their due times"
        meta = head.decode().removesuffix(":h") + ":m"
        first = int(redis("HGET", meta, "epoch"))
        assert one.stop() == 0, one.said
    with web_server(tmp_path / "b", *flags) as two:
        until(lambda: int(redis("HGET", meta, "epoch")) > first)
        second = int(redis("HGET", meta, "epoch"))
        redis("FLUSHALL")
        until(lambda: entries(redis) == set(ids))
        assert int(redis("HGET", meta, "epoch")) >= second, "an owner from before does not have the same one"
        assert two.stop() == 0, two.said


def used(redis):
    return int(re.search(rb"used_memory:(\d+)", redis("INFO", "memory"))[1])


def take(web):
    """Some jobs come, and end: their ids."""
    ids = set()
    for job in web.reserve("t", count=100, wait="2s"):
        assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
        ids.add(int(job["id"]))
    return ids


def test_a_full_redis_stays_as_it_is(tmp_path, both, redis):
    """maxmemory holds for the index, too: pushes go on, what is there can be taken, and the rest follows."""
    with web_server(tmp_path / "a", *both.tarry()) as one:
        web = ready_web(one)
        web.push("t", b"first")
        until(lambda: take(web))  # all scripts are there, which cost memory, too
        most = used(redis) + 200000
        redis("CONFIG", "SET", "maxmemory", most)
        try:
            jobs = json.dumps([{"topic": "t", "body": str(n), "tag": "x" * 64} for n in range(200)])
            made, full = set(), 0
            while full < 3:
                answer = web.post("/v1/jobs", jobs)
                assert answer.status == 200 and all("id" in each for each in answer.json["results"]), answer
                made |= {int(each["id"]) for each in answer.json["results"]}
                full += b"redis_full" in web.get("/readyz").body
                assert len(made) < 20000
            held = entries(redis)
            assert 0 < len(held) < len(made) and used(redis) < most + 200000
            while not entries(redis) - held:  # as some go, others come
                made -= take(web)
                assert made
        finally:
            redis("CONFIG", "SET", "maxmemory", 0)
        until(lambda: web.get("/readyz").status == 200)
        until(lambda: entries(redis) == made)
        assert one.stop() == 0, one.said


@pytest.fixture
def full(redis):
    """Makes Redis full; afterwards it is not."""
    yield lambda: redis("CONFIG", "SET", "maxmemory", used(redis) // 2)
    redis("CONFIG", "SET", "maxmemory", 0)


def is_full(web):
    return b"redis_full" in web.get("/readyz").body


def test_a_redis_that_is_not_full_any_more(tmp_path, both, redis, full):
    """It is known, though nothing is to be put into it: who is not ready is not asked."""
    with web_server(tmp_path / "a", *both.tarry()) as one:
        web = ready_web(one)
        job = web.push("t", b"first")
        full()
        assert web.ask("DELETE", f"/v1/jobs/{job['id']}").status == 200
        until(lambda: is_full(web))
        until(lambda: not entries(redis))
        redis("CONFIG", "SET", "maxmemory", 0)
        until(lambda: web.get("/readyz").status == 200)
        assert one.stop() == 0, one.said


def test_what_found_no_room_and_is_gone(tmp_path, both, redis, full):
    """A job found no room, and is cancelled before it is tried again."""
    with web_server(tmp_path / "a", *both.tarry()) as one:
        web = ready_web(one)
        web.push("t", b"first")
        until(lambda: take(web))
        full()
        job = web.push("t", b"second")
        until(lambda: is_full(web))
        assert web.ask("DELETE", f"/v1/jobs/{job['id']}").status == 200
        redis("CONFIG", "SET", "maxmemory", 0)
        until(lambda: web.get("/readyz").status == 200)
        time.sleep(1.5)  # so long one that found no room waits
        until(lambda: not entries(redis))
        assert one.stop() == 0, one.said
