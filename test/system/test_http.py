"""The HTTP port of the real binary: jobs, leases, many at once, and clients that behave oddly."""
import base64
import json
import re
import signal
import threading
import time

import pytest

from client import Client
from harness import PATIENCE_S, STOP_S
from prom import Page
from web import Web, raw, read_answer, web_port, web_server

HEAD = b"Host: localhost\r\n"


@pytest.fixture
def server(tmp_path):
    with web_server(tmp_path / "store", "--sync", "never") as made:
        made.web = web_port(made)
        yield made


@pytest.fixture
def web(server):
    client = Web(server.web)
    yield client
    client.close()


def is_error(answer, status, code=None, field=None):
    assert answer.status == status, answer
    error = answer.json["error"]
    assert set(answer.json) == {"error"} and error["message"]
    assert code is None or error["code"] == code, answer
    assert field is None or error.get("field") == field, answer
    return error


# ---- one job ----


def test_push_and_look_up(web):
    pushed = web.post("/v1/topics/orders/jobs", b'{"order":42}', delay="30m", key="order-42")
    assert pushed.status == 201
    job = pushed.json
    assert job["id"].isdigit() and job["topic"] == "orders" and job["key"] == "order-42"
    assert job["state"] == "delayed" and job["created"] is True and "body" not in job
    assert abs(job["due_ms"] - time.time() * 1000 - 1800_000) < 60_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job["due"])
    for path in (f"/v1/jobs/{job['id']}", "/v1/topics/orders/keys/order-42"):
        seen = web.get(path)
        assert seen.status == 200
        assert {**seen.json, "created": True} == {**job, "body": '{"order":42}'}
    is_error(web.get(f"/v1/jobs/{int(job['id']) + 1}"), 404, "not_found")
    is_error(web.get("/v1/topics/orders/keys/no"), 404, "not_found")
    is_error(web.get("/v1/topics/nobody/keys/order-42"), 404, "not_found")
    is_error(web.get("/v1/jobs/x"), 400, field="id")
    is_error(web.get("/v1/jobs/99999999999999999999"), 404)


def test_bodies_come_back_exactly(web):
    for body in [b"", b"x", b"\xff\x00\xfe", "äöü \u2603 \0 \x1f \"\\".encode(), bytes(range(256)),
                 b"x" * 1000_000]:
        job = web.push("t", body)
        seen = web.get(f"/v1/jobs/{job['id']}").json
        text = seen["body"].encode() if "body" in seen else base64.b64decode(seen["body_base64"])
        assert text == body
        plain = web.ask("GET", f"/v1/jobs/{job['id']}",
                        headers={"Accept": "application/octet-stream"})
        assert plain.body == body and plain.headers["Tarry-Id"] == job["id"]
        assert plain.headers["Content-Type"] == "application/octet-stream"
        assert plain.headers["Tarry-Topic"] == "t" and plain.headers["Tarry-State"] == "ready"
    error = is_error(web.post("/v1/topics/t/jobs", b"x" * ((1 << 20) + 1)), 413, "body_too_large")
    assert "limits.body" in error["message"] and "raise" in error["message"]


def test_push_with_all_fields(web):
    job = web.push("t", b"x", delay="1.5h", key="k", priority=7, ttr="90s", ttl="1h", tag="red",
                   retries=3, backoff="1s,2s")
    assert (job["priority"], job["ttr_ms"], job["ttl_ms"], job["tag"]) == (7, 90_000, 3600_000, "red")
    assert (job["retries"], job["backoff"]) == (3, "1s,2s")
    done = web.ask("PATCH", "/v1/topics/t/keys/k", '{"tag":"blue","ttl":null}').json
    assert done["tag"] == "blue" and "ttl_ms" not in done and done["retries"] == 3
    assert "tag" not in web.ask("PATCH", "/v1/topics/t/keys/k", '{"tag":null}').json
    web.ask("PUT", "/v1/topics/p", '{"ttr":"5s"}')
    assert web.push("p", b"x")["ttr_ms"] == 5000
    moment = int(time.time() * 1000) + 86400_000
    job = web.push("t", b"x", at=moment)
    assert job["due_ms"] == moment
    job = web.push("t", b"x", at="2027-01-01T00:00:00+08:00")
    assert job["due"] == "2026-12-31T16:00:00.000Z"
    assert web.push("t", b"x", at="2020-01-01T00:00:00Z")["state"] == "ready"  # the past means now
    for query, field in [({"delay": "soon"}, "delay"), ({"at": "yesterday"}, "at"),
                         ({"at": 1700000000}, "at"), ({"delay": "1s", "at": moment}, "delay"),
                         ({"delay": "-1s"}, "delay"), ({"delay": "138y"}, "delay"),
                         ({"delay": "50006d"}, "delay"), ({"at": "2199-01-01T00:00:00Z"}, "at"),
                         ({"priority": -1}, "priority"), ({"priority": 2**32}, "priority"),
                         ({"ttr": 0}, "ttr"), ({"key": ""}, "key"), ({"key": "x" * 256}, "key"),
                         ({"key": "a\nb"}, "key"), ({"on_conflict": "maybe"}, "on_conflict"),
                         ({"colour": "red"}, "colour")]:
        is_error(web.post("/v1/topics/t/jobs", b"x", **query), 400, field=field)
    is_error(web.post("/v1/topics/t/jobs?delay=1&delay=1", b"x"), 400, field="delay")
    is_error(web.post("/v1/topics/-t/jobs", b"x"), 400, field="topic")
    is_error(web.post("/v1/topics/%20/jobs", b"x"), 400, field="topic")


def test_what_a_job_has_of_its_topic_is_shown(web):
    """Wherever it is shown, be it pushed, far away, replaced, looked up, listed or handed out."""
    mine = {"ttr_ms": 9000, "retries": 2, "ttl_ms": 60_000}
    web.ask("PUT", "/v1/topics/fx", '{"ttr":"9s","retries":2,"ttl":"1m"}')
    shown = [web.push("fx", b"x"), web.push("fx", b"x", key="k", delay="400d")]
    shown += [web.get(f"/v1/jobs/{job['id']}").json for job in list(shown)]
    shown += web.get("/v1/jobs", topic="fx").json["jobs"]
    shown += [web.post("/v1/topics/fx/jobs", b"y", key="k", delay="1h").json]
    shown += [entry for entry in web.post("/v1/jobs", '[{"topic":"fx","body":1},{"topic":"fx"}]').json["results"]]
    shown += [web.post("/v1/topics/fx/keys/k/fire").json]
    shown += web.reserve("fx", count=9)
    assert [{name: job.get(name) for name in mine} for job in shown] == [mine] * 14
    assert web.push("fx", b"x", ttl="1h", key="own", delay="1h")["ttl_ms"] == 3600_000
    assert web.ask("PATCH", "/v1/topics/fx/keys/own", '{"ttl":"1m"}').json["ttl_ms"] == 60_000
    assert web.get("/v1/topics/fx/keys/own").json["ttl_ms"] == 60_000
    web.ask("PUT", "/v1/schedules/s", '{"topic":"fx","every":"1h"}')
    assert web.post("/v1/schedules/s/run").json["ttl_ms"] == 60_000
    plain = {"Accept": "application/octet-stream"}
    for answer in (web.ask("GET", "/v1/topics/fx/keys/own", headers=plain),
                   web.ask("POST", "/v1/topics/fx/reserve", headers=plain)):
        told = answer.headers
        assert (told["Tarry-Ttr-Ms"], told["Tarry-Retries"], told["Tarry-Ttl-Ms"]) == ("9000", "2", "60000")
    assert "ttl_ms" not in web.ask("PATCH", "/v1/topics/fx/keys/own", '{"ttl":null}').json  # and not the topic's
    assert "ttl_ms" not in web.get("/v1/topics/fx/keys/own").json
    other = web.push("other", b"x", retries=-1)
    assert "ttl_ms" not in other
    told = web.ask("GET", f"/v1/jobs/{other['id']}", headers=plain).headers
    assert told["Tarry-Retries"] == "-1" and "Tarry-Ttl-Ms" not in told


