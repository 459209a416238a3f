"""What one client may take from others: connections in all and from an address, time, memory. Each
limit says why, and is counted."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import time

import pytest

from client import Client
from harness import PATIENCE_S, sanitized
from web import Web, raw, read_answer, web_port, web_server

HEAD = b"Host: localhost\r\n"
MIB = 1 << 20


def serve(tmp_path, **limits):
    flags = [word for name, value in limits.items() for word in ("--set", f"limits.{name}={value}")]
    return web_server(tmp_path / "store", "--sync", "never", *flags)


def until(what):
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def refused(web, port, reason):
    return web.get("/v1/stats").json["refused"][port][reason]


def get(path):
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + HEAD + b"\r\n"


# ---- how many ----


def test_more_topics_than_allowed(tmp_path):
    """One more is refused, and says why; what is there goes on, and one that goes makes room."""
    with serve(tmp_path, topics=3) as server:  # with `default`, which is always there
        web = Web(web_port(server))
        assert web.get("/v1/config").json["settings"]["limits.topics"] == {"value": "3", "from": "flag"}
        web.push("a", b"x")
        web.push("b", b"x")
        for answer in (web.post("/v1/topics/c/jobs"), web.ask("PUT", "/v1/topics/c", "{}"),
                       web.post("/v1/topics/c/reserve", wait="1s")):
            assert (answer.status, answer.code) == (429, "limit")
            assert "limits.topics" in answer.json["error"]["message"]
        many = web.ask("POST", "/v1/jobs", json.dumps([{"topic": "c"}, {"topic": "a"}])).json["results"]
        assert "limits.topics" in many[0]["error"]["message"] and many[1]["topic"] == "a"
        with Client(server.port()) as client:
            assert client.say("use c") == client.say("watch c") == "OUT_OF_MEMORY"
            assert client.say("use b") == "USING b"
        assert web.ask("DELETE", "/v1/topics/a", force="true").status == 200
        web.push("c", b"x")
        assert server.stop() == 0
    with serve(tmp_path, topics=1) as server:  # fewer than there are: those are kept
        assert server.ready()[0] == 2
        web = Web(web_port(server))
        web.push("b", b"x")
        assert web.post("/v1/topics/a/jobs").status == 429
        with Client(server.port()) as client:
            assert client.say("list-tube-used") == "USING default"
        assert server.stop() == 0


def test_more_connections_than_allowed(tmp_path):
    """They are told so and closed; when others go, all is as before."""
    with serve(tmp_path, connections=5) as server:
        port, beanstalk = web_port(server), server.port()
        web = Web(port)
        assert web.get("/healthz").status == 200
        others = [Client(beanstalk) for _ in range(4)]
        for other in others:
            assert other.say("list-tube-used") == "USING default"
        for _ in range(3):
            with raw(port) as wire:
                wire.sendall(get("/v1/stats"))
                stream = wire.makefile("rb")
                answer = read_answer(stream)
                assert (answer.status, answer.code) == (503, "too_many_connections")
                assert answer.headers["Connection"] == "close" and stream.read() == b""
                assert int(answer.headers["Retry-After"]) > 0
        with raw(port) as wire:  # is it alive? It is
            wire.sendall(get("/healthz"))
            assert read_answer(wire.makefile("rb")).status == 200
        server.wait_for("warning: the limit of connections")
        for said in (b"", b"list-tube-used\r\n", b"put 1 0 60 70000\r\n" + b"x" * 70000):
            with Client(beanstalk) as more:
                with contextlib.suppress(ConnectionError):  # it may be closed before all of that is sent
                    more.send(said)
                assert more.reply().word == "OUT_OF_MEMORY"
                with pytest.raises((EOFError, ConnectionError)):
                    more.more()
        others.pop().close()
        until(lambda: web.get("/v1/stats").json["connections"]["beanstalk"] == 3)
        until(lambda: sum(web.get("/v1/stats").json["connections"][port] for port in ("http", "beanstalk")) < 5)
        with Client(beanstalk) as again:
            assert again.say("list-tube-used") == "USING default"
        stats = web.get("/v1/stats").json
        assert stats["connections"]["most"] == 5
        assert stats["refused"]["http"]["connections"] == 4
        assert stats["refused"]["beanstalk"]["connections"] == 3
        metrics = web.get("/metrics").body.decode()
        assert 'tarry_connections_refused_total{port="http",reason="connections"} 4' in metrics
        assert "\ntarry_tls_certificate_end_timestamp_seconds 0\n" in metrics
        for other in others:
            other.close()
        until(lambda: web.get("/v1/stats").json["connections"]["beanstalk"] == 0)
        with raw(port) as wire:
            wire.sendall(get("/v1/stats"))
            assert read_answer(wire.makefile("rb")).status == 200
        web.close()
        assert server.stop() == 0


def test_flood_of_unwanted_connections(tmp_path):
    """Whoever is told comes again at once: the server must have time for others. (After a while the
    flood waits in the backlog, and so do those who come then, but not for long.)"""
    with serve(tmp_path, connections=2) as server:
        web, beanstalk = Web(web_port(server)), server.port()
        assert web.get("/healthz").status == 200
        with Client(beanstalk) as one:
            assert one.say("list-tube-used") == "USING default"
            began = time.monotonic()
            for _ in range(1500):
                with Client(beanstalk) as wire:
                    assert wire.reply().word == "OUT_OF_MEMORY"
            assert 0.2 < time.monotonic() - began < PATIENCE_S
            assert one.say("list-tube-used") == "USING default"
            assert refused(web, "beanstalk", "connections") == 1500
        until(lambda: web.get("/v1/stats").json["connections"]["beanstalk"] == 0)
        with Client(beanstalk) as one:
            assert one.say("list-tube-used") == "USING default"
        web.close()
        assert server.stop() == 0


def from_address(address, port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(address, 0))


def test_connections_from_one_address(tmp_path):
    with serve(tmp_path, per_address=3) as server:
        port, beanstalk = web_port(server), server.port()
        web = Web(port)  # from 127.0.0.1
        assert web.get("/healthz").status == 200
        with from_address("127.0.0.2", port) as one, from_address("127.0.0.2", beanstalk) as two, \
                from_address("127.0.0.2", beanstalk) as three:
            two.sendall(b"list-tube-used\r\n")
            three.sendall(b"list-tube-used\r\n")
            one.sendall(get("/healthz"))
            assert two.recv(100) == three.recv(100) == b"USING default\r\n"
            assert read_answer(one.makefile("rb")).status == 200
            with from_address("127.0.0.2", port) as wire:
                wire.sendall(get("/v1/stats"))
                answer = read_answer(wire.makefile("rb"))
                assert (answer.status, answer.code) == (429, "too_many_connections")
                assert "limits.per_address" in answer.json["error"]["message"]
            with from_address("127.0.0.2", beanstalk) as wire:
                wire.settimeout(PATIENCE_S)
                assert wire.makefile("rb").read() == b"OUT_OF_MEMORY\r\n"
            with from_address("127.0.0.3", beanstalk) as wire:
                wire.sendall(b"list-tube-used\r\n")
                assert wire.recv(100) == b"USING default\r\n"
        until(lambda: web.get("/v1/stats").json["connections"]["beanstalk"] == 0)
        with from_address("127.0.0.2", beanstalk) as wire:
            wire.sendall(b"list-tube-used\r\n")
            assert wire.recv(100) == b"USING default\r\n"
        assert refused(web, "http", "per_address") == refused(web, "beanstalk", "per_address") == 1
        web.close()
        assert server.stop() == 0


def test_limit_of_an_address_can_change(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("[limits]\nper_address = none\n")
    with web_server(tmp_path / "store", "--config", str(conf)) as server:
        port = web_port(server)
        with raw(port) as first, raw(port) as second:
            second.sendall(get("/healthz"))
            assert read_answer(second.makefile("rb")).status == 200
            conf.write_text("[limits]\nper_address = 2\n")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("limits.per_address is now 2, was none")
            with raw(port) as third:  # those who were there count
                third.sendall(get("/v1/stats"))
                assert read_answer(third.makefile("rb")).status == 429
            first.sendall(get("/v1/stats"))
            assert read_answer(first.makefile("rb")).status == 200
        assert server.stop() == 0


# ---- how long ----


def test_each_wait_has_its_counter(tmp_path):
    with serve(tmp_path, header="2s", idle="3s") as server:
        port = web_port(server)
        with raw(port) as head, raw(port) as body, raw(port) as idle:
            head.sendall(b"GET / HTT")
            body.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 9\r\n\r\nx")
            for wire in (head, body):
                answer = read_answer(wire.makefile("rb"))
                assert (answer.status, answer.code) == (408, "too_slow")
            assert idle.recv(10) == b""
        stats = Web(port).get("/v1/stats").json["refused"]["http"]
        assert {name: count for name, count in stats.items() if count} == {
            "header": 1, "slow_body": 1, "idle": 1}
        assert server.stop() == 0


def test_a_body_that_trickles_is_refused(tmp_path):
    """Each byte comes in time, and yet it would take for ever; one that is quick enough is taken."""
    with serve(tmp_path, idle="3s", body_rate=1000) as server:
        port, size = web_port(server), 60000
        head = b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % size
        with raw(port) as slow, raw(port) as quick:
            start = time.monotonic()
            slow.sendall(head)
            quick.sendall(head)
            sent, answer = 0, None
            slow.settimeout(0.05)
            while answer is None and time.monotonic() - start < PATIENCE_S:
                slow.sendall(b"x")  # 20 bytes a second
                if sent < size - 1000:
                    quick.sendall(b"y" * 500)  # 10,000 bytes a second
                    sent += 500
                try:
                    answer = slow.recv(4096)
                except TimeoutError:
                    pass
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert 2.5 < time.monotonic() - start
            quick.sendall(b"y" * (size - sent))
            assert read_answer(quick.makefile("rb")).status == 201
        assert refused(Web(port), "http", "slow_body") == 1
        assert server.stop() == 0


def glut(wire, request):
    """Asks again and again and reads nothing, until no more is taken."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.setblocking(False)
    stuck = time.monotonic()
    while time.monotonic() - stuck < 0.3:
        try:
            wire.send(request)
            stuck = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except (BrokenPipeError, ConnectionResetError):
            return


