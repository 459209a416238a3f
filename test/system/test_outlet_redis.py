"""The outlet redis against Debian's redis-server: LPUSH and XADD, passwords, databases, TLS, a server
that is down, killed, slow or refuses; nothing is lost, and nothing acked that was not confirmed."""
import json
import os
import time

import pytest

from brokers import Redis, left, outlet, outlet_server, set_outlet, server, until, web
from harness import sanitized
from test_tls import Authority
from web import Web, web_port

MANY = 300 if sanitized() else 600


@pytest.fixture
def redis(tmp_path):
    with Redis(tmp_path) as server:
        yield server


def url(redis, db=""):
    return f"redis://127.0.0.1:{redis.port}/{db}"


def test_list_gets_the_body_alone(redis, web):
    redis.start()
    set_outlet(web, "t", type="redis", url=url(redis), list="in")
    bodies = [b"one", b"", bytes(range(256)), b"x" * 60000]
    for body in bodies:
        web.push("t", body)
        until(lambda: left(web, "t") == 0)
    assert redis.bodies("in") == bodies


def test_stream_gets_fields(redis, web):
    redis.start()
    set_outlet(web, "t", type="redis", url=url(redis, 3), stream="in")
    job = web.push("t", b"body\0\xff", key="order-1")
    until(lambda: left(web, "t") == 0)
    entry, = [dict(zip(e[1][::2], e[1][1::2]))
              for e in redis.ask("XRANGE", "in", "-", "+", db=3)]
    assert entry == {b"id": job["id"].encode(), b"topic": b"t", b"key": b"order-1",
                     b"attempt": b"1", b"due": job["due"].encode(), b"body": b"body\0\xff"}
    assert redis.ask("EXISTS", "in") == 0  # of database 0


def test_delayed_jobs_come_when_they_are_due(redis, web):
    redis.start()
    set_outlet(web, "t", type="redis", url=url(redis), list="in")
    due_ms = web.push("t", b"later", delay="1s")["due_ms"]
    web.push("t", b"now")
    until(lambda: len(redis.bodies("in")) == 2)
    assert time.time() * 1000 >= due_ms
    assert redis.bodies("in") == [b"now", b"later"]


def test_password_is_used_and_never_shown(tmp_path, server, web):
    with Redis(tmp_path, password="p@ss/w:rd") as redis:
        redis.start()
        wrong = f"redis://:never-shown@127.0.0.1:{redis.port}"
        right = f"redis://default:p%40ss%2Fw%3Ard@127.0.0.1:{redis.port}"
        told = str(set_outlet(web, "t", type="redis", url=wrong, list="in"))
        web.push("t", b"one")
        until(lambda: outlet(web, "t")["failed"] > 0)
        told += web.get("/v1/topics/t").body.decode() + web.get("/v1/config").body.decode()
        told += web.get("/metrics").body.decode()
        assert "WRONGPASS" in told and redis.bodies("in") == []
        told += str(set_outlet(web, "t", type="redis", url=right, list="in"))
        until(lambda: left(web, "t") == 0)
        assert redis.bodies("in") == [b"one"]
    server.stop()
    assert "WRONGPASS" in server.said
    for secret in ("never-shown", "p@ss", "p%40ss"):
        assert secret not in told + server.said


@pytest.mark.parametrize("command", ["AUTH", "LPUSH"])
def test_what_redis_repeats_is_not_shown(command, redis, server, web):
    """It tells the arguments of a command that it does not know: a password, or a body."""
    redis.start("--rename-command", command, "")
    user = ":never-shown@" if command == "AUTH" else ""
    told = str(set_outlet(web, "t", type="redis", url=f"redis://{user}127.0.0.1:{redis.port}",
                          list="in"))
    web.push("t", b"never-shown")
    until(lambda: outlet(web, "t")["failed"] > 0)
    told += web.get("/v1/topics/t").body.decode() + web.get("/metrics").body.decode()
    server.stop()
    assert "unknown command" in told + server.said
    assert "never-shown" not in told + server.said


def test_server_that_comes_later(redis, web):
    set_outlet(web, "t", type="redis", url=url(redis), list="in")
    jobs = {b"%d" % i for i in range(50)}
    for body in jobs:
        web.push("t", body)
    until(lambda: outlet(web, "t")["breaker"] == "open")
    assert "refused" in outlet(web, "t")["last_error"]
    assert left(web, "t") == 50
    redis.start()
    until(lambda: left(web, "t") == 0)
    assert set(redis.bodies("in")) == jobs


