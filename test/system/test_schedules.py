"""Recurring jobs over HTTP: /next tells the truth, across summer and winter, leap days, restarts and kills."""
import datetime
import json
import signal
import time

import pytest

from web import Web, web_port, web_server

UTC = datetime.timezone.utc


def ms(text):
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def put(web, name, status=201, **fields):
    answer = web.ask("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "t", **fields}))
    assert answer.status == status, answer
    return answer.json


def advance(web, **how):
    answer = web.post("/v1/clock/advance", **how)
    assert answer.status == 200, answer
    return answer.json["now_ms"]


def foretold(web, name, n=1000):
    return [one["due_ms"] for one in web.get(f"/v1/schedules/{name}/next", n=n).json["next"]]


def dues(web, topic="t"):
    """Due times of all jobs of a topic, in order; those made so far."""
    found, cursor = [], {}
    while True:
        page = web.get("/v1/jobs", topic=topic, limit=1000, **cursor).json
        found += page["jobs"]
        if page["cursor"] is None:
            return [job["due_ms"] for job in found]
        cursor = {"cursor": page["cursor"]}


def server_at(tmp_path, start):
    return web_server(tmp_path / "data", "--test-clock", "--set", f"clock.start={start}")


# Both changes of each zone in 2027, and the leap day of 2028; what is fixed, what goes by steps, both.
EDGES = [("Europe/Berlin", "2027-03-27T00:00:00Z", 4), ("Europe/Berlin", "2027-10-30T00:00:00Z", 4),
         ("America/New_York", "2027-03-13T00:00:00Z", 4), ("America/New_York", "2027-11-06T00:00:00Z", 4),
         ("Australia/Lord_Howe", "2027-04-02T12:00:00Z", 4), ("Australia/Lord_Howe", "2027-10-01T12:00:00Z", 4),
         ("America/Havana", "2027-03-13T00:00:00Z", 3), ("Asia/Shanghai", "2028-02-27T00:00:00Z", 4)]
CRONS = ["30 2 * * *", "0 0 * * *", "*/20 * * * *", "15 */2 * * *", "0 0 29 2 *", "5 1,2,3 * * *",
         "0 0 L * *", "30 30 9 * * SUN-TUE"]


@pytest.mark.parametrize("zone,start,days", EDGES)
def test_next_is_what_happens(tmp_path, zone, start, days):
    with server_at(tmp_path, start) as server:
        web = Web(web_port(server))
        end = ms(start.replace("Z", "+00:00")) + days * 86400000
        told = {}
        for i, cron in enumerate(CRONS):
            put(web, f"s{i}", topic=f"t{i}", cron=cron, tz=zone, overlap="allow",
                jitter="90s" if i == 5 else "0s")
            told[i] = [due for due in foretold(web, f"s{i}")]
            assert told[i] == sorted(told[i]) or i == 5
        advance(web, by=f"{days}d")
        for i, cron in enumerate(CRONS):
            # A tick that has come made its job, though with jitter it may be due a little later.
            happened = dues(web, f"t{i}") if web.get(f"/v1/topics/t{i}").status == 200 else []
            assert happened == sorted(told[i][:len(happened)]), (cron, zone)
            rest = told[i][len(happened):]
            assert not rest or rest[0] > end, (cron, zone)
            assert foretold(web, f"s{i}", 1)[:1] == rest[:1]


def test_every_after_and_overlap(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        begin = ms("2027-01-01T00:00:00+00:00")
        put(web, "skip", topic="skip", every="10s")
        put(web, "allow", topic="allow", every="10s", overlap="allow")
        put(web, "queue", topic="queue", every="10s", overlap="queue")
        put(web, "after", topic="after", after="10s")
        put(web, "start", topic="start", every="1m", start="2027-01-01T00:00:30Z", limit=2, overlap="allow")
        put(web, "end", topic="end", every="10s", end="2027-01-01T00:00:30Z", overlap="allow")
        assert foretold(web, "start") == [begin + 30000, begin + 90000]
        assert foretold(web, "end") == [begin + 10000, begin + 20000]
        advance(web, by="35s")
        assert dues(web, "skip") == [begin + 10000]
        assert dues(web, "allow") == [begin + 10000, begin + 20000, begin + 30000]
        assert dues(web, "queue") == [begin + 10000]
        assert dues(web, "after") == [begin]
        assert dues(web, "end") == [begin + 10000, begin + 20000]
        assert web.get("/v1/schedules/skip").json["skipped"] == 2
        assert web.get("/v1/schedules/queue").json["waiting"] == 2
        for topic, how in (("queue", "ack"), ("after", "ack"), ("skip", "bury")):
            job = web.reserve(topic)[0]
            assert web.post(f"/v1/jobs/{job['id']}/{how}", lease=job["lease"]).status == 200
        assert dues(web, "queue") == [begin + 35000]
        assert web.get("/v1/schedules/queue").json["waiting"] == 1
        assert foretold(web, "after") == [begin + 45000]
        advance(web, by="10s")
        assert dues(web, "after") == [begin + 45000]
        assert begin + 40000 in dues(web, "skip")
        advance(web, by="1h")
        assert dues(web, "start") == [begin + 30000, begin + 90000]
        assert web.get("/v1/schedules/start").json["fired"] == 2
        assert "next" not in web.get("/v1/schedules/start").json
        # However an occurrence ends, the schedule goes on.
        job = web.get("/v1/schedules/after").json["job"]
        assert web.ask("DELETE", f"/v1/jobs/{job}").status == 200
        assert len(foretold(web, "after")) == 1
        assert web.post("/v1/topics/skip/purge").status == 200
        now = advance(web, by="10s")
        assert [due for due in dues(web, "skip") if due <= now]


def test_kill_and_missed(tmp_path):
    """Killed in the middle: none twice; what came meanwhile as `missed` says. On a real clock that we set."""
    data = tmp_path / "data"
    with web_server(data) as server:
        web = Web(web_port(server))
        for missed in ("once", "all", "skip"):
            put(web, missed, topic=missed, every="200ms", missed=missed, overlap="allow")
        server.wait_for("ready")
        while web.get("/v1/schedules/all").json["fired"] < 2:
            pass
        server.stop(signal.SIGKILL)
    time.sleep(0.8)
    with web_server(data) as server:
        web = Web(web_port(server))
        before = web.get("/v1/schedules/skip").json["fired"]
        while web.get("/v1/schedules/skip").json["fired"] < before + 2:
            pass
        seen = {}
        for missed in ("once", "all", "skip"):
            jobs = dues(web, missed)
            seen[missed] = jobs
            assert len(set(jobs)) == len(jobs)
            assert all((b - a) % 200 == 0 for a, b in zip(jobs, jobs[1:]))
        gaps = {missed: max(b - a for a, b in zip(jobs, jobs[1:])) for missed, jobs in seen.items()}
        assert gaps["all"] == 200
        assert gaps["once"] >= 600 and gaps["skip"] >= 800


def test_missed_by_a_test_clock(tmp_path):
    """A start may let the test clock stand later than it stood: time in which no server was there."""
    begin = ms("2027-01-01T00:00:00+00:00")
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        for missed in ("once", "all", "skip"):
            put(web, missed, topic=missed, every="10s", missed=missed, overlap="allow")
        held = web.push("held", b"x", ttr="5m")["id"]
        assert [job["id"] for job in web.reserve("held")] == [held]
        assert server.stop() == 0
    with server_at(tmp_path, "2027-01-01T00:01:05Z") as server:
        web = Web(web_port(server))
        assert advance(web, by="0s") == begin + 65_000
        assert dues(web, "all") == [begin + n * 10_000 for n in range(1, 7)]
        assert dues(web, "once") == [begin + 60_000] and dues(web, "skip") == []
        assert web.get(f"/v1/jobs/{held}").json["state"] == "reserved"
        assert advance(web, by="5s") == begin + 70_000
        assert dues(web, "once") == [begin + 60_000, begin + 70_000] and dues(web, "skip") == [begin + 70_000]
        server.stop(signal.SIGKILL)
    with server_at(tmp_path, "2026-01-01T00:00:00Z") as server:  # never back
        assert Web(web_port(server)).get("/v1/clock").json["now_ms"] == begin + 70_000


def test_paused_in_topic_holds_the_tick(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        begin = ms("2027-01-01T00:00:00+00:00")
        put(web, "s", every="10s", overlap="allow")
        assert web.post("/v1/topics/t/pause", what="in").status == 200
        advance(web, by="35s")
        assert dues(web) == []
        assert "trouble" in web.get("/v1/schedules/s").json
        assert web.post("/v1/topics/t/resume").status == 200
        while not dues(web):
            pass
        assert dues(web) == [begin + 30000]  # missed: once
        advance(web, by="10s")
        assert dues(web) == [begin + 30000, begin + 40000]


def test_held_tick_goes_by_the_test_clock(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        begin = ms("2027-01-01T00:00:00+00:00")
        assert web.ask("PUT", "/v1/topics/t", json.dumps({"max_jobs": 1})).status in (200, 201)
        put(web, "s", every="10s", overlap="allow")
        advance(web, by="35s")
        assert dues(web) == [begin + 10000]
        assert "trouble" in web.get("/v1/schedules/s").json
        job = web.reserve("t")[0]
        assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
        advance(web, by="1ms")
        assert dues(web) == [begin + 30000]
        # An advance of 30 days does not stop each second for it.
        start = time.monotonic()
        advance(web, by="30d")
        assert time.monotonic() - start < 30
        assert dues(web) == [begin + 30000]


@pytest.mark.parametrize("missed,first", [("once", 30), ("skip", 40), ("all", 10)])
@pytest.mark.parametrize("when", [{"every": "10s"}, {"cron": "*/10 * * * * *"}])
def test_next_of_a_held_one_is_what_missed_makes(tmp_path, missed, first, when):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        begin = ms("2027-01-01T00:00:00+00:00")
        put(web, "s", overlap="allow", missed=missed, **when)
        assert web.post("/v1/topics/t/pause", what="in").status == 200
        advance(web, by="35s")
        told = foretold(web, "s", 5)
        assert told == [begin + 1000 * n for n in range(first, first + 50, 10)]
        assert web.get("/v1/schedules/s").json["next_ms"] == told[0]
        assert web.post("/v1/topics/t/resume").status == 200
        advance(web, by="20s")
        happened = dues(web)
        assert happened == told[:(55 - first) // 10 + 1]


def test_set_again_pause_run_list(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        for i in range(7):
            put(web, f"s{i}", cron="@hourly", body="x")
        assert put(web, "s0", 200, cron="@hourly", body="x")["created"] is False
        page = web.get("/v1/schedules", limit=5).json
        rest = web.get("/v1/schedules", limit=5, cursor=page["cursor"]).json
        assert [one["name"] for one in page["schedules"] + rest["schedules"]] == [f"s{i}" for i in range(7)]
        assert rest["cursor"] is None
        assert web.post("/v1/schedules/s0/pause").json["paused"] is True
        assert foretold(web, "s0") == []
        job = web.post("/v1/schedules/s0/run")
        assert job.status == 201 and job.json["state"] == "ready"
        assert web.get("/v1/jobs/" + job.json["id"]).json["body"] == "x"
        advance(web, by="2h30m")
        assert web.get("/v1/schedules/s0").json["fired"] == 0
        assert web.post("/v1/schedules/s0/resume").json["next_ms"] == ms("2027-01-01T03:00:00+00:00")
        advance(web, by="1h")
        assert web.get("/v1/schedules/s0").json["fired"] == 1
        put(web, "s0", 200, every="1h")
        assert web.get("/v1/schedules/s0").json["fired"] == 0
        assert web.ask("DELETE", "/v1/schedules/s0").json == {"deleted": True}
        assert web.get("/v1/schedules/s0").code == "not_found"
    with web_server(tmp_path / "data", "--test-clock") as server:
        web = Web(web_port(server))
        assert len(web.get("/v1/schedules").json["schedules"]) == 6


BAD = [({"cron": "61 * * * *"}, "cron", "minute (field 1 of 5"), ({"cron": "0 0 30 2 *"}, "cron", "never comes"),
       ({"cron": "* * *"}, "cron", "has 3 fields"), ({"cron": "@daily", "tz": "No/Where"}, "tz", "no time zone"),
       ({"cron": "@daily", "tz": "../etc/passwd"}, "tz", "no time zone"), ({"every": "0s"}, "every", ""),
       ({"every": "1s", "after": "1s"}, "every", "together"), ({}, "cron", "missing"),
       ({"every": "1s", "tz": "Asia/Shanghai"}, "tz", "goes with cron"), ({"every": "1s", "overlap": "x"}, "overlap", ""),
       ({"every": "1s", "start": "2027-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}, "end", "not after start"),
       ({"every": "1s", "limit": 0}, "limit", ""), ({"every": "1s", "colour": 1}, "colour", ""),
       ({"every": "1s", "topic": "-"}, "topic", "")]


def test_every_takes_its_own_default_for_a_zone(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        for kind in ("every", "after"):
            for n, tz in enumerate(("UTC", "Etc/UTC", "Zulu")):
                assert "tz" not in put(web, f"{kind}{n}", **{kind: "1h", "tz": tz})
        assert put(web, "cron", cron="@daily", tz="Etc/UTC")["tz"] == "Etc/UTC"


def test_bad_ones_say_what_to_do(tmp_path):
    with server_at(tmp_path, "2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        for fields, field, words in BAD:
            answer = web.ask("PUT", "/v1/schedules/bad", json.dumps({"topic": "t", **fields}))
            assert answer.status == 400, (fields, answer)
            assert answer.json["error"]["field"] == field, answer
            assert words in answer.json["error"]["message"], answer
        big = json.dumps({"topic": "t", "every": "1s", "body": "x" * 70000})
        assert web.ask("PUT", "/v1/schedules/bad", big).status == 413
        assert web.get("/v1/schedules").json == {"schedules": [], "cursor": None}
        # As much as one may have, over a restart: more than a page of a checkpoint.
        put(web, "big", every="1h", body="x" * 65535, backoff="1s,2s", tag="red", retries=3, ttr="5s",
            ttl="1h", priority=7, jitter="1s")
        before = web.get("/v1/schedules/big").json
        server.stop()
    with web_server(tmp_path / "data", "--test-clock") as server:
        web = Web(web_port(server))
        assert web.get("/v1/schedules/big").json == before
        advance(web, by="1h")
        job = web.reserve("t") or (advance(web, by="1s") and web.reserve("t"))
        assert job[0]["body"] == "x" * 65535 and job[0]["tag"] == "red" and job[0]["priority"] == 7