def test_who_does_not_read_is_closed(tmp_path):
    with serve(tmp_path, idle="1s", unread="1s") as server:
        port, beanstalk = web_port(server), server.port()
        web = Web(port)
        id = web.push("t", b"x" * 60000)["id"]
        with raw(port) as wire, Client(beanstalk) as client:
            glut(wire, get(f"/v1/jobs/{id}") * 100)
            glut(client.socket, b"peek %d\r\n" % int(id) * 100)
            until(lambda: refused(Web(port), "http", "unread") == 1)  # the other may be idle
            until(lambda: refused(Web(port), "beanstalk", "unread") == 1)
        assert Web(port).get("/v1/stats").json["connections"]["beanstalk"] == 0
        web.close()
        assert server.stop() == 0


def test_who_has_no_token_keeps_no_place(tmp_path):
    """With tokens a beanstalk client has the time of a head to say who it is; then it may be idle."""
    digest = hashlib.sha256(b"secret").hexdigest()
    with web_server(tmp_path / "store", "--set", f"tokens.a=admin * sha256:{digest}",
                    "--set", "limits.header=3s") as server:
        port = web_port(server)
        with Client(server.port()) as silent, Client(server.port()) as wrong, Client(server.port()) as known:
            assert known.say("auth secret") == "AUTHENTICATED"
            assert wrong.say("auth nonsense") == "UNAUTHORIZED"
            for stranger in (silent, wrong):
                with pytest.raises((EOFError, ConnectionResetError)):
                    stranger.more()
            assert known.say("auth nonsense") == "UNAUTHORIZED"  # it was somebody
            assert known.say("auth secret") == "AUTHENTICATED"
            answer = Web(port).ask("GET", "/metrics", headers={"Authorization": "Bearer secret"})
            assert 'tarry_connections_refused_total{port="beanstalk",reason="auth"} 2' in answer.body.decode()
        assert server.stop() == 0