def test_server_killed_in_the_middle_loses_nothing(redis, web):
    redis.start()
    set_outlet(web, "t", type="redis", url=url(redis), stream="in")
    for i in range(MANY):
        web.push("t", b"%d" % i)
        if i in (MANY // 3, 2 * MANY // 3):
            redis.kill()
            time.sleep(0.3)
            redis.start()
    until(lambda: left(web, "t") == 0)
    assert {e[b"body"] for e in redis.entries("in")} == {b"%d" % i for i in range(MANY)}


def test_nothing_is_acked_before_it_is_confirmed(tmp_path, redis):
    redis.start()
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        set_outlet(web, "t", type="redis", url=url(redis), list="in")
        web.push("t", b"first")
        until(lambda: redis.bodies("in") == [b"first"])
        until(lambda: left(web, "t") == 0)
        redis.pause()
        jobs = [web.push("t", b"%d" % i)["id"] for i in range(20)]
        until(lambda: outlet(web, "t")["in_flight"] == 20)
        time.sleep(0.5)
        assert left(web, "t") == 20
        server.process.kill()  # between send and ack: they are sent again
        server.ended()
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        assert left(web, "t") == len(jobs)
        redis.go_on()
        until(lambda: left(web, "t") == 0)
        assert set(redis.bodies("in")) == {b"first"} | {b"%d" % i for i in range(20)}


def test_one_that_does_not_answer_delays_nobody_else(tmp_path, redis, web):
    other = tmp_path / "other"
    other.mkdir()
    redis.start()
    with Redis(other) as quick:
        quick.start()
        set_outlet(web, "dead", type="redis", url=url(redis), list="in")
        set_outlet(web, "quick", type="redis", url=url(quick), list="in")
        redis.pause()
        assert web.post("/v1/jobs", json.dumps([{"topic": "dead", "body": "x"}] * 200)).status == 200
        until(lambda: outlet(web, "dead")["in_flight"] > 0)
        assert web.post("/v1/jobs", json.dumps([{"topic": "quick", "body": "x"}] * 200)).status == 200
        until(lambda: left(web, "quick") == 0)
        web.push("pull", b"mine")
        assert web.reserve("pull", wait="60s")[0]["body"] == "mine"
        assert outlet(web, "dead")["failed"] == 0  # its time-out is not over yet
        until(lambda: outlet(web, "dead")["failed"] > 0)  # in time, though nobody answered
        assert "in time" in outlet(web, "dead")["last_error"]
        redis.go_on()
        until(lambda: left(web, "dead") == 0)


def test_error_of_redis_is_a_failure_of_the_job(redis, web):
    redis.start()
    redis.ask("SET", "in", "a string")
    set_outlet(web, "t", type="redis", url=url(redis), list="in")
    web.push("t", b"one")
    until(lambda: outlet(web, "t")["failed"] > 1)
    assert "WRONGTYPE" in outlet(web, "t")["last_error"]
    assert outlet(web, "t")["breaker"] == "closed"
    assert 'code="WRONGTYPE"' in web.get("/metrics").body.decode()
    redis.ask("DEL", "in")
    until(lambda: left(web, "t") == 0)
    assert redis.bodies("in") == [b"one"]


def test_private_addresses_are_refused(tmp_path, redis):
    redis.start()
    with outlet_server(tmp_path, allow_private=False) as server:
        web = Web(web_port(server))
        answer = web.ask("PUT", "/v1/topics/t",
                         f'{{"deliver":{{"type":"redis","url":"{url(redis)}","list":"in"}}}}')
        assert answer.status == 400 and "allow_private" in answer.body.decode()
        set_outlet(web, "t", type="redis", url=f"redis://localhost:{redis.port}", list="in")
        web.push("t", b"one")
        until(lambda: outlet(web, "t")["failed"] > 0)
        assert "allow_private" in outlet(web, "t")["last_error"]
        assert redis.bodies("in") == [] and left(web, "t") == 1


def test_bad_urls_are_refused(web):
    for bad in ("redis://h/jobs", "redis://h:port", "redis://h?timeout=5"):
        answer = web.ask("PUT", "/v1/topics/t",
                         f'{{"deliver":{{"type":"redis","url":"{bad}","list":"in"}}}}')
        assert answer.status == 400 and "url has to" in answer.body.decode(), answer


def test_tls(tmp_path, monkeypatch):
    made = Authority(tmp_path, "authority")
    cert, key = made.sign("server")
    tls = Redis(tmp_path)
    port = tls.port
    tls.launch(["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1",
                "127.0.0.2", "--save", "", "--tls-cert-file", str(cert), "--tls-key-file", str(key),
                "--tls-auth-clients", "no", "--requirepass", "secret"], tmp_path)
    with tls:
        with outlet_server(tmp_path) as server:  # which does not know the authority
            web = Web(web_port(server))
            set_outlet(web, "t", type="redis", url=f"rediss://:secret@localhost:{port}", list="in")
            web.push("t", b"one")
            until(lambda: "certificate" in outlet(web, "t").get("last_error", ""))  # before that it may not listen yet
            server.stop()
        monkeypatch.setenv("SSL_CERT_FILE", str(made.cert))
        with outlet_server(tmp_path) as server:
            web = Web(web_port(server))
            until(lambda: left(web, "t") == 0)
            # The same authority, but another name than the certificate has.
            set_outlet(web, "u", type="redis", url=f"rediss://:secret@127.0.0.2:{port}", list="in")
            web.push("u", b"two")
            until(lambda: outlet(web, "u")["failed"] > 0)
            assert "mismatch" in outlet(web, "u")["last_error"] and left(web, "u") == 1


def test_change_of_policy_and_stop_end_the_threads(redis, server, web):
    redis.start()
    threads = lambda: os.listdir(f"/proc/{server.process.pid}/task")
    before = len(threads())
    for i in range(20):
        set_outlet(web, "t", type="redis", url=url(redis), list=f"in{i}")
        web.push("t", b"%d" % i)
        until(lambda: left(web, "t") == 0)
    web.ask("PUT", "/v1/topics/t", '{"deliver":null}')
    until(lambda: len(threads()) <= before)
    assert server.stop() == 0
