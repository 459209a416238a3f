"""Answers that say what is so, by the test clock where time matters."""
import base64
import socket

import pytest

from client import Client
from web import Web, raw, read_answer, web_port, web_server


@pytest.fixture
def server(tmp_path):
    with web_server(tmp_path / "store", "--sync", "never", "--test-clock",
                    "--set", "http.classic=on") as made:
        made.web = web_port(made)
        yield made


@pytest.fixture
def web(server):
    client = Web(server.web)
    yield client
    client.close()


def advance(web, by):
    assert web.post("/v1/clock/advance", by=by).status == 200


# ---- requests ----


def test_pipelined_requests_before_the_end_of_input(server):
    """All are answered, though the client has said that nothing more will come."""
    one = b"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
    for _ in range(10):
        with raw(server.web) as wire:
            wire.sendall(one * 5)
            wire.shutdown(socket.SHUT_WR)
            stream = wire.makefile("rb")
            assert [read_answer(stream).status for _ in range(5)] == [201] * 5
            assert stream.read() == b""


def test_edit_with_arguments_in_the_query(web, server):
    path = f"/v1/jobs/{web.push('t', b'x')['id']}"
    for body in (b"hi", bytes(range(256)), b""):
        text = base64.b64encode(body).decode()
        assert web.ask("PATCH", path, body_base64=text).status == 200
        assert web.ask("GET", path, headers={"Accept": "application/octet-stream"}).body == body
    assert web.ask("PATCH", f"{path}?body_base64=++++").status == 200  # + is a space in a query
    assert web.ask("PATCH", path, body_base64="aGk").json["error"]["field"] == "body_base64"
    chunked = b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with raw(server.web) as wire:
        stream = wire.makefile("rb")
        wire.sendall(f"PATCH {path}?priority=7 HTTP/1.1\r\n".encode() + chunked + b"0\r\n\r\n")
        assert read_answer(stream).json["priority"] == 7
        wire.sendall(f"PATCH {path}?priority=8 HTTP/1.1\r\n".encode() + chunked
                     + b"2\r\n{}\r\n0\r\n\r\n")
        assert read_answer(stream).status == 400
    assert web.get(path).json["priority"] == 7


def test_a_body_all_of_escapes(web):
    body = "\x01" * 1048576
    job = web.push("t", b"x")
    text = '{"body":"' + "\\u0001" * len(body) + '"}'
    assert web.ask("PATCH", f"/v1/jobs/{job['id']}", text).status == 200
    assert web.get(f"/v1/jobs/{job['id']}").json["body"] == body


def test_head_of_a_classic_route_takes_nothing(web):
    job = web.push("pay", b"x")
    for path in ("/get/pay", f"/delete?id={job['id']}", "/reStore?expire=true"):
        answer = web.ask("HEAD", path)
        assert answer.status == 405 and "HEAD" not in answer.headers["Allow"]
    assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "ready"
    assert web.ask("HEAD", f"/v1/jobs/{job['id']}").status == 200


# ---- topics ----


def test_resume_of_a_topic_with_nothing_but_its_pause(web):
    assert web.post("/v1/topics/x/pause").status == 200
    answer = web.post("/v1/topics/x/resume")
    assert answer.status == 200 and answer.json["policy"]["paused"] == "no"
    assert web.post("/v1/topics/never/resume").status == 404


def test_a_pause_that_has_ended_is_not_told(web):
    told = web.post("/v1/topics/x/pause", **{"for": "10m"}).json["policy"]["paused"]
    assert told["what"] == "out"
    advance(web, "10m")
    assert web.get("/v1/topics/x").json["policy"]["paused"] == "no"


# ---- forecast ----


def test_two_thousand_steps(web):
    now = web.get("/v1/clock").json["now_ms"] // 1000 * 1000 + 10_000
    steps = web.get("/v1/forecast", **{"from": now, "to": now + 2_000_000, "step": "1s"})
    assert steps.status == 200, steps
    steps = web.get("/v1/forecast", **{"from": now, "to": now + 2_001_000, "step": "1s"})
    assert steps.status == 400


def test_forecast_counts_delayed_jobs_only(web):
    def steps():
        now = web.get("/v1/clock").json["now_ms"]
        told = web.get("/v1/forecast", topic="t", step="1s", to=now + 30_000).json["steps"]
        return [step["count"] for step in told]

    web.push("t", b"ready")
    assert sum(steps()) == 0
    web.push("t", b"", delay="10s")
    web.push("t", b"", delay="20s")
    assert sum(steps()) == 2
    advance(web, "10s")
    assert sum(steps()) == 1
    assert len(web.reserve("t", count=10, ttr="1h")) == 2
    assert sum(steps()) == 1
    advance(web, "10s")
    assert sum(steps()) == 0


# ---- lateness ----


