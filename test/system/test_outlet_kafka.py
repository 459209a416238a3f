"""The outlet kafka against the mock cluster of librdkafka: keys, headers, errors of brokers, a cluster
that is down, dies and comes back; nothing is lost, and nothing acked that was not confirmed."""
import time

import pytest

from brokers import Kafka, left, outlet, outlet_server, set_outlet, server, until, web
from harness import sanitized
from web import Web, web_port

MANY = 300 if sanitized() else 600

NOT_ENOUGH_REPLICAS = 19  # librdkafka tries again by itself
MSG_SIZE_TOO_LARGE = 10  # and for these it does not


@pytest.fixture
def kafka(tmp_path):
    with Kafka(tmp_path) as cluster:
        yield cluster


def test_message_has_all_that_is_known_of_a_job(kafka, web):
    kafka.say("topic in 4")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers, topic="in")
    bodies = [b"body\0\xff", b"", b"x" * 60000]
    jobs = [web.push("t", bodies[0], key="order-1", tag="eu"), web.push("t", bodies[1]),
            web.push("t", bodies[2])]
    until(lambda: left(web, "t") == 0)
    found = {h["Tarry-Id"].decode(): (key, body, h) for key, body, h in kafka.read("in", 3)}
    assert {i: f[1] for i, f in found.items()} == dict(zip((j["id"] for j in jobs), bodies))
    key, _, headers = found[jobs[0]["id"]]
    assert key == b"order-1" and headers.pop("Tarry-Late-Ms") == b"0"  # it was due when it came
    assert headers == {"Tarry-Id": jobs[0]["id"].encode(), "Tarry-Topic": b"t",
                       "Tarry-Key": b"order-1", "Tarry-Tag": b"eu", "Tarry-Attempt": b"1",
                       "Tarry-Due": jobs[0]["due"].encode()}
    key, _, headers = found[jobs[1]["id"]]
    assert key == jobs[1]["id"].encode() and "Tarry-Key" not in headers


def test_key_may_be_the_id(kafka, web):
    kafka.say("topic t 1")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers, key="id")
    job = web.push("t", b"one", key="order-1")
    until(lambda: left(web, "t") == 0)
    assert [(key, body) for key, body, _ in kafka.read("t", 1)] == [(job["id"].encode(), b"one")]


def test_errors_that_pass_are_no_failures(kafka, web):
    kafka.say("topic t 1")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
    web.push("t", b"one")
    until(lambda: left(web, "t") == 0)
    kafka.say(f"fail {NOT_ENOUGH_REPLICAS} 2")
    web.push("t", b"two")
    until(lambda: left(web, "t") == 0)
    assert outlet(web, "t")["failed"] == 0
    assert [body for _, body, _ in kafka.read_all("t", 2, 3)] == [b"one", b"two"]


def test_error_of_the_broker_is_a_failure_of_the_job(kafka, web):
    kafka.say("topic t 1")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
    kafka.say(f"fail {MSG_SIZE_TOO_LARGE} 1")
    web.push("t", b"one")
    until(lambda: left(web, "t") == 0)
    assert outlet(web, "t")["failed"] == 1
    assert "too large" in outlet(web, "t")["last_error"]
    assert 'code="10"' in web.get("/metrics").body.decode()
    assert [(body, h["Tarry-Attempt"]) for _, body, h in kafka.read_all("t", 1, 2)] == [
        (b"one", b"2")]


def test_cluster_that_comes_later(kafka, web):
    kafka.say("topic t 2")
    kafka.say("down")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
    for i in range(50):
        web.push("t", b"%d" % i)
    until(lambda: outlet(web, "t")["failed"] > 0)
    assert left(web, "t") == 50
    kafka.say("up")
    until(lambda: left(web, "t") == 0)
    assert {body for _, body, _ in kafka.read_all("t", 50, 200, 3000)} == {b"%d" % i for i in range(50)}


def test_cluster_killed_in_the_middle_loses_nothing(kafka, web):
    kafka.say("topic t 2")
    set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
    for i in range(MANY):
        web.push("t", b"%d" % i)
        if i in (MANY // 3, 2 * MANY // 3):
            kafka.say("down")
            time.sleep(0.5)
            kafka.say("up")
    until(lambda: left(web, "t") == 0)
    found = [body for _, body, _ in kafka.read_all("t", MANY, 2 * MANY, 5000)]
    assert set(found) == {b"%d" % i for i in range(MANY)}


def test_nothing_is_acked_before_it_is_confirmed(kafka, tmp_path):
    kafka.say("topic t 1")
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
        web.push("t", b"first")
        until(lambda: left(web, "t") == 0)
        kafka.say("slow 8000")  # less than is waited for an answer
        for i in range(20):
            web.push("t", b"%d" % i)
        until(lambda: outlet(web, "t")["in_flight"] == 20)
        time.sleep(0.5)
        assert left(web, "t") == 20
        web.push("pull", b"mine")  # the loop goes on
        assert web.reserve("pull", wait="60s")[0]["body"] == "mine"
        assert left(web, "t") == 20
        server.process.kill()  # between send and ack: they are sent again
        server.ended()
    kafka.say("slow 0")
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        until(lambda: left(web, "t") == 0)
        bodies = {body for _, body, _ in kafka.read_all("t", 21, 50, 2000)}
        assert bodies == {b"first"} | {b"%d" % i for i in range(20)}
        assert server.stop() == 0


def test_stop_with_a_dead_cluster_is_quick_and_loses_nothing(kafka, tmp_path):
    kafka.say("topic t 1")
    kafka.say("down")
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        set_outlet(web, "t", type="kafka", brokers=kafka.brokers)
        web.push("t", b"one")
        until(lambda: outlet(web, "t")["in_flight"] == 1)
        assert server.stop() == 0
    kafka.say("up")
    with outlet_server(tmp_path) as server:
        web = Web(web_port(server))
        until(lambda: left(web, "t") == 0)
        assert [body for _, body, _ in kafka.read("t", 1)] == [b"one"]


def test_private_addresses_are_refused(kafka, tmp_path):
    kafka.say("topic t 1")
    name = kafka.brokers.replace("127.0.0.1", "localhost")
    with outlet_server(tmp_path, allow_private=False) as server:
        web = Web(web_port(server))
        answer = web.ask("PUT", "/v1/topics/t", '{"deliver":{"type":"kafka","brokers":"a.example:1,'
                                                f'{kafka.brokers}"}}}}')
        assert answer.status == 400 and "brokers is a private" in answer.body.decode(), answer
        set_outlet(web, "t", type="kafka", brokers=name)
        web.push("t", b"one")
        until(lambda: outlet(web, "t")["failed"] > 0)
        assert "allow_private" in outlet(web, "t")["last_error"]
        assert left(web, "t") == 1
