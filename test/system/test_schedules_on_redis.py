"""Schedules with `--engine redis`: as on the embedded engine, and whoever dies, none twice.

What test_schedules.py shows with a test clock, which there is none of here, is shown on a real one with
short periods; what will be is compared with what the embedded engine says.
"""
import json
import signal
import time

import pytest

from redis_cluster import until
from test_schedules import BAD, CRONS, EDGES, dues, foretold, put
from web import ready_web, web_server

LEASE = ["--set", "cluster.lease=6s"]


@pytest.fixture
def flags(redis):
    return redis.tarry()


def one(web, name):
    return web.get(f"/v1/schedules/{name}").json


def ack(web, job, how="ack"):
    answer = web.post(f"/v1/jobs/{job['id']}/{how}", lease=job["lease"])
    assert answer.status == 200, answer


# ---- as on the embedded engine ----


def told(answer):
    """All of an answer but what depends on the moment."""
    return {name: value for name, value in answer.json.items() if name not in ("created_ms", "id")}


def test_says_what_the_embedded_engine_says(tmp_path, web):
    with web_server(tmp_path / "local") as embedded:
        other = ready_web(embedded)

        def ask(method, path, **fields):
            body = json.dumps(fields) if fields else b""
            a, b = web.ask(method, path, body), other.ask(method, path, body)
            assert a.status == b.status and told(a) == told(b), (a, b)
            return a

        for i, (zone, start, _) in enumerate(EDGES):
            for k, cron in enumerate(CRONS):
                ask("PUT", f"/v1/schedules/s{i}-{k}", topic=f"t{k}", cron=cron, tz=zone, start=start,
                    overlap="allow", body="x", limit=100)
                ask("GET", f"/v1/schedules/s{i}-{k}/next?n=40")
        ask("PUT", "/v1/schedules/full", topic="t", every="1h", start="2037-01-01T00:00:00Z", backoff="1s,2s",
            end="2038-01-01T00:00:00Z", tag="red", retries=3, ttr="5s", ttl="1h", priority=7,
            overlap="queue", missed="all", body="x" * 65535)
        ask("PUT", "/v1/schedules/full", topic="t", every="1h", start="2037-01-01T00:00:00Z", missed="skip")
        ask("POST", "/v1/schedules/full/pause")
        ask("GET", "/v1/schedules/full/next")
        ask("PUT", "/v1/schedules/full", topic="elsewhere", after="1h", start="2037-01-01T00:00:00Z")
        ask("POST", "/v1/schedules/full/resume")
        ask("GET", "/v1/schedules/full/next")
        for fields, field, _ in BAD:
            assert ask("PUT", "/v1/schedules/bad", **{"topic": "t", **fields}).json["error"]["field"] == field
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/next"), ("POST", "/run"), ("POST", "/pause")):
            ask(method, "/v1/schedules/none" + path)
        ask("DELETE", "/v1/schedules/full")
        ask("GET", "/v1/schedules/full")
        names, cursor = [], {}
        while cursor is not None:
            page = web.get("/v1/schedules", limit=5, **cursor).json
            names += [each["name"] for each in page["schedules"]]
            cursor = {"cursor": page["cursor"]} if page["cursor"] else None
        assert names == [f"s{i}-{k}" for i in range(len(EDGES)) for k in range(len(CRONS))]