def test_what_the_policy_gives_is_fixed_by_the_push(web):
    """And what it does not give is as by default, for good."""
    before = web.push("t", b"before")["id"]
    web.ask("PUT", "/v1/topics/t", '{"ttr":"30s","retries":2,"backoff":"50s","ttl":"1h"}')
    given = web.push("t", b"given", key="k")["id"]
    own = web.push("t", b"own", ttr="5s", retries="7", ttl="2h")["id"]
    web.ask("PUT", "/v1/topics/t", '{"ttr":"90s","retries":9,"backoff":"1s","ttl":"3h"}')

    def told(job):
        seen = web.get(f"/v1/jobs/{job}").json
        return seen["ttr_ms"], seen["retries"], seen.get("ttl_ms")

    assert told(before) == (60_000, 16, None)
    assert told(given) == (30_000, 2, 3600_000) and web.get(f"/v1/jobs/{given}").json["backoff"] == "50s"
    assert told(own) == (5_000, 7, 2 * 3600_000)
    jobs = {job["id"]: job for _ in range(3) for job in web.reserve("t", wait="60s")}
    assert {id: job["lease_ms"] for id, job in jobs.items()} == {before: 60_000, given: 30_000, own: 5_000}
    back = {}
    for id in (before, given):
        assert web.post(f"/v1/jobs/{id}/release", lease=jobs[id]["lease"]).status == 200
        back[id] = web.get(f"/v1/jobs/{id}").json["due_ms"] / 1000 - time.time()
    assert 30 < back[given] <= 50 and back[before] <= 1.1
    assert web.push("t", b"again", key="k")["id"] == given  # takes its place
    assert told(given) == (90_000, 9, 3 * 3600_000)


def test_key_conflicts(web):
    first = web.push("t", b"one", key="k", delay="1h")
    again = web.post("/v1/topics/t/jobs", b"two", key="k", delay="2h", priority=5)
    assert again.status == 200 and again.json["id"] == first["id"]
    assert again.json["created"] is False and again.json["priority"] == 5
    kept = web.post("/v1/topics/t/jobs", b"three", key="k", on_conflict="keep")
    assert kept.status == 200 and kept.json["created"] is False and kept.json["state"] == "delayed"
    assert is_error(web.post("/v1/topics/t/jobs", b"four", key="k", on_conflict="error"), 409,
                    "key_exists")["state"] == "delayed"
    assert web.get("/v1/topics/t/keys/k").json["body"] == "two"
    assert web.push("other", b"x", key="k")["id"] != first["id"]
    web.post("/v1/topics/t/keys/k/fire")
    lease = web.reserve("t")[0]["lease"]
    error = is_error(web.post("/v1/topics/t/jobs", b"five", key="k"), 409)
    assert error["state"] == "reserved"
    web.post(f"/v1/jobs/{first['id']}/bury", lease=lease)
    back = web.post("/v1/topics/t/jobs", b"six", key="k")  # a dead one comes back under its id
    assert back.status == 200 and back.json["id"] == first["id"] and back.json["state"] == "ready"
    odd = "schlüssel/ %+?&#"
    made = web.push("t", b"odd", key=odd)
    path = "/v1/topics/t/keys/" + "".join(f"%{b:02x}" for b in odd.encode())
    assert web.get(path).json["id"] == made["id"] and web.get(path).json["key"] == odd


def test_cancel(web):
    for state, query in [("delayed", {"delay": "1h"}), ("ready", {})]:
        job = web.push("t", b"x", key="k", **query)
        done = web.ask("DELETE", f"/v1/jobs/{job['id']}")
        assert done.status == 200
        assert done.json["cancelled"] is True and done.json["was"] == state
        is_error(web.ask("DELETE", f"/v1/jobs/{job['id']}"), 404)
    web.push("t", b"x", key="k")
    held = web.reserve("t")[0]
    assert is_error(web.ask("DELETE", "/v1/topics/t/keys/k"), 409)["state"] == "reserved"
    assert web.ask("DELETE", "/v1/topics/t/keys/k", force="true").json["was"] == "reserved"
    is_error(web.post(f"/v1/jobs/{held['id']}/ack", lease=held["lease"]), 404)
    web.push("t", b"x", key="k")
    held = web.reserve("t")[0]
    web.post(f"/v1/jobs/{held['id']}/bury", lease=held["lease"])
    assert web.ask("DELETE", "/v1/topics/t/keys/k").json["was"] == "dead"
    is_error(web.ask("DELETE", "/v1/jobs/1", force="yes"), 400, field="force")


def test_edit(web):
    job = web.push("t", b"old", key="k", delay="1h")
    path = f"/v1/jobs/{job['id']}"
    done = web.ask("PATCH", path, json.dumps({"delay": "2h", "priority": 3, "ttr": "5m"}))
    assert done.status == 200 and done.json["id"] == job["id"]
    assert done.json["due_ms"] - job["due_ms"] > 3500_000
    assert (done.json["priority"], done.json["ttr_ms"]) == (3, 300_000)
    assert web.ask("PATCH", "/v1/topics/t/keys/k", '{"body":{"a": [1, 2]}}').status == 200
    assert web.get(path).json["body"] == '{"a": [1, 2]}'
    assert web.ask("PATCH", path, '{"body_base64":"/wA="}').status == 200
    assert web.get(path).json["body_base64"] == "/wA="
    assert web.ask("PATCH", path, priority=9).json["priority"] == 9  # without a body: the query
    assert web.ask("PATCH", path, '{"delay":0}').json["state"] == "ready"
    for body, field in [('{"delay":"x"}', "delay"), ('{"nope":1}', "nope"),
                        ('{"priority":"7"}', "priority"), ('{"priority":null}', "priority"),
                        ('{"delay":1,"delay":2}', "delay"), ('{"body_base64":"!"}', "body_base64")]:
        is_error(web.ask("PATCH", path, body), 400, field=field)
    for body in ("[]", "{", "x", "{} {}", "{}", '{"a":\xff}'):
        is_error(web.ask("PATCH", path, body.encode("latin-1")), 400)
    is_error(web.ask("PATCH", path), 400)
    is_error(web.ask("PATCH", "/v1/jobs/77", '{"delay":1}'), 404)
    held = web.reserve("t")[0]
    assert is_error(web.ask("PATCH", path, '{"delay":1}'), 409)["state"] == "reserved"
    web.post(f"{path}/bury", lease=held["lease"])
    assert is_error(web.ask("PATCH", path, '{"delay":1}'), 409)["state"] == "dead"


