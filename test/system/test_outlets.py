"""Outlets: due jobs of a topic are delivered to a webhook. Against a receiver whose answers are scripted."""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness import PATIENCE_S, STOP_S, sanitized
from ports import free_port
from prom import Page
from test_tls import Authority
from web import Web, web_port, web_server

PRIVATE = ("--set", "outlet.allow_private=on")
TIMEOUT_MS = 10_000  # of an outlet: who waits for one of another topic waits for as long


class Post:
    """One delivery as the receiver saw it."""

    def __init__(self, handler, body):
        self.path = handler.path
        self.headers = dict(handler.headers.items())
        self.body = body
        self.at = time.time()
        self.client = handler.client_address

    def __getitem__(self, name):
        return self.headers.get(name)


class Receiver:
    """An HTTP server on a free port. `script` gets a Post and gives (status, headers, body), or None: no answer."""

    def __init__(self, script=None):
        self.posts = []
        self.news = threading.Condition()
        self.script = script or (lambda post: (200, {}, b""))
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                post = Post(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
                with outer.news:
                    outer.posts.append(post)
                    outer.news.notify_all()
                answer = outer.script(post)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        class Wire(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass

        self.server = Wire(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def url(self, path="/hook"):
        return f"http://127.0.0.1:{self.port}{path}"

    def wait(self, count, patience=PATIENCE_S):
        """The first so many deliveries."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.posts) >= count, patience), (len(self.posts), count)
            return self.posts[:count]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def deliver(web, topic, status=200, policy=None, **fields):
    fields.setdefault("type", "webhook")
    answer = web.ask("PUT", f"/v1/topics/{topic}", json.dumps({**(policy or {}), "deliver": fields}))
    assert answer.status == status, answer
    return answer.json


def topic_of(web, topic):
    return web.get(f"/v1/topics/{topic}").json


def wait_until(what, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def gone(web, job):
    return web.get(f"/v1/jobs/{job['id']}").status == 404


def advance(web, by):
    answer = web.post("/v1/clock/advance", by=by)
    assert answer.status == 200, answer
    return answer.json["now_ms"]


def attempts(web, topic):
    """tarry_outlet_attempts_total of a topic, by code."""
    page = Page(web.get("/metrics").body.decode())
    found = [(dict(labels), count) for labels, count in page.all("tarry_outlet_attempts_total").items()]
    return {labels["code"]: count for labels, count in found if labels["topic"] == topic}


def log(server):
    """All that it has said so far."""
    while select.select([server.process.stdout], [], [], 0)[0]:
        more = os.read(server.process.stdout.fileno(), 65536)
        if not more:
            break
        server.said += more.decode()
    return server.said


# ---- what is sent ----

def test_delivers_with_all_headers(tmp_path):
    secret = "s3cr3t-of-the-hook"
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        told = deliver(web, "orders", url=hook.url(), secret=secret,
                       headers={"X-Mine": "yes", "Content-Type": "application/json"})
        assert told["policy"]["deliver"]["type"] == "webhook"
        body = b'{"order":42}\x00\xff'
        job = web.push("orders", body, key="k\u00e4y", tag="paid", delay="200ms")
        post = hook.wait(1)[0]
        assert post.path == "/hook" and post.body == body
        assert post["Tarry-Id"] == job["id"] == post["Idempotency-Key"]
        assert post["Tarry-Topic"] == "orders" and post["Tarry-Tag"] == "paid"
        assert post["Tarry-Key"].encode("latin-1").decode() == "k\u00e4y"
        assert post["Tarry-Attempt"] == "1" and post["Tarry-Due"] == job["due"]
        assert 0 <= int(post["Tarry-Late-Ms"]) < PATIENCE_S * 1000
        assert post["X-Mine"] == "yes" and post["Content-Type"] == "application/json"
        assert post.at * 1000 >= job["due_ms"]
        t, v1 = [part.split("=")[1] for part in post["Tarry-Signature"].split(",")]
        assert abs(int(t) - post.at) < 60
        assert v1 == hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
        wait_until(lambda: gone(web, job))
        events = [event["state"] for event in web.get(f"/v1/jobs/{job['id']}/history").json["events"]]
        assert "reserved" in events
        figures = topic_of(web, "orders")["outlet"]
        assert figures["delivered"] == 1 and figures["failed"] == 0 and figures["breaker"] == "closed"
        assert attempts(web, "orders") == {"200": 1}
        assert secret not in log(server)


def test_plain_defaults(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        told = deliver(web, "t", url=hook.url("/a?x=1"))["policy"]["deliver"]
        assert told == {"type": "webhook", "url": hook.url("/a?x=***"), "success": "2xx", "timeout_ms": 10000,
                        "concurrency": 16}
        job = web.push("t")
        post = hook.wait(1)[0]
        assert post.path == "/a?x=1" and post.body == b"" and post["Content-Length"] == "0"
        assert post["Tarry-Signature"] is None and post["Tarry-Key"] is None
        assert post["Content-Type"] == "application/octet-stream" and post["Expect"] is None
        assert post["User-Agent"].startswith("tarry")
        wait_until(lambda: gone(web, job))


def test_rotating_secrets_sign_newest_first(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), secrets=["new", "old"])
        web.push("t", b"body")
        parts = hook.wait(1)[0]["Tarry-Signature"].split(",")
        t = parts[0].split("=")[1]
        assert parts[1:] == ["v1=" + hmac.new(key, t.encode() + b".body", hashlib.sha256).hexdigest()
                             for key in (b"new", b"old")]


def test_connections_are_kept_alive(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), concurrency=4)
        for i in range(200):
            web.push("t", str(i))
        posts = hook.wait(200)
        assert sorted(int(post.body) for post in posts) == list(range(200))
        assert len({post.client for post in posts}) <= 8
        wait_until(lambda: topic_of(web, "t")["outlet"]["delivered"] == 200)


def test_concurrency_is_a_limit(tmp_path):
    under_way, most, lock, go = [0], [0], threading.Lock(), threading.Event()

    def slow(_):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        go.wait(PATIENCE_S)
        time.sleep(0.05)
        with lock:
            under_way[0] -= 1
        return 200, {}, b""

    with Receiver(slow) as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), concurrency=3, timeout="3m")
        for _ in range(15):
            web.push("t")
        hook.wait(3)
        go.set()
        hook.wait(15)
        assert most[0] == 3


# ---- failures ----

def test_failures_go_back_by_the_backoff_then_die(tmp_path):
    with Receiver(lambda post: (500, {}, b"no")) as hook, \
            web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"retries": 2, "backoff": "10s,1m"})
        job = web.push("t", b"x")
        advance(web, "0s")
        assert [post["Tarry-Attempt"] for post in hook.posts] == ["1"]
        advance(web, "9999ms")
        assert len(hook.posts) == 1
        advance(web, "1ms")
        assert [post["Tarry-Attempt"] for post in hook.posts] == ["1", "2"]
        advance(web, "1h")
        assert [post["Tarry-Attempt"] for post in hook.posts] == ["1", "2", "3"]
        assert {post["Idempotency-Key"] for post in hook.posts} == {job["id"]}
        assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "dead"
        figures = topic_of(web, "t")["outlet"]
        assert figures["failed"] == 3 and "500" in figures["last_error"] and figures["breaker"] == "closed"
        assert attempts(web, "t") == {"500": 3}
        # Replay of what died, through the API.
        hook.script = lambda post: (204, {}, b"")
        assert web.post(f"/v1/jobs/{job['id']}/kick").status == 200
        advance(web, "0s")
        assert hook.posts[-1]["Tarry-Attempt"] == "1" and gone(web, job)


def test_recipe_of_a_notification_over_a_day(tmp_path):
    """doc/outlets.md: 4m,10m,10m,1h,2h,6h,15h until the answer is `success`; a day of retries in one advance."""
    with Receiver(lambda post: (200, {}, b"fail")) as hook, \
            web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "notify", url=hook.url(), success="success",
                policy={"retries": 7, "backoff": "4m,10m,10m,1h,2h,6h,15h"})
        told, dues = [], []
        hook.script = lambda post: (dues.append(post["Tarry-Due"]), (200, {}, b"fail"))[1]
        jobs = [web.push("notify", str(i), delay=f"{i}s") for i in range(3)]
        start = jobs[0]["due_ms"]
        assert advance(web, "24h") >= start + 86400000
        steps = [0, 4 * 60, 14 * 60, 24 * 60, 84 * 60, 204 * 60, 564 * 60, 1464 * 60]
        expected = sorted((i + step, i, n + 1) for i in range(3) for n, step in enumerate(steps) if i + step <= 86400)
        for post in hook.posts:
            told.append((int(post.body), int(post["Tarry-Attempt"])))
        assert told == [(i, n) for _, i, n in expected]
        assert all(int(post["Tarry-Late-Ms"]) == 0 for post in hook.posts)
        assert len(hook.posts) == 21  # the eighth of each comes after a day and 24 minutes
        hook.script = lambda post: (200, {}, b"success")
        advance(web, "1h")
        assert len(hook.posts) == 24 and all(gone(web, job) for job in jobs)


def test_blank_values_are_empty_headers(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), headers={"X-Blank": " ", "X-Empty": ""})
        web.push("t", key=" ")
        [post] = hook.wait(1)
        assert [post[name] for name in ("Tarry-Key", "X-Blank", "X-Empty")] == ["", "", ""]


def test_success_is_the_exact_text(tmp_path):
    answers = [b"Success", b"success ", b"succes", b"", b"success" * 1000, b"success"]
    with Receiver() as hook, web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        hook.script = lambda post: (200, {}, answers[int(post["Tarry-Attempt"]) - 1])
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), success="success", policy={"backoff": "1s"})
        job = web.push("t")
        advance(web, "4s")
        assert len(hook.posts) == 5 and not gone(web, job)
        advance(web, "1s")
        assert len(hook.posts) == 6 and gone(web, job)
        hook.script = lambda post: (500, {}, b"success")  # both have to be right
        other = web.push("t")
        advance(web, "0s")
        assert not gone(web, other)


def test_retry_after_is_honoured(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"backoff": "1s"})
        hook.script = lambda post: (503, {"Retry-After": "30"}, b"")
        web.push("t")
        advance(web, "0s")
        hook.script = lambda post: (429, {}, b"")
        advance(web, "29s")
        assert len(hook.posts) == 1
        advance(web, "1s")
        assert len(hook.posts) == 2
        hook.script = lambda post: (200, {}, b"")
        advance(web, "1s")  # without it the backoff decides
        assert len(hook.posts) == 3


@pytest.mark.parametrize("value,wait_ms", [
    ("99999999999999999999", 86400_000), ("86401", 86400_000), ("7", 7_000), ("0", 0), ("000", 0), ("-5", 1_000),
    ("1e3", 1_000), ("soon", 1_000), ("Fri, 31 Dec 2100 23:59:59 GMT", 86400_000),
    ("Fri, 31 Dec 1999 23:59:59 GMT", 0), ("Fri, 31 Dec", 1_000), ("Mon, soon", 1_000)])
def test_retry_after_of_all_kinds(tmp_path, value, wait_ms):
    with Receiver() as hook, web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        hook.script = lambda post: (503, {"Retry-After": value}, b"") if post["Tarry-Attempt"] == "1" else (200, {}, b"")
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"backoff": "1s"})
        web.push("t")
        if wait_ms > 0:
            advance(web, f"{wait_ms - 1}ms")
            assert len(hook.posts) == 1
            advance(web, "1ms")
        else:
            advance(web, "0s")
        assert len(hook.posts) == 2


def test_retry_after_nothing_is_an_attempt(tmp_path):
    with Receiver(lambda post: (503, {"Retry-After": "0"}, b"")) as hook, \
            web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"backoff": "1h", "retries": 3})
        job = web.push("t")
        advance(web, "0s")
        assert len(hook.posts) == 4 and web.get(f"/v1/jobs/{job['id']}").json["state"] == "dead"
        web.push("t", retries="-1")  # not for ever, if nothing else ends it
        advance(web, "0s")
        assert len(hook.posts) == 4 + 21


@pytest.mark.parametrize("what", ["line", "lines", "status"])
def test_head_of_an_answer_that_is_too_large(tmp_path, what):
    head = {"line": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 400_000 + b"\r\n",
            "lines": b"HTTP/1.1 200 OK\r\n" + (b"X-A: " + b"a" * 100 + b"\r\n") * 4000,
            "status": b"HTTP/1.1 200 " + b"O" * 400_000 + b"\r\n"}[what]

    def answer(wire):
        with wire.accept()[0] as one:
            one.recv(65536)
            with contextlib.suppress(OSError):
                one.sendall(head)
                one.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as wire, web_server(tmp_path / "data", *PRIVATE) as server:
        threading.Thread(target=answer, args=(wire,), daemon=True).start()
        web = Web(web_port(server))
        deliver(web, "t", url=f"http://127.0.0.1:{wire.getsockname()[1]}/", policy={"backoff": "1h"})
        web.push("t")
        why = wait_until(lambda: topic_of(web, "t")["outlet"].get("last_error"))
        assert "the head of its answer is too large" in why
        assert attempts(web, "t") == {"error": 1}


def test_timeout_counts_as_failure(tmp_path):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(PATIENCE_S), (200, {}, b""))[1]) as hook, \
            web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), timeout="1s", policy={"backoff": "50ms", "retries": -1})
        job = web.push("t")
        hook.wait(2)
        hold.set()
        wait_until(lambda: gone(web, job))
        assert attempts(web, "t")["timeout"] >= 1


def test_a_receiver_that_closes_without_an_answer(tmp_path):
    with Receiver(lambda post: None) as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"backoff": "20ms", "retries": -1})
        job = web.push("t")
        hook.wait(2)
        hook.script = lambda post: (200, {}, b"")
        wait_until(lambda: gone(web, job))
        assert attempts(web, "t")["closed"] >= 1


def test_a_short_ttr_does_not_end_a_send(tmp_path):
    """A lease is 30 s at least; that it is renewed after that is test_outlets_keep_the_lease's."""
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(PATIENCE_S), (200, {}, b""))[1]) as hook, \
            web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), timeout="3m", policy={"ttr": "100ms"})
        job = web.push("t")
        hook.wait(1)
        time.sleep(0.6)
        assert len(hook.posts) == 1
        assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "reserved"
        hold.set()
        wait_until(lambda: gone(web, job))
        assert len(hook.posts) == 1


