"""The outlet amqp against Debian's rabbitmq-server: properties, confirms, returns, a broker that is
down, killed or slow; nothing is lost, and nothing acked that was not confirmed."""
import time

import pytest

from brokers import Rabbit, left, outlet, outlet_server, set_outlet, server, until, web
from harness import sanitized
from test_tls import Authority
from web import Web, web_port

MANY = 300 if sanitized() else 600


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory):
    """One for all tests, as it takes seconds to start; it runs at the begin of each."""
    folder = tmp_path_factory.mktemp("rabbit")
    made = Authority(folder, "authority")
    cert, key = made.sign("server")
    with Rabbit(folder) as broker:
        broker.made = made
        broker.use_tls(cert, key)
        broker.start()
        yield broker


def url(rabbit, user=""):
    return f"amqp://{user}127.0.0.1:{rabbit.port}"


def test_message_has_all_that_is_known_of_a_job(rabbit, web):
    rabbit.queue("all", exchange="jobs", key="due")
    set_outlet(web, "t", type="amqp", url=url(rabbit), exchange="jobs", routing_key="due")
    bodies = [b"body\0\xff", b"", b"x" * 60000]
    jobs = [web.push("t", bodies[0], key="order-1", tag="eu"), web.push("t", bodies[1]),
            web.push("t", bodies[2])]
    until(lambda: left(web, "t") == 0)
    found = {p.message_id: (p, body) for p, body in rabbit.drain("all")}
    assert {i: body for i, (_, body) in found.items()} == dict(zip((j["id"] for j in jobs), bodies))
    first = found[jobs[0]["id"]][0]
    assert first.delivery_mode == 2 and first.app_id == "tarry"
    assert first.headers.pop("Tarry-Late-Ms") == "0"  # it was due when it came
    assert first.headers == {"Tarry-Id": jobs[0]["id"], "Tarry-Topic": "t", "Tarry-Key": "order-1",
                             "Tarry-Tag": "eu", "Tarry-Attempt": "1", "Tarry-Due": jobs[0]["due"]}
    assert "Tarry-Key" not in found[jobs[1]["id"]][0].headers


def test_default_exchange_and_the_name_of_the_topic(rabbit, web):
    rabbit.queue("plain")
    set_outlet(web, "plain", type="amqp", url=url(rabbit))
    web.push("plain", b"one")
    until(lambda: left(web, "plain") == 0)
    assert [body for _, body in rabbit.drain("plain")] == [b"one"]


def test_unroutable_is_a_failure_with_a_reason(rabbit, web):
    set_outlet(web, "lost", type="amqp", url=url(rabbit), routing_key="nobody")
    web.push("lost", b"one")
    until(lambda: outlet(web, "lost")["failed"] > 1)
    assert "no queue takes it" in outlet(web, "lost")["last_error"] and left(web, "lost") == 1
    assert outlet(web, "lost")["breaker"] == "closed"
    assert 'code="returned"' in web.get("/metrics").body.decode()
    rabbit.queue("nobody")
    until(lambda: left(web, "lost") == 0)
    assert [body for _, body in rabbit.drain("nobody")] == [b"one"]


def test_no_such_exchange(rabbit, web):
    set_outlet(web, "t", type="amqp", url=url(rabbit), exchange="missing", routing_key="late")
    web.push("t", b"one")
    until(lambda: outlet(web, "t")["failed"] > 1)
    assert "404" in outlet(web, "t")["last_error"] and left(web, "t") == 1
    rabbit.queue("late", exchange="missing", key="late")
    until(lambda: left(web, "t") == 0)
    assert [body for _, body in rabbit.drain("late")] == [b"one"]


def test_nack_is_a_failure(rabbit, web):
    """A queue that takes one message at most and rejects more."""
    rabbit.queue("small", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    set_outlet(web, "small", type="amqp", url=url(rabbit))
    web.push("small", b"one")
    until(lambda: left(web, "small") == 0)
    web.push("small", b"two")
    until(lambda: outlet(web, "small")["failed"] > 1)
    assert left(web, "small") == 1 and 'code="nack"' in web.get("/metrics").body.decode()
    assert [body for _, body in rabbit.drain("small")] == [b"one"]
    until(lambda: left(web, "small") == 0)
    assert [body for _, body in rabbit.drain("small")] == [b"two"]


def test_wrong_password_is_told_but_not_shown(rabbit, server, web):
    told = str(set_outlet(web, "t", type="amqp", url=url(rabbit, "guest:never-shown@")))
    web.push("t", b"one")
    until(lambda: outlet(web, "t")["failed"] > 0)
    told += web.get("/v1/topics/t").body.decode() + web.get("/metrics").body.decode()
    server.stop()
    assert "403" in told and "never-shown" not in told + server.said


def test_tls(rabbit, tmp_path, monkeypatch):
    rabbit.queue("tls")
    address = f"amqps://localhost:{rabbit.tls_port}"
    with outlet_server(tmp_path) as server:  # which does not know the authority
        web = Web(web_port(server))
        set_outlet(web, "tls", type="amqp", url=address)
        web.push("tls", b"one")
        until(lambda: outlet(web, "tls")["failed"] > 0)
        assert left(web, "tls") == 1 and 'code="tls"' in web.get("/metrics").body.decode()
        server.stop()
    monkeypatch.setenv("SSL_CERT_FILE", str(rabbit.made.cert))
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        until(lambda: left(web, "tls") == 0)
        assert [body for _, body in rabbit.drain("tls")] == [b"one"]
        # The same authority, but another name than the certificate has.
        set_outlet(web, "tls", type="amqp", url=f"amqps://127.0.0.2:{rabbit.tls_port}")
        web.push("tls", b"two")
        until(lambda: outlet(web, "tls")["failed"] > 0)
        assert left(web, "tls") == 1


def test_slow_broker_delays_nobody_and_nothing_is_acked_unconfirmed(rabbit, web):
    rabbit.queue("slow")
    set_outlet(web, "slow", type="amqp", url=url(rabbit))
    web.push("slow", b"first")
    until(lambda: left(web, "slow") == 0)
    rabbit.pause()
    try:
        for i in range(20):
            web.push("slow", b"%d" % i)
        until(lambda: outlet(web, "slow")["in_flight"] == 20)
        web.push("pull", b"mine")
        assert web.reserve("pull", wait="60s")[0]["body"] == "mine"
        assert outlet(web, "slow")["failed"] == 0  # nobody's time is over yet
        until(lambda: outlet(web, "slow")["failed"] > 0)  # in time, though nobody answered
        assert left(web, "slow") == 20
    finally:
        rabbit.go_on()
    until(lambda: left(web, "slow") == 0)
    assert {body for _, body in rabbit.drain("slow")} == {b"first"} | {b"%d" % i for i in range(20)}


def test_broker_killed_in_the_middle_and_back_later(rabbit, tmp_path):
    rabbit.queue("many")
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        set_outlet(web, "many", type="amqp", url=url(rabbit))
        for i in range(MANY):
            web.push("many", b"%d" % i)
            if i == MANY // 2:
                rabbit.kill()
        until(lambda: outlet(web, "many")["breaker"] == "open")
        assert left(web, "many") > 0
        server.process.kill()  # and so are we: it is down when we come
        server.ended()
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        until(lambda: outlet(web, "many")["failed"] > 0)
        rabbit.start()
        until(lambda: left(web, "many") == 0)
    assert {body for _, body in rabbit.drain("many")} == {b"%d" % i for i in range(MANY)}