def test_fire_and_kick(web):
    job = web.push("t", b"x", delay="1h")
    path = f"/v1/jobs/{job['id']}"
    assert is_error(web.post(f"{path}/kick"), 409)["state"] == "delayed"
    assert web.post(f"{path}/fire").json["state"] == "ready"
    assert is_error(web.post(f"{path}/fire"), 409)["state"] == "ready"
    held = web.reserve("t")[0]
    assert is_error(web.post(f"{path}/kick"), 409)["state"] == "reserved"
    assert web.post(f"{path}/bury", lease=held["lease"]).json["state"] == "dead"
    assert is_error(web.post(f"{path}/fire"), 409)["state"] == "dead"
    assert web.post(f"{path}/kick").json["state"] == "ready"
    is_error(web.post("/v1/jobs/77/kick"), 404)


# ---- leases ----


def test_reserve_and_ack(web):
    web.push("t", b"one", priority=2)
    web.push("t", b"two", priority=1)
    jobs = web.reserve("t", count=10)
    assert [job["body"] for job in jobs] == ["two", "one"]
    for job in jobs:
        assert job["state"] == "reserved" and job["attempts"] == 1 and job["late_ms"] >= 0
        path = f"/v1/jobs/{job['id']}/ack"
        is_error(web.post(path), 400, field="lease")
        assert is_error(web.post(path, lease="x"), 409, "lease_lost")["state"] == "reserved"
        assert web.post(path, lease=job["lease"]).json["acked"] is True
        is_error(web.post(path, lease=job["lease"]), 404)
    assert web.post("/v1/topics/t/reserve").status == 204
    assert web.post("/v1/topics/nobody/reserve").status == 204
    for query in ({"count": 0}, {"count": 1001}, {"wait": "11m"}, {"wait": "x"}, {"ttr": 0}):
        is_error(web.post("/v1/topics/t/reserve", **query), 400)
    is_error(web.post("/v1/reserve"), 400, field="topics")
    is_error(web.post("/v1/reserve", topics="a,,b"), 400, field="topics")


def test_release_touch_and_lost_leases(web):
    web.push("t", b"x", priority=5)
    first = web.reserve("t", ttr="1h")[0]
    assert 3590_000 < first["lease_ms"] <= 3600_000
    path = f"/v1/jobs/{first['id']}"
    touched = web.post(f"{path}/touch", lease=first["lease"])
    assert touched.json["lease"] == first["lease"]
    assert 3590_000 < touched.json["lease_ms"] <= 3600_000  # not the job's own 60 s
    freed = web.post(f"{path}/release", lease=first["lease"], delay=0)
    assert freed.json["state"] == "ready" and freed.json["priority"] == 5
    for what in ("ack", "release", "bury", "touch"):
        error = is_error(web.post(f"{path}/{what}", lease=first["lease"]), 409, "lease_lost")
        assert error["state"] == "ready"
    second = web.reserve("t")[0]
    assert second["attempts"] == 2 and second["lease"] != first["lease"]
    is_error(web.post(f"{path}/ack", lease=first["lease"]), 409, "lease_lost")
    later = web.post(f"{path}/release", lease=second["lease"], delay="1h", priority=1)
    assert later.json["state"] == "delayed" and later.json["priority"] == 1


def test_bury_by_force_what_nobody_has(web):
    job = web.push("t", b"x", delay="1h", priority=7, key="k")
    path = f"/v1/jobs/{job['id']}"
    error = is_error(web.post(f"{path}/bury"), 400, "bad_request")
    assert error["field"] == "lease" and "missing" in error["message"]
    is_error(web.post(f"{path}/bury", force="false"), 400, "bad_request")
    is_error(web.post(f"{path}/bury", force="true", lease="x"), 400, "bad_request")
    dead = web.post(f"{path}/bury", force="true").json
    assert (dead["state"], dead["priority"], dead["attempts"], dead["due_ms"]) == ("dead", 7, 0, job["due_ms"])
    assert is_error(web.post(f"{path}/bury", force="true"), 409)["state"] == "dead"
    last = web.get(f"{path}/history").json["events"][-1]
    assert (last["state"], last["why"], last["by"]) == ("dead", "buried", "client")
    assert web.get("/v1/forecast", topic="t", to=job["due_ms"] + 3600_000, step="1h").json["steps"][0]["count"] == 0
    assert web.post(f"{path}/kick").json["state"] == "ready"
    assert web.post(f"{path}/bury", force="true").json["state"] == "dead"
    web.post(f"{path}/kick")
    held = web.reserve("t")[0]
    assert is_error(web.post(f"{path}/bury", force="true"), 409)["state"] == "reserved"
    assert web.post(f"{path}/bury", lease=held["lease"]).json["state"] == "dead"
    is_error(web.post("/v1/jobs/999999/bury", force="true"), 404)


def test_lease_runs_out(web):
    web.push("t", b"x")
    first = web.reserve("t", ttr="200ms")[0]
    second = web.reserve("t", wait="60s")
    if not second:
        second = web.reserve("t", wait="60s")
    assert second[0]["id"] == first["id"] and second[0]["attempts"] == 2
    is_error(web.post(f"/v1/jobs/{first['id']}/ack", lease=first["lease"]), 409, "lease_lost")


def test_long_poll(server, web):
    start = time.monotonic()
    assert web.reserve("t", wait="300ms") == []
    assert time.monotonic() - start >= 0.3
    other = Web(server.web)
    got = []
    thread = threading.Thread(target=lambda: got.extend(other.reserve("t", wait="60s", count=5)))
    thread.start()
    time.sleep(0.2)
    web.push("t", b"hello")
    thread.join(PATIENCE_S)
    assert [job["body"] for job in got] == ["hello"]
    thread = threading.Thread(target=lambda: got.append(
        other.post("/v1/reserve", topics="a,b,c", wait="60s").json["jobs"][0]))
    thread.start()
    time.sleep(0.2)
    web.push("b", b"there")
    thread.join(PATIENCE_S)
    assert got[1]["topic"] == "b"