def test_every_after_and_overlap(web):
    for overlap in ("skip", "allow", "queue"):
        put(web, overlap, topic=overlap, every="200ms", overlap=overlap, body=overlap, missed="all")
    put(web, "limit", topic="limit", every="100ms", overlap="allow", limit=3)
    put(web, "after", topic="after", after="300ms", body="a")
    until(lambda: one(web, "allow")["fired"] >= 5)
    jobs = dues(web, "allow")
    assert all(b - a == 200 for a, b in zip(jobs, jobs[1:])), jobs
    until(lambda: one(web, "skip")["skipped"] >= 3 and one(web, "queue")["waiting"] >= 3)
    assert len(dues(web, "skip")) == len(dues(web, "queue")) == 1
    until(lambda: "next" not in one(web, "limit"))
    assert len(dues(web, "limit")) == 3
    waiting = one(web, "queue")["waiting"]
    for how in ("ack", "bury", "ack"):
        job = web.reserve("queue", wait="60s")[0]
        assert job["body"] == "queue" and job["id"] == one(web, "queue")["job"]
        ack(web, job, how)
    until(lambda: one(web, "queue")["fired"] == 4)
    assert one(web, "queue")["waiting"] >= waiting - 3

    # `after` counts from the end, whatever that is.
    for how in ("ack", "bury", "cancel", "purge"):
        job = web.reserve("after", wait="60s")[0]
        assert one(web, "after")["job"] == job["id"] and foretold(web, "after") == []
        before = time.time() * 1000
        if how == "cancel":
            assert web.ask("DELETE", f"/v1/jobs/{job['id']}?force=true").status == 200
        elif how == "purge":
            assert web.post("/v1/topics/after/purge").status == 200
        else:
            ack(web, job, how)
        ended = time.time() * 1000
        until(lambda: one(web, "after").get("job") not in (None, job["id"]))
        assert before - 5 < one(web, "after")["last_ms"] - 300 < ended + 5


def test_expiry_and_last_attempt_end_an_occurrence(web):
    put(web, "expires", topic="e", after="100ms", ttl="100ms")
    put(web, "dies", topic="d", after="100ms", retries=0, ttr="100ms")
    until(lambda: one(web, "expires")["fired"] >= 3)
    for _ in range(2):
        assert web.reserve("d", wait="60s")
    until(lambda: one(web, "dies")["fired"] >= 3)


def test_a_topic_that_takes_none_holds_the_tick(web):
    assert web.ask("PUT", "/v1/topics/t", json.dumps({"paused": "in"})).status == 200
    put(web, "s", every="300ms", overlap="allow")
    until(lambda: "trouble" in one(web, "s"))
    assert dues(web) == []
    time.sleep(0.7)
    before = time.time() * 1000
    next_ms = foretold(web, "s", 3)
    assert next_ms[0] > before - 310 and next_ms[2] - next_ms[0] == 600  # missed: once
    assert web.post("/v1/topics/t/resume").status == 200
    until(lambda: one(web, "s")["fired"] >= 3)
    jobs = dues(web)
    assert "trouble" not in one(web, "s")
    assert all((b - a) % 300 == 0 for a, b in zip(jobs, jobs[1:]))
    assert len(jobs) == len(set(jobs))


def test_run_pause_and_move(web):
    put(web, "s", topic="a", cron="@hourly", body="x", tag="red", priority=3)
    job = web.post("/v1/schedules/s/run")
    assert job.status == 201 and job.json["state"] == "ready" and job.json["tag"] == "red", job
    assert web.get("/v1/jobs/" + job.json["id"]).json["body"] == "x"
    assert one(web, "s")["fired"] == 0
    assert web.post("/v1/schedules/s/pause").json["paused"] is True
    moved = put(web, "s", 200, topic="b", every="200ms")
    assert moved["paused"] is True and moved["created"] is False
    assert web.post("/v1/schedules/s/resume").json["paused"] is False
    until(lambda: one(web, "s")["fired"] >= 1)
    assert web.reserve("b", wait="60s")[0]["topic"] == "b"
    assert [each["name"] for each in web.get("/v1/schedules").json["schedules"]] == ["s"]
    assert web.ask("DELETE", "/v1/schedules/s").json == {"deleted": True}
    fired = len(dues(web, "b"))
    time.sleep(0.6)
    assert len(dues(web, "b")) == fired


def test_a_node_that_drains_makes_no_jobs(server, web):
    put(web, "s", every="200ms", overlap="allow")
    until(lambda: one(web, "s")["fired"] >= 2)
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for("draining")
    assert web.post("/v1/schedules/s/run").code == "draining"

    def quiet():
        """None is made for a while; one that was under way may be."""
        fired = one(web, "s")["fired"]
        time.sleep(0.7)
        return one(web, "s")["fired"] == fired
    until(quiet)