@pytest.mark.parametrize("policy", [{}, {"backoff": "1ms"}])
def test_jobs_of_the_beanstalk_port_wait_between_tries(tmp_path, policy):
    """Such jobs have no backoff, and a policy that comes later gives them none."""
    with Receiver(lambda post: (500, {}, b"")) as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        with socket.create_connection(("127.0.0.1", server.port()), timeout=PATIENCE_S) as wire:
            wire.sendall(b"use tube\r\nput 1 0 60 5\r\nhello\r\n")
            replies = b""
            while b"INSERTED" not in replies:  # they may come in one piece, or in two
                replies += wire.recv(100)
            deliver(web, "tube", url=hook.url(), policy=policy)
            first, second = hook.wait(2)[:2]
        assert second.at - first.at >= 0.9  # a second, give or take a tenth


def test_jobs_that_would_be_sent_at_once_for_ever_wait(tmp_path):
    """What `tarry export` makes of a job of the beanstalk port; and one of that port with such a policy."""
    with Receiver(lambda post: (500, {}, b"")) as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url("/t"))
        deliver(web, "tube", url=hook.url("/tube"), policy={"backoff": "0s"})
        web.push("t", backoff="0s", retries=-1)
        with socket.create_connection(("127.0.0.1", server.port()), timeout=PATIENCE_S) as wire:
            wire.sendall(b"use tube\r\nput 1 0 60 5\r\nhello\r\nquit\r\n")
            while wire.recv(100):
                pass
        posts = hook.wait(4)
        for path in ("/t", "/tube"):
            first, second = [post for post in posts if post.path == path][:2]
            assert second.at - first.at >= 0.9


