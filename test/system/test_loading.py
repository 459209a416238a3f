"""While a store is being opened somebody answers: alive, not ready, come again. strace makes the reads of the
store slow, so that opening a small one takes some seconds."""
import contextlib
import os
import select
import shutil
import signal
import socket

import pytest

from client import Client
from harness import PATIENCE_S, Server, sanitized, tool
from ports import free_port
from web import Web, read_answer

pytestmark = pytest.mark.skipif(shutil.which("strace") is None or sanitized(), reason="no strace")

PUSH = b"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"


class Slow(Server):
    """The first reads take their time, and what is sent may, too."""

    def __init__(self, data, reads, each_ms=300, send_ms=0):
        self.web, self.beanstalk = free_port(), free_port()
        super().__init__(data, "--http", f"127.0.0.1:{self.web}", "--beanstalk", f"127.0.0.1:{self.beanstalk}",
                         before=["strace", "-f", "-o", "/dev/null", "-e", "trace=pread64,sendto", "-e",
                                 f"inject=pread64:delay_enter={each_ms * 1000}:when=1..{reads}", "-e",
                                 f"inject=sendto:delay_enter={send_ms * 1000}"])

    def signal(self, number):
        """To tarry, not to strace."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(children, encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), number)


def not_ready(port, code):
    answer = Web(port).get("/readyz")
    assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0
    assert [reason["code"] for reason in answer.json["reasons"]] == [code]
    assert answer.code == "not_ready"


def test_who_asks_while_it_loads(tmp_path):
    data = tmp_path / "store"
    tool(data, "push", 50)
    with Slow(data, reads=14, each_ms=800) as server, raw_late(server) as early, Client(server.beanstalk) as client:
        client.send("list-tube-used\r\n")
        web = Web(server.web)
        assert web.get("/healthz").json["ok"] is True
        not_ready(server.web, "loading")
        assert web.get("/nothing").status == 404
        assert web.get("/openapi.json").status == 200
        answer = read_answer(early)  # it waited for a second, in vain
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "loading", "1")
        for path in ("/v1/stats", "/v1/config", "/metrics", "/v1/jobs/1"):
            assert web.get(path).code == "loading"  # now at once
        assert not select.select([client.socket], [], [], 0.1)[0]  # has no word for it: it waits
        assert "ready in" not in server.said
        server.signal(signal.SIGUSR1)  # is done when it can be
        assert server.ready()[0] == 50
        assert client.reply().word == "USING"
        server.wait_for("draining: no new jobs")
        not_ready(server.web, "draining")
        assert web.get("/v1/jobs/1").status == 200
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
    assert len(tool(data, "list")) == 50


def raw_late(server):
    """The stream of a client that pushes as soon as there is somebody."""
    server.wait_for("data in")
    wire = socket.create_connection(("127.0.0.1", server.web), timeout=PATIENCE_S)
    wire.sendall(PUSH)
    stream = wire.makefile("rb")
    wire.close()  # the stream keeps it
    return stream


def test_stop_while_it_loads(tmp_path):
    """Who waits is told so, and the store is none the worse for it."""
    data = tmp_path / "store"
    tool(data, "push", 50)
    with Slow(data, reads=1000) as server, raw_late(server) as early:
        not_ready(server.web, "loading")
        server.signal(signal.SIGHUP)
        server.signal(signal.SIGTERM)
        answer = read_answer(early)
        assert (answer.status, answer.code) == (503, "loading")
        assert server.ended() == 0
        assert "stopped before it was ready\n" in server.said
        assert "ready in" not in server.said and "config read again" not in server.said
    with Server(data) as server:
        assert server.ready()[0] == 50
        assert server.stop() == 0


def test_all_who_wait_hear_of_a_stop(tmp_path):
    """Who opens the store gives up before all of them are told."""
    data = tmp_path / "store"
    tool(data, "push", 50)
    with Slow(data, reads=1000, each_ms=100, send_ms=5) as server, contextlib.ExitStack() as all_of_them:
        waiting = [all_of_them.enter_context(raw_late(server)) for _ in range(100)]
        not_ready(server.web, "loading")
        server.signal(signal.SIGTERM)
        answers = [read_answer(early) for early in waiting]
        assert [answer and (answer.status, answer.code) for answer in answers] == [(503, "loading")] * 100
        assert server.ended() == 0