def test_long_poll_of_a_client_that_left_gets_nothing(server, web):
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/topics/t/reserve?wait=60s HTTP/1.1\r\n" + HEAD + b"\r\n")
        time.sleep(0.2)
    time.sleep(0.2)
    web.push("t", b"x")
    job = web.reserve("t", wait="60s")[0]
    assert job["attempts"] == 1


def test_lease_survives_a_restart(tmp_path):
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        web.push("t", b"x")
        job = web.reserve("t", ttr="1h")[0]
        assert server.stop() == 0
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "reserved"
        assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
        assert server.stop() == 0


# ---- many ----


def test_push_many(web):
    items = [{"topic": "a", "body": "text"}, {"topic": "b", "body": {"x": 1}, "delay": "1h"},
             {"topic": "a", "body_base64": "AP8=", "key": "k", "priority": 1}, {"topic": "a"},
             {"topic": "-"}, {"body": "x"}, {"topic": "a", "body": "x" * ((1 << 20) + 1)}, 7,
             {"topic": "a", "key": "k", "on_conflict": "error"}]
    lines = "\n".join(map(json.dumps, items)) + "\n\n"
    for body, kind in [(json.dumps(items), "application/json"), (lines, "application/x-ndjson")]:
        done = web.ask("POST", "/v1/jobs", body, headers={"Content-Type": kind})
        assert done.status == 200, done
        results = done.json["results"]
        assert len(results) == len(items)
        ids = [result.get("id") for result in results[:4]]
        assert all(ids) and results[1]["state"] == "delayed"
        bodies = [web.get(f"/v1/jobs/{number}").json for number in ids]
        assert [job.get("body", job.get("body_base64")) for job in bodies] == [
            "text", '{"x": 1}', "AP8=", ""]
        codes = [result["error"]["code"] for result in results[4:]]
        assert codes == ["bad_request", "bad_request", "body_too_large", "bad_request",
                         "key_exists"]
    before = web.get("/v1/stats").json
    for bad in ("", "[", '[{"topic":"a"}', '{"topic":"a"}', "[1,]", '[{"topic":"a"}] x', "nope"):
        is_error(web.ask("POST", "/v1/jobs", bad), 400)
    is_error(web.ask("POST", "/v1/jobs", '{"topic":"a"}\n{"topic"',
                     headers={"Content-Type": "application/x-ndjson"}), 400)
    assert web.get("/v1/stats").json["pushed"] == before["pushed"]  # nothing of it was pushed
    assert web.ask("POST", "/v1/jobs", "[]").json == {"results": []}


def test_push_and_ack_many_thousands(web):
    items = [{"topic": "t", "body": str(i)} for i in range(20_000)]
    done = web.ask("POST", "/v1/jobs", json.dumps(items))
    assert len({result["id"] for result in done.json["results"]}) == 20_000
    jobs = []
    while len(jobs) < 20_000:
        jobs += web.reserve("t", count=1000, ttr="1h")
    assert sorted(int(job["body"]) for job in jobs) == list(range(20_000))
    acks = [{"id": job["id"], "lease": job["lease"]} for job in jobs]
    done = web.ask("POST", "/v1/ack", json.dumps(acks + acks[:1] + [{"id": 5}, {}]))
    results = done.json["results"]
    assert all(result["acked"] for result in results[:20_000])
    assert [result["error"]["code"] for result in results[20_000:]] == ["not_found", "bad_request",
                                                                        "bad_request"]


# ---- both ports ----


def test_pause_of_a_tube_is_told_and_lifted(server, web):
    web.push("t", b"x")
    with Client(server.port()) as beanstalk:
        beanstalk.say("watch t")
        assert "tube_paused_ms" not in web.get("/v1/topics/t").json
        assert beanstalk.say("pause-tube t 30") == "PAUSED"
        told = web.get("/v1/topics/t").json
        assert 20_000 < told["tube_paused_ms"] <= 30_000 and told["policy"]["paused"] == "no"
        [listed] = [one for one in web.get("/v1/topics").json["topics"] if one["name"] == "t"]
        assert listed["tube_paused_ms"] <= 30_000
        assert web.reserve("t") == []
        web.post("/v1/topics/t/pause")
        assert beanstalk.say("pause-tube t 0") == "PAUSED"  # its own only
        assert "tube_paused_ms" not in web.get("/v1/topics/t").json
        assert beanstalk.reserve() is None
        assert beanstalk.say("pause-tube t 30") == "PAUSED"
        told = web.post("/v1/topics/t/resume").json  # both
        assert told["policy"]["paused"] == "no" and "tube_paused_ms" not in told
        stats = beanstalk.table("stats-tube t")
        assert (stats["pause"], stats["pause-time-left"], stats["cmd-pause-tube"]) == ("0", "0", "3")
        assert beanstalk.table("stats")["cmd-pause-tube"] == "3"
        assert beanstalk.reserve()[1] == b"x"
        # Who waits gets it at once.
        web.push("u", b"y")
        beanstalk.say("watch u")
        assert beanstalk.say("pause-tube u 30") == "PAUSED"
        beanstalk.send(b"reserve-with-timeout 20\r\n")
        assert web.post("/v1/topics/u/resume").status == 200
        assert beanstalk.reply().word == "RESERVED"


def test_a_job_is_one_job_on_both_ports(server, web):
    with Client(server.port()) as beanstalk:
        job = web.push("default", b"from http", delay="1h")
        assert beanstalk.ask(f"peek {job['id']}").body == b"from http"
        assert beanstalk.say(f"kick-job {job['id']}") == "KICKED"
        assert beanstalk.ask("reserve-with-timeout 0").body == b"from http"
        assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "reserved"
        assert beanstalk.say(f"delete {job['id']}") == "DELETED"
        is_error(web.get(f"/v1/jobs/{job['id']}"), 404)
        number = beanstalk.put(b"back", pri=5)
        taken = web.reserve("default")[0]
        assert taken["id"] == str(number) and taken["body"] == "back" and taken["priority"] == 5
        assert beanstalk.say(f"delete {number}") == "NOT_FOUND"
        assert web.post(f"/v1/jobs/{number}/ack", lease=taken["lease"]).status == 200


# ---- time and limits ----