# ---- nobody else is delayed ----

def test_dead_outlet_opens_its_breaker_and_delays_nobody(tmp_path):
    dead = free_port()
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "dead", url=f"http://127.0.0.1:{dead}/", policy={"backoff": "10ms", "retries": -1})
        deliver(web, "live", url=hook.url())
        for i in range(50):
            web.push("dead")
            web.push("live", str(i))
        posts = hook.wait(50)
        assert max(int(post["Tarry-Late-Ms"]) for post in posts) < TIMEOUT_MS
        figures = wait_until(lambda: topic_of(web, "dead")["outlet"]
                             if topic_of(web, "dead")["outlet"]["breaker"] == "open" else None)
        assert figures["failed"] >= 5 and figures["last_error"]
        assert [one["outlet"]["breaker"] for one in web.get("/v1/topics").json["topics"] if one["name"] == "dead"]
        page = Page(web.get("/metrics").body.decode())
        breakers = {dict(labels)["topic"]: value for labels, value in page.all("tarry_outlet_breaker").items()}
        assert breakers["live"] == 0 and breakers["dead"] in (1, 2)
        assert attempts(web, "dead")["connect"] >= 5
        wait_until(lambda: "cannot be reached" in log(server))
        # Few tries while it is open; and when somebody listens again all is delivered.
        with Receiver() as second:
            deliver(web, "dead", url=second.url(), policy={"backoff": "10ms", "retries": -1})
            second.wait(50)
            wait_until(lambda: topic_of(web, "dead")["outlet"]["breaker"] == "closed")