def test_late_is_not_how_long_it_waits(web):
    """Nor how long it was held: only becoming ready after its due time is late."""
    job = web.push("t", b"x")
    path = f"/v1/jobs/{job['id']}"
    advance(web, "10s")
    assert web.ask("PATCH", path, '{"priority":1}').status == 200
    assert web.ask("PATCH", path, '{"body":"y"}').status == 200
    assert web.get(path).json["late_ms"] == 0
    assert web.get("/v1/topics/t").json["oldest_ready_ms"] == 10_000
    held = web.reserve("t", ttr="1h")[0]
    assert held["late_ms"] == 0
    advance(web, "1m")
    assert web.post(path + "/release", lease=held["lease"], delay="0").status == 200
    assert web.get(path).json["late_ms"] == 0
    assert web.get("/v1/topics/t").json["oldest_ready_ms"] == 0  # it is ready since now
    assert web.ask("PATCH", path, '{"delay":"1s"}').status == 200
    advance(web, "5s")
    assert web.get(path).json["late_ms"] == 0


# ---- empty topics ----


def names(web):
    return [topic["name"] for topic in web.get("/v1/topics").json["topics"]]


def test_a_topic_stays_known_when_its_jobs_are_gone(web, server):
    assert web.get("/v1/topics/t").status == 404
    web.push("t", b"x")
    job = web.reserve("t")[0]
    assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
    told = web.get("/v1/topics/t").json
    assert [told[state] for state in ("delayed", "ready", "reserved", "dead")] == [0] * 4
    assert "t" in names(web)
    with Client(server.port()) as beanstalk:
        assert b"- t\n" not in beanstalk.ask("list-tubes").body
        assert beanstalk.ask("stats-tube t").word == "NOT_FOUND"
    web.push("t", b"y")
    assert web.post("/v1/topics/t/purge").status == 200
    assert web.get("/v1/topics/t").json["ready"] == 0
    assert web.ask("DELETE", "/v1/topics/t").status == 200
    assert web.get("/v1/topics/t").status == 404 and "t" not in names(web)
    web.push("t", b"z")
    assert web.ask("DELETE", "/v1/topics/t?force=true").status == 200
    assert web.get("/v1/topics/t").status == 404


def test_a_policy_that_says_nothing_makes_a_topic(web):
    assert web.ask("PUT", "/v1/topics/a", "{}").status == 200
    assert web.ask("PATCH", "/v1/topics/b", '{"ttr":"5s"}').status == 200
    assert web.ask("PATCH", "/v1/topics/b", '{"ttr":null}').status == 200
    for name in "ab":
        assert web.get(f"/v1/topics/{name}").status == 200
        assert web.ask("DELETE", f"/v1/topics/{name}").status == 200
        assert web.get(f"/v1/topics/{name}").status == 404


# ---- raw bodies ----


def test_reserve_raw(web):
    body = bytes(range(256))
    raw_body = {"Accept": "application/octet-stream"}
    job = web.push("t", body, key="k", tag="red")
    assert web.ask("POST", "/v1/topics/none/reserve", headers=raw_body).status == 204
    got = web.ask("POST", "/v1/topics/t/reserve?ttr=1m", headers=raw_body)
    assert got.status == 200 and got.body == body
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["Tarry-Id"] == job["id"] and got.headers["Tarry-Key"] == "k"
    assert got.headers["Tarry-Attempt"] == "1" and got.headers["Tarry-Late-Ms"] == "0"
    assert got.headers["Tarry-Due"] == job["due"] and got.headers["Tarry-Lease-Ms"] == "60000"
    path = f"/v1/jobs/{job['id']}"
    assert web.post(path + "/touch", lease=got.headers["Tarry-Lease"]).status == 200
    seen = web.ask("GET", path, headers=raw_body)
    assert seen.body == body and "Tarry-Lease" not in seen.headers
    assert web.post(path + "/ack", lease=got.headers["Tarry-Lease"]).status == 200
    web.push("t", b"x")
    many = web.ask("POST", "/v1/topics/t/reserve?count=2", headers=raw_body)
    assert len(many.json["jobs"]) == 1


# ---- shifts ----


def shift(web, by):
    answer = web.post("/v1/jobs/shift", topic="t", by=by).json
    return answer["matched"], answer["done"]


def test_shift_of_overdue_jobs(web):
    job = web.push("t", b"x")
    path = f"/v1/jobs/{job['id']}"
    advance(web, "1h")
    assert shift(web, "-10s") == (1, 1)  # it is due already: not later
    assert web.get(path).json["due_ms"] == job["due_ms"]
    assert shift(web, "10s") == (1, 1)  # that would be in the past: now
    now = web.get("/v1/clock").json["now_ms"]
    assert abs(web.get(path).json["due_ms"] - now) <= 1
    assert web.get(path).json["late_ms"] == 0


def test_shift_beyond_137_years_is_not_done(web):
    path = f"/v1/jobs/{web.push('t', b'x', delay='100d')['id']}"
    assert shift(web, "49000d") == (1, 1)
    due = web.get(path).json["due_ms"]
    assert shift(web, "49000d") == (1, 0)
    assert web.get(path).json["due_ms"] == due