def test_slow_clients_are_closed(tmp_path):
    flags = ["--set", "limits.header=2s", "--set", "limits.idle=3s"]
    with web_server(tmp_path / "store", *flags) as server:
        port = web_port(server)
        with raw(port) as slow, raw(port) as idle, raw(port) as body, raw(port) as waiting:
            start = time.monotonic()
            slow.sendall(b"GET / HTTP/1.1\r\n")
            body.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 9\r\n\r\nx")
            waiting.sendall(b"POST /v1/topics/t/reserve?wait=5s HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert read_answer(slow.makefile("rb")).status == 408
            assert time.monotonic() - start >= 2
            assert idle.recv(10) == b""
            assert read_answer(body.makefile("rb")).status == 408
            assert read_answer(waiting.makefile("rb")).status == 204  # who waits is not idle
            assert time.monotonic() - start >= 5
        with raw(port) as drip:  # a byte now and then does not help
            start = time.monotonic()
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                while time.monotonic() - start < PATIENCE_S:
                    drip.sendall(b"x")
                    time.sleep(0.05)
        assert server.stop() == 0


def test_stop_answers_long_polls(tmp_path):
    with web_server(tmp_path / "store") as server:
        port = web_port(server)
        with raw(port) as wire:
            wire.sendall(b"POST /v1/topics/t/reserve?wait=60s HTTP/1.1\r\n" + HEAD + b"\r\n")
            web, end = Web(port), time.monotonic() + PATIENCE_S
            while web.get("/v1/stats").json["waiting"] != 1:
                assert time.monotonic() < end
            web.close()
            start = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - start < STOP_S
            assert read_answer(wire.makefile("rb")).status == 204


def test_kill_takes_nothing_back(tmp_path):
    """With sync always: what was answered is there after kill -9, by every kind of change."""
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        kept = web.push("t", b"kept", key="k", delay="1h")
        gone = web.push("t", b"gone", delay="1h")
        moved = web.push("t", b"moved", delay="1h")
        web.ask("DELETE", f"/v1/jobs/{gone['id']}")
        web.ask("PATCH", f"/v1/jobs/{moved['id']}", '{"delay":"5h","body":"new"}')
        many = web.ask("POST", "/v1/jobs", json.dumps([{"topic": "m", "body": str(i)}
                                                       for i in range(500)]))
        assert len(many.json["results"]) == 500
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        assert web.get("/v1/topics/t/keys/k").json["id"] == kept["id"]
        assert web.get(f"/v1/jobs/{gone['id']}").status == 404
        assert web.get(f"/v1/jobs/{moved['id']}").json["body"] == "new"
        assert len(web.reserve("m", count=1000)) == 500
        assert server.stop() == 0


def test_topics_that_were_made_survive_a_restart(tmp_path):
    """Those that were put, also with nothing to say, until they are deleted."""
    names = ("put", "patched", "resumed")
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        assert web.ask("PUT", "/v1/topics/put", "{}").status == 200
        assert web.ask("PATCH", "/v1/topics/patched", '{"ttl":"1h"}').status == 200
        assert web.ask("PATCH", "/v1/topics/patched", '{"ttl":null}').status == 200
        web.post("/v1/topics/resumed/pause")
        assert web.post("/v1/topics/resumed/resume").status == 200
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    for gone in (False, True):
        with web_server(tmp_path / "store") as server:
            web = Web(web_port(server))
            for name in names:
                assert web.get(f"/v1/topics/{name}").status == (404 if gone else 200)
                if not gone:
                    assert web.ask("DELETE", f"/v1/topics/{name}").status == 200
                    assert web.get(f"/v1/topics/{name}").status == 404
            assert server.stop() == 0


def test_figures(web, server):
    web.push("t", b"x", delay="1h")
    stats = web.get("/v1/stats").json
    assert stats["delayed"] == 1 and stats["pushed"] == 1 and stats["connections"]["http"] == 1
    settings = web.get("/v1/config").json
    assert settings["settings"]["store.sync"] == {"value": "never", "from": "flag"}
    assert settings["durability"].startswith("weaker")
    assert web.get("/healthz").json["ok"] is True
    assert web.get("/readyz").json["ready"] is True
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for("draining")
    assert web.get("/readyz").status == 503 and web.get("/readyz").code == "not_ready"
    is_error(web.post("/v1/topics/t/jobs", b"x"), 503, "draining")


def test_forecast(web):
    for minutes in (5, 5, 90):
        web.push("t", b"x", delay=f"{minutes}m")
    web.push("u", b"x", delay="5m")
    now = int(time.time() * 1000)
    seen = web.get("/v1/forecast", to=now + 3 * 3600_000, step="1h").json
    assert seen["resolution_ms"] in (60_000, 3600_000)
    assert sum(step["count"] for step in seen["steps"]) == 4
    seen = web.get("/v1/forecast", topic="t", to=now + 3600_000, step="1m").json
    assert sum(step["count"] for step in seen["steps"]) == 2
    is_error(web.get("/v1/forecast", topic="nobody"), 404)
    is_error(web.get("/v1/forecast", step="1ms"), 400, field="step")
    is_error(web.get("/v1/forecast", to=now + 86400_000, step="1s"), 400, field="step")
    is_error(web.get("/v1/forecast", to=now - 1000), 400, field="to")


def test_list_and_bulk(web):
    base = (int(time.time()) + 3600) * 1000
    for i in range(25):
        web.push("t", b"x", at=base + i * 1000, key=f"k{i}")
    seen, cursor, pages = [], None, 0
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = web.get("/v1/jobs", topic="t", limit=10, **more).json
        assert all("body" not in job for job in page["jobs"]) and len(page["jobs"]) <= 10
        seen += page["jobs"]
        cursor = page["cursor"]
        pages += 1
        if cursor is None:
            break
    assert [job["key"] for job in seen] == [f"k{i}" for i in range(25)] and pages >= 3
    some = web.get("/v1/jobs", topic="t", due_from=base + 5000, due_to=base + 8000).json["jobs"]
    assert [job["key"] for job in some] == ["k5", "k6", "k7"]
    assert web.get("/v1/jobs", topic="t", state="ready").json == {"jobs": [], "cursor": None}
    assert web.get("/v1/jobs", topic="nobody").json == {"jobs": [], "cursor": None}
    for query, field in [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"),
                         ({"cursor": "x"}, "cursor"), ({"state": "odd"}, "state")]:
        is_error(web.get("/v1/jobs", topic="t", **query), 400, field=field)
    filters = {"topic": "t", "due_to": base + 10_000}
    dry = web.post("/v1/jobs/cancel", dry_run="true", **filters).json
    assert dry == {"matched": 10, "done": 0, "more": False}
    part = web.post("/v1/jobs/cancel", limit=4, **filters).json
    assert part == {"matched": 4, "done": 4, "more": True}
    assert web.post("/v1/jobs/cancel", **filters).json == {"matched": 6, "done": 6, "more": False}
    moved = web.post("/v1/jobs/shift", topic="t", by="-1h", due_to=base + 12_000).json
    assert moved["done"] == 2
    dues = {job["id"]: job["due_ms"] for job in
            [web.push("later", b"x", delay=f"{hours}h") for hours in (2, 4, 6, 8, 10)]}
    seen, cursor = 0, None
    while seen < 5:  # by parts, and each job once
        part = web.post("/v1/jobs/shift", topic="later", by="1h", limit=2,
                        **({"cursor": cursor} if cursor else {})).json
        seen += part["done"]
        cursor = part.get("cursor")
        assert part["more"] == (seen < 5) == (cursor is not None)
    for job in web.get("/v1/jobs", topic="later").json["jobs"]:
        assert job["due_ms"] == dues[job["id"]] + 3_600_000
    for bad in ["x", "j1.1", "jffffffffffff.100000001"]:
        is_error(web.post("/v1/jobs/shift", topic="later", by="1h", cursor=bad), 400, field="cursor")
    is_error(web.post("/v1/jobs/cancel", topic="later", cursor="j1.1"), 400, field="cursor")
    assert web.post("/v1/jobs/cancel", topic="later").json["done"] == 5
    web.push("t", b"x", delay="1h", tag="red")
    tagged = web.get("/v1/jobs", topic="t", tag="red").json["jobs"]
    assert [job["tag"] for job in tagged] == ["red"]
    everywhere = web.get("/v1/jobs", due_from=base).json["jobs"]  # of all topics
    assert {job["topic"] for job in everywhere} == {"t"} and len(everywhere) >= 13
    web.push("u", b"x", delay="1h", tag="red")
    assert web.post("/v1/jobs/cancel", tag="red").json == {"matched": 2, "done": 2, "more": False}
    is_error(web.post("/v1/jobs/cancel", state="ready"), 400)
    is_error(web.post("/v1/jobs/shift", topic="t"), 400, field="by")
    is_error(web.post("/v1/jobs/shift", topic="t", by="1h", to=base), 400)
    for job in web.reserve("t", count=10, wait="1s"):
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    dead = len(web.get("/v1/jobs", topic="t", state="dead").json["jobs"])
    assert web.post("/v1/jobs/kick", topic="t").json["done"] == dead
    assert web.post("/v1/topics/t/purge").json["purged"] == 15
    assert web.get("/v1/jobs", topic="t").json["jobs"] == []
    is_error(web.post("/v1/topics/nobody/purge"), 404)


def test_a_body_that_is_no_json_by_its_type(web):
    """Told by its type, where JSON is read; what clients send who do not care is read as JSON."""
    job = web.push("t", b"x", delay="1h", key="k")["id"]
    asked = [("POST", "/v1/jobs", "[]"), ("POST", "/v1/ack", "[]"), ("PUT", "/v1/topics/t", "{}"),
             ("PATCH", "/v1/topics/t", '{"retries":3}'), ("PATCH", f"/v1/jobs/{job}", '{"priority":1}'),
             ("PATCH", "/v1/topics/t/keys/k", '{"priority":1}'), ("PUT", "/v1/schedules/s", '{"topic":"t","every":"1h"}')]
    for method, path, body in asked:
        for kind in ("application/xml", "text/xml; charset=utf-8", "text/html", "multipart/form-data; boundary=x",
                     "image/png", "json", "application/jsonx", "+json"):
            error = is_error(web.ask(method, path, body, headers={"Content-Type": kind}), 415, "content_type")
            assert "application/json" in error["message"]
        for kind in ("application/json", "Application/JSON ;charset=utf-8", "text/json", "application/vnd.api+json",
                     "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/octet-stream",
                     "*/*", "", None):
            answer = web.ask(method, path, body, headers={"Content-Type": kind} if kind is not None else {})
            assert answer.status in (200, 201), (method, path, kind, answer)
    row = '{"topic":"t","body":1}\n'
    many = web.ask("POST", "/v1/jobs", row * 2, headers={"Content-Type": "application/x-ndjson"})
    assert len(many.json["results"]) == 2
    for kind in ("application/xml", "image/png", "what is this"):  # the bytes of a job are of any type
        assert web.ask("POST", "/v1/topics/t/jobs", "<a/>", headers={"Content-Type": kind}).status == 201
    xml = {"Content-Type": "text/xml"}  # of nothing
    assert web.ask("PATCH", f"/v1/jobs/{job}?priority=2", headers=xml).json["priority"] == 2
    assert web.ask("POST", f"/v1/jobs/{job}/fire", headers=xml).status == 200


# ---- topics ----


def test_topics(web):
    is_error(web.get("/v1/topics/t"), 404, "not_found")
    web.push("t", b"x", delay="1h")
    web.push("t", b"x")
    web.push("u", b"x")
    one = web.get("/v1/topics/t").json
    assert (one["name"], one["delayed"], one["ready"], one["reserved"], one["dead"]) == ("t", 1, 1, 0, 0)
    assert one["policy"]["ttr_ms"] == 60_000 and one["policy"]["retries"] == 16
    assert one["policy"]["backoff"] == "exp(1s,2,1h,0.1)" and one["policy"]["paused"] == "no"
    assert 0 <= one["pushed_per_s"] <= 2 and one["handed_per_s"] == 0
    assert 0 <= one["late_p50_ms"] <= one["late_p99_ms"] < PATIENCE_S * 1000
    everyone = web.get("/v1/topics").json["topics"]
    assert {"t", "u"} <= {topic["name"] for topic in everyone}
    assert next(topic for topic in everyone if topic["name"] == "t")["ready"] == 1
    assert is_error(web.ask("DELETE", "/v1/topics/t"), 409, "not_empty")
    assert web.ask("DELETE", "/v1/topics/t", force="true").json == {"deleted": True, "purged": 2}
    is_error(web.get("/v1/topics/t"), 404)
    is_error(web.ask("DELETE", "/v1/topics/t"), 404)
    web.ask("PUT", "/v1/topics/t", '{"ttr":"5s"}')
    assert web.ask("DELETE", "/v1/topics/t").json == {"deleted": True, "purged": 0}
    is_error(web.get("/v1/topics/t"), 404)


def test_topics_are_told_alike_and_default_is_like_any_other(server, web):
    """Nobody made it; on the beanstalk port it is there all the same. (Found by a tester.)"""
    def told():
        names = sorted(topic["name"] for topic in web.get("/v1/topics").json["topics"])
        assert web.get("/v1/stats").json["topics"] == len(names)
        assert Page(web.get("/metrics").body.decode()).get("tarry_topics") == len(names)
        assert web.get("/v1/topics", sort="ready").json["matched"] == len(names)
        return names

    assert told() == []
    is_error(web.get("/v1/topics/default"), 404)
    is_error(web.ask("DELETE", "/v1/topics/default"), 404)
    is_error(web.post("/v1/topics/default/resume"), 404)
    for name in ("policy", "default"):
        web.ask("PUT", f"/v1/topics/{name}", '{"ttr":"5s"}')
    web.push("jobs", b"x")
    assert told() == ["default", "jobs", "policy"]
    assert web.get("/v1/topics/default").json["policy"]["ttr_ms"] == 5000
    assert web.ask("DELETE", "/v1/topics/default").json == {"deleted": True, "purged": 0}
    is_error(web.get("/v1/topics/default"), 404)
    assert told() == ["jobs", "policy"]
    with Client(server.port()) as client:
        assert client.ask("list-tubes").body == b"---\n- default\n- jobs\n"
        assert client.table("stats")["current-tubes"] == "2"
        assert told() == ["default", "jobs", "policy"]  # it is used now
        client.put(b"x")
    assert told() == ["default", "jobs", "policy"]
    assert web.ask("DELETE", "/v1/topics/default", force="true").json["purged"] == 1
    assert told() == ["jobs", "policy"]
    with Client(server.port()) as client:
        assert client.say("pause-tube default 30") == "PAUSED"
    assert web.get("/v1/topics/default").json["tube_paused_ms"] > 20_000  # else nobody could lift it
    assert told() == ["default", "jobs", "policy"]
    assert "tube_paused_ms" not in web.post("/v1/topics/default/resume").json


FULL = {"ttr": "90s", "retries": -1, "backoff": "4m,10m,1h", "ttl": "2h", "rate": 0.5, "burst": 7,
        "max_jobs": 10, "max_bytes": 1000000, "dead_keep": "1d", "dead_max": 5, "in_flight": 3,
        "jitter": "250ms", "history": "full", "paused": "out"}
TOLD = {"ttr_ms": 90_000, "retries": -1, "backoff": "4m,10m,1h", "ttl_ms": 7200_000, "rate": 0.5,
        "burst": 7, "max_jobs": 10, "max_bytes": 1000000, "dead_keep_ms": 86400_000, "dead_max": 5,
        "in_flight": 3, "jitter_ms": 250, "history": "full", "spread": 1, "paused": "out"}


def test_policy(tmp_path):
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        done = web.ask("PUT", "/v1/topics/t", json.dumps(FULL))
        assert done.status == 200 and done.json["policy"] == TOLD
        done = web.ask("PATCH", "/v1/topics/t", '{"retries":3,"ttl":null,"paused":"no"}')
        changed = {**TOLD, "retries": 3, "paused": "no"}
        del changed["ttl_ms"]
        assert done.json["policy"] == changed
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        assert web.get("/v1/topics/t").json["policy"] == changed
        done = web.ask("PUT", "/v1/topics/t", '{"rate":2}').json["policy"]
        assert done["rate"] == 2 and done["burst"] == 2 and done["retries"] == 16  # the default again
        alone = web.ask("PUT", "/v1/topics/u", '{"burst":7}').json["policy"]  # kept for a rate to come
        assert alone["burst"] == 7 and "rate" not in alone
        assert web.ask("PATCH", "/v1/topics/u", '{"rate":2}').json["policy"]["burst"] == 7
        for body, field in [('{"ttr":0}', "ttr"), ('{"rate":"x"}', "rate"), ('{"rate":0}', "rate"),
                            ('{"backoff":"soon"}', "backoff"), ('{"nope":1}', "nope"),
                            ('{"paused":"maybe"}', "paused"), ('{"paused":{"until":1}}', "paused"),
                            ('{"paused":{"what":"in","until":"x"}}', "paused"),
                            ('{"history":"all"}', "history"), ('{"retries":-2}', "retries")]:
            is_error(web.ask("PUT", "/v1/topics/t", body), 400, field=field)
        is_error(web.ask("PATCH", "/v1/topics/t", "{}"), 400)
        is_error(web.ask("PUT", "/v1/topics/t", ""), 400)
        is_error(web.ask("PUT", "/v1/topics/t", '{"spread":4}'), 501, field="spread")
        is_error(web.ask("PUT", "/v1/topics/t", '{"deliver":{"type":"webhook"}}'), 400, field="deliver")
        assert web.get("/v1/topics/t").json["policy"] == done
        assert server.stop() == 0


def test_pause_is_told(web):
    web.push("t", b"x")
    assert web.post("/v1/topics/t/pause").json["policy"]["paused"] == "out"
    until = web.post("/v1/topics/t/pause", what="both", **{"for": "10m"}).json["policy"]["paused"]
    assert until["what"] == "both"
    assert abs(until["until_ms"] - time.time() * 1000 - 600_000) < 60_000
    assert web.post("/v1/topics/t/resume").json["policy"]["paused"] == "no"
    at = {"what": "in", "until": "2099-01-01T00:00:00Z"}
    done = web.ask("PATCH", "/v1/topics/t", json.dumps({"paused": at})).json["policy"]["paused"]
    assert done == {"what": "in", "until": "2099-01-01T00:00:00.000Z", "until_ms": 4070908800000}
    is_error(web.post("/v1/topics/nobody/resume"), 404)
    is_error(web.post("/v1/topics/t/pause", what="sideways"), 400, field="what")


def test_pause_holds_pushes_and_hand_outs_back(tmp_path):
    with web_server(tmp_path / "store", "--test-clock") as server:
        web = Web(web_port(server))
        web.push("t", b"x")
        web.post("/v1/topics/t/pause", **{"for": "1h"})
        assert web.reserve("t") == []
        web.post("/v1/topics/t/pause", what="both", **{"for": "1h"})
        is_error(web.post("/v1/topics/t/jobs", b"x"), 409, "paused")
        done = web.ask("POST", "/v1/jobs", '[{"topic":"t"},{"topic":"u"}]').json["results"]
        assert done[0]["error"]["code"] == "paused" and done[1]["state"] == "ready"
        web.post("/v1/clock/advance", by="59m")
        assert web.reserve("t") == []
        web.post("/v1/clock/advance", by="1m")
        assert len(web.reserve("t")) == 1
        assert web.push("t", b"x")["state"] == "ready"
        assert server.stop() == 0


def test_quota(web):
    web.ask("PUT", "/v1/topics/t", '{"max_jobs":2}')
    web.push("t", b"x", key="k")
    web.push("t", b"x")
    is_error(web.post("/v1/topics/t/jobs", b"x"), 429, "quota")
    assert web.push("t", b"y", key="k")["created"] is False  # that one is there already


def test_quota_is_named(web):
    """Here it is known which of the two it is; on Redis both are named."""
    web.ask("PUT", "/v1/topics/t", '{"max_jobs":1}')
    job = web.push("t", b"x", key="k")["id"]
    full = web.post("/v1/topics/t/jobs", b"x")
    is_error(full, 429, "quota")
    assert "max_jobs" in full.json["error"]["message"] and "max_bytes" not in full.json["error"]["message"]
    web.ask("PUT", "/v1/topics/t", '{"max_bytes":3}')
    for full in (web.post("/v1/topics/t/jobs", b"four"), web.post("/v1/topics/t/jobs", b"5 is too long", key="k"),
                 web.ask("PATCH", f"/v1/jobs/{job}", '{"body":"5 is too long"}')):
        is_error(full, 429, "quota")
        assert "max_bytes" in full.json["error"]["message"] and "max_jobs" not in full.json["error"]["message"]


def test_purge_one_state(web):
    for i in range(6):
        web.push("t", b"x", **({"delay": "1h"} if i < 2 else {}))
    held = web.reserve("t", count=3)
    web.post(f"/v1/jobs/{held[0]['id']}/bury", lease=held[0]["lease"])
    for state, count in [("reserved", 2), ("dead", 1), ("delayed", 2), ("ready", 1)]:
        assert web.post("/v1/topics/t/purge", state=state).json == {"purged": count}, state
        assert web.get("/v1/jobs", topic="t", state=state).json["jobs"] == []
    is_error(web.post(f"/v1/jobs/{held[1]['id']}/ack", lease=held[1]["lease"]), 404)


# ---- copies ----


def test_backup(tmp_path):
    """A copy made while it serves is a store."""
    copies = tmp_path / "copies"
    copies.mkdir()
    with web_server(tmp_path / "store", "--set", f"store.backup_root={copies}") as server:
        web = Web(web_port(server))
        web.push("t", b"before", delay="1h")
        done = web.post("/v1/backup", dir="monday")
        assert done.status == 200 and done.json["dir"] == str(copies / "monday"), done
        assert done.json["bytes"] > 0
        web.push("t", b"after", delay="1h")
        is_error(web.post("/v1/backup", dir="monday"), 409, "exists", "dir")
        for name in ("../x", "/x", ".x", "a/../b", "a//b", "a/", "x y"):
            is_error(web.post("/v1/backup", dir=name), 400, field="dir")
        is_error(web.post("/v1/backup"), 400, field="dir")
        assert server.stop() == 0
    with web_server(copies / "monday") as server:
        web = Web(web_port(server))
        assert web.get("/v1/jobs/1").json["body"] == "before"
        is_error(web.get("/v1/jobs/2"), 404)
        assert server.stop() == 0


def test_no_backup_without_a_root(web):
    is_error(web.post("/v1/backup", dir="x"), 501, "unsupported")


# ---- the test clock ----


def test_clock(tmp_path):
    """A month passes in a moment, through both protocols, with everything in between in order."""
    with web_server(tmp_path / "store", "--test-clock") as server:
        web = Web(web_port(server))
        start = web.get("/v1/clock").json
        assert abs(start["now_ms"] - time.time() * 1000) < 60_000
        job = web.push("default", b"a month", delay="30d")
        assert job["due_ms"] - start["now_ms"] == 30 * 86400_000
        with Client(server.port()) as beanstalk:
            beanstalk.put(b"a day", delay=86400)
            assert beanstalk.reserve() is None
            done = web.post("/v1/clock/advance", by="1d").json
            assert done["now_ms"] - start["now_ms"] == 86400_000
            assert beanstalk.reserve()[1] == b"a day"
        assert web.get("/v1/stats").json["delayed"] == 1
        done = web.post("/v1/clock/advance", to=job["due"]).json
        assert done["now_ms"] in (job["due_ms"], job["due_ms"] + 1)
        web.post("/v1/clock/advance", by="1ms")
        taken = web.reserve("default", count=2)
        assert sorted(one["body"] for one in taken) == ["a day", "a month"]
        assert is_error(web.post("/v1/clock/advance", to=start["now"]), 409, "past")
        is_error(web.post("/v1/clock/advance"), 400, field="by")
        is_error(web.post("/v1/clock/advance", by="1d", to=done["now"]), 400)
        now = web.get("/v1/clock").json
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with web_server(tmp_path / "store", "--test-clock") as server:
        web = Web(web_port(server))
        assert web.get("/v1/clock").json == now
        assert server.stop() == 0


def test_no_test_clock(web):
    is_error(web.get("/v1/clock"), 501, "unsupported")
    is_error(web.post("/v1/clock/advance", by="1s"), 501, "unsupported")


def test_lease_by_the_test_clock(tmp_path):
    with web_server(tmp_path / "store", "--test-clock") as server:
        web = Web(web_port(server))
        web.push("t", b"x")
        held = web.reserve("t", ttr="10m")[0]
        web.post("/v1/clock/advance", by="9m")
        assert web.post(f"/v1/jobs/{held['id']}/touch", lease=held["lease"]).status == 200
        web.post("/v1/clock/advance", by="11m")
        is_error(web.post(f"/v1/jobs/{held['id']}/ack", lease=held["lease"]), 409, "lease_lost")
        assert server.stop() == 0


# ---- the routes of the queues of old ----


def test_classic(tmp_path):
    with web_server(tmp_path / "store", "--set", "http.classic=on") as server:
        web = Web(web_port(server))
        job = {"topic": "t", "bizKey": "order-1", "id": "77", "delay": 3600_000, "priority": 3,
               "body": {"a": [1, "\u00e9"]}}
        pushed = web.ask("POST", "/push", json.dumps(job))
        assert pushed.status == 200 and pushed.body == b"1"
        seen = web.get("/v1/topics/t/keys/order-1").json
        assert seen["state"] == "delayed" and seen["priority"] == 3
        assert json.loads(seen["body"]) == job["body"]
        assert web.ask("POST", "/push", json.dumps({"topic": "t", "id": 5, "body": "x"})).body == b"2"
        assert web.get("/v1/jobs/2").json["key"] == "5"
        got = web.get("/get/t")  # handed out and finished
        assert got.status == 200 and got.json["body"] == "x" and got.json["bizKey"] == "5"
        is_error(web.get("/v1/jobs/2"), 404)
        assert web.get("/delete", id=1).json["was"] == "delayed"
        is_error(web.get("/delete", id=1), 404)
        is_error(web.get("/delete"), 400, field="id")
        for body, field in [({"body": "x"}, "topic"), ({"topic": "t", "delay": -1}, "delay"),
                            ({"topic": "t", "delay": "1s"}, "delay"), ({"topic": "t", "x": 1}, "x"),
                            ({"topic": "t", "bizKey": {}}, "bizKey"), ([], "body"),
                            ({"topic": "t", "priority": 2**32}, "priority")]:
            is_error(web.ask("POST", "/push", json.dumps(body)), 400, field=field)
        for body, field in [('{"topic":"t","delay":1,"delay":2}', "delay"),
                            ('{"topic":"t","topic":"u"}', "topic"),
                            ('{"topic":"t","body":"a","body":null}', "body"),
                            ('{"topic":"t","id":"1","bizKey":"2","id":"3"}', "id")]:
            is_error(web.ask("POST", "/push", body), 400, field=field)
        is_error(web.ask("POST", "/push", "{"), 400, "bad_json")
        foreign = {"Origin": "http://evil.example"}
        is_error(web.ask("GET", "/get/t", headers=foreign), 403)  # it changes something
        web.push("t", b"dead")
        held = web.reserve("t")[0]
        web.post(f"/v1/jobs/{held['id']}/bury", lease=held["lease"])
        assert web.get(f"/reStore/{held['id']}").json["state"] == "ready"
        assert server.stop() == 0


def test_classic_is_off(web):
    for method, path in [("POST", "/push"), ("GET", "/get/t"), ("GET", "/delete?id=1"),
                         ("GET", "/reStore"), ("GET", "/reStore/1"), ("GET", "/push"),
                         ("POST", "/get/t"), ("GET", "/reStore/x")]:
        is_error(web.ask(method, path), 404, "no_route")


def test_unknown_paths(web):
    for path in ("/ui", "/ui/nothing", "/v1", "/index.html", "/favicon.ico"):
        assert web.get(path).status == 404 and web.get(path).code in ("no_route", "no_file"), path
