"""`--engine redis`: what goes through all jobs of a topic: lists, purge, forecast. See test_on_redis.py."""
import json
import time

import pytest

from client import Client
from test_http import is_error
from web import Web, web_port, web_server


@pytest.fixture
def flags(redis):
    return redis.tarry()


def pages(web, limit, **query):
    """All jobs, page by page."""
    seen, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = web.get("/v1/jobs", limit=limit, **query, **more).json
        assert all("body" not in job for job in page["jobs"]) and len(page["jobs"]) <= limit
        seen += page["jobs"]
        cursor = page["cursor"]
        if cursor is None:
            return seen


def test_list(web):
    base = (int(time.time()) + 3600) * 1000
    for i in range(25):
        web.push("t", b"x", at=base + i // 2 * 1000, key=f"k{i}", tag="odd" if i % 2 else "even")
    for limit in (1, 10, 100):
        assert [job["key"] for job in pages(web, limit, topic="t")] == [f"k{i}" for i in range(25)]
    some = pages(web, 2, topic="t", due_from=base + 5000, due_to=base + 7000)
    assert [job["key"] for job in some] == ["k10", "k11", "k12", "k13"]
    assert [job["key"] for job in pages(web, 5, topic="t", tag="odd")] == [f"k{i}" for i in range(1, 25, 2)]
    assert pages(web, 10, topic="t", state="ready") == []
    assert web.get("/v1/jobs", topic="nobody").json == {"jobs": [], "cursor": None}
    for query, field in [({"limit": 1001}, "limit"), ({"cursor": "x"}, "cursor"), ({"state": "odd"}, "state")]:
        is_error(web.get("/v1/jobs", topic="t", **query), 400, field=field)


def test_list_of_all_states(web):
    """Live ones by due time, whatever their priority and state, and then dead ones by time of death."""
    for i in range(8):
        web.push("s", str(i).encode(), priority=100 - i)
        time.sleep(0.002)
    far = web.push("s", b"far", delay="1h")["id"]
    ids = [job["id"] for job in pages(web, 100, topic="s")]
    held = {job["id"]: job["lease"] for job in web.reserve("s", count=4)}
    assert set(held) == set(ids[4:8])  # the most urgent came last
    assert ids[8] == far
    dead = [ids[6], ids[4]]
    for job in dead:
        assert web.post(f"/v1/jobs/{job}/bury", lease=held[job]).status == 200
        time.sleep(0.002)
    live = [job for job in ids if job not in dead]
    for limit in (1, 3, 100):
        seen = pages(web, limit, topic="s")
        assert [job["id"] for job in seen] == live + dead
        assert [job["state"] for job in seen] == (
            ["ready"] * 4 + ["reserved"] * 2 + ["delayed"] + ["dead"] * 2)
    assert [job["id"] for job in pages(web, 1, topic="s", state="dead")] == dead
    assert [job["id"] for job in pages(web, 1, topic="s", state="reserved")] == [ids[5], ids[7]]


def test_list_of_all_topics_and_purge(web):
    for i in range(6):
        web.push(f"many{i % 3}", b"x", delay=f"{i + 5}h", tag="all")
    seen = pages(web, 2, tag="all")
    assert [job["topic"] for job in seen] == [f"many{i % 3}" for i in range(6)]
    for i in range(700):  # more than one call looks at
        web.push("heap", b"x", **({"delay": "1h"} if i % 3 else {}))
    web.reserve("heap", count=9)
    assert web.post("/v1/topics/heap/purge").json["purged"] == 700
    assert web.get("/v1/jobs", topic="heap").json == {"jobs": [], "cursor": None}
    assert web.post("/v1/topics/heap/purge").json["purged"] == 0
    assert len(pages(web, 100, tag="all")) == 6
    is_error(web.post("/v1/topics/nobody/purge"), 404)


def test_bulk_of_many(web):
    """More than one call looks at, in all states, of a topic in several slots; what comes later stays."""
    assert web.ask("PUT", "/v1/topics/wide", b'{"spread": 4}').status in (200, 201)
    jobs = [{"topic": "wide", "body": "x", "delay": "2h" if i % 3 else "0s", "tag": "odd" if i % 2 else "even"}
            for i in range(1200)]
    assert web.post("/v1/jobs", json.dumps(jobs)).status == 200
    held = web.reserve("wide", count=7)
    assert len(held) == 7
    dry = web.post("/v1/jobs/shift", topic="wide", by="1h", dry_run="true").json
    assert dry == {"matched": 1200, "done": 0, "more": False}
    before = {job["id"]: job["due_ms"] for job in pages(web, 1000, topic="wide")}
    done, cursor = 0, {}
    while True:  # by parts, each job once
        part = web.post("/v1/jobs/shift", topic="wide", by="1h", limit=500, **cursor).json
        done += part["done"]
        if not part["more"]:
            break
        cursor = {"cursor": part["cursor"]}
    assert done == 1193
    leased = {job["id"] for job in held}
    for job in pages(web, 1000, topic="wide"):
        moved = job["due_ms"] - before[job["id"]]
        # What was due already is due an hour after its due time, not after now.
        assert moved == (0 if job["id"] in leased else 3_600_000), job
    is_error(web.post("/v1/jobs/shift", topic="wide", by="1h", **cursor), 400, field="cursor")  # once
    assert web.post("/v1/jobs/cancel", topic="wide", state="reserved").json == {
        "matched": 7, "done": 0, "more": False}
    even = web.post("/v1/jobs/cancel", topic="wide", tag="even").json
    odd = web.post("/v1/jobs/cancel", topic="wide", tag="odd").json
    assert even["done"] + odd["done"] == 1193 and even["matched"] == odd["matched"] == 600
    assert web.post("/v1/topics/wide/purge", state="reserved").json == {"purged": 7}
    assert pages(web, 100, topic="wide") == []


def test_a_bulk_is_gone_on_with_where_it_began(tmp_path, redis):
    flags = redis.tarry()
    with web_server(tmp_path / "a", *flags) as first, web_server(tmp_path / "b", *flags) as second:
        one, two = Web(web_port(first)), Web(web_port(second))
        for i in range(3):
            one.push("c", b"x", delay=f"{i + 1}h")
        part = one.post("/v1/jobs/shift", topic="c", by="1h", limit=1).json
        again = {"topic": "c", "by": "1h", "cursor": part["cursor"]}
        is_error(two.post("/v1/jobs/shift", **again), 400, field="cursor")
        assert one.post("/v1/jobs/shift", **again).json == {"matched": 2, "done": 2, "more": False}
        one.close()
        two.close()


def test_list_of_many_small_topics(web):
    """What was looked at counts, not what could have been: it is little."""
    for i in range(200):
        web.push(f"small{i:03}", b"x", delay="1h", tag="few")
    for i in range(501):  # more than one call looks at
        web.push("zlast", b"x")
    page = web.get("/v1/jobs", limit=300, tag="few")
    assert page.status == 200, page.json
    assert len(page.json["jobs"]) == 200


def test_forecast(web):
    for minutes in (5, 5, 90):
        web.push("f", b"x", delay=f"{minutes}m")
    now = int(time.time() * 1000)
    seen = web.get("/v1/forecast", topic="f", to=now + 3 * 3600_000, step="1h").json
    assert seen["resolution_ms"] == 1000
    assert [step["count"] for step in seen["steps"]][:2] == [2, 1]
    seen = web.get("/v1/forecast", topic="f", to=now + 3600_000, step="1m").json
    assert sum(step["count"] for step in seen["steps"]) == 2
    assert sum(step["count"] for step in web.get("/v1/forecast", to=now + 3600_000, step="1m").json["steps"]) >= 2
    is_error(web.get("/v1/forecast", topic="nobody"), 404)
    is_error(web.get("/v1/forecast", to=now + 86400_000, step="1s"), 400, field="step")


def test_default_is_like_any_other_topic(server, web):
    """Nobody made it, though the beanstalk port holds it. See the test of this name in test_http.py."""
    def told():
        names = sorted(topic["name"] for topic in web.get("/v1/topics").json["topics"])
        assert web.get("/v1/stats").json["topics"] == len(names)
        return names

    assert told() == []
    is_error(web.get("/v1/topics/default"), 404)
    web.ask("PUT", "/v1/topics/policy", '{"ttr":"5s"}')
    with Client(server.port()) as client:
        assert client.ask("list-tubes").body == b"---\n- default\n"
        assert client.table("stats")["current-tubes"] == "1"
        job = client.put(b"x")
    assert web.get(f"/v1/jobs/{job}").json["topic"] == "default"
    assert web.get("/v1/topics/default").json["ready"] == 1
    assert told() == ["default", "policy"]