def test_preview(web):
    shown = web.ask("PUT", "/v1/schedules/p", json.dumps(
        {"dry_run": True, "topic": "t", "cron": "0 30 9 * * MON-FRI", "tz": "Asia/Shanghai", "jitter": "5m"}))
    assert shown.status == 200 and len(shown.json["next"]) == 10, shown
    put(web, "p", cron="0 30 9 * * MON-FRI", tz="Asia/Shanghai", jitter="5m")
    assert web.get("/v1/schedules/p/next").json["next"] == shown.json["next"]


def test_spread_topics(web):
    """A schedule is in one of its topic's slots, and so are its jobs: whoever reserves gets them."""
    assert web.ask("PUT", "/v1/topics/wide", json.dumps({"spread": 8})).status == 200
    names = {f"s{i}" for i in range(16)}
    for name in names:
        put(web, name, topic="wide", every="300ms", limit=1, body=name)
    got = set()
    while got != names:
        job = web.reserve("wide", wait="60s")[0]
        got.add(job["body"])
        ack(web, job)


def test_a_schedule_of_a_newer_release_is_in_nobodys_way(web, redis):
    put(web, "old", every="200ms", overlap="allow")
    put(web, "new", every="200ms", overlap="allow")
    until(lambda: one(web, "new")["fired"] >= 1)
    client = redis.client()
    client.send("KEYS", "*}:s")
    keys = client.read()
    for key in keys:
        client.send("HSET", key, "dnew", b"\xff\xff\xff\xff\x0f")
        client.read()
    fired = one(web, "old")["fired"]
    until(lambda: one(web, "old")["fired"] >= fired + 4)
    client.close()


# ---- nodes that die ----


def test_missed(tmp_path, redis):
    """The only node is killed: none twice; what came until another one has its slots as `missed` says."""
    flags = [*redis.tarry(), *LEASE]
    kinds = ("once", "all", "skip")
    with web_server(tmp_path / "a", *flags) as server:
        web = ready_web(server)
        for missed in kinds:
            put(web, missed, topic=missed, every="200ms", missed=missed, overlap="allow")
        until(lambda: one(web, "all")["fired"] >= 2)
        server.stop(signal.SIGKILL)
    time.sleep(0.8)
    with web_server(tmp_path / "b", *flags) as server:
        web = ready_web(server)
        before = one(web, "skip")["fired"]
        until(lambda: all(one(web, missed)["fired"] >= before + 4 for missed in kinds))
        seen = {missed: dues(web, missed) for missed in kinds}
        for jobs in seen.values():
            assert len(set(jobs)) == len(jobs)
            assert all((b - a) % 200 == 0 for a, b in zip(jobs, jobs[1:]))
        gaps = {missed: max(b - a for a, b in zip(jobs, jobs[1:])) for missed, jobs in seen.items()}
        assert gaps["all"] == 200
        assert gaps["once"] >= 600 and gaps["skip"] >= 800


def test_ticks_go_on_when_their_owner_dies(tmp_path, redis):
    """Two nodes, and schedules in many slots: those of the dead one go on, and no tick makes two jobs."""
    flags = [*redis.tarry(), *LEASE]
    names = [f"s{i}" for i in range(12)]
    with web_server(tmp_path / "a", *flags) as first, web_server(tmp_path / "b", *flags) as second:
        a, b = ready_web(first), ready_web(second)
        until(lambda: a.get("/v1/stats").json["redis"]["nodes"] == 2
                   and b.get("/v1/stats").json["redis"]["nodes"] == 2)
        for name in names:
            put(a, name, topic=name, every="250ms", missed="all", overlap="allow")
        until(lambda: all(one(b, name)["fired"] >= 2 for name in names))
        first.stop(signal.SIGKILL)
        fired = {name: one(b, name)["fired"] for name in names}
        until(lambda: all(one(b, name)["fired"] >= fired[name] + 3 for name in names))
        for name in names:
            jobs = dues(b, name)
            assert all(y - x == 250 for x, y in zip(jobs, jobs[1:])), jobs
        assert second.stop() == 0, second.said