def test_breaker_tries_again_and_closes(tmp_path):
    port = free_port()
    with web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=f"http://127.0.0.1:{port}/", concurrency=1, policy={"backoff": "10ms"})
        for i in range(4):
            web.push("t", str(i))
        advance(web, "500ms")
        figures = topic_of(web, "t")["outlet"]
        assert figures["breaker"] == "open" and figures["failed"] == 5
        assert 500 <= figures["open_left_ms"] <= 600  # it opened after some 10 ms
        advance(web, "2s")  # one try a second later, then two seconds
        assert topic_of(web, "t")["outlet"]["failed"] == 6
        server_up = http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler)
        server_up.daemon_threads = True
        thread = threading.Thread(target=server_up.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        advance(web, "10s")  # it answers 501: alive, though it does not take the jobs
        figures = topic_of(web, "t")["outlet"]
        assert figures["breaker"] == "closed" and "501" in figures["last_error"]
        server_up.shutdown()
        server_up.server_close()
        assert "answers again" in log(server)


def test_slow_outlet_delays_no_other_topic(tmp_path):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(PATIENCE_S), (200, {}, b""))[1]) as slow, Receiver() as quick, \
            web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "slow", url=slow.url(), concurrency=8, timeout="3m")
        deliver(web, "quick", url=quick.url())
        for i in range(100):
            web.push("slow")
            web.push("quick", delay="100ms")
        posts = quick.wait(100)
        assert max(int(post["Tarry-Late-Ms"]) for post in posts) < TIMEOUT_MS
        wait_until(lambda: topic_of(web, "slow")["outlet"]["in_flight"] == 8)
        hold.set()
        slow.wait(100)


