"""The test clock of the real binary: time stands still, then everything happens in order."""
import signal
import threading
import time

import pytest

from client import Client
from harness import PATIENCE_S, Server
from web import Web, web_port, web_server

DAY_MS = 86_400_000


@pytest.fixture
def open_server(tmp_path):
    """Starts servers on one store, each with its clients."""
    made = []

    def start(*flags, **more):
        server = web_server(tmp_path / "store", "--test-clock", *flags, **more)
        made.append(server)
        server.__enter__()
        server.web = Web(web_port(server))
        return server

    yield start
    for server in made:
        server.__exit__(None, None, None)


def now_ms(web):
    return web.get("/v1/clock").json["now_ms"]


def advance(web, **query):
    answer = web.post("/v1/clock/advance", **query)
    assert answer.status == 200, answer
    return answer.json["now_ms"]


def test_thirty_days_by_either_port(open_server):
    server = open_server("--set", "clock.start=2027-01-01T00:00:00Z")
    web = server.web
    start = 1_798_761_600_000
    assert now_ms(web) == start
    with Client(server.port()) as client:
        job = web.push("far", b"by http", delay="30d")
        assert job["due_ms"] == start + 30 * DAY_MS
        client.ask("use far")
        client.put(b"by beanstalk", delay=30 * 86400)
        time.sleep(0.3)
        assert now_ms(web) == start and web.reserve("far") == []
        assert advance(web, by="29d") == start + 29 * DAY_MS
        assert web.reserve("far") == []
        assert advance(web, by="24h") == start + 30 * DAY_MS
        jobs = web.reserve("far", count=10)
        assert sorted(job["body"] for job in jobs) == ["by beanstalk", "by http"]
        assert [job["late_ms"] for job in jobs] == [0, 0]


def test_who_waits_gets_jobs_in_order(open_server):
    server = open_server()
    web = server.web
    for delay in (3, 1, 2):
        web.push("t", str(delay).encode(), delay=f"{delay}h")
    got = []

    def consume():
        other = Web(web_port(server))
        for _ in range(3):
            job = other.reserve("t", wait="30s", ttr="365d")[0]
            got.append((job["body"], job["late_ms"]))
        other.close()

    consumer = threading.Thread(target=consume)
    consumer.start()
    before = now_ms(web)
    assert advance(web, by="4h") == before + 4 * 3_600_000
    consumer.join(PATIENCE_S)
    assert [body for body, _ in got] == ["1", "2", "3"]


def test_leases_follow_it_and_waits_do_not(open_server):
    web = open_server().web
    web.push("t", b"x", ttr="1h")
    lease = web.reserve("t")[0]["lease"]
    begin = time.monotonic()
    assert web.reserve("t", wait="300ms") == []  # real time
    assert 0.25 < time.monotonic() - begin < PATIENCE_S
    advance(web, by="59m")
    assert web.reserve("t") == []
    advance(web, by="1m")
    assert web.post("/v1/jobs/1/ack", lease=lease).status == 409
    events = [event["why"] for event in web.get("/v1/jobs/1/history").json["events"]]
    assert web.get("/v1/stats").json["history_since_ms"] <= now_ms(web)
    assert events[0] == "pushed" and "handed out" in events and "timed out" in events


def test_it_is_kept_and_never_goes_back(open_server, tmp_path):
    server = open_server()
    stood = advance(server.web, by="10d")
    server.web.push("t", b"x", delay="1d")
    assert server.web.post("/v1/clock/advance", to=stood - 1).status == 409
    server.stop(signal.SIGKILL)
    server = open_server("--set", "clock.start=2001-01-01T00:00:00Z")
    assert now_ms(server.web) == stood
    assert "test clock: it is" in server.said
    advance(server.web, by="1d")
    assert [job["body"] for job in server.web.reserve("t")] == ["x"]
    server.stop()
    with Server(tmp_path / "store") as other:
        assert other.ended() == 2
        assert "--test-clock" in other.said


def test_a_store_without_it_keeps_without_it(tmp_path):
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        assert web.get("/v1/clock").status == 501
        assert web.post("/v1/clock/advance", by="1s").status == 501
        server.stop()
    with Server(tmp_path / "store", "--test-clock") as other:
        assert other.ended() == 2
        assert "--test-clock" in other.said
