"""Outlets with `--engine redis`: the tests of the embedded engine that need no test clock, and two nodes.

The owner of a topic's first slot sends its jobs. When it dies another node does, and what was under way is
sent again with the same Idempotency-Key.
"""
import signal
import threading
import time

import pytest

import test_outlets
from on_redis import Redis
from test_outlets import (  # noqa: F401 (run here)
    PRIVATE,
    Receiver,
    deliver,
    gone,
    test_a_change_of_the_policy_is_followed,
    test_a_deleted_topic_delivers_no_more,
    test_a_short_ttr_does_not_end_a_send,
    test_concurrency_is_a_limit,
    test_connections_are_kept_alive,
    test_plain_defaults,
    test_rotating_secrets_sign_newest_first,
    test_secrets_are_never_shown,
    test_stop_gives_back_what_does_not_end,
    test_stop_waits_for_what_is_under_way,
    topic_of,
    wait_until,
)
from web import ready_web, web_server

LEASE = ("--set", "cluster.lease=6s")


@pytest.fixture
def flags(redis):
    return [*redis.tarry(), *LEASE, *PRIVATE]


@pytest.fixture(autouse=True)
def not_embedded(monkeypatch, flags):
    """Servers of the tests from test_outlets.py have their jobs where the flags say, each test in a store of its own."""
    monkeypatch.setattr(test_outlets, "web_server", lambda data, *more: web_server(data, *flags[:-len(PRIVATE)], *more))
    monkeypatch.setattr(test_outlets, "web_port", lambda server: ready_web(server).port)


def test_headers(tmp_path, flags):
    with Receiver() as hook, web_server(tmp_path / "a", *flags) as server:
        web = ready_web(server)
        deliver(web, "orders", url=hook.url(), secret="s")
        job = web.push("orders", b"\x00\xff", key="k", tag="paid", delay="200ms")
        post = hook.wait(1)[0]
        assert post["Tarry-Id"] == job["id"] == post["Idempotency-Key"] and post.body == b"\x00\xff"
        assert post["Tarry-Topic"] == "orders" and post["Tarry-Tag"] == "paid" and post["Tarry-Key"] == "k"
        assert post["Tarry-Attempt"] == "1" and post["Tarry-Due"] == job["due"]
        assert post.at * 1000 >= job["due_ms"] and post["Tarry-Signature"].startswith("t=")
        wait_until(lambda: gone(web, job))


def two_nodes(a, b):
    wait_until(lambda: all(node.get("/v1/stats").json["redis"]["nodes"] == 2 for node in (a, b)))


def test_one_node_sends_for_all(tmp_path, flags):
    """Whoever set the policy and whoever pushes: the owner of the topic sends, each job once."""
    with Receiver() as hook, web_server(tmp_path / "a", *flags) as first, \
            web_server(tmp_path / "b", *flags) as second:
        a, b = ready_web(first), ready_web(second)
        two_nodes(a, b)
        for i in range(6):
            deliver(a, f"t{i}", url=hook.url(), policy={"spread": 4} if i == 5 else None)
        jobs = [(b, a)[i % 2].push(f"t{i % 6}", str(i)) for i in range(60)]
        posts = hook.wait(60)
        wait_until(lambda: all(gone(a, job) for job in jobs))
        assert {post["Idempotency-Key"] for post in posts} == {job["id"] for job in jobs}
        assert len(hook.posts) == 60
        for i in range(6):  # a change at one node is seen by whichever is the owner
            deliver(b, f"t{i}", url=hook.url("/new"))
        wait_until(lambda: new_path(a, b, hook))


def new_path(a, b, hook):
    """All six topics are sent to the new path from now on, or not yet."""
    for i in range(6):
        job = (a, b)[i % 2].push(f"t{i}", b"new?")
        wait_until(lambda job=job: gone(a, job))
    return all(post.path == "/new" for post in hook.posts[-6:])


def test_deliveries_go_on_when_the_owner_dies(tmp_path, flags):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(1), (200, {}, b""))[1]) as hook, \
            web_server(tmp_path / "a", *flags) as first, web_server(tmp_path / "b", *flags) as second:
        a, b = ready_web(first), ready_web(second)
        two_nodes(a, b)
        topics = [f"t{i}" for i in range(16)]  # some of them are the first node's
        for topic in topics:
            deliver(b, topic, url=hook.url(), timeout="20s", concurrency=2)
        owned_by = lambda web: {topic for topic in topics if "outlet" in topic_of(web, topic)}
        wait_until(lambda: owned_by(a) and owned_by(a) ^ owned_by(b) == set(topics))  # they hear of each other one after the other
        owned = owned_by(a)
        jobs = [b.push(topic, topic) for topic in topics]
        hook.wait(8)
        first.stop(signal.SIGKILL)
        hold.set()
        jobs += [b.push(topic, topic + " later") for topic in topics]
        wait_until(lambda: all(gone(b, job) for job in jobs))
        sent = {}
        for post in hook.posts:
            sent.setdefault(post.body.decode(), []).append(post["Idempotency-Key"])
        assert {topic for topic in topics if len(sent[topic]) > 1} <= owned
        assert all(len(set(keys)) == 1 for keys in sent.values())
        assert all(len(sent[topic + " later"]) == 1 for topic in topics)
        assert all(topic_of(b, topic)["reserved"] == 0 for topic in topics)
        assert second.stop() == 0, second.said


def test_redis_goes_while_something_is_sent(tmp_path):
    """The receiver has confirmed, and Redis is away: it is acked when that comes back, and not sent again."""
    release = threading.Event()
    with Redis("--appendonly", "yes", "--appendfsync", "always") as own, \
            Receiver(lambda post: (release.wait(20), (200, {}, b""))[1]) as hook:
        with web_server(tmp_path / "a", *own.tarry(), *PRIVATE) as server:
            web = ready_web(server)
            deliver(web, "t", url=hook.url())
            job = web.push("t", b"x", ttr="2m")
            hook.wait(1)
            own.stop()
            release.set()
            time.sleep(1)
            own.start()
            wait_until(lambda: web.get("/readyz").status == 200)
            wait_until(lambda: gone(web, job))
            assert len(hook.posts) == 1
            assert server.stop() == 0, server.said