def test_a_name_that_cannot_be_resolved(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "nowhere", url="http://no-such-host.invalid/", timeout="500ms", policy={"backoff": "10ms"})
        deliver(web, "live", url=hook.url())
        web.push("nowhere")
        for _ in range(20):
            web.push("live")
        hook.wait(20)
        codes = wait_until(lambda: attempts(web, "nowhere"))
        assert set(codes) <= {"name", "timeout"}


SLOW_NAMES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *name, const char *port, const struct addrinfo *how, struct addrinfo **out)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");

    if (name != NULL && strcmp(name, "slow.test") == 0) {
        sleep(3);
        return EAI_AGAIN;
    }
    return next(name, port, how, out);
}
"""


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")
def test_names_that_hang_take_few_threads_and_keep_no_jobs(tmp_path, monkeypatch):
    (tmp_path / "names.c").write_text(SLOW_NAMES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "names.so", tmp_path / "names.c", "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "names.so"))
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        threads = lambda: len(os.listdir(f"/proc/{server.process.pid}/task"))
        before = threads()
        for _ in range(64):
            web.push("slow", backoff="1h")
        deliver(web, "slow", url="http://slow.test/", timeout="2s", concurrency=64)
        deliver(web, "live", url=hook.url())
        most = 0
        for _ in range(20):
            web.push("live")
            most = max(most, threads() - before)
        hook.wait(20)
        wait_until(lambda: topic_of(web, "slow")["outlet"]["breaker"] == "open")
        most = max(most, threads() - before)
        assert 0 < most <= 24  # 8; as many whose transfer ran out of time, but the look-up did not end yet; and others
        wait_until(lambda: topic_of(web, "slow")["outlet"]["in_flight"] == 0)
        found = topic_of(web, "slow")
        assert found["ready"] >= 32 and found["reserved"] == 0  # only those that were tried, eight in 2 s, wait for their backoff
        jobs = web.get("/v1/jobs", topic="slow", state="ready").json["jobs"]
        assert {job["attempts"] for job in jobs} == {0}


def test_https_by_an_own_authority(tmp_path, monkeypatch):
    made = Authority(tmp_path, "authority")
    cert, key = made.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Receiver() as hook:
        hook.server.socket = context.wrap_socket(hook.server.socket, server_side=True)
        name = f"https://localhost:{hook.port}/hook"
        with web_server(tmp_path / "data", *PRIVATE) as server:  # which does not know the authority
            web = Web(web_port(server))
            deliver(web, "t", url=name, secret="k3y", policy={"backoff": "100ms", "retries": -1})
            web.push("t", b"hello")
            wait_until(lambda: topic_of(web, "t")["outlet"]["failed"] > 0)
            assert set(attempts(web, "t")) == {"tls"} and "certificate" in topic_of(web, "t")["outlet"]["last_error"]
            assert server.stop() == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(made.cert))
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            post = hook.wait(1)[0]
            assert post.body == b"hello" and "v1=" in post["Tarry-Signature"]
            wait_until(lambda: topic_of(web, "t")["outlet"]["delivered"] == 1)
            # The same authority, but another name than the certificate has.
            deliver(web, "u", url=f"https://localhost.:{hook.port}/hook", policy={"backoff": "1h"})
            web.push("u")
            wait_until(lambda: topic_of(web, "u")["outlet"]["failed"] > 0)
            assert set(attempts(web, "u")) <= {"tls", "name"} and len(hook.posts) == 1


def test_pause_and_rate_hold_deliveries_back(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"rate": 2, "burst": 1})
        web.post("/v1/topics/t/pause", what="out")
        for _ in range(5):
            web.push("t")
        advance(web, "10s")
        assert hook.posts == []
        web.post("/v1/topics/t/resume")
        advance(web, "0s")
        assert len(hook.posts) == 1
        advance(web, "1s")
        assert len(hook.posts) == 3
        advance(web, "1s")
        assert len(hook.posts) == 5


# ---- crashes and restarts ----

@pytest.mark.parametrize("sync", ["always", "never"])
def test_kill_between_send_and_ack_repeats_with_the_same_key(tmp_path, sync):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(PATIENCE_S), (200, {}, b""))[1]) as hook:
        with web_server(tmp_path / "data", "--sync", sync, *PRIVATE) as server:
            web = Web(web_port(server))
            deliver(web, "t", url=hook.url(), timeout="3m")
            jobs = [web.push("t", str(i), key=f"key-{i}") for i in range(5)]
            hook.wait(5)
            wait_until(lambda: any(b"key-4" in log.read_bytes() for log in (tmp_path / "data").glob("w.*")))  # weak sync
            server.stop(signal.SIGKILL)
        hold.set()
        with web_server(tmp_path / "data", "--sync", sync, *PRIVATE) as server:
            web = Web(web_port(server))
            posts = hook.wait(10)
            first = {post.body: post["Idempotency-Key"] for post in posts[:5]}
            again = {post.body: post["Idempotency-Key"] for post in posts[5:]}
            assert first == again and len(first) == 5
            wait_until(lambda: all(gone(web, job) for job in jobs))
            assert topic_of(web, "t")["policy"]["deliver"]["url"] == hook.url()
        assert len(hook.posts) == 10


def test_nothing_is_lost_when_killed_again_and_again(tmp_path):
    seen, pushed = set(), []
    with Receiver() as hook:
        hook.script = lambda post: (seen.add(post.body), (200, {}, b""))[1]
        for life in range(5):
            with web_server(tmp_path / "data", *PRIVATE) as server:
                web = Web(web_port(server))
                if life == 0:
                    deliver(web, "t", url=hook.url(), concurrency=8)
                for i in range(60):
                    pushed.append(f"{life}-{i}".encode())
                    web.push("t", pushed[-1], delay=f"{i % 7 * 10}ms")
                server.stop(signal.SIGKILL)
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            wait_until(lambda: seen == set(pushed))
            wait_until(lambda: topic_of(web, "t")["ready"] + topic_of(web, "t")["reserved"] == 0)


def test_stop_waits_for_what_is_under_way(tmp_path):
    with Receiver(lambda post: (time.sleep(0.5), (200, {}, b""))[1]) as hook:
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            deliver(web, "t", url=hook.url())
            web.push("t")
            hook.wait(1)
            assert server.stop() == 0
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            assert topic_of(web, "t")["ready"] + topic_of(web, "t")["reserved"] == 0
            assert len(hook.posts) == 1


def test_stop_gives_back_what_does_not_end(tmp_path):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(PATIENCE_S), (200, {}, b""))[1]) as hook:
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            deliver(web, "t", url=hook.url(), timeout="3m", policy={"retries": 0})
            job = web.push("t")
            hook.wait(1)
            begin = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begin < STOP_S
        hold.set()
        with web_server(tmp_path / "data", *PRIVATE) as server:  # it is not dead, though it had one attempt only
            web = Web(web_port(server))
            again = hook.wait(2)[1]
            assert again["Idempotency-Key"] == job["id"] and again["Tarry-Attempt"] == "1"
            wait_until(lambda: gone(web, job))


def test_a_change_of_the_policy_is_followed(tmp_path):
    with Receiver() as first, Receiver() as second, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        web.push("t", b"0")  # was there before
        deliver(web, "t", url=first.url())
        assert first.wait(1)[0].body == b"0"
        deliver(web, "t", url=second.url())
        web.push("t", b"1")
        assert second.wait(1)[0].body == b"1"
        assert web.ask("PATCH", "/v1/topics/t", json.dumps({"deliver": "pull"})).status == 200
        job = web.push("t", b"2")
        [pulled] = web.reserve("t", wait="60s")
        assert pulled["id"] == job["id"]
        assert "deliver" not in topic_of(web, "t")["policy"] and "type" not in topic_of(web, "t").get("outlet", {})
        deliver(web, "t", url=first.url())
        assert web.ask("PATCH", "/v1/topics/t", json.dumps({"rate": 1000})).status == 200  # deliver stays
        web.push("t", b"3")
        assert first.wait(2)[1].body == b"3"
        assert web.ask("PATCH", "/v1/topics/t", json.dumps({"deliver": None})).status == 200
        assert len(second.posts) == 1


def test_a_deleted_topic_delivers_no_more(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url())
        web.push("t")
        hook.wait(1)
        wait_until(lambda: topic_of(web, "t")["reserved"] == 0)
        assert web.ask("DELETE", "/v1/topics/t", force="true").status == 200
        job = web.push("t", b"new life")
        [pulled] = web.reserve("t", wait="60s")
        assert pulled["id"] == job["id"] and len(hook.posts) == 1


def test_figures_go_with_their_topic(tmp_path):
    with Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        for life in range(2):
            deliver(web, "t", url=hook.url())
            job = web.push("t")
            hook.wait(life + 1)
            wait_until(lambda: gone(web, job))
            series = [line for line in web.get("/metrics").body.decode().splitlines()
                      if line.startswith('tarry_outlet_attempts_total{topic="t"')]
            assert series == ['tarry_outlet_attempts_total{topic="t",code="200"} 1']
            assert web.ask("DELETE", "/v1/topics/t", force="true").status == 200
            wait_until(lambda: 'tarry_outlet_attempts_total{' not in web.get("/metrics").body.decode())


def test_purge_and_cancel_of_what_is_being_sent(tmp_path):
    hold = threading.Event()
    with Receiver(lambda post: (hold.wait(2 * PATIENCE_S), (200, {}, b""))[1]) as hook, \
            web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), timeout="10m")
        job = web.push("t", b"cancelled")
        web.push("t", b"purged")
        hook.wait(2)
        assert web.ask("DELETE", f"/v1/jobs/{job['id']}").status == 409
        assert web.ask("DELETE", f"/v1/jobs/{job['id']}", force="true").status == 200
        assert web.post("/v1/topics/t/purge").status == 200
        # Though nobody has answered: it is seen when their leases are to be renewed, after 8 s.
        wait_until(lambda: topic_of(web, "t")["outlet"]["in_flight"] == 0)
        hold.set()
        web.push("t", b"after")
        assert hook.wait(3)[2].body == b"after"


# ---- who may be reached ----

@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/", "http://[::1]:{port}/", "http://10.0.0.1/",
                                 "http://169.254.169.254/latest/meta-data", "http://[::ffff:127.0.0.1]:{port}/"])
def test_private_addresses_are_refused_when_they_are_set(tmp_path, url):
    with Receiver() as hook, web_server(tmp_path / "data") as server:
        web = Web(web_port(server))
        error = deliver(web, "t", status=400, url=url.format(port=hook.port))["error"]
        assert error["field"] == "deliver" and "outlet.allow_private" in error["message"]
        assert hook.posts == []


@pytest.mark.parametrize("url", ["http://1.1.1.1:0/", "https://example.com:00/x"])
def test_port_0_is_refused_when_it_is_set(tmp_path, url):
    with web_server(tmp_path / "data") as server:
        error = deliver(Web(web_port(server)), "t", status=400, url=url)["error"]
        assert error["field"] == "deliver" and "port 0" in error["message"]


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
def test_private_addresses_are_refused_when_they_are_used(tmp_path, host):
    """A name, or an address in disguise, is judged by what it means when the socket is made."""
    with Receiver() as hook, web_server(tmp_path / "data") as server:
        web = Web(web_port(server))
        deliver(web, "t", url=f"http://{host}:{hook.port}/", policy={"backoff": "10ms", "retries": 1})
        job = web.push("t")
        wait_until(lambda: web.get(f"/v1/jobs/{job['id']}").json["state"] == "dead")
        assert hook.posts == []
        assert "private" in topic_of(web, "t")["outlet"]["last_error"]
        assert attempts(web, "t") == {"private": 2}


def test_a_policy_that_was_allowed_once_is_judged_again(tmp_path):
    with Receiver() as hook:
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            deliver(web, "t", url=hook.url(), policy={"retries": 0})
        with web_server(tmp_path / "data") as server:
            web = Web(web_port(server))
            job = web.push("t")
            wait_until(lambda: web.get(f"/v1/jobs/{job['id']}").json["state"] == "dead")
            assert hook.posts == []


def test_redirects_are_not_followed(tmp_path):
    with Receiver() as target, Receiver() as hook, web_server(tmp_path / "data", *PRIVATE) as server:
        hook.script = lambda post: (302, {"Location": target.url()}, b"")
        web = Web(web_port(server))
        deliver(web, "t", url=hook.url(), policy={"backoff": "10ms", "retries": 1})
        job = web.push("t")
        wait_until(lambda: web.get(f"/v1/jobs/{job['id']}").json["state"] == "dead")
        assert target.posts == [] and len(hook.posts) == 2
        assert "redirects" in topic_of(web, "t")["outlet"]["last_error"]


def test_proxies_of_the_environment_are_not_used(tmp_path, monkeypatch):
    with Receiver() as proxy, Receiver() as hook:
        for name in ("http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with web_server(tmp_path / "data", *PRIVATE) as server:
            web = Web(web_port(server))
            deliver(web, "t", url=hook.url())
            web.push("t")
            hook.wait(1)
            assert proxy.posts == []


# ---- what is refused, and what is never shown ----

BAD = [
    ({"type": "webhook"}, "deliver.url"),
    ({"type": "webhook", "url": "ftp://h/"}, "http://"),
    ({"type": "webhook", "url": "file:///etc/passwd"}, "http://"),
    ({"type": "webhook", "url": "https://u:pa/ss@shop.example/x#token=abc"}, "host:port"),
    ({"type": "webhook", "url": "http://h:99999/"}, "host:port"),
    ({"type": "webhook", "url": "http://[::1/"}, "host:port"),
    ({"type": "webhook", "url": "http://h/", "timeout": "never"}, "deliver.timeout"),
    ({"type": "webhook", "url": "http://h/", "timeout": 0}, "deliver.timeout"),
    ({"type": "webhook", "url": "http://h/", "concurrency": 0}, "deliver.concurrency"),
    ({"type": "webhook", "url": "http://h/", "concurrency": "4"}, "deliver.concurrency"),
    ({"type": "webhook", "url": "http://h/", "secret": ""}, "deliver.secret"),
    ({"type": "webhook", "url": "http://h/", "secret": "a", "secrets": ["b"]}, "twice"),
    ({"type": "webhook", "url": "http://h/", "secrets": "b"}, "deliver.secrets"),
    ({"type": "webhook", "url": "http://h/", "headers": {"Tarry-Id": "1"}}, "deliver.headers"),
    ({"type": "webhook", "url": "http://h/", "headers": {"A": "b\r\nC: d"}}, "deliver.headers"),
    ({"type": "webhook", "url": "http://h/", "headers": [1]}, "deliver.headers"),
    ({"type": "webhook", "url": "http://h/", "exchange": "x"}, "webhook takes"),
    ({"type": "webhook", "url": 5}, "deliver.url"),
    ({"type": "smoke-signal"}, "deliver.type"),
    ({}, "deliver.type"),
    ("push", "pull"),
    (7, "pull"),
]


def test_bad_policies_get_clear_errors_and_change_nothing(tmp_path):
    with web_server(tmp_path / "data", *PRIVATE) as server:
        web = Web(web_port(server))
        for bad, says in BAD:
            answer = web.ask("PUT", "/v1/topics/t", json.dumps({"deliver": bad}))
            assert answer.status == 400, (bad, answer)
            error = answer.json["error"]
            assert error["field"] == "deliver" and says in error["message"], (bad, error)
        twice = '{"deliver":{"type":"webhook","url":"http://h/","url":"http://i/"}}'
        assert web.ask("PUT", "/v1/topics/t", twice).status == 400
        assert web.get("/v1/topics/t").status == 404


def test_secrets_are_never_shown(tmp_path):
    secrets = ["the-new-secret", "the-old-secret"]
    words = [*secrets, "p4ssw0rd", "t0ken-in-query", "header-value"]
    url = "http://user:p4ssw0rd@127.0.0.1:{}/x?token=t0ken-in-query"
    with Receiver(lambda post: (500, {}, b"")) as hook, \
            web_server(tmp_path / "data", "--log-level", "debug", *PRIVATE) as server:
        web = Web(web_port(server))
        answers = [json.dumps(deliver(web, "t", url=url.format(hook.port), secrets=secrets,
                                      headers={"X-Auth": "header-value"}, policy={"backoff": "10ms"}))]
        job = web.push("t")
        hook.wait(3)
        deliver(web, "gone", url=url.format(free_port()), secrets=secrets, policy={"backoff": "1ms"})
        web.push("gone")
        wait_until(lambda: topic_of(web, "gone")["outlet"]["breaker"] == "open")
        for path in ("/v1/topics", "/v1/topics/t", "/v1/topics/gone", "/v1/config", "/v1/stats", "/metrics",
                     f"/v1/jobs/{job['id']}", f"/v1/jobs/{job['id']}/history", "/v1/jobs", "/openapi.json"):
            answers.append(web.get(path).body.decode())
        for bad in ({"timeout": "x"}, {"headers": {"Tarry-Id": "header-value"}}, {"concurrency": -1}):
            answers.append(json.dumps(deliver(web, "t", status=400, url=url.format(hook.port), secrets=secrets, **bad)))
        told = topic_of(web, "t")["policy"]["deliver"]
        assert told["secret_count"] == 2 and told["headers"] == {"X-Auth": "***"}
        assert told["url"] == f"http://user:***@127.0.0.1:{hook.port}/x?token=***"
        for word in words:
            assert not [answer for answer in answers if word in answer], word
            assert word not in log(server), word
        assert hook.posts[0]["X-Auth"] == "header-value" and hook.posts[0]["Authorization"].startswith("Basic ")