def test_beanstalk_clients_may_be_idle(tmp_path):
    """As with beanstalkd: neither silence nor half a command ends a connection."""
    with serve(tmp_path, header="100ms", idle="200ms", unread="200ms") as server:
        with Client(server.port()) as silent, Client(server.port()) as half, \
                Client(server.port()) as waits:
            half.send("put 0 0 60 5\r\nab")
            waits.send("reserve-with-timeout 1\r\n")
            assert waits.reply().word == "TIMED_OUT"
            assert silent.say("list-tube-used") == "USING default"
            half.send("cde\r\n")
            assert half.reply().word == "INSERTED"
        assert server.stop() == 0


# ---- how much ----


def rss(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def begin_batch(port, size):
    """Sends all of a batch of many jobs but its last byte."""
    wire = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    wire.sendall(b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Type: application/x-ndjson\r\n"
                 b"Content-Length: %d\r\n\r\n" % (size + 1))
    try:
        wire.sendall(b" " * size)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return wire


def test_bodies_of_all_together_are_bounded(tmp_path):
    """Two batches of 24 MiB fit into 64; the third is refused, at once and in words; when they are
    gone there is room again."""
    with serve(tmp_path, buffers="64MiB") as server:
        port = web_port(server)
        web = Web(port)
        web.push("t", b"x")
        before = rss(server)
        held = [begin_batch(port, 24 * MIB) for _ in range(2)]
        until(lambda: web.get("/v1/stats").json["connections"]["buffer_bytes"] >= 48 * MIB)
        third = begin_batch(port, 24 * MIB)
        answer = read_answer(third.makefile("rb"))
        assert (answer.status, answer.code) == (503, "no_memory")
        with raw(port) as wire:  # who asks before he sends it need not send it
            wire.sendall(b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 30000000\r\n"
                         b"Expect: 100-continue\r\n\r\n")
            assert read_answer(wire.makefile("rb")).status == 503
        assert web.push("t", b"small ones go on")["id"]
        assert rss(server) - before < 80 * MIB or sanitized()
        print(f"buffers rss_grown_bytes={rss(server) - before}")
        assert refused(web, "http", "buffers") == 2
        for wire in [third, *held]:
            wire.close()
        until(lambda: web.get("/v1/stats").json["connections"]["buffer_bytes"] < MIB)
        line = json.dumps({"topic": "m", "body": "x" * 100000}).encode() + b"\n"
        answer = web.ask("POST", "/v1/jobs", line * 240, headers={"Content-Type": "application/x-ndjson"})
        assert len(answer.json["results"]) == 240
        web.close()
        assert server.stop() == 0


@pytest.mark.skipif(sanitized(), reason="it is about memory")
def test_who_reads_nothing_gives_memory_to_others(tmp_path):
    """300 gluttons would hold some 100 MB; the budget is 64: those who read nothing go first, and a
    client that reads is served all the time."""
    count = 300
    with serve(tmp_path, buffers="64MiB", idle="60s", unread="60s") as server:
        port, beanstalk = web_port(server), server.port()
        web = Web(port)
        id = int(web.push("t", b"x" * 60000)["id"])
        before = rss(server)
        gluttons = []
        for _ in range(count):
            client = Client(beanstalk)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.socket.settimeout(0.01)
            gluttons.append(client)
            try:
                for _ in range(40):
                    client.send(b"peek %d\r\n" % id * 20)
            except (TimeoutError, BrokenPipeError, ConnectionResetError):
                pass
            assert web.get("/healthz").status == 200
        until(lambda: refused(web, "beanstalk", "buffers") > 0)
        used = web.get("/v1/stats").json["connections"]["buffer_bytes"]
        print(f"gluttons={count} closed={refused(web, 'beanstalk', 'buffers')} buffer_bytes={used} "
              f"rss_grown_bytes={rss(server) - before}")
        assert used <= 64 * MIB
        assert web.get(f"/v1/jobs/{id}").json["body"] == "x" * 60000
        for client in gluttons:
            client.close()
        web.close()
        assert server.stop() == 0
